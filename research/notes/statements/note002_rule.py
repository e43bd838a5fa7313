"""[002 §4.3]: the rule of three deviations for single bits, and its figures."""

import itertools
import math
from fractions import Fraction

import numpy as np

from hubbub.numeric.crowd import crowd, neighbours
from hubbub.numeric.divergences import hockey_stick
from research.notes.formulas.bounds import local_flip, three_sigma_bit_flip
from research.notes.formulas.crowd import crowd_mean, crowd_variance
from research.notes.formulas.divergences import sufficient_tail
from research.notes.formulas.estimation import count_stderr, count_variance
from research.notes.formulas.ratios import outlier_ratio
from research.notes.statements.catalogue import Evidence, Note, Statement, Status
from research.notes.statements.enumeration import FLIPS, LN2, QUARTER, crowd_distribution, near, score

NOTE = Note("002")
Q, P = QUARTER, 1 - QUARTER

WHOLE = ((25, 0.2, 2), (100, 0.2, 4), (400, 0.1, 6), (1600, 0.1, 12), (10_000, 0.2, 40))
"""(N, q, σ) with a whole σ = √(Npq), so that pN − 3σ is an outcome."""


@NOTE.states("002-(4.30)", "N ones: P(s = i) = C(N, i) p^i q^(N−i)", Status.CONFIRMED)
def _all_ones() -> Evidence:
    """The code's law of N ones, entry by entry."""
    held = score(
        near(found, math.comb(n, i) * (1 - q) ** i * q ** (n - i))
        for n, q in itertools.product((1, 5, 12), FLIPS)
        for i, found in enumerate(crowd(n, n, float(q)).pmf)
    )
    return Evidence(held.full, f"{held} probabilities")


@NOTE.states("002-(4.31)", "N − 1 ones: C(N−1, i) p^(i+1) q^(N−i) + C(N−1, i−1) p^(i−1) q^(N−i+1)", Status.WRONG)
def _one_zero() -> Evidence:
    """The first power of q must be N − 1 − i; as printed the probabilities do not add up to 1."""
    n = 5
    totals, right = [], []
    for power in (0, 1):
        pmf = [
            math.comb(n - 1, i) * P ** (i + 1) * Q ** (n - power - i)
            + (math.comb(n - 1, i - 1) * P ** (i - 1) * Q ** (n - i + 1) if i else 0)
            for i in range(n + 1)
        ]
        totals.append(sum(pmf))
        right.append(all(near(a, b) for a, b in zip(crowd(n, n - 1, 0.25).pmf, pmf, strict=True)))
    shown = f"N = 5, q = 1/4: printed adds up to {totals[0]}, ours to {totals[1]}"
    return Evidence(totals == [Fraction(7, 16), 1] and right == [False, True], shown)


@NOTE.states("002-(4.32)", "R_i = (N − i)/N · p/q + i/N · q/p", Status.CONFIRMED)
def _ratio_of_bits() -> Evidence:
    """The exact ratio of the two laws; p/q at 0, q/p at N, 1 at pN, linear in between."""
    held = score(
        near(outlier_ratio([i, n - i], float(q)), crowd_distribution(n, n - 1, q)[i] / crowd_distribution(n, n, q)[i])
        for n, q in itertools.product((1, 4, 9, 19), FLIPS)
        for i in range(n + 1)
    )
    first, even, last = (outlier_ratio([i, 16 - i], 0.25) for i in (0, 12, 16))
    ends = near(first, 3) and near(even, 1) and near(last, Fraction(1, 3))
    return Evidence(held.full and ends, f"{held} ratios; {first:.4f}, {even:.4f}, {last:.4f} at 0, pN, N (N = 16)")


@NOTE.states('002 "q^100=5e^-53"', "no one of 100 bits shows at q = 0.3: 5·10⁻⁵³", Status.CONFIRMED)
def _improbable() -> Evidence:
    """The notation means 5·10⁻⁵³."""
    distribution = crowd(100, 100, 0.3)
    none = float(distribution.pmf[0])
    return Evidence(
        distribution.low == 0 and near(none, Fraction(3, 10) ** 100) and round(none / 1e-53) == 5, f"{none:.4g}"
    )


