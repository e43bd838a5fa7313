"""Hybrid public-key encryption with given coins (RFC 9180, base mode, single shot): suite 1 of the services.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. Libraries draw the ephemeral key themselves; here it is derived
from ``coins``, so that equal plaintexts become equal bytes. Coins must be uniform for whoever is not to know the
plaintext, and must never be used for two plaintexts, keys or ``info``: they fix the key and the nonce.
"""

import hmac

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hubbub.errors import SealError, WireError

KEY_SIZE, TAG_SIZE = 32, 16
OVERHEAD = KEY_SIZE + TAG_SIZE
"""Bytes that sealing adds: the encapsulated key and the tag."""
_KEM, _SUITE = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x01"


def seal(plain: bytes, public: bytes, info: bytes, coins: bytes, associated: bytes = b"") -> bytes:
    """Return the encapsulated key and the ciphertext, sealed with the ephemeral key of DeriveKeyPair(coins)."""
    ephemeral = X25519PrivateKey.from_private_bytes(
        _expand(_KEM, _extract(_KEM, b"", b"dkp_prk", coins), b"sk", b"", KEY_SIZE)
    )
    encapsulated = ephemeral.public_key().public_bytes_raw()
    key, nonce = _schedule(_shared(ephemeral, public, encapsulated + public), info)
    return encapsulated + AESGCM(key).encrypt(nonce, plain, associated)


def unseal(sealed: bytes, private: X25519PrivateKey, info: bytes, associated: bytes = b"") -> bytes:
    """Return the plaintext; raise :class:`SealError` on bytes that do not open."""
    encapsulated, public = sealed[:KEY_SIZE], private.public_key().public_bytes_raw()
    try:
        key, nonce = _schedule(_shared(private, encapsulated, encapsulated + public), info)
        return AESGCM(key).decrypt(nonce, sealed[KEY_SIZE:], associated)
    except (InvalidTag, WireError):
        raise SealError("cannot-open") from None


def _shared(private: X25519PrivateKey, public: bytes, context: bytes) -> bytes:
    try:
        agreed = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        # Another length, or a key of low order.
        raise WireError("the public key must be a valid key of X25519") from None
    return _expand(_KEM, _extract(_KEM, b"", b"eae_prk", agreed), b"shared_secret", context, 32)


def _schedule(shared: bytes, info: bytes) -> tuple[bytes, bytes]:
    """Return the key and the nonce of the only message."""
    context = b"\0" + _extract(_SUITE, b"", b"psk_id_hash", b"") + _extract(_SUITE, b"", b"info_hash", info)
    secret = _extract(_SUITE, shared, b"secret", b"")
    return _expand(_SUITE, secret, b"key", context, 16), _expand(_SUITE, secret, b"base_nonce", context, 12)


def _extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, "sha256")


def _expand(suite: bytes, secret: bytes, label: bytes, info: bytes, size: int) -> bytes:
    """Return LabeledExpand of at most one block of SHA-256."""
    message = size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info + b"\1"
    return hmac.digest(secret, message, "sha256")[:size]
