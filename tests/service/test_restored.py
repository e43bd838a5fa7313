"""Restored backups: no bucket is released twice, no bundle counts twice, and what is lost is named and signed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.crash import EARLIER_POINTS
from tests.service.crashes import killed_at
from tests.service.shuffler_system import EPOCH, System, clear_plan

from hubbub.errors import Problem
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.runtime.credentials import Fence, write_file
from hubbub.service.shuffler.store import Counts
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.manifest import Gap

FAKES = plan_from(Schema.one_hot(5), 100, Protocol(0, m=Fakes.laplace(4.0, shift=70)), delta=1e-6)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path, plan=FAKES)
    yield found
    found.shut()


def gaps(system: System) -> list[Gap]:
    """Return the gaps of the task, whose signatures must be the shuffler's."""
    row = system.shuffler.tasks.find(system.contract.task).row
    found = []
    for document in system.shuffler.store.gaps(row):
        fields = SignedDocument.from_json(document).read(
            system.contract.shuffler, "gap", "task", "first", "last", "bundles", "reason"
        )
        assert fields.text("task") == system.contract.id
        found.append(Gap(fields.whole("first"), fields.whole("last"), fields.whole("bundles"), fields.text("reason")))
    return found


def refusal(system: System, bundle: bytes) -> str:
    with pytest.raises(Problem) as problem:
        system.upload(bundle)
    return problem.value.name


def test_defect_2_a_restored_bucket_is_never_released_again(system: System) -> None:
    """Backup, release, restore, release: the intersection of two batches would be exactly the people."""
    system.fill(110)
    backup = system.back_up()
    system.next_epoch()
    system.deliver()
    first = {slot for slot, _ in system.analyzer.slots.items()}
    system.restore(backup)
    assert system.shuffler.incidents.counts["restored"] == 1
    assert system.counts() == Counts(accepted=110, fenced=110)
    # Bundles may have been accepted in the bucket after it as well.
    assert gaps(system) == [Gap(1, 2, 110, "restored")]
    assert system.next_epoch() == []
    system.shuffler.fetch_keys(system.analyzer)
    system.fill(120)
    system.next_epoch()
    system.deliver()
    old, new = system.analyzer.results()
    assert (old.manifest.bucket, new.manifest.bucket) == (1, 3)
    assert new.manifest.gaps == (Gap(1, 2, 110, "restored"),)
    # No slot is in two batches: there is no intersection to learn from.
    assert max(system.analyzer.slots.values()) == 1
    assert first < set(system.analyzer.slots)
    assert system.counts() == Counts(accepted=230, fenced=110, committed=120)
    assert system.credentials.fence().restores == 1


def test_defect_2_every_bucket_that_may_have_left_is_in_the_gap(system: System) -> None:
    """So is the last one, which was open, and whose bundles were acknowledged."""
    system.fill(100)
    backup = system.back_up()
    for _ in range(3):
        system.next_epoch()
        system.fill(100)
    system.restore(backup)
    assert gaps(system) == [Gap(1, 4, 100, "restored")]
    assert system.shuffler.tasks.find(system.contract.task).row.bucket == 5
    # The secrets of the lost buckets are of no use any more.
    assert system.credentials.names("seed-") == []
    assert system.credentials.names("bucket-") == [f"bucket-{system.contract.id}-5"]


def test_bundles_lost_from_a_later_bucket_are_in_the_gap(system: System) -> None:
    """Regression: bundles accepted after a release were in the next bucket, which no gap named."""
    system.fill(100)
    backup = system.back_up()
    system.next_epoch()
    system.deliver()
    system.fill(30)
    system.restore(backup)
    assert gaps(system) == [Gap(1, 2, 100, "restored")]
    # A new bucket does not have the number of the one that was lost.
    assert system.shuffler.tasks.find(system.contract.task).row.bucket == 3
    system.shuffler.fetch_keys(system.analyzer)
    system.fill(100)
    system.next_epoch()
    system.deliver()
    announced = [(batch.manifest.bucket, batch.manifest.gaps) for batch in system.analyzer.results()]
    assert announced == [(1, ()), (3, (Gap(1, 2, 100, "restored"),))]
    assert system.counts() == Counts(accepted=200, fenced=100, committed=100)


