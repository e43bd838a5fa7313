"""Problem documents (RFC 9457): one table of names, one JSON form.

A problem has a name for programs and a detail for people. Neither ever contains data from the request.
"""

from dataclasses import dataclass

from hubbub.documents import Json, canonical
from hubbub.errors import Problem

MEDIA_TYPE = "application/problem+json"
"""The media type of a problem document."""
PREFIX = "urn:hubbub:problem:"


@dataclass(frozen=True, slots=True)
class Kind:
    """The HTTP status of a problem, and its title."""

    status: int
    title: str


KINDS = {
    "malformed": Kind(400, "The request does not follow the protocol."),
    "wrong-length": Kind(400, "The body does not have the length that the task requires."),
    "cannot-open": Kind(400, "A bundle cannot be opened with the key that it names."),
    "unauthorized": Kind(401, "A bearer token is required."),
    "forbidden": Kind(403, "The token does not allow this."),
    "bad-token": Kind(403, "A bundle has no valid admission; it was not stored."),
    "closed-task": Kind(403, "The task does not accept uploads at this time."),
    "closed-round": Kind(403, "A bundle was made for a round that is over; it was not stored."),
    "series-ended": Kind(403, "All rounds of the series are over."),
    "not-found": Kind(404, "There is no such resource."),
    "unknown-task": Kind(404, "There is no such task."),
    "method-not-allowed": Kind(405, "The resource does not support this method."),
    "timeout": Kind(408, "The body did not arrive in time."),
    "outdated-keys": Kind(409, "A bundle was sealed to a key that is not in use; it was not stored."),
    "fenced": Kind(409, "Another batch was accepted for this bucket, or the bucket was declared a gap."),
    "token-spent": Kind(409, "The admission of a bundle is spent; the bundle was not stored."),
    "already-issued": Kind(409, "The account already has a token for this task, issued for another request."),
    "conflict": Kind(409, "Different content is stored under this name."),
    "uncertain": Kind(410, "The store was restored, and a bundle may have been counted already; do not send it again."),
    "too-large": Kind(413, "The body is larger than the service accepts."),
    "wrong-media-type": Kind(415, "The body has an unsupported media type."),
    "unknown-issuer-key": Kind(422, "The token request does not name a key of this issuer."),
    "evaluation-limit": Kind(429, "The evaluations of a key or of a client are used up; try again later."),
    "busy": Kind(429, "The service is overloaded; try again later."),
    "wrong-version": Kind(503, "Another version of hubbub made the bundle; update the client, and send it again."),
    "unavailable": Kind(503, "The service cannot store anything at this time; try again later."),
}
"""All problems, ordered by status."""


def status_of(problem: Problem) -> int:
    """Return the HTTP status of a problem.

    >>> status_of(Problem("busy", retry_after=2))
    429
    """
    return KINDS[problem.name].status


def problem_document(problem: Problem) -> bytes:
    """Return the JSON of a problem; ``index`` is the position of the bundle in the upload, counted from 0.

    >>> problem_document(Problem("timeout", index=3)).decode()
    '{"index":3,"status":408,"title":"The body did not arrive in time.","type":"urn:hubbub:problem:timeout"}'
    """
    kind = KINDS[problem.name]
    content: dict[str, Json] = {"type": PREFIX + problem.name, "title": kind.title, "status": kind.status}
    if problem.detail:
        content["detail"] = problem.detail
    if problem.index is not None:
        content["index"] = problem.index
    return canonical(content)


def headers(problem: Problem) -> dict[str, str]:
    """Return the headers of a problem document.

    >>> headers(Problem("busy", retry_after=2))
    {'content-type': 'application/problem+json', 'retry-after': '2'}
    """
    result = {"content-type": MEDIA_TYPE}
    if problem.retry_after is not None:
        result["retry-after"] = str(problem.retry_after)
    if problem.name == "unauthorized":
        result["www-authenticate"] = "Bearer"
    return result
