"""Bit vectors: their enumeration, the transition matrix P_L, and the law of the histogram of a flipped collection.

Vectors of ``width`` bits are enumerated recursively, 1 before 0, so 11…1 comes first and 00…0 last: vector i (from 0)
is the binary form of 2^width − 1 − i, and the vector opposite to i is 2^width − 1 − i. [000 §2.2]
"""

import itertools
import math
from functools import cache, reduce

import numpy as np
import numpy.typing as npt

from hubbub.errors import check_flip, check_memory, check_whole, reject
from hubbub.numeric.crowd import crowd

Array = npt.NDArray[np.float64]

RADIX = 4
"""Bits that one matrix product of a histogram transform handles."""
COLUMNS = 2**9
BLOCK = 2**13
"""Entries of one such product: 64 KiB, which fits into the cache."""


def bit_vectors(width: int) -> npt.NDArray[np.uint8]:
    """All vectors of ``width`` bits as rows: (1, v) for every v of width − 1, then (0, v). [000 §2.2]

    >>> bit_vectors(2).tolist()
    [[1, 1], [1, 0], [0, 1], [0, 0]]
    """
    width = check_whole("width", width, 1, 62)
    check_memory(f"the table of all vectors of {width} bits", 9 * width * 2**width)
    numbers = np.arange(2**width - 1, -1, -1)[:, None]
    return (numbers >> np.arange(width - 1, -1, -1) & 1).astype(np.uint8)


def transition_matrix(width: int, q: float) -> Array:
    """P_L(i, j) = P[vector i is flipped to vector j] = p^(L−h) q^h, h their distance; P_L = P_1 ⊗ P_(L−1). [000 eq 2.2]

    >>> (16 * transition_matrix(2, 0.25)[0]).tolist()
    [9.0, 3.0, 3.0, 1.0]
    """
    width, q = check_whole("width", width, 1, 62), check_flip(q, zero=True)
    check_memory(f"the transition matrix of {width} bits", 16 * 4**width)
    matrix = single = np.array([[1 - q, q], [q, 1 - q]])
    for _ in range(width - 1):
        matrix = np.kron(single, matrix)
    return matrix


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
            block[:] = (block[:, :, 0] @ matrix)[:, :, None] if low == 0 else matrix @ block
    return values


def outcome_probability(counts: npt.ArrayLike, originals: npt.ArrayLike, q: float) -> float:
    """P[A_L(m) = s]: the histogram ``originals`` is flipped and shuffled into the histogram ``counts``.

    A_L(m) ~ MN(m_1, p_L(1)) + … + MN(m_D, p_L(D)), a sum of independent multinomials [000 eq 3.4], added up one record
    at a time over all histograms below ``counts``. Exponential in 2^L: for small collections.

    >>> round(2048 * outcome_probability([1, 1, 0, 1], [2, 0, 0, 1], 0.25), 9)
    273.0
    """
    seen, true, q = _check_pair(counts, originals, q)
    shape = tuple(c + 1 for c in seen)
    check_memory("the table of all smaller histograms", 3 * 8 * math.prod(shape))
    matrix = transition_matrix(len(seen).bit_length() - 1, q)
    state = np.zeros(shape)
    state.flat[0] = 1.0
    for row, number in zip(matrix, true, strict=True):
        for _ in range(number):
            after = np.zeros(shape)
            for axis, weight in enumerate(row):
                source, target = np.moveaxis(state, axis, 0), np.moveaxis(after, axis, 0)
                target[1:] += weight * source[:-1]
            state = after
    return float(state.flat[-1])


def outcome_probability_by_halves(counts: npt.ArrayLike, originals: npt.ArrayLike, q: float) -> float:
    """The same as :func:`outcome_probability` by the recursion over L.

    P[A_L(m) = s] = Σ_t P[T = t] P[A_(L−1)(t) = s_J1] P[A_(L−1)(m̄ − t) = s_J2], with independent
    T_i ~ Bin(m_i, p) + Bin(m_(i+d), q), m̄_i = m_i + m_(i+d), d = 2^(L−1), over Σt = Σs_J1. [000 Prop 3.2, eq 3.8]

    >>> round(2048 * outcome_probability_by_halves([1, 1, 0, 1], [2, 0, 0, 1], 0.25), 9)
    273.0
    """
    seen, true, q = _check_pair(counts, originals, q)
    check_memory("the recursion over all splits", 64 * math.prod(a + 1 for a in true))

    @cache
    def probability(s: tuple[int, ...], m: tuple[int, ...]) -> float:
        if len(s) == 1:
            return 1.0
        half = len(s) // 2
        first, second = s[:half], s[half:]
        pairs = [(a, a + b) for a, b in zip(m[:half], m[half:], strict=True)]
        distributions = [crowd(total, a, q) for a, total in pairs]
        result = 0.0
        for t in itertools.product(*(range(total + 1) for _, total in pairs)):
            if sum(t) == sum(first):
                rest = tuple(total - u for (_, total), u in zip(pairs, t, strict=True))
                weight = math.prod(float(distribution.pmf[u]) for distribution, u in zip(distributions, t, strict=True))
                result += weight * probability(first, t) * probability(second, rest)
        return result

    return probability(seen, true)


def _check_pair(
    counts: npt.ArrayLike, originals: npt.ArrayLike, q: object
) -> tuple[tuple[int, ...], tuple[int, ...], float]:
    seen, true = _check_histogram("counts", counts), _check_histogram("originals", originals)
    if len(seen) != len(true):
        reject("counts and originals", "have the same length", (len(seen), len(true)))
    if sum(seen) != sum(true):
        reject("counts and originals", "have the same sum", "different sums")
    return seen, true, check_flip(q)


def _check_histogram(name: str, counts: npt.ArrayLike) -> tuple[int, ...]:
    values = np.asarray(counts)
    if values.ndim != 1 or values.size < 2 or values.size & (values.size - 1):
        reject(name, "be one-dimensional with a power of two of at least 2 entries", values.shape)
    if not np.issubdtype(values.dtype, np.integer) or (values < 0).any():
        reject(name, "be whole numbers of at least 0", values.dtype)
    if values.size > 32:
        reject(name, "have at most 32 entries", values.size)
    return tuple(int(c) for c in values)
