"""All processes killed repeatedly under load: ``python -m benchmarks.soak [--json] [--reports N] [--kills N]``.

Three crash tests of real processes, which send reports with distinct values, a fifth of them twice:

- ``postgres_``: two processes that accept uploads, two workers and the analyzer on a private PostgreSQL server. Each is
  killed by SIGKILL at random moments, including during its start, and sometimes stopped by SIGTERM; those that accept
  uploads also die at their failpoints. The server is restarted, every second time by SIGKILL. Both keys are rotated,
  and in the middle the shuffler's database is replaced by an older backup.
- ``sqlite_``: the same with one process of each service, on SQLite.
- ``points_``: one process of each service dies at every failpoint that it reaches, those of a restored store included.

Nothing may be counted twice. Nothing may be lost but what the backup does not know: ``in_gaps`` of these bundles were
acknowledged before the restore and not delivered, and a signed gap names their buckets; ``uncertain`` answers told the
clients that it is unknown whether their reports were counted. Every other bundle must be accounted for, and the stores
must be intact; anything else is an error. Figures are flat; those without a prefix are sums over all crash tests.
``restart_s`` is the time from the start of a process until it is ready.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.service.crash import (
    ANALYZER_POINTS,
    BACKUP,
    DATABASE,
    INTAKE_POINTS,
    KILL,
    RESTORE,
    RESTORE_POINTS,
    ROTATE,
    SHUFFLER_POINTS,
    STOP,
    CrashTest,
)
from tests.service.postgres_server import BINARIES, PostgresServer

VALUES_PER_TASK = 20_000
REPLICAS = ("intake-1", "intake-2", "worker-1", "worker-2", "analyzer")
SUMS = (
    *("reports", "deaths", "kills", "database_restarts", "rotations", "restores", "lost", "doubled"),
    *("in_gaps", "uncertain", "conservation_error", "seconds"),
)
_LINE_SECONDS = 30.0
Show = Callable[[str], None]


def happenings(name: str, kills: int, points: list[str], chance: random.Random, *, backup: bool) -> list[str]:
    """Return what happens to a process: kills, stops, failpoints and rotations in random order, around one restore."""
    mixed = [*[KILL] * kills, *[STOP] * (kills // 25), *points, *[ROTATE] * 4]
    chance.shuffle(mixed)
    if name == "analyzer":
        return mixed
    middle = len(mixed) // 2
    saved = [BACKUP] if backup else []
    # The backup is older than the restore by a few deaths of this process, and many of the others.
    before = max(0, middle - 1 - len(mixed) // 20)
    return [*mixed[:before], *saved, *mixed[before:middle], RESTORE, *mixed[middle:]]


def crash_test(folder: Path, ends: dict[str, list[str]], reports: int, seed: int, show: Show) -> CrashTest:
    """Return a test with tasks of up to :data:`VALUES_PER_TASK` values."""
    each = min(VALUES_PER_TASK, reports)
    tasks = reports // each
    size = max(50, min(1000, each // 10))
    rounded = each * tasks
    return CrashTest(
        *(folder, ends, rounded, tasks),
        min_batch_size=size,
        epoch=2,
        rate=100.0,
        life=1.0,
        seed=seed,
        lease=5.0,
        patience=20.0,
        progress=show,
    )


def on_postgres(folder: Path, reports: int, kills: int, seed: int, show: Show) -> dict[str, Any]:
    """Run replicas on a server under the folder, and restart the server at least ten times."""
    chance = random.Random(seed)
    ends = {}
    for number, name in enumerate(REPLICAS):
        share = (kills + len(REPLICAS) - 1) // len(REPLICAS)
        points = INTAKE_POINTS if name.startswith("intake") and share > len(INTAKE_POINTS) else []
        ends[name] = happenings(name, share, points, chance, backup=number == 0)
    ends[DATABASE] = [STOP, KILL] * max(5, kills // 80)
    with PostgresServer(folder.with_name("server")).running() as server:
        test = crash_test(folder, ends, reports, seed, show)
        test.server = server
        return test.run()


def on_sqlite(folder: Path, reports: int, kills: int, seed: int, show: Show) -> dict[str, Any]:
    """Run one process of each service."""
    chance = random.Random(seed)
    both = ("shuffler", "analyzer")
    ends = {name: happenings(name, (kills + 1) // 2, [], chance, backup=True) for name in both}
    return crash_test(folder, ends, reports, seed, show).run()


def at_points(folder: Path, repeats: int, seed: int, show: Show) -> dict[str, Any]:
    """Kill one process of each service at every failpoint."""
    ends = {"shuffler": SHUFFLER_POINTS * repeats, "analyzer": ANALYZER_POINTS * repeats}
    for one in ends.values():
        random.Random(f"{seed} {len(one)}").shuffle(one)
    for point in RESTORE_POINTS * repeats:
        ends["shuffler"] += [BACKUP, KILL, point]
    return CrashTest(folder, ends, reports=10_000, min_batch_size=50, rate=60.0, seed=seed, progress=show).run()


class Progress:
    """The progress of a crash test: one line that changes on a terminal, otherwise a line from time to time."""

    def __init__(self, name: str) -> None:
        self._name, self._shown = name, 0.0

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{self._name}: {text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._shown > _LINE_SECONDS:
            self._shown = time.monotonic()
            print(f"{self._name}: {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--reports", type=int, default=1_000_000, help="reports on both stores together")
    parser.add_argument("--kills", type=int, default=1000, help="kills at random moments on both stores together")
    parser.add_argument("--repeats", type=int, default=1, help="deaths at every failpoint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["postgres", "sqlite", "points"], help="run one of the three crash tests")
    parser.add_argument("--folder", type=Path, help="folder for the logs and stores; it must not exist, and is kept")
    given = parser.parse_args()
    if given.only in (None, "postgres") and not BINARIES:
        parser.error("a PostgreSQL server must be installed; --only sqlite and --only points do without")
    reports, kills = given.reports // 2, given.kills // 2
    tests: dict[str, Callable[[Path, Show], dict[str, Any]]] = {
        "postgres": lambda folder, show: on_postgres(folder, reports, kills, given.seed, show),
        "sqlite": lambda folder, show: on_sqlite(folder, reports, kills, given.seed, show),
        "points": lambda folder, show: at_points(folder, given.repeats, given.seed, show),
    }
    figures: dict[str, Any] = {}
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        place = given.folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=given.folder is None)
        # The user of the PostgreSQL server has to reach its folder.
        place.chmod(0o755)
        for name, test in tests.items():
            if given.only in (None, name):
                found.append(test(place / name, Progress(name)))
                figures |= {f"{name}_{key}": value for key, value in found[-1].items()}
    sums = {name: round(sum(one[name] for one in found), 1) for name in SUMS}
    if given.json:
        print(json.dumps(sums | figures, indent=2))
        return
    for name, value in (sums | figures).items():
        print(f"{name:36} {value}")


if __name__ == "__main__":
    main()
