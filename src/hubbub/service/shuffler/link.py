"""The connection to the analyzer: HTTPS with certificates on both sides."""

import re
import ssl

import httpx

from hubbub.documents import Fields, parse
from hubbub.errors import AnalyzerUnreachable, Problem, WireError

MAX_RESPONSE_SIZE = 16 << 20
"""Largest response in bytes; key lists and lists of missing chunks are far smaller."""


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
        """Announce a batch; return its receipt, or the indices of the missing chunks.

        Raise the problem ``fenced`` if the analyzer has another manifest for this bucket.
        """
        status, body = self._request("PUT", f"/v1/batches/{batch}", document, {200, 202, 409})
        if status == 409:
            problem = _problem_name(body)
            if problem not in ("", " (fenced)"):
                # A bucket is given up only if the analyzer says so.
                raise AnalyzerUnreachable(f"the analyzer responded 409{problem}")
            # The body is the other manifest; it is read from its own address, where nothing else can be in its place.
            raise Problem("fenced")
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

    def manifest(self, batch: str) -> bytes | None:
        """Return the manifest that the analyzer has for a batch; None if it knows no such batch."""
        status, body = self._request("GET", f"/v1/batches/{batch}/manifest", None, {200, 404})
        return body if status == 200 else None

    def counter(self, task: str) -> bytes:
        """Return the analyzer's signed counter of the buckets announced for a task."""
        return self._request("GET", f"/v1/tasks/{task}/counter", None, {200})[1]

    def put_keys_in_use(self, task: str, document: bytes) -> None:
        """Send the signed statement of the analyzer's keys that undelivered reports are sealed to."""
        self._request("PUT", f"/v1/tasks/{task}/keys-in-use", document, {204})

    def keys(self) -> bytes:
        """Return the analyzer's signed key list."""
        return self._request("GET", "/v1/keys", None, {200})[1]

    def tag_keys(self, task: str) -> bytes:
        """Return the analyzer's signed tag keys of a task of strings."""
        return self._request("GET", f"/v1/tasks/{task}/tags", None, {200})[1]

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
