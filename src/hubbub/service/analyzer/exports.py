"""The export of opened batches in leased jobs, one for each batch whose result is durable.

The messages of an exported contract are stored by the transaction that counts them, and deleted by the one that follows
their export. Withheld and abandoned batches are never exported: their messages are deleted with the verdict.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Fields, parse
from hubbub.pipeline.reports import BatchHeader, decode_payloads
from hubbub.service.analyzer.lake import Lake, directory_name
from hubbub.service.analyzer.results import declared_fakes
from hubbub.service.analyzer.store import AnalyzerStore, BatchRow
from hubbub.service.context import ServiceContext
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.leases import Lease, LostLease
from hubbub.service.task.contract import Contract


class ExportJobs:
    """One worker."""

    def __init__(
        self, store: AnalyzerStore, context: ServiceContext, contracts: Mapping[bytes, Contract], lake: Lake
    ) -> None:
        self._store, self._contracts, self._lake = store, contracts, lake
        self._leases = store.leases(context.clock, context.lease_seconds)

    def work(self) -> bool:
        """Export one batch; return False if there is none that another worker is not exporting.

        A batch that fails does not hold up the others; the first failure is raised if none could be exported.
        """
        failure: Exception | None = None
        for batch in self._store.waiting_exports():
            lease = self._leases.acquire(f"export {batch.id}")
            if lease is None:
                continue
            try:
                self._export(batch, lease)
            except LostLease:
                continue
            except Exception as error:
                self._leases.release(lease)
                failure = failure or error
            else:
                return True
        if failure is not None:
            raise failure
        return False

    def _export(self, batch: BatchRow, lease: Lease) -> None:
        contract = self._contracts[batch.task]
        header = self._header(batch, contract)
        name = directory_name(batch.task, batch.bucket)
        self._lake.put(name, contract.plan, header, lambda: self._blocks(batch, contract, header.messages, lease))
        with self._store.writer.transaction():
            self._leases.complete(lease)
            self._store.erase_opened(batch.id)
            reach("export-erased")
        reach("export-committed")
        self._store.writer.tidy("opened")

    def _header(self, batch: BatchRow, contract: Contract) -> BatchHeader:
        """Return what the directory declares, as the stored result says."""
        stored = parse(self._store.result(batch.id) or b"", "the result")
        names = tuple(stored) if isinstance(stored, dict) else ()
        result = Fields(stored, "the result", *names)
        rejected = result["rejected"]
        bad = sum(count for count in rejected.values() if isinstance(count, int)) if isinstance(rejected, dict) else 0
        people, certified = result.whole("people"), max(contract.plan.n, batch.bundles - bad)
        return BatchHeader.of(
            contract.plan,
            messages=result.whole("messages"),
            n=people,
            fakes=declared_fakes(contract.plan, people),
            shuffled=True,
            certified=0 if certified == people else certified,
            slots=contract.slots if contract.overflow else 0,
        )

    def _blocks(self, batch: BatchRow, contract: Contract, messages: int, lease: Lease) -> Iterator[NDArray[np.uint8]]:
        """Yield the counted messages in the order of the batch; the last ones may have been left out of the result."""
        left = messages
        for index in range(batch.chunk_count):
            # A large batch takes longer than a lease lasts.
            self._leases.confirm(lease)
            found = self._store.opened(batch.id, index)
            if found is None:
                raise LostLease("another replica has exported the batch")
            block = decode_payloads(found, contract.plan)[:left]
            left -= len(block)
            reach("lake-block")
            yield block
