"""Keys of the analyzer: kept until the shuffler states that nothing waits under them, and recovered after a restore."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.analyzer_system import (
    GRACE,
    LIFETIME,
    SHUFFLER,
    AnalyzerSystem,
    FakeShuffler,
    contract_of,
    signed,
    small_plan,
)

from hubbub.documents import Json
from hubbub.errors import Problem
from hubbub.service.task.identity import Identity, SignedDocument, document_format
from hubbub.service.task.keylist import CLOCK_TOLERANCE
from hubbub.service.task.keys import LIST_LIFETIME
from hubbub.service.task.manifest import KeysInUse

VALUES = ["1"] * 20
LONG = LIFETIME + GRACE + LIST_LIFETIME + CLOCK_TOLERANCE


@pytest.fixture(params=["sqlite", "postgres"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnalyzerSystem]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    found = AnalyzerSystem(tmp_path, url=url)
    yield found
    found.shut()


def later(system: AnalyzerSystem, seconds: float = LONG, times: int = 1) -> None:
    for _ in range(times):
        system.clock.advance(seconds)
        system.core.advance()


def existing(system: AnalyzerSystem) -> set[int]:
    return {key.id for key in system.core.keyring.public_keys()}


def state(system: AnalyzerSystem, *keys: int, shuffler: FakeShuffler | None = None) -> None:
    shuffler = shuffler or system.shuffler
    system.core.put_keys_in_use(shuffler.contract.task, shuffler.keys_in_use(*keys))


def test_4_a_key_is_kept_until_the_shuffler_states_that_nothing_waits_under_it(system: AnalyzerSystem) -> None:
    """A low-traffic task fills its bucket over many lifetimes of a key, and loses nothing."""
    key = system.key()
    waiting = system.shuffler.people(VALUES, key)
    state(system, key.id)
    later(system, times=4)
    assert key.id in existing(system)
    newest = system.key()
    assert newest.id > key.id
    system.deliver(system.shuffler.batch(1, waiting, key))
    assert (system.result(1)["state"], system.result(1)["people"]) == ("committed", 20)
    later(system)
    assert key.id in existing(system), "delivered, but the shuffler has not said so"
    state(system, newest.id)
    later(system)
    assert key.id not in existing(system)
    assert newest.id in existing(system)


def test_4_rotation_by_hand_destroys_no_held_key(system: AnalyzerSystem) -> None:
    key = system.key()
    state(system, key.id)
    for _ in range(3):
        system.clock.advance(LONG)
        system.core.rotate()
    assert key.id in existing(system)
    assert system.core.keyring.private(key.id) is not None


def test_4_a_task_without_a_statement_holds_every_key_its_clients_could_have_used(system: AnalyzerSystem) -> None:
    other = FakeShuffler(contract_of(small_plan(), number=1))
    system.core.add_contract(signed(other.contract))
    used = system.key()
    waiting = other.people(VALUES, used)
    state(system, used.id)
    later(system, times=3)
    state(system, system.key().id)
    later(system)
    assert used.id in existing(system), "the other task has made no statement"
    system.deliver(other.batch(1, waiting, used))
    assert [entry["state"] for entry in system.core.batches(other.contract.task)] == ["committed"]
    state(system, system.key().id, shuffler=other)
    later(system)
    assert used.id not in existing(system)


def test_4_an_old_statement_releases_no_key_made_after_it(system: AnalyzerSystem) -> None:
    """The link is down for months while the shuffler changes to newer keys."""
    state(system, system.key().id)
    later(system)
    second = system.key()
    waiting = system.shuffler.people(VALUES, second)
    later(system, times=3)
    system.deliver(system.shuffler.batch(1, waiting, second))
    assert system.result(1)["state"] == "committed"


def test_4_a_task_that_ended_with_an_empty_statement_holds_nothing(system: AnalyzerSystem) -> None:
    key = system.key()
    state(system)
    later(system, times=2)
    assert key.id in existing(system), "the task has not ended: its shuffler may use the key again"
    system.clock.time = system.contract.task_end * system.contract.epoch
    later(system)
    assert key.id not in existing(system)


def test_4_an_ended_task_without_an_empty_statement_holds_its_keys(system: AnalyzerSystem) -> None:
    key = system.key()
    state(system, key.id)
    system.clock.time = system.contract.task_end * system.contract.epoch
    later(system, times=2)
    assert key.id in existing(system)


def test_4_a_batch_that_is_not_counted_holds_its_key(system: AnalyzerSystem) -> None:
    key = system.key()
    sent = system.shuffler.batch(1, system.shuffler.people(VALUES, key), key)
    system.core.put_manifest(sent.id, sent.document)
    later(system)
    state(system, system.key().id)
    later(system, times=2)
    system.deliver(sent)
    assert system.result(1)["state"] == "committed"


def forged(task: bytes, number: int, keys: list[Json]) -> bytes:
    """Return a signed statement with numbers that a statement cannot have."""
    body: dict[str, Json] = {
        "format": document_format("keys in use"),
        "task": task.hex(),
        "number": number,
        "keys": keys,
    }
    return SignedDocument.sign(SHUFFLER, "keys in use", body).to_json()


def test_statements_are_signed_numbered_and_idempotent(system: AnalyzerSystem) -> None:
    core, task = system.core, system.task
    second = system.shuffler.keys_in_use(1, number=2)
    for _ in range(2):
        core.put_keys_in_use(task, second)
    for document, name in (
        (system.shuffler.keys_in_use(number=1), "conflict"),
        (system.shuffler.keys_in_use(number=2), "conflict"),
        (KeysInUse(task, 3, ()).sign(Identity.generate()), "forbidden"),
        (KeysInUse(bytes(16), 3, ()).sign(SHUFFLER), "malformed"),
        (forged(task, 3, [-1]), "malformed"),
        (forged(task, 3, [2**16]), "malformed"),
        (forged(task, 3, [1] * (2**16 + 1)), "malformed"),
        (forged(task, -1, []), "malformed"),
        (forged(task, 2**60, []), "malformed"),
        (b"{}", "malformed"),
    ):
        with pytest.raises(Problem) as refused:
            core.put_keys_in_use(task, document)
        assert refused.value.name == name
    with pytest.raises(Problem, match="unknown-task"):
        core.put_keys_in_use(bytes(16), second)
    stored = core.store.statement(task)
    assert stored is not None
    assert (stored.number, stored.keys) == (2, (1,))


# -- a restored store --


def test_a_restored_analyzer_opens_batches_sealed_to_keys_made_after_the_backup(tmp_path: Path) -> None:
    system = AnalyzerSystem(tmp_path)
    state(system, system.key().id)
    backup = system.backup()
    later(system)
    key = system.key()
    waiting = system.shuffler.people(VALUES, key)
    system.restore(backup)
    assert key.id in existing(system)
    assert system.key() == key
    later(system, times=3)
    system.deliver(system.shuffler.batch(1, waiting, key))
    assert (system.result(1)["state"], system.result(1)["people"]) == ("committed", 20)
    system.shut()


def test_a_restored_analyzer_does_not_revive_a_destroyed_key(tmp_path: Path) -> None:
    system = AnalyzerSystem(tmp_path)
    key = system.key()
    old = system.shuffler.batch(1, system.shuffler.people(VALUES, key), key)
    backup = system.backup()
    later(system)
    state(system, system.key().id)
    later(system)
    assert key.id not in existing(system)
    system.restore(backup)
    assert key.id not in existing(system)
    system.deliver(old)
    assert system.result(1)["state"] == "withheld"
    system.shut()


def test_a_restored_analyzer_names_the_buckets_it_has_forgotten(tmp_path: Path) -> None:
    system = AnalyzerSystem(tmp_path)
    system.collect(1, VALUES)
    backup = system.backup()
    key = system.key()
    half = system.shuffler.batch(3, system.shuffler.people(VALUES, key), key, chunk=10)
    system.collect(2, VALUES)
    system.core.put_manifest(half.id, half.document)
    system.restore(backup)
    assert system.counter() == 3, "the counter never goes back"
    assert system.core.gaps(system.task) == [{"first": 2, "last": 3, "reason": "unknown here"}]
    assert system.core.totals()[system.contract.id]["unknown_buckets"] == 2
    system.deliver(half)
    assert system.core.gaps(system.task) == [{"first": 2, "last": 2, "reason": "unknown here"}]
    assert [entry["bucket"] for entry in system.core.batches(system.task)] == [1, 3]
    system.collect(4, VALUES)
    assert system.core.gaps(system.task) == [{"first": 2, "last": 2, "reason": "unknown here"}]
    system.shut()


def test_a_replica_does_not_count_under_a_key_that_another_destroyed(system: AnalyzerSystem) -> None:
    """Regression: a replica that still had the key counted old slots again, whose ids were dropped with the key."""
    stale = system.replica()
    key = system.key()
    people = system.shuffler.people(["0"] * 25, key)
    system.deliver(system.shuffler.batch(1, people, key), core=stale)
    assert system.result(1)["people"] == 25
    system.core.rotate()
    system.core.put_keys_in_use(system.task, system.shuffler.keys_in_use(system.key().id))
    system.clock.advance(10**7)
    system.core.advance()
    assert system.core.keyring.private(key.id) is None
    system.deliver(system.shuffler.batch(2, people, key.id), core=stale)
    assert system.result(2)["state"] == "withheld"
    stale.store.shut()
    stale.keyring.close()


def test_a_contract_added_by_another_replica_is_served(system: AnalyzerSystem) -> None:
    """Each process reads what it does not know yet: contracts, keys and batches."""
    second = system.replica()
    other = dataclasses.replace(system.contract, task_end=system.contract.task_end + 1, suite=2)
    second.add_contract(signed(other))
    assert system.core.batches(other.task) == []
    shuffler, key = FakeShuffler(other), system.key(2)
    sent = shuffler.batch(1, shuffler.people(VALUES, key), key)
    system.deliver(sent)
    assert [entry["state"] for entry in second.batches(other.task)] == ["committed"]
