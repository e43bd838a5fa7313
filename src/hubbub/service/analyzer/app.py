"""The analyzer as a program: its listeners, and the periodic tasks that count and export batches and advance keys."""

import asyncio
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

from hubbub.documents import Json
from hubbub.errors import InvalidInput, Problem
from hubbub.service.analyzer.core import STATES, Analyzer
from hubbub.service.analyzer.http import delivery_app, evaluation_app, results_app
from hubbub.service.analyzer.lake import Lake
from hubbub.service.analyzer.store import AnalyzerStore
from hubbub.service.program import (
    Resources,
    expiry_metrics,
    operator_listeners,
    public_context,
    service_status,
    task_metrics,
)
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.metrics import Metrics, disk_free
from hubbub.service.runtime.process import PeriodicTask, add_contracts
from hubbub.service.runtime.server import Listener, server_context
from hubbub.service.runtime.settings import AnalyzerConfig
from hubbub.service.task.admission import load_ticket_keys

COUNTING_SECONDS, EXPORT_SECONDS, KEYS_SECONDS = 10.0, 10.0, 60.0
"""Pauses between two runs of the periodic tasks."""
_SHUFFLER_CONNECTIONS = 64


class AnalyzerProgram:
    """The analyzer with the given settings."""

    def __init__(self, config: AnalyzerConfig, clock: Clock | None = None) -> None:
        self.config, self.common = config, config.common
        self._resources = Resources(config.common, "analyzer", clock, AnalyzerStore)
        context = replace(self._resources.context, ticket_keys=load_ticket_keys(config.tickets))
        self.workers, self.clock = context.workers, context.clock
        try:
            lake = None if config.lake is None else Lake(config.lake)
            self.core = Analyzer(self._resources.store, context, self._resources.credentials, lake)
            add_contracts(config.common.contracts, self.core.contracts(), self.core.add_contract)
            # Through the core only: it knows which keys are held.
            self.core.advance()
        except BaseException:
            self._resources.close()
            raise
        self._draining = False
        self._batches = _no_batches()
        self._evaluations_used = 0.0
        self.metrics = Metrics(self._live)
        self._counting_loop = PeriodicTask("counting", self._count)
        self._export_loop = PeriodicTask("export", self._export)
        self._keys_loop = PeriodicTask("advance", self._advance)

    def listeners(self) -> list[Listener]:
        """Return the listeners for the shuffler, for readers and for operators."""
        config, common = self.config, self.common
        link = server_context(config.link_certificate, config.link_key, config.link_authority)
        public = public_context(config.certificate, config.certificate_key)
        delivery, results = delivery_app(self.core, self._counting_loop.wake), results_app(self.core)
        return [
            Listener("link", delivery, config.link, context=link, connections=_SHUFFLER_CONNECTIONS),
            Listener("evaluations", evaluation_app(self.core), config.evaluate, context=public),
            Listener("results", results, config.read, context=public, connections=common.connections),
            *operator_listeners(config, "analyzer", self.metrics, self.ready, _AnalyzerCommands(self)),
        ]

    def loops(self) -> list[PeriodicTask]:
        """Return the periodic tasks that count batches, export them and advance keys."""
        return [self._counting_loop, self._export_loop, self._keys_loop]

    async def _count(self) -> float:
        while await asyncio.to_thread(self.core.work):
            pass
        await asyncio.to_thread(self._update_batches)
        self._export_loop.wake()
        return COUNTING_SECONDS

    async def _export(self) -> float:
        while await asyncio.to_thread(self.core.export):
            await asyncio.to_thread(self._update_batches)
        return EXPORT_SECONDS

    async def _advance(self) -> float:
        await asyncio.to_thread(self.core.advance)
        await asyncio.to_thread(self._update_batches)
        return KEYS_SECONDS

    def _update_batches(self) -> None:
        batches = _no_batches()
        for counts in self.core.totals().values():
            batches.update({f"batches_{state}": counts[state] for state in STATES})
            batches["unknown_buckets"] += counts["unknown_buckets"]
        batches["exports_waiting"] = len(self.core.store.waiting_exports())
        self._batches = batches
        self._evaluations_used = self.core.evaluations.share(self.core.contracts().values())

    def _live(self) -> dict[str, float]:
        batches = {name: float(count) for name, count in self._batches.items()}
        expiries = expiry_metrics(self.config, self.core.keyring)
        used = {"evaluations_used": self._evaluations_used}
        return {**task_metrics(self.loops()), **expiries, **batches, **used, "disk_free": disk_free(self.common.folder)}

    def ready(self) -> bool:
        """Return True if batches are accepted."""
        return not self._draining and self.core.ready()

    def drain(self) -> None:
        """Report not ready from now on."""
        self._draining = True

    def close(self) -> None:
        """Release all resources."""
        self._resources.close()


def _no_batches() -> Counter[str]:
    return Counter({f"batches_{state}": 0 for state in STATES} | {"unknown_buckets": 0, "exports_waiting": 0})


class _AnalyzerCommands:
    """The admin commands of the analyzer."""

    def __init__(self, program: AnalyzerProgram) -> None:
        self._program, self._core, self._clock = program, program.core, program.clock

    def add(self, contract: bytes) -> dict[str, Json]:
        return {"task": self._core.add_contract(contract).hex()}

    def rotate(self) -> None:
        self._core.rotate()

    def drain(self) -> None:
        self._program.drain()

    def backup(self, path: Path) -> None:
        self._core.store.backup(path)

    def check(self) -> dict[str, Json]:
        return self.status()

    def status(self) -> dict[str, Json]:
        tasks: dict[str, Json] = {task: dict(counts) for task, counts in self._core.totals().items()}
        rounds: list[Json] = [{"task": task, **one.to_document()} for task, one in self._core.rounds().items()]
        return {
            **service_status(self._program.config, self._core.keyring),
            "good": True,
            "tasks": tasks,
            "rounds": rounds,
        }

    def token(self, name: str, scope: str, seconds: float) -> dict[str, Json]:
        if scope != "read:*" and scope.removeprefix("read:") not in self._core.contracts():
            raise InvalidInput("scope must be read:* or read:TASK with the id of a task that is served")
        now = self._clock.now()
        token = self._core.store.add_token(name, scope, now=now, expires=now + seconds)
        return {"name": name, "token": token, "expires": int(now + seconds)}

    def tokens(self) -> dict[str, Json]:
        return {"tokens": [asdict(one) for one in self._core.store.reader_tokens(now=self._clock.now())]}

    def revoke(self, name: str) -> None:
        if not self._core.store.revoke_token(name, now=self._clock.now()):
            raise Problem("not-found", "there is no token with this name, or it is revoked already")
