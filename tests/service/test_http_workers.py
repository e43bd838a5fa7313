"""Worker processes return the same results as in-process work, whatever happens to them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.service.live import wait_until

from hubbub.errors import InvalidInput, WorkerFailure
from hubbub.service.runtime import workers as module
from hubbub.service.runtime.workers import Job, Workers
from hubbub.service.task.sealing import generate

SIZE = 20


@pytest.fixture(scope="module")
def crew() -> Iterator[Workers]:
    with Workers(2) as found:
        yield found


def numbered(count: int) -> bytes:
    return b"".join(number.to_bytes(SIZE, "big") for number in range(count))


@pytest.mark.parametrize("suite", [1, 2])
def test_open_what_was_sealed(crew: Workers, suite: int) -> None:
    private, public = generate(suite)
    count = module.FRAME_ITEMS * 2 + 7 if suite == 1 else 9
    seal = Job(suite=suite, key=public, info=b"x", size=SIZE)
    sealed = crew.seal(seal, numbered(count))
    assert len(sealed) == count * seal.sealed
    job = Job(suite=suite, key=private, info=b"x", size=seal.sealed)
    assert crew.open(job, sealed) == (numbered(count), b"\1" * count)


def test_damaged_items_are_marked_and_the_others_kept(crew: Workers) -> None:
    private, public = generate(1)
    seal = Job(suite=1, key=public, info=b"x", size=SIZE)
    sealed = bytearray(crew.seal(seal, numbered(5)))
    sealed[2 * seal.sealed] ^= 1
    sealed[4 * seal.sealed - 1] ^= 1
    sealed[4 * seal.sealed : 4 * seal.sealed + 32] = bytes(32)
    texts, good = crew.open(Job(suite=1, key=private, info=b"x", size=seal.sealed), bytes(sealed))
    assert good == b"\1\1\0\0\0"
    assert texts == numbered(2) + bytes(3 * SIZE)


def test_headers_are_skipped_and_info_binds(crew: Workers) -> None:
    private, public = generate(1)
    sealed = crew.seal(Job(suite=1, key=public, info=b"x", size=SIZE), numbered(1))
    job = Job(suite=1, key=private, info=b"x", size=len(sealed) + 3, skip=3)
    assert crew.open(job, b"abc" + sealed)[1] == b"\1"
    other = Job(suite=1, key=private, info=b"y", size=len(sealed) + 3, skip=3)
    assert crew.open(other, b"abc" + sealed) == (bytes(SIZE), b"\0")


def test_zero_workers_give_the_same_results(crew: Workers) -> None:
    private, public = generate(1)
    sealed = crew.seal(Job(suite=1, key=public, info=b"x", size=SIZE), numbered(3))
    job = Job(suite=1, key=private, info=b"x", size=len(sealed) // 3)
    with Workers(0) as none:
        assert none.open(job, sealed) == crew.open(job, sealed) == crew.submit_open(job, sealed).result()
        assert none.submit_open(job, sealed).result()[1] == b"\1\1\1"
        assert not none.pids


def test_invalid_jobs_are_rejected() -> None:
    job = Job(suite=1, key=bytes(32), info=b"", size=60)
    with Workers(0) as none, pytest.raises(InvalidInput, match="multiple of 60"):
        none.open(job, bytes(61))
    with pytest.raises(InvalidInput, match="suite must be 1 or 2"):
        Job(suite=3, key=b"", info=b"", size=60)


def test_many_threads_share_the_workers(crew: Workers) -> None:
    private, public = generate(1)
    seal = Job(suite=1, key=public, info=b"x", size=SIZE)
    job = Job(suite=1, key=private, info=b"x", size=seal.sealed)
    wrong: list[int] = []

    def one(number: int) -> None:
        text = number.to_bytes(SIZE, "big") * 20
        if crew.open(job, crew.seal(seal, text)) != (text, b"\1" * 20):
            wrong.append(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_large_call_does_not_block_a_small_one(crew: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    private, public = generate(1)
    seal = Job(suite=1, key=public, info=b"x", size=SIZE)
    job = Job(suite=1, key=private, info=b"x", size=seal.sealed)
    small = crew.seal(seal, numbered(3))
    order: list[int] = []
    opened: list[Future[tuple[bytes, bytes]]] = []
    ask = Workers._ask

    def watched(self: Workers, what: int, asked: Job, data: bytes | memoryview) -> bytearray:
        order.append(len(data))
        if len(order) == 3:
            opened.append(crew.submit_open(job, small))
        return ask(self, what, asked, data)

    monkeypatch.setattr(Workers, "_ask", watched)
    monkeypatch.setattr(module, "FRAME_ITEMS", 4)
    crew.seal(seal, numbered(400))
    assert opened[0].result(20) == (numbered(3), b"\1\1\1")
    assert len(order) == 101
    assert order.index(len(small)) < 12


def test_a_killed_worker_is_replaced(crew: Workers) -> None:
    private, public = generate(1)
    seal = Job(suite=1, key=public, info=b"x", size=SIZE)
    job = Job(suite=1, key=private, info=b"x", size=seal.sealed)
    sealed = crew.seal(seal, numbered(3 * module.FRAME_ITEMS))
    before = crew.pids
    assert before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert crew.open(job, sealed) == (numbered(3 * module.FRAME_ITEMS), b"\1" * 3 * module.FRAME_ITEMS)
    assert not set(before) & set(crew.pids)


def test_workers_that_always_die_raise_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Workers(1) as crew, pytest.raises(WorkerFailure, match="died 3 times"):
        crew.open(Job(suite=1, key=bytes(32), info=b"", size=60), bytes(60))


def test_workers_ignore_group_signals_and_exit_with_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import sys, time; from hubbub.service.runtime.workers import Workers\n"
        "crew = Workers(2); crew.start(); print(*crew.pids, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    wait_until(lambda: all(_ignores(pid, signal.SIGTERM) for pid in pids))
    os.kill(pids[0], signal.SIGTERM)
    assert _lives(pids[0])
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not any(map(_lives, pids)))


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _lives(pid: int) -> bool:
    return _status(pid).get("State", "Z")[0] != "Z"


def _ignores(pid: int, number: signal.Signals) -> bool:
    return bool(int(_status(pid).get("SigIgn", "0"), 16) >> (number - 1) & 1)
