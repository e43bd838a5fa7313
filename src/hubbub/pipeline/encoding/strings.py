"""Strings that nobody listed, from lists, arrays, Arrow, series and data frames."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hubbub.errors import InvalidInput, InvalidRecord, check_memory, kind_of, reject
from hubbub.model.questions import Text
from hubbub.pipeline.encoding.columns import is_columnar, to_arrow
from hubbub.pipeline.encoding.encoded import Encoded

ONE_COLUMN = "have one column, that of the strings"


def encode_strings(values: Sequence[Any], strings: Text, column: str | None = None) -> Encoded:
    """Encode one string for each record; None stands for nothing, as does the NaN of a data frame.

    >>> encode_strings(["a", None], Text(1)).rows.tolist()
    [[1, 0, 1, 97], [0, 0, 0, 0]]
    """
    check_memory(f"{len(values):,} strings", len(values) * strings.size)
    problems, parts = [], []
    for place, value in enumerate(values):
        try:
            parts.append(strings.encode(None if isinstance(value, float) and math.isnan(value) else value))
        except InvalidInput as error:
            # The message is about the form of the value alone.
            problems.append(InvalidRecord(place + 1, str(error).removeprefix("the value "), column=column))
            parts.append(bytes(strings.size))
    rows = np.frombuffer(bytearray(b"".join(parts)), np.uint8).reshape(-1, strings.size)
    return Encoded(n=len(values), problems=problems, renamed=np.empty(0, np.int64), rows=rows)


def listed(values: Any) -> Sequence[Any]:
    """Return values as a list: of an array, a series, or a frame or table with one column."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            reject("values", f"be an array of one dimension for strings, got {values.ndim}")
        found: list[Any] = values.tolist()
        return found
    if is_columnar(values):
        data = to_arrow(values)
        if hasattr(data, "column_names"):
            if len(data.column_names) != 1:
                reject("values", ONE_COLUMN, len(data.column_names))
            data = data.column(0)
        cells: list[Any] = data.to_pylist()
        return cells
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        reject("values", f"be a list, an array, a series or a data frame, not {kind_of(values)}")
    return values if isinstance(values, Sequence) else list(values)