def test_bundles_lost_from_a_bucket_after_one_that_has_not_left_are_in_the_gap(system: System) -> None:
    """Regression: the bucket of the backup had been sealed but not shuffled, so it was open again, and named alone."""
    system.fill(100)
    backup = system.back_up()
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    lost = system.fill(30)[0]
    system.restore(backup)
    assert gaps(system) == [Gap(1, 2, 0, "restored")]
    assert refusal(system, lost) == "uncertain"
    system.shuffler.fetch_keys(system.analyzer)
    for _ in range(3):
        system.fill(100)
        system.next_epoch()
        system.deliver()
    # The analyzer refuses buckets of a gap that was announced, so both are delivered first.
    announced = [(batch.manifest.bucket, batch.manifest.gaps) for batch in system.analyzer.results()]
    assert announced == [(1, ()), (2, ()), (3, (Gap(1, 2, 0, "restored"),))]
    assert system.counts() == Counts(accepted=400, committed=400)


def test_bundles_that_expired_between_backup_and_restore_are_in_the_gap(system: System) -> None:
    """Regression: the secret of a bucket that expired was erased, and with it the number of the bucket."""
    system.fill(100)
    backup = system.back_up()
    system.next_epoch()
    system.deliver()
    system.fill(30)
    assert system.shuffler.close(system.contract.task).expired == 30
    system.restore(backup)
    assert gaps(system) == [Gap(1, 2, 100, "restored")]


def test_bundles_lost_between_two_restores_are_in_the_gap(system: System) -> None:
    """Regression: a newer backup, restored after an older one, named only its open bucket."""
    system.fill(100)
    older = system.back_up("older.db")
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    newer = system.back_up("newer.db")
    system.restore(older)
    system.shuffler.fetch_keys(system.analyzer)
    lost = system.fill(30)[0]
    system.restore(newer)
    # The newer backup has bucket 1 sealed, without the 30 bundles that were accepted in it since.
    assert gaps(system) == [Gap(1, 2, 0, "restored")]
    assert refusal(system, lost) == "uncertain"
    system.shuffler.shuffle()
    system.deliver()
    assert system.counts() == Counts(accepted=100, committed=100)


def test_bundles_lost_with_a_task_that_is_closed_again_are_in_the_gap(system: System) -> None:
    """Regression: the older backup opened the task again, and the newer one, where it is closed, named nothing."""
    system.fill(60)
    older = system.back_up("older.db")
    system.shuffler.close(system.contract.task)
    newer = system.back_up("newer.db")
    system.restore(older)
    system.shuffler.fetch_keys(system.analyzer)
    system.fill(30)
    assert system.counts() == Counts(accepted=90, fenced=60, open=30)
    system.restore(newer)
    assert system.counts() == Counts(accepted=60, expired=60)
    assert gaps(system) == [Gap(2, 2, 0, "restored")]


def test_a_bundle_that_may_have_been_counted_is_uncertain(system: System) -> None:
    system.fill(20)
    kept = system.fill(1)[0]
    backup = system.back_up()
    lost = system.fill(100)[0]
    never = system.client.seal("0")
    system.next_epoch()
    system.deliver()
    system.restore(backup)
    system.shuffler.fetch_keys(system.analyzer)
    # Known to the backup: acknowledged as before. Unknown: it may have been counted or not.
    system.upload(kept)
    assert refusal(system, lost) == refusal(system, never) == "uncertain"
    fresh = system.client.seal("0")
    system.upload(fresh)
    system.restart()
    assert refusal(system, lost) == "uncertain"
    system.upload(fresh)
    assert system.counts() == Counts(accepted=22, fenced=21, open=1)


