"""Columns as tables of PyArrow, pandas and Polars; needs the extra ``frames``."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from hubbub.errors import load_extra

Columns = dict[str, "list[str] | NDArray[Any]"]
"""Columns of equal length by name: lists of texts, and arrays of figures."""


def to_arrow(columns: Mapping[str, Any]) -> Any:
    """Return the columns as a PyArrow table.

    >>> to_arrow({"label": ["red"]}).num_rows
    1
    """
    arrow = load_extra("pyarrow", "frames", "An Arrow table")
    return arrow.table(dict(columns))


def to_parquet(columns: Mapping[str, Any]) -> bytes:
    """Return the columns as the bytes of a Parquet file."""
    table, parquet = to_arrow(columns), load_extra("pyarrow.parquet", "frames", "Parquet")
    sink = load_extra("pyarrow", "frames", "Parquet").BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def to_csv(columns: Mapping[str, Any]) -> str:
    """Return the columns as CSV with a header; truth values are written as 1 and 0, and NaN as an empty cell.

    >>> to_csv({"label": ["a,b"], "value": [1.5], "detectable": [True]})
    'label,value,detectable\\n"a,b",1.5,1\\n'
    >>> to_csv({"figure": ["sum"], "population_low": [float("nan")]})
    'figure,population_low\\nsum,\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    lists: list[Sequence[Any]] = [
        column if isinstance(column, list | tuple) else column.tolist() for column in columns.values()
    ]
    writer.writerows([_cell(cell) for cell in row] for row in zip(*lists, strict=True))
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return "" if isinstance(value, float) and math.isnan(value) else value


def to_lines(document: Mapping[str, Any], rows: str) -> str:
    """Return a JSON object, with each item of the list under ``rows`` on a line: readable, and fast for many rows.

    >>> print(to_lines({"people": 3, "counts": [{"label": "a"}, {"label": "b"}]}, "counts"))
    {
     "people": 3,
     "counts": [
      {"label": "a"},
      {"label": "b"}
     ]
    }
    """
    others = {name: value for name, value in document.items() if name != rows}
    head = json.dumps(others, ensure_ascii=False, indent=1).removesuffix("\n}")
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in document[rows])
    return f"{head},\n {json.dumps(rows)}: [\n{lines}\n ]\n}}"


def to_pandas(columns: Mapping[str, Any]) -> Any:
    """Return the columns as a pandas data frame."""
    return _frame(columns, "pandas")


def to_polars(columns: Mapping[str, Any]) -> Any:
    """Return the columns as a Polars data frame."""
    return _frame(columns, "polars")


def _frame(columns: Mapping[str, Any], library: str) -> Any:
    narwhals = load_extra("narwhals", "frames", "A data frame")
    load_extra(library, "", f"A data frame of {library}")
    return narwhals.from_dict(dict(columns), backend=library).to_native()
