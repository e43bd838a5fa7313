"""``Guard``: refuses requests from other sites and for other hosts; the page may load nothing from elsewhere."""

from collections.abc import MutableMapping
from typing import Any

from starlette.responses import PlainTextResponse

from hubbub.service.runtime.http import App, Receive, Scope, Send

PLOT_STYLE = "sha256-+TfQir1nvDucAdvE6XUQBt4ayUjpAWkbw2kCdSfekHM="
"""Digest of the one style element that Observable Plot writes into a chart whose class is ``plot``."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' '{PLOT_STYLE}'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
)
LARGEST = 1 << 20
"""Largest body of a request in bytes."""


class Guard:
    """An ASGI application that passes on what its own page sends, and nothing else."""

    def __init__(self, app: App, hosts: tuple[str, ...]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = self._refused(scope)
        answer = PlainTextResponse(refused[1], refused[0]) if refused else self._app

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await answer(scope, receive, with_headers)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the reason for which a request is refused."""
        given: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        hosts, origins = given.get("host", []), given.get("origin", [])
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return 421, "the studio answers for its own address only"
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return 403, "the studio answers to its own page only"
        own = all(site in ("same-origin", "none") for site in given.get("sec-fetch-site", []))
        if not own and not _opens_a_page(scope, given):
            return 403, "the studio answers to its own page only"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "the studio knows GET and POST only"
        if scope["method"] == "POST":
            return _refused_body(given)
        return None


def _opens_a_page(scope: Scope, given: dict[str, list[str]]) -> bool:
    """Return True if somebody follows a link to a page in a tab of its own: the other site learns nothing by that."""
    goes = given.get("sec-fetch-mode") == ["navigate"] and given.get("sec-fetch-dest") == ["document"]
    return goes and scope["method"] == "GET" and not scope["path"].startswith("/api/")


def _refused_body(given: dict[str, list[str]]) -> tuple[int, str] | None:
    kind = given.get("content-type", [""])[0].partition(";")[0].strip().lower()
    if kind != "application/json":
        return 415, "the body must be application/json"
    length = given.get("content-length", [""])[0]
    if not length.isdecimal():
        return 411, "the length of the body must be given"
    return (413, f"the body must have at most {LARGEST:,} bytes") if int(length[:12]) > LARGEST else None
