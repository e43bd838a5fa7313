"""Grids of plans on populations, run in several processes, and the page that shows predicted and observed errors.

Results are stored as they come, so runs can be resumed. They are JSON lines: a header, then one object per planned
question and per simulated cell, each with a digest of everything it depends on. Another grid, seed or version has other
digests and reuses nothing.
"""

import contextlib
import itertools
import json
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hubbub import __version__
from hubbub.errors import HubbubError, Infeasible, WireError, check_whole, reject
from hubbub.lab.answers import LEVEL
from hubbub.lab.cells import Cell, Level, Row, contradictions, digest, level_of, measure
from hubbub.lab.populations import GivenPopulation, Population
from hubbub.model.plans import MAX_PEOPLE, Plan
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema
from hubbub.planner import central_stderr, frontier
from hubbub.report.charts import Axis, Mark, Series, chart
from hubbub.report.figures import Chart
from hubbub.report.html import render
from hubbub.report.report import Figure, Report, Section, Table
from hubbub.report.rows import Rank, frontier_chart

Progress = Callable[[str, int, int], None]
HEADER = b'{"format":"hubbub study 1"}\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The cells of a study: every protocol for every schema, size and budget, or given plans, on every population.

    >>> grid = Grid(schemas=(Schema.bits(2),), sizes=(500, 1000), budgets=(Budget(1.0, 1e-6),))
    >>> len(grid.questions()), grid.repetitions
    (2, 50)
    """

    schemas: tuple[Schema, ...] = ()
    sizes: tuple[int, ...] = ()  # numbers of people; for given plans the default is the number that each plan needs
    budgets: tuple[Budget, ...] = ()
    plans: tuple[Plan, ...] = ()
    populations: tuple[Population | GivenPopulation, ...] = (Population(exponent=1.0),)
    repetitions: int = 50
    level: Level | None = None  # None chooses records if they are cheap, otherwise counts
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.populations:
            reject("populations", "not be empty")
        if bool(self.plans) == bool(self.schemas and self.sizes and self.budgets):
            reject("a grid", "have either plans, or schemas, sizes and budgets")
        check_whole("seed", self.seed)
        check_whole("repetitions", self.repetitions, 10)
        for n in self.sizes:
            check_whole("n", n, 1, MAX_PEOPLE)

    def questions(self) -> list[tuple[Schema, int, Budget]]:
        """Return the inputs of the planner."""
        if self.plans:
            return []
        return list(dict.fromkeys(itertools.product(self.schemas, self.sizes, self.budgets)))

    def references(self) -> dict[tuple[str, int, float], float]:
        """Return the standard errors of a trusted server, as baselines of the report."""
        return {
            (repr(schema).removeprefix("Schema."), n, budget.epsilon): central_stderr(schema, budget)
            for schema, n, budget in self.questions()
        }

    def cells(self, planned: Sequence[Plan]) -> list[Cell]:
        """Return every plan on every population, without duplicates."""
        found: dict[str, Cell] = {}
        for plan in [*planned, *self.plans]:
            sizes = self.sizes if self.plans and self.sizes else (plan.n,)
            for n, population in itertools.product(sizes, self.populations):
                level = self.level or level_of(plan, n, self.repetitions)
                questions = plan.schema.questions
                # The records of a survey or of strings give the truth of their figures, at both levels.
                kept = level == "records" or plan.schema.named or plan.schema.text is not None
                people = population if kept else population.without_records()
                for question in questions.names:
                    cell = Cell(
                        plan=plan,
                        population=people,
                        n=n,
                        repetitions=self.repetitions,
                        level=level,
                        seed=self.seed,
                        question=question,
                    )
                    found.setdefault(cell.key, cell)
        return list(found.values())


class Results:
    """Finished results, stored in a file if there is a path."""

    __slots__ = ("_known", "_path")

    def __init__(self, path: Path | None, known: dict[str, Any]) -> None:
        self._path, self._known = path, known

    @classmethod
    def open(cls, path: Path | None, *, fresh: bool = False) -> Self:
        """Open a results file; an incomplete last line is removed, any other damage is an error."""
        if path is None:
            return cls(None, {})
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        # Never overwrite a file that hubbub did not create.
        if not (data.startswith(HEADER) or HEADER.startswith(data)):
            raise WireError("the results file must begin with the header of `hubbub study`")
        if fresh or not whole:
            path.write_bytes(HEADER)
            return cls(path, {})
        known = {}
        for number, line in enumerate(whole.splitlines()[1:], 2):
            try:
                entry = json.loads(line)
                known[str(entry["key"])] = entry["value"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise WireError(
                    f"line {number:,} of the results file must be an object with a key and a value"
                ) from None
        if len(whole) < len(data):
            with path.open("r+b") as file:
                file.truncate(len(whole))
        return cls(path, known)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> Any:
        return self._known[key]

    def add(self, key: str, value: Any) -> None:
        """Store a result in a single write, so that an interruption damages at most one line."""
        self._known[key] = value
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(json.dumps({"key": key, "value": value}, separators=(",", ":")).encode() + b"\n")


def processors() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    grid: Grid, results: Results | None = None, *, jobs: int = 1, progress: Progress = lambda what, done, total: None
) -> list[Row]:
    """Run a grid and return its rows in order; ``progress`` gets the activity, the finished steps and their total.

    Cells that ``results`` contain are not run again. With several ``jobs`` the work is spread over spawned processes,
    so scripts must call this under ``if __name__ == "__main__"``. Records of given populations stay in this process.

    >>> grid = Grid(
    ...     schemas=(Schema.bits(2),), sizes=(500,), budgets=(Budget(1.0, 1e-6),), repetitions=20, level="counts"
    ... )
    >>> rows = run(grid)
    >>> len(rows) >= 5, all(0.5 < row.ratio < 1.5 for row in rows)
    (True, True)
    """
    results = results or Results.open(None)
    with _workers(check_whole("jobs", jobs, 1)) as each:
        planned = _planned(grid, results, each, progress)
        cells = grid.cells(planned)
        if not cells:
            raise Infeasible("no protocol meets any of the budgets")
        missing = [cell for cell in cells if cell.key not in results]
        done = len(cells) - len(missing)
        progress("simulating", done, len(cells))
        kept = [
            cell
            for cell in missing
            if isinstance(cell.population, GivenPopulation) and cell.population.records is not None
        ]
        sent = [cell for cell in missing if cell not in kept]
        for row in itertools.chain(each(measure, sent), map(measure, kept)):
            results.add(row.key, row.record())
            done += 1
            progress("simulating", done, len(cells))
    return [Row.read(results[cell.key]) for cell in cells]


Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]
"""Applies a function to items and yields the results in any order."""


def _planned(grid: Grid, results: Results, each: Each, progress: Progress) -> list[Plan]:
    """Return the plans of all questions, from the results or from the planner."""
    questions = grid.questions()
    keys = [_key(*question) for question in questions]
    missing = [(key, question) for key, question in zip(keys, questions, strict=True) if key not in results]
    done = len(keys) - len(missing)
    if missing:
        progress("planning", done, len(keys))
    for key, texts in each(_plan, missing):
        results.add(key, texts)
        done += 1
        progress("planning", done, len(keys))
    return [Plan.from_json(text) for key in keys for text in results[key]]


def _key(schema: Schema, n: int, budget: Budget) -> str:
    labels = digest(*schema.labels) if schema.text is None else repr(schema)
    return digest("question", schema.form, schema.max_set, labels, n, repr(budget), __version__)


def _plan(question: tuple[str, tuple[Schema, int, Budget]]) -> tuple[str, list[str]]:
    key, (schema, n, budget) = question
    return key, [plan.to_json() for plan in frontier(schema, n, budget)]


@contextlib.contextmanager
def _workers(jobs: int) -> Iterator[Each]:
    """Apply functions here or in worker processes, which start on first use and are killed on any exception."""
    pool: ProcessPoolExecutor | None = None
    others = set(multiprocessing.active_children())

    def each(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        nonlocal pool
        if jobs == 1 or len(items) < 2:
            yield from map(function, items)
            return
        if pool is None:
            # Forked children would inherit threads and locks of this process; spawned ones do not.
            fresh = multiprocessing.get_context("spawn")
            ignored = signal.SIGINT, signal.SIG_IGN  # interrupts are left to the parent process
            pool = ProcessPoolExecutor(jobs, mp_context=fresh, initializer=signal.signal, initargs=ignored)
        futures: list[Future[Any]] = [pool.submit(function, item) for item in items]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise HubbubError("a worker process was killed; finished results are kept, try fewer jobs") from None

    try:
        yield each
    except BaseException:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
            # The pool may still be starting a worker; one that dies with the queue's lock leaves the others waiting.
            while children := set(multiprocessing.active_children()) - others:
                for child in children:
                    child.kill()
                    child.join()
        raise
    if pool is not None:
        pool.shutdown()


FIGURES = 6  # the most rankings of protocols on a page; a larger grid shows those of its first questions
HEAD = (
    "protocol", "people", "predicted", "observed", "ratio", "coverage", "all at once", "bias", "messages", "bytes",
    "shows", "by", "s",
)  # fmt: skip


def verdict(rows: Sequence[Row]) -> list[str]:
    """Return the result of a study in a few sentences, one for every row that contradicts a prediction."""
    found = contradictions(list(rows))
    runs = sum(row.repetitions for row in rows)
    text = f"{len(rows)} cells, {runs:,} collections: "
    if not found:
        low, high = min(row.ratio for row in rows), max(row.ratio for row in rows)
        return [
            f"{text}nothing contradicts a prediction. Observed errors are {low:.3f} to {high:.3f} times the predicted "
            f"ones, and intervals of {LEVEL:.0%} held the truth in {min(row.coverage for row in rows):.1%} to "
            f"{max(row.coverage for row in rows):.1%} of all cases."
        ]
    lines = [f"{text}{len(found)} of {4 * len(rows)} predictions are contradicted, with a risk of 1 % in all."]
    return lines + [f"{what}: {_name(row)}, ratio {row.ratio:.3f}, coverage {row.coverage:.1%}" for row, what in found]


def names(rows: Sequence[Row]) -> list[str]:
    """Return the names of the protocols of rows, with their release where the family alone is ambiguous."""
    plans = {(row.family, row.release) for row in rows}
    often = Counter(family for family, _ in plans)
    return [f"{row.family}, {row.release}" if often[row.family] > 1 else row.family for row in rows]


def study_page(rows: Sequence[Row], *, central: dict[tuple[str, int, float], float] | None = None) -> str:
    """Return the whole page; ``central`` is σ of a trusted server for each (schema, n, ε), as a reference."""
    wrong = {row.key for row, _ in contradictions(list(rows))}
    covered = sum(row.coverage for row in rows) / len(rows)
    first, *others = verdict(rows)
    together = sum(row.simultaneous for row in rows) / len(rows)
    return render(
        Report(
            title="hubbub: a study",
            heading="Predicted against observed",
            lede=first,
            alerts=others,
            tiles=[
                (f"{len(rows)}", "cells: a protocol on a population"),
                (f"{sum(row.ratio for row in rows) / len(rows):.3f}", "observed error over predicted, on average"),
                (f"{covered:.1%}", f"of the {LEVEL:.0%} intervals held the truth"),
                (f"{together:.1%}", "of the collections had all counts in theirs at once"),
            ],
            sections=[
                Section("Errors", _errors(rows, wrong)),
                Section("Coverage", _coverage(rows, wrong)),
                Section("Protocols ranked by error", _ranks(rows, central or {})),
                Section("All figures", []),
                *_tables(rows, wrong),
            ],
            note="errors in people; “by” records: through the whole pipeline, by counts: their distribution drawn "
            "directly; “bias”: the largest mean error of a label in standard errors of that mean; the people are "
            "simulated, and this page loads nothing.",
        )
    )


def _name(row: Row) -> str:
    return f"{row.family}, {row.schema}, n = {row.n:,}, ε = {row.epsilon:.3g}, {row.population}, by {row.level}"


def _dots(rows: Sequence[Row], wrong: set[str], point: Callable[[Row], tuple[float, ...]]) -> list[Series]:
    """Return the rows as dots: by the way they were simulated, and those that contradict a prediction apart."""
    kinds = (
        ("through the whole pipeline", "one", [row for row in rows if row.key not in wrong and row.level == "records"]),
        ("counts drawn directly", "quiet", [row for row in rows if row.key not in wrong and row.level == "counts"]),
        ("contradicts the prediction", "two", [row for row in rows if row.key in wrong]),
    )
    return [
        Series(label=label, points=[*map(point, some)], kind="dots", colour=colour, names=[*map(_name, some)])
        for label, colour, some in kinds
        if some
    ]


ACROSS = Axis("predicted standard error, people", log=True)


def _errors(rows: Sequence[Row], wrong: set[str]) -> list[Figure]:
    def observed(row: Row) -> tuple[float, ...]:
        once = row.observed / row.ratio
        return row.predicted, row.observed, row.ratio_low * once, row.ratio_high * once

    ends = [value for row in rows for value in observed(row)[:2] if value > 0] or [1.0]
    low, high = min(ends) / 1.4, max(ends) * 1.4
    agreed = Series(label="as predicted", points=[(low, low), (high, high)], colour="quiet", stroke="thin dashed")
    first = chart(
        [agreed, *_dots(rows, wrong, observed)],
        "Observed against predicted error",
        across=Axis(ACROSS.name, low, high, log=True),
        up=Axis("observed error, people", low, high, log=True),
        height=400,
    )
    second = chart(
        _dots(rows, wrong, lambda row: (row.predicted, row.ratio, row.ratio_low, row.ratio_high)),
        "Ratio of errors",
        across=ACROSS,
        up=Axis("observed / predicted"),
        marks=[Mark("as predicted", 1.0, up=True)],
    )
    return [
        Figure(first, "Every cell is a point."),
        Figure(second, f"The same as a ratio, with {LEVEL:.0%} intervals: about one in twenty should miss the line."),
    ]


def _coverage(rows: Sequence[Row], wrong: set[str]) -> list[Figure]:
    def drawn(title: str, point: Callable[[Row], tuple[float, ...]]) -> Chart:
        up, promised = Axis("share of intervals that held the truth", percent=True), Mark("promised", LEVEL, up=True)
        return chart(_dots(rows, wrong, point), title, across=ACROSS, up=up, marks=[promised])

    single = drawn("Coverage of single counts", lambda r: (r.predicted, r.coverage, r.coverage_low, r.coverage_high))
    title = "Coverage of all counts at once"
    joint = drawn(title, lambda r: (r.predicted, r.simultaneous, r.simultaneous_low, r.simultaneous_high))
    text = "with the binomial interval of what was observed."
    return [
        Figure(single, f"How often the interval of one count held the truth, {text}"),
        Figure(joint, f"How often all simultaneous intervals of a collection held at once, {text}"),
    ]


def _trust(family: str) -> str:
    if family.startswith("local"):
        return "nobody"
    return "shuffler-noise" if "shuffler" in family else "shuffling"


def _ranks(rows: Sequence[Row], central: dict[tuple[str, int, float], float]) -> list[Figure]:
    figures = []
    for (schema, n, epsilon), group in itertools.islice(_by_question(rows).items(), FIGURES):
        people = group[0].population
        shown = [row for row in group if row.population == people]
        question = f"{schema}, n = {n:,}, ε = {epsilon:.3g}"
        drawn = frontier_chart(
            [
                Rank(name, max(row.observed, 1e-6), _trust(row.family), row.messages)
                for row, name in zip(shown, names(shown), strict=True)
            ],
            f"Protocols ranked by observed error: {question}",
            name="observed error, people",
            central=central.get((schema, n, epsilon)),
        )
        figures.append(Figure(drawn, f"{question}, {people}. The most precise protocol first."))
    return figures


def _by_question(rows: Sequence[Row]) -> dict[tuple[str, int, float], list[Row]]:
    """Return the rows by schema, n and ε: those of one group can be compared."""
    groups: dict[tuple[str, int, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.schema, row.n, row.epsilon), []).append(row)
    return groups


def _tables(rows: Sequence[Row], wrong: set[str]) -> list[Section]:
    return [
        Section(
            f"{schema}, n = {n:,}, ε = {epsilon:.3g}",
            [Table(HEAD, [_line(row) for row in group], ["alarm" if row.key in wrong else "" for row in group])],
            level=3,
        )
        for (schema, n, epsilon), group in _by_question(rows).items()
    ]


def _line(row: Row) -> tuple[str, ...]:
    return (
        row.family, row.population, f"{row.predicted:,.4g}", f"{row.observed:,.4g}",
        f"{row.ratio:.3f} ({row.ratio_low:.2f}–{row.ratio_high:.2f})", f"{row.coverage:.1%}",
        f"{row.simultaneous:.0%}", f"{row.worst_bias:.1f}", f"{row.messages:.3g}", f"{row.bytes:,.4g}",
        row.release, row.level, f"{row.seconds:.2g}",
    )  # fmt: skip
