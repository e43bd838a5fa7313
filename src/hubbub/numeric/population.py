"""Estimated counts of people who are a random sample of a population: their distribution and confidence intervals.

An estimated count X of n people is T + E: T of them have the label, and E is the noise of the protocol. If the people
are drawn at random from a large population in which a share π has the label, T ~ Bin(n, π). Confidence intervals of π
invert the test of every π at both ends. They are exact or err outwards where counts are small, and normal elsewhere:

- one message per person and no fakes: the number of messages is itself binomial (Clopper and Pearson 1934);
- little noise: the sum of the binomial and the noise on a lattice, bounds rounded outwards. Noise that is known by its
  variance only is bounded by a Poisson distribution of this variance, in either direction;
- fakes of a known distribution, much noise: the sum of a normal count and the noise;
- otherwise: the score interval (Wilson 1927) with the variance of T + E at each π, and half a message on either side.

Estimates below 0 count as 0 and those above n as n, so that no interval is empty or implausibly short.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, ndtr, ndtri, xlog1py, xlogy

from hubbub.errors import NON_NEGATIVE, POSITIVE, PROBABILITY, check_real, check_type, reject
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial, clopper_pearson
from hubbub.numeric.distributions import Distribution

Array = npt.NDArray[np.float64]

LITTLE = 12.0
"""Largest standard deviation of the noise, in messages, that is summed on a lattice."""
FEW = 100.0
"""Number of people from which on the normal approximation of a binomial count serves."""
STEPS = 800
"""Shares at which lattice sums are computed; bounds are rounded outwards to one of them."""
NODES = 128
"""Estimates for which wide noise is inverted; the bounds of others are interpolated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountNoise:
    """The error E of an estimated count X = T + E of people with a label."""

    variance: float
    """Variance of X if nobody has the label, in people²."""
    gain: float = 1.0
    """Expected increase of the number of messages for one more person, k(p − q)."""
    growth: float = 0.0
    """Increase of the variance for each person with the label; 0 unless categories are released."""
    flip: float | None = None
    """Probability that the one message of a person without the label shows it, if there are no fakes; None if there are
    fakes or copies."""
    distribution: Distribution | None = None
    """Distribution of the error in messages, plus ``centre``, if it is not close to normal."""
    centre: float = 0.0
    """Mean of that distribution."""
    slack: float = 0.5
    """Half the distance of two possible errors in messages; close to 0 if the distribution has every one of them."""
    full: Distribution | None = None
    """Distribution of the error in messages, plus its mean, if everybody has the label; None if it is that of nobody.

    Flips of those who have the label are skewed the other way."""

    def __post_init__(self) -> None:
        check_real("variance", self.variance, NON_NEGATIVE)
        check_real("gain", self.gain, POSITIVE)
        check_finite("growth", self.growth)
        if self.flip is not None:
            check_real("flip", self.flip, PROBABILITY)
        if self.distribution is not None:
            check_type("distribution", self.distribution, Distribution)
        if self.full is not None:
            check_type("full", self.full, Distribution)
        check_finite("centre", self.centre)
        check_real("slack", self.slack, NON_NEGATIVE)

    def reflected(self, n: int) -> "CountNoise":
        """Return the error of n − X, the estimated number of people without the label."""
        flipped = None if self.distribution is None else self.distribution.flipped(0)
        full = None if self.full is None else self.full.flipped(0)
        return CountNoise(
            variance=max(0.0, self.variance + n * self.growth),
            gain=self.gain,
            growth=-self.growth,
            flip=None if self.flip is None else min(max(1 - self.flip - self.gain, 0.0), 1.0),
            distribution=flipped if full is None else full,
            centre=-self.centre if full is None else full.mean,
            slack=self.slack,
            full=None if full is None else flipped,
        )

    @property
    def spread(self) -> float:
        """Standard deviation of the error in messages."""
        return self.gain * math.sqrt(self.variance)

    @property
    def little(self) -> bool:
        """True if the deviation is small enough, in messages or in people, for sums on a lattice."""
        return min(self.gain, 1.0) * math.sqrt(self.variance) <= LITTLE

    def sampled_variance(self, share: npt.ArrayLike, n: int) -> Array:
        """Return the variance of X if T ~ Bin(n, π): V₀ + n((1 + growth)π − π²).

        >>> CountNoise(variance=4.0).sampled_variance(0.5, 100).item()
        29.0
        """
        part = np.asarray(share, np.float64)
        return np.asarray(self.variance + n * ((1 + self.growth) * part - part * part))

    def close_to_normal(self, share: npt.ArrayLike, n: int) -> npt.NDArray[np.bool_]:
        """Return True where the sum of the sampled count and the noise is close enough to normal."""
        part = np.minimum(share, 1 - np.asarray(share, np.float64))
        if self.flip is not None:
            rate = self.flip + self.gain * np.asarray(share, np.float64)
            return np.asarray(n * rate * (1 - rate) >= 2 * FEW)
        if self.distribution is not None:
            return np.asarray(n * part >= FEW + 3 * self.variance)
        return np.asarray((n * part >= FEW) | (not self.little))


