"""Plans from given parameters: ``plan_from`` computes their guarantee, ``load_plan`` recomputes a claimed one."""

import math
from dataclasses import replace

from hubbub.accountant import account, curve
from hubbub.accountant.accounting import VIEWS, honest_users
from hubbub.accountant.analysis import MARGIN, needs
from hubbub.accountant.cases.local import collusion, count_leak
from hubbub.accountant.odds import certified_odds, distances
from hubbub.accountant.repeated import assumed_curve, repeated_epsilon, round_curve
from hubbub.errors import FalseClaim, check_real, check_type, check_whole
from hubbub.mechanisms.noise import predicted_stderr
from hubbub.model.plans import MAX_ROUNDS, Plan, basic_total
from hubbub.model.privacy import BUDGET_DELTA, Basis, Total, TrustModel
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.rounding import up

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
    rounds: int = 1,
    total_delta: float | None = None,
) -> Plan:
    """Return the plan with the given parameters and the guarantee that follows: give δ to solve for ε, or ε for δ.

    The same people answer in ``rounds`` collections; their total is proven at ``total_delta``, by default the sum of
    the δ of all rounds.

    >>> from hubbub.model.privacy import Budget
    >>> plan_from(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6).guarantee.meets(Budget(0.38, 1e-6))
    True
    """
    guarantee = account(protocol, schema, n, epsilon=epsilon, delta=delta, honest_fraction=honest_fraction, trust=trust)
    stderr, share = predicted_stderr(schema, protocol, n), honest_fraction
    plan = Plan(schema=schema, n=n, protocol=protocol, guarantee=guarantee, stderr=stderr, honest_fraction=share)
    return with_rounds(plan, rounds, total_delta)


def with_rounds(plan: Plan, rounds: int, delta: float | None = None, *, preliminary: bool = False) -> Plan:
    """Return the plan for several rounds, with its curve and the total at δ, by default the sum of the δ of all rounds.

    The curve of a plan with a ``preliminary`` guarantee is preliminary, too.

    >>> plan = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-8)
    >>> with_rounds(plan, 52, 1e-6).total.epsilon < 52 * plan.guarantee.epsilon
    True
    """
    rounds = check_whole("rounds", rounds, 1, MAX_ROUNDS)
    claim = replace(plan.guarantee, lower_bound=0.0)  # the search for the plan knew no attack
    share, schema = plan.honest_fraction, plan.schema
    points = round_curve(plan.protocol, schema, plan.n, share, claim, rounds, preliminary=preliminary)
    odds = certified_odds(points, rounds, plan.guarantee.assumptions.collusion_epsilon)
    plan = replace(plan, curve=points, odds=odds)
    basic = basic_total(plan.guarantee, rounds)
    if delta is None and (rounds == 1 or basic.delta >= 1):
        return replace(plan, rounds=rounds, total=basic)
    delta = basic.delta if delta is None else check_real("total_delta", delta, BUDGET_DELTA)
    proven = repeated_epsilon(plan, rounds, delta)
    # The margin lets a machine that rounds differently confirm the figure.
    return replace(plan, rounds=rounds, total=Total(up(proven, MARGIN) if 0 < proven < math.inf else proven, delta))


def verify(plan: Plan) -> Plan:
    """Return the plan if its guarantee, assumptions, odds and standard error hold; raise FalseClaim otherwise.

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
    _verify_curve(plan)
    _verify_total(plan)
    _verify_odds(plan)
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


def _verify_curve(plan: Plan) -> None:
    """Check that theorems that assume no more than the plan claims certify every point of its curve."""
    claim = plan.guarantee
    pure = collusion(plan.protocol, plan.schema)
    points = [
        (epsilon, delta)
        for epsilon, delta in plan.curve.points
        if delta < 1 and epsilon < pure and not (epsilon >= claim.epsilon and delta >= claim.delta)
    ]
    if not points:
        return
    analysis = assumed_curve(plan.protocol, plan.schema, plan.n, plan.honest_fraction, claim.assumptions)
    options = list(analysis.options or (analysis,)) if analysis else []
    least = math.inf
    for epsilon, delta in points:
        if delta >= least:
            continue  # implied by a point with a smaller ε
        place = next((i for i, option in enumerate(options) if option.certifies(epsilon, delta)), None)
        if place is None:
            raise FalseClaim(
                f"the curve of the plan claims ({epsilon:.6g}, {delta:.3g})-DP for one round, which is not proven "
                "under the assumptions of its guarantee"
            )
        least = delta
        options.insert(0, options.pop(place))  # a theorem that certifies a point usually certifies the next one


def _verify_total(plan: Plan) -> None:
    """Check that the rounds together cost at most the claimed total."""
    total, claim = plan.total, plan.guarantee
    if math.isinf(total.epsilon) or total.delta >= 1:
        return
    one = total.epsilon >= claim.epsilon and total.delta >= claim.delta
    if plan.rounds == 1 and (one or plan.curve.delta(total.epsilon) <= total.delta):
        return
    proven = repeated_epsilon(plan, plan.rounds, total.delta)
    if proven > total.epsilon:
        rounds = "1 round" if plan.rounds == 1 else f"{plan.rounds:,} rounds"
        raise FalseClaim(
            f"the plan claims a total of ({total.epsilon:.6g}, {total.delta:.3g})-DP for {rounds}, but the proven "
            f"total at this δ is ε = {proven:.6g}"
        )


def _verify_odds(plan: Plan) -> None:
    """Check that the curve, and the claimed privacy under collusion, give at most the claimed odds."""
    proven = distances(plan.curve, plan.rounds, plan.guarantee.assumptions.collusion_epsilon)
    for name, delta in proven.items():
        claimed, found = getattr(plan.odds, name), (1 + delta) / 2
        if claimed < found:
            raise FalseClaim(f"the plan claims odds ({name}) of {claimed:.9g}, but {found:.9g} is proven")


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
