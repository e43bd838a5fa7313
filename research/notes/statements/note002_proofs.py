"""[002 §1–4.2]: the flip, the definition of privacy, and the proof that the ratio grows with the number of ones."""

import itertools
import math
from fractions import Fraction

import numpy as np

from hubbub.accountant import account
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import crowd, neighbours
from hubbub.numeric.divergences import hockey_stick
from hubbub.numeric.vectors import weigh_by_distance
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.pipeline.shuffle import shuffle
from hubbub.pipeline.tally import tally
from hubbub.planner import plan_from
from hubbub.results.estimate import estimate
from research.notes.formulas.bounds import local_epsilon
from research.notes.formulas.crowd import crowd_mean, crowd_variance
from research.notes.formulas.estimation import count_estimate, count_variance
from research.notes.formulas.ratios import privacy_ratios
from research.notes.formulas.vectors import bit_vectors, outcome_probability, transition_matrix
from research.notes.statements.catalogue import Evidence, Note, Statement, Status
from research.notes.statements.enumeration import (
    FLIPS,
    LN2,
    QUARTER,
    at,
    crowd_distribution,
    draw_fractions,
    histogram_distribution,
    histograms,
    near,
    product,
    score,
)

NOTE = Note("002")
Q, P = QUARTER, 1 - QUARTER
ONE = Fraction(1)


@NOTE.states("002-s1", "the procedure in outline (an empty list)", Status.EMPTY)
def _outline() -> Evidence:
    """The list has no entry. Ours: encode, flip every bit with probability q, send k copies, shuffle, count, debias;
    here run once from end to end on seeded coins."""
    entropy = SeededStreamNotForPeople(2)
    schema = Schema.bits(["set"])
    plan = plan_from(schema, 1000, Protocol(0.25, k=4), delta=1e-6)
    people = Collection.from_values([["set"]] * 600 + [[]] * 400, schema)
    found = estimate(tally(shuffle(randomize(people, plan, entropy=entropy), entropy=entropy)), plan).question
    value, stderr = float(found.values[0]), float(found.stderr[0])
    expected = math.sqrt(count_variance(1000, 0.25, k=4))
    shown = f"600 of 1,000 set: T̂ = {value:.1f} ± {stderr:.1f}"
    return Evidence(abs(value - 600) < 4 * stderr and near(stderr, expected), shown)


@NOTE.states("002-s2 def R, remarks", "R lies with probability q; q = f/2 of the fair-coin form", Status.CONFIRMED)
def _flip() -> Evidence:
    """The fair-coin form (1 − f)·I + (f/2)·J is the same matrix, and at q = 1/2 both bits give the same law."""
    same = score(
        near(transition_matrix(1, float(q))[i, j], (1 - 2 * q) * (i == j) + q)
        for q in FLIPS
        for i, j in itertools.product(range(2), repeat=2)
    )
    half = [weigh_by_distance(bit, 0.5, 0.5).tolist() for bit in ([1, 0], [0, 1])]
    return Evidence(same.full and half[0] == half[1], f"{same} entries equal; at q = 1/2 both rows are {half[0]}")


@NOTE.states("002-s2 P[R(v)=s]", "P[R(v) = s] = q^(L−m) p^m with m matching bits, largest at s = v", Status.CONFIRMED)
def _flipped_vector() -> Evidence:
    """For all pairs of vectors of up to four bits; smallest at the opposite vector."""
    entries, extremes = [], []
    for width, q in itertools.product(range(1, 5), FLIPS):
        matrix, bits = transition_matrix(width, float(q)), bit_vectors(width)
        for i, j in itertools.product(range(2**width), repeat=2):
            matches = int((bits[i] == bits[j]).sum())
            entries.append(near(matrix[i, j], q ** (width - matches) * (1 - q) ** matches))
        extremes += [row.argmax() == i and row.argmin() == 2**width - 1 - i for i, row in enumerate(matrix)]
    entry, extreme = score(entries), score(extremes)
    return Evidence(entry.full and extreme.full, f"{entry} entries, {extreme} extremes")


