"""What a device runs: exact coins for a single record in whole numbers of Python, without numpy.

The law is that of the batch routines; only the standard library is needed. The layout is that of packed records: a
record is ⌈width/8⌉ bytes, bit i is bit i mod 8, least significant first, of byte i div 8.
"""

import functools
import os
from collections.abc import Callable

from hubbub.errors import EntropyFailure, check_whole, reject

_GRID = 48
_SLICES = 10


def _take(entropy: Callable[[int], bytes], size: int) -> int:
    data = entropy(size)
    if len(data) != size:
        raise EntropyFailure(f"entropy must give {size} bytes, got {len(data)} bytes")
    return int.from_bytes(data, "little")


def coins(width: int, numerator: int, *, entropy: Callable[[int], bytes] = os.urandom) -> int:
    """A number whose bits 0 … width−1 are independent ones with probability exactly numerator/2⁴⁸.

    Compares ``width`` random binary fractions with the probability, digit by digit, until all are decided: about
    2 + log₂ width digits, typically one call of ``entropy``. With r the complement of the random digit, an undecided
    bit is a one where the digit of the probability is one and r is; it stays undecided where r differs from that.
    Memory: 10 times the size of the record.

    >>> coins(40, 0), coins(3, 2**48 - 1, entropy=lambda size: b"\\xff" * size)
    (0, 7)
    """
    size, digits = _scheme(width, numerator)
    ones, undecided = 0, (1 << width) - 1
    for chunk in digits:
        noise = _take(entropy, size)
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
    """Bytes for one chunk of digits, and the digits of the probability up to its last one, in chunks."""
    width = check_whole("width", width, 1)
    numerator = check_whole("numerator", numerator, 0, (1 << _GRID) - 1)
    digits = tuple(map(int, f"{numerator:0{_GRID}b}".rstrip("0")))
    chunks = tuple(digits[start : start + _SLICES] for start in range(0, len(digits), _SLICES))
    return (_SLICES * width + 7) // 8, chunks


def flip(record: bytes, width: int, numerator: int, *, entropy: Callable[[int], bytes] = os.urandom) -> bytes:
    """The record with each of its ``width`` bits flipped with probability exactly numerator/2⁴⁸.

    Memory: as :func:`coins`.

    >>> flip(bytes([1, 2]), 10, 0)
    b'\\x01\\x02'
    """
    mask = coins(width, numerator, entropy=entropy)
    size = (width + 7) // 8
    value = int.from_bytes(record, "little")
    if len(record) != size or value >> width:
        reject("record", f"be {size} bytes with zero padding bits", f"{len(record)} bytes")
    return (value ^ mask).to_bytes(size, "little")


def uniform(below: int, *, entropy: Callable[[int], bytes] = os.urandom) -> int:
    """A uniform whole number of [0, below), by rejection: no modulo bias, fewer than two draws expected.

    >>> uniform(1)
    0
    """
    below = check_whole("below", below, 1)
    bits = (below - 1).bit_length()
    while True:
        value = _take(entropy, (bits + 7) // 8) & ((1 << bits) - 1)
        if value < below:
            return value
