"""Closed forms: golden values, and lower ≤ exact ≤ upper for those that are bounds."""

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from research.notes.formulas import bounds
from research.notes.formulas.divergences import sufficient_tail
from research.notes.formulas.estimation import count_stderr
from research.notes.formulas.outliers import outlier_pair
from research.notes.formulas.ratios import copies_outlier_ratio, vector_privacy_ratio
from research.notes.formulas.vectors import bit_vectors, transition_matrix

from hubbub.errors import Infeasible, InvalidInput
from hubbub.numeric.binomial import binomial, log_binomial_pmf
from hubbub.numeric.crowd import crowd, neighbours
from hubbub.numeric.divergences import hockey_stick

LN2 = math.log(2)
FLIPS = st.floats(0.01, 0.49)


def worst_delta(n: int, q: float, epsilon: float, step: int = 1) -> float:
    """Over the collections of n bits whose others have 0, step, 2·step, … or n − 1 ones, both orders."""
    every = {*range(0, n, step), n - 1}
    pairs = [neighbours(n, ones, q) for ones in every]
    return max(
        max(hockey_stick(zero.pmf, one.pmf, epsilon), hockey_stick(one.pmf, zero.pmf, epsilon)) for zero, one in pairs
    )


def test_golden_three_sigma_lies_of_bits() -> None:
    """[002 eq 4.45] λ = 2 and e², N = 1000; [002 eq 5.24] λ = 2, k = 2, 4, 16, and the standard errors they give."""
    assert bounds.three_sigma_bit_flip(1000, LN2) == pytest.approx(0.00876406756758793394, rel=1e-14)
    assert bounds.three_sigma_bit_flip(1000, 2.0) == pytest.approx(0.000220334225294711315, rel=1e-14)
    flips = {2: 0.0243294976391707181, 4: 0.0530368726043592919, 16: 0.158833069907844258}
    sigmas = {2: 3.62132034355964257, 4: 3.9639101309124339, 16: 4.23501200303821472}
    for k, flip_probability in flips.items():
        assert bounds.three_sigma_copies_flip(1000, LN2, k) == pytest.approx(flip_probability, rel=1e-14)
        assert count_stderr(1000, flip_probability, k=k) == pytest.approx(sigmas[k], rel=1e-13)


@pytest.mark.parametrize(
    ("epsilon", "n", "exact", "simple"),
    [
        (LN2, 1000, 0.244536678940296558, 0.244873880645834703),
        (LN2, 3000, 0.210858453968077589, 0.210960963386495872),
        (LN2, 5000, 0.196343943751978195, 0.196402812701454409),
        (2.0, 1000, 0.169198813153796182, 0.169212744464167121),
        (2.0, 3000, 0.142354965832660639, 0.142359262633126877),
        (2.0, 5000, 0.13102160705093162, 0.131024084766606471),
    ],
)
def test_golden_three_sigma_lies_of_five_bits(epsilon: float, n: int, exact: float, simple: float) -> None:
    """[003 eq 3.12] and [003 eq 3.15] for the readings of [003 §3.3]."""
    assert bounds.three_sigma_flip(n, 5, epsilon) == pytest.approx(exact, rel=1e-13)
    assert bounds.simple_three_sigma_flip(n, 5, epsilon) == pytest.approx(simple, rel=1e-13)


def test_golden_other_lies() -> None:
    """[003 eq 3.15] L = 40 and L = 2; [003 eq 4.2]; σ/√N of [003 §4]."""
    wide = bounds.simple_three_sigma_flip(10**7, 40, 2.0)
    assert wide == pytest.approx(0.350914415601690067, rel=1e-13)
    assert bounds.simple_three_sigma_flip(1000, 2, LN2) == pytest.approx(0.0876548879015912205, rel=1e-13)
    assert bounds.local_flip(5, LN2) == pytest.approx(0.465398038619236483, rel=2e-13)
    assert bounds.local_flip(40, 2.0) == pytest.approx(0.487502603515789656, rel=2e-13)
    assert count_stderr(1, 0.465398038619236483) == pytest.approx(7.20770221404039037, rel=1e-13)
    assert count_stderr(1, 0.196402812701454409) == pytest.approx(0.654282517680311804, rel=1e-13)
    assert count_stderr(1, wide) == pytest.approx(1.60061152256158005, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "plain", "shifted"),
    [
        (1000, 1.0, 1e-3, 0.057067, 0.062832),
        (1000, 1.0, 1e-6, 0.108930, 0.114375),
        (1000, 2.0, 1e-6, 0.058217, 0.062461),
        (2000, 1.0, 1e-6, 0.054465, 0.057398),
        (10000, 1.0, 1e-9, 0.016079, 0.016696),
    ],
)
def test_golden_chernoff_lies(n: int, epsilon: float, delta: float, plain: float, shifted: float) -> None:
    """[004 eq 4.42] and [004 eq 4.6]."""
    assert bounds.chernoff_flip(n, epsilon, delta) == pytest.approx(plain, abs=6e-7)
    assert bounds.shifted_chernoff_flip(n, epsilon, delta) == pytest.approx(shifted, abs=6e-7)


