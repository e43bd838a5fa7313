"""The opening of uploads on their way to the writer: a few bundles on the event loop, many by worker processes."""

import asyncio
import functools
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hubbub.errors import Problem
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.http import problem_of
from hubbub.service.runtime.workers import FRAME_ITEMS, Job, Workers
from hubbub.service.shuffler.writer import Writer

if TYPE_CHECKING:
    from hubbub.service.shuffler.store import OpenedBundle
    from hubbub.service.shuffler.uploads import Upload, Uploads

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
