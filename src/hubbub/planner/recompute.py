"""Plans from parameters chosen by hand or by others: ``plan_from`` computes what they give, ``load_plan`` recomputes it."""

import math

from hubbub.accountant import account
from hubbub.errors import FalseClaim
from hubbub.estimates import predicted_stderr
from hubbub.plans import Plan
from hubbub.protocol import Protocol
from hubbub.schema import Schema

ROUNDING = 1e-9
"""How much a recomputed figure may exceed the claimed one: other machines round otherwise."""


def plan_from(
    schema: Schema,
    n: int,
    protocol: Protocol,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    honest_fraction: float = 1.0,
    shuffler: bool = True,
) -> Plan:
    """A plan from parameters chosen by hand, with the guarantee that they give: give δ to solve for ε, or ε for δ.

    >>> from hubbub.privacy import Budget
    >>> plan_from(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6).guarantee.meets(Budget(0.38, 1e-6))
    True
    """
    guarantee = account(
        protocol, schema, n, epsilon=epsilon, delta=delta, honest_fraction=honest_fraction, shuffler=shuffler
    )
    return Plan(
        schema=schema,
        n=n,
        protocol=protocol,
        guarantee=guarantee,
        stderr=predicted_stderr(schema, protocol, n),
        honest_fraction=honest_fraction,
    )


def verify(plan: Plan) -> Plan:
    """Return the plan if its claims recompute: the guarantee, whom it trusts, and the standard error; or raise.

    The claimed (ε,δ) must hold by this program's own account, at the claimed share of honest users; a weaker claim
    than what holds is no lie. The text of ``method`` and the figure ``lower`` claim nothing and are not compared.
    """
    claim = plan.guarantee
    mine = account(
        plan.protocol,
        plan.schema,
        plan.n,
        epsilon=None if claim.solved == "epsilon" else claim.epsilon,
        delta=claim.delta if claim.solved == "epsilon" else None,
        honest_fraction=plan.honest_fraction,
        shuffler=claim.assumptions.shuffler,
    )
    if mine.epsilon > claim.epsilon * (1 + ROUNDING) or mine.delta > claim.delta * (1 + ROUNDING):
        raise FalseClaim(f"the plan claims ({claim.epsilon:.6g}, {claim.delta:.3g})-DP, but this gives {mine}")
    if mine.assumptions != claim.assumptions or (mine.basis, claim.basis) == ("proven", "exact"):
        raise FalseClaim("the plan claims less trust, or a better basis, than its guarantee needs")
    expected = predicted_stderr(plan.schema, plan.protocol, plan.n)
    if not math.isclose(expected, plan.stderr, rel_tol=ROUNDING):
        raise FalseClaim(f"the plan claims a standard error of {plan.stderr:.6g}, but it is {expected:.6g}")
    return plan


def load_plan(text: str | bytes) -> Plan:
    """Read a plan from JSON and :func:`verify` it.

    >>> load_plan(plan_from(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6).to_json()).n
    1000
    """
    return verify(Plan.from_json(text))
