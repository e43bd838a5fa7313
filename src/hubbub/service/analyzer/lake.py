"""The lake: a folder of the operator with a directory of Parquet for every batch that was counted and may be exported.

A directory is written under a hidden name, made durable, and then renamed, which fails if there is one of its name: a
directory under its final name is complete, and the first one stands. Its name is a function of task and bucket and its
content one of the batch, so an export that is repeated, by a replica or after a restore, has the same name and the same
messages. The folder has an identity, to which the store is bound: a volume that is not mounted is noticed.

The export of opened batches in leased jobs, one for each batch whose result is durable. The messages of an exported
contract are stored by the transaction that counts them, and deleted by the one that follows their export. Withheld and
abandoned batches are never exported: their messages are deleted with the verdict.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Fields, canonical, parse
from hubbub.errors import InvalidInput, StoreFailure, WireError, load_extra
from hubbub.io.directories import open_directory, read_payloads, write_directory
from hubbub.io.files import PARTIAL, sync_folder, write_new
from hubbub.model.plans import Plan
from hubbub.pipeline.reports import Batch, BatchHeader, decode_payloads
from hubbub.service.analyzer.results import declared_fakes
from hubbub.service.analyzer.store import AnalyzerStore, BatchRow
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.database import Lease, LostLease
from hubbub.service.runtime.failpoints import reach
from hubbub.service.task.contract import Contract

MARK = "_lake.json"
"""Name of the file with the identity of the folder."""
_FORMAT = "hubbub lake 1"
_GIVEN_UP = ".old"

Blocks = Callable[[], Iterable[NDArray[Any]]]
"""The messages of a batch, from the beginning at every call."""


def directory_name(task: bytes, bucket: int) -> str:
    """Return the name of the directory of a batch.

    >>> directory_name(bytes(16), 7)
    '00000000000000000000000000000000-00000007'
    """
    return f"{task.hex()}-{bucket:08d}"


class Lake:
    """The folder of exported batches; all replicas of the analyzer share it."""

    def __init__(self, folder: Path) -> None:
        load_extra("pyarrow.parquet", "frames", "The export of batches")
        self.folder = folder
        self._id = ""

    def bind(self, known: str) -> str:
        """Make sure that this is the folder that the store knows, or mark it if it knows none; return its identity."""
        if not known:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Analyzers with stores of their own may share a folder: the first mark stands, or one would be shut out.
            with contextlib.suppress(FileExistsError):
                write_new(self.folder / MARK, canonical({"format": _FORMAT, "id": secrets.token_hex(16)}))
        self._id = known or self._read()
        self.check()
        return self._id

    def check(self) -> None:
        """Raise :class:`StoreFailure` unless the folder is there and is the one that was used before."""
        if self._read() != self._id:
            raise StoreFailure("the folder of the setting 'lake' is not the one to which batches were exported before")

    def _read(self) -> str:
        try:
            fields = Fields(parse((self.folder / MARK).read_bytes(), "the mark of the lake"), MARK, "format", "id")
            if fields.text("format") != _FORMAT:
                raise WireError(f"the format must be {_FORMAT!r}")
            return fields.text("id")
        except OSError:
            raise StoreFailure("the folder of the setting 'lake' is not available, or its mark is missing") from None
        except WireError:
            raise StoreFailure("the mark of the folder of the setting 'lake' is damaged") from None

    def put(self, name: str, plan: Plan, header: BatchHeader, blocks: Blocks) -> None:
        """Write a batch under its name, durably; if there is one of this name, it must be the same and stays as it is.

        Raises :class:`StoreFailure` if there is anything else of this name. Safe to interrupt at any point.
        """
        self.check()
        self._clear(name)
        reach("lake-cleared")
        if not self._add(name, plan, header, blocks):
            self._compare(name, plan, header, blocks)
        sync_folder(self.folder)
        reach("lake-durable")

    def _add(self, name: str, plan: Plan, header: BatchHeader, blocks: Blocks) -> bool:
        """Write a new directory; return False if there is something of its name."""
        place = self.folder / name
        if os.path.lexists(place):
            return False
        fresh = self._beside(name, PARTIAL)
        write_directory(fresh, plan, Batch(header, blocks()))
        reach("lake-written")
        try:
            # Unlike Path.replace on a file, this fails if there is a directory with content, or a file.
            fresh.rename(place)
        except OSError:
            if not os.path.lexists(place):
                raise
            shutil.rmtree(fresh, ignore_errors=True)
            return False
        reach("lake-renamed")
        return True

    def _compare(self, name: str, plan: Plan, header: BatchHeader, blocks: Blocks) -> None:
        """Raise unless the directory that exists is of the same batch."""
        place = self.folder / name
        try:
            manifest = None if place.is_symlink() else open_directory(place)
            same = manifest is not None and manifest.header == header
            if manifest is not None and same:
                found, expected = hashlib.sha256(), hashlib.sha256()
                for data in read_payloads(place, manifest):
                    found.update(data.tobytes())
                for block in blocks():
                    expected.update(block.tobytes())
                same = found.digest() == expected.digest()
        except (InvalidInput, OSError):
            same = False
        if not same:
            raise StoreFailure(
                f"the lake has something else under the name {name}; it was not changed, and the batch is not exported"
            )

    def _clear(self, name: str) -> None:
        """Remove what interrupted exports of a batch left behind.

        A directory is renamed first: a process that was paused before it gave it the final name then fails, instead of
        showing a directory of which files are missing.
        """
        for path in self.folder.glob(f".{name}.*"):
            given_up = self._beside(name, _GIVEN_UP)
            try:
                path.rename(given_up)
            except FileNotFoundError:
                continue
            shutil.rmtree(given_up)

    def _beside(self, name: str, suffix: str) -> Path:
        return self.folder / f".{name}.{secrets.token_hex(8)}{suffix}"


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
