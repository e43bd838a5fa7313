"""One user's messages alone: what holds if nobody else can be trusted."""

import math

from hubbub.accountant.analysis import Analysis, unknown
from hubbub.accountant.theorems import bit, category, records
from hubbub.accountant.theorems.pair import enumerated
from hubbub.privacy import Basis
from hubbub.protocol import Protocol
from hubbub.schema import Schema


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

    Errs upwards.

    >>> round(collusion(Protocol(0.25, k=2), Schema.one_hot(9)), 6) == round(4 * math.log(3), 6)
    True
    """
    if protocol.clear:
        return math.inf
    if protocol.sends_category:
        return category.pure_epsilon(schema.width, protocol.q)
    return bit.pure_epsilon(protocol.q, protocol.k * schema.distance)


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
