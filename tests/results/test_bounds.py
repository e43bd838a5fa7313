"""Figures at the bounds of what is possible: intervals have their ends in order, around the estimate."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from tests.results.simulated import Counts, estimate, levels, plausible, rounded, survey_plan

import hubbub as hb
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.results.compare import Difference
from hubbub.results.figures import BOTH

pytestmark = pytest.mark.pipeline
SCALE = Scale(0, 8, buckets=8, levels=[4, 1])
SPARSE = Scale(0, 8, buckets=8, levels=[4, 1], missing=True)
NOISE = ["Laplace fakes", "few Laplace fakes", "users' fakes", "flipped bits", "response"]
LEVELS = (0.5, 0.95, 0.9999)


def population(kind: str, n: int) -> np.ndarray:
    """Return n numbers between 0 and 100 at the bounds."""
    if kind == "two points":
        return np.where(np.arange(n) % 2 == 0, 0.0, 100.0)
    return np.full(n, {"low": 0.0, "high": 100.0, "missing": math.nan}[kind])


def surveyed(noise: str, n: int, kind: str, rng: np.random.Generator, *, missing: bool) -> hb.Result:
    """Return the estimate of a survey whose people all answer alike."""
    number = Number(0, 100, digits=[4, 4], missing=missing, variance=True)
    scale = SPARSE if missing else SCALE
    survey: dict[str, Question] = {
        "number": number, "scale": scale, "choice": Choice(list("abc")), "flag": Flag(),
        "both": Cross("choice", "flag"),
    }  # fmt: skip
    buckets = np.zeros(9, np.int64)
    buckets[{"low": 0, "high": 7, "missing": 8, "two points": 3}[kind]] = n
    chosen, flags = np.array([n, 0, 0]), np.array([0, n])
    cells = np.zeros(6, np.int64)
    cells[1] = n
    truth: list[Counts] = [*rounded(population(kind, n), number, rng)]
    truth += [*levels(buckets if missing else buckets[:8], scale), chosen, flags, cells]
    return estimate(survey_plan(survey, noise), truth, rng)


def intervals(found: hb.Result) -> Iterator[tuple[str, float, float, float]]:
    """Return all intervals of a survey: name, low end, possible value nearest to the estimate, high end."""
    for name, result in found.views:
        for level in LEVELS:
            if isinstance(result, hb.ScaleView | hb.NumberView):
                for one in result.figures():
                    for of in one.covers:
                        low, high = one.interval(level, of=of)
                        yield f"{name} {one.name} {of}", low, float(np.clip(one.value, *_possible(one, result))), high
            if isinstance(result, hb.ScaleView):
                for of in BOTH:
                    for low, high in zip(*result.band(level, of=of), strict=True):
                        yield f"{name} band {of}", low, low, high
            if isinstance(result, hb.LabelView | hb.CrossView):
                cells = result.cells if isinstance(result, hb.CrossView) else result
                for each in (cells, cells.consistent()):
                    for low, high, value in zip(*each.interval(level), each.unbiased, strict=True):
                        yield f"{name} people", low, float(np.clip(value, 0, each.n) if each.adjusted else value), high
                    for low, high, value in zip(*each.population(level), each.unbiased, strict=True):
                        yield f"{name} shares", low, float(np.clip(value / max(each.n, 1), 0, 1)), high


def _possible(one: hb.Figure, result: hb.ScaleView | hb.NumberView) -> tuple[float, float]:
    """Return the bounds of a figure."""
    if one.name == "answered":
        return 0.0, float(result.n)
    if isinstance(result, hb.ScaleView):
        return 0.0, 8.0
    return {"mean": (0.0, 100.0), "variance": (0.0, 2500.0), "sum": (-math.inf, math.inf)}[one.name]


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("missing", [False, True])
def test_every_interval_has_its_ends_in_order_around_the_estimate(noise: str, missing: bool) -> None:
    rng = np.random.default_rng(17)
    for n in (3, 20):
        for kind in ("low", "high", "two points", *(("missing",) if missing else ())):
            for _ in range(2):
                for name, low, value, high in intervals(surveyed(noise, n, kind, rng, missing=missing)):
                    assert low <= high, (name, n, kind)
                    if not name.startswith("number answered") and "answered people" not in name:
                        assert low - 1e-9 <= value <= high + 1e-9, (name, n, kind)


@pytest.mark.parametrize("missing", [False, True])
def test_differences_have_their_ends_in_order(missing: bool) -> None:
    rng = np.random.default_rng(18)
    for kinds in (("low", "low"), ("low", "high"), ("two points", "high")):
        a, b = (surveyed("Laplace fakes", 30, kind, rng, missing=missing) for kind in kinds)
        for _, result in hb.compare(a, b).questions:
            if isinstance(result, hb.LabelComparison):
                assert (result.low <= result.high).all()
                continue
            differences: list[Difference] = [*result.differences()]
            for one in differences:
                for of in one.covers:
                    low, high = one.interval(0.95, of=of)
                    assert low <= high, one.name
            if isinstance(result, hb.ScaleComparison):
                assert all((low <= high).all() for low, high in [result.band(), result.band(of="people")])


def numbers(noise: hb.Noise, n: int, times: int, *, missing: bool) -> Iterator[hb.NumberView]:
    """Estimate again and again the number of people who are all at the lower bound."""
    rng, question = np.random.default_rng(8), Number(0, 100, missing=missing, digits=[4, 4])
    plan = survey_plan({"x": question}, [noise] * (2 + missing))
    truth = rounded(np.zeros(n), question, rng)
    for _ in range(times):
        found = estimate(plan, truth, rng)["x"]
        assert isinstance(found, hb.NumberView)
        yield found


@pytest.mark.parametrize(
    ("noise", "n"), [(hb.Noise(m=hb.Fakes.laplace(2.0, 30)), 100), (hb.Noise(m=hb.Fakes.poisson(0.3)), 20)]
)
@pytest.mark.parametrize("missing", [False, True])
def test_the_population_of_a_number_at_its_bound_is_covered(noise: hb.Noise, n: int, missing: bool) -> None:
    """Regression: an estimate below the bound gave an interval above it, outside that of the collection."""
    held = []
    for found in numbers(noise, n, 300, missing=missing):
        inner, outer = found.mean.interval(), found.mean.interval(of="population")
        assert outer[0] <= inner[0] <= inner[1] <= outer[1]
        if found.mean.value < 0:
            assert outer[0] == 0
        held.append(outer[0] <= 0)
    assert plausible(held)


def test_intervals_of_higher_levels_are_wider() -> None:
    rng = np.random.default_rng(19)
    found = surveyed("Laplace fakes", 50, "low", rng, missing=True)["number"]
    assert isinstance(found, hb.NumberView)
    for one in (found.mean, found.variance):
        ends = [one.interval(level, of="population") for level in (0.5, 0.8, 0.95, 0.99)]
        assert all(b[0] <= a[0] <= a[1] <= b[1] for a, b in pairwise(ends))
