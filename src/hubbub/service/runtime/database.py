"""One small interface to two databases: SQLite, which needs no installation, and PostgreSQL.

Statements use ``?`` and SQL that both understand. A transaction is durable once its block is left; a failure (disk
full, read-only, connection lost) rolls it back and raises :class:`StoreFailure`, and the next use reconnects.
"""

import contextlib
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hubbub.errors import StoreFailure, reject

_ROWS = 500
"""Rows per statement."""
_PRAGMAS = (
    *("journal_mode = wal", "synchronous = full", "secure_delete = on"),
    *("temp_store = memory", "cache_size = -65536", "journal_size_limit = 0"),
)


class Database(ABC):
    """A connection, opened on first use and dropped after a failure; calls from several threads take turns."""

    failures: tuple[type[Exception], ...] = ()
    blob, clustered = "", ""
    """The dialect's type of bytes, and its clause for tables clustered by primary key."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = threading.RLock()
        self._open: Any = None

    @abstractmethod
    def _connect(self) -> Any:
        """Open the connection."""

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

    def _drop(self) -> None:
        connection, self._open = self._open, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    @abstractmethod
    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Return a context of one transaction, durable once left."""

    def _execute(self, statement: str, values: Sequence[object]) -> Any:
        return self._connection.execute(statement, values)

    def run(self, statement: str, *values: object) -> int:
        """Execute a statement and return the number of rows it changed."""
        with self._guarded():
            return int(self._execute(statement, values).rowcount)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self._guarded():
            return list(self._execute(statement, values))

    def insert(self, table: str, rows: Sequence[Sequence[object]]) -> None:
        """Insert all rows, hundreds per statement: each statement has to wait for Python's lock."""
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            row = "(" + ", ".join("?" * len(some[0])) + ")"
            values = [value for one in some for value in one]
            self.run(f"INSERT INTO {table} VALUES {', '.join([row] * len(some))}", *values)

    def insert_new(self, table: str, column: str, rows: Sequence[Sequence[object]]) -> set[bytes]:
        """Insert the rows that do not exist, and return their values of one column."""
        found: set[bytes] = set()
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            row = "(" + ", ".join("?" * len(some[0])) + ")"
            values = [value for one in some for value in one]
            places = ", ".join([row] * len(some))
            statement = f"INSERT INTO {table} VALUES {places} ON CONFLICT DO NOTHING RETURNING {column}"
            found.update(bytes(value) for (value,) in self.rows(statement, *values))
        return found

    def create(self, tables: Iterable[str]) -> None:
        """Create tables that do not exist; ``{blob}`` and ``{clustered}`` stand for the dialect's words."""
        for table in tables:
            self.run("CREATE TABLE IF NOT EXISTS " + table.format(blob=self.blob, clustered=self.clustered))

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Return True if a table exists."""

    @abstractmethod
    def tidy(self) -> None:
        """Make deleted data unreadable now rather than later, as far as the database can."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Write a consistent copy while the service runs."""

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()


class Sqlite(Database):
    """SQLite with a write-ahead log that is synced at every commit; deleted data is overwritten.

    Tables are clustered by primary key, so the order of rows keyed by a hash on disk is unrelated to their arrival.
    """

    failures = (sqlite3.Error,)
    blob, clustered = "BLOB", "WITHOUT ROWID"

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._place, isolation_level=None, check_same_thread=False, timeout=30)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Return a context of one transaction; its commit returns after the log was synced."""
        with self._guarded():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._open is not None and self._open.in_transaction:
                    self._open.execute("ROLLBACK")
                raise

    def has_table(self, name: str) -> bool:
        """Return True if a table exists."""
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name))

    def tidy(self) -> None:
        """Move the log into the database file and truncate it."""
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def backup(self, path: Path) -> None:
        """Write a consistent copy while the service runs."""
        with self._guarded(), contextlib.closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)


class Postgres(Database):
    """PostgreSQL through psycopg 3 (the extra ``postgres``); commits are synchronous whatever the server's default.

    Its tables are heaps: rows stay in the order of arrival until a release deletes them and a vacuum has run.
    """

    blob = "BYTEA"

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
        """Return a context of one transaction, on the server's disk once left."""
        with self._guarded(), self._connection.transaction():
            yield

    def _execute(self, statement: str, values: Sequence[object]) -> Any:
        return self._connection.execute(statement.replace("?", "%s"), values)

    def has_table(self, name: str) -> bool:
        """Return True if a table exists in the search path."""
        return bool(self.rows("SELECT to_regclass(?) IS NOT NULL", name)[0][0])

    def tidy(self) -> None:
        """Vacuum, so that the space of deleted rows is reused."""
        self.run("VACUUM")

    def backup(self, path: Path) -> None:
        """Raise: PostgreSQL has its own tools."""
        del path
        reject("a backup of a PostgreSQL store", "be made with pg_dump")


def open_database(url: str) -> Database:
    """Connect to ``sqlite:FILE`` or ``postgresql://…``.

    >>> with open_database("sqlite::memory:").transaction():
    ...     pass
    """
    kind, _, place = url.partition(":")
    if kind == "sqlite" and place:
        return Sqlite(place)
    if kind not in ("postgresql", "postgres"):
        reject("the store", "be sqlite:FILE or postgresql://…", kind)
    return Postgres(url)
