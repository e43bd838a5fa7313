"""The shuffler as a program: its listeners, and the periodic tasks that release, shuffle and deliver batches.

One event loop serves uploads, and a single thread stores them. Everything else runs in threads with their own
connections to the store. The role decides which part of the work a process does: ``intake``, ``worker`` or ``all``.
"""

import asyncio
import time
from dataclasses import asdict, replace
from pathlib import Path

from hubbub.documents import Json
from hubbub.errors import reject
from hubbub.service.program import (
    Resources,
    expiry_metrics,
    operator_listeners,
    public_context,
    service_status,
    task_metrics,
)
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.http import RateLimiter, allow_origins
from hubbub.service.runtime.metrics import Metrics, TaskMetrics, disk_free
from hubbub.service.runtime.process import PeriodicTask, add_contracts
from hubbub.service.runtime.server import Listener, client_context
from hubbub.service.runtime.settings import ShufflerConfig, is_local
from hubbub.service.shuffler.core import Shuffler
from hubbub.service.shuffler.delivery import HttpsAnalyzerClient
from hubbub.service.shuffler.http import Limits, UploadApp, Writer, documents_app
from hubbub.service.shuffler.shuffle import free_disk
from hubbub.service.shuffler.store import ShufflerStore
from hubbub.service.task.admission import load_ticket_keys

TICK_SECONDS, SHUFFLE_SECONDS, KEYS_SECONDS, DELIVERY_SECONDS = 1.0, 10.0, 60.0, 30.0
"""Pauses between two runs of the periodic tasks."""


