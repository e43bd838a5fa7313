"""``demo``: a whole collection on synthetic people."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from hubbub import planner
from hubbub.bits.entropy import SeededStreamNotForPeople, system
from hubbub.cli import screen
from hubbub.cli.options import json_option
from hubbub.io.files import check_destination, write_text
from hubbub.lab.demonstration import Demonstration, attack, demonstrate, page, why
from hubbub.model.privacy import Budget
from hubbub.report import load_matplotlib


@click.command()
@click.option("--people", type=click.IntRange(100, 10**7), default=100_000, help="Number of people.")
@click.option("--epsilon", type=float, default=1.0, help="Privacy budget ε.")
@click.option("--delta", type=float, default=1e-6, help="Failure probability δ.")
@click.option("--seed", type=click.IntRange(0), help="Make the run reproducible; only for synthetic data.")
@click.option("-o", "--output", default="hubbub-demo.html", metavar="FILE", help="HTML report to write.")
@json_option
def demo(people: int, epsilon: float, delta: float, seed: int | None, output: str, as_json: bool) -> None:
    """Run a whole collection on synthetic people and write a report.

    Shows the chosen plan and the reason for it, the messages, the estimates beside the true counts, and what an
    attacker could learn. The report is one self-contained HTML page.

    \b
    Example: hubbub demo --people 20000 --seed 7 -o demo.html
    """
    check_destination(output)
    load_matplotlib()  # fails before the work rather than after it
    entropy = system if seed is None else SeededStreamNotForPeople(seed)
    with Console(stderr=True).status("starting …") as status:
        shown = demonstrate(
            people, Budget(epsilon, delta), entropy=entropy, progress=lambda text: status.update(f"{text} …")
        )
    write_text(output, page(shown))
    if as_json:
        screen.print_json(_record(shown, output))
    elif output != "-":
        _narrate(shown, output)


def _record(shown: Demonstration, output: str) -> dict[str, Any]:
    low, high = shown.estimate.interval(0.95)
    columns = (shown.estimate.labels, shown.truth.tolist(), shown.estimate.values.tolist(), low.tolist(), high.tolist())
    names = ("label", "truth", "value", "low", "high")
    return {
        "plan": screen.plan_record(shown.plan),
        "central_stderr": shown.central,
        "messages": shown.messages,
        "released": shown.released,
        "covered": shown.covered,
        "counts": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)],
        "report": output,
    }


def _narrate(shown: Demonstration, output: str) -> None:
    view, plan = screen.console(), shown.plan
    view.print(f"\n[bold]{plan.n:,} people report the home page of their browser.[/]")
    view.print(f"\n[bold]1. The plan.[/] {why(shown)}")
    view.print(_frontier(shown))
    added = shown.released - shown.messages
    view.print(
        f"[bold]2. The messages.[/] Devices send {shown.messages:,} messages with a payload of {plan.payload} B each;"
    )
    view.print(f"   the shuffler adds {added:,} fakes and forwards everything in random order; the analyzer counts.")
    view.print("\n[bold]3. True and estimated counts[/], with 95% intervals:")
    view.print(_counts(shown))
    view.print(f"   {shown.covered} of {len(shown.truth)} true counts lie in their intervals.")
    view.print("\n[bold]4. What an attacker could learn.[/]")
    for line in attack(shown):
        view.print(f"   • {line}")
    view.print(f"\nReport with charts: [bold]{Path(output).resolve().as_uri()}[/]")


def _frontier(shown: Demonstration) -> Table:
    rows = [
        (
            ("→ " if one == shown.plan else "  ") + name,
            f"{one.stderr:,.4g}",
            *planner.cost(one).cells,
            "yes" if one.protocol.sends_records else "no",
        )
        for one, name in zip(shown.plans, shown.names, strict=True)
    ]
    reference = ("  central mechanism, for reference", f"{shown.central:,.4g}", "", "", "")
    return screen.grid("", ["  protocol", "error", "messages", "bytes", "joint tables"], [*rows, reference])


def _counts(shown: Demonstration) -> Table:
    low, high = shown.estimate.interval(0.95)
    bars = screen.bars(shown.estimate.values.tolist(), low.tolist(), high.tolist())
    rows = [
        (label, f"{true:,}", f"{value:,.0f}", f"{a:,.0f} – {b:,.0f}", bar)
        for label, true, value, a, b, bar in zip(
            shown.estimate.labels, shown.truth, shown.estimate.values, low, high, bars, strict=True
        )
    ]
    table = screen.grid("", ["home page", "true count", "estimate", "95% interval", ""], rows)
    table.columns[-1].justify = "left"
    return table
