"""The whole chain on two neighbouring collections, many times over: what an analyzer could tell at most, and does.

The attacker knows everything but one record. His statistic is the likelihood ratio of what the mix releases: of counts
for split bits, of the multiset of messages for whole records. Small crowds are attacked, where ε is large enough to be
measured, and their own account is the claim.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from hubbub.lab.audit.commands import Client, ShufflerProgram
from hubbub.lab.audit.distinguishers import Attack, best_threshold, curve_points
from hubbub.lab.audit.probes import Probe, drawn_by_users, probes
from hubbub.lab.audit.statistics import epsilon_bound
from hubbub.numeric.binomial import binomial
from hubbub.numeric.crowd import crowd
from hubbub.numeric.distributions import Distribution
from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.protocol import Fakes
from hubbub.records import Collection
from hubbub.reports import Reports

CROWD = 10
"""People of the crowd that is attacked."""
CLEAR = 400
"""The same, where only the users' own fakes protect."""
LOG_ZERO = -700.0
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Two collections under one plan that differ in one person: he holds ``one`` or ``two``, all others ``rest``."""

    plan: Plan
    one: Probe
    two: Probe
    rest: Probe

    @property
    def name(self) -> str:
        """The pair in words."""
        others = f", others {self.rest.name}" if self.plan.n > 1 else ""
        return f"n = {self.plan.n}: {self.one.name} | {self.two.name}{others}"

    def collections(self) -> tuple[Collection, Collection]:
        """The two, the victim first."""
        width = self.plan.schema.width
        rows = np.tile(self.rest.bits(width), (self.plan.n, 1))
        made = []
        for victim in (self.one, self.two):
            rows[0] = victim.bits(width)
            made.append(Collection.from_values(rows, self.plan.schema))
        return made[0], made[1]


def crowds(plan: Plan) -> list[Neighbours]:
    """Which neighbours are attacked: one person alone, and a small crowd that holds the same or something third."""
    held, protocol, schema = plan.guarantee, plan.protocol, plan.schema
    found = probes(schema)
    one, two = max(((a, b) for a in found for b in found), key=lambda pair: len(set(pair[0].ones) ^ set(pair[1].ones)))
    third = [probe for probe in found if probe not in (one, two)][:1]
    sizes = [1] if protocol.q > 0 and not drawn_by_users(plan) else []
    if held.assumptions.shuffler:
        sizes.append(min(plan.n, CROWD if protocol.q > 0 else CLEAR))
    result = []
    for n in dict.fromkeys(sizes):
        m = protocol.m
        # Among clear records the number of fakes alone protects; flipped ones keep their proportion to the people.
        scaled = min(m, max(1, -(-m * n // plan.n))) if isinstance(m, int) and m and protocol.q else m
        small = plan_from(schema, n, replace(protocol, m=scaled), delta=held.delta, shuffler=held.assumptions.shuffler)
        if small.guarantee.epsilon < math.inf:
            rests = [two] if n == 1 else [two, *third]
            result += [Neighbours(small, one, two, rest) for rest in rests]
    return result


def cost(plan: Plan) -> float:
    """About how many messages one run of the chain makes."""
    m = plan.protocol.m
    drawn = 0.0
    if isinstance(m, Fakes) and m.by == "shuffler":
        drawn = m.mean * (plan.schema.width if plan.protocol.sends_bits else plan.schema.size)
    return plan.n * plan.payload_messages + drawn + 20


def attack_chain(
    pair: Neighbours, client: Client, mix: ShufflerProgram, runs: int, level: float, tell: Callable[[], None]
) -> list[Attack]:
    """Run both collections many times and tell them apart, in both orders; thresholds come from every second run."""
    score = statistic(pair)
    sides: list[Floats] = []
    for collection in pair.collections():
        values = np.empty(runs)
        for i in range(runs):
            values[i] = score(mix(client(collection, pair.plan)))
            tell()
        sides.append(values)
    held = pair.plan.guarantee
    found = []
    for sign in (1, -1):
        a, b = (sign * side for side in sides[::sign])
        threshold = best_threshold(a[::2], b[::2], held.delta, level)
        rest = a[1::2], b[1::2]
        hits = int((rest[0] >= threshold).sum()), int((rest[1] >= threshold).sum())
        trials = rest[0].size, rest[1].size
        found.append(
            Attack(
                name=pair.name + (", reversed" if sign < 0 else ""),
                event="the likelihood ratio of the batch",
                hits=hits,
                trials=trials,
                delta=held.delta,
                epsilon=float(epsilon_bound(*hits, trials, held.delta, level)),
                claimed=held.epsilon,
                curve=curve_points(a, b),
            )
        )
    return found


def statistic(pair: Neighbours) -> Callable[[Reports], float]:
    """The logarithm of the likelihood ratio of a batch, exactly or to leading order; larger speaks for the first."""
    return _of_counts(pair) if pair.plan.protocol.sends_bits else _of_messages(pair)


def _of_counts(pair: Neighbours) -> Callable[[Reports], float]:
    """Σ over the differing bits of ln P₁(S_j)/P₂(S_j): exact where counts are independent."""
    plan, protocol = pair.plan, pair.plan.protocol
    width = plan.schema.width
    tables: list[tuple[int, int, Floats]] = []
    for j in sorted(set(pair.one.ones) ^ set(pair.two.ones)):
        others = (plan.n - 1) * (j in pair.rest.ones)
        with_one, with_two = (
            crowd(plan.n, others + (j in side.ones), protocol.q, protocol.k)
            if protocol.q
            else Distribution(others + (j in side.ones), np.ones(1))
            for side in (pair.one, pair.two)
        )
        fakes = _fakes_distribution(plan)
        a, b = with_one.plus(fakes), with_two.plus(fakes)
        low, high = min(a.low, b.low), max(a.high, b.high)
        logs = [_log_table(distribution, low, high) for distribution in (a, b)]
        tables.append((j, low, np.clip(logs[0] - logs[1], LOG_ZERO, -LOG_ZERO)))

    def score(reports: Reports) -> float:
        counts = np.bincount(reports.messages, minlength=width)
        return sum(float(table[min(max(int(counts[j]) - low, 0), table.size - 1)]) for j, low, table in tables)

    return score


def _log_table(distribution: Distribution, low: int, high: int) -> Floats:
    table = np.full(high - low + 1, LOG_ZERO)
    table[distribution.low - low : distribution.high - low + 1] = np.log(
        np.maximum(distribution.pmf, math.exp(LOG_ZERO))
    )
    return table


def _fakes_distribution(plan: Plan) -> Distribution:
    """How many fakes show one bit."""
    protocol, m = plan.protocol, plan.protocol.m
    v = protocol.q + (1 - 2 * protocol.q) * plan.schema.density
    if isinstance(m, int):
        return binomial(m, v)
    if m.by == "shuffler":
        return Distribution(0, m.pmf)
    if m.distribution == "binomial":
        return binomial(plan.n * m.shift, m.scale * v)
    mean = plan.n * m.scale * v
    number = np.arange(math.ceil(mean + 12 * math.sqrt(mean) + 40))
    return Distribution(0, np.exp(number * math.log(mean) - mean - gammaln(number + 1)))


def _of_messages(pair: Neighbours) -> Callable[[Reports], float]:
    """ln Σᵢ μ₁(yᵢ)/ω(yᵢ) − ln Σᵢ μ₂(yᵢ)/ω(yᵢ), ω the law of all messages together; alone, Σᵢ ln μ₁(yᵢ)/μ₂(yᵢ)."""
    plan = pair.plan
    n, k = plan.n, plan.protocol.k
    distributions = [_message_distribution(plan, probe) for probe in (pair.one, pair.two, pair.rest)]
    fakes, fake_distribution = _fakes_in_all(plan), _fake_distribution(plan)

    def score(reports: Reports) -> float:
        one, two, rest = (distribution(reports.messages) for distribution in distributions)
        if n == 1 and not fakes:
            return float((one - two).sum())
        parts = [one + math.log(k / 2), two + math.log(k / 2)]
        if n > 1:
            parts.append(rest + math.log(k * (n - 1)))
        if fakes:
            parts.append(fake_distribution(reports.messages) + math.log(fakes))
        everyone = np.logaddexp.reduce(parts)
        return float(np.logaddexp.reduce(one - everyone) - np.logaddexp.reduce(two - everyone))

    return score


MessageLaw = Callable[[NDArray[np.uint8]], Floats]


def _message_distribution(plan: Plan, probe: Probe) -> MessageLaw:
    """ln of the probability of each message of a record."""
    q, width = plan.protocol.q, plan.schema.width
    if plan.protocol.sends_category:
        logs = np.full(width, math.log(q))
        logs[probe.ones[0]] = math.log(1 - (width - 1) * q)
        return lambda messages: np.asarray(logs[messages])
    packed = np.packbits(probe.bits(width), bitorder="little")
    flip_probability = math.log(q) if q else LOG_ZERO
    by_distance = np.arange(width + 1) * flip_probability + np.arange(width, -1, -1) * math.log1p(-q)
    return lambda messages: np.asarray(by_distance[np.bitwise_count(messages ^ packed).sum(axis=1, dtype=np.int64)])


def _fakes_in_all(plan: Plan) -> float:
    m = plan.protocol.m
    if isinstance(m, int):
        return float(m)
    return m.mean * (plan.n if m.by == "users" else plan.schema.size)


def _fake_distribution(plan: Plan) -> MessageLaw:
    """ln of the probability of each message of a fake: by the number w of its ones, Σ over sizes i and overlaps o of
    C(w, o) C(W − w, i − o) q^(w + i − 2o) p^(W − w − i + 2o), over the number of legal records."""
    schema, q = plan.schema, plan.protocol.q
    width = schema.width
    if schema.dense:
        return lambda messages: np.full(len(messages), -width * math.log(2))
    flip_probability = math.log(q) if q else LOG_ZERO
    ones = np.arange(width + 1)
    sizes = [1] if schema.exclusive else range(schema.max_set + 1)
    parts: list[Floats] = []
    for i in sizes:
        for o in range(i + 1):
            fits = (o <= ones) & (i - o <= width - ones)
            ways = _log_choose(ones, o) + _log_choose(width - ones, i - o)
            wrong = ones + i - 2 * o
            parts.append(
                np.where(fits, ways + wrong * flip_probability + (width - wrong) * math.log1p(-q), LOG_ZERO * width)
            )
    table = np.logaddexp.reduce(parts) - math.log(schema.size)
    return lambda messages: np.asarray(table[np.bitwise_count(messages).sum(axis=1, dtype=np.int64)])


def _log_choose(n: NDArray[np.int64], k: int) -> Floats:
    top = np.maximum(n, k)
    return np.asarray(gammaln(top + 1.0) - math.lgamma(k + 1) - gammaln(top - k + 1.0))
