"""Histograms over all bit vectors: the expected effect of flips on them, and its unbiased inverse.

Entry x of a histogram counts the vectors that read x as a binary number. Flips treat every bit alike, so the order of
the bits, and whether 0 or 1 comes first, makes no difference.
"""

import itertools
import math
from functools import reduce

import numpy as np
import numpy.typing as npt

from hubbub.errors import check_flip, kind_of, reject
from hubbub.numeric import portable

Array = npt.NDArray[np.float64]

RADIX = 4  # bits that one matrix product of a histogram transform handles
COLUMNS = 2**9
BLOCK = 2**13  # entries of one such product: 64 KiB, which fits into the cache


def check_vector(name: str, value: object, kind: type[np.generic], size: int | None = None) -> None:
    """Raise unless the value is a vector of the given type and, if given, size.

    >>> check_vector("counts", np.zeros(2), np.int64, 3)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: counts must be a vector of 3 int64 values, not float64 of shape (2,)
    """
    must = f"be a vector of {'' if size is None else f'{size:,} '}{np.dtype(kind)} values"
    if not isinstance(value, np.ndarray):
        reject(name, f"{must}, not {kind_of(value)}")
    if value.dtype != kind or value.ndim != 1 or size not in (None, len(value)):
        reject(name, f"{must}, not {value.dtype} of shape {value.shape}")


def flip_histogram(counts: npt.ArrayLike, q: float) -> Array:
    """Return P_L applied to a histogram over 2^L vectors: the expected histogram after every bit is flipped. [000 §3]

    >>> flip_histogram([16, 0, 0, 0], 0.25).tolist()
    [9.0, 3.0, 3.0, 1.0]
    """
    q = check_flip(q, zero=True)
    return weigh_by_distance(counts, 1 - q, q)


def unflip_histogram(counts: npt.ArrayLike, q: float) -> Array:
    """Return P_L⁻¹ = (P_1⁻¹)^⊗L applied to a histogram over 2^L vectors: an unbiased estimate of the original. [000 §3]

    P_1⁻¹ = [[p, −q], [−q, p]] / (p − q). Rounding errors grow by up to (p − q)^−L, as does the noise.

    >>> unflip_histogram([9, 3, 3, 1], 0.25).round(12).tolist()
    [16.0, 0.0, 0.0, 0.0]
    """
    q = check_flip(q, zero=True)
    return weigh_by_distance(counts, (1 - q) / (1 - 2 * q), -q / (1 - 2 * q))


def weigh_by_distance(counts: npt.ArrayLike, same: float, other: float) -> Array:
    """Return Σ_i counts_i same^(L−h) other^h for every vector j, h the distance of i and j.

    That is [[same, other], [other, same]]^⊗L, applied along the last axis. One butterfly per bit would read the whole
    array L times; multiplying by the fourth Kronecker power takes four bits at a time, in blocks that fit into the
    cache and are too small for BLAS to start threads. Memory: a copy of ``counts`` and 1 MiB.

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
        reject("counts", "be finite")
    width = size.bit_length() - 1
    for low in range(0, width, RADIX):
        bits = min(RADIX, width - low)
        matrix = reduce(np.kron, [np.array([[same, other], [other, same]])] * bits)
        cells = values.reshape(-1, 1 << bits, 1 << low)
        columns = min(COLUMNS, 1 << low)
        rows = max(1, BLOCK // (columns << bits))
        for row, column in itertools.product(range(0, len(cells), rows), range(0, 1 << low, columns)):
            block = cells[row : row + rows, :, column : column + columns]
            # The matrix is symmetric, so for single columns one large product does the work of many small ones.
            block[:] = (portable.dot(block[:, :, 0], matrix))[:, :, None] if low == 0 else portable.dot(matrix, block)
    return values
