"""The layout of a survey: digits of numbers, levels of scales, and which questions a cross-table answers alone.

Each question is laid out by itself: with optimal noise, the total error is (Σ √W·K)² for Gaussian and (Σ W^{1/3}·K)³
for Laplace noise, where K depends on the layout of one question only.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Literal, TypeVar

from hubbub.mechanisms.design import effects, own_effects, places
from hubbub.model.questions import Choice, Flag, Number, Question, Scale
from hubbub.model.questions.number import MAX_LEVELS
from hubbub.model.schema import Schema
from hubbub.planner.allocation import NOTHING, gaussian_shares, laplace_shares, total_error

NoiseFamily = Literal["laplace", "gaussian"]
Layout = TypeVar("Layout", Scale, Number)
FANOUTS = (2, 4, 8, 16)
WORTH = (0.02, 0.1, 0.25, 0.5, 0.9)  # relative gain in error that a further message of a question must bring
WIDE = (16, 64, 256)  # further radices, if messages are scarce
ROUNDED = 0.14  # error of random rounding that a number may have, relative to that of its noise
WIDEST = 2**12  # buckets up to which all combinations of three widths are tried


def laid_out(
    schema: Schema,
    family: NoiseFamily,
    weights: Mapping[str, float],
    n: int,
    precision: float,
    messages: float = math.inf,
) -> Schema:
    """Return the survey with every open layout chosen for one distribution of noise.

    ``precision`` is the largest precision that all attributes together can have: the error of a number that is alone in
    the survey, against which its rounding is small. If there are more attributes than ``messages``, layouts with fewer
    of them are chosen at the cost of larger errors, as far as possible.

    >>> schema = Schema.survey({"load time": Scale(0, 4096, buckets=256), "memory": Number(0, 65_536)})
    >>> chosen = laid_out(schema, "laplace", {"load time": 1.0, "memory": 1.0}, 10_000, 0.125)
    >>> chosen.questions["load time"].widths, chosen.questions["memory"].radices
    ((16, 1), (4, 4, 4, 4))
    """
    questions, derived = schema.questions.items, schema.questions.derived
    for worth in WORTH:
        found = tuple((name, _chosen(one, family, n, precision, worth)) for name, one in questions)
        chosen = _survey(found, derived, family, tuple(weights.items()))
        if len(chosen.attributes) <= messages:
            break
    return chosen


@functools.lru_cache(maxsize=64)
def _survey(
    questions: tuple[tuple[str, Question], ...],
    derived: tuple[str, ...],
    family: NoiseFamily,
    weights: tuple[tuple[str, float], ...],
) -> Schema:
    """Return the survey of questions with layouts: few of them occur along a curve."""
    return _derived(Schema.survey(dict(questions), derived=derived), family, dict(weights))


def _derived(schema: Schema, family: NoiseFamily, weights: Mapping[str, float]) -> Schema:
    """Return the survey without the attributes that are not worth a message beside a cross-table."""
    questions = schema.questions
    inside = [
        name
        for name, question in questions.items
        if isinstance(question, Choice | Flag) and questions.crosses(name) and name not in questions.derived
    ]
    if not inside:
        return schema
    parts, count, where = effects(schema), len(schema.attributes), places(schema)
    shares = (laplace_shares if family == "laplace" else gaussian_shares)(parts, count, weights)
    idle = [name for name in inside if shares[where[name][0]] <= math.sqrt(NOTHING) * shares.max()]
    return Schema.survey(dict(questions.items), derived=[*questions.derived, *idle]) if idle else schema


def _chosen(question: Question, family: NoiseFamily, n: int, precision: float, worth: float) -> Question:
    if isinstance(question, Scale) and not question.levels and question.buckets > 2:
        return _with_levels(question, _best_widths(question.buckets, question.missing, family, worth))
    if isinstance(question, Number) and not question.digits:
        digits = _digits(family, n, precision, scarce=worth > WORTH[0])
        return _best_digits(question, tuple(digits), family, worth)
    return question


@functools.lru_cache(maxsize=256)
def _best_digits(question: Number, options: tuple[tuple[int, ...], ...], family: NoiseFamily, worth: float) -> Number:
    """Return the number with the best of several digits: few of them occur along a curve."""
    return _best([_with_digits(question, one) for one in options], family, worth)


@functools.lru_cache(maxsize=256)
def _best_widths(buckets: int, missing: bool, family: NoiseFamily, worth: float) -> tuple[int, ...]:
    """Return the widths of the levels of a scale, which do not depend on the edges of its buckets."""
    options = [Scale(0, buckets, buckets=buckets, missing=missing, levels=one) for one in _widths(buckets)]
    return _best(options, family, worth).widths


def _best(options: list[Layout], family: NoiseFamily, worth: float) -> Layout:
    """Return the layout with the smallest error, where a message more must be worth it."""
    ranks = [_error(one, family) / (1 - worth) ** len(one.sizes) for one in options]
    return options[ranks.index(min(ranks))]


@functools.lru_cache(maxsize=1024)
def _error(question: Scale | Number, family: NoiseFamily) -> float:
    """Return the error of a question that is alone, for one unit of precision or of loss."""
    parts, weights = own_effects("", question, range(len(question.sizes))), {"": 1.0}
    if family == "laplace":
        precisions = laplace_shares(parts, len(question.sizes), weights) ** 2
    else:
        precisions = gaussian_shares(parts, len(question.sizes), weights)
    return math.sqrt(total_error(parts, precisions.tolist(), weights))


def _with_levels(question: Scale, widths: tuple[int, ...]) -> Scale:
    return Scale(edges=question.edges, missing=question.missing, unit=question.unit, levels=widths)


def _with_digits(question: Number, digits: tuple[int, ...]) -> Number:
    return Number(
        question.low,
        question.high,
        missing=question.missing,
        variance=question.variance,
        unit=question.unit,
        digits=digits,
    )


def _widths(buckets: int) -> Iterator[tuple[int, ...]]:
    """Yield widths of levels that are worth a try: up to three powers of two, and trees of equal fan-out."""
    powers = [2**i for i in range(1, 40) if 2**i < buckets]
    yield (1,)
    for one in powers:
        yield (one, 1)
    if buckets <= WIDEST:
        for two, one in itertools.combinations(powers, 2):
            yield (one, two, 1)
    for fanout in FANOUTS:
        tree = [fanout**i for i in range(40) if fanout**i < buckets]
        if len(tree) > 3:
            yield tuple(reversed(tree))


@functools.cache
def _alone(radix: int, family: NoiseFamily) -> float:
    """Return the error of a number of four digits, for one unit of precision or of loss."""
    return _error(Number(0, 1, digits=(radix,) * 4), family)


def _digits(family: NoiseFamily, n: int, precision: float, *, scarce: bool) -> Iterator[tuple[int, ...]]:
    """Yield digits with so many levels that random rounding adds little to the noise."""
    for radix in ((4,) if family == "laplace" else (2, 4)) + (WIDE if scarce else ()):
        alone = _alone(radix, family) / math.sqrt(precision)
        levels = min(1 + math.sqrt(n) / (2 * ROUNDED * alone), MAX_LEVELS)
        least = 1 if radix in WIDE else 2
        yield (radix,) * max(least, math.ceil(math.log(levels) / math.log(radix) - 1e-9))
