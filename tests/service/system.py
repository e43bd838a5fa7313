"""A whole system in one process with a simulated clock: clients, the shuffler and a fake analyzer."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.service.admissions import BY_TICKET, KEYS, new_admission

from hubbub.accountant.overflow import min_slots
from hubbub.errors import Problem
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline import device
from hubbub.planner import plan_from
from hubbub.service.analyzer.core import Analyzer
from hubbub.service.analyzer.lake import Lake
from hubbub.service.analyzer.store import AnalyzerStore
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import Database, open_database
from hubbub.service.runtime.workers import Workers
from hubbub.service.shuffler.core import Shuffler
from hubbub.service.shuffler.store import Counts, ShufflerStore
from hubbub.service.task import sealing
from hubbub.service.task.admission import Admission
from hubbub.service.task.contract import Contract, Series, SignedContract
from hubbub.service.task.identity import Identity
from hubbub.service.task.keylist import KeyList, PublicKey
from hubbub.service.task.keys import Keyring

EPOCH = 60
START = 1_000_000 * EPOCH


def plan_of(width: int = 8, n: int = 100, q: float = 0.1) -> Plan:
    """Return a small plan."""
    return plan_from(Schema.one_hot(width), n, Protocol(q), delta=1e-6)


def clear_plan(width: int, n: int) -> Plan:
    """Return a plan that is nearly noiseless and fast to verify, so that every report can carry a distinct value."""
    return plan_from(Schema.one_hot(width), n, Protocol(2**-34, release="category"), epsilon=48)


@dataclass
class Client:
    """A device that seals with the keys document of the shuffler."""

    contract: Contract
    keys: bytes
    now: float | None = None
    round: int = 0
    """The round that it answers in; by default the one of ``now``."""

    def __post_init__(self) -> None:
        contract = self.contract
        self.round = self.round or contract.round_of(contract.epoch_at(self.now or 0.0))
        self.layout = contract.layout_of(self.round)
        self._keys = {role: self._read(role) for role in ("analyzer", "shuffler")}

    def _public(self, role: str) -> PublicKey:
        return self._keys[role]

    def _read(self, role: str) -> PublicKey:
        document = json.loads(self.keys)
        found = KeyList.read(json.dumps(document[role]), getattr(self.contract, role), role, now=self.now)
        if role == "analyzer":
            key = found.find(document["analyzer_key_id"])
            assert key is not None
            return key
        return found.active(self.contract.suite)

    def slots(self, payloads: list[bytes]) -> list[bytes]:
        key = self._public("analyzer")
        public = sealing.load_public(key.suite, key.public)
        filled: list[bytes | None] = [*payloads[: self.contract.slots]]
        filled += [None] * (self.contract.slots - len(filled))
        return [sealing.seal_slot(payload, self.layout, key.id, public) for payload in filled]

    def bundle(self, slots: list[bytes], admission: bytes | None = None) -> bytes:
        key = self._public("shuffler")
        layout, public = self.layout, sealing.load_public(key.suite, key.public)
        given = new_admission(layout.task, layout.admission) if admission is None else admission
        return sealing.seal_bundle(slots, layout, key.id, public, given)

    def seal(self, value: object, admission: bytes | None = None) -> bytes:
        return self.bundle(self.slots(device.payloads(value, self.contract.plan)), admission)


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

    def tag_keys(self, task: str) -> bytes:
        return self.analyzer.tag_keys_document(bytes.fromhex(task))

    def manifest(self, batch: str) -> bytes | None:
        try:
            return self.analyzer.manifest(batch)
        except Problem:
            return None

    def counter(self, task: str) -> bytes:
        return self.analyzer.counter(bytes.fromhex(task))

    def put_keys_in_use(self, task: str, document: bytes) -> None:
        self.analyzer.put_keys_in_use(bytes.fromhex(task), document)


@dataclass
class System:
    """Both services with stores and credentials in a folder; ``restart`` reopens them."""

    folder: Path
    plan: Plan = field(default_factory=plan_of)
    min_batch_size: int = 100
    suite: int = 1
    admission: Admission = BY_TICKET
    url: str = "sqlite:{folder}/{role}.db"
    clock: MockClock = field(default_factory=lambda: MockClock(START))
    task_end: int = START // EPOCH + 10**6
    series: Series | None = None
    export: bool = False
    """True if the contract exports opened batches, to the folder ``lake``."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the shuffler."""
    lifetime: float = 10**6
    grace: float = 10**5
    shuffler: Shuffler = field(init=False)
    analyzer: Any = field(init=False)
    link: Any = field(init=False)

    def __post_init__(self) -> None:
        self.read: dict[str, dict[str, Any]] = {}
        self.workers = Workers(0)
        self.identities = {role: Identity.generate() for role in ("shuffler", "analyzer")}
        self.contract = self.new_contract()
        self.start()
        self.serve(self.contract)

    def new_contract(self, **changes: Any) -> Contract:
        """Return a contract of this system, by default its own."""
        values = {
            "plan": self.plan,
            "min_batch_size": self.min_batch_size,
            "slots": min_slots(self.plan),
            "epoch": EPOCH,
            "task_start": START // EPOCH,
            "task_end": self.task_end,
            "suite": self.suite,
            "admission": self.admission,
            "analyzer": self.identities["analyzer"].public,
            "shuffler": self.identities["shuffler"].public,
            "series": self.series,
            "export": self.export,
        }
        return Contract(**{**values, **changes})

    def serve(self, contract: Contract) -> None:
        """Let both sides serve a contract, and fetch the analyzer's keys."""
        signed = SignedContract.sign(contract, *self.identities.values()).to_json()
        self.shuffler.tasks.add_contract(signed)
        self.serve_analyzer(contract, signed)
        self.shuffler.keyring.advance()
        self.shuffler.fetch_keys(self.link)

    def serve_analyzer(self, contract: Contract, signed: bytes) -> None:
        del contract
        self.analyzer.add_contract(signed)
        self.analyzer.advance()

    def connect(self, role: str = "shuffler") -> Database:
        """Return a connection to the store of a role."""
        return open_database(self.url.format(folder=self.folder, role=role))

    def context(self, role: str, credentials: Credentials) -> ServiceContext:
        lifetime, grace = self.lifetime, self.grace
        ring = Keyring(self.connect(role), credentials, self.clock, lifetime=lifetime, grace=grace)
        return ServiceContext(ring, self.identities[role], self.clock, self.workers, 1, KEYS)

    def replica(self, **options: Any) -> Shuffler:
        """Return a shuffler on the same store with the same credentials."""
        store = ShufflerStore(self.connect)
        self.credentials = Credentials(self.folder / "shuffler-credentials", "shuffler")
        context = self.context("shuffler", self.credentials)
        return Shuffler(store, context, self.credentials, **{**self.options, **options})

    def start(self) -> None:
        self.shuffler = self.replica()
        self.start_analyzer()

    def start_analyzer(self) -> None:
        credentials = Credentials(self.folder / "analyzer-credentials", "analyzer")
        store = AnalyzerStore(lambda: self.connect("analyzer"))
        lake = Lake(self.folder / "lake") if self.export else None
        self.analyzer = Analyzer(store, self.context("analyzer", credentials), credentials, lake)
        self.link = DirectClient(self.analyzer)

    def shut_analyzer(self) -> None:
        self.analyzer.store.shut()
        self.analyzer.keyring.close()

    def shut(self) -> None:
        self.shuffler.shut()
        self.shuffler.keyring.close()
        self.shut_analyzer()

    def kill(self) -> None:
        """Drop the connections as a killed process would; its leases stay."""
        self.shuffler.store.shut()
        self.shuffler.keyring.close()

    def restart(self) -> None:
        self.shut()
        self.start()

    def back_up(self, name: str = "backup.db") -> Path:
        path = self.folder / name
        path.unlink(missing_ok=True)
        self.shuffler.store.backup(path)
        return path

    def restore(self, backup: Path) -> None:
        """Replace the store by a backup, and start the shuffler again."""
        self.kill()
        for suffix in ("", "-wal", "-shm"):
            (self.folder / f"shuffler.db{suffix}").unlink(missing_ok=True)
        shutil.copy(backup, self.folder / "shuffler.db")
        self.shuffler = self.replica()

    @property
    def client(self) -> Client:
        return self.client_of(self.contract)

    def client_of(self, contract: Contract, number: int = 0) -> Client:
        return Client(contract, self.shuffler.tasks.keys_document(contract.task), self.clock.now(), number)

    def upload(self, *bundles: bytes, contract: Contract | None = None, to: Shuffler | None = None) -> None:
        uploads = (to or self.shuffler).uploads
        prepared = uploads.prepare((contract or self.contract).task, b"".join(bundles))
        uploads.accept(uploads.open(prepared))

    def fill(self, count: int, contract: Contract | None = None) -> list[bytes]:
        """Upload new bundles, in requests of ten, and return them."""
        client = self.client_of(contract or self.contract)
        labels = client.contract.plan.schema.labels
        bundles = [client.seal(labels[i % len(labels)]) for i in range(count)]
        for start in range(0, count, 10):
            self.upload(*bundles[start : start + 10], contract=contract)
        return bundles

    def next_epoch(self) -> list[str]:
        """Let an epoch pass, release what is due and shuffle it; return the ids of the batches."""
        self.clock.advance(EPOCH)
        released = self.shuffler.tick()
        self.shuffler.shuffle()
        return released

    def deliver(self) -> None:
        for _ in range(100):
            if not self.shuffler.deliver(self.link):
                return
            self.count()
        raise AssertionError("the batches could not be delivered")

    def count(self) -> None:
        """Let the analyzer finish all its jobs."""
        while self.analyzer.work():
            pass

    def results(self) -> list[dict[str, Any]]:
        for batch in self.analyzer.batches(self.contract.task):
            name = str(batch["batch"])
            if name not in self.read:
                result = self.analyzer.store.result(name)
                assert result is not None
                self.read[name] = json.loads(result)
        return list(self.read.values())

    def counts(self, contract: Contract | None = None) -> Counts:
        """Return the recounted number of bundles in each state; they must add up."""
        found = self.shuffler.totals(check=True)[(contract or self.contract).id]
        assert found.error == 0, found
        assert found == self.shuffler.totals()[(contract or self.contract).id]
        return found
