"""The process behind ``hubbub studio``: one socket on the loopback interface, worker processes, no log of requests."""

import asyncio
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from hubbub.errors import check_whole
from hubbub.service.runtime.http import App, UnsignalledServer, listening
from hubbub.studio.app import create_app
from hubbub.studio.live.routes import live_routes
from hubbub.studio.workers import Workers, leave_no_dump

if TYPE_CHECKING:
    from hubbub.studio.live.feed import LiveFeed
    from hubbub.studio.live.source import LiveSource

HOST = "127.0.0.1"
DEFAULT_PORT = 8600
STOPPING = 0
"""Seconds for requests in progress after the studio was told to stop: pages ask again, slow clients do not count."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bound(port: int) -> socket.socket:
    """Return a listening socket on the loopback interface; port 0 takes any free one."""
    check_whole("port", port, 0, 65_535)
    return listening(HOST, port)


def hosts(port: int) -> tuple[str, ...]:
    """Return the values of the header Host for which the studio answers.

    >>> hosts(8600)
    ('127.0.0.1:8600', 'localhost:8600')
    """
    return f"{HOST}:{port}", f"localhost:{port}"


def run(port: int, ready: Callable[[str], None], workers: int = 2, *, live: "LiveSource | None" = None) -> None:
    """Serve the studio until a signal arrives; ``ready`` gets its address, and the live page follows ``live``."""
    with bound(port) as own:
        asyncio.run(_follow(own, ready, workers, live))


async def _follow(
    listening: socket.socket, ready: Callable[[str], None], count: int, live: "LiveSource | None"
) -> None:
    if live is None:
        await _serve(listening, ready, count, None)
        return
    from hubbub.studio.live.feed import following  # noqa: PLC0415 (it needs the extra 'serve')

    async with following(live) as feed:
        await _serve(listening, ready, count, feed)


async def _serve(listening: socket.socket, ready: Callable[[str], None], count: int, feed: "LiveFeed | None") -> None:
    port, told = listening.getsockname()[1], asyncio.Event()
    for one in SIGNALS:  # before there are processes that outlive this one
        asyncio.get_running_loop().add_signal_handler(one, told.set)
    leave_no_dump()
    workers = Workers(count)
    try:
        await asyncio.sleep(0)  # lets a signal that came meanwhile be told
        if told.is_set():
            return
        server = UnsignalledServer(_config(create_app(workers, hosts(port), routes=live_routes(feed))))
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        ready(f"http://{HOST}:{port}/")
        stopping = asyncio.ensure_future(told.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        _stop(server, feed)
        await serving
    finally:
        workers.end()


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",  # traces of errors may hold what was pasted; the application logs the kind of an error
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=STOPPING,
    )


def _stop(server: uvicorn.Server, feed: "LiveFeed | None") -> None:
    server.should_exit = True
    if feed is not None:
        # Streams would hold the server up until its patience ends.
        feed.end()
