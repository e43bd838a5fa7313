"""Values in CSV, JSON lines or Parquet, read in blocks as collections.

- **CSV**, with a header. Either a column of 0 and 1 for every label of the schema, or one column of labels, separated
  by ``;`` unless the schema is one-hot.
- **JSON lines**: a string for one-hot schemas, otherwise a list of strings; or objects with such an entry.
- **Parquet**: columns as in CSV, or one column of lists of strings.
"""

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hubbub.errors import InvalidRecord, reject
from hubbub.io import arrow
from hubbub.io.files import PIPE, naming, reading
from hubbub.records import Collection
from hubbub.schema import Schema

Form = Literal["csv", "jsonl", "parquet"]
SEPARATOR = ";"
"""Separates the labels in a CSV cell."""
BLOCK = 1 << 16
"""Records that are read at a time."""


def form_of(path: str) -> Form:
    """Return the format that the suffix of a file name implies; the default for standard input is CSV.

    >>> form_of("answers.jsonl"), form_of("-")
    ('jsonl', 'csv')
    """
    suffix = Path(path).suffix.lower()
    forms: dict[str, Form] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
    if path != PIPE and suffix not in forms:
        reject("the file of values", "end in .csv, .jsonl, .ndjson or .parquet unless --format is given", suffix)
    return "csv" if path == PIPE else forms[suffix]


def read_values(
    path: str, schema: Schema, *, form: Form | None = None, column: str | None = None, block: int = BLOCK
) -> Iterator[Collection]:
    """Yield the records of a file in blocks; raise :class:`InvalidRecord` with the number of the first invalid one.

    ``column`` is required if the file has several columns that are not named after the labels.
    """
    with naming(path):
        yield from _collections(path, schema, form or form_of(path), column, block)


def _collections(path: str, schema: Schema, kind: Form, column: str | None, block: int) -> Iterator[Collection]:
    blocks = {"csv": _csv, "jsonl": _json_lines, "parquet": _parquet}[kind](path, schema, column, block)
    start = 0
    for values in blocks:
        try:
            collection = Collection.from_values(values, schema)
        except InvalidRecord as error:
            raise InvalidRecord(start + error.record, error.problem) from None
        start += len(collection)
        yield collection
    if not start:
        reject("the file of values", "contain at least one record")


def _batches(rows: Iterable[Any], block: int) -> Iterator[list[Any]]:
    source = iter(rows)
    while part := list(itertools.islice(source, block)):
        yield part


def _choose(names: list[str], schema: Schema, column: str | None) -> str | None:
    """Return the name of the column of labels, or None if there is a column for every label."""
    if len(set(names)) != len(names):
        reject("columns", "have distinct names")
    if column is not None:
        if column not in names:
            reject("--column", f"be one of the {len(names):,} columns of the file", column)
        return column
    if set(schema.labels) <= set(names):
        return None
    if len(names) != 1:
        reject("the file", "have one column, or a column for every label; choose one by --column", len(names))
    return names[0]


def _csv(path: str, schema: Schema, column: str | None, block: int) -> Iterator[Any]:
    with reading(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            rows = csv.reader(text, strict=True)
            names = next(rows, None)
            if names is None:
                reject("the CSV file", "start with a header of column names, but it is empty")
            chosen = _choose(names, schema, column)
            if column is None and chosen is not None and set(chosen.split(SEPARATOR)) <= set(schema.labels):
                # If it were taken for the header, the first person's answer would be lost.
                reject(
                    "the CSV file", "start with a column name, but starts with a label; if it is the name, use --column"
                )
            start = 0
            for part in _batches(rows, block):
                if any(len(row) != len(names) for row in part):
                    place = next(i for i, row in enumerate(part) if len(row) != len(names))
                    problem = f"must have as many columns as the header, {len(names):,}, got {len(part[place]):,}"
                    raise InvalidRecord(start + place + 1, problem)
                yield _cells(part, names, chosen, schema, start)
                start += len(part)
        except UnicodeDecodeError:
            reject("the CSV file", "be UTF-8 text")
        except csv.Error:
            reject("the CSV file", "be properly quoted and contain no zero bytes")
        finally:
            # The wrapper would close standard input.
            text.detach()


def _cells(rows: list[list[str]], names: list[str], chosen: str | None, schema: Schema, start: int) -> Any:
    if chosen is None:
        places = [names.index(label) for label in schema.labels]
        if places != list(range(len(names))):
            rows = [[row[place] for place in places] for row in rows]
        if not set(itertools.chain.from_iterable(rows)) <= {"0", "1"}:
            place = next(i for i, row in enumerate(rows) if not set(row) <= {"0", "1"})
            raise InvalidRecord(start + place + 1, "must have 0 or 1 in the column of every label")
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
            yield [_line(line, start + place + 1, column) for place, line in enumerate(part)]
            start += len(part)


def _line(line: bytes, record: int, column: str | None) -> Any:
    try:
        value = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise InvalidRecord(record, "must be a line of JSON in UTF-8") from None
    if column is None:
        return value
    if not isinstance(value, dict) or column not in value:
        raise InvalidRecord(record, f"must be an object with the entry {column!r}")
    return value[column]


def _parquet(path: str, schema: Schema, column: str | None, block: int) -> Iterator[Any]:
    for names, columns in arrow.read_columns(path, lambda names: _columns(names, schema, column), block):
        if names == list(schema.labels):
            yield np.column_stack([np.asarray(values) for values in columns])
        else:
            yield columns[0].to_pylist()


def _columns(names: list[str], schema: Schema, column: str | None) -> list[str]:
    chosen = _choose(names, schema, column)
    return list(schema.labels) if chosen is None else [chosen]
