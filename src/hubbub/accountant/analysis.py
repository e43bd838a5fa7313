"""The theorem that certifies each point of the family: Protocol × Schema × honest users → a certified curve δ(ε).

- a category by randomized response: the uniform blanket; for two categories, single bits;
- flipped single bits: branch and bound over all collections;
- flipped bits, split: composition of the single-bit curve;
- flipped whole records: privacy blankets, and group privacy over copies;
- clear records among users' fakes: the exact distribution of the fakes;
- the shuffler's fakes: the exact distribution, or a composition over counts; the better of this and the flips.

Fakes that users send are flipped like records, so a fixed number of them counts as further users. A further theorem is
one more function here and one more line in :func:`analyze`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from hubbub.accountant.composition import Loss
from hubbub.accountant.gaussian_limit import information
from hubbub.accountant.theorems import attacks, bit, category, fakes, records, split
from hubbub.errors import reject
from hubbub.numeric.binomial import MAX_EXACT, binomial
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.divergences import gaussian_delta
from hubbub.privacy import Basis
from hubbub.protocol import Fakes, Protocol, Release
from hubbub.schema import Schema

NEGLECTED = 1e-15  # probability that is added to δ for the event that users draw fewer fakes than counted
VIEWS: dict[Release, str] = {
    "records": "whole records", "bits": "the number of messages for each bit", "category": "categories"
}  # fmt: skip
"""The messages that the analyzer sees, by release."""
Curve = Callable[[float], float]
"""ε ↦ ln δ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The privacy of one protocol: a certified curve, the curve of a known attack, and their origin.

    ``upper`` holds for all neighbouring collections and both orders of every pair; ``lower`` is what an attack
    achieves, −∞ where none is known.
    """

    upper: Curve
    lower: Curve
    basis: Basis
    method: str
    guess: float
    """Approximate ε at δ = 10⁻⁶, where searches start."""
    solve: Callable[[float], tuple[float, float]] | None = None
    """δ ↦ (lower, upper) bounds on ε, if something is faster or sharper than a search on the curves."""


def unknown(epsilon: float) -> float:
    """Return −∞: the lower curve where no attack is known."""
    return -math.inf


def log(value: float) -> float:
    """Return ln(value), −∞ at 0."""
    return math.log(value) if value > 0 else -math.inf


def better(one: Analysis, two: Analysis) -> Analysis:
    """Return the pointwise minimum of two certified curves, which is certified too.

    >>> coin = Analysis(upper=lambda x: -x, lower=unknown, basis=Basis.EXACT, method="one coin", guess=1.0)
    >>> better(coin, coin).method
    'the better of one coin and one coin'
    """
    return Analysis(
        upper=lambda epsilon: min(one.upper(epsilon), two.upper(epsilon)),
        lower=unknown,
        basis=Basis.PROVEN,
        method=f"the better of {one.method} and {two.method}",
        guess=min(one.guess, two.guess),
    )


def local_analysis(protocol: Protocol, schema: Schema, pure: float) -> Analysis:
    """Return the exact δ(ε) of one user's messages alone, with the pure ε given.

    >>> local_analysis(Protocol(0.25), Schema.bits(1), math.log(3)).upper(math.log(3))
    -inf
    """

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
        guess=1.0 if math.isinf(pure) else pure / 2,
    )


def category_analysis(q: float, schema: Schema, honest: int) -> Analysis:
    """Return the analysis of d-ary randomized response: a uniform blanket, exact for two categories.

    >>> category_analysis(0.1, Schema.one_hot(4), 1000).method
    'the uniform privacy blanket'
    """
    d = schema.width
    if not schema.exclusive:
        reject("schema", f"be one-hot if a category is released, got {schema}")
    if q * d >= 1:
        reject("q", f"be below 1/{d} for {d} categories", q)
    binary = d == 2
    return Analysis(
        upper=lambda epsilon: category.blanket(d, q, honest, epsilon),
        lower=lambda epsilon: category.attack(d, q, honest, epsilon),
        basis=Basis.EXACT if binary else Basis.PROVEN,
        method="branch and bound over all collections" if binary else "the uniform privacy blanket",
        guess=5 * math.sqrt(2 / (honest * max(q, 1e-12))) * (1 - d * q),
        solve=(lambda delta: bit.certified_epsilon(honest, q, delta)) if binary else None,
    )


def flip_analysis(protocol: Protocol, schema: Schema, honest: int, fakes: int) -> Analysis:
    """Return the analysis of flipped records among ``fakes`` flipped fakes, whatever these hold.

    >>> flip_analysis(Protocol(0.1, release="bits"), Schema.one_hot(9), 1000, 0).method
    'composition of the certified single-bit curve over 2 positions'
    """
    if protocol.sends_bits or schema.width == 1:
        return _position_analysis(protocol, schema, honest, fakes)
    return _record_analysis(protocol, schema, honest, fakes)


def user_fakes_analysis(protocol: Protocol, schema: Schema, honest: int, fakes: Fakes) -> Analysis:
    """Return the analysis of flipped records among a random number of users' fakes.

    Counts the fakes that are present except with probability ``NEGLECTED``, by Chernoff's bound for binomial and
    Poisson distributions: P[M ≤ mean − x] ≤ exp(−x²/(2·mean)).

    >>> user_fakes_analysis(Protocol(0.1), Schema.bits(1), 1000, Fakes.poisson(1.0)).basis
    <Basis.PROVEN: 'proven'>
    """
    mean = honest * fakes.mean
    certain = max(0, math.floor(mean - math.sqrt(2 * mean * -math.log(NEGLECTED))))
    flips = flip_analysis(protocol, schema, honest, certain)
    return Analysis(
        upper=lambda epsilon: float(np.logaddexp(flips.upper(epsilon), math.log(NEGLECTED))),
        lower=unknown,
        basis=Basis.PROVEN,
        method=f"{flips.method}, with at least {certain:,} fakes except with probability {NEGLECTED:g}",
        guess=flips.guess,
    )


def _position_analysis(protocol: Protocol, schema: Schema, honest: int, fakes: int) -> Analysis:
    """Return the analysis of single or split bits: every position is a collection of single bits."""
    q, k = protocol.q, protocol.k
    # A fake is one message; leaving out up to k − 1 of each value makes whole users of k copies. Counting fewer fakes
    # than there are only raises the bound.
    crowd = min(honest + max(0, (fakes - 2 * (k - 1)) // k), bit.MAX_CROWD)
    positions = schema.distance
    guess = 5 * math.sqrt(information(protocol, schema) / crowd)  # five standard deviations of the privacy loss
    base = _bit_analysis(q, k, crowd, guess) if positions == 1 else _split_analysis(q, k, crowd, positions, guess)
    if fakes == 0:
        return base
    return replace(
        base,
        lower=lambda epsilon: attacks.column_attack(schema, q, honest, epsilon, k, fakes),
        basis=Basis.PROVEN,
        method=f"{base.method}, with fakes counted as users",
        solve=None,
    )


def _bit_analysis(q: float, k: int, crowd: int, guess: float) -> Analysis:
    return Analysis(
        upper=lambda epsilon: bit.supremum(crowd, q, epsilon, k, tolerance=3e-3).upper,
        lower=lambda epsilon: bit.supremum(crowd, q, epsilon, k, tolerance=3e-3).lower,
        basis=Basis.EXACT,
        method="branch and bound over all collections",
        guess=guess,
        solve=lambda delta: bit.certified_epsilon(crowd, q, delta, k),
    )


def _split_analysis(q: float, k: int, crowd: int, positions: int, guess: float) -> Analysis:
    def solve(delta: float) -> tuple[float, float]:
        pure = bit.pure_epsilon(q, k * positions)
        cover = split.positions(crowd, q, k, positions).epsilon(delta)
        return split.attack(crowd, q, k, positions).epsilon(delta), min(cover, pure)

    return Analysis(
        upper=lambda epsilon: log(split.positions(crowd, q, k, positions).delta(epsilon)),
        lower=lambda epsilon: log(split.attack(crowd, q, k, positions).delta(epsilon)),
        basis=Basis.PROVEN,
        method=f"composition of the certified single-bit curve over {positions} positions",
        guess=guess,
        solve=solve,
    )


def _record_analysis(protocol: Protocol, schema: Schema, honest: int, fakes: int) -> Analysis:
    """Return the analysis of whole records of several bits."""
    q, k = protocol.q, protocol.k
    known = information(protocol, schema)
    guess = 5 * math.sqrt(min(known / (k * honest + fakes), 1.0))

    def column(epsilon: float) -> float:
        return attacks.column_attack(schema, q, honest, epsilon, k, fakes)

    if k > 1:
        return Analysis(
            upper=lambda epsilon: records.copies(schema, q, honest, epsilon, k, fakes),
            lower=column if fakes else lambda epsilon: attacks.copies_attack(schema, q, honest, epsilon, k),
            basis=Basis.PROVEN,
            method=f"the privacy blanket of one copy and group privacy over {k} copies",
            guess=guess,
        )
    if not fakes:
        return Analysis(
            upper=lambda epsilon: records.blanket(schema, q, honest, epsilon),
            lower=lambda epsilon: attacks.attack(schema, q, honest, epsilon, near=guess),
            basis=Basis.PROVEN,
            method="the privacy blanket",
            guess=guess,
        )

    def upper(epsilon: float) -> float:
        bound = records.fake_blanket(schema, q, fakes, epsilon)
        # The blanket of users and fakes may take seconds. It is skipped where the Gaussian limit already shows that
        # it proves less than the fakes alone: leaving it out can only raise the bound.
        signal = math.sqrt(known / (honest + fakes))
        crowd = gaussian_delta(min(max(signal, 1e-9), 100.0), epsilon)
        return min(bound, records.blanket(schema, q, honest + fakes, epsilon)) if crowd < math.exp(bound) else bound

    return Analysis(
        upper=upper,
        lower=column,
        basis=Basis.PROVEN,
        method="the better of the fakes' distribution and the privacy blanket of users and fakes",
        guess=guess,
    )


def clear_analysis(protocol: Protocol, schema: Schema, honest: int, total: int) -> Analysis:
    """Return the analysis of clear records among users' fakes, ``total`` of them if their number is fixed. [004 §5]

    Only the fakes hide a record, whatever the others hold.

    >>> clear_analysis(Protocol(0, m=300), Schema.one_hot(5), 1000, 300).basis
    <Basis.EXACT: 'exact'>
    """
    drawn = protocol.user_fakes
    if protocol.sends_bits and schema.dense and drawn is None:
        return _clear_bits_analysis(schema, total)
    size = schema.size

    def curve(epsilon: float) -> float:
        if size > MAX_EXACT:  # no number of fakes covers that many records
            return 0.0
        if drawn is None:
            return log(fakes.uniform_delta(epsilon, total, size))
        return log(fakes.user_delta(epsilon, drawn, honest, size))

    tight = protocol.sends_records or schema.exclusive
    return Analysis(
        upper=curve,
        lower=(lambda epsilon: curve(epsilon) - 1e-8) if tight else unknown,
        basis=Basis.EXACT if tight else Basis.PROVEN,
        method="the exact distribution of the uniform fakes",
        guess=1.0,
    )


def shuffler_fakes_analysis(protocol: Protocol, schema: Schema, drawn: Fakes) -> Analysis:
    """Return the analysis of fakes drawn by the shuffler for every legal record, or for every bit if bits are released.

    Flips only add privacy. Whole fake records are flipped like all others, so the released messages are a function of
    clear records among clear fakes. Fake bits are not flipped; given which positions were, the same counts change, each
    up or down, and both directions are covered.

    >>> shuffler_fakes_analysis(Protocol(0, m=Fakes.laplace(2.0, 25)), Schema.one_hot(9), Fakes.laplace(2.0, 25)).method
    "the exact laplace distribution of the shuffler's fakes"
    """
    if protocol.sends_records or (schema.exclusive and protocol.clear):
        return Analysis(
            upper=lambda epsilon: log(fakes.swap_delta(drawn, epsilon)),
            lower=(lambda epsilon: log(fakes.swap_delta(drawn, epsilon)) - 1e-6) if protocol.clear else unknown,
            basis=Basis.EXACT if protocol.clear else Basis.PROVEN,
            method=f"the exact {drawn.distribution} distribution of the shuffler's fakes",
            guess=1.0,
        )
    before, after = Distribution(0, drawn.pmf), Distribution(1, drawn.pmf)
    method = f"the {drawn.distribution} distribution of the shuffler's fakes"
    if not schema.dense and protocol.clear and 2 * schema.max_set <= schema.width:
        both = fakes.change_loss(drawn, 1, 1)  # a legal change lowers and raises at most max_set counts each
        return _composed(before, after, both, schema.max_set, Basis.PROVEN, method)
    return _composed(before, after, fakes.either_loss(drawn), schema.distance, Basis.PROVEN, method)


def _clear_bits_analysis(schema: Schema, m: int) -> Analysis:
    """Return the analysis of split clear bits: every position hides a one in Bin(m, 1/2) bits of uniform fakes."""
    before = binomial(m, 0.5)
    after = Distribution(before.low + 1, before.pmf)
    cover = Loss.from_distributions(
        np.append(0.0, before.pmf), np.append(before.pmf, 0.0), step=0.05 / math.sqrt(m / 4 + 1)
    )
    return _composed(after, before, cover, schema.width, Basis.EXACT, "the exact distribution of the uniform fakes")


def _composed(
    first: Distribution, second: Distribution, cover: Loss, count: int, basis: Basis, method: str
) -> Analysis:
    """Return the analysis of ``count`` independent counts, each distributed as one of a pair."""
    loss = cover.power(count)
    low, high = min(first.low, second.low), max(first.high, second.high)
    one, two = (np.pad(each.pmf, (each.low - low, high - each.high)) for each in (first, second))

    @cache
    def attack() -> Loss:  # computed on demand: a search for parameters needs only the certified curve
        return split.repeated(one, two, count)

    return Analysis(
        upper=lambda epsilon: log(loss.delta(epsilon)),
        lower=lambda epsilon: log(attack().delta(epsilon)),
        basis=basis,
        method=f"composition of {method} over {count} counts",
        guess=1.0,
        solve=lambda delta: (attack().epsilon(delta), loss.epsilon(delta)),
    )


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