def test_golden_chernoff_lies_to_all_digits() -> None:
    """[004 eq 4.42, 4.6] n = 1000, ε = 1, δ = 10⁻⁶."""
    assert bounds.chernoff_flip(1000, 1.0, 1e-6) == pytest.approx(0.108930289972627519, rel=2e-13)
    assert bounds.shifted_chernoff_flip(1000, 1.0, 1e-6) == pytest.approx(0.114374598035916361, rel=2e-13)


@pytest.mark.parametrize(
    ("width", "epsilon", "delta", "printed", "corrected"),
    [
        (2, 1.0, 1e-6, 427.11, 429.44),
        (10, 0.5, 1e-6, 7602.78, 7633.58),
        (10, 1.0, 1e-6, 2135.56219236839479, 2147.18595251625137),
        (10, 2.0, 1e-6, 786.27, 789.39),
        (10, 1.0, 1e-3, 1165.16, 1176.77),
        (100, 1.0, 1e-6, 21355.6, 21471.9),
        (100, LN2, 1e-6, 41044.9, 41244.6),
        (1000, 1.0, 1e-6, 213556, 214719),
    ],
)
def test_golden_fakes(width: int, epsilon: float, delta: float, printed: float, corrected: float) -> None:
    """[004 §5] as printed and with the −1 kept."""
    digits = 1e-12 if printed == 2135.56219236839479 else 1.3e-5
    assert bounds.clear_fakes_printed(width, epsilon, delta) == pytest.approx(printed, rel=digits)
    assert bounds.clear_fakes(width, epsilon, delta) == pytest.approx(corrected, rel=digits)


@pytest.mark.parametrize(
    ("width", "q", "second", "square", "largest"),
    [
        (100, 0.01, 62.28536086767737, 123.80880983369165, 99.0),
        (10, 0.05, 7.493424455934566, 14.429832124299036, 9.756756756756758),
    ],
)
def test_golden_moments_of_a_fake(width: int, q: float, second: float, square: float, largest: float) -> None:
    """[004 §6, Prop 6.1 B]."""
    assert bounds.fake_second_moment(width, q) == pytest.approx(second, rel=1e-13)
    assert bounds.fake_chi_square(width, q) == pytest.approx(square, rel=1e-13)
    assert bounds.fake_largest_ratio(width, q) == pytest.approx(largest, rel=1e-14)


@given(st.integers(2, 6), st.floats(0, 0.49))
def test_moments_of_a_fake_by_enumeration(width: int, q: float) -> None:
    table = bit_vectors(width)
    rows = transition_matrix(width, q)[[int(np.flatnonzero((table == row).all(axis=1))[0]) for row in np.eye(width)]]
    fake = rows.mean(axis=0)
    seen = fake > 0
    a, b, fake = rows[0, seen] / fake[seen], rows[1, seen] / fake[seen], fake[seen]
    assert bounds.fake_largest_ratio(width, q) == pytest.approx(float(a.max()), rel=1e-9)
    assert bounds.fake_second_moment(width, q) == pytest.approx(float(fake @ a**2), rel=1e-9)
    assert bounds.fake_chi_square(width, q) == pytest.approx(float(fake @ (a - b) ** 2), rel=1e-9, abs=1e-12)


def test_moments_of_a_fake_at_both_ends() -> None:
    """χ² is 2d at q = 0 and approaches 2(p − q)²/(pq) for many bits."""
    assert bounds.fake_chi_square(7, 0.0) == 14
    assert bounds.fake_chi_square(10**6, 0.1) == pytest.approx(2 * 0.8**2 / 0.09, rel=1e-4)


