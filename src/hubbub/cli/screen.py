"""Terminal output: tables and bars on standard output, progress on standard error if it is a terminal."""

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from hubbub.io.files import write_text
from hubbub.planner import Goal, cost, described_precision, family_key, family_name, relative_error, remarks
from hubbub.planner.precision import LEVEL, percent
from hubbub.plans import Plan
from hubbub.privacy import TRUST_DESCRIPTIONS, Guarantee
from hubbub.protocol import Fakes, Protocol

SHARE = 0.01
"""Share of the population whose precision is shown if no other is asked for."""
BAR = 28
"""Length of the longest bar, in characters."""


def console(*, to_stderr: bool = False) -> Console:
    """Return a console; without a terminal, lines are wide enough not to wrap."""
    terminal = Console(stderr=to_stderr, highlight=False, soft_wrap=False)
    if terminal.is_terminal:
        return terminal
    return Console(stderr=to_stderr, highlight=False, width=160, color_system=None)


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


def counted(blocks: Iterable[Any], what: str) -> Iterator[Any]:
    """Yield the blocks while showing a running count of their items."""
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


@contextlib.contextmanager
def progressing() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar with ETA; yields a function that takes the step, the amount done and the total."""
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield lambda what, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)


def plain(text: str) -> str:
    """Escape untrusted text, such as labels: no control characters and no markup.

    >>> plain("a[bold]\\x1b[2J")
    'a\\\\[bold]�[2J'
    """
    return escape("".join(letter if letter.isprintable() else "�" for letter in text))


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


def bars(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[str]:
    """Return text bars filled to the value, with the interval around it shaded.

    >>> bars([10.0, 5.0], [9.0, 4.0], [11.0, 6.0])[0].count("█") > 20
    True
    """
    top = max(*high, 1.0)
    place = [[max(0, min(BAR, round(BAR * x / top))) for x in row] for row in zip(low, values, high, strict=True)]
    return [f"{'█' * a}{'▓' * (b - a)}{'░' * (c - b)}" for a, b, c in place]


def described_protocol(protocol: Protocol) -> str:
    """Describe a protocol in a few words."""
    words = [f"q = {protocol.q:.4g}" if protocol.q else "in the clear"]
    if protocol.k > 1:
        words.append(f"{protocol.k} copies")
    m = protocol.m
    if isinstance(m, Fakes):
        distribution = {
            "binomial": f"Binomial({m.shift}, {m.scale:.4g}) fakes per user",
            "poisson": f"Poisson({m.scale:.4g}) fakes per user",
            "laplace": f"Laplace({m.scale:.4g}) + {m.shift} fakes per category, drawn by the shuffler",
            "gaussian": f"Gaussian({m.scale:.4g}) + {m.shift} fakes per category, drawn by the shuffler",
        }
        words.append(distribution[m.distribution])
    elif m:
        words.append(f"{m:,} fakes")
    kind = {"records": "whole records", "bits": "split bits", "category": "one category"}
    return f"{kind[protocol.release]}: {', '.join(words)}"


def described_guarantee(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Describe a guarantee: the figures, the theorem, the best attack and the assumptions."""
    attacked = ": no smaller value can be guaranteed" if guarantee.lower_bound > 0 else ""
    rows = [
        ("guarantee", f"({guarantee.epsilon:.4g}, {guarantee.delta:.3g})-differential privacy, n = {guarantee.n:,}"),
        ("", f"{guarantee.basis.value}, by {guarantee.method}"),
        ("odds", guarantee.odds),
        ("best attack", guarantee.attack + attacked),
        ("trust", f"{guarantee.assumptions.trust}: {TRUST_DESCRIPTIONS[guarantee.assumptions.trust]}"),
        ("collusion ε", described_collusion(guarantee.assumptions.collusion_epsilon)),
    ]
    return rows + [("assumptions" if not i else "", line) for i, line in enumerate(guarantee.assumptions.sentences())]


def described_collusion(epsilon: float) -> str:
    """Describe what remains if shuffler and analyzer collude.

    >>> described_collusion(4.39), described_collusion(float("inf"))
    ('4.39', '∞ (no protection)')
    """
    return "∞ (no protection)" if math.isinf(epsilon) else f"{epsilon:.3g}"


def described_plan(plan: Plan, goal: Goal | None = None, share: float | None = None) -> list[tuple[str, str]]:
    """Describe a plan as names and values, with its precision for a goal or for a share of the population."""
    schema = plan.schema
    limit = "exactly" if schema.exclusive else "at most"
    labels = f"{schema.width:,} label{'' if schema.width == 1 else 's'}"
    return [
        ("plan", plan.id),
        ("schema", f"{schema.kind}, {labels}, {limit} {schema.max_set:,} set"),
        ("people", f"at least {plan.n:,} in a batch"),
        ("family", f"{family_name(plan)} ({family_key(plan)})"),
        ("protocol", described_protocol(plan.protocol)),
        ("error", f"{plan.stderr:.4g} people (standard error of one count)"),
        ("precision", described_precision(plan, SHARE if share is None else share, goal.level if goal else LEVEL)),
        *([("goal", described_goal(plan, goal))] if goal else []),
        ("cost", str(cost(plan))),
        *described_guarantee(plan.guarantee),
    ]


def described_goal(plan: Plan, goal: Goal) -> str:
    """Say if a plan reaches a goal."""
    reached = relative_error(plan, goal.share, goal.level) <= goal.within
    return f"±{percent(goal.within)} for {percent(goal.share)} of the people: {'reached' if reached else 'missed'}"


def warn(plan: Plan, goal: Goal | None = None) -> None:
    """Print the warnings about a plan on standard error."""
    found = remarks(plan)
    if goal and relative_error(plan, goal.share, goal.level) > goal.within:
        found.append(f"The plan does not measure {goal}; raise the number of people or epsilon.")
    for text in found:
        click.echo(f"warning: {text.replace('max_collusion_epsilon', '--max-collusion-epsilon')}", err=True)


def plan_record(plan: Plan) -> dict[str, Any]:
    """Return the figures of a plan as a JSON object, without its labels."""
    return {
        "id": plan.id,
        "n": plan.n,
        "family": family_key(plan),
        "name": family_name(plan),
        "trust": plan.guarantee.assumptions.trust,
        "clear": plan.protocol.clear,
        "protocol": {"q": plan.protocol.q, **plan.protocol.to_document()},
        "stderr": plan.stderr,
        **asdict(cost(plan)),
        "guarantee": plan.guarantee.to_document(),
        "warnings": remarks(plan),
    }
