"""What is sent: every message sealed to the analyzer, a fixed number of them sealed together to the shuffler.

Hybrid public-key encryption (RFC 9180, base mode, single shot). The contract's task and the key's number are bound into
``info``: what was sealed under one contract does not open under another. All numbers are big-endian; every slot, and
every bundle, of a contract has one length. The bytes are drawn in docs/sealing.md.

Opening raises :class:`SealError` and nothing else, whatever bytes come; its reasons are :data:`REASONS`.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from hubbub.bundles import ENCAPSULATED_KEY_SIZES, HEADER_SIZE, TOKEN_SIZE, BundleLayout
from hubbub.errors import SealError, WireError, check_whole, reject

Private = X25519PrivateKey | hpke.MLKEM768X25519PrivateKey
Public = X25519PublicKey | hpke.MLKEM768X25519PublicKey
Data = bytes | memoryview

REASONS = ("malformed", "wrong-length", "cannot-open", "bad-version", "bad-kind", "bad-padding")
"""Why bytes are refused."""

VERSION = 1
FILLER, REPORT = 0, 1
ID_SIZE = 16
MOST_BUNDLES = 256
"""Bundles of one upload."""
_KEY = slice(4, 6)
_MARK = b"HB" + bytes([VERSION])
BUNDLE_INFO, SLOT_INFO = b"hubbub/1 bundle", b"hubbub/1 slot"
"""What HPKE's ``info`` starts with; the task and the key's number follow."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Algorithms and sizes. 1 is X25519; 2 adds ML-KEM-768 (X-Wing) against those who record now and compute later."""

    number: int
    kem: hpke.KEM
    private: int
    public: int
    enc: int
    hpke: "hpke.Suite" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hpke", hpke.Suite(self.kem, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM))


SUITES: Mapping[int, Suite] = MappingProxyType(
    {
        1: Suite(1, hpke.KEM.X25519, 32, 32, ENCAPSULATED_KEY_SIZES[1]),
        2: Suite(2, hpke.KEM.MLKEM768_X25519, 32, 1216, ENCAPSULATED_KEY_SIZES[2]),
    }
)
"""By their numbers on the wire."""


def generate(suite: int, *, entropy: Callable[[int], bytes] = os.urandom) -> tuple[bytes, bytes]:
    """A new key pair: 32 private bytes, which for suite 2 are the seed of X-Wing, and the public bytes.

    >>> [len(part) for suite in SUITES for part in generate(suite)]
    [32, 32, 32, 1216]
    """
    private = entropy(SUITES[suite].private)
    if suite == 1:
        return private, X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    lattice, curve = _expand(private)
    return private, lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()


def load_private(suite: int, private: bytes) -> Private:
    """The key object of private bytes; worth keeping, where many are opened."""
    if len(private) != SUITES[suite].private:
        raise WireError(f"a private key of suite {suite} must have {SUITES[suite].private} bytes, got {len(private)}")
    if suite == 1:
        return X25519PrivateKey.from_private_bytes(private)
    return hpke.MLKEM768X25519PrivateKey(*_expand(private))


def load_public(suite: int, public: bytes) -> Public:
    """The key object of public bytes."""
    if len(public) != SUITES[suite].public:
        raise WireError(f"a public key of suite {suite} must have {SUITES[suite].public} bytes, got {len(public)}")
    try:
        if suite == 1:
            return X25519PublicKey.from_public_bytes(public)
        lattice = MLKEM768PublicKey.from_public_bytes(public[:-32])
        return hpke.MLKEM768X25519PublicKey(lattice, X25519PublicKey.from_public_bytes(public[-32:]))
    except ValueError:
        raise WireError(f"a public key of suite {suite} must be one, got other bytes") from None


def seal_slot(payload: bytes | None, shape: BundleLayout, key_id: int, public: Public) -> bytes:
    """One message sealed to the analyzer; None makes a filler, which nobody else can tell from a message.

    >>> shape = BundleLayout(bytes(16), 1, 1, 1, 5)
    >>> private, public = generate(1)
    >>> sealed = seal_slot(b"\\x04", shape, 7, load_public(1, public))
    >>> len(sealed), slot_key(sealed), open_slot(sealed, shape, load_private(1, private))
    (53, 7, b'\\x04')
    """
    if payload is None:
        plain = bytes([VERSION, FILLER]) + bytes(shape.payload)
    elif len(payload) != shape.payload or int.from_bytes(payload, "little") >= shape.limit:
        reject("the payload", "be one of the contract's plan", "another")
    else:
        plain = bytes([VERSION, REPORT]) + payload
    key = _key_bytes(key_id)
    return key + _encrypt(shape.suite, plain, public, SLOT_INFO + shape.task + key)


def open_slot(sealed: Data, shape: BundleLayout, private: Private) -> bytes | None:
    """The payload, or None for a filler."""
    if len(sealed) != shape.slot_size:
        raise SealError("wrong-length")
    try:
        plain = SUITES[shape.suite].hpke.decrypt(sealed[2:], private, b"".join((SLOT_INFO, shape.task, sealed[:2])))
    except (InvalidTag, ValueError, TypeError):
        raise SealError("cannot-open") from None
    if plain[0] != VERSION:
        raise SealError("bad-version")
    kind, payload = plain[1], plain[2:]
    if kind == REPORT:
        if int.from_bytes(payload, "little") >= shape.limit:
            raise SealError("bad-padding")
        return payload
    if kind != FILLER:
        raise SealError("bad-kind")
    if any(payload):
        raise SealError("bad-padding")
    return None


