"""What people answered, from CSV, JSON lines or Parquet, as collections of a bounded number of records.

- **CSV**, with a header. Either a column for every label of the schema, of 0 and 1; or one column of labels, for
  schemas with several set bits separated by ``;``.
- **JSON lines**: a string for one-hot schemas, otherwise a list of strings; or objects with such an entry.
- **Parquet**: columns as in CSV, or one column of lists of strings.
"""

import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from hubbub.errors import InvalidInput, reject
from hubbub.io import arrow
from hubbub.io.files import PIPE, reading
from hubbub.records import Collection
from hubbub.schema import Schema

Form = Literal["csv", "jsonl", "parquet"]
SEPARATOR = ";"
"""Between the labels of one CSV cell."""
BLOCK = 1 << 16
"""Records at a time."""


def form_of(path: str) -> Form:
    """The form that the name of a file says; a pipe carries CSV unless told otherwise.

    >>> form_of("answers.jsonl"), form_of("-")
    ('jsonl', 'csv')
    """
    suffix = Path(path).suffix.lower()
    forms: dict[str, Form] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
    if path != PIPE and suffix not in forms:
        reject("the name of a file of values", "end in .csv, .jsonl or .parquet, or its format be given", "another")
    return "csv" if path == PIPE else forms[suffix]


def read_values(
    path: str, schema: Schema, *, form: Form | None = None, column: str | None = None, block: int = BLOCK
) -> Iterator[Collection]:
    """The records of a file in blocks; raises on the first that is not legal, naming its place and never its content.

    ``column`` is needed where there are several that do not have the names of the labels.
    """
    kind = form or form_of(path)
    blocks = {"csv": _csv, "jsonl": _json_lines, "parquet": _parquet}[kind](path, schema, column, block)
    start = 0
    for values in blocks:
        try:
            collection = Collection.from_values(values, schema)
        except InvalidInput as error:
            _refuse(error, start, len(values))
        start += len(collection)
        yield collection
    if not start:
        reject("values", "hold at least one record", "none")


def _refuse(error: InvalidInput, start: int, count: int) -> NoReturn:
    """The same complaint with the place in the file instead of that in the block."""
    text, found = re.subn(r"^value (\d+)", lambda match: f"record {start + int(match[1]) + 1:,}", str(error))
    where = "" if found else f" (among the records {start + 1:,} to {start + count:,})"
    raise InvalidInput(text + where) from None


def _batches(rows: Iterable[Any], block: int) -> Iterator[list[Any]]:
    source = iter(rows)
    while part := list(itertools.islice(source, block)):
        yield part


def _choose(names: list[str], schema: Schema, column: str | None) -> str | None:
    """The column that holds labels; None where every label has one of its own."""
    if len(set(names)) != len(names):
        reject("columns", "have distinct names", "one twice")
    if column is not None:
        if column not in names:
            reject("column", "be one of the file", column)
        return column
    if set(schema.labels) <= set(names):
        return None
    if len(names) != 1:
        reject("columns", "be one, or have the labels of the schema as names, or be chosen by --column", len(names))
    return names[0]


def _csv(path: str, schema: Schema, column: str | None, block: int) -> Iterator[Any]:
    with reading(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            rows = csv.reader(text, strict=True)
            names = next(rows, None)
            if names is None:
                reject("a CSV file", "start with the names of its columns", "nothing")
            chosen = _choose(names, schema, column)
            if column is None and chosen is not None and set(chosen.split(SEPARATOR)) <= set(schema.labels):
                # Taken for the header, the first person's answer would be lost.
                reject("a CSV file", "start with the name of its column, or have it chosen by --column", "a label")
            start = 0
            for part in _batches(rows, block):
                if any(len(row) != len(names) for row in part):
                    place = next(i for i, row in enumerate(part) if len(row) != len(names))
                    reject(f"record {start + place + 1:,}", f"have {len(names)} columns", len(part[place]))
                start += len(part)
                yield _cells(part, names, chosen, schema)
        except UnicodeDecodeError:
            reject("a CSV file", "be UTF-8 text", "other bytes")
        except csv.Error:
            reject("a CSV file", "be well quoted and without zero bytes", "another")
        finally:
            # The wrapper would close standard input, which is not ours.
            text.detach()


def _cells(rows: list[list[str]], names: list[str], chosen: str | None, schema: Schema) -> Any:
    if chosen is None:
        places = [names.index(label) for label in schema.labels]
        if places != list(range(len(names))):
            rows = [[row[place] for place in places] for row in rows]
        if not set(itertools.chain.from_iterable(rows)) <= {"0", "1"}:
            reject("cells under labels", "be 0 or 1", "others")
        flat = "".join(itertools.chain.from_iterable(rows)).encode()
        return np.frombuffer(flat, np.uint8).reshape(-1, schema.width) - ord("0")
    place = names.index(chosen)
    if schema.exclusive:
        return [row[place] for row in rows]
    return [row[place].split(SEPARATOR) if row[place] else [] for row in rows]


def _json_lines(path: str, schema: Schema, column: str | None, block: int) -> Iterator[Any]:
    del schema
    with reading(path) as file:
        start = 0
        for part in _batches(file, block):
            try:
                values = [json.loads(line) for line in part]
            except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
                reject(f"the lines {start + 1:,} to {start + len(part):,}", "each be JSON in UTF-8", "something else")
            if column is not None:
                if not all(isinstance(value, dict) and column in value for value in values):
                    reject("lines", f"each be an object with the entry {column!r}", "others")
                values = [value[column] for value in values]
            start += len(part)
            yield values


def _parquet(path: str, schema: Schema, column: str | None, block: int) -> Iterator[Any]:
    for names, columns in arrow.read_columns(path, lambda names: _columns(names, schema, column), block):
        if names == list(schema.labels):
            yield np.column_stack([np.asarray(values) for values in columns])
        else:
            yield columns[0].to_pylist()


def _columns(names: list[str], schema: Schema, column: str | None) -> list[str]:
    chosen = _choose(names, schema, column)
    return list(schema.labels) if chosen is None else [chosen]
