"""``compare``: the differences between the populations of two batches of different people.

Intervals of differences are made from those of the two figures: the distances of the bounds to the estimates are added
in squares (Newcombe 1998, method 10; Zou and Donner 2008).
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Json
from hubbub.errors import (
    NON_NEGATIVE,
    OPEN_UNIT,
    PROBABILITY,
    Infeasible,
    check_choice,
    check_items,
    check_real,
    check_type,
    check_whole,
    reject,
)
from hubbub.mechanisms.noise import pooled_noise, predicted_noise
from hubbub.model.plans import MAX_PEOPLE, Plan
from hubbub.model.questions.answers import spell
from hubbub.model.schema import summarize_labels
from hubbub.numeric.comparison import difference_interval, equality_p_values, holm, residue, score_power
from hubbub.numeric.population import CountNoise, check_finite, population_interval
from hubbub.numeric.vectors import check_vector
from hubbub.results.cross import CrossView
from hubbub.results.figures import BOTH, Figure, Interval, Of, check_ends, real
from hubbub.results.frames import LEVEL, Columns, Table, plain
from hubbub.results.labels import LabelView
from hubbub.results.numbers import NumberView
from hubbub.results.pool import label_order
from hubbub.results.result import Result
from hubbub.results.scales import QUANTILES, ScaleView, single_quantile
from hubbub.results.strings import StringView

Array = NDArray[np.float64]
Correction = Literal["none", "holm"]
FORMAT = "hubbub comparison 2"
DIFFERENCES = (
    "value_a", "value_b", "difference", "stderr", "low", "high", "population_low", "population_high", "p_value",
)  # fmt: skip
LEAST_P = 1e-6  # smallest p-value that is told apart
HALVINGS = 14


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
    """Standard error, from the noise alone unless it is the share of a label, whose sampling error is included."""
    unit: str
    ends: Interval
    """(level, of) ↦ the ends of an interval."""
    covers: tuple[Of, ...] = BOTH
    """The groups that intervals cover: a sum has none of the populations, a label none of the people."""
    adjusted: float | None = None
    """p-value after the correction for all that is compared, if this difference decides on a question."""

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_finite("value_a", self.value_a)
        check_finite("value_b", self.value_b)
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_type("unit", self.unit, str)
        check_ends(self.ends, self.covers)
        if self.adjusted is not None:
            check_real("adjusted", self.adjusted, PROBABILITY)

    @property
    def difference(self) -> float:
        """Estimated difference, second minus first."""
        return self.value_b - self.value_a

    def interval(self, level: float = LEVEL, *, of: Of = "population") -> tuple[float, float]:
        """Return the ends of an interval of the difference, of the populations or of the people in the collections."""
        check_choice("of", of, BOTH)
        level = check_real("level", level, OPEN_UNIT)
        if of not in self.covers:
            known = "samples do not tell the {} of a population; use the mean"
            if of == "people":
                known = "the shares of {} are compared between populations only"
            raise Infeasible(known.format(self.name))
        return self.ends(level, of)

    @property
    def p_value(self) -> float:
        """The smallest α whose interval of the populations, or else of the collections, excludes 0; at least 10⁻⁶.

        Of what decides on a question, it is adjusted for all that is compared (:func:`hubbub.compare`).
        """
        if self.adjusted is not None:
            return self.adjusted
        of: Of = "population" if "population" in self.covers else "people"

        def excludes(level: float) -> bool:
            low, high = self.ends(level, of)
            return low > 0 or high < 0

        return smallest_level(excludes)

    def to_document(self, level: float = LEVEL) -> dict[str, Json]:
        """Return the difference with both intervals as a JSON object; null where the population has none."""
        low, high = self.interval(level, of="people") if "people" in self.covers else (None, None)
        first, last = self.interval(level) if "population" in self.covers else (None, None)
        figures = (self.value_a, self.value_b, self.difference, self.stderr, low, high, first, last, self.p_value)
        return dict(zip(DIFFERENCES, figures, strict=True))

    def __float__(self) -> float:
        return self.difference

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name}: difference {self.difference:,.6g} ± {self.stderr:.3g}{unit}"

    def __repr__(self) -> str:
        return f"Difference({self})"


def difference_of(a: Figure, b: Figure) -> Difference:
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
        covers=tuple(of for of in a.covers if of in b.covers),
    )


def difference_rows(differences: Sequence[Difference], level: float) -> Columns:
    """Return a row for each difference in the table of a comparison; NaN where there is no interval."""
    rows = [one.to_document(level) for one in differences]
    return {
        "item": [one.name for one in differences],
        "unit": [one.unit for one in differences],
        **{name: np.array([real(row[name]) for row in rows], np.float64) for name in DIFFERENCES},
    }


def check_different(a: Any, b: Any) -> None:
    """Raise if both are one result, or if one of them is of nobody."""
    for name, part in (("a", a), ("b", b)):
        check_whole(f"the number of people of {name}", part.n, 1)
    if a is b:
        reject("a and b", "be of different people, but they are the same result")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class LabelComparison(Table):
    """The differences between two populations in the share of each label, second minus first.

    ``comparison["red"]`` is the difference of one label, iteration goes through all of them.
    """

    a: LabelView
    b: LabelView
    level: float = LEVEL
    correction: Correction = "holm"
    adjusted: Array | None = None
    """p-values after the correction for all that is compared with these labels; None if they are compared alone."""
    stderr: Array = field(init=False)
    """Standard error of the difference, sampling error included."""
    low: Array = field(init=False)
    high: Array = field(init=False)
    """Ends of the intervals of the differences, each of which holds on its own."""
    p_value: Array = field(init=False)
    """Two-sided p-values of equal shares, adjusted as ``correction`` says: for all labels of the comparison, and with
    other questions for all of them."""

    def __post_init__(self) -> None:
        check_type("a", self.a, LabelView)
        check_type("b", self.b, LabelView)
        check_real("level", self.level, OPEN_UNIT)
        check_choice("correction", self.correction, ("none", "holm"))
        check_different(self.a, self.b)
        x, y = self._unbiased()
        low, high = difference_interval(x, y, self._sizes, self._noises, self.level)
        variance = sum(
            noise.sampled_variance(np.clip(one / n, 0, 1), n) / n**2
            for one, n, noise in zip((x, y), self._sizes, self._noises, strict=True)
        )
        if self.adjusted is not None:
            check_vector("adjusted", self.adjusted, np.float64, len(self.labels))
        p_value = self._p_values(x, y) if self.adjusted is None else self.adjusted
        found = {"stderr": np.sqrt(variance), "low": low, "high": high, "p_value": p_value}
        for name, array in found.items():
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def _p_values(self, x: Array, y: Array) -> Array:
        together = pooled_noise(list(zip(self._sizes, self._noises, strict=True)))
        pooled = population_interval(x + y, sum(self._sizes), together, residue(x.size))
        found = equality_p_values(x, y, self._sizes, self._noises, pooled)
        return holm(found) if self.correction == "holm" else found

    def _unbiased(self) -> tuple[Array, Array]:
        """Return the unbiased counts of both, in the order of the labels of the first."""
        return self.a.unbiased, self.b.unbiased[label_order(self.a, self.b, "a and b")]

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.a.n, self.b.n

    @property
    def _noises(self) -> tuple[CountNoise, CountNoise]:
        return self.a.noise, self.b.noise

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of both."""
        return self.a.labels

    @property
    def share_a(self) -> Array:
        """Estimated shares of the first."""
        return np.asarray(self._unbiased()[0] / self.a.n)

    @property
    def share_b(self) -> Array:
        """Estimated shares of the second."""
        return np.asarray(self._unbiased()[1] / self.b.n)

    @property
    def difference(self) -> Array:
        """Estimated difference of the shares, second minus first; unbiased."""
        return np.asarray(self.share_b - self.share_a)

    @property
    def significant(self) -> NDArray[np.bool_]:
        """True where the p-value is at most 1 − level."""
        return np.asarray(self.p_value <= 1 - self.level)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.labels

    def __iter__(self) -> Iterator[Difference]:
        return (self._row(place) for place in range(len(self.labels)))

    def __getitem__(self, label: str) -> Difference:
        if not isinstance(label, str) or label not in self.labels:
            reject("label", f"be a label of the comparison ({summarize_labels(self.labels)})")
        return self._row(self.labels.index(label))

    def _row(self, place: int) -> Difference:
        chosen = slice(place, place + 1)
        x, y = (one[chosen] for one in self._unbiased())

        def ends(level: float, of: Of) -> tuple[float, float]:
            low, high = difference_interval(x, y, self._sizes, self._noises, level)
            return float(low[0]), float(high[0])

        return Difference(
            name=self.labels[place],
            value_a=float(self.share_a[place]),
            value_b=float(self.share_b[place]),
            stderr=float(self.stderr[place]),
            unit="share",
            ends=ends,
            covers=("population",),
            adjusted=float(self.p_value[place]),
        )

    def differences(self) -> tuple[Difference, ...]:
        """Return the differences of all labels."""
        return tuple(self)

    def columns(self, level: float | None = None) -> Columns:
        """Return the rows of the comparison as columns."""
        shown = self if level is None else replace(self, level=level)
        names = ("share_a", "share_b", "difference", "stderr", "low", "high", "p_value", "significant")
        return {"label": list(shown.labels), **{name: getattr(shown, name) for name in names}}

    def __repr__(self) -> str:
        found = int(self.significant.sum())
        return f"LabelComparison({len(self.labels)} labels, n={self.a.n:,} and {self.b.n:,}, {found} significant)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NumberComparison(Table):
    """The differences of mean, sum and variance of a number between two batches, second minus first."""

    a: NumberView
    b: NumberView
    level: float = LEVEL
    adjusted: float | None = None
    """p-value of the mean after the correction for all questions of a survey; None if compared alone."""

    def __post_init__(self) -> None:
        check_type("a", self.a, NumberView)
        check_type("b", self.b, NumberView)
        check_real("level", self.level, OPEN_UNIT)
        if self.adjusted is not None:
            check_real("adjusted", self.adjusted, PROBABILITY)
        check_different(self.a, self.b)
        same = ("low", "high", "unit")
        if any(getattr(self.a.question, key) != getattr(self.b.question, key) for key in same):
            reject("a and b", "be results of numbers with the same bounds and unit")

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

    @property
    def p_value(self) -> float:
        """The p-value of equal means, which decides on the question."""
        return self.mean.p_value

    def columns(self, level: float | None = None) -> Columns:
        """Return a row for each figure: both values, the difference, its standard error, both intervals, p-value."""
        found = difference_rows(self.differences(), self.level if level is None else level)
        return {"figure": found["item"], **{name: found[name] for name in DIFFERENCES}}

    def __repr__(self) -> str:
        return f"NumberComparison({self.name!r}: {self.mean}, n={self.a.n:,} and {self.b.n:,})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ScaleComparison(Table):
    """The differences of a distribution between two batches: of the shares below every edge, and of quantiles."""

    a: ScaleView
    b: ScaleView
    level: float = LEVEL
    adjusted: float | None = None
    """p-value of the whole distribution after the correction for all questions of a survey; None if compared alone."""

    def __post_init__(self) -> None:
        check_type("a", self.a, ScaleView)
        check_type("b", self.b, ScaleView)
        check_real("level", self.level, OPEN_UNIT)
        if self.adjusted is not None:
            check_real("adjusted", self.adjusted, PROBABILITY)
        check_different(self.a, self.b)
        if (self.a.question.edges, self.a.question.unit) != (self.b.question.edges, self.b.question.unit):
            reject("a and b", "be results of scales with the same edges and unit")

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
        check_choice("of", of, BOTH)
        count = self.a.question.buckets - 1
        one, two = (part.shares(level, of=of, count=count) for part in (self.a, self.b))
        return recovered(self.a.cdf()[1], self.b.cdf()[1], one, two)

    def quantile(self, p: float) -> Difference:
        """Return the difference of a quantile; its interval holds for this quantile by itself."""
        one, two = self.a.quantile(p), self.b.quantile(p)

        def alone(part: ScaleView, whole: Figure) -> Figure:
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

    def columns(self, level: float | None = None) -> Columns:
        """Return a row for each edge: both shares, their difference, its standard error, both bands."""
        (edges, share_a, error_a), (_, share_b, error_b) = self.a.cdf(), self.b.cdf()
        level = self.level if level is None else level
        inner, outer = self.band(level, of="people"), self.band(level)
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

    def __repr__(self) -> str:
        return f"ScaleComparison({self.name!r}: {self.median}, n={self.a.n:,} and {self.b.n:,})"


