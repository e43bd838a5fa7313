"""The HPKE keys of one role: pending, active until the next key is, expired for a grace period, then destroyed.

    pending --advance, at its time--> active --the next is active--> expired --grace--> destroyed

Each key has a record, ``<role>-<id>.json``, and until it is destroyed a secret, ``<role>-<id>.secret``. Every change is
one atomic write of one record: activated keys are *live*, and the newest live key is the active one, so there is never
a moment with no active key or with two. The next start completes what a crash interrupted. Records outlive their
secrets, so no id is used twice. States never go back, even if the clock does.

Python cannot wipe memory: a destroyed key is erased from the disk, and from memory when the process ends.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from hubbub.canonical import Fields, Json, canonical, legal, parse
from hubbub.errors import Infeasible, Interval, WireError, check_choice, check_real, check_whole, reject
from hubbub.io.files import PARTIAL
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.secretfiles import erase, read_secret, write_file
from hubbub.service.task.identity import Identity, SignedDocument, document_format, hex_bytes
from hubbub.service.task.sealing import MAX_KEY_ID, SUITES, Private, generate, load_private

_MAX_SECONDS = 1e12
State = Literal["pending", "active", "expired"]
Phase = Literal["pending", "live", "destroyed"]
_STATES: dict[str, State] = {"pending": "pending", "active": "active", "expired": "expired"}
_PHASES: dict[str, Phase] = {"pending": "pending", "live": "live", "destroyed": "destroyed"}


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One entry of a key list."""

    id: int
    suite: int
    public: bytes
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """A key as stored on disk, without its secret."""

    id: int
    suite: int
    public: bytes
    phase: Phase
    time: float
    """The time of activation: planned while pending, actual afterwards."""

    def to_json(self) -> bytes:
        public = self.public.hex()
        return canonical({"id": self.id, "suite": self.suite, "public": public, "phase": self.phase, "time": self.time})

    @classmethod
    def from_json(cls, text: bytes, suite: int) -> Self:
        fields = Fields(parse(text, "the key record"), "the key record", "id", "suite", "public", "phase", "time")
        if fields.whole("suite") != suite:
            raise WireError(f"the key record must be of suite {suite}, got {fields.whole('suite')}")
        with legal("the key record"):
            public = hex_bytes(fields.text("public"), SUITES[suite].public, "the public key")
            phase = _PHASES[check_choice("phase", fields.text("phase"), tuple(_PHASES))]
            return cls(id=fields.whole("id"), suite=suite, public=public, phase=phase, time=fields.real("time"))


