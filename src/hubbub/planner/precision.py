"""Precision in the analyst's terms: a label held by a share of the population, measured within a relative error.

The people of a batch are a sample of the population, so the error of an estimated share has two parts: the choice of
the people, and the noise of the protocol. The distribution of both together is computed, not approximated by a normal
one, because the counts behind small shares are small.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hubbub.errors import OPEN_UNIT, POSITIVE, SHARE, Interval, check_real, check_type, check_whole, reject
from hubbub.mechanisms.errors import question_errors
from hubbub.mechanisms.noise import FakeCount, count_noise, fake_noise, known_total
from hubbub.model.plans import MAX_PEOPLE, Plan
from hubbub.model.protocol import Protocol
from hubbub.model.questions import Number
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.population import CountNoise, sampled_count
from hubbub.results.answers import excess_of, summed_noise

Array = NDArray[np.float64]
LEVEL = 0.95
WITHIN = Interval(0.0, 1.0, open_low=True)
"""Relative errors that may be asked for; more than 100 % tells nothing about a count."""
MAX_EXACT_SPREAD = 1000.0
"""Standard deviation in messages up to which counts are whole numbers; larger ones are computed in larger steps."""
WINDOW = 26.0  # width of the table in standard deviations; beyond it lies a probability of less than 10⁻⁷
BINS = 200  # to a standard deviation, if the counts of all labels add up to n
STEPS = 40  # halvings that find a quantile


@dataclass(frozen=True, slots=True)
class Goal:
    """A label held by ``share`` of the population is to be measured ``within`` a relative error, at a confidence level.

    >>> str(Goal(0.001, 0.1))
    'a label held by 0.1% of the people within ±10% at the 95% level'
    """

    share: float
    within: float
    level: float = LEVEL

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", check_real("share", self.share, SHARE))
        object.__setattr__(self, "within", check_real("within", self.within, WITHIN))
        object.__setattr__(self, "level", check_real("level", self.level, OPEN_UNIT))

    def __str__(self) -> str:
        return f"a label held by {percent(self.share)} of the people within ±{percent(self.within)} {_at(self.level)}"

    @property
    def sample_size(self) -> float:
        """About how many people the sampling error alone requires: z²(1 − share)/(share·within²)."""
        return normal_quantile(self.level) ** 2 * (1 - self.share) / (self.share * self.within**2)

    def people(self, stderr: float) -> float:
        """Return about how many people are needed if the noise of a count has this standard error σ, for any n.

        A share s has the variance s(1 − s)/n + σ²/n²: with r = within and z the normal quantile, n is the larger root,
        (z²·s(1 − s) + √(z⁴·s²(1 − s)² + 4·r²s²·z²σ²)) / (2·r²s²). With :func:`question_noise` it is that of one
        question of a survey: the shuffler's noise does not depend on n, and users' noise hardly does once the plan is
        made anew for more people.
        """
        sampled, noise = self.sample_size, normal_quantile(self.level) * stderr / (self.share * self.within)
        return (sampled + math.sqrt(sampled**2 + 4 * noise**2)) / 2

    def explained(self, stderr: float) -> str:
        """Return in words how many people are needed if the noise has this standard error, and why so many.

        Distributions are taken as normal: counts that are worth a relative error of some percent are large.

        >>> print(Goal(0.01, 0.05).explained(2.799178))
        152,910 people measure a label held by 1% of the people within ±5% at the 95% level: 99.5% of the squared \
