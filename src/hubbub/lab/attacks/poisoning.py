"""Poisoning: people who send what they like instead of what the protocol makes of their answer."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hubbub.analyzer import estimate, tally
from hubbub.bits.entropy import Entropy
from hubbub.client import randomize
from hubbub.estimates import Estimate
from hubbub.lab.attacks.evidence import Attack, Reading, mean_reading, rate_reading, simulated
from hubbub.numeric.crowd import crowd
from hubbub.pages import Axis, Series, chart
from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.protocol import Fakes, Protocol
from hubbub.records import Collection
from hubbub.reports import Reports, message_type
from hubbub.schema import Schema
from hubbub.shuffler import shuffle

LABELS, HONEST, MALICIOUS = 4, 900, 100
MANY = 25
"""Messages of one liar where nothing limits their number."""
CROWD, ONES, FLIP = 1000, 300, 0.1
"""Of the intervals: honest people, those who have the label, lie probability."""


@dataclass(frozen=True, slots=True)
class Case:
    """A protocol, and how many messages with the attacked label each liar sends."""

    name: str
    protocol: Protocol
    sent: int


def cases() -> list[Case]:
    """Every kind of protocol with the most and the least that its wire format lets a liar send.

    Whole records are k messages, no more and no less, or the shuffler refuses the batch. Of split bits, and where users
    add a random number of fakes, messages show neither how many came from one person nor a limit: only whoever receives
    them can count them, and here a liar sends 25.
    """
    q, split = 0.1, Protocol(0.1, release="bits")
    found = [
        Case(f"flip, {kind}", Protocol(flip_probability), sent)
        for flip_probability in (0.05, 0.1, 0.25, 0.4)
        for kind, sent in UP_DOWN
    ]
    found += [Case(f"4 copies, {kind}", Protocol(q, k=4), 4 * sent) for kind, sent in UP_DOWN]
    found += [Case(f"one category, {kind}", Protocol(q, release="category"), sent) for kind, sent in UP_DOWN]
    found += [Case(f"clear among fakes, {kind}", Protocol(0.0, m=500), sent) for kind, sent in UP_DOWN]
    found += [Case(f"split bits, {kind}", split, sent) for kind, sent in (*UP_DOWN, (f"{MANY} times", MANY))]
    users = Protocol(0.0, m=Fakes.binomial(1, 0.25))
    found += [Case(f"users' fakes, {kind}", users, sent) for kind, sent in (*UP_DOWN, (f"{MANY} times", MANY))]
    return found


UP_DOWN = (("up", 1), ("down", 0))


def bias(protocol: Protocol, schema: Schema, sent: int) -> float:
    """By how much one liar moves an estimate who lacks the label and sends so many messages that show it.

    (sent − kq)/(k(p − q)): (1 − q)/(1 − 2q) up with as many as are planned, −q/(1 − 2q) with none. For one category of
    d the divisor is 1 − dq. Whole records beyond k are taken for fakes of users, whose share v of the label is
    subtracted.

    >>> round(bias(Protocol(0.25), Schema.one_hot(4), 1), 12), round(bias(Protocol(0.25), Schema.one_hot(4), 0), 12)
    (1.5, -0.5)
    """
    q, k = protocol.q, protocol.k
    if protocol.sends_category:
        return (sent - q) / (1 - schema.width * q)
    beyond = max(0, sent - k) if protocol.sends_records else 0
    fake = q + (1 - 2 * q) * schema.density
    return (sent - k * q - beyond * fake) / (k * (1 - 2 * q))


def _flips(plan: Plan, malicious: int, sent: int) -> NDArray[np.generic]:
    """The messages of all liars: the attacked label is number 0; whoever is to lack it shows number 1."""
    protocol, kind = plan.protocol, message_type(plan)
    if protocol.sends_records:
        return np.full((malicious * max(protocol.k, sent), plan.payload), 1 if sent else 2, np.uint8)
    if protocol.sends_category:
        return np.full(malicious, 0 if sent else 1, kind)
    return np.zeros(malicious * sent, kind)


def poisoned(plan: Plan, truth: NDArray[np.int64], malicious: int, sent: int, entropy: Entropy) -> Estimate:
    """The whole street with liars on it: honest reports, the lies among them, shuffled, counted, estimated."""
    reports = randomize(Collection.from_values(truth, plan.schema), plan, entropy=entropy)
    messages = np.concatenate([reports.messages, _flips(plan, malicious, sent)])
    batch = Reports(plan, messages, reports.n + malicious, reports.fakes)
    return estimate(tally(shuffle(batch, entropy=entropy)), plan)


def attack(case: Case, *, repetitions: int, entropy: Entropy) -> Reading:
    """Simulate the shift of the estimate per liar."""
    schema = Schema.one_hot(LABELS)
    plan = plan_from(schema, HONEST + MALICIOUS, case.protocol, delta=1e-6)
    truth = np.arange(HONEST) % LABELS
    records_with_bit = int((truth == 0).sum())
    found = [poisoned(plan, truth, MALICIOUS, case.sent, entropy) for _ in range(repetitions)]
    shifts = np.array([(float(one.values[0]) - records_with_bit) / MALICIOUS for one in found])
    # The planned σ counts the coins of liars, who toss none, and of a category the worst data: it errs upwards.
    sigma = plan.stderr / MALICIOUS
    return mean_reading(case.name, case.protocol.q, bias(case.protocol, schema, case.sent), shifts, sigma)


def coverage(malicious: int, level: float = 0.95) -> float:
    """How often an interval holds the truth, among this many who always say yes: exact, by the law of the honest count.

    >>> coverage(0) > 0.95, coverage(30) < 0.3
    (True, True)
    """
    plan, n = _single(), CROWD + malicious
    distribution, gain = crowd(CROWD, ONES, plan.protocol.q), 1 - 2 * plan.protocol.q
    values = (np.arange(distribution.low, distribution.high + 1) + malicious - plan.protocol.q * n) / gain
    return float(distribution.pmf[np.abs(values - ONES) <= _reach(plan, n, level)].sum())


def _reach(plan: Plan, n: int, level: float) -> float:
    """Half the width of the analyzer's own interval, which depends on the size of the batch and not on its content."""
    low, high = estimate(tally(Reports(plan, np.zeros((n, 1), np.uint8), n)), plan).interval(level)
    return float(high[0] - low[0]) / 2