QuestionComparison = LabelComparison | ScaleComparison | NumberComparison


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Comparison(Table):
    """The differences between two results: ``comparison["load time"]`` is one question.

    Labels, a choice, a flag or a cross-table have a :class:`LabelComparison` of labels or cells, a scale a
    :class:`ScaleComparison`, a number a :class:`NumberComparison`. Where there is only one question it can be left out:
    ``comparison["red"]`` is the difference of a label. Iteration goes through the names.
    """

    questions: tuple[tuple[str, QuestionComparison], ...]
    """The names of the questions with their comparisons."""
    n_a: int
    n_b: int
    level: float
    p_value: Array
    """p-value of each question: of some difference in a label, at an edge of a distribution, or of the mean; adjusted
    for the labels of the question, then for all questions (Holm 1979 twice)."""
    correction: Correction = "holm"

    def __post_init__(self) -> None:
        for each in check_items("questions", self.questions, "be pairs of questions and their comparisons"):
            if not isinstance(each, tuple) or len(each) != 2 or not isinstance(each[0], str):
                reject("questions", "be pairs of questions and their comparisons")
            if not isinstance(each[1], QuestionComparison):
                reject("questions", "be the comparisons of questions")
        check_whole("n_a", self.n_a, 1)
        check_whole("n_b", self.n_b, 1)
        check_real("level", self.level, OPEN_UNIT)
        check_vector("p_value", self.p_value, np.float64)
        if len(self.p_value) != len(self.questions):
            reject("questions and p_value", "have the same length")
        check_choice("correction", self.correction, ("none", "holm"))

    @property
    def question(self) -> Any:
        """The comparison of the only question."""
        if len(self.questions) != 1:
            reject("the comparison", f"have one question for this; name one of {len(self.questions):,}")
        return self.questions[0][1]

    def __len__(self) -> int:
        return len(self.questions)

    def __contains__(self, name: object) -> bool:
        return any(name == one for one, _ in self.questions)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.questions)

    def __getitem__(self, name: str) -> Any:
        for one, found in self.questions:
            if isinstance(name, str) and one == name:
                return found
        only = self.questions[0][1] if len(self.questions) == 1 else None
        if isinstance(only, LabelComparison):
            return only[name]
        more = ", …" if len(self) > 3 else ""
        return reject("name", f"be the name of a question ({', '.join(map(repr, list(self)[:3]))}{more})")

    @property
    def significant(self) -> tuple[str, ...]:
        """Questions in which the populations differ; if none does, none is named with probability ``level``."""
        return tuple(name for name, p in zip(self, self.p_value, strict=True) if p <= 1 - self.level)

    def columns(self, level: float | None = None) -> Columns:
        """Return a row for each figure of every question; counts are compared by their shares of the people.

        What a figure does not have is null: counts have intervals of the populations only.
        """
        level = self.level if level is None else level
        parts = [(name, difference_rows(one.differences(), level)) for name, one in self.questions]
        return {
            "question": [name or None for name, part in parts for _ in part["item"]],
            **{key: [one for _, part in parts for one in part[key]] for key in ("item", "unit")},
            **{key: np.concatenate([np.asarray(part[key], np.float64) for _, part in parts]) for key in DIFFERENCES},
        }

    def about(self) -> dict[str, Json]:
        """Return what holds for all rows of the table."""
        return {
            "format": FORMAT,
            "people_a": self.n_a,
            "people_b": self.n_b,
            "level": self.level,
            "correction": self.correction,
        }

    def to_document(self) -> dict[str, Json]:
        """Return the comparison as a JSON object; of scales, ``distributions`` has the differences at every edge."""
        return {
            **self.about(),
            "questions": [
                {"name": name or None, "p_value": p, "significant": p <= 1 - self.level}
                for name, p in zip(self, self.p_value.tolist(), strict=True)
            ],
            "table": {name: plain(column) for name, column in self.columns().items()},
            "distributions": {
                name: {key: plain(column) for key, column in one.columns().items()}
                for name, one in self.questions
                if isinstance(one, ScaleComparison)
            },
        }

    def to_json(self) -> str:
        """Return the comparison as JSON."""
        return json.dumps(self.to_document(), ensure_ascii=False, indent=1)

    def __repr__(self) -> str:
        if len(self.questions) == 1:
            return f"Comparison({self.questions[0][1]!r})"
        found = len(self.significant)
        return f"Comparison({len(self)} questions, n={self.n_a:,} and {self.n_b:,}, {found} significant)"


