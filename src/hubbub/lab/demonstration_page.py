"""A demonstration as one HTML page."""

import math

from hubbub.lab.demonstration import Demonstration
from hubbub.model.plans import Plan
from hubbub.model.privacy import described_rate, success_rate
from hubbub.planner import cost
from hubbub.report.charts import number
from hubbub.report.html import render
from hubbub.report.report import Facts, Figure, Report, Section, Steps, Table
from hubbub.report.rows import bar_chart, bars_of, error_chart, plans_chart


def page(shown: Demonstration) -> str:
    """Return the whole page."""
    plan, bars = shown.plan, bars_of(shown.estimate, shown.truth)
    held, (messages, size) = plan.guarantee, cost(plan).cells
    ranked = plans_chart(shown.plans, central=shown.central)
    frontier = Figure(ranked, "Every protocol that meets the budget, the most precise one first.")
    counts = bar_chart(bars, "True and estimated counts")
    errors = error_chart(bars, "Errors of the estimates", name="estimate − truth, people")
    return render(
        Report(
            title=f"hubbub: a collection of {plan.n:,}",
            heading=f"{plan.n:,} people, one question, and a guarantee",
            lede="Which page does your browser open first? A collection on synthetic people, by hubbub.",
            tiles=[
                (f"ε = {held.epsilon:.3g}", f"proven for every person, δ = {small(held.delta)}"),
                (f"± {shown.reach:.3g} people", "on a count, 95 of 100 times"),
                (f"{messages} message{'s' * (messages != '1')}", f"per person, {size} bytes sealed"),
                (f"{shown.covered} of {len(shown.truth)}", "true counts in their 95 % intervals"),
            ],
            sections=[
                Section("The plan, and why", [why(shown), frontier, _table(shown)]),
                Section("What happened", [_steps(shown)]),
                Section(
                    "Truth against estimate",
                    [
                        Figure(counts, "Estimates, and the truth, which only this demonstration knows."),
                        Figure(errors, "The same, magnified: estimate minus truth, with 95 % intervals."),
                    ],
                ),
                Section("What an attacker could learn", [Facts(attack(shown))]),
            ],
            note=f"{len(plan.schema.labels)} labels · the people are synthetic; this page loads and sends nothing.",
            plan=plan.id,
        )
    )


def why(shown: Demonstration) -> str:
    """Return the reason for the choice of the protocol, in a sentence or two."""
    best = shown.plan
    text = (
        f"Of {len(shown.plans)} protocols that meet ε = {shown.budget.epsilon:g}, δ = {small(shown.budget.delta)}, "
        f"“{shown.name}” has the smallest error among those that randomize every answer on its device and trust the "
        f"shuffler only to shuffle: {best.stderr:.3g} people on every count, where a server trusted with the raw "
        f"answers would need {shown.central:.3g}"
    )
    if shown.local is not None:
        text += f", and without a shuffler it would be {shown.local:,.0f}"
    if shown.more_precise is not None:
        name, other = shown.more_precise
        text += f". “{name}” has an error of {other.stderr:.3g}, but needs more trust in the shuffler"
    return text + "."


def attack(shown: Demonstration) -> list[str]:
    """Return the limits of what an attacker can learn, sentence by sentence."""
    held = shown.plan.guarantee
    proven = held.epsilon if held.solved == "epsilon" else held.delta
    lines = [
        f"The release is ({held.epsilon:.3g}, {small(held.delta)})-differentially private: {held.basis.value}, by "
        f"{held.method}.",
        f"An attacker who knows the answers of all other people and must decide between two answers of one person is "
        f"right in at most {described_rate(success_rate(held.epsilon, held.delta))} of all cases; guessing gives 50 %.",
        f"The best known attack reaches {held.solved} = {small(held.lower_bound)}, and {small(proven)} is proven: "
        f"nothing below the former can be promised.",
        *held.assumptions.sentences(),
    ]
    if shown.half.epsilon > held.epsilon * 1.001:
        lines.append(f"If half of the users work for the attacker, ε is {shown.half.epsilon:.3g} at the same δ.")
    else:
        lines.append("If half of the users work for the attacker, the guarantee stays the same.")
    return lines


def small(value: float) -> str:
    """Write a number with three digits, a small one with a power of ten.

    >>> small(9.127e-7), small(1.0)
    ('9.13·10⁻⁷', '1')
    """
    return number(float(f"{value:.3g}"), powers=True)


def _table(shown: Demonstration) -> Table:
    return Table(
        ("protocol", "error", "messages", "bytes", "if the shuffler colludes"),
        [
            (name, f"{one.stderr:,.3g}", *cost(one).cells, _colluding(one))
            for one, name in zip(shown.plans, shown.names, strict=True)
        ],
        ["best" if one == shown.plan else "" for one in shown.plans],
    )


def _colluding(one: Plan) -> str:
    pure = one.guarantee.assumptions.collusion_epsilon
    return "∞ (no protection)" if pure == math.inf else f"ε = {pure:.3g}"


def _steps(shown: Demonstration) -> Steps:
    added = shown.released - shown.messages
    told = f"adds {added:,} fakes and " if added else ""
    return Steps(
        [
            ("devices", f"{shown.plan.n:,} people, each on their own device, send {shown.messages:,} messages"),
            ("shuffler", f"{told}passes on {shown.released:,} messages in random order, without senders"),
            ("analyzer", f"counts them, subtracts the expected noise, and gives {len(shown.truth)} counts error bars"),
        ]
    )
