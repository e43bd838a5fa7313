"""Answers to surveys in files: a column, or an entry, for every question that people answer.

Cross-tables follow from other questions and have no column. Text is parsed by the kind of question: a label; 0, 1, true
or false; a number. An empty cell, a null and a NaN are missing answers. Numbers outside of the bounds of a question are
clipped, and counted in the summary.
"""

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubbub.bits.entropy import system
from hubbub.errors import InvalidRecord, reject
from hubbub.io.policy import Policy, Problems, Summary
from hubbub.model.questions import Choice, Flag, Number, Questions, Scale
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.answers import NUMBER_TEXT, encode_answers
from hubbub.pipeline.encoding.cells import is_numeric, number_codes
from hubbub.pipeline.encoding.encoded import CELL_TEXT, INVALID, SET, TRUTH, UNSET, Encoded

SHOWN = 3
"""Names that an error lists."""
MAX_DIGITS = 400  # of a whole number that is read exactly; all with more are beyond the bounds of every question
OBJECT_TEXT = "must be an object with an entry for every question"
HINT = "correct the record, or use --on-error skip and --rejects; records are counted from 1"


def check_options(policy: Policy, column: str | None) -> None:
    """Raise if options are given that do not apply to surveys, whose questions say what a missing answer is."""
    if column is not None:
        reject("--column", "not be given for a survey, which has a column for every question")
    if policy.missing is not None:
        reject("--missing", "not be given for a survey; plan with missing = true for the questions that need it")
    if policy.other is not None:
        reject("--other", "not be given for a survey; plan with a label for other answers")


def check_columns(names: Sequence[str], questions: Questions) -> list[str]:
    """Return the names of the questions that people answer; raises unless the columns are exactly these.

    Columns are named in errors only if some of them are questions: otherwise the header may be a person's answers.

    >>> check_columns(["b", "a"], Questions.create({"a": Flag(), "b": Flag()}))
    ['a', 'b']
    """
    asked = [name for name, _ in questions.asked]
    if not set(asked) & set(names):
        reject("the file", f"have a header with a column for every question ({_some(asked)})")
    twice = [name for name in asked if names.count(name) > 1]
    if twice:
        reject("the columns of the file", f"be distinct, but {_some(twice)} occurs more than once")
    lacking = [name for name in asked if name not in names]
    if lacking:
        reject("the file", f"have a column for every question, but {_some(lacking)} has none")
    extra = [name for name in names if name not in asked]
    if extra:
        derived = extra[0] in questions.names
        why = "is a cross-table, which needs no column" if derived else "is not a question of the survey"
        reject("the file", f"have columns for the questions only, but {_some(extra)} {why}")
    return asked


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:80]) for name in names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")


class AnswersLayout:
    """A file of answers to a survey: a column, or an entry of an object, for every question."""

    hint = HINT

    def __init__(self, schema: Schema, policy: Policy, summary: Summary, column: str | None) -> None:
        check_options(policy, column)
        self._schema, self._questions, self._summary = schema, schema.questions, summary
        self._asked = dict(self._questions.asked)
        self.several_lines = any(
            "\n" in label or "\r" in label for one in self._asked.values() for label in _KINDS[type(one)].labels(one)
        )

    def used(self, names: list[str]) -> list[str]:
        """Return the columns of the questions."""
        return check_columns(names, self._questions)

    def check_header(self, used: list[str]) -> None:
        """Accept the names, which are those of questions."""

    def blank(self, place: int) -> InvalidRecord | None:
        """Return no problem: the answer to the only question is missing."""

    def rows(self, cells: list[list[str]], used: list[str], problems: Problems) -> Encoded:
        """Return the records of rows of CSV."""
        found, whole = {}, list(problems)
        for name, texts in zip(used, zip(*cells, strict=True), strict=True):
            kind = _KINDS[type(self._asked[name])]
            found[name] = kind.parsed(texts)
            if isinstance(found[name], list):
                for place, answer in enumerate(found[name]):
                    if kind.problem and isinstance(answer, str):
                        problems.setdefault(place, InvalidRecord(place + 1, kind.problem, column=name))
        return self._encoded(found, problems, whole)

    def entry(self, line: bytes, place: int) -> Any:
        """Return the entries of a line of JSON, or the problem of the record."""
        return _record(line, place + 1, self._asked)

    def entries(self, values: list[Any], problems: Problems) -> Encoded:
        """Return the records of objects, None for those with a problem."""
        found = {
            name: [_KINDS[type(question)].typed(value.get(name) if value else None) for value in values]
            for name, question in self._asked.items()
        }
        return self._encoded(found, problems, list(problems))

    def columns(self, names: list[str], columns: list[Any]) -> Encoded:
        """Return the records of columns of Arrow."""
        table = importlib.import_module("pyarrow").table(dict(zip(names, columns, strict=True)))
        self._count_clipped({name: table.column(name) for name in self._asked})
        return encode_answers(table, self._schema, entropy=system)

    def _encoded(self, columns: Mapping[str, Any], problems: Problems, whole: Sequence[int]) -> Encoded:
        """Return the records of parsed columns; ``whole`` are those that have no answers at all, only a problem."""
        first = next(iter(self._asked))
        for place in whole:
            columns[first][place] = _NOTHING  # otherwise a record whose answers are all missing
        encoded = encode_answers(columns, self._schema, entropy=system)
        self._count_clipped(columns)
        return encoded.with_problems(problems)

    def _count_clipped(self, columns: Mapping[str, Any]) -> None:
        for name, column in columns.items():
            bounds = _KINDS[type(self._asked[name])].bounds
            if bounds is not None:
                self._summary.clipped += _outside(*bounds(self._asked[name]), column)


