"""From a protocol to a plan: no plan leaves the planner without an account that meets the budget.

A certificate costs up to a second, so searches are guided by cheap estimates (the Gaussian limit, an attack) and end
with one account. Every function here works on one :class:`~hubbub.planner.request.Request`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hubbub.accountant import Calibrated, Ledger, account, calibrate, curve
from hubbub.accountant.analysis import MARGIN
from hubbub.errors import Infeasible, TooLarge
from hubbub.estimates import predicted_stderr
from hubbub.numeric.divergences import gaussian_delta
from hubbub.numeric.inversion import falling_root, gaussian_tail, least_real
from hubbub.planner.costs import cost
from hubbub.planner.request import Request
from hubbub.plans import Plan
from hubbub.privacy import Budget, TrustModel
from hubbub.protocol import Protocol, Release

MIN_BUDGET_USE = 0.97
"""Fraction of the budget that several rounds should use before the search for a larger ε per round ends."""
COMPOSITION_STEPS = 6

Attempt = Callable[[Budget], Calibrated]
"""Takes the budget of one round and returns a protocol that meets it; raises Infeasible."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One family applied to a request: its expected standard error, and the ways to set its parameters.

    There is at least one attempt. Along them the standard error falls and then rises, so the first one that is worse
    than its predecessor ends the search.
    """

    expected: float
    attempts: Sequence[Attempt]
    trust: TrustModel = "shuffler-noise"

    def best(self, request: Request) -> Plan:
        """Return the plan with the smallest error within the constraints, or raise Infeasible with the first reason."""
        best: Plan | None = None
        reason: Exception | None = None
        for attempt in self.attempts:
            try:
                plan = constrained(request, self._shuffled(composed(request, attempt, trust=self.trust)))
            except (Infeasible, TooLarge) as error:
                reason = reason or error
                continue
            if best is not None and plan.stderr > best.stderr:
                break
            best = plan
        if best is None:
            assert reason is not None, "a candidate has at least one attempt"
            raise reason
        return best

    def _shuffled(self, calibrated: Calibrated) -> Calibrated:
        """Return a protocol whose guarantee rests on the shuffler; the others belong to the local families."""
        if self.trust != "nobody" and not calibrated.guarantee.assumptions.shuffler:
            raise Infeasible("shuffling adds nothing to the flips, which meet the budget locally; raise n")
        return calibrated


def flipped(
    request: Request, budget: Budget, k: int = 1, release: Release = "records", *, trust: TrustModel = "shuffler-noise"
) -> Calibrated:
    """Return flips with the smallest q that meets the budget, or with the q that the policy requires."""
    schema, n = request.schema, request.n
    calibrated = calibrate(
        schema, n, budget, k=k, release=release, honest_fraction=request.honest_fraction, trust=trust
    )
    category = calibrated.protocol.sends_category
    least = request.min_q / (schema.width - 1) if category else request.min_q
    if category and max(calibrated.protocol.q, least) * schema.width >= 1:
        raise Infeasible(
            f"{budget} leaves no information about {schema.width} categories at n = {n:,}; raise epsilon or n"
        )
    if calibrated.protocol.q >= least:
        return calibrated
    return settled(request, Protocol(least, k, 0, release), budget, trust=trust)


def smallest(
    request: Request, make: Callable[[float], Protocol], budget: Budget, *, guess: float, top: float, relative: float
) -> Calibrated:
    """Return the protocol of the smallest parameter of ``make``, within ``relative``, that meets the budget."""
    goal = math.log(budget.delta) - 2 * MARGIN  # the margin by which the final account raises its figure

    def excess(x: float) -> float:
        analysis = curve(make(x), request.schema, request.n, honest_fraction=request.honest_fraction)
        return analysis.upper(budget.epsilon) - goal

    parameter = falling_root(excess, guess, top, relative=relative, bend=gaussian_tail(goal))[1]
    if math.isinf(parameter):
        raise Infeasible(f"{make(top)} does not meet {budget} at n = {request.n:,}; raise epsilon, delta or n")
    return settled(request, make(parameter), budget)


def settled(
    request: Request, protocol: Protocol, budget: Budget, *, trust: TrustModel = "shuffler-noise"
) -> Calibrated:
    """Return the protocol with its guarantee, or raise Infeasible if it does not meet the budget."""
    schema, n, share = request.schema, request.n, request.honest_fraction
    guarantee = account(protocol, schema, n, epsilon=budget.epsilon, honest_fraction=share, trust=trust)
    if not guarantee.meets(budget):
        raise Infeasible(f"{protocol} gives {guarantee}, which does not meet {budget}; raise epsilon, delta or n")
    return Calibrated(protocol, request.n, guarantee)


def composed(request: Request, attempt: Attempt, *, trust: TrustModel) -> Calibrated:
    """Return the protocol of one round such that the ledger of all rounds meets the budget.

    Starts where Gaussian mechanisms would compose, with half of δ kept for the composition itself, and scales the ε of
    one round by what the ledger leaves or lacks.
    """
    budget, rounds, schema, n, share = (
        request.budget,
        request.rounds,
        request.schema,
        request.n,
        request.honest_fraction,
    )
    if rounds == 1:
        return attempt(budget)
    if budget.delta == 0:
        return attempt(Budget(budget.epsilon / rounds, 0.0))
    delta = budget.delta / (2 * rounds)
    signal = math.sqrt(request.signal)
    epsilon = least_real(lambda e: gaussian_delta(signal, e) <= delta, 0.0, 700.0, relative=1e-3)
    best, spent = None, math.inf
    for _ in range(COMPOSITION_STEPS):
        trial = attempt(Budget(epsilon, delta))
        ledger = Ledger().charge(trial.protocol, schema, n, rounds=rounds, honest_fraction=share, trust=trust)
        spent = ledger.epsilon(budget.delta)
        if spent <= budget.epsilon:
            best = trial
            if spent >= MIN_BUDGET_USE * budget.epsilon:
                break
        if spent < 0.4975 * budget.epsilon:  # also if δ covers everything, and ε = 0 remains
            epsilon *= 2.0
        else:
            epsilon *= 0.995 * budget.epsilon / spent if math.isfinite(spent) else 0.5
    if best is None:
        raise Infeasible(
            f"{rounds} rounds spend ε = {spent:.4g}, more than {budget} allows; raise epsilon or plan fewer rounds"
        )
    return best


def constrained(request: Request, calibrated: Calibrated) -> Plan:
    """Return the plan, or raise Infeasible naming the constraint that it violates and the value it would need."""
    protocol, guarantee, schema, n = calibrated.protocol, calibrated.guarantee, request.schema, request.n
    stderr, share = predicted_stderr(schema, protocol, n), request.honest_fraction
    plan = Plan(schema=schema, n=n, protocol=protocol, guarantee=guarantee, stderr=stderr, honest_fraction=share)
    flip = protocol.q * (schema.width - 1) if protocol.sends_category else protocol.q
    if flip < request.min_q * (1 - 1e-12):
        raise Infeasible(f"its flip probability is {flip:.4g}; set min_q to at most that to allow it")
    if math.isfinite(request.max_messages) or math.isfinite(request.max_bytes):
        _check_cost(request, plan)
    return plan


def _check_cost(request: Request, plan: Plan) -> None:
    sent = cost(plan)
    if sent.messages is None or sent.bytes is None:
        raise Infeasible(f"the services do not offer it, so no limit on the upload applies to it: {sent.not_offered}")
    if sent.messages > request.max_messages:
        raise Infeasible(f"it sends {sent.messages:,} messages per user; raise max_messages to that to allow it")
    if sent.bytes > request.max_bytes:
        raise Infeasible(f"it sends {sent.bytes:,} bytes per user; raise max_bytes to that to allow it")
