"""The analyzer's two HTTP interfaces: delivery, used by the shuffler, and results, used by readers.

The listener of the delivery interface accepts only certificates of its own authority. Readers present a bearer token,
of which the analyzer stores a hash. The bytes of a result never change.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from hubbub.documents import Json, canonical
from hubbub.errors import Problem
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.http import App, batch_of, body_of, routed, stored, task_of
from hubbub.service.task.manifest import CHUNK_SIZE
from hubbub.service.task.strings import EVALUATION_TYPE, MAX_REQUEST_SIZE

if TYPE_CHECKING:
    from hubbub.service.analyzer.core import Analyzer

MAX_MANIFEST_SIZE = 8 << 20
"""Largest manifest in bytes, with a digest and a size for each of the most chunks."""
MAX_STATEMENT_SIZE = 1 << 20
"""Largest statement of the keys in use in bytes, with every possible key id."""
MAX_RESULTS, MAX_RESULTS_SIZE = 100, 4 << 20
"""Number and bytes of the results in one answer, at most."""
_CONCURRENT_CHUNKS = 4
"""Chunks held in memory at the same time."""
_CONCURRENT_EVALUATIONS = 8
_INDEX_DIGITS = 9
_BUCKET_DIGITS = 15


def delivery_app(core: "Analyzer", on_arrival: Callable[[], None], *, seconds: float = 60.0) -> App:
    """Serve the shuffler: batches, their stored manifests, keys, counters and statements of the keys in use.

    ``on_arrival`` is called when a chunk has arrived and when a batch is complete.
    """
    slots = asyncio.Semaphore(_CONCURRENT_CHUNKS)

    async def announce(request: Request) -> Response:
        batch, body = batch_of(request), await body_of(request, MAX_MANIFEST_SIZE, seconds)
        answer = await asyncio.to_thread(core.put_manifest, batch, body)
        if isinstance(answer, bytes):
            reach("receipt-answered")
            return Response(answer, media_type="application/json")
        if not answer:
            on_arrival()
        missing: list[Json] = list(answer)
        headers = {} if answer else {"retry-after": "1"}
        return Response(canonical({"missing": missing}), 202, headers, "application/json")

    async def manifest(request: Request) -> Response:
        return stored(request, await asyncio.to_thread(core.manifest, batch_of(request)))

    async def chunk(request: Request) -> Response:
        batch, index = batch_of(request), request.path_params["index"]
        if not (index.isascii() and index.isdigit() and len(index) <= _INDEX_DIGITS):
            raise Problem("not-found")
        async with slots:
            body = await body_of(request, CHUNK_SIZE, seconds)
            await asyncio.to_thread(core.put_chunk, batch, int(index), body)
        on_arrival()
        return Response(status_code=204)

    async def keys(request: Request) -> Response:
        return stored(request, await asyncio.to_thread(core.keys_document))

    async def tags(request: Request) -> Response:
        return stored(request, await asyncio.to_thread(core.tag_keys_document, task_of(request)))

    async def counter(request: Request) -> Response:
        return stored(request, await asyncio.to_thread(core.counter, task_of(request)))

    async def keys_in_use(request: Request) -> Response:
        task, body = task_of(request), await body_of(request, MAX_STATEMENT_SIZE, seconds)
        await asyncio.to_thread(core.put_keys_in_use, task, body)
        return Response(status_code=204)

    return routed(
        [
            ("PUT", "/v1/batches/{batch}", announce),
            ("GET", "/v1/batches/{batch}/manifest", manifest),
            ("PUT", "/v1/batches/{batch}/chunks/{index}", chunk),
            ("GET", "/v1/keys", keys),
            ("GET", "/v1/tasks/{task}/tags", tags),
            ("GET", "/v1/tasks/{task}/counter", counter),
            ("PUT", "/v1/tasks/{task}/keys-in-use", keys_in_use),
        ]
    )


def evaluation_app(core: "Analyzer") -> App:
    """Serve ``POST /v1/tasks/{task}/evaluations`` to clients, whose requests the relay forwards."""
    slots = asyncio.Semaphore(_CONCURRENT_EVALUATIONS)

    async def evaluate(request: Request) -> Response:
        if request.headers.get("content-type") != EVALUATION_TYPE:
            raise Problem("wrong-media-type", f"the media type must be {EVALUATION_TYPE}")
        task, body = task_of(request), await body_of(request, MAX_REQUEST_SIZE)
        async with slots:
            made = await asyncio.to_thread(core.evaluations.evaluate, task, body)
        return Response(made, media_type=EVALUATION_TYPE)

    return routed([("POST", "/v1/tasks/{task}/evaluations", evaluate)])


def _bucket(request: Request, name: str, default: int) -> int:
    """Return the bucket that the query names, or the default."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= _BUCKET_DIGITS):
        raise Problem("malformed", f"{name} must be the number of a bucket, of at most {_BUCKET_DIGITS} digits")
    return int(text)


def _listed(results: Sequence[bytes]) -> bytes:
    """Return as many stored results as an answer may hold, at least one if there is one, as a JSON object."""
    sizes = itertools.accumulate(map(len, results))
    count = max(sum(size <= MAX_RESULTS_SIZE for size in sizes), min(len(results), 1))
    return b'{"results":[' + b",".join(results[:count]) + b"]}"


def results_app(core: "Analyzer") -> App:
    """Serve tasks, the batches and results of a task, and the result of a batch to holders of a bearer token."""

    async def token_of(request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise Problem("unauthorized")
        if await asyncio.to_thread(core.scope, token) is None:
            raise Problem("unauthorized", "the token is unknown, revoked or expired")
        return token

    async def readable_task(request: Request) -> bytes:
        token, task = await token_of(request), task_of(request)
        if not await asyncio.to_thread(core.authorize, token, task.hex()):
            raise Problem("forbidden")
        return task

    async def tasks(request: Request) -> Response:
        token = await token_of(request)

        def readable() -> list[Json]:
            return [task for task in sorted(core.contracts()) if core.authorize(token, task)]

        return stored(request, canonical({"tasks": await asyncio.to_thread(readable)}))

    async def batches(request: Request) -> Response:
        task = await readable_task(request)
        finished: list[Json] = list(await asyncio.to_thread(core.batches, task, _bucket(request, "after", 0)))
        gaps: list[Json] = list(await asyncio.to_thread(core.gaps, task))
        return stored(request, canonical({"batches": finished, "gaps": gaps}))

    async def results(request: Request) -> Response:
        task = await readable_task(request)
        if task.hex() not in core.contracts():
            raise Problem("unknown-task")
        after, last = _bucket(request, "after", 0), _bucket(request, "last", 10**_BUCKET_DIGITS - 1)
        found = await asyncio.to_thread(core.store.results, task, after, last, MAX_RESULTS)
        return stored(request, _listed(found))

    async def batch(request: Request) -> Response:
        token, batch_id = await token_of(request), batch_of(request)
        row = await asyncio.to_thread(core.store.find, batch_id)
        if row is None:
            raise Problem("not-found")
        if not await asyncio.to_thread(core.authorize, token, row.task.hex()):
            raise Problem("forbidden")
        result = await asyncio.to_thread(core.store.result, batch_id)
        if result is None:
            raise Problem("not-found", "the batch is not counted yet", retry_after=1)
        return stored(request, result)

    return routed(
        [
            ("GET", "/v1/tasks", tasks),
            ("GET", "/v1/tasks/{task}/batches", batches),
            ("GET", "/v1/tasks/{task}/results", results),
            ("GET", "/v1/batches/{batch}", batch),
        ]
    )
