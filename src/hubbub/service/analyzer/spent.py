"""The ids of all slots that were ever counted, in one table per key of the analyzer.

A slot counts only in the transaction that inserts its id: the primary key, not the order of work, keeps a slot from
being counted twice, in one batch, in two, or by two workers at once. A key's table is dropped once the key is
destroyed, because its slots can no longer be opened. Only ids of slots that opened are recorded. Opening binds the
task, so nobody can spoil the slots of one task by sending copies of them under another.
"""

import numpy as np
from numpy.typing import NDArray

from hubbub.service.runtime.database import Database
from hubbub.service.task import sealing

SLOT_ID = np.dtype(f"S{sealing.ID_SIZE}")
"""The digest of a sealed slot. All have the same size, so the trailing zeros that numpy strips cause no ambiguity."""


def table_of(key_id: int) -> str:
    """Return the name of the table of a key.

    >>> table_of(7)
    'spent_slots_7'
    """
    return f"spent_slots_{key_id:d}"


def create(database: Database, key_id: int) -> None:
    """Create the table of a key if it does not exist, inside a transaction that keeps other replicas from doing so."""
    table = f"{table_of(key_id)} (slot_id {{blob}} PRIMARY KEY) {{clustered}}"
    database.create_partitioned(table, "slot_id")


def spend(database: Database, key_id: int, ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Insert ids inside a transaction; return which are new, a repeated id being new at its first place only.

    The ids are inserted in ascending order, so that two transactions with common ids wait for each other in one
    direction only.
    """
    distinct, first = np.unique(ids, return_index=True)
    raw = distinct.tobytes()
    size = sealing.ID_SIZE
    rows = [(raw[start : start + size],) for start in range(0, len(raw), size)]
    inserted = database.insert_new(table_of(key_id), rows, "slot_id") if rows else []
    new = np.zeros(len(ids), np.bool_)
    if len(inserted) == len(rows):
        new[first] = True
    else:
        found = np.frombuffer(b"".join(map(bytes, inserted)), SLOT_ID)
        new[first[np.isin(distinct, found)]] = True
    return new


def drop(database: Database, key_id: int) -> None:
    """Drop the table of a destroyed key."""
    database.run(f"DROP TABLE IF EXISTS {table_of(key_id)}")