@given(st.integers(1, 12), st.floats(0.01, 10))
def test_local_lie_is_the_inverse_of_local_epsilon(width: int, epsilon: float) -> None:
    assert bounds.local_epsilon(width, bounds.local_flip(width, epsilon)) == pytest.approx(epsilon, rel=1e-9)


@given(st.integers(1, 12), st.floats(1e-3, 20), st.floats(1e-9, 0.499))
def test_certified_values_are_rounded_outwards(width: int, epsilon: float, q: float) -> None:
    """Evaluated with 40 digits, the local guarantee holds at what is returned."""
    with mp.workdps(40):
        flip_probability = mp.mpf(bounds.local_flip(width, epsilon))
        assert width * mp.log((1 - flip_probability) / flip_probability) <= mp.mpf(epsilon)
        exact = width * mp.log((1 - mp.mpf(q)) / mp.mpf(q))
        assert exact <= mp.mpf(bounds.local_epsilon(width, q)) <= exact * (1 + mp.mpf("1e-12"))


@given(FLIPS, st.integers(0, 3), st.integers(0, 3))
def test_local_epsilon_bounds_every_ratio(q: float, i: int, j: int) -> None:
    """[000 Prop 5.1] exact ≤ upper, attained by opposite vectors."""
    if i != j:
        corner = [3 if l == j else 0 for l in range(4)]
        ratio = vector_privacy_ratio(corner, [1, 0, 0, 1], i, j, q)
        assert math.log(ratio) <= bounds.local_epsilon(2, q) + 1e-9
        if i + j == 3:
            assert math.log(ratio) == pytest.approx(bounds.local_epsilon(2, q), rel=1e-9)


@given(st.integers(1, 2000), st.integers(1, 20), st.floats(0.05, 3))
def test_three_sigma_lies_solve_their_equations(n: int, k: int, epsilon: float) -> None:
    """[002 eq 5.22] (1 + 3(p − q)/√(kNpq))^k = e^ε."""
    q = bounds.three_sigma_copies_flip(n, epsilon, k)
    ratio = (1 + 3 * (1 - 2 * q) / math.sqrt(k * n * q * (1 - q))) ** k
    assert ratio == pytest.approx(math.exp(epsilon), rel=1e-8)


@given(st.integers(10, 10**7), st.integers(1, 40), st.floats(0.2, 3))
def test_rules_of_three_sigma_are_ordered_and_safe_sided(n: int, width: int, epsilon: float) -> None:
    """[003 eq 3.12 ≤ 3.15], and each lands where its inequality holds, next to where it does not."""
    q = bounds.three_sigma_flip(n, width, epsilon)
    bar = math.exp(epsilon)
    assert bounds.three_sigma_ratio(n, width, q) <= bar < bounds.three_sigma_ratio(n, width, q * (1 - 1e-9))
    assert bounds.three_sigma_ratio(n, width, q) < bounds.simple_three_sigma_ratio(n, width, q)
    if n > 100 / epsilon**2:
        assert q <= bounds.simple_three_sigma_flip(n, width, epsilon)


@pytest.mark.parametrize(("n", "q", "width"), [(1000, 0.2446, 5), (500, 0.1, 2), (50, 0.05, 1)])
def test_cantelli_is_all_that_three_sigma_certify(n: int, q: float, width: int) -> None:
    """Upper bound: P[R ≥ mean + 3 sd] ≤ 1/10 for the outlier pair."""
    epsilon = math.log(bounds.three_sigma_ratio(n, width, q))
    assert 0 < sufficient_tail(*outlier_pair(n, width, q), epsilon, strict=False) <= 0.1


