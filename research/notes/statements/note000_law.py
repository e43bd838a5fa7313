"""[000 §1–4]: flipped bit vectors, their transition matrix, and the law of the histogram of a collection."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hubbub.accountant import account
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.divergences import hockey_stick
from hubbub.numeric.vectors import flip_histogram, unflip_histogram
from research.notes.formulas.estimation import joint_estimate, joint_variance
from research.notes.formulas.ratios import vector_privacy_ratio
from research.notes.formulas.vectors import (
    bit_vectors,
    outcome_probability,
    outcome_probability_by_halves,
    transition_matrix,
)
from research.notes.statements.catalogue import Evidence, Note, Statement, Status
from research.notes.statements.enumeration import (
    FLIPS,
    QUARTER,
    Counts,
    HistogramLaw,
    by_output,
    crowd_distribution,
    histogram_distribution,
    histograms,
    largest_event_ratio,
    near,
    score,
    step,
    transitions,
)

NOTE = Note("000")
Q, P = QUARTER, 1 - QUARTER


@NOTE.states("000-s1, Prop 1.1", "ε-privacy, and for finitely many outcomes by the pointwise ratio", Status.CONFIRMED)
def _pointwise() -> Evidence:
    """As in [001]; here for every event of two shuffled vectors of two bits."""
    cases, events = [], 0
    for others, j in (((1, 0, 0, 0), 3), ((0, 1, 0, 0), 3), ((0, 0, 1, 0), 1), ((0, 0, 0, 1), 2)):
        after, before = histogram_distribution(step(others, None, j)), histogram_distribution(step(others, None, 0))
        found, number = largest_event_ratio(after, before)
        cases.append(near(max(vector_privacy_ratio(s, others, 0, j, 0.25) for s in before), found))
        events += number
    held = score(cases)
    return Evidence(held.full, f"{held} maxima over {events:,} events attained at an outcome")


@NOTE.states("000-s2.1 (2.1)", "R(x; ξ) flips each bit by its own coin ξ ~ Ber(p)", Status.CONFIRMED)
def _flip() -> Evidence:
    """All coins enumerated, for vectors of three bits: the rows of the code's matrix."""
    bits = bit_vectors(3)
    index = {tuple(row): i for i, row in enumerate(bits.tolist())}
    cases = []
    for q in FLIPS:
        matrix = transition_matrix(3, float(q))
        for i, row in enumerate(bits.tolist()):
            found = [Fraction(0)] * 8
            for coins in itertools.product((0, 1), repeat=3):
                shown = tuple(b * x + (1 - b) * (1 - x) for b, x in zip(row, coins, strict=True))
                found[index[shown]] += math.prod(1 - q if x else q for x in coins)
            cases += [near(a, b) for a, b in zip(matrix[i], found, strict=True)]
    held = score(cases)
    return Evidence(held.full, f"{held} entries")


@NOTE.states(
    "000-s2.2 enumeration, chi, kappa", "v_j = (1, v_j) for j ∈ J_1, then (0, v_χ(j)) for j ∈ J_2", Status.CONFIRMED
)
def _enumeration() -> Evidence:
    """The code's order: decreasing as binary numbers, v_(D+1−i) opposite to v_i; χ and κ drop and set the first bit."""
    order: list[tuple[int, ...]] = [(1,), (0,)]
    cases = []
    for width in range(1, 7):
        if width > 1:
            order = [(first, *rest) for first in (1, 0) for rest in order]
        size, half = 2**width, 2 ** (width - 1)
        table = [tuple(row) for row in bit_vectors(width).tolist()]
        cases.append(table == order)
        for i, row in enumerate(table):
            chi, kappa = i % half, i % half + half
            cases.append(int("".join(map(str, row)), 2) == size - 1 - i)
            cases.append(all(a != b for a, b in zip(row, table[size - 1 - i], strict=True)))
            cases.append(table[chi] == (1, *row[1:]) and table[kappa] == (0, *row[1:]))
    held = score(cases)
    return Evidence(held.full, f"{held} places, L ≤ 6")


