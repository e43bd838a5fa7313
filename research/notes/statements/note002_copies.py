"""[002 §5]: k copies of single bits, what their ratio is, and what they gain."""

import itertools
import math
from fractions import Fraction

import numpy as np

from hubbub.accountant import calibrate
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import crowd
from hubbub.numeric.divergences import gaussian_signal
from research.notes.formulas.bounds import copies_outlier_ratio_bound, three_sigma_copies_flip
from research.notes.formulas.estimation import count_estimate, count_stderr, count_variance
from research.notes.formulas.ratios import copies_outlier_ratio
from research.notes.statements.catalogue import Evidence, Note, Statement, Status
from research.notes.statements.enumeration import (
    FLIPS,
    LN2,
    QUARTER,
    crowd_distribution,
    dot,
    draw_fractions,
    near,
    product,
    score,
)

NOTE = Note("002")
Q, P = QUARTER, 1 - QUARTER
WHOLE = ((25, 0.2, 2), (100, 0.2, 4), (400, 0.1, 6), (1600, 0.1, 12), (10_000, 0.2, 40))
"""(N, q, σ) with a whole σ = √(Npq), so that pN − 3σ is an outcome."""


@NOTE.states("002-(5.1)-(5.4)", "k copies: T̂ = (S − qkN)/(k(p − q)), Var T̂ = pqN/(k(p − q)²)", Status.CONFIRMED)
def _copies_estimator() -> Evidence:
    """By the exact law of the kN messages, for every T."""
    cases = []
    for n, k, q in itertools.product((3, 4), (1, 3), FLIPS):
        values = count_estimate(np.arange(k * n + 1), n, float(q), k=k)
        for ones in range(n + 1):
            distribution = np.array([float(x) for x in crowd_distribution(k * n, k * ones, q)])
            variance = count_variance(n, float(q), k=k)
            cases += [
                near(float(distribution @ values), ones),
                near(float(distribution @ (values - ones) ** 2), variance),
            ]
            cases.append(near(variance, q * (1 - q) * n / (k * (1 - 2 * q) ** 2)))
    held = score(cases)
    return Evidence(held.full, f"{held} moments")


@NOTE.states("002-s5.2 gf", "G_m of k copies is the k-th power of G_m", Status.CONFIRMED)
def _copies_generating_function() -> Evidence:
    """Exact. (The sum for m − 1 is printed up to kN; it ends at N.)"""
    cases = []
    for n, m, k in ((2, 1, 2), (3, 1, 3), (4, 3, 2), (3, 2, 4)):
        power = product(*[crowd_distribution(n, m)] * k)
        cases += [power == list(crowd_distribution(k * n, k * m)), len(crowd_distribution(n, m - 1)) == n + 1]
        cases += [near(a, b) for a, b in zip(crowd(n, m, 0.25, k).pmf, power, strict=True)]
    held = score(cases)
    return Evidence(held.full, f"{held} coefficients")


@NOTE.states("002-(5.5) argument", "the coefficients of a power are products of coefficients", Status.WRONG)
def _single_products() -> Evidence:
    """They are sums of products, so that Theorem 4.1 does not carry over factor by factor. Instead: t ↦ P_(kN,t)(j) is
    log-concave, and a log-concave sequence taken at every k-th place stays so."""
    a = crowd_distribution(2, 1)
    b = product(a, a)[2]
    single = {x * y for x in a for y in a}
    sparse = score(
        crowd_distribution(k * n, k * m, q)[j] ** 2
        >= crowd_distribution(k * n, k * m - k, q)[j] * crowd_distribution(k * n, k * m + k, q)[j]
        and crowd_distribution(k * n, k * m, q)[j] ** 2
        >= crowd_distribution(k * n, k * m - 1, q)[j] * crowd_distribution(k * n, k * m + 1, q)[j]
        for n, k, q in itertools.product((2, 4), (2, 3), FLIPS)
        for m in range(1, n)
        for j in range(k * n + 1)
    )
    right = b == 2 * a[0] * a[2] + a[1] ** 2 == Fraction(59, 128) and b not in single
    return Evidence(right and sparse.full, f"b_2 = 2a_0a_2 + a_1² = {b}, no single product; log-concave in {sparse}")


