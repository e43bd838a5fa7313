"""Margins of a plan: in 95 of 100 collections, a count is wrong by at most this number of people.

The error of a count is a whole number of messages, less its mean, divided by the gain k(p − q) of one person. Margins
come from its distribution, not from its standard error:

- **fakes of the shuffler alone**, and strings: the quantile of the distribution that the shuffler draws from;
- **little noise**, a standard deviation of at most 12 messages: the quantile of the sum of all flips and fakes, for the
  data for which it is largest;
- **much noise**: zσ + ½ message, with z the normal quantile. Every whole number within that distance of the mean
  stands for a cell of one message around it, and the cells cover the mean ± zσ, wherever the mean lies between whole
  numbers. The next term of the Edgeworth expansion costs a probability of at most 10⁻⁴ at 12 messages. Laplace fakes
  have longer tails, and their own quantile (:mod:`hubbub.numeric.tails`): (ln 20)/√2 = 2.12 standard errors for one
  of them.
"""

import math

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import OPEN_UNIT, check_real, check_type, check_whole, reject
from hubbub.noise import FakeCount, fake_noise, predicted_stderr
from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution, reach
from hubbub.numeric.population import LITTLE, poisson
from hubbub.numeric.tails import ErrorSums
from hubbub.planner.asymptotics import discrete_laplace
from hubbub.planner.baselines import central_stderr
from hubbub.planner.precision import LEVEL, normal_quantile
from hubbub.plans import MAX_ROUNDS, Plan
from hubbub.privacy import Budget
from hubbub.protocol import Protocol
from hubbub.questions import Choice, Cross, Flag, Number
from hubbub.schema import Schema
from hubbub.surveys.answers import answer_noise, excess_of
from hubbub.surveys.design import places as places_of
from hubbub.surveys.design import tables
from hubbub.surveys.errors import QuestionError, answer_variances, question_errors

Array = NDArray[np.float64]
TAIL = 30.0  # outcomes with a probability below e^−30 are left out
ALL = 128  # largest crowd of which every number of people with a label is tried
SOME = 256  # steps in which those of larger crowds are tried, divided by their deviation (at least 4)
MIXED_SOME = 8  # the same if a random number of fakes moves the mean between whole numbers
RESERVE = 0.98  # part of the permitted probability that is used if not all of them are tried
PLACES = 9  # places of the mean between whole numbers that are tried
MIXED = 256  # numbers of fakes that are told apart


def margin(plan: Plan, level: float = LEVEL) -> float:
    """Return the smallest m for which a count is wrong by at most m people with probability ``level``, for all data.

    Only the noise counts: how well the people represent others is :func:`hubbub.planner.relative_error`. Among the
    texts of a plan for strings it holds for every one that is shown in half of all collections or more, given that it
    is shown: the subtracted number Z is below the count then, and the only other errors beyond m are those with
    Z < E[Z] − m, which have a probability of at most (1 − level)/2.

    >>> from hubbub import Fakes, Protocol, plan_from
    >>> own = plan_from(Schema.one_hot(4), 1000, Protocol(0, m=Fakes.laplace(2.0, 35)), epsilon=1.0)
    >>> round(margin(own), 6), round(1.96 * own.stderr, 2)
    (6.0, 5.49)
    >>> own = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-6)
    >>> round(margin(own), 2), round(1.96 * own.stderr, 2)
    (74.12, 73.5)
    """
    plan = check_type("plan", plan, Plan)
    miss = 1 - check_real("level", level, OPEN_UNIT)
    if plan.schema.questions is not None:
        reject("the plan", "not be that of a survey; question_margins has the margins of its questions")
    protocol, schema, n = plan.protocol, plan.schema, plan.n
    gain = 1 - schema.width * protocol.q if protocol.sends_category else protocol.k * (1 - 2 * protocol.q)
    fakes = FakeCount(0.0, 0.0)
    if not protocol.sends_category:
        fakes = fake_noise(schema, protocol, n, protocol.fixed_fakes)
    spread = gain * predicted_stderr(schema, protocol, n)
    if protocol.clear and fakes.distribution is not None:
        found = _beyond([(1.0, fakes.distribution, fakes.mean)], miss)
    elif spread <= LITTLE and (protocol.shuffler_fakes is None or fakes.distribution is not None):
        found = _worst(schema, protocol, n, fakes, spread, miss)
    else:
        found = _continuous(schema, protocol, spread, miss) + 0.5
    return found / gain


