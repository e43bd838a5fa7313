"""A certified plan as the page shows it: margins, odds, trust and cost."""

import math
from typing import Any

from hubbub.mechanisms.chances import count_shown
from hubbub.mechanisms.errors import question_errors
from hubbub.model.plans import Plan
from hubbub.model.privacy import success_rate
from hubbub.planner import FAMILIES, FamilyPlan, cost, family_name, question_margins
from hubbub.planner.margins import in_people, overall_margin
from hubbub.planner.remarks import weaknesses
from hubbub.report.explanation import assumed, learns
from hubbub.report.words import described_error, described_weight
from hubbub.studio.inquiry import Inquiry
from hubbub.studio.spelling import command, python


def described(found: FamilyPlan, inquiry: Inquiry) -> dict[str, Any]:
    """Return what the search of one family found, for the page; infinite figures are null."""
    family, plan = FAMILIES[found.key], found.plan
    about = {
        "family": found.key,
        "trust": family.trust,
        "clear": family.clear,
        "allowed": inquiry.allows(family.trust, clear=family.clear),
    }
    if plan is None:
        return {**about, "state": "late" if found.late else "none", "reason": found.reason}
    sent, held = cost(plan), plan.guarantee
    half = overall_margin(plan)
    return {
        **about,
        "state": "certified",
        "name": family_name(plan),
        "curve": half,
        "margin": half,
        "questions": questions(plan),
        "shown": [count_shown(plan), count_shown(plan, 0.95)] if plan.protocol.sends_strings else None,
        "epsilon": finite(plan.total.epsilon),
        "delta": plan.total.delta,
        "round": finite(held.epsilon),
        "basis": held.basis.value,
        "attack": held.attack,
        "guess": success_rate(plan.total.epsilon, plan.total.delta),
        "collusion_epsilon": finite(held.assumptions.collusion_epsilon),
        "collusion_guess": success_rate(plan.rounds * held.assumptions.collusion_epsilon),
        "shuffler": held.assumptions.shuffler,
        "honest": held.assumptions.honest,
        "votes": described_weight(plan),
        "sentences": assumed(plan),
        "remarks": weaknesses(plan),
        "learns": [list(row) for row in learns(plan)],
        "messages": sent.messages,
        "bytes": sent.bytes,
        "not_offered": sent.not_offered,
        "joint": plan.protocol.sends_records,
        "id": plan.id,
        "plan": plan.to_json(),
        "command": command(inquiry, found.key),
        "python": python(inquiry, found.key),
    }


def questions(plan: Plan) -> list[dict[str, Any]]:
    """Return the margin of each question of a survey in its own unit, in words; none for other schemas."""
    if not plan.schema.named:
        return []
    half = question_margins(plan)
    return [
        {
            "name": one.question,
            "margin": half[one.question],
            "unit": one.unit,
            "measures": one.measures,
            "text": described_error(one),
            "hopeless": in_people(one, half[one.question]) >= plan.n / 2,
        }
        for one in question_errors(plan)
    ]


def finite(value: float) -> float | None:
    """Return a number, or None for infinity, which JSON lacks."""
    return value if math.isfinite(value) else None
