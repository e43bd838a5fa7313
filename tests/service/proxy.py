"""A TCP proxy that breaks connections when a test says so, and one that lies about what it did with uploads."""

import asyncio
import contextlib
import http.server
import json
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass

import httpx

from hubbub.errors import NoResponse, Problem
from hubbub.service.runtime.http import PREFIX, status_of
from hubbub.service.transport import Response
from hubbub.service.uploader import Transport


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


class Deceiver:
    """A proxy that sees every request of a client: it forwards, keeps, repeats or swaps them, and answers as it likes.

    ``act`` names what it does with uploads. ``refuse`` is the problem that it states instead of the shuffler's answer,
    with the status of that problem; without one, the client gets the true answer.
    """

    ACTS = ("store", "drop", "lose", "repeat", "delay", "swap", "reroute", "freeze", "claim")

    def __init__(self, act: str, refuse: str | None = None) -> None:
        assert act in self.ACTS
        self.act, self.refuse = act, refuse
        self.held: list[bytes] = []
        self._first: bytes | None = None

    def upload(self, body: bytes, forward: Callable[[bytes], tuple[int, str]]) -> tuple[int, str] | None:
        """Return status and problem for an upload, None for no response; ``forward`` asks the shuffler."""
        told = (status_of(Problem(self.refuse)), self.refuse) if self.refuse else None
        match self.act:
            case "drop":
                return told
            case "claim":
                return 201, ""
            case "delay":
                self.held.append(body)
                return told
            case "swap":
                self.held.append(body)
                return told or forward(self.held[-2] if len(self.held) > 1 else body)
            case "lose":
                forward(body)
                return None
            case "repeat":
                forward(body)
                forward(body)
        found = forward(body)
        return told or found

    def release(self, forward: Callable[[bytes], tuple[int, str]]) -> None:
        """Send on everything that was held back, newest first."""
        while self.held:
            forward(self.held.pop())

    def keys(self, document: bytes) -> bytes:
        """Return a key document: the true one, always the first one, or one with another key of the signed list."""
        self._first = self._first or document
        if self.act == "freeze":
            return self._first
        if self.act == "reroute":
            content = json.loads(document)
            content["analyzer_key_id"] = max(key["id"] for key in content["analyzer"]["body"]["keys"])
            return json.dumps(content).encode()
        return document


class LyingTransport:
    """A client's connection through a :class:`Deceiver`; ``far`` is the honest one."""

    def __init__(self, far: Transport, deceiver: Deceiver) -> None:
        self.far, self.deceiver, self.uploads = far, deceiver, 0

    def _forward(self, task: str) -> Callable[[bytes], tuple[int, str]]:
        def forward(body: bytes) -> tuple[int, str]:
            response = self.far.post(task, body)
            return response.status, response.problem

        return forward

    def keys(self, task: str) -> bytes:
        return self.deceiver.keys(self.far.keys(task))

    def post(self, task: str, body: bytes) -> Response:
        self.uploads += 1
        told = self.deceiver.upload(body, self._forward(task))
        if told is None:
            raise NoResponse("cut")
        return Response(*told)

    def evaluate(self, task: str, body: bytes) -> Response:
        return self.far.evaluate(task, body)

    def release(self, task: str) -> None:
        """Let the deceiver send on what it kept."""
        self.deceiver.release(self._forward(task))


@contextlib.contextmanager
def lying_server(upstream: str, deceiver: Deceiver) -> Iterator[str]:
    """Run a proxy over HTTP before a shuffler, and yield its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            found = far.get(upstream + self.path)
            content = deceiver.keys(found.content) if found.status_code == 200 else found.content
            self._answer(found.status_code, content)

        def do_POST(self) -> None:
            def forward(body: bytes) -> tuple[int, str]:
                found = far.post(upstream + self.path, content=body, headers=headers)
                name = found.json()["type"].removeprefix(PREFIX) if found.status_code != 201 else ""
                return found.status_code, name

            headers = {"content-type": self.headers["content-type"]}
            told = deceiver.upload(self.rfile.read(int(self.headers["content-length"])), forward)
            if told is None:
                self.close_connection = True
                return
            self._answer(told[0], json.dumps({"type": PREFIX + told[1]}).encode() if told[1] else b"")

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with (
        httpx.Client(trust_env=False, verify=False, timeout=60.0) as far,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
