"""The shuffler's HTTP interface: uploads, answered only when they are durable, and the documents that clients need.

Uploads are raw ASGI, because there are thousands per second. Requests that can be rejected by their headers are
rejected before their body is read; new and repeated bundles get identical responses; no request is logged.
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
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from hubbub.errors import Problem
from hubbub.service.runtime import http
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.http import RateLimiter, RetryPauses, problem_of
from hubbub.service.runtime.metrics import LatencyHistogram
from hubbub.service.runtime.server import COMPLETE
from hubbub.service.runtime.workers import FRAME_ITEMS, Job, Workers
from hubbub.service.shuffler.uploads import VERSION_SECONDS
from hubbub.service.task.sealing import MAX_BUNDLES
from hubbub.wire.bundles import ADMISSION_SIZES

if TYPE_CHECKING:
    from hubbub.service.shuffler.store import OpenedBundle
    from hubbub.service.shuffler.uploads import Upload, Uploads
if TYPE_CHECKING:
    from hubbub.service.shuffler.store import OpenedBundle
if TYPE_CHECKING:
    from hubbub.service.shuffler.core import Shuffler
    from hubbub.service.shuffler.tasks import TaskRegistry

T = TypeVar("T")
_Upload = tuple[list["OpenedBundle"], "asyncio.Future[Problem | None]"]


class Writer:
    """Commits uploads, and runs other functions between two transactions.

    If the store fails, every upload of the transaction fails. Refusals are values, not exceptions: a future that holds
    an exception is part of a cycle with the frames of its traceback, and with them the whole upload.
    """

    def __init__(self, accept: Callable[[Sequence[Sequence["OpenedBundle"]]], Sequence[Problem | None]]) -> None:
        self._accept = accept
        self._queue: queue.SimpleQueue[_Upload | Callable[[], None] | None] = queue.SimpleQueue()
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, opened: "list[OpenedBundle]", durable: "asyncio.Future[Problem | None]") -> None:
        """Store these bundles, and then settle a future in its loop."""
        self._queue.put((opened, durable))

    def call(self, function: Callable[[], T]) -> "Future[T]":
        """Run a function in the writer's thread."""
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._queue.put(call)
        return future

    def close(self) -> None:
        """Finish all waiting work, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            items = [self._queue.get(), *(self._queue.get() for _ in range(self._queue.qsize()))]
            uploads = [item for item in items if isinstance(item, tuple)]
            if uploads:
                self._commit(uploads)
            for item in items:
                if callable(item):
                    item()
            if None in items:
                return

    def _commit(self, uploads: "list[_Upload]") -> None:
        try:
            refusals = self._accept([opened for opened, _ in uploads])
        except Exception as error:
            refusals = [problem_of(error)] * len(uploads)
        self.commits += 1
        reach("upload-committed")
        loop = uploads[0][1].get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, [future for _, future in uploads], refusals)


def _settle(futures: "Sequence[asyncio.Future[Problem | None]]", refusals: Sequence[Problem | None]) -> None:
    for future, refusal in zip(futures, refusals, strict=True):
        if not future.done():
            future.set_result(refusal)


_Pending = tuple["Upload", "asyncio.Future[Problem | None]"]
_Result = asyncio.Future[tuple[bytes, bytes]]


class BundleOpener:
    """Opens uploads, together if they arrive at once; from ``worker_threshold`` bundles on, the workers open them.

    An upload has one future from its arrival until it is durable: every step of a task costs time.
    """

    def __init__(self, uploads: "Uploads", writer: Writer, workers: Workers, worker_threshold: int) -> None:
        self._uploads, self._writer, self._workers = uploads, writer, workers
        self._threshold = worker_threshold
        self._pending: deque[_Pending] = deque()
        self._running = 0

    def store(self, upload: "Upload") -> "asyncio.Future[Problem | None]":
        """Return a future of None, when the bundles are durable, or of the problem for which they are refused."""
        loop = asyncio.get_running_loop()
        durable: asyncio.Future[Problem | None] = loop.create_future()
        self._pending.append((upload, durable))
        if len(self._pending) == 1:
            # Runs after everything that has arrived by now is pending.
            loop.call_soon(self._dispatch)
        return durable

    def _dispatch(self) -> None:
        while self._pending and self._running <= self._workers.count:
            group: list[_Pending] = []
            count = 0
            while self._pending and count < FRAME_ITEMS:
                group.append(self._pending.popleft())
                count += len(group[-1][0].bundles)
            if count < self._threshold:
                for upload, durable in group:
                    self._submit(durable, functools.partial(self._uploads.open, upload))
            else:
                self._running += 1
                asyncio.ensure_future(self._open_by_workers(group)).add_done_callback(self._done)

    def _done(self, _: "asyncio.Future[None]") -> None:
        self._running -= 1
        self._dispatch()

    async def _open_by_workers(self, group: "list[_Pending]") -> None:
        """Send all bundles of one key as one frame; every upload gets its own part of the result, or its own error."""
        frames: dict[Job, list[bytes]] = {}
        sizes: Counter[Job] = Counter()
        parts: list[tuple[_Pending, list[tuple[Job, slice]]]] = []
        for upload, durable in group:
            try:
                jobs = list(self._uploads.jobs(upload))
            except Exception as error:
                self._refuse(durable, error)
                continue
            own = []
            for job, data in jobs:
                frames.setdefault(job, []).append(data)
                count = len(data) // job.size
                own.append((job, slice(sizes[job], sizes[job] + count)))
                sizes[job] += count
            parts.append(((upload, durable), own))
        submit = self._workers.submit_open
        try:
            results = {job: asyncio.wrap_future(submit(job, b"".join(data))) for job, data in frames.items()}
        except Exception as error:
            # Nobody else answers these uploads, which would keep their places in the queue for ever.
            for (_, durable), _ in parts:
                self._refuse(durable, error)
            return
        if results:
            await asyncio.wait(results.values())
        for (upload, durable), own in parts:
            self._submit(durable, functools.partial(self._collect, upload, own, results))

    def _collect(
        self, upload: "Upload", own: "list[tuple[Job, slice]]", results: "Mapping[Job, _Result]"
    ) -> "list[OpenedBundle]":
        done = []
        for job, part in own:
            texts, success = results[job].result()
            done.append((texts[part.start * job.opened : part.stop * job.opened], success[part]))
        return self._uploads.opened(upload, done)

    def _submit(self, durable: "asyncio.Future[Problem | None]", opened: "Callable[[], list[OpenedBundle]]") -> None:
        """Hand the new bundles of an upload to the writer; without any, or with a problem, the upload is settled."""
        if durable.done():
            return
        try:
            fresh = opened()
        except Exception as error:
            self._refuse(durable, error)
            return
        reach("upload-opened")
        if fresh:
            self._writer.submit(fresh, durable)
        else:
            durable.set_result(None)

    def _refuse(self, durable: "asyncio.Future[Problem | None]", error: Exception) -> None:
        if not durable.done():
            durable.set_result(problem_of(error))


MEDIA_TYPE = b"application/hubbub-bundle"
"""The media type of an upload."""
KEYS_MAX_AGE = 1.0
"""Seconds after which the key lists are signed again."""
_START = {"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]}
_BODY = {"type": "http.response.body", "body": b""}
_PREFIX, _SUFFIX = "/v1/tasks/", "/bundles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the upload interface."""

    max_body: int = 1 << 20
    """Bytes of one upload."""
    max_bundles: int = MAX_BUNDLES
    """Bundles of one upload."""
    max_queue: int = 10_000
    """Bundles that have arrived and are not stored yet."""
    max_memory: int = 256 << 20
    """Bytes that have arrived completely and are not stored yet."""
    max_reading: int = 64 << 20
    """Bytes of bodies that have arrived in part."""
    body_seconds: float = 10.0
    """Seconds within which a body must arrive."""
    worker_threshold: int = 8
    """Number of bundles from which on the workers open them."""
    min_free_disk: float = 0.05
    """Fraction of the disk that must be free."""


