"""From a question to a plan: ``plan`` chooses a protocol for a budget, ``adopt`` takes one chosen by hand.

Plans that come from elsewhere are loaded by :func:`load_plan`, which recomputes what they claim.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hubbub.accountant import account, calibrate
from hubbub.data import Schema
from hubbub.errors import FalseClaim, Infeasible, TooLarge, check_real, reject
from hubbub.estimates import predicted_stderr
from hubbub.numeric.inversion import falling_root
from hubbub.privacy import Budget
from hubbub.protocol import Fakes, Plan, Protocol, Release

__all__ = ["adopt", "load_plan", "plan", "verify"]

ROUNDING = 1e-9
"""How much a recomputed figure may exceed the claimed one: other machines round otherwise."""


def adopt(
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

    >>> adopt(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6).guarantee.meets(Budget(0.38, 1e-6))
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


def plan(
    schema: Schema,
    n: int,
    budget: Budget,
    *,
    honest_fraction: float = 1.0,
    shuffler_fakes: bool = False,
    joint: bool = False,
    max_messages: float = math.inf,
) -> Plan:
    """The plan with the smallest standard error of a count among the protocols that meet the budget.

    Considers flipped whole records, split bits, d-ary randomized response, clear records among fakes that users draw
    and, if ``shuffler_fakes`` are allowed, among those that the shuffler draws. ``joint`` asks for whole records, as
    joint tables need them; ``max_messages`` limits the expected messages of a user.

    >>> chosen = plan(Schema.one_hot(4), 20_000, Budget(0.5, 1e-6))
    >>> round(chosen.stderr, 1), chosen.guarantee.meets(Budget(0.5, 1e-6))
    (10.1, True)
    """
    if not isinstance(schema, Schema):
        reject("schema", "be a Schema", type(schema).__name__)
    if not isinstance(budget, Budget):
        reject("budget", "be a Budget", type(budget).__name__)
    limit = check_real("max_messages", max_messages, 1.0, math.inf, "be at least 1")
    asked = _Asked(schema, n, budget, honest_fraction)
    found, reasons = [], []
    for attempt in asked.candidates(shuffler_fakes, joint):
        try:
            plan = asked.adopt(attempt())
            if plan.messages <= limit:
                found.append(plan)
        except (Infeasible, TooLarge) as reason:
            reasons.append(str(reason))
    if not found:
        told = reasons[0] if reasons else f"every protocol needs more than {limit:g} messages per user"
        raise Infeasible(f"no protocol meets {budget} for {schema} at n = {n:,}: {told}")
    return min(found, key=lambda plan: (plan.stderr, plan.messages))


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
        shuffler=claim.trusts.shuffler,
    )
    if mine.epsilon > claim.epsilon * (1 + ROUNDING) or mine.delta > claim.delta * (1 + ROUNDING):
        raise FalseClaim(f"the plan claims ({claim.epsilon:.6g}, {claim.delta:.3g})-DP, but this gives {mine}")
    if mine.trusts != claim.trusts or (mine.basis, claim.basis) == ("proven", "exact"):
        raise FalseClaim("the plan claims less trust, or a better basis, than its guarantee needs")
    expected = predicted_stderr(plan.schema, plan.protocol, plan.n)
    if not math.isclose(expected, plan.stderr, rel_tol=ROUNDING):
        raise FalseClaim(f"the plan claims a standard error of {plan.stderr:.6g}, but it is {expected:.6g}")
    return plan


def load_plan(text: str | bytes) -> Plan:
    """Read a plan from JSON and :func:`verify` it.

    >>> load_plan(adopt(Schema.bits(1), 1000, Protocol(0.1), delta=1e-6).to_json()).n
    1000
    """
    return verify(Plan.from_json(text))


@dataclass(frozen=True, slots=True)
class _Asked:
    schema: Schema
    n: int
    budget: Budget
    honest_fraction: float

    def adopt(self, protocol: Protocol) -> Plan:
        plan = adopt(self.schema, self.n, protocol, epsilon=self.budget.epsilon, honest_fraction=self.honest_fraction)
        if not plan.guarantee.meets(self.budget):
            raise Infeasible(f"the account gives {plan.guarantee}, not {self.budget}")
        return plan

    def candidates(self, shuffler_fakes: bool, joint: bool) -> Iterator[Callable[[], Protocol]]:
        one_hot = self.schema.kind == "one_hot"
        yield lambda: self.flipped("records")
        if not joint:
            yield lambda: self.flipped("bits")
            if one_hot:
                yield lambda: self.flipped("category")
        # With delta = 0 no number of fakes suffices; with more records than these no one could send enough of them.
        if self.budget.delta > 0 and self.budget.epsilon > 0 and self.schema.size <= 2**20:
            yield self.among_users_fakes
        if shuffler_fakes and self.budget.delta > 0 and self.budget.epsilon > 0:
            if one_hot:
                yield self.among_laplace_fakes
            elif not joint:
                yield self.among_gaussian_fakes

    def flipped(self, release: Release) -> Protocol:
        return calibrate(
            self.schema,
            self.n,
            self.budget,
            release=release,
            honest_fraction=self.honest_fraction,
        ).protocol

    def among_users_fakes(self) -> Protocol:
        """Clear records; everybody adds Binomial(t, s) fakes, t about twice what is needed, s the least that does."""
        share = self.honest_fraction
        total = calibrate(self.schema, self.n, self.budget, q=0, m=None, honest_fraction=share).protocol.m
        assert isinstance(total, int)
        trials = max(1, math.ceil(2 * total / self.n))
        goal = math.log(self.budget.delta)

        def excess(chance: float) -> float:
            protocol = Protocol(0.0, m=Fakes.binomial(trials, chance))
            found = account(protocol, self.schema, self.n, epsilon=self.budget.epsilon, honest_fraction=share).delta
            return math.log(max(found, 1e-300)) - goal

        chance = falling_root(excess, min(total / (trials * self.n), 0.9), 1.0, relative=1e-4)[1]
        return Protocol(0.0, m=Fakes.binomial(trials, chance))

    def among_laplace_fakes(self) -> Protocol:
        """Clear records; the shuffler draws the fakes of each category: two counts change by one each."""
        law = Fakes.laplace(2 / self.budget.epsilon, 0)
        return calibrate(self.schema, self.n, self.budget, q=0, m=law).protocol

    def among_gaussian_fakes(self) -> Protocol:
        """Clear bits; the shuffler draws the fakes of each bit, at the least scale that will do, to 2 %."""

        def fit(scale: float) -> Protocol:
            law = Fakes.gaussian(max(scale, 0.5), 0)
            return calibrate(self.schema, self.n, self.budget, q=0, m=law, release="bits").protocol

        # The classical bound for the Gaussian mechanism is enough noise, or nearly so; the least is not far below.
        high = 1.2 * math.sqrt(2 * self.schema.distance * math.log(1.25 / self.budget.delta)) / self.budget.epsilon
        low, found = high / 2, fit(high)
        while high / low > 1.02:
            middle = math.sqrt(low * high)
            try:
                found, high = fit(middle), middle
            except Infeasible:
                low = middle
        return found
