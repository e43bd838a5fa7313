"""The shuffler as a program: the core, the front for uploads, ticks and delivery.

One event loop. Uploads are answered there; everything that waits for the disk, the analyzer or the workers is done in
threads, and everything that writes to the store by one of them.
"""

import asyncio
from dataclasses import asdict
from pathlib import Path

from hubbub.canonical import Json
from hubbub.errors import InvalidInput, reject
from hubbub.service.runtime.admin import Figures, Meter, admin, disk_free, operations
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.process import Folder, Loop, add_contracts, keyring, store_of
from hubbub.service.runtime.ratelimit import Allowance
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
        self._folder = Folder(common.folder, "shuffler")
        keys = keyring(common, "shuffler", self._clock)
        self.workers = Workers(common.workers)
        self.workers.start()
        self._pool = Pool(lambda: open_database(store_of(common, "shuffler")))
        floor = 1 if common.unsafe_test else 100
        self.core = Shuffler(self._pool, keys, identity, self._clock, workers=self.workers, floor=floor)
        add_contracts(common.contracts, self.core.contracts(), self.core.add_contract)
        self.writer = Writer(self.core.accept)
        self.intake = Intake(
            self.core,
            self.writer,
            self.workers,
            documents(self.core),
            limits=Limits(queue=config.queue, free=config.free_disk),
            allowance=Allowance(rate=config.rate, burst=config.burst, header=config.address_header)
            if config.rate
            else None,
            folder=common.folder,
        )
        self.meter = Meter(self._live)
        self._links = [self._link(), self._link()]
        self._ticking = Loop("tick", self._tick)
        self._fetching = Loop("fetching keys", self._fetch)
        self._delivering = Loop("delivery", self._deliver)

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
            Listener(name="operations", app=operations(self.meter, self.ready), address=common.operations),
            Listener(name="admin", app=admin(_ShufflerCommands(self)), address=common.admin),
        ]

    def loops(self) -> list[Loop]:
        """Ticks, keys, delivery."""
        return [self._ticking, self._fetching, self._delivering]

    async def _tick(self) -> float:
        await asyncio.to_thread(self.core.draw_ahead)
        if await asyncio.wrap_future(self.writer.call(self.core.tick)):
            self._delivering.wake()
        now = self._clock.now()
        contracts = self.core.contracts()
        epochs = {task: one.epoch_at(now) for task, one in contracts.items()}
        if self.meter.due(epochs):
            totals = await asyncio.wrap_future(self.writer.call(self.core.totals))
            figures = {
                task: Figures(
                    epoch=epochs[task],
                    min_batch_size=contracts[task].min_batch_size,
                    bundles=asdict(counts),
                    error=counts.error,
                )
                for task, counts in totals.items()
            }
            uploads = {("uploads", name): count for name, count in self.intake.results.items()}
            self.meter.epoch(figures, uploads | {("commits", "done"): self.writer.commits})
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
    """Commands, carried out by the writer's thread where they write."""

    def __init__(self, program: ShufflerProgram) -> None:
        self._program, self._core, self._writer = program, program.core, program.writer

    def add(self, contract: bytes) -> str:
        return self._core.add_contract(contract).hex()

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

    def add_token(self, scope: str) -> str:
        raise InvalidInput("tokens must be asked of the analyzer, got the shuffler")

    def revoke_token(self, token: str) -> bool:
        raise InvalidInput("tokens must be asked of the analyzer, got the shuffler")
