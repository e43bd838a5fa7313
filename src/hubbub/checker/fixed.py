"""Fixed-point arithmetic with outward rounding: exponentials, discrete distributions and convolutions of integers.

A real number x is held as an integer, x·2^bits rounded towards the safe side. No floating-point number occurs in this
package: a claim is confirmed by comparing integers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact, Rounded
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact, Rounded])
LONG = 200
"""From this length of both lists on, a product in decimal is the faster one."""
GUARD = 24
"""Bits of a weight beyond those of the probabilities; with fewer, the slack is larger."""


def ceil_div(a: int, b: int) -> int:
    """Return ⌈a/b⌉ for b > 0.

    >>> ceil_div(7, 2), ceil_div(-7, 2)
    (4, -3)
    """
    return -(-a // b)


def ceil_shift(a: int, bits: int) -> int:
    """Return ⌈a/2^bits⌉.

    >>> ceil_shift(9, 3)
    2
    """
    return -(-a >> bits)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers with low ≤ e^x·2^bits ≤ high, which differ by a relative 2^−bits or by one unit.

    Taylor's series of e^y for ``y = |x|/2^r ≤ 2^−8``, every term rounded down or up, then r squarings; each squaring
    doubles the relative error, which the r + 64 guard bits absorb. The remainder after a term t is below 2t.

    >>> low, high = exp_bounds(Fraction(1), 100)
    >>> low <= 3445831591435597602840181573641 <= high, high - low      # e·2^100
    (True, 1)
    """
    size = abs(x)
    halvings = max(0, int(size).bit_length() + 8)
    work = bits + halvings + 64
    below = (size.numerator << work) // (size.denominator << halvings)
    low = high = low_term = high_term = 1 << work
    k = 0
    while low_term:
        k += 1
        low_term = (low_term * below >> work) // k
        high_term = ceil_div(ceil_shift(high_term * (below + 1), work), k)
        low, high = low + low_term, high + high_term
    high += 2 * high_term
    for _ in range(halvings):
        low, high = low * low >> work, ceil_shift(high * high, work)
    if x < 0:
        low, high = (1 << 2 * work) // high, ceil_div(1 << 2 * work, low)
    return low >> work - bits, ceil_shift(high, work - bits)


