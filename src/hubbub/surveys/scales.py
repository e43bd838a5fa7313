"""``ScaleEstimate``: the distribution of a number over buckets, its quantiles, and bands that hold for all of it.

The levels of a scale are combined by least squares (:mod:`hubbub.numeric.trees`). A band covers the number of people
below every edge at once: normal intervals whose level is raised for their number (Šidák 1967, valid for all
correlations of normal errors), with monotone ends. For the population the largest distance of an empirical distribution
function is added (Massart 1990), with half of the error each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from hubbub.errors import OPEN_UNIT, PROBABILITY, check_choice, check_real, check_type, check_whole
from hubbub.frames import Columns, to_arrow, to_pandas, to_polars
from hubbub.numeric.trees import Tree
from hubbub.numeric.vectors import check_vector
from hubbub.questions import Scale
from hubbub.surveys.answers import AnswerCounts
from hubbub.surveys.design import tree
from hubbub.surveys.measures import LEVEL, Measure, Of

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScaleEstimate:
    """Estimated number of people in each bucket, and everything that follows from them."""

    name: str
    question: Scale
    n: int
    """People in the collection, with or without an answer."""
    values: Array
    """Unbiased number of people in each bucket; small ones may be below 0."""
    answered: float
    """Estimated number of people who answered; n unless answers may be missing."""
    levels: Tree

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_type("question", self.question, Scale)
        check_whole("n", self.n)
        check_vector("values", self.values, np.float64, self.question.buckets)
        check_type("levels", self.levels, Tree)

    @classmethod
    def of(cls, name: str, question: Scale, attributes: Sequence[AnswerCounts], n: int) -> "ScaleEstimate":
        """Return the estimate from the counts of all levels."""
        levels = tree(question, [1 / max(one.variance, 1e-12) for one in attributes])
        leaves, absent = levels.leaves([one.values for one in attributes], n)
        values = leaves[: question.buckets].copy()
        values.setflags(write=False)
        return cls(name=name, question=question, n=n, values=values, answered=n - absent, levels=levels)

    @property
    def edges(self) -> Array:
        """Edges between two buckets: all but the first and the last."""
        return np.array(self.question.edges[1:-1])

    def cdf(self) -> tuple[Array, Array, Array]:
        """Return the edges between buckets, the estimated share below each, and the standard errors of the shares."""
        below = np.cumsum(self.values)[:-1]
        share = below / max(self.answered, 1.0)
        return self.edges, share, self._deviations(share)

    def _deviations(self, share: Array) -> Array:
        """Return the standard errors of the shares: those of a ratio where answers may be missing."""
        right = np.arange(1, self.question.buckets, dtype=np.float64)
        people, levels = max(self.answered, 1.0), self.levels
        variance = levels.prefix_variance(right)
        if levels.missing:
            first, whole = float(levels.weights[0]), levels.buckets
            known = levels.total_variance() + 1 / levels.absent_precision
            both = right / first * (1 - whole / first / known)
            variance = variance - 2 * share * both + share**2 * levels.absent_variance()
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)) / people)

    def band(self, level: float = LEVEL, *, of: Of = "collection") -> tuple[Array, Array]:
        """Return lower and upper shares at all edges that hold for all of them at once with probability ``level``."""
        level = check_real("level", level, OPEN_UNIT)
        check_choice("of", of, ("collection", "population"))
        _, share, deviation = self.cdf()
        miss, sampling = 1 - level, 0.0
        if of == "population":
            miss /= 2
            sampling = math.sqrt(math.log(2 / miss) / (2 * max(self.answered, 1.0)))
        count = max(share.size, 1)
        z = -float(ndtri(-math.expm1(math.log1p(-miss) / count) / 2))
        low = np.maximum.accumulate(share - z * deviation - sampling)
        high = np.minimum.accumulate((share + z * deviation + sampling)[::-1])[::-1]
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    def quantile(self, p: float) -> Measure:
        """Return the number below which the share p of the answers lies.

        Its interval inverts the band, so that the intervals of all quantiles hold at once; an end beyond the first or
        the last edge is the bound of the scale.
        """
        p = check_real("p", p, PROBABILITY)
        whole = np.array(self.question.edges)

        def ends(level: float, of: Of) -> tuple[float, float]:
            low, high = self.band(level, of=of)
            # Below an edge whose upper share is less than p lies too little, below one whose lower share is p enough.
            first = int(np.searchsorted(high, p, side="left"))
            last = int(np.searchsorted(low, p, side="left"))
            return float(whole[first]), float(whole[min(last + 1, whole.size - 1)])

        value = self._inverse(p)
        low, high = ends(0.6827, "collection")
        return Measure(
            name=f"{100 * p:g} % quantile", value=value, stderr=(high - low) / 2, unit=self.question.unit, ends=ends
        )

    @property
    def median(self) -> Measure:
        """The number below which half of the answers lie."""
        return self.quantile(0.5)

    def _inverse(self, p: float) -> float:
        """Return the quantile of the nearest distribution function that does not fall, linear within buckets."""
        _, share, _ = self.cdf()
        rising = isotonic_regression(np.clip(share, 0.0, 1.0)).x
        shares = np.concatenate([[0.0], rising, [1.0]])
        return float(np.interp(p, shares, np.array(self.question.edges)))

    def columns(self, level: float = LEVEL) -> Columns:
        """Return a row for each edge between two buckets: share below it, standard error, both bands."""
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

    def to_arrow(self, level: float = LEVEL) -> object:
        """Return a PyArrow table with a row for each edge; needs the extra ``frames``."""
        return to_arrow(self.columns(level))

    def to_pandas(self, level: float = LEVEL) -> object:
        """Return a pandas data frame with a row for each edge; needs the extra ``frames``, and pandas."""
        return to_pandas(self.columns(level))

    def to_polars(self, level: float = LEVEL) -> object:
        """Return a Polars data frame with a row for each edge; needs the extra ``frames``, and Polars."""
        return to_polars(self.columns(level))

    def __repr__(self) -> str:
        return f"ScaleEstimate({self.name!r}: {self.median}, n={self.n:,})"
