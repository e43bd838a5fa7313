"""Split bits: the analyzer sees how many messages name each position, but not which of them one user sent.

Two records differ in at most h positions, whose counts are independent single-bit collections
(:mod:`hubbub.accountant.theorems.bit`). The guarantee is the h-fold composition of one convex curve above those of all
single-bit collections: the maximum over a *fixed* finite set of crowds. It is nearly tight: if all others hold x, and
x' shares no bit with x, every position is a homogeneous crowd in its worse order; :func:`attack` composes those.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from hubbub.accountant.attained import Attained, repeated
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import bit
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial, binomial_pmf
from hubbub.numeric.inversion import falling_root
from hubbub.numeric.rounding import up

TAIL = math.log(1e-28)  # logarithm of the mass of one position's curve that counts as an infinite loss
CUT_FAINT = math.log(1e-9)  # the same relative to a given δ down to which the curve is precise
POSITIONS = 2048  # positions that an attack uses at most; with fewer it is weaker, but still an attack
CUT = 55.0  # outcomes of a crowd beyond e^−55 are not part of an attack
GRAIN = 16  # grid points per standard deviation of one position's loss
TOLERANCE = 0.005  # relative excess in δ of a block of crowds, at this grain or a finer one
POINTS = 7.5  # grid points of one position's loss at least, times the grain
BEND = 3e-4  # relative height of a chord above the curve up to which grid points are skipped
TOGETHER = 24  # grid points that are evaluated together
PROBES = (0.0, 0.15, 0.3, 0.45, 0.6, 0.8)  # shares of the largest ε of a curve at which crowds are told apart
LONGEST = 300.0  # difference in ε that a chord spans at most


def spread(n: int, q: float, k: int, singles: int = 0, fair: int = 0) -> float:
    """Return about the standard deviation of one position's loss.

    >>> round(spread(5000, 0.1964, 1), 4)
    0.0216
    """
    noise = (max(n - 1, 1) + singles / k) * q * (1 - q) + fair / (4 * k)
    return math.sqrt(k / noise) * (1 - 2 * q)


def homogeneous_delta(n: int, q: float, k: int, epsilon: float) -> float:
    """Return δ(ε) of one position if all others have the same bit: a guide for searches, not a bound.

    >>> round(homogeneous_delta(5000, 0.1964, 1, 0.0793) * 1e6, 1)
    1.0
    """
    others, none = np.array([n - 1.0]), np.zeros(1)
    return math.exp(min(float(bit.log_delta(others, none, q, epsilon, k)[0]), 0.0))


def sampled(
    log_delta: Callable[[int], float], size: int, step: float, *, bend: float = BEND, faint: float = 0.0
) -> list[float]:
    """Return upper bounds on δ at the nodes 0 to ``size`` of a grid of ε, evaluating few of them where δ falls slowly.

    δ is convex in e^ε, so the chord between two nodes lies above those in between, by about an eighth of its width
    times the difference between its slope and that of the last chord. Chords are shortened where this is more than the
    share ``bend`` of δ; of the larger ``faint``, where δ is below that.

    >>> exact = [math.exp(-2 - i / 50) for i in range(101)]
    >>> bounds = sampled(lambda i: -2 - i / 50, 100, 0.02)
    >>> 1 <= min(u / v for u, v in zip(bounds, exact)) <= max(u / v for u, v in zip(bounds, exact)) < 1.002
    True
    """

    @cache
    def delta(i: int) -> float:
        return up(math.exp(min(0.0, log_delta(i))), 1e-12)

    curve, stride, longest = [delta(0)], 1, max(1, int(LONGEST / step))
    before: float | None = None  # slope of the last chord, for e^ε in units of its value at the last node
    while len(curve) <= size:
        stride = min(stride, longest, size + 1 - len(curve))
        start, end, width = curve[-1], delta(len(curve) - 1 + stride), math.expm1(step * stride)
        slope = (end - start) / width
        scale = 4 * (start + end) + 8 * faint
        height = bend / 2 if before is None or scale == 0.0 else (slope - before) * width / scale
        if height > 4 * bend and stride > 1:
            stride //= 2
            continue
        parts = portable.expm1(step * np.arange(1, stride)) / width
        curve += [up(value, 1e-12) for value in (start + (end - start) * parts).tolist()] + [end]
        before = slope * (1 + width)
        if height > bend:
            stride = max(stride // 2, 1)
        elif height < bend / 8:
            stride *= 2
    return curve


@dataclass(frozen=True, slots=True)
class Resolution:
    """The precision with which a cover follows the curve of one position: any is certified."""

    grain: int = GRAIN
    """Grid points per standard deviation."""
    tolerance: float = TOLERANCE
    bend: float = BEND
    together: int = TOGETHER
    probes: tuple[float, ...] = PROBES


FINE = Resolution()
PRELIMINARY = Resolution(5, 0.08, 3e-3, 128, (0.0, 0.2))
"""About one percent more in ε, at a quarter of the cost."""


@lru_cache(maxsize=256)
def cover(
    n: int, q: float, k: int = 1, at: Resolution = FINE, *, singles: int = 0, fair: int = 0, faint: float = 0.0
) -> Loss:
    """Return a loss that covers one position in every collection of n people who send k copies, in both orders.

    ``fair`` fakes are uniform bits in each position, independent of all others; ``singles`` are fakes of unknown bits.
    The curve is precise down to δ = ``faint``, at the given resolution. Errs upwards.

    >>> round(cover(5000, 0.1964).epsilon(1e-6), 3)  # exactly .0793
    0.079
    """
    pure = bit.pure_epsilon(q, k)
    others = np.array([n - 1 + singles / k])
    none = np.zeros(1)

    cut = math.log(faint) + CUT_FAINT if faint else TAIL

    def homogeneous(epsilon: float) -> float:
        return float(bit.log_delta(others, none, q, epsilon, k, fair=fair)[0]) - cut

    deviation = spread(n, q, k, singles, fair)
    top = min(falling_root(homogeneous, min(8 * deviation, pure / 2), pure, relative=0.02)[1], pure)
    step = min(deviation / at.grain, top / (POINTS * at.grain))
    size = math.ceil(top / step)
    bounded = top == pure
    if bounded:  # the last node is the pure ε, so that no composition has a larger loss than all positions together
        step = pure / size
    probes = top * np.array(at.probes)
    ones, zeros = bit.partition(n, q, probes, k, singles=singles, fair=fair, tolerance=at.tolerance)

    @cache
    def together(first: int) -> list[float]:
        """Return ln δ at the nodes from ``first`` on: many of them cost little more than one."""
        epsilons = step * np.arange(first, min(first + at.together, size + 1), dtype=np.float64)
        return [float(value) for value in bit.largest_log_delta(ones, zeros, q, epsilons, k, fair=fair)]

    curve = sampled(lambda i: together(i - i % at.together)[i % at.together], size, step, bend=at.bend, faint=faint)
    if bounded:
        curve[-1] = 0.0  # the pure ε is rounded up by more than the product of step and size is rounded down
    return Loss.from_envelope(curve, step)


@lru_cache(maxsize=64)
def positions(n: int, q: float, k: int, count: int, at: Resolution = FINE, *, singles: int = 0, fair: int = 0) -> Loss:
    """Return a loss that covers any change of ``count`` positions of one record among n and fakes; errs upwards.

    Fakes that are uniform over all bit vectors are ``fair`` and independent in every position. The bits of other fakes
    depend on each other, but given the fake records all flips are independent: ``singles`` covers every fake record.

    >>> round(positions(5000, 0.1964, 1, 2).epsilon(1e-6), 3)
    0.114
    """
    return cover(n, q, k, at, singles=singles, fair=fair).power(count)


@lru_cache(maxsize=64)
def attack(n: int, q: float, k: int, count: int) -> Attained:
    """Return the loss of ``count`` homogeneous positions in their worse order; errs downwards, so it is an attack.

    >>> attack(5000, 0.1964, 1, 2).epsilon(1e-6) <= positions(5000, 0.1964, 1, 2).epsilon(1e-6)
    True
    """
    crowd = binomial(k * (n - 1), 1 - q, tail=CUT)
    count = min(count, POSITIONS)
    first, second = (portable.convolve(crowd.pmf, binomial_pmf(k, probability)) for probability in (1 - q, q))
    # The second distribution may have what the window lacks; outcomes of less mass than that show nothing.
    lacking = 0.0 if crowd.pmf.size == k * (n - 1) + 1 else 4 * math.exp(-CUT)
    return repeated(np.where(first > lacking, first, 0.0), second + lacking, count)
