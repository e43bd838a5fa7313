"""The relay: it forwards requests of clients to shuffler and analyzer, and strips everything that could name them.

The relay's HTTP interface: the requests of clients, forwarded without anything that could name their senders. A request
is made anew from its method, its path and its body. No header of the client is passed on, not even that of a
conditional request, because a value that a service gave to one client would name this client later. Of a response, only
status, media type, ``retry-after`` and body are passed back. The relay stores and logs nothing.
"""

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from starlette.requests import Request
from starlette.responses import Response

from hubbub.errors import Problem
from hubbub.oprf import SUITES
from hubbub.service.program import public_context
from hubbub.service.runtime.http import MEDIA_TYPE as PROBLEM_TYPE
from hubbub.service.runtime.http import App, Endpoint, RateLimiter, allow_origins, body_of, routed, task_of
from hubbub.service.runtime.metrics import Metrics, operations_app
from hubbub.service.runtime.process import PeriodicTask, ServiceFolder
from hubbub.service.runtime.server import Listener
from hubbub.service.runtime.settings import RelayConfig
from hubbub.service.task.strings import EVALUATION_TYPE, MAX_EVALUATIONS, MAX_REQUEST_SIZE
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
        task = task_of(request).hex()
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


UPSTREAM_SECONDS = 30.0
"""Seconds after which a service that does not respond counts as unreachable."""
_UPSTREAM_CONNECTIONS = 100


def connection(url: str, authority: Path | None) -> httpx.AsyncClient:
    """Return the connections to a service: the same headers for everybody, no cookies, no settings of the machine."""
    verify = ssl.create_default_context(cafile=authority) if url.startswith("https:") else True
    return httpx.AsyncClient(
        base_url=url.rstrip("/"),
        verify=verify,
        timeout=httpx.Timeout(UPSTREAM_SECONDS, connect=5.0),
        limits=httpx.Limits(max_connections=_UPSTREAM_CONNECTIONS, keepalive_expiry=60.0),
        headers={"user-agent": ""},
        trust_env=False,
    )


class RelayProgram:
    """The relay with the given settings; it has no store, no keys and no periodic tasks."""

    def __init__(self, config: RelayConfig) -> None:
        self.config, self.common = config, config.common
        self._folder = ServiceFolder(config.common.folder, "relay")
        self._draining = False

    def listeners(self) -> list[Listener]:
        """Return the listeners for clients and for operators."""
        config = self.config
        urls = {"shuffler": config.shuffler, "analyzer": config.analyzer}
        clients = {name: connection(url, config.authority) for name, url in urls.items()}
        limiter = RateLimiter(rate=config.rate, burst=config.burst, header=config.address_header)
        app = allow_origins(relay_app(clients, limiter if config.rate else None), config.origins, "content-type")
        public = public_context(config.certificate, config.certificate_key)
        metrics = Metrics(lambda: {"draining": float(self._draining)})
        return [
            Listener("requests", app, config.listen, context=public, connections=self.common.connections),
            Listener("operations", operations_app(metrics, self.ready), config.operations),
        ]

    def loops(self) -> list[PeriodicTask]:
        """Return no periodic tasks."""
        return []

    def ready(self) -> bool:
        """Return True if requests are forwarded; that the services respond is for their own operators to watch."""
        return not self._draining

    def drain(self) -> None:
        """Report that no more requests are wanted."""
        self._draining = True

    def close(self) -> None:
        """Unlock the folder; the connections belong to the event loop, and end with the process."""
        self._folder.close()
