"""The binomial distribution agrees with mpmath in the bulk, in the tails and at every size."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import InvalidInput, TooLarge
from hubbub.numeric.binomial import binomial, log_binomial_pmf
from hubbub.numeric.distributions import Distribution, support

SIZES = [1, 7, 40, 1000, 10**6]


def exact_log_pmf(s: int, n: int, prob: float | mp.mpf) -> mp.mpf:
    x = mp.mpf(prob)
    return mp.log(mp.binomial(n, s)) + s * mp.log(x) + (n - s) * mp.log(1 - x)


def exact_cdf(s: int, n: int, prob: mp.mpf) -> mp.mpf:
    """Return the lighter tail, summed from s outwards by ratios of neighbours until terms are negligible."""
    if s < 0:
        return mp.mpf(0)
    if s > n * prob:
        return 1 - exact_cdf(n - s - 1, n, 1 - prob)
    odds = (1 - prob) / prob
    term = total = mp.exp(exact_log_pmf(s, n, prob))
    while s > 0 and term > total * mp.mpf(10) ** -22:
        term *= odds * s / (n - s + 1)
        s -= 1
        total += term
    return total


def outcomes(n: int, prob: float) -> list[int]:
    deviation = math.sqrt(n * prob * (1 - prob))
    points = {round(n * prob + z * deviation) for z in (-30, -8, -3, -1, 0, 1, 3, 8, 30)} | {0, 1, n - 1, n}
    return sorted(s for s in points if 0 <= s <= n)


@pytest.mark.parametrize("n", [*SIZES, 10**9])
@pytest.mark.parametrize("prob", [0.5, 0.25, 0.009, 1e-5, 0.93])
def test_pmf_has_small_relative_error(n: int, prob: float) -> None:
    with mp.workdps(40):
        for s in outcomes(n, prob):
            exact = exact_log_pmf(s, n, prob)
            error = abs(mp.mpf(float(log_binomial_pmf(s, n, prob))) - exact)
            assert error < 1e-10 * max(1, abs(exact) / 700)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("prob", [0.5, 0.25, 0.009])
def test_tails_have_small_relative_error(n: int, prob: float) -> None:
    with mp.workdps(40):
        for s in outcomes(n, prob):
            exact = exact_cdf(s, n, mp.mpf(prob))
            if exact > 1e-290:
                assert abs(mp.mpf(binomial(n, prob).cdf(s)) / exact - 1) < 1e-10
                assert abs(mp.mpf(binomial(n, 1 - prob).sf(n - s - 1)) / exact - 1) < 2e-10


@pytest.mark.parametrize("n", [1000, 10**6, 10**9])
def test_all_probabilities_that_float64_can_represent_are_kept(n: int) -> None:
    for prob in (0.5, 0.01, 0.999):
        distribution = binomial(n, prob)
        assert distribution.pmf.sum() == pytest.approx(1, abs=1e-11)
        assert distribution.low == 0 or math.exp(float(log_binomial_pmf(distribution.low - 1, n, prob))) == 0
        assert distribution.high == n or math.exp(float(log_binomial_pmf(distribution.high + 1, n, prob))) == 0


@given(st.integers(0, 60), st.floats(0, 1))
def test_exchanging_success_and_failure_mirrors_the_distribution(n: int, prob: float) -> None:
    mirrored = binomial(n, 1 - prob).flipped(n)
    np.testing.assert_allclose(binomial(n, 1 - (1 - prob)).pmf, mirrored.pmf, rtol=1e-12, atol=1e-300)


@given(st.integers(0, 40), st.integers(0, 40), st.floats(0.001, 0.999))
def test_sums_of_binomials_are_binomial(a: int, b: int, prob: float) -> None:
    both = binomial(a, prob).plus(binomial(b, prob))
    np.testing.assert_allclose(both.pmf, binomial(a + b, prob).pmf, rtol=1e-12)


@given(st.integers(1, 2000), st.floats(0.01, 0.99), st.floats(1e-12, 1 - 1e-12))
def test_quantile_is_the_smallest_value_that_reaches_alpha(n: int, prob: float, alpha: float) -> None:
    distribution = binomial(n, prob)
    s = distribution.quantile(alpha)
    assert distribution.cdf(s) >= alpha * (1 - 1e-12)
    assert distribution.cdf(s - 1) < alpha * (1 + 1e-12)


@given(st.integers(1, 500), st.floats(0.01, 0.99), st.integers(-3, 503))
def test_cdf_and_sf_add_up_to_one(n: int, prob: float, s: int) -> None:
    distribution = binomial(n, prob)
    assert distribution.cdf(s) + distribution.sf(s) == pytest.approx(1)


def test_quantile_at_a_step_of_the_cdf() -> None:
    coin = Distribution(5, np.array([0.25, 0.5, 0.25]))
    assert [coin.quantile(alpha) for alpha in (0.1, 0.25, 0.26, 0.75, 0.76)] == [5, 5, 6, 6, 7]


def test_degenerate_distributions() -> None:
    assert binomial(0, 0.3).pmf.tolist() == [1.0]
    for prob, only in ((0.0, 0), (1.0, 5)):
        distribution = binomial(5, prob)
        assert distribution.cdf(only) == 1.0 and distribution.cdf(only - 1) == 0.0
        assert distribution.sf(only) == 0.0 and distribution.sf(only - 1) == 1.0
    assert log_binomial_pmf([-1, 6], 5, 0.5).tolist() == [-math.inf, -math.inf]
    assert support(0.0, 0.0, 3) == (0, 3)


@pytest.mark.parametrize("prob", [-0.1, 1.1, math.nan, math.inf, "0.5", None])
def test_prob_is_checked(prob: float) -> None:
    for call in (lambda: binomial(5, prob), lambda: log_binomial_pmf(1, 5, prob)):
        with pytest.raises(InvalidInput, match=r"^prob must be (a number )?in \[0, 1\], got"):
            call()


def test_other_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^n must be a whole number"):
        binomial(-1, 0.5)
    with pytest.raises(InvalidInput, match=r"^s must consist of whole numbers"):
        log_binomial_pmf([0.5], 5, 0.5)
    with pytest.raises(InvalidInput, match=r"^alpha must be in \(0, 1\)"):
        Distribution(0, np.array([1.0])).quantile(1.0)
    with pytest.raises(InvalidInput, match=r"^pmf must be a non-empty list"):
        Distribution(0, np.array([[1.0]]))
    with pytest.raises(TooLarge):
        binomial(2**52, 0.5)
