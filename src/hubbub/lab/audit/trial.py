"""``audit``: all tests and all attacks on a client and a mix, and the verdict."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from hubbub.errors import Interval, WireError, check_real, check_whole
from hubbub.lab.audit import chain as chains
from hubbub.lab.audit import flips, independence, shuffler
from hubbub.lab.audit.commands import Client, Command, CommandShuffler, ShufflerProgram
from hubbub.lab.audit.distinguishers import Attack, attack_bits, attack_pairs, is_local
from hubbub.lab.audit.findings import Finding
from hubbub.lab.audit.flips import Rate, moments, rates
from hubbub.lab.audit.probes import Sample, drawn_by_users, neighbours, probes, sample
from hubbub.lab.audit.statistics import shortfall
from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.protocol import Fakes

LIMITS = (
    "An audit shows presence, not absence: a client that behaves when it is watched, or on other values, passes.",
    "It sees outputs only. Timing, memory, logs, keys, the sender's address and whatever else leaves a device are not "
    "seen.",
    "Randomness that is predictable but looks random (a weak seed, a generator that someone knows) is not found, "
    "unless it repeats itself within the audit.",
    "A bound from below proves no privacy: it says what the attacks tried have reached. The guarantee is the plan's.",
)
"""What an audit can not show."""

FLIPS = 14_000
"""Lies that are wanted in all, of bits not set: enough to find a q that is 5 % too small, 19 times of 20."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is tried."""

    values: int
    """How often each probe is sent in one run."""
    runs: int
    """Runs of each probe."""
    mixes: int
    chain: int
    """Runs of the chain on each of two neighbours; 0 leaves it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found, and the verdict."""

    plan: Plan
    confidence: float
    level: float
    """The share of the false alarms that each test has: (1 − confidence) over their number."""
    effort: Effort
    probes: int
    findings: list[Finding]
    attacks: list[Attack]
    rates: list[Rate]
    power: float | None
    """By which share a q must be too small on all bits to be found with probability 95 %; None where nothing lies."""
    power_bit: float | None
    """The same on one bit only."""
    notes: list[str]
    """What was left out, and why."""

    @property
    def violations(self) -> list[Finding]:
        """The tests that speak against the plan, what was tested first at first."""
        return [one for one in self.findings if one.violates(self.level)]

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.violations

    @property
    def best(self) -> Attack | None:
        """The attack that came nearest to its claim, or furthest beyond."""
        return max(self.attacks, key=lambda one: one.epsilon / one.claimed if one.claimed else 0.0, default=None)

    def sentence(self) -> str:
        """The verdict in words."""
        if not self.passed:
            reasons = "; ".join(f"{one.name}: {one.where}" for one in self.violations[:5])
            more = len(self.violations) - 5
            return f"FAIL: {reasons}" + (f"; and {more} more" if more > 0 else "")
        parts = ["PASS: no violation found"]
        if self.best is not None and self.best.epsilon > 0:
            parts.append(f"empirical ε ≥ {self.best.epsilon:.4g}, claimed ≤ {self.best.claimed:.4g} ({self.best.name})")
        if self.power is not None:
            share = f"{100 * self.power:.2g} % too small" if self.power < 1 else "too small by any share"
            seen = "would" if self.power < 1 else "would not"
            text = f"a q that is {share} {seen} have been found with 95 % probability"
            if self.power_bit is not None:
                alone = f"{100 * self.power_bit:.2g} %" if self.power_bit < 1 else "not even q = 0"
                text += f" (on a single bit: {alone})"
            parts.append(text)
        return "; ".join(parts)


