"""Signed key lists: the public keys of one role, dated, valid for a limited time.

Clients check the dates before they seal, so that an old list cannot be replayed for long. The shuffler, which relays
the analyzer's list, pins every key id to its public bytes for ever: an analyzer that gave different people different
keys under one id could tell their reports apart.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Literal, Self

from hubbub.documents import Fields, Json, canonical, legal
from hubbub.errors import FalseClaim, WireError, check_choice, check_whole, reject
from hubbub.service.task.identity import Identity, SignedDocument, document_format, hex_bytes
from hubbub.service.task.sealing import MAX_KEY_ID, SUITES

CLOCK_TOLERANCE = 86_400
"""Seconds that the clocks of two parties may differ."""
State = Literal["pending", "active", "expired"]
_STATES: dict[str, State] = {"pending": "pending", "active": "active", "expired": "expired"}
_MAX_TIME = 2**53


class ExpiredKeys(FalseClaim):
    """The key list is out of date: its keys may no longer exist."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One entry of a key list."""

    id: int
    suite: int
    public: bytes
    state: State


@dataclass(frozen=True, slots=True)
class KeyList:
    """The keys of a role at one time."""

    role: str
    issued: int
    """Seconds since 1970."""
    expires: int
    keys: tuple[PublicKey, ...]
    digest: str = field(init=False, compare=False)
    """SHA-256 of the canonical JSON, in hexadecimal digits."""

    def __post_init__(self) -> None:
        if len({key.id for key in self.keys}) != len(self.keys):
            raise WireError("a key list must have distinct ids")
        for suite in SUITES:
            if sum(key.state == "active" and key.suite == suite for key in self.keys) > 1:
                raise WireError("a key list must have at most one active key of each suite")
        if not 0 <= self.issued < self.expires <= _MAX_TIME:
            raise WireError("a key list must expire after it was issued")
        object.__setattr__(self, "digest", hashlib.sha256(canonical(self.to_document())).hexdigest())

    def has_active(self, suite: int) -> bool:
        """Return True if there is a key of a suite to seal to."""
        return any(key.state == "active" and key.suite == suite for key in self.keys)

    def active(self, suite: int) -> PublicKey:
        """Return the key of a suite to seal to."""
        for key in self.keys:
            if key.state == "active" and key.suite == suite:
                return key
        raise WireError(f"the key list of the {self.role} has no active key of suite {suite}")

    def find(self, key_id: int) -> PublicKey | None:
        """Return a key by its id."""
        return next((key for key in self.keys if key.id == key_id), None)

    def check_time(self, now: float) -> None:
        """Raise :class:`ExpiredKeys` unless the list is valid at this time."""
        if not self.issued - CLOCK_TOLERANCE <= now < self.expires:
            raise ExpiredKeys(f"the key list of the {self.role} is not valid at this time; fetch a new one")

    def to_document(self) -> dict[str, Json]:
        """Return the list as a JSON object."""
        keys: list[Json] = [
            {"id": key.id, "suite": key.suite, "public": key.public.hex(), "state": key.state} for key in self.keys
        ]
        dates: dict[str, Json] = {"issued": self.issued, "expires": self.expires}
        return {"format": document_format("key list"), "role": self.role, **dates, "keys": keys}

    def sign(self, identity: Identity) -> bytes:
        """Return the signed list."""
        return SignedDocument.sign(identity, "key list", self.to_document()).to_json()

    @classmethod
    def read(cls, text: str | bytes, identity: bytes, role: str, *, now: float | None = None) -> Self:
        """Read a list; raise unless the operator with this identity signed it for ``role`` and, if given, ``now``."""
        fields = SignedDocument.from_json(text).read(identity, "key list", "role", "issued", "expires", "keys")
        if fields.text("role") != role:
            raise WireError(f"the key list must be that of the {role}")
        keys = tuple(_read_key(entry) for entry in fields.items("keys"))
        found = cls(role, fields.whole("issued"), fields.whole("expires"), keys)
        if now is not None:
            found.check_time(now)
        return found


def _read_key(value: Json) -> PublicKey:
    fields = Fields(value, "a key", "id", "suite", "public", "state")
    with legal("a key"):
        suite = fields.whole("suite")
        if suite not in SUITES:
            reject("suite", "be 1 or 2", suite)
        key_id = check_whole("id", fields.whole("id"), 0, MAX_KEY_ID)
        public = hex_bytes(fields.text("public"), SUITES[suite].public, "the public key")
        return PublicKey(key_id, suite, public, _STATES[check_choice("state", fields.text("state"), tuple(_STATES))])