@NOTE.states("002-(5.5) conclusion", "also with k copies the ratio grows with m", Status.CONFIRMED)
def _copies_growing_ratio() -> Evidence:
    """Exact, N ≤ 5, k ≤ 3; equality at both ends of j, as with one copy."""
    cases: list[bool] = []
    ends: list[bool] = []
    code: list[bool] = []
    for n, k, q in itertools.product((2, 3, 5), (1, 2, 3), FLIPS):
        distributions = [crowd_distribution(k * n, k * m, q) for m in range(n + 1)]
        code += [
            near(a, b) for m in (0, n - 1) for a, b in zip(crowd(n, m, float(q), k).pmf, distributions[m], strict=True)
        ]
        for m, j in itertools.product(range(1, n), range(k * n + 1)):
            gain = distributions[m][j] ** 2 - distributions[m - 1][j] * distributions[m + 1][j]
            (cases if 0 < j < k * n else ends).append(gain > 0 if 0 < j < k * n else gain == 0)
    inner, outer = score(cases), score(ends)
    return Evidence(
        inner.full and outer.full and score(code).full, f"{inner} steps strictly, {outer} ends with equality"
    )


@NOTE.states("002-(5.6)-(5.9)", "R_s = Σ_i C(k, i) C(kN − k, s − i)/C(kN, s) · (p/q)^(k−2i)", Status.CONFIRMED)
def _copies_ratio() -> Evidence:
    """The exact ratio of the two laws of kN messages."""
    held = score(
        near(
            copies_outlier_ratio(s, n, float(q), k),
            crowd_distribution(k * n, k * (n - 1), q)[s] / crowd_distribution(k * n, k * n, q)[s],
        )
        for n, k, q in itertools.product((1, 2, 5), (1, 2, 4), FLIPS)
        for s in range(k * n + 1)
    )
    return Evidence(held.full, f"{held} ratios")


def _drawn_share(n: int, k: int, s: int, i: int) -> Fraction:
    """C(kN − k, s − i)/C(kN, s), and 0 where i or k − i cannot be drawn."""
    total = k * n
    return Fraction(math.comb(total - k, s - i), math.comb(total, s)) if i <= s else Fraction(0)


@NOTE.states("002-(5.10)", "C(kN−k, s−i)/C(kN, s) = Π(s − j) Π(kN − s − j)/Π(kN − j)", Status.CONFIRMED)
def _binomial_ratio() -> Evidence:
    """Exact, all s and i for kN ≤ 20."""
    held = score(
        _drawn_share(n, k, s, i)
        == Fraction(
            math.prod(s - j for j in range(i)) * math.prod(k * n - s - j for j in range(k - i)),
            math.prod(k * n - j for j in range(k)),
        )
        for n, k in itertools.product((1, 2, 5), (1, 2, 4))
        for s in range(k * n + 1)
        for i in range(k + 1)
    )
    return Evidence(held.full, f"{held} terms")


@NOTE.states("002-(5.11)", "(A − e)/(B − e) < A/B for 0 < A < B and e > 0", Status.CONFIRMED)
def _subtracted() -> Evidence:
    """For e < B, which is how it is used; beyond B it turns round."""
    draw = draw_fractions(11)
    triples = [[*sorted((next(draw), next(draw))), next(draw)] for _ in range(300)]
    held = score((a - e) / (b - e) < a / b for a, b, e in triples if a < b and e < b)
    beyond = score((a - e) / (b - e) < a / b for a, b, e in triples if a < b < e)
    return Evidence(held.full and beyond.held == 0 < beyond.total, f"{held} with e < B; {beyond} with e > B")


@NOTE.states("002-(5.12)", "each term is below s^i (kN − s)^(k−i)/(kN)^k", Status.WRONG)
def _term_by_term() -> Evidence:
    """The denominator shrinks for all k factors, but its factors no longer pair with those of the numerator: N = 2,
    k = 2, s = 1, i = 1 gives 1/4 > 3/16. Only the sum (5.13) is bounded."""
    printed, sums = [], []
    for n, k in itertools.product((2, 3, 5), (2, 3, 4)):
        for s in range(k * n + 1):
            drawn = [_drawn_share(n, k, s, i) for i in range(k + 1)]
            bounds = [Fraction(s**i * (k * n - s) ** (k - i), (k * n) ** k) for i in range(k + 1)]
            printed += [a <= b for a, b in zip(drawn, bounds, strict=True)]
            weights = [math.comb(k, i) * (P / Q) ** (k - 2 * i) for i in range(k + 1)]
            exact, bound = dot(weights, drawn), dot(weights, bounds)
            sums.append(exact <= bound and near(copies_outlier_ratio(s, n, 0.25, k), exact))
    terms, whole = score(printed), score(sums)
    example = _drawn_share(2, 2, 1, 1)
    shown = f"{example} > 3/16; {terms.failed} of {terms.total} terms violate it; {whole} sums do not"
    return Evidence(example == Fraction(1, 4) > Fraction(3, 16) and terms.failed > 0 and whole.full, shown)


