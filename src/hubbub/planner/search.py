"""``plan`` and ``frontier``: the search for the best plan of every family, and why others have none."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Unpack

from hubbub.errors import FalseClaim, Infeasible, TooLarge, check_choice, check_type, reject
from hubbub.model.plans import Plan
from hubbub.model.privacy import TRUST_MODELS, Budget, TrustModel
from hubbub.model.schema import Schema
from hubbub.planner.certify import Candidate
from hubbub.planner.columns import plan_error
from hubbub.planner.costs import cost
from hubbub.planner.deadlines import Late, check_time, deadline_of, until
from hubbub.planner.families import FAMILIES, Family, family_key, family_name, includes_trust
from hubbub.planner.influence import client_weight
from hubbub.planner.preliminary import preliminary_plan
from hubbub.planner.request import Constraints, Limits, Request, given_budget

OPTIMISM = 0.8
"""A family is not certified if even this fraction of its expected error exceeds the best error found."""
EXPECTED = 1.01
"""The same for several columns, whose expected errors follow from closed forms that are confirmed to a percent."""
CLOSE = {"split": 0.97, "copies": 0.97, "flip": 0.97}
"""The same in several rounds, for families that are costly to search and whose expected error is a close estimate."""


FEWER_HONEST = 1.25
"""A plan that needs fewer honest users is preferred unless its error is more than this multiple of the smallest one."""


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a search: a plan for every family that meets the request, and why the others do not."""

    request: Request
    plans: Mapping[str, Plan]
    """The best plan of each family, by key, in the order of standard error and then of messages."""
    failures: Mapping[str, str]
    """Why a family has no plan, by key; the most promising family first."""
    late: tuple[str, ...] = ()
    """The families whose plans were not certified in time."""

    @classmethod
    def of(
        cls, request: Request, *, prune: bool = False, only: str | None = None, stop: "Stop | None" = None
    ) -> "Search":
        """Return all that :func:`by_family` finds."""
        found = list(by_family(request, prune=prune, only=only, stop=stop))
        plans = [(one.key, one.plan) for one in found if one.plan is not None]
        plans.sort(key=lambda item: (plan_error(request, item[1]), item[1].payload_messages))
        failures = {one.key: one.reason for one in found if one.plan is None}
        return cls(request, dict(plans), failures, tuple(one.key for one in found if one.late))

    @property
    def best(self) -> Plan:
        """The preferred plan (:func:`preferred`); raises :class:`Infeasible` if there is none."""
        request = self.request
        if self.plans:
            return preferred(request, self.plans.values())
        if self.late:
            raise Infeasible(f"no protocol was certified in time, not even {self.late[0]}; raise the deadline")
        text = f"no protocol meets {request.budget} for {request.schema} at n = {request.n:,}"
        unlimited = replace(request, max_messages=math.inf, max_bytes=math.inf)
        plans = Search.of(unlimited).plans.items() if request != unlimited else ()
        offered = [(sent.bytes, sent, key) for key, plan in plans if (sent := cost(plan)).bytes is not None]
        if offered:
            _, sent, key = min(offered, key=lambda entry: entry[0] or 0)
            raise Infeasible(
                f"{text} with max_messages = {request.max_messages:g} and max_bytes = {request.max_bytes:g}; the "
                f"smallest upload is that of the family {key}: {sent}"
            )
        relaxed = [name for name, one in relaxations(request) if Search.of(one, prune=True).plans]
        if relaxed:
            raise Infeasible(f"{text} with these constraints; relax {' or '.join(relaxed)}")
        for key, reason in self.failures.items():
            raise Infeasible(f"{text}; the most promising family is {key}: {reason}")
        raise Infeasible(f"{text} within the constraints; relax several of them, or raise epsilon or delta")

    def plan_of(self, key: str) -> Plan:
        """Return the plan of a family, or raise :class:`Infeasible` with the reason why there is none."""
        if key not in self.plans:
            raise Infeasible(f"no protocol of the family {key} meets the request: {self.why_not(key)}")
        return self.plans[key]

    def why_not(self, key: str) -> str:
        """Return why a family has no plan; empty if it has one."""
        if key in self.plans:
            return ""
        excluded = FAMILIES[key].excluded(self.request)
        return excluded or self.failures.get(key, "it does not apply to this schema, budget and number of people")

    @property
    def preference(self) -> str:
        """The preference for another plan than that with the smallest error, and its reason; empty if there is none."""
        least, best = next(iter(self.plans.values()), None), self.best if self.plans else None
        if best is None or least is None or best is least:
            return ""
        return (
            f"preferred {family_name(best)}, error {best.stderr:.4g}, which needs "
            f"{best.guarantee.assumptions.needs}, to {family_name(least)}, error {least.stderr:.4g}, which needs "
            f"{least.guarantee.assumptions.needs}: an error of up to {FEWER_HONEST:g} times the smallest one is "
            f"accepted to need fewer honest users; choose the family {family_key(least)} for the other"
        )

    @property
    def grouped(self) -> list[Plan]:
        """The plans by the trust they need, least first; then those without clear records, by standard error."""
        return sorted(self.plans.values(), key=_group)


