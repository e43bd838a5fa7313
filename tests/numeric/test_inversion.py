"""Searches land where the condition holds, next to the boundary."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import Infeasible, InvalidInput
from hubbub.numeric.inversion import least_real, least_whole
from hubbub.numeric.rounding import up


@given(st.floats(1e-12, 0.5))
def test_least_real_is_on_the_safe_side(root: float) -> None:
    found = least_real(lambda x: x >= root, 1e-15, 0.5)
    assert root <= found <= root * (1 + 1.1e-9)


@given(st.integers(-100, 10**12))
def test_least_whole_is_exact(root: int) -> None:
    assert least_whole(lambda x: x >= root, -100, 10**12) == root


def test_least_whole_takes_logarithmically_many_evaluations() -> None:
    tried: list[int] = []

    def holds(x: int) -> bool:
        tried.append(x)
        return x >= 1000

    assert least_whole(holds, 0, 10**18) == 1000
    assert len(tried) < 25


def test_infeasible_and_bad_intervals() -> None:
    with pytest.raises(Infeasible):
        least_real(lambda x: False, 0.0, 1.0)
    with pytest.raises(Infeasible):
        least_whole(lambda x: x > 10, 0, 10)
    with pytest.raises(InvalidInput):
        least_real(lambda x: True, 1.0, 0.0)
    with pytest.raises(InvalidInput):
        least_real(lambda x: True, 0.0, math.inf)
    with pytest.raises(InvalidInput):
        least_whole(lambda x: True, 1, 0)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1e-3))
def test_rounding_is_outward(value: float, relative: float) -> None:
    assert value < up(value, relative)
