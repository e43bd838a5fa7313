"""Values in CSV, TSV, JSON lines or Parquet, read in blocks as collections.

- **CSV** and **TSV**, with a header. Either a column of 0 and 1, or of true and false, for every label of the schema,
  or one column of labels, separated by ``;`` unless the schema is one-hot.
- **JSON lines**: a string for one-hot schemas, otherwise a list of strings; or objects with such an entry, or with an
  entry of 0 and 1, or of true and false, for every label.
- **Parquet**: columns as in CSV, or one column of lists of strings.

Surveys have a column, or an entry, for every question: :mod:`hubbub.io.answers`. Strings that nobody listed are in one
column, or entry, of text; an empty cell of CSV, a null and a line without text stand for a person without a string.

Text may be compressed by gzip. Records are counted from 1, after the header.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from hubbub.errors import InvalidRecord, check_type, reject
from hubbub.io import parquet
from hubbub.io.answers import AnswersLayout
from hubbub.io.files import PIPE, naming
from hubbub.io.policy import Policy, Problems, Repair, Summary
from hubbub.io.text import batches, csv_rows, json_line, opened
from hubbub.model.questions.text import Text
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
from hubbub.pipeline.encoding.strings import encode_strings
from hubbub.pipeline.records import Collection, stored

Form = Literal["csv", "tsv", "jsonl", "parquet"]
SEPARATOR = ";"
"""Separates the labels in a cell of text."""
BLOCK = 1 << 16
"""Records that are read at a time."""
ENTRY = "must be a string, or an object with the entry that --column names"
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
    schema, policy = check_type("schema", schema, Schema), policy or Policy()
    layout = _layout(schema, policy, summary, column)
    repair = Repair(policy, schema, summary)
    try:
        with naming(path):
            yield from _collections(path, form or form_of(path), layout, block, repair)
    except InvalidRecord as error:
        if layout.hint:
            error.add_note(layout.hint)
        raise


class Layout(Protocol):
    """The places of records in a file: the columns that are read, and what a row, an entry or a column means."""

    @property
    def hint(self) -> str:
        """Advice about an invalid record, if it is not that of the command line."""

    @property
    def several_lines(self) -> bool:
        """True if a cell of CSV may have several lines."""

    def used(self, names: list[str]) -> list[str]:
        """Return the columns of the file that are read, or raise."""

    def check_header(self, used: list[str]) -> None:
        """Raise if the header of CSV may be a person's answer."""

    def blank(self, place: int) -> InvalidRecord | None:
        """Return the problem of an empty line of CSV with one column; None if it is like an empty cell."""

    def rows(self, cells: list[list[str]], used: list[str], problems: Problems) -> Encoded:
        """Return the records of the cells that are read, row by row; those with problems are empty."""

    def entry(self, line: bytes, place: int) -> Any:
        """Return the value of a line of JSON, or the problem of the record."""

    def entries(self, values: list[Any], problems: Problems) -> Encoded:
        """Return the records of such values; those with problems are None."""

    def columns(self, names: list[str], columns: list[Any]) -> Encoded:
        """Return the records of columns of Arrow."""


def _layout(schema: Schema, policy: Policy, summary: Summary, column: str | None) -> Layout:
    if schema.named:
        return AnswersLayout(schema, policy, summary, column)
    return TextLayout(schema.text, policy, column) if schema.text else LabelsLayout(schema, policy, column)


def _collections(path: str, form: Form, layout: Layout, block: int, repair: Repair) -> Iterator[Collection]:
    summary, schema, used = repair.summary, repair.schema, 0
    for encoded in _READERS[form](path, layout, summary, block):
        records = repair(encoded)
        if records is not None and records.n:
            used += records.n
            yield Collection(schema, stored(records, schema))
    repair.finish()
    if not summary.rows:
        reject("the file of values", "contain at least one record")
    if not used:
        reject("the file of values", f"contain at least one valid record, but all {summary.rows:,} are invalid")