error is sampling, and the noise alone would need 10,973 people
        """
        people, noise = self.people(stderr), normal_quantile(self.level) * stderr / (self.share * self.within)
        return (
            f"{math.ceil(people):,} people measure {self}: {self.sample_size / people:.1%} of the squared error is "
            f"sampling, and the noise alone would need {math.ceil(noise):,} people"
        )

    def stderr(self, n: int) -> float:
        """Return about the largest standard error of a count of n people that meets the goal; 0 if none does."""
        reach = self.within * self.share * n / normal_quantile(self.level)
        return math.sqrt(max(reach**2 - self.share * (1 - self.share) * n, 0.0))


def given_goal(share: float | None, within: float | None, level: float) -> Goal | None:
    """Return the goal if its share and relative error are given, None if neither is.

    >>> given_goal(0.01, 0.1, 0.95)
    Goal(share=0.01, within=0.1, level=0.95)
    """
    if share is None and within is None:
        check_real("level", level, OPEN_UNIT)
        return None
    if share is None:
        reject("share", "be given together with within")
    if within is None:
        reject("within", "be given together with share")
    return Goal(share, within, level)


def relative_error(plan: Plan, share: float, level: float = LEVEL) -> float:
    """Return the relative error within which a label held by ``share`` of the population is measured at this level.

    Includes the sampling error: the people of the batch are drawn independently from the population. The exact
    distribution of the messages, widened by half a message on both sides, so that the result errs upwards and holds
    however the whole numbers fall. For surveys, that of the least precise question that has shares, by the normal
    distribution.

    >>> from hubbub import Protocol, plan_from
    >>> own = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-6)
    >>> round(relative_error(own, 0.1), 3), round(1.96 * (37.5**2 + 900) ** 0.5 / 1000, 3)
    (0.095, 0.094)
    """
    check_type("plan", plan, Plan)
    share, level = check_real("share", share, SHARE), check_real("level", level, OPEN_UNIT)
    if plan.schema.named:
        return normal_quantile(level) * _survey_deviation(plan, share) / (share * plan.n)
    return _errors(plan.schema, plan.protocol, plan.n, share).reach(level) / (share * plan.n)


def coverage(plan: Plan, share: float, within: float) -> float:
    """Return the probability, erring downwards, that such a label is measured within this relative error.

    >>> from hubbub import Protocol, plan_from
    >>> own = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-6)
    >>> round(coverage(own, 0.1, within=0.1), 3)
    0.961
    """
    check_type("plan", plan, Plan)
    share, within = check_real("share", share, SHARE), check_real("within", within, POSITIVE)
    if plan.schema.named:
        return math.erf(within * share * plan.n / _survey_deviation(plan, share) / math.sqrt(2))
    return _errors(plan.schema, plan.protocol, plan.n, share).probability(within * share * plan.n)


def question_noise(plan: Plan, question: str = "") -> float:
    """Return the standard error of the noise of a question of a survey, in people; by default the largest of them.

    Numbers have no shares: their error is :func:`hubbub.question_errors`.

    >>> from hubbub import Fakes, Flag, Protocol, Schema, plan_from
    >>> from hubbub.model.protocol import Noise
    >>> flags = Schema.survey({"a": Flag(), "b": Flag()})
    >>> own = plan_from(flags, 1000, Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2), epsilon=1.0)
    >>> round(question_noise(own, "b"), 2)
    3.99
    """
    questions = check_type("plan", plan, Plan).schema.questions
    if not plan.schema.named:
        reject("the plan", "be that of a survey")
    counted = [name for name, one in questions.items if not isinstance(one, Number)]
    if not counted:
        reject("the survey", "have a question other than numbers, which have no shares")
    if question and question not in counted:
        reject("question", f"name a question of the survey that is not a number: {', '.join(counted)}", question)
    return max(one.people for one in question_errors(plan) if one.question in ([question] if question else counted))


def _survey_deviation(plan: Plan, share: float) -> float:
    return math.sqrt(share * (1 - share) * plan.n + question_noise(plan) ** 2)


def described_precision(plan: Plan, share: float = 0.01, level: float = LEVEL) -> str:
    """Return the precision of a plan as a sentence about a label held by a share of the population."""
    found = relative_error(plan, share, level)
    what = f"a label held by {percent(share)} of the people"
    if found >= 1:
        return f"{what} cannot be told from none {_at(level)}"
    return f"{what} is measured within ±{percent(found)} {_at(level)}, sampling error included"


def sampling_error(share: float, n: int, level: float = LEVEL) -> float:
    """Return the relative error of a share of the population if everyone in a batch of n tells the truth.

    >>> round(sampling_error(0.001, 27_143), 2)
    0.39
    """
    share, level = check_real("share", share, SHARE), check_real("level", level, OPEN_UNIT)
    n = check_whole("n", n, 1, MAX_PEOPLE)
    return _errors(Schema.bits(1), None, n, share).reach(level) / (share * n)


def percent(share: float) -> str:
    """Write a share as a percentage with two digits, or three if they are exact.

    >>> percent(0.001), percent(0.09567), percent(0.125), percent(1.5)
    ('0.1%', '9.6%', '12.5%', '150%')
    """
    if share >= 1:
        return f"{100 * share:,.0f}%"
    exact = f"{100 * share:.3g}"
    return f"{exact}%" if float(exact) == round(100 * share, 9) else f"{100 * share:.2g}%"


def _at(level: float) -> str:
    return f"at the {percent(level)} level"


def normal_quantile(level: float) -> float:
    """Return z, within which a standard normal variable lies with probability ``level`` on both sides.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    return -float(ndtri((1 - level) / 2))


