"""The shuffler as a program: the core, the front for uploads, ticks and delivery.

One event loop. Uploads are answered there; everything that waits for the disk, the analyzer or the workers is done in
threads, and everything that writes to the store by one of them.
"""

import asyncio
from dataclasses import asdict
from pathlib import Path

from hubbub.canonical import Json
from hubbub.errors import reject
from hubbub.service.runtime.admin import admin_app
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.metrics import Metrics, TaskMetrics, disk_free, operations_app
from hubbub.service.runtime.process import PeriodicTask, ServiceFolder, add_contracts, open_keyring, store_url
from hubbub.service.runtime.ratelimit import RateLimiter
from hubbub.service.runtime.server import Listener, client_context, server_context
from hubbub.service.runtime.settings import ShufflerConfig, is_local
from hubbub.service.runtime.workers import Workers
from hubbub.service.shuffler.analyzer_client import HttpsLink
from hubbub.service.shuffler.core import Shuffler
from hubbub.service.shuffler.http import Intake, Limits, Writer, documents
from hubbub.service.shuffler.store import Pool
from hubbub.service.task.identity import Identity

TICK, KEYS, DELIVER = 1.0, 60.0, 30.0
"""Seconds between two turns of the loops."""


class ShufflerProgram:
    """The shuffler as its settings say."""

    def __init__(self, config: ShufflerConfig, clock: Clock | None = None) -> None:
        self.config, self.common = config, config.common
        common = self.common
        self._clock = clock or SystemClock()
        identity = Identity.load(common.identity)
        self._folder = ServiceFolder(common.folder, "shuffler")
        keys = open_keyring(common, "shuffler", self._clock)
        self.workers = Workers(common.workers)
        self.workers.start()
        self._pool = Pool(lambda: open_database(store_url(common, "shuffler")))
        self.core = Shuffler(
            self._pool, keys, identity, self._clock, workers=self.workers, min_batch_size=common.min_batch_size
        )
        add_contracts(common.contracts, self.core.contracts(), self.core.add_contract)
        self.writer = Writer(self.core.accept)
        self.intake = Intake(
            self.core,
            self.writer,
            self.workers,
            documents(self.core),
            limits=Limits(queue=config.queue, free=config.free_disk),
            allowance=RateLimiter(rate=config.rate, burst=config.burst, header=config.address_header)
            if config.rate
            else None,
            folder=common.folder,
        )
        self.metrics = Metrics(self._live)
        self._links = [self._link(), self._link()]
        self._ticking = PeriodicTask("tick", self._tick)
        self._fetching = PeriodicTask("fetching keys", self._fetch)
        self._delivering = PeriodicTask("delivery", self._deliver)

    def _link(self) -> HttpsLink:
        config = self.config
        if config.analyzer.startswith("http://"):
            if not is_local(config.analyzer.removeprefix("http://").rstrip("/")):
                reject("analyzer", "be https:// unless it is on this machine", config.analyzer)
            return HttpsLink(config.analyzer)
        return HttpsLink(
            config.analyzer, client_context(config.link_certificate, config.link_key, config.link_authority)
        )

    def listeners(self) -> list[Listener]:
        """Uploads, figures, commands."""
        config, common = self.config, self.common
        context = None
        if config.certificate is not None and config.certificate_key is not None:
            context = server_context(config.certificate, config.certificate_key)
        return [
            Listener(
                name="uploads",
                app=self.intake,
                address=config.listen,
                context=context,
                connections=common.connections,
            ),
            Listener(name="operations", app=operations_app(self.metrics, self.ready), address=common.operations),
            Listener(name="admin", app=admin_app("shuffler", _ShufflerCommands(self)), address=common.admin),
        ]

    def loops(self) -> list[PeriodicTask]:
        """Ticks, keys, delivery."""
        return [self._ticking, self._fetching, self._delivering]

    async def _tick(self) -> float:
        await asyncio.to_thread(self.core.draw_ahead)
        if await asyncio.wrap_future(self.writer.call(self.core.tick)):
            self._delivering.wake()
        now = self._clock.now()
        contracts = self.core.contracts()
        epochs = {task: one.epoch_at(now) for task, one in contracts.items()}
        if self.metrics.outdated(epochs):
            totals = await asyncio.wrap_future(self.writer.call(self.core.totals))
            figures = {
                task: TaskMetrics(
                    epoch=epochs[task],
                    min_batch_size=contracts[task].min_batch_size,
                    bundles=asdict(counts),
                    error=counts.error,
                )
                for task, counts in totals.items()
            }
            uploads = {("uploads", name): count for name, count in self.intake.results.items()}
            self.metrics.update(figures, uploads | {("commits", "done"): self.writer.commits})
        return TICK

    async def _fetch(self) -> float:
        # Asked for in a thread, taken over by the writer: no upload is committed while the key in use changes.
        text = await asyncio.to_thread(self._links[0].keys)
        await asyncio.wrap_future(self.writer.call(lambda: self.core.take_keys(text)))
        return KEYS

    async def _deliver(self) -> float:
        return TICK if await asyncio.to_thread(self.core.deliver, self._links[1]) else DELIVER

    def _live(self) -> dict[str, float]:
        found = {
            f"{loop.name.replace(' ', '_')}_{result}": float(count)
            for loop in self.loops()
            for result, count in loop.results.items()
        }
        return {**found, "disk_free": disk_free(self.common.folder), "draining": float(self.intake.draining)}

    def ready(self) -> bool:
        """Whether uploads are taken."""
        free = disk_free(self.common.folder) > self.config.free_disk
        return free and not self.intake.draining and self.core.ready()

    def drain(self) -> None:
        """Refuse uploads from now on."""
        self.intake.draining = True

    def close(self) -> None:
        """Commit what was accepted, and give everything back."""
        self.writer.close()
        for one in self._links:
            one.close()
        self.workers.close()
        self._pool.shut()
        self._folder.close()


class _ShufflerCommands:
    """The handlers of the admin commands; those that write run on the writer's thread."""

    def __init__(self, program: ShufflerProgram) -> None:
        self._program, self._core, self._writer = program, program.core, program.writer

    def add(self, contract: bytes) -> dict[str, Json]:
        return {"task": self._core.add_contract(contract).hex()}

    def close(self, task: bytes) -> None:
        self._writer.call(lambda: self._core.close(task)).result()

    def destroy(self, task: bytes) -> None:
        self._writer.call(lambda: self._core.close(task, destroy=True)).result()

    def rotate(self) -> None:
        self._writer.call(self._core.rotate).result()

    def drain(self) -> None:
        self._program.drain()

    def backup(self, path: Path) -> None:
        self._core.backup(path)

    def check(self) -> dict[str, Json]:
        return self._counted(check=True)

    def status(self) -> dict[str, Json]:
        return {**self._counted(check=False), "waiting": self._program.intake.waiting}

    def _counted(self, *, check: bool) -> dict[str, Json]:
        totals = self._writer.call(lambda: self._core.totals(check=check)).result()
        tasks: dict[str, Json] = {task: {**asdict(one), "error": one.error} for task, one in totals.items()}
        return {"good": not any(one.error for one in totals.values()), "tasks": tasks}
