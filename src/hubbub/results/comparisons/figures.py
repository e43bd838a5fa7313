"""Comparisons of two batches of different people: means, sums and variances of numbers, distributions of scales."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Json
from hubbub.errors import OPEN_UNIT, PROBABILITY, check_choice, check_real, check_type, reject
from hubbub.model.questions.answers import spell
from hubbub.results.comparisons.differences import Difference, difference_columns, difference_of
from hubbub.results.comparisons.intervals import recovered, smallest_level
from hubbub.results.frames import Columns, to_arrow, to_pandas, to_polars
from hubbub.results.measures import LEVEL, Measure, Of, listed
from hubbub.results.numbers import NumberEstimate
from hubbub.results.scales import QUANTILES, ScaleEstimate, single_quantile

if TYPE_CHECKING:
    from hubbub.report import Chart

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NumberComparison:
    """The differences of mean, sum and variance of a number between two batches, second minus first."""

    a: NumberEstimate
    b: NumberEstimate
    level: float = LEVEL
    adjusted: float | None = None
    """p-value of the mean after the correction for all questions of a survey; None if compared alone."""

    def __post_init__(self) -> None:
        check_type("a", self.a, NumberEstimate)
        check_type("b", self.b, NumberEstimate)
        check_real("level", self.level, OPEN_UNIT)
        if self.adjusted is not None:
            check_real("adjusted", self.adjusted, PROBABILITY)
        check_different(self.a, self.b)
        same = ("low", "high", "unit")
        if any(getattr(self.a.question, key) != getattr(self.b.question, key) for key in same):
            reject("a and b", "be estimates of numbers with the same bounds and unit")

    @property
    def name(self) -> str:
        """Name of the question."""
        return self.a.name

    @property
    def mean(self) -> Difference:
        """The difference of the means."""
        return replace(difference_of(self.a.mean, self.b.mean), adjusted=self.adjusted)

    @property
    def sum(self) -> Difference:
        """The difference of the sums, of the people in the collections."""
        return difference_of(self.a.sum, self.b.sum)

    @property
    def variance(self) -> Difference:
        """The difference of the variances, where both questions asked for them."""
        return difference_of(self.a.variance, self.b.variance)

    @property
    def significant(self) -> bool:
        """True if the means of the populations differ at the level: in a survey, after the correction."""
        if self.adjusted is not None:
            return self.adjusted <= 1 - self.level
        low, high = self.mean.interval(self.level)
        return low > 0 or high < 0

    def differences(self) -> tuple[Difference, ...]:
        """Return all differences."""
        both = self.a.question.variance and self.b.question.variance
        return (self.mean, self.sum, *((self.variance,) if both else ()))

    def columns(self) -> Columns:
        """Return a row for each figure: both values, the difference, its standard error, both intervals, p-value."""
        return difference_columns(self.differences(), self.level)

    def to_arrow(self) -> Any:
        """Return a PyArrow table with a row for each figure; needs the extra ``frames``."""
        return to_arrow(self.columns())

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a row for each figure; needs the extra ``frames``, and pandas."""
        return to_pandas(self.columns())

    def to_polars(self) -> Any:
        """Return a Polars data frame with a row for each figure; needs the extra ``frames``, and Polars."""
        return to_polars(self.columns())

    def plot(self) -> "Chart":
        """Return a chart of both means with their intervals; ``.save(path)`` writes SVG, PNG or PDF."""
        from hubbub.report import means_chart  # noqa: PLC0415 (an upward import: charts are loaded if needed)

        return means_chart([("A", self.a), ("B", self.b)], level=self.level)

    def _repr_html_(self) -> str:
        from hubbub.report import differences_table  # noqa: PLC0415

        return differences_table(self)

    def to_document(self) -> dict[str, Json]:
        """Return the comparison as a JSON object."""
        found: list[Json] = [{"figure": one.name, **one.to_document(self.level)} for one in self.differences()]
        return _document(self.name, "number", self.a.n, self.b.n, self.level, self.a.question.unit, found)

    def __repr__(self) -> str:
        return f"NumberComparison({self.name!r}: {self.mean}, n={self.a.n:,} and {self.b.n:,})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ScaleComparison:
    """The differences of a distribution between two batches: of the shares below every edge, and of quantiles."""

    a: ScaleEstimate
    b: ScaleEstimate
    level: float = LEVEL
    adjusted: float | None = None
    """p-value of the whole distribution after the correction for all questions of a survey; None if compared alone."""

    def __post_init__(self) -> None:
        check_type("a", self.a, ScaleEstimate)
        check_type("b", self.b, ScaleEstimate)
        check_real("level", self.level, OPEN_UNIT)
        if self.adjusted is not None:
            check_real("adjusted", self.adjusted, PROBABILITY)
        check_different(self.a, self.b)
        if (self.a.question.edges, self.a.question.unit) != (self.b.question.edges, self.b.question.unit):
            reject("a and b", "be estimates of scales with the same edges and unit")

    @property
    def name(self) -> str:
        """Name of the question."""
        return self.a.name

    @property
    def difference(self) -> Array:
        """Estimated difference of the shares below each edge, second minus first."""
        return np.asarray(self.b.cdf()[1] - self.a.cdf()[1])

    def band(self, level: float = LEVEL, *, of: Of = "population") -> tuple[Array, Array]:
        """Return intervals of the differences of the shares at all edges, which hold for all at once."""
        level = check_real("level", level, OPEN_UNIT)
        check_choice("of", of, ("collection", "population"))
        count = self.a.question.buckets - 1
        one, two = (part.shares(level, of=of, count=count) for part in (self.a, self.b))
        return recovered(self.a.cdf()[1], self.b.cdf()[1], one, two)

    def quantile(self, p: float) -> Difference:
        """Return the difference of a quantile; its interval holds for this quantile by itself."""
        one, two = self.a.quantile(p), self.b.quantile(p)

        def alone(part: ScaleEstimate, whole: Measure) -> Measure:
            def ends(level: float, of: Of) -> tuple[float, float]:
                return single_quantile(part, p, level, of)

            return replace(whole, ends=ends)

        return difference_of(alone(self.a, one), alone(self.b, two))

    @property
    def median(self) -> Difference:
        """The difference of the medians."""
        return self.quantile(0.5)

    @property
    def p_value(self) -> float:
        """The smallest α whose band of the populations excludes equality at some edge; at least 10⁻⁶.

        In a survey it is adjusted for all questions (:func:`hubbub.compare`).
        """
        return smallest_level(self._excludes) if self.adjusted is None else self.adjusted

    @property
    def significant(self) -> bool:
        """True if the populations differ at some edge at the level: in a survey, after the correction."""
        return self._excludes(self.level) if self.adjusted is None else self.adjusted <= 1 - self.level

    def _excludes(self, level: float) -> bool:
        low, high = self.band(level)
        return bool(np.any(low > 0) or np.any(high < 0))

    @property
    def whole(self) -> Difference:
        """The difference of the shares below the edge at which the distributions differ most clearly.

        Its interval is that of the band, which holds for all edges at once, so that its p-value is that of the whole
        comparison.
        """
        place = self._clearest()
        unit = f" {self.a.question.unit}" if self.a.question.unit else ""
        (edges, share_a, error_a), (_, share_b, error_b) = self.a.cdf(), self.b.cdf()

        def ends(level: float, of: Of) -> tuple[float, float]:
            low, high = self.band(level, of=of)
            return float(low[place]), float(high[place])

        return Difference(
            name=f"whole distribution, below {spell(float(edges[place]))}{unit}",
            value_a=float(share_a[place]),
            value_b=float(share_b[place]),
            stderr=float(np.hypot(error_a[place], error_b[place])),
            unit="share",
            ends=ends,
            adjusted=self.adjusted,
        )

    def _clearest(self) -> int:
        """Return the edge whose interval is farthest from 0 at the smallest α that excludes equality."""
        p = smallest_level(self._excludes)
        if p >= 1:
            return int(np.argmax(np.abs(self.difference)))
        low, high = self.band(1 - p)
        return int(np.argmax(np.maximum(low, -high)))

    def quantiles(self) -> tuple[Difference, ...]:
        """Return the differences of the quantiles that tables and pages show."""
        return tuple(self.quantile(p) for p in QUANTILES)

    def differences(self) -> tuple[Difference, ...]:
        """Return the difference of the whole distribution, which decides on significance, and those of quantiles."""
        return (self.whole, *self.quantiles())

    def columns(self) -> Columns:
        """Return a row for each edge: both shares, their difference, its standard error, both bands."""
        (edges, share_a, error_a), (_, share_b, error_b) = self.a.cdf(), self.b.cdf()
        inner, outer = self.band(self.level, of="collection"), self.band(self.level)
        return {
            "edge": edges,
            "share_a": share_a,
            "share_b": share_b,
            "difference": share_b - share_a,
            "stderr": np.hypot(error_a, error_b),
            "low": inner[0],
            "high": inner[1],
            "population_low": outer[0],
            "population_high": outer[1],
        }

    def to_arrow(self) -> Any:
        """Return a PyArrow table with a row for each edge; needs the extra ``frames``."""
        return to_arrow(self.columns())

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a row for each edge; needs the extra ``frames``, and pandas."""
        return to_pandas(self.columns())

    def to_polars(self) -> Any:
        """Return a Polars data frame with a row for each edge; needs the extra ``frames``, and Polars."""
        return to_polars(self.columns())

    def plot(self) -> "Chart":
        """Return a chart of both distributions with their bands; ``.save(path)`` writes SVG, PNG or PDF."""
        from hubbub.report import scales_chart  # noqa: PLC0415 (an upward import: charts are loaded if needed)

        return scales_chart([("A", self.a), ("B", self.b)], level=self.level)

    def _repr_html_(self) -> str:
        from hubbub.report import differences_table  # noqa: PLC0415

        return differences_table(self)

    def to_document(self) -> dict[str, Json]:
        """Return the comparison as a JSON object."""
        found = _document(
            self.name, "scale", self.a.n, self.b.n, self.level, self.a.question.unit, listed(self.columns())
        )
        whole, *quantiles = [{"figure": one.name, **one.to_document(self.level)} for one in self.differences()]
        return {**found, "p_value": self.p_value, "whole": whole, "quantiles": list[Json](quantiles)}

    def __repr__(self) -> str:
        return f"ScaleComparison({self.name!r}: {self.median}, n={self.a.n:,} and {self.b.n:,})"


def check_different(a: ScaleEstimate | NumberEstimate, b: ScaleEstimate | NumberEstimate) -> None:
    """Raise if both are one estimate, or if one of them is of nobody."""
    if a is b:
        reject("a and b", "be of different people, but they are the same estimate")
    if a.n < 1 or b.n < 1:
        reject("a and b", "be of at least one person each")


def _document(name: str, kind: str, n_a: int, n_b: int, level: float, unit: str, rows: list[Json]) -> dict[str, Json]:
    return {
        "name": name,
        "kind": kind,
        "people_a": n_a,
        "people_b": n_b,
        "level": level,
        "unit": unit,
        "differences": rows,
    }
