"""Listening sockets, with or without TLS, and the HTTP servers behind them; several run in one event loop.

No log line and no response header reveals who sent a request, or when.
"""

import errno
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from hubbub.service.runtime.connection import Connection, UnsignalledServer
from hubbub.service.runtime.http import App
from hubbub.service.runtime.secretfiles import check_mode
from hubbub.service.runtime.settings import split_address

BACKLOG = 2048
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
