"""Undoing the flips of a whole histogram: the inverse Kronecker transform as a few large matrix products."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.coins import GRID
from hubbub.errors import check_memory, check_whole, reject

_RADIX = 4
_COLUMNS = 1 << 9


def unflip(counts: NDArray[np.int64] | NDArray[np.float64], numerator: int) -> NDArray[np.float64]:
    """The unbiased estimate of the histogram before all bits were flipped with probability q = numerator/2⁴⁸.

    Applies [[p, −q], [−q, p]]/(p − q), the inverse of one bit's flip, along each bit of the index. Instead of a
    butterfly for every bit it multiplies by the fourth Kronecker power, four bits at a time, in blocks that stay in
    the cache and below the size from which BLAS would start threads. Entry x belongs to the record that reads x as a
    little-endian number, as in :func:`hubbub.bits.counting.histogram`.
    Memory: two float64 arrays of the size of the histogram.

    >>> unflip(np.array([75, 25]), 2**46).tolist()
    [100.0, 0.0]
    """
    size = counts.size
    width = size.bit_length() - 1
    if counts.ndim != 1 or width < 1 or size != 1 << width:
        reject("counts", "be a vector of 2^width entries with width ≥ 1", counts.shape)
    numerator = check_whole("numerator", numerator, 0, (1 << GRID - 1) - 1)
    check_memory(f"the inverse transform of {width} bits", 16 * size)
    q = numerator / (1 << GRID)
    bit = np.array([[1 - q, -q], [-q, 1 - q]]) / (1 - 2 * q)
    values = counts.astype(np.float64)
    other = np.empty_like(values)
    for low in range(0, width, _RADIX):
        bits = min(_RADIX, width - low)
        matrix: NDArray[Any] = np.ones((1, 1))
        for _ in range(bits):
            matrix = np.kron(matrix, bit)
        if low == 0:
            shape: tuple[int, ...] = (-1, min(_COLUMNS, size >> bits), 1 << bits)
            np.matmul(values.reshape(shape), matrix, out=other.reshape(shape))
        else:
            columns = min(_COLUMNS, 1 << low)
            shape = (-1, 1 << bits, (1 << low) // columns, columns)
            np.matmul(matrix, values.reshape(shape).swapaxes(1, 2), out=other.reshape(shape).swapaxes(1, 2))
        values, other = other, values
    return values
