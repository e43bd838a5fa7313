"""Arrow arrays and tables, and the series and data frames of pandas, polars and others (the extra ``frames``).

Labels are compared by Arrow, without a step of Python for each record. Integers are labels in decimal, as in CSV.
"""

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.encoding.encoded import (
    INVALID,
    MISSING,
    NO_VALUE,
    NOT_A_LABEL,
    SET,
    TRUTH,
    UNSET,
    Encoded,
    Numbers,
    from_cells,
    from_codes,
    from_lists,
    missing,
    unknown,
)
from hubbub.errors import InvalidInput, InvalidRecord, MissingExtra, check_memory, kind_of, reject
from hubbub.schema import Schema

FEATURE = "Reading Arrow data and data frames"


def arrow() -> Any:
    """Import pyarrow, or raise an error that names the extra."""
    return _library("pyarrow")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtra("frames", FEATURE) from None


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
    narwhals = _library("narwhals")
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


def _kind(kind: Any) -> str:
    """Return the name of an Arrow type, without the names of fields, which may be data."""
    return str(kind).partition("<")[0].partition("[")[0]


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
        codes = np.concatenate([_label_codes(chunk, schema) for chunk in chunks] or [np.empty(0, np.int64)])
        return _one_label(codes, schema, other, name)
    if separator is not None and _is_text(kind):
        chunks = [_split(chunk, separator) for chunk in chunks]
    elif types.is_null(kind):
        return from_lists(*_no_values(len(column), name), schema, column=name)
    elif not _is_list(kind):
        reject("values", f"be lists of labels for {schema}, not of the Arrow type {_kind(kind)}")
    parts = [_list_codes(chunk, schema) for chunk in chunks]
    flat = np.concatenate([part[0] for part in parts] or [np.empty(0, np.int64)])
    sizes = np.concatenate([part[1] for part in parts] or [np.empty(0, np.int64)])
    return _many_labels(flat, sizes, schema, other, name)


def _one_label(codes: Numbers, schema: Schema, other: int | None, name: str | None) -> Encoded:
    renamed = np.flatnonzero(codes == NOT_A_LABEL) if other is not None else np.empty(0, np.int64)
    if other is not None:
        codes[renamed] = other
    problems = {
        place: missing(place, name) if codes[place] == NO_VALUE else unknown(place, schema, name)
        for place in np.flatnonzero(codes < 0).tolist()
    }
    return from_codes(codes, problems, schema, renamed)


def _many_labels(flat: Numbers, sizes: Numbers, schema: Schema, other: int | None, name: str | None) -> Encoded:
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


def _is_text(kind: Any) -> bool:
    types = arrow().types
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_list(kind: Any) -> bool:
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _label_codes(array: Any, schema: Schema) -> Numbers:
    """Return the index of every label; codes below 0 for nulls and labels outside the schema."""
    pa, types, kind = arrow(), arrow().types, array.type
    if types.is_dictionary(kind):
        codes = np.append(_label_codes(array.dictionary, schema), NO_VALUE)
        return codes[_numbers(array.indices.cast(pa.int64()).fill_null(len(codes) - 1))]
    if types.is_null(kind):
        return np.full(len(array), NO_VALUE, np.int64)
    if types.is_integer(kind):
        array = array.cast(pa.string())
    elif types.is_string_view(kind):
        array = array.cast(pa.large_string())
    elif not _is_text(kind):
        reject("values", f"be labels, not of the Arrow type {_kind(kind)}")
    compute = _library("pyarrow.compute")
    found = compute.index_in(array, value_set=pa.array(schema.labels, array.type))
    codes = _numbers(found.fill_null(NOT_A_LABEL))
    empty = compute.fill_null(compute.equal(array, ""), True).to_numpy(zero_copy_only=False)
    codes[(codes == NOT_A_LABEL) & empty] = NO_VALUE
    return codes


def _list_codes(array: Any, schema: Schema) -> tuple[Numbers, Numbers]:
    """Return the codes of the labels of all lists, and the sizes of the lists, -1 for nulls."""
    compute = _library("pyarrow.compute")
    sizes = _numbers(compute.list_value_length(array).fill_null(-1))
    if arrow().types.is_fixed_size_list(array.type):
        array = array.filter(array.is_valid())
    return _label_codes(array.flatten(), schema), sizes


def _numbers(array: Any) -> Numbers:
    """Return Arrow integers without nulls as a numpy array that may be changed."""
    return np.array(array.to_numpy(zero_copy_only=False), np.int64)


def _split(array: Any, separator: str) -> Any:
    """Return text as lists of labels; an empty text is an empty list, as in CSV."""
    pa, compute = arrow(), _library("pyarrow.compute")
    text = array.cast(pa.large_string())
    lists = compute.split_pattern(text, separator)
    empty = compute.equal(text, "")
    return compute.if_else(empty, pa.scalar([], lists.type), lists)


def encode_table(columns: Sequence[Any], schema: Schema) -> Encoded:
    """Encode the columns of all labels, in the order of the schema."""
    n = len(columns[0])
    check_memory(f"{n:,} records of {schema.width:,} bits", n * schema.width)
    cells = np.empty((n, schema.width), np.uint8)
    for place, column in enumerate(columns):
        cells[:, place] = truth_codes(column)
    return from_cells(cells, schema)


def truth_codes(column: Any) -> NDArray[np.uint8]:
    """Return the code of every cell of an Arrow column of booleans, of 0 and 1, or of their spellings."""
    pa = arrow()
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([truth_codes(chunk) for chunk in column.chunks] or [np.empty(0, np.uint8)])
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        codes = np.append(truth_codes(column.dictionary), MISSING).astype(np.uint8)
        return codes[_numbers(column.indices.cast(pa.int64()).fill_null(len(codes) - 1))]
    if types.is_null(kind):
        return np.full(len(column), MISSING, np.uint8)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        absent = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        numbers = column.fill_null(False if types.is_boolean(kind) else 0).to_numpy(zero_copy_only=False)
        codes = np.where(numbers == 1, SET, np.where(numbers == 0, UNSET, INVALID)).astype(np.uint8)
        codes[absent] = MISSING
        return codes
    if not _is_text(kind):
        reject("values", f"have columns of 0 and 1 or of booleans, not of the Arrow type {_kind(kind)}")
    compute = _library("pyarrow.compute")
    text = compute.utf8_lower(column.cast(pa.large_string()))
    found = compute.index_in(text, value_set=pa.array(list(TRUTH), text.type))
    codes = np.array([*TRUTH.values(), INVALID], np.uint8)[_numbers(found.fill_null(len(TRUTH)))]
    codes[column.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return codes
