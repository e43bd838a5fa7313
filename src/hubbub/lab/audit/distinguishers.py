"""Attacks that tell two records apart by a client's messages: the optimal event, a learned one, and the ε they show.

An event that is chosen without the data it is judged on gives a valid lower bound on ε for any client. The plan's
likelihood ratio makes the bound sharp for honest clients; learning makes it sharp for dishonest ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hubbub.lab.audit.independence import columns
from hubbub.lab.audit.model import Floats, MessageModel, unpack
from hubbub.lab.audit.probes import Sample
from hubbub.lab.audit.statistics import Finding, Part, epsilon_bound, finding
from hubbub.model.plans import Plan
from hubbub.numeric.binomial import binomial_pmf, clopper_pearson
from hubbub.numeric.rounding import up

SLACK = 1e-9  # tolerance for the rounding of a claimed ε
CANDIDATES = 400
Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An event that tells two neighbouring inputs apart, named by the pair of inputs, and the ε it shows."""

    name: str
    event: str
    claimed: float
    delta: float = 0.0
    hits: tuple[int, int] = (0, 0)  # occurrences of the event under the first and under the second input
    trials: tuple[int, int] = (0, 0)
    epsilon: float = -math.inf  # lower bound on ε, at the confidence of the audit
    curve: Curve = ()  # false and true positive rates as the threshold falls
    of_records: bool = True  # False if the inputs are values of one bit, whatever the rest of the record is

    def judged(self, first: Floats, second: Floats, threshold: float, level: float) -> "Attack":
        """Return the attack with the result of the event {statistic ≥ threshold} under both inputs."""
        hits = int((first >= threshold).sum()), int((second >= threshold).sum())
        trials = first.size, second.size
        bound = float(epsilon_bound(*hits, trials, self.delta, level))
        return replace(self, hits=hits, trials=trials, epsilon=bound)

    def finding(self, part: Part) -> Finding:
        """Return the attack as a test, which fails if even the lower bound on ε exceeds the claim."""
        shown, p = max(self.epsilon, 0.0), 0.0 if self.epsilon > self.claimed + SLACK else 1.0
        return replace(finding(part, f"ε from {self.event}", self.name, shown, self.claimed, p), bound=True)


def best_threshold(first: Floats, second: Floats, delta: float, level: float) -> float:
    """Return the t for which {statistic ≥ t} shows the largest ε on these data: for choosing, not for judging.

    >>> best_threshold(np.arange(100.0) + 80, np.arange(100.0), 0.0, 0.01) > 80
    True
    """
    values = np.unique(np.concatenate([first, second]))
    if values.size > CANDIDATES:
        values = values[np.linspace(0, values.size - 1, CANDIDATES).astype(np.int64)]
    a, b = (side.size - np.searchsorted(np.sort(side), values, side="left") for side in (first, second))
    return float(values[int(np.argmax(epsilon_bound(a, b, (first.size, second.size), delta, level)))])


def curve_points(first: Floats, second: Floats, most: int = 60) -> Curve:
    """Return (P[statistic ≥ t | second], P[statistic ≥ t | first]) over thresholds t, from (0, 0) to (1, 1)."""
    values = np.unique(np.concatenate([first, second]))[::-1]
    values = values[np.unique(np.linspace(0, values.size - 1, min(most, values.size)).astype(np.int64))]
    a, b = (1 - np.searchsorted(np.sort(side), values, side="left") / side.size for side in (first, second))
    return ((0.0, 0.0), *zip(b.tolist(), a.tolist(), strict=True))


