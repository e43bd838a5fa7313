"""Fixed-point arithmetic encloses the exact values."""

from fractions import Fraction
from math import comb, factorial

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.crude import chances

from hubbub.checker import fixed
from hubbub.checker.fixed import binomial, convolve, exp_bounds, poisson
from hubbub.checker.losses import Loss, from_curve, powers


@given(st.fractions(-800, 2000, max_denominator=10**9), st.integers(8, 400))
def test_exponentials_are_enclosed(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    with mpmath.workprec(4 * bits + 4000):
        exact = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert low <= exact <= high
    assert high - low <= 2 + (high >> bits)


@given(st.integers(0, 60), st.fractions(0, 1, max_denominator=997), st.integers(40, 200))
def test_binomials_are_enclosed(n: int, chance: Fraction, bits: int) -> None:
    found = binomial(n, chance, bits)
    outside = Fraction(1)
    for i, low in enumerate(found.low, found.first):
        exact = comb(n, i) * chance**i * (1 - chance) ** (n - i)
        outside -= exact
        assert low <= exact * 2**bits <= low + found.slack
    assert outside * 2**bits <= found.slack
    assert found.slack < 2**20


@pytest.mark.parametrize("guard", [0, 2])
@pytest.mark.parametrize("n", [1, 2, 7, 60, 400])
def test_binomials_without_guard_bits_are_enclosed(n: int, guard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are rounded, and left out, by as much as the probabilities show."""
    monkeypatch.setattr(fixed, "GUARD", guard)
    for chance in (Fraction(1, 2), Fraction(1, 3), Fraction(1, 50), Fraction(49, 50)):
        row = chances(n, chance)
        for bits in range(8, 16):
            found = binomial.__wrapped__(n, chance, bits)
            inside = range(found.first, found.first + len(found.low))
            for i, low in zip(inside, found.low, strict=True):
                assert low <= row[i] * 2**bits <= low + found.slack
            assert (1 - sum(row[i] for i in inside)) * 2**bits <= found.slack


def test_wide_binomials_are_enclosed() -> None:
    found = binomial(10**9, Fraction(1, 10), 128)
    with mpmath.workdps(80):
        for s in (10**8, 10**8 + 40_000, 10**8 - 70_000):
            log = (
                mpmath.loggamma(10**9 + 1)
                - mpmath.loggamma(s + 1)
                - mpmath.loggamma(10**9 - s + 1)
                + s * mpmath.log(mpmath.mpf(1) / 10)
                + (10**9 - s) * mpmath.log(mpmath.mpf(9) / 10)
            )
            low = found.low[s - found.first]
            assert low <= mpmath.exp(log) * 2**128 <= low + found.slack
    assert found.slack < 2**40


@given(st.fractions(Fraction(1, 50), 40, max_denominator=50))
def test_poissons_are_enclosed(mean: Fraction) -> None:
    found = poisson(mean, 100)
    scale = exp_bounds(-mean, 300)
    for i, low in enumerate(found.low, found.first):
        weight = mean**i / factorial(i)
        assert low <= weight * Fraction(scale[1], 2**200)
        assert weight * Fraction(scale[0], 2**200) <= low + found.slack
    assert found.slack < 2**20


@given(st.lists(st.integers(0, 2**90), min_size=1, max_size=12), st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_convolution(a: list[int], b: list[int]) -> None:
    expected = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            expected[i + j] += x * y
    assert convolve(a, b) == expected


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=5),
    st.integers(1, 4),
    st.fractions(1, 20, max_denominator=7),
)
def test_composed_curves_are_covered(weights: list[tuple[int, int]], times: int, x: Fraction) -> None:
    """The cover of a curve bounds the exact composition of the pair, in both orders."""
    bits = 80
    sums = [sum(column) for column in zip(*weights, strict=True)]
    pair = [(Fraction(a, sums[0]), Fraction(b, sums[1])) for a, b in weights]

    def exact(order: int, at: Fraction) -> Fraction:
        outcomes = [(Fraction(1), Fraction(1))]
        for _ in range(times):
            outcomes = [(p * one[order], q * one[1 - order]) for p, q in outcomes for one in pair]
        return sum((max(Fraction(0), p - at * q) for p, q in outcomes), Fraction(0))

    ratio = (1 << bits) + (1 << bits) // 7
    points = powers(ratio, 40, bits)
    half = []
    for low, _ in points:
        at = Fraction(low, 1 << bits)
        both = [sum((max(Fraction(0), one[i] - at * one[1 - i]) for one in pair), Fraction(0)) for i in (0, 1)]
        half.append(int(max(both) * 2**bits) + 1)
    loss = from_curve(half, points, ratio, bits).power(times, 2**20)
    wide = powers(ratio, 400, bits)
    bound = loss.delta(int(x * 2**bits), lambda i: wide[i][1] if i >= 0 else 1 << bits)
    assert Fraction(bound, 1 << bits) >= max(exact(0, x), exact(1, x))


def test_loss_at_infinity_is_kept() -> None:
    certain = Loss(0, [1 << 39], 1 << 39, 40)
    assert certain.power(2, 0).delta(5 << 40, lambda i: 1 << 40) == 3 << 38
