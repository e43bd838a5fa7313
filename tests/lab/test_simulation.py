"""Counts drawn directly have the distribution of counts from the whole pipeline; similar ones are rejected."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.pipeline.points import POINTS, PROTOCOLS, SCHEMAS, N, collection, plan_of

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import BatchTooSmall, InvalidInput
from hubbub.lab.simulation import tallies_by_counts, tallies_by_records

FEW, MANY = 200, 8_000
FALSE_POSITIVE_RATE = 1e-6
"""Seeds are fixed, and there are about a thousand comparisons."""


@cache
def by_records(kind: str, name: str, times: int = FEW) -> NDArray[np.float64]:
    """Return the counts followed by the number of messages."""
    plan = plan_of(kind, name)
    tallies = tallies_by_records(collection(plan.schema, N), plan, times, entropy=SeededStreamNotForPeople(21))
    return np.array([[*one.counts, one.messages] for one in tallies], float)


def by_counts(plan: hb.Plan, truth: NDArray[np.int64]) -> NDArray[np.float64]:
    tallies = tallies_by_counts(truth, N, plan, MANY, entropy=SeededStreamNotForPeople(22))
    return np.array([[*one.counts, one.messages] for one in tallies], float)


def worst(few: NDArray[np.float64], many: NDArray[np.float64]) -> dict[str, float]:
    """Return the smallest p-values of means, variances, covariances and marginal distributions."""
    varies = many.std(axis=0) > 0
    assert (few.std(axis=0) > 0)[varies].all()
    assert (few[:, ~varies] == many[:1, ~varies]).all()
    few, many = few[:, varies], many[:, varies]
    mean, spread = many.mean(axis=0), many.std(axis=0)
    a, b = (few - mean) / spread, (many - mean) / spread
    times = len(few)
    found = {"mean": stats.norm.sf(np.abs(a.mean(axis=0)) * np.sqrt(times)).min()}
    products_a, products_b = a[:, :, None] * a[:, None, :], b[:, :, None] * b[:, None, :]
    z = (products_a.mean(axis=0) - products_b.mean(axis=0)) / products_b.std(axis=0) * np.sqrt(times)
    p = stats.norm.sf(np.abs(z))
    found["variance"] = np.diag(p).min()
    if len(p) > 1:
        found["covariance"] = p[np.triu_indices(len(p), 1)].min()
    # Ties make this test conservative.
    found["distribution"] = min(stats.ks_2samp(x, y).pvalue for x, y in zip(few.T, many.T, strict=True))
    return {name: float(value) for name, value in found.items()}


@pytest.mark.parametrize(("kind", "name"), POINTS)
def test_both_simulators_agree(kind: str, name: str) -> None:
    truth = collection(SCHEMAS[kind], N).counts()
    found = worst(by_records(kind, name), by_counts(plan_of(kind, name), truth))
    assert min(found.values()) > FALSE_POSITIVE_RATE, found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), POINTS)
def test_both_simulators_agree_in_long_runs(kind: str, name: str) -> None:
    truth = collection(SCHEMAS[kind], N).counts()
    found = worst(by_records(kind, name, 4000), by_counts(plan_of(kind, name), truth))
    assert min(found.values()) > FALSE_POSITIVE_RATE, found


@pytest.mark.parametrize(("name", "q"), [("flip", 0.21), ("split", 0.16), ("fake and flip", 0.11), ("category", 0.11)])
def test_other_flip_probability_is_detected(name: str, q: float) -> None:
    plan = plan_of("one_hot", name)
    other = hb.plan_from(plan.schema, N, PROTOCOLS[name].changed(q=q), epsilon=3.0)
    found = worst(by_records("one_hot", name), by_counts(other, collection(plan.schema, N).counts()))
    assert found["mean"] < FALSE_POSITIVE_RATE


@pytest.mark.parametrize("kind", ["one_hot", "at_most"])
def test_independent_columns_of_fakes_are_detected(kind: str) -> None:
    """Correct marginals are not enough: the bits of one fake exclude each other."""
    counts = by_counts(plan_of(kind, "clear among fakes"), collection(SCHEMAS[kind], N).counts())
    generator = np.random.default_rng(1)
    for column in counts.T:
        generator.shuffle(column)
    found = worst(by_records(kind, "clear among fakes", 600), counts)
    assert found["covariance"] < FALSE_POSITIVE_RATE < found["distribution"]


def test_small_variance_is_detected() -> None:
    counts = by_counts(plan_of("bits", "flip"), collection(SCHEMAS["bits"], N).counts())
    counts[:, :3] += 0.25 * (counts[:, :3].mean(axis=0) - counts[:, :3])
    assert worst(by_records("bits", "flip"), counts)["variance"] < FALSE_POSITIVE_RATE


@pytest.mark.parametrize("name", ["flip", "split copies among fakes", "clear among Laplace fakes", "category"])
def test_a_billion_people(name: str) -> None:
    """Estimates of a billion people are unbiased and have the predicted standard error."""
    n, schema = 10**9, SCHEMAS["one_hot"]
    plan = hb.plan_from(schema, n, PROTOCOLS[name], epsilon=3.0)
    truth = np.array([6 * 10**8, 4 * 10**8 - 5, 5, 0])
    entropy = SeededStreamNotForPeople(23)
    found = [hb.estimate(one, plan).question for one in tallies_by_counts(truth, n, plan, 2000, entropy=entropy)]
    errors = np.array([one.values - truth for one in found])
    sigma = np.sqrt(np.mean([one.stderr**2 for one in found], axis=0))
    assert (np.abs(errors.mean(axis=0)) < 5 * sigma / np.sqrt(2000)).all()
    assert np.abs(errors.std(axis=0) / sigma - 1).max() < 5 / np.sqrt(2 * 2000) * 1.6
    again = next(tallies_by_counts(truth, n, plan, 1, entropy=SeededStreamNotForPeople(23)))
    assert again.n == n


def test_wide_records() -> None:
    """Repetitions are drawn in parts if all at once would not fit."""
    schema = hb.Schema.one_hot(500_000)
    plan = hb.plan_from(schema, 10**6, hb.Protocol(0.01, release="bits"), epsilon=3.0)
    truth = np.full(500_000, 2)
    tallies = list(tallies_by_counts(truth, 10**6, plan, 12, entropy=SeededStreamNotForPeople(24)))
    assert len(tallies) == 12
    assert len({int(one.counts[0]) for one in tallies}) > 6
    assert all(one.messages == one.counts.sum() for one in tallies)


def test_invalid_input() -> None:
    plan, entropy = plan_of("one_hot", "flip"), SeededStreamNotForPeople(1)
    good = np.array([N, 0, 0, 0])
    with pytest.raises(BatchTooSmall, match="at least 400 people, got 399"):
        next(tallies_by_counts(good - [1, 0, 0, 0], N - 1, plan, 1, entropy=entropy))
    for truth in (good[:3], good + 1, good - 1, good.astype(float), np.array([N, 1, 0, -1])):
        with pytest.raises(InvalidInput, match="truth must"):
            next(tallies_by_counts(truth, N, plan, 1, entropy=entropy))
    with pytest.raises(InvalidInput, match="repetitions must"):
        next(tallies_by_counts(good, N, plan, 0, entropy=entropy))
    with pytest.raises(InvalidInput, match="plan must be of type Plan"):
        next(tallies_by_counts(good, N, None, 1, entropy=entropy))  # type: ignore[arg-type]
