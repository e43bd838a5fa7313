"""Synthetic answers to the questions of a survey, and the true figures that a study compares its estimates with.

Labels, buckets and flags are drawn with the odds of a population (:mod:`hubbub.lab.populations`); the share of a number
in its range is U^(1 + s) for a uniform U and the exponent s: uniform, skewed, and nearly constant as s grows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy
from hubbub.errors import check_memory, reject
from hubbub.lab.populations import GivenPopulation, Population
from hubbub.lab.sampling import Rng, draw_from, generator
from hubbub.lab.simulation import tallies_by_counts, tallies_by_records
from hubbub.model.plans import Plan
from hubbub.model.questions import Cross, Flag, Number, Scale
from hubbub.model.questions.survey import Asked
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection
from hubbub.results.cross import CrossView
from hubbub.results.estimate import estimate
from hubbub.results.labels import LabelView
from hubbub.results.numbers import NumberView
from hubbub.results.result import View
from hubbub.results.scales import ScaleView

Array = NDArray[np.float64]
LEVEL = 0.95  # confidence level of the tested intervals
NORMAL_95 = 1.959963984540054
MISSING_SHARE = 0.1
"""Share of synthetic people without an answer, where a question allows it."""


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """The answers of all people to one question."""

    codes: NDArray[np.int64]
    """The category or bucket of each person; for numbers 0."""
    shares: Array
    """The share of the range of each person; 0 unless the question is a number."""
    absent: NDArray[np.bool_]


def draw_answers(population: Population, schema: Schema, n: int, *, entropy: Entropy) -> dict[str, Answered]:
    """Draw the answers of n independent people to all questions; people of one class share their odds.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> from hubbub.model.questions import Choice
    >>> schema = Schema.survey({"colour": Choice(["red", "blue"]), "memory": Number(0, 8)})
    >>> found = draw_answers(Population(), schema, 1000, entropy=SeededStreamNotForPeople(1))
    >>> sorted(found), 450 < int(found["colour"].codes.sum()) < 550
    (['colour', 'memory'], True)
    """
    assert schema.questions is not None
    check_memory(f"{n:,} people of {schema}", 40 * n * len(schema.questions))
    rng = generator(entropy)
    classes = rng.integers(population.segments, size=n)
    return {name: _drawn(question, population, classes, rng) for name, question in schema.questions.asked}


def _drawn(question: Asked, population: Population, classes: NDArray[np.int64], rng: Rng) -> Answered:
    n = classes.size
    codes, shares = np.zeros(n, np.int64), np.zeros(n)
    absent = rng.random(n) < MISSING_SHARE if question.missing else np.zeros(n, np.bool_)
    if isinstance(question, Number):
        return Answered(codes, rng.random(n) ** (1 + population.exponent), absent)
    categories = question.buckets if isinstance(question, Scale) else len(question.attributes[0]) - question.missing
    for place, odds in enumerate(population.odds(categories)):
        members = np.flatnonzero(classes == place)
        codes[members] = draw_from(odds / odds.sum(), (members.size,), rng)
    return Answered(codes, shares, absent)


def encoded(answers: Mapping[str, Answered], schema: Schema, *, entropy: Entropy) -> Collection:
    """Return the records of the answers; numbers are rounded at random, so that repeated calls differ."""
    assert schema.questions is not None
    columns: dict[str, object] = {}
    for name, question in schema.questions.asked:
        one = answers[name]
        if isinstance(question, Number):
            values = question.low + one.shares * (question.high - question.low)
            columns[name] = np.where(one.absent, np.nan, values)
        elif isinstance(question, Scale):
            edges = np.array(question.edges)
            columns[name] = np.where(one.absent, np.nan, (edges[one.codes] + edges[one.codes + 1]) / 2)
        else:
            names = (False, True) if isinstance(question, Flag) else question.labels
            listed = [names[code] for code in one.codes.tolist()]
            columns[name] = [None if gone else value for gone, value in zip(one.absent, listed, strict=True)]
    return Collection.from_values(columns, schema, entropy=entropy)


def decoded(people: Collection) -> dict[str, Answered]:
    """Return the answers that records show: the levels of numbers are those after rounding."""
    schema, n = people.schema, len(people)
    assert schema.questions is not None
    rows = people.ones(0, n)[0].reshape(n, len(schema.attributes)) - np.array([one.start for one in schema.attributes])
    own: dict[str, list[NDArray[np.int64]]] = {}
    for place, attribute in enumerate(schema.attributes):
        own.setdefault(attribute.question, []).append(rows[:, place])
    named, found = dict(schema.questions.asked), {}
    for name, question in schema.questions.asked:
        if isinstance(question, Number):
            found[name] = _number(question, own[name])
            continue
        if name in own:
            codes = own[name][-1]
        else:
            cross = schema.questions[schema.questions.crosses(name)[0]]
            assert isinstance(cross, Cross)
            sizes = [named[side].sizes[-1] for side in cross.names]
            codes = np.unravel_index(own[schema.questions.crosses(name)[0]][0], sizes)[cross.names.index(name)]
        last = question.padded if isinstance(question, Scale) else question.sizes[-1] - 1
        absent = (codes == last) if question.missing else np.zeros(n, np.bool_)
        found[name] = Answered(np.where(absent, 0, codes).astype(np.int64), np.zeros(n), absent)
    return found


def _number(question: Number, attributes: list[NDArray[np.int64]]) -> Answered:
    digits = attributes[1:] if question.missing else attributes
    absent = attributes[0] == 1 if question.missing else np.zeros(digits[0].size, np.bool_)
    level, place = np.zeros(digits[0].size, np.int64), 1
    for radix, digit in zip(question.radices, digits[: len(question.radices)], strict=True):
        level += place * digit
        place *= radix
    return Answered(np.zeros_like(level), level / (question.levels - 1), absent)


def true_figures(answers: Mapping[str, Answered], schema: Schema) -> dict[str, Array]:
    """Return the true figures of every question, in people, or in ranges for the sum of a number.

    Labels: the number of people for each. Scales: people below each inner edge. Numbers: the sum of all shares of the
    range. Cross-tables: people in each cell.
    """
    assert schema.questions is not None
    named, found = dict(schema.questions.asked), {}
    for name, question in schema.questions.items:
        if isinstance(question, Cross):
            sizes = [_categories(named[side]) for side in question.names]
            cells = np.ravel_multi_index([_codes(named[side], answers[side]) for side in question.names], sizes)
            found[name] = np.bincount(cells, minlength=int(np.prod(sizes))).astype(np.float64)
        elif isinstance(question, Number):
            found[name] = np.array([answers[name].shares[~answers[name].absent].sum()])
        else:
            counts = np.bincount(_codes(question, answers[name]), minlength=_categories(question)).astype(np.float64)
            found[name] = np.cumsum(counts[: question.buckets])[:-1] if isinstance(question, Scale) else counts
    return found


def _categories(question: Asked) -> int:
    assert not isinstance(question, Number)
    return question.sizes[-1]


def _codes(question: Asked, one: Answered) -> NDArray[np.int64]:
    assert not isinstance(question, Number)
    last = question.padded if isinstance(question, Scale) else question.sizes[-1] - 1
    return np.where(one.absent, last, one.codes)


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """The estimated figures of one question, and which of them are covered by intervals of a level."""

    values: Array
    covered: Array
    """1 for each figure whose interval covers the truth, otherwise 0."""
    together: bool
    """True if the intervals that hold for all figures at once cover all of them."""


def figures(result: View, truth: Array, answers: Answered | None, level: float) -> Figures:
    """Return the estimates of a question beside the truth, in the units of :func:`true_figures`."""
    if isinstance(result, CrossView):
        return _counts(result.cells, truth, level)
    if isinstance(result, LabelView):
        return _counts(result, truth, level)
    assert answers is not None
    if isinstance(result, ScaleView):
        share = truth / max(int((~answers.absent).sum()), 1)
        _, estimated, deviation = result.cdf()
        reach = NORMAL_95 * deviation
        low, high = result.band(level)
        covered = np.abs(estimated - share) <= reach + 1e-12
        inside = (low <= share + 1e-12) & (share <= high + 1e-12)
        return Figures(np.cumsum(result.values)[:-1], covered.astype(np.float64), bool(inside.all()))
    if not isinstance(result, NumberView):
        reject("the result", "be that of a question")
    people = int((~answers.absent).sum())
    total = result.question.low * people + result.range * float(truth[0])
    low_end, high_end = result.sum.interval(level)
    slack = 1e-9 * (abs(total) + result.range)
    held = low_end - slack <= total <= high_end + slack
    return Figures(np.array([result.total]), np.array([float(held)]), held)


def _counts(found: LabelView, truth: Array, level: float) -> Figures:
    low, high = found.interval(level)
    covered = (low <= truth) & (truth <= high)
    low, high = found.interval(level, simultaneous=True)
    together = bool(((low <= truth) & (truth <= high)).all())
    return Figures(found.unbiased, covered.astype(np.float64), together)


@dataclass(frozen=True, slots=True, eq=False)
class QuestionTrials:
    """The errors of all figures of one question in all repetitions, a row for each, and their coverage."""

    errors: Array
    covered: Array
    together: NDArray[np.bool_]
    at_most: bool
    """True if the predicted error is the largest over all data."""


@dataclass(frozen=True, slots=True, eq=False)
class SurveyTrials:
    """The repetitions of a survey: by question, and the messages of all."""

    questions: dict[str, QuestionTrials]
    released: int


def simulate(
    population: Population | GivenPopulation,
    plan: Plan,
    n: int,
    repetitions: int,
    *,
    records: bool,
    source: Entropy,
    noise: Entropy,
) -> SurveyTrials:
    """Collect a survey repeatedly, by records or by counts, and compare its estimates with the truth.

    Synthetic numbers are rounded afresh every time; those of a given population were rounded when it was read.
    """
    schema = plan.schema
    assert schema.questions is not None
    given: Collection | None = None
    if isinstance(population, GivenPopulation):
        given = population.people(schema, n, entropy=source)
        answers = decoded(given)
    else:
        answers = draw_answers(population, schema, n, entropy=source)
    truth, released = true_figures(answers, schema), 0
    found: dict[str, list[Figures]] = {name: [] for name in truth}
    for _ in range(repetitions):
        people = encoded(answers, schema, entropy=noise) if given is None else given
        if records:
            one = next(tallies_by_records(people, plan, 1, entropy=noise))
        else:
            one = next(tallies_by_counts(people.counts(), n, plan, 1, entropy=noise))
        released += one.messages
        estimated = estimate(one, plan)
        for name, true in truth.items():
            found[name].append(figures(estimated[name], true, answers.get(name), LEVEL))
    many = plan.protocol.sends_category and any(one.size > 2 for one in schema.attributes)
    questions = {
        name: QuestionTrials(
            errors=np.array([one.values for one in listed]) - truth[name],
            covered=np.array([one.covered for one in listed]),
            together=np.array([one.together for one in listed]),
            at_most=many or isinstance(schema.questions[name], Number),
        )
        for name, listed in found.items()
    }
    return SurveyTrials(questions, released)
