"""The number of set bits that a crowd reports: A_n(ones) = Bin(ones, p) + Bin(n − ones, q).

``ones`` of n records have the bit set, and every bit is flipped with probability q. [000 §6, 004 §3]

Two algorithms compute the distribution, and both only add positive numbers: direct convolution, and for large crowds
the three-term recurrence of [000 eq 6.3]. The coefficient of the recurrence is positive below

    s* = (ones·p² + (n − ones)·q²) / (p² + q²),

and there it is stable upwards; beyond s* it is stable downwards, which after exchanging 0 and 1 is the same recurrence
for n − ones. (The mode is not the boundary: s* lies beyond the mode if ones > n/2 and before it if ones < n/2.)
"""

import math

import numpy as np
import numpy.typing as npt

from hubbub.errors import check_flip, check_memory, check_whole
from hubbub.numeric import portable
from hubbub.numeric.binomial import MAX_EXACT, binomial, log_binomial_pmf
from hubbub.numeric.distributions import Distribution, support

Array = npt.NDArray[np.float64]

DIRECT = 128
"""Width of the narrower binomial distribution up to which both are convolved; beyond, the recurrence is faster."""


def crowd(n: int, ones: int, q: float, k: int = 1) -> Distribution:
    """Return the distribution of A_n(ones), or of A_kn(k·ones) with k copies of every record.

    Relative error below 10⁻¹⁰ wherever the probability is a normal float64, in time O(√(kn)). [000 §6, 002 §5.2]

    >>> (1024 * crowd(5, 2, 0.25).pmf).round(9).tolist()
    [27.0, 189.0, 414.0, 298.0, 87.0, 9.0]
    """
    n, ones, q, k = _check(n, ones, q, k, low=0)
    n, ones = k * n, k * ones
    fewer = min(ones, n - ones)
    low, high = support(fewer * q, fewer * q * (1 - q), fewer)
    if high - low < DIRECT:
        return binomial(ones, q).flipped(ones).plus(binomial(n - ones, q))
    mean = n * q + ones * (1 - 2 * q)
    low, high = support(mean, n * q * (1 - q), n)
    check_memory(f"the distribution of a crowd of {n:,}", 16 * 8 * (high - low + 1))
    logs = portable.log(_ratios(n, ones, q, low, high))
    middle = min(max(round(mean), low), high) - low
    up = portable.exp(np.cumsum(logs[middle:]))
    down = portable.exp(-np.cumsum(logs[:middle][::-1]))[::-1]
    pmf = np.concatenate([down, [1.0], up])
    return Distribution(low, pmf / pmf.sum())


def neighbours(n: int, ones: int, q: float, k: int = 1) -> tuple[Distribution, Distribution]:
    """Return the distributions of two crowds of n that differ in one record: 0 in the first, 1 in the second.

    The other n − 1 records have ``ones`` set bits. Both distributions are kept on one interval, so that their ``pmf``
    can be compared entry by entry: P_n,ones(s) = q P(s−1) + p P(s) and P_n,ones+1(s) = p P(s−1) + q P(s), with P the
    distribution of the others [000 eq 6.1, 6.2]; with k copies, convolution with Bin(k, q) and Bin(k, p).

    >>> zero, one = neighbours(2, 0, 0.25)
    >>> zero.pmf.round(9).tolist(), one.pmf.round(9).tolist()
    ([0.5625, 0.375, 0.0625], [0.1875, 0.625, 0.1875])
    """
    n, ones, q, k = _check(n, ones, q, k, low=1)
    check_whole("ones", ones, 0, n - 1)
    others = crowd(n - 1, ones, q, k)
    own = portable.exp(log_binomial_pmf(np.arange(k + 1), k, q))
    return others.plus(Distribution(0, own)), others.plus(Distribution(0, own[::-1]))


def probability_ratios(n: int, ones: int, q: float) -> Array:
    """Return ρ(s) = P[A_n(ones) = s] / P[A_n(ones) = s − 1] for s = 0…n, with ρ(0) = ∞.

    ρ(1) = ones·p/q + (n − ones)·q/p and (s + 1) ρ(s + 1) = (ones − s)·p/q + (n − ones − s)·q/p + (n − s + 1)/ρ(s),
    used only where it is stable. [000 eq 6.4 = 004 eq 3.4]

    >>> round(21 * float(probability_ratios(5, 2, 0.25)[2]), 12)
    46.0
    """
    n, ones, q, _ = _check(n, ones, q, 1, low=1)
    check_memory(f"the {n:,} probability ratios of a crowd", 16 * 8 * n)
    return np.concatenate([[np.inf], _ratios(n, ones, q, 0, n)])


def _check(n: object, ones: object, q: object, k: object, low: int) -> tuple[int, int, float, int]:
    k = check_whole("k", k, 1)
    n = check_whole("n", n, low, MAX_EXACT // k)
    return n, check_whole("ones", ones, 0, n), check_flip(q), k


def _ratios(n: int, ones: int, q: float, low: int, high: int) -> Array:
    """Return ρ(s) for s = low+1…high, computed upwards and downwards to s*."""
    p = 1 - q
    boundary = (ones * p * p + (n - ones) * q * q) / (p * p + q * q)
    turn = min(max(math.floor(boundary), low), high)
    up = _ratios_upwards(n, ones, q, low, turn)
    down = 1.0 / _ratios_upwards(n, n - ones, q, n - high, n - turn)[::-1]
    return np.concatenate([up, down])


def _ratios_upwards(n: int, ones: int, q: float, low: int, high: int) -> Array:
    """Return ρ(s) for s = low+1…high ≤ s* + 1 by [000 eq 6.4].

    Starts at s = 1, or ten standard deviations below ``low`` from the saddle-point value; each step reduces the initial
    error, in total to less than exp(−50) of it.
    """
    if high <= low:
        return np.empty(0)
    p = 1 - q
    r = p / q
    first = max(0, low - math.ceil(10 * math.sqrt(n * p * q)) - 50)
    s = np.arange(first, high, dtype=np.float64)
    gamma = ((ones - s) * r + (n - ones - s) / r) / (s + 1)
    eta = (n - s + 1) / (s + 1)
    rho = math.inf if first == 0 else 1 / _saddle_point(n, ones, q, first)
    rhos = []
    for g, h in zip(gamma.tolist(), eta.tolist(), strict=True):
        rho = g + h / rho
        rhos.append(rho)
    return np.array(rhos[low - first :])


def _saddle_point(n: int, ones: int, q: float, s: int) -> float:
    """Return the positive x with ones·px/(q + px) + (n − ones)·qx/(p + qx) = s."""
    p = 1 - q
    a = (n - s) * p * q
    b = ones * p * p + (n - ones) * q * q - s * (p * p + q * q)
    c = s * p * q
    return 2 * c / (b + math.sqrt(b * b + 4 * a * c))
