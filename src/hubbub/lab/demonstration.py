"""A whole collection on synthetic people: planned, randomized, shuffled, estimated and attacked."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub import planner
from hubbub.bits.entropy import Entropy, system
from hubbub.lab.populations import Population
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget, Guarantee
from hubbub.model.schema import Schema
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.shuffle import shuffle
from hubbub.pipeline.tally import tally
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
