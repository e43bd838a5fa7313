"""The shuffler's store: bundles in open and sealed buckets, batches until their delivery, and ids of accepted bundles.

It holds no sender, no time finer than the epoch, and nothing that opens anything: the slots of a bucket are encrypted
under a secret in the credential folder. Any number of processes may use one PostgreSQL store at once: exactly-once
acceptance rests on the primary key of the accepted bundles, and the bucket of a task is changed only by transactions
that lock its row. Every bundle is in exactly one state, and the transactions that move bundles update the counts:
accepted = open + sealed + outbox + committed + withheld + expired + fenced.
"""

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hubbub.service.runtime.database import LEASE_TABLE, Database, Store, open_database
from hubbub.service.shuffler.blocks import COUNTERS_TABLE, SlotCipher, add_slots, count_people
from hubbub.service.task.keys import KEY_TABLES
from hubbub.service.task.ledger import LEDGER_TABLE
from hubbub.service.task.manifest import batch_id

SHARDS = 1 << 16
"""Numbers from which each process draws the row of its counts: two with the same one wait for each other's commits."""
_TABLES = (
    """tasks (number BIGINT PRIMARY KEY, id {blob} UNIQUE NOT NULL, contract {blob} NOT NULL, state TEXT NOT NULL,
       bucket BIGINT NOT NULL, last_epoch BIGINT NOT NULL, round BIGINT NOT NULL)""",
    """buckets (task BIGINT, bucket BIGINT, state TEXT NOT NULL, key_id BIGINT NOT NULL, key_list TEXT NOT NULL,
       epoch BIGINT NOT NULL, bundles BIGINT NOT NULL, seed TEXT NOT NULL, manifest {blob}, receipt {blob},
       outcome TEXT, swept BIGINT NOT NULL, round BIGINT NOT NULL, PRIMARY KEY (task, bucket)) {clustered}""",
    """blocks (task BIGINT, bucket BIGINT, id {blob}, bundles BIGINT NOT NULL, data {blob} NOT NULL,
       PRIMARY KEY (task, bucket, id)) {clustered}""",
    """counts (task BIGINT, bucket BIGINT, shard BIGINT, bundles BIGINT NOT NULL,
       PRIMARY KEY (task, bucket, shard)) {clustered}""",
    """outbox (task BIGINT, bucket BIGINT, chunk BIGINT, data {blob} NOT NULL,
       PRIMARY KEY (task, bucket, chunk)) {clustered}""",
    """totals (task BIGINT PRIMARY KEY, accepted BIGINT NOT NULL, committed BIGINT NOT NULL, withheld BIGINT NOT NULL,
       expired BIGINT NOT NULL, fenced BIGINT NOT NULL)""",
    """gaps (task BIGINT, first BIGINT, last BIGINT NOT NULL, bundles BIGINT NOT NULL, reason TEXT NOT NULL,
       announced BIGINT NOT NULL, document {blob} NOT NULL, PRIMARY KEY (task, first))""",
    """pins (identity {blob}, key_id BIGINT, suite BIGINT NOT NULL, public {blob} NOT NULL,
       PRIMARY KEY (identity, key_id))""",
    "key_lists (identity {blob} PRIMARY KEY, document {blob} NOT NULL)",
    "statements (task BIGINT PRIMARY KEY, number BIGINT NOT NULL, keys TEXT NOT NULL, sent BIGINT NOT NULL)",
    "life (id BIGINT PRIMARY KEY, beat BIGINT NOT NULL, restores BIGINT NOT NULL, place TEXT NOT NULL)",
    *KEY_TABLES,
    LEASE_TABLE,
    LEDGER_TABLE,
    "tag_pins (task {blob}, key_id BIGINT, public {blob} NOT NULL, PRIMARY KEY (task, key_id))",
    "tag_lists (task {blob} PRIMARY KEY, document {blob} NOT NULL)",
)
_PARTITIONED = (
    ("accepted_bundles (task BIGINT, replay_id {blob}, PRIMARY KEY (task, replay_id)) {clustered}", "replay_id"),
    ("spent_tokens (task BIGINT, token_id {blob}, PRIMARY KEY (task, token_id)) {clustered}", "token_id"),
    COUNTERS_TABLE,
)
_IDS_PER_QUERY = 500
_ACCEPTED = "SELECT replay_id FROM accepted_bundles WHERE task = ? AND replay_id IN"
_SPENT = "SELECT token_id FROM spent_tokens WHERE task = ? AND token_id IN"
_BUCKET = "SELECT bucket, state, key_id, key_list, epoch, round, bundles, seed, manifest FROM buckets WHERE task = ?"
_WAITING = "SELECT CAST(COALESCE(SUM(bundles), 0) AS BIGINT) FROM counts WHERE task = ? AND bucket = ?"
TERMINAL = ("delivered", "fenced", "expired")
"""The states of buckets that need no more work but the deletion of their data."""


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
    """Identifies the admission token that is spent with the bundle; empty if the contract asks for none."""
    position: int = 0
    """The bundle's place in its upload, for problem documents."""
    round: int = 1
    """The round that the bundle is bound to."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as stored, with its open bucket."""

    number: int
    """The task's key in the other tables."""
    id: bytes
    contract: bytes
    state: str
    """``open``; ``closed``, when uploads are rejected; or ``destroyed``, when its replay ids are deleted too."""
    bucket: int
    """The number of the open bucket."""
    last_epoch: int
    """The epoch of the last release, or −1."""
    key_id: int
    """The analyzer's key of the open bucket, or 0 before the first key list has arrived."""
    round: int = 1
    """The round of the open bucket."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket as stored."""

    task: TaskRow
    number: int
    state: str
    """``open``, ``sealed``, ``shuffled``, ``delivered``, ``fenced`` or ``expired``."""
    key_id: int
    key_list: str
    epoch: int
    round: int
    """The round of all its bundles; fixed when it is sealed."""
    bundles: int
    """0 while it is open."""
    seed: str
    """A check value of the seed with which it was sealed."""
    manifest: bytes | None

    @property
    def batch(self) -> str:
        """The id of its batch."""
        return batch_id(self.task.id, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The number of bundles of a task in each state."""

    accepted: int = 0
    open: int = 0
    sealed: int = 0
    outbox: int = 0
    committed: int = 0
    withheld: int = 0
    expired: int = 0
    fenced: int = 0

    @property
    def error(self) -> int:
        """Bundles that are unaccounted for; anything but 0 is a bug or a damaged store.

        >>> Counts(accepted=10, open=4, outbox=3, committed=2, withheld=1).error
        0
        """
        waiting = self.open + self.sealed + self.outbox
        return self.accepted - waiting - self.committed - self.withheld - self.expired - self.fenced


class ShufflerStore(Store):
    """The shuffler's store; one thread accepts bundles, and background work uses the connection ``jobs``."""

    role = "shuffler"
    version = 6
    """Contracts with plans of version 3; those of earlier versions cannot be read any more, and are refused."""
    tables = _TABLES

    def __init__(self, connect: Callable[[], Database], *, shard: int | None = None) -> None:
        self.jobs = connect()
        self._keys: dict[tuple[int, int], int] = {}
        self._shard = secrets.randbelow(SHARDS) if shard is None else shard
        super().__init__(connect)

    @property
    def alone(self) -> bool:
        """True if the database admits a single process."""
        return not self.jobs.skip_locked

    def _prepare(self, database: Database) -> None:
        super()._prepare(database)
        with database.transaction():
            for table, column in _PARTITIONED:
                database.create_partitioned(table, column)
            database.run(f"INSERT INTO life SELECT 1, 0, 0, {database.identity} WHERE NOT EXISTS (SELECT 1 FROM life)")

    def shut(self) -> None:
        """Close all connections."""
        self.jobs.close()
        super().shut()

    def backup(self, path: Path) -> None:
        """Write a consistent copy, which is marked: whenever it is restored, even at once, that is detected."""
        super().backup(path)
        with contextlib.closing(open_database(f"sqlite:{path}")) as copy:
            # The beat of the running store is behind by up to a second; bundles accepted meanwhile are not in the copy.
            copy.run("UPDATE life SET beat = -1")

    def tasks(self) -> list[TaskRow]:
        """Return all tasks."""
        rows = self._reader.rows(
            "SELECT t.number, t.id, t.contract, t.state, t.bucket, t.last_epoch, COALESCE(b.key_id, 0), t.round "
            "FROM tasks t "
            "LEFT JOIN buckets b ON b.task = t.number AND b.bucket = t.bucket ORDER BY t.number"
        )
        return [TaskRow(number, bytes(task), bytes(contract), *rest) for number, task, contract, *rest in rows]

    def transaction(self) -> AbstractContextManager[None]:
        """Return one durable transaction of the connection that accepts bundles."""
        return self._writer.transaction()

    def open_bucket(self, task: TaskRow) -> tuple[str, int, int, int]:
        """Return the task's state, open bucket, its key and its round, fixed until the end of the transaction."""
        database = self._writer
        query = f"SELECT state, bucket, round FROM tasks WHERE number = ?{database.for_share}"
        ((state, bucket, number),) = database.rows(query, task.number)
        key_id = self._keys.get((task.number, bucket), 0)
        if not key_id:
            rows = database.rows("SELECT key_id FROM buckets WHERE task = ? AND bucket = ?", task.number, bucket)
            key_id = rows[0][0] if rows else 0
            if key_id:
                # A bucket keeps its key for ever.
                others = {pair: key for pair, key in self._keys.items() if pair[0] != task.number}
                self._keys = {**others, (task.number, bucket): key_id}
        return state, bucket, key_id, number

    def key_phases(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the phases of the shuffler's keys, which do not change until the end of the transaction."""
        places = ", ".join("?" * len(ids))
        query = f"SELECT id, phase FROM keys WHERE id IN ({places}){self._writer.for_share}"
        return dict(self._writer.rows(query, *ids))

    def accepted(self, task: TaskRow, replay_ids: Sequence[bytes], *, writing: bool = False) -> set[bytes]:
        """Return those of the replay ids whose bundles were accepted before; ``writing``: seen from the transaction."""
        return _among(self._writer if writing else self._reader, _ACCEPTED, task, replay_ids)

    def spent(self, task: TaskRow, token_ids: Sequence[bytes]) -> set[bytes]:
        """Return those of the admission tokens that were spent before, seen from the transaction."""
        return _among(self._writer, _SPENT, task, token_ids)

    def insert_replay_ids(self, task: TaskRow, replay_ids: Sequence[bytes]) -> set[bytes]:
        """Record accepted bundles, and return the replay ids that are new; sorted, so that replicas do not deadlock."""
        rows = [(task.number, replay_id) for replay_id in sorted(replay_ids)]
        return {bytes(one) for one in self._writer.insert_new("accepted_bundles", rows, "replay_id")}

    def insert_tokens(self, task: TaskRow, token_ids: Sequence[bytes]) -> set[bytes]:
        """Record spent admission tokens, and return those that were not spent before."""
        rows = [(task.number, token_id) for token_id in sorted(token_ids)]
        return {bytes(one) for one in self._writer.insert_new("spent_tokens", rows, "token_id")}

    def insert_blocks(self, task: TaskRow, bucket: int, blocks: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Store encrypted blocks (id, bundles, data) of an open bucket, and count their bundles."""
        for block_id, bundles, data in blocks:
            self._writer.run("INSERT INTO blocks VALUES (?, ?, ?, ?, ?)", task.number, bucket, block_id, bundles, data)
        self._count(task, bucket, sum(bundles for _, bundles, _ in blocks))

    def insert_slots(self, task: TaskRow, bucket: int, slots: Sequence[bytes], cipher: SlotCipher) -> None:
        """Count the slots of strings in an open bucket, each of one bundle."""
        add_slots(self._writer, task.number, bucket, self._shard, slots, cipher)
        self._count(task, bucket, len(slots))

    def _count(self, task: TaskRow, bucket: int, count: int) -> None:
        conflict = "ON CONFLICT (task, bucket, shard) DO UPDATE SET bundles = counts.bundles + ?"
        values = (task.number, bucket, self._shard, count, count)
        self._writer.run(f"INSERT INTO counts VALUES (?, ?, ?, ?) {conflict}", *values)

    def waiting(self, task: TaskRow) -> tuple[int, int]:
        """Return the number of the open bucket and of its bundles, as seen by the background work."""
        ((bucket,),) = self.jobs.rows("SELECT bucket FROM tasks WHERE number = ?", task.number)
        return bucket, self.jobs.rows(_WAITING, task.number, bucket)[0][0]

    def buckets(self, tasks: Mapping[int, TaskRow], *states: str) -> list[Bucket]:
        """Return the buckets in these states, ordered by task and number."""
        places = ", ".join("?" * len(states))
        query = _BUCKET.replace("SELECT bucket", "SELECT task, bucket").replace("task = ?", f"state IN ({places})")
        rows = self.jobs.rows(f"{query} ORDER BY task, bucket", *states)
        return [_bucket(tasks[task], rest) for task, *rest in rows if task in tasks]

    def bucket(self, task: TaskRow, number: int, *, lock: bool = False) -> Bucket | None:
        """Return a bucket; ``lock`` keeps others from changing it until the end of the job's transaction."""
        clause = self.jobs.for_update if lock else ""
        rows = self.jobs.rows(f"{_BUCKET} AND bucket = ?{clause}", task.number, number)
        return _bucket(task, rows[0]) if rows else None

    def chunk(self, bucket: Bucket, index: int) -> bytes | None:
        """Return a chunk of a shuffled bucket."""
        query = "SELECT data FROM outbox WHERE task = ? AND bucket = ? AND chunk = ?"
        rows = self.jobs.rows(query, bucket.task.number, bucket.number, index)
        return bytes(rows[0][0]) if rows else None

    def gaps(self, task: TaskRow) -> list[bytes]:
        """Return the signed documents of a task's gaps, ordered by bucket."""
        rows = self._reader.rows("SELECT document FROM gaps WHERE task = ? ORDER BY first", task.number)
        return [bytes(row[0]) for row in rows]

    def key_list(self, identity: bytes) -> bytes | None:
        """Return the analyzer's key list stored last."""
        rows = self._reader.rows("SELECT document FROM key_lists WHERE identity = ?", identity)
        return bytes(rows[0][0]) if rows else None

    def counts(self, task: TaskRow, *, bundle: int = 0) -> Counts:
        """Return the number of bundles in each state; given the bytes of a bundle's slots, recount what is stored."""
        columns = "accepted, committed, withheld, expired, fenced"
        # A connection of its own: recounting takes long, and nothing waits for it.
        with contextlib.closing(self._connect()) as database, database.snapshot():
            ((state, bucket),) = database.rows("SELECT state, bucket FROM tasks WHERE number = ?", task.number)
            ((accepted, *ended),) = database.rows(f"SELECT {columns} FROM totals WHERE task = ?", task.number)
            waiting = database.rows(_WAITING, task.number, bucket)[0][0]
            query = "SELECT state, CAST(SUM(bundles) AS BIGINT) FROM buckets WHERE task = ? GROUP BY state"
            states: dict[str, int] = dict(database.rows(query, task.number))
            sealed = states.get("sealed", 0)
            accepted += waiting
            if bundle:
                waiting, sealed = (
                    min(counted, _recount(database, task, which, bundle))
                    for which, counted in (("open", waiting), ("sealed", sealed))
                )
                if state != "destroyed":
                    query = "SELECT COUNT(*) FROM accepted_bundles WHERE task = ?"
                    accepted = database.rows(query, task.number)[0][0]
        numbers = dict(zip(columns.split(", ")[1:], ended, strict=True))
        outbox = states.get("shuffled", 0)
        return Counts(accepted=accepted, open=waiting, sealed=sealed, outbox=outbox, **numbers)


def _among(database: Database, query: str, task: TaskRow, ids: Sequence[bytes]) -> set[bytes]:
    """Return those of many ids that a query finds."""
    found: set[bytes] = set()
    for start in range(0, len(ids), _IDS_PER_QUERY):
        some = ids[start : start + _IDS_PER_QUERY]
        found.update(
            bytes(row[0]) for row in database.rows(f"{query} ({', '.join('?' * len(some))})", task.number, *some)
        )
    return found


def _recount(database: Database, task: TaskRow, state: str, bundle: int) -> int:
    """Return the number of bundles stored in all buckets in a state; −1 if the sizes of blocks disagree."""
    query = (
        "SELECT CAST(COALESCE(SUM(k.bundles), 0) AS BIGINT), CAST(COALESCE(SUM(LENGTH(k.data) - 16), 0) AS BIGINT) "
        "FROM blocks k JOIN buckets b ON b.task = k.task AND b.bucket = k.bucket "
        "WHERE k.task = ? AND b.state = ? AND k.bundles > 0"
    )
    ((bundles, size),) = database.rows(query, task.number, state)
    # A task has blocks, or counters of strings, of which each person is one bundle.
    return int(bundles) + count_people(database, task.number, state) if size == bundles * bundle else -1


def _bucket(task: TaskRow, row: Sequence[Any]) -> Bucket:
    number, state, key_id, key_list, epoch, in_round, bundles, seed, manifest = row
    document = None if manifest is None else bytes(manifest)
    return Bucket(task, number, state, key_id, key_list, epoch, in_round, bundles, seed, document)
