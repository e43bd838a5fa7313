"""A batch of ten million slots: memory, and the cost of a report in a store of that size."""

import contextlib
import sqlite3
import time
from pathlib import Path

from benchmarks.services.fill import fill, store_of
from benchmarks.services.load import send_all
from benchmarks.services.processes import Bench, cpu_seconds, peak_memory, say
from hubbub.service.runtime.workers import Workers

SMALL, LARGE = 10**5, 10**7
UPLOADS = 50_000
"""Uploads that complete a bucket, in requests of 100."""


def measure_scale(folder: Path, workers: Workers, scale: float) -> dict[str, object]:
    """Take a batch of 10⁵ slots and one of 10⁷ through both services, each in a store with no other reports.

    The store is filled directly, except for the last 50 000 reports. Their uploads, and the release, shuffle, delivery
    and count of the whole batch, are measured in CPU time of all processes of both services.
    """
    figures: dict[str, object] = {}
    costs: dict[str, tuple[float, float]] = {}
    for name, slots in (("1e5", int(SMALL * scale**0.5)), ("1e7", int(LARGE * scale))):
        uploads = min(UPLOADS, slots // 2)
        with Bench(folder / name, workers, max_batch_size=slots).running() as bench:
            key = bench.keys()[0]
            bench.stop("shuffler")
            say(f"scale: filling a store with {slots - uploads:,} reports")
            fill(bench, slots - uploads, key)
            bench.start("shuffler")
            costs[name] = _take_through(bench, slots, uploads, figures if name == "1e7" else {})
    uploaded, counted = ([costs[name][place] for name in ("1e5", "1e7")] for place in (0, 1))
    return {
        **figures,
        "cost_upload_us_1e5": 1e6 * uploaded[0],
        "cost_upload_us_1e7": 1e6 * uploaded[1],
        "cost_batch_us_1e5": 1e6 * counted[0],
        "cost_batch_us_1e7": 1e6 * counted[1],
        "cost_growth_1e5_1e7": (uploaded[1] + counted[1]) / (uploaded[0] + counted[0]),
    }


def _take_through(bench: Bench, slots: int, uploads: int, figures: dict[str, object]) -> tuple[float, float]:
    """Upload the last reports and wait for the result; return the CPU seconds per upload and per slot of the batch."""
    pids = [process.pid for process in bench.processes.values()]
    bundles = bench.sealed(uploads)
    # All but the last one first, so that the release does not run during the uploads.
    before = cpu_seconds(pids)
    load = send_all([bench.url], bench.path(), bundles[:-100], 100, 64)
    upload = (cpu_seconds(pids) - before) / load.stored
    say(f"scale: {1e6 * upload:.1f} µs of CPU time per upload with {slots:,} reports stored")
    before, begun = cpu_seconds(pids), time.perf_counter()
    assert bench.post(bundles[-100:].tobytes()).status_code == 201
    _wait_for_result(bench, begun)
    batch = (cpu_seconds(pids) - before) / slots
    (result,) = bench.results()
    assert result["people"] == slots
    assert not result["rejected"]
    figures |= {
        "batch_1e7_slots": slots,
        "batch_1e7_s": time.perf_counter() - begun,
        "batch_1e7_peak_gib": peak_memory(pids),
        "batch_1e7_people": result["people"],
    }
    return upload, batch


def _wait_for_result(bench: Bench, begun: float) -> None:
    """Wait until the batch is counted, and report progress every minute."""
    said = begun
    with (
        contextlib.closing(sqlite3.connect(store_of(bench), timeout=60)) as shuffler,
        contextlib.closing(sqlite3.connect(bench.folder / "analyzer" / "analyzer.db", timeout=60)) as analyzer,
    ):
        while True:
            time.sleep(0.5)
            found = analyzer.execute("SELECT state, chunk_count FROM batches").fetchall()
            if found and found[0][0] != "arriving":
                return
            if time.perf_counter() - said < 60:
                continue
            said = time.perf_counter()
            if not found:
                ((state, chunks),) = shuffler.execute(
                    "SELECT b.state, (SELECT COUNT(*) FROM outbox) FROM buckets b WHERE bucket = 1"
                ).fetchall()
                say(f"scale: bucket {state}, {chunks} chunks written, {said - begun:.0f} s")
                continue
            ((counted,),) = analyzer.execute("SELECT COUNT(*) FROM partial_tallies").fetchall()
            left = (said - begun) * (found[0][1] / max(counted, 1) - 1)
            say(f"scale: {counted} of {found[0][1]} chunks counted, {said - begun:.0f} s, at most {left:.0f} s left")
