"""Attempts to obtain a batch below the minimum size: by waiting, commands, clocks, contracts and false manifests."""

import contextlib
import dataclasses
import hashlib
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.service.admissions import new_ticket
from tests.service.simulation import FAST
from tests.service.system import EPOCH, START, Client, System

from hubbub import Plan, Protocol, Schema, plan_from
from hubbub.errors import HubbubError, Problem
from hubbub.service.shuffler.store import Counts
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.identity import Identity, SignedDocument, document_format
from hubbub.service.task.manifest import batch_id

PEOPLE, MIN_BATCH_SIZE = 8, 10


def crowd_plan(n: int) -> Plan:
    """Return a plan whose guarantee needs all its people: with fewer, a batch is withheld."""
    return plan_from(Schema.one_hot(64), n, Protocol(2**-7, release="category"), delta=0.01)


PLAN = crowd_plan(PEOPLE)
LOWER = crowd_plan(2)


class Attempts:
    """A system whose open bucket never reaches the minimum batch size, and an attacker who wants a batch."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.system = System(folder, plan=PLAN, min_batch_size=MIN_BATCH_SIZE)
        self.sealed: list[list[bytes]] = []
        self.bundles: list[bytes] = []
        self.made: Counter[str] = Counter()
        self.lower: Contract | None = None
        self.bucket = 0

    @property
    def waiting(self) -> int:
        return self.system.shuffler.totals()[self.system.contract.id].open

    def client(self) -> Client:
        """Return a client with fresh key lists, whatever the clock says."""
        self.system.analyzer.advance()
        assert self.system.shuffler.tick() == []
        self.system.shuffler.fetch_keys(self.system.link)
        return self.system.client

    def one(self) -> None:
        """Make one random attempt."""
        name = self.random.choice([name for name in dir(self) if name.startswith("try_")])
        self.made[name.removeprefix("try_")] += 1
        getattr(self, name)()
        self.judge()

    def judge(self) -> None:
        """Check that nothing was released below the minimum batch size or committed below the plan's n."""
        core = self.system.shuffler
        assert core.store.buckets(core.tasks.rows(), "sealed", "shuffled", "delivered") == []
        self.system.count()
        for contract in (self.system.contract, self.lower):
            if contract is not None:
                for batch in self.system.analyzer.store.batches(contract.task):
                    assert batch.state != "committed"

    # trickles, ticks and clocks

    def try_trickle(self) -> None:
        system = self.system
        if self.waiting >= MIN_BATCH_SIZE - 1:
            # One below the minimum: from here on, only repeats are sent.
            with contextlib.suppress(Problem):
                system.upload(*self.bundles[-3:])
        else:
            client = self.client()
            slots = client.slots([bytes([self.random.randrange(64)])])
            bundle = client.bundle(slots)
            with contextlib.suppress(Problem):
                system.upload(bundle)
            self.sealed.append(slots)
            self.bundles.append(bundle)
        assert system.shuffler.tick() == []

    def try_tick(self) -> None:
        self.system.clock.advance(self.random.choice([0, 1, EPOCH, 10 * EPOCH]))
        assert self.system.shuffler.tick() == []

    def try_clock(self) -> None:
        jump = self.random.choice([-1, -EPOCH, -(10**6), 10**6, 3600, -3600, -START])
        self.system.clock.advance(jump)
        assert self.system.shuffler.tick() == []
        if jump < 0 or self.random.random() < 0.9:
            self.system.clock.advance(-jump)
        assert self.system.shuffler.tick() == []

    def try_restart(self) -> None:
        self.system.restart()
        assert self.system.shuffler.tick() == []

    def try_deliver(self) -> None:
        assert not self.system.shuffler.deliver(self.system.link)

    def try_many_ticks_at_once(self) -> None:
        for _ in range(3):
            assert self.system.next_epoch() == []

    def try_rotation(self) -> None:
        self.random.choice([self.system.analyzer.rotate, self.system.shuffler.keyring.rotate])()
        self.system.shuffler.fetch_keys(self.system.link)
        assert self.system.next_epoch() == []

    # repeats of one bundle

    def try_repeats(self) -> None:
        if self.bundles:
            with contextlib.suppress(Problem):
                self.system.upload(*[self.random.choice(self.bundles)] * MIN_BATCH_SIZE)
        assert self.system.next_epoch() == []

    def try_rewraps(self) -> None:
        """Seal a slot into many bundles with one ticket, which admits a single bundle."""
        if self.sealed:
            slots, client = self.random.choice(self.sealed), self.client()
            ticket, before = new_ticket(self.system.contract.task), self.waiting
            with pytest.raises(Problem) as refused:
                self.system.upload(*(client.bundle(slots, ticket) for _ in range(MIN_BATCH_SIZE)))
            assert refused.value.name in ("token-spent", "outdated-keys")
            assert self.waiting == before
        assert self.system.next_epoch() == []

    # contracts with a smaller batch size, signed by the operators themselves

    def _lower(self) -> Contract:
        if self.lower is None:
            self.lower = dataclasses.replace(self.system.contract, plan=LOWER, min_batch_size=2)
            signed = SignedContract.sign(self.lower, *self.system.identities.values()).to_json()
            self.system.shuffler.tasks.add_contract(signed)
            self.system.analyzer.add_contract(signed)
            self.system.shuffler.fetch_keys(self.system.link)
        return self.lower

    def try_another_contract(self) -> None:
        """The task is bound into every seal: bundles of one contract do not open under another."""
        lower, system = self._lower(), self.system
        for bundle in self.bundles[-4:]:
            renamed = bundle[:8] + lower.task + bundle[24:]
            for body in (bundle, renamed):
                with pytest.raises(Problem) as refused:
                    system.shuffler.uploads.accept(
                        system.shuffler.uploads.open(system.shuffler.uploads.prepare(lower.task, body))
                    )
                assert refused.value.name in ("cannot-open", "outdated-keys", "closed-task", "uncertain")
        assert system.shuffler.tick() == []

    def try_slots_under_another_contract(self) -> None:
        """The shuffler releases slots of one contract under another: the analyzer cannot open them."""
        self._announce(self._lower(), b"".join(self._slot(b"\1") for _ in range(4)), 4)

    def try_a_contract_below_the_plan(self) -> None:
        with pytest.raises(HubbubError):
            dataclasses.replace(self.system.contract, min_batch_size=self.random.randrange(-1, PEOPLE))

    def try_a_contract_of_others(self) -> None:
        own = [self.system.identities["analyzer"], Identity.generate()]
        forged = dataclasses.replace(self.system.contract, plan=LOWER, min_batch_size=2, shuffler=own[1].public)
        with pytest.raises(HubbubError):
            self.system.shuffler.tasks.add_contract(SignedContract.sign(forged, *own).to_json())
        half = dataclasses.replace(self.system.contract, plan=LOWER, min_batch_size=3)
        with pytest.raises(HubbubError):
            self.system.analyzer.add_contract(SignedContract.sign(half, own[0]).to_json())

    # manifests

    def _manifest(
        self, contract: Contract, data: bytes, bundles: int, who: Identity, **changes: Any
    ) -> tuple[str, bytes]:
        self.bucket += 1
        batch = batch_id(contract.task, self.bucket)
        slots = changes.get("slots", bundles * contract.slots)
        body: dict[str, Any] = {
            "format": document_format("manifest"),
            "batch": batch,
            "task": contract.id,
            "bucket": self.bucket,
            "epoch": contract.task_start,
            "round": 1,
            "key_id": int.from_bytes(data[:2], "big"),
            "bundles": bundles,
            "slots": slots,
            "chunks": [hashlib.sha256(data).hexdigest()],
            "sizes": [slots],
            "key_list": "00" * 32,
            "gaps": [],
        }
        return batch, SignedDocument.sign(who, "manifest", body | changes).to_json()

    def _announce(self, contract: Contract, data: bytes, bundles: int, **changes: Any) -> None:
        """Deliver a batch as a malicious shuffler would; it must not be committed."""
        analyzer = self.system.analyzer
        batch, document = self._manifest(contract, data, bundles, self.system.identities["shuffler"], **changes)
        with contextlib.suppress(Problem):
            analyzer.put_manifest(batch, document)
            analyzer.put_chunk(batch, 0, data)
            self.system.count()
        found = analyzer.store.find(batch)
        assert found is None or found.state in ("withheld", "arriving")

    def _some(self) -> bytes:
        """Return fresh valid slots, fewer than the plan needs."""
        return b"".join(self._slot(b"\1") for _ in range(self.random.randrange(1, PEOPLE)))

    def try_a_small_manifest(self) -> None:
        data = self._some()
        count = len(data) // self.system.contract.slot_size
        with pytest.raises(Problem) as refused:
            batch, document = self._manifest(self.system.contract, data, count, self.system.identities["shuffler"])
            self.system.analyzer.put_manifest(batch, document)
        assert refused.value.name == "forbidden"

    def try_a_forged_manifest(self) -> None:
        data = self._some()
        for who in (Identity.generate(), self.system.identities["analyzer"]):
            batch, document = self._manifest(self.system.contract, data, MIN_BATCH_SIZE, who)
            with pytest.raises(Problem):
                self.system.analyzer.put_manifest(batch, document)

    def try_a_false_number_of_bundles(self) -> None:
        self._announce(
            self.system.contract, self._some(), self.random.choice([MIN_BATCH_SIZE, 2 * MIN_BATCH_SIZE, 1000])
        )

    def try_a_false_number_of_slots(self) -> None:
        self._announce(
            self.system.contract, self._some(), MIN_BATCH_SIZE, slots=self.random.choice([0, 1, MIN_BATCH_SIZE - 1, 99])
        )

    def try_filling_up_with_repeats(self) -> None:
        data = (self._some() * MIN_BATCH_SIZE)[: MIN_BATCH_SIZE * self.system.contract.slot_size]
        self._announce(self.system.contract, data, MIN_BATCH_SIZE)

    def try_filling_up_with_garbage(self) -> None:
        size = self.system.contract.slot_size
        fresh = self._some()
        garbage = MIN_BATCH_SIZE - len(fresh) // size
        data = fresh + b"".join(fresh[:2] + self.random.randbytes(size - 2) for _ in range(garbage))
        self._announce(self.system.contract, data, MIN_BATCH_SIZE)

    def try_filling_up_with_fillers(self) -> None:
        kept = self.random.randrange(PEOPLE)
        data = b"".join(self._slot(b"\1" if i < kept else None) for i in range(MIN_BATCH_SIZE))
        self._announce(self.system.contract, data, MIN_BATCH_SIZE)

    def try_slots_of_another_key(self) -> None:
        data = b"".join(self._slot(b"\1") for _ in range(MIN_BATCH_SIZE))
        self._announce(self.system.contract, data, MIN_BATCH_SIZE, key_id=int.from_bytes(data[:2], "big") + 1)

    def _slot(self, payload: bytes | None) -> bytes:
        return self.client().slots([] if payload is None else [payload])[0]

    # commands that end the task, made last

    def end(self) -> None:
        """Close or destroy the task, or let it end: waiting bundles are deleted, not released."""
        system, way = self.system, self.random.choice(["close", "destroy", "over"])
        self.made[way] += 1
        late = self.client().seal("0")
        if way == "over":
            system.clock.advance(2 * 10**6 * EPOCH)
            assert system.shuffler.tick() == []
        else:
            system.shuffler.close(system.contract.task, destroy=way == "destroy")
        for _ in range(3):
            assert system.next_epoch() == []
        after = system.shuffler.totals(check=True)[system.contract.id]
        # Batches that others announced in its name make the shuffler discard its bucket as fenced.
        assert after == Counts(accepted=after.accepted, expired=after.expired, fenced=after.fenced)
        assert after.error == 0
        with pytest.raises(Problem) as refused:
            system.upload(late)
        assert refused.value.name in ("closed-task", "unknown-task")
        self.judge()
        system.shut()


