"""Read an analyzer's results and the public figures of both services, asynchronously and with bounded answers."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from hubbub.errors import CommandFailure, WireError
from hubbub.studio.live.batches import is_whole
from hubbub.studio.live.source import trusted

MAX_ANSWER = 64 << 20
"""Largest answer in bytes: a listing of 10,000 batches has 3 MB."""
SECONDS = 10.0
"""Time for a connection, and for each part of an answer."""
LONGEST = 60.0
"""Time for a whole answer: one that trickles must not hold up the page for ever."""
CONNECTIONS = 8
MAX_TASKS, LONGEST_ID = 200, 64
"""Tasks of an analyzer that are followed, and characters of the id of one: each is asked for, and told to every tab."""
LONGEST_TAG = 256
"""Characters of the version of a listing, which every request for the next one repeats."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The finished batches of a task after a bucket, and its gaps."""

    batches: tuple[dict[str, Any], ...]
    gaps: tuple[dict[str, Any], ...]
    tag: str
    """The version of the listing."""


class LiveClient:
    """An asynchronous client of an analyzer's results and of operations addresses."""

    def __init__(self, authority: Path | None = None, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._client = httpx.AsyncClient(
            verify=trusted(authority),
            trust_env=False,
            timeout=SECONDS,
            limits=httpx.Limits(max_connections=CONNECTIONS),
            headers={"user-agent": "", "accept-encoding": "identity"},
            transport=transport,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def tasks(self, url: str, token: str) -> list[str]:
        """Return the ids of the tasks that the token may read."""
        found = await self._object(f"{url}/v1/tasks", token)
        named = [
            one for one in _list(found, "tasks") if isinstance(one, str) and one.isalnum() and len(one) <= LONGEST_ID
        ]
        return named[:MAX_TASKS]

    async def listing(self, url: str, token: str, task: str, *, after: int = 0, tag: str = "") -> Listing | None:
        """Return the batches of a task after a bucket; None if nothing has changed since the listing ``tag``."""
        headers = {"if-none-match": tag} if tag else {}
        status, answered, body = await self._get(f"{url}/v1/tasks/{task}/batches?after={after}", token, headers)
        if status == 304:
            return None
        found = _object(status, body, token)
        batches = tuple(one for one in _list(found, "batches") if isinstance(one, dict) and _placed(one))
        gaps = tuple(one for one in _list(found, "gaps") if isinstance(one, dict) and _spans(one))
        return Listing(batches, gaps, _tag(answered.get("etag", "")))

    async def results(self, url: str, token: str, task: str, *, first: int, last: int) -> list[dict[str, Any]]:
        """Return results of the buckets ``first`` to ``last``: the first ones, as many as fit into an answer."""
        found = await self._object(f"{url}/v1/tasks/{task}/results?after={first - 1}&last={last}", token)
        return [one for one in _list(found, "results") if isinstance(one, dict) and _placed(one)]

    async def ready(self, url: str) -> bool:
        """Return True if a service is ready."""
        status, _, _ = await self._get(f"{url}/readyz", None, {})
        return status == 200

    async def metrics(self, url: str) -> str:
        """Return the metrics of a service."""
        status, _, body = await self._get(f"{url}/metrics", None, {})
        if status != 200:
            raise CommandFailure(
                f"/metrics answered with status {status}; the address may not be an operations address"
            )
        return body.decode("utf-8", "replace")

    async def _object(self, address: str, token: str) -> dict[str, Any]:
        status, _, body = await self._get(address, token, {})
        return _object(status, body, token)

    async def _get(self, address: str, token: str | None, headers: dict[str, str]) -> tuple[int, httpx.Headers, bytes]:
        """Return status, headers and body; the address of the service is in no message, as it may hold a token."""
        if token is not None:
            headers = {**headers, "authorization": f"Bearer {token}"}
        try:
            async with asyncio.timeout(LONGEST), self._client.stream("GET", address, headers=headers) as response:
                if response.headers.get("content-encoding", "").lower() not in ("", "identity"):
                    # A few bytes can be decoded to more than the memory holds before they are counted.
                    raise WireError("an answer of a service must not be compressed")
                parts, size = [], 0
                async for part in response.aiter_bytes():
                    size += len(part)
                    if size > MAX_ANSWER:
                        raise WireError(f"an answer of a service must have at most {MAX_ANSWER:,} bytes")
                    parts.append(part)
                return response.status_code, response.headers, b"".join(parts)
        except (httpx.HTTPError, OSError) as error:
            raise CommandFailure(
                f"no answer ({type(error).__name__}): check the address, and whether the service runs"
            ) from None


def _object(status: int, body: bytes, token: str) -> dict[str, Any]:
    """Return the object of an answer; a refusal that repeats the token, as some proxies do, is shown without it."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if status != 200:
        told = found if isinstance(found, dict) else {}
        reason = told.get("detail") or told.get("title") or f"status {status}"
        raise CommandFailure(f"the analyzer refused the request: {str(reason).replace(token, '…')[:300]}")
    if not isinstance(found, dict):
        raise WireError("the answer must be a JSON object; the address may not be that of an analyzer")
    return found


def _list(found: dict[str, Any], name: str) -> list[Any]:
    values = found.get(name)
    if not isinstance(values, list):
        raise WireError(f"the answer must have a list of {name}; the address may not be that of an analyzer")
    return values


def _placed(one: dict[str, Any]) -> bool:
    """Return True if a listed batch has the entries by which it is ordered and fetched."""
    return isinstance(one.get("batch"), str) and is_whole(one.get("bucket")) and one["batch"].isalnum()


def _spans(one: dict[str, Any]) -> bool:
    """Return True if a gap has its first and its last bucket."""
    return is_whole(one.get("first")) and is_whole(one.get("last"))


def _tag(text: str) -> str:
    """Return the version of a listing; none if no header may repeat it, or all later requests would fail."""
    return text if text.isascii() and text.isprintable() and len(text) <= LONGEST_TAG else ""
