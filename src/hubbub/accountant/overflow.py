"""The privacy cost of a fixed number of slots: how many a bundle needs if a client may have more messages than fit.

If the number of a client's messages is random, a bundle holds the first M of them, in random order. Let τ be the
maximum over legal records of P[messages > M].

*Statement.* If a certificate proves (ε, δ) from the randomization of a set H of h honest clients, the protected one
among them, and whatever the other clients send, then a release of truncated bundles is (ε, δ + (1 + e^ε)·h·τ)-private.

*Proof.* Let R be the release if the clients of H send everything, R̃ if they truncate, with the same random numbers and
the same other clients. Other clients may truncate as they like: the certificate allows them to send anything that does
not depend on the randomness of H. R̃ = R unless a client of H has more than M messages, so for every collection D and
every event S, ``|P[R̃(D) ∈ S] − P[R(D) ∈ S]| ≤ h·τ``. For neighbours D, D', in either order,

    P[R̃(D) ∈ S] ≤ P[R(D) ∈ S] + hτ ≤ e^ε·P[R(D') ∈ S] + δ + hτ ≤ e^ε·P[R̃(D') ∈ S] + δ + (1 + e^ε)·hτ.   ∎

ε and h must belong to the *same* certificate. A plan for n clients has its own ε and at most n honest ones, and its
price covers every larger batch, since H may be any n of its clients. The guarantee achieved by a batch of N > n clients
rests on more of them: its price takes the achieved ε and the number of clients *that* certificate counts on.

τ is bounded by Chernoff, P[X > M] ≤ exp(K(t) − t(M + 1)) for every t > 0, with K the cumulant generating function of X
for the record with the most bits set: since p > q, it has stochastically the most messages. Errs upwards, by one or two
slots. Devices check contracts with this module, so it works without numpy.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from hubbub.errors import Infeasible, reject
from hubbub.model.plans import Plan
from hubbub.model.privacy import Guarantee
from hubbub.model.protocol import GRID, Fakes, Noise
from hubbub.model.questions import Column
from hubbub.numeric.minimum import golden_section

MAX_DELTA_SHARE = 1e-3  # largest part of δ that overflow may cost
ROUNDING = 1e-9  # relative amount by which an exponent is rounded outwards
MAX_EXPONENT = 700.0  # largest t of the search; e^t is still a float64

Cumulant = Callable[[float], float]


def check_slots(plan: Plan, slots: int) -> None:
    """Raise unless bundles with this number of slots carry the messages of the plan's clients."""
    low, high = check_servable(plan)
    if low == high:
        if slots != low:
            reject("slots", f"be {low}, the number of messages of every client", slots)
        return
    if high is not None and slots > high:
        reject("slots", f"be at most {high}, the largest number of messages of a client", slots)
    price, allowed = overflow(plan, slots), MAX_DELTA_SHARE * plan.guarantee.delta
    if price > allowed:
        must = f"be large enough for overflow to cost at most {allowed:.3g} of delta ({slots} cost {price:.3g})"
        reject("slots", must, slots)


def check_servable(plan: Plan) -> tuple[int, int | None]:
    """Return the fewest and most messages of a client, or raise if fillers would reveal what the fakes must hide."""
    low, high = min_messages(plan), max_messages(plan)
    if not plan.schema.named and plan.protocol.has_shuffler_fakes and low != high:
        # Fillers are not hidden among fakes: their number is that of all slots minus the messages of the users.
        # A survey has exactly one message of every user where the shuffler draws the fakes, and the messages of its
        # other attributes are released without the shuffler's: their number tells nothing that the release does not.
        raise Infeasible(
            "with the shuffler's fakes, every client must send the same number of messages: otherwise the number of "
            "filler slots reveals the exact sum of the users' bits; use whole records, or one-hot records in the clear"
        )
    return low, high


