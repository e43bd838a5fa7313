"""More than 5 000 settings against the reference distributions, and a fuzz of 10 000."""

import random

import pytest
from tests.accountant.enumeration import fuzz
from tests.accountant.enumeration.checks import Findings, check
from tests.accountant.enumeration.settings import DELTAS, settings

SEEDS = range(100, 105)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_certified_values_and_lower_bounds(seed: int) -> None:
    """Five parts of more than 1 000 settings each; few comparisons may be left undecided, as too expensive in balls."""
    found, rng = Findings(), random.Random(seed)
    for setting in settings(seed, 108, 3e6):
        epsilons = setting.epsilons
        check(found, setting, rng.sample(epsilons, min(6, len(epsilons))), rng.sample(DELTAS, 2))
    print(found.report())
    assert found.settings > 1000
    assert len(found.undecided) <= 0.02 * found.comparisons
    assert not found.violations, found.report()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 210))
def test_fuzz(seed: int) -> None:
    """Ten parts of 1 000 accounts each."""
    found = Findings()
    fuzz.run(found, seed, 1000)
    print(found.report())
    assert not found.violations, found.report()
