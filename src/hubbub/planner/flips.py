"""Families without fakes: local randomization, flipped records in one or more copies, split bits, randomized response.

Each function returns the :class:`~hubbub.planner.certify.Candidate` of one family for a request, or None if the family
does not apply.
"""

import math
from functools import partial

from hubbub.errors import Infeasible
from hubbub.model.protocol import GRID, Noise, Protocol
from hubbub.model.releases import PAYLOAD_FORMATS, Release
from hubbub.planner.asymptotics import local_flips, local_response_error, total_factor, whole_records
from hubbub.planner.certify import Attempt, Candidate, flipped, settled
from hubbub.planner.columns import (
    allocated,
    at_least,
    check_messages,
    expected_error,
    flip_for,
    local_flip,
    scaled,
    sizes,
)
from hubbub.planner.request import Request
from hubbub.wire.bundles import bundle_size

COPIES = (32, 16, 8, 4, 2)
ATTACKED = (0.0032, 0.0165, 0.003)  # excess of the variances of a certificate over those of the attack: for each of
# the columns that matter, at most, and for split bits
MAX_WHOLE_WIDTH = 256
"""Width up to which whole records of any bits are certified; wider ones gain next to nothing from shuffling."""


def local_flips_alone(request: Request) -> Candidate:
    """Flips that need no shuffler."""
    return Candidate(_local_flip_stderr(request), [lambda budget: flipped(request, budget, trust="nobody")], "nobody")


def local_response(request: Request) -> Candidate:
    """d-ary randomized response that needs no shuffler: the ε of all columns add up to the budget."""
    own, _ = allocated(request)
    each = sizes(own.schema)
    check_messages(own, more=False)

    def make(epsilon: float) -> Protocol:
        # The smallest flip probability whose logarithm of the odds, rounded up, stays within its share.
        share = epsilon / len(each) * (1 - 1e-12)
        return Protocol.survey([Noise(at_least(local_flip(share, size), own, size)) for size in each], "category")

    expected = expected_error(own, make(own.budget.epsilon / own.rounds))
    attempt: Attempt = lambda budget: settled(own, make(budget.epsilon), budget, trust="nobody")  # noqa: E731
    return Candidate(expected, [attempt], "nobody", own.schema)


def flip(request: Request) -> Candidate | None:
    """Flipped whole records, shuffled."""
    if not _whole_records(request):
        return None
    return Candidate(
        min(_local_stderr(request), flip_stderr(request)), [partial(flipped, request, trust="shuffling")], "shuffling"
    )


def copies(request: Request) -> Candidate | None:
    """Several independently flipped copies of a whole record; for one bit they gain next to nothing."""
    size = PAYLOAD_FORMATS["records"].size(request.schema.width)
    allowed = [k for k in COPIES if k <= request.max_messages and bundle_size(k, size) <= request.max_bytes]
    if not _whole_records(request) or request.schema.width == 1 or not allowed:
        return None
    expected = min(_local_stderr(request), flip_stderr(request, allowed[0]))
    return Candidate(expected, [partial(flipped, request, k=k, trust="shuffling") for k in allowed], "shuffling")


def split(request: Request) -> Candidate | None:
    """Flipped bits that are sent as separate messages.

    Several copies would gain at most a fifth, by a finer lattice, for several times the messages.
    """
    return _unlinked(request, "bits") if request.schema.width > 1 else None


def response(request: Request) -> Candidate | None:
    """d-ary randomized response, shuffled: everybody sends exactly one message for each column."""
    return _unlinked(request, "category")


def _unlinked(request: Request, release: Release) -> Candidate:
    """Return flips whose messages are shuffled one by one, whichever column they belong to."""
    own, variances = allocated(request)
    each, category = sizes(own.schema), release == "category"
    check_messages(own, more=not category)

    def make(factor: float) -> Protocol:
        """Return the flips with a multiple of the variances that a Gaussian mechanism would need."""
        flips = [
            flip_for(factor * s, size, own.honest_users, category=category)
            for size, s in zip(each, variances, strict=True)
        ]
        if len(each) == 1:  # the search adds what a policy requires
            return Protocol.survey([Noise(max(flips[0], 1 / GRID))], release)
        return Protocol.survey(
            [Noise(at_least(q, own, size, release)) for q, size in zip(flips, each, strict=True)], release
        )

    scaled_bits = None if category else make
    if len(each) == 1:
        about = Protocol(1 / (each[0] + own.n * own.signal / 2 + 1), release=release) if category else make(1.0)
        expected = min(_local_stderr(own), expected_error(own, about))
        attempt: Attempt = partial(flipped, own, release=release, trust="shuffling")
        return Candidate(expected, [attempt], "shuffling", own.schema, scaled_bits)
    crowded = (size > 2 and 2 * one.q * size > 1 for one, size in zip(make(1.0).noise, each, strict=True))
    if category and any(crowded):
        raise Infeasible("too many categories for randomized response at this n; raise n or epsilon")
    excess = 0.0
    if not category or max(each) == 2:
        matter = math.fsum(1 / s for s in variances) ** 2 / math.fsum(1 / s**2 for s in variances)
        excess = min(ATTACKED[0] * matter, ATTACKED[1]) + (0.0 if category else ATTACKED[2])
    return Candidate(expected_error(own, make(1.0)), [scaled(own, make, excess)], "shuffling", own.schema, scaled_bits)


def flip_stderr(request: Request, k: int = 1) -> float:
    """Return the expected standard error of k copies of flipped whole records."""
    sigma = whole_records(request.schema, request.n, request.honest_users * request.signal, k)
    return sigma * total_factor(request.schema)


def _shuffled(request: Request) -> bool:
    """Return True if shuffling can help; with δ = 0, only each user's own randomization counts."""
    return request.budget.delta > 0


def _whole_records(request: Request) -> bool:
    return _shuffled(request) and (not request.schema.dense or request.schema.width <= MAX_WHOLE_WIDTH)


def _local_flip_stderr(request: Request) -> float:
    signal = request.signal if request.budget.delta > 0 else 0.0
    sigma = local_flips(request.schema, request.n, request.budget.epsilon / request.rounds, signal)
    return sigma * total_factor(request.schema)


def _local_stderr(request: Request) -> float:
    """Return about the smallest error of one column without a shuffler."""
    schema, epsilon = request.schema, request.budget.epsilon / request.rounds
    one = local_response_error(schema, request.n, epsilon) if schema.attributes and not request.joint else math.inf
    return min(_local_flip_stderr(request), one)
