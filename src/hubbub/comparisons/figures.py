"""Comparisons of two batches of different people: means, sums, variances, distributions, whole surveys.

Intervals of differences are made from those of the two figures: the distances of the bounds to the estimates are added
in squares (Newcombe 1998, method 10; Zou and Donner 2008).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hubbub.canonical import Json
from hubbub.errors import NON_NEGATIVE, OPEN_UNIT, Infeasible, check_choice, check_real, check_type, kind_of, reject
from hubbub.frames import Columns, to_arrow, to_pandas, to_polars
from hubbub.numeric.population import check_finite
from hubbub.surveys.measures import LEVEL, Measure, Of, listed
from hubbub.surveys.numbers import NumberEstimate
from hubbub.surveys.scales import QUANTILES, ScaleEstimate, single_quantile

if TYPE_CHECKING:
    from hubbub.pages import Chart

Array = NDArray[np.float64]
Ends = Callable[[float, Of], tuple[float, float]]
LEAST_P = 1e-6  # smallest p-value that is told apart
HALVINGS = 14
FIGURES = ("value_a", "value_b", "difference", "stderr", "low", "high", "population_low", "population_high", "p_value")


def recovered(a: Array, b: Array, ends_a: tuple[Array, Array], ends_b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the interval of b − a from those of a and b.

    >>> one, two = np.array([1.0]), np.array([5.0])
    >>> low, high = recovered(one, two, (one - 3, one + 3), (two - 4, two + 4))
    >>> low.tolist(), high.tolist()
    ([-1.0], [9.0])
    """
    first, last = np.clip(a, *ends_a), np.clip(b, *ends_b)
    low = last - first - np.hypot(last - ends_b[0], ends_a[1] - first)
    high = last - first + np.hypot(ends_b[1] - last, first - ends_a[0])
    return np.asarray(low), np.asarray(high)


def smallest_level(excludes: Callable[[float], bool]) -> float:
    """Return the p-value: the smallest α for which the interval of level 1 − α excludes equality, rounded upwards.

    >>> abs(smallest_level(lambda level: level < 0.97) - 0.03) < 1e-4
    True
    """
    low, high = math.log(LEAST_P), 0.0
    if excludes(1 - LEAST_P):
        return LEAST_P
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if excludes(1 - math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Difference:
    """The difference of one figure between two batches, second minus first."""

    name: str
    value_a: float
    value_b: float
    stderr: float
    """Standard error from the noise; sampling error is in the intervals of the population only."""
    unit: str
    ends: Ends
    """(level, of) ↦ the ends of an interval."""
    sampled: bool = True
    """True if there is an interval of the populations: a sum has none."""

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_finite("value_a", self.value_a)
        check_finite("value_b", self.value_b)
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_type("unit", self.unit, str)
        if not callable(self.ends):
            reject("ends", f"be a function of a level and of whom it covers, not {kind_of(self.ends)}")
        check_type("sampled", self.sampled, bool)

    @property
    def difference(self) -> float:
        """Estimated difference, second minus first."""
        return self.value_b - self.value_a

    def interval(self, level: float = LEVEL, *, of: Of = "population") -> tuple[float, float]:
        """Return the ends of an interval of the difference, of the populations or of the people in the collections."""
        check_choice("of", of, ("collection", "population"))
        level = check_real("level", level, OPEN_UNIT)
        if of == "population" and not self.sampled:
            raise Infeasible(f"samples do not tell the {self.name} of a population; use the mean")
        return self.ends(level, of)

    @property
    def p_value(self) -> float:
        """The smallest α whose interval of the populations, or else of the collections, excludes 0; at least 10⁻⁶."""
        of: Of = "population" if self.sampled else "collection"

        def excludes(level: float) -> bool:
            low, high = self.ends(level, of)
            return low > 0 or high < 0

        return smallest_level(excludes)

    def to_document(self, level: float = LEVEL) -> dict[str, Json]:
        """Return the difference with both intervals as a JSON object; null where the population has none."""
        low, high = self.interval(level, of="collection")
        first, last = self.interval(level) if self.sampled else (None, None)
        figures = (self.value_a, self.value_b, self.difference, self.stderr, low, high, first, last, self.p_value)
        return dict(zip(FIGURES, figures, strict=True))

    def __float__(self) -> float:
        return self.difference

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name}: difference {self.difference:,.6g} ± {self.stderr:.3g}{unit}"

    def __repr__(self) -> str:
        return f"Difference({self})"


