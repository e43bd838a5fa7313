"""The upload interface: what it accepts, what it rejects before reading, and that it never answers too early."""

import asyncio
import itertools
import json
import logging
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.service.asgi import Answer, ask, one

from hubbub.errors import Problem, StoreFailure, WorkerFailure
from hubbub.service.runtime.http import RateLimiter
from hubbub.service.runtime.workers import Job, Workers, seal_items
from hubbub.service.shuffler.core import Shuffler
from hubbub.service.shuffler.http import Limits, UploadApp, Writer, documents_app
from hubbub.service.task.sealing import generate

SIZE = 100
TASK = bytes(range(16))
PATH = f"/v1/tasks/{TASK.hex()}/bundles"
PRIVATE, PUBLIC = generate(1)
HEADERS = {"content-type": "application/hubbub-bundle"}


@dataclass
class Core:
    """A stand-in for the shuffler: bundles are plain bytes, accepted into a list."""

    accepted: list[bytes] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    failure: Exception | None = None
    by_workers: int = 0
    keys: bytes = b""
    signed: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def tasks(self) -> "Core":
        return self

    @property
    def uploads(self) -> "Core":
        return self

    def contracts(self) -> dict[str, Any]:
        return {TASK.hex(): SimpleNamespace(bundle_size=SIZE)}

    def prepare(self, task: bytes, body: bytes) -> Any:
        bundles = [body[start : start + SIZE] for start in range(0, len(body), SIZE)]
        if b"x" in {bundle[:1] for bundle in bundles}:
            raise Problem("malformed", index=0)
        if b"?" in {bundle[:1] for bundle in bundles}:
            raise KeyError("secret of a person")
        return SimpleNamespace(bundles=[bundle for bundle in bundles if bundle not in self.accepted])

    def open(self, upload: Any) -> list[bytes]:
        return list(upload.bundles)

    def jobs(self, upload: Any) -> Iterator[tuple[Job, bytes]]:
        self.by_workers += 1
        if any(bundle.startswith(b"old") for bundle in upload.bundles):
            raise Problem("outdated-keys", index=0)
        seal = Job(suite=1, key=PUBLIC, info=b"", size=SIZE)
        yield Job(suite=1, key=PRIVATE, info=b"", size=seal.sealed), seal_items(seal, b"".join(upload.bundles))

    def opened(self, upload: Any, done: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        # The workers' result must be the part of this upload.
        assert [(b"".join(upload.bundles), b"\1" * len(upload.bundles))] == list(done)
        return list(upload.bundles)

    def accept_all(self, uploads: Sequence[Sequence[bytes]]) -> list[Problem | None]:
        self.gate.wait(600)
        self.commits.append(sum(map(len, uploads)))
        if self.failure is not None:
            raise self.failure
        late = [any(bundle.startswith(b"late") for bundle in upload) for upload in uploads]
        kept = [bundle for upload, refused in zip(uploads, late, strict=True) if not refused for bundle in upload]
        self.accepted += [bundle for bundle in kept if bundle not in self.accepted]
        return [Problem("closed-task") if refused else None for refused in late]

    def contract_document(self, task: bytes) -> bytes:
        if task != TASK:
            raise Problem("unknown-task")
        return b'{"contract":1}'

    def keys_document(self, task: bytes) -> bytes:
        if not self.keys:
            raise Problem("unavailable", retry_after=5)
        self.signed += 1
        return self.keys


@dataclass
class Service:
    core: Core
    writer: Writer
    workers: Workers

    def app(self, **options: Any) -> UploadApp:
        core = cast("Shuffler", self.core)
        return UploadApp(core, self.writer, self.workers, documents_app(core.tasks), **options)


@pytest.fixture
def service() -> Iterator[Service]:
    core = Core()
    writer = Writer(cast("Any", core.accept_all))
    with Workers(0) as workers:
        yield Service(core, writer, workers)
    core.gate.set()
    writer.close()


def bundle(text: str) -> bytes:
    return text.encode().ljust(SIZE, b".")


def post(app: UploadApp, body: bytes | Iterable[bytes | None], length: int | None = None, **headers: str) -> Answer:
    size = len(body) if isinstance(body, bytes) else length
    told = {**HEADERS, "content-length": str(size if length is None else length)}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    return one(app, "POST", PATH, body, told)


def problem(answer: Answer) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    content = json.loads(answer.body)
    assert content["status"] == answer.status
    assert int(answer.headers["content-length"]) == len(answer.body)
    return str(content["type"].removeprefix("urn:hubbub:problem:"))


def test_new_and_repeated_bundles_get_the_same_response(service: Service) -> None:
    app = service.app()
    first = post(app, bundle("a"))
    again = post(app, bundle("a"))
    assert (first.status, first.headers, first.body) == (201, {"content-length": "0"}, b"")
    assert (again.status, again.headers, again.body) == (first.status, first.headers, first.body)
    assert service.core.accepted == [bundle("a")]
    assert app.waiting == 0


@pytest.mark.parametrize(("count", "by_workers"), [(1, 0), (7, 0), (8, 1), (256, 1)])
def test_many_are_opened_by_workers(service: Service, count: int, by_workers: int) -> None:
    bundles = [bundle(f"b{number}") for number in range(count)]
    assert post(service.app(), b"".join(bundles)).status == 201
    assert service.core.accepted == bundles
    assert service.core.by_workers == by_workers


def test_simultaneous_small_uploads_are_opened_together(service: Service) -> None:
    app = service.app()

    async def scenario() -> list[Answer]:
        texts = [f"o{number}" for number in range(30)] + ["old"]
        return await asyncio.gather(*(_post(app, bundle(text)) for text in texts))

    answers = asyncio.run(scenario())
    assert [answer.status for answer in answers] == [201] * 30 + [409]
    assert service.core.by_workers == 31
    assert sorted(service.core.accepted) == sorted(bundle(f"o{number}") for number in range(30))


def test_failing_workers_make_uploads_unavailable(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(job: Job, data: bytes) -> Future[tuple[bytes, bytes]]:
        found: Future[tuple[bytes, bytes]] = Future()
        found.set_exception(WorkerFailure("died"))
        return found

    monkeypatch.setattr(service.workers, "submit_open", fail)
    app = service.app()
    body = b"".join(bundle(f"b{number}") for number in range(10))
    assert post(app, body).status == 503
    monkeypatch.undo()
    assert post(app, body).status == 201
    assert app.waiting == 0


@pytest.mark.parametrize(
    ("name", "status", "method", "path", "headers"),
    [
        ("method-not-allowed", 405, "GET", PATH, {}),
        ("method-not-allowed", 405, "PUT", PATH, {**HEADERS, "content-length": "100"}),
        ("wrong-media-type", 415, "POST", PATH, {"content-length": "100"}),
        ("wrong-media-type", 415, "POST", PATH, {"content-type": "text/plain", "content-length": "100"}),
        ("wrong-media-type", 415, "POST", PATH, {**HEADERS, "content-length": "100", "content-encoding": "gzip"}),
        ("wrong-length", 400, "POST", PATH, HEADERS),
        ("wrong-length", 400, "POST", PATH, {**HEADERS, "transfer-encoding": "chunked"}),
        ("wrong-length", 400, "POST", PATH, {**HEADERS, "content-length": "0"}),
        ("wrong-length", 400, "POST", PATH, {**HEADERS, "content-length": "99"}),
        ("wrong-length", 400, "POST", PATH, {**HEADERS, "content-length": "150"}),
        ("malformed", 400, "POST", PATH, {**HEADERS, "content-length": "-100"}),
        ("malformed", 400, "POST", PATH, {**HEADERS, "content-length": "1e2"}),
        ("malformed", 400, "POST", PATH, {**HEADERS, "content-length": "1" * 5000}),
        ("too-large", 413, "POST", PATH, {**HEADERS, "content-length": "25700"}),
        ("too-large", 413, "POST", PATH, {**HEADERS, "content-length": "1048600"}),
        ("unknown-task", 404, "POST", f"/v1/tasks/{bytes(16).hex()}/bundles", HEADERS),
        ("unknown-task", 404, "POST", f"/v1/tasks/{TASK.hex().upper()}/bundles", HEADERS),
        ("unknown-task", 404, "POST", "/v1/tasks/zz/bundles", HEADERS),
        ("unknown-task", 404, "POST", "/v1/tasks//bundles", HEADERS),
        ("not-found", 404, "POST", PATH + "/", HEADERS),
        ("not-found", 404, "GET", "/", {}),
        ("method-not-allowed", 405, "POST", f"/v1/tasks/{TASK.hex()}", HEADERS),
    ],
)
def test_rejected_before_the_body_is_read(
    service: Service, name: str, status: int, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = one(service.app(), method, path, b"", headers)
    assert (answer.status, problem(answer)) == (status, name)
    assert answer.received == 0
    assert not service.core.commits
    assert ("allow" in answer.headers) == (status == 405)


def test_rejected_after_the_body_is_read(service: Service) -> None:
    answer = post(service.app(), bundle("x"))
    assert (answer.status, problem(answer), json.loads(answer.body)["index"]) == (400, "malformed", 0)


def test_a_body_in_pieces(service: Service) -> None:
    pieces = [bundle("a")[:10], b"", bundle("a")[10:], b"."]
    assert post(service.app(), pieces, length=SIZE).status == 201
    assert service.core.accepted == [bundle("a")]


def test_a_body_that_times_out(service: Service) -> None:
    app = service.app(limits=Limits(body_seconds=0.02))
    answer = post(app, [bundle("a")[:50]], length=SIZE)
    assert (answer.status, problem(answer)) == (408, "timeout")
    assert app.waiting == 0


@pytest.mark.parametrize("pieces", [[b"a" * 50, b"."], [b"a" * 150, b"."]])
def test_a_body_of_another_length(service: Service, pieces: list[bytes]) -> None:
    assert problem(post(service.app(), pieces, length=SIZE)) == "wrong-length"
    assert not service.core.commits


def test_a_client_that_disconnects_gets_no_response(service: Service) -> None:
    app = service.app()
    headers = {**HEADERS, "content-length": str(SIZE)}
    assert asyncio.run(ask(app, "POST", PATH, [b"a" * 50, None], headers)) is None
    assert app.waiting == 0
    assert app.results == {"gone": 1}


async def _post(app: UploadApp, body: bytes) -> Answer:
    found = await ask(app, "POST", PATH, body, {**HEADERS, "content-length": str(len(body))})
    assert found is not None
    return found


async def _until(condition: Any) -> None:
    async with asyncio.timeout(600):
        while not condition():
            await asyncio.sleep(0.001)


def test_waiting_uploads_share_a_commit_and_are_answered_after_it(service: Service) -> None:
    app = service.app()

    async def scenario() -> list[Answer]:
        service.core.gate.clear()
        first = asyncio.create_task(_post(app, bundle("first")))
        await _until(lambda: app.waiting == 1)
        await asyncio.sleep(0.01)
        others = [asyncio.create_task(_post(app, bundle(f"o{number}"))) for number in range(20)]
        await _until(lambda: app.waiting == 21)
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in [first, *others])
        service.core.gate.set()
        return [await task for task in [first, *others]]

    assert {answer.status for answer in asyncio.run(scenario())} == {201}
    assert sum(service.core.commits) == 21
    assert len(service.core.commits) <= 3
    assert len(service.core.accepted) == 21


@pytest.mark.parametrize("limits", [Limits(max_queue=20), Limits(max_memory=20 * SIZE)])
def test_a_full_queue_is_busy_and_recovers(service: Service, limits: Limits) -> None:
    app = service.app(limits=limits)

    async def scenario() -> tuple[list[Answer], Answer]:
        service.core.gate.clear()
        inside = [asyncio.create_task(_post(app, bundle(f"o{number}"))) for number in range(20)]
        await _until(lambda: app.waiting == 20)
        refused = await _post(app, bundle("late"))
        service.core.gate.set()
        return [await task for task in inside], refused

    answers, refused = asyncio.run(scenario())
    assert {answer.status for answer in answers} == {201}
    assert (refused.status, problem(refused), refused.headers["retry-after"]) == (429, "busy", "1")
    assert refused.received == 0
    assert app.waiting == 0
    assert post(app, bundle("again")).status == 201


def test_a_failing_store_is_unavailable_and_recovers(service: Service) -> None:
    app = service.app()
    service.core.failure = StoreFailure("disk full")
    answer = post(app, bundle("a"))
    assert (answer.status, problem(answer)) == (503, "unavailable")
    assert answer.headers["retry-after"] == "5"
    assert b"disk full" not in answer.body
    service.core.failure = None
    assert post(app, bundle("a")).status == 201
    assert service.core.accepted == [bundle("a")]


def test_a_problem_in_a_group_concerns_only_its_own_upload(service: Service) -> None:
    app = service.app()

    async def scenario() -> list[Answer]:
        service.core.gate.clear()
        first = asyncio.create_task(_post(app, bundle("first")))
        await _until(lambda: app.waiting == 1)
        await asyncio.sleep(0.01)
        others = [asyncio.create_task(_post(app, bundle(text))) for text in ("good", "late", "fine")]
        await _until(lambda: app.waiting == 4)
        await asyncio.sleep(0.01)
        service.core.gate.set()
        return [await task for task in [first, *others]]

    answers = asyncio.run(scenario())
    assert [answer.status for answer in answers] == [201, 201, 403, 201]
    assert set(service.core.accepted) == {bundle("first"), bundle("good"), bundle("fine")}


def test_an_unexpected_error_is_not_disclosed(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = post(service.app(), bundle("?"), user_agent="canary")
    assert (answer.status, problem(answer)) == (503, "unavailable")
    assert "KeyError" in caplog.text
    for secret in ("secret of a person", "canary", "192.0.2.1"):
        assert secret not in caplog.text
        assert secret.encode() not in answer.body


def test_a_full_disk_is_unavailable(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(total=1000, free=49))
    answer = post(service.app(folder=tmp_path), bundle("a"))
    assert (answer.status, problem(answer), answer.headers["retry-after"]) == (503, "unavailable", "30")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(total=1000, free=51))
    assert post(service.app(folder=tmp_path), bundle("a")).status == 201


def test_draining_rejects_and_closes(service: Service) -> None:
    app = service.app()
    app.draining = True
    answer = post(app, bundle("a"))
    assert (answer.status, problem(answer), answer.headers["connection"]) == (503, "unavailable", "close")


def test_requests_are_not_logged(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="hubbub"):
        post(service.app(), bundle("a"))
        post(service.app(), bundle("x"))
    assert not [record for record in caplog.records if record.name.startswith("hubbub")]


def test_the_writer_runs_calls_and_finishes_on_close() -> None:
    core = Core()
    writer = Writer(cast("Any", core.accept_all))
    assert writer.call(lambda: threading.current_thread().name).result(20) == "writer"
    with pytest.raises(StoreFailure):
        writer.call(_fail).result(20)

    async def scenario() -> None:
        core.gate.clear()
        futures = [asyncio.get_running_loop().create_future() for _ in range(5)]
        for number, future in enumerate(futures):
            writer.submit(cast("Any", [bundle(f"o{number}")]), future)
        closing = asyncio.get_running_loop().run_in_executor(None, writer.close)
        core.gate.set()
        await closing
        await asyncio.gather(*futures)

    asyncio.run(scenario())
    assert len(core.accepted) == 5


def _fail() -> None:
    raise StoreFailure("disk full")


def test_addresses_are_rate_limited(service: Service) -> None:
    app = service.app(rate_limiter=RateLimiter(rate=1e-9, burst=3))
    assert [post(app, bundle(str(number))).status for number in range(4)] == [201, 201, 201, 429]
    headers = {**HEADERS, "content-length": str(SIZE)}
    assert one(app, "POST", PATH, bundle("5"), headers, client="192.0.2.2").status == 201
    assert one(app, "POST", PATH, bundle("6"), headers, client="127.0.0.1").status == 201
    assert one(app, "POST", PATH, bundle("7"), headers, client=None).status == 201


def test_rate_limits_refill_and_are_forgotten() -> None:
    limiter = RateLimiter(rate=2, burst=4)
    assert limiter.take("192.0.2.1", 4, now=0.0)
    assert not limiter.take("192.0.2.1", 1, now=0.4)
    assert limiter.take("192.0.2.1", 1, now=0.5)
    assert not limiter.take("192.0.2.1", 4, now=1.0)
    assert limiter.take("192.0.2.1", 4, now=RateLimiter.KEY_SECONDS + 1)
    assert not limiter.take("2001:db8::1", 5, now=1.0)
    assert limiter.take("2001:db8::1", 4, now=1.0)
    assert not limiter.take("2001:db8::2", 1, now=1.0)
    assert limiter.take("2001:db8:0:1::2", 1, now=1.0)
    assert "192.0.2.1" not in repr(vars(limiter))
    # A long silence is not saved up.
    assert limiter.take("192.0.2.7", 1, now=1.0)
    assert not limiter.take("192.0.2.7", 5, now=1000.0)


def test_the_key_that_hides_addresses_lasts_an_hour() -> None:
    limiter = RateLimiter(rate=1e-9, burst=1)
    key = limiter._key
    assert [limiter.take("192.0.2.1", 1, now=now) for now in (0.0, RateLimiter.KEY_SECONDS)] == [True, False]
    assert limiter._key == key
    assert limiter.take("192.0.2.1", 1, now=RateLimiter.KEY_SECONDS + 1)
    assert limiter._key != key


def test_few_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RateLimiter, "MAX_ADDRESSES", 4)
    limiter = RateLimiter(rate=1e-9, burst=1)
    for number in range(20):
        assert limiter.take(f"192.0.2.{number}", 1, now=0.0)
        assert len(limiter._buckets) <= 4


def test_a_proxy_header_names_the_client() -> None:
    limiter = RateLimiter(rate=1e-9, burst=1, header="X-Forwarded-For")

    def scope(value: bytes) -> dict[str, Any]:
        return {"headers": [(b"x-forwarded-for", value)], "client": ("127.0.0.1", 1)}

    assert limiter.address(scope(b"198.51.100.9, 192.0.2.1")) == "192.0.2.1"
    # The proxy may add a line instead of an entry.
    assert (
        limiter.address({"headers": [*scope(b"198.51.100.9")["headers"], *scope(b"192.0.2.1")["headers"]]})
        == "192.0.2.1"
    )
    assert limiter.address({"headers": [], "client": ("127.0.0.1", 1)}) == ""
    assert limiter.take("127.0.0.1", 1, now=0.0)
    assert not limiter.take("127.0.0.1", 1, now=0.0)


@pytest.mark.parametrize(
    ("same", "other"),
    [
        (
            ["192.0.2.1", "192.0.2.1:5678", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:80"],
            ["192.0.2.2", "::ffff:192.0.2.3"],
        ),
        (["2001:db8::1", "[2001:db8::2]:443", '"[2001:db8::3]"', "2001:db8::1%eth0"], ["2001:db8:0:1::1"]),
        (["not an address", "", "unknown", "999.1.1.1:80"], ["192.0.2.1"]),
    ],
    ids=["IPv4", "IPv6", "none"],
)
def test_every_form_of_an_address_is_limited_and_only_that_address(same: list[str], other: list[str]) -> None:
    """Regression: all IPv4 addresses in the form of IPv6 shared one limit, and those with a port had none."""
    for first, second in itertools.permutations(same, 2):
        limiter = RateLimiter(rate=1e-9, burst=1, header="Forwarded")
        assert limiter.take(first, 1, now=0.0)
        assert not limiter.take(second, 1, now=0.0), (first, second)
        assert all(limiter.take(one, 1, now=0.0) for one in other)


def test_the_contract_has_an_etag(service: Service) -> None:
    app = service.app()
    path = f"/v1/tasks/{TASK.hex()}"
    answer = one(app, "GET", path)
    assert (answer.status, answer.body) == (200, b'{"contract":1}')
    again = one(app, "GET", path, headers={"if-none-match": f'"other", {answer.headers["etag"]}'})
    assert (again.status, again.body) == (304, b"")
    assert one(app, "GET", path, headers={"if-none-match": '"other"'}).status == 200
    assert problem(one(app, "GET", f"/v1/tasks/{bytes(16).hex()}")) == "unknown-task"
    assert one(app, "GET", path + "/keys").headers["retry-after"] == "5"


def test_key_lists_are_not_signed_for_every_request(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    app = service.app()
    path = f"/v1/tasks/{TASK.hex()}/keys"
    assert one(app, "GET", path).status == 503
    service.core.keys = b'{"keys":1}'
    assert {one(app, "GET", path).body for _ in range(5)} == {b'{"keys":1}'}
    assert service.core.signed < 5
    monkeypatch.setattr("hubbub.service.shuffler.http.KEYS_MAX_AGE", 0.0)
    service.core.keys = b'{"keys":2}'
    assert one(app, "GET", path).body == b'{"keys":2}'
