"""Counts of packed records: by bit, and by record."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.records import check_records
from hubbub.errors import check_whole, reject

_SLAB = 1 << 13
_ROWS = 1 << 20
_PAIRS = 1 << 18
_LOW_BITS = np.uint64(0x0101010101010101)

Plane = NDArray[np.uint64]


def bit_counts(records: NDArray[np.uint8], width: int) -> NDArray[np.int64]:
    """Return the number of records in which each bit is set; counts of parts of a batch add up.

    Carry-save addition after Harley and Seal (Warren, *Hacker's Delight*, §5-1; Muła, Kurz and Lemire 2018): planes of
    64-bit words hold one binary digit of many counts each, and a full adder adds two more planes in five bitwise
    operations. Rows need not be whole words, because a plane holds a multiple of eight rows.
    Memory: 2·log₂ n + 6 planes of 64 KiB, or of 8 rows if these are larger, and two bytes per record.

    >>> bit_counts(np.array([[1, 2], [3, 0]], np.uint8), 10).tolist()
    [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    """
    width = check_whole("width", width, 1)
    _, size = check_records(records, width).shape
    unit = size * max(1, 64 // size)
    # At most 64 units, so that the sum of their bits fits into a byte.
    plane = unit * min(64, max(1, _SLAB // unit))
    flat = records.reshape(-1)
    whole = flat.size // (16 * plane) * 16 * plane
    rest = np.zeros(2 * plane, np.uint64)
    rest.view(np.uint8)[: flat.size - whole] = flat[whole:]
    pairs = itertools.chain(flat[:whole].view(np.uint64).reshape(-1, 2, plane), [rest.reshape(2, plane)])
    counts = np.zeros(8 * size, np.int64)
    for weight, digits in _carry_save(pairs, plane):
        counts += weight * _column_sums(digits.reshape(-1, unit), size)
    return counts[:width]


def _carry_save(pairs: Iterable[Plane], size: int) -> Iterator[tuple[int, Plane]]:
    """Yield planes and weights 1, 1, 2, 2, 4, … whose weighted sum is the sum of all planes of ``pairs``."""
    totals: list[Plane] = []
    waiting: list[Plane | None] = []
    spare: list[Plane] = []
    scratch = np.empty(size, np.uint64)
    for pair in pairs:
        first, second = pair[0], pair[1]
        for level in itertools.count():
            if level == len(totals):
                totals.append(np.zeros(size, np.uint64))
                waiting.append(None)
            if level:
                other = waiting[level]
                if other is None:
                    waiting[level] = second
                    break
                first, waiting[level] = other, None
            carry = spare.pop() if spare else np.empty(size, np.uint64)
            _full_add(totals[level], first, second, carry, scratch)
            if level:
                spare += [first, second]
            second = carry
    for level, (total, other) in enumerate(zip(totals, waiting, strict=True)):
        yield 1 << level, total
        if other is not None:
            yield 1 << level, other


def _full_add(total: Plane, first: Plane, second: Plane, carry: Plane, scratch: Plane) -> None:
    """Set total and carry to the low and high digit of total + first + second."""
    np.bitwise_xor(total, first, out=carry)
    np.bitwise_and(total, first, out=scratch)
    np.bitwise_xor(carry, second, out=total)
    np.bitwise_and(carry, second, out=carry)
    np.bitwise_or(carry, scratch, out=carry)


def _column_sums(digits: Plane, size: int) -> NDArray[np.int64]:
    """Return the count of each of the 8·size bits; sums bytes in parallel, as there are at most 64 rows of words."""
    sums = np.empty((size, 8), np.int64)
    for bit in range(8):
        parallel = ((digits >> np.uint64(bit)) & _LOW_BITS).sum(axis=0, dtype=np.uint64)
        sums[:, bit] = parallel.view(np.uint8).reshape(-1, size).sum(axis=0, dtype=np.int64)
    return sums.reshape(-1)


def histogram(records: NDArray[np.uint8], width: int) -> NDArray[np.int64]:
    """Return the number of occurrences of each of the 2^width records, for width ≤ 24; histograms of parts add up.

    Entry x counts the records that are x as a little-endian number. Memory: 24·max(2²⁰, 2^width) bytes.

    >>> histogram(np.array([[2], [0], [2]], np.uint8), 2).tolist()
    [1, 0, 2, 0]
    """
    width = check_whole("width", width, 1, 24)
    n, size = check_records(records, width).shape
    counts = np.zeros(1 << width, np.int64)
    step = max(_ROWS, 1 << width)
    for start in range(0, n, step):
        block = records[start : start + step]
        value = block[:, 0].astype(np.int64)
        for place in range(1, size):
            value |= block[:, place].astype(np.int64) << (8 * place)
        counts += np.bincount(value, minlength=1 << width)
    return counts


def index_counts(indices: NDArray[Any], width: int) -> NDArray[np.int64]:
    """Return the number of occurrences of each index below ``width``. Memory: 3 MiB, or 16 bytes for each index.

    >>> index_counts(np.array([2, 0, 2], np.uint8), 3).tolist()
    [1, 0, 2]
    """
    if indices.size and int(indices.max()) >= width:
        reject("indices", f"be below {width:,}")
    if indices.dtype != np.uint8 or indices.size < 1 << 18:
        counts = np.zeros(width, np.int64)
        for start in range(0, indices.size, _ROWS):
            counts += np.bincount(indices[start : start + _ROWS], minlength=width)
        return counts
    # Two indices at a time are one of 2¹⁶ pairs: half as many steps.
    even = indices.size // 2 * 2
    pairs, found = np.ascontiguousarray(indices[:even]).view(np.uint16), np.zeros(1 << 16, np.int64)
    for start in range(0, pairs.size, _PAIRS):
        found += np.bincount(pairs[start : start + _PAIRS], minlength=1 << 16)
    table = found.reshape(256, 256)
    single = np.bincount(indices[even:], minlength=256)
    return np.asarray((table.sum(axis=0) + table.sum(axis=1) + single)[:width])
