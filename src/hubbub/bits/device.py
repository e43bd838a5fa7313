"""Exact coins for a single record on a device, in Python integers, without numpy.

The distribution is that of the batch functions; only the standard library is needed. The layout is that of packed
records: a record is ⌈width/8⌉ bytes, and bit i is bit i mod 8, least significant first, of byte i div 8.
"""

import functools
import os
from collections.abc import Callable

from hubbub.errors import EntropyFailure, check_whole, reject

GRID_BITS = 48
"""Probabilities are integer multiples of 2^−GRID_BITS."""
_SLICES = 10


def take(entropy: Callable[[int], bytes], size: int) -> bytes:
    """Return ``size`` bytes of ``entropy``, which must not return fewer: missing noise is a silent privacy failure.

    >>> take(lambda size: b"", 16)
    Traceback (most recent call last):
    hubbub.errors.EntropyFailure: the entropy source returned 0 of 16 bytes
    """
    data: object = entropy(size)
    if not isinstance(data, bytes):
        raise EntropyFailure(f"the entropy source must return bytes, not {type(data).__name__}")
    if len(data) != size:
        raise EntropyFailure(f"the entropy source returned {len(data)} of {size} bytes")
    return data


def _take_number(entropy: Callable[[int], bytes], size: int) -> int:
    return int.from_bytes(take(entropy, size), "little")


def coins(width: int, numerator: int, *, entropy: Callable[[int], bytes] = os.urandom) -> int:
    """Return an integer whose bits 0 … width−1 are independent, each 1 with probability exactly numerator/2⁴⁸.

    Compares ``width`` random binary fractions with the probability, digit by digit, until all are decided: about
    2 + log₂ width digits, typically one call of ``entropy``. With r the complement of the random digit, an undecided
    bit becomes 1 if the digit of the probability and r are both 1, and stays undecided if they differ otherwise.
    Memory: 10 times the size of the record.

    >>> coins(40, 0), coins(3, 2**48 - 1, entropy=lambda size: b"\\xff" * size)
    (0, 7)
    """
    size, digits = _scheme(width, numerator)
    ones, undecided = 0, (1 << width) - 1
    for chunk in digits:
        noise = _take_number(entropy, size)
        for digit in chunk:
            if digit:
                new = undecided & noise
                ones |= new
                undecided ^= new
            else:
                undecided &= noise
            noise >>= width
        if not undecided:
            break
    return ones


@functools.lru_cache(64, typed=True)
def _scheme(width: int, numerator: int) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Return the bytes for one chunk of digits, and the digits of the probability up to its last 1, in chunks."""
    width = check_whole("width", width, 1)
    numerator = check_whole("numerator", numerator, 0, (1 << GRID_BITS) - 1)
    digits = tuple(map(int, f"{numerator:0{GRID_BITS}b}".rstrip("0")))
    chunks = tuple(digits[start : start + _SLICES] for start in range(0, len(digits), _SLICES))
    return (_SLICES * width + 7) // 8, chunks


def coin(numerator: int, *, entropy: Callable[[int], bytes] = os.urandom) -> bool:
    """Return True with probability exactly numerator/2⁴⁸: 48 random digits, as a number, are below the numerator.

    >>> coin(1, entropy=lambda size: bytes(size)), coin(2**48 - 1, entropy=lambda size: b"\\xff" * size)
    (True, False)
    """
    return int.from_bytes(take(entropy, GRID_BITS // 8), "little") < numerator


def flip(record: bytes, width: int, numerator: int, *, entropy: Callable[[int], bytes] = os.urandom) -> bytes:
    """Return the record with each of its ``width`` bits flipped with probability exactly numerator/2⁴⁸.

    Memory: like :func:`coins`.

    >>> flip(bytes([1, 2]), 10, 0)
    b'\\x01\\x02'
    """
    mask = coins(width, numerator, entropy=entropy)
    size = (width + 7) // 8
    value = int.from_bytes(record, "little")
    if len(record) != size or value >> width:
        reject("record", f"be {size} bytes with zero padding bits")
    return (value ^ mask).to_bytes(size, "little")


def uniform(below: int, *, entropy: Callable[[int], bytes] = os.urandom) -> int:
    """Return a uniform integer of [0, below), by rejection: no modulo bias, fewer than two draws expected.

    >>> uniform(1)
    0
    """
    below = check_whole("below", below, 1)
    bits = (below - 1).bit_length()
    while True:
        value = _take_number(entropy, (bits + 7) // 8) & ((1 << bits) - 1)
        if value < below:
            return value
