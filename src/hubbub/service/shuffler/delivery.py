"""The delivery of batches to the analyzer; a batch is erased only when a valid receipt proves its result durable."""

import re
import ssl
from typing import Protocol

import httpx

from hubbub.canonical import Fields, parse
from hubbub.errors import AnalyzerUnreachable, WireError
from hubbub.service.runtime.failpoints import reach
from hubbub.service.shuffler.store import Batch, ShufflerStore
from hubbub.service.shuffler.tasks import TaskRegistry
from hubbub.service.task.manifest import check_receipt

MAX_RESPONSE_SIZE = 16 << 20
"""Largest response in bytes; key lists and lists of missing chunks are far smaller."""


class AnalyzerClient(Protocol):
    """Requests to the analyzer; a request that fails may have been processed."""

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch; return its receipt if its result is durable, otherwise the missing chunks."""

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Send a chunk of an announced batch."""

    def keys(self) -> bytes:
        """Return the analyzer's signed key list."""


def deliver_all(store: ShufflerStore, tasks: TaskRegistry, client: AnalyzerClient) -> bool:
    """Try once to deliver every waiting batch, and return True if any is left.

    A batch that fails does not hold up the others; the first failure is raised after all were tried.
    """
    failure: Exception | None = None
    for batch in store.outbox():
        try:
            _deliver(store, tasks, batch, client)
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return bool(store.outbox())


def _deliver(store: ShufflerStore, tasks: TaskRegistry, batch: Batch, client: AnalyzerClient) -> None:
    reach("deliver-manifest")
    answer = client.put_manifest(batch.id, batch.manifest)
    if isinstance(answer, list) and answer:
        for index in answer:
            reach("deliver-chunk")
            client.put_chunk(batch.id, index, store.chunk(batch.id, index))
            reach("deliver-chunk-sent")
        answer = client.put_manifest(batch.id, batch.manifest)
    if isinstance(answer, list):
        return
    reach("deliver-receipt")
    check_receipt(answer, tasks.contract(batch.task).analyzer, batch.id, batch.task, batch.manifest)
    store.erase(batch, answer)


class HttpsAnalyzerClient:
    """A kept-alive HTTPS connection to the analyzer, for one thread; every failure is one exception."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None, *, seconds: float = 60.0) -> None:
        timeout = httpx.Timeout(seconds, connect=min(seconds, 10.0))
        limits = httpx.Limits(max_connections=2, keepalive_expiry=60.0)
        url, verify = address.rstrip("/"), True if context is None else context
        # The machine's proxy settings and netrc are for browsers, not for this connection.
        self._client = httpx.Client(base_url=url, verify=verify, timeout=timeout, limits=limits, trust_env=False)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch; return its receipt, or the indices of the missing chunks."""
        status, body = self._request("PUT", f"/v1/batches/{batch}", document, {200, 202})
        if status == 200:
            return body
        try:
            items = Fields(parse(body, "the response"), "the response", "missing").items("missing")
        except WireError:
            items = [None]
        missing = [index for index in items if isinstance(index, int) and not isinstance(index, bool)]
        if missing != items:
            raise AnalyzerUnreachable("the analyzer's response violates the protocol")
        return missing

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Send a chunk of an announced batch."""
        self._request("PUT", f"/v1/batches/{batch}/chunks/{index}", data, {204})

    def keys(self) -> bytes:
        """Return the analyzer's signed key list."""
        return self._request("GET", "/v1/keys", None, {200})[1]

    def _request(self, method: str, path: str, content: bytes | None, expected: set[int]) -> tuple[int, bytes]:
        try:
            with self._client.stream(method, path, content=content) as response:
                body = bytearray()
                for part in response.iter_raw():
                    body += part
                    if len(body) > MAX_RESPONSE_SIZE:
                        raise AnalyzerUnreachable(f"the analyzer's response exceeds {MAX_RESPONSE_SIZE:,} bytes")
        except (httpx.HTTPError, ssl.SSLError, OSError) as error:
            raise AnalyzerUnreachable(f"the analyzer could not be reached: {type(error).__name__}") from None
        if response.status_code not in expected:
            raise AnalyzerUnreachable(f"the analyzer responded {response.status_code}{_problem_name(bytes(body))}")
        return response.status_code, bytes(body)


def _problem_name(body: bytes) -> str:
    """Return the name of the problem in a response, if any; nothing else of a response is logged.

    >>> _problem_name(b'{"type":"urn:hubbub:problem:conflict"}')
    ' (conflict)'
    """
    found = re.search(rb'"urn:hubbub:problem:([a-z-]{1,32})"', body[:4096])
    return f" ({found[1].decode()})" if found else ""