@cache
def _single() -> Plan:
    return plan_from(Schema.bits(1), CROWD, Protocol(FLIP), delta=1e-6)


def coverage_attack(malicious: int, *, repetitions: int, entropy: Entropy) -> Reading:
    """Simulate how often the 95 % interval holds the number of honest people who have the label."""
    plan, n = _single(), CROWD + malicious
    truth = (np.arange(CROWD) < ONES)[:, None]
    held = []
    for _ in range(repetitions):
        reports = randomize(Collection.from_values(truth, plan.schema), plan, entropy=entropy)
        messages = np.concatenate([reports.messages, np.ones((malicious, 1), np.uint8)])
        low, high = estimate(tally(Reports(plan, messages, n)), plan).interval(0.95)
        held.append(low[0] <= ONES <= high[0])
    return rate_reading("coverage", malicious, coverage(malicious), np.array(held))


def demonstrate(*, trials: int, entropy: Entropy) -> Attack:
    """Every kind of protocol, liars who push and liars who pull, and what becomes of the intervals."""
    repetitions = max(20, trials // 40)
    readings = [attack(case, repetitions=repetitions, entropy=entropy) for case in cases()]
    flips = np.linspace(0.0, 0.45, 46)
    modest = [reading for reading in readings if abs(reading.exact) < 10]
    shifts = chart(
        [
            Series(label="always the label: (1 − q)/(1 − 2q)", points=[(q, (1 - q) / (1 - 2 * q)) for q in flips]),
            Series(label="never the label: −q/(1 − 2q)", points=[(q, -q / (1 - 2 * q)) for q in flips]),
            *(
                simulated(kind, [r for r in modest if r.series.startswith(kind)])
                for kind in ("flip", "4 copies", "split bits", "clear among fakes")
            ),
        ],
        "People by which one liar moves an estimate",
        across=Axis("lie probability q"),
        up=Axis("people, of one liar"),
    )
    numbers = (0, 5, 10, 20, 40)
    held = [coverage_attack(malicious, repetitions=4 * repetitions, entropy=entropy) for malicious in numbers]
    intervals = chart(
        [
            Series(label="exact", points=[(malicious, coverage(malicious)) for malicious in range(41)]),
            simulated("simulated", held, "one"),
        ],
        "How often a 95 % interval holds the truth, by the number of liars",
        across=Axis(f"liars among {CROWD:,} honest people"),
        up=Axis("intervals that hold the truth"),
    )
    sigma = math.sqrt(CROWD * FLIP * (1 - FLIP)) / (1 - 2 * FLIP)
    schema = Schema.one_hot(LABELS)
    flip, many = bias(Protocol(0.1), schema, 1), bias(Protocol(0.1, release="bits"), schema, MANY)
    return Attack(
        name="poisoning",
        title="People who lie",
        sentences=(
            f"A liar who always sends the label counts as (1 − q)/(1 − 2q) people, {flip:.3g} at q = 0.1, and one who "
            f"never does as −q/(1 − 2q); copies change nothing, but of split bits a message does not show who "
            f"sends how many: {MANY} by one liar count as {many:.3g} people, unless their receiver sets a limit.",
            f"Error bars are about coins and say nothing about lies: with σ = {sigma:.3g} the 95 % interval holds the "
            f"truth in {coverage(0):.0%} of all cases without liars, in {coverage(20):.0%} with 20 among {CROWD:,}.",
        ),
        x="lie probability, or number of liars",
        y="people by which one liar moves an estimate, or intervals that hold the truth",
        readings=[*readings, *held],
        pictures={"poisoning-bias": shifts, "poisoning-intervals": intervals},
        captions={
            "poisoning-bias": "One liar of a hundred among 900 honest people; one-hot records of four labels.",
            "poisoning-intervals": f"Single bits, q = {FLIP:g}; the liars always send a one.",
        },
    )
