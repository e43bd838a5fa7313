"""From a protocol to a plan: no plan leaves the planner without an account that meets the budget.

A certificate costs up to a second, so searches are guided by cheap estimates (the Gaussian limit, an attack) and end
with one account. Every function here works on one :class:`~hubbub.planner.request.Request`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hubbub.accountant import Calibrated, Ledger, curve
from hubbub.accountant.accounting import prove, with_attack
from hubbub.accountant.analysis import MARGIN
from hubbub.accountant.calibration import draft
from hubbub.accountant.charges import Charge
from hubbub.accountant.gaussian_limit import likely_loss
from hubbub.accountant.repeated import round_curve
from hubbub.errors import Infeasible, TooLarge
from hubbub.mechanisms.noise import predicted_stderr
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget, TrustModel
from hubbub.model.protocol import Protocol
from hubbub.model.questions import Column
from hubbub.model.releases import Release
from hubbub.model.schema import Schema
from hubbub.numeric.divergences import gaussian_delta, gaussian_signal
from hubbub.numeric.inversion import falling_root, gaussian_tail, least_real
from hubbub.numeric.rounding import up
from hubbub.planner.costs import cost
from hubbub.planner.deadlines import check_time
from hubbub.planner.influence import client_weight
from hubbub.planner.recompute import with_rounds
from hubbub.planner.request import Request

MIN_BUDGET_USE = 0.97
"""Fraction of the budget that several rounds should use before the search for a larger ε per round ends."""
COMPOSITION_STEPS = 6  # ledgers of one search; half as many more if none has met the budget
AIM = 0.995  # fraction of the budget at which the search for the ε of one round aims by ledgers
LIKELY_AIM, LIKELY_USE = 0.999, (0.9975, 0.9997)  # the same by estimates, and the estimates that a ledger checks
FIRST_AIM = 0.9993  # the same of the first trial, whose estimate is usually confirmed
ESTIMATES = 6  # estimates that may correct the ε of one round before the first ledger
FLAT, LONGEST = 0.5, math.log(2.0)  # slope of the total below which secants reduce the ε of one round; their limit
USUAL = (0.9, 1.1)  # estimates of the first trial by which attempts are compared
NARROW = 1.01  # ratio to the smallest ε that needs no shuffler at which a search for a larger ε per round ends
RIVAL = 1.01  # parameters whose first trial has at most this multiple of the smallest error are searched

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
    schema: Schema | None = None
    """The survey as the family lays it out, if it is one."""
    scaled: Callable[[float], Protocol] | None = None
    """Returns split bits with a multiple of the variances that a Gaussian mechanism would need; None for others."""

    def best(self, request: Request) -> Plan:
        """Return the plan with the smallest error within the constraints, or raise Infeasible with the first reason."""
        if self.schema is not None:
            request = replace(request, schema=self.schema)
        rivals, others = self._ranked(request)
        try:
            plan, found = self._search(request, rivals)
        except (Infeasible, TooLarge):
            if not others:
                raise
            plan, found = self._search(request, others)
        share, schema = request.honest_fraction, request.schema
        whole = with_attack(found.guarantee, found.protocol, schema, honest_fraction=share, trust=self.trust)
        plan = replace(plan, guarantee=whole)
        return with_rounds(plan, request.rounds, request.budget.delta if request.rounds > 1 else None)

    def _search(self, request: Request, attempts: Sequence[Attempt]) -> tuple[Plan, Calibrated]:
        best: tuple[Plan, Calibrated] | None = None
        reason: Exception | None = None
        for attempt in attempts:
            try:
                found = composed(request, attempt, trust=self.trust)
                plan = self.constrained(request, found)
            except (Infeasible, TooLarge) as error:
                reason = reason or error
                continue
            if best is not None and plan.stderr > best[0].stderr:
                break
            best = plan, found
        if best is None:
            assert reason is not None, "a candidate has at least one attempt"
            raise reason
        return best

    def _ranked(self, request: Request) -> tuple[Sequence[Attempt], Sequence[Attempt]]:
        """Return the attempts worth a search, and others to use if all of these fail.

        A search over several rounds costs many times its first trial, whose error tells which attempts are worth it.
        """
        if len(self.attempts) == 1 or request.rounds == 1 or request.budget.delta == 0:
            return self.attempts, ()
        start = first_budget(request)
        errors: dict[int, float] = {}
        known: list[Attempt] = list(self.attempts)
        for i, attempt in enumerate(self.attempts):
            try:
                trial = attempt(start)
            except (Infeasible, TooLarge):
                continue
            known[i] = _remembered(attempt, start, trial)
            errors[i] = predicted_stderr(request.schema, trial.protocol, request.n)
            if errors[i] > RIVAL * min(errors.values()):
                break
        if not errors:
            return known, ()
        least = min(errors, key=lambda i: errors[i])
        likely = _likely_total(request, known[least](start), self.trust)
        if likely is None or not USUAL[0] < likely / request.budget.epsilon < USUAL[1]:
            return known, ()  # the search ends far from its first trial
        limit = RIVAL * errors[least]
        rivals = [i for i, error in errors.items() if error <= limit]
        return [known[i] for i in rivals], [known[i] for i in range(len(known)) if i not in rivals]

    def constrained(self, request: Request, found: Calibrated) -> Plan:
        """Return the plan, or raise Infeasible naming the constraint that it violates and the value it would need.

        Protocols whose guarantee does not rest on the shuffler belong to the local families.
        """
        if self.trust != "nobody" and not found.guarantee.assumptions.shuffler:
            raise Infeasible("shuffling adds nothing to the flips, which meet the budget locally; raise n")
        return constrained(request, found)


def flipped(
    request: Request, budget: Budget, k: int = 1, release: Release = "records", *, trust: TrustModel = "shuffler-noise"
) -> Calibrated:
    """Return flips with the smallest q that meets the budget, or with the larger q that a policy requires."""
    check_time()
    schema, n = request.schema, request.n
    calibrated = draft(schema, n, budget, k=k, release=release, honest_fraction=request.honest_fraction, trust=trust)
    category = calibrated.protocol.sends_category
    least = request.required_flip(k, release)
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
        check_time()
        analysis = curve(make(x), request.schema, request.n, honest_fraction=request.honest_fraction)
        return analysis.upper(budget.epsilon) - goal

    parameter = falling_root(excess, guess, top, relative=relative, bend=gaussian_tail(goal))[1]
    if math.isinf(parameter):
        raise Infeasible(f"even the largest noise tried does not meet {_terms(request, budget)}")
    return settled(request, make(parameter), budget)


def settled(
    request: Request, protocol: Protocol, budget: Budget, *, trust: TrustModel = "shuffler-noise"
) -> Calibrated:
    """Return the protocol with its guarantee, or raise Infeasible if it does not meet the budget."""
    check_time()
    schema, n, share = request.schema, request.n, request.honest_fraction
    guarantee = prove(protocol, schema, n, epsilon=budget.epsilon, honest_fraction=share, trust=trust)
    if not guarantee.meets(budget):
        figures = f"({guarantee.epsilon:.6g}, {guarantee.delta:.3g})-DP"
        raise Infeasible(f"its noise gives {figures}, which does not meet {_terms(request, budget)}")
    return Calibrated(protocol, request.n, guarantee)


def _terms(request: Request, budget: Budget) -> str:
    return f"ε = {budget.epsilon:.6g} and δ = {budget.delta:.3g} with {request.n:,} people; more people may help"


def first_budget(request: Request) -> Budget:
    """Return the budget of one round if Gaussian mechanisms compose, with half of δ kept for the composition itself."""
    budget, rounds = request.budget, request.rounds
    if rounds == 1 or budget.delta == 0:
        return Budget(budget.epsilon / rounds, budget.delta)
    delta, signal = budget.delta / (2 * rounds), math.sqrt(request.signal)
    epsilon = least_real(lambda e: gaussian_delta(signal, e) <= delta, 0.0, 700.0, relative=1e-6)
    return Budget(FIRST_AIM * epsilon, delta)


@dataclass(slots=True)
class _Uses:
    """The closest ε of one round on both sides of the budget, with the share of it that all rounds use.

    >>> uses = _Uses()
    >>> uses.add(1.0, 0.9)
    >>> uses.add(1.1, 1.1)
    >>> uses.closed, round(uses.between(1.0), 4), round(uses.middle, 4)
    (True, 1.0513, 1.0488)
    """

    low: tuple[float, float] = (0.0, 0.0)
    high: tuple[float, float] = (math.inf, math.inf)
    local: float = math.inf
    """The smallest known ε of one round that needs no shuffler: the plan of a larger one belongs to another family."""
    known: list[tuple[float, float]] = field(default_factory=list)

    def add(self, epsilon: float, use: float) -> None:
        """Note the use of the budget for an ε of one round."""
        self.known.append((epsilon, use))
        if use <= 1.0:
            self.low = max(self.low, (epsilon, use))
        else:
            self.high = min(self.high, (epsilon, use))

    @property
    def closed(self) -> bool:
        """True if an ε below and one above the budget are known."""
        return 0.0 < self.low[0] < self.high[0] < math.inf

    @property
    def narrow(self) -> bool:
        """True if an ε below the budget is close to one that needs no shuffler."""
        return self.local < NARROW * self.low[0]

    @property
    def middle(self) -> float:
        """The middle of the two, on a logarithmic scale."""
        return math.sqrt(self.low[0] * self.high[0])

    def between(self, aim: float) -> float:
        """Return the ε that uses about the share ``aim``, if that grows like a power of it; not close to either end."""
        (start, first), (end, last) = self.low, self.high
        share = math.log(aim / first) / math.log(last / first) if first > 0.0 and math.isfinite(last) else 0.5
        return start * math.exp(min(max(share, 0.1), 0.9) * math.log(end / start))

    def beyond(self) -> float:
        """Return the ε to try if all known ones are on one side of the budget.

        It is the last one times what is left of the budget or lacking. If the total barely reacts to that, the step
        that reduces it is a secant's, and longer each time. It stays below the ε that needs no shuffler.

        >>> uses = _Uses()
        >>> uses.add(2.1553, 1.0038)
        >>> round(uses.beyond(), 4)
        2.145
        >>> uses.add(2.145, 1.0031)
        >>> round(uses.beyond(), 3)
        2.086
        """
        epsilon, use = self.known[-1]
        step = math.log(_correction(use))
        if len(self.known) > 1 and 1.0 < use < math.inf:
            before, first = self.known[-2]
            slope = math.log(use / first) / math.log(epsilon / before) if epsilon < before else 1.0
            if 0.0 < slope < FLAT:
                step = min(step, max(step * max(1 / slope, 2.0 ** (len(self.known) - 2)), -LONGEST))
        found = epsilon * math.exp(step)
        return found if found < self.local else math.sqrt(epsilon * self.local)


def composed(request: Request, attempt: Attempt, *, trust: TrustModel) -> Calibrated:
    """Return the protocol of one round such that the ledger of all rounds meets the budget.

    Scales the ε of one round by what is left of the budget or lacking: first by estimates, which take few points of a
    curve, then by ledgers. Only a ledger accepts a protocol.
    """
    budget, rounds, start = request.budget, request.rounds, first_budget(request)
    if rounds == 1 or budget.delta == 0:
        return attempt(start)
    epsilon, delta = start.epsilon, start.delta
    best, last, spent = None, None, math.inf
    uses, likely_uses = _Uses(), _Uses()
    shuffled, estimates = 0.0, ESTIMATES
    checked: dict[Protocol, float] = {}
    for _ in range(4 * COMPOSITION_STEPS):
        check_time()
        trial = attempt(Budget(epsilon, delta))
        local = trust != "nobody" and not trial.guarantee.assumptions.shuffler
        if local and shuffled > 0.0:
            uses.local = min(uses.local, epsilon)
            epsilon, estimates = math.sqrt(shuffled * epsilon), 0
            if uses.narrow:
                break
            continue
        shuffled = 0.0 if local else epsilon
        likely = _likely_total(request, trial, trust) if estimates and trial.protocol != last else None
        last = trial.protocol
        if likely is not None and not LIKELY_USE[0] < likely / budget.epsilon < LIKELY_USE[1]:
            estimates -= 1
            use = max(likely / budget.epsilon, math.ulp(0.0))
            likely_uses.add(epsilon, use)
            epsilon = likely_uses.between(LIKELY_AIM) if likely_uses.closed else epsilon * min(LIKELY_AIM / use, 4.0)
            continue
        estimates = 0
        same = best is not None and trial.protocol == best.protocol  # a larger ε of one round changes nothing
        most = COMPOSITION_STEPS if best is not None else 3 * COMPOSITION_STEPS // 2
        if same or (trial.protocol not in checked and len(checked) >= most):
            break
        if trial.protocol not in checked:
            checked[trial.protocol] = _total(request, trial)
        spent = checked[trial.protocol]
        use = spent / budget.epsilon
        if local and use > 1.0:  # the total of shuffled rounds is far smaller
            uses.local, epsilon = epsilon, epsilon * math.sqrt(_correction(use))
            continue
        uses.add(epsilon, use)
        best = trial if use <= 1.0 else best
        if MIN_BUDGET_USE <= use <= 1.0 or uses.narrow:
            break
        epsilon = uses.beyond()
        if uses.closed:  # a total that jumps needs bisection
            epsilon = uses.between(AIM) if len(checked) % 2 == 0 else uses.middle
    if best is None:
        raise Infeasible(
            f"{rounds} rounds spend ε = {spent:.4g}, more than {budget} allows; raise epsilon or plan fewer rounds"
        )
    return best


def _correction(use: float) -> float:
    """Return the factor by which to change the ε of one round if all rounds use this multiple of the budget."""
    if use < AIM / 2:  # also if δ covers everything, and ε = 0 remains
        return 2.0
    aim = LIKELY_AIM if use < 1.01 else AIM
    return aim / use if math.isfinite(use) else 0.5


def _total(request: Request, trial: Calibrated) -> float:
    """Return the certified ε of all rounds under the assumptions of the trial's guarantee, as a plan claims it."""
    share, rounds = request.honest_fraction, request.rounds
    points = round_curve(trial.protocol, request.schema, request.n, share, trial.guarantee, rounds)
    spent = Ledger((Charge(name="", rounds=rounds, curve=points),)).epsilon(request.budget.delta)
    return up(spent, 2 * MARGIN) if spent > 0.0 else spent


