"""The relay's HTTP interface: the requests of clients, forwarded without anything that could name their senders.

A request is made anew from its method, its path and its body. No header of the client is passed on, not even that of a
conditional request, because a value that a service gave to one client would name this client later. Of a response, only
status, media type, ``retry-after`` and body are passed back. The relay stores and logs nothing.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from starlette.requests import Request
from starlette.responses import Response

from hubbub.errors import Problem
from hubbub.oprf import SUITES
from hubbub.service.runtime.http import App, Endpoint, body_of, hex_id, routed
from hubbub.service.runtime.problems import MEDIA_TYPE as PROBLEM_TYPE
from hubbub.service.runtime.ratelimit import RateLimiter
from hubbub.service.task.evaluations import EVALUATION_TYPE, MAX_EVALUATIONS, MAX_REQUEST_SIZE
from hubbub.service.transport import MEDIA_TYPE

MAX_UPLOAD = 1 << 20
"""Bytes of the largest upload that is forwarded."""
MAX_RESPONSE = 17 << 20
"""Bytes of the largest response that is passed back: a signed contract, the largest document of a shuffler."""
BODY_SECONDS = 10.0
"""Seconds within which the body of a request must arrive."""
RETRY_SECONDS = 5
"""Seconds after which a client tries again if a service cannot be reached."""
_ELEMENT: int = min(one.ELEMENT_SIZE for one in SUITES.values())
_RESPONSE_TYPES = {"application/json", PROBLEM_TYPE, EVALUATION_TYPE}


@dataclass(frozen=True, slots=True)
class Route:
    """A request that is forwarded: where it goes to, and the media type and the most bytes of its body."""

    method: str
    path: str
    service: str
    media_type: str = ""
    limit: int = 0


ROUTES = (
    Route("GET", "/v1/tasks/{task}", "shuffler"),
    Route("GET", "/v1/tasks/{task}/keys", "shuffler"),
    Route("POST", "/v1/tasks/{task}/bundles", "shuffler", MEDIA_TYPE, MAX_UPLOAD),
    Route("POST", "/v1/tasks/{task}/evaluations", "analyzer", EVALUATION_TYPE, MAX_REQUEST_SIZE),
)
"""All requests of clients; everything else is not found."""


def relay_app(clients: Mapping[str, httpx.AsyncClient], limiter: RateLimiter | None = None) -> App:
    """Forward the requests of clients; ``clients`` are the connections to ``shuffler`` and ``analyzer``."""
    return routed([(one.method, one.path, _endpoint(one, clients[one.service], limiter)) for one in ROUTES])


def _endpoint(route: Route, client: httpx.AsyncClient, limiter: RateLimiter | None) -> Endpoint:
    async def forward(request: Request) -> Response:
        task = hex_id(request.path_params["task"], "unknown-task").hex()
        if limiter is not None:
            address = limiter.address(request.scope)
            if address is not None and not limiter.take(address, _weight(route, request), now=time.monotonic()):
                raise Problem("busy", retry_after=RETRY_SECONDS)
        body, headers = b"", {}
        if route.media_type:
            if request.headers.get("content-type") != route.media_type:
                raise Problem("wrong-media-type", f"the media type must be {route.media_type}")
            body, headers = await body_of(request, route.limit, BODY_SECONDS), {"content-type": route.media_type}
        return await _forwarded(client, route.method, route.path.format(task=task), body, headers)

    return forward


def _weight(route: Route, request: Request) -> int:
    """Return what a request counts for: one, or for evaluations one for each element that its body has room for."""
    length = request.headers.get("content-length", "")
    if route.media_type != EVALUATION_TYPE or not (length.isascii() and length.isdigit() and len(length) < 9):
        return 1
    return min(max(int(length) // _ELEMENT, 1), MAX_EVALUATIONS)


async def _forwarded(
    client: httpx.AsyncClient, method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> Response:
    """Return the response of a service, with nothing but what a client needs of it."""
    try:
        async with client.stream(method, path, content=body or None, headers=dict(headers)) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_RESPONSE:
                    raise Problem("unavailable", "the response of the service is too long", retry_after=RETRY_SECONDS)
    except httpx.HTTPError:
        # The request may have been processed: clients repeat it unchanged.
        raise Problem("unavailable", "the service cannot be reached", retry_after=RETRY_SECONDS) from None
    kind, wait = response.headers.get("content-type", ""), response.headers.get("retry-after", "")
    passed = {"retry-after": wait} if wait.isascii() and wait.isdigit() and len(wait) <= 5 else {}
    media_type = kind if kind in _RESPONSE_TYPES else None
    return Response(bytes(content), response.status_code, passed, media_type)
