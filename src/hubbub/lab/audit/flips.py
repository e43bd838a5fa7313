"""Whether a client lies as often as its plan says: every bit, every value; and what its messages should show.

All p-values are exact under the plan's law, as long as no fakes of users are among the messages; with them, normal.
A family of tests counts as one: its worst member, with the p-value of all by Bonferroni.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hubbub.lab.audit.findings import Finding, worst
from hubbub.lab.audit.probes import Sample, drawn_by_users
from hubbub.lab.audit.statistics import binomial_p, normal_p, poisson_p
from hubbub.numeric.binomial import clopper_pearson
from hubbub.plans import Plan
from hubbub.protocol import GRID, Fakes
from hubbub.schema import Schema
from hubbub.tables import fake_patterns

COLUMNS = 24
"""Bits between which pairs are tried, where there are more."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a bit was flipped, with an interval."""

    label: str
    set: bool
    """Whether the bit was set before."""
    flips: int
    trials: int
    low: float
    high: float


def shown(plan: Plan, ones: Sequence[int]) -> Floats:
    """The chance that a message of a record with these ones shows each bit, or is each category.

    >>> from hubbub.schema import Schema
    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> shown(plan_from(Schema.one_hot(3), 5, Protocol(0.25), delta=1e-6), [1]).tolist()
    [0.25, 0.75, 0.25]
    """
    width, q = plan.schema.width, plan.protocol.q
    chances = np.full(width, q)
    chances[list(ones)] = 1 - (width - 1) * q if plan.protocol.sends_category else 1 - q
    return chances


def moments(plan: Plan, values: int, fakes: int) -> tuple[float, float, float]:
    """Of the fakes, what every bit gains on average; of all, the variance of each count and the covariance of two.

    People's copies add k·n·pq to each variance. A fake shows a bit with probability v and two bits with v₂; F fakes add
    Fv(1 − v) and F(v₂ − v²), and where F is itself random, Var(F)·v² to both.
    """
    protocol, schema = plan.protocol, plan.schema
    q, m = protocol.q, protocol.m
    number, spread = float(fakes), 0.0
    if protocol.sends_bits and isinstance(m, Fakes) and m.by == "users":
        number, spread = values * m.mean, values * m.variance
    own = protocol.k * values * q * (1 - q)
    if not number:
        return 0.0, own, 0.0
    v = q + (1 - 2 * q) * schema.density
    both = fake_pair(schema, q) if schema.width > 1 else 0.0
    return number * v, own + number * v * (1 - v) + spread * v * v, number * (both - v * v) + spread * v * v


@functools.lru_cache(maxsize=8)
def fake_pair(schema: Schema, q: float) -> float:
    """The chance that a fake shows two given bits."""
    none, one, _, two = fake_patterns(schema, 2).tolist()
    return float(two * (1 - q) ** 2 + 2 * one * q * (1 - q) + none * q * q)


def columns(width: int) -> list[int]:
    """Bits to take in pairs: all, or some from the first to the last."""
    return sorted({*np.linspace(0, width - 1, min(width, COLUMNS), dtype=int).tolist()})


