"""The analyzer's keys over time: pinned for ever, dated, switched by releases, kept while reports wait under them."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.shuffler_system import EPOCH, System

from hubbub.errors import FalseClaim, Problem
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.shuffler.store import Counts
from hubbub.service.task.contract import SignedContract
from hubbub.service.task.identity import Identity
from hubbub.service.task.keylist import ExpiredKeys, KeyList
from hubbub.service.task.sealing import generate, load_private, open_slot, slot_key

DAY = 86_400
FAKES = plan_from(Schema.one_hot(5), 100, Protocol(0, m=Fakes.laplace(4.0, shift=70)), delta=1e-6)


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


def key_in_use(system: System) -> int:
    return int(json.loads(system.shuffler.tasks.keys_document(system.contract.task))["analyzer_key_id"])


class LyingAnalyzer:
    """Signs other public bytes under the same key id at every fetch."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.privates: list[bytes] = []

    def keys(self) -> bytes:
        honest = KeyList.read(self._system.analyzer.keys(), self._system.contract.analyzer, "analyzer")
        private, public = generate(1)
        self.privates.append(private)
        forged = tuple(dataclasses.replace(key, public=public) if key.suite == 1 else key for key in honest.keys)
        return dataclasses.replace(honest, keys=forged).sign(self._system.analyzer.identity)

    def __getattr__(self, name: str) -> object:
        return getattr(self._system.analyzer, name)


def test_defect_1_other_public_bytes_under_a_known_key_id_are_refused(system: System) -> None:
    before = system.shuffler.tasks.keys_document(system.contract.task)
    lying = LyingAnalyzer(system)
    for _ in range(2):
        with pytest.raises(FalseClaim, match="gives key 1 other bytes than before"):
            system.shuffler.fetch_keys(lying)  # type: ignore[arg-type]
    assert system.shuffler.incidents.counts["keys-changed"] == 2
    after = system.shuffler.tasks.keys_document(system.contract.task)
    assert json.loads(before)["analyzer"] == json.loads(after)["analyzer"]
    # Pins belong to the identity, not to a task: a new task does not give the analyzer a second chance.
    system.serve(system.new_contract(task_end=system.task_end + 1))
    with pytest.raises(FalseClaim, match="other bytes"):
        system.shuffler.fetch_keys(lying)  # type: ignore[arg-type]
    system.restart()
    with pytest.raises(FalseClaim, match="other bytes"):
        system.shuffler.fetch_keys(lying)  # type: ignore[arg-type]


def test_defect_1_the_lying_analyzer_cannot_tell_fakes_from_people(tmp_path: Path) -> None:
    """All slots of a batch, those of early and late people and of the shuffler's fakes, are sealed to one key."""
    system = System(tmp_path, plan=FAKES)
    lying = LyingAnalyzer(system)
    system.fill(60)
    for _ in range(3):
        with pytest.raises(FalseClaim):
            system.shuffler.fetch_keys(lying)  # type: ignore[arg-type]
        system.fill(30)
    system.next_epoch()
    system.deliver()
    (batch,) = system.analyzer.results()
    assert batch.rejected == 0
    assert sum(batch.messages.values()) > 150
    size, text = system.contract.slot_size, b"".join(batch.chunks.values())
    slots = [text[start : start + size] for start in range(0, len(text), size)]
    for private in lying.privates:
        opener = load_private(1, private)
        for slot in slots[:20]:
            with pytest.raises(Exception, match="cannot-open"):
                open_slot(slot, system.contract.layout, opener)
    assert {slot_key(slot) for slot in slots} == {1}
    system.shut()


def test_defect_1_the_manifest_names_the_key_list_of_its_bucket(system: System) -> None:
    first = KeyList.read(system.analyzer.keys(), system.contract.analyzer, "analyzer").digest
    system.fill(100)
    system.clock.advance(10)
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.analyzer)
    second = KeyList.read(system.analyzer.keys(), system.contract.analyzer, "analyzer").digest
    system.next_epoch()
    system.fill(100)
    system.next_epoch()
    system.deliver()
    manifests = [batch.manifest for batch in system.analyzer.results()]
    assert [(one.key_id, one.key_list) for one in manifests] == [(1, first), (3, second)]


