"""The notes' own criterion, bracketed, beside what the same noise really gives."""

import math

import numpy as np
import pytest
from research.notes.formulas.bounds import simple_three_sigma_flip
from research.notes.formulas.divergences import sufficient_tail
from research.notes.formulas.ratios import outlier_ratio_mean, outlier_ratio_variance
from research.notes.formulas.tails import ratio_density, sufficient, sufficient_flip

from hubbub.errors import InvalidInput
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick

LN2 = math.log(2)


@pytest.mark.parametrize(
    ("n", "q", "epsilon", "eta", "forward", "reverse"),
    [
        (1000, 0.2446, LN2, 0.0070676, 5.0234e-4, 1.1062e-4),
        (3000, 0.2109, LN2, 0.0064114, 4.449e-4, 9.22e-5),
        (5000, 0.1778, LN2, 0.0427103, 5.440e-3, 2.265e-3),
        (1000, 0.1692, 2.0, 0.0037065, 7.500e-4, 8.6e-6),
        (5000, 0.1310, 2.0, 0.0086334, 9.833e-4, 7.4e-5),
    ],
)
def test_table_of_003(n: int, q: float, epsilon: float, eta: float, forward: float, reverse: float) -> None:
    """[003 §3.3]: the third row's q is a slip; at ε = ln 2 the δ over all collections is less than twice its own."""
    schema = Schema.bits(5)
    found = sufficient(schema, q, n, epsilon)
    assert found.eta[0] <= eta * (1 + 1e-4)
    assert found.eta[1] >= eta * (1 - 1e-4)
    assert found.eta[1] / found.eta[0] < 1.01
    assert found.delta[1] == pytest.approx(forward, rel=2e-3)
    back = sufficient(schema, q, n, epsilon, (0, 5, 0))
    assert back.delta[1] == pytest.approx(reverse, rel=1e-2)
    assert found.guarantee.delta > forward
    assert (found.guarantee.delta < min(2 * forward, found.eta[0])) == (epsilon == LN2)


@pytest.mark.parametrize("order", [(1, 0, 0), (0, 1, 0)])
def test_single_bits_against_the_exact_law(order: tuple[int, int, int]) -> None:
    n, q, epsilon = 50, 0.2, 0.3
    zero, one = neighbours(n, 0, q)  # all others hold 0
    first, second = (one, zero) if order == (1, 0, 0) else (zero, one)
    found = sufficient(Schema.bits(1), q, n, epsilon, order)
    assert found.eta[0] <= sufficient_tail(first.pmf, second.pmf, epsilon) <= found.eta[1] * (1 + 1e-9)
    assert found.delta[0] <= hockey_stick(first.pmf, second.pmf, epsilon) <= found.delta[1]
    assert found.eta[1] / found.eta[0] < 1.01


def test_a_third_category_fails_sixteen_times_as_often() -> None:
    """Three categories, N = 10⁴, q by the notes' rule at λ = 2: 0.5 %, 3.6 % reversed, 8.2 % with a third category."""
    schema, n = Schema.one_hot(3), 10**4
    q = simple_three_sigma_flip(n, 2, LN2)
    etas = [sufficient(schema, q, n, LN2, kind).eta[1] for kind in ((2, 0, 0), (0, 2, 0), (1, 1, 1))]
    assert etas == pytest.approx([0.005, 0.036, 0.082], rel=0.12)


def test_calibration_by_eta_is_ten_times_too_strict() -> None:
    q, found = sufficient_flip(Schema.bits(5), 1000, LN2, 0.0070676)
    assert q == pytest.approx(0.2446, rel=2e-3)
    assert found.eta[1] <= 0.0070676 * 1.001
    assert 0.0005 < found.guarantee.delta < 0.0007


def test_density_has_the_moments_of_003() -> None:
    n, width, q = 1000, 5, 0.25
    x = np.linspace(0.2, 6.0, 1200)
    f = ratio_density(n, width, q, x)
    step = float(x[1] - x[0])
    mean = float((f * x).sum()) * step
    assert float(f.sum()) * step == pytest.approx(1.0, abs=2e-3)
    assert mean == pytest.approx(outlier_ratio_mean(n, width, q), rel=5e-3)
    assert float((f * (x - mean) ** 2).sum()) * step == pytest.approx(outlier_ratio_variance(n, width, q), rel=0.02)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="background must be one of"):
        sufficient(Schema.one_hot(3), 0.1, 100, 1.0, (3, 0, 0))
    with pytest.raises(InvalidInput, match="eta must be in"):
        sufficient_flip(Schema.bits(2), 100, 1.0, 0.0)
    with pytest.raises(InvalidInput, match="points must be"):
        ratio_density(100, 2, 0.1, [1.0])
