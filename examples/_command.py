"""The command line that all examples share, and synthetic choices."""

from collections.abc import Callable, Iterator

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from examples._outcome import Outcome
from examples._page import page
from examples._rules_2016 import percent
from hubbub import planner
from hubbub.bits.entropy import Entropy, SeededStreamNotForPeople, draw, system
from hubbub.cli import screen
from hubbub.io.files import write_text

BLOCK = 500_000
"""People per block."""

Run = Callable[[int, Entropy, Callable[[int], None]], Outcome]
"""Takes the number of people, entropy, and a callback for progress."""


def blocks(people: int) -> Iterator[int]:
    """Yield the sizes of the blocks that hold this number of people.

    >>> list(blocks(1_200_000))
    [500000, 500000, 200000]
    """
    for start in range(0, people, BLOCK):
        yield min(BLOCK, people - start)


def zipf(shape: int | tuple[int, int], width: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw choices among ``width`` items, the i-th with probability proportional to 1/i."""
    edges = np.cumsum(1 / np.arange(1, width + 1))
    uniform = (draw(entropy, shape) >> np.uint64(11)) * 2.0**-53
    return np.searchsorted(edges / edges[-1], uniform, side="right").clip(0, width - 1)


def command(run: Run, people: int) -> click.Command:
    """Return the command line of an example."""

    @click.command(help=run.__doc__)
    @click.option(
        "--people", "n", type=click.IntRange(1000, 10**8), default=people, show_default=True, help="Number of people."
    )
    @click.option("--seed", type=click.IntRange(0), help="Make the run reproducible; the people are synthetic.")
    @click.option("-o", "--output", metavar="FILE", help="Write an HTML page with charts.")
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
            _print(shown)

    return main


def _print(shown: Outcome) -> None:
    view, study, plan = screen.console(), shown.study, shown.plan
    budget, simulated = study.budget, shown.simulated
    view.print(f"\n[bold]{study.title}.[/] {study.question}")
    rounds = f" over {study.rounds} rounds" if study.rounds > 1 else ""
    view.print(f"{plan.n:,} people, {plan.schema!r}; ε = {budget.epsilon:g}, δ = {budget.delta:.2g}{rounds}.\n")
    rows = [
        (
            ("→ " if one.protocol == plan.protocol else "  ") + planner.family_name(one),
            f"{one.stderr:,.4g}",
            _measured(planner.measurable_share(one, study.error)),
            *planner.cost(one).cells,
        )
        for one in shown.frontier
    ]
    head = ["  protocol", "error", f"within {percent(study.error)} from", "messages", "bytes"]
    view.print(screen.grid("Protocols that meet the budget", head, rows))
    low, high = simulated.estimate.interval(0.95)
    values = simulated.estimate.values
    counts = [
        (plan.schema.labels[i], f"{simulated.truth[i]:,}", f"{values[i]:,.0f}", f"{low[i]:,.0f} – {high[i]:,.0f}")
        for i in shown.shown()
    ]
    table = screen.grid("True and estimated counts", ["label", "true", "estimate", "95 % interval"], counts)
    table.caption = (
        f"{simulated.covered:.1%} of {len(values):,} labels lie in their intervals; simulated {simulated.how}"
    )
    view.print(table)
    figures = [(c.what, c.printed, c.recomputed, c.remark) for c in shown.comparisons]
    title = f"The figures of 2016, for {shown.people_of_2016:,} people"
    table = screen.grid(title, ["figure", "printed", "recomputed", "remark"], figures)
    table.columns[-1].justify = "left"
    view.print(table)
    view.print(f"[bold]With {plan.n:,} people:[/]")
    cost = f"Cost: {planner.cost(plan)}."
    for text in [shown.accuracy(), cost, *(claim.sentence() for claim in shown.claims), *shown.remarks]:
        view.print(f" • {text}")


def _measured(share: float) -> str:
    return percent(share) if share < 1 else "none"
