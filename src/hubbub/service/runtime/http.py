"""HTTP in terms of ASGI: problem documents, bodies with a size limit and a deadline, responses, rate limits.

Problem documents (RFC 9457): one table of names, one JSON form. A problem has a name for programs and a detail for
people. Neither ever contains data from the request.
"""

import asyncio
import contextlib
import functools
import hashlib
import ipaddress
import logging
import os
import secrets
import socket
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hubbub.documents import Json, canonical
from hubbub.errors import FalseClaim, HubbubError, InvalidInput, Problem

MEDIA_TYPE = "application/problem+json"
"""The media type of a problem document."""
PREFIX = "urn:hubbub:problem:"
BACKLOG = 2048
"""Connections that wait to be accepted."""


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


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

log = logging.getLogger("hubbub.service")
"""Log of the services; it never contains who sent a request, nor its content."""

Endpoint = Callable[[Request], Awaitable[Response]]


def safe_message(error: BaseException) -> str:
    """Return what may be logged about an error: class and message of hubbub's errors, the class of any other.

    The messages of hubbub's errors never contain data of a request; those of other errors may.

    >>> safe_message(InvalidInput("n must be even, got 3")), safe_message(KeyError("an answer"))
    ('InvalidInput: n must be even, got 3', 'KeyError')
    """
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, HubbubError) and str(error) else name


class Gone(Exception):
    """The client disconnected."""


def declared_length(value: bytes | None, limit: int) -> int:
    """Return the value of a Content-Length header; raise if it exceeds ``limit``.

    >>> declared_length(b"12", 100)
    12
    >>> declared_length(b"101", 100)
    Traceback (most recent call last):
    hubbub.errors.Problem: too-large: a body must have at most 100 bytes
    """
    if value is None:
        raise Problem("wrong-length", "Content-Length is required")
    if not (value.isdigit() and len(value) < 16):
        raise Problem("malformed", "Content-Length must be a number")
    length = int(value)
    if length > limit:
        raise Problem("too-large", f"a body must have at most {limit} bytes")
    return length


