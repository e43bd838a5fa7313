"""The signed documents with which shuffler and analyzer hand over batches and keys.

Every batch is one sealed *bucket* of its task, numbered from 1, and its id is a function of task and number. Both
sides sign the number, the shuffler in the manifest and the analyzer in the receipt and the counter, so that a shuffler
that was restored from a backup, or runs twice, cannot deliver the same bucket again with other content.
"""

import hashlib
from dataclasses import dataclass
from typing import Self

from hubbub.documents import Fields, Json
from hubbub.errors import FalseClaim, WireError
from hubbub.service.task.identity import Identity, SignedDocument, document_format, hex_bytes
from hubbub.wire.bundles import TASK_SIZE

CHUNK_SIZE = 4 << 20
"""Bytes of the largest chunk."""
MAX_CHUNKS = 1 << 16
"""Chunks of the largest batch."""
MAX_BUCKET = 2**53 - 1
GAP_REASONS = ("restored", "fenced", "expired")
"""Why a shuffler leaves out buckets: its store was restored, the analyzer has other content under the number, or the
round ended with fewer people than the minimum batch size."""
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
class Gap:
    """Buckets that a shuffler will never deliver, and the number of bundles in them as far as it is known."""

    first: int
    last: int
    bundles: int
    reason: str

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last <= MAX_BUCKET or self.bundles < 0 or self.reason not in GAP_REASONS:
            raise WireError("a gap must name a range of buckets, a number of bundles and a known reason")

    def to_document(self) -> dict[str, Json]:
        """Return the gap as a JSON object."""
        return {"first": self.first, "last": self.last, "bundles": self.bundles, "reason": self.reason}

    @classmethod
    def from_document(cls, value: Json) -> Self:
        """Read a gap from a JSON object."""
        fields = Fields(value, "the gap", "first", "last", "bundles", "reason")
        return cls(fields.whole("first"), fields.whole("last"), fields.whole("bundles"), fields.text("reason"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The shuffler's description of a batch."""

    task: bytes
    bucket: int
    epoch: int
    """The epoch in which the bucket was sealed."""
    round: int
    """The round of all its bundles; 1 without a series."""
    key_id: int
    """The analyzer's key that all slots are sealed to."""
    key_list: str
    """Digest of the analyzer's key list from which clients took the key."""
    bundles: int
    slots: int
    chunks: tuple[str, ...]
    """The SHA-256 of each chunk, in hexadecimal digits."""
    sizes: tuple[int, ...]
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
        body: dict[str, Json] = {
            "format": document_format("manifest"),
            "batch": self.batch,
            "task": self.task.hex(),
            "bucket": self.bucket,
            "epoch": self.epoch,
            "round": self.round,
            "key_id": self.key_id,
            "key_list": self.key_list,
            "bundles": self.bundles,
            "slots": self.slots,
            "chunks": list(self.chunks),
            "sizes": list(self.sizes),
            "gaps": [gap.to_document() for gap in self.gaps],
        }
        return SignedDocument.sign(identity, "manifest", body).to_json()

    @classmethod
    def read(cls, document: SignedDocument, shuffler: bytes) -> Self:
        """Verify the shuffler's signature, and read the manifest."""
        numbers = ("bucket", "epoch", "round", "key_id", "bundles", "slots")
        fields = document.read(shuffler, "manifest", "batch", "task", *numbers, "key_list", "chunks", "sizes", "gaps")
        for value in (*fields.texts("chunks"), fields.text("key_list")):
            hex_bytes(value, _DIGEST_SIZE, "a digest in the manifest")
        found = cls(
            task=hex_bytes(fields.text("task"), TASK_SIZE, "the task of the manifest"),
            key_list=fields.text("key_list"),
            chunks=tuple(fields.texts("chunks")),
            sizes=tuple(_whole(size) for size in fields.items("sizes")),
            gaps=tuple(Gap.from_document(gap) for gap in fields.items("gaps")),
            **{name: fields.whole(name) for name in numbers},
        )
        if fields.text("batch") != found.batch:
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
class Receipt:
    """The analyzer's statement that the result of a bucket is durable."""

    task: bytes
    bucket: int
    state: str
    """``committed`` or ``withheld``."""
    manifest: str
    """Digest of the signed manifest."""

    def sign(self, identity: Identity) -> bytes:
        """Return the signed receipt."""
        body: dict[str, Json] = {
            "format": document_format("receipt"),
            "batch": batch_id(self.task, self.bucket),
            "task": self.task.hex(),
            "bucket": self.bucket,
            "state": self.state,
            "manifest": self.manifest,
        }
        return SignedDocument.sign(identity, "receipt", body).to_json()

    @classmethod
    def read(cls, text: bytes, analyzer: bytes, task: bytes, bucket: int) -> Self:
        """Read a receipt; raise unless the analyzer signed it for this bucket."""
        keys = ("batch", "task", "bucket", "state", "manifest")
        fields = SignedDocument.from_json(text).read(analyzer, "receipt", *keys)
        named = (fields.text("batch"), fields.text("task"), fields.whole("bucket"))
        if named != (batch_id(task, bucket), task.hex(), bucket):
            raise FalseClaim("the receipt is for another batch")
        state = fields.text("state")
        if state not in ("committed", "withheld"):
            raise WireError("the state of a receipt must be committed or withheld")
        return cls(task, bucket, state, fields.text("manifest"))

    def check(self, manifest: bytes) -> None:
        """Raise unless the receipt is for this manifest."""
        if self.manifest != digest(manifest):
            raise FalseClaim("the receipt is for another manifest")


@dataclass(frozen=True, slots=True)
class Counter:
    """The analyzer's statement of the highest bucket of a task that was announced to it."""

    task: bytes
    bucket: int
    """0 before the first."""

    def sign(self, identity: Identity) -> bytes:
        """Return the signed counter."""
        body: dict[str, Json] = {
            "format": document_format("counter"),
            "task": self.task.hex(),
            "bucket": self.bucket,
        }
        return SignedDocument.sign(identity, "counter", body).to_json()

    @classmethod
    def read(cls, text: bytes, analyzer: bytes, task: bytes) -> Self:
        """Read a counter; raise unless the analyzer signed it for this task."""
        fields = SignedDocument.from_json(text).read(analyzer, "counter", "task", "bucket")
        if fields.text("task") != task.hex() or not 0 <= fields.whole("bucket") <= MAX_BUCKET:
            raise FalseClaim("the counter is for another task")
        return cls(task, fields.whole("bucket"))


@dataclass(frozen=True, slots=True)
class KeysInUse:
    """The shuffler's statement of the analyzer's keys that undelivered reports of a task are sealed to."""

    task: bytes
    number: int
    """Increases with every statement; the highest one stands."""
    keys: tuple[int, ...]
    """Ids of the keys of the open bucket and of all undelivered buckets."""

    def sign(self, identity: Identity) -> bytes:
        """Return the signed statement."""
        body: dict[str, Json] = {
            "format": document_format("keys in use"),
            "task": self.task.hex(),
            "number": self.number,
            "keys": list(self.keys),
        }
        return SignedDocument.sign(identity, "keys in use", body).to_json()

    @classmethod
    def read(cls, document: SignedDocument, shuffler: bytes) -> Self:
        """Verify the shuffler's signature, and read the statement."""
        fields = document.read(shuffler, "keys in use", "task", "number", "keys")
        task = hex_bytes(fields.text("task"), TASK_SIZE, "the task of the statement")
        return cls(task, fields.whole("number"), tuple(_whole(key) for key in fields.items("keys")))


def _whole(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WireError("the numbers in a document must be whole")
    return value
