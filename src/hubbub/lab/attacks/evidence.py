"""What an attack shows: simulated figures with intervals beside exact ones; and the crowds that are attacked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hubbub.bits.entropy import Entropy, draw
from hubbub.client import randomize
from hubbub.errors import check_whole
from hubbub.numeric.binomial import clopper_pearson
from hubbub.numeric.divergences import hockey_stick
from hubbub.pages import Chart, Series
from hubbub.plans import Plan
from hubbub.records import Collection
from hubbub.schema import Schema

LEVEL = 0.999
"""Of the intervals around simulated figures: dozens of them must hold at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One simulated figure, the interval around it, and what it should be."""

    series: str
    x: float
    exact: float
    seen: float
    low: float
    high: float

    @property
    def agrees(self) -> bool:
        """Whether the exact figure lies in the interval of the simulated one."""
        return self.low <= self.exact <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A demonstration: what it shows in two sentences, its figures, and its pictures by name."""

    name: str
    title: str
    sentences: tuple[str, str]
    x: str
    """What the readings are a function of."""
    y: str
    """What the readings are."""
    readings: Sequence[Reading]
    pictures: Mapping[str, Chart]
    captions: Mapping[str, str]


def rate(hits: int, trials: int, level: float = LEVEL) -> tuple[float, float, float]:
    """A simulated rate and its interval, which covers the true one with at least the level (Clopper, Pearson 1934).

    >>> [round(x, 4) for x in rate(0, 100, 0.95)], [round(x, 3) for x in rate(50, 100, 0.95)]
    ([0.0, 0.0, 0.0362], [0.5, 0.398, 0.602])
    """
    trials = check_whole("trials", trials, 1)
    hits = check_whole("hits", hits, 0, trials)
    low, high = clopper_pearson(hits, trials, (1 - level) / 2)
    return hits / trials, float(low), float(high)


def rate_reading(series: str, x: float, exact: float, right: NDArray[np.bool_]) -> Reading:
    """How often an attack succeeded, beside how often it should.

    >>> rate_reading("guess", 1.0, 0.5, np.array([True, False] * 50)).agrees
    True
    """
    seen, low, high = rate(int(right.sum()), right.size)
    return Reading(series=series, x=x, exact=exact, seen=seen, low=low, high=high)


def mean_reading(series: str, x: float, exact: float, values: NDArray[np.float64], sigma: float) -> Reading:
    """The mean of simulated values of a known standard deviation, beside what it should be.

    >>> mean_reading("bias", 1.0, 2.0, np.array([1.0, 3.0]), 1.0).seen
    2.0
    """
    mean, reach = float(values.mean()), -float(ndtri((1 - LEVEL) / 2)) * sigma / math.sqrt(values.size)
    return Reading(series=series, x=x, exact=exact, seen=mean, low=mean - reach, high=mean + reach)


def simulated(label: str, readings: Sequence[Reading], colour: str = "") -> Series:
    """Return readings as dots with intervals, in the colour of the curve that they belong to."""
    points = [(r.x, r.seen, r.low, r.high) for r in readings]
    return Series(label=label, points=points, kind="dots", colour=colour)


def coins(count: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Fair coins: which of two answers the attacked person of each trial has.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> 400 < int(coins(1000, SeededStreamNotForPeople(7)).sum()) < 600
    True
    """
    return (draw(entropy, count, np.uint8) & 1).astype(np.bool_)


def bits_shown(truth: NDArray[np.bool_], plan: Plan, entropy: Entropy) -> NDArray[np.uint8]:
    """What the devices of people with these bits send, by the real client; in the shape of the truth."""
    people = Collection.from_packed(truth.reshape(-1, 1).astype(np.uint8), Schema.bits(1))
    return randomize(people, plan, entropy=entropy).messages.reshape(truth.shape)


def log_ratio(one: NDArray[np.float64], zero: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln(one/zero) of two laws on one interval, the best statistic to tell them apart (Neyman, Pearson 1933).

    >>> log_ratio(np.array([0.5, 0.5]), np.array([1.0, 0.0])).tolist()
    [-0.6931471805599453, 700.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.clip(np.nan_to_num(np.log(one) - np.log(zero)), -700.0, 700.0))


def tell_apart(one: NDArray[np.float64], zero: NDArray[np.float64]) -> float:
    """How often the best guess between two equally likely laws is right: ½(1 + δ(0)).

    >>> tell_apart(np.array([0.75, 0.25]), np.array([0.25, 0.75]))
    0.75
    """
    return 0.5 * (1 + hockey_stick(one, zero, 0.0))
