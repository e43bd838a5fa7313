"""Worker processes: each runs one task at a time, and stops it when the tab that asked has moved on.

A certificate that nobody waits for any more ends only with its step, up to seconds later. Urgent tasks therefore have a
process of their own, and the others give way to it, to the server and to the browser.

All processes are spawned, not forked, so that they inherit no signal handlers of the server; they end when its pipe
closes.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections import OrderedDict
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeVar

V = TypeVar("V")
TABS = 4096
"""Names whose newest generation is known, up to six for each tab; the one that asked least recently gives way."""
OVERDUE = 10.0
"""Seconds after its deadline after which the process of a job is killed: a single step may take minutes."""
STARTING = 60.0
"""Seconds that a process gets to load what it needs before it is killed."""
GRACE = 0.5
"""Seconds that processes get to end before they are killed."""
YIELDING = 10
"""Niceness of the processes for tasks that are not urgent."""
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that keep the linear algebra of a process on one thread: several of them would wait for each other."""
STALE: dict[str, Any] = {"stale": True}
LATE: dict[str, Any] = {"late": True}
ATTEMPTS = 2
"""Processes that a job is given if they end before they answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A task, the generation of its tab, and the time at which nobody waits for it any more."""

    task: str
    arguments: dict[str, Any]
    slot: int
    generation: int
    deadline: float
    """On the monotonic clock, which all processes share."""
    urgent: bool = False
    patient: bool = False


