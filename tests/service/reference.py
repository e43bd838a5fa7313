"""RFC 9180 in base mode, written from its text with bare primitives, to check the library that seals.

Only for sequence number 0, as single-shot encryption has no other. X-Wing by draft-connolly-cfrg-xwing-kem.
"""

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEMS = {1: 0x0020, 2: 0x647A}
HKDF_SHA256, AES_128_GCM = 1, 1


def extract(salt: bytes, label: bytes, ikm: bytes, suite: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + ikm, "sha256")


def expand(prk: bytes, label: bytes, info: bytes, length: int, suite: bytes) -> bytes:
    """Expand to at most one block, which is all that HPKE needs here."""
    assert length <= 32
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(prk, labelled + b"\x01", "sha256")[:length]


def schedule(shared: bytes, info: bytes, number: int) -> tuple[bytes, bytes]:
    """Return the key and the nonce of the AEAD."""
    suite = b"HPKE" + b"".join(part.to_bytes(2, "big") for part in (KEMS[number], HKDF_SHA256, AES_128_GCM))
    context = b"\0" + extract(b"", b"psk_id_hash", b"", suite) + extract(b"", b"info_hash", info, suite)
    secret = extract(shared, b"secret", b"", suite)
    return expand(secret, b"key", context, 16, suite), expand(secret, b"base_nonce", context, 12, suite)


def dh_secret(dh: bytes, enc: bytes, public: bytes) -> bytes:
    """Return ExtractAndExpand of DHKEM(X25519, HKDF-SHA256)."""
    suite = b"KEM" + KEMS[1].to_bytes(2, "big")
    return expand(extract(b"", b"eae_prk", dh, suite), b"shared_secret", enc + public, 32, suite)


def decapsulate(private: bytes, enc: bytes, number: int) -> bytes:
    """Return the shared secret."""
    if number == 1:
        key = X25519PrivateKey.from_private_bytes(private)
        dh = key.exchange(X25519PublicKey.from_public_bytes(enc))
        return dh_secret(dh, enc, key.public_key().public_bytes_raw())
    seed = hashlib.shake_256(private).digest(96)
    lattice, key = MLKEM768PrivateKey.from_seed_bytes(seed[:64]), X25519PrivateKey.from_private_bytes(seed[64:])
    first = lattice.decapsulate(enc[:1088])
    second = key.exchange(X25519PublicKey.from_public_bytes(enc[1088:]))
    combined = first + second + enc[1088:] + key.public_key().public_bytes_raw() + rb"\.//^" + b"\\"
    return hashlib.sha3_256(combined).digest()


def open_(private: bytes, sealed: bytes, info: bytes, number: int, aad: bytes = b"") -> bytes:
    size = 32 if number == 1 else 1120
    key, nonce = schedule(decapsulate(private, sealed[:size], number), info, number)
    return AESGCM(key).decrypt(nonce, sealed[size:], aad)


def seal(ephemeral: bytes, public: bytes, plain: bytes, info: bytes, aad: bytes = b"") -> bytes:
    """Seal with suite 1 and a given ephemeral key, for golden files only."""
    key = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = key.public_key().public_bytes_raw()
    shared = dh_secret(key.exchange(X25519PublicKey.from_public_bytes(public)), enc, public)
    secret, nonce = schedule(shared, info, 1)
    return enc + AESGCM(secret).encrypt(nonce, plain, aad)
