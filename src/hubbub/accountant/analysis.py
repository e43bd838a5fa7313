"""Which theorem speaks for which point of the family: Protocol × Schema × crowd → a certified curve δ(ε).

Every entry is a pair of curves: ``upper`` holds for all neighbouring collections and both orders, ``lower`` is what a
known attack achieves. Where several theorems apply, their least value is one too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import bit, fakes, records, split
from hubbub.errors import reject
from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.divergences import gaussian_delta
from hubbub.numeric.rounding import up
from hubbub.privacy import Basis
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema

Curve = Callable[[float], float]
"""ε ↦ ln δ."""

UNSEEN = 1e-15  # probability that is given up for users who happen to draw too few fakes


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What is known about one protocol: certified and attacked curves, and how they came about."""

    upper: Curve
    lower: Curve
    basis: Basis
    method: str
    guess: float
    """About the ε at δ = 10⁻⁶, to start a search from."""
    solve: Callable[[float], tuple[float, float]] | None = None
    """δ ↦ (lower, upper) ε, where there is something faster or sharper than a search on the curves."""


def collusion(protocol: Protocol, schema: Schema) -> float:
    """Pure ε of everything that one user sends, seen with its sender: k·h·ln(p/q) at distance h [000 Prop 5.1].

    >>> round(collusion(Protocol(0.25, k=2), Schema.one_hot(9)), 6) == round(4 * math.log(3), 6)
    True
    """
    if protocol.q == 0:
        return math.inf
    if protocol.sends_category:
        return up(math.log((1 - (schema.width - 1) * protocol.q) / protocol.q), bit.ULPS)
    return bit.pure_epsilon(protocol.q, protocol.k * schema.distance)


def count_leak(protocol: Protocol, schema: Schema) -> float:
    """Pure ε of the number of messages that one user sends, which the shuffler sees unless uploads are padded.

    Whole records are always k messages. Split bits are as many as the flipped copies have set bits; for one-hot
    records that number has one law, Bin(k, p) + Bin(k(d−1), q), whatever the category, and leaks nothing. Otherwise a
    record may have 0 … max_set ones, and the likelihood ratio reaches (p/q)^(k·max_set).

    >>> count_leak(Protocol(0.1, release="bits"), Schema.one_hot(9)), count_leak(Protocol(0.1), Schema.bits(9))
    (0.0, 0.0)
    """
    if not protocol.sends_bits or schema.exclusive:
        return 0.0
    if protocol.q == 0:
        return math.inf
    return bit.pure_epsilon(protocol.q, protocol.k * schema.max_set)


def view(protocol: Protocol) -> str:
    """What the analyzer sees, in words.

    >>> view(Protocol(0.1))
    'whole records'
    """
    words = {"records": "whole records", "bits": "the number of messages for each bit", "category": "categories"}
    return words[protocol.release]


def analyze_local(protocol: Protocol, schema: Schema) -> Analysis:
    """What holds without a shuffler: δ(ε) of one user's own messages, exact.

    >>> analyze_local(Protocol(0.25), Schema.bits(1)).upper(math.log(3))
    -inf
    """
    pure = collusion(protocol, schema)
    if math.isinf(pure):
        return Analysis(
            upper=lambda epsilon: 0.0, lower=lambda epsilon: 0.0, basis=Basis.EXACT, method="clear records", guess=1.0
        )

    def curve(epsilon: float) -> float:
        if protocol.sends_category:
            p = 1 - (schema.width - 1) * protocol.q
            gap = p - math.exp(epsilon) * protocol.q
            return math.log(gap) if gap > 0 else -math.inf
        return records.local(schema, protocol.q, epsilon, protocol.k)

    return Analysis(
        upper=curve,
        lower=lambda epsilon: curve(epsilon) - 1e-9,
        basis=Basis.EXACT,
        method="the pure likelihood ratio of one user's messages",
        guess=pure / 2,
    )


def analyze(protocol: Protocol, schema: Schema, honest: int, share: float) -> Analysis:
    """The analysis for ``honest`` users who follow the protocol, and that ``share`` of the fakes that users add.

    >>> analyze(Protocol(0.1), Schema.bits(1), 1000, 1.0).basis
    <Basis.EXACT: 'exact'>
    """
    if protocol.sends_category:
        return _category(protocol.q, schema, honest)
    m = protocol.m
    if protocol.q == 0:
        return _clear(protocol, schema, honest, share)
    if isinstance(m, Fakes) and m.by == "shuffler":
        flips, drawn = _flip(protocol, schema, honest, 0), _drawn(protocol, schema, m)
        return _least(flips, drawn, "flips or the shuffler's fakes, whichever proves more")
    if isinstance(m, Fakes):
        mean = honest * m.mean
        # Chernoff: P[M ≤ mean − x] ≤ exp(−x²/(2·mean)) for binomial and Poisson laws.
        certain = max(0, math.floor(mean - math.sqrt(2 * mean * -math.log(UNSEEN))))
        flips = _flip(protocol, schema, honest, certain)
        return Analysis(
            upper=lambda epsilon: float(np.logaddexp(flips.upper(epsilon), math.log(UNSEEN))),
            lower=lambda epsilon: -math.inf,
            basis=Basis.PROVEN,
            method=f"{flips.method}, with at least {certain:,} fakes but for a chance of {UNSEEN:g}",
            guess=flips.guess,
        )
    return _flip(protocol, schema, honest, math.floor(share * m))


