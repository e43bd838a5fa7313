"""Worker processes that open and seal many items at once: HPKE holds Python's lock, so threads would not help.

A worker is ``python -m hubbub.service.runtime.workers`` with a socket as its standard input. Length-prefixed frames of
bytes go in and out; nothing is unpickled. A worker keeps no state, reads no file and exits when its socket is closed,
so it does not outlive a parent that was killed. A worker that dies is replaced, and its frame is sent again.
"""

import contextlib
import functools
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from cryptography.exceptions import InvalidTag
from numpy.typing import NDArray

from hubbub.errors import WorkerFailure, check_whole, reject
from hubbub.service.runtime.failpoints import VARIABLE
from hubbub.service.task.admission import Verifier
from hubbub.service.task.keylist import PublicKey
from hubbub.service.task.sealing import REPORT, SUITES, VERSION, bundle_info, load_private, load_public, slot_info
from hubbub.wire.bundles import HEADER_SIZE, TAG_SIZE, BundleLayout

FRAME_ITEMS = 1 << 9
"""Items per frame: about 30 ms of work. A call has only a few frames in flight, so others need not wait."""
ATTEMPTS = 3
"""Attempts per frame."""
_FRAME = struct.Struct(">I")
_HEAD = struct.Struct(">BBHIHHH")
_OPEN, _SEAL = 0, 1


def _overhead(suite: int) -> int:
    return SUITES[suite].enc + TAG_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The parameters of all items of a call: suite, raw key (private to open, public to seal), HPKE's ``info``, size of
    an item before it is opened or sealed, bytes of header before the sealed part, and the check of admissions.
    """

    suite: int
    key: bytes
    info: bytes
    size: int
    skip: int = 0
    admission: bytes = b""
    """A :class:`Verifier` in bytes: the start of each opened item is an admission that it checks."""

    def __post_init__(self) -> None:
        if self.suite not in SUITES:
            reject("suite", "be 1 or 2", self.suite)
        check_whole("size", self.size, 1)
        check_whole("skip", self.skip, 0, self.size)

    def count(self, data: bytes | memoryview) -> int:
        """Return the number of items."""
        if len(data) % self.size:
            reject("data", f"be a multiple of {self.size} bytes", len(data))
        return len(data) // self.size

    @property
    def opened(self) -> int:
        """Bytes of an opened item."""
        return max(self.size - self.skip - _overhead(self.suite), 0)

    @property
    def sealed(self) -> int:
        """Bytes of a sealed item, without header."""
        return self.size + _overhead(self.suite)


NOT_OPENED, OPENED, REFUSED = 0, 1, 2
_verifier = functools.lru_cache(maxsize=64)(Verifier.from_bytes)
_private = functools.lru_cache(maxsize=64)(load_private)
_public = functools.lru_cache(maxsize=64)(load_public)


def open_items(job: Job, data: bytes | memoryview) -> tuple[bytes, bytes]:
    """Return all plaintexts concatenated, and a byte per item: OPENED, NOT_OPENED (its plaintext is zeros) or REFUSED.

    REFUSED means that it opened and its admission is not valid.
    """
    decrypt, key, info = SUITES[job.suite].hpke.decrypt, _private(job.suite, job.key), job.info
    size, skip, opened = job.size, job.skip, job.opened
    check = _verifier(job.admission) if job.admission else None
    count = job.count(data)
    result = bytearray(count * opened)
    good = bytearray(count)
    view = memoryview(data)
    for place in range(count):
        try:
            text = decrypt(view[place * size + skip : (place + 1) * size], key, info)
        except (InvalidTag, ValueError):
            continue
        good[place] = OPENED if check is None or check.valid(text[: check.size]) else REFUSED
        result[place * opened : (place + 1) * opened] = text
    return bytes(result), bytes(good)


def seal_items(job: Job, data: bytes | memoryview) -> bytes:
    """Return all items sealed and concatenated."""
    encrypt, key, info, size = SUITES[job.suite].hpke.encrypt, _public(job.suite, job.key), job.info, job.size
    view = memoryview(data)
    return b"".join(encrypt(view[start : start + size], key, info) for start in range(0, job.count(data) * size, size))


class _Disconnected(Exception):
    """The other end of the socket is closed."""


def _receive(link: socket.socket, size: int) -> bytearray:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        got = link.recv_into(view)
        if not got:
            raise _Disconnected
        view = view[got:]
    return buffer


def _take(link: socket.socket) -> bytearray:
    return _receive(link, _FRAME.unpack(_receive(link, _FRAME.size))[0])


def _give(link: socket.socket, *parts: bytes | memoryview) -> None:
    link.sendall(b"".join((_FRAME.pack(sum(map(len, parts))), *parts)))


class _Worker:
    """A process and the socket to it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None

    def start(self) -> socket.socket:
        """Start the process unless it is running, and return the socket to it."""
        if self._link is not None:
            return self._link
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
            command = [sys.executable, "-m", "hubbub.service.runtime.workers"]
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=environment)
        self._link = ours
        return ours

    def ask(self, *parts: bytes | memoryview) -> bytearray:
        """Send a frame and return its answer."""
        link = self.start()
        _give(link, *parts)
        return _take(link)

    def stop(self) -> None:
        """Close the socket, which makes the process exit."""
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._link = self._process = None

    @property
    def pid(self) -> int | None:
        """The process id."""
        return None if self._process is None else self._process.pid


