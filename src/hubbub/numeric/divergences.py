"""Divergences of two distributions that measure privacy. Every function has a direction: swap for the other.

A mechanism is (ε, δ)-private if δ(ε) ≤ δ for *both* orders of every neighbouring pair; the two orders of one pair often
differ by orders of magnitude.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from hubbub.errors import POSITIVE, Interval, check_delta, check_epsilon, check_real, reject
from hubbub.numeric.inversion import least_real


def hockey_stick(first: npt.ArrayLike, second: npt.ArrayLike, epsilon: float) -> float:
    """Return δ(ε) = Σ_s (P(s) − e^ε Q(s))⁺, the exact (ε, δ)-curve of ``first`` = P against ``second`` = Q.

    Only positive terms are added, pairwise, so that the relative error stays near that of the largest term. An outcome
    that underflowed in Q counts in full, which errs upwards.

    >>> hockey_stick([0.5625, 0.375, 0.0625], [0.1875, 0.625, 0.1875], math.log(2))
    0.1875
    """
    p, q = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if p.shape != q.shape:
        reject("first and second", "have the same shape", (p.shape, q.shape))
    for name, pmf in (("first", p), ("second", q)):
        if not ((pmf >= 0) & (pmf <= 1 + 1e-9)).all():
            reject(name, "consist of probabilities")
    epsilon = check_real("epsilon", epsilon, Interval(0.0, 709.0))
    excess = p - math.exp(epsilon) * q
    return float(excess[excess > 0].sum())


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) of two unit normal distributions whose means are μ apart.

    The limit of large crowds (Balle and Wang 2018; Dong, Roth and Su 2019): a first guess that certifies nothing about
    a finite crowd.

    >>> round(gaussian_delta(1.0, 1.0), 12)
    0.126936737507
    """
    mu = check_real("mu", mu, POSITIVE)
    epsilon = check_epsilon(epsilon)
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = float(log_ndtr(-mu / 2 - epsilon / mu))
    return -math.exp(upper) * math.expm1(min(epsilon + lower - upper, 0.0))


def gaussian_signal(epsilon: float, delta: float) -> float:
    """Return the largest μ at which :func:`gaussian_delta` is at most δ; errs downwards, by a relative 10⁻¹².

    1/μ is the σ of the analytic Gaussian mechanism for one count that changes by one (Balle and Wang 2018).

    >>> round(1 / gaussian_signal(1.0, 1e-6), 9)
    4.224678889
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    return 1 / least_real(lambda sigma: gaussian_delta(1 / sigma, epsilon) <= delta, 1e-3, 1e18, relative=1e-12)
