"""Note 003, §3.2 to §5: how much noise, how much precision, and records of few set bits."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np

from hubbub.accountant import account, calibrate, quadrature
from hubbub.accountant.theorems import attacks, records
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial_pmf
from hubbub.numeric.divergences import hockey_stick
from hubbub.numeric.ratios import flip_from_phi, phi
from research.notes.formulas.bounds import (
    local_epsilon,
    local_flip,
    simple_three_sigma_flip,
    simple_three_sigma_ratio,
    three_sigma_flip,
    three_sigma_ratio,
)
from research.notes.formulas.divergences import sufficient_tail
from research.notes.formulas.estimation import count_estimate, count_stderr
from research.notes.formulas.outliers import outlier_pair
from research.notes.formulas.ratios import outlier_ratio_mean, outlier_ratio_values, outlier_ratio_variance, psi
from research.notes.formulas.tail_quadrature import tail_probability
from research.notes.readings import readings
from research.notes.statements.catalogue import Evidence, Note, Status
from research.notes.statements.enumeration import transitions
from research.notes.statements.rationals import crowd_outcomes, shuffled, stick

LN2 = math.log(2)
GRID = tuple(itertools.product((100, 1000, 10**5, 10**7), (1, 2, 5, 10), (0.3, LN2, 2.0)))
"""N, L and ε at which formulas are compared."""
BIG = (10**7, 40, 2.0)
"""N, L and ε of the example of §4."""

note = Note("003")


def _near(a: float, b: float, absolute: float) -> bool:
    return abs(a - b) <= absolute


@cache
def _tail(n: int, width: int, q: float, epsilon: float) -> float:
    """P[R ≥ e^ε] of the outlier pair."""
    return sufficient_tail(*outlier_pair(n, width, q, 2**19), epsilon, strict=False)


@note.states("003-(3.12)", "q is enough if E R + 3√Var R ≤ λ = e^ε, for R is rarely larger", Status.CONFIRMED)
def _three_deviations() -> Evidence:
    """Confirmed as a formula only. It guarantees P[R ≥ λ] ≤ 1/10 (Cantelli), in one order of one pair; the normal
    0.00135 is exceeded several times over, and δ is not bounded at all."""
    solved = max(abs(three_sigma_ratio(n, l, three_sigma_flip(n, l, e)) / math.exp(e) - 1) for n, l, e in GRID)
    cases = [(n, l, e) for n, l, e in itertools.product((300, 3000), (2, 5), (LN2, 2.0))]
    tails = [_tail(n, l, three_sigma_flip(n, l, e), e) for n, l, e in cases]
    return Evidence(
        solved < 1e-9 and max(tails) <= 0.1 and max(tails) > 2 * 0.00135,
        f"solved to {solved:.0e}; P[R ≥ λ] from {min(tails):.4f} to {max(tails):.4f} in {len(cases)} cases, ≤ 1/10",
    )


@note.states(
    "003-(3.13),(3.15)", "1 + φ^L/N + 3√(φ^L/N + (ψ^L−φ^(2L))/N²) ≤ λ is a tighter version of (3.12)", Status.CONFIRMED
)
def _simpler() -> Evidence:
    """It lies above the left side of (3.12), so that “tighter” means a slightly larger q."""
    pairs = [(three_sigma_flip(n, l, e), simple_three_sigma_flip(n, l, e), n, l) for n, l, e in GRID]
    above = all(simple_three_sigma_ratio(n, l, a) >= three_sigma_ratio(n, l, a) for a, _, n, l in pairs)
    larger = all(b >= a for a, b, _, _ in pairs)
    a, b = three_sigma_flip(1000, 5, LN2), simple_three_sigma_flip(1000, 5, LN2)
    return Evidence(above and larger and b > a, f"N = 1000, L = 5, λ = 2: q = {a:.6f} by (3.12), {b:.6f} by (3.15)")


@note.states("003-(3.14),(3.16)", "q = 1/(1 + ((φ+1) + √((φ+1)²−4))/2)", Status.CONFIRMED)
def _inversion() -> Evidence:
    """Exact: (φ+1)² − 4 = (p/q − q/p)², so that the square root is rational for rational q."""
    exact = all(
        (r + 1 / r) ** 2 - 4 == (r - 1 / r) ** 2 and 1 / (1 + ((r + 1 / r) + (r - 1 / r)) / 2) == q
        for q in (Fraction(1, 4), Fraction(1, 1000), Fraction(49, 100))
        for r in [(1 - q) / q]
    )
    worst = max(abs(flip_from_phi(phi(q)) / q - 1) for q in np.geomspace(1e-8, 0.499, 60).tolist())
    return Evidence(exact and worst < 1e-12, f"q → φ → q returns to within {worst:.0e}")


@note.states(
    "003-s3.3 readings",
    "L = 5: q = .2446, .2109, .1778 (λ = 2) and .1692, .1424, .1310 (λ = e²) at N = 1000, 3000, 5000, with the tails "
    "printed beside them",
    Status.WRONG,
)
def _printedreadings() -> Evidence:
    """N = 5000, λ = 2 must be q = .1963; .1778 belongs to N = 10 000 and leaves a tail of .0427 instead of .0045. The
    other five q are the values of (3.12). Four of the printed tails are 8 to 25 % below the true ones, that of λ = e²,
    N = 1000 is right."""
    rows = readings()
    slip, others = rows[2], [row for i, row in enumerate(rows) if i != 2]
    low = [1 - row.printed_eta / row.eta for row in others]
    meant = three_sigma_flip(10_000, 5, LN2)
    return Evidence(
        _near(slip.q, 0.19634, 6e-6)
        and _near(slip.eta, 0.04271, 5e-4)
        and _near(meant, 0.1778, 5e-5)
        and all(_near(row.q, row.printed_q, 1.01e-4) for row in others)
        and sum(0.08 < x < 0.26 for x in low) == 4
        and _near(_tail(5000, 5, slip.q, LN2), 0.0066475, 1e-5),
        f"N = 5000: q = {slip.q:.5f}, not {slip.printed_q}, where P[R ≥ 2] = {slip.eta:.4f}, not {slip.printed_eta}; "
        f"other tails low by {', '.join(f'{x:.0%}' for x in low)}",
    )


def _concentration(n: int, width: int, q: float, epsilon: float) -> tuple[float, float, float]:
    """Bounds on P[R ≥ e^ε] by Hoeffding, Bernstein and Chernoff: the outlier's record and N − 1 others."""
    values = outlier_ratio_values(width, q)
    distribution, own = binomial_pmf(width, q), binomial_pmf(width, 1 - q)
    gap = n * (math.exp(epsilon) - outlier_ratio_mean(n, width, q))
    span = float(values[-1] - values[0])
    hoeffding = math.exp(-2 * gap * gap / (n * span * span))
    spread = n * n * outlier_ratio_variance(n, width, q)
    bernstein = math.exp(-gap * gap / (2 * (spread + span * gap / 3)))
    chernoff = min(
        (n - 1) * math.log1p(float(distribution @ np.expm1(t * values)))
        + math.log1p(float(own @ np.expm1(t * values)))
        - t * n * math.exp(epsilon)
        for t in np.geomspace(1e-4, 30.0, 400) / span
    )
    return hoeffding, bernstein, math.exp(min(chernoff, 0.0))


