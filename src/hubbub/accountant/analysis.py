"""The theorem that certifies each point of the family: Protocol × Schema × honest users → a certified curve δ(ε).

- a category by randomized response: the uniform blanket; for two categories, single bits;
- flipped single bits: branch and bound over all collections;
- flipped bits, split: composition of the single-bit curve;
- flipped whole records: privacy blankets, and group privacy over copies;
- clear records among users' fakes: the exact distribution of the fakes;
- the shuffler's fakes: the exact distribution, or a composition over counts; the better of this and the flips.

Analyses of flips are in :mod:`hubbub.accountant.flip_analyses`, those of fakes in
:mod:`hubbub.accountant.fake_analyses`; a further theorem is one more function there and one more line here.
"""

import math

from hubbub.accountant.curves import Analysis, better
from hubbub.accountant.fake_analyses import clear_analysis, shuffler_fakes_analysis
from hubbub.accountant.flip_analyses import category_analysis, flip_analysis, local_analysis, user_fakes_analysis
from hubbub.accountant.theorems import bit, category
from hubbub.protocol import Protocol, Release
from hubbub.schema import Schema

VIEWS: dict[Release, str] = {
    "records": "whole records",
    "bits": "the number of messages for each bit",
    "category": "categories",
}


def analyze(protocol: Protocol, schema: Schema, honest: int, share: float) -> Analysis:
    """Return the analysis for ``honest`` users who follow the protocol, with that ``share`` of a fixed number of fakes.

    >>> analyze(Protocol(0.1), Schema.bits(1), 1000, 1.0).basis
    <Basis.EXACT: 'exact'>
    """
    fixed = math.floor(share * protocol.fixed_fakes)
    if protocol.sends_category:
        return category_analysis(protocol.q, schema, honest)
    if protocol.shuffler_fakes:
        drawn = shuffler_fakes_analysis(protocol, schema, protocol.shuffler_fakes)
        return drawn if protocol.clear else better(flip_analysis(protocol, schema, honest, 0), drawn)
    if protocol.clear:
        return clear_analysis(protocol, schema, honest, fixed)
    if protocol.user_fakes:
        return user_fakes_analysis(protocol, schema, honest, protocol.user_fakes)
    return flip_analysis(protocol, schema, honest, fixed)


def analyze_local(protocol: Protocol, schema: Schema) -> Analysis:
    """Return the analysis without a shuffler: the exact δ(ε) of one user's messages.

    >>> analyze_local(Protocol(0.25), Schema.bits(1)).upper(math.log(3))
    -inf
    """
    return local_analysis(protocol, schema, collusion(protocol, schema))


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


def view(protocol: Protocol) -> str:
    """Return what the analyzer sees, in words.

    >>> view(Protocol(0.1))
    'whole records'
    """
    return VIEWS[protocol.release]
