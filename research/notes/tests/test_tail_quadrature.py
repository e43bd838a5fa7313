"""Tail probabilities contain the exact value; densities have the moments of a sum."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from research.notes.formulas.tail_quadrature import density, tail_probability

from hubbub.accountant.theorems.attacks import background
from hubbub.errors import InvalidInput

shares = st.lists(st.integers(1, 50), min_size=4, max_size=4)


def exact(values: list[float], weights: list[float], n: int) -> Fraction:
    """Return P[S > 0], summed over all choices of the n terms; missing weight is an atom at 0."""
    v = [*map(Fraction, values), Fraction(0)]
    w = [*map(Fraction, weights)]
    w.append(1 - sum(w, start=Fraction(0)))
    return sum(
        (
            math.prod((w[i] for i in chosen), start=Fraction(1))
            for chosen in itertools.product(range(len(v)), repeat=n)
            if sum(v[i] for i in chosen) > 0
        ),
        start=Fraction(0),
    )


def test_nothing_positive() -> None:
    assert tail_probability([-1.0], [1.0], 3).upper == -math.inf


@settings(max_examples=10)
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=3), shares, st.integers(1, 4))
def test_tails(values: list[int], parts: list[int], n: int) -> None:
    weights = [part / (sum(parts) + 1) for part in parts[: len(values)]]
    bracket = tail_probability([float(v) for v in values], weights, n)
    truth = math.log(probability) if (probability := exact([float(v) for v in values], weights, n)) else -math.inf
    assert bracket.lower <= truth + 1e-12
    assert truth <= bracket.upper + 1e-12


@pytest.mark.parametrize(("n", "q", "tail"), [(1000, 0.2446, 0.0070676), (5000, 0.1778, 0.04271)])
def test_tails_of_the_privacy_ratio(n: int, q: float, tail: float) -> None:
    """P[R > 2] of five bits, the outlier present: its own message has the other distribution."""
    values, weights = background((5, 0, 0), q, math.log(2))
    own = weights * (values + 2.0)
    bracket = tail_probability(values, weights, n - 1, extra=own)
    assert math.exp(bracket.lower) == pytest.approx(tail, rel=2e-3)
    assert math.exp(bracket.upper) == pytest.approx(tail, rel=2e-3)
    assert bracket.lower <= bracket.upper


def test_density_of_a_sum_of_coins() -> None:
    x = np.linspace(-40.0, 40.0, 81)
    bracket = density([1.0, -1.0], [0.5, 0.5], 100, x)
    assert bracket == pytest.approx(np.exp(-(x**2) / 202) / math.sqrt(202 * math.pi), abs=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tail_probability([1.0], [1.1], 3),
        lambda: tail_probability([1.0], [0.5], 3, extra=[1.1]),
        lambda: density([1.0], [1.0], 3, [1.0, 0.0]),
        lambda: density([1.0], [1.0], 3, [1.0]),
    ],
)
def test_bad_input(call: object) -> None:
    with pytest.raises(InvalidInput):
        call()  # type: ignore[operator]
