"""Answers to the questions of a survey, a column for each question: lists, arrays, series, tables and records."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy, draw
from hubbub.errors import InvalidInput, InvalidRecord, check_memory, kind_of, reject
from hubbub.model.questions import Choice, Cross, Flag, Number, Scale
from hubbub.model.questions.answers import is_missing, number
from hubbub.model.questions.number import GRID
from hubbub.model.questions.survey import Asked, Questions
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.arrays import arrow
from hubbub.pipeline.encoding.cells import is_numeric, number_codes, truth_codes
from hubbub.pipeline.encoding.columns import encode_column, is_columnar, to_arrow
from hubbub.pipeline.encoding.encoded import CELL_TEXT, MISSING, Encoded, Numbers, missing
from hubbub.pipeline.encoding.sequences import encode_array, encode_sequence

Floats = NDArray[np.float64]
NUMBER_TEXT = "must be a number"
_TRUTH = {False: 0, True: 1}


@dataclass(slots=True)
class _Problems:
    """The first problem of each record, by position from 0."""

    found: dict[int, InvalidRecord] = field(default_factory=dict)

    def put(self, problem: InvalidRecord) -> None:
        self.found.setdefault(problem.record - 1, problem)

    def add(self, wrong: NDArray[np.bool_], make: Callable[[int], InvalidRecord]) -> None:
        for place in np.flatnonzero(wrong).tolist():
            self.put(make(place))


def encode_answers(values: Any, schema: Schema, *, entropy: Entropy) -> Encoded:
    """Encode a table or a mapping with a column for every question, or a list with a mapping for every person."""
    columns = _columns(values, schema.questions)
    sizes = {_length(name, column) for name, column in columns.items()}
    if len(sizes) > 1:
        reject("the columns of values", "have the same length")
    n = sizes.pop()
    check_memory(f"{n:,} records of {schema}", 8 * n * len(schema.attributes))
    problems = _Problems()
    found = {
        name: _encode(question, columns[name], name, n, problems, entropy) for name, question in schema.questions.asked
    }
    return _joined(found, schema, n, problems)


def _joined(found: Mapping[str, list[Numbers]], schema: Schema, n: int, problems: _Problems) -> Encoded:
    """Return the records from the categories of each attribute, in the order of the schema."""
    questions = schema.questions
    named, rows = dict(questions.asked), []
    for name, question in questions.items:
        if isinstance(question, Cross):
            cell = np.zeros(n, np.int64)
            for key in question.names:
                cell = cell * named[key].sizes[-1] + found[key][-1]
            rows.append(cell)
        elif name not in questions.derived:
            rows += found[name]
    starts = np.array([one.start for one in schema.attributes], np.int64)
    indices = np.stack(rows, axis=1) + starts
    sizes = np.full(n, len(rows), np.int64)
    listed = [problems.found[place] for place in sorted(problems.found)]
    if listed:
        wrong = np.zeros(n, np.bool_)
        wrong[list(problems.found)] = True
        indices, sizes = indices[~wrong], np.where(wrong, 0, sizes)
    return Encoded(n=n, indices=indices.reshape(-1), sizes=sizes, problems=listed, renamed=np.empty(0, np.int64))


def _columns(values: Any, questions: Questions) -> dict[str, Any]:
    """Return the column of each question that people answer; raises on unknown and missing ones."""
    asked = [name for name, _ in questions.asked]
    if is_columnar(values):
        table = to_arrow(values)
        if not isinstance(table, arrow().Table):
            reject("values", "have a column for every question of the survey")
        names = list(table.column_names)
        if len(set(names)) != len(names):
            reject("the columns of values", "have distinct names")
        # The index of a pandas frame becomes columns, which are no answers.
        index = (table.schema.pandas_metadata or {}).get("index_columns", [])
        _check_names([name for name in names if name in asked or name not in index], asked)
        return {name: table.column(name) for name in asked}
    if isinstance(values, Mapping):
        _check_names(list(values), asked)
        return {name: values[name] for name in asked}
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        reject("values", f"be a table, a mapping of columns, or a list of mappings, not {kind_of(values)}")
    return _transposed(values, asked)


def _check_names(names: Sequence[Any], asked: Sequence[str]) -> None:
    """Raise unless there is a column for every question, and for nothing else."""
    unknown = [name for name in names if name not in asked]
    lacking = [name for name in asked if name not in names]
    if unknown or lacking:
        about = f"{unknown[0]!r} is not one" if unknown else f"{lacking[0]!r} has none"
        reject("values", f"have a column for every question, but {about}")


def _transposed(records: Sequence[Any], asked: Sequence[str]) -> dict[str, Any]:
    """Return the columns of a list of mappings; a question without an entry has no answer."""
    known = set(asked)
    for place, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InvalidRecord(place + 1, f"must be a mapping from questions to answers, not {kind_of(record)}")
        if not record.keys() <= known:
            raise InvalidRecord(place + 1, f"has an answer to a question that is not one of {len(asked)} in the survey")
    return {name: [record.get(name) for record in records] for name in asked}


def _length(name: str, column: Any) -> int:
    sized = is_columnar(column) or isinstance(column, Sequence | np.ndarray)
    if isinstance(column, str | bytes) or not sized:
        reject(f"the column {name!r}", f"be a list, an array or a series, not {kind_of(column)}")
    if isinstance(column, np.ndarray) and column.ndim != 1:
        reject(f"the column {name!r}", "have one dimension", column.ndim)
    if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
        reject(f"the column {name!r}", "have no masked entries; fill them first")
    if is_columnar(column) and hasattr(column, "columns"):
        reject(f"the column {name!r}", f"be a single column, not {kind_of(column)}")
    return len(column)


def _encode(question: Asked, column: Any, name: str, n: int, problems: _Problems, entropy: Entropy) -> list[Numbers]:
    if isinstance(question, Choice):
        return [_choices(question, column, name, n, problems)]
    if isinstance(question, Flag):
        return [_flags(question, column, name, n, problems)]
    numbers, absent = _numbers(column, name, n, problems)
    if not question.missing:
        problems.add(absent, lambda place: missing(place, name))
    if isinstance(question, Scale):
        edges = np.array(question.edges)
        buckets = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, question.buckets - 1)
        buckets[absent] = question.padded if question.missing else 0
        return [buckets // width for width in question.widths]
    return _digits(question, numbers, absent, entropy)


def _choices(question: Choice, column: Any, name: str, n: int, problems: _Problems) -> Numbers:
    schema = Schema.one_hot(list(question.labels))
    if is_columnar(column):
        with _named(name):
            encoded = encode_column(to_arrow(column), schema, name=name)
    elif isinstance(column, np.ndarray) and column.dtype.kind not in "OUT":
        return reject(f"the column {name!r}", f"have labels, not values of type {column.dtype}")
    elif isinstance(column, np.ndarray) and column.dtype.kind == "U":
        encoded = encode_array(column, schema)
    else:
        listed = column.tolist() if isinstance(column, np.ndarray) else column
        encoded = encode_sequence(listed, schema, column=name)
    assert encoded.indices is not None
    codes = np.zeros(n, np.int64)
    good = np.ones(n, np.bool_)
    good[[one.record - 1 for one in encoded.problems]] = False
    codes[good] = encoded.indices
    for one in encoded.problems:
        if one.kind == "missing" and question.missing:
            codes[one.record - 1] = len(question.labels)
        else:
            problems.put(InvalidRecord(one.record, one.problem, column=name, kind=one.kind))
    return codes


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the column in the error of a type that it cannot have."""
    try:
        yield
    except InvalidInput as error:
        text = str(error).replace("values", f"the column {name!r}", 1)
        raise InvalidInput(text.replace("have columns of 0 and 1 or of", "have 0 and 1 or", 1)) from None


