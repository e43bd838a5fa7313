"""Cells are reproducible, their intervals hold, and wrong predictions are detected."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.pipeline.points import POINTS, SCHEMAS, N, plan_of

import hubbub as hb
from hubbub.documents import Json
from hubbub.errors import InvalidInput, WireError
from hubbub.lab import cells
from hubbub.lab.cells import Cell, Level, Row, contradictions, level_of, measure
from hubbub.lab.populations import GivenPopulation, Population
from hubbub.lab.simulation import tallies_by_counts
from hubbub.pipeline.reports import Tally

ZIPF = Population(exponent=1.0)


def cell(plan: hb.Plan, seed: int = 0, repetitions: int = 50, level: Level = "counts") -> Cell:
    return Cell(plan=plan, population=ZIPF, n=N, repetitions=repetitions, level=level, seed=seed)


@cache
def rows_of(kind: str, name: str, number: int) -> list[Row]:
    return [measure(cell(plan_of(kind, name), seed)) for seed in range(number)]


def figures(row: Row) -> dict[str, Any]:
    return {name: value for name, value in asdict(row).items() if name != "seconds"}


@pytest.mark.parametrize("level", ["records", "counts"])
def test_cells_are_reproducible(level: Level) -> None:
    plan = plan_of("one_hot", "flip among Laplace fakes")
    first, second = (measure(cell(plan, 3, 20, level)) for _ in range(2))
    assert figures(first) == figures(second)
    assert measure(cell(plan, 4, 20, level)).observed != first.observed
    assert Row.read(first.record()) == first


def test_keys_are_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("one_hot", "flip")
    one = cell(plan)
    others = [
        cell(plan_of("one_hot", "split")),
        replace(one, population=Population()),
        replace(one, n=N + 1),
        replace(one, repetitions=51),
        replace(one, level="records"),
        replace(one, seed=1),
    ]
    keys = {one.key, *(other.key for other in others)}
    assert len(keys) == 7
    monkeypatch.setattr(cells, "__version__", "another")
    assert one.key not in keys


def test_all_plans_see_the_same_people() -> None:
    one, two = (cells._collected(cell(plan_of("one_hot", name)))[0][""] for name in ("flip", "split"))
    assert one.tolist() == two.tolist()


def test_both_levels_agree() -> None:
    plan = plan_of("at_most", "split copies among fakes")
    one, two = (measure(cell(plan, 0, 200, level)) for level in ("records", "counts"))
    assert one.predicted == two.predicted
    assert abs(one.ratio - two.ratio) < 0.08
    assert abs(one.released / two.released - 1) < 0.02
    assert not contradictions([one, two])


@pytest.mark.parametrize(("kind", "name"), POINTS)
def test_coverage_is_as_predicted(kind: str, name: str) -> None:
    row = measure(cell(plan_of(kind, name), 5, 300))
    assert 0.93 < row.coverage < 0.98
    assert row.coverage_low <= row.coverage <= row.coverage_high
    assert row.ratio_low <= row.ratio <= row.ratio_high
    assert not contradictions([row], 0.01 / len(POINTS))


@pytest.mark.long
@pytest.mark.parametrize("name", ["flip", "category", "clear among Laplace fakes", "split among binomial fakes"])
def test_intervals_of_the_results_hold(name: str) -> None:
    """95 % intervals of the ratio and p-values over 200 seeds; four standard errors of 5 % are 6 %."""
    rows = rows_of("one_hot", name, 200)
    assert 0.89 < np.mean([row.ratio_low <= 1 <= row.ratio_high for row in rows]) < 0.995
    for figure in ("p_error", "p_bias", "p_coverage", "p_simultaneous"):
        assert np.mean([getattr(row, figure) < 0.05 for row in rows]) < 0.11
    assert np.mean([row.coverage_high >= 0.95 for row in rows]) > 0.95
    assert len(contradictions(rows)) <= 1


@pytest.mark.long
def test_correlated_labels_are_not_treated_as_independent() -> None:
    """The errors of two categories are opposite; treated as independent, intervals would miss too often."""
    schema = hb.Schema.one_hot(2)
    plan = hb.plan_from(schema, N, hb.Protocol(0.1, release="category"), epsilon=3.0)
    rows = [measure(cell(plan, seed)) for seed in range(300)]
    # Of 900 other cells 93.9 % held, so that 300 of them vary by 1.4 %.
    held = np.mean([row.ratio_low <= 1 <= row.ratio_high for row in rows])
    assert held > 0.885
    naive = [cells._compared(row.ratio**2, 100.0)[0] for row in rows]
    assert np.mean([low <= 1 <= high for _, low, high in naive]) < held - 0.05


@pytest.mark.parametrize("factor", [0.9, 1.12])
def test_wrong_prediction_is_detected(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    right = cells._predicted
    monkeypatch.setattr(cells, "_predicted", lambda *given: factor * right(*given))
    row = measure(cell(plan_of("bits", "flip"), 0, 300))
    assert "error" in [what for _, what in contradictions([row])]


@pytest.mark.parametrize("q", [0.19, 0.21])
def test_other_noise_is_detected(q: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("bits", "flip")
    other = hb.plan_from(plan.schema, N, hb.Protocol(q), epsilon=3.0)

    def other_noise(truth: Any, n: int, own: hb.Plan, times: int, *, entropy: Any) -> Iterator[Tally]:
        return (replace(one, plan=own.id) for one in tallies_by_counts(truth, n, other, times, entropy=entropy))

    monkeypatch.setattr(cells, "tallies_by_counts", other_noise)
    row = measure(replace(cell(plan, 0, 50), n=100 * N))
    assert "bias" in [what for _, what in contradictions([row])]


def test_short_intervals_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = hb.LabelView.interval
    monkeypatch.setattr(hb.LabelView, "interval", lambda self, _, **rest: right(self, 0.9, **rest))
    row = measure(cell(plan_of("bits", "copies"), 0, 1000))
    assert "coverage" in [what for _, what in contradictions([row])]
    assert row.p_simultaneous < 0.01


def test_larger_batches_and_given_populations() -> None:
    plan = plan_of("bits", "flip")
    row = measure(replace(cell(plan, 0, 20), n=4 * N))
    assert row.n == 4 * N
    assert row.promised == pytest.approx(2 * plan.stderr)
    people = hb.Collection.from_values(np.eye(3, dtype=np.uint8)[np.arange(N) % 3], plan.schema)
    for level in ("records", "counts"):
        given = measure(replace(cell(plan, 0, 50, level), population=GivenPopulation.of(people)))
        assert given.population.startswith("given:")
        assert not contradictions([given])


@pytest.mark.long
def test_records_if_they_are_cheap() -> None:
    assert level_of(plan_of("bits", "flip"), 10**4, 50) == "records"
    assert level_of(plan_of("bits", "flip"), 10**9, 50) == "counts"
    crowded = hb.plan_from(SCHEMAS["bits"], N, hb.Protocol(0.1, m=10**9), epsilon=3.0)
    assert level_of(crowded, N, 50) == "counts"
    drawn = hb.plan_from(hb.Schema.bits(14), N, hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 30)), epsilon=3.0)
    assert level_of(drawn, N, 50) == "counts"


@pytest.mark.parametrize("wrong", [{"repetitions": 9}, {"n": 0}, {"seed": -1}, {"level": "guess"}])
def test_invalid_cells(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        replace(cell(plan_of("bits", "flip")), **wrong)


def test_invalid_rows() -> None:
    good = measure(cell(plan_of("bits", "flip"), 0, 20)).record()
    less = {name: value for name, value in good.items() if name != "n"}
    damaged: list[Json] = [{}, [], {**good, "ratio": "much"}, {**good, "n": 1.5}, less]
    for bad in damaged:
        with pytest.raises(WireError):
            Row.read(bad)
