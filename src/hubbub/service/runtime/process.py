"""Running a program: its listeners and loops in one event loop, a folder for it alone, and a clean end.

SIGTERM: no new requests, those that were begun are finished, everything durable, gone within five seconds. SIGKILL at
any moment loses nothing either; it is only less polite.
"""

import asyncio
import contextlib
import fcntl
import gc
import json
import logging
import os
import secrets
import signal
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import uvloop

from hubbub.errors import InvalidInput, reject
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.http import log
from hubbub.service.runtime.server import Listener, Server, bind, where
from hubbub.service.runtime.settings import Common
from hubbub.service.task.contract import SignedContract
from hubbub.service.task.keys import Keyring

ADDRESSES = "addresses.json"
"""The file in a service's folder that says where it listens, as long as it does."""

END = 1.0
"""Seconds to commit what was accepted, after the listeners are closed."""

THREADS = 16
"""For everything that waits for the disk, the analyzer or the workers."""


class Program(Protocol):
    """A role that can be run."""

    common: Common

    def listeners(self) -> list[Listener]:
        """Where it listens."""

    def loops(self) -> "list[Loop]":
        """What it does from time to time."""

    def drain(self) -> None:
        """Take nothing more."""

    def close(self) -> None:
        """Finish, and give everything back."""


def backoff(failures: int, most: float = 60.0) -> float:
    """Seconds to wait after so many failures in a row: doubled each time, with jitter, so that nobody comes in step.

    >>> 0.25 <= backoff(1) <= 0.5 and 30 <= backoff(50) <= 60
    True
    """
    longest = min(most, 0.25 * 2.0 ** min(failures, 20))
    return longest * (0.5 + secrets.randbelow(1 << 20) / (2 << 20))


class Loop:
    """Something done again and again: ``work`` answers how long to pause; an error makes it wait longer and longer."""

    def __init__(self, name: str, work: Callable[[], Awaitable[float]]) -> None:
        self.name, self._work = name, work
        self._wake = asyncio.Event()
        self.results: Counter[str] = Counter()

    def wake(self) -> None:
        """Do it now; from the event loop's thread."""
        self._wake.set()

    async def run(self) -> None:
        """Go on for ever."""
        failures = 0
        while True:
            self._wake.clear()
            try:
                pause = await self._work()
                failures = 0
                self.results["done"] += 1
            except Exception as error:
                failures += 1
                self.results["failed"] += 1
                pause = backoff(failures)
                if failures in (1, 10, 100) or failures % 1000 == 0:
                    log.warning("%s failed (%d in a row): %s", self.name, failures, type(error).__name__)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)


class Folder:
    """The folder of a service, for one role and one process."""

    def __init__(self, path: Path, role: str) -> None:
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = (path / "lock").open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise InvalidInput(f"the folder {path.name} must be of one process, got another that runs") from None
        self._lock.seek(0)
        owner = self._lock.read().strip()
        if owner not in ("", role):
            self._lock.close()
            reject("the folder of a service", f"be of the {role} alone", f"that of the {owner}")
        if not owner:
            self._lock.write(role)
            self._lock.flush()

    def close(self) -> None:
        """Let others have it."""
        self._lock.close()


def store_of(common: Common, role: str) -> str:
    """Where a role keeps what it has: as the settings say, or in a file of its folder."""
    return common.store or f"sqlite:{common.folder / role}.db"


def keyring(common: Common, role: str, clock: Clock) -> Keyring:
    """The keys of a role, one of them active."""
    found = Keyring(
        common.folder / "keys", role, common.suite, clock, lifetime=common.key_lifetime, grace=common.key_grace
    )
    found.advance()
    return found


def add_contracts(paths: Sequence[Path], known: Container[str], add: Callable[[bytes], bytes]) -> None:
    """Serve the contracts of the settings; those that are served already are not verified again."""
    for path in paths:
        text = path.read_bytes()
        if SignedContract.from_json(text).contract.id not in known:
            add(text)


def run(build: Callable[[], Program]) -> None:
    """Build a program, and run it until SIGTERM or SIGINT; no file that it makes is for others."""
    os.umask(0o077)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    program = build()
    # What is built now stays; requests leave no cycles behind, and to look for some every few requests costs a tenth.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    # The writer's thread asks for Python's lock many times in a transaction: it must not wait 5 ms for it each time.
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(program))
        # A thread may be in the middle of something long, a batch being opened, say. It can be cut off at any point,
        # as by SIGKILL; to wait for it is what would be wrong.
        logging.shutdown()
        os._exit(0)


async def _serve(program: Program) -> None:
    """Serve until told to stop; then finish what was begun, but not for longer than a few seconds."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listeners = [one for one in program.listeners() if one.address]
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(bind(one.address)) for one in listeners]
        servers = [Server(one) for one in listeners]
        serving = [loop.create_task(one.serve([bound])) for one, bound in zip(servers, sockets, strict=True)]
        while not all(one.started for one in servers) and not any(task.done() for task in serving):
            await asyncio.sleep(0.01)
        looping = [loop.create_task(one.run()) for one in program.loops()]
        with _announced(program.common.folder, listeners, sockets):
            await asyncio.wait([loop.create_task(stop.wait()), *serving], return_when=asyncio.FIRST_COMPLETED)
        program.drain()
        for one in servers:
            one.should_exit = True
        await asyncio.wait(serving)
        for task in looping:
            task.cancel()
        await asyncio.wait(looping)
    ending = loop.run_in_executor(None, program.close)
    await asyncio.wait([ending], timeout=END)
    log.info("stopped")


@contextlib.contextmanager
def _announced(folder: Path, listeners: Sequence[Listener], sockets: Sequence[socket.socket]) -> Iterator[None]:
    """Say where the service listens: in the log, in a file, and to a service manager."""
    places = {one.name: where(one, bound) for one, bound in zip(listeners, sockets, strict=True)}
    for name, place in places.items():
        log.info("%s: %s", name, place)
    path = folder / ADDRESSES
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(places))
    beside.replace(path)
    _notify("READY=1")
    try:
        yield
    finally:
        _notify("STOPPING=1")
        path.unlink(missing_ok=True)


def _notify(state: str) -> None:
    """Tell systemd, if it wants to know."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.sendto(state.encode(), "\0" + place[1:] if place.startswith("@") else place)
