"""``LabelView``: estimated numbers of people with each label, with error bars."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hubbub.documents import Fields, Json, legal
from hubbub.errors import OPEN_UNIT, WireError, check_choice, check_real, check_type, check_whole, reject
from hubbub.mechanisms.noise import noise_document, noise_from_document
from hubbub.model.schema import Schema, check_label_names, summarize_labels
from hubbub.numeric.estimation import nearest_counts, shrunk_counts
from hubbub.numeric.intervals import count_interval, critical_count
from hubbub.numeric.population import CountNoise, population_interval
from hubbub.numeric.vectors import check_vector
from hubbub.results.figures import BOTH, PEOPLE, Figure, Of
from hubbub.results.frames import LEVEL, Columns, Table

Array = NDArray[np.float64]
SHOWN = 10
"""Labels that a note names."""
UNBIASED = "unbiased"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class LabelView(Table):
    """Estimated number of people with each label: unbiased values, standard errors, intervals and detection limits.

    ``view["red"]`` is the figure of one label, iteration goes through all of them.
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

    def __post_init__(self) -> None:
        check_label_names("labels", self.labels)
        for name in ("values", "stderr", "unbiased"):
            check_vector(name, getattr(self, name), np.float64, len(self.labels))
        check_whole("n", self.n)
        check_type("one_choice", self.one_choice, bool)
        check_type("noise", self.noise, CountNoise)
        check_type("remark", self.remark, str)

    @property
    def adjusted(self) -> bool:
        """True after :meth:`consistent` or :meth:`shrunk`, even if they changed no value."""
        return not self.remark.startswith(UNBIASED)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.labels

    def __iter__(self) -> Iterator[Figure]:
        detectable = self.detectable.tolist()
        return (self._row(i, detectable[i]) for i in range(len(self.labels)))

    def __getitem__(self, label: str) -> Figure:
        if not isinstance(label, str) or label not in self.labels:
            reject("label", f"be a label of the question ({summarize_labels(self.labels)})")
        place = self.labels.index(label)
        return self._row(place, bool(self.detectable[place]))

    def _row(self, place: int, detectable: bool) -> Figure:
        chosen = slice(place, place + 1)
        one = replace(
            self,
            labels=self.labels[chosen],
            values=self.values[chosen],
            stderr=self.stderr[chosen],
            unbiased=self.unbiased[chosen],
            one_choice=False,
        )

        def ends(level: float, of: Of) -> tuple[float, float]:
            low, high = one.interval(level, of=of)
            return float(low[0]), float(high[0])

        return Figure(
            name=self.labels[place],
            value=float(one.values[0]),
            stderr=float(one.stderr[0]),
            unit=PEOPLE,
            ends=ends,
            n=self.n,
            noise=self.noise,
            detectable=detectable,
        )

    def interval(self, level: float = LEVEL, *, simultaneous: bool = False, of: Of = "people") -> tuple[Array, Array]:
        """Return the ends of intervals that cover each true count, or all at once, with probability ``level``.

        Of the people in the collection: value ± the quantile of the exact distribution of flips and fakes, or of a
        normal one with a correction for skewness if it is wide (:mod:`hubbub.numeric.intervals`). To cover all d labels
        at once, each is missed with probability (1 − level)/d, which suffices for any dependence (Bonferroni). After
        :meth:`consistent` or :meth:`shrunk`, the ends are clipped to [0, n], which keeps the coverage.

        Of the population (``of="population"``): n times the shares of :meth:`population`.
        """
        miss = self._miss(level, simultaneous)
        if check_choice("of", of, BOTH) == "population":
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

    def columns(self, level: float | None = None, *, simultaneous: bool = False) -> Columns:
        """Return a row for each label: values, errors, both kinds of intervals, detectability.

        All figures are numbers of people, as everywhere the ends of intervals have the unit of the value:
        ``population_low`` and ``population_high`` are n times the shares of :meth:`population`.
        """
        level = LEVEL if level is None else level
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

    def _rows(self, level: float, *, simultaneous: bool = False) -> Columns:
        """Return the rows of the view in the table of a result."""
        found = self.columns(level, simultaneous=simultaneous)
        labels, detectable = found.pop("label"), found.pop("detectable")
        notes = [None if one else "not distinguishable from 0" for one in detectable]
        return {"item": labels, "unit": [PEOPLE] * len(labels), **found, "note": notes}

    def to_document(self) -> dict[str, Json]:
        """Return the counts, from which intervals follow, as a JSON object."""
        return {
            "labels": list(self.labels),
            "values": self.values.tolist(),
            "unbiased": self.unbiased.tolist() if self.adjusted else None,
            "stderr": self.stderr.tolist(),
            "one_choice": self.one_choice,
            "remark": self.remark,
            "noise": noise_document(self.noise),
        }

    @classmethod
    def from_document(cls, value: Json, what: str, schema: Schema, n: int) -> Self:
        """Read the counts of n people from a JSON object."""
        del schema
        read = Fields(value, what, "labels", "values", "unbiased", "stderr", "one_choice", "remark", "noise")
        arrays = {name: np.array(read.reals(name), np.float64) for name in ("values", "stderr")}
        arrays["unbiased"] = (
            arrays["values"] if read["unbiased"] is None else np.array(read.reals("unbiased"), np.float64)
        )
        if not all(np.isfinite(array).all() for array in arrays.values()) or (arrays["stderr"] < 0).any():
            raise WireError(f"{what} must have finite values and errors of at least 0")
        for array in arrays.values():
            array.setflags(write=False)
        with legal(what):
            return cls(
                labels=tuple(read.texts("labels")),
                **arrays,
                n=n,
                one_choice=read.truth("one_choice"),
                noise=noise_from_document(read["noise"]),
                remark=read.text("remark"),
            )

    def _critical(self) -> float:
        return critical_count(self.noise, self.n, self._miss(LEVEL, simultaneous=True))

    def __repr__(self) -> str:
        return f"LabelView({len(self.labels)} labels, n={self.n:,}, stderr {self.stderr.max():.4g}, {self.remark})"


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
