"""The total guarantee of a plan that the same people answer in several rounds, each of them once per round.

Rounds compose adaptively: what is asked in a round, and what a person does, may depend on earlier results. The total is
the smaller of two bounds. The *ledger* composes the certified points that the plan carries, which rest on theorems that
assume no more than the plan's guarantee claims. *Basic composition* adds up the claimed figures of the rounds.

*Overflow.* Bundles with a fixed number of slots truncate the messages of a client with probability at most τ. By the
argument of :mod:`hubbub.accountant.overflow`, applied to the h honest clients of each of R rounds, the truncated
releases differ from the composed ones with probability at most R·h·τ, so a total of (ε, δ) becomes
(ε, δ + (1 + e^ε)·R·h·τ).
"""

import functools
import math

from hubbub.accountant.accounting import curve
from hubbub.accountant.analysis import Analysis, best
from hubbub.accountant.ledger import Ledger
from hubbub.accountant.overflow import overflow
from hubbub.accountant.sampling import certified_points
from hubbub.errors import check_real, check_type, check_whole
from hubbub.model.curves import NO_PRIVACY, PrivacyCurve
from hubbub.model.plans import MAX_ROUNDS, Plan
from hubbub.model.privacy import BUDGET_DELTA, Assumptions, Guarantee
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema

ATTEMPTS = 40  # steps of the search for an ε that covers its own price of overflow
STEP = 1 + 1e-6  # relative amount by which each step raises ε


def repeated_epsilon(plan: Plan, rounds: int, delta: float, slots: int | None = None) -> float:
    """Return the ε proven for ``rounds`` collections of a plan together at δ; errs upwards, ∞ if none is proven.

    ``slots`` is the number of messages in a bundle, if messages beyond it are left out.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> plan = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-8)
    >>> repeated_epsilon(plan, 52, 1e-6) < 52 * plan.guarantee.epsilon
    True
    """
    check_type("plan", plan, Plan)
    rounds = check_whole("rounds", rounds, 1, MAX_ROUNDS)
    delta = check_real("delta", delta, BUDGET_DELTA)
    basic = _basic(plan, rounds, delta, slots)
    if delta == 0.0:
        return basic
    return min(basic, _composed(Ledger().charge(plan, rounds=rounds), plan, rounds, delta, slots))


def assumed_curve(
    protocol: Protocol,
    schema: Schema,
    n: int,
    honest_fraction: float,
    assumptions: Assumptions,
    *,
    preliminary: bool = False,
) -> Analysis | None:
    """Return the certified curve of one collection from theorems that assume no more than stated; None without any."""
    trust = assumptions.trust
    analysis = curve(protocol, schema, n, honest_fraction=honest_fraction, trust=trust, preliminary=preliminary)
    options = [
        option
        for option in analysis.options or (analysis,)
        if option.honest <= assumptions.honest
        and option.fakes <= assumptions.fakes
        and option.shuffler <= assumptions.shuffler
    ]
    return best(*options, attack=False) if options else None


@functools.lru_cache(maxsize=256)
def round_curve(
    protocol: Protocol,
    schema: Schema,
    n: int,
    honest_fraction: float,
    claim: Guarantee,
    rounds: int,
    *,
    preliminary: bool = False,
) -> PrivacyCurve:
    """Return certified points of one collection under the assumptions of a guarantee, whose own point is among them.

    They are chosen for totals of about ``rounds`` rounds. Searches and plans share the result.
    """
    analysis = assumed_curve(protocol, schema, n, honest_fraction, claim.assumptions, preliminary=preliminary)
    if math.isinf(claim.epsilon):
        return certified_points(analysis, rounds=rounds) if analysis else NO_PRIVACY
    own = ((claim.epsilon, claim.delta),)
    return certified_points(analysis, rounds=rounds, extra=own) if analysis else PrivacyCurve(own)


def _basic(plan: Plan, rounds: int, delta: float, slots: int | None) -> float:
    """Return the sum of the claimed ε if the claimed δ add up to at most δ, else ∞."""
    claim = plan.guarantee
    spent = rounds * (claim.delta + (0.0 if slots is None else overflow(plan, slots)))
    if math.nextafter(spent, math.inf) > delta and spent > 0.0:
        return math.inf
    return math.nextafter(rounds * claim.epsilon, math.inf)


def _composed(ledger: Ledger, plan: Plan, rounds: int, delta: float, slots: int | None) -> float:
    """Return an ε at which the composed δ and the price of overflow together are at most δ."""
    epsilon = ledger.epsilon(delta)
    if slots is None or math.isinf(epsilon) or overflow(plan, slots, epsilon=epsilon) == 0.0:
        return epsilon
    for _ in range(ATTEMPTS):
        price = math.nextafter(rounds * overflow(plan, slots, epsilon=epsilon), math.inf)
        if price >= delta:
            return math.inf
        needed = ledger.epsilon(math.nextafter(delta - price, 0.0))
        if needed <= epsilon:
            return epsilon
        epsilon = needed * STEP
    return math.inf
