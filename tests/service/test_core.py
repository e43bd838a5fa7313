"""The cores of both services without sockets: each report is counted once, shuffled, and only in a large batch."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.system import EPOCH, System, plan_of

from hubbub.errors import Problem
from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema
from hubbub.service.analyzer.store import BatchRow
from hubbub.service.shuffler.store import Counts
from hubbub.service.task.contract import Contract, SignedContract


@pytest.fixture(params=["sqlite", "postgres"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    if request.param == "sqlite":
        found = System(tmp_path)
    else:
        found = System(tmp_path, url=request.getfixturevalue("postgres_url"))
    yield found
    found.shut()


def counts(system: System) -> Counts:
    return system.shuffler.totals(check=True)[system.contract.id]


def test_a_collection_is_counted_completely(system: System) -> None:
    client = system.client
    bundles = [client.seal(str(i % 8)) for i in range(150)]
    for start in range(0, 150, 10):
        system.upload(*bundles[start : start + 10])
    assert counts(system) == Counts(150, 150, 0, 0, 0)
    assert len(system.next_epoch()) == 1
    assert counts(system) == Counts(150, 0, 150, 0, 0)
    system.deliver()
    assert counts(system) == Counts(150, 0, 0, 150, 0)
    (result,) = system.results()
    assert (result["state"], result["people"], result["rejected"]) == ("committed", 150, {})
    assert abs(sum(result["values"]) - 150) < 60
    assert result["guarantee"]["epsilon"] <= system.plan.guarantee.epsilon


def test_nothing_is_released_below_the_minimum_batch_size(system: System) -> None:
    client = system.client
    system.upload(*(client.seal("0") for _ in range(99)))
    for _ in range(5):
        assert system.next_epoch() == []
    system.clock.advance(-10_000)
    assert system.shuffler.tick() == []
    assert counts(system).outbox == 0


def test_a_repeated_bundle_is_accepted_but_not_counted(system: System) -> None:
    bundle = system.client.seal("0")
    system.upload(bundle, bundle)
    system.upload(bundle)
    system.restart()
    system.upload(bundle)
    assert counts(system) == Counts(1, 1, 0, 0, 0)


def test_a_slot_in_a_second_bundle_is_not_counted(system: System) -> None:
    client = system.client
    slots = client.slots([bytes([1])])
    system.upload(client.bundle(slots))
    system.upload(client.bundle(slots), client.bundle(slots))
    assert counts(system).accepted == 1


def test_the_analyzer_does_not_count_a_released_slot_again(system: System) -> None:
    client = system.client
    old = [client.slots([bytes([1])]) for _ in range(120)]
    system.upload(*(client.bundle(slots) for slots in old))
    system.next_epoch()
    system.deliver()
    system.upload(*(client.bundle(slots) for slots in old[:20]))
    system.upload(*(client.seal("0") for _ in range(110)))
    system.next_epoch()
    system.deliver()
    first, second = sorted(system.results(), key=lambda result: len(result["rejected"]))
    assert (first["people"], first["rejected"]) == (120, {})
    assert (second["people"], second["rejected"]) == (110, {"repeated": 20})


def test_a_batch_with_too_few_valid_reports_is_withheld(system: System) -> None:
    client = system.client
    slots = [client.slots([bytes([1])]) for _ in range(100)]
    torn = [[slot[0][:-1] + bytes([slot[0][-1] ^ 1])] for slot in slots[:1]]
    system.upload(*(client.bundle(one) for one in [*torn, *slots[1:]]))
    system.next_epoch()
    system.deliver()
    (result,) = system.results()
    assert result["state"] == "withheld"
    assert result["rejected"] == {"cannot_open": 1}
    assert "values" not in result
    assert counts(system).committed == 100


def test_every_stage_survives_a_restart(system: System) -> None:
    client = system.client
    system.upload(*(client.seal("3") for _ in range(130)))
    system.restart()
    system.next_epoch()
    system.restart()
    assert system.shuffler.deliver(system.link)
    system.restart()
    assert system.analyzer.work()
    system.restart()
    system.deliver()
    stored = [
        system.analyzer.store.result(str(batch["batch"])) for batch in system.analyzer.batches(system.contract.task)
    ]
    system.restart()
    assert counts(system) == Counts(130, 0, 0, 130, 0)
    again = [
        system.analyzer.store.result(str(batch["batch"])) for batch in system.analyzer.batches(system.contract.task)
    ]
    assert stored == again


def test_rotated_keys(system: System) -> None:
    early = system.client
    system.upload(*(early.seal("0") for _ in range(60)))
    system.analyzer.keyring.rotate()
    system.shuffler.fetch_keys(system.link)
    # A batch has one key: while bundles are waiting, the previous key stays in use.
    system.upload(*(early.seal("0") for _ in range(60)))
    system.next_epoch()
    system.shuffler.fetch_keys(system.link)
    late = early.seal("0")
    with pytest.raises(Problem) as refused:
        system.upload(late)
    assert refused.value.name == "outdated-keys"
    system.upload(*(system.client.seal("0") for _ in range(100)))
    system.next_epoch()
    system.deliver()
    assert sorted(result["people"] for result in system.results()) == [100, 120]


def test_bundles_of_a_destroyed_key_expire(system: System) -> None:
    system.upload(*(system.client.seal("0") for _ in range(60)))
    system.analyzer.keyring.rotate()
    system.clock.advance(2 * 10**5)
    system.analyzer.advance()
    system.shuffler.fetch_keys(system.link)
    assert counts(system) == Counts(60, 0, 0, 0, 60)
    system.upload(*(system.client.seal("0") for _ in range(100)))
    system.next_epoch()
    system.deliver()
    assert counts(system) == Counts(160, 0, 0, 100, 60)


def test_keys_are_unavailable_until_one_is_in_use(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key list is stored task by task, and used once all tasks have it."""
    other = dataclasses.replace(system.contract, task_end=system.contract.task_end + 1)
    with monkeypatch.context() as patch:
        patch.setattr(system.shuffler.store, "key_list", lambda task: None)
        system.shuffler.tasks.add_contract(SignedContract.sign(other, *system.identities.values()).to_json())
    store, seen = system.shuffler.store.store_key_list, []

    def observed(*arguments: Any) -> None:
        store(*arguments)
        with pytest.raises(Problem) as refused:
            system.shuffler.tasks.keys_document(other.task)
        seen.append(refused.value.name)

    monkeypatch.setattr(system.shuffler.store, "store_key_list", observed)
    system.shuffler.fetch_keys(system.link)
    assert seen == ["unavailable", "unavailable"]
    assert json.loads(system.shuffler.tasks.keys_document(other.task))["analyzer_key_id"] == 1


