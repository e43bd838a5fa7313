"""A whole collection on synthetic people: asked, planned, randomized, shuffled, estimated, attacked."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub import planner
from hubbub.analyzer import estimate, tally
from hubbub.bits.entropy import Entropy, draw, system
from hubbub.client import randomize
from hubbub.estimates import Estimate
from hubbub.plans import Plan
from hubbub.privacy import Budget, Guarantee
from hubbub.records import Collection
from hubbub.schema import Schema
from hubbub.shuffler import shuffle

PAGES = (
    "a search engine",
    "news",
    "mail",
    "videos",
    "an encyclopedia",
    "a social network",
    "a shop",
    "the weather",
    "maps",
    "a bank",
    "games",
    "a self-help group",
)
"""What people may have as the home page of their browser, the most frequent first; the last is nobody's business."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demonstration:
    """Everything that there is to tell about one collection."""

    budget: Budget
    plans: list[Plan]
    """All protocols that meet the budget, best first."""
    names: list[str]
    plan: Plan
    central: float
    """σ of a trusted server."""
    truth: NDArray[np.int64]
    estimate: Estimate
    messages: int
    """Received by the shuffler."""
    released: int
    """Passed on by it, its own fakes included."""
    half: Guarantee
    """What is left if every second user works for the attacker."""

    @property
    def covered(self) -> int:
        """How many true counts lie in their 95 % intervals."""
        low, high = self.estimate.interval(0.95)
        return int(((low <= self.truth) & (self.truth <= high)).sum())

    @property
    def reach(self) -> float:
        """The widest half of a 95 % interval."""
        low, high = self.estimate.interval(0.95)
        return float((high - low).max() / 2)

    @property
    def guess(self) -> float:
        """How often, at most, an attacker who hesitates evenly between two answers of one person is right.

        (e^ε + δ)/(e^ε + 1), the best test between two hypotheses under (ε,δ)-differential privacy (Kairouz, Oh and
        Viswanath 2015).
        """
        held = self.plan.guarantee
        return (1 + held.delta * math.exp(-held.epsilon)) / (1 + math.exp(-held.epsilon))

    @property
    def safer(self) -> tuple[str, Plan] | None:
        """The best protocol that leaves something if the shuffler colludes, if the chosen one does not."""
        if self.plan.guarantee.assumptions.collusion_epsilon < math.inf:
            return None
        pairs = zip(self.names, self.plans, strict=True)
        return next(
            ((name, one) for name, one in pairs if one.guarantee.assumptions.collusion_epsilon < math.inf), None
        )

    @property
    def local(self) -> float | None:
        """σ without a shuffler."""
        return min((plan.stderr for plan in self.plans if not plan.guarantee.assumptions.shuffler), default=None)


def zipf_choices(n: int, width: int, *, entropy: Entropy = system) -> NDArray[np.int64]:
    """The choices of n people among ``width`` pages, the i-th with probability proportional to 1/i.

    >>> np.bincount(zipf_choices(1000, 3), minlength=3).sum()
    np.int64(1000)
    """
    edges = np.cumsum(1 / np.arange(1, width + 1))
    uniform = (draw(entropy, n) >> np.uint64(11)) * 2.0**-53
    return np.searchsorted(edges / edges[-1], uniform, side="right").clip(0, width - 1)


def demonstrate(
    n: int, budget: Budget, *, entropy: Entropy = system, tell: Callable[[str], None] = lambda _: None
) -> Demonstration:
    """Run the collection; ``tell`` hears what comes next."""
    schema = Schema.one_hot(PAGES)
    tell("asking for home pages")
    choices = zipf_choices(n, schema.width, entropy=entropy)
    tell("weighing all protocols")
    plans = planner.frontier(schema, n, budget)
    plan = plans[0]
    tell("randomizing on every device")
    reports = randomize(Collection.from_values(choices, schema), plan, entropy=entropy)
    tell("shuffling")
    mixed = shuffle(reports, entropy=entropy)
    tell("estimating")
    found = estimate(tally(mixed), plan)
    tell("attacking")
    return Demonstration(
        budget=budget,
        plans=plans,
        names=[planner.family_name(one) for one in plans],
        plan=plan,
        central=planner.central_stderr(schema, budget),
        truth=np.bincount(choices, minlength=schema.width),
        estimate=found,
        messages=len(reports),
        released=len(mixed),
        half=planner.under_attack(plan, 0.5),
    )
