"""Clients in a separate process: every report carries a distinct value and is sent until there is a response.

``python -m tests.service.load SETTINGS`` with the settings as JSON. Each line of its input is the number of reports
that may be sent so far; ``restored`` while the shuffler's store is replaced by a backup; or ``end``. Its output is the
number of reports that are settled, and finally the figures as JSON. After the values it sends padding, one further
value for all; at the end every task gets enough padding for a batch, so that no value stays in an open bucket.

A report is settled when it is acknowledged (201), or when the shuffler answers ``uncertain`` (410): its store was
restored, and whether it counted the report is unknown. Such a report is not sealed again, unless this was the response
to the first attempt to send it.
"""

import asyncio
import contextlib
import json
import random
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.service.live import seal_values, wrap_slots

from hubbub.service.runtime.workers import Workers
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.keylist import KeyList, PublicKey

BLOCK = 1000
"""Values sealed at once."""
RESPONSE_SECONDS = 15.0
"""Time without a response after which a request is repeated."""


def seal_bundles(
    values: Sequence[int], contract: Contract, keys: tuple[PublicKey, PublicKey], workers: Workers
) -> list[bytes]:
    """Return one bundle per value, as a device would seal it; for plans with one message per person."""
    return wrap_slots(seal_values(values, contract, keys[0], workers), contract, keys[1], workers)


