"""Columns of data frames: checked on the driver, because the errors of Spark quote the values that it cannot cast.

Columns of booleans, one for each label, are packed into words of 64 bits inside the JVM, so that one cell crosses to
Python instead of 64.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubbub.errors import InvalidRecord, check_type, kind_of, reject
from hubbub.model.questions import Choice, Flag
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.encoded import CELL_TEXT
from hubbub.pipeline.records import Collection

WORD = 64
WHOLE = ("tinyint", "smallint", "int", "bigint")
TEXTS = ("string", *WHOLE)
TRUTHS = ("boolean", "string", "float", "double", *WHOLE)
NUMBERS = ("string", "float", "double", "decimal", *WHOLE)


@dataclass(frozen=True, slots=True)
class Selected:
    """The columns of a data frame that hold the answers."""

    frame: Any
    column: str | None
    """The column of labels or of lists of labels; None if there are several columns."""
    packed: bool
    """True if the columns are words of packed bits."""


def functions() -> Any:
    """Return the functions of Spark SQL."""
    return importlib.import_module("pyspark.sql.functions")


def cell(name: str) -> Any:
    """Return the column of a data frame with exactly this name, which may contain dots and backquotes."""
    return functions().col("`" + name.replace("`", "``") + "`")


def select(frame: Any, schema: Schema, column: str | None) -> Selected:
    """Return the columns of the answers, after checking that they exist and have types that can be read."""
    kinds = dict(frame.dtypes)
    if len(kinds) != len(frame.columns):
        reject("the columns of the data frame", "have distinct names")
    if schema.named:
        if column is not None:
            reject("column", "be None for a survey, which has a column for every question")
        return _questions(frame, schema, kinds)
    if column is None and set(schema.labels) <= set(kinds):
        return _labels(frame, schema, kinds)
    if column is None:
        if len(kinds) != 1:
            must = "have one column, or a column for every label; choose one by column"
            reject("the data frame", must, len(kinds))
        column = frame.columns[0]
    elif check_type("column", column, str) not in kinds:
        reject("column", "be the name of a column of the data frame", column)
    _check_labels(column, kinds[column], schema)
    return Selected(frame.select(cell(column)), column, False)


def _check_labels(name: str, kind: str, schema: Schema) -> None:
    listed = kind.removeprefix("array<").removesuffix(">")
    if schema.exclusive:
        _check_kind(name, kind, TEXTS, "labels: text or whole numbers")
    elif not (schema.width == 1 and kind == "boolean"):
        _check_kind(name, listed if kind != listed else "", TEXTS, "lists of labels")


def _check_kind(name: str, kind: str, allowed: Sequence[str], what: str) -> None:
    if kind.partition("(")[0] not in allowed:
        reject(f"the column {name!r}", f"have {what}")


def _questions(frame: Any, schema: Schema, kinds: dict[str, str]) -> Selected:
    for name, question in schema.questions.asked:
        if name not in kinds:
            reject("the data frame", f"have a column for every question, but {name!r} has none")
        if isinstance(question, Choice):
            _check_kind(name, kinds[name], TEXTS, "labels: text or whole numbers")
        elif isinstance(question, Flag):
            _check_kind(name, kinds[name], TRUTHS, "truth values, or 0 and 1")
        else:
            _check_kind(name, kinds[name], NUMBERS, "numbers")
    return Selected(frame.select(*[cell(name) for name, _ in schema.questions.asked]), None, False)


def _labels(frame: Any, schema: Schema, kinds: dict[str, str]) -> Selected:
    for label in schema.labels:
        _check_kind(label, kinds[label], TRUTHS, "truth values, or 0 and 1")
    if not {kinds[label] for label in schema.labels} <= {"boolean", *WHOLE}:
        return Selected(frame.select(*[cell(label) for label in schema.labels]), None, False)
    bits = [_bit(label, kinds[label]) for label in schema.labels]
    words = [_word(bits[start : start + WORD]).alias(f"word{start}") for start in range(0, len(bits), WORD)]
    return Selected(frame.select(*words), None, True)


def _bit(label: str, kind: str) -> Any:
    number = cell(label).cast("long")
    if kind == "boolean":
        return number
    # Null for other numbers, which the task rejects. Truth values need no check, which would double the cost.
    return functions().when((number == 0) | (number == 1), number)


def _word(bits: list[Any]) -> Any:
    """Return up to 64 columns of 0 and 1 as one; a balanced tree, because a chain makes the generated code too deep."""
    terms = [functions().shiftleft(bit, place) if place else bit for place, bit in enumerate(bits)]
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [one.bitwiseOR(two) for one, two in pairs] + terms[len(terms) & ~1 :]
    return terms[0]


def unpack(table: Any, schema: Schema) -> Collection:
    """Return records from words of packed bits, in which a record without a value, or with a wrong one, has a null."""
    words = [table.column(place) for place in range(table.num_columns)]
    wrong = [word.is_null().to_numpy() for word in words if word.null_count]
    if wrong:
        first = int(np.logical_or.reduce(wrong).argmax())
        raise InvalidRecord(first + 1, f"{CELL_TEXT} for every label")
    bytes_ = np.column_stack([word.to_numpy().astype("<i8", copy=False) for word in words]).view(np.uint8)
    return Collection.from_packed(np.ascontiguousarray(bytes_[:, : -(-schema.width // 8)]), schema)


def check_people(frame: Any, person: str) -> None:
    """Raise unless every row names another person in a column."""
    if check_type("person", person, str) not in frame.columns:
        reject("person", "be the name of a column of the data frame", person)
    sql = functions()
    column = cell(person)
    counted = frame.agg(sql.count(sql.lit(1)), sql.count(column), sql.count_distinct(column)).collect()[0]
    if counted[0] != counted[1]:
        reject("person", "name the person of every row, but some rows have none")
    if counted[1] != counted[2]:
        reject("person", f"be another one in every row, but {counted[1]:,} rows have {counted[2]:,} people")


def check_frame(frame: Any) -> None:
    """Raise unless this is a data frame of Spark that is read once, rather than a stream."""
    kind = type(frame)
    if not (kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame"):
        reject("frame", f"be a data frame of Spark, not {kind_of(frame)}")
    if frame.isStreaming:
        reject("frame", "not be a stream")
