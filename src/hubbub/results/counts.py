"""Estimated counts with error bars."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hubbub.documents import Fields, Json, legal, parse
from hubbub.errors import (
    NON_NEGATIVE,
    OPEN_UNIT,
    WireError,
    check_choice,
    check_real,
    check_type,
    check_whole,
    kind_of,
    reject,
)
from hubbub.mechanisms.noise import noise_document, noise_from_document
from hubbub.model.privacy import Guarantee
from hubbub.model.schema import check_label_names, summarize_labels
from hubbub.numeric.estimation import nearest_counts, shrunk_counts
from hubbub.numeric.intervals import count_interval, critical_count
from hubbub.numeric.population import CountNoise, check_finite, population_interval
from hubbub.numeric.vectors import check_vector
from hubbub.results.frames import Columns, to_arrow, to_lines, to_pandas, to_polars

if TYPE_CHECKING:
    from hubbub.report import Chart

Array = NDArray[np.float64]
SHOWN = 10
"""Labels that a note names."""
LEVEL = 0.95
"""Confidence level of ``detectable`` and of the detection limit."""
FORMAT = "hubbub estimate 1"
UNBIASED = "unbiased"
Of = Literal["collection", "population"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LabelEstimate:
    """The estimated number of people with one label."""

    label: str
    value: float
    stderr: float
    detectable: bool
    """True if the count is distinguishable from 0, with all labels of the estimate taken into account."""
    estimate: "Estimate" = field(repr=False)
    """The estimate of this label alone."""

    def __post_init__(self) -> None:
        check_type("label", self.label, str)
        check_finite("value", self.value)
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_type("detectable", self.detectable, bool)
        check_type("estimate", self.estimate, Estimate)

    def interval(self, level: float = LEVEL, *, of: Of = "collection") -> tuple[float, float]:
        """Return the ends of an interval that covers the count with probability ``level``; see Estimate.interval."""
        low, high = self.estimate.interval(level, of=of)
        return float(low[0]), float(high[0])

    def population(self, level: float = LEVEL) -> tuple[float, float]:
        """Return an interval of the share of the population that has the label; see Estimate.population."""
        low, high = self.estimate.population(level)
        return float(low[0]), float(high[0])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Estimate:
    """Estimated number of people with each label: unbiased values, standard errors, intervals and detection limits.

    ``estimate["red"]`` is one label, iteration goes through all of them.
    """

    labels: tuple[str, ...]
    values: Array
    stderr: Array
    n: int
    one_choice: bool
    """True if every person has exactly one label, so that the counts add up to n."""
    unbiased: Array
    """Values before :meth:`consistent` or :meth:`shrunk`, around which intervals are built."""
    noise: CountNoise
    """The error of a value, from which intervals are computed."""
    remark: str = UNBIASED
    """A phrase about the values, which starts with the word "unbiased" unless they were adjusted."""
    plan: str | None = None
    """Id of the plan, or None for batches of several plans."""
    achieved: Guarantee | Callable[[], Guarantee | None] | None = field(default=None)
    """The guarantee of the people that were counted, or a function that computes it; see :attr:`guarantee`."""

    def __post_init__(self) -> None:
        check_label_names("labels", self.labels)
        for name in ("values", "stderr", "unbiased"):
            check_vector(name, getattr(self, name), np.float64, len(self.labels))
        check_whole("n", self.n)
        check_type("one_choice", self.one_choice, bool)
        check_type("noise", self.noise, CountNoise)
        check_type("remark", self.remark, str)
        if self.plan is not None:
            check_type("plan", self.plan, str)
        if self.achieved is not None and not callable(self.achieved):
            check_type("achieved", self.achieved, Guarantee)

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the people that were counted; it is computed on first use, which may take seconds."""
        found = self.achieved
        if callable(found):
            found = found()
            object.__setattr__(self, "achieved", found)
        return found

    @property
    def adjusted(self) -> bool:
        """True after :meth:`consistent` or :meth:`shrunk`, even if they changed no value."""
        return not self.remark.startswith(UNBIASED)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.labels

    def __iter__(self) -> Iterator[LabelEstimate]:
        detectable = self.detectable.tolist()
        return (self._row(i, detectable[i]) for i in range(len(self.labels)))

    def __getitem__(self, label: str) -> LabelEstimate:
        if not isinstance(label, str) or label not in self.labels:
            reject("label", f"be a label of the estimate ({summarize_labels(self.labels)})")
        place = self.labels.index(label)
        return self._row(place, bool(self.detectable[place]))

    def _row(self, place: int, detectable: bool) -> LabelEstimate:
        chosen = slice(place, place + 1)
        values = self.values[chosen]
        one = replace(
            self,
            labels=self.labels[chosen],
            values=values,
            stderr=self.stderr[chosen],
            unbiased=self.unbiased[chosen],
            one_choice=False,
        )
        return LabelEstimate(
            label=self.labels[place],
            value=float(values[0]),
            stderr=float(one.stderr[0]),
            detectable=detectable,
            estimate=one,
        )

    def interval(
        self, level: float = LEVEL, *, simultaneous: bool = False, of: Of = "collection"
    ) -> tuple[Array, Array]:
        """Return the ends of intervals that cover each true count, or all at once, with probability ``level``.

        Of the people in the collection: value ± the quantile of the exact distribution of flips and fakes, or of a
        normal one with a correction for skewness if it is wide (:mod:`hubbub.numeric.intervals`). To cover all d labels
        at once, each is missed with probability (1 − level)/d, which suffices for any dependence (Bonferroni). After
        :meth:`consistent` or :meth:`shrunk`, the ends are clipped to [0, n], which keeps the coverage.

        Of the population (``of="population"``): n times the shares of :meth:`population`.
        """
        miss = self._miss(level, simultaneous)
        if check_choice("of", of, ("collection", "population")) == "population":
            low, high = self.population(level, simultaneous=simultaneous)
            return self.n * low, self.n * high
        low, high = count_interval(self.unbiased, self.n, self.noise, miss)
        if self.adjusted:
            low, high = np.clip(low, 0, self.n), np.clip(high, 0, self.n)
        return low, high

    def population(self, level: float = LEVEL, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Return intervals of the share of the population that has each label: sampling error is included.

        They hold if the people of the collection are a simple random sample of a much larger population. Nothing is
        assumed about rare labels: small counts are treated exactly or conservatively
        (:mod:`hubbub.numeric.population`).
        """
        return population_interval(self.unbiased, self.n, self.noise, self._miss(level, simultaneous))

    def _miss(self, level: float, simultaneous: bool) -> float:
        level = check_real("level", level, OPEN_UNIT)
        check_type("simultaneous", simultaneous, bool)
        return (1 - level) / len(self.labels) if simultaneous else 1 - level

    @property
    def detectable(self) -> NDArray[np.bool_]:
        """True for labels distinguishable from 0; with probability 95 %, no label that nobody has is flagged."""
        return np.asarray(self.unbiased > self._critical())

    @property
    def detection_limit(self) -> Array:
        """Smallest true count of each label that is flagged with probability 95 % (Currie 1968), for all labels."""
        return np.asarray(self._critical() + float(ndtri(LEVEL)) * self.stderr)

    @property
    def excess(self) -> tuple[str, ...]:
        """Labels that more people seem to have than were counted, by more than noise explains with probability 95 %.

        No data cause that: some devices sent more than one answer, or the number of people is wrong.
        """
        low, _ = count_interval(self.unbiased, self.n, self.noise, self._miss(LEVEL, True))
        return tuple(label for label, end in zip(self.labels, low.tolist(), strict=True) if end > self.n)

    def consistent(self) -> Self:
        """Return the nearest possible counts: in [0, n] and, if every person has exactly one label, adding up to n.

        Projecting onto a convex set that contains the truth never increases the total squared error, and decreases it
        most if many labels are rare. In return, single values are biased, small ones upwards. Standard errors and
        intervals remain those of the unbiased values.
        """
        value = nearest_counts(self.unbiased, self.n) if self.one_choice else np.clip(self.unbiased, 0, self.n)
        return self._adjusted(value, "projected onto possible counts, which biases single values")

    def shrunk(self) -> Self:
        """Return the counts moved towards their mean by the positive-part James–Stein estimator.

        The expected total squared error of four labels or more is smaller than that of the unbiased values, whatever
        the true counts, if the errors are normal, equally large and independent (Efron and Morris 1973); the gain is
        large if the counts differ little compared to their errors. In return, single values are biased towards the
        mean. Standard errors and intervals remain those of the unbiased values, so that they keep their coverage.
        """
        value = shrunk_counts(self.unbiased, float((self.stderr**2).mean()))
        return self._adjusted(value, "shrunk towards their mean (James–Stein), which biases single values")

    def _adjusted(self, value: Array, remark: str) -> Self:
        value.setflags(write=False)
        return replace(self, values=value, remark=remark)

    def columns(self, level: float = LEVEL, *, simultaneous: bool = False) -> Columns:
        """Return the rows of the estimate as columns: values, errors, both kinds of intervals, detectability.

        All figures are numbers of people, as everywhere the ends of intervals have the unit of the value:
        ``population_low`` and ``population_high`` are n times the shares of :meth:`population`.
        """
        low, high = self.interval(level, simultaneous=simultaneous)
        first, last = self.interval(level, simultaneous=simultaneous, of="population")
        return {
            "label": list(self.labels),
            "value": self.values,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            "population_low": first,
            "population_high": last,
            "detectable": self.detectable,
        }

    def to_arrow(self, level: float = LEVEL) -> Any:
        """Return a PyArrow table with a row for each label; needs the extra ``frames``."""
        return to_arrow(self.columns(level))

    def to_pandas(self, level: float = LEVEL) -> Any:
        """Return a pandas data frame with a row for each label; needs the extra ``frames``, and pandas."""
        return to_pandas(self.columns(level))

    def to_polars(self, level: float = LEVEL) -> Any:
        """Return a Polars data frame with a row for each label; needs the extra ``frames``, and Polars."""
        return to_polars(self.columns(level))

    def plot(self, *, level: float = LEVEL, top: int = 20, simultaneous: bool = False) -> "Chart":
        """Return a chart of the largest counts with their intervals; ``.save(path)`` writes SVG, PNG or PDF."""
        from hubbub.report import estimate_chart  # noqa: PLC0415 (the upward import: charts are loaded if needed)

        check_whole("top", top, 1)
        return estimate_chart(self, level=level, top=top, simultaneous=simultaneous)

    def _repr_html_(self) -> str:
        from hubbub.report import estimate_table  # noqa: PLC0415

        return estimate_table(self)

    def to_document(self, level: float = LEVEL, *, simultaneous: bool = False) -> dict[str, Json]:
        """Return the estimate with its intervals and its guarantee as a JSON object."""
        columns = {
            name: column if isinstance(column, list) else column.tolist()
            for name, column in self.columns(level, simultaneous=simultaneous).items()
        }
        columns["unbiased"] = self.unbiased.tolist()
        return {
            "format": FORMAT,
            "plan": self.plan,
            "people": self.n,
            "one_choice": self.one_choice,
            "level": level,
            "simultaneous": simultaneous,
            "remark": self.remark,
            "guarantee": None if self.guarantee is None else self.guarantee.to_document(),
            "noise": noise_document(self.noise),
            "counts": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        }

    def to_json(self, level: float = LEVEL) -> str:
        """Return the JSON that :meth:`from_json` reads, with intervals of the given level for other readers."""
        return to_lines(self.to_document(level), "counts")

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read an estimate that :meth:`to_json` or ``hubbub estimate -o`` wrote; intervals are computed again."""
        if not isinstance(text, str | bytes):
            reject("text", f"be the JSON of an estimate as str or bytes, not {kind_of(text)}")
        what = "the estimate"
        keys = ("format", "plan", "people", "one_choice", "level", "simultaneous", "remark", "guarantee", "noise")
        read = Fields(parse(text, what), what, *keys, "counts")
        if read.text("format") != FORMAT:
            raise WireError(f"the format of the estimate must be {FORMAT!r}")
        names = ("label", "value", "stderr", "low", "high", "population_low", "population_high", "detectable")
        rows = [Fields(row, "a count of the estimate", *names, "unbiased") for row in read.items("counts")]
        figures = {
            name: np.array([row.real(name) for row in rows], np.float64) for name in ("value", "stderr", "unbiased")
        }
        for array in figures.values():
            array.setflags(write=False)
        with legal(what):
            return cls(
                labels=tuple(row.text("label") for row in rows),
                values=figures["value"],
                stderr=figures["stderr"],
                n=read.whole("people"),
                one_choice=read.truth("one_choice"),
                unbiased=figures["unbiased"],
                noise=noise_from_document(read["noise"]),
                remark=read.text("remark"),
                plan=None if read["plan"] is None else read.text("plan"),
                achieved=None if read["guarantee"] is None else Guarantee.from_document(read["guarantee"]),
            )

    def _critical(self) -> float:
        return critical_count(self.noise, self.n, self._miss(LEVEL, simultaneous=True))

    def __repr__(self) -> str:
        return f"Estimate({len(self.labels)} labels, n={self.n:,}, stderr {self.stderr.max():.4g}, {self.remark})"


def excess_note(labels: Sequence[str]) -> str:
    """Return the note about labels that more people seem to have than were counted; empty if there are none.

    >>> excess_note(["green"])
    'more than the number of people: green; some devices counted more than once, or people were miscounted'
    """
    if not labels:
        return ""
    rest = f" and {len(labels) - SHOWN:,} more" if len(labels) > SHOWN else ""
    why = "some devices counted more than once, or people were miscounted"
    return f"more than the number of people: {', '.join(labels[:SHOWN])}{rest}; {why}"
