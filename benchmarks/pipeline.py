"""A whole collection, streamed: ``python -m benchmarks.pipeline [--json] [--quick]``.

Ten million records of 40 bits go through randomize → shuffle → tally → estimate in blocks, the shuffle through files;
``records_per_s`` is by the clock on the wall, ``peak_gib`` the largest memory that the process ever had. The peers do
the same per record, on fewer of them, with statistical instead of secure randomness: plain numpy on bytes, and the
unary encoding of two libraries with one record at a time, summed up and estimated. Ratios of CPU time say how many
times faster hubbub is. A peer that is not installed gives ``null``; nothing is ever installed from here.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import hubbub as hb
from benchmarks.bits import multi_freq_flip, pure_ldp_flip
from hubbub.bits.records import uniform_records
from hubbub.shuffler import shuffle_blocks

Figures = dict[str, float | None]

FLIP = 0.1778
WIDTH = 40
BLOCK = 1 << 19


def pipeline(plan: hb.Plan) -> hb.Estimate:
    """The pipeline in blocks; what the people hold is drawn as it goes."""
    schema, n = plan.schema, plan.n

    def reports() -> Iterator[hb.Reports]:
        for start in range(0, n, BLOCK):
            records = uniform_records(min(BLOCK, n - start), WIDTH)
            yield hb.randomize(hb.Collection.from_packed(records, schema), plan)

    return hb.estimate(hb.tally(shuffle_blocks(reports(), plan, tempfile.TemporaryFile)), plan)


def by_numpy(n: int) -> None:
    generator = np.random.default_rng(1)
    records = generator.random((n, WIDTH)) < 0.5
    flipped = records ^ (generator.random((n, WIDTH)) < FLIP)
    counts = flipped[generator.permutation(n)].sum(axis=0)
    (counts - n * FLIP) / (1 - 2 * FLIP)


def one_by_one(client: Callable[[int], object], n: int) -> None:
    rows = np.array([client(item % WIDTH) for item in range(n)])
    (rows[np.random.default_rng(1).permutation(n)].sum(axis=0) - n * FLIP) / (1 - 2 * FLIP)


def cpu(work: Callable[[], object], units: int, repetitions: int = 3) -> float:
    """Seconds of CPU time per unit, the best of some repetitions."""
    found = math.inf
    for _ in range(repetitions):
        start = time.process_time()
        work()
        found = min(found, time.process_time() - start)
    return found / units


def measure(n: int) -> Figures:
    plan = hb.plan_from(hb.Schema.bits(WIDTH), n, hb.Protocol(FLIP), epsilon=100.0)
    started, spent = time.perf_counter(), time.process_time()
    pipeline(plan)
    wall, own = time.perf_counter() - started, (time.process_time() - spent) / n
    # Not the maximum of getrusage: Linux lets a new process begin with that of its parent.
    status = Path("/proc/self/status").read_text()
    peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 2**20
    few = min(n, 20_000)
    clients = {"vs_pure_ldp": pure_ldp_flip(), "vs_multi_freq_ldpy": multi_freq_flip()}
    figures: Figures = {"records_per_s": n / wall, "vs_numpy": cpu(lambda: by_numpy(n // 20), n // 20) / own}
    for name, client in clients.items():
        figures[name] = None if client is None else cpu(lambda c=client: one_by_one(c, few), few) / own  # type: ignore[misc]
    return figures | {"peak_gib": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one flat object instead of lines")
    parser.add_argument("--quick", action="store_true", help="a million records instead of ten")
    asked = parser.parse_args()
    figures = measure(10**6 if asked.quick else 10**7)
    if asked.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:20} {'not installed' if value is None else f'{value:.4g}'}")


if __name__ == "__main__":
    main()
