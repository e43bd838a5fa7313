"""Arrow arrays as numbers: the indices of labels, truth values, and the packed rows of lists.

No step creates a Python object for a record: Arrow compares labels, numpy does the rest. Dictionary-encoded arrays cost
one comparison for each entry of the dictionary. Integers are labels in decimal, as in CSV.
"""

import functools
import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.encoding.encoded import INVALID, MISSING, NO_VALUE, NOT_A_LABEL, SET, TRUTH, UNSET
from hubbub.errors import MissingExtra, reject

Codes = NDArray[Any]
"""Signed integers: indices of labels, or codes below 0."""
Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]
FEATURE = "Reading Arrow data and data frames"
DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$"
"""Spellings of numbers that Arrow and Python read alike."""
WORD = 64
MOST_WORDS = 4
"""Words of 64 bits of a record that is packed by :func:`pack_lists`; with more, sorting is faster."""


def library(name: str) -> Any:
    """Import a library of the extra ``frames``, or raise an error that names the extra."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtra("frames", FEATURE) from None


def arrow() -> Any:
    """Import pyarrow, or raise an error that names the extra."""
    return library("pyarrow")


def kind_name(kind: Any) -> str:
    """Return the name of an Arrow type, without the names of fields, which may be data."""
    return str(kind).partition("<")[0].partition("[")[0]


def is_text(kind: Any) -> bool:
    """Return True for the types of strings, dictionary-encoded or not."""
    types = arrow().types
    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(kind: Any) -> bool:
    """Return True for the types of lists, of any or of equal sizes."""
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the codes of all chunks of an array."""
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.int32)])


def label_codes(array: Any, labels: tuple[str, ...]) -> Codes:
    """Return the index of every label; codes below 0 for nulls and labels outside the schema."""
    pa, types, kind = arrow(), arrow().types, array.type
    if types.is_dictionary(kind):
        codes = np.append(label_codes(array.dictionary, labels), np.int32(NO_VALUE))
        return np.take(codes, _indices(array.indices, codes.size - 1))
    if types.is_null(kind):
        return np.full(len(array), NO_VALUE, np.int32)
    if types.is_string_view(kind):
        array = array.cast(pa.large_string())
    elif not types.is_integer(kind) and not is_text(kind):
        reject("values", f"be labels, not of the Arrow type {kind_name(kind)}")
    compute = library("pyarrow.compute")
    known, places = _value_set(labels, array.type)
    found = compute.index_in(array, value_set=known, skip_nulls=True)
    codes = np.array(found.fill_null(NOT_A_LABEL).to_numpy(zero_copy_only=False), np.int32)
    if places is not None:
        codes = np.append(places, np.int32(NOT_A_LABEL))[np.where(codes < 0, places.size, codes)]
    if found.null_count:
        absent = array.is_null()
        if not types.is_integer(kind):
            absent = compute.or_kleene(absent, compute.equal(array, ""))
        absent = absent.fill_null(True).to_numpy(zero_copy_only=False)
        codes[(codes == NOT_A_LABEL) & absent] = NO_VALUE
    return codes


@functools.lru_cache(8)
def _value_set(labels: tuple[str, ...], kind: Any) -> tuple[Any, NDArray[np.int32] | None]:
    """Return labels as an Arrow array of a type, and their indices unless all of them are in it."""
    pa = arrow()
    if not pa.types.is_integer(kind):
        return pa.array(labels, kind), None
    bound = 1 << (kind.bit_width - pa.types.is_signed_integer(kind))
    low = -bound if pa.types.is_signed_integer(kind) else 0
    found = {}
    for place, label in enumerate(labels):
        # Only the usual spelling of a number is one: not "007", "+7" or " 7".
        number = int(label) if label.isascii() and label.removeprefix("-").isdigit() and len(label) <= 20 else None
        if number is not None and str(number) == label and low <= number < bound:
            found[place] = number
    return pa.array(list(found.values()), kind), np.array(list(found), np.int32)


def list_codes(array: Any, labels: tuple[str, ...]) -> tuple[Codes, Codes]:
    """Return the codes of the labels of all lists, and the sizes of the lists, -1 for nulls."""
    compute = library("pyarrow.compute")
    sizes = np.asarray(compute.list_value_length(array).fill_null(-1).to_numpy(zero_copy_only=False))
    if arrow().types.is_fixed_size_list(array.type):
        array = array.filter(array.is_valid())
    return label_codes(array.flatten(), labels), sizes


