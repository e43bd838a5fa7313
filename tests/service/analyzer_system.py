"""An analyzer on a simulated clock, with a small shuffler that seals slots itself and signs manifests."""

import functools
import hashlib
import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.service.admissions import BY_TICKET

from hubbub.accountant.overflow import min_slots
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
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.identity import Identity
from hubbub.service.task.keylist import KeyList, PublicKey
from hubbub.service.task.keys import Keyring
from hubbub.service.task.manifest import Counter, Gap, KeysInUse, Manifest, batch_id

EPOCH = 60
START = 1_000_000 * EPOCH
LIFETIME, GRACE = 10**6, 10**5
ANALYZER, SHUFFLER = Identity(bytes([1]) * 32), Identity(bytes([2]) * 32)


@functools.cache
def small_plan(n: int = 20, width: int = 5, k: int = 1) -> Plan:
    """Return a plan of whole records, which all clients send ``k`` times."""
    return plan_from(Schema.one_hot(width), n, Protocol(0.1, k=k), delta=1e-6)


def contract_of(
    plan: Plan, min_batch_size: int | None = None, *, suite: int = 1, number: int = 0, export: bool = False
) -> Contract:
    """Return a contract of a plan; contracts with different numbers are different tasks."""
    return Contract(
        plan=plan,
        min_batch_size=plan.n if min_batch_size is None else min_batch_size,
        slots=min_slots(plan),
        epoch=EPOCH,
        task_start=START // EPOCH,
        task_end=START // EPOCH + 10**6 + number,
        suite=suite,
        admission=BY_TICKET,
        analyzer=ANALYZER.public,
        shuffler=SHUFFLER.public,
        export=export,
    )


def signed(contract: Contract) -> bytes:
    return SignedContract.sign(contract, ANALYZER, SHUFFLER).to_json()


@dataclass
class Sent:
    """A batch as a shuffler would hold it."""

    manifest: Manifest
    document: bytes
    chunks: list[bytes]

    @property
    def id(self) -> str:
        return self.manifest.batch


@dataclass
class FakeShuffler:
    """The shuffler of one contract: it makes batches of sealed slots and states the keys in use."""

    contract: Contract
    statement: int = 0

    def slots(self, payloads: Sequence[bytes | None], key: PublicKey) -> list[bytes]:
        """Return sealed slots, None standing for a filler."""
        public = sealing.load_public(key.suite, key.public)
        return [sealing.seal_slot(payload, self.contract.layout, key.id, public) for payload in payloads]

    def people(self, values: Sequence[str], key: PublicKey) -> list[bytes]:
        """Return the sealed slots of people with these values."""
        plan, found = self.contract.plan, []
        for value in values:
            filled: list[bytes | None] = [*device.payloads(value, plan)]
            found += self.slots(filled + [None] * (self.contract.slots - len(filled)), key)
        return found

    def batch(
        self,
        bucket: int,
        slots: Sequence[bytes],
        key: PublicKey | int,
        *,
        bundles: int | None = None,
        chunk: int = 10**6,
        gaps: tuple[Gap, ...] = (),
        epoch: int = START // EPOCH,
        number: int = 1,
        seed: int = 0,
    ) -> Sent:
        """Return a shuffled batch in chunks of ``chunk`` slots."""
        order = list(slots)
        random.Random(seed).shuffle(order)
        parts = [order[start : start + chunk] for start in range(0, len(order), chunk)]
        chunks = [b"".join(part) for part in parts]
        manifest = Manifest(
            task=self.contract.task,
            bucket=bucket,
            epoch=epoch,
            round=number,
            key_id=key if isinstance(key, int) else key.id,
            key_list="00" * 32,
            bundles=len(order) // self.contract.slots if bundles is None else bundles,
            slots=len(order),
            chunks=tuple(hashlib.sha256(data).hexdigest() for data in chunks),
            sizes=tuple(map(len, parts)),
            gaps=gaps,
        )
        return Sent(manifest, manifest.sign(SHUFFLER), chunks)

    def keys_in_use(self, *keys: int, number: int | None = None) -> bytes:
        """Return a signed statement."""
        self.statement = self.statement + 1 if number is None else number
        return KeysInUse(self.contract.task, self.statement, keys).sign(SHUFFLER)