def _beyond(parts: list[tuple[float, Distribution, float]], miss: float) -> float:
    """Return the distance that a mixture of distributions, each around its own centre, exceeds with probability miss.

    >>> _beyond([(0.5, Distribution(0, np.ones(1)), 0.0), (0.5, Distribution(4, np.array([0.9, 0.1])), 4.0)], 0.05)
    0.0
    """
    distances = [np.abs(np.arange(one.low, one.high + 1) - centre) for _, one, centre in parts]
    weights = [weight * one.pmf for weight, one, _ in parts]
    return reach(np.concatenate(distances), np.concatenate(weights), miss)


def _worst(schema: Schema, protocol: Protocol, n: int, fakes: FakeCount, spread: float, miss: float) -> float:
    """Return the distance in messages that the sum of flips and fakes exceeds with probability miss, for all data.

    T people with the label and n − T without it show it Bin(kT, p) + Bin(k(n − T), q) times. All T are tried, or some
    of them with the means that those between them have: the mean moves by k(p − q) with T, of which only the part
    between two whole numbers matters, and the distribution around it changes little.
    """
    drawn = _drawn(schema, protocol, n, fakes)
    if protocol.clear:
        return _beyond(drawn, miss)
    q, k = protocol.q, protocol.k
    p = 1 - (schema.width - 1) * q if protocol.sends_category else 1 - q
    steps, places, window = n, np.zeros(1), 0.0
    if n > ALL:
        steps, moved = (MIXED_SOME, 0.0) if len(drawn) > 1 else (round(SOME / max(4.0, spread)), k * (p - q))
        window = min(0.5, abs(moved - round(moved)) * n / steps / 2)
        places, miss = np.linspace(-window, window, PLACES if window else 1), RESERVE * miss
    worst = 0.0
    for held in np.linspace(0, n, steps + 1).round().astype(np.int64).tolist():
        own = binomial(k * held, p, tail=TAIL).plus(binomial(k * (n - held), q, tail=TAIL))
        mean = k * (held * p + (n - held) * q)
        total = [(weight, own.plus(one), mean + centre) for weight, one, centre in drawn]
        for place in places.tolist():
            worst = max(worst, _beyond([(weight, one, centre + place) for weight, one, centre in total], miss))
    return worst + window / (PLACES - 1)


def _drawn(schema: Schema, protocol: Protocol, n: int, fakes: FakeCount) -> list[tuple[float, Distribution, float]]:
    """Return the fakes that show a label: a mixture over their number, where the estimator knows it."""
    q = protocol.q
    shows = q + (1 - 2 * q) * schema.density
    users = protocol.user_fakes
    if users is None:
        if fakes.distribution is not None:
            table = fakes.distribution
            rest = poisson(fakes.rest / 2)  # the difference of two Poisson variables is close to normal, and whole
            return [(1.0, table.plus(rest).plus(rest.flipped(0)), _mean(table))]
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
        if (weight := float(some.sum())) > 1e-9:
            total = number.low + first + int(np.argmax(some))
            found.append((weight, binomial(total, shows, tail=TAIL), total * shows))
    return found


def _mean(one: Distribution) -> float:
    return float(np.arange(one.low, one.high + 1) @ one.pmf)


def _continuous(schema: Schema, protocol: Protocol, spread: float, miss: float) -> float:
    """Return the distance in messages that much noise exceeds with probability miss, as if it were continuous."""
    drawn = None if protocol.sends_category else protocol.shuffler_fakes
    if drawn is None:
        return normal_quantile(1 - miss) * spread
    copies = float(schema.records_with_bit) if protocol.sends_records else 1.0
    kept = (1 - protocol.q) ** 2 if protocol.sends_records else 1.0
    one = min(kept * drawn.variance, spread**2 / copies)
    rest = max(spread**2 - copies * one, 0.0)
    sums = ErrorSums(np.array([[one, rest]]), np.array([[copies, 1.0]]), np.array([excess_of(drawn), 0.0]))
    return float(sums.reach(miss)[0])