@dataclass(frozen=True, slots=True, eq=False)
class _Errors:
    """The distribution of a count of messages around its mean, smeared over one step."""

    edges: Array
    cumulative: Array
    """Probability of an error up to each edge."""
    step: float
    gain: float
    """Expected increase of the count for one more person."""

    def probability(self, people: float) -> float:
        """Return the probability of an error of at most this number of people, erring downwards."""
        return self._inside(people * self.gain - self.step / 2)

    def reach(self, level: float) -> float:
        """Return the number of people within which the error lies with probability ``level``, erring upwards."""
        low, high = 0.0, float(self.edges[-1])
        for _ in range(STEPS):
            middle = (low + high) / 2
            if self._inside(middle) >= level:
                high = middle
            else:
                low = middle
        return (high + self.step / 2) / self.gain

    def _inside(self, reach: float) -> float:
        if reach <= 0:
            return 0.0
        below, above = np.interp([-reach, reach], self.edges, self.cumulative)
        return float(above - below)


def _errors(schema: Schema, protocol: Protocol | None, n: int, share: float) -> _Errors:
    """Return the distribution of the error of one count; without a protocol, that of the sample alone.

    A person shows the label in k messages with probability ``own`` each if they hold it, else with ``other``: their
    characteristic function is f = share·(1 + own·z)^k + (1 − share)(1 + other·z)^k, z = e^(iθ) − 1, and that of all
    people is f^n. Fakes are independent of them. Where the counts of all labels add up to n, the error is that of the
    estimate (:func:`hubbub.mechanisms.noise.count_noise`), beside a binomial number of people.
    """
    own, other, k, gain, noise = 1.0, 0.0, 1, 1.0, FakeCount(0.0, 0.0)
    if protocol is not None and known_total(schema, protocol):
        points, weights = sampled_count(share, n, _of_total(schema, protocol, n), BINS)
        step = float(points[1] - points[0])
        return _Errors(points + step / 2 - n * share, np.cumsum(weights / weights.sum()), step, 1.0)
    if protocol is not None:
        q, k = protocol.q, protocol.k
        own, other = (1 - (schema.width - 1) * q, q) if protocol.sends_category else (1 - q, q)
        gain = k * (own - other)
        if not protocol.sends_category:
            noise = fake_noise(schema, protocol, n, protocol.fixed_fakes)
    one = k * (share * own * (1 - own) + (1 - share) * other * (1 - other)) + share * (1 - share) * gain**2
    spread = math.sqrt(n * one + noise.variance)
    step = max(1.0, math.ceil(spread / MAX_EXACT_SPREAD))
    size = 2 ** math.ceil(math.log2(WINDOW * spread / step + 64))
    theta: Array = np.asarray(2 * math.pi * np.fft.fftfreq(size) / step, np.float64)
    if step > 1:  # many messages: those of the people are normally distributed
        factor, left = portable.exp(-theta * theta * n * one / 2) + 0j, 0.0
    else:
        z = 2j * portable.sin(theta / 2) * portable.exp(0.5j * theta)  # e^(iθ) − 1
        held, lacked = (portable.expm1(k * portable.log1p(chance * z)) for chance in (own, other))
        mean = n * k * (share * own + (1 - share) * other)
        with np.errstate(divide="ignore"):
            factor = portable.exp(n * portable.log1p(share * held + (1 - share) * lacked) - 1j * theta * round(mean))
        left = mean - round(mean)
    if protocol is not None and noise.variance > 0:
        fakes, rest = _fakes(schema, protocol, n, noise, theta, exact=step == 1)
        factor, left = portable.times(factor, fakes), left + rest
    mass = np.maximum(np.fft.fftshift(np.fft.fft(factor).real), 0.0)
    edges = (np.arange(size) - size // 2 + 0.5) * step - left
    return _Errors(edges, np.cumsum(mass / mass.sum()), step, gain)


def _of_total(schema: Schema, protocol: Protocol, n: int) -> CountNoise:
    """Return the error of one of the counts that add up to n; Laplace fakes that have no table keep their tails."""
    error = count_noise(schema, protocol, n, fake_noise(schema, protocol, n, protocol.fixed_fakes))
    drawn, d = protocol.shuffler_fakes, schema.width
    if error.distribution is not None or drawn is None:
        return error
    shown = drawn.variance / (protocol.k if protocol.sends_records else error.gain) ** 2
    excess = excess_of(drawn)  # that of d − 1 other labels is smaller
    return summed_noise(
        error.variance, [((1 - 1 / d) ** 2 * shown, excess), ((d - 1) / d**2 * shown, excess / (d - 1))]
    )


def _fakes(
    schema: Schema, protocol: Protocol, n: int, noise: FakeCount, theta: Array, *, exact: bool
) -> tuple[NDArray[np.complex128], float]:
    """Return the characteristic function of the fakes that show a label around a whole number, and their mean from it.

    Users' fakes show it independently. Whole records tell the estimator how many fakes there are; their number is
    replaced by its mean, which keeps the variance. The shuffler's fakes have the distribution of the estimator
    (:func:`hubbub.mechanisms.noise.fake_noise`); their normal part is a difference of two Poisson variables, which
    stays on whole numbers. If not ``exact``, everything is continuous, and centred.
    """
    drawn, users = protocol.shuffler_fakes, protocol.user_fakes
    if drawn is None and exact:
        q = protocol.q
        shows = (q + (1 - 2 * q) * schema.density) * (2j * portable.sin(theta / 2) * portable.exp(0.5j * theta))
        if users is None or protocol.sends_records:
            logarithm = math.ceil(noise.mean / (q + (1 - 2 * q) * schema.density) - 1e-9) * portable.log1p(shows)
        elif users.distribution == "binomial":
            logarithm = n * users.shift * portable.log1p(users.scale * shows)
        else:
            logarithm = n * users.scale * shows
        return portable.exp(logarithm - 1j * theta * round(noise.mean)), noise.mean - round(noise.mean)
    if drawn is not None and exact:
        table = noise.distribution
        rest = noise.rest if table is not None else noise.variance
        factor = portable.exp(-2 * rest * portable.sin(theta / 2) ** 2) + 0j  # e^(rest·(cos θ − 1))
        if table is None:
            return factor, 0.0
        numbers = np.arange(table.low, table.high + 1)
        mean = float(portable.dot(numbers, table.pmf))
        wrapped = np.zeros(theta.size)
        np.add.at(wrapped, (numbers - round(mean)) % theta.size, table.pmf)
        return factor * np.conj(np.fft.fft(wrapped)), mean - round(mean)
    times = 1 if not protocol.sends_records else schema.records_with_bit
    heavy = drawn is not None and drawn.distribution == "laplace"
    laplace = (noise.variance - (noise.rest if protocol.sends_records else 0.0)) / times if heavy else 0.0
    normal = noise.variance - laplace * times
    # A Laplace variable of variance v has the characteristic function 1/(1 + vθ²/2).
    return portable.exp(-theta * theta * normal / 2 - times * portable.log1p(theta * theta * laplace / 2)) + 0j, 0.0
