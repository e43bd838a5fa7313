"""The effect of the noise of attributes on the questions of a survey: the design behind plans and estimates.

Every question is a sum of *effects*: the levels of a scale, the digits of a number, the margins and interactions of a
cross-table. An effect e has the variance 1/λ_e, λ_e = Σ_a A_ea·u_a, where u_a is the precision (1/variance) of one
category of attribute a, and the mean square error of a question is Σ_e γ_e/λ_e:

- **tables** (:mod:`hubbub.numeric.effects`): a choice, a flag and a cross-table of d categories or cells;
- **scales** (:mod:`hubbub.numeric.trees`): over all numbers of people below an edge;
- **numbers**: the sum, in ranges; a digit of radix r at the place b has γ = b²·r(r²−1)/12/(levels − 1)².
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.model.questions import Choice, Cross, Flag, Number, Questions, Scale
from hubbub.model.schema import Schema
from hubbub.numeric.effects import Factorial, Factors
from hubbub.numeric.trees import Tree


@dataclass(frozen=True, slots=True)
class Effect:
    """A part of the error of a question: γ/λ, λ = Σ A_a·u_a over attributes, by their place in the schema."""

    question: str
    gamma: float
    weights: Mapping[int, float]


def places(schema: Schema) -> dict[str, tuple[int, ...]]:
    """Return the attributes of every question, by their place in the schema; none for derived ones.

    >>> places(Schema.survey({"a": Flag(), "b": Scale(0, 8, buckets=8, levels=[4, 1])}))
    {'a': (0,), 'b': (1, 2)}
    """
    found: dict[str, tuple[int, ...]] = dict.fromkeys(_questions(schema).names, ())
    for place, attribute in enumerate(schema.attributes):
        found[attribute.question] += (place,)
    return found


def _questions(schema: Schema) -> Questions:
    return schema.questions


def tables(schema: Schema) -> dict[Factors, int]:
    """Return the tables that a survey counts, by the questions of their axes, with the attribute of each.

    The buckets of a scale are no table of their own: its levels are combined by themselves.

    >>> questions = {"a": Flag(), "b": Flag(), "a × b": Cross("a", "b")}
    >>> tables(Schema.survey(questions)), tables(Schema.survey(questions, derived=["a"]))
    ({('a',): 0, ('b',): 1, ('a', 'b'): 2}, {('b',): 0, ('a', 'b'): 1})
    """
    found: dict[Factors, int] = {}
    where = places(schema)
    for name, question in _questions(schema).items:
        if isinstance(question, Cross):
            found[question.names] = where[name][0]
        elif isinstance(question, Choice | Flag) and where[name]:
            found[(name,)] = where[name][0]
    return found


def factorial(schema: Schema, precisions: Sequence[float]) -> Factorial:
    """Return the tables of a survey with the precision of a cell of each."""
    sizes = {
        name: question.sizes[-1]
        for name, question in _questions(schema).asked
        if isinstance(question, Choice | Flag | Scale)
    }
    return Factorial(sizes, {table: precisions[place] for table, place in tables(schema).items()})


def tree(question: Scale, precisions: Sequence[float]) -> Tree:
    """Return the levels of a scale with the precision of a block of each."""
    return Tree(question.padded, question.widths, tuple(precisions), question.missing)


def place_values(question: Number) -> list[int]:
    """Return the value of a unit of each digit, lowest first.

    >>> place_values(Number(0, 1, digits=[4, 4, 2]))
    [1, 4, 16]
    """
    return [math.prod(question.radices[:place]) for place in range(len(question.radices))]


def effects(schema: Schema) -> list[Effect]:
    """Return the effects of all questions; the people that are missing from a scale or a number are left out.

    >>> [(one.question, round(one.gamma, 4), dict(one.weights)) for one in effects(Schema.survey({"a": Flag()}))]
    [('a', 0.25, {0: 0.5})]
    """
    return list(_effects(schema))


@functools.lru_cache(maxsize=64)
def _effects(schema: Schema) -> tuple[Effect, ...]:
    """Return the effects of all questions, which a search needs again and again."""
    questions, where = _questions(schema), places(schema)
    found: list[Effect] = []
    counted = factorial(schema, [1.0] * len(schema.attributes))
    measured = tables(schema)
    for name, question in questions.items:
        if isinstance(question, Choice | Flag | Cross):
            table = question.names if isinstance(question, Cross) else (name,)
            for count in range(1, len(table) + 1):
                for effect in itertools.combinations(table, count):
                    gamma = math.prod(counted.sizes[one] - 1 for one in effect) / counted.cells(table) ** 2
                    seen = [other for other in measured if set(effect) <= set(other)]
                    found.append(Effect(name, gamma, {measured[other]: 1 / counted.cells(other) for other in seen}))
        elif isinstance(question, Scale | Number):
            found += own_effects(name, question, where[name])
    return tuple(found)


def own_effects(name: str, question: Scale | Number, where: Sequence[int]) -> list[Effect]:
    """Return the effects of a scale or a number, which only its own attributes observe, at the given places."""
    return _scale(name, question, where) if isinstance(question, Scale) else _number(name, question, where)


def _scale(name: str, question: Scale, where: Sequence[int]) -> list[Effect]:
    right = np.arange(1, question.padded, dtype=np.float64)
    before = right * right / question.padded
    found = []
    for level, width in enumerate(question.widths):
        rest = right % width
        here = right - rest + rest * rest / width
        finer = {where[other]: float(question.widths[other]) for other in range(level, len(question.widths))}
        found.append(Effect(name, float((here - before).mean()), finer))
        before = here
    return found


def _number(name: str, question: Number, where: Sequence[int]) -> list[Effect]:
    digits = where[1:] if question.missing else where
    found = [Effect(name, answers_gamma(1 / 2), {where[0]: 1.0})] if question.missing else []
    each = list(zip(question.radices, place_values(question), strict=True))
    for place, (radix, value) in zip(digits, each * (2 if question.variance else 1), strict=True):
        gamma = value**2 * radix * (radix**2 - 1) / 12 / (question.levels - 1) ** 2
        found.append(Effect(name, gamma, {place: 1.0}))
    return found


def answers_gamma(share: float) -> float:
    """Return γ of the number of answers to a number that may be missing, for a mean at this share of its range.

    The mean divides by the number of answers, whose error counts by that share: 1/2 at random, 1 at worst.

    >>> answers_gamma(1 / 2), answers_gamma(1.0)
    (0.125, 0.5)
    """
    return share * share / 2


def mean_square(parts: Sequence[Effect], precisions: Sequence[float]) -> dict[str, float]:
    """Return the mean square error of every question: of one count, of a number of people below an edge, of a sum.

    >>> mean_square(effects(Schema.survey({"a": Flag(), "b": Flag()})), [0.5, 0.25])
    {'a': 1.0, 'b': 2.0}
    """
    found: dict[str, float] = {}
    for one in parts:
        weight = math.fsum(each * precisions[place] for place, each in one.weights.items())
        found[one.question] = found.get(one.question, 0.0) + (one.gamma / weight if weight > 0 else math.inf)
    return found
