"""The work of the analyzer in leased jobs: one per chunk that counts it, and one per batch that states the result.

Any number of workers may run at the same time. A lease only keeps two of them from doing the same work; that nothing is
counted twice rests on the transaction of a chunk, which takes the chunk, inserts the ids of its slots and stores its
partial tally, all or nothing. A worker may be killed anywhere: whatever was not committed is done again. At most one
chunk per worker is in memory.
"""

from collections.abc import Mapping

import numpy as np

from hubbub.documents import canonical
from hubbub.service.analyzer.results import batch_result, strings_result
from hubbub.service.analyzer.shown import ShownStrings, open_rows
from hubbub.service.analyzer.slots import Verdict, open_slots, slot_ids, spend
from hubbub.service.analyzer.store import AnalyzerStore, BatchRow
from hubbub.service.analyzer.tallies import BatchTally, count_chunk
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.database import Lease, LostLease
from hubbub.service.runtime.failpoints import reach
from hubbub.service.task.contract import Contract
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.ledger import RoundLedger
from hubbub.service.task.manifest import Manifest, Receipt, digest


class TallyJobs:
    """One worker; each thread that works needs its own."""

    def __init__(
        self, store: AnalyzerStore, context: ServiceContext, contracts: Mapping[bytes, Contract], ledger: RoundLedger
    ) -> None:
        self._store, self._context, self._contracts, self._ledger = store, context, contracts, ledger
        self._leases = store.leases(context.clock, context.lease_seconds)

    def work(self) -> bool:
        """Do one job; return False if there is none that another worker is not doing.

        A batch that fails does not hold up the others; the first failure is raised if no job could be done.
        """
        failure: Exception | None = None
        for batch in self._store.arriving():
            try:
                if self._work_on(batch):
                    return True
            except LostLease:
                continue
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return False

    def _work_on(self, batch: BatchRow) -> bool:
        for index in self._store.waiting_chunks(batch.id):
            lease = self._leases.acquire(f"tally {batch.id} {index}")
            if lease is not None and self._tally(batch, index, lease):
                return True
        if not self._store.is_tallied(batch):
            return False
        lease = self._leases.acquire(f"finish {batch.id}")
        return lease is not None and self._finish(batch, lease)

    def _tally(self, batch: BatchRow, index: int, lease: Lease) -> bool:
        data = self._store.chunk(batch.id, index)
        if data is None:
            self._leases.complete(lease)
            return False
        contract, key_id = self._contracts[batch.task], batch.key_id
        if contract.strings is not None:
            return self._open(batch, index, data, lease)
        rows = np.frombuffer(data, np.uint8).reshape(-1, contract.slot_size)
        private, workers = self._private(key_id), self._context.workers
        payloads, verdicts = open_slots(rows, contract, batch.round, key_id, private, workers)
        opened = verdicts < Verdict.cannot_open
        ids = slot_ids(rows[opened])
        reach("chunk-opened")
        database = self._store.writer
        if len(ids):
            self._store.create_spent(key_id)
        with database.transaction():
            self._leases.complete(lease)
            if len(ids) and not self._hold_key(key_id):
                return True
            if not self._store.take_chunk(batch.id, index):
                return False
            if len(ids):
                verdicts[np.flatnonzero(opened)[~spend(database, key_id, ids)]] = Verdict.repeated
                reach("chunk-spent")
            self._store.add_partial(batch.id, index, count_chunk(payloads, verdicts, contract.plan))
            if contract.export:
                self._store.add_opened(batch.id, index, payloads[verdicts == Verdict.report].tobytes())
            reach("chunk-counted")
        reach("chunk-tally-committed")
        return True

    def _open(self, batch: BatchRow, index: int, data: bytes, lease: Lease) -> bool:
        """Open a chunk of strings.

        Their slots are not spent: people of another batch send the same ones. That nothing counts twice rests on the
        number of the batch.
        """
        contract = self._contracts[batch.task]
        found = open_rows(data, contract, batch.key_id, self._pair(batch.key_id), batch.bundles)
        reach("chunk-opened")
        with self._store.writer.transaction():
            self._leases.complete(lease)
            if not self._store.take_chunk(batch.id, index):
                return False
            self._store.add_partial(batch.id, index, found)
            reach("chunk-counted")
        reach("chunk-tally-committed")
        return True

    def _finish(self, batch: BatchRow, lease: Lease) -> bool:
        contract, document = self._contracts[batch.task], self._store.manifest(batch.id)
        current = self._store.find(batch.id)
        if document is None or current is None or current.state != "arriving":
            self._leases.complete(lease)
            return False
        manifest = Manifest.read(SignedDocument.from_json(document), contract.shuffler)
        spent = self._ledger.spent_at(contract, batch.bucket)
        if contract.strings is not None:
            shown = ShownStrings.add_up(self._store.shown(batch, contract.plan))
            state, result = strings_result(batch, contract, shown, spent, manifest.gaps)
        else:
            total = BatchTally.add_up(self._store.partials(batch, contract.plan), contract.plan)
            state, result = batch_result(batch, contract, total, spent, manifest.gaps)
        receipt = Receipt(batch.task, batch.bucket, state, digest(document)).sign(self._context.identity)
        with self._store.writer.transaction():
            self._leases.complete(lease)
            finished = self._store.finish(batch.id, state, canonical(result), receipt)
            reach("batch-counted")
        reach("batch-committed")
        if finished:
            self._store.writer.tidy("chunks", "partial_tallies")
        return finished

    def _hold_key(self, key_id: int) -> bool:
        """Keep a key from being destroyed until the transaction ends; return False if another replica destroyed it.

        The ids of its slots are dropped with it, so nothing would recognize slots that were counted before: the chunk
        is then opened again, without the key.
        """
        database = self._store.writer
        query = f"SELECT 1 FROM keys WHERE id = ? AND phase IN ('pending', 'live'){database.for_share}"
        if database.rows(query, key_id):
            return True
        self._context.keyring.refresh()
        return False

    def _private(self, key_id: int) -> bytes | None:
        keyring = self._context.keyring
        private = keyring.private(key_id)
        if private is None:
            # Another replica may have made the key after this one read the records.
            keyring.refresh()
            private = keyring.private(key_id)
        return private

    def _pair(self, key_id: int) -> tuple[bytes, bytes] | None:
        """Return a private key with its public bytes; None if it does not exist."""
        private = self._private(key_id)
        public = next((key.public for key in self._context.keyring.public_keys() if key.id == key_id), None)
        return None if private is None or public is None else (private, public)
