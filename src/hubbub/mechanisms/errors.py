"""The predicted errors of a survey: of one category's count, and of every question in its own terms."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hubbub.errors import NON_NEGATIVE, check_real, check_type, reject
from hubbub.mechanisms.design import effects, mean_square
from hubbub.mechanisms.mechanism import label_mechanisms
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.questions import Cross, Number, Scale
from hubbub.model.schema import Schema

LEAST_VARIANCE = 1e-12
"""Variance of the counts of an attribute below which they are taken as exact: a tiny scale has none in doubles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionError:
    """The predicted standard error of one question, from the noise alone: sampling error is not included."""

    question: str
    stderr: float
    """In the unit."""
    people: float
    """In people, or for a number in ranges, of which one person contributes at most one."""
    unit: str
    measures: str
    """The figure that has this error."""

    def __post_init__(self) -> None:
        for name in ("question", "unit", "measures"):
            check_type(name, getattr(self, name), str)
        for name in ("stderr", "people"):
            check_real(name, getattr(self, name), NON_NEGATIVE)


def answer_variances(schema: Schema, protocol: Protocol, n: int, *, batches: int = 1) -> list[float]:
    """Return s² of every attribute of a survey of n people; its largest value where it depends on the data."""
    return [one.variance(n, batches) for one in label_mechanisms(protocol, schema)]


def predicted_errors(schema: Schema, protocol: Protocol, n: int) -> tuple[QuestionError, ...]:
    """Return the predicted error of every question of a survey in a batch of n people.

    The rounding of numbers adds at most half a step to each of them, independently; its share is included.

    >>> from hubbub.model.protocol import Fakes, Noise
    >>> from hubbub.model.questions import Choice, Flag
    >>> survey = Schema.survey({"colour": Choice(["red", "green", "blue"]), "dark mode": Flag()})
    >>> for one in predicted_errors(survey, Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2), 1000):
    ...     print(one.question, round(one.stderr, 2), one.unit, one.measures)
    colour 4.61 people one count
    dark mode 3.99 people one count
    """
    return _predicted(schema, answer_variances(schema, protocol, n), n)


def _predicted(schema: Schema, variances: Sequence[float], n: int) -> tuple[QuestionError, ...]:
    squares = mean_square(effects(schema), [1 / max(one, LEAST_VARIANCE) for one in variances])
    found = []
    for name, question in schema.questions.items:
        people, unit, measures = math.sqrt(squares[name]), "people", "one count"
        stderr = people
        if isinstance(question, Cross):
            measures = "one cell"
        elif isinstance(question, Scale):
            measures = "people below an edge"
        elif isinstance(question, Number):
            people = math.hypot(people, math.sqrt(n) / (2 * (question.levels - 1)))
            stderr, unit, measures = people * (question.high - question.low) / n, question.unit, "the mean"
        found.append(QuestionError(question=name, stderr=stderr, people=people, unit=unit, measures=measures))
    return tuple(found)


def question_errors(plan: Plan) -> tuple[QuestionError, ...]:
    """Return the predicted error of every question of a plan for a survey, from the noise and the rounding of numbers.

    Sampling error comes on top if the people are a sample of a population.
    """
    if not check_type("plan", plan, Plan).schema.named:
        reject("the plan", "be that of a survey; the error of others is plan.stderr")
    return predicted_errors(plan.schema, plan.protocol, plan.n)


def rms_error(schema: Schema, variances: Sequence[float], n: int, weights: Mapping[str, float]) -> float:
    """Return the root mean square of the errors of all questions by their weights, given s² of every attribute.

    >>> from hubbub.model.questions import Flag
    >>> round(rms_error(Schema.survey({"a": Flag(), "b": Flag()}), [2.0, 8.0], 1000, {"a": 1.0, "b": 3.0}), 4)
    1.8028
    """
    each = _predicted(schema, variances, n)
    total = math.fsum(weights[one.question] for one in each)
    return math.sqrt(math.fsum(weights[one.question] * one.people**2 for one in each) / total)


def survey_stderr(schema: Schema, protocol: Protocol, n: int) -> float:
    """Return the root mean square of the errors of all questions, in people (or ranges): one figure for a survey.

    >>> from hubbub.model.protocol import Noise
    >>> from hubbub.model.questions import Flag
    >>> round(survey_stderr(Schema.survey({"a": Flag(), "b": Flag()}), Protocol.survey([Noise(0.1)] * 2), 1000), 3)
    8.385
    """
    each = predicted_errors(schema, protocol, n)
    return math.sqrt(math.fsum(one.people**2 for one in each) / len(each))
