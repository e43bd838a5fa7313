"""``NumberEstimate``: sum, mean and variance of a number, from the digits of its levels.

With digits of radix r_j at the places b_j, the sum of all levels is Σ_j b_j·Σ_c c·T̂_jc. Random rounding is unbiased, so
that low·n + step·(sum of levels) is unbiased for the sum of the clipped numbers; what clipping takes away cannot be
estimated from the data. Rounding adds at most a quarter of a squared step to the variance of each number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from hubbub.errors import NON_NEGATIVE, Infeasible, check_real, check_type, check_whole
from hubbub.numeric.population import check_finite
from hubbub.questions import Number
from hubbub.surveys.answers import AnswerCounts, linear_variance
from hubbub.surveys.design import place_values
from hubbub.surveys.measures import Measure, Of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumberEstimate:
    """Sum and mean of the clipped answers to a question, and their variance where it was asked for."""

    name: str
    question: Number
    n: int
    """People in the collection, with or without an answer."""
    total: float
    """Sum of the shares of the range, of those who answered."""
    total_variance: float
    """Its variance, rounding included."""
    answered: float
    """Estimated number of people who answered; n unless answers may be missing."""
    answered_variance: float
    squares: float | None = None
    """Sum of (2·share − 1)², if the variance was asked for."""
    squares_variance: float = 0.0
    remark: str = field(default="numbers outside of the bounds count as the nearest bound")

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_type("question", self.question, Number)
        check_whole("n", self.n)
        check_finite("total", self.total)
        check_finite("answered", self.answered)
        for name in ("total_variance", "answered_variance", "squares_variance"):
            check_real(name, getattr(self, name), NON_NEGATIVE)

    @classmethod
    def of(cls, name: str, question: Number, attributes: Sequence[AnswerCounts], n: int) -> "NumberEstimate":
        """Return the estimate from the counts of all attributes of the question."""
        answered, answered_variance = float(n), 0.0
        digits = list(attributes)
        if question.missing:
            present = digits.pop(0)
            answered = float(present.values[0])
            answered_variance = linear_variance(present, np.array([1.0, 0.0]))
        count = len(question.radices)
        rounding = max(answered, 0.0) / 4 / (question.levels - 1) ** 2
        total, variance = _total(question, digits[:count])
        squares: tuple[float, float] | None = _total(question, digits[count:]) if question.variance else None
        return cls(
            name=name,
            question=question,
            n=n,
            total=total,
            total_variance=variance + rounding,
            answered=answered,
            answered_variance=answered_variance,
            squares=squares[0] if squares else None,
            squares_variance=squares[1] + rounding if squares else 0.0,
        )

    @property
    def range(self) -> float:
        """The distance of the bounds."""
        return self.question.high - self.question.low

    @property
    def sum(self) -> Measure:
        """The sum of the answers of the people in the collection."""
        low, width = self.question.low, self.range
        value = width * self.total + low * self.answered
        deviation = math.sqrt(width**2 * self.total_variance + low**2 * self.answered_variance)

        def ends(level: float, of: Of) -> tuple[float, float]:
            if of == "population":
                raise Infeasible("a population has no sum that a sample could tell; use the mean")
            reach = _quantile(level) * deviation
            return value - reach, value + reach

        return Measure(name="sum", value=value, stderr=deviation, unit=self.question.unit, ends=ends)

    @property
    def mean(self) -> Measure:
        """The mean of those who answered: the ratio of two estimates where answers may be missing."""
        people = max(self.answered, 1.0)
        share = min(max(self.total / people, 0.0), 1.0)
        # The ratio of sum and number, by the first order of both.
        deviation = math.sqrt(self.total_variance + share**2 * self.answered_variance) / people
        low, width = self.question.low, self.range
        value = low + width * self.total / people

        def ends(level: float, of: Of) -> tuple[float, float]:
            sampled = math.sqrt(deviation**2 + self._spread(share) / people) if of == "population" else deviation
            reach = _quantile(level) * width * sampled
            return max(value - reach, low), min(value + reach, low + width)

        return Measure(name="mean", value=value, stderr=width * deviation, unit=self.question.unit, ends=ends)

    def _spread(self, share: float) -> float:
        """Return the variance of one answer in squared ranges: as estimated, or at most (1 − m)·m for the mean m.

        The bound is that of Bhatia and Davis (2000); intervals that use it err outwards.
        """
        most = max(share * (1 - share), 0.25 / max(self.answered, 1.0))
        if self.squares is None:
            return most
        error = math.sqrt(self.squares_variance) / max(self.answered, 1.0)
        # One standard error above the estimate, so that a low draw does not shorten the interval much.
        return min(max(self._shares_variance(share) + error / 4, 0.0), most)

    def _shares_variance(self, share: float) -> float:
        assert self.squares is not None
        people = max(self.answered, 1.0)
        noise = self.total_variance / people**2
        return self.squares / people / 4 - (share - 0.5) ** 2 + noise

    @property
    def variance(self) -> Measure:
        """The variance of the answers, where the question asked for it.

        v = mean of y − (mean of x − c)² + σ², y = (x − c)² around the middle c; its error is that of y, and of the
        squared mean: 4(m − c)²σ² + 2σ⁴.
        """
        if self.squares is None:
            raise Infeasible(f"the variance of {self.name!r} was not asked for; use Number(…, variance=True)")
        people, width = max(self.answered, 1.0), self.range
        share = self.total / people
        noise = self.total_variance / people**2
        value = width**2 * self._shares_variance(share)
        own = self.squares_variance / people**2 / 16
        deviation = width**2 * math.sqrt(own + 4 * (share - 0.5) ** 2 * noise + 2 * noise**2)

        def ends(level: float, of: Of) -> tuple[float, float]:
            # The variance of a squared distance of at most 1/4 is at most that of a coin with these values.
            sampled = width**2 * 0.125 / math.sqrt(people) if of == "population" else 0.0
            reach = _quantile(level) * math.hypot(deviation, sampled)
            return max(value - reach, 0.0), min(value + reach, width**2 / 4)

        unit = f"{self.question.unit}²" if self.question.unit else ""
        return Measure(name="variance", value=value, stderr=deviation, unit=unit, ends=ends)

    def __repr__(self) -> str:
        return f"NumberEstimate({self.name!r}: {self.mean}, n={self.n:,})"


def _total(question: Number, digits: Sequence[AnswerCounts]) -> tuple[float, float]:
    """Return the sum of all levels as shares of the range, and its variance."""
    total, variance = 0.0, 0.0
    for place, digit in zip(place_values(question), digits, strict=True):
        query = place * np.arange(digit.values.size, dtype=np.float64) / (question.levels - 1)
        total += float(query @ digit.values)
        variance += linear_variance(digit, query)
    return total, variance


def _quantile(level: float) -> float:
    return -float(ndtri((1 - level) / 2))
