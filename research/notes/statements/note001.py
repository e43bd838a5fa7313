"""The statements of [001] (February 2016): the privacy ratio of bit vectors, and of single bits by recursion."""

import itertools
import math
from fractions import Fraction

from hubbub.numeric.crowd import crowd, neighbours
from hubbub.numeric.divergences import hockey_stick
from research.notes.formulas.bounds import local_epsilon
from research.notes.formulas.ratios import privacy_ratios, vector_privacy_ratio
from research.notes.formulas.vectors import bit_vectors, outcome_probability, transition_matrix
from research.notes.statements.catalogue import Evidence, Note, Statement, Status
from research.notes.statements.enumeration import (
    FLIPS,
    QUARTER,
    HistogramLaw,
    at,
    by_output,
    crowd_distribution,
    dense,
    draw_fractions,
    histogram_distribution,
    histograms,
    largest_event_ratio,
    near,
    score,
    step,
    transitions,
)

NOTE = Note("001")
Q, P = QUARTER, 1 - QUARTER


@NOTE.states(
    "001-s1 defs, (1.1)", "ε-privacy: P[A(x) ∈ S] ≤ e^ε P[A(x′) ∈ S] for all S and neighbours", Status.CONFIRMED
)
def _definition() -> Evidence:
    """The definition as it is used today. On an instance: three shuffled bits keep ε = ln(p/q), in every event, both
    orders and all collections, with equality. Of its two neighbourhoods the one by an added record needs the number of
    records to be hidden; all that is computed here replaces one."""
    bar = math.exp(local_epsilon(1, 0.25))
    worst, events = Fraction(0), 0
    for ones, swap in itertools.product(range(3), (False, True)):
        pair = [dict(zip(histograms(3, 2), crowd_distribution(3, m), strict=True)) for m in (ones, ones + 1)]
        found, number = largest_event_ratio(*(pair[::-1] if swap else pair))
        worst, events = max(worst, found), events + number
    zero, one = neighbours(3, 1, 0.25)
    held = hockey_stick(zero.pmf, one.pmf, local_epsilon(1, 0.25))
    shown = f"{events} events: largest ratio {worst} = e^ε = {bar:.4f}"
    return Evidence(worst <= Fraction(bar) and near(bar, worst) and held < 1e-12, shown)


@NOTE.states("001-Prop 1.1 (1.2)", "for finitely many outcomes, privacy is the pointwise ratio", Status.CONFIRMED)
def _pointwise() -> Evidence:
    """The largest ratio over all events is that of a single outcome. Outcomes of probability 0 must be dropped before
    the lemma, which needs positive denominators; that is harmless."""
    cases = []
    for n, q in itertools.product((2, 4, 6), FLIPS):
        for ones in range(n):
            pair = [dict(zip(histograms(n, 2), crowd_distribution(n, m, q), strict=True)) for m in (ones, ones + 1)]
            single = max(pair[0][s] / pair[1][s] for s in pair[0])
            cases.append(largest_event_ratio(*pair)[0] == single)
            cases.append(near(float(privacy_ratios(n, ones, float(q)).max()), single))
    zero: HistogramLaw = {(0,): Fraction(1, 2), (1,): Fraction(1, 2), (2,): Fraction(0)}
    skew: HistogramLaw = {(0,): Fraction(1, 4), (1,): Fraction(3, 4), (2,): Fraction(0)}
    cases.append(largest_event_ratio(zero, skew)[0] == 2)
    held = score(cases)
    return Evidence(held.full, f"{held} maxima over events attained at an outcome")


