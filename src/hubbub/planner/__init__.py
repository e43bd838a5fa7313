"""The planner: from a request to the protocol with the smallest error, certified by the accountant.

- ``request``: schema, batch size, budget and constraints;
- ``families``, ``flips``, ``fakes``: the families of protocols, and the search for their smallest noise; ``columns``:
  the noise of each column of a schema;
- ``asymptotics``: expected errors that order the search; ``certify``: the account that every plan needs;
- ``search``: ``plan`` and ``frontier``, the search of all families; ``deadlines``: its limits of time;
- ``inverse``: ``solve``, the smallest number of people or ε for a precision; ``outlines``: errors without a search;
- ``preliminary``: plans close to the best one, for pages that cannot wait for a search;
- ``margins``: the half-width within which a count lies in 95 of 100 collections;
- ``precision``: the error of a share of the population, with its sampling error; ``remarks``: warnings about a plan;
- ``costs``: what one user sends; ``influence``: how many people one device can count for;
  ``baselines``: central reference, measurable shares, guarantees under attack;
- ``recompute``: plans from given parameters, and the check of a plan that someone else made.
"""

from hubbub.planner.baselines import central_stderr, measurable_share, under_attack
from hubbub.planner.costs import Cost, cost
from hubbub.planner.families import FAMILIES, family_key, family_name
from hubbub.planner.influence import client_weight, question_weights
from hubbub.planner.inverse import solve
from hubbub.planner.margins import central_margin, margin, question_margins
from hubbub.planner.outlines import Outline, outline
from hubbub.planner.precision import Goal, coverage, described_precision, relative_error, sampling_error
from hubbub.planner.recompute import load_plan, plan_from, verify
from hubbub.planner.remarks import remarks
from hubbub.planner.request import Constraints, Request
from hubbub.planner.search import FamilyPlan, Search, frontier, frontier_by_family, plan

__all__ = [
    "FAMILIES", "Constraints", "Cost", "FamilyPlan", "Goal", "Outline", "Request", "Search", "central_margin",
    "central_stderr", "client_weight", "cost", "coverage", "described_precision", "family_key", "family_name",
    "frontier", "frontier_by_family", "load_plan", "margin", "measurable_share", "outline", "plan", "plan_from",
    "question_margins", "question_weights", "relative_error", "remarks", "sampling_error", "solve",
    "under_attack", "verify",
]  # fmt: skip
