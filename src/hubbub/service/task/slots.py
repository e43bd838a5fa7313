"""How many sealed slots a bundle needs, and what it costs in privacy that a client might have more messages.

Where the number of messages of a client is random, a bundle has room for the first M of them, in random order. What
is released then differs from the plan's with probability at most n·τ, τ = max over legal records of P[messages > M], so
that the guarantee is (ε, δ + (1 + e^ε)·n·τ). Clients beyond the n of the plan change nothing: what they send, cut or
not, is post-processing of what the n send.

τ is bounded by Chernoff, P[X > M] ≤ exp(K(t) − t(M + 1)) for every t > 0 with K the cumulant function of X, at the
record with the most bits set: as p > q, it has stochastically the most messages. Errs upwards, by a slot or two.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from hubbub.errors import Infeasible, reject
from hubbub.plans import Plan
from hubbub.protocol import GRID, Fakes
from hubbub.schema import Schema

SHARE = 1e-3
"""What the price of overflow may take of δ."""

ROUNDING = 1e-9
"""By how much, relative to its terms, an exponent is moved outwards."""

STEEPEST = 700.0
"""The largest t that is tried; e^t is still a float64."""

Cumulant = Callable[[float], float]


def check_slots(plan: Plan, slots: int) -> None:
    """Raise unless bundles of so many slots carry the messages of the plan's clients."""
    fewest, most = fewest_messages(plan), most_messages(plan)
    m = plan.protocol.m
    if isinstance(m, Fakes) and m.by == "shuffler" and fewest != most:
        # Fillers are not hidden among fakes: their number is that of all slots less the messages of the people.
        raise Infeasible(
            "fakes of the shuffler need clients who all send one number of messages, whole records or one choice in "
            "the clear: otherwise the number of filler slots shows the analyzer the exact sum of the people's bits"
        )
    if fewest == most:
        if slots != most:
            reject("slots", f"be {most}, the number of messages of every client", slots)
        return
    if most is not None and slots > most:
        reject("slots", f"be at most {most}, the most messages that a client can have", slots)
    price, allowed = overflow(plan, slots), SHARE * plan.guarantee.delta
    if price > allowed:
        reject(
            "slots",
            f"be so many that overflow costs at most {allowed:.3g} of delta",
            f"{slots}, which cost {price:.3g}",
        )


def least_slots(plan: Plan) -> int:
    """The fewest slots that :func:`check_slots` accepts.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> least_slots(plan_from(Schema.bits(8), 1000, Protocol(0.1, k=2), delta=1e-6))
    2
    >>> split = plan_from(Schema.one_hot(100), 10_000, Protocol(0.02, release="bits"), delta=1e-6)
    >>> least_slots(split), round(split.messages, 2)
    (21, 2.96)
    """
    fewest, most = fewest_messages(plan), most_messages(plan)
    if fewest == most:
        return fewest
    allowed = SHARE * plan.guarantee.delta
    if not allowed or math.isinf(plan.guarantee.epsilon):
        if most is None:
            raise Infeasible(
                "a pure guarantee needs clients whose number of messages has a limit; Poisson fakes have none"
            )
        return most
    cumulant = _cumulant(plan)
    need = _log_price(plan) - math.log(allowed)
    slots = max(fewest, math.ceil(_minimum(lambda t: (cumulant(t) + need) / t)[1]) - 1)
    while overflow(plan, slots) > allowed:
        slots += 1
    while slots > fewest and overflow(plan, slots - 1) <= allowed:
        slots -= 1
    return slots if most is None else min(slots, most)


def overflow(plan: Plan, slots: int) -> float:
    """The price (1 + e^ε)·n·τ, to be added to δ, of bundles with so many slots.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> split = plan_from(Schema.one_hot(100), 10_000, Protocol(0.02, release="bits"), delta=1e-6)
    >>> overflow(split, 21) < 1e-9 < overflow(split, 20)
    True
    """
    tail = log_tail(plan, slots)
    if tail == -math.inf:
        return 0.0
    exponent = _log_price(plan) + tail
    # What can happen has a price, even below the smallest float: a pure guarantee knows the difference.
    return math.inf if exponent > STEEPEST else math.exp(exponent) or math.ulp(0.0)


def log_tail(plan: Plan, slots: int) -> float:
    """An upper bound on ln P[a client has more than so many messages], over all legal records; −∞ if none can."""
    most = most_messages(plan)
    if most is not None and slots >= most:
        return -math.inf
    cumulant = _cumulant(plan)
    t, least = _minimum(lambda t: cumulant(t) - t * (slots + 1))
    return min(0.0, least + ROUNDING * (abs(cumulant(t)) + t * (slots + 1)))


