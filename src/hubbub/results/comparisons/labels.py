"""Counts of labels of two batches: their sum, and the differences between their populations."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Json
from hubbub.errors import (
    NON_NEGATIVE,
    OPEN_UNIT,
    PROBABILITY,
    check_choice,
    check_real,
    check_type,
    check_whole,
    reject,
)
from hubbub.mechanisms.noise import pooled_noise
from hubbub.model.privacy import Assumptions, Basis, Guarantee
from hubbub.model.schema import check_label_names, summarize_labels
from hubbub.numeric.comparison import difference_interval, equality_p_values, holm, residue
from hubbub.numeric.population import check_finite, population_interval
from hubbub.numeric.vectors import check_vector
from hubbub.results.counts import Estimate
from hubbub.results.frames import Columns, to_arrow, to_lines, to_pandas, to_polars

if TYPE_CHECKING:
    from hubbub.report import Chart

Array = NDArray[np.float64]
FORMAT = "hubbub comparison 1"
Correction = Literal["none", "holm"]


def pooled_labels(parts: list[Estimate]) -> Estimate:
    """Return the sum of the counts of different people."""
    first = parts[0]
    orders = [_order(first, part, "estimates") for part in parts]
    values = sum(part.unbiased[order] for part, order in zip(parts, orders, strict=True))
    variance = sum(part.stderr[order] ** 2 for part, order in zip(parts, orders, strict=True))
    value, stderr = np.asarray(values, np.float64), np.sqrt(np.asarray(variance, np.float64))
    for array in (value, stderr):
        array.setflags(write=False)
    same = all(part.plan == first.plan for part in parts)
    return Estimate(
        labels=first.labels,
        values=value,
        stderr=stderr,
        n=sum(part.n for part in parts),
        one_choice=all(part.one_choice for part in parts),
        unbiased=value,
        noise=pooled_noise([(part.n, part.noise) for part in parts]),
        remark="unbiased" if len(parts) == 1 else f"unbiased, the sum of {len(parts):,} estimates",
        plan=first.plan if same else None,
        achieved=functools.partial(weakest, tuple(parts)),
    )


def _order(one: Estimate, two: Estimate, name: str) -> NDArray[np.int64] | slice:
    """Return the places of the labels of one estimate in another, which must have the same labels."""
    if one.labels == two.labels:
        return slice(None)
    places = {label: place for place, label in enumerate(two.labels)}
    if places.keys() != set(one.labels):
        reject(name, f"have the same labels ({summarize_labels(one.labels)}; {summarize_labels(two.labels)})")
    return np.array([places[label] for label in one.labels], np.int64)


class Guaranteed(Protocol):
    """A result with a guarantee."""

    @property
    def plan(self) -> str | None:
        """Id of the plan, None for several."""

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the people that were counted."""


def weakest(parts: Sequence[Guaranteed]) -> Guarantee | None:
    """Return the largest ε and δ under what all parts assume, None if a part has none or no single one has both.

    Parts that were not shuffled have nothing in common with those of another plan that rely on a shuffler.
    """
    known = [found for part in parts if (found := part.guarantee) is not None]
    if len(known) < len(parts):
        return None
    worst = max(known, key=lambda one: (one.epsilon, one.delta))
    if any(one.delta > worst.delta for one in known):
        return None
    unshuffled = sum(one.unshuffled for one in known)
    if not unshuffled:
        basis = worst.basis if all(one.basis is worst.basis for one in known) else Basis.PROVEN
        return replace(worst, basis=basis, assumptions=_together([one.assumptions for one in known]))
    # What protects without a shuffler also protects shuffled people of the same plan.
    same = len({part.plan for part in parts}) == 1 and parts[0].plan is not None
    return replace(worst, unshuffled=unshuffled) if same and worst.unshuffled else None


