"""The ratios of the notes: how much likelier an outcome is from one collection than from its neighbour.

*Probability ratio* ρ: two neighbouring outcomes, one collection. *Privacy ratio* π or R: one outcome, two neighbouring
collections. A ratio at a point certifies nothing; see :mod:`hubbub.numeric.divergences` for what does.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import comb

from hubbub.errors import check_flip, check_whole, reject
from hubbub.numeric.crowd import probability_ratios
from hubbub.numeric.vectors import outcome_probability

Array = npt.NDArray[np.float64]


def phi(q: float) -> float:
    """Return φ = (p³ + q³)/(pq) = p/q + q/p − 1 = 1 + (p − q)²/(pq), the second moment of a bit's ratio. [003 eq 3.14]

    >>> round(3 * phi(0.25), 12)
    7.0
    """
    q = check_flip(q)
    return 1 + (1 - 2 * q) ** 2 / (q * (1 - q))


def psi(q: float) -> float:
    """ψ = (p⁵ + q⁵)/(pq)² = φ² + φ − 1, the third moment of one bit's ratio. [003 §3.2]

    >>> round(9 * psi(0.25), 12)
    61.0
    """
    first = phi(q)
    return first * first + first - 1


def privacy_from_probability(rho: npt.ArrayLike, q: float) -> Array:
    """g(ρ) = (q + pρ)/(p + qρ): the probability ratio of the others makes the privacy ratio; g(∞) = p/q. [004 eq 4.5]

    Increasing, so bounds on ρ carry over to π.

    >>> round(109 * float(privacy_from_probability(46 / 21, 0.25)), 9)
    159.0
    """
    q = check_flip(q)
    p = 1 - q
    values = np.asarray(rho, dtype=np.float64)
    if not (values >= 0).all():
        reject("rho", "be at least 0", "something else")
    small = np.minimum(values, 1.0)
    inverse = 1 / np.maximum(values, 1.0)
    return np.where(values <= 1, (q + p * small) / (p + q * small), (q * inverse + p) / (p * inverse + q))


def privacy_ratios(n: int, ones: int, q: float) -> Array:
    """π_n(s; ones) = P[A_n(ones) = s] / P[A_n(ones + 1) = s] for s = 0…n: g applied to ρ_(n−1)(s; ones). [000 §6.2]

    Decreasing in s from p/q at s = 0 to q/p at s = n; increasing in ones. [000 §6.5, 002 Thm 4.1]

    >>> round(109 * float(privacy_ratios(6, 2, 0.25)[2]), 9)
    159.0
    """
    n = check_whole("n", n, 1)
    ones = check_whole("ones", ones, 0, n - 1)
    inner = probability_ratios(n - 1, ones, q) if n > 1 else np.array([np.inf])
    return privacy_from_probability(np.append(inner, 0.0), q)


def vector_privacy_ratio(counts: npt.ArrayLike, others: npt.ArrayLike, i: int, j: int, q: float) -> float:
    """π(s, m; i, j) = P[A(m + e_j) = s] / P[A(m + e_i) = s]: vector i of one record becomes vector j. [000 eq 5.2]

    ``others`` is the histogram m of the n − 1 other records, ``counts`` the outcome s of all n; vectors count from 0.
    At most (p/q)^h, h the distance of i and j, attained at s = n e_j. [000 Prop 5.1]

    >>> round(vector_privacy_ratio([0, 1, 0, 0], [0, 0, 0, 0], 0, 1, 0.25), 9)
    3.0
    """
    rest = _check_step(others, i, j)
    before, after = rest.copy(), rest.copy()
    before[i] += 1
    after[j] += 1
    return outcome_probability(counts, after, q) / outcome_probability(counts, before, q)


def vector_probability_ratio(counts: npt.ArrayLike, originals: npt.ArrayLike, i: int, j: int, q: float) -> float:
    """ρ(s, i, j; m) = P[A(m) = s] / P[A(m) = s − e_i + e_j], for an outcome s with s_i ≥ 1. [000 §5.2]

    Does not decrease when a count moves away from i. [000 Prop 5.2]

    >>> round(vector_probability_ratio([2, 0], [2, 0], 0, 1, 0.25), 9)
    1.5
    """
    step = _check_step(counts, i, j)
    if step[i] < 1:
        reject("counts", "be at least 1 at i", "less")
    step[i] -= 1
    step[j] += 1
    return outcome_probability(counts, originals, q) / outcome_probability(step, originals, q)


def outlier_ratio(counts: npt.ArrayLike, q: float) -> float:
    """R(S) = (1/N) Σ_l t_l (q/p)^(L − 2l), where t_l of the N records seen have l of L bits set. [003 eq 3.4, 3.6]

    The privacy ratio of N − 1 zero records and one of ones against N zero records; ``counts`` = (t_0, …, t_L).
    For L = 1 this is R_i of [002 eq 4.32] with t = (i, N − i).

    >>> round(outlier_ratio([982, 18], 0.009), 12)
    1.990918264379
    """
    q = check_flip(q)
    values = np.asarray(counts)
    if values.ndim != 1 or values.size < 2 or not np.issubdtype(values.dtype, np.integer):
        reject("counts", "be one-dimensional whole numbers, at least 2 of them", (values.shape, values.dtype))
    if (values < 0).any() or values.sum() < 1:
        reject("counts", "be at least 0 and not all 0", "something else")
    return float(values @ outlier_ratio_values(len(values) - 1, q)) / int(values.sum())


def outlier_ratio_values(width: int, q: float) -> Array:
    """(q/p)^(L − 2l) for l = 0…L: what a record that shows l of L set bits adds to N·R(S). [003 eq 3.2]

    >>> outlier_ratio_values(2, 0.25).round(9).tolist()
    [0.111111111, 1.0, 9.0]
    """
    width, q = check_whole("width", width, 1, 2**20), check_flip(q)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp((2 * np.arange(width + 1) - width) * (math.log1p(-q) - math.log(q))))


def outlier_ratio_mean(n: int, width: int, q: float) -> float:
    """E R(S) = 1 + (φ^L − 1)/N if the outlier is there (and 1 if it is not). [003 §3.1]

    >>> round(64 * outlier_ratio_mean(4, 2, 0.2), 9)
    217.0
    """
    n, width = check_whole("n", n, 1), check_whole("width", width, 1)
    return 1 + (_exp(width * math.log(phi(q))) - 1) / n


def outlier_ratio_variance(n: int, width: int, q: float) -> float:
    """Var R(S) = (N − 1)(φ^L − 1)/N² + (ψ^L − φ^(2L))/N² if the outlier is there. [003 §3.1]

    >>> round(512 * outlier_ratio_variance(4, 2, 0.2), 9)
    2601.0
    """
    n, width = check_whole("n", n, 1), check_whole("width", width, 1)
    first = phi(q)
    log_mean = width * math.log(first)
    log_excess = width * math.log1p((first - 1) / first / first)
    own = _exp(2 * log_mean) * (math.expm1(log_excess) if log_excess < 709 else math.inf)
    return ((n - 1) * (_exp(log_mean) - 1) + own) / n / n


def copies_outlier_ratio(s: int, n: int, q: float, k: int) -> float:
    """R_s = Σ_i C(k, i) C(k(N − 1), s − i) / C(kN, s) · (p/q)^(k − 2i) for k copies of single bits. [002 eq 5.9]

    The privacy ratio of N − 1 ones and one zero against N ones, if s of the kN messages are set.

    >>> round(copies_outlier_ratio(982, 1000, 0.009, 1), 12)
    1.990918264379
    """
    n, k, q = check_whole("n", n, 1), check_whole("k", k, 1), check_flip(q)
    s = check_whole("s", s, 0, k * n)
    # Hypergeometric weights from their ratios: each of the k − i zeros and i ones is drawn without replacement.
    weights = [
        float(comb(k, i, exact=True))
        * math.prod((s - j) / (k * n - j) for j in range(i))
        * math.prod((k * n - s - j) / (k * n - i - j) for j in range(k - i))
        for i in range(k + 1)
    ]
    r = (1 - q) / q
    return math.fsum(weight * r ** (k - 2 * i) for i, weight in enumerate(weights) if weight)


def _check_step(counts: npt.ArrayLike, i: int, j: int) -> npt.NDArray[np.int64]:
    values = np.asarray(counts)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        reject("a histogram", "be one-dimensional whole numbers", (values.shape, values.dtype))
    i, j = check_whole("i", i, 0, values.size - 1), check_whole("j", j, 0, values.size - 1)
    if i == j:
        reject("i and j", "differ", (i, j))
    return values.astype(np.int64)


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf
