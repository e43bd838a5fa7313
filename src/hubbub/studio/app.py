"""The web application of the studio: pages, what they load, and the answers of the desk."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from hubbub.documents import Json, parse
from hubbub.errors import HubbubError
from hubbub.service.runtime.http import App
from hubbub.studio.desk import Desk, Forgotten
from hubbub.studio.guard import LARGEST, Guard
from hubbub.studio.site import PAGES, STATIC, Page, rendered
from hubbub.studio.workers import Workers

log = logging.getLogger("hubbub.studio")
Handler = Callable[[Request], Awaitable[Response]]
COMPRESSED = 1024  # bytes from which on a response is compressed


def create_app(
    workers: Workers, hosts: tuple[str, ...], *, pages: tuple[Page, ...] = PAGES, routes: Sequence[BaseRoute] = ()
) -> App:
    """Return the application that answers for the given hosts, with ``routes`` for the requests of further pages."""
    desk = Desk(workers)
    answers = [
        Route(f"/api/{answer.__name__}", answering(answer), methods=["POST"])
        for answer in (desk.outline, desk.preliminary, desk.simulate, desk.attack, desk.solve, desk.report)
    ]
    listed: list[BaseRoute] = [
        *(Route(page.path, _page(page, pages)) for page in pages),
        *answers,
        Route("/api/certify", _streaming(desk), methods=["POST"]),
        *routes,
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    compress = Middleware(GZipMiddleware, minimum_size=COMPRESSED)
    inner = Starlette(
        routes=listed, middleware=[compress], exception_handlers={HTTPException: _problem, Exception: _fault}
    )
    return Guard(inner, hosts)


def answering(answer: Callable[[Json], Awaitable[dict[str, Any]]]) -> Handler:
    """Return the handler that passes a JSON body on and returns JSON."""

    async def handle(request: Request) -> Response:
        asked = asyncio.ensure_future(_told(answer, await body(request)))
        gone = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait({asked, gone}, return_when=asyncio.FIRST_COMPLETED)
            return _json(await asked if asked.done() else {})
        finally:
            asked.cancel()
            gone.cancel()

    return handle


async def _gone(request: Request) -> None:
    """Wait until the reader hangs up: work for a tab that was closed keeps the others waiting."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def body(request: Request) -> Json:
    """Return the JSON body of a request, of limited size."""
    parts, size = [], 0
    try:
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                raise HTTPException(413, "the body is too large")
    except ClientDisconnect:
        raise HTTPException(400, "the body is not complete") from None
    try:
        return parse(b"".join(parts), "the body")
    except HubbubError as error:
        raise HTTPException(422, str(error)) from None


async def _told(answer: Callable[[Json], Awaitable[Any]], given: Json) -> Any:
    try:
        return await answer(given)
    except Forgotten:
        raise HTTPException(404, "the studio does not know this plan any more; reload the page") from None
    except HubbubError as error:
        raise HTTPException(422, str(error)) from None


def _streaming(desk: Desk) -> Handler:
    async def handle(request: Request) -> Response:
        lines = await _told(desk.certify, await body(request))
        return StreamingResponse(lines, media_type="application/x-ndjson", headers={"cache-control": "no-store"})

    return handle


def _page(page: Page, pages: tuple[Page, ...]) -> Handler:
    async def handle(request: Request) -> Response:
        del request
        return HTMLResponse(rendered(page, pages), headers={"cache-control": "no-cache"})

    return handle


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return JSONResponse(value, status, headers={"cache-control": "no-store"})


async def _fault(request: Request, error: Exception) -> Response:
    """Answer a fault of hubbub by its kind and place: its text may hold people's answers."""
    del request
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}" if place is not None else "unknown"
    log.error("internal error: %s in %s", type(error).__name__, where)
    return _json({"error": f"internal error: {type(error).__name__}"}, 500)


async def _problem(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code)