def _least(one: Analysis, two: Analysis, method: str) -> Analysis:
    return Analysis(
        upper=lambda epsilon: min(one.upper(epsilon), two.upper(epsilon)),
        lower=lambda epsilon: -math.inf,
        basis=Basis.PROVEN,
        method=method,
        guess=min(one.guess, two.guess),
    )


def _category(q: float, schema: Schema, honest: int) -> Analysis:
    d = schema.width
    if not schema.exclusive:
        reject("schema", "be one-hot where a category is released", schema)
    if q * d >= 1:
        reject("q", f"be below 1/{d}, the probability of each of {d} categories without information", q)
    return Analysis(
        upper=lambda epsilon: records.category_blanket(d, q, honest, epsilon),
        lower=lambda epsilon: records.category_attack(d, q, honest, epsilon),
        basis=Basis.EXACT if d == 2 else Basis.PROVEN,
        method="branch and bound over all crowds" if d == 2 else "the uniform blanket",
        guess=5 * math.sqrt(2 / (honest * max(q, 1e-12))) * (1 - d * q),
        solve=(lambda delta: bit.certified_epsilon(honest, q, delta)) if d == 2 else None,
    )


def _flip(protocol: Protocol, schema: Schema, honest: int, m: int) -> Analysis:
    """Flipped records and m flipped fakes, which count as further users whatever they hold."""
    q, k = protocol.q, protocol.k
    phi = 1 + (1 - 2 * q) ** 2 / (q * (1 - q))
    if schema.width == 1 or protocol.sends_bits:
        # Fakes are single copies; of each value up to k − 1 are left out to make whole users of k copies.
        crowd = honest + max(0, (m - 2 * (k - 1)) // k)
        positions = schema.distance
        guess = 5 * math.sqrt(k * positions * (phi - 1) / crowd)
        found = _bit(q, k, crowd, guess) if positions == 1 else _split(q, k, crowd, positions, guess)
        if m == 0:
            return found
        return replace(
            found,
            lower=lambda epsilon: records.column_attack(schema, q, honest, epsilon, k, m),
            basis=Basis.PROVEN,
            method=f"{found.method}, fakes counted as users",
            solve=None,
        )
    ones = schema.max_set
    power = math.exp(min(300.0, math.log(phi) * (schema.width if schema.dense else ones)))
    information = power if schema.dense else 2 * power * (power - 1) + 1
    guess = 5 * math.sqrt(min(k * (information - 1) / (k * honest + m), 1.0))
    if k > 1:
        return Analysis(
            upper=lambda epsilon: records.copies(schema, q, honest, epsilon, k, m),
            lower=lambda epsilon: (
                records.copies_attack(schema, q, honest, epsilon, k)
                if m == 0
                else records.column_attack(schema, q, honest, epsilon, k, m)
            ),
            basis=Basis.PROVEN,
            method=f"the privacy blanket of one copy and group privacy over {k}",
            guess=guess,
        )
    if m == 0:
        return Analysis(
            upper=lambda epsilon: records.blanket(schema, q, honest, epsilon),
            lower=lambda epsilon: records.attack(schema, q, honest, epsilon, near=guess),
            basis=Basis.PROVEN,
            method="the privacy blanket",
            guess=guess,
        )

    def upper(epsilon: float) -> float:
        found = records.fake_blanket(schema, q, m, epsilon)
        # Where the Gaussian limit already says that the crowd hides less than the fakes do, its blanket, which may
        # take seconds, is not worth asking: leaving it out can only raise the bound.
        signal = math.sqrt((information - 1) / (honest + m))
        crowd = gaussian_delta(min(max(signal, 1e-9), 100.0), epsilon)
        return min(found, records.blanket(schema, q, honest + m, epsilon)) if crowd < math.exp(found) else found

    return Analysis(
        upper=upper,
        lower=lambda epsilon: records.column_attack(schema, q, honest, epsilon, k, m),
        basis=Basis.PROVEN,
        method="the fakes' own law, or the privacy blanket of users and fakes together",
        guess=guess,
    )


def _bit(q: float, k: int, crowd: int, guess: float) -> Analysis:
    return Analysis(
        upper=lambda epsilon: bit.supremum(crowd, q, epsilon, k, tolerance=3e-3).upper,
        lower=lambda epsilon: bit.supremum(crowd, q, epsilon, k, tolerance=3e-3).lower,
        basis=Basis.EXACT,
        method="branch and bound over all crowds",
        guess=guess,
        solve=lambda delta: bit.certified_epsilon(crowd, q, delta, k),
    )


def _split(q: float, k: int, crowd: int, positions: int, guess: float) -> Analysis:
    def solve(delta: float) -> tuple[float, float]:
        pure = bit.pure_epsilon(q, k * positions)
        cover = split.positions(crowd, q, k, positions).epsilon(delta)
        return split.attack(crowd, q, k, positions).epsilon(delta), min(cover, pure)

    return Analysis(
        upper=lambda epsilon: _log(split.positions(crowd, q, k, positions).delta(epsilon)),
        lower=lambda epsilon: _log(split.attack(crowd, q, k, positions).delta(epsilon)),
        basis=Basis.PROVEN,
        method=f"composition of the certified single-bit curve over {positions} positions",
        guess=guess,
        solve=solve,
    )


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _clear(protocol: Protocol, schema: Schema, honest: int, share: float) -> Analysis:
    """Clear records among fakes: only the fakes hide, whatever the others hold [004 §5]."""
    m = protocol.m
    if isinstance(m, Fakes) and m.by == "shuffler":
        return _drawn(protocol, schema, m)
    total = math.floor(share * m) if isinstance(m, int) else honest
    if protocol.sends_bits and schema.dense and isinstance(m, int):
        return _clear_bits(schema, total)
    size = schema.size

    def curve(epsilon: float) -> float:
        if size > 2**53:  # no number of fakes covers so many records
            return 0.0
        if isinstance(m, int):
            return _log(fakes.uniform_delta(epsilon, total, size))
        if m.distribution == "binomial":
            return _log(fakes.uniform_delta(epsilon, honest * m.shift, size, share=m.scale))
        return _log(fakes.poisson_delta(epsilon, honest * m.scale, size))

    tight = protocol.sends_records or schema.exclusive
    return Analysis(
        upper=curve,
        lower=(lambda epsilon: curve(epsilon) - 1e-8) if tight else (lambda epsilon: -math.inf),
        basis=Basis.EXACT if tight else Basis.PROVEN,
        method="the exact law of the uniform fakes",
        guess=1.0,
    )


def _composed(
    first: Distribution, second: Distribution, cover: Loss, count: int, basis: Basis, method: str
) -> Analysis:
    """``count`` independent counts, each one of a pair of laws."""
    loss = cover.power(count)
    low, high = min(first.low, second.low), max(first.high, second.high)
    pair = [
        np.pad(distribution.pmf, (distribution.low - low, high - distribution.high)) for distribution in (first, second)
    ]

    @cache
    def attack() -> Loss:  # a search for parameters does not ask for it
        return split.repeated(pair[0], pair[1], count)

    return Analysis(
        upper=lambda epsilon: _log(loss.delta(epsilon)),
        lower=lambda epsilon: _log(attack().delta(epsilon)),
        basis=basis,
        method=f"composition of {method} over {count} counts",
        guess=1.0,
        solve=lambda delta: (attack().epsilon(delta), loss.epsilon(delta)),
    )


def _clear_bits(schema: Schema, m: int) -> Analysis:
    """Bits of uniform fakes are independent fair coins: each position hides a one in Bin(m, 1/2)."""
    distribution = binomial(m, 0.5)
    risen = Distribution(distribution.low + 1, distribution.pmf)
    cover = Loss.from_distributions(
        np.append(0.0, distribution.pmf), np.append(distribution.pmf, 0.0), step=0.05 / math.sqrt(m / 4 + 1)
    )
    return _composed(risen, distribution, cover, schema.width, Basis.EXACT, "the exact law of the uniform fakes")


def _drawn(protocol: Protocol, schema: Schema, m: Fakes) -> Analysis:
    """Fakes drawn by the shuffler: for every legal record, or, if bits are released, for every bit.

    Flips only add to it. Among whole records the fakes are flipped like everybody's, so that what is released is a
    function of clear records among clear fakes. Among bits, fakes are not flipped; given which positions were, the same
    counts change, each up or down, and either way is covered.
    """
    if protocol.sends_records or (schema.exclusive and protocol.q == 0):
        return Analysis(
            upper=lambda epsilon: _log(fakes.swap_delta(m, epsilon)),
            lower=lambda epsilon: _log(fakes.swap_delta(m, epsilon)) - 1e-6 if protocol.q == 0 else -math.inf,
            basis=Basis.EXACT if protocol.q == 0 else Basis.PROVEN,
            method=f"the exact {m.distribution} law of the shuffler's fakes",
            guess=1.0,
        )
    distribution = Distribution(0, m.pmf)
    risen = Distribution(1, m.pmf)
    method = f"the {m.distribution} law of the fakes"
    if not schema.dense and protocol.q == 0 and 2 * schema.max_set <= schema.width:
        both = fakes.change_loss(m, 1, 1)  # a legal change is at most max_set falls and as many rises
        return _composed(distribution, risen, both, schema.max_set, Basis.PROVEN, method)
    return _composed(distribution, risen, fakes.either_loss(m), schema.distance, Basis.PROVEN, method)
