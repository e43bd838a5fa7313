"""Joint tables: the number of people with each combination of labels, and marginal and conditional tables."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hubbub.errors import NON_NEGATIVE, OPEN_UNIT, Infeasible, check_flip, check_real, check_type, check_whole, reject
from hubbub.model.schema import Schema, check_label_names, choose_labels, summarize_labels
from hubbub.numeric.estimation import nearest_counts
from hubbub.numeric.population import check_finite
from hubbub.numeric.vectors import check_vector, flip_histogram, unflip_histogram, weigh_by_distance
from hubbub.results.frames import LEVEL, Columns, Table

Array = NDArray[np.float64]
FEW_SHOWN = 5
"""Messages with a combination below which its estimated standard error is not trusted alone."""


def fake_patterns(schema: Schema, count: int) -> Array:
    """Return the distribution of ``count`` given bits of a uniform legal record; entry x has the bits of x set.

    Counts the completions by other bits: a pattern with i ones has Σ_j C(width − count, j) of them with
    min_set ≤ i + j ≤ max_set.

    >>> fake_patterns(Schema.one_hot(4), 2).tolist(), fake_patterns(Schema.at_most(1, 3), 1).tolist()
    ([0.5, 0.25, 0.25, 0.0], [0.75, 0.25])
    """
    others = schema.width - count
    ways = [
        sum(math.comb(others, total - ones) for total in range(max(schema.min_set, ones), schema.max_set + 1))
        for ones in range(count + 1)
    ]
    distribution = np.array([way / schema.size for way in ways])
    return distribution[np.bitwise_count(np.arange(1 << count)).astype(np.int64)]


def combination_name(labels: tuple[str, ...], index: int) -> str:
    """Return the labels that a cell of a joint table has, in words.

    >>> combination_name(("a", "b", "c"), 0b101), combination_name(("a", "b"), 0)
    ('a + c', 'none')
    """
    return " + ".join(label for i, label in enumerate(labels) if index >> i & 1) or "none"


def grid_of(labels: tuple[str, ...]) -> tuple[list[str], list[str], NDArray[np.int64]]:
    """Return the names of the rows and columns of a grid of all combinations, and the cell of each place.

    The last label, or the last two of four labels and more, are in the columns.

    >>> rows, columns, cells = grid_of(("a", "b"))
    >>> rows, columns, cells.tolist()
    (['a', 'not a'], ['b', 'not b'], [[3, 1], [2, 0]])
    """
    aside = 1 if len(labels) < 4 else 2
    parts = labels[:-aside], labels[-aside:]

    def names(chosen: tuple[str, ...]) -> tuple[list[str], NDArray[np.int64]]:
        patterns = list(itertools.product((1, 0), repeat=len(chosen)))
        words = [
            ", ".join(label if has else f"not {label}" for label, has in zip(chosen, pattern, strict=True))
            for pattern in patterns
        ]
        numbers = [sum(has << i for i, has in enumerate(pattern)) for pattern in patterns]
        return words, np.array(numbers, np.int64)

    (rows, left), (columns, right) = names(parts[0]), names(parts[1])
    return rows, columns, left[:, None] + (right << len(parts[0]))


@dataclass(frozen=True, slots=True, eq=False)
class ConditionalTable:
    """Fractions of the people who meet a condition, with standard errors; entry x has label i if bit i of x is set."""

    labels: tuple[str, ...]
    values: Array
    stderr: Array

    def __post_init__(self) -> None:
        check_label_names("labels", self.labels)
        for name in ("values", "stderr"):
            check_vector(name, getattr(self, name), np.float64, 1 << len(self.labels))

    def interval(self, level: float = LEVEL) -> tuple[Array, Array]:
        """Return the ends of intervals value ± zσ, clipped to [0, 1]; good if σ is small compared to the fraction."""
        z = -float(ndtri((1 - check_real("level", level, OPEN_UNIT)) / 2))
        low, high = self.values - z * self.stderr, self.values + z * self.stderr
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class JointCell:
    """The estimated number of people with one combination of labels."""

    present: tuple[str, ...]
    absent: tuple[str, ...]
    value: float
    stderr: float
    index: int
    table: "Joint" = field(repr=False)

    def __post_init__(self) -> None:
        check_type("table", self.table, Joint)
        check_label_names("present", self.present)
        check_label_names("absent", self.absent)
        check_finite("value", self.value)
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_whole("index", self.index, 0, len(self.table) - 1)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the ends of an interval that covers the number with probability ``level``."""
        low, high = self.table.interval(level)
        return float(low[self.index]), float(high[self.index])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Joint(Table):
    """Estimated histogram of all combinations of some labels; entry x has label i if bit i of x is set.

    ``joint["a", "c"]`` is the cell of the people with exactly these labels of the table, ``joint[()]`` that of the
    people with none; iteration goes through all cells.

    A message y of a person with combination x adds t(y) to a linear functional w·ĥ, where t = P⁻¹w, and therefore the
    variance Σ_y P(x, y)t(y)² − w(x)². The total is linear in the true histogram, which is replaced by the estimate.
    """

    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    """Number of messages with each combination."""
    n: int
    q: float
    k: int
    fakes: Array
    """Expected number of fakes with each combination, before they are flipped."""
    spread: float | None
    """Variance over mean of the number of fakes per record, if the shuffler drew it; None if the total is known."""

    def __post_init__(self) -> None:
        check_label_names("labels", self.labels)
        check_vector("counts", self.counts, np.int64, 1 << len(self.labels))
        check_vector("fakes", self.fakes, np.float64, 1 << len(self.labels))
        check_whole("n", self.n)
        check_flip(self.q, zero=True)
        check_whole("k", self.k, 1)
        if self.spread is not None:
            check_real("spread", self.spread, NON_NEGATIVE)

    @property
    def values(self) -> Array:
        """ĥ = (P_L⁻¹ s − fakes)/k, unbiased."""
        return np.asarray((unflip_histogram(self.counts, self.q) - self.fakes) / self.k)

    @property
    def stderr(self) -> Array:
        """σ(ĥ_j)² = (Σ_y s(y)t(y)² − kĥ_j − known_j)/k², where t(y) is the weight of a message y in ĥ_j.

        The sum of squared weights is an unbiased estimate of the second moments, and far less noisy than P⁻¹ applied to
        their expectation. What is known about the fakes before they are flipped adds no noise: f²/M for M fakes in
        total, f·(1 − variance/mean) for independent draws per record.
        """
        return self._deviation(self.counts.astype(np.float64), self.k * self.values, self._known)

    @property
    def _known(self) -> Array:
        """The part of the second moments that is known from the fakes, and adds no variance."""
        if self.spread is None:
            return self.fakes**2 / max(float(self.fakes.sum()), 1e-300)
        return self.fakes * (1 - self.spread)

    def _deviation(self, messages: Array, own: Array, known: Array) -> Array:
        variance = self._moment(2, messages) - own - known
        return np.sqrt(np.maximum(variance, 0.0)) / self.k

    def _at_least(self) -> Array:
        """Return σ, and where few messages show a combination at least that of the nearest possible histogram.

        Where none does the estimated σ is close to 0, although flips may well have shown the combination.
        """
        possible = self.k * nearest_counts(self.values, self.n)
        expected = flip_histogram(possible + self.fakes, self.q)
        least = np.where(self.counts < FEW_SHOWN, self._deviation(expected, possible, self._known), 0.0)
        return np.maximum(self.stderr, least)

    def _moment(self, power: int, messages: Array | None = None) -> Array:
        """Return Σ_y s(y)t(y)^power; t has a factor p/(p − q) for each equal bit, −q/(p − q) for each other bit."""
        gain = 1 - 2 * self.q
        shown = self.counts if messages is None else messages
        return weigh_by_distance(shown, ((1 - self.q) / gain) ** power, (-self.q / gain) ** power)

    def interval(self, level: float = LEVEL, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Return the ends of intervals that cover each true number, or all at once, with probability ``level``.

        ĥ ± (z + g(z² − 1)/6 + e(z³ − 3z)/24)σ, where g is the absolute skewness of ĥ and e bounds its excess: few
        messages carry large weights, so errors are skewed with long tails. The quantile of the longer side (Cornish and
        Fisher 1938) serves for both, because the estimated σ is correlated with the error. Where few messages show a
        combination, half of what one of them adds is added, because numbers are whole, and σ is at least that of the
        nearest possible histogram. The shuffler's draws are treated as normal.
        """
        level = check_real("level", level, OPEN_UNIT)
        check_type("simultaneous", simultaneous, bool)
        miss = (1 - level) / self.counts.size if simultaneous else 1 - level
        z = -float(ndtri(miss / 2))
        values, sigma = self.values, self._at_least()
        skew, excess = self._shape(sigma)
        reach = (z + np.abs(skew) * (z * z - 1) / 6 + excess * max(z**3 - 3 * z, 0.0) / 24) * sigma
        message = ((1 - self.q) / (1 - 2 * self.q)) ** len(self.labels) / self.k
        reach += np.where((sigma > 0) & (self.counts < FEW_SHOWN), message / 2, 0.0)
        return values - reach, values + reach

    def __len__(self) -> int:
        return self.counts.size

    def __iter__(self) -> Iterator[JointCell]:
        values, errors = self.values.tolist(), self.stderr.tolist()
        return (self._cell(x, value, error) for x, (value, error) in enumerate(zip(values, errors, strict=True)))

    def __getitem__(self, present: str | tuple[str, ...]) -> JointCell:
        chosen = choose_labels(present, self.labels, "the table")
        index = sum(1 << self.labels.index(label) for label in chosen)
        return self._cell(index, float(self.values[index]), float(self.stderr[index]))

    def _cell(self, index: int, value: float, stderr: float) -> JointCell:
        has = [bool(index >> i & 1) for i in range(len(self.labels))]
        present, absent = (
            tuple(label for label, set_ in zip(self.labels, has, strict=True) if set_ == kind) for kind in (True, False)
        )
        return JointCell(present=present, absent=absent, value=value, stderr=stderr, index=index, table=self)

    def columns(self, level: float | None = None) -> Columns:
        """Return the cells as columns: the combination, a truth value for each label, value, error and interval."""
        low, high = self.interval(LEVEL if level is None else level)
        index = np.arange(self.counts.size)
        return {
            "combination": [combination_name(self.labels, x) for x in index.tolist()],
            **{f"has_{label}": (index >> i & 1).astype(np.bool_) for i, label in enumerate(self.labels)},
            "value": self.values,
            "stderr": self.stderr,
            "low": low,
            "high": high,
        }

    def marginal(self, labels: Iterable[str]) -> Self:
        """Return the joint table of some of the labels, in the given order, with its own standard errors."""
        chosen = choose_labels(labels, self.labels, "the table")
        check_whole("the number of labels", len(chosen), 1)
        counts, fakes = self._sum(self.counts, chosen), self._sum(self.fakes, chosen)
        return replace(self, labels=chosen, counts=counts.astype(np.int64), fakes=fakes)

    def conditional(self, given: Mapping[str, bool]) -> ConditionalTable:
        """Return the fractions with each combination of the other labels among the people who meet a condition.

        ``given`` maps labels to whether people have them. R̂ = ĥ_j/b̂, where b̂ is the sum of ĥ over the condition;
        σ(R̂) = σ((e_j − R̂·1_b)·ĥ)/b̂ to first order. Raises :class:`Infeasible` if b̂ is not positive.
        """
        if not isinstance(given, Mapping) or not given or not set(given) < set(self.labels):
            reject(
                "given", f"map some but not all labels of the table to True or False ({summarize_labels(self.labels)})"
            )
        for wanted in given.values():
            check_type("every value of given", wanted, bool)
        index = np.arange(self.counts.size)
        holds = np.ones(index.size, np.bool_)
        for label, present in given.items():
            holds &= (index >> self.labels.index(label) & 1) == int(present)
        values = self.values
        base = float(values[holds].sum())
        if base <= 0:
            raise Infeasible("the estimated number of people who meet the condition is not positive")
        cells = np.flatnonzero(holds)
        shares = values[cells] / base
        errors = np.empty(cells.size)
        for place, (cell, share) in enumerate(zip(cells, shares, strict=True)):
            weights = -share * holds
            weights[cell] += 1
            errors[place] = self._functional(weights) / base
        return ConditionalTable(tuple(label for label in self.labels if label not in given), shares, errors)

    def _shape(self, sigma: Array) -> tuple[Array, Array]:
        """Return the skewness of ĥ and an upper bound on its excess, from the cumulants of single messages.

        They are m₃ − 3m₂m₁ + 2m₁³ and m₄ − 4m₃m₁ − 3m₂² + 12m₂m₁² − 6m₁⁴; −3m₂² is omitted except for the cell itself.
        """
        p, q, width = 1 - self.q, self.q, len(self.labels)
        gain = (p - q) ** 2
        own = ((p**3 + q**3) / gain) ** width
        # Not ĥ itself, whose noise is correlated with the error to be bounded.
        h = self.k * nearest_counts(self.values, self.n)
        third = self._moment(3) - h * (3 * own - 2)
        f, number = self.fakes, float(self.fakes.sum())
        if self.spread is not None:
            third -= f * (3 * own - 2)
        elif number:
            moment = weigh_by_distance(f, (p**3 + q**3) / gain, p * q / gain)
            third -= 3 * moment * f / number - 2 * f**3 / number**2
        cube = ((p**4 - q**4) / (p - q) ** 3) ** width
        fourth = self._moment(4) - h * (4 * cube + 3 * own**2 - 12 * own + 6)
        scale = np.maximum(self.k * sigma, 1e-6)  # a combination without any error has no shape
        return np.clip(third / scale**3, -1.0, 1.0), np.clip(fourth / scale**4, 0.0, 3.0)

    def _functional(self, weights: Array) -> float:
        """Return σ(w·ĥ)."""
        second = flip_histogram(unflip_histogram(weights, self.q) ** 2, self.q)
        people = self.k * float(self.values @ (second - weights * weights))
        if self.spread is None:
            known = float(self.fakes @ weights) ** 2 / max(float(self.fakes.sum()), 1e-300)
        else:
            known = float(self.fakes @ weights**2) * (1 - self.spread)
        return math.sqrt(max(people + float(self.fakes @ second) - known, 0.0)) / self.k

    def _sum(self, cells: NDArray[Any], chosen: tuple[str, ...]) -> NDArray[Any]:
        # The first axis of the cube is the last label, because the first label is the lowest bit.
        count = len(self.labels)
        axes = [count - 1 - self.labels.index(label) for label in reversed(chosen)]
        dropped = tuple(set(range(count)) - set(axes))
        cube = cells.reshape((2,) * count).transpose([*axes, *dropped])
        return np.asarray(cube.reshape(1 << len(chosen), -1).sum(axis=1))

    def __repr__(self) -> str:
        return f"Joint({len(self.labels)} labels, n={self.n:,}, k={self.k}, q={self.q:.4g})"