class UploadApp:
    """``POST /v1/tasks/{task}/bundles`` as an ASGI application; all other requests go to ``fallback``."""

    def __init__(
        self,
        core: "Shuffler",
        writer: Writer,
        workers: Workers,
        fallback: http.App,
        *,
        limits: Limits | None = None,
        rate_limiter: RateLimiter | None = None,
        folder: Path | None = None,
    ) -> None:
        self._tasks, self._uploads, self._fallback = core.tasks, core.uploads, fallback
        self._limits = limits or Limits()
        self._opener = BundleOpener(core.uploads, writer, workers, self._limits.worker_threshold)
        self._rate_limiter, self._folder = rate_limiter, folder
        self._pauses = RetryPauses()
        self._arriving = http.ArrivingBodies(self._limits.max_reading)
        self._bundles = self._bytes = 0
        self._disk_full, self._disk_checked = False, -1.0
        self._bundle_sizes: dict[bytes, int] = {}
        self.draining = False
        self.results: Counter[str] = Counter()
        self.latencies = LatencyHistogram()

    @property
    def waiting(self) -> int:
        """Bundles that have arrived and are not answered yet."""
        return self._bundles

    @property
    def queue_depth(self) -> float:
        """The same as a share of the limit, rounded down to a tenth: a finer value would reveal single uploads."""
        return self._bundles * 10 // self._limits.max_queue / 10

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        path = scope.get("path", "")
        if not (path.startswith(_PREFIX) and path.endswith(_SUFFIX) and scope["type"] == "http"):
            await self._fallback(scope, receive, send)
            return
        try:
            problem = await self._upload(scope, path[len(_PREFIX) : -len(_SUFFIX)], receive)
        except http.Gone:
            self.results["gone"] += 1
            return
        except Exception as error:
            problem = http.problem_of(error)
        if problem is not None:
            self.results[problem.name] += 1
            extra = [(b"allow", b"POST")] if problem.name == "method-not-allowed" else []
            if self.draining or problem.name == "timeout":
                # The rest of a body that came too late is not read.
                extra.append((b"connection", b"close"))
            await http.refuse(send, problem, extra)
            return
        self.results["taken"] += 1
        await send(_START)
        await send(_BODY)
        reach("upload-answered")

    async def _upload(self, scope: http.Scope, task_id: str, receive: http.Receive) -> Problem | None:
        """Store an upload; return or raise the problem for which it is refused."""
        if scope["method"] != "POST":
            raise Problem("method-not-allowed")
        task = http.hex_id(task_id, "unknown-task")
        size = self._bundle_sizes.get(task) or self._bundle_size(task)
        length = self._length(scope["headers"], size)
        count = length // size
        self._admit(scope, count, length)
        complete = scope.get("extensions") is COMPLETE
        body = await http.read_body(receive, length, self._limits.body_seconds, self._arriving, complete=complete)
        reach("upload-read")
        # Reserved only now: a body that is announced and never sent must not take the place of others.
        self._check_queue(count, length)
        self._bundles += count
        self._bytes += length
        arrived = time.monotonic()
        try:
            refusal = await self._opener.store(self._uploads.prepare(task, body))
            if refusal is None:
                self.latencies.observe(time.monotonic() - arrived)
            return refusal
        finally:
            self._bundles -= count
            self._bytes -= length

    def _bundle_size(self, task: bytes) -> int:
        """Return the bytes of a bundle; cached, because the contract fixes them."""
        self._bundle_sizes = {
            bytes.fromhex(task_id): contract.bundle_size for task_id, contract in self._tasks.contracts().items()
        }
        if task not in self._bundle_sizes:
            raise Problem("unknown-task")
        return self._bundle_sizes[task]

    def _length(self, headers: Sequence[tuple[bytes, bytes]], size: int) -> int:
        """Return the length of the body; raise a problem if the headers are not those of an upload."""
        media_type = content_length = None
        for name, value in headers:
            if name == b"content-type":
                media_type = value
            elif name == b"content-length":
                content_length = value
            elif name == b"content-encoding":
                raise Problem("wrong-media-type", "the body must not be compressed")
        if media_type != MEDIA_TYPE:
            raise Problem("wrong-media-type", f"the media type must be {MEDIA_TYPE.decode()}")
        length = http.declared_length(content_length, self._limits.max_body)
        if length and length % size and not length % (size - ADMISSION_SIZES["open"]):
            # With open admission, bundles of version 2 had no id.
            raise Problem("wrong-version", retry_after=VERSION_SECONDS)
        if not length or length % size:
            raise Problem("wrong-length", f"a bundle of this task has {size} bytes")
        if length > self._limits.max_bundles * size:
            raise Problem("too-large", f"an upload must have at most {self._limits.max_bundles} bundles")
        return length

    def _admit(self, scope: http.Scope, count: int, length: int) -> None:
        """Raise a problem if the service is stopping, overloaded or short of disk, or the sender over its rate."""
        if self.draining:
            raise Problem("unavailable", "the service is shutting down", retry_after=5)
        self._check_queue(count, length)
        now = time.monotonic()
        if self._rate_limiter is not None:
            address = self._rate_limiter.address(scope)
            if address is not None and not self._rate_limiter.take(address, count, now=now):
                raise Problem("busy", "the address exceeds its upload rate", retry_after=10)
        if self._folder is not None and now - self._disk_checked > 1.0:
            usage = shutil.disk_usage(self._folder)
            self._disk_full, self._disk_checked = usage.free < self._limits.min_free_disk * usage.total, now
        if self._disk_full:
            raise Problem("unavailable", "the disk is almost full", retry_after=30)

    def _check_queue(self, count: int, length: int) -> None:
        limits = self._limits
        if self._bundles + count > limits.max_queue or self._bytes + length > limits.max_memory:
            raise Problem("busy", retry_after=self._pauses.after(time.monotonic()))


def documents_app(tasks: "TaskRegistry") -> http.App:
    """Serve ``GET /v1/tasks/{task}``, the signed contract, and ``…/keys``, the keys that clients seal to."""
    signed: dict[bytes, tuple[float, bytes]] = {}

    async def contract(request: Request) -> Response:
        return http.stored(request, tasks.contract_document(http.task_of(request)))

    async def keys(request: Request) -> Response:
        task = http.task_of(request)
        signed_at, text = signed.get(task, (-KEYS_MAX_AGE, b""))
        if time.monotonic() - signed_at >= KEYS_MAX_AGE:
            text = await asyncio.to_thread(tasks.keys_document, task)
            signed[task] = time.monotonic(), text
        return http.stored(request, text)

    return http.routed([("GET", "/v1/tasks/{task}", contract), ("GET", "/v1/tasks/{task}/keys", keys)])
