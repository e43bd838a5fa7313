"""One user's messages alone: what holds if nobody else can be trusted."""

import math
from decimal import Context, Decimal, localcontext

from hubbub.accountant.analysis import Analysis
from hubbub.accountant.theorems import bit, category, records
from hubbub.privacy import Basis
from hubbub.protocol import GRID, Protocol
from hubbub.schema import Schema


def local_analysis(protocol: Protocol, schema: Schema) -> Analysis:
    """Return the exact δ(ε) of one user's messages alone.

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

    return Analysis(
        upper=curve,
        lower=curve if math.isinf(pure) else lambda epsilon: curve(epsilon) - 1e-9,
        basis=Basis.EXACT,
        method="the likelihood ratio of one user's messages",
        honest=1,
        shuffler=False,
        pure=pure,
        guess=1.0 if math.isinf(pure) else pure / 2,
    )


def collusion(protocol: Protocol, schema: Schema) -> float:
    """Return the pure ε of all messages of one user, seen with their sender: k·h·ln(p/q) at distance h. [000 Prop 5.1]

    Errs upwards.

    >>> round(collusion(Protocol(0.25, k=2), Schema.one_hot(9)), 6) == round(4 * math.log(3), 6)
    True
    """
    if protocol.clear:
        return math.inf
    if protocol.sends_category:
        return category.pure_epsilon(schema.width, protocol.q)
    return bit.pure_epsilon(protocol.q, protocol.k * schema.distance)


def confirms_pure(protocol: Protocol, schema: Schema, epsilon: float) -> bool:
    """Return True if all messages of one user are ε-differentially private, decided without any rounding error.

    q is a whole number of units of 2⁻⁴⁸, so that p/q is a fraction, and its logarithm is computed to 60 digits: every
    machine reaches the same answer. Values of :func:`collusion` are confirmed, smaller ones than the exact are not.

    >>> pure = collusion(Protocol(0.25), Schema.bits(1))
    >>> confirms_pure(Protocol(0.25), Schema.bits(1), pure), confirms_pure(Protocol(0.25), Schema.bits(1), math.log(3))
    (True, False)
    """
    if protocol.clear:
        return epsilon == math.inf
    wrong = protocol.flip_numerator
    if protocol.sends_category:
        return _at_most(GRID - (schema.width - 1) * wrong, wrong, 1, epsilon)
    return _at_most(GRID - wrong, wrong, protocol.k * schema.distance, epsilon)


def confirms_count(protocol: Protocol, schema: Schema, epsilon: float) -> bool:
    """Return True if the number of messages of one user is ε-differentially private, by the bound of ``count_leak``.

    >>> confirms_count(Protocol(0.1, release="bits"), Schema.one_hot(9), 0.0)
    True
    """
    if not protocol.sends_bits or schema.exclusive:
        return True
    wrong = protocol.flip_numerator
    return epsilon == math.inf or (wrong > 0 and _at_most(GRID - wrong, wrong, protocol.k * schema.max_set, epsilon))


def _at_most(above: int, below: int, power: int, epsilon: float) -> bool:
    """Return True if (above/below)^power ≤ e^ε; ln is irrational there, so that 40 digits decide every float."""
    if epsilon == math.inf:
        return True
    with localcontext(Context(prec=60)):
        exact = power * (Decimal(above) / Decimal(below)).ln()
        return exact * (1 + Decimal(10) ** -40) <= Decimal(epsilon)


def count_leak(protocol: Protocol, schema: Schema) -> float:
    """Return the pure ε of the number of messages of one user, which the shuffler sees unless uploads are padded.

    A user always sends k whole records. The number of split bits is the number of set bits in the flipped copies: for
    one-hot records it is Bin(k, p) + Bin(k(d−1), q) whatever the category, and leaks nothing. Other records have
    0 … max_set set bits, and the likelihood ratio reaches (p/q)^(k·max_set). Errs upwards.

    >>> count_leak(Protocol(0.1, release="bits"), Schema.one_hot(9)), count_leak(Protocol(0.1), Schema.bits(9))
    (0.0, 0.0)
    """
    if not protocol.sends_bits or schema.exclusive:
        return 0.0
    return math.inf if protocol.clear else bit.pure_epsilon(protocol.q, protocol.k * schema.max_set)
