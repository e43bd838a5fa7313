"""Arrow itself: imported on demand, its types, and its integers as numpy arrays."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import MissingExtra

FEATURE = "Reading Arrow data and data frames"


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
    """Return True for the types of lists, of any or of equal sizes, also as views."""
    types = arrow().types
    plain = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(plain or types.is_list_view(kind) or types.is_large_list_view(kind))


def indices_of(array: Any, null: int) -> NDArray[Any]:
    """Return Arrow integers as a numpy array, with a number for nulls."""
    if array.null_count:
        array = array.cast(arrow().int64()).fill_null(null)
    numbers = np.asarray(array.to_numpy(zero_copy_only=False))
    return numbers.view(np.int64) if numbers.dtype == np.uint64 else numbers
