"""Neither service trusts the other: receipts, chunks and slots are verified, and delivered data is erased."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.service.system import DirectClient, System

from hubbub.errors import HubbubError, Problem
from hubbub.planner import plan_from
from hubbub.protocol import Protocol
from hubbub.schema import Schema
from hubbub.service.shuffler.store import Counts
from hubbub.service.task.identity import Identity, SignedDocument


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def counts(system: System) -> Counts:
    return system.shuffler.totals(check=True)[system.contract.id]


def fill(system: System, people: int = 100) -> list[bytes]:
    """Upload bundles, and return their slots."""
    client = system.client
    slots = [client.slots([bytes([1])]) for _ in range(people)]
    system.upload(*(client.bundle(one) for one in slots))
    return [slot for one in slots for slot in one]


class Forger(DirectClient):
    """An analyzer that answers a manifest with a forged receipt."""

    def __init__(self, system: System, forge: Callable[[dict[str, Any]], bytes]) -> None:
        super().__init__(system.analyzer)
        self.forge = forge

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        answer = super().put_manifest(batch, document)
        return answer if isinstance(answer, list) else self.forge(json.loads(answer)["body"])


def test_a_forged_receipt_erases_nothing(system: System) -> None:
    fill(system)
    system.next_epoch()
    assert system.shuffler.deliver(system.link)
    assert system.analyzer.work()
    own, other = system.identities["analyzer"], Identity.generate()

    def signed(who: Identity, kind: str = "receipt", **changes: str) -> Callable[[dict[str, Any]], bytes]:
        return lambda body: SignedDocument.sign(who, kind, {**body, **changes}).to_json()

    for forge in (
        signed(other),
        signed(system.identities["shuffler"]),
        signed(own, "manifest"),
        signed(own, batch="00" * 16),
        signed(own, task="00" * 16),
        signed(own, manifest="00" * 32),
        signed(own, more="1"),
        lambda body: b"{}",
        lambda body: b"",
    ):
        with pytest.raises(HubbubError):
            system.shuffler.deliver(Forger(system, forge))
        assert counts(system) == Counts(100, 0, 100, 0, 0)
    system.deliver()
    assert counts(system) == Counts(100, 0, 0, 100, 0)


def test_a_batch_is_kept_until_its_receipt(system: System) -> None:
    fill(system)
    system.next_epoch()
    for _ in range(3):
        assert system.shuffler.deliver(system.link)
        assert counts(system) == Counts(100, 0, 100, 0, 0)
    assert system.results() == []
    assert system.analyzer.work()
    assert counts(system) == Counts(100, 0, 100, 0, 0)
    assert not system.shuffler.deliver(system.link)
    assert counts(system) == Counts(100, 0, 0, 100, 0)
    assert not system.analyzer.work()


def test_chunks_that_the_manifest_does_not_announce_are_rejected(system: System) -> None:
    fill(system)
    (batch,) = system.next_epoch()
    (waiting,) = system.shuffler.store.outbox()
    assert system.analyzer.put_manifest(batch, waiting.manifest) == [0]
    data = system.shuffler.store.chunk(batch, 0)
    for wrong in (data[:-1], data + b"\0", b"", data[53:] + data[:53]):
        with pytest.raises(Problem) as refused:
            system.analyzer.put_chunk(batch, 0, wrong)
        assert refused.value.name == "conflict"
    for index in (-1, 1):
        with pytest.raises(Problem) as refused:
            system.analyzer.put_chunk(batch, index, data)
        assert refused.value.name == "not-found"
    other = SignedDocument.sign(
        system.identities["shuffler"], "manifest", {**json.loads(waiting.manifest)["body"], "bundles": 101}
    ).to_json()
    with pytest.raises(Problem) as refused:
        system.analyzer.put_manifest(batch, other)
    assert refused.value.name == "fenced"
    system.deliver()
    assert [result["people"] for result in system.results()] == [100]


def test_slots_are_erased_after_use(system: System) -> None:
    """Slots are on the shuffler's disk until the receipt, and on the analyzer's until they are counted."""

    def on_disk(role: str) -> bool:
        files = b"".join(path.read_bytes() for path in sorted(system.folder.glob(f"{role}.db*")))
        return any(slot[8:48] in files for slot in slots)

    slots = fill(system)
    assert on_disk("shuffler")
    system.next_epoch()
    assert system.shuffler.deliver(system.link)
    assert on_disk("shuffler")
    assert on_disk("analyzer")
    assert system.analyzer.work()
    assert not on_disk("analyzer")
    system.deliver()
    assert not on_disk("shuffler")
    assert not on_disk("analyzer")


@pytest.mark.parametrize("destroy", [False, True])
def test_closing_a_task_erases_its_slots(system: System, destroy: bool) -> None:
    slots = fill(system, 20)
    system.shuffler.close(system.contract.task, destroy=destroy)
    files = b"".join(path.read_bytes() for path in sorted(system.folder.glob("shuffler.db*")))
    assert not any(slot[8:48] in files for slot in slots)
    assert counts(system) == Counts(20, 0, 0, 0, 20)


def test_a_repeat_after_the_release_is_recognised(system: System) -> None:
    """Its slots are gone, but its replay id is stored, even across a restart."""
    client = system.client
    bundles = [client.seal("1") for _ in range(100)]
    system.upload(*bundles)
    system.next_epoch()
    system.deliver()
    system.upload(*reversed(bundles))
    system.restart()
    system.upload(*bundles[:50])
    assert counts(system) == Counts(100, 0, 0, 100, 0)


@pytest.mark.parametrize("malicious", [10, 11])
def test_a_filler_instead_of_a_report_is_charged_to_one_client(malicious: int, tmp_path: Path) -> None:
    system = System(tmp_path, plan=plan_from(Schema.one_hot(5), 90, Protocol(0.1), delta=1e-6))
    client = system.client
    system.upload(*(client.bundle(client.slots([] if i < malicious else [bytes([1])])) for i in range(100)))
    system.next_epoch()
    system.deliver()
    (result,) = system.results()
    assert (result["state"], result.get("people")) == (("committed", 90) if malicious == 10 else ("withheld", None))
    system.shut()
