"""Grids of plans on populations: run over several processes, kept line by line, and taken up again where they stopped.

Results are JSON lines: a header, and then one object for each question that was planned and each cell that was run,
under a digest of all that it depends on. Nothing is reused for another grid, seed or version: its digest differs.
"""

import contextlib
import itertools
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hubbub import __version__
from hubbub.errors import HubbubError, Infeasible, WireError, check_whole, reject
from hubbub.lab.cells import Cell, Level, Row, digest, level_of, measure
from hubbub.lab.populations import Given, Population
from hubbub.planner import central_stderr, frontier
from hubbub.plans import MAX_PEOPLE, Plan
from hubbub.privacy import Budget
from hubbub.schema import Schema

HEADER = b'{"format":"hubbub study 1"}\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What a study asks: every protocol of every schema, size and budget, or given plans, on every population.

    >>> grid = Grid(schemas=(Schema.bits(2),), sizes=(500, 1000), budgets=(Budget(1.0, 1e-6),))
    >>> len(grid.questions()), grid.repetitions
    (2, 50)
    """

    schemas: tuple[Schema, ...] = ()
    sizes: tuple[int, ...] = ()
    """Of the crowds; for given plans, if none is said, as many people as each plan needs."""
    budgets: tuple[Budget, ...] = ()
    plans: tuple[Plan, ...] = ()
    populations: tuple[Population | Given, ...] = (Population(exponent=1.0),)
    repetitions: int = 50
    level: Level | None = None
    """None: records where they are cheap, counts otherwise."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.populations:
            reject("populations", "be at least one", "none")
        if bool(self.plans) == bool(self.schemas and self.sizes and self.budgets):
            reject("a grid", "have plans, or else schemas, sizes and budgets", "both or neither")
        check_whole("seed", self.seed)
        check_whole("repetitions", self.repetitions, 10)
        for n in self.sizes:
            check_whole("n", n, 1, MAX_PEOPLE)

    def questions(self) -> list[tuple[Schema, int, Budget]]:
        """What the planner is asked."""
        if self.plans:
            return []
        return list(dict.fromkeys(itertools.product(self.schemas, self.sizes, self.budgets)))

    def references(self) -> dict[tuple[str, int, float], float]:
        """σ of a trusted server, for what :func:`hubbub.lab.study_page.study_page` compares."""
        return {
            (repr(schema).removeprefix("Schema."), n, budget.epsilon): central_stderr(schema, budget)
            for schema, n, budget in self.questions()
        }

    def cells(self, planned: Sequence[Plan]) -> list[Cell]:
        """Every plan on every population, once."""
        found: dict[str, Cell] = {}
        for plan in [*planned, *self.plans]:
            sizes = self.sizes if self.plans and self.sizes else (plan.n,)
            for n, population in itertools.product(sizes, self.populations):
                level = self.level or level_of(plan, n, self.repetitions)
                cell = Cell(
                    plan=plan,
                    population=population.without_records()
                    if isinstance(population, Given) and level == "counts"
                    else population,
                    n=n,
                    repetitions=self.repetitions,
                    level=level,
                    seed=self.seed,
                )
                found.setdefault(cell.key, cell)
        return list(found.values())