@NOTE.states("002-s2 P[s in R(T)]", "P[s ∈ R(T)] = 1 − Π_v (1 − q^(L−m) p^m)", Status.CONFIRMED)
def _seen_at_all() -> Evidence:
    """For all collections of three vectors of two bits, by enumeration; the code's law agrees."""
    matrix = transition_matrix(2, 0.25)
    cases = []
    for originals in histograms(3, 4):
        distribution = histogram_distribution(originals)
        for s in range(4):
            formula = 1 - math.prod((1 - matrix[v, s]) ** count for v, count in enumerate(originals))
            cases.append(near(formula, sum(chance for counts, chance in distribution.items() if counts[s])))
    found = sum(outcome_probability(s, (2, 0, 0, 1), 0.25) for s in histograms(3, 4) if s[0])
    cases.append(near(found, 1 - (1 - P**2) ** 2 * (1 - Q**2)))
    held = score(cases)
    return Evidence(held.full, f"{held} cases; P[11 ∈ R(11, 11, 00)] = {found:.6f} at q = 1/4")


@NOTE.states("002-s3 DP definition", "P[A(x) ∈ S] ≤ ε·P[A(x′) ∈ S]", Status.WRONG)
def _definition() -> Evidence:
    """A slip: the factor must be e^ε. With ε itself one flipped bit at q = 1/4 fails its own guarantee, and ε = 0 would
    forbid even identical laws. The same slip is in [000 §9] and [001 §5]."""
    epsilon = local_epsilon(1, 0.25)
    worst = float((transition_matrix(1, 0.25)[0] / transition_matrix(1, 0.25)[1]).max())
    shown = f"ratio {worst:.0f} > ε = {epsilon:.4f}, and = e^ε = {math.exp(epsilon):.4f}"
    return Evidence(epsilon < worst <= math.exp(epsilon) and near(worst, math.exp(epsilon)), shown)


@NOTE.states("002-s3 ratio<=max ratio", "Σa/Σb ≤ max a/b for positive b (the missing lemma)", Status.CONFIRMED)
def _ratio_of_sums() -> Evidence:
    """Exact, on drawn fractions and on every event of a small crowd. It is [000 Lemma 8.1]: a weighted mean."""
    draw = draw_fractions(3)
    drawn = score(
        sum(a) / sum(b) <= max(x / y for x, y in zip(a, b, strict=True))
        for a, b in (([next(draw) for _ in range(5)], [next(draw) for _ in range(5)]) for _ in range(300))
    )
    top = float(privacy_ratios(5, 2, 0.25).max())
    pairs = list(zip(crowd_distribution(5, 2), crowd_distribution(5, 3), strict=True))
    events = score(
        float(sum(a for a, _ in event) / sum(b for _, b in event)) <= top * (1 + 1e-12)
        for size in range(1, 7)
        for event in itertools.combinations(pairs, size)
    )
    return Evidence(drawn.full and events.full and near(top, P / Q), f"{drawn} drawn, {events} events up to {top:.4f}")


@NOTE.states("002-s3 RAPPOR reduction", "unshuffled, only the changed record matters", Status.CONFIRMED)
def _unshuffled() -> Evidence:
    """The product form cancels; so the guarantee without a shuffler is that of one record, L·ln(p/q)."""
    matrix = transition_matrix(2, 0.25)

    def distribution(*records: int) -> dict[tuple[int, ...], Fraction]:
        """Of the ordered output, from the sixteen patterns of lies: a lie at a bit is an exclusive or."""
        found: dict[tuple[int, ...], Fraction] = {}
        for noise in itertools.product(range(4), repeat=len(records)):
            told = sum(flip_probability.bit_count() for flip_probability in noise)
            output = tuple(record ^ flip_probability for record, flip_probability in zip(records, noise, strict=True))
            found[output] = Q**told * P ** (2 * len(records) - told)
        return found

    distributions = {records: distribution(*records) for records in itertools.product(range(4), repeat=2)}
    held = score(
        near(matrix[x, output[0]] / matrix[w, output[0]], chance / distributions[w, o][output])
        for x, w, o in itertools.product(range(4), repeat=3)
        for output, chance in distributions[x, o].items()
    )
    given = account(Protocol(0.25), Schema.bits(2), 10, delta=0.0, trust="nobody").epsilon
    return Evidence(held.full and near(given, 2 * math.log(3)), f"{held} ratios; accountant: ε = {given:.6f} = 2 ln 3")


@NOTE.states("002-s3 log P[R(T)]/P[R(T_v)]<=eps", "ln(P[R(T) ∈ S]/P[R(T∖v) ∈ S]) ≤ ε defines privacy", Status.LOOSE)
def _removed() -> Evidence:
    """T and T∖{v} give outputs of different size, so the ratio is infinite whatever q is, unless the size is hidden.
    Replacing one record is the neighbourhood to use."""
    three, two = ([float(x) for x in crowd_distribution(n, n)] for n in (3, 2))
    apart = hockey_stick(np.append(three, np.zeros(3)), np.append(np.zeros(4), two), math.log(3))
    zero, one = neighbours(3, 2, 0.25)
    replaced = hockey_stick(zero.pmf, one.pmf, math.log(3))
    shown = f"δ(ln 3) at q = 1/4: removed {apart:.3f}, replaced {replaced:.3f}"
    return Evidence(near(apart, 1.0) and replaced < 1e-12, shown)