def preferred(request: Request, plans: Iterable[Plan]) -> Plan:
    """Return the plan that needs the fewest honest users, and among those the one with the smallest error.

    Plans whose error is more than :data:`FEWER_HONEST` times the smallest one are out of the question.
    """
    ranked = sorted(plans, key=lambda one: (plan_error(request, one), one.payload_messages))
    most = FEWER_HONEST * plan_error(request, ranked[0])
    return min((one for one in ranked if plan_error(request, one) <= most), key=_honest)


def _honest(plan: Plan) -> int:
    return plan.guarantee.assumptions.honest


def _group(plan: Plan) -> tuple[int, bool]:
    return TRUST_MODELS.index(FAMILIES[family_key(plan)].trust), plan.protocol.clear


def relaxations(request: Request) -> Iterator[tuple[str, Request]]:
    """Yield the request without each of its constraints, with a name for the change; those of the trust come last."""
    for one in fields(Request)[3:]:
        if one.name not in ("trust", "clear", "weights") and getattr(request, one.name) != one.default:
            relaxed: dict[str, Any] = {one.name: one.default}
            yield one.name, replace(request, **relaxed)
    if request.trust == "shuffling" and not request.clear and not request.needs_flips:
        yield "clear (to True)", replace(request, clear=True)
    for trust in TRUST_MODELS[TRUST_MODELS.index(request.trust) + 1 :]:
        yield f"trust (to {trust!r})", replace(request, trust=trust)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPlan:
    """The result of the search of one family: its plan, or why there is none."""

    key: str
    plan: Plan | None = None
    reason: str = ""
    """Why there is no plan; empty if there is one."""
    late: bool = False
    """True if time was up before the plan was certified: there may be one."""

    def __post_init__(self) -> None:
        check_choice("key", self.key, tuple(FAMILIES))
        check_type("reason", self.reason, str)
        check_type("late", self.late, bool)
        if self.plan is not None:
            check_type("plan", self.plan, Plan)
        if (self.plan is None) != bool(self.reason):
            reject("reason", "be given if there is no plan, and only then", self.reason)
        if self.late and self.plan is not None:
            reject("late", "be False if there is a plan", self.late)


Stop = Callable[[], bool]
"""Tells a search to end at its next certificate."""
LATE = "it was not certified in time; raise the deadline"


def proposed(request: Request) -> tuple[list[tuple[Family, Candidate]], dict[str, str]]:
    """Return the families that apply, smallest expected error first, and why others that might apply do not."""
    found: list[tuple[Family, Candidate]] = []
    failures: dict[str, str] = {}
    for family in FAMILIES.values():
        try:
            candidate = family.candidate(request)
        except Infeasible as reason:
            failures[family.key] = str(reason)
        else:
            found += [(family, candidate)] if candidate else []
    return sorted(found, key=lambda pair: pair[1].expected), failures