@NOTE.states("002-(5.13)", "R_s < Σ_i C(k, i) (s/kN)^i (1 − s/kN)^(k−i) (p/q)^(k−2i)", Status.CONFIRMED)
def _copies_bound() -> Evidence:
    """With ≤: equality for k = 1, s = 0 and s = kN. Drawing without replacement is below drawing with it in convex
    order (Hoeffding 1963), and i ↦ (p/q)^(k−2i) is convex."""
    below: list[bool] = []
    equal: list[bool] = []
    for n, k, q in itertools.product((2, 3, 5), (1, 2, 4), FLIPS):
        for s in range(k * n + 1):
            r, share = (1 - q) / q, Fraction(s, k * n)
            exact = crowd_distribution(k * n, k * (n - 1), q)[s] / crowd_distribution(k * n, k * n, q)[s]
            bound = (share / r + (1 - share) * r) ** k
            same = near(copies_outlier_ratio_bound(s, n, float(q), k), bound)
            edge = k == 1 or s in {0, k * n}
            (equal if edge else below).append(same and (exact == bound if edge else exact < bound))
    strict, edges = score(below), score(equal)
    return Evidence(strict.full and edges.full, f"{strict} strictly below, {edges} edges equal")


@NOTE.states("002-(5.14)-(5.20)", "at s = pkN − 3√(pqkN) the bound is (1 + 3(p − q)/√(pqkN))^k", Status.CONFIRMED)
def _copies_rule() -> Evidence:
    """At crowds where that s is a whole number (n there means N)."""
    cases = []
    for messages, q, deviation in WHOLE:
        for k in (1, 5, 25):
            s = round((1 - q) * messages) - 3 * deviation
            closed = (1 + 3 * (1 - 2 * q) / deviation) ** k
            cases.append(near(copies_outlier_ratio_bound(s, messages // k, q, k), closed, 1e-9))
    held = score(cases)
    return Evidence(held.full, f"{held} crowds")


@NOTE.states("002-(5.21)-(5.24)", "q(k) = ½(1 − 1/√(1 + 36/((λ^(1/k) − 1)² kN)))", Status.CONFIRMED)
def _copies_flip() -> Evidence:
    """As algebra. With it σ(T̂) = 3/(k(λ^(1/k) − 1)), which grows with k: see the claim."""
    cases = []
    for n, k, epsilon in itertools.product((100, 1000), (1, 2, 16), (LN2, 2.0)):
        q = three_sigma_copies_flip(n, epsilon, k)
        cases.append(near((1 + 3 * (1 - 2 * q) / math.sqrt(q * (1 - q) * k * n)) ** k, math.exp(epsilon), 1e-9))
        cases.append(near(count_stderr(n, q, k=k), 3 / (k * math.expm1(epsilon / k)), 1e-9))
    held = score(cases)
    found = ", ".join(f"{three_sigma_copies_flip(1000, LN2, k):.5f}" for k in (1, 2, 4, 16))
    return Evidence(held.full, f"{held} equations; q = {found} for k = 1, 2, 4, 16 (N = 1,000, λ = 2)")


@NOTE.states("002-s5 claim", "k copies gain √k in precision at the same privacy", Status.WRONG)
def _copies_gain() -> Evidence:
    """For single bits the note's own q(k) makes σ grow, towards 3/ln λ; calibrated exactly at equal (ε, δ) it falls by
    a bounded factor towards the Gaussian mechanism. For wider records the certified gain is real,
    and below √k."""
    own = [count_stderr(1000, three_sigma_copies_flip(1000, LN2, k), k=k) for k in (1, 4, 16, 4096)]

    def calibrated(width: int, delta: float, k: int) -> float:
        found = calibrate(Schema.bits(width), 1000, Budget(LN2, delta), k=k)
        return count_stderr(1000, found.protocol.q, k=k)

    single = [calibrated(1, 1e-6, k) for k in (1, 16)]
    limit = 1 / gaussian_signal(LN2, 1e-6)
    wide = calibrated(5, 1e-3, 1) / calibrated(5, 1e-3, 4)
    grown = own == sorted(own) and abs(own[2] - 4.235) < 5e-4 and near(own[-1], 3 / LN2, 1e-3)
    shown = (
        f"k = 1 → 16: σ = {own[0]:.2f} → {own[2]:.2f} by (5.24), {single[0]:.2f} → {single[1]:.2f} exactly"
        f" (limit {limit:.2f}); five bits, k = 4: {wide:.2f}-fold"
    )
    bounded = limit < single[1] < single[0] < 1.3 * single[1]
    return Evidence(grown and bounded and 1 < wide < 2, shown)


STATEMENTS: tuple[Statement, ...] = tuple(NOTE.statements)
