"""The shuffler without sockets: it accepts bundles, releases batches of at least the minimum size, and delivers them.

It learns who sends but never what is sent: everything it stores is sealed to the analyzer. The HTTP layer calls
``uploads``; the program's loops call ``tick``, ``shuffle``, ``fetch_keys`` and ``deliver`` where it works on batches,
and ``refresh`` where it only accepts uploads. All of them may run in any number of processes over one PostgreSQL store.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hubbub.errors import HubbubError, StoreFailure
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import Lease, Leases, LostLease
from hubbub.service.shuffler.buckets import Buckets, Closing, Incidents
from hubbub.service.shuffler.delivery import AnalyzerClient, Deliveries, Statements
from hubbub.service.shuffler.restore import Restores
from hubbub.service.shuffler.shuffle import MEMORY, FreeSpace, Shuffles
from hubbub.service.shuffler.store import Counts, ShufflerStore
from hubbub.service.shuffler.tasks import ServedTask, TaskRegistry
from hubbub.service.shuffler.uploads import Uploads
from hubbub.service.task.contract import RoundStatus
from hubbub.service.task.manifest import Counter

MAX_BATCH_SIZE = 2_000_000
"""Default number of bundles at which a bucket is released before its epoch ends."""


class Shuffler:
    """The core of the service; ``uploads.accept_all`` is for one thread, everything else for any."""

    def __init__(
        self,
        store: ShufflerStore,
        context: ServiceContext,
        credentials: Credentials,
        *,
        max_batch_size: int = MAX_BATCH_SIZE,
        memory: int = MEMORY,
        scratch: Path | None = None,
        free_space: FreeSpace | None = None,
        worker: bool = True,
    ) -> None:
        self.store, self.keyring, self._context = store, context.keyring, context
        self._worker = worker
        self._max_batch_size = max_batch_size
        self.incidents = Incidents()
        if store.alone:
            # The previous process held these; the lock of its folder proves that it has ended.
            store.jobs.run("DELETE FROM leases")
        leases = self._leases = Leases(store.jobs, context.clock, seconds=context.lease_seconds)
        self._lease: Lease | None = None
        self._ended: dict[bytes, float] = {}
        self._overdue: dict[tuple[bytes, int], float] = {}
        buckets = self._buckets = Buckets(store, context, credentials, leases, self.incidents)
        self.tasks = TaskRegistry(store, context, buckets, self.incidents)
        self.uploads = Uploads(store, self.tasks, context, credentials)
        self._restores = Restores(store, self.tasks, context, credentials, buckets, leases, self.incidents)
        self._shuffles = Shuffles(
            store,
            self.tasks,
            context,
            credentials,
            leases,
            self.incidents,
            memory=memory,
            scratch=scratch,
            free_space=free_space,
        )
        self._deliveries = Deliveries(store, self.tasks, buckets, self._shuffles, leases, credentials)
        self._statements = Statements(store, context)
        self.refresh()
        if worker and self._lead() is not None:
            self.keyring.advance()
            self._restores.tidy()

    def refresh(self) -> None:
        """Read what other processes have changed, and accept uploads only while the store is known to be complete."""
        self.tasks.refresh()
        self.keyring.refresh()
        if self._restores.rewound() or not self._restores.beat():
            self.uploads.blocked = True
            lease = self._lead()
            try:
                if lease is None:
                    return
                self._restores.repair(lease)
            except LostLease:
                self._lease = None
                return
            self.keyring.advance()
            self._restores.tidy()
            if not self._worker:
                self._give_back()
        self.uploads.confirm()

    def tick(self) -> list[str]:
        """Advance the keys, release the buckets that are due, and return the ids of their batches.

        A task that fails does not hold up the others; the first failure is raised after all were tried.
        """
        self.refresh()
        lease = self._lead()
        if lease is None:
            return []
        self.keyring.advance()
        released: list[str] = []
        failure: Exception | None = None
        for task in self.tasks.all():
            try:
                released += self._release(task, lease)
            except LostLease:
                self._lease = None
                break
            except Exception as error:
                self.incidents.report(
                    "task-failed", f"task {task.contract.id}: a bucket could not be released: {_safe(error)}"
                )
                failure = failure or error
        self.tasks.refresh()
        if failure is not None:
            raise failure
        return released

    def _release(self, task: ServedTask, lease: Lease) -> list[str]:
        """Release the open bucket of a task if that is due, and end the task if its time is over.

        A clock that jumps, forward or back, can hasten or delay a release, but never makes a batch smaller than the
        contract allows. Bundles below the minimum expire only when the clock has been past the end of the task for a
        whole epoch of real time, or past the end of their round for ``round_grace``.
        """
        contract, row, clock = task.contract, task.row, self._context.clock
        if row.state != "open" or self._restores.paused(row.id):
            return []
        epoch = contract.epoch_at(clock.now())
        batch, over = None, contract.round_of(epoch) != row.round
        enough = contract.min_batch_size if over else self._max_batch_size
        if epoch != row.last_epoch or self.store.waiting(row)[1] >= enough:
            batch = self._buckets.release(row, contract, task.keys, epoch, lease)
        if over and batch is None:
            self._turn(task, epoch, lease)
        elif not over:
            self._overdue.pop((row.id, row.bucket), None)
        if epoch < contract.task_end:
            self._ended.pop(row.id, None)
        elif clock.monotonic() - self._ended.setdefault(row.id, clock.monotonic()) >= contract.epoch:
            self._buckets.close(row, contract, task.keys, epoch, "closed")
        return [batch] if batch else []

    def _turn(self, task: ServedTask, epoch: int, lease: Lease) -> None:
        """Move a bucket whose round is over on to the current round, as soon as its bundles allow it."""
        row, contract, now = task.row, task.contract, self._context.clock.monotonic()
        since = self._overdue.setdefault((row.id, row.bucket), now)
        expire = now - since >= contract.round_grace
        if self._buckets.turn(row, contract, task.keys, epoch, lease, expire=expire):
            self._overdue.pop((row.id, row.bucket), None)

    def rounds(self) -> dict[str, RoundStatus]:
        """Return the current round of every task, and what its rounds have cost each person so far, by task."""
        return {
            task.contract.id: RoundStatus(
                task.row.round, self._buckets.ledger.spent(task.contract), task.contract.total
            )
            for task in self.tasks.all()
        }

    def shuffle(self) -> list[str]:
        """Shuffle the sealed buckets, delete the data of those that have ended, and return the ids of new batches.

        If there are new ones, :meth:`deliver` deletes the data: how long that takes depends on how many strings differ,
        and the analyzer must not see it by the time at which a batch arrives.
        """
        done: list[str] = []
        try:
            done = self._shuffles.run()
        finally:
            if not done:
                self._buckets.sweep(self.tasks.rows())
        return done

    def fetch_keys(self, client: AnalyzerClient) -> None:
        """Fetch the analyzer's key list and counters, and state the keys in use.

        A task that fails does not hold up the others; the first failure is raised after all were tried.
        """
        failures: list[Exception] = []
        with _collect(failures):
            self.tasks.update_keys(client.keys())
        for task in self.tasks.reachable():
            if task.contract.strings is not None and task.row.state == "open":
                with _collect(failures):
                    self.tasks.update_tag_keys(task, client.tag_keys(task.contract.id))
        for task in self.tasks.reachable():
            with _collect(failures):
                counter = Counter.read(client.counter(task.contract.id), task.contract.analyzer, task.row.id)
                self._restores.hear(task, counter.bucket, client)
        self.refresh()
        for task in self.tasks.reachable():
            with _collect(failures):
                self._statements.send(task, client)
        with _collect(failures):
            self.tasks.use_keys()
        if failures:
            raise failures[0]

    def deliver(self, client: AnalyzerClient) -> bool:
        """Try once to deliver every waiting bucket, delete the data of ended ones, and return True if any is left."""
        failures: list[Exception] = []
        try:
            left = self._deliveries.run(client)
            for task in self.tasks.reachable():
                with _collect(failures):
                    self._statements.send(task, client)
        finally:
            self._buckets.sweep(self.tasks.rows())
        if failures:
            raise failures[0]
        return left

    def close(self, task: bytes, *, destroy: bool = False) -> Closing:
        """End a task early: release its bucket if it is large enough, else let its bundles expire; return which.

        ``destroy`` also forgets which bundles it accepted.
        """
        self.tasks.refresh()
        found = self.tasks.find(task)
        epoch = found.contract.epoch_at(self._context.clock.now())
        state = "destroyed" if destroy else "closed"
        closing = self._buckets.close(found.row, found.contract, found.keys, epoch, state)
        self.tasks.refresh()
        self._buckets.sweep(self.tasks.rows())
        return closing

    def totals(self, *, check: bool = False) -> dict[str, Counts]:
        """Return the number of bundles in each state by task; ``check`` recounts the stored bundles."""
        found = {}
        for task in self.tasks.all():
            bundle = task.contract.slots * task.contract.slot_size if check else 0
            found[task.contract.id] = self.store.counts(task.row, bundle=bundle)
        return found

    def ready(self) -> bool:
        """Return True if uploads can be accepted now."""
        active = {key.suite for key in self.keyring.public_keys() if key.state == "active"}
        return not self.uploads.blocked and self.keyring.suites <= active and self.store.writable()

    def shut(self) -> None:
        """Give back the leases, so that another process can take over at once, and close all connections."""
        with contextlib.suppress(StoreFailure):
            # A database that is gone does not keep this process from ending; the leases expire.
            self._give_back()
        self.store.shut()
        self.keyring.close()

    def _give_back(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._leases.release(lease)

    def _lead(self) -> Lease | None:
        """Return the lease under which one process at a time releases buckets; None if another process holds it."""
        if self._lease is not None:
            try:
                with self.store.jobs.transaction():
                    self._leases.confirm(self._lease)
            except LostLease:
                self._lease = None
        if self._lease is None:
            self._lease = self._leases.acquire("release")
        return self._lease


@contextlib.contextmanager
def _collect(failures: list[Exception]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        failures.append(error)


def _safe(error: Exception) -> str:
    """Return the message of an error if it is one of hubbub's, which contain no data of people; else its class."""
    return str(error) if isinstance(error, HubbubError) else type(error).__name__
