"""HTTP connections of clients to a shuffler: requests that do not identify a device, and responses within bounds."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from hubbub.errors import InvalidInput, NoResponse, reject
from hubbub.service.runtime.http import KINDS, PREFIX
from hubbub.service.runtime.settings import is_local
from hubbub.service.task.strings import EVALUATION_TYPE
from hubbub.service.task.tokens import RESPONSE_SIZE

MEDIA_TYPE = "application/hubbub-bundle"
"""The media type of an upload."""
LONGEST_WAIT = 3600.0
"""Longest wait that a service may ask for, in seconds."""
MAX_RESPONSE = 2**20
"""Largest response of a service, in bytes; a longer one counts as none."""
_PROBLEM = re.compile(re.escape(PREFIX) + r"(?!stored$|waiting$)([a-z-]{1,40})", re.ASCII)
"""The type of a problem; its name becomes the state of an answer, so those of answers that are not refused are none."""


@dataclass(frozen=True, slots=True)
class Response:
    """The response to an upload: HTTP status, name of the problem, and seconds to wait before the next attempt."""

    status: int
    problem: str = ""
    retry_after: float = 0.0
    body: bytes = b""
    """The body of an issuer's response, or of an evaluation."""
    detail: str = ""
    """The service's explanation of the problem."""

    @property
    def reason(self) -> str:
        """The refusal in words.

        >>> Response(429, "busy").reason, Response(502).reason
        ('status 429, busy: The service is overloaded; try again later.', 'status 502')
        """
        words = self.detail or (KINDS[self.problem].title if self.problem in KINDS else "")
        known = f", {printable(self.problem)}" if self.problem else ""
        return f"status {self.status}{known}" + (f": {printable(words)}" if words else "")

    @property
    def transient(self) -> bool:
        """True if the service says that the same request may succeed later.

        >>> Response(503).transient, Response(409, "outdated-keys").transient
        (True, False)
        """
        return self.status in (408, 425, 429) or self.status >= 500

    @property
    def refused(self) -> bool:
        """True if a service of hubbub refuses the request for good; other responses, such as a portal's page, are none.

        >>> Response(403, "closed-task").refused, Response(403).refused, Response(200).refused
        (True, False, False)
        """
        return self.status >= 400 and self.problem != "" and not self.transient


class HttpTransport:
    """A shuffler behind a URL, over persistent connections."""

    def __init__(self, url: str, *, timeout: float = 30.0, client: httpx.Client | None = None) -> None:
        self._url = service_url("the shuffler's address", url)
        # No user agent and no cookies: nothing that distinguishes one device from another.
        self._client = client or httpx.Client(timeout=timeout, headers={"user-agent": ""}, trust_env=False)

    def keys(self, task: str) -> bytes:
        """Return the key document of a task."""
        with no_response("the shuffler"):
            response = bounded(self._client, "GET", f"{self._url}/v1/tasks/{task}/keys")
        problem = read_problem(response)
        if problem.refused and problem.problem == "unknown-task":
            reject("the contract", "be one that the shuffler at this address serves")
        if response.status_code != 200 or not response.content.startswith(b"{"):
            raise NoResponse(f"the shuffler returned no keys: {problem.reason}")
        return response.content

    def post(self, task: str, body: bytes) -> Response:
        """Upload bundles."""
        with no_response("the shuffler"):
            url, headers = f"{self._url}/v1/tasks/{task}/bundles", {"content-type": MEDIA_TYPE}
            response = bounded(self._client, "POST", url, content=body, headers=headers)
        return read_problem(response) if response.status_code != 201 else Response(201)

    def evaluate(self, task: str, body: bytes) -> Response:
        """Ask for evaluations of blinded strings, through the relay."""
        with no_response("the relay"):
            url, headers = f"{self._url}/v1/tasks/{task}/evaluations", {"content-type": EVALUATION_TYPE}
            response = bounded(self._client, "POST", url, content=body, headers=headers)
        if response.status_code == 200 and response.headers.get("content-type") == EVALUATION_TYPE:
            return Response(200, body=response.content)
        # Another page with the status of success is none of the analyzer's.
        return read_problem(response) if response.status_code != 200 else Response(502)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def service_url(name: str, url: str) -> str:
    """Return the address of a service, without a slash at its end; raise unless it is https, or on this machine.

    >>> service_url("the address", "https://shuffler.example/"), service_url("the address", "http://127.0.0.1:8401")
    ('https://shuffler.example', 'http://127.0.0.1:8401')
    """
    try:
        place = httpx.URL(url)
        safe = place.scheme == "https" and bool(place.host)
        local = place.scheme == "http" and is_local(f"[{place.host}]:80")
    except (httpx.InvalidURL, InvalidInput):
        safe = local = False
    if not safe and not local:
        reject(name, "be a URL https://…, or http://… of this machine: others on the way could read and change", url)
    return url.rstrip("/")


