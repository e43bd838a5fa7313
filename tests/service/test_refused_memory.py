"""Refused requests leave nothing behind: their bodies are freed at once, without the collector of cycles.

The services collect cycles rarely, because a collection costs time. A refused body that is part of a cycle (exception,
traceback, frame, exception) therefore stays for a long time, and whoever sends junk fills the memory.
"""

import asyncio
import gc
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.service.admissions import new_ticket
from tests.service.asgi import ask
from tests.service.flood import junk, resident
from tests.service.live import HEADERS, LiveSystem
from tests.service.string_system import StringSystem
from tests.service.system import System, plan_of
from tests.service.test_issuer import CODES
from tests.service.test_issuer import build as build_issuer

from hubbub.errors import StoreFailure
from hubbub.service.analyzer.http import delivery_app, evaluation_app
from hubbub.service.issuer import REQUEST_TYPE, issuer_app
from hubbub.service.relay import relay_app
from hubbub.service.runtime.http import App
from hubbub.service.runtime.workers import Workers
from hubbub.service.shuffler.http import UploadApp, Writer, documents_app
from hubbub.service.task.manifest import CHUNK_SIZE
from hubbub.service.task.strings import EVALUATION_TYPE, MAX_REQUEST_SIZE
from hubbub.service.task.tokens import REQUEST_SIZE

REPEATS = 40
WIDTH = 8000
"""Labels: a record has 1,000 bytes, an upload of 256 people almost 300 KiB."""
Request = tuple[str, str, Callable[[], bytes], str]


def retained(app: App, request: Request, statuses: set[int], **headers: str) -> float:
    """Return the bytes that stay allocated per refused request, without any collection of cycles."""
    method, path, body, media_type = request

    async def send(count: int) -> None:
        for _ in range(count):
            content = body()
            told = {"content-type": media_type, "content-length": str(len(content)), **headers}
            answer = await ask(app, method, path, content, told)
            assert answer is not None
            assert answer.status in statuses, answer

    async def measure() -> float:
        # Caches and first uses.
        await send(5)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        await send(REPEATS)
        return (tracemalloc.get_traced_memory()[0] - before) / REPEATS

    gc.disable()
    tracemalloc.start()
    try:
        return asyncio.run(measure())
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    built = System(tmp_path, plan=plan_of(WIDTH))
    yield built
    built.shut()


def uploads_to(system: System, threshold: int) -> Iterator[UploadApp]:
    core = system.shuffler
    writer = Writer(core.uploads.accept_all)
    with Workers(0) as workers:
        app = UploadApp(core, writer, workers, documents_app(core.tasks))
        app._opener._threshold = threshold
        yield app
    writer.close()


def _used_ticket(system: System) -> bytes:
    """Return a ticket that is spent."""
    ticket = new_ticket(system.contract.task)
    system.upload(system.client.seal("0", ticket))
    return ticket


REFUSED: dict[str, Callable[[System], bytes]] = {
    "does not open": lambda system: junk(system.contract, system.client, 100),
    "malformed": lambda system: os.urandom(100 * system.contract.bundle_size),
    "no admission": lambda system: b"".join(system.client.seal("0", bytes(32)) for _ in range(20)),
}


@pytest.mark.parametrize("threshold", [8, 10**6], ids=["by workers", "on the loop"])
@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_upload_is_freed_at_once(system: System, why: str, threshold: int) -> None:
    body = REFUSED[why](system)
    for app in uploads_to(system, threshold):
        # A copy each time, as each request has its own.
        request = (
            "POST",
            f"/v1/tasks/{system.contract.id}/bundles",
            lambda: body[:-1] + body[-1:],
            HEADERS["content-type"],
        )
        assert retained(app, request, {400, 403}) < len(body) / 5


@pytest.mark.parametrize("why", ["spent", "failed"])
def test_an_upload_that_the_writer_refuses_is_freed_at_once(
    system: System, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "failed":

        def fail(_: object) -> None:
            raise StoreFailure("the disk is gone")

        monkeypatch.setattr(system.shuffler.uploads, "accept_all", fail)
    ticket = _used_ticket(system) if why == "spent" else None
    # Nothing is remembered, so that the transaction itself meets the conflict.
    monkeypatch.setattr(system.shuffler.uploads, "_remember", lambda *_: None)
    client = system.client
    body = client.seal("0", ticket) + b"".join(client.seal("0") for _ in range(19))
    request = "POST", f"/v1/tasks/{system.contract.id}/bundles", lambda: body[:-1] + body[-1:], HEADERS["content-type"]
    for app in uploads_to(system, 8):
        assert retained(app, request, {403, 409, 503}) < len(body) / 5


def test_a_refused_evaluation_or_delivery_is_freed_at_once(tmp_path: Path) -> None:
    system = StringSystem(tmp_path)
    core, task = system.analyzer, system.contract.id
    evaluate = "POST", f"/v1/tasks/{task}/evaluations", lambda: os.urandom(MAX_REQUEST_SIZE - 1), EVALUATION_TYPE
    assert retained(evaluation_app(core), evaluate, {400}) < MAX_REQUEST_SIZE / 20
    deliver = delivery_app(core, lambda: None)
    for path in (f"/v1/batches/{bytes(16).hex()}/chunks/0", f"/v1/batches/{bytes(16).hex()}"):
        chunk = "PUT", path, lambda: os.urandom(CHUNK_SIZE), "application/octet-stream"
        assert retained(deliver, chunk, {400, 403, 404, 409}) < CHUNK_SIZE / 20
    system.shut()


def test_a_refused_request_of_the_relay_is_freed_at_once() -> None:
    def unreachable(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    def client() -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(unreachable), base_url="https://x", trust_env=False)

    app = relay_app({name: client() for name in ("shuffler", "analyzer")})
    upload = "POST", f"/v1/tasks/{bytes(16).hex()}/bundles", lambda: os.urandom(1 << 20), HEADERS["content-type"]
    assert retained(app, upload, {503}) < (1 << 20) / 20


def test_a_refused_request_of_the_issuer_is_freed_at_once(tmp_path: Path) -> None:
    issuer, store = build_issuer(tmp_path)
    request = "POST", "/token-request", lambda: os.urandom(REQUEST_SIZE), REQUEST_TYPE
    told = {"authorization": f"Bearer {CODES[0]}"}
    assert retained(issuer_app(issuer), request, {400, 422, 404}, **told) < 4 * REQUEST_SIZE
    store.shut()


@pytest.mark.long
def test_junk_does_not_fill_the_memory_of_a_running_shuffler(tmp_path: Path) -> None:
    """2,000 uploads of 290 KiB that do not open; without admission, one connection, one after another."""
    system = LiveSystem(tmp_path, plan=plan_of(WIDTH), min_batch_size=100, entries={"shuffler": {"workers": 1}})
    with system.running(), httpx.Client(base_url=system.url, trust_env=False) as sender:
        _, key = system.keys()
        bodies = [junk(system.contract, key, 290 * 1024 // system.contract.bundle_size) for _ in range(4)]

        def send(count: int) -> None:
            for number in range(count):
                answer = sender.post(system.path(), content=bodies[number % 4], headers=HEADERS)
                assert answer.json()["type"].endswith("cannot-open")

        # What every process needs once: buffers, caches, threads.
        send(100)
        pid = system.processes["shuffler"].pid
        before = resident(pid)
        send(2000)
        assert resident(pid) - before < 64 << 20
