"""Exact p-values of counts, lower confidence bounds on ε, and the findings and diagnoses that hold them.

All of them favour the audited program: an interval holds with at least its confidence, and the true ε exceeds a bound
with at least that confidence, for every distribution of the program's output.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, chdtr, chdtrc, gammainc, gammaincc, ndtr, ndtri, pdtr, pdtrc, rel_entr

from hubbub.numeric.binomial import clopper_pearson

Array = NDArray[np.float64]
Part = Literal["client", "shuffler", "pipeline", "wire"]


def epsilon_bound(first: ArrayLike, second: ArrayLike, trials: tuple[int, int], delta: float, level: float) -> Array:
    """Return a lower bound on ε from an event seen ``first`` times under D and ``second`` times under D′.

    ln((P_low − δ)/P′_high) by the two ends of :func:`clopper_pearson`, each at level/2: with confidence 1 − level the
    true ε at δ is larger (Jagielski, Ullman and Oprea 2020). −∞ if the counts show nothing.

    >>> round(float(epsilon_bound(900, 100, (1000, 1000), 0.0, 0.01)), 3)
    1.929
    >>> float(epsilon_bound(0, 0, (1000, 1000), 0.0, 0.01))
    -inf
    """
    low = clopper_pearson(first, trials[0], level / 2)[0] - delta
    high = clopper_pearson(second, trials[1], level / 2)[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > 0, np.log(np.maximum(low, 1e-300) / high), -np.inf)


def max_true_positive_rate(false: float, epsilon: float, delta: float) -> float:
    """Return the largest true positive rate of a test between neighbours with false positive rate α under (ε,δ)-DP.

    min(e^ε α + δ, 1 − e^−ε(1 − δ − α)), Wasserman and Zhou 2010.

    >>> max_true_positive_rate(0.25, math.log(2), 0.0), max_true_positive_rate(0.75, math.log(2), 0.0)
    (0.5, 0.875)
    """
    above = math.exp(min(epsilon, 700.0)) * false + delta
    return max(0.0, min(1.0, above, 1 - math.exp(-epsilon) * (1 - delta - false)))


def binomial_p(count: ArrayLike, trials: ArrayLike, chance: ArrayLike) -> Array:
    """Return twice the smaller tail of Bin(trials, chance) at the count, at most 1: exact and conservative.

    >>> round(float(binomial_p(2, 10, 0.5)), 6), float(binomial_p(3, 3, 1.0)), float(binomial_p(2, 3, 1.0))
    (0.109375, 1.0, 0.0)
    """
    c, n, p = (np.asarray(x, np.float64) for x in (count, trials, chance))
    below = np.where(c < n, betainc(np.maximum(n - c, 1), np.maximum(c, 0) + 1, 1 - p), 1.0)
    above = np.where(c > 0, betainc(np.maximum(c, 1), np.maximum(n - c, 0) + 1, p), 1.0)
    tail = np.minimum(1.0, 2 * np.minimum(below, above))
    return np.asarray(np.where(p <= 0, c == 0, np.where(p >= 1, c == n, tail)), np.float64)


def poisson_p(count: ArrayLike, mean: ArrayLike) -> Array:
    """Return twice the smaller tail of Poisson(mean) at the count, at most 1.

    >>> float(poisson_p(0, 1.0).round(6)), float(poisson_p(9, 1.0)) < 1e-5
    (0.735759, True)
    """
    c, m = np.asarray(count, np.float64), np.asarray(mean, np.float64)
    above = np.where(c > 0, pdtrc(np.maximum(c - 1, 0), m), 1.0)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(pdtr(c, m), above)))


def normal_p(z: ArrayLike) -> Array:
    """Return the two-sided p-value of a standard normal statistic.

    >>> float(normal_p(1.959964).round(6))
    0.05
    """
    return np.asarray(2 * ndtr(-np.abs(np.asarray(z, np.float64))))


def chi_square_p(value: ArrayLike, degrees: float, *, both: bool = True) -> Array:
    """Return the p-value of a chi-square statistic, two-sided (too regular is suspicious too) or upper only.

    >>> float(chi_square_p(40.0, 10)) < 1e-4, float(chi_square_p(0.1, 10)) < 1e-4
    (True, True)
    """
    x = np.asarray(value, np.float64)
    above = chdtrc(degrees, x)
    return np.minimum(1.0, 2 * np.minimum(above, chdtr(degrees, x))) if both else np.asarray(above)


def gamma_p(value: float, mean: float, variance: float) -> float:
    """Return the two-sided p-value of a gamma distribution, for sums of squares that are nearly chi-square.

    >>> round(gamma_p(12.0, 10.0, 20.0), 9) == round(float(chi_square_p(12.0, 10)), 9)
    True
    """
    if variance <= 0:
        return float(abs(value - mean) < 1e-9)
    shape, scale = mean * mean / variance, variance / mean
    return float(min(1.0, 2 * min(gammainc(shape, value / scale), gammaincc(shape, value / scale))))


def bennett_p(deviation: ArrayLike, variance: ArrayLike, bound: ArrayLike = 1.0) -> Array:
    """Return an upper bound on P[|S − E S| ≥ |deviation|] for a sum S of independent terms of which each is at most b.

    2·exp(−V/b²·h(b·d/V)) with h(u) = (1 + u)·ln(1 + u) − u and the variance V of the sum (Bennett 1962). Binomial,
    Poisson and compound sums all qualify, so it is conservative with fakes among the messages too.

    >>> float(bennett_p(0.0, 5.0)), float(bennett_p(1.0, 0.0)), float(bennett_p(60, 100.0)) > float(normal_p(6.0))
    (1.0, 0.0, True)
    """
    d, v, b = (np.asarray(x, np.float64) for x in (deviation, variance, bound))
    d = np.where(np.abs(d) < 1e-6, 0.0, np.abs(d))
    u = b * d / np.maximum(v, 1e-9)
    with np.errstate(over="ignore"):
        tail = 2 * np.exp(-np.maximum(v, 1e-9) / b**2 * ((1 + u) * np.log1p(u) - u))
    return np.asarray(np.minimum(1.0, np.where(v > 1e-9, tail, d == 0)))


def hypergeometric_p(both: ArrayLike, first: ArrayLike, second: ArrayLike, total: ArrayLike) -> Array:
    """Return an upper bound on the two-sided p-value of independence of two events, given their numbers.

    ``both`` of ``total`` trials show both events, ``first`` and ``second`` show each. Given the margins, ``both`` is
    hypergeometric under independence whatever the two probabilities are, and 2·exp(−n·KL(x/n ‖ K/N)) bounds its tails
    (Hoeffding 1963, Chvátal 1979), for either event and for its complement in the role of the sample. Several tables
    along the first axis are pooled: hypergeometric variables are sums of independent Bernoulli variables (Vatutin and
    Mikhailov 1982), to which the bound applies with the mean of their probabilities.

    >>> float(hypergeometric_p([[25.0]], [[50.0]], [[50.0]], [[100.0]])[0])
    1.0
    >>> float(hypergeometric_p([[50.0]], [[50.0]], [[50.0]], [[100.0]])[0]) < 1e-14
    True
    """
    x, k, n, size = (np.asarray(a, np.float64) for a in (both, first, second, total))
    mean = k * n / np.maximum(size, 1)
    drawn, seen, middle = n.sum(axis=0), x.sum(axis=0), mean.sum(axis=0)
    exponent = np.zeros_like(seen)
    for trials, hits, expected in (
        (drawn, seen, middle),
        (k.sum(axis=0), seen, middle),
        ((size - n).sum(axis=0), (k - x).sum(axis=0), (k - mean).sum(axis=0)),
        ((size - k).sum(axis=0), (n - x).sum(axis=0), (n - mean).sum(axis=0)),
    ):
        whole = np.maximum(trials, 1)
        a, b = np.clip(hits / whole, 0, 1), np.clip(expected / whole, 0, 1)
        # Exact margins leave no freedom: the divergence is infinite only through rounding of an expected 0 or 1.
        distance = np.where(np.abs(a - b) < 1e-12, 0.0, rel_entr(a, b) + rel_entr(1 - a, 1 - b))
        exponent = np.maximum(exponent, trials * distance)
    return np.asarray(np.minimum(1.0, 2 * np.exp(-exponent)))


def holm(p: ArrayLike) -> Array:
    """Return p-values adjusted by Holm's method: those at most α are wrong anywhere with probability at most α.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(values.size, 0, -1)))
    return adjusted


