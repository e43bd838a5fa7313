"""Tests of equal shares in two populations, from noisy counts of a random sample of each."""

import functools
import math

import numpy as np
import numpy.typing as npt
from scipy.special import erfc, ndtr, ndtri

from hubbub.numeric.population import CountNoise, population_interval, sampled_count, skewed

Array = npt.NDArray[np.float64]

RESIDUE = 1e-5
"""Probability that the common share lies outside the shares that are considered (Berger and Boos 1994), for ten labels.

With more labels it is smaller in proportion, so that it does not hide what is significant after a correction.
"""
GRID = 64
"""Number of common shares at which p-values are computed."""
BINS, FARTHEST = 256, 40
"""Bins of the statistic per unit, and its largest value that is told apart."""


def score_statistic(x: Array, y: Array, sizes: tuple[int, int], noises: tuple[CountNoise, CountNoise]) -> Array:
    """Return z = (y/m − x/n)/σ, σ² = V_x(π)/n² + V_y(π)/m² at the common share π = (x + y)/(n + m); 0/0 is 0.

    >>> none = CountNoise(variance=0.0)
    >>> score_statistic(np.array([10.0]), np.array([20.0]), (100, 100), (none, none)).round(4).tolist()
    [1.9803]
    """
    (n, m), (one, two) = sizes, noises
    share = np.clip((x + y) / (n + m), 0.0, 1.0)
    variance = one.sampled_variance(share, n) / n**2 + two.sampled_variance(share, m) / m**2
    return np.asarray((y / m - x / n) / np.sqrt(np.maximum(variance, 1e-300)))


def residue(labels: int) -> float:
    """Return the probability that the common share of a label lies elsewhere, if so many labels are compared.

    >>> residue(2), residue(1_000_000)
    (1e-05, 1e-10)
    """
    return RESIDUE / max(1.0, labels / 10)


def equality_p_values(
    x: Array, y: Array, sizes: tuple[int, int], noises: tuple[CountNoise, CountNoise], pooled: tuple[Array, Array]
) -> Array:
    """Return two-sided p-values of equal shares; ``pooled`` are intervals of the common share of level 1 − residue.

    P[|Z| ≥ |z|] of the score statistic: normal where both estimates are close to it, otherwise the maximum over all
    common shares of the interval, plus the probability that it lies elsewhere (Berger and Boos 1994), from the
    distributions of both estimates. It errs upwards: far in the tail z is lowered to the normal quantile u with
    z = u + γ(u² − 4)/6, γ the largest skewness of the difference of two sums of coins (Cornish and Fisher 1938).
    """
    z = np.abs(score_statistic(x, y, sizes, noises))
    share = np.clip((x + y) / sum(sizes), 0.0, 1.0)
    one, two = (noise.sampled_variance(share, n) / n**2 for noise, n in zip(noises, sizes, strict=True))
    steps = [1 / (n * min(noise.gain, 1.0)) for noise, n in zip(noises, sizes, strict=True)]
    third = np.maximum(one * steps[0], two * steps[1])
    part = 2 / 3 * third / np.maximum(one + two, 1e-300) ** 1.5
    lower = 2 * (z + part) / (1 + np.sqrt(1 + part * (z + part)))
    p = np.asarray(erfc(np.where(z > 2, lower, z) / math.sqrt(2)))
    normal = np.logical_and(*(noise.close_to_normal(share, n) for noise, n in zip(noises, sizes, strict=True)))
    for most in (False, True):
        chosen = ~normal & ((share > 0.5) == most)
        if not chosen.any():
            continue
        low, high = (bound[chosen] for bound in pooled)
        if most:  # by the people without the label
            low, high = 1 - high, 1 - low
        errors = tuple(noise.reflected(n) if most else noise for noise, n in zip(noises, sizes, strict=True))
        p[chosen] = np.minimum(_largest_p(z[chosen], sizes, (errors[0], errors[1]), low, high) + residue(x.size), 1.0)
    return p


def _largest_p(
    z: Array, sizes: tuple[int, int], noises: tuple[CountNoise, CountNoise], low: Array, high: Array
) -> Array:
    shares = _grid(max(float(low.min()), 0.0), min(float(high.max()), 1.0))
    # The bin of an observed value must contain the value itself, in spite of rounding.
    place = np.clip(np.floor(z * BINS - 1e-4), 0, BINS * FARTHEST).astype(np.int64)
    first = np.maximum(np.searchsorted(shares, low, side="right") - 1, 0)
    last = np.minimum(np.searchsorted(shares, high, side="left"), GRID - 1)
    largest = np.zeros(z.size)
    # Noise known by its variance only may be skewed to either side, in both batches alike.
    one, two = (skewed(noise) for noise in noises)
    pairs = [(one[0], two[0])] if len(one) == len(two) == 1 else [(one[0], two[0]), (one[-1], two[-1])]
    for index, share in enumerate(shares):
        inside = (first <= index) & (index <= last)
        for pair in pairs:
            tail = _tail(float(share), sizes, pair)
            largest[inside] = np.maximum(largest[inside], np.append(tail, 0.0)[np.minimum(place[inside], tail.size)])
    return largest


