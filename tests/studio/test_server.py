"""The running studio: it streams, ends with everything that it started, and its tabs do not disturb each other."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.conftest import call
from tests.studio.conftest import INQUIRY, LIMIT, Running
from tests.studio.live.process import started

from hubbub.studio.desk import Desk
from hubbub.studio.inquiry import Inquiry
from hubbub.studio.workers import LATE, STALE, TABS, Job, Workers

pytestmark = pytest.mark.long

IO = 5
"""Exit code of a failed input or output."""
SLOW = {**INQUIRY, "kind": "any", "d": 9, "n": 100_000, "rounds": 12}
"""An inquiry whose certificates take longer than the studio waits."""


def children(pid: int) -> set[int]:
    """All processes that descend from one."""
    found = {
        int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()
    }
    return found.union(*(children(one) for one in found))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, however busy the machine is."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def stream(
    studio: Running, tab: str, inquiry: dict[str, Any], families: list[str], *, patient: bool = True
) -> list[dict[str, Any]]:
    body = {
        "tab": tab,
        "generation": time.monotonic_ns() // 1000,
        "inquiry": inquiry,
        "families": families,
        "patient": patient,
    }
    with httpx.stream("POST", f"{studio.address}api/certify", json=body, timeout=LIMIT) as answer:
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        return [json.loads(line) for line in answer.iter_lines()]


def test_certificates_are_streamed_or_late(studio: Running) -> None:
    found = stream(studio, "a", INQUIRY, ["clear-shuffler-fakes", "split"])
    assert [one["state"] for one in found] == ["certified"] * 2
    slow = stream(studio, "a", SLOW, ["flip", "copies", "fake-and-flip", "split"], patient=False)
    assert len(slow) == 4
    assert any(one["state"] == "late" for one in slow)


@pytest.fixture
def another() -> Iterator[Running]:
    """A studio that a test may end; it is killed if the test fails before."""
    running = Running()
    yield running
    running.process.kill()
    running.process.wait(LIMIT)
    assert running.process.stdout is not None
    running.process.stdout.close()


def test_no_process_survives_a_signal(another: Running) -> None:
    """Also while all of them are at work."""
    running = another
    body = {"tab": "a", "generation": 1, "inquiry": SLOW, "families": ["flip", "copies", "split"], "patient": False}
    with httpx.Client() as client, client.stream("POST", f"{running.address}api/certify", json=body, timeout=LIMIT):
        wait_until(lambda: len(children(running.process.pid)) >= 2)
        started = children(running.process.pid)
        running.process.terminate()
        running.process.wait(LIMIT)
        wait_until(lambda: not any(map(alive, started)))


def test_slow_clients_neither_hold_up_the_end_nor_appear_in_a_log() -> None:
    running = Running(errors=subprocess.PIPE)
    stream(running, "a", INQUIRY, ["clear-shuffler-fakes"])
    head = f"POST /api/outline HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nContent-Type: application/json\r\n"
    with contextlib.ExitStack() as opened:
        for number in range(40):
            one = opened.enter_context(socket.create_connection(("127.0.0.1", running.port)))
            one.send(f'{head}Content-Length: 1000\r\n\r\n{{"secret'.encode() if number % 2 else b"GET / HTT")
        assert httpx.get(running.address, timeout=LIMIT).status_code == 200
        running.process.terminate()
        # The clients are still connected, and would be for ever: the studio ends all the same.
        _, said = running.process.communicate(timeout=LIMIT)
    assert said == ""


def test_workers_end_with_a_killed_server(another: Running) -> None:
    running = another
    stream(running, "a", INQUIRY, ["clear-shuffler-fakes"])
    started = children(running.process.pid)
    running.process.kill()
    running.process.wait(LIMIT)
    wait_until(lambda: not any(map(alive, started)))


def test_a_port_in_use_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = call("studio", "--no-open", "--port", str(port))
    assert result.exit_code == IO, result.output
    assert f"127.0.0.1:{port}" in result.stderr


def job(
    workers: Workers, tab: str, generation: int, inquiry: dict[str, Any], family: str, *, patient: bool = False
) -> Job:
    slot = workers.newest(tab, generation)
    arguments = {"inquiry": Inquiry.from_document(inquiry), "family": family}
    end = time.monotonic() + LIMIT
    return Job(task="certify", arguments=arguments, slot=slot, generation=generation, deadline=end, patient=patient)


def test_urgent_and_impatient_work_does_not_wait_for_the_rest() -> None:
    async def run() -> None:
        workers = Workers(2)
        try:
            for urgent in (False, True):
                await workers.ready(urgent=urgent)
            families = ("flip", "copies", "fake-and-flip")
            slow = [workers.run(job(workers, f"late {one}", 1, SLOW, one, patient=True)) for one in families]
            running = [asyncio.ensure_future(one) for one in slow]
            await asyncio.sleep(0.3)
            other = await workers.run(job(workers, "b", 1, INQUIRY, "clear-shuffler-fakes"))
            assert other["state"] == "certified"
            assert not any(one.done() for one in running), "patient work leaves one process to others"
            busy = asyncio.ensure_future(workers.run(job(workers, "c", 1, SLOW, "flip")))
            slot = workers.newest("preliminary c", 1)
            asked = {"inquiry": Inquiry.from_document({**INQUIRY, "kind": "any"})}
            end = time.monotonic() + LIMIT
            first = Job(task="preliminary", arguments=asked, slot=slot, generation=1, deadline=end, urgent=True)
            assert (await workers.run(first))["preliminary"]
            assert not busy.done()
            assert not any(one.done() for one in running)
            for name in ("c", *(f"late {one}" for one in families)):
                workers.newest(name, 2)
            await asyncio.gather(busy, *running)
        finally:
            workers.end()

    asyncio.run(run())


def test_tabs_do_not_cancel_each_other() -> None:
    async def run() -> None:
        workers = Workers(2)
        try:
            await workers.ready()
            old = asyncio.ensure_future(workers.run(job(workers, "a", 1, SLOW, "flip")))
            await asyncio.sleep(0.3)
            other = await workers.run(job(workers, "b", 1, INQUIRY, "clear-shuffler-fakes"))
            assert other["state"] == "certified"
            assert not old.done(), "what tab a asked for still runs"
            newer = await workers.run(job(workers, "a", 2, INQUIRY, "split"))
            assert newer["state"] == "certified"
            stopped = await asyncio.wait_for(old, LIMIT)
            # A process that was still loading found the job out of date; one that ran it stopped.
            assert stopped == STALE or stopped["state"] == "late"
            before = job(workers, "a", 3, INQUIRY, "split")
            workers.newest("a", 4)
            assert await workers.run(before) == STALE
        finally:
            workers.end()

    asyncio.run(run())


def test_a_worker_that_dies_is_replaced() -> None:
    async def run() -> None:
        others = children(os.getpid())
        workers = Workers(1)
        try:
            await workers.ready()
            slow = asyncio.ensure_future(workers.run(job(workers, "a", 1, SLOW, "flip")))
            await asyncio.sleep(0.3)
            started = children(os.getpid()) - others - tracker()
            (one,) = (pid for pid in started if os.getpriority(os.PRIO_PROCESS, pid) > os.nice(0))
            os.kill(one, 9)
            await asyncio.sleep(0.3)
            assert not slow.done(), "another process repeats the job"
            workers.newest("a", 2)
            assert "error" not in await slow
            again = await workers.run(job(workers, "b", 1, INQUIRY, "clear-shuffler-fakes"))
            assert again["state"] == "certified"
        finally:
            workers.end()

    asyncio.run(run())


def test_readers_that_hang_up_while_the_studio_starts_do_no_harm() -> None:
    async def run() -> None:
        workers = Workers(1)
        try:
            for _ in range(4):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(workers.ready(), 0.05)
            for number in range(3):
                asked = job(workers, "a", number, INQUIRY, "clear-shuffler-fakes")
                found = await asyncio.wait_for(workers.run(asked), LIMIT)
                assert found.get("state") == "certified"
        finally:
            workers.end()

    asyncio.run(run())


def test_a_process_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.studio.workers.OVERDUE", 0.1)

    async def run() -> None:
        workers = Workers(1)
        try:
            await workers.ready()
            (pid,) = (one.process.pid for one in workers._all if one.niceness)
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)  # it answers nothing, as in a step that takes minutes
            asked = replace(job(workers, "a", 1, INQUIRY, "split"), deadline=time.monotonic() + 0.2)
            assert (await asyncio.wait_for(workers.run(asked), LIMIT)) == LATE
            assert not alive(pid)
            again = await workers.run(job(workers, "a", 2, INQUIRY, "split"))
            assert again["state"] == "certified"
        finally:
            workers.end()

    asyncio.run(run())


def test_a_process_that_does_not_start_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.studio.workers.STARTING", 0.5)

    async def run() -> None:
        workers = Workers(1)
        try:
            (pid,) = (one.process.pid for one in workers._all if one.niceness)
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            await asyncio.wait_for(workers.ready(), LIMIT)
            found = await workers.run(job(workers, "a", 1, INQUIRY, "split"))
            assert found["state"] == "certified"
            assert not alive(pid)
        finally:
            workers.end()

    asyncio.run(run())


def test_searches_for_epsilon_leave_a_process_to_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.studio.desk.PATIENCE", 3600.0)

    async def run() -> None:
        workers = Workers(2)
        desk = Desk(workers)
        try:
            await workers.ready()
            hard = [{**INQUIRY, "kind": "any", "d": 9, "n": 100_000 + place} for place in range(2)]
            searches = [
                asyncio.ensure_future(desk.solve({"tab": f"s{place}", "inquiry": one, "margin": 30.0}))
                for place, one in enumerate(hard)
            ]
            await asyncio.sleep(0.3)
            other = await workers.run(job(workers, "b", 1, INQUIRY, "clear-shuffler-fakes"))
            assert other["state"] == "certified"
            assert not any(one.done() for one in searches)
            for one in searches:
                one.cancel()
        finally:
            workers.end()

    asyncio.run(run())


def test_a_studio_that_is_stopped_while_it_starts_ends_its_processes() -> None:
    command = [sys.executable, "-c", "from hubbub.cli import main; main()", "studio", "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as studio:
        while not (found := children(studio.pid)):
            assert studio.poll() is None
            time.sleep(0.005)
        studio.terminate()
        _, said = studio.communicate(timeout=LIMIT)
        assert (studio.returncode, said) == (0, "")
        # The process of multiprocessing that counts resources ends after the studio.
        wait_until(lambda: not any(map(alive, found)))


def tracker() -> set[int]:
    """The helper process of multiprocessing, which counts shared resources."""
    from multiprocessing.resource_tracker import _resource_tracker

    pid = getattr(_resource_tracker, "_pid", None)
    return {pid} if pid else set()


def test_many_tabs() -> None:
    async def run() -> None:
        workers = Workers(1)
        try:
            slots = {workers.newest(f"tab {number}", 1) for number in range(3 * TABS)}
            assert slots == set(range(TABS))
            assert workers.newest("tab 191", 2) == workers.newest("tab 191", 3)
        finally:
            workers.end()

    asyncio.run(run())


def test_the_demonstration_leaves_nothing_behind_if_it_ends_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with started("-m", "tools.demo_studio", "--port", "0", "--no-open") as process:
        while not any("hubbub.service" in line for line in process.printed):
            assert process.process.poll() is None, process.printed
            time.sleep(0.02)
        assert process.stopped()
    assert list(tmp_path.iterdir()) == []
