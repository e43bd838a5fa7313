"""What makes plans comparable: a name, the central reference, the share that can be measured, what attacks leave."""

import math

from scipy.special import ndtri

from hubbub.accountant import account
from hubbub.errors import OPEN_UNIT, POSITIVE, check_real, reject
from hubbub.numeric.divergences import gaussian_signal
from hubbub.planner.expectations import discrete_laplace
from hubbub.plans import Plan
from hubbub.privacy import Budget, Guarantee
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema


def family(chosen: Plan | Protocol, schema: Schema | None = None) -> str:
    """The kind of a protocol in a few words; only a plan, by its guarantee, can be told to be local.

    >>> family(Protocol(0.1)), family(Protocol(0.1, k=4)), family(Protocol(0.1, release="bits"))
    ('flip', '4 copies', 'split bits')
    >>> family(Protocol(0.0, m=Fakes.laplace(2.0, 25))), family(Protocol(0.1, m=500))
    ("clear + shuffler's fakes (laplace)", 'fake and flip')
    """
    protocol = chosen.protocol if isinstance(chosen, Plan) else chosen
    if not isinstance(protocol, Protocol):
        reject("the first argument", "be a Plan or a Protocol", type(protocol).__name__)
    schema = chosen.schema if isinstance(chosen, Plan) else schema
    if isinstance(chosen, Plan) and not chosen.guarantee.assumptions.shuffler:
        return "local randomized response" if protocol.sends_category else "local"
    if protocol.sends_category:
        return f"{schema.width}-ary randomized response" if schema else "d-ary randomized response"
    drawn = isinstance(protocol.m, Fakes) and protocol.m.by == "shuffler"
    who = "shuffler's" if drawn else "users'"
    distribution = f" ({protocol.m.distribution})" if isinstance(protocol.m, Fakes) else ""
    if protocol.q == 0:
        return f"clear + {who} fakes{distribution}"
    words = []
    if protocol.k > 1:
        words.append(f"{protocol.k} copies")
    if protocol.sends_bits and (schema is None or schema.width > 1):
        words.append("split bits")
    if protocol.m == 0:
        return ", ".join(words) or "flip"
    fakes = f"flip + shuffler's fakes{distribution}" if drawn else "fake and flip"
    return ", ".join([fakes, *words])


def central_stderr(schema: Schema, budget: Budget) -> float:
    """σ of one count if a trusted curator added the noise: the reference that no protocol without one should beat.

    Replacing a record changes h = ``schema.distance`` counts by one. The better of the discrete Laplace mechanism of
    scale h/ε (:func:`hubbub.planner.expectations.discrete_laplace`) and the analytic Gaussian one, σ = √h/μ
    (:func:`hubbub.numeric.divergences.gaussian_signal`).

    >>> round(central_stderr(Schema.one_hot(100), Budget(1.0, 1e-6)), 2)
    2.8
    >>> round(central_stderr(Schema.bits(13), Budget(1.0, 1e-6)) / 13**0.5, 4)
    4.2247
    """
    changes = schema.distance
    laplace = discrete_laplace(changes / budget.epsilon) if budget.epsilon > 0 else math.inf
    if budget.delta == 0:
        return laplace
    return min(laplace, math.sqrt(changes) / gaussian_signal(budget.epsilon, budget.delta))


def measurable_share(plan: Plan, error: float = 0.05, level: float = 0.95) -> float:
    """The smallest share of the population that is measured within the relative ``error``, with probability ``level``.

    z·σ/(error·n), z the two-sided normal quantile: 1.96 for 95 %, which is how the notes' "1 % of the population with
    10 % error" comes about [003 §4]. Above 1, nothing can be measured that well.

    >>> from hubbub.planner.recompute import plan_from
    >>> own = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-6)
    >>> round(own.stderr, 2), round(measurable_share(own, error=0.1), 4)
    (37.5, 0.0735)
    """
    error = check_real("error", error, POSITIVE)
    level = check_real("level", level, OPEN_UNIT)
    return -float(ndtri((1 - level) / 2)) * plan.stderr / (error * plan.n)


def under_attack(plan: Plan, honest_fraction: float, *, collusion: bool = False) -> Guarantee:
    """What is left of the guarantee, as ε at its δ, if only ``honest_fraction`` of the users follow the protocol.

    With ``collusion`` the shuffler works for the analyzer too, and nobody but the protected user counts: ε is
    infinite for clear records. The pure ε of that case is ``plan.guarantee.assumptions.collusion_epsilon``.

    >>> from hubbub.planner.recompute import plan_from
    >>> own = plan_from(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6)
    >>> own.guarantee.epsilon < under_attack(own, 0.5).epsilon < under_attack(own, 0.5, collusion=True).epsilon
    True
    """
    return account(
        plan.protocol,
        plan.schema,
        plan.n,
        delta=plan.guarantee.delta,
        honest_fraction=honest_fraction,
        shuffler=plan.guarantee.assumptions.shuffler and not collusion,
    )
