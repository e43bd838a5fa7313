"""``python -m tools.mutants [--only TEXT] [--sample N] [--jobs 1]`` plants the mutants and runs the tests on each.

The tree is copied once for every job. First the tests named by the chosen mutants must pass on the sources as they
are; then each mutant gets its own tests, and the area's if those do not fail. The figures are written as flat JSON.
"""

import argparse
import itertools
import json
import os
import queue
import random  # noqa: TID251 (a sample of mutants, not of people)
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.mutants import KINDS, ROOT, Mutant, load

FOLDERS = ("src", "tests", "tools", "docs", "examples", "research", "fuzz", "benchmarks", "clients", "deploy")
FAST = "not long and not slow and not browser and not postgres"
# Exit codes of pytest. If a mutant keeps a module from being imported, a test given by its name is not found.
PASSED, FAILED, INTERRUPTED, NOT_FOUND, NOTHING = 0, 1, 2, 4, 5


def run(tree: Path, tests: Sequence[str], seconds: float) -> tuple[str, str]:
    """Run tests in a copy of the tree; return ``passed``, ``killed`` or ``timeout``, and the first test that failed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", FAST, "-rfE", *tests]
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **single}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # to compile all modules each time takes longer than most tests
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return "timeout", ""
    if done.returncode in (PASSED, NOTHING):
        return "passed", ""
    if done.returncode not in (FAILED, INTERRUPTED, NOT_FOUND):
        raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR ")) and "::" in line]
    return "killed", failed[0].partition(" ")[2].partition(" - ")[0] if failed else ""


def copy_tree(place: Path) -> Path:
    """Copy the repository, without environments and caches, and return the copy."""
    unwanted = shutil.ignore_patterns("__pycache__", "node_modules", ".*", "found", "broken")
    for folder in FOLDERS:
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, place / folder, ignore=unwanted)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, place / path.name)
    return place


class Jobs:
    """Copies of the tree, one for each mutant that is tried at a time."""

    def __init__(self, trees: Sequence[Path], options: argparse.Namespace) -> None:
        self.trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for tree in trees:
            self.trees.put(tree)
        self.options, self._changes = options, itertools.count(1)

    def _touch(self, path: Path) -> None:
        """Give a file a time of its own: compiled files are valid for a size and a second of change."""
        later = time.time() + 10 * next(self._changes)
        os.utime(path, (later, later))

    def attempt(self, mutant: Mutant) -> dict[str, str | float]:
        """Plant one mutant, run the tests, restore the file, and return a flat record of what was seen."""
        tree, begun = self.trees.get(), time.monotonic()
        path = tree / mutant.path
        original, name = path.read_text(), mutant.name(tree)
        try:
            path.write_text(mutant.mutated(tree))
            self._touch(path)
            state, test = run(tree, mutant.tests, self.options.timeout)
            stage = "named"
            if state == "passed" and mutant.kind != "equivalent" and not self.options.named:
                state, test = run(tree, [mutant.area], self.options.area_timeout)
                stage = "area"
        finally:
            path.write_text(original)
            self._touch(path)
            self.trees.put(tree)
        return {
            "mutant": name,
            "kind": mutant.kind,
            "old": mutant.old,
            "new": mutant.new,
            "state": "survived" if state == "passed" else state,
            "stage": stage,
            "test": test,
            "seconds": round(time.monotonic() - begun, 1),
        }


def table(records: Sequence[dict[str, str | float]]) -> str:
    """Return the number of mutants and of killed ones by package and kind; a timeout on a busy machine kills nothing.

    >>> print(table([{"mutant": "bits/coins.py:7", "kind": "material", "state": "killed"}]))
    package                         material     allowance    sharpness    equivalent
    bits                            1/1          -            -            -
    all                             1/1          -            -            -
    """
    counts: dict[tuple[str, str], list[int]] = {}
    for record in records:
        package = str(record["mutant"]).rsplit(":", 1)[0].rpartition("/")[0] or "."
        for row in (package, "~"):
            count = counts.setdefault((row, str(record["kind"])), [0, 0])
            count[0] += record["state"] == "killed"
            count[1] += 1
    lines: list[tuple[str, ...]] = [("package", *KINDS)]
    for row in sorted({row for row, _ in counts}):
        cells = (counts.get((row, kind)) for kind in KINDS)
        lines.append(("all" if row == "~" else row, *(f"{cell[0]}/{cell[1]}" if cell else "-" for cell in cells)))
    return "\n".join(f"{line[0]:<32}" + "".join(f"{cell:<13}" for cell in line[1:]).rstrip() for line in lines)


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """Return the mutants that the options select, after checking that all of them can still be planted."""
    mutants = load()
    for mutant in mutants:
        try:
            mutant.mutated()
        except LookupError as error:
            raise SystemExit(str(error)) from None
    if options.only:
        mutants = [one for one in mutants if any(text in f"{one.name()} {one.kind}" for text in options.only)]
    if options.sample and options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    return mutants


def arguments() -> argparse.Namespace:
    """Return the options."""
    options = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    options.add_argument("--only", nargs="+", metavar="TEXT", help="files (or file:line, or kinds) that contain this")
    options.add_argument("--sample", type=int, metavar="N", help="as many mutants, drawn at random")
    options.add_argument("--seed", type=int, default=0, help="of the sample")
    options.add_argument("--jobs", type=int, default=1, help="mutants tried at a time")
    options.add_argument("--named", action="store_true", help="run the named tests only, not the area's")
    options.add_argument("--timeout", type=float, default=120, metavar="S", help="for the named tests")
    options.add_argument("--area-timeout", type=float, default=900, metavar="S", help="for the area's")
    options.add_argument("--json", type=Path, default=Path("build/mutants.json"), metavar="FILE")
    return options.parse_args()


def main() -> int:
    """Return 0 if every material mutant that was tried is killed."""
    options = arguments()
    mutants = chosen(options)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [copy_tree(Path(folder) / str(i)) for i in range(options.jobs)]
        named = sorted({test for mutant in mutants for test in mutant.tests})
        print(f"{len(mutants)} mutants; first {len(named)} tests on the sources as they are", flush=True)
        state, test = run(trees[0], named, 60 * 60)
        if state != "passed":  # among them that a test does not exist
            print(f"{test or 'the tests'}: {state} without a mutant", file=sys.stderr)
            return 2
        begun, records = time.monotonic(), []
        with ThreadPoolExecutor(options.jobs) as pool:
            for record in pool.map(Jobs(trees, options).attempt, mutants):
                records.append(record)
                rest = (time.monotonic() - begun) / len(records) * (len(mutants) - len(records))
                print(
                    f"{len(records):4}/{len(mutants)}  {rest / 60:5.1f} min left  {record['state']:<9}"
                    f"{record['stage']:<6} {record['kind']:<11} {record['mutant']}  {record['test']}",
                    flush=True,
                )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    print(table(records))
    lived = [record for record in records if record["state"] != "killed" and record["kind"] == "material"]
    for record in lived:
        print(f"{record['state']}: {record['mutant']}\n    {record['old']}\n    {record['new']}")
    return bool(lived)


if __name__ == "__main__":
    sys.exit(main())
