"""Central errors, measurable shares and guarantees under attack."""

import math

import numpy as np
import pytest

from hubbub.errors import InvalidInput
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import central_stderr, measurable_share, plan_from, under_attack


@pytest.mark.parametrize(
    ("schema", "epsilon", "wanted"),
    [
        (Schema.at_most(1, 100), 1.0, 2.799178),
        (Schema.one_hot(100), 1.0, 0.99**0.5 * 2.799178),
        (Schema.one_hot(2), 0.5, 0.5**0.5 * 5.642077),
        (Schema.bits(13), math.log(2), 13**0.5 * 5.94055992268250811),
        (Schema.bits(13), 1.0, 13**0.5 * 4.22467888932683528),
        (Schema.at_most(20, 50), 2.0, 40**0.5 * 2.2304762711864173),
    ],
    ids=str,
)
def test_golden_central_errors(schema: Schema, epsilon: float, wanted: float) -> None:
    assert central_stderr(schema, Budget(epsilon, 1e-6)) == pytest.approx(wanted, rel=2e-5)


def test_discrete_laplace_by_its_distribution() -> None:
    k = np.arange(-2000, 2001)
    distribution = np.exp(-np.abs(k) * 0.3 / 2)
    sigma = math.sqrt(float(k**2 @ distribution / distribution.sum()))
    assert central_stderr(Schema.at_most(1, 5), Budget(0.3, 0.0)) == pytest.approx(sigma, rel=1e-9)
    error = math.hypot(4 / 5, *[1 / 5] * 4) * sigma  # of one count less the mean of all five
    assert central_stderr(Schema.one_hot(5), Budget(0.3, 0.0)) == pytest.approx(error, rel=1e-9)


def test_epsilon_zero_has_no_pure_mechanism() -> None:
    assert central_stderr(Schema.bits(1), Budget(0.0, 0.0)) == math.inf
    assert math.isfinite(central_stderr(Schema.bits(1), Budget(0.0, 1e-3)))


def test_measurable_share_inverts_the_relative_error() -> None:
    own = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-6)
    share = measurable_share(own, error=0.2, level=0.9)
    assert 1.6449 * own.stderr == pytest.approx(0.2 * share * own.n, rel=1e-4)
    assert measurable_share(own, error=0.1, level=0.9) == pytest.approx(2 * share)
    for bad in ({"error": 0.0}, {"level": 1.0}):
        with pytest.raises(InvalidInput):
            measurable_share(own, **bad)


def test_guarantees_weaken_under_attack() -> None:
    own = plan_from(Schema.one_hot(5), 10_000, Protocol(0.1), delta=1e-6)
    left = [under_attack(own, share).epsilon for share in (1.0, 0.5, 0.1)]
    assert left == sorted(left)
    assert left[0] == pytest.approx(own.guarantee.epsilon, rel=1e-4)
    assert under_attack(own, 1.0, collusion=True).epsilon <= own.guarantee.assumptions.collusion_epsilon
    clear = plan_from(Schema.one_hot(5), 10_000, Protocol(0.0, m=Fakes.laplace(2.0, 25)), delta=1e-6)
    assert under_attack(clear, 0.01).epsilon == pytest.approx(clear.guarantee.epsilon, rel=1e-4)
    assert under_attack(clear, 1.0, collusion=True).epsilon == math.inf