class Line:
    """A persistent connection that reconnects after a failure, each time to the next of several addresses."""

    def __init__(self, *urls: str) -> None:
        self._places = [url.removeprefix("http://").rpartition(":") for url in urls]
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return status and body of the response; raise OSError or EOFError if there is none."""
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                if self._ends is None:
                    host, _, port = self._places[0]
                    self._ends = await asyncio.open_connection(host, int(port))
                reader, writer = self._ends
                kind = "Content-Type: application/hubbub-bundle\r\n" if body else ""
                writer.write(
                    f"{method} {path} HTTP/1.1\r\nHost: x\r\n{kind}Content-Length: {len(body)}\r\n\r\n".encode() + body
                )
                await writer.drain()
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
                content = await reader.readexactly(int(length.partition(":")[2]))
        except BaseException:
            self.close()
            self._places.append(self._places.pop(0))
            raise
        if "connection: close" in head:
            self.close()
        return int(head.split(" ", 2)[1]), content

    def close(self) -> None:
        """Close the connection."""
        if self._ends is not None:
            self._ends[1].transport.abort()
        self._ends = None


async def fetch_keys(urls: Sequence[str], contract: Contract) -> tuple[PublicKey, PublicKey]:
    """Return the keys of the analyzer and of the shuffler to seal with."""
    line = Line(*urls)
    try:
        while True:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                status, content = await line.ask("GET", f"/v1/tasks/{contract.id}/keys")
                if status == 200:
                    break
            await asyncio.sleep(0.1)
    finally:
        line.close()
    said = json.loads(content)
    inner = KeyList.read(json.dumps(said["analyzer"]), contract.analyzer, "analyzer").find(said["analyzer_key_id"])
    outer = KeyList.read(json.dumps(said["shuffler"]), contract.shuffler, "shuffler").active(contract.suite)
    assert inner is not None
    return inner, outer


@dataclass
class Request:
    """Values of one task that are sealed and sent together."""

    task: int
    values: list[int]
    body: bytes
    bundle: int
    sent: float = 0.0
    """When the last attempt began."""
    attempts: int = 0

    def split(self) -> "list[Request]":
        """Return one request for each bundle."""
        size = self.bundle
        return [
            Request(self.task, [value], self.body[place * size : (place + 1) * size], size, attempts=self.attempts)
            for place, value in enumerate(self.values)
        ]

    def replay(self, chance: random.Random) -> bytes:
        """Return the whole body again, or one of its bundles."""
        place = chance.randrange(len(self.values)) * self.bundle
        return self.body if chance.random() < 0.5 else self.body[place : place + self.bundle]


@dataclass
class Clients:
    """Clients that send values 0 to ``reports`` − 1 of every task; the next value is the padding."""

    urls: list[str]
    contracts: list[Contract]
    reports: int
    pads: int
    spares: int = 0
    """Tasks at the end of the list that get ten values each, first of all, and no padding."""
    seed: int = 1
    connections: int = 12
    most: int = 64
    """Maximum number of reports per request."""
    replayed: float = 0.2
    """Share of the requests repeated after their response, half of them whole."""
    workers: int = 0
    allowed: int = sys.maxsize
    ending: bool = False
    settled: int = 0
    restored: float = 0.0
    """When the shuffler's store was last restored."""
    counts: Counter[str] = field(default_factory=Counter)
    padded: Counter[int] = field(default_factory=Counter)
    """Acknowledged padding by task."""
    doubtful: Counter[int] = field(default_factory=Counter)
    """Uncertain padding by task."""
    keys: dict[int, tuple[PublicKey, PublicKey]] = field(default_factory=dict)
    _begun: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._begun = -10 * self.spares
        # When the attempt that was acknowledged began; −1 for an uncertain report, 0 for one that is not settled.
        self._times = [array("d", bytes(8 * self.reports)) for _ in self.contracts]

    async def run(self) -> dict[str, Any]:
        """Send everything and return the figures."""
        with Workers(self.workers) as self._workers:
            usual = len(self.contracts) - self.spares
            await self._all([self._block(task, range(10)) for task in range(usual, len(self.contracts))])
            self.settled, self.counts["spare"] = 0, 10 * self.spares
            blocks = [
                self._block(task, range(start, min(start + BLOCK, self.reports)))
                for task in range(usual)
                for start in range(0, self.reports, BLOCK)
            ]
            self._chance.shuffle(blocks)
            await self._all(blocks)
            while not self.ending:
                task = self._chance.randrange(usual)
                await self._all([self._block(task, [self.reports] * self.most)])
            await self._all([self._block(task, [self.reports] * self.pads) for task in range(usual)])
        return {
            **self.counts,
            "settled": self.settled,
            "padded": [self.padded[task] for task in range(usual)],
            "doubtful": [self.doubtful[task] for task in range(usual)],
            "states": ["".join(map(self._state, self._times[task])) for task in range(usual)],
        }

    def _state(self, sent: float) -> str:
        """Return the letter of a report: uncertain, open, or acknowledged before or after the last restore."""
        if sent <= 0:
            return "u" if sent else "o"
        return "b" if sent <= self.restored else "a"

    def _block(self, task: int, values: Sequence[int]) -> tuple[int, list[int]]:
        return task, list(values)

    async def _all(self, blocks: list[tuple[int, list[int]]]) -> None:
        ready: asyncio.Queue[Request | None] = asyncio.Queue(4 * self.connections)
        async with asyncio.TaskGroup() as group:
            for _ in range(self.connections):
                group.create_task(self._send_all(ready))
            for task, values in blocks:
                self._chance.shuffle(values)
                for request in await self._seal(task, values):
                    await ready.put(request)
            for _ in range(self.connections):
                await ready.put(None)

    async def _seal(self, task: int, values: list[int], *, again: bool = False) -> list[Request]:
        contract = self.contracts[task]
        if task not in self.keys or again:
            self.keys[task] = await fetch_keys(self.urls, contract)
        bundles = await asyncio.to_thread(seal_bundles, values, contract, self.keys[task], self._workers)
        if again:
            return [Request(task, values, b"".join(bundles), contract.bundle_size)]
        return [
            Request(task, values[start:end], b"".join(bundles[start:end]), contract.bundle_size)
            for start, end in self._cuts(len(values))
        ]

    def _cuts(self, count: int) -> Iterator[tuple[int, int]]:
        start = 0
        while start < count:
            end = min(count, start + round(self.most ** self._chance.random()))
            yield start, end
            start = end

    async def _send_all(self, ready: "asyncio.Queue[Request | None]") -> None:
        first = self._chance.randrange(len(self.urls))
        line = Line(*self.urls[first:], *self.urls[:first])
        try:
            while request := await ready.get():
                while self._begun >= self.allowed:
                    await asyncio.sleep(0.02)
                self._begun += len(request.values)
                for sent in await self._settle(line, request):
                    if self._chance.random() < self.replayed:
                        again = sent.replay(self._chance)
                        problem = await self._post(line, sent, again)
                        self.counts[f"replayed_{problem}" if problem else "replayed"] += len(again) // sent.bundle
        finally:
            line.close()

    async def _settle(self, line: Line, request: Request) -> list[Request]:
        """Send until every report is acknowledged or uncertain; return the requests that were acknowledged."""
        while problem := await self._post(line, request, request.body):
            if problem != "uncertain":
                (request,) = await self._seal(request.task, request.values, again=True)
                self.counts["sealed_again"] += len(request.values)
            elif len(request.values) > 1:
                # The problem concerns one of them, or more.
                return [sent for one in request.split() for sent in await self._settle(line, one)]
            else:
                self._record(request, certain=False)
                return []
        self._record(request, certain=True)
        return [request]

    def _record(self, request: Request, *, certain: bool) -> None:
        self.settled += len(request.values)
        self.counts["acknowledged" if certain else "uncertain"] += len(request.values)
        for value in request.values:
            if value < self.reports:
                self._times[request.task][value] = request.sent if certain else -1
            else:
                (self.padded if certain else self.doubtful)[request.task] += 1

    async def _post(self, line: Line, request: Request, body: bytes) -> str:
        """Send until there is a final response; return the name of the problem, empty for 201."""
        for attempt in range(10_000):
            status, content = 0, b""
            request.sent = time.monotonic()
            request.attempts += 1
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                status, content = await line.ask("POST", f"/v1/tasks/{self.contracts[request.task].id}/bundles", body)
            if status == 201:
                return ""
            if status == 409 and b"outdated-keys" in content:
                return "outdated-keys"
            if status == 410:
                self.keys.pop(request.task, None)
                return "uncertain" if request.attempts > 1 else "never-sent"
            if status not in (0, 408, 429, 503):
                break
            self.counts[str(status or "unanswered")] += 1
            await asyncio.sleep(min(0.5, 0.02 * 2 ** min(attempt, 6)) * self._chance.random())
        raise AssertionError(f"an upload got status {status}: {content[:200]!r}")


async def _main(clients: Clients) -> dict[str, Any]:
    def listen() -> None:
        for text in sys.stdin:
            if text.strip() == "restored":
                clients.restored = time.monotonic()
                continue
            clients.ending |= text.strip() == "end"
            clients.allowed = sys.maxsize if clients.ending else int(text)

    threading.Thread(target=listen, daemon=True).start()
    running = asyncio.create_task(clients.run())
    while not running.done():
        await asyncio.wait([running], timeout=0.1)
        print(clients.settled, flush=True)
    return await running


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    paths = [Path(one) for one in settings.pop("contracts")]
    agreed = [SignedContract.from_json(path.read_bytes()).contract for path in paths]
    print(json.dumps(asyncio.run(_main(Clients(contracts=agreed, **settings, allowed=0)))), flush=True)