class Results:
    """What is known already, and a file that remembers it; without a path, for this run only."""

    __slots__ = ("_known", "_path")

    def __init__(self, path: Path | None, known: dict[str, Any]) -> None:
        self._path, self._known = path, known

    @classmethod
    def open(cls, path: Path | None, *, fresh: bool = False) -> Self:
        """Read a file of results; a line that was cut off in the end is removed, any other damage is refused."""
        if path is None:
            return cls(None, {})
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        # Whatever else this file may be, it is not ours to write to.
        if not (data.startswith(HEADER) or HEADER.startswith(data)):
            raise WireError("a file of results must begin as `hubbub study` begins it, got another")
        if fresh or not whole:
            path.write_bytes(HEADER)
            return cls(path, {})
        known = {}
        for number, line in enumerate(whole.splitlines()[1:], 2):
            try:
                entry = json.loads(line)
                known[str(entry["key"])] = entry["value"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise WireError(f"line {number:,} of a file of results must be an entry, got something else") from None
        if len(whole) < len(data):
            with path.open("r+b") as file:
                file.truncate(len(whole))
        return cls(path, known)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> Any:
        return self._known[key]

    def add(self, key: str, value: Any) -> None:
        """Remember; one write, so that an interruption cuts off one line at most."""
        self._known[key] = value
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(json.dumps({"key": key, "value": value}, separators=(",", ":")).encode() + b"\n")


def processors() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    grid: Grid,
    results: Results | None = None,
    *,
    jobs: int = 1,
    tell: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Row]:
    """The rows of a grid, in its order; ``tell`` hears what is being done, how much of it is, and of how much.

    What ``results`` hold is not run again. With several ``jobs`` the work is spread over as many fresh processes, so
    that scripts call this under ``if __name__ == "__main__"``. The records of given people stay in this process.

    >>> grid = Grid(
    ...     schemas=(Schema.bits(2),), sizes=(500,), budgets=(Budget(1.0, 1e-6),), repetitions=20, level="counts"
    ... )
    >>> rows = run(grid)
    >>> len(rows) >= 5, all(0.5 < row.ratio < 1.5 for row in rows)
    (True, True)
    """
    results = results or Results.open(None)
    with _workers(check_whole("jobs", jobs, 1)) as each:
        planned = _planned(grid, results, each, tell)
        cells = grid.cells(planned)
        if not cells:
            raise Infeasible("no protocol meets any of the budgets")
        missing = [cell for cell in cells if cell.key not in results]
        done = len(cells) - len(missing)
        tell("simulating", done, len(cells))
        kept = [cell for cell in missing if isinstance(cell.population, Given) and cell.population.records is not None]
        sent = [cell for cell in missing if cell not in kept]
        for row in itertools.chain(each(measure, sent), map(measure, kept)):
            results.add(row.key, row.record())
            done += 1
            tell("simulating", done, len(cells))
    return [Row.read(results[cell.key]) for cell in cells]


Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]


def _planned(grid: Grid, results: Results, each: Each, tell: Callable[[str, int, int], None]) -> list[Plan]:
    """The plans of all questions, from the file or from the planner."""
    questions = grid.questions()
    keys = [_key(*question) for question in questions]
    missing = [(key, question) for key, question in zip(keys, questions, strict=True) if key not in results]
    done = len(keys) - len(missing)
    if missing:
        tell("planning", done, len(keys))
    for key, texts in each(_plan, missing):
        results.add(key, texts)
        done += 1
        tell("planning", done, len(keys))
    return [Plan.from_json(text) for key in keys for text in results[key]]


def _key(schema: Schema, n: int, budget: Budget) -> str:
    labels = digest(*schema.labels)
    return digest("question", schema.kind, schema.max_set, labels, n, repr(budget), __version__)


def _plan(asked: tuple[str, tuple[Schema, int, Budget]]) -> tuple[str, list[str]]:
    key, (schema, n, budget) = asked
    return key, [plan.to_json() for plan in frontier(schema, n, budget)]


@contextlib.contextmanager
def _workers(jobs: int) -> Iterator[Each]:
    """A way to apply a function to items, results in any order: here, or in processes that start when first needed.

    Whatever ends this early, an interruption above all, ends them at once.
    """
    pool: ProcessPoolExecutor | None = None
    others = set(multiprocessing.active_children())

    def each(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        nonlocal pool
        if jobs == 1 or len(items) < 2:
            yield from map(function, items)
            return
        if pool is None:
            # Forked children would share threads and locks of this process; fresh ones share nothing.
            fresh = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(jobs, mp_context=fresh, initializer=_deaf)
        futures: list[Future[Any]] = [pool.submit(function, item) for item in items]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise HubbubError("a process was ended from outside; what is finished is kept, fewer jobs may do") from None

    try:
        yield each
    except BaseException:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
        raise
    if pool is not None:
        pool.shutdown()


def _deaf() -> None:
    """Interruptions are the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
