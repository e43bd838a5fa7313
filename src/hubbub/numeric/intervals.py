"""Intervals of a count in the collection, and the count above which a label is held by somebody.

The number of messages that show a label has a known distribution if nobody has the label: flips are binomial, users'
fakes binomial or Poisson, the shuffler's fakes as drawn, and their sum a convolution. Its quantiles are exact. Wide
distributions are close to normal; their quantiles have a correction for skewness that errs outwards.
"""

import functools
import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution, reach
from hubbub.numeric.population import CountNoise

Array = npt.NDArray[np.float64]
WIDE = 1e9
"""Variance of a number of messages beyond which its distribution is not computed."""


def wide_reach(sigma: float, miss: float) -> float:
    """Return the messages by which a wide sum of coins exceeds its mean with probability at most ``miss``.

    zσ + max(0, z² − 1)/6 + ½, z the normal quantile (Cornish and Fisher 1938). The third cumulant of a sum of
    independent coins is at most its variance; the next term, −(z³ − z)/(72σ) for a Poisson number, is left out, so that
    it errs outwards. Half a message, because numbers of messages are whole.

    >>> round(wide_reach(100.0, 1e-6), 2), round(100 * -float(ndtri(1e-6)), 2)
    (479.44, 475.34)
    """
    z = -float(ndtri(miss))
    return z * sigma + max(0.0, z * z - 1) / 6 + 0.5


@functools.lru_cache(64)
def _flips(n: int, flip: float) -> Distribution:
    return binomial(n, flip, tail=60.0)


def _shown_by_none(noise: CountNoise, n: int) -> tuple[Distribution, float] | None:
    """Return the number of messages that show a label that nobody has, with its mean; None if it is wide."""
    if noise.distribution is not None:
        return noise.distribution, noise.centre
    if noise.flip is None or n * noise.flip * (1 - noise.flip) > WIDE:
        return None
    return _flips(n, noise.flip), n * noise.flip


def critical_count(noise: CountNoise, n: int, miss: float) -> float:
    """Return the people that an estimated count exceeds with probability at most ``miss`` if nobody has the label.

    >>> round(critical_count(CountNoise(variance=0.0, flip=0.001), 1000, 1e-4), 6)      # P[Poisson(1) > 6] < 10⁻⁴
    5.5
    """
    known = _shown_by_none(noise, n)
    if known is None:
        return wide_reach(noise.spread, miss) / noise.gain
    number, mean = known
    beyond = int(np.searchsorted(number.pmf[::-1].cumsum(), miss, side="right"))
    return (number.high - beyond + 0.5 - mean) / noise.gain


def count_interval(values: Array, n: int, noise: CountNoise, miss: float) -> tuple[Array, Array]:
    """Return intervals of the true counts, each of which misses with probability at most about ``miss``.

    value ± the distance that the error exceeds if nobody has the label, and the distance of two possible errors where
    flips of those who have it move them: these are skewed the other way, by as much. Where the variance grows with the
    count, the ends are at least those at which the value is ``wide_reach`` away.

    >>> low, high = count_interval(np.array([5.0]), 100, CountNoise(variance=4.0), 0.05)
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.11], [9.89])
    """
    known, gain = _shown_by_none(noise, n), noise.gain
    half = wide_reach(noise.spread, miss / 2) / gain
    if known is not None:
        number, mean = known
        distance = np.abs(np.arange(number.low, number.high + 1) - mean)
        half = (reach(distance, number.pmf, miss) + 2 * noise.slack) / gain
    low, high = values - half, values + half
    if noise.growth > 0:
        z, more = -float(ndtri(miss / 2)), wide_reach(0.0, miss / 2) / gain
        low = np.minimum(low, _at_distance(values - more, noise, -z))
        high = np.maximum(high, _at_distance(values + more, noise, z))
    return low, high


def _at_distance(value: Array, noise: CountNoise, z: float) -> Array:
    """Solve T − value = z·√(V + growth·T) for T; without people the variance is V."""
    growth, variance = noise.growth, noise.variance
    root = (z * growth + np.sqrt(np.maximum((z * growth) ** 2 + 4 * (variance + growth * value), 0.0))) / 2
    found = (root * root - variance) / growth
    return np.where(found > 0, found, np.minimum(value + z * math.sqrt(variance), 0.0))