def _grid(low: float, high: float) -> Array:
    """Return the common shares that are tried. Their ends are rounded outwards, so that comparisons often share them.

    >>> shares = _grid(0.01, 0.2)
    >>> bool(shares[0] <= 0.01), bool(shares[-1] >= 0.2), bool(_grid(0.0, 0.22)[-1] == _grid(0.0, 0.23)[-1])
    (True, True, True)
    """
    top = min(1.0, 2.0 ** (math.ceil(4 * math.log2(high)) / 4)) if high > 0 else 0.0
    bottom = 2.0 ** (math.floor(4 * math.log2(low)) / 4) if low > top / GRID else 0.0
    return np.asarray(np.linspace(math.sqrt(bottom), math.sqrt(top), GRID) ** 2)


@functools.lru_cache(1024)
def _tail(share: float, sizes: tuple[int, int], noises: tuple[CountNoise, CountNoise]) -> Array:
    """Return P[|Z| ≥ i/BINS] for every i up to the largest possible one, if both shares are the given one."""
    (x, p), (y, r) = (sampled_count(share, n, noise) for n, noise in zip(sizes, noises, strict=True))
    kept = p > 1e-12, r > 1e-12
    x, p, y, r = x[kept[0]], p[kept[0]], y[kept[1]], r[kept[1]]
    z = np.abs(score_statistic(x[:, None], y, sizes, noises))
    place = np.minimum(z * BINS, BINS * FARTHEST).astype(np.int64).ravel()
    mass = np.bincount(place, np.multiply.outer(p, r).ravel())
    return np.asarray(mass[::-1].cumsum()[::-1])


def difference_interval(
    x: Array, y: Array, sizes: tuple[int, int], noises: tuple[CountNoise, CountNoise], level: float
) -> tuple[Array, Array]:
    """Return intervals of the difference of two shares, second minus first, from the interval of each.

    The distances of the bounds to the estimates are added in squares (Newcombe 1998, method 10; Zou and Donner 2008).
    """
    (low_x, high_x), (low_y, high_y) = (
        population_interval(one, n, noise, 1 - level) for one, n, noise in zip((x, y), sizes, noises, strict=True)
    )
    share_x, share_y = np.clip(x / sizes[0], low_x, high_x), np.clip(y / sizes[1], low_y, high_y)
    centre = share_y - share_x
    low = centre - np.hypot(share_y - low_y, high_x - share_x)
    high = centre + np.hypot(high_y - share_y, share_x - low_x)
    return np.asarray(low), np.asarray(high)


def holm(p: Array, weights: Array | None = None) -> Array:
    """Return p-values adjusted for their number, valid for any dependence (Holm 1979, with weights §3).

    Any hypothesis of positive weight may be given a larger share of the error by its weight.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(9).tolist()
    [0.03, 0.06, 0.06]
    >>> holm(np.array([0.01, 0.04, 0.03]), np.array([0.5, 0.25, 0.25])).round(9).tolist()
    [0.02, 0.06, 0.06]
    """
    shares = np.full(p.size, 1.0) if weights is None else np.asarray(weights, np.float64)
    order = np.argsort(p / shares, kind="stable")
    left = shares[order][::-1].cumsum()[::-1]
    rising = np.maximum.accumulate(left * p[order] / shares[order])
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(rising, 1.0)
    return adjusted


def score_power(
    shares: tuple[float, float], sizes: tuple[int, int], noises: tuple[CountNoise, CountNoise], significance: float
) -> float:
    """Return the probability that the score test rejects equal shares, by the normal approximation.

    Φ((|δ| − cσ₀)/σ₁) + Φ((−|δ| − cσ₀)/σ₁): δ the difference, c the critical value, σ₀ at the common share that the test
    expects, σ₁ at the true shares.

    >>> noise = CountNoise(variance=100.0)
    >>> round(score_power((0.1, 0.1), (10_000, 10_000), (noise, noise), 0.05), 6)
    0.05
    """
    common = sum(share * n for share, n in zip(shares, sizes, strict=True)) / sum(sizes)

    def deviation(*at: float) -> float:
        parts = (noise.sampled_variance(a, n) / n**2 for a, n, noise in zip(at, sizes, noises, strict=True))
        return math.sqrt(float(sum(parts)))

    distance = abs(shares[1] - shares[0])
    critical, sigma = -float(ndtri(significance / 2)) * deviation(common, common), deviation(*shares)
    return float(ndtr((distance - critical) / sigma) + ndtr((-distance - critical) / sigma))
