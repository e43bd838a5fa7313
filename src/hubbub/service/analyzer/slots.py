"""The slots of a batch: what each contains, and the ids of all that were ever counted.

There is one table of ids per key of the analyzer. A slot counts only in the transaction that inserts its id: the
primary key, not the order of work, keeps a slot from being counted twice, in one batch, in
two, or by two workers at once. A key's table is dropped once the key is destroyed, because its slots can no longer be
opened. Only ids of slots that opened are recorded. Opening binds the task, so nobody can spoil the slots of one task by
sending copies of them under another.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.overflow import max_messages, min_messages
from hubbub.model.plans import Plan
from hubbub.pipeline.reports import legal_payloads
from hubbub.service.runtime.database import Database
from hubbub.service.runtime.workers import Workers, slot_job
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract

SLOT_ID = np.dtype(f"S{sealing.ID_SIZE}")
"""The digest of a sealed slot. All have the same size, so the trailing zeros that numpy strips cause no ambiguity."""


def table_of(key_id: int) -> str:
    """Return the name of the table of a key.

    >>> table_of(7)
    'spent_slots_7'
    """
    return f"spent_slots_{key_id:d}"


def create_table(database: Database, key_id: int) -> None:
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


def drop_table(database: Database, key_id: int) -> None:
    """Drop the table of a destroyed key."""
    database.run(f"DROP TABLE IF EXISTS {table_of(key_id)}")


class Verdict(IntEnum):
    """The content of a slot; all values from ``cannot_open`` on are rejected: no honest client sends such a slot."""

    report = 0
    filler = 1
    cannot_open = 2
    wrong_key = 3
    bad_version = 4
    bad_kind = 5
    bad_padding = 6
    illegal = 7
    repeated = 8
    missing_report = 9
    """A filler where every client has a message for each of its slots."""


def messages_per_client(plan: Plan) -> int | None:
    """Return the number of messages of an honest client if it is fixed, and then all of its slots are reports."""
    fewest = min_messages(plan)
    return fewest if fewest == max_messages(plan) else None


def open_slots(
    rows: NDArray[np.uint8], contract: Contract, number: int, key_id: int, private: bytes | None, workers: Workers
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the payloads of sealed slots, one per row, and a verdict for each; without a key, none opens.

    ``number`` is the round of their batch: slots of another round do not open.
    """
    size = contract.plan.payload
    verdicts = np.full(len(rows), Verdict.cannot_open, np.uint8)
    if private is None or not len(rows):
        return np.zeros((len(rows), size), np.uint8), verdicts
    data, success = workers.open(slot_job(contract.layout_of(number), key_id, private), rows.tobytes())
    texts = np.frombuffer(data, np.uint8).reshape(len(rows), 2 + size)
    opened = np.frombuffer(success, np.uint8) == 1
    verdicts[opened] = judge(texts[opened], contract.plan)
    named = np.ascontiguousarray(rows[:, :2]).view(">u2")[:, 0]
    verdicts[named != key_id] = Verdict.wrong_key
    return np.ascontiguousarray(texts[:, 2:]), verdicts


def judge(texts: NDArray[np.uint8], plan: Plan) -> NDArray[np.uint8]:
    """Return the verdicts on opened slots by version, kind, padding, and legality of records sent in the clear."""
    version, kind, payloads = texts[:, 0], texts[:, 1], np.ascontiguousarray(texts[:, 2:])
    is_report, is_filler = kind == sealing.REPORT, kind == sealing.FILLER
    empty = Verdict.filler if messages_per_client(plan) is None else Verdict.missing_report
    verdicts = np.where(is_report, np.uint8(Verdict.report), np.uint8(empty))
    verdicts[_illegal_records(payloads, plan) & is_report] = Verdict.illegal
    verdicts[(~legal_payloads(payloads, plan) & is_report) | (payloads.any(axis=1) & is_filler)] = Verdict.bad_padding
    verdicts[~is_report & ~is_filler] = Verdict.bad_kind
    verdicts[version != sealing.VERSION] = Verdict.bad_version
    return verdicts


def _illegal_records(payloads: NDArray[np.uint8], plan: Plan) -> NDArray[np.bool_]:
    """Mark clear records that no client of the plan can send; a flipped record may be any."""
    if not (plan.protocol.clear and plan.protocol.sends_records):
        return np.zeros(len(payloads), np.bool_)
    ones = np.bitwise_count(payloads).sum(axis=1, dtype=np.int64)
    return np.asarray((ones < plan.schema.min_set) | (ones > plan.schema.max_set))


def slot_ids(rows: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Return the ids of sealed slots."""
    return np.frombuffer(b"".join(sealing.slot_id(row.data) for row in rows), SLOT_ID)
