"""Small numbers in uniform random order: random buckets, short keys, and new digits for equal keys."""

import tempfile
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hubbub.bits import counting, permutation
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import InvalidInput

ORDERS, DRAWS = 24, 4800
LIMIT = 58.0
"""χ² of 23 degrees of freedom is above it with probability 7·10⁻⁵."""


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permutation, "_FEW", 2)


def deviation(kind: Any = np.uint8) -> float:
    """Return χ² of the orders of four numbers."""
    entropy = SeededStreamNotForPeople(7)
    numbers = np.array([0, 1, 2, 3], kind)
    found = Counter(tuple(permutation.shuffle(numbers, entropy=entropy).tolist()) for _ in range(DRAWS))
    expected = DRAWS / ORDERS
    return sum((count - expected) ** 2 for count in found.values()) / expected + (ORDERS - len(found)) * expected


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_all_orders_are_equally_likely(kind: Any) -> None:
    assert deviation(kind) < LIMIT


@pytest.mark.usefixtures("tiny")
def test_equal_keys_have_new_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(entropy: object, array: NDArray[Any]) -> None:
        array[...] = 0

    monkeypatch.setattr(permutation, "fill", zeros)
    assert deviation() < LIMIT
    monkeypatch.setattr(permutation, "_resolve", lambda *_: None)
    assert deviation() > LIMIT, "the control: without new digits the numbers stay sorted"


@pytest.mark.parametrize("largest", [0, 1, 39, 127, 255, 256, 1023, 1024, 60_000])
def test_numbers_are_kept(largest: int) -> None:
    generator = np.random.default_rng(1)
    kind = np.uint8 if largest < 256 else np.uint16
    for size in (1 << 16, (1 << 16) + 1, 300_001):
        numbers = generator.integers(0, largest + 1, size).astype(kind)
        mixed = permutation.shuffle(numbers)
        assert mixed.dtype == kind
        assert np.array_equal(np.bincount(mixed), np.bincount(numbers))
        assert largest == 0 or not np.array_equal(mixed, numbers)


@pytest.mark.usefixtures("tiny")
def test_files_keep_the_numbers() -> None:
    blocks = [np.arange(i, dtype=np.uint8) for i in (0, 3, 200, 64)]
    mixed = np.concatenate(list(permutation.shuffle_external(iter(blocks), tempfile.TemporaryFile)))
    assert np.array_equal(np.sort(mixed), np.sort(np.concatenate(blocks)))


@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 18, (1 << 18) + 1])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_counts_in_pairs_are_those_of_single_indices(size: int, kind: Any) -> None:
    indices = np.random.default_rng(size).integers(0, 40, size).astype(kind)
    assert np.array_equal(counting.index_counts(indices, 41), np.bincount(indices, minlength=41))
    if size:
        with pytest.raises(InvalidInput, match="indices must be below 5"):
            counting.index_counts(indices + kind(5), 5)