@note.states(
    "003 remark Hoeffding",
    "Hoeffding's inequality would prove that R(S) concentrates below λ",
    Status.WRONG,
)
def _hoeffding() -> Evidence:
    """In effect: one record may add (p/q)^L, and with that range Hoeffding proves a tail of at most 0.98 to 0.998.
    Bernstein proves 0.08 to 0.18, the best Chernoff bound 0.05 to 0.07, where the truth is below 0.009; for L = 40 all
    are void. Right: bracket the tail itself, as the accountant does."""
    rows = readings()
    bounds = [_concentration(row.n, 5, row.q, row.epsilon) for row in rows]
    n, width, epsilon = BIG
    far = _concentration(n, width, simple_three_sigma_flip(n, width, epsilon), epsilon)
    true = [_tail(row.n, 5, row.q, row.epsilon) for row in rows]
    first, second, third = ([b[i] for b in bounds] for i in range(3))
    sound = all(t <= c <= b for t, (_, b, c) in zip(true, bounds, strict=True))
    return Evidence(
        min(first) > 0.97
        and 0.05 < min(second) < max(second) < 0.2
        and 0.05 < min(third) < max(third) < 0.07
        and min(far) > 0.9
        and max(true) < 0.009
        and sound,
        f"Hoeffding {min(first):.3f}–{max(first):.3f}, Bernstein {min(second):.2f}–{max(second):.2f}, Chernoff "
        f"{min(third):.3f}–{max(third):.3f}, true {min(true):.4f}–{max(true):.4f}; L = 40: ≥ {min(far):.2f}",
    )


