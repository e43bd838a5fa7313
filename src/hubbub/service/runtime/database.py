"""One small interface to two databases: SQLite, which needs no installation, and PostgreSQL.

Statements use ``?`` and SQL that both understand. A transaction is durable once its block is left; a failure (disk
full, read-only, connection lost) rolls it back and raises :class:`StoreFailure`, and the next use reconnects.
"""

import contextlib
import hashlib
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hubbub.errors import StoreFailure, StoreUnreachable, load_extra, reject

_ROWS = 500
"""Rows per statement."""
_SETUP_LOCK = 0x6875626275620014
"""The number of PostgreSQL's advisory lock; other programs do not use it."""
_FULL = "the disk is full; free space, or move the store to a larger disk, and start again"
_REASONS = {
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR_SHMSIZE": _FULL,
    "53100": _FULL,
    "SQLITE_READONLY": "the disk or the file is read-only; make it writable for the service's user",
    "25006": "the database is read-only; connect to the primary server",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that its folder exists and belongs to the service's user",
    "SQLITE_CORRUPT": "the file is damaged; restore a backup as the run book says",
    "SQLITE_NOTADB": "the file is not a database of SQLite; check the entry 'store'",
}
"""Causes in words, by the names of SQLite and the codes of PostgreSQL."""
PARTITIONS = 8
"""Parts of a partitioned table."""
_PRAGMAS = (
    *("journal_mode = wal", "synchronous = full", "secure_delete = on"),
    *("temp_store = memory", "cache_size = -65536", "journal_size_limit = 0"),
)


class Database(ABC):
    """A connection, opened on first use and dropped after a failure; calls from several threads take turns."""

    failures: tuple[type[Exception], ...] = ()
    unreachable: tuple[type[Exception], ...] = ()
    """Those of the failures that mean that the connection is lost."""
    blob, clustered = "", ""
    """The dialect's type of bytes, and its clause for tables clustered by primary key."""
    for_share, for_update, skip_locked = "", "", ""
    """Clauses that lock the rows of a query for the rest of the transaction; empty where a writer is alone anyway."""

    identity = "''"
    """An SQL expression that identifies the database: a dump that is restored elsewhere has another identity."""
    clock: str | None = None
    """A query for the seconds since 1970 by a clock that all processes share; None where there is only one process."""
    _snapshot = "BEGIN"

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
                kind = StoreUnreachable if isinstance(error, self.unreachable) else StoreFailure
                raise kind(f"the store failed: {_reason(error)}") from error

    def _drop(self) -> None:
        connection, self._open = self._open, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    @abstractmethod
    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Return a context of one transaction, durable once left."""

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Return a context in which all queries see the same state; it keeps nobody from writing."""
        with self._guarded():
            self._connection.execute(self._snapshot)
            try:
                yield
            finally:
                if self._open is not None:
                    self._open.execute("ROLLBACK")

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
        for statement, values in _inserts(table, rows):
            self.run(statement, *values)

    def insert_new(self, table: str, rows: Sequence[Sequence[object]], returning: str) -> list[Any]:
        """Insert the rows whose primary key is not taken yet, and return their values of one column."""
        found: list[Any] = []
        for statement, values in _inserts(table, rows):
            found += (row[0] for row in self.rows(f"{statement} ON CONFLICT DO NOTHING RETURNING {returning}", *values))
        return found

    def create(self, tables: Iterable[str]) -> None:
        """Create tables that do not exist; ``{blob}`` and ``{clustered}`` stand for the dialect's words."""
        for table in tables:
            self.run("CREATE TABLE IF NOT EXISTS " + table.format(blob=self.blob, clustered=self.clustered))

    @contextlib.contextmanager
    def setting_up(self) -> Iterator[None]:
        """Return a context in which no other process creates or migrates tables."""
        yield

    def exclude(self, table: str) -> None:
        """Keep other transactions from changing a table until this one has ended."""
        del table

    def hold(self, names: Iterable[bytes]) -> None:
        """Let other transactions that hold one of the same names wait until this one has ended."""
        del names

    def create_partitioned(self, table: str, column: str) -> None:
        """Create a table that does not exist, partitioned by the hash of a column where the database can do that."""
        del column
        self.create([table])

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Return True if a table exists."""

    @abstractmethod
    def tidy(self, *tables: str) -> None:
        """Make data deleted from some tables, or from all, unreadable now rather than later, as far as possible."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Write a consistent copy while the service runs."""

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()


