"""The shuffler's store: sealed slots until their release, batches until their delivery, and ids of accepted bundles.

It holds no sender, no time finer than the epoch, and no link between the slots of one bundle: slots are keyed by their
own hash. Every bundle is in exactly one state, and the transactions that move bundles also update the counts:
accepted = pool + outbox + committed + expired.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hubbub.errors import Problem
from hubbub.service.runtime.database import Database
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.store import Store
from hubbub.service.task.sealing import slot_id

_TABLES = (
    """tasks (number BIGINT PRIMARY KEY, id {blob} UNIQUE NOT NULL, contract {blob} NOT NULL, state TEXT NOT NULL,
       last_epoch BIGINT NOT NULL, key_id BIGINT NOT NULL, accepted BIGINT NOT NULL, committed BIGINT NOT NULL,
       expired BIGINT NOT NULL)""",
    "pools (task BIGINT, key_id BIGINT, bundles BIGINT NOT NULL, PRIMARY KEY (task, key_id)) {clustered}",
    "accepted_bundles (task BIGINT, replay_id {blob}, PRIMARY KEY (task, replay_id)) {clustered}",
    "spent_tokens (task BIGINT, token_id {blob}, PRIMARY KEY (task, token_id)) {clustered}",
    """slots (task BIGINT, key_id BIGINT, slot_id {blob}, sealed {blob} NOT NULL,
       PRIMARY KEY (task, key_id, slot_id)) {clustered}""",
    """batches (id TEXT PRIMARY KEY, task BIGINT NOT NULL, key_id BIGINT NOT NULL, bundles BIGINT NOT NULL,
       manifest {blob} NOT NULL, receipt {blob}) {clustered}""",
    "outbox (batch TEXT, chunk BIGINT, data {blob} NOT NULL, PRIMARY KEY (batch, chunk)) {clustered}",
    "key_lists (task BIGINT PRIMARY KEY, document {blob} NOT NULL)",
)
_IDS_PER_QUERY = 500
_ACCEPTED = "SELECT replay_id FROM accepted_bundles WHERE task = ? AND replay_id IN"
_POOLED = "SELECT slot_id FROM slots WHERE task = ? AND key_id = ? AND slot_id IN"
_SlotRow = tuple[int, int, bytes, bytes]


@dataclass(frozen=True, slots=True)
class OpenedBundle:
    """A decrypted bundle: its replay id and its slots, all sealed to the same key of the analyzer."""

    task: bytes
    key_id: int
    replay_id: bytes
    slots: tuple[bytes, ...]
    shuffler_key_id: int
    """The shuffler's key that opened it."""
    token_id: bytes = b""
    """The id under which its admission is spent; empty if admission is open."""
    position: int = 0
    """Its place in the request body, for problem documents."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as stored."""

    number: int
    """The task's key in the other tables."""
    id: bytes
    contract: bytes
    state: str
    """``open``; ``closed``, when uploads are rejected and the pools are expired; or ``destroyed``."""
    last_epoch: int
    """The epoch of the last tick, or −1."""
    key_id: int
    """The analyzer's key in use, or 0 before the first key list has arrived."""


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A shuffled batch that is about to be stored: its id, signed manifest and chunks."""

    id: str
    manifest: bytes
    chunks: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Batch:
    """A released batch that waits for its receipt."""

    id: str
    task: bytes
    bundles: int
    manifest: bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of bundles of a task in each state."""

    accepted: int
    pool: int
    outbox: int
    committed: int
    expired: int

    @property
    def error(self) -> int:
        """Bundles that are unaccounted for; anything but 0 is a bug or a damaged store.

        >>> Counts(accepted=10, pool=4, outbox=3, committed=2, expired=1).error
        0
        """
        return self.accepted - self.pool - self.outbox - self.committed - self.expired


