"""For those who run a service: is it alive, is it ready, what are its totals; and on a socket of its own, commands.

Whatever depends on arrivals is shown as it was at the end of an epoch, and in steps of max(100, least/20): whoever
reads the metrics every second does not learn when somebody sent something. The law of conservation is shown exactly.
"""

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from hubbub.canonical import Json, as_text, canonical, fields, parse
from hubbub.errors import Problem, reject
from hubbub.service.runtime.http import App, body_of, hex_id, log, routed

LARGEST_CONTRACT = 16 << 20
"""Bytes of a signed contract."""

PATIENCE = 5.0
"""Seconds after which a service that does not say that it is ready is not."""

_SMALL = 1 << 16


def step(min_batch_size: int) -> int:
    """The steps in which the bundles of a task are shown: max(100, least/20).

    >>> step(1000), step(10_000)
    (100, 500)
    """
    return max(100, min_batch_size // 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a service tells its meter about one task at the end of an epoch."""

    epoch: int
    """The number of the epoch."""
    min_batch_size: int
    bundles: Mapping[str, int]
    """By where they are."""
    error: int
    """What the law of conservation is off by."""


@dataclass(slots=True)
class _Shown:
    epoch: int
    bundles: dict[str, int]
    error: int


class Meter(Collector):
    """Totals for Prometheus, each renewed only when an epoch has ended.

    ``live`` gives figures that do not depend on arrivals, and are shown as they are.
    """

    def __init__(self, live: Callable[[], Mapping[str, float]] = dict) -> None:
        self._live = live
        self._lock = threading.Lock()
        self._tasks: dict[str, _Shown] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._renewed: set[str] = set()
        self.registry = CollectorRegistry(auto_describe=False)
        # No figures of the process: its open files and seconds of work would show a single connection.
        self.registry.register(self)

    def epoch(self, figures: Mapping[str, Figures], counts: Mapping[tuple[str, str], int]) -> None:
        """Take over the totals of those tasks whose epoch has ended; counts of requests, when each had one that did."""
        with self._lock:
            for task, one in figures.items():
                shown = self._tasks.get(task)
                if shown is None or shown.epoch != one.epoch:
                    bundles = {state: count - count % step(one.min_batch_size) for state, count in one.bundles.items()}
                    self._tasks[task] = _Shown(one.epoch, bundles, one.error)
                    self._renewed.add(task)
            self._tasks = {task: shown for task, shown in self._tasks.items() if task in figures}
            if self._renewed.issuperset(figures):
                self._renewed.clear()
                self._counts = {name: count - count % 100 for name, count in counts.items()}

    def due(self, epochs: Mapping[str, int]) -> bool:
        """Whether any of these tasks is in another epoch than the one that is shown."""
        with self._lock:
            return {task: shown.epoch for task, shown in self._tasks.items()} != epochs

    def collect(self) -> Iterator[Metric]:
        """The families, for the registry."""
        bundles = GaugeMetricFamily("hubbub_bundles", "Bundles by where they are, in steps", labels=["task", "state"])
        error = GaugeMetricFamily("hubbub_conservation_error", "Must be 0", labels=["task"])
        with self._lock:
            for task, shown in sorted(self._tasks.items()):
                for state, count in sorted(shown.bundles.items()):
                    bundles.add_metric([task, state], count)
                error.add_metric([task], shown.error)
            counts = sorted(self._counts.items())
        yield bundles
        yield error
        families: dict[str, CounterMetricFamily] = {}
        for (name, label), count in counts:
            families.setdefault(name, CounterMetricFamily(f"hubbub_{name}", "In steps of 100", labels=["result"]))
            families[name].add_metric([label], count)
        yield from families.values()
        for name, value in sorted(self._live().items()):
            yield GaugeMetricFamily(f"hubbub_{name}", "As it is now", value=value)


def operations(meter: Meter, ready: Callable[[], bool]) -> App:
    """``/livez``, ``/readyz`` and ``/metrics``; yes or no without a reason, because anybody may be listening."""
    asked: asyncio.Future[bool] | None = None

    async def alive(request: Request) -> Response:
        del request
        return Response(b"ok\n", media_type="text/plain")

    async def able(request: Request) -> Response:
        del request
        nonlocal asked
        try:
            # A store that hangs must not cost one thread for every time it is asked after.
            if asked is None or asked.done():
                asked = asyncio.ensure_future(asyncio.to_thread(ready))
            good = await asyncio.wait_for(asyncio.shield(asked), PATIENCE)
        except Exception as error:
            log.warning("not ready: %s", type(error).__name__)
            good = False
        return Response(b"ok\n" if good else b"no\n", 200 if good else 503, media_type="text/plain")

    async def metrics(request: Request) -> Response:
        del request
        text = await asyncio.to_thread(generate_latest, meter.registry)
        return Response(text, media_type="text/plain; version=0.0.4")

    return routed([("GET", "/livez", alive), ("GET", "/readyz", able), ("GET", "/metrics", metrics)])


class Commands(Protocol):
    """What can be asked of a running service; every call may take a while, and is made in a thread."""

    def add(self, contract: bytes) -> str:
        """Serve a signed contract; its task."""

    def close(self, task: bytes) -> None:
        """Take nothing more for a task."""

    def destroy(self, task: bytes) -> None:
        """Forget a task."""

    def rotate(self) -> None:
        """Use a new key."""

    def drain(self) -> None:
        """Take nothing more at all, and deliver what can be delivered."""

    def backup(self, path: Path) -> None:
        """Copy the store."""

    def check(self) -> dict[str, Json]:
        """Count everything anew."""

    def status(self) -> dict[str, Json]:
        """How things are, exactly."""

    def add_token(self, scope: str) -> str:
        """A new bearer token."""

    def revoke_token(self, token: str) -> bool:
        """Forget a token."""


def admin(commands: Commands) -> App:
    """The commands as an application; it asks nobody who he is: who may open its socket may do all this."""

    async def run(work: Callable[..., Any], *values: object) -> Any:
        return await asyncio.to_thread(work, *values)

    def said(content: dict[str, Json]) -> Response:
        return Response(canonical(content), media_type="application/json")

    async def entry(request: Request, name: str) -> str:
        body = await body_of(request, _SMALL)
        return str(fields(parse(body, "a command"), "a command", {name: as_text})[name])

    async def add(request: Request) -> Response:
        return said({"task": await run(commands.add, await body_of(request, LARGEST_CONTRACT))})

    async def close(request: Request) -> Response:
        await run(commands.close, hex_id(request.path_params["task"], "unknown-task"))
        return said({})

    async def destroy(request: Request) -> Response:
        await run(commands.destroy, hex_id(request.path_params["task"], "unknown-task"))
        return said({})

    async def rotate(request: Request) -> Response:
        del request
        await run(commands.rotate)
        return said({})

    async def drain(request: Request) -> Response:
        del request
        await run(commands.drain)
        return said({})

    async def backup(request: Request) -> Response:
        await run(commands.backup, _new_file(await entry(request, "path")))
        return said({})

    async def check(request: Request) -> Response:
        del request
        return said(await run(commands.check))

    async def status(request: Request) -> Response:
        del request
        return said(await run(commands.status))

    async def add_token(request: Request) -> Response:
        return said({"token": await run(commands.add_token, await entry(request, "scope"))})

    async def revoke_token(request: Request) -> Response:
        if not await run(commands.revoke_token, await entry(request, "token")):
            raise Problem("not-found", "there is no such token")
        return said({})

    return routed(
        [
            ("POST", "/tasks", add),
            ("POST", "/tasks/{task}/close", close),
            ("POST", "/tasks/{task}/destroy", destroy),
            ("POST", "/rotate", rotate),
            ("POST", "/drain", drain),
            ("POST", "/backup", backup),
            ("GET", "/check", check),
            ("GET", "/status", status),
            ("POST", "/tokens", add_token),
            ("POST", "/tokens/revoke", revoke_token),
        ]
    )


def _new_file(text: str) -> Path:
    """The place of a copy: absolute, not there yet, and made so that only its owner reads it."""
    path = Path(text)
    if not path.is_absolute() or path.exists():
        reject("the path", "be absolute and not exist yet", path.name)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return path


def disk_free(folder: Path) -> float:
    """The free part of the disk, in steps of a hundredth: finer ones would show single uploads."""
    usage = shutil.disk_usage(folder)
    return int(100 * usage.free / usage.total) / 100
