"""Privacy Pass tokens of type 2, Blind RSA with 2048 bits: challenge, request, token and verification (RFC 9577, 9578).

A token is ``type 2 | nonce 32 | challenge digest 32 | key id 32 | signature 256``, 354 bytes. The challenge names the
issuer and the task. The issuer signs blindly: it cannot connect a token with the request it answered, and it cannot see
for which task a request is, so every task has its own issuer key, which the contract names.
"""

import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from hubbub.errors import WireError
from hubbub.service.task import blindrsa
from hubbub.wire.bundles import ADMISSION_SIZES

TOKEN_TYPE = b"\x00\x02"
TOKEN_SIZE = ADMISSION_SIZES["token"]
KEY_BITS = 2048
KEY_SIZE = 342
"""Bytes of an issuer's public key as SubjectPublicKeyInfo."""
REQUEST_SIZE, RESPONSE_SIZE = 259, 256
ID_SIZE = 16
_EXPONENT = 65537
_NONCE_SIZE, _DIGEST_SIZE = 32, 32
_INPUT_SIZE = TOKEN_SIZE - RESPONSE_SIZE
_CONTEXT = b"hubbub/2 admission"
_ALGORITHM = bytes.fromhex(
    "303d06092a864886f70d01010a3030a00d300b0609608648016503040202"
    "a11a301806092a864886f70d010108300b0609608648016503040202a203020130"
)
"""AlgorithmIdentifier of RSASSA-PSS with SHA-384, MGF1 with SHA-384 and a salt of 48 bytes [RFC 9578 section 6.5]."""


def encode_token_key(public: rsa.RSAPublicKey) -> bytes:
    """Return an issuer's public key as SubjectPublicKeyInfo under the OID of RSASSA-PSS [RFC 9578 section 6.5]."""
    inner = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.PKCS1)
    body = _ALGORITHM + _der(0x03, b"\x00" + inner)
    return _der(0x30, body)


def load_token_key(data: bytes) -> rsa.RSAPublicKey:
    """Parse an issuer's public key; accepts 2048 bits, the exponent 65537 and the canonical encoding only."""
    public = None
    if len(data) == KEY_SIZE:
        # What precedes the PKCS #1 key has a fixed length; encoding the key again compares it.
        start = 4 + len(_ALGORITHM) + 5
        try:
            public = serialization.load_der_public_key(data[start:])
        except (ValueError, TypeError, UnsupportedAlgorithm):
            public = None
    if (
        not isinstance(public, rsa.RSAPublicKey)
        or public.key_size != KEY_BITS
        or public.public_numbers().e != _EXPONENT
        or public.public_numbers().n % 2 == 0
        or encode_token_key(public) != data
    ):
        raise WireError(
            f"the issuer's key must be an RSASSA-PSS key with {KEY_BITS} bits and SHA-384 as SubjectPublicKeyInfo, "
            f"{KEY_SIZE} bytes"
        )
    return public


def challenge(issuer: str, task: bytes) -> bytes:
    """Return the TokenChallenge of a task: type, issuer name, redemption context, empty origin [RFC 9577 section 2.1].

    >>> challenge("a", bytes(16)).hex()[:8], len(challenge("a", bytes(16)))
    ('00020001', 40)
    """
    name = issuer.encode("ascii")
    context = hashlib.sha256(_CONTEXT + task).digest()
    return b"".join((TOKEN_TYPE, _vector(name, 2), _vector(context, 1), _vector(b"", 2)))


def truncated_key_id(key: bytes) -> int:
    """Return the last byte of a key's id, by which requests name the key [RFC 9578 section 6.1]."""
    return hashlib.sha256(key).digest()[-1]


@dataclass(frozen=True, slots=True)
class PendingToken:
    """The secrets of a token that is being requested; keep them, or the issued token is lost.

    The request is a function of them, so a repeated request has the same bytes and gets the same response.
    """

    nonce: bytes
    salt: bytes
    factor: int
    """The blinding factor."""

    @classmethod
    def generate(cls, key: bytes, *, entropy: Callable[[int], bytes] = os.urandom) -> Self:
        """Draw new secrets for a token under an issuer's key."""
        factor = blindrsa.random_factor(load_token_key(key), entropy)
        return cls(entropy(_NONCE_SIZE), entropy(blindrsa.SALT_SIZE), factor)

    def to_bytes(self) -> bytes:
        """Return nonce, salt and blinding factor."""
        return self.nonce + self.salt + self.factor.to_bytes(RESPONSE_SIZE, "big")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse the result of :meth:`to_bytes`."""
        if len(data) != _NONCE_SIZE + blindrsa.SALT_SIZE + RESPONSE_SIZE:
            raise WireError("the secrets of a requested token have the wrong length")
        end = _NONCE_SIZE + blindrsa.SALT_SIZE
        return cls(data[:_NONCE_SIZE], data[_NONCE_SIZE:end], int.from_bytes(data[end:], "big"))

    def request(self, key: bytes, challenged: bytes) -> bytes:
        """Return the TokenRequest: type, truncated key id and blinded message [RFC 9578 section 6.1]."""
        message = token_input(self.nonce, challenged, key)
        blinded = blindrsa.blind(load_token_key(key), message, self.salt, self.factor)
        return TOKEN_TYPE + bytes([truncated_key_id(key)]) + blinded

    def finalize(self, key: bytes, challenged: bytes, response: bytes) -> bytes:
        """Return the token from the issuer's response; raise :class:`WireError` if the response is wrong."""
        message = token_input(self.nonce, challenged, key)
        return message + blindrsa.finalize(load_token_key(key), message, response, self.factor)


def token_input(nonce: bytes, challenged: bytes, key: bytes) -> bytes:
    """Return the signed part of a token [RFC 9578 section 6.1]."""
    return TOKEN_TYPE + nonce + hashlib.sha256(challenged).digest() + hashlib.sha256(key).digest()


def parse_request(data: bytes) -> tuple[int, bytes]:
    """Return the truncated key id and the blinded message of a TokenRequest."""
    if len(data) != REQUEST_SIZE or data[:2] != TOKEN_TYPE:
        raise WireError(f"a token request must have {REQUEST_SIZE} bytes and the token type 2")
    return data[2], data[3:]


class TokenVerifier:
    """Checks the tokens of one issuer key and one challenge."""

    def __init__(self, key: bytes, challenged: bytes) -> None:
        self._public = load_token_key(key)
        self._expected = TOKEN_TYPE + hashlib.sha256(challenged).digest() + hashlib.sha256(key).digest()

    def valid(self, token: bytes) -> bool:
        """Return True if the bytes are a token of the key for the challenge."""
        if len(token) != TOKEN_SIZE:
            return False
        same = hmac.compare_digest(token[:2] + token[2 + _NONCE_SIZE : _INPUT_SIZE], self._expected)
        return blindrsa.verify(self._public, token[:_INPUT_SIZE], token[_INPUT_SIZE:]) and same


def spent_id(token: bytes) -> bytes:
    """Return the id under which a token is spent."""
    return hashlib.sha256(b"hubbub/2 token" + token[2 : 2 + _NONCE_SIZE]).digest()[:ID_SIZE]


def _vector(data: bytes, prefix: int) -> bytes:
    return len(data).to_bytes(prefix, "big") + data


def _der(tag: int, body: bytes) -> bytes:
    """Return a DER element whose body has 256 to 65,535 bytes."""
    return bytes([tag, 0x82]) + len(body).to_bytes(2, "big") + body