def _together(held: Sequence[Assumptions]) -> Assumptions:
    """Return the conditions under which all of several guarantees hold."""
    return Assumptions(
        honest=max(one.honest for one in held),
        shuffler=any(one.shuffler for one in held),
        fakes=any(one.fakes for one in held),
        view=" and ".join(dict.fromkeys(one.view for one in held)),
        collusion_epsilon=max(one.collusion_epsilon for one in held),
        count_epsilon=max(one.count_epsilon for one in held),
        relay=any(one.relay for one in held),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelComparison:
    """The difference between two populations in the share of one label."""

    label: str
    share_a: float
    share_b: float
    difference: float
    stderr: float
    low: float
    high: float
    p_value: float

    def __post_init__(self) -> None:
        check_type("label", self.label, str)
        for name in ("share_a", "share_b", "difference", "low", "high"):
            check_finite(name, getattr(self, name))
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_real("p_value", self.p_value, PROBABILITY)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Comparison:
    """The differences between two populations in the share of each label, second minus first.

    ``comparison["red"]`` is one label, iteration goes through all of them.
    """

    labels: tuple[str, ...]
    share_a: Array
    share_b: Array
    stderr: Array
    """Standard error of the difference, sampling error included."""
    low: Array
    high: Array
    """Ends of the intervals of the differences, each of which holds on its own."""
    p_value: Array
    """Two-sided p-values of equal shares, adjusted as ``correction`` says: for all labels of the comparison, and in a
    survey for all of its questions."""
    level: float
    n_a: int
    n_b: int
    correction: Correction = "holm"

    def __post_init__(self) -> None:
        check_label_names("labels", self.labels)
        for name in ("share_a", "share_b", "stderr", "low", "high", "p_value"):
            check_vector(name, getattr(self, name), np.float64, len(self.labels))
        check_real("level", self.level, OPEN_UNIT)
        check_whole("n_a", self.n_a, 1)
        check_whole("n_b", self.n_b, 1)
        check_choice("correction", self.correction, ("none", "holm"))

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

    def __iter__(self) -> Iterator[LabelComparison]:
        return (self._row(place) for place in range(len(self.labels)))

    def __getitem__(self, label: str) -> LabelComparison:
        if not isinstance(label, str) or label not in self.labels:
            reject("label", f"be a label of the comparison ({summarize_labels(self.labels)})")
        return self._row(self.labels.index(label))

    def _row(self, place: int) -> LabelComparison:
        names = ("share_a", "share_b", "difference", "stderr", "low", "high", "p_value")
        figures = {name: float(getattr(self, name)[place]) for name in names}
        return LabelComparison(label=self.labels[place], **figures)

    def columns(self) -> Columns:
        """Return the rows of the comparison as columns."""
        names = ("share_a", "share_b", "difference", "stderr", "low", "high", "p_value", "significant")
        return {"label": list(self.labels), **{name: getattr(self, name) for name in names}}

    def to_arrow(self) -> Any:
        """Return a PyArrow table with a row for each label; needs the extra ``frames``."""
        return to_arrow(self.columns())

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a row for each label; needs the extra ``frames``, and pandas."""
        return to_pandas(self.columns())

    def to_polars(self) -> Any:
        """Return a Polars data frame with a row for each label; needs the extra ``frames``, and Polars."""
        return to_polars(self.columns())

    def to_document(self) -> dict[str, Json]:
        """Return the comparison as a JSON object."""
        columns = {
            name: column if isinstance(column, list) else column.tolist() for name, column in self.columns().items()
        }
        return {
            "format": FORMAT,
            "people_a": self.n_a,
            "people_b": self.n_b,
            "level": self.level,
            "correction": self.correction,
            "differences": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        }

    def to_json(self) -> str:
        """Return the comparison as JSON."""
        return to_lines(self.to_document(), "differences")

    def plot(self, *, top: int = 20) -> "Chart":
        """Return a chart of the largest differences with their intervals; ``.save(path)`` writes SVG, PNG or PDF."""
        from hubbub.report import comparison_chart  # noqa: PLC0415 (the upward import: charts are loaded if needed)

        return comparison_chart(self, top=check_whole("top", top, 1))

    def _repr_html_(self) -> str:
        from hubbub.report import comparison_table  # noqa: PLC0415

        return comparison_table(self)

    def __repr__(self) -> str:
        found = int(self.significant.sum())
        return f"Comparison({len(self.labels)} labels, n={self.n_a:,} and {self.n_b:,}, {found} significant)"


def compared_labels(a: Estimate, b: Estimate, level: float, correction: Correction) -> Comparison:
    """Return the differences of the shares of each label; see :func:`hubbub.compare`."""
    check_choice("correction", correction, ("none", "holm"))
    for name, part in (("a", a), ("b", b)):
        check_whole(f"the number of people of {name}", part.n, 1)
    if a is b:
        reject("a and b", "be of different people, but they are the same estimate")
    x, y = a.unbiased, b.unbiased[_order(a, b, "a and b")]
    sizes, noises = (a.n, b.n), (a.noise, b.noise)
    together = pooled_noise([(a.n, a.noise), (b.n, b.noise)])
    pooled = population_interval(x + y, a.n + b.n, together, residue(x.size))
    p_value = equality_p_values(x, y, sizes, noises, pooled)
    p_value = holm(p_value) if correction == "holm" else p_value
    low, high = difference_interval(x, y, sizes, noises, level)
    variance = sum(
        noise.sampled_variance(np.clip(one / n, 0, 1), n) / n**2
        for one, n, noise in zip((x, y), sizes, noises, strict=True)
    )
    arrays = {"share_a": x / a.n, "share_b": y / b.n, "stderr": np.sqrt(variance), "low": low, "high": high}
    for array in (*arrays.values(), p_value):
        array.setflags(write=False)
    return Comparison(labels=a.labels, **arrays, p_value=p_value, level=level, n_a=a.n, n_b=b.n, correction=correction)
