"""``CrossView``: how many people gave which combination of answers to two or more questions.

Choices, flags and cross-tables are counted directly, or combined from several tables by least squares.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import check_items, check_type, reject
from hubbub.mechanisms.design import factorial, tables
from hubbub.model.questions import Choice, Cross, Flag, Number
from hubbub.model.questions.cross import cell_label, cell_labels
from hubbub.model.schema import Schema, check_label_names
from hubbub.numeric.effects import Factorial
from hubbub.numeric.population import CountNoise
from hubbub.results.answers import AnswerCounts, summed_noise
from hubbub.results.figures import Figure, Of
from hubbub.results.frames import LEVEL, Columns, Table
from hubbub.results.labels import LabelView

Array = NDArray[np.float64]
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CrossView(Table):
    """Estimated number of people in each cell of a cross-table, with an axis for every question.

    ``view["red", "yes"]`` is the cell with these labels, iteration goes through all cells. How
    far one malicious client moves a cell is :func:`hubbub.planner.question_weights`.
    """

    name: str
    names: tuple[str, ...]
    """The questions of the axes."""
    axes: tuple[tuple[str, ...], ...]
    """The labels of each axis."""
    cells: LabelView
    """All cells as a view of labels, the last axis fastest: intervals, shares of the population."""
    direct: bool
    """True if the cells are counted as one attribute of combinations only, False if tables are combined."""

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_type("cells", self.cells, LabelView)
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

    def interval(self, level: float = LEVEL, *, simultaneous: bool = False, of: Of = "people") -> tuple[Array, Array]:
        """Return the ends of intervals of the cells; see LabelView.interval."""
        low, high = self.cells.interval(level, simultaneous=simultaneous, of=of)
        return self._shaped(low), self._shaped(high)

    def population(self, level: float = LEVEL, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Return intervals of the shares of the population; see LabelView.population."""
        low, high = self.cells.population(level, simultaneous=simultaneous)
        return self._shaped(low), self._shaped(high)

    @property
    def row_labels(self) -> tuple[str, ...]:
        """Labels of the rows of a table whose columns are the last axis; those of several axes are joined."""
        return cell_labels(self.axes[:-1]) if len(self.axes) > 2 else self.axes[0]

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Figure]:
        return iter(self.cells)

    def __getitem__(self, labels: tuple[str, ...]) -> Figure:
        if not isinstance(labels, tuple) or len(labels) != len(self.axes):
            reject("labels", f"be one label of each of {len(self.axes)} questions")
        if any(label not in axis for axis, label in zip(self.axes, labels, strict=True)):
            reject("labels", "be labels of the questions of the cross-table")
        return self.cells[cell_label(labels)]

    def columns(self, level: float | None = None) -> Columns:
        """Return a row for each cell: a column for every question, value, standard error, both intervals in people."""
        found = self.cells.columns(level)
        places = np.indices([len(axis) for axis in self.axes]).reshape(len(self.axes), -1)
        named: Columns = {
            name: [axis[i] for i in column.tolist()]
            for name, axis, column in zip(self.names, self.axes, places, strict=True)
        }
        return {**named, **{name: column for name, column in found.items() if name != "label"}}

    def _rows(self, level: float, *, simultaneous: bool = False) -> Columns:
        """Return the rows of the view in the table of a result: a row for each cell."""
        return self.cells._rows(level, simultaneous=simultaneous)

    def __repr__(self) -> str:
        shape = " × ".join(str(len(axis)) for axis in self.axes)
        error = float(self.stderr.max())
        return f"CrossView({self.name!r}: {shape} cells, n={self.n:,}, stderr {error:.4g})"


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of a table, with an axis for each of its questions."""

    values: Array
    stderr: Array
    noise: CountNoise
    direct: bool
    """True if no other table counts the same people by one of its questions."""


def table_cells(names: Names, counts: Sequence[AnswerCounts], schema: Schema, n: int) -> Cells:
    """Return the estimated cells of a table; of one attribute alone, or of all that observe its effects."""
    measured = tables(schema)
    seen = [table for table in measured if set(table) & set(names)]
    model = factorial(schema, [1 / one.mean_variance for one in counts])
    if seen == [names]:
        own = counts[measured[names]]
        values = own.values.reshape([model.sizes[name] for name in names])
        variance = own.noise.variance + own.noise.growth * np.clip(values, 0, n)
        return Cells(values, np.sqrt(np.maximum(variance, 0.0)), own.noise, direct=True)
    given = {
        table: counts[place].values.reshape([model.sizes[name] for name in table]) for table, place in measured.items()
    }
    values = model.estimate(given, names, n)
    variance, noise = _error(model, names, {table: counts[place] for table, place in measured.items()}, values)
    return Cells(values, np.sqrt(variance), noise, direct=False)


def _error(
    model: Factorial, names: Names, counts: dict[Names, AnswerCounts], values: Array
) -> tuple[Array, CountNoise]:
    """Return the variance of each cell, and the error of one."""
    fixed, growth, parts, gain = 0.0, 0.0, [], 1.0
    varying = np.zeros_like(values)
    people = np.maximum(values, 0.0)
    for one in model.cell_weights(names):
        own = counts[one.table]
        fixed += own.variance * one.weight**2 * one.copies
        gain = min(gain, own.noise.gain)
        parts += [(own.variance * one.weight**2, own.excess)] * min(one.copies, 64)
        if own.growth:
            varying = varying + own.growth * one.weight**2 * np.maximum(one.people(people, names), 0.0)
            growth += own.growth * one.weight**2 * (one.agreed == one.shared == names)
    variance = fixed + np.maximum(varying, 0.0)
    if growth:
        return variance, CountNoise(variance=float((variance - growth * people).max()), growth=growth, gain=gain)
    found = summed_noise(fixed, parts)
    return variance, found if found.distribution is not None else replace(found, gain=gain)


def choice_view(
    name: str, question: Choice | Flag, counts: Sequence[AnswerCounts], schema: Schema, n: int
) -> LabelView:
    """Return the view of the labels of a choice or a flag."""
    found = table_cells((name,), counts, schema, n)
    crosses = ", ".join(map(repr, schema.questions.crosses(name)))
    derived = name in schema.questions.derived
    remark = "unbiased" if found.direct else f"unbiased, {'from' if derived else 'combined with'} {crosses}"
    return _counted(question.attributes[0], found, n, remark)


def cross_view(name: str, question: Cross, counts: Sequence[AnswerCounts], schema: Schema, n: int) -> CrossView:
    """Return the view of the cells of a cross-table."""
    sides = [schema.questions[side] for side in question.names]
    axes = tuple(side.attributes[-1] for side in sides if not isinstance(side, Cross | Number))
    found = table_cells(question.names, counts, schema, n)
    cells = _counted(cell_labels(axes), found, n, "unbiased")
    return CrossView(name=name, names=question.names, axes=axes, cells=cells, direct=found.direct)


def _counted(labels: tuple[str, ...], found: Cells, n: int, remark: str) -> LabelView:
    values, stderr = (np.ascontiguousarray(array).reshape(-1).copy() for array in (found.values, found.stderr))
    for array in (values, stderr):
        array.setflags(write=False)
    return LabelView(
        labels=labels,
        values=values,
        stderr=stderr,
        n=n,
        one_choice=True,
        unbiased=values,
        noise=found.noise,
        remark=remark,
    )