def seal_bundle(
    slots: Sequence[bytes], shape: BundleLayout, key_id: int, public: Public, token: bytes = bytes(TOKEN_SIZE)
) -> bytes:
    """All sealed slots of one client, sealed to the shuffler."""
    if len(slots) != shape.slots or any(len(slot) != shape.slot_size for slot in slots):
        reject("a bundle", f"have {shape.slots} sealed slots of {shape.slot_size} bytes", len(slots))
    if len(token) != TOKEN_SIZE or len({slot[:2] for slot in slots}) != 1:
        reject("a bundle", f"have a token of {TOKEN_SIZE} bytes and slots of one key", "another")
    key = _key_bytes(key_id)
    sealed = _encrypt(shape.suite, token + b"".join(slots), public, BUNDLE_INFO + shape.task + key)
    return bundle_header(shape, key_id) + sealed


def bundle_header(shape: BundleLayout, key_id: int) -> bytes:
    """What stands before the sealed part of a bundle."""
    return b"".join((_MARK, bytes([shape.suite]), _key_bytes(key_id), bytes(2), shape.task))


def open_bundle(bundle: Data, shape: BundleLayout, private: Private) -> list[bytes]:
    """The sealed slots of a bundle, all under one analyzer key."""
    if len(bundle) != shape.bundle_size:
        raise SealError("wrong-length")
    _check_header(bundle, shape)
    try:
        inner = SUITES[shape.suite].hpke.decrypt(
            bundle[HEADER_SIZE:], private, b"".join((BUNDLE_INFO, shape.task, bundle[_KEY]))
        )
    except (InvalidTag, ValueError, TypeError):
        raise SealError("cannot-open") from None
    return split_bundle(inner, shape)


def split_bundle(inner: bytes, shape: BundleLayout) -> list[bytes]:
    """The sealed slots in the content of an opened bundle."""
    step = shape.slot_size
    slots = [inner[start : start + step] for start in range(TOKEN_SIZE, len(inner), step)]
    if len(slots) > 1 and len({slot[:2] for slot in slots}) > 1:
        raise SealError("malformed")
    return slots


def parse_upload(body: Data, shape: BundleLayout) -> list[bytes]:
    """The bundles of an upload, their headers checked; nothing is opened."""
    count, rest = divmod(len(body), shape.bundle_size)
    if rest or not 1 <= count <= MOST_BUNDLES:
        raise SealError("wrong-length")
    bundles = [bytes(body[i * shape.bundle_size : (i + 1) * shape.bundle_size]) for i in range(count)]
    for index, bundle in enumerate(bundles):
        try:
            _check_header(bundle, shape)
        except SealError as error:
            raise SealError(error.reason, index) from None
    return bundles


def bundle_key(bundle: Data) -> int:
    """The number of the shuffler's key."""
    return int.from_bytes(bundle[_KEY], "big")


def slot_key(sealed: Data) -> int:
    """The number of the analyzer's key."""
    return int.from_bytes(sealed[:2], "big")


def replay_id(bundle: Data, shape: BundleLayout) -> bytes:
    """What a repeated bundle shares with the first, and no other bundle does: a digest of its fresh key share."""
    enc = bundle[HEADER_SIZE : HEADER_SIZE + SUITES[shape.suite].enc]
    return hashlib.sha256(b"".join((b"hubbub/1 replay", shape.task, enc))).digest()[:ID_SIZE]


def slot_id(sealed: Data) -> bytes:
    """A digest of the sealed slot."""
    return hashlib.sha256(sealed).digest()[:ID_SIZE]


def _check_header(bundle: Data, shape: BundleLayout) -> None:
    if bundle[:2] != b"HB" or bundle[6:8] != b"\0\0":
        raise SealError("malformed")
    if bundle[2] != VERSION:
        raise SealError("bad-version")
    if bundle[3] != shape.suite or bundle[8:HEADER_SIZE] != shape.task:
        raise SealError("cannot-open")


def _key_bytes(key_id: int) -> bytes:
    return check_whole("the number of a key", key_id, 0, 2**16 - 1).to_bytes(2, "big")


def _encrypt(suite: int, plain: bytes, public: Public, info: bytes) -> bytes:
    try:
        return SUITES[suite].hpke.encrypt(plain, public, info)
    except (ValueError, TypeError):
        # A public key of low order, or of another suite.
        raise WireError(f"a public key of suite {suite} must be one, got another") from None


def _expand(seed: bytes) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    """The two private keys of X-Wing from its seed (draft-connolly-cfrg-xwing-kem, expandDecapsulationKey)."""
    expanded = hashlib.shake_256(seed).digest(96)
    return MLKEM768PrivateKey.from_seed_bytes(expanded[:64]), X25519PrivateKey.from_private_bytes(expanded[64:])
