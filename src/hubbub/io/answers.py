"""Answers to surveys in CSV, TSV, JSON lines or Parquet: a column, or an entry, for every question that people answer.

Cross-tables follow from other questions and have no column. Text is parsed by the kind of question: a label; 0, 1, true
or false; a number. An empty cell, a null and a NaN are missing answers. Numbers outside of the bounds of a question are
clipped, and counted in the summary.
"""

import contextlib
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hubbub.bits.entropy import system
from hubbub.errors import InvalidRecord, reject
from hubbub.io import parquet
from hubbub.io.policy import Policy, Repair
from hubbub.io.text import batches, csv_rows, opened
from hubbub.model.questions import Choice, Flag, Number, Questions, Scale
from hubbub.model.questions.survey import Asked
from hubbub.pipeline.encoding.answers import NUMBER_TEXT, encode_answers
from hubbub.pipeline.encoding.cells import is_numeric, number_codes
from hubbub.pipeline.encoding.encoded import CELL_TEXT, INVALID, SET, TRUTH, UNSET, Encoded
from hubbub.pipeline.encoding.sequences import is_text

Problems = dict[int, InvalidRecord]
"""Problems of records, by position in a block, from 0."""
Reader = Callable[[str, Repair, int], Iterator[Encoded]]
SHOWN = 3
MAX_DIGITS = 400  # of a whole number that is read exactly; all with more are beyond the bounds of every question
"""Names that an error lists."""
OBJECT_TEXT = "must be an object with an entry for every question"


def check_options(policy: Policy, column: str | None) -> None:
    """Raise if options are given that do not apply to surveys, whose questions say what a missing answer is."""
    if column is not None:
        reject("--column", "not be given for a survey, which has a column for every question")
    if policy.missing is not None:
        reject("--missing", "not be given for a survey; plan with missing = true for the questions that need it")
    if policy.other is not None:
        reject("--other", "not be given for a survey; plan with a label for other answers")


def _questions(repair: Repair) -> Questions:
    return repair.schema.questions


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


def _csv(delimiter: str, path: str, repair: Repair, block: int) -> Iterator[Encoded]:
    questions = _questions(repair)
    width = 0
    several_lines = any(
        "\n" in label or "\r" in label for _, one in questions.asked if isinstance(one, Choice) for label in one.labels
    )

    def spans(row: list[str]) -> bool:
        """Return False if a cell has several lines, but no label does."""
        return len(row) == width and (several_lines or not any("\n" in cell or "\r" in cell for cell in row))

    with opened(path) as (file, fraction), contextlib.closing(csv_rows(file, delimiter, spans)) as rows:
        names = next(rows, None)
        if names is None:
            reject("the CSV file", "start with a header of column names, but it is empty")
        if isinstance(names, InvalidRecord):
            reject("the header of the CSV file", "be properly quoted")
        if not all(map(is_text, names)):
            reject("the header of the CSV file", "be UTF-8 text")
        places = {name: names.index(name) for name in check_columns(names, questions)}
        width = len(names)
        for part in batches(rows, block):
            yield _encode_rows(part, places, repair)
            repair.summary.fraction = fraction()


def _encode_rows(rows: list[Any], places: Mapping[str, int], repair: Repair) -> Encoded:
    width, problems = len(places), dict[int, InvalidRecord]()
    for place, row in enumerate(rows):
        if isinstance(row, InvalidRecord):
            problems[place] = InvalidRecord(place + 1, row.problem)
        elif not row and width == 1:
            rows[place] = [""]
        elif len(row) != width:
            text = f"must have as many columns as the header, {width:,}, got {len(row):,}"
            problems[place] = InvalidRecord(place + 1, text)
    whole = list(problems)
    for place in whole:
        rows[place] = [""] * width
    columns = list(zip(*rows, strict=True))
    found = {
        name: _parsed(question, columns[places[name]], name, problems) for name, question in _questions(repair).asked
    }
    return _encoded(found, repair, problems, whole)


def _parsed(question: Asked, cells: Sequence[str], name: str, problems: Problems) -> Any:
    """Return a column of text as answers; texts that are none stay as they are, and get a problem."""
    if isinstance(question, Choice):
        return list(cells)
    if isinstance(question, Flag):
        codes = {cell: _truth(cell) for cell in set(cells)}
        answers = [codes[cell] for cell in cells]
        _note(answers, name, CELL_TEXT, problems)
        return answers
    numbers = _numbers(cells)
    if isinstance(numbers, list):
        _note(numbers, name, NUMBER_TEXT, problems)
    return numbers


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


def _note(answers: Sequence[Any], name: str, text: str, problems: Problems) -> None:
    for place, answer in enumerate(answers):
        if isinstance(answer, str):
            problems.setdefault(place, InvalidRecord(place + 1, text, column=name))


def _json_lines(path: str, repair: Repair, block: int) -> Iterator[Encoded]:
    asked = dict(_questions(repair).asked)
    with opened(path) as (file, fraction):
        for part in batches(file, block):
            problems: Problems = {}
            records = []
            for place, line in enumerate(part):
                record = _record(line, place + 1, asked)
                if isinstance(record, InvalidRecord):
                    problems[place], record = record, {}
                records.append(record)
            found = {
                name: [_typed(question, record.get(name)) for record in records] for name, question in asked.items()
            }
            yield _encoded(found, repair, problems, list(problems))
            repair.summary.fraction = fraction()


def _record(line: bytes, number: int, asked: Mapping[str, Asked]) -> Any:
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


def _typed(question: Asked, value: Any) -> Any:
    """Return a value of JSON as an answer: 0 and 1 are truth values too."""
    if isinstance(question, Flag) and type(value) is int and value in (0, 1):
        return bool(value)
    return value


def _parquet(path: str, repair: Repair, block: int) -> Iterator[Encoded]:
    total, done = parquet.number_of_rows(path), 0

    def choose(names: list[str]) -> list[str]:
        return check_columns(names, _questions(repair))

    for names, columns in parquet.read_columns(path, choose, block):
        table = importlib.import_module("pyarrow").table(dict(zip(names, columns, strict=True)))
        encoded = encode_answers(table, repair.schema, entropy=system)
        repair.summary.clipped += sum(
            _outside(question, table.column(name)) for name, question in _questions(repair).asked
        )
        yield encoded
        done += encoded.n
        repair.summary.fraction = done / total


def _encoded(columns: Mapping[str, Any], repair: Repair, problems: Problems, whole: Sequence[int]) -> Encoded:
    """Return the records of parsed columns; ``whole`` are those that have no answers at all, only a problem."""
    named = dict(_questions(repair).asked)
    first = next(iter(named))
    for place in whole:
        columns[first][place] = _NOTHING  # otherwise a record whose answers are all missing
    encoded = encode_answers(columns, repair.schema, entropy=system)
    repair.summary.clipped += sum(_outside(named[name], column) for name, column in columns.items())
    return encoded.with_problems(problems)


_NOTHING = object()  # an answer that no kind of question takes


def _outside(question: Asked, column: Any) -> int:
    """Return how many answers of a column the bounds of a question clip."""
    if not isinstance(question, Scale | Number):
        return 0
    low, high = (
        (question.edges[0], question.edges[-1]) if isinstance(question, Scale) else (question.low, question.high)
    )
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


READERS: dict[str, Reader] = {
    "csv": partial(_csv, ","),
    "tsv": partial(_csv, "\t"),
    "jsonl": _json_lines,
    "parquet": _parquet,
}
"""Readers of surveys by format."""
