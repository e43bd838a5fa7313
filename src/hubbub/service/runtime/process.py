"""Run a service: its listeners and periodic tasks in one event loop, exclusive use of its folder, a clean shutdown.

On SIGTERM a service accepts no new requests, finishes those in progress, makes everything durable and exits within five
seconds. SIGKILL at any moment loses nothing either.
"""

import asyncio
import contextlib
import fcntl
import gc
import itertools
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Protocol

import uvloop

from hubbub.errors import InvalidInput, StoreUnreachable
from hubbub.io.files import write_atomic
from hubbub.service.runtime.http import log, safe_message
from hubbub.service.runtime.server import Listener, Server, address_of, bind
from hubbub.service.runtime.settings import Common
from hubbub.service.task.contract import SignedContract

ADDRESSES = "addresses.json"
"""The file in a service's folder that lists its addresses while it is running."""
CLOSE_SECONDS = 1.0
"""Time to commit accepted bundles after the listeners are closed."""
DATABASE_SECONDS = 5.0
"""Longest pause between two attempts to reach the database."""
THREADS = 16
"""Threads for work that waits for the disk, the analyzer or the workers."""


class Service(Protocol):
    """A service of one role."""

    common: Common

    def listeners(self) -> list[Listener]:
        """Return its listeners."""

    def loops(self) -> "list[PeriodicTask]":
        """Return its periodic tasks."""

    def drain(self) -> None:
        """Refuse new work."""

    def close(self) -> None:
        """Finish accepted work and release all resources."""


def backoff(failures: int, limit: float = 60.0) -> float:
    """Return the seconds to wait after this many consecutive failures: doubled each time, with jitter.

    >>> 0.25 <= backoff(1) <= 0.5 and 30 <= backoff(50) <= 60
    True
    """
    longest = min(limit, 0.25 * 2.0 ** min(failures, 20))
    return longest * (0.5 + secrets.randbelow(1 << 20) / (2 << 20))


class PeriodicTask:
    """A coroutine that runs repeatedly and returns the seconds until its next run; failures back off exponentially."""

    def __init__(self, name: str, work: Callable[[], Awaitable[float]]) -> None:
        self.name, self._work = name, work
        self._wake = asyncio.Event()
        self.results: Counter[str] = Counter(done=0, failed=0)
        self._completed = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the last run that succeeded, or since the start."""
        return time.monotonic() - self._completed

    def wake(self) -> None:
        """Run now; to be called from the event loop's thread."""
        self._wake.set()

    async def run(self) -> None:
        """Run forever."""
        failures = 0
        while True:
            self._wake.clear()
            try:
                pause = await self._work()
                failures = 0
                self.results["done"] += 1
                self._completed = time.monotonic()
            except Exception as error:
                failures += 1
                self.results["failed"] += 1
                pause = backoff(failures)
                if failures in (1, 10, 100) or failures % 1000 == 0:
                    log.warning("%s failed (%d in a row): %s", self.name, failures, safe_message(error))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)


class ServiceFolder:
    """The folder of a service, locked for one process and reserved for one role."""

    def __init__(self, path: Path, role: str, *, seconds: float = 0.0) -> None:
        """Lock the folder; wait up to ``seconds`` for another process that is about to stop."""
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = (path / "lock").open("a+")
        end = time.monotonic() + seconds
        while not _try_lock(self._lock):
            if time.monotonic() >= end:
                self._lock.close()
                raise InvalidInput(f"the folder {path} is in use by another process; stop that service first")
            time.sleep(0.1)
        self._lock.seek(0)
        owner = self._lock.read().strip()
        if owner not in ("", role):
            self._lock.close()
            raise InvalidInput(f"the folder {path} belongs to the {owner}; give the {role} a separate folder")
        if not owner:
            self._lock.write(role)
            self._lock.flush()

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def stop_with_parent() -> None:
    """Send SIGTERM to this process when its parent ends, however it ends, whatever this process is doing.

    Standard input is a pipe from the parent, which never writes to it: its end is the parent's end. A thread watches
    it. Linux's death signal would not do: it is sent when the *thread* that started this process ends.
    """

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def add_contracts(paths: Sequence[Path], known: Container[str], add: Callable[[bytes], bytes]) -> None:
    """Serve the contracts named in the settings; contracts already stored are not verified again."""
    for path in paths:
        text = path.read_bytes()
        if SignedContract.from_json(text).contract.id not in known:
            add(text)


def run(build: Callable[[], Service], *, parent_pipe: bool = False) -> None:
    """Build a service and run it until SIGTERM or SIGINT; files it creates are readable by its owner only.

    With ``parent_pipe``, standard input is a pipe from the parent process, and the service also stops when it closes.
    """
    if parent_pipe:
        stop_with_parent()
    os.umask(0o077)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    service = _build(build)
    # Objects built so far stay alive and requests, refused or not, leave no cycles behind (see ``problem_of``);
    # frequent collections would cost 10 %.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    # The writer's thread acquires Python's lock many times per transaction and must not wait 5 ms each time.
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(service))
        # A thread may be in the middle of long work, such as opening a batch. It can be cut off at any point, as by
        # SIGKILL; waiting for it would exceed the five seconds.
        logging.shutdown()
        os._exit(0)


def _build(build: Callable[[], Service]) -> Service:
    """Build a service; while its database cannot be reached, wait and try again. It has no listeners until then."""
    for failures in itertools.count(1):
        try:
            return build()
        except StoreUnreachable as error:
            if failures == 1 or failures % 20 == 0:
                log.warning("waiting for the database (%d attempts): %s", failures, safe_message(error))
        time.sleep(backoff(failures, DATABASE_SECONDS))
    raise AssertionError


async def _serve(service: Service) -> None:
    """Serve until told to stop, then finish work in progress within a few seconds."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listeners = [one for one in service.listeners() if one.address]
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(bind(one.address)) for one in listeners]
        servers = [Server(one) for one in listeners]
        serving = [loop.create_task(one.serve([bound])) for one, bound in zip(servers, sockets, strict=True)]
        while not all(one.started for one in servers) and not any(task.done() for task in serving):
            await asyncio.sleep(0.01)
        looping = [loop.create_task(one.run()) for one in service.loops()]
        with _announced(service.common.folder, listeners, sockets):
            await asyncio.wait([loop.create_task(stop.wait()), *serving], return_when=asyncio.FIRST_COMPLETED)
        service.drain()
        for one in servers:
            one.should_exit = True
        await asyncio.wait(serving)
        for task in looping:
            task.cancel()
        if looping:
            await asyncio.wait(looping)
    ending = loop.run_in_executor(None, service.close)
    await asyncio.wait([ending], timeout=CLOSE_SECONDS)
    log.info("stopped")


@contextlib.contextmanager
def _announced(folder: Path, listeners: Sequence[Listener], sockets: Sequence[socket.socket]) -> Iterator[None]:
    """Publish the addresses of the listeners: in the log, in a file, and readiness to a service manager."""
    addresses = {one.name: address_of(one, bound) for one, bound in zip(listeners, sockets, strict=True)}
    for name, address in addresses.items():
        log.info("%s: %s", name, address)
    path = folder / ADDRESSES
    write_atomic(path, json.dumps(addresses).encode(), mode=0o600)
    _notify("READY=1")
    try:
        yield
    finally:
        _notify("STOPPING=1")
        path.unlink(missing_ok=True)


def _notify(state: str) -> None:
    """Notify systemd, if it started the service."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(state.encode(), "\0" + place[1:] if place.startswith("@") else place)
