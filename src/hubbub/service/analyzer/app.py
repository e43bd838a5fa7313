"""The analyzer as a program: the core, the fronts for the link and for readers, the counting of batches."""

import asyncio
from collections import Counter
from pathlib import Path

from hubbub.canonical import Json
from hubbub.errors import InvalidInput
from hubbub.service.analyzer.core import Analyzer
from hubbub.service.analyzer.http import link, results
from hubbub.service.analyzer.store import Archive
from hubbub.service.runtime.admin import Meter, admin, disk_free, operations
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.process import Folder, Loop, add_contracts, keyring, store_of
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
        self._folder = Folder(common.folder, "analyzer")
        keys = keyring(common, "analyzer", self._clock)
        self.workers = Workers(common.workers)
        self.workers.start()
        self._archive = Archive(lambda: open_database(store_of(common, "analyzer")))
        floor = 1 if common.unsafe_test else 100
        self.core = Analyzer(self._archive, keys, identity, self._clock, workers=self.workers, floor=floor)
        add_contracts(common.contracts, self.core.contracts(), self.core.add_contract)
        self._draining = False
        self._batches: Counter[str] = Counter()
        self.meter = Meter(self._live)
        self._working = Loop("counting", self._work)
        self._advancing = Loop("advance", self._advance)

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
            Listener(name="operations", app=operations(self.meter, self.ready), address=common.operations),
            Listener(name="admin", app=admin(_AnalyzerCommands(self)), address=common.admin),
        ]

    def loops(self) -> list[Loop]:
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
    def __init__(self, program: AnalyzerProgram) -> None:
        self._program, self._core = program, program.core

    def add(self, contract: bytes) -> str:
        return self._core.add_contract(contract).hex()

    def close(self, task: bytes) -> None:
        raise InvalidInput("a task must be closed at the shuffler, got the analyzer")

    def destroy(self, task: bytes) -> None:
        raise InvalidInput("a task must be destroyed at the shuffler, got the analyzer")

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

    def add_token(self, scope: str) -> str:
        if scope != "read:*" and scope.removeprefix("read:") not in self._core.contracts():
            raise InvalidInput("a scope must be read:* or read: and a task, got another")
        return self._core.archive.add_token(scope)

    def revoke_token(self, token: str) -> bool:
        return self._core.archive.revoke_token(token)
