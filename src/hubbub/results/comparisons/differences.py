"""``Difference``: the difference of one figure between two batches of different people."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hubbub.documents import Json
from hubbub.errors import (
    NON_NEGATIVE,
    OPEN_UNIT,
    PROBABILITY,
    Infeasible,
    check_choice,
    check_real,
    check_type,
    kind_of,
    reject,
)
from hubbub.numeric.population import check_finite
from hubbub.results.comparisons.intervals import recovered, smallest_level
from hubbub.results.frames import Columns
from hubbub.results.measures import LEVEL, Measure, Of

Ends = Callable[[float, Of], tuple[float, float]]
FIGURES = ("value_a", "value_b", "difference", "stderr", "low", "high", "population_low", "population_high", "p_value")


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
    adjusted: float | None = None
    """p-value after the correction for all questions of a survey, if this difference decides on one of them."""

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_finite("value_a", self.value_a)
        check_finite("value_b", self.value_b)
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_type("unit", self.unit, str)
        if not callable(self.ends):
            reject("ends", f"be a function of a level and of whom it covers, not {kind_of(self.ends)}")
        check_type("sampled", self.sampled, bool)
        if self.adjusted is not None:
            check_real("adjusted", self.adjusted, PROBABILITY)

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
        """The smallest α whose interval of the populations, or else of the collections, excludes 0; at least 10⁻⁶.

        Of what decides on a question of a survey, it is adjusted for all questions (:func:`hubbub.compare`).
        """
        if self.adjusted is not None:
            return self.adjusted
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
