"""The base class of both services' stores: tables, schema version, one connection that writes and one that reads."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from hubbub.service.runtime.database import Database
from hubbub.service.runtime.migrations import prepare


class Store:
    """The persistent state of a service; one thread writes."""

    role: str = ""
    version: int = 1
    tables: tuple[str, ...] = ()
    migrations: Mapping[int, Sequence[str]] = MappingProxyType({})

    def __init__(self, connect: Callable[[], Database]) -> None:
        self._connect = connect
        self._writer, self._reader = connect(), connect()
        try:
            prepare(self._writer, self)
            self._writer.create(["probes (no BIGINT PRIMARY KEY, turn BIGINT NOT NULL)"])
        except BaseException:
            self.shut()
            raise

    def backup(self, path: Path) -> None:
        """Write a consistent copy."""
        # A separate connection: nothing waits while a large store is copied.
        with contextlib.closing(self._connect()) as connection:
            connection.backup(path)

    def writable(self) -> bool:
        """Return True if a transaction that writes succeeds; raise otherwise."""
        with self._writer.transaction():
            self._writer.run("INSERT INTO probes VALUES (1, 0) ON CONFLICT (no) DO UPDATE SET turn = 1 - probes.turn")
        return True

    def shut(self) -> None:
        """Close both connections."""
        self._writer.close()
        self._reader.close()
