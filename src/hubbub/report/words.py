"""Plans and guarantees in words, for terminals, pages and notebooks."""

import math
from collections.abc import Iterable

from hubbub.mechanisms.chances import chance_shown, count_shown
from hubbub.model.plans import Plan
from hubbub.model.privacy import TRUST_DESCRIPTIONS, Assumptions, Guarantee, described_odds
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import Goal, PeopleNeeded, cost, described_precision, family_key, family_name, relative_error
from hubbub.planner.precision import LEVEL, percent, question_noise
from hubbub.report.influence import described_weight
from hubbub.report.survey_words import described_assumptions, described_survey_protocol, survey_rows

SHARE = 0.01
"""Share of the population whose precision is shown if no other is asked for."""


def described_protocol(protocol: Protocol) -> str:
    """Describe a protocol in a few words."""
    if len(protocol.noise) > 1:
        return described_survey_protocol(protocol)
    words = [f"q = {protocol.q:.4g}" if protocol.q else "in the clear"]
    if protocol.k > 1:
        words.append(f"{protocol.k} copies")
    m = protocol.m
    if isinstance(m, Fakes):
        distribution = {
            "binomial": f"Binomial({m.shift}, {m.scale:.4g}) fakes per user",
            "poisson": f"Poisson({m.scale:.4g}) fakes per user",
            "laplace": f"Laplace({m.scale:.4g}) + {m.shift} fakes per category, drawn by the shuffler",
            "gaussian": f"Gaussian({m.scale:.4g}) + {m.shift} fakes per category, drawn by the shuffler",
        }
        words.append(distribution[m.distribution])
        if protocol.sends_strings:
            name = m.distribution.capitalize()
            return f"strings: the shuffler subtracts {name}({m.scale:.4g}) + {m.shift} from the people who hold each"
    elif m:
        words.append(f"{m:,} fakes")
    kind = {"records": "whole records", "bits": "split bits", "category": "one category", "strings": "strings"}
    return f"{kind[protocol.release]}: {', '.join(words)}"


def described_guarantee(guarantee: Guarantee, *, survey: bool = False) -> list[tuple[str, str]]:
    """Describe a guarantee of one round: the figures, the theorem, the best attack and the assumptions."""
    return [*_figures(guarantee), *_held(guarantee, survey=survey)]


def described_series(plan: Plan) -> list[tuple[str, str]]:
    """Describe the guarantee of a plan: first of all its rounds together, which is what a person risks."""
    survey, total = plan.schema.named, plan.total
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


def described_collusion(held: Assumptions, rounds: int = 1) -> str:
    """Describe what remains if shuffler and analyzer collude."""
    return held.described_collusion(rounds) + " (no protection)" * math.isinf(held.collusion_epsilon)


def described_plan(plan: Plan, goal: Goal | None = None, share: float | None = None) -> list[tuple[str, str]]:
    """Describe a plan as names and values, with its precision for a goal or for a share of the population."""
    schema = plan.schema
    return [
        ("plan", plan.id),
        ("schema", described_schema(schema)),
        ("people", f"at least {plan.n:,} in a batch"),
        ("family", f"{family_name(plan)} ({family_key(plan)})"),
        ("protocol", described_protocol(plan.protocol)),
        *(_precision(plan, goal, share) if not schema.named else _survey_rows(plan, goal, share)),
        *([("shown", described_chances(plan))] if schema.text is not None else []),
        ("cost", str(cost(plan))),
        ("one device", described_weight(plan)),
        *described_series(plan),
    ]


def described_schema(schema: Schema) -> str:
    """Describe the records of a schema in a few words.

    >>> described_schema(Schema.one_hot(3))
    'one_hot, 3 labels, exactly 1 set'
    """
    if schema.named:
        count = len(schema.questions)
        return f"survey of {count:,} question{'' if count == 1 else 's'}, {schema.width:,} categories in all"
    if schema.text is not None:
        longer = "cut" if schema.text.cut else "refused"
        return f"one string of at most {schema.text.max_bytes:,} bytes, longer ones are {longer}"
    limit = "exactly" if schema.exclusive else "at most"
    labels = f"{schema.width:,} label{'' if schema.width == 1 else 's'}"
    return f"{schema.form}, {labels}, {limit} {schema.max_set:,} set"


def described_chances(plan: Plan) -> str:
    """Describe how many people must hold a string for it to be shown."""
    half, most = count_shown(plan, 0.5), count_shown(plan, 0.95)
    return (
        f"a string that {half:,} people hold with probability 50%, one that {most:,} hold with 95%, "
        f"one of a single person with {chance_shown(plan, 1):.2g}"
    )


def _precision(plan: Plan, goal: Goal | None, share: float | None) -> list[tuple[str, str]]:
    precision = described_precision(plan, SHARE if share is None else share, goal.level if goal else LEVEL)
    if plan.protocol.sends_strings:
        precision = precision.replace("a label", "a string", 1)
    return [
        ("error", f"{plan.stderr:.4g} people (standard error of one count{', per round' * (plan.rounds > 1)})"),
        ("precision", precision),
        *([("goal", described_goal(plan, goal))] if goal else []),
    ]


def _survey_rows(plan: Plan, goal: Goal | None, share: float | None) -> list[tuple[str, str]]:
    """Describe the questions; the precision for a share is that of the least precise one that has shares."""
    rows = survey_rows(plan)
    if share is not None:
        rows.append(("precision", described_precision(plan, share, goal.level if goal else LEVEL)))
    if goal is not None:
        rows.append(("goal", described_goal(plan, goal)))
        rows.append(("needed", str(PeopleNeeded.of(goal, question_noise(plan)))))
    return rows


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
