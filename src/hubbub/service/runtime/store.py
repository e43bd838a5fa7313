"""The base class of both services' stores: tables, schema version, one connection that writes and one that reads.

Every store has one row that names the role and the schema version it was written by. The version is checked when a
service starts, and migrated where a migration exists.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from hubbub.errors import StoreFailure
from hubbub.service.runtime.database import Database

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
