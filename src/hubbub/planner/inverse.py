"""``solve``: the inverse of ``plan``, the smallest number of people, or the smallest ε, that reaches a precision."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Unpack

from hubbub.errors import OPEN_UNIT, POSITIVE, Infeasible, check_delta, check_real, reject
from hubbub.model.plans import MAX_PEOPLE, Plan
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema
from hubbub.numeric.inversion import falling_root
from hubbub.planner.baselines import central_stderr
from hubbub.planner.margins import laplace_factor, overall_margin
from hubbub.planner.precision import LEVEL, Goal, given_goal, percent, relative_error, sampling_error
from hubbub.planner.request import MAX_EPSILON, Constraints, Request
from hubbub.planner.search import Search, proposed

NEWTON_STEPS = 3
NEGLECTED = 1e-3  # people, or a share of a margin below one person
MORE_EPSILONS = 10  # values of ε that are tried where the margin does not fall all the way


def solve(
    schema: Schema,
    n: int | tuple[int, int] | None = None,
    *,
    epsilon: float | None = None,
    delta: float,
    share: float | None = None,
    within: float | None = None,
    margin: float | None = None,
    points: float | None = None,
    stderr: float | None = None,
    precision: float | None = None,
    level: float = LEVEL,
    **constraints: Unpack[Constraints],
) -> Plan:
    """Return the plan with the smallest n, or the smallest ε, at which a plan is precise enough.

    Give ``n`` to find ε, within 0.2 %, or ``epsilon`` to find n, within 1 %; and one of these goals:

    - ``share`` and ``within``: a label held by this share of the population is measured within this relative error,
      sampling error included (:func:`hubbub.planner.relative_error`);
    - ``points``: the margin of a count is at most this share of n, such as 0.005 for ±0.5 percentage points;
    - ``precision``: the standard error of a count is at most this share of n;
    - ``margin`` or ``stderr``: the same in people, to find ε.

    Margins and relative errors hold with probability ``level``. The other keywords are those of :func:`hubbub.plan`.
    Raises :class:`Infeasible`, with the precision that can be had, if no n or no ε reaches the goal.

    Counts are whole numbers, so that margins of few people fall in steps and may rise a little between them: among ten
    people, the result was up to 8 % above the smallest ε. For a ``margin`` ε has three digits if such a value meets it.

    >>> chosen = solve(Schema.bits(1), epsilon=1.0, delta=1e-6, share=0.01, within=0.2)
    >>> relative_error(chosen, 0.01) <= 0.2, 12_000 < chosen.n < 13_000
    (True, True)
    >>> chosen = solve(Schema.one_hot(4), epsilon=1.0, delta=1e-6, points=0.005, trust="shuffler-noise")
    >>> 900 < chosen.n < 1100
    True
    >>> chosen = solve(Schema.one_hot(4), 20_000, delta=1e-6, stderr=2.43, trust="shuffler-noise")
    >>> chosen.stderr <= 2.43, round(chosen.guarantee.epsilon, 2)
    (True, 1.0)
    """
    delta = check_delta(delta) if epsilon is None else delta
    budget = Budget(0.0 if epsilon is None else epsilon, delta)
    request = Request.of(schema, 1 if n is None else n, budget, **constraints)
    if (n is None) == (epsilon is None):
        reject("n or epsilon", "be given, and the other one omitted: it is found")
    goal = given_goal(share, within, level)
    given = {"margin": margin, "points": points, "stderr": stderr, "precision": precision}
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) + (goal is not None) != 1:
        reject("one goal", f"be given: share and within, {', '.join(list(given)[:-1])} or {list(given)[-1]}")
    target = Target.measured(goal) if goal is not None else Target.of(*named[0], level)
    if n is None:
        return _least_people(request, target)
    if goal is not None:
        _check_sample(goal, request.n)
    return least_epsilon(request, target)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure of a plan, and the value that it must not exceed."""

    name: str
    """The argument that sets the value."""
    most: float
    text: str
    """The predicate of a plan that reaches it, for messages."""
    figure: Callable[[Plan], float]
    spell: Callable[[float], str]
    people: Callable[[float], float] | None
    """About the number of people that it needs for a standard error of the noise; None for a number of people."""
    stderr: Callable[[int], float]
    """About the largest standard error of the noise of n people that reaches it."""

    @classmethod
    def measured(cls, goal: Goal) -> "Target":
        """Return the target of a relative error."""
        return cls(
            name="within",
            most=goal.within,
            text=f"measures {goal}",
            figure=lambda one: relative_error(one, goal.share, goal.level),
            spell=lambda value: f"within ±{percent(value)}",
            people=goal.people,
            stderr=goal.stderr,
        )

    @classmethod
    def of(cls, name: str, value: float, level: float = LEVEL) -> "Target":
        """Return the target of a margin or a standard error, in people or as a share of n.

        A thousandth of a person is neglected in margins of people: the mean of the shuffler's fakes is not quite whole,
        because their number is not negative.
        """
        shares, margins = name in ("points", "precision"), name in ("margin", "points")
        wanted = check_real(name, value, OPEN_UNIT if shares else POSITIVE)
        factor = laplace_factor(level) if margins else 1.0
        told = {
            "margin": f"measures a count within ±{wanted:g} people",
            "points": f"measures a count within ±{100 * wanted:g} percentage points",
            "stderr": f"has a standard error of {wanted:g} people",
            "precision": f"has a standard error of {wanted:g} of n",
        }

        def figure(one: Plan) -> float:
            return (overall_margin(one, level) if margins else one.stderr) / (one.n if shares else 1)

        def spell(found: float) -> str:
            return f"{'within ±' if margins else ''}{found:.4g}{' of n' if shares else ' people'}"

        return cls(
            name=name,
            most=wanted + (NEGLECTED * min(wanted, 1.0) if name == "margin" else 0.0),
            text=told[name],
            figure=figure,
            spell=spell,
            people=(lambda stderr: factor * stderr / wanted) if shares else None,
            stderr=lambda n: wanted * (n if shares else 1) / factor,
        )

    def missed(self, found: Plan) -> str:
        """Return what a plan that misses the target reaches, and the advice to accept that."""
        return f"it is {self.spell(self.figure(found))}: raise {self.name} to that"


