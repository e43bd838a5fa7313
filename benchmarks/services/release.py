"""Uploads while a large bucket is released and shuffled."""

import contextlib
import signal
import sqlite3
import time
from pathlib import Path

import numpy as np

from benchmarks.services.fill import fill, store_of
from benchmarks.services.load import send_all
from benchmarks.services.processes import Bench, say
from hubbub.service.runtime.workers import Workers

RATE = 1000.0
"""Uploads per second: a fifth of what the shuffler stores at most."""
CONNECTIONS = 64
QUIET_SECONDS = 20.0
_PROGRESS = "SELECT state, EXISTS (SELECT 1 FROM blocks WHERE bucket = 1) FROM buckets WHERE bucket = 1"


def measure_release(folder: Path, workers: Workers, scale: float) -> dict[str, object]:
    """Figure latencies under a constant load, before and while a bucket of a million slots is released.

    The last uploads before the release make the bucket large enough for it. It ends when the batch is ready
    to be delivered and the bundles it was made of are deleted. The analyzer is stopped meanwhile: in practice, it has a
    machine to itself.
    """
    slots, quiet = int(1_000_000 * scale), max(QUIET_SECONDS * scale**0.5, 2.0)
    with Bench(folder, workers, max_batch_size=slots).running() as bench:
        key = bench.keys()[0]
        bench.stop("shuffler")
        fill(bench, slots - int(RATE * quiet), key)
        bench.start("shuffler")
        bundles = bench.sealed(int(RATE * (quiet + max(60 * scale, 10.0))))
        analyzer = bench.processes["analyzer"]
        analyzer.send_signal(signal.SIGSTOP)
        times: dict[str, float] = {}

        def watch() -> bool:
            """Note when the bucket has been sealed, and when its blocks have been deleted; True a little later."""
            state, left = store.execute(_PROGRESS).fetchone()
            times.setdefault("done" if state == "shuffled" and not left else state, time.perf_counter())
            return "done" in times and time.perf_counter() > times["done"] + 0.2

        try:
            with contextlib.closing(sqlite3.connect(store_of(bench))) as store:
                load = send_all([bench.url], bench.path(), bundles, 1, CONNECTIONS, rate=RATE, watch=watch)
        finally:
            analyzer.send_signal(signal.SIGCONT)
        assert load.refused == 0
        begun, ended, latencies = np.array(load.begun), np.array(load.ended), load.latencies()
        assert "done" in times, "the load ended before the release"
        sealed, done = times["sealed"], times["done"]
        # The first second is that of new connections.
        before = latencies[(ended < sealed) & (begun > times["open"] + 1)]
        during = latencies[(ended >= sealed) & (begun < done)]
        p99 = [1e3 * float(np.quantile(one, 0.99)) for one in (before, during)]
        say(f"release: p99 {p99[0]:.1f} ms before, {p99[1]:.1f} ms during {done - sealed:.1f} s")
        return {
            "release_slots": slots,
            "release_s": done - sealed,
            "release_quiet_p99_ms": p99[0],
            "release_p99_ms": p99[1],
            "release_p99_ratio": p99[1] / p99[0],
        }
