"""A TCP proxy that breaks connections when a test says so."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that every connection meets."""

    name: str = "fine"
    refuse: bool = False
    """Connections are refused."""
    cut_after: int | None = None
    """Bytes from the client that are passed on before both ends are closed."""
    deaf_after: int | None = None
    """Turns of the client that are answered (1 is the first half of a TLS handshake). Data of the next turn passes,
    but the response is lost, and the connection with it."""
    rate: float | None = None
    """Bytes per second in either direction."""


FINE = Fault()
LATE = 0.5
"""Seconds between the first lost byte of a response and the end of the connection."""


class _Connection:
    """Two ends, and the number of times the client began to send after having received."""

    def __init__(self, proxy: "Proxy", near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.proxy, self.near, self.far = proxy, near, far
        self.turns, self.passed, self.listening = 0, 0, True

    def cut(self) -> None:
        for end in (self.near, self.far):
            end.transport.abort()

    async def forward(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(await self.pace()):
            self.turns += self.listening
            self.listening = False
            fault = self.proxy.fault
            if fault.cut_after is not None:
                space = max(0, fault.cut_after - self.passed)
                if len(data) > space:
                    self.far.write(data[:space])
                    await self.far.drain()
                    self.proxy.met[fault.name] += 1
                    return
            self.passed += len(data)
            self.far.write(data)
            await self.far.drain()

    async def back(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(await self.pace()):
            fault = self.proxy.fault
            if fault.deaf_after is not None and self.turns > fault.deaf_after:
                await asyncio.sleep(LATE)
                self.proxy.met[fault.name] += 1
                return
            self.listening = True
            self.near.write(data)
            await self.near.drain()

    async def pace(self) -> int:
        rate = self.proxy.fault.rate
        if rate is None:
            return 1 << 16
        self.proxy.met[self.proxy.fault.name] += 1
        await asyncio.sleep(0.05)
        return max(1, int(rate * 0.05))


class Proxy:
    """Forwards a local port to another; ``use`` changes the fault from then on."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self.fault = FINE
        self.port = 0
        self.met: Counter[str] = Counter()
        """Number of times each fault was met."""
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    @contextlib.contextmanager
    def running(self) -> Iterator["Proxy"]:
        """Run the proxy in a thread."""
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        try:
            self._call(self._listen())
            yield self
        finally:
            self._call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    def use(self, fault: Fault) -> None:
        """Change the fault; open connections are closed, unless the fault only loses responses."""
        self._call(self._use(fault))

    def _call(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _use(self, fault: Fault) -> None:
        self.fault = fault
        if fault.deaf_after is None:
            for one in list(self._connections):
                one.cut()
        if fault.refuse:
            await self._close()
            self.met[fault.name] += 1
        elif self._server is None:
            await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            for one in list(self._connections):
                one.cut()
            await self._server.wait_closed()
        self._server = None

    async def _end(self) -> None:
        await self._close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        try:
            answers, far = await asyncio.open_connection(*self._target)
        except OSError:
            near.transport.abort()
            return
        connection = _Connection(self, near, far)
        self._connections.add(connection)
        ways = [asyncio.ensure_future(connection.forward(reader)), asyncio.ensure_future(connection.back(answers))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connection.cut()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._connections.discard(connection)
