"""Acknowledged reports are discarded only for proven reasons: not for a lost mount, an old list, or a false claim."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.service.admissions import BY_TICKET, TICKET_KEY
from tests.service.shuffler_system import EPOCH, System

from hubbub.errors import AnalyzerUnreachable, FalseClaim, Problem, StoreFailure
from hubbub.service.runtime import failpoints
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import open_database
from hubbub.service.shuffler import uploads
from hubbub.service.shuffler.store import Counts
from hubbub.service.task.contract import SignedContract
from hubbub.service.task.identity import Identity, SignedDocument
from hubbub.service.task.keys import KEY_TABLES, Keyring
from hubbub.service.task.manifest import Counter, Manifest


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.shut()


class Lying:
    """An analyzer that answers some requests in its own way, and all others as the honest one."""

    def __init__(self, system: System, **answers: Any) -> None:
        self._system, self._answers = system, answers

    def __getattr__(self, name: str) -> Any:
        return self._answers.get(name) or getattr(self._system.analyzer, name)


def add_task_of_another_analyzer(system: System) -> None:
    analyzer = Identity.generate()
    contract = system.new_contract(analyzer=analyzer.public, task_end=system.task_end + 1)
    system.shuffler.tasks.add_contract(SignedContract.sign(contract, analyzer, system.identities["shuffler"]).to_json())


def refused(batch: str, document: bytes) -> bytes:
    raise Problem("fenced")


def test_a_credential_folder_that_is_not_mounted_discards_nothing(system: System) -> None:
    """Regression: an empty mount point looked as if every secret had been erased."""
    system.fill(120)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    system.fill(95)
    folder, volume = system.folder / "shuffler-credentials", system.folder / "volume"
    folder.rename(volume)
    folder.mkdir(mode=0o700)
    for work in (system.shuffler.tick, system.shuffler.shuffle, lambda: system.shuffler.deliver(system.link)):
        with pytest.raises(StoreFailure, match="not available"):
            work()
    shutil.rmtree(folder)
    volume.rename(folder)
    system.shuffler.tick()
    system.shuffler.shuffle()
    system.deliver()
    assert system.counts() == Counts(accepted=215, open=95, committed=120)


def test_a_credential_folder_that_was_exchanged_discards_nothing(system: System) -> None:
    system.fill(95)
    folder, volume = system.folder / "shuffler-credentials", system.folder / "volume"
    folder.rename(volume)
    Credentials(folder, "shuffler").raise_fence(last_key=1)
    with pytest.raises(StoreFailure, match="replaced by another"):
        system.shuffler.tick()
    shutil.rmtree(folder)
    volume.rename(folder)
    system.shuffler.tick()
    assert system.counts() == Counts(accepted=95, open=95)


def test_replicas_with_separate_credential_folders_do_not_start(system: System) -> None:
    """Regression: they took each other's buckets for those of an earlier life, and discarded them."""
    other = Credentials(system.folder / "other", "shuffler")
    other.raise_fence(last_key=1)
    with pytest.raises(StoreFailure, match="belongs to another store"):
        system.context("shuffler", other)


def test_a_replica_that_was_first_to_make_a_key_keeps_the_store(tmp_path: Path) -> None:
    """Both find an empty store; the one that writes first decides which folder the store belongs to."""
    database = open_database(f"sqlite:{tmp_path}/keys.db")
    database.create(KEY_TABLES)
    first = Keyring(database, Credentials(tmp_path / "a", "shuffler"), MockClock(0.0), lifetime=1000, grace=100)
    with pytest.raises(StoreFailure, match="belongs to another store"):
        Keyring(database, Credentials(tmp_path / "b", "shuffler"), MockClock(0.0), lifetime=1000, grace=100)
    first.advance()
    first.close()


def test_intake_alone_notices_that_the_store_was_restored(tmp_path: Path, postgres_url: str) -> None:
    """Regression: only workers raised the beat, so what intake accepted without them was lost silently."""
    system = System(tmp_path, url=postgres_url)
    intake = system.replica(worker=False)
    system.fill(40)
    system.shuffler.tick()
    database = system.connect()
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    dump = {name: database.rows(f"SELECT * FROM {name}") for (name,) in database.rows(tables) if name[-2] != "_"}
    client = system.client
    system.shuffler.shut()
    for _ in range(2):
        intake.refresh()
        system.upload(*(client.seal("0") for _ in range(50)), to=intake)
    intake.shut()
    for name, rows in dump.items():
        database.run(f"TRUNCATE {name}")
        if rows:
            database.insert(name, rows)
    system.shuffler = system.replica()
    with pytest.raises(Problem, match="unavailable"):
        system.fill(1)
    # The dump says that another process leads; its lease expires.
    system.clock.advance(60)
    system.shuffler.tick()
    assert system.shuffler.incidents.counts["restored"] == 1
    assert system.credentials.fence().restores == 1
    database.close()
    system.shut()


