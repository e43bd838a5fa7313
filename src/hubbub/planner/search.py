"""``frontier`` and ``plan``: the best plans for one request; ``smallest_n`` and ``best_epsilon``: the inverse."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Unpack

from hubbub.errors import OPEN_UNIT, POSITIVE, Infeasible, check_choice, check_delta, check_real, reject
from hubbub.model.plans import MAX_PEOPLE, Plan
from hubbub.model.privacy import Budget, TrustModel
from hubbub.model.schema import Schema
from hubbub.numeric.inversion import falling_root
from hubbub.planner.baselines import central_stderr
from hubbub.planner.comparison import FamilyPlan, compare, one_by_one, proposed
from hubbub.planner.deadlines import deadline_of
from hubbub.planner.families import FAMILIES
from hubbub.planner.margins import laplace_factor, overall_margin
from hubbub.planner.precision import LEVEL, Goal, given_goal, percent, relative_error, sampling_error
from hubbub.planner.request import MAX_EPSILON, Constraints, Limits, Request, given_budget

NEWTON_STEPS = 3
NEGLECTED = 1e-3  # people, or a share of a margin below one person
MORE_EPSILONS = 10  # values of ε that are tried where the margin does not fall all the way


def frontier(
    schema: Schema,
    n: int | tuple[int, int],
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    trust: TrustModel | None = None,
    deadline: float | None = None,
    **limits: Unpack[Limits],
) -> list[Plan]:
    """Return the best plan of each family that meets the budget, grouped by the trust they need.

    The families (:data:`hubbub.planner.FAMILIES`) are local randomization; flipped whole records, in one or up to 32
    copies; split bits; d-ary randomized response; clear or flipped records among fakes drawn by the users or by the
    shuffler. Without ``trust``, all of them, with plans that send records in the clear; with it, those that
    :func:`plan` chooses from. The groups come in the order of trust, least first, and within one trust plans without
    clear records first; the plans of a group in the order of standard error. Families that do not meet the budget and
    the constraints are left out.

    ``n`` may be a range (low, high): all figures are for the smallest batch, and a larger one only adds privacy. The
    budget is an object, or ``epsilon`` and ``delta``. The other keywords are those of
    :class:`~hubbub.planner.request.Limits`. With several ``rounds`` the budget holds for all of them together
    (:class:`hubbub.Ledger`), and the guarantee in a plan is that of one round. Families that are not certified within
    ``deadline`` seconds are left out; :func:`frontier_by_family` tells which.

    >>> for one in frontier(Schema.bits(1), 20_000, epsilon=0.5, delta=1e-6):
    ...     print(one.guarantee.assumptions.trust, one.protocol.clear, round(one.stderr, 1))
    nobody False 279.9
    shuffling False 9.5
    shuffling True 8.2
    shuffler-noise True 2.8
    """
    stop = deadline_of(deadline)
    asked = given_budget(budget, epsilon, delta)
    request = Request.of(schema, n, asked, trust="shuffler-noise" if trust is None else trust, **limits)
    return compare(request, stop=stop).grouped


def frontier_by_family(
    schema: Schema,
    n: int | tuple[int, int],
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    trust: TrustModel | None = None,
    deadline: float | None = None,
    **limits: Unpack[Limits],
) -> Iterator[FamilyPlan]:
    """Return the plans of :func:`frontier` one by one, each as soon as it is certified, and why a family has none.

    The arguments are those of :func:`frontier`. The family with the smallest expected error comes first. Families whose
    plans are not certified within ``deadline`` seconds of this call are ``late``.

    >>> for one in frontier_by_family(Schema.bits(1), 20_000, epsilon=0.5, delta=1e-6):
    ...     print(one.key, one.plan and round(one.plan.stderr, 1))
    clear-shuffler-fakes 2.8
    flip 9.5
    clear-user-fakes 8.2
    local-flip 279.9
    """
    stop = deadline_of(deadline)
    asked = given_budget(budget, epsilon, delta)
    return one_by_one(Request.of(schema, n, asked, trust="shuffler-noise" if trust is None else trust, **limits), stop)


def plan(
    schema: Schema,
    n: int | tuple[int, int],
    budget: Budget | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    family: str | None = None,
    **constraints: Unpack[Constraints],
) -> Plan:
    """Return the plan with the smallest standard error that meets the budget and needs no more than the stated trust.

    A plan that needs fewer honest users is preferred if its error is at most 1.25 times the smallest one
    (:data:`~hubbub.planner.comparison.FEWER_HONEST`); :attr:`Comparison.preference` of :func:`hubbub.planner.compare`
    says so.

    By default the trust is "shuffling": every record is randomized on its device, and the shuffler only mixes. The
    budget is an object, or ``epsilon`` and ``delta``; the other keywords are those of
    :class:`~hubbub.planner.request.Constraints`. Families that cannot win are not certified. ``family`` asks for the
    plan of one family, by its key in :data:`hubbub.planner.FAMILIES`. Raises :class:`Infeasible` if nothing meets the
    budget and the constraints.

    >>> chosen = plan(Schema.one_hot(4), 20_000, epsilon=0.5, delta=1e-6)
    >>> round(chosen.stderr, 2), chosen.guarantee.meets(Budget(0.5, 1e-6)), chosen.protocol.q > 0
    (10.74, True, True)
    >>> round(plan(Schema.one_hot(4), 20_000, Budget(0.5, 1e-6), trust="shuffler-noise").stderr, 2)
    4.89
    """
    request = Request.of(schema, n, given_budget(budget, epsilon, delta), **constraints)
    if family is None:
        return compare(request, prune=True).best
    return compare(request, only=check_choice("family", family, tuple(FAMILIES))).of(family)


def smallest_n(
    schema: Schema,
    budget: Budget | None = None,
    precision: float | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    share: float | None = None,
    within: float | None = None,
    level: float = LEVEL,
    **constraints: Unpack[Constraints],
) -> Plan:
    """Return the plan with the smallest n, within 1 %, at which what :func:`plan` prefers reaches a precision.

    Give ``share`` and ``within``: a label held by this share of the population is measured within this relative error
    with probability ``level``, sampling error included (:func:`hubbub.planner.relative_error`). Or give ``precision``:
    the standard error of the noise is at most this share of n. The other keywords are those of :func:`plan`.

    >>> chosen = smallest_n(Schema.one_hot(4), Budget(1.0, 1e-6), precision=0.001, trust="shuffler-noise")
    >>> chosen.stderr / chosen.n <= 0.001, 2400 < chosen.n < 2500
    (True, True)
    >>> chosen = smallest_n(Schema.bits(1), epsilon=1.0, delta=1e-6, share=0.01, within=0.2)
    >>> relative_error(chosen, 0.01) <= 0.2, 12_000 < chosen.n < 13_000
    (True, True)
    """
    asked = given_budget(budget, epsilon, delta)
    goal = given_goal(share, within, level)
    request = Request.of(schema, 1, asked, **constraints)
    if goal is not None:
        if precision is not None:
            reject("precision", "be omitted if share and within are given")
        needed, ratio = goal.people, lambda one: relative_error(one, goal.share, goal.level) / goal.within
    else:
        if precision is None:
            reject("precision", "be given, or share and within")
        wanted = check_real("precision", precision, OPEN_UNIT)
        needed, ratio = lambda stderr: stderr / wanted, lambda one: one.stderr / one.n / wanted
    search = _Search(lambda n: replace(request, n=max(1, math.floor(n))), ratio)
    noise = central_stderr(schema, asked, request.rounds)
    for _ in range(4):  # the error of the noise depends on n, often little
        guess = min(max(needed(noise), 2.0), MAX_PEOPLE / 10)
        noise = search.expected(guess)
    least = search.least(guess, float(MAX_PEOPLE), relative=0.01)
    if math.isfinite(least):
        return search.plans[least]
    best = search.at(float(MAX_PEOPLE))
    if goal is not None:
        raise Infeasible(
            f"no batch of up to {MAX_PEOPLE:,} people measures {goal} with {asked} for {schema}; at n = "
            f"{MAX_PEOPLE:,} it is within ±{percent(relative_error(best, goal.share, goal.level))}: raise within to "
            "that, or raise epsilon"
        )
    raise Infeasible(
        f"no batch of up to {MAX_PEOPLE:,} people has a standard error of {precision:g} of n with {asked} "
        f"for {schema}; at n = {MAX_PEOPLE:,} it is {best.stderr / best.n:.3g} of n: raise precision to that, or "
        "raise epsilon"
    )


def best_epsilon(
    schema: Schema,
    n: int,
    delta: float,
    stderr: float | None = None,
    *,
    share: float | None = None,
    within: float | None = None,
    level: float = LEVEL,
    **constraints: Unpack[Constraints],
) -> Plan:
    """Return the plan with the smallest ε, within 0.2 %, at which what :func:`plan` prefers reaches a precision.

    Give ``stderr``, the largest standard error of one count in people, or ``share`` and ``within`` as for
    :func:`smallest_n`. The other keywords are those of :func:`plan`.

    >>> chosen = best_epsilon(Schema.one_hot(4), 20_000, 1e-6, stderr=2.43, trust="shuffler-noise")
    >>> chosen.stderr <= 2.43, round(chosen.guarantee.epsilon, 2)
    (True, 1.0)
    """
    delta = check_delta(delta)
    goal = given_goal(share, within, level)
    request = Request.of(schema, n, Budget(0.0, delta), **constraints)
    if goal is not None:
        if stderr is not None:
            reject("stderr", "be omitted if share and within are given")
        _check_sample(goal, request.n)
        wanted, ratio = goal.stderr(request.n), lambda one: relative_error(one, goal.share, goal.level) / goal.within
    else:
        if stderr is None:
            reject("stderr", "be given, or share and within")
        wanted = check_real("stderr", stderr, POSITIVE)
        ratio = lambda one: one.stderr / wanted  # noqa: E731
    search = _Search(lambda e: replace(request, budget=Budget(e, delta)), ratio)
    guess = min(1.01 * math.sqrt(2) * schema.distance / max(wanted, 1e-300), 10.0)
    least = search.least(guess, MAX_EPSILON, relative=0.002)
    if math.isfinite(least):
        return search.plans[least]
    best = search.at(MAX_EPSILON)
    if goal is not None:
        raise Infeasible(
            f"no ε up to {MAX_EPSILON:g} measures {goal} for {schema} at n = {request.n:,}; at ε = {MAX_EPSILON:g} it "
            f"is within ±{percent(relative_error(best, goal.share, goal.level))}: raise within to that, or raise n"
        )
    raise Infeasible(
        f"no ε up to {MAX_EPSILON:g} gives a standard error of {stderr:g} for {schema} at n = {request.n:,}; "
        f"at ε = {MAX_EPSILON:g} it is {best.stderr:.4g}: raise stderr to that, or raise n"
    )


def epsilon_for_margin(
    schema: Schema, n: int, delta: float, people: float, *, lowest: float = 0.0, **constraints: Unpack[Constraints]
) -> float:
    """Return an ε of three digits at which the best plan has a margin of at most ``people``, close to the smallest.

    The margin is :func:`hubbub.planner.margins.overall_margin`. Where it falls all the way, the result is within 1 % of
    the smallest ε. Counts are whole numbers, so that margins of few people fall in steps and may rise a little between
    them: among ten people, the result was up to 8 % above the smallest ε. Over several rounds, plans leave more or less
    of their budget, so that margins rise between them too. The plan for the result is checked; if the margins of all
    rounded values are too large, the result has all its digits.

    A thousandth of a person is neglected: the mean of the shuffler's fakes is not quite whole, because their number is
    not negative. No ε below ``lowest`` is tried: noise of a million people takes minutes to certify, and memory.

    >>> epsilon_for_margin(Schema.one_hot(4), 20_000, 1e-6, 6, trust="shuffler-noise")
    0.816
    """
    wanted = check_real("people", people, POSITIVE)
    request = Request.of(schema, n, Budget(0.0, check_delta(delta)), **constraints)
    most = wanted + NEGLECTED * min(wanted, 1.0)
    search = _Search(lambda e: replace(request, budget=Budget(e, delta)), lambda one: overall_margin(one) / most)
    if lowest and search.expected(lowest) <= most and search.excess(lowest) <= 0:
        return lowest
    guess = max(min(laplace_factor() * math.sqrt(2) * schema.distance / wanted, 10.0), lowest)
    least = search.least(guess, MAX_EPSILON, relative=0.002, bottom=lowest)
    if math.isfinite(least):
        found = search.plans[least]
        spent = max(min(least, found.guarantee.epsilon if found.rounds == 1 else found.total.epsilon), lowest)
        for start, tries in ((spent, MORE_EPSILONS), (least, 1)):
            unit = 10.0 ** (math.floor(math.log10(max(start, 1e-300))) - 2)
            first = math.ceil(start / unit - 1e-9)
            for place in range(first, first + tries):
                epsilon = float(f"{place * unit:.3g}")
                if search.excess(epsilon) <= 0:
                    return epsilon
        return least
    best = search.at(MAX_EPSILON)
    raise Infeasible(
        f"no ε up to {MAX_EPSILON:g} measures a count of {schema} within ±{wanted:g} people at n = {request.n:,}; at "
        f"ε = {MAX_EPSILON:g} it is within ±{overall_margin(best):.4g}: accept that, or raise n"
    )


def _check_sample(goal: Goal, n: int) -> None:
    """Raise :class:`Infeasible` if n people are too few for a goal even without any noise."""
    sampled = sampling_error(goal.share, n, goal.level)
    if sampled > goal.within:
        raise Infeasible(
            f"{n:,} people cannot measure {goal}: the sampling error alone is ±{percent(sampled)}, whatever ε is; "
            f"this needs about {math.ceil(goal.sample_size):,} people"
        )


class _Search:
    """Plans along one parameter, cached so that a search returns a plan that it evaluated."""

    def __init__(self, request: Callable[[float], Request], ratio: Callable[[Plan], float]) -> None:
        self._request, self._ratio = request, ratio
        self.plans: dict[float, Plan] = {}

    def at(self, value: float) -> Plan:
        """Return the best plan at a value, or raise Infeasible."""
        if value not in self.plans:
            self.plans[value] = compare(self._request(value), prune=True).best
        return self.plans[value]

    def expected(self, value: float) -> float:
        """Return about the smallest standard error at a value, without any certificate."""
        proposals, _ = proposed(self._request(value))
        return proposals[0][1].expected if proposals else 1.0

    def known(self, value: float) -> Plan | None:
        """Return the best plan at a value, or None if nothing is feasible."""
        if value not in self.plans:
            found = compare(self._request(value), prune=True)
            if not found.plans:
                return None
            self.plans[value] = found.best
        return self.plans[value]

    def least(self, guess: float, top: float, *, relative: float, bottom: float = 0.0) -> float:
        """Return the smallest value, within ``relative``, at which the target is reached; ∞ if it is not up to ``top``.

        A plan costs up to seconds, so a few steps of Newton's method, by secants on logarithmic scales, come first.
        """
        points: list[tuple[float, float]] = []
        for _ in range(NEWTON_STEPS):
            excess = self.excess(guess)
            if not math.isfinite(excess):
                break
            points.append((math.log(guess), excess))
            if abs(excess) < relative / 2:
                break
            (x, last), (y, new) = points[-2:] if len(points) > 1 else ((0.0, 0.0), points[-1])
            slope = (new - last) / (y - x) if len(points) > 1 and y != x else -1.0
            step = -new / (slope if -2.0 < slope < -0.1 else -1.0)
            guess = min(max(guess * math.exp(min(max(step, -2.0), 2.0)) * (1 + relative / 4), bottom), top)

        def allowed(value: float) -> float:
            return self.excess(value) if value >= bottom else math.inf

        return falling_root(allowed, guess, top, relative=relative, stride=1 + relative / 2)[1]

    def excess(self, value: float) -> float:
        """Return the logarithm of the error relative to the target; +∞ where nothing is feasible."""
        found = self.known(value)
        return math.inf if found is None else math.log(max(self._ratio(found), 1e-300))
