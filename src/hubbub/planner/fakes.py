"""Families with fakes: clear or flipped records among fakes that the users or the shuffler draw.

Each function returns the :class:`~hubbub.planner.certify.Candidate` of one family for a request, or None if the family
does not apply.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from hubbub.accountant import Calibrated
from hubbub.accountant.calibration import draft
from hubbub.errors import Infeasible
from hubbub.mechanisms.noise import predicted_stderr
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Fakes, Noise, Protocol
from hubbub.model.releases import Release
from hubbub.planner.asymptotics import discrete_laplace, hidden_flip, legal_records, total_factor
from hubbub.planner.certify import Attempt, Candidate, settled, smallest
from hubbub.planner.columns import (
    allocated,
    check_messages,
    expected_error,
    laplace_allocated,
    scaled,
    sizes,
    weighed_error,
)
from hubbub.planner.flips import MAX_WHOLE_WIDTH, flip_stderr
from hubbub.planner.request import Request

MAX_COVERED = 2**20  # number of legal records up to which uniform fakes can cover all of them
MAX_DRAWN = 2**16  # number of legal records up to which a shuffler draws fakes for each of them
MAX_FAKES_PER_USER = 1000  # fakes per user beyond which the family is not searched
NARROW = 8  # width up to which a packed one-hot record is as short as the index of its bit
WIDE = 64
"""Width from which an index is short enough to send one-hot records as bits, which hides the number of users' fakes."""
MAX_MESSAGES_WITH_FAKES = 5.0  # expected messages per user up to which fakes are added to flipped records
SHARES = (1 / 64, 1 / 16, 1 / 4, 1.0)  # fakes per user that are tried if there are too few to hide clear records
CHEAP = 4e-4  # relative width within which Gaussian fakes of the shuffler are found: their certificates cost little
ZEROS = 0.002  # share of δ that a count of no fakes at all may take beside Gaussian noise
FAINTEST = 1e-300  # smallest probability of no fakes at all that is resolved
MULTINOMIAL = 1.001  # error of users' fakes relative to Gaussian ones of the same loss
MIN_TOTAL_FAKES = 500  # expected number of fakes below which their random number is too uncertain to count on


def clear_user_fakes(request: Request) -> Candidate | None:
    """Clear records, or answers of a survey, among uniform fakes that the users draw."""
    if request.schema.named:
        return _columns_among_user_fakes(request)
    if not _possible(request) or legal_records(request.schema) > MAX_COVERED:
        return None
    if _needed(request) > MAX_FAKES_PER_USER * request.n:
        return None
    return Candidate(math.sqrt(_variance(request)), [lambda budget: _among_user_fakes(request, budget)], "shuffling")


def _columns_among_user_fakes(request: Request) -> Candidate | None:
    own, variances = allocated(request)
    rates = [size * s / own.honest_users for size, s in zip(sizes(own.schema), variances, strict=True)]
    if max(rates) > MAX_FAKES_PER_USER:
        return None

    def make(factor: float) -> Protocol:
        return Protocol.survey([Noise(m=_binomial(factor * rate, 2 * rate)) for rate in rates])

    check_messages(own, more=True)
    return Candidate(MULTINOMIAL * expected_error(own, make(1.0)), [scaled(own, make)], "shuffling", own.schema)


def fake_and_flip(request: Request) -> Candidate | None:
    """Flipped records among the users' flipped fakes.

    If users can send enough fakes for clear records, flips only add an error, in return for some protection where
    shuffler and analyzer collude: they then add the variance that clear records would have, and the fewest fakes are
    found. Otherwise several numbers of fakes are tried, and the smallest q is found for each.
    """
    schema = request.schema
    applies = schema.exclusive or (schema.dense and schema.width <= MAX_WHOLE_WIDTH)
    if not _possible(request) or schema.width == 1 or not applies:
        return None
    limit = (min(request.max_messages, MAX_MESSAGES_WITH_FAKES) - 1) * request.honest_users
    if 1.5 * _needed(request) <= limit and _variance(request) <= 0.02 * request.n:
        return _fewest_fakes(request)
    certain = MIN_TOTAL_FAKES / request.honest_users
    shares = [share for share in SHARES if certain <= share and share * request.n <= limit]
    if not shares:
        return None
    expected = flip_stderr(request) / 2
    if schema.dense:
        expected = min(
            predicted_stderr(schema, Protocol(_hidden_flip(request, share), m=round(share * request.n)), request.n)
            for share in shares
        )
    return Candidate(expected, [_smallest_flip(request, share) for share in shares], "shuffling")


