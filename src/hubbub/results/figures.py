"""``Figure``: one estimated figure, such as the number of people with a label, a mean or a median, with intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hubbub.documents import Json
from hubbub.errors import (
    NON_NEGATIVE,
    OPEN_UNIT,
    Infeasible,
    check_choice,
    check_real,
    check_type,
    check_whole,
    kind_of,
    reject,
)
from hubbub.numeric.population import CountNoise, check_finite, population_interval
from hubbub.results.frames import LEVEL, Columns

PEOPLE = "people"
"""The unit of counts."""
Of = Literal["people", "population"]
BOTH: tuple[Of, ...] = ("people", "population")
Interval = Callable[[float, Of], tuple[float, float]]
FIGURES = ("value", "stderr", "low", "high", "population_low", "population_high")


def check_ends(ends: object, covers: object) -> None:
    """Raise unless there is a function for the ends of intervals, and the intervals that it knows."""
    if not callable(ends):
        reject("ends", f"be a function of a level and of whom it covers, not {kind_of(ends)}")
    if not isinstance(covers, tuple) or not covers or not set(covers) <= set(BOTH):
        reject("covers", 'be a tuple of "people", "population" or both')


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Figure:
    """An estimated figure with its standard error, from the noise and the rounding of answers, and its intervals."""

    name: str
    """The label, the string, or what is estimated: mean, median."""
    value: float
    stderr: float
    unit: str
    ends: Interval
    """(level, of) ↦ the ends of an interval."""
    covers: tuple[Of, ...] = BOTH
    """The groups that intervals cover: a sum and the count of a string have none of the population."""
    n: int | None = None
    """People in the collection, of whom a number of people is a share."""
    noise: CountNoise | None = None
    """The exact error of a count, where it is known."""
    detectable: bool | None = None
    """True if a count is distinguishable from 0, with all labels of its question taken into account."""
    sure: bool | None = None
    """False if the interval of a string reaches down to numbers of people whose string is hardly ever shown."""
    cut: bool = False
    """True if only the beginning of a string is kept."""

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_finite("value", self.value)
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_type("unit", self.unit, str)
        check_ends(self.ends, self.covers)
        if self.n is not None:
            check_whole("n", self.n)
        if self.noise is not None:
            check_type("noise", self.noise, CountNoise)
        for name in ("detectable", "sure"):
            if getattr(self, name) is not None:
                check_type(name, getattr(self, name), bool)
        check_type("cut", self.cut, bool)

    @property
    def share(self) -> float:
        """The number of people as a share of those in the collection; NaN for other figures."""
        return self.value / max(self.n, 1) if self.n is not None and self.unit == PEOPLE else math.nan

    @property
    def note(self) -> str | None:
        """A remark for readers of the figure; None in most cases."""
        if self.detectable is False:
            return "not distinguishable from 0"
        found = [word for word, holds in (("uncertain", self.sure is False), ("cut", self.cut)) if holds]
        return ", ".join(found) or None

    def interval(self, level: float = LEVEL, *, of: Of = "people") -> tuple[float, float]:
        """Return the ends of an interval that covers the figure with probability ``level``.

        Of the ``"people"`` in the collection, or of the ``"population"`` that they are a simple random sample of.
        """
        check_choice("of", of, BOTH)
        level = check_real("level", level, OPEN_UNIT)
        if of not in self.covers:
            instead = "; use the mean" if self.name == "sum" else ""
            what = "sum" if self.name == "sum" else "number of people who hold a string"
            raise Infeasible(f"a sample does not tell the {what} of a population{instead}")
        return self.ends(level, of)

    def to_document(self, level: float = LEVEL) -> dict[str, Json]:
        """Return the figure with both intervals as a JSON object; null where the population has none."""
        low, high = self.interval(level)
        first, last = self.interval(level, of="population") if "population" in self.covers else (None, None)
        return dict(zip(FIGURES, (self.value, self.stderr, low, high, first, last), strict=True))

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name} {self.value:,.6g} ± {self.stderr:.3g}{unit}"

    def __repr__(self) -> str:
        return f"Figure({self})"


def answered_figure(value: float, n: int, noise: CountNoise, reach: Callable[[float], float]) -> Figure:
    """Return the number of people who answered, as a figure; intervals of the population are those of n of its people.

    ``reach`` is the distance that the error exceeds with a given probability.
    """

    def ends(level: float, of: Of) -> tuple[float, float]:
        if of == "population":
            low, high = population_interval(np.array([value]), n, noise, 1 - level)
            return n * float(low[0]), n * float(high[0])
        distance = reach(1 - level) + 0.5  # counts are whole numbers
        return value - distance, value + distance

    return Figure(
        name="answered", value=value, stderr=math.sqrt(noise.variance), unit=PEOPLE, ends=ends, n=n, noise=noise
    )


def figure_rows(figures: Sequence[Figure], level: float) -> Columns:
    """Return a row for each figure in the table of a result, NaN where the population has no interval."""
    rows = [one.to_document(level) for one in figures]
    return {
        "item": [one.name for one in figures],
        "unit": [one.unit for one in figures],
        **{name: np.array([real(row[name]) for row in rows], np.float64) for name in FIGURES},
        "note": [one.note for one in figures],
    }


def real(value: Json) -> float:
    """Return a number of a document, NaN for null."""
    return float(value) if isinstance(value, int | float) else math.nan
