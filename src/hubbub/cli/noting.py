"""``hubbub notes``: every statement of the research notes, recomputed, with figures of what is true instead."""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from hubbub.cli import screen
from hubbub.cli.options import json_option, output_option
from hubbub.io.files import write_text
from hubbub.lab import notes_page
from hubbub.lab.drawing import standalone
from hubbub.lab.note_figures import DRAWN, Figure, figures
from hubbub.lab.notes import Reading, readings
from hubbub.lab.statements.catalogue import Status
from hubbub.lab.statements.everything import NOTES, STATEMENTS, Verdict, judge, note_of

COLOURS = {
    Status.CONFIRMED: "green",
    Status.WRONG: "red",
    Status.LOOSE: "yellow",
    Status.EMPTY: "magenta",
    Status.UNDETERMINED: "cyan",
}


@click.command()
@click.option("--note", type=click.Choice(list(NOTES)), help="The statements of one note only.")
@click.option("--status", type=click.Choice([str(one) for one in Status]), help="Those of one status only.")
@click.option("--readings", "table", is_flag=True, help="Only the table of [003 §3.3] beside the truth.")
@output_option("One page with all of it, and the figures")
@click.option("--figures", "folder", metavar="DIR", help="A folder for the figures, as SVG.")
@json_option
def notes(
    note: str | None, status: str | None, table: bool, output: str | None, folder: str | None, as_json: bool
) -> None:
    """Recompute every statement of the research notes, and say what became of it.

    Confirmed, wrong with a counterexample, loose, empty with what stands in its place, or undetermined; all figures
    are computed now. Leaves with code 1 if a computation disagrees with the status.

    \b
    Example: hubbub notes --note 003 --status loose
    """
    if table:
        _show_readings(as_json)
        return
    chosen = [one for one in STATEMENTS if note in (None, note_of(one)) and status in (None, str(one.status))]
    verdicts = list(screen.stepped(judge(chosen), "recomputing", len(chosen)))
    drawn: list[Figure] = []
    if output or folder:
        drawn = list(screen.stepped(figures(), "drawing", len(DRAWN)))
    if folder:
        _write_figures(drawn, Path(folder))
    if output:
        write_text(output, notes_page.page(verdicts, readings(), drawn))
    if as_json:
        screen.print_json([_record(one) for one in verdicts])
    elif output != "-":
        _show(verdicts, output)
    if not all(one.evidence.agrees for one in verdicts):
        click.get_current_context().exit(1)


def _write_figures(drawn: Iterable[Figure], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in drawn:
        write_text(str(folder / f"{one.name}.svg"), standalone(one.picture))


def _record(verdict: Verdict) -> dict[str, Any]:
    one = verdict.statement
    return {
        "id": one.id,
        "note": note_of(one),
        "claim": one.claim,
        "status": str(one.status),
        "remark": one.remark,
        "evidence": verdict.evidence.shown,
        "agrees": verdict.evidence.agrees,
    }


def _show(verdicts: list[Verdict], output: str | None) -> None:
    view = screen.console()
    for name, title in NOTES.items():
        of_note = [one for one in verdicts if note_of(one.statement) == name]
        if of_note and output is None:
            view.print(_statement_table(f"{title}: {_counted(of_note)}", of_note))
    view.print(f"{len(verdicts)} statements: {_counted(verdicts)}")
    wrong = [one.statement.id for one in verdicts if not one.evidence.agrees]
    if wrong:
        view.print(f"[bold red]{len(wrong)} disagree with their status:[/] {screen.plain(', '.join(wrong))}")
    if output is not None:
        view.print(f"The page: [bold]{Path(output).resolve().as_uri()}[/]")


def _counted(verdicts: Iterable[Verdict]) -> str:
    found = Counter(one.statement.status for one in verdicts)
    return ", ".join(f"{found[status]} [{colour}]{status}[/]" for status, colour in COLOURS.items() if found[status])


def _statement_table(title: str, verdicts: Iterable[Verdict]) -> Table:
    rows = [
        (
            screen.plain(one.statement.id),
            screen.plain(one.statement.claim),
            f"[{COLOURS[one.statement.status]}]{one.statement.status}[/]",
            ("" if one.evidence.agrees else "[bold red]disagrees:[/] ") + screen.plain(one.evidence.shown),
        )
        for one in verdicts
    ]
    table = screen.grid(title, ["id", "claim", "status", "evidence"], rows, left=4, markup=True)
    for column, ratio in zip(table.columns, (5, 9, 3, 9), strict=True):
        column.ratio = ratio
    table.columns[0].overflow = "fold"
    table.columns[2].no_wrap = True
    table.expand = table.show_lines = True
    return table


EXPLAINED = """\
[bold]How to read it.[/] Records of five bits are flipped with lie probability q and shuffled among N. \
The notes choose q so that a privacy ratio exceeds e^ε only with a small chance η. The (ε,δ) guarantee \
behind it is another matter: it must hold in both orders and whatever the others hold. δ→ and δ← are the \
two orders of the notes' own pair; the last column is what hubbub proves at the printed q for all \
collections. [bold]account[/] and [bold]calibrate[/] give such figures for every protocol."""


def _show_readings(as_json: bool) -> None:
    with screen.waiting("recomputing the table of [003 §3.3]"):
        rows = readings()
    if as_json:
        screen.print_json([dataclasses.asdict(row) for row in rows])
        return
    view = screen.console()
    view.print(_readings_table(rows))
    view.print(EXPLAINED)


def _readings_table(rows: Iterable[Reading]) -> Table:
    head = ("ε", "N", "q\nprinted", "q by\nits rule", "η\nprinted", "η\ntrue", "δ→", "δ←", "δ\nproven")
    cells = [
        (
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
        for row in rows
    ]
    table = screen.grid("The readings of [003 §3.3], recomputed", head, cells, left=0, markup=True)
    table.caption = "red: off by more than 5 % from what is printed"
    return table


def _marked(true: float, printed: float) -> str:
    return f"[red]{true:.4f}[/]" if abs(true / printed - 1) > 0.05 else f"{true:.4f}"
