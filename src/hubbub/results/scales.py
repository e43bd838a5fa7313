"""``ScaleView``: the distribution of a number over buckets, its quantiles, and bands that hold for all of it.

The levels of a scale are combined by least squares (:mod:`hubbub.numeric.trees`). A band covers the number of people
below every edge at once: intervals from the tails of the noise (:mod:`hubbub.numeric.tails`) whose level is raised for
their number (Šidák 1967), with monotone ends. For the population the largest distance of an empirical distribution
function is added (Massart 1990), with half of the error each. Where answers may be missing, shares are ratios of two
estimates, whose intervals are those of Fieller (1954): unbounded if it is not certain that anybody answered.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from hubbub.errors import OPEN_UNIT, PROBABILITY, check_choice, check_real, check_type, check_whole, reject
from hubbub.mechanisms.design import tree
from hubbub.model.questions import Scale
from hubbub.numeric.tails import ErrorSums
from hubbub.numeric.trees import Tree
from hubbub.pipeline.reports import MAX_DECLARED
from hubbub.results.answers import AnswerCounts, sizes_of, summed_noise
from hubbub.results.figures import BOTH, Figure, Of, answered_figure, figure_rows
from hubbub.results.frames import LEVEL, Columns, Table

Array = NDArray[np.float64]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that tables and pages show."""
ONE_SIGMA = 0.6827
PARTS = 64  # equal parts of an error whose tails are computed; the rest is nearly normal
SLACK = 0.5  # people, because counts are whole numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ScaleView(Table):
    """Estimated number of people in each bucket, and everything that follows from them.

    One person who names unrelated blocks at every level moves the number of people below an edge by at most
    :attr:`influence`; an honest change of mind moves it by 1.
    """

    name: str
    question: Scale
    n: int
    """People in the collection, with or without an answer."""
    attributes: tuple[AnswerCounts, ...]
    """Counts of the blocks of every level, from the widest to single buckets."""
    values: Array = field(init=False)
    """Unbiased number of people in each bucket; small ones may be below 0."""
    answered: float = field(init=False)
    """Estimated number of people who answered; n unless answers may be missing."""
    levels: Tree = field(init=False)

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_type("question", self.question, Scale)
        check_whole("n", self.n, 0, MAX_DECLARED)
        if sizes_of(self.attributes) != list(self.question.sizes):
            reject("attributes", "be the counts of every level of the question")
        levels = tree(self.question, [1 / one.mean_variance for one in self.attributes])
        leaves, absent = levels.leaves([one.values for one in self.attributes], self.n)
        values = leaves[: self.question.buckets].copy()
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "answered", float(self.n - absent))
        object.__setattr__(self, "levels", levels)

    @property
    def edges(self) -> Array:
        """Edges between two buckets: all but the first and the last."""
        return np.array(self.question.edges[1:-1])

    @property
    def influence(self) -> float:
        """Largest change of a number of people below an edge by a client that sends one message for each attribute."""
        right = np.arange(1, self.question.buckets)
        return float(self.levels.prefix_weights(right).influence().max())

    @property
    def people(self) -> float:
        """The number of people that shares refer to: those who answered, at least 1."""
        return max(self.answered, 1.0)

    def cdf(self) -> tuple[Array, Array, Array]:
        """Return the edges between buckets, the estimated share below each, and the standard errors of the shares.

        Shares are unbiased, so that a few may be below 0, above 1, or fall; the band does not.
        """
        share = np.cumsum(self.values)[:-1] / self.people
        return self.edges, share, np.sqrt(self.errors(share).variance) / self.people

    def errors(self, share: Array, right: Array | None = None) -> ErrorSums:
        """Return the errors of the numbers of people in the first ``right`` buckets, by default below all edges.

        Minus given shares of the number of people who answered.
        """
        parts = self.levels.prefix_weights(np.arange(1, self.question.buckets) if right is None else right, share)
        widths = np.array(self.levels.widths, np.float64)[parts.level]
        copies = (parts.last - parts.first) / widths
        variances = np.array([one.variance for one in self.attributes])[parts.level] * parts.weights**2
        excesses = np.array([one.excess for one in self.attributes])[parts.level]
        growth = np.array([one.growth for one in self.attributes])[parts.level]
        if growth.any():
            below = np.r_[0.0, np.cumsum(np.maximum(self.values, 0.0))]
            first, last = (np.minimum(end, self.question.buckets).astype(np.int64) for end in (parts.first, parts.last))
            absent = (parts.first >= self.levels.buckets) & (parts.last > parts.first)
            people = np.where(absent, self.n - self.answered, below[last] - below[first])
            more = (growth * parts.weights**2 * np.maximum(people, 0.0)).sum(axis=1)
            variances, copies = np.column_stack([variances, more]), np.column_stack([copies, np.ones_like(more)])
            excesses = np.r_[excesses, 0.0]
        return ErrorSums(variances, copies, excesses)

    def band(self, level: float = LEVEL, *, of: Of = "people") -> tuple[Array, Array]:
        """Return lower and upper shares at all edges that hold for all of them at once with probability ``level``."""
        level = check_real("level", level, OPEN_UNIT)
        check_choice("of", of, BOTH)
        miss, sampling, count = 1 - level, 0.0, self.question.buckets - 1
        if of == "population":
            miss /= 3 if self.question.missing else 2  # noise, sampling, and the number of people who answered
            sampling = math.sqrt(math.log(2 / miss) / (2 * max(self._fewest(miss), 1e-300)))
        low, high = self._noise_band(-math.expm1(math.log1p(-miss) / count))
        low, high = np.clip(low - sampling, 0.0, 1.0), np.clip(high + sampling, 0.0, 1.0)
        low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
        # The ends cross where no rising curve fits between them; what is between them is then the best that is known.
        return np.minimum(low, high), np.maximum(low, high)

    def _fewest(self, miss: float) -> float:
        """Return the least number of people who answered that is plausible."""
        if not self.question.missing:
            return float(self.n)
        return self.answered - float(self.errors(np.ones(1), np.zeros(1)).reach(2 * miss)[0])

    def _noise_band(self, miss: float) -> tuple[Array, Array]:
        """Return intervals of the shares below each edge, each of which errs with probability ``miss``."""
        size = self.question.buckets - 1
        if self.n == 0:
            return np.zeros(size), np.ones(size)
        below = np.cumsum(self.values)[:-1]
        share = np.clip(below / self.people, 0.0, 1.0)
        errors = self.errors(share)
        reach = errors.reach(miss) + SLACK
        if not self.question.missing:
            return (below - reach) / self.n, (below + reach) / self.n
        # |S − F·A| ≤ z·σ(F), a quadratic inequality in F.
        square = reach**2 / np.maximum(errors.variance, 1e-300)
        flat, plus, minus = (self.errors(np.full(size, one)).variance for one in (0.0, 1.0, -1.0))
        both, whole = (minus - plus) / 4, (plus + minus) / 2 - flat
        a = self.answered**2 - square * whole
        b = below * self.answered - square * both
        c = below**2 - square * flat
        root = np.sqrt(np.maximum(b * b - a * c, 0.0))
        sure = (a > 0) & (self.answered > 0)
        safe = np.where(sure, a, 1.0)
        return np.where(sure, (b - root) / safe, 0.0), np.where(sure, (b + root) / safe, 1.0)

    def shares(self, level: float, *, of: Of, count: int = 1) -> tuple[Array, Array]:
        """Return intervals of the share below each edge by itself, whose level is raised for ``count`` of them.

        Of the population: (S − F·A)² ≤ r² + z²·A·F(1 − F) with the reach r of the noise (Wilson 1927), and half a
        person on either side.
        """
        miss = -math.expm1(math.log(level) / count)
        if of == "people" or self.n == 0:
            low, high = self._noise_band(miss)
            return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        below, people = np.cumsum(self.values)[:-1], self.people
        reach = self.errors(np.clip(below / people, 0.0, 1.0)).reach(miss)
        square = float(ndtri(miss / 2)) ** 2
        a = people * people + square * people

        def root(centre: Array, sign: int) -> Array:
            b = 2 * centre * people + square * people
            c = centre**2 - reach**2
            return np.asarray((b + sign * np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))) / (2 * a))

        return np.clip(root(below - SLACK, -1), 0.0, 1.0), np.clip(root(below + SLACK, 1), 0.0, 1.0)

    def quantile(self, p: float) -> Figure:
        """Return the number below which the share p of the answers lies.

        Its interval inverts the band, so that the intervals of all quantiles hold at once; an end beyond the first or
        the last edge is the bound of the scale. Its standard error is half of the interval at 68 % from the noise at
        single edges, of at least one bucket.
        """
        p = check_real("p", p, PROBABILITY)

        def ends(level: float, of: Of) -> tuple[float, float]:
            first, last = self._between(p, self.band(level, of=of))
            return min(first, value), max(last, value)

        value = self._inverse(p)
        low, high = single_quantile(self, p, ONE_SIGMA, "people")
        name = "median" if p == 0.5 else f"{100 * p:g}% quantile"
        return Figure(name=name, value=value, stderr=(high - low) / 2, unit=self.question.unit, ends=ends)

    def _between(self, p: float, band: tuple[Array, Array]) -> tuple[float, float]:
        """Return the edges between which a quantile lies if the band holds."""
        whole, (low, high) = self.question.edges, band
        # Below an edge whose upper share is less than p lies too little, below one whose lower share is p enough.
        first = int(np.searchsorted(high, p, side="left"))
        last = int(np.searchsorted(low, p, side="left"))
        last = min(last + 1, len(whole) - 1)
        # Where the noise exceeds the counts the ends of the band may cross, and a quantile lies anywhere between them.
        return float(whole[min(first, last)]), float(whole[max(first, last)])

    @property
    def median(self) -> Figure:
        """The number below which half of the answers lie."""
        return self.quantile(0.5)

    def _inverse(self, p: float) -> float:
        """Return the quantile of the nearest distribution function that does not fall, linear within buckets."""
        share = np.cumsum(self.values)[:-1] / self.people
        rising = isotonic_regression(np.clip(share, 0.0, 1.0)).x
        shares = np.concatenate([[0.0], rising, [1.0]])
        return float(np.interp(p, shares, np.array(self.question.edges)))

    def columns(self, level: float | None = None) -> Columns:
        """Return a row for each edge between two buckets: share below it, standard error, both bands."""
        level = LEVEL if level is None else level
        edges, share, deviation = self.cdf()
        (low, high), outer = self.band(level), self.band(level, of="population")
        return {
            "edge": edges,
            "share": share,
            "stderr": deviation,
            "low": low,
            "high": high,
            "population_low": outer[0],
            "population_high": outer[1],
        }

    def figures(self) -> tuple[Figure, ...]:
        """Return the quantiles that tables and pages show, and the number of answers if some may be missing."""
        found = [self.quantile(p) for p in QUANTILES]
        if self.question.missing:
            error = self.errors(np.ones(1), np.zeros(1))
            sizes = zip(error.variances[0].tolist(), error.copies[0].tolist(), error.excesses.tolist(), strict=True)
            parts = [(part, excess) for part, copies, excess in sizes for _ in range(min(round(copies), PARTS))]
            noise = summed_noise(float(error.variance[0]), parts)
            found.append(answered_figure(self.answered, self.n, noise, lambda miss: float(error.reach(miss)[0])))
        return tuple(found)

    def _rows(self, level: float, *, simultaneous: bool = False) -> Columns:
        """Return the rows of the view in the table of a result; intervals of quantiles hold at once in any case."""
        del simultaneous
        return figure_rows(self.figures(), level)

    def __repr__(self) -> str:
        return f"ScaleView({self.name!r}: {self.median}, n={self.n:,})"


def single_quantile(view: ScaleView, p: float, level: float, of: Of) -> tuple[float, float]:
    """Return an interval of one quantile by itself: the edges at which its share is not rejected.

    It is shorter than the one that holds for all quantiles at once.
    """
    low, high = view.shares(level, of=of)
    possible, whole = np.flatnonzero(high >= p), view.question.edges
    first = int(possible[0]) if possible.size else view.question.buckets - 1
    small = np.flatnonzero(low < p)
    last = int(small[-1]) + 1 if small.size else 0
    return float(whole[min(first, last)]), float(whole[max(first, last) + 1])
