"""Listening sockets, with or without TLS, and the HTTP servers and connections behind them.

No log line and no response header reveals who sent a request, or when.

uvicorn's httptools parser accepts request heads of any size and duration. :class:`Connection` limits both. What it and
:class:`UnsignalledServer` override is not uvicorn's public interface: the dependency is therefore bounded above in
``pyproject.toml``, and a test compares the overridden names with the installed version.
"""

import asyncio
import errno
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hubbub.service.runtime.credentials import check_mode
from hubbub.service.runtime.http import BACKLOG, App, UnsignalledServer, listening
from hubbub.service.runtime.settings import split_address

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


SHUTDOWN_SECONDS = 3
"""Time for requests in progress to finish after a service was told to stop."""


@dataclass(frozen=True, slots=True)
class Listener:
    """An application, its address and its TLS configuration."""

    name: str
    app: App
    address: str
    context: ssl.SSLContext | None = None
    connections: int = 2000


def check_private(path: Path) -> Path:
    """Return the path of a file; raise if anyone but its owner can read it."""
    check_mode(path, path.stat().st_mode)
    return path


def server_context(certificate: Path, key: Path, authority: Path | None = None) -> ssl.SSLContext:
    """Return the TLS configuration of a server; an authority makes it require client certificates and TLS 1.3."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if authority else ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, check_private(key))
    if authority:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
    return context


def client_context(certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    """Return the TLS 1.3 configuration of a client that presents a certificate and trusts one authority only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, check_private(key))
    return context


def bind(address: str) -> socket.socket:
    """Return a listening socket; a Unix socket has mode 0600 and replaces a stale one."""
    if address.startswith("unix:"):
        return _bind_file(Path(address.removeprefix("unix:")))
    host, port = split_address(address)
    return listening(host, port)


def _bind_file(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    try:
        if path.is_socket():
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(path)) == 0:
                    raise OSError(errno.EADDRINUSE, "address already in use", str(path))
            path.unlink()
        mask = os.umask(0o177)
        try:
            found.bind(str(path))
        finally:
            os.umask(mask)
        found.listen(BACKLOG)
    except BaseException:
        found.close()
        raise
    return found


def address_of(listener: Listener, bound: socket.socket) -> str:
    """Return the address of a listener as clients write it, with the port that was assigned."""
    if bound.family == socket.AF_UNIX:
        return f"unix:{bound.getsockname()}"
    host, port = bound.getsockname()[:2]
    scheme = "https" if listener.context else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Server(UnsignalledServer):
    """The HTTP server of one listener."""

    def __init__(self, listener: Listener) -> None:
        context = listener.context
        super().__init__(
            uvicorn.Config(
                listener.app,
                http=Connection,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                limit_concurrency=listener.connections,
                backlog=BACKLOG,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                ssl_context_factory=None if context is None else lambda *_: context,
            )
        )
