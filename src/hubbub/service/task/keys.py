"""The HPKE keys of one role: born pending, active until the next one is, expired for a grace period, then destroyed.

    pending --advance, at its time--> active --the next is active--> expired --grace--> destroyed

Each key is a record, ``<role>-<id>.json``, and while it lives a secret, ``<role>-<id>.secret``. Every change is one
atomic write of one record: keys that were activated are *live*, and the newest of them is the active one, so that there
is no moment without one and none with two. What a crash left undone, the next start finishes. Records stay when
secrets are gone: no number is given twice. States never go back, whatever the clock does.

Python cannot wipe memory: a destroyed key is gone from the disk, and from memory when the process ends.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from hubbub.canonical import Json, as_real, as_text, as_whole, canonical, fields, parse
from hubbub.errors import Infeasible, Interval, WireError, check_real, reject
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.secretfiles import TEMPORARY, erase, read_secret, write_file
from hubbub.service.task.identity import Identity, SignedDocument, as_bytes
from hubbub.service.task.sealing import SUITES, Private, generate, load_private

State = Literal["pending", "active", "expired"]
STATES: tuple[State, ...] = ("pending", "active", "expired")
LAST = 2**16 - 1


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One entry of a key list."""

    id: int
    suite: int
    public: bytes
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What the disk knows of a key, its secret apart."""

    id: int
    suite: int
    public: bytes
    phase: Literal["pending", "live", "destroyed"]
    time: float
    """Pending: when it shall become active. Later: when it did."""

    def to_json(self) -> bytes:
        public = self.public.hex()
        return canonical({"id": self.id, "suite": self.suite, "public": public, "phase": self.phase, "time": self.time})

    @classmethod
    def from_json(cls, text: bytes, suite: int) -> Self:
        key = as_bytes(SUITES[suite].public)
        kinds = {"id": as_whole, "suite": as_whole, "public": key, "phase": as_text, "time": as_real}
        record = cls(**fields(parse(text, "the record of a key"), "the record of a key", kinds))  # type: ignore[arg-type]
        if record.phase not in ("pending", "live", "destroyed") or record.suite != suite:
            raise WireError(f"the record of a key must have a known phase and suite {suite}, got another")
        return record


class Keyring:
    """The keys of one role in one folder; one process writes there.

    ``lifetime``: seconds for which a key is active before :meth:`advance` replaces it; its successor is published as
    pending one ``grace`` before. ``grace``: seconds from expiry to destruction.

    >>> import tempfile
    >>> from hubbub.service.runtime.clock import MockClock
    >>> clock = MockClock(0.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ring = Keyring(folder, "shuffler", 1, clock, lifetime=100, grace=10)
    ...     ring.advance()
    ...     clock.advance(105)
    ...     ring.advance()
    ...     [(key.id, key.state) for key in ring.public_keys()]
    [(1, 'expired'), (2, 'active')]
    """

    def __init__(
        self, folder: Path | str, role: str, suite: int, clock: Clock, *, lifetime: float, grace: float
    ) -> None:
        if role not in ("analyzer", "shuffler"):
            reject("role", "be 'analyzer' or 'shuffler'", role)
        if suite not in SUITES:
            reject("suite", "be 1 or 2", suite)
        self.folder, self.role, self.suite, self.clock = Path(folder), role, suite, clock
        self.lifetime = check_real("lifetime", lifetime, Interval(0.0, 1000000000000.0, open_low=True))
        self.grace = check_real("grace", grace, Interval(0.0, 1000000000000.0))
        self._records: dict[int, _Record] = {}
        self._secrets: dict[int, tuple[bytes, Private]] = {}
        self._load()

    @property
    def active(self) -> PublicKey:
        """The key to seal to; raises before the first :meth:`advance` of an empty folder."""
        live = self._live()
        if not live:
            raise Infeasible(f"the {self.role} must have an active key, got none; advance the keyring first")
        return _public(live[-1], "active")

    def private(self, key_id: int) -> bytes | None:
        """The private bytes, to hand to a worker process; None if the key is destroyed, or was never there."""
        entry = self._secrets.get(key_id)
        return entry and entry[0]

    def opener(self, key_id: int) -> Private | None:
        """The same as a key object."""
        entry = self._secrets.get(key_id)
        return entry and entry[1]

    def public_keys(self) -> list[PublicKey]:
        """All keys that are not destroyed, by number."""
        live = self._live()
        states: dict[int, State] = {record.id: "expired" for record in live[:-1]}
        states |= {record.id: "active" for record in live[-1:]}
        alive = (record for record in self._sorted() if record.phase != "destroyed")
        return [_public(record, states.get(record.id, "pending")) for record in alive]

    def public_list(self, identity: Identity) -> bytes:
        """The signed list of :meth:`public_keys` for clients."""
        keys: list[Json] = [
            {"id": key.id, "suite": key.suite, "public": key.public.hex(), "state": key.state}
            for key in self.public_keys()
        ]
        return SignedDocument.sign(identity, "keys", {"role": self.role, "keys": keys}).to_json()

    def rotate(self, at: float | None = None) -> int:
        """Have the next key, the pending one or a new one, become active then, by default now; returns its number."""
        time = self.clock.now() if at is None else at
        pending = self._pending()
        if pending:
            key_id = pending[0].id
            self._write(replace(pending[0], time=time))
        else:
            key_id = self._create(time)
        self.advance()
        return key_id

    def advance(self) -> None:
        """Do what the clock asks for: announce, activate, destroy. Idempotent, and safe to be killed at any point."""
        now = self.clock.now()
        self._announce(now)
        for record in self._pending():
            live = self._live()
            if record.time <= now or not live or live[-1].time + self.lifetime <= now:
                self._write(replace(record, phase="live", time=now))
                reach("rotate-after-activation")
        live = self._live()
        for record, successor in itertools.pairwise(live):
            if successor.time + self.grace <= now:
                self._destroy(record)

    def _announce(self, now: float) -> None:
        live = self._live()
        if self._pending():
            return
        if not live:
            self._create(now)
        elif now >= (due := live[-1].time + self.lifetime) - self.grace:
            self._create(due)

    def _create(self, at: float) -> int:
        key_id = self._next
        if key_id > LAST:
            raise Infeasible(f"a role must have at most {LAST} keys, got all of them; start another contract")
        private, public = generate(self.suite)
        write_file(self._path(key_id, "secret"), private)
        reach("rotate-after-secret")
        self._keep(key_id, private)
        self._write(_Record(id=key_id, suite=self.suite, public=public, phase="pending", time=at))
        reach("rotate-after-record")
        return key_id

    def _destroy(self, record: _Record) -> None:
        # The record first: a secret without a living record is erased at the next start, whatever happens now.
        self._write(replace(record, phase="destroyed"))
        reach("destroy-after-record")
        self._secrets.pop(record.id, None)
        erase(self._path(record.id, "secret"))
        reach("destroy-after-erasure")

    def _write(self, record: _Record) -> None:
        write_file(self._path(record.id, "json"), record.to_json(), replace=True)
        self._records[record.id] = record

    def _load(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self.folder.glob(f"{self.role}-*{TEMPORARY}"):
            erase(path)
        for path in self.folder.glob(f"{self.role}-*.json"):
            record = _Record.from_json(path.read_bytes(), self.suite)
            if path != self._path(record.id, "json"):
                raise WireError("the record of a key must have its number as its name, got another")
            self._records[record.id] = record
        # A crash while a key was made left a secret without a record, which nobody has seen yet.
        erase(self._path(self._next, "secret"))
        for record in self._records.values():
            path = self._path(record.id, "secret")
            if record.phase == "destroyed":
                erase(path)
            elif path.exists():
                self._keep(record.id, read_secret(path))
            else:
                raise WireError(f"the secret of key {record.id} of the {self.role} must be there, got none")

    def _keep(self, key_id: int, private: bytes) -> None:
        self._secrets[key_id] = private, load_private(self.suite, private)

    @property
    def _next(self) -> int:
        return max(self._records, default=0) + 1

    def _path(self, key_id: int, kind: str) -> Path:
        return self.folder / f"{self.role}-{key_id:05d}.{kind}"

    def _sorted(self) -> Iterable[_Record]:
        return (self._records[key_id] for key_id in sorted(self._records))

    def _live(self) -> list[_Record]:
        return [record for record in self._sorted() if record.phase == "live"]

    def _pending(self) -> list[_Record]:
        return [record for record in self._sorted() if record.phase == "pending"]


def read_key_list(text: str | bytes, identity: bytes, role: str | None = None) -> list[PublicKey]:
    """The keys of a signed list; raises unless the operator of this identity signed it, for the role if one is given.

    A repeated old list is not noticed here: whoever seals to a destroyed key is told so and asks again.
    """
    body = SignedDocument.from_json(text).verify(identity, "keys")
    read = fields(body, "a key list", {"role": as_text, "keys": _entries})
    keys = read["keys"]
    assert isinstance(keys, list)
    if role not in (None, read["role"]):
        raise WireError(f"the key list must be that of the {role}, got another")
    if len({key.id for key in keys}) != len(keys) or sum(key.state == "active" for key in keys) > 1:
        raise WireError("a key list must have distinct numbers and at most one active key, got others")
    return keys


def active_key(keys: Iterable[PublicKey]) -> PublicKey:
    """The key to seal to."""
    for key in keys:
        if key.state == "active":
            return key
    raise WireError("a key list must have an active key, got none")


def _entries(value: Json) -> list[PublicKey]:
    if not isinstance(value, list):
        raise TypeError
    return [_entry(entry) for entry in value]


def _entry(value: Json) -> PublicKey:
    suite = value.get("suite") if isinstance(value, dict) else None
    if not isinstance(suite, int) or suite not in SUITES:
        raise WireError("a key must be of suite 1 or 2, got another")
    kinds = {"id": as_whole, "suite": as_whole, "public": as_bytes(SUITES[suite].public), "state": as_text}
    key = PublicKey(**fields(value, "a key", kinds))  # type: ignore[arg-type]
    if key.state not in STATES or not 0 <= key.id <= LAST:
        raise WireError("a key must have a known state and a number of 16 bits, got another")
    return key


def _public(record: _Record, state: State) -> PublicKey:
    return PublicKey(record.id, record.suite, record.public, state)
