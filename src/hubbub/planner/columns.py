"""The columns of a schema: the noise that a budget leaves for each of them, and the search for its common scale.

A survey has a column for each of its attributes, laid out and weighed by the closed forms; every other schema is one
column. One column has one parameter, which the accountant's own search finds (:func:`hubbub.calibrate`); the noise of
several columns is scaled together (:func:`scaled`).
"""

import functools
import math
from collections.abc import Callable
from dataclasses import replace

from hubbub.accountant import Calibrated, curve
from hubbub.accountant.analysis import MARGIN, Analysis
from hubbub.errors import Infeasible
from hubbub.mechanisms.design import effects
from hubbub.mechanisms.errors import answer_variances, rms_error
from hubbub.mechanisms.noise import predicted_stderr
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.model.protocol import GRID, Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema
from hubbub.numeric.divergences import gaussian_signal
from hubbub.planner.allocation import gaussian_shares, laplace_shares
from hubbub.planner.certify import Attempt, settled, smallest
from hubbub.planner.deadlines import check_time
from hubbub.planner.layouts import laid_out
from hubbub.planner.request import Request

PRECISE = 4e-3  # relative width within which the accountant finds the common factor of all variances
TRIALS = 6  # certificates from which the factor follows as for a Gaussian mechanism
STRIDE = 3.0  # largest factor by which one of them changes it
ATTACKS, NEAR = 2, 0.05  # attacks that correct the first factor, and the last change after which no more is needed
LIKELY = (-300.0, math.log(0.5))  # ln δ between which a loss is compared with that of a Gaussian mechanism


def allocated(request: Request) -> tuple[Request, list[float]]:
    """Return the request laid out for Gaussian noise and its likes, and s², the variance of a count, of every column.

    >>> from hubbub.model.questions import Flag
    >>> asked = Request.of(Schema.survey({"a": Flag(), "b": Flag()}), 1000, Budget(1.0, 1e-6))
    >>> [round(one * asked.signal, 9) for one in allocated(asked)[1]]
    [4.0, 4.0]
    """
    schema = request.schema
    # Without δ only local noise is left, whose precision grows with ε² as well.
    signal = (request.signal if request.budget.delta else request.budget.epsilon**2 / request.rounds) or 1e-12
    if not schema.named:
        return request, [schema.distance / signal]
    weights = _weights(request)
    chosen = laid_out(schema, "gaussian", weights, request.n, signal / 2, request.max_messages)
    return replace(request, schema=chosen), [2 / signal / share for share in _shares(chosen, tuple(weights.items()))]


def laplace_allocated(request: Request) -> tuple[Request, tuple[float, ...]]:
    """Return the request of a survey laid out for Laplace noise, and the share of ε of every column."""
    weights = _weights(request)
    precision = request.budget.epsilon**2 / 8 / request.rounds**2  # of one column alone: 1/(2b²), b = 2/ε
    schema = laid_out(request.schema, "laplace", weights, request.n, precision, request.max_messages)
    return replace(request, schema=schema), _shares(schema, tuple(weights.items()), laplace=True)


def sizes(schema: Schema) -> list[int]:
    """Return the number of categories of each column; 2 for bits that anybody may set, as for a yes or no.

    >>> sizes(Schema.one_hot(4)), sizes(Schema.bits(4))
    ([4], [2])
    """
    return [one.size for one in schema.attributes] or [2]


def expected_error(request: Request, protocol: Protocol) -> float:
    """Return the error by which families compare, for the data that make it largest: each question by its weight."""
    if not request.schema.named:
        return predicted_stderr(request.schema, protocol, request.n)
    return weighed_error(request, answer_variances(request.schema, protocol, request.n))


def weighed_error(request: Request, variances: list[float]) -> float:
    """Return the error of a survey if the counts of its columns have these variances."""
    return rms_error(request.schema, variances, request.n, _weights(request))


def plan_error(request: Request, plan: Plan) -> float:
    """Return the error of a plan by which families compare; without weights, that is its standard error."""
    return expected_error(replace(request, schema=plan.schema), plan.protocol) if request.weights else plan.stderr


def local_flip(epsilon: float, size: int) -> float:
    """Return the flip probability of randomized response without a shuffler: 1/(e^ε + d − 1).

    >>> round(local_flip(1.0, 2), 4)
    0.2689
    """
    return 1 / (math.exp(min(epsilon, 600.0)) + size - 1)


