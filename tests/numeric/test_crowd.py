"""The distribution of A_n(ones): golden values, the relations of [000 §6], and accuracy against mpmath."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hubbub.errors import InvalidInput, TooLarge
from hubbub.numeric import crowd as module
from hubbub.numeric.binomial import binomial
from hubbub.numeric.crowd import crowd, neighbours, probability_ratios
from hubbub.numeric.distributions import Distribution

Array = npt.NDArray[np.float64]
FLIPS = st.floats(0.005, 0.495)


def crowd_mean(n: int, ones: int, q: float) -> float:
    return n * q + ones * (1 - 2 * q)


def crowd_variance(n: int, q: float) -> float:
    return n * q * (1 - q)


def dense(distribution: Distribution, n: int) -> Array:
    result = np.zeros(n + 1)
    result[distribution.low : distribution.high + 1] = distribution.pmf
    return result


def before(values: Array) -> Array:
    """Return P(s − 1) at position s."""
    return np.append(0.0, values)[:-1]


def exact(n: int, ones: int, q: Fraction) -> list[Fraction]:
    distribution = [Fraction(1)]
    for chance in [1 - q] * ones + [q] * (n - ones):
        distribution = [
            (1 - chance) * a + chance * b
            for a, b in zip([*distribution, Fraction(0)], [Fraction(0), *distribution], strict=True)
        ]
    return distribution


def exact_at(s: int, n: int, ones: int, q: float) -> mp.mpf:
    """Return the convolution sum in mpmath, from its largest term outwards by ratios of neighbouring terms."""
    p, flip = 1 - mp.mpf(q), mp.mpf(q)
    zeros = n - ones
    low, high = max(0, s - zeros), min(ones, s)
    ratio = (p / flip) ** 2

    def step(i: int) -> mp.mpf:
        return ratio * (ones - i) * (s - i) / mp.mpf((i + 1) * (zeros - s + i + 1))

    left, right = low, high
    while left < right:
        middle = (left + right) // 2
        left, right = (middle + 1, right) if step(middle) > 1 else (left, middle)
    top = left
    start = mp.binomial(ones, top) * p**top * flip ** (ones - top) * mp.binomial(zeros, s - top)
    start *= flip ** (s - top) * p ** (zeros - s + top)
    total, term = start, start
    for i in range(top, high):
        term *= step(i)
        total += term
        if term < total * mp.mpf(10) ** -22:
            break
    term = start
    for i in range(top - 1, low - 1, -1):
        term /= step(i)
        total += term
        if term < total * mp.mpf(10) ** -22:
            break
    return total


@pytest.fixture(params=["convolution", "recurrence"])
def _algorithm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DIRECT", 2**30 if request.param == "convolution" else 0)


@pytest.mark.usefixtures("_algorithm")
def test_golden_distribution_of_five() -> None:
    """[000 §6] P_5,2(0…5) at q = 1/4."""
    np.testing.assert_allclose(crowd(5, 2, 0.25).pmf, np.array([27, 189, 414, 298, 87, 9]) / 1024, rtol=1e-14)


@pytest.mark.usefixtures("_algorithm")
@pytest.mark.parametrize("q", [Fraction(1, 4), Fraction(1, 100), Fraction(9, 20)])
def test_enumeration(q: Fraction) -> None:
    for n in (1, 2, 5, 12):
        for ones in range(n + 1):
            wanted = np.array([float(x) for x in exact(n, ones, q)])
            np.testing.assert_allclose(dense(crowd(n, ones, float(q)), n), wanted, rtol=1e-13)


def test_golden_probability_ratio() -> None:
    """[000 §6.2] ρ_5(2; 2) = 46/21 at q = 1/4."""
    assert probability_ratios(5, 2, 0.25)[2] == pytest.approx(46 / 21, rel=1e-14)


@pytest.mark.parametrize(
    ("n", "ones", "q"),
    [
        (1000, 500, 0.009),
        (10**4, 9000, 0.3),
        (10**5, 1, 0.1),
        (10**6, 500_000, 0.25),
        (10**6, 100_000, 0.01),
        (10**6, 999_000, 0.45),
        (10**6, 300_000, 1e-4),
    ],
)
def test_relative_error_up_to_a_million(n: int, ones: int, q: float) -> None:
    distribution = crowd(n, ones, q)
    mean, deviation = crowd_mean(n, ones, q), math.sqrt(crowd_variance(n, q))
    with mp.workdps(30):
        for z in (-25, -7, -2, 0, 3, 12, 30):
            s = round(mean + z * deviation)
            if distribution.low <= s <= distribution.high and distribution.pmf[s - distribution.low] > 1e-280:
                wanted = exact_at(s, n, ones, q)
                assert abs(distribution.pmf[s - distribution.low] / wanted - 1) < 1e-10, (s, z)


def test_tail_sums_are_accurate_at_a_million() -> None:
    n, ones, q = 10**6, 100_000, 0.01
    distribution = crowd(n, ones, q)
    s = round(crowd_mean(n, ones, q) - 9 * math.sqrt(crowd_variance(n, q)))
    with mp.workdps(30):
        wanted = mp.fsum(exact_at(s - i, n, ones, q) for i in range(40))
        assert abs(distribution.pmf[s - 39 - distribution.low : s + 1 - distribution.low].sum() / wanted - 1) < 1e-10
    assert distribution.cdf(s) > float(wanted)


def test_a_billion_people_need_only_a_window() -> None:
    n, ones, q = 10**9, 10**8, 1e-3
    distribution = crowd(n, ones, q)
    s = np.arange(distribution.low, distribution.high + 1) - crowd_mean(n, ones, q)
    assert len(distribution.pmf) < 100_000
    assert float(distribution.pmf @ s) == pytest.approx(0, abs=1e-5)
    assert float(distribution.pmf @ s**2) == pytest.approx(crowd_variance(n, q), rel=1e-9)
    with mp.workdps(30):
        at = round(crowd_mean(n, ones, q)) + 5000
        assert abs(distribution.pmf[at - distribution.low] / exact_at(at, n, ones, q) - 1) < 1e-9


@pytest.mark.parametrize(
    ("n", "ones", "q"), [(3000, 1500, 0.3), (3000, 40, 0.01), (2500, 2490, 0.2), (2000, 700, 0.49), (4000, 2000, 0.001)]
)
def test_convolution_and_recurrence_agree(n: int, ones: int, q: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DIRECT", 2**40)
    slow = dense(crowd(n, ones, q), n)
    monkeypatch.setattr(module, "DIRECT", 0)
    fast = dense(crowd(n, ones, q), n)
    representable = slow > 1e-290
    np.testing.assert_allclose(fast[representable], slow[representable], rtol=1e-11)


def test_the_recurrence_is_not_stable_up_to_the_mode() -> None:
    """[000 eq 6.3] run upwards beyond s* loses all digits before it reaches the mode."""
    n, ones, q = 2000, 0, 0.05
    r = (1 - q) / q
    boundary = n * q * q / ((1 - q) ** 2 + q * q)
    rho = math.inf
    worst = {True: 0.0, False: 0.0}
    for s in range(round(n * q)):
        rho = ((ones - s) * r + (n - ones - s) / r + (n - s + 1) / rho) / (s + 1)
        error = abs(rho / ((n - s) / (s + 1) / r) - 1)
        worst[s <= boundary] = max(worst[s <= boundary], error)
    assert worst[True] < 1e-13
    assert worst[False] > 1
    wanted = (n - np.arange(n)) / np.arange(1, n + 1) / r
    np.testing.assert_allclose(probability_ratios(n, ones, q)[1:], wanted, rtol=1e-12)


@pytest.mark.parametrize(("n", "ones", "q"), [(4000, 2000, 0.3), (4000, 1000, 0.1), (4000, 3900, 0.02)])
def test_a_recurrence_started_midway_converges(n: int, ones: int, q: float) -> None:
    """Started from the saddle point nearby, it equals the one started at the end."""
    whole = probability_ratios(n, ones, q)
    for low in (n // 4, n // 2, n - n // 4):
        part = module._ratios(n, ones, q, low, low + 3)
        np.testing.assert_allclose(part, whole[low + 1 : low + 4], rtol=1e-12)


@given(st.integers(2, 60), st.data(), FLIPS)
def test_conditioning_on_one_record(n: int, data: st.DataObject, q: float) -> None:
    """[000 eq 6.1, 6.2 = 001 eq 3.2, 3.3 = 004 eq 3.1, 3.2], also for the cdf [000 §6.4]."""
    ones = data.draw(st.integers(1, n))
    p = 1 - q
    distribution = dense(crowd(n, ones, q), n)
    from_one = np.append(dense(crowd(n - 1, ones - 1, q), n - 1), 0.0)
    np.testing.assert_allclose(distribution, p * before(from_one) + q * from_one, rtol=1e-12)
    if ones < n:
        from_zero = np.append(dense(crowd(n - 1, ones, q), n - 1), 0.0)
        np.testing.assert_allclose(distribution, q * before(from_zero) + p * from_zero, rtol=1e-12)
    below, others = np.cumsum(distribution), np.cumsum(from_one)
    np.testing.assert_allclose(below, p * before(others) + q * others, rtol=1e-12)


@given(st.integers(1, 60), st.data(), FLIPS)
def test_three_term_recurrence(n: int, data: st.DataObject, q: float) -> None:
    """[000 Lemma 6.1, eq 6.3 = 004 eq 3.3], as a residual and in the form of γ and the mean."""
    ones = data.draw(st.integers(0, n))
    p = 1 - q
    distribution = dense(crowd(n, ones, q), n)
    s = np.arange(n)
    gamma = (ones - s) * p / q + (n - ones - s) * q / p
    np.testing.assert_allclose(gamma, (crowd_mean(n, ones, q) - s) / (p * q) - n + 2 * s, rtol=1e-9, atol=1e-9 * n / q)
    left = (s + 1) * distribution[1:]
    right = gamma * distribution[:-1] + (n - s + 1) * before(distribution)[:-1]
    scale = np.abs(gamma) * distribution[:-1] + (n - s + 1) * before(distribution)[:-1] + left
    assert (np.abs(left - right) <= 1e-12 * scale).all()


@given(st.integers(1, 80), st.data(), FLIPS)
def test_exchanging_zeros_and_ones_mirrors_the_distribution(n: int, data: st.DataObject, q: float) -> None:
    ones = data.draw(st.integers(0, n))
    np.testing.assert_allclose(
        dense(crowd(n, ones, q), n), dense(crowd(n, n - ones, q), n)[::-1], rtol=1e-12, atol=1e-300
    )


@given(st.integers(1, 40), st.integers(1, 5), st.data(), FLIPS)
def test_copies_are_a_larger_crowd(n: int, k: int, data: st.DataObject, q: float) -> None:
    """[002 §5.2] G_m of k copies is G_km of one."""
    ones = data.draw(st.integers(0, n))
    copied, large = crowd(n, ones, q, k), crowd(k * n, k * ones, q)
    assert copied.low == large.low
    np.testing.assert_array_equal(copied.pmf, large.pmf)


@given(st.integers(1, 60), st.data(), FLIPS, st.integers(1, 4))
def test_neighbours_are_the_two_crowds(n: int, data: st.DataObject, q: float, k: int) -> None:
    ones = data.draw(st.integers(0, n - 1))
    zero, one = neighbours(n, ones, q, k)
    assert zero.low == one.low and len(zero.pmf) == len(one.pmf)
    np.testing.assert_allclose(dense(zero, k * n), dense(crowd(n, ones, q, k), k * n), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(dense(one, k * n), dense(crowd(n, ones + 1, q, k), k * n), rtol=1e-11, atol=1e-300)


@given(st.integers(1, 60), st.data(), FLIPS)
def test_adding_a_one(n: int, data: st.DataObject, q: float) -> None:
    """[000 §6.4] differences when ones grows by 1, and the interlacing of the cdfs."""
    ones = data.draw(st.integers(1, n))
    more, less = dense(crowd(n, ones, q), n), dense(crowd(n, ones - 1, q), n)
    others = np.append(dense(crowd(n - 1, ones - 1, q), n - 1), 0.0)
    np.testing.assert_allclose(more - less, (2 * q - 1) * (others - before(others)), atol=1e-14)
    shifted = q * (others[1:] - before(before(others))[1:])
    np.testing.assert_allclose(more[1:] - less[:-1], shifted, atol=1e-14)
    upper, lower = np.cumsum(less), np.cumsum(more)
    assert (lower <= upper + 1e-13).all() and (upper[:-1] <= lower[1:] + 1e-13).all()


@given(st.integers(1, 60), st.data(), FLIPS, st.floats(0.001, 0.999))
def test_quantiles_move_by_at_most_one(n: int, data: st.DataObject, q: float, alpha: float) -> None:
    """[000 §6.6] τ_n(m) is τ_n(m−1) or one more, depending on the slack of the cdf."""
    ones = data.draw(st.integers(1, n))
    less, more = crowd(n, ones - 1, q), crowd(n, ones, q)
    tau = less.quantile(alpha)
    assert more.quantile(alpha) in (tau, tau + 1)
    others = dense(crowd(n - 1, ones - 1, q), n - 1)
    slack = less.cdf(tau) - alpha - (1 - 2 * q) * (others[tau] if tau < n else 0.0)
    assume(abs(slack) > 1e-12)
    assert (more.quantile(alpha) == tau) == (slack > 0)


@given(st.integers(1, 60), st.data(), FLIPS)
def test_probability_ratio_decreases_in_s_and_increases_in_ones(n: int, data: st.DataObject, q: float) -> None:
    """[000 §6.2, the two properties marked TODO; 000 §7.1]."""
    ones = data.draw(st.integers(0, n - 1))
    ratios, more = probability_ratios(n, ones, q), probability_ratios(n, ones + 1, q)
    assert ratios[0] == math.inf
    assert (np.diff(ratios[1:]) < 0).all()
    assert (more[1:] > ratios[1:] * (1 - 1e-12)).all()


def test_homogeneous_crowds_are_binomial() -> None:
    np.testing.assert_array_equal(crowd(50, 0, 0.1).pmf, binomial(50, 0.1).pmf)
    np.testing.assert_array_equal(crowd(50, 50, 0.1).pmf, binomial(50, 0.1).pmf[::-1])


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^q must be in \(0, 1/2\), got 0.5"):
        crowd(5, 2, 0.5)
    with pytest.raises(InvalidInput, match=r"^q must be"):
        neighbours(5, 2, math.nan)
    with pytest.raises(InvalidInput, match=r"^ones must be a whole number in \[0, 5\], got 6"):
        crowd(5, 6, 0.1)
    with pytest.raises(InvalidInput, match=r"^ones must be a whole number in \[0, 4\], got 5"):
        neighbours(5, 5, 0.1)
    with pytest.raises(InvalidInput, match=r"^n must be a whole number"):
        probability_ratios(0, 0, 0.1)
    with pytest.raises(InvalidInput, match=r"^k must be a whole number"):
        crowd(5, 2, 0.1, 0)
    with pytest.raises(TooLarge):
        probability_ratios(10**9, 1, 0.1)
    with pytest.raises(TooLarge):
        crowd(2**52, 2**51, 0.3)
