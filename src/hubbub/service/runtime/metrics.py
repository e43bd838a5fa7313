"""Health and Prometheus metrics that reveal nothing about single uploads.

Counts and durations that depend on arrivals are updated only at the end of an epoch and rounded down to multiples of
max(100, min_batch_size/20), so frequent scraping does not show when a bundle arrives. The conservation error,
which must be 0, is exact.
"""

import asyncio
import itertools
import shutil
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from hubbub.service.runtime.http import App, log, routed, safe_message

READY_SECONDS = 5.0
"""Time after which a readiness check without a result counts as failed."""


def rounding_step(min_batch_size: int) -> int:
    """Return the step to which the bundle counts of a task are rounded: max(100, min_batch_size/20).

    >>> rounding_step(1000), rounding_step(10_000)
    (100, 500)
    """
    return max(100, min_batch_size // 20)


class LatencyHistogram:
    """Counts of durations in a few wide ranges.

    >>> found = LatencyHistogram()
    >>> found.observe(0.02)
    >>> found.cumulative()
    (0, 1, 1, 1, 1, 1)
    """

    BOUNDS = (0.01, 0.05, 0.25, 1.0, 5.0)
    """Upper bounds of the ranges in seconds; the last range has none."""

    def __init__(self) -> None:
        self._counts = [0] * (len(self.BOUNDS) + 1)

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(self.BOUNDS, seconds)] += 1

    def cumulative(self) -> tuple[int, ...]:
        """Return the number of durations up to each bound, and of all."""
        return tuple(itertools.accumulate(self._counts))


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """The counts of one task at the end of an epoch."""

    epoch: int
    """Number of the epoch."""
    min_batch_size: int
    bundles: Mapping[str, int]
    """Bundles by state."""
    error: int
    """Conservation error: bundles accepted minus bundles accounted for."""


class Metrics(Collector):
    """Counts for Prometheus, updated only when an epoch has ended; ``live`` values do not depend on arrivals."""

    def __init__(self, live: Callable[[], Mapping[str, float]] = dict) -> None:
        self._live = live
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskMetrics] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._latencies: dict[str, tuple[int, ...]] = {}
        self._updated: set[str] = set()
        self.registry = CollectorRegistry(auto_describe=False)
        # No process metrics: open files and CPU seconds would reveal a single connection.
        self.registry.register(self)

    def update(
        self,
        tasks: Mapping[str, TaskMetrics],
        counts: Mapping[tuple[str, str], int],
        latencies: Mapping[str, LatencyHistogram] | None = None,
    ) -> None:
        """Show new counts for tasks whose epoch has ended, and those of requests once every task had an epoch end."""
        with self._lock:
            for task, new in tasks.items():
                shown = self._tasks.get(task)
                if shown is None or shown.epoch != new.epoch:
                    self._tasks[task] = new
                    self._updated.add(task)
            self._tasks = {task: shown for task, shown in self._tasks.items() if task in tasks}
            if self._updated.issuperset(tasks):
                self._updated.clear()
                self._counts = dict(counts)
                self._latencies = {name: found.cumulative() for name, found in (latencies or {}).items()}

    def outdated(self, epochs: Mapping[str, int]) -> bool:
        """Return True if the epoch of any of these tasks differs from the one shown."""
        with self._lock:
            return {task: shown.epoch for task, shown in self._tasks.items()} != epochs

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families for the registry."""
        bundles = GaugeMetricFamily("hubbub_bundles", "Bundles by state, rounded down", labels=["task", "state"])
        error = GaugeMetricFamily("hubbub_conservation_error", "Must be 0", labels=["task"])
        with self._lock:
            for task, shown in sorted(self._tasks.items()):
                for state, count in sorted(shown.bundles.items()):
                    bundles.add_metric([task, state], count - count % rounding_step(shown.min_batch_size))
                error.add_metric([task], shown.error)
            counts, latencies = sorted(self._counts.items()), sorted(self._latencies.items())
        yield bundles
        yield error
        families: dict[str, CounterMetricFamily] = {}
        for (name, label), count in counts:
            if count < 100:
                continue  # a counter at 0 would reveal the first request of its kind
            help_text = "Rounded down to a multiple of 100"
            families.setdefault(name, CounterMetricFamily(f"hubbub_{name}", help_text, labels=["result"]))
            families[name].add_metric([label], count - count % 100)
        yield from families.values()
        for name, numbers in latencies:
            yield _histogram(name, numbers)
        for name, value in sorted(self._live().items()):
            yield GaugeMetricFamily(f"hubbub_{name}", "Current value", value=value)


def _histogram(name: str, numbers: tuple[int, ...]) -> HistogramMetricFamily:
    """Return a histogram whose counts are rounded down to multiples of 100, without the sum of its durations."""
    found = HistogramMetricFamily(f"hubbub_{name}_seconds", "Durations, counts rounded down to multiples of 100")
    bounds = [*map(str, LatencyHistogram.BOUNDS), "+Inf"]
    found.add_metric([], [(bound, count - count % 100) for bound, count in zip(bounds, numbers, strict=True)], None)
    return found


def operations_app(metrics: Metrics, ready: Callable[[], bool]) -> App:
    """Serve ``/livez``, ``/readyz`` and ``/metrics``; health answers give no reason, because anyone may read them."""
    pending: asyncio.Future[bool] | None = None

    async def livez(request: Request) -> Response:
        del request
        return Response(b"ok\n", media_type="text/plain")

    async def readyz(request: Request) -> Response:
        del request
        nonlocal pending
        try:
            # One check at a time: a store that hangs must not use up a thread per request.
            if pending is None or pending.done():
                pending = asyncio.ensure_future(asyncio.to_thread(ready))
            good = await asyncio.wait_for(asyncio.shield(pending), READY_SECONDS)
        except Exception as error:
            log.warning("not ready: %s", safe_message(error))
            good = False
        return Response(b"ok\n" if good else b"no\n", 200 if good else 503, media_type="text/plain")

    async def show(request: Request) -> Response:
        del request
        text = await asyncio.to_thread(generate_latest, metrics.registry)
        return Response(text, media_type="text/plain; version=0.0.4")

    return routed([("GET", "/livez", livez), ("GET", "/readyz", readyz), ("GET", "/metrics", show)])


def disk_free(folder: Path) -> float:
    """Return the free share of the disk, rounded down to 1 %: a finer value would reveal single uploads."""
    usage = shutil.disk_usage(folder)
    return int(100 * usage.free / usage.total) / 100