def _likely_total(request: Request, trial: Calibrated, trust: TrustModel) -> float | None:
    """Return about the ε of all rounds, or None if the curve of one is not like that of a Gaussian mechanism."""
    share = request.honest_fraction
    analysis = curve(trial.protocol, request.schema, request.n, honest_fraction=share, trust=trust)
    signal = gaussian_signal(trial.guarantee.epsilon, trial.guarantee.delta) if trial.guarantee.delta > 0 else 0.0
    if not 0.0 < signal < 1.0:
        return None
    total = likely_loss(analysis.delta, signal, request.rounds)
    likely = math.inf if total is None else total.epsilon(request.budget.delta)
    return likely if math.isfinite(likely) else None


def _remembered(attempt: Attempt, budget: Budget, trial: Calibrated) -> Attempt:
    """Return an attempt that returns a known trial instead of repeating it."""
    return lambda given: trial if given == budget else attempt(given)


def constrained(request: Request, calibrated: Calibrated) -> Plan:
    """Return the plan, or raise Infeasible naming the constraint that it violates and the value it would need."""
    protocol, guarantee, schema, n = calibrated.protocol, calibrated.guarantee, request.schema, request.n
    stderr, share = predicted_stderr(schema, protocol, n), request.honest_fraction
    plan = Plan(schema=schema, n=n, protocol=protocol, guarantee=guarantee, stderr=stderr, honest_fraction=share)
    flip = min(
        noise.q * (one.size - 1) if protocol.sends_category else noise.q
        for one, noise in zip(schema.attributes or (Column("", 0, 2),), protocol.noise, strict=True)
    )
    if flip < request.min_q * (1 - 1e-12):
        raise Infeasible(f"its flip probability is {flip:.4g}; set min_q to at most that to allow it")
    if math.isfinite(request.max_messages) or math.isfinite(request.max_bytes):
        _check_cost(request, plan)
    if math.isfinite(request.max_client_weight) and (weight := client_weight(plan)) > request.max_client_weight:
        raise Infeasible(
            f"one device counts for up to {weight:.4g} people; raise max_client_weight to that to allow it"
        )
    return plan


def _check_cost(request: Request, plan: Plan) -> None:
    sent = cost(plan)
    if sent.messages is None or sent.bytes is None:
        raise Infeasible(f"the services do not offer it, so no limit on the upload applies to it: {sent.not_offered}")
    if sent.messages > request.max_messages:
        raise Infeasible(f"it sends {sent.messages:,} messages per user; raise max_messages to that to allow it")
    if sent.bytes > request.max_bytes:
        raise Infeasible(f"it sends {sent.bytes:,} bytes per user; raise max_bytes to that to allow it")
