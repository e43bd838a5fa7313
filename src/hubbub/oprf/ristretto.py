"""The prime-order group ristretto255 (RFC 9496) with SHA-512, on libsodium; elements and scalars are 32 bytes."""

from collections.abc import Callable

from hubbub.bits.device import take
from hubbub.errors import WireError
from hubbub.oprf import sodium
from hubbub.oprf.hashing import expand

NAME = "ristretto255-SHA512"
HASH = "sha512"
ELEMENT_SIZE = SCALAR_SIZE = sodium.SIZE


def available() -> bool:
    """Return True if libsodium is installed."""
    return sodium.library() is not None


def hash_to_element(message: bytes, tag: bytes) -> bytes:
    """Return the element that a message hashes to."""
    return sodium.from_hash(expand(message, tag, sodium.WIDE, HASH))


def hash_to_scalar(message: bytes, tag: bytes) -> bytes:
    """Return the scalar that a message hashes to."""
    return sodium.reduce(expand(message, tag, sodium.WIDE, HASH))


def random_scalar(entropy: Callable[[int], bytes]) -> bytes:
    """Draw a uniform scalar other than 0."""
    while not any(scalar := sodium.reduce(take(entropy, sodium.WIDE))):
        pass
    return scalar


def check_scalar(scalar: bytes) -> bytes:
    """Return the scalar if it is below the order of the group and not 0."""
    if len(scalar) != SCALAR_SIZE or not any(scalar) or sodium.reduce(scalar + bytes(32)) != scalar:
        raise WireError("a scalar of ristretto255 must be in canonical form and not 0")
    return scalar


def multiply(scalar: bytes, element: bytes) -> bytes:
    """Return a multiple of an element; raises on bytes that encode no element."""
    return sodium.multiply(scalar, element)


def multiply_base(scalar: bytes) -> bytes:
    """Return a multiple of the generator."""
    return sodium.multiply_base(scalar)


def add(one: bytes, two: bytes) -> bytes:
    """Return the sum of two elements."""
    return sodium.add(one, two)


def invert(scalar: bytes) -> bytes:
    """Return the inverse of a scalar."""
    return sodium.invert(scalar)


def response(nonce: bytes, challenge: bytes, secret: bytes) -> bytes:
    """Return nonce − challenge·secret."""
    return sodium.difference(nonce, sodium.product(challenge, secret))
