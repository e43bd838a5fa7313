"""``pool`` and ``compare`` for every kind of result, and the power of a comparison."""

import functools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import (
    OPEN_UNIT,
    PROBABILITY,
    check_choice,
    check_items,
    check_real,
    check_type,
    check_whole,
    reject,
)
from hubbub.mechanisms.noise import predicted_noise
from hubbub.model.plans import MAX_PEOPLE, Plan
from hubbub.numeric.comparison import holm, score_power
from hubbub.results.answers import AnswerCounts, pooled_counts
from hubbub.results.comparisons.figures import NumberComparison, ScaleComparison
from hubbub.results.comparisons.labels import Comparison, Correction, compared_labels, pooled_labels, weakest
from hubbub.results.comparisons.surveys import QuestionComparison, SurveyComparison
from hubbub.results.counts import LEVEL, Estimate
from hubbub.results.cross import CrossEstimate
from hubbub.results.numbers import NumberEstimate
from hubbub.results.scales import ScaleEstimate
from hubbub.results.surveys import SurveyEstimate

Array = NDArray[np.float64]
Digits = TypeVar("Digits", ScaleEstimate, NumberEstimate)
RESULTS = (Estimate, ScaleEstimate, NumberEstimate, CrossEstimate, SurveyEstimate)


@overload
def pool(estimates: Iterable[Estimate]) -> Estimate: ...
@overload
def pool(estimates: Iterable[ScaleEstimate]) -> ScaleEstimate: ...
@overload
def pool(estimates: Iterable[NumberEstimate]) -> NumberEstimate: ...
@overload
def pool(estimates: Iterable[CrossEstimate]) -> CrossEstimate: ...
@overload
def pool(estimates: Iterable[SurveyEstimate]) -> SurveyEstimate: ...
def pool(estimates: Iterable[Any]) -> Any:
    """Add the counts of batches of different people, of one plan or of several, that have the same labels or questions.

    Values, variances and numbers of people are added. The noise that is not close to normal is added as a distribution,
    so that intervals keep their coverage. Every person must be in one batch only: repeated answers of the same people
    are not more people, and their privacy losses add up (:class:`hubbub.Ledger`). The guarantee is that of the batch
    with the weakest one. The rounds of a survey are pooled question by question, and combined as those of one batch
    are; their questions must have the same layout, as those of one plan have.

    >>> import numpy as np
    >>> from dataclasses import replace
    >>> from hubbub.numeric.population import CountNoise
    >>> noise = CountNoise(variance=9.0)
    >>> three, one = np.array([3.0]), np.array([40.0])
    >>> part = Estimate(labels=("a",), values=one, stderr=three, n=100, one_choice=False, unbiased=one, noise=noise)
    >>> both = pool([part, replace(part, n=50)])
    >>> both.values.tolist(), both.n, round(float(both.stderr[0]), 4)
    ([80.0], 150, 4.2426)
    """
    parts = list(check_items("estimates", estimates, "be a list of estimates"))
    if not parts:
        reject("estimates", "contain at least one estimate")
    kind = next((one for one in RESULTS if isinstance(parts[0], one)), Estimate)
    for part in parts:
        check_type("every one of estimates", part, kind)
    if len({id(part) for part in parts}) != len(parts):
        reject("estimates", "be of different people, but one of them is given twice")
    first = parts[0]
    if isinstance(first, Estimate):
        return pooled_labels(parts)
    if isinstance(first, CrossEstimate):
        return _pooled_cross(parts)
    if isinstance(first, SurveyEstimate):
        return _pooled_surveys(parts)
    return _pooled_digits(parts)


def _pooled_digits(parts: list[Digits]) -> Digits:
    first = parts[0]
    if any((part.name, part.question) != (first.name, first.question) for part in parts):
        reject("estimates", "be of one question with the same layout, as those of one plan are")
    return type(first)(
        name=first.name,
        question=first.question,
        n=sum(part.n for part in parts),
        attributes=_added([part.attributes for part in parts], [part.n for part in parts]),
        plan=_common(parts),
    )


def _added(each: list[tuple[AnswerCounts, ...]], people: list[int]) -> tuple[AnswerCounts, ...]:
    return tuple(pooled_counts(attribute, people) for attribute in zip(*each, strict=True))


def _common(parts: list[Digits] | list[SurveyEstimate]) -> str | None:
    """Return the plan of all parts, None if there are several."""
    return parts[0].plan if len({part.plan for part in parts}) == 1 else None


def _pooled_cross(parts: list[CrossEstimate]) -> CrossEstimate:
    first = parts[0]
    if any((part.names, part.axes) != (first.names, first.axes) for part in parts):
        reject("estimates", "be of cross-tables of the same questions and labels")
    cells = pooled_labels([part.cells for part in parts])
    direct = all(part.direct for part in parts)
    return CrossEstimate(name=first.name, names=first.names, axes=first.axes, cells=cells, direct=direct)


def _pooled_surveys(parts: list[SurveyEstimate]) -> SurveyEstimate:
    first = parts[0]
    if any(part.schema != first.schema for part in parts):
        reject("estimates", "be of surveys with the same questions and layout, as those of one plan are")
    return SurveyEstimate(
        schema=first.schema,
        n=sum(part.n for part in parts),
        counts=_added([part.counts for part in parts], [part.n for part in parts]),
        plan=_common(parts),
        achieved=functools.partial(weakest, tuple(parts)),
    )


