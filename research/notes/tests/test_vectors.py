"""Bit vectors: golden values, the two ways to the law of A_L(m), symmetries."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from research.notes.formulas.vectors import (
    bit_vectors,
    outcome_probability,
    outcome_probability_by_halves,
    transition_matrix,
)

from hubbub.errors import InvalidInput, TooLarge
from hubbub.numeric.vectors import flip_histogram

FLIPS = st.floats(0.01, 0.49)
WAYS = pytest.mark.parametrize("way", [outcome_probability, outcome_probability_by_halves])


def histograms(n: int, size: int) -> list[tuple[int, ...]]:
    return [h for h in itertools.product(range(n + 1), repeat=size) if sum(h) == n]


@st.composite
def flipped_collections(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """An original and an outcome histogram of one size, of one or two bits."""
    width = draw(st.integers(1, 2))
    n = draw(st.integers(1, 5))
    every = histograms(n, 2**width)
    return list(draw(st.sampled_from(every))), list(draw(st.sampled_from(every)))


def test_golden_transition_matrix() -> None:
    """[000 eq 2.2] the row of 11 at q = 1/4."""
    np.testing.assert_allclose(transition_matrix(2, 0.25)[0], [9 / 16, 3 / 16, 3 / 16, 1 / 16], rtol=1e-15)


@WAYS
@pytest.mark.parametrize(
    ("originals", "counts", "wanted"),
    [
        ([2, 0, 0, 1], [1, 1, 0, 1], 273 / 2048),
        ([2, 0, 0, 1], [3, 0, 0, 0], 81 / 4096),
        ([1, 1, 1, 1], [1, 1, 1, 1], 1331 / 8192),
    ],
)
def test_golden_outcomes(way: object, originals: list[int], counts: list[int], wanted: float) -> None:
    """[000 eq 3.4 and Prop 3.2] at q = 1/4."""
    assert callable(way)
    assert way(counts, originals, 0.25) == pytest.approx(wanted, rel=1e-13)


def test_enumeration_puts_ones_first_and_opposites_last() -> None:
    """[000 §2.2] v_i and v_(D+1−i) share no bit; (1, v) for all v comes before (0, v)."""
    table = bit_vectors(4)
    assert table[0].tolist() == [1, 1, 1, 1]
    assert (table + table[::-1] == 1).all()
    assert (table[:8, 1:] == bit_vectors(3)).all() and (table[:8, 0] == 1).all()
    assert len({tuple(row) for row in table.tolist()}) == 16


@given(st.integers(1, 5), FLIPS)
def test_transition_matrix_by_distance(width: int, q: float) -> None:
    """[000 eq 2.1, 2.2] p^(L−h) q^h; doubly stochastic, symmetric, P_L = P_1 ⊗ P_(L−1)."""
    matrix, table = transition_matrix(width, q), bit_vectors(width)
    distance = (table[:, None] != table[None]).sum(axis=2)
    np.testing.assert_allclose(matrix, (1 - q) ** (width - distance) * q**distance, rtol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=1e-12)
    if width > 1:
        np.testing.assert_array_equal(matrix, np.kron(transition_matrix(1, q), transition_matrix(width - 1, q)))


@given(flipped_collections(), FLIPS)
def test_recursion_over_width_equals_the_sum_of_multinomials(pair: tuple[list[int], list[int]], q: float) -> None:
    """[000 Prop 3.2, eq 3.8] against [000 eq 3.4]."""
    originals, counts = pair
    assert outcome_probability_by_halves(counts, originals, q) == pytest.approx(
        outcome_probability(counts, originals, q), rel=1e-11
    )


def test_recursion_over_width_for_three_bits() -> None:
    originals, counts = [1, 0, 0, 2, 0, 0, 0, 1], [0, 1, 1, 0, 1, 0, 0, 1]
    direct = outcome_probability(counts, originals, 0.2)
    assert outcome_probability_by_halves(counts, originals, 0.2) == pytest.approx(direct, rel=1e-12)


@WAYS
@pytest.mark.parametrize("originals", [(3, 0, 0, 0), (1, 0, 2, 0), (1, 1, 0, 1)])
def test_law_sums_to_one_with_the_right_mean(way: object, originals: tuple[int, ...]) -> None:
    """E A_L(m) = P_L m. [000 §3]"""
    assert callable(way)
    every = histograms(3, 4)
    distribution = np.array([way(h, originals, 0.3) for h in every])
    assert distribution.sum() == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(distribution @ np.array(every), flip_histogram(originals, 0.3), rtol=1e-12)


def test_law_equals_enumeration_of_all_flips() -> None:
    """[001 eq 2.1, 000 eq 3.3] the sum over all synthetic collections with that histogram."""
    q, originals = 0.2, (1, 0, 1, 1)
    rows = transition_matrix(2, q)[[i for i, m in enumerate(originals) for _ in range(m)]]
    for counts in histograms(3, 4):
        total = sum(
            math.prod(float(rows[u, y]) for u, y in enumerate(seen))
            for seen in itertools.product(range(4), repeat=3)
            if tuple(np.bincount(seen, minlength=4)) == counts
        )
        assert outcome_probability(counts, originals, q) == pytest.approx(total, rel=1e-12)


@given(flipped_collections(), FLIPS, st.integers(0, 3))
def test_xor_symmetry(pair: tuple[list[int], list[int]], q: float, mask: int) -> None:
    """Flipping the same bits in every original and every outcome changes nothing. [003 conjecture 2 rests on it]"""
    originals, counts = (np.array(h) for h in pair)
    place = np.arange(len(originals)) ^ (mask % len(originals))
    assert outcome_probability(counts[place], originals[place], q) == pytest.approx(
        outcome_probability(counts, originals, q), rel=1e-12
    )


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^counts and originals must have the same sum"):
        outcome_probability([1, 2], [1, 1], 0.1)
    with pytest.raises(InvalidInput, match=r"^counts and originals must have the same length"):
        outcome_probability([1, 1], [1, 1, 0, 0], 0.1)
    with pytest.raises(InvalidInput, match=r"^originals must be whole numbers of at least 0"):
        outcome_probability_by_halves([1, 1], [3, -1], 0.1)
    with pytest.raises(InvalidInput, match=r"^counts must be one-dimensional"):
        outcome_probability([[1, 1]], [1, 1], 0.1)
    with pytest.raises(InvalidInput, match=r"^counts must have at most 32 entries"):
        outcome_probability([1] * 64, [1] * 64, 0.1)
    with pytest.raises(TooLarge, match="transition matrix of 20 bits"):
        transition_matrix(20, 0.1)
    with pytest.raises(TooLarge, match="vectors of 30 bits"):
        bit_vectors(30)
    with pytest.raises(TooLarge, match="all smaller histograms"):
        outcome_probability([1] * 32, [1] * 32, 0.1)
