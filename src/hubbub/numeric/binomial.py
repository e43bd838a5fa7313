"""The binomial distribution, with small relative errors at every size and in every tail.

Differences of log-gamma functions lose ten digits at n = 10⁹. The logarithm of a probability is therefore written as
a sum of deviances, none of which cancels (C. Loader, *Fast and accurate computation of binomial probabilities*, 2000).
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from hubbub.errors import PROBABILITY, check_memory, check_real, check_whole, reject
from hubbub.numeric import portable
from hubbub.numeric.distributions import UNDERFLOW, Distribution, support

Array = npt.NDArray[np.float64]

MAX_EXACT = 2**53  # largest integer up to which all integers are exact in float64


def binomial(n: int, prob: float, *, tail: float = UNDERFLOW) -> Distribution:
    """Return the distribution Bin(n, prob): P[X = s] = C(n, s) prob^s (1 − prob)^(n − s).

    Outcomes beyond those kept have a probability of at most e^−tail on either side; by default they underflow.

    >>> binomial(2, 0.25).pmf.round(12).tolist()
    [0.5625, 0.375, 0.0625]
    >>> binomial(10**9, 0.3).quantile(0.5)
    300000000
    """
    n = check_whole("n", n, 0, MAX_EXACT)
    prob = check_real("prob", prob, PROBABILITY)
    low, high = support(n * prob, n * prob * (1.0 - prob), n, tail=tail)
    check_memory(f"a binomial distribution of {n:,} trials", 16 * 8 * (high - low + 1))
    return Distribution(low, portable.exp(_log_pmf(np.arange(low, high + 1, dtype=np.float64), n, prob, 1.0 - prob)))


def binomial_pmf(n: int, prob: float) -> Array:
    """Return P[Bin(n, prob) = s] for s = 0 … n, 0 where it underflows; for small n, where distributions must align.

    >>> binomial_pmf(2, 0.25).round(12).tolist()
    [0.5625, 0.375, 0.0625]
    """
    return np.asarray(portable.exp(log_binomial_pmf(np.arange(n + 1), n, prob)), dtype=np.float64)


def clopper_pearson(successes: npt.ArrayLike, trials: npt.ArrayLike, level: float) -> tuple[Array, Array]:
    """Return a confidence interval of a probability; each end errs outwards with probability at least 1 − ``level``.

    The low end solves P[Bin(n, p) ≥ s] = level, the high end P[Bin(n, p) ≤ s] = level (Clopper and Pearson 1934).
    Neither s nor n need be whole, for an effective number of trials.

    >>> low, high = clopper_pearson(0, 100, 0.025)
    >>> round(float(low), 4), round(float(high), 4)
    (0.0, 0.0362)
    """
    s, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    low = np.where(s > 0, betaincinv(np.where(s > 0, s, 1.0), n - s + 1, level), 0.0)
    high = np.where(s < n, betaincinv(s + 1, np.where(s < n, n - s, 1.0), 1 - level), 1.0)
    return low, high


def log_binomial_pmf(s: npt.ArrayLike, n: int, prob: float) -> Array:
    """Return ln P[Bin(n, prob) = s] for every s, −∞ outside 0…n.

    ln P = −D(s, n·prob) − D(n − s, n(1 − prob)) + ½ ln(n/(2π s (n − s))) + e(n) − e(s) − e(n − s), with the deviance
    D(x, μ) = x ln(x/μ) + μ − x and Stirling's remainder e. [Loader 2000]

    >>> float(portable.exp(log_binomial_pmf(1, 2, 0.25)).round(12))
    0.375
    """
    n = check_whole("n", n, 0, MAX_EXACT)
    prob = check_real("prob", prob, PROBABILITY)
    values = np.asarray(s)
    if not np.issubdtype(values.dtype, np.integer):
        reject("s", "consist of whole numbers")
    return _log_pmf(values.astype(np.float64), n, prob, 1.0 - prob)


def _log_pmf(s: Array, n: int, a: float, b: float) -> Array:
    if n == 0 or a == 0.0 or b == 0.0:
        result = np.full(s.shape, -np.inf)
        result[s == (0 if a == 0.0 else n)] = 0.0
        return result
    inner = (s > 0) & (s < n)
    if inner.all():
        return _inner_log_pmf(s, n, a, b)
    result = np.full(s.shape, -np.inf)
    result[s == 0] = n * (math.log1p(-a) if a < 0.5 else math.log(b))
    result[s == n] = n * (math.log1p(-b) if b < 0.5 else math.log(a))
    result[inner] = _inner_log_pmf(s[inner], n, a, b)
    return result


def _inner_log_pmf(x: Array, n: int, a: float, b: float) -> Array:
    if x.size == 0:
        return x
    y = n - x
    whole = float(_stirling_remainder(np.array([float(n)]))[0])
    shape = 0.5 * portable.log(n / (2 * math.pi * x * y)) + (whole - _stirling_remainder(x) - _stirling_remainder(y))
    return np.asarray(shape - _deviance(x, n * a) - _deviance(y, n * b))


SMALL_REMAINDERS = np.array(
    [0.0]
    + [math.log(math.factorial(x)) - (x + 0.5) * math.log(x) + x - 0.5 * math.log(2 * math.pi) for x in range(1, 16)]
)


def _stirling_remainder(x: Array) -> Array:
    """Return ln x! − ln(√(2πx) (x/e)^x) for whole x ≥ 1: a table, then the asymptotic series."""
    if x.min() > 1e6:  # further terms are below the last digit of the first
        return np.asarray((1 / 12 - 1 / 360 / (x * x)) / x)
    large = np.maximum(x, 16.0)
    square = large * large
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / large
    return np.where(x < 16, SMALL_REMAINDERS[np.minimum(x, 15).astype(np.intp)], series)


def _deviance(x: Array, mean: float) -> Array:
    """Return D(x, μ) = x ln(x/μ) + μ − x; near x = μ by the series of 2x artanh(v), v = (x − μ)/(x + μ)."""
    v = (x - mean) / (x + mean)
    square = v * v
    farthest = float(square.max())
    # Terms below the last digit of the sum are left out.
    terms = 8 if farthest > 1e-3 else max(1, math.ceil(-40 / math.log(max(farthest, 1e-300))))
    series = square / (2 * terms + 1)
    for j in range(terms - 1, 0, -1):
        series = square * (1 / (2 * j + 1) + series)
    near = (x - mean) * v + 2 * x * v * series
    if farthest < 0.01:
        return np.asarray(near)
    log_ratio = portable.log(x / mean) if mean > 1e-290 else portable.log(x) - math.log(mean)
    return np.where(np.abs(v) < 0.1, near, x * log_ratio + mean - x)
