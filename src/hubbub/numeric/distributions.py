"""A distribution on the integers, kept only where float64 can represent it."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hubbub.errors import OPEN_UNIT, check_real, check_whole, reject
from hubbub.numeric import portable

Array = npt.NDArray[np.float64]

UNDERFLOW = 745.2  # exp(−745.2) rounds to zero


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """The probabilities of low, low+1, …; every integer outside has a probability below the smallest float64.

    >>> coin = Distribution(0, np.array([0.25, 0.5, 0.25]))
    >>> coin.high, coin.cdf(1), coin.sf(1), coin.quantile(0.5)
    (2, 0.75, 0.25, 1)
    >>> (16 * coin.plus(coin).pmf).tolist()
    [1.0, 4.0, 6.0, 4.0, 1.0]
    """

    low: int
    pmf: Array

    def __post_init__(self) -> None:
        if self.pmf.ndim != 1 or not self.pmf.size:
            reject("pmf", "be a non-empty list")

    @property
    def high(self) -> int:
        """Largest integer that is kept."""
        return self.low + len(self.pmf) - 1

    @property
    def mean(self) -> float:
        """The mean of what is kept."""
        # A view of a reversed list may be summed in another order, and a result that is read again has none.
        return float(portable.dot(np.arange(self.low, self.high + 1), np.ascontiguousarray(self.pmf)))

    def cdf(self, s: int) -> float:
        """Return P[X ≤ s], summed over the lighter side, so that a small tail keeps its relative accuracy."""
        lower, upper = self._sides(s)
        return lower if lower <= upper else 1.0 - upper

    def sf(self, s: int) -> float:
        """Return P[X > s], summed over the lighter side, so that a small tail keeps its relative accuracy."""
        lower, upper = self._sides(s)
        return upper if upper <= lower else 1.0 - lower

    def quantile(self, alpha: float) -> int:
        """Return the smallest s with P[X ≤ s] ≥ α. [000 §6.6]"""
        alpha = check_real("alpha", alpha, OPEN_UNIT)
        if alpha <= 0.5:
            below = np.cumsum(self.pmf)
            return self.low + min(int(np.searchsorted(below, alpha, side="left")), len(self.pmf) - 1)
        above = np.cumsum(self.pmf[::-1])
        return self.high - int(np.searchsorted(above, 1.0 - alpha, side="right"))

    def flipped(self, n: int) -> "Distribution":
        """Return the distribution of n − X."""
        return Distribution(n - self.high, self.pmf[::-1])

    def plus(self, other: "Distribution") -> "Distribution":
        """Return the distribution of X + Y, Y independent; sums of products keep every tail relatively accurate."""
        return Distribution(self.low + other.low, portable.convolve(self.pmf, other.pmf))

    def _sides(self, s: int) -> tuple[float, float]:
        cut = min(max(check_whole("s", s, -(2**62)) - self.low + 1, 0), len(self.pmf))
        return float(self.pmf[:cut].sum()), float(self.pmf[cut:].sum())


def reach(distances: Array, probabilities: Array, miss: float) -> float:
    """Return the smallest of the distances that is exceeded with probability at most ``miss``. Exact.

    >>> reach(np.array([2.0, 1.0, 0.0, 1.0, 2.0]), np.array([0.02, 0.2, 0.56, 0.2, 0.02]), 0.05)
    1.0
    """
    order = np.argsort(distances, kind="stable")[::-1]
    beyond = int(np.searchsorted(probabilities[order].cumsum(), miss, side="right"))
    return float(distances[order[min(beyond, order.size - 1)]])


def support(mean: float, variance: float, n: int, *, tail: float = UNDERFLOW) -> tuple[int, int]:
    """Return an interval beyond which a sum of n independent coins has probability at most e^−tail on either side.

    By default that is below the smallest float64. mean ± (c/3 + √(c²/9 + 2cσ²)), c = tail, by Bernstein's inequality
    P[X − μ ≥ t] ≤ exp(−t²/(2σ² + 2t/3)). Errs outwards.

    >>> support(500_000.0, 250_000.0, 10**6)
    (480447, 519553)
    """
    third = tail / 3
    reach = third + math.sqrt(third * third + 2 * tail * variance)
    return max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))
