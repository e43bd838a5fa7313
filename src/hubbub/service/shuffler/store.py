"""What the shuffler keeps: sealed slots until they are released, batches until they are delivered, ids of what came.

No sender, no time finer than the epoch, no link between the slots of one bundle: slots are keyed by their own hash.
Every bundle is in exactly one state, and the states are counted in the transactions that change them:
accepted = pool + outbox + committed + expired.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hubbub.service.runtime.database import Database
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.store import Store

_TABLES = (
    """tasks (no BIGINT PRIMARY KEY, task {blob} UNIQUE NOT NULL, contract {blob} NOT NULL, state TEXT NOT NULL,
       epoch BIGINT NOT NULL, key BIGINT NOT NULL, accepted BIGINT NOT NULL, committed BIGINT NOT NULL,
       expired BIGINT NOT NULL)""",
    "pools (task BIGINT, key BIGINT, bundles BIGINT NOT NULL, PRIMARY KEY (task, key)) {clustered}",
    "seen (task BIGINT, id {blob}, PRIMARY KEY (task, id)) {clustered}",
    "slots (task BIGINT, key BIGINT, id {blob}, sealed {blob} NOT NULL, PRIMARY KEY (task, key, id)) {clustered}",
    """batches (id TEXT PRIMARY KEY, task BIGINT NOT NULL, key BIGINT NOT NULL, bundles BIGINT NOT NULL,
       manifest {blob} NOT NULL, receipt {blob}) {clustered}""",
    "outbox (batch TEXT, part BIGINT, data {blob} NOT NULL, PRIMARY KEY (batch, part)) {clustered}",
    "lists (task BIGINT PRIMARY KEY, keys {blob} NOT NULL)",
)
_ASKED = 500
"""Ids in one question to the store."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A bundle out of its envelope: its replay id and its slots, all sealed to one key of the analyzer."""

    task: bytes
    key: int
    replay: bytes
    slots: tuple[bytes, ...]
    opener: int
    """The shuffler's key that opened it."""


@dataclass(frozen=True, slots=True)
class Task:
    """A contract that the shuffler serves, and how far it got."""

    no: int
    task: bytes
    contract: bytes
    state: str
    """``open``; ``closed``, when nothing more is taken and what remained is expired; ``destroyed``."""
    epoch: int
    """That of the last tick, or −1."""
    key: int
    """The analyzer's key that is in use, or 0 before the first list of keys has come."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A released batch; undelivered as long as there is no receipt."""

    id: str
    task: bytes
    bundles: int
    manifest: bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """Where the bundles of a task are."""

    accepted: int
    pool: int
    outbox: int
    committed: int
    expired: int

    @property
    def error(self) -> int:
        """What the law of conservation is off by; anything but 0 is a bug or a damaged store.

        >>> Counts(accepted=10, pool=4, outbox=3, committed=2, expired=1).error
        0
        """
        return self.accepted - self.pool - self.outbox - self.committed - self.expired


