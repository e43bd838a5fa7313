"""A store that is filled without uploads: the same rows as millions of uploads leave behind, in minutes."""

import contextlib
import hashlib
import hmac
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from benchmarks.services.processes import Bench, random_payloads
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.shuffler.blocks import ID_SIZE, BlockCipher, bucket_secret
from hubbub.service.task.contract import Contract
from hubbub.service.task.keylist import PublicKey
from hubbub.service.task.sealing import ID_SIZE as REPLAY_SIZE
from hubbub.service.task.sealing import REPORT, VERSION, slot_info

PER_BLOCK = 500
"""Slots per block, as in a transaction of five uploads of a hundred."""
_STEP = 100_000


def fill(bench: Bench, count: int, key: PublicKey) -> None:
    """Add that many bundles of one slot to the open bucket of a shuffler on SQLite that is not running."""
    folder = bench.folder / "shuffler"
    with contextlib.closing(sqlite3.connect(folder / "shuffler.db", isolation_level=None)) as store:
        store.execute("PRAGMA synchronous = off")
        store.execute("PRAGMA cache_size = -262144")
        ((task, bucket),) = store.execute("SELECT number, bucket FROM tasks").fetchall()
        secret = Credentials(folder / "credentials", "shuffler").read(bucket_secret(bench.contract.task, bucket))
        assert secret is not None
        store.execute("BEGIN")
        for table in ("accepted_bundles", "spent_tokens"):
            rows = ((task, one) for one in _sorted_ids(count, REPLAY_SIZE))
            store.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        blocks = _blocks(count, bench.contract, key, BlockCipher(secret))
        store.executemany("INSERT INTO blocks VALUES (?, ?, ?, ?, ?)", ((task, bucket, *block) for block in blocks))
        store.execute("INSERT INTO counts VALUES (?, ?, -1, ?)", (task, bucket, count))
        store.execute("COMMIT")


def _sorted_ids(count: int, size: int) -> Iterator[bytes]:
    """Yield distinct random ids in ascending order, which fills an index fastest and leaves it as full as it gets."""
    raw = np.sort(np.frombuffer(os.urandom(count * size), f"S{size}")).tobytes()
    for start in range(0, len(raw), size):
        yield raw[start : start + size]


def _blocks(count: int, contract: Contract, key: PublicKey, cipher: BlockCipher) -> Iterator[tuple[bytes, int, bytes]]:
    ids = _sorted_ids(-(-count // PER_BLOCK), ID_SIZE)
    for start in range(0, count, _STEP):
        slots = list(_slots(min(_STEP, count - start), contract, key))
        for first in range(0, len(slots), PER_BLOCK):
            some = slots[first : first + PER_BLOCK]
            yield cipher.block(next(ids), len(some), b"".join(sorted(some)))


def _slots(count: int, contract: Contract, key: PublicKey) -> Iterator[bytes]:
    """Yield sealed slots of random records that share one ephemeral key, which takes a twentieth of the time.

    No client may do this, because it reuses the nonce of AES-GCM. To the services it makes no difference: the slots are
    distinct, and opening one takes as long as any other.
    """
    share, cipher, nonce = _encapsulate(key.public, slot_info(contract.layout, key.id.to_bytes(2, "big")))
    head = key.id.to_bytes(2, "big") + share
    prefix = bytes([VERSION, REPORT])
    for payload in random_payloads(count, contract.plan):
        yield head + cipher.encrypt(nonce, prefix + payload.tobytes(), b"")


def _encapsulate(public: bytes, info: bytes) -> tuple[bytes, AESGCM, bytes]:
    """Return the key share, the cipher and the first nonce of HPKE in base mode with suite 1 (RFC 9180, section 5)."""
    private = X25519PrivateKey.generate()
    share = private.public_key().public_bytes_raw()
    shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x01"
    prk = _extract(b"", kem, b"eae_prk", shared)
    shared = _expand(prk, kem, b"shared_secret", share + public, 32)
    context = b"\0" + _extract(b"", suite, b"psk_id_hash", b"") + _extract(b"", suite, b"info_hash", info)
    secret = _extract(shared, suite, b"secret", b"")
    return (
        share,
        AESGCM(_expand(secret, suite, b"key", context, 16)),
        _expand(secret, suite, b"base_nonce", context, 12),
    )


def _extract(salt: bytes, suite: bytes, label: bytes, key: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, hashlib.sha256)


def _expand(key: bytes, suite: bytes, label: bytes, info: bytes, size: int) -> bytes:
    return hmac.digest(key, size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info + b"\x01", hashlib.sha256)[
        :size
    ]


def store_of(bench: Bench) -> Path:
    """Return the file of the shuffler's store."""
    return bench.folder / "shuffler" / "shuffler.db"