def most_messages(plan: Plan) -> int | None:
    """The most messages that a client can have; None where there is no limit."""
    protocol, schema = plan.protocol, plan.schema
    fakes = _fakes(plan)
    if fakes is None:
        return None
    if not protocol.sends_bits:
        return protocol.k + fakes
    return (schema.width if protocol.q else schema.max_set) * (protocol.k + fakes)


def fewest_messages(plan: Plan) -> int:
    """The fewest messages that a client can have."""
    protocol, schema = plan.protocol, plan.schema
    if protocol.sends_bits and (protocol.q or not schema.exclusive):
        return 0
    random = isinstance(protocol.m, Fakes) and protocol.m.by == "users" and _chance(protocol.m) < 1
    return protocol.k + (0 if random else _fakes(plan) or 0)


def _fakes(plan: Plan) -> int | None:
    """The most fakes of one client; None without a limit."""
    m = plan.protocol.m
    if isinstance(m, Fakes):
        return 0 if m.by == "shuffler" else m.shift if m.distribution == "binomial" else None
    if m % plan.n:
        reject("the number of fakes", f"be a multiple of n = {plan.n}, so that every client adds as many", m)
    return m // plan.n


def _chance(fakes: Fakes) -> float:
    """What devices draw with: the probability, or the Poisson rate, rounded up to the grid as they do."""
    whole = math.ceil(fakes.scale) if fakes.distribution == "poisson" else 1
    grid = Fraction(math.ceil(Fraction(fakes.scale) / whole * GRID), GRID)
    return float(whole * min(grid, Fraction(1)))


def _cumulant(plan: Plan) -> Cumulant:
    """K(t) = ln E e^(tX), X the messages of a client with the most bits set.

    A whole record gives t, a split one of i bits i·ln(q + p e^t) + (width − i)·ln(p + q e^t). Fakes add F·G(t) where
    their number F is fixed, N·ln(1 + c(e^G − 1)) for Bin(N, c), λ(e^G − 1) for Poisson(λ), with G that of one fake.
    """
    protocol, schema, m = plan.protocol, plan.schema, plan.protocol.m
    own: Cumulant
    fake: Cumulant
    if not protocol.sends_bits:
        own = fake = lambda t: t
    else:
        own = _record(schema.width, schema.max_set, protocol.q)
        fake = _fake(schema, protocol.q)
    k = protocol.k
    if not isinstance(m, Fakes):
        fixed = m // plan.n
        return lambda t: k * own(t) + fixed * fake(t)
    if m.by == "shuffler":
        return lambda t: k * own(t)
    chance, trials = _chance(m), m.shift
    if m.distribution == "poisson":
        return lambda t: k * own(t) + (chance * math.expm1(g) if (g := fake(t)) < STEEPEST else math.inf)
    return lambda t: k * own(t) + trials * _mixed(chance, fake(t))


def _mixed(chance: float, g: float) -> float:
    """ln(1 + c(e^g − 1)), for any g ≥ 0."""
    return math.log1p(chance * math.expm1(g)) if g < 30 else g + math.log(chance + (1 - chance) * math.exp(-g))


def _record(width: int, ones: int, q: float) -> Cumulant:
    return lambda t: ones * (t + math.log1p(q * math.expm1(-t))) + (width - ones) * math.log1p(q * math.expm1(t))


def _fake(schema: Schema, q: float) -> Cumulant:
    """Of the messages of one fake: a uniform legal record, flipped.

    Exact for one choice and for any bits. A fake of at most so many bits never has more than all of them, and, being
    any bits under a condition on their number, stochastically no more than any bits: the smaller of the two is taken.
    """
    width = schema.width
    if 2 * schema.max_set <= width:
        return _record(width, schema.max_set, q)
    return lambda t: width * (t + math.log1p(0.5 * math.expm1(-t)))


def _log_price(plan: Plan) -> float:
    """ln((1 + e^ε)·n)."""
    epsilon = plan.guarantee.epsilon
    return math.log(plan.n) + epsilon + math.log1p(math.exp(-epsilon))


def _minimum(f: Cumulant) -> tuple[float, float]:
    """Where a function with one valley is least on (0, STEEPEST], and its value there; by the golden section."""
    ratio = (math.sqrt(5) - 1) / 2
    low, high = 0.0, STEEPEST
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = f(left), f(right)
    for _ in range(90):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = f(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = f(right)
    return (left, at_left) if at_left <= at_right else (right, at_right)