def certified(request: Request, family: Family, candidate: Candidate, stop: Stop | None = None) -> FamilyPlan:
    """Return the certified plan of one family, or why there is none."""
    try:
        with until(stop):
            check_time()
            plan = protecting(request, candidate.best(request))
    except Late:
        if stop is None:  # the search around this one is to stop
            raise
        return FamilyPlan(key=family.key, reason=LATE, late=True)
    except (Infeasible, TooLarge) as reason:
        return FamilyPlan(key=family.key, reason=str(reason))
    return FamilyPlan(key=family.key, plan=plan)


def preliminary(request: Request, family: Family, candidate: Candidate, stop: Stop | None = None) -> FamilyPlan | None:
    """Return a certified plan close to the best one of a family, and sooner; None if there is no quick way to one."""
    try:
        with until(stop):
            check_time()
            plan = preliminary_plan(request, candidate)
    except (Late, Infeasible, TooLarge):
        return None
    return FamilyPlan(key=family.key, plan=protecting(request, plan)) if plan is not None else None


def by_family(
    request: Request, *, prune: bool = False, only: str | None = None, stop: Stop | None = None
) -> Iterator[FamilyPlan]:
    """Yield what the search of each family finds, smallest expected error first, until ``stop`` returns True.

    ``only`` restricts it to one family. With ``prune``, families that cannot have the smallest error, and cannot be
    preferred, are skipped.
    """
    proposals, failures = proposed(request)
    plans: list[Plan] = []

    def hopeless(family: Family, candidate: Candidate) -> bool:
        """Return True if a family cannot have an error that is of any interest."""
        optimism = CLOSE.get(family.key, OPTIMISM) if request.rounds > 1 else OPTIMISM
        if candidate.schema is not None and len(candidate.schema.attributes) > 1:
            optimism = EXPECTED
        errors = [plan_error(request, one) for one in plans]
        limit = min(errors)
        if family.trust != "shuffling":  # families of this trust need the most honest users
            alone = [plan_error(request, one) for one in plans if _honest(one) == 1]
            limit = min([FEWER_HONEST * limit, *alone])
        return optimism * candidate.expected > limit

    for family, candidate in proposals:
        if only not in (None, family.key) or (prune and plans and hopeless(family, candidate)):
            continue
        found = certified(request, family, candidate, stop)
        plans += [found.plan] if found.plan is not None else []
        yield found
    for key, reason in failures.items():
        yield FamilyPlan(key=key, reason=reason)


def protecting(request: Request, plan: Plan) -> Plan:
    """Return the plan if it protects at least as the request asks: the last check of every search.

    Raises :class:`FalseClaim` if its guarantee rests on more trust than allowed, or if records would be sent in the
    clear, or with less local protection than required. No family of the planner should ever cause that.
    """
    held, protocol = plan.guarantee.assumptions, plan.protocol
    if not includes_trust(request.trust, held.trust):
        raise FalseClaim(f"the plan needs the trust {held.trust!r}, but must rely on {request.trust!r} at most")
    if any(noise.shuffler_fakes is not None for noise in protocol.noise) and request.trust != "shuffler-noise":
        raise FalseClaim(f"the plan has fakes of the shuffler, but must rely on {request.trust!r} at most")
    if not request.allows_clear and (protocol.clear or math.isinf(held.collusion_epsilon)):
        raise FalseClaim("the plan sends records in the clear, but must randomize every record on its device")
    if held.collusion_epsilon * request.rounds > request.max_collusion_epsilon:
        raise FalseClaim(
            f"the plan has a collusion ε of {held.collusion_epsilon:.6g} per round, but it must be at most "
            f"{request.max_collusion_epsilon:g} over {request.rounds:,} rounds"
        )
    if math.isfinite(request.max_client_weight) and (weight := client_weight(plan)) > request.max_client_weight:
        raise FalseClaim(f"one device counts for {weight:.4g} people, but for {request.max_client_weight:g} at most")
    return plan


