"""Both services killed repeatedly under load: ``python -m benchmarks.soak [--json] [--reports N] [--kills N]``.

Two crash tests of real processes. In the first, either service is killed by SIGKILL at random moments, including during
its start, and sometimes stopped by SIGTERM, while 300 000 reports with distinct values are sent, a tenth of them twice.
In the second, each service dies three times at every failpoint that it reaches. Nothing may be lost or counted twice,
every bundle must be accounted for, and both stores must be intact; anything else is an error. Figures are flat, with
the prefix ``random_`` or ``points_``; ``restart_s`` is the time from the start of a process until it is ready.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.service.crash import ANALYZER_POINTS, KILL, SHUFFLER_POINTS, STOP, CrashTest

from hubbub.service.provision import Role


def at_random(folder: Path, reports: int, kills: int, seed: int) -> dict[str, Any]:
    """Kill the services at random moments."""
    half = [KILL] * ((kills + 1) // 2) + [STOP] * (kills // 20)
    ends: dict[Role, list[str]] = {"shuffler": [*half], "analyzer": [*half]}
    for one in ends.values():
        random.Random(f"{seed} {len(one)}").shuffle(one)
    each = min(10_000, reports)
    return CrashTest(
        folder,
        ends,
        reports=reports // each * each,
        tasks=reports // each,
        min_batch_size=min(1000, each // 10),
        rate=100.0,
        life=1.0,
        seed=seed,
        progress=_show,
    ).run()


def at_points(folder: Path, repeats: int, seed: int) -> dict[str, Any]:
    """Kill the services at every failpoint."""
    ends: dict[Role, list[str]] = {"shuffler": SHUFFLER_POINTS * repeats, "analyzer": ANALYZER_POINTS * repeats}
    for one in ends.values():
        random.Random(f"{seed} {len(one)}").shuffle(one)
    return CrashTest(folder, ends, reports=10_000, min_batch_size=50, rate=60.0, seed=seed, progress=_show).run()


def _show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--reports", type=int, default=300_000)
    parser.add_argument("--kills", type=int, default=100, help="kills at random moments")
    parser.add_argument("--repeats", type=int, default=3, help="deaths at every failpoint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["random", "points"], help="run one of the two crash tests")
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        if given.only != "points":
            found = at_random(Path(place, "random"), given.reports, given.kills, given.seed)
            figures |= {f"random_{name}": value for name, value in found.items()}
        if given.only != "random":
            found = at_points(Path(place, "points"), given.repeats, given.seed)
            figures |= {f"points_{name}": value for name, value in found.items()}
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:36} {value}")


if __name__ == "__main__":
    main()
