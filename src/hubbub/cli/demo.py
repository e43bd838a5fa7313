"""``hubbub demo``: the main job, on one screen."""

import dataclasses
import json

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hubbub.lab.notes import Reading, readings

__all__ = ["demo"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def demo(as_json: bool) -> None:
    """Recompute the table of [003 §3.3] and set it beside the (ε,δ) truth.

    Example: hubbub demo --json
    """
    console = Console()
    with console.status("recomputing the table of [003 §3.3] …") if console.is_terminal and not as_json else console:
        rows = readings()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
        return
    console.print(_table(rows))
    console.print(EXPLANATION)


EXPLANATION = """\
[bold]How to read it.[/] Records of five bits are flipped with lie probability q and shuffled among N. \
The notes choose q so that a privacy ratio exceeds e^ε only with a small chance η. The (ε,δ) guarantee \
behind it is another matter: it must hold in both orders and whatever the others hold. δ→ and δ← are the \
two orders of the notes' own pair; the last column is what hubbub proves at the printed q for all \
collections. [bold]account[/] and [bold]calibrate[/] give such figures for every protocol."""


def _table(rows: list[Reading]) -> Table:
    caption = "red: off by more than 5 % from what is printed"
    table = Table(
        title="The readings of [003 §3.3], recomputed",
        caption=caption,
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in ("ε", "N", "q\nprinted", "q by\nits rule", "η\nprinted", "η\ntrue", "δ→", "δ←", "δ\nproven"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            f"{row.epsilon:.3f}",
            f"{row.n:,}",
            f"{row.printed_q:.4f}",
            _marked(row.q, row.printed_q),
            f"{row.printed_eta:.4f}",
            _marked(row.eta, row.printed_eta),
            f"{row.forward:.1e}",
            f"{row.reverse:.1e}",
            f"{row.proven:.3f}",
        )
    return table


def _marked(true: float, printed: float) -> str:
    return f"[red]{true:.4f}[/]" if abs(true / printed - 1) > 0.05 else f"{true:.4f}"
