"""One application: the question, the plan, the simulated result, its cost, and the figures of 2016 beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from examples._collection import Simulation
from examples._rules_2016 import DEVIATIONS, Claim, Comparison, percent, share_within
from hubbub import planner
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema

EPSILON = 2.0


def budget_of_2016(n: int) -> Budget:
    """ε = 2 and δ = 1/(100n): in a hundred such collections, fewer than one person is expected to be exposed.

    >>> budget_of_2016(10**7)
    Budget(epsilon=2.0, delta=1e-09)
    """
    return Budget(EPSILON, 0.01 / n)


@dataclass(frozen=True, slots=True)
class Study:
    """A question to n people, and the plan that the planner chooses for it."""

    name: str
    title: str
    question: str
    schema: Schema
    n: int
    error: float = 0.05
    """The target for the relative error."""
    rounds: int = 1

    @property
    def budget(self) -> Budget:
        """The budget of 2016, for this number of people."""
        return budget_of_2016(self.n)

    def chosen(self) -> Plan:
        """Return the best plan in which users draw the noise and nothing is sent in the clear."""
        return planner.plan(self.schema, self.n, self.budget, rounds=self.rounds)

    def frontier(self) -> list[Plan]:
        """Return a plan per protocol that meets the budget, for any trust, by standard error."""
        plans = planner.frontier(self.schema, self.n, self.budget, rounds=self.rounds)
        return sorted(plans, key=lambda one: one.stderr)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """Everything that an example reports."""

    study: Study
    plan: Plan
    frontier: Sequence[Plan]
    simulated: Simulation
    comparisons: Sequence[Comparison]
    claims: Sequence[Claim]
    """Protocols chosen by the rules of 2016 for the number of people that was run."""
    remarks: Sequence[str]
    people_of_2016: int
    """The number of people to which the comparisons refer."""

    @property
    def share(self) -> float:
        """The smallest share of the people that is measured within the target error with probability 95 %."""
        return planner.measurable_share(self.plan, self.study.error)

    def accuracy(self) -> str:
        """Say which labels are measured within the target error, at the size that was run."""
        within = f"within {percent(self.study.error)}"
        if self.share >= 1:
            return f"With {self.plan.n:,} people, no label is measured {within}."
        strict = (
            f"; with three standard deviations, as in 2016, from {percent(self.share_of_2016)}"
            if self.share_of_2016 < 1
            else "; with three standard deviations, as in 2016, no label is"
        )
        return f"Labels are measured {within} from {percent(self.share)} of the people (95 of 100 cases){strict}."

    @property
    def share_of_2016(self) -> float:
        """The same with three standard deviations, as in the figures of 2016."""
        return share_within(self.plan.stderr, self.plan.n, self.study.error, DEVIATIONS)

    def shown(self, most: int = 12) -> list[int]:
        """Return labels to show: from the largest down to the smallest that can still be measured."""
        order = np.argsort(-self.simulated.truth, kind="stable")
        if order.size <= most:
            return [int(i) for i in order]
        measurable = max(int((self.simulated.truth >= self.share * self.plan.n).sum()), most)
        places = np.unique(np.geomspace(1, min(measurable, order.size), most).round().astype(int)) - 1
        return [int(order[i]) for i in places]

    def record(self) -> dict[str, Any]:
        """Return a JSON object."""
        low, high = self.simulated.estimate.interval(0.95)
        values, truth = self.simulated.estimate.values, self.simulated.truth
        return {
            "name": self.study.name,
            "question": self.study.question,
            "people": self.plan.n,
            "labels": self.plan.schema.width,
            "epsilon": self.study.budget.epsilon,
            "delta": self.study.budget.delta,
            "rounds": self.study.rounds,
            "protocol": planner.family_name(self.plan),
            "q": self.plan.protocol.q,
            "stderr": self.plan.stderr,
            "measurable_share": self.share,
            "measurable_share_three_sigma": self.share_of_2016,
            "messages": planner.cost(self.plan).messages,
            "bytes": planner.cost(self.plan).bytes,
            "simulated": self.simulated.how,
            "received": self.simulated.messages,
            "covered": self.simulated.covered,
            "rmse": float(np.sqrt(np.mean((values - truth) ** 2))),
            "counts": [
                {
                    "label": self.plan.schema.labels[i],
                    "truth": int(truth[i]),
                    "value": float(values[i]),
                    "low": float(low[i]),
                    "high": float(high[i]),
                }
                for i in self.shown()
            ],
            "frontier": [
                {
                    "protocol": planner.family_name(p),
                    "stderr": p.stderr,
                    "messages": planner.cost(p).messages,
                    "bytes": planner.cost(p).bytes,
                }
                for p in self.frontier
            ],
            "compared": [
                {"what": c.what, "printed": c.printed, "recomputed": c.recomputed, "remark": c.remark}
                for c in self.comparisons
            ],
            "claims": [
                {"what": c.what, "q": c.protocol.q, "delta": c.found.delta, "attack": c.found.lower_bound}
                for c in self.claims
            ],
            "remarks": list(self.remarks),
        }
