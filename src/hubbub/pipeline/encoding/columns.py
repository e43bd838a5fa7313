"""Arrow arrays and tables, and the series and data frames of pandas, polars and others (the extra ``frames``).

Labels are compared by Arrow, without a step of Python for each record. Integers are labels in decimal, as in CSV.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import InvalidInput, InvalidRecord, check_memory, kind_of, reject
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.arrays import arrow, is_list, is_text, kind_name, library
from hubbub.pipeline.encoding.cells import truth_codes
from hubbub.pipeline.encoding.codes import Codes, joined, label_codes, list_codes, pack_lists, split
from hubbub.pipeline.encoding.encoded import (
    NO_VALUE,
    NOT_A_LABEL,
    SET,
    Encoded,
    Numbers,
    cell_problem,
    from_cells,
    from_codes,
    from_lists,
    missing,
    unknown,
)


def is_columnar(values: object) -> bool:
    """Return True for Arrow data, series and data frames, without importing their libraries.

    >>> is_columnar(["red"]), is_columnar(np.array(["red"]))
    (False, False)
    """
    kind = type(values)
    if isinstance(values, np.ndarray | np.generic):
        return False
    if kind.__module__.partition(".")[0] == "pyarrow":
        return True
    return any(hasattr(kind, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "dtype", "columns"))


def to_arrow(values: Any) -> Any:
    """Return an Arrow array, chunked array or table with the same content."""
    pa = arrow()
    if isinstance(values, pa.RecordBatch):
        return pa.Table.from_batches([values])
    if isinstance(values, pa.Array | pa.ChunkedArray | pa.Table):
        return values
    narwhals = library("narwhals")
    try:
        frame = narwhals.from_native(values, pass_through=True, allow_series=True)
        if isinstance(frame, narwhals.LazyFrame):
            frame = frame.collect()
        if isinstance(frame, narwhals.DataFrame | narwhals.Series):
            return frame.to_arrow()
        if hasattr(values, "__arrow_c_stream__"):
            return pa.table(values)
        if isinstance(values, Iterable):
            return pa.array(values, from_pandas=True)
    except (pa.ArrowException, narwhals.exceptions.NarwhalsError, TypeError, ValueError):
        # The messages of these errors may quote values, so they are not the context of this one either.
        must = "have columns with distinct names, each of one type, such as strings, booleans or integers"
        raise InvalidInput(f"values must {must}") from None
    return reject("values", f"be a list, an array, a series or a data frame, not {kind_of(values)}")


def encode_columnar(values: Any, schema: Schema) -> Encoded:
    """Encode a series of labels or of lists of labels, or a frame with one column or a column for every label."""
    data = to_arrow(values)
    if isinstance(data, arrow().Table):
        names = list(data.column_names)
        if len(set(names)) != len(names):
            reject("the columns of values", "have distinct names")
        if set(schema.labels) <= set(names):
            return encode_table([data.column(label) for label in schema.labels], schema)
        if len(names) != 1:
            must = "have one column, or a column for every label; select the column of labels first"
            reject("values", must, len(names))
        data = data.column(0)
    return encode_column(data, schema)


def encode_column(
    column: Any, schema: Schema, *, other: int | None = None, separator: str | None = None, name: str | None = None
) -> Encoded:
    """Encode an Arrow array of labels, or of lists of labels.

    ``other`` replaces labels outside the schema, ``separator`` splits text into lists, and ``name`` is for messages.
    """
    pa = arrow()
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    types, kind = pa.types, column.type
    if schema.width == 1 and not schema.exclusive and types.is_boolean(kind):
        return encode_table([column], schema)
    if schema.exclusive:
        codes = joined([label_codes(chunk, schema.labels) for chunk in chunks])
        return _one_label(codes, schema, other, name)
    if separator is not None and is_text(kind):
        chunks = [split(chunk, separator) for chunk in chunks]
    elif types.is_null(kind):
        return from_lists(*_no_values(len(column), name), schema, column=name)
    elif not is_list(kind):
        reject("values", f"be lists of labels for {schema}, not of the Arrow type {kind_name(kind)}")
    parts = [list_codes(chunk, schema.labels) for chunk in chunks]
    flat, sizes = joined([part[0] for part in parts]), joined([part[1] for part in parts])
    if schema.dense and (rows := pack_lists(flat, sizes, schema.width)) is not None:
        return Encoded(n=sizes.size, rows=rows, renamed=np.empty(0, np.int64))
    return _many_labels(flat, sizes.astype(np.int64), schema, other, name)


def _one_label(codes: Codes, schema: Schema, other: int | None, name: str | None) -> Encoded:
    if codes.size and codes.min() >= 0:
        return Encoded(n=codes.size, indices=codes, renamed=np.empty(0, np.int64))
    renamed = np.flatnonzero(codes == NOT_A_LABEL) if other is not None else np.empty(0, np.int64)
    if other is not None:
        codes[renamed] = other
    problems = {
        place: missing(place, name) if codes[place] == NO_VALUE else unknown(place, schema, name)
        for place in np.flatnonzero(codes < 0).tolist()
    }
    return from_codes(codes, problems, schema, renamed)


def _many_labels(flat: Codes, sizes: Numbers, schema: Schema, other: int | None, name: str | None) -> Encoded:
    problems = {place: missing(place, name) for place in np.flatnonzero(sizes < 0).tolist()}
    sizes = np.maximum(sizes, 0)
    owner = np.repeat(np.arange(sizes.size), sizes)
    for place in np.unique(owner[flat == NO_VALUE]).tolist():
        text = "must be a list of labels, but has an empty item"
        problems[place] = InvalidRecord(place + 1, text, column=name)
    outside = np.unique(owner[flat == NOT_A_LABEL])
    if other is not None:
        flat = np.where(flat == NOT_A_LABEL, other, flat)
    else:
        problems |= {place: unknown(place, schema, name) for place in outside.tolist() if place not in problems}
    if problems:
        good = np.ones(sizes.size, np.bool_)
        good[list(problems)] = False
        flat, sizes, outside = flat[good[owner]], np.where(good, sizes, 0), outside[good[outside]]
    return from_lists(flat, sizes, problems, schema, outside if other is not None else (), name)


def _no_values(n: int, name: str | None) -> tuple[Numbers, Numbers, dict[int, InvalidRecord]]:
    return np.empty(0, np.int64), np.zeros(n, np.int64), {place: missing(place, name) for place in range(n)}


def encode_table(columns: Sequence[Any], schema: Schema) -> Encoded:
    """Encode the columns of all labels, in the order of the schema."""
    n = len(columns[0])
    if not schema.dense:
        check_memory(f"{n:,} records of {schema.width:,} bits", n * schema.width)
        cells = np.empty((n, schema.width), np.uint8)
        for place, column in enumerate(columns):
            cells[:, place] = truth_codes(column)
        return from_cells(cells, schema)
    check_memory(f"{n:,} records of {schema.width:,} bits", n * -(-schema.width // 8))
    planes = np.zeros((-(-schema.width // 8), n), np.uint8)
    wrong: dict[int, NDArray[np.uint8]] = {}
    for place, column in enumerate(columns):
        codes = truth_codes(column)
        if codes.size and codes.max() > SET:
            wrong[place] = codes
            codes = (codes == SET).view(np.uint8)
        planes[place >> 3] |= codes << (place & 7)
    rows = np.ascontiguousarray(planes.T)
    problems = _cell_problems(wrong, schema)
    rows[[problem.record - 1 for problem in problems]] = 0
    return Encoded(n=n, rows=rows, problems=problems, renamed=np.empty(0, np.int64))


def _cell_problems(wrong: Mapping[int, NDArray[np.uint8]], schema: Schema) -> list[InvalidRecord]:
    """Return the problems of a table, given the codes of the columns that have any."""
    if not wrong:
        return []
    places, cells = list(wrong), np.stack(list(wrong.values()), axis=1)
    labels = [schema.labels[place] for place in places]
    return [cell_problem(row, cells[row], labels) for row in np.flatnonzero((cells > SET).any(axis=1)).tolist()]
