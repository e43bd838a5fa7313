"""Cross-origin requests of web pages (CORS, Fetch standard section 3.2): answered for configured origins only."""

from collections.abc import Collection, MutableMapping
from typing import Any

from hubbub.service.runtime.http import App, Receive, Scope, Send, answer

_METHODS = b"GET, POST"
_MAX_AGE = b"7200"


def allow_origins(app: App, origins: Collection[str], headers: str = "content-type, if-none-match") -> App:
    """Return an application that also answers pages of these origins; without origins, the application itself.

    Requests may have the given headers. Browsers send neither cookies nor other credentials of their own.
    """
    if not origins:
        return app
    allowed = {origin.encode() for origin in origins}

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())) if scope["type"] == "http" else {}
        origin = given.get(b"origin")
        # Caches must not give the response for one origin to another.
        extra = [(b"vary", b"origin")]
        if origin in allowed:
            extra.append((b"access-control-allow-origin", origin))
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in given:
                extra += [
                    (b"access-control-allow-methods", _METHODS),
                    (b"access-control-allow-headers", headers.encode()),
                    (b"access-control-max-age", _MAX_AGE),
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
