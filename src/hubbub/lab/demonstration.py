"""A whole collection on synthetic people: planned, randomized, shuffled, estimated, attacked, and shown on one page."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub import planner
from hubbub.bits.entropy import Entropy, system
from hubbub.lab.populations import Population
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget, Guarantee, described_rate, success_rate
from hubbub.model.schema import Schema
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.shuffle import shuffle
from hubbub.pipeline.tally import tally
from hubbub.planner import cost
from hubbub.report.charts import number
from hubbub.report.html import render
from hubbub.report.report import Facts, Figure, Report, Section, Steps, Table
from hubbub.report.rows import bar_chart, bars_of, error_chart, plans_chart
from hubbub.results.estimate import estimate
from hubbub.results.labels import LabelView

PAGES = (
    "a search engine", "news", "mail", "videos", "an encyclopedia", "a social network", "a shop", "the weather",
    "maps", "a bank", "games", "a self-help group",
)  # fmt: skip
"""Home pages of browsers, most frequent first; the last one is sensitive."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demonstration:
    """The plans, the estimate and the attacks of one collection."""

    budget: Budget
    plans: list[Plan]  # all protocols that meet the budget, for any trust, most precise first
    names: list[str]
    plan: Plan  # the most precise one that randomizes every record on its device and trusts the shuffling alone
    central: float  # standard error of a trusted server
    truth: NDArray[np.int64]
    estimate: LabelView
    messages: int  # received by the shuffler
    released: int  # released by the shuffler, including its fakes
    half: Guarantee  # the guarantee that remains if half of the users are compromised

    @property
    def covered(self) -> int:
        """Number of true counts within their 95 % intervals."""
        low, high = self.estimate.interval(0.95)
        return int(((low <= self.truth) & (self.truth <= high)).sum())

    @property
    def reach(self) -> float:
        """Half the width of the widest 95 % interval."""
        low, high = self.estimate.interval(0.95)
        return float((high - low).max() / 2)

    @property
    def name(self) -> str:
        """The name of the chosen protocol."""
        return planner.family_name(self.plan)

    @property
    def more_precise(self) -> tuple[str, Plan] | None:
        """The most precise protocol, if it needs more trust than the chosen one."""
        return None if self.plans[0] == self.plan else (self.names[0], self.plans[0])

    @property
    def local(self) -> float | None:
        """Standard error without a shuffler."""
        return min((plan.stderr for plan in self.plans if not plan.guarantee.assumptions.shuffler), default=None)


def demonstrate(
    n: int, budget: Budget, *, entropy: Entropy = system, progress: Callable[[str], None] = lambda _: None
) -> Demonstration:
    """Run the collection; ``progress`` is called with the name of each step."""
    schema = Schema.one_hot(PAGES)
    progress("collecting home pages")
    people = Population(exponent=1.0).people(schema, n, entropy=entropy)
    progress("comparing all protocols")
    plans = sorted(planner.frontier(schema, n, budget), key=lambda one: one.stderr)
    plan = planner.plan(schema, n, budget)
    progress("randomizing on every device")
    reports = randomize(people, plan, entropy=entropy)
    progress("shuffling")
    shuffled = shuffle(reports, entropy=entropy)
    progress("estimating")
    found = estimate(tally(shuffled), plan).question
    progress("attacking")
    return Demonstration(
        budget=budget,
        plans=plans,
        names=[planner.family_name(one) for one in plans],
        plan=plan,
        central=planner.central_stderr(schema, budget),
        truth=people.counts(),
        estimate=found,
        messages=len(reports),
        released=len(shuffled),
        half=planner.under_attack(plan, 0.5),
    )


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
