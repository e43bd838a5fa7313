"""Note 004, §1 to §4: single bits in a mix-net, and the Chernoff bounds on their noise."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from hubbub.accountant import calibrate
from hubbub.accountant.theorems import bit
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import crowd, neighbours, probability_ratios
from hubbub.numeric.divergences import hockey_stick
from research.notes.formulas.bounds import chernoff_flip, fake_chi_square, shifted_chernoff_flip
from research.notes.formulas.crowd import crowd_mean
from research.notes.formulas.ratios import privacy_from_probability, privacy_ratios
from research.notes.statements.catalogue import Evidence, Note, Status
from research.notes.statements.enumeration import at, crowd_distribution, transitions
from research.notes.statements.rationals import Exact, crowd_outcomes, shuffled, stick, subsets, tail

Q = Fraction(1, 4)
R = (1 - Q) / Q
ZERO = Fraction(0)
BUDGETS = ((1000, 1.0, 1e-3), (1000, 1.0, 1e-6), (1000, 2.0, 1e-6), (2000, 1.0, 1e-6), (10000, 1.0, 1e-9))
"""n, ε and δ at which closed forms are compared with the exact accountant."""

note = Note("004")


def _distribution(n: int, ones: int) -> list[Fraction]:
    return list(crowd_distribution(n, ones, Q))


def _orders(n: int, q: Fraction) -> Iterator[tuple[Exact, Exact]]:
    """All neighbouring collections of n bits, in both orders."""
    distributions = [crowd_outcomes(n, ones, q) for ones in range(n + 1)]
    for low, high in itertools.pairwise(distributions):
        yield from ((low, high), (high, low))


def _worst(n: int, q: Fraction, ratio: Fraction, measure: Callable[[Exact, Exact, Fraction], Fraction]) -> Fraction:
    return max(measure(a, b, ratio) for a, b in _orders(n, q))


@note.states(
    "004-s1 abstract",
    "Clear records among fakes cost O(d) fakes; flipped fakes need a number that does not depend on d",
    Status.CONFIRMED,
)
def _abstract() -> Evidence:
    """In substance. The exact least m is 42.65 d at ε = 1, δ = 10⁻⁶. Among flipped records m fakes weigh as m(1/d + q)
    hits: χ² grows as 2d at q = 0, and stays below 2(p−q)²/(pq) at q = 0.01 however large d is."""
    fakes = [calibrate(Schema.one_hot(d), 1, Budget(1.0, 1e-6), q=0, m=None).protocol.m for d in (10, 100, 1000)]
    counts = [m for m in fakes if isinstance(m, int)]
    clear = [fake_chi_square(d, 0.0) for d in (10, 100, 1000)]
    flipped = [fake_chi_square(d, 0.01) for d in (10, 100, 1000, 10**5)]
    limit = 2 * 0.98**2 / 0.0099
    return Evidence(
        counts == [422, 4261, 42650]
        and np.allclose(clear, [20, 200, 2000])
        and flipped == sorted(flipped)
        and 0.99 * limit < flipped[-1] < limit,
        f"m/d = {', '.join(f'{m / d:.2f}' for m, d in zip(counts, (10, 100, 1000), strict=True))}; "
        f"χ² at q = .01: {', '.join(f'{x:.0f}' for x in flipped)} → {limit:.0f}",
    )


@note.states(
    "004-(2.1),(2.2)",
    "(ε,δ)-privacy: P(S) ≤ e^ε Q(S) + δ for all sets S; pointwise indistinguishable: the ratio within e^(±ε) but for δ",
    Status.CONFIRMED,
)
def _definitions() -> Evidence:
    """Definitions; (2.2) lacks that s ~ R(x). The largest excess over all sets is the hockey stick."""
    rows = transitions(2, Q)
    first, second = shuffled([rows[0], rows[3]]), shuffled([rows[3], rows[3]])
    ratio = Fraction(2)
    excess = max(sum((first[s] - ratio * second[s] for s in some), ZERO) for some in subsets(first))
    return Evidence(excess == stick(first, second, ratio), f"max over 1,023 sets of P − 2Q = {excess} = Σ (P − 2Q)⁺")


@note.states(
    "004-Prop 2.1, (2.3)-(2.4)",
    "Pointwise (ε,δ)-indistinguishable for all neighbours ⇒ (ε,δ)-private",
    Status.CONFIRMED,
)
def _pointwise() -> Evidence:
    """δ ≤ η for every pair, order and λ tried, exactly. The converse is false: η may be many times δ."""
    ratios = [Fraction(5, 4), Fraction(3, 2), Fraction(2), Fraction(3)]
    cases = [
        (stick(a, b, ratio), tail(a, b, ratio))
        for n, q, ratio in itertools.product(range(2, 10), (Fraction(1, 10), Q), ratios)
        for a, b in _orders(n, q)
    ]
    delta, eta = _worst(9, Q, Fraction(3, 2), stick), _worst(9, Q, Fraction(3, 2), tail)
    return Evidence(
        all(d <= t for d, t in cases) and eta > 4 * delta,
        f"δ ≤ η in {len(cases):,} exact cases; n = 9, λ = 3/2, worst: δ = {float(delta):.4f}, η = {float(eta):.3f}",
    )


@note.states("004-s2.1", "The shuffler's output is M = Σ x_i + Σ z_j, a histogram", Status.LOOSE)
def _shuffling() -> Evidence:
    """The fakes z_j stand there before they are introduced, and the randomizer is missing. Meant: the histogram of
    R(x_1) … R(x_n), whose law does not depend on the order of the records."""
    rows = transitions(2, Q)
    distributions = [shuffled(order) for order in itertools.permutations([rows[0], rows[1], rows[3]])]
    total = {sum(s) for s in distributions[0]}
    clear = (1, 1, 0, 1)
    return Evidence(
        all(distribution == distributions[0] for distribution in distributions)
        and total == {3}
        and distributions[0][clear] < 1,
        f"n = 3: Σ x_i = {clear} is seen with probability {distributions[0][clear]} only; 6 orders, one law, no z_j",
    )


def _ratio(n: int, ones: int, q: float, distance: float) -> float:
    """ρ(⌈μ − distance⌉) of a crowd, ∞ from 0 on downwards."""
    return float(probability_ratios(n, ones, q)[max(math.ceil(crowd_mean(n, ones, q) - distance), 0)])


def _shifted(start: Callable[[float], float], shift: float) -> tuple[int, int]:
    """How often ρ[μ_r − l | D_r] ≤ ρ[μ_0 − (l + shift) | D_0] is checked and fails, for l from ``start``(npq) on."""
    checked = failed = 0
    for n, q in itertools.product((5, 12, 40, 90), (0.05, 0.25, 0.45)):
        low = start(n * q * (1 - q))
        lefts = [(max(math.ceil(n * q - low - 0.37 * j - shift), 0), low + 0.37 * j) for j in range(20)]
        zero = probability_ratios(n, 0, q)
        for r in range(1, n + 1, 1 + n // 15):
            ratios, mean = probability_ratios(n, r, q), crowd_mean(n, r, q)
            for place, l in lefts:
                checked += 1
                failed += ratios[max(math.ceil(mean - l), 0)] > zero[place] * (1 + 1e-11)
    return checked, failed


def _recursions(n: int, m: int) -> bool:
    """(3.1)–(3.4) and the monotonicities of §3.2 for one crowd, exactly."""
    now = _distribution(n, m)
    fine = m == 0 or all(
        now[s] == (1 - Q) * at(_distribution(n - 1, m - 1), s - 1) + Q * at(_distribution(n - 1, m - 1), s)
        for s in range(n + 1)
    )
    fine &= m == n or all(
        now[s] == Q * at(_distribution(n - 1, m), s - 1) + (1 - Q) * at(_distribution(n - 1, m), s)
        for s in range(n + 1)
    )
    mean = n * Q + m * (1 - 2 * Q)
    for s in range(n):
        slope = (m - s) * R + (n - m - s) / R
        fine &= (s + 1) * now[s + 1] == slope * now[s] + (n - s + 1) * at(now, s - 1)
        fine &= slope == (mean - s) / (Q * (1 - Q)) - n + 2 * s
    ratios = [b / a for a, b in itertools.pairwise(now)]
    fine &= all(b <= a for a, b in itertools.pairwise(ratios))
    if m < n:
        more = [b / a for a, b in itertools.pairwise(_distribution(n, m + 1))]
        fine &= all(a <= b for a, b in zip(ratios, more, strict=True))
    return fine


@note.states(
    "004-s3, Lemma 3.1, Prop 3.1, (3.1)-(3.7)",
    "The recursions of A_n(m), the three-term recurrence, and R_m(δ) ≤ R_0(δ+2) for δ > σ₀+1",
    Status.CONFIRMED,
)
def _single_bits() -> Evidence:
    """As [000 §6]: all that is numbered holds, and ρ falls with s and grows with m. The aside of §3.3, P_{n,m}(μ_m−δ)
    ≤ P_{n,0}(μ_0−δ), is wrong: n = 5, m = 2, δ = 1/4; the tail must be bounded for every m."""
    fine = all(_recursions(n, m) for n in range(1, 9) for m in range(n + 1))
    checked, failed = _shifted(lambda variance: math.sqrt(variance) + 1.001, 2.0)
    aside = float(_distribution(5, 2)[2]), float(_distribution(5, 0)[1])
    return Evidence(
        fine and failed == 0 and crowd_mean(5, 2, 0.25) - crowd_mean(5, 0, 0.25) == 1 and aside[0] > aside[1],
        f"exact for n ≤ 8; Prop 3.1: {failed} of {checked:,} fail; the aside: {aside[0]:.4f} > {aside[1]:.4f}",
    )


@note.states(
    "004-(4.1)-(4.5), g",
    "R(S|D) = P(S|D∪0)/P(S|D∪1) = g(ρ(S)), g(x) = (q+px)/(p+qx) increasing",
    Status.CONFIRMED,
)
def _privacy_ratio() -> Evidence:
    """Exact for n ≤ 7."""
    checked = 0
    fine = True
    for n in range(1, 8):
        for r in range(n + 1):
            others, zero, one = _distribution(n, r), _distribution(n + 1, r), _distribution(n + 1, r + 1)
            for s in range(1, n + 1):
                rho = others[s] / others[s - 1]
                value = (Q + (1 - Q) * rho) / (1 - Q + Q * rho)
                fine &= zero[s] / one[s] == value
                fine &= abs(float(privacy_from_probability(float(rho), 0.25)) / float(value) - 1) < 1e-13
                checked += 1
    grid = privacy_from_probability(np.geomspace(1e-9, 1e9, 200), 0.25)
    return Evidence(
        fine and bool((np.diff(grid) > 0).all()),
        f"{checked} exact ratios; g rises from {grid[0]:.3f} to {grid[-1]:.3f}",
    )


@note.states(
    "004-Lemma 4.1 (=4.2 duplicated)",
    "If a 0 becomes a 1, R(S) falls in S, from its maximum at S = 0 to its minimum at S = N",
    Status.CONFIRMED,
)
def _monotone() -> Evidence:
    """Exact; p/q at S = 0 and q/p at S = n+1, the number of all bits."""
    fine = True
    for n in range(1, 9):
        for r in range(n + 1):
            ratios = [a / b for a, b in zip(_distribution(n + 1, r), _distribution(n + 1, r + 1), strict=True)]
            fine &= ratios == sorted(ratios, reverse=True) and ratios[0] == R and ratios[-1] == 1 / R
    large = privacy_ratios(200, 70, 0.1)
    return Evidence(
        fine and bool((np.diff(large) < 0).all()),
        f"n ≤ 8 exact, n = 200 by the recurrence: {large[0]:.3f} … {large[-1]:.3f}",
    )


@note.states("004-Lemma 4.3", "l ≥ npq ⇒ ρ[μ_r−l | D_r] ≤ ρ[μ_0−(l+2) | D_0]", Status.CONFIRMED)
def _left_deviations() -> Evidence:
    """As an inequality; the hypothesis is wrong. The proof to come is that of [000 Prop 6.1], which needs l >
    √(npq)+1; l ≥ npq is not met by the l for which the lemma is used: 68.9 < 97 at n = 1000, ε = 1, δ = 10⁻⁶."""
    printed, meant = (
        _shifted(lambda variance: variance, 2.0),
        _shifted(lambda variance: math.sqrt(variance) + 1.001, 2.0),
    )
    q = chernoff_flip(1000, 1.0, 1e-6)
    l, variance = math.sqrt(3000 * q * math.log(2e6)), 1000 * q * (1 - q)
    return Evidence(
        printed[1] == meant[1] == 0 and math.sqrt(variance) + 1 < l < variance and abs(l - 68.9) < 0.05,
        f"{printed[1] + meant[1]} of {printed[0] + meant[0]:,} fail; needed l = {l:.1f}, npq = {variance:.1f}, "
        f"√(npq)+1 = {math.sqrt(variance) + 1:.1f}",
    )


@note.states("004-Cor 4.1", "On the left, R[μ_r−l | D_r] ≤ R[μ_0−(l+2) | D_0]", Status.CONFIRMED)
def _left_ratio() -> Evidence:
    """R = g(ρ) grows with ρ. The shift is needed: without it n = 5, q = .45, r = 1, l = 2.11 fails."""
    worst = 0.0
    for n, q in itertools.product((5, 12, 40), (0.05, 0.25, 0.45)):
        low = math.sqrt(n * q * (1 - q)) + 1.001
        for r, j in itertools.product(range(1, n + 1, 3), range(12)):
            pair = [_ratio(n, r, q, low + 0.4 * j), _ratio(n, 0, q, low + 0.4 * j + 2)]
            left, right = privacy_from_probability(pair, q)
            worst = max(worst, float(left / right))
    bare = _ratio(5, 1, 0.45, 2.11), _ratio(5, 0, 0.45, 2.11)
    return Evidence(
        worst <= 1 + 1e-12 and bare[0] > bare[1],
        f"largest quotient {worst:.4f}; ρ without the shift {bare[0]:.3f} > {bare[1]:.3f}",
    )


@note.states("004-Cor 4.2", "On the right, R[μ_r+l | D_r] ≤ R[μ_n+l+2 | D_n]", Status.WRONG)
def _right_ratio() -> Evidence:
    """The sign is wrong: on the right R is below 1, and must be bounded from below. n = 16, q = 1/4, r = 0, l = 3:
    0.699 > 0.333; ≥ holds throughout. Proof: flipping all bits turns R(S) into 1/R(n+1−S)."""
    n, q = 16, 0.25

    def right(r: int, s: int) -> float:
        return float(privacy_ratios(n + 1, r, q)[min(s, n + 1)])

    left, bound = right(0, 4 + 3), right(n, 12 + 3 + 2)
    cases = [
        (right(r, 4 + r // 2 + l), right(n, 12 + l + 2)) for r, l in itertools.product(range(0, n + 1, 2), range(3, 10))
    ]
    mirrored = max(
        abs(right(r, s) * right(n - r, n + 1 - s) - 1) for r, s in itertools.product(range(n + 1), range(n + 2))
    )
    return Evidence(
        abs(left - 0.6986) < 5e-5
        and abs(bound - 1 / 3) < 1e-12
        and all(a >= b * (1 - 1e-12) for a, b in cases)
        and mirrored < 1e-12,
        f"{left:.4f} > {bound:.4f}; ≥ holds in {sum(a >= b * (1 - 1e-12) for a, b in cases)} of {len(cases)} cases",
    )


@note.states(
    "004-Prop 4.1 (4.6)", "q ≥ 3 ln(2/δ) / (n [1−e^−ε−2(p−q)/(npq)]²) makes n bits (ε,δ)-private", Status.CONFIRMED
)
def _proposition_4_1() -> Evidence:
    """Numerically: sound, and 3 to 5 times above the least q at usual budgets, 18 times at ε = 0.1, δ = 0.01. The
    proof is loose: it takes the Chernoff tail of mean nq, which is that of D_0 only; Bernstein with the variance npq
    repairs it for every D_r (l ≤ 1.5nq(1+2q) holds). q stands on both sides; n is used for the others and for all, so
    pass the crowd less one to be strict."""
    factors, worst, masses = [], [], []
    for n, epsilon, delta in BUDGETS:
        q = shifted_chernoff_flip(n, epsilon, delta)
        worst.append(bit.supremum(n, q, epsilon, tolerance=0.05).upper - math.log(delta))
        factors.append(q / calibrate(Schema.bits(1), n, Budget(epsilon, delta)).protocol.q)
        reach = math.sqrt(3 * n * q * math.log(2 / delta))
        for r in (0, n // 2, n):
            distribution, mean = crowd(n, r, q), crowd_mean(n, r, q)
            masses.append(
                (distribution.cdf(math.ceil(mean - reach) - 1) + distribution.sf(math.floor(mean + reach))) / delta
            )
    far = shifted_chernoff_flip(10**5, 0.1, 0.01) / calibrate(Schema.bits(1), 10**5, Budget(0.1, 0.01)).protocol.q
    return Evidence(
        max(worst) <= 0 and 2.9 < min(factors) < max(factors) < 5.2 and 18 < far < 19 and max(masses) <= 1,
        f"worst δ at (4.6), n = 1000, ε = 1: {math.exp(worst[1]) * 1e-6:.0e} for 10⁻⁶; q is {min(factors):.1f} to "
        f"{max(factors):.1f} times the least, {far:.1f} at ε = 0.1, δ = 0.01",
    )


@note.states("004-Lemma 4.4", "(ε,δ)-private on n bits ⇒ (ε,δ)-private on n+1 bits", Status.CONFIRMED)
def _more_bits() -> Evidence:
    """Post-processing: add a flipped bit of one's own. (4.19)–(4.20) drop e^ε, (4.12) drops p. Of sufficient privacy
    it is false: the worst tail often grows with n."""
    grown = rising = steps = 0
    for q, ratio in itertools.product((Fraction(1, 10), Q), (Fraction(5, 4), Fraction(3, 2), Fraction(3))):
        deltas = [_worst(n, q, ratio, stick) for n in range(1, 11)]
        tails = [_worst(n, q, ratio, tail) for n in range(1, 11)]
        rising += sum(b > a for a, b in itertools.pairwise(deltas))
        grown += sum(b > a for a, b in itertools.pairwise(tails))
        steps += 9
    zero, one = neighbours(20, 0, 0.25)
    dropped = hockey_stick(one.pmf, zero.pmf, 0.0) / hockey_stick(one.pmf, zero.pmf, 0.5)
    return Evidence(
        rising == 0 and grown > 0 and dropped > 10,
        f"δ rises in {rising} of {steps} exact steps, η in {grown}; without e^ε one would bound {dropped:.0f} times δ",
    )


STATEMENTS = tuple(note.statements)