def difference_of(a: Measure, b: Measure) -> Difference:
    """Return the difference of two figures of different people."""

    def ends(level: float, of: Of) -> tuple[float, float]:
        each = [tuple(np.array([end]) for end in one.interval(level, of=of)) for one in (a, b)]
        low, high = recovered(
            np.array([a.value]), np.array([b.value]), (each[0][0], each[0][1]), (each[1][0], each[1][1])
        )
        return float(low[0]), float(high[0])

    return Difference(
        name=a.name,
        value_a=a.value,
        value_b=b.value,
        stderr=math.hypot(a.stderr, b.stderr),
        unit=a.unit,
        ends=ends,
        sampled=a.sampled and b.sampled,
    )


def difference_columns(differences: tuple[Difference, ...], level: float) -> Columns:
    """Return a row for each difference; NaN where the population has no interval."""
    rows = [one.to_document(level) for one in differences]
    return {
        "figure": [one.name for one in differences],
        **{name: np.array([_real(row[name]) for row in rows], np.float64) for name in FIGURES},
    }


def _real(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NumberComparison:
    """The differences of mean, sum and variance of a number between two batches, second minus first."""

    a: NumberEstimate
    b: NumberEstimate
    level: float = LEVEL

    def __post_init__(self) -> None:
        check_type("a", self.a, NumberEstimate)
        check_type("b", self.b, NumberEstimate)
        check_real("level", self.level, OPEN_UNIT)
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
        return difference_of(self.a.mean, self.b.mean)

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
        """True if the interval of the difference of the means of the populations excludes 0."""
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
        from hubbub.pages import means_chart  # noqa: PLC0415 (an upward import: charts are loaded if needed)

        return means_chart([("A", self.a), ("B", self.b)], level=self.level)

    def _repr_html_(self) -> str:
        from hubbub.pages import differences_table  # noqa: PLC0415

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

    def __post_init__(self) -> None:
        check_type("a", self.a, ScaleEstimate)
        check_type("b", self.b, ScaleEstimate)
        check_real("level", self.level, OPEN_UNIT)
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
        """The smallest α whose band of the populations excludes equality at some edge; at least 10⁻⁶."""
        return smallest_level(self._excludes)

    @property
    def significant(self) -> bool:
        """True if the band of the populations excludes equality at some edge."""
        return self._excludes(self.level)

    def _excludes(self, level: float) -> bool:
        low, high = self.band(level)
        return bool(np.any(low > 0) or np.any(high < 0))

    def differences(self) -> tuple[Difference, ...]:
        """Return the differences of the quantiles that tables and pages show."""
        return tuple(self.quantile(p) for p in QUANTILES)

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
        from hubbub.pages import scales_chart  # noqa: PLC0415 (an upward import: charts are loaded if needed)

        return scales_chart([("A", self.a), ("B", self.b)], level=self.level)

    def _repr_html_(self) -> str:
        from hubbub.pages import differences_table  # noqa: PLC0415

        return differences_table(self)

    def to_document(self) -> dict[str, Json]:
        """Return the comparison as a JSON object."""
        found = _document(
            self.name, "scale", self.a.n, self.b.n, self.level, self.a.question.unit, listed(self.columns())
        )
        quantiles: list[Json] = [{"figure": one.name, **one.to_document(self.level)} for one in self.differences()]
        return {**found, "p_value": self.p_value, "quantiles": quantiles}

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
