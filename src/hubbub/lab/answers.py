"""Synthetic answers to the questions of a survey, and the true figures that a study compares its estimates with.

Labels, buckets and flags are drawn with the odds of a population (:mod:`hubbub.lab.populations`); the share of a number
in its range is U^(1 + s) for a uniform U and the exponent s: uniform, skewed, and nearly constant as s grows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy
from hubbub.errors import InvalidInput, check_memory
from hubbub.lab.populations import Population, Rng, draw_from, generator
from hubbub.model.plans import Plan
from hubbub.model.questions import Choice, Cross, Flag, Number, Scale, Several, Text
from hubbub.model.questions.survey import Asked, Question
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Tally
from hubbub.results.cross import CrossView
from hubbub.results.estimate import estimate
from hubbub.results.labels import LabelView
from hubbub.results.numbers import NumberView
from hubbub.results.result import View
from hubbub.results.scales import ScaleView
from hubbub.results.strings import StringView

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
    check_memory(f"{n:,} people of {schema}", 40 * n * len(schema.questions))
    rng = generator(entropy)
    classes = rng.integers(population.segments, size=n)
    return {name: _drawn(question, population, classes, rng) for name, question in schema.questions.asked}


def values(question: Choice | Flag | Scale) -> NDArray[Any]:
    """Return an answer for every category or bucket.

    >>> values(Flag()).tolist(), values(Scale(edges=[0, 2, 4])).tolist()
    ([False, True], [1.0, 3.0])
    """
    match question:
        case Choice():
            return np.array(question.labels, object)
        case Flag():
            return np.array([False, True], object)
        case Scale():
            return np.array([(low + high) / 2 for low, high in pairwise(question.edges)])
    assert_never(question)


def _drawn(question: Asked, population: Population, classes: NDArray[np.int64], rng: Rng) -> Answered:
    n = classes.size
    codes, shares = np.zeros(n, np.int64), np.zeros(n)
    absent = rng.random(n) < MISSING_SHARE if question.missing else np.zeros(n, np.bool_)
    if isinstance(question, Number):
        return Answered(codes, rng.random(n) ** (1 + population.exponent), absent)
    for place, odds in enumerate(population.odds(len(values(question)))):
        members = np.flatnonzero(classes == place)
        codes[members] = draw_from(odds / odds.sum(), (members.size,), rng)
    return Answered(codes, shares, absent)


def encoded(answers: Mapping[str, Answered], schema: Schema, *, entropy: Entropy) -> Collection:
    """Return the records of the answers; numbers are rounded at random, so that repeated calls differ."""
    columns: dict[str, object] = {}
    for name, question in schema.questions.asked:
        one = answers[name]
        if isinstance(question, Number):
            given = question.low + one.shares * (question.high - question.low)
        else:
            given = values(question)[one.codes]
        if np.issubdtype(given.dtype, np.floating):
            columns[name] = np.where(one.absent, np.nan, given)
        else:
            listed = zip(one.absent.tolist(), given.tolist(), strict=True)
            columns[name] = [None if gone else value for gone, value in listed]
    return Collection.from_values(columns, schema, entropy=entropy)


def decoded(people: Collection) -> dict[str, Answered]:
    """Return the answers that records show: the levels of numbers are those after rounding."""
    schema, n = people.schema, len(people)
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
        absent = (codes == question.sizes[-1] - 1) if question.missing else np.zeros(n, np.bool_)
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
    return {
        name: _figures(name, question, answers, dict(schema.questions.asked))
        for name, question in schema.questions.items
    }


def _figures(name: str, question: Question, answers: Mapping[str, Answered], named: Mapping[str, Asked]) -> Array:
    """Return the true figures of one question."""
    match question:
        case Cross():
            sizes = [named[side].sizes[-1] for side in question.names]
            cells = np.ravel_multi_index([_codes(named[side], answers[side]) for side in question.names], sizes)
            return np.bincount(cells, minlength=math.prod(sizes)).astype(np.float64)
        case Number():
            return np.array([answers[name].shares[~answers[name].absent].sum()])
        case Scale():
            counts = np.bincount(_codes(question, answers[name]), minlength=question.sizes[-1])
            return np.cumsum(counts[: question.buckets])[:-1].astype(np.float64)
        case Several() | Text():
            raise InvalidInput("a question must be one of a survey")
        case _:
            return np.bincount(_codes(question, answers[name]), minlength=question.sizes[-1]).astype(np.float64)


def _codes(question: Asked, one: Answered) -> NDArray[np.int64]:
    return np.where(one.absent, question.sizes[-1] - 1, one.codes)


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """The estimated figures of one question, and which of them are covered by intervals of a level."""

    values: Array
    covered: NDArray[np.bool_]
    """True for each figure whose interval covers the truth."""
    together: bool
    """True if the intervals that hold for all figures at once cover all of them."""


def figures(result: View, truth: Array, answered: int, level: float = LEVEL) -> Figures:
    """Return the estimates of a question beside the truth of those who answered, as :func:`true_figures` counts it."""
    match result:
        case CrossView():
            return figures(result.cells, truth, answered, level)
        case LabelView():
            low, high = result.interval(level)
            covered = (low <= truth) & (truth <= high)
            low, high = result.interval(level, simultaneous=True)
            return Figures(result.unbiased, covered, bool(((low <= truth) & (truth <= high)).all()))
        case ScaleView():
            share = truth / max(answered, 1)
            _, estimated, deviation = result.cdf()
            low, high = result.band(level)
            covered = np.abs(estimated - share) <= NORMAL_95 * deviation + 1e-12
            inside = (low <= share + 1e-12) & (share <= high + 1e-12)
            return Figures(np.cumsum(result.values)[:-1], covered, bool(inside.all()))
        case NumberView():
            total = result.question.low * answered + result.range * float(truth[0])
            low_end, high_end = result.sum.interval(level)
            slack = 1e-9 * (abs(total) + result.range)
            held = low_end - slack <= total <= high_end + slack
            return Figures(np.array([result.total]), np.array([held]), held)
        case StringView():
            raise InvalidInput("the result must be one of labels or of a survey")
    assert_never(result)


def results(one: Tally, plan: Plan) -> Mapping[str, View]:
    """Return the estimate of every question; that of a schema of labels has no name."""
    found = estimate(one, plan)
    if not plan.schema.named:
        return {"": found.question}
    return {name: found[name] for name in plan.schema.questions.names}
