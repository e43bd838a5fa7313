"""The protection that is left if the attacker controls more users than planned, or if fewer people answer."""

from typing import Any

from hubbub.errors import HubbubError
from hubbub.model.plans import Plan
from hubbub.model.privacy import success_rate
from hubbub.planner.deadlines import check_time
from hubbub.planner.recompute import plan_from
from hubbub.studio.figures import finite

STEPS = (10, 50)
"""Percentages of users that the attacker controls, for the ladder."""


def ladder(plan: Plan, compromised: int, dropped: int) -> dict[str, Any]:
    """Return how often attackers of growing power guess right, and the same after dropouts."""
    planned = round(100 * (1 - plan.honest_fraction))
    shares = sorted({compromised, planned, *STEPS})
    steps = [{"compromised": one, **_left(plan, plan.n, 1 - one / 100)} for one in shares]
    held = plan.guarantee.assumptions
    together = success_rate(plan.rounds * held.collusion_epsilon) if held.shuffler else _rate(plan)
    people = max(1, plan.n * (100 - dropped) // 100)
    return {
        "steps": steps,
        "planned": planned,
        "together": together,
        "shuffler": held.shuffler,
        "people": people,
        "dropped": _left(plan, people, plan.honest_fraction) if dropped else None,
    }


def _rate(plan: Plan) -> float:
    return success_rate(plan.total.epsilon, plan.total.delta)


def _left(plan: Plan, n: int, honest: float) -> dict[str, Any]:
    """Return ε of all rounds and the share of right guesses; no bound if the accountant has none."""
    if n == plan.n and honest == plan.honest_fraction:
        return {"epsilon": finite(plan.total.epsilon), "guess": _rate(plan)}
    check_time()
    held = plan.guarantee
    try:
        other = plan_from(
            plan.schema,
            n,
            plan.protocol,
            delta=held.delta,
            honest_fraction=honest,
            trust=held.assumptions.trust,
            rounds=plan.rounds,
            total_delta=plan.total.delta if plan.rounds > 1 else None,
        )
    except HubbubError:
        return {"epsilon": None, "guess": 1.0}
    return {"epsilon": finite(other.total.epsilon), "guess": _rate(other)}