COMPARED = (Result, LabelView, ScaleView, NumberView, CrossView)


@overload
def compare(a: Result, b: Result, *, level: float = LEVEL, correction: Correction = "holm") -> Comparison: ...
@overload
def compare(
    a: LabelView | CrossView, b: LabelView | CrossView, *, level: float = LEVEL, correction: Correction = "holm"
) -> LabelComparison: ...
@overload
def compare(
    a: ScaleView, b: ScaleView, *, level: float = LEVEL, correction: Correction = "holm"
) -> ScaleComparison: ...
@overload
def compare(
    a: NumberView, b: NumberView, *, level: float = LEVEL, correction: Correction = "holm"
) -> NumberComparison: ...
def compare(a: Any, b: Any, *, level: float = LEVEL, correction: Correction = "holm") -> Any:
    """Compare two batches of different people: the differences between the two populations.

    Of the shares of each label; of mean, sum and variance of a number; of the distribution and the quantiles of a
    scale; of all questions of a result. Both batches must be simple random samples of their populations, as the arms of
    an experiment are. p-values of labels are those of the score test, and exact or too large where counts are small
    (:mod:`hubbub.numeric.comparison`). They are adjusted for everything that is compared (Holm 1979): if the
    populations do not differ, anything at all is called significant with probability at most 1 − level. A result gives
    the same weight to each question, and within it to each label; a number is decided by its mean, a scale by its whole
    distribution. With ``correction="none"`` the p-value of each label and question holds on its own, and with many of
    them some are small by chance; the questions that :attr:`Comparison.significant` names are
    corrected all the same. Intervals, and the p-values of sums, variances and quantiles, hold one by one.
    """
    kind = next((one for one in COMPARED if isinstance(a, one)), Result)
    check_type("a", a, kind)
    check_type("b", b, kind)
    level = check_real("level", level, OPEN_UNIT)
    check_choice("correction", correction, ("none", "holm"))
    check_different(a, b)
    return _compared_results(a, b, level, correction) if kind is Result else _compared(a, b, level, correction)