def attack_pairs(samples: Sequence[Sample], pairs: Sequence[tuple[int, int]], plan: Plan, level: float) -> list[Attack]:
    """Attack every pair by the event that is optimal under the plan, and by one learned on half of the messages."""
    model, found = MessageModel(plan), []
    for i, j in pairs:
        one, two = samples[i], samples[j]
        name = f"{one.probe.name} | {two.probe.name}"
        claimed = model.pair_epsilon(one.probe, two.probe)
        first, second, threshold = _optimal(one, two, model, level)
        event, curve = "the plan's likelihood ratio", curve_points(first, second)
        optimal = Attack(name=name, event=event, claimed=claimed, curve=curve)
        found.append(optimal.judged(first, second, threshold, level))
        first, second = _learned(one, two, model)
        threshold = best_threshold(first[::2], second[::2], 0.0, level)
        curve = curve_points(first[1::2], second[1::2])
        learned = Attack(name=name, event="a learned event", claimed=claimed, curve=curve)
        found.append(learned.judged(first[1::2], second[1::2], threshold, level))
    return found


def attack_bits(samples: Sequence[Sample], plan: Plan, level: float) -> Attack:
    """Attack the single bit, and the value shown, by which one copy of a record reveals most about that bit.

    The largest of the bounds on ε over all bits, both values and both orders, each at level/(4·width); the plan claims
    at most ln(p/q).
    """
    width, k, q = plan.schema.width, plan.protocol.k, plan.protocol.q
    ones = np.array([sample.probe.bits(width) for sample in samples], np.float64)
    counts = np.array([sample.counts.sum(axis=0) for sample in samples], np.float64)
    sizes = np.array([k * sample.values for sample in samples], np.float64)
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
    hits, states = (seen if answer else trials - seen), ("set", "unset")
    share = tuple(float(hits[i, j] / max(trials[i, j], 1)) for i in (1 - a, a))
    return Attack(
        name=f"{MessageModel(plan).bit_name(j)}: {states[a]} | {states[1 - a]}",
        event=f"a single bit shown as {answer}",
        hits=(int(hits[a, j]), int(hits[1 - a, j])),
        trials=(int(trials[a, j]), int(trials[1 - a, j])),
        epsilon=best,
        claimed=up(math.log((1 - q) / q), 1e-12),
        curve=((0.0, 0.0), (share[0], share[1]), (1.0, 1.0)),
        of_records=False,
    )


def _optimal(one: Sample, two: Sample, model: MessageModel, level: float) -> tuple[Floats, Floats, float]:
    """Return how many units of each message show the first record, with which the likelihood ratio grows.

    The threshold is chosen by what the plan predicts for this number of messages, before they are looked at.
    """
    first, second = (model.agreement(side.messages, one.probe, two.probe) for side in (one, two))
    units, *chances = model.contrast(one.probe, two.probe)
    trials = first.size, second.size
    a, b = (
        np.minimum(np.round(np.cumsum(binomial_pmf(units, chance)[::-1])[::-1] * size), size)
        for chance, size in zip(chances, trials, strict=True)
    )
    return first, second, float(np.argmax(epsilon_bound(a, b, trials, 0.0, level)))


def _learned(one: Sample, two: Sample, model: MessageModel) -> tuple[Floats, Floats]:
    """Return a log-likelihood ratio of each message that is learned from every second one.

    It includes bits in which the records agree, which should reveal nothing.
    """
    seen = sorted({*one.probe.differs(two.probe), *columns(model.plan.schema.width)})
    patterns = [model.patterns(side.messages, seen) for side in (one, two)]
    if patterns[0] is not None and patterns[1] is not None:
        size = int(max(side.max() for side in patterns if side is not None)) + 1
        a, b = (np.bincount(side[::2], minlength=size) + 0.5 for side in patterns if side is not None)
        score = np.log(a / a.sum()) - np.log(b / b.sum())
        return score[patterns[0]], score[patterns[1]]
    bits = [unpack(side.messages, seen) for side in (one, two)]
    a, b = ((side[::2].sum(axis=0) + 0.5) / (len(side[::2]) + 1) for side in bits)
    ones, zeros = np.log(a / b), np.log((1 - a) / (1 - b))
    first, second = (side @ (ones - zeros) + zeros.sum() for side in bits)
    return first, second