@NOTE.states("000-(2.2), P_L=P_1 (x) P_{L-1}", "P_L = P_1 ⊗ P_(L−1), symmetric, doubly stochastic", Status.CONFIRMED)
def _kronecker() -> Evidence:
    """The code's matrix against distances; p^L on the diagonal, q^L on the other."""
    cases = []
    for width, q in itertools.product(range(1, 5), FLIPS):
        matrix, exact = transition_matrix(width, float(q)), transitions(width, q)
        cases += [
            near(a, b) for row, wanted in zip(matrix, exact, strict=True) for a, b in zip(row, wanted, strict=True)
        ]
        cases += [sum(row) == 1 for row in exact] + [sum(column) == 1 for column in zip(*exact, strict=True)]
        cases.append(bool((matrix == matrix.T).all()))
        cases += [near(x, (1 - q) ** width) for x in np.diag(matrix)] + [
            near(x, q**width) for x in np.diag(matrix[::-1])
        ]
        if width > 1:
            product = np.kron(transition_matrix(1, float(q)), transition_matrix(width - 1, float(q)))
            cases.append(bool(np.allclose(matrix, product, rtol=1e-13, atol=0)))
    held = score(cases)
    return Evidence(held.full, f"{held} entries, sums and diagonals, L ≤ 4")


@NOTE.states("000-s3 TODO", "write collections as matrices, Φ = Xᵀ1", Status.EMPTY)
def _matrix_form() -> Evidence:
    """Left open. Ours: X has one row e_(x_i) per record, Φ = Xᵀ1 = m, E Φ(R(X)) = P_Lᵀ m; so P_L⁻¹ s with
    P_L⁻¹ = (P_1⁻¹)^⊗L, P_1⁻¹ = [[p, −q], [−q, p]]/(p − q), is an unbiased estimate of the whole histogram."""
    cases = []
    inverse = np.array([[0.75, -0.25], [-0.25, 0.75]]) / 0.5
    cases.append(bool(np.allclose(inverse @ transition_matrix(1, 0.25), np.eye(2))))
    cases.append(bool(np.allclose(np.kron(inverse, inverse) @ transition_matrix(2, 0.25), np.eye(4))))
    for records in ((0, 0, 3), (1, 2, 3), (0, 1, 1)):
        one_hot = np.eye(4, dtype=int)[list(records)]
        originals = one_hot.T @ np.ones(3, dtype=int)
        distribution = histogram_distribution(tuple(originals.tolist()))
        chances = np.array([float(chance) for chance in distribution.values()])
        outcomes = np.array(list(distribution))
        estimates = np.array([joint_estimate(counts, 0.25) for counts in outcomes])
        mean = chances @ estimates
        cases.append(bool(np.allclose(chances @ outcomes, flip_histogram(originals, 0.25))))
        cases.append(bool(np.allclose(mean, originals)))
        cases.append(bool(np.allclose(chances @ (estimates - mean) ** 2, joint_variance(originals, 0.25))))
        cases.append(bool(np.allclose(unflip_histogram(flip_histogram(originals, 0.25), 0.25), originals)))
    held, found = score(cases), (chances @ estimates).round(9) + 0.0
    return Evidence(held.full, f"{held} identities; E[P_L⁻¹ s] = {found.tolist()} = m of (11, 10, 10)")


@NOTE.states("000-(3.1),(3.3)", "P[R(x) = y] = p^(nL) (q/p)^Σd, and P[A(x) = s] sums it over [s]", Status.CONFIRMED)
def _products() -> Evidence:
    """Enumerated in order; [s] consists of the permutations of v(s)."""
    cases = []
    for records in ((0, 0, 3), (1, 2, 3)):
        matrix = transition_matrix(2, 0.25)
        for output in itertools.product(range(4), repeat=3):
            distance = sum((a ^ b).bit_count() for a, b in zip(records, output, strict=True))
            chance = math.prod(matrix[a, b] for a, b in zip(records, output, strict=True))
            cases.append(near(chance, P**6 * (Q / P) ** distance))
        originals = tuple(records.count(value) for value in range(4))
        distribution = by_output(records, 2, Q)
        cases += [near(outcome_probability(s, originals, 0.25), chance) for s, chance in distribution.items()]
    for counts in histograms(3, 4):
        canonical = [value for value, count in enumerate(counts) for _ in range(count)]
        same = {y for y in itertools.product(range(4), repeat=3) if all(y.count(v) == counts[v] for v in range(4))}
        cases.append(same == set(itertools.permutations(canonical)))
    held = score(cases)
    return Evidence(held.full, f"{held} cases of two bits, three records")


