"""The running services under load: ``python -m benchmarks.services [--json] [--quick] [--only NAME,…]``.

The services run as processes, with their stores on the disk under ``--folder``; the client shares the machine with
them. A bundle counts once its response has arrived, which the shuffler sends after the commit is synced. Bundles are
sealed beforehand, and every one is new. All figures are flat; ``--only`` measures the parts that give the named ones.

- ``sqlite_singles_per_s``: bundles stored per second on SQLite, one per request, on 256 persistent connections;
  ``p50_ms`` and ``p99_ms`` are the latencies of these requests. ``sqlite_hundreds_per_s``: the same in requests of 100
  on 64 connections; ``sqlite_hundreds_vs_open_limit`` relates it to ``open_limit_per_s``, the number of items of a
  bundle's size that two processes open per second if they do nothing else.
- ``overload_…``: requests of 100 on a thousand connections, repeated when they are refused: responses by status, and
  ``overload_share``, the rate at which bundles are still stored relative to ``sqlite_hundreds_per_s``.
- ``copies_…``: requests of 100 bundles of four reports each, the copies of one person.
- ``postgres_singles_per_s``, ``postgres_hundreds_per_s``: one process on PostgreSQL, which syncs every commit.
- ``intake_2_cpu_ratio``: CPU time per report of two processes that accept uploads over that of one, PostgreSQL
  included, for singles or hundreds, whichever is worse. ``intake_2_latency_speedup``: throughput of two processes over
  that of one if every commit takes 5 ms longer and each process has eight clients.
- ``release_p99_ratio``: 99th percentile of the latency of uploads while a bucket of a million slots is released and
  shuffled, over that before.
- ``batch_1e7_…``: a batch of ten million slots is released, shuffled, delivered and counted; ``batch_1e7_peak_gib`` is
  the largest resident memory of any process. ``cost_growth_1e5_1e7``: CPU time per report, of uploads into a store of
  that size, of the release and of counting, for 10⁷ stored slots over that for 10⁵.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.services import intake, release, scale
from benchmarks.services.processes import say
from hubbub.service.runtime.workers import Workers

Figure = Callable[[Path, Workers, float], dict[str, object]]
PARTS: Mapping[str, tuple[Figure, tuple[str, ...]]] = {
    "sqlite": (
        intake.measure_sqlite,
        ("sqlite_singles_per_s", "sqlite_hundreds_per_s", "sqlite_hundreds_vs_open_limit", "overload_share"),
    ),
    "copies": (intake.measure_copies, ("copies_bundles_per_s",)),
    "postgres": (intake.measure_postgres, ("postgres_singles_per_s", "postgres_hundreds_per_s")),
    "replicas": (intake.measure_replicas, ("intake_2_cpu_ratio", "intake_2_latency_speedup")),
    "release": (release.measure_release, ("release_p99_ratio",)),
    "scale": (scale.measure_scale, ("batch_1e7_peak_gib", "cost_growth_1e5_1e7")),
}
"""The parts of the benchmark, and the figures by which ``--only`` finds them."""
QUICK = 0.02
"""Share of the usual sizes that ``--quick`` uses."""


def selected(names: str) -> list[str]:
    """Return the parts that give the named figures; all if no name is given.

    >>> selected("overload_share,release_p99_ratio"), len(selected(""))
    (['sqlite', 'release'], 6)
    """
    asked = {name for name in names.split(",") if name}
    unknown = asked - {name for _, figures in PARTS.values() for name in figures}
    if unknown:
        raise SystemExit(f"unknown figures: {', '.join(sorted(unknown))}")
    return [part for part, (_, figures) in PARTS.items() if not asked or asked & set(figures)]


def measure(parts: list[str], folder: Path, size: float) -> dict[str, object]:
    """Figure these parts, each in a folder of its own."""
    figures: dict[str, object] = {}
    with Workers(2) as workers:
        for part in parts:
            say(f"measuring {part}")
            with tempfile.TemporaryDirectory(prefix="hubbub-", dir=folder) as place:
                figures |= PARTS[part][0](Path(place) / part, workers, size)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="use fiftieths of the usual sizes")
    parser.add_argument("--only", default="", help="figures to measure, separated by commas; default: all")
    parser.add_argument("--folder", type=Path, help="folder of the stores; default: the folder for temporary files")
    given = parser.parse_args()
    figures = measure(selected(given.only), given.folder, QUICK if given.quick else 1.0)
    if given.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        print(f"{name:32s} {value}")


if __name__ == "__main__":
    main()
