"""A category by d-ary randomized response: the truth with probability p = 1 − (d−1)q, every other category with q.

The blanket (:mod:`hubbub.accountant.quadrature`) is uniform, w = q for each category. Two categories are a single bit.
"""

import math

from hubbub.accountant.theorems import bit
from hubbub.accountant.theorems.pair import ULPS
from hubbub.accountant.theorems.records import bracket
from hubbub.numeric.rounding import up


def pure_epsilon(d: int, q: float) -> float:
    """Return ln(p/q), from which on δ = 0; errs upwards.

    >>> round(pure_epsilon(3, 0.2), 9) == round(math.log(3), 9)
    True
    """
    return up(math.log(_truth(d, q) / q), ULPS)


def local(d: int, q: float, epsilon: float) -> float:
    """Return ln δ(ε) of one user's message without a crowd: ln(p − e^ε q).

    >>> round(math.exp(local(3, 0.2, 0.0)), 9)
    0.4
    """
    gap = _truth(d, q) - math.exp(epsilon) * q
    return math.log(gap) if gap > 0 else -math.inf


def blanket(d: int, q: float, n: int, epsilon: float) -> float:
    """Return ln δ(ε) proven for every collection of n people; errs upwards.

    For d ≥ 3 it is less than 0.1 % too large in practice; for d = 2 it is exact.

    >>> eps0 = 1.0; q = 1 / (math.exp(eps0) + 3)
    >>> math.exp(blanket(4, q, 2, 0.77)) >= 0.028042  # published code says 0.01708
    True
    """
    if d == 2:
        return bit.supremum(n, q, epsilon, tolerance=1e-3).upper
    p, e = _truth(d, q), math.exp(epsilon)
    return min(0.0, bracket([p / q - e, 1 - e * p / q, 1 - e], [q, q, (d - 2) * q], n).upper)


def attack(d: int, q: float, n: int, epsilon: float) -> float:
    """Return ln δ(ε) of the collection in which all others hold a third category; errs downwards.

    >>> attack(4, 0.1, 1000, 0.3) < blanket(4, 0.1, 1000, 0.3)
    True
    """
    if d == 2:
        return bit.supremum(n, q, epsilon, tolerance=1e-3).lower
    p, e = _truth(d, q), math.exp(epsilon)
    values, weights = [(p - e * q) / q, (q - e * p) / q, (q - e * q) / p], [q, q, p]
    if d > 3:
        values, weights = [*values, 1 - e], [*weights, (d - 3) * q]
    return bracket(values, weights, n).lower


def _truth(d: int, q: float) -> float:
    return 1.0 - (d - 1) * q
