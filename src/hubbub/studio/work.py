"""The computations behind the page, as worker processes run them: plain values in, plain values out."""

import math
from collections.abc import Callable
from typing import Any

from hubbub.errors import HubbubError, Infeasible
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema
from hubbub.planner import FAMILIES, Constraints, FamilyPlan, Request, central_margin, search
from hubbub.planner.deadlines import Late, until
from hubbub.planner.inverse import Target, least_epsilon
from hubbub.planner.search import certified, proposed
from hubbub.report import render
from hubbub.report.plan_report import Background, plan_report
from hubbub.studio.attacks import ladder
from hubbub.studio.figures import described
from hubbub.studio.inquiry import EPSILON, Inquiry
from hubbub.studio.trials import trials

Stop = Callable[[], bool]
CLOSE = 1.25
"""Expected error of a plan that is shown first, as a multiple of the smallest one."""


def certify(inquiry: Inquiry, family: str, stop: Stop) -> dict[str, Any]:
    """Return the certified plan of one family for the page, or why there is none."""
    request = inquiry.request
    try:
        candidate = FAMILIES[family].candidate(request)
    except Infeasible as reason:
        return described(FamilyPlan(key=family, reason=str(reason)), inquiry)
    if candidate is None:
        return described(FamilyPlan(key=family, reason="it does not apply to this question"), inquiry)
    return described(certified(request, FAMILIES[family], candidate, stop), inquiry)


def preliminary(inquiry: Inquiry, stop: Stop) -> dict[str, Any]:
    """Return a certified plan that is close to the best one, and there sooner.

    It belongs to the first family with a quick way to one. The answer is empty if there is none, or none that is close.
    """
    request = inquiry.request
    proposals = [
        (family, candidate)
        for family, candidate in proposed(request)[0]
        if inquiry.allows(family.trust, clear=family.clear)
    ]
    for family, candidate in proposals:
        if candidate.expected > CLOSE * proposals[0][1].expected:
            break
        found = search.preliminary(request, family, candidate, stop)
        if found is not None:
            return {**described(found, inquiry), "preliminary": True}
    return {}


def simulate(plan: str, shape: str, shares: list[float], rows: str, stop: Stop) -> dict[str, Any]:
    """Return simulated collections under a plan."""
    del stop  # a simulation takes a fraction of a second
    return {"panels": trials(Plan.from_json(plan), shape, shares, rows)}


def attack(plan: str, compromised: int, dropped: int, stop: Stop) -> dict[str, Any]:
    """Return what attackers of growing power learn, and what dropouts change."""
    with until(stop):
        return ladder(Plan.from_json(plan), compromised, dropped)


def solve(inquiry: Inquiry, margin: float, stop: Stop) -> dict[str, Any]:
    """Return the smallest ε, rounded up to three digits, with a count within the margin in 95 of 100 collections."""
    terms: Constraints = {**inquiry.limits, "trust": inquiry.trust, "clear": inquiry.clear}
    request = Request.of(inquiry.schema, inquiry.n, Budget(0.0, inquiry.delta), **terms)
    try:
        with until(stop):
            epsilon, _ = least_epsilon(request, Target.of("margin", margin), EPSILON.low)
    except Late:
        return {"reason": "this takes too long; use hubbub plan --margin"}
    return {"epsilon": epsilon}


def report(plan: str, others: list[str], stop: Stop) -> dict[str, Any]:
    """Return the page that ``hubbub report`` would write about a plan, with the alternatives that were certified."""
    del stop
    own = Plan.from_json(plan)
    simple = not own.schema.named and math.isfinite(own.total.epsilon) and own.total.delta < 1
    central = central_margin(own.schema, Budget(own.total.epsilon, own.total.delta), own.rounds) if simple else None
    rivals = [Plan.from_json(one) for one in others] if simple else []
    checks = ["The guarantee was computed by hubbub when this page was made."]
    return {"html": render(plan_report(own, Background(alternatives=rivals, central=central, checks=checks)))}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "attack": attack,
    "certify": certify,
    "preliminary": preliminary,
    "report": report,
    "simulate": simulate,
    "solve": solve,
}


def warm() -> None:
    """Load what certificates need, before anybody waits for one."""
    asked = Inquiry(
        kind="one",
        schema=Schema.one_hot(3),
        n=1000,
        epsilon=1.0,
        delta=1e-6,
        rounds=1,
        trust="shuffling",
        clear=False,
        compromised=0,
        joint=False,
    )
    for family in ("split", "clear-shuffler-fakes"):
        certify(asked, family, lambda: False)


def run(task: str, arguments: dict[str, Any], stop: Stop) -> dict[str, Any]:
    """Run a task; an error of hubbub becomes its message, and any other one its kind."""
    try:
        return TASKS[task](**arguments, stop=stop)
    except Late:
        return {"late": True}
    except HubbubError as error:
        return {"error": str(error)}
    except Exception as error:  # a fault of hubbub must not end the page, and its text may hold people's answers
        return {"error": f"internal error: {type(error).__name__}"}
