"""The thread that writes to the shuffler's store: all waiting uploads become one durable transaction."""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from hubbub.errors import Problem
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.http import problem_of

if TYPE_CHECKING:
    from hubbub.service.shuffler.store import OpenedBundle

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
