"""Collections of strings: their terms in a contract, and the messages of an evaluation.

Requests for evaluations of blinded elements, and the responses, as they travel between client, relay and analyzer.

    request   analyzer's key id u16 | 1 to 64 times: admission 0, 32 or 354, blinded element
    response  the evaluated elements in the same order | proof 64

An element has 32 bytes (ristretto255-SHA512) or 33 (P256-SHA256). The admission is that of the client that the element
belongs to: its token, or its evaluation ticket, whose key is not the one of tickets for bundles.
"""

from dataclasses import dataclass
from typing import Annotated, Self

from hubbub.documents import Document, Whole, check_fields
from hubbub.errors import WireError, check_choice, check_whole, reject
from hubbub.oprf import SUITES, Evaluation, p256, ristretto, suite_named
from hubbub.service.task.admission import check_issuer
from hubbub.wire.bundles import ADMISSION_SIZES

MAX_HOURLY = 10**12
"""Largest number of evaluations of one key in an hour."""
MAX_PER_CLIENT = 100
PER_CLIENT = 4
"""Default number of evaluations of one client and key: the answer, and a few lost ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StringTerms(Document):
    """The agreement of operators and clients on a collection of strings, besides the plan.

    Every evaluation lets whoever asks test one string against all slots of a key. The caps bound what a dictionary
    attack can test: ``evaluations`` for everybody together in an hour, ``per_client`` for each admission.
    """

    WHAT = "the terms of strings"
    group: str
    """The suite of RFC 9497: ristretto255-SHA512, or P256-SHA256 where the analyzer has no libsodium."""
    relay: str
    """The host name of the relay, whose operator is neither the analyzer's nor the shuffler's."""
    evaluations: Annotated[int, Whole(1, MAX_HOURLY)]
    """Most evaluations under one key of the analyzer within an hour."""
    per_client: Annotated[int, Whole(1, MAX_PER_CLIENT)] = PER_CLIENT
    """Most evaluations of one ticket or token under one key; with open admission, nothing tells clients apart."""

    def __post_init__(self) -> None:
        check_choice("group", self.group, tuple(SUITES))
        if not isinstance(self.relay, str):
            reject("relay", "be a host name")
        check_issuer(self.relay)
        check_fields(self)


def default_group() -> str:
    """Return the group that this machine computes in: ristretto255 with libsodium, P-256 without it."""
    return str(ristretto.NAME if ristretto.available() else p256.NAME)


EVALUATION_TYPE = "application/hubbub-evaluation"
"""The media type of requests and responses."""
MAX_EVALUATIONS = 64
"""Most elements of one request."""
MAX_REQUEST_SIZE = 2 + MAX_EVALUATIONS * (ADMISSION_SIZES["token"] + max(one.ELEMENT_SIZE for one in SUITES.values()))
"""Bytes of the largest request."""
_KEY_ID_SIZE = 2


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """Blinded elements to be evaluated under the tag key of one of the analyzer's keys, and an admission for each."""

    key_id: int
    elements: tuple[bytes, ...]
    admissions: tuple[bytes, ...] = ()
    """Empty if the contract asks for none."""

    def __post_init__(self) -> None:
        check_whole("key_id", self.key_id, 1, 2**16 - 1)
        check_whole("the number of elements", len(self.elements), 1, MAX_EVALUATIONS)
        if self.admissions and len(self.admissions) != len(self.elements):
            reject("admissions", "be as many as the elements", len(self.admissions))

    def to_bytes(self) -> bytes:
        """Return the body of the request."""
        admissions = self.admissions or (b"",) * len(self.elements)
        pairs = zip(admissions, self.elements, strict=True)
        return self.key_id.to_bytes(_KEY_ID_SIZE, "big") + b"".join(part for pair in pairs for part in pair)

    @classmethod
    def from_bytes(cls, body: bytes, suite: str, admission: int = 0) -> Self:
        """Read the body of a request for a suite; ``admission`` is the number of bytes of each admission.

        >>> request = EvaluationRequest(7, (bytes(33), bytes(33)))
        >>> EvaluationRequest.from_bytes(request.to_bytes(), "P256-SHA256") == request
        True
        """
        step = admission + suite_named(suite).ELEMENT_SIZE
        count, rest = divmod(len(body) - _KEY_ID_SIZE, step)
        if rest or not 1 <= count <= MAX_EVALUATIONS:
            raise WireError(f"a request must have a key id and 1 to {MAX_EVALUATIONS} items of {step} bytes")
        key_id = int.from_bytes(body[:_KEY_ID_SIZE], "big")
        if key_id < 1:
            raise WireError("the key id of a request must be positive")
        items = [body[start : start + step] for start in range(_KEY_ID_SIZE, len(body), step)]
        admissions = tuple(item[:admission] for item in items) if admission else ()
        return cls(key_id, tuple(item[admission:] for item in items), admissions)


def write_evaluation(evaluation: Evaluation) -> bytes:
    """Return the body of a response."""
    return b"".join(evaluation.elements) + evaluation.proof


def read_evaluation(body: bytes, suite: str, count: int) -> Evaluation:
    """Read the body of a response with a given number of elements; the proof is not verified."""
    group = suite_named(suite)
    step, end = group.ELEMENT_SIZE, count * group.ELEMENT_SIZE
    if len(body) != end + 2 * group.SCALAR_SIZE:
        raise WireError(f"an evaluation of {count:,} elements must have {end + 2 * group.SCALAR_SIZE:,} bytes")
    return Evaluation(tuple(body[start : start + step] for start in range(0, end, step)), body[end:])
