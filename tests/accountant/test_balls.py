"""Ball arithmetic confirms float results, and rejects false claims."""

import math

import numpy as np
import pytest
from tests.accountant.balls import ball_delta, confirmed

from hubbub.accountant import account
from hubbub.accountant.theorems import bit
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import neighbours


@pytest.mark.parametrize(("n", "ones", "q", "epsilon"), [(40, 39, 0.2, 0.5), (40, 10, 0.05, 0.0), (300, 299, 0.3, 0.1)])
def test_balls_are_above_the_exact_value_and_below_the_floats(n: int, ones: int, q: float, epsilon: float) -> None:
    zero, one = neighbours(n, ones, q)
    truth = float(np.maximum(one.pmf - math.exp(epsilon) * zero.pmf, 0.0).sum())
    ball = float(ball_delta(ones, n - 1 - ones, q, epsilon).upper())
    assert truth * (1 - 1e-11) <= ball <= truth * (1 + 1e-9)
    assert ball <= math.exp(bit.log_delta([ones], [n - 1 - ones], q, epsilon)[0])


@pytest.mark.long
@pytest.mark.parametrize(("n", "q"), [(1000, 0.1), (10**6, 0.01), (10**9, 0.01)])
def test_accounts_are_confirmed(n: int, q: float) -> None:
    assert confirmed(n, Protocol(q).q, account(Protocol(q), Schema.bits(1), n, delta=1e-6).epsilon, 1e-6)


def test_false_claims_are_rejected() -> None:
    assert confirmed(1000, 0.1, 0.3775, 1e-6)
    assert not confirmed(1000, 0.1, 0.37, 1e-6)
