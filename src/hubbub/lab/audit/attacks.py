"""Attacks on the messages of a client and on the whole pipeline, and the ε that they show.

An event that is chosen without the data it is judged on gives a valid lower bound on ε for any client. The plan's
likelihood ratio makes the bound sharp for honest clients; learning makes it sharp for dishonest ones.

Client and shuffler together run many times on two neighbouring collections. The attacker knows everything except one
record. The statistic is the likelihood ratio of the released batch: of its counts for split bits, of the multiset of
its messages otherwise. Small crowds are attacked, because their ε is large enough to be measured, and are held against
their own account.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hubbub.lab.audit.client import tested_bits
from hubbub.lab.audit.columns import collection_of, separate
from hubbub.lab.audit.commands import Client, Shuffler
from hubbub.lab.audit.model import LOG_ZERO, Floats, MessageModel, Probe, Sample, probes, unpack
from hubbub.lab.audit.statistics import Finding, Part, epsilon_bound, finding
from hubbub.lab.mechanisms import ShufflerFakes, columns, fakes_of
from hubbub.model.plans import Plan
from hubbub.numeric.binomial import binomial_pmf, clopper_pearson
from hubbub.numeric.crowd import crowd
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.rounding import up
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports, message_type
from hubbub.planner import plan_from

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
    first, second = (model.form.agreement(side.messages, one.probe, two.probe) for side in (one, two))
    units, *chances = model.form.contrast(one.probe, two.probe)
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
    seen = sorted({*one.probe.differs(two.probe), *tested_bits(model.plan.schema.width)})
    patterns = [model.form.patterns(side.messages, seen) for side in (one, two)]
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


CROWD, CLEAR_CROWD = 10, 400  # people in the attacked crowd, and in one that sends clear records


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Two collections under one plan in which the victim has record ``one`` or ``two`` and all others ``rest``."""

    plan: Plan
    one: Probe
    two: Probe
    rest: Probe

    @property
    def name(self) -> str:
        """The pair in words."""
        others = f", others {self.rest.name}" if self.plan.n > 1 and self.rest.name else ""
        return f"n = {self.plan.n}: {self.one.name} | {self.two.name}{others}"

    def collections(self) -> tuple[Collection, Collection]:
        """Return both collections, with the victim's record first."""
        others = [self.rest] * (self.plan.n - 1)
        first, second = (collection_of(self.plan.schema, [victim, *others]) for victim in (self.one, self.two))
        return first, second


