"""The whole system under random operations on a simulated clock: nothing is lost, nothing is counted twice."""

import pytest
from tests.service.simulation import FAST, Simulation

__all__ = ["FAST"]


@pytest.mark.parametrize("seed", range(16))
def test_short(seed: int) -> None:
    Simulation(seed).run(25)
