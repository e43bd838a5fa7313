"""``frontier``: every protocol for one question, side by side; ``plan``: the best; and both solved backwards."""

import math
from typing import TypedDict, Unpack

from hubbub.errors import OPEN_UNIT, POSITIVE, Infeasible, TooLarge, check_delta, check_real, check_whole, reject
from hubbub.numeric.inversion import falling_root
from hubbub.planner.baselines import central_stderr
from hubbub.planner.families import Question
from hubbub.plans import Plan
from hubbub.privacy import Budget
from hubbub.schema import Schema

OPTIMISM = 0.8
"""A kind of protocol is not asked for its certificate if even this part of its expected error is more than the best."""


class Limits(TypedDict, total=False):
    """The keywords of :func:`plan`."""

    honest_fraction: float
    shuffler_fakes: bool
    joint: bool
    max_messages: float
    max_bytes: float
    min_q: float
    rounds: int


def frontier(
    schema: Schema,
    n: int | tuple[int, int],
    budget: Budget,
    *,
    honest_fraction: float = 1.0,
    shuffler_fakes: bool = True,
    joint: bool = False,
    max_messages: float = math.inf,
    max_bytes: float = math.inf,
    min_q: float = 0.0,
    rounds: int = 1,
) -> list[Plan]:
    """The best plan of each kind of protocol that meets the budget, by standard error and then by messages.

    Flips that need no shuffler (local); flipped whole records, in one or in up to 32 copies; split bits; d-ary
    randomized response; clear records among fakes drawn by users or, if ``shuffler_fakes`` are allowed, by the
    shuffler; flips and fakes together. What does not meet the budget or the limits is left out.

    ``n`` may be a range (low, high): all figures are those of the smallest crowd, and a larger one only adds privacy.
    ``honest_fraction`` of the users follow the protocol. ``joint`` asks for whole records, as joint tables need them.
    ``max_messages`` and ``max_bytes`` limit what a user is expected to send; ``min_q`` is the least probability of a
    lie, of a bit or of a category, that a policy asks for. The same people are asked in ``rounds``: the budget holds
    for all of them together (:class:`hubbub.accountant.Ledger`), the guarantee in a plan is that of one round.

    >>> for one in frontier(Schema.one_hot(4), 20_000, Budget(0.5, 1e-6), max_messages=1.2)[:2]:
    ...     print(round(one.stderr, 2), round(one.messages, 3), one.guarantee.meets(Budget(0.5, 1e-6)))
    5.64 1.0 True
    10.1 1.027 True
    """
    question = Question(
        schema=schema,
        n=_smallest(n),
        budget=budget,
        honest_fraction=honest_fraction,
        shuffler_fakes=shuffler_fakes,
        joint=joint,
        max_messages=max_messages,
        max_bytes=max_bytes,
        min_q=min_q,
        rounds=rounds,
    )
    return sorted(_answers(question, prune=False)[0], key=_rank)


def plan(
    schema: Schema,
    n: int | tuple[int, int],
    budget: Budget,
    *,
    honest_fraction: float = 1.0,
    shuffler_fakes: bool = True,
    joint: bool = False,
    max_messages: float = math.inf,
    max_bytes: float = math.inf,
    min_q: float = 0.0,
    rounds: int = 1,
) -> Plan:
    """The first of :func:`frontier`, with the same keywords: the smallest standard error that meets the budget.

    Kinds of protocols that cannot win are not calibrated. Raises :class:`Infeasible` if nothing meets the budget.

    >>> chosen = plan(Schema.one_hot(4), 20_000, Budget(0.5, 1e-6))
    >>> round(chosen.stderr, 2), chosen.guarantee.meets(Budget(0.5, 1e-6))
    (5.64, True)
    """
    question = Question(
        schema=schema,
        n=_smallest(n),
        budget=budget,
        honest_fraction=honest_fraction,
        shuffler_fakes=shuffler_fakes,
        joint=joint,
        max_messages=max_messages,
        max_bytes=max_bytes,
        min_q=min_q,
        rounds=rounds,
    )
    found, reasons = _answers(question, prune=True)
    if not found:
        told = reasons[0] if reasons else "the limits leave no protocol"
        raise Infeasible(f"no protocol meets {budget} for {schema} at n = {question.n:,}: {told}")
    return min(found, key=_rank)


