"""Uploads: SQLite, PostgreSQL, overload, and several processes that accept uploads into one store."""

import statistics
import time
from pathlib import Path

import numpy as np

from benchmarks.services.load import Load, send_all
from benchmarks.services.processes import Bench, cpu_seconds, postgres, say, slow_commits
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.runtime.workers import Job, Workers
from hubbub.service.task import sealing

COPIES = plan_from(Schema.one_hot(100), 1000, Protocol(0.2, k=4), delta=1e-6)
FEW, SOME, TOO_MANY = 64, 256, 1000
"""Simultaneous connections: for hundreds, for singles, and for overload."""
LATENCY = 0.005
"""Seconds that a commit takes in addition."""
PER_PROCESS = 8
"""Connections per process where latency is the limit."""


def opening_limit(workers: Workers, bench: Bench, count: int) -> float:
    """Return the items per second that two processes open if they do nothing else.

    The items are of the size of a bundle, sealed with the suite of the contract.
    """
    suite, size = bench.contract.suite, bench.contract.bundle_size
    private, public = sealing.generate(suite)
    overhead = sealing.SUITES[suite].enc + 16
    sealed = workers.seal(
        Job(suite=suite, key=public, info=b"", size=size - overhead), bytes(count * (size - overhead))
    )
    job = Job(suite=suite, key=private, info=b"", size=size)
    begun = time.perf_counter()
    workers.open(job, sealed)
    return count / (time.perf_counter() - begun)


