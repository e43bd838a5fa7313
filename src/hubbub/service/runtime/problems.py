"""What a service says when it refuses: one exception, one table of names, one document (RFC 9457).

A refusal has a name that programs understand, and a detail that people understand. Neither ever contains what was sent.
"""

from dataclasses import dataclass

from hubbub.canonical import Json, canonical
from hubbub.errors import Problem

MEDIA_TYPE = "application/problem+json"
"""The media type of a problem document."""

PREFIX = "urn:hubbub:problem:"


@dataclass(frozen=True, slots=True)
class Kind:
    """The HTTP status of a kind of refusal, and its sentence."""

    status: int
    title: str


KINDS = {
    "malformed": Kind(400, "The request is not in the form that the protocol asks for."),
    "wrong-length": Kind(400, "The body does not have the length that the task fixes."),
    "cannot-open": Kind(400, "A bundle does not open under the key that it names."),
    "unauthorized": Kind(401, "A bearer token is needed."),
    "forbidden": Kind(403, "The token does not allow this."),
    "closed-task": Kind(403, "The task does not take uploads now."),
    "not-found": Kind(404, "There is nothing here."),
    "unknown-task": Kind(404, "There is no such task."),
    "method-not-allowed": Kind(405, "This method is not for this resource."),
    "timeout": Kind(408, "The body did not arrive in time."),
    "outdated-keys": Kind(409, "A bundle was sealed for a key that is not in use; it was not taken."),
    "conflict": Kind(409, "Something else is stored under this name."),
    "too-large": Kind(413, "The body is larger than the service takes."),
    "wrong-media-type": Kind(415, "The body is of another media type."),
    "busy": Kind(429, "More arrives than can be stored; try again later."),
    "unavailable": Kind(503, "The service cannot store anything now; try again later."),
}
"""All refusals there are, in the order of their status."""


def status_of(problem: Problem) -> int:
    """Return the HTTP status of a problem.

    >>> status_of(Problem("busy", retry_after=2))
    429
    """
    return KINDS[problem.name].status


def problem_document(refusal: Problem) -> bytes:
    """The JSON of a refusal; ``index`` says which of several bundles was meant, counted from 0.

    >>> problem_document(Problem("timeout", index=3)).decode()
    '{"index":3,"status":408,"title":"The body did not arrive in time.","type":"urn:hubbub:problem:timeout"}'
    """
    content: dict[str, Json] = {
        "type": PREFIX + refusal.name,
        "title": KINDS[refusal.name].title,
        "status": status_of(refusal),
    }
    if refusal.detail:
        content["detail"] = refusal.detail
    if refusal.index is not None:
        content["index"] = refusal.index
    return canonical(content)


def headers(refusal: Problem) -> dict[str, str]:
    """The headers that go with a problem document.

    >>> headers(Problem("busy", retry_after=2))
    {'content-type': 'application/problem+json', 'retry-after': '2'}
    """
    found = {"content-type": MEDIA_TYPE}
    if refusal.retry_after is not None:
        found["retry-after"] = str(refusal.retry_after)
    if refusal.name == "unauthorized":
        found["www-authenticate"] = "Bearer"
    return found
