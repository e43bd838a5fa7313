"""Terminal output: tables and bars on standard output, progress on standard error if it is a terminal."""

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import IO, Any, TextIO, cast

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from hubbub.documents import spell
from hubbub.io.files import write_text
from hubbub.model.plans import Plan
from hubbub.planner import Goal, client_weight, cost, family_key, family_name, relative_error, remarks
from hubbub.report.sentences import batch_fakes
from hubbub.report.words import printable, questions_record

BAR = 28
"""Length of the longest bar, in characters."""


class _Trimmed:
    """A text stream without the spaces with which tables fill their lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        """Write a text that consists of whole lines."""
        return self._stream.write(re.sub(" +\n", "\n", text))

    def flush(self) -> None:
        self._stream.flush()


def console(*, to_stderr: bool = False) -> Console:
    """Return a console; without a terminal, lines are wide enough not to wrap, and end with their last word."""
    terminal = Console(stderr=to_stderr, highlight=False, soft_wrap=False)
    if terminal.is_terminal:
        return terminal
    trimmed = cast("IO[str]", _Trimmed(sys.stderr if to_stderr else sys.stdout))
    return Console(file=trimmed, highlight=False, width=160, color_system=None)


def print_json(value: Any, *, to_stderr: bool = False) -> None:
    """Print a JSON document on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=1), err=to_stderr)


def write_json(path: str, value: Any) -> None:
    """Write a JSON document to a file."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def note(text: str) -> None:
    """Print a note on standard error."""
    click.echo(f"note: {text}", err=True)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a spinner while something is computed."""
    screen = Console(stderr=True)
    with screen.status(f"{what} …") if screen.is_terminal else contextlib.nullcontext():
        yield


class _RateColumn(ProgressColumn):
    """Items per second since the start."""

    def render(self, task: Task) -> Text:
        """Return the rate, or nothing before it is known."""
        done, seconds = float(task.fields.get("items", task.completed)), task.elapsed
        return Text(f"{done / seconds:,.0f}/s" if done and seconds else "")


def _columns() -> tuple[ProgressColumn, ...]:
    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn("{task.percentage:>3.0f} %", text_format_no_percentage="", show_speed=False),
        TextColumn("{task.fields[items]:,.0f}"),
        _RateColumn(),
        TimeRemainingColumn(),
    )


def counted(
    blocks: Iterable[Any],
    what: str,
    *,
    total: int | None = None,
    fraction: Callable[[], float | None] = lambda: None,
) -> Iterator[Any]:
    """Yield the blocks while showing the number of their items, the rate and the time left.

    The time left is known from the ``total`` number of items, or from the ``fraction`` of the work that is done.
    """
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield from blocks
        return
    with Progress(*_columns(), console=screen, transient=True) as progress:
        task, done = progress.add_task(what, total=None, items=0), 0
        for block in blocks:
            yield block
            done += len(block)
            part = done / total if total else fraction()
            progress.update(task, items=done, completed=part or 0, total=None if part is None else 1.0)


@contextlib.contextmanager
def progressing() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar with rate and ETA; yields a function that takes the step, the amount done and the total."""
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield lambda what, done, total: None
        return
    with Progress(*_columns(), console=screen, transient=True) as progress:
        task = progress.add_task("starting", total=None, items=0)
        yield lambda what, done, total: progress.update(task, description=what, items=done, completed=done, total=total)


def plain(text: str) -> str:
    """Escape untrusted text, such as labels: no control characters and no markup.

    >>> plain("a[bold]\\x1b[2J")
    'a\\\\[bold]�[2J'
    """
    return escape(printable(text))


def grid(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, markup: bool = False
) -> Table:
    """Return a plain table whose first ``left`` columns are left-aligned."""
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < left else "right")
    for row in rows:
        table.add_row(*(row if markup else map(plain, row)))
    return table


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Return a two-column table of names and values."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def show(record: dict[str, Any], rows: Iterable[tuple[str, str]], *, as_json: bool) -> None:
    """Print a record as JSON, or the rows that say the same to people."""
    if as_json:
        print_json(record)
    else:
        console().print(facts(rows))


def bars(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[str]:
    """Return text bars filled to the value, with the interval around it shaded.

    >>> bars([10.0, 5.0], [9.0, 4.0], [11.0, 6.0])[0].count("█") > 20
    True
    """
    top = max(*high, 1.0)
    place = [[max(0, min(BAR, round(BAR * x / top))) for x in row] for row in zip(low, values, high, strict=True)]
    return [f"{'█' * a}{'▓' * (b - a)}{'░' * (c - b)}" for a, b, c in place]


def warn(plan: Plan, goal: Goal | None = None) -> None:
    """Print the warnings about a plan on standard error."""
    found = remarks(plan)
    if goal and relative_error(plan, goal.share, goal.level) > goal.within:
        found.append(f"The plan does not measure {goal}; raise the number of people or epsilon.")
    for text in found:
        click.echo(f"warning: {text.replace('max_collusion_epsilon', '--max-collusion-epsilon')}", err=True)


def plan_record(plan: Plan) -> dict[str, Any]:
    """Return the figures of a plan as a JSON object, without its labels."""
    questions = questions_record(plan)
    return {
        "id": plan.id,
        "n": plan.n,
        "family": family_key(plan),
        "name": family_name(plan),
        "trust": plan.guarantee.assumptions.trust,
        "clear": plan.protocol.clear,
        "protocol": _protocol_record(plan),
        "stderr": plan.stderr,
        **({"questions": questions, "fakes": batch_fakes(plan)} if questions else {}),
        **asdict(cost(plan)),
        "client_weight": spell(client_weight(plan)),
        "needs": plan.guarantee.assumptions.needs,
        "guarantee": plan.guarantee.to_document(),
        "rounds": plan.rounds,
        "total": plan.total.to_document(),
        "warnings": remarks(plan),
    }


def _protocol_record(plan: Plan) -> dict[str, Any]:
    """Return the protocol; where the noise differs from attribute to attribute, it has no single q."""
    whole = plan.protocol.to_document()
    return whole if len(plan.protocol.noise) > 1 else {"q": plan.protocol.q, **whole}
