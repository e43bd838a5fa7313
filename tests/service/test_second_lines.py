"""Second lines of defence, each alone: with an equal, a neighbouring or a surplus value that an earlier line stops."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.crashes import killed_at
from tests.service.shuffler_system import EPOCH, START, System
from tests.service.test_restored import FAKES, gaps
from tests.service.test_second_deliveries import Hoarder, distinct

from hubbub.errors import StoreFailure
from hubbub.service.runtime.database import Lease
from hubbub.service.shuffler import buckets
from hubbub.service.shuffler.blocks import bucket_secret
from hubbub.service.shuffler.store import Counts
from hubbub.service.shuffler.tasks import ServedTask
from hubbub.service.task.identity import Identity, SignedDocument
from hubbub.service.task.manifest import Gap, Manifest, batch_id

NOW = START // EPOCH


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path, plan=FAKES)
    yield found
    found.shut()


def task_of(system: System) -> ServedTask:
    return system.shuffler.tasks.find(system.contract.task)


def lead(system: System) -> Lease:
    found = system.shuffler._lead()
    assert found is not None
    return found


def at_point(monkeypatch: pytest.MonkeyPatch, point: str, action: Callable[[], object]) -> list[str]:
    """Run an action when a release reaches a point for the first time; the list has the points that it reached."""
    reached: list[str] = []

    def reach(name: str) -> None:
        reached.append(name)
        if name == point and reached.count(point) == 1:
            action()

    monkeypatch.setattr(buckets, "reach", reach)
    return reached


# -- releases --


def test_a_bucket_at_the_fence_is_not_sealed_again(system: System) -> None:
    system.fill(100)
    task = task_of(system)
    system.credentials.raise_fence(sealed={system.contract.id: 1})
    with pytest.raises(StoreFailure, match="bucket 1 was sealed before"):
        system.shuffler._buckets.release(task.row, task.contract, task.keys, NOW, lead(system))
    assert system.credentials.names("seed-") == []
    assert system.counts() == Counts(accepted=100, open=100)
    system.shuffler._buckets._prepare(task.row, 2)


def test_a_bucket_that_another_process_released_meanwhile_is_not_released_again(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.fill(120)
    task, lease, released = task_of(system), lead(system), []

    def release() -> None:
        released.append(system.shuffler._buckets.release(task.row, task.contract, task.keys, NOW, lease))

    reached = at_point(monkeypatch, "release-begun", release)
    release()
    assert reached.count("release-committed") == 2
    assert released == [batch_id(system.contract.task, 1), None]
    assert system.counts() == Counts(accepted=120, sealed=120)
    assert system.shuffler.store.waiting(task.row) == (2, 0)


def test_uploads_between_the_count_and_the_release_are_released_too(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.fill(100)
    task = task_of(system)
    at_point(monkeypatch, "release-begun", lambda: system.fill(7))
    assert system.shuffler._buckets.release(task.row, task.contract, task.keys, NOW, lead(system)) is not None
    assert system.counts() == Counts(accepted=107, sealed=107)


@pytest.mark.parametrize(("people", "moved"), [(0, True), (99, True), (100, False), (101, False)])
def test_a_round_ends_with_the_bundles_of_too_small_buckets_only(system: System, people: int, moved: bool) -> None:
    """Exactly the minimum batch size is enough for a release."""
    system.fill(people)
    task = task_of(system)
    turned = system.shuffler._buckets.turn(task.row, task.contract, task.keys, NOW, lead(system), expire=True)
    assert turned is moved
    kept = {"expired": people} if moved else {"open": people}
    assert system.counts() == Counts(accepted=people, **kept)


def test_a_round_that_another_process_turned_meanwhile_is_not_turned_again(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The people of the next bucket answered in its round, not in the one that the first process came to turn to."""
    system.fill(100)
    task, lease, database = task_of(system), lead(system), system.shuffler.store.jobs
    assert system.shuffler._buckets.release(task.row, task.contract, task.keys, NOW, lease) is not None
    system.fill(5)
    monkeypatch.setattr(system.shuffler.store, "waiting", lambda row: (1, 0))
    monkeypatch.setattr(type(task.contract), "round_of", lambda contract, epoch: 7)
    assert system.shuffler._buckets.turn(task.row, task.contract, task.keys, NOW, lease, expire=False)
    monkeypatch.undo()
    assert database.rows("SELECT bucket, round FROM tasks") == [(2, 1)]