def leave_no_dump() -> None:
    """Let a crash of this process write nothing to a disk: its memory may hold what people pasted."""
    with contextlib.suppress(ImportError):
        import resource  # noqa: PLC0415 (Windows has no such limits)

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def serve(pipe: Connection, generations: Any, niceness: int) -> None:
    """Run jobs until the pipe closes: the main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the server ends its workers
    leave_no_dump()
    if hasattr(os, "nice"):
        os.nice(niceness)
    from hubbub.studio import work  # noqa: PLC0415 (loads numpy; the server does not wait for it)

    work.warm()
    with contextlib.suppress(OSError):
        pipe.send(STALE)  # ready
    while True:
        try:
            job: Job = pipe.recv()
        except (EOFError, OSError):
            return

        def stop(job: Job = job) -> bool:
            return generations[job.slot] != job.generation or time.monotonic() >= job.deadline

        answer = STALE if generations[job.slot] != job.generation else work.run(job.task, job.arguments, stop)
        with contextlib.suppress(OSError):
            pipe.send(answer)


class Worker:
    """One process and its pipe."""

    def __init__(self, generations: Any, niceness: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.niceness = niceness
        self.process = context.Process(target=serve, args=(theirs, generations, niceness), daemon=True)
        self.process.start()
        theirs.close()
        self._ready = False

    def wait(self) -> None:
        """Wait until the process has loaded what it needs."""
        if not self._ready:
            self._pipe.recv()
            self._ready = True

    def ask(self, job: Job) -> dict[str, Any]:
        """Run a job and return its answer; raises EOFError or OSError if the process ended."""
        self.wait()
        self._pipe.send(job)
        answer: dict[str, Any] = self._pipe.recv()
        return answer

    def close(self) -> None:
        """Close the pipe to a process that has ended."""
        self._pipe.close()


class Workers:
    """A process for urgent tasks, ``count`` for others, and the newest generation of every tab."""

    def __init__(self, count: int = 2) -> None:
        for name in ONE_THREAD:
            os.environ.setdefault(name, "1")
        context = multiprocessing.get_context("spawn")
        self._generations = context.Array("q", TABS, lock=False)
        self._slots: OrderedDict[str, int] = OrderedDict()
        self._all = [Worker(self._generations, niceness) for niceness in (0, *[YIELDING] * count)]
        self._urgent: asyncio.Queue[Worker] = asyncio.Queue()
        self._others: asyncio.Queue[Worker] = asyncio.Queue()
        for one in self._all:
            self._idle(urgent=one.niceness == 0).put_nowait(one)
        self._patient = asyncio.Semaphore(max(1, count - 1))  # one process is left to those who are not
        self._threads = ThreadPoolExecutor(count + 1)
        self._warm: set[bool] = set()
        self._running: set[asyncio.Future[Any]] = set()
        self._ended = False

    def _idle(self, *, urgent: bool) -> asyncio.Queue[Worker]:
        return self._urgent if urgent else self._others

    def newest(self, tab: str, generation: int) -> int:
        """Note what a tab asked last, and return its slot; work for what it asked before stops."""
        slot = self._slots.pop(tab, None)
        if slot is None:
            slot = len(self._slots) if len(self._slots) < TABS else self._slots.popitem(last=False)[1]
        self._slots[tab] = slot
        self._generations[slot] = generation
        return slot

    def leave(self, slot: int, generation: int) -> None:
        """Stop what still runs for a generation, because its reader has gone."""
        if self._generations[slot] == generation:
            self._generations[slot] = -1

    def drop(self, *names: str) -> None:
        """Stop what runs under other names of a tab, which has moved on."""
        for name in names:
            if name in self._slots:
                self._generations[self._slots[name]] = -1

    async def ready(self, *, urgent: bool = False) -> None:
        """Wait for the first process of its kind, so that no deadline includes the start of the studio."""
        if urgent not in self._warm:
            # A reader that hangs up must not give back a process on which a thread still waits: two threads that read
            # one pipe take each other's answers.
            await asyncio.shield(self._noted(self._first(urgent=urgent)))

    async def _first(self, *, urgent: bool) -> None:
        idle = self._idle(urgent=urgent)
        worker = await idle.get()
        try:
            if urgent not in self._warm:
                started = asyncio.get_running_loop().run_in_executor(self._threads, worker.wait)
                done, _ = await asyncio.wait({started}, timeout=STARTING)
                if not done:
                    worker.process.kill()  # the first job replaces it
                with contextlib.suppress(EOFError, OSError):
                    await started
                self._warm.add(urgent)
        finally:
            idle.put_nowait(worker)

    def _noted(self, work: Coroutine[Any, Any, V]) -> asyncio.Future[V]:
        """Start work that goes on to its end, whoever waits for it."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def run(self, job: Job) -> dict[str, Any]:
        """Run a job in the next idle process.

        A reader that hangs up does not interrupt the exchange with the process: the next job needs the pipe in order.
        """
        return await asyncio.shield(self._noted(self._exchange(job)))

    async def _exchange(self, job: Job) -> dict[str, Any]:
        async with self._patient if job.patient else contextlib.nullcontext():
            return await self._asked(job)

    async def _asked(self, job: Job) -> dict[str, Any]:
        idle = self._idle(urgent=job.urgent)
        worker = await idle.get()
        try:
            for _ in range(ATTEMPTS):
                if self._generations[job.slot] != job.generation:
                    return STALE
                if time.monotonic() >= job.deadline:
                    return LATE
                try:
                    return await self._answer(worker, job)
                except (EOFError, OSError):
                    if self._ended:
                        break
                    worker = await self._replaced(worker)
            return {"error": "a worker process ended; please try again"}
        finally:
            idle.put_nowait(worker)

    async def _answer(self, worker: Worker, job: Job) -> dict[str, Any]:
        """Return what a process answers; kill it if it has not stopped long after the deadline."""
        asked = asyncio.get_running_loop().run_in_executor(self._threads, worker.ask, job)
        done, _ = await asyncio.wait({asked}, timeout=max(0.0, job.deadline - time.monotonic()) + OVERDUE)
        if not done:
            worker.process.kill()
        return await asked

    async def _replaced(self, worker: Worker) -> Worker:
        """Start a process in the place of one that has ended."""
        await asyncio.to_thread(_end, [worker])
        made = Worker(self._generations, worker.niceness)
        self._all[self._all.index(worker)] = made
        return made

    def end(self) -> None:
        """End all processes, and start no more."""
        self._ended = True
        _end(self._all)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _end(workers: list[Worker]) -> None:
    """End processes, gently first; all of them together, as each may need the whole time."""
    for one in workers:
        one.process.terminate()
    killing = time.monotonic() + GRACE
    for one in workers:
        one.process.join(max(0.0, killing - time.monotonic()))
    for one in workers:
        if one.process.is_alive():
            one.process.kill()
    for one in workers:
        one.process.join(GRACE)
        one.close()