def frontier(
    schema: Schema,
    n: int | tuple[int, int],
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    trust: TrustModel | None = None,
    deadline: float | None = None,
    **limits: Unpack[Limits],
) -> list[Plan]:
    """Return the best plan of each family that meets the budget, grouped by the trust they need.

    The families (:data:`hubbub.planner.FAMILIES`) are local randomization; flipped whole records, in one or up to 32
    copies; split bits; d-ary randomized response; clear or flipped records among fakes drawn by the users or by the
    shuffler. Without ``trust``, all of them, with plans that send records in the clear; with it, those that
    :func:`plan` chooses from. The groups come in the order of trust, least first, and within one trust plans without
    clear records first; the plans of a group in the order of standard error. Families that do not meet the budget and
    the constraints are left out.

    ``n`` may be a range (low, high): all figures are for the smallest batch, and a larger one only adds privacy. The
    budget is an object, or ``epsilon`` and ``delta``. The other keywords are those of
    :class:`~hubbub.planner.request.Limits`. With several ``rounds`` the budget holds for all of them together
    (:class:`hubbub.Ledger`), and the guarantee in a plan is that of one round. Families that are not certified within
    ``deadline`` seconds are left out; :func:`frontier_by_family` tells which.

    >>> for one in frontier(Schema.bits(1), 20_000, epsilon=0.5, delta=1e-6):
    ...     print(one.guarantee.assumptions.trust, one.protocol.clear, round(one.stderr, 1))
    nobody False 279.9
    shuffling False 9.5
    shuffling True 8.2
    shuffler-noise True 2.8
    """
    stop = deadline_of(deadline)
    asked = given_budget(budget, epsilon, delta)
    request = Request.of(schema, n, asked, trust="shuffler-noise" if trust is None else trust, **limits)
    return Search.of(request, stop=stop).grouped


def frontier_by_family(
    schema: Schema,
    n: int | tuple[int, int],
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    trust: TrustModel | None = None,
    deadline: float | None = None,
    **limits: Unpack[Limits],
) -> Iterator[FamilyPlan]:
    """Return the plans of :func:`frontier` one by one, each as soon as it is certified, and why a family has none.

    The arguments are those of :func:`frontier`. The family with the smallest expected error comes first. Families whose
    plans are not certified within ``deadline`` seconds of this call are ``late``.

    >>> for one in frontier_by_family(Schema.bits(1), 20_000, epsilon=0.5, delta=1e-6):
    ...     print(one.key, one.plan and round(one.plan.stderr, 1))
    clear-shuffler-fakes 2.8
    flip 9.5
    clear-user-fakes 8.2
    local-flip 279.9
    """
    stop = deadline_of(deadline)
    asked = given_budget(budget, epsilon, delta)
    request = Request.of(schema, n, asked, trust="shuffler-noise" if trust is None else trust, **limits)
    return by_family(request, stop=stop)


def plan(
    schema: Schema,
    n: int | tuple[int, int],
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    family: str | None = None,
    **constraints: Unpack[Constraints],
) -> Plan:
    """Return the plan with the smallest standard error that meets the budget and needs no more than the stated trust.

    A plan that needs fewer honest users is preferred if its error is at most 1.25 times the smallest one
    (:data:`FEWER_HONEST`); :attr:`Search.preference` says so.

    By default the trust is "shuffling": every record is randomized on its device, and the shuffler only mixes. The
    budget is an object, or ``epsilon`` and ``delta``; the other keywords are those of
    :class:`~hubbub.planner.request.Constraints`. Families that cannot win are not certified. ``family`` asks for the
    plan of one family, by its key in :data:`hubbub.planner.FAMILIES`. Raises :class:`Infeasible` if nothing meets the
    budget and the constraints.

    >>> chosen = plan(Schema.one_hot(4), 20_000, epsilon=0.5, delta=1e-6)
    >>> round(chosen.stderr, 2), chosen.guarantee.meets(Budget(0.5, 1e-6)), chosen.protocol.q > 0
    (10.74, True, True)
    >>> round(plan(Schema.one_hot(4), 20_000, Budget(0.5, 1e-6), trust="shuffler-noise").stderr, 2)
    4.89
    """
    request = Request.of(schema, n, given_budget(budget, epsilon, delta), **constraints)
    if family is None:
        return Search.of(request, prune=True).best
    return Search.of(request, only=check_choice("family", family, tuple(FAMILIES))).plan_of(family)
