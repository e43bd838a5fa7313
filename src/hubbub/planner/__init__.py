"""From a question to a defended choice: every protocol side by side, the best of them, and what stands behind it.

- ``search``: ``frontier``, ``plan``, and backwards ``smallest_n`` and ``best_epsilon``;
- ``candidates``: the least noise of each kind of protocol; ``expectations``: about what it will be;
- ``baselines``: what makes plans comparable: names, measurable shares, the central reference, guarantees under attack;
- ``adoption``: plans from parameters chosen by hand, and plans that come from elsewhere.
"""

from hubbub.planner.baselines import central_stderr, family, measurable_share, under_attack
from hubbub.planner.recompute import load_plan, plan_from, verify
from hubbub.planner.search import best_epsilon, frontier, plan, smallest_n

__all__ = [
    "best_epsilon",
    "central_stderr",
    "family",
    "frontier",
    "load_plan",
    "measurable_share",
    "plan",
    "plan_from",
    "smallest_n",
    "under_attack",
    "verify",
]
