"""Overflow bounds hold against enumeration, exact distributions and simulation, and they are reasonably tight."""

import itertools
import math
from collections import Counter

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.pipeline.points import PROTOCOLS, SCHEMAS
from tests.service.samples import SERVABLE, claimed, contract

import hubbub as hb
from hubbub.accountant import overflow as module
from hubbub.accountant.overflow import (
    MAX_DELTA_SHARE,
    check_slots,
    log_tail,
    max_messages,
    min_messages,
    min_slots,
    overflow,
    with_overflow,
)
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import Infeasible, InvalidInput
from hubbub.numeric.binomial import binomial_pmf
from hubbub.pipeline import device
from hubbub.pipeline.shuffle import legal_records


def plan_at(kind: str, name: str, epsilon: float = 1.0, delta: float = 1e-6) -> hb.Plan:
    return claimed(SCHEMAS[kind], PROTOCOLS[name], epsilon=epsilon, delta=delta)


def number_distribution(plan: hb.Plan, ones: int) -> NDArray[np.float64]:
    """P[messages = 0, 1, …] of a client whose record has this many bits set, by full enumeration."""
    protocol, schema = plan.protocol, plan.schema

    def split(bits: int) -> NDArray[np.float64]:
        if protocol.release != "bits":
            return np.array([0.0, 1.0])
        return np.convolve(binomial_pmf(bits, 1 - protocol.q), binomial_pmf(schema.width - bits, protocol.q))

    sizes = Counter(int(np.bitwise_count(record).sum()) for record in legal_records(schema))
    parts = [count / schema.size * split(bits) for bits, count in sizes.items()]
    fake = np.sum(parts, axis=0)
    m = protocol.m
    if not isinstance(m, hb.Fakes):
        numbers = np.eye(1, m // plan.n + 1, m // plan.n)[0]
    elif m.by == "shuffler":
        numbers = np.ones(1)
    elif m.distribution == "binomial":
        numbers = binomial_pmf(m.shift, m.scale)
    else:
        numbers = np.array([math.exp(-m.scale) * m.scale**i / math.factorial(i) for i in range(60)])
    own = np.ones(1)
    for _ in range(protocol.k):
        own = np.convolve(own, split(ones))
    distribution, sum_ = np.zeros(2000), np.ones(1)
    for number in numbers:
        both = np.convolve(own, sum_)
        distribution[: both.size] += number * both
        sum_ = np.convolve(sum_, fake)
    return distribution


@pytest.mark.parametrize(("kind", "name"), SERVABLE)
def test_tail_is_an_upper_bound_for_every_legal_record(kind: str, name: str) -> None:
    """The bound holds, and is within a factor of 100 if a client can have that many messages."""
    plan = plan_at(kind, name)
    sizes = {int(np.bitwise_count(record).sum()) for record in legal_records(plan.schema)}
    distributions = [number_distribution(plan, ones) for ones in sizes]
    for slots in range(45):
        worst = max(float(distribution[slots + 1 :].sum()) for distribution in distributions)
        bound = math.exp(log_tail(plan, slots))
        assert worst * (1 - 1e-12) <= bound
        assert bound <= 1
        if worst > 1e-250:
            assert bound <= max(100 * worst, worst ** (0.7 if kind == "at_most" else 0.9))


@pytest.mark.parametrize(("kind", "name"), SERVABLE)
def test_extremes(kind: str, name: str) -> None:
    """The fewest and the most messages are those of the enumerated distribution."""
    plan = plan_at(kind, name)
    sizes = {int(np.bitwise_count(record).sum()) for record in legal_records(plan.schema)}
    reached = np.sum([number_distribution(plan, ones) for ones in sizes], axis=0) > 0
    assert min_messages(plan) == int(np.flatnonzero(reached)[0])
    most = max_messages(plan)
    assert (most is None) == (isinstance(plan.protocol.m, hb.Fakes) and plan.protocol.m.distribution == "poisson")
    if most is not None:
        assert most == int(np.flatnonzero(reached)[-1])
        assert overflow(plan, most) == 0.0 == overflow(plan_at(kind, name, epsilon=math.inf), most)


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize("name", ["split", "split among binomial fakes", "flip among Poisson fakes"])
def test_devices_overflow_no_more_often(kind: str, name: str) -> None:
    """Simulated devices with the most bits set stay below the bound, and would break the bound for twice the slots."""
    plan, entropy, rounds = plan_at(kind, name), SeededStreamNotForPeople(7), 1500
    schema = plan.schema
    value = schema.labels[0] if kind == "one_hot" else schema.labels[: schema.max_set]
    numbers = np.array([len(device.payloads(value, plan, entropy=entropy)) for _ in range(rounds)])
    broken = 0
    for slots in range(1, 12):
        seen = float((numbers > slots).mean())
        bound = math.exp(log_tail(plan, slots))
        assert seen <= bound + 4 * math.sqrt(bound * (1 - bound) / rounds) + 1e-12
        broken += seen > math.exp(log_tail(plan, 2 * slots)) + 4 * math.sqrt(seen / rounds)
    assert broken


@given(
    st.sampled_from([point for point in SERVABLE if point[1] != "category"]),
    st.integers(0, 60),
    st.floats(0.0, 20.0),
    st.floats(1e-30, 0.5),
)
def test_price_falls_with_slots_and_min_slots_is_minimal(
    point: tuple[str, str], slots: int, epsilon: float, delta: float
) -> None:
    plan = plan_at(*point, epsilon=epsilon, delta=delta)
    assert overflow(plan, slots + 1) <= overflow(plan, slots)
    least = min_slots(plan)
    check_slots(plan, least)
    assert contract(plan).overflow <= MAX_DELTA_SHARE * delta
    for fewer in range(max(0, least - 3), least):
        with pytest.raises(InvalidInput):
            check_slots(plan, fewer)


@pytest.mark.parametrize(("kind", "name"), SERVABLE)
def test_pure_guarantees_need_slots_for_all_messages(kind: str, name: str) -> None:
    plan = plan_at(kind, name, delta=0.0)
    most = max_messages(plan)
    if most is None:
        with pytest.raises(Infeasible, match="pure"):
            min_slots(plan)
        with pytest.raises(InvalidInput):
            check_slots(plan, 1000)
        return
    assert min_slots(plan) == most
    for slots in (most - 1, most + 1):
        with pytest.raises(InvalidInput):
            check_slots(plan, slots)


@pytest.mark.parametrize(
    ("kind", "name"), [(k, n) for k, n in itertools.product(SCHEMAS, PROTOCOLS) if n != "category"]
)
def test_fillers_must_not_reveal_the_users_messages(kind: str, name: str) -> None:
    plan = plan_at(kind, name)
    if (kind, name) in SERVABLE:
        check_slots(plan, min_slots(plan))
    else:
        with pytest.raises(Infeasible, match="filler"):
            check_slots(plan, 3)


def test_fixed_fakes_are_divided_evenly() -> None:
    with pytest.raises(InvalidInput, match="multiple of n = 100"):
        min_slots(claimed(hb.Schema.one_hot(3), hb.Protocol(0.0, m=250)))


@pytest.mark.parametrize(
    ("schema", "protocol"),
    [
        (hb.Schema.one_hot(50_000), hb.Protocol(0.1, release="bits")),
        (hb.Schema.at_most(200, 50_000), hb.Protocol(0.3, 2, 10**6, "bits")),
        (hb.Schema.one_hot(4), hb.Protocol(0.0, m=hb.Fakes.binomial(2**40, 1e-12))),
        (hb.Schema.one_hot(4), hb.Protocol(0.0, m=hb.Fakes.poisson(5000.0))),
        (hb.Schema.bits(1), hb.Protocol(2.0**-48, release="bits")),
    ],
)
@pytest.mark.parametrize("epsilon", [0.0, 800.0])
def test_large_numbers(schema: hb.Schema, protocol: hb.Protocol, epsilon: float) -> None:
    """Slots stay within a few standard deviations of the mean, and no arithmetic overflows."""
    plan = claimed(schema, protocol, n=10**6, epsilon=epsilon)
    slots = min_slots(plan)
    mean = plan.payload_messages
    assert mean <= slots <= mean + 45 * math.sqrt(mean + 1) + 60 + 12 * math.sqrt(epsilon * mean) + epsilon
    assert overflow(plan, slots) <= MAX_DELTA_SHARE * 1e-6
    assert math.isinf(overflow(claimed(schema, protocol, n=10**6, epsilon=math.inf), 1)) or max_messages(plan) == 1


def truncated_message(record: tuple[int, ...], q: float, slots: int) -> NDArray[np.float64]:
    """P[counts of the two positions] of one client with two bits who sends at most ``slots`` of its messages."""
    table = np.zeros((2, 2))
    for flipped in itertools.product((0, 1), repeat=2):
        chance = math.prod(1 - q if a == b else q for a, b in zip(record, flipped, strict=True))
        if sum(flipped) <= slots:
            table[flipped] += chance
        else:  # two messages and one slot: either is kept
            table[1, 0] += chance / 2
            table[0, 1] += chance / 2
    return table


def released(records: list[tuple[int, ...]], q: float, slots: int) -> NDArray[np.float64]:
    """The distribution of the counts that a batch of these clients releases, by enumeration."""
    total = np.ones((1, 1))
    for record in records:
        one, grown = truncated_message(record, q, slots), np.zeros((total.shape[0] + 1, total.shape[1] + 1))
        for i, j in itertools.product(range(2), repeat=2):
            grown[i : i + total.shape[0], j : j + total.shape[1]] += one[i, j] * total
        total = grown
    return total


@pytest.mark.parametrize("q", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("clients", [2, 3, 5])
def test_s9_truncated_batches_meet_the_price_at_their_own_size(q: float, clients: int) -> None:
    """Every pair of neighbours among all collections of a batch larger than planned, released with too few slots."""
    schema, protocol = hb.Schema.bits(2), hb.Protocol(q, release="bits")
    plan = hb.plan_from(schema, 2, protocol, epsilon=1.0)
    kinds = list(itertools.product((0, 1), repeat=2))
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        achieved = hb.account(protocol, schema, clients, epsilon=epsilon)
        price = overflow(plan, 1, n=achieved.assumptions.honest, epsilon=achieved.epsilon)
        worst = 0.0
        for others in itertools.combinations_with_replacement(kinds, clients - 1):
            for x, y in itertools.permutations(kinds, 2):
                first, second = (released([own, *others], q, 1) for own in (x, y))
                worst = max(worst, float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum()))
        assert worst <= achieved.delta + price
    assert released([(1, 1)] * clients, q, 1).sum() == pytest.approx(1.0)


def test_s9_the_price_grows_with_the_clients_it_counts_on() -> None:
    """A certificate that rests on N clients pays for the truncation of N, at its own ε."""
    plan = plan_at("bits", "split")
    slots = max(1, min_slots(plan) - 1)
    assert overflow(plan, slots, n=plan.n, epsilon=plan.guarantee.epsilon) == overflow(plan, slots)
    ratio = overflow(plan, slots, n=1000 * plan.n, epsilon=0.5) / overflow(plan, slots)
    assert ratio == pytest.approx(1000 * (1 + math.exp(0.5)) / (1 + math.e), rel=1e-6)


def test_the_price_is_added_to_a_guarantee() -> None:
    """At its own ε and for its own honest clients, rounded up; nothing where no message can be lost."""
    plan = hb.plan_from(hb.Schema.one_hot(100), 10_000, hb.Protocol(0.02, release="bits"), delta=1e-6)
    achieved = hb.account(plan.protocol, plan.schema, 8_000, epsilon=plan.guarantee.epsilon)
    for slots in (18, 20, 22):
        price = overflow(plan, slots, n=8_000, epsilon=achieved.epsilon)
        found = with_overflow(achieved, plan, slots)
        assert price > 0
        assert achieved.delta + price < found.delta <= (achieved.delta + price) * (1 + 1e-15)
        assert found.epsilon == achieved.epsilon
    most = max_messages(plan)
    assert most is not None
    assert with_overflow(achieved, plan, most) == achieved
    assert with_overflow(achieved, plan, 0).delta == 1.0


@pytest.mark.parametrize(
    ("noise", "release", "fewest", "most"),
    [
        (hb.Noise(0.1), "category", 2, 2),
        (hb.Noise(0.1), "bits", 0, 5),
        (hb.Noise(m=hb.Fakes.laplace(2.0, 20)), "bits", 2, 2),
        (hb.Noise(m=hb.Fakes.binomial(3, 0.5)), "bits", 2, 8),
        (hb.Noise(m=hb.Fakes.binomial(3, 1.0)), "bits", 8, 8),
        (hb.Noise(m=hb.Fakes.poisson(0.5)), "bits", 2, None),
    ],
)
def test_extremes_of_surveys(noise: hb.Noise, release: str, fewest: int, most: int | None) -> None:
    """Two attributes, of two and of three categories."""
    schema = hb.Schema.survey({"a": hb.Choice(["x", "y"]), "b": hb.Choice(["x", "y", "z"])})
    plan = claimed(schema, hb.Protocol.survey([noise] * 2, release))  # type: ignore[arg-type]
    assert (min_messages(plan), max_messages(plan)) == (fewest, most)


def test_rounded_exponents_do_not_lower_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_at("one_hot", "split")
    with mpmath.workdps(40):
        for i in range(1, 200):
            tail = -0.37 * i
            monkeypatch.setattr(module, "log_tail", lambda *_, tail=tail: tail)
            price = (1 + mpmath.exp(mpmath.mpf(plan.guarantee.epsilon))) * plan.n * mpmath.exp(mpmath.mpf(tail))
            assert price <= overflow(plan, 1) <= price * (1 + mpmath.mpf("1e-6"))


def test_rounded_exponents_do_not_lower_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_at("one_hot", "split")
    monkeypatch.setattr(module, "max_messages", lambda _: None)
    with mpmath.workdps(40):
        for i in range(1, 60):
            rate, slots = 0.1 * i, 10 + 3 * i
            monkeypatch.setattr(module, "_cumulant", lambda _, rate=rate: lambda t: rate * math.expm1(t))
            most, mean = mpmath.mpf(slots + 1), mpmath.mpf(rate)
            exact = most - mean - most * mpmath.log(most / mean)
            assert exact <= log_tail(plan, slots) <= exact + 1e-5