def measure_sqlite(folder: Path, workers: Workers, scale: float) -> dict[str, object]:
    """Figure the shuffler on SQLite: singles, hundreds, and a thousand connections of hundreds."""
    singles, hundreds = int(60_000 * scale), int(100_000 * scale)
    with Bench(folder, workers).running() as bench:
        send = Sender(bench, [bench.url])
        warm = send(1000, 1, 8)
        one = send(singles, 1, SOME)
        say(f"sqlite: {one.rate:.0f} singles/s")
        limits = [opening_limit(workers, bench, hundreds // 2)]
        many: list[Load] = []
        over: list[Load] = []
        for _ in range(2):
            many.append(send(hundreds, 100, FEW))
            over.append(send(hundreds, 100, TOO_MANY))
            limits.append(opening_limit(workers, bench, hundreds // 2))
            say(f"sqlite: {many[-1].rate:.0f} of {limits[-1]:.0f} in hundreds, {over[-1].rate:.0f} under overload")
        counts = bench.counts()
        rate = statistics.mean(load.rate for load in many)
        statuses = sum((load.statuses for load in over), start=type(warm.statuses)())
        return {
            "bundle_bytes": bench.contract.bundle_size,
            "sqlite_singles_per_s": one.rate,
            "p50_ms": 1e3 * statistics.median(one.latencies()),
            "p99_ms": 1e3 * float(np.quantile(one.latencies(), 0.99)),
            "sqlite_hundreds_per_s": rate,
            "open_limit_per_s": statistics.mean(limits),
            "sqlite_hundreds_vs_open_limit": rate / statistics.mean(limits),
            **{f"overload_status_{status}": count for status, count in sorted(statuses.items())},
            "overload_share": statistics.mean(load.rate for load in over) / rate,
            "other_statuses": sum(load.refused for load in (one, *many)),
            "acknowledged": sum(load.stored for load in (warm, one, *many, *over)),
            "accepted": counts["accepted"],
            "conservation_error": counts["error"],
        }


def measure_copies(folder: Path, workers: Workers, scale: float) -> dict[str, object]:
    """Figure the shuffler with four copies per person."""
    with Bench(folder, workers, plan=COPIES).running() as bench:
        send = Sender(bench, [bench.url])
        send(1000, 100, 8)
        load = send(int(50_000 * scale), 100, FEW)
        return {
            "copies_bundle_bytes": bench.contract.bundle_size,
            "copies_bundles_per_s": load.rate,
            "copies_reports_per_s": load.rate * bench.contract.slots,
        }


def measure_postgres(folder: Path, workers: Workers, scale: float) -> dict[str, object]:
    """Figure one shuffler process that does everything on PostgreSQL."""
    with postgres(folder / "postgres") as (url, _), Bench(folder, workers, store=url).running() as bench:
        send = Sender(bench, [bench.url])
        send(1000, 1, 8)
        one, many = send(int(30_000 * scale), 1, SOME), send(int(100_000 * scale), 100, FEW)
        assert bench.counts()["error"] == 0
        return {"postgres_singles_per_s": one.rate, "postgres_hundreds_per_s": many.rate}


def measure_replicas(folder: Path, workers: Workers, scale: float) -> dict[str, object]:
    """Compare two processes that accept uploads with one: CPU time under load, and throughput with slow commits.

    CPU time is that of these processes, their workers and PostgreSQL, for the same load in both cases: singles on 256
    connections, and hundreds on 64; the worse of the two ratios counts. With slow commits, every process has the same
    number of clients, few enough that the processors are idle most of the time.
    """
    figures: dict[str, object] = {}
    singles, hundreds = int(20_000 * scale), int(60_000 * scale)
    with (
        postgres(folder / "postgres") as (url, server),
        Bench(folder, workers, store=url, role="worker").running() as bench,
        bench.more_intakes(2) as both,
    ):
        pids = [*bench.pids(), server]
        send = Sender(bench, both)
        send(2000, 1, 16)
        spent: dict[tuple[int, str], list[float]] = {}
        for turn in range(4):
            # In turns, in both orders: whatever grows or changes meanwhile affects both.
            for processes in (1, 2) if turn % 2 else (2, 1):
                for kind, count, size, connections in (
                    ("singles", singles, 1, SOME),
                    ("hundreds", hundreds, 100, FEW),
                ):
                    bundles = bench.sealed(count // 4)
                    before = cpu_seconds(pids)
                    load = send_all(both[:processes], bench.path(), bundles, size, connections)
                    cost = (cpu_seconds(pids) - before) / load.stored
                    assert load.refused == 0, load.statuses
                    spent.setdefault((processes, kind), []).append(cost)
        for kind in ("singles", "hundreds"):
            one, two = (statistics.mean(spent[processes, kind]) for processes in (1, 2))
            figures[f"intake_1_{kind}_cpu_us"], figures[f"intake_2_{kind}_cpu_us"] = 1e6 * one, 1e6 * two
            figures[f"intake_2_{kind}_cpu_ratio"] = two / one
        ratios = [float(str(figures[f"intake_2_{kind}_cpu_ratio"])) for kind in ("singles", "hundreds")]
        figures["intake_2_cpu_ratio"] = max(ratios)
        say(f"replicas: CPU time × {ratios[0]:.3f} for singles, × {ratios[1]:.3f} for hundreds")
        slow_commits(url, LATENCY)
        rates: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(4):
            for processes in (1, 2) if turn % 2 else (2, 1):
                bundles = bench.sealed(int(1500 * scale) * processes)
                load = send_all(both[:processes], bench.path(), bundles, 1, processes * PER_PROCESS)
                rates[processes].append(load.rate)
        assert bench.counts()["error"] == 0
    one, two = (statistics.mean(rates[processes]) for processes in (1, 2))
    say(f"replicas: {one:.0f} and {two:.0f} singles/s with slow commits")
    return {**figures, "intake_1_latency_per_s": one, "intake_2_latency_speedup": two / one}


class Sender:
    """Seals new bundles and sends them."""

    def __init__(self, bench: Bench, urls: list[str]) -> None:
        self._bench, self._urls = bench, urls

    def __call__(self, count: int, per_request: int, connections: int) -> Load:
        return send_all(self._urls, self._bench.path(), self._bench.sealed(count), per_request, connections)
