"""Margins of a plan: in 95 of 100 collections, a count is wrong by at most this number of people.

The error of a count is a whole number of messages, less its mean, divided by the gain k(p − q) of one person. Margins
come from its distribution, not from its standard error:

- **labels of which everyone has exactly one**: their counts add up to n, and the error is that of the difference to the
  mean of the other labels. Of little noise, and of the shuffler's fakes up to a few hundred messages, the quantile of
  this difference, for the data for which it is largest; otherwise, that of the distribution of the estimate
  (:func:`hubbub.mechanisms.noise.count_noise`);
- **fakes of the shuffler alone**, and strings: the quantile of the distribution that the shuffler draws from;
- **little noise**, a standard deviation of at most 12 messages: the quantile of the sum of all flips and fakes, for the
  data for which it is largest. Of more than 128 people, some numbers of people with a label stand for others, with a
  reserve of 4 % of the permitted probability: of 1,700 random protocols, none missed its level up to 99 %, and two a
  level of 99.9 % by 4·10⁻⁵;
- **much noise**: zσ + ½ message, with z the normal quantile. Every whole number within that distance of the mean
  stands for a cell of one message around it, and the cells cover the mean ± zσ, wherever the mean lies between whole
  numbers. The next term of the Edgeworth expansion costs a probability of at most 10⁻⁴ at 12 messages. Laplace fakes
  have longer tails, and their own quantile (:mod:`hubbub.numeric.tails`): (ln 20)/√2 = 2.12 standard errors for one
  of them. Their number is not negative, and with a large δ that cuts a tail, so that they are not symmetric: a reserve
  of 8 % of the permitted probability covers that, of which up to 7.4 % are needed at levels of 90 to 99 %.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import OPEN_UNIT, check_real, check_type, check_whole, reject
from hubbub.mechanisms.design import answers_gamma, tables
from hubbub.mechanisms.design import places as places_of
from hubbub.mechanisms.errors import QuestionError, answer_variances, question_errors
from hubbub.mechanisms.noise import (
    count_noise,
    fake_noise,
    known_total,
    predicted_stderr,
    thinned,
    total_noise,
    users_shown,
)
from hubbub.model.fakes import Fakes
from hubbub.model.plans import MAX_ROUNDS, Plan
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Noise, Protocol
from hubbub.model.questions import Choice, Cross, Flag, Number
from hubbub.model.schema import Schema
from hubbub.numeric import portable
from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution, reach
from hubbub.numeric.estimation import category_variance
from hubbub.numeric.population import LITTLE, CountNoise, poisson
from hubbub.numeric.tails import ErrorSums
from hubbub.planner.baselines import central_noise
from hubbub.planner.deadlines import check_time
from hubbub.planner.precision import LEVEL, WINDOW, normal_quantile
from hubbub.results.answers import excess_of

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
TAIL = 30.0  # outcomes with a probability below e^−30 are left out
ALL = 128  # largest crowd of which every number of people with a label is tried
SOME = 256  # steps in which those of larger crowds are tried, divided by their deviation (at least 4)
FEW, MANY = 32, 256  # places of the mean that a random number of fakes causes: with more, fewer others are tried
MIXED_SOME = 8  # steps in which the numbers of people are tried if there are more than few
RESERVE = 0.96  # part of the permitted probability that is used if not all crowds or numbers of fakes are tried
CUT_RESERVE = 0.92  # the same of much noise if 0 cuts the tail of Laplace fakes
UNCUT = 12  # mean of Laplace fakes, in scales, from which on it does not
PLACES = 9  # places of the mean between whole numbers that are tried
MIXED = 1024  # numbers of fakes that are told apart
MOST = 10**4  # crowds times numbers of fakes up to which all are tried
LARGEST = 10**5  # fakes of the shuffler beyond which there is no table of them
LATTICE = 2**14  # points on which the error of a label among all labels is computed exactly
PRODUCTS = 2**23  # of those points with numbers of fakes that are flipped
FINE = 16  # steps to a message if there are too many labels for that
Part = tuple[float, Distribution, float]
"""One of several distributions: its weight, itself, and its mean, which the estimator subtracts."""


def margin(plan: Plan, level: float = LEVEL) -> float:
    """Return the smallest m for which a count is wrong by at most m people with probability ``level``, for all data.

    Only the noise counts: how well the people represent others is :func:`hubbub.planner.relative_error`. Among the
    texts of a plan for strings it holds for every one that is shown in half of all collections or more, given that it
    is shown: the subtracted number Z is below the count then, and the only other errors beyond m are those with
    Z < E[Z] − m, which have a probability of at most (1 − level)/2. This needs nearly symmetric fakes, as those
    of all plans with a small δ are.

    >>> from hubbub import Fakes, Protocol, plan_from
    >>> own = plan_from(Schema.one_hot(4), 1000, Protocol(0, m=Fakes.laplace(2.0, 35)), epsilon=1.0)
    >>> round(margin(own), 6), round(1.96 * own.stderr, 2)
    (5.0, 4.75)
    >>> own = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-6)
    >>> round(margin(own), 2), round(1.96 * own.stderr, 2)
    (74.12, 73.5)
    """
    plan = check_type("plan", plan, Plan)
    miss = 1 - check_real("level", level, OPEN_UNIT)
    if plan.schema.named:
        reject("the plan", "not be that of a survey; question_margins has the margins of its questions")
    protocol, schema, n = plan.protocol, plan.schema, plan.n
    if protocol.sends_category:
        return _of_category(schema.width, protocol.q, n, miss)
    if known_total(schema, protocol):
        return _of_total(schema, protocol, n, miss)
    q, gain = protocol.q, protocol.k * (1 - 2 * protocol.q)
    spread = gain * predicted_stderr(schema, protocol, n)
    parts = _fakes(schema, protocol, n, wide=spread > LITTLE)
    if parts:
        found = _worst(None if protocol.clear else _Flips(n, protocol.k, 1 - q, q, spread), parts, miss)
    else:
        found = _continuous(schema, protocol, spread, miss) + 0.5
    return found / gain


def _beyond(parts: list[Part], miss: float) -> float:
    """Return the distance that a mixture of distributions, each around its own centre, exceeds with probability miss.

    >>> _beyond([(0.5, Distribution(0, np.ones(1)), 0.0), (0.5, Distribution(4, np.array([0.9, 0.1])), 4.0)], 0.05)
    0.0
    """
    distances = [np.abs(np.arange(one.low, one.high + 1) - centre) for _, one, centre in parts]
    weights = [weight * one.pmf for weight, one, _ in parts]
    return reach(np.concatenate(distances), np.concatenate(weights), miss)


@dataclass(frozen=True, slots=True)
class _Flips:
    """n people who send k messages each, which show a label with probability p if they have it, and q if not."""

    n: int
    k: int
    p: float
    q: float
    spread: float
    """Standard deviation of the number of messages that show the label, with all fakes."""

    def crowds(self, parts: int) -> tuple[list[int], float]:
        """Return the numbers of people with the label that are tried, and how far the means of the others are away.

        All are tried, or some of them: the mean moves by k(p − q) with each person, of which only the part between two
        whole numbers matters, and the distribution around it changes little.
        """
        if self.n <= ALL and self.n * parts <= MOST:
            return list(range(self.n + 1)), 0.0
        steps = round(SOME / max(4.0, self.spread)) if parts <= FEW else MIXED_SOME
        moved = self.k * (self.p - self.q)
        away = abs(moved - round(moved)) * (self.n / steps + 1) / 2  # + 1: a crowd is a whole number
        tried = np.linspace(0, self.n, steps + 1).round().astype(np.int64).tolist()
        return tried, min(0.5, away) if parts <= MANY else 0.0

    def shown(self, held: int) -> tuple[Distribution, float]:
        """Return the distribution of the number of messages that show a label of ``held`` people, and its mean."""
        k, p, q, others = self.k, self.p, self.q, self.n - held
        return binomial(k * held, p, tail=TAIL).plus(binomial(k * others, q, tail=TAIL)), k * (held * p + others * q)


def _worst(flips: _Flips | None, parts: list[Part], miss: float) -> float:
    """Return the distance in messages that the sum of flips and fakes exceeds with probability miss, for all data."""
    if len(parts) > MIXED / 2:  # some of them may stand for others
        miss *= RESERVE
    if flips is None:
        return _beyond(parts, miss)
    parts = _merged(parts) if len(parts) > 1 else parts
    crowds, away = flips.crowds(len(parts))
    if len(crowds) <= flips.n:
        miss *= RESERVE
    worst = 0.0
    for held in crowds:
        check_time()
        own, mean = flips.shown(held)
        total = [(weight, own.plus(one), mean + centre) for weight, one, centre in parts]
        for place in np.linspace(-away, away, PLACES if away else 1).tolist():
            worst = max(worst, _beyond([(weight, one, centre + place) for weight, one, centre in total], miss))
    return worst + away / (PLACES - 1)


def _merged(parts: list[Part]) -> list[Part]:
    """Return a mixture in which parts whose means lie at the same place between whole numbers are one.

    A fake that shows a bit with probability ½ has two such places, however many fakes there are.

    >>> one = Distribution(0, np.ones(1))
    >>> merged = _merged([(0.5, one, 0.5), (0.25, one, 1.0), (0.25, one, 2.5)])
    >>> [(weight, own.low, own.pmf.round(2).tolist(), place) for weight, own, place in merged]
    [(0.75, -2, [0.33, 0.0, 0.67], 0.5), (0.25, -1, [1.0], 0.0)]
    """
    places: dict[float, list[tuple[float, int, Array]]] = {}
    for weight, one, mean in parts:
        whole = math.floor(mean + 1e-9)
        places.setdefault(round(abs(mean - whole), 9), []).append((weight, one.low - whole, one.pmf))
    found = []
    for place, same in places.items():
        first = min(low for _, low, _ in same)
        total = np.zeros(max(low + pmf.size for _, low, pmf in same) - first)
        for weight, low, pmf in same:
            total[low - first : low - first + pmf.size] += weight * pmf
        weight = math.fsum(one for one, _, _ in same)
        found.append((weight, Distribution(first, total / weight), place))
    return found


def _fakes(schema: Schema, protocol: Protocol, n: int, *, wide: bool) -> list[Part]:
    """Return the fakes that show a label: a mixture over their number, where the estimator knows it.

    Empty if they have no table: ``wide`` ones have one only if the shuffler draws them, and nothing else is noise.
    """
    if wide:
        table = fake_noise(schema, protocol, n, 0) if protocol.clear and protocol.shuffler_fakes else None
        return [(1.0, table.distribution, table.mean)] if table and table.distribution else []
    if protocol.shuffler_fakes is not None:
        return _shuffler_fakes(schema, protocol, protocol.shuffler_fakes)
    q, users = protocol.q, protocol.user_fakes
    shows = q + (1 - 2 * q) * schema.density
    if users is None:
        return [(1.0, binomial(protocol.fixed_fakes, shows, tail=TAIL), protocol.fixed_fakes * shows)]
    chance = 1.0 if protocol.sends_records else shows
    if users.distribution == "binomial":
        number = binomial(n * users.shift, users.scale * chance, tail=TAIL)
    else:
        number = poisson(n * users.scale * chance)
    if not protocol.sends_records:
        return [(1.0, number, n * users.mean * shows)]
    step = -(-number.pmf.size // MIXED)
    found = []
    for first in range(0, number.pmf.size, step):
        some = number.pmf[first : first + step]
        if (weight := float(some.sum())) > 1e-12:
            total = number.low + first + int(np.argmax(some))
            found.append((weight, binomial(total, shows, tail=TAIL), total * shows))
    return found


def _shuffler_fakes(schema: Schema, protocol: Protocol, drawn: Fakes) -> list[Part]:
    """Return the exact distribution of the shuffler's fakes that show a label; empty if it needs too large a table.

    Fakes that have the label keep it with probability 1 − q, and the others show it with probability q.
    """
    if drawn.shift + 100 * drawn.scale > LARGEST:
        return []
    mean = fake_noise(schema, protocol, 1, 0, moments=True).mean
    if not protocol.sends_records:
        return [(1.0, Distribution(0, drawn.pmf), mean)]
    q, with_bit = protocol.q, schema.records_with_bit
    total = _repeated(thinned(drawn, 1 - q), with_bit)
    if q > 0:
        total = total.plus(_repeated(thinned(drawn, q), schema.size - with_bit))
    return [(1.0, total, mean)]


def _repeated(one: Distribution, times: int) -> Distribution:
    """Return the sum of independent draws, by squaring; what is cut off has a probability of at most 10⁻¹⁴ in total.

    >>> _repeated(Distribution(0, np.array([0.5, 0.5])), 3).pmf.tolist()
    [0.125, 0.375, 0.375, 0.125]
    """
    total, part = Distribution(0, np.ones(1)), one
    cut = 1e-17 / times
    while times:
        part = _cut(part, cut)
        if times % 2:
            total = _cut(total.plus(part), cut)
        times //= 2
        if times:
            part, cut = part.plus(part), 2 * cut
    return total


def _cut(one: Distribution, least: float) -> Distribution:
    """Return a distribution without tails of this probability, normalized."""
    below, above = one.pmf.cumsum(), one.pmf[::-1].cumsum()
    first, last = int(np.searchsorted(below, least)), one.pmf.size - int(np.searchsorted(above, least))
    kept = one.pmf[first:last]
    return Distribution(one.low + first, kept / kept.sum())


def _continuous(schema: Schema, protocol: Protocol, spread: float, miss: float) -> float:
    """Return the distance in messages that much noise exceeds with probability miss, as if it were continuous."""
    drawn = protocol.shuffler_fakes
    if drawn is None:
        return normal_quantile(1 - miss) * spread
    copies = float(schema.records_with_bit) if protocol.sends_records else 1.0
    kept = (1 - protocol.q) ** 2 if protocol.sends_records else 1.0
    one = min(kept * drawn.variance, spread**2 / copies)
    rest = max(spread**2 - copies * one, 0.0)
    if drawn.distribution == "laplace" and drawn.shift < UNCUT * drawn.scale:
        miss *= CUT_RESERVE
    sums = ErrorSums(np.array([[one, rest]]), np.array([[copies, 1.0]]), np.array([excess_of(drawn), 0.0]))
    return float(sums.reach(miss)[0])


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """Characteristic functions of the error of one of d counts that add up to n, in steps.

    A message with the label is ``up`` steps, and one with another label a step back: up = d − 1. Messages with one of
    ``many`` others are no steps; their mean is close to normal, and replaced by a difference of two Poisson numbers.
    """

    number: int
    up: int
    many: bool
    theta: Array

    @classmethod
    def of(cls, number: int, spread: float) -> "_Labels":
        """Return the labels if the numbers of messages with one of them have this deviation."""
        wide = 64 + WINDOW * spread * math.sqrt(number / (number - 1))
        many = (number - 1) * wide > LATTICE
        up = FINE if many else number - 1
        size = 2 ** math.ceil(math.log2(up * wide))
        return cls(number, up, many, 2 * math.pi * np.arange(size // 2 + 1) / size)

    def drawn(self, shown: Distribution, variance: float) -> tuple[Complex, float]:
        """Return numbers of messages with this distribution, of every label or of one of many, and their mean.

        ``variance`` is that of the difference to the mean of many others, in messages.
        """
        numbers = np.arange(shown.low, shown.high + 1)
        mean = float(portable.dot(numbers, shown.pmf))

        def moved(steps: int) -> Complex:
            wrapped = np.zeros(2 * (self.theta.size - 1))
            np.add.at(wrapped, steps * (numbers - round(mean)) % wrapped.size, shown.pmf)
            return np.conj(np.fft.rfft(wrapped))

        if not self.many:
            return portable.times(moved(self.up), portable.power(moved(-1), self.number - 1)), 0.0
        rest = self.up**2 * max(0.0, variance - float(portable.dot((numbers - mean) ** 2, shown.pmf)))
        others = portable.exp(-2 * rest * portable.sin(self.theta / 2) ** 2)  # e^(rest·(cos θ − 1))
        return moved(self.up) * others, self.up * (mean - round(mean))

    def flips(self, q: float, *, held: bool) -> tuple[Complex, float]:
        """Return the logarithm of what flips add to a record that has the label, or that has another, and its mean."""
        sign, lost = (-1, 0) if held else (1, 1)
        found = self.number - 1 - lost
        own = portable.log1p(q * self._turn(sign * self.up))
        if self.many:
            return own, sign * self.up * q
        others = lost * portable.log1p(q * self._turn(1)) + found * portable.log1p(q * self._turn(-1))
        return own + others, (sign * self.up + lost - found) * q

    def fakes(self, protocol: Protocol, n: int) -> Complex:
        """Return the fakes, whose mean is 0, if labels are few: all have the same number of them on average."""
        q, users, drawn = protocol.q, protocol.user_fakes, protocol.shuffler_fakes
        if drawn is not None and (q == 0 or not protocol.sends_records):
            return self.drawn(Distribution(0, drawn.pmf), 0.0)[0]
        own, other = (
            portable.exp(self.flips(q, held=held)[0] + 1j * steps * self.theta)
            for held, steps in ((True, self.up), (False, -1))
        )
        if drawn is not None:
            return np.asarray(
                portable.times(_compound(drawn, own), portable.power(_compound(drawn, other), self.number - 1))
            )
        one = (own - 1) / self.number + (other - 1) * (1 - 1 / self.number)
        if users is None:
            return _powered(one, protocol.fixed_fakes)
        if users.distribution == "poisson":
            return np.asarray(portable.exp(n * users.scale * one))
        return _powered(users.scale * one, n * users.shift)

    def beyond(self, factor: Complex, mean: float, miss: float, away: float = 0.0) -> float:
        """Return the distance in messages that an error exceeds with probability miss if its mean is so far away."""
        whole, message = round(mean), self.up * self.number / (self.number - 1)
        turned = portable.times(factor, portable.exp(-1j * whole * self.theta))
        pmf = np.fft.fftshift(np.fft.irfft(np.conj(turned)))
        some = np.flatnonzero(pmf > 1e-15)
        errors, weights = some - pmf.size // 2 + (whole - mean), pmf[some]
        places = (message * np.linspace(-away, away, PLACES if away else 1)).tolist()
        worst = max(reach(np.abs(errors - place), weights, miss) for place in places)
        return (worst + (1 if self.many else 0)) / message + away / (PLACES - 1)

    def _turn(self, steps: int) -> Complex:
        """Return e^(iθ·steps) − 1."""
        half = steps / 2 * self.theta
        return np.asarray(2j * portable.sin(half) * portable.exp(1j * half))


def _powered(x: Complex, exponent: int) -> Complex:
    """Return (1 + x)^exponent.

    >>> _powered(np.array([-1.0 + 0j, 1.0 + 0j]), 3).real.round(9).tolist()
    [0.0, 8.0]
    """
    return np.asarray(portable.exp(exponent * portable.log1p(np.where(np.abs(1 + x) < 1e-14, -1 + 1e-14, x))))


def _compound(drawn: Fakes, one: Complex) -> Complex:
    """Return the sum of a number of records that the shuffler draws."""
    shown = _cut(Distribution(0, drawn.pmf), 1e-17)
    total = np.zeros_like(one)
    for weight in shown.pmf[::-1].tolist():
        total = portable.times(total, one) + weight
    return np.asarray(portable.times(total, _powered(one - 1, shown.low)))


def _of_total(schema: Schema, protocol: Protocol, n: int, miss: float) -> float:
    """Return the margin of a count if the counts of all labels add up to n: the largest for all data."""
    d, q, k = schema.width, protocol.q, protocol.k
    gain, flips, fakes = k * (1 - 2 * q), k * n * q * (1 - q), fake_noise(schema, protocol, n, protocol.fixed_fakes)
    variance = flips + fakes.variance - fakes.shared
    labels, drawn = _Labels.of(d, math.sqrt(variance)), protocol.shuffler_fakes
    wide = labels.many or drawn is None or (q > 0 and drawn.pmf.size * labels.theta.size > PRODUCTS)
    if variance > LITTLE**2 and wide:
        heavy = _heavy(protocol.noise[0])
        miss *= CUT_RESERVE if heavy and q > 0 else 1
        error = count_noise(schema, protocol, n, fakes)
        if protocol.user_fakes is not None:  # their number moves the possible errors
            error = replace(error, slack=0.5)
        return _half_width(error, miss, heavy=heavy)
    if labels.many:
        added, mean = labels.drawn(_shown(schema, protocol, n), variance * d / (d - 1) - flips)
    else:
        added, mean = labels.fakes(protocol, n), 0.0
    crowds, away = _Flips(n, k, 1 - q, q, math.sqrt(variance)).crowds(1) if q > 0 else ([0], 0.0)
    if q > 0 and len(crowds) <= n:
        miss *= RESERVE
    held, lacked = labels.flips(q, held=True), labels.flips(q, held=False)
    worst = 0.0
    for crowd in crowds:
        check_time()
        sent, lack = k * crowd, k * (n - crowd)
        total = portable.times(added, portable.exp(sent * held[0] + lack * lacked[0]))
        worst = max(worst, labels.beyond(total, mean + sent * held[1] + lack * lacked[1], miss, away))
    return worst / gain


def _of_category(size: int, q: float, n: int, miss: float) -> float:
    """Return the margin of a category by randomized response, one message of everybody: the largest for all data."""
    gain = 1 - size * q
    deviation = math.sqrt(float(category_variance([0, n], n, q, size).max()))
    if gain * deviation > LITTLE:
        return normal_quantile(1 - miss) * deviation + 0.5 / gain
    flips = _Flips(n, 1, 1 - (size - 1) * q, q, gain * deviation)
    return _worst(flips, [(1.0, Distribution(0, np.ones(1)), 0.0)], miss) / gain


def _shown(schema: Schema, protocol: Protocol, n: int) -> Distribution:
    """Return the fakes that show one of many labels, given about how many there are, which cancels."""
    q, d, users, drawn = protocol.q, schema.width, protocol.user_fakes, protocol.shuffler_fakes
    if drawn is None:
        number = protocol.fixed_fakes if users is None else n * users.mean
        shows = q + (1 - 2 * q) / d
        return poisson(number / d) if q == 0 else users_shown(number * shows, number * shows * (1 - shows))
    if q == 0 or not protocol.sends_records:
        return Distribution(0, drawn.pmf)
    return thinned(drawn, 1 - q).plus(binomial(round((d - 1) * drawn.mean), q, tail=TAIL))


def central_margin(schema: Schema, budget: Budget, rounds: int = 1, level: float = LEVEL) -> float:
    """Return the margin of a count if a trusted server adds the noise of :func:`hubbub.planner.central_stderr`.

    The discrete Laplace distribution exceeds m in absolute value with probability 2a^(m+1)/(1 + a), a = e^(−1/scale).

    >>> central_margin(Schema.at_most(1, 4), Budget(1.0, 1e-6)), central_margin(Schema.one_hot(4), Budget(1.0, 1e-6))
    (6.0, 5.0)
    """
    miss = 1 - check_real("level", level, OPEN_UNIT)
    sigma, scale = central_noise(schema, budget, check_whole("rounds", rounds, 1, MAX_ROUNDS))
    if schema.exclusive and schema.width > 1:
        shown, d = None if scale is None else _discrete_laplace(scale), schema.width
        if shown is not None and sigma <= LITTLE:
            labels = _Labels.of(d, sigma)
            return labels.beyond(*labels.drawn(shown, sigma**2 * d / (d - 1)), miss)
        return _half_width(total_noise(schema.width, sigma**2, 1.0, shown, alike=True), miss, heavy=scale is not None)
    if scale is not None:
        whole = math.ceil(scale * math.log(2 / (miss * (1 + math.exp(-1 / scale)))) - 1 - 1e-9)
        return max(0.0, float(whole))
    return normal_quantile(1 - miss) * sigma


def _discrete_laplace(scale: float) -> Distribution | None:
    """Return P(k) ∝ e^(−|k|/scale) without tails below e^(−40); None if it is too wide for a table."""
    if scale > LARGEST / 100:
        return None
    reach = math.ceil(40 * scale)
    masses = portable.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return Distribution(-reach, masses / masses.sum())


def laplace_factor(level: float = LEVEL) -> float:
    """Return the margin of a wide Laplace distribution in standard errors: −ln(1 − level)/√2.

    >>> round(laplace_factor(), 3)
    2.118
    """
    return -math.log(1 - level) / math.sqrt(2)


def in_people(error: QuestionError, half: float) -> float:
    """Return the margin of a question, which is in its unit, as a number of people.

    >>> round(in_people(QuestionError(question="a", stderr=0.5, people=20.0, unit="s", measures="mean"), 1.1), 9)
    44.0
    """
    return half * error.people / error.stderr if error.stderr > 0 else half


def overall_margin(plan: Plan, level: float = LEVEL) -> float:
    """Return the margin of a count; of a survey, zσ with the root mean square σ of all questions, to compare plans by.

    >>> from hubbub import plan_from
    >>> overall_margin(plan_from(Schema.survey({"a": Flag()}), 1000, Protocol(0.1, release="bits"), epsilon=1.0)) > 16
    True
    """
    if not check_type("plan", plan, Plan).schema.named:
        return margin(plan, level)
    return normal_quantile(check_real("level", level, OPEN_UNIT)) * plan.stderr


def question_margins(plan: Plan, level: float = LEVEL) -> dict[str, float]:
    """Return the margin of every question of a survey, in its unit.

    A count of one attribute: the half-width of its interval, which has the exact distribution of the shuffler's fakes.
    Other figures are sums of several counts: zσ + ½ person, with the z of a single Laplace variable among Laplace
    fakes; a sum of independent ones has shorter tails at these levels. σ is a mean square over all edges of a scale,
    or all cells of a table. The margin of the mean of a number that may be missing holds for every mean if everyone
    answers; if only some answer, it grows by n/(number of people who answer).

    >>> from hubbub import Fakes, plan_from
    >>> from hubbub.model.protocol import Noise
    >>> flags = Schema.survey({"a": Flag(), "b": Flag()})
    >>> own = plan_from(flags, 1000, Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2), epsilon=1.0)
    >>> {name: round(one, 2) for name, one in question_margins(own).items()}
    {'a': 8.0, 'b': 8.0}
    """
    miss = 1 - check_real("level", level, OPEN_UNIT)
    return {one.question: _question(plan, one, miss) for one in question_errors(plan)}


def _question(plan: Plan, error: QuestionError, miss: float) -> float:
    schema, protocol = plan.schema, plan.protocol
    question, where = schema.questions[error.question], places_of(schema)
    names = question.names if isinstance(question, Cross) else (error.question,)
    seen = [table for table in tables(schema) if set(table) & set(names)]
    if isinstance(question, Choice | Flag | Cross) and seen == [names]:
        return _single(plan, tables(schema)[names], miss)
    # The tables of a question that is derived, or combined with others, belong to these.
    used = where[error.question] + tuple(tables(schema)[table] for table in seen)
    drawn = [one for one in (protocol.noise[place].shuffler_fakes for place in used) if one is not None]
    heavy = any(one.distribution == "laplace" for one in drawn)
    z = _quantile(miss, heavy=heavy)
    slack = 0.5 / (question.levels - 1) if isinstance(question, Number) else 0.5
    people = error.people
    if isinstance(question, Number) and question.missing:  # the error is that of a mean in the middle of the range
        variance = answer_variances(schema, protocol, plan.n)[where[error.question][0]]
        people = math.hypot(people, math.sqrt((answers_gamma(1.0) - answers_gamma(1 / 2)) * variance))
    return (z * people + slack) * (error.stderr / error.people if error.people > 0 else 1.0)


def _single(plan: Plan, place: int, miss: float) -> float:
    """Return the margin of a count of one attribute."""
    size, noise = plan.schema.attributes[place].size, plan.protocol.noise[place]
    if plan.protocol.sends_category:
        return _of_category(size, noise.q, plan.n, miss)
    return _of_total(Schema.one_hot(size), Protocol(noise.q, m=noise.m, release="bits"), plan.n, miss)


def _half_width(error: CountNoise, miss: float, *, heavy: bool) -> float:
    """Return the people that an error exceeds with probability miss: by its distribution, or by its deviation."""
    if error.distribution is not None:
        return (_beyond([(1.0, error.distribution, error.centre)], miss) + error.slack) / error.gain
    return _quantile(miss, heavy=heavy) * math.sqrt(error.variance) + 0.5 / error.gain


def _heavy(noise: Noise) -> bool:
    """Return True if the tails of the fakes are longer than normal ones."""
    return noise.shuffler_fakes is not None and excess_of(noise.shuffler_fakes) > 0


def _quantile(miss: float, *, heavy: bool) -> float:
    """Return the margin of a sum in standard errors: at low levels, the normal one is the larger of both."""
    return max(normal_quantile(1 - miss), laplace_factor(1 - miss) if heavy else 0.0)
