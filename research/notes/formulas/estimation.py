"""Estimators of the notes for the family (q, k, m), and their variances.

Every record is flipped with lie probability q and sent k times, and m uniform fakes are mixed in; a fake shows a set
bit with probability ``fake`` after its flip. [002 eq 4.1, 5.1; 003 §4; 004 §6]
"""

import math

import numpy as np
import numpy.typing as npt

from hubbub.errors import PROBABILITY, check_flip, check_real, check_whole, reject
from hubbub.numeric.vectors import unflip_histogram, weigh_by_distance

Array = npt.NDArray[np.float64]


def one_hot_fake(width: int, q: float) -> float:
    """v = q + (p − q)/d, the probability that a flipped uniform one-hot fake of d bits shows a given bit. [004 §6]

    >>> round(one_hot_fake(4, 0.1), 12)
    0.3
    """
    width, q = check_whole("width", width, 1), check_flip(q, zero=True)
    return q + (1 - 2 * q) / width


def count_estimate(counts: npt.ArrayLike, n: int, q: float, *, k: int = 1, m: int = 0, fake: float = 0.5) -> Array:
    """T̂ = (S − qkN − m·v)/(k(p − q)): how many of N records have the bit set, if S messages do.

    Unbiased. ``fake`` = v: ½ for uniform vectors, :func:`one_hot_fake` for one-hot ones.
    [002 eq 4.1, 5.1; 003 §4; 004 §6]

    >>> count_estimate([300], 1000, 0.1).tolist()
    [250.0]
    """
    n, q, k, m, fake = _check(n, q, k, m, fake)
    values = np.asarray(counts, dtype=np.float64)
    if not ((values >= 0) & (values <= k * n + m)).all():
        reject("counts", f"be in [0, {k * n + m}]", "something else")
    return np.asarray((values - q * k * n - m * fake) / (k * (1 - 2 * q)))


def count_variance(n: int, q: float, *, k: int = 1, m: int = 0, fake: float = 0.5) -> float:
    """Var T̂ = (kNpq + m·v(1 − v)) / (k²(p − q)²), whatever the data. [002 eq 4.3, 5.3; 003 §4; 004 §6]

    >>> round(count_variance(1000, 0.1), 9)
    140.625
    """
    n, q, k, m, fake = _check(n, q, k, m, fake)
    return (k * n * q * (1 - q) + m * fake * (1 - fake)) / (k * (1 - 2 * q)) ** 2


def count_stderr(n: int, q: float, *, k: int = 1, m: int = 0, fake: float = 0.5) -> float:
    """σ(T̂) = √Var T̂. [002 eq 4.4, 5.4; 003 §4]

    >>> round(count_stderr(1, 0.350914415601690067), 5)
    1.60061
    """
    return math.sqrt(count_variance(n, q, k=k, m=m, fake=fake))


def joint_estimate(counts: npt.ArrayLike, q: float, *, k: int = 1, m: int = 0) -> Array:
    """ĥ = (P_L⁻¹ s − m/2^L)/k: the histogram of all 2^L originals, from the histogram s of the flipped messages.

    Unbiased; the m fakes are uniform vectors. [000 §3]

    >>> joint_estimate([9, 3, 3, 1], 0.25).round(12).tolist()
    [16.0, 0.0, 0.0, 0.0]
    """
    k, m = check_whole("k", k, 1), check_whole("m", m, 0)
    result = unflip_histogram(counts, q)
    result -= m / result.shape[-1]
    result /= k
    return result


def joint_variance(originals: npt.ArrayLike, q: float, *, k: int = 1, m: int = 0) -> Array:
    """Var ĥ_j = (1/k)(Σ_i h_i α^(L−d) β^d − h_j) + (m/k²)(2^−L (α + β)^L − 4^−L), d the distance of vectors i and j.

    α = (p³ + q³)/(p − q)² and β = pq/(p − q)² are the second moments of one bit of P_1⁻¹ over a kept and a flipped bit;
    α = φβ. Linear in h, so with ĥ instead of h it is an unbiased estimate of the variance.

    >>> joint_variance([1000, 0], 0.1).round(9).tolist()
    [140.625, 140.625]
    """
    q, k, m = check_flip(q, zero=True), check_whole("k", k, 1), check_whole("m", m, 0)
    p = 1 - q
    same, other = (p**3 + q**3) / (p - q) ** 2, p * q / (p - q) ** 2
    result = weigh_by_distance(originals, same, other)
    size = result.shape[-1]
    result -= np.asarray(originals, dtype=np.float64)
    result /= k
    result += m / k**2 * (((same + other) / 2) ** (size.bit_length() - 1) - 1 / size**2)
    return result


def _check(n: object, q: object, k: object, m: object, fake: object) -> tuple[int, float, int, int, float]:
    return (
        check_whole("n", n, 1),
        check_flip(q, zero=True),
        check_whole("k", k, 1),
        check_whole("m", m, 0),
        check_real("fake", fake, PROBABILITY),
    )
