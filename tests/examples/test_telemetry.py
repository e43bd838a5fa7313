"""The survey of a million people at reduced size: the truth beside every estimate, as text, JSON and a page."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.report.structure import check_page

from examples import telemetry
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.io.surveys import read_survey

PEOPLE = 5000


@pytest.fixture(scope="module")
def outcome() -> telemetry.Outcome:
    return telemetry.run(PEOPLE, SeededStreamNotForPeople(7))


def test_eight_questions_of_every_kind() -> None:
    questions = read_survey(telemetry.FILE).schema.questions
    assert len(questions) == 8
    assert {one.kind for _, one in questions.items} == {"choice", "flag", "scale", "number", "cross"}


def test_the_plan_meets_the_budget(outcome: telemetry.Outcome) -> None:
    assert outcome.plan.guarantee.meets(telemetry.BUDGET)
    assert outcome.plan.n == outcome.estimate.n == PEOPLE
    assert outcome.messages > PEOPLE * len(outcome.plan.schema.attributes)


def test_intervals_contain_the_truth(outcome: telemetry.Outcome) -> None:
    """At 95 % each, 5 or more of 27 figures are missed with a probability of 1 %, and by this seed fewer."""
    assert len(outcome.lines) == 27
    assert sum(not line.covered for line in outcome.lines) < 5
    counts = {line.item: line.truth for line in outcome.lines if line.question == "channel"}
    assert sum(counts.values()) == PEOPLE
    cells = [line.truth for line in outcome.lines if line.question == "channel × crashed"]
    assert sum(cells) == PEOPLE


def test_a_wrong_truth_would_be_noticed(outcome: telemetry.Outcome) -> None:
    missed = [line for line in outcome.lines if not line.low <= line.truth + 12 * (line.high - line.low) <= line.high]
    assert len(missed) == len(outcome.lines)


def test_people_depend_on_each_other() -> None:
    answers = telemetry.people(20_000, SeededStreamNotForPeople(3))
    crashed = {name: answers["crashed"][answers["channel"] == name].mean() for name in ("release", "nightly")}
    assert crashed["nightly"] > 3 * crashed["release"]
    assert np.corrcoef(np.log(answers["load time"]), np.log(answers["memory"]))[0, 1] > 0.2
    assert (answers["open tabs"] >= 1).all()


@pytest.mark.long
def test_page_and_command(outcome: telemetry.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_page(telemetry.page(outcome), 8)
    monkeypatch.setattr(telemetry, "run", lambda n, entropy: outcome)
    target = tmp_path / "page.html"
    told = CliRunner().invoke(telemetry.main, ["--people", "5000", "--seed", "1", "-o", str(target)])
    assert told.exit_code == 0, told.output
    assert "of 27 intervals contain the truth" in told.stdout
    assert target.exists()
    record = json.loads(CliRunner().invoke(telemetry.main, ["--json"]).stdout)
    assert record["people"] == PEOPLE
    assert len(record["lines"]) == 27
