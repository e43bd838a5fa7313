"""``hubbub verify``, ``study`` and ``audit`` with the plan of a survey."""

import json
from pathlib import Path

import pytest
from tests.checker.plans import forged
from tests.cli.conftest import Call

import hubbub as hb
from hubbub.cli.errors import CORRUPT, UNCONFIRMED
from hubbub.io.documents import write_plan
from hubbub.model.protocol import Noise

SCHEMA = hb.Schema.survey({"colour": hb.Choice(["red", "green", "blue"]), "memory": hb.Number(0, 100, digits=[4, 2])})
FAKES = hb.Protocol.survey([Noise(m=hb.Fakes.laplace(8.0, 110))] * 3)
RESPONSES = hb.Protocol.survey([Noise(0.1), Noise(0.1), Noise(0.2)], "category")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hb.Plan:
    """A plan in the working folder, as survey.json."""
    monkeypatch.chdir(tmp_path)
    made = hb.plan_from(SCHEMA, 200, FAKES, epsilon=1.0)
    write_plan(made, "survey.json")
    return made


def test_verify(plan: hb.Plan, run: Call) -> None:
    good = json.loads(run("verify", "survey.json", "--json").stdout)
    assert good["verdict"] == "confirmed"
    assert good["bound"] <= plan.guarantee.delta
    smaller = forged(plan, lambda one: one["protocol"]["noise"][1]["m"].update(shift=100))
    Path("forged.json").write_text(smaller, encoding="utf-8")
    assert run("verify", "forged.json").exit_code == CORRUPT
    write_plan(hb.plan_from(SCHEMA, 200, RESPONSES, delta=1e-6), "responses.json")
    unknown = run("verify", "responses.json")
    assert unknown.exit_code == UNCONFIRMED
    assert "randomized response between two answers only" in " ".join(unknown.stdout.split())


def test_study(plan: hb.Plan, run: Call) -> None:
    words = ("study", "--plan", "survey.json", "--population", "uniform", "--repetitions", "20", "--jobs", "1")
    found = json.loads(run(*words, "--level", "counts", "-o", "study.html", "--json").stdout)
    assert [row["schema"].rpartition(": ")[2] for row in found["rows"]] == ["colour", "memory"]
    assert found["contradictions"] == []
    assert "memory" in Path("study.html").read_text(encoding="utf-8")
    assert plan.id == found["rows"][0]["plan"]


def test_audit(plan: hb.Plan, run: Call) -> None:
    result = run("audit", "--plan", "survey.json", "--runs", "200", "--seed-runs", "0", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["verdict"], found["plan"]) == ("PASS", plan.id)
    assert "memory, attribute 2 of 2" in result.stdout
    refused = run("audit", "--plan", "survey.json", "--shuffler", "true")
    assert refused.exit_code == 2
    assert "Python callable for a survey" in refused.output
