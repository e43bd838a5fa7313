"""Flipped bits among fakes drawn by the shuffler: one bound from both kinds of noise.

The analyzer sees, for each position, A + B + F: the flipped bits A of the n − 1 others, the flipped bit B of the
protected user, and the number F of fakes of that position, which are not flipped. All three are independent, and
different positions are independent given the records.

**One position.** Of the others, ``ones`` hold a 1. With C the distribution of A + F and p = 1 − q, the two collections
show p·C(s−1) + q·C(s) and q·C(s−1) + p·C(s). F is not symmetric, so both orders count.

*All collections.* Let i ≤ ones ≤ j. The others contain i ones and n − 1 − j zeros, and the bits of the rest are added
independently of B; adding an independent number is post-processing. So δ is at most that of a crowd of only i ones and
n − 1 − j zeros, with the same F, in each order. A *fixed* finite set of such blocks covers all collections, and the
pointwise maximum of their curves in both orders is convex in e^ε.

**Several positions** are independent, so the composition of this maximum covers every change of them
(:mod:`hubbub.accountant.theorems.split`), also given which of the user's bits differ.

*Never worse than either.* Revealing F leaves the flips alone, revealing A and whether B was flipped leaves the fakes
alone. Only where one kind of noise is much smaller than the other does the combination gain little.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.attained import Attained, together
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import bit
from hubbub.model.protocol import Fakes
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution

Floats = NDArray[np.float64]

ERROR = 1e-9  # above the relative error of the distribution of a crowd and of a sum of products
CUT = 1e-25  # mass on either side of a distribution that counts as an infinite loss
LACKING = 8 * CUT  # mass that a sum of three cut distributions lacks at most
WORK = 2 * 10**7  # products of one convolution up to which the bound is computed
SHARE = 16.0  # the bound is computed if the crowd's variance is at most this multiple of the fakes' variance,
WIDE = 4e4  # and at most this
FEWER = 10  # a crowd is larger than the part of it that the bound counts by no more than this factor
BLOCKS = 48  # crowds that cover all collections, at most
TOLERANCE = 0.02  # excess of a block's δ over that of a collection that is not refined
NODES = (160, 4000)  # grid points of one position's loss, at least and at most
GRAIN = 16  # grid points per standard deviation of one position's loss
TAIL = 1e-17  # δ of one position beyond which the rest counts as an infinite loss


def applies(n: int, q: float, fakes: Fakes) -> bool:
    """Return True if the combined bound is worth its time: the flips do not exceed the fakes by far.

    >>> applies(1000, 0.1, Fakes.laplace(2.0, 25)), applies(10**6, 0.1, Fakes.laplace(2.0, 25))
    (True, False)
    """
    variance = (n - 1) * q * (1 - q)
    counts = fakes.shift + 20 * fakes.scale
    return variance <= min(SHARE * fakes.variance, WIDE) and counts * (20 * math.sqrt(variance) + 60) <= WORK


def counted(n: int, q: float, fakes: Fakes) -> int:
    """Return the number of honest users on whom the combined bound rests: n, fewer if it does not apply to n, or 0.

    What holds for some of the honest users holds for all of them. It matters beyond the flips alone where the crowd is
    not much larger: near the pure ε, and far in the tails.

    >>> fakes = Fakes.laplace(2.0, 25)
    >>> counted(1000, 0.1, fakes), counted(2000, 0.1, fakes), counted(10**6, 0.1, fakes)
    (1000, 1393, 0)
    """
    if applies(n, q, fakes):
        return n
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if applies(middle, q, fakes) else (low, middle)
    return low if n <= FEWER * low else 0


@lru_cache(maxsize=64)
def positions(n: int, q: float, fakes: Fakes, count: int) -> Loss:
    """Return a loss that covers any change of ``count`` positions of one flipped record among n and the fakes.

    Errs upwards.

    >>> both = positions(100, 0.1, Fakes.laplace(2.0, 25), 2).delta(0.5)
    >>> both < 0.3 * min(positions(100, 0.1, Fakes.laplace(0.001, 25), 2).delta(0.5), 0.1)
    True
    """
    return cover(n, q, fakes).power(count)


@lru_cache(maxsize=64)
def cover(n: int, q: float, fakes: Fakes) -> Loss:
    """Return a loss that covers one position in every collection of n people, in both orders; errs upwards.

    >>> round(cover(1, 0.25, Fakes.laplace(0.001, 3)).delta(0.0), 6)      # next to no fakes: randomized response
    0.5
    """
    noise = _window(Distribution(0, fakes.pmf))
    pure = bit.pure_epsilon(q, 1)
    curves: dict[tuple[int, int], _Curve] = {}

    def curve(ones: int, zeros: int) -> _Curve:
        found = curves.get((ones, zeros))
        if found is None:
            found = curves[ones, zeros] = _Curve.of(ones, zeros, q, noise)
        return found

    others = n - 1
    ends = [curve(others, 0), curve(0, others)]
    top = min(max(one.reach(TAIL) for one in ends), pure)
    blocks = [(low, min(low + width - 1, others)) for width in [-(-n // 8)] for low in range(0, n, width)]
    for probe in (0.0, 0.25 * top, 0.5 * top, 0.75 * top):
        target = max(curve(ones, others - ones).at(probe) for block in blocks for ones in block)
        while len(blocks) < BLOCKS:
            coarse = [
                (low, high)
                for low, high in blocks
                if low < high and curve(low, others - high).at(probe) > (1 + TOLERANCE) * target
            ]
            if not coarse:
                break
            blocks = [block for block in blocks if block not in coarse]
            for low, high in coarse:
                middle = (low + high) // 2
                blocks += [(low, middle), (middle + 1, high)]
                target = max(target, curve(middle, others - middle).at(probe))
    top = min(max(curve(low, others - high).reach(TAIL) for low, high in blocks), pure)
    deviation = (1 - 2 * q) / math.sqrt(fakes.variance + others * q * (1 - q) + 1)
    size = min(max(math.ceil(GRAIN * top / deviation), NODES[0]), NODES[1])
    step = top / size
    nodes = step * np.arange(size + 1, dtype=np.float64)
    worst = np.max([curve(low, others - high).deltas(nodes) for low, high in blocks], axis=0)
    if top == pure:
        # The messages of one user alone give δ = 0 at the pure ε, which is rounded up by more than the last node down.
        worst[-1] = 0.0
    return Loss.from_envelope(worst, step)


def _window(whole: Distribution) -> Distribution:
    """Return the distribution without tails of mass at most ``CUT`` on either side."""
    below, above = np.cumsum(whole.pmf), np.cumsum(whole.pmf[::-1])[::-1]
    kept = np.flatnonzero((below > CUT) & (above > CUT))
    return Distribution(whole.low + int(kept[0]), whole.pmf[kept[0] : kept[-1] + 1])


def _neighbours(ones: int, zeros: int, q: float, noise: Distribution) -> tuple[Floats, Floats]:
    """Return the distributions of the count if the user's bit is 1 and if it is 0, without their far tails."""
    crowd = portable.convolve(_window(binomial(ones, 1 - q)).pmf, _window(binomial(zeros, q)).pmf)
    hidden = portable.convolve(crowd, noise.pmf)
    after, before = np.append(0.0, hidden), np.append(hidden, 0.0)
    return (1 - q) * after + q * before, q * after + (1 - q) * before


