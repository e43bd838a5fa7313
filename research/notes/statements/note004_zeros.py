"""Note 004, §4.1: equal bits, the Chernoff bound on their noise, and what it is worth."""

import itertools
import math
from fractions import Fraction

from hubbub.accountant.theorems import bit
from hubbub.numeric.binomial import binomial
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick
from hubbub.numeric.inversion import least_real
from research.notes.formulas.bounds import chernoff_flip
from research.notes.formulas.ratios import outlier_ratio
from research.notes.statements.catalogue import Evidence, Note, Status
from research.notes.statements.enumeration import crowd_distribution
from research.notes.statements.note004_bits import BUDGETS

Q = Fraction(1, 4)
R = (1 - Q) / Q
ZERO = Fraction(0)

note = Note("004")


def _distribution(n: int, ones: int) -> list[Fraction]:
    return list(crowd_distribution(n, ones, Q))


@note.states("004-(4.21)-(4.23)", "The laws of S for n zeros, and for n−1 zeros and a one", Status.CONFIRMED)
def _zero_collection() -> Evidence:
    """Exact for n ≤ 9."""
    p = 1 - Q
    fine, count = True, 0
    for n in range(1, 10):
        zeros = [math.comb(n, i) * Q**i * p ** (n - i) for i in range(n + 1)]
        one = [
            (math.comb(n - 1, i) * Q ** (i + 1) * p ** (n - 1 - i) if i < n else ZERO)
            + (math.comb(n - 1, i - 1) * Q ** (i - 1) * p ** (n - i + 1) if i else ZERO)
            for i in range(n + 1)
        ]
        count += len(zeros) + len(one)
        fine &= (
            zeros == _distribution(n, 0)
            and one == _distribution(n, 1)
            and sum(i * x for i, x in enumerate(zeros)) == n * Q
        )
    return Evidence(fine, f"{count} probabilities equal, E S = nq")


@note.states("004-(4.24)", "R(i) = P(i|D′)/P(i|D)", Status.WRONG)
def _label() -> Evidence:
    """The label is upside down: the displayed quotient is P(i|D)/P(i|D′), and (4.25) rightly gives its inverse."""
    n = 6
    zeros, one = _distribution(n, 0), _distribution(n, 1)
    inverse = [Fraction(n - i, n) / R + Fraction(i, n) * R for i in range(n + 1)]
    ours = [outlier_ratio([n - i, i], 0.25) for i in range(n + 1)]
    return Evidence(
        all(a / b == 1 / c and b / a != 1 / c for a, b, c in zip(zeros, one, inverse, strict=True) if c != 1)
        and all(abs(x / float(c) - 1) < 1e-13 for x, c in zip(ours, inverse, strict=True)),
        f"n = 6, i = 0: displayed {zeros[0] / one[0]}, as labelled {one[0] / zeros[0]}, 1/R by (4.25) {inverse[0]}",
    )


@note.states("004-(4.26)-(4.27)", "P(|S−μ| > tμ) ≤ 2e^(−t²μ/3), with t = √(3 ln(2/δ)/μ) ≤ δ", Status.CONFIRMED)
def _chernoff() -> Evidence:
    """For t ≤ 1, which holds under (4.42), where t = 1 − e^−ε; for larger t it fails (μ = 1, t = 9)."""

    def outside(n: int, q: float, t: float) -> float:
        distribution, mean = binomial(n, q), n * q
        return distribution.cdf(math.ceil(mean * (1 - t)) - 1) + distribution.sf(math.floor(mean * (1 + t)))

    quotients = [
        outside(n, q, t) / (2 * math.exp(-t * t * n * q / 3))
        for n, q, t in itertools.product((50, 1000), (0.01, 0.1, 0.3), (0.1, 0.3, 0.632, 0.99))
    ]
    beyond = outside(1000, 0.001, 9.0) / (2 * math.exp(-27.0))
    edges = [
        math.sqrt(3 * math.log(2 / delta) / (n * chernoff_flip(n, epsilon, delta))) / -math.expm1(-epsilon)
        for n, epsilon, delta in BUDGETS
    ]
    return Evidence(
        max(quotients) <= 1 and beyond > 1 and all(abs(x - 1) < 1e-9 for x in edges),
        f"tail/bound ≤ {max(quotients):.2f} for t < 1, {beyond:.0f} at t = 9; at (4.42) t/(1−e^−ε) = {edges[0]:.6f}",
    )


@note.states("004-(4.28)-(4.35)", "At i = μ−l, 1/R = q + (l/n)(q/p) + p − (l/n)(p/q)", Status.CONFIRMED)
def _left_side() -> Evidence:
    """Algebra, in rationals."""
    fine, checked = True, 0
    for n, q, l in itertools.product(
        (10, 1000), (Fraction(1, 10), Q, Fraction(2, 5)), (Fraction(1), Fraction(3), Fraction(7, 2))
    ):
        checked += 1
        p = 1 - q
        i = n * q - l
        value = (n - i) / n * q / p + i / n * p / q
        fine &= value == (n * p + l) / n * q / p + (n * q - l) / n * p / q == q + l / n * q / p + p - l / n * p / q
    return Evidence(fine, f"{checked} cases equal, the last 1/R = {float(value):.6f}")