@dataclass
class AnalyzerSystem:
    """The analyzer with its store and credentials in a folder; ``restart`` reopens it as after a kill."""

    folder: Path
    contracts: Sequence[Contract] = field(default_factory=lambda: [contract_of(small_plan())])
    url: str = ""
    clock: MockClock = field(default_factory=lambda: MockClock(START))
    lake: Path | None = None
    """Folder of exported batches, if the contracts export them."""

    def __post_init__(self) -> None:
        self.url = (self.url or "sqlite:{folder}/{role}.db").format(folder=self.folder, role="analyzer")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._open: list[Database] = []
        self.core = self.replica()
        for contract in self.contracts:
            self.core.add_contract(signed(contract))
        self.shuffler = FakeShuffler(self.contracts[0])

    def connect(self) -> Database:
        self._open.append(open_database(self.url))
        return self._open[-1]

    def replica(self) -> Analyzer:
        """Return one more process on the same store."""
        store, credentials = AnalyzerStore(self.connect), Credentials(self.folder / "credentials", "analyzer")
        ring = Keyring(self.connect(), credentials, self.clock, lifetime=LIFETIME, grace=GRACE, suites=())
        context = ServiceContext(ring, ANALYZER, self.clock, Workers(0), min_batch_size=1)
        return Analyzer(store, context, credentials, None if self.lake is None else Lake(self.lake))

    def shut(self) -> None:
        for database in self._open:
            database.close()
        self._open.clear()

    def restart(self) -> None:
        self.shut()
        self.core = self.replica()

    @property
    def contract(self) -> Contract:
        return self.contracts[0]

    @property
    def task(self) -> bytes:
        return self.contract.task

    def key(self, suite: int = 1) -> PublicKey:
        """Return the key that clients seal to, from the signed list."""
        listed = KeyList.read(self.core.keys_document(), ANALYZER.public, "analyzer", now=self.clock.now())
        return listed.active(suite)

    def deliver(self, sent: Sent, core: Analyzer | None = None) -> bytes:
        """Deliver and count a batch, and return its receipt."""
        core = core or self.core
        answer = core.put_manifest(sent.id, sent.document)
        for index in answer if isinstance(answer, list) else []:
            core.put_chunk(sent.id, index, sent.chunks[index])
        while core.work():
            pass
        receipt = core.put_manifest(sent.id, sent.document)
        assert isinstance(receipt, bytes)
        return receipt

    def collect(self, bucket: int, values: Sequence[str], **options: Any) -> dict[str, Any]:
        """Deliver the batch of a bucket with these values, and return its result."""
        key = self.key(self.contract.suite)
        self.deliver(self.shuffler.batch(bucket, self.shuffler.people(values, key), key, **options))
        return self.result(bucket)

    def result(self, bucket: int) -> dict[str, Any]:
        stored = self.core.store.result(batch_id(self.task, bucket))
        assert stored is not None
        found: dict[str, Any] = json.loads(stored)
        return found

    def counter(self) -> int:
        return Counter.read(self.core.counter(self.task), ANALYZER.public, self.task).bucket

    def backup(self) -> Path:
        """Copy an SQLite store, without the credential folder."""
        path = self.folder / "backup.db"
        path.unlink(missing_ok=True)
        self.core.store.backup(path)
        return path

    def restore(self, backup: Path) -> None:
        """Replace an SQLite store by a copy, as an operator does while the service is stopped."""
        self.shut()
        for path in self.folder.glob("analyzer.db*"):
            path.unlink()
        shutil.copy(backup, self.folder / "analyzer.db")
        self.core = self.replica()


def payload_rows(payloads: Sequence[bytes]) -> NDArray[np.uint8]:
    """Return payloads one per row."""
    return np.frombuffer(b"".join(payloads), np.uint8).reshape(len(payloads), -1)


def spoil(slot: bytes) -> bytes:
    """Return a slot that cannot be opened."""
    return slot[:-1] + bytes([slot[-1] ^ 1])
