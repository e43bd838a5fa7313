"""Clocks: the services take the time as an argument and never ask the system directly."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Returns the time in seconds since 1970, UTC."""

    def now(self) -> float:
        """Return the seconds since 1970."""


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The system's clock.

    >>> SystemClock().now() > 1.7e9
    True
    """

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()


@dataclass(slots=True)
class MockClock:
    """A clock for tests that moves only when told to, in either direction.

    >>> clock = MockClock(100.0)
    >>> clock.advance(5)
    >>> clock.now()
    105.0
    """

    time: float = 0.0

    def now(self) -> float:
        """Return the time that was set."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Move the clock forward, or back if ``seconds`` is negative."""
        self.time += seconds
