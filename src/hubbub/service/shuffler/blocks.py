"""The encryption of stored slots, of their counters and of temporary files under secrets that can be erased.

Counters of equal slots: a bucket of strings keeps every distinct slot once, with the number of people who sent it.
Nothing else about them is kept: no order, no time, no link to the replay ids. A row is named by a keyed digest of its
slot, and its slot is encrypted; both keys come from the bucket's secret, whose erasure makes the rows unreadable for
good. Each process adds to rows of its own *shard*, so that two of them never wait for each other over a string that
everybody sends; a release adds the shards up.

The number of distinct slots changes surely if one person sends another string. It is as secret as the counts: nothing
here is logged, exported, or part of a manifest, and a release takes a time that depends on the number of people alone.
"""

import hmac
import io
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hubbub.bits.entropy import KeyedStream
from hubbub.bits.exact import Buffered
from hubbub.errors import StoreFailure
from hubbub.mechanisms.draws import draw_number
from hubbub.model.fakes import Fakes
from hubbub.service.runtime.credentials import derive
from hubbub.service.runtime.database import Database, rest
from hubbub.service.task.contract import PEOPLE_SIZE

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


COUNTERS_TABLE = (
    """slot_counts (task BIGINT, bucket BIGINT, id {blob}, shard BIGINT, people BIGINT NOT NULL, data {blob} NOT NULL,
       PRIMARY KEY (task, bucket, id, shard)) {clustered}""",
    "id",
)
"""The table of all counters, and the column by which PostgreSQL divides it."""
_ROWS = 160
"""Rows per statement: six values each, of at most 999 that every SQLite takes."""
_PAGE = 1000
_ADD = "ON CONFLICT (task, bucket, id, shard) DO UPDATE SET people = slot_counts.people + excluded.people"
_READ = (
    "SELECT id, shard, people, data FROM slot_counts WHERE task = ? AND bucket = ? AND (id, shard) > (?, ?) "
    f"ORDER BY id, shard LIMIT {_PAGE}"
)


SECONDS_PER_PERSON = 1e-4
"""Seconds of a release for each person: more than a counter takes, so that it is enough if nobody's string is equal."""
SlotCount = tuple[bytes, int, bytes]
"""Id, people and encrypted slot of a distinct slot."""


class SlotCipher:
    """The names and the encryption of a bucket's slots under its secret.

    >>> cipher = SlotCipher(bytes(32))
    >>> name = cipher.name(b"slot")
    >>> name == cipher.name(b"slot"), cipher.open(name, cipher.seal(name, b"slot"))
    (True, b'slot')
    """

    def __init__(self, secret: bytes) -> None:
        self._names, self._cipher = derive(secret, "slot names"), AESGCM(derive(secret, "slots"))

    def name(self, slot: bytes) -> bytes:
        """Return the id of a slot's rows, the same for equal slots of this bucket and of no other."""
        return hmac.digest(self._names, slot, "sha256")[:ID_SIZE]

    def seal(self, name: bytes, slot: bytes) -> bytes:
        """Return the encrypted slot."""
        nonce = secrets.token_bytes(_NONCE_SIZE)
        return nonce + self._cipher.encrypt(nonce, slot, name)

    def open(self, name: bytes, data: bytes) -> bytes:
        """Return the slot of a row."""
        try:
            return self._cipher.decrypt(data[:_NONCE_SIZE], data[_NONCE_SIZE:], name)
        except InvalidTag:
            raise StoreFailure("a counter of the store is damaged or belongs to another bucket") from None


