"""Repeated collections: estimates are unbiased, with the predicted spread and the promised coverage."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.pipeline.points import POINTS, N, collection, plan_of, population

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople


@dataclass
class Outcome:
    """Worst bias in standard errors of the mean, pooled ratio of spreads, and coverages of many repetitions."""

    bias: float
    ratio: float
    planned: float
    coverage: float
    simultaneous: float


def repeat(kind: str, name: str, times: int, seed: int, *, noise: hb.Plan | None = None) -> Outcome:
    """Repeat a collection; as a control, randomize with another plan than the one used to estimate."""
    plan = plan_of(kind, name)
    entropy = SeededStreamNotForPeople(seed)
    people, truth = collection(plan.schema, N), population(plan.schema, N).sum(axis=0)
    values, variances = np.empty((times, truth.size)), np.empty((times, truth.size))
    covered, all_covered = np.empty((times, truth.size), bool), np.empty(times, bool)
    for i in range(times):
        reports = hb.randomize(people, noise or plan, entropy=entropy)
        if noise is not None:
            reports = hb.Reports(plan, reports.messages, reports.n, reports.fakes)
        found = hb.estimate(hb.tally(hb.shuffle(reports, entropy=entropy)), plan).question
        values[i], variances[i] = found.values, found.stderr**2
        low, high = found.interval(0.95)
        covered[i] = (low <= truth) & (truth <= high)
        low, high = found.interval(0.95, simultaneous=True)
        all_covered[i] = ((low <= truth) & (truth <= high)).all()
    predicted = variances.mean(axis=0)
    return Outcome(
        bias=float((np.abs(values.mean(axis=0) - truth) / np.sqrt(predicted / times)).max()),
        ratio=float(np.sqrt((values.var(axis=0) / predicted).mean())),
        planned=float(np.sqrt(predicted.max()) / plan.stderr),
        coverage=float(covered.mean()),
        simultaneous=float(all_covered.mean()),
    )


@pytest.mark.parametrize(("kind", "name"), POINTS)
def test_short(kind: str, name: str) -> None:
    outcome = repeat(kind, name, 200, 71)
    assert outcome.bias < 4.5
    assert abs(outcome.ratio - 1) < 0.1
    assert abs(outcome.planned - 1) < 0.01 or name == "category"
    assert outcome.planned < 1.01
    assert 0.915 < outcome.coverage < 0.985
    assert outcome.simultaneous > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), POINTS)
def test_long(kind: str, name: str) -> None:
    outcome = repeat(kind, name, 2000, 76)
    print(kind, name, outcome)
    assert outcome.bias < 4.5
    assert abs(outcome.ratio - 1) < 0.05
    assert 0.93 <= outcome.coverage <= 0.97
    assert outcome.simultaneous >= 0.94


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_wrong_flip_probabilities_are_detected(factor: float) -> None:
    other = hb.plan_from(plan_of("bits", "flip").schema, N, hb.Protocol(0.2 * factor), epsilon=3.0)
    assert repeat("bits", "flip", 200, 73, noise=other).bias > 6


def repeat_joint(
    q: float, k: int, m: int | hb.Fakes, times: int, seed: int
) -> tuple[NDArray[np.float64], float, float]:
    schema = hb.Schema.bits(8)
    n = 3000
    plan = hb.plan_from(schema, n, hb.Protocol(q, k, m), epsilon=5.0)
    entropy = SeededStreamNotForPeople(seed)
    rows = np.random.default_rng(1).random((n, 8)) < np.linspace(0.1, 0.9, 8)
    rows[: n // 3, 4:] = rows[: n // 3, :4]
    truth = np.bincount(np.packbits(rows, axis=1, bitorder="little")[:, 0], minlength=256)
    people = hb.Collection.from_values(rows, schema)
    values, variances = np.empty((times, 256)), np.empty((times, 256))
    covered, everything = np.empty((times, 256), bool), np.empty(times, bool)
    for i in range(times):
        reports = hb.shuffle(hb.randomize(people, plan, entropy=entropy), entropy=entropy)
        table = hb.joint(reports, plan, schema.labels)
        values[i], variances[i] = table.values, table.stderr**2
        low, high = table.interval(0.95)
        covered[i] = (low <= truth) & (truth <= high)
        low, high = table.interval(0.95, simultaneous=True)
        everything[i] = ((low <= truth) & (truth <= high)).all()
    ratios = np.sqrt(values.var(axis=0) / variances.mean(axis=0))
    assert float((np.abs(values.mean(axis=0) - truth) / np.sqrt(variances.mean(axis=0) / times)).max()) < 5
    return ratios, float(covered.mean()), float(everything.mean())


JOINT = [
    (0.2, 1, 0),
    (0.25, 3, 0),
    (0.0, 1, 9000),
    (0.15, 1, 2000),
    (0.2, 1, hb.Fakes.poisson(1.0)),
    (0.0, 1, hb.Fakes.gaussian(6.0, 40)),
]


@pytest.mark.parametrize(("q", "k", "m"), JOINT[:4:3])
def test_joint_short(q: float, k: int, m: int | hb.Fakes) -> None:
    ratios, coverage, everything = repeat_joint(q, k, m, 100, 74)
    assert abs(np.sqrt((ratios**2).mean()) - 1) < 0.05
    assert 0.93 <= coverage <= 0.97
    assert everything > 0.85


@pytest.mark.slow
@pytest.mark.parametrize(("q", "k", "m"), JOINT)
def test_joint_long(q: float, k: int, m: int | hb.Fakes) -> None:
    ratios, coverage, everything = repeat_joint(q, k, m, 1000, 75)
    pooled = float(np.sqrt((ratios**2).mean()))
    print(q, k, m, pooled, coverage, everything)
    assert abs(pooled - 1) < 0.05
    assert 0.93 <= coverage <= 0.97
    assert everything >= 0.94