class Pool(Store):
    """The shuffler's store. Writing is for one thread; reading goes through a connection of its own."""

    role = "shuffler"
    tables = _TABLES

    def add_task(self, task: bytes, contract: bytes) -> None:
        """Begin to serve a contract; once more is no error."""
        with self._writer.transaction():
            number = self._writer.rows("SELECT COALESCE(MAX(no), 0) + 1 FROM tasks")[0][0]
            self._writer.run(
                "INSERT INTO tasks VALUES (?, ?, ?, 'open', -1, 0, 0, 0, 0) ON CONFLICT (task) DO NOTHING",
                number,
                task,
                contract,
            )

    def tasks(self) -> list[Task]:
        """All tasks."""
        rows = self._reader.rows("SELECT no, task, contract, state, epoch, key FROM tasks ORDER BY no")
        return [Task(no, bytes(task), bytes(contract), *rest) for no, task, contract, *rest in rows]

    def known(self, task: Task, replays: Sequence[bytes]) -> set[bytes]:
        """Those of the replay ids that were accepted before."""
        return self._known(self._reader, "SELECT id FROM seen WHERE task = ? AND id IN", (task.no,), replays)

    @staticmethod
    def _known(database: Database, question: str, where: tuple[int, ...], ids: Sequence[bytes]) -> set[bytes]:
        found: set[bytes] = set()
        for start in range(0, len(ids), _ASKED):
            some = ids[start : start + _ASKED]
            places = ", ".join("?" * len(some))
            found.update(bytes(row[0]) for row in database.rows(f"{question} ({places})", *where, *some))
        return found

    def accept(self, task: Task, bundles: Iterable[Opened]) -> None:
        """Keep those bundles that are new, in the transaction of the caller; see :meth:`transaction`.

        A bundle is not new if its replay id is known, nor if one of its slots waits in the pool: then somebody wrapped
        a slot anew, and counting it would count its sender twice. The analyzer catches those that were released.
        """
        database = self._writer
        fresh = {bundle.replay: bundle for bundle in bundles}
        for replay in self._known(database, "SELECT id FROM seen WHERE task = ? AND id IN", (task.no,), [*fresh]):
            del fresh[replay]
        database.insert("seen", [(task.no, replay) for replay in sorted(fresh)])
        for key in {bundle.key for bundle in fresh.values()}:
            rows, count = self._new_slots(task, key, [one for one in fresh.values() if one.key == key])
            database.insert("slots", rows)
            reach("accept-inserted")
            database.run(
                "INSERT INTO pools VALUES (?, ?, ?) ON CONFLICT (task, key) DO UPDATE SET bundles = pools.bundles + ?",
                task.no,
                key,
                count,
                count,
            )
            database.run("UPDATE tasks SET accepted = accepted + ? WHERE no = ?", count, task.no)

    def _new_slots(
        self, task: Task, key: int, bundles: list[Opened]
    ) -> tuple[list[tuple[int, int, bytes, bytes]], int]:
        named = [{hashlib.sha256(slot).digest()[:16]: slot for slot in bundle.slots} for bundle in bundles]
        question = "SELECT id FROM slots WHERE task = ? AND key = ? AND id IN"
        taken = self._known(self._writer, question, (task.no, key), [name for names in named for name in names])
        rows: list[tuple[int, int, bytes, bytes]] = []
        count = 0
        for bundle, names in zip(bundles, named, strict=True):
            if len(names) < len(bundle.slots) or not taken.isdisjoint(names):
                continue
            taken.update(names)
            rows += [(task.no, key, name, slot) for name, slot in names.items()]
            count += 1
        return sorted(rows), count

    def transaction(self) -> AbstractContextManager[None]:
        """One durable transaction of the writer, for several calls of :meth:`accept`."""
        return self._writer.transaction()

    def pools(self, task: Task) -> list[tuple[int, int]]:
        """The keys of the analyzer under which bundles wait, and how many."""
        rows = self._writer.rows("SELECT key, bundles FROM pools WHERE task = ? AND bundles > 0 ORDER BY key", task.no)
        return [(key, bundles) for key, bundles in rows]

    def release(
        self,
        task: Task,
        key: int,
        min_batch_size: int,
        mix: Callable[[list[bytes], int], tuple[str, bytes, Iterable[bytes]]],
    ) -> str | None:
        """Turn a pool of at least so many bundles into a batch, in one transaction; None if it holds fewer.

        ``mix`` is given the slots and the number of bundles and answers with the id of the batch, its signed manifest
        and its parts.
        """
        with self._writer.transaction():
            row = self._writer.rows("SELECT bundles FROM pools WHERE task = ? AND key = ?", task.no, key)
            bundles = row[0][0] if row else 0
            if bundles < min_batch_size:
                return None
            slots = [
                bytes(sealed)
                for (sealed,) in self._writer.rows(
                    "SELECT sealed FROM slots WHERE task = ? AND key = ? ORDER BY id", task.no, key
                )
            ]
            batch, manifest, parts = mix(slots, bundles)
            del slots
            for place, data in enumerate(parts):
                self._writer.run("INSERT INTO outbox VALUES (?, ?, ?)", batch, place, data)
            self._writer.run("INSERT INTO batches VALUES (?, ?, ?, ?, ?, NULL)", batch, task.no, key, bundles, manifest)
            reach("release-permuted")
            self._writer.run("DELETE FROM slots WHERE task = ? AND key = ?", task.no, key)
            self._writer.run("UPDATE pools SET bundles = 0 WHERE task = ? AND key = ?", task.no, key)
        reach("release-committed")
        self._writer.tidy()
        return batch

    def tick(self, task: Task, epoch: int) -> None:
        """Remember that everything of this epoch's tick is done."""
        self._writer.run("UPDATE tasks SET epoch = ? WHERE no = ?", epoch, task.no)

    def close(self, task: Task, state: str = "closed") -> None:
        """Take nothing more, and destroy what waits in the pools: it is counted as expired.

        The ids of what came stay as long as the task is not ``destroyed``: a repeat keeps its answer.
        """
        with self._writer.transaction():
            expired = sum(bundles for _, bundles in self.pools(task))
            self._writer.run("UPDATE tasks SET state = ?, expired = expired + ? WHERE no = ?", state, expired, task.no)
            self._writer.run("DELETE FROM slots WHERE task = ?", task.no)
            self._writer.run("DELETE FROM pools WHERE task = ?", task.no)
            if state == "destroyed":
                self._writer.run("DELETE FROM seen WHERE task = ?", task.no)
            reach("expire-deleted")
        reach("expire-committed")
        self._writer.tidy()

    def outbox(self) -> list[Batch]:
        """The batches that wait for the analyzer's receipt."""
        rows = self._reader.rows(
            "SELECT b.id, t.task, b.bundles, b.manifest FROM batches b JOIN tasks t ON t.no = b.task "
            "WHERE b.receipt IS NULL ORDER BY b.id"
        )
        return [Batch(name, bytes(task), bundles, bytes(manifest)) for name, task, bundles, manifest in rows]

    def part(self, batch: str, place: int) -> bytes:
        """A part of a batch."""
        return bytes(self._reader.rows("SELECT data FROM outbox WHERE batch = ? AND part = ?", batch, place)[0][0])

    def erase(self, batch: Batch, receipt: bytes) -> None:
        """Keep the receipt, and forget the batch."""
        with self._writer.transaction():
            changed = self._writer.run(
                "UPDATE batches SET receipt = ? WHERE id = ? AND receipt IS NULL", receipt, batch.id
            )
            if changed:
                self._writer.run("DELETE FROM outbox WHERE batch = ?", batch.id)
                self._writer.run("UPDATE tasks SET committed = committed + ? WHERE task = ?", batch.bundles, batch.task)
            reach("deliver-erased")
        reach("deliver-committed")
        self._writer.tidy()

    def keep_list(self, task: Task, keys: bytes, active: int, living: set[int]) -> None:
        """Keep the analyzer's signed list of keys, and use its active key from the moment on that no bundle waits.

        Until then the key before it stays in use: a batch holds slots of one key, as the key would split the crowd.
        What waits for a destroyed key can never be opened: it is expired, or the task would wait with it for ever.
        """
        with self._writer.transaction():
            statement = "INSERT INTO lists VALUES (?, ?) ON CONFLICT (task) DO UPDATE SET keys = ?"
            self._writer.run(statement, task.no, keys, keys)
            for key, bundles in self.pools(task):
                if key not in living:
                    self._writer.run("DELETE FROM slots WHERE task = ? AND key = ?", task.no, key)
                    self._writer.run("DELETE FROM pools WHERE task = ? AND key = ?", task.no, key)
                    self._writer.run("UPDATE tasks SET expired = expired + ? WHERE no = ?", bundles, task.no)
            if not self.pools(task):
                self._writer.run("UPDATE tasks SET key = ? WHERE no = ?", active, task.no)

    def key_list(self, task: Task) -> bytes | None:
        """The list kept last."""
        rows = self._reader.rows("SELECT keys FROM lists WHERE task = ?", task.no)
        return bytes(rows[0][0]) if rows else None

    def counts(self, task: Task, *, slots: int | None = None) -> Counts:
        """Where the bundles of a task are; given the slots of a bundle, those in the pools are counted anew."""
        with self._writer.transaction():
            (sums,) = self._writer.rows("SELECT accepted, committed, expired FROM tasks WHERE no = ?", task.no)
            waiting = sum(bundles for _, bundles in self.pools(task))
            if slots is not None:
                (rows,) = self._writer.rows("SELECT COUNT(*) FROM slots WHERE task = ?", task.no)
                waiting = -1 if rows[0] % slots else rows[0] // slots
            (sent,) = self._writer.rows(
                "SELECT COALESCE(SUM(bundles), 0) FROM batches WHERE task = ? AND receipt IS NULL", task.no
            )
        return Counts(accepted=sums[0], pool=waiting, outbox=int(sent[0]), committed=sums[1], expired=sums[2])