def crowds(plan: Plan) -> list[Neighbours]:
    """Return the neighbours to attack: one person alone, and a small crowd with the same or with a third record."""
    held, protocol = plan.guarantee, plan.protocol
    one, two, rests = _extremes(plan)
    clear = any(noise.q == 0 for noise in protocol.noise)
    sizes = [] if clear or any(fakes_of(noise).among for noise in protocol.noise) else [1]
    if held.assumptions.shuffler:
        sizes.append(min(plan.n, CLEAR_CROWD if clear else CROWD))
    result = []
    for n in dict.fromkeys(sizes):
        kept = protocol
        if protocol.fixed_fakes and not clear:
            # Fakes among flipped records keep their ratio to people; clear records are hidden by their number alone.
            m = min(protocol.fixed_fakes, max(1, -(-protocol.fixed_fakes * n // plan.n)))
            kept = protocol.changed(m=m)
        small = plan_from(plan.schema, n, kept, delta=held.delta, trust=held.assumptions.trust)
        if small.guarantee.epsilon < math.inf:
            result += [Neighbours(small, one, two, rest) for rest in (rests[:1] if n == 1 else rests)]
    return result


def _extremes(plan: Plan) -> tuple[Probe, Probe, list[Probe]]:
    """Return the two most different records, and those that the others of a crowd have."""
    if separate(plan):
        each = plan.schema.attributes
        last = tuple(one.stop - 1 for one in each)
        name = f"last category of all {len(each)} attributes"
        return Probe("first", tuple(one.start for one in each)), Probe(name, last), [Probe("", last)]
    found = probes(plan.schema)
    one, two = max(((a, b) for a in found for b in found), key=lambda pair: len(pair[0].differs(pair[1])))
    return one, two, [two, *[probe for probe in found if probe not in (one, two)][:1]]


def cost(plan: Plan) -> float:
    """Return the approximate number of messages of one run of the pipeline."""
    each = [(fakes_of(one.noise), one.schema) for one in columns(plan)]
    own = [(source, schema) for source, schema in each if isinstance(source, ShufflerFakes)]
    drawn = sum(source.expected(plan.n, schema, plan.protocol.release) for source, schema in own)
    return plan.n * plan.payload_messages + drawn + 20


def attack_pipeline(
    pair: Neighbours, client: Client, shuffler: Shuffler, runs: int, level: float, progress: Callable[[], None]
) -> list[Attack]:
    """Run both collections many times and tell them apart in both orders; every second run chooses the threshold."""
    score = statistic(pair)
    sides: list[Floats] = []
    for collection in pair.collections():
        values = np.empty(runs)
        for i in range(runs):
            values[i] = score(shuffler(client(collection, pair.plan)))
            progress()
        sides.append(values)
    held = pair.plan.guarantee
    found = []
    for sign in (1, -1):
        a, b = (sign * side for side in sides[::sign])
        name = pair.name + (", reversed" if sign < 0 else "")
        event, curve = "the likelihood ratio of the batch", curve_points(a, b)
        attack = Attack(name=name, event=event, claimed=held.epsilon, delta=held.delta, curve=curve)
        threshold = best_threshold(a[::2], b[::2], held.delta, level)
        found.append(attack.judged(a[1::2], b[1::2], threshold, level))
    return found


def statistic(pair: Neighbours) -> Callable[[Reports], float]:
    """Return the log-likelihood ratio of a batch, exact or to leading order; large values indicate the first record.

    That of several columns is the sum over all of them.
    """
    parts = separate(pair.plan)
    if not parts:
        return _from_messages(pair) if MessageModel(pair.plan).linked else _from_counts(pair)
    scores = []
    for one in parts:
        alone = one.message_plan()
        reduced = Neighbours(alone, *(one.probe(record) for record in (pair.one, pair.two, pair.rest)))
        scores.append((one, alone, statistic(reduced)))

    def score(reports: Reports) -> float:
        own = ((one.reduced(reports.messages).astype(message_type(alone)), alone, part) for one, alone, part in scores)
        return sum(part(Reports(alone, messages, alone.n)) for messages, alone, part in own)

    return score


def _from_counts(pair: Neighbours) -> Callable[[Reports], float]:
    """Σ over the differing bits of ln P₁(S_j)/P₂(S_j): exact if counts are independent."""
    plan, protocol, model = pair.plan, pair.plan.protocol, MessageModel(pair.plan)
    fakes = model.fakes.with_bit(plan.n, model.fake_bit)
    tables: list[tuple[int, int, Floats]] = []
    for j in pair.one.differs(pair.two):
        others = (plan.n - 1) * (j in pair.rest.ones)
        a, b = (
            crowd(plan.n, others + (j in side.ones), protocol.q, protocol.k).plus(fakes)
            if model.flipped
            else Distribution(others + (j in side.ones), np.ones(1)).plus(fakes)
            for side in (pair.one, pair.two)
        )
        low, high = min(a.low, b.low), max(a.high, b.high)
        first, second = (_log_table(distribution, low, high) for distribution in (a, b))
        tables.append((j, low, np.clip(first - second, LOG_ZERO, -LOG_ZERO)))

    def score(reports: Reports) -> float:
        counts = np.bincount(reports.messages, minlength=plan.schema.width)
        return sum(float(table[min(max(int(counts[j]) - low, 0), table.size - 1)]) for j, low, table in tables)

    return score


def _log_table(distribution: Distribution, low: int, high: int) -> Floats:
    table = np.full(high - low + 1, LOG_ZERO)
    logs = np.log(np.maximum(distribution.pmf, math.exp(LOG_ZERO)))
    table[distribution.low - low : distribution.high - low + 1] = logs
    return table


def _from_messages(pair: Neighbours) -> Callable[[Reports], float]:
    """ln Σᵢ μ₁(yᵢ)/ω(yᵢ) − ln Σᵢ μ₂(yᵢ)/ω(yᵢ) with the mixture ω of all messages; alone, Σᵢ ln μ₁(yᵢ)/μ₂(yᵢ)."""
    model, n, k = MessageModel(pair.plan), pair.plan.n, pair.plan.protocol.k
    likelihoods = [model.form.log_likelihood(probe) for probe in (pair.one, pair.two, pair.rest)]
    fakes, fake_likelihood = model.expected_fakes, model.fake_log_likelihood()

    def score(reports: Reports) -> float:
        one, two, rest = (likelihood(reports.messages) for likelihood in likelihoods)
        if n == 1 and not fakes:
            return float((one - two).sum())
        parts = [one + math.log(k / 2), two + math.log(k / 2)]
        if n > 1:
            parts.append(rest + math.log(k * (n - 1)))
        if fakes:
            parts.append(fake_likelihood(reports.messages) + math.log(fakes))
        everyone = np.logaddexp.reduce(parts)
        return float(np.logaddexp.reduce(one - everyone) - np.logaddexp.reduce(two - everyone))

    return score
