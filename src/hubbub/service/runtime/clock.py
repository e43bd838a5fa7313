"""Clocks: the services take the time as an argument and never ask the system directly."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Returns the time in seconds since 1970, UTC."""

    def now(self) -> float:
        """Return the seconds since 1970."""

    def monotonic(self) -> float:
        """Return seconds that grow with real time whatever happens to the clock."""


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The system's clock.

    >>> SystemClock().now() > 1.7e9
    True
    """

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that grow with real time whatever happens to the clock."""
        return time.monotonic()


@dataclass(slots=True)
class MockClock:
    """A clock for tests that moves only when told to, in either direction.

    >>> clock = MockClock(100.0)
    >>> clock.advance(5)
    >>> clock.now()
    105.0
    """

    time: float = 0.0
    elapsed: float = 0.0
    """Seconds that have really passed."""

    def now(self) -> float:
        """Return the time that was set."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Let time pass, or set the clock back if ``seconds`` is negative."""
        self.time += seconds
        self.elapsed += max(seconds, 0.0)

    def jump(self, seconds: float) -> None:
        """Change the clock without letting time pass."""
        self.time += seconds

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self.elapsed
