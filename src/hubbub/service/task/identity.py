"""Operator identities: Ed25519 keys that sign contracts, key lists, manifests and receipts.

Every signature covers ``"hubbub/2 " + kind + 0x00 + body``, so a signature of one kind of document is invalid for every
other kind. The body is canonical JSON: the signature covers the value, not its spelling.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hubbub.documents import Document, Fields, Json, canonical, hex_bytes, parse
from hubbub.errors import FalseClaim, WireError, reject
from hubbub.service.runtime.credentials import read_key, write_key

PUBLIC_SIZE = 32
SIGNATURE_SIZE = 64
_FILE_HEADER = b"hubbub identity 1\n"
D = TypeVar("D", bound=Document)


class Identity:
    """The private key of an operator; its repr shows the public key.

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
        """Generate an identity from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read an identity file; raises if anyone but its owner may read it."""
        return cls(read_key(Path(path), _FILE_HEADER, "an identity file"))

    def save(self, path: Path | str) -> None:
        """Write the identity to a new file of mode 0600."""
        write_key(Path(path), _FILE_HEADER, self._key.private_bytes_raw())

    def sign(self, kind: str, body: bytes) -> bytes:
        """Return the signature of a document of this kind."""
        return self._key.sign(_message(kind, body))

    def __repr__(self) -> str:
        return f"Identity({self.public.hex()[:8]}…)"


def verify(public: bytes, kind: str, body: bytes, signature: bytes) -> None:
    """Raise :class:`FalseClaim` unless the holder of ``public`` signed this body as a document of this kind.

    >>> verify(Identity.generate().public, "receipt", b"{}", bytes(64))
    Traceback (most recent call last):
    hubbub.errors.FalseClaim: the receipt is not signed by its operator
    """
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _message(kind, body))
    except (InvalidSignature, ValueError):
        raise FalseClaim(f"the {kind} is not signed by its operator") from None


@dataclass(frozen=True, slots=True)
class SignedDocument:
    """A JSON value with one signature over its canonical form: ``{"body": …, "signature": "hex"}``.

    >>> own = Identity.generate()
    >>> body = {"format": document_format("receipt"), "batch": "00"}
    >>> text = SignedDocument.sign(own, "receipt", body).to_json()
    >>> SignedDocument.from_json(text).read(own.public, "receipt", "batch").text("batch")
    '00'
    """

    body: Json
    signature: bytes

    @classmethod
    def sign(cls, identity: Identity, kind: str, body: Json) -> Self:
        """Sign a value as a document of this kind."""
        return cls(body, identity.sign(kind, canonical(body)))

    @classmethod
    def sign_as(cls, identity: Identity, kind: str, document: Document, **more: Json) -> bytes:
        """Return the JSON of a signed document with the kind's format, its own entries and some more."""
        return cls.sign(identity, kind, {"format": document_format(kind), **more, **document.to_document()}).to_json()

    def verify(self, public: bytes, kind: str) -> Json:
        """Return the body if the signature is valid; raise :class:`FalseClaim` otherwise."""
        verify(public, kind, canonical(self.body), self.signature)
        return self.body

    def read(self, public: bytes, kind: str, *keys: str) -> Fields:
        """Verify the signature, and return the body as an object of the kind's format with exactly these keys."""
        read = Fields(self.verify(public, kind), f"the {kind}", "format", *keys)
        if read.text("format") != document_format(kind):
            raise WireError(f"the format of the {kind} must be {document_format(kind)!r}")
        return read

    def read_as(self, public: bytes, kind: str, wanted: type[D], *more: str) -> tuple[D, Fields]:
        """Verify the signature, and return the document that :meth:`sign_as` wrote, and all entries."""
        names = [one.name for one in fields(wanted)]
        read = self.read(public, kind, *more, *names)
        return wanted.from_document({name: read[name] for name in names}, f"the {kind}"), read

    def to_json(self) -> bytes:
        """Return the canonical JSON."""
        return canonical({"body": self.body, "signature": self.signature.hex()})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse a document without verifying its signature."""
        read = Fields(parse(text, "the signed document"), "the signed document", "body", "signature")
        return cls(read["body"], hex_bytes(read.text("signature"), SIGNATURE_SIZE, "the signature"))


def document_format(kind: str) -> str:
    """Return the format line of a kind of signed document.

    >>> document_format("manifest")
    'hubbub manifest 2'
    """
    return f"hubbub {kind} 2"


def _message(kind: str, body: bytes) -> bytes:
    return b"hubbub/2 " + kind.encode() + b"\0" + body
