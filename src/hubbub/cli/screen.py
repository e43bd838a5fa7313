"""What people see: tables and bars on standard output, progress on standard error, and only on a terminal."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from hubbub.io.files import write_text
from hubbub.planner import cost
from hubbub.plans import Plan
from hubbub.privacy import Guarantee
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema

T = TypeVar("T")

BAR = 28
"""Characters of the longest bar."""


def console(*, to_stderr: bool = False) -> Console:
    """A console for text; where there is no terminal, lines are wide enough not to be broken."""
    found = Console(stderr=to_stderr, highlight=False, soft_wrap=False)
    return found if found.is_terminal else Console(stderr=to_stderr, highlight=False, width=160, color_system=None)


def print_json(value: Any, *, to_stderr: bool = False) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=1), err=to_stderr)


def write_json(path: str, value: Any) -> None:
    """One JSON document in a file."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def note(text: str) -> None:
    """A remark beside the result."""
    click.echo(f"note: {text}", err=True)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner while something is computed."""
    screen = Console(stderr=True)
    with screen.status(f"{what} …") if screen.is_terminal else contextlib.nullcontext():
        yield


def counted(blocks: Iterable[Any], what: str) -> Iterator[Any]:
    """The same blocks, with a running number of what they hold."""
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield from blocks
        return
    columns = (SpinnerColumn(), TextColumn(what), TextColumn("{task.completed:,.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task(what, total=None)
        for block in blocks:
            yield block
            progress.advance(task, len(block))


def stepped(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The same items, with a bar that grows with each."""
    with progressing() as tell:
        for place, item in enumerate(items):
            tell(what, place, total)
            yield item


@contextlib.contextmanager
def progressing() -> Iterator[Callable[[str, int, int], None]]:
    """A bar that is told what is being done, how much of it is, and of how much."""
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield lambda what, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)


def plain(text: str) -> str:
    """Text of others, such as labels, in which nothing commands the terminal or looks like markup.

    >>> plain("a[bold]\\x1b[2J")
    'a\\\\[bold]�[2J'
    """
    return escape("".join(letter if letter.isprintable() else "�" for letter in text))


def grid(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, markup: bool = False
) -> Table:
    """A plain table; the first ``left`` columns are text."""
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < left else "right")
    for row in rows:
        table.add_row(*(row if markup else map(plain, row)))
    return table


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values below each other."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def bars(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[str]:
    """Bars with intervals: filled to the value, light over the interval around it.

    >>> bars([10.0, 5.0], [9.0, 4.0], [11.0, 6.0])[0].count("█") > 20
    True
    """
    top = max(*high, 1.0)
    place = [[max(0, min(BAR, round(BAR * x / top))) for x in row] for row in zip(low, values, high, strict=True)]
    return [f"{'█' * a}{'▓' * (b - a)}{'░' * (c - b)}" for a, b, c in place]


def described_protocol(protocol: Protocol) -> str:
    """A protocol in a few words."""
    words = [f"q = {protocol.q:.4g}" if protocol.q else "in the clear"]
    if protocol.k > 1:
        words.append(f"{protocol.k} copies")
    m = protocol.m
    if isinstance(m, Fakes):
        distribution = {
            "binomial": f"Binomial({m.shift}, {m.scale:.4g}) fakes of each user",
            "poisson": f"Poisson({m.scale:.4g}) fakes of each user",
            "laplace": f"Laplace({m.scale:.4g}) + {m.shift} fakes of each kind by the shuffler",
            "gaussian": f"Gaussian({m.scale:.4g}) + {m.shift} fakes of each kind by the shuffler",
        }
        words.append(distribution[m.distribution])
    elif m:
        words.append(f"{m:,} fakes")
    kind = {"records": "whole records", "bits": "split bits", "category": "one category"}
    return f"{kind[protocol.release]}: {', '.join(words)}"


def _how_many(schema: Schema) -> str:
    return "exactly 1" if schema.exclusive else f"at most {schema.max_set:,}"


def described_guarantee(guarantee: Guarantee) -> list[tuple[str, str]]:
    """What holds, by which argument, and for whom."""
    attack = f"{guarantee.solved} {guarantee.lower_bound:.4g}: nothing below it can be promised"
    rows = [
        ("guarantee", f"({guarantee.epsilon:.4g}, {guarantee.delta:.3g})-differential privacy, n = {guarantee.n:,}"),
        ("", f"{guarantee.basis.value}, by {guarantee.method}"),
        ("best attack", attack if guarantee.lower_bound > 0 else "none known"),
    ]
    return rows + [("trust" if not i else "", line) for i, line in enumerate(guarantee.assumptions.sentences())]


def described_plan(plan: Plan) -> list[tuple[str, str]]:
    """A plan as facts."""
    return [
        ("plan", plan.id),
        ("schema", f"{plan.schema.kind}, {plan.schema.width:,} labels, {_how_many(plan.schema)} set"),
        ("people", f"at least {plan.n:,} in a batch"),
        ("protocol", described_protocol(plan.protocol)),
        ("error", f"{plan.stderr:.4g} people: the standard error of one count"),
        ("cost", str(cost(plan))),
        *described_guarantee(plan.guarantee),
    ]


def plan_record(plan: Plan) -> dict[str, Any]:
    """The figures of a plan for JSON, without its labels."""
    m = plan.protocol.m
    distribution = {"distribution": m.distribution, "scale": m.scale, "shift": m.shift} if isinstance(m, Fakes) else m
    return {
        "id": plan.id,
        "n": plan.n,
        "protocol": {"q": plan.protocol.q, "k": plan.protocol.k, "m": distribution, "release": plan.protocol.release},
        "stderr": plan.stderr,
        **asdict(cost(plan)),
        "guarantee": plan.guarantee.to_document(),
    }
