"""Chunk jobs: killed at every step, shared by several workers, with a lost lease; each slot counts once."""

import random
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from numpy.typing import NDArray
from tests.service.analyzer_system import AnalyzerSystem, FakeShuffler, Sent, contract_of, small_plan, spoil

from hubbub.errors import HubbubError
from hubbub.service.analyzer import jobs, store
from hubbub.service.analyzer.core import Analyzer
from hubbub.service.runtime.database import LEASE_SECONDS
from hubbub.service.runtime.failpoints import POINTS
from hubbub.service.task.contract import Contract

VALUES = [str(i % 5) for i in range(24)]
STEPS = (
    "manifest-stored",
    "chunk-stored",
    "chunk-committed",
    "chunk-opened",
    "chunk-spent",
    "chunk-counted",
    "chunk-tally-committed",
    "batch-counted",
    "batch-committed",
)


class Killed(BaseException):
    """The process dies here; nothing of it runs any more."""


class Kills:
    """Failpoints that raise in this process: an open transaction is rolled back, as after SIGKILL."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed, self.left = "", 0
        self.action: Callable[[], None] | None = None
        self.reached: set[str] = set()
        for module in (store, jobs):
            monkeypatch.setattr(module, "reach", self._reach)

    def arm(self, name: str, count: int = 1, action: Callable[[], None] | None = None) -> None:
        assert not name or name in POINTS
        self.armed, self.left, self.action = name, count, action

    def _reach(self, name: str) -> None:
        self.reached.add(name)
        if name != self.armed:
            return
        self.left -= 1
        if self.left == 0:
            if self.action is None:
                raise Killed
            self.action()


@pytest.fixture(params=["sqlite", "postgres"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnalyzerSystem]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    found = AnalyzerSystem(tmp_path, url=url)
    yield found
    found.shut()


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Kills:
    return Kills(monkeypatch)


def batch_of(system: AnalyzerSystem, bucket: int = 1, chunk: int = 7) -> Sent:
    """Return a batch with two bad slots and one repeated one, in several chunks."""
    key = system.key()
    slots = system.shuffler.people(VALUES, key)
    slots[0], slots[1], slots[2] = spoil(slots[0]), spoil(slots[1]), slots[3]
    return system.shuffler.batch(bucket, slots, key, chunk=chunk)


EXPECTED = {"cannot_open": 2, "repeated": 1}


def finish(system: AnalyzerSystem, sent: Sent) -> bytes:
    """Deliver as a shuffler does after a failure, until the receipt is there."""
    for _ in range(50):
        system.clock.advance(2 * LEASE_SECONDS)
        answer = system.core.put_manifest(sent.id, sent.document)
        if isinstance(answer, bytes):
            return answer
        for index in answer:
            system.core.put_chunk(sent.id, index, sent.chunks[index])
        while system.core.work():
            pass
    raise AssertionError("the batch is never finished")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("count", [1, 3])
def test_a_kill_at_any_step_counts_every_slot_once(system: AnalyzerSystem, kills: Kills, step: str, count: int) -> None:
    sent = batch_of(system)
    kills.arm(step, count)
    killed = False
    try:
        system.deliver(sent)
    except Killed:
        killed = True
    assert killed == (count == 1 or not step.startswith(("manifest", "batch")))
    kills.arm("")
    system.restart()
    receipt = finish(system, sent)
    result = system.result(1)
    assert (result["people"], result["messages"], result["rejected"]) == (21, 21, EXPECTED)
    system.restart()
    assert system.core.put_manifest(sent.id, sent.document) == receipt
    assert system.core.store.writer.rows("SELECT COUNT(*) FROM chunks") == [(0,)]
    assert system.core.store.writer.rows("SELECT COUNT(*) FROM partial_tallies") == [(0,)]


def test_a_worker_that_lost_its_lease_writes_nothing(system: AnalyzerSystem, kills: Kills) -> None:
    """While one worker is paused, the clock passes the end of its lease and another worker does everything."""
    _take_over(system, kills, "chunk-opened")


@pytest.mark.parametrize("step", ["chunk-spent", "batch-counted"])
def test_a_worker_paused_in_its_transaction_keeps_others_waiting(
    postgres_url: str, tmp_path: Path, kills: Kills, step: str
) -> None:
    system = AnalyzerSystem(tmp_path, url=postgres_url)
    _take_over(system, kills, step)
    system.shut()


def _take_over(system: AnalyzerSystem, kills: Kills, step: str) -> None:
    """Let another worker work while the first one is paused at a step."""
    sent, other = batch_of(system), system.replica()
    system.core.put_manifest(sent.id, sent.document)
    for index, data in enumerate(sent.chunks):
        system.core.put_chunk(sent.id, index, data)
    paused: list[threading.Thread] = []

    def take_over() -> None:
        kills.arm("")
        system.clock.advance(2 * LEASE_SECONDS)
        thread = threading.Thread(target=lambda: [None for _ in range(20) if other.work()])
        thread.start()
        # Inside a transaction, the other worker waits for its end: nothing is lost by that either.
        thread.join(0.3 if step != "chunk-opened" else 600)
        paused.append(thread)

    kills.arm(step, 1, take_over)
    while system.core.work():
        pass
    for thread in paused:
        thread.join(600)
    assert paused
    finish(system, sent)
    assert (system.result(1)["messages"], system.result(1)["rejected"]) == (21, EXPECTED)


def test_several_workers_share_the_chunks_of_batches_with_common_slots(postgres_url: str, tmp_path: Path) -> None:
    """Four processes on one PostgreSQL store; every slot is in two batches, and counts in one of them."""
    system = AnalyzerSystem(tmp_path, url=postgres_url)
    key = system.key()
    people = system.shuffler.people([str(i % 5) for i in range(120)], key)
    batches = [system.shuffler.batch(bucket, people, key, chunk=10, seed=bucket) for bucket in (1, 2)]
    for sent in batches:
        system.core.put_manifest(sent.id, sent.document)
        for index, data in enumerate(sent.chunks):
            system.core.put_chunk(sent.id, index, data)
    done: list[int] = []

    def run(worker: Analyzer) -> None:
        count = 0
        while worker.work():
            count += 1
        done.append(count)

    threads = [threading.Thread(target=run, args=(system.replica(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert len(done) == 4
    while system.core.work():
        pass
    results = [system.result(bucket) for bucket in (1, 2)]
    assert sum(result["rejected"].get("repeated", 0) for result in results) == 120
    assert sum(done) <= 26
    system.shut()


def test_workers_take_different_chunks(system: AnalyzerSystem, kills: Kills) -> None:
    """A chunk that another worker holds is skipped; without leases both would open the same one."""
    sent, other, opened = batch_of(system), system.replica(), []
    system.core.put_manifest(sent.id, sent.document)
    for index, data in enumerate(sent.chunks):
        system.core.put_chunk(sent.id, index, data)

    def during() -> None:
        kills.arm("")
        assert other.work()
        opened.extend(system.core.store.waiting_chunks(sent.id))

    kills.arm("chunk-opened", 1, during)
    assert system.core.work()
    assert opened == [0, 2, 3]
    finish(system, sent)
    assert system.result(1)["rejected"] == EXPECTED


def test_a_chunk_that_is_stored_again_after_it_was_counted_is_dropped(system: AnalyzerSystem) -> None:
    """A repeated request may insert a chunk just after another worker has counted and deleted it."""
    sent = batch_of(system)
    system.core.put_manifest(sent.id, sent.document)
    system.core.put_chunk(sent.id, 0, sent.chunks[0])
    assert system.core.work()
    system.core.store.writer.insert("chunks", [(sent.id, 0, sent.chunks[0])])
    assert not system.core.work()
    assert system.core.store.waiting_chunks(sent.id) == []
    finish(system, sent)
    assert (system.result(1)["messages"], system.result(1)["rejected"]) == (21, EXPECTED)


def test_a_result_is_stored_only_once(system: AnalyzerSystem) -> None:
    sent = batch_of(system)
    receipt, result = finish(system, sent), system.core.store.result(sent.id)
    with system.core.store.writer.transaction():
        assert not system.core.store.finish(sent.id, "withheld", b"other", b"other")
    assert (system.core.store.receipt(sent.id), system.core.store.result(sent.id)) == (receipt, result)


def test_a_batch_that_fails_does_not_hold_up_others(system: AnalyzerSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = batch_of(system, 1), batch_of(system, 2)
    system.core.put_manifest(first.id, first.document)
    for index, data in enumerate(first.chunks):
        system.core.put_chunk(first.id, index, data)
    opening = jobs.TallyJobs._tally

    def failing(self: Any, batch: Any, *arguments: Any) -> bool:
        if batch.id == first.id:
            raise HubbubError("this batch cannot be counted")
        return opening(self, batch, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(jobs.TallyJobs, "_tally", failing)
        system.core.put_manifest(second.id, second.document)
        for index, data in enumerate(second.chunks):
            system.core.put_chunk(second.id, index, data)
        for _ in second.chunks:
            assert system.core.work()
        assert system.core.work()
        with pytest.raises(HubbubError, match="cannot be counted"):
            system.core.work()
    assert [entry["bucket"] for entry in system.core.batches(system.task)] == [2]
    finish(system, first)


class Machine(RuleBasedStateMachine):
    """Any order of deliveries, kills, restarts, repeats and doubled shufflers; every receipt and result is final."""

    folder: Path
    kills: Kills
    numbers = iter(range(10**9))

    @initialize()
    def begin(self) -> None:
        self.system = AnalyzerSystem(self.folder / str(next(self.numbers)), [contract_of(small_plan(), 20)])
        self.sent: dict[int, Sent] = {}
        self.receipts: dict[int, bytes] = {}
        self.results: dict[int, bytes] = {}
        self.shuffler = FakeShuffler(self.system.contract)

    @rule(step=st.sampled_from(["", *STEPS]), count=st.integers(1, 4))
    def arm(self, step: str, count: int) -> None:
        self.kills.arm(step, count)

    @precondition(lambda self: len(self.sent) < 4)
    @rule()
    def seal_a_bucket(self) -> None:
        bucket = len(self.sent) + 1
        self.sent[bucket] = batch_of(self.system, bucket, chunk=11)

    def _try(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Killed:
            self.kills.arm("")
            self.system.restart()
            return None

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def announce(self, data: st.DataObject) -> None:
        bucket = data.draw(st.sampled_from(sorted(self.sent)))
        sent = self.sent[bucket]
        answer = self._try(self.system.core.put_manifest, sent.id, sent.document)
        if isinstance(answer, bytes):
            assert self.receipts.setdefault(bucket, answer) == answer

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def send_a_chunk(self, data: st.DataObject) -> None:
        sent = self.sent[data.draw(st.sampled_from(sorted(self.sent)))]
        index = data.draw(st.integers(0, len(sent.chunks) - 1))
        if self.system.core.store.find(sent.id) is not None:
            self._try(self.system.core.put_chunk, sent.id, index, sent.chunks[index])

    @rule(times=st.integers(1, 5))
    def work(self, times: int) -> None:
        self.system.clock.advance(LEASE_SECONDS)
        for _ in range(times):
            self._try(self.system.core.work)

    @rule()
    def restart(self) -> None:
        self.system.restart()

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def another_shuffler_announces_the_same_bucket(self, data: st.DataObject) -> None:
        bucket = data.draw(st.sampled_from(sorted(self.sent)))
        if self.system.core.store.find(self.sent[bucket].id) is None:
            return
        other = batch_of(self.system, bucket)
        with pytest.raises(HubbubError, match="fenced"):
            self.system.core.put_manifest(other.id, other.document)

    @invariant()
    def results_never_change(self) -> None:
        for bucket, sent in getattr(self, "sent", {}).items():
            result = self.system.core.store.result(sent.id)
            if result is not None:
                assert self.results.setdefault(bucket, result) == result
                found = self.system.result(bucket)
                assert (found["messages"], found["rejected"]) == (21, EXPECTED)
            else:
                assert bucket not in self.results

    def teardown(self) -> None:
        self.kills.arm("")
        for sent in self.sent.values():
            finish(self.system, sent)
        self.results_never_change()
        self.system.shut()


@pytest.mark.parametrize("examples", [8, pytest.param(300, marks=pytest.mark.slow)], ids=["short", "long"])
def test_state_machine(tmp_path: Path, kills: Kills, examples: int) -> None:
    Machine.folder, Machine.kills = tmp_path, kills
    checks = list(HealthCheck)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, database=None, suppress_health_check=checks
        ),
    )


def test_9_memory_does_not_grow_with_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve chunks take no more memory than three; a batch in memory would take four times as much."""

    def opened(rows: NDArray[np.uint8], contract: Contract, *_: object) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        return np.ones((len(rows), contract.plan.payload), np.uint8), np.zeros(len(rows), np.uint8)

    monkeypatch.setattr(jobs, "open_slots", opened)
    peaks = []
    for chunks in (3, 12):
        system = AnalyzerSystem(tmp_path / str(chunks))
        slot, drawn = system.contract.slot_size, random.Random(chunks)
        sent = system.shuffler.batch(1, [drawn.randbytes(slot) for _ in range(4000 * chunks)], 1, chunk=4000)
        system.core.put_manifest(sent.id, sent.document)
        for index, data in enumerate(sent.chunks):
            system.core.put_chunk(sent.id, index, data)
        tracemalloc.start()
        while system.core.work():
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert system.result(1)["messages"] == 4000 * chunks
        system.shut()
    assert peaks[1] < 1.3 * peaks[0]
