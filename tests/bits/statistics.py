"""Statistics of packed bits that a correct sampler passes and a wrong one fails."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FALSE_POSITIVE_RATE = 1e-4
"""Below this p-value a sampler is rejected; seeds are fixed, so every verdict is reproducible."""


def position_p(bits: NDArray[np.uint8], q: float) -> float:
    """Return the chi-square p-value of the number of ones in each column against Binomial(rows, q)."""
    rows, columns = bits.shape
    z = (bits.sum(axis=0, dtype=np.int64) - rows * q) / math.sqrt(rows * q * (1 - q))
    return float(stats.chi2.sf((z * z).sum(), columns))


def pair_p(bits: NDArray[np.uint8], q: float) -> float:
    """Return the chi-square p-value of the covariances of all pairs of columns, of variance (q(1−q))²/rows each."""
    rows, columns = bits.shape
    centred = bits - q
    z = (centred.T @ centred)[np.triu_indices(columns, 1)] / (math.sqrt(rows) * q * (1 - q))
    return float(stats.chi2.sf((z * z).sum(), z.size))


def runs_p(bits: NDArray[np.uint8], q: float) -> float:
    """Return the chi-square p-value of the gaps between ones of the whole sequence against a geometric one."""
    gaps = np.diff(np.flatnonzero(bits.reshape(-1)))
    edges = np.unique(stats.geom.ppf(np.linspace(0.02, 0.98, 40), q).astype(np.int64))
    observed = np.bincount(np.searchsorted(edges, gaps), minlength=edges.size + 1)
    expected = gaps.size * np.diff(np.r_[0.0, stats.geom.cdf(edges, q), 1.0])
    return float(stats.chisquare(observed, expected).pvalue)


def total_p(ones: int, count: int, q: float) -> float:
    """Return the two-sided normal p-value of a number of ones."""
    return float(2 * stats.norm.sf(abs(ones - count * q) / math.sqrt(count * q * (1 - q))))


def uniform_p(values: NDArray[np.int64], cells: int) -> float:
    """Return the chi-square p-value of values against the uniform distribution on 0 … cells−1."""
    return float(stats.chisquare(np.bincount(values, minlength=cells)).pvalue)