@NOTE.states(
    "001-s2.1", "P[R(x) = y] = p^(L−d) q^d by Hamming distance, least at the opposite vector", Status.CONFIRMED
)
def _by_distance() -> Evidence:
    """For all pairs of up to four bits, with bξ + (1 − b)(1 − ξ) as the flip of one."""
    cases = [b * x + (1 - b) * (1 - x) == (b if x else 1 - b) for b in (0, 1) for x in (0, 1)]
    for width, q in itertools.product(range(1, 5), FLIPS):
        matrix, bits = transition_matrix(width, float(q)), bit_vectors(width).astype(int)
        for i, j in itertools.product(range(2**width), repeat=2):
            distance = int(abs(bits[i] - bits[j]).sum())
            cases.append(near(matrix[i, j], (1 - q) ** (width - distance) * q**distance))
        cases += [int((bits[i] != bits[row.argmin()]).sum()) == width for i, row in enumerate(matrix)]
    held = score(cases)
    return Evidence(held.full, f"{held} entries and opposites")


@NOTE.states("001-s2.2, (2.1)", "P[A(x) = s] = Σ p^(nL−d(x,y)) q^d(x,y) over outputs y with counts s", Status.CONFIRMED)
def _counted() -> Evidence:
    """Enumerated in order, against the sum of multinomials and the code. (S_n is first defined without Σs = n; only
    such counts occur.)"""
    cases, seen = [], 0
    for width, records in ((1, (0, 0, 1, 1)), (2, (0, 0, 3)), (2, (1, 2, 3)), (3, (0, 5))):
        distribution = by_output(records, width, Q)
        originals = tuple(records.count(value) for value in range(2**width))
        cases.append(distribution == histogram_distribution(originals))
        cases.append(set(distribution) == set(histograms(len(records), 2**width)))
        cases += [near(outcome_probability(counts, originals, 0.25), chance) for counts, chance in distribution.items()]
        seen += len(distribution)
    held = score(cases)
    return Evidence(held.full, f"{held} cases; {seen} outcomes of four collections")


@NOTE.states("001-s3, (3.1)", "π by conditioning on the changed record", Status.CONFIRMED)
def _conditioned() -> Evidence:
    """The code's ratio, against the quotient of the two weighted sums, in fractions."""
    row = transitions(2)
    cases = []
    for others, counts in itertools.product(histograms(2, 4)[::3], histograms(3, 4)[::2]):
        distribution = histogram_distribution(others)
        for i, j in ((0, 3), (1, 0), (2, 1)):
            sums = [sum(row[x][k] * distribution.get(step(counts, k, None), 0) for k in range(4)) for x in (j, i)]
            cases.append(near(vector_privacy_ratio(counts, others, i, j, 0.25), sums[0] / sums[1]))
    held = score(cases)
    return Evidence(held.full, f"{held} ratios of two bits, three records")


@NOTE.states("001-s3 TODOs", "consequences: reweighting, and the largest value of π", Status.EMPTY)
def _largest() -> Evidence:
    """Left open. Ours: numerator and denominator weigh the same terms by p(j, k) and p(i, k), so π is at most
    max_k p(j, k)/p(i, k) = (p/q)^d, d the distance of the two records; attained where everybody shows x′, for every
    number of records."""
    within, attained = [], []
    for width, n in ((1, 1), (1, 4), (2, 1), (2, 3), (3, 2)):
        size = 2**width
        for others, j in itertools.product(histograms(n - 1, size), range(1, size)):
            before, after = histogram_distribution(step(others, None, 0)), histogram_distribution(step(others, None, j))
            bar = (P / Q) ** j.bit_count()
            within.append(max(after[s] / before[s] for s in before) == bar)
            corner = tuple(n * (k == j) for k in range(size))
            attained.append(near(vector_privacy_ratio(corner, others, 0, j, 0.25), bar))
    held, corners = score(within), score(attained)
    return Evidence(held.full and corners.full, f"{held} maxima equal (p/q)^d, {corners} of them at s = n e_x′")