def effort(plan: Plan, client: Client | None, mix: ShufflerProgram | None, *, runs: int | None = None) -> Effort:
    """As much as finds a q that is 5 % too small, within bounds on memory and time; ``runs`` says it for each probe.

    >>> from hubbub.schema import Schema
    >>> from hubbub.lab.audit.commands import own_client
    >>> from hubbub.protocol import Protocol
    >>> effort(plan_from(Schema.bits(8), 100, Protocol(0.01), delta=1e-6, shuffler=False), own_client, None)
    Effort(values=6731, runs=8, mixes=0, chain=0)
    """
    protocol, width = plan.protocol, plan.schema.width
    slow, split = isinstance(client, Command), protocol.sends_bits
    chosen = probes(plan.schema)
    zeros = sum(width - len(probe.ones) for probe in chosen)
    each = protocol.k * protocol.q * zeros
    # Fakes among the messages drown lies in their own noise.
    wanted = (4 if drawn_by_users(plan) else 1) * FLIPS / each if each else 4000.0
    room = (1 << 25) / (plan.payload_messages * (plan.payload if not split else 4))
    if plan.schema.dense or protocol.sends_records:
        room = min(room, (1 << 26) / (protocol.k * width))
    times = 3 if slow else 32 if split else 8
    total = runs if runs is not None else max(4000.0, min(wanted, room, 100_000 if slow else 2_000_000))
    mixes = 0
    if isinstance(mix, CommandShuffler):
        size = protocol.k * plan.n + (protocol.fixed_fakes)
        mixes = int(min(30, max(10, 4_000_000 // size)))
    elif mix is not None:
        mixes = 200 if runs is None else min(200, max(20, runs // 10))
    both = client is not None and mix is not None and not slow and not isinstance(mix, CommandShuffler)
    chain = 0 if not both else 1000 if runs is None else min(1000, max(100, runs // 4))
    return Effort(values=max(1, math.ceil(total / times)), runs=times, mixes=mixes, chain=chain)


def audit(
    plan: Plan,
    client: Client | None,
    mix: ShufflerProgram | None,
    *,
    runs: int | None = None,
    confidence: float = 0.99,
    tried: Effort | None = None,
    tell: Callable[[str, int, int], None] = lambda text, done, total: None,
) -> Audit:
    """Audit a client, a mix, or with both also the chain, against a plan.

    An honest program passes with probability ``confidence`` at least: each of M tests is made at (1 − confidence)/M,
    and every bound on ε holds at that level. ``tell`` hears what is done, how much of it, and of how much.
    """
    confidence = check_real("confidence", confidence, Interval(0.5, 1.0, open_high=True))
    if runs is not None:
        check_whole("runs", runs, 100)
    tried = tried or effort(plan, client, mix, runs=runs)
    notes: list[str] = []
    findings: list[Finding] = []
    samples = _send(client, plan, tried, tell, findings) if client is not None else []
    if samples:
        findings += [*flips.examine(samples, plan), *independence.examine(samples, plan)]
    if mix is not None:
        findings += _mix(mix, plan, tried, tell, notes)
    broken = any(one.part == "wire" for one in findings)
    pairs = neighbours([one.probe for one in samples]) if samples and is_local(plan) else []
    single = bool(samples) and not plan.protocol.sends_category and plan.protocol.q > 0 and not drawn_by_users(plan)
    crowds = chains.crowds(plan) if tried.chain and not broken else []
    if client is not None and not crowds:
        notes.append(_no_chain(plan, client, mix, broken))
    level = (1 - confidence) / max(1, len(findings) + 2 * len(pairs) + single + 2 * len(crowds))
    attacks = attack_pairs(samples, pairs, plan, level) if pairs else []
    attacks += [attack_bits(samples, plan, level)] if single else []
    findings += [one.finding("client", level) for one in attacks]
    if crowds:
        assert client is not None
        assert mix is not None
        reached = _chain(crowds, client, mix, tried, level, tell)
        attacks += reached
        findings += [one.finding("chain", level) for one in reached]
    power, power_bit = _power(samples, plan, level)
    return Audit(
        plan=plan,
        confidence=confidence,
        level=level,
        effort=tried,
        probes=len(samples),
        findings=findings,
        attacks=attacks,
        rates=rates(samples, plan, 1 - confidence) if samples else [],
        power=power,
        power_bit=power_bit,
        notes=notes,
    )


def _wire(error: WireError, where: str) -> Finding:
    return Finding(part="wire", name=str(error), where=where, observed=1.0, allowed=0.0, p=0.0)


def _send(
    client: Client, plan: Plan, tried: Effort, tell: Callable[[str, int, int], None], findings: list[Finding]
) -> list[Sample]:
    """The samples of all probes; of those whose reports break the format, a finding."""
    found = probes(plan.schema)
    total, samples = len(found) * tried.runs, []
    for place, probe in enumerate(found):
        count = _counter("asking", place * tried.runs, total, tell)
        try:
            one = sample(client, plan, probe, tried.values, tried.runs, count)
        except WireError as error:
            findings.append(_wire(error, f"value: {probe.name}"))
        else:
            samples.append(one)
    return samples


def _mix(
    mix: ShufflerProgram, plan: Plan, tried: Effort, tell: Callable[[str, int, int], None], notes: list[str]
) -> list[Finding]:
    """The tests of a mix: a command gets batches of the plan itself, anything else also numbered ones."""
    m = plan.protocol.m
    drawn = isinstance(m, Fakes) and m.by == "shuffler"
    if isinstance(mix, CommandShuffler):
        plans = [plan]
        size = plan.protocol.k * plan.n + (m if isinstance(m, int) else 0)
        if drawn or shuffler.distinct(plan) < size:
            notes.append("messages of this plan cannot be numbered: the mix is tested by blocks of arrivals only")
    else:
        plans = [shuffler.numbered_plan()]
        if drawn:
            held = plan.guarantee
            plans.append(plan_from(plan.schema, min(plan.n, 400), plan.protocol, delta=held.delta or 1e-9))
    found: list[Finding] = []
    for number, one in enumerate(plans):
        count = _counter("mixing", number * tried.mixes, len(plans) * tried.mixes, tell)
        try:
            orders = shuffler.observe(mix, one, tried.mixes, count)
        except WireError as error:
            found.append(_wire(error, "the mix"))
        else:
            found += shuffler.examine_shuffler(orders, one)
    return found


def _chain(
    crowds: Sequence[chains.Neighbours],
    client: Client,
    mix: ShufflerProgram,
    tried: Effort,
    level: float,
    tell: Callable[[str, int, int], None],
) -> list[Attack]:
    sizes = [int(min(tried.chain, max(100, 400_000 // chains.cost(pair.plan)))) for pair in crowds]
    count = _counter("attacking", 0, 2 * sum(sizes), tell)
    found = []
    for pair, size in zip(crowds, sizes, strict=True):
        found += chains.attack_chain(pair, client, mix, size, level, count)
    return found


def _counter(what: str, done: int, total: int, tell: Callable[[str, int, int], None]) -> Callable[[], None]:
    steps = itertools.count(done + 1)
    return lambda: tell(what, next(steps), total)


def _no_chain(plan: Plan, client: Client, mix: ShufflerProgram | None, broken: bool) -> str:
    if broken:
        return "the whole chain was not attacked: its messages are illegal"
    if isinstance(client, Command) or isinstance(mix, CommandShuffler):
        return "the whole chain was not attacked: it would need thousands of starts of a program"
    if mix is None:
        return "the whole chain was not attacked: there is no mix"
    return f"the whole chain was not attacked: no small crowd has a finite ε at δ = {plan.guarantee.delta:g}"


def _power(samples: Sequence[Sample], plan: Plan, level: float) -> tuple[float | None, float | None]:
    """The share by which q must be too small to be found, on all bits and on one."""
    q, width = plan.protocol.q, plan.schema.width
    if not samples or q == 0:
        return None, None
    sizes = [plan.protocol.k * one.n * one.runs for one in samples]
    if plan.protocol.sends_category:
        return shortfall(sum(sizes), (width - 1) * q, level), None
    zeros = [width - len(one.probe.ones) for one in samples]
    cells = sum(size * count for size, count in zip(sizes, zeros, strict=True))
    lone = max(
        sum(size for size, one in zip(sizes, samples, strict=True) if j not in one.probe.ones) for j in (0, width - 1)
    )
    share = level / (2 * width)
    if not drawn_by_users(plan):
        return shortfall(cells, q, level), shortfall(lone, q, share) if lone else None
    spread = [moments(plan, one.n * one.runs, int(one.fakes.sum())) for one in samples]
    variance = sum(c * one[1] + c * (c - 1) * one[2] for c, one in zip(zeros, spread, strict=True))
    alone = sum(one[1] for one, sample in zip(spread, samples, strict=True) if 0 not in sample.probe.ones)
    reach = [(1.645 - float(ndtri(part / 2))) for part in (level, share)]
    first = min(1.0, reach[0] * math.sqrt(variance) / (cells * q))
    return first, min(1.0, reach[1] * math.sqrt(alone) / (lone * q)) if lone else None