@NOTE.states("000-Prop 3.1", "the law of A(x) does not depend on the order of x", Status.CONFIRMED)
def _order_invariant() -> Evidence:
    """Enumerated for every order of seven collections of three vectors of two bits."""
    distributions: dict[Counts, list[HistogramLaw]] = {}
    for records in itertools.product(range(4), repeat=3):
        counts = tuple(records.count(value) for value in range(4))
        if counts in histograms(3, 4)[::3]:
            distributions.setdefault(counts, []).append(by_output(records, 2, Q))
    held = score(distribution == group[0] for group in distributions.values() for distribution in group)
    code = score(
        near(outcome_probability(s, counts, 0.25), chance)
        for counts, group in distributions.items()
        for s, chance in group[0].items()
    )
    return Evidence(
        held.full and code.full, f"{held} orders of {len(distributions)} collections; {code} values of the code"
    )


def _multinomial(counts: Counts, row: Sequence[Fraction]) -> Fraction:
    """P[MN(n, row) = counts]."""
    ways = math.factorial(sum(counts)) // math.prod(math.factorial(c) for c in counts)
    return ways * math.prod((weight**c for weight, c in zip(row, counts, strict=True)), start=Fraction(1))


def _binomial(n: int, s: int, chance: Fraction) -> Fraction:
    """P[Bin(n, chance) = s]."""
    return math.comb(n, s) * chance**s * (1 - chance) ** (n - s)


@NOTE.states("000 MN special case, (3.4)", "A(m) ~ MN(m_1, p_L(1)) + … + MN(m_D, p_L(D))", Status.CONFIRMED)
def _multinomials() -> Evidence:
    """One value only gives a multinomial law, by the code as well; sums of two by convolution. (Under the brace s_j is
    printed for m_j.)"""
    cases = []
    rows = transitions(2)
    for value, n in itertools.product(range(4), (1, 3)):
        originals = tuple(n * (i == value) for i in range(4))
        for counts in histograms(n, 4):
            cases.append(near(outcome_probability(counts, originals, 0.25), _multinomial(counts, rows[value])))
    for counts in histograms(3, 4):
        parts = [s for s in histograms(2, 4) if all(a <= b for a, b in zip(s, counts, strict=True))]
        total = sum(
            _multinomial(s, rows[0]) * _multinomial(tuple(b - a for a, b in zip(s, counts, strict=True)), rows[2])
            for s in parts
        )
        cases.append(near(outcome_probability(counts, (2, 0, 1, 0), 0.25), total))
    held = score(cases)
    return Evidence(held.full, f"{held} probabilities")


@NOTE.states(
    "000-Lemma 3.1 (3.5)",
    "MN(m_i, p_L(i)) splits by the first bit: W binomial, then two multinomials",
    Status.CONFIRMED,
)
def _first_bit() -> Evidence:
    """Exact, two bits, every value and up to three records; the code's recursion over the bits is built on it."""
    cases = []
    short = transitions(1)
    for i, n in itertools.product(range(4), range(1, 4)):
        for counts in histograms(n, 4):
            w = sum(counts[:2])
            split = _binomial(n, w, P if i < 2 else Q)
            split *= _multinomial(counts[:2], short[i % 2]) * _multinomial(counts[2:], short[i % 2])
            originals = tuple(n * (value == i) for value in range(4))
            cases.append(histogram_distribution(originals)[counts] == split)
            cases.append(near(outcome_probability_by_halves(counts, originals, 0.25), split))
    held = score(cases)
    return Evidence(held.full, f"{held} outcomes")


def _split_distribution(counts: Counts, shown_first: Fraction, row: Sequence[Fraction]) -> Fraction:
    """P[T = ξs] P[U = s_J1] P[V = s_J2] of a pair of values that share all but the first bit. [000 eq 3.7]"""
    half = len(counts) // 2
    return shown_first * _multinomial(counts[:half], row) * _multinomial(counts[half:], row)


