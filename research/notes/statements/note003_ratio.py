"""Note 003, §1 to §3.1: sufficient privacy, the homogeneous pair, and the law of its ratio R(S)."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np

from hubbub.accountant.theorems import bit
from hubbub.numeric.divergences import hockey_stick
from hubbub.numeric.ratios import phi
from research.notes.formulas.bounds import local_epsilon
from research.notes.formulas.ratios import (
    outlier_ratio,
    outlier_ratio_mean,
    outlier_ratio_values,
    outlier_ratio_variance,
    psi,
)
from research.notes.formulas.vectors import outcome_probability, transition_matrix
from research.notes.readings import readings
from research.notes.statements.catalogue import Evidence, Note, Status
from research.notes.statements.enumeration import product, transitions
from research.notes.statements.rationals import Exact, crowd_outcomes, shuffled, stick, subsets, tail

Q = Fraction(1, 4)
R = (1 - Q) / Q

note = Note("003")


def _near(a: float, b: float, relative: float = 1e-9) -> bool:
    return abs(a - b) <= relative * abs(b)


def _pair(width: int, n: int, common: int = -1, q: Fraction = Q) -> tuple[Exact, Exact]:
    """n equal records with one changed to its opposite, and unchanged; ``common`` is the index of the equal record."""
    rows = transitions(width, q)
    common %= 2**width
    rest = [rows[common]] * (n - 1)
    return shuffled([*rest, rows[2**width - 1 - common]]), shuffled([*rest, rows[common]])


def _ratio_distribution(width: int, n: int, common: int) -> dict[Fraction, Fraction]:
    """The law of R(S), S from the collection with the outlier."""
    outlier, homogeneous = _pair(width, n, common)
    distribution: dict[Fraction, Fraction] = {}
    for s, chance in outlier.items():
        value = chance / homogeneous[s]
        distribution[value] = distribution.get(value, Fraction(0)) + chance
    return distribution


@note.states(
    "003-(1.1)-(1.5), R",
    "ε-privacy over all sets B of outcomes ⇔ R(S) = P[A(D_m)=S]/P[A(D)=S] ≤ e^ε at every S; unshuffled, R depends on "
    "the changed record alone",
    Status.CONFIRMED,
)
def _definitions() -> Evidence:
    """Definitions; the largest ratio over all 1,023 sets of outcomes (L = 2, N = 2) is that of a single outcome."""
    outlier, homogeneous = _pair(2, 2)
    single = max(outlier[s] / homogeneous[s] for s in outlier)
    sets = max(sum(outlier[s] for s in some) / sum(homogeneous[s] for s in some) for some in subsets(outlier))
    one, zero = transitions(1, Q)
    ordered = {one[a] * zero[b] / (zero[a] * zero[b]) / (one[a] / zero[a]) for a in (0, 1) for b in (0, 1)}
    return Evidence(sets == single and ordered == {1}, f"max over sets {sets} = max over outcomes {single}")


@note.states(
    "003-(1.6),(1.7)",
    "A is (ε,η)-sufficiently private if P[R(S) > e^ε] ≤ η, S = A(D_m): a usable privacy guarantee",
    Status.LOOSE,
)
def _criterion() -> Evidence:
    """It implies (ε,η)-privacy only if required of all ordered pairs. Adding a record can raise η (0.336 at n = 6,
    0.427 at n = 7; q = 1/4, λ = 1.5) while δ falls; η overstates δ 5 to 14 times at the readings of §3.3; the readings
    use ≥ where the definition has >, which matters at the atoms of a lattice."""

    def worst(n: int, measure: Callable[[Exact, Exact, Fraction], Fraction]) -> float:
        pairs = [(crowd_outcomes(n, ones, Q), crowd_outcomes(n, ones + 1, Q)) for ones in range(n)]
        both = [*pairs, *((b, a) for a, b in pairs)]
        return float(max(measure(a, b, Fraction(3, 2)) for a, b in both))

    tails, deltas = [worst(n, tail) for n in (6, 7)], [worst(n, stick) for n in (6, 7)]
    over = [row.eta / row.forward for row in readings()]
    return Evidence(
        abs(tails[0] - 0.336) < 5e-4
        and abs(tails[1] - 0.427) < 5e-4
        and deltas[1] < deltas[0]
        and 4.9 < min(over) < max(over) < 14.5,
        f"n 6→7: η {tails[0]:.3f} → {tails[1]:.3f}, δ {deltas[0]:.4f} → {deltas[1]:.4f}; "
        f"η/δ = {min(over):.1f} to {max(over):.1f} at the readings",
    )


@note.states(
    '003 "eps stays the same under anonymization"',
    "The largest ratio over D, D_m and S is (p/q)^L with or without the shuffler",
    Status.CONFIRMED,
)
def _same_epsilon() -> Evidence:
    """[000 Prop 5.1]: L ln(p/q), attained where all messages show x′; exact for L ≤ 2, n ≤ 3."""
    largest = {
        (width, n): max(a / homogeneous[s] for s, a in outlier.items())
        for width, n in itertools.product((1, 2), (1, 2, 3))
        for outlier, homogeneous in [_pair(width, n)]
    }
    exact = all(value == R**width for (width, _), value in largest.items())
    pure = math.exp(local_epsilon(2, 0.25))
    return Evidence(exact and _near(pure, 9.0), f"L = 2: max R = {largest[2, 3]} at n = 3, e^(2 ln 3) = {pure:.6f}")


@cache
def _three_bits() -> tuple[float, float]:
    """δ at n = 3, q = 1/4, λ = 8.41, L = 3: the homogeneous pair in its worse order, and the worst collection."""
    rows = transition_matrix(3, 0.25)
    outcomes = list(itertools.product(range(8), repeat=3))
    code = {h: i for i, h in enumerate(sorted({tuple(sorted(o)) for o in outcomes}))}
    index = np.array([code[tuple(sorted(o))] for o in outcomes])

    def delta(others: tuple[int, int], before: int, after: int) -> float:
        distributions = (np.einsum("i,j,k->ijk", rows[r], *(rows[o] for o in others)).ravel() for r in (after, before))
        first, second = (np.bincount(index, weights=distribution) for distribution in distributions)
        return hockey_stick(first, second, math.log(8.41))

    # By the XOR symmetry the record 000 may be taken as the one that changes.
    pairs = itertools.combinations_with_replacement(range(8), 2)
    worst = max(delta(others, 7, after) for others in pairs for after in range(7))
    return max(delta((7, 7), 7, 0), delta((7, 7), 0, 7)), worst


@note.states(
    "003 conj. 1",
    "N equal records of which one turns into its opposite are the worst case: no other pair has a larger P[R > e^ε]",
    Status.WRONG,
)
def _conjecture_1() -> Evidence:
    """The reverse order of the very pair is worse: 9/16 > 3/16 at n = 2, q = 1/4, λ = 2. Nor are both orders enough: n
    = 5, λ = 6/5 with the others at 1, 1, 1, 0 has δ = 27/160 > max(11/80, 729/5120); three bits, n = 3, λ = 8.41: 1.44
    times. Right: the supremum over all others and both orders, which the accountant certifies."""
    low, high = crowd_outcomes(2, 0, Q), crowd_outcomes(2, 1, Q)
    note_order, reverse = tail(high, low, Fraction(2)), tail(low, high, Fraction(2))
    ratio = Fraction(6, 5)
    distributions = [crowd_outcomes(5, ones, Q) for ones in range(6)]
    mixed = stick(distributions[4], distributions[3], ratio)
    homogeneous = stick(distributions[1], distributions[0], ratio), stick(distributions[0], distributions[1], ratio)
    every = max(max(stick(a, b, ratio), stick(b, a, ratio)) for a, b in itertools.pairwise(distributions))
    certified = math.exp(bit.supremum(5, 0.25, math.log(1.2), tolerance=1e-6).upper)
    three, worst = _three_bits()
    return Evidence(
        (note_order, reverse) == (Fraction(3, 16), Fraction(9, 16))
        and homogeneous == (Fraction(11, 80), Fraction(729, 5120))
        and mixed == Fraction(27, 160) > max(homogeneous)
        and float(every) <= certified * (1 + 1e-12) <= float(every) * 1.0001
        and abs(three - 0.0517) < 6e-5
        and abs(worst - 0.0744) < 6e-5,
        f"n = 2: {reverse} > {note_order}; n = 5: {mixed} > {max(homogeneous)} (certified {certified:.6f}); "
        f"L = 3: ×{worst / three:.3f}",
    )


@note.states(
    "003 conj. 2",
    "R(S) has one law for all homogeneous D with an opposite outlier, whichever vector they hold",
    Status.CONFIRMED,
)
def _conjecture_2() -> Evidence:
    """Flipping the same positions of every record maps one such pair onto another (XOR symmetry); exact at L = 2, N =
    4."""
    distributions = [_ratio_distribution(2, 4, common) for common in range(4)]
    different = _ratio_distribution(2, 3, 0)
    return Evidence(
        all(distribution == distributions[0] for distribution in distributions) and different != distributions[0],
        f"4 vectors, one law of {len(distributions[0])} values, "
        f"E R = {sum(v * c for v, c in distributions[0].items())}",
    )


@note.states(
    "003-s1.3",
    "P[A₀(x)=s] = q^(L−m) p^m, m bits in common; the local ratio is at most (p/q)^L; A(D) is a sum of multinomials",
    Status.CONFIRMED,
)
def _randomization() -> Evidence:
    """Exact; “s_i ∈ {1…N}” should read {0…N}."""
    rows = transitions(3, Q)
    matrix = transition_matrix(3, 0.25)
    same = max(abs(float(rows[i][j]) - matrix[i, j]) for i in range(8) for j in range(8))
    largest = max(a / b for x, y in itertools.permutations(rows, 2) for a, b in zip(x, y, strict=True))
    two = transitions(2, Q)
    distribution = shuffled([two[0], two[0], two[3]])
    gap = max(abs(float(chance) - outcome_probability(s, [2, 0, 0, 1], 0.25)) for s, chance in distribution.items())
    return Evidence(
        same < 1e-15 and largest == R**3 and gap < 1e-15 and distribution[1, 1, 0, 1] == Fraction(273, 2048),
        f"L = 3: max ratio {largest} = (p/q)³; P[A = (1,1,0,1)] = {distribution[1, 1, 0, 1]}",
    )


@note.states(
    "003-(2.1)-(2.4)",
    "With N−1 records x, R(S) = Σ s_i p(v_i|1)/p(v_i|x) ÷ Σ s_i p(v_i|0)/p(v_i|x)",
    Status.CONFIRMED,
)
def _homogeneous_ratio() -> Evidence:
    """Exact for L = 2, N = 4: all four x, all 35 outcomes."""
    rows = transitions(2, Q)
    checked = wrong = 0
    for x in rows:
        with_one, with_zero = shuffled([x, x, x, rows[0]]), shuffled([x, x, x, rows[3]])
        for s in with_one:
            sums = [sum(c * y / o for c, y, o in zip(s, rows[i], x, strict=True)) for i in (0, 3)]
            wrong += with_one[s] / with_zero[s] != sums[0] / sums[1]
            checked += 1
    return Evidence(wrong == 0 and checked == 140, f"{checked} outcomes, {wrong} differ")


def _binned(distribution: Exact, width: int) -> Exact:
    """The same law when vectors are told apart by their number of set bits only."""
    weights = [(2**width - 1 - i).bit_count() for i in range(2**width)]
    bins: Exact = {}
    for s, chance in distribution.items():
        t = tuple(sum(c for c, w in zip(s, weights, strict=True) if w == l) for l in range(width + 1))
        bins[t] = bins.get(t, Fraction(0)) + chance
    return bins


@note.states(
    "003-(3.1)-(3.4),(3.6)",
    "R(S) = (1/N) Σ_l t_l (q/p)^(L−2l), t_l records seen with l set bits",
    Status.CONFIRMED,
)
def _ratio_of_counts() -> Evidence:
    """Exact for L = 1, 2 and N = 4; the largest value (p/q)^L needs all N records at L set bits."""
    wrong = checked = 0
    furthest = 0.0
    for width in (1, 2):
        outlier, homogeneous = (_binned(distribution, width) for distribution in _pair(width, 4))
        for t, chance in outlier.items():
            formula = sum(c * R ** (2 * l - width) for l, c in enumerate(t)) / 4
            wrong += chance / homogeneous[t] != formula
            furthest = max(furthest, abs(outlier_ratio(t, 0.25) / float(formula) - 1))
            checked += 1
    return Evidence(wrong == 0 and furthest < 1e-13, f"{checked} outcomes, {wrong} differ")


@note.states(
    '003 "binning by #set bits loses nothing"',
    "An observer who sees only how many bits each record has set learns as much as one who sees the records",
    Status.CONFIRMED,
)
def _binning() -> Evidence:
    """True of the homogeneous pair of zeros and ones, whose ratio depends on the bins only; not in general: with one
    record 10 among the others, δ falls if vectors are binned."""
    pair = _pair(2, 3)
    bins = _binned(pair[0], 2), _binned(pair[1], 2)
    ratios = [Fraction(k, 4) for k in range(4, 36)]
    equal = all(
        stick(*pair, ratio) == stick(*bins, ratio) and stick(*pair[::-1], ratio) == stick(*bins[::-1], ratio)
        for ratio in ratios
    )
    rows = transitions(2, Q)
    mixed = shuffled([rows[1], rows[3], rows[0]]), shuffled([rows[1], rows[3], rows[3]])
    full = stick(*mixed, Fraction(2))
    binned = stick(_binned(mixed[0], 2), _binned(mixed[1], 2), Fraction(2))
    return Evidence(
        equal and binned < full,
        f"homogeneous: equal at {len(ratios)} λ, both orders; mixed others, λ = 2: "
        f"δ {float(full):.4f}, binned {float(binned):.4f}",
    )


@note.states("003-(3.5)", "T ~ MN(N−1, p₀) + MN(1, p₁), p₀ and p₁ binomial in q and p", Status.CONFIRMED)
def _counts_of_set_bits() -> Evidence:
    """Exact for L = 2, N = 4; the index r runs over 0 and 1, not 1 and 2."""
    zero, one = product(*[[1 - Q, Q]] * 2), product(*[[Q, 1 - Q]] * 2)
    direct = _binned(_pair(2, 4)[0], 2)
    return Evidence(direct == shuffled([zero, zero, zero, one]), f"{len(direct)} count vectors, all equal")


def _contribution(width: int, ones: bool, q: Fraction = Q) -> dict[Fraction, Fraction]:
    """The law of what one record adds to N·R(S): X₁ if it is the outlier, else X₀."""
    distribution = product(*[[q, 1 - q] if ones else [1 - q, q]] * width)
    return {((1 - q) / q) ** (2 * l - width): chance for l, chance in enumerate(distribution)}


def _mixed_sum(parts: list[dict[Fraction, Fraction]]) -> dict[Fraction, Fraction]:
    total = {Fraction(0): Fraction(1)}
    for part in parts:
        after: dict[Fraction, Fraction] = {}
        for (x, a), (y, b) in itertools.product(total.items(), part.items()):
            after[x + y] = after.get(x + y, Fraction(0)) + a * b
        total = after
    return total


def _mean_and_variance(distribution: dict[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    mean = sum((x * chance for x, chance in distribution.items()), Fraction(0))
    return mean, sum(((x - mean) ** 2 * chance for x, chance in distribution.items()), Fraction(0))


@note.states(
    "003-(3.7)-(3.11)",
    "G(X) = G(X₀)^(N−1) G(X₁), with real exponents (q/p)^(L−2l), generates the law of X = N·R(S)",
    Status.CONFIRMED,
)
def _generating_functions() -> Evidence:
    """The convolution equals the law of N·R from all outcomes, exactly, for L = 2, N = 4."""
    zero, one = _contribution(2, False), _contribution(2, True)
    summed = _mixed_sum([zero, zero, zero, one])
    direct = {4 * value: chance for value, chance in _ratio_distribution(2, 4, -1).items()}
    values = outlier_ratio_values(2, 0.25)
    same = all(_near(float(x), v, 1e-12) for x, v in zip(sorted(zero), values, strict=True))
    return Evidence(summed == direct and same, f"{len(direct)} values of X, all probabilities equal")


@note.states(
    "003 E X0=1, VarX0=phi^L-1, E X1=phi^L, VarX1=psi^L-phi^{2L}; E R, Var R; (6.1)-(6.9)",
    "E X₀ = 1, Var X₀ = φ^L − 1, E X₁ = φ^L, Var X₁ = ψ^L − φ^(2L), and with them E R and Var R",
    Status.CONFIRMED,
)
def _moments() -> Evidence:
    """Exact for L = 1, 2 at N = 4, q = 1/5. In one line: the moments of a product over bits are powers, and one bit
    has E r^(±j) = 1, φ, ψ."""
    q = Fraction(1, 5)
    first = (1 - q) / q + q / (1 - q) - 1
    second = first**2 + first - 1
    found = []
    for width in (1, 2):
        zero, one = _contribution(width, False, q), _contribution(width, True, q)
        own = _mean_and_variance(zero) == (Fraction(1), first**width - 1)
        own &= _mean_and_variance(one) == (first**width, second**width - first ** (2 * width))
        mean, variance = _mean_and_variance({x / 4: c for x, c in _mixed_sum([zero, zero, zero, one]).items()})
        own &= _near(outlier_ratio_mean(4, width, 0.2), float(mean))
        own &= _near(outlier_ratio_variance(4, width, 0.2), float(variance))
        found.append((own, mean, variance))
    exact = [(Fraction(25, 16), Fraction(9, 16)), (Fraction(217, 64), Fraction(2601, 512))]
    agrees = all(own for own, _, _ in found) and [(a, b) for _, a, b in found] == exact
    return Evidence(agrees, f"L = 1: E R = {found[0][1]}, Var R = {found[0][2]}; L = 2: {found[1][1]}, {found[1][2]}")


@note.states(
    "003 identity (p^5+q^5)/(pq)^2",
    "ψ = (p⁵+q⁵)/(pq)² = (φ+1)² − φ − 2",
    Status.CONFIRMED,
)
def _identity() -> Evidence:
    """ψ = φ² + φ − 1. The middle line is printed over (pq)⁴, which is wrong; it must be (pq)²."""
    p = 1 - Q
    middle = p**4 - p**3 * Q + (p * Q) ** 2 - p * Q**3 + Q**4
    value, first = (p**5 + Q**5) / (p * Q) ** 2, R + 1 / R - 1
    printed = middle / (p * Q) ** 4
    return Evidence(
        value == middle / (p * Q) ** 2 == (first + 1) ** 2 - first - 2 != printed
        and _near(psi(0.25), float(value))
        and _near(phi(0.25), float(first)),
        f"q = 1/4: ψ = {value}, middle line as printed {printed}",
    )


STATEMENTS = tuple(note.statements)
