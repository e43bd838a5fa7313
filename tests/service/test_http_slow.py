"""Bodies that arrive slowly or never occupy nothing that other clients need."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from tests.service.asgi import Answer, ask
from tests.service.live import TIMEOUT, wait_until
from tests.service.sockets import served
from tests.service.test_http_uploads import HEADERS, PATH, SIZE, Core, Service, bundle, problem

from hubbub.service.runtime.server import Listener
from hubbub.service.runtime.workers import Workers
from hubbub.service.shuffler.http import Limits, UploadApp, Writer


@pytest.fixture
def service() -> Iterator[Service]:
    core = Core()
    writer = Writer(cast("Any", core.accept_all))
    with Workers(0) as workers:
        yield Service(core, writer, workers)
    writer.close()


def announce(address: str, length: int, sent: bytes = b"") -> socket.socket:
    """Open a connection, announce a body and send only a part of it."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=TIMEOUT)
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {HEADERS['content-type']}\r\n"
    connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + sent)
    return connection


@pytest.mark.parametrize("sent", [0, 1, 250 * SIZE - 1])
def test_40_stalled_bodies_do_not_make_others_busy(service: Service, sent: int) -> None:
    """Regression: a body reserved its part of the queue when it was announced, so 40 senders of nothing filled it."""
    app = service.app()
    with served(Listener("uploads", app, "127.0.0.1:0")) as address, contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(announce(address, 250 * SIZE, b"." * sent))
        time.sleep(0.2)
        with httpx.Client(base_url=address, trust_env=False, headers=HEADERS, timeout=TIMEOUT) as client:
            statuses = [client.post(PATH, content=bundle(f"b{number}")).status_code for number in range(20)]
    assert statuses == [201] * 20
    assert app.waiting == 0


def test_the_body_that_began_first_is_dropped_when_too_many_bytes_are_arriving(service: Service) -> None:
    app = service.app(limits=Limits(max_reading=3 * 50 * SIZE))
    with served(Listener("uploads", app, "127.0.0.1:0")) as address, contextlib.ExitStack() as stack:
        slow = []
        for number in range(4):
            slow.append(stack.enter_context(announce(address, 100 * SIZE, b"a" * 50 * SIZE)))
            wait_until(lambda: app._arriving._total == min(number + 1, 3) * 50 * SIZE)  # noqa: B023
        answer = slow[0].makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer
        for later in slow[1:]:
            later.sendall(b"a" * 50 * SIZE)
            assert later.recv(4096).startswith(b"HTTP/1.1 201 ")
        last = httpx.post(address + PATH, content=bundle("b"), headers=HEADERS, trust_env=False, timeout=TIMEOUT)
        assert last.status_code == 201


def test_a_body_larger_than_all_that_may_arrive_is_dropped_alone(service: Service) -> None:
    app = service.app(limits=Limits(max_reading=SIZE))

    async def scenario() -> tuple[Answer | None, Answer | None]:
        large = ask(app, "POST", PATH, [b"a" * 150, b"a" * 150], {**HEADERS, "content-length": "300"})
        small = ask(app, "POST", PATH, bundle("b"), {**HEADERS, "content-length": str(SIZE)})
        return await asyncio.gather(large, small)

    dropped, stored = asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))
    assert dropped is not None
    assert problem(dropped) == "timeout"
    assert stored is not None
    assert stored.status == 201


def test_a_queue_that_fills_while_a_body_arrives_is_busy(service: Service) -> None:
    app = service.app(limits=Limits(max_queue=256))

    async def scenario() -> tuple[Answer | None, Answer | None]:
        service.core.gate.clear()
        first = b"".join(bundle(f"f{number}") for number in range(256))
        parts: asyncio.Queue[bytes] = asyncio.Queue()
        late = asyncio.create_task(_in_parts(app, parts))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(ask(app, "POST", PATH, first, {**HEADERS, "content-length": str(len(first))}))
        while app.waiting < 256:
            await asyncio.sleep(0.001)
        await parts.put(bundle("late"))
        refused = await late
        service.core.gate.set()
        return refused, await waiting

    refused, stored = asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))
    assert refused is not None
    assert (refused.status, problem(refused)) == (429, "busy")
    assert stored is not None
    assert stored.status == 201
    assert app.waiting == 0


async def _in_parts(app: UploadApp, parts: "asyncio.Queue[bytes]") -> Answer:
    """Upload one bundle whose body arrives when it is put into the queue."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": await parts.get(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", HEADERS["content-type"].encode()), (b"content-length", str(SIZE).encode())]
    await app({"type": "http", "method": "POST", "path": PATH, "headers": headers, "client": None}, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], told, sent[1]["body"], 1)
