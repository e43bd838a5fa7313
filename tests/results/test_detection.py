"""Labels that nobody has are rarely flagged, and all intervals hold at once: by exact sums of probabilities."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.detection import SIZES, figures, outcome, table
from tests.results.simulated import estimate, plausible, survey_plan

import hubbub as hb
from hubbub.mechanisms.noise import pooled_noise, trimmed
from hubbub.model.questions import Choice
from hubbub.numeric.binomial import binomial, clopper_pearson
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.intervals import critical_count
from hubbub.numeric.population import CountNoise, poisson

_ANY = hb.plan_from(hb.Schema.bits(1), 1, hb.Protocol(0.25), delta=1e-6)
FEW, MANY = hb.Schema.one_hot(100), hb.Schema.one_hot(10_000)
FAMILIES: dict[str, tuple[hb.Schema, int, hb.Protocol, int]] = {
    "split bits": (MANY, 10**6, hb.Protocol(2e-5, release="bits"), 0),
    "very few flips": (FEW, 1000, hb.Protocol(5e-4, release="bits"), 0),
    "many flips": (FEW, 10**5, hb.Protocol(0.2, release="bits"), 0),
    "copies": (FEW, 5000, hb.Protocol(0.002, 4, release="bits"), 0),
    "many copies": (FEW, 40_000, hb.Protocol(0.1, 3, release="bits"), 0),
    "whole records": (hb.Schema.at_most(3, 100), 10**5, hb.Protocol(0.0196), 0),
    "users' fakes in the clear": (FEW, 10**5, hb.Protocol(0.0, m=hb.Fakes.poisson(0.042)), 4213),
    "users' binomial fakes in the clear": (MANY, 10**6, hb.Protocol(0.0, m=hb.Fakes.binomial(2, 0.1)), 200_100),
    "a fixed number of fakes": (FEW, 1000, hb.Protocol(0.0, m=2000), 2000),
    "users' fakes as split bits": (FEW, 10**5, hb.Protocol(1e-4, m=hb.Fakes.poisson(0.02), release="bits"), 0),
    "binomial fakes as split bits": (FEW, 10**4, hb.Protocol(1e-3, m=hb.Fakes.binomial(3, 0.2), release="bits"), 0),
    "randomized response": (hb.Schema.one_hot(20), 2000, hb.Protocol(0.004, release="category"), 0),
    "randomized response with many labels": (MANY, 10**6, hb.Protocol(5e-5, release="category"), 0),
    "the shuffler's fakes": (MANY, 10**5, hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 40)), 0),
    "flips among the shuffler's fakes": (FEW, 10**4, hb.Protocol(1e-3, m=hb.Fakes.laplace(1.0, 20), release="bits"), 0),
}  # fmt: skip


OF_FEW = {
    f"{name}, {d} labels": (hb.Schema.one_hot(d), n, protocol, 50 if protocol.user_fakes else protocol.fixed_fakes)
    for d in (2, 3, 4, 9)
    for name, n, protocol in (
        ("split bits", 20_000, hb.Protocol(0.0025, release="bits")),
        ("few split bits", 300, hb.Protocol(0.01, release="bits")),
        ("flips", 3000, hb.Protocol(0.2)),
        ("copies", 500, hb.Protocol(0.1, 3)),
        ("the shuffler's fakes", 1000, hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25))),
        ("Gaussian fakes", 1000, hb.Protocol(0.0, m=hb.Fakes.gaussian(1.5, 12), release="bits")),
        ("users' fakes as split bits", 5000, hb.Protocol(0.0, m=hb.Fakes.poisson(0.01), release="bits")),
        ("one flip", 300, hb.Protocol(1 / 300, release="bits")),
        ("a flip in four", 500, hb.Protocol(0.25 / 500, release="bits")),
        ("a fixed number of fakes as split bits", 200, hb.Protocol(0.0, m=20, release="bits")),
        ("flips among Laplace fakes", 200, hb.Protocol(0.01, m=hb.Fakes.laplace(8.0, 100), release="bits")),
    )
}
FAMILIES |= OF_FEW


@pytest.mark.parametrize("name", FAMILIES)
def test_empty_labels_are_rarely_flagged_and_all_intervals_hold(name: str) -> None:
    """Sums of probabilities bound what the dependent counts of fakes and of randomized response can do together."""
    schema, n, protocol, fakes = FAMILIES[name]
    plan = replace(_ANY, schema=schema, protocol=protocol)
    flagged, covered = table(plan, n, fakes, independent=False)
    assert flagged <= 0.05
    assert flagged > 0.001, "absurdly cautious"
    assert covered >= 0.95


@pytest.mark.parametrize("name", FAMILIES)
def test_the_interval_of_one_label_covers(name: str) -> None:
    schema, n, protocol, fakes = FAMILIES[name]
    plan = replace(_ANY, schema=schema, protocol=protocol)
    for held in sorted({0, 1, 7, n // 50, n // 2, 3 * n // 4, n - 3, n}):
        missed = outcome(plan, n, held, fakes, simultaneous=False)[1]
        assert missed <= 0.055, held


def error(q: float, fakes: hb.Fakes | None, n: int) -> tuple[int, CountNoise, Distribution, float]:
    """Return the people of a batch, the error of an estimated count, and what shows a label that nobody has."""
    found = binomial(n, q, tail=60.0)
    if fakes is not None and fakes.distribution == "poisson":
        found = found.plus(poisson(n * fakes.scale))
    elif fakes is not None:
        found = found.plus(Distribution(0, np.asarray(fakes.pmf)))
    place = np.arange(found.low, found.high + 1)
    mean, gain = float(place @ found.pmf), 1 - 2 * q
    variance = float((place - mean) ** 2 @ found.pmf) / gain**2
    noise = CountNoise(variance=variance, gain=gain, distribution=found, centre=mean)
    return n, noise if fakes else CountNoise(variance=variance, gain=gain, flip=q), found, mean


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((0.0, hb.Fakes.poisson(0.025), 1000), (2e-4, None, 10**5)),
        ((0.0, hb.Fakes.laplace(2.0, 40), 1000), (2e-4, None, 10**5)),
        ((0.0, hb.Fakes.laplace(5.0, 100), 1000), (0.01, hb.Fakes.laplace(5.0, 100), 1000)),
    ],
    ids=["users' fakes and flips", "the shuffler's fakes and flips", "fakes with and without flips"],
)
@pytest.mark.parametrize("labels", [10, 1000, 10**5])
def test_empty_labels_of_pooled_batches_of_different_plans_are_rarely_flagged(
    one: tuple[float, hb.Fakes | None, int], two: tuple[float, hb.Fakes | None, int], labels: int
) -> None:
    """Regression: the batch of the other plan counted as normal, and .14 of all studies had a label of nobody."""
    (n, first, found, mean), (m, second, other, centre) = error(*one), error(*two)
    limit = critical_count(pooled_noise([(n, first), (m, second)]), n + m, 0.05 / labels)
    x = (np.arange(found.low, found.high + 1) - mean) / first.gain
    y = (np.arange(other.low, other.high + 1) - centre) / second.gain
    beyond = np.append(other.pmf[::-1].cumsum()[::-1], 0.0)
    flagged = labels * float(found.pmf @ beyond[np.searchsorted(y, limit - x, side="right")])
    assert 0.01 < flagged <= 0.05


def test_the_sum_of_many_rounds_keeps_its_tails() -> None:
    """Regression: from 60 rounds on, the sum of Laplace fakes counted as normal at five standard deviations."""
    n, noise, found, _ = error(0.0, hb.Fakes.laplace(20.0, 500), 1000)
    many = pooled_noise([(n, noise)] * 64)
    assert many.distribution is not None
    exact = functools.reduce(lambda total, _: trimmed(total.plus(total)), range(6), found)
    limit = critical_count(many, 64 * n, 1e-7)
    assert 5e-8 < exact.sf(math.floor(limit + 64 * noise.centre)) <= 1e-7


@pytest.mark.parametrize("size", [*SIZES[:2], pytest.param(SIZES[2], marks=pytest.mark.long)])
def test_the_table_of_default_plans(size: tuple[int, int, float]) -> None:
    """The table that ``python -m benchmarks.detection`` prints: 10², 10⁴ and 10⁶ labels, ε = 1 and 5."""
    for name, value in figures([size]).items():
        assert (0.01 < value <= 0.05) if name.startswith("flagged") else (0.95 <= value < 0.99), name


@pytest.mark.parametrize("noise", ["Laplace fakes", "users' fakes", "flipped bits", "response"])
@pytest.mark.parametrize("size", [2, 3, 60])
def test_labels_of_surveys_are_rarely_flagged_and_their_intervals_hold(noise: str, size: int) -> None:
    rng, times = np.random.default_rng(41), 600
    names = [f"label {place}" for place in range(size)]
    plan, n = survey_plan({"x": Choice(names)}, "flipped bits" if noise == "response" else noise), 1000
    if noise == "response":
        plan = replace(plan, protocol=hb.Protocol.survey([hb.Noise(0.2 / size)], "category"))
    truth = np.zeros(size, np.int64)
    truth[0] = n
    flagged, held = [], []
    for _ in range(times):
        found = estimate(plan, [truth], rng)["x"]
        assert isinstance(found, hb.LabelView)
        flagged.append(bool(found.detectable[1:].any()))
        low, high = found.interval(simultaneous=True)
        held.append(bool(((low <= truth) & (truth <= high)).all()))
    assert float(clopper_pearson(sum(flagged), times, 0.001)[0]) <= 0.05
    assert plausible(held)
