"""The analyzer's two fronts: the link, on which the shuffler hands batches over, and the reading of results.

The link is for the holder of a certificate of the link's own authority, which the listener checks. Readers show a
bearer token, of which the analyzer keeps a hash. A result is answered with the same bytes for ever.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from hubbub.canonical import Json, canonical
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.http import App, body_of, hex_id, routed, stored
from hubbub.service.runtime.problems import Problem

if TYPE_CHECKING:
    from hubbub.service.analyzer.core import Analyzer

LARGEST_CHUNK = 4 << 20
"""Bytes of one part of a batch."""

LARGEST_MANIFEST = 8 << 20
"""Bytes of a manifest: its most numerous parts have a digest each."""

AT_ONCE = 4
"""Parts that are held in memory at once."""

_DIGITS = 9
"""Of the number of a part."""


def link(core: "Analyzer", arrived: Callable[[], None], *, seconds: float = 60.0) -> App:
    """``PUT /v1/batches/{id}`` and ``…/chunks/{i}``, ``GET /v1/keys``; ``arrived`` is called when there is work."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def manifest(request: Request) -> Response:
        batch = hex_id(request.path_params["batch"], "not-found").hex()
        body = await body_of(request, LARGEST_MANIFEST, seconds)
        found = await asyncio.to_thread(core.put_manifest, batch, body)
        if isinstance(found, bytes):
            reach("receipt-answered")
            return Response(found, media_type="application/json")
        if not found:
            arrived()
        missing: list[Json] = list(found)
        headers = {} if found else {"retry-after": "1"}
        return Response(canonical({"missing": missing}), 202, headers, "application/json")

    async def chunk(request: Request) -> Response:
        batch = hex_id(request.path_params["batch"], "not-found").hex()
        index = request.path_params["index"]
        if not (index.isascii() and index.isdigit() and len(index) <= _DIGITS):
            raise Problem("not-found")
        async with turns:
            body = await body_of(request, LARGEST_CHUNK, seconds)
            await asyncio.to_thread(core.put_chunk, batch, int(index), body)
        return Response(status_code=204)

    async def keys(request: Request) -> Response:
        return stored(request, await asyncio.to_thread(core.keys_document))

    return routed(
        [
            ("PUT", "/v1/batches/{batch}", manifest),
            ("PUT", "/v1/batches/{batch}/chunks/{index}", chunk),
            ("GET", "/v1/keys", keys),
        ]
    )


def results(core: "Analyzer") -> App:
    """``GET /v1/tasks``, ``/v1/tasks/{task}/batches`` and ``/v1/batches/{id}``, with a bearer token."""

    async def token_of(request: Request) -> str:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or await asyncio.to_thread(core.archive.scope, token) is None:
            raise Problem("unauthorized")
        return token

    async def tasks(request: Request) -> Response:
        token = await token_of(request)

        def find() -> list[Json]:
            return [task for task in sorted(core.contracts()) if core.authorize(token, task)]

        return stored(request, canonical({"tasks": await asyncio.to_thread(find)}))

    async def batches(request: Request) -> Response:
        token = await token_of(request)
        task = hex_id(request.path_params["task"], "unknown-task")
        if not await asyncio.to_thread(core.authorize, token, task.hex()):
            raise Problem("forbidden")
        found: list[Json] = list(await asyncio.to_thread(core.batches, task))
        return stored(request, canonical({"batches": found}))

    async def batch(request: Request) -> Response:
        token = await token_of(request)
        name = hex_id(request.path_params["batch"], "not-found").hex()
        found = await asyncio.to_thread(core.archive.find, name)
        if found is None:
            raise Problem("not-found")
        if not await asyncio.to_thread(core.authorize, token, found.task.hex()):
            raise Problem("forbidden")
        result = await asyncio.to_thread(core.result, name)
        if result is None:
            raise Problem("not-found", "the batch is not counted yet", retry_after=1)
        return stored(request, result)

    return routed(
        [
            ("GET", "/v1/tasks", tasks),
            ("GET", "/v1/tasks/{task}/batches", batches),
            ("GET", "/v1/batches/{batch}", batch),
        ]
    )
