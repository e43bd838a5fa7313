"""What time it is, as an argument: the services never ask the machine themselves."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Tells the time in seconds since 1970, UTC."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The clock of the machine.

    >>> SystemClock().now() > 1.7e9
    True
    """

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()


@dataclass(slots=True)
class MockClock:
    """A clock that stands still until it is moved, in either direction.

    >>> clock = MockClock(100.0)
    >>> clock.advance(5)
    >>> clock.now()
    105.0
    """

    time: float = 0.0

    def now(self) -> float:
        """The time that was set."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Move the clock; a negative number moves it back."""
        self.time += seconds