class _FairLock:
    """A lock that is given in the order of asking; SQLite's own waiting sleeps, and favours threads that ask often."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._owner = 0
        self._depth = 0
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._mutex:
            if self._owner == threading.get_ident():
                self._depth += 1
                return
            if not self._owner:
                self._owner, self._depth = threading.get_ident(), 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()
        self._owner, self._depth = threading.get_ident(), 1

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            self._depth -= 1
            if self._depth:
                return
            # Not free in between: the lock passes to the one that has waited longest.
            self._owner = -1 if self._waiting else 0
            if self._waiting:
                self._waiting.popleft().release()


_file_locks: dict[str, _FairLock] = {}


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
        with self._guarded(), _file_locks.setdefault(self._place, _FairLock()):
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

    def tidy(self, *tables: str) -> None:
        """Move the log into the database file and truncate it."""
        del tables
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
    identity = (
        "(SELECT s.system_identifier || '/' || d.oid FROM pg_control_system() s, pg_database d "
        "WHERE d.datname = current_database())"
    )
    clock = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"
    _snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    for_share, for_update, skip_locked = " FOR SHARE", " FOR UPDATE", " FOR UPDATE SKIP LOCKED"

    def __init__(self, place: str) -> None:
        psycopg = load_extra("psycopg", "postgres", "A PostgreSQL store")
        super().__init__(place)
        self._psycopg = psycopg
        self.failures = (psycopg.Error,)
        self.unreachable = (psycopg.OperationalError, psycopg.InterfaceError)

    def _connect(self) -> Any:
        connection = self._psycopg.connect(self._place, autocommit=True, connect_timeout=10)
        connection.execute("SET synchronous_commit = on")
        # Locks are taken on rows that other transactions have just changed; a snapshot would show the old ones.
        connection.execute("SET default_transaction_isolation = 'read committed'")
        return connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Return a context of one transaction, on the server's disk once left."""
        with self._guarded(), self._connection.transaction():
            yield

    def _execute(self, statement: str, values: Sequence[object]) -> Any:
        return self._connection.execute(statement.replace("?", "%s"), values)

    @contextlib.contextmanager
    def setting_up(self) -> Iterator[None]:
        """Return a context in which this process holds an advisory lock; ``IF NOT EXISTS`` fails in a race."""
        self.rows("SELECT pg_advisory_lock(?)", _SETUP_LOCK)
        try:
            yield
        finally:
            # If the connection was lost, so was the lock.
            with contextlib.suppress(StoreFailure):
                self.rows("SELECT pg_advisory_unlock(?)", _SETUP_LOCK)

    def exclude(self, table: str) -> None:
        """Lock a table against changes, not against reads."""
        self.run(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")

    def hold(self, names: Iterable[bytes]) -> None:
        """Take an advisory lock for each name, in one order, so that two transactions never wait for each other."""
        digests = {hashlib.sha256(name).digest()[:8] for name in names}
        for number in sorted(int.from_bytes(one, "big", signed=True) for one in digests):
            self.rows("SELECT pg_advisory_xact_lock(?)", number)

    def create_partitioned(self, table: str, column: str) -> None:
        """Create a table that does not exist in :data:`PARTITIONS` parts, by the hash of a column."""
        name = table.split(maxsplit=1)[0]
        self.create([f"{table} PARTITION BY HASH ({column})"])
        for part in range(PARTITIONS):
            of = f"PARTITION OF {name} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part})"
            self.run(f"CREATE TABLE IF NOT EXISTS {name}_{part} {of}")

    def has_table(self, name: str) -> bool:
        """Return True if a table exists in the search path."""
        return bool(self.rows("SELECT to_regclass(?) IS NOT NULL", name)[0][0])

    def tidy(self, *tables: str) -> None:
        """Vacuum, so that the space of deleted rows is reused."""
        self.run(f"VACUUM {', '.join(tables)}")

    def backup(self, path: Path) -> None:
        """Raise: PostgreSQL has its own tools."""
        del path
        reject("a backup of a PostgreSQL store", "be made with pg_dump")


def _reason(error: Exception) -> str:
    """Return the cause of a failure in words, or its class; never the database's own message, which may hold data."""
    name = getattr(error, "sqlite_errorname", "") or getattr(error, "sqlstate", "") or ""
    return next((words for code, words in _REASONS.items() if name.startswith(code)), type(error).__name__)


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


def _inserts(table: str, rows: Sequence[Sequence[object]]) -> Iterator[tuple[str, list[object]]]:
    """Yield statements that insert hundreds of rows each, with their values."""
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        row = "(" + ", ".join("?" * len(some[0])) + ")"
        values = [value for one in some for value in one]
        yield f"INSERT INTO {table} VALUES {', '.join([row] * len(some))}", values
