"""The votes of one device in words."""

import math

from hubbub.model.plans import Plan
from hubbub.planner.influence import client_messages, client_weight, question_weights


def described_weight(plan: Plan, slots: int | None = None) -> str:
    """Say for how many people one malicious device can count.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> described_weight(plan_from(Schema.one_hot(100), 10_000, Protocol(0.02, release="bits"), delta=1e-6))
    'a malicious one sends up to 21 messages and counts for up to 21.7 people on one label'
    """
    most = client_messages(plan) if slots is None else slots
    number = "any number of messages" if math.isinf(most) else f"up to {most:,} message{'s' * (most != 1)}"
    does = f"a malicious one sends {number} and counts for up to"
    if not plan.schema.named:
        what = "string" if plan.protocol.sends_strings else "label"
        return f"{does} {_people(client_weight(plan, slots))} on one {what}"
    each = ", ".join(f"{name} {_number(weight)}" for name, weight in question_weights(plan, slots).items())
    return f"{does} {_people(client_weight(plan, slots))} on one answer ({each})"


def _people(weight: float) -> str:
    return "1 person" if weight == 1 else f"{_number(weight)} people"


def _number(weight: float) -> str:
    return "∞" if math.isinf(weight) else f"{float(f'{weight:.3g}'):,.10g}"
