"""[000 §6.4–9]: single bits by distribution functions, quantiles and limits; who is worst; ratios of sums."""

import itertools
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from hubbub.numeric.crowd import crowd, neighbours
from hubbub.numeric.divergences import gaussian_delta, hockey_stick
from research.notes.formulas.crowd import crowd_mean, crowd_variance
from research.notes.formulas.ratios import privacy_ratios, vector_privacy_ratio
from research.notes.statements.catalogue import Evidence, Note, Statement, Status
from research.notes.statements.enumeration import (
    FLIPS,
    QUARTER,
    HistogramLaw,
    at,
    by_output,
    crowd_distribution,
    dense,
    histogram_distribution,
    near,
    score,
)
from research.notes.statements.note000_single import privacy, ratio
from research.notes.statements.note001 import ratio_lemmas

NOTE = Note("000")
Q, P = QUARTER, 1 - QUARTER
Array = npt.NDArray[np.float64]


@NOTE.states(
    "000-s6.4 cdf recursions, differences, interlacing",
    "F_n,m from F_(n−1); F_n,m(x) ≤ F_(n,m−1)(x) ≤ F_n,m(x + 1)",
    Status.CONFIRMED,
)
def _distribution_functions() -> Evidence:
    """Exact, n ≤ 8, with both differences of cdfs and of probabilities; and interlaced in the code's cdfs."""
    cases = []
    for n, q in itertools.product(range(1, 9), FLIPS):
        p = 1 - q
        for m in range(1, n + 1):
            now, less, base = (
                crowd_distribution(n, m, q),
                crowd_distribution(n, m - 1, q),
                crowd_distribution(n - 1, m - 1, q),
            )
            found = crowd(n, m, float(q))
            for x in range(-1, n + 1):
                f, g, b = (sum(distribution[: x + 1]) for distribution in (now, less, base))
                b_less, f_next = sum(base[: max(x, 0)]), sum(now[: x + 2])
                cases.append(f == p * b_less + q * b and g == q * b_less + p * b)
                cases.append(f - g == -(p - q) * at(base, x))
                cases.append(f_next - g == q * (at(base, x) + at(base, x + 1)))
                cases.append(f <= g <= f_next and near(found.cdf(x), f))
                cases.append(at(now, x) - at(less, x) == -(p - q) * (at(base, x) - at(base, x - 1)))
                cases.append(at(now, x + 1) - at(less, x) == q * (at(base, x + 1) - at(base, x - 1)))
    distributions = [crowd(300, m, 0.25) for m in (99, 100)]
    for x in range(100, 161, 10):
        cases.append(distributions[1].cdf(x) <= distributions[0].cdf(x) <= distributions[1].cdf(x + 1))
    held = score(cases)
    return Evidence(held.full, f"{held} identities and inequalities")


@NOTE.states(
    "000-s6.5 three monotonicities, last ratio formula",
    "π falls in s, grows in m, and falls when both grow",
    Status.CONFIRMED,
)
def _three_monotonicities() -> Evidence:
    """Exact, n ≤ 8, with the displayed forms of π(s; m) and π(s; m)/π(s; m−1); and in the code's ratios of 300."""
    cases = []
    for n, q in itertools.product(range(2, 9), FLIPS):
        gain = 1 - 2 * q
        for m, s in itertools.product(range(n), range(n + 1)):
            here = privacy(n, m, s, q)
            if s < n:
                cases.append(here > privacy(n, m, s + 1, q))
            if m + 1 < n:
                cases.append(here <= privacy(n, m + 1, s, q))
                cases.append(s == n or here >= privacy(n, m + 1, s + 1, q))
            if m:
                steps = [
                    gain * (at(crowd_distribution(n - 1, o, q), s - 1) - at(crowd_distribution(n - 1, o, q), s))
                    for o in (m - 1, m)
                ]
                less, distribution = crowd_distribution(n, m - 1, q)[s], crowd_distribution(n, m, q)[s]
                cases.append(here == (less + steps[0]) / (distribution + steps[1]))
                cases.append(here / privacy(n, m - 1, s, q) == (1 + steps[0] / less) / (1 + steps[1] / distribution))
    table = np.array([privacy_ratios(300, m, 0.25) for m in range(100, 104)])
    tight = 1 + 1e-12
    code = bool(
        (np.diff(table) < 0).all()
        and (table[:-1] <= table[1:] * tight).all()
        and (table[1:, 1:] <= table[:-1, :-1] * tight).all()
    )
    held = score(cases)
    return Evidence(held.full and code, f"{held} cases; {table.size:,} ratios of the code")


