"""``outline``: about the error of every family, from closed forms in a few milliseconds, for charts and sliders."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Unpack

from hubbub.errors import NON_NEGATIVE, POSITIVE, check_choice, check_items, check_real, check_type, check_whole, reject
from hubbub.model.plans import MAX_PEOPLE
from hubbub.model.privacy import TRUST_MODELS, Budget, TrustModel
from hubbub.model.schema import Schema
from hubbub.planner.deadlines import check_time
from hubbub.planner.families import FAMILIES
from hubbub.planner.request import Limits, Request, given_budget
from hubbub.planner.search import proposed

MAX_POINTS = 1000
"""Largest number of points of one curve."""
Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """About the error of one family: nothing in it is certified, and no function accepts it in place of a plan."""

    key: str
    name: str
    trust: TrustModel
    """The trust that its guarantee would need."""
    clear: bool
    """True if records would be sent in the clear, hidden only by fakes."""
    error: float | None
    """About the standard error of one count, or the root mean square of a survey's questions; None if there is none."""
    by_epsilon: Curve = ()
    """(ε, error) at other budgets, where the family applies."""
    by_people: Curve = ()
    """(n, error) in other batches, where the family applies."""

    def __post_init__(self) -> None:
        check_choice("key", self.key, tuple(FAMILIES))
        check_type("name", self.name, str)
        check_choice("trust", self.trust, TRUST_MODELS)
        check_type("clear", self.clear, bool)
        if self.error is not None:
            check_real("error", self.error, NON_NEGATIVE)
        for name in ("by_epsilon", "by_people"):
            _check_curve(name, getattr(self, name))


def outline(
    schema: Schema,
    n: int | tuple[int, int],
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    trust: TrustModel | None = None,
    epsilons: Iterable[float] = (),
    people: Iterable[int] = (),
    **limits: Unpack[Limits],
) -> list[Outline]:
    """Return about the error of every family that applies, at the request and along ``epsilons`` and ``people``.

    The other arguments are those of :func:`frontier`, whose plans have certificates: these figures have none, and a
    family may turn out not to meet the budget at all. They cost a few milliseconds for each point, so that a chart
    follows a slider; the accountant then certifies what is chosen.

    >>> for one in outline(Schema.bits(1), 20_000, epsilon=0.5, delta=1e-6, people=[10_000, 40_000]):
    ...     print(one.key, one.trust, round(one.error, 1), [round(error, 1) for _, error in one.by_people])
    local-flip nobody 279.9 [197.9, 395.9]
    flip shuffling 8.1 [8.1, 8.1]
    clear-user-fakes shuffling 8.1 [8.1, 8.1]
    clear-shuffler-fakes shuffler-noise 2.8 [2.8, 2.8]
    """
    asked = given_budget(budget, epsilon, delta)
    request = Request.of(schema, n, asked, trust="shuffler-noise" if trust is None else trust, **limits)
    places = [check_real("each of epsilons", one, POSITIVE) for one in _axis("epsilons", epsilons)]
    crowds = [check_whole("each of people", one, 1, MAX_PEOPLE) for one in _axis("people", people)]
    here = _errors(request)
    along_epsilon = [(x, _errors(replace(request, budget=Budget(x, asked.delta)))) for x in places]
    along_people = [(float(x), _errors(replace(request, n=x))) for x in crowds]
    return [
        Outline(
            key=key,
            name=family.name,
            trust=family.trust,
            clear=family.clear,
            error=here.get(key),
            by_epsilon=_curve(key, along_epsilon),
            by_people=_curve(key, along_people),
        )
        for key, family in FAMILIES.items()
        if any(key in found for found in (here, *(each for _, each in along_epsilon + along_people)))
    ]


def _errors(request: Request) -> dict[str, float]:
    """Return about the error of each family that applies, without those that have none in doubles."""
    check_time()
    proposals, _ = proposed(request)
    return {family.key: one.expected for family, one in proposals if math.isfinite(one.expected)}


def _curve(key: str, points: list[tuple[float, dict[str, float]]]) -> Curve:
    return tuple((x, errors[key]) for x, errors in points if key in errors)


def _axis(name: str, values: Iterable[object]) -> list[object]:
    found = list(check_items(name, values, "be numbers"))
    if len(found) > MAX_POINTS:
        reject(name, f"be at most {MAX_POINTS:,} numbers, got {len(found):,}")
    return found


def _check_curve(name: str, curve: object) -> None:
    points = curve if isinstance(curve, tuple) else reject(name, "be a tuple of pairs of numbers")
    for point in points:
        if not isinstance(point, tuple) or len(point) != 2:
            reject(name, "be a tuple of pairs of numbers")
        for value in point:
            check_real(f"each number of {name}", value, NON_NEGATIVE)
