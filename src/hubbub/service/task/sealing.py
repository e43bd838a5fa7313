"""Sealed messages: every message is encrypted to the analyzer, and a client's messages together to the shuffler.

Hybrid public-key encryption (RFC 9180, base mode, single shot). The task and the key id are bound into ``info``, so
bytes sealed under one contract do not open under another. All integers are big-endian; all slots, and all bundles, of a
contract have the same length. docs/sealing.md describes the format byte by byte.

Opening raises only :class:`SealError`, for any input; its reasons are :data:`REASONS`.
"""

import hashlib
import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from hubbub.errors import SealError, WireError, check_whole, reject
from hubbub.wire.bundles import ENCAPSULATED_KEY_SIZES, HEADER_SIZE, BundleLayout

Private = X25519PrivateKey | hpke.MLKEM768X25519PrivateKey
Public = X25519PublicKey | hpke.MLKEM768X25519PublicKey
Data = bytes | memoryview

REASONS = ("malformed", "wrong-length", "cannot-open", "bad-version", "bad-kind", "bad-padding")
"""The reasons for which bytes are rejected."""
VERSION = 2
"""Version of slots."""
BUNDLE_VERSION = 3
FILLER, REPORT = 0, 1
ID_SIZE = 16
MAX_BUNDLES = 256
"""Most bundles in one upload."""
MAX_KEY_ID = 2**16 - 1
_FAMILY = b"HBB"
_MAGIC = _FAMILY + str(BUNDLE_VERSION).encode()
_SUITE, _RESERVED, _KEY, _TASK = 4, 5, slice(6, 8), slice(8, HEADER_SIZE)
_SLOT_KEY = slice(0, 2)
BUNDLE_INFO, SLOT_INFO = b"hubbub/3 bundle", b"hubbub/2 slot"
"""The prefixes of HPKE's ``info``; the task and the key id follow."""


@dataclass(frozen=True, slots=True)
class Suite:
    """An encryption suite; 2 adds ML-KEM-768 (X-Wing), against quantum computers, to the X25519 of suite 1."""

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
"""The suites by their numbers on the wire."""


def generate(suite: int, *, entropy: Callable[[int], bytes] = os.urandom) -> tuple[bytes, bytes]:
    """Generate a key pair: 32 private bytes, which for suite 2 are the seed of X-Wing, and the public bytes.

    >>> [len(part) for suite in SUITES for part in generate(suite)]
    [32, 32, 32, 1216]
    """
    private = entropy(SUITES[suite].private)
    if suite == 1:
        return private, X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    lattice, curve = _expand(private)
    return private, lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()


def load_private(suite: int, private: bytes) -> Private:
    """Return the key object of private bytes; keep it to open many items."""
    if len(private) != SUITES[suite].private:
        raise WireError(f"a private key of suite {suite} must have {SUITES[suite].private} bytes, got {len(private)}")
    if suite == 1:
        return X25519PrivateKey.from_private_bytes(private)
    return hpke.MLKEM768X25519PrivateKey(*_expand(private))


def load_public(suite: int, public: bytes) -> Public:
    """Return the key object of public bytes."""
    if len(public) != SUITES[suite].public:
        raise WireError(f"a public key of suite {suite} must have {SUITES[suite].public} bytes, got {len(public)}")
    try:
        if suite == 1:
            return X25519PublicKey.from_public_bytes(public)
        lattice = MLKEM768PublicKey.from_public_bytes(public[:-32])
        return hpke.MLKEM768X25519PublicKey(lattice, X25519PublicKey.from_public_bytes(public[-32:]))
    except ValueError:
        raise WireError(f"the bytes are not a valid public key of suite {suite}") from None


def seal_slot(payload: bytes | None, layout: BundleLayout, key_id: int, public: Public) -> bytes:
    """Seal one message to the analyzer; None makes a filler, which only the analyzer can tell from a message.

    >>> layout = BundleLayout(bytes(16), 1, 1, 1, 5)
    >>> private, public = generate(1)
    >>> sealed = seal_slot(b"\\x04", layout, 7, load_public(1, public))
    >>> len(sealed), slot_key(sealed), open_slot(sealed, layout, load_private(1, private))
    (53, 7, b'\\x04')
    """
    if payload is None:
        plain = bytes([VERSION, FILLER]) + bytes(layout.payload)
    elif len(payload) != layout.payload or _exceeds(payload, layout):
        reject("the payload", f"be a legal payload of the plan, of {layout.payload} bytes")
    else:
        plain = bytes([VERSION, REPORT]) + payload
    key = _key_bytes(key_id)
    return key + _encrypt(layout.suite, plain, public, slot_info(layout, key))


def open_slot(sealed: Data, layout: BundleLayout, private: Private) -> bytes | None:
    """Return the payload, or None for a filler."""
    if len(sealed) != layout.slot_size:
        raise SealError("wrong-length")
    plain = _decrypt(layout.suite, sealed[2:], private, slot_info(layout, sealed[_SLOT_KEY]))
    if plain[0] != VERSION:
        raise SealError("bad-version")
    kind, payload = plain[1], plain[2:]
    if kind == REPORT:
        if _exceeds(payload, layout):
            raise SealError("bad-padding")
        return payload
    if kind != FILLER:
        raise SealError("bad-kind")
    if any(payload):
        raise SealError("bad-padding")
    return None


def seal_bundle(slots: Sequence[bytes], layout: BundleLayout, key_id: int, public: Public, admission: bytes) -> bytes:
    """Seal the admission and all slots of one client to the shuffler."""
    if len(slots) != layout.slots or any(len(slot) != layout.slot_size for slot in slots):
        reject("a bundle", f"have {layout.slots} sealed slots of {layout.slot_size} bytes")
    if len(admission) != layout.admission or len({slot[_SLOT_KEY] for slot in slots}) != 1:
        reject("a bundle", f"have an admission of {layout.admission} bytes and slots sealed to a single key")
    info = bundle_info(layout, _key_bytes(key_id))
    return bundle_header(layout, key_id) + _encrypt(layout.suite, admission + b"".join(slots), public, info)


