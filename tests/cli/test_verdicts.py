"""The second opinion on pages of plans: kept by plan and checker, left out on demand, and never used by ``verify``."""

import json
from pathlib import Path

import pytest
from tests.checker.plans import scaled
from tests.cli.conftest import Call

import hubbub as hb
from hubbub import checker
from hubbub.cli import verdicts

BIT = hb.plan_from(hb.Schema.bits(1), 1000, hb.Protocol(0.1), delta=1e-6)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the plans that the checker was run on."""
    found: list[str] = []
    original = checker.verify

    def counted(text: str | bytes, **options: object) -> checker.Verdict:
        found.append(json.loads(text)["id"])
        return original(text, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(checker, "verify", counted)
    return found


def page(folder: Path, run: Call, *options: str) -> str:
    (folder / "bit.json").write_text(BIT.to_json())
    result = run("report", "bit.json", "-o", "report.html", *options)
    assert result.exit_code == 0, result.stderr
    return (folder / "report.html").read_text()


def kept(folder: Path) -> Path:
    (found,) = (folder.parent / "cache" / "hubbub" / "verdicts").iterdir()
    return found


def test_a_page_uses_the_verdict_that_is_kept_and_says_from_when(folder: Path, run: Call, runs: list[str]) -> None:
    assert "confirms the whole privacy claim (checked on 20" in page(folder, run)
    assert runs == [BIT.id]
    document = json.loads(kept(folder).read_text())
    kept(folder).write_text(json.dumps({**document, "day": "2001-02-03"}))
    assert "confirms the whole privacy claim (checked on 2001-02-03)" in page(folder, run)
    assert runs == [BIT.id]


def test_a_page_without_a_check_says_so(folder: Path, run: Call, runs: list[str]) -> None:
    assert "was not run for this page" in page(folder, run, "--no-check")
    assert runs == []


def test_verify_never_uses_what_is_kept(folder: Path, run: Call, runs: list[str]) -> None:
    text = scaled(BIT, 0.999)
    (folder / "false.json").write_text(text)
    run("verify", "false.json")
    document = json.loads(kept(folder).read_text())
    kept(folder).write_text(json.dumps({**document, "state": "confirmed", "parts": [["guarantee", "confirmed", ""]]}))
    assert run("verify", "false.json").exit_code == 4
    assert len(runs) == 2


@pytest.mark.parametrize("damage", ["not JSON", "{}", '{"plan": "another", "day": "2001-02-03", "state": "confirmed"}'])
def test_a_damaged_file_is_computed_again(folder: Path, run: Call, runs: list[str], damage: str) -> None:
    page(folder, run)
    kept(folder).write_text(damage)
    assert "(checked on 20" in page(folder, run)
    assert len(runs) == 2


def test_a_file_that_others_may_write_is_not_trusted(folder: Path, run: Call, runs: list[str]) -> None:
    page(folder, run)
    kept(folder).chmod(0o666)
    page(folder, run)
    assert len(runs) == 2


def test_another_checker_has_other_verdicts(
    folder: Path, run: Call, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page(folder, run)
    changed = folder / "checker"
    changed.mkdir()
    (changed / "__init__.py").write_text("# another source")
    monkeypatch.setattr(checker, "__file__", str(changed / "__init__.py"))
    page(folder, run)
    assert len(runs) == 2


def test_without_a_folder_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch, runs: list[str]) -> None:
    (folder / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    for _ in range(2):
        assert verdicts.known(BIT.to_json(), BIT.id)[0].state is checker.State.CONFIRMED
    assert len(runs) == 2


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, runs: list[str]) -> None:
    """Regression: the page of a user without a home, as in a container, failed with an internal error."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    verdict, _ = verdicts.known(BIT.to_json(), BIT.id)
    assert verdict.state is checker.State.CONFIRMED
    assert runs == [BIT.id]
