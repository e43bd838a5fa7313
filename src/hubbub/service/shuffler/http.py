"""The shuffler's front: uploads, of which everything is durable before it is answered, and what clients need to seal.

The way of an upload is raw ASGI, because it is taken thousands of times a second. What can be refused by its headers is
refused before its body is read; a new and a repeated bundle get the same bytes for an answer; and nothing about a
request is logged.
"""

import asyncio
import functools
import queue
import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.http import (
    App,
    Gone,
    Receive,
    Scope,
    Send,
    declared_length,
    hex_id,
    problem_of,
    read_body,
    refuse,
    routed,
    stored,
)
from hubbub.service.runtime.problems import Problem
from hubbub.service.runtime.ratelimit import RateLimiter
from hubbub.service.runtime.workers import FRAME_ITEMS, Job, Workers

if TYPE_CHECKING:
    from hubbub.service.shuffler.core import Shuffler, Upload
    from hubbub.service.shuffler.store import Opened

MEDIA_TYPE = b"application/hubbub-bundle"
"""What an upload is."""

FRESH = 1.0
"""Seconds for which a signed list of keys is handed out again before it is signed anew."""

T = TypeVar("T")
_START = {"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]}
_BODY = {"type": "http.response.body", "body": b""}
_PREFIX, _SUFFIX = "/v1/tasks/", "/bundles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much the front takes at once."""

    body: int = 1 << 20
    """Bytes of one upload."""
    bundles: int = 256
    """Bundles of one upload."""
    queue: int = 10_000
    """Bundles on their way to the store."""
    memory: int = 256 << 20
    """Bytes on their way to the store."""
    seconds: float = 10.0
    """In which a body must have come."""
    many: int = 8
    """From so many bundles on, of one upload or of several at once, they are opened by the workers."""
    free: float = 0.05
    """The part of the disk that must be free."""


_Waiting = tuple[list["Opened"], "asyncio.Future[None]"]
_Upload = tuple["Upload", "asyncio.Future[list[Opened]]"]


@dataclass(frozen=True, slots=True)
class _Call:
    work: Callable[[], Any]
    future: Future[Any]

    def run(self) -> None:
        try:
            self.future.set_result(self.work())
        except BaseException as error:
            self.future.set_exception(error)


class Writer:
    """The one thread that writes to the store; all uploads that wait become one transaction.

    A failure of the store is told to everybody who was in the transaction. A refusal concerns one of them: then each is
    tried by itself.
    """

    def __init__(self, accept: Callable[[Sequence["Opened"]], None]) -> None:
        self._accept = accept
        self._queue: queue.SimpleQueue[_Waiting | _Call | None] = queue.SimpleQueue()
        self.commits = 0
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, opened: "list[Opened]") -> "asyncio.Future[None]":
        """A future of the running loop that is done when these are durable."""
        future = asyncio.get_running_loop().create_future()
        self._queue.put((opened, future))
        return future

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """Let the writer do something else between two transactions."""
        future: Future[T] = Future()
        self._queue.put(_Call(work, future))
        return future

    def close(self) -> None:
        """Finish what waits, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            items = [self._queue.get(), *(self._queue.get() for _ in range(self._queue.qsize()))]
            uploads = [item for item in items if isinstance(item, tuple)]
            if uploads:
                self._commit(uploads)
            for item in items:
                if isinstance(item, _Call):
                    item.run()
            if None in items:
                return

    def _commit(self, uploads: "list[_Waiting]") -> None:
        begun = time.perf_counter()
        failure = self._try([bundle for opened, _ in uploads for bundle in opened])
        if isinstance(failure, Problem) and len(uploads) > 1:
            told = [(future, self._try(opened)) for opened, future in uploads]
        else:
            told = [(future, failure) for _, future in uploads]
        self.commits += 1
        self.seconds += time.perf_counter() - begun
        reach("upload-committed")
        loop = uploads[0][1].get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_tell, told)

    def _try(self, opened: "list[Opened]") -> Exception | None:
        try:
            self._accept(opened)
        except Exception as error:
            return error
        return None


def _tell(told: "list[tuple[asyncio.Future[None], Exception | None]]") -> None:
    for future, failure in told:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)


class Opening:
    """Opens uploads: a few bundles here and now, many by the workers; what comes while these are busy goes together."""

    def __init__(self, core: "Shuffler", workers: Workers, many: int) -> None:
        self._core, self._workers, self._many = core, workers, many
        self._gathered: deque[_Upload] = deque()
        self._busy = 0

    async def open(self, upload: "Upload") -> "list[Opened]":
        """The opened bundles, or a refusal."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Opened]] = loop.create_future()
        self._gathered.append((upload, future))
        if len(self._gathered) == 1:
            # When everything that has arrived by now is gathered.
            loop.call_soon(self._go)
        return await future

    def _go(self) -> None:
        while self._gathered and self._busy <= self._workers.count:
            gathered: list[_Upload] = []
            count = 0
            while self._gathered and count < FRAME_ITEMS:
                gathered.append(self._gathered.popleft())
                count += len(gathered[-1][0].bundles)
            if count < self._many:
                for upload, future in gathered:
                    _settle(future, functools.partial(self._core.open, upload))
            else:
                self._busy += 1
                asyncio.ensure_future(self._ask(gathered)).add_done_callback(self._done)

    def _done(self, _: "asyncio.Future[None]") -> None:
        self._busy -= 1
        self._go()

    async def _ask(self, gathered: "list[_Upload]") -> None:
        """One frame for all bundles of one key; each upload has its own part of the answer, or its own refusal."""
        frames: dict[Job, list[bytes]] = {}
        sizes: Counter[Job] = Counter()
        parts: list[tuple[_Upload, list[tuple[Job, slice]]]] = []
        for upload, future in gathered:
            try:
                jobs = list(self._core.jobs(upload))
            except Exception as error:
                _settle(future, functools.partial(_raise, error))
                continue
            own = []
            for job, data in jobs:
                frames.setdefault(job, []).append(data)
                count = len(data) // job.size
                own.append((job, slice(sizes[job], sizes[job] + count)))
                sizes[job] += count
            parts.append(((upload, future), own))
        asked = {
            job: asyncio.wrap_future(self._workers.submit_open(job, b"".join(data))) for job, data in frames.items()
        }
        if asked:
            await asyncio.wait(asked.values())
        for (upload, future), own in parts:
            _settle(future, functools.partial(self._cut, upload, own, asked))

    def _cut(
        self,
        upload: "Upload",
        own: "list[tuple[Job, slice]]",
        asked: "Mapping[Job, asyncio.Future[tuple[bytes, bytes]]]",
    ) -> "list[Opened]":
        done = []
        for job, part in own:
            texts, good = asked[job].result()
            done.append((texts[part.start * job.opened : part.stop * job.opened], good[part]))
        return self._core.opened(upload, done)


