"""``account``: the guarantee that a protocol gives to one member of a collection of n."""

import math
from typing import Literal

from hubbub.accountant.analysis import VIEWS, Analysis, analyze, collusion, count_leak, local_analysis
from hubbub.accountant.rigorous import certify
from hubbub.errors import SHARE, check_epsilon, check_real, check_type, check_whole, reject
from hubbub.numeric.inversion import falling_root
from hubbub.numeric.rounding import up
from hubbub.plans import MAX_PEOPLE
from hubbub.privacy import BUDGET_DELTA, Assumptions, Guarantee
from hubbub.protocol import Protocol
from hubbub.schema import Schema

STEEP = 60.0  # largest ε that is searched where no pure guarantee bounds it; a larger one is reported as infinite


def honest_users(n: int, honest_fraction: float) -> int:
    """Return the number of honest users among n, rounded down, but at least the protected one.

    >>> honest_users(1000, 0.5), honest_users(10, 0.01)
    (500, 1)
    """
    share = check_real("honest_fraction", honest_fraction, SHARE)
    return max(1, math.floor(check_whole("n", n, 1, MAX_PEOPLE) * share + 1e-9))


def curve(
    protocol: Protocol, schema: Schema, n: int, *, honest_fraction: float = 1.0, shuffler: bool = True
) -> Analysis:
    """Return the certified curve δ(ε) behind :func:`account`, for compositions and plots.

    >>> analysis = curve(Protocol(0.1), Schema.bits(1), 1000)
    >>> analysis.upper(0.5) < analysis.upper(0.4)
    True
    """
    check_type("protocol", protocol, Protocol)
    check_type("schema", schema, Schema)
    check_type("shuffler", shuffler, bool)
    honest = honest_users(n, honest_fraction)
    if not shuffler:
        return local_analysis(protocol, schema, collusion(protocol, schema))
    return analyze(protocol, schema, honest, honest_fraction)


def account(
    protocol: Protocol,
    schema: Schema,
    n: int,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    honest_fraction: float = 1.0,
    shuffler: bool = True,
    rigorous: bool = False,
) -> Guarantee:
    """Return the guarantee of a collection of n, over all neighbouring collections and both orders of every pair.

    Give ``delta`` to solve for the smallest proven ε, or ``epsilon`` to solve for δ; the result errs upwards. Only
    ``honest_fraction`` of the users need to follow the protocol; without a ``shuffler`` the guarantee is local. With
    ``rigorous`` the last step is repeated in ball arithmetic (single bits; needs the extra ``rigorous``).

    >>> print(account(Protocol(0.1), Schema.bits(1), 1000, delta=1e-6))
    (0.377..., 1e-06)-DP, exact by branch and bound over all collections, n = 1,000; best known attack: ...
    """
    if (epsilon is None) == (delta is None):
        both = "neither" if delta is None else "both"
        reject("exactly one of epsilon and delta", f"be given, to solve for the other, got {both}")
    check_type("rigorous", rigorous, bool)
    analysis = curve(protocol, schema, n, honest_fraction=honest_fraction, shuffler=shuffler)
    honest = honest_users(n, honest_fraction)
    pure = collusion(protocol, schema)
    solved: Literal["epsilon", "delta"] = "delta" if delta is None else "epsilon"
    if delta is None:
        epsilon = check_epsilon(epsilon)
        lower, upper = solve_delta(analysis, epsilon, pure)
        result = epsilon, upper
    else:
        delta = check_real("delta", delta, BUDGET_DELTA)
        lower, upper = solve_epsilon(analysis, delta, pure)
        result = upper, delta
    method = analysis.method
    if rigorous:
        if schema.distance > 1 or protocol.k > 1 or protocol.m != 0 or not shuffler:
            reject("rigorous", "be False except for shuffled single bits in one copy without fakes", rigorous)
        certify(honest, protocol.q, *result)
        method += ", confirmed in ball arithmetic"
    return Guarantee(
        epsilon=result[0],
        delta=result[1],
        lower_bound=lower,
        solved=solved,
        basis=analysis.basis,
        method=method,
        n=n,
        assumptions=Assumptions(
            honest=1 if protocol.shuffler_fakes or not shuffler else honest,
            shuffler=shuffler,
            view=VIEWS[protocol.release],
            collusion_epsilon=pure,
            count_epsilon=count_leak(protocol, schema),
        ),
    )


def solve_delta(analysis: Analysis, epsilon: float, pure: float) -> tuple[float, float]:
    """Return (attack, certificate) for δ at ε; the certificate errs upwards.

    >>> solve_delta(curve(Protocol(0.25), Schema.bits(1), 10), 1.2, 1.0986)  # beyond the pure ε
    (0.0, 0.0)
    """
    log_delta = analysis.upper(epsilon) if epsilon < pure else -math.inf
    if log_delta == -math.inf:
        return 0.0, 0.0
    upper = min(1.0, up(math.exp(min(log_delta, 0.0)), 1e-12))
    return min(math.exp(min(analysis.lower(epsilon), 0.0)), upper), upper


def solve_epsilon(analysis: Analysis, delta: float, pure: float) -> tuple[float, float]:
    """Return (attack, certificate) for ε at δ; the certificate was evaluated and holds. For δ = 0 it is the pure ε.

    >>> low, high = solve_epsilon(curve(Protocol(0.1), Schema.bits(3), 1000), 1e-6, 6.6)
    >>> 0 < low < high < 6.6
    True
    """
    if delta == 0.0:
        return pure, pure
    if analysis.solve is not None:
        lower, upper = analysis.solve(delta)
        return min(lower, pure), min(upper, pure)
    goal = math.log(delta)
    top = min(pure, STEEP)
    upper = falling_root(lambda x: analysis.upper(x) - goal, min(analysis.guess, top / 2), top, relative=1e-5)[1]
    upper = min(upper, pure)
    lower = falling_root(lambda x: analysis.lower(x) - goal, min(upper, top) / 1.3 or 1e-6, top, relative=1e-5)[0]
    return min(lower, upper), upper
