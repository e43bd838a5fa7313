"""The whole system under random operations on a simulated clock: nothing is lost, nothing is counted twice.

Every report carries a distinct value with practically no noise: a count of 2 is a replay, and a count of 0 for an
acknowledged report is a loss.
"""

import contextlib
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.service.system import EPOCH, DirectClient, System, clear_plan

from hubbub.errors import Problem

WIDTH, MIN_BATCH_SIZE, PEOPLE = 1024, 6, 5
PLAN = clear_plan(WIDTH, PEOPLE)
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None


class ConnectionBroken(Exception):
    """The connection to the analyzer broke."""


class UnreliableClient(DirectClient):
    """A connection to the analyzer that breaks before or after chosen requests."""

    def __init__(self, system: System, breaks: list[str]) -> None:
        super().__init__(system.analyzer)
        self.breaks = breaks

    def _moment(self, moment: str) -> None:
        if self.breaks and self.breaks[0] == moment:
            self.breaks.pop(0)
            raise ConnectionBroken

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        self._moment("request")
        answer = super().put_manifest(batch, document)
        self._moment("answer")
        return answer

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        self._moment("request")
        super().put_chunk(batch, index, data)
        self._moment("answer")


class Collection(RuleBasedStateMachine):
    """Operations of clients, operators, the network and the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=FAST))
        self.system = self._system()
        self.acknowledged: dict[int, bytes] = {}
        self.slots: dict[int, list[bytes]] = {}
        self.unsent: dict[int, bytes] = {}
        self.used = 0
        self.backup: Path | None = None
        self.doubtful: set[int] = set()
        self.since: set[int] = set()

    def _system(self) -> System:
        return System(self.folder, plan=PLAN, min_batch_size=MIN_BATCH_SIZE)

    def _fresh(self, count: int) -> list[tuple[int, bytes]]:
        client = self.system.client
        made = []
        for _ in range(count):
            value, self.used = self.used, self.used + 1
            self.slots[value] = client.slots([value.to_bytes(2, "little")])
            made.append((value, client.bundle(self.slots[value])))
        return made

    def _acknowledge(self, bundles: list[tuple[int, bytes]]) -> None:
        for value, bundle in bundles:
            self.acknowledged[value] = bundle
            self.since.add(value)

    @rule(count=st.integers(1, 8), answered=st.booleans(), arrived=st.booleans())
    def upload(self, count: int, answered: bool, arrived: bool) -> None:
        """Upload new bundles; the request or the response may be lost, and the client will retry."""
        bundles = self._fresh(count)
        if arrived:
            self.system.upload(*(bundle for _, bundle in bundles))
        if arrived and answered:
            self._acknowledge(bundles)
        else:
            self.unsent |= dict(bundles)

    @precondition(lambda self: self.unsent)
    @rule()
    def retry(self) -> None:
        """Retry every unanswered bundle; ``outdated-keys`` means that it was never accepted."""
        for value, first in list(self.unsent.items()):
            bundle = first
            try:
                self.system.upload(bundle)
            except Problem as refusal:
                assert refusal.name == "outdated-keys"
                client = self.system.client
                self.slots[value] = client.slots([value.to_bytes(2, "little")])
                bundle = client.bundle(self.slots[value])
                self.system.upload(bundle)
            del self.unsent[value]
            self._acknowledge([(value, bundle)])

    @precondition(lambda self: self.acknowledged)
    @rule(data=st.data(), times=st.integers(1, 3))
    def replay(self, data: st.DataObject, times: int) -> None:
        """Repeat an acknowledged bundle: it gets the same response, even after its key is destroyed."""
        value = data.draw(st.sampled_from(sorted(self.acknowledged)))
        if value in self.doubtful:
            return
        self.system.upload(*[self.acknowledged[value]] * times)

    @precondition(lambda self: self.acknowledged)
    @rule(data=st.data())
    def rewrap(self, data: st.DataObject) -> None:
        """Seal a slot into a second bundle."""
        value = data.draw(st.sampled_from(sorted(self.acknowledged)))
        try:
            self.system.upload(self.system.client.bundle(self.slots[value]))
        except Problem as refusal:
            assert refusal.name == "outdated-keys"

    @rule(data=st.data())
    def bad_input(self, data: st.DataObject) -> None:
        """Upload a bundle with one bit changed, and one that is too short."""
        bundle = bytearray(self.system.client.bundle(self.system.client.slots([b"\0\0"])))
        place = data.draw(st.integers(0, len(bundle) * 8 - 1))
        bundle[place // 8] ^= 1 << place % 8
        with pytest.raises(Problem):
            self.system.upload(bytes(bundle))
        with pytest.raises(Problem):
            self.system.upload(bytes(bundle[:-1]))

    @rule(seconds=st.sampled_from([EPOCH, EPOCH, EPOCH, 7 * EPOCH, 1, -EPOCH, -5 * EPOCH]))
    def tick(self, seconds: int) -> None:
        """Move the clock forwards or backwards."""
        if self.system.contract.accepts_at(self.system.clock.now() + seconds):
            self.system.clock.advance(seconds)
        self.system.shuffler.tick()

    @rule(breaks=st.lists(st.sampled_from(["request", "answer"]), max_size=3))
    def deliver(self, breaks: list[str]) -> None:
        """Deliver the waiting batches."""
        with contextlib.suppress(ConnectionBroken):
            self.system.shuffler.deliver(UnreliableClient(self.system, breaks))

    @rule()
    def work(self) -> None:
        """Count a complete batch, if there is one."""
        self.system.analyzer.work()

    @rule(which=st.sampled_from(["shuffler", "analyzer"]), fetch=st.booleans())
    def rotate(self, which: str, fetch: bool) -> None:
        """Rotate a key; the shuffler may learn of it later."""
        getattr(self.system, which).keyring.rotate()
        if fetch:
            self.system.shuffler.fetch_keys(self.system.link)

    @rule()
    def restart(self) -> None:
        """Restart both services."""
        self.system.restart()

    @rule()
    def back_up(self) -> None:
        """Back up the shuffler's store."""
        self.backup = self.folder / f"backup-{self.used}.db"
        self.backup.unlink(missing_ok=True)
        self.system.shuffler.store.backup(self.backup)
        self.since = set()

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self) -> None:
        """Restore the backup: later uploads are lost with the disk, but nothing is counted twice."""
        assert self.backup is not None
        self.system.shuffler.store.shut()
        for name in ("shuffler.db", "shuffler.db-wal", "shuffler.db-shm"):
            (self.folder / name).unlink(missing_ok=True)
        shutil.copy(self.backup, self.folder / "shuffler.db")
        self.doubtful |= self.since | set(self.unsent)
        self.unsent = {}
        # Bundles in the restored pool may have been delivered already: their batch is then withheld or smaller.
        self.doubtful |= set(self.acknowledged)
        self.system.restart()

    @invariant()
    def nothing_twice(self) -> None:
        """No value is counted twice, no batch is too small, and every bundle is accounted for."""
        counted = self._counted()
        assert max(counted.values(), default=0) <= 1
        assert set(counted) <= set(range(self.used))
        counts = self.system.shuffler.totals(check=True)[self.system.contract.id]
        assert counts.error == 0
        for batch in self.system.analyzer.store.batches(self.system.contract.task):
            assert batch.bundles >= MIN_BATCH_SIZE

    def _counted(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for result in self.system.results():
            if result["state"] == "committed":
                assert result["people"] >= PEOPLE
                found.update(_values(result))
        return found

    def teardown(self) -> None:
        """Finally, every acknowledged report is counted, waiting in a pool, or in a withheld batch."""
        try:
            self.system.clock.advance(10 * EPOCH)
            self.system.shuffler.tick()
            self.system.deliver()
            counted = self._counted()
            counts = self.system.shuffler.totals(check=True)[self.system.contract.id]
            assert counts.outbox == counts.error == 0
            withheld = sum(one["bundles"] for one in self.system.results() if one["state"] == "withheld")
            lost = set(self.acknowledged) - set(counted) - self.doubtful
            waiting = counts.pool + withheld + self._rejected()
            assert len(lost) <= waiting, (lost, waiting)
            if not self.doubtful and not withheld and not self._rejected():
                assert len(lost) <= counts.pool
        finally:
            self.system.shuffler.store.shut()
            self.system.analyzer.store.shut()
            shutil.rmtree(self.folder)

    def _rejected(self) -> int:
        return sum(sum(one["rejected"].values()) for one in self.system.results())


def _values(result: dict[str, Any]) -> list[int]:
    return [value for value, count in enumerate(result["values"]) if count > 0.5 for _ in range(round(count))]


SHORT = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
Collection.TestCase.settings = SHORT
TestShort = Collection.TestCase


@pytest.mark.slow
def test_five_hundred_sequences() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Collection, settings=settings(SHORT, max_examples=500, stateful_step_count=40))
