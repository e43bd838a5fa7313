"""``Measure``: one estimated figure of a question, such as a mean or a median, with its intervals."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from hubbub.documents import Json
from hubbub.errors import NON_NEGATIVE, OPEN_UNIT, Infeasible, check_choice, check_real, check_type, kind_of, reject
from hubbub.numeric.population import CountNoise, check_finite, population_interval
from hubbub.results.frames import Columns

LEVEL = 0.95
Of = Literal["collection", "population"]
Interval = Callable[[float, Of], tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Measure:
    """An estimated figure with its standard error, from the noise and the rounding of answers, and its intervals."""

    name: str
    value: float
    stderr: float
    unit: str
    ends: Interval
    """(level, of) ↦ the ends of an interval."""
    sampled: bool = field(default=True)
    """True if there is an interval of the population: a sum has none."""

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_finite("value", self.value)
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_type("unit", self.unit, str)
        if not callable(self.ends):
            reject("ends", f"be a function of a level and of whom it covers, not {kind_of(self.ends)}")
        check_type("sampled", self.sampled, bool)

    def interval(self, level: float = LEVEL, *, of: Of = "collection") -> tuple[float, float]:
        """Return the ends of an interval that covers the figure with probability ``level``.

        Of the people in the ``"collection"``, or of the ``"population"`` that they are a simple random sample of.
        """
        check_choice("of", of, ("collection", "population"))
        level = check_real("level", level, OPEN_UNIT)
        if of == "population" and not self.sampled:
            raise Infeasible(f"a sample does not tell the {self.name} of a population; use the mean")
        return self.ends(level, of)

    def to_document(self, level: float = LEVEL) -> dict[str, Json]:
        """Return the figure with both intervals as a JSON object; null where the population has none."""
        low, high = self.interval(level)
        first, last = self.interval(level, of="population") if self.sampled else (None, None)
        return {
            "value": self.value,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            "population_low": first,
            "population_high": last,
        }

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name} {self.value:,.6g} ± {self.stderr:.3g}{unit}"

    def __repr__(self) -> str:
        return f"Measure({self})"


def answered_measure(value: float, n: int, noise: CountNoise, reach: Callable[[float], float]) -> Measure:
    """Return the number of people who answered, as a figure; intervals of the population are those of n of its people.

    ``reach`` is the distance that the error exceeds with a given probability.
    """

    def ends(level: float, of: Of) -> tuple[float, float]:
        if of == "population":
            low, high = population_interval(np.array([value]), n, noise, 1 - level)
            return n * float(low[0]), n * float(high[0])
        distance = reach(1 - level) + 0.5  # counts are whole numbers
        return value - distance, value + distance

    return Measure(name="answered", value=value, stderr=math.sqrt(noise.variance), unit="people", ends=ends)


def listed(columns: Columns) -> list[Json]:
    """Return columns as a list of JSON objects, one for each row.

    >>> listed({"label": ["a", "b"]})
    [{'label': 'a'}, {'label': 'b'}]
    """
    plain = {name: column if isinstance(column, list) else column.tolist() for name, column in columns.items()}
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
