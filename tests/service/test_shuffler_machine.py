"""The shuffler under random operations on a simulated clock: nothing is lost silently, nothing is counted twice.

Every report carries a distinct value with practically no noise: a count of 2 is a replay, and a count of 0 for an
acknowledged report must be explained by a state of the conservation law, or by a restored backup that a gap names.
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
from tests.service.crashes import killed_at
from tests.service.shuffler_system import EPOCH, System, clear_plan

from hubbub.errors import Problem
from hubbub.service.shuffler.core import Shuffler

WIDTH, MIN_BATCH_SIZE, PEOPLE = 4096, 6, 5
PLAN = clear_plan(WIDTH, PEOPLE)
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
POINTS = (
    *("accept-inserted", "accept-committed", "release-sealed", "release-committed", "fence-raised", "shuffle-chunk"),
    *("shuffle-signed", "shuffle-committed", "deliver-chunk-sent", "deliver-receipt", "deliver-committed"),
    *("sweep-erased", "sweep-slice", "secret-created", "secret-erased", "restore-abandoned", "restore-written"),
    *("restore-committed", "rotate-after-record", "destroy-after-record"),
)


class ConnectionBroken(Exception):
    """The connection to the analyzer broke."""


class UnreliableClient:
    """A connection to the analyzer that breaks before or after chosen requests."""

    def __init__(self, system: System, breaks: list[str]) -> None:
        self._analyzer, self._breaks = system.analyzer, breaks

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._analyzer, name)

        def call(*arguments: Any) -> Any:
            self._moment("request")
            answer = method(*arguments)
            self._moment("answer")
            return answer

        return call

    def _moment(self, moment: str) -> None:
        if self._breaks and self._breaks[0] == moment:
            self._breaks.pop(0)
            raise ConnectionBroken


class Collection(RuleBasedStateMachine):
    """Operations of clients, operators, the network and the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=FAST))
        self.system = self._system()
        self.acknowledged: dict[int, bytes] = {}
        self.unsent: dict[int, bytes] = {}
        self.used = 0
        self.backup: Path | None = None
        self.since: set[int] = set()
        """Values acknowledged since the backup."""
        self.lost: set[int] = set()
        """Values that a restored backup does not know, or that were in a bucket it repeated."""
        self.restores = 0

    def _system(self) -> System:
        return System(self.folder, plan=PLAN, min_batch_size=MIN_BATCH_SIZE, lifetime=20 * EPOCH, grace=5 * EPOCH)

    @property
    def intake(self) -> Shuffler:
        """The process that gets the next upload."""
        return self.system.shuffler

    def _seal(self, value: int) -> bytes:
        client = self.system.client
        return client.bundle(client.slots([value.to_bytes(2, "little")]))

    def _acknowledge(self, value: int, bundle: bytes) -> None:
        self.acknowledged[value] = bundle
        self.since.add(value)

    @rule(count=st.integers(1, 8), answered=st.booleans(), arrived=st.booleans())
    def upload(self, count: int, answered: bool, arrived: bool) -> None:
        """Upload new bundles; the request or the response may be lost, and the client will retry."""
        self.system.shuffler.fetch_keys(self.system.analyzer)
        bundles = {self.used + i: self._seal(self.used + i) for i in range(count)}
        self.used += count
        if arrived:
            self.system.upload(*bundles.values(), to=self.intake)
        for value, bundle in bundles.items():
            if arrived and answered:
                self._acknowledge(value, bundle)
            else:
                self.unsent[value] = bundle

    @precondition(lambda self: self.unsent)
    @rule()
    def retry(self) -> None:
        """Retry every unanswered bundle: ``outdated-keys`` means never accepted, ``uncertain`` ends the attempts."""
        self.system.shuffler.fetch_keys(self.system.analyzer)
        for value, first in list(self.unsent.items()):
            bundle = first
            try:
                self.system.upload(bundle, to=self.intake)
            except Problem as refusal:
                del self.unsent[value]
                if refusal.name == "uncertain":
                    assert self.restores
                    continue
                assert refusal.name == "outdated-keys"
                bundle = self._seal(value)
                self.system.upload(bundle, to=self.intake)
            self.unsent.pop(value, None)
            self._acknowledge(value, bundle)

    @precondition(lambda self: self.acknowledged)
    @rule(data=st.data(), times=st.integers(1, 3))
    def replay(self, data: st.DataObject, times: int) -> None:
        """Repeat an acknowledged bundle: it gets the same response, even after its key is destroyed."""
        value = data.draw(st.sampled_from(sorted(self.acknowledged)))
        try:
            self.system.upload(*[self.acknowledged[value]] * times, to=self.intake)
        except Problem as refusal:
            assert value in self.lost
            assert refusal.name == "uncertain"

    @rule(seconds=st.sampled_from([EPOCH, EPOCH, EPOCH, 7 * EPOCH, 30 * EPOCH, 1]))
    def tick(self, seconds: int) -> None:
        """Let time pass."""
        self.system.clock.advance(seconds)
        self.system.analyzer.advance()
        self.system.shuffler.tick()

    @rule(seconds=st.sampled_from([-EPOCH, -50 * EPOCH, 50 * EPOCH, 3 * 86_400, -3 * 86_400]))
    def jump(self, seconds: int) -> None:
        """Let the clock of the shuffler jump, and tick; then it is set right."""
        self.system.clock.jump(seconds)
        if seconds > 0 or self.system.contract.accepts_at(self.system.clock.now()):
            self.system.shuffler.tick()
        self.system.clock.jump(-seconds)

    @rule()
    def shuffle(self) -> None:
        """Run the shuffle jobs."""
        self.system.shuffler.shuffle()

    @rule(breaks=st.lists(st.sampled_from(["request", "answer"]), max_size=3))
    def deliver(self, breaks: list[str]) -> None:
        """Deliver the waiting batches."""
        with contextlib.suppress(ConnectionBroken):
            self.system.shuffler.deliver(UnreliableClient(self.system, breaks))

    @rule(which=st.sampled_from(["shuffler", "analyzer"]), fetch=st.booleans())
    def rotate(self, which: str, fetch: bool) -> None:
        """Rotate a key; the shuffler may learn of it later."""
        rotating = self.system.analyzer if which == "analyzer" else self.system.shuffler.keyring
        rotating.rotate()
        if fetch:
            self.system.shuffler.fetch_keys(self.system.analyzer)

    @rule(point=st.sampled_from(POINTS), visit=st.integers(1, 3))
    def die(self, point: str, visit: int) -> None:
        """Kill the shuffler somewhere in its work, and start it again."""
        with killed_at(self.system, point, visit) as reached:
            for step in (self.system.shuffler.tick, self.system.shuffler.shuffle):
                step()
            self.system.shuffler.deliver(self.system.analyzer)
            self.system.shuffler.keyring.rotate()
        self.system.clock.advance(EPOCH)
        if reached[0]:
            self.system.start()

    @rule()
    def restart(self) -> None:
        """Restart the shuffler."""
        self.system.restart()

    @rule()
    def back_up(self) -> None:
        """Back up the shuffler's store."""
        self.backup = self.system.back_up(f"backup-{self.used}.db")
        self.since = set()

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self) -> None:
        """Restore the backup: what it cannot know is lost, but nothing is counted twice, and it is said."""
        assert self.backup is not None
        self.system.shuffler.tick()
        counted = self._counted()
        self.lost |= self.since - set(counted)
        self.lost |= {value for value in self.since if value in counted}
        self.system.restore(self.backup)
        self.restores += 1
        # A bucket that was sealed after the backup is discarded: its people were counted then, or lost with the store.
        counts = self.system.counts()
        if counts.fenced:
            self.lost |= set(self.acknowledged)
        gaps = self.system.shuffler.store.gaps(self.system.shuffler.tasks.find(self.system.contract.task).row)
        assert gaps
        assert self.system.credentials.fence().restores == self.restores

    @invariant()
    def nothing_twice(self) -> None:
        """No value is counted twice, every bundle is accounted for, and no bucket was sent with two contents."""
        counted = self._counted()
        assert max(counted.values(), default=0) <= 1
        assert set(counted) <= set(range(self.used))
        self.system.counts()
        assert max(self.system.analyzer.slots.values(), default=1) == 1
        assert all(len(data) == 1 for data in self.system.analyzer.seen.values())

    def _counted(self) -> Counter[int]:
        messages = self.system.analyzer.messages()
        return Counter({int.from_bytes(value or b"", "little"): count for value, count in messages.items()})

    def teardown(self) -> None:
        """Finally, every acknowledged report is counted, waits in the open bucket, or is named as lost."""
        try:
            self.system.clock.advance(10 * EPOCH)
            self.system.shuffler.tick()
            self.system.shuffler.shuffle()
            self.system.deliver()
            counts = self.system.counts()
            assert counts.sealed == counts.outbox == counts.expired == counts.withheld == 0
            missing = set(self.acknowledged) - set(self._counted()) - self.lost
            assert len(missing) <= counts.open, (missing, counts)
            if not self.restores:
                assert counts.fenced == 0
                assert counts.committed + counts.open == counts.accepted >= len(self.acknowledged)
            self.nothing_twice()
        finally:
            self.system.shut()
            shutil.rmtree(self.folder)


SHORT = settings(
    max_examples=10, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
Collection.TestCase.settings = SHORT
TestShort = Collection.TestCase


@pytest.mark.slow
def test_five_hundred_sequences() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Collection, settings=settings(SHORT, max_examples=500, stateful_step_count=40))