@NOTE.states('002-s3 A_p "Anonymity"', "A_p = min P[s ∈ R(T∖v)]/P[s = R(v)] measures anonymity", Status.LOOSE)
def _anonymity() -> Evidence:
    """Never used again, and no measure of privacy: for N equal bits it is close to 1/p, near 1 both where δ is close to
    nothing and where it is large. Drop it."""

    def figures(q: float, n: int = 1000) -> tuple[float, float]:
        least = min((1 - q ** (n - 1)) / (1 - q), (1 - (1 - q) ** (n - 1)) / q)
        zero, one = neighbours(n, n - 1, q)
        return least, max(hockey_stick(zero.pmf, one.pmf, LN2), hockey_stick(one.pmf, zero.pmf, LN2))

    (low, bare), (high, hidden) = figures(0.001), figures(0.25)
    shown = f"N = 1,000 equal bits: A_p = {low:.3f} and {high:.3f}, δ(ln 2) = {bare:.2f} and {hidden:.0e}"
    return Evidence(1 < low < high < 1.4 and bare > 0.3 and hidden < 1e-9, shown)


@NOTE.states("002-s4.1 S=pT+q(N-T)", "the observed S is pT + q(N − T)", Status.LOOSE)
def _observed() -> Evidence:
    """That is E S; S is random, with variance Npq, and need not be able to take the value."""
    distribution, mean = crowd(10, 4, 0.25), crowd_mean(10, 4, 0.25)
    s = np.arange(distribution.low, distribution.high + 1)
    moments = near(float(distribution.pmf @ s), mean) and near(
        float(distribution.pmf @ (s - mean) ** 2), crowd_variance(10, 0.25)
    )
    shown = f"N = 10, T = 4, q = 1/4: E S = {mean}, never attained; Var S = {crowd_variance(10, 0.25)}"
    return Evidence(moments and near(mean, 4 * P + 6 * Q) and mean not in s and crowd_variance(10, 0.25) > 0, shown)


@NOTE.states("002-(4.1)-(4.4)", "T̂ = (S − qN)/(p − q) is unbiased, Var T̂ = pqN/(p − q)²", Status.CONFIRMED)
def _estimator() -> Evidence:
    """By the exact law, for N = 4 and 7 and every T; the variance does not depend on T."""
    cases = []
    for n, q in itertools.product((4, 7), FLIPS):
        values = count_estimate(np.arange(n + 1), n, float(q))
        for ones in range(n + 1):
            distribution = np.array([float(x) for x in crowd_distribution(n, ones, q)])
            cases.append(near(float(distribution @ values), ones))
            cases.append(near(float(distribution @ (values - ones) ** 2), q * (1 - q) * n / (1 - 2 * q) ** 2))
            cases.append(near(count_variance(n, float(q)), q * (1 - q) * n / (1 - 2 * q) ** 2))
    held = score(cases)
    return Evidence(held.full, f"{held} moments; Var T̂ = {count_variance(7, 0.25):.4f} at N = 7, q = 1/4")


@NOTE.states(
    "002-Thm 4.1", "R_i = P(i | m ones)/P(i | m + 1 ones) grows with m, largest for all ones", Status.CONFIRMED
)
def _growing_ratio() -> Evidence:
    """Pointwise, and strictly but for i = 0 and N, where it is p/q and q/p throughout. It does not make all ones the
    worst case for a tail or for δ: at N = 5, λ = 6/5 three other ones are worse."""
    cases, level = [], []
    for n, q in itertools.product(range(2, 9), FLIPS):
        exact = [
            [a / b for a, b in zip(crowd_distribution(n, m, q), crowd_distribution(n, m + 1, q), strict=True)]
            for m in range(n)
        ]
        for m, i in itertools.product(range(n - 1), range(n + 1)):
            cases.append(exact[m][i] < exact[m + 1][i] if 0 < i < n else exact[m][i] == exact[m + 1][i])
        level += [near(a, b) for m in range(n) for a, b in zip(privacy_ratios(n, m, float(q)), exact[m], strict=True)]
    deltas = [
        hockey_stick(one.pmf, zero.pmf, math.log(1.2)) for zero, one in (neighbours(5, m, 0.25) for m in range(5))
    ]
    held, computed = score(cases), score(level)
    shown = (
        f"{held} steps, {computed} ratios; yet δ(ln 6/5) at N = 5 is largest for {deltas.index(max(deltas))} other ones"
    )
    return Evidence(
        held.full and computed.full and near(max(deltas), Fraction(27, 160)) and max(deltas) > 1.1 * deltas[4], shown
    )


