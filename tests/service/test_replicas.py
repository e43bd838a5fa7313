"""Several processes on one PostgreSQL store: whatever is interleaved, every bundle counts exactly once."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.service.crashes import at_boundary
from tests.service.shuffler_system import EPOCH, System, clear_plan

from hubbub.errors import HubbubError, Problem
from hubbub.service.runtime.database import LostLease, open_database
from hubbub.service.shuffler.core import Shuffler
from hubbub.service.shuffler.store import Counts, ShufflerStore

PLAN = clear_plan(1024, 5)
BATCH = 10


class Pair:
    """Two shufflers on one store, and clients that send distinct values to either."""

    def __init__(self, folder: Path, url: str) -> None:
        self.system = System(folder, plan=PLAN, min_batch_size=BATCH, url=url)
        self.first, self.second = self.system.shuffler, self.system.replica()
        self.sent: list[int] = []
        self.refused = 0

    def send(self, shuffler: Shuffler, count: int, *, twice: Shuffler | None = None) -> None:
        """Upload new values; ``twice`` gets the same bundles, as after a lost response."""
        for _ in range(count):
            value = len(self.sent)
            self.sent.append(value)
            bundle = self.seal(value)
            try:
                self.system.upload(bundle, to=shuffler)
            except Problem as problem:
                # The bucket changed meanwhile; the bundle was not stored, so the client seals again.
                assert problem.name == "outdated-keys"
                bundle = self.seal(value)
                self.system.upload(bundle, to=shuffler)
            if twice is not None:
                self.system.upload(bundle, to=twice)

    def seal(self, value: int) -> bytes:
        self.first.tasks.refresh()
        client = self.system.client
        return client.bundle(client.slots([value.to_bytes(2, "little")]))

    def work(self, shuffler: Shuffler) -> None:
        """Do everything that a worker does, once."""
        for step in (shuffler.tick, shuffler.shuffle, lambda: shuffler.deliver(self.system.analyzer)):
            step()

    def finish(self) -> None:
        """Let both go on until nothing is waiting, and judge."""
        for _ in range(3):
            self.system.clock.advance(EPOCH)
            for shuffler in (self.first, self.second):
                self.work(shuffler)
        counted = self.system.analyzer.messages()
        counts = self.system.counts()
        assert counts.fenced == counts.expired == counts.sealed == counts.outbox == 0
        assert counts == Counts(accepted=len(self.sent), committed=sum(counted.values()), open=counts.open)
        assert set(counted.values()) <= {1}
        assert counts.open < BATCH
        assert {int.from_bytes(message or b"", "little") for message in counted} <= set(self.sent)
        # A retry by the other process sends the same bytes; no batch was ever announced with other ones.
        announced = dict(self.system.analyzer.announcements)
        assert len(set(self.system.analyzer.announcements)) == len(announced)
        assert max(self.system.analyzer.slots.values(), default=1) == 1

    def shut(self) -> None:
        self.first.shut()
        self.second.shut()


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str) -> Iterator[Pair]:
    found = Pair(tmp_path, postgres_url)
    yield found
    found.shut()


def test_both_accept_and_either_releases(pair: Pair) -> None:
    pair.send(pair.first, 8, twice=pair.second)
    pair.send(pair.second, 8, twice=pair.first)
    assert pair.system.counts() == Counts(accepted=16, open=16)
    pair.finish()
    assert pair.system.counts() == Counts(accepted=16, committed=16)


def test_a_process_takes_over_when_the_leases_of_a_dead_one_have_ended(pair: Pair) -> None:
    pair.send(pair.first, 12)
    pair.system.clock.advance(EPOCH)
    assert len(pair.first.tick()) == 1
    assert pair.first._leases.acquire("shuffle " + _batch(pair)) is not None
    # The first one dies here. Its lease keeps the second away, until it ends.
    assert pair.second.shuffle() == []
    pair.system.clock.advance(EPOCH)
    assert pair.second.shuffle() == [_batch(pair)]


def test_a_process_that_lost_its_lease_cannot_write(pair: Pair) -> None:
    pair.send(pair.first, 12)
    pair.system.clock.advance(EPOCH)
    pair.first.tick()
    lease = pair.first._leases.acquire("shuffle " + _batch(pair))
    assert lease is not None
    pair.system.clock.advance(EPOCH)
    assert pair.second.shuffle() == [_batch(pair)]
    (bucket,) = pair.first._deliveries._waiting()
    with pytest.raises(LostLease):
        pair.first._shuffles._shuffle(bucket, lease)
    pair.finish()


def _batch(pair: Pair) -> str:
    return pair.first._deliveries._waiting()[0].batch


def _scenario(pair: Pair) -> Callable[[], None]:
    def act() -> None:
        """Let the second shuffler do everything while the first one stands still, its leases ended."""
        pair.system.clock.advance(EPOCH)
        pair.system.analyzer.rotate()
        pair.second.fetch_keys(pair.system.analyzer)
        pair.send(pair.second, 4)
        pair.work(pair.second)

    return act


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_defect_3_two_shufflers_interleaved_at_every_transaction(pair: Pair, step: int) -> None:
    """The first shuffler stops before its k-th transaction, the second does everything, and the first goes on."""
    for number in range(1, 100, step):
        pair.second._give_back()
        pair.send(pair.first, 10, twice=pair.second)
        pair.system.clock.advance(EPOCH)
        with at_boundary(pair.first, number, _scenario(pair)) as count:
            pair.send(pair.first, 2, twice=pair.second)
            for work in (pair.first.tick, pair.first.shuffle):
                work()
            for _ in range(2):
                pair.first.deliver(pair.system.analyzer)
        pair.finish()
        if count[0] < number:
            break
    assert 15 < number < 99


def test_uploads_to_two_processes_at_once_count_once(pair: Pair) -> None:
    """The same bundles race through both processes while buckets are sealed: no deadlock, no double."""
    client = pair.system.client
    bundles = [client.bundle(client.slots([value.to_bytes(2, "little")])) for value in range(60)]
    pair.sent = list(range(60))
    failures: list[BaseException] = []

    def upload(shuffler: Shuffler, order: list[bytes]) -> None:
        try:
            for start in range(0, 60, 6):
                pair.system.upload(*order[start : start + 6], to=shuffler)
        except HubbubError as error:
            failures.append(error)

    threads = [
        threading.Thread(target=upload, args=(pair.first, bundles)),
        threading.Thread(target=upload, args=(pair.second, bundles[::-1])),
    ]
    for thread in threads:
        thread.start()
    for _ in range(5):
        pair.system.clock.advance(EPOCH)
        pair.first.tick()
    for thread in threads:
        thread.join()
    assert failures == []
    pair.finish()
    assert pair.system.counts().accepted == 60


def test_an_intake_process_never_leads(pair: Pair) -> None:
    intake = pair.system.replica(worker=False)
    pair.send(intake, 12)
    pair.system.clock.advance(EPOCH)
    assert len(pair.first.tick()) == 1
    intake.refresh()
    assert intake.tasks.find(pair.system.contract.task).row.bucket == 2
    pair.send(intake, 3)
    assert pair.system.counts() == Counts(accepted=15, sealed=12, open=3)
    intake.shut()


def test_every_process_counts_in_its_own_row(pair: Pair) -> None:
    pair.first.store._shard, pair.second.store._shard = 1, 2
    pair.send(pair.first, 3)
    pair.send(pair.second, 4)
    rows = pair.first.store.jobs.rows("SELECT shard, bundles FROM counts ORDER BY shard")
    assert rows == [(1, 3), (2, 4)]


def test_replicas_that_start_at_once_on_an_empty_store(postgres_url: str) -> None:
    """Regression: both created the tables, and one of them exited."""
    url = postgres_url.format(role="shuffler")
    together = threading.Barrier(6)
    failures: list[BaseException] = []

    def start() -> None:
        together.wait()
        try:
            ShufflerStore(lambda: open_database(url)).shut()
        except HubbubError as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