@NOTE.states(
    "000-(3.6), Lemma 3.2 (3.7)",
    "the same for m_i and m_κ(i) together: T ~ Bin(m_i, p) + Bin(m_κ(i), q)",
    Status.CONFIRMED,
)
def _paired_values() -> Evidence:
    """Exact, two bits; and the sets of (3.6) are equal."""
    cases = []
    for i, a, b in itertools.product(range(2), range(3), range(3)):
        originals = tuple(a * (v == i) + b * (v == i + 2) for v in range(4))
        for counts, chance in histogram_distribution(originals).items():
            first = crowd_distribution(a + b, a)[sum(counts[:2])]
            cases.append(chance == _split_distribution(counts, first, transitions(1)[i]))
            if a == 1 and b:
                cases.append(near(outcome_probability_by_halves(counts, originals, 0.25), chance))
    for r, counts in itertools.product(range(4), histograms(3, 4)):
        below = {s for s in histograms(r, 4) if all(x <= y for x, y in zip(s, counts, strict=True))}
        union = {
            (*u, *v)
            for t in range(r + 1)
            for u in histograms(t, 2)
            for v in histograms(r - t, 2)
            if all(x <= y for x, y in zip((*u, *v), counts, strict=True))
        }
        cases.append(below == union)
    held = score(cases)
    return Evidence(held.full, f"{held} outcomes and sets")


@NOTE.states("000-Prop 3.2 (3.8) + 4-step algorithm", "A_L(m) from T and two independent A_(L−1)", Status.CONFIRMED)
def _recursion() -> Evidence:
    """The code has both ways to the law, by records and by this recursion; both against fractions, L ≤ 3. (In the proof
    one index t_j is printed m_j − t_j.)"""
    cases = []
    for originals in (*histograms(3, 2), *histograms(2, 4)[::3], (2, 0, 0, 1), (1, 1, 1, 0), (1, 0, 0, 0, 0, 1, 0, 0)):
        for counts, chance in histogram_distribution(originals).items():
            cases.append(near(outcome_probability_by_halves(counts, originals, 0.25), chance))
            cases.append(near(outcome_probability(counts, originals, 0.25), chance))
    held = score(cases)
    return Evidence(held.full, f"{held} probabilities")


@NOTE.states(
    "000-s4 next steps",
    "to show: x′ opposite is the worst, and the bound is the same whatever the others",
    Status.EMPTY,
)
def _next_steps() -> Evidence:
    """A list of intentions, two of which are false beyond pointwise ratios: among (10, 10), δ is larger for 11 → 01
    than for the opposite 11 → 00, and it depends on the others. Instead δ is taken over all pairs and collections; here
    our certificate is above all of them."""
    epsilon = math.log(1.2)
    outcomes = histograms(3, 4)
    distributions = {m: np.array([outcome_probability(s, m, 0.25) for s in outcomes]) for m in outcomes}

    def delta(others: Counts, i: int, j: int) -> float:
        return hockey_stick(distributions[step(others, None, i)], distributions[step(others, None, j)], epsilon)

    near_by, opposite = delta((0, 2, 0, 0), 0, 2), delta((0, 2, 0, 0), 0, 3)
    every = [delta(m, i, j) for m in histograms(2, 4) for i, j in itertools.permutations(range(4), 2)]
    rest = [delta(m, 0, 3) for m in histograms(2, 4)]
    given = account(Protocol(0.25), Schema.bits(2), 3, epsilon=epsilon).delta
    right = near(near_by, Fraction(81, 256)) and near(opposite, Fraction(3219, 10240)) and near_by > opposite
    shown = (
        f"n = 3, λ = 6/5: δ = {near_by:.4f} > {opposite:.4f} (opposite); worst {max(every):.3f} ≤ certified {given:.3f}"
    )
    return Evidence(right and max(rest) > 1.1 * min(rest) and max(every) <= given, shown)


STATEMENTS: tuple[Statement, ...] = tuple(NOTE.statements)