@NOTE.states("002-(4.5)-(4.6),(4.10)-(4.15)", "G_(m±1), G_m through the coefficients b of Q(x)", Status.CONFIRMED)
def _generating_functions() -> Evidence:
    """Exact, with Q(x) = (q + px)^(m−1) (p + qx)^(N−m−1) as it is meant."""
    cases = []
    for n, q in itertools.product(range(2, 8), FLIPS):
        p = 1 - q
        for m in range(1, n):
            b = crowd_distribution(n - 2, m - 1, q)
            less, distribution, more = (crowd_distribution(n, m + shift, q) for shift in (-1, 0, 1))
            found = crowd(n, m + 1, float(q)).pmf
            for i in range(n + 1):
                cases.append(near(found[i], more[i]))
                c, d, e = (at(b, i - shift) for shift in range(3))
                cases.append(more[i] == c * q**2 + 2 * q * p * d + e * p**2)
                cases.append(distribution[i] == c * q * p + (q**2 + p**2) * d + e * q * p)
                cases.append(less[i] == c * p**2 + 2 * q * p * d + e * q**2)
                cases.append(
                    (distribution[i] ** 2 > less[i] * more[i])
                    == (distribution[i] / more[i] > less[i] / distribution[i])
                )
    held = score(cases)
    return Evidence(held.full, f"{held} identities, N ≤ 7")


@NOTE.states("002-(4.7)-(4.9), Q(x)", "G_(m+1)(x) = (p + qx)^(m+1) (p + qx)^(N−m−1), and so on", Status.WRONG)
def _misprinted_generating_functions() -> Evidence:
    """A slip: the first factor must be q + px; as printed nothing depends on m, and all are the law of N zeros."""
    n = 5
    printed = {m: product(*[[P, Q]] * m, *[[P, Q]] * (n - m)) for m in range(n + 1)}
    meant = score(product(*[[Q, P]] * m, *[[P, Q]] * (n - m)) == list(crowd_distribution(n, m)) for m in range(n + 1))
    code = score(
        near(a, b) for m in range(n + 1) for a, b in zip(crowd(n, m, 0.25).pmf, crowd_distribution(n, m), strict=True)
    )
    wrong = sum(printed[m] != list(crowd_distribution(n, m)) for m in range(n + 1))
    zeros = all(one == list(crowd_distribution(n, 0)) for one in printed.values())
    return Evidence(
        wrong == n and zeros and meant.full and code.full, f"printed: wrong for {wrong} of 6 m; meant: {meant}"
    )


@NOTE.states('002 "simplifies to"', "a_m² − a_(m−1) a_(m+1) = (p² − q²)² (b_i² − b_(i+1) b_(i−1))", Status.WRONG)
def _simplified() -> Evidence:
    """The index is off by one: (p² − q²)² (b_(i−1)² − b_i b_(i−2)). The proof goes through with it."""
    printed, meant = [], []
    for n, q in itertools.product(range(2, 8), FLIPS):
        scale = (1 - 2 * q) ** 2
        for m, i in itertools.product(range(1, n), range(n + 1)):
            b = crowd_distribution(n - 2, m - 1, q)
            left = (
                crowd_distribution(n, m, q)[i] ** 2
                - crowd_distribution(n, m - 1, q)[i] * crowd_distribution(n, m + 1, q)[i]
            )
            printed.append(left == scale * (at(b, i) ** 2 - at(b, i + 1) * at(b, i - 1)))
            meant.append(left == scale * (at(b, i - 1) ** 2 - at(b, i) * at(b, i - 2)))
    wrong, right = score(printed), score(meant)
    return Evidence(
        wrong.failed > 0 and right.full, f"printed fails in {wrong.failed} of {wrong.total}; ours holds in {right}"
    )


def _polynomials(seed: int, count: int) -> list[list[Fraction]]:
    """Monic polynomials with drawn roots −r, of degree 2 to 7."""
    draw = draw_fractions(seed)
    return [product(*[[next(draw), ONE] for _ in range(2 + j % 6)]) for j in range(count)]