def _raise(error: Exception) -> NoReturn:
    raise error


def _settle(future: "asyncio.Future[T]", work: Callable[[], T]) -> None:
    if future.done():
        return
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)


class Intake:
    """``POST /v1/tasks/{task}/bundles`` as an ASGI application; everything else goes to ``others``."""

    def __init__(
        self,
        core: "Shuffler",
        writer: Writer,
        workers: Workers,
        others: App,
        *,
        limits: Limits | None = None,
        allowance: RateLimiter | None = None,
        folder: Path | None = None,
    ) -> None:
        self._core, self._writer, self._others = core, writer, others
        self._limits = limits or Limits()
        self._opening = Opening(core, workers, self._limits.many)
        self._allowance, self._folder = allowance, folder
        self._bundles = self._bytes = 0
        self._low, self._looked = False, -1.0
        self._sizes: dict[bytes, int] = {}
        self.draining = False
        self.results: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """Bundles that were let in and are not answered yet."""
        return self._bundles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if not (path.startswith(_PREFIX) and path.endswith(_SUFFIX) and scope["type"] == "http"):
            await self._others(scope, receive, send)
            return
        try:
            await self._take(scope, path[len(_PREFIX) : -len(_SUFFIX)], receive)
        except Gone:
            self.results["gone"] += 1
            return
        except Exception as error:
            refusal = problem_of(error)
            self.results[refusal.name] += 1
            extra = [(b"allow", b"POST")] if refusal.name == "method-not-allowed" else []
            if self.draining:
                extra.append((b"connection", b"close"))
            await refuse(send, refusal, extra)
            return
        self.results["taken"] += 1
        await send(_START)
        await send(_BODY)
        reach("upload-answered")

    async def _take(self, scope: Scope, name: str, receive: Receive) -> None:
        if scope["method"] != "POST":
            raise Problem("method-not-allowed")
        task = hex_id(name, "unknown-task")
        size = self._sizes.get(task) or self._size(task)
        length = self._length(scope["headers"], size)
        count = length // size
        self._admit(scope, count, length)
        self._bundles += count
        self._bytes += length
        try:
            body = await read_body(receive, length, self._limits.seconds)
            reach("upload-read")
            opened = await self._opening.open(self._core.prepare(task, body))
            reach("upload-opened")
            if opened:
                await self._writer.submit(opened)
        finally:
            self._bundles -= count
            self._bytes -= length

    def _size(self, task: bytes) -> int:
        """Bytes of a bundle of this task: its contract fixes them, so that they never change."""
        self._sizes = {bytes.fromhex(name): one.shape.bundle_size for name, one in self._core.contracts().items()}
        if task not in self._sizes:
            raise Problem("unknown-task")
        return self._sizes[task]

    def _length(self, headers: Sequence[tuple[bytes, bytes]], size: int) -> int:
        kind = length = None
        for name, value in headers:
            if name == b"content-type":
                kind = value
            elif name == b"content-length":
                length = value
            elif name == b"content-encoding":
                raise Problem("wrong-media-type", "the body must not be compressed")
        if kind != MEDIA_TYPE:
            raise Problem("wrong-media-type", f"the body must be {MEDIA_TYPE.decode()}")
        found = declared_length(length, self._limits.body)
        if not found or found % size:
            raise Problem("wrong-length", f"a bundle of this task has {size} bytes")
        if found > self._limits.bundles * size:
            raise Problem("too-large", f"an upload must have at most {self._limits.bundles} bundles")
        return found

    def _admit(self, scope: Scope, count: int, length: int) -> None:
        if self.draining:
            raise Problem("unavailable", "the service is going down", retry_after=5)
        limits = self._limits
        if self._bundles + count > limits.queue or self._bytes + length > limits.memory:
            raise Problem("busy", retry_after=1)
        now = time.monotonic()
        if self._allowance is not None:
            address = self._allowance.address(scope)
            if address is not None and not self._allowance.take(address, count, now=now):
                raise Problem("busy", "more than one address may send", retry_after=10)
        if self._folder is not None and now - self._looked > 1.0:
            usage = shutil.disk_usage(self._folder)
            self._low, self._looked = usage.free < limits.free * usage.total, now
        if self._low:
            raise Problem("unavailable", "the disk is almost full", retry_after=30)


def documents(core: "Shuffler") -> App:
    """``GET /v1/tasks/{task}``, the signed contract, and ``…/keys``, what a client seals with."""

    async def contract(request: Request) -> Response:
        return stored(request, core.contract_document(hex_id(request.path_params["task"], "unknown-task")))

    signed: dict[bytes, tuple[float, bytes]] = {}

    async def keys(request: Request) -> Response:
        task = hex_id(request.path_params["task"], "unknown-task")
        when, text = signed.get(task, (-FRESH, b""))
        if time.monotonic() - when >= FRESH:
            text = await asyncio.to_thread(core.keys_document, task)
            signed[task] = time.monotonic(), text
        return stored(request, text)

    return routed([("GET", "/v1/tasks/{task}", contract), ("GET", "/v1/tasks/{task}/keys", keys)])
