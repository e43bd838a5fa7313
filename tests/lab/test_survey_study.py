"""A study of a survey: populations of answers, simulated errors of every question, and their coverage."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import InvalidInput
from hubbub.lab import cells
from hubbub.lab.answers import decoded, draw_answers, encoded, true_figures
from hubbub.lab.cells import Level, Row, contradictions, level_of
from hubbub.lab.populations import GivenPopulation, Population
from hubbub.lab.simulation import tallies_by_counts, tallies_by_records
from hubbub.lab.study import Grid, Results, run, study_page
from hubbub.mechanisms.errors import QuestionError, predicted_errors
from hubbub.model.protocol import Noise

SCHEMA = hb.Schema.survey(
    {
        "colour": hb.Choice(["red", "green", "blue"], missing=True),
        "dark mode": hb.Flag(),
        "load time": hb.Scale(0, 64, buckets=16, levels=[4, 1]),
        "memory": hb.Number(0, 100, digits=[4, 4, 4]),
        "colour × dark mode": hb.Cross("colour", "dark mode"),
    },
    derived=["dark mode"],
)
N = 400


def plan_of(kind: str, schema: hb.Schema = SCHEMA) -> hb.Plan:
    noise = {
        "shuffler": Noise(m=hb.Fakes.laplace(16.0, 200)),
        "gaussian": Noise(m=hb.Fakes.gaussian(20.0, 130)),
        "users": Noise(m=hb.Fakes.poisson(5.0)),
        "flips": Noise(0.05),
        "responses": Noise(0.01),
    }[kind]
    release = "category" if kind == "responses" else "bits"
    protocol = hb.Protocol.survey([noise] * len(schema.attributes), release)  # type: ignore[arg-type]
    # Errors are studied, not privacy: the guarantee that everything has.
    guarantee = hb.plan_from(hb.Schema.bits(1), N, hb.Protocol(0.1), epsilon=1.0).guarantee
    return hb.Plan(schema=schema, n=N, protocol=protocol, guarantee=guarantee, stderr=1.0)


POPULATIONS = (Population(), Population(exponent=1.0), Population(exponent=10.0))
"""Uniform, skewed, and nearly constant answers."""


def rows_of(kind: str, level: Level, repetitions: int = 60) -> list[Row]:
    return run(Grid(plans=(plan_of(kind),), populations=POPULATIONS, repetitions=repetitions, level=level, seed=1))


@pytest.mark.parametrize("kind", ["shuffler", "gaussian", "users", "flips", "responses"])
def test_predictions_hold(kind: str) -> None:
    rows = rows_of(kind, "counts")
    assert len(rows) == len(POPULATIONS) * 5
    assert contradictions(rows) == []
    if kind != "responses":  # their predicted error is the largest over all data
        ratios = [row.ratio for row in rows if "memory" not in row.schema]
        assert 0.7 < min(ratios) <= max(ratios) < 1.4
    assert min(row.coverage for row in rows) > 0.85
    assert {row.schema.rpartition(": ")[2] for row in rows} == set(SCHEMA.questions.names)


@pytest.mark.long
def test_both_levels_give_the_same_errors() -> None:
    for kind in ("shuffler", "flips"):
        one, two = rows_of(kind, "records", 40), rows_of(kind, "counts", 40)
        for a, b in zip(one, two, strict=True):
            assert a.ratio_low < 1.25 * b.ratio_high
            assert b.ratio_low < 1.25 * a.ratio_high
            assert a.predicted == b.predicted


def test_too_little_noise_is_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study finds estimates whose errors are twice the predicted ones."""

    real = predicted_errors

    def half(schema: hb.Schema, protocol: hb.Protocol, n: int) -> list[QuestionError]:
        return [replace(one, people=one.people / 2) for one in real(schema, protocol, n)]

    monkeypatch.setattr(cells, "predicted_errors", half)
    wrong = contradictions(rows_of("gaussian", "counts"))
    assert {what for _, what in wrong} == {"error"}
    assert len(wrong) == len(POPULATIONS) * 5


def test_counts_are_distributed_like_records() -> None:
    answers = draw_answers(Population(exponent=1.0), SCHEMA, N, entropy=SeededStreamNotForPeople(1))
    people = encoded(answers, SCHEMA, entropy=SeededStreamNotForPeople(2))
    for kind in ("shuffler", "users", "flips", "responses"):
        plan = plan_of(kind)
        one = [tally.counts for tally in tallies_by_records(people, plan, 60, entropy=SeededStreamNotForPeople(3))]
        two = [
            tally.counts
            for tally in tallies_by_counts(people.counts(), N, plan, 600, entropy=SeededStreamNotForPeople(4))
        ]
        mean, spread = np.mean(two, axis=0), np.std(two, axis=0) + 0.5
        assert np.abs((np.mean(one, axis=0) - mean) / spread).max() < 5 / np.sqrt(60)
        assert np.median(np.std(one, axis=0) / np.maximum(np.std(two, axis=0), 0.3)) == pytest.approx(1, abs=0.25)


def test_counts_of_every_attribute_add_up() -> None:
    counts = np.zeros(SCHEMA.width, np.int64)
    counts[0] = N
    with pytest.raises(InvalidInput, match="one label of each attribute"):
        next(tallies_by_counts(counts, N, plan_of("flips"), 1, entropy=SeededStreamNotForPeople(1)))


def test_bits_and_labels_have_populations_of_their_own() -> None:
    for draw in (Population().people, Population().counts):
        with pytest.raises(InvalidInput, match="not be that of a survey"):
            draw(SCHEMA, 10, entropy=SeededStreamNotForPeople(1))


def test_records_give_back_their_answers() -> None:
    answers = draw_answers(Population(exponent=1.0), SCHEMA, N, entropy=SeededStreamNotForPeople(1))
    found = decoded(encoded(answers, SCHEMA, entropy=SeededStreamNotForPeople(2)))
    for name, one in answers.items():
        assert (found[name].absent == one.absent).all()
        assert (found[name].codes == np.where(one.absent, 0, one.codes)).all()
        assert np.abs(found[name].shares - one.shares).max() <= 1 / 63  # one step of rounding
    exact, rounded = true_figures(answers, SCHEMA), true_figures(found, SCHEMA)
    assert exact["colour"].sum() == exact["colour × dark mode"].sum() == N
    assert exact["dark mode"].tolist() == exact["colour × dark mode"].reshape(4, 2).sum(axis=0).tolist()
    assert all((exact[name] == rounded[name]).all() for name in exact if name != "memory")


def test_given_people_are_studied() -> None:
    values = {"colour": ["red"] * N, "dark mode": [True] * N, "load time": [7.0] * N, "memory": [25.0] * N}
    people = GivenPopulation.of(hb.Collection.from_values(values, SCHEMA))
    rows = run(Grid(plans=(plan_of("gaussian"),), populations=(people,), repetitions=40, level="counts"))
    assert len(rows) == 5
    assert contradictions(rows) == []


def test_results_are_reused_and_shown(tmp_path: Path) -> None:
    from pathlib import Path

    place = Path(str(tmp_path)) / "study.jsonl"
    grid = Grid(plans=(plan_of("gaussian"),), repetitions=20, level="counts")
    first = run(grid, Results.open(place))
    assert run(grid, Results.open(place)) == first
    page = study_page(first)
    assert "load time" in page
    assert level_of(plan_of("gaussian"), 10**8, 50) == "counts"
