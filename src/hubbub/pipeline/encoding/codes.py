"""Arrow arrays of labels as their indices, and lists of labels as packed rows.

No step creates a Python object for a record: Arrow compares labels, numpy does the rest. Dictionary-encoded arrays cost
one comparison for each entry of the dictionary. Integers are labels in decimal, as in CSV.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import reject
from hubbub.pipeline.encoding.arrays import arrow, indices_of, is_text, kind_name, library
from hubbub.pipeline.encoding.encoded import NO_VALUE, NOT_A_LABEL

Codes = NDArray[Any]
"""Signed integers: indices of labels, or codes below 0."""
WORD = 64
MOST_WORDS = 4
"""Words of 64 bits of a record that is packed by :func:`pack_lists`; with more, sorting is faster."""


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the codes of all chunks of an array."""
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.int32)])


def label_codes(array: Any, labels: tuple[str, ...]) -> Codes:
    """Return the index of every label; codes below 0 for nulls and labels outside the schema."""
    pa, types, kind = arrow(), arrow().types, array.type
    if types.is_dictionary(kind) and not len(array.dictionary):
        # The dictionary of a column without any value may have any type.
        return np.full(len(array), NO_VALUE, np.int32)
    if types.is_dictionary(kind):
        codes = np.append(label_codes(array.dictionary, labels), np.int32(NO_VALUE))
        return np.take(codes, indices_of(array.indices, codes.size - 1))
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
