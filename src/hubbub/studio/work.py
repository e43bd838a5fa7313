"""The computations behind the page, as worker processes run them: plain values in, plain values out."""

import math
from collections.abc import Callable
from typing import Any

from hubbub.errors import HubbubError, Infeasible
from hubbub.pages import render
from hubbub.pages.explanation import MARGIN
from hubbub.pages.plan_report import Background, plan_report
from hubbub.planner import FAMILIES, Constraints, FamilyPlan, best_epsilon, central_stderr
from hubbub.planner.comparison import certified, preliminary
from hubbub.planner.deadlines import Late, until
from hubbub.plans import Plan
from hubbub.privacy import Budget
from hubbub.schema import Schema
from hubbub.studio.attacks import ladder
from hubbub.studio.figures import described
from hubbub.studio.inquiry import Inquiry
from hubbub.studio.trials import trials

Stop = Callable[[], bool]


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


def glance(inquiry: Inquiry, family: str, stop: Stop) -> dict[str, Any]:
    """Return a certified plan that is close to that of :func:`certify`, and sooner; empty if there is none."""
    request = inquiry.request
    try:
        candidate = FAMILIES[family].candidate(request)
    except Infeasible:
        return {}
    found = preliminary(request, FAMILIES[family], candidate, stop) if candidate is not None else None
    return {**described(found, inquiry), "preliminary": True} if found is not None else {}


def simulate(plan: str, shape: str, shares: list[float], rows: str, stop: Stop) -> dict[str, Any]:
    """Return simulated collections under a plan."""
    del stop  # a simulation takes a fraction of a second
    return {"panels": trials(Plan.from_json(plan), shape, shares, rows)}


def attack(plan: str, compromised: int, dropped: int, stop: Stop) -> dict[str, Any]:
    """Return what attackers of growing power learn, and what dropouts change."""
    with until(stop):
        return ladder(Plan.from_json(plan), compromised, dropped)


def solve(inquiry: Inquiry, margin: float, stop: Stop) -> dict[str, Any]:
    """Return the smallest ε, rounded up to three digits, for 95 % of all counts within a margin."""
    terms: Constraints = {**inquiry.limits, "trust": inquiry.trust, "clear": inquiry.clear}
    try:
        with until(stop):
            found = best_epsilon(inquiry.schema, inquiry.n, inquiry.delta, margin / MARGIN, **terms)
    except Late:
        return {"reason": "this takes too long; use hubbub plan --stderr on the command line"}
    epsilon = found.guarantee.epsilon if found.rounds == 1 else found.total.epsilon
    if epsilon <= 0:
        return {"reason": "no noise is needed for this precision"}
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return {"epsilon": float(f"{math.ceil(epsilon / unit - 1e-9) * unit:.3g}")}


def report(plan: str, others: list[str], stop: Stop) -> dict[str, Any]:
    """Return the page that ``hubbub report`` would write about a plan, with the alternatives that were certified."""
    del stop
    own = Plan.from_json(plan)
    simple = own.schema.questions is None and math.isfinite(own.total.epsilon) and own.total.delta < 1
    central = central_stderr(own.schema, Budget(own.total.epsilon, own.total.delta), own.rounds) if simple else None
    rivals = [Plan.from_json(one) for one in others] if simple else []
    checks = ["The guarantee was computed by hubbub when this page was made."]
    return {"html": render(plan_report(own, Background(alternatives=rivals, central=central, checks=checks)))}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "attack": attack,
    "certify": certify,
    "glance": glance,
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
        return {"error": f"fault: {type(error).__name__}"}
