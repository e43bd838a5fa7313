"""The blocked transform is the inverse of flipping: against the matrix, the butterfly, and simulated flips."""

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hubbub.bits.coins import GRID
from hubbub.bits.counting import histogram
from hubbub.bits.entropy import SeededStreamNotForPeople, draw
from hubbub.bits.records import flip
from hubbub.bits.transform import unflip
from hubbub.errors import InvalidInput, TooLarge

Q = round(0.1778 * 2**GRID)


def butterfly(counts: NDArray[np.int64], numerator: int) -> NDArray[np.float64]:
    q = numerator / 2**GRID
    values = counts.astype(np.float64)
    for bit in range(values.size.bit_length() - 1):
        pairs = values.reshape(-1, 2, 1 << bit)
        shift = q / (1 - 2 * q) * (pairs[:, 0] - pairs[:, 1])
        pairs[:, 0] += shift
        pairs[:, 1] -= shift
    return values


def some_counts(width: int) -> NDArray[np.int64]:
    return draw(SeededStreamNotForPeople(width), 1 << width, np.uint8).astype(np.int64)


@given(st.integers(1, 7), st.floats(0, 0.45))
def test_inverse_of_the_flip_matrix(width: int, q: float) -> None:
    numerator = round(q * 2**GRID)
    exact = numerator / 2**GRID
    matrix = reduce(np.kron, [np.array([[1 - exact, exact], [exact, 1 - exact]])] * width)
    counts = some_counts(width)
    restored = matrix @ unflip(counts, numerator)
    assert np.abs(restored - counts).max() < 1e-9 * np.abs(unflip(counts, numerator)).max()


@pytest.mark.parametrize("width", range(1, 19))
def test_agrees_with_the_butterfly(width: int) -> None:
    counts = some_counts(width)
    expected = butterfly(counts, Q)
    assert np.abs(unflip(counts, Q) - expected).max() < 1e-12 * np.abs(expected).max() * width


@given(st.integers(1, 12))
def test_the_total_is_kept_and_q_zero_changes_nothing(width: int) -> None:
    counts = some_counts(width)
    assert unflip(counts, Q).sum() == pytest.approx(counts.sum())
    assert (unflip(counts, 0) == counts).all()


def test_flipped_records_are_estimated_where_they_were() -> None:
    """All records equal 6 of 8 values, flipped: the estimate has its mass there, within five standard errors."""
    n = 400_000
    flipped = flip(np.full((n, 1), 6, np.uint8), 3, Q, entropy=SeededStreamNotForPeople(1))
    estimate = unflip(histogram(flipped, 3), Q) / n
    error = 5 * (1 / (1 - 2 * 0.1778)) ** 3 / np.sqrt(n)
    assert np.abs(estimate - np.eye(8)[6]).max() < error
    # The control: the flipped histogram itself is far off, and so is the transform of the mirrored index.
    assert np.abs(histogram(flipped, 3) / n - np.eye(8)[6]).max() > error
    assert np.abs(estimate[::-1] - np.eye(8)[6]).max() > error


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (2, 2), ()])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="counts must be a vector"):
        unflip(np.zeros(shape), Q)


def test_domains() -> None:
    for numerator in (-1, 2**47):
        with pytest.raises(InvalidInput, match="numerator"):
            unflip(np.zeros(4), numerator)
    with pytest.raises(TooLarge):
        unflip(np.broadcast_to(np.float64(0), 2**30), Q)


def test_memory(peak: Callable[[Callable[[], object]], int]) -> None:
    counts = some_counts(18)
    assert peak(lambda: unflip(counts, Q)) < 2 * 8 * 2**18 + 2**17
