"""The signed documents with which shuffler and analyzer hand over batches and keys.

Every batch is one sealed *bucket* of its task, numbered from 1, and its id is a function of task and number. Both
sides sign the number, the shuffler in the manifest and the analyzer in the receipt and the counter, so that a shuffler
that was restored from a backup, or runs twice, cannot deliver the same bucket again with other content.
"""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Self

from hubbub.documents import Document, Whole, hex_bytes
from hubbub.errors import FalseClaim, WireError
from hubbub.service.task.identity import Identity, SignedDocument
from hubbub.service.task.sealing import MAX_KEY_ID
from hubbub.wire.bundles import TASK_SIZE

CHUNK_SIZE = 4 << 20
"""Bytes of the largest chunk."""
MAX_CHUNKS = 1 << 16
"""Chunks of the largest batch."""
MAX_BUCKET = 2**53 - 1
GAP_REASONS = ("restored", "fenced", "expired")
"""Why a shuffler leaves out buckets: its store was restored, the analyzer has other content under the number, or the
round ended with fewer people than the minimum batch size."""
Task = Annotated[bytes, TASK_SIZE]
_DIGEST_SIZE = hashlib.sha256().digest_size


def batch_id(task: bytes, bucket: int) -> str:
    """Return the id of the batch of a bucket.

    >>> batch_id(bytes(16), 1)
    'de0d98208d964b26a1e5f3f36227d8b6'
    """
    return hashlib.sha256(b"hubbub/2 batch" + task + bucket.to_bytes(8, "big")).digest()[:16].hex()


def digest(document: bytes) -> str:
    """Return the SHA-256 of a signed document in hexadecimal digits."""
    return hashlib.sha256(document).hexdigest()


@dataclass(frozen=True, slots=True)
class Gap(Document):
    """Buckets that a shuffler will never deliver, and the number of bundles in them as far as it is known."""

    first: Annotated[int, Whole(1)]
    last: Annotated[int, Whole(1)]
    bundles: Annotated[int, Whole()]
    reason: str

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last <= MAX_BUCKET or self.bundles < 0 or self.reason not in GAP_REASONS:
            raise WireError("a gap must name a range of buckets, a number of bundles and a known reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Document):
    """The shuffler's description of a batch."""

    task: Task
    bucket: Annotated[int, Whole(1)]
    epoch: Annotated[int, Whole()]
    """The epoch in which the bucket was sealed."""
    round: Annotated[int, Whole(1)]
    """The round of all its bundles; 1 without a series."""
    key_id: Annotated[int, Whole()]
    """The analyzer's key that all slots are sealed to."""
    key_list: str
    """Digest of the analyzer's key list from which clients took the key."""
    bundles: Annotated[int, Whole()]
    slots: Annotated[int, Whole()]
    chunks: tuple[str, ...]
    """The SHA-256 of each chunk, in hexadecimal digits."""
    sizes: tuple[Annotated[int, Whole(1)], ...]
    """The number of slots of each chunk."""
    gaps: tuple[Gap, ...] = ()
    """Buckets before this one that were not announced in an earlier manifest and will never be delivered."""

    def __post_init__(self) -> None:
        if not 1 <= self.bucket <= MAX_BUCKET or self.epoch < 0 or self.round < 1:
            raise WireError("the manifest must name a bucket from 1, an epoch from 0 and a round from 1")
        if len(self.sizes) != len(self.chunks) or sum(self.sizes) != self.slots or min(self.sizes, default=1) < 1:
            raise WireError("the sizes of the chunks in the manifest must be positive and add up to the slots")
        if any(gap.last >= self.bucket for gap in self.gaps):
            raise WireError("the gaps of a manifest must be before its bucket")

    @property
    def batch(self) -> str:
        """The id of the batch."""
        return batch_id(self.task, self.bucket)

    def sign(self, identity: Identity) -> bytes:
        """Return the signed manifest."""
        return SignedDocument.sign_as(identity, "manifest", self, batch=self.batch)

    @classmethod
    def read(cls, document: SignedDocument, shuffler: bytes) -> Self:
        """Verify the shuffler's signature, and read the manifest."""
        found, entries = document.read_as(shuffler, "manifest", cls, "batch")
        for value in (*found.chunks, found.key_list):
            hex_bytes(value, _DIGEST_SIZE, "a digest in the manifest")
        if entries.text("batch") != found.batch:
            raise WireError("the id of the batch in the manifest must be that of its task and bucket")
        return found


def claimed_task(document: SignedDocument) -> bytes:
    """Return the task that an unverified document names, empty if it names none."""
    if not isinstance(document.body, dict) or "task" not in document.body:
        return b""
    task = document.body["task"]
    try:
        return bytes.fromhex(task if isinstance(task, str) else "?")
    except ValueError:
        raise WireError("the task of the document must be a hexadecimal string") from None


@dataclass(frozen=True, slots=True)
class Receipt(Document):
    """The analyzer's statement that the result of a bucket is durable."""

    task: Task
    bucket: Annotated[int, Whole()]
    state: str
    """``committed`` or ``withheld``."""
    manifest: str
    """Digest of the signed manifest."""

    def sign(self, identity: Identity) -> bytes:
        """Return the signed receipt."""
        return SignedDocument.sign_as(identity, "receipt", self, batch=batch_id(self.task, self.bucket))

    @classmethod
    def read(cls, text: bytes, analyzer: bytes, task: bytes, bucket: int) -> Self:
        """Read a receipt; raise unless the analyzer signed it for this bucket."""
        found, entries = SignedDocument.from_json(text).read_as(analyzer, "receipt", cls, "batch")
        if (entries.text("batch"), found.task, found.bucket) != (batch_id(task, bucket), task, bucket):
            raise FalseClaim("the receipt is for another batch")
        if found.state not in ("committed", "withheld"):
            raise WireError("the state of a receipt must be committed or withheld")
        return found

    def check(self, manifest: bytes) -> None:
        """Raise unless the receipt is for this manifest."""
        if self.manifest != digest(manifest):
            raise FalseClaim("the receipt is for another manifest")


@dataclass(frozen=True, slots=True)
class Counter(Document):
    """The analyzer's statement of the highest bucket of a task that was announced to it."""

    task: Task
    bucket: Annotated[int, Whole(0, MAX_BUCKET)]
    """0 before the first."""

    def sign(self, identity: Identity) -> bytes:
        """Return the signed counter."""
        return SignedDocument.sign_as(identity, "counter", self)

    @classmethod
    def read(cls, text: bytes, analyzer: bytes, task: bytes) -> Self:
        """Read a counter; raise unless the analyzer signed it for this task."""
        found, _ = SignedDocument.from_json(text).read_as(analyzer, "counter", cls)
        if found.task != task:
            raise FalseClaim("the counter is for another task")
        return found


@dataclass(frozen=True, slots=True)
class KeysInUse(Document):
    """The shuffler's statement of the analyzer's keys that undelivered reports of a task are sealed to."""

    task: Task
    number: Annotated[int, Whole(0, MAX_BUCKET)]
    """Increases with every statement; the highest one stands."""
    keys: tuple[Annotated[int, Whole(0, MAX_KEY_ID)], ...]
    """Ids of the keys of the open bucket and of all undelivered buckets."""

    def sign(self, identity: Identity) -> bytes:
        """Return the signed statement."""
        return SignedDocument.sign_as(identity, "keys in use", self)

    @classmethod
    def read(cls, document: SignedDocument, shuffler: bytes) -> Self:
        """Verify the shuffler's signature, and read the statement."""
        return document.read_as(shuffler, "keys in use", cls)[0]
