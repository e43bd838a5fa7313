"""The analyzer's HTTP interfaces: delivery is idempotent, and results require a token."""

import hashlib
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.service.asgi import Answer, one

from hubbub.errors import Problem
from hubbub.service.analyzer.core import Analyzer
from hubbub.service.analyzer.http import (
    MAX_MANIFEST_SIZE,
    MAX_RESULTS,
    MAX_RESULTS_SIZE,
    MAX_STATEMENT_SIZE,
    delivery_app,
    results_app,
)
from hubbub.service.analyzer.store import BatchRow
from hubbub.service.runtime.http import App
from hubbub.service.task.manifest import CHUNK_SIZE

TASK, OTHER = bytes(16), bytes([1] * 16)
BATCH = "ab" * 16


@dataclass
class Core:
    """A stand-in for the analyzer, with one batch of two chunks and two tokens."""

    chunks: dict[int, bytes] = field(default_factory=dict)
    announced: bytes = b""
    counted: bool = False
    stated: bytes = b""
    several: list[bytes] = field(default_factory=list)
    store: Any = None
    scopes: dict[str, str] = field(default_factory=lambda: {"all": "read:*", "one": f"read:{TASK.hex()}"})

    def __post_init__(self) -> None:
        self.store = SimpleNamespace(
            find=lambda batch: self._row() if batch == BATCH else None,
            result=lambda _: b'{"result":1}' if self.counted else None,
            results=lambda task, after, last, count: self.several[:count],
        )

    def _row(self) -> BatchRow:
        state = "committed" if self.counted else "arriving"
        sizes = {"round": 1, "key_id": 1, "bundles": 100, "slots": 100, "chunk_count": 2}
        return BatchRow(id=BATCH, task=TASK, bucket=1, epoch=7, **sizes, state=state)

    def contracts(self) -> dict[str, Any]:
        return {TASK.hex(): None, OTHER.hex(): None}

    def batches(self, task: bytes, after: int = 0) -> list[dict[str, str]]:
        if task.hex() not in self.contracts():
            raise Problem("unknown-task")
        return [{"batch": BATCH, "state": "committed"}] if self.counted and task == TASK and after < 1 else []

    def scope(self, token: str) -> str | None:
        return self.scopes.get(token)

    def authorize(self, token: str, task: str | None = None) -> bool:
        return self.scope(token) in ("read:*", f"read:{task}")

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        if self.announced not in (b"", document):
            raise Problem("fenced")
        self.announced = document
        return b'{"receipt":1}' if self.counted else [part for part in range(2) if part not in self.chunks]

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        if index > 1:
            raise Problem("not-found")
        self.chunks[index] = data

    def keys_document(self) -> bytes:
        return b'{"keys":[]}'

    def gaps(self, task: bytes) -> list[dict[str, Any]]:
        return [{"first": 1, "last": 1, "reason": "unknown here"}] if task == OTHER else []

    def manifest(self, batch: str) -> bytes:
        if batch != BATCH or not self.announced:
            raise Problem("not-found")
        return self.announced

    def counter(self, task: bytes) -> bytes:
        if task != TASK:
            raise Problem("unknown-task")
        return b'{"counter":1}'

    def put_keys_in_use(self, task: bytes, document: bytes) -> None:
        if self.stated > document:
            raise Problem("conflict")
        self.stated = document


@pytest.fixture
def core() -> Core:
    return Core()


def linked(core: Core, arrived: list[int], seconds: float = 10.0) -> App:
    return delivery_app(cast("Analyzer", core), lambda: arrived.append(1), seconds=seconds)


def put(app: App, path: str, body: bytes, length: int | None = None) -> Answer:
    return one(app, "PUT", path, body, {"content-length": str(len(body) if length is None else length)})


def problem(answer: Answer) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    return str(json.loads(answer.body)["type"].removeprefix("urn:hubbub:problem:"))


def test_a_batch_is_delivered(core: Core) -> None:
    arrived: list[int] = []
    app = linked(core, arrived)
    path = f"/v1/batches/{BATCH}"
    first = put(app, path, b"manifest")
    assert (first.status, json.loads(first.body)) == (202, {"missing": [0, 1]})
    assert "retry-after" not in first.headers
    for index in (0, 1, 1):
        answer = put(app, f"{path}/chunks/{index}", b"part")
        assert (answer.status, answer.body) == (204, b"")
    assert arrived == [1, 1, 1], "a chunk can be counted as soon as it has arrived"
    second = put(app, path, b"manifest")
    assert (second.status, json.loads(second.body), second.headers["retry-after"]) == (202, {"missing": []}, "1")
    assert arrived == [1, 1, 1, 1]
    core.counted = True
    receipts = {(answer.status, answer.body) for answer in (put(app, path, b"manifest") for _ in range(3))}
    assert receipts == {(200, b'{"receipt":1}')}
    fenced = put(app, path, b"another")
    assert (fenced.status, problem(fenced)) == (409, "fenced")
    assert one(app, "GET", f"{path}/manifest").body == b"manifest"
    unknown = one(app, "GET", f"/v1/batches/{'cd' * 16}/manifest")
    assert (unknown.status, problem(unknown)) == (404, "not-found")