def _least_people(request: Request, target: Target) -> Plan:
    """Return the plan with the smallest n, within 1 %, that reaches a target."""
    if target.people is None:
        other = "points" if target.name == "margin" else "precision"
        reject(target.name, f"be given with a number of people; to find that, {other} takes a share of it instead")
    line = _Line(lambda n: replace(request, n=max(1, math.floor(n))), target)
    noise = central_stderr(request.schema, request.budget, request.rounds)
    for _ in range(4):  # the error of the noise depends on n, often little
        guess = min(max(target.people(noise), 2.0), MAX_PEOPLE / 10)
        noise = line.expected(guess)
    least = line.least(guess, float(MAX_PEOPLE), relative=0.01)
    if math.isfinite(least):
        return line.plans[least]
    raise Infeasible(
        f"no batch of up to {MAX_PEOPLE:,} people {target.text} with {request.budget} for {request.schema}; at n = "
        f"{MAX_PEOPLE:,} {target.missed(line.at(float(MAX_PEOPLE)))}, or raise epsilon"
    )


def least_epsilon(request: Request, target: Target, lowest: float = 0.0) -> tuple[float, Plan]:
    """Return the smallest ε, within 0.2 %, at which a target is reached, and its plan.

    For a margin of people it is one of three digits that was checked, close to the smallest; if the margins of all
    rounded values are too large, the result has all its digits. Over several rounds, plans leave more or less of their
    budget, so that margins rise between them too. No ε below ``lowest`` is tried: noise of a million people takes
    minutes to certify, and memory.

    >>> asked = Request.of(Schema.one_hot(4), 20_000, Budget(0.0, 1e-6), trust="shuffler-noise")
    >>> least_epsilon(asked, Target.of("margin", 6))[0]
    0.816
    """
    delta, wanted = request.budget.delta, target.stderr(request.n)
    line = _Line(lambda e: replace(request, budget=Budget(e, delta)), target)
    if lowest and line.expected(lowest) <= laplace_factor() * wanted and line.excess(lowest) <= 0:
        return lowest, line.plans[lowest]
    central = math.sqrt(2) * request.schema.distance / max(wanted, 1e-300)
    guess = max(min(central if target.name == "margin" else 1.01 * central, 10.0), lowest)
    least = line.least(guess, MAX_EPSILON, relative=0.002, bottom=lowest)
    if math.isinf(least):
        raise Infeasible(
            f"no ε up to {MAX_EPSILON:g} {target.text} for {request.schema} at n = {request.n:,}; at ε = "
            f"{MAX_EPSILON:g} {target.missed(line.at(MAX_EPSILON))}, or raise n"
        )
    if target.name == "margin":
        least = _rounded(line, least, lowest)
    return least, line.plans[least]


def _rounded(line: "_Line", least: float, lowest: float) -> float:
    """Return an ε of three digits that reaches the target of a line, or the given one that does."""
    found = line.plans[least]
    spent = max(min(least, found.guarantee.epsilon if found.rounds == 1 else found.total.epsilon), lowest)
    for start, tries in ((spent, MORE_EPSILONS), (least, 1)):
        unit = 10.0 ** (math.floor(math.log10(max(start, 1e-300))) - 2)
        first = math.ceil(start / unit - 1e-9)
        for place in range(first, first + tries):
            epsilon = float(f"{place * unit:.3g}")
            if line.excess(epsilon) <= 0:
                return epsilon
    return least


def _check_sample(goal: Goal, n: int) -> None:
    """Raise :class:`Infeasible` if n people are too few for a goal even without any noise."""
    sampled = sampling_error(goal.share, n, goal.level)
    if sampled > goal.within:
        raise Infeasible(
            f"{n:,} people cannot measure {goal}: the sampling error alone is ±{percent(sampled)}, whatever ε is; "
            f"this needs about {math.ceil(goal.sample_size):,} people"
        )


class _Line:
    """Plans along one parameter, cached so that a result is a plan that was evaluated."""

    def __init__(self, request: Callable[[float], Request], target: Target) -> None:
        self._request, self._target = request, target
        self.plans: dict[float, Plan] = {}

    def at(self, value: float) -> Plan:
        """Return the best plan at a value, or raise Infeasible."""
        if value not in self.plans:
            self.plans[value] = Search.of(self._request(value), prune=True).best
        return self.plans[value]

    def expected(self, value: float) -> float:
        """Return about the smallest standard error at a value, without any certificate."""
        proposals, _ = proposed(self._request(value))
        return proposals[0][1].expected if proposals else 1.0

    def known(self, value: float) -> Plan | None:
        """Return the best plan at a value, or None if nothing is feasible."""
        if value not in self.plans:
            found = Search.of(self._request(value), prune=True)
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
        return math.inf if found is None else math.log(max(self._target.figure(found) / self._target.most, 1e-300))