def shuffler_fakes(request: Request) -> Candidate | None:
    """Bits among the shuffler's fakes, a number for each; one-hot records are sent whole where that is as short.

    Of a survey, the layout for Laplace or Gaussian fakes, whichever has the smaller expected error.
    """
    schema = request.schema
    if not schema.named:
        release = _compact(request, NARROW)
        return _one_column(request, schema.distance, schema.max_set, 1, release) if _possible(request) else None
    by_laplace, shares = laplace_allocated(request)
    by_gaussian, variances = allocated(request)
    scales = [2 * request.rounds / max(request.budget.epsilon, 1e-9) / share for share in shares]
    for own in (by_laplace, by_gaussian):
        check_messages(own, more=False)
    options = (
        (by_laplace, weighed_error(by_laplace, [2 * scale**2 for scale in scales]), _laplace(by_laplace, shares)),
        (by_gaussian, weighed_error(by_gaussian, variances), _gaussian(by_gaussian, variances)),
    )
    own, expected, attempt = min(options, key=lambda one: one[1])
    return Candidate(expected, [attempt], "shuffler-noise", own.schema)


def shuffler_fakes_records(request: Request) -> Candidate | None:
    """Whole records among the shuffler's fakes, a number for each legal record."""
    schema = request.schema
    records = legal_records(schema)
    if not _possible(request) or records > MAX_DRAWN or schema.exclusive or schema.width == 1:
        return None
    return _one_column(request, 2, 1, records * schema.density, "records")


def strings(request: Request) -> Candidate | None:
    """Strings that nobody listed, with the number of people who hold each, less a number that the shuffler draws."""
    return _one_column(request, 2, 1, 1, "strings") if _possible(request) else None


def _possible(request: Request) -> bool:
    return request.budget.delta > 0 and request.budget.epsilon > 0


def _needed(request: Request) -> float:
    """Return about how many fakes hide a clear record: two counts with 2/κ fakes each, one of them the real change."""
    return 2 * legal_records(request.schema) / request.signal


def _variance(request: Request) -> float:
    return _needed(request) * request.schema.density * (1 - request.schema.density)


def _hidden_flip(request: Request, share: float) -> float:
    return hidden_flip(request.schema, share * request.honest_users * request.signal)


def _compact(request: Request, limit: int) -> Release:
    """Return the shorter release of clear one-hot records: whole, or as the index of the set bit."""
    exclusive = request.schema.exclusive
    whole = request.joint or (exclusive and request.schema.width <= limit)
    return "records" if whole or (not exclusive and limit == WIDE) else "bits"


def _among_user_fakes(request: Request, budget: Budget) -> Calibrated:
    """Return Binomial(t, s) fakes per user, t about twice the number needed, s the smallest that meets the budget.

    A binomial total varies less than a Poisson one, and both are slightly worse than a fixed one.
    """
    needed = draft(request.schema, request.n, budget, q=0, m=None, honest_fraction=request.honest_fraction)
    total, n = needed.protocol.fixed_fakes, request.n
    release = _compact(request, WIDE)
    return smallest(
        request,
        lambda x: Protocol(0.0, m=_binomial(x, 2 * total / n), release=release),
        budget,
        guess=1.001 * total / n,
        top=1.9 * total / n,
        relative=1e-4,
    )


def _fewest_fakes(request: Request) -> Candidate:
    noise = _variance(request)
    q = max(_required(request), noise / request.n)
    mean = _needed(request) / request.honest_users

    def fewest(budget: Budget) -> Calibrated:
        result = smallest(
            request,
            lambda x: Protocol(q, m=_binomial(x, 2 * mean)),
            budget,
            guess=1.2 * mean,
            top=1.9 * mean,
            relative=2e-3,
        )
        if result.protocol.user_fakes and result.protocol.user_fakes.mean < 1e-6 * mean:
            raise Infeasible("the flips alone meet the budget, without fakes")
        return result

    flips = request.n * q * (1 - q) * total_factor(request.schema) ** 2
    return Candidate(math.sqrt(noise + flips) / (1 - 2 * q), [fewest], "shuffling")


def _smallest_flip(request: Request, share: float) -> Attempt:
    guess, fakes, least = _hidden_flip(request, share), _binomial(share, 2 * share), _required(request)
    return lambda budget: smallest(
        request, lambda q: Protocol(max(q, least), m=fakes), budget, guess=guess, top=0.4999, relative=1e-3
    )


