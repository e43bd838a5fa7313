"""Cells of Arrow columns as truth values and numbers, without a Python object for any cell."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import reject
from hubbub.pipeline.encoding.arrays import arrow, indices_of, is_text, kind_name, library
from hubbub.pipeline.encoding.encoded import INVALID, MISSING, SET, TRUTH, UNSET

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]
DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$"
"""Spellings of numbers that Arrow and Python read alike."""


def truth_codes(column: Any) -> NDArray[np.uint8]:
    """Return the code of every cell of an Arrow column of booleans, of 0 and 1, or of their spellings."""
    pa = arrow()
    if isinstance(column, pa.ChunkedArray):
        parts = [truth_codes(chunk) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.uint8)])
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        codes = np.append(truth_codes(column.dictionary), np.uint8(MISSING))
        return np.take(codes, indices_of(column.indices, codes.size - 1))
    if types.is_null(kind):
        return np.full(len(column), MISSING, np.uint8)
    if types.is_boolean(kind):
        valid, data = column.buffers()
        codes = _unpacked(data, column)
        return codes if not column.null_count else np.where(_unpacked(valid, column), codes, np.uint8(MISSING))
    if types.is_integer(kind) or types.is_floating(kind):
        numbers = (column if not column.null_count else column.fill_null(0)).to_numpy(zero_copy_only=False)
        codes = np.equal(numbers, 1).view(np.uint8)
        if column.null_count or not ((numbers == 0) | (numbers == 1)).all():
            codes = np.where(numbers == 1, SET, np.where(numbers == 0, UNSET, INVALID)).astype(np.uint8)
            codes[column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)] = MISSING
        return codes
    if not is_text(kind):
        reject("values", f"have columns of 0 and 1 or of booleans, not of the Arrow type {kind_name(kind)}")
    compute = library("pyarrow.compute")
    text = compute.utf8_lower(column.cast(pa.large_string()))
    found = compute.index_in(text, value_set=pa.array(list(TRUTH), text.type), skip_nulls=True)
    codes = np.take(np.array([*TRUTH.values(), INVALID], np.uint8), indices_of(found, len(TRUTH)))
    if column.null_count:
        codes[column.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return codes


def _unpacked(bits: Any, array: Any) -> NDArray[np.uint8]:
    """Return a bitmap of an Arrow array as bytes of 0 and 1."""
    if not len(array):
        return np.empty(0, np.uint8)
    first, last = array.offset >> 3, (array.offset + len(array) + 7) >> 3
    cells = np.unpackbits(np.frombuffer(bits, np.uint8)[first:last], bitorder="little")
    start = array.offset & 7
    return cells[start : start + len(array)]


def is_numeric(kind: Any) -> bool:
    """Return True for the types of columns that :func:`number_codes` reads: numbers, and text that may spell them."""
    types = arrow().types
    if types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)
    return bool(numeric or is_text(kind))


def number_codes(array: Any) -> tuple[Floats, Truths, Truths]:
    """Return the numbers of an Arrow array, which of them are missing, and which texts are no numbers.

    Text is read as Python reads it, without underscores. Missing and wrong ones are 0.
    """
    pa, types, kind = arrow(), arrow().types, array.type
    if types.is_dictionary(kind):
        floats, absent, wrong = number_codes(array.dictionary)
        places = indices_of(array.indices, len(floats))
        return np.append(floats, 0.0)[places], np.append(absent, True)[places], np.append(wrong, False)[places]
    if types.is_null(kind):
        return np.zeros(len(array)), np.ones(len(array), np.bool_), np.zeros(len(array), np.bool_)
    if is_text(kind):
        return _spelled_numbers(array.cast(pa.large_string()))
    if types.is_decimal(kind):
        # Arrow's own conversion is off by one unit in the last place for many of them.
        array = array.cast(pa.large_string())
    # Large integers are rounded to floats, as Python does; Arrow would refuse them, and quote one.
    floats = array.cast(pa.float64(), safe=False).fill_null(float("nan")).to_numpy(zero_copy_only=False)
    absent = np.isnan(floats)
    return np.where(absent, 0.0, floats), absent, np.zeros(len(array), np.bool_)


def _spelled_numbers(text: Any) -> tuple[Floats, Truths, Truths]:
    pa, compute = arrow(), library("pyarrow.compute")
    usual = compute.match_substring_regex(text, DECIMAL).fill_null(False)
    floats = np.array(compute.if_else(usual, text, "0").cast(pa.float64()).to_numpy(zero_copy_only=False))
    absent, wrong = np.zeros(len(text), np.bool_), np.zeros(len(text), np.bool_)
    others = np.flatnonzero(~usual.to_numpy(zero_copy_only=False))
    if others.size:
        # Everything else is parsed once for each different text: empty cells, spaces, NaN, and what is no number.
        rest = text.take(pa.array(others)).dictionary_encode()
        parsed = [_parsed(one) for one in rest.dictionary.to_pylist()]
        values = np.array([0.0 if one is None else one for one in (*parsed, math.nan)])
        found, unread = values[indices_of(rest.indices, len(parsed))], np.array([one is None for one in (*parsed, 0.0)])
        absent[others] = np.isnan(found)
        floats[others] = np.where(np.isnan(found), 0.0, found)
        wrong[others] = unread[indices_of(rest.indices, len(parsed))]
    return floats, absent, wrong


def _parsed(text: str) -> float | None:
    """Return the number that a text spells, NaN if it is blank, or None if it is no number."""
    if not text.strip():
        return math.nan
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