def test_a_restore_without_a_release_in_between_is_found_and_named(system: System) -> None:
    """Nothing of the open bucket has left, so it stays; but bundles are missing from it, and that is said."""
    system.fill(60)
    backup = system.back_up()
    lost = system.fill(30)[0]
    system.shuffler.tick()
    system.restore(backup)
    assert system.shuffler.incidents.counts["restored"] == 1
    assert gaps(system) == [Gap(1, 1, 0, "restored")]
    assert refusal(system, lost) == "uncertain"
    assert system.counts() == Counts(accepted=60, open=60)
    system.shuffler.fetch_keys(system.analyzer)
    for _ in range(3):
        system.fill(100)
        system.next_epoch()
        system.deliver()
    announced = [batch.manifest.gaps for batch in system.analyzer.results()]
    assert announced == [(), (Gap(1, 1, 0, "restored"),), ()]
    assert max(system.analyzer.slots.values()) == 1


def test_a_restore_is_found_even_if_the_store_had_no_time_to_beat(system: System) -> None:
    """Regression: bundles accepted in the second after a backup were lost without a word when it was restored."""
    system.fill(60)
    backup = system.back_up()
    lost = system.fill(30)[0]
    system.restore(backup)
    assert gaps(system) == [Gap(1, 1, 0, "restored")]
    assert refusal(system, lost) == "uncertain"


def test_a_bundle_under_a_key_destroyed_since_the_backup_is_uncertain(system: System) -> None:
    """Regression: it was ``outdated-keys``, which tells the client to seal again, and its report counted twice."""
    system.fill(20)
    backup = system.back_up()
    lost = system.fill(100)[0]
    system.next_epoch()
    system.deliver()
    system.shuffler.keyring.rotate()
    system.clock.advance(system.grace + 1)
    system.shuffler.tick()
    assert system.shuffler.keyring.private(1) is None
    system.restore(backup)
    assert refusal(system, lost) == "uncertain"


def test_a_restart_is_no_restore(system: System) -> None:
    system.fill(60)
    for _ in range(3):
        system.shuffler.tick()
        system.restart()
        system.kill()
        system.start()
    assert system.credentials.fence().restores == 0
    assert gaps(system) == []
    assert system.counts() == Counts(accepted=60, open=60)


def test_a_restore_is_repaired_once(system: System) -> None:
    system.fill(110)
    backup = system.back_up()
    system.next_epoch()
    system.restore(backup)
    keys = [key.id for key in system.shuffler.keyring.public_keys()]
    for _ in range(2):
        system.restart()
        system.shuffler.tick()
    assert [key.id for key in system.shuffler.keyring.public_keys()] == keys
    assert system.credentials.fence().restores == 1
    system.restore(backup)
    assert system.credentials.fence().restores == 2


def test_the_analyzers_counter_reveals_a_restore_that_the_fence_does_not_know(system: System) -> None:
    """The credential folder was restored as well, against all advice."""
    system.fill(110)
    backup = system.back_up()
    system.next_epoch()
    system.deliver()
    system.kill()
    folder = system.folder / "shuffler-credentials"
    fence = system.credentials.fence()
    older = Fence(role="shuffler", id=fence.id, last_key=fence.last_key)
    write_file(folder / "fence", older.to_json(), replace=True)
    system.credentials.create(f"bucket-{system.contract.id}-1")
    system.restore(backup)
    assert system.counts().open == 110
    system.shuffler.fetch_keys(system.analyzer)
    assert system.counts() == Counts(accepted=110, fenced=110)
    assert gaps(system) == [Gap(1, 2, 110, "restored")]
    assert system.next_epoch() == []


def test_an_analyzer_whose_counter_goes_back_is_an_incident(system: System) -> None:
    system.fill(110)
    system.next_epoch()
    system.deliver()
    system.shuffler.fetch_keys(system.analyzer)
    system.analyzer.batches.clear()
    system.shuffler.fetch_keys(system.analyzer)
    assert system.shuffler.incidents.counts["analyzer-restored"] == 1


def test_a_sealed_bucket_that_was_delivered_before_the_restore_is_recognized(system: System) -> None:
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    backup = system.back_up()
    system.shuffler.shuffle()
    system.deliver()
    system.restore(backup)
    assert system.counts() == Counts(accepted=110, sealed=110)
    assert system.shuffler.shuffle() == []
    system.deliver()
    assert system.counts() == Counts(accepted=110, committed=110)
    assert len(system.analyzer.results()) == 1
    assert max(system.analyzer.slots.values()) == 1


