"""Sockets that listen, with or without TLS, and the servers behind them; several in one event loop.

Nothing that is logged, and no header that is sent, says who asked or when.
"""

import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from hubbub.serve.exchange import App
from hubbub.serve.settings import split_address
from hubbub.serve.vault import check_mode

__all__ = ["Listener", "Server", "bind", "check_private", "client_context", "server_context", "where"]

BACKLOG = 2048
GRACE = 3
"""Seconds for which requests that were begun may go on after a service was told to stop."""


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


class Server(uvicorn.Server):
    """A server that leaves signals to the program, which may have several."""

    def __init__(self, listener: Listener) -> None:
        context = listener.context
        super().__init__(
            uvicorn.Config(
                listener.app,
                http="httptools",
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