@overload
def compare(a: Estimate, b: Estimate, *, level: float = LEVEL, correction: Correction = "holm") -> Comparison: ...
@overload
def compare(
    a: CrossEstimate, b: CrossEstimate, *, level: float = LEVEL, correction: Correction = "holm"
) -> Comparison: ...
@overload
def compare(
    a: ScaleEstimate, b: ScaleEstimate, *, level: float = LEVEL, correction: Correction = "holm"
) -> ScaleComparison: ...
@overload
def compare(
    a: NumberEstimate, b: NumberEstimate, *, level: float = LEVEL, correction: Correction = "holm"
) -> NumberComparison: ...
@overload
def compare(
    a: SurveyEstimate, b: SurveyEstimate, *, level: float = LEVEL, correction: Correction = "holm"
) -> SurveyComparison: ...
def compare(a: Any, b: Any, *, level: float = LEVEL, correction: Correction = "holm") -> Any:
    """Compare two batches of different people: the differences between the two populations.

    Of the shares of each label; of mean, sum and variance of a number; of the distribution and the quantiles of a
    scale; of all questions of a survey. Both batches must be simple random samples of their populations, as the arms of
    an experiment are. p-values of labels are those of the score test, and exact or too large where counts are small
    (:mod:`hubbub.numeric.comparison`). They are adjusted for everything that is compared (Holm 1979): if the
    populations do not differ, anything at all is called significant with probability at most 1 − level. A survey gives
    the same weight to each question, and within it to each label; a number is decided by its mean, a scale by its whole
    distribution. With ``correction="none"`` the p-value of each label and question holds on its own, and with many of
    them some are small by chance; the questions of a survey that :attr:`SurveyComparison.significant` names are
    corrected all the same. Intervals, and the p-values of sums, variances and quantiles, hold one by one.
    """
    kind = next((one for one in RESULTS if isinstance(a, one)), Estimate)
    check_type("a", a, kind)
    check_type("b", b, kind)
    level = check_real("level", level, OPEN_UNIT)
    check_choice("correction", correction, ("none", "holm"))
    for name, part in (("a", a), ("b", b)):
        check_whole(f"the number of people of {name}", part.n, 1)
    if a is b:
        reject("a and b", "be of different people, but they are the same estimate")
    if isinstance(a, SurveyEstimate):
        return _compared_surveys(a, b, level, correction)
    return _compared(a, b, level, correction)


def _compared(a: Any, b: Any, level: float, correction: Correction) -> QuestionComparison:
    """Return the comparison of two results of one question."""
    if isinstance(a, Estimate):
        return compared_labels(a, b, level, correction)
    if isinstance(a, CrossEstimate):
        if (a.names, a.axes) != (b.names, b.axes):
            reject("a and b", "be cross-tables of the same questions and labels")
        return compared_labels(a.cells, b.cells, level, correction)
    if isinstance(a, ScaleEstimate):
        return ScaleComparison(a=a, b=b, level=level)
    return NumberComparison(a=a, b=b, level=level)


def _compared_surveys(a: SurveyEstimate, b: SurveyEstimate, level: float, correction: Correction) -> SurveyComparison:
    if list(a) != list(b) or any(type(one) is not type(b[name]) for name, one in a.results):
        reject("a and b", "be estimates of surveys with the same questions")
    found = [_compared(one, b[name], level, "none") for name, one in a.results]
    each = [_p_values(one) for one in found]
    p_value = holm(np.array([min(1.0, one.size * float(one.min())) for one in each]))
    p_value.setflags(write=False)
    if correction == "holm":
        weights = np.concatenate([np.full(one.size, 1 / one.size) for one in each])
        adjusted = np.split(holm(np.concatenate(each), weights), np.cumsum([one.size for one in each])[:-1])
        found = [_adjusted(one, p, whole) for one, p, whole in zip(found, adjusted, p_value.tolist(), strict=True)]
    results = tuple(zip(a, found, strict=True))
    return SurveyComparison(results=results, n_a=a.n, n_b=b.n, level=level, p_value=p_value)


def _p_values(one: QuestionComparison) -> Array:
    """Return the p-values that decide on a question: of its labels, its whole distribution, or its mean."""
    if isinstance(one, Comparison):
        return one.p_value
    return np.array([one.p_value if isinstance(one, ScaleComparison) else one.mean.p_value])


def _adjusted(one: QuestionComparison, p_value: Array, whole: float) -> QuestionComparison:
    """Return a comparison with the adjusted p-values of its labels, or with that of the whole question."""
    if not isinstance(one, Comparison):
        return replace(one, adjusted=whole)
    p_value.setflags(write=False)
    return replace(one, p_value=p_value, correction="holm")


def compare_power(
    plan: Plan,
    share_a: float,
    share_b: float,
    *,
    n_a: int | None = None,
    n_b: int | None = None,
    significance: float = 0.05,
) -> float:
    """Return the probability that :func:`compare` finds a difference between two shares of one label.

    Both batches have the minimum size of the plan unless ``n_a`` and ``n_b`` say otherwise. By the normal
    approximation, which is good if about 20 people or more of each batch have the label; the test of rarer labels is
    somewhat more cautious than this. ``significance`` is that of one label by itself: 0.05/d is a cautious one for
    d labels that are compared together, as :func:`compare` does, and 0.05/(d·J) for a survey of J questions.
    """
    check_type("plan", plan, Plan)
    shares = check_real("share_a", share_a, PROBABILITY), check_real("share_b", share_b, PROBABILITY)
    significance = check_real("significance", significance, OPEN_UNIT)
    sizes = (
        check_whole("n_a", plan.n if n_a is None else n_a, 1, MAX_PEOPLE),
        check_whole("n_b", plan.n if n_b is None else n_b, 1, MAX_PEOPLE),
    )
    one, two = (predicted_noise(plan.schema, plan.protocol, n) for n in sizes)
    return score_power(shares, sizes, (one, two), significance)
