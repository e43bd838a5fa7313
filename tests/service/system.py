"""A whole system in one process with a simulated clock: clients, shuffler and analyzer."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.service.admissions import BY_TICKET, KEYS, new_admission

from hubbub import device
from hubbub.accountant.overflow import min_slots
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.protocol import Protocol
from hubbub.schema import Schema
from hubbub.service.analyzer.core import Analyzer
from hubbub.service.analyzer.store import AnalyzerStore
from hubbub.service.context import ServiceContext
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.workers import Workers
from hubbub.service.shuffler.core import Shuffler
from hubbub.service.shuffler.store import ShufflerStore
from hubbub.service.task import sealing
from hubbub.service.task.admission import Admission
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.identity import Identity
from hubbub.service.task.keys import Keyring, PublicKey, active_key, read_key_list

EPOCH = 60
START = 1_000_000 * EPOCH


def plan_of(width: int = 8, n: int = 100, q: float = 0.1) -> Plan:
    """Return a small plan."""
    return plan_from(Schema.one_hot(width), n, Protocol(q), delta=1e-6)


def clear_plan(width: int, n: int) -> Plan:
    """Return a plan that is nearly noiseless and fast to verify, so that every report can carry a distinct value."""
    return plan_from(Schema.one_hot(width), n, Protocol(2**-34, release="category"), epsilon=48)


class DirectClient:
    """An analyzer client without a network."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        return self.analyzer.put_manifest(batch, document)

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        self.analyzer.put_chunk(batch, index, data)

    def keys(self) -> bytes:
        return self.analyzer.keys_document()


@dataclass
class Client:
    """A device that seals with the keys document of the shuffler."""

    contract: Contract
    keys: bytes

    def _public(self, role: str) -> PublicKey:
        document = json.loads(self.keys)
        found = read_key_list(json.dumps(document[role]), getattr(self.contract, role), role)
        if role == "analyzer":
            return next(key for key in found if key.id == document["analyzer_key_id"])
        return active_key(found)

    def slots(self, payloads: list[bytes]) -> list[bytes]:
        key = self._public("analyzer")
        public = sealing.load_public(key.suite, key.public)
        filled: list[bytes | None] = [*payloads[: self.contract.slots]]
        filled += [None] * (self.contract.slots - len(filled))
        return [sealing.seal_slot(payload, self.contract.layout, key.id, public) for payload in filled]

    def bundle(self, slots: list[bytes], admission: bytes | None = None) -> bytes:
        key = self._public("shuffler")
        layout, public = self.contract.layout, sealing.load_public(key.suite, key.public)
        given = new_admission(layout.task, layout.admission) if admission is None else admission
        return sealing.seal_bundle(slots, layout, key.id, public, given)

    def seal(self, value: object, admission: bytes | None = None) -> bytes:
        return self.bundle(self.slots(device.payloads(value, self.contract.plan)), admission)


@dataclass
class System:
    """Both services with stores in a folder; ``restart`` reopens them."""

    folder: Path
    plan: Plan = field(default_factory=plan_of)
    min_batch_size: int = 100
    suite: int = 1
    admission: Admission = BY_TICKET
    url: str = "sqlite:{folder}/{role}.db"
    clock: MockClock = field(default_factory=lambda: MockClock(START))
    shuffler: Shuffler = field(init=False)
    analyzer: Analyzer = field(init=False)

    def __post_init__(self) -> None:
        self.read: dict[str, dict[str, Any]] = {}
        self.workers = Workers(0)
        self.identities = {role: Identity.generate() for role in ("shuffler", "analyzer")}
        self.contract = Contract(
            plan=self.plan,
            min_batch_size=self.min_batch_size,
            slots=min_slots(self.plan),
            epoch=EPOCH,
            task_start=START // EPOCH,
            task_end=START // EPOCH + 10**6,
            suite=self.suite,
            admission=self.admission,
            analyzer=self.identities["analyzer"].public,
            shuffler=self.identities["shuffler"].public,
        )
        self.start()
        signed = SignedContract.sign(self.contract, *self.identities.values()).to_json()
        self.shuffler.tasks.add_contract(signed)
        self.analyzer.add_contract(signed)
        self.analyzer.advance()
        self.shuffler.keyring.advance()
        self.shuffler.fetch_keys(self.link)

    def _context(self, role: str) -> ServiceContext:
        ring = Keyring(self.folder / f"{role}-keys", role, self.suite, self.clock, lifetime=10**6, grace=10**5)
        return ServiceContext(
            keyring=ring,
            identity=self.identities[role],
            clock=self.clock,
            workers=self.workers,
            min_batch_size=1,
            ticket_keys=KEYS,
        )

    def start(self) -> None:
        urls = {role: self.url.format(folder=self.folder, role=role) for role in ("shuffler", "analyzer")}
        self.shuffler = Shuffler(
            ShufflerStore(lambda: open_database(urls["shuffler"])),
            self._context("shuffler"),
            entropy=SeededStreamNotForPeople(1),
        )
        self.analyzer = Analyzer(AnalyzerStore(lambda: open_database(urls["analyzer"])), self._context("analyzer"))
        self.link = DirectClient(self.analyzer)

    def shut(self) -> None:
        self.shuffler.store.shut()
        self.analyzer.store.shut()

    def restart(self) -> None:
        self.shut()
        self.start()

    @property
    def client(self) -> Client:
        return Client(self.contract, self.shuffler.tasks.keys_document(self.contract.task))

    def upload(self, *bundles: bytes) -> None:
        upload = self.shuffler.uploads.prepare(self.contract.task, b"".join(bundles))
        self.shuffler.uploads.accept(self.shuffler.uploads.open(upload))

    def next_epoch(self) -> list[str]:
        self.clock.advance(EPOCH)
        return self.shuffler.tick()

    def deliver(self) -> None:
        while self.shuffler.deliver(self.link):
            assert self.analyzer.work()

    def results(self) -> list[dict[str, Any]]:
        for batch in self.analyzer.batches(self.contract.task):
            name = str(batch["batch"])
            if name not in self.read:
                result = self.analyzer.store.result(name)
                assert result is not None
                self.read[name] = json.loads(result)
        return list(self.read.values())
