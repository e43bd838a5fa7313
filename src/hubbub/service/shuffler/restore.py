"""The detection of restored stores: a rewound store must neither release a bucket again nor count a bundle twice.

The credential folder is not part of backups, and its fence only grows. A store was rewound if its beat is behind the
fence, if it was copied from another PostgreSQL database, if its open bucket was sealed before according to the fence or
to the analyzer's signed counter, or if the secret of its open bucket is erased. Bundles accepted between backup and
restore are unknown to the store: their replay ids are missing, so all keys that they can be sealed to are given up, and
the loss is named in a signed gap.
"""

from collections.abc import Mapping

from hubbub.errors import FalseClaim
from hubbub.service.context import ServiceContext
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.leases import Lease, Leases
from hubbub.service.shuffler.blocks import bucket_secret
from hubbub.service.shuffler.buckets import Buckets
from hubbub.service.shuffler.incidents import Incidents
from hubbub.service.shuffler.store import TERMINAL, ShufflerStore
from hubbub.service.shuffler.tasks import ServedTask, TaskRegistry
from hubbub.service.task.manifest import MAX_BUCKET, Gap

_FAR = 1 << 40
"""More buckets than any task can have sealed; a counter above it is not believed."""


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

    def hear(self, task: bytes, counter: int) -> None:
        """Take note of the analyzer's counter of announced buckets."""
        if not 0 <= counter <= min(_FAR, MAX_BUCKET):
            raise FalseClaim("the analyzer's counter of buckets is impossibly high")
        before = self._counters.get(task, 0)
        if counter < before:
            self._incidents.report("analyzer-restored", f"its counter of buckets went back from {before} to {counter}")
        self._counters[task] = counter

    def rewound(self) -> bool:
        """Return True if the store was restored from a backup and not repaired yet."""
        return self._behind() or bool(self._reopened())

    def beat(self, lease: Lease) -> None:
        """Raise the beat of the store, then that of the fence: the store is behind only if it was restored."""
        database = self._store.jobs
        with database.transaction():
            self._leases.confirm(lease)
            database.run("UPDATE life SET beat = beat + 1")
            ((beat, restores),) = database.rows("SELECT beat, restores FROM life")
        self._credentials.raise_fence(beat=beat, restores=restores)

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
            for task in self._tasks.all():
                if task.row.state != "open":
                    continue
                if task.row.id in reopened:
                    newest = reopened[task.row.id]
                    discarded += self._buckets.rewind(task.row, task.contract, task.keys, newest)
                else:
                    # Nothing of this bucket has left the store, so it stays, but bundles may be missing from it.
                    bucket, _ = self._store.waiting(task.row)
                    self._buckets.record_gap(task.row, Gap(bucket, bucket, 0, "restored"))
            statement = f"UPDATE life SET beat = ?, restores = ?, place = {database.identity}"
            database.run(statement, fence.beat + 1, fence.restores + 1)
            reach("restore-written")
        reach("restore-committed")
        self._credentials.raise_fence(beat=fence.beat + 1, restores=fence.restores + 1)
        self._tasks.refresh()
        self._incidents.report("restored", f"the store was restored from a backup; {discarded} bundles discarded")
        return True

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
                newest = max(sealed.get(task.contract.id, 0), self._counters.get(task.row.id, 0))
                bucket, _ = self._store.waiting(task.row)
                if newest >= bucket or not self._has_secret(task, bucket):
                    found[task.row.id] = max(newest, bucket)
        return found

    def _has_secret(self, task: ServedTask, bucket: int) -> bool:
        return self._credentials.read(bucket_secret(task.row.id, bucket)) is not None
