"""Moments of A_n(ones) = Bin(ones, p) + Bin(n − ones, q). [000 §6.8]"""

from hubbub.errors import check_flip, check_whole
from hubbub.numeric.binomial import MAX_EXACT


def crowd_mean(n: int, ones: int, q: float, k: int = 1) -> float:
    """E A_n(ones) = nq + ones·(p − q), times k. [000 §6.8]

    >>> crowd_mean(5, 2, 0.25)
    2.25
    """
    n, ones, q, k = _check(n, ones, q, k)
    return k * (n * q + ones * (1 - 2 * q))


def crowd_variance(n: int, q: float, k: int = 1) -> float:
    """Var A_n(ones) = npq, times k, whatever ones is. [000 §6.8]

    >>> crowd_variance(16, 0.25)
    3.0
    """
    n, _, q, k = _check(n, 0, q, k)
    return k * n * q * (1 - q)


def _check(n: object, ones: object, q: object, k: object) -> tuple[int, int, float, int]:
    k = check_whole("k", k, 1)
    n = check_whole("n", n, 0, MAX_EXACT // k)
    return n, check_whole("ones", ones, 0, n), check_flip(q), k