def _compared(a: Any, b: Any, level: float, correction: Correction) -> QuestionComparison:
    """Return the comparison of two views of one question."""
    if isinstance(a, CrossView):
        if (a.names, a.axes) != (b.names, b.axes):
            reject("a and b", "be cross-tables of the same questions and labels")
        a, b = a.cells, b.cells
    if isinstance(a, LabelView):
        return LabelComparison(a=a, b=b, level=level, correction=correction)
    if isinstance(a, StringView):
        reject("a and b", "not be of strings: how many people hold one that is not shown is not known")
    return (
        ScaleComparison(a=a, b=b, level=level) if isinstance(a, ScaleView) else NumberComparison(a=a, b=b, level=level)
    )


def _compared_results(a: Result, b: Result, level: float, correction: Correction) -> Comparison:
    if list(a) != list(b) or any(type(one) is not type(b[name]) for name, one in a.views):
        reject("a and b", "be results of the same questions")
    found = [_compared(one, b[name], level, "none") for name, one in a.views]
    each = [np.atleast_1d(one.p_value) for one in found]
    p_value = holm(np.array([min(1.0, one.size * float(one.min())) for one in each]))
    p_value.setflags(write=False)
    if correction == "holm":
        weights = np.concatenate([np.full(one.size, 1 / one.size) for one in each]) if len(each) > 1 else None
        adjusted = np.split(holm(np.concatenate(each), weights), np.cumsum([one.size for one in each])[:-1])
        found = [_adjusted(one, p, whole) for one, p, whole in zip(found, adjusted, p_value.tolist(), strict=True)]
    return Comparison(
        questions=tuple(zip(a, found, strict=True)),
        n_a=a.n,
        n_b=b.n,
        level=level,
        p_value=p_value,
        correction=correction,
    )


