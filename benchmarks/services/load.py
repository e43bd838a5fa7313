"""A client that keeps many persistent connections busy, and the figures of its requests."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray


@dataclass
class Load:
    """The responses to a load: their statuses, and the begin and end of every request that was stored."""

    statuses: Counter[int] = field(default_factory=Counter)
    begun: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    stored: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Bundles stored per second."""
        return self.stored / self.seconds

    @property
    def refused(self) -> int:
        """Requests that were answered otherwise than by 201."""
        return sum(self.statuses.values()) - self.statuses[201]

    def latencies(self) -> NDArray[np.float64]:
        """Return the seconds of every stored request."""
        return np.asarray(np.array(self.ended) - np.array(self.begun))


class Connection(asyncio.Protocol):
    """A persistent connection that sends the next body when the response to the previous one has arrived.

    With an ``interval``, it does not send earlier than that many seconds after the previous request was due.
    """

    def __init__(self, head: bytes, bodies: deque[bytes], size: int, load: Load, interval: float) -> None:
        self._head, self._bodies, self._size, self._load, self._interval = head, bodies, size, load, interval
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from it

    def start(self) -> None:
        """Send the first body."""
        if self._interval:
            # Spread over the interval, so that the connections do not send in step.
            self._due = time.perf_counter() + self._interval * np.random.default_rng().random()
        self._wait()

    def _wait(self) -> None:
        left = self._due - time.perf_counter() if self._interval else 0.0
        if left > 0:
            asyncio.get_running_loop().call_later(left, self._next)
        else:
            self._next()

    def _next(self) -> None:
        if not self._bodies or self._transport.is_closing():
            self._transport.close()
            return
        self._body = self._bodies.popleft()
        # A request that could not be sent when it was due has waited since: the server was slow, not the client.
        self._begun = self._due or time.perf_counter()
        self._due += self._interval
        self._transport.write(self._head % len(self._body) + self._body)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(rest) < length:
            return
        self._buffer = b""
        status = int(head[9:12])
        self._load.statuses[status] += 1
        if status == 201:
            self._load.begun.append(self._begun)
            self._load.ended.append(time.perf_counter())
            self._load.stored += len(self._body) // self._size
            self._wait()
        else:
            self._bodies.append(self._body)
            after = head.lower().partition(b"retry-after:")[2].split(b"\r\n")[0]
            asyncio.get_running_loop().call_later(float(after or 1), self._next)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._load.statuses[0] += 1
        if not self.done.done():
            self.done.set_result(None)


def send_all(
    urls: Sequence[str],
    path: str,
    bundles: NDArray[np.uint8],
    per_request: int,
    connections: int,
    *,
    rate: float = 0.0,
    watch: Callable[[], bool] | None = None,
) -> Load:
    """Send all bundles, at most ``rate`` requests per second if one is given, and return the responses.

    The connections are spread evenly over the addresses. ``watch`` is called 50 times per second; once it returns True,
    no further request is sent.
    """
    import uvloop

    load, size = Load(), bundles.shape[1]
    bodies = deque(bundles[start : start + per_request].tobytes() for start in range(0, len(bundles), per_request))
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/hubbub-bundle\r\nContent-Length: %d\r\n\r\n"
    ).encode()
    interval, total = connections / rate if rate else 0.0, len(bodies)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        made = []
        for number in range(connections):
            host, _, port = urls[number % len(urls)].removeprefix("http://").rpartition(":")
            made.append(
                await loop.create_connection(lambda: Connection(head, bodies, size, load, interval), host, int(port))
            )
        begun = time.perf_counter()
        for _, one in made:
            one.start()
        ending = asyncio.gather(*(one.done for _, one in made))
        while not ending.done():
            await asyncio.wait([ending], timeout=0.02)
            if watch is not None and watch():
                bodies.clear()
            if len(load.ended) == total:
                # Those that were told to retry later have nothing left to send.
                for transport, _ in made:
                    transport.close()
        load.seconds = max(load.ended) - begun

    uvloop.run(run())
    return load