def _csv(delimiter: str, path: str, layout: Layout, summary: Summary, block: int) -> Iterator[Encoded]:
    with opened(path) as (file, fraction):
        width, places = 0, list[int]()

        def spans(row: list[str]) -> bool:
            """Return False if a cell that is read has several lines, but no value does."""
            return len(row) == width and (
                layout.several_lines or not any("\n" in row[i] or "\r" in row[i] for i in places)
            )

        with contextlib.closing(csv_rows(file, delimiter, spans)) as rows:
            names = next(rows, None)
            if names is None:
                reject("the CSV file", "start with a header of column names, but it is empty")
            if isinstance(names, InvalidRecord):
                reject("the header of the CSV file", "be properly quoted")
            if not all(map(is_text, names)):
                reject("the header of the CSV file", "be UTF-8 text")
            used = layout.used(names)
            layout.check_header(used)
            width, places = len(names), [names.index(name) for name in used]
            for part in batches(rows, block):
                problems: Problems = {}
                cells = [_cells(row, place, width, layout, problems) for place, row in enumerate(part)]
                if places != list(range(width)):
                    cells = [[row[i] for i in places] for row in cells]
                yield layout.rows(cells, used, problems)
                summary.fraction = fraction()


def _cells(row: list[str] | InvalidRecord, place: int, width: int, layout: Layout, problems: Problems) -> list[str]:
    """Return the cells of a row; empty ones for a record with a problem, which is noted."""
    if isinstance(row, InvalidRecord):
        problem: InvalidRecord | None = InvalidRecord(place + 1, row.problem)
    elif len(row) == width:
        return row
    elif not row and width == 1:
        problem = layout.blank(place)
    else:
        problem = InvalidRecord(place + 1, f"must have as many columns as the header, {width:,}, got {len(row):,}")
    if problem is not None:
        problems[place] = problem
    return [""] * width


def _json_lines(path: str, layout: Layout, summary: Summary, block: int) -> Iterator[Encoded]:
    with opened(path) as (file, fraction):
        for part in batches(file, block):
            values = [layout.entry(line, place) for place, line in enumerate(part)]
            problems = {place: value for place, value in enumerate(values) if isinstance(value, InvalidRecord)}
            for place in problems:
                values[place] = None
            yield layout.entries(values, problems)
            summary.fraction = fraction()


def _parquet(path: str, layout: Layout, summary: Summary, block: int) -> Iterator[Encoded]:
    total, done = parquet.number_of_rows(path), 0
    for names, columns in parquet.read_columns(path, layout.used, block):
        encoded = layout.columns(names, columns)
        yield encoded
        done += encoded.n
        summary.fraction = done / total


_READERS: dict[Form, Callable[[str, Layout, Summary, int], Iterator[Encoded]]] = {
    "csv": partial(_csv, ","),
    "tsv": partial(_csv, "\t"),
    "jsonl": _json_lines,
    "parquet": _parquet,
}


def _choose_column(names: list[str], column: str | None, must: str) -> str:
    """Return the name of the only column that is read: the one that is chosen, or the only one of the file."""
    if len(set(names)) != len(names):
        reject("columns", "have distinct names")
    if column is None:
        if len(names) != 1:
            reject("the file", f"{must}; choose one by --column", len(names))
        return names[0]
    if column not in names:
        reject("--column", "be the name of a column of the file", column)
    return column