def test_uploads_stop_when_the_store_cannot_be_confirmed(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "CONFIRMED_SECONDS", -1.0)
    with pytest.raises(Problem, match="unavailable"):
        system.fill(1)
    monkeypatch.undo()
    system.fill(1)


def test_an_older_key_list_destroys_nothing(system: System) -> None:
    """Regression: a worker that was paused between reading a list and using it let the open bucket expire."""
    old = system.analyzer.keys()
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.link)
    system.fill(100)
    system.next_epoch()
    system.deliver()
    system.shuffler.fetch_keys(system.link)
    system.fill(90)
    with pytest.raises(FalseClaim, match="older than one"):
        system.shuffler.fetch_keys(Lying(system, keys=lambda: old))
    assert system.counts() == Counts(accepted=190, open=90, committed=100)


def test_an_unsigned_refusal_discards_nothing(system: System) -> None:
    """Regression: the status 409, and 404 for its manifest, were enough to discard a batch."""
    system.fill(130)
    system.next_epoch()
    lying = Lying(system, put_manifest=refused, manifest=lambda batch: None)
    with pytest.raises(AnalyzerUnreachable, match="signed counter does not include"):
        system.shuffler.deliver(lying)
    assert system.counts() == Counts(accepted=130, outbox=130)
    stranger = Identity.generate()
    forged = Counter(system.contract.task, 9).sign(stranger)
    with pytest.raises(FalseClaim):
        system.shuffler.deliver(Lying(system, put_manifest=refused, manifest=lambda _: None, counter=lambda _: forged))
    system.deliver()
    assert system.counts() == Counts(accepted=130, committed=130)


def test_a_refusal_with_a_signed_counter_is_final(system: System) -> None:
    """An analyzer that was restored has forgotten the batch, and keeps its counter."""
    system.fill(130)
    system.next_epoch()
    signed = Counter(system.contract.task, 1).sign(system.identities["analyzer"])
    system.shuffler.deliver(Lying(system, put_manifest=refused, manifest=lambda _: None, counter=lambda _: signed))
    assert system.counts() == Counts(accepted=130, fenced=130)


def test_nothing_is_delivered_to_an_analyzer_whose_identity_is_unknown(system: System) -> None:
    """Regression: before the first key list, the batches of every analyzer were sent to this one."""
    add_task_of_another_analyzer(system)
    system.fill(130)
    system.next_epoch()
    system.restart()
    asked: list[str] = []
    lying = Lying(system, put_manifest=lambda batch, document: asked.append(batch))
    system.shuffler.deliver(lying)
    assert asked == []
    assert system.counts() == Counts(accepted=130, outbox=130)


def test_a_lying_counter_pauses_its_task_and_discards_nothing(system: System) -> None:
    """Regression: a counter above the open bucket discarded it, and the keys of all tasks, at every poll."""
    add_task_of_another_analyzer(system)
    system.fill(110)
    keys = [key.id for key in system.shuffler.keyring.public_keys()]
    for number in (1, 2, 1 << 40, (1 << 53) - 1):
        stated = Counter(system.contract.task, number).sign(system.identities["analyzer"])
        with pytest.raises(FalseClaim, match="never sealed"):
            system.shuffler.fetch_keys(Lying(system, counter=lambda task, stated=stated: stated))
        assert system.counts() == Counts(accepted=110, open=110)
    assert [key.id for key in system.shuffler.keyring.public_keys()] == keys
    assert system.credentials.fence().restores == 0
    assert system.shuffler.incidents.counts["counter-unproven"] == 4
    assert system.next_epoch() == []
    # The analyzer tells the truth again.
    system.shuffler.fetch_keys(system.link)
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    system.shuffler.shuffle()
    system.deliver()
    assert system.counts() == Counts(accepted=110, committed=110)


def test_a_counter_is_proven_only_by_a_manifest_of_its_bucket_that_the_shuffler_signed(system: System) -> None:
    system.fill(130)
    system.next_epoch()
    system.fill(110)
    (delivery,) = system.shuffler._deliveries._waiting()
    own = Manifest.read(SignedDocument.from_json(delivery.manifest or b""), system.contract.shuffler)
    shuffler, stated = (
        system.identities["shuffler"],
        Counter(system.contract.task, 2).sign(system.identities["analyzer"]),
    )

    def hear(document: bytes) -> None:
        system.shuffler.fetch_keys(Lying(system, counter=lambda task: stated, manifest=lambda batch: document))

    for document in (
        b"{}",
        own.sign(shuffler),
        replace(own, bucket=3).sign(shuffler),
        replace(own, bucket=2, task=bytes(16)).sign(shuffler),
        replace(own, bucket=2).sign(Identity.generate()),
        replace(own, bucket=2).sign(system.identities["analyzer"]),
    ):
        with pytest.raises(FalseClaim, match="never sealed"):
            hear(document)
        assert system.credentials.fence().restores == 0
    hear(replace(own, bucket=2).sign(shuffler))
    assert system.credentials.fence().restores == 1