def test_a_sealed_bucket_that_the_analyzer_does_not_know_is_fenced(system: System) -> None:
    """Its secrets are gone, so it ended in an earlier life; the analyzer, restored too, has forgotten it."""
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    backup = system.back_up()
    system.shuffler.shuffle()
    system.deliver()
    system.restore(backup)
    system.analyzer.batches.clear()
    system.deliver()
    assert system.counts() == Counts(accepted=110, fenced=110)
    assert Gap(1, 1, 110, "fenced") in gaps(system)
    assert system.shuffler.incidents.counts["fenced"] == 1


@pytest.mark.parametrize("complete", [True, False])
def test_other_bytes_of_the_same_bucket_are_recognized_or_fenced(system: System, complete: bool) -> None:
    """Shuffled again after a restore, the fakes are sealed anew: the analyzer's manifest stands, if it is complete."""
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    backup = system.back_up()
    system.shuffler.shuffle()
    waiting = system.shuffler._deliveries._waiting()
    assert waiting[0].manifest is not None
    missing = system.analyzer.put_manifest(waiting[0].batch, waiting[0].manifest)
    assert isinstance(missing, list)
    for index in missing if complete else ():
        chunk = system.shuffler.store.chunk(waiting[0], index)
        assert chunk is not None
        system.analyzer.put_chunk(waiting[0].batch, index, chunk)
    system.restore(backup)
    system.shuffler.shuffle()
    system.deliver()
    assert len({one for _, one in system.analyzer.announcements}) == 2
    if complete:
        assert system.counts() == Counts(accepted=110, committed=110)
        assert len(system.analyzer.results()) == 1
    else:
        assert system.counts() == Counts(accepted=110, fenced=110)
        assert system.analyzer.results() == []
    # Of the second draw of seals, no chunk has left.
    assert all(len(chunks) == 1 for chunks in system.analyzer.seen.values())


@pytest.mark.parametrize("point", EARLIER_POINTS)
def test_a_restored_shuffler_is_killed_while_it_settles_a_bucket(system: System, point: str) -> None:
    """The bucket was delivered in an earlier life; the analyzer knows it, or has forgotten it: it ends once."""
    system.fill(110)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    backup = system.back_up()
    system.shuffler.shuffle()
    system.deliver()
    system.restore(backup)
    known = point.startswith("adopt-")
    if not known:
        system.analyzer.batches.clear()
    with killed_at(system, point) as reached:
        system.deliver()
    assert reached[0]
    system.start()
    for _ in range(2):
        system.deliver()
    state = "committed" if known else "fenced"
    assert system.counts() == replace(Counts(accepted=110), **{state: 110})
    assert [gap.bundles for gap in gaps(system) if gap.reason == "fenced"] == ([] if known else [110])


def test_a_doubled_shuffler_with_other_people_is_fenced(system: System) -> None:
    """Two copies of a store with the same secrets: the second one that delivers a bucket is fenced, and says so."""
    copy = system.back_up()
    system.fill(110)
    system.next_epoch()
    system.deliver()
    # The twin runs beside it and does not see the fence of the first.
    system.kill()
    older = Fence(role="shuffler", id=system.credentials.fence().id, last_key=1)
    write_file(system.folder / "shuffler-credentials" / "fence", older.to_json(), replace=True)
    system.credentials.create(f"bucket-{system.contract.id}-1")
    system.restore(copy)
    system.fill(120)
    system.next_epoch()
    system.deliver()
    assert system.counts() == Counts(accepted=120, fenced=120)
    # The gap of the restore includes the bucket that is fenced.
    assert gaps(system) == [Gap(1, 2, 120, "restored")]
    assert [batch.manifest.bundles for batch in system.analyzer.results()] == [110]
    assert max(system.analyzer.slots.values()) == 1