class ArrivingBodies:
    """The bodies of which a part has arrived; when they hold too many bytes, the one that began first is dropped.

    A body that makes progress is complete within milliseconds, so the one that began first is the slowest.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._total = max_bytes, 0
        self._sizes: dict[asyncio.Timeout, int] = {}

    def add(self, body: asyncio.Timeout, size: int) -> None:
        """Count a part of a body, which is identified by its deadline."""
        self._sizes[body] = self._sizes.get(body, 0) + size
        self._total += size
        while self._total > self._max_bytes:
            first = next(iter(self._sizes))
            self.remove(first)
            if not first.expired():
                first.reschedule(asyncio.get_running_loop().time())

    def remove(self, body: asyncio.Timeout) -> None:
        """Forget a body that is complete or dropped."""
        self._total -= self._sizes.pop(body, 0)


async def read_body(
    receive: Receive, length: int, seconds: float, arriving: ArrivingBodies | None = None, *, complete: bool = False
) -> bytes:
    """Return the body; raise if it does not have the declared length, does not arrive in time, or is dropped.

    A body that is ``complete`` has arrived already and needs no deadline.
    """
    if complete:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        body = message.get("body", b"")
        if len(body) == length and not message.get("more_body", False):
            return bytes(body)
        raise Problem("wrong-length", "the length of the body is not Content-Length")
    parts: list[bytes] = []
    size = 0
    more = True
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                part = message.get("body", b"")
                more = message.get("more_body", False)
                size += len(part)
                if size > length:
                    raise Problem("wrong-length", "the body is longer than Content-Length")
                parts.append(part)
                if more and arriving is not None:
                    arriving.add(deadline, len(part))
    except TimeoutError:
        raise Problem("timeout") from None
    finally:
        if arriving is not None:
            arriving.remove(deadline)
    if size != length:
        raise Problem("wrong-length", "the body is shorter than Content-Length")
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def answer(send: Send, status: int, fields: Iterable[tuple[bytes, bytes]], body: bytes = b"") -> None:
    """Send a response."""
    await send({"type": "http.response.start", "status": status, "headers": list(fields)})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, problem: Problem, extra: Headers = ()) -> None:
    """Send a problem document."""
    status, told, body = _problem(problem.name, problem.detail, problem.retry_after, problem.index)
    await answer(send, status, [*told, *extra], body)


@functools.lru_cache(maxsize=512)
def _problem(name: str, detail: str, retry_after: int | None, index: int | None) -> tuple[int, Headers, bytes]:
    """Return status, headers and body; cached, because an overload produces thousands of equal responses."""
    problem = Problem(name, detail, retry_after=retry_after, index=index)
    body = problem_document(problem)
    told = [(name.encode(), value.encode()) for name, value in headers(problem).items()]
    return status_of(problem), [*told, (b"content-length", str(len(body)).encode())], body


def problem_of(error: Exception) -> Problem:
    """Return the problem that a client is told about an error; errors of the service are logged.

    An unexpected error becomes "unavailable", because the same request may succeed later. The error forgets where it
    came from: the frames of its traceback hold the request, and whoever holds the error would be part of a cycle with
    them, which is collected rarely.

    >>> problem_of(InvalidInput("n must be even, got 3")).name
    'malformed'
    """
    expected = isinstance(error, Problem | InvalidInput | FalseClaim)
    frames = [] if expected else traceback.extract_tb(error.__traceback__, limit=-1)
    error.__traceback__ = error.__context__ = error.__cause__ = None
    if isinstance(error, Problem):
        return error
    if isinstance(error, InvalidInput | FalseClaim):
        return Problem("malformed", str(error))
    where = f" in {frames[-1].name}, line {frames[-1].lineno}" if frames else ""
    log.error("%s%s", safe_message(error), where)
    return Problem("unavailable", retry_after=5)


def hex_id(text: str, missing: str) -> bytes:
    """Return the 16 bytes of an id in a path, written in lower-case digits; raise the problem ``missing`` otherwise.

    >>> hex_id("00112233445566778899aabbccddeeff", "not-found").hex()
    '00112233445566778899aabbccddeeff'
    """
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 16 or found.hex() != text:
        raise Problem(missing)
    return found


def task_of(request: Request) -> bytes:
    """Return the task in the path of a request."""
    return hex_id(request.path_params["task"], "unknown-task")


def batch_of(request: Request) -> str:
    """Return the id of the batch in the path of a request."""
    return hex_id(request.path_params["batch"], "not-found").hex()


async def body_of(request: Request, limit: int, seconds: float = 30.0) -> bytes:
    """Return the body of a request, of at most ``limit`` bytes."""
    value = request.headers.get("content-length")
    length = declared_length(None if value is None else value.encode(), limit)
    return await read_body(request.receive, length, seconds)


def stored(request: Request, content: bytes, kind: str = "application/json") -> Response:
    """Respond with stored content and its ETag, or with 304 if the client has it already."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    if tag in {one.strip() for one in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers={"etag": tag})
    return Response(content, media_type=kind, headers={"etag": tag})


def routed(routes: Iterable[tuple[str, str, Endpoint]]) -> App:
    """Return an application of several routes, all of whose errors are problem documents."""
    handled = [Route(path, _guarded(endpoint), methods=[method]) for method, path, endpoint in routes]
    app = Starlette(routes=handled, exception_handlers={HTTPException: _no_route})
    app.router.redirect_slashes = False
    return app