def test_a_replica_that_starts_during_a_rotation_keeps_the_new_key(tmp_path: Path) -> None:
    """Regression: it listed the secrets before the records, and gave up a key that was made in between."""
    url, clock = f"sqlite:{tmp_path}/keys.db", MockClock(0.0)
    database = open_database(url)
    database.create(KEY_TABLES)

    def ring(credentials: Credentials) -> Keyring:
        return Keyring(open_database(url), credentials, clock, lifetime=1000, grace=100)

    first = ring(Credentials(tmp_path / "credentials", "analyzer"))
    first.advance()
    threads: list[threading.Thread] = []

    class Racing(Credentials):
        def names(self, prefix: str) -> list[str]:
            found = super().names(prefix)
            threads.append(threading.Thread(target=first.rotate))
            threads[-1].start()
            threads[-1].join(0.5)
            return found

    second = ring(Racing(tmp_path / "credentials", "analyzer"))
    for thread in threads:
        thread.join()
    assert database.rows("SELECT id, phase FROM keys ORDER BY id") == [(1, "live"), (2, "live")]
    for keyring in (first, second):
        keyring.close()
    database.close()


def test_the_isolation_level_does_not_depend_on_the_server(
    postgres: str, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: under a snapshot, a release missed an upload that had just been committed."""
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'")
    try:
        system = System(tmp_path, url=postgres_url)
        intake = system.replica(worker=False)
        system.fill(110)
        late = system.client.seal("0")
        held, go, real = threading.Event(), threading.Event(), failpoints.reach

        def reach(name: str) -> None:
            if name == "accept-inserted" and threading.current_thread().name == "late":
                held.set()
                go.wait(600)
            real(name)

        monkeypatch.setattr(uploads, "reach", reach)
        thread = threading.Thread(target=lambda: system.upload(late, to=intake), name="late")
        thread.start()
        assert held.wait(600)
        threading.Timer(0.5, go.set).start()
        system.clock.advance(EPOCH)
        system.shuffler.tick()
        thread.join()
        counts = system.shuffler.totals(check=True)[system.contract.id]
        assert (counts.sealed, counts.error) == (111, 0)
        assert len(system.shuffler.shuffle()) == 1
        intake.shut()
        system.shut()
    finally:
        with psycopg.connect(postgres, autocommit=True) as server:
            server.execute("ALTER DATABASE postgres RESET default_transaction_isolation")


def test_a_recount_that_disagrees_with_the_counters_is_an_error(system: System) -> None:
    """Regression: bundles that no counter knew, but that were stored and accepted, were no error."""
    system.fill(10)
    system.shuffler.store.jobs.run("UPDATE counts SET bundles = bundles - 1")
    assert system.shuffler.totals(check=True)[system.contract.id].error != 0


def test_a_spent_ticket_costs_others_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: every upload with a spent ticket failed the transaction that it shared with others."""
    system = System(tmp_path, admission=BY_TICKET)
    core, client, ticket = system.shuffler.uploads, system.client, TICKET_KEY.mint(system.contract.task, b"account")
    first = client.seal("0", ticket)
    system.upload(first)
    again = client.seal("1", ticket)
    accepted: list[int] = []
    accept = core.accept_all
    monkeypatch.setattr(core, "accept_all", lambda uploads: accepted.append(1) or accept(uploads))  # type: ignore[func-returns-value]
    for _ in range(5):
        with pytest.raises(Problem, match="token-spent"):
            system.upload(again)
    assert len(accepted) == 1
    system.upload(first)
    system.shut()


def test_a_secret_whose_erasure_was_interrupted_is_gone(tmp_path: Path) -> None:
    """Regression: a secret that was overwritten, and not yet removed, was a secret of zeros."""
    credentials = Credentials(tmp_path, "shuffler")
    credentials.raise_fence()
    credentials.create("key-00001-1")
    (tmp_path / "key-00001-1").write_bytes(bytes(32))
    assert credentials.read("key-00001-1") is None
    assert any(credentials.create("key-00001-1"))


def test_one_process_reserves_the_credential_folder_of_a_file(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path, "shuffler")
    with credentials.reserve(), pytest.raises(StoreFailure, match="in use by another process"):
        Credentials(tmp_path, "shuffler").reserve()
    credentials.reserve().close()
