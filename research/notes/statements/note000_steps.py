"""[000 §5.2–5.4]: the probability ratio, step by step, and the relaxation of privacy that breaks off."""

import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np

from hubbub.accountant import account
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick
from research.notes.formulas.divergences import sufficient_tail
from research.notes.formulas.ratios import vector_privacy_ratio, vector_probability_ratio
from research.notes.formulas.vectors import outcome_probability
from research.notes.statements.catalogue import Evidence, Note, Statement, Status
from research.notes.statements.enumeration import (
    LN2,
    QUARTER,
    Counts,
    HistogramLaw,
    dot,
    draw_fractions,
    histogram_distribution,
    histograms,
    near,
    score,
    step,
    transitions,
)
from research.notes.statements.note000_ratio import corner, largest_ratio

NOTE = Note("000")
Q, P = QUARTER, 1 - QUARTER


def _rho(distribution: HistogramLaw, s: Counts, i: int, j: int) -> Fraction:
    """P(s)/P(s + e_ij)."""
    return distribution[s] / distribution[step(s, i, j)]


@NOTE.states(
    "000-s5.2 rho_n, (5.3),(5.4), final recursion", "ρ_n from ρ_(n−1) by conditioning on one record", Status.CONFIRMED
)
def _ratio_recursion() -> Evidence:
    """All three forms, exact, two bits, four records; terms with s_k = 0 drop out."""
    rows = transitions(2)
    cases = []
    for m, s in itertools.product(histograms(4, 4)[::9], histograms(4, 4)):
        for r, (i, j) in itertools.product([r for r in range(4) if m[r]], [(0, 1), (0, 3), (2, 1)]):
            if s[i] < 2:
                continue
            distribution, row = histogram_distribution(step(m, r, None)), rows[r]
            present = [k for k in range(4) if s[k] and k != i]
            others = [k for k in present if k != j]
            own = _rho(distribution, step(s, i, None), i, j)
            toward = {k: _rho(distribution, step(s, k, None), i, k) for k in present}
            beyond = sum(row[k] * toward[k] * own / _rho(distribution, step(s, k, None), i, j) for k in others)
            fourth = (row[i] * own + sum(row[k] * toward[k] * own for k in present)) / (row[i] + row[j] * own + beyond)
            above = row[i] + sum(row[k] * toward[k] for k in present)
            moved = sum(row[k] * _rho(distribution, step(step(s, k, None), i, j), j, k) for k in others)
            below = row[j] + row[i] * _rho(distribution, step(step(s, i, None), i, j), j, i) + moved
            chances = [distribution.get(step(s, k, None), Fraction(0)) for k in range(4)]
            shifted = [distribution.get(step(step(s, k, None), i, j), Fraction(0)) for k in range(4)]
            third = dot(row, chances) / dot(row, shifted)
            wanted = _rho(histogram_distribution(m), s, i, j)
            cases.append(third == fourth == wanted == above / below)
            if len(cases) % 8 == 0:
                cases.append(near(vector_probability_ratio(s, m, i, j, 0.25), wanted))
    held = score(cases)
    return Evidence(held.full, f"{held} ratios")


@NOTE.states("000-(5.5)-(5.7)", "ρ chains, inverts and cancels along steps", Status.CONFIRMED)
def _chains() -> Evidence:
    """The code's ratios, for all ways through four values."""
    cases = []
    for m, s in (((2, 0, 0, 1), (2, 0, 1, 0)), ((1, 1, 1, 0), (1, 1, 0, 1)), ((0, 3, 0, 0), (3, 0, 0, 0))):

        @cache
        def ratio(t: Counts, a: int, b: int, m: Counts = m) -> float:
            return vector_probability_ratio(t, m, a, b, 0.25)

        for j, k, l in itertools.permutations(range(1, 4)):
            by_j, by_l = step(s, 0, j), step(s, 0, l)
            cases.append(near(ratio(s, 0, j) * ratio(by_j, j, k), ratio(s, 0, k)))
            cases.append(near(ratio(s, 0, j), 1 / ratio(by_j, j, 0)))
            quotient = ratio(s, 0, k) / ratio(s, 0, j)
            cases.append(near(quotient, ratio(by_j, j, l) * ratio(step(by_j, j, l), l, k)))
            cases.append(near(quotient, ratio(by_l, l, k) / ratio(by_l, l, j)))
    held = score(cases)
    return Evidence(held.full, f"{held} identities")


def _flipped_distributions() -> list[tuple[HistogramLaw, int]]:
    """Laws of two, three and some of four flipped records of two bits, and of single bits; with how many values."""
    wide = [*histograms(2, 4), *histograms(3, 4), *histograms(4, 4)[::7]]
    narrow = [m for n in range(2, 8) for m in histograms(n, 2)]
    return [(histogram_distribution(m), len(m)) for m in (*wide, *narrow)]


def _drawn_distribution(draw: Iterator[Fraction], n: int) -> HistogramLaw:
    """The histogram of n independent records over three values, each with chances of its own."""
    distribution: HistogramLaw = {(0, 0, 0): Fraction(1)}
    for _ in range(n):
        weights = [next(draw) for _ in range(3)]
        longer: HistogramLaw = {}
        for (counts, chance), k in itertools.product(distribution.items(), range(3)):
            after = step(counts, None, k)
            longer[after] = longer.get(after, Fraction(0)) + chance * weights[k] / sum(weights)
        distribution = longer
    return distribution


@NOTE.states(
    "000-(5.8),(5.9) conjectures",
    "ρ(s, i, j) does not fall when s moves away from i or towards j, most by e_ij",
    Status.CONFIRMED,
)
def _conjectures() -> Evidence:
    """True, and now proven: all are P(t + 2e_i) P(t + e_j + e_k) ≤ P(t + e_i + e_j) P(t + e_i + e_k), j = k included.
    The generating function Π_u Σ_k a_uk x_k is real stable, hence so is h, its t_k-th derivative in every x_k but x_i;
    and a real stable h satisfies ∂_j h ∂_k h ≥ h ∂_j ∂_k h (Brändén 2007; for j = k Laguerre), which at x = e_i is the
    claim. It holds for any independent records, not only for flipped ones."""
    steps, general = [], []
    for distribution, size in _flipped_distributions():
        for s in distribution:
            for i, j in itertools.permutations(range(size), 2):
                here = _rho(distribution, s, i, j) if s[i] else Fraction(0)
                most = _rho(distribution, step(s, i, j), i, j) if s[i] > 1 else None
                for k in set(range(size)) - {i, j}:
                    if s[i] and s[k]:
                        toward = _rho(distribution, step(s, k, j), i, j)
                        steps.append(here <= toward and (most is None or toward <= most))
                    if most is not None:
                        steps.append(here <= _rho(distribution, step(s, i, k), i, j) <= most)
                if most is not None:
                    steps.append(here <= most)
    draw = draw_fractions(58)
    for distribution in (_drawn_distribution(draw, 4) for _ in range(25)):
        for t, (i, j, k) in itertools.product(histograms(2, 3), itertools.product(range(3), repeat=3)):
            if i not in {j, k}:
                ti = step(t, None, i)
                left = distribution[step(ti, None, i)] * distribution[step(step(t, None, j), None, k)]
                general.append(left <= distribution[step(ti, None, j)] * distribution[step(ti, None, k)])
    for i, j, k in itertools.permutations(range(4), 3):
        s, m = (1, 1, 1, 1), (2, 1, 0, 1)
        found = [vector_probability_ratio(x, m, i, j, 0.25) for x in (s, step(s, k, j))]
        exact = [_rho(histogram_distribution(m), x, i, j) for x in (s, step(s, k, j))]
        steps.append(exact[0] <= exact[1] and near(found[0], exact[0]) and near(found[1], exact[1]))
    held, free = score(steps), score(general)
    return Evidence(held.full and free.full, f"{held} steps of flipped records; {free} of drawn ones")


@NOTE.states("000 third bullet", "orthogonal to (i, j) the change of ρ varies", Status.CONFIRMED)
def _orthogonal() -> Evidence:
    """Both signs occur for i and j opposite, moving a count between the other two. (Along the edge of the square that
    is parallel to (i, j) only one sign occurs among three records: up if k → l points the way of i → j.)"""

    def signs(i: int, j: int, k: int, l: int) -> tuple[int, int]:
        changes = [
            _rho(histogram_distribution(m), step(s, k, l), i, j) - _rho(histogram_distribution(m), s, i, j)
            for m, s in itertools.product(histograms(3, 4), repeat=2)
            if s[i] and s[k]
        ]
        return sum(c > 0 for c in changes), sum(c < 0 for c in changes)

    across, along = signs(0, 3, 1, 2), signs(0, 1, 2, 3)
    pairs = [
        [vector_probability_ratio(s, m, 0, 3, 0.25) for s in ((1, 1, 0, 1), (1, 0, 1, 1))]
        for m in ((0, 0, 1, 2), (0, 1, 0, 2))
    ]
    code = (
        near(pairs[0][0], Fraction(22, 27)) and near(pairs[0][1], Fraction(38, 99)) and near(pairs[1][0], pairs[0][1])
    )
    shown = f"across: {across[0]} up, {across[1]} down; along: {along[0]} up, {along[1]} down"
    return Evidence(min(across) > 0 == along[1] and code and pairs[1][1] > pairs[1][0], shown)


