"""Sums of independent errors with longer tails than normal ones: quantiles, and their distribution.

Noise with the variance v and the excess kurtosis e is modelled by the symmetric variance-gamma distribution with the
characteristic function (1 + vθ²/(2b))^−b, b = 3/e: a Laplace distribution for e = 3, the sum of b of them for e = 3/b,
a normal distribution for e = 0 (Madan and Seneta 1990). A sum has the product φ of its parts, and with the deviation
as the unit

    P[|X| ≤ x] = x/A + (2/π)·Σ_k φ(πk/A)·sin(πkx/A)/k,

the Fourier series of a distribution that is negligible beyond A. A normal error of 2 % of the deviation is added,
which makes the series short and errs outwards.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hubbub.numeric import portable
from hubbub.numeric.distributions import Distribution

Array = NDArray[np.float64]

WIDTH = 30.0  # A, in deviations
SMOOTHED = 0.02  # deviation of the normal error that is added
TERMS = 2400
FARTHEST = 15.0  # largest distance at which tails are computed, in deviations
STEP = 0.05  # distance of two such points
LEAST = 1e-7  # smallest tail that the series resolves
CELLS = 8  # cells of a distribution per deviation
NODES = 128  # sums whose quantiles are computed; those of others are interpolated


@dataclass(frozen=True, slots=True, eq=False)
class ErrorSums:
    """Sums of independent errors, a row for each sum: every part has a variance, a number of copies and an excess."""

    variances: Array
    """Of one copy; a row for each sum, a column for each part."""
    copies: Array
    """Number of equal independent copies, as the variances."""
    excesses: Array
    """Excess kurtosis of one copy of each part: 3 for Laplace noise, 0 for normal noise."""

    @property
    def variance(self) -> Array:
        """Variance of each sum."""
        return np.asarray((self.variances * self.copies).sum(axis=1))

    @property
    def excess(self) -> Array:
        """Excess kurtosis of each sum: Σ e·v²/(Σ v)²."""
        fourth = (self.variances**2 * self.copies * self.excesses).sum(axis=1)
        return np.asarray(fourth / np.maximum(self.variance**2, 1e-300))

    def rows(self, chosen: NDArray[np.int64]) -> "ErrorSums":
        """Return some of the sums."""
        return ErrorSums(self.variances[chosen], self.copies[chosen], self.excesses)

    def reach(self, miss: float) -> Array:
        """Return the distance from 0 that each sum exceeds with probability ``miss``.

        >>> laplace = ErrorSums(np.array([[2.0]]), np.array([[1.0]]), np.array([3.0]))
        >>> laplace.reach(0.05).round(2).item(), round(math.log(20), 2)
        (3.0, 3.0)
        """
        deviation, excess = np.sqrt(self.variance), self.excess
        if not np.any(excess > 0):
            return np.asarray(-float(ndtri(miss / 2)) * deviation)
        if excess.size <= NODES:
            return np.asarray(deviation * _quantiles(self, miss))
        order = np.argsort(excess, kind="stable")
        nodes = np.unique(order[np.linspace(0, order.size - 1, NODES).round().astype(np.int64)])
        nodes = nodes[np.argsort(excess[nodes], kind="stable")]
        factors = np.maximum.accumulate(_quantiles(self.rows(nodes), miss))
        return np.asarray(deviation * np.interp(excess, excess[nodes], factors))

    def distribution(self) -> tuple[Distribution, float]:
        """Return the first sum in cells, and the cells per unit.

        >>> cells, gain = ErrorSums(np.array([[4.0]]), np.array([[1.0]]), np.array([0.0])).distribution()
        >>> gain, round(float(cells.pmf @ np.arange(cells.low, cells.high + 1.0) ** 2) / gain**2, 1)
        (4.0, 4.0)
        """
        deviation = math.sqrt(float(self.variance[0]))
        first = self.variances[0], self.copies[0], self.excesses
        return _cells(*(part.tobytes() for part in first)), CELLS / deviation


def _inside(sums: ErrorSums, sines: Array) -> Array:
    """Return P[|X| ≤ x] of every sum at the points of the sines, in deviations."""
    theta = math.pi / WIDTH * np.arange(1, TERMS + 1)
    scaled = sums.variances / np.maximum(sums.variance, 1e-300)[:, None]
    logs = np.broadcast_to(-((SMOOTHED * theta) ** 2) / 2, (scaled.shape[0], TERMS)).copy()
    half = theta * theta / 2
    for part, excess in enumerate(sums.excesses.tolist()):
        v, times = scaled[:, part, None], sums.copies[:, part, None]
        logs -= times * (v * half if excess <= 0 else 3 / excess * portable.log1p(excess / 3 * v * half))
    points, waves = sines[0], sines[1:]
    return np.asarray(points / WIDTH + portable.dot(portable.exp(logs), waves))


@functools.lru_cache(4)
def _sines(points: tuple[float, ...]) -> Array:
    """Return the points, and below them the terms 2·sin(πkx/A)/(πk)."""
    x, k = np.array(points), np.arange(1, TERMS + 1)
    waves = 2 / math.pi * portable.sin(math.pi / WIDTH * np.multiply.outer(k, x)) / k[:, None]
    return np.vstack([x, waves])


@functools.lru_cache(64)
def _cells(variances: bytes, copies: bytes, excesses: bytes) -> Distribution:
    sums = ErrorSums(np.frombuffer(variances)[None], np.frombuffer(copies)[None], np.frombuffer(excesses))
    edges = (np.arange(int(FARTHEST * CELLS)) + 0.5) / CELLS
    inside = _inside(sums, _sines(tuple(edges.tolist())))[0]
    upper = np.maximum(np.diff(np.maximum.accumulate(np.minimum(np.r_[0.0, inside], 1.0))), 0.0)
    half = upper[1:] / 2
    pmf = np.r_[half[::-1], upper[0], half]
    return Distribution(-half.size, pmf / pmf.sum())


def _quantiles(sums: ErrorSums, miss: float) -> Array:
    """Return the distances, in deviations, that are exceeded with probability ``miss``."""
    rows = sums.variances.shape[0]
    return _cached(*(part.tobytes() for part in (sums.variances, sums.copies, sums.excesses)), rows, miss)


@functools.lru_cache(256)
def _cached(variances: bytes, copies: bytes, excesses: bytes, rows: int, miss: float) -> Array:
    first, second = (np.frombuffer(part).reshape(rows, -1) for part in (variances, copies))
    sums = ErrorSums(first, second, np.frombuffer(excesses))
    points = np.arange(0, FARTHEST + STEP / 2, STEP)
    tails = np.minimum.accumulate(1 - _inside(sums, _sines(tuple(points.tolist()))), axis=1)
    found = np.empty(rows)
    for row, tail in enumerate(tails):
        last = max(int(np.searchsorted(-tail, -LEAST)), 2)
        logs = portable.log(tail[:last])
        if miss >= tail[last - 1]:
            found[row] = np.interp(-math.log(miss), -logs, points[:last])
        else:  # sums of Laplace errors have log-concave tails: the straight line errs outwards
            slope = (logs[-1] - logs[-9]) / (8 * STEP) if last > 9 else -1.0
            found[row] = points[last - 1] + (math.log(miss) - logs[-1]) / slope
    found.setflags(write=False)
    return found
