"""``Table``: columns as tables of PyArrow, pandas and Polars, as CSV, Parquet, HTML and charts.

Frames and Parquet need the extra ``frames``, charts the extra ``plot``.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from hubbub.documents import Json
from hubbub.errors import check_whole, load_extra

if TYPE_CHECKING:
    from hubbub.report import Chart

LEVEL = 0.95
"""Confidence level of intervals unless another one is asked for."""
Columns = dict[str, "list[str] | list[str | None] | NDArray[Any]"]
"""Columns of equal length by name: lists of texts, and arrays of figures, in which NaN stands for none."""


class Table:
    """Rows that can be read as columns: a result, the view of a question, a comparison, a joint table."""

    __slots__ = ()

    def columns(self, level: float | None = None) -> Columns:
        """Return the rows as columns, with intervals of the given level."""
        raise NotImplementedError

    def about(self) -> dict[str, Json]:
        """Return what holds for all rows, which is kept beside them in Arrow and Parquet."""
        return {}

    def to_arrow(self, level: float | None = None) -> Any:
        """Return a PyArrow table of the rows; needs the extra ``frames``."""
        return to_arrow(self.columns(level), self.about())

    def to_pandas(self, level: float | None = None) -> Any:
        """Return a pandas data frame of the rows; needs the extra ``frames``, and pandas."""
        return _frame(self.columns(level), "pandas")

    def to_polars(self, level: float | None = None) -> Any:
        """Return a Polars data frame of the rows; needs the extra ``frames``, and Polars."""
        return _frame(self.columns(level), "polars")

    def to_csv(self, level: float | None = None) -> str:
        """Return the rows as CSV with a header."""
        return to_csv(self.columns(level))

    def to_parquet(self, level: float | None = None) -> bytes:
        """Return the rows as the bytes of a Parquet file; needs the extra ``frames``."""
        return to_parquet(self.columns(level), self.about())

    def plot(self, *, level: float | None = None, top: int = 20, simultaneous: bool = False) -> "Chart":
        """Return a chart, of ``top`` rows where there are many; ``.save(path)`` writes SVG, PNG or PDF.

        ``simultaneous`` draws intervals of labels that hold for all of them at once.
        """
        from hubbub.report import draw  # noqa: PLC0415 (the upward import: charts are loaded if needed)

        return draw(self, level=level, top=check_whole("top", top, 1), simultaneous=simultaneous)

    def _repr_html_(self) -> str:
        from hubbub.report import html_table  # noqa: PLC0415

        return html_table(self)


def to_arrow(columns: Mapping[str, Any], about: Mapping[str, Json] | None = None) -> Any:
    """Return the columns as a PyArrow table, with null for NaN, and ``about`` as JSON in its metadata.

    >>> to_arrow({"label": ["red"]}).num_rows
    1
    """
    arrow = load_extra("pyarrow", "frames", "An Arrow table")
    table = arrow.table({name: arrow.array(column, from_pandas=True) for name, column in columns.items()})
    return table.replace_schema_metadata({"hubbub": json.dumps(about)}) if about else table


def to_parquet(columns: Mapping[str, Any], about: Mapping[str, Json] | None = None) -> bytes:
    """Return the columns as the bytes of a Parquet file."""
    table, parquet = to_arrow(columns, about), load_extra("pyarrow.parquet", "frames", "Parquet")
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


def _frame(columns: Mapping[str, Any], library: str) -> Any:
    narwhals = load_extra("narwhals", "frames", "A data frame")
    load_extra(library, "", f"A data frame of {library}")
    given = dict(columns) if library == "pandas" else {name: plain(column) for name, column in columns.items()}
    return narwhals.from_dict(given, backend=library).to_native()


def plain(column: Any) -> list[Json]:
    """Return a column as a list, in which None stands for NaN, which JSON lacks and Polars tells apart."""
    cells = column if isinstance(column, list) else column.tolist()
    return [None if isinstance(one, float) and math.isnan(one) else one for one in cells]


def listed(columns: Columns) -> list[Json]:
    """Return columns as a list of JSON objects, one for each row, with null for NaN.

    >>> listed({"label": ["a", "b"]})
    [{'label': 'a'}, {'label': 'b'}]
    """
    cells = {name: plain(column) for name, column in columns.items()}
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