@note.states("003-s4 dhat, sigma(dhat)", "d̂ = (M−qN)/(p−q) has mean d and deviation √(Npq)/(p−q)", Status.CONFIRMED)
def _estimator() -> Evidence:
    """Exact for N = 4, 7 and every d."""
    q = Fraction(1, 5)
    exact = True
    for n in (4, 7):
        for d in range(n + 1):
            values = {s[0]: (s[0] - q * n) / (1 - 2 * q) for s in crowd_outcomes(n, d, q)}
            distribution = {s[0]: chance for s, chance in crowd_outcomes(n, d, q).items()}
            mean = sum(values[s] * distribution[s] for s in distribution)
            variance = sum((values[s] - mean) ** 2 * distribution[s] for s in distribution)
            exact &= mean == d and variance == n * q * (1 - q) / (1 - 2 * q) ** 2
            ours = count_estimate(list(distribution), n, 0.2)
            exact &= all(_near(float(values[s]), float(x), 1e-12) for s, x in zip(distribution, ours, strict=True))
    return Evidence(exact, f"N = 7, q = 1/5: σ = {count_stderr(7, 0.2):.4f} for every d")


@note.states("003-(4.1)-(4.3)", "Without a shuffler q ≥ 1/(1+λ^(1/L)): 0.465 for L = 5, λ = 2", Status.CONFIRMED)
def _local_noise() -> Evidence:
    """(p/q)^L = λ exactly there."""
    q = local_flip(5, LN2)
    back = local_epsilon(5, q)
    return Evidence(
        _near(q, 0.465398038619, 1e-11) and back <= LN2 * (1 + 1e-12), f"q = {q:.6f}, (p/q)⁵ = {math.exp(back):.9f}"
    )


@note.states("003 sigma=7.5 sqrt N", "At q = 0.465 the estimate deviates by 7.5 √N", Status.WRONG)
def _local_deviation() -> Evidence:
    """It deviates by 7.21 √N (7.12 at the rounded 0.465)."""
    exact, rounded = count_stderr(1, local_flip(5, LN2)), count_stderr(1, 0.465)
    return Evidence(
        _near(exact, 7.2077, 5e-5) and _near(rounded, 7.125, 1e-3) and max(exact, rounded) < 7.45,
        f"σ = {exact:.4f} √N, {rounded:.3f} √N at q = .465",
    )


@note.states(
    "003 sigma=.6 sqrt N, 12-fold", "At N = 5000 sufficient privacy needs 0.6 √N: a 12-fold gain", Status.WRONG
)
def _twelve_fold() -> Evidence:
    """With the q that the rule really gives: 0.654 √N and an 11.0-fold gain; at the printed q = .1778, which is too
    small, 0.593 and 12.2. And the rule certifies nothing: at the same q, δ < 0.0006 is all that is proven, and an
    attack attains 0.0004."""
    local = count_stderr(1, local_flip(5, LN2))
    q = simple_three_sigma_flip(5000, 5, LN2)
    rule, printed = count_stderr(1, q), count_stderr(1, 0.1778)
    found = account(Protocol(q), Schema.bits(5), 5000, epsilon=LN2)
    return Evidence(
        _near(rule, 0.6543, 5e-5)
        and _near(local / rule, 11.02, 5e-3)
        and _near(local / printed, 12.15, 5e-3)
        and 0.0004 < found.lower_bound < found.delta < 0.0006,
        f"σ = {rule:.4f} √N, {local / rule:.2f}-fold ({found.lower_bound:.5f} ≤ δ ≤ {found.delta:.5f}); at q = .1778 "
        f"{printed:.4f}, {local / printed:.2f}-fold",
    )


