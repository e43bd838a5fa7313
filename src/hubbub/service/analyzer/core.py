"""The analyzer without sockets: it opens batches, counts each exactly once, and states results with their guarantee.

It learns what was sent but never by whom. The HTTP layer calls :meth:`Analyzer.put_manifest` and ``put_chunk`` for the
shuffler, and the program's loop calls ``work``.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Mapping

import numpy as np

from hubbub.canonical import Json, canonical
from hubbub.errors import FalseClaim, InvalidInput, Problem
from hubbub.service.analyzer.results import OpenedBatch, batch_result
from hubbub.service.analyzer.store import AnalyzerStore, BatchRow
from hubbub.service.analyzer.verdicts import SLOT_ID, Verdict, open_slots, repeated, slot_ids
from hubbub.service.context import ServiceContext
from hubbub.service.runtime.failpoints import reach
from hubbub.service.task.contract import Contract, SignedContract, load_served_contract
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.manifest import CHUNK_SIZE, MAX_CHUNKS, Manifest, claimed_task, sign_receipt
from hubbub.service.task.sealing import MAX_KEY_ID

_STATES = ("arriving", "committed", "withheld")


class Analyzer:
    """The core of the service; ``work`` is for one thread."""

    def __init__(self, store: AnalyzerStore, context: ServiceContext) -> None:
        self.store, self.keyring, self._context = store, context.keyring, context
        self._lock = threading.Lock()
        self._contracts: dict[bytes, Contract] = {}
        self._refresh()

    def add_contract(self, text: bytes) -> bytes:
        """Verify a signed contract, recomputing its guarantee, start to serve it, and return its task."""
        contract = load_served_contract(text, "analyzer", self._context.identity, self._context.min_batch_size)
        self.store.add_task(contract.task, text)
        self._refresh()
        return contract.task

    def _refresh(self) -> None:
        with self._lock:
            for task, text in self.store.tasks().items():
                if task not in self._contracts:
                    # A stored contract was verified when it was added; recomputing its guarantee would take seconds.
                    self._contracts[task] = SignedContract.from_json(text).contract

    def contracts(self) -> dict[str, Contract]:
        """Return the served contracts by their ids."""
        return {task.hex(): contract for task, contract in self._contracts.items()}

    def keys_document(self) -> bytes:
        """Return the signed list of the keys that slots are sealed to."""
        return self.keyring.public_list(self._context.identity)

    def advance(self) -> None:
        """Expire and destroy keys that are due, and forget the ids of slots sealed to destroyed keys."""
        self.keyring.advance()
        self.store.forget_slot_ids({key.id for key in self.keyring.public_keys()})

    def scope(self, token: str) -> str | None:
        """Return the scope of a bearer token, or None if it is not valid now."""
        return self.store.scope(token, now=self._context.clock.now())

    def authorize(self, token: str, task: str | None = None) -> bool:
        """Return True if a bearer token may read a task or, if none is given, may list all tasks."""
        scope = self.scope(token)
        return scope is not None and (scope == "read:*" or (task is not None and scope == f"read:{task}"))

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch; return its receipt if its result is durable, otherwise the indices of missing chunks."""
        row = self.store.find(batch)
        if row is None:
            row = self.store.announce(read_manifest(batch, document, self._contracts))
        if row.manifest != document:
            raise Problem("conflict")
        receipt = self.store.receipt(batch)
        return self.store.missing(row) if receipt is None else receipt

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Store a chunk of an announced batch if it has the digest in the manifest; idempotent."""
        row = self.store.find(batch)
        if row is None:
            raise Problem("not-found")
        if row.state != "arriving":
            return
        shuffler = self._contracts[row.task].shuffler
        chunks = Manifest.read(SignedDocument.from_json(row.manifest), shuffler).chunks
        if not 0 <= index < len(chunks):
            raise Problem("not-found")
        if hashlib.sha256(data).hexdigest() != chunks[index]:
            raise Problem("conflict", "the chunk does not match its digest in the manifest")
        self.store.put_chunk(batch, index, data)

    def work(self) -> bool:
        """Open, count and commit one complete batch; return False if there is none.

        A batch that fails does not hold up the others; the first failure is raised if no batch could be counted.
        """
        failure: Exception | None = None
        for batch in self.store.complete():
            try:
                self._count(batch)
            except Exception as error:
                failure = failure or error
            else:
                return True
        if failure is not None:
            raise failure
        return False

    def _count(self, batch: BatchRow) -> None:
        contract = self._contracts[batch.task]
        opened = self._open(batch, contract)
        reach("batch-opened")
        state, result = batch_result(batch, contract, opened)
        receipt = sign_receipt(self._context.identity, batch.id, batch.task, state, batch.manifest)
        self.store.commit(batch, state, canonical(result), receipt, opened.slot_ids)

    def _open(self, batch: BatchRow, contract: Contract) -> OpenedBatch:
        size, private = contract.slot_size, self.keyring.private(batch.key_id)
        chunks = []
        for index in range(batch.chunk_count):
            data = self.store.chunk(batch, index)
            rows = np.frombuffer(data[: len(data) // size * size], np.uint8).reshape(-1, size)
            chunks.append((*open_slots(rows, contract, batch.key_id, private, self._context.workers), slot_ids(rows)))
        payloads, verdicts, ids = (np.concatenate(column) for column in zip(*chunks, strict=True))
        earlier = (np.frombuffer(self.store.slot_ids(other), SLOT_ID) for other in self.store.counted(batch))
        verdicts[repeated(ids, earlier)] = Verdict.repeated
        rejected = {
            verdict.name: int(count)
            for verdict in Verdict
            if verdict >= Verdict.cannot_open and (count := np.count_nonzero(verdicts == verdict))
        }
        if len(verdicts) != batch.slots:
            rejected["missing"] = abs(batch.slots - len(verdicts))
        return OpenedBatch(payloads[verdicts == Verdict.report], rejected, np.sort(ids).tobytes())

    def batches(self, task: bytes) -> list[dict[str, Json]]:
        """Return the finished batches of a task and their states."""
        if task not in self._contracts:
            raise Problem("unknown-task")
        return [{"batch": row.id, "state": row.state} for row in self.store.batches(task) if row.state != "arriving"]

    def totals(self) -> dict[str, dict[str, int]]:
        """Return the number of batches in each state by task, and the bundles of the committed ones."""
        totals = {}
        for task in self._contracts:
            rows = self.store.batches(task)
            states = Counter(row.state for row in rows)
            bundles = sum(row.bundles for row in rows if row.state == "committed")
            totals[task.hex()] = {**{state: states[state] for state in _STATES}, "bundles": bundles}
        return totals

    def ready(self) -> bool:
        """Return True if batches can be accepted now."""
        return any(key.state == "active" for key in self.keyring.public_keys()) and self.store.writable()


def read_manifest(batch: str, document: bytes, contracts: Mapping[bytes, Contract]) -> BatchRow:
    """Return the batch that a manifest announces; raise a problem if its contract does not allow it."""
    try:
        signed = SignedDocument.from_json(document)
        contract = contracts.get(claimed_task(signed))
        if contract is None:
            raise Problem("unknown-task")
        manifest = Manifest.read(signed, contract.shuffler)
    except InvalidInput:
        raise Problem("malformed", "the document is not a valid manifest") from None
    except FalseClaim:
        raise Problem("forbidden", "the manifest is not signed by the contract's shuffler") from None
    if manifest.batch != batch:
        raise Problem("malformed", "the manifest is for another batch")
    _check_sizes(manifest, contract)
    if not 0 <= manifest.key_id <= MAX_KEY_ID:
        raise Problem("forbidden", f"a key id must be in [0, {MAX_KEY_ID}]")
    sizes = (manifest.bundles, manifest.slots, len(manifest.chunks))
    return BatchRow(batch, manifest.task, manifest.key_id, *sizes, document)


def _check_sizes(manifest: Manifest, contract: Contract) -> None:
    if manifest.bundles < contract.min_batch_size:
        raise Problem("forbidden", f"a batch of this task must have at least {contract.min_batch_size} bundles")
    sent, chunks = contract.slots * manifest.bundles, len(manifest.chunks)
    with_fakes = contract.plan.protocol.shuffler_fakes is not None
    if manifest.slots < sent or (manifest.slots > sent and not with_fakes):
        raise Problem("forbidden", "the number of slots does not match the number of bundles")
    if not 1 <= chunks <= MAX_CHUNKS:
        raise Problem("forbidden", f"a batch must have 1 to {MAX_CHUNKS} chunks")
    if manifest.slots > chunks * (CHUNK_SIZE // contract.slot_size):
        raise Problem("forbidden", "the slots do not fit into the chunks")
