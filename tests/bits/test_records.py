"""Records keep their layout, flips are distributed like coins, and categories have no modulo bias."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.bits import statistics
from tests.bits.statistics import FALSE_POSITIVE_RATE

from hubbub.bits.device import GRID_BITS
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.bits.records import check_records, flip, one_hot, uniform_categories, uniform_records
from hubbub.errors import InvalidInput, TooLarge

Q = round(0.1778 * 2**GRID_BITS)


def bits_of(records: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    return np.unpackbits(records, axis=1, bitorder="little", count=width)


@given(st.integers(0, 60), st.integers(1, 70), st.integers(0, 2**GRID_BITS - 1))
def test_flipping_twice_with_one_seed_restores_the_records(n: int, width: int, numerator: int) -> None:
    records = uniform_records(n, width, entropy=SeededStreamNotForPeople(1))
    before = records.copy()
    once = flip(records, width, numerator, entropy=SeededStreamNotForPeople(2))
    assert (records == before).all()
    assert check_records(once, width).shape == (n, -(-width // 8))
    assert (flip(once, width, numerator, entropy=SeededStreamNotForPeople(2)) == records).all()


@pytest.mark.parametrize(("width", "numerator"), [(5, Q), (13, Q), (40, Q), (13, 2**38 + 12345)])
def test_flips_are_distributed_like_coins(width: int, numerator: int) -> None:
    records = uniform_records(200_000, width, entropy=SeededStreamNotForPeople(3))
    flipped = flip(records, width, numerator, entropy=SeededStreamNotForPeople(4))
    bits = bits_of(records ^ flipped, width)
    for p in (statistics.position_p, statistics.pair_p, statistics.runs_p):
        assert p(bits, numerator / 2**GRID_BITS) > FALSE_POSITIVE_RATE
    bits[:, -1] = 0
    assert statistics.position_p(bits, numerator / 2**GRID_BITS) < FALSE_POSITIVE_RATE


def test_uniform_records_are_fair_coins() -> None:
    bits = bits_of(uniform_records(200_000, 13, entropy=SeededStreamNotForPeople(5)), 13)
    for p in (statistics.position_p, statistics.pair_p, statistics.runs_p):
        assert p(bits, 0.5) > FALSE_POSITIVE_RATE


@pytest.mark.parametrize("categories", [1, 2, 3, 5, 64, 100, 1000])
def test_each_category_has_the_same_number_of_words(categories: int) -> None:
    """Each value of the drawn bits once: the accepted ones are 0 … categories−1, each once."""
    bits = (categories - 1).bit_length()
    words = (np.arange(2**bits, dtype=np.uint64) << np.uint64(32 - bits)).astype(np.uint32).tobytes()
    drawn: list[int] = []

    def all_words(size: int) -> bytes:
        drawn.append(size)
        return words if len(drawn) == 1 else bytes(size)

    values = uniform_categories(2**bits, categories, entropy=all_words)
    assert values[:categories].tolist() == list(range(categories))
    assert not values[categories:].any()
    assert drawn == [4 * size for size in (2**bits if bits else 0, 2**bits - categories) if size]


@pytest.mark.parametrize("categories", [3, 10, 100, 2**32 + 1, 2**40])
def test_categories_are_uniform(categories: int) -> None:
    values = uniform_categories(300_000, categories, entropy=SeededStreamNotForPeople(6))
    assert values.min() >= 0
    assert values.max() < categories
    cells = min(categories, 100)
    assert statistics.uniform_p(values * cells // categories, cells) > FALSE_POSITIVE_RATE


def test_modulo_bias_is_rejected() -> None:
    values = np.frombuffer(SeededStreamNotForPeople(6)(300_000), np.uint8).astype(np.int64) % 100
    assert statistics.uniform_p(values, 100) < FALSE_POSITIVE_RATE


@given(st.integers(1, 100), st.data())
def test_one_hot_sets_one_bit(width: int, data: st.DataObject) -> None:
    categories = data.draw(st.lists(st.integers(0, width - 1), max_size=20))
    records = check_records(one_hot(np.array(categories, np.int64), width), width)
    assert bits_of(records, width).sum(axis=1).tolist() == [1] * len(categories)
    assert bits_of(records, width).argmax(axis=1).tolist() == categories if categories else not records.size


@pytest.mark.parametrize(
    "records",
    [
        np.zeros((2, 2), np.uint8),
        np.zeros((2, 1), np.int8),
        np.zeros(2, np.uint8),
        np.zeros((2, 1, 1), np.uint8),
        np.zeros((4, 2), np.uint8)[:, :1],
        np.full((2, 1), 8, np.uint8),
        [[1]],
    ],
)
def test_other_layouts_are_rejected(records: NDArray[np.uint8]) -> None:
    with pytest.raises(InvalidInput, match=r"^records must "):
        flip(records, 3, Q)


def test_domains() -> None:
    good = np.zeros((2, 1), np.uint8)
    for width, numerator in ((0, 1), (8, -1), (8, 2**GRID_BITS), (8.0, 1)):
        with pytest.raises(InvalidInput):
            flip(good, width, numerator)  # type: ignore[arg-type]
    for categories in ([[0]], [0.0], [-1], [8]):
        with pytest.raises(InvalidInput, match=r"^categories must "):
            one_hot(np.array(categories), 8)
    with pytest.raises(InvalidInput, match="categories"):
        uniform_categories(1, 0)
    with pytest.raises(TooLarge):
        uniform_records(10**9, 1000)
    with pytest.raises(TooLarge):
        uniform_categories(10**9, 10)


def test_messages_contain_no_data() -> None:
    with pytest.raises(InvalidInput) as caught:
        flip(np.full((1, 1), 200, np.uint8), 3, Q)
    assert "200" not in str(caught.value)


def test_memory(peak: Callable[[Callable[[], object]], int]) -> None:
    seeded = SeededStreamNotForPeople(1)
    records = np.zeros((10**6, 5), np.uint8)
    assert peak(lambda: flip(records, 40, Q, entropy=seeded)) < records.nbytes + 9 * 2**20
    assert peak(lambda: check_records(records, 39)) < 2 * 10**6 + 2**16
    assert peak(lambda: uniform_records(10**6, 40, entropy=seeded)) < records.nbytes + 2**16
    assert peak(lambda: uniform_categories(10**6, 700, entropy=seeded)) < 24 * 10**6
    categories = np.zeros(10**6, np.int64)
    assert peak(lambda: one_hot(categories, 40)) < records.nbytes + 25 * 10**6
