"""``frontier`` and ``plan``: the best plans for one request; ``smallest_n`` and ``best_epsilon``: the inverse."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Unpack

from hubbub.errors import OPEN_UNIT, POSITIVE, Infeasible, TooLarge, check_delta, check_real
from hubbub.numeric.inversion import falling_root
from hubbub.planner.baselines import central_stderr
from hubbub.planner.costs import cost
from hubbub.planner.families import FAMILIES
from hubbub.planner.request import MAX_EPSILON, Constraints, Request
from hubbub.plans import MAX_PEOPLE, Plan
from hubbub.privacy import Budget
from hubbub.schema import Schema

OPTIMISM = 0.8
"""A family is not certified if even this fraction of its expected error exceeds the best error found."""
CLOSE = {"split": 0.97, "copies": 0.97, "flip": 0.97}
"""The same in several rounds, for families that are costly to search and whose expected error is a close estimate."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a search: a plan for every family that meets the request, and why the others do not."""

    request: Request
    plans: Mapping[str, Plan]
    """The best plan of each family, by key, in the order of standard error and then of messages."""
    failures: Mapping[str, str]
    """Why a family has no plan, by key; the most promising family first."""

    @property
    def best(self) -> Plan:
        """The plan with the smallest standard error; raises :class:`Infeasible` if there is none."""
        for plan in self.plans.values():
            return plan
        request = self.request
        text = f"no protocol meets {request.budget} for {request.schema} at n = {request.n:,}"
        unlimited = replace(request, max_messages=math.inf, max_bytes=math.inf)
        plans = compare(unlimited).plans.items() if request != unlimited else ()
        offered = [(sent.bytes, sent, key) for key, plan in plans if (sent := cost(plan)).bytes is not None]
        if offered:
            _, sent, key = min(offered, key=lambda entry: entry[0] or 0)
            raise Infeasible(
                f"{text} with max_messages = {request.max_messages:g} and max_bytes = {request.max_bytes:g}; the "
                f"smallest upload is that of the family {key}: {sent}"
            )
        for key, reason in self.failures.items():
            raise Infeasible(f"{text}; the most promising family is {key}: {reason}")
        raise Infeasible(f"{text} within the constraints; relax joint, min_q or shuffler_fakes")


def compare(request: Request, *, prune: bool = False) -> Comparison:
    """Search all families; with ``prune``, skip those that cannot have the smallest error."""
    proposals = [(family, candidate) for family in FAMILIES.values() if (candidate := family.propose(request))]
    plans: dict[str, Plan] = {}
    failures: dict[str, str] = {}
    for family, candidate in sorted(proposals, key=lambda pair: pair[1].expected):
        optimism = CLOSE.get(family.key, OPTIMISM) if request.rounds > 1 else OPTIMISM
        if prune and plans and optimism * candidate.expected > min(one.stderr for one in plans.values()):
            continue
        try:
            plans[family.key] = candidate.best(request)
        except (Infeasible, TooLarge) as reason:
            failures[family.key] = str(reason)
    ranked = sorted(plans.items(), key=lambda item: (item[1].stderr, item[1].payload_messages))
    return Comparison(request, dict(ranked), failures)


def frontier(
    schema: Schema, n: int | tuple[int, int], budget: Budget, **constraints: Unpack[Constraints]
) -> list[Plan]:
    """Return the best plan of each family that meets the budget, by standard error and then by messages.

    The families (:data:`hubbub.planner.FAMILIES`) are local randomization; flipped whole records, in one or up to 32
    copies; split bits; d-ary randomized response; clear or flipped records among fakes drawn by the users or, if
    ``shuffler_fakes`` are allowed, by the shuffler. Those that do not meet the budget and the constraints are left out.

    ``n`` may be a range (low, high): all figures are for the smallest batch, and a larger one only adds privacy. The
    keywords are those of :class:`~hubbub.planner.request.Constraints`. With several ``rounds`` the budget holds for all
    of them together (:class:`hubbub.Ledger`), and the guarantee in a plan is that of one round.

    >>> for one in frontier(Schema.one_hot(4), 20_000, Budget(0.5, 1e-6), max_messages=2)[:2]:
    ...     print(round(one.stderr, 2), round(one.payload_messages, 3), one.guarantee.meets(Budget(0.5, 1e-6)))
    5.64 1.0 True
    10.1 1.027 True
    """
    return list(compare(Request.of(schema, n, budget, **constraints)).plans.values())


