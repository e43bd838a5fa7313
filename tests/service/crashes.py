"""Kills in the same process: at a failpoint the shuffler loses its connections, and nothing of it runs any more."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
from tests.service.system import System

from hubbub.service.runtime.database import Database
from hubbub.service.shuffler.core import Shuffler


class Killed(BaseException):
    """The process died."""


def databases(shuffler: Shuffler) -> list[Database]:
    """Return all connections of a shuffler."""
    store = shuffler.store
    return [store.jobs, store._writer, store._reader, shuffler.keyring._database]


def kill(shuffler: Shuffler) -> None:
    """Drop all connections, which rolls back open transactions, and let none be opened again."""

    def dead() -> NoReturn:
        raise Killed

    for database in databases(shuffler):
        database._drop()
        database._connect = dead  # type: ignore[method-assign]


@contextlib.contextmanager
def killed_at(system: System, point: str, visit: int = 1) -> Iterator[list[bool]]:
    """Kill the shuffler when it reaches a failpoint for the given time; the list tells afterwards if it did."""
    left, reached = [visit], [False]
    victim = system.shuffler

    def reach(name: str) -> None:
        if name == point:
            left[0] -= 1
            if not left[0]:
                reached[0] = True
                kill(victim)
                raise Killed

    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("hubbub.service.") and "reach" in vars(module) and not name.endswith("failpoints"):
                patch.setattr(module, "reach", reach)
        try:
            yield reached
        except Killed:
            assert reached[0]


@contextlib.contextmanager
def at_boundary(shuffler: Shuffler, number: int, action: Callable[[], None]) -> Iterator[list[int]]:
    """Run an action right before the numbered transaction of a shuffler begins; the list counts its transactions."""
    count = [0]
    running = [False]

    def wrap(begin: Callable[[], Any]) -> Callable[[], Any]:
        def transaction() -> Any:
            if not running[0]:
                count[0] += 1
                if count[0] == number:
                    running[0] = True
                    action()
                    running[0] = False
            return begin()

        return transaction

    with pytest.MonkeyPatch.context() as patch:
        for database in databases(shuffler):
            patch.setattr(database, "transaction", wrap(database.transaction))
        yield count