_NOTHING = object()  # an answer that no kind of question takes


def _truths(cells: Sequence[str]) -> list[bool | str | None]:
    codes = {cell: _truth(cell) for cell in set(cells)}
    return [codes[cell] for cell in cells]


def _truth(cell: str) -> bool | str | None:
    code = TRUTH.get(cell.lower(), INVALID)
    return cell if code == INVALID else {UNSET: False, SET: True}.get(code)


def _numbers(cells: Sequence[str]) -> Any:
    """Return text as numbers: an array if every cell has one, otherwise a list with None for empty cells."""
    text = "".join(cells)
    if text.isascii() and "_" not in text:
        try:
            return np.array(list(map(float, cells)))
        except ValueError:
            pass
    return [_number(cell) for cell in cells]


def _number(cell: str) -> float | str | None:
    if not cell.strip():
        return None
    try:
        return float(cell) if cell.isascii() and "_" not in cell else cell
    except ValueError:
        return cell


def _record(line: bytes, number: int, asked: Mapping[str, object]) -> Any:
    """Return the entries of a line of JSON, or the problem of the record."""
    if not line.strip():
        return InvalidRecord(number, OBJECT_TEXT)
    try:
        value = json.loads(line, object_pairs_hook=_unique, parse_int=_whole)
    except _TwiceError as error:
        about = f"to {error.key!r}" if error.key in asked else "to a question"
        return InvalidRecord(number, f"must not have two answers {about}")
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return InvalidRecord(number, "must be a line of JSON in UTF-8")
    if not isinstance(value, dict):
        return InvalidRecord(number, OBJECT_TEXT)
    if not value.keys() <= asked.keys():
        return InvalidRecord(number, f"must have answers to the questions only ({_some(list(asked))})")
    return value


def _whole(digits: str) -> int | float:
    """Return a whole number of JSON; one of hundreds of digits is as infinite as its exponent would make it."""
    return int(digits) if len(digits) <= MAX_DIGITS else float(digits)


class _TwiceError(ValueError):
    """A key occurs twice in an object."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(key)
        found[key] = value
    return found


def _flag(value: Any) -> Any:
    """Return a value of JSON as an answer: 0 and 1 are truth values too."""
    return bool(value) if type(value) is int and value in (0, 1) else value


def _outside(low: float, high: float, column: Any) -> int:
    """Return how many answers of a column are outside of the bounds of a question."""
    if isinstance(column, list):
        given = (one for one in column if isinstance(one, int | float) and not isinstance(one, bool))
        return sum(one < low or one > high for one in given)
    numbers = column if isinstance(column, np.ndarray) else _arrow_numbers(column)
    return int(((numbers < low) | (numbers > high)).sum())


def _arrow_numbers(column: Any) -> Any:
    if not is_numeric(column.type):
        return np.empty(0)
    parts = [number_codes(chunk) for chunk in column.chunks]
    return np.concatenate([np.empty(0), *(floats[~(absent | wrong)] for floats, absent, wrong in parts)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """The reading of answers to one type of question."""

    parsed: Callable[[Sequence[str]], Any]
    """Returns a column of text as answers; texts that are none stay as they are."""
    problem: str = ""
    """The problem of a record with such a text; a choice takes any."""
    typed: Callable[[Any], Any] = lambda value: value
    """Returns a value of JSON as an answer."""
    labels: Callable[[Any], Sequence[str]] = lambda question: ()
    bounds: Callable[[Any], tuple[float, float]] | None = None


_KINDS: dict[type, _Kind] = {
    Choice: _Kind(parsed=list, labels=lambda question: question.labels),
    Flag: _Kind(parsed=_truths, problem=CELL_TEXT, typed=_flag),
    Scale: _Kind(parsed=_numbers, problem=NUMBER_TEXT, bounds=lambda one: (one.edges[0], one.edges[-1])),
    Number: _Kind(parsed=_numbers, problem=NUMBER_TEXT, bounds=lambda one: (one.low, one.high)),
}
