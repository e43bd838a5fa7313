"""``hubbub results``: read the results of an analyzer as a table, CSV, JSON or Parquet."""

import contextlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from hubbub.cli import screen
from hubbub.cli.options import output_option
from hubbub.errors import reject
from hubbub.io.files import PIPE, check_destination, naming, read_text, write_text
from hubbub.results.figures import PEOPLE
from hubbub.results.result import table_of
from hubbub.service.reader import ResultsClient, TaskResults, describe_gap, time_of, to_csv, to_parquet

VARIABLE = "HUBBUB_TOKEN"
FORMS = ("table", "csv", "json", "parquet")


@click.command()
@click.argument("url")
@click.option("--token", "token_path", metavar="FILE", help=f"File with the bearer token; default: ${VARIABLE}.")
@click.option("--task", metavar="HEX", help="Task to read; default: all that the token may read.")
@click.option("--format", "form", type=click.Choice(FORMS), help="Output format; default: by file name, else a table.")
@click.option("--authority", metavar="FILE", help="Certificate authority to trust; default: those of the system.")
@click.option("--top", type=click.IntRange(1), default=20, help="Number of labels per task, or question, in a table.")
@output_option("File for the results", required=True)
def results(
    url: str,
    token_path: str | None,
    task: str | None,
    form: str | None,
    authority: str | None,
    top: int,
    output: str,
) -> None:
    """Read the results of an analyzer as a table, CSV, JSON or Parquet.

    URL is the analyzer's address for readers. Results are in the order of their release. CSV and Parquet have a
    row per batch and label, with the bounds of the 95 % interval. Withheld batches and gaps are rows with a reason.
    In a series, "spent" is what the rounds so far cost a person who answered in each of them.

    \b
    Example: hubbub results http://127.0.0.1:8501 --token here/token
    """
    form = form or _form(output)
    if form == "parquet" and output == PIPE:
        raise click.UsageError("--format parquet needs a file: give one with -o")
    check_destination(output)
    if task is not None and (len(task) != 32 or not set(task) <= set("0123456789abcdef")):
        reject("task", "be the id of a task, 32 lower-case hexadecimal digits", task)
    token = _token(token_path)
    with contextlib.closing(ResultsClient(url, token, authority=Path(authority) if authority else None)) as client:
        found = [client.results(one) for one in ([task] if task else client.tasks())]
    rows = [row for one in found for row in one.rows()]
    if form == "csv":
        write_text(output, to_csv(rows))
    elif form == "parquet":
        write_text(output, to_parquet(rows))
    elif form == "json":
        write_text(output, json.dumps({"tasks": [asdict(one) for one in found]}, ensure_ascii=False, indent=1) + "\n")
    else:
        _print(found, top, output)


def _form(output: str) -> str:
    suffix = Path(output).suffix.lower().removeprefix(".")
    return suffix if output != PIPE and suffix in FORMS else "table"


def _token(path: str | None) -> str:
    if path is None:
        token = os.environ.get(VARIABLE, "")
        if not token:
            raise click.UsageError(f"give the token with --token FILE or in the variable {VARIABLE}")
        return token.strip()
    with naming(path):
        try:
            return read_text(path).decode("ascii").strip()
        except UnicodeDecodeError:
            reject("the token", "be one line of printable ASCII characters")


def _print(found: list[TaskResults], top: int, output: str) -> None:
    """Print the batches of each task, and the estimates of its newest committed batch."""
    console = screen.console()
    with console.capture() as capture:
        for one in found:
            rows = [_batch(result) for result in one.results]
            head = ("bucket", "round", "from", "released", "state", "people", "ε", "δ", "ε spent", "ε total", "reason")
            console.print(screen.grid(f"task {one.task}", head, rows, left=0))
            for gap in one.gaps:
                console.print(screen.plain(f"gap: {describe_gap(gap)}"))
            if not rows and not one.gaps:
                console.print("No batch yet: one is released when an epoch ends and the minimum batch size is reached.")
            newest = next((result for result in reversed(one.results) if table_of(result)["item"]), None)
            for result in one.results:
                for note in result.get("notes") or []:
                    console.print(screen.plain(f"note: bucket {_whole(result.get('bucket'))}: {note}"))
            if newest is not None:
                console.print(_figures(newest, top))
        if not found:
            console.print("The token does not allow reading any task.")
    write_text(output, capture.get())


def _batch(result: dict[str, Any]) -> tuple[str, ...]:
    guarantee = result.get("guarantee") or {}
    figures = [f"{float(guarantee[name]):.4g}" if name in guarantee else "" for name in ("epsilon", "delta")]
    for name in ("spent", "total"):
        found = (result.get(name) or {}).get("epsilon")
        figures.append("" if found is None else f"{float(found):.4g}")
    shown = [
        _whole(result.get("bucket")),
        _round(result),
        _time(result, "start"),
        _time(result, "released"),
        str(result.get("state", "")),
    ]
    return (*shown, _whole(result.get("people")), *figures, str(result.get("reason") or ""))


def _round(result: dict[str, Any]) -> str:
    """Return the round and the number of rounds."""
    number, rounds = result.get("round"), (result.get("total") or {}).get("rounds")
    return "" if number is None else f"{number}" if rounds is None else f"{number}/{rounds}"


def _time(result: dict[str, Any], name: str) -> str:
    """Return when the round starts, or the batch was released."""
    return time_of(result, name).replace("T", " ").replace(":00Z", "")


def _whole(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else ""


def _figures(result: dict[str, Any], top: int) -> Any:
    """Return the table of a result: the figures of its questions in order, or the largest counts; ``top`` of each."""
    columns = table_of(result)
    parts: dict[str, list[tuple[Any, ...]]] = {}
    for row in zip(*(columns[name] for name in ("question", "item", "unit", "value", "low", "high")), strict=True):
        parts.setdefault(row[0] or "", []).append(row[1:])
    named, rows = any(parts), []
    for question, found in parts.items():
        # A single list of labels is ranked; the figures of named questions keep their order.
        ordered = found if named else sorted(found, key=lambda one: -float(one[2]))
        for place, (item, unit, value, low, high) in enumerate(ordered[:top]):
            form = "z,.0f" if unit == PEOPLE else ",.4g"
            shown = (str(item), f"{value:{form}}", f"{low:{form}} … {high:{form}}")
            rows.append((question if place == 0 else "", *shown, str(unit or "")) if named else shown)
    most = max(map(len, parts.values()), default=0)
    rest = f", {top} figures of each question" if named else f", {top} of {most} labels"
    head = (
        ("question", "answer", "estimate", "95 % interval", "unit") if named else ("label", "people", "95 % interval")
    )
    title = f"estimates of {_where(result)}{rest if most > top else ''}"
    return screen.grid(title, head, rows, left=2) if named else screen.grid(title, head, rows)


def _where(result: dict[str, Any]) -> str:
    return f"bucket {result['bucket']}" if result.get("bucket") else "the newest batch"
