"""Poisoning: malicious clients that send chosen messages instead of randomized ones."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy
from hubbub.lab.attacks import evidence
from hubbub.lab.attacks.evidence import Attack, Reading, simulated
from hubbub.mechanisms.noise import known_total
from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import crowd
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports, message_type
from hubbub.pipeline.shuffle import shuffle
from hubbub.pipeline.tally import tally
from hubbub.planner import plan_from
from hubbub.planner.influence import votes
from hubbub.report import Axis, Series, chart
from hubbub.results.estimate import estimate
from hubbub.results.labels import LabelView

LABELS, HONEST, MALICIOUS = 4, 900, 100
MANY = 25  # messages of a malicious client if nothing limits their number
CROWD, ONES, FLIP = 1000, 300, 0.1  # of the interval experiment: honest people, those with the label, flip probability


@dataclass(frozen=True, slots=True)
class Case:
    """A protocol, and the number of messages with the target label from each malicious client."""

    name: str
    protocol: Protocol
    sent: int


def cases() -> list[Case]:
    """Return every kind of protocol with the most and the least that a malicious client can send.

    Whole records are exactly k messages, or the shuffler rejects the batch. Split bits, and records among a random
    number of users' fakes, have no fixed number per person: only the receiver of an upload can limit it, and here a
    malicious client sends 25.
    """
    q, split = 0.1, Protocol(0.1, release="bits")
    found = [Case(f"flip, {kind}", Protocol(flip), sent) for flip in (0.05, 0.1, 0.25, 0.4) for kind, sent in UP_DOWN]
    found += [Case(f"4 copies, {kind}", Protocol(q, k=4), 4 * sent) for kind, sent in UP_DOWN]
    found += [Case(f"one category, {kind}", Protocol(q, release="category"), sent) for kind, sent in UP_DOWN]
    found += [Case(f"clear among fakes, {kind}", Protocol(0.0, m=500), sent) for kind, sent in UP_DOWN]
    found += [Case(f"split bits, {kind}", split, sent) for kind, sent in (*UP_DOWN, (f"{MANY} times", MANY))]
    users = Protocol(0.0, m=Fakes.binomial(1, 0.25))
    found += [Case(f"users' fakes, {kind}", users, sent) for kind, sent in (*UP_DOWN, (f"{MANY} times", MANY))]
    return found


UP_DOWN = (("up", 1), ("down", 0))


def bias(protocol: Protocol, schema: Schema, sent: int) -> float:
    """Return the shift of an estimate by one malicious client that sends this many messages with the label.

    That of :func:`hubbub.planner.influence.votes`: (1 − q)/(1 − 2q) with the planned number of messages, −q/(1 − 2q)
    with none. Whole records beyond k count as users' fakes, whose expected share of the label is subtracted. Where the
    counts of d labels add up to the number of people, (1 − 1/d)/(1 − 2q) + 1/d, and −2q/(d(1 − 2q)) with records of
    another label.

    >>> round(bias(Protocol(0.25), Schema.bits(4), 1), 12), round(bias(Protocol(0.25), Schema.bits(4), 0), 12)
    (1.5, -0.5)
    >>> round(bias(Protocol(0.25), Schema.one_hot(4), 1), 12), round(bias(Protocol(0.25), Schema.one_hot(4), 0), 12)
    (1.75, -0.25)
    """
    evidence.check_no_survey(schema)
    k, records = protocol.k, protocol.sends_records
    found = votes(protocol, schema, sent, max(0, sent - k) if records else 0)
    if records and known_total(schema, protocol):
        found -= max(0, k - sent) / (k * (1 - 2 * protocol.q) * schema.width)
    return found


def _messages(plan: Plan, malicious: int, sent: int) -> NDArray[np.generic]:
    """Return the messages of all malicious clients: label 0 is the target, label 1 stands for its absence."""
    protocol, kind = plan.protocol, message_type(plan)
    if protocol.sends_records:
        return np.full((malicious * max(protocol.k, sent), plan.payload), 1 if sent else 2, np.uint8)
    if protocol.sends_category:
        return np.full(malicious, 0 if sent else 1, kind)
    return np.zeros(malicious * sent, kind)


def poisoned(plan: Plan, truth: NDArray[np.int64], malicious: int, sent: int, entropy: Entropy) -> LabelView:
    """Run the pipeline with malicious messages among the honest reports."""
    evidence.check_no_survey(plan.schema)
    reports = randomize(Collection.from_values(truth, plan.schema), plan, entropy=entropy)
    messages = np.concatenate([reports.messages, _messages(plan, malicious, sent)])
    batch = Reports(plan, messages, reports.n + malicious, reports.fakes)
    found: LabelView = estimate(tally(shuffle(batch, entropy=entropy)), plan).question
    return found


def attack(case: Case, *, repetitions: int, entropy: Entropy) -> Reading:
    """Simulate the shift of the estimate per malicious client."""
    schema = Schema.one_hot(LABELS)
    plan = _plan(schema, HONEST + MALICIOUS, case.protocol)
    truth = np.arange(HONEST) % LABELS
    true_count = int((truth == 0).sum())
    found = [poisoned(plan, truth, MALICIOUS, case.sent, entropy) for _ in range(repetitions)]
    shifts = np.array([(float(one.values[0]) - true_count) / MALICIOUS for one in found])
    # The planned σ includes flips of malicious clients, and for a category the worst data: it is an upper bound.
    sigma = plan.stderr / MALICIOUS
    return evidence.mean_reading(case.name, case.protocol.q, bias(case.protocol, schema, case.sent), shifts, sigma)


def coverage(malicious: int, level: float = 0.95) -> float:
    """Return the coverage of an interval with this many clients that always send the label: exact.

    >>> coverage(0) > 0.95, coverage(30) < 0.3
    (True, True)
    """
    plan, n = _plan(Schema.bits(1), CROWD, Protocol(FLIP)), CROWD + malicious
    distribution, gain = crowd(CROWD, ONES, plan.protocol.q), 1 - 2 * plan.protocol.q
    values = (np.arange(distribution.low, distribution.high + 1) + malicious - plan.protocol.q * n) / gain
    return float(distribution.pmf[np.abs(values - ONES) <= _reach(plan, n, level)].sum())


def _reach(plan: Plan, n: int, level: float) -> float:
    """Return half the width of the analyzer's interval, which depends only on the batch size."""
    low, high = estimate(tally(Reports(plan, np.zeros((n, 1), np.uint8), n)), plan).question.interval(level)
    return float(high[0] - low[0]) / 2


