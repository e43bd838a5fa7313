"""The stores of the services: SQLite and PostgreSQL behind one interface, versioned tables, leases on jobs.

Statements use ``?`` and SQL that both understand. A transaction is durable once its block is left; a failure (disk
full, read-only, connection lost) rolls it back and raises :class:`StoreFailure`, and the next use reconnects.

:class:`Store` has tables, a connection that writes and one that reads, and one row that names the role and the schema
version it was written by. The version is checked when a service starts, and migrated where a migration exists.

Leases: at most one replica works on a job at a time, and a replica that lost its lease cannot write. A lease ends at a
time of the database's clock, which all replicas share. Safety does not rely on it: each acquisition draws a higher
token, and every transaction of a job confirms the token (:meth:`Leases.confirm`), which also keeps other replicas from
acquiring the lease until the transaction has ended. A replica that was paused, or a clock that jumped, therefore makes
a job fail instead of writing.
"""

import contextlib
import hashlib
import secrets
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hubbub.errors import HubbubError, StoreFailure, StoreUnreachable, load_extra, reject
from hubbub.service.runtime.clock import Clock

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


_VERSION_TABLE = "schema_version (id BIGINT PRIMARY KEY, role TEXT NOT NULL, version BIGINT NOT NULL)"
_PROBE_TABLE = "probes (no BIGINT PRIMARY KEY, turn BIGINT NOT NULL)"


class Store:
    """The persistent state of a service; one thread writes."""

    role: str = ""
    version: int = 1
    tables: tuple[str, ...] = ()
    migrations: Mapping[int, Sequence[str]] = MappingProxyType({})
    """Statements that migrate a store from the version in the key to the next one; new tables need none."""

    def __init__(self, connect: Callable[[], Database]) -> None:
        self._connect = connect
        self._writer, self._reader = connect(), connect()
        try:
            with self._writer.setting_up():
                self._prepare(self._writer)
                self._writer.create([_PROBE_TABLE])
        except BaseException:
            self.shut()
            raise

    def _prepare(self, database: Database) -> None:
        """Create the tables of an empty store or migrate an older one; raise StoreFailure if it cannot be used."""
        role, version = self.role, self.version
        tables = [table.split()[0] for table in self.tables]
        if not database.has_table("schema_version") and any(map(database.has_table, tables)):
            raise StoreFailure(
                f"the {role}'s store has no schema version: an older release or another program wrote it. "
                "Start with an empty store, or run the release of hubbub that wrote it"
            )
        with database.transaction():
            database.create([_VERSION_TABLE])
            rows = database.rows("SELECT role, version FROM schema_version")
            if not rows:
                database.create(self.tables)
                database.run("INSERT INTO schema_version VALUES (1, ?, ?)", role, version)
                return
            owner, found = rows[0]
            if owner != role:
                raise StoreFailure(f"the store belongs to the {owner}, not to the {role}; check the entry 'store'")
            if found > version or not set(range(found, version)) <= self.migrations.keys():
                raise StoreFailure(
                    f"the {role}'s store has schema version {found}; this release of hubbub supports version {version}."
                    f" Run a release that supports version {found} until all tasks have ended, then start this one with"
                    f" an empty store; or restore a backup of version {version}"
                )
            for step in range(found, version):
                for statement in self.migrations[step]:
                    database.run(statement)
            database.create(self.tables)
            database.run("UPDATE schema_version SET version = ?", version)

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


LEASE_TABLE = (
    "leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, token BIGINT NOT NULL, until DOUBLE PRECISION NOT NULL)"
)
LEASE_SECONDS = 30.0
"""Default duration of a lease."""


LONGEST_REST = 0.02
"""Seconds of the longest pause between two steps of a job."""


def rest(begun: float) -> None:
    """Pause a job for as long as its last step took, since ``begun`` by the monotonic clock, up to 20 ms.

    Uploads share the processor, the disk and, on SQLite, the only writer with the jobs of their process. A job may take
    twice as long; an upload must not wait for several steps of it.
    """
    time.sleep(min(time.monotonic() - begun, LONGEST_REST))


class LostLease(HubbubError):
    """Another replica has taken over the job."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a job until another replica acquires a higher token."""

    name: str
    token: int


class Leases:
    """The leases of one replica."""

    def __init__(self, database: Database, clock: Clock, *, seconds: float = LEASE_SECONDS) -> None:
        self._database, self._clock, self._seconds = database, clock, seconds
        self.holder = secrets.token_hex(8)

    def acquire(self, name: str) -> Lease | None:
        """Return a lease for a job, or None if another replica holds it."""
        database = self._database
        with database.transaction():
            now = self._now()
            database.run("INSERT INTO leases VALUES (?, '', 0, 0) ON CONFLICT (name) DO NOTHING", name)
            query = f"SELECT holder, token, until FROM leases WHERE name = ?{database.for_update}"
            rows = database.rows(query, name)
            if not rows:
                # The holder has just completed the job and deleted the lease.
                return None
            ((holder, token, until),) = rows
            # An end further away than any lease lasts was set by a clock that was ahead.
            if holder not in ("", self.holder) and now < until <= now + 2 * self._seconds:
                return None
            statement = "UPDATE leases SET holder = ?, token = ?, until = ? WHERE name = ?"
            database.run(statement, self.holder, token + 1, now + self._seconds, name)
        return Lease(name, token + 1)

    def _now(self) -> float:
        """Return the time of the database; of a file it is that of the machine, on which its only process runs."""
        return self._clock.now() if self._database.clock is None else self._database.rows(self._database.clock)[0][0]

    def confirm(self, lease: Lease) -> None:
        """Extend a lease, inside the transaction that relies on it; raise :class:`LostLease` if it was lost."""
        until = self._now() + self._seconds
        statement = "UPDATE leases SET until = ? WHERE name = ? AND token = ?"
        if self._database.run(statement, until, lease.name, lease.token) != 1:
            raise LostLease(f"another replica has taken over the job {lease.name!r}")

    def complete(self, lease: Lease) -> None:
        """Delete a lease, inside the transaction that completes its job; raise :class:`LostLease` if it was lost.

        For jobs that cannot be done twice anyway: the tokens of a new lease with the same name begin again at 1.
        """
        statement = "DELETE FROM leases WHERE name = ? AND token = ?"
        if self._database.run(statement, lease.name, lease.token) != 1:
            raise LostLease(f"another replica has taken over the job {lease.name!r}")

    def release(self, lease: Lease) -> None:
        """Give a lease back, so that other replicas need not wait for its end."""
        statement = "UPDATE leases SET holder = '', until = 0 WHERE name = ? AND token = ?"
        self._database.run(statement, lease.name, lease.token)
