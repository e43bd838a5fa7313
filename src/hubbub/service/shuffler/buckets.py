"""The states of buckets: open, sealed by a release, finally delivered, fenced or expired; one transaction per change.

A release takes the same time for any number of bundles: it gives the open bucket a fixed size and seed, and opens the
next one, which is also when the task changes to the analyzer's newest key. Data of ended buckets is deleted afterwards
in small transactions by :meth:`Buckets.sweep`.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hubbub.errors import StoreFailure
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import Lease, Leases, rest
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.http import log
from hubbub.service.shuffler.blocks import (
    batch_pin,
    bucket_number,
    bucket_prefix,
    bucket_secret,
    seed_check,
    seed_secret,
)
from hubbub.service.shuffler.store import TERMINAL, Bucket, ShufflerStore, TaskRow
from hubbub.service.task.contract import Contract
from hubbub.service.task.identity import SignedDocument, document_format
from hubbub.service.task.keylist import KeyList
from hubbub.service.task.ledger import RoundLedger
from hubbub.service.task.manifest import Gap, batch_id


class Incidents:
    """The number of incidents by name; messages never contain people's data."""

    NAMES = (
        "analyzer-restored",
        "counter-unproven",
        "disk",
        "fenced",
        "key-lost",
        "keys-changed",
        "restored",
        "task-failed",
    )

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(self.NAMES, 0))

    def report(self, name: str, message: str) -> None:
        """Count and log an incident."""
        self.counts[name] += 1
        log.error("%s: %s", name, message)


def next_key(listed: KeyList | None, suite: int, current: int) -> tuple[int, str]:
    """Return the key for a new bucket and the digest of its list; 0 and an empty string if there is none.

    Never an older key than the current one: the analyzer may have been told that nothing waits under it.
    """
    if listed is None:
        return 0, ""
    active = [key.id for key in listed.keys if key.state == "active" and key.suite == suite]
    if active and active[0] < current and (kept := listed.find(current)) is not None and kept.suite == suite:
        active = [current]
    return (active[0], listed.digest) if active else (0, "")


