"""Plans and guarantees in words, for terminals, pages and notebooks."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hubbub.mechanisms.chances import chance_shown, count_shown
from hubbub.mechanisms.design import places
from hubbub.mechanisms.errors import QuestionError, question_errors
from hubbub.model.plans import Plan
from hubbub.model.privacy import TRUST_DESCRIPTIONS, Assumptions, Guarantee, described_odds
from hubbub.planner import Goal, cost, described_precision, family_key, family_name, relative_error
from hubbub.planner.influence import client_messages, client_weight, question_weights
from hubbub.planner.precision import LEVEL, percent, question_noise
from hubbub.report.sentences import (
    asked_of,
    batch_fakes,
    described_layout,
    described_noises,
    described_protocol,
    described_schema,
    only_question,
    question_words,
)

SHARE = 0.01
"""Share of the population whose precision is shown if no other is asked for."""


def described_guarantee(guarantee: Guarantee, *, survey: bool = False) -> list[tuple[str, str]]:
    """Describe a guarantee of one round: the figures, the theorem, the best attack and the assumptions."""
    return [*_figures(guarantee), *_held(guarantee, survey=survey)]


def described_series(plan: Plan) -> list[tuple[str, str]]:
    """Describe the guarantee of a plan: first of all its rounds together, which is what a person risks."""
    survey, total = only_question(plan.schema) is None, plan.total
    if plan.rounds == 1:
        return described_guarantee(plan.guarantee, survey=survey)
    epsilon = "∞" if math.isinf(total.epsilon) else f"{total.epsilon:.4g}"
    return [
        ("guarantee", f"({epsilon}, {total.delta:.3g})-differential privacy for all {plan.rounds:,} rounds together"),
        ("odds", f"after all {plan.rounds:,} rounds, {described_odds(total.epsilon, total.delta)}"),
        *_once(plan.guarantee),
        *_held(plan.guarantee, survey=survey, rounds=plan.rounds),
    ]


def _once(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Describe the figures of one round of several."""
    (_, figures), *rest = _figures(guarantee)
    return [("per round", figures), *(("", f"{name}: {value}" if name else value) for name, value in rest)]


def _figures(guarantee: Guarantee) -> list[tuple[str, str]]:
    attacked = ": no smaller value can be guaranteed" if guarantee.lower_bound > 0 else ""
    return [
        ("guarantee", f"({guarantee.epsilon:.4g}, {guarantee.delta:.3g})-differential privacy, n = {guarantee.n:,}"),
        ("", f"{guarantee.basis.value}, by {guarantee.method}"),
        *([("note", guarantee.note)] if guarantee.note else []),
        ("odds", guarantee.odds),
        ("best attack", guarantee.attack + attacked),
    ]


def _held(guarantee: Guarantee, *, survey: bool, rounds: int = 1) -> list[tuple[str, str]]:
    held = guarantee.assumptions
    lines = described_assumptions(guarantee, survey=survey, rounds=rounds)
    return [
        ("trust", f"{held.trust}: {TRUST_DESCRIPTIONS[held.trust]}"),
        ("needs", held.needs),
        ("collusion ε", described_collusion(held, rounds)),
        *(("assumptions" if not i else "", line) for i, line in enumerate(lines)),
    ]


def described_assumptions(guarantee: Guarantee, *, survey: bool, rounds: int = 1) -> list[str]:
    """Return the assumptions of a guarantee in sentences; the bits of a survey are categories of its attributes."""
    lines = guarantee.assumptions.sentences(rounds)
    return [line.replace("messages for each bit", "messages for each category") for line in lines] if survey else lines


def described_collusion(held: Assumptions, rounds: int = 1) -> str:
    """Describe what remains if shuffler and analyzer collude."""
    return held.described_collusion(rounds) + " (no protection)" * math.isinf(held.collusion_epsilon)


def described_plan(plan: Plan, goal: Goal | None = None, share: float | None = None) -> list[tuple[str, str]]:
    """Describe a plan as names and values, with its precision for a goal or for a share of the population."""
    return [
        ("plan", plan.id),
        ("schema", described_schema(plan.schema)),
        ("people", f"at least {plan.n:,} in a batch"),
        ("family", f"{family_name(plan)} ({family_key(plan)})"),
        ("protocol", described_protocol(plan.protocol)),
        *_precision(plan, goal, share),
        ("cost", str(cost(plan))),
        ("one device", described_weight(plan)),
        *described_series(plan),
    ]


def described_chances(plan: Plan) -> str:
    """Describe how many people must hold a string for it to be shown."""
    half, most = count_shown(plan, 0.5), count_shown(plan, 0.95)
    return (
        f"a string that {half:,} people hold with probability 50%, one that {most:,} hold with 95%, "
        f"one of a single person with {chance_shown(plan, 1):.2g}"
    )


