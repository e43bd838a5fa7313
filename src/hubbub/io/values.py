"""Values in CSV, TSV, JSON lines or Parquet, read in blocks as collections.

- **CSV** and **TSV**, with a header. Either a column of 0 and 1, or of true and false, for every label of the schema,
  or one column of labels, separated by ``;`` unless the schema is one-hot.
- **JSON lines**: a string for one-hot schemas, otherwise a list of strings; or objects with such an entry, or with an
  entry of 0 and 1, or of true and false, for every label.
- **Parquet**: columns as in CSV, or one column of lists of strings.

Surveys have a column, or an entry, for every question: :mod:`hubbub.io.answers`. Strings that nobody listed are in one
column, or entry: :mod:`hubbub.io.strings`.

Text may be compressed by gzip. Records are counted from 1, after the header.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hubbub.errors import InvalidRecord, check_type, reject
from hubbub.io import answers, parquet, strings
from hubbub.io.files import PIPE, naming
from hubbub.io.policy import Policy, Repair, Summary
from hubbub.io.text import batches, csv_rows, json_line, opened
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.columns import encode_column, encode_table
from hubbub.pipeline.encoding.encoded import (
    CELL_TEXT,
    INVALID,
    MISSING,
    SET,
    TRUTH,
    Encoded,
    from_cells,
    is_missing,
    missing,
)
from hubbub.pipeline.encoding.sequences import encode_sequence, is_text
from hubbub.pipeline.records import Collection, stored

Form = Literal["csv", "tsv", "jsonl", "parquet"]
SEPARATOR = ";"
"""Separates the labels in a cell of text."""
BLOCK = 1 << 16
"""Records that are read at a time."""
FORMS: dict[str, Form] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
"""Formats by suffix; all but Parquet may be followed by ``.gz``."""


def form_of(path: str) -> Form:
    """Return the format that the suffix of a file name implies; the default for standard input is CSV.

    >>> form_of("answers.jsonl"), form_of("answers.tsv.gz"), form_of("-")
    ('jsonl', 'tsv', 'csv')
    """
    if path == PIPE:
        return "csv"
    name = Path(path.lower())
    packed = name.suffix == ".gz"
    suffix = name.with_suffix("").suffix if packed else name.suffix
    if suffix not in FORMS or (packed and FORMS[suffix] == "parquet"):
        known = ".csv, .tsv, .jsonl or .ndjson, each possibly followed by .gz, or in .parquet"
        reject("the name of the file of values", f"end in {known} unless --format is given", name.suffix)
    return FORMS[suffix]


def read_values(
    path: str,
    schema: Schema,
    *,
    form: Form | None = None,
    column: str | None = None,
    block: int = BLOCK,
    policy: Policy | None = None,
    summary: Summary | None = None,
) -> Iterator[Collection]:
    """Yield the records of a file in blocks.

    Unless the policy says otherwise, :class:`InvalidRecord` is raised for the first invalid record, after the others
    are counted. ``column`` is required if the file has several columns that are not named after the labels. ``summary``
    is updated before each block is returned.
    """
    summary = Summary() if summary is None else check_type("summary", summary, Summary)
    if check_type("schema", schema, Schema).named:
        answers.check_options(policy or Policy(), column)
    if schema.text is not None:
        strings.check_options(policy or Policy())
    repair = Repair(policy or Policy(), schema, summary)
    with naming(path):
        yield from _collections(path, form or form_of(path), column, block, repair)


def _collections(path: str, form: Form, column: str | None, block: int, repair: Repair) -> Iterator[Collection]:
    summary, schema, used = repair.summary, repair.schema, 0
    readers = _READERS if schema.text is None else strings.READERS
    survey = schema.named
    blocks = answers.READERS[form](path, repair, block) if survey else readers[form](path, repair, column, block)
    for encoded in blocks:
        records = repair(encoded)
        if records is not None and records.n:
            used += records.n
            yield Collection(schema, stored(records, schema))
    repair.finish()
    if not summary.rows:
        reject("the file of values", "contain at least one record")
    if not used:
        reject("the file of values", f"contain at least one valid record, but all {summary.rows:,} are invalid")


def _choose(names: list[str], schema: Schema, column: str | None, policy: Policy) -> str | None:
    """Return the name of the column of labels, or None if there is a column for every label."""
    if len(set(names)) != len(names):
        reject("columns", "have distinct names")
    if column is not None:
        if column not in names:
            reject("--column", "be the name of a column of the file", column)
        return column
    if set(schema.labels) <= set(names):
        if policy.other is not None:
            must = "not be given for a file with a column for every label, which has no labels in its cells"
            reject("--other", must)
        return None
    if len(names) != 1:
        reject("the file", "have one column, or a column for every label; choose one by --column", len(names))
    return names[0]


def _csv(delimiter: str, path: str, repair: Repair, column: str | None, block: int) -> Iterator[Encoded]:
    schema = repair.schema
    with opened(path) as (file, fraction):
        several_lines = any("\n" in label or "\r" in label for label in schema.labels)
        width, used = 0, list[int]()

        def spans(row: list[str]) -> bool:
            """Return False if a cell that is read has several lines, but no label does."""
            return len(row) == width and (several_lines or not any("\n" in row[i] or "\r" in row[i] for i in used))

        with contextlib.closing(csv_rows(file, delimiter, spans)) as rows:
            names = next(rows, None)
            if names is None:
                reject("the CSV file", "start with a header of column names, but it is empty")
            if isinstance(names, InvalidRecord):
                reject("the header of the CSV file", "be properly quoted")
            if not all(map(is_text, names)):
                reject("the header of the CSV file", "be UTF-8 text")
            name = _choose(names, schema, column, repair.policy)
            if column is None and name is not None and set(name.split(SEPARATOR)) <= set(schema.labels):
                # If it were taken for the header, the first person's answer would be lost.
                reject(
                    "the CSV file", "start with a column name, but starts with a label; if it is the name, use --column"
                )
            chosen = None if name is None else names.index(name)
            width, used = len(names), [names.index(label) for label in (schema.labels if name is None else [name])]
            for part in batches(rows, block):
                # A name that is not the caller's may be the answer of a person, if the file has no header.
                yield _encode_rows(part, names, chosen, column, repair)
                repair.summary.fraction = fraction()


def _encode_rows(rows: list[Any], names: list[str], chosen: int | None, column: str | None, repair: Repair) -> Encoded:
    schema, width = repair.schema, len(names)
    problems: dict[int, InvalidRecord] = {}
    for place, row in enumerate(rows):
        if isinstance(row, InvalidRecord):
            problems[place] = InvalidRecord(place + 1, row.problem)
        elif len(row) != width:
            text = f"must have as many columns as the header, {width:,}, got {len(row):,}"
            problems[place] = missing(place) if not row and width == 1 else InvalidRecord(place + 1, text)
    for place in problems:
        rows[place] = [""] * width
    if chosen is None:
        return _encode_cells(rows, names, schema).with_problems(problems)
    values: list[Any] = [row[chosen] for row in rows]
    if not schema.exclusive:
        values = [cell.split(SEPARATOR) if cell else [] for cell in values]
    for place in problems:
        values[place] = None
    return encode_sequence(values, schema, other=repair.other, column=column).with_problems(problems)


def _encode_cells(rows: list[list[str]], names: list[str], schema: Schema) -> Encoded:
    places = [names.index(label) for label in schema.labels]
    if places != list(range(len(names))):
        rows = [[row[place] for place in places] for row in rows]
    codes = {cell: TRUTH.get(cell.lower(), INVALID) for cell in set(itertools.chain.from_iterable(rows))}
    cells = np.fromiter(map(codes.__getitem__, itertools.chain.from_iterable(rows)), np.uint8, len(rows) * schema.width)
    return from_cells(cells.reshape(-1, schema.width), schema)


def _json_lines(path: str, repair: Repair, column: str | None, block: int) -> Iterator[Encoded]:
    with opened(path) as (file, fraction):
        for part in batches(file, block):
            values = [_entry(json_line(line, place + 1), place, repair, column) for place, line in enumerate(part)]
            problems = {place: value for place, value in enumerate(values) if isinstance(value, InvalidRecord)}
            for place in problems:
                values[place] = None
            encoded = encode_sequence(values, repair.schema, other=repair.other, column=column)
            yield encoded.with_problems(problems)
            repair.summary.fraction = fraction()


def _entry(value: Any, place: int, repair: Repair, column: str | None) -> Any:
    """Return the label or labels of a line of JSON, or the problem of the record."""
    if isinstance(value, InvalidRecord) or value is None:
        return value
    if column is not None:
        if not isinstance(value, Mapping) or column not in value:
            return InvalidRecord(place + 1, f"must be an object with the entry {column!r}")
        return value[column]
    if not isinstance(value, Mapping):
        return value
    return _truths(value, place, repair)


def _truths(value: Mapping[str, Any], place: int, repair: Repair) -> Any:
    """Return the labels whose entries are 1 or true."""
    schema, chosen = repair.schema, []
    if repair.policy.other is not None:
        return InvalidRecord(place + 1, "must be a label or a list of labels if --other is given")
    for label in schema.labels:
        if label not in value and not any(known in value for known in schema.labels):
            return InvalidRecord(place + 1, "must be a label, a list of labels, or an object with every label")
        cell = value.get(label)
        code = MISSING if is_missing(cell) else INVALID
        if isinstance(cell, bool | int | str):
            code = TRUTH.get(str(int(cell) if isinstance(cell, bool) else cell).lower(), INVALID)
        if code == MISSING:
            return missing(place, label)
        if code == INVALID:
            return InvalidRecord(place + 1, CELL_TEXT, column=label)
        if code == SET:
            chosen.append(label)
    if not schema.exclusive:
        return chosen
    return chosen[0] if len(chosen) == 1 else InvalidRecord(place + 1, "must have exactly one label")


def _parquet(path: str, repair: Repair, column: str | None, block: int) -> Iterator[Encoded]:
    schema = repair.schema

    def choose(names: list[str]) -> list[str]:
        chosen = _choose(names, schema, column, repair.policy)
        return list(schema.labels) if chosen is None else [chosen]

    total = parquet.number_of_rows(path)
    done = 0
    for names, columns in parquet.read_columns(path, choose, block):
        if column is None and names == list(schema.labels):
            encoded = encode_table(columns, schema)
        else:
            encoded = encode_column(columns[0], schema, other=repair.other, separator=SEPARATOR, name=column)
        yield encoded
        done += encoded.n
        repair.summary.fraction = done / total


_READERS: dict[str, Callable[[str, Repair, str | None, int], Iterator[Encoded]]] = {
    "csv": partial(_csv, ","),
    "tsv": partial(_csv, "\t"),
    "jsonl": _json_lines,
    "parquet": _parquet,
}
