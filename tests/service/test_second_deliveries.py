"""A bucket leaves the shuffler as one batch: whatever is restored, and whatever the analyzer says, never as two."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.fake_analyzer import FakeAnalyzer
from tests.service.shuffler_system import EPOCH, System
from tests.service.test_restored import FAKES

from hubbub.service.shuffler.store import Counts


class Hoarder:
    """An analyzer that asks for every chunk of every manifest, and never sends a receipt."""

    def __init__(self, analyzer: FakeAnalyzer, size: int) -> None:
        self._analyzer, self._size = analyzer, size
        self.batches: list[set[bytes]] = []
        self.asking = True

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        if not self.asking:
            return []
        self.batches.append(set())
        return [0]

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        self.batches[-1] |= {data[start : start + self._size] for start in range(0, len(data), self._size)}

    def __getattr__(self, name: str) -> object:
        return getattr(self._analyzer, name)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path, plan=FAKES)
    yield found
    found.shut()


def distinct(batches: list[set[bytes]]) -> set[frozenset[bytes]]:
    return {frozenset(batch) for batch in batches if batch}


def test_a_sealed_bucket_that_was_announced_is_not_announced_with_other_fakes(system: System) -> None:
    """Regression: restored from a backup made before the shuffle, it left twice, with the same people both times."""
    hoarder = Hoarder(system.analyzer, system.contract.slot_size)
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    backup = system.back_up()
    system.shuffler.shuffle()
    system.shuffler.deliver(hoarder)  # type: ignore[arg-type]
    system.restore(backup)
    system.shuffler.shuffle()
    system.shuffler.deliver(hoarder)  # type: ignore[arg-type]
    assert len(distinct(hoarder.batches)) == 1
    assert system.counts() == Counts(accepted=110, fenced=110)


def test_a_shuffled_bucket_that_ended_is_not_announced_again(system: System) -> None:
    """Regression: a backup made after one shuffle, restored after the delivery of another, left as a second batch."""
    hoarder = Hoarder(system.analyzer, system.contract.slot_size)
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    sealed = system.back_up("sealed.db")
    system.shuffler.shuffle()
    shuffled = system.back_up("shuffled.db")
    system.restore(sealed)
    system.shuffler.shuffle()
    system.deliver()
    assert system.counts() == Counts(accepted=110, committed=110)
    system.restore(shuffled)
    system.shuffler.deliver(hoarder)  # type: ignore[arg-type]
    assert distinct(hoarder.batches) == set()
    assert system.counts().outbox == 0


def test_the_same_batch_is_announced_again_after_a_restore(system: System) -> None:
    """Its bytes are those that were announced before, so there is nothing to learn from a second copy."""
    hoarder = Hoarder(system.analyzer, system.contract.slot_size)
    system.fill(110)
    system.next_epoch()
    backup = system.back_up()
    system.shuffler.deliver(hoarder)  # type: ignore[arg-type]
    system.restore(backup)
    system.shuffler.deliver(hoarder)  # type: ignore[arg-type]
    assert len(hoarder.batches) > 1
    assert len(distinct(hoarder.batches)) == 1
    system.deliver()
    assert system.counts() == Counts(accepted=110, committed=110)


def test_a_snapshot_of_store_and_credential_folder_defeats_the_fence(system: System) -> None:
    """A stated limit: what forgets the fence with the store strips the fakes, for an analyzer that takes both batches.

    If this fails, a snapshot has become harmless: say so in ``docs/threats.md`` and in the run book.
    """
    hoarder = Hoarder(system.analyzer, system.contract.slot_size)
    system.fill(110)
    folder, snapshot = system.folder / "shuffler-credentials", system.folder / "snapshot"
    backup = system.back_up()
    shutil.copytree(folder, snapshot)
    system.next_epoch()
    system.shuffler.deliver(hoarder)  # type: ignore[arg-type]
    system.kill()
    shutil.rmtree(folder)
    shutil.copytree(snapshot, folder)
    system.restore(backup)
    system.next_epoch()
    system.shuffler.deliver(hoarder)  # type: ignore[arg-type]
    first, second = distinct(hoarder.batches)
    assert len(first & second) == 110
    assert min(len(first - second), len(second - first)) > 0
