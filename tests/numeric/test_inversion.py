"""Searches land where the condition holds, next to the boundary."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import Infeasible, InvalidInput
from hubbub.numeric.inversion import compressed, falling_root, gaussian_tail, least_real, least_whole
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


@given(st.floats(1e-6, 10.0), st.floats(1.0, 30.0), st.floats(0.3, 3.0))
def test_gaussian_tails_take_few_evaluations(root: float, deviations: float, off: float) -> None:
    """ln δ of a Gaussian mechanism is inverted to 10⁻⁵ in about seven evaluations, both ends evaluated."""
    goal = -(deviations**2) / 2
    tried: dict[float, float] = {}

    def excess(x: float) -> float:
        tried[x] = -((deviations * x / root) ** 2) / 2 - goal
        return tried[x]

    a, b = falling_root(excess, off * root, 60.0, relative=1e-5, bend=gaussian_tail(goal))
    assert tried[a] > 0 >= tried[b]
    assert b - a <= 1e-5 * b
    assert len(tried) <= 11


@given(st.floats(1e-6, 10.0), st.floats(-3.0, 3.0), st.sampled_from(["step", "cliff", "cubic", "logarithm"]))
def test_any_falling_function_is_bracketed(root: float, off: float, kind: str) -> None:
    def excess(x: float) -> float:
        if kind == "step":
            return 1.0 if x < root else -1.0
        if kind == "cliff":
            return math.inf if x < root else -math.inf
        if kind == "cubic":
            return (root - x) ** 3
        return math.log(root / x) if x > 0 else math.inf

    a, b = falling_root(excess, min(root * 10**off, 60.0), 60.0, relative=1e-5)
    assert excess(a) > 0 >= excess(b)
    assert b - a <= 1e-5 * b


@given(st.floats(-1e3, 1e3) | st.sampled_from([5e-324, -5e-324, math.inf, -math.inf, 0.0]), st.floats(-700, -1e-9))
def test_transformations_keep_the_sign(excess: float, goal: float) -> None:
    """A search that treated a tiny positive excess as zero would certify what does not hold."""
    for bend in (compressed, gaussian_tail(goal)):
        assert math.copysign(1.0, bend(excess)) == math.copysign(1.0, excess) or excess == 0.0
        assert (bend(excess) > 0) == (excess > 0) or abs(excess) < 1e-300
