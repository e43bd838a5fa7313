"""Admission: the proof in every bundle that its sender may send one, so that nobody fills a batch alone.

A contract names one kind. ``open`` admits everyone; in place of a proof, a bundle has the random *id* of its answer. A
*ticket* has 32 bytes, ``serial 16 | MAC 16``, made by an
operator with accounts; the serial is a pseudorandom function of task and account, so an account has one ticket per task
and asking again gives the same one. A *token* is blindly signed (:mod:`hubbub.service.task.tokens`). The shuffler
verifies the proof and spends its id in the transaction that stores the bundle: whatever is sealed again, by whatever
key, is stored once.
"""

import functools
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self, get_args

from hubbub.documents import Fields, Json, hex_bytes
from hubbub.errors import InvalidInput, WireError, check_choice, check_type, reject
from hubbub.service.runtime.credentials import read_key, write_key
from hubbub.service.task.tokens import KEY_SIZE, TokenVerifier, challenge, load_token_key, spent_id
from hubbub.wire.bundles import ADMISSION_SIZES, TASK_SIZE

Kind = Literal["open", "ticket", "token"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TICKET_SIZE = ADMISSION_SIZES["ticket"]
SERIAL_SIZE = 16
"""Bytes of a ticket's serial, which is also the id under which it is spent."""
KEY_SUFFIX = ".key"
"""File names of ticket keys are the issuer's name and this suffix."""
MAX_ACCOUNT = 1024
"""Most bytes of an account name."""
_ISSUER = re.compile(r"[a-z0-9]([a-z0-9.:-]{0,198}[a-z0-9])?")
_FILE_HEADER = b"hubbub ticket key 1\n"
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Admission:
    """The terms of admission in a contract: kind, name of the issuer and, for tokens, the issuer's public key.

    >>> Admission("ticket", "accounts.example").size, Admission().size
    (32, 16)
    """

    kind: Kind = "open"
    issuer: str = ""
    """Name of the issuer in the form of a host name; empty if admission is open."""
    key: bytes = b""
    """SubjectPublicKeyInfo of the issuer's key for this task; empty unless admission is by token."""

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_type("issuer", self.issuer, str)
        if not isinstance(self.key, bytes):
            reject("the key of the admission", "be bytes")
        if self.kind == "open":
            if self.issuer or self.key:
                raise InvalidInput("an open admission must have no issuer and no key")
            return
        check_issuer(self.issuer)
        if self.kind == "token":
            load_token_key(self.key)
        elif self.key:
            raise InvalidInput("an admission by ticket must have no key: the contract is public, the key is secret")

    @property
    def size(self) -> int:
        """Bytes of admission in a bundle: of the ticket, of the token, or of the id of an answer."""
        return ADMISSION_SIZES[self.kind]

    @property
    def shown(self) -> int:
        """Bytes of admission in a request for an evaluation; the analyzer never sees the id of an answer."""
        return 0 if self.kind == "open" else self.size

    def to_document(self) -> dict[str, Json]:
        """Return the admission as a JSON object."""
        document: dict[str, Json] = {"kind": self.kind}
        if self.kind != "open":
            document["issuer"] = self.issuer
        if self.kind == "token":
            document["key"] = self.key.hex()
        return document

    @classmethod
    def from_document(cls, value: Json) -> Self:
        """Read an admission from a JSON object, which has only the entries of its kind."""
        kind = value.get("kind") if isinstance(value, dict) else None
        if kind not in KINDS:
            raise WireError(f"'admission' must be an object whose 'kind' is one of {', '.join(KINDS)}")
        names = {"open": (), "ticket": ("issuer",), "token": ("issuer", "key")}[kind]
        fields = Fields(value, "the admission", "kind", *names)
        issuer = fields.text("issuer") if names else ""
        key = hex_bytes(fields.text("key"), KEY_SIZE, "the key of the admission") if kind == "token" else b""
        return cls(kind, issuer, key)


def check_issuer(name: str) -> str:
    """Return the name of an issuer, which is part of file names and of challenges; raise if it is not legal.

    >>> check_issuer("accounts.example:8600")
    'accounts.example:8600'
    """
    if not _ISSUER.fullmatch(name):
        reject("the name of the issuer", "be a host name in lower case of at most 200 characters", name)
    return name


class TicketKey:
    """The secret of a ticket issuer, which mints tickets and verifies them.

    >>> key = TicketKey.generate()
    >>> ticket = key.mint(bytes(16), "ada")
    >>> len(ticket), ticket == key.mint(bytes(16), "ada"), check_ticket(key.mac_key, bytes(16), ticket)
    (32, True, True)
    """

    __slots__ = ("_root", "_serial_key", "mac_key")

    def __init__(self, root: bytes) -> None:
        if len(root) != _KEY_BYTES:
            reject("a ticket key", f"have {_KEY_BYTES} bytes", len(root))
        self._root = root
        self.mac_key, self._serial_key = (
            hmac.digest(root, label, "sha256") for label in (b"hubbub/2 mac", b"hubbub/2 serial")
        )

    @classmethod
    def generate(cls) -> Self:
        """Generate a key from the operating system's randomness."""
        return cls(os.urandom(_KEY_BYTES))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a key file; raises if anyone but its owner may read it."""
        return cls(read_key(Path(path), _FILE_HEADER, "a ticket key"))

    def save(self, path: Path | str) -> None:
        """Write the key to a new file of mode 0600."""
        write_key(Path(path), _FILE_HEADER, self._root)

    def evaluation(self) -> "TicketKey":
        """Return the key of the tickets with which accounts ask for evaluations, for the analyzer.

        It makes no ticket that the shuffler accepts, and its serials cannot be linked to those that the shuffler sees.
        """
        return TicketKey(hmac.digest(self._root, b"hubbub/2 evaluation", "sha256"))

    def mint(self, task: bytes, account: str | bytes) -> bytes:
        """Return the ticket of an account for a task; the same account always gets the same ticket."""
        name = account.encode() if isinstance(account, str) else account
        if not 0 < len(name) <= MAX_ACCOUNT:
            reject("an account name", f"have 1 to {MAX_ACCOUNT} bytes", len(name))
        if len(task) != TASK_SIZE:
            # A fixed length, so that task and account cannot be divided differently.
            reject("task", f"have {TASK_SIZE} bytes", len(task))
        serial = hmac.digest(self._serial_key, b"hubbub/2 account" + task + name, "sha256")[:SERIAL_SIZE]
        return serial + _mac(self.mac_key, task, serial)

    def __repr__(self) -> str:
        return f"TicketKey({hashlib.sha256(self.mac_key).hexdigest()[:8]}…)"


def load_ticket_keys(folder: Path) -> dict[str, TicketKey]:
    """Return the ticket keys in a folder by the names of their issuers; none if the folder does not exist."""
    return {check_issuer(path.name.removesuffix(KEY_SUFFIX)): TicketKey.load(path) for path in _key_files(folder)}


@dataclass(frozen=True, slots=True)
class Verifier:
    """The check of one task's admissions, with the secret or public key that it needs; goes to worker processes."""

    kind: Kind
    issuer: str
    task: bytes
    key: bytes = field(repr=False)
    """The MAC key for tickets, the public key for tokens."""

    @property
    def size(self) -> int:
        """Bytes of an admission."""
        return ADMISSION_SIZES[self.kind]

    def valid(self, admission: bytes) -> bool:
        """Return True if an admission is valid for the task; in constant time for tickets."""
        match self.kind:
            case "open":
                return len(admission) == self.size
            case "ticket":
                return check_ticket(self.key, self.task, admission)
            case "token":
                return _token_verifier(self.key, self.issuer, self.task).valid(admission)

    def token_id(self, admission: bytes) -> bytes:
        """Return the id under which a valid admission is spent."""
        match self.kind:
            case "open":
                return admission
            case "ticket":
                return admission[:SERIAL_SIZE]
            case "token":
                return spent_id(admission)

    def to_bytes(self) -> bytes:
        """Return a form for worker processes."""
        name = self.issuer.encode()
        return bytes([KINDS.index(self.kind), len(name)]) + name + self.task + self.key

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the form of :meth:`to_bytes`."""
        end = 2 + data[1]
        return cls(KINDS[data[0]], data[2:end].decode(), data[end : end + TASK_SIZE], data[end + TASK_SIZE :])


def verifier(admission: Admission, task: bytes, ticket_keys: Mapping[str, TicketKey]) -> Verifier:
    """Return the check of a task's admissions; raise if the secret that it needs is missing."""
    key = admission.key
    if admission.kind == "ticket":
        if admission.issuer not in ticket_keys:
            raise InvalidInput(
                f"there is no ticket key of the issuer {admission.issuer!r}: put the file "
                f"{admission.issuer}{KEY_SUFFIX} into the folder of the setting 'tickets'"
            )
        key = ticket_keys[admission.issuer].mac_key
    return Verifier(admission.kind, admission.issuer, task, key)


def refusing_verifier(task: bytes) -> Verifier:
    """Return a check that no admission passes: tickets under a random key; for tasks that accept no more bundles."""
    return Verifier("ticket", "", task, os.urandom(_KEY_BYTES))


def check_ticket(mac_key: bytes, task: bytes, ticket: bytes) -> bool:
    """Return True if a ticket is valid for a task; in constant time."""
    good = hmac.compare_digest(ticket[SERIAL_SIZE:], _mac(mac_key, task, ticket[:SERIAL_SIZE]))
    return good and len(ticket) == TICKET_SIZE


def _mac(mac_key: bytes, task: bytes, serial: bytes) -> bytes:
    return hmac.digest(mac_key, b"hubbub/2 ticket" + task + serial, "sha256")[: TICKET_SIZE - SERIAL_SIZE]


@functools.lru_cache(maxsize=64)
def _token_verifier(key: bytes, issuer: str, task: bytes) -> TokenVerifier:
    return TokenVerifier(key, challenge(issuer, task))


def _key_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{KEY_SUFFIX}")) if folder.is_dir() else []
