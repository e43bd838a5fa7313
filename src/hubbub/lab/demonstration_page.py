"""A demonstration as one HTML page."""

import html
import math

from hubbub.lab.demonstration import Demonstration
from hubbub.lab.drawing import bar_chart, bars_of, error_chart, frontier_chart
from hubbub.lab.pages import bullets, document, figure, footer, table, tiles
from hubbub.planner import cost
from hubbub.plans import Plan


def page(shown: Demonstration) -> str:
    """The whole page."""
    plan = shown.plan
    parts = [
        f"<h1>{plan.n:,} people, one question, and a guarantee</h1>",
        '<p class="lead">Which page does your browser open first? A collection on synthetic people, by hubbub.</p>',
        _tiles(shown),
        "<h2>The plan, and why</h2>",
        f"<p>{html.escape(why(shown))}</p>",
        _frontier(shown),
        _table(shown),
        "<h2>What happened</h2>",
        _flow(shown),
        "<h2>Truth against estimate</h2>",
        _pictures(shown),
        "<h2>What an attacker could learn</h2>",
        bullets(attack(shown)),
        footer(
            f"{len(plan.schema.labels)} labels · the people are synthetic; nothing on this page comes from elsewhere, "
            "and nothing is sent.",
            plan.id,
        ),
    ]
    return document(f"hubbub: a collection of {plan.n:,}", parts)


def why(shown: Demonstration) -> str:
    """Why this protocol was chosen, in a sentence or two."""
    best, name = shown.plan, shown.names[0]
    text = (
        f"Of {len(shown.plans)} protocols that meet ε = {shown.budget.epsilon:g}, δ = {shown.budget.delta:g}, "
        f"“{name}” has the smallest error: {best.stderr:.3g} people on every count, "
        f"where a server trusted with the raw answers would need {shown.central:.3g}"
    )
    if shown.local is not None:
        text += f", and without a shuffler it would be {shown.local:,.0f}"
    return text + "."


def attack(shown: Demonstration) -> list[str]:
    """What stands against an attacker, sentence by sentence."""
    held = shown.plan.guarantee
    proven = held.epsilon if held.solved == "epsilon" else held.delta
    lines = [
        f"One person's answer changes the odds of anything that is released by a factor of at most "
        f"e^{held.epsilon:.3g} = {math.exp(held.epsilon):.3g}, but for a chance of {held.delta:.2g}: "
        f"{held.basis.value}, by {held.method}.",
        f"An attacker who knows everybody else's answer, and hesitates between two answers of one person, is right in "
        f"at most {shown.guess:.1%} of all cases; guessing gives 50%.",
        f"The best attack known reaches {held.solved} = {held.lower_bound:.3g}, and {proven:.3g} is proven: "
        f"no one can promise less than the former.",
        *held.assumptions.sentences(),
    ]
    if shown.safer is not None:
        name, other = shown.safer
        lines.append(
            f"Whoever does not trust the shuffler that far takes “{name}”: an error of {other.stderr:.3g}, and "
            f"ε = {other.guarantee.assumptions.collusion_epsilon:.3g} is left if it colludes."
        )
    if shown.half.epsilon > held.epsilon * 1.001:
        lines.append(f"If every second user works for the attacker, ε is {shown.half.epsilon:.3g} at the same δ.")
    else:
        lines.append("If every second user works for the attacker, the guarantee is the same.")
    return lines


def _tiles(shown: Demonstration) -> str:
    held, (messages, size) = shown.plan.guarantee, cost(shown.plan).cells
    return tiles(
        [
            (f"ε = {held.epsilon:.3g}", f"proven for every person, δ = {held.delta:.2g}"),
            (f"± {shown.reach:.3g} people", "on a count, 95 of 100 times"),
            (f"{messages} message{'s' * (messages != '1')}", f"of each person, {size} bytes sealed"),
            (f"{shown.covered} of {len(shown.truth)}", "true counts in their 95 % intervals"),
        ]
    )


def _frontier(shown: Demonstration) -> str:
    points = [(one.payload_messages, one.stderr) for one in shown.plans]
    drawn = frontier_chart(
        shown.names,
        points,
        shown.plans.index(shown.plan),
        "The frontier: standard error against messages",
        up="standard error, people",
        central=shown.central,
    )
    return figure(drawn, "Every protocol that meets the budget. Lower is more precise, further left is cheaper.")


def _table(shown: Demonstration) -> str:
    return table(
        ("protocol", "error", "messages", "bytes", "if the shuffler colludes"),
        [
            (name, f"{one.stderr:,.3g}", *cost(one).cells, _colluding(one))
            for one, name in zip(shown.plans, shown.names, strict=True)
        ],
        marks=["best" if one is shown.plan else "" for one in shown.plans],
    )


def _colluding(one: Plan) -> str:
    pure = one.guarantee.assumptions.collusion_epsilon
    return "nothing protects" if pure == math.inf else f"ε = {pure:.3g}"


def _flow(shown: Demonstration) -> str:
    added = shown.released - shown.messages
    told = f"adds {added:,} fakes of its own and " if added else ""
    steps = (
        ("devices", f"{shown.plan.n:,} people, each on their own, send {shown.messages:,} messages"),
        ("shuffler", f"{told}passes on {shown.released:,} messages in random order, without senders"),
        (
            "analyzer",
            f"counts them, subtracts the expected noise, and says how sure it is of {len(shown.truth)} counts",
        ),
    )
    return '<ol class="flow">' + "".join(f"<li><b>{a}</b>{html.escape(b)}</li>" for a, b in steps) + "</ol>"


def _pictures(shown: Demonstration) -> str:
    bars = bars_of(shown.estimate, shown.truth)
    return figure(
        bar_chart(bars, "Counts"), "Bars: estimates. Upright lines: the truth, which only this demonstration knows."
    ) + figure(
        error_chart(bars, "Errors"),
        "The same under a magnifying glass: estimate minus truth, in people, with 95 % intervals.",
    )
