"""The one place that overrides internals of uvicorn: limits on request heads, and signals left to the service.

uvicorn's httptools parser accepts request heads of any size and duration. :class:`Connection` limits both. The names
overridden here are not uvicorn's public interface: the dependency is therefore bounded above in ``pyproject.toml``, and
a test compares them with the installed version.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 1 << 16
"""Largest request line and headers together, in bytes."""
HEAD_SECONDS = 20.0
"""Time in which they must arrive."""
LINGER_SECONDS = 2.0
"""Time for which further data is discarded, so that the sender can read the error."""
COMPLETE: dict[str, dict[object, object]] = {"hubbub.complete": {}}
"""The ASGI extensions of a request whose body has arrived before the application is called."""
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 28\r\nconnection: close\r\n\r\nThe headers are too large.\r\n"
)


class Connection(HttpToolsProtocol):
    """An HTTP connection that limits the size and the duration of a request head."""

    _size = 0
    _in_head = _rejected = False
    _deadline: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer of the first head."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data, unless the head has become too large."""
        if self._rejected:
            return
        before = self._in_head
        super().data_received(data)
        if before and self._in_head and not self._rejected:
            # The parser does not report a header before it is complete.
            self._size += len(data)
            if self._size > LARGEST_HEAD:
                self.send_400_response("")

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._size, self._in_head = 0, True
        if self._deadline is None:
            self._start_timer()

    def on_url(self, url: bytes) -> None:
        """Count a part of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a complete header."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the head."""
        self._in_head, self._deadline = False, None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Tell the application that it need not wait for the body."""
        self.scope["extensions"] = COMPLETE
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Reject a request that is not HTTP, or whose head is too large."""
        if self._size <= LARGEST_HEAD:
            super().send_400_response(msg)
            return
        self._rejected = True
        self._stop_timer()
        self.transport.write(_TOO_LARGE)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > LARGEST_HEAD:
            raise ValueError  # the parser turns this into send_400_response

    def _start_timer(self) -> None:
        self._deadline = self.loop.time() + HEAD_SECONDS
        if self._timer is None:
            self._timer = self.loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        """Close the connection if its head is late; one timer serves many heads, most of which arrive at once."""
        self._timer = None
        if self._deadline is None:
            return
        if self.loop.time() >= self._deadline:
            self.transport.close()
        else:
            self._timer = self.loop.call_at(self._deadline, self._check_deadline)

    def _stop_timer(self) -> None:
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None


class UnsignalledServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the service, which runs several servers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield
