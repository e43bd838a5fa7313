"""One application: the question, the plan, what came out, what it cost, and the older figures beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubbub import planner
from hubbub.lab.applications.past import DEVIATIONS, Claim, Comparison, share_within
from hubbub.lab.applications.street import Counted
from hubbub.plans import Plan
from hubbub.privacy import Budget
from hubbub.schema import Schema

EPSILON = 2.0
LEAST_LIE = 1e-9
"""A policy: nobody's answer travels in the clear, and the noise is the users' own."""


def guarantee_of_2016(n: int) -> Budget:
    """ε = 2, and δ = 1/(100n): in a hundred such collections, less than one person is expected to be unlucky.

    >>> guarantee_of_2016(10**7)
    Budget(epsilon=2.0, delta=1e-09)
    """
    return Budget(EPSILON, 0.01 / n)


@dataclass(frozen=True, slots=True)
class Study:
    """What is asked of how many, and the plan that the planner chooses for it."""

    name: str
    title: str
    question: str
    schema: Schema
    n: int
    error: float = 0.05
    """The relative error that is wanted."""
    rounds: int = 1

    @property
    def budget(self) -> Budget:
        """The guarantee of 2016."""
        return guarantee_of_2016(self.n)

    def chosen(self) -> Plan:
        """The best plan in which users draw the noise and nothing travels in the clear."""
        return planner.plan(self.schema, self.n, self.budget, shuffler_fakes=False, min_q=LEAST_LIE, rounds=self.rounds)

    def rivals(self) -> list[Plan]:
        """Every protocol that meets the budget, those included that the policy forbids."""
        return planner.frontier(self.schema, self.n, self.budget, rounds=self.rounds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """Everything that there is to tell."""

    study: Study
    plan: Plan
    rivals: Sequence[Plan]
    counted: Counted
    comparisons: Sequence[Comparison]
    claims: Sequence[Claim]
    remarks: Sequence[str]

    @property
    def share(self) -> float:
        """The smallest share of the people that is measured within the wanted error in 95 of 100 cases."""
        return planner.measurable_share(self.plan, self.study.error)

    @property
    def share_of_2016(self) -> float:
        """The same with three deviations, as the figures of 2016 count."""
        return share_within(self.plan.stderr, self.plan.n, self.study.error, DEVIATIONS)

    def shown(self, most: int = 12) -> list[int]:
        """Labels to show: the largest, and then ever smaller ones down to what can still be measured."""
        order = np.argsort(-self.counted.truth, kind="stable")
        if order.size <= most:
            return [int(i) for i in order]
        measurable = max(int((self.counted.truth >= self.share * self.plan.n).sum()), most)
        places = np.unique(np.geomspace(1, min(measurable, order.size), most).round().astype(int)) - 1
        return [int(order[i]) for i in places]

    def record(self) -> dict[str, Any]:
        """For JSON."""
        low, high = self.counted.estimate.interval(0.95)
        values, truth = self.counted.estimate.values, self.counted.truth
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
            "simulated": self.counted.how,
            "received": self.counted.messages,
            "covered": self.counted.covered,
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
            "rivals": [
                {
                    "protocol": planner.family_name(p),
                    "stderr": p.stderr,
                    "messages": p.payload_messages,
                    "bytes": planner.cost(p).bytes,
                }
                for p in self.rivals
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
