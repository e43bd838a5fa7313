"""The loss of a clear category among uniform fakes: errors as large as those that it allows for."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from hubbub.accountant.theorems import uniform
from hubbub.accountant.theorems.fakes import uniform_bounds
from hubbub.model.protocol import Fakes
from hubbub.numeric import portable

pytestmark = pytest.mark.accountant

Floats = NDArray[np.float64]
USERS, HONEST, CATEGORIES = Fakes.binomial(1, 0.5), 4000, 5


def pairs(side: int) -> tuple[Floats, Floats]:
    return uniform._pairs(USERS, HONEST, CATEGORIES, uniform.COARSE, side)


@pytest.mark.parametrize("part", ["products", "exponentials"])
@pytest.mark.parametrize("side", [-1, 1])
def test_probabilities_that_err_by_what_is_allowed_for_are_bounds(
    part: str, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uniform, "UNIT", 0.0)
    with monkeypatch.context() as exactly:
        exactly.setattr(uniform, "RELATIVE", 0.0)
        exact = pairs(side)[0]
    numbers, factorials, unit = uniform._numbers, uniform._log_factorials, 2.0**-40
    low, weights = numbers(USERS, HONEST, CATEGORIES)
    most = 64 * unit * math.lgamma(low + weights.size + 1.0)

    def lowered(*_: object) -> tuple[int, Floats]:
        return low, weights * (1 - side * 0.9 * 8 * unit * weights.size)

    def logarithms(whole: Floats) -> Floats:
        return factorials(whole) - (side * 0.9999 * most if whole.shape[1] == 1 else 0.0)  # of N alone

    def exponentials(x: Floats) -> Floats:
        return np.asarray(portable.exp(x)) * (1 - side * 0.9 * uniform.RELATIVE)

    if part == "exponentials":
        monkeypatch.setattr(uniform, "portable", SimpleNamespace(exp=exponentials))
    else:
        monkeypatch.setattr(uniform, "UNIT", unit)
        monkeypatch.setattr(uniform, "_numbers", lowered)
        monkeypatch.setattr(uniform, "_log_factorials", logarithms)
    assert (side * (pairs(side)[0] - exact) >= 0).all()


@pytest.mark.parametrize("depth", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_numbers_of_fakes_outside_of_the_window_are_infinite(
    depth: float, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uniform, "DEPTH", depth)
    loss = uniform.user_loss.__wrapped__(Fakes.binomial(1, 0.5), 10, 2, 1e-3)
    assert uniform_bounds(epsilon, 10, 2, share=0.5)[0] <= loss.delta(epsilon)