def smallest_n(schema: Schema, budget: Budget, precision: float, **limits: Unpack[Limits]) -> Plan:
    """The plan with the least n, within 1 %, whose standard error is at most the share ``precision`` of n.

    Takes the keywords of :func:`plan`.

    >>> chosen = smallest_n(Schema.one_hot(4), Budget(1.0, 1e-6), precision=0.001)
    >>> chosen.stderr / chosen.n <= 0.001, 2700 < chosen.n < 2900
    (True, True)
    """
    precision = check_real("precision", precision, OPEN_UNIT)
    found: dict[int, Plan] = {}

    def excess(n: float) -> float:
        people = max(1, math.floor(n))
        try:
            found[people] = plan(schema, people, budget, **limits)
        except Infeasible:
            return math.inf
        return math.log(found[people].stderr / people / precision)

    guess = min(max(1.01 * central_stderr(schema, budget) / precision, 2.0), 1e9)
    least = falling_root(excess, guess, 1e10, relative=0.01)[1]
    if math.isinf(least):
        raise Infeasible(f"no crowd up to 10¹² has a standard error of {precision:g} of it with {budget} for {schema}")
    return found[max(1, math.floor(least))]


def best_epsilon(schema: Schema, n: int, delta: float, stderr: float, **limits: Unpack[Limits]) -> Plan:
    """The plan with the least ε, within 0.2 %, whose standard error is at most ``stderr``, at this n and δ.

    Takes the keywords of :func:`plan`.

    >>> chosen = best_epsilon(Schema.one_hot(4), 20_000, 1e-6, stderr=2.8)
    >>> chosen.stderr <= 2.8, round(chosen.guarantee.epsilon, 2)
    (True, 1.0)
    """
    delta = check_delta(delta)
    stderr = check_real("stderr", stderr, POSITIVE)
    found: dict[float, Plan] = {}

    def excess(epsilon: float) -> float:
        try:
            found[epsilon] = plan(schema, n, Budget(epsilon, delta), **limits)
        except Infeasible:
            return math.inf
        return math.log(found[epsilon].stderr / stderr)

    guess = min(1.01 * math.sqrt(2) * schema.distance / stderr, 10.0)
    least = falling_root(excess, guess, 50.0, relative=0.002)[1]
    if math.isinf(least):
        raise Infeasible(f"no ε up to 50 gives a standard error of {stderr:g} for {schema} at n = {n:,}")
    return found[least]


def _answers(question: Question, *, prune: bool) -> tuple[list[Plan], list[str]]:
    """Plans of the candidates, and why others have none; if only the best counts, without those that cannot be it."""
    found: list[Plan] = []
    reasons: list[str] = []
    for candidate in question.candidates():
        if prune and found and OPTIMISM * candidate.expected > min(one.stderr for one in found):
            continue
        try:
            found.append(question.answer(candidate))
        except (Infeasible, TooLarge) as reason:
            reasons.append(str(reason))
    return found, reasons


def _smallest(n: int | tuple[int, int]) -> int:
    if not isinstance(n, tuple | list):
        return check_whole("n", n, 1, 10**10)
    if len(n) != 2:
        reject("n", "be a number of people or a range (low, high)", n)
    low, high = (check_whole("n", end, 1, 10**10) for end in n)
    if low > high:
        reject("n", "be a range with low ≤ high", n)
    return low


def _rank(plan: Plan) -> tuple[float, float]:
    return plan.stderr, plan.messages
