"""The stored grid of settings is the same everywhere, and a sample of it stays within its time."""

from collections import Counter

import pytest
from benchmarks.grid import SIZE, settings

from hubbub.planner import FAMILIES

GRID = settings()
STORED = (135, 51, 37)
"""Accounts, calibrations and wide whole records of the grid."""


def test_the_grid_is_the_same_everywhere() -> None:
    """The kinds of settings are those that were stored, and no two settings are the same call."""
    assert len(GRID) == SIZE == 300
    assert len({setting.name for setting in GRID}) == SIZE
    kinds = Counter(setting.name.split("(")[0] for setting in GRID)
    # Strings have the closed form of the shuffler's fakes, which the grid has already.
    assert set(kinds) == {"account", "calibrate", *FAMILIES} - {"strings"}
    assert (kinds["account"], kinds["calibrate"], sum(setting.wide for setting in GRID)) == STORED


@pytest.mark.slow
@pytest.mark.parametrize("index", range(0, SIZE, 5))
def test_no_setting_takes_long(index: int) -> None:
    """Two seconds on an idle machine, three times as much on a busy one; wide whole records have their own limits."""
    setting = GRID[index]
    assert setting.seconds() < (15.0 if setting.wide else 6.0), setting.name
