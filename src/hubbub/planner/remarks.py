"""Warnings about plans that meet their request, but are useless or weaker than they look."""

import math

from hubbub.errors import check_type
from hubbub.mechanisms.errors import question_errors
from hubbub.model.plans import Plan
from hubbub.model.privacy import success_rate
from hubbub.planner.margins import in_people, question_margins
from hubbub.planner.precision import LEVEL, relative_error

HIGH_EPSILON = 5.0
MEANINGLESS_COLLUSION = 20.0
"""Collusion ε from which the noise of one device does not even deter; the assumptions say so from
:data:`~hubbub.model.privacy.WEAK_COLLUSION` on, which most plans that trust the shuffling exceed."""


def remarks(plan: Plan) -> list[str]:
    """Return warnings about a plan, the most serious first; empty for a plan without weaknesses.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> remarks(plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-6))
    []
    >>> print(*remarks(plan_from(Schema.bits(1), 100, Protocol(0.499), delta=1e-6)))
    The error exceeds the crowd: one count of 100 people has a standard error of 2,500. The results will say nothing...
    """
    return weaknesses(plan) + _rests(plan)


def weaknesses(plan: Plan) -> list[str]:
    """Return warnings about the figures of a plan alone, for readers who are told elsewhere on whom it rests.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> print(*weaknesses(plan_from(Schema.bits(1), 100, Protocol(0.001), delta=1e-6)))
    ε = 6.91 protects little: a guess between two answers of one person may be right in up to 99.9 % of all cases...
    """
    return [text for text in (_useless(check_type("plan", plan, Plan)), *_weak(plan)) if text]


def _useless(plan: Plan) -> str:
    if plan.schema.named:
        return _useless_question(plan)
    told = f"one count of {plan.n:,} people has a standard error of {plan.stderr:,.0f}"
    if plan.stderr >= plan.n:
        return (
            f"The error exceeds the crowd: {told}. The results will say nothing; raise epsilon or the number of people."
        )
    if relative_error(plan, 0.5, LEVEL) >= 1:
        return (
            f"The error is about as large as the crowd: {told}, so that not even a label of half the people can be "
            "told from none. Raise epsilon or the number of people."
        )
    return ""


def _useless_question(plan: Plan) -> str:
    """Return a warning about the question of a survey with the largest error, if its interval covers everything."""
    half = question_margins(plan)
    worst = max(question_errors(plan), key=lambda one: in_people(one, half[one.question]))
    if in_people(worst, half[worst.question]) < plan.n / 2:
        return ""
    error = f"{worst.stderr:,.3g}{' ' + worst.unit if worst.unit else ''}"
    return (
        f"The error of {worst.question!r} is about as large as the crowd: its standard error is {error} in a batch of "
        f"{plan.n:,} people. Raise epsilon, the number of people or the weight of the question."
    )


def _weak(plan: Plan) -> list[str]:
    # All rounds together: they are what a person risks.
    epsilon, delta = plan.total.epsilon, plan.total.delta
    found = []
    if delta * plan.n >= 1:
        found.append(
            f"δ = {delta:.3g} is not below 1/n = {1 / plan.n:.3g}: a protocol that publishes the records of "
            f"{math.floor(delta * plan.n):,} of {plan.n:,} people would meet it too. Choose δ far below 1/n."
        )
    if epsilon > HIGH_EPSILON:
        found.append(
            f"ε = {epsilon:.3g} protects little: a guess between two answers of one person may be right in up to "
            f"{100 * success_rate(epsilon, delta):.4g} % of all cases. Choose an ε of at most {HIGH_EPSILON:g}."
        )
    return found


def _rests(plan: Plan) -> list[str]:
    held = plan.guarantee.assumptions
    if held.relay:
        return [
            "If shuffler and analyzer work together, they see every string, although not whose it is: then only the "
            "relay protects."
        ]
    if not held.shuffler or plan.rounds * held.collusion_epsilon <= MEANINGLESS_COLLUSION:
        return []
    return [
        "Everything rests on the shuffler: if it works with the analyzer, nobody is protected (collusion ε = "
        f"{held.described_collusion(plan.rounds)}); max_collusion_epsilon asks for noise that protects in that case "
        "too."
    ]
