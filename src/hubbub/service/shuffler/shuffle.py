"""The shuffle job: a sealed bucket becomes a batch, shuffled among fakes, in bounded memory and short transactions.

The numbers and payloads of the fakes and the order of the slots are functions of the bucket's seed, and the sealed
fakes are stored before they are used. An attempt that is repeated, by this process or another one, therefore gives the
same bytes; there is never a second draw. Every transaction confirms the lease of the job.
"""

import hashlib
import io
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import KeyedStream
from hubbub.bits.permutation import shuffle_external
from hubbub.errors import StoreFailure
from hubbub.pipeline.shuffle import draw_fakes
from hubbub.service.program import ServiceContext
from hubbub.service.runtime.credentials import Credentials, derive
from hubbub.service.runtime.database import Lease, Leases, LostLease, rest
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.workers import seal_reports
from hubbub.service.shuffler.blocks import (
    BLOCK_SIZE,
    BlockCipher,
    ScratchFile,
    SlotCipher,
    SlotCount,
    Subtraction,
    bucket_secret,
    chunk_of,
    fake_block_id,
    fake_block_number,
    read_slots,
    release_seconds,
    seed_check,
    seed_secret,
    shown_slots,
)
from hubbub.service.shuffler.buckets import Incidents
from hubbub.service.shuffler.store import Bucket, ShufflerStore
from hubbub.service.shuffler.tasks import TaskRegistry
from hubbub.service.task.contract import Contract
from hubbub.service.task.manifest import CHUNK_SIZE, MAX_CHUNKS, Gap, Manifest

MEMORY = 1 << 27
"""Default bytes of memory for shuffling, besides a few blocks and chunks."""
CHUNK_BYTES = 1 << 18
"""Bytes of a chunk, unless the batch would have too many: small, because uploads to SQLite wait while one is stored."""
DISK_FACTOR = 2.2
"""Free disk space that a bucket needs, as a multiple of its size: the temporary files, the chunks, and some reserve."""
_IN_MEMORY = 1 << 22
_PAGE = 16
_RENEWED_ROWS = 1000
FreeSpace = Callable[[], float]


def free_disk(folder: Path, guard: float) -> FreeSpace:
    """Return a function that returns the free bytes of a disk above the share that must stay free."""

    def free_space() -> float:
        usage = shutil.disk_usage(folder)
        return usage.free - guard * usage.total

    return free_space


class _Changed(Exception):
    """A chunk of an earlier attempt differs, because it was made by another version of this program."""


