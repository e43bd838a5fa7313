"""The analyzer as a program: the core, the fronts for the link and for readers, the counting of batches."""

import asyncio
from collections import Counter
from pathlib import Path

from hubbub.canonical import Json
from hubbub.errors import InvalidInput
from hubbub.service.analyzer.core import Analyzer
from hubbub.service.analyzer.http import link, results
from hubbub.service.analyzer.store import Archive
from hubbub.service.runtime.admin import admin_app
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.metrics import Metrics, disk_free, operations_app
from hubbub.service.runtime.problems import Problem
from hubbub.service.runtime.process import PeriodicTask, ServiceFolder, add_contracts, open_keyring, store_url
from hubbub.service.runtime.server import Listener, server_context
from hubbub.service.runtime.settings import AnalyzerConfig
from hubbub.service.runtime.workers import Workers
from hubbub.service.task.identity import Identity

WORK, ADVANCE = 10.0, 60.0
"""Seconds between two turns of the loops."""


class AnalyzerProgram:
    """The analyzer as its settings say."""

    def __init__(self, config: AnalyzerConfig, clock: Clock | None = None) -> None:
        self.config, self.common = config, config.common
        common = self.common
        self._clock = clock or SystemClock()
        identity = Identity.load(common.identity)
        self._folder = ServiceFolder(common.folder, "analyzer")
        keys = open_keyring(common, "analyzer", self._clock)
        self.workers = Workers(common.workers)
        self.workers.start()
        self._archive = Archive(lambda: open_database(store_url(common, "analyzer")))
        self.core = Analyzer(
            self._archive, keys, identity, self._clock, workers=self.workers, min_batch_size=common.min_batch_size
        )
        add_contracts(common.contracts, self.core.contracts(), self.core.add_contract)
        self._draining = False
        self._batches: Counter[str] = Counter()
        self.metrics = Metrics(self._live)
        self._working = PeriodicTask("counting", self._work)
        self._advancing = PeriodicTask("advance", self._advance)

    def listeners(self) -> list[Listener]:
        """The link, results, figures, commands."""
        config, common = self.config, self.common
        context = None
        if config.certificate is not None and config.certificate_key is not None:
            context = server_context(config.certificate, config.certificate_key)
        return [
            Listener(
                name="link",
                app=link(self.core, self._working.wake),
                address=config.link,
                context=server_context(config.link_certificate, config.link_key, config.link_authority),
                connections=64,
            ),
            Listener(
                name="results",
                app=results(self.core),
                address=config.read,
                context=context,
                connections=common.connections,
            ),
            Listener(name="operations", app=operations_app(self.metrics, self.ready), address=common.operations),
            Listener(name="admin", app=admin_app("analyzer", _AnalyzerCommands(self)), address=common.admin),
        ]

    def loops(self) -> list[PeriodicTask]:
        """Counting, keys."""
        return [self._working, self._advancing]

    async def _work(self) -> float:
        while await asyncio.to_thread(self.core.work):
            await asyncio.to_thread(self._count)
        return WORK

    async def _advance(self) -> float:
        await asyncio.to_thread(self.core.advance)
        await asyncio.to_thread(self._count)
        return ADVANCE

    def _count(self) -> None:
        self._batches = Counter()
        for counts in self.core.totals().values():
            self._batches.update({state: counts[state] for state in ("arriving", "committed", "withheld")})

    def _live(self) -> dict[str, float]:
        found = {
            f"{loop.name}_{result}": float(count) for loop in self.loops() for result, count in loop.results.items()
        }
        found |= {f"batches_{state}": float(count) for state, count in self._batches.items()}
        return {**found, "disk_free": disk_free(self.common.folder)}

    def ready(self) -> bool:
        """Whether batches are taken."""
        return not self._draining and self.core.ready()

    def drain(self) -> None:
        """Say that it is going down."""
        self._draining = True

    def close(self) -> None:
        """Give everything back."""
        self.workers.close()
        self._archive.shut()
        self._folder.close()


class _AnalyzerCommands:
    """The handlers of the admin commands."""

    def __init__(self, program: AnalyzerProgram) -> None:
        self._program, self._core = program, program.core

    def add(self, contract: bytes) -> dict[str, Json]:
        return {"task": self._core.add_contract(contract).hex()}

    def rotate(self) -> None:
        self._core.rotate()

    def drain(self) -> None:
        self._program.drain()

    def backup(self, path: Path) -> None:
        self._core.backup(path)

    def check(self) -> dict[str, Json]:
        return self.status()

    def status(self) -> dict[str, Json]:
        tasks: dict[str, Json] = {task: dict(counts) for task, counts in self._core.totals().items()}
        return {"good": True, "tasks": tasks}

    def token(self, scope: str) -> dict[str, Json]:
        if scope != "read:*" and scope.removeprefix("read:") not in self._core.contracts():
            raise InvalidInput("scope must be read:* or read:TASK with the id of a task that is served")
        return {"token": self._core.archive.add_token(scope)}

    def revoke(self, token: str) -> None:
        if not self._core.archive.revoke_token(token):
            raise Problem("not-found", "there is no such token")