def add_slots(
    database: Database, task: int, bucket: int, shard: int, slots: Iterable[bytes], cipher: SlotCipher
) -> None:
    """Count slots, each of one person, in the caller's transaction."""
    counts = sorted((cipher.name(slot), slot, people) for slot, people in Counter(slots).items())
    for start in range(0, len(counts), _ROWS):
        values: list[object] = []
        for name, slot, people in counts[start : start + _ROWS]:
            values += (task, bucket, name, shard, people, cipher.seal(name, slot))
        places = ", ".join(["(?, ?, ?, ?, ?, ?)"] * (len(values) // 6))
        database.run(f"INSERT INTO slot_counts VALUES {places} {_ADD}", *values)


def read_slots(database: Database, task: int, bucket: int) -> Iterator[SlotCount]:
    """Yield id, people and encrypted slot of every distinct slot of a bucket, in the order of the ids."""
    name, shard, people, data = b"", -1, 0, b""
    begun = time.monotonic()
    while rows := database.rows(_READ, task, bucket, name, shard):
        for found, place, count, text in rows:
            if bytes(found) != name:
                if people:
                    yield name, people, data
                name, people, data = bytes(found), 0, bytes(text)
            shard, people = place, people + count
        rest(begun)
        begun = time.monotonic()
    if people:
        yield name, people, data


def count_people(database: Database, task: int, state: str) -> int:
    """Return the number of people in the counters of all buckets of a task that are in a state."""
    query = (
        "SELECT CAST(COALESCE(SUM(k.people), 0) AS BIGINT) FROM slot_counts k "
        "JOIN buckets b ON b.task = k.task AND b.bucket = k.bucket WHERE k.task = ? AND b.state = ?"
    )
    return int(database.rows(query, task, state)[0][0])


class Subtraction:
    """The draws of a bucket: for each slot one number, a function of the bucket's seed and of the slot alone.

    A release that is repeated, whatever process repeats it, subtracts the same numbers, and a slot's number does not
    depend on which other slots there are.

    >>> draws = Subtraction(bytes(32), Fakes.laplace(2.0, shift=35))
    >>> draws.number(b"slot") == draws.number(b"slot") >= 0
    True
    """

    def __init__(self, seed: bytes, drawn: Fakes) -> None:
        self._key, self._drawn = derive(seed, "subtracted"), drawn

    def number(self, slot: bytes) -> int:
        """Return the number that is subtracted from the count of a slot."""
        stream = KeyedStream(hmac.digest(self._key, slot, "sha256"))
        return draw_number(self._drawn, entropy=Buffered(stream))


def shown_slots(
    counts: Iterable[SlotCount], cipher: SlotCipher, draws: Subtraction, people: int
) -> list[tuple[bytes, int]]:
    """Return the slots whose count exceeds their draw, with the difference, in the order of their bytes.

    Raises unless the counters hold ``people`` in all.
    """
    shown: list[tuple[bytes, int]] = []
    total = 0
    for name, count, data in counts:
        slot = cipher.open(name, data)
        total += count
        left = count - draws.number(slot)
        if left > 0:
            shown.append((slot, left))
    if total != people:
        raise StoreFailure("the counters of a bucket do not have as many people as its bundles")
    # The order of the ids would tell nothing either; that of the bytes is the same for everyone who checks.
    return sorted(shown)


def release_seconds(people: int, taken: float) -> float:
    """Return how long a release must take that took ``taken`` seconds, whatever the number of distinct slots is.

    The analyzer knows when an epoch ends, and sees when its batch arrives. Where a machine is too slow, the time is
    doubled until it suffices: then it tells no more than how often.

    >>> [release_seconds(10_000, taken) for taken in (0.0, 0.9, 1.1)]
    [1.0, 1.0, 2.0]
    """
    seconds = people * SECONDS_PER_PERSON
    while 0 < seconds < taken:
        seconds *= 2
    return seconds


def chunk_of(shown: Sequence[tuple[bytes, int]]) -> bytes:
    """Return the bytes of a chunk: every slot and the number of people that is passed on.

    >>> chunk_of([(b"slot", 3)]).hex()
    '736c6f740000000000000003'
    """
    return b"".join(slot + people.to_bytes(PEOPLE_SIZE, "big") for slot, people in shown)
