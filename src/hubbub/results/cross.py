"""``CrossEstimate``: how many people gave which combination of answers to two or more questions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Json
from hubbub.errors import OPEN_UNIT, check_items, check_real, check_type, reject
from hubbub.model.questions.cross import cell_label, cell_labels
from hubbub.model.schema import check_label_names
from hubbub.results.counts import LEVEL, Estimate, LabelEstimate, Of
from hubbub.results.frames import Columns, to_arrow, to_pandas, to_polars
from hubbub.results.measures import listed

if TYPE_CHECKING:
    from hubbub.report import Chart

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CrossEstimate:
    """Estimated number of people in each cell of a cross-table, with an axis for every question.

    ``estimate["red", "yes"]`` is the cell with these labels, iteration goes through all cells. How
    far one malicious client moves a cell is :func:`hubbub.planner.question_weights`.
    """

    name: str
    names: tuple[str, ...]
    """The questions of the axes."""
    axes: tuple[tuple[str, ...], ...]
    """The labels of each axis."""
    cells: Estimate
    """All cells as an estimate of labels, the last axis fastest: intervals, shares of the population."""
    direct: bool
    """True if the cells are counted as one attribute of combinations only, False if tables are combined."""

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_type("cells", self.cells, Estimate)
        check_type("direct", self.direct, bool)
        for name, each in (("names", [self.names]), ("axes", self.axes)):
            for one in check_items(name, each, "be a tuple of labels for every question"):
                check_label_names(name, one)
        if len(self.axes) != len(self.names) or self.cells.labels != cell_labels(self.axes):
            reject("cells", "have a label for every combination of the labels of the axes")

    @property
    def n(self) -> int:
        """People in the collection."""
        return self.cells.n

    @property
    def plan(self) -> str | None:
        """Id of the plan, or None for batches of several plans."""
        return self.cells.plan

    @property
    def values(self) -> Array:
        """Unbiased number of people in each cell; small ones may be below 0."""
        return self._shaped(self.cells.values)

    @property
    def stderr(self) -> Array:
        """Standard error of each cell."""
        return self._shaped(self.cells.stderr)

    @property
    def remark(self) -> str:
        """The way in which the cells were measured."""
        if self.direct:
            return "counted directly, as one attribute of combinations"
        return "combined by least squares from the table of combinations and the tables of single questions"

    def _shaped(self, array: Array) -> Array:
        return array.reshape([len(axis) for axis in self.axes])

    def interval(
        self, level: float = LEVEL, *, simultaneous: bool = False, of: Of = "collection"
    ) -> tuple[Array, Array]:
        """Return the ends of intervals of the cells; see Estimate.interval."""
        low, high = self.cells.interval(level, simultaneous=simultaneous, of=of)
        return self._shaped(low), self._shaped(high)

    def population(self, level: float = LEVEL, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Return intervals of the shares of the population; see Estimate.population."""
        low, high = self.cells.population(level, simultaneous=simultaneous)
        return self._shaped(low), self._shaped(high)

    @property
    def row_labels(self) -> tuple[str, ...]:
        """Labels of the rows of a table whose columns are the last axis; those of several axes are joined."""
        return cell_labels(self.axes[:-1]) if len(self.axes) > 2 else self.axes[0]

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[LabelEstimate]:
        return iter(self.cells)

    def __getitem__(self, labels: tuple[str, ...]) -> LabelEstimate:
        if not isinstance(labels, tuple) or len(labels) != len(self.axes):
            reject("labels", f"be one label of each of {len(self.axes)} questions")
        if any(label not in axis for axis, label in zip(self.axes, labels, strict=True)):
            reject("labels", "be labels of the questions of the cross-table")
        return self.cells[cell_label(labels)]

    def columns(self, level: float = LEVEL) -> Columns:
        """Return a row for each cell: a column for every question, value, standard error, both intervals in people."""
        found = self.cells.columns(level)
        places = np.indices([len(axis) for axis in self.axes]).reshape(len(self.axes), -1)
        named: Columns = {
            name: [axis[i] for i in column.tolist()]
            for name, axis, column in zip(self.names, self.axes, places, strict=True)
        }
        return {**named, **{name: column for name, column in found.items() if name != "label"}}

    def to_arrow(self, level: float = LEVEL) -> Any:
        """Return a PyArrow table with a row for each cell; needs the extra ``frames``."""
        return to_arrow(self.columns(level))

    def to_pandas(self, level: float = LEVEL) -> Any:
        """Return a pandas data frame with a row for each cell; needs the extra ``frames``, and pandas."""
        return to_pandas(self.columns(level))

    def to_polars(self, level: float = LEVEL) -> Any:
        """Return a Polars data frame with a row for each cell; needs the extra ``frames``, and Polars."""
        return to_polars(self.columns(level))

    def plot(self, *, level: float = LEVEL) -> "Chart":
        """Return a heat map of the cells; ``.save(path)`` writes SVG, PNG or PDF."""
        from hubbub.report import cross_chart  # noqa: PLC0415 (an upward import: charts are loaded if needed)

        return cross_chart(self, level=check_real("level", level, OPEN_UNIT))

    def _repr_html_(self) -> str:
        from hubbub.report import cross_table  # noqa: PLC0415

        return cross_table(self)

    def to_document(self, level: float = LEVEL) -> dict[str, Json]:
        """Return the cells with their intervals as a JSON object."""
        return {
            "name": self.name,
            "kind": "cross",
            "people": self.n,
            "questions": list(self.names),
            "direct": self.direct,
            "remark": self.remark,
            "cells": listed(self.columns(level)),
        }

    def __repr__(self) -> str:
        shape = " × ".join(str(len(axis)) for axis in self.axes)
        error = float(self.stderr.max())
        return f"CrossEstimate({self.name!r}: {shape} cells, n={self.n:,}, stderr {error:.4g})"
