"""The sufficient tail η: golden values, its relation to δ, and what the rules of three deviations leave."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from research.notes.formulas.bounds import three_sigma_bit_flip, three_sigma_copies_flip
from research.notes.formulas.divergences import sufficient_tail

from hubbub.errors import InvalidInput
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick

Array = npt.NDArray[np.float64]
LN2 = math.log(2)
EPSILONS = st.floats(0, 5)


def homogeneous(n: int, q: float, epsilon: float, k: int = 1) -> tuple[float, float]:
    """δ of outlier against homogeneous, and the reverse."""
    zeros, outlier = neighbours(n, 0, q, k)
    return hockey_stick(outlier.pmf, zeros.pmf, epsilon), hockey_stick(zeros.pmf, outlier.pmf, epsilon)


@st.composite
def pairs_of_distributions(draw: st.DrawFn) -> tuple[Array, ...]:
    size = draw(st.integers(2, 12))
    weights = st.lists(st.floats(0, 1), min_size=size, max_size=size).filter(lambda w: sum(w) > 1e-3)
    first, second = np.array(draw(weights)), np.array(draw(weights))
    return first / first.sum(), second / second.sum()


def test_golden_tails_of_the_homogeneous_pair() -> None:
    """[002 §4.3] N = 1000, q = 0.009, λ = 2."""
    zeros, outlier = neighbours(1000, 0, 0.009)
    assert sufficient_tail(outlier.pmf, zeros.pmf, LN2) == pytest.approx(0.00503755532454682454, rel=1e-11)
    assert sufficient_tail(zeros.pmf, outlier.pmf, LN2) == pytest.approx(0.0542046028843270823, rel=1e-11)


def test_three_sigma_rule_leaves_no_protection() -> None:
    """[002 eq 4.45] at λ = e², N = 1000: the exact δ of the reverse order is 0.80."""
    assert homogeneous(1000, three_sigma_bit_flip(1000, 2.0), 2.0)[1] == pytest.approx(0.80, abs=0.005)


@pytest.mark.parametrize(("k", "wanted"), [(1, 1.25e-2), (2, 1.9e-3), (4, 5.6e-4), (8, 2.7e-4), (16, 1.9e-4)])
def test_copies_buy_privacy(k: int, wanted: float) -> None:
    """[002 eq 5.24] λ = 2, N = 1000: δ of the reverse order."""
    q = three_sigma_copies_flip(1000, LN2, k)
    assert homogeneous(1000, q, LN2, k)[1] == pytest.approx(wanted, rel=0.03)


@given(pairs_of_distributions(), EPSILONS)
def test_delta_is_at_most_the_tail(distributions: tuple[Array, ...], epsilon: float) -> None:
    """[004 Prop 2.1] (ε, η)-sufficient privacy implies (ε, η)-privacy."""
    first, second = distributions
    delta, tail = hockey_stick(first, second, epsilon), sufficient_tail(first, second, epsilon)
    assert delta <= tail + 1e-15
    assert tail <= sufficient_tail(first, second, epsilon, strict=False) <= 1 + 1e-12


def test_ratios_of_exactly_lambda_count_only_if_asked() -> None:
    """(1.7) of [003] has >, its readings have ≥; δ does not care."""
    first, second = [0.5, 0.5], [0.25, 0.75]
    assert sufficient_tail(first, second, LN2) == 0.0
    assert sufficient_tail(first, second, LN2, strict=False) == 0.5
    assert hockey_stick(first, second, LN2) == 0.0


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^second must consist of probabilities"):
        sufficient_tail([0.5, 0.5], [-0.5, 1.5], 1.0)
