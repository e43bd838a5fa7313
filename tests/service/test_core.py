"""The cores of both services without sockets: each report is counted once, shuffled, and only in a large batch."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.service.system import EPOCH, System, plan_of

from hubbub.errors import Problem
from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.shuffler.store import Counts
from hubbub.service.task.contract import SignedContract


@pytest.fixture(params=["sqlite", "postgres"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    if request.param == "sqlite":
        found = System(tmp_path)
    else:
        found = System(tmp_path, url=request.getfixturevalue("postgres_url"))
    yield found
    found.shut()


def test_a_collection_is_counted_completely(system: System) -> None:
    client = system.client
    bundles = [client.seal(str(i % 8)) for i in range(150)]
    for start in range(0, 150, 10):
        system.upload(*bundles[start : start + 10])
    assert system.counts() == Counts(accepted=150, open=150)
    assert len(system.next_epoch()) == 1
    assert system.counts() == Counts(accepted=150, outbox=150)
    system.deliver()
    assert system.counts() == Counts(accepted=150, committed=150)
    (result,) = system.results()
    assert (result["state"], result["people"], result["rejected"]) == ("committed", 150, {})
    assert abs(sum(result["table"]["value"]) - 150) < 60
    assert result["guarantee"]["epsilon"] <= system.plan.guarantee.epsilon


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
    assert "table" not in result
    assert system.counts() == Counts(accepted=100, withheld=100)


def test_every_stage_survives_a_restart(system: System) -> None:
    client = system.client
    system.upload(*(client.seal("3") for _ in range(130)))
    system.restart()
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    system.restart()
    system.shuffler.shuffle()
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
    assert system.counts() == Counts(accepted=130, committed=130)
    again = [
        system.analyzer.store.result(str(batch["batch"])) for batch in system.analyzer.batches(system.contract.task)
    ]
    assert stored == again


def test_a_slot_in_a_second_bundle_is_charged_and_not_counted(system: System) -> None:
    """The shuffler stores it, because it compares bundles only; the analyzer finds it."""
    client = system.client
    slots = client.slots([bytes([1])])
    system.upload(client.bundle(slots), client.bundle(slots))
    system.upload(*(client.seal("0") for _ in range(109)))
    system.next_epoch()
    system.deliver()
    (result,) = system.results()
    assert (result["people"], result["rejected"]) == (110, {"repeated": 1})
    assert system.counts() == Counts(accepted=111, committed=111)


def test_a_release_switches_to_the_rotated_key(system: System) -> None:
    early = system.client
    system.upload(*(early.seal("0") for _ in range(60)))
    system.analyzer.rotate()
    system.shuffler.fetch_keys(system.link)
    # A batch has one key: the bucket keeps the one with which it was opened.
    system.upload(*(early.seal("0") for _ in range(60)))
    system.next_epoch()
    with pytest.raises(Problem) as refused:
        system.upload(early.seal("0"))
    assert refused.value.name == "outdated-keys"
    system.upload(*(system.client.seal("0") for _ in range(100)))
    system.next_epoch()
    system.deliver()
    assert [result["people"] for result in system.results()] == [120, 100]


def test_bundles_outlive_the_lifetime_of_their_key(system: System) -> None:
    """The analyzer keeps a key for as long as the shuffler states that something waits under it."""
    system.upload(*(system.client.seal("0") for _ in range(60)))
    for _ in range(3):
        system.analyzer.rotate()
        system.clock.advance(2 * 10**5)
        system.analyzer.advance()
        system.shuffler.fetch_keys(system.link)
        system.shuffler.tick()
    assert system.counts() == Counts(accepted=60, open=60)
    system.upload(*(system.client.seal("0") for _ in range(60)))
    system.next_epoch()
    system.deliver()
    assert system.counts() == Counts(accepted=120, committed=120)
    assert [result["people"] for result in system.results()] == [120]
    # Delivered, the old key is no longer held.
    system.shuffler.fetch_keys(system.link)
    system.analyzer.advance()
    assert system.analyzer.keyring.private(1) is None


def test_a_new_task_of_a_known_analyzer_has_keys_immediately(system: System) -> None:
    other = dataclasses.replace(system.contract, task_end=system.contract.task_end + 1)
    system.shuffler.tasks.add_contract(SignedContract.sign(other, *system.identities.values()).to_json())
    assert json.loads(system.shuffler.tasks.keys_document(other.task))["analyzer_key_id"] == 1


def test_no_keys_are_given_out_between_those_of_a_restored_store_and_new_ones(system: System) -> None:
    """Another replica may have given all keys up and not made new ones yet: clients try again instead of failing."""
    system.shuffler.keyring.abandon()
    with pytest.raises(Problem, match="keys are being replaced") as caught:
        system.shuffler.tasks.keys_document(system.contract.task)
    assert caught.value.name == "unavailable"
    system.shuffler.keyring.advance()
    assert json.loads(system.shuffler.tasks.keys_document(system.contract.task))["shuffler"]


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


@pytest.mark.parametrize("plan", POINTS)
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
    off = (np.array(result["table"]["value"]) - [truth[label] for label in range(schema.width)]) / np.array(
        result["table"]["stderr"]
    )
    assert np.abs(off).max() < 5
    assert result["guarantee"]["delta"] <= plan.guarantee.delta * 1.002