class ShufflerStore(Store):
    """The shuffler's store; a single thread writes, and reads use a separate connection."""

    role = "shuffler"
    version = 3
    tables = _TABLES

    def add_task(self, task: bytes, contract: bytes) -> None:
        """Add a task; idempotent."""
        with self._writer.transaction():
            number = self._writer.rows("SELECT COALESCE(MAX(number), 0) + 1 FROM tasks")[0][0]
            statement = "INSERT INTO tasks VALUES (?, ?, ?, 'open', -1, 0, 0, 0, 0) ON CONFLICT (id) DO NOTHING"
            self._writer.run(statement, number, task, contract)

    def tasks(self) -> list[TaskRow]:
        """Return all tasks."""
        rows = self._reader.rows("SELECT number, id, contract, state, last_epoch, key_id FROM tasks ORDER BY number")
        return [TaskRow(number, bytes(task), bytes(contract), *rest) for number, task, contract, *rest in rows]

    def accepted(self, task: TaskRow, replay_ids: Sequence[bytes]) -> set[bytes]:
        """Return those of the replay ids whose bundles were accepted before."""
        return _select_ids(self._reader, _ACCEPTED, (task.number,), replay_ids)

    def accept(self, task: TaskRow, bundles: Iterable[OpenedBundle]) -> None:
        """Store the new bundles, in the caller's transaction; see :meth:`transaction`.

        A bundle is not new if its replay id is known, or if one of its slots is in the pool: then the slot was sealed
        into a second bundle, and counting it would count its sender twice. The analyzer detects released slots.
        """
        database = self._writer
        fresh = {bundle.replay_id: bundle for bundle in bundles}
        for replay_id in _select_ids(database, _ACCEPTED, (task.number,), [*fresh]):
            del fresh[replay_id]
        self._spend(task, list(fresh.values()))
        database.insert("accepted_bundles", [(task.number, replay_id) for replay_id in sorted(fresh)])
        for key_id in {bundle.key_id for bundle in fresh.values()}:
            rows, count = self._new_slots(task, key_id, [one for one in fresh.values() if one.key_id == key_id])
            database.insert("slots", rows)
            reach("accept-inserted")
            conflict = "ON CONFLICT (task, key_id) DO UPDATE SET bundles = pools.bundles + ?"
            database.run(f"INSERT INTO pools VALUES (?, ?, ?) {conflict}", task.number, key_id, count, count)
            database.run("UPDATE tasks SET accepted = accepted + ? WHERE number = ?", count, task.number)

    def _spend(self, task: TaskRow, bundles: Sequence[OpenedBundle]) -> None:
        """Spend the admissions of new bundles in the caller's transaction; raise a problem if one is spent already."""
        by_id: dict[bytes, OpenedBundle] = {}
        for bundle in bundles:
            if bundle.token_id and by_id.setdefault(bundle.token_id, bundle) is not bundle:
                raise Problem("token-spent", index=bundle.position)
        # In the order of their ids, so that two writers wait for each other rather than deadlock.
        spent = self._writer.insert_new("spent_tokens", "token_id", [(task.number, one) for one in sorted(by_id)])
        for token_id, bundle in by_id.items():
            if token_id not in spent:
                raise Problem("token-spent", index=bundle.position)
        reach("accept-spent")

    def _new_slots(self, task: TaskRow, key_id: int, bundles: list[OpenedBundle]) -> tuple[list[_SlotRow], int]:
        """Return the rows of the bundles whose slots are all new, and the number of these bundles."""
        by_id = [{slot_id(slot): slot for slot in bundle.slots} for bundle in bundles]
        taken = _select_ids(self._writer, _POOLED, (task.number, key_id), [one for slots in by_id for one in slots])
        rows: list[_SlotRow] = []
        count = 0
        for bundle, slots in zip(bundles, by_id, strict=True):
            if len(slots) < len(bundle.slots) or not taken.isdisjoint(slots):
                continue
            taken.update(slots)
            rows += [(task.number, key_id, one, slot) for one, slot in slots.items()]
            count += 1
        return sorted(rows), count

    def transaction(self) -> AbstractContextManager[None]:
        """Return one durable transaction of the writer, for several calls of :meth:`accept`."""
        return self._writer.transaction()

    def pools(self, task: TaskRow) -> list[tuple[int, int]]:
        """Return the ids of the analyzer's keys with waiting bundles, and the numbers of these bundles."""
        query = "SELECT key_id, bundles FROM pools WHERE task = ? AND bundles > 0 ORDER BY key_id"
        return [(key_id, bundles) for key_id, bundles in self._writer.rows(query, task.number)]

    def release(
        self, task: TaskRow, key_id: int, min_batch_size: int, build: Callable[[list[bytes], int], NewBatch]
    ) -> str | None:
        """Build a batch from the slots and the size of a pool, and return its id; None if it is below the minimum."""
        with self._writer.transaction():
            row = self._writer.rows("SELECT bundles FROM pools WHERE task = ? AND key_id = ?", task.number, key_id)
            bundles = row[0][0] if row else 0
            if bundles < min_batch_size:
                return None
            query = "SELECT sealed FROM slots WHERE task = ? AND key_id = ? ORDER BY slot_id"
            batch = build([bytes(sealed) for (sealed,) in self._writer.rows(query, task.number, key_id)], bundles)
            for index, data in enumerate(batch.chunks):
                self._writer.run("INSERT INTO outbox VALUES (?, ?, ?)", batch.id, index, data)
            values = (batch.id, task.number, key_id, bundles, batch.manifest)
            self._writer.run("INSERT INTO batches VALUES (?, ?, ?, ?, ?, NULL)", *values)
            reach("release-permuted")
            self._writer.run("DELETE FROM slots WHERE task = ? AND key_id = ?", task.number, key_id)
            self._writer.run("UPDATE pools SET bundles = 0 WHERE task = ? AND key_id = ?", task.number, key_id)
        reach("release-committed")
        self._writer.tidy()
        return batch.id

    def finish_epoch(self, task: TaskRow, epoch: int) -> None:
        """Record that the tick of this epoch is done."""
        self._writer.run("UPDATE tasks SET last_epoch = ? WHERE number = ?", epoch, task.number)

    def close(self, task: TaskRow, state: str = "closed") -> None:
        """Close a task, and delete its pools, whose bundles count as expired.

        The ids of accepted bundles are kept unless the state is ``destroyed``, so repeats get the same response.
        """
        with self._writer.transaction():
            expired = sum(bundles for _, bundles in self.pools(task))
            statement = "UPDATE tasks SET state = ?, expired = expired + ? WHERE number = ?"
            self._writer.run(statement, state, expired, task.number)
            self._writer.run("DELETE FROM slots WHERE task = ?", task.number)
            self._writer.run("DELETE FROM pools WHERE task = ?", task.number)
            if state == "destroyed":
                self._writer.run("DELETE FROM accepted_bundles WHERE task = ?", task.number)
                self._writer.run("DELETE FROM spent_tokens WHERE task = ?", task.number)
            reach("expire-deleted")
        reach("expire-committed")
        self._writer.tidy()

    def outbox(self) -> list[Batch]:
        """Return the batches that wait for the analyzer's receipt."""
        rows = self._reader.rows(
            "SELECT b.id, t.id, b.bundles, b.manifest FROM batches b JOIN tasks t ON t.number = b.task "
            "WHERE b.receipt IS NULL ORDER BY b.id"
        )
        return [Batch(batch, bytes(task), bundles, bytes(manifest)) for batch, task, bundles, manifest in rows]

    def chunk(self, batch: str, index: int) -> bytes:
        """Return a chunk of a batch."""
        return bytes(self._reader.rows("SELECT data FROM outbox WHERE batch = ? AND chunk = ?", batch, index)[0][0])

    def erase(self, batch: Batch, receipt: bytes) -> None:
        """Store the receipt of a batch, and delete its chunks."""
        with self._writer.transaction():
            statement = "UPDATE batches SET receipt = ? WHERE id = ? AND receipt IS NULL"
            if self._writer.run(statement, receipt, batch.id):
                self._writer.run("DELETE FROM outbox WHERE batch = ?", batch.id)
                self._writer.run("UPDATE tasks SET committed = committed + ? WHERE id = ?", batch.bundles, batch.task)
            reach("deliver-erased")
        reach("deliver-committed")
        self._writer.tidy()

    def store_key_list(self, task: TaskRow, document: bytes, active: int, existing: set[int]) -> None:
        """Store the analyzer's signed key list, and switch to its active key once no bundle is waiting.

        Until then the previous key stays in use: a batch holds slots of one key, because two would split the crowd.
        Slots of a destroyed key can never be opened, so they expire; otherwise the task would wait for ever.
        """
        with self._writer.transaction():
            statement = "INSERT INTO key_lists VALUES (?, ?) ON CONFLICT (task) DO UPDATE SET document = ?"
            self._writer.run(statement, task.number, document, document)
            for key_id, bundles in self.pools(task):
                if key_id not in existing:
                    self._writer.run("DELETE FROM slots WHERE task = ? AND key_id = ?", task.number, key_id)
                    self._writer.run("DELETE FROM pools WHERE task = ? AND key_id = ?", task.number, key_id)
                    self._writer.run("UPDATE tasks SET expired = expired + ? WHERE number = ?", bundles, task.number)
            if not self.pools(task):
                self._writer.run("UPDATE tasks SET key_id = ? WHERE number = ?", active, task.number)

    def key_list(self, task: TaskRow) -> bytes | None:
        """Return the key list stored last."""
        rows = self._reader.rows("SELECT document FROM key_lists WHERE task = ?", task.number)
        return bytes(rows[0][0]) if rows else None

    def counts(self, task: TaskRow, *, slots: int | None = None) -> Counts:
        """Return the number of bundles in each state; given the slots per bundle, recount the pools."""
        with self._writer.transaction():
            (sums,) = self._writer.rows("SELECT accepted, committed, expired FROM tasks WHERE number = ?", task.number)
            waiting = sum(bundles for _, bundles in self.pools(task))
            if slots is not None:
                (rows,) = self._writer.rows("SELECT COUNT(*) FROM slots WHERE task = ?", task.number)
                waiting = -1 if rows[0] % slots else rows[0] // slots
            query = "SELECT COALESCE(SUM(bundles), 0) FROM batches WHERE task = ? AND receipt IS NULL"
            (sent,) = self._writer.rows(query, task.number)
        return Counts(accepted=sums[0], pool=waiting, outbox=int(sent[0]), committed=sums[1], expired=sums[2])


def _select_ids(database: Database, query: str, values: tuple[int, ...], ids: Sequence[bytes]) -> set[bytes]:
    """Return those of the ids that a query ending in ``IN`` finds."""
    found: set[bytes] = set()
    for start in range(0, len(ids), _IDS_PER_QUERY):
        some = ids[start : start + _IDS_PER_QUERY]
        places = ", ".join("?" * len(some))
        found.update(bytes(row[0]) for row in database.rows(f"{query} ({places})", *values, *some))
    return found
