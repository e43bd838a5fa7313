"""Every check accepts its whole domain, in every numeric type, and raises errors of one wording."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from hubbub import errors


@pytest.mark.parametrize("value", [0.0, 0.5, -0.1, 0.7, float("nan"), float("inf"), "0.1", None, True, 1j])
def test_flip_probability_outside(value: object) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^q must be (a number )?in \(0, 1/2\), (got|not) "):
        errors.check_flip(value)


def test_flip_probability_inside() -> None:
    assert errors.check_flip(np.float64(0.25)) == 0.25
    assert errors.check_flip(0, zero=True) == 0.0


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, float("nan")])
def test_whole_outside(value: object) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^n must be a whole number of at least 1, got "):
        errors.check_whole("n", value, 1)


def test_whole_inside() -> None:
    assert errors.check_whole("n", np.int64(7), 1) == 7
    with pytest.raises(errors.InvalidInput, match=r"in \[0, 6\], got 7"):
        errors.check_whole("m", 7, 0, 6)


@pytest.mark.parametrize(
    ("check", "value"),
    [(errors.check_epsilon, -1e-9), (errors.check_epsilon, float("inf")), (errors.check_delta, 0.0)],
)
def test_budget_outside(check: Callable[[object], float], value: float) -> None:
    with pytest.raises(errors.InvalidInput):
        check(value)


def test_tree() -> None:
    assert issubclass(errors.InvalidInput, ValueError)
    classes = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)}
    assert all(issubclass(one, errors.HubbubError) for one in classes)
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    assert {one.__name__ for one in classes} == {"HubbubError", *drawn}


def test_invalid_records_carry_their_number() -> None:
    error = errors.InvalidRecord(1234, "has a label twice")
    assert (error.record, error.problem, str(error)) == (1234, "has a label twice", "record 1,234 has a label twice")
    assert isinstance(error, errors.InvalidInput)
