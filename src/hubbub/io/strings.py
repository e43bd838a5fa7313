"""Strings that nobody listed in CSV, TSV, JSON lines or Parquet: one column, or one entry, of text.

An empty cell of CSV, a null and a line without text stand for a person without a string; in JSON and Parquet an empty
string is a value.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from hubbub.errors import InvalidRecord, reject
from hubbub.io import parquet
from hubbub.io.policy import Policy, Repair
from hubbub.io.text import batches, csv_rows, json_line, opened
from hubbub.model.questions import Text
from hubbub.pipeline.encoding.encoded import Encoded
from hubbub.pipeline.encoding.sequences import is_text
from hubbub.pipeline.encoding.strings import encode_strings

Reader = Callable[[str, Repair, str | None, int], Iterator[Encoded]]
ENTRY = "must be a string, or an object with the entry that --column names"


def check_options(policy: Policy) -> None:
    """Raise if options are given that do not apply to strings, which have no labels."""
    if policy.missing is not None:
        reject("--missing", "not be given for strings: a person without one counts as such")
    if policy.other is not None:
        reject("--other", "not be given for strings, which are not listed")


def _strings(repair: Repair) -> Text:
    assert repair.schema.text is not None
    return repair.schema.text


def _choose(names: list[str], column: str | None) -> int:
    """Return the place of the column of strings."""
    if len(set(names)) != len(names):
        reject("columns", "have distinct names")
    if column is not None:
        if column not in names:
            reject("--column", "be the name of a column of the file", column)
        return names.index(column)
    if len(names) != 1:
        reject("the file", "have one column of strings; choose one by --column", len(names))
    return 0


def _encode(values: list[Any], repair: Repair, column: str | None) -> Encoded:
    """Encode strings, some of which may be the problems of their records."""
    problems = {place: value for place, value in enumerate(values) if isinstance(value, InvalidRecord)}
    # Something that is no string gets a problem, which is then replaced.
    encoded = encode_strings(
        [0 if place in problems else value for place, value in enumerate(values)], _strings(repair), column
    )
    return encoded.with_problems(problems)


def _csv(delimiter: str, path: str, repair: Repair, column: str | None, block: int) -> Iterator[Encoded]:
    with opened(path) as (file, fraction):
        width = 0
        with contextlib.closing(csv_rows(file, delimiter, lambda row: len(row) == width)) as rows:
            names = next(rows, None)
            if names is None:
                reject("the CSV file", "start with a header of column names, but it is empty")
            if isinstance(names, InvalidRecord):
                reject("the header of the CSV file", "be properly quoted")
            if not all(map(is_text, names)):
                reject("the header of the CSV file", "be UTF-8 text")
            chosen, width = _choose(names, column), len(names)
            for part in batches(rows, block):
                yield _encode([_cell(row, place, chosen, width) for place, row in enumerate(part)], repair, column)
                repair.summary.fraction = fraction()


def _cell(row: list[str] | InvalidRecord, place: int, chosen: int, width: int) -> Any:
    """Return the string of a row, None if the cell is empty, or the problem of the record."""
    if isinstance(row, InvalidRecord):
        return InvalidRecord(place + 1, row.problem)
    if len(row) != width:
        if not row and width == 1:
            return None
        return InvalidRecord(place + 1, f"must have as many columns as the header, {width:,}, got {len(row):,}")
    return row[chosen] or None


def _json_lines(path: str, repair: Repair, column: str | None, block: int) -> Iterator[Encoded]:
    with opened(path) as (file, fraction):
        for part in batches(file, block):
            values = [_entry(json_line(line, place + 1), place, column) for place, line in enumerate(part)]
            yield _encode(values, repair, column)
            repair.summary.fraction = fraction()


def _entry(value: Any, place: int, column: str | None) -> Any:
    if isinstance(value, Mapping) or column is not None:
        if column is None or not isinstance(value, Mapping) or column not in value:
            return value if isinstance(value, InvalidRecord) else InvalidRecord(place + 1, ENTRY)
        return value[column]
    return value


def _parquet(path: str, repair: Repair, column: str | None, block: int) -> Iterator[Encoded]:
    total, done = parquet.number_of_rows(path), 0
    for _, columns in parquet.read_columns(path, lambda names: [names[_choose(names, column)]], block):
        encoded = _encode(columns[0].to_pylist(), repair, column)
        yield encoded
        done += encoded.n
        repair.summary.fraction = done / total


READERS: dict[str, Reader] = {
    "csv": partial(_csv, ","),
    "tsv": partial(_csv, "\t"),
    "jsonl": _json_lines,
    "parquet": _parquet,
}
"""Readers of strings, by format."""