def min_slots(plan: Plan) -> int:
    """Return the smallest number of slots that :func:`check_slots` accepts.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> min_slots(plan_from(Schema.bits(8), 1000, Protocol(0.1, k=2), delta=1e-6))
    2
    >>> split = plan_from(Schema.one_hot(100), 10_000, Protocol(0.02, release="bits"), delta=1e-6)
    >>> min_slots(split), round(split.payload_messages, 2)
    (21, 2.96)
    """
    low, high = check_servable(plan)
    if low == high:
        return low
    allowed = MAX_DELTA_SHARE * plan.guarantee.delta
    if not allowed or math.isinf(plan.guarantee.epsilon):
        if high is None:
            raise Infeasible(
                "pure differential privacy needs a bounded number of messages per client, and Poisson fakes have no "
                "bound; use binomial fakes, or allow delta > 0"
            )
        return high
    cumulant = _cumulant(plan)
    need = _log_price(plan.n, plan.guarantee.epsilon) - math.log(allowed)
    slots = max(low, math.ceil(_minimum(lambda t: (cumulant(t) + need) / t)[1]) - 1)
    while overflow(plan, slots) > allowed:
        slots += 1
    while slots > low and overflow(plan, slots - 1) <= allowed:
        slots -= 1
    return slots if high is None else min(slots, high)


def with_overflow(achieved: Guarantee, plan: Plan, slots: int) -> Guarantee:
    """Return a guarantee with the price of overflow, at its own ε and number of honest clients."""
    price = overflow(plan, slots, n=achieved.assumptions.honest, epsilon=achieved.epsilon)
    if price == 0.0:
        return achieved
    return replace(achieved, delta=min(1.0, math.nextafter(achieved.delta + price, math.inf)))


def overflow(plan: Plan, slots: int, *, n: int | None = None, epsilon: float | None = None) -> float:
    """Return the price (1 + e^ε)·n·τ that bundles with this number of slots add to δ.

    ``n`` is the number of honest clients on whom a certificate for ε rests; by default the plan's n and ε.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> split = plan_from(Schema.one_hot(100), 10_000, Protocol(0.02, release="bits"), delta=1e-6)
    >>> overflow(split, 21) < 1e-9 < overflow(split, 20)
    True
    """
    tail = log_tail(plan, slots)
    if tail == -math.inf:
        return 0.0
    exponent = _log_price(plan.n if n is None else n, plan.guarantee.epsilon if epsilon is None else epsilon) + tail
    exponent += ROUNDING * abs(exponent)
    # A possible event has a positive price even below the smallest float: a pure guarantee depends on the difference.
    return math.inf if exponent > MAX_EXPONENT else math.exp(exponent) or math.ulp(0.0)


def log_tail(plan: Plan, slots: int) -> float:
    """Return an upper bound on ln P[a client has more messages than slots], over all legal records; −∞ if none can."""
    most = max_messages(plan)
    if most is not None and slots >= most:
        return -math.inf
    cumulant = _cumulant(plan)
    t, least = _minimum(lambda t: cumulant(t) - t * (slots + 1))
    return min(0.0, least + ROUNDING * (abs(cumulant(t)) + t * (slots + 1)))


def max_messages(plan: Plan) -> int | None:
    """Return the largest number of messages of a client, or None if it is unbounded."""
    most = [_max_messages(plan, column, noise) for column, noise in _columns(plan)]
    bounded = [one for one in most if one is not None]
    return sum(bounded) if len(bounded) == len(most) else None


def min_messages(plan: Plan) -> int:
    """Return the smallest number of messages of a client."""
    return sum(_min_messages(plan, column, noise) for column, noise in _columns(plan))


def _columns(plan: Plan) -> Iterable[tuple[Column, Noise]]:
    """Return the columns of a plan with their noise."""
    return zip(plan.schema.columns, plan.protocol.noise, strict=True)


def _max_messages(plan: Plan, column: Column, noise: Noise) -> int | None:
    """Return the largest number of messages for one column, or None if it is unbounded."""
    fakes = _max_fakes(plan, noise)
    if fakes is None or not plan.protocol.sends_bits:
        return None if fakes is None else plan.protocol.k + fakes
    return (column.max_set if noise.clear else column.size) * (plan.protocol.k + fakes)


def _min_messages(plan: Plan, column: Column, noise: Noise) -> int:
    """Return the smallest number of messages for one column."""
    if plan.protocol.sends_bits and not (noise.clear and column.rule == "one"):
        return 0
    drawn = noise.user_fakes
    return plan.protocol.k + (0 if drawn and _fake_probability(drawn) < 1 else _max_fakes(plan, noise) or 0)


