"""Histograms over all bit vectors: the expected effect of flips on them, and its unbiased inverse.

Entry x of a histogram counts the vectors that read x as a binary number. Flips treat every bit alike, so the order of
the bits, and whether 0 or 1 comes first, makes no difference.
"""

import math
from functools import reduce

import numpy as np
import numpy.typing as npt

from hubbub.errors import check_flip, reject

Array = npt.NDArray[np.float64]

RADIX = 4
"""Bits transformed in one pass over the histogram."""
COLUMNS = 1 << 9
"""Entries per matrix product: blocks stay in the cache, and below the size from which BLAS starts threads."""


def flip_histogram(counts: npt.ArrayLike, q: float) -> Array:
    """P_L applied to a histogram over 2^L vectors: the expected histogram after every bit is flipped. [000 §3]

    Works along the last axis.

    >>> flip_histogram([16, 0, 0, 0], 0.25).tolist()
    [9.0, 3.0, 3.0, 1.0]
    """
    q = check_flip(q, zero=True)
    return weigh_by_distance(counts, 1 - q, q)


def unflip_histogram(counts: npt.ArrayLike, q: float) -> Array:
    """P_L⁻¹ = (P_1⁻¹)^⊗L applied to a histogram over 2^L vectors: the unbiased estimate of the original. [000 §3]

    P_1⁻¹ = [[p, −q], [−q, p]] / (p − q). Rounding errors grow by up to (p − q)^−L, as does the noise.

    >>> unflip_histogram([9, 3, 3, 1], 0.25).round(12).tolist()
    [16.0, 0.0, 0.0, 0.0]
    """
    q = check_flip(q, zero=True)
    return weigh_by_distance(counts, (1 - q) / (1 - 2 * q), -q / (1 - 2 * q))


def weigh_by_distance(counts: npt.ArrayLike, same: float, other: float) -> Array:
    """Σ_i counts_i same^(L−h) other^h for every vector j, h the distance of i and j: [[same, other], [other, same]]^⊗L.

    Instead of one butterfly per bit, multiplies by the fourth Kronecker power, four bits at a time.
    Memory: two float64 arrays of the size of ``counts``.

    >>> weigh_by_distance([1, 0, 0, 0], 3.0, 1.0).tolist()
    [9.0, 3.0, 3.0, 1.0]
    """
    if not (math.isfinite(same) and math.isfinite(other)):
        reject("same and other", "be finite", (same, other))
    values = np.array(counts, dtype=np.float64)
    size = values.shape[-1] if values.ndim else 0
    if size < 2 or size & (size - 1):
        reject("counts", "have a power of two of at least 2 entries along its last axis", values.shape)
    if not np.isfinite(values).all():
        reject("counts", "be finite", "something else")
    spare = np.empty_like(values)
    width = size.bit_length() - 1
    for low in range(0, width, RADIX):
        bits = min(RADIX, width - low)
        matrix = reduce(np.kron, [np.array([[same, other], [other, same]])] * bits)
        if low == 0:
            shape: tuple[int, ...] = (-1, min(COLUMNS, size >> bits), 1 << bits)
            np.matmul(values.reshape(shape), matrix, out=spare.reshape(shape))
        else:
            columns = min(COLUMNS, 1 << low)
            shape = (-1, 1 << bits, (1 << low) // columns, columns)
            np.matmul(matrix, values.reshape(shape).swapaxes(1, 2), out=spare.reshape(shape).swapaxes(1, 2))
        values, spare = spare, values
    return values
