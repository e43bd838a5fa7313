"""What the tests of packed bits share."""

import tracemalloc
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def peak() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Bytes that a call allocates at its peak, beyond what was there before."""
    tracemalloc.start()

    def measure(work: Callable[[], object]) -> int:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        work()
        return tracemalloc.get_traced_memory()[1] - before

    yield measure
    tracemalloc.stop()