@NOTE.states("002-Lemma 1", "roots −r_i ≤ 0 make the coefficients log-concave", Status.CONFIRMED)
def _log_concave() -> Evidence:
    """Exact, on drawn roots; a special case of Newton's inequalities."""
    held = score(b[i] ** 2 >= at(b, i + 1) * at(b, i - 1) for b in _polynomials(1, 200) for i in range(len(b)))
    return Evidence(held.full, f"{held} coefficients of 200 drawn polynomials")


@NOTE.states("002-(4.16)-(4.17)", "n = 2: a_1² − a_0 a_2 = r_1² + r_2² + r_1 r_2 > 0", Status.CONFIRMED)
def _two_roots() -> Evidence:
    """Strict unless both roots are 0, which the lemma allows."""
    draw = draw_fractions(4)
    pairs = [(next(draw), next(draw)) for _ in range(100)]
    held = score((r + s) ** 2 - r * s == r**2 + s**2 + r * s > 0 for r, s in pairs)
    none = product([Fraction(0), ONE], [Fraction(0), ONE])
    at_zero = none[1] ** 2 - none[0] * none[2]
    return Evidence(held.full and at_zero == 0, f"{held} drawn pairs; {at_zero} at r = (0, 0)")


@NOTE.states("002-(4.18)-(4.21)", "one root more: a_i = b_i r + b_(i−1)", Status.CONFIRMED)
def _one_root_more() -> Evidence:
    """Exact, with the expansion of a_i² − a_(i+1) a_(i−1) before it is sorted."""
    cases = []
    for b, r in zip(_polynomials(5, 60), draw_fractions(6), strict=False):
        a = product(b, [r, ONE])
        for i in range(len(a)):
            cases.append(a[i] == at(b, i) * r + at(b, i - 1))
            expanded = (at(b, i + 1) * r + at(b, i)) * (at(b, i - 1) * r + at(b, i - 2))
            cases.append(a[i] ** 2 - at(a, i + 1) * at(a, i - 1) == (at(b, i) * r + at(b, i - 1)) ** 2 - expanded)
    held = score(cases)
    return Evidence(held.full, f"{held} identities")


@NOTE.states("002-(4.22)", "the middle term is r (b_i b_(i−1) − b_(i+1) b_(i−1))", Status.WRONG)
def _middle_term() -> Evidence:
    """It must be r (b_i b_(i−1) − b_(i+1) b_(i−2))."""
    printed, meant = [], []
    for b, r in zip(_polynomials(7, 60), draw_fractions(8), strict=False):
        a = product(b, [r, ONE])
        for i in range(len(a)):
            outer = r**2 * (at(b, i) ** 2 - at(b, i + 1) * at(b, i - 1)) + at(b, i - 1) ** 2 - at(b, i) * at(b, i - 2)
            left = a[i] ** 2 - at(a, i + 1) * at(a, i - 1)
            printed.append(left == outer + r * (at(b, i) * at(b, i - 1) - at(b, i + 1) * at(b, i - 1)))
            meant.append(left == outer + r * (at(b, i) * at(b, i - 1) - at(b, i + 1) * at(b, i - 2)))
    wrong, right = score(printed), score(meant)
    return Evidence(
        wrong.failed > 0 and right.full, f"printed fails in {wrong.failed} of {wrong.total}; ours holds in {right}"
    )


@NOTE.states("002-(4.26),(4.29)", "b_i b_(i−1) ≥ b_(i+1) b_(i−1)", Status.WRONG)
def _falling_coefficients() -> Evidence:
    """It would make the coefficients fall: with the roots 3, 3, 6/7, 4/3, 1, 8/5 they do not at i = 1. What (4.28)
    gives, and (4.22) needs, is b_i b_(i−1) ≥ b_(i+1) b_(i−2)."""
    roots = [Fraction(*x) for x in ((3, 1), (3, 1), (6, 7), (4, 3), (1, 1), (8, 5))]
    b = product(*[[r, ONE] for r in roots])
    meant = score(
        at(c, i) * at(c, i - 1) >= at(c, i + 1) * at(c, i - 2)
        for c in [b, *_polynomials(9, 100)]
        for i in range(len(c))
    )
    shown = f"b_1 = {float(b[1]):.2f} < b_2 = {float(b[2]):.2f}; ours holds in {meant}"
    return Evidence(b[1] * b[0] < b[2] * b[0] and meant.full, shown)


STATEMENTS: tuple[Statement, ...] = tuple(NOTE.statements)
