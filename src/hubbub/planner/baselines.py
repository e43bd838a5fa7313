"""Figures that make plans comparable: the central reference, the measurable share, the guarantee under attack."""

import math

from scipy.special import ndtri

from hubbub.accountant import account
from hubbub.errors import OPEN_UNIT, POSITIVE, check_real, check_type, check_whole
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget, Guarantee
from hubbub.model.schema import Schema
from hubbub.numeric.divergences import gaussian_signal
from hubbub.planner.asymptotics import discrete_laplace, total_factor
from hubbub.planner.request import MAX_ROUNDS


def central_noise(schema: Schema, budget: Budget, rounds: int = 1) -> tuple[float, float | None]:
    """Return σ of the noise that a trusted curator adds to one count, and its scale if it is a discrete Laplace one.

    Replacing a record changes h = ``schema.distance`` counts by one, in each of the rounds that share the budget. The
    better of the discrete Laplace mechanism of scale h·rounds/ε (:func:`hubbub.planner.asymptotics.discrete_laplace`)
    and the analytic Gaussian one, σ = √(h·rounds)/μ (:func:`hubbub.numeric.divergences.gaussian_signal`).

    >>> central_noise(Schema.one_hot(4), Budget(1.0, 0.0))[1]
    2.0
    """
    check_type("schema", schema, Schema)
    check_type("budget", budget, Budget)
    changes = schema.distance * check_whole("rounds", rounds, 1, MAX_ROUNDS)
    scale = changes / budget.epsilon if budget.epsilon > 0 else math.inf
    laplace = discrete_laplace(scale) if budget.epsilon > 0 else math.inf
    gaussian = math.sqrt(changes) / gaussian_signal(budget.epsilon, budget.delta) if budget.delta > 0 else math.inf
    return (laplace, scale) if laplace <= gaussian else (gaussian, None)


def central_stderr(schema: Schema, budget: Budget, rounds: int = 1) -> float:
    """Return σ of one count if a trusted curator adds the noise: the reference for protocols that need none.

    That of :func:`central_noise`, less what the known total of one-hot records takes away.

    >>> round(central_stderr(Schema.one_hot(100), Budget(1.0, 1e-6)), 2)
    2.79
    >>> round(central_stderr(Schema.bits(13), Budget(1.0, 1e-6), rounds=4) / 52**0.5, 4)
    4.2247
    """
    return central_noise(schema, budget, rounds)[0] * total_factor(schema)


def measurable_share(plan: Plan, error: float = 0.05, level: float = 0.95) -> float:
    """Return the smallest share of a batch that is measured within a relative ``error`` with probability ``level``.

    z·σ/(error·n), z the two-sided normal quantile: 1.96 for 95 % [003 §4]. Above 1, nothing can be measured that well.
    This is the share among the people of the batch; :func:`hubbub.planner.relative_error` is about the population that
    they are drawn from, and includes the sampling error.

    >>> from hubbub import Protocol, plan_from
    >>> own = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-6)
    >>> round(own.stderr, 2), round(measurable_share(own, error=0.1), 4)
    (37.5, 0.0735)
    """
    error = check_real("error", error, POSITIVE)
    level = check_real("level", level, OPEN_UNIT)
    return -float(ndtri((1 - level) / 2)) * plan.stderr / (error * plan.n)


def under_attack(plan: Plan, honest_fraction: float, *, collusion: bool = False) -> Guarantee:
    """Return the guarantee, as ε at the plan's δ, if only ``honest_fraction`` of the users follow the protocol.

    With ``collusion`` the shuffler works for the analyzer too, and only the protected user's own randomization counts:
    ε is infinite for clear records. ``plan.guarantee.assumptions.collusion_epsilon`` is the pure ε of that case.

    >>> from hubbub import Protocol, plan_from
    >>> own = plan_from(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6)
    >>> own.guarantee.epsilon < under_attack(own, 0.5).epsilon < under_attack(own, 0.5, collusion=True).epsilon
    True
    """
    delta, trust = plan.guarantee.delta, "nobody" if collusion else plan.guarantee.assumptions.trust
    return account(plan.protocol, plan.schema, plan.n, delta=delta, honest_fraction=honest_fraction, trust=trust)