class Shuffles:
    """Shuffles sealed buckets; any number of processes may run this at once."""

    def __init__(
        self,
        store: ShufflerStore,
        tasks: TaskRegistry,
        context: ServiceContext,
        credentials: Credentials,
        leases: Leases,
        incidents: Incidents,
        *,
        memory: int = MEMORY,
        scratch: Path | None = None,
        free_space: FreeSpace | None = None,
    ) -> None:
        self._store, self._tasks, self._context, self._credentials = store, tasks, context, credentials
        self._leases, self._incidents, self._database = leases, incidents, store.jobs
        self._memory, self._scratch, self._free_space = memory, scratch, free_space
        self._renewed = 0.0

    def run(self) -> list[str]:
        """Shuffle all sealed buckets that no other process works on, and return the ids of their batches.

        A bucket that fails does not hold up the others; the first failure is raised after all were tried.
        """
        done: list[str] = []
        failure: Exception | None = None
        for bucket in self._store.buckets(self._tasks.rows(), "sealed"):
            lease = self._leases.acquire(f"shuffle {bucket.batch}")
            if lease is None:
                continue
            try:
                done += [bucket.batch] if self._shuffle(bucket, lease) else []
            except LostLease:
                continue
            except Exception as error:
                where = f"task {bucket.task.id.hex()}, bucket {bucket.number}"
                self._incidents.report("task-failed", f"{where}: could not be shuffled: {type(error).__name__}")
                failure = failure or error
            finally:
                self._leases.release(lease)
        if failure is not None:
            raise failure
        return done

    def has_secrets(self, bucket: Bucket) -> bool:
        """Return True if a sealed bucket can be shuffled; if not, it ended before the store was restored."""
        return self._secrets(bucket) is not None

    def _secrets(self, bucket: Bucket) -> tuple[bytes, bytes] | None:
        seed = self._credentials.read(seed_secret(bucket.task.id, bucket.number))
        secret = self._credentials.read(bucket_secret(bucket.task.id, bucket.number))
        if seed is None or secret is None or seed_check(seed) != bucket.seed:
            return None
        return seed, secret

    def _shuffle(self, bucket: Bucket, lease: Lease) -> bool:
        secrets = self._secrets(bucket)
        if secrets is None:
            return False
        seed, secret = secrets
        contract, cipher = self._tasks.contract(bucket.task.id), BlockCipher(secret)
        strings = contract.strings is not None
        # Before anything can leave this process: a store that is rewound from here on will know that it was.
        self._credentials.raise_fence(sealed={contract.id: bucket.number}, charged={contract.id: [bucket.round]})
        reach("shuffle-fenced")
        size = 0
        if not strings:
            self._store_fakes(bucket, contract, cipher, seed, lease)
            reach("shuffle-fakes-stored")
            size = self._size(bucket)
            if not self._has_space(bucket, contract, size):
                return False
        try:
            if strings:
                digests, sizes = self._write_shown(bucket, contract, SlotCipher(secret), seed, lease)
            else:
                digests, sizes = self._write_chunks(bucket, contract, cipher, seed, size, lease)
        except _Changed:
            # The manifest is not signed, so nothing of the earlier attempt has left this process.
            with self._database.transaction():
                self._confirm(bucket, lease)
                self._database.run("DELETE FROM outbox WHERE task = ? AND bucket = ?", *_key(bucket))
            return False
        self._finish(bucket, contract, digests, sizes, lease)
        return True

    def _has_space(self, bucket: Bucket, contract: Contract, size: int) -> bool:
        if self._free_space is None or self._free_space() >= DISK_FACTOR * size:
            return True
        where = f"task {contract.id}, bucket {bucket.number}"
        needed = f"shuffling {size:,} bytes needs {DISK_FACTOR} times as much free disk space"
        self._incidents.report("disk", f"{where}: {needed}")
        return False

    def _write_shown(
        self, bucket: Bucket, contract: Contract, cipher: SlotCipher, seed: bytes, lease: Lease
    ) -> tuple[list[str], list[int]]:
        """Subtract a draw from the count of every slot, and store what is left in chunks, as in :meth:`_write_chunks`.

        Only the slots that are shown are in memory. Nothing depends on how many others there are, not even the time.
        """
        drawn, begun = contract.plan.protocol.shuffler_fakes, time.monotonic()
        assert drawn is not None
        counts = self._counted(read_slots(self._database, *_key(bucket)), lease)
        shown = shown_slots(counts, cipher, Subtraction(seed, drawn), bucket.bundles)
        reach("shuffle-subtracted")
        end = begun + release_seconds(bucket.bundles, time.monotonic() - begun)
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 1.0))
            self._renew(lease)
        digests, sizes = [], []
        step = max(1, CHUNK_BYTES // contract.row_size)
        for index, start in enumerate(range(0, len(shown), step)):
            data = chunk_of(shown[start : start + step])
            self._store_chunk(bucket, index, data, lease)
            digests.append(hashlib.sha256(data).hexdigest())
            sizes.append(len(data) // contract.row_size)
            reach("shuffle-chunk")
        return digests, sizes

    def _counted(self, counts: Iterable[SlotCount], lease: Lease) -> Iterator[SlotCount]:
        for number, count in enumerate(counts):
            if number % _RENEWED_ROWS == 0:
                self._renew(lease)
            yield count

    def _store_fakes(self, bucket: Bucket, contract: Contract, cipher: BlockCipher, seed: bytes, lease: Lease) -> None:
        """Draw, seal and store the fakes; each block once, because sealing is randomized."""
        messages = draw_fakes(contract.plan, entropy=KeyedStream(derive(seed, "fakes")))
        if not len(messages):
            return
        payloads = np.ascontiguousarray(messages).view(np.uint8).reshape(len(messages), contract.plan.payload)
        key, layout = self._tasks.pinned_key(bucket.task, bucket.key_id), contract.layout_of(bucket.round)
        query = "SELECT id FROM blocks WHERE task = ? AND bucket = ? AND bundles = 0"
        stored = {fake_block_number(bytes(row[0])) for row in self._database.rows(query, *_key(bucket))}
        step = max(1, BLOCK_SIZE // contract.slot_size)
        for number, start in enumerate(range(0, len(payloads), step)):
            if number in stored:
                continue
            sealed = seal_reports(payloads[start : start + step], layout, key, self._context.workers)
            rows = [(*_key(bucket), *cipher.block(fake_block_id(number), 0, sealed.tobytes()))]
            with self._database.transaction():
                self._confirm(bucket, lease)
                self._database.insert_new("blocks", rows, "bucket")
            reach("shuffle-fakes")

    def _size(self, bucket: Bucket) -> int:
        query = "SELECT CAST(COALESCE(SUM(LENGTH(data)), 0) AS BIGINT) FROM blocks WHERE task = ? AND bucket = ?"
        return int(self._database.rows(query, *_key(bucket))[0][0])

    def _write_chunks(
        self, bucket: Bucket, contract: Contract, cipher: BlockCipher, seed: bytes, size: int, lease: Lease
    ) -> tuple[list[str], list[int]]:
        """Shuffle all slots, and store them in chunks; return the digests of the chunks and their slots."""
        blocks = self._read_blocks(bucket, contract.slot_size, cipher, lease)
        rows = chunk_rows(size, contract.slot_size)
        memory = max(self._memory, 1 << 16, 256 * (2 * contract.slot_size + 17))
        scratch = io.BytesIO if size <= _IN_MEMORY else lambda: ScratchFile(self._scratch)
        shuffled = shuffle_external(
            blocks,
            cast(Callable[[], BinaryIO], scratch),
            memory=memory,
            entropy=KeyedStream(derive(seed, "order")),
        )
        digests, sizes = [], []
        begun = time.monotonic()
        for index, chunk in enumerate(_regroup(shuffled, rows)):
            data = chunk.tobytes()
            self._store_chunk(bucket, index, data, lease)
            digests.append(hashlib.sha256(data).hexdigest())
            sizes.append(len(chunk))
            reach("shuffle-chunk")
            rest(begun)
            begun = time.monotonic()
        return digests, sizes

    def _read_blocks(
        self, bucket: Bucket, slot_size: int, cipher: BlockCipher, lease: Lease
    ) -> Iterator[NDArray[np.uint8]]:
        query = (
            f"SELECT id, bundles, data FROM blocks WHERE task = ? AND bucket = ? AND id > ? ORDER BY id LIMIT {_PAGE}"
        )
        last, bundles, begun = b"", 0, time.monotonic()
        texts: list[bytes] = []
        while rows := self._database.rows(query, *_key(bucket), last):
            for block_id, count, data in rows:
                last = bytes(block_id)
                bundles += count
                texts.append(cipher.open(last, count, bytes(data)))
            if sum(map(len, texts)) >= BLOCK_SIZE:
                yield _slots(texts, slot_size)
                texts = []
            self._renew(lease)
            rest(begun)
            begun = time.monotonic()
        if texts:
            yield _slots(texts, slot_size)
        if bundles != bucket.bundles:
            with self._database.transaction():
                # If another process has taken over and finished, the blocks are gone for a good reason.
                self._confirm(bucket, lease)
            raise StoreFailure(f"a bucket of {bucket.bundles} bundles has blocks of {bundles} bundles")

    def _store_chunk(self, bucket: Bucket, index: int, data: bytes, lease: Lease) -> None:
        with self._database.transaction():
            self._confirm(bucket, lease)
            if self._database.insert_new("outbox", [(*_key(bucket), index, data)], "chunk"):
                return
        if self._store.chunk(bucket, index) != data:
            raise _Changed

    def _finish(self, bucket: Bucket, contract: Contract, digests: list[str], sizes: list[int], lease: Lease) -> None:
        """Sign the manifest, with the gaps that no manifest has announced; from then on the batch may be delivered."""
        with self._database.transaction():
            self._confirm(bucket, lease)
            gaps = self._unannounced(bucket)
            manifest = Manifest(
                task=bucket.task.id,
                bucket=bucket.number,
                epoch=bucket.epoch,
                round=bucket.round,
                key_id=bucket.key_id,
                key_list=bucket.key_list,
                bundles=bucket.bundles,
                slots=sum(sizes),
                chunks=tuple(digests),
                sizes=tuple(sizes),
                gaps=gaps,
            )
            statement = "UPDATE buckets SET state = 'shuffled', manifest = ? WHERE task = ? AND bucket = ?"
            self._database.run(statement, manifest.sign(self._context.identity), *_key(bucket))
            for gap in gaps:
                statement = "UPDATE gaps SET announced = ? WHERE task = ? AND first = ?"
                self._database.run(statement, bucket.number, bucket.task.number, gap.first)
            self._database.run(
                "DELETE FROM outbox WHERE task = ? AND bucket = ? AND chunk >= ?", *_key(bucket), len(sizes)
            )
            reach("shuffle-signed")
        reach("shuffle-committed")

    def _unannounced(self, bucket: Bucket) -> tuple[Gap, ...]:
        """Return the gaps to announce: those before this bucket whose own buckets have all ended.

        The analyzer refuses buckets in an announced gap, and a gap may name a bucket that is delivered incomplete.
        """
        query = (
            "SELECT first, last, bundles, reason FROM gaps WHERE task = ? AND announced = 0 AND last < ? ORDER BY first"
        )
        gaps = [Gap(*row) for row in self._database.rows(query, *_key(bucket))]
        query = (
            "SELECT COALESCE(MIN(bucket), ?) FROM buckets "
            "WHERE task = ? AND state NOT IN ('delivered', 'fenced', 'expired')"
        )
        ((waiting,),) = self._database.rows(query, bucket.number, bucket.task.number)
        return tuple(gap for gap in gaps if gap.last < waiting)

    def _confirm(self, bucket: Bucket, lease: Lease) -> None:
        """Confirm in a transaction that this process still holds the lease and the bucket is still sealed."""
        self._leases.confirm(lease)
        found = self._store.bucket(bucket.task, bucket.number, lock=True)
        if found is None or found.state != "sealed":
            raise LostLease("the bucket is no longer sealed")
        self._renewed = time.monotonic()

    def _renew(self, lease: Lease) -> None:
        """Keep the lease during work that writes nothing."""
        if time.monotonic() - self._renewed > self._context.lease_seconds / 4:
            with self._database.transaction():
                self._leases.confirm(lease)
            self._renewed = time.monotonic()


def chunk_rows(size: int, slot_size: int) -> int:
    """Return the number of slots per chunk of a batch that has about ``size`` bytes.

    >>> chunk_rows(10**8, 53), chunk_rows(10**11, 1141)
    (4946, 1338)
    """
    least = -(-size // (slot_size * (MAX_CHUNKS - 1)))
    rows = max(1, CHUNK_BYTES // slot_size, least)
    if rows > max(1, CHUNK_SIZE // slot_size):
        raise StoreFailure("the bucket is too large for a batch; set a smaller max_batch_size")
    return rows


def _slots(texts: list[bytes], slot_size: int) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(texts), np.uint8).reshape(-1, slot_size)


def _key(bucket: Bucket) -> tuple[int, int]:
    return bucket.task.number, bucket.number


def _regroup(blocks: Iterable[NDArray[np.uint8]], rows: int) -> Iterator[NDArray[np.uint8]]:
    """Yield the same rows in blocks of the given number, except for the last.

    >>> [len(block) for block in _regroup([np.zeros((3, 2), np.uint8)] * 3, 4)]
    [4, 4, 1]
    """
    parts: list[NDArray[np.uint8]] = []
    count = 0
    for block in blocks:
        start = 0
        while start < len(block):
            part = block[start : start + rows - count]
            parts.append(part)
            count += len(part)
            start += len(part)
            if count == rows:
                yield np.concatenate(parts)
                parts, count = [], 0
    if parts:
        yield np.concatenate(parts)
