"""HTTP requests and responses in terms of ASGI: bodies with a size limit and a deadline, responses, problems."""

import asyncio
import functools
import hashlib
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hubbub.errors import FalseClaim, HubbubError, InvalidInput, Problem
from hubbub.service.runtime.problems import headers, problem_document, status_of

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