def central_margin(schema: Schema, budget: Budget, rounds: int = 1, level: float = LEVEL) -> float:
    """Return the margin of a count if a trusted server adds the noise of :func:`hubbub.planner.central_stderr`.

    The discrete Laplace distribution exceeds m in absolute value with probability 2a^(m+1)/(1 + a), a = e^(−1/scale).

    >>> one = Schema.one_hot(4), Budget(1.0, 1e-6)
    >>> central_margin(*one), round(1.96 * central_stderr(*one), 2)
    (6.0, 5.49)
    """
    miss = 1 - check_real("level", level, OPEN_UNIT)
    stderr = central_stderr(schema, budget, check_whole("rounds", rounds, 1, MAX_ROUNDS))
    if budget.epsilon > 0 and stderr == discrete_laplace(scale := schema.distance * rounds / budget.epsilon):
        whole = math.ceil(scale * math.log(2 / (miss * (1 + math.exp(-1 / scale)))) - 1 - 1e-9)
        return max(0.0, float(whole))
    return normal_quantile(1 - miss) * stderr


def laplace_factor(level: float = LEVEL) -> float:
    """Return the margin of a wide Laplace distribution in standard errors: −ln(1 − level)/√2.

    >>> round(laplace_factor(), 3)
    2.118
    """
    return -math.log(1 - level) / math.sqrt(2)


def overall_margin(plan: Plan, level: float = LEVEL) -> float:
    """Return the margin of a count; of a survey, zσ with the root mean square σ of all questions, to compare plans by.

    >>> from hubbub import plan_from
    >>> overall_margin(plan_from(Schema.survey({"a": Flag()}), 1000, Protocol(0.1, release="bits"), epsilon=1.0)) > 16
    True
    """
    if check_type("plan", plan, Plan).schema.questions is None:
        return margin(plan, level)
    return normal_quantile(check_real("level", level, OPEN_UNIT)) * plan.stderr


def question_margins(plan: Plan, level: float = LEVEL) -> dict[str, float]:
    """Return the margin of every question of a survey, in its unit.

    A count of one attribute: the half-width of its interval, which has the exact distribution of the shuffler's fakes.
    Other figures are sums of several counts: zσ + ½ person, with the z of a single Laplace variable among Laplace
    fakes; a sum of independent ones has shorter tails at these levels. σ is a mean square over all edges of a scale,
    or all cells of a table.

    >>> from hubbub import Fakes, plan_from
    >>> from hubbub.protocol import Noise
    >>> flags = Schema.survey({"a": Flag(), "b": Flag()})
    >>> own = plan_from(flags, 1000, Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2), epsilon=1.0)
    >>> {name: round(one, 2) for name, one in question_margins(own).items()}
    {'a': 8.0, 'b': 8.0}
    """
    miss = 1 - check_real("level", level, OPEN_UNIT)
    return {one.question: _question(plan, one, miss) for one in question_errors(plan)}


def _question(plan: Plan, error: QuestionError, miss: float) -> float:
    schema, protocol = plan.schema, plan.protocol
    assert schema.questions is not None
    question, where = schema.questions[error.question], places_of(schema)
    names = question.names if isinstance(question, Cross) else (error.question,)
    seen = [table for table in tables(schema) if set(table) & set(names)]
    if isinstance(question, Choice | Flag | Cross) and seen == [names]:
        return _single(plan, tables(schema)[names], miss)
    # The tables of a question that is derived, or combined with others, belong to these.
    used = where[error.question] + tuple(tables(schema)[table] for table in seen)
    drawn = [one for one in (protocol.noise[place].shuffler_fakes for place in used) if one is not None]
    heavy = any(one.distribution == "laplace" for one in drawn)
    z = laplace_factor(1 - miss) if heavy else normal_quantile(1 - miss)
    slack = 0.5 / (question.levels - 1) if isinstance(question, Number) else 0.5
    return (z * error.people + slack) * (error.stderr / error.people if error.people > 0 else 1.0)


def _single(plan: Plan, place: int, miss: float) -> float:
    """Return the margin of a count of one attribute."""
    schema, protocol, n = plan.schema, plan.protocol, plan.n
    size, noise, category = schema.attributes[place].size, protocol.noise[place], protocol.sends_category
    variance = answer_variances(schema, protocol, n)[place]
    gain = 1 - (size if category else 2) * noise.q
    error = answer_noise(noise, size, n, variance, gain, category=category, batches=1)
    exact = error.distribution
    if exact is not None:
        slack = error.slack if size > 2 else 0.0  # the difference of two draws has no other errors than these
        return (_beyond([(1.0, exact, error.centre)], miss) + slack) / error.gain
    deviation = math.sqrt(error.variance + max(0.0, n * error.growth))
    if noise.shuffler_fakes is not None and excess_of(noise.shuffler_fakes) > 0:
        return laplace_factor(1 - miss) * deviation + 0.5
    return normal_quantile(1 - miss) * deviation + 0.5 / error.gain
