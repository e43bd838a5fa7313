"""The shuffler's side of the link: HTTPS with certificates on both sides; whatever goes wrong is one error."""

import re
import ssl
from types import TracebackType
from typing import Self

import httpx

from hubbub.canonical import as_whole, fields, parse
from hubbub.errors import LinkFailure, WireError

LARGEST_ANSWER = 16 << 20
"""Bytes of an answer: a list of keys or of missing parts is far smaller."""


class HttpsLink:
    """A connection to the analyzer, kept alive; for one thread."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None, *, seconds: float = 60.0) -> None:
        timeout = httpx.Timeout(seconds, connect=min(seconds, 10.0))
        limits = httpx.Limits(max_connections=2, keepalive_expiry=60.0)
        # The machine's proxy settings and netrc are for browsers, not for this link.
        self._client = httpx.Client(
            base_url=address.rstrip("/"),
            verify=True if context is None else context,
            timeout=timeout,
            limits=limits,
            trust_env=False,
        )

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch: its receipt, or the numbers of the parts that are missing."""
        status, body = self._ask("PUT", f"/v1/batches/{batch}", document, {200, 202})
        if status == 200:
            return body
        try:
            missing = fields(parse(body, "an answer"), "an answer", {"missing": _wholes})["missing"]
        except WireError:
            raise LinkFailure("the analyzer answered something else than the protocol allows") from None
        assert isinstance(missing, list)
        return missing

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Hand a part over."""
        self._ask("PUT", f"/v1/batches/{batch}/chunks/{index}", data, {204})

    def keys(self) -> bytes:
        """The analyzer's signed list of keys."""
        return self._ask("GET", "/v1/keys", None, {200})[1]

    def _ask(self, method: str, path: str, content: bytes | None, good: set[int]) -> tuple[int, bytes]:
        try:
            with self._client.stream(method, path, content=content) as answer:
                body = bytearray()
                for part in answer.iter_raw():
                    body += part
                    if len(body) > LARGEST_ANSWER:
                        raise LinkFailure("the analyzer answered more than the protocol allows")
        except (httpx.HTTPError, ssl.SSLError, OSError) as error:
            raise LinkFailure(f"the analyzer was not reached: {type(error).__name__}") from None
        if answer.status_code not in good:
            raise LinkFailure(f"the analyzer answered {answer.status_code}{_problem(bytes(body))}")
        return answer.status_code, bytes(body)


def _wholes(value: object) -> list[int]:
    if not isinstance(value, list):
        raise TypeError
    return [as_whole(one) for one in value]


def _problem(body: bytes) -> str:
    """The name of a problem, if the answer has one; nothing else of an answer goes to a log.

    >>> _problem(b'{"type":"urn:hubbub:problem:conflict"}')
    ' (conflict)'
    """
    found = re.search(rb'"urn:hubbub:problem:([a-z-]{1,32})"', body[:4096])
    return f" ({found[1].decode()})" if found else ""
