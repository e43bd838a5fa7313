"""Call an ASGI application without a socket."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hubbub.service.runtime.http import App

Message = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes
    received: int
    """Number of times the application received a part of the body."""


async def ask(
    app: App,
    method: str,
    path: str,
    body: bytes | Iterable[bytes | None] = b"",
    headers: dict[str, str] | None = None,
    client: str | None = "192.0.2.1",
) -> Answer | None:
    """Send one request; None as a part of the body is a lost connection, parts that end early are a slow sender."""
    told = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    parts = [body] if isinstance(body, bytes) else list(body)
    received = 0
    sent: list[Message] = []

    async def receive() -> Message:
        nonlocal received
        received += 1
        if received > len(parts):
            await asyncio.Event().wait()
        part = parts[received - 1]
        if part is None:
            return {"type": "http.disconnect"}
        more = received < len(parts) or not isinstance(body, bytes)
        return {"type": "http.request", "body": part, "more_body": more and part != b"."} | (
            {"body": b""} if part == b"." else {}
        )

    async def send(message: Any) -> None:
        sent.append(dict(message))

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query.encode(),
        "headers": told,
        "client": (client, 1) if client else None,
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    if not sent:
        return None
    start, *rest = sent
    assert start["type"] == "http.response.start"
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    assert len(found) == len(start["headers"])
    return Answer(start["status"], found, b"".join(part.get("body", b"") for part in rest), received)


def one(
    app: App,
    method: str,
    path: str,
    body: bytes | Iterable[bytes | None] = b"",
    headers: dict[str, str] | None = None,
    client: str | None = "192.0.2.1",
) -> Answer:
    """Send one request in a new event loop and return its response."""
    found = asyncio.run(ask(app, method, path, body, headers, client))
    assert found is not None
    return found