@pytest.mark.parametrize(
    ("name", "status", "path", "length"),
    [
        ("too-large", 413, f"/v1/batches/{BATCH}", MAX_MANIFEST_SIZE + 1),
        ("too-large", 413, f"/v1/batches/{BATCH}/chunks/0", CHUNK_SIZE + 1),
        ("not-found", 404, f"/v1/batches/{BATCH.upper()}", 4),
        ("not-found", 404, f"/v1/batches/{BATCH}x", 4),
        ("not-found", 404, f"/v1/batches/{BATCH}/chunks/{'9' * 40}", 4),
        ("not-found", 404, f"/v1/batches/{BATCH}/chunks/-1", 4),
        ("not-found", 404, f"/v1/batches/{BATCH}/", 4),
    ],
)
def test_rejected_before_the_body_is_read(core: Core, name: str, status: int, path: str, length: int) -> None:
    answer = put(linked(core, []), path, b"", length)
    assert (answer.status, problem(answer), answer.received) == (status, name, 0)
    assert not core.chunks


def test_a_chunk_that_times_out(core: Core) -> None:
    answer = one(linked(core, [], 0.02), "PUT", f"/v1/batches/{BATCH}/chunks/0", [b"ab"], {"content-length": "4"})
    assert (answer.status, problem(answer)) == (408, "timeout")
    assert not core.chunks


def test_other_methods_are_not_allowed(core: Core) -> None:
    answer = one(linked(core, []), "POST", f"/v1/batches/{BATCH}")
    assert (answer.status, problem(answer), answer.headers["allow"]) == (405, "method-not-allowed", "PUT")


def test_the_key_list_is_served(core: Core) -> None:
    assert one(linked(core, []), "GET", "/v1/keys").body == b'{"keys":[]}'


def test_the_counter_is_served(core: Core) -> None:
    app = linked(core, [])
    assert one(app, "GET", f"/v1/tasks/{TASK.hex()}/counter").body == b'{"counter":1}'
    for task in (OTHER.hex(), "ab"):
        assert problem(one(app, "GET", f"/v1/tasks/{task}/counter")) == "unknown-task"


def test_statements_of_the_keys_in_use_are_stored(core: Core) -> None:
    app, path = linked(core, []), f"/v1/tasks/{TASK.hex()}/keys-in-use"
    for _ in range(2):
        answer = put(app, path, b"b")
        assert (answer.status, answer.body, core.stated) == (204, b"", b"b")
    old = put(app, path, b"a")
    assert (old.status, problem(old)) == (409, "conflict")
    large = put(app, path, b"", MAX_STATEMENT_SIZE + 1)
    assert (large.status, problem(large), large.received) == (413, "too-large", 0)
    assert problem(put(app, "/v1/tasks/ab/keys-in-use", b"c")) == "unknown-task"


def read(core: Core, path: str, token: str | None, **headers: str) -> Answer:
    told = {} if token is None else {"authorization": token}
    return one(results_app(cast("Analyzer", core)), "GET", path, headers=told | headers)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/tasks",
        f"/v1/tasks/{TASK.hex()}/batches",
        f"/v1/tasks/{TASK.hex()}/results",
        f"/v1/batches/{BATCH}",
    ],
)
@pytest.mark.parametrize("token", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic all", "all"])
def test_results_require_a_token(core: Core, path: str, token: str | None) -> None:
    core.counted = True
    answer = read(core, path, token)
    assert (answer.status, problem(answer), answer.headers["www-authenticate"]) == (401, "unauthorized", "Bearer")


def test_a_token_reads_its_scope_only(core: Core) -> None:
    core.counted = True
    assert json.loads(read(core, "/v1/tasks", "Bearer all").body) == {"tasks": [TASK.hex(), OTHER.hex()]}
    assert json.loads(read(core, "/v1/tasks", "bearer one").body) == {"tasks": [TASK.hex()]}
    batches = read(core, f"/v1/tasks/{TASK.hex()}/batches", "Bearer one")
    assert json.loads(batches.body) == {"batches": [{"batch": BATCH, "state": "committed"}], "gaps": []}
    others = read(core, f"/v1/tasks/{OTHER.hex()}/batches", "Bearer all")
    unknown = {"first": 1, "last": 1, "reason": "unknown here"}
    assert json.loads(others.body) == {"batches": [], "gaps": [unknown]}
    assert problem(read(core, f"/v1/tasks/{OTHER.hex()}/batches", "Bearer one")) == "forbidden"
    assert problem(read(core, f"/v1/tasks/{bytes([2] * 16).hex()}/batches", "Bearer all")) == "unknown-task"
    core.scopes = {"other": f"read:{OTHER.hex()}"}
    forbidden = read(core, f"/v1/batches/{BATCH}", "Bearer other")
    assert (forbidden.status, problem(forbidden)) == (403, "forbidden")


def test_an_answer_with_several_results_is_bounded_but_never_empty(core: Core) -> None:
    large = b'{"x":"' + b"a" * MAX_RESULTS_SIZE + b'"}'
    for several, expected in (([], 0), ([b"{}"] * 300, MAX_RESULTS), ([large, large], 1), ([b"{}", large], 1)):
        core.several = several
        found = json.loads(read(core, f"/v1/tasks/{TASK.hex()}/results", "Bearer all").body)
        assert len(found["results"]) == expected


def test_a_result_never_changes(core: Core) -> None:
    path = f"/v1/batches/{BATCH}"
    waiting = read(core, path, "Bearer all")
    assert (waiting.status, problem(waiting), waiting.headers["retry-after"]) == (404, "not-found", "1")
    core.counted = True
    answers = {(found.status, found.body, found.headers["etag"]) for found in (read(core, path, "Bearer all"),) * 3}
    digest = hashlib.sha256(b'{"result":1}').hexdigest()[:32]
    tag = f'"{digest}"'
    assert answers == {(200, b'{"result":1}', tag)}
    again = read(core, path, "Bearer all", **{"if-none-match": tag})
    assert (again.status, again.body) == (304, b"")
    assert problem(read(core, f"/v1/batches/{'cd' * 16}", "Bearer all")) == "not-found"
