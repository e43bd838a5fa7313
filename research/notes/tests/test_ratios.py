"""Privacy and probability ratios: golden values, what makes them grow and fall, their moments."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from research.notes.formulas.ratios import (
    copies_outlier_ratio,
    outlier_ratio,
    outlier_ratio_mean,
    outlier_ratio_values,
    outlier_ratio_variance,
    privacy_from_probability,
    privacy_ratios,
    psi,
    vector_privacy_ratio,
    vector_probability_ratio,
)
from research.notes.formulas.vectors import bit_vectors, outcome_probability, transition_matrix

from hubbub.errors import InvalidInput
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.ratios import phi

FLIPS = st.floats(0.01, 0.49)


def histograms(n: int, size: int) -> list[tuple[int, ...]]:
    return [h for h in itertools.product(range(n + 1), repeat=size) if sum(h) == n]


def test_golden_privacy_ratio() -> None:
    """[000 §6.2] π_6(2; 2) = 159/109 at q = 1/4."""
    assert privacy_ratios(6, 2, 0.25)[2] == pytest.approx(159 / 109, rel=1e-14)


def test_golden_outlier_ratio_of_bits() -> None:
    """[002 eq 4.32] R_0, R_982, R_1000 at N = 1000, q = 0.009, also in the form for k copies [002 eq 5.9]."""
    wanted = {0: 110.111111111111111, 982: 1.99091826437941473, 1000: 0.00908173562058526741}
    for i, value in wanted.items():
        assert outlier_ratio([i, 1000 - i], 0.009) == pytest.approx(value, rel=1e-13)
        assert copies_outlier_ratio(i, 1000, 0.009, 1) == pytest.approx(value, rel=1e-13)


def test_golden_phi_and_psi() -> None:
    """[003 eq 3.14] at q = 1/4."""
    assert phi(0.25) == pytest.approx(7 / 3, rel=1e-15)
    assert psi(0.25) == pytest.approx(61 / 9, rel=1e-15)


def test_golden_moments_of_the_outlier_ratio() -> None:
    """[003 §3.1] L = 1, N = 4 and L = 2, N = 4 at q = 1/5; L = 5, N = 1000 at q = 1/4."""
    assert outlier_ratio_mean(4, 1, 0.2) == pytest.approx(25 / 16, rel=1e-14)
    assert outlier_ratio_mean(4, 2, 0.2) == pytest.approx(217 / 64, rel=1e-14)
    assert outlier_ratio_variance(4, 2, 0.2) == pytest.approx(2601 / 512, rel=1e-14)
    assert outlier_ratio_mean(1000, 5, 0.25) == pytest.approx(1.06816460905349794, rel=1e-15)
    assert outlier_ratio_variance(1000, 5, 0.25) == pytest.approx(0.0776160138190316517, rel=1e-13)


@given(FLIPS)
def test_forms_of_phi_and_psi(q: float) -> None:
    p = 1 - q
    assert phi(q) == pytest.approx((p**3 + q**3) / (p * q), rel=1e-12)
    assert phi(q) == pytest.approx(p / q + q / p - 1, rel=1e-12)
    assert psi(q) == pytest.approx((p**5 + q**5) / (p * q) ** 2, rel=1e-12)


@given(FLIPS, st.floats(0, 1e6), st.floats(0, 1e6))
def test_privacy_from_probability_is_increasing_and_odd(q: float, a: float, b: float) -> None:
    """[000 §6.2, 004 eq 4.5] g increases; g(1/ρ) = 1/g(ρ) by the bit flip."""
    low, high = sorted((a, b))
    g = privacy_from_probability([low, high], q)
    assert q / (1 - q) * (1 - 1e-12) <= g[0] <= g[1] * (1 + 1e-12) <= (1 - q) / q * (1 + 1e-9)
    if low > 1e-6:
        assert float(privacy_from_probability(1 / low, q)) == pytest.approx(1 / g[0], rel=1e-12)


@given(st.integers(1, 60), st.data(), FLIPS)
def test_privacy_ratio_is_the_ratio_of_the_laws(n: int, data: st.DataObject, q: float) -> None:
    """[000 §6.2, 004 eq 4.4]."""
    ones = data.draw(st.integers(0, n - 1))
    zero, one = neighbours(n, ones, q)
    ratios = privacy_ratios(n, ones, q)
    assert ratios[0] == pytest.approx((1 - q) / q) and ratios[-1] == pytest.approx(q / (1 - q))
    solid = one.pmf > 1e-290
    np.testing.assert_allclose(ratios[one.low : one.high + 1][solid], zero.pmf[solid] / one.pmf[solid], rtol=1e-11)


@given(st.integers(2, 60), st.data(), FLIPS)
def test_privacy_ratio_monotonicities(n: int, data: st.DataObject, q: float) -> None:
    """[000 §6.5, 002 Thm 4.1, 004 Lemma 4.1]: falls in s, grows in ones, falls if both grow; equal at both ends."""
    ones = data.draw(st.integers(0, n - 2))
    less, more = privacy_ratios(n, ones, q), privacy_ratios(n, ones + 1, q)
    assert (np.diff(less) < 0).all()
    assert (more[1:-1] > less[1:-1] * (1 - 1e-13)).all()
    assert more[0] == less[0] and more[-1] == less[-1]
    assert (more[1:] < less[:-1]).all()


@given(st.integers(1, 6), st.integers(1, 5), FLIPS, st.data())
def test_copies_ratio_is_the_ratio_of_the_laws(n: int, k: int, q: float, data: st.DataObject) -> None:
    """[002 eq 5.6–5.9]: N ones, and N − 1 ones and a zero."""
    zero, one = neighbours(n, n - 1, q, k)
    s = data.draw(st.integers(0, k * n))
    assert copies_outlier_ratio(s, n, q, k) == pytest.approx(float(zero.pmf[s] / one.pmf[s]), rel=1e-10)


@given(st.integers(1, 4), FLIPS, st.data())
def test_outlier_ratio_is_the_ratio_of_the_laws(n: int, q: float, data: st.DataObject) -> None:
    """[003 eq 3.1–3.6] for two bits: N zeros against N − 1 zeros and one of ones."""
    counts = data.draw(st.sampled_from(histograms(n, 4)))
    without, outlier = [0, 0, 0, n], [1, 0, 0, n - 1]
    levels = [counts[3], counts[1] + counts[2], counts[0]]
    wanted = outcome_probability(counts, outlier, q) / outcome_probability(counts, without, q)
    assert outlier_ratio(levels, q) == pytest.approx(wanted, rel=1e-10)


def test_law_of_the_outlier_ratio_is_the_same_around_every_vector() -> None:
    """[003 conjecture 2], true: by the XOR symmetry."""

    def distribution(base: int) -> list[tuple[float, float]]:
        opposite = 3 - base
        atoms = []
        for counts in histograms(4, 4):
            without, outlier = [0] * 4, [0] * 4
            without[base], outlier[base], outlier[opposite] = 4, 3, 1
            chance = outcome_probability(counts, outlier, 0.2)
            atoms.append((round(chance / outcome_probability(counts, without, 0.2), 9), chance))
        return sorted(atoms)

    for base in (1, 2, 3):
        np.testing.assert_allclose(distribution(base), distribution(0), rtol=1e-10)


@given(st.integers(1, 6), st.integers(1, 50), FLIPS)
def test_moments_by_enumeration_of_one_record(width: int, n: int, q: float) -> None:
    """[003 §3.1, §6]: N − 1 independent contributions of zeros and one of ones."""
    values = outlier_ratio_values(width, q)
    levels = np.arange(width + 1)
    choose = np.array([math.comb(width, l) for l in levels], dtype=float)
    zero = choose * q**levels * (1 - q) ** (width - levels)
    one = zero[::-1]
    assert float(zero @ values) == pytest.approx(1, rel=1e-10)
    mean = ((n - 1) + float(one @ values)) / n
    second = [float(distribution @ values**2) - float(distribution @ values) ** 2 for distribution in (zero, one)]
    assert outlier_ratio_mean(n, width, q) == pytest.approx(mean, rel=1e-10)
    scale = float(one @ values**2) / n / n
    assert outlier_ratio_variance(n, width, q) == pytest.approx(
        ((n - 1) * second[0] + second[1]) / n**2, rel=1e-8, abs=1e-12 * scale + 1e-14
    )


def test_moments_overflow_to_infinity() -> None:
    assert outlier_ratio_mean(10, 10**6, 0.01) == math.inf
    assert outlier_ratio_variance(10, 10**6, 0.01) == math.inf
    assert outlier_ratio_values(1000, 0.01)[-1] == math.inf


@given(st.integers(1, 4), FLIPS, st.data())
def test_vector_privacy_ratio_is_at_most_the_local_one(n: int, q: float, data: st.DataObject) -> None:
    """[000 Prop 5.1]: (p/q)^distance, attained at s = n e_j whatever n is."""
    others = data.draw(st.sampled_from(histograms(n - 1, 4)))
    i, j = data.draw(st.permutations(range(4)))[:2]
    distance = int((bit_vectors(2)[i] != bit_vectors(2)[j]).sum())
    top = ((1 - q) / q) ** distance
    counts = data.draw(st.sampled_from(histograms(n, 4)))
    assert vector_privacy_ratio(counts, others, i, j, q) <= top * (1 + 1e-9)
    corner = [n if l == j else 0 for l in range(4)]
    assert vector_privacy_ratio(corner, others, i, j, q) == pytest.approx(top, rel=1e-10)


@given(st.integers(2, 5), FLIPS, st.data())
def test_vector_probability_ratio_grows_away_from_i_and_towards_j(n: int, q: float, data: st.DataObject) -> None:
    """[000 Prop 5.2, conjectures 5.8 and 5.9], now theorems (real stability)."""
    originals = data.draw(st.sampled_from(histograms(n, 4)))
    i, j, l = data.draw(st.permutations(range(4)))[:3]
    counts = data.draw(st.sampled_from([h for h in histograms(n, 4) if h[i] >= 2]))

    def moved(a: int, b: int) -> list[int]:
        return [c - (x == a) + (x == b) for x, c in enumerate(counts)]

    here = vector_probability_ratio(counts, originals, i, j, q)
    away = vector_probability_ratio(moved(i, l), originals, i, j, q)
    straight = vector_probability_ratio(moved(i, j), originals, i, j, q)
    assert here <= away * (1 + 1e-9) and away <= straight * (1 + 1e-9)
    if counts[l] >= 1:
        towards = vector_probability_ratio(moved(l, j), originals, i, j, q)
        assert here <= towards * (1 + 1e-9) and towards <= straight * (1 + 1e-9)


@given(st.integers(1, 4), FLIPS, st.data())
def test_vector_probability_ratio_chains(n: int, q: float, data: st.DataObject) -> None:
    """[000 eq 5.5, 5.6]."""
    originals = data.draw(st.sampled_from(histograms(n, 4)))
    i, j, l = data.draw(st.permutations(range(4)))[:3]
    counts = data.draw(st.sampled_from([h for h in histograms(n, 4) if h[i] >= 1]))
    step = [c - (x == i) + (x == j) for x, c in enumerate(counts)]
    first, second = (
        vector_probability_ratio(counts, originals, i, j, q),
        vector_probability_ratio(step, originals, j, l, q),
    )
    assert first * second == pytest.approx(vector_probability_ratio(counts, originals, i, l, q), rel=1e-9)
    assert first * vector_probability_ratio(step, originals, j, i, q) == pytest.approx(1, rel=1e-9)


def test_ratio_of_sums_lies_between_the_ratios() -> None:
    """[000 Lemma 8.1 = 004 Lemma 7.1], for the sum over the modified record's outcomes."""
    matrix = transition_matrix(2, 0.2)
    ratio = vector_privacy_ratio([1, 1, 0, 1], [1, 0, 0, 1], 0, 3, 0.2)
    each = matrix[3] / matrix[0]
    assert each.min() <= ratio <= each.max()


