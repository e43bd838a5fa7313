"""Strings that nobody listed in files: one column, or one entry, of text.

An empty cell of CSV, a null and a line without text stand for a person without a string; in JSON and Parquet an empty
string is a value.
"""

from collections.abc import Mapping
from typing import Any

from hubbub.errors import InvalidRecord, reject
from hubbub.io.policy import Policy, Problems
from hubbub.io.text import json_line
from hubbub.model.questions.text import Text
from hubbub.pipeline.encoding.encoded import Encoded
from hubbub.pipeline.encoding.strings import encode_strings

ENTRY = "must be a string, or an object with the entry that --column names"


def check_options(policy: Policy) -> None:
    """Raise if options are given that do not apply to strings, which have no labels."""
    if policy.missing is not None:
        reject("--missing", "not be given for strings: a person without one counts as such")
    if policy.other is not None:
        reject("--other", "not be given for strings, which are not listed")


def choose_column(names: list[str], column: str | None, must: str) -> str:
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


class TextLayout:
    """A file of strings: one column, or one entry, which ``column`` names if there are several."""

    hint = ""
    several_lines = True

    def __init__(self, strings: Text, policy: Policy, column: str | None) -> None:
        check_options(policy)
        self._strings, self._column = strings, column

    def used(self, names: list[str]) -> list[str]:
        """Return the column of strings."""
        return [choose_column(names, self._column, "have one column of strings")]

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
