"""The requests of the live page: the newest state, a window of a series, rows of batches, and a stream of changes."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from hubbub.errors import CommandFailure, HubbubError, InvalidInput
from hubbub.studio.live.batches import LARGEST

if TYPE_CHECKING:
    # The feed needs the extra 'serve'; a studio without a collection does not.
    from hubbub.studio.live.feed import LiveFeed

RETRY_MS = 1000
"""Time after which a page whose stream broke connects again."""
NO_STORE = {"cache-control": "no-store"}
Handler = Callable[[Request], Awaitable[Response]]


def live_routes(feed: "LiveFeed | None") -> list[Route]:
    """Return the routes of the live page; without a feed, the page is told that nothing is connected."""
    return [
        Route("/api/live/overview", _answering(_overview, feed)),
        Route("/api/live/view", _answering(_view, feed)),
        Route("/api/live/batches", _answering(_batches, feed)),
        Route("/api/live/events", _streaming(feed)),
    ]


def _overview(feed: "LiveFeed", request: Request) -> dict[str, Any]:
    del request
    return {"connected": True, **feed.overview()}


def _view(feed: "LiveFeed", request: Request) -> dict[str, Any]:
    query = request.query_params
    task = feed.task(query.get("task", ""))
    size, points = _whole(request, "size", 0), _whole(request, "points", 240)
    return {"id": feed.event_id, **task.view(query.get("question", ""), size=size, points=points, **_place(request))}


def _batches(feed: "LiveFeed", request: Request) -> dict[str, Any]:
    task = feed.task(request.query_params.get("task", ""))
    return {"id": feed.event_id, **task.page(_whole(request, "count", 25), **_place(request))}


def _place(request: Request) -> dict[str, int]:
    """Return where a request wants batches: up to a bucket, or the next ones before or after one."""
    return {name: _whole(request, name, default) for name, default in (("last", LARGEST), ("before", 0), ("after", 0))}


def _whole(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise InvalidInput(f"{name} must be a whole number")
    return int(text)


def _answering(answer: Callable[["LiveFeed", Request], dict[str, Any]], feed: "LiveFeed | None") -> Handler:
    async def handle(request: Request) -> Response:
        if feed is None:
            return _json({"connected": False})
        try:
            return _json(answer(feed, request))
        except CommandFailure as error:
            return _json({"error": str(error)}, 404)
        except HubbubError as error:
            return _json({"error": str(error)}, 422)

    return handle


def _streaming(feed: "LiveFeed | None") -> Handler:
    async def handle(request: Request) -> Response:
        if feed is None:
            return _json({"connected": False}, 404)
        if feed.full:
            return _json({"error": "too many tabs are open"}, 503)
        seen = request.headers.get("last-event-id", "")
        return StreamingResponse(_messages(feed, seen), media_type="text/event-stream", headers=NO_STORE)

    return handle


async def _messages(feed: "LiveFeed", seen: str) -> AsyncIterator[bytes]:
    """Yield messages as a browser's EventSource reads them."""
    yield f"retry: {RETRY_MS}\n\n".encode()
    async for event in feed.events(seen):
        if event is None:
            yield f"event: alive\ndata: {json.dumps(feed.as_of)}\n\n".encode()
        else:
            name, content = event
            yield f"id: {name}\nevent: overview\ndata: {json.dumps(content, allow_nan=False)}\n\n".encode()


def _json(value: dict[str, Any], status: int = 200) -> Response:
    """Return an answer in ASCII: a text of an analyzer may hold half a character, which has no other bytes."""
    return Response(json.dumps(value, allow_nan=False), status, NO_STORE, "application/json")