def check_finite(name: str, value: object) -> float:
    """Return the value as a finite float.

    >>> check_finite("centre", -2)
    -2.0
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        reject(name, "be a finite number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    return number if math.isfinite(number) else reject(name, "be a finite number", value)


def population_interval(values: Array, n: int, noise: CountNoise, miss: float) -> tuple[Array, Array]:
    """Return intervals of the shares in the population; each end errs with probability at most about ``miss``/2.

    >>> low, high = population_interval(np.array([10.0]), 1000, CountNoise(variance=0.0, flip=0.0), 0.05)
    >>> low.round(5).tolist(), high.round(5).tolist()
    ([0.00481], [0.01831])
    """
    if n == 0:
        return np.zeros(values.size), np.ones(values.size)
    x = np.clip(values, 0.0, float(n))
    low, high = np.empty(x.size), np.empty(x.size)
    most = x > n / 2
    if not most.all():
        low[~most], high[~most] = _rarer(x[~most], n, noise, miss)
    if most.any():  # by the people without the label
        inner = _rarer(n - x[most], n, noise.reflected(n), miss)
        low[most], high[most] = 1 - inner[1], 1 - inner[0]
    return low, high


def _rarer(x: Array, n: int, noise: CountNoise, miss: float) -> tuple[Array, Array]:
    """Return the intervals of labels that at most half of the people have."""
    low, high = _score(x, n, noise, miss)
    exact: Callable[[Array, int, CountNoise, float], tuple[Array, Array]]
    if noise.flip is not None:
        sent = noise.gain * x + n * noise.flip
        few, exact = np.minimum(sent, n - sent) < 5 * FEW, _by_messages
    elif noise.little:
        few, exact = ~noise.close_to_normal(x / n, n), _on_lattice
    elif noise.distribution is not None:
        few, exact = ~noise.close_to_normal(x / n, n), _among_wide
    else:
        return low, high
    if few.any():
        nodes, place = np.unique(np.round(x[few], 6), return_inverse=True)
        if exact is _among_wide and nodes.size > NODES:
            ends = np.linspace(nodes[0], nodes[-1], NODES)
            found = exact(ends, n, noise, miss)
            low[few], high[few] = (np.interp(x[few], ends, bound) for bound in found)
        else:
            found = exact(nodes, n, noise, miss)
            low[few], high[few] = (bound[place] for bound in found)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def _score(x: Array, n: int, noise: CountNoise, miss: float) -> tuple[Array, Array]:
    """Solve (x ± s − nπ)² = z²V(π), V the variance of T + E at π, for π (Wilson 1927).

    s is half a message, and max(0, z² − 4)/6 of one for the skewness far in the tail (Cornish and Fisher 1938).
    """
    z = float(ndtri(miss / 2))
    square = z * z
    step = 0.5 / noise.gain + max(0.0, square - 4) / 6 * max(1.0, 1 / noise.gain)

    def root(centre: Array, sign: int) -> Array:
        a = n * n + square * n
        b = 2 * n * centre + square * n * (1 + noise.growth)
        c = centre * centre - square * noise.variance
        return np.asarray((b + sign * np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))) / (2 * a))

    return np.clip(root(x - step, -1), 0, 1), np.clip(root(x + step, 1), 0, 1)


def _by_messages(x: Array, n: int, noise: CountNoise, miss: float) -> tuple[Array, Array]:
    """Return the exact intervals from the number of messages, Bin(n, flip + gain·π)."""
    assert noise.flip is not None
    sent = noise.gain * x + n * noise.flip
    low, _ = clopper_pearson(np.clip(np.floor(sent + 1e-4), 0, n), n, miss / 2)
    _, high = clopper_pearson(np.clip(np.ceil(sent - 1e-4), 0, n), n, miss / 2)
    return (low - noise.flip) / noise.gain, (high - noise.flip) / noise.gain


def poisson(mean: float) -> Distribution:
    """Return the Poisson distribution with this mean, without tails below 10⁻³⁰.

    >>> poisson(0.0).pmf.tolist(), round(float(poisson(3.0).pmf[2]), 6)
    ([1.0], 0.224042)
    """
    if mean == 0:
        return Distribution(0, np.ones(1))
    reach = 12 * math.sqrt(mean) + 40
    low, high = max(0, math.floor(mean - reach)), math.ceil(mean + reach)
    number = np.arange(low, high + 1, dtype=np.float64)
    return Distribution(low, portable.exp(xlogy(number, mean) - mean - gammaln(number + 1)))


def skewed(noise: CountNoise) -> tuple[CountNoise, ...]:
    """Return the noise, or if little more than its variance is known, noise of that variance skewed to either side.

    >>> [one.distribution.low for one in skewed(CountNoise(variance=100.0))]
    [0, -260]
    """
    if noise.flip is not None or noise.distribution is not None or not noise.little:
        return (noise,)
    return tuple(replace(noise, distribution=one, centre=mean) for one, mean in _bounds(noise))


def _bounds(noise: CountNoise) -> tuple[tuple[Distribution, float], tuple[Distribution, float]]:
    """Return the distributions, with their means, that bound the upper and the lower tail of little noise."""
    if noise.distribution is not None:
        same = noise.distribution, noise.centre
        return same, same
    mean = noise.spread**2
    above = poisson(mean)
    return (above, mean), (above.flipped(0), -mean)


def _on_lattice(x: Array, n: int, noise: CountNoise, miss: float) -> tuple[Array, Array]:
    """Return intervals from P[T + E ≥ x] and P[T + E ≤ x] at many shares, rounded outwards to one of them."""
    above, below = _bounds(noise)
    gain, slack, half = noise.gain, noise.slack, miss / 2
    wide = 8 - float(ndtri(half))
    reach = (below[1] - below[0].quantile(half / 2)) / gain
    top = float(x[-1]) + reach + 1 / gain
    top = min(float(n), top + wide * math.sqrt(top + 4) + 20)
    last = min(n, math.ceil(top + wide * math.sqrt(top) + 40))
    shares = top / n * np.linspace(0, 1, STEPS) ** 2
    counts = _binomials(last, n, shares)
    beyond = np.maximum(1 - counts.sum(axis=0), 0.0)
    people = gain * (x[:, None] - np.arange(last + 1))
    upper = portable.dot(_tail(above, np.ceil(people - slack + above[1])), counts) + beyond
    lower = portable.dot(_tail((below[0].flipped(0), 0.0), -np.floor(people + slack + below[1])), counts) + beyond
    # The tails are monotone in the share, so that the number of rejected shares is the place of the bound.
    first = np.maximum((upper <= half).sum(axis=1) - 1, 0)
    rejected = (lower <= half).sum(axis=1)
    high = np.where(rejected > 0, shares[np.minimum(STEPS - rejected, STEPS - 1)], 1.0)
    return shares[first], high


def _tail(noise: tuple[Distribution, float], number: Array) -> Array:
    """Return P[D ≥ number] for whole numbers."""
    distribution = noise[0]
    above = np.append(np.minimum(distribution.pmf[::-1].cumsum()[::-1], 1.0), 0.0)
    return np.asarray(above[np.clip(number - distribution.low, 0, distribution.pmf.size).astype(np.int64)])


def _binomials(last: int, n: int, shares: Array) -> Array:
    """Return P[Bin(n, π) = t] for t = 0 … last in the rows and every π in the columns."""
    t = np.arange(last + 1, dtype=np.float64)
    ways = np.r_[0.0, np.cumsum(portable.log(n - t[:-1]) - portable.log(t[:-1] + 1))]
    return np.asarray(portable.exp(ways[:, None] + xlogy(t[:, None], shares) + xlog1py(n - t[:, None], -shares)))


def binned(noise: CountNoise, parts: float = 16.0) -> tuple[Array, Array, float]:
    """Return the error in people as points and probabilities, and half the distance of two points.

    >>> points, weights, half = binned(CountNoise(variance=200.0, distribution=poisson(200.0), centre=200.0))
    >>> abs(float(weights @ points)) < 1e-9, half
    (True, 0.5)
    """
    assert noise.distribution is not None
    width = max(1, math.floor(noise.spread / parts))
    pmf = noise.distribution.pmf
    kept = pmf.cumsum()
    first, last = int(np.searchsorted(kept, 1e-13)), int(np.searchsorted(kept, kept[-1] - 1e-13))
    pmf = pmf[first : last + 1]
    pmf = np.pad(pmf, (0, -pmf.size % width)).reshape(-1, width).sum(axis=1)
    middle = noise.distribution.low + first + (width - 1) / 2 + width * np.arange(pmf.size)
    return (middle - noise.centre) / noise.gain, pmf / pmf.sum(), 0.5 * width / noise.gain


def _among_wide(x: Array, n: int, noise: CountNoise, miss: float) -> tuple[Array, Array]:
    """Return intervals from the sum of a normal count and binned noise, with half a bin on either side."""
    points, weights, half = binned(noise)
    slack = half + 0.5

    def solve(sign: int) -> Array:
        """Return the bound at which P[sign·(T + E − x) ≥ 0] is miss/2, by bisection."""
        inside, outside = (np.zeros(x.size), np.full(x.size, float(n)))
        for _ in range(40):
            mean = (inside + outside) / 2
            deviation = np.sqrt(np.maximum(mean * (1 - mean / n), 1e-9))
            excess = sign * (mean[:, None] + points - x[:, None]) + slack
            rejected = portable.dot(ndtr(excess / deviation[:, None]), weights) <= miss / 2
            below = rejected if sign > 0 else ~rejected
            inside, outside = np.where(below, mean, inside), np.where(below, outside, mean)
        return np.asarray((inside if sign > 0 else outside) / n)

    return solve(1), solve(-1)


def sampled_count(share: float, n: int, noise: CountNoise, bins: int = 15) -> tuple[Array, Array]:
    """Return the distribution of X = T + E if T ~ Bin(n, π): its points in people, and their probabilities.

    On the lattice of messages where noise and count are small; otherwise with so many bins to its deviation.

    >>> points, weights = sampled_count(0.01, 1000, CountNoise(variance=4.0))
    >>> round(float(weights @ points), 6), round(float(weights @ points**2) - 100, 2)
    (10.0, 13.9)
    """
    mean = n * share
    if noise.flip is not None and n * (rate := min(noise.flip + noise.gain * share, 1.0)) < 4 * FEW:
        sent = binomial(n, rate, tail=40)
        points = np.arange(sent.low, sent.high + 1, dtype=np.float64)
        return (points - n * noise.flip) / noise.gain, sent.pmf
    if noise.flip is None and noise.little and mean < 4 * FEW:
        people = binomial(n, share, tail=40)
        place = noise.gain * np.arange(people.low, people.high + 1)
        whole = np.floor(place + 1e-9).astype(np.int64)
        part = np.maximum(place - whole, 0.0)
        messages = np.zeros(int(whole[-1] - whole[0]) + 2)
        np.add.at(messages, whole - whole[0], people.pmf * (1 - part))
        np.add.at(messages, whole - whole[0] + 1, people.pmf * part)
        error, centre = _bounds(noise)[0]
        total = Distribution(int(whole[0]), messages).plus(error)
        return np.asarray((np.arange(total.low, total.high + 1) - centre) / noise.gain, np.float64), total.pmf
    deviation = math.sqrt(float(noise.sampled_variance(share, n)))
    points = mean + deviation * np.linspace(-6, 6, 12 * bins + 1)
    edges = np.r_[-np.inf, (points[1:] + points[:-1]) / 2, np.inf]
    if noise.distribution is None:
        return points, np.diff(ndtr((edges - mean) / deviation))
    errors, weights, _ = binned(noise, max(8, bins / 2))
    own = max(math.sqrt(mean * (1 - share)), 1e-9)
    return points, np.diff(portable.dot(ndtr((edges[:, None] - mean - errors) / own), weights))
