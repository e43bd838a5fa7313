"""Deadlines of a search: the planner looks at the clock before every certificate, and stops when time is up."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from hubbub.errors import POSITIVE, check_real


class Late(Exception):
    """Raised inside a search whose time is up; it never leaves the planner."""


_CHECK: ContextVar[Callable[[], bool] | None] = ContextVar("check", default=None)


@contextlib.contextmanager
def until(stop: Callable[[], bool] | None) -> Iterator[None]:
    """Stop the search within this block as soon as ``stop`` returns True at one of its certificates.

    A search within another one stops with it as well, and with nothing else if ``stop`` is None.
    """
    outer = _CHECK.get()
    token = _CHECK.set(stop if outer is None else outer if stop is None else lambda: outer() or stop())
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_time() -> None:
    """Raise :class:`Late` if the search around this call is to stop."""
    stop = _CHECK.get()
    if stop is not None and stop():
        raise Late


def deadline_of(deadline: float | None) -> Callable[[], bool] | None:
    """Return a function that tells whether ``deadline`` seconds have passed since now; None without a deadline.

    >>> deadline_of(None) is None, deadline_of(3600.0)()
    (True, False)
    """
    if deadline is None:
        return None
    end = time.monotonic() + check_real("deadline", deadline, POSITIVE)
    return lambda: time.monotonic() >= end