@NOTE.states("002-(4.33)-(4.34)", "privacy is R at i = pN − 3σ being at most λ", Status.LOOSE)
def _one_sided() -> Evidence:
    """It bounds one order of one pair, up to a deviation beyond which nothing is said. At its own q for N = 1000, λ = 2
    the other order breaks the bound in 6 % of outcomes, and its δ is 25 times larger."""
    q = three_sigma_bit_flip(1000, LN2)
    zeros, outlier = neighbours(1000, 0, q)
    broken = sufficient_tail(zeros.pmf, outlier.pmf, LN2)
    forward, reverse = hockey_stick(outlier.pmf, zeros.pmf, LN2), hockey_stick(zeros.pmf, outlier.pmf, LN2)
    shown = f"q = {q:.6f}: 1/R > 2 in {broken:.1%} of outcomes; δ = {forward:.2e} one way, {reverse:.2e} the other"
    return Evidence(abs(broken - 0.063) < 5e-4 and reverse > 20 * forward and abs(reverse - 0.01246) < 5e-6, shown)


@NOTE.states("002-(4.35)", "max R = (N − pN + 3σ)/N · p/q + (pN + 3σ)/N · q/p", Status.WRONG)
def _wrong_sign() -> Evidence:
    """The second term needs pN − 3σ, as (4.36) has it."""
    n, q, deviation = 400, 0.1, 6
    p, spread = 1 - q, 3 * deviation
    printed = (n - p * n + spread) / n * p / q + (p * n + spread) / n * q / p
    meant = outlier_ratio([round(p * n) - spread, n - round(p * n) + spread], q)
    rule = 1 + 3 * (p - q) / deviation
    shown = f"N = 400, q = 0.1: printed {printed:.5f}, true {meant:.5f}"
    return Evidence(near(meant, rule) and printed > meant + 0.009, shown)


@NOTE.states("002-(4.36)-(4.41)", "1 + 3(p − q)/√(Npq) ≤ λ ⟺ pqN/(p − q)² ≥ 9/(λ − 1)²", Status.CONFIRMED)
def _rule_of_three() -> Evidence:
    """At crowds where pN − 3σ is a whole number the left side is the ratio itself; the equivalence on both sides of
    equality."""
    left, both = [], []
    for n, q, deviation in WHOLE:
        outcome = round((1 - q) * n) - 3 * deviation
        ratio = outlier_ratio([outcome, n - outcome], q)
        left.append(near(ratio, 1 + 3 * (1 - 2 * q) / deviation))
        both += [(ratio <= lam) == (count_variance(n, q) >= 9 / (lam - 1) ** 2) for lam in (ratio * 0.99, ratio * 1.01)]
    ratios, sides = score(left), score(both)
    return Evidence(ratios.full and sides.full, f"{ratios} ratios, {sides} sides")


@NOTE.states("002-(4.42)", "privacy is a lower bound on the error: σ(T̂) ≥ 3/(λ − 1)", Status.CONFIRMED)
def _least_error() -> Evidence:
    """As algebra: equality at the q of (4.45). As privacy it is loose: nothing bounds the other order, whose δ at
    N = 1000, λ = e² is 0.80."""
    held = score(
        near(count_stderr(n, three_sigma_bit_flip(n, epsilon)), 3 / math.expm1(epsilon))
        for n, epsilon in itertools.product((10, 1000, 10**6), (0.1, LN2, 2.0))
    )
    zeros, outlier = neighbours(1000, 0, three_sigma_bit_flip(1000, 2.0))
    reverse = hockey_stick(zeros.pmf, outlier.pmf, 2.0)
    return Evidence(
        held.full and abs(reverse - 0.80) < 5e-3, f"{held} equalities; yet δ(2) = {reverse:.3f} at N = 1,000"
    )


@NOTE.states("002-(4.43)-(4.45)", "q = ½(1 − 1/√(1 + 36/((λ − 1)² N))); 0.009 at N = 1000, λ = 2", Status.CONFIRMED)
def _least_flip() -> Evidence:
    """As algebra; the example is rounded. It certifies nothing, see (4.33)."""
    cases = []
    for n, epsilon in itertools.product((10, 1000, 10**6), (0.1, LN2, 2.0)):
        q = three_sigma_bit_flip(n, epsilon)
        closed = 0.5 * (1 - 1 / math.sqrt(1 + 36 / (math.expm1(epsilon) ** 2 * n)))
        cases += [near(q, closed, 1e-8), near(q * (1 - q) / (1 - 2 * q) ** 2, 9 / (math.expm1(epsilon) ** 2 * n))]
    held, example = score(cases), three_sigma_bit_flip(1000, LN2)
    return Evidence(held.full and near(example, 0.00876406756758793394), f"{held} equations; q = {example:.13f}")


