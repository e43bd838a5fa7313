"""Moments of the number of set bits that a crowd reports, and the location shift of [000 §6.8]."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from research.notes.formulas.crowd import crowd_mean, crowd_variance

from hubbub.errors import InvalidInput
from hubbub.numeric.crowd import crowd
from hubbub.numeric.distributions import Distribution

Array = npt.NDArray[np.float64]
FLIPS = st.floats(0.01, 0.49)


def dense(distribution: Distribution, n: int) -> Array:
    result = np.zeros(n + 1)
    result[distribution.low : distribution.high + 1] = distribution.pmf
    return result


@given(st.integers(1, 200), st.data(), FLIPS)
def test_moments(n: int, data: st.DataObject, q: float) -> None:
    """[000 §6.8] the mean moves with ones, the variance does not; third cumulant (n − 2·ones)pq(p − q)."""
    ones = data.draw(st.integers(0, n))
    p = 1 - q
    centred = np.arange(n + 1) - crowd_mean(n, ones, q)
    distribution = dense(crowd(n, ones, q), n)
    assert float(distribution @ centred) == pytest.approx(0, abs=1e-10 * n)
    assert float(distribution @ centred**2) == pytest.approx(crowd_variance(n, q), rel=1e-10)
    assert float(distribution @ centred**3) == pytest.approx((n - 2 * ones) * p * q * (p - q), rel=1e-8, abs=1e-8 * n)


def test_location_shift_is_only_approximate() -> None:
    """[000 §6.8] F_n,m(x) ≈ F_n,0(x − m(p−q)), quantified: within 1.12 (p²+q²)/√(npq) by Berry and Esseen."""
    for n in (20, 200, 2000):
        for q in (0.1, 0.3):
            bound = 1.12 * (q * q + (1 - q) ** 2) / math.sqrt(crowd_variance(n, q))
            zero = np.cumsum(dense(crowd(n, 0, q), n))
            for ones in (n // 3, n):
                distribution = np.cumsum(dense(crowd(n, ones, q), n))
                place = np.floor(np.arange(n + 1) - ones * (1 - 2 * q)).astype(int)
                shifted = np.where(place < 0, 0.0, zero[np.maximum(place, 0)])
                assert 0 < np.abs(distribution - shifted).max() < bound


@given(st.integers(1, 100), st.integers(1, 5), st.data(), FLIPS)
def test_copies_are_a_larger_crowd(n: int, k: int, data: st.DataObject, q: float) -> None:
    ones = data.draw(st.integers(0, n))
    assert crowd_mean(n, ones, q, k) == pytest.approx(crowd_mean(k * n, k * ones, q))
    assert crowd_variance(n, q, k) == pytest.approx(crowd_variance(k * n, q))


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^ones must be a whole number in \[0, 5\], got 6"):
        crowd_mean(5, 6, 0.1)
    with pytest.raises(InvalidInput, match=r"^q must be in \(0, 1/2\), got 0.5"):
        crowd_variance(5, 0.5)