def test_defect_4_a_release_switches_to_the_newest_key(system: System) -> None:
    early = system.client
    system.fill(60)
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.analyzer)
    # The bucket keeps its key, and a client that knows the old document can still send.
    system.upload(*(early.seal("0") for _ in range(60)))
    assert key_in_use(system) == 1
    system.next_epoch()
    assert key_in_use(system) == 3
    with pytest.raises(Problem) as refused:
        system.upload(early.seal("0"))
    assert refused.value.name == "outdated-keys"
    system.fill(100)
    system.next_epoch()
    system.deliver()
    assert [batch.manifest.bundles for batch in system.analyzer.results()] == [120, 100]
    assert sum(batch.rejected for batch in system.analyzer.results()) == 0


def test_defect_4_thirty_days_below_the_minimum_lose_nothing(url: str, tmp_path: Path) -> None:
    """Default lifetimes, three people a day: keys rotate four times while one bucket fills."""
    system = System(tmp_path, url=url, lifetime=7 * DAY, grace=DAY)
    for _ in range(30):
        for _ in range(2):
            system.clock.advance(DAY / 2)
            system.analyzer.advance()
            system.shuffler.fetch_keys(system.analyzer)
            system.shuffler.tick()
        system.fill(3)
    # The keys have changed many times, and the one that reports wait under is still there.
    ids = [key.id for key in system.analyzer.keyring.public_keys()]
    assert (min(ids), max(ids) > 6) == (1, True)
    assert system.counts() == Counts(accepted=90, open=90)
    system.fill(10)
    system.next_epoch()
    system.deliver()
    assert system.counts() == Counts(accepted=100, committed=100)
    (batch,) = system.analyzer.results()
    assert (batch.rejected, batch.manifest.key_id) == (0, 1)
    # The bucket is delivered: its key is given up, and the analyzer destroys it.
    assert batch.manifest.key_id not in system.analyzer.statements[system.contract.task].keys
    system.analyzer.advance()
    assert batch.manifest.key_id not in {key.id for key in system.analyzer.keyring.public_keys()}
    system.shut()


def test_keys_in_use_are_stated_once_and_survive_restores(system: System) -> None:
    stated = system.analyzer.statements
    first = stated[system.contract.task]
    assert first.keys == (1,)
    system.shuffler.fetch_keys(system.analyzer)
    assert stated[system.contract.task] == first
    system.fill(100)
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.analyzer)
    # The key of the next bucket is stated before it is used.
    assert stated[system.contract.task].keys == (1, 3)
    system.next_epoch()
    system.deliver()
    assert stated[system.contract.task].keys == (3,)
    # A store that forgot its statements goes on with higher numbers, because they follow the clock.
    number = stated[system.contract.task].number
    system.shuffler.store.jobs.run("DELETE FROM statements")
    system.clock.advance(10)
    system.shuffler.fetch_keys(system.analyzer)
    assert stated[system.contract.task].number > number


def test_a_bucket_never_returns_to_an_older_key(system: System) -> None:
    """The analyzer may have been told that nothing waits under it, and may have destroyed it."""
    old = system.analyzer.keys()
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.analyzer)
    system.fill(100)
    system.next_epoch()
    assert key_in_use(system) == 3
    stale = KeyList.read(old, system.contract.analyzer, "analyzer")
    new = KeyList.read(system.analyzer.keys(), system.contract.analyzer, "analyzer")
    states = {key.id: key.state for key in stale.keys}
    swapped = tuple(dataclasses.replace(key, state=states.get(key.id, "pending")) for key in new.keys)
    system.shuffler.tasks.update_keys(dataclasses.replace(new, keys=swapped).sign(system.analyzer.identity))
    system.fill(100)
    system.next_epoch()
    assert key_in_use(system) == 3


def test_bundles_under_a_key_that_the_analyzer_destroyed_expire_as_an_incident(system: System) -> None:
    system.fill(60)
    system.analyzer.statements.clear()
    system.analyzer.rotate()
    system.clock.advance(system.grace + 1)
    system.analyzer.advance()
    system.shuffler.fetch_keys(system.analyzer)
    assert system.shuffler.incidents.counts["key-lost"] == 1
    assert system.counts() == Counts(accepted=60, expired=60)
    system.fill(100)
    system.next_epoch()
    system.deliver()
    assert system.counts() == Counts(accepted=160, committed=100, expired=60)


