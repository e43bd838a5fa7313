"""The thread that writes to the shuffler's store: all waiting uploads become one durable transaction."""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from hubbub.errors import Problem
from hubbub.service.runtime.failpoints import reach

if TYPE_CHECKING:
    from hubbub.service.shuffler.store import OpenedBundle

T = TypeVar("T")
_Upload = tuple[list["OpenedBundle"], "asyncio.Future[None]"]


class Writer:
    """Commits uploads, and runs other functions between two transactions.

    If the store fails, every upload of the transaction fails. A problem concerns a single upload, so the others are
    tried again without it, in halves: one bad upload among many must not cost a transaction for each of them.
    """

    def __init__(self, accept: Callable[[Sequence["OpenedBundle"]], None]) -> None:
        self._accept = accept
        self._queue: queue.SimpleQueue[_Upload | Callable[[], None] | None] = queue.SimpleQueue()
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, opened: "list[OpenedBundle]", durable: "asyncio.Future[None]") -> None:
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
        outcomes = self._outcomes(uploads)
        self.commits += 1
        reach("upload-committed")
        loop = uploads[0][1].get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, outcomes)

    def _outcomes(self, uploads: "list[_Upload]") -> "list[tuple[asyncio.Future[None], Exception | None]]":
        failure = self._try([bundle for opened, _ in uploads for bundle in opened])
        if not isinstance(failure, Problem) or len(uploads) == 1:
            return [(future, failure) for _, future in uploads]
        middle = len(uploads) // 2
        return self._outcomes(uploads[:middle]) + self._outcomes(uploads[middle:])

    def _try(self, opened: "list[OpenedBundle]") -> Exception | None:
        try:
            self._accept(opened)
        except Exception as error:
            return error
        return None


def _settle(outcomes: "list[tuple[asyncio.Future[None], Exception | None]]") -> None:
    for future, failure in outcomes:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
