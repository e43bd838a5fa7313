"""``CrossEstimate``: how many people gave which combination of answers to two or more questions."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import NON_NEGATIVE, check_real, check_type, check_whole, reject
from hubbub.estimates import LEVEL, Estimate
from hubbub.frames import Columns, to_arrow, to_pandas, to_polars
from hubbub.numeric.population import CountNoise

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CrossEstimate:
    """Estimated number of people in each cell of a cross-table, with an axis for every question."""

    name: str
    names: tuple[str, ...]
    """The questions of the axes."""
    axes: tuple[tuple[str, ...], ...]
    """The labels of each axis."""
    values: Array
    """Unbiased number of people in each cell."""
    variance: float
    """Variance of one cell."""
    n: int
    plan: str | None = None

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        if self.values.shape != tuple(len(axis) for axis in self.axes) or len(self.axes) != len(self.names):
            reject("values", "have an axis for every question, with a cell for every label")
        check_real("variance", self.variance, NON_NEGATIVE)
        check_whole("n", self.n)

    @property
    def stderr(self) -> float:
        """Standard error of one cell."""
        return math.sqrt(self.variance)

    @property
    def cells(self) -> Estimate:
        """All cells as an estimate of labels, each the combination in words: intervals, shares of the population."""
        labels = [""]
        for axis in self.axes:
            labels = [f"{one} × {two}" if one else two for one in labels for two in axis]
        values = np.ascontiguousarray(self.values.reshape(-1))
        stderr = np.full(values.size, self.stderr)
        for array in (values, stderr):
            array.setflags(write=False)
        return Estimate(
            labels=tuple(labels),
            values=values,
            stderr=stderr,
            n=self.n,
            one_choice=True,
            unbiased=values,
            noise=CountNoise(variance=self.variance),
            plan=self.plan,
        )

    def __len__(self) -> int:
        return self.values.size

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], float]]:
        for place in np.ndindex(self.values.shape):
            labels = tuple(axis[i] for axis, i in zip(self.axes, place, strict=True))
            yield labels, float(self.values[place])

    def __getitem__(self, labels: tuple[str, ...]) -> float:
        if not isinstance(labels, tuple) or len(labels) != len(self.axes):
            reject("labels", f"be one label of each of {len(self.axes)} questions")
        place = []
        for axis, label in zip(self.axes, labels, strict=True):
            if label not in axis:
                reject("labels", "be labels of the questions of the cross-table")
            place.append(axis.index(label))
        return float(self.values[tuple(place)])

    def columns(self, level: float = LEVEL) -> Columns:
        """Return a row for each cell: a column for every question, value, standard error, both intervals."""
        found = self.cells.columns(level)
        labels = list(zip(*(key for key, _ in self), strict=True))
        named: Columns = {name: list(column) for name, column in zip(self.names, labels, strict=True)}
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

    def __repr__(self) -> str:
        shape = " × ".join(str(len(axis)) for axis in self.axes)
        return f"CrossEstimate({self.name!r}: {shape} cells, n={self.n:,}, stderr {self.stderr:.4g})"
