"""Fixtures for the tests of packed bits."""

import tracemalloc
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def peak() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Figure the peak number of bytes that a call allocates."""
    tracemalloc.start()

    def measure(work: Callable[[], object]) -> int:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        work()
        return tracemalloc.get_traced_memory()[1] - before

    yield measure
    tracemalloc.stop()
