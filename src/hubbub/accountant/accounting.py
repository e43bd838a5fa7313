"""``account``: the guarantee that a protocol gives to one member of a collection of n."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from hubbub.accountant.analysis import Analysis, least_epsilon, needs, unknown
from hubbub.accountant.cases import analyze
from hubbub.accountant.cases.local import collusion, count_leak
from hubbub.errors import SHARE, check_choice, check_epsilon, check_real, check_type, check_whole, reject
from hubbub.model.plans import MAX_PEOPLE
from hubbub.model.privacy import BUDGET_DELTA, TRUST_MODELS, Assumptions, Guarantee, TrustModel
from hubbub.model.protocol import Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema

VIEWS: dict[Release, str] = {
    "records": "whole records", "bits": "the number of messages for each bit", "category": "categories",
    "strings": "strings that many people hold, each with a noisy number of them",
}  # fmt: skip
"""The messages that the analyzer sees, by release."""


def honest_users(n: int, honest_fraction: float) -> int:
    """Return the number of honest users among n, rounded down, but at least the protected one.

    The fraction is the decimal that its shortest spelling names: 0.3 of 10 people are 3.

    >>> honest_users(1000, 0.5), honest_users(10, 0.01), honest_users(10, 0.3)
    (500, 1, 3)
    """
    share = Fraction(str(check_real("honest_fraction", honest_fraction, SHARE)))
    return max(1, math.floor(check_whole("n", n, 1, MAX_PEOPLE) * share))


def curve(
    protocol: Protocol,
    schema: Schema,
    n: int,
    *,
    honest_fraction: float = 1.0,
    trust: TrustModel = "shuffler-noise",
    preliminary: bool = False,
) -> Analysis:
    """Return the certified curve δ(ε) behind :func:`account`, for compositions and plots.

    A ``preliminary`` curve lies a little above it, and costs a third where many single-bit curves are composed.

    >>> analysis = curve(Protocol(0.1), Schema.bits(1), 1000)
    >>> analysis.upper(0.5) < analysis.upper(0.4)
    True
    """
    check_type("protocol", protocol, Protocol)
    check_type("schema", schema, Schema)
    check_choice("trust", trust, TRUST_MODELS)
    return analyze(protocol, schema, n, honest_users(n, honest_fraction), trust, preliminary=preliminary)


def account(
    protocol: Protocol,
    schema: Schema,
    n: int,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    honest_fraction: float = 1.0,
    trust: TrustModel = "shuffler-noise",
) -> Guarantee:
    """Return the guarantee of a collection of n, over all neighbouring collections and both orders of every pair.

    Give ``delta`` to solve for the smallest proven ε, or ``epsilon`` to solve for δ; the result errs upwards. Where
    several theorems apply, the smallest figure is returned, and its assumptions are those of the theorem that gives it.
    To ask for weaker assumptions, lower ``honest_fraction``, the fraction of users who follow the protocol, or
    ``trust``: "shuffling" does not rely on the shuffler's fakes, "nobody" gives the local guarantee.

    >>> print(account(Protocol(0.1), Schema.bits(1), 1000, delta=1e-6))
    (0.377..., 1e-06)-DP, exact by branch and bound over all collections, n = 1,000; best known attack: ...
    """
    if (epsilon is None) == (delta is None):
        both = "neither" if delta is None else "both"
        reject("exactly one of epsilon and delta", f"be given, to solve for the other, got {both}")
    analysis = curve(protocol, schema, n, honest_fraction=honest_fraction, trust=trust)
    solved: Literal["epsilon", "delta"] = "delta" if delta is None else "epsilon"
    if delta is None:
        epsilon = check_epsilon(epsilon)
        lower, upper, used = least_delta(analysis, epsilon)
        result = epsilon, upper
    else:
        delta = check_real("delta", delta, BUDGET_DELTA)
        lower, upper, used = least_epsilon(analysis, delta)
        result = upper, delta
    return _guarantee(protocol, schema, n, used, epsilon=result[0], delta=result[1], lower=lower, solved=solved)


def prove(
    protocol: Protocol,
    schema: Schema,
    n: int,
    *,
    epsilon: float,
    honest_fraction: float = 1.0,
    trust: TrustModel = "shuffler-noise",
    preliminary: bool = False,
) -> Guarantee:
    """Return the guarantee of :func:`account` at ε without its attack, which may cost more: for the trials of a search.

    A ``preliminary`` one has a slightly larger δ, and costs less (:func:`curve`).

    >>> prove(Protocol(0.1), Schema.bits(1), 1000, epsilon=0.5).lower_bound
    0.0
    """
    analysis = curve(protocol, schema, n, honest_fraction=honest_fraction, trust=trust, preliminary=preliminary)
    lower, upper, used = least_delta(replace(analysis, lower=unknown), epsilon)
    return _guarantee(protocol, schema, n, used, epsilon=epsilon, delta=upper, lower=lower, solved="delta")


def with_attack(
    guarantee: Guarantee, protocol: Protocol, schema: Schema, *, honest_fraction: float, trust: TrustModel
) -> Guarantee:
    """Return a guarantee of :func:`prove` with the δ that the known attack attains.

    >>> proven = prove(Protocol(0.1), Schema.bits(1), 1000, epsilon=0.5)
    >>> whole = with_attack(proven, Protocol(0.1), Schema.bits(1), honest_fraction=1.0, trust="shuffler-noise")
    >>> whole == account(Protocol(0.1), Schema.bits(1), 1000, epsilon=0.5)
    True
    """
    analysis = curve(protocol, schema, guarantee.n, honest_fraction=honest_fraction, trust=trust)
    return replace(guarantee, lower_bound=min(analysis.attacked_delta(guarantee.epsilon), guarantee.delta))


def _guarantee(
    protocol: Protocol,
    schema: Schema,
    n: int,
    used: Analysis,
    *,
    epsilon: float,
    delta: float,
    lower: float,
    solved: Literal["epsilon", "delta"],
) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        lower_bound=lower,
        solved=solved,
        basis=used.basis,
        method=used.method,
        n=n,
        assumptions=Assumptions(
            honest=used.honest,
            shuffler=used.shuffler,
            fakes=used.fakes,
            view=VIEWS[protocol.release],
            collusion_epsilon=collusion(protocol, schema),
            count_epsilon=count_leak(protocol, schema),
            relay=protocol.sends_strings,
        ),
    )


def least_delta(analysis: Analysis, epsilon: float) -> tuple[float, float, Analysis]:
    """Return the δ of the known attack at ε, the smallest certified δ, and the theorem that certifies it.

    >>> least_delta(curve(Protocol(0.25), Schema.bits(1), 10), 1.2)[:2]  # beyond the pure ε
    (0.0, 0.0)
    """
    found = [(option.delta(epsilon), option) for option in analysis.options or (analysis,)]
    upper, used = min(found, key=lambda pair: (pair[0], *needs(pair[1])))
    return min(analysis.attacked_delta(epsilon), upper), upper, used