def _precision(plan: Plan, goal: Goal | None, share: float | None) -> list[tuple[str, str]]:
    """Describe the error of a count, or of every question; a share is that of the least precise one that has shares."""
    only, level = only_question(plan.schema), goal.level if goal else LEVEL
    rows = _error(plan) if only is not None else survey_rows(plan)
    if only is not None or share is not None:
        precision = described_precision(plan, SHARE if share is None else share, level)
        rows.append(("precision", precision.replace("a label", f"a {_counted(plan)}", 1)))
    if goal is not None:
        rows.append(("goal", described_goal(plan, goal)))
        if only is None:
            rows.append(("needed", goal.explained(question_noise(plan))))
    if only is not None and question_words(only).thresholded:
        rows.append(("shown", described_chances(plan)))
    return rows


def _error(plan: Plan) -> list[tuple[str, str]]:
    rounds = ", per round" * (plan.rounds > 1)
    return [("error", f"{plan.stderr:.4g} people (standard error of one count{rounds})")]


def _counted(plan: Plan) -> str:
    """Return what people are counted on."""
    return question_words(asked_of(plan.schema)[0][1]).counted


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedQuestion:
    """One question of a plan in words, with the figures behind them."""

    name: str
    error: QuestionError
    layout: str
    """The categories that are counted, such as "256 buckets in levels of 16 and 1"."""
    messages: int
    """Answers that a person sends for it, fakes not included: one for each attribute."""
    noise: str

    @property
    def precision(self) -> str:
        """The predicted standard error in the unit of the question."""
        return f"{described_error(self.error)} (standard error of {self.error.measures})"


def described_error(error: QuestionError) -> str:
    """Return a predicted error with its unit.

    >>> described_error(QuestionError(question="a", stderr=8.4, people=8.4, unit="people", measures="one count"))
    '8.4 people'
    """
    return f"{error.stderr:,.4g}{' ' + error.unit if error.unit else ''}"


def described_questions(plan: Plan) -> list[DescribedQuestion]:
    """Describe every question of a plan that has a name."""
    questions = plan.schema.questions
    if not questions.named:
        return []
    noise, where = plan.protocol.noise, places(plan.schema)
    return [
        DescribedQuestion(
            name=one.question,
            error=one,
            layout=described_layout(one.question, questions),
            messages=len(where[one.question]),
            noise=described_noises([noise[place] for place in where[one.question]]) if where[one.question] else "",
        )
        for one in question_errors(plan)
    ]


def survey_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return names and values that describe the questions of a plan, and what is sent for them."""
    rows: list[tuple[str, str]] = []
    for one in described_questions(plan):
        rows.append(("" if rows else "questions", f"{one.name}: {one.precision}"))
        rows.append(("", f"  {one.layout}{f'; {one.noise}' if one.noise else ''}"))
    count = len(plan.protocol.noise)
    rows.append(("answers", f"{count:,} per person{', in separate messages that nothing links' if count > 1 else ''}"))
    if fakes := batch_fakes(plan):
        drawn = "the shuffler" if plan.protocol.has_shuffler_fakes else "the users"
        rows.append(("fakes", f"{fakes:,.0f} in a batch, drawn by {drawn}"))
    return rows


def questions_record(plan: Plan) -> list[dict[str, object]]:
    """Return the questions of a plan that have names as JSON objects."""
    return [
        {
            "question": one.name,
            "stderr": one.error.stderr,
            "unit": one.error.unit,
            "measures": one.error.measures,
            "people": one.error.people,
            "layout": one.layout,
            "messages": one.messages,
            "noise": one.noise,
        }
        for one in described_questions(plan)
    ]


def described_weight(plan: Plan, slots: int | None = None) -> str:
    """Say for how many people one malicious device can count.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> described_weight(plan_from(Schema.one_hot(100), 10_000, Protocol(0.02, release="bits"), delta=1e-6))
    'a malicious one sends up to 21 messages and counts for up to 21.7 people on one label'
    """
    most = client_messages(plan) if slots is None else slots
    number = "any number of messages" if math.isinf(most) else f"up to {most:,} message{'s' * (most != 1)}"
    weight = client_weight(plan, slots)
    people = "1 person" if weight == 1 else f"{_number(weight)} people"
    what = _counted(plan)
    if only_question(plan.schema) is None:
        each = ", ".join(f"{name} {_number(weight)}" for name, weight in question_weights(plan, slots).items())
        what = f"answer ({each})"
    return f"a malicious one sends {number} and counts for up to {people} on one {what}"


def _number(weight: float) -> str:
    return "∞" if math.isinf(weight) else f"{float(f'{weight:.3g}'):,.10g}"


def described_goal(plan: Plan, goal: Goal) -> str:
    """Say if a plan reaches a goal."""
    reached = relative_error(plan, goal.share, goal.level) <= goal.within
    return f"±{percent(goal.within)} for {percent(goal.share)} of the people: {'reached' if reached else 'missed'}"


def aligned(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and values as lines of text, the values below each other; control characters are replaced.

    >>> print(aligned([("plan", "1f"), ("people", "at least 10")]))
    plan    1f
    people  at least 10
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name:{width}}  {value}".rstrip() for name, value in shown)


def plan_text(plan: Plan) -> str:
    """Return the description of a plan as ``hubbub plan`` prints it, without the styles of a terminal."""
    return aligned(described_plan(plan))


def printable(text: str) -> str:
    """Return a text without control characters."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
