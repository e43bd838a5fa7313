"""Preliminary plans: certified, about two percent noisier than the best one of a family, and found by few certificates.

A page that follows a slider shows them until the search ends. The noise is that at which homogeneous crowds meet the
budget (:mod:`hubbub.accountant.homogeneous`), with what a certificate usually adds; the certificate is a coarse one.
"""

import math
from dataclasses import replace

from hubbub.accountant import Calibrated
from hubbub.accountant.accounting import honest_users, prove
from hubbub.accountant.homogeneous import RESOLVED, likely_log_delta, split_positions
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.numeric.inversion import falling_root, gaussian_tail
from hubbub.planner.certify import Candidate, first_budget
from hubbub.planner.deadlines import check_time
from hubbub.planner.recompute import with_rounds
from hubbub.planner.request import Request

CERTIFICATES = 3  # certificates after which there is no quick way
USUAL = (0.62, 0.8)  # amount by which ln δ of a coarse certificate usually lies above that of homogeneous crowds: for
# one round, and for several
SPARE = 0.03  # the same of a further certificate, above what the last one has shown
ENOUGH = 1.06  # multiple of the variances that seem to be needed at which no further certificate is tried
FEWEST = 200  # honest users below whom certificates cost little, and coarse ones are no guide to fine ones
MOST = 64.0  # largest multiple of the variances of a Gaussian mechanism that is searched
CLOSE = 2e-3  # relative distance within which it is found


def preliminary_plan(request: Request, candidate: Candidate) -> Plan | None:
    """Return a certified plan of a family that is close to its best one; None if there is no quick way to one."""
    budget, make = request.budget, candidate.scaled
    own = replace(request, schema=candidate.schema or request.schema)
    honest = honest_users(own.n, own.honest_fraction)
    if make is None or budget.delta < RESOLVED or honest < FEWEST or request.needs_flips:
        return None  # where a policy requires more flips than privacy, the search takes one certificate as well
    goal = math.log(budget.delta)

    def likely(factor: float, epsilon: float) -> float:
        """Return the approximate ln δ of all rounds together."""
        positions = split_positions(make(factor), own.schema, honest)
        return likely_log_delta([(n, q, k, times * own.rounds) for n, q, k, times in positions], epsilon)

    def smallest(aim: float, guess: float) -> float:
        """Return the smallest factor at which ln δ is likely to be at most ``aim``; ∞ if there is none."""
        return falling_root(
            lambda x: likely(x, budget.epsilon) - aim, guess, MOST, relative=CLOSE, bend=gaussian_tail(aim)
        )[1]

    best: Plan | None = None
    factor, above = 1.0, USUAL[own.rounds > 1]
    for _ in range(CERTIFICATES):
        factor = smallest(goal - above, factor)
        if math.isinf(factor):
            break
        found = _certified(own, candidate, make(factor))
        total = found.total
        meets = total.epsilon <= budget.epsilon and total.delta <= budget.delta
        best = found if meets else best
        above = math.log(total.delta) - likely(factor, total.epsilon) + SPARE
        if not math.isfinite(above) or (meets and likely(factor / ENOUGH, budget.epsilon) + above > goal):
            break
    return best


def _certified(request: Request, candidate: Candidate, protocol: Protocol) -> Plan:
    """Return the plan of a protocol with a coarse certificate, which need not meet the budget."""
    check_time()
    schema, n, share, rounds = request.schema, request.n, request.honest_fraction, request.rounds
    epsilon = first_budget(request).epsilon
    proven = prove(protocol, schema, n, epsilon=epsilon, honest_fraction=share, trust=candidate.trust, coarse=True)
    plan = candidate.constrained(request, Calibrated(protocol, n, proven))
    return with_rounds(plan, rounds, request.budget.delta if rounds > 1 else None, coarse=True)
