"""Families of surveys: every attribute with its own noise, allocated by the closed forms, scaled by the accountant.

Each function returns the :class:`~hubbub.planner.certify.Candidate` of one family, with the layout of the survey that
suits its noise, or None if the family does not apply.
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
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.model.protocol import GRID, Fakes, Noise, Protocol
from hubbub.model.releases import Release
from hubbub.model.schema import Schema
from hubbub.numeric.divergences import gaussian_signal
from hubbub.planner.allocation import gaussian_shares, laplace_shares
from hubbub.planner.certify import Attempt, Candidate, settled, smallest
from hubbub.planner.deadlines import check_time
from hubbub.planner.layouts import laid_out
from hubbub.planner.request import Request

ZEROS = 0.02  # share of δ that a count of no fakes at all may take beside Gaussian noise
MOST_FAKES = 1000.0  # fakes per user and attribute beyond which the family is not searched
PRECISE = 4e-3  # relative width within which the accountant finds the common factor of all variances
TRIALS = 6  # certificates from which the factor follows as for a Gaussian mechanism
STRIDE = 3.0  # largest factor by which one of them changes it
ATTACKED = (0.0032, 0.0165, 0.003)  # excess of the variances of a certificate over those of the attack: for each of
# the attributes that matter, at most, and for split bits
ATTACKS, NEAR = 2, 0.05  # attacks that correct the first factor, and the last change after which no more is needed
LIKELY = (-300.0, math.log(0.5))  # ln δ between which a loss is compared with that of a Gaussian mechanism
MULTINOMIAL = 1.001  # error of users' fakes relative to Gaussian ones of the same loss


def shuffler_fakes(request: Request) -> Candidate | None:
    """Clear answers among the shuffler's fakes, Laplace or Gaussian, whichever has the smaller expected error."""
    if request.budget.delta == 0:
        return None
    options = [_laplace(request), _gaussian(request)]
    return min(options, key=lambda one: one.expected)


def user_fakes(request: Request) -> Candidate | None:
    """Clear answers among the uniform fakes of the users."""
    schema, variances = _allocated(request)
    sizes = [one.size for one in schema.attributes]
    rates = [size * s / request.honest_users for size, s in zip(sizes, variances, strict=True)]
    if request.budget.delta == 0 or max(rates) > MOST_FAKES:
        return None

    def make(factor: float) -> Protocol:
        return Protocol.survey([Noise(m=_binomial(factor * rate, 2 * rate)) for rate in rates])

    own = replace(request, schema=schema)
    _check_messages(own, more=True)
    return Candidate(MULTINOMIAL * _expected(own, make(1.0)), [_scaled(own, make)], "shuffling", schema)


def split(request: Request) -> Candidate | None:
    """Answers whose flipped bits are sent as separate messages."""
    return _flipped(request, "bits")


def response(request: Request) -> Candidate | None:
    """Answers by randomized response: everybody sends exactly one message for each attribute."""
    return _flipped(request, "category")


def local_response(request: Request) -> Candidate | None:
    """Randomized response that needs no shuffler: the ε of all attributes add up to the budget."""
    schema, _ = _allocated(request)
    own = replace(request, schema=schema)
    _check_messages(own, more=False)
    count = len(schema.attributes)

    def attempt(budget: Budget) -> Calibrated:
        # The smallest flip probability whose logarithm of the odds, rounded up, stays within its share.
        share = budget.epsilon / count * (1 - 1e-12)
        noise = [Noise(_at_least(_local_flip(share, one.size), own, one.size)) for one in schema.attributes]
        return settled(own, Protocol.survey(noise, "category"), budget, trust="nobody")

    share = request.budget.epsilon / count
    about = Protocol.survey(
        [Noise(_at_least(_local_flip(share, one.size), own, one.size)) for one in schema.attributes], "category"
    )
    return Candidate(_expected(own, about), [attempt], "nobody", schema)


def _local_flip(epsilon: float, size: int) -> float:
    return 1 / (math.exp(min(epsilon, 600.0)) + size - 1)


