"""From a question to a defended choice: every protocol side by side, the best of them, and what stands behind it.

- ``search``: ``frontier``, ``plan``, and backwards ``least_crowd`` and ``best_epsilon``;
- ``candidates``: the least noise of each kind of protocol; ``expectations``: about what it will be;
- ``yardsticks``: what makes plans comparable: names, measurable shares, the central reference, guarantees under attack;
- ``adoption``: plans from parameters chosen by hand, and plans that come from elsewhere.
"""

from hubbub.planner.adoption import adopt, load_plan, verify
from hubbub.planner.search import best_epsilon, frontier, least_crowd, plan
from hubbub.planner.yardsticks import central_stderr, family, measurable_share, under_attack

__all__ = [
    "adopt",
    "best_epsilon",
    "central_stderr",
    "family",
    "frontier",
    "least_crowd",
    "load_plan",
    "measurable_share",
    "plan",
    "under_attack",
    "verify",
]