def examine(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """How often each bit lies, over all probes and at each, and how many fakes there are."""
    return [*_marginals(samples, plan), *_number_of_fakes(samples, plan)]


def rates(samples: Sequence[Sample], plan: Plan, level: float, most: int = 40) -> list[Rate]:
    """How often each bit was flipped, over all probes, with intervals that all hold but for a chance of ``level``.

    Of users' fakes among the messages, the expected share is subtracted.
    """
    ones, flips, trials = _flips(samples, plan)
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


def name_bit(plan: Plan, j: int) -> str:
    """What a bit, or a category, is called in a finding."""
    what = "category" if plan.protocol.sends_category else "bit"
    return f"{what} {j} ({plan.schema.labels[j] or 'blank'})"


def _flips(samples: Sequence[Sample], plan: Plan) -> tuple[NDArray[np.bool_], Floats, NDArray[np.int64]]:
    """By probe and bit: whether it was set, how often it lied, in how many messages of people."""
    width, k = plan.schema.width, plan.protocol.k
    ones = np.array([sample.probe.bits(width) for sample in samples], np.bool_)
    trials = np.array([k * sample.n * sample.runs for sample in samples])
    counts = np.array([sample.counts.sum(axis=0) for sample in samples], np.float64)
    gained = np.array([moments(plan, sample.n * sample.runs, int(sample.fakes.sum()))[0] for sample in samples])
    counts -= gained[:, None]
    return ones, np.where(ones, trials[:, None] - counts, counts), trials


def _marginals(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    """How often bits lie: all of them, each one over all values, each value over all bits, and each by itself."""
    ones, flips, trials = _flips(samples, plan)
    width, q = plan.schema.width, plan.protocol.q
    spread = [moments(plan, sample.n * sample.runs, int(sample.fakes.sum())) for sample in samples]
    variance, covariance = (np.array([one[i] for one in spread]) for i in (1, 2))
    chances = {False: q, True: (width - 1) * q if plan.protocol.sends_category else q}
    found, bits, values = [], [], []
    for state, text in ((False, "not set"), (True, "set")):
        cells = ones == state
        if not cells.any():
            continue
        each, size = np.where(cells, flips, 0.0), cells.sum(axis=1)
        along = size * variance + size * (size - 1) * covariance
        chance = chances[state]

        def judge(
            counts: Floats, totals: NDArray[np.int64], spreads: Floats, names: list[str], chance: float = chance
        ) -> list[tuple[float, str, float, float]]:
            p = _flip_p(counts, totals, chance, spreads if drawn_by_users(plan) else None)
            rows = zip(p.tolist(), names, counts.tolist(), totals.tolist(), strict=True)
            return [(one, name, count / total, chance) for one, name, count, total in rows if total]

        bits += judge(
            each.sum(axis=0), trials @ cells, variance @ cells, [f"{name_bit(plan, j)}, {text}" for j in range(width)]
        )
        names = [f"value: {sample.probe.name}; bits {text}" for sample in samples]
        values += judge(each.sum(axis=1), trials * size, along, names)
        total = judge(each.sum(keepdims=True)[0], np.array([trials @ size]), np.array([along.sum()]), ["all bits"])
        found.append(_family(f"lies of bits {text}", total))
    found += [_family("lies of each bit", bits), _family("lies at each value", values)]
    (i, j), least = worst(
        _flip_p(
            flips,
            np.broadcast_to(trials[:, None], flips.shape),
            np.where(ones, chances[True], q),
            np.broadcast_to(variance[:, None], flips.shape) if drawn_by_users(plan) else None,
        )
    )
    return [
        *found,
        Finding(
            part="client",
            name="lies of each bit at each value",
            where=f"{name_bit(plan, j)} at value: {samples[i].probe.name}",
            observed=float(flips[i, j] / trials[i]),
            allowed=chances[bool(ones[i, j])],
            p=least,
        ),
    ]


def _flip_p(counts: Floats, totals: NDArray[np.int64], chance: Floats | float, variance: Floats | None) -> Floats:
    """By the binomial law; by a normal one where fakes are among the messages, and then the variance is given."""
    if variance is None:
        return binomial_p(counts, totals, chance)
    off = counts - totals * chance
    z = normal_p(off / np.sqrt(np.maximum(variance, 1e-9)))
    return np.asarray(np.where(variance > 1e-9, z, np.abs(off) < 1e-6), np.float64)


def _family(name: str, judged: list[tuple[float, str, float, float]]) -> Finding:
    (place,), p = worst([one[0] for one in judged])
    _, where, observed, allowed = judged[place]
    return Finding(part="client", name=name, where=where, observed=observed, allowed=allowed, p=p)


def _number_of_fakes(samples: Sequence[Sample], plan: Plan) -> list[Finding]:
    m = plan.protocol.m
    if not isinstance(m, Fakes) or m.by == "shuffler" or plan.protocol.sends_bits:
        return []
    values = sum(sample.n * sample.runs for sample in samples)
    drawn = sum(int(sample.fakes.sum()) for sample in samples)
    if m.distribution == "binomial":
        p = float(binomial_p(drawn, values * m.shift, math.ceil(Fraction(m.scale) * GRID) / GRID))
    else:
        p = float(poisson_p(drawn, values * m.mean))
    sizes = np.array([sample.n * sample.runs for sample in samples])
    off = np.array([sample.fakes.sum() for sample in samples]) - sizes * m.mean
    (place,), least = worst(normal_p(off / np.sqrt(np.maximum(sizes * m.variance, 1e-9))))
    one = samples[place]
    return [
        Finding(
            part="client", name="fakes of a user", where="all values", observed=drawn / values, allowed=m.mean, p=p
        ),
        Finding(
            part="client",
            name="fakes at each value",
            where=f"value: {one.probe.name}",
            observed=float(one.fakes.sum() / (one.n * one.runs)),
            allowed=m.mean,
            p=least,
        ),
    ]
