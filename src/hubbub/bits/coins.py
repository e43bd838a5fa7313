"""Exact coins: many independent bits that are 1 with probability numerator/2⁴⁸, without floats or modulo bias.

Dense coins compare random words with the first ten binary digits of the probability, 64 lanes at a time, and leave the
remaining digits to sparse coins: their cost does not depend on the number of digits. Sparse coins jump from one set bit
to the next: their cost is proportional to the number of set bits.

Bits are packed little-endian: coin number i is bit i mod 8 (least significant first) of byte i div 8, as in
``numpy.packbits(..., bitorder="little")``. Unused bits of the last byte are 0.
"""

import functools
import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.device import GRID_BITS
from hubbub.bits.entropy import Entropy, draw, fill, system
from hubbub.errors import check_memory, check_whole

_DIGITS = 10
_WORDS = 1 << 18
_SPARSE = 1 << (GRID_BITS - 8)
_BLOCKS = 1 << 14
_SLACK = 1 << 64


def coins(count: int, numerator: int, *, entropy: Entropy = system) -> NDArray[np.uint8]:
    """Return ``count`` independent coins, packed, each 1 with probability exactly numerator/2⁴⁸.

    Probabilities below 1/256 use the algorithm of :func:`positions`, others bit slices. The time of the former reveals
    the number of ones, not their positions. Memory: the result and at most 9 MiB.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> mask = coins(8000, 2**46, entropy=SeededStreamNotForPeople(1))
    >>> mask.size, int(np.bitwise_count(mask).sum())
    (1000, 2048)
    """
    count = check_whole("count", count)
    numerator = check_whole("numerator", numerator, 0, (1 << GRID_BITS) - 1)
    check_memory(f"the mask of {count:,} coins", count // 8)
    mask = np.zeros(-(-count // 8), np.uint8)
    flip_bits(mask, numerator, entropy)
    if count % 8:
        mask[-1] &= (1 << count % 8) - 1
    return mask


def flip_bits(target: NDArray[np.uint8], numerator: int, entropy: Entropy) -> None:
    """Flip each bit of a contiguous one-dimensional array in place with probability numerator/2⁴⁸.

    The inner loop of :func:`coins` and of record flipping; does not check its arguments. With a the probability of the
    first ten digits, a bit is flipped by a dense coin of probability a or else by a sparse coin of probability
    b = (q − a)/(1 − a), because a + (1 − a)·b = q. For q > 1/2, all bits are flipped first, and then with probability
    1 − q. Memory: at most 9 MiB.

    >>> bits = np.zeros(3, np.uint8)
    >>> flip_bits(bits, 0, system)
    >>> bits.tolist()
    [0, 0, 0]
    """
    if numerator > 1 << (GRID_BITS - 1):
        np.invert(target, out=target)
        numerator = (1 << GRID_BITS) - numerator
    if numerator == 0 or not target.size:
        return
    if numerator < _SPARSE:
        step = _BLOCKS << (_exponent(numerator, 1 << GRID_BITS) - 3)
        for start in range(0, target.size, step):
            part = target[start : start + step]
            byte, bit = _split(_leaps(8 * part.size, numerator, 1 << GRID_BITS, entropy))
            # Positions are distinct: adding a clear bit or subtracting a set one flips it, by a fast loop of numpy.
            np.add.at(part, byte, bit - ((part[byte] & bit) << 1))
        return
    head, rest = divmod(numerator, 1 << (GRID_BITS - _DIGITS))
    zeros = (head & -head).bit_length() - 1
    digits = [head >> place & 1 for place in range(zeros, _DIGITS)]
    # One workspace for all blocks: fresh pages from the operating system would cost as much as the cipher. Rows are
    # long because threads that exchange the interpreter lock every few microseconds do not run in parallel.
    words = -(-target.size // 8)
    mask = np.empty(min(2 * _WORDS, words), np.uint64)
    space = np.empty(min(_WORDS, words), np.uint64)
    for start in range(0, target.size, mask.nbytes):
        part = target[start : start + mask.nbytes]
        ones = _slices(mask[: -(-part.size // 8)], space, digits, entropy).view(np.uint8)[: part.size]
        if rest:
            left = (1 << GRID_BITS) - (head << (GRID_BITS - _DIGITS))
            byte, bit = _split(_leaps(8 * part.size, rest, left, entropy))
            np.add.at(ones, byte, bit & ~ones[byte])
        part ^= ones


def _slices(
    mask: NDArray[np.uint64], space: NDArray[np.uint64], digits: list[int], entropy: Entropy
) -> NDArray[np.uint64]:
    """Overwrite ``mask`` with coins whose probability has the given binary digits, the last one, a 1, first.

    A coin is the event that a uniform binary fraction lies below the probability. From the last digit to the first,
    with r the complement of the random digit: below ← below | r where the probability has a one, below & r where it
    has a zero.
    """
    for start in range(0, mask.size, space.size):
        below = mask[start : start + space.size]
        row = space[: below.size]
        fill(entropy, below)
        for digit in digits[1:]:
            fill(entropy, row)
            combine = np.bitwise_or if digit else np.bitwise_and
            combine(below, row, out=below)
    return mask


def _split(where: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    return where >> 3, np.left_shift(np.uint8(1), (where & 7).astype(np.uint8))


def positions(count: int, numerator: int, *, entropy: Entropy = system) -> NDArray[np.int64]:
    """Return the positions of the ones among ``count`` coins of probability exactly numerator/2⁴⁸ < 1/2, in order.

    Same distribution as :func:`coins`; time and memory are proportional to the number of ones. Positions are divided
    into blocks of B = 2^j with 1/2 ≤ qB < 1. The number of ones in a block is Binomial(B, q), by inversion: a 64-bit
    word is compared with the distribution function, and an undecided word is extended by further bits until it is
    decided, so the distribution is exact. Positions within a block are uniform, redrawn if two coincide.
    Memory: 40 bytes per expected one, and 2 MiB.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> positions(10**9, 2**48 // 10**8, entropy=SeededStreamNotForPeople(1)).tolist()
    [293708119, 648837201, 713869616, 857688408, 923359577]
    """
    count = check_whole("count", count, 0, 2**62)
    numerator = check_whole("numerator", numerator, 0, (1 << GRID_BITS - 1) - 1)
    if numerator == 0:
        return np.empty(0, np.int64)
    check_memory(f"the ones among {count:,} coins", 40 * (count * numerator >> GRID_BITS))
    step = _BLOCKS << _exponent(numerator, 1 << GRID_BITS)
    parts = [
        start + _leaps(min(step, count - start), numerator, 1 << GRID_BITS, entropy) for start in range(0, count, step)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _exponent(numerator: int, denominator: int) -> int:
    """Return the largest j with numerator/denominator·2^j < 1, at least 1 for a probability below 1/2."""
    exponent = denominator.bit_length() - numerator.bit_length()
    return exponent if numerator << exponent < denominator else exponent - 1


def _leaps(count: int, numerator: int, denominator: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return the ones among ``count`` coins of probability numerator/denominator < 1/2; see :func:`positions`."""
    exponent = _exponent(numerator, denominator)
    owners = _owners(draw(entropy, -(-count >> exponent)), exponent, numerator, denominator, entropy)
    where = (owners << exponent) | _places(owners.size, exponent, entropy)
    where.sort()
    while (twice := where[1:] == where[:-1]).any():
        again = np.isin(where >> exponent, where[1:][twice] >> exponent)
        where[again] &= -1 << exponent
        where[again] |= _places(int(again.sum()), exponent, entropy)
        where.sort()
    return where[: np.searchsorted(where, count)]


def _places(size: int, exponent: int, entropy: Entropy) -> NDArray[np.int64]:
    kind = np.uint32 if exponent <= 32 else np.uint64
    return (draw(entropy, size, kind) >> kind(8 * kind().itemsize - exponent)).astype(np.int64)


def _owners(
    words: NDArray[np.uint64], exponent: int, numerator: int, denominator: int, entropy: Entropy
) -> NDArray[np.int64]:
    """Return each block's index once per one in it, decided by one random word per block."""
    parts = []
    alive = np.arange(words.size)
    for level, edge in enumerate(_edges(exponent, numerator, denominator)):
        if not alive.size:
            break
        drawn = words[alive]
        # The difference is unsigned: a word below the edge wraps around to a large value.
        unsure = drawn - edge <= 1
        for block in alive[unsure].tolist():
            ones = _refine(int(words[block]), exponent, numerator, denominator, entropy)
            parts.append(np.full(ones - level, block))
        alive = alive[(drawn >= edge) & ~unsure]
        parts.append(alive)
    return np.concatenate(parts) if parts else alive


@functools.lru_cache(64)
def _edges(exponent: int, numerator: int, denominator: int) -> NDArray[np.uint64]:
    """Return ⌊2⁶⁴·P[ones ≤ k]⌋, at most 1 too small, for k = 0, 1, … until it reaches 2⁶⁴ − 1."""
    edges = []
    for value in _distribution(exponent, numerator, denominator, 256):
        edges.append(min(value >> 192, 2**64 - 1))
        if edges[-1] == 2**64 - 1:
            break
    return np.array(edges, np.uint64)


def _refine(prefix: int, exponent: int, numerator: int, denominator: int, entropy: Entropy) -> int:
    """Return the number of ones in a block whose uniform binary fraction starts with the 64 bits of ``prefix``."""
    bits = 64
    while True:
        prefix, bits = prefix << 192 | int.from_bytes(draw(entropy, 24, np.uint8).tobytes()), bits + 192
        for ones, value in enumerate(_distribution(exponent, numerator, denominator, bits)):
            if prefix < value:
                return ones
            if prefix < value + _SLACK:
                break


def _distribution(exponent: int, numerator: int, denominator: int, bits: int) -> Iterator[int]:
    """Yield 2^bits·P[Binomial(2^exponent, numerator/denominator) ≤ k] for k = 0, 1, …, too small by less than 2⁶⁴.

    Integers only. Dividing and squaring 1 − q exponent times loses less than 2^(exponent+1) units, which grow to
    2^(exponent+3) in the sum because (1−q)^B ≥ 1/4; each term loses less than a unit to division, at most e² units in
    the sum, as the ratio of the terms k and k − 1 is at most 2/k. With exponent < 48 and fewer than 2⁵⁰ terms that is
    below 2⁶⁴.
    """
    miss = ((denominator - numerator) << bits) // denominator
    for _ in range(exponent):
        miss = miss * miss >> bits
    total, term = 0, miss
    for k in itertools.count():
        total += term
        yield total
        term = term * ((1 << exponent) - k) * numerator // ((k + 1) * (denominator - numerator))
