"""Unbiased estimators of counts and their variances, for flipped records among fakes and for randomized response."""

import math

import numpy as np
import numpy.typing as npt

from hubbub.errors import check_flip, check_whole

Array = npt.NDArray[np.float64]


def shown_by_users(mean: float, variance: float, fake: float) -> tuple[float, float]:
    """Return mean and variance of the number of M fakes that show a bit, M random and unknown: (μv, μv(1 − v) + Vv²).

    Given M the number is Bin(M, v), with mean Mv and variance Mv(1 − v); total variance adds v²·Var M. For
    Poisson M the variance is μv, by thinning; for M ~ Bin(t, s) it is t·sv(1 − sv). If M is known, μ = M and V = 0.

    >>> shown_by_users(8.0, 8.0, 0.25), shown_by_users(8.0, 0.0, 0.25)
    ((2.0, 2.0), (2.0, 1.5))
    """
    return mean * fake, mean * fake * (1 - fake) + variance * fake * fake


def shown_by_drawn(
    mean: float, variance: float, q: float, records_with_bit: float, lacking: float
) -> tuple[float, float]:
    """Return mean and variance of the number of fakes that show a bit, if each record's fakes are drawn, then flipped.

    Of the legal records, a = ``records_with_bit`` have the bit and b = ``lacking`` do not; their fakes show it with
    probability p and q. By the law of total variance: (μ(ap + bq), μ(a + b)pq + V(ap² + bq²)); for q = 0, (μa, Va).

    >>> shown_by_drawn(25.0, 8.0, 0.0, 1, 3)
    (25.0, 8.0)
    """
    p = 1 - q
    spread = mean * (records_with_bit + lacking) * p * q + variance * (records_with_bit * p * p + lacking * q * q)
    return mean * (records_with_bit * p + lacking * q), spread


def count_among_fakes(
    counts: npt.ArrayLike, n: int, q: float, *, k: int = 1, mean: float = 0.0, variance: float = 0.0
) -> tuple[Array, float]:
    """Return T̂ = (S − qkN − μ)/(k(p − q)) and σ = √(kNpq + V)/(k(p − q)), if fakes show the bit μ ± √V times.

    Unbiased; the flips of people's records and the fakes are independent. m fakes that each show the bit with
    probability v have μ = mv and V = mv(1 − v). [002 eq 4.1–4.4, 5.1–5.4; 004 §6]

    >>> values, stderr = count_among_fakes([300], 1000, 0.1, mean=50, variance=25)
    >>> values.tolist(), round(stderr, 6)
    ([187.5], 13.404757)
    """
    n, q, k = check_whole("n", n, 0), check_flip(q, zero=True), check_whole("k", k, 1)
    values = np.asarray(counts, dtype=np.float64)
    gain = k * (1 - 2 * q)
    return np.asarray((values - q * k * n - mean) / gain), math.sqrt(k * n * q * (1 - q) + variance) / gain


def counts_of_total(counts: npt.ArrayLike, n: int, gain: float) -> Array:
    """Return T̂ = (S − S̄)/g + n/d, S̄ the mean number of messages of d labels, of which everyone has exactly one.

    Unbiased and adding up to n. If the numbers of messages have the covariance aI + bJ, J full of ones, it is the
    estimate of least variance, a(1 − 1/d)/g²: what all labels have in common, such as a mean number of fakes, cancels.

    >>> counts_of_total([60.0, 30.0, 30.0], 100, 0.5).round(9).tolist()
    [73.333333333, 13.333333333, 13.333333333]
    """
    messages = np.asarray(counts, np.float64)
    return np.asarray((messages - messages.mean()) / gain + n / messages.size)


def category_estimate(counts: npt.ArrayLike, n: int, q: float, categories: int) -> Array:
    """Return T̂ = (S − nq)/(1 − dq) for d-ary randomized response with probability q of each wrong category; unbiased.

    (Kairouz, Bonawitz and Ramage 2016, "Discrete distribution estimation under local privacy".)

    >>> category_estimate([340, 220], 1000, 0.1, 4).round(9).tolist()
    [400.0, 200.0]
    """
    return np.asarray((np.asarray(counts, dtype=np.float64) - n * q) / (1 - categories * q))


def category_variance(originals: npt.ArrayLike, n: int, q: float, categories: int) -> Array:
    """Return Var T̂ = (T·P(1 − P) + (N − T)·q(1 − q)) / (1 − dq)², P = 1 − (d − 1)q the probability of the truth.

    Linear in the true count T, so an unbiased T̂ gives an unbiased estimate of the variance.

    >>> category_variance([0, 1000], 1000, 0.1, 4).round(6).tolist()
    [250.0, 583.333333]
    """
    true, truth = np.asarray(originals, dtype=np.float64), 1 - (categories - 1) * q
    return np.asarray((true * truth * (1 - truth) + (n - true) * q * (1 - q)) / (1 - categories * q) ** 2)


def nearest_counts(values: npt.ArrayLike, total: float) -> Array:
    """Return the nearest point with entries of at least 0 that add up to ``total`` (Held, Wolfe and Crowder 1974).

    max(x_i − t, 0) with the unique t that gives the sum. It is never farther from any such point than x is.

    >>> nearest_counts([5.0, 3.0, -2.0], 6.0).tolist()
    [4.0, 2.0, 0.0]
    """
    x = np.asarray(values, dtype=np.float64)
    falling = np.sort(x)[::-1]
    excess = (falling.cumsum() - total) / np.arange(1, x.size + 1)
    last = int(np.flatnonzero(falling > excess)[-1]) if total > 0 else 0
    return np.asarray(np.maximum(x - excess[last], 0.0))


def shrunk_counts(values: npt.ArrayLike, variance: float) -> Array:
    """Return m + max(0, 1 − (d − 3)σ²/Σ(x_i − m)²)·(x_i − m), m the mean of d values (Efron and Morris 1973, eq 1.4).

    Fewer than four values are returned unchanged.

    >>> shrunk_counts([0.0, 2.0, 4.0, 6.0], 10.0).tolist()
    [1.5, 2.5, 3.5, 4.5]
    """
    x = np.asarray(values, dtype=np.float64)
    mean = float(x.mean())
    square = float(((x - mean) ** 2).sum())
    kept = max(0.0, 1 - max(x.size - 3, 0) * variance / square) if square > 0 else 1.0
    return np.asarray(mean + kept * (x - mean))