def _one_column(request: Request, changes: int, falls: int, hidden: float, release: Release) -> Candidate:
    """Return fakes that hide ``changes`` counts changing by one, ``falls`` of them downwards.

    A label sums ``hidden`` of these counts.
    """
    laplace = discrete_laplace(changes * request.rounds / request.budget.epsilon)
    gaussian = math.sqrt(changes / request.signal)
    ways = sorted(
        [
            (laplace, _laplace(request, [1.0], changes, falls, release)),
            (gaussian, _gaussian(request, [changes / request.signal], falls, release)),
        ],
        key=lambda way: way[0],
    )
    best = ways[0][0]
    expected = best * math.sqrt(hidden) * total_factor(request.schema)
    return Candidate(expected, [attempt for error, attempt in ways if error < 1.3 * best])


def _laplace(
    request: Request, shares: Sequence[float], changes: int = 2, falls: int = 1, release: Release = "bits"
) -> Attempt:
    """Return Laplace fakes of scale h/ε for each column by its share of ε: pure privacy, unless there are none."""

    def attempt(budget: Budget) -> Calibrated:
        if budget.epsilon == 0:
            raise Infeasible("Laplace fakes give no guarantee at ε = 0")
        tail = max(budget.delta * (1 - 1e-6) / len(shares) / falls, FAINTEST)
        each = [changes / budget.epsilon / share for share in shares]
        if sum(changes / Fraction(scale) for scale in each) > Fraction(budget.epsilon):  # rounded down
            each = [scale * (1 + 1e-14) for scale in each]
        noise = [_laplace_fakes(scale, tail) for scale in each]
        return _flipped(request, settled(request, _among(noise, release), budget), budget)

    return attempt


def _among(drawn: Sequence[Fakes], release: Release) -> Protocol:
    """Return clear messages among the fakes of each column."""
    if len(drawn) == 1:
        return Protocol(0.0, m=drawn[0], release=release)
    return Protocol.survey([Noise(m=one) for one in drawn], release)


def _laplace_fakes(scale: float, tail: float) -> Fakes:
    """Return Laplace fakes of which there are none with probability at most ``tail``, at the smallest shift."""
    ratio = math.exp(-1 / scale)
    shift = max(0, math.floor(scale * math.log((1 - ratio) / ((1 + ratio) * tail))) - 2) if tail < 1 else 0
    while math.exp(-shift / scale) * (1 - ratio) / (1 + ratio - ratio ** (shift + 1)) > tail * (1 - 1e-9):
        shift += 1
    return Fakes.laplace(scale, shift)


def _gaussian(request: Request, variances: Sequence[float], falls: int = 1, release: Release = "bits") -> Attempt:
    """Return Gaussian fakes with the smallest multiple of these variances."""
    tail = max(ZEROS * request.budget.delta / request.rounds / len(variances) / falls, FAINTEST)

    def make(factor: float) -> Protocol:
        return _among([_gaussian_fakes(math.sqrt(factor * one), tail) for one in variances], release)

    found = scaled(request, make, precise=CHEAP)
    return lambda budget: _flipped(request, found(budget), budget)


def _gaussian_fakes(scale: float, tail: float) -> Fakes:
    norm = max(1.0, scale * math.sqrt(2 * math.pi))
    return Fakes.gaussian(scale, math.ceil(scale * math.sqrt(max(0.0, -2 * math.log(tail * norm)))))


def _flipped(request: Request, clear: Calibrated, budget: Budget) -> Calibrated:
    """Flip the records as well if a policy requires it."""
    if not request.needs_flips:
        return clear
    # Flipped whole one-hot records change two counts as clear ones do; single bits of them might change more.
    release = "records" if request.schema.exclusive else clear.protocol.release
    q = request.required_flip(release=release)
    return settled(request, Protocol(q, m=clear.protocol.m, release=release), budget)


def _required(request: Request) -> float:
    """Return the smallest q beside users' fakes: that of the policy, and about one flip of each bit in the batch.

    Where fakes nearly hide the records, the smallest q that meets the budget is next to none, and the records would be
    as good as clear.
    """
    return min(max(request.required_flip(), 1 / request.n), 0.49)


def _binomial(mean: float, most: float) -> Fakes:
    trials = max(1, math.ceil(most))
    return Fakes.binomial(trials, min(max(mean, 1e-9) / trials, 1.0))
