"""All orders are equally likely, by enumeration and by chi-square tests that reject wrong shuffles."""

import io
import itertools
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.bits import statistics
from tests.bits.statistics import FALSE_POSITIVE_RATE

from hubbub.bits import compiled
from hubbub.bits import permutation as module
from hubbub.bits.entropy import Entropy, SeededStreamNotForPeople, draw, system
from hubbub.bits.permutation import permutation, shuffle, shuffle_external
from hubbub.errors import InvalidInput, MissingExtra, TooLarge

Shuffler = Callable[[int, Entropy], NDArray[np.int64]]


def external(n: int, entropy: Entropy) -> NDArray[np.int64]:
    blocks = (np.arange(start, min(n, start + 2)) for start in range(0, n, 2))
    return np.concatenate(list(shuffle_external(blocks, io.BytesIO, entropy=entropy)))


SHUFFLERS: dict[str, Shuffler] = {
    "sort": lambda n, entropy: permutation(n, entropy=entropy),
    "sort, 1-bit keys": lambda n, entropy: module._sort(n, 4, entropy),
    "sort, 3-bit keys": lambda n, entropy: module._sort(n, 6, entropy),
    "fast": lambda n, entropy: permutation(n, entropy=entropy, fast=True),
    "fast, in place": lambda n, entropy: shuffle(np.arange(n), entropy=entropy, fast=True),
    "fast, widened": lambda n, entropy: shuffle(np.arange(n, dtype=np.int16), entropy=entropy, fast=True).astype(int),
}


def order_p(shuffler: Shuffler, n: int = 5, times: int = 12_000) -> float:
    """Return the chi-square p-value of the orders of n records against the uniform distribution on all n! orders."""
    number = {order: i for i, order in enumerate(itertools.permutations(range(n)))}
    entropy = SeededStreamNotForPeople(31)
    seen = [number[tuple(shuffler(n, entropy).tolist())] for _ in range(times)]
    return statistics.uniform_p(np.array(seen), math.factorial(n))


@pytest.mark.parametrize("name", SHUFFLERS)
def test_all_orders_are_equally_likely(name: str) -> None:
    assert order_p(SHUFFLERS[name]) > FALSE_POSITIVE_RATE


