"""The encryption of stored slots and of temporary files: erasing one small secret makes them unreadable for good."""

import io
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hubbub.errors import StoreFailure
from hubbub.service.runtime.credentials import derive

BLOCK_SIZE = 1 << 18
"""Bytes of slots in the largest block, unless a single bundle is larger."""
ID_SIZE = 16
_NONCE_SIZE = 12


def bucket_secret(task: bytes, bucket: int) -> str:
    """Return the name of the secret that opens the blocks of a bucket."""
    return f"{bucket_prefix(task)}{bucket}"


def bucket_prefix(task: bytes) -> str:
    """Return the beginning of the names of the secrets of all buckets of a task."""
    return f"bucket-{task.hex()}-"


def bucket_number(name: str) -> int:
    """Return the bucket that a secret belongs to.

    >>> bucket_number(bucket_secret(bytes(2), 7))
    7
    """
    return int(name.rsplit("-", 1)[1])


def seed_secret(task: bytes, bucket: int) -> str:
    """Return the name of the seed from which the fakes and the order of a bucket are drawn."""
    return f"seed-{task.hex()}-{bucket}"


def batch_pin(task: bytes, bucket: int) -> str:
    """Return the name under which the digest of the batch announced for a bucket is kept."""
    return f"batch-{task.hex()}-{bucket}"


def seed_check(seed: bytes) -> str:
    """Return a value that tells a seed from any other and reveals nothing about it."""
    return derive(seed, "check", ID_SIZE).hex()


def fake_block_id(number: int) -> bytes:
    """Return an id for a block of fakes: a random nonce, because sealing is randomized, and its number.

    >>> fake_block_number(fake_block_id(7)), fake_block_id(7) == fake_block_id(7)
    (7, False)
    """
    return secrets.token_bytes(_NONCE_SIZE) + number.to_bytes(ID_SIZE - _NONCE_SIZE, "big")


def fake_block_number(block_id: bytes) -> int:
    """Return the number of a block of fakes."""
    return int.from_bytes(block_id[_NONCE_SIZE:], "big")


class BlockCipher:
    """AES-256-GCM under a bucket's secret; the id and the number of bundles of a block are authenticated.

    >>> cipher = BlockCipher(bytes(32))
    >>> ((block_id, bundles, data),) = cipher.seal([(b"slot", b"more")])
    >>> bundles, cipher.open(block_id, bundles, data)
    (1, b'moreslot')
    """

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(derive(secret, "blocks"))

    def seal(self, bundles: Sequence[Sequence[bytes]]) -> list[tuple[bytes, int, bytes]]:
        """Return blocks (id, bundles, data) of the slots of these bundles.

        Slots are sorted by their bytes, which begin with a random key share, so that the blocks do not show which slots
        came in one bundle, nor their order.
        """
        blocks = []
        waiting: list[bytes] = []
        count = size = 0
        for slots in bundles:
            length = sum(map(len, slots))
            if count and size + length > BLOCK_SIZE:
                blocks.append(self.block(secrets.token_bytes(ID_SIZE), count, b"".join(sorted(waiting))))
                waiting, count, size = [], 0, 0
            waiting += slots
            count, size = count + 1, size + length
        if count:
            blocks.append(self.block(secrets.token_bytes(ID_SIZE), count, b"".join(sorted(waiting))))
        return blocks

    def block(self, block_id: bytes, bundles: int, text: bytes) -> tuple[bytes, int, bytes]:
        """Return one block; its id must be random, because it contains the nonce."""
        return block_id, bundles, self._cipher.encrypt(block_id[:_NONCE_SIZE], text, _bound(block_id, bundles))

    def open(self, block_id: bytes, bundles: int, data: bytes) -> bytes:
        """Return the slots of a block."""
        try:
            return self._cipher.decrypt(block_id[:_NONCE_SIZE], data, _bound(block_id, bundles))
        except InvalidTag:
            raise StoreFailure("a block of the store is damaged or belongs to another bucket") from None


def _bound(block_id: bytes, bundles: int) -> bytes:
    return block_id + bundles.to_bytes(8, "big")


class ScratchFile:
    """A temporary file without a name, encrypted under a key that is only in memory.

    Written from start to end, then read from start to end, as :func:`hubbub.bits.permutation.shuffle_external` does.

    >>> with ScratchFile(None) as file:
    ...     count = file.write(b"sealed slots")
    ...     file.seek(0), file.read(6), file.read(6)
    (0, b'sealed', b' slots')
    """

    def __init__(self, folder: Path | None) -> None:
        self._file: BinaryIO = TemporaryFile(dir=folder)  # noqa: SIM115 (closed by close)
        self._cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16)))
        self._stream = self._cipher.encryptor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes) -> int:
        """Append bytes."""
        return self._file.write(self._stream.update(data))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go back to the start, in order to read."""
        if offset or whence:
            raise io.UnsupportedOperation("a scratch file is read from its start")
        self._stream = self._cipher.decryptor()
        return self._file.seek(0)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        return self._stream.update(self._file.read(size))

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