def largest_rejected(trials: int, chance: float, level: float) -> int:
    """Return the largest count that :func:`binomial_p` rejects at ``level`` as too small, or −1 if there is none.

    >>> largest_rejected(1000, 0.1, 1e-4)
    64
    """
    guess = trials * chance + float(ndtri(level / 2)) * math.sqrt(trials * chance * (1 - chance))
    low, high = -1, max(0, math.ceil(guess + 0.1 * abs(guess) + 30))
    while high - low > 1:
        middle = (low + high) // 2
        small = float(betainc(trials - middle, middle + 1, 1 - chance)) <= level / 2
        low, high = (middle, high) if small else (low, middle)
    return low


def shortfall(trials: int, chance: float, level: float, power: float = 0.95) -> float:
    """Return the relative shortfall of a probability that this many trials detect with probability ``power``.

    1 − p′/p with P[Bin(n, p′) ≤ c] = power and c from :func:`largest_rejected`; 1 if not even p′ = 0 is detected.

    >>> round(shortfall(1_000_000, 0.1, 1e-6), 4)
    0.0195
    """
    count = largest_rejected(trials, chance, level)
    if count < 0:
        return 1.0
    # P[Bin(n, p′) ≤ c] = I(1 − p′; n − c, c + 1)
    smaller = 1 - float(betaincinv(trials - count, count + 1, power))
    return max(0.0, 1 - smaller / chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one test; a small p-value contradicts the plan."""

    part: Part
    name: str
    where: str  # the bit, value, run or position with the largest deviation
    observed: float
    allowed: float  # the value that the plan predicts, or the largest ε that it claims
    p: float  # under the plan, an upper bound on the probability of an equally extreme result
    bound: bool = False  # True if observed is a lower confidence bound on ε and allowed the claimed ε

    def violates(self, level: float) -> bool:
        """Return True if the test rejects the plan at this significance level.

        >>> finding("client", "flips", "bit 2", 0.0, 0.1, 1e-9).violates(1e-4)
        True
        """
        return self.p <= level

    @property
    def figures(self) -> tuple[str, str, str]:
        """The observed and the expected figure and the p-value as texts; bounds on ε have none."""
        if self.bound:
            return f"≥ {self.observed:.4g}", f"≤ {self.allowed:.4g}", ""
        return f"{self.observed:.4g}", f"{self.allowed:.4g}", f"{self.p:.2g}"


def finding(part: Part, name: str, where: str, observed: float, allowed: float, p: float) -> Finding:
    """Return the result of a test with a p-value."""
    return Finding(
        part=part, name=name, where=where, observed=float(observed), allowed=float(allowed), p=min(1.0, float(p))
    )


def worst(p: ArrayLike) -> tuple[tuple[int, ...], float]:
    """Return the index of the smallest p-value and the p-value of the family by Bonferroni: count · smallest.

    >>> worst([[0.5, 0.01], [0.3, 0.2]])
    ((0, 1), 0.04)
    """
    values = np.asarray(p, np.float64)
    place = np.unravel_index(int(np.argmin(values)), values.shape)
    return tuple(int(i) for i in place), min(1.0, values.size * float(values[place]))


Kind = Literal[
    "illegal messages",
    "clear records",
    "constant output",
    "deterministic output",
    "weak seed",
    "equal copies",
    "reused noise",
    "dependent records",
    "correlated bits",
    "flip probability",
    "biased flips",
    "number of copies",
    "categories after a flip",
    "number of fakes",
    "distribution of fakes",
    "distinguishable values",
    "shuffler",
    "other",
]
Harm = Literal["privacy", "estimates"]
INTERVAL = 0.001  # confidence intervals in texts hold with 99.9 %


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A defect in words, with a bound on the probability that a program without this defect gives this evidence."""

    kind: Kind
    text: str
    p: float
    harm: Harm = "privacy"  # "estimates": there is more noise than planned, which biases estimates and reveals nothing


def rate_text(count: float, trials: int, planned: float) -> str:
    """Return an observed frequency beside the planned one.

    >>> rate_text(0, 12_000, 0.272)
    'expected 27.2 %, observed 0 of 12,000 (0 %; 99.9 % interval 0 to 0.0633 %)'
    """
    whole = min(max(round(count), 0), trials)
    low, high = (100 * float(end) for end in clopper_pearson(whole, trials, INTERVAL / 2))
    share = f"{100 * whole / trials:.4g} %; 99.9 % interval {low:.3g} to {high:.3g} %"
    return f"expected {100 * planned:.4g} %, observed {whole:,} of {trials:,} ({share})"