def flip_for(variance: float, size: int, people: float, *, category: bool) -> float:
    """Return the flip probability by which the counts of one column have s² as their variance."""
    if not category or size == 2:
        part = variance / 2 if category else variance
        return 0.5 * (1 - math.sqrt(people / (people + 4 * part)))
    middle = 2 * variance * size + people
    return 2 * variance / (middle + math.sqrt(middle**2 - 4 * (variance * size) ** 2))


def at_least(q: float, request: Request, size: int, release: Release = "category") -> float:
    """Return a flip probability that also meets ``min_q`` and an equal share of ``max_collusion_epsilon``.

    Raises :class:`Infeasible` if it leaves no information about one answer.
    """
    category = release == "category"
    least = request.min_q / (size - 1) if category else request.min_q
    if math.isfinite(request.max_collusion_epsilon):
        share = request.max_collusion_epsilon / request.rounds / len(sizes(request.schema)) * (1 - 1e-12)
        least = max(least, local_flip(share, size) if category else local_flip(share / 2, 2))
    found = max(q, least, 1 / GRID)
    if found * (size if category else 2) >= 1 - 1e-12:  # the grid of flip probabilities may round it up
        raise Infeasible(f"flips leave no information about an attribute of {size:,} categories; raise epsilon or n")
    return found


def check_messages(request: Request, *, more: bool) -> None:
    """Raise Infeasible if a user sends too many messages: one for each column, or ``more``, if fakes are added."""
    count = len(sizes(request.schema))
    if count > 1 and count + more > request.max_messages:  # that of one column is known once it has a plan
        number = f"more than {count:,}" if more else f"{count:,}"
        raise Infeasible(f"it sends {number} messages per user; raise max_messages to allow it")


def scaled(
    request: Request, make: Callable[[float], Protocol], excess: float = 0.0, *, precise: float = PRECISE
) -> Attempt:
    """Return the attempt that finds the smallest common factor of all variances that meets a budget.

    A certificate with users' noise costs a good part of a second. The loss of a survey is nearly that of a Gaussian
    mechanism, whose signal μ falls with the root of the factor: each certificate gives μ, hence the next factor, and
    two or three of them suffice. Where the attack is known, the first factor is that at which it meets the budget,
    with the usual ``excess`` of a certificate. Where this fails, as for large losses, a plain search takes over.
    """
    signal = request.signal or 1e-12

    def attempt(budget: Budget) -> Calibrated:
        wanted = gaussian_signal(budget.epsilon, budget.delta) ** 2
        guess = 1.002 * signal / wanted if wanted > 0 else 1.0
        goal = math.log(budget.delta) - 2 * MARGIN
        factor, accepted = guess, math.inf

        def analysis(factor: float) -> Analysis:
            check_time()
            return curve(make(factor), request.schema, request.n, honest_fraction=request.honest_fraction)

        def change(log_delta: float) -> float:
            """Return the ratio by which the variances of a Gaussian mechanism with this δ must grow."""
            if not LIKELY[0] < log_delta < LIKELY[1]:
                return math.inf
            return float(gaussian_signal(budget.epsilon, math.exp(log_delta)) ** 2 / wanted)

        for _ in range(ATTACKS if excess and wanted > 0 else 0):
            # An attack costs a fraction of a certificate, and is close to it.
            ratio = change(analysis(factor).lower(budget.epsilon))
            if not 1 / STRIDE < ratio < STRIDE:
                break
            factor *= ratio
            if abs(ratio - 1) < NEAR:
                break
        factor *= 1 + excess
        for _ in range(TRIALS):
            found = analysis(factor).upper(budget.epsilon)
            accepted = min(accepted, factor) if found <= goal else accepted
            ratio = change(found) if wanted > 0 else math.inf
            if found <= goal and ratio > 1 - precise:
                return settled(request, make(factor), budget)
            if not 1 / STRIDE < ratio < STRIDE:
                break
            factor *= ratio * (1 + precise / 4)
        guess = accepted if math.isfinite(accepted) else guess
        return smallest(request, make, budget, guess=guess, top=64 * guess, relative=precise)

    return attempt


@functools.lru_cache(maxsize=64)
def _shares(schema: Schema, weights: tuple[tuple[str, float], ...], *, laplace: bool = False) -> tuple[float, ...]:
    """Return the precision or the loss of each attribute, in shares of their sum; they depend on no budget."""
    best = laplace_shares if laplace else gaussian_shares
    return tuple(best(effects(schema), len(schema.attributes), dict(weights)).tolist())


def _weights(request: Request) -> dict[str, float]:
    assert request.schema.named
    given = dict(request.weights)
    return {name: given.get(name, 1.0) for name in request.schema.questions.names}
