"""Estimators: unbiased and with the variance they claim, by enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from research.notes.formulas.estimation import (
    count_estimate,
    count_stderr,
    count_variance,
    joint_estimate,
    joint_variance,
    one_hot_fake,
)
from research.notes.formulas.vectors import outcome_probability, transition_matrix

from hubbub.errors import InvalidInput
from hubbub.numeric.binomial import binomial
from hubbub.numeric.crowd import crowd
from hubbub.numeric.ratios import phi

FLIPS = st.floats(0.01, 0.45)


@given(st.integers(1, 30), st.integers(1, 4), FLIPS, st.floats(0, 1), st.data())
def test_count_is_unbiased_with_its_variance(n: int, k: int, q: float, fake: float, data: st.DataObject) -> None:
    """[002 eq 4.1–4.4, 5.1–5.4; 003 §4; 004 §6] over the law of kN messages and m fakes."""
    ones, m = data.draw(st.integers(0, n)), data.draw(st.integers(0, 20))
    distribution = crowd(n, ones, q, k).plus(binomial(m, fake))
    estimates = count_estimate(np.arange(distribution.low, distribution.high + 1), n, q, k=k, m=m, fake=fake)
    mean = float(distribution.pmf @ estimates)
    variance = count_variance(n, q, k=k, m=m, fake=fake)
    assert mean == pytest.approx(ones, abs=1e-9 * n / (1 - 2 * q))
    assert float(distribution.pmf @ (estimates - mean) ** 2) == pytest.approx(variance, rel=1e-9)
    assert count_stderr(n, q, k=k, m=m, fake=fake) == pytest.approx(math.sqrt(variance))


@given(st.integers(1, 10**6), FLIPS, st.integers(1, 20))
def test_variance_is_that_of_phi(n: int, q: float, k: int) -> None:
    """Var T̂ = N/(k(φ − 1))."""
    assert count_variance(n, q, k=k) == pytest.approx(n / k / (phi(q) - 1), rel=1e-10)


@given(st.integers(1, 20), st.floats(0, 0.49))
def test_one_hot_fakes(width: int, q: float) -> None:
    """[004 §6] v(1 − v) = pq + (p − q)² (1/d)(1 − 1/d): flipped as all others, and (m/d)(1 − 1/d) of their own."""
    v = one_hot_fake(width, q)
    assert v * (1 - v) == pytest.approx(q * (1 - q) + (1 - 2 * q) ** 2 / width * (1 - 1 / width), rel=1e-12)
    total = 100 + 40
    wanted = total * q * (1 - q) / (1 - 2 * q) ** 2 + 40 / width * (1 - 1 / width)
    assert count_variance(100, q, m=40, fake=v) == pytest.approx(wanted, rel=1e-11)


def test_clear_records_among_fakes_have_only_the_noise_of_the_fakes() -> None:
    """[004 §5] q = 0: (m/d)(1 − 1/d), whatever N is."""
    assert count_variance(10**9, 0.0, m=422, fake=one_hot_fake(10, 0.0)) == pytest.approx(42.2 * 0.9)


def test_standard_errors_of_the_notes() -> None:
    """[002 §4.3] 44.7 and 3; [003 §4] 189717 and 15185 are three deviations at L = 40, N = 10⁷."""
    assert count_stderr(1000, 1 / 3) == pytest.approx(44.7214, abs=5e-5)
    assert count_stderr(1000, 0.009) == pytest.approx(3.0412, abs=5e-5)
    assert 3 * count_stderr(10**7, 0.487502603515789656) == pytest.approx(189717, abs=1)
    assert 3 * count_stderr(10**7, 0.350914415601690067) == pytest.approx(15185, abs=1)


@pytest.mark.parametrize(("k", "m"), [(1, 0), (2, 0), (1, 2), (2, 1)])
def test_joint_histogram_by_enumeration(k: int, m: int) -> None:
    """[000 §3] unbiased, with the closed variance: k copies of two records of two bits, and m uniform fakes."""
    q, originals = 0.15, np.array([1, 0, 1, 0])
    messages = [row for row, h in zip(transition_matrix(2, q), originals, strict=True) for _ in range(k * h)]
    messages += [np.full(4, 0.25)] * m
    mean, second = np.zeros(4), np.zeros(4)
    for seen in itertools.product(range(4), repeat=len(messages)):
        chance = math.prod(float(distribution[y]) for distribution, y in zip(messages, seen, strict=True))
        estimate = joint_estimate(np.bincount(seen, minlength=4), q, k=k, m=m)
        mean += chance * estimate
        second += chance * estimate**2
    np.testing.assert_allclose(mean, originals, atol=1e-12)
    np.testing.assert_allclose(joint_variance(originals, q, k=k, m=m), second - mean**2, rtol=1e-11)


@given(st.integers(1, 8), FLIPS, st.integers(0, 2**32 - 1))
def test_joint_histogram_of_one_bit_is_the_count(n: int, q: float, seed: int) -> None:
    ones = seed % (n + 1)
    np.testing.assert_allclose(joint_variance([ones, n - ones], q), count_variance(n, q), rtol=1e-10)
    seen = seed // (n + 1) % (n + 1)
    assert joint_estimate([seen, n - seen], q)[0] == pytest.approx(float(count_estimate(seen, n, q)), abs=1e-9 * n)


def test_joint_variance_is_estimated_without_bias() -> None:
    """Linear in the histogram, so with ĥ in the place of h it has the right mean."""
    q, originals = 0.2, [2, 1, 0, 0]
    mean = np.zeros(4)
    for counts in itertools.product(range(4), repeat=4):
        if sum(counts) == 3:
            mean += outcome_probability(counts, originals, q) * joint_variance(joint_estimate(counts, q), q)
    np.testing.assert_allclose(mean, joint_variance(originals, q), rtol=1e-10)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^q must be in \[0, 1/2\), got 0.5"):
        count_variance(10, 0.5)
    with pytest.raises(InvalidInput, match=r"^n must be a whole number of at least 1"):
        count_estimate([1], 0, 0.1)
    with pytest.raises(InvalidInput, match=r"^counts must be in \[0, 22\]"):
        count_estimate([23], 10, 0.1, k=2, m=2)
    with pytest.raises(InvalidInput, match=r"^counts must be in \[0, 10\]"):
        count_estimate([math.nan], 10, 0.1)
    with pytest.raises(InvalidInput, match=r"^fake must be in \[0, 1\]"):
        count_stderr(10, 0.1, fake=1.5)
    with pytest.raises(InvalidInput, match=r"^k must be"):
        joint_estimate([1, 2], 0.1, k=0)
    with pytest.raises(InvalidInput, match=r"^m must be"):
        joint_variance([1, 2], 0.1, m=-1)
