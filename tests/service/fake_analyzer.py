"""A small analyzer for tests of the shuffler: it checks signatures and numbers, opens every slot, and counts."""

import hashlib
from collections import Counter as Multiset
from dataclasses import dataclass, field
from pathlib import Path

from hubbub.errors import Problem, SealError
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import open_database
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.identity import Identity, SignedDocument
from hubbub.service.task.keys import KEY_TABLES, Keyring
from hubbub.service.task.manifest import Counter, KeysInUse, Manifest, Receipt, claimed_task, digest


@dataclass
class Received:
    """A batch as announced, with the chunks that have arrived."""

    manifest: Manifest
    document: bytes
    chunks: dict[int, bytes] = field(default_factory=dict)
    receipt: bytes | None = None
    messages: Multiset[bytes | None] = field(default_factory=Multiset)
    rejected: int = 0


class FakeAnalyzer:
    """The analyzer's side of the link; ``withhold`` makes every receipt say ``withheld``."""

    def __init__(
        self, folder: Path, identity: Identity, clock: MockClock, *, lifetime: float = 10**6, grace: float = 10**5
    ) -> None:
        self.identity, self.clock, self.withhold = identity, clock, False
        database = open_database(f"sqlite:{folder / 'analyzer-keys.db'}")
        database.create(KEY_TABLES)
        credentials = Credentials(folder / "analyzer-credentials", "analyzer")
        self.keyring = Keyring(database, credentials, clock, lifetime=lifetime, grace=grace, suites={1, 2})
        self.contracts: dict[bytes, Contract] = {}
        self.batches: dict[str, Received] = {}
        self.statements: dict[bytes, KeysInUse] = {}
        self.announcements: list[tuple[str, str]] = []
        self.seen: dict[tuple[str, int], set[bytes]] = {}
        self.slots: Multiset[bytes] = Multiset()
        self.advance()

    @property
    def held(self) -> set[int]:
        return {key for statement in self.statements.values() for key in statement.keys}

    def advance(self) -> None:
        self.keyring.advance(held=self.held)

    def rotate(self) -> None:
        self.keyring.rotate(held=self.held)

    def keys(self) -> bytes:
        return self.keyring.public_list().sign(self.identity)

    def counter(self, task: str) -> bytes:
        numbers = [one.manifest.bucket for one in self.batches.values() if one.manifest.task.hex() == task]
        return Counter(bytes.fromhex(task), max(numbers, default=0)).sign(self.identity)

    def put_keys_in_use(self, task: str, document: bytes) -> None:
        signed = SignedDocument.from_json(document)
        statement = KeysInUse.read(signed, self.contracts[bytes.fromhex(task)].shuffler)
        known = self.statements.get(statement.task)
        assert known is None or statement.number > known.number
        self.statements[statement.task] = statement

    def manifest(self, batch: str) -> bytes | None:
        return self.batches[batch].document if batch in self.batches else None

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        self.announcements.append((batch, digest(document)))
        signed = SignedDocument.from_json(document)
        contract = self.contracts.get(claimed_task(signed))
        if contract is None:
            raise Problem("unknown-task")
        manifest = Manifest.read(signed, contract.shuffler)
        assert manifest.batch == batch
        assert manifest.bundles >= contract.min_batch_size
        found = self.batches.setdefault(batch, Received(manifest, document))
        if found.document != document:
            raise Problem("fenced")
        if found.receipt is not None:
            return found.receipt
        missing = sorted(set(range(len(manifest.chunks))) - found.chunks.keys())
        if not missing:
            self._count(found, contract)
        return missing

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        found = self.batches[batch]
        assert hashlib.sha256(data).hexdigest() == found.manifest.chunks[index]
        self.seen.setdefault((batch, index), set()).add(data)
        found.chunks[index] = data

    def _count(self, batch: Received, contract: Contract) -> None:
        """Open the slots once all chunks are there; the receipt follows when the manifest is announced again."""
        manifest, size = batch.manifest, contract.slot_size
        private = self.keyring.opener(manifest.key_id)
        assert private is not None, "the analyzer has destroyed a key under which reports waited"
        text = b"".join(batch.chunks[index] for index in range(len(manifest.chunks)))
        slots = [text[start : start + size] for start in range(0, len(text), size)]
        assert len(slots) == manifest.slots
        self.slots.update(slots)
        for slot in slots:
            try:
                batch.messages[sealing.open_slot(slot, contract.layout, private)] += 1
            except SealError:
                batch.rejected += 1
        state = "withheld" if self.withhold else "committed"
        batch.receipt = Receipt(manifest.task, manifest.bucket, state, digest(batch.document)).sign(self.identity)

    def results(self) -> list[Received]:
        """Return the batches with a receipt, ordered by bucket."""
        done = [batch for batch in self.batches.values() if batch.receipt is not None]
        return sorted(done, key=lambda batch: batch.manifest.bucket)

    def messages(self) -> Multiset[bytes | None]:
        """Return how often every message was counted in all batches."""
        return sum((batch.messages for batch in self.results()), Multiset[bytes | None]())