@given(st.integers(1, 12), st.integers(1, 6), FLIPS, st.data())
def test_copies_ratio_is_at_most_its_bound(n: int, k: int, q: float, data: st.DataObject) -> None:
    """[002 eq 5.13] with ≤; equality for k = 1 and at both ends."""
    s = data.draw(st.integers(0, k * n))
    exact, upper = copies_outlier_ratio(s, n, q, k), bounds.copies_outlier_ratio_bound(s, n, q, k)
    assert exact <= upper * (1 + 1e-12)
    if k == 1 or s in (0, k * n):
        assert exact == pytest.approx(upper, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "epsilon", "delta"),
    [(100, 1.0, 1e-2), (500, 1.0, 0.01), (1000, 1.0, 1e-6), (400, 2.0, 1e-4), (5000, 0.5, 1e-3)],
)
def test_chernoff_lies_are_sound_and_loose(n: int, epsilon: float, delta: float) -> None:
    """[004 Lemmas 4.5, 4.6] for equal bits and [004 Prop 4.1] for all: exact δ ≤ δ, and still at half the lie."""
    q = bounds.chernoff_flip(n, epsilon, delta)
    assert worst_delta(n, q, epsilon, step=n) <= delta
    q = bounds.shifted_chernoff_flip(n - 1, epsilon, delta)
    assert q > bounds.chernoff_flip(n, epsilon, delta)
    step = max(1, n // 25)
    assert worst_delta(n, q, epsilon, step) <= delta
    assert worst_delta(n, q / 2, epsilon, step) <= delta


@given(st.integers(2, 80), st.floats(0.05, 8), st.floats(1e-8, 0.95))
def test_chernoff_lies_are_sound_wherever_they_exist(n: int, epsilon: float, delta: float) -> None:
    """[004 eq 4.42, 4.6] also where their approximations are worst: few bits, large ε, large δ."""
    try:
        plain, shifted = bounds.chernoff_flip(n, epsilon, delta), bounds.shifted_chernoff_flip(n, epsilon, delta)
    except Infeasible:
        assume(False)
    assert worst_delta(n, plain, epsilon, step=n) <= delta
    assert worst_delta(n, shifted, epsilon, step=7) <= delta


def test_lower_side_of_the_exact_least_flip() -> None:
    """n = 1000, (1, 10⁻⁶): exact least q 0.03074 ≤ (4.42) ≤ (4.6) ≤ 6.1 A at half the budget."""
    exact = 0.0307406132
    chain = [
        exact,
        bounds.chernoff_flip(1000, 1.0, 1e-6),
        bounds.shifted_chernoff_flip(1000, 1.0, 1e-6),
        bounds.column_flip(1000, 0, 1.0, 1e-6),
    ]
    assert chain == sorted(chain)
    assert chain[1] / exact == pytest.approx(3.54, abs=0.01)


@pytest.mark.parametrize(("width", "epsilon", "delta"), [(2, 1.0, 0.01), (4, 2.0, 1e-3), (3, 0.5, 0.1)])
def test_fakes_are_sound_and_loose(width: int, epsilon: float, delta: float) -> None:
    """[004 §5] corrected: exact δ ≤ δ, and still at a third of the fakes."""

    def exact(m: int) -> float:
        pair = binomial(m + 1, 2 / width)
        total = 0.0
        for t, chance in enumerate(pair.pmf, start=pair.low):
            h = np.arange(t + 1)
            gain = np.maximum(h - math.exp(epsilon) * (t - h), 0)
            total += chance * float(np.exp(log_binomial_pmf(h, t, 0.5)) @ gain)
        return width / (m + 1) * total

    m = math.ceil(bounds.clear_fakes(width, epsilon, delta))
    assert m > bounds.clear_fakes_printed(width, epsilon, delta)
    assert exact(m) <= delta and exact(m // 3) <= delta


@given(st.integers(2, 1000), st.floats(0.05, 3), st.floats(1e-9, 0.1))
def test_corrected_fakes_meet_the_condition_exactly(width: int, epsilon: float, delta: float) -> None:
    """[004 eq 5.3] holds with equality."""
    per_bin = bounds.clear_fakes(width, epsilon, delta) / width
    spread = math.sqrt(3 * per_bin * math.log(4 / delta))
    assert (per_bin + spread + 1) / (per_bin - spread) == pytest.approx(math.exp(epsilon), rel=1e-8)


@pytest.mark.parametrize(("total", "q", "epsilon"), [(6, 0.2, 1.0), (9, 0.35, 0.5), (12, 0.1, 2.0)])
def test_two_columns_are_at_most_two_bits(total: int, q: float, epsilon: float) -> None:
    """[004 §6, Prop 6.1 A]: exact δ(ε) of any two columns ≤ 2·worst single-bit δ(ε/2), whatever the true bits are."""
    upper = 2 * worst_delta(total, q, epsilon / 2)
    columns = [np.zeros(total + 1) for _ in range(total + 1)]
    for ones in range(total + 1):
        distribution = crowd(total, ones, q)
        columns[ones][distribution.low : distribution.high + 1] = distribution.pmf
    exact = max(
        hockey_stick(np.outer(columns[i + 1], columns[j]), np.outer(columns[i], columns[j + 1]), epsilon)
        for i in range(total)
        for j in range(total)
        if i + j < total
    )
    assert 0 < exact <= upper


def test_column_lie_is_sound() -> None:
    """[004 §6, Prop 6.1 A] at N = 1000, (1, 10⁻⁶): q = 0.3006, and the exact two-column δ is far below."""
    q = bounds.column_flip(400, 600, 1.0, 1e-6)
    assert q == pytest.approx(0.3006, abs=6e-5)
    assert worst_delta(1000, q, 0.5, step=50) <= 5e-7
    for ones, others in ((0, 0), (300, 20)):
        low, high = neighbours(1000, ones, q), neighbours(1000, others, q)
        first = np.outer(low[1].pmf, high[0].pmf)
        second = np.outer(low[0].pmf, high[1].pmf)
        assert hockey_stick(first, second, 1.0) <= 1e-6


@pytest.mark.parametrize("q", [0.0, 0.1, 0.25, 0.4])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.02), (0.5, 1e-3)])
def test_vector_fakes_are_sound(q: float, epsilon: float, delta: float) -> None:
    """[004 §6, Prop 6.1 B] for d = 2: of a flipped record and m flipped fakes only the counts of 10 and 01 matter."""
    m = bounds.vector_fakes(2, q, epsilon, delta)
    assert bounds.vector_fakes_epsilon(m, 2, q, delta) <= epsilon < bounds.vector_fakes_epsilon(m - 1, 2, q, delta)
    p = 1 - q
    half = (p * p + q * q) / 2
    distribution = np.zeros((m + 2, m + 2))
    either = binomial(m, 2 * half)
    for t, chance in enumerate(either.pmf, start=either.low):
        u = np.arange(t + 1)
        distribution[u, t - u] = chance * np.exp(log_binomial_pmf(u, t, 0.5))
    left, right = np.roll(distribution, 1, axis=0), np.roll(distribution, 1, axis=1)
    first = p * p * left + q * q * right + 2 * p * q * distribution
    second = q * q * left + p * p * right + 2 * p * q * distribution
    assert hockey_stick(first, second, epsilon) <= delta