def _adjusted(one: QuestionComparison, p_value: Array, whole: float) -> QuestionComparison:
    """Return a comparison with the adjusted p-values of its labels, or with that of the whole question."""
    if not isinstance(one, LabelComparison):
        return replace(one, adjusted=whole)
    return replace(one, adjusted=p_value, correction="holm")


def compare_power(
    plan: Plan,
    share_a: float,
    share_b: float,
    *,
    n_a: int | None = None,
    n_b: int | None = None,
    significance: float = 0.05,
) -> float:
    """Return the probability that :func:`compare` finds a difference between two shares of one label.

    Both batches have the minimum size of the plan unless ``n_a`` and ``n_b`` say otherwise. By the normal
    approximation, which is good if about 20 people or more of each batch have the label; the test of rarer labels is
    somewhat more cautious than this. ``significance`` is that of one label by itself: 0.05/d is a cautious one for
    d labels that are compared together, as :func:`compare` does, and 0.05/(d·J) for J questions.
    """
    if check_type("plan", plan, Plan).schema.named or plan.schema.text is not None:
        reject("the plan", f"be one of labels without named questions, got {plan.schema}")
    shares = check_real("share_a", share_a, PROBABILITY), check_real("share_b", share_b, PROBABILITY)
    significance = check_real("significance", significance, OPEN_UNIT)
    sizes = (
        check_whole("n_a", plan.n if n_a is None else n_a, 1, MAX_PEOPLE),
        check_whole("n_b", plan.n if n_b is None else n_b, 1, MAX_PEOPLE),
    )
    one, two = (predicted_noise(plan.schema, plan.protocol, n) for n in sizes)
    return score_power(shares, sizes, (one, two), significance)
