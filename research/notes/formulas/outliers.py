"""The law of the privacy ratio R(S) of the homogeneous pair: N zero records, or N − 1 of them and one of ones. [003 §3]

R = (1/N) Σ X_i, where record i contributes X = (p/q)^(2l − L) if l of its L bits come out set. Because R is itself the
likelihood ratio of the pair, its law under the homogeneous collection determines everything about the pair.
"""

import math

import numpy as np
import numpy.typing as npt

from hubbub.errors import check_flip, check_memory, check_whole, reject
from hubbub.numeric.binomial import log_binomial_pmf
from hubbub.numeric.ratios import phi
from research.notes.formulas.ratios import outlier_ratio_values

Array = npt.NDArray[np.float64]

LOST = 40.0
"""At most exp(−40) of the mass is beyond the grid."""


def outlier_pair(n: int, width: int, q: float, points: int = 2**20) -> tuple[Array, Array]:
    """The laws of R(S) with the outlier and without it, on one grid of ``points`` values. [003 eq 3.4–3.11]

    The N-fold convolution of X by FFT, every atom split between its two grid neighbours so that the mean stays.
    Splitting is a mean-preserving spread, and both hockey-sticks are expectations of convex functions of R: so
    ``hockey_stick(with_outlier, without, ε)`` and its reverse err upwards, but for N·10⁻¹⁶ of FFT noise and exp(−40) of
    mass beyond the grid. The error falls with the square of ``points``; at the readings of [003 §3.3] it is 10⁻⁶
    forwards and up to 0.4 % in reverse, relatively. Tails have an error of the same order and of either sign. A grid on
    which splitting would add more than 1 % to the variance is refused.

    It certifies nothing: the homogeneous pair is not the worst case, in neither order. [003 conjecture 1 is wrong]

    >>> outlier, homogeneous = outlier_pair(1000, 5, 0.2446)
    >>> from hubbub.numeric.divergences import hockey_stick
    >>> round(hockey_stick(outlier, homogeneous, math.log(2)), 8)
    0.00050234
    """
    n, width, q = check_whole("n", n, 1), check_whole("width", width, 1), check_flip(q)
    points = check_whole("points", points, 16)
    check_memory(f"a grid of {points} values", 8 * 8 * points)
    atoms = outlier_ratio_values(width, q)
    weights = np.exp(log_binomial_pmf(np.arange(width + 1), width, q))
    largest = float(atoms[-1])
    spread = math.expm1(min(width * math.log(phi(q)), 700.0))
    third = LOST * largest / 3
    top = min(n * largest, n + third + math.sqrt(third * third + 2 * LOST * n * spread))
    # Splitting moves each of the n records by less than one cell; the cells left over keep them from wrapping around.
    step = (top - n * atoms[0]) / (points - 2 - min(n, points // 2))
    position = (atoms - atoms[0]) / step
    index = np.floor(position).astype(np.intp)
    part = position - index
    if step * step * float(weights @ (part * (1 - part))) > 0.01 * spread:
        reject("points", "be enough to resolve the ratio", points)
    single = np.zeros(points)
    np.add.at(single, index, weights * (1 - part))
    np.add.at(single, np.minimum(index + 1, points - 1), weights * part)
    homogeneous = np.maximum(np.fft.irfft(np.fft.rfft(single) ** n, points), 0.0)
    values = atoms[0] + step * np.arange(points) / n
    return np.minimum(values * homogeneous, 1.0), np.minimum(homogeneous, 1.0)
