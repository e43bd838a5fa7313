"""The detection of restored stores: a rewound store must neither release a bucket again nor count a bundle twice.

The credential folder is not part of backups, and its fence only grows. A store was rewound if its beat is behind the
fence, if it was copied from another PostgreSQL database, if its open bucket was sealed before according to the fence or
to a manifest of this shuffler that the analyzer shows, or if the secret of its open bucket is erased. Bundles accepted
between backup and restore are unknown to the store: their replay ids are missing, so all keys that they can be sealed
to are given up, and the loss is named in a signed gap.
"""

from collections.abc import Mapping

from hubbub.errors import FalseClaim, InvalidInput
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import Lease, Leases
from hubbub.service.runtime.failpoints import reach
from hubbub.service.shuffler.blocks import bucket_secret
from hubbub.service.shuffler.buckets import Buckets, Incidents
from hubbub.service.shuffler.delivery import AnalyzerClient
from hubbub.service.shuffler.store import TERMINAL, ShufflerStore
from hubbub.service.shuffler.tasks import ServedTask, TaskRegistry
from hubbub.service.task.contract import Contract
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.manifest import Gap, Manifest, batch_id


class Restores:
    """Compares the store with the fence, and repairs a store that was rewound."""

    def __init__(
        self,
        store: ShufflerStore,
        tasks: TaskRegistry,
        context: ServiceContext,
        credentials: Credentials,
        buckets: Buckets,
        leases: Leases,
        incidents: Incidents,
    ) -> None:
        self._store, self._tasks, self._context, self._credentials = store, tasks, context, credentials
        self._buckets, self._leases, self._incidents = buckets, leases, incidents
        self._counters: dict[bytes, int] = {}
        self._delivered: dict[bytes, int] = {}
        self._unproven: set[bytes] = set()

    def hear(self, task: ServedTask, counter: int, client: AnalyzerClient) -> None:
        """Compare the analyzer's counter of announced buckets with the store.

        A counter that includes the open bucket says that the store was rewound, for which acknowledged reports are
        discarded. The analyzer must prove it by a manifest that this shuffler signed; until then the task is paused.
        """
        before = self._counters.get(task.row.id, 0)
        where = f"task {task.contract.id}: the analyzer's counter of buckets"
        if counter < before:
            self._incidents.report("analyzer-restored", f"{where} went back from {before} to {counter}")
        self._counters[task.row.id] = counter
        self._unproven.discard(task.row.id)
        if counter < self._store.waiting(task.row)[0]:
            return
        document = client.manifest(batch_id(task.row.id, counter))
        # Another process may have released the bucket in the meantime.
        if counter < self._store.waiting(task.row)[0]:
            return
        if document is None or not _signed(document, task.contract, counter):
            self._unproven.add(task.row.id)
            self._incidents.report("counter-unproven", f"{where} includes bucket {counter}, which was never sealed")
            raise FalseClaim(
                "the analyzer's counter includes a bucket that was never sealed, without a manifest as proof"
            )
        self._delivered[task.row.id] = counter

    def paused(self, task: bytes) -> bool:
        """Return True if the analyzer's counter contradicts this store, and neither is proven wrong."""
        return task in self._unproven

    def rewound(self) -> bool:
        """Return True if the store was restored from a backup and not repaired yet."""
        return self._behind() or bool(self._reopened())

    def beat(self) -> bool:
        """Raise the beat of the store, then that of the fence; return False if the store is behind, so was restored.

        Every process that accepts uploads does so: what is accepted after a backup is missing from it, and only a beat
        that is missing as well shows that.
        """
        database = self._store.jobs
        with database.transaction():
            query = f"SELECT beat, restores FROM life{database.for_update}"
            ((beat, restores),) = database.rows(query)
            if beat < self._credentials.fence().beat:
                return False
            database.run("UPDATE life SET beat = ?", beat + 1)
        self._credentials.raise_fence(beat=beat + 1, restores=restores)
        return True

    def repair(self, lease: Lease) -> bool:
        """Repair the store if it was rewound, exactly once per restore; return True if it was."""
        if not self.rewound():
            return False
        # The keys first: from now on nothing is accepted that may have been counted before.
        self._context.keyring.abandon()
        reach("restore-abandoned")
        database = self._store.jobs
        fence = self._credentials.fence()
        discarded = 0
        with database.transaction():
            self._leases.confirm(lease)
            database.exclude("tasks")
            # Later statements may have replaced those that the backup knows, and keys may have been destroyed since.
            database.run("UPDATE statements SET sent = 0")
            reopened = self._reopened()
            ((restores,),) = database.rows("SELECT restores FROM life")
            # Another backup was restored after this one was made.
            branched = restores < fence.restores
            for task in self._tasks.all():
                bucket, _ = self._store.waiting(task.row)
                first = self._first_incomplete(task, bucket) if branched else bucket
                # Bundles may have been accepted in every bucket that was opened after the backup, released or not.
                last = max(bucket, reopened.get(task.row.id, 0), self._buckets.last_opened(task.row.id))
                if task.row.state != "open":
                    if last > bucket:
                        # An older backup was restored in between, in which the task was open.
                        self._buckets.record_gap(task.row, Gap(bucket + 1, last, 0, "restored"))
                elif task.row.id in reopened:
                    discarded += self._buckets.rewind(task.row, task.contract, task.keys, first, last)
                else:
                    # Nothing of this bucket has left the store, so it stays, but bundles may be missing from it.
                    self._buckets.record_gap(task.row, Gap(first, last, 0, "restored"))
            statement = f"UPDATE life SET beat = ?, restores = ?, place = {database.identity}"
            database.run(statement, fence.beat + 1, fence.restores + 1)
            reach("restore-written")
        reach("restore-committed")
        self._credentials.raise_fence(beat=fence.beat + 1, restores=fence.restores + 1)
        self._tasks.refresh()
        self._incidents.report("restored", f"the store was restored from a backup; {discarded:,} bundles discarded")
        return True

    def _first_incomplete(self, task: ServedTask, bucket: int) -> int:
        """Return the first bucket that may lack bundles if another backup was restored after this one was made.

        That backup may have been older: in buckets that wait here, more bundles may have been accepted since.
        """
        waiting = self._store.buckets({task.row.number: task.row}, "sealed", "shuffled")
        return min([bucket, *(one.number for one in waiting)])

    def tidy(self) -> None:
        """Erase secrets of buckets that have ended, or that a restored store does not know."""
        rows = {task.row.id.hex(): task.row for task in self._tasks.all()}
        for prefix in ("seed-", "bucket-", "batch-"):
            for name in self._credentials.names(prefix):
                _, task_id, number = name.split("-")
                row = rows.get(task_id)
                if row is None or int(number) >= row.bucket:
                    continue
                bucket = self._store.bucket(row, int(number))
                if bucket is None or bucket.state in TERMINAL:
                    self._credentials.erase(name)

    def _behind(self) -> bool:
        database = self._store.jobs
        ((beat, moved),) = database.rows(f"SELECT beat, place <> {database.identity} FROM life")
        return bool(moved or beat < self._credentials.fence().beat)

    def _reopened(self) -> dict[bytes, int]:
        """Return the tasks whose open bucket was sealed or ended before, and the highest bucket known of each."""
        sealed: Mapping[str, int] = self._credentials.fence().sealed
        found = {}
        for task in self._tasks.all():
            if task.row.state == "open":
                newest = max(sealed.get(task.contract.id, 0), self._delivered.get(task.row.id, 0))
                bucket, _ = self._store.waiting(task.row)
                if newest >= bucket or not self._has_secret(task, bucket):
                    found[task.row.id] = max(newest, bucket)
        return found

    def _has_secret(self, task: ServedTask, bucket: int) -> bool:
        return self._credentials.read(bucket_secret(task.row.id, bucket)) is not None


def _signed(document: bytes, contract: Contract, bucket: int) -> bool:
    """Return True if this shuffler signed a manifest for a bucket of a contract."""
    try:
        manifest = Manifest.read(SignedDocument.from_json(document), contract.shuffler)
    except (InvalidInput, FalseClaim):
        return False
    return (manifest.task, manifest.bucket) == (contract.task, bucket)