class Workers:
    """Worker processes shared by any number of threads; with ``count=0``, the caller's thread does the work.

    >>> with Workers(0) as workers:
    ...     job = Job(suite=1, key=bytes(32), info=b"", size=60)
    ...     workers.open(job, bytes(120))
    (b'...', b'\\x00\\x00')
    """

    def __init__(self, count: int = 2) -> None:
        self.count = check_whole("count", count, 0, 256)
        self._workers = [_Worker() for _ in range(count)]
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(max(count, 1), thread_name_prefix="workers")

    def start(self) -> None:
        """Start the processes now rather than on first use."""
        for worker in self._workers:
            worker.start()

    def close(self) -> None:
        """Finish work in progress and stop all processes."""
        self._threads.shutdown()
        for worker in self._workers:
            worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes."""
        return [pid for worker in self._workers if (pid := worker.pid) is not None]

    def open(self, job: Job, data: bytes | memoryview) -> tuple[bytes, bytes]:
        """Run :func:`open_items` on all workers."""
        if not self.count:
            return open_items(job, data)
        job.count(data)
        answers = list(self._spread(_OPEN, job, data))
        split = [(answer, len(answer) // (job.opened + 1)) for answer in answers]
        return b"".join(one[count:] for one, count in split), b"".join(one[:count] for one, count in split)

    def seal(self, job: Job, data: bytes | memoryview) -> bytes:
        """Run :func:`seal_items` on all workers."""
        if not self.count:
            return seal_items(job, data)
        job.count(data)
        return b"".join(self._spread(_SEAL, job, data))

    def submit_open(self, job: Job, data: bytes) -> "Future[tuple[bytes, bytes]]":
        """Return a future of :func:`open_items` for a few items, on one worker."""

        def call() -> tuple[bytes, bytes]:
            if not self.count:
                return open_items(job, data)
            answer, count = self._ask(_OPEN, job, data), job.count(data)
            return bytes(answer[count:]), bytes(answer[:count])

        return self._threads.submit(call)

    def _spread(self, what: int, job: Job, data: bytes | memoryview) -> Iterator[bytearray]:
        view = memoryview(data)
        step = FRAME_ITEMS * job.size
        pending: deque[Future[bytearray]] = deque()
        for start in range(0, len(view), step):
            if len(pending) >= 2 * self.count:
                yield pending.popleft().result()
            pending.append(self._threads.submit(self._ask, what, job, view[start : start + step]))
        while pending:
            yield pending.popleft().result()

    def _ask(self, what: int, job: Job, data: bytes | memoryview) -> bytearray:
        head = _HEAD.pack(what, job.suite, len(job.key), job.size, job.skip, len(job.info), len(job.admission))
        with self._borrowed() as worker:
            for _ in range(ATTEMPTS):
                try:
                    return worker.ask(head, job.key, job.info, job.admission, data)
                except (_Disconnected, OSError):
                    worker.stop()
        raise WorkerFailure(f"worker processes died {ATTEMPTS} times over the same work")

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[_Worker]:
        worker = self._idle.get()
        try:
            yield worker
        finally:
            self._idle.put(worker)


def _serve(link: socket.socket) -> None:
    """Answer frames until the socket is closed."""
    while True:
        frame = memoryview(_take(link))
        what, suite, key_size, size, skip, info_size, admission_size = _HEAD.unpack_from(frame)
        key_end = _HEAD.size + key_size
        info_end = key_end + info_size
        start = info_end + admission_size
        key, info, admission = (
            bytes(frame[begin:end]) for begin, end in ((_HEAD.size, key_end), (key_end, info_end), (info_end, start))
        )
        job = Job(suite=suite, key=key, info=info, size=size, skip=skip, admission=admission)
        if what == _OPEN:
            texts, good = open_items(job, frame[start:])
            _give(link, good, texts)
        else:
            _give(link, seal_items(job, frame[start:]))


def _main() -> None:
    # A terminal or service manager signals the whole process group; the parent decides when its workers stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(_Disconnected, ConnectionError), socket.socket(fileno=0) as link:
        _serve(link)


if __name__ == "__main__":
    _main()


@functools.lru_cache(maxsize=64)
def bundle_job(layout: BundleLayout, key_id: int, private: bytes, verifier: Verifier) -> Job:
    """Return the job of opening bundles sealed to one key of the shuffler, and of checking their admissions."""
    info = bundle_info(layout, key_id.to_bytes(2, "big"))
    return Job(
        suite=layout.suite,
        key=private,
        info=info,
        size=layout.bundle_size,
        skip=HEADER_SIZE,
        admission=verifier.to_bytes(),
    )


def slot_job(layout: BundleLayout, key_id: int, private: bytes) -> Job:
    """Return the job of opening slots sealed to one key of the analyzer."""
    info = slot_info(layout, key_id.to_bytes(2, "big"))
    return Job(suite=layout.suite, key=private, info=info, size=layout.slot_size, skip=2)


def seal_reports(
    payloads: NDArray[np.uint8], layout: BundleLayout, key: PublicKey, workers: Workers
) -> NDArray[np.uint8]:
    """Return the sealed slots of payloads, both one per row."""
    count = len(payloads)
    key_bytes = key.id.to_bytes(2, "big")
    plain = np.hstack([np.tile(np.array([VERSION, REPORT], np.uint8), (count, 1)), payloads])
    job = Job(suite=layout.suite, key=key.public, info=slot_info(layout, key_bytes), size=2 + layout.payload)
    sealed = np.frombuffer(workers.seal(job, plain.tobytes()), np.uint8).reshape(count, -1)
    return np.hstack([np.tile(np.frombuffer(key_bytes, np.uint8), (count, 1)), sealed])