class LabelsLayout:
    """A file of labels: one column of labels, or a column of truth values for every label."""

    hint = ""

    def __init__(self, schema: Schema, policy: Policy, column: str | None) -> None:
        self._schema, self._column, self._one = schema, column, bool(schema.min_set)
        self._other = policy.index("other", schema)
        self.several_lines = any("\n" in label or "\r" in label for label in schema.labels)

    def used(self, names: list[str]) -> list[str]:
        """Return the column of labels, or the columns of all labels."""
        labels = self._schema.labels
        if self._column is None and len(set(names)) == len(names) and set(labels) <= set(names):
            if self._other is not None:
                must = "not be given for a file with a column for every label, which has no labels in its cells"
                reject("--other", must)
            return list(labels)
        return [_choose_column(names, self._column, "have one column, or a column for every label")]

    def _is_table(self, used: list[str]) -> bool:
        return self._column is None and used == list(self._schema.labels)

    def check_header(self, used: list[str]) -> None:
        """Raise if the only column has the name of a label: the first person's answer would be lost."""
        labels = set(self._schema.labels)
        if self._column is None and not self._is_table(used) and set(used[0].split(SEPARATOR)) <= labels:
            must = "start with a column name, but starts with a label; if it is the name, use --column"
            reject("the CSV file", must)

    def blank(self, place: int) -> InvalidRecord | None:
        """Return the problem of a record without a value: an empty cell is no label, but a value."""
        return missing(place)

    def rows(self, cells: list[list[str]], used: list[str], problems: Problems) -> Encoded:
        """Return the records of rows of CSV."""
        if self._is_table(used):
            return _encode_cells(cells, self._schema).with_problems(problems)
        texts = [row[0] for row in cells]
        values: list[Any] = list(texts) if self._one else [cell.split(SEPARATOR) if cell else [] for cell in texts]
        for place in problems:
            values[place] = None
        return self.entries(values, problems)

    def entry(self, line: bytes, place: int) -> Any:
        """Return the label or labels of a line of JSON, or the problem of the record."""
        value, column = json_line(line, place + 1), self._column
        if isinstance(value, InvalidRecord) or value is None:
            return value
        if column is None:
            return self._labels(value, place) if isinstance(value, Mapping) else value
        if not isinstance(value, Mapping) or column not in value:
            return InvalidRecord(place + 1, f"must be an object with the entry {column!r}")
        return value[column]

    def _labels(self, value: Mapping[str, Any], place: int) -> Any:
        """Return the labels whose entries are 1 or true."""
        schema, chosen = self._schema, []
        if self._other is not None:
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
        if not self._one:
            return chosen
        return chosen[0] if len(chosen) == 1 else InvalidRecord(place + 1, "must have exactly one label")

    def entries(self, values: list[Any], problems: Problems) -> Encoded:
        """Return the records of labels, or of lists of labels."""
        # A name that is not the caller's may be the answer of a person, if the file has no header.
        found = encode_sequence(values, self._schema, other=self._other, column=self._column)
        return found.with_problems(problems)

    def columns(self, names: list[str], columns: list[Any]) -> Encoded:
        """Return the records of columns of Arrow."""
        if self._is_table(names):
            return encode_table(columns, self._schema)
        return encode_column(columns[0], self._schema, other=self._other, separator=SEPARATOR, name=self._column)


def _encode_cells(rows: list[list[str]], schema: Schema) -> Encoded:
    codes = {cell: TRUTH.get(cell.lower(), INVALID) for cell in set(itertools.chain.from_iterable(rows))}
    cells = np.fromiter(map(codes.__getitem__, itertools.chain.from_iterable(rows)), np.uint8, len(rows) * schema.width)
    return from_cells(cells.reshape(-1, schema.width), schema)


def _check_options(policy: Policy) -> None:
    """Raise if options are given that do not apply to strings, which have no labels."""
    if policy.missing is not None:
        reject("--missing", "not be given for strings: a person without one counts as such")
    if policy.other is not None:
        reject("--other", "not be given for strings, which are not listed")


class TextLayout:
    """A file of strings: one column, or one entry, which ``column`` names if there are several."""

    hint = ""
    several_lines = True

    def __init__(self, strings: Text, policy: Policy, column: str | None) -> None:
        _check_options(policy)
        self._strings, self._column = strings, column

    def used(self, names: list[str]) -> list[str]:
        """Return the column of strings."""
        return [_choose_column(names, self._column, "have one column of strings")]

    def check_header(self, used: list[str]) -> None:
        """Accept any name of a column."""

    def blank(self, place: int) -> InvalidRecord | None:
        """Return no problem: a line without text is a person without a string."""

    def rows(self, cells: list[list[str]], used: list[str], problems: Problems) -> Encoded:
        """Return the records of rows of CSV."""
        return self.entries([row[0] or None for row in cells], problems)

    def entry(self, line: bytes, place: int) -> Any:
        """Return the string of a line of JSON, or the problem of the record."""
        value = json_line(line, place + 1)
        if isinstance(value, InvalidRecord) or (self._column is None and not isinstance(value, Mapping)):
            return value
        if self._column is None or not isinstance(value, Mapping) or self._column not in value:
            return InvalidRecord(place + 1, ENTRY)
        return value[self._column]

    def entries(self, values: list[Any], problems: Problems) -> Encoded:
        """Return the records of the entries of lines of JSON."""
        # Something that is no string gets a problem, which is then replaced.
        given = [0 if place in problems else value for place, value in enumerate(values)]
        return encode_strings(given, self._strings, self._column).with_problems(problems)

    def columns(self, names: list[str], columns: list[Any]) -> Encoded:
        """Return the records of a column of Arrow."""
        return self.entries(columns[0].to_pylist(), {})
