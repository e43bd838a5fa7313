"""Buckets from upload to delivery: every bundle counted once, releases in one short transaction, tasks kept apart."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.shuffler_system import EPOCH, START, System, clear_plan, plan_of

from hubbub.errors import Problem, StoreFailure
from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.runtime.database import Database
from hubbub.service.shuffler.buckets import Closing
from hubbub.service.shuffler.store import Counts, TaskRow
from hubbub.service.task.contract import Contract


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite:{folder}/{role}.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def system(url: str, tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path, url=url)
    yield found
    found.shut()


def refused(system: System, *bundles: bytes) -> str:
    with pytest.raises(Problem) as problem:
        system.upload(*bundles)
    return problem.value.name


def test_a_collection_is_counted_completely(system: System) -> None:
    system.fill(150)
    assert system.counts() == Counts(accepted=150, open=150)
    system.clock.advance(EPOCH)
    (batch,) = system.shuffler.tick()
    assert system.counts() == Counts(accepted=150, sealed=150)
    assert system.shuffler.shuffle() == [batch]
    assert system.counts() == Counts(accepted=150, outbox=150)
    system.deliver()
    assert system.counts() == Counts(accepted=150, committed=150)
    (result,) = system.analyzer.results()
    assert (result.manifest.batch, result.manifest.bundles, result.rejected) == (batch, 150, 0)
    assert sum(result.messages.values()) == 150 * system.contract.slots
    # Nothing is left of the bucket: neither its slots nor the secrets that would open a copy of them.
    database = system.shuffler.store.jobs
    assert [database.rows(f"SELECT COUNT(*) FROM {table}") for table in ("blocks", "outbox")] == [[(0,)], [(0,)]]
    assert system.credentials.names("seed-") == []
    assert system.credentials.names("bucket-") == [f"bucket-{system.contract.id}-2"]


def test_withheld_people_are_conserved(system: System) -> None:
    system.analyzer.withhold = True
    system.fill(100)
    system.next_epoch()
    system.deliver()
    assert system.counts() == Counts(accepted=100, withheld=100)


def test_a_repeat_is_answered_alike_and_never_counted(system: System) -> None:
    bundle = system.client.seal("0")
    system.upload(bundle, bundle)
    system.upload(bundle)
    system.restart()
    system.upload(bundle)
    assert system.counts() == Counts(accepted=1, open=1)
    system.fill(100)
    system.next_epoch()
    system.upload(bundle)
    assert system.counts() == Counts(accepted=101, outbox=101)


def test_nothing_is_released_below_the_minimum_batch_size(system: System) -> None:
    system.fill(99)
    for _ in range(3):
        assert system.next_epoch() == []
    system.fill(1)
    assert len(system.next_epoch()) == 1


def test_every_stage_survives_a_restart(system: System) -> None:
    system.fill(130)
    system.restart()
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    system.restart()
    system.shuffler.shuffle()
    system.restart()
    assert system.shuffler.deliver(system.analyzer)
    system.restart()
    system.deliver()
    assert system.counts() == Counts(accepted=130, committed=130)


def test_a_spent_token_rejects_its_upload_only(system: System) -> None:
    """Tokens are spent with their bundles, in one transaction; a known bundle never looks at its token."""
    uploads, client = system.shuffler.uploads, system.client

    def opened(token: bytes, bundle: bytes) -> Any:
        from dataclasses import replace

        (found,) = uploads.open(uploads.prepare(system.contract.task, bundle))
        return replace(found, token_id=token)

    first, second = client.seal("0"), client.seal("1")
    uploads.accept([opened(b"t" * 32, first)])
    uploads.accept([opened(b"t" * 32, first)])
    for pair in ([opened(b"t" * 32, second)], [opened(b"u" * 32, client.seal("2")), opened(b"u" * 32, second)]):
        with pytest.raises(Problem) as problem:
            uploads.accept(pair)
        assert problem.value.name == "token-spent"
    # The rejected uploads left nothing behind: neither bundle nor token.
    uploads.accept([opened(b"u" * 32, second)])
    assert system.counts() == Counts(accepted=2, open=2)


def test_a_token_spent_in_another_task_is_not_spent_here(system: System) -> None:
    other = system.new_contract(task_end=system.task_end + 1)
    system.serve(other)
    from dataclasses import replace

    uploads = system.shuffler.uploads
    for contract in (system.contract, other):
        bundle = system.client_of(contract).seal("0")
        (found,) = uploads.open(uploads.prepare(contract.task, bundle))
        uploads.accept([replace(found, token_id=b"t" * 32)])
    assert (system.counts().open, system.counts(other).open) == (1, 1)


def test_defect_5_close_releases_a_bucket_that_is_large_enough(system: System) -> None:
    system.fill(120)
    assert system.shuffler.close(system.contract.task) == Closing(released=1, expired=0)
    assert system.counts() == Counts(accepted=120, sealed=120)
    system.shuffler.shuffle()
    system.deliver()
    assert system.counts() == Counts(accepted=120, committed=120)
    assert refused(system, system.client.seal("0")) == "closed-task"


def test_defect_5_close_says_how_many_bundles_expired(system: System) -> None:
    bundles = system.fill(60)
    assert system.shuffler.close(system.contract.task) == Closing(released=None, expired=60)
    assert system.counts() == Counts(accepted=60, expired=60)
    assert system.shuffler.store.jobs.rows("SELECT COUNT(*) FROM blocks") == [(0,)]
    assert system.credentials.names("bucket-") == []
    system.upload(bundles[0])
    assert system.shuffler.close(system.contract.task, destroy=True) == Closing(released=None, expired=0)
    assert system.shuffler.store.jobs.rows("SELECT COUNT(*) FROM accepted_bundles") == [(0,)]
    assert refused(system, bundles[0]) == "unknown-task"


def test_a_task_that_ends_releases_first(url: str, tmp_path: Path) -> None:
    system = System(tmp_path, url=url, task_end=START // EPOCH + 2)
    system.fill(110)
    system.clock.advance(2 * EPOCH)
    assert len(system.shuffler.tick()) == 1
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    assert system.shuffler.tasks.find(system.contract.task).row.state == "closed"
    assert system.counts() == Counts(accepted=110, sealed=110)
    system.shut()


def test_defect_14_a_clock_that_jumps_ahead_and_back_neither_stalls_nor_destroys(url: str, tmp_path: Path) -> None:
    system = System(tmp_path, url=url, task_end=START // EPOCH + 100)
    system.fill(60)
    system.clock.jump(3 * 86_400)
    # The jump is past the end of the task: uploads are refused, but nothing that was accepted is destroyed.
    for _ in range(3):
        assert system.shuffler.tick() == []
    system.clock.jump(-3 * 86_400)
    assert system.counts() == Counts(accepted=60, open=60)
    system.fill(60)
    assert len(system.next_epoch()) == 1
    system.deliver()
    assert system.counts() == Counts(accepted=120, committed=120)
    system.shut()


def test_a_task_expires_after_an_epoch_of_real_time(url: str, tmp_path: Path) -> None:
    system = System(tmp_path, url=url, task_end=START // EPOCH + 2)
    system.fill(60)
    system.clock.jump(2 * EPOCH)
    system.shuffler.tick()
    system.clock.advance(EPOCH - 1)
    system.shuffler.tick()
    assert system.counts() == Counts(accepted=60, open=60)
    system.clock.advance(1)
    system.shuffler.tick()
    assert system.counts() == Counts(accepted=60, expired=60)
    system.shut()


def test_defect_8_one_failing_task_does_not_block_the_others(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    other = system.new_contract(task_end=system.task_end + 1)
    system.serve(other)
    system.fill(100)
    system.fill(100, other)
    buckets = system.shuffler._buckets
    release = buckets.release

    def broken(task: TaskRow, *arguments: Any) -> str | None:
        if task.id == system.contract.task:
            raise StoreFailure("this task only")
        return release(task, *arguments)

    system.clock.advance(EPOCH)
    with monkeypatch.context() as patch:
        patch.setattr(buckets, "release", broken)
        with pytest.raises(StoreFailure, match="this task only"):
            system.shuffler.tick()
    assert (system.counts().open, system.counts(other).sealed) == (100, 100)
    assert system.shuffler.incidents.counts["task-failed"] == 1
    # Nor does a bucket that cannot be shuffled.
    system.shuffler.tick()
    shuffles = system.shuffler._shuffles
    store_fakes = shuffles._store_fakes

    def no_fakes(bucket: Any, contract: Contract, *arguments: Any) -> None:
        if contract.task == system.contract.task:
            raise MemoryError
        store_fakes(bucket, contract, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(shuffles, "_store_fakes", no_fakes)
        with pytest.raises(MemoryError):
            system.shuffler.shuffle()
    assert (system.counts().sealed, system.counts(other).outbox) == (100, 100)
    # Nor one that the analyzer does not take.
    system.shuffler.shuffle()
    put_manifest = system.analyzer.put_manifest

    def unavailable(batch: str, document: bytes) -> Any:
        if system.contract.id.encode() in document:
            raise ConnectionError
        return put_manifest(batch, document)

    with monkeypatch.context() as patch:
        patch.setattr(system.analyzer, "put_manifest", unavailable)
        for _ in range(2):
            with pytest.raises(ConnectionError):
                system.shuffler.deliver(system.analyzer)
    assert (system.counts().outbox, system.counts(other).committed) == (100, 100)
    system.deliver()
    assert system.counts().committed == 100


def test_defect_9_a_release_takes_the_same_work_for_any_number_of_bundles(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads and writes a fixed number of rows, and never the slots."""
    statements: dict[int, list[str]] = {}
    execute = type(system.shuffler.store.jobs)._execute
    for count in (100, 400):
        system.fill(count)
        system.clock.advance(EPOCH)
        seen = statements[count] = []
        with monkeypatch.context() as patch:

            def watched(database: Database, statement: str, values: Any, seen: list[str] = seen) -> Any:
                seen.append(statement)
                return execute(database, statement, values)

            patch.setattr(type(system.shuffler.store.jobs), "_execute", watched)
            assert len(system.shuffler.tick()) == 1
    assert statements[100] == statements[400]
    assert not [one for one in statements[100] if "blocks" in one or "accepted_bundles" in one]


