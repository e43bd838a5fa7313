"""One user's messages alone: what holds if nobody else can be trusted."""

import math
from decimal import Context, Decimal, localcontext

from hubbub.accountant.analysis import Analysis, unknown
from hubbub.accountant.theorems import category, records
from hubbub.accountant.theorems.pair import enumerated
from hubbub.model.privacy import Basis
from hubbub.model.protocol import GRID, Protocol
from hubbub.model.schema import Schema


def local_analysis(protocol: Protocol, schema: Schema) -> Analysis:
    """Return the exact δ(ε) of one user's messages alone; a bound if the user mixes fakes into them.

    >>> local_analysis(Protocol(0.25), Schema.bits(1)).upper(math.log(3) + 1e-9)
    -inf
    """
    pure = collusion(protocol, schema)

    def curve(epsilon: float) -> float:
        if math.isinf(pure):
            return 0.0
        if protocol.sends_category:
            return category.local(schema.width, protocol.q, epsilon)
        return records.local(schema, protocol.q, epsilon, protocol.k)

    def attack(epsilon: float) -> float:
        if math.isinf(pure):
            return 0.0
        if protocol.sends_category:
            return category.attack(schema.width, protocol.q, 1, epsilon)
        return enumerated(0, 0, protocol.q, epsilon, protocol.k * schema.distance)

    alone = not (protocol.fixed_fakes or protocol.user_fakes)
    return Analysis(
        upper=curve,
        lower=attack if alone else unknown,
        basis=Basis.EXACT if alone else Basis.PROVEN,
        method="the likelihood ratio of one user's messages",
        honest=1,
        shuffler=False,
        pure=pure,
        guess=1.0 if math.isinf(pure) else pure / 2,
    )


def collusion(protocol: Protocol, schema: Schema) -> float:
    """Return the pure ε of all messages of one user, seen with their sender: k·h·ln(p/q) at distance h. [000 Prop 5.1]

    Those of the attributes of a survey add up.
    The smallest float above the exact value, also where p and q are so close that ln(p/q) cancels.

    >>> round(collusion(Protocol(0.25, k=2), Schema.one_hot(9)), 6) == round(4 * math.log(3), 6)
    True
    """
    if protocol.clear:
        return math.inf
    if not schema.attributes:
        wrong = protocol.flip_numerator
        return _rounded_up(_scaled_logarithm(GRID - wrong, wrong, protocol.k * schema.distance))
    with localcontext(Context(prec=60)):
        total = Decimal(0)
        for attribute, noise in zip(schema.attributes, protocol.noise, strict=True):
            wrong = noise.flip_numerator
            if protocol.sends_category:
                total += _scaled_logarithm(max(GRID - (attribute.size - 1) * wrong, wrong), wrong, 1)
            else:
                total += _scaled_logarithm(GRID - wrong, wrong, 2 * protocol.k)
        return _rounded_up(total)


def count_leak(protocol: Protocol, schema: Schema) -> float:
    """Return the pure ε of the number of messages of one user, which the shuffler sees unless uploads are padded.

    A user always sends k whole records. The number of split bits is the number of set bits in the flipped copies: for
    one-hot records and attributes it is Bin(k, p) + Bin(k(d−1), q) whatever the category, and leaks nothing. Other
    records have 0 … max_set set bits, and the likelihood ratio reaches (p/q)^(k·max_set). Rounded like collusion.

    >>> count_leak(Protocol(0.1, release="bits"), Schema.one_hot(9)), count_leak(Protocol(0.1), Schema.bits(9))
    (0.0, 0.0)
    """
    if not protocol.sends_bits or schema.attributes:
        return 0.0
    wrong = protocol.flip_numerator
    return _rounded_up(_scaled_logarithm(GRID - wrong, wrong, protocol.k * schema.max_set)) if wrong else math.inf


def _scaled_logarithm(above: int, below: int, power: int) -> Decimal:
    """Return power·ln(above/below), which no float equals, to 40 digits and above the exact value.

    q is a whole number of units of 2⁻⁴⁸, so that p/q is a fraction, and 60 digits of its logarithm leave 40 after all
    cancellation: every machine computes the same float from it, and reaches the same answer about a claimed ε.
    """
    with localcontext(Context(prec=60)):
        return power * (Decimal(above) / Decimal(below)).ln() * (1 + Decimal(10) ** -40)


def _rounded_up(value: Decimal) -> float:
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)
