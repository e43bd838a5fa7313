"""Exact samplers of whole numbers in whole numbers: discrete Laplace and Gaussian laws, Poisson numbers.

After Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", Algorithms 1–3: no float
is involved after a scale has been read as the fraction that it is. Only the standard library is needed.
"""

import math
import os
from collections.abc import Callable
from fractions import Fraction

from hubbub.bits.device import coins, uniform
from hubbub.errors import EntropyFailure

_GRID = 48
_PRECISION = 128
_CHUNK = 4096

Source = Callable[[int], bytes]


class Buffered:
    """A source that asks another one for 4 KiB at a time, because exact samplers ask for single bytes.

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
            wanted = max(size, _CHUNK)
            # What is left of the old bytes is dropped: they are as random as new ones.
            self._data, self._used = self._entropy(wanted), 0
            if len(self._data) != wanted:
                raise EntropyFailure(f"entropy must give {wanted} bytes, got {len(self._data)} bytes")
        start, self._used = self._used, self._used + size
        return self._data[start : self._used]


def bernoulli_exp(gamma: Fraction, *, entropy: Source = os.urandom) -> bool:
    """True with probability exactly e^−γ, γ ≥ 0 (Algorithm 1).

    >>> bernoulli_exp(Fraction(0))
    True
    """
    return _exp(gamma.numerator, gamma.denominator, entropy)


def _exp(numerator: int, denominator: int, entropy: Source) -> bool:
    while numerator > denominator:
        if not _exp(1, 1, entropy):
            return False
        numerator -= denominator
    trial = 1
    while uniform(denominator * trial, entropy=entropy) < numerator:
        trial += 1
    return trial % 2 == 1


def laplace(scale: Fraction, *, entropy: Source = os.urandom) -> int:
    """x with probability ∝ e^(−|x|/scale), exactly (Algorithm 2).

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
    """x with probability ∝ e^(−x²/(2·scale²)), exactly (Algorithm 3).

    >>> gaussian(Fraction(1, 1000))
    0
    """
    variance = scale * scale
    t = math.floor(scale) + 1
    while True:
        x = laplace(Fraction(t), entropy=entropy)
        if bernoulli_exp((abs(x) - variance / t) ** 2 / (2 * variance), entropy=entropy):
            return x


def poisson_edges() -> tuple[int, ...]:
    """⌊2¹²⁸·P[Poisson(1) ≤ k]⌋ for k = 0, 1, …, at most 2 units off, until it is 2¹²⁸ to a unit.

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
    """A Poisson number: ⌈rate⌉ numbers of rate 1 by inversion, each unit of them kept with probability rate/⌈rate⌉.

    Within 2⁻¹²⁰ of the law in total variation for each number of rate 1; the probability of keeping is rounded up to
    the grid of 2⁻⁴⁸, so that there is never less noise than was asked for.

    >>> poisson(1e-12, entropy=lambda size: bytes(size))
    0
    """
    whole = math.ceil(rate)
    total = 0
    for _ in range(whole):
        word = int.from_bytes(entropy(_PRECISION // 8), "little")
        total += sum(word >= edge for edge in _EDGES)
    keep = math.ceil(Fraction(rate) / whole * (1 << _GRID))
    return total if keep >= 1 << _GRID or not total else coins(total, keep, entropy=entropy).bit_count()


_EDGES = poisson_edges()