@NOTE.states(
    "000-s6.6 quantile claim + iff", "τ_n(m) is τ_n(m−1) or one more; when, by one probability", Status.CONFIRMED
)
def _quantiles() -> Evidence:
    """Exact, n ≤ 9 and six levels, which no cdf attains exactly; the code's quantiles are the same."""
    cases = []
    levels = [Fraction(x) / 997 for x in (10, 100, 333, 600, 900, 996)]
    for n, q, alpha in itertools.product((1, 4, 9), FLIPS, levels):
        found = []
        for m in range(n + 1):
            below = list(itertools.accumulate(crowd_distribution(n, m, q)))
            found.append(next(s for s, total in enumerate(below) if total >= alpha))
            cases.append(crowd(n, m, float(q)).quantile(float(alpha)) == found[m])
        for m in range(1, n + 1):
            cases.append(found[m] - found[m - 1] in {0, 1})
            room = sum(crowd_distribution(n, m - 1, q)[: found[m - 1] + 1]) - alpha
            same = room >= (1 - 2 * q) * at(crowd_distribution(n - 1, m - 1, q), found[m - 1])
            cases.append((found[m] == found[m - 1]) == same)
    held = score(cases)
    return Evidence(held.full, f"{held} quantiles")


def _normal_error(n: int, m: int, q: float) -> tuple[float, float]:
    """sup |F − Φ| of the standardized count, as it is and with the correction by 1/2."""
    distribution = crowd(n, m, q)
    s = np.arange(distribution.low, distribution.high + 1)
    deviation = math.sqrt(crowd_variance(n, q))
    upper = np.cumsum(distribution.pmf)
    plain, corrected = (ndtr((s - crowd_mean(n, m, q) + shift) / deviation) for shift in (0.0, 0.5))
    plain_error = max(np.abs(upper - plain).max(), np.abs(upper - distribution.pmf - plain).max())
    return float(plain_error), float(np.abs(upper - corrected).max())


