"""Telling two records apart by what a client sends: the optimal event, one learned from data, and the ε they show.

An event that was chosen without the data it is judged on gives a valid bound whatever the client does; the plan's
likelihood ratio only makes it a sharp one for honest clients, and learning makes it one for dishonest ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.lab.audit.findings import Finding
from hubbub.lab.audit.flips import columns
from hubbub.lab.audit.probes import Sample, drawn_by_users, unpack
from hubbub.lab.audit.statistics import epsilon_bound
from hubbub.numeric.binomial import binomial_pmf, clopper_pearson
from hubbub.numeric.rounding import up
from hubbub.plans import Plan

Floats = NDArray[np.float64]
SLACK = 1e-9
"""By how much a claimed ε is rounded up, so that its own rounding is no violation."""
PATTERNS = 12
"""Bits up to which every pattern of them is learned; beyond, bits are taken as independent."""
CANDIDATES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """How well one event tells two neighbours apart."""

    name: str
    """The pair."""
    event: str
    hits: tuple[int, int]
    """How often the event was seen under the first and under the second."""
    trials: tuple[int, int]
    delta: float
    epsilon: float
    """From below, at the confidence of the audit."""
    claimed: float
    curve: tuple[tuple[float, float], ...] = ()
    """False against true alarms as the threshold falls."""

    def finding(self, part: Any, level: float) -> Finding:
        """The same as a test: a violation where even the bound from below exceeds the claim."""
        return Finding(
            part=part,
            name=f"ε by {self.event}",
            where=self.name,
            observed=max(self.epsilon, 0.0),
            allowed=self.claimed,
            p=0.0 if self.epsilon > self.claimed + SLACK else max(level * 2, 1.0),
            bound=True,
        )


def is_local(plan: Plan) -> bool:
    """Whether single messages are a person's own and private by themselves: not split, not clear, no users' fakes."""
    return not plan.protocol.sends_bits and plan.protocol.q > 0 and not drawn_by_users(plan)


def pair_claim(plan: Plan, one: Sequence[int], two: Sequence[int]) -> float:
    """The ε that the plan implies for one message of either of two records: h·ln(p/q) at distance h.

    For a category ln((1 − (d − 1)q)/q). Rounded up.

    >>> from hubbub.schema import Schema
    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> round(pair_claim(plan_from(Schema.one_hot(3), 5, Protocol(0.25), delta=1e-6), [0], [1]) / math.log(3), 9)
    2.0
    """
    q, width = plan.protocol.q, plan.schema.width
    if plan.protocol.sends_category:
        return up(math.log((1 - (width - 1) * q) / q), 1e-12)
    return up(len(set(one) ^ set(two)) * math.log((1 - q) / q), 1e-12)


def best_threshold(first: Floats, second: Floats, delta: float, level: float) -> float:
    """The t for which {statistic ≥ t} shows the largest ε on these data: for choosing, not for judging.

    >>> best_threshold(np.arange(100.0) + 80, np.arange(100.0), 0.0, 0.01) > 80
    True
    """
    values = np.unique(np.concatenate([first, second]))
    if values.size > CANDIDATES:
        values = values[np.linspace(0, values.size - 1, CANDIDATES).astype(np.int64)]
    a = first.size - np.searchsorted(np.sort(first), values, side="left")
    b = second.size - np.searchsorted(np.sort(second), values, side="left")
    return float(values[int(np.argmax(epsilon_bound(a, b, (first.size, second.size), delta, level)))])


def curve_points(first: Floats, second: Floats, most: int = 60) -> tuple[tuple[float, float], ...]:
    """(P[statistic ≥ t | second], P[statistic ≥ t | first]) over thresholds t, from (0, 0) to (1, 1)."""
    values = np.unique(np.concatenate([first, second]))[::-1]
    values = values[np.unique(np.linspace(0, values.size - 1, min(most, values.size)).astype(np.int64))]
    a = 1 - np.searchsorted(np.sort(first), values, side="left") / first.size
    b = 1 - np.searchsorted(np.sort(second), values, side="left") / second.size
    return ((0.0, 0.0), *zip(b.tolist(), a.tolist(), strict=True))


def attack_pairs(samples: Sequence[Sample], pairs: Sequence[tuple[int, int]], plan: Plan, level: float) -> list[Attack]:
    """For every pair, the event that is optimal under the plan's law, and one learned on half of the messages."""
    found = []
    for i, j in pairs:
        one, two = samples[i], samples[j]
        name = f"{one.probe.name} | {two.probe.name}"
        claim = pair_claim(plan, one.probe.ones, two.probe.ones)
        if plan.protocol.sends_category:
            first, second = one.messages, two.messages
            spoken = [side == one.probe.ones[0] for side in (first, second)]
        else:
            differ = sorted(set(one.probe.ones) ^ set(two.probe.ones))
            true = np.isin(differ, one.probe.ones)
            spoken = [unpack(side.messages, differ) == true for side in (one, two)]
            # Learning looks at other bits too: they should say nothing.
            seen = sorted({*differ, *columns(plan.schema.width)})
            first, second = (unpack(side.messages, seen) for side in (one, two))
        found.append(_planned(spoken, plan, name, claim, level))
        found.append(_learned(first, second, plan, name, claim, level))
    return found