def test_defect_9_a_full_bucket_is_released_before_its_epoch_ends(url: str, tmp_path: Path) -> None:
    system = System(tmp_path, url=url, options={"max_batch_size": 150})
    system.shuffler.tick()
    system.fill(140)
    assert system.shuffler.tick() == []
    system.fill(10)
    assert len(system.shuffler.tick()) == 1
    system.shut()


def test_uploads_are_accepted_while_a_bucket_is_shuffled(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two transactions of the job, an upload is durable at once."""
    system.fill(200)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    client, database = system.client, system.shuffler.store.jobs
    begin, count = database.transaction, [0]

    def transaction() -> Any:
        count[0] += 1
        system.upload(client.seal("0"))
        return begin()

    monkeypatch.setattr(database, "transaction", transaction)
    system.shuffler.shuffle()
    monkeypatch.undo()
    assert count[0] > 3
    assert system.counts() == Counts(accepted=200 + count[0], open=count[0], outbox=200)


def test_a_late_upload_is_refused_and_stored_nowhere(system: System) -> None:
    """The bucket changes its key between opening and storing: the client is told so, and may seal again."""
    system.fill(100)
    uploads = system.shuffler.uploads
    waiting = uploads.open(uploads.prepare(system.contract.task, system.client.seal("0")))
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.analyzer)
    assert len(system.next_epoch()) == 1
    with pytest.raises(Problem) as problem:
        uploads.accept(waiting)
    assert problem.value.name == "outdated-keys"
    assert system.counts() == Counts(accepted=100, outbox=100)


def test_a_late_upload_under_a_destroyed_key_of_the_shuffler_is_refused(system: System) -> None:
    uploads = system.shuffler.uploads
    bundle = system.client.seal("0")
    waiting = uploads.open(uploads.prepare(system.contract.task, bundle))
    other = system.replica(worker=False)
    other.keyring.rotate()
    system.clock.advance(system.grace + 1)
    other.keyring.advance()
    with pytest.raises(Problem) as problem:
        uploads.accept(waiting)
    assert problem.value.name == "outdated-keys"
    assert refused(system, bundle) == "outdated-keys"
    other.shut()


def test_conservation_errors_are_found(system: System) -> None:
    system.fill(20)
    total = system.shuffler.totals
    system.shuffler.store.jobs.run(
        "DELETE FROM blocks WHERE id = (SELECT MIN(id::text)::bytea FROM blocks)"
        if "postgres" in system.url
        else "DELETE FROM blocks WHERE id = (SELECT MIN(id) FROM blocks)"
    )
    assert total()[system.contract.id].error == 0
    assert total(check=True)[system.contract.id].error == 10


POINTS = [
    plan_of(),
    plan_from(Schema.bits(3), 100, Protocol(0.2, k=3), delta=1e-6),
    plan_from(Schema.one_hot(20), 100, Protocol(0.02, m=Fakes.binomial(4, 0.5)), delta=1e-6),
    plan_from(Schema.one_hot(5), 100, Protocol(0, m=Fakes.laplace(4.0, shift=70)), delta=1e-6),
    plan_from(Schema.one_hot(5), 100, Protocol(0, m=Fakes.laplace(4.0, shift=70), release="bits"), delta=1e-6),
    clear_plan(16, 100),
]


@pytest.mark.parametrize("suite", [1, 2])
@pytest.mark.parametrize("plan", POINTS)
def test_defect_10_every_protocol_point_in_both_suites(plan: Plan, suite: int, tmp_path: Path) -> None:
    system = System(tmp_path, plan=plan, suite=suite)
    client, schema = system.client, plan.schema
    for i in range(120):
        name = schema.labels[i % schema.width]
        system.upload(client.seal(name if schema.exclusive else [name]))
    system.next_epoch()
    system.deliver()
    (result,) = system.analyzer.results()
    fakes = sum(result.messages.values()) - 120 * system.contract.slots
    assert result.rejected == 0
    assert (fakes > 0) == (plan.protocol.shuffler_fakes is not None)
    assert system.counts() == Counts(accepted=120, committed=120)
    system.shut()


def test_defect_10_one_service_serves_both_suites(system: System) -> None:
    """A task with the other suite is added while the service runs: keys of both suites are made and used."""
    other = system.new_contract(suite=2)
    system.serve(other)
    system.fill(100)
    system.fill(100, other)
    assert len(system.next_epoch()) == 2
    system.deliver()
    assert (system.counts().committed, system.counts(other).committed) == (100, 100)
    assert {key.suite for key in system.shuffler.keyring.public_keys()} == {1, 2}


def test_no_time_finer_than_the_epoch_is_stored_with_uploads(tmp_path: Path) -> None:
    system = System(tmp_path)
    system.fill(10)

    def stored() -> set[float]:
        with contextlib.closing(sqlite3.connect(tmp_path / "shuffler.db")) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = [row for table in tables for row in database.execute(f"SELECT * FROM {table}")]
        return {float(value) for row in rows for value in row if isinstance(value, int | float)}

    def moments(values: set[float]) -> list[float]:
        """Values that are a time of this epoch, in any unit, but not its beginning or end."""
        times = [value / unit for value in values for unit in (1, 1e3, 1e6, 1e9)]
        return [one for one in times if abs(one - system.clock.now()) < EPOCH and one % EPOCH]

    before = stored()
    system.clock.advance(EPOCH // 2 + 1)
    system.fill(10)
    assert stored() - before
    assert moments(stored() - before) == []
    assert moments({system.clock.now(), 1e3 * system.clock.now()}) != []
    system.shut()