def plan(schema: Schema, n: int | tuple[int, int], budget: Budget, **constraints: Unpack[Constraints]) -> Plan:
    """Return the plan with the smallest standard error that meets the budget: the first of :func:`frontier`.

    Takes the keywords of :class:`~hubbub.planner.request.Constraints`. Families that cannot win are not certified.
    Raises :class:`Infeasible` if nothing meets the budget and the constraints.

    >>> chosen = plan(Schema.one_hot(4), 20_000, Budget(0.5, 1e-6))
    >>> round(chosen.stderr, 2), chosen.guarantee.meets(Budget(0.5, 1e-6))
    (5.64, True)
    """
    return compare(Request.of(schema, n, budget, **constraints), prune=True).best


def smallest_n(schema: Schema, budget: Budget, precision: float, **constraints: Unpack[Constraints]) -> Plan:
    """Return the plan with the smallest n, within 1 %, whose standard error is at most the share ``precision`` of n.

    Takes the keywords of :class:`~hubbub.planner.request.Constraints`.

    >>> chosen = smallest_n(Schema.one_hot(4), Budget(1.0, 1e-6), precision=0.001)
    >>> chosen.stderr / chosen.n <= 0.001, 2700 < chosen.n < 2900
    (True, True)
    """
    precision = check_real("precision", precision, OPEN_UNIT)
    request = Request.of(schema, 1, budget, **constraints)
    search = _Search(lambda n: replace(request, n=max(1, math.floor(n))), lambda one: one.stderr / one.n / precision)
    guess = min(max(1.01 * central_stderr(schema, budget) / precision, 2.0), MAX_PEOPLE / 10)
    least = falling_root(search.excess, guess, float(MAX_PEOPLE), relative=0.01)[1]
    if math.isfinite(least):
        return search.plans[least]
    best = search.at(float(MAX_PEOPLE))
    raise Infeasible(
        f"no batch of up to {MAX_PEOPLE:,} people has a standard error of {precision:g} of n with {budget} "
        f"for {schema}; at n = {MAX_PEOPLE:,} it is {best.stderr / best.n:.3g} of n: raise precision to that, or "
        "raise epsilon"
    )


def best_epsilon(schema: Schema, n: int, delta: float, stderr: float, **constraints: Unpack[Constraints]) -> Plan:
    """Return the plan with the smallest ε, within 0.2 %, whose standard error is at most ``stderr`` at this n and δ.

    Takes the keywords of :class:`~hubbub.planner.request.Constraints`.

    >>> chosen = best_epsilon(Schema.one_hot(4), 20_000, 1e-6, stderr=2.8)
    >>> chosen.stderr <= 2.8, round(chosen.guarantee.epsilon, 2)
    (True, 1.0)
    """
    delta = check_delta(delta)
    stderr = check_real("stderr", stderr, POSITIVE)
    request = Request.of(schema, n, Budget(0.0, delta), **constraints)
    search = _Search(lambda e: replace(request, budget=Budget(e, delta)), lambda one: one.stderr / stderr)
    guess = min(1.01 * math.sqrt(2) * schema.distance / stderr, 10.0)
    least = falling_root(search.excess, guess, MAX_EPSILON, relative=0.002)[1]
    if math.isfinite(least):
        return search.plans[least]
    best = search.at(MAX_EPSILON)
    raise Infeasible(
        f"no ε up to {MAX_EPSILON:g} gives a standard error of {stderr:g} for {schema} at n = {request.n:,}; "
        f"at ε = {MAX_EPSILON:g} it is {best.stderr:.4g}: raise stderr to that, or raise n"
    )


class _Search:
    """Plans along one parameter, cached so that a search returns a plan that it evaluated."""

    def __init__(self, request: Callable[[float], Request], ratio: Callable[[Plan], float]) -> None:
        self._request, self._ratio = request, ratio
        self.plans: dict[float, Plan] = {}

    def at(self, value: float) -> Plan:
        """Return the best plan at a value, or raise Infeasible."""
        if value not in self.plans:
            self.plans[value] = compare(self._request(value), prune=True).best
        return self.plans[value]

    def excess(self, value: float) -> float:
        """Return the logarithm of the error relative to the target; +∞ where nothing is feasible."""
        plans = compare(self._request(value), prune=True).plans
        if not plans:
            return math.inf
        self.plans[value] = next(iter(plans.values()))
        return math.log(self._ratio(self.plans[value]))