def test_exact_rational_ratio() -> None:
    """[002 eq 4.32] linear in i: R_i = (N−i)/N p/q + i/N q/p, exactly."""
    q, n = Fraction(1, 4), 7
    for i in range(n + 1):
        wanted = Fraction(n - i, n) * (1 - q) / q + Fraction(i, n) * q / (1 - q)
        assert outlier_ratio([i, n - i], 0.25) == pytest.approx(float(wanted), rel=1e-14)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^q must be in \(0, 1/2\), got 0.0"):
        phi(0.0)
    with pytest.raises(InvalidInput, match=r"^rho must be at least 0"):
        privacy_from_probability([-1.0], 0.1)
    with pytest.raises(InvalidInput, match=r"^rho must be at least 0"):
        privacy_from_probability(math.nan, 0.1)
    with pytest.raises(InvalidInput, match=r"^ones must be"):
        privacy_ratios(5, 5, 0.1)
    with pytest.raises(InvalidInput, match=r"^counts must be one-dimensional whole numbers"):
        outlier_ratio([0.5, 0.5], 0.1)
    with pytest.raises(InvalidInput, match=r"^counts must be at least 0"):
        outlier_ratio([0, 0], 0.1)
    with pytest.raises(InvalidInput, match=r"^i and j must differ"):
        vector_privacy_ratio([1, 0], [0, 0], 1, 1, 0.1)
    with pytest.raises(InvalidInput, match=r"^a histogram must be one-dimensional whole numbers"):
        vector_privacy_ratio([1, 0], [0.0, 0.0], 0, 1, 0.1)
    with pytest.raises(InvalidInput, match=r"^counts must be at least 1 at i"):
        vector_probability_ratio([0, 1], [1, 0], 0, 1, 0.1)
    with pytest.raises(InvalidInput, match=r"^s must be a whole number in \[0, 10\]"):
        copies_outlier_ratio(11, 5, 0.1, 2)
    with pytest.raises(InvalidInput, match=r"^width must be"):
        outlier_ratio_mean(5, 0, 0.1)
