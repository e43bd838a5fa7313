"""Who an operator is: an Ed25519 key that signs contracts, key lists, manifests and receipts.

Every signature covers ``"hubbub/1 " + kind + 0x00 + body``, so that what was signed as one kind of document is not one
of another. The body is canonical JSON: what is signed is the value, not its spelling.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hubbub.canonical import Json, as_text, canonical, fields, parse
from hubbub.errors import FalseClaim, WireError, reject
from hubbub.service.runtime.secretfiles import read_secret, write_file

PUBLIC_SIZE = 32
SIGNATURE_SIZE = 64
_FILE_MARK = b"hubbub identity 1\n"


class Identity:
    """The private key of an operator; its repr shows the public one.

    >>> own = Identity.generate()
    >>> verify(own.public, "receipt", b"{}", own.sign("receipt", b"{}"))
    """

    __slots__ = ("_key", "public")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != PUBLIC_SIZE:
            reject("the seed of an identity", f"have {PUBLIC_SIZE} bytes", len(seed))
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Self:
        """A new one, from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read it; raises if anybody but the owner of the file may read it too."""
        text = read_secret(Path(path))
        mark, digits = text[: len(_FILE_MARK)], text[len(_FILE_MARK) :].strip()
        try:
            return cls(bytes.fromhex(digits.decode("ascii")) if mark == _FILE_MARK else b"")
        except ValueError:
            raise WireError(f"{Path(path).name} must be an identity written by hubbub, got something else") from None

    def save(self, path: Path | str) -> None:
        """Write it with mode 0600; never over another one."""
        write_file(Path(path), _FILE_MARK + self._key.private_bytes_raw().hex().encode() + b"\n")

    def sign(self, kind: str, body: bytes) -> bytes:
        """The signature of a document of this kind."""
        return self._key.sign(_message(kind, body))

    def __repr__(self) -> str:
        return f"Identity({self.public.hex()[:8]}…)"


def verify(public: bytes, kind: str, body: bytes, signature: bytes) -> None:
    """Raise :class:`FalseClaim` unless the holder of ``public`` signed this body as a document of this kind.

    >>> verify(Identity.generate().public, "receipt", b"{}", bytes(64))
    Traceback (most recent call last):
    hubbub.errors.FalseClaim: the receipt must be signed by its operator, got another signature
    """
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _message(kind, body))
    except (InvalidSignature, ValueError):
        raise FalseClaim(f"the {kind} must be signed by its operator, got another signature") from None


@dataclass(frozen=True, slots=True)
class SignedDocument:
    """A JSON value and one signature of its canonical form: ``{"body": …, "signature": "hex"}``.

    >>> own = Identity.generate()
    >>> text = SignedDocument.sign(own, "receipt", {"batch": "00"}).to_json()
    >>> SignedDocument.from_json(text).verify(own.public, "receipt")
    {'batch': '00'}
    """

    body: Json
    signature: bytes

    @classmethod
    def sign(cls, identity: Identity, kind: str, body: Json) -> Self:
        """Sign a value."""
        return cls(body, identity.sign(kind, canonical(body)))

    def verify(self, public: bytes, kind: str) -> Json:
        """The body, if the signature holds; raises :class:`FalseClaim` otherwise."""
        verify(public, kind, canonical(self.body), self.signature)
        return self.body

    def to_json(self) -> bytes:
        """Canonical JSON."""
        return canonical({"body": self.body, "signature": self.signature.hex()})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read one; the signature is not judged before :meth:`verify`."""
        read = fields(
            parse(text, "a signed document"),
            "a signed document",
            {"body": lambda value: value, "signature": as_bytes(SIGNATURE_SIZE)},
        )
        return cls(**read)  # type: ignore[arg-type]


def _message(kind: str, body: bytes) -> bytes:
    return b"hubbub/1 " + kind.encode() + b"\0" + body


def as_bytes(size: int) -> Callable[[Json], bytes]:
    """A reader for :func:`hubbub.canonical.fields`: lower-case hexadecimal digits of so many bytes.

    >>> as_bytes(2)("01ff")
    b'\\x01\\xff'
    """

    def read(value: Json) -> bytes:
        text = as_text(value)
        try:
            data = bytes.fromhex(text)
        except ValueError:
            data = b""
        if data.hex() != text or len(data) != size:
            raise WireError(f"bytes must be {2 * size} lower-case hexadecimal digits, got something else")
        return data

    return read
