"""``estimate_survey``: from a tally to the estimates of all questions, each in its own terms."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from hubbub.analyzer import achieved_guarantee, check_tally
from hubbub.errors import check_type, check_whole, reject
from hubbub.estimates import Estimate
from hubbub.numeric.population import CountNoise
from hubbub.plans import Plan
from hubbub.privacy import Guarantee
from hubbub.questions import Cross, Number, Scale
from hubbub.questions.answers import with_missing
from hubbub.reports import Tally
from hubbub.surveys.answers import AnswerCounts, answer_counts
from hubbub.surveys.cross import CrossEstimate
from hubbub.surveys.design import factorial, places, tables
from hubbub.surveys.numbers import NumberEstimate
from hubbub.surveys.scales import ScaleEstimate

Result = Estimate | ScaleEstimate | NumberEstimate | CrossEstimate


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class SurveyEstimate:
    """The estimates of all questions of a survey: ``estimate["load time"]`` is one, iteration goes through the names.

    A choice or a flag has an :class:`Estimate` of its labels, a scale a :class:`ScaleEstimate`, a number a
    :class:`NumberEstimate`, a cross-table a :class:`CrossEstimate`.
    """

    results: tuple[tuple[str, Result], ...]
    n: int
    plan: str | None = None
    achieved: Guarantee | Callable[[], Guarantee | None] | None = field(default=None)

    def __post_init__(self) -> None:
        check_whole("n", self.n)
        for name, one in self.results:
            check_type("the name of a question", name, str)
            if not isinstance(one, Estimate | ScaleEstimate | NumberEstimate | CrossEstimate):
                reject("results", "be the estimates of questions")

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the people that were counted; it is computed on first use, which may take seconds."""
        found = self.achieved
        if callable(found):
            found = found()
            object.__setattr__(self, "achieved", found)
        return found

    def __len__(self) -> int:
        return len(self.results)

    def __contains__(self, name: object) -> bool:
        return any(name == one for one, _ in self.results)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.results)

    def __getitem__(self, name: str) -> Result:
        for one, result in self.results:
            if one == name:
                return result
        return reject("name", f"be the name of a question ({', '.join(map(repr, list(self)[:3]))}, …)")

    def __repr__(self) -> str:
        return f"SurveyEstimate({len(self.results)} questions, n={self.n:,})"


def estimate_survey(tally: Tally, plan: Plan) -> SurveyEstimate:
    """Estimate the answers to all questions of a survey, without bias, with standard errors and intervals.

    The attributes of a question, and the tables that count the same people, are combined by least squares; the number
    of people is known.
    """
    check_tally(tally, plan)
    schema, n = plan.schema, tally.n
    if schema.questions is None:
        reject("the plan", "be that of a survey; use hubbub.estimate for others")
    counts = answer_counts(tally, plan)
    where = places(schema)
    results: list[tuple[str, Result]] = []
    for name, question in schema.questions.items:
        own = [counts[place] for place in where[name]]
        if isinstance(question, Scale):
            results.append((name, ScaleEstimate.of(name, question, own, n)))
        elif isinstance(question, Number):
            results.append((name, NumberEstimate.of(name, question, own, n)))
        elif isinstance(question, Cross):
            results.append((name, _cross(name, question, counts, plan, n)))
        else:
            labels = with_missing(question.attributes[0][: question.sizes[0] - question.missing], question.missing)
            results.append((name, _choice(name, labels, counts, plan, n)))
    return SurveyEstimate(
        results=tuple(results), n=n, plan=plan.id, achieved=functools.partial(achieved_guarantee, tally, plan)
    )


def _table(names: tuple[str, ...], counts: list[AnswerCounts], plan: Plan, n: int) -> tuple[np.ndarray, float]:
    """Return the least-squares cells of a table, and the variance of each."""
    schema = plan.schema
    model = factorial(schema, [1 / max(one.variance, 1e-12) for one in counts])
    given = {
        table: counts[place].values.reshape([model.sizes[name] for name in table])
        for table, place in tables(schema).items()
    }
    return model.estimate(given, names, n), model.cell_variance(names)


def _choice(name: str, labels: tuple[str, ...], counts: list[AnswerCounts], plan: Plan, n: int) -> Estimate:
    measured = tables(plan.schema)
    own = measured.get((name,))
    alone = [table for table in measured if name in table] == [(name,)]
    if alone and own is not None:
        values, noise = counts[own].values, counts[own].noise
        stderr = np.sqrt(np.maximum(noise.variance + noise.growth * np.clip(values, 0, n), 0.0))
    else:
        found, variance = _table((name,), counts, plan, n)
        values, noise = np.ascontiguousarray(found), CountNoise(variance=variance)
        stderr = np.full(values.size, np.sqrt(variance))
        values.setflags(write=False)
    stderr.setflags(write=False)
    return Estimate(
        labels=labels, values=values, stderr=stderr, n=n, one_choice=True, unbiased=values, noise=noise, plan=plan.id
    )


def _cross(name: str, question: Cross, counts: list[AnswerCounts], plan: Plan, n: int) -> CrossEstimate:
    cells, variance = _table(question.names, counts, plan, n)
    schema = plan.schema
    assert schema.questions is not None
    axes = []
    for side in question.names:
        one = schema.questions[side]
        assert not isinstance(one, Cross | Number)
        axes.append(one.attributes[-1])
    return CrossEstimate(
        name=name, names=question.names, axes=tuple(axes), values=cells, variance=variance, n=n, plan=plan.id
    )
