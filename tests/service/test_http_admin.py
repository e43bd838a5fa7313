"""Figures that say nothing about a single arrival, health without a reason, and commands."""

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

from hubbub.canonical import Json
from hubbub.errors import InvalidInput, Problem
from hubbub.service.runtime.admin import Figures, Meter, admin, operations, step

A, B = "aa" * 16, "bb" * 16


def figures(epoch: int, accepted: int, min_batch_size: int = 1000, error: int = 0) -> Figures:
    return Figures(
        epoch=epoch, min_batch_size=min_batch_size, bundles={"accepted": accepted, "pool": accepted}, error=error
    )


def shown(meter: Meter) -> dict[str, float]:
    """All of hubbub's own figures, as a scrape sees them."""
    text = one(operations(meter, lambda: True), "GET", "/metrics").body.decode()
    found = re.findall(r"^(hubbub_[^ ]+) ([^ ]+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=5), st.integers(100, 100_000))
def test_within_an_epoch_arrivals_change_nothing(arrivals: list[int], min_batch_size: int) -> None:
    meter = Meter()
    meter.epoch({A: figures(7, 12_345, min_batch_size)}, {("uploads", "taken"): 777})
    before = shown(meter)
    for total in arrivals:
        meter.epoch({A: figures(7, 12_345 + total, min_batch_size)}, {("uploads", "taken"): 777 + total})
        assert shown(meter) == before


@given(st.integers(0, 10**6), st.integers(100, 10**5))
def test_figures_come_in_steps(accepted: int, min_batch_size: int) -> None:
    meter = Meter()
    meter.epoch({A: figures(1, accepted, min_batch_size)}, {("uploads", "taken"): accepted})
    found = shown(meter)
    value = found[f'hubbub_bundles{{state="accepted",task="{A}"}}']
    assert value == accepted - accepted % max(100, min_batch_size // 20)
    assert found['hubbub_uploads_total{result="taken"}'] == accepted - accepted % 100


def test_an_error_of_conservation_is_shown_exactly() -> None:
    meter = Meter()
    meter.epoch({A: figures(1, 500, error=-1), B: figures(1, 500)}, {})
    assert shown(meter)[f'hubbub_conservation_error{{task="{A}"}}'] == -1
    assert shown(meter)[f'hubbub_conservation_error{{task="{B}"}}'] == 0


def test_counts_of_requests_wait_for_the_longest_epoch() -> None:
    meter = Meter()
    name = 'hubbub_uploads_total{result="taken"}'

    def told(first: int, second: int, count: int) -> float:
        meter.epoch({A: figures(first, 0), B: figures(second, 0)}, {("uploads", "taken"): count})
        return shown(meter)[name]

    assert told(1, 1, 100) == 100
    assert told(2, 1, 200) == 100
    assert told(3, 1, 300) == 100
    assert told(3, 2, 400) == 400
    assert told(4, 2, 500) == 400


def test_tasks_that_are_gone_are_shown_no_more() -> None:
    meter = Meter()
    meter.epoch({A: figures(1, 0)}, {})
    assert meter.due({A: 2})
    assert not meter.due({A: 1})
    meter.epoch({}, {})
    assert not [name for name in shown(meter) if A in name]


def test_live_figures_and_none_of_the_process() -> None:
    meter = Meter(lambda: {"draining": 1.0})
    assert shown(meter) == {"hubbub_draining": 1.0}
    assert b"process_" not in one(operations(meter, lambda: True), "GET", "/metrics").body


def test_steps() -> None:
    assert [step(min_batch_size) for min_batch_size in (100, 2000, 2020, 10_000)] == [100, 100, 101, 500]


@pytest.mark.parametrize(("ready", "status"), [(True, 200), (False, 503), (None, 503)])
def test_health(ready: bool | None, status: int) -> None:
    def judge() -> bool:
        if ready is None:
            raise OSError("disk of somebody")
        return ready

    app = operations(Meter(), judge)
    assert one(app, "GET", "/livez").status == 200
    answer = one(app, "GET", "/readyz")
    assert (answer.status, answer.body) == (status, b"ok\n" if status == 200 else b"no\n")


def test_a_store_that_hangs_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.service.runtime.admin.PATIENCE", 0.02)
    gate = threading.Event()
    asked: list[int] = []

    def judge() -> bool:
        asked.append(1)
        return gate.wait(20)

    app = operations(Meter(), judge)

    async def scenario() -> tuple[list[int], int]:
        hanging = [found.status for found in [await ask(app, "GET", "/readyz") for _ in range(5)] if found]
        gate.set()
        while (found := await ask(app, "GET", "/readyz")) is None or found.status != 200:
            await asyncio.sleep(0.001)
        return hanging, found.status

    assert asyncio.run(scenario()) == ([503] * 5, 200)
    assert len(asked) <= 2


class Service:
    """Stands for a service that is given commands."""

    def __init__(self) -> None:
        self.done: list[tuple[str, object]] = []

    def add(self, contract: bytes) -> str:
        if contract == b"false":
            raise InvalidInput("the contract must be signed, got no signature")
        return A

    def close(self, task: bytes) -> None:
        self.done.append(("close", task.hex()))

    def destroy(self, task: bytes) -> None:
        raise Problem("unknown-task")

    def rotate(self) -> None:
        self.done.append(("rotate", None))

    def drain(self) -> None:
        self.done.append(("drain", None))

    def backup(self, path: Path) -> None:
        path.write_bytes(b"copy")

    def check(self) -> dict[str, Json]:
        return {"good": True}

    def status(self) -> dict[str, Json]:
        return {"waiting": 3}

    def add_token(self, scope: str) -> str:
        return "token of " + scope

    def revoke_token(self, token: str) -> bool:
        return token == "known"


def command(service: Service, method: str, path: str, content: Mapping[str, object] | bytes = b"") -> tuple[int, Any]:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    answer = one(admin(service), method, path, body, {"content-length": str(len(body))})
    return answer.status, json.loads(answer.body)


def test_commands() -> None:
    service = Service()
    assert command(service, "POST", "/tasks", b"contract") == (200, {"task": A})
    assert command(service, "POST", f"/tasks/{A}/close") == (200, {})
    assert command(service, "POST", "/rotate") == (200, {})
    assert command(service, "POST", "/drain") == (200, {})
    assert command(service, "GET", "/check") == (200, {"good": True})
    assert command(service, "GET", "/status") == (200, {"waiting": 3})
    assert command(service, "POST", "/tokens", {"scope": "read:*"}) == (200, {"token": "token of read:*"})
    assert command(service, "POST", "/tokens/revoke", {"token": "known"}) == (200, {})
    assert service.done == [("close", A), ("rotate", None), ("drain", None)]


def test_commands_that_are_refused() -> None:
    service = Service()
    assert command(service, "POST", "/tasks", b"false")[0] == 400
    assert command(service, "POST", f"/tasks/{A}/destroy")[0] == 404
    assert command(service, "POST", "/tasks/zz/close")[0] == 404
    assert command(service, "GET", "/rotate")[0] == 405
    assert command(service, "POST", "/tokens", {"scope": 3})[0] == 400
    assert command(service, "POST", "/tokens", {"scope": "a", "more": "b"})[0] == 400
    assert command(service, "POST", "/tokens/revoke", {"token": "unknown"})[0] == 404
    assert not service.done


def test_a_backup_is_a_new_file_of_its_owner(tmp_path: Path) -> None:
    place = tmp_path / "copy.db"
    assert command(Service(), "POST", "/backup", {"path": str(place)}) == (200, {})
    assert place.read_bytes() == b"copy"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert command(Service(), "POST", "/backup", {"path": str(place)})[0] == 400
    assert command(Service(), "POST", "/backup", {"path": "relative.db"})[0] == 400
