"""The opening of uploads: a few bundles on the event loop, many by worker processes."""

import asyncio
import functools
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn, TypeVar

from hubbub.service.runtime.workers import FRAME_ITEMS, Job, Workers

if TYPE_CHECKING:
    from hubbub.service.shuffler.store import OpenedBundle
    from hubbub.service.shuffler.uploads import Upload, Uploads

T = TypeVar("T")
_Pending = tuple["Upload", "asyncio.Future[list[OpenedBundle]]"]
_Result = asyncio.Future[tuple[bytes, bytes]]


class BundleOpener:
    """Opens uploads, together if they arrive at once; from ``worker_threshold`` bundles on, the workers open them."""

    def __init__(self, uploads: "Uploads", workers: Workers, worker_threshold: int) -> None:
        self._uploads, self._workers, self._threshold = uploads, workers, worker_threshold
        self._pending: deque[_Pending] = deque()
        self._running = 0

    async def open(self, upload: "Upload") -> "list[OpenedBundle]":
        """Return the opened bundles, or raise a problem."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[OpenedBundle]] = loop.create_future()
        self._pending.append((upload, future))
        if len(self._pending) == 1:
            # Runs after everything that has arrived by now is pending.
            loop.call_soon(self._dispatch)
        return await future

    def _dispatch(self) -> None:
        while self._pending and self._running <= self._workers.count:
            group: list[_Pending] = []
            count = 0
            while self._pending and count < FRAME_ITEMS:
                group.append(self._pending.popleft())
                count += len(group[-1][0].bundles)
            if count < self._threshold:
                for upload, future in group:
                    _settle(future, functools.partial(self._uploads.open, upload))
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
        for upload, future in group:
            try:
                jobs = list(self._uploads.jobs(upload))
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
        submit = self._workers.submit_open
        results = {job: asyncio.wrap_future(submit(job, b"".join(data))) for job, data in frames.items()}
        if results:
            await asyncio.wait(results.values())
        for (upload, future), own in parts:
            _settle(future, functools.partial(self._collect, upload, own, results))

    def _collect(
        self, upload: "Upload", own: "list[tuple[Job, slice]]", results: "Mapping[Job, _Result]"
    ) -> "list[OpenedBundle]":
        done = []
        for job, part in own:
            texts, success = results[job].result()
            done.append((texts[part.start * job.opened : part.stop * job.opened], success[part]))
        return self._uploads.opened(upload, done)


def _raise(error: Exception) -> NoReturn:
    raise error


def _settle(future: "asyncio.Future[T]", function: Callable[[], T]) -> None:
    if future.done():
        return
    try:
        future.set_result(function())
    except Exception as error:
        future.set_exception(error)