@pytest.mark.long
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_external_orders_are_equally_likely(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With memory for one row, and two buckets, files are split recursively many times."""
    monkeypatch.setattr(module, "_rows", lambda sample, memory: rows)
    monkeypatch.setattr(module, "_BUCKETS", 2)
    assert order_p(external, n=4, times=4000) > FALSE_POSITIVE_RATE


def naive(n: int, entropy: Entropy, *, low: int = 0, high: int = 0) -> NDArray[np.int64]:
    """Shuffle by Fisher–Yates with exact choices from a range that may be wrong by one."""
    order = np.arange(n)
    for last in range(n - 1, 0, -1):
        chosen = low + int.from_bytes(entropy(8)) % (last + 1 + high - low)
        order[[last, chosen]] = order[[chosen, last]]
    return order


def test_the_reference_passes() -> None:
    assert order_p(naive) > FALSE_POSITIVE_RATE


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n, entropy: naive(n, entropy, high=-1),
        lambda n, entropy: naive(n, entropy, low=1),
        lambda n, entropy: np.argsort(np.frombuffer(entropy(n), np.uint8) % 8, kind="stable"),
    ],
    ids=["off by one above", "off by one below", "ties kept, 3-bit keys"],
)
def test_wrong_shuffles_are_rejected(wrong: Shuffler) -> None:
    assert order_p(wrong) < FALSE_POSITIVE_RATE


def test_without_repair_of_ties_tiny_keys_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_repair", lambda *arguments: None)
    assert order_p(SHUFFLERS["sort, 3-bit keys"]) < FALSE_POSITIVE_RATE


def test_without_shuffled_files_the_external_order_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "shuffle", lambda rows, **options: rows)
    monkeypatch.setattr(module, "_BUCKETS", 2)
    assert order_p(external, n=4, times=4000) < FALSE_POSITIVE_RATE


def test_distinct_keys_give_each_order_once() -> None:
    """Enumeration: three keys of two bits, all 64 triples; the 24 without ties give each of 6 orders four times."""
    orders: Counter[tuple[int, ...]] = Counter()
    for keys in itertools.permutations(range(4), 3):
        words = [np.array(keys, np.uint64) << np.uint64(62)]
        orders[tuple(module._sort(3, 4, lambda size: words.pop().tobytes()).tolist())] += 1  # noqa: B023
    assert set(orders.values()) == {4}
    assert len(orders) == 6


def test_repeated_ties_are_repaired_until_none_is_left() -> None:
    """All keys are equal, further digits are equal twice, then distinct: only the last draw decides."""
    last = np.array([2, 0, 3, 1], np.uint64)
    draws = [np.zeros(4, np.uint64)] * 3 + [last]
    order = module._sort(4, 64, lambda size: draws.pop(0).tobytes())
    assert order.tolist() == np.argsort(last).tolist()
    assert not draws


def test_fisher_yates_produces_each_order_once() -> None:
    """Words in the middle of each choice's interval: 4·3·2 sequences of choices, 24 different orders."""
    orders = set()
    for choices in itertools.product(range(4), range(3), range(2)):
        words = [((2 * chosen + 1) << 31) // bound for chosen, bound in zip(choices, (4, 3, 2), strict=True)]
        records = np.arange(4, dtype=np.uint64)
        assert compiled.fisher_yates(records, 4, np.array(words, np.uint32)) == 1
        orders.add(tuple(records.tolist()))
    assert len(orders) == 24


@given(st.integers(2, 1000), st.data())
def test_each_choice_has_the_same_number_of_words(bound: int, data: st.DataObject) -> None:
    """⌊2³²/bound⌋ consecutive words choose c; those between them and the words of c − 1 are rejected."""
    chosen = data.draw(st.integers(0, bound - 1))
    before, end = (-(-(c << 32) // bound) for c in (chosen, chosen + 1))
    first = end - 2**32 // bound
    for word in range(before, first):
        assert compiled.fisher_yates(np.zeros(bound, np.uint64), bound, np.array([word], np.uint32)) == bound
    for word in (first, end - 1):
        records = np.arange(bound, dtype=np.uint64)
        assert compiled.fisher_yates(records, bound, np.array([word], np.uint32)) == bound - 1
        assert records[bound - 1] == chosen


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("shape", [(0, 8), (1, 8), (2, 8), (70_001, 8), (1000, 5), (1000, 1), (300, 128), (50, 1024)])
def test_shuffle_keeps_records_intact(shape: tuple[int, int], fast: bool) -> None:
    records = draw(SeededStreamNotForPeople(1), shape, np.uint8)
    before = records.copy()
    mixed = shuffle(records, entropy=SeededStreamNotForPeople(2), fast=fast)
    assert (records == before).all()
    assert mixed.shape == shape
    assert mixed.dtype == np.uint8
    assert sorted(map(bytes, mixed)) == sorted(map(bytes, records))
    assert shape[0] < 50 or (mixed != records).any()


@pytest.mark.parametrize("fast", [False, True])
def test_shuffle_of_numbers_and_views(fast: bool) -> None:
    numbers = np.arange(3000.0)[::3]
    mixed = shuffle(numbers, entropy=SeededStreamNotForPeople(2), fast=fast)
    assert mixed.dtype == np.float64
    assert np.sort(mixed).tolist() == numbers.tolist()


@pytest.mark.parametrize("fast", [False, True])
def test_large_permutations_mix_positions_and_values(fast: bool) -> None:
    n = 200_000
    order = permutation(n, entropy=SeededStreamNotForPeople(3), fast=fast)
    assert np.sort(order).tolist() == list(range(n))
    cell = (np.arange(n) * 16 // n) * 16 + order * 16 // n
    assert statistics.uniform_p(cell, 256) > FALSE_POSITIVE_RATE
    cycle = (np.arange(n) * 16 // n) * 16 + np.arange(n) * 16 // n
    assert statistics.uniform_p(cycle, 256) < FALSE_POSITIVE_RATE


def test_external_splits_large_files_recursively_and_closes_all() -> None:
    opened: list[io.BytesIO] = []

    def scratch() -> io.BytesIO:
        opened.append(io.BytesIO())
        return opened[-1]

    n = 200_000
    blocks = (np.arange(start, start + 20_000).reshape(-1, 1) for start in range(0, n, 20_000))
    mixed = list(shuffle_external(blocks, scratch, memory=1 << 16, entropy=SeededStreamNotForPeople(4)))
    assert max(len(block) for block in mixed) <= (1 << 16) // 33
    order = np.concatenate(mixed)[:, 0]
    assert np.sort(order).tolist() == list(range(n))
    assert statistics.uniform_p((np.arange(n) * 16 // n) * 16 + order * 16 // n, 256) > FALSE_POSITIVE_RATE
    assert len(opened) > 64 * 60
    assert all(file.closed for file in opened)


def test_external_closes_its_files_when_abandoned() -> None:
    opened: list[io.BytesIO] = []

    def scratch() -> io.BytesIO:
        opened.append(io.BytesIO())
        return opened[-1]

    stream = shuffle_external([np.arange(100)], scratch)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert all(file.closed for file in opened)


def test_external_rejects_bad_input() -> None:
    assert list(shuffle_external([], io.BytesIO)) == []
    with pytest.raises(InvalidInput, match="blocks must all have rows of int64"):
        list(shuffle_external([np.arange(3), np.arange(3.0)], io.BytesIO))
    with pytest.raises(InvalidInput, match="memory must hold at least"):
        list(shuffle_external([np.zeros((3, 1024), np.uint8)], io.BytesIO, memory=1 << 16))
    with pytest.raises(InvalidInput, match="memory must be a whole number of at least"):
        list(shuffle_external([], io.BytesIO, memory=100))

    class Forgetful(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return b""

    with pytest.raises(InvalidInput, match="scratch must return"):
        list(shuffle_external([np.arange(100)], Forgetful))


def test_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput):
        permutation(-1)
    with pytest.raises(TooLarge):
        permutation(2**40)
    with pytest.raises(InvalidInput, match="records must be an array of rows"):
        shuffle([1, 2])  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtra, match=r"^Fast shuffling needs the extra 'fast': pip install 'hubbub\[fast\]'$"):
        permutation(10, fast=True)
    assert permutation(10).size == 10


@pytest.mark.parametrize("fast", [False, True])
def test_memory(peak: Callable[[Callable[[], object]], int], fast: bool) -> None:
    permutation(10, fast=fast)
    n = 10**6
    assert peak(lambda: permutation(n, entropy=system, fast=fast)) < 17 * n + 2**17
    records = np.zeros((n, 16), np.uint8)
    assert peak(lambda: shuffle(records, entropy=system, fast=fast)) < records.nbytes + 17 * n + 2**17


@pytest.mark.long
def test_memory_of_the_external_shuffle(peak: Callable[[Callable[[], object]], int]) -> None:
    def work() -> None:
        blocks = (np.zeros((1000, 128), np.uint8) for _ in range(500))
        for _ in shuffle_external(blocks, tempfile.TemporaryFile, memory=1 << 21):
            pass

    buffers = 2 * 64 * 2**17
    assert peak(work) < (1 << 21) + 2 * 128_000 + buffers
