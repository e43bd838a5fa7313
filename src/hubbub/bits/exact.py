"""Exact samplers in integer arithmetic: the discrete Laplace and Gaussian distributions, and the Poisson distribution.

After Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", Algorithms 1–3: a scale is
converted to an exact fraction, and no float is involved after that. Only the standard library is needed.
"""

import math
import os
from collections.abc import Callable
from fractions import Fraction

from hubbub.bits.device import GRID_BITS, coins, take, uniform

_PRECISION = 128
_CHUNK = 4096

Source = Callable[[int], bytes]


class Buffered:
    """A source that reads another one 4 KiB at a time, because exact samplers draw single bytes.

    >>> source = Buffered(lambda size: bytes(range(256)) * (size // 256))
    >>> source(2) + source(2)
    b'\\x00\\x01\\x02\\x03'
    """

    __slots__ = ("_data", "_entropy", "_used")

    def __init__(self, entropy: Source) -> None:
        self._entropy, self._data, self._used = entropy, b"", 0

    def __call__(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        if self._used + size > len(self._data):
            # The remaining old bytes are dropped; new ones are just as random.
            self._data, self._used = take(self._entropy, max(size, _CHUNK)), 0
        start, self._used = self._used, self._used + size
        return self._data[start : self._used]


def _exp(numerator: int, denominator: int, entropy: Source) -> bool:
    """Return True with probability exactly e^−γ, γ = numerator/denominator ≥ 0 (Algorithm 1)."""
    while numerator > denominator:
        if not _exp(1, 1, entropy):
            return False
        numerator -= denominator
    trial = 1
    while uniform(denominator * trial, entropy=entropy) < numerator:
        trial += 1
    return trial % 2 == 1


def laplace(scale: Fraction, *, entropy: Source = os.urandom) -> int:
    """Return x with probability ∝ e^(−|x|/scale), exactly (Algorithm 2).

    >>> laplace(Fraction(1, 1000)) in range(-2, 3)
    True
    """
    t, s = scale.numerator, scale.denominator
    while True:
        low = uniform(t, entropy=entropy)
        if not _exp(low, t, entropy):
            continue
        high = 0
        while _exp(1, 1, entropy):
            high += 1
        size = (low + t * high) // s
        negative = uniform(2, entropy=entropy) == 1
        if not (negative and size == 0):
            return -size if negative else size


def gaussian(scale: Fraction, *, entropy: Source = os.urandom) -> int:
    """Return x with probability ∝ e^(−x²/(2·scale²)), exactly (Algorithm 3).

    >>> gaussian(Fraction(1, 1000))
    0
    """
    variance = scale * scale
    t = math.floor(scale) + 1
    while True:
        x = laplace(Fraction(t), entropy=entropy)
        gamma = (abs(x) - variance / t) ** 2 / (2 * variance)
        if _exp(gamma.numerator, gamma.denominator, entropy):
            return x


def poisson_edges() -> tuple[int, ...]:
    """Return ⌊2¹²⁸·P[Poisson(1) ≤ k]⌋ for k = 0, 1, …, at most 2 units off, until it is within a unit of 2¹²⁸.

    >>> [edge >> 120 for edge in poisson_edges()[:3]]
    [94, 188, 235]
    """
    guard = 64
    one = 1 << _PRECISION + guard
    inverse, term = 0, one
    for k in range(1, 60):
        inverse += term
        term = -term // k
    edges, total, term = [], 0, inverse
    for k in range(1, 60):
        total += term
        edges.append(total >> guard)
        term //= k
        if not term >> guard:
            break
    return tuple(edges)


def poisson(rate: float, *, entropy: Source = os.urandom) -> int:
    """Return a Poisson number: the sum of ⌈rate⌉ numbers of rate 1 by inversion, thinned with probability rate/⌈rate⌉.

    Each number of rate 1 is within 2⁻¹²⁰ of its distribution in total variation; the thinning probability is rounded up
    to the grid of 2⁻⁴⁸, so there is never less noise than requested.

    >>> poisson(1e-12, entropy=lambda size: bytes(size))
    0
    """
    whole = math.ceil(rate)
    total = 0
    for _ in range(whole):
        word = int.from_bytes(entropy(_PRECISION // 8), "little")
        total += sum(word >= edge for edge in _EDGES)
    keep = math.ceil(Fraction(rate) / whole * (1 << GRID_BITS))
    return total if keep >= 1 << GRID_BITS or not total else coins(total, keep, entropy=entropy).bit_count()


_EDGES = poisson_edges()
