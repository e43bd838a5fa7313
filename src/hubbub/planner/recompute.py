"""Plans from given parameters: ``plan_from`` computes their guarantee, ``load_plan`` recomputes a claimed one."""

import math

from hubbub.accountant import account
from hubbub.errors import FalseClaim, check_type
from hubbub.estimates import predicted_stderr
from hubbub.plans import Plan
from hubbub.privacy import Basis, TrustModel
from hubbub.protocol import Protocol
from hubbub.schema import Schema

ROUNDING = 1e-9
"""Relative amount by which a recomputed figure may exceed the claimed one: other machines round differently."""


def plan_from(
    schema: Schema,
    n: int,
    protocol: Protocol,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    honest_fraction: float = 1.0,
    trust: TrustModel = "shuffler-noise",
) -> Plan:
    """Return the plan with the given parameters and the guarantee that follows: give δ to solve for ε, or ε for δ.

    >>> from hubbub.privacy import Budget
    >>> plan_from(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6).guarantee.meets(Budget(0.38, 1e-6))
    True
    """
    guarantee = account(protocol, schema, n, epsilon=epsilon, delta=delta, honest_fraction=honest_fraction, trust=trust)
    stderr, share = predicted_stderr(schema, protocol, n), honest_fraction
    return Plan(schema=schema, n=n, protocol=protocol, guarantee=guarantee, stderr=stderr, honest_fraction=share)


def verify(plan: Plan) -> Plan:
    """Return the plan if its guarantee, its assumptions and its standard error recompute; raise FalseClaim otherwise.

    The claimed (ε,δ) must hold by this program's own account at the claimed fraction of honest users; claiming less
    privacy than holds is legal. ``method`` and ``lower_bound`` are not part of the claim and are not compared.
    """
    claim = check_type("plan", plan, Plan).guarantee
    epsilon, delta = (None, claim.delta) if claim.solved == "epsilon" else (claim.epsilon, None)
    share, trust = plan.honest_fraction, claim.assumptions.trust
    mine = account(plan.protocol, plan.schema, plan.n, epsilon=epsilon, delta=delta, honest_fraction=share, trust=trust)
    if mine.epsilon > claim.epsilon * (1 + ROUNDING) or mine.delta > claim.delta * (1 + ROUNDING):
        raise FalseClaim(f"the plan claims ({claim.epsilon:.6g}, {claim.delta:.3g})-DP, but its parameters give {mine}")
    if mine.assumptions != claim.assumptions:
        raise FalseClaim("the plan claims other assumptions than those its guarantee needs")
    if (mine.basis, claim.basis) == (Basis.PROVEN, Basis.EXACT):
        raise FalseClaim("the plan claims that its guarantee is exact, but it is only proven")
    expected = predicted_stderr(plan.schema, plan.protocol, plan.n)
    if not math.isclose(expected, plan.stderr, rel_tol=ROUNDING):
        raise FalseClaim(f"the plan claims a standard error of {plan.stderr:.6g}, but it is {expected:.6g}")
    return plan


def load_plan(text: str | bytes) -> Plan:
    """Read a plan from its JSON text and :func:`verify` it; ``hubbub`` commands and services load plans this way.

    >>> load_plan(plan_from(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6).to_json()).n
    1000
    """
    return verify(Plan.from_json(text))