SLICE_SIZE = 1 << 18
"""Bytes that one transaction deletes, so that uploads do not wait for it."""
_SLICE_ROWS = 1000
_SLICE_BLOCKS = 64
_WAITING = "SELECT CAST(COALESCE(SUM(bundles), 0) AS BIGINT) FROM counts WHERE task = ? AND bucket = ?"


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of a task: the bucket that was released, if any, and the number of bundles that expired."""

    released: int | None
    expired: int


class Buckets:
    """Moves buckets from state to state."""

    def __init__(
        self,
        store: ShufflerStore,
        context: ServiceContext,
        credentials: Credentials,
        leases: Leases,
        incidents: Incidents,
    ) -> None:
        self._store, self._database, self._context = store, store.jobs, context
        self._credentials, self._leases, self._incidents = credentials, leases, incidents
        self.ledger = RoundLedger(store.jobs, credentials)

    def add_task(self, contract: Contract, text: bytes, listed: KeyList | None) -> None:
        """Add a task with its first bucket; idempotent.

        If the task was served before by a store that was lost, its buckets go on after those that were opened then.
        """
        first = contract.round_of(contract.epoch_at(self._context.clock.now()))
        with self._database.transaction():
            self._database.exclude("tasks")
            if self._database.rows("SELECT 1 FROM tasks WHERE id = ?", contract.task):
                return
            fence = self._credentials.fence()
            # If no store was ever lost, the secret of a bucket is that of an attempt that did not commit.
            lost = self.last_opened(contract.task) if fence.restores else fence.sealed.get(contract.id, 0)
            bucket = lost + 1
            self._credentials.create(bucket_secret(contract.task, bucket))
            ((number,),) = self._database.rows("SELECT COALESCE(MAX(number), 0) + 1 FROM tasks")
            statement = "INSERT INTO tasks VALUES (?, ?, ?, 'open', ?, -1, ?)"
            self._database.run(statement, number, contract.task, text, bucket, first)
            self._database.run("INSERT INTO totals VALUES (?, 0, 0, 0, 0, 0)", number)
            row = TaskRow(number, contract.task, text, "open", bucket, -1, 0, first)
            self._insert(row, bucket, *self._stated(contract, next_key(listed, contract.suite, 0)))
            if lost:
                self.record_gap(row, Gap(1, lost, 0, "restored"))

    def last_opened(self, task: bytes) -> int:
        """Return the highest bucket of a task that any store with these credentials opened, 0 if there is none.

        Every bucket that was opened has a secret until it ends, and from then on the fence covers it.
        """
        sealed = self._credentials.fence().sealed.get(task.hex(), 0)
        return max([sealed, *map(bucket_number, self._credentials.names(bucket_prefix(task)))])

    def use_keys(self, task: TaskRow, contract: Contract, listed: KeyList) -> bool:
        """Give the open bucket its key if it has none, and return False if the list has no key for it.

        A bucket keeps its key for ever. If the analyzer destroyed that key, which it promises not to, nothing in the
        bucket can be opened, and no client can add to it: its bundles expire, and the next bucket is opened.
        """
        with self._locked(task) as (state, bucket, last_epoch):
            del last_epoch
            current = self._store.bucket(task, bucket)
            if state != "open" or current is None:
                return True
            if current.key_id and listed.find(current.key_id) is not None:
                return True
            key_id, digest = next_key(listed, contract.suite, current.key_id)
            if not key_id:
                return False
            key_id, digest = self._stated(contract, (key_id, digest))
            if not current.key_id:
                statement = "UPDATE buckets SET key_id = ?, key_list = ? WHERE task = ? AND bucket = ?"
                self._database.run(statement, key_id, digest, task.number, bucket)
                return True
            self._credentials.create(bucket_secret(task.id, bucket + 1))
            lost = self._end(task, bucket, "expired")
            self._open(task, bucket + 1, key_id, digest)
        self._incidents.report(
            "key-lost", f"task {contract.id}: the analyzer destroyed a key in use; {lost:,} bundles expired"
        )
        return True

    def release(
        self, task: TaskRow, contract: Contract, listed: KeyList | None, epoch: int, lease: Lease
    ) -> str | None:
        """Seal the open bucket if it has reached the minimum batch size, and return the id of its batch.

        Its round is charged to the ledger; a round beyond the contract's total is never released.
        """
        bucket, waiting = self._store.waiting(task)
        if waiting >= contract.min_batch_size:
            self.ledger.check(contract, task.round)
            self._prepare(task, bucket)
        reach("release-begun")
        sealed = None
        with self._locked(task, lease) as (state, current, _):
            # Uploads may have been added since, never removed; if the bucket has changed, the next tick is soon.
            if state == "open" and current == bucket and waiting >= contract.min_batch_size:
                self._seal(task, contract, listed, bucket, epoch)
                sealed = bucket
            self._database.run("UPDATE tasks SET last_epoch = ? WHERE number = ?", epoch, task.number)
            reach("release-sealed")
        reach("release-committed")
        return None if sealed is None else batch_id(task.id, sealed)

    def close(self, task: TaskRow, contract: Contract, listed: KeyList | None, epoch: int, state: str) -> Closing:
        """End a task: release its open bucket if that has reached the minimum batch size, else expire it."""
        bucket, waiting = self._store.waiting(task)
        if waiting >= contract.min_batch_size:
            self.ledger.check(contract, task.round)
            self._prepare(task, bucket)
        with self._locked(task) as (old, current, _):
            released, expired = None, 0
            if old == "open":
                ((waiting,),) = self._database.rows(_WAITING, task.number, current)
                if waiting >= contract.min_batch_size:
                    if current != bucket or self._credentials.read(seed_secret(task.id, bucket)) is None:
                        raise StoreFailure("the bucket has changed; close the task again")
                    self._seal(task, contract, listed, bucket, epoch)
                    released = bucket
                expired = self._end(task, current + (released is not None), "expired")
            self._database.run("UPDATE tasks SET state = ? WHERE number = ?", state, task.number)
            reach("expire-written")
        reach("expire-committed")
        return Closing(released, expired)

    def turn(
        self, task: TaskRow, contract: Contract, listed: KeyList | None, epoch: int, lease: Lease, *, expire: bool
    ) -> bool:
        """Move the open bucket on to the round of an epoch, and return False if its bundles prevent that.

        All bundles of a bucket are of one round: a person who answers in two rounds must not be twice in a batch. An
        empty bucket changes its round. Bundles below the minimum batch size expire with their round if ``expire``.
        """
        number, (bucket, _) = contract.round_of(epoch), self._store.waiting(task)
        if expire:
            self._credentials.create(bucket_secret(task.id, bucket + 1))
        with self._locked(task, lease) as (state, current, _):
            if state != "open" or current != bucket:
                return True
            ((waiting,),) = self._database.rows(_WAITING, task.number, bucket)
            if not waiting:
                self._database.run("UPDATE tasks SET round = ? WHERE number = ?", number, task.number)
                return True
            if waiting >= contract.min_batch_size or not expire:
                return False
            expired = self._store.bucket(task, bucket)
            self._end(task, bucket, "expired")
            self._open(task, bucket + 1, *self._next_key(contract, listed, expired), number)
            self.record_gap(task, Gap(bucket, bucket, waiting, "expired"))
            reach("turn-written")
        reach("turn-committed")
        return True

    def _prepare(self, task: TaskRow, bucket: int) -> None:
        """Make the secrets of a release before its transaction, which uploads wait for."""
        if self._credentials.fence().sealed.get(task.id.hex(), 0) >= bucket:
            raise StoreFailure(f"bucket {bucket} was sealed before the store was restored")
        self._credentials.create(seed_secret(task.id, bucket))
        self._credentials.create(bucket_secret(task.id, bucket + 1))

    def _seal(self, task: TaskRow, contract: Contract, listed: KeyList | None, bucket: int, epoch: int) -> None:
        """Seal a bucket and open the next one, in the caller's transaction."""
        seed = self._credentials.read(seed_secret(task.id, bucket))
        current = self._store.bucket(task, bucket)
        if seed is None or current is None:
            raise StoreFailure(f"the credential folder has no seed for bucket {bucket}")
        ((number,),) = self._database.rows("SELECT round FROM tasks WHERE number = ?", task.number)
        self.ledger.charge(contract, bucket, number, max(epoch, 0))
        bundles = self._collect(task, bucket)
        columns = "state = 'sealed', bundles = ?, epoch = ?, seed = ?, round = ?"
        values = (bundles, max(epoch, 0), seed_check(seed), number)
        self._database.run(f"UPDATE buckets SET {columns} WHERE task = ? AND bucket = ?", *values, task.number, bucket)
        self._open(task, bucket + 1, *self._next_key(contract, listed, current), contract.round_of(epoch))

    def _next_key(self, contract: Contract, listed: KeyList | None, current: Bucket | None) -> tuple[int, str]:
        """Return the key of the bucket after the current one, and the digest of its list."""
        known = (0, "") if current is None else (current.key_id, current.key_list)
        chosen = self._stated(contract, next_key(listed, contract.suite, known[0]))
        # A key that the analyzer was not told of could be destroyed; the current one cannot, while reports wait.
        return chosen if chosen[0] else known

    def _stated(self, contract: Contract, chosen: tuple[int, str]) -> tuple[int, str]:
        """Return the key if a statement to its analyzer has named it; otherwise 0, until one has."""
        query = "SELECT t.contract, s.keys FROM statements s JOIN tasks t ON t.number = s.task WHERE s.sent = 1"
        for text, keys in self._database.rows(query):
            if str(chosen[0]) in keys.split() and contract.analyzer.hex().encode() in bytes(text):
                return chosen
        return 0, ""

    def _open(self, task: TaskRow, bucket: int, key_id: int, key_list: str, number: int | None = None) -> None:
        """Open a bucket, by default for the same round as the one before, in the caller's transaction."""
        self._insert(task, bucket, key_id, key_list)
        statement = "UPDATE tasks SET bucket = ?, round = COALESCE(?, round) WHERE number = ?"
        self._database.run(statement, bucket, number, task.number)

    def _insert(self, task: TaskRow, bucket: int, key_id: int, key_list: str) -> None:
        statement = "INSERT INTO buckets VALUES (?, ?, 'open', ?, ?, 0, 0, '', NULL, NULL, NULL, 0, 0)"
        self._database.run(statement, task.number, bucket, key_id, key_list)

    def _collect(self, task: TaskRow, bucket: int) -> int:
        """Turn the counts of an open bucket into its final size, and return it."""
        ((bundles,),) = self._database.rows(_WAITING, task.number, bucket)
        self._database.run("DELETE FROM counts WHERE task = ? AND bucket = ?", task.number, bucket)
        self._database.run("UPDATE totals SET accepted = accepted + ? WHERE task = ?", bundles, task.number)
        return int(bundles)

    def _end(self, task: TaskRow, bucket: int, state: str) -> int:
        """End an open bucket as ``expired`` or ``fenced``, and return its bundles, in the caller's transaction."""
        bundles = self._collect(task, bucket)
        statement = "UPDATE buckets SET state = ?, bundles = ? WHERE task = ? AND bucket = ?"
        self._database.run(statement, state, bundles, task.number, bucket)
        self._database.run(f"UPDATE totals SET {state} = {state} + ? WHERE task = ?", bundles, task.number)
        return bundles

    def rewind(self, task: TaskRow, contract: Contract, listed: KeyList | None, first: int, last: int) -> int:
        """Discard an open bucket that was sealed before the store was restored, in the caller's transaction.

        All its bundles were in that sealed bucket: to release them again would strip the fakes. The numbers of all
        buckets that were opened before the restore are left out; the gap is from bucket ``first`` to ``last``.
        """
        bucket, _ = self._store.waiting(task)
        self._credentials.create(bucket_secret(task.id, last + 1))
        current = self._store.bucket(task, bucket)
        bundles = self._end(task, bucket, "fenced")
        chosen = next_key(listed, contract.suite, 0 if current is None else current.key_id)
        self._open(task, last + 1, *self._stated(contract, chosen))
        self.record_gap(task, Gap(first, last, bundles, "restored"))
        return bundles

    def deliver(self, bucket: Bucket, manifest: bytes, receipt: bytes, outcome: str, lease: Lease) -> None:
        """Record the receipt of a bucket, which ends it."""
        with self._database.transaction():
            self._leases.confirm(lease)
            found = self._store.bucket(bucket.task, bucket.number, lock=True)
            if found is not None and found.state not in TERMINAL:
                statement = (
                    "UPDATE buckets SET state = 'delivered', manifest = ?, receipt = ?, outcome = ? "
                    "WHERE task = ? AND bucket = ?"
                )
                self._database.run(statement, manifest, receipt, outcome, bucket.task.number, bucket.number)
                self._count(bucket, outcome)
            reach("deliver-erased")
        reach("deliver-committed")

    def fence(self, bucket: Bucket, lease: Lease) -> None:
        """End a bucket that must not be delivered, because other content was delivered under its number."""
        with self._database.transaction():
            self._leases.confirm(lease)
            found = self._store.bucket(bucket.task, bucket.number, lock=True)
            if found is None or found.state in TERMINAL:
                return
            where = (bucket.task.number, bucket.number)
            self._database.run("UPDATE buckets SET state = 'fenced' WHERE task = ? AND bucket = ?", *where)
            # Gaps that its manifest announced were not read: a later manifest announces them again.
            self._database.run("UPDATE gaps SET announced = 0 WHERE task = ? AND announced = ?", *where)
            self._count(bucket, "fenced")
            self.record_gap(bucket.task, Gap(bucket.number, bucket.number, bucket.bundles, "fenced"))
            reach("fence-written")
        reach("fence-committed")
        self._incidents.report(
            "fenced",
            f"task {bucket.task.id.hex()}: bucket {bucket.number} was fenced; {bucket.bundles:,} bundles discarded",
        )

    def _count(self, bucket: Bucket, state: str) -> None:
        statement = f"UPDATE totals SET {state} = {state} + ? WHERE task = ?"
        self._database.run(statement, bucket.bundles, bucket.task.number)

    def record_gap(self, task: TaskRow, gap: Gap) -> None:
        """Sign and store a gap, in the caller's transaction; a gap that begins with the same bucket is extended.

        The reason is that of the longer one.
        """
        query = "SELECT last, bundles, reason FROM gaps WHERE task = ? AND first = ?"
        for last, bundles, reason in self._database.rows(query, task.number, gap.first):
            longer, why = max((gap.last, gap.reason), (last, reason), key=lambda one: one[0])
            gap = Gap(gap.first, longer, bundles + gap.bundles, why)
        body = {"format": document_format("gap"), "task": task.id.hex(), **gap.to_document()}
        document = SignedDocument.sign(self._context.identity, "gap", body).to_json()
        self._database.run("DELETE FROM gaps WHERE task = ? AND first = ?", task.number, gap.first)
        values = (task.number, gap.first, gap.last, gap.bundles, gap.reason, document)
        self._database.run("INSERT INTO gaps VALUES (?, ?, ?, ?, ?, 0, ?)", *values)

    def sweep(self, tasks: dict[int, TaskRow]) -> None:
        """Erase the secrets of ended buckets, then delete their data in small transactions."""
        for shuffled in self._store.buckets(tasks, "shuffled"):
            for table in ("blocks", "slot_counts"):
                self._delete(shuffled, table, "id")
        query = "SELECT task, bucket FROM buckets WHERE swept = 0 AND state IN ('delivered', 'fenced', 'expired')"
        for task_number, number in self._database.rows(query):
            bucket = self._store.bucket(tasks[task_number], number) if task_number in tasks else None
            if bucket is None:
                continue
            if bucket.state == "expired":
                # It was not shuffled, so the fence does not cover it, and only its secret shows that it was opened.
                self._credentials.raise_fence(sealed={bucket.task.id.hex(): bucket.number})
            # The pin last: while it can be shuffled, the bucket can only leave as the batch that was announced.
            for name in (seed_secret, bucket_secret, batch_pin):
                self._credentials.erase(name(bucket.task.id, bucket.number))
            reach("sweep-erased")
            for table, key in (("blocks", "id"), ("slot_counts", "id"), ("outbox", "chunk")):
                self._delete(bucket, table, key)
            with self._database.transaction():
                names = (f"shuffle {bucket.batch}", f"deliver {bucket.batch}")
                self._database.run("DELETE FROM leases WHERE name IN (?, ?)", *names)
                statement = "UPDATE buckets SET swept = 1 WHERE task = ? AND bucket = ?"
                self._database.run(statement, bucket.task.number, bucket.number)
        for task in tasks.values():
            if task.state == "destroyed":
                self._forget(task)

    def _delete(self, bucket: Bucket, table: str, key: str) -> None:
        where = (bucket.task.number, bucket.number)
        query = f"SELECT {key}, LENGTH(data) FROM {table} WHERE task = ? AND bucket = ? LIMIT {_SLICE_BLOCKS}"
        while rows := self._database.rows(query, *where):
            size = 0
            keys: list[object] = []
            for value, length in rows:
                if keys and size + length > SLICE_SIZE:
                    break
                keys.append(value)
                size += length
            places = ", ".join("?" * len(keys))
            statement = f"DELETE FROM {table} WHERE task = ? AND bucket = ? AND {key} IN ({places})"
            begun = time.monotonic()
            with self._database.transaction():
                self._database.run(statement, *where, *keys)
            reach("sweep-slice")
            rest(begun)

    def _forget(self, task: TaskRow) -> None:
        for table, key in (("accepted_bundles", "replay_id"), ("spent_tokens", "token_id")):
            inner = f"SELECT {key} FROM {table} WHERE task = ? LIMIT {_SLICE_ROWS}"
            statement = f"DELETE FROM {table} WHERE task = ? AND {key} IN ({inner})"
            deleted = 1
            while deleted:
                with self._database.transaction():
                    deleted = self._database.run(statement, task.number, task.number)
                reach("sweep-slice")

    @contextmanager
    def _locked(self, task: TaskRow, lease: Lease | None = None) -> Iterator[tuple[str, int, int]]:
        """Return a transaction that alone changes a task; yield its state, open bucket and last epoch."""
        with self._database.transaction():
            if lease is not None:
                self._leases.confirm(lease)
            query = f"SELECT state, bucket, last_epoch FROM tasks WHERE number = ?{self._database.for_update}"
            ((state, bucket, last_epoch),) = self._database.rows(query, task.number)
            yield state, bucket, last_epoch