def test_a_lost_store_goes_on_after_the_buckets_that_it_opened(tmp_path: Path) -> None:
    system = System(tmp_path, plan=clear_plan(16, 100))
    system.fill(110)
    system.next_epoch()
    system.kill()
    for path in tmp_path.glob("shuffler.db*"):
        path.unlink()
    system.start()
    system.serve(system.contract)
    assert system.shuffler.tasks.find(system.contract.task).row.bucket == 3
    assert gaps(system) == [Gap(1, 2, 0, "restored")]
    system.fill(100)
    system.next_epoch()
    system.deliver()
    assert [batch.manifest.bucket for batch in system.analyzer.results()] == [3]
    system.shut()


def test_the_open_bucket_of_a_lost_store_is_in_the_gap(tmp_path: Path) -> None:
    """Regression: nothing was sealed yet, and the bundles of the first bucket were lost without a word."""
    system = System(tmp_path, plan=clear_plan(16, 100))
    system.fill(60)
    system.kill()
    for path in tmp_path.glob("shuffler.db*"):
        path.unlink()
    system.start()
    system.serve(system.contract)
    assert gaps(system) == [Gap(1, 1, 0, "restored")]
    assert system.shuffler.tasks.find(system.contract.task).row.bucket == 2
    system.shut()


def test_a_task_whose_first_bucket_was_not_committed_has_no_gap(system: System) -> None:
    """The process died after it had made the secret of the bucket: no store was lost."""
    contract = system.new_contract(min_batch_size=101)
    system.credentials.create(f"bucket-{contract.id}-1")
    system.serve(contract)
    row = system.shuffler.tasks.find(contract.task).row
    assert (row.bucket, system.shuffler.store.gaps(row)) == (1, [])


def test_a_task_that_was_closed_before_the_restore_discards_its_bucket(system: System) -> None:
    system.fill(60)
    backup = system.back_up()
    system.shuffler.close(system.contract.task)
    system.restore(backup)
    assert system.counts() == Counts(accepted=60, fenced=60)


def test_uploads_are_refused_until_a_restored_store_is_repaired(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds the lease: this one waits, and accepts nothing that may count twice."""
    system.fill(60)
    backup = system.back_up()
    lost = system.fill(30)[0]
    system.shuffler.tick()
    monkeypatch.setattr("hubbub.service.shuffler.core.Shuffler._lead", lambda shuffler: None)
    system.restore(backup)
    assert refusal(system, lost) == "unavailable"
    assert not system.shuffler.ready()
    monkeypatch.undo()
    system.shuffler.tick()
    assert refusal(system, lost) == "uncertain"
    assert system.shuffler.ready()


def test_a_key_that_was_destroyed_after_the_backup_is_uncertain_too(system: System) -> None:
    """To answer ``outdated-keys`` would tell the client to seal again, and count it twice."""
    backup = system.back_up()
    lost = system.fill(1)[0]
    system.shuffler.keyring.rotate()
    system.clock.advance(system.grace + 1)
    system.shuffler.tick()
    assert system.shuffler.keyring.private(1) is None
    for _ in range(2):
        system.restore(backup)
        assert refusal(system, lost) == "uncertain"


def test_statements_grow_over_a_restore_whatever_the_clock_did(system: System) -> None:
    backup = system.back_up()
    system.clock.jump(1000)
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.analyzer)
    system.shuffler.tick()
    system.clock.jump(-1000)
    before = system.analyzer.statements[system.contract.task]
    system.restore(backup)
    system.shuffler.fetch_keys(system.analyzer)
    after = system.analyzer.statements[system.contract.task]
    assert after.number > before.number
    assert after.keys == (1, 3)


def test_a_restored_store_relies_on_no_statement_of_its_backup(system: System) -> None:
    """The analyzer was told since that the key is not in use, and destroyed it."""
    system.fill(110)
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.analyzer)
    backup = system.back_up()
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.analyzer)
    system.clock.advance(system.grace + 1)
    system.analyzer.advance()
    assert system.shuffler._restores.beat()
    assert system.analyzer.keyring.private(3) is None
    system.restore(backup)
    # The open bucket is still under key 1, which was never given up; the next one must not be under key 3.
    system.next_epoch()
    system.shuffler.fetch_keys(system.analyzer)
    system.fill(100)
    system.next_epoch()
    system.deliver()
    assert [(one.manifest.key_id, one.rejected) for one in system.analyzer.results()] == [(1, 0), (1, 0)]