def test_vector_fakes_improve_on_clear_fakes() -> None:
    """q = 0, d = 100, (1, 10⁻⁶): 14223 instead of 21472; the exact least m is 4261."""
    assert 4261 <= bounds.vector_fakes(100, 0.0, 1.0, 1e-6) == 14223 < bounds.clear_fakes(100, 1.0, 1e-6)
    assert bounds.vector_fakes_epsilon(1, 100, 0.1, 1e-6) == math.inf


def test_infeasible() -> None:
    calls: list[Callable[[], object]] = [
        lambda: bounds.chernoff_flip(10, 0.1, 1e-6),
        lambda: bounds.shifted_chernoff_flip(10, 0.1, 1e-6),
        lambda: bounds.column_flip(5, 5, 1.0, 1e-6),
        lambda: bounds.simple_three_sigma_flip(5, 5, 0.1),
    ]
    for call in calls:
        with pytest.raises(Infeasible):
            call()


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, 1000.0, "1"])
def test_epsilon_is_checked(epsilon: float) -> None:
    calls: list[Callable[[], object]] = [
        lambda: bounds.local_flip(5, epsilon),
        lambda: bounds.three_sigma_bit_flip(10, epsilon),
        lambda: bounds.three_sigma_flip(10, 5, epsilon),
        lambda: bounds.chernoff_flip(10, epsilon, 0.1),
        lambda: bounds.clear_fakes(10, epsilon, 0.1),
        lambda: bounds.clear_fakes_printed(10, epsilon, 0.1),
        lambda: bounds.vector_fakes(10, 0.1, epsilon, 0.1),
        lambda: bounds.column_flip(10, 0, epsilon, 0.1),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match=r"^epsilon must be"):
            call()


def test_other_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^delta must be in \(0, 1\)"):
        bounds.chernoff_flip(10, 1.0, 0.0)
    with pytest.raises(InvalidInput, match=r"^n \+ m must be at least 2"):
        bounds.column_flip(1, 0, 1.0, 0.1)
    with pytest.raises(InvalidInput, match=r"^width must be a whole number of at least 2"):
        bounds.clear_fakes(1, 1.0, 0.1)
    with pytest.raises(InvalidInput, match=r"^q must be in \[0, 1/2\)"):
        bounds.fake_second_moment(5, 0.5)
    with pytest.raises(InvalidInput, match=r"^n must be"):
        bounds.three_sigma_flip(0, 5, 1.0)