def _laplace(request: Request) -> Candidate:
    weights = _weights(request)
    precision = request.budget.epsilon**2 / 8  # of one attribute alone: 1/(2b²), b = 2/ε
    schema = laid_out(
        request.schema, "laplace", weights, request.n, precision / request.rounds**2, request.max_messages
    )
    own = replace(request, schema=schema)
    _check_messages(own, more=False)
    shares, count = _shares(schema, tuple(weights.items()), laplace=True), len(schema.attributes)
    scales = [2 * request.rounds / max(request.budget.epsilon, 1e-9) / share for share in shares]

    def attempt(budget: Budget) -> Calibrated:
        if budget.epsilon == 0:
            raise Infeasible("Laplace fakes give no guarantee at ε = 0")
        tail = budget.delta * (1 - 1e-6) / count
        # Rounded up by so much that the exact sum of 2/b is at most ε.
        each = [2 / budget.epsilon / share * (1 + 1e-14) for share in shares]
        noise = [Noise(m=_laplace_fakes(scale, tail)) for scale in each]
        return settled(own, Protocol.survey(noise), budget)

    expected = rms_error(schema, [2 * (scale * scale) for scale in scales], own.n, weights)
    return Candidate(expected, [attempt], "shuffler-noise", schema)


def _laplace_fakes(scale: float, tail: float) -> Fakes:
    """Return Laplace fakes of which there are none with probability at most ``tail``, at the smallest shift."""
    ratio = math.exp(-1 / scale)
    shift = max(0, math.floor(scale * math.log((1 - ratio) / ((1 + ratio) * tail))) - 2) if tail < 1 else 0
    while math.exp(-shift / scale) * (1 - ratio) / (1 + ratio - ratio ** (shift + 1)) > tail * (1 - 1e-9):
        shift += 1
    return Fakes.laplace(scale, shift)


def _gaussian(request: Request) -> Candidate:
    schema, variances = _allocated(request)
    own = replace(request, schema=schema)
    _check_messages(own, more=False)
    tail = ZEROS * request.budget.delta / request.rounds / len(variances)

    def make(factor: float) -> Protocol:
        return Protocol.survey([Noise(m=_gaussian_fakes(math.sqrt(factor * one), tail)) for one in variances])

    expected = rms_error(schema, variances, own.n, _weights(request))
    return Candidate(expected, [_scaled(own, make)], "shuffler-noise", schema)


def _gaussian_fakes(scale: float, tail: float) -> Fakes:
    norm = max(1.0, scale * math.sqrt(2 * math.pi))
    return Fakes.gaussian(scale, math.ceil(scale * math.sqrt(max(0.0, -2 * math.log(tail * norm)))))


def _flipped(request: Request, release: Release) -> Candidate | None:
    schema, variances = _allocated(request)
    if request.budget.delta == 0:
        return None
    own, sizes = replace(request, schema=schema), [one.size for one in schema.attributes]
    _check_messages(own, more=release == "bits")

    def make(factor: float) -> Protocol:
        flips = [
            _flip(factor * s, size, request.honest_users, category=release == "category")
            for size, s in zip(sizes, variances, strict=True)
        ]
        return Protocol.survey(
            [Noise(_at_least(q, own, d, release)) for q, d in zip(flips, sizes, strict=True)], release
        )

    about = make(1.0)
    crowded = (size > 2 and 2 * one.q * size > 1 for one, size in zip(about.noise, sizes, strict=True))
    if release == "category" and any(crowded):
        raise Infeasible("too many categories for randomized response at this n; raise n or epsilon")
    excess = 0.0
    if release == "bits" or max(sizes) == 2:
        matter = math.fsum(1 / s for s in variances) ** 2 / math.fsum(1 / s**2 for s in variances)
        excess = min(ATTACKED[0] * matter, ATTACKED[1]) + (ATTACKED[2] if release == "bits" else 0.0)
    split_bits = make if release == "bits" else None
    return Candidate(_expected(own, about), [_scaled(own, make, excess)], "shuffling", schema, split_bits)