def test_defect_11_an_old_identity_does_not_block_new_key_lists(system: System) -> None:
    """The analyzer's operator has a new identity; the old task, even destroyed, stays as it is."""
    system.fill(30)
    old = system.contract
    system.identities["analyzer"] = system.analyzer.identity = Identity.generate()
    new = system.new_contract()
    system.shuffler.tasks.add_contract(SignedContract.sign(new, *system.identities.values()).to_json())
    system.analyzer.contracts = {new.task: new}
    system.shuffler.fetch_keys(system.analyzer)
    system.fill(100, new)
    system.next_epoch()
    system.deliver()
    assert system.counts(new).committed == 100
    assert system.counts(old) == Counts(accepted=30, open=30)
    system.shuffler.close(old.task, destroy=True)
    system.clock.advance(EPOCH)
    system.shuffler.fetch_keys(system.analyzer)
    assert json.loads(system.shuffler.tasks.keys_document(new.task))["analyzer_key_id"] == 1


def test_a_list_that_no_contract_names_is_refused(system: System) -> None:
    stranger = KeyList.read(system.analyzer.keys(), system.contract.analyzer, "analyzer").sign(Identity.generate())
    with pytest.raises(FalseClaim, match="not signed by the analyzer of any contract"):
        system.shuffler.tasks.update_keys(stranger)


def test_defect_12_an_expired_key_list_is_refused(system: System) -> None:
    old = system.analyzer.keys()
    system.clock.advance(2 * DAY)
    with pytest.raises(ExpiredKeys):
        system.shuffler.tasks.update_keys(old)
    # Nor does a client seal with the one that the shuffler still has.
    with pytest.raises(ExpiredKeys):
        _ = system.client
    system.shuffler.fetch_keys(system.analyzer)
    system.fill(1)


def test_a_list_without_a_key_of_the_suite_leaves_other_suites_alone(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = system.new_contract(suite=2)
    listed = KeyList.read(system.analyzer.keys(), system.contract.analyzer, "analyzer")
    only = dataclasses.replace(listed, keys=tuple(key for key in listed.keys if key.suite == 1))
    for table in ("key_lists", "pins"):
        system.shuffler.store.jobs.run(f"DELETE FROM {table}")
    system.shuffler.tasks.add_contract(SignedContract.sign(other, *system.identities.values()).to_json())
    system.analyzer.contracts[other.task] = other
    with monkeypatch.context() as patch:
        patch.setattr(system.analyzer, "keys", lambda: only.sign(system.analyzer.identity))
        with pytest.raises(FalseClaim, match="no active key of the contract's suite"):
            system.shuffler.fetch_keys(system.analyzer)
    system.fill(1)
    with pytest.raises(Problem) as refused:
        system.shuffler.tasks.keys_document(other.task)
    assert refused.value.name == "unavailable"
    system.shuffler.fetch_keys(system.analyzer)
    system.fill(1, other)


def test_a_bucket_is_opened_only_with_a_key_that_the_analyzer_was_told_of(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the analyzer, out of reach for longer than its grace period, would destroy the key in between."""
    system.fill(100)
    system.analyzer.rotate()

    def broken(task: str, document: bytes) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(system.analyzer, "put_keys_in_use", broken)
        with pytest.raises(ConnectionError):
            system.shuffler.fetch_keys(system.analyzer)
        system.next_epoch()
    # The list is known, but the statement did not arrive: the task stays with the key that is surely kept.
    assert key_in_use(system) == 1
    system.shuffler.fetch_keys(system.analyzer)
    assert system.analyzer.statements[system.contract.task].keys == (1, 3)
    system.fill(100)
    system.analyzer.rotate()
    system.clock.advance(system.grace + 1)
    system.analyzer.advance()
    system.next_epoch()
    assert key_in_use(system) == 3
    system.shuffler.fetch_keys(system.analyzer)
    system.fill(100)
    system.next_epoch()
    system.deliver()
    assert [(one.manifest.key_id, one.rejected) for one in system.analyzer.results()] == [(1, 0), (1, 0), (3, 0)]


def test_a_new_task_of_a_known_analyzer_has_keys_at_once(system: System) -> None:
    other = system.new_contract(task_end=system.task_end + 1)
    system.shuffler.tasks.add_contract(SignedContract.sign(other, *system.identities.values()).to_json())
    assert json.loads(system.shuffler.tasks.keys_document(other.task))["analyzer_key_id"] == 1