class Keyring:
    """The keys of one role in one folder, written by a single process.

    ``lifetime``: seconds after which :meth:`advance` replaces the active key; its successor is published as pending
    one ``grace`` before. ``grace``: seconds from expiry to destruction.

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
        check_choice("role", role, ("analyzer", "shuffler"))
        if suite not in SUITES:
            reject("suite", "be 1 or 2", suite)
        self.folder, self.role, self.suite, self.clock = Path(folder), role, suite, clock
        self.lifetime = check_real("lifetime", lifetime, Interval(0.0, _MAX_SECONDS, open_low=True))
        self.grace = check_real("grace", grace, Interval(0.0, _MAX_SECONDS))
        self._records: dict[int, _Record] = {}
        self._secrets: dict[int, tuple[bytes, Private]] = {}
        self._load()

    @property
    def active(self) -> PublicKey:
        """The key to seal to; raises before the first :meth:`advance` in an empty folder."""
        live = self._live()
        if not live:
            raise Infeasible(f"the {self.role} has no active key; advance the keyring first")
        return _public(live[-1], "active")

    def replacement_due(self) -> float:
        """Return the time at which the active key is due to be replaced; long after it, rotation has failed."""
        live = self._live()
        return live[-1].time + self.lifetime if live else self.clock.now()

    def private(self, key_id: int) -> bytes | None:
        """Return the private bytes for a worker process; None if the key is destroyed or never existed."""
        entry = self._secrets.get(key_id)
        return entry and entry[0]

    def opener(self, key_id: int) -> Private | None:
        """Return the private key as an object; None if the key is destroyed or never existed."""
        entry = self._secrets.get(key_id)
        return entry and entry[1]

    def public_keys(self) -> list[PublicKey]:
        """Return all keys that are not destroyed, ordered by id."""
        live = self._live()
        states: dict[int, State] = {record.id: "expired" for record in live[:-1]}
        states |= {record.id: "active" for record in live[-1:]}
        alive = (record for record in self._sorted() if record.phase != "destroyed")
        return [_public(record, states.get(record.id, "pending")) for record in alive]

    def public_list(self, identity: Identity) -> bytes:
        """Return the signed key list for clients."""
        keys: list[Json] = [
            {"id": key.id, "suite": key.suite, "public": key.public.hex(), "state": key.state}
            for key in self.public_keys()
        ]
        body: Json = {"format": document_format("key list"), "role": self.role, "keys": keys}
        return SignedDocument.sign(identity, "key list", body).to_json()

    def rotate(self, at: float | None = None) -> int:
        """Schedule the activation of the pending key, or of a new one, by default for now, and return its id."""
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
        """Announce, activate and destroy the keys that are due; idempotent, and safe to interrupt at any point."""
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
        if key_id > MAX_KEY_ID:
            raise Infeasible(f"all {MAX_KEY_ID} key ids of the {self.role} are used; start a new contract")
        private, public = generate(self.suite)
        write_file(self._path(key_id, "secret"), private)
        reach("rotate-after-secret")
        self._keep(key_id, private)
        self._write(_Record(id=key_id, suite=self.suite, public=public, phase="pending", time=at))
        reach("rotate-after-record")
        return key_id

    def _destroy(self, record: _Record) -> None:
        # The record first: the next start erases the secret of a destroyed key if this process dies before it does.
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
        for path in self.folder.glob(f"{self.role}-*{PARTIAL}"):
            erase(path)
        for path in self.folder.glob(f"{self.role}-*.json"):
            record = _Record.from_json(path.read_bytes(), self.suite)
            if path != self._path(record.id, "json"):
                raise WireError(f"the file name of key record {record.id} must contain its id")
            self._records[record.id] = record
        # A crash during key generation leaves a secret without a record; it was never published.
        erase(self._path(self._next, "secret"))
        for record in self._records.values():
            path = self._path(record.id, "secret")
            if record.phase == "destroyed":
                erase(path)
            elif path.exists():
                self._keep(record.id, read_secret(path))
            else:
                raise WireError(f"the secret of key {record.id} of the {self.role} is missing")

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
    """Return the keys of a signed list; raise unless the operator with this identity signed it, for ``role`` if given.

    A replay of an old list is not detected here: the shuffler rejects bundles sealed to a destroyed key, and the client
    fetches the keys again.
    """
    fields = SignedDocument.from_json(text).read(identity, "key list", "role", "keys")
    keys = [_read_key(entry) for entry in fields.items("keys")]
    if role not in (None, fields.text("role")):
        raise WireError(f"the key list must be that of the {role}")
    if len({key.id for key in keys}) != len(keys) or sum(key.state == "active" for key in keys) > 1:
        raise WireError("a key list must have distinct ids and at most one active key")
    return keys


def active_key(keys: Iterable[PublicKey]) -> PublicKey:
    """Return the key to seal to."""
    for key in keys:
        if key.state == "active":
            return key
    raise WireError("the key list has no active key")


def _read_key(value: Json) -> PublicKey:
    fields = Fields(value, "a key", "id", "suite", "public", "state")
    with legal("a key"):
        suite = fields.whole("suite")
        if suite not in SUITES:
            reject("suite", "be 1 or 2", suite)
        key_id = check_whole("id", fields.whole("id"), 0, MAX_KEY_ID)
        public = hex_bytes(fields.text("public"), SUITES[suite].public, "the public key")
        return PublicKey(key_id, suite, public, _STATES[check_choice("state", fields.text("state"), tuple(_STATES))])


def _public(record: _Record, state: State) -> PublicKey:
    return PublicKey(record.id, record.suite, record.public, state)
