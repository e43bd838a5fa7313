"""Coins are exact by enumeration and pass statistics that reject spoiled coins."""

import math
from collections.abc import Callable
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.bits import statistics
from tests.bits.statistics import FALSE_POSITIVE_RATE

from hubbub.bits import coins as module
from hubbub.bits.coins import coins, flip_bits, positions
from hubbub.bits.device import GRID_BITS
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import InvalidInput, TooLarge

FLIPS = [0.01, 0.1778, 0.351, 0.5, 0.9]


def numerator_of(q: float) -> int:
    return int(q * 2**GRID_BITS)


def unpacked(mask: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    return np.unpackbits(mask, bitorder="little").reshape(-1, columns)


class Rows:
    """Entropy with predetermined 64-bit words."""

    def __init__(self, words: list[int]) -> None:
        self.data = np.array(words, np.uint64).tobytes()
        self.used = 0

    def __call__(self, size: int) -> bytes:
        self.used += size
        return self.data[self.used - size : self.used]


LANES = [sum((~lane >> place & 1) << lane for lane in range(64)) for place in range(6)]
"""Word i holds the complement of digit i (of weight 2^i) of every lane's number: all 64 fractions k/64 at once."""


def test_every_fraction_of_six_digits_is_compared_correctly() -> None:
    """64 lanes hold all random fractions, so exactly ``numerator`` of them must be ones."""
    for numerator in range(1, 64):
        zeros = (numerator & -numerator).bit_length() - 1
        digits = [numerator >> place & 1 for place in range(zeros, 6)]
        mask, space = np.empty(1, np.uint64), np.empty(1, np.uint64)
        below = module._slices(mask, space, digits, Rows(LANES[zeros:]))
        assert int(below[0]) == (1 << numerator) - 1


@given(st.integers(0, 511).map(lambda i: 2 * i + 1), st.integers(1, 50), st.integers(1, 50), st.integers(0, 1000))
def test_slices_agree_with_comparing_integers(head: int, words: int, step: int, seed: int) -> None:
    """The same random digits, gathered lane by lane into integers and compared with ``<``, block by block."""
    digits = [head >> place & 1 for place in range(10)]
    mask, space = np.empty(words, np.uint64), np.empty(step, np.uint64)
    below = module._slices(mask, space, digits, SeededStreamNotForPeople(seed))
    source = SeededStreamNotForPeople(seed)
    for start in range(0, words, step):
        size = min(step, words - start)
        noise = np.frombuffer(source(80 * size), np.uint8).reshape(10, size, 8)
        bits = ~np.unpackbits(noise, axis=2, bitorder="little").astype(bool)
        value = sum(bits[place].astype(np.int64) << place for place in range(10))
        expected = np.packbits(value < head, axis=1, bitorder="little").view(np.uint64)[:, 0]
        assert (below[start : start + size] == expected).all()


@given(st.integers(2**40, 2**GRID_BITS - 1))
def test_the_parts_of_a_dense_coin_have_the_exact_probability(numerator: int) -> None:
    """a + (1 − a)·b = q in exact fractions, or its mirror image above 1/2, for the parts that are drawn."""
    parts: list[Fraction] = []

    def slices(mask: NDArray[np.uint64], space: object, digits: list[int], entropy: object) -> NDArray[np.uint64]:
        parts.append(sum((Fraction(digit, 2 ** (len(digits) - i)) for i, digit in enumerate(digits)), Fraction(0)))
        return np.zeros_like(mask)

    def leaps(count: int, numerator: int, denominator: int, entropy: object) -> NDArray[np.int64]:
        parts.append(Fraction(numerator, denominator))
        assert parts[-1] < Fraction(1, 2)
        return np.empty(0, np.int64)

    with mock.patch.object(module, "_slices", slices), mock.patch.object(module, "_leaps", leaps):
        target = np.zeros(8, np.uint8)
        flip_bits(target, numerator, SeededStreamNotForPeople(1))
    missed = math.prod((1 - part for part in parts), start=Fraction(1))
    inverted = bool(target.all())
    assert inverted == (numerator > 2**47)
    assert Fraction(numerator, 2**GRID_BITS) == (missed if inverted else 1 - missed)


def test_the_parts_of_a_dense_coin_are_joined() -> None:
    """Two sparse positions, one on a 1 of the slices and one on a 0: the mask is their union."""
    with (
        mock.patch.object(module, "_slices", lambda mask, *rest: np.full_like(mask, 0b0110)),
        mock.patch.object(module, "_leaps", lambda *rest: np.array([1, 3])),
    ):
        target = np.full(8, 0b1111, np.uint8)
        flip_bits(target, 2**46 + 1, SeededStreamNotForPeople(1))
    assert target.tolist() == [0b1111 ^ 0b1110] + [0b1111] * 7


@pytest.mark.parametrize("q", FLIPS)
def test_dense_coins_pass_all_statistics(q: float) -> None:
    numerator = numerator_of(q)
    bits = unpacked(coins(40 * 200_000, numerator, entropy=SeededStreamNotForPeople(11)), 40)
    for p in (statistics.position_p, statistics.pair_p, statistics.runs_p):
        assert p(bits, numerator / 2**GRID_BITS) > FALSE_POSITIVE_RATE


@pytest.mark.parametrize("q", [1e-3, 3e-3])
def test_sparse_coins_pass_all_statistics(q: float) -> None:
    numerator = numerator_of(q)
    bits = unpacked(coins(40 * 500_000, numerator, entropy=SeededStreamNotForPeople(12)), 40)
    for p in (statistics.position_p, statistics.pair_p, statistics.runs_p):
        assert p(bits, numerator / 2**GRID_BITS) > FALSE_POSITIVE_RATE


def never_flipped(bits: NDArray[np.uint8]) -> None:
    bits[:, 17] = 0


def always_equal_to_its_neighbour(bits: NDArray[np.uint8]) -> None:
    bits[:, 18] = bits[:, 17]


def every_tenth_run_repeated(bits: NDArray[np.uint8]) -> None:
    flat = bits.reshape(-1, 20)
    flat[1::10] = flat[0::10]


def forgotten_last_bit(bits: NDArray[np.uint8]) -> None:
    bits[:, -1] = 0


@pytest.mark.parametrize(
    ("spoil", "p"),
    [
        (never_flipped, statistics.position_p),
        (forgotten_last_bit, statistics.position_p),
        (always_equal_to_its_neighbour, statistics.pair_p),
        (every_tenth_run_repeated, statistics.pair_p),
    ],
)
@pytest.mark.parametrize("q", [0.01, 0.1778])
def test_spoiled_coins_are_rejected(
    q: float, spoil: Callable[[NDArray[np.uint8]], None], p: Callable[[NDArray[np.uint8], float], float]
) -> None:
    bits = unpacked(coins(40 * 200_000, numerator_of(q), entropy=SeededStreamNotForPeople(11)), 40)
    spoil(bits)
    assert p(bits, q) < FALSE_POSITIVE_RATE


def test_clustered_coins_are_rejected() -> None:
    """Correct in every column and pair of columns, wrong along the sequence."""
    bits = unpacked(coins(40 * 200_000, numerator_of(0.1778), entropy=SeededStreamNotForPeople(11)), 40)
    bits[:, ::2].sort(axis=0)
    assert statistics.position_p(bits, 0.1778) > FALSE_POSITIVE_RATE
    assert statistics.runs_p(bits, 0.1778) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize("error", [-1e-3, 1e-3, 0.0])
@pytest.mark.slow
def test_an_error_of_one_in_a_thousand_is_detected_in_a_billion_bits(error: float) -> None:
    entropy = SeededStreamNotForPeople(13)
    numerator = numerator_of(0.1778 * (1 + error))
    ones = sum(int(np.bitwise_count(coins(10**8, numerator, entropy=entropy)).sum()) for _ in range(10))
    assert (statistics.total_p(ones, 10**9, 0.1778) > FALSE_POSITIVE_RATE) == (error == 0.0)


@given(st.integers(0, 200), st.integers(0, 2**GRID_BITS - 1))
def test_unused_bits_are_zero(count: int, numerator: int) -> None:
    mask = coins(count, numerator, entropy=SeededStreamNotForPeople(1))
    assert mask.size == -(-count // 8)
    assert not np.unpackbits(mask, bitorder="little")[count:].any()


def test_certain_and_impossible() -> None:
    assert not coins(1000, 0).any()
    assert positions(10**12, 0).size == 0
    nearly = coins(1000, 2**GRID_BITS - 1, entropy=SeededStreamNotForPeople(1))
    assert (nearly == 255).all()


@given(st.integers(1, 2**40 - 1), st.integers(0, 100))
def test_sparse_coins_are_positions_in_packed_form(numerator: int, seed: int) -> None:
    count = 8 * 5000
    target = np.frombuffer(SeededStreamNotForPeople(seed + 1)(count // 8), np.uint8)
    flipped = target.copy()
    flip_bits(flipped, numerator, SeededStreamNotForPeople(seed))
    where = positions(count, numerator, entropy=SeededStreamNotForPeople(seed))
    assert np.flatnonzero(np.unpackbits(flipped ^ target, bitorder="little")).tolist() == where.tolist()


def binomial_below(size: int, q: Fraction, ones: int) -> Fraction:
    """Return P[Binomial(size, q) ≤ ones], exactly."""
    return sum((math.comb(size, k) * q**k * (1 - q) ** (size - k) for k in range(ones + 1)), Fraction(0))


@st.composite
def small_blocks(draw: st.DrawFn) -> tuple[int, int, int]:
    """Draw an exponent and a probability, dyadic or not, whose blocks have that exponent."""
    exponent = draw(st.integers(1, 6))
    denominator = draw(st.one_of(st.just(2**GRID_BITS), st.integers(2**47, 2**GRID_BITS)))
    numerator = draw(st.integers((denominator >> exponent + 1) + 1, (denominator - 1) >> exponent))
    return exponent, numerator, denominator


@given(small_blocks())
def test_the_distribution_of_a_block_has_its_stated_accuracy(block: tuple[int, int, int]) -> None:
    exponent, numerator, denominator = block
    assert module._exponent(numerator, denominator) == exponent
    q = Fraction(numerator, denominator)
    for ones, value in zip(range(2**exponent + 1), module._distribution(*block, 192), strict=False):
        exact = binomial_below(2**exponent, q, ones) * 2**192
        assert value <= exact < value + module._SLACK
    for ones, edge in enumerate(module._edges(*block).tolist()):
        assert edge <= binomial_below(2**exponent, q, ones) * 2**64 < edge + 2


@given(st.integers(1, 47), st.integers(2**47, 2**GRID_BITS))
def test_the_distribution_of_huge_blocks_agrees_with_a_finer_evaluation(exponent: int, denominator: int) -> None:
    numerator = (denominator - 1) >> exponent
    coarse = module._distribution(exponent, numerator, denominator, 256)
    fine = module._distribution(exponent, numerator, denominator, 512)
    for _, rough, exact in zip(range(40), coarse, fine, strict=False):
        assert rough <= exact >> 256 < rough + module._SLACK


@given(small_blocks(), st.integers(0, 1000))
def test_undecided_words_are_refined(block: tuple[int, int, int], seed: int) -> None:
    """Words on and next to an edge: the number of ones is that of the fraction with all digits drawn."""
    exponent, numerator, denominator = block
    edges = module._edges(*block).tolist()
    words = [min(edge + by, 2**64 - 1) for edge in edges[:4] for by in (0, 1, 2)]
    owners = module._owners(np.array(words, np.uint64), *block, SeededStreamNotForPeople(seed))
    observed = np.bincount(owners, minlength=len(words))
    cdf = [binomial_below(2**exponent, Fraction(numerator, denominator), ones) for ones in range(2**exponent + 1)]
    source = SeededStreamNotForPeople(seed)
    refined = 0
    for level, edge in enumerate(edges):
        for number, word in enumerate(words):
            if word in (edge, edge + 1) and sum(word > other + 1 for other in edges) == level:
                refined += 1
                fraction = Fraction(word << 192 | int.from_bytes(source(24)), 2**256)
                assert observed[number] == sum(value <= fraction for value in cdf)
    assert refined >= min(4, len(edges))


def test_a_persistent_tie_is_refined_again() -> None:
    """P[0 ones] of two coins has 96 digits: a fraction that exceeds it in digit 256 is within the stated error."""
    numerator = 2**46 + 1
    edge = (2**GRID_BITS - numerator) ** 2 << 160
    for fraction, ones in ((edge + 1, 1), (edge - 1, 0)):
        digits = [int.to_bytes(fraction & (2**192 - 1), 24), bytes(24)][: 1 + ones]
        assert module._refine(fraction >> 192, 1, numerator, 2**GRID_BITS, lambda size: digits.pop(0)) == ones  # noqa: B023
        assert not digits


@pytest.mark.parametrize("q", [0.3, 0.05, 1e-3, 1e-5])
def test_positions_are_distributed_like_coins(q: float) -> None:
    numerator = numerator_of(q)
    count = int(3e5 / q)
    where = positions(count, numerator, entropy=SeededStreamNotForPeople(21))
    exact = numerator / 2**GRID_BITS
    assert (np.diff(where) > 0).all()
    assert 0 <= where[0] <= where[-1] < count
    assert statistics.total_p(where.size, count, exact) > FALSE_POSITIVE_RATE
    assert statistics.uniform_p(where * 64 // count, 64) > FALSE_POSITIVE_RATE
    assert statistics.uniform_p(where % 64, 64) > FALSE_POSITIVE_RATE
    dense = np.zeros(min(count, 10**7), np.uint8)
    dense[where[where < dense.size]] = 1
    if q > 1e-4:
        assert statistics.runs_p(dense, exact) > FALSE_POSITIVE_RATE


def test_positions_of_a_wrong_probability_are_rejected() -> None:
    where = positions(10**8, numerator_of(1.02e-3), entropy=SeededStreamNotForPeople(21))
    assert statistics.total_p(where.size, 10**8, 1e-3) < FALSE_POSITIVE_RATE


def test_blocks_with_coinciding_positions_are_redrawn() -> None:
    """Blocks of two positions: all outcomes of coins with q = 0.49 have the product distribution."""
    numerator = numerator_of(0.49)
    where = positions(2 * 10**5, numerator, entropy=SeededStreamNotForPeople(22))
    bits = np.zeros(2 * 10**5, np.uint8)
    bits[where] = 1
    outcome = bits[0::2] + 2 * bits[1::2]
    expected = np.array([0.51 * 0.51, 0.49 * 0.51, 0.51 * 0.49, 0.49 * 0.49]) * 10**5
    z = (np.bincount(outcome, minlength=4) - expected) / np.sqrt(expected)
    assert (z * z).sum() < 20


@pytest.mark.parametrize(("q", "count"), [(1e-8, 10**9), (1e-12, 10**15), (2**-48, 2**60), (1e-5, 10**8)])
def test_the_cost_of_positions_is_proportional_to_the_number_of_ones(q: float, count: int) -> None:
    drawn = 0
    seeded = SeededStreamNotForPeople(1)

    def counting(size: int) -> bytes:
        nonlocal drawn
        drawn += size
        return seeded(size)

    where = positions(count, numerator_of(q), entropy=counting)
    assert where.size < 2 * q * count + 30
    assert drawn < 30 * q * count + 200


def test_the_cost_of_dense_coins_does_not_depend_on_the_digits() -> None:
    def keystream(numerator: int) -> float:
        drawn = 0
        seeded = SeededStreamNotForPeople(1)

        def counting(size: int) -> bytes:
            nonlocal drawn
            drawn += size
            return seeded(size)

        coins(10**6, numerator, entropy=counting)
        return drawn * 8 / 10**6

    assert keystream(2**46) == pytest.approx(2, rel=1e-3)
    assert 9 < keystream(numerator_of(0.1778)) < 9.2
    assert 9 < keystream(2**47 - 1) < 10.2


def test_domains() -> None:
    for count, numerator in ((-1, 1), (1.0, 1), (1, -1), (1, 2**GRID_BITS), (1, 0.5), (True, 1)):
        with pytest.raises(InvalidInput):
            coins(count, numerator)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="numerator must be a whole number in"):
        positions(10, 2**47)
    with pytest.raises(TooLarge):
        coins(2**40, 1)
    with pytest.raises(TooLarge):
        positions(2**50, 2**46)


def test_memory(peak: Callable[[Callable[[], object]], int]) -> None:
    seeded = SeededStreamNotForPeople(1)
    assert peak(lambda: coins(8 * 10**7, numerator_of(0.1778), entropy=seeded)) < 10**7 + 9 * 2**20
    assert peak(lambda: coins(8 * 10**7, numerator_of(1e-3), entropy=seeded)) < 10**7 + 9 * 2**20
    assert peak(lambda: coins(8 * 10**7, numerator_of(1e-7), entropy=seeded)) < 10**7 + 9 * 2**20
    ones = 10**6
    assert peak(lambda: positions(10**9, numerator_of(1e-3), entropy=seeded)) < 40 * ones + 2 * 2**20
