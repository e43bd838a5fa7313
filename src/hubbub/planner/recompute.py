"""Plans from given parameters: ``plan_from`` computes their guarantee, ``load_plan`` recomputes a claimed one."""

import math

from hubbub.accountant import account, curve
from hubbub.accountant.accounting import VIEWS, honest_users
from hubbub.accountant.analysis import needs
from hubbub.accountant.cases.local import collusion, count_leak
from hubbub.errors import FalseClaim, check_type
from hubbub.noise import predicted_stderr
from hubbub.plans import Plan
from hubbub.privacy import Basis, TrustModel
from hubbub.protocol import Protocol
from hubbub.schema import Schema

ROUNDING = 1e-9
"""Relative amount by which a recomputed standard error may differ from the claimed one: machines round differently."""


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
    """Return the plan if its guarantee, its assumptions and its standard error hold; raise FalseClaim otherwise.

    The claimed (ε,δ) must be proven here by a theorem that assumes no more than claimed, at the claimed fraction of
    honest users. Claiming less privacy than holds, or more assumptions than needed, is legal. The certificate is
    evaluated once, at the claimed ε, and compared without tolerance: what passes is proven on this machine. Figures of
    :func:`hubbub.account` carry a margin of 5·10⁻¹⁰, so that machines whose elementary functions differ in the last
    digits agree about them. Pure claims are decided exactly. ``method`` and ``lower_bound`` are not part of the claim.
    """
    claim = check_type("plan", plan, Plan).guarantee
    protocol, schema, claimed = plan.protocol, plan.schema, claim.assumptions
    _verify_assumptions(plan)
    empty = claim.delta >= 1 or math.isinf(claim.epsilon)
    if not empty and claim.epsilon < collusion(protocol, schema) and not _proven(plan):
        honest = "1 user is" if claimed.honest == 1 else f"{claimed.honest:,} users are"
        raise FalseClaim(
            f"the plan claims ({claim.epsilon:.6g}, {claim.delta:.3g})-DP as {claim.basis.value}, which its parameters "
            f"do not give if {honest} honest and {_trusted(claimed.trust)}"
        )
    expected = predicted_stderr(schema, protocol, plan.n)
    if not math.isclose(expected, plan.stderr, rel_tol=ROUNDING):
        raise FalseClaim(f"the plan claims a standard error of {plan.stderr:.6g}, but it is {expected:.6g}")
    return plan


def _verify_assumptions(plan: Plan) -> None:
    """Check the parts of the assumptions that do not depend on a theorem."""
    claimed, protocol, schema = plan.guarantee.assumptions, plan.protocol, plan.schema
    most = honest_users(plan.n, plan.honest_fraction)
    if claimed.honest > most:
        raise FalseClaim(f"the plan claims {claimed.honest:,} honest users, but its honest_fraction gives {most:,}")
    if claimed.view != VIEWS[protocol.release]:
        raise FalseClaim(
            f"the plan claims that the analyzer sees {claimed.view}, but it sees {VIEWS[protocol.release]}"
        )
    if claimed.collusion_epsilon < collusion(protocol, schema):
        raise FalseClaim("the plan claims more privacy against a colluding shuffler than one user's flips give")
    if claimed.count_epsilon < count_leak(protocol, schema):
        raise FalseClaim("the plan claims more privacy for the number of one user's messages than its flips give")


def _proven(plan: Plan) -> bool:
    """Return True if a theorem that assumes no more than claimed certifies the claim; those that trust less come first.

    An exact claim needs a theorem that is exact.
    """
    claim, share = plan.guarantee, plan.honest_fraction
    claimed = claim.assumptions
    analysis = curve(plan.protocol, plan.schema, plan.n, honest_fraction=share, trust=claimed.trust)
    return any(
        option.certifies(claim.epsilon, claim.delta)
        for option in sorted(analysis.options or (analysis,), key=needs)
        if option.honest <= claimed.honest
        and option.fakes <= claimed.fakes
        and option.shuffler <= claimed.shuffler
        and (claim.basis is Basis.PROVEN or option.basis is Basis.EXACT)
    )


def _trusted(trust: TrustModel) -> str:
    return {
        "nobody": "nobody shuffles",
        "shuffling": "the shuffler shuffles",
        "shuffler-noise": "the shuffler shuffles and adds its fakes",
    }[trust]


def load_plan(text: str | bytes) -> Plan:
    """Read a plan from its JSON text and :func:`verify` it; ``hubbub`` commands and services load plans this way.

    >>> load_plan(plan_from(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6).to_json()).n
    1000
    """
    return verify(Plan.from_json(text))