@note.states(
    '003 L=40,N=1e7: q_local=.4875, "20x", 200K',
    "L = 40, N = 10⁷, λ = e²: local noise is q = .4875, σ = 20 √N, counts are off by 200 000",
    Status.CONFIRMED,
)
def _long_records_local() -> Evidence:
    """Three deviations."""
    n, width, epsilon = BIG
    q = local_flip(width, epsilon)
    factor, reach = count_stderr(1, q), 3 * count_stderr(n, q)
    return Evidence(
        _near(q, 0.4875026, 5e-8) and _near(factor, 19.998, 5e-4) and _near(reach, 189717, 1),
        f"q = {q:.7f}, σ = {factor:.3f} √N, 3σ = {reach:,.0f}",
    )


@note.states(
    "003 q=.351, 1.6, 12.5x, 15K",
    "There sufficient privacy needs q = .351: σ = 1.6 √N, 12.5 times better, errors below 15 000",
    Status.CONFIRMED,
)
def _long_records() -> Evidence:
    """The arithmetic of (3.15). 98.8 % of Var R is the outlier's own term, so that R is nowhere near normal: P[R ≥ λ]
    = 0.00133, δ = 6.1·10⁻⁴ in the notes' order; for all collections the blanket proves no more than δ ≤ 0.21."""
    n, width, epsilon = BIG
    q = simple_three_sigma_flip(n, width, epsilon)
    factor, gain = count_stderr(1, q), count_stderr(1, local_flip(width, epsilon)) / count_stderr(1, q)
    own = (psi(q) ** width - phi(q) ** (2 * width)) / n**2
    share = own / outlier_ratio_variance(n, width, q)
    x, other, distribution = attacks.likelihoods((width, 0, 0), q)
    found = tail_probability(x - math.exp(epsilon) * other, distribution, n - 1, extra=distribution * x, tolerance=0.01)
    delta = quadrature.positive_mean(*attacks.background((width, 0, 0), q, epsilon), n)
    blanket = quadrature.positive_mean(*records.uniform_blanket(width, q, epsilon), n, tolerance=0.1)
    proven = math.exp(blanket.upper)
    return Evidence(
        _near(q, 0.3509144156, 5e-11)
        and 0.2 < proven < 0.22
        and _near(factor, 1.60061, 5e-6)
        and _near(gain, 12.494, 5e-4)
        and _near(share, 0.988, 1e-3)
        and math.exp(found.lower) <= 0.00142
        and math.exp(found.upper) >= 0.00124
        and _near(math.exp(delta.upper), 6.1e-4, 5e-6),
        f"q = {q:.7f}, σ = {factor:.4f} √N, gain {gain:.2f}, 3σ = {3 * factor * math.sqrt(n):,.0f}; outlier's share "
        f"{share:.1%} of Var R, P[R ≥ λ] = {math.exp(found.upper):.5f}, δ {math.exp(delta.upper):.1e}, "
        f"≤ {proven:.2f} proven",
    )


@note.states('003 "1% of population with 10% error"', "That estimates 1 % of the people within 10 %", Status.LOOSE)
def _one_per_cent() -> Evidence:
    """Within 15.2 % if “not exceeding” means three deviations, as it does in the sentence before; 10.1 % are two."""
    n, width, epsilon = BIG
    sigma = count_stderr(n, simple_three_sigma_flip(n, width, epsilon)) / (n / 100)
    return Evidence(
        _near(3 * sigma, 0.152, 5e-4) and _near(2 * sigma, 0.101, 5e-4), f"2σ = {2 * sigma:.1%}, 3σ = {3 * sigma:.1%}"
    )


