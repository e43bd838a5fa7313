"""Families without fakes: local randomization, flipped records in one or more copies, split bits, randomized response.

Each function returns the :class:`~hubbub.planner.certify.Candidate` of one family for a request, or None if the family
does not apply.
"""

import math
from functools import partial

from hubbub.accountant import Calibrated
from hubbub.errors import Infeasible
from hubbub.mechanisms.noise import predicted_stderr
from hubbub.model.privacy import Budget
from hubbub.model.protocol import GRID, Protocol
from hubbub.model.releases import PAYLOAD_FORMATS
from hubbub.numeric.ratios import flip_from_phi
from hubbub.planner.asymptotics import local_flips, local_response, total_factor, whole_records
from hubbub.planner.certify import Candidate, flipped, settled
from hubbub.planner.request import Request
from hubbub.wire.bundles import bundle_size

COPIES = (32, 16, 8, 4, 2)
MAX_WHOLE_WIDTH = 256
"""Width up to which whole records of any bits are certified; wider ones gain next to nothing from shuffling."""


def local_flip(request: Request) -> Candidate:
    """Flips that need no shuffler."""
    return Candidate(_local_flip_stderr(request), [lambda budget: flipped(request, budget, trust="nobody")], "nobody")


def local_category(request: Request) -> Candidate | None:
    """d-ary randomized response that needs no shuffler."""
    if not request.schema.exclusive or request.joint:
        return None
    return Candidate(_local_response_stderr(request), [lambda budget: _local_response(request, budget)], "nobody")


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
    """Flipped records whose set bits are sent as separate messages.

    Several copies would gain at most a fifth, by a finer lattice, for several times the messages.
    """
    if not _shuffled(request) or request.joint or request.schema.width == 1:
        return None
    expected = math.sqrt(request.schema.distance / request.signal) * total_factor(request.schema)
    attempt = partial(flipped, request, release="bits", trust="shuffling")

    def scaled(factor: float) -> Protocol:
        information = request.honest_users * request.signal / factor / request.schema.distance
        return Protocol(max(flip_from_phi(1 + information), 1 / GRID), release="bits")

    return Candidate(min(_local_stderr(request), expected), [attempt], "shuffling", scaled=scaled)


def response(request: Request) -> Candidate | None:
    """d-ary randomized response, shuffled."""
    schema, n = request.schema, request.n
    if not _shuffled(request) or request.joint or not schema.exclusive:
        return None
    protocol = Protocol(1 / (schema.width + n * request.signal / 2 + 1), release="category")
    expected = min(_local_stderr(request), predicted_stderr(schema, protocol, n))
    return Candidate(expected, [partial(flipped, request, release="category", trust="shuffling")], "shuffling")


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


def _local_response_stderr(request: Request) -> float:
    return local_response(request.schema, request.n, request.budget.epsilon / request.rounds)


def _local_stderr(request: Request) -> float:
    both = request.schema.exclusive and not request.joint
    return min(_local_flip_stderr(request), _local_response_stderr(request) if both else math.inf)


def _local_response(request: Request, budget: Budget) -> Calibrated:
    """Return q = 1/(e^ε + d − 1), rounded up, or the larger q that a policy requires."""
    d = request.schema.width
    q = max((1 + 1e-12) / (math.exp(min(budget.epsilon, 600.0)) + d - 1), request.required_flip(release="category"))
    protocol = Protocol(q, release="category")
    if protocol.q * d >= 1:
        raise Infeasible(f"{budget} leaves no information about {d} categories without a shuffler; raise epsilon")
    return settled(request, protocol, budget, trust="nobody")
