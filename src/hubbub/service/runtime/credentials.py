"""The credential folder of a role: its secrets, and a fence that no restored store can rewind.

The store holds nothing that opens anything. Every secret is a file of 32 random bytes outside the store and outside its
backups: one per encryption key, one per bucket, and one seed per sealed bucket. Erasing the file is final, whatever
copy of the store is restored later. All replicas of a role share the folder.

The *fence* records the highest number ever given to a key and to a bucket that was sealed or has ended, the rounds that
were charged, and a beat that the service raises every second in both places. It only grows, so a store that is behind
was restored from a backup.

A missing secret means that it was erased, and the services discard data for that reason. The folder may also be a
volume that is not mounted: then the fence is missing as well, and every access fails instead of reporting a secret as
erased.

Secret files: readable by their owner only, written atomically, overwritten before they are removed. Overwriting is the
best a program can do: a copy-on-write file system, a drive that remaps blocks, and a backup may keep the old content.
"""

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, Self

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hubbub.documents import Fields, Json, canonical, parse
from hubbub.errors import InvalidInput, StoreFailure, WireError, check_choice, reject
from hubbub.io.files import PARTIAL, sync_folder, write_atomic
from hubbub.service.runtime.failpoints import reach


def write_file(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file of mode 0600 atomically; refuse to replace an existing file unless told to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder, "key"), b"secret")
    ...     read_secret(Path(folder, "key"))
    b'secret'
    """
    if not replace and path.exists():
        reject("the file", "not exist yet: it would be overwritten", path.name)
    write_atomic(path, data, mode=0o600, step=lambda name: reach(f"file-before-{name}"))


def read_secret(path: Path) -> bytes:
    """Return the content of a file; raise if anyone but its owner can read it."""
    with path.open("rb") as file:
        check_mode(path, os.fstat(file.fileno()).st_mode)
        return file.read()


def read_key(path: Path, header: bytes, what: str) -> bytes:
    """Return the 32 bytes of a file that :func:`write_key` wrote; raise if anyone but its owner can read it."""
    text = read_secret(path)
    with contextlib.suppress(ValueError):
        key = bytes.fromhex(text.removeprefix(header).strip().decode("ascii"))
        if text.startswith(header) and len(key) == SECRET_SIZE:
            return key
    raise WireError(f"{path.name} must be {what} written by hubbub")


def write_key(path: Path, header: bytes, key: bytes) -> None:
    """Write a key to a new file of mode 0600: a line that says what it is, and hexadecimal digits."""
    write_file(path, header + key.hex().encode() + b"\n")


def check_mode(path: Path, mode: int) -> None:
    """Raise if anyone but its owner can read a file.

    A systemd credential belongs to root and is opened to one service by an access control list, which shows up as a
    group permission; the folder around it admits nobody else.
    """
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    others = 0o037 if credentials and path.parent == Path(credentials) else 0o077
    if mode & others:
        raise InvalidInput(f"{path.name} must be readable by its owner only (mode 0600), got mode {mode & 0o777:04o}")


def erase(path: Path) -> None:
    """Overwrite a file with zeros, sync and remove it; do nothing if it does not exist."""
    with contextlib.suppress(FileNotFoundError):
        with os.fdopen(os.open(path, os.O_WRONLY), "wb") as file:
            file.write(bytes(os.fstat(file.fileno()).st_size))
            file.flush()
            os.fsync(file.fileno())
        reach("file-before-unlink")
        path.unlink()
        sync_folder(path.parent)


SECRET_SIZE = 32
_FENCE, _LOCK, _OWNER, _FORMAT = "fence", "lock", "owner", "hubbub fence 2"
_NUMBERS = ("last_key", "restores", "beat")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,120}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Numbers that only grow: the last key id, the last sealed bucket and the charged rounds of each task, restores."""

    role: str
    id: str = ""
    """The random identity of the folder; empty before it is first written."""
    last_key: int = 0
    sealed: Mapping[str, int] = field(default_factory=dict)
    """The highest bucket that was sealed or has ended, by task in hexadecimal digits."""
    restores: int = 0
    beat: int = 0
    """The last beat of the store."""
    charged: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The rounds by task of which a batch was ever released, or at the analyzer announced."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sealed", MappingProxyType(dict(self.sealed)))
        charged = {task: frozenset(rounds) for task, rounds in self.charged.items()}
        object.__setattr__(self, "charged", MappingProxyType(charged))

    def raised(
        self,
        last_key: int,
        sealed: Mapping[str, int],
        restores: int,
        beat: int = 0,
        charged: Mapping[str, Iterable[int]] = MappingProxyType({}),
    ) -> "Fence":
        """Return the fence with every number at least as high as given."""
        tasks = {*self.sealed, *sealed}
        highest = {task: max(self.sealed.get(task, 0), sealed.get(task, 0)) for task in tasks}
        return Fence(
            role=self.role,
            id=self.id or secrets.token_hex(16),
            last_key=max(self.last_key, last_key),
            sealed=highest,
            restores=max(self.restores, restores),
            beat=max(self.beat, beat),
            charged={
                task: self.charged.get(task, frozenset()) | frozenset(charged.get(task, ()))
                for task in {*self.charged, *charged}
            },
        )

    def to_json(self) -> bytes:
        """Return the canonical JSON."""
        sealed: dict[str, Json] = dict(self.sealed)
        numbers: dict[str, Json] = {name: getattr(self, name) for name in _NUMBERS}
        charged: dict[str, Json] = {task: [*sorted(rounds)] for task, rounds in self.charged.items()}
        tasks: dict[str, Json] = {"sealed": sealed, "charged": charged}
        return canonical({"format": _FORMAT, "role": self.role, "id": self.id, **tasks, **numbers})

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Parse a fence."""
        fields = Fields(parse(text, "the fence"), "the fence", "format", "role", "id", "sealed", "charged", *_NUMBERS)
        if fields.text("format") != _FORMAT:
            raise WireError(f"the format of the fence must be {_FORMAT!r}")
        sealed, charged = fields["sealed"], fields["charged"]
        if not isinstance(sealed, dict) or not isinstance(charged, dict):
            raise WireError("'sealed' and 'charged' of the fence must be objects")
        tasks, rounds = Fields(sealed, "the buckets of the fence", *sealed), Fields(charged, "the rounds", *charged)
        return cls(
            role=fields.text("role"),
            id=fields.text("id"),
            sealed={task: tasks.whole(task) for task in sealed},
            charged={task: frozenset(rounds.wholes(task)) for task in charged},
            **{name: fields.whole(name) for name in _NUMBERS},
        )


class Credentials:
    """The credential folder of a role.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     credentials = Credentials(folder, "shuffler")
    ...     secret = credentials.create("bucket-00-1")
    ...     credentials.read("bucket-00-1") == secret, len(secret)
    ...     credentials.erase("bucket-00-1")
    ...     credentials.read("bucket-00-1")
    (True, 32)
    """

    def __init__(self, folder: Path | str, role: str, outside: Path | None = None) -> None:
        """Open the folder; ``outside`` is a copy of the fence on another machine, which no snapshot of this one has."""
        check_choice("role", role, ("analyzer", "shuffler", "issuer"))
        self.folder, self.role, self._outside = Path(folder), role, outside
        self._id = ""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            # Every write holds the lock, so whatever is found now was left behind by a crash.
            for path in self.folder.glob(f"*{PARTIAL}"):
                erase(path)
        if self.exists and self.fence().role != role:
            raise StoreFailure(f"the credential folder belongs to the {self.fence().role}, not to the {role}")
        with self._locked():
            self._compare(self.fence())

    @property
    def exists(self) -> bool:
        """True once the folder has a fence; a store with keys and a folder without one do not belong together."""
        return (self.folder / _FENCE).exists()

    def create(self, name: str, value: bytes | None = None) -> bytes:
        """Return the secret of this name; if it did not exist, it is first made durable: drawn, or the given value."""
        path = self._path(name)
        with self._locked():
            found = self.read(name)
            if found is None:
                found = os.urandom(SECRET_SIZE) if value is None else value
                write_file(path, found, replace=True)
                reach("secret-created")
            return found

    def read(self, name: str) -> bytes | None:
        """Return the secret of this name; None if it was erased or never existed; raise if the folder is not there."""
        found = self._read(name)
        if found is None:
            # The fence proves that the folder is there; it may have come back after the secret was looked for.
            self.fence()
            found = self._read(name)
        return found

    def _read(self, name: str) -> bytes | None:
        try:
            found = read_secret(self._path(name))
        except FileNotFoundError:
            return None
        # Erasing overwrites with zeros first, and may have been interrupted then.
        return found if any(found) else None

    def erase(self, name: str) -> None:
        """Erase a secret for good; do nothing if it does not exist."""
        with self._locked():
            erase(self._path(name))
        reach("secret-erased")

    def names(self, prefix: str) -> list[str]:
        """Return the names of all secrets that begin with a prefix."""
        found = sorted(path.name for path in self.folder.glob(f"{prefix}*") if _NAME.fullmatch(path.name))
        self.fence()
        return found

    def reserve(self, seconds: float = 0.0) -> IO[str]:
        """Return a file that reserves the folder for this process until it is closed, for a store of one process."""
        file = (self.folder / _OWNER).open("a")
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= end:
                    file.close()
                    raise StoreFailure(
                        f"the credential folder {self.folder} is in use by another process; stop that service first"
                    ) from None
                time.sleep(0.1)
            else:
                return file

    def fence(self) -> Fence:
        """Return the fence; all its numbers are 0 in a new folder. Raise if the folder is gone, or another one."""
        try:
            found = Fence.from_json(read_secret(self.folder / _FENCE))
        except FileNotFoundError:
            if self._id:
                raise StoreFailure(f"the credential folder of the {self.role} is not available") from None
            return Fence(role=self.role)
        if self._id not in ("", found.id):
            raise StoreFailure(f"the credential folder of the {self.role} was replaced by another one")
        self._id = found.id
        return found

    def raise_fence(
        self,
        *,
        last_key: int = 0,
        sealed: Mapping[str, int] = MappingProxyType({}),
        restores: int = 0,
        beat: int = 0,
        charged: Mapping[str, Iterable[int]] = MappingProxyType({}),
    ) -> Fence:
        """Raise the numbers of the fence durably to at least the given ones, and return it."""
        with self._locked():
            old = self.fence()
            # In every process and each time: a machine may be rolled back while it runs.
            behind = self._compare(old)
            new = old.raised(last_key, sealed, restores, beat, charged)
            if new != old or not self.exists:
                write_file(self.folder / _FENCE, new.to_json(), replace=True)
                reach("fence-raised")
                behind = True
            if self._outside is not None and behind:
                # After the one inside, which a crash in between leaves higher: that is harmless.
                try:
                    write_file(self._outside, new.to_json(), replace=True)
                except OSError as error:
                    raise StoreFailure(f"the fence at {self._outside} cannot be written: {error.strerror}") from None
            return new

    def _compare(self, inside: Fence) -> bool:
        """Return True if the fence outside is new or lower; raise if it is higher: this machine was rolled back."""
        if self._outside is None:
            return False
        try:
            text = self._outside.read_bytes()
        except FileNotFoundError:
            if not inside.id:
                return True
            raise StoreFailure(
                f"the fence at {self._outside} is not there: mount its volume. If the setting is new, create an empty "
                "file in its place"
            ) from None
        except OSError as error:
            raise StoreFailure(f"the fence at {self._outside} cannot be read: {error.strerror}") from None
        if not text:
            return True
        seen = Fence.from_json(text)
        if inside != replace(
            inside.raised(seen.last_key, seen.sealed, seen.restores, seen.beat, seen.charged), id=seen.id
        ):
            raise StoreFailure(
                f"the credential folder is older than the fence at {self._outside}, or another one: this machine or "
                "its volume was rolled back to a snapshot, and batches could be released twice. Follow the run book"
            )
        return seen != inside

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name) or name in (_FENCE, _LOCK, _OWNER):
            reject("the name of a secret", "consist of lower-case letters, digits and hyphens", name)
        return self.folder / name

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / _LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def derive(secret: bytes, purpose: str, size: int = SECRET_SIZE) -> bytes:
    """Return the bytes that a secret yields for one purpose: HKDF-SHA256 (RFC 5869) without salt.

    >>> derive(bytes(32), "blocks") == derive(bytes(32), "fakes")
    False
    """
    return HKDF(hashes.SHA256(), size, salt=None, info=b"hubbub/2 " + purpose.encode()).derive(secret)
