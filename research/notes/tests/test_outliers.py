"""The law of R(S): the readings of [003 §3.3] set beside the exact truth of the pair."""

import math

import numpy as np
import pytest
from research.notes.formulas.bounds import three_sigma_flip
from research.notes.formulas.divergences import sufficient_tail
from research.notes.formulas.outliers import outlier_pair
from research.notes.formulas.ratios import outlier_ratio_mean, outlier_ratio_values, outlier_ratio_variance

from hubbub.errors import InvalidInput, TooLarge
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick

LN2 = math.log(2)

READINGS = [
    # epsilon, n, printed q, tail at printed q, P_D[R ≤ 1/λ], δ forward, δ reverse, tail at the q of (3.12)
    (LN2, 1000, 0.2446, 0.0070676, 0.0021428, 5.0234e-4, 1.1062e-4, 0.0071209),
    (LN2, 3000, 0.2109, 0.0064114, 0.0020449, 4.449e-4, 9.22e-5, 0.0064508),
    (LN2, 5000, 0.1778, 0.0427103, 0.0321987, 5.440e-3, 2.265e-3, 0.0066475),
    (2.0, 1000, 0.1692, 0.0037065, 1.578e-4, 7.500e-4, 8.6e-6, 0.0037063),
    (2.0, 3000, 0.1424, 0.0067900, 6.64e-4, 9.406e-4, 3.8e-5, 0.0067707),
    (2.0, 5000, 0.1310, 0.0086334, 8.79e-4, 9.833e-4, 7.4e-5, 0.0086462),
]


@pytest.mark.parametrize("reading", READINGS)
def test_golden_readings(reading: tuple[float, int, float, float, float, float, float, float]) -> None:
    """[003 §3.3] L = 5: what the printed q really gives."""
    epsilon, n, q, tail, low, forward, reverse, at_rule = reading
    outlier, homogeneous = outlier_pair(n, 5, q)
    assert sufficient_tail(outlier, homogeneous, epsilon, strict=False) == pytest.approx(tail, rel=4e-5)
    assert sufficient_tail(homogeneous, outlier, epsilon, strict=False) == pytest.approx(low, rel=1e-2)
    assert hockey_stick(outlier, homogeneous, epsilon) == pytest.approx(forward, rel=2e-4)
    assert hockey_stick(homogeneous, outlier, epsilon) == pytest.approx(reverse, rel=1.2e-2)
    rule = outlier_pair(n, 5, three_sigma_flip(n, 5, epsilon))
    assert sufficient_tail(*rule, epsilon, strict=False) == pytest.approx(at_rule, rel=4e-5)


def test_golden_first_reading_to_all_digits() -> None:
    """[003 §3.3] L = 5, N = 1000, q = 0.2446, λ = 2, on a finer grid."""
    outlier, homogeneous = outlier_pair(1000, 5, 0.2446, 2**21)
    assert sufficient_tail(outlier, homogeneous, LN2, strict=False) == pytest.approx(0.0070676, abs=6e-8)
    assert sufficient_tail(homogeneous, outlier, LN2, strict=False) == pytest.approx(0.0021428, abs=1e-7)
    assert hockey_stick(outlier, homogeneous, LN2) == pytest.approx(5.0234e-4, abs=6e-9)
    assert hockey_stick(homogeneous, outlier, LN2) == pytest.approx(1.1062e-4, abs=6e-9)


def test_golden_reading_that_the_notes_give_for_half_the_crowd() -> None:
    """[003 §3.3] N = 10000, q = 0.1778, λ = 2 has the tail that is printed for N = 5000, or nearly."""
    assert sufficient_tail(*outlier_pair(10_000, 5, 0.1778), LN2, strict=False) == pytest.approx(0.0057489, rel=2e-5)


@pytest.mark.parametrize(("n", "q"), [(4, 0.3), (50, 0.2), (1000, 0.05), (300, 0.4)])
def test_single_bits_have_an_exact_law(n: int, q: float) -> None:
    """For L = 1 the pair is that of :func:`neighbours`; the grid errs upwards and by little."""
    zeros, ones = neighbours(n, 0, q)
    outlier, homogeneous = outlier_pair(n, 1, q)
    for epsilon in (0.1, 0.3, LN2):
        for exact, coarse in (
            (hockey_stick(ones.pmf, zeros.pmf, epsilon), hockey_stick(outlier, homogeneous, epsilon)),
            (hockey_stick(zeros.pmf, ones.pmf, epsilon), hockey_stick(homogeneous, outlier, epsilon)),
        ):
            assert exact - 1e-12 <= coarse <= exact * (1 + 1e-3) + 1e-11


def test_a_finer_grid_never_raises_delta() -> None:
    """Splitting atoms is a mean-preserving spread, so a grid twice as fine, which splits less, is below."""
    for reverse in (False, True):
        deltas = []
        for points in (2**13 + 1, 2**14, 2**16, 2**18, 2**20):
            pair = outlier_pair(300, 3, 0.2, points)
            deltas.append(hockey_stick(*(pair[::-1] if reverse else pair), LN2))
        assert deltas[0] > deltas[-1] * (1 + 1e-9)
        assert all(delta >= deltas[-1] * (1 - 1e-7) for delta in deltas)


@pytest.mark.parametrize(("n", "width", "q"), [(1000, 5, 0.2446), (200, 2, 0.1), (1, 4, 0.3)])
def test_moments(n: int, width: int, q: float) -> None:
    """Both laws sum to one, and R has the mean and the variance of [003 §3.1]."""
    outlier, homogeneous = outlier_pair(n, width, q)
    ratio = np.divide(outlier, homogeneous, out=np.zeros_like(outlier), where=homogeneous > 1e-300)
    assert outlier.sum() == pytest.approx(1, abs=1e-10) and homogeneous.sum() == pytest.approx(1, abs=1e-10)
    mean = float(outlier @ ratio)
    assert mean == pytest.approx(outlier_ratio_mean(n, width, q), rel=1e-5)
    assert float(outlier @ (ratio - mean) ** 2) == pytest.approx(outlier_ratio_variance(n, width, q), rel=1e-4)


def test_one_record_is_the_local_case() -> None:
    """N = 1: R takes the values (q/p)^(L − 2l) with the chances of the flipped record."""
    values = outlier_ratio_values(2, 0.25)
    chances = np.array([9, 6, 1]) / 16
    exact = float((chances * np.maximum(values - 2, 0)).sum())
    assert hockey_stick(*outlier_pair(1, 2, 0.25), LN2) == pytest.approx(exact, rel=1e-5)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^points must be enough to resolve the ratio"):
        outlier_pair(10**7, 40, 0.351, 2**16)
    with pytest.raises(InvalidInput, match=r"^points must be a whole number of at least 16"):
        outlier_pair(10, 2, 0.1, 3)
    with pytest.raises(InvalidInput, match=r"^n must be"):
        outlier_pair(0, 2, 0.1)
    with pytest.raises(TooLarge):
        outlier_pair(10, 2, 0.1, 2**40)
