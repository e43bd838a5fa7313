"""Signed lists of public keys: those of a service, and the tag keys of a task of strings.

Clients check the dates before they seal, so that an old list cannot be replayed for long. The shuffler, which relays
the analyzer's list, pins every key id to its public bytes for ever: an analyzer that gave different people different
keys under one id could tell their reports apart.

The public tag keys of a task: one for each key of the analyzer, against which clients check evaluations. A tag key is
derived from the analyzer's private key, the task and the key id. It ends with the private key, and the tags of two
tasks or of two keys cannot be linked. Whoever could show different tag keys to different people could tell them apart
by their slots, so the shuffler keeps the bytes that it saw first under an id for ever.
"""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from hubbub.documents import Fields, Json, canonical, hex_bytes, legal
from hubbub.errors import FalseClaim, WireError, check_choice, check_whole, reject
from hubbub.oprf import Key, suite_named
from hubbub.service.runtime.credentials import derive
from hubbub.service.task.identity import Identity, SignedDocument, document_format
from hubbub.service.task.sealing import MAX_KEY_ID, SUITES
from hubbub.wire.bundles import TASK_SIZE
from hubbub.wire.strings import derive_tag_key

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


KIND = "tag keys"


@functools.lru_cache(maxsize=256)
def tag_key(group: str, private: bytes, task: bytes, key_id: int) -> Key:
    """Return the tag key that belongs to a private key of the analyzer, for a task."""
    return derive_tag_key(group, derive(private, "tags"), task, key_id)


@dataclass(frozen=True, slots=True)
class TagKeys:
    """The public tag keys of a task by the ids of the analyzer's keys."""

    task: bytes
    group: str
    keys: Mapping[int, bytes]

    def sign(self, identity: Identity) -> bytes:
        """Return the signed list."""
        keys: list[Json] = [{"id": key_id, "public": public.hex()} for key_id, public in sorted(self.keys.items())]
        body: dict[str, Json] = {"format": document_format(KIND), "task": self.task.hex(), "group": self.group}
        return SignedDocument.sign(identity, KIND, {**body, "keys": keys}).to_json()

    @classmethod
    def read(cls, text: str | bytes, analyzer: bytes, task: bytes, group: str) -> Self:
        """Read a list; raise unless the analyzer signed it for this task and group."""
        fields = SignedDocument.from_json(text).read(analyzer, KIND, "task", "group", "keys")
        if hex_bytes(fields.text("task"), TASK_SIZE, "the task of the tag keys") != task:
            raise FalseClaim("the tag keys are those of another task")
        if fields.text("group") != group:
            raise FalseClaim("the tag keys are in another group than the contract names")
        size, keys = suite_named(group).ELEMENT_SIZE, {}
        for entry in fields.items("keys"):
            read = Fields(entry, "a tag key", "id", "public")
            with legal("a tag key"):
                key_id = check_whole("id", read.whole("id"), 1, MAX_KEY_ID)
            if key_id in keys:
                raise WireError("the tag keys must have distinct ids")
            keys[key_id] = hex_bytes(read.text("public"), size, "a public tag key")
        return cls(task, group, keys)
