"""The histogram transform and its inverse agree with the matrix, the butterfly and simulated flips."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hubbub.bits.counting import histogram
from hubbub.bits.device import GRID_BITS
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.bits.records import flip
from hubbub.errors import InvalidInput
from hubbub.numeric.vectors import flip_histogram, unflip_histogram, weigh_by_distance

FLIPS = st.floats(0.01, 0.49)


def distances(width: int) -> NDArray[np.float64]:
    """Return the distances of all pairs of vectors of ``width`` bits."""
    numbers = np.arange(2**width)
    return np.bitwise_count(numbers[:, None] ^ numbers).astype(np.float64)


def butterfly(counts: NDArray[np.int64], q: float) -> NDArray[np.float64]:
    """Return the textbook inverse, one pass over the histogram per bit."""
    values = counts.astype(np.float64)
    for bit in range(values.size.bit_length() - 1):
        pairs = values.reshape(-1, 2, 1 << bit)
        shift = q / (1 - 2 * q) * (pairs[:, 0] - pairs[:, 1])
        pairs[:, 0] += shift
        pairs[:, 1] -= shift
    return values


@given(st.integers(1, 7), FLIPS, st.integers(0, 2**32 - 1))
def test_flips_are_the_transition_matrix(width: int, q: float, seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 1000, 2**width)
    matrix = (1 - q) ** (width - distances(width)) * q ** distances(width)
    np.testing.assert_allclose(flip_histogram(counts, q), matrix @ counts, rtol=1e-11)


@pytest.mark.parametrize("width", range(1, 19))
def test_inverse_agrees_with_the_butterfly(width: int) -> None:
    counts = np.random.default_rng(width).integers(0, 256, 2**width)
    expected = butterfly(counts, 0.1778)
    found = unflip_histogram(counts, 0.1778)
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max() * width
    np.testing.assert_allclose(unflip_histogram(np.array([counts, counts]), 0.1778), [found, found], rtol=1e-9)
    assert np.array_equal(unflip_histogram(counts, 0.0), counts)


def test_estimates_recover_the_original_records() -> None:
    """All records are 6 before their flips: the estimate has its mass there, within five standard errors."""
    n, q = 400_000, 0.1778
    flipped = flip(np.full((n, 1), 6, np.uint8), 3, round(q * 2**GRID_BITS), entropy=SeededStreamNotForPeople(1))
    shown = histogram(flipped, 3)
    estimate, truth = unflip_histogram(shown, q) / n, np.eye(8)[6]
    error = 5 * (1 - 2 * q) ** -3 / math.sqrt(n)
    assert np.abs(estimate - truth).max() < error
    # The control: the flipped histogram itself is far off, and so is the transform with the index mirrored.
    assert np.abs(shown / n - truth).max() > error
    assert np.abs(estimate[::-1] - truth).max() > error


@given(st.integers(1, 7), st.floats(0, 0.4), st.integers(0, 2**32 - 1))
def test_the_inverse_undoes_the_flips(width: int, q: float, seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 1000, (3, 2**width)).astype(np.float64)
    back = unflip_histogram(flip_histogram(counts, q), q)
    np.testing.assert_allclose(back, counts, atol=1e-12 * counts.sum() * (1 - 2 * q) ** -width)
    np.testing.assert_allclose(unflip_histogram(counts, q).sum(axis=1), counts.sum(axis=1), rtol=1e-9)


@given(st.integers(1, 5), st.floats(-2, 2), st.floats(0.1, 2), st.integers(0, 2**32 - 1))
def test_weights_by_distance(width: int, same: float, gap: float, seed: int) -> None:
    counts, other = np.random.default_rng(seed).random(2**width), gap - same
    wanted = (same ** (width - distances(width)) * other ** distances(width)) @ counts
    np.testing.assert_allclose(weigh_by_distance(counts, same, other), wanted, atol=1e-7)


def test_twenty_bits_need_one_copy() -> None:
    counts = np.random.default_rng(1).random(2**20)
    tracemalloc.start()
    unflip_histogram(counts, 0.3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < counts.nbytes + 2**21


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^counts must have a power of two"):
        flip_histogram([1, 2, 3], 0.1)
    with pytest.raises(InvalidInput, match=r"^counts must have a power of two"):
        flip_histogram(7.0, 0.1)
    with pytest.raises(InvalidInput, match=r"^counts must be finite"):
        unflip_histogram([1.0, math.inf], 0.1)
    with pytest.raises(InvalidInput, match=r"^q must be in \[0, 1/2\), got 0.5"):
        unflip_histogram([1, 2], 0.5)
    with pytest.raises(InvalidInput, match=r"^same and other must be finite"):
        weigh_by_distance([1, 2], 1.0, math.inf)