def _flags(question: Flag, column: Any, name: str, n: int, problems: _Problems) -> Numbers:
    if is_columnar(column):
        with _named(name):
            codes = truth_codes(to_arrow(column)).astype(np.int64)
        absent = codes == MISSING
        wrong = (codes > 1) & ~absent
    else:
        listed = column.tolist() if isinstance(column, np.ndarray) else column
        absent = np.fromiter((is_missing(value) for value in listed), np.bool_, n)
        codes = np.fromiter(
            (_TRUTH[bool(value)] if isinstance(value, bool | np.bool_) else -1 for value in listed), np.int64, n
        )
        wrong = (codes < 0) & ~absent
    problems.add(wrong, lambda place: InvalidRecord(place + 1, CELL_TEXT, column=name))
    if not question.missing:
        problems.add(absent, lambda place: missing(place, name))
    return np.where(absent, 2 if question.missing else 0, np.where(wrong, 0, codes))


def _numbers(column: Any, name: str, n: int, problems: _Problems) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a column as floats, and which of them are missing; infinite ones are clipped later like all others."""
    if is_columnar(column):
        return _arrow_numbers(to_arrow(column), name, problems)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        with np.errstate(over="ignore"):  # longer floats than these become infinite, and are clipped
            floats = column.astype(np.float64)
        absent = np.isnan(floats)
        return np.where(absent, 0.0, floats), absent
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        reject(f"the column {name!r}", f"have numbers, not values of type {column.dtype}")
    listed = column.tolist() if isinstance(column, np.ndarray) else column
    floats, absent = np.zeros(n), np.zeros(n, np.bool_)
    for place, value in enumerate(listed):
        try:
            if is_missing(value):
                absent[place] = True
            else:
                floats[place] = number(value)
        except InvalidInput:
            problems.put(InvalidRecord(place + 1, f"{NUMBER_TEXT}, not {kind_of(value)}", column=name))
    return floats, absent


def _arrow_numbers(column: Any, name: str, problems: _Problems) -> tuple[Floats, NDArray[np.bool_]]:
    if not is_numeric(column.type):
        reject(f"the column {name!r}", "have numbers")
    chunks = column.chunks if isinstance(column, arrow().ChunkedArray) else [column]
    parts = [number_codes(chunk) for chunk in chunks] or [number_codes(arrow().nulls(0))]
    floats, absent, wrong = (np.concatenate(part) for part in zip(*parts, strict=True))
    problems.add(wrong, lambda place: InvalidRecord(place + 1, NUMBER_TEXT, column=name))
    return floats, absent


def _digits(question: Number, numbers: Floats, absent: NDArray[np.bool_], entropy: Entropy) -> list[Numbers]:
    """Return the digits of randomly rounded levels, as :meth:`hubbub.model.questions.Number.encode` does."""
    share = (np.clip(numbers, question.low, question.high) - question.low) / (question.high - question.low)
    shares = [share, (2 * share - 1) * (2 * share - 1)] if question.variance else [share]
    found = [absent.astype(np.int64)] if question.missing else []
    for one in shares:
        place = np.where(absent, 0.0, one) * (question.levels - 1)
        level = np.minimum(place.astype(np.int64), question.levels - 1)
        chance = ((place - level) * GRID).astype(np.uint64)
        # 48 random binary digits are below the chance, in units of 2⁻⁴⁸, with exactly that probability.
        level += (draw(entropy, level.size) >> np.uint64(16)) < chance
        for radix in question.radices:
            level, digit = np.divmod(level, radix)
            found.append(digit)
    return found
