"""The command, the Python code and the survey file of the page make the plan that the page shows."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import call
from tests.studio.conftest import INQUIRY, QUESTIONS

import hubbub as hb
from hubbub.studio import work
from hubbub.studio.inquiry import Inquiry
from hubbub.studio.spelling import survey_file

CASES: list[tuple[dict[str, Any], str]] = [
    ({}, "split"),
    ({}, "clear-shuffler-fakes"),
    ({"kind": "any", "d": 1, "epsilon": 0.35, "compromised": 10}, "flip"),
    ({"kind": "few", "d": 6, "k": 2, "trust": "nobody"}, "local-flip"),
    ({"kind": "few", "d": 6, "k": 2, "trust": "nobody"}, "clear-user-fakes"),
    ({"clear": True, "delta": 1e-8, "n": 20_000}, "clear-user-fakes"),
    ({"joint": True}, "local-flip"),
    ({"trust": "shuffler-noise", "rounds": 3}, "clear-shuffler-fakes"),
    ({"kind": "strings", "d": 32, "delta": 1e-8, "trust": "shuffler-noise"}, "strings"),
    ({"kind": "strings", "d": 64, "compromised": 10, "rounds": 3}, "strings"),
    ({"kind": "survey", "questions": QUESTIONS}, "local-response"),
    ({"kind": "survey", "questions": [QUESTIONS[0], QUESTIONS[2]], "trust": "shuffler-noise"}, "clear-shuffler-fakes"),
    ({"kind": "survey", "questions": [{"name": 'a "b" \\ é', "kind": "number", "low": 0.1, "high": 1e-1 + 1 / 3}]},
     "local-response"),
    ({"kind": "survey", "questions": [{"name": "mood 😀 日本", "kind": "choice", "labels": ["🙂", "é"]}]},
     "local-response"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "family"), CASES, ids=lambda one: str(one)[:60])
def test_the_same_plan(changes: dict[str, Any], family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = work.certify(Inquiry.from_document({**INQUIRY, **changes}), family, lambda: False)
    assert shown["state"] == "certified", shown
    monkeypatch.chdir(tmp_path)
    *head, line = shown["command"].splitlines()
    if head:
        assert (head[0], head[-1]) == ("cat > survey.toml <<'END'", "END")
        Path("survey.toml").write_text("\n".join(head[1:-1]), encoding="utf-8")
    program, *arguments = shlex.split(line)
    assert program == "hubbub"
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    assert hb.load_plan(Path("plan.json").read_text(encoding="utf-8")).id == shown["id"]
    names: dict[str, Any] = {}
    exec(shown["python"], names)
    assert names["plan"].id == shown["id"]


def test_survey_files() -> None:
    asked = Inquiry.from_document({**INQUIRY, "kind": "survey", "questions": QUESTIONS})
    assert hb.Survey.from_toml(survey_file(asked.schema)).schema == asked.schema
