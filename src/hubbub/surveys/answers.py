"""Unbiased counts of every attribute of a survey, and their errors.

Every person has exactly one category of an attribute, so that the counts add up to n. With S̄ the mean number of
messages of its d categories, T̂_c = (S_c − S̄)/g + n/d, whatever the fakes were: they add the same to every category in
the mean. g is 1 among fakes, 1 − 2q for flipped bits and 1 − dq for randomized response.

The covariance of the counts is s²·(I − J/d) with J full of ones, but for randomized response among more than two
categories, whose variance depends on the counts.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.noise import drawn_sum, smooth
from hubbub.numeric.estimation import category_variance
from hubbub.numeric.population import CountNoise
from hubbub.plans import Plan
from hubbub.protocol import Fakes, Noise
from hubbub.reports import Tally
from hubbub.surveys.errors import answer_variance

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AnswerCounts:
    """The counts of one attribute: unbiased, adding up to n, with their covariance s²·(I − J/d)."""

    values: Array
    variance: float
    """s²; for randomized response among more than two categories the mean over the counts."""
    noise: CountNoise
    """The error of one count."""


def answer_counts(tally: Tally, plan: Plan) -> list[AnswerCounts]:
    """Return the counts of every attribute of a survey."""
    category = plan.protocol.sends_category
    found = []
    for attribute, noise in zip(plan.schema.attributes, plan.protocol.noise, strict=True):
        messages = tally.counts[attribute.start : attribute.stop].astype(np.float64)
        size, n = attribute.size, tally.n
        gain = 1 - (size if category else 2) * noise.q
        values = (messages - messages.mean()) / gain + n / size
        variance = _variance(noise, size, n, values, category=category, batches=tally.batches, sent=messages.sum())
        error = _count_noise(noise, size, n, variance, gain, category=category, batches=tally.batches)
        values.setflags(write=False)
        found.append(AnswerCounts(values=values, variance=variance, noise=error))
    return found


def _variance(noise: Noise, size: int, n: int, values: Array, *, category: bool, batches: int, sent: float) -> float:
    if noise.user_fakes is not None:
        return max(0.0, sent - n) / size  # the messages tell how many fakes there are
    if category and size > 2:
        each = category_variance(np.clip(values, 0, n), n, noise.q, size)
        return float(each.mean()) * size / (size - 1)
    return answer_variance(noise, size, n, category=category, batches=batches)


def _count_noise(
    noise: Noise, size: int, n: int, variance: float, gain: float, *, category: bool, batches: int
) -> CountNoise:
    """Return the error of one count: s²·(1 − 1/d), with the exact distribution of the shuffler's fakes."""
    if category:
        empty, one = category_variance([0, 1], n, noise.q, size).tolist()
        return CountNoise(variance=empty, gain=gain, growth=one - empty, flip=noise.q)
    error = variance * (1 - 1 / size)
    if noise.shuffler_fakes is not None and (exact := _drawn(noise.shuffler_fakes, size, variance, batches)):
        return exact
    return CountNoise(variance=error, gain=gain)


def _drawn(fakes: Fakes, size: int, variance: float, batches: int) -> CountNoise | None:
    """Return the error F_c − F̄ of one count, d/(d − 1) of which is F_c minus the mean of the others.

    Among two categories it is the difference of two draws. The mean of more than one other category, of which the
    variance is s²/(d − 1), is close enough to normal.
    """
    law = drawn_sum(fakes, 0.0, batches)
    if law is None:
        return None
    error = variance * (1 - 1 / size)
    if size == 2:
        return CountNoise(variance=error, gain=2.0, distribution=law.plus(law.flipped(0)), slack=1e-6)
    whole = smooth(law, variance / (size - 1))
    if whole is None:
        return None
    centre = float(np.arange(law.low, law.high + 1) @ law.pmf)
    return CountNoise(variance=error, gain=size / (size - 1), distribution=whole, centre=centre)


def linear_variance(counts: AnswerCounts, query: Array) -> float:
    """Return the variance of Σ query_c·T̂_c: s²·Σ (query_c − mean)².

    >>> one = AnswerCounts(values=np.array([4.0, 6.0]), variance=8.0, noise=CountNoise(variance=4.0))
    >>> linear_variance(one, np.array([0.0, 1.0]))
    4.0
    """
    return counts.variance * math.fsum((query - query.mean()) ** 2)