def _max_fakes(plan: Plan, noise: Noise) -> int | None:
    """Return the largest number of fakes of one client for one column, or None if it is unbounded."""
    if noise.user_fakes:
        return noise.user_fakes.shift if noise.user_fakes.distribution == "binomial" else None
    if noise.fixed_fakes % plan.n:
        reject("m", f"be a multiple of n = {plan.n:,}, so that every client adds equally many", noise.fixed_fakes)
    return noise.fixed_fakes // plan.n


def _fake_probability(fakes: Fakes) -> float:
    """Return the probability, or the Poisson rate, that devices use: rounded up to their grid."""
    whole = math.ceil(fakes.scale) if fakes.distribution == "poisson" else 1
    grid = Fraction(math.ceil(Fraction(fakes.scale) / whole * GRID), GRID)
    return float(whole * min(grid, Fraction(1)))


def _cumulant(plan: Plan) -> Cumulant:
    protocol, bits = plan.protocol, plan.protocol.sends_bits
    # Columns with the same noise, and the same number of bits if these are sent, are counted together.
    groups: Counter[tuple[Noise, int, int]] = Counter()
    for column, noise in _columns(plan):
        sent = bits and not (noise.clear and column.rule == "one")
        groups[noise, column.size if sent else 2, column.max_set if sent else 1] += 1
    return _messages_cumulant(tuple(groups.items()), protocol.k, plan.n, bits)


@functools.lru_cache(maxsize=256)
def _messages_cumulant(groups: tuple[tuple[tuple[Noise, int, int], int], ...], k: int, n: int, bits: bool) -> Cumulant:
    """Return K(t) = ln E e^(tX), X the number of messages of a client with the most bits set, a sum over columns."""
    each = [(count, _column(noise, size, most, k, n, bits)) for (noise, size, most), count in groups]
    return lambda t: math.fsum(count * one(t) for count, one in each)


def _column(noise: Noise, size: int, max_set: int, k: int, n: int, bits: bool) -> Cumulant:
    """Return K(t) of one column.

    A whole record gives t, a split one with i bits set i·ln(q + p e^t) + (width − i)·ln(p + q e^t). Fakes add F·G(t) if
    their number F is fixed, N·ln(1 + c(e^G − 1)) for Bin(N, c), λ(e^G − 1) for Poisson(λ), with G that of one fake.
    """
    own: Cumulant
    fake: Cumulant
    if bits:
        own, fake = _record(size, max_set, noise.q), _fake(size, max_set, noise.q)
    else:
        own = fake = lambda t: t
    drawn = noise.user_fakes
    if not drawn:
        fixed = noise.fixed_fakes // n
        return lambda t: k * own(t) + (fixed * fake(t) if fixed else 0.0)
    chance, trials = _fake_probability(drawn), drawn.shift
    if drawn.distribution == "poisson":
        return lambda t: k * own(t) + (chance * math.expm1(g) if (g := fake(t)) < MAX_EXPONENT else math.inf)
    return lambda t: k * own(t) + trials * _mixed(chance, fake(t))


def _mixed(chance: float, g: float) -> float:
    """Return ln(1 + c(e^g − 1)), for any g ≥ 0."""
    return math.log1p(chance * math.expm1(g)) if g < 30 else g + math.log(chance + (1 - chance) * math.exp(-g))


def _record(width: int, ones: int, q: float) -> Cumulant:
    return lambda t: ones * (t + math.log1p(q * math.expm1(-t))) + (width - ones) * math.log1p(q * math.expm1(t))


def _fake(width: int, max_set: int, q: float) -> Cumulant:
    """Return the cumulant generating function of the messages of one fake, a flipped uniform legal record.

    Exact for one-hot records and for any bits. A fake with a limited number of bits never has more than the limit and,
    being uniform bits conditioned on their number, stochastically no more than uniform bits: the smaller is taken.
    """
    if 2 * max_set <= width:
        return _record(width, max_set, q)
    return lambda t: width * (t + math.log1p(0.5 * math.expm1(-t)))


def _log_price(n: int, epsilon: float) -> float:
    """Return ln((1 + e^ε)·n)."""
    return math.log(n) + epsilon + math.log1p(math.exp(-epsilon))


def _minimum(f: Cumulant) -> tuple[float, float]:
    """Return the minimizer of a unimodal function on (0, MAX_EXPONENT] and its value, by golden-section search."""
    found = golden_section(f, 0.0, MAX_EXPONENT)
    return found.at, found.value
