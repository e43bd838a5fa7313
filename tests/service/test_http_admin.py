"""Metrics that reveal no single arrival, health without a reason, and admin commands."""

import asyncio
import json
import re
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.asgi import ask, one

from hubbub.cli.serve import admin as admin_group
from hubbub.documents import Json
from hubbub.errors import InvalidInput, Problem, WireError
from hubbub.service.analyzer import app as analyzer_app
from hubbub.service.runtime.admin import COMMANDS, ROLES, Command, admin_app
from hubbub.service.runtime.metrics import Metrics, TaskMetrics, operations_app, rounding_step
from hubbub.service.shuffler import app as shuffler_app

A, B = "aa" * 16, "bb" * 16


def task_metrics(epoch: int, accepted: int, min_batch_size: int = 1000, error: int = 0) -> TaskMetrics:
    return TaskMetrics(
        epoch=epoch, min_batch_size=min_batch_size, bundles={"accepted": accepted, "pool": accepted}, error=error
    )


def shown(metrics: Metrics) -> dict[str, float]:
    """Return hubbub's own metrics as a scrape sees them."""
    text = one(operations_app(metrics, lambda: True), "GET", "/metrics").body.decode()
    found = re.findall(r"^(hubbub_[^ ]+) ([^ ]+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=5), st.integers(100, 100_000))
def test_within_an_epoch_arrivals_change_nothing(arrivals: list[int], min_batch_size: int) -> None:
    metrics = Metrics()
    metrics.update({A: task_metrics(7, 12_345, min_batch_size)}, {("uploads", "taken"): 777})
    before = shown(metrics)
    for total in arrivals:
        metrics.update({A: task_metrics(7, 12_345 + total, min_batch_size)}, {("uploads", "taken"): 777 + total})
        assert shown(metrics) == before


@given(st.integers(0, 10**6), st.integers(100, 10**5))
def test_counts_are_rounded_down(accepted: int, min_batch_size: int) -> None:
    metrics = Metrics()
    metrics.update({A: task_metrics(1, accepted, min_batch_size)}, {("uploads", "taken"): accepted})
    found = shown(metrics)
    value = found[f'hubbub_bundles{{state="accepted",task="{A}"}}']
    assert value == accepted - accepted % max(100, min_batch_size // 20)
    assert found.get('hubbub_uploads_total{result="taken"}', 0) == accepted - accepted % 100


def test_a_conservation_error_is_exact() -> None:
    metrics = Metrics()
    metrics.update({A: task_metrics(1, 500, error=-1), B: task_metrics(1, 500)}, {})
    assert shown(metrics)[f'hubbub_conservation_error{{task="{A}"}}'] == -1
    assert shown(metrics)[f'hubbub_conservation_error{{task="{B}"}}'] == 0


def test_request_counts_wait_for_the_longest_epoch() -> None:
    metrics = Metrics()
    name = 'hubbub_uploads_total{result="taken"}'

    def update(first: int, second: int, count: int) -> float:
        metrics.update({A: task_metrics(first, 0), B: task_metrics(second, 0)}, {("uploads", "taken"): count})
        return shown(metrics)[name]

    assert update(1, 1, 100) == 100
    assert update(2, 1, 200) == 100
    assert update(3, 1, 300) == 100
    assert update(3, 2, 400) == 400
    assert update(4, 2, 500) == 400


def test_removed_tasks_are_no_longer_shown() -> None:
    metrics = Metrics()
    metrics.update({A: task_metrics(1, 0)}, {})
    assert metrics.outdated({A: 2})
    assert not metrics.outdated({A: 1})
    metrics.update({}, {})
    assert not [name for name in shown(metrics) if A in name]


def test_live_values_and_no_process_metrics() -> None:
    metrics = Metrics(lambda: {"draining": 1.0})
    assert shown(metrics) == {"hubbub_draining": 1.0}
    assert b"process_" not in one(operations_app(metrics, lambda: True), "GET", "/metrics").body


def test_rounding_steps() -> None:
    assert [rounding_step(min_batch_size) for min_batch_size in (100, 2000, 2020, 10_000)] == [100, 100, 101, 500]


@pytest.mark.parametrize(("ready", "status"), [(True, 200), (False, 503), (None, 503)])
def test_health(ready: bool | None, status: int) -> None:
    def judge() -> bool:
        if ready is None:
            raise OSError("disk")
        return ready

    app = operations_app(Metrics(), judge)
    assert one(app, "GET", "/livez").status == 200
    answer = one(app, "GET", "/readyz")
    assert (answer.status, answer.body) == (status, b"ok\n" if status == 200 else b"no\n")


def test_a_store_that_hangs_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.service.runtime.metrics.READY_SECONDS", 0.02)
    gate = threading.Event()
    asked: list[int] = []

    def judge() -> bool:
        asked.append(1)
        return gate.wait(600)

    app = operations_app(Metrics(), judge)

    async def scenario() -> tuple[list[int], int]:
        hanging = [found.status for found in [await ask(app, "GET", "/readyz") for _ in range(5)] if found]
        gate.set()
        while (found := await ask(app, "GET", "/readyz")) is None or found.status != 200:
            await asyncio.sleep(0.001)
        return hanging, found.status

    assert asyncio.run(scenario()) == ([503] * 5, 200)
    assert len(asked) <= 2


class Handlers:
    """Handlers of a service that record their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def add(self, contract: bytes) -> dict[str, Json]:
        if contract == b"false":
            raise InvalidInput("the contract must be signed")
        return {"task": A}

    def close(self, task: bytes) -> None:
        self.calls.append(("close", task.hex()))

    def destroy(self, task: bytes) -> None:
        raise Problem("unknown-task")

    def rotate(self) -> None:
        self.calls.append(("rotate", None))

    def drain(self) -> None:
        self.calls.append(("drain", None))

    def backup(self, path: Path) -> None:
        path.write_bytes(b"copy")

    def check(self) -> dict[str, Json]:
        return {"good": True}

    def status(self) -> dict[str, Json]:
        return {"waiting": 3}

    def token(self, name: str, scope: str, seconds: float) -> dict[str, Json]:
        return {"token": f"{name} of {scope} for {seconds:.0f} s"}

    def tokens(self) -> dict[str, Json]:
        return {"tokens": []}

    def revoke(self, name: str) -> None:
        if name != "known":
            raise Problem("not-found", "there is no such token")


def send(
    handlers: Handlers, name: str, content: Mapping[str, object] | bytes = b"", role: str = "shuffler", method: str = ""
) -> tuple[int, Any]:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = {"content-length": str(len(body))}
    answer = one(admin_app(role, handlers), method or COMMANDS[name].method, COMMANDS[name].path, body, headers)
    return answer.status, json.loads(answer.body)


def test_commands() -> None:
    handlers = Handlers()
    assert send(handlers, "add", {"contract": "signed"}) == (200, {"task": A})
    assert send(handlers, "close", {"task": A}) == (200, {})
    assert send(handlers, "rotate") == (200, {})
    assert send(handlers, "drain") == (200, {})
    assert send(handlers, "check") == (200, {"good": True})
    assert send(handlers, "status") == (200, {"waiting": 3})
    created = send(handlers, "token", {"name": "a", "scope": "read:*", "expires": "2"}, "analyzer")
    assert created == (200, {"token": "a of read:* for 172800 s"})
    assert send(handlers, "tokens", role="analyzer") == (200, {"tokens": []})
    assert send(handlers, "revoke", {"name": "known"}, "analyzer") == (200, {})
    assert handlers.calls == [("close", A), ("rotate", None), ("drain", None)]


def test_commands_that_are_refused() -> None:
    handlers = Handlers()
    assert send(handlers, "add", {"contract": "false"})[0] == 400
    assert send(handlers, "destroy", {"task": A})[0] == 404
    assert send(handlers, "close", {"task": "zz"})[0] == 404
    assert send(handlers, "rotate", method="GET")[0] == 405
    whole = {"name": "a", "scope": "read:*", "expires": "2"}
    for change in (
        {"scope": 3},
        {"more": "b"},
        {"expires": "0"},
        {"expires": "nan"},
        {"expires": "4e3"},
        {"expires": ""},
    ):
        assert send(handlers, "token", {**whole, **change}, "analyzer")[0] == 400
    assert send(handlers, "revoke", {"name": "unknown"}, "analyzer")[0] == 404
    assert "'token' is a command of the analyzer" in send(handlers, "token", whole)[1]["detail"]
    assert not handlers.calls


def test_a_backup_is_a_new_private_file(tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    assert send(Handlers(), "backup", {"path": str(path)}) == (200, {})
    assert path.read_bytes() == b"copy"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert send(Handlers(), "backup", {"path": str(path)})[0] == 400
    assert send(Handlers(), "backup", {"path": "relative.db"})[0] == 400


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description of the admin socket."""
    paths: dict[str, Any] = {}
    for command in COMMANDS.values():
        operation: dict[str, Any] = {
            "operationId": command.name,
            "summary": command.help,
            "description": f"Served by: {', '.join(command.roles)}.",
            "responses": {
                "200": {"description": "Done.", "content": {"application/json": {"schema": {"type": "object"}}}},
                "default": {"description": "A problem document.", "content": {"application/problem+json": {}}},
            },
        }
        if command.parameters:
            entries = {one.name: {"type": "string", "description": one.help} for one in command.parameters}
            schema = {
                "type": "object",
                "properties": entries,
                "required": list(entries),
                "additionalProperties": False,
            }
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths[command.path] = {command.method.lower(): operation}
    about = {"title": "hubbub admin socket", "version": "2", "description": "Commands of a running service."}
    return {"openapi": "3.1.0", "info": about, "servers": [{"url": "http://service"}], "paths": paths}


def test_one_table_describes_all_commands() -> None:
    """Routes, command line and description are derived from the table; every role has a handler of each command."""
    assert set(admin_group.commands) == set(COMMANDS)
    stored = Path(__file__).parents[2] / "docs" / "openapi" / "admin.json"
    assert json.loads(stored.read_text("utf-8")) == openapi()
    for name, handlers in (("shuffler", shuffler_app._ShufflerCommands), ("analyzer", analyzer_app._AnalyzerCommands)):
        for command in COMMANDS.values():
            assert set(command.roles) <= set(ROLES)
            assert hasattr(handlers, command.name) == (name in command.roles)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=str)
def test_parameters_are_checked_before_sending(command: Command, tmp_path: Path) -> None:
    required = [entry for entry in command.parameters if entry.default is None]
    with pytest.raises(InvalidInput, match=f"the command {command.name} must be given with"):
        command.body(["more"] * (len(required) + 1))
    for place, entry in enumerate(required):
        with pytest.raises(InvalidInput, match=f"{command.name} must be followed by {entry.name.upper()}: "):
            command.body(["given"] * place)
        if entry.kind == "input file":
            (tmp_path / "binary").write_bytes(b"\xff")
            with pytest.raises(WireError, match="binary must be a signed contract: JSON in UTF-8"):
                command.body([str(tmp_path / "binary")])


def test_a_default_is_sent_unless_it_is_overridden() -> None:
    token = COMMANDS["token"]
    assert json.loads(token.body(["a", "read:*"])) == {"name": "a", "scope": "read:*", "expires": "90"}
    assert json.loads(token.body(["a", "read:*"], {"expires": "7"}))["expires"] == "7"