def bounded(client: httpx.Client, method: str, url: str, **options: Any) -> httpx.Response:
    """Return the response to a request; raises :class:`NoResponse` if it is longer than a service's ever is."""
    with client.stream(method, url, **options) as response:
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > MAX_RESPONSE:
                raise NoResponse(f"the response is longer than {MAX_RESPONSE:,} bytes")
        # Decoded already: without the headers, it would be decoded once more.
        headers = {name: value for name, value in response.headers.items() if name in ("content-type", "retry-after")}
        return httpx.Response(response.status_code, headers=headers, content=bytes(content))


def read_problem(response: httpx.Response) -> Response:
    """Return the response of a service, with what its problem document says.

    >>> read_problem(httpx.Response(403, json={"type": "urn:hubbub:problem:closed-task"})).problem
    'closed-task'
    >>> read_problem(httpx.Response(403, json={"type": "urn:hubbub:problem:stored"})).problem
    ''
    """
    problem, detail, wait = "", "", response.headers.get("retry-after", "")
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        document = response.json()
        kind, detail = document.get("type"), str(document.get("detail", ""))
        found = _PROBLEM.fullmatch(kind) if isinstance(kind, str) else None
        problem = found[1] if found else ""
    seconds = min(float(wait), LONGEST_WAIT) if wait.isascii() and wait.isdigit() else 0.0
    return Response(response.status_code, problem, seconds, detail=detail)


def printable(text: str) -> str:
    """Return a short version of a text from elsewhere, without control characters.

    >>> printable("busy\x1b[2J")
    'busy�[2J'
    """
    return "".join(letter if letter.isprintable() else "�" for letter in text[:200])


@contextlib.contextmanager
def no_response(service: str) -> Iterator[None]:
    """Raise :class:`NoResponse` if a request to a service has no response."""
    try:
        yield
    except httpx.HTTPError as error:
        raise NoResponse(f"no response from {service}: {type(error).__name__}") from None


REQUEST_TYPE = "application/private-token-request"


class HttpIssuer:
    """An issuer behind a URL."""

    def __init__(self, url: str, *, timeout: float = 30.0, client: httpx.Client | None = None) -> None:
        self._url = service_url("the issuer's address", url)
        # A new connection per request would be slower and hide nothing: the issuer knows the accounts.
        self._client = client or httpx.Client(timeout=timeout, headers={"user-agent": ""}, trust_env=False)

    def request(self, body: bytes, code: str) -> Response:
        """Send a TokenRequest for the account with this code."""
        headers = {"content-type": REQUEST_TYPE, "authorization": f"Bearer {code}"}
        with no_response("the issuer"):
            response = bounded(self._client, "POST", f"{self._url}/token-request", content=body, headers=headers)
        if response.status_code == 200 and len(response.content) != RESPONSE_SIZE:
            raise NoResponse("no response from the issuer: it must be a signature")
        return Response(200, body=response.content) if response.status_code == 200 else read_problem(response)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
