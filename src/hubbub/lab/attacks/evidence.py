"""Evidence of an attack: simulated values with confidence intervals beside exact ones, and the page that shows them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hubbub.bits.entropy import Entropy, draw
from hubbub.errors import check_whole, reject
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import clopper_pearson
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.report import Chart, Figure, Report, Section, Series, Table, render

LEVEL = 0.999  # confidence of the intervals, of which dozens must hold at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A simulated value with its confidence interval, beside the exact value."""

    series: str
    x: float
    exact: float
    seen: float
    low: float
    high: float

    @property
    def agrees(self) -> bool:
        """True if the interval contains the exact value."""
        return self.low <= self.exact <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A demonstration: two sentences, readings, and figures by name."""

    name: str
    title: str
    sentences: tuple[str, str]
    x: str  # the independent variable of the readings
    y: str = "success rate of the guess"  # the quantity that they estimate
    readings: Sequence[Reading]
    pictures: Mapping[str, Chart]
    captions: Mapping[str, str]


def rate(hits: int, trials: int, level: float = LEVEL) -> tuple[float, float, float]:
    """Return a simulated rate and its confidence interval (Clopper and Pearson 1934).

    >>> [round(x, 4) for x in rate(0, 100, 0.95)], [round(x, 3) for x in rate(50, 100, 0.95)]
    ([0.0, 0.0, 0.0362], [0.5, 0.398, 0.602])
    """
    trials = check_whole("trials", trials, 1)
    hits = check_whole("hits", hits, 0, trials)
    low, high = clopper_pearson(hits, trials, (1 - level) / 2)
    return hits / trials, float(low), float(high)


def rate_reading(series: str, x: float, exact: float, right: NDArray[np.bool_]) -> Reading:
    """Return the success rate of an attack beside its exact value.

    >>> rate_reading("guess", 1.0, 0.5, np.array([True, False] * 50)).agrees
    True
    """
    seen, low, high = rate(int(right.sum()), right.size)
    return Reading(series=series, x=x, exact=exact, seen=seen, low=low, high=high)


def mean_reading(series: str, x: float, exact: float, values: NDArray[np.float64], sigma: float) -> Reading:
    """Return the mean of simulated values of known standard deviation beside its exact value.

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
    """Draw fair coins: the victim's bit in each trial.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> 400 < int(coins(1000, SeededStreamNotForPeople(7)).sum()) < 600
    True
    """
    return (draw(entropy, count, np.uint8) & 1).astype(np.bool_)


def check_no_survey(schema: Schema) -> None:
    """Raise if the schema is that of a survey, on which no attack is demonstrated.

    >>> from hubbub.model.questions import Flag
    >>> check_no_survey(Schema.survey({"dark mode": Flag()}))
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: the plan must not be that of a survey; attacks are demonstrated on bits and labels only
    """
    if schema.named:
        reject("the plan", "not be that of a survey; attacks are demonstrated on bits and labels only")


def victims(trials: int, n: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Draw the bits of n people in each trial: a fair coin for the victim, who is first, and a one for all others."""
    truth = np.ones((trials, n), np.bool_)
    truth[:, 0] = coins(trials, entropy)
    return truth


def bits_shown(truth: NDArray[np.bool_], plan: Plan, entropy: Entropy) -> NDArray[np.uint8]:
    """Return the bits that the real client sends for people with these bits, in the same shape."""
    people = Collection.from_packed(truth.reshape(-1, 1).astype(np.uint8), Schema.bits(1))
    return randomize(people, plan, entropy=entropy).messages.reshape(truth.shape)


def log_ratio(one: NDArray[np.float64], zero: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln(one/zero) of two distributions, the optimal statistic to tell them apart (Neyman and Pearson 1933).

    >>> log_ratio(np.array([0.5, 0.5]), np.array([1.0, 0.0])).tolist()
    [-0.6931471805599453, 700.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.clip(np.nan_to_num(np.log(one) - np.log(zero)), -700.0, 700.0))


def count_scores(counts: NDArray[np.int64], n: int, q: float) -> NDArray[np.float64]:
    """Return the log-likelihood ratio of a victim's bit for counts of n people, of whom all others have a one.

    >>> count_scores(np.array([0, 1]), 1, 0.25).round(3).tolist()
    [-1.099, 1.099]
    """
    zero, one = neighbours(n, n - 1, q)
    scores: NDArray[np.float64] = log_ratio(one.pmf, zero.pmf)[np.clip(counts, one.low, one.high) - one.low]
    return scores


def tell_apart(one: NDArray[np.float64], zero: NDArray[np.float64]) -> float:
    """Return the success rate of the best guess between two equally likely distributions: ½(1 + δ(0)).

    >>> tell_apart(np.array([0.75, 0.25]), np.array([0.25, 0.75]))
    0.75
    """
    return 0.5 * (1 + hockey_stick(one, zero, 0.0))


def page(attacks: Sequence[Attack]) -> str:
    """Return the whole page."""
    return render(
        Report(
            title="hubbub: attacks",
            heading="What goes wrong, and how much",
            lede="Four attacks on synthetic people. Curves are computed exactly; dots were simulated through the real "
            f"client, with intervals that hold in {LEVEL:.1%} of all cases.",
            sections=[*map(_section, attacks)],
            note="the people are synthetic; this page loads and sends nothing.",
        )
    )


def _section(shown: Attack) -> Section:
    readings = Table(
        ("attack", shown.x, "exact", "simulated", "interval"),
        [
            (r.series, f"{r.x:g}", f"{r.exact:.4f}", f"{r.seen:.4f}", f"{r.low:.4f} – {r.high:.4f}")
            for r in shown.readings
        ],
        folded=f"The figures: {shown.y}",
    )
    figures = [Figure(picture, shown.captions[name]) for name, picture in shown.pictures.items()]
    return Section(shown.title, [" ".join(shown.sentences), *figures, readings], id=shown.name)
