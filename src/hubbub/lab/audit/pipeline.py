"""Attacks on the whole pipeline: client and shuffler run many times on two neighbouring collections.

The attacker knows everything except one record. The statistic is the likelihood ratio of the released batch: of its
counts for split bits, of the multiset of its messages otherwise. Small crowds are attacked, because their ε is large
enough to be measured, and are held against their own account.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hubbub.lab.audit.commands import Client, Shuffler
from hubbub.lab.audit.distinguishers import Attack, best_threshold, curve_points
from hubbub.lab.audit.model import LOG_ZERO, Floats, MessageModel, Probe
from hubbub.lab.audit.probes import probes
from hubbub.model.plans import Plan
from hubbub.numeric.crowd import crowd
from hubbub.numeric.distributions import Distribution
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports
from hubbub.planner import plan_from

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
        others = f", others {self.rest.name}" if self.plan.n > 1 else ""
        return f"n = {self.plan.n}: {self.one.name} | {self.two.name}{others}"

    def collections(self) -> tuple[Collection, Collection]:
        """Return both collections, with the victim's record first."""
        width = self.plan.schema.width
        rows = np.tile(self.rest.bits(width), (self.plan.n, 1))
        first, second = (np.vstack([victim.bits(width), rows[1:]]) for victim in (self.one, self.two))
        return Collection.from_values(first, self.plan.schema), Collection.from_values(second, self.plan.schema)

    def statistic(self) -> Callable[[Reports], float]:
        """Return the log-likelihood ratio of a batch."""
        return statistic(self)


class Pair(Protocol):
    """Two neighbouring collections that an attack tells apart."""

    @property
    def plan(self) -> Plan:
        """The plan of both, with its guarantee."""

    @property
    def name(self) -> str:
        """The pair in words."""

    def collections(self) -> tuple[Collection, Collection]:
        """Return both collections."""

    def statistic(self) -> Callable[[Reports], float]:
        """Return the log-likelihood ratio of a batch; large values indicate the first collection."""


def crowds(plan: Plan) -> list[Neighbours]:
    """Return the neighbours to attack: one person alone, and a small crowd with the same or with a third record."""
    held, protocol, schema = plan.guarantee, plan.protocol, plan.schema
    found = probes(schema)
    one, two = max(((a, b) for a in found for b in found), key=lambda pair: len(pair[0].differs(pair[1])))
    third = [probe for probe in found if probe not in (one, two)][:1]
    sizes = [1] if not protocol.clear and not MessageModel(plan).has_user_fakes else []
    if held.assumptions.shuffler:
        sizes.append(min(plan.n, CLEAR_CROWD if protocol.clear else CROWD))
    result = []
    for n in dict.fromkeys(sizes):
        m = protocol.m
        if protocol.fixed_fakes and not protocol.clear:
            # Fakes among flipped records keep their ratio to people; clear records are hidden by their number alone.
            m = min(protocol.fixed_fakes, max(1, -(-protocol.fixed_fakes * n // plan.n)))
        small = plan_from(schema, n, protocol.changed(m=m), delta=held.delta, trust=held.assumptions.trust)
        if small.guarantee.epsilon < math.inf:
            rests = [two] if n == 1 else [two, *third]
            result += [Neighbours(small, one, two, rest) for rest in rests]
    return result


def cost(plan: Plan) -> float:
    """Return the approximate number of messages of one run of the pipeline."""
    drawn = MessageModel(plan).expected_fakes if plan.protocol.shuffler_fakes is not None else 0.0
    return plan.n * plan.payload_messages + drawn + 20


def attack_pipeline(
    pair: Pair, client: Client, shuffler: Shuffler, runs: int, level: float, progress: Callable[[], None]
) -> list[Attack]:
    """Run both collections many times and tell them apart in both orders; every second run chooses the threshold."""
    score = pair.statistic()
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
    """Return the log-likelihood ratio of a batch, exact or to leading order; large values indicate the first record."""
    return _from_messages(pair) if MessageModel(pair.plan).linked else _from_counts(pair)


def _from_counts(pair: Neighbours) -> Callable[[Reports], float]:
    """Σ over the differing bits of ln P₁(S_j)/P₂(S_j): exact if counts are independent."""
    plan, protocol = pair.plan, pair.plan.protocol
    fakes = MessageModel(plan).fakes_with_bit()
    tables: list[tuple[int, int, Floats]] = []
    for j in pair.one.differs(pair.two):
        others = (plan.n - 1) * (j in pair.rest.ones)
        a, b = (
            Distribution(others + (j in side.ones), np.ones(1)).plus(fakes)
            if protocol.clear
            else crowd(plan.n, others + (j in side.ones), protocol.q, protocol.k).plus(fakes)
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
    likelihoods = [model.log_likelihood(probe) for probe in (pair.one, pair.two, pair.rest)]
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
