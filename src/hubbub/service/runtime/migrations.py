"""Schema versions of the stores: checked when a service starts, migrated where a migration exists.

Every store has one row that names the role and the schema version it was written by.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from hubbub.errors import StoreFailure
from hubbub.service.runtime.database import Database

_VERSION_TABLE = "schema_version (id BIGINT PRIMARY KEY, role TEXT NOT NULL, version BIGINT NOT NULL)"


class Schema(Protocol):
    """The tables of a store, and the way from older versions to them."""

    role: str
    version: int
    tables: tuple[str, ...]
    migrations: Mapping[int, Sequence[str]]
    """Statements that migrate a store from the version in the key to the next one."""


def prepare(database: Database, schema: Schema) -> None:
    """Create the tables of an empty store or migrate an older one; raise :class:`StoreFailure` if it cannot be used."""
    role, version = schema.role, schema.version
    tables = [table.split()[0] for table in schema.tables]
    unversioned = not database.has_table("schema_version") and any(map(database.has_table, tables))
    if unversioned:
        raise StoreFailure(
            f"the {role}'s store has no schema version: an older release or another program wrote it. "
            "Start with an empty store, or run the release of hubbub that wrote it"
        )
    with database.transaction():
        database.create([_VERSION_TABLE])
        rows = database.rows("SELECT role, version FROM schema_version")
        if not rows:
            database.create(schema.tables)
            database.run("INSERT INTO schema_version VALUES (1, ?, ?)", role, version)
            return
        owner, found = rows[0]
        if owner != role:
            raise StoreFailure(f"the store belongs to the {owner}, not to the {role}; check the entry 'store'")
        if found > version or not set(range(found, version)) <= schema.migrations.keys():
            raise StoreFailure(
                f"the {role}'s store has schema version {found}; this release of hubbub supports version {version}. "
                f"Run a release that supports version {found}, or restore a backup of version {version}"
            )
        for step in range(found, version):
            for statement in schema.migrations[step]:
                database.run(statement)
        database.run("UPDATE schema_version SET version = ?", version)
