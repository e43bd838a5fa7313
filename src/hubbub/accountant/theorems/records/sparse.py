"""Records with at most K ones among flipped uniform fakes: the distribution of one fake, and what fakes alone prove.

The probability f(s) depends on the message s only through the number T of its set bits: of the records with j ones,
C(T,i)·C(d−T,j−i) share i ones with s, so

    f(s) = (1/size)·Σ_{j≤K} Σ_i C(T,i)·C(d−T,j−i)·p^(d−T−j+2i)·q^(T+j−2i).

A pair x, x' has A ones of x only, B of x' only and C in common; with a, b, c set bits of s there and r elsewhere,
μ_x/μ_0 = ρ^(2(a+c)−A−C) and μ_x'/μ_0 = ρ^(2(b+c)−B−C). All pairs are tried.
"""

import itertools
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.theorems import bit
from hubbub.accountant.theorems.records.blankets import OVERFLOW, bracket
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.binomial import log_binomial_pmf

Floats = NDArray[np.float64]

MAX_ONES = 4
MAX_WIDTH = 400


def known(schema: Schema, q: float) -> bool:
    """Return True if the distribution of a fake is computed for this schema.

    >>> known(Schema.at_most(2, 9), 0.1), known(Schema.at_most(9, 1000), 0.1)
    (True, False)
    """
    short = schema.max_set <= MAX_ONES and schema.width <= MAX_WIDTH
    return short and not schema.exclusive and schema.width * bit.log_odds(q) < OVERFLOW


@lru_cache(maxsize=64)
def density(schema: Schema, q: float) -> Floats:
    """Return f/μ_0 for every number of set bits of the message, to a relative 10⁻¹³.

    >>> values = density(Schema.at_most(1, 2), 0.25)
    >>> [round(float(v), 6) for v in values]  # (1 + 2/ρ)/3, (1 + 1/ρ + ρ)/3, (1 + 2ρ)/3, ρ = 3
    [0.555556, 1.444444, 2.333333]
    """
    ratio, d = bit.log_odds(q), schema.width
    return np.array(
        [
            math.fsum(
                math.comb(t, i) * math.comb(d - t, j - i) * math.exp(ratio * (2 * i - j))
                for j in range(schema.max_set + 1)
                for i in range(min(t, j) + 1)
            )
            / schema.size
            for t in range(d + 1)
        ]
    )


def weight(schema: Schema, q: float) -> float:
    """Return the largest γ with μ_y ≥ γf for every record y, rounded down.

    >>> round(weight(Schema.at_most(1, 2), 0.25), 6)  # a message that sets the other bit only: (1/ρ)/((1 + 1/ρ + ρ)/3)
    0.230769
    """
    ratio, d = bit.log_odds(q), schema.width
    f = density(schema, q)
    least = min(
        math.exp(ratio * (2 * max(0, j - (d - t)) - j)) / float(f[t])  # as few common ones as possible
        for t in range(d + 1)
        for j in range(schema.max_set + 1)
    )
    return min(1.0, least) * (1 - 1e-12)


@lru_cache(maxsize=512)
def _likelihoods(schema: Schema, q: float, pair: tuple[int, int, int]) -> tuple[Floats, Floats, Floats]:
    """Return μ_x/f, μ_x'/f and the probability under f of every class of messages."""
    ratio, rest = bit.log_odds(q), schema.width - sum(pair)
    sizes = (*pair, rest)
    a, b, c, r = np.meshgrid(*(np.arange(size + 1) for size in sizes), indexing="ij")
    f = density(schema, q)[a + b + c + r]
    log = sum(log_binomial_pmf(v, size, q) for v, size in zip((a, b, c, r), sizes, strict=True))
    first, second = (
        portable.exp(ratio * (2.0 * (own + c) - size - pair[2])) / f for own, size in ((a, pair[0]), (b, pair[1]))
    )
    return first.ravel(), second.ravel(), (portable.exp(log) * f).ravel()


def farthest_blanket(schema: Schema, q: float, m: int, epsilon: float) -> float:
    """Return the part of :func:`sparse_fake_blanket` for one pair of records that are farthest apart.

    >>> farthest_blanket(Schema.at_most(2, 9), 0.2, 40, 1.0) <= sparse_fake_blanket(Schema.at_most(2, 9), 0.2, 40, 1.0)
    True
    """
    most = schema.max_set
    return _pair_blanket(schema, q, m, epsilon, (most, min(most, schema.width - most), 0), -math.inf)


def sparse_fake_blanket(schema: Schema, q: float, m: int, epsilon: float) -> float:
    """Return ln δ(ε) proven by m flipped uniform fakes alone; ∞ if it is not known. Errs upwards.

    >>> fewer, more = (sparse_fake_blanket(Schema.at_most(2, 9), 0.2, m, 1.0) for m in (40, 400))
    >>> more < fewer < 0
    True
    """
    if not known(schema, q):
        return math.inf
    ones = range(schema.max_set + 1)
    pairs = [
        (a, b, c)
        for a, b, c in itertools.product(ones, repeat=3)
        if a + b >= 1 and max(a, b) + c <= schema.max_set and a + b + c <= schema.width
    ]
    worst = -math.inf
    for pair in sorted(pairs, key=lambda pair: -pair[0] - pair[1]):  # the worst pairs are far apart
        worst = max(worst, _pair_blanket(schema, q, m, epsilon, pair, worst))
    return worst


def _pair_blanket(schema: Schema, q: float, m: int, epsilon: float, pair: tuple[int, int, int], worst: float) -> float:
    """Return the bound for one pair, or one that does not exceed ``worst``."""
    first, second, weights = _likelihoods(schema, q, pair)
    grown = math.exp(epsilon) * second
    values = first - grown + 1e-12 * (first + grown)  # above the rounding errors of both terms
    if float(values.max()) <= 0.0:
        return -math.inf
    # Every probability is known up to a factor of 1 + 10⁻¹², and that of m + 1 messages up to its power.
    allowance = (m + 1) * 2e-12 + 1e-12
    # E S⁺ ≤ E e^{tS}/(et) for every t (Chernoff)
    t = portable.exp(np.linspace(math.log(1e-4), math.log(30.0), 40)) / float(values.max())
    logs = portable.log(
        portable.dot(portable.exp(np.outer(t, values)), weights)
    )  # a sum of positive terms, to a relative 10⁻¹²
    rough = float(((m + 1) * logs - 1 - portable.log(t)).min()) - math.log(m + 1) + allowance
    if rough <= worst:
        return rough
    rare = weights < 1e-22
    omitted = float(
        portable.dot(weights[rare], np.maximum(values[rare], 0.0))
    )  # omitting an atom lowers E S⁺/n by no more than this
    total = max(float(weights[~rare].sum()), 1.0)
    upper = min(rough, bracket(values[~rare], weights[~rare] / total, m + 1).upper + allowance)
    return float(np.logaddexp(upper, math.log(omitted))) if omitted > 0 else upper
