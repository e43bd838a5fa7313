"""Both services under a crowd while they are killed: ``python -m benchmarks.soak [--json] [--reports N] [--kills N]``.

Two ordeals of real processes. In the first, either service is killed by SIGKILL at random moments, its start included,
and now and then stopped by SIGTERM, while 300 000 reports with a value each are sent, a tenth of them once more. In
the second, each service dies at every named point that it reaches, three times over. Nothing may be lost, nothing
counted twice, the books must balance and both stores be whole; anything else is an error and no figure. ``restart_s``
is from the start of a process until it says that it is ready.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.service.harness import ANALYZER_POINTS, KILL, SHUFFLER_POINTS, STOP, Ordeal, Role


def at_random(folder: Path, reports: int, kills: int, seed: int) -> dict[str, Any]:
    """Killed at random moments."""
    half = [KILL] * ((kills + 1) // 2) + [STOP] * (kills // 20)
    ends: dict[Role, list[str]] = {"shuffler": [*half], "analyzer": [*half]}
    for one in ends.values():
        random.Random(f"{seed} {len(one)}").shuffle(one)
    each = min(10_000, reports)
    return Ordeal(
        folder,
        ends,
        reports=reports // each * each,
        tasks=reports // each,
        min_batch_size=min(1000, each // 10),
        rate=100.0,
        life=1.0,
        seed=seed,
        tell=_tell,
    ).run()


def at_points(folder: Path, repeats: int, seed: int) -> dict[str, Any]:
    """Killed at every named point."""
    ends: dict[Role, list[str]] = {"shuffler": SHUFFLER_POINTS * repeats, "analyzer": ANALYZER_POINTS * repeats}
    for one in ends.values():
        random.Random(f"{seed} {len(one)}").shuffle(one)
    return Ordeal(folder, ends, reports=10_000, min_batch_size=50, rate=60.0, seed=seed, tell=_tell).run()


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--reports", type=int, default=300_000)
    parser.add_argument("--kills", type=int, default=100, help="at random moments")
    parser.add_argument("--repeats", type=int, default=3, help="deaths at every named point")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["random", "points"], help="one of the two ordeals")
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        if given.only != "points":
            figures["random"] = at_random(Path(place, "random"), given.reports, given.kills, given.seed)
        if given.only != "random":
            figures["points"] = at_points(Path(place, "points"), given.repeats, given.seed)
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for name, found in figures.items():
        print(name)
        for key, value in found.items():
            print(f"  {key:20} {value}")


if __name__ == "__main__":
    main()
