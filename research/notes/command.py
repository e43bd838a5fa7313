"""The command line: every statement of the research notes, recomputed, as tables, JSON, a page or figures."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.table import Table

from hubbub.cli import screen
from hubbub.cli.errors import ReportingGroup
from hubbub.io.files import write_text
from research.notes.figures import DRAWN, Figure, figures
from research.notes.page import page
from research.notes.readings import Reading, readings
from research.notes.statements.catalogue import Status
from research.notes.statements.everything import NOTES, STATEMENTS, Verdict, judge, note_of

COLOURS = {
    Status.CONFIRMED: "green",
    Status.WRONG: "red",
    Status.LOOSE: "yellow",
    Status.EMPTY: "magenta",
    Status.UNDETERMINED: "cyan",
}

T = TypeVar("T")


@click.group(
    cls=ReportingGroup,
    invoke_without_command=True,
    subcommand_metavar="",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--note", type=click.Choice(list(NOTES)), help="Show the statements of one note only.")
@click.option(
    "--status", type=click.Choice([str(one) for one in Status]), help="Show the statements of one status only."
)
@click.option("--readings", "table", is_flag=True, help="Show only the table of [003 §3.3] beside the true values.")
@click.option(
    "-o", "--output", metavar="FILE", help="Write one HTML page with all statements and figures; - for a pipe."
)
@click.option("--figures", "folder", metavar="DIR", help="Write the figures as SVG files to this directory.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def main(
    note: str | None, status: str | None, table: bool, output: str | None, folder: str | None, as_json: bool
) -> None:
    """Recompute every statement of the five research notes and report its status.

    A statement is confirmed, wrong (with a counterexample), loose, empty (with a replacement) or undetermined. Nothing
    is cached: each figure is computed by this run. The exit code is 1 if a computation contradicts a recorded status.

    \b
    Examples:
      python -m research.notes --note 003 --status loose
      python -m research.notes -o notes.html --figures pictures
    """
    if table:
        if note or status or output or folder:
            raise click.UsageError("--readings takes no other option than --json")
        _show_readings(as_json)
        return
    chosen = [one for one in STATEMENTS if note in (None, note_of(one)) and status in (None, str(one.status))]
    verdicts = list(_stepped(judge(chosen), "recomputing", len(chosen)))
    drawn: list[Figure] = []
    if output or folder:
        drawn = list(_stepped(figures(), "drawing", len(DRAWN)))
    if folder:
        _write_figures(drawn, Path(folder))
    if output:
        write_text(output, page(verdicts, readings(), drawn))
    if as_json:
        screen.print_json([_record(one) for one in verdicts])
    elif output != "-":
        _show(verdicts, output)
    if not all(one.evidence.agrees for one in verdicts):
        click.get_current_context().exit(1)


def _stepped(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Yield the items while showing a progress bar."""
    with screen.progressing() as advance:
        for done, item in enumerate(items):
            advance(what, done, total)
            yield item


def _write_figures(drawn: Iterable[Figure], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in drawn:
        write_text(str(folder / f"{one.name}.svg"), one.picture.standalone())


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
[bold]How to read this table.[/] Records of five bits are flipped with probability q and shuffled among N. \
The notes choose q so that a privacy ratio exceeds e^ε only with a small probability η. An (ε,δ) guarantee \
requires more: it must hold in both orders and for all records that the others may hold. δ→ and δ← are the \
two orders of the pair that the notes consider; the last column is the δ that hubbub proves at the printed q \
for all collections. [bold]hubbub account[/] and [bold]hubbub calibrate[/] compute such figures for any protocol."""


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
    table.caption = "red: differs by more than 5 % from the printed value"
    return table


def _marked(true: float, printed: float) -> str:
    return f"[red]{true:.4f}[/]" if abs(true / printed - 1) > 0.05 else f"{true:.4f}"
