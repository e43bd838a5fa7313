"""What the examples share: their command line, their tables, and synthetic people."""

from collections.abc import Callable, Iterator

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hubbub import planner
from hubbub.bits.entropy import Entropy, SeededStreamNotForPeople, draw, system
from hubbub.cli import screen
from hubbub.io.files import write_text
from hubbub.lab.applications import Outcome
from hubbub.lab.applications.page import page

__all__ = ["BLOCK", "blocks", "command", "percent", "zipf"]

BLOCK = 500_000
"""People at a time."""

Run = Callable[[int, Entropy, Callable[[int], None]], Outcome]
"""People, entropy, and who is told of so many done, to what came out."""


def blocks(people: int) -> Iterator[int]:
    """The sizes of the blocks of so many people."""
    for start in range(0, people, BLOCK):
        yield min(BLOCK, people - start)


def zipf(shape: int | tuple[int, int], width: int, entropy: Entropy) -> NDArray[np.int64]:
    """Choices among ``width`` things, the i-th with probability proportional to 1/i."""
    edges = np.cumsum(1 / np.arange(1, width + 1))
    uniform = (draw(entropy, shape) >> np.uint64(11)) * 2.0**-53
    return np.searchsorted(edges / edges[-1], uniform, side="right").clip(0, width - 1)


def percent(share: float) -> str:
    """A share as people write it."""
    return f"{100 * share:.3g} %"


def command(run: Run, people: int) -> click.Command:
    """The command line of an example."""

    @click.command(help=run.__doc__)
    @click.option(
        "--people", "n", type=click.IntRange(1000, 10**8), default=people, show_default=True, help="How many."
    )
    @click.option("--seed", type=click.IntRange(0), help="Repeat a run; the people are synthetic.")
    @click.option("-o", "--output", metavar="FILE", help="A page with pictures.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
    def main(n: int, seed: int | None, output: str | None, as_json: bool) -> None:
        entropy = system if seed is None else SeededStreamNotForPeople(seed)
        watch = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"))
        with Progress(
            *columns, TimeRemainingColumn(), console=watch, transient=True, disable=not watch.is_terminal
        ) as bar:
            task = bar.add_task("people", total=n)
            shown = run(n, entropy, lambda done: bar.advance(task, done))
        if output is not None:
            write_text(output, page(shown))
        if as_json:
            screen.print_json(shown.record())
        elif output != "-":
            _tell(shown)

    return main


def _tell(shown: Outcome) -> None:
    view, study, plan = screen.console(), shown.study, shown.plan
    budget, counted = study.budget, shown.counted
    view.print(f"\n[bold]{study.title}.[/] {study.question}")
    rounds = f" over {study.rounds} rounds" if study.rounds > 1 else ""
    view.print(f"{plan.n:,} people, {plan.schema!r}; ε = {budget.epsilon:g}, δ = {budget.delta:.2g}{rounds}.\n")
    rows = [
        (
            ("→ " if one.protocol == plan.protocol else "  ") + planner.family_name(one),
            f"{one.stderr:,.4g}",
            percent(planner.measurable_share(one, study.error)),
            *planner.cost(one).cells,
        )
        for one in shown.rivals
    ]
    head = ["  protocol", "error", f"within {study.error:.0%}", "messages", "bytes"]
    view.print(screen.grid("What meets the budget", head, rows))
    low, high = counted.estimate.interval(0.95)
    chosen = shown.shown()
    values = counted.estimate.values
    counts = [
        (plan.schema.labels[i], f"{counted.truth[i]:,}", f"{values[i]:,.0f}", f"{low[i]:,.0f} – {high[i]:,.0f}")
        for i in chosen
    ]
    table = screen.grid("Truth against estimate", ["label", "truth", "estimate", "95 % interval"], counts)
    table.caption = f"{counted.covered:.1%} of {len(values):,} labels in their intervals; simulated {counted.how}"
    view.print(table)
    view.print(
        f"Measured within {study.error:.0%}: from {percent(shown.share)} of the people on (95 of 100 cases); "
        f"from {percent(shown.share_of_2016)} with three deviations, as in 2016. "
        f"Cost: {planner.cost(plan)}.\n"
    )
    figures = [(c.what, c.printed, c.recomputed, c.remark) for c in shown.comparisons]
    table = screen.grid("The figures of 2016", ["figure", "printed", "recomputed", "remark"], figures)
    table.columns[-1].justify = "left"
    view.print(table)
    for text in [*(claim.sentence() for claim in shown.claims), *shown.remarks]:
        view.print(f" • {text}")