@lru_cache(maxsize=1024)
def log_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers with low ≤ ln(x)·2^bits ≤ high for x ≥ 1, which differ by a few units.

    ln x = k·ln 2 + 2·artanh((y − 1)/(y + 1)) with y = x/2^k in [1, 2), and ln 2 = 2·artanh(1/3). The terms of the
    series, z^(2i+1)/(2i+1) with z ≤ 1/3, fall by a factor of 9 at least, so that the rest is below the last term.

    >>> low, high = log_bounds(Fraction(10), 60)
    >>> low <= 2654699869899991813 <= high, high - low < 16      # ln(10)·2^60
    (True, True)
    """
    halvings = (x.numerator // x.denominator).bit_length() - 1
    work = bits + halvings.bit_length() + 16
    low, high = _artanh(Fraction(1, 3), work)
    rest = x / (1 << halvings)
    rest_low, rest_high = _artanh((rest - 1) / (rest + 1), work)
    shift = work - bits - 1
    return halvings * low + rest_low >> shift, ceil_shift(halvings * high + rest_high, shift)


def _artanh(z: Fraction, bits: int) -> tuple[int, int]:
    """Return bounds of artanh(z)·2^bits for 0 ≤ z ≤ 1/3."""
    below = (z.numerator << bits) // z.denominator
    low_power, high_power = below, below + 1
    low = high = 0
    k = 1
    while low_power:
        low, high = low + low_power // k, high + ceil_div(high_power, k)
        low_power = low_power * below * below >> 2 * bits
        high_power = ceil_shift(high_power * (below + 1) * (below + 1), 2 * bits)
        k += 2
    return low, high + 2 * high_power


@dataclass(frozen=True, slots=True)
class Masses:
    """A distribution on whole numbers: P(first + i)·2^bits lies in [low[i], low[i] + slack].

    All the mass outside the list is at most ``slack`` units, too.
    """

    first: int
    low: Sequence[int]
    slack: int
    bits: int

    def tails(self) -> list[int]:
        """Return the sums of ``low`` from each entry to the end, and a final 0."""
        return [0, *accumulate(reversed(self.low))][::-1]

    def plus(self, other: "Masses") -> "Masses":
        """Return the distribution of the sum of this and another independent variable.

        A product of two entries is too small by at most one's slack times the other's probability, and a pair with a
        value outside its list has at most the slack of that list: 2·(both slacks) in all, and a unit of rounding.
        """
        low = [mass >> self.bits for mass in convolve(self.low, other.low)]
        return Masses(self.first + other.first, low, 2 * (self.slack + other.slack) + 1, self.bits)


@lru_cache(maxsize=256)
def binomial(n: int, chance: Fraction, bits: int) -> Masses:
    """Return Bin(n, chance).

    >>> half = binomial(2, Fraction(1, 2), 40)
    >>> [round(4 * mass / 2**40, 6) for mass in half.low]
    [1.0, 2.0, 1.0]
    """
    if chance in (0, 1) or n == 0:
        return Masses(n if chance == 1 else 0, (1 << bits,), 0, bits)
    a, b = chance.numerator, chance.denominator
    return _from_ratios(n * a, a, b - a, min(n, (n + 1) * a // b), n, bits)


def poisson(mean: Fraction, bits: int) -> Masses:
    """Return Poisson(mean).

    >>> poisson(Fraction(1), 40).low[0] * 2718281828 // 2**40
    999999999
    """
    return _from_ratios(mean.numerator, 0, mean.denominator, int(mean), None, bits)


def _from_ratios(a: int, b: int, c: int, mode: int, last: int | None, bits: int) -> Masses:
    """Return the distribution with P(s+1)/P(s) = (a − b·s)/((s+1)·c), by ratios from its mode outwards.

    The weight of the mode is 1. Away from it every ratio is at most 1, so that the rounding errors of one unit per
    step add up to at most the number of steps. The ratios fall, so that beyond the last weight w kept, at a ratio R,
    lies at most w·R/(1 − R). Dividing by the sum of all weights gives probabilities without any factorial.
    """
    work = bits + GUARD
    weight, s, rise = 1 << work, mode, []
    while (last is None or s < last) and weight > 64:
        weight = weight * (a - b * s) // ((s + 1) * c)
        s += 1
        rise.append(weight)
    beyond = 0 if s == last else (weight + len(rise)) * (a - b * s) // ((s + 1) * c - a + b * s) + 1
    weight, s, fall = 1 << work, mode, []
    while s > 0 and weight > 64:
        weight = weight * (s * c) // (a - b * (s - 1))
        s -= 1
        fall.append(weight)
    if s > 0:
        beyond += (weight + len(fall)) * (s * c) // (a - b * (s - 1) - s * c) + 1
    weights = [*reversed(fall), 1 << work, *rise]
    steps = max(len(rise), len(fall))
    total = sum(weights)
    excess = steps * len(weights) + beyond
    scale = (1 << bits + work) // (total + excess)
    slack = 4 + ceil_div(steps + excess << bits, total)
    return Masses(s, [weight * scale >> work for weight in weights], slack, bits)


def window(row: Sequence[int], negligible: int) -> range:
    """Return the places without the ends, of which each has at most a negligible mass."""
    start, end, moved = 0, len(row), 0
    while start < end - 1 and moved + row[start] <= negligible:
        moved += row[start]
        start += 1
    moved = 0
    while end - 1 > start and moved + row[end - 1] <= negligible:
        moved += row[end - 1]
        end -= 1
    return range(start, end)


def convolve(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """Return the exact convolution of two lists of non-negative integers, by one product of two long integers.

    Kronecker's substitution: the entries are the digits of a number in a base that no sum of products reaches. Products
    of two long numbers are fastest in decimal, which has a number-theoretic transform; one that is rounded would raise.

    >>> convolve([1, 2], [3, 4])
    [3, 10, 8]
    """
    count, short = len(a) + len(b) - 1, min(len(a), len(b))
    largest = max(max(a) * max(b) * short, *a, *b)
    if short < LONG:
        width = (largest.bit_length() + 7) // 8 or 1
        left, right = (int.from_bytes(b"".join([e.to_bytes(width, "little") for e in row]), "little") for row in (a, b))
        data = (left * right).to_bytes(width * count, "little")
        return [int.from_bytes(data[i : i + width], "little") for i in range(0, width * count, width)]
    width = len(str(largest))
    one = _decimal(a, width)
    digits = format(EXACT.multiply(one, one if a is b else _decimal(b, width)), "f").zfill(width * count)
    return [int(digits[end - width : end]) for end in range(width * count, 0, -width)]


def _decimal(row: Sequence[int], width: int) -> Decimal:
    return EXACT.create_decimal("".join([f"{entry:0{width}d}" for entry in reversed(row)]))
