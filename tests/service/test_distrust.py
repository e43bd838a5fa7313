"""Neither service trusts the other: receipts, chunks and slots are verified, and delivered data is erased."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.service.system import EPOCH, DirectClient, System

from hubbub.errors import HubbubError, Problem
from hubbub.service.shuffler.store import Counts
from hubbub.service.task.identity import Identity, SignedDocument


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


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
    system.count()
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
        assert system.counts() == Counts(accepted=100, outbox=100)
    system.deliver()
    assert system.counts() == Counts(accepted=100, committed=100)


def test_a_batch_is_kept_until_its_receipt(system: System) -> None:
    fill(system)
    system.next_epoch()
    for _ in range(3):
        assert system.shuffler.deliver(system.link)
        assert system.counts() == Counts(accepted=100, outbox=100)
    assert system.results() == []
    system.count()
    assert system.counts() == Counts(accepted=100, outbox=100)
    assert not system.shuffler.deliver(system.link)
    assert system.counts() == Counts(accepted=100, committed=100)
    assert not system.analyzer.work()


def test_chunks_that_the_manifest_does_not_announce_are_rejected(system: System) -> None:
    fill(system)
    (batch,) = system.next_epoch()
    (waiting,) = system.shuffler._deliveries._waiting()
    assert waiting.manifest is not None
    assert system.analyzer.put_manifest(batch, waiting.manifest) == [0]
    data = system.shuffler.store.chunk(waiting, 0)
    assert data is not None
    for wrong in (data[:-1], data + b"\0", b"", data[53:] + data[:53]):
        with pytest.raises(Problem) as refused:
            system.analyzer.put_chunk(batch, 0, wrong)
        assert refused.value.name == "conflict"
    for index in (-1, 1):
        with pytest.raises(Problem) as refused:
            system.analyzer.put_chunk(batch, index, data)
        assert refused.value.name == "not-found"
    other = SignedDocument.sign(
        system.identities["shuffler"], "manifest", {**json.loads(waiting.manifest)["body"], "epoch": 1}
    ).to_json()
    with pytest.raises(Problem) as refused:
        system.analyzer.put_manifest(batch, other)
    assert refused.value.name == "fenced"
    system.deliver()
    assert [result["people"] for result in system.results()] == [100]


def test_slots_are_erased_after_use(system: System) -> None:
    """Waiting slots are encrypted; sealed ones are on disk only from the shuffle to the receipt or the count."""

    def on_disk(role: str) -> bool:
        files = b"".join(path.read_bytes() for path in sorted(system.folder.glob(f"{role}.db*")))
        return any(slot[8:48] in files for slot in slots)

    slots = fill(system)
    assert not on_disk("shuffler")
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    assert not on_disk("shuffler")
    system.shuffler.shuffle()
    assert on_disk("shuffler")
    assert system.shuffler.deliver(system.link)
    assert on_disk("analyzer")
    system.count()
    assert not on_disk("analyzer")
    system.deliver()
    # SQLite overwrites deleted rows; its log has them until it is written back.
    system.restart()
    assert not on_disk("shuffler")
    assert not on_disk("analyzer")


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
    assert system.counts() == Counts(accepted=100, committed=100)