@lru_cache(maxsize=64)
def attack(n: int, q: float, fakes: Fakes, falls: int, rises: int) -> Attained:
    """Return the loss if all others hold the same record, and ``falls`` of its bits fall and ``rises`` others rise.

    Errs downwards, so it is an attack.

    >>> fakes = Fakes.laplace(2.0, 25)
    >>> 0.9 < attack(100, 0.1, fakes, 1, 1).delta(0.5) / positions(100, 0.1, fakes, 2).delta(0.5) <= 1
    True
    """
    noise = _window(Distribution(0, fakes.pmf))
    high, low = _neighbours(n - 1, 0, q, noise), _neighbours(0, n - 1, q, noise)
    pairs = ((high[0], high[1], falls), (low[1], low[0], rises))
    # The second distribution may have what the windows lack; outcomes of less mass than that show nothing.
    return together([(np.where(one > LACKING, one, 0.0), two + LACKING, count) for one, two, count in pairs])


class _Curve:
    """Upper bounds on δ(ε) of one crowd, the larger of both orders."""

    __slots__ = ("_tables",)

    def __init__(self, tables: list[tuple[Floats, Floats, Floats, float]]) -> None:
        self._tables = tables

    @classmethod
    def of(cls, ones: int, zeros: int, q: float, noise: Distribution) -> "_Curve":
        """Return the curve of a crowd of ones and zeros among noise."""
        one, zero = _neighbours(ones, zeros, q, noise)
        return cls([_table(one, zero), _table(zero, one)])

    def deltas(self, epsilons: Floats) -> Floats:
        """Return upper bounds on δ at each ε: the sum of P − e^ε·Q over all losses above ε.

        Losses within their own error of ε may be on the wrong side. They are included, and lower the sum by no more
        than a few errors of their mass, which are added.
        """
        found = []
        for losses, first, second, lacking in self._tables:
            start = np.searchsorted(losses, epsilons - 4 * ERROR)
            gained, lost = first[start], second[start]
            # (1 − ERROR) is a reserve: e^ε·lost is at most gained·(1 + 4·ERROR), and 16·ERROR cover all eight errors.
            found.append(
                np.maximum(gained * (1 + 16 * ERROR) - portable.exp(epsilons) * lost * (1 - ERROR), 0.0) + lacking
            )
        return np.asarray(np.minimum(np.maximum(*found), 1.0))

    def at(self, epsilon: float) -> float:
        """Return an upper bound on δ(ε)."""
        return float(self.deltas(np.array([epsilon]))[0])

    def reach(self, delta: float) -> float:
        """Return a loss beyond which δ is at most this, or the largest loss."""
        found = [self._first(table[0], delta) for table in self._tables]
        largest = max((float(table[0][-1]) for table in self._tables if table[0].size), default=0.0)
        return min(*found, largest) if largest > 0 else ERROR

    def _first(self, losses: Floats, delta: float) -> float:
        """Return the smallest of the positive losses, in increasing order, at which δ is at most this; ∞ if none is."""
        low, high = int(np.searchsorted(losses, 0.0, side="right")), losses.size
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.at(float(losses[middle])) <= delta else (middle + 1, high)
        return float(losses[low]) if low < losses.size else math.inf


def _table(one: Floats, two: Floats) -> tuple[Floats, Floats, Floats, float]:
    """Return the increasing losses, the masses of each and all larger ones under both, and the mass cut off."""
    losses = portable.log(one) - portable.log(two)
    order = np.argsort(losses, kind="stable")
    first, second = (np.append(np.cumsum(each[order][::-1])[::-1], 0.0) for each in (one, two))
    return losses[order], first, second, LACKING