@NOTE.states("000-s6.7 asymptotic approach", "(a heading only)", Status.EMPTY)
def _asymptotics() -> Evidence:
    """Ours: mean nq + m(p − q), variance npq, third cumulant (n − 2m)pq(p − q); sup |F − Φ| ≤ 0.56(p² + q²)/√(npq) by
    Berry and Esseen (constant: Shevtsova 2010); and δ(ε) tends to that of two normal laws μ = (p − q)/√(npq) apart, a
    first guess and no certificate."""
    cumulants = []
    for n, q in itertools.product((3, 8), FLIPS):
        p = 1 - q
        for m in range(n + 1):
            distribution = crowd_distribution(n, m, q)
            mean = sum(s * c for s, c in enumerate(distribution))
            moments = [sum((s - mean) ** k * c for s, c in enumerate(distribution)) for k in (2, 3)]
            cumulants.append(mean == n * q + m * (p - q))
            cumulants.append(moments == [n * p * q, (n - 2 * m) * p * q * (p - q)])
            cumulants.append(near(crowd_mean(n, m, float(q)), mean) and near(crowd_variance(n, float(q)), moments[0]))
    errors = []
    for n, flip_probability in itertools.product((20, 400, 10_000), (0.05, 0.25, 0.45)):
        root = math.sqrt(crowd_variance(n, flip_probability))
        for m in (0, n // 3, n):
            plain, corrected = _normal_error(n, m, flip_probability)
            errors.append(
                (
                    plain * root <= 0.56 * ((1 - flip_probability) ** 2 + flip_probability * flip_probability),
                    corrected * root,
                )
            )
    held, within = score(cumulants), score(fits for fits, _ in errors)
    worst = max(error for _, error in errors)
    zero, one = neighbours(100_000, 50_000, 0.25)
    signal = 0.5 / math.sqrt(crowd_variance(100_000, 0.25))
    quotient = hockey_stick(zero.pmf, one.pmf, signal) / gaussian_delta(signal, signal)
    shown = f"{held} cumulants; {within} within Berry–Esseen; δ/δ_Gauss = {quotient:.4f} at n = 10⁵"
    return Evidence(held.full and within.full and worst < 0.066 and abs(quotient - 1) < 0.01, shown)


def _location_error(n: int, m: int, q: float) -> float:
    """sup_x |F_n,m(x) − F_n,0(x − m(p − q))|, over both kinds of jumps and from both sides; q a multiple of 2⁻⁴."""
    shift = m * (1 - 2 * q)
    jumps = np.unique(np.concatenate([np.arange(n + 1.0), np.arange(n + 1.0) + shift]))
    ones, zeros = (np.append(0.0, np.cumsum(dense(crowd(n, k, q), n))) for k in (m, 0))

    def gap(x: Array) -> float:
        whole = [np.clip(np.floor(x - move) + 1, 0, n + 1).astype(int) for move in (0.0, shift)]
        return float(np.abs(ones[whole[0]] - zeros[whole[1]]).max())

    return max(gap(jumps), gap(jumps - 1 / 64))


@NOTE.states(
    '000-s6.8 F_{n,m}(x)~F_{n,0}(x-m(p-q)); "quantify"',
    "the A_n(m) are nearly shifted copies: F_n,m(x) ≈ F_n,0(x − m(p − q))",
    Status.CONFIRMED,
)
def _location() -> Evidence:
    """Qualitatively; the announced quantification is missing. Ours: by Berry and Esseen twice the error is at most
    1.12(p² + q²)/√(npq); measured it is below 0.4/√(npq). The skewness runs from right (m = 0) to left (m = n)."""
    found = []
    for n, q in itertools.product((20, 100, 1000), (0.0625, 0.25, 0.4375)):
        root = math.sqrt(crowd_variance(n, q))
        errors = [_location_error(n, m, q) for m in (1, n // 2, n - 1, n)]
        found.append((max(errors) * root, 1.12 * ((1 - q) ** 2 + q * q)))
    held = score(error <= bound for error, bound in found)
    falling_error = _location_error(1000, 500, 0.25) < 0.3 * _location_error(20, 10, 0.25)
    thirds = [sum((s - 2 * m - 2) ** 3 * c for s, c in enumerate(crowd_distribution(8, 4 * m))) for m in (0, 1, 2)]
    skew = thirds[0] > 0 == thirds[1] > thirds[2]
    worst = max(error for error, _ in found)
    shown = f"{held} within the bound; largest error {worst:.3f}/√(npq)"
    return Evidence(held.full and 0.2 < worst < 0.4 and falling_error and skew, shown)


@NOTE.states(
    "000-s7 formulas", "π for one bit as weights q, p and p, q of two neighbouring probabilities", Status.CONFIRMED
)
def _weights() -> Evidence:
    """With 1 − P[R(x) = 1] for the changed bit, for both values of x; against the code's ratios of one-bit vectors."""
    cases = []
    for n, own in itertools.product(range(1, 6), (0, 1)):
        chance = P if own else Q
        for m, s in itertools.product(range(n), range(n + 1)):
            below, here = at(crowd_distribution(n - 1, m), s - 1), at(crowd_distribution(n - 1, m), s)
            formula = ((1 - chance) * below + chance * here) / (chance * below + (1 - chance) * here)
            wanted = vector_privacy_ratio((s, n - s), (m, n - 1 - m), 1 - own, own, 0.25)
            cases.append(near(wanted, formula))
    held = score(cases)
    return Evidence(held.full, f"{held} ratios")


@NOTE.states("000-s7 claim (7.1)-(7.5)", "all ones among the others maximise ρ, and so π, if x_1 = 1", Status.CONFIRMED)
def _all_ones() -> Evidence:
    """Exact, n ≤ 9, with the step (7.5) of its proof; and in the code's ratios."""
    cases = []
    for n, q in itertools.product(range(1, 10), FLIPS):
        p = 1 - q
        for s in range(1, n + 1):
            cases += [ratio(n, n, s, q) >= ratio(n, m, s, q) for m in range(n)]
            distribution = crowd_distribution(n - 1, n - 1, q)
            a, b, c = at(distribution, s), at(distribution, s - 1), at(distribution, s - 2)
            cases.append((a * q + b * p) * (b * p + c * q) >= (a * p + b * q) * (b * q + c * p))
    best = privacy_ratios(60, 59, 0.25)
    cases += [bool((privacy_ratios(60, m, 0.25) <= best * (1 + 1e-12)).all()) for m in range(59)]
    held = score(cases)
    return Evidence(held.full, f"{held} comparisons")


@NOTE.states("000-s7 TODO x_1=0", "what if x_1 = 0?", Status.EMPTY)
def _own_zero() -> Evidence:
    """Left open. Ours: π is then 1/g(ρ), which falls in ρ, so that all *zeros* among the others maximise it; the
    picture with 0 and 1 exchanged, P_n,m(s) = P_(n,n−m)(n − s)."""
    cases = []
    for n, q in itertools.product(range(2, 9), FLIPS):
        for m, s in itertools.product(range(n), range(n + 1)):
            cases.append(1 / privacy(n, 0, s, q) >= 1 / privacy(n, m, s, q))
            cases.append(1 / privacy(n, m, s, q) == privacy(n, n - 1 - m, n - s, q))
    inverse = [1 / privacy_ratios(60, m, 0.25) for m in range(60)]
    cases += [bool((one <= inverse[0] * (1 + 1e-12)).all()) for one in inverse]
    held = score(cases)
    return Evidence(held.full, f"{held} comparisons")


@NOTE.states("000-Lemma 8.1, 8.2, Cor 8.1, 8.3", "how ratios of sums compare", Status.CONFIRMED)
def _lemmas() -> Evidence:
    """Exact, on drawn fractions."""
    return ratio_lemmas(80, 300)


@NOTE.states("000-s9", "the law by numbers of distances, (9.1), and by partial sums", Status.CONFIRMED)
def _old_forms() -> Evidence:
    """Right, but for the factor ε in place of e^ε. P[R(x) = y] = Π_l (p^(L−l) q^l)^m(l); (9.1) sums (q/p)^d(x,y) over
    [s]; groups of equal records are independent multinomials."""
    cases = []
    for records in ((0, 0, 3), (1, 1, 2)):
        distribution: HistogramLaw = {}
        for output in itertools.product(range(4), repeat=3):
            distances = [(a ^ b).bit_count() for a, b in zip(records, output, strict=True)]
            grouped = math.prod((P ** (2 - l) * Q**l) ** distances.count(l) for l in range(3))
            cases.append(grouped == math.prod(P ** (2 - d) * Q**d for d in distances))
            counts = tuple(output.count(v) for v in range(4))
            distribution[counts] = distribution.get(counts, Fraction(0)) + (Q / P) ** sum(distances)
        distribution = {counts: P**6 * total for counts, total in distribution.items()}
        parts = [
            histogram_distribution(tuple(records.count(v) * (v == only) for v in range(4))) for only in set(records)
        ]
        joined: HistogramLaw = {}
        for (s, a), (t, b) in itertools.product(parts[0].items(), parts[1].items()):
            total = tuple(x + y for x, y in zip(s, t, strict=True))
            joined[total] = joined.get(total, Fraction(0)) + a * b
        cases += [distribution == by_output(records, 2, Q), distribution == joined]
    held = score(cases)
    factor = float(privacy_ratios(1, 0, 0.25)[0])
    return Evidence(
        held.full and near(factor, 3),
        f"{held} cases; the factor at q = 1/4 is {factor:.0f} = e^{math.log(factor):.4f}",
    )


STATEMENTS: tuple[Statement, ...] = tuple(NOTE.statements)
