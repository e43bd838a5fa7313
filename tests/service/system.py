"""A whole system in one process with a simulated clock: clients, the shuffler and a fake analyzer."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.service.fake_analyzer import FakeAnalyzer

from hubbub import device
from hubbub.accountant.overflow import min_slots
from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.protocol import Protocol
from hubbub.schema import Schema
from hubbub.service.context import ServiceContext
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import Database, open_database
from hubbub.service.runtime.workers import Workers
from hubbub.service.shuffler.core import Shuffler
from hubbub.service.shuffler.store import Counts, ShufflerStore
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract, SignedContract
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

    def __post_init__(self) -> None:
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
        return [sealing.seal_slot(payload, self.contract.layout, key.id, public) for payload in filled]

    def bundle(self, slots: list[bytes]) -> bytes:
        key = self._public("shuffler")
        return sealing.seal_bundle(slots, self.contract.layout, key.id, sealing.load_public(key.suite, key.public))

    def seal(self, value: object) -> bytes:
        return self.bundle(self.slots(device.payloads(value, self.contract.plan)))


@dataclass
class System:
    """The shuffler with its store and credentials in a folder, and a fake analyzer; ``restart`` reopens the store."""

    folder: Path
    plan: Plan = field(default_factory=plan_of)
    min_batch_size: int = 100
    suite: int = 1
    url: str = "sqlite:{folder}/{role}.db"
    clock: MockClock = field(default_factory=lambda: MockClock(START))
    task_end: int = START // EPOCH + 10**6
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the shuffler."""
    lifetime: float = 10**6
    grace: float = 10**5
    shuffler: Shuffler = field(init=False)

    def __post_init__(self) -> None:
        self.workers = Workers(0)
        self.identities = {role: Identity.generate() for role in ("shuffler", "analyzer")}
        self.contract = self.new_contract()
        ages = {"lifetime": self.lifetime, "grace": self.grace}
        self.analyzer = FakeAnalyzer(self.folder, self.identities["analyzer"], self.clock, **ages)
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
            "analyzer": self.identities["analyzer"].public,
            "shuffler": self.identities["shuffler"].public,
        }
        return Contract(**{**values, **changes})

    def serve(self, contract: Contract) -> None:
        """Let both sides serve a contract, and fetch the analyzer's keys."""
        signed = SignedContract.sign(contract, *self.identities.values()).to_json()
        self.shuffler.tasks.add_contract(signed)
        self.analyzer.contracts[contract.task] = contract
        self.shuffler.keyring.advance()
        self.shuffler.fetch_keys(self.analyzer)

    def connect(self) -> Database:
        """Return a connection to the shuffler's store."""
        return open_database(self.url.format(folder=self.folder, role="shuffler"))

    def replica(self, **options: Any) -> Shuffler:
        """Return a shuffler on the same store with the same credentials."""
        store = ShufflerStore(self.connect)
        self.credentials = Credentials(self.folder / "shuffler-credentials", "shuffler")
        ring = Keyring(self.connect(), self.credentials, self.clock, lifetime=self.lifetime, grace=self.grace)
        context = ServiceContext(ring, self.identities["shuffler"], self.clock, self.workers, 1)
        return Shuffler(store, context, self.credentials, **{**self.options, **options})

    def start(self) -> None:
        self.shuffler = self.replica()

    def shut(self) -> None:
        self.shuffler.shut()
        self.analyzer.keyring.close()

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
        self.start()

    @property
    def client(self) -> Client:
        return self.client_of(self.contract)

    def client_of(self, contract: Contract) -> Client:
        return Client(contract, self.shuffler.tasks.keys_document(contract.task), self.clock.now())

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
            if not self.shuffler.deliver(self.analyzer):
                return
        raise AssertionError("the batches could not be delivered")

    def counts(self, contract: Contract | None = None) -> Counts:
        """Return the recounted number of bundles in each state; they must add up."""
        found = self.shuffler.totals(check=True)[(contract or self.contract).id]
        assert found.error == 0, found
        assert found == self.shuffler.totals()[(contract or self.contract).id]
        return found
