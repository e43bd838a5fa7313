"""Results as files: the extension of the name chooses the format."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from hubbub.documents import Json
from hubbub.io.files import PIPE, check_destination, write_text
from hubbub.results.frames import Table, to_csv, to_parquet

FORMATS = (".csv", ".parquet", ".json", ".html")
HELP = "Also write the result to this file: .csv, .parquet, .json or .html"


def check_result_file(path: str | None) -> None:
    """Raise if a result cannot be written to this file, before it is computed."""
    if path is None or path == PIPE:
        return
    if Path(path).suffix.lower() not in FORMATS:
        raise click.UsageError(f"-o must end in .csv, .parquet, .json or .html, got {Path(path).name!r}")
    check_destination(path)


def write_result(path: str, table: Table, text: str, page: Callable[[], str]) -> None:
    """Write a table in the format of its file name: columns, JSON or a page; standard output gets JSON."""
    write_columns(path, table.columns(), text, page, table.about())


def write_columns(
    path: str,
    columns: Mapping[str, Any],
    text: str,
    page: Callable[[], str],
    about: Mapping[str, Json] | None = None,
) -> None:
    """Write columns, JSON or a page; Parquet keeps what the columns are ``about``."""
    match Path(path).suffix.lower() if path != PIPE else ".json":
        case ".csv":
            write_text(path, to_csv(columns))
        case ".parquet":
            write_text(path, to_parquet(columns, about))
        case ".html":
            write_text(path, page())
        case _:
            write_text(path, text + "\n")
