"""One small interface to the two stores: SQLite, which needs nothing installed, and PostgreSQL for those who run it.

Statements use ``?`` and what both understand. A transaction is durable when it has left; a failure of the store (disk
full, read-only, connection lost) undoes it, raises :class:`StoreFailure`, and the next use connects anew.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from hubbub.errors import HubbubError, reject

_ROWS = 500
"""Rows of one statement."""


class StoreFailure(HubbubError):
    """The store could not read or write; nothing of the transaction was kept."""


class Database(Protocol):
    """A connection for one thread at a time; uses from several threads take turns."""

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """All or nothing, and durable when left."""

    def run(self, statement: str, *values: object) -> int:
        """Carry out one statement; the number of rows that it changed."""

    def insert(self, table: str, rows: Sequence[Sequence[object]]) -> None:
        """Insert all rows."""

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""

    def create(self, tables: Iterable[str]) -> None:
        """Create tables unless they are there; ``{blob}`` and ``{clustered}`` stand for what the stores call them."""

    def tidy(self) -> None:
        """Make erased data unreadable now and not at some later time, as far as the store can."""

    def backup(self, path: Path) -> None:
        """A consistent copy, where the store has no tools of its own for it."""

    def close(self) -> None:
        """Give the connection back."""


def open_database(url: str) -> Database:
    """The store behind ``sqlite:FILE`` or ``postgresql://…``.

    >>> with open_database("sqlite::memory:").transaction():
    ...     pass
    """
    kind, _, place = url.partition(":")
    if kind == "sqlite" and place:
        return Sqlite(place)
    if kind not in ("postgresql", "postgres"):
        reject("the store", "be sqlite:FILE or postgresql://…", kind)
    return Postgres(url)


class _Shared:
    """What both have: a lock, and a connection that is made when it is needed and dropped when it failed."""

    failures: tuple[type[Exception], ...] = ()

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = threading.RLock()
        self._open: Any = None

    def _connect(self) -> Any:
        raise AssertionError

    @property
    def _connection(self) -> Any:
        if self._open is None:
            self._open = self._connect()
        return self._open

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except self.failures as error:
                self._drop()
                raise StoreFailure(f"the store failed: {type(error).__name__}") from error

    def insert(self, table: str, rows: Sequence[Sequence[object]]) -> None:
        """Insert all rows, hundreds by one statement.

        Python's lock is given back once for each statement: row by row, a busy event loop would make a commit of a
        hundred rows wait a hundred times for its turn.
        """
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            row = "(" + ", ".join("?" * len(some[0])) + ")"
            values = [value for one in some for value in one]
            self.run(f"INSERT INTO {table} VALUES {', '.join([row] * len(some))}", *values)

    def run(self, statement: str, *values: object) -> int:
        """Carry out one statement."""
        raise AssertionError

    def _drop(self) -> None:
        connection, self._open = self._open, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._drop()


class Sqlite(_Shared):
    """SQLite with a write-ahead log, synced at every commit; what is deleted is overwritten.

    Tables are clustered by their primary key, so that what is keyed by a hash lies on the disk in an order that says
    nothing about when it came.
    """

    failures = (sqlite3.Error,)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._place, isolation_level=None, check_same_thread=False, timeout=30)
        for pragma in (
            "journal_mode = wal",
            "synchronous = full",
            "secure_delete = on",
            "temp_store = memory",
            "cache_size = -65536",
            "journal_size_limit = 0",
        ):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; the commit returns after the log was synced."""
        with self._guarded():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._open is not None and self._open.in_transaction:
                    self._open.execute("ROLLBACK")
                raise

    def run(self, statement: str, *values: object) -> int:
        """Carry out one statement."""
        with self._guarded():
            return int(self._connection.execute(statement, values).rowcount)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._guarded():
            return list(self._connection.execute(statement, values))

    def create(self, tables: Iterable[str]) -> None:
        """Create tables unless they are there."""
        with self.transaction():
            for table in tables:
                self.run("CREATE TABLE IF NOT EXISTS " + table.format(blob="BLOB", clustered="WITHOUT ROWID"))

    def tidy(self) -> None:
        """Move the log into the file, whose deleted content is overwritten, and cut it to nothing."""
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def backup(self, path: Path) -> None:
        """A consistent copy, while the service runs."""
        with self._guarded(), contextlib.closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)


class Postgres(_Shared):
    """PostgreSQL through psycopg 3, the extra ``postgres``; commits are synchronous whatever the server's default.

    Its tables are heaps: until a release empties them and a vacuum has run, they lie in the order of arrival.
    """

    def __init__(self, place: str) -> None:
        import psycopg  # noqa: PLC0415 (an extra)

        super().__init__(place)
        self._psycopg = psycopg
        self.failures = (psycopg.Error,)

    def _connect(self) -> Any:
        connection = self._psycopg.connect(self._place, autocommit=True, connect_timeout=10)
        connection.execute("SET synchronous_commit = on")
        return connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on the server's disk when left."""
        with self._guarded(), self._connection.transaction():
            yield

    def run(self, statement: str, *values: object) -> int:
        """Carry out one statement."""
        with self._guarded():
            return int(self._connection.execute(_percent(statement), values).rowcount)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._guarded():
            return list(self._connection.execute(_percent(statement), values))

    def create(self, tables: Iterable[str]) -> None:
        """Create tables unless they are there."""
        with self.transaction():
            for table in tables:
                self.run("CREATE TABLE IF NOT EXISTS " + table.format(blob="BYTEA", clustered=""))

    def tidy(self) -> None:
        """Vacuum, so that the space of deleted rows is used again."""
        self.run("VACUUM")

    def backup(self, path: Path) -> None:
        """Refused: ``pg_dump`` does it better."""
        reject("a backup", "be made by pg_dump where the store is PostgreSQL", str(path.name))


def _percent(statement: str) -> str:
    """The statement with the placeholders of psycopg.

    >>> _percent("SELECT a FROM t WHERE b = ?")
    'SELECT a FROM t WHERE b = %s'
    """
    return statement.replace("?", "%s")


class Store:
    """What a service keeps: one connection that writes, for one thread, and one that reads."""

    tables: tuple[str, ...] = ()

    def __init__(self, connect: Callable[[], Database]) -> None:
        self._connect = connect
        self._writer, self._reader = connect(), connect()
        self._writer.create([*self.tables, "probes (no BIGINT PRIMARY KEY, turn BIGINT NOT NULL)"])

    def backup(self, path: Path) -> None:
        """A consistent copy."""
        # Through a connection of its own: nobody waits until a large store is copied.
        with contextlib.closing(self._connect()) as copied:
            copied.backup(path)

    def writable(self) -> bool:
        """Whether a transaction that writes is taken now; raises otherwise."""
        with self._writer.transaction():
            self._writer.run("INSERT INTO probes VALUES (1, 0) ON CONFLICT (no) DO UPDATE SET turn = 1 - probes.turn")
        return True

    def shut(self) -> None:
        """Give both connections back."""
        self._writer.close()
        self._reader.close()
