"""Sockets that listen, with or without TLS, and the servers behind them; several in one event loop.

Nothing that is logged, and no header that is sent, says who asked or when.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hubbub.service.runtime.http import App
from hubbub.service.runtime.secretfiles import check_mode
from hubbub.service.runtime.settings import split_address

BACKLOG = 2048
GRACE = 3
"""Seconds for which requests that were begun may go on after a service was told to stop."""

LARGEST_HEAD = 1 << 16
"""Bytes of the first line and the headers of a request."""

HEAD_SECONDS = 20.0
"""In which they must have come."""

LINGER = 2.0
"""Seconds for which what still comes is thrown away, so that a sender sees why he was refused."""

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 28\r\nconnection: close\r\n\r\nThe headers are too large.\r\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An application, where it listens, and with which certificate."""

    name: str
    app: App
    address: str
    context: ssl.SSLContext | None = None
    connections: int = 2000


def check_private(path: Path) -> Path:
    """The path of a file that nobody but its owner may read; raises if others may."""
    check_mode(path, path.stat().st_mode)
    return path


def server_context(certificate: Path, key: Path, authority: Path | None = None) -> ssl.SSLContext:
    """TLS for a listener; given an authority, only for those who have a certificate of it, and TLS 1.3 only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if authority else ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, check_private(key))
    if authority:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
    return context


def client_context(certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    """TLS 1.3 for whoever connects to such a listener: he trusts that authority and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, check_private(key))
    return context


def bind(address: str) -> socket.socket:
    """A socket that listens; one on the file system is its owner's only, and replaces one that nobody serves."""
    if address.startswith("unix:"):
        return _bind_file(Path(address.removeprefix("unix:")))
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise OSError(error.errno, error.strerror, address) from None
    return found


def _bind_file(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    try:
        if path.is_socket():
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(path)) == 0:
                    raise OSError(98, "address already in use", str(path))
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


def where(listener: Listener, bound: socket.socket) -> str:
    """The address of a listener as its clients write it, with the port that it got."""
    if bound.family == socket.AF_UNIX:
        return f"unix:{bound.getsockname()}"
    host, port = bound.getsockname()[:2]
    scheme = "https" if listener.context else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Connection(HttpToolsProtocol):
    """A connection on which the head of a request may not be endless, neither in bytes nor in seconds."""

    _size = 0
    _heading = _refused = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait(False)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless there is too much of a head."""
        if self._refused:
            return
        before = self._heading
        super().data_received(data)
        if before and self._heading and not self._refused:
            # The parser says nothing of a header before it is whole.
            self._count(len(data))
            if self._size > LARGEST_HEAD:
                self.send_400_response("")

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._size, self._heading = 0, True
        if self._timer is None:
            self._wait()

    def on_url(self, url: bytes) -> None:
        """A part of the first line."""
        self._count(len(url), stop=True)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A whole header."""
        self._count(len(name) + len(value) + 4, stop=True)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._heading = False
        self._wait(False)
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or too much of it."""
        if self._size <= LARGEST_HEAD:
            super().send_400_response(msg)
            return
        self._refused = True
        self._wait(False)
        self.transport.write(_TOO_LARGE)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER, self.transport.close)

    def _count(self, size: int, *, stop: bool = False) -> None:
        self._size += size
        if stop and self._size > LARGEST_HEAD:
            raise ValueError

    def _wait(self, still: bool = True) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close) if still else None


class Server(uvicorn.Server):
    """A server that leaves signals to the program, which may have several."""

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
                timeout_graceful_shutdown=GRACE,
                ssl_context_factory=None if context is None else lambda *_: context,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: the program listens to signals itself."""
        yield