def _guarded(endpoint: Endpoint) -> Endpoint:
    async def call(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Gone:
            # Nobody reads it, but ASGI requires a response.
            return _response(Problem("timeout"))
        except Exception as error:
            return _response(problem_of(error))

    return call


async def _no_route(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    response = _response(Problem("method-not-allowed" if error.status_code == 405 else "not-found"))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _response(problem: Problem) -> Response:
    return Response(problem_document(problem), status_of(problem), headers=headers(problem))


def allow_origins(app: App, origins: Collection[str], headers: str = "content-type, if-none-match") -> App:
    """Return an application that also answers pages of these origins; without origins, the application itself.

    Requests may have the given headers. Browsers send neither cookies nor other credentials of their own. Other origins
    are answered as if there were no CORS, which is why this is not Starlette's middleware: it answers them itself.
    """
    if not origins:
        return app
    allowed = {origin.encode() for origin in origins}

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())) if scope["type"] == "http" else {}
        origin = given.get(b"origin")
        # Caches must not give the response for one origin to another.
        extra = [(b"vary", b"origin")]
        if origin is not None and origin in allowed:
            extra.append((b"access-control-allow-origin", origin))
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in given:
                extra += [
                    (b"access-control-allow-methods", b"GET, POST"),
                    (b"access-control-allow-headers", headers.encode()),
                    (b"access-control-max-age", b"7200"),
                ]
                await answer(send, 204, extra)
                return
            extra.append((b"access-control-expose-headers", b"etag, retry-after"))

        async def send_with_origin(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await app(scope, receive, send_with_origin)

    return call


class RateLimiter:
    """A token bucket of bundles per second and address, keyed by a hash whose key is discarded every hour.

    IPv6 addresses are grouped by their first 64 bits, except those that stand for an IPv4 address. A peer on this
    machine is a proxy: only a configured header can then name the sender, and without it nobody is limited. Senders
    whose address the header does not name are limited together.

    >>> limiter = RateLimiter(rate=1, burst=2)
    >>> [limiter.take("192.0.2.1", 1, now=100.0) for _ in range(3)]
    [True, True, False]
    """

    KEY_SECONDS = 3600.0
    MAX_ADDRESSES = 200_000

    def __init__(self, *, rate: float, burst: float, header: str = "") -> None:
        self.rate, self.burst, self.header = rate, burst, header.lower().encode()
        self._reset(0.0)

    def _reset(self, now: float) -> None:
        self._key = os.urandom(16)
        self._buckets: dict[bytes, tuple[float, float]] = {}
        self._key_expires = now + self.KEY_SECONDS

    def address(self, scope: Scope) -> str | None:
        """Return the address that a request counts for; None if it came through no socket, empty if none is named."""
        if self.header:
            values = [value for name, value in scope["headers"] if name == self.header]
            # The nearest proxy appends its entry; everything before it is the sender's own claim.
            return values[-1].decode("latin-1").rpartition(",")[2].strip() if values else ""
        client = scope.get("client")
        return client[0] if client else None

    def take(self, address: str, count: int, *, now: float) -> bool:
        """Count bundles of an address and return True, or return False if they exceed its rate."""
        parsed = _parsed(address)
        if parsed is not None and parsed.is_loopback and not self.header:
            return True
        if now > self._key_expires or len(self._buckets) >= self.MAX_ADDRESSES:
            self._reset(now)
        prefix = b"" if parsed is None else parsed.packed[:8]
        name = hashlib.blake2b(prefix, key=self._key, digest_size=8).digest()
        left, when = self._buckets.get(name, (self.burst, now))
        left = min(self.burst, left + (now - when) * self.rate)
        if left < count:
            return False
        self._buckets[name] = (left - count, now)
        return True


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in one of the forms that proxies write, or None.

    >>> [str(_parsed(one)) for one in ("192.0.2.1", "192.0.2.1:4711", "::ffff:192.0.2.1", "[2001:db8::1]:4711", '"x"')]
    ['192.0.2.1', '192.0.2.1', '192.0.2.1', '2001:db8::1', 'None']
    """
    text = text.strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        # A zone names an interface of this machine, not a sender.
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found


class RetryPauses:
    """Chooses ``Retry-After`` under overload, so that about a hundred requests per second are refused.

    Refusing costs time that storing needs: if every client repeats its request each second, a thousand clients take a
    fifth of the throughput. The pause therefore grows with the number of clients, and is random, so that they do not
    come back together.

    >>> pauses = RetryPauses()
    >>> pauses.after(0.0), max(pauses.after(0.5) for _ in range(1000)), 1 <= pauses.after(1.0) <= 19
    (1, 1, True)
    >>> pauses.after(60.0)
    1
    """

    PER_SECOND = 100
    LONGEST = 30

    def __init__(self) -> None:
        self._pause, self._since, self._refused = 1.0, 0.0, 0

    def after(self, now: float) -> int:
        """Return the seconds after which a request that is refused now should be repeated."""
        elapsed = now - self._since
        if elapsed >= 1.0:
            rate = self._refused / elapsed
            self._pause = min(max(self._pause * rate / self.PER_SECOND, 1.0), self.LONGEST)
            self._since, self._refused = now, 0
        self._refused += 1
        # Uniform with this mean; as precise as whole seconds allow.
        return 1 + secrets.randbelow(max(round(2 * self._pause) - 1, 1))


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free one."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise OSError(error.errno, error.strerror, f"[{host}]:{port}" if ":" in host else f"{host}:{port}") from None
    return found


class UnsignalledServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the service, which runs several servers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield
