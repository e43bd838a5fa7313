"""Manifests and receipts: the signed documents with which shuffler and analyzer hand over a batch."""

import hashlib
from dataclasses import asdict, dataclass
from typing import Self

from hubbub.bundles import TASK_SIZE
from hubbub.canonical import Json
from hubbub.errors import FalseClaim, WireError
from hubbub.service.task.identity import Identity, SignedDocument, document_format, hex_bytes

CHUNK_SIZE = 4 << 20  # bytes of the largest chunk
MAX_CHUNKS = 1 << 16  # chunks of the largest batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The shuffler's description of a batch."""

    batch: str
    task: bytes
    key_id: int
    """The analyzer's key that all slots are sealed to."""
    bundles: int
    slots: int
    chunks: tuple[str, ...]
    """The SHA-256 of each chunk, in hexadecimal digits."""

    def sign(self, identity: Identity) -> bytes:
        """Return the signed manifest."""
        body: dict[str, Json] = {"format": document_format("manifest"), **asdict(self)}
        body |= {"task": self.task.hex(), "chunks": list(self.chunks)}
        return SignedDocument.sign(identity, "manifest", body).to_json()

    @classmethod
    def read(cls, document: SignedDocument, shuffler: bytes) -> Self:
        """Verify the shuffler's signature, and read the manifest."""
        fields = document.read(shuffler, "manifest", "batch", "task", "key_id", "bundles", "slots", "chunks")
        for digest in fields.texts("chunks"):
            hex_bytes(digest, hashlib.sha256().digest_size, "the digest of a chunk")
        return cls(
            batch=fields.text("batch"),
            task=hex_bytes(fields.text("task"), TASK_SIZE, "the task of the manifest"),
            key_id=fields.whole("key_id"),
            bundles=fields.whole("bundles"),
            slots=fields.whole("slots"),
            chunks=tuple(fields.texts("chunks")),
        )


def claimed_task(document: SignedDocument) -> bytes:
    """Return the task that an unverified manifest names, empty if it names none."""
    if not isinstance(document.body, dict) or "task" not in document.body:
        return b""
    task = document.body["task"]
    try:
        return bytes.fromhex(task if isinstance(task, str) else "?")
    except ValueError:
        raise WireError("the task of the manifest must be a hexadecimal string") from None


def sign_receipt(identity: Identity, batch: str, task: bytes, state: str, manifest: bytes) -> bytes:
    """Return the analyzer's signed statement that the result of a batch is durable."""
    body: dict[str, Json] = {
        "format": document_format("receipt"),
        "batch": batch,
        "task": task.hex(),
        "state": state,
        "manifest": hashlib.sha256(manifest).hexdigest(),
    }
    return SignedDocument.sign(identity, "receipt", body).to_json()


def check_receipt(text: bytes, analyzer: bytes, batch: str, task: bytes, manifest: bytes) -> None:
    """Raise unless the analyzer signed this receipt for exactly this batch."""
    fields = SignedDocument.from_json(text).read(analyzer, "receipt", "batch", "task", "state", "manifest")
    expected = (batch, task.hex(), hashlib.sha256(manifest).hexdigest())
    if (fields.text("batch"), fields.text("task"), fields.text("manifest")) != expected:
        raise FalseClaim("the receipt is for another batch")
