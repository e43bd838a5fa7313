"""Split bits: the analyzer sees how many messages name each position, but not which of them one user sent.

Two records differ in at most h positions, whose counts are independent single-bit collections
(:mod:`hubbub.accountant.theorems.bit`). The guarantee is the h-fold composition of one convex curve above those of all
single-bit collections: the maximum over a *fixed* finite set of crowds. It is nearly tight: if all others hold x, and
x' shares no bit with x, every position is a homogeneous crowd in its worse order; :func:`attack` composes those.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import bit
from hubbub.numeric.binomial import binomial, binomial_pmf
from hubbub.numeric.inversion import falling_root

TAIL = math.log(1e-17)  # logarithm of the mass of one position's curve that counts as an infinite loss
CYCLE = 2**21  # steps that all values of a sum may span
POSITIONS = 512  # positions that an attack uses at most; with fewer it is weaker, but still an attack
GRAIN = 16  # grid points per standard deviation of one position's loss


def _spread(n: int, q: float, k: int, singles: int, fair: int) -> float:
    """Return about the standard deviation of one position's loss."""
    noise = (max(n - 1, 1) + singles / k) * q * (1 - q) + fair / (4 * k)
    return math.sqrt(k / noise) * (1 - 2 * q)


@lru_cache(maxsize=64)
def cover(n: int, q: float, k: int = 1, grain: int = GRAIN, *, singles: int = 0, fair: int = 0) -> Loss:
    """Return a loss that covers one position in every collection of n people who send k copies, in both orders.

    ``fair`` fakes are uniform bits in each position, independent of all others; ``singles`` are fakes of unknown bits.
    Errs upwards.

    >>> round(cover(5000, 0.1964).epsilon(1e-6), 3)  # exactly .0793
    0.079
    """
    pure = bit.pure_epsilon(q, k)
    others = np.array([n - 1 + singles / k])
    none = np.zeros(1)

    def homogeneous(epsilon: float) -> float:
        return float(bit.log_delta(others, none, q, epsilon, k, fair=fair)[0]) - TAIL

    spread = _spread(n, q, k, singles, fair)
    top = min(falling_root(homogeneous, min(8 * spread, pure / 2), pure, relative=0.02)[1], pure)
    step = min(spread / grain, top / 40)
    size = math.ceil(top / step)
    probes = top * np.array([0.0, 0.15, 0.3, 0.45, 0.6, 0.8])
    ones, zeros = bit.partition(n, q, probes, k, singles=singles, fair=fair, tolerance=0.005)
    logs = [float(bit.log_delta(ones, zeros, q, step * i, k, fair=fair).max()) for i in range(size + 1)]
    curve = [math.exp(min(0.0, value)) for value in logs]
    return Loss.from_envelope(curve, step)


@lru_cache(maxsize=64)
def positions(n: int, q: float, k: int, count: int, *, singles: int = 0, fair: int = 0) -> Loss:
    """Return a loss that covers any change of ``count`` positions of one record among n and fakes; errs upwards.

    Fakes that are uniform over all bit vectors are ``fair`` and independent in every position. The bits of other fakes
    depend on each other, but given the fake records all flips are independent: ``singles`` covers every fake record.

    >>> round(positions(5000, 0.1964, 1, 2).epsilon(1e-6), 3)
    0.114
    """
    return cover(n, q, k, singles=singles, fair=fair).power(count)


@lru_cache(maxsize=64)
def attack(n: int, q: float, k: int, count: int) -> Loss:
    """Return the loss of ``count`` homogeneous positions in their worse order; errs downwards, so it is an attack.

    >>> attack(5000, 0.1964, 1, 2).epsilon(1e-6) <= positions(5000, 0.1964, 1, 2).epsilon(1e-6)
    True
    """
    crowd = binomial(k * (n - 1), 1 - q)
    count = min(count, POSITIONS)
    first, second = (np.convolve(crowd.pmf, binomial_pmf(k, probability)) for probability in (1 - q, q))
    return repeated(first, second, count)


def repeated(first: NDArray[np.float64], second: NDArray[np.float64], count: int) -> Loss:
    """Return the loss of ``count`` copies of a pair of distributions; errs downwards, so it is an attack.

    Losses are rounded down on a fine grid. One Fourier transform suffices, because nothing needs certifying: its noise
    is subtracted from every entry. Its cycle spans 20 standard deviations on both sides of the mean if hardly any mass
    lies beyond (Chernoff), and all values of the sum otherwise, so that no low loss wraps around to a high one.

    >>> repeated(np.array([0.75, 0.25]), np.array([0.25, 0.75]), 1).delta(0.0) <= 0.5
    True
    """
    finite = (first > 1e-22) & (second > 0)
    certain = float(first[(first > 1e-22) & (second == 0)].sum())  # outcomes that reveal the record
    mass, losses = first[finite], np.log(first[finite]) - np.log(second[finite])
    share = float(mass.sum())
    if share == 0.0:
        return Loss(step=1.0, first=0, masses=np.zeros(1), infinite=min(certain, 1.0))
    mean = float(mass @ losses) / share
    spread = math.sqrt(float(mass @ (losses - mean) ** 2) / share)
    step = max(spread / (100 * math.sqrt(count)), float(np.ptp(losses)) / 2**20, 1e-12)
    window = 20 * math.sqrt(count) * spread
    if _beyond(losses - mean, mass / share, count, window) > math.log(1e-18):
        step = max(step, count * float(np.ptp(losses)) / CYCLE)
        window = count * float(np.ptp(losses)) + step
    nodes = np.floor(losses / step).astype(np.int64)
    low, high = int(nodes.min()), int(nodes.max())
    size = 1 << math.ceil(math.log2(high - low + 2 + 2 * window / step))
    row = np.bincount(nodes - low, mass, size)
    noise = 1e-17 + 16 * 2.0**-53 * count * math.sqrt(float((row * row).sum()) / size)
    total = np.fft.irfft(np.fft.rfft(row) ** count, size) - noise
    offset = round(count * (mean / step - low)) - size // 2
    if size > count * (high - low):  # the cycle spans all values, so none must be cut off below
        offset = min(offset, 0)
    start = count * low + offset  # unroll the cycle around the mean
    masses = np.maximum(np.roll(total, count * low - start), 0.0)
    masses[np.arange(start, start + size) > count * high] = 0.0
    return Loss(
        step=step, first=start, masses=masses, infinite=-math.expm1(count * math.log1p(-min(certain, 1 - 1e-16)))
    )


def _beyond(centred: NDArray[np.float64], pmf: NDArray[np.float64], count: int, window: float) -> float:
    """Return a bound on ln P[|X_1 + … + X_count| > window] for centred X."""
    scale = float(np.abs(centred).max())
    if scale == 0.0:
        return -math.inf
    bounds = []
    for side in (centred, -centred):
        tilts = np.geomspace(1e-4, 600.0, 60) / scale
        logs = np.log((pmf * np.exp(np.outer(tilts, side))).sum(axis=1))
        bounds.append(float((count * logs - tilts * window).min()))
    return max(bounds) + math.log(2)
