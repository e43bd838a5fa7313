"""Unbiased counts of every attribute of a survey, and their errors.

Every person has exactly one category of an attribute, so that the counts add up to n. With S̄ the mean number of
messages of its d categories, T̂_c = (S_c − S̄)/g + n/d, whatever the fakes were: they add the same to every category in
the mean. g is 1 among fakes, 1 − 2q for flipped bits and 1 − dq for randomized response.

The covariance of the counts is s²·(I − J/d) with J full of ones. Randomized response among more than two categories
adds the growth dq/(1 − dq) times the variance of the true counts: a linear query w whose weights add up to 0 has the
variance s²·Σ w_c² + growth·Σ T_c·w_c².
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Fields, Json, legal
from hubbub.mechanisms.errors import LEAST_VARIANCE
from hubbub.mechanisms.mechanism import label_mechanisms
from hubbub.mechanisms.noise import noise_document, noise_from_document, pooled_noise
from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes
from hubbub.model.questions import Number, Scale
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.estimation import counts_of_total
from hubbub.numeric.population import CountNoise
from hubbub.numeric.tails import ErrorSums
from hubbub.pipeline.reports import Tally

Array = NDArray[np.float64]
KEYS = ("values", "variance", "growth", "excess", "noise")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AnswerCounts:
    """The counts of one attribute: unbiased, adding up to n, with their covariance."""

    values: Array
    variance: float
    """s², the part of the variance that does not depend on the counts."""
    growth: float = 0.0
    """Increase of the variance with the counts; 0 unless categories are released."""
    excess: float = 0.0
    """Excess kurtosis of the noise of one category: 3 for the Laplace fakes of one batch."""
    noise: CountNoise
    """The error of one count."""

    def linear_variance(self, query: Array) -> float:
        """Return the variance of Σ query_c·T̂_c.

        >>> one = AnswerCounts(values=np.array([4.0, 6.0]), variance=8.0, noise=CountNoise(variance=4.0))
        >>> one.linear_variance(np.array([0.0, 1.0]))
        4.0
        """
        weights = query - query.mean()
        own = self.variance * math.fsum(weights**2)
        return own + self.growth * max(0.0, float(portable.dot(np.maximum(self.values, 0.0), weights**2)))

    @property
    def mean_variance(self) -> float:
        """The variance of one category on average, by which the levels and tables of a question are weighted."""
        return max(self.variance + self.growth * float(self.values.mean()), LEAST_VARIANCE)

    def to_document(self) -> dict[str, Json]:
        """Return the counts as a JSON object."""
        return {
            "values": self.values.tolist(),
            "variance": self.variance,
            "growth": self.growth,
            "excess": self.excess,
            "noise": noise_document(self.noise),
        }

    @classmethod
    def from_document(cls, value: Json, what: str, schema: Schema, n: int) -> "AnswerCounts":
        """Read the counts from a JSON object."""
        del schema, n
        read = Fields(value, what, *KEYS)
        values = np.array(read.reals("values"), np.float64)
        values.setflags(write=False)
        with legal(what):
            return cls(
                values=values,
                variance=read.real("variance"),
                growth=read.real("growth"),
                excess=read.real("excess"),
                noise=noise_from_document(read["noise"], f"the noise of {what}"),
            )


def sizes_of(counts: object) -> list[int]:
    """Return the number of categories of each attribute; none unless it is a tuple of counts."""
    if not isinstance(counts, tuple) or not all(isinstance(one, AnswerCounts) for one in counts):
        return []
    return [one.values.size for one in counts]


def answer_counts(tally: Tally, plan: Plan) -> list[AnswerCounts]:
    """Return the counts of every attribute of a survey."""
    named, found, n = dict(plan.schema.questions.items), [], tally.n
    for one in label_mechanisms(plan.protocol, plan.schema):
        column = one.column
        messages = tally.counts[column.start : column.stop].astype(np.float64)
        values = counts_of_total(messages, n, one.gain)
        values.setflags(write=False)
        variance, growth = one.observed_variance(n, float(messages.sum()), tally.batches)
        drawn = one.noise.shuffler_fakes
        # The distribution of one count is needed for tables only.
        alone = isinstance(named[column.question], Scale | Number)
        error = one.count_noise(n, variance, 0 if alone else tally.batches)
        found.append(
            AnswerCounts(
                values=values,
                variance=variance,
                growth=growth,
                excess=excess_of(drawn) / max(tally.batches, 1) if drawn is not None else 0.0,
                noise=error,
            )
        )
    return found


@functools.lru_cache(256)
def excess_of(fakes: Fakes) -> float:
    """Return the excess kurtosis of a number of fakes, 0 if its tails are no longer than normal ones."""
    pmf = fakes.pmf
    number = np.arange(pmf.size) - fakes.mean
    found = float(portable.dot((number * number) ** 2, pmf)) / max(fakes.variance**2, 1e-300) - 3
    return found if found > 1e-3 else 0.0


def pooled_counts(parts: Sequence[AnswerCounts], people: Sequence[int]) -> AnswerCounts:
    """Return the sum of the counts of different people, given the number of people of each part.

    >>> one = AnswerCounts(values=np.array([4.0, 6.0]), variance=8.0, excess=3.0, noise=CountNoise(variance=4.0))
    >>> both = pooled_counts([one, one], [10, 10])
    >>> both.values.tolist(), both.variance, both.excess
    ([8.0, 12.0], 16.0, 1.5)
    """
    values = np.asarray(sum(part.values for part in parts), np.float64)
    values.setflags(write=False)
    variance = math.fsum(part.variance for part in parts)
    fourth = math.fsum(part.excess * part.variance**2 for part in parts)
    return AnswerCounts(
        values=values,
        variance=variance,
        growth=math.fsum(n * part.growth for n, part in zip(people, parts, strict=True)) / max(sum(people), 1),
        excess=fourth / max(variance**2, 1e-300),
        noise=pooled_noise([(n, part.noise) for n, part in zip(people, parts, strict=True)]),
    )


def summed_noise(variance: float, parts: Sequence[tuple[float, float]]) -> CountNoise:
    """Return the error of a linear estimate: normal, or in cells if its tails are longer.

    ``parts`` are the variances of its independent parts with their excess kurtosis; the rest of the variance is normal.

    >>> summed_noise(9.0, [(4.0, 0.0), (5.0, 0.0)]).distribution is None, summed_noise(4.0, [(4.0, 3.0)]).gain
    (True, 4.0)
    """
    if variance <= 0 or not any(excess > 0 and part > 0 for part, excess in parts):
        return CountNoise(variance=max(variance, 0.0))
    rest = max(0.0, variance - math.fsum(part for part, _ in parts))
    shares = np.array([[*(part for part, _ in parts), rest]])
    sums = ErrorSums(shares, np.ones_like(shares), np.array([*(excess for _, excess in parts), 0.0]))
    drawn, gain = sums.distribution()
    return CountNoise(variance=variance, gain=gain, distribution=drawn)