@NOTE.states("002-(4.46)-(4.47)", "p/q ≤ 2 needs q ≥ 1/3", Status.CONFIRMED)
def _absolute_flip() -> Evidence:
    """The code's inverse lands on the side where the condition holds."""
    q = local_flip(1, LN2)
    return Evidence(near(q, Fraction(1, 3)) and (1 - q) / q <= 2, f"q = {q:.12f}, p/q = {(1 - q) / q:.12f}")


@NOTE.states('002 "37 times less noise"', "0.333/0.009: the noise falls 37-fold", Status.CONFIRMED)
def _less_noise() -> Evidence:
    """With the rounded q; 38-fold without rounding."""
    rounded, full = local_flip(1, LN2) / 0.009, local_flip(1, LN2) / three_sigma_bit_flip(1000, LN2)
    return Evidence(round(rounded) == 37 and round(full) == 38, f"{rounded:.2f}-fold; {full:.2f}-fold unrounded")


@NOTE.states("002 sigma=44.7 and 3", "σ(T̂) = 44.7 at q = 1/3, and 3 at q = 0.009", Status.CONFIRMED)
def _deviations() -> Evidence:
    """3.0412 at the rounded q."""
    local, rule, rounded = (count_stderr(1000, q) for q in (1 / 3, three_sigma_bit_flip(1000, LN2), 0.009))
    right = round(local, 1) == 44.7 and near(rule, 3) and round(rounded) == 3
    return Evidence(right, f"{local:.4f}; {rule:.4f}, and {rounded:.4f} at 0.009")


@NOTE.states('002 "precision grown 10 fold"', "the precision grows 10-fold", Status.WRONG)
def _precision() -> Evidence:
    """44.7/3 is 14.9."""
    gain = count_stderr(1000, 1 / 3) / count_stderr(1000, three_sigma_bit_flip(1000, LN2))
    return Evidence(abs(gain - 14.907) < 1e-3, f"{gain:.1f}-fold, printed 10")


@NOTE.states("002-(4.48)-(4.55)", "the means ± 3σ of S and S_m at q = 0.333 and 0.009", Status.CONFIRMED)
def _intervals() -> Evidence:
    """The first two are those of p = 0.6667; p = 2/3 gives [621.945, 711.388]."""
    printed = {
        (0.3333, 1000): (621.98, 711.42),
        (0.3333, 999): (621.65, 711.09),
        (0.009, 1000): (982.04, 999.96),
        (0.009, 999): (981.06, 998.98),
    }

    def interval(q: float, ones: int) -> tuple[float, float]:
        mean, spread = crowd_mean(1000, ones, q), 3 * math.sqrt(crowd_variance(1000, q))
        return mean - spread, mean + spread

    held = score(
        abs(found - wanted) < 0.006
        for (q, ones), ends in printed.items()
        for found, wanted in zip(interval(q, ones), ends, strict=True)
    )
    low, high = interval(1 / 3, 1000)
    third = abs(low - 621.945) < 6e-4 and abs(high - 711.388) < 6e-4
    return Evidence(held.full and third, f"{held} ends as printed; [{low:.3f}, {high:.3f}] at q = 1/3")


@NOTE.states('002 "99.98% of outcomes"', "the interval pN ± 3σ holds 99.98 % of the outcomes", Status.WRONG)
def _coverage() -> Evidence:
    """99.61 % at the exact q and 99.48 % at 0.009. (Even a normal law would have 99.73 %.)"""

    def inside(q: float) -> float:
        spread = 3 * math.sqrt(crowd_variance(1000, q))
        distribution = crowd(1000, 1000, q)
        s = np.arange(distribution.low, distribution.high + 1)
        return float(distribution.pmf[np.abs(s - crowd_mean(1000, 1000, q)) <= spread].sum())

    exact, rounded = inside(three_sigma_bit_flip(1000, LN2)), inside(0.009)
    right = abs(exact - 0.99608) < 6e-6 and abs(rounded - 0.99477) < 6e-6
    return Evidence(right and max(exact, rounded) < 0.9998, f"{exact:.3%}, and {rounded:.3%} at q = 0.009")


STATEMENTS: tuple[Statement, ...] = tuple(NOTE.statements)
