"""``Encoded``: records as label indices or packed bits, with the problems of those that are invalid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import InvalidRecord
from hubbub.model.schema import Schema

UNSET, SET, INVALID, MISSING = 0, 1, 2, 3
"""Codes of the cells of a table with a column for every label."""
NO_VALUE, NOT_A_LABEL = -1, -2
"""Codes of values that are missing, or not in the schema, among indices of labels."""
TRUTH = {"0": UNSET, "1": SET, "false": UNSET, "true": SET, "": MISSING}
"""Codes of cells that are text, in lower case."""
NO_VALUE_TEXT = "must have a value, but it is missing"
CELL_TEXT = "must be 0, 1, true or false"
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Encoded:
    """Records in order, either as packed rows or as lists of set labels; an invalid record has no label."""

    n: int
    problems: Sequence[InvalidRecord] = ()
    """One for each invalid record, ascending."""
    renamed: Numbers
    """Positions, from 0, of records with labels outside the schema that were replaced by another label."""
    rows: NDArray[np.uint8] | None = None
    """Packed rows, for schemas in which any bits may be set."""
    indices: NDArray[Any] | None = None
    """Set labels of all records, ascending within each; None if there are rows."""
    sizes: Numbers | None = None
    """Number of set labels of each record; None if there are rows, or if every record has one label."""

    def repaired(self, label: int | None) -> "Encoded":
        """Return the records with invalid ones replaced by a single label, or left out if it is None."""
        where = np.array([one.record - 1 for one in self.problems], np.int64)
        if not where.size:
            return self
        n = self.n if label is not None else self.n - where.size
        if self.rows is not None:
            if label is None:
                rows = np.delete(self.rows, where, axis=0)
            else:
                rows = self.rows.copy()
                rows[where, label >> 3] = 1 << (label & 7)
            return replace(self, n=n, problems=(), rows=rows)
        assert self.indices is not None
        assert self.sizes is not None
        if label is None:
            return replace(self, n=n, problems=(), sizes=np.delete(self.sizes, where))
        sizes = self.sizes.copy()
        sizes[where] = 1
        ends = np.cumsum(self.sizes)
        return replace(self, n=n, problems=(), indices=np.insert(self.indices, ends[where], label), sizes=sizes)

    def with_problems(self, given: Mapping[int, InvalidRecord]) -> "Encoded":
        """Return the same records with other problems for invalid records, by position from 0."""
        if not given:
            return self
        return replace(self, problems=[given.get(one.record - 1, one) for one in self.problems])


def missing(position: int, column: str | None = None) -> InvalidRecord:
    """Return the problem of a record without a value."""
    return InvalidRecord(position + 1, NO_VALUE_TEXT, column=column, kind="missing")


def unknown(position: int, schema: Schema, column: str | None = None) -> InvalidRecord:
    """Return the problem of a record with a label outside the schema."""
    text = f"has a label that is not in the schema ({schema.label_summary})"
    return InvalidRecord(position + 1, text, column=column, kind="unknown")


def from_codes(
    codes: NDArray[Any], problems: Mapping[int, InvalidRecord], schema: Schema, renamed: Sequence[int] | Numbers = ()
) -> Encoded:
    """Return records with one label each; codes below 0 are invalid, and each has a problem."""
    good = codes >= 0
    listed = [problems[place] for place in sorted(problems)]
    changed = np.asarray(renamed, np.int64)
    if not listed:
        return Encoded(n=codes.size, indices=codes, renamed=changed)
    return Encoded(n=codes.size, indices=codes[good], sizes=good.astype(np.int64), problems=listed, renamed=changed)


def from_lists(
    flat: NDArray[Any],
    sizes: Numbers,
    problems: dict[int, InvalidRecord],
    schema: Schema,
    renamed: Sequence[int] | Numbers = (),
    column: str | None = None,
) -> Encoded:
    """Return records with any number of labels each, in any order; checks duplicates and limits."""
    n = sizes.size
    owner = np.repeat(np.arange(n), sizes)
    changed = np.asarray(renamed, np.int64)
    cells = owner * schema.width + flat
    if (cells[1:] <= cells[:-1]).any():
        cells = np.sort(cells)
        twice = np.append(cells[1:] == cells[:-1], False) if cells.size else np.zeros(0, np.bool_)
        # Two labels outside the schema that became one label are no duplicate.
        for place in np.setdiff1d(owner[twice], changed).tolist():
            problems.setdefault(place, InvalidRecord(place + 1, "has a label twice", column=column))
        cells = cells[~twice]
        owner, flat = cells // schema.width, cells % schema.width
        sizes = np.bincount(owner, minlength=n)
    _check_limits(sizes, problems, schema, column)
    if problems:
        wrong = np.zeros(n, np.bool_)
        wrong[list(problems)] = True
        flat, sizes = flat[~wrong[owner]], np.where(wrong, 0, sizes)
        changed = changed[~wrong[changed]]
    listed = [problems[place] for place in sorted(problems)]
    return Encoded(n=n, indices=flat, sizes=sizes, problems=listed, renamed=changed)


def cell_problem(position: int, codes: NDArray[np.uint8], labels: Sequence[str]) -> InvalidRecord:
    """Return the problem of a record, given the codes of its cells, at least one of them invalid, and their labels."""
    wrong = np.flatnonzero(codes == INVALID)
    if wrong.size:
        return InvalidRecord(position + 1, CELL_TEXT, column=labels[int(wrong[0])])
    return missing(position, labels[int(np.flatnonzero(codes == MISSING)[0])])


def from_cells(cells: NDArray[np.uint8], schema: Schema) -> Encoded:
    """Return the records of a table with a column for every label, from the codes of its cells."""
    n = len(cells)
    problems: dict[int, InvalidRecord] = {}
    for place in np.flatnonzero((cells > SET).any(axis=1)).tolist():
        problems[place] = cell_problem(place, cells[place], schema.labels)
    bits = cells == SET
    if problems:
        bits[list(problems)] = False
    if schema.dense:
        listed = [problems[place] for place in sorted(problems)]
        rows = np.packbits(bits, axis=1, bitorder="little")
        return Encoded(n=n, rows=rows, problems=listed, renamed=np.empty(0, np.int64))
    return from_lists(np.nonzero(bits)[1], bits.sum(axis=1, dtype=np.int64), problems, schema)


def _check_limits(sizes: Numbers, problems: dict[int, InvalidRecord], schema: Schema, column: str | None) -> None:
    for place in np.flatnonzero((sizes < schema.min_set) | (sizes > schema.max_set)).tolist():
        problems.setdefault(place, InvalidRecord(place + 1, limit_text(schema), column=column))


def limit_text(schema: Schema) -> str:
    """Return the problem of a record with more or fewer labels than the schema allows."""
    if schema.exclusive:
        return "must have exactly one label"
    return f"has more labels than max_set = {schema.max_set:,} allows"


def is_missing(value: Any) -> bool:
    """Return True for None, for a NaN, and for the missing values of pandas.

    >>> is_missing(None), is_missing(float("nan")), is_missing("")
    (True, True, False)
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))
