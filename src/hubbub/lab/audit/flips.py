"""Tests of the flip rates of a client: every bit, every value, and the number of fakes.

P-values are exact under the plan unless users' fakes are among the messages; then they are normal approximations. A
family of tests counts as one: its smallest p-value, corrected by Bonferroni.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hubbub.lab.audit.model import Floats, MessageModel
from hubbub.lab.audit.probes import Sample
from hubbub.lab.audit.statistics import Finding, binomial_p, finding, normal_p, poisson_p, shortfall, worst
from hubbub.model.plans import Plan
from hubbub.model.protocol import GRID
from hubbub.numeric.binomial import clopper_pearson

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rate:
    """The observed flip rate of a bit, with a confidence interval."""

    label: str
    set: bool  # True if the bit was set in the record
    flips: int
    trials: int
    low: float
    high: float


def examine(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Test the flip rate of each bit, over all probes and at each, and the number of fakes."""
    return [*_marginals(samples, plan), *_number_of_fakes(samples, plan)]


def rates(samples: Sequence[Sample], plan: Plan, level: float, most: int = 40) -> list[Rate]:
    """Return the flip rates of the first bits, with intervals that hold simultaneously with confidence 1 − level.

    The expected contribution of users' fakes is subtracted.
    """
    ones, flips, trials = observed_flips(samples, MessageModel(plan))
    level /= 4 * min(plan.schema.width, most)
    result = []
    for j in range(min(plan.schema.width, most)):
        for state in (False, True):
            rows = ones[:, j] == state
            count, total = round(float(flips[rows, j].sum())), int(trials[rows].sum())
            if total:
                count = min(max(count, 0), total)
                low, high = clopper_pearson(count, total, level)
                result.append(Rate(plan.schema.labels[j], state, count, total, float(low), float(high)))
    return result


def power(samples: Sequence[Sample], plan: Plan, level: float) -> tuple[float | None, float | None]:
    """Return the relative shortfall of q that is found with probability 95 %: on all bits, and on one bit only."""
    model, q, width = MessageModel(plan), plan.protocol.q, plan.schema.width
    if not samples or plan.protocol.clear:
        return None, None
    sizes = np.array([plan.protocol.k * one.values for one in samples])
    if plan.protocol.sends_category:
        return shortfall(int(sizes.sum()), model.message_flip, level), None
    unset = np.array([1 - one.probe.bits(width).astype(np.int64) for one in samples])
    cells, lone = int(sizes @ unset.sum(axis=1)), int((sizes @ unset[:, [0, -1]]).max())
    share = level / (2 * width)
    if not model.has_user_fakes:
        return shortfall(cells, q, level), shortfall(lone, q, share) if lone else None
    _, variance, covariance = fake_moments(samples, model)
    count = unset.sum(axis=1)
    total = float((count * variance + count * (count - 1) * covariance).sum())
    reach = [(1.645 - float(ndtri(part / 2))) for part in (level, share)]
    first = min(1.0, reach[0] * math.sqrt(total) / (cells * q))
    alone = float(variance @ unset[:, 0])
    return first, min(1.0, reach[1] * math.sqrt(alone) / (lone * q)) if lone else None


def fake_moments(samples: Sequence[Sample], model: MessageModel) -> tuple[Floats, Floats, Floats]:
    """Return, by probe, the mean that fakes add to each count, the variance of a count, and the covariance of two."""
    rows = [model.moments(sample.values, int(sample.fakes.sum())) for sample in samples]
    gained, variance, covariance = np.array(rows).T
    return gained, variance, covariance


def observed_flips(samples: Sequence[Sample], model: MessageModel) -> tuple[NDArray[np.bool_], Floats, Numbers]:
    """Return, by probe and bit, if it was set and how often it was flipped, and the messages of each probe."""
    width, k = model.plan.schema.width, model.plan.protocol.k
    ones = np.array([sample.probe.bits(width) for sample in samples], np.bool_)
    trials = np.array([k * sample.values for sample in samples])
    counts = np.array([sample.counts.sum(axis=0) for sample in samples], np.float64)
    counts -= fake_moments(samples, model)[0][:, None]
    return ones, np.where(ones, trials[:, None] - counts, counts), trials


