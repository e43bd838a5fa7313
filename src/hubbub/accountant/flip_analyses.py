"""Analyses of flipped records: single bits, split bits, whole records, and categories by randomized response.

Fakes that users send are flipped like records, so a fixed number of them counts as further users.
"""

import math
from dataclasses import replace

import numpy as np

from hubbub.accountant.curves import Analysis, log, unknown
from hubbub.accountant.gaussian_limit import information, likely_epsilon
from hubbub.accountant.theorems import attacks, bit, category, records, split
from hubbub.errors import reject
from hubbub.numeric.divergences import gaussian_delta
from hubbub.privacy import Basis
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema

NEGLECTED = 1e-15
"""Probability that is added to δ for the event that users draw fewer fakes than counted."""


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
    guess = likely_epsilon(information(protocol, schema), crowd)
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
