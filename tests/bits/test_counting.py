"""Counts equal those of unpacked bits for every width, and counts of parts add up."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.bits import counting
from hubbub.bits.counting import bit_counts, histogram
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.bits.records import uniform_records
from hubbub.errors import InvalidInput


@given(st.integers(0, 3000), st.integers(1, 200), st.integers(0, 100))
def test_bit_counts_equal_those_of_unpacked_bits(n: int, width: int, seed: int) -> None:
    records = uniform_records(n, width, entropy=SeededStreamNotForPeople(seed))
    counts = bit_counts(records, width)
    assert counts.dtype == np.int64
    assert (counts == np.unpackbits(records, axis=1, bitorder="little", count=width).sum(axis=0)).all()


@pytest.mark.parametrize(("n", "width"), [(300_000, 40), (300_000, 64), (20_011, 1024), (1_000_003, 3), (50, 100_001)])
def test_bit_counts_of_many_planes(n: int, width: int) -> None:
    records = uniform_records(n, width, entropy=SeededStreamNotForPeople(1))
    expected = np.zeros(width, np.int64)
    for start in range(0, n, 10_000):
        part = records[start : start + 10_000]
        expected += np.unpackbits(part, axis=1, bitorder="little", count=width).sum(axis=0, dtype=np.int64)
    assert (bit_counts(records, width) == expected).all()


def test_every_bit_of_every_record_is_counted() -> None:
    assert (bit_counts(np.full((1_234_567, 5), 255, np.uint8), 40) == 1_234_567).all()


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 18))
def test_counts_of_parts_add_up(n: int, m: int, width: int) -> None:
    records = uniform_records(n + m, width, entropy=SeededStreamNotForPeople(1))
    assert (bit_counts(records, width) == bit_counts(records[:n], width) + bit_counts(records[n:], width)).all()
    whole, first, second = (histogram(part, width) for part in (records, records[:n], records[n:]))
    assert (whole == first + second).all()


@pytest.mark.parametrize("width", [1, 7, 8, 9, 15, 16, 17, 24])
def test_histogram_counts_each_record(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_ROWS", 1000)
    records = uniform_records(5000, width, entropy=SeededStreamNotForPeople(1))
    counts = histogram(records, width)
    values, counted = np.unique([int.from_bytes(row.tobytes(), "little") for row in records], return_counts=True)
    assert counts.size == 2**width
    assert np.flatnonzero(counts).tolist() == values.tolist()
    assert counts[values].tolist() == counted.tolist()


def test_histogram_has_the_counts_as_margins() -> None:
    records = uniform_records(5000, 11, entropy=SeededStreamNotForPeople(1))
    cube = histogram(records, 11).reshape((2,) * 11)
    margins = [cube.take(1, axis=10 - bit).sum() for bit in range(11)]
    assert margins == bit_counts(records, 11).tolist()


def test_domains() -> None:
    with pytest.raises(InvalidInput, match="width must be a whole number in"):
        histogram(np.zeros((1, 4), np.uint8), 25)
    with pytest.raises(InvalidInput, match="records must"):
        bit_counts(np.zeros((1, 4), np.uint8), 40)


def test_memory(peak: Callable[[Callable[[], object]], int]) -> None:
    records = np.zeros((4 * 10**6, 5), np.uint8)
    assert peak(lambda: bit_counts(records, 40)) < (2 * 22 + 6) * 2**16
    assert peak(lambda: histogram(records[:, :1].copy(), 4)) < 24 * 2**20 + 4 * 10**6 * 3
    wide = np.zeros((100, 12_500), np.uint8)
    assert peak(lambda: bit_counts(wide, 100_000)) < (2 * 7 + 6) * 8 * 12_500 + 16 * 100_000