@NOTE.states(
    "001-s3.1 A_n(m)~Bin(m,p)+Bin(n-m,q), pi(s;m)",
    "for one bit A_n(m) ~ Bin(m, p) + Bin(n − m, q), and π is π(s; m−1) or 1/π(s; m)",
    Status.CONFIRMED,
)
def _single_bits() -> Evidence:
    """The law by the two binomials, and both cases of the ratio against that of vectors of one bit."""
    distributions, ratios = [], []
    for n, q in itertools.product((1, 3, 6), FLIPS):
        for m, s in itertools.product(range(n + 1), range(n + 1)):
            convolved = sum(
                math.comb(m, a)
                * (1 - q) ** a
                * q ** (m - a)
                * math.comb(n - m, s - a)
                * q ** (s - a)
                * (1 - q) ** (n - m - s + a)
                for a in range(max(0, s - n + m), min(m, s) + 1)
            )
            distributions.append(near(dense(crowd(n, m, float(q)), n)[s], convolved))
            if m and q == QUARTER:
                down = vector_privacy_ratio((s, n - s), (m - 1, n - m), 0, 1, 0.25)
                up = vector_privacy_ratio((s, n - s), (m - 1, n - m), 1, 0, 0.25)
                ratio = float(privacy_ratios(n, m - 1, 0.25)[s])
                ratios += [near(down, ratio), near(up, 1 / ratio)]
    distribution, cases = score(distributions), score(ratios)
    return Evidence(distribution.full and cases.full, f"{distribution} probabilities, {cases} ratios")


@NOTE.states("001-(3.2),(3.3) + cdf", "P_n,m from P_(n−1,m−1) and from P_(n−1,m), and so for the cdf", Status.CONFIRMED)
def _recursions() -> Evidence:
    """Exact, n ≤ 8; the code's pair of neighbours is built on them and gives the two crowds."""
    exact, code = [], []
    for n, q in itertools.product(range(1, 9), FLIPS):
        p = 1 - q
        for m, s in itertools.product(range(n + 1), range(n + 1)):
            below = [sum(crowd_distribution(n, m, q)[: s + 1]), crowd_distribution(n, m, q)[s]]
            for ones, own in ((m - 1, p), (m, q)):
                if 0 <= ones < n:
                    distribution = crowd_distribution(n - 1, ones, q)
                    exact.append(below[1] == own * at(distribution, s - 1) + (1 - own) * at(distribution, s))
                    exact.append(below[0] == own * sum(distribution[:s]) + (1 - own) * sum(distribution[: s + 1]))
        for m in range(n):
            zero, one = neighbours(n, m, float(q))
            pairs = ((zero, crowd_distribution(n, m, q)), (one, crowd_distribution(n, m + 1, q)))
            code += [
                near(a, b) for found, distribution in pairs for a, b in zip(dense(found, n), distribution, strict=True)
            ]
            code += [near(zero.cdf(s), sum(crowd_distribution(n, m, q)[: s + 1])) for s in range(n + 1)]
    identity, computed = score(exact), score(code)
    return Evidence(identity.full and computed.full, f"{identity} identities, {computed} values of the code")


@NOTE.states("001 bullet 1", "P_n,m(s) lies between P_(n−1,m)(s − 1) and P_(n−1,m)(s)", Status.CONFIRMED)
def _between() -> Evidence:
    """And P_n,m(0) ≤ P_(n−1,m)(0). [000 §6.1] replaced this by a false statement."""
    cases = []
    for n, q in itertools.product(range(1, 10), FLIPS):
        for m in range(n):
            less, more = crowd_distribution(n - 1, m, q), crowd_distribution(n, m, q)
            ends = [sorted((at(less, s - 1), at(less, s))) for s in range(n + 1)]
            cases += [low <= value <= high for value, (low, high) in zip(more, ends, strict=True)]
            cases.append(float(crowd(n, m, float(q)).pmf[0]) <= float(crowd(n - 1, m, float(q)).pmf[0]))
    held = score(cases)
    return Evidence(held.full, f"{held} probabilities, n ≤ 9")


