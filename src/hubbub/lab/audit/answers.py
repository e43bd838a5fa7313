"""Answers that give people chosen categories of one attribute of a survey: the input of an audited program.

A program reads answers, not records, and encodes them itself. Not every record is that of an answer: the blocks of a
scale contain each other, and the cells of a cross-table follow from its questions. For one attribute at a time, there
is an answer for every category, except for the unused blocks of a scale.
"""

import csv
import io
import math
from collections.abc import Iterable
from functools import cached_property
from typing import assert_never

from hubbub.errors import InvalidInput
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Questions, Scale, Several, Text
from hubbub.model.questions.number import GRID

Answers = dict[str, object]
MAX_CHANCE = 2.0**-20
"""Largest probability that a device rounds a number to another category; the tests would not notice it."""
VARIED = 8
"""Number of different answers to the questions around the attribute under test."""


class UnreachableCategory(InvalidInput):
    """No answer has this category."""


class AttributeAnswers:
    """Answers of people by their category of one attribute; their other answers vary.

    >>> answers = AttributeAnswers(Questions.create({"a": Flag(), "b": Choice(["x", "y"])}), 1)
    >>> answers.spell([1, 0])
    b'a,b\\n0,y\\n1,x\\n'
    """

    def __init__(self, questions: Questions, place: int) -> None:
        self._questions, self._place = questions, place
        self._found: dict[int, Answers] = {}

    def spell(self, categories: Iterable[int]) -> bytes:
        """Return the answers of people with these categories as CSV, as ``hubbub randomize`` reads it."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = [name for name, _ in self._questions.asked]
        writer.writerow(names)
        for person, category in enumerate(categories):
            chosen = self._chosen(category)
            around = self._around[person % len(self._around)]
            # A row of a single empty cell would be an empty line.
            row = [_cell(chosen.get(name, around.get(name))) for name in names]
            writer.writerow(row) if any(row) or len(row) > 1 else text.write('""\n')
        return text.getvalue().encode()

    def _chosen(self, category: int) -> Answers:
        """Return the answers that decide on the category."""
        if category not in self._found:
            attribute = self._questions.columns[self._place]
            first = next(i for i, one in enumerate(self._questions.columns) if one.question == attribute.question)
            question = self._questions[attribute.question]
            if isinstance(question, Cross):
                found = self._cell(question, category)
            else:
                found = {attribute.question: answer(question, self._place - first, category)}
            self._check(found, category)
            self._found[category] = found
        return self._found[category]

    def _cell(self, cross: Cross, cell: int) -> Answers:
        found: Answers = {}
        for name in reversed(cross.names):
            question = self._questions[name]
            assert not isinstance(question, Cross | Number)
            cell, category = divmod(cell, question.sizes[-1])
            found[name] = answer(question, len(question.sizes) - 1, category)
        return found

    def _check(self, chosen: Answers, category: int) -> None:
        """Raise unless a device that rounds numbers to the nearest level gives these answers the category."""
        found = self._questions.encode({**self._around[0], **chosen}, lambda numerator: 2 * numerator >= GRID)
        if found[self._place] != category:
            raise UnreachableCategory("no answer has this category")

    @cached_property
    def _around(self) -> list[Answers]:
        """Answers to all questions, of which each varies by itself."""
        rows: list[Answers] = [{} for _ in range(VARIED)]
        for shift, (name, question) in enumerate(self._questions.asked):
            size = question.sizes[-1] if not isinstance(question, Number) else VARIED
            for person, row in enumerate(rows):
                row[name] = _any(question, (person + shift) % min(size, VARIED))
        return rows


def answer(question: Question, attribute: int, category: int) -> object:
    """Return an answer with this category of an attribute of the question; None is a missing answer.

    >>> answer(Choice(["x", "y"], missing=True), 0, 1), answer(Scale(edges=[0, 1, 10, 100]), 0, 2)
    ('y', 10.0)
    >>> answer(Number(0, 15, digits=[4, 4]), 1, 2)
    8.0
    """
    match question:
        case Choice():
            return question.labels[category] if category < len(question.labels) else None
        case Flag():
            return bool(category) if category < 2 else None
        case Scale():
            width = question.widths[attribute]
            if category == question.padded // width:
                return None
            if category * width >= question.buckets:
                raise UnreachableCategory("no answer is in an unused block of a scale")
            return question.edges[category * width]
        case Number():
            return _number(question, attribute, category)
        case Cross() | Several() | Text():
            raise InvalidInput("a question must be a Choice, Flag, Scale or Number to be answered by one category")
    assert_never(question)


def _number(question: Number, attribute: int, category: int) -> float | None:
    """Return a number whose level, or that of its square, has a digit at the place of the attribute, and no other."""
    if question.missing:
        if attribute == 0:
            return None if category else question.low
        attribute -= 1
    square, place = divmod(attribute, len(question.radices))
    share = category * math.prod(question.radices[:place]) / (question.levels - 1)
    if square:
        share = (1 + math.sqrt(share)) / 2
    value = question.low + (question.high - question.low) * share
    reached = question.share(value)
    level = ((2 * reached - 1) ** 2 if square else reached) * (question.levels - 1)
    if abs(level - round(level)) > MAX_CHANCE:
        raise UnreachableCategory("no answer is certain to be rounded to this level")
    return value


def _any(question: Choice | Flag | Scale | Number, step: int) -> object:
    """Return one of several answers."""
    if isinstance(question, Number):
        return question.low + (question.high - question.low) * step / VARIED
    try:
        return answer(question, len(question.sizes) - 1, step)
    except UnreachableCategory:
        return answer(question, len(question.sizes) - 1, 0)


def _cell(value: object) -> str:
    """Return an answer as the text of a cell."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else value if isinstance(value, str) else repr(value)