# -- restores --


@pytest.mark.parametrize("behind", [1, 2, 1000])
def test_a_store_that_is_any_beat_behind_was_restored(system: System, behind: int) -> None:
    restores, database = system.shuffler._restores, system.shuffler.store.jobs
    assert restores.beat()
    assert not restores.rewound()
    ((beat,),) = database.rows("SELECT beat FROM life")
    assert beat == system.credentials.fence().beat
    system.credentials.raise_fence(beat=beat + behind)
    assert not restores.beat()
    assert restores.rewound()
    assert database.rows("SELECT beat FROM life") == [(beat,)]


def test_a_store_whose_open_bucket_has_no_secret_was_restored(system: System) -> None:
    """Neither beat nor fence say so: the secret was erased when the bucket ended."""
    restores, row = system.shuffler._restores, task_of(system).row
    assert not restores.rewound()
    system.credentials.erase(bucket_secret(row.id, 1))
    assert restores._reopened() == {row.id: 1}
    assert restores.rewound()


def test_a_gap_that_is_extended_names_all_its_bundles(system: System) -> None:
    row = task_of(system).row
    for gap in (Gap(3, 4, 5, "restored"), Gap(3, 6, 7, "fenced"), Gap(3, 3, 1, "expired")):
        with system.shuffler.store.jobs.transaction():
            system.shuffler._buckets.record_gap(row, gap)
    assert gaps(system) == [Gap(3, 6, 13, "fenced")]


# -- shuffling and delivery --


@pytest.mark.parametrize("surplus", [-1, 1])
def test_a_bucket_with_other_than_its_bundles_is_not_shuffled(system: System, surplus: int) -> None:
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    system.shuffler.store.jobs.run("UPDATE buckets SET bundles = bundles - ? WHERE bucket = 1", surplus)
    with pytest.raises(StoreFailure, match=f"bucket of {110 - surplus} bundles has blocks of 110"):
        system.shuffler.shuffle()
    assert system.shuffler._deliveries._waiting()[0].manifest is None


def test_a_manifest_of_another_draw_is_not_ours(system: System) -> None:
    """The number of fakes is a function of the seed, so another number of slots is another draw."""
    system.fill(110)
    system.next_epoch()
    (bucket,) = system.shuffler._deliveries._waiting()
    own = Manifest.read(SignedDocument.from_json(bucket.manifest or b""), system.contract.shuffler)

    def is_ours(identity: Identity = system.identities["shuffler"], **changes: object) -> bool:
        return system.shuffler._deliveries._is_ours(bucket, replace(own, **changes).sign(identity))  # type: ignore[arg-type]

    assert is_ours()
    assert is_ours(chunks=("00" * 32,) * len(own.chunks)), "sealing is randomized"
    for change in (1, -1):
        assert not is_ours(slots=own.slots + change, sizes=(*own.sizes[:-1], own.sizes[-1] + change))
        assert not is_ours(bundles=own.bundles + change)
        assert not is_ours(key_id=own.key_id + change)
        assert not is_ours(epoch=own.epoch + change)
    for name in ("bucket", "round"):
        assert not is_ours(**{name: getattr(own, name) + 1})
    assert not is_ours(task=bytes(16))
    assert not is_ours(Identity.generate())


@pytest.mark.parametrize("erased", [1, 2, 3])
def test_a_bucket_whose_erasure_was_interrupted_never_leaves_as_another_batch(system: System, erased: int) -> None:
    """Until seed and secret are gone, the pin must stay: a store from before the shuffle makes another batch."""
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    sealed = system.back_up()
    system.shuffler.shuffle()
    with killed_at(system, "secret-erased", erased) as reached:
        system.deliver()
    assert reached[0]
    announced = len(set(system.analyzer.announcements))
    assert announced == 1
    system.restore(sealed)
    hoarder = Hoarder(system.analyzer, system.contract.slot_size)
    system.shuffler.shuffle()
    system.shuffler.deliver(hoarder)  # type: ignore[arg-type]
    assert distinct(hoarder.batches) == set()
