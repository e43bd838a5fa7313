"""Intervals of surveys cover as often as they promise: skewed, bimodal, constant and tiny data, for every noise.

Coverage is that of tallies drawn from the exact distributions. The fast tests fail if a coverage is proven to be below
its level; the slow ones draw 10⁴ times and fail unless it is proven to be at most 1 % below, both with 99.9 %
confidence. Intervals that err outwards have no ceiling.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.results.simulated import NOISE, enough, estimate, levels, one_label, plausible, rounded, survey_plan

import hubbub as hb
from hubbub.model.questions import Choice, Number, Scale

pytestmark = pytest.mark.pipeline
Floats = NDArray[np.float64]
FEW, MANY = 100, 10_000
Judge = Callable[[list[bool]], bool]

SHARES: dict[str, Floats] = {
    "skewed": np.arange(1, 17) ** -1.5 / np.sum(np.arange(1, 17) ** -1.5),
    "bimodal": np.r_[0.5, np.zeros(14), 0.5],
    "constant": np.eye(16)[4],
}
DRAWS: dict[str, tuple[Callable[[np.random.Generator, int], Floats], Callable[[int], float]]] = {
    "skewed": (lambda rng, n: rng.beta(0.3, 3, n), lambda n: 0.3 / 3.3),
    "bimodal": (lambda rng, n: rng.integers(0, 2, n).astype(np.float64), lambda n: 0.5),
    "constant": (lambda rng, n: np.full(n, 0.31), lambda n: 0.31),
    "one person expected": (lambda rng, n: (rng.random(n) < 1 / n).astype(np.float64), lambda n: 1 / n),
}
NUMBERS = {
    "plain": Number(0, 1, digits=[4, 4]),
    "with variance": Number(0, 1, digits=[4, 4], variance=True),
    "with missing answers": Number(0, 1, digits=[4, 4], missing=True),
}


def scale_coverage(noise: str, data: str, n: int, times: int, *, missing: bool = False) -> dict[str, list[bool]]:
    """Return for every draw whether the bands, and the intervals of all quantiles, hold."""
    question = Scale(0, 16, buckets=16, levels=[4, 1], missing=missing)
    plan, rng = survey_plan({"x": question}, noise), np.random.default_rng([21, n])
    held: dict[str, list[bool]] = {"people": [], "population": [], "median": []}
    absent = 0.2 if missing else 0.0
    for _ in range(times):
        people = rng.multinomial(n, np.r_[SHARES[data] * (1 - absent), absent])
        found = estimate(plan, levels(people if missing else people[:-1], question), rng)["x"]
        assert isinstance(found, hb.ScaleView)
        below = np.cumsum(people[:15]) / max(people[:16].sum(), 1)
        for of, truth in (("people", below), ("population", np.cumsum(SHARES[data])[:-1])):
            low, high = found.band(of=of)  # type: ignore[arg-type]
            held[of].append(bool(((low <= truth + 1e-9) & (truth <= high + 1e-9)).all()))
        low_end, high_end = found.median.interval()
        bucket = int(np.searchsorted(below, 0.5))
        held["median"].append(low_end <= bucket + 1 and bucket <= high_end)
    return held


def number_coverage(noise: str, kind: str, data: str, n: int, times: int) -> dict[str, list[bool]]:
    """Return for every draw whether the intervals of sum, mean and variance hold."""
    question, (draw, expected) = NUMBERS[kind], DRAWS[data]
    plan, rng = survey_plan({"x": question}, noise), np.random.default_rng([22, n])
    held: dict[str, list[bool]] = {}
    for _ in range(times):
        x = draw(rng, n)
        if question.missing:
            x[1:][rng.random(n - 1) < 0.2] = math.nan
        found = estimate(plan, rounded(x, question, rng), rng)["x"]
        assert isinstance(found, hb.NumberView)
        figures = {
            "sum": (found.sum.interval(), float(np.nansum(x))),
            "mean": (found.mean.interval(), float(np.nanmean(x))),
            "population": (found.mean.interval(of="population"), expected(n)),
        }
        if question.variance:
            figures["variance"] = (found.variance.interval(), float(x.var()))
        for name, ((low, high), truth) in figures.items():
            held.setdefault(name, []).append(low - 1e-9 <= truth <= high + 1e-9)
    return held


def judged(held: dict[str, list[bool]], judge: Judge) -> None:
    for name, each in held.items():
        assert judge(each), (name, float(np.mean(each)))


def count_coverage(noise: str, people: float, times: int) -> dict[str, list[bool]]:
    """Return for every draw whether the intervals of a count, and of a share of the population, hold."""
    rng, n = np.random.default_rng(23), 2000
    share = people / n
    shares = np.r_[share, np.full(4, (1 - share) / 4)]
    plan = survey_plan({"x": Choice(list("abcde"))}, noise)
    found, truth = one_label(plan, lambda: rng.multinomial(n, shares), times, rng)
    (low, high), (first, last) = found.interval(), found.population()
    own, outer = (low <= truth) & (truth <= high), (first <= share) & (share <= last)
    return {"people": own.tolist(), "population": outer.tolist()}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("people", [1.0, 900.0])
def test_counts_cover(noise: str, people: float) -> None:
    judged(count_coverage(noise, people, 3 * FEW), plausible)


@pytest.mark.parametrize(("noise", "data"), list(zip(NOISE, list(SHARES) * 3, strict=False)))
def test_bands_cover(noise: str, data: str) -> None:
    judged(scale_coverage(noise, data, 300, FEW), plausible)


@pytest.mark.parametrize(("noise", "missing"), [("Laplace fakes", True), ("response", False)])
def test_bands_of_tiny_batches_cover(noise: str, missing: bool) -> None:
    """The ends of single edges may cross if little is known, and intervals remain intervals all the same."""
    judged(scale_coverage(noise, "skewed", 12, FEW, missing=missing), plausible)


@pytest.mark.parametrize(("noise", "data"), list(zip(NOISE, list(DRAWS) * 2, strict=False)))
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_cover(noise: str, kind: str, data: str) -> None:
    judged(number_coverage(noise, kind, data, 12 if data == "skewed" else 300, FEW), plausible)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("people", [1.0, 30.0, 900.0, 2000.0])
def test_counts_cover_at_full_size(noise: str, people: float) -> None:
    judged(count_coverage(noise, people, MANY), enough)


PAIRS = [(noise, data) for i, noise in enumerate(NOISE) for j, data in enumerate(SHARES) if (i + j) % 2 == 0]
"""Every noise with half of the data, and every data with half of the noise."""


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "data"), PAIRS)
@pytest.mark.parametrize("n", [12, 1000])
def test_bands_cover_at_full_size(noise: str, data: str, n: int) -> None:
    judged(scale_coverage(noise, data, n, MANY), enough)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["Laplace fakes", "response"])
@pytest.mark.parametrize("n", [12, 1000])
def test_bands_with_missing_answers_cover_at_full_size(noise: str, n: int) -> None:
    judged(scale_coverage(noise, "skewed", n, MANY, missing=True), enough)


SQUARE = [
    (noise, kind, list(DRAWS)[(i + j) % len(DRAWS)], (12, 1000)[(i + j // 2) % 2])
    for i, noise in enumerate(NOISE)
    for j, kind in enumerate(NUMBERS)
]
"""Every noise with every kind of number, with data and sizes in turn."""


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "kind", "data", "n"), SQUARE)
def test_numbers_cover_at_full_size(noise: str, kind: str, data: str, n: int) -> None:
    judged(number_coverage(noise, kind, data, n, MANY), enough)


def test_normal_intervals_of_laplace_noise_do_not_cover() -> None:
    """The control: the exact distribution is needed."""
    rng, n = np.random.default_rng(24), 2000
    plan = survey_plan({"x": Choice(list("abcde"))}, "Laplace fakes")
    found, truth = one_label(plan, lambda: rng.multinomial(n, np.full(5, 0.2)), 5000, rng)
    assert not plausible(np.abs(found.values - truth) <= 2.575829 * found.stderr, 0.99)
    low, high = found.interval(0.99)
    assert plausible((low <= truth) & (truth <= high), 0.99)


def test_bands_without_sampling_error_do_not_cover_the_population() -> None:
    """The control: people are a sample."""
    rng, question = np.random.default_rng(25), Scale(0, 16, buckets=16, levels=[4, 1])
    plan, held = survey_plan({"x": question}, "few Laplace fakes"), []
    for _ in range(FEW):
        found = estimate(plan, levels(rng.multinomial(1000, SHARES["skewed"]), question), rng)["x"]
        assert isinstance(found, hb.ScaleView)
        (low, high), truth = found.band(), np.cumsum(SHARES["skewed"])[:-1]
        held.append(bool(((low <= truth) & (truth <= high)).all()))
    assert not plausible(held)


# Exact coverage: all numbers of fakes of the shuffler, with their probabilities.


def exact_coverage(fakes: hb.Fakes, level: float) -> float:
    """Return the probability that the band of a scale of two buckets holds for the collection."""
    n, ones, chances = 1000, 400, fakes.pmf
    plan = survey_plan({"x": Scale(0, 2, buckets=2, levels=[1])}, [hb.Noise(m=fakes)])
    held = 0.0
    for first, second in np.ndindex(chances.size, chances.size):
        chance = float(chances[first] * chances[second])
        if chance < 1e-7:
            continue
        counts = np.array([ones + first, n - ones + second])
        counts.setflags(write=False)
        tally = hb.Tally(
            plan=plan.id, n=n, fakes=0, messages=int(counts.sum()), batches=1, smallest_batch=n, counts=counts
        )
        found = hb.estimate(tally, plan)["x"]
        assert isinstance(found, hb.ScaleView)
        low, high = found.band(level)
        held += chance * bool(low[0] <= ones / n + 1e-12 and ones / n <= high[0] + 1e-12)
    return held


@pytest.mark.parametrize(("scale", "shift"), [(0.3, 3), (0.6, 6), (1.0, 10)])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_bands_of_few_fakes_cover_exactly(scale: float, shift: int, level: float) -> None:
    """Counts are whole numbers, which intervals of a continuous law without half a person would miss."""
    assert exact_coverage(hb.Fakes.laplace(scale, shift), level) >= level - 1e-5


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_error_of_a_population_band_is_divided_among_all_its_parts(level: float) -> None:
    """Noise, sampling, and, where answers may be missing, the number of people who answered: a part of the error each.

    With next to no noise, what is left is the largest distance of an empirical distribution function (Massart).
    """
    n = 500
    for missing, parts in ((False, 2), (True, 3)):
        question = Scale(0, 2, buckets=2, levels=[1], missing=missing)
        plan = survey_plan({"x": question}, [hb.Noise(m=hb.Fakes.laplace(1 / 32, 1))])
        counts = np.array([n // 2, n // 2, 0][: 2 + missing]) + 1
        counts.setflags(write=False)
        tally = hb.Tally(
            plan=plan.id, n=n, fakes=0, messages=int(counts.sum()), batches=1, smallest_batch=n, counts=counts
        )
        found = hb.estimate(tally, plan)["x"]
        assert isinstance(found, hb.ScaleView)
        low, high = found.band(level, of="population")
        distance = math.sqrt(math.log(2 * parts / (1 - level)) / (2 * n))
        assert distance <= high[0] - 0.5 <= distance + 1.1 / n
        assert distance <= 0.5 - low[0] <= distance + 1.1 / n