def attack_bits(samples: Sequence[Sample], plan: Plan, level: float) -> Attack:
    """The bit, and the answer, by which one copy of a record shows most about whether that bit is set.

    Of all bits, both answers and both orders the largest bound on ε, at level/(4·width) each; at most ln(p/q) by plan.
    """
    width, k, q = plan.schema.width, plan.protocol.k, plan.protocol.q
    ones = np.array([sample.probe.bits(width) for sample in samples], np.float64)
    counts = np.array([sample.counts.sum(axis=0) for sample in samples], np.float64)
    sizes = np.array([k * sample.n * sample.runs for sample in samples], np.float64)
    trials = np.array([sizes @ ones, sizes @ (1 - ones)])
    seen = np.minimum(np.array([(counts * ones).sum(axis=0), (counts * (1 - ones)).sum(axis=0)]), trials)
    best, chosen = -math.inf, (0, 0, 0)
    for answer, hits in ((1, seen), (0, trials - seen)):
        for a, b in ((0, 1), (1, 0)):
            low = clopper_pearson(hits[a], np.maximum(trials[a], 1), level / (8 * width))[0]
            high = clopper_pearson(hits[b], np.maximum(trials[b], 1), level / (8 * width))[1]
            usable = (trials.min(axis=0) > 0) & (low > 0)
            bound = np.where(usable, np.log(np.maximum(low, 1e-300) / high), -np.inf)
            if bound.max() > best:
                best, chosen = float(bound.max()), (int(bound.argmax()), a, answer)
    j, a, answer = chosen
    hits = seen if answer else trials - seen
    states = ("set", "not set")
    return Attack(
        name=f"bit {j} ({plan.schema.labels[j] or 'blank'}): {states[a]} | {states[1 - a]}",
        event=f"a single bit shown as {answer}",
        hits=(int(hits[a, j]), int(hits[1 - a, j])),
        trials=(int(trials[a, j]), int(trials[1 - a, j])),
        delta=0.0,
        epsilon=best,
        claimed=up(math.log((1 - q) / q), 1e-12),
    )


def _planned(spoken: list[NDArray[np.bool_]], plan: Plan, name: str, claim: float, level: float) -> Attack:
    """The likelihood ratio grows with the number of bits that speak for the first record.

    From which number on is chosen by what the plan's law lets expect of so many messages, before they are looked at.
    """
    q, trials = plan.protocol.q, (len(spoken[0]), len(spoken[1]))
    if plan.protocol.sends_category:
        speaks, least = [side.astype(np.float64) for side in spoken], 1.0
    else:
        speaks = [side.sum(axis=1).astype(np.float64) for side in spoken]
        tails = [np.cumsum(binomial_pmf(spoken[0].shape[1], chance)[::-1])[::-1] for chance in (1 - q, q)]
        first, second = (np.minimum(np.round(tails[i] * trials[i]), trials[i]) for i in (0, 1))
        least = float(np.argmax(epsilon_bound(first, second, trials, 0.0, level)))
    hits = tuple(int((side >= least).sum()) for side in speaks)
    return _attack(name, "the plan's likelihood ratio", hits, trials, claim, level, curve_points(speaks[0], speaks[1]))


def _learned(first: NDArray[Any], second: NDArray[Any], plan: Plan, name: str, claim: float, level: float) -> Attack:
    """A likelihood ratio learned on every second message, and a threshold chosen there; judged on the others."""
    width = plan.schema.width if plan.protocol.sends_category else first.shape[1]
    if plan.protocol.sends_category or width <= PATTERNS:
        if plan.protocol.sends_category:
            codes = [first.astype(np.int64), second.astype(np.int64)]
            size = width
        else:
            powers = 1 << np.arange(width)
            codes, size = [side @ powers for side in (first, second)], 1 << width
        a, b = (np.bincount(side[::2], minlength=size) for side in codes)
        score = np.log((a + 0.5) / (len(first[::2]) + 1)) - np.log((b + 0.5) / (len(second[::2]) + 1))
        scores = [score[side] for side in codes]
    else:
        a, b = ((side[::2].sum(axis=0) + 0.5) / (len(side[::2]) + 1) for side in (first, second))
        ones, zeros = np.log(a / b), np.log((1 - a) / (1 - b))
        scores = [side @ (ones - zeros) + zeros.sum() for side in (first, second)]
    threshold = best_threshold(scores[0][::2], scores[1][::2], 0.0, level)
    rest = [side[1::2] for side in scores]
    hits = tuple(int((side >= threshold).sum()) for side in rest)
    trials = (rest[0].size, rest[1].size)
    return _attack(name, "a learned event", hits, trials, claim, level, ())


def _attack(
    name: str,
    event: str,
    hits: tuple[int, ...],
    trials: tuple[int, int],
    claim: float,
    level: float,
    curve: tuple[tuple[float, float], ...],
) -> Attack:
    epsilon = float(epsilon_bound(hits[0], hits[1], trials, 0.0, level))
    return Attack(
        name=name,
        event=event,
        hits=(hits[0], hits[1]),
        trials=trials,
        delta=0.0,
        epsilon=epsilon,
        claimed=claim,
        curve=curve,
    )