def _flip(variance: float, size: int, people: float, *, category: bool) -> float:
    """Return the flip probability by which the counts of one attribute have s² as their variance."""
    if not category or size == 2:
        part = variance / 2 if category else variance
        return 0.5 * (1 - math.sqrt(people / (people + 4 * part)))
    middle = 2 * variance * size + people
    return 2 * variance / (middle + math.sqrt(middle**2 - 4 * (variance * size) ** 2))


def _at_least(q: float, request: Request, size: int, release: Release = "category") -> float:
    """Return a flip probability that also meets ``min_q`` and an equal share of ``max_collusion_epsilon``.

    Raises :class:`Infeasible` if it leaves no information about one answer.
    """
    category = release == "category"
    least = request.min_q / (size - 1) if category else request.min_q
    if math.isfinite(request.max_collusion_epsilon):
        share = request.max_collusion_epsilon / request.rounds / len(request.schema.attributes) * (1 - 1e-12)
        least = max(least, _local_flip(share, size) if category else _local_flip(share / 2, 2))
    found = max(q, least, 1 / GRID)
    if found * (size if category else 2) >= 1:
        raise Infeasible(f"flips leave no information about an attribute of {size:,} categories; raise epsilon or n")
    return found


def _allocated(request: Request) -> tuple[Schema, list[float]]:
    """Return the layout for Gaussian noise and its likes, and s² of every attribute."""
    # Without δ only local noise is left, whose precision grows with ε² as well.
    signal = (request.signal if request.budget.delta else request.budget.epsilon**2 / request.rounds) or 1e-12
    weights = _weights(request)
    schema = laid_out(request.schema, "gaussian", weights, request.n, signal / 2, request.max_messages)
    return schema, [2 / signal / share for share in _shares(schema, tuple(weights.items()))]


@functools.lru_cache(maxsize=64)
def _shares(schema: Schema, weights: tuple[tuple[str, float], ...], *, laplace: bool = False) -> tuple[float, ...]:
    """Return the precision or the loss of each attribute, in shares of their sum; they depend on no budget."""
    best = laplace_shares if laplace else gaussian_shares
    return tuple(best(effects(schema), len(schema.attributes), dict(weights)).tolist())


def _weights(request: Request) -> dict[str, float]:
    given = dict(request.weights)
    return {name: given.get(name, 1.0) for name in request.schema.questions.names}


def _expected(request: Request, protocol: Protocol) -> float:
    """Return the error by which families compare, for the data that make it largest."""
    variances = answer_variances(request.schema, protocol, request.n)
    return rms_error(request.schema, variances, request.n, _weights(request))


def survey_error(request: Request, plan: Plan) -> float:
    """Return the error of a plan by which families compare: each question by its weight."""
    return _expected(replace(request, schema=plan.schema), plan.protocol)


def _check_messages(request: Request, *, more: bool) -> None:
    """Raise Infeasible if a user sends too many messages: one for each attribute, or ``more``, if fakes are added."""
    count = len(request.schema.attributes)
    if count + more > request.max_messages:
        number = f"more than {count:,}" if more else f"{count:,}"
        raise Infeasible(f"it sends {number} messages per user; raise max_messages to allow it")


def _scaled(request: Request, make: Callable[[float], Protocol], excess: float = 0.0) -> Attempt:
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
            if found <= goal and ratio > 1 - PRECISE:
                return settled(request, make(factor), budget)
            if not 1 / STRIDE < ratio < STRIDE:
                break
            factor *= ratio * (1 + PRECISE / 4)
        guess = accepted if math.isfinite(accepted) else guess
        return smallest(request, make, budget, guess=guess, top=64 * guess, relative=PRECISE)

    return attempt


def _binomial(rate: float, most: float) -> Fakes:
    trials = max(1, math.ceil(most))
    return Fakes.binomial(trials, min(1.0, rate / trials))