class ShufflerProgram:
    """The shuffler with the given settings."""

    def __init__(self, config: ShufflerConfig, clock: Clock | None = None) -> None:
        self.config, self.common = config, config.common
        common = self.common
        self._accepts, self._works = config.role in ("all", "intake"), config.role in ("all", "worker")
        self._resources = Resources(common, "shuffler", clock, ShufflerStore)
        context = replace(self._resources.context, ticket_keys=load_ticket_keys(config.tickets))
        self._clock, self.workers = context.clock, context.workers
        try:
            self.core = Shuffler(
                self._resources.store,
                context,
                self._resources.credentials,
                max_batch_size=config.max_batch_size,
                scratch=common.folder,
                free_space=free_disk(common.folder, config.free_disk),
                worker=self._works,
            )
            add_contracts(common.contracts, self.core.tasks.contracts(), self.core.tasks.add_contract)
            if self._works:
                self.core.keyring.advance()
        except BaseException:
            self._resources.close()
            raise
        self.writer = Writer(self.core.uploads.accept_all)
        limiter = RateLimiter(rate=config.rate, burst=config.burst, header=config.address_header)
        self.uploads = UploadApp(
            self.core,
            self.writer,
            self.workers,
            documents_app(self.core.tasks),
            limits=Limits(max_queue=config.queue, min_free_disk=config.free_disk),
            rate_limiter=limiter if config.rate else None,
            folder=common.folder,
        )
        self.metrics = Metrics(self._live)
        self._clients = [self._client(), self._client()]
        self._outbox_since: float | None = None
        """Since when there has been a batch that is not delivered, by the monotonic clock."""
        self._tick_loop = PeriodicTask("tick", self._tick)
        self._shuffle_loop = PeriodicTask("shuffling", self._shuffle)
        self._keys_loop = PeriodicTask("fetching keys", self._fetch_keys)
        self._delivery_loop = PeriodicTask("delivery", self._deliver)

    def _client(self) -> HttpsAnalyzerClient:
        config = self.config
        if config.analyzer.startswith("http://"):
            if not is_local(config.analyzer.removeprefix("http://").rstrip("/")):
                reject("analyzer", "be https:// unless it is on this machine", config.analyzer)
            return HttpsAnalyzerClient(config.analyzer)
        context = client_context(config.link_certificate, config.link_key, config.link_authority)
        return HttpsAnalyzerClient(config.analyzer, context)

    def listeners(self) -> list[Listener]:
        """Return the listeners for uploads and for operators."""
        config, common = self.config, self.common
        public = public_context(config.certificate, config.certificate_key)
        app = allow_origins(self.uploads, config.origins)
        uploads = Listener("uploads", app, config.listen, context=public, connections=common.connections)
        return [
            *([uploads] if self._accepts else []),
            *operator_listeners(config, "shuffler", self.metrics, self.ready, _ShufflerCommands(self)),
        ]

    def loops(self) -> list[PeriodicTask]:
        """Return the periodic tasks of this process's role."""
        if not self._works:
            return [self._tick_loop]
        return [self._tick_loop, self._shuffle_loop, self._keys_loop, self._delivery_loop]

    async def _tick(self) -> float:
        if not self._works:
            await asyncio.to_thread(self.core.refresh)
        elif await asyncio.to_thread(self.core.tick):
            self._shuffle_loop.wake()
        now = self._clock.now()
        contracts = self.core.tasks.contracts()
        epochs = {task: contract.epoch_at(now) for task, contract in contracts.items()}
        if self.metrics.outdated(epochs):
            totals = await asyncio.to_thread(self.core.totals)
            figures = {
                task: TaskMetrics(epochs[task], contracts[task].min_batch_size, asdict(counts), counts.error)
                for task, counts in totals.items()
            }
            uploads = {("uploads", name): count for name, count in self.uploads.results.items()}
            counts = uploads | {("commits", "done"): self.writer.commits}
            self.metrics.update(figures, counts, {"upload": self.uploads.latencies})
        return TICK_SECONDS

    async def _shuffle(self) -> float:
        if await asyncio.to_thread(self.core.shuffle):
            self._delivery_loop.wake()
        return SHUFFLE_SECONDS

    async def _fetch_keys(self) -> float:
        await asyncio.to_thread(self.core.fetch_keys, self._clients[0])
        return KEYS_SECONDS

    async def _deliver(self) -> float:
        left = await asyncio.to_thread(self.core.deliver, self._clients[1])
        self._outbox_since = (self._outbox_since or time.monotonic()) if left else None
        return TICK_SECONDS if left else DELIVERY_SECONDS

    def _live(self) -> dict[str, float]:
        since = self._outbox_since
        incidents = {f"incidents_{name.replace('-', '_')}": float(n) for name, n in self.core.incidents.counts.items()}
        return {
            **incidents,
            **task_metrics(self.loops()),
            **expiry_metrics(self.config, self.core.keyring),
            "disk_free": disk_free(self.common.folder),
            "draining": float(self.uploads.draining),
            "queue_depth": self.uploads.queue_depth,
            "outbox_age_seconds": 0.0 if since is None else time.monotonic() - since,
        }

    def ready(self) -> bool:
        """Return True if uploads are accepted."""
        free = disk_free(self.common.folder) > self.config.free_disk
        return free and not self.uploads.draining and self.core.ready()

    def drain(self) -> None:
        """Reject uploads from now on."""
        self.uploads.draining = True

    def close(self) -> None:
        """Commit what was admitted, and release all resources."""
        self.writer.close()
        for client in self._clients:
            client.close()
        self.core.shut()
        self._resources.close()


class _ShufflerCommands:
    """The admin commands of the shuffler."""

    def __init__(self, program: ShufflerProgram) -> None:
        self._program, self._core = program, program.core

    def add(self, contract: bytes) -> dict[str, Json]:
        return {"task": self._core.tasks.add_contract(contract).hex()}

    def close(self, task: bytes) -> dict[str, Json]:
        return asdict(self._core.close(task))

    def destroy(self, task: bytes) -> dict[str, Json]:
        return asdict(self._core.close(task, destroy=True))

    def rotate(self) -> None:
        self._core.keyring.rotate()

    def drain(self) -> None:
        self._program.drain()

    def backup(self, path: Path) -> None:
        self._core.store.backup(path)

    def check(self) -> dict[str, Json]:
        return self._totals(check=True)

    def status(self) -> dict[str, Json]:
        about = service_status(self._program.config, self._core.keyring)
        rounds: list[Json] = [{"task": task, **one.to_document()} for task, one in self._core.rounds().items()]
        return {**about, **self._totals(check=False), "rounds": rounds, "waiting": self._program.uploads.waiting}

    def _totals(self, *, check: bool) -> dict[str, Json]:
        totals = self._core.totals(check=check)
        tasks: dict[str, Json] = {task: {**asdict(counts), "error": counts.error} for task, counts in totals.items()}
        return {"good": not any(counts.error for counts in totals.values()), "tasks": tasks}
