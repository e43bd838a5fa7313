"""Blind RSA signatures: RSABSSA-SHA384-PSS-Deterministic of RFC 9474, without the private operation.

The client encodes its message, multiplies it by a random factor, and divides the signer's response by it. The signer
sees a uniformly random number, whatever the message; the result is an ordinary RSASSA-PSS signature. The private
operation is in :mod:`hubbub.service.issuer`, because only an issuer needs it.
"""

import hashlib
from collections.abc import Callable
from math import gcd

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from hubbub.errors import WireError

SALT_SIZE = 48
HASH_SIZE = 48
_PSS = padding.PSS(padding.MGF1(hashes.SHA384()), SALT_SIZE)


def encode(message: bytes, bits: int, salt: bytes) -> int:
    """Return EMSA-PSS-ENCODE of a message with SHA-384 and MGF1 as a number of at most ``bits`` bits.

    [RFC 8017 section 9.1.1]
    """
    size = -(-bits // 8)
    digest = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    block = bytes(size - len(salt) - HASH_SIZE - 2) + b"\x01" + salt
    masked = bytearray(one ^ mask for one, mask in zip(block, _mgf1(digest, len(block)), strict=True))
    masked[0] &= 0xFF >> (8 * size - bits)
    return int.from_bytes(bytes(masked) + digest + b"\xbc", "big")


def random_factor(public: rsa.RSAPublicKey, entropy: Callable[[int], bytes]) -> int:
    """Return a uniformly distributed blinding factor in [1, n) that has an inverse modulo n [RFC 9474 section 4.2]."""
    modulus = public.public_numbers().n
    size = modulus_size(public)
    while True:
        # Rejection, because a remainder would make small factors more likely and the request would depend on them.
        factor = int.from_bytes(entropy(size), "big")
        if 0 < factor < modulus and gcd(factor, modulus) == 1:
            return factor


def blind(public: rsa.RSAPublicKey, message: bytes, salt: bytes, factor: int) -> bytes:
    """Return the blinded message that the signer receives: Blind of RFC 9474, section 4.2."""
    numbers = public.public_numbers()
    encoded = encode(message, numbers.n.bit_length() - 1, salt)
    if gcd(encoded, numbers.n) != 1:
        # It would factor the modulus; the chance is below 2⁻¹⁰⁰⁰.
        raise WireError("the message has a common divisor with the issuer's key")
    blinded = encoded * pow(factor, numbers.e, numbers.n) % numbers.n
    return blinded.to_bytes(modulus_size(public), "big")


def finalize(public: rsa.RSAPublicKey, message: bytes, response: bytes, factor: int) -> bytes:
    """Return the signature of the message from the signer's response: Finalize of RFC 9474, section 4.4.

    Raises :class:`WireError` unless the signature is valid.
    """
    modulus, size = public.public_numbers().n, modulus_size(public)
    blinded = int.from_bytes(response, "big")
    if len(response) != size or blinded >= modulus:
        raise WireError(f"the issuer's response must be a number of {size} bytes below its modulus")
    signature = (blinded * pow(factor, -1, modulus) % modulus).to_bytes(size, "big")
    if not verify(public, message, signature):
        raise WireError("the issuer's response is not a valid signature of the request")
    return signature


def verify(public: rsa.RSAPublicKey, message: bytes, signature: bytes) -> bool:
    """Return True if a signature is valid: RSASSA-PSS-VERIFY with SHA-384 and a salt of 48 bytes."""
    try:
        public.verify(signature, message, _PSS, hashes.SHA384())
    except InvalidSignature:
        return False
    return True


def modulus_size(public: rsa.RSAPublicKey) -> int:
    """Return the bytes of the modulus."""
    return -(-public.key_size // 8)


def _mgf1(seed: bytes, size: int) -> bytes:
    """Return the mask of RFC 8017, appendix B.2.1, with SHA-384."""
    blocks = range(-(-size // HASH_SIZE))
    return b"".join(hashlib.sha384(seed + count.to_bytes(4, "big")).digest() for count in blocks)[:size]