@NOTE.states("001 bullet 2", "P_n,m(s) and P_(n,m+1)(s) lie between consecutive values of P_(n−1,m)", Status.CONFIRMED)
def _both_between() -> Evidence:
    """The two weigh the same two values by (q, p) and by (p, q)."""
    cases = []
    for n, q in itertools.product(range(1, 10), FLIPS):
        for m in range(n):
            zero, one = (dense(distribution, n) for distribution in neighbours(n, m, float(q)))
            distribution = crowd_distribution(n - 1, m, q)
            for s in range(n + 1):
                low, high = sorted((at(distribution, s - 1), at(distribution, s)))
                cases.append(
                    low <= crowd_distribution(n, m, q)[s] <= high and low <= crowd_distribution(n, m + 1, q)[s] <= high
                )
                cases.append(near(zero[s] + one[s], low + high))
    held = score(cases)
    return Evidence(held.full, f"{held} pairs, n ≤ 9")


def ratio_lemmas(seed: int, count: int) -> Evidence:
    """Lemmas 1 to 3 on ratios of sums, and the corollary, on drawn fractions that meet their hypotheses.

    >>> ratio_lemmas(1, 40).agrees
    True
    """
    draw = draw_fractions(seed)

    def several(number: int) -> list[Fraction]:
        return [next(draw) for _ in range(number)]

    first, second, corollary, third = [], [], [], []
    for _ in range(count):
        a, b = several(4), several(4)
        first.append(sum(a) / sum(b) <= max(x / y for x, y in zip(a, b, strict=True)))
        # λ_i/μ_i falls with i by sorting, and a_i/a_j ≥ a′_i/a′_j for i < j by a′ = a·(rising factors).
        mu = several(4)
        lam = [x * y for x, y in zip(mu, sorted(several(4), reverse=True), strict=True)]
        primed = [x * y for x, y in zip(a, sorted(several(4)), strict=True)]
        left, right = (
            sum(x * y for x, y in zip(c, lam, strict=True)) / sum(x * y for x, y in zip(c, mu, strict=True))
            for c in (a, primed)
        )
        second.append(left >= right)
        q = next(draw) / 513
        small, large = sorted(((a[0], a[1]), (b[0], b[1])), key=lambda pair: pair[1] / pair[0])
        g = [(q * x + (1 - q) * y) / ((1 - q) * x + q * y) for x, y in (large, small)]
        corollary.append(g[0] >= g[1])
        (e, f, h), (s, t, w) = several(3), several(3)
        # (a, b, c) = (e, f, h); ac′ ≥ a′c, ab′ ≤ a′b and bc′ ≥ b′c decide whether the case counts.
        if e * w >= s * h and e * t <= s * f and f * w >= t * h:
            x, y = several(2)
            third.append((e * x + f * y) / (h * x + e * y) >= (s * x + t * y) / (w * x + s * y))
    scores = [score(cases) for cases in (first, second, corollary, third)]
    return Evidence(all(one.full for one in scores), "; ".join(str(one) for one in scores) + " drawn cases")


@NOTE.states("001-Lemma 4.1-4.3, Cor 4.1", "how ratios of sums compare", Status.CONFIRMED)
def _lemmas() -> Evidence:
    """Exact, on drawn fractions; the same as [000 §8]."""
    return ratio_lemmas(41, 200)


@NOTE.states("001-s5", "unshuffled records are private if P[A_0(x) = s] ≤ ε·P[A_0(x′) = s]", Status.LOOSE)
def _old_stuff() -> Evidence:
    """The reduction to one record is right; the factor must be e^ε, as in (1.1). With ε itself, the q that is called
    private with factor 2 has ε = 2 instead of ln 2, and below factor 1 nothing is private."""
    matrix = transition_matrix(1, 1 / 3)
    factor = float((matrix[0] / matrix[1]).max())
    meant = local_epsilon(1, 1 / 3)
    shown = f"q = 1/3: factor {factor:.4f}, read as ε = 2 instead of {meant:.4f}"
    return Evidence(near(factor, 2) and near(meant, math.log(2)) and factor > 2.8 * meant, shown)


STATEMENTS: tuple[Statement, ...] = tuple(NOTE.statements)
