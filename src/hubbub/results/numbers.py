"""``NumberView``: sum, mean and variance of a number, from the digits of its levels.

With digits of radix r_j at the places b_j, the sum of all levels is Σ_j b_j·Σ_c c·T̂_jc. Random rounding is unbiased, so
that low·n + step·(sum of levels) is unbiased for the sum of the clipped numbers; what clipping takes away cannot be
estimated from the data. Rounding adds at most a quarter of a squared step to the variance of each number.

Intervals use the tails of the noise (:mod:`hubbub.numeric.tails`). The mean of those who answered is a ratio where
answers may be missing, and its interval that of Fieller (1954).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import Infeasible, check_type, check_whole, reject
from hubbub.mechanisms.design import place_values
from hubbub.model.questions import Number
from hubbub.numeric import portable
from hubbub.numeric.population import population_interval
from hubbub.numeric.tails import ErrorSums
from hubbub.pipeline.reports import MAX_DECLARED
from hubbub.results.answers import AnswerCounts, sizes_of, summed_noise
from hubbub.results.figures import FIGURES, Figure, Of, answered_figure, figure_rows
from hubbub.results.frames import LEVEL, Columns, Table

Array = NDArray[np.float64]
REMARK = "numbers outside of the bounds count as the nearest bound"


@dataclass(frozen=True, slots=True)
class Total:
    """An estimated sum, its variance, and the variances of the independent parts of its noise with their excess."""

    value: float
    variance: float
    parts: tuple[tuple[float, float], ...] = ()

    def scaled(self, factor: float) -> "Total":
        """Return a multiple."""
        square = factor * factor
        parts = tuple((square * part, excess) for part, excess in self.parts)
        return Total(factor * self.value, square * self.variance, parts)

    def plus(self, other: "Total") -> "Total":
        """Return the sum with an independent one.

        >>> Total(1.0, 4.0, ((4.0, 3.0),)).plus(Total(2.0, 1.0)).reach(0.05) > 1.96 * math.sqrt(5)
        True
        """
        return Total(self.value + other.value, self.variance + other.variance, self.parts + other.parts)

    def reach(self, miss: float) -> float:
        """Return the distance that the error exceeds with probability ``miss``."""
        if self.variance <= 0:
            return 0.0
        rest = max(0.0, self.variance - math.fsum(part for part, _ in self.parts))
        shares = np.array([[*(part for part, _ in self.parts), rest]])
        excesses = np.array([*(excess for _, excess in self.parts), 0.0])
        return float(ErrorSums(shares, np.ones_like(shares), excesses).reach(miss)[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NumberView(Table):
    """Sum and mean of the clipped answers to a question, and their variance where it was asked for.

    One malicious client that sends a message for each attribute moves the sum by at most one range, as an honest change
    of mind can; one that puts all its messages on one digit moves it further.
    """

    name: str
    question: Number
    n: int
    """People in the collection, with or without an answer."""
    attributes: tuple[AnswerCounts, ...]
    """Counts of all attributes: of answers where they may be missing, of digits, of digits of squares."""

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_type("question", self.question, Number)
        check_whole("n", self.n, 0, MAX_DECLARED)
        if sizes_of(self.attributes) != list(self.question.sizes):
            reject("attributes", "be the counts of every attribute of the question")

    @property
    def range(self) -> float:
        """The distance of the bounds."""
        return self.question.high - self.question.low

    @property
    def answered(self) -> float:
        """Estimated number of people who answered; n unless answers may be missing."""
        return self._answered().value

    @property
    def total(self) -> float:
        """Estimated sum of the answers as shares of the range: from 0 to the number of people, but for noise."""
        return self._total().value

    def _answered(self) -> Total:
        if not self.question.missing:
            return Total(float(self.n), 0.0)
        return _linear(self.attributes[0], np.array([1.0, 0.0]))

    def _total(self, *, squares: bool = False) -> Total:
        """Return the sum of all answers, or of (2·share − 1)², as shares of the range, rounding included."""
        question = self.question
        count, first = len(question.radices), int(question.missing)
        digits = self.attributes[first + count :] if squares else self.attributes[first : first + count]
        found = Total(0.0, max(self.answered, 0.0) / 4 / (question.levels - 1) ** 2)
        for place, digit in zip(place_values(question), digits, strict=True):
            query = place * np.arange(digit.values.size, dtype=np.float64) / (question.levels - 1)
            found = found.plus(_linear(digit, query))
        return found

    @property
    def _slack(self) -> float:
        """Half of a step in shares of the range: sums are those of whole levels."""
        return 0.5 / (self.question.levels - 1)

    @property
    def sum(self) -> Figure:
        """The sum of the answers of the people in the collection."""
        whole = self._total().scaled(self.range).plus(self._answered().scaled(self.question.low))

        def ends(level: float, of: Of) -> tuple[float, float]:
            reach = whole.reach(1 - level) + self.range * self._slack
            return whole.value - reach, whole.value + reach

        deviation = math.sqrt(whole.variance)
        return Figure(
            name="sum", value=whole.value, stderr=deviation, unit=self.question.unit, ends=ends, covers=("people",)
        )

    @property
    def mean(self) -> Figure:
        """The mean of those who answered: the ratio of two estimates where answers may be missing.

        Of the population: the sum is treated as a binomial count, which has the largest variance of all sums of numbers
        between the bounds (Bhatia and Davis 2000) and errs outwards; or with the estimated variance, if it was asked
        for, and one further answer at the far end of the range, for rare answers that nobody in the collection gave.
        """
        total, answered = self._total(), self._answered()
        people = max(answered.value, 1.0)
        share = min(max(total.value / people, 0.0), 1.0)
        # The ratio of sum and number, by the first order of both.
        deviation = math.sqrt(total.variance + share**2 * answered.variance) / people
        low, width = self.question.low, self.range

        def ends(level: float, of: Of) -> tuple[float, float]:
            first, last = self._mean_ends(total, answered, share, level, "people")
            if of == "population":
                wide = self._mean_ends(total, answered, share, level, of)
                first, last = min(first, wide[0]), max(last, wide[1])
            # Where the noise moved the whole interval beyond a bound, the bound is the nearest that is possible.
            return low + width * min(max(first, 0.0), 1.0), low + width * max(min(last, 1.0), 0.0)

        value = low + width * total.value / people
        return Figure(name="mean", value=value, stderr=width * deviation, unit=self.question.unit, ends=ends)

    def _mean_ends(self, total: Total, answered: Total, share: float, level: float, of: Of) -> tuple[float, float]:
        """Return an interval of the mean as a share of the range; (0, 1) if it is not certain that anybody answered."""
        if self.n == 0:
            return 0.0, 1.0
        known = self.question.variance
        if of == "population" and not known and not self.question.missing:
            noise = summed_noise(total.variance, total.parts)
            first, last = population_interval(np.array([total.value]), self.n, noise, 1 - level)
            return float(first[0]), float(last[0])
        both = total.plus(answered.scaled(-share))
        square = (both.reach(1 - level) / max(math.sqrt(both.variance), 1e-300)) ** 2
        people, slack = answered.value, self._slack
        # (S − F·A)² ≤ z²·(V_S + F²·V_A + sampling), a quadratic inequality in F.
        sampled = spread = 0.0
        if of == "population":
            slack += 0.5
            if known:
                spread = max(people, 0.0) * self._spread() + 1.0
            else:
                sampled = max(people, 0.0)
        a = people**2 - square * (answered.variance - sampled)
        if a <= 0 or people <= 0:
            return 0.0, 1.0

        def root(value: float, sign: int) -> float:
            b = 2 * value * people + square * sampled
            c = value**2 - square * (total.variance + spread)
            return (b + sign * math.sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a)

        # Of the population, sums that nobody can have count as the nearest possible one, as counts of labels do.
        value = total.value if of == "people" else min(max(total.value, 0.0), people)
        return root(value - slack, -1), root(value + slack, 1)

    def _spread(self) -> float:
        """Return the estimated variance of one answer in squared ranges, raised by its standard error."""
        found = self.variance
        square = self.range**2
        return min(max(found.value + found.stderr, 0.0) / square, 0.25)

    @property
    def variance(self) -> Figure:
        """The variance of the answers, where the question asked for it.

        v = mean of y − (m − c)² + σ², with y = (x − c)² around the middle c, and σ² the variance of the mean m; its
        error is that of y, and of the squared mean: 4(m − c)²σ² + 2σ⁴. Its interval combines those of both (Zou and
        Donner 2008): the error of the square is larger on the side where m is farther from c, and its variance, taken
        at the estimate, too small whenever the noise moves m towards c. The sampling error of the population is at
        most that of Bhatia and Davis for squared distances from the mean.
        """
        if not self.question.variance:
            raise Infeasible(f"the variance of {self.name!r} was not asked for; use Number(…, variance=True)")
        total, squares, answered = self._total(), self._total(squares=True), self._answered()
        people, width = max(answered.value, 1.0), self.range
        share, far = total.value / people, squares.value / people / 4
        noise = (total.variance + share**2 * answered.variance) / people**2
        value = far - (share - 0.5) ** 2 + noise
        middle = share - 0.5
        linear = squares.scaled(0.25 / people).plus(answered.scaled((2 * middle * share - far) / people))
        error = linear.plus(total.scaled(-2 * middle / people)).plus(Total(0.0, 2 * noise**2))
        deviation = math.sqrt(error.variance)
        unit = f"{self.question.unit}²" if self.question.unit else ""

        def ends(level: float, of: Of) -> tuple[float, float]:
            if answered.value <= 0:
                return 0.0, width**2 / 4
            miss = 1 - level
            known, mean = linear.reach(miss), total.reach(miss) / people
            farthest, nearest = (abs(middle) + mean) ** 2, max(abs(middle) - mean, 0.0) ** 2
            square = middle**2 - noise
            down = math.hypot(known, farthest - square)
            up = math.hypot(known, max(square - nearest, 0.0))
            if nearest > 0.25:  # no mean within the bounds is likely: all that is known of it is the bound
                up = max(up, known + square - 0.25)
            if of == "population":
                inner = min(max(share, 0.0), 1.0)
                most = max(inner, 1 - inner) ** 2
                likely = min(max(value + deviation, 0.0), inner * (1 - inner)) + 1 / people
                sampled = math.sqrt(max(likely * (most - likely), 0.0) / people)
                sampled *= error.reach(miss) / max(deviation, 1e-300)
                down, up = (math.hypot(reach, sampled) + 0.5 / people for reach in (down, up))
            return width**2 * min(max(value - down, 0.0), 0.25), width**2 * min(max(value + up, 0.0), 0.25)

        return Figure(name="variance", value=width**2 * value, stderr=width**2 * deviation, unit=unit, ends=ends)

    def figures(self) -> tuple[Figure, ...]:
        """Return mean and sum, the variance if it was asked for, the number of answers if some may be missing."""
        found = [self.mean, self.sum, *((self.variance,) if self.question.variance else ())]
        if self.question.missing:
            whole = self._answered()
            noise = summed_noise(whole.variance, whole.parts)
            found.append(answered_figure(whole.value, self.n, noise, whole.reach))
        return tuple(found)

    def columns(self, level: float | None = None) -> Columns:
        """Return a row for each figure: value, standard error, both intervals; NaN where there is none."""
        found = figure_rows(self.figures(), LEVEL if level is None else level)
        return {"figure": found["item"], **{name: found[name] for name in FIGURES}}

    def _rows(self, level: float, *, simultaneous: bool = False) -> Columns:
        """Return the rows of the view in the table of a result; each interval holds on its own."""
        del simultaneous
        return figure_rows(self.figures(), level)

    def __repr__(self) -> str:
        return f"NumberView({self.name!r}: {self.mean}, n={self.n:,})"


def _linear(counts: AnswerCounts, query: Array) -> Total:
    """Return a linear query of the counts of one attribute."""
    weights = query - query.mean()
    parts = tuple((counts.variance * weight**2, counts.excess) for weight in weights.tolist() if weight)
    return Total(float(portable.dot(query, counts.values)), counts.linear_variance(query), parts)