def test_a_new_task_of_a_known_analyzer_has_keys_immediately(system: System) -> None:
    other = dataclasses.replace(system.contract, task_end=system.contract.task_end + 1)
    system.shuffler.tasks.add_contract(SignedContract.sign(other, *system.identities.values()).to_json())
    assert json.loads(system.shuffler.tasks.keys_document(other.task))["analyzer_key_id"] == 1


def test_a_repeat_is_recognised_after_its_key_is_destroyed(system: System) -> None:
    bundle = system.client.seal("0")
    system.upload(bundle)
    system.shuffler.keyring.rotate()
    system.clock.advance(2 * 10**5)
    system.shuffler.keyring.advance()
    assert system.shuffler.keyring.private(1) is None
    never_seen = bundle[:24] + bytes(32) + bundle[56:]
    with pytest.raises(Problem) as refused:
        system.upload(never_seen)
    assert refused.value.name == "outdated-keys"
    system.upload(bundle)


def test_fakes_drawn_ahead_are_used_once(tmp_path: Path) -> None:
    plan = plan_from(Schema.one_hot(5), 100, Protocol(0, m=Fakes.laplace(4.0, shift=70)), delta=1e-6)
    system = System(tmp_path, plan=plan)
    for _ in range(2):
        client = system.client
        system.upload(*(client.seal("0") for _ in range(110)))
        system.clock.advance(EPOCH)
        system.shuffler.releases.draw_ahead()
        drawn = set(system.shuffler.releases._drawn.values())
        assert len(drawn) == 1
        assert system.shuffler.tick()
        assert not system.shuffler.releases._drawn
        system.deliver()
    assert [result["rejected"] for result in system.results()] == [{}, {}]
    assert all(abs(result["values"][0] - 110) < 40 for result in system.results())


def test_a_batch_that_fails_does_not_hold_up_others(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        system.upload(*(system.client.seal("0") for _ in range(100)))
        system.next_epoch()
    assert system.shuffler.deliver(system.link)
    bad = system.analyzer.store.complete()[0].id
    whole = system.analyzer._open

    def broken(batch: BatchRow, contract: Contract) -> Any:
        if batch.id == bad:
            raise MemoryError
        return whole(batch, contract)

    monkeypatch.setattr(system.analyzer, "_open", broken)
    assert system.analyzer.work()
    with pytest.raises(MemoryError):
        system.analyzer.work()
    monkeypatch.undo()
    system.deliver()
    assert [result["people"] for result in system.results()] == [100, 100]


POINTS = [
    plan_of(),
    plan_from(Schema.bits(9), 100, Protocol(0.45), delta=1e-6),
    plan_from(Schema.bits(3), 100, Protocol(0.2, k=3), delta=1e-6),
    plan_from(Schema.one_hot(20), 100, Protocol(0.05, release="bits"), delta=1e-6),
    plan_from(Schema.one_hot(20), 100, Protocol(0.02, m=300), delta=1e-6),
    plan_from(Schema.one_hot(20), 100, Protocol(0.02, m=Fakes.binomial(4, 0.5)), delta=1e-6),
    plan_from(Schema.one_hot(5), 100, Protocol(0, m=Fakes.laplace(4.0, shift=70)), delta=1e-6),
    plan_from(Schema.one_hot(5), 100, Protocol(0, m=Fakes.laplace(4.0, shift=70), release="bits"), delta=1e-6),
    plan_from(Schema.one_hot(5), 100, Protocol(0.05, release="category"), delta=1e-6),
]


@pytest.mark.parametrize("plan", POINTS, ids=str)
def test_every_protocol_point(plan: Plan, tmp_path: Path) -> None:
    system = System(tmp_path, plan=plan)
    client, schema = system.client, plan.schema
    truth = Counter(i % min(schema.width, 4) for i in range(160))
    for label, count in truth.items():
        name = schema.labels[label]
        system.upload(*(client.seal(name if schema.exclusive else [name]) for _ in range(count)))
    system.next_epoch()
    system.deliver()
    (result,) = system.results()
    assert result["state"] == "committed"
    assert result["people"] == 160
    off = (np.array(result["values"]) - [truth[label] for label in range(schema.width)]) / np.array(result["stderr"])
    assert np.abs(off).max() < 5
    assert result["guarantee"]["delta"] <= plan.guarantee.delta * 1.002
