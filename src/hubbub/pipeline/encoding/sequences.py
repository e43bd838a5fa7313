"""Lists and numpy arrays of values."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import InvalidRecord, kind_of, reject
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.encoded import (
    INVALID,
    NO_VALUE,
    NOT_A_LABEL,
    Encoded,
    Numbers,
    from_cells,
    from_codes,
    from_lists,
    is_missing,
    missing,
    unknown,
)

SAMPLE = 10_000
"""Labels that decide whether labels are numbers: schemas have up to ten million, and arrays come in many blocks."""
STEP = 1 << 16
"""Strings that are compared with the labels at a time: numpy copies them to the width of the longest label."""


def encode_sequence(
    values: Sequence[Any], schema: Schema, *, other: int | None = None, column: str | None = None
) -> Encoded:
    """Encode one label each for one-hot schemas, otherwise lists of labels; ``other`` replaces unknown labels."""
    if schema.exclusive:
        return _encode_labels(values, schema, other, column)
    return _encode_lists(values, schema, other, column)


def _encode_labels(values: Sequence[Any], schema: Schema, other: int | None, column: str | None) -> Encoded:
    index = {label: i for i, label in enumerate(schema.labels)}
    try:
        codes = np.fromiter(map(index.get, values, itertools.repeat(NOT_A_LABEL)), np.int64, len(values))
    except TypeError:  # a value that cannot be hashed
        safe = (index.get(value, NOT_A_LABEL) if isinstance(value, str) else NOT_A_LABEL for value in values)
        codes = np.fromiter(safe, np.int64, len(values))
    problems: dict[int, InvalidRecord] = {}
    renamed = []
    for place in np.flatnonzero(codes < 0).tolist():
        problem = _label_problem(values[place], place, schema, column)
        if problem.kind == "unknown" and other is not None:
            codes[place] = other
            renamed.append(place)
        else:
            problems[place] = problem
    return from_codes(codes, problems, schema, renamed)


def _label_problem(value: Any, place: int, schema: Schema, column: str | None) -> InvalidRecord:
    if is_missing(value) or value == "":
        return missing(place, column)
    if not isinstance(value, str):
        return InvalidRecord(place + 1, f"must be a label, not {kind_of(value)}", column=column)
    if not is_text(value):
        return InvalidRecord(place + 1, "must be UTF-8 text", column=column)
    return unknown(place, schema, column)


def is_text(value: str) -> bool:
    """Return False for the lone surrogates by which readers of files mark bytes that are not UTF-8."""
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def _encode_lists(values: Sequence[Any], schema: Schema, other: int | None, column: str | None) -> Encoded:
    index = {label: i for i, label in enumerate(schema.labels)}
    problems: dict[int, InvalidRecord] = {}
    renamed: list[int] = []
    chosen: list[list[int]] = []
    try:
        if not set(map(type, values)) <= {list, tuple}:
            raise TypeError
        chosen = [sorted(map(index.__getitem__, value)) for value in values]
    except (KeyError, TypeError):
        for place, given in enumerate(values):
            value = list(given) if isinstance(given, Iterator) else given
            row, problem = _list_row(value, place, schema, index, column)
            if problem is not None and problem.kind == "unknown" and other is not None:
                row, problem = sorted({index.get(label, other) for label in value}), None
                renamed.append(place)
            if problem is not None:
                problems[place] = problem
            chosen.append(row)
    sizes = np.fromiter(map(len, chosen), np.int64, len(chosen))
    flat = np.fromiter(itertools.chain.from_iterable(chosen), np.int64, int(sizes.sum()))
    return from_lists(flat, sizes, problems, schema, renamed, column)


def _list_row(
    value: Any, place: int, schema: Schema, index: Mapping[str, int], column: str | None
) -> tuple[list[int], InvalidRecord | None]:
    """Return the labels of one record as indices, or no index and the problem of the record."""
    if is_missing(value):
        return [], missing(place, column)
    if schema.width == 1 and isinstance(value, bool | np.bool_):
        return [0] if value else [], None
    # The keys of a mapping would be taken for labels that are set.
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return [], InvalidRecord(place + 1, f"must be a list of labels, not {kind_of(value)}", column=column)
    labels = list(value)
    problem: InvalidRecord | None = None
    if other := [label for label in labels if not isinstance(label, str)]:
        text = f"must be a list of labels, but has an item of type {kind_of(other[0])}"
        problem = InvalidRecord(place + 1, text, column=column)
    elif not all(map(is_text, labels)):
        problem = InvalidRecord(place + 1, "must be UTF-8 text", column=column)
    elif not all(label in index for label in labels):
        problem = unknown(place, schema, column)
    return ([], problem) if problem else (sorted(index[label] for label in labels), None)


def encode_array(values: NDArray[Any], schema: Schema) -> Encoded:
    """Encode an array: labels or their indices, lists of labels, or a matrix of bits."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        reject("values", "have no masked entries; fill them first")
    if values.ndim == 1 and values.dtype.kind in "OUT":
        if schema.exclusive and values.dtype.kind == "U" and not any(label.endswith("\0") for label in schema.labels):
            return _encode_text(values, schema)
        return encode_sequence(values.tolist(), schema)
    if values.ndim == 1 and schema.exclusive:
        return _encode_indices(values, schema)
    if values.ndim == 1 and schema.width == 1 and values.dtype == np.bool_:
        values = values[:, None]
    return _encode_bits(values, schema)


def _encode_text(values: NDArray[np.str_], schema: Schema) -> Encoded:
    labels = np.array(schema.labels)
    order = np.argsort(labels)
    ranked = labels[order]
    codes = np.empty(values.size, np.int64)
    for start in range(0, values.size, STEP):
        part = values[start : start + STEP]
        place = np.minimum(np.searchsorted(ranked, part), labels.size - 1)
        codes[start : start + STEP] = np.where(ranked[place] == part, order[place], NO_VALUE)
    wrong = np.flatnonzero(codes < 0).tolist()
    return from_codes(
        codes, {place: _label_problem(str(values[place]), place, schema, None) for place in wrong}, schema
    )


def _encode_indices(indices: NDArray[Any], schema: Schema) -> Encoded:
    if indices.dtype.kind not in "iu":
        reject("values", f"be an array of labels or of their indices, not of type {indices.dtype}")
    shown = schema.labels[:SAMPLE]
    if all(map(str.isdecimal, shown)) and any(label != str(i) for i, label in enumerate(shown)):
        # Labels "1", "2", "3" would otherwise be counted one place off, without an error.
        reject("values", "be strings, because the labels are numbers that differ from their indices")
    outside = f"has an index outside [0, {schema.width - 1}]"
    wrong = np.flatnonzero((indices < 0) | (indices >= schema.width))
    codes: Numbers = indices.astype(np.int64)
    codes[wrong] = NOT_A_LABEL
    return from_codes(codes, {place: InvalidRecord(place + 1, outside) for place in wrong.tolist()}, schema)


def _encode_bits(bits: NDArray[Any], schema: Schema) -> Encoded:
    if bits.ndim != 2 or bits.shape[1] != schema.width:
        reject("values", f"be an array of shape (n, {schema.width})", bits.shape)
    if bits.dtype.kind not in "biu":
        reject("values", f"be an array of 0 and 1 or of booleans, not of type {bits.dtype}")
    if bits.dtype.kind == "b":
        return from_cells(bits.view(np.uint8), schema)
    return from_cells(np.where((bits == 0) | (bits == 1), bits, INVALID).astype(np.uint8), schema)