@cache
def _plan(schema: Schema, n: int, protocol: Protocol) -> Plan:
    return plan_from(schema, n, protocol, delta=1e-6)


def coverage_attack(malicious: int, *, repetitions: int, entropy: Entropy) -> Reading:
    """Simulate how often the 95 % interval contains the number of honest people with the label."""
    plan, n = _plan(Schema.bits(1), CROWD, Protocol(FLIP)), CROWD + malicious
    truth = (np.arange(CROWD) < ONES)[:, None]
    held = []
    for _ in range(repetitions):
        reports = randomize(Collection.from_values(truth, plan.schema), plan, entropy=entropy)
        messages = np.concatenate([reports.messages, np.ones((malicious, 1), np.uint8)])
        low, high = estimate(tally(Reports(plan, messages, n)), plan).question.interval(0.95)
        held.append(low[0] <= ONES <= high[0])
    return evidence.rate_reading("coverage", malicious, coverage(malicious), np.array(held))


def demonstrate(*, trials: int, entropy: Entropy) -> Attack:
    """Attack every kind of protocol in both directions, and the coverage of the intervals."""
    repetitions = max(20, trials // 40)
    readings = [attack(case, repetitions=repetitions, entropy=entropy) for case in cases()]
    flips = np.linspace(0.0, 0.45, 46)
    modest = [reading for reading in readings if abs(reading.exact) < 10]
    shifts = chart(
        [
            Series(
                label="always the label: (1 − 1/d)/(1 − 2q) + 1/d",
                points=[(q, (1 - 1 / LABELS) / (1 - 2 * q) + 1 / LABELS) for q in flips],
            ),
            Series(label="always another: −2q/(d(1 − 2q))", points=[(q, -2 * q / (1 - 2 * q) / LABELS) for q in flips]),
            *(
                simulated(kind, [r for r in modest if r.series.startswith(kind)])
                for kind in ("flip", "4 copies", "split bits", "clear among fakes")
            ),
        ],
        "Shift of an estimate per malicious client",
        across=Axis("flip probability q"),
        up=Axis("people per malicious client"),
    )
    numbers = (0, 5, 10, 20, 40)
    held = [coverage_attack(malicious, repetitions=4 * repetitions, entropy=entropy) for malicious in numbers]
    intervals = chart(
        [
            Series(label="exact", points=[(malicious, coverage(malicious)) for malicious in range(41)]),
            simulated("simulated", held, "one"),
        ],
        "Coverage of a 95 % interval, by number of malicious clients",
        across=Axis(f"malicious clients among {CROWD:,} honest people"),
        up=Axis("coverage"),
    )
    sigma = math.sqrt(CROWD * FLIP * (1 - FLIP)) / (1 - 2 * FLIP)
    schema = Schema.one_hot(LABELS)
    flip, many = bias(Protocol(0.1), schema, 1), bias(Protocol(0.1, release="bits"), schema, MANY)
    return Attack(
        name="poisoning",
        title="Malicious clients",
        sentences=(
            f"Of d labels whose counts add up to the number of people, a malicious client that always sends one counts "
            f"as (1 − 1/d)/(1 − 2q) + 1/d people, {flip:.3g} at q = 0.1 and d = {LABELS}, and on each of the others as "
            f"−2q/(d(1 − 2q)); copies change nothing, but split bits do not show their sender: "
            f"{MANY} messages of one client count as {many:.3g} people unless the receiver limits uploads.",
            f"Error bars cover random flips, not manipulation: with σ = {sigma:.3g} the 95 % interval contains the "
            f"truth in {coverage(0):.0%} of cases without malicious clients, in {coverage(20):.0%} with 20 among "
            f"{CROWD:,}.",
        ),
        x="flip probability, or number of malicious clients",
        y="shift of an estimate per malicious client, or coverage",
        readings=[*readings, *held],
        pictures={"poisoning-bias": shifts, "poisoning-intervals": intervals},
        captions={
            "poisoning-bias": "Per client: 100 malicious among 900 honest ones; one-hot records of four labels.",
            "poisoning-intervals": f"Single bits, q = {FLIP:g}; malicious clients always send a one.",
        },
    )
