"""Audits and studies of strings: honest programs pass, planted faults are found, predictions hold."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import InvalidInput
from hubbub.lab.audit import results as page
from hubbub.lab.audit.commands import ClientCommand, ShufflerCommand, library_client, spell_values
from hubbub.lab.audit.strings import probes
from hubbub.lab.audit.trial import audit
from hubbub.lab.cells import contradictions
from hubbub.lab.populations import GivenPopulation, Population
from hubbub.lab.study import Grid, run
from hubbub.model.questions import Text
from hubbub.pipeline.rows import counted, from_counts

PLAN = hb.plan(hb.Schema.strings(24), 2000, epsilon=2.0, delta=1e-6, trust="shuffler-noise")
DRAWN = PLAN.protocol.m
assert isinstance(DRAWN, hb.Fakes)


def altered(drawn: hb.Fakes) -> Callable[[hb.Reports], hb.Reports]:
    """A shuffler that subtracts from another distribution than planned."""
    other = hb.plan_from(PLAN.schema, PLAN.n, hb.Protocol(0, m=drawn, release="strings"), epsilon=2.0)

    def shuffle(reports: hb.Reports) -> hb.Reports:
        return replace(hb.shuffle(replace(reports, plan=other)), plan=PLAN)

    return shuffle


def everything(reports: hb.Reports) -> hb.Reports:
    """A shuffler that passes on exact counts."""
    counts = {body: number for body, number in counted(reports.blocks).items() if body[0]}
    return replace(reports, messages=from_counts(counts.items(), Text(24)), shuffled=True)


def seeded(reports: hb.Reports) -> hb.Reports:
    return hb.shuffle(reports, entropy=SeededStreamNotForPeople(1))


def foreign(reports: hb.Reports) -> hb.Reports:
    mixed = hb.shuffle(reports)
    row = from_counts([(Text(24).encode("nobody"), 3)], Text(24))
    return replace(mixed, messages=np.concatenate([mixed.messages, row]))


def arrival(reports: hb.Reports) -> hb.Reports:
    mixed = hb.shuffle(reports)
    return replace(mixed, messages=np.ascontiguousarray(mixed.messages[::-1]))


def test_honest_programs_pass() -> None:
    found = audit(PLAN, library_client, hb.shuffle)
    assert found.passed, found.sentence()
    assert len(found.findings) == 9
    assert "PASS" in found.sentence()
    assert "strings" in page.page(found)
    assert len(page.record(found)["tests"]) == 9


@pytest.mark.parametrize(
    ("shuffler", "name"),
    [
        (altered(hb.Fakes.laplace(DRAWN.scale, DRAWN.shift - 1)), "mean of what is subtracted"),
        (altered(hb.Fakes.laplace(DRAWN.scale / 2, DRAWN.shift)), "distribution of what is subtracted"),
        (altered(hb.Fakes.laplace(DRAWN.scale, 1)), "strings of one person shown"),
        (everything, "strings of one person shown"),
        (seeded, "repeated draws"),
        (foreign, "rows that nobody sent"),
        (arrival, "order of the rows"),
    ],
)
def test_faulty_shufflers_are_found(shuffler: Callable[[hb.Reports], hb.Reports], name: str) -> None:
    found = audit(PLAN, None, shuffler)
    assert not found.passed
    assert name in [one.name for one in found.violations]
    assert found.diagnoses
    assert "FAIL" in found.sentence()


def lazy(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
    """A client that sends the first person's string for everybody."""
    sent = library_client(collection, plan)
    return replace(sent, messages=np.repeat(sent.messages[:1], len(sent), axis=0))


def doubled(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
    sent = library_client(collection, plan)
    rows = sent.messages.copy()
    rows[:, 0] = 2
    return replace(sent, messages=rows)


@pytest.mark.parametrize(("client", "name"), [(lazy, "rows that differ"), (doubled, "rows of several people")])
def test_faulty_clients_are_found(client: Callable[..., hb.Reports], name: str) -> None:
    found = audit(PLAN, client, None)
    assert name in [one.name for one in found.violations]


def test_large_batches_and_short_strings() -> None:
    large = hb.plan(hb.Schema.strings(24), 10**7, epsilon=2.0, delta=1e-6, trust="shuffler-noise")
    found = audit(large, library_client, hb.shuffle)
    assert found.passed
    assert any("too large" in note for note in found.notes)
    short = hb.plan(hb.Schema.strings(1, cut=True), 100, epsilon=2.0, delta=1e-6, trust="shuffler-noise")
    assert audit(short, library_client, hb.shuffle, runs=100).passed


@pytest.mark.long
def test_commands_are_audited(tmp_path: Path) -> None:
    plan = hb.plan(hb.Schema.strings(9, cut=True), 100, epsilon=2.0, delta=1e-6, trust="shuffler-noise")
    place = tmp_path / "plan.json"
    place.write_text(plan.to_json())
    words = (sys.executable, "-c", "from hubbub.cli import main; main()")
    client = ClientCommand((*words, "randomize", "-", "--plan", str(place), "-o", "-"))
    shuffler = ShufflerCommand((*words, "shuffle", "-", "--plan", str(place), "-o", "-"))
    assert audit(plan, client, shuffler, runs=100).passed
    values = hb.Collection.from_values(probes(plan), plan.schema)
    assert spell_values(values).startswith(b"string\n")


@pytest.mark.parametrize("level", [pytest.param("records", marks=pytest.mark.long), "counts"])
def test_predictions_hold_in_a_study(level: str) -> None:
    people = Population(exponent=1.0), Population(exponent=1.0, segments=4, lift=4.0)
    grid = Grid(plans=(PLAN,), sizes=(3000,), populations=people, repetitions=40, level=level)  # type: ignore[arg-type]
    rows = run(grid)
    assert len(rows) == 2
    assert contradictions(rows) == []
    for row in rows:
        assert 0.8 < row.ratio < 1.2
        assert row.coverage > 0.94
        assert row.release == "strings"


def test_given_people_and_errors_of_a_study() -> None:
    values = ["often"] * 1500 + ["rare"] * 10 + [None] * 490
    people = GivenPopulation.of(hb.Collection.from_values(values, PLAN.schema))
    (row,) = run(Grid(plans=(PLAN,), sizes=(2000,), populations=(people,), repetitions=20, level="records"))
    assert row.width == 1
    assert 0.4 < row.ratio < 1.8
    nothing = GivenPopulation.of(hb.Collection.from_values([None] * 2000, PLAN.schema))
    with pytest.raises(InvalidInput, match="held by enough people"):
        run(Grid(plans=(PLAN,), sizes=(2000,), populations=(nothing,), repetitions=20))


@pytest.mark.long
def test_a_study_that_predicts_wrongly_is_contradicted() -> None:
    """The control: with a claimed error that is half of the true one, the study says so."""
    (row,) = run(Grid(plans=(PLAN,), sizes=(3000,), populations=(Population(exponent=1.0),), repetitions=40))
    wrong = replace(PLAN, stderr=PLAN.stderr / 2)
    (found,) = run(Grid(plans=(wrong,), sizes=(3000,), populations=(Population(exponent=1.0),), repetitions=40))
    assert contradictions([row]) == []
    assert "error" in [what for _, what in contradictions([found])]