@NOTE.states(
    "000-Prop 5.2 (5.10), TODO in induction",
    "ρ(s, i, j) ≤ ρ(s + e_il, i, j) for s_i ≥ 2, all j, l ≠ i",
    Status.CONFIRMED,
)
def _away() -> Evidence:
    """The inequality of (5.8), with l = j allowed; it replaces the induction, which has no answer for s_i = 2."""
    steps, code = [], []
    for distribution, size in _flipped_distributions():
        for s in distribution:
            for i, j, l in itertools.product(range(size), repeat=3):
                if s[i] >= 2 and i not in {j, l}:
                    steps.append(_rho(distribution, s, i, j) <= _rho(distribution, step(s, i, l), i, j))
    for m, (j, l) in itertools.product(histograms(3, 4)[::3], itertools.product(range(1, 4), repeat=2)):
        found = [vector_probability_ratio(s, m, 0, j, 0.25) for s in ((2, 0, 1, 0), step((2, 0, 1, 0), 0, l))]
        code.append(
            found[0] <= found[1] * (1 + 1e-12) and near(found[0], _rho(histogram_distribution(m), (2, 0, 1, 0), 0, j))
        )
    held, computed = score(steps), score(code)
    return Evidence(held.full and computed.full, f"{held} steps; {computed} of the code")


@NOTE.states('000-Prop 5.3 "TODO is this true?"', "the opposite x′ maximises π(s; x, x′) for every s", Status.WRONG)
def _opposite() -> Evidence:
    """Not for every s: one record 11 that shows 10 speaks for 10 and not for 00. After the maximum over s it is true:
    max π = (p/q)^d grows with the distance d."""
    seen, nobody = (0, 1, 0, 0), (0, 0, 0, 0)
    to_seen, to_opposite = (vector_privacy_ratio(seen, nobody, 0, j, 0.25) for j in (1, 3))
    maxima = [largest_ratio(2, 3, j) for j in (1, 2, 3)]
    shown = (
        f"s = e_10: π(11→10) = {to_seen:.0f} > π(11→00) = {to_opposite:.0f}; max over s: {', '.join(map(str, maxima))}"
    )
    return Evidence(near(to_seen, 3) and near(to_opposite, 1) and maxima == [3, 3, 9], shown)


@NOTE.states("000-s5.3 TODOs", "consequences: reweighting; the largest value does not depend on n", Status.EMPTY)
def _reweighting() -> Evidence:
    """Left open. Ours is Prop 5.1: both sums weigh the same terms, so the ratio is within [(q/p)^d, (p/q)^d] for every
    n, and attains both ends."""
    ends = []
    for n in (1, 2, 3):
        for others in histograms(n - 1, 4):
            before, after = histogram_distribution(step(others, None, 0)), histogram_distribution(step(others, None, 3))
            ratios = [after[s] / before[s] for s in before]
            ends.append(max(ratios) == 9 and min(ratios) == Fraction(1, 9))
    far = [vector_privacy_ratio(corner(n, 4, 3), corner(n - 1, 4, 1), 0, 3, 0.25) for n in (1, 10, 100)]
    held = score(ends)
    shown = f"{held} collections; π(n e_00) = " + ", ".join(f"{r:.6f}" for r in far) + " for n = 1, 10, 100"
    return Evidence(held.full and all(near(r, 9, 1e-9) for r in far), shown)


@NOTE.states("000-s5.4 definition of eps-local DP", "A is ε-locally private if (the sentence ends)", Status.EMPTY)
def _sufficient() -> Evidence:
    """Ours: (ε, η)-sufficient if P[π(A(x′); x, x′) > e^ε] ≤ η for all *ordered* neighbours ([003 eq 1.7] has it for one
    order). Then A is (ε, η)-private. One order would not do. Local should not be its name, which means something
    else."""
    cases = []
    for n, epsilon in itertools.product((2, 8, 20), (0.3, LN2)):
        distributions = [distribution.pmf for ones in range(n) for distribution in neighbours(n, ones, 0.25)]
        pairs = [
            pair for a, b in zip(distributions[::2], distributions[1::2], strict=True) for pair in ((a, b), (b, a))
        ]
        tails = [sufficient_tail(a, b, epsilon) for a, b in pairs]
        cases += [hockey_stick(a, b, epsilon) <= tail + 1e-15 for (a, b), tail in zip(pairs, tails, strict=True)]
        given = account(Protocol(0.25), Schema.bits(1), n, epsilon=epsilon)
        cases.append(given.delta <= max(tails) + 1e-12)
    outcomes = histograms(2, 4)
    vectors = [np.array([outcome_probability(s, m, 0.25) for s in outcomes]) for m in ((2, 0, 0, 0), (1, 0, 0, 1))]
    cases.append(hockey_stick(vectors[0], vectors[1], 1.0) <= sufficient_tail(vectors[0], vectors[1], 1.0))
    zeros, outlier = (distribution.pmf for distribution in neighbours(2, 0, 0.25))
    orders = sufficient_tail(outlier, zeros, LN2), sufficient_tail(zeros, outlier, LN2)
    held = score(cases)
    shown = f"δ ≤ η in {held}; n = 2: η = {orders[0]:.4f} in one order, {orders[1]:.4f} in the other"
    return Evidence(held.full and near(orders[0], Fraction(3, 16)) and near(orders[1], Fraction(9, 16)), shown)


STATEMENTS: tuple[Statement, ...] = tuple(NOTE.statements)