def bundle_header(layout: BundleLayout, key_id: int) -> bytes:
    """Return the header of a bundle: magic, suite, a zero byte, key id and task."""
    return b"".join((_MAGIC, bytes([layout.suite, 0]), _key_bytes(key_id), layout.task))


def bundle_info(layout: BundleLayout, key: Data) -> bytes:
    """Return HPKE's ``info`` of a bundle; ``key`` is the key id as two bytes."""
    return b"".join((BUNDLE_INFO, layout.task, key))


def slot_info(layout: BundleLayout, key: Data) -> bytes:
    """Return HPKE's ``info`` of a slot; ``key`` is the key id as two bytes."""
    return b"".join((SLOT_INFO, layout.task, key))


@dataclass(frozen=True, slots=True)
class BundleContent:
    """The plaintext of a bundle: its admission, and its sealed slots, which all name the same analyzer key."""

    admission: bytes
    slots: list[bytes]


def open_bundle(bundle: Data, layout: BundleLayout, private: Private) -> BundleContent:
    """Return the admission and the sealed slots of a bundle."""
    if len(bundle) != layout.bundle_size:
        raise SealError("wrong-length")
    _check_header(bundle, layout)
    inner = _decrypt(layout.suite, bundle[HEADER_SIZE:], private, bundle_info(layout, bundle[_KEY]))
    return split_bundle(inner, layout)


def split_bundle(inner: bytes, layout: BundleLayout) -> BundleContent:
    """Split the plaintext of a bundle into its admission and its sealed slots."""
    step = layout.slot_size
    slots = [inner[start : start + step] for start in range(layout.admission, len(inner), step)]
    if len(slots) > 1 and len({slot[_SLOT_KEY] for slot in slots}) > 1:
        raise SealError("malformed")
    return BundleContent(inner[: layout.admission], slots)


def parse_upload(body: Data, layout: BundleLayout, contexts: Container[bytes] | None = None) -> list[bytes]:
    """Split an upload into its bundles, and check their headers without opening them.

    ``contexts`` are those of all rounds that bundles may be bound to, by default only that of the layout.
    """
    count, rest = divmod(len(body), layout.bundle_size)
    if rest or not 1 <= count <= MAX_BUNDLES:
        raise SealError("wrong-length")
    bundles = [bytes(body[i * layout.bundle_size : (i + 1) * layout.bundle_size]) for i in range(count)]
    for index, bundle in enumerate(bundles):
        try:
            _check_header(bundle, layout, contexts)
        except SealError as error:
            raise SealError(error.reason, index) from None
    return bundles


def bundle_context(bundle: Data) -> bytes:
    """Return the task, or the context of a round, that the header of a bundle names."""
    return bytes(bundle[_TASK])


def bundle_key(bundle: Data) -> int:
    """Return the id of the shuffler's key."""
    return int.from_bytes(bundle[_KEY], "big")


def slot_key(sealed: Data) -> int:
    """Return the id of the analyzer's key."""
    return int.from_bytes(sealed[_SLOT_KEY], "big")


def replay_id(bundle: Data, layout: BundleLayout) -> bytes:
    """Return a digest of the bundle's ephemeral key share, which only copies of the bundle have in common."""
    enc = bundle[HEADER_SIZE : HEADER_SIZE + SUITES[layout.suite].enc]
    return hashlib.sha256(b"".join((b"hubbub/2 replay", layout.task, enc))).digest()[:ID_SIZE]


def slot_id(sealed: Data) -> bytes:
    """Return a digest of the sealed slot."""
    return hashlib.sha256(sealed).digest()[:ID_SIZE]


def _check_header(bundle: Data, layout: BundleLayout, contexts: Container[bytes] | None = None) -> None:
    if bundle[: len(_FAMILY)] != _FAMILY or bundle[_RESERVED] != 0:
        raise SealError("malformed")
    if bundle[: len(_MAGIC)] != _MAGIC:
        raise SealError("bad-version")
    known = bundle[_TASK] == layout.task or (contexts is not None and bytes(bundle[_TASK]) in contexts)
    if bundle[_SUITE] != layout.suite or not known:
        raise SealError("cannot-open")


def _exceeds(payload: bytes, layout: BundleLayout) -> bool:
    """Return True if padding bits are set, or the index is not below the width."""
    return int.from_bytes(payload, "little") >= layout.limit


def _key_bytes(key_id: int) -> bytes:
    return check_whole("the key id", key_id, 0, MAX_KEY_ID).to_bytes(2, "big")


def _encrypt(suite: int, plain: bytes, public: Public, info: bytes) -> bytes:
    try:
        return SUITES[suite].hpke.encrypt(plain, public, info)
    except (ValueError, TypeError):
        # A public key of low order, or of another suite.
        raise WireError(f"the public key is not a valid key of suite {suite}") from None


def _decrypt(suite: int, sealed: Data, private: Private, info: bytes) -> bytes:
    try:
        return SUITES[suite].hpke.decrypt(sealed, private, info)
    except (InvalidTag, ValueError, TypeError):
        raise SealError("cannot-open") from None


def _expand(seed: bytes) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    """Return the two private keys of X-Wing from its seed (draft-connolly-cfrg-xwing-kem, expandDecapsulationKey)."""
    expanded = hashlib.shake_256(seed).digest(96)
    return MLKEM768PrivateKey.from_seed_bytes(expanded[:64]), X25519PrivateKey.from_private_bytes(expanded[64:])