def run(count: int, each: int = 250) -> Counter[str]:
    made: Counter[str] = Counter()
    for seed in range(-(-count // each)):
        with tempfile.TemporaryDirectory(dir=FAST) as folder:
            attempts = Attempts(Path(folder), seed)
            for _ in range(min(each, count - sum(made.values())) - 1):
                attempts.one()
            attempts.end()
            made.update(attempts.made)
    return made


@pytest.mark.long
def test_attempts() -> None:
    made = run(160, each=80)
    assert sum(made.values()) >= 160
    assert len(made) >= 20


@pytest.mark.slow
def test_ten_thousand_attempts() -> None:
    made = run(10_000)
    assert sum(made.values()) >= 10_000
    assert min(made.values()) >= 5


def test_the_minimum_batch_size_suffices() -> None:
    """Control: with one more client, the same system releases and counts."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        system = System(Path(folder), plan=PLAN, min_batch_size=MIN_BATCH_SIZE)
        client = system.client
        system.upload(*(client.seal(str(i)) for i in range(MIN_BATCH_SIZE - 1)))
        assert system.next_epoch() == []
        system.upload(client.seal("63"))
        assert system.shuffler.tick() == []
        assert len(system.next_epoch()) == 1
        system.deliver()
        assert [result["people"] for result in system.results()] == [MIN_BATCH_SIZE]
        system.shut()