def _marginals(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """Test flip rates: of all bits, of each bit over all values, of each value over all bits, and of each pair."""
    model, width = MessageModel(plan), plan.schema.width
    ones, flips, trials = observed_flips(samples, model)
    _, variance, covariance = fake_moments(samples, model)
    bits = [model.bit_name(j) for j in range(width)]
    values = [f"value: {one.probe.name}" for one in samples]
    names = ("flips of unset bits", "flips of set bits", "flips per bit", "flips per value")
    families: dict[str, list[Finding]] = {name: [] for name in names}

    def judge(name: str, where: list[str], counts: Floats, totals: Floats, chance: float, spread: Floats) -> None:
        p = _flip_p(counts, totals, chance, spread if model.has_user_fakes else None)
        tested = [i for i in range(len(where)) if totals[i]]
        rows = [finding("client", name, where[i], counts[i] / totals[i], chance, p[i]) for i in tested]
        families[name] += rows

    for state, text in ((False, "unset"), (True, "set")):
        cells = (ones == state).astype(np.float64)
        if not cells.any():
            continue
        each, size, chance = cells * flips, cells.sum(axis=1), model.flip(was_set=state)
        along, total = size * variance + size * (size - 1) * covariance, trials @ size[:, None]
        judge(
            f"flips of {text} bits", ["all bits"], each.sum(keepdims=True)[0], total, chance, along.sum(keepdims=True)
        )
        where = [f"{name}, {text}" for name in bits]
        judge("flips per bit", where, each.sum(axis=0), trials @ cells, chance, variance @ cells)
        where = [f"{name}, {text} bits" for name in values]
        judge("flips per value", where, each.sum(axis=1), trials * size, chance, along)
    chances = np.where(ones, model.flip(was_set=True), model.flip(was_set=False))
    totals, spread = (np.broadcast_to(row[:, None], flips.shape) for row in (trials.astype(np.float64), variance))
    (i, j), smallest = worst(_flip_p(flips, totals, chances, spread if model.has_user_fakes else None))
    where_worst, rate = f"{bits[j]} at {values[i]}", flips[i, j] / trials[i]
    return [
        *map(_worst_of, filter(None, families.values())),
        finding("client", "flips per bit and value", where_worst, rate, chances[i, j], smallest),
    ]


def _worst_of(family: list[Finding]) -> Finding:
    (place,), p = worst([one.p for one in family])
    return replace(family[place], p=p)


def _flip_p(counts: Floats, totals: Floats, chance: Floats | float, variance: Floats | None) -> Floats:
    """Return binomial p-values, or normal ones if fakes are among the messages and the variance is given."""
    if variance is None:
        return binomial_p(counts, totals, chance)
    off = counts - totals * chance
    z = normal_p(off / np.sqrt(np.maximum(variance, 1e-9)))
    return np.asarray(np.where(variance > 1e-9, z, np.abs(off) < 1e-6), np.float64)


def _number_of_fakes(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    m = plan.protocol.user_fakes
    if m is None or plan.protocol.sends_bits:
        return []
    sizes = np.array([sample.values for sample in samples])
    drawn = np.array([sample.fakes.sum() for sample in samples])
    values, total = int(sizes.sum()), int(drawn.sum())
    if m.distribution == "binomial":
        p = binomial_p(total, values * m.shift, math.ceil(Fraction(m.scale) * GRID) / GRID)
    else:
        p = poisson_p(total, values * m.mean)
    (place,), smallest = worst(normal_p((drawn - sizes * m.mean) / np.sqrt(np.maximum(sizes * m.variance, 1e-9))))
    where = f"value: {samples[place].probe.name}"
    return [
        finding("client", "fakes per user", "all values", total / values, m.mean, float(p)),
        finding("client", "fakes per value", where, drawn[place] / sizes[place], m.mean, smallest),
    ]