@note.states("004-(4.36)", "… = 1 − (l/n)(p−q)/(nq)", Status.WRONG)
def _typo() -> Evidence:
    """The divisor must be pq: at n = 1000, q = 0.1, l = 30 it is 11/15, and not 0.99976."""
    n, l, q, p = 1000, 30, Fraction(1, 10), Fraction(9, 10)
    meant = (n * p + l) / n * q / p + (n * q - l) / n * p / q
    printed = 1 - Fraction(l, n) * (p - q) / (n * q)
    return Evidence(
        meant == 1 - Fraction(l, n) * (p - q) / (p * q) == Fraction(11, 15) and abs(float(printed) - 0.99976) < 5e-7,
        f"{float(meant):.5f} = 1 − (l/n)(p−q)/(pq); printed {float(printed):.5f}",
    )


def _room(n: int, q: float, bar: float) -> float:
    """bar·npq/(p−q), the largest l with 1/R within the bar."""
    return bar * n * q * (1 - q) / (1 - 2 * q)


@note.states("004-(4.37)-(4.42)", "q ≥ 3 ln(2/δ)/(n(1−e^−ε)²) is enough on the left", Status.CONFIRMED)
def _chernoff_bound() -> Evidence:
    """Sound, for (p−q)²/p² ≤ 1; the step gives away a factor that tends to 1 with q."""
    spare = [
        _room(n, q, -math.expm1(-epsilon)) / math.sqrt(3 * n * q * math.log(2 / delta))
        for n, epsilon, delta in BUDGETS
        for q in [chernoff_flip(n, epsilon, delta)]
    ]
    q = chernoff_flip(1000, 1.0, 1e-6)
    return Evidence(
        min(spare) >= 1 and abs(q - 0.10893029) < 5e-9, f"n = 1000, (1, 10⁻⁶): q = {q:.6f}; room/l ≥ {min(spare):.3f}"
    )


@note.states(
    "004-(4.43)-(4.46)", "On the right q ≥ 3 ln(2/δ)/(n(e^ε−1)²) is enough, which (4.42) implies", Status.CONFIRMED
)
def _right_side() -> Evidence:
    """e^ε − 1 = e^ε(1 − e^−ε) ≥ 1 − e^−ε."""
    p, n, l = 1 - Q, 100, 5
    exact = (n * p - l) / n * Q / p + (n * Q + l) / n * p / Q == 1 + Fraction(l, n) * (p - Q) / (p * Q)
    spare = [
        _room(n, q, math.expm1(epsilon)) / math.sqrt(3 * n * q * math.log(2 / delta))
        for n, epsilon, delta in BUDGETS
        for q in [chernoff_flip(n, epsilon, delta)]
    ]
    return Evidence(exact and min(spare) >= 1, f"room/l ≥ {min(spare):.2f} at (4.42)")


@note.states("004-Lemma 4.5, 4.6", "Under (4.42) n zeros, and n ones, are (ε,δ)-private", Status.CONFIRMED)
def _homogeneous() -> Evidence:
    """Both orders, exactly; the least q of these collections is 3 to 6 times smaller, and more for smaller ε."""

    def delta_at(n: int, q: float, epsilon: float) -> float:
        return math.exp(float(bit.log_delta([0, n - 1], [n - 1, 0], q, epsilon).max()))

    def least_flip(n: int, epsilon: float, delta: float) -> float:
        return least_real(lambda x: delta_at(n, x, epsilon) <= delta, 1e-5, 0.4, relative=1e-4)

    quotients, factors = [], []
    for n, epsilon, delta in (*BUDGETS, (500, 1.0, 0.01)):
        q = chernoff_flip(n, epsilon, delta)
        quotients.append(delta_at(n, q, epsilon) / delta)
        factors.append(q / least_flip(n, epsilon, delta))
    zeros, one = neighbours(500, 0, chernoff_flip(500, 1.0, 0.01))
    direct = max(hockey_stick(zeros.pmf, one.pmf, 1.0), hockey_stick(one.pmf, zeros.pmf, 1.0))
    return Evidence(
        max(quotients) <= 1
        and min(factors) > 2.7
        and max(factors) < 6.5
        and abs(direct / (quotients[-1] * 0.01) - 1) < 1e-6,
        f"n = 500, (1, 0.01): δ = {direct:.1e}; q is {min(factors):.1f} to {max(factors):.1f} times the least",
    )


STATEMENTS = tuple(note.statements)
