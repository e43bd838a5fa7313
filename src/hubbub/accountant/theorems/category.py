"""A category by d-ary randomized response: the truth with probability p = 1 − (d−1)q, every other category with q.

The blanket (:mod:`hubbub.accountant.quadrature`) is uniform, w = q for each category. Two categories are a single bit.
"""

import math
from fractions import Fraction

import numpy as np

from hubbub.accountant.quadrature import UNIT, attained_mean, difference
from hubbub.accountant.theorems import bit
from hubbub.accountant.theorems.pair import ULPS
from hubbub.accountant.theorems.records import OVERFLOW, bracket
from hubbub.numeric.rounding import up


def log_odds(d: int, q: float) -> float:
    """Return ln(p/q), to a few units in the last place also next to q = 1/d.

    >>> round(log_odds(3, 0.2), 9) == round(math.log(3), 9)
    True
    """
    excess = _advantage(d, q) / q
    return math.log1p(excess) if math.isfinite(excess) else math.log(_advantage(d, q)) - math.log(q)


def pure_epsilon(d: int, q: float) -> float:
    """Return ln(p/q), from which on δ = 0; errs upwards.

    >>> round(pure_epsilon(3, 0.2), 9) == round(math.log(3), 9)
    True
    """
    return up(log_odds(d, q), ULPS)


def local(d: int, q: float, epsilon: float) -> float:
    """Return ln δ(ε) of one user's message without a crowd: ln(p − e^ε q); errs upwards.

    >>> round(math.exp(local(3, 0.2, 0.0)), 9)
    0.4
    """
    if epsilon >= pure_epsilon(d, q):
        return -math.inf
    first = _advantage(d, q)
    second = q * math.expm1(min(epsilon, OVERFLOW))  # p − e^ε q = (p − q) − (e^ε − 1)·q
    return up(math.log(max(first - second + 16 * UNIT * (first + second), 5e-324)), 8 * UNIT)


def blanket(d: int, q: float, n: int, epsilon: float) -> float:
    """Return ln δ(ε) proven for every collection of n people; errs upwards.

    For d ≥ 3 it is less than 0.1 % too large in practice; for d = 2 it is exact.

    >>> eps0 = 1.0; q = 1 / (math.exp(eps0) + 3)
    >>> math.exp(blanket(4, q, 2, 0.77)) >= 0.028042  # published code says 0.01708
    True
    """
    if d == 2:
        return bit.supremum(n, q, epsilon, tolerance=1e-3).upper
    bound, ratio = min(local(d, q, epsilon), 0.0), log_odds(d, q)
    if epsilon + ratio > OVERFLOW or bound == -math.inf:
        return bound
    first, second = np.array([ratio, 0.0, 0.0]), np.array([epsilon, epsilon + ratio, epsilon])
    weights = [q, q, (d - 2) * q * (1 - 2 * UNIT)]
    return min(bound, bracket(difference(first, second, epsilon + ratio), weights, n).upper)


def attack(d: int, q: float, n: int, epsilon: float) -> float:
    """Return ln δ(ε) of the collection in which all others hold a third category; errs downwards.

    >>> attack(4, 0.1, 1000, 0.3) < blanket(4, 0.1, 1000, 0.3)
    True
    """
    if d == 2:
        return bit.supremum(n, q, epsilon, tolerance=1e-3).lower
    ratio = log_odds(d, q)
    if epsilon + ratio > OVERFLOW or epsilon >= pure_epsilon(d, q):
        return -math.inf
    first = np.array([ratio, 0.0, -ratio, 0.0])
    second = np.array([epsilon, epsilon + ratio, epsilon - ratio, epsilon])
    values = difference(first, second, epsilon + ratio, side=-1)
    return attained_mean(values, [q, q, _advantage(d, q) + q, (d - 3) * q], n, tolerance=2e-3)


def _advantage(d: int, q: float) -> float:
    """Return p − q = 1 − d·q, correctly rounded."""
    return float(1 - d * Fraction(q))
