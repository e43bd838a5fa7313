"""Mark everything below this directory as ``notes``; hypothesis runs with the profiles of the other tests."""

from pathlib import Path

import pytest
import tests.conftest  # noqa: F401

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the marker to tests and doctests."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.notes)