def _backgrounds(n: int, q: float, epsilon: float, ones: int = 1) -> list[float]:
    """δ if the others hold x′ (the notes' case), x, or a third record disjoint from both."""
    kinds = [(2 * ones, 0, 0), (0, 2 * ones, 0), (ones, ones, ones)]
    return [math.exp(quadrature.positive_mean(*attacks.background(kind, q, epsilon), n).upper) for kind in kinds]


@note.states(
    "003-s5 (5.1)-(5.10), k set bits == L=2k",
    "Records with at most k set bits need the noise of arbitrary records of L = 2k bits, however long they are",
    Status.WRONG,
)
def _few_set_bits() -> Evidence:
    """Equal only if all others hold x′ (exactly so, d = 2, 3, 4). With everybody at a third category the variance of
    the ratio is 2φ^(2k) − 2φ^k, larger than φ^(2k) − 1 by (φ^k−1)². N = 1000, λ = 2, q of (3.15): δ = 1.2·10⁻², not
    1.9·10⁻⁴. Right: calibrate over all collections."""
    q = Fraction(1, 4)
    ratio = Fraction(2)
    two = transitions(2, q)
    plain = stick(shuffled([two[3], two[3], two[0]]), shuffled([two[3]] * 3), ratio)
    equal = []
    for width in (2, 3, 4):
        rows, first, second = transitions(width, q), 2 ** (width - 1) - 1, 2 ** (width - 1) + 2 ** (width - 2) - 1
        one_hot = shuffled([rows[first], rows[first], rows[second]]), shuffled([rows[first]] * 3)
        equal.append(stick(*one_hot, ratio))
    n = 1000
    flip_probability = simple_three_sigma_flip(n, 2, LN2)
    deltas = _backgrounds(n, flip_probability, LN2)
    proven = account(Protocol(flip_probability), Schema.one_hot(3), n, epsilon=LN2).delta
    mended = calibrate(Schema.one_hot(3), n, Budget(LN2, deltas[0])).protocol.q
    grid = hockey_stick(*outlier_pair(n, 2, flip_probability), LN2)
    return Evidence(
        set(equal) == {plain}
        and _near(deltas[0], grid, 1e-6)
        and _near(deltas[0], 1.9e-4, 5e-6)
        and _near(deltas[2], 1.21e-2, 1e-4)
        and proven >= deltas[2]
        and max(_backgrounds(n, mended, LN2)) <= deltas[0] < deltas[2],
        f"N = 1000, q = {flip_probability:.4f}: δ {deltas[0]:.1e} (notes), {deltas[1]:.1e} (reversed), {deltas[2]:.1e} "
        f"(third), ≤ {proven:.1e} proven; {deltas[0]:.1e} needs q = {mended:.3f}",
    )


@note.states(
    '003-s5 remark "want to show formally"', "The expressions of R(S) for the two set-ups are equivalent", Status.EMPTY
)
def _formally() -> Evidence:
    """Nothing is shown. In its place: in a crowd at y the ratio of one message has the variance E(a−b)² = 2φ^(2k) −
    2φ^k for three disjoint records of k ones, against φ^(2k) − 1 with the others at x′; the difference is (φ^k − 1)² >
    0."""
    furthest = 0.0
    shown = ""
    for k, q in itertools.product((1, 2, 3), (0.05, 0.0877, 0.3)):
        power = phi(q) ** k
        found = []
        for kind in ((k, k, k), (2 * k, 0, 0)):
            x, other, distribution = attacks.likelihoods(kind, q)
            found.append(float(distribution @ (x - other) ** 2))
        meant = 2 * power * power - 2 * power, power * power - 1
        furthest = max(furthest, *(abs(a / b - 1) for a, b in zip(found, meant, strict=True)))
        furthest = max(furthest, abs((found[0] - found[1]) / (power - 1) ** 2 - 1))
        if (k, q) == (1, 0.0877):
            shown = f"k = 1, q = .0877: variance {found[0]:.1f} with a third category, {found[1]:.1f} without"
    return Evidence(furthest < 1e-9, shown)


STATEMENTS = tuple(note.statements)