def pack_lists(flat: Codes, sizes: Codes, width: int) -> NDArray[np.uint8] | None:
    """Return lists of labels as packed rows; None if any list is invalid, or if the records are wide.

    The sum of the bits of a list has as many ones as the list has labels if and only if they are distinct, because
    each carry removes a one.

    >>> pack_lists(np.array([0, 2, 1]), np.array([2, 0, 1]), 3).tolist()
    [[5], [0], [2]]
    >>> pack_lists(np.array([1, 1]), np.array([2]), 3)
    """
    words = -(-width // WORD)
    if words > MOST_WORDS or (flat.size and flat.min() < 0) or (sizes.size and sizes.min() < 0):
        return None
    ends = np.cumsum(sizes, dtype=np.int64)
    starts = ends - sizes
    rows, ones = np.empty((sizes.size, words), "<u8"), np.zeros(sizes.size, np.int64)
    totals = np.zeros(flat.size + 1, np.uint64)
    for word in range(words):
        bits = np.zeros(width, np.uint64)
        own = bits[word * WORD : (word + 1) * WORD]
        own[:] = np.uint64(1) << np.arange(own.size, dtype=np.uint64)
        np.cumsum(bits[flat], out=totals[1:])
        np.subtract(totals[ends], totals[starts], out=rows[:, word])
        ones += np.bitwise_count(rows[:, word])
    if not np.array_equal(ones, sizes):
        return None
    return np.ascontiguousarray(rows.view(np.uint8)[:, : -(-width // 8)])


def split(array: Any, separator: str) -> Any:
    """Return text as lists of labels; an empty text is an empty list, as in CSV."""
    pa, compute = arrow(), library("pyarrow.compute")
    text = array.cast(pa.large_string())
    lists = compute.split_pattern(text, separator)
    empty = compute.equal(text, "")
    return compute.if_else(empty, pa.scalar([], lists.type), lists)


def truth_codes(column: Any) -> NDArray[np.uint8]:
    """Return the code of every cell of an Arrow column of booleans, of 0 and 1, or of their spellings."""
    pa = arrow()
    if isinstance(column, pa.ChunkedArray):
        parts = [truth_codes(chunk) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.uint8)])
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        codes = np.append(truth_codes(column.dictionary), np.uint8(MISSING))
        return np.take(codes, _indices(column.indices, codes.size - 1))
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
    codes = np.take(np.array([*TRUTH.values(), INVALID], np.uint8), _indices(found, len(TRUTH)))
    if column.null_count:
        codes[column.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return codes


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
        places = _indices(array.indices, len(floats))
        return np.append(floats, 0.0)[places], np.append(absent, True)[places], np.append(wrong, False)[places]
    if types.is_null(kind):
        return np.zeros(len(array)), np.ones(len(array), np.bool_), np.zeros(len(array), np.bool_)
    if is_text(kind):
        return _spelled_numbers(array.cast(pa.large_string()))
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
        found, unread = values[_indices(rest.indices, len(parsed))], np.array([one is None for one in (*parsed, 0.0)])
        absent[others] = np.isnan(found)
        floats[others] = np.where(np.isnan(found), 0.0, found)
        wrong[others] = unread[_indices(rest.indices, len(parsed))]
    return floats, absent, wrong


def _parsed(text: str) -> float | None:
    """Return the number that a text spells, NaN if it is blank, or None if it is no number."""
    if not text.strip():
        return math.nan
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _indices(array: Any, null: int) -> NDArray[Any]:
    """Return Arrow integers as a numpy array, with a number for nulls."""
    if array.null_count:
        array = array.cast(arrow().int64()).fill_null(null)
    numbers = np.asarray(array.to_numpy(zero_copy_only=False))
    return numbers.view(np.int64) if numbers.dtype == np.uint64 else numbers


def _unpacked(bits: Any, array: Any) -> NDArray[np.uint8]:
    """Return a bitmap of an Arrow array as bytes of 0 and 1."""
    if not len(array):
        return np.empty(0, np.uint8)
    first, last = array.offset >> 3, (array.offset + len(array) + 7) >> 3
    cells = np.unpackbits(np.frombuffer(bits, np.uint8)[first:last], bitorder="little")
    start = array.offset & 7
    return cells[start : start + len(array)]
