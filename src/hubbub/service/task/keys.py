"""The HPKE keys of one role: pending, active until the next key is, expired for a grace period, then destroyed.

    pending --advance, at its time--> active --the next is active--> expired --grace--> destroyed

The store records which keys exist and their phases, so that all replicas agree; the secret of a key is a file in the
credential folder, from which its private bytes are derived. A key is destroyed by recording so and erasing the file:
no copy of the store can revive it. Ids are never used twice, because the fence of the folder remembers the last one.
Activated keys are *live*, and the newest live key of a suite is the active one, so there is never a moment with no
active key or with two. States never go back, even if the clock does.

Python cannot wipe memory: a destroyed key is erased from the disk, and from memory when the process ends.
"""

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from hubbub.errors import Infeasible, Interval, StoreFailure, check_real, reject
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.credentials import Credentials, derive
from hubbub.service.runtime.database import Database
from hubbub.service.runtime.failpoints import reach
from hubbub.service.task.keylist import KeyList, PublicKey, State
from hubbub.service.task.sealing import MAX_KEY_ID, SUITES, Private, generate, load_private

KEY_TABLES = (
    """keys (id BIGINT PRIMARY KEY, suite BIGINT NOT NULL, public {blob} NOT NULL, phase TEXT NOT NULL,
       time DOUBLE PRECISION NOT NULL)""",
    "folders (id BIGINT PRIMARY KEY, name TEXT NOT NULL)",
)
"""The tables of both stores that record the keys, and the credential folder to which the store belongs."""
LIST_LIFETIME = 86_400.0
"""Default seconds for which a signed key list is valid."""
_MAX_SECONDS = 1e12
Phase = Literal["pending", "live", "destroyed", "restored"]
_PHASES: dict[str, Phase] = {"pending": "pending", "live": "live", "destroyed": "destroyed", "restored": "restored"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """A key as recorded in the store."""

    id: int
    suite: int
    public: bytes
    phase: Phase
    """``restored``: the store was restored from a backup, and bundles under this key may have been counted before."""
    time: float
    """The time of activation: planned while pending, actual afterwards."""

    @property
    def exists(self) -> bool:
        return self.phase in ("pending", "live")


class Keyring:
    """The keys of one role; all replicas read them from the store, and any of them may advance them.

    ``lifetime``: seconds after which :meth:`advance` replaces an active key; its successor is published as pending
    one ``grace`` before. ``grace``: seconds from expiry to destruction. ``suites``: one active key is kept for each.

    >>> import tempfile
    >>> from hubbub.service.runtime.clock import MockClock
    >>> from hubbub.service.runtime.database import open_database
    >>> clock = MockClock(0.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_database("sqlite::memory:")
    ...     store.create(KEY_TABLES)
    ...     credentials = Credentials(folder, "shuffler")
    ...     ring = Keyring(store, credentials, clock, lifetime=100, grace=10, suites={1})
    ...     ring.advance()
    ...     clock.advance(105)
    ...     ring.advance()
    ...     [(key.id, key.state) for key in ring.public_keys()]
    [(1, 'expired'), (2, 'active')]
    """

    def __init__(
        self,
        database: Database,
        credentials: Credentials,
        clock: Clock,
        *,
        lifetime: float,
        grace: float,
        suites: Iterable[int] = (1,),
        list_lifetime: float = LIST_LIFETIME,
    ) -> None:
        self._database, self._credentials, self.clock = database, credentials, clock
        self.role = credentials.role
        self.lifetime = check_real("lifetime", lifetime, Interval(0.0, _MAX_SECONDS, open_low=True))
        self.grace = check_real("grace", grace, Interval(0.0, _MAX_SECONDS))
        self.list_lifetime = check_real("list_lifetime", list_lifetime, Interval(1.0, _MAX_SECONDS))
        self.suites: set[int] = set()
        for suite in suites:
            self.support(suite)
        self._records: dict[int, _Record] = {}
        self._secrets: dict[int, tuple[bytes, Private]] = {}
        self._recover()

    def support(self, suite: int) -> None:
        """Keep an active key of this suite from the next :meth:`advance` on."""
        if suite not in SUITES:
            reject("suite", "be 1 or 2", suite)
        self.suites.add(suite)

    def active(self, suite: int) -> PublicKey:
        """Return the key of a suite to seal to; raise before the first :meth:`advance`."""
        live = self._live(suite)
        if not live:
            raise Infeasible(f"the {self.role} has no active key of suite {suite}; advance the keyring first")
        return _public(live[-1], "active")

    def replacement_due(self) -> float:
        """Return the time at which the next active key is due to be replaced; long after it, rotation has failed."""
        newest = [live[-1].time for live in map(self._live, sorted(self.suites)) if live]
        return min(newest) + self.lifetime if newest else self.clock.now()

    def private(self, key_id: int) -> bytes | None:
        """Return the private bytes for a worker process; None if the key does not exist, as far as is known here.

        Another replica may have made or destroyed the key: :meth:`refresh` before telling anyone so.
        """
        entry = self._secret(key_id)
        return entry and entry[0]

    def opener(self, key_id: int) -> Private | None:
        """Return the private key as an object; None as in :meth:`private`."""
        entry = self._secret(key_id)
        return entry and entry[1]

    def restored(self, key_id: int) -> bool:
        """Return True if bundles under this key may have been counted before the store was restored."""
        record = self._records.get(key_id)
        return record is not None and record.phase == "restored"

    def public_keys(self) -> list[PublicKey]:
        """Return all keys that exist, ordered by id."""
        states: dict[int, State] = {}
        for suite in SUITES:
            live = self._live(suite)
            states.update((record.id, "expired") for record in live[:-1])
            states.update((record.id, "active") for record in live[-1:])
        return [_public(record, states.get(record.id, "pending")) for record in self._sorted() if record.exists]

    def public_list(self) -> KeyList:
        """Return the dated key list for clients."""
        issued = int(self.clock.now())
        return KeyList(self.role, issued, issued + int(self.list_lifetime), tuple(self.public_keys()))

    def refresh(self) -> None:
        """Reread the records, which other replicas may have changed."""
        rows = self._database.rows("SELECT id, suite, public, phase, time FROM keys ORDER BY id")
        self._records = {
            key_id: _Record(id=key_id, suite=suite, public=bytes(public), phase=_PHASES[phase], time=time)
            for key_id, suite, public, phase, time in rows
        }
        for key_id in [key_id for key_id in self._secrets if not self._exists(key_id)]:
            del self._secrets[key_id]

    def rotate(self, held: Collection[int] = ()) -> None:
        """Replace the active key of every suite now; ``held`` keys are not destroyed, as in :meth:`advance`."""
        now = self.clock.now()
        with self._changing():
            for suite in sorted(self.suites):
                pending = self._pending(suite)
                if pending:
                    self._write(replace(pending[0], time=now))
                else:
                    self._create(suite, now)
        self.advance(held)

    def advance(self, held: Collection[int] = ()) -> None:
        """Announce, activate and destroy the keys that are due, except that ``held`` keys are not destroyed.

        Idempotent, and safe to interrupt at any point.
        """
        due: list[_Record] = []
        with self._changing():
            now = self.clock.now()
            for record in self._sorted():
                if record.exists and record.time > now + self.lifetime + self.grace:
                    # Written by a clock that was ahead: without this, the key would stay for as long as it was.
                    self._write(replace(record, time=now))
            for suite in sorted(self.suites | {record.suite for record in self._sorted() if record.exists}):
                self._announce(suite, now)
                for record in self._pending(suite):
                    live = self._live(suite)
                    if record.time <= now or not live or live[-1].time + self.lifetime <= now:
                        self._write(replace(record, phase="live", time=now))
                        reach("rotate-after-activation")
                pairs = itertools.pairwise(self._live(suite))
                due += (old for old, new in pairs if new.time + self.grace <= now and old.id not in held)
            for record in due:
                self._write(replace(record, phase="destroyed"))
        for record in due:
            reach("destroy-after-record")
            self._forget(record)
            reach("destroy-after-erasure")

    def abandon(self) -> None:
        """Give up every key after the store was restored: what was sealed to them may have been counted before."""
        last = self._credentials.fence().last_key
        with self._changing():
            for key_id in range(1, last + 1):
                record = self._records.get(key_id)
                if record is None:
                    record = _Record(id=key_id, suite=min(SUITES), public=b"", phase="restored", time=0.0)
                    self._write(record)
                elif record.phase != "restored":
                    # Also a destroyed key: bundles may have been accepted under it between the backup and its end.
                    self._write(replace(record, phase="restored"))
        for record in self._sorted():
            if record.phase == "restored":
                self._forget(record)

    def close(self) -> None:
        """Close the connection to the store."""
        self._database.close()

    def _announce(self, suite: int, now: float) -> None:
        live = self._live(suite)
        if self._pending(suite) or suite not in self.suites:
            return
        if not live:
            self._create(suite, now)
        elif now >= (due := live[-1].time + self.lifetime) - self.grace:
            self._create(suite, due)

    def _create(self, suite: int, at: float) -> None:
        key_id = max([*self._records, self._credentials.fence().last_key]) + 1
        if key_id > MAX_KEY_ID:
            raise Infeasible(f"all {MAX_KEY_ID} key ids of the {self.role} are used; start a new contract")
        # The fence first: an id that was ever published must not get other bytes, even if this store is restored.
        self._credentials.raise_fence(last_key=key_id)
        self._credentials.create(_name(key_id, suite))
        reach("rotate-after-secret")
        self._write(_Record(id=key_id, suite=suite, public=self._derive(key_id, suite)[1], phase="pending", time=at))
        reach("rotate-after-record")

    def _recover(self) -> None:
        """Bring store and credential folder together after a crash, or after the store was restored.

        A key whose secret is gone was destroyed after the backup; a secret without a record was made in the meantime.
        """
        self.refresh()
        if self._records and not self._credentials.exists:
            raise StoreFailure(
                f"the credential folder of the {self.role} is empty, but its store has keys: mount the folder that "
                "belongs to this store (setting 'credentials')"
            )
        if self._records.keys() - range(1, self._credentials.fence().last_key + 1):
            raise StoreFailure(f"the credential folder of the {self.role} belongs to another or older store")
        erased: list[_Record] = []
        with self._changing():
            self._bind()
            # Listed within the transaction: another replica may be making or destroying a key.
            names = {_key_of(name): name for name in self._credentials.names("key-")}
            for record in self._sorted():
                if record.exists and record.id not in names:
                    # Destruction is recorded before the secret is erased, so this store was restored: bundles under
                    # the key may have been accepted, and counted, after the backup.
                    self._write(replace(record, phase="restored"))
                elif not record.exists and record.id in names:
                    erased.append(record)
            for key_id in sorted(names.keys() - self._records.keys()):
                suite = int(names[key_id].rpartition("-")[2])
                self._credentials.raise_fence(last_key=key_id)
                public = self._derive(key_id, suite)[1]
                now = self.clock.now()
                self._write(_Record(id=key_id, suite=suite, public=public, phase="live", time=now))
        for record in erased:
            self._forget(record)

    def _bind(self) -> None:
        """Tie the store to its credential folder, for good: with another one, it would give up what it holds."""
        fence = self._credentials.raise_fence()
        names = [name for (name,) in self._database.rows("SELECT name FROM folders")]
        if not names:
            self._database.run("INSERT INTO folders VALUES (1, ?)", fence.id)
        elif names != [fence.id]:
            raise StoreFailure(
                f"the credential folder of the {self.role} belongs to another store: all replicas must use the one "
                "folder that was used first (setting 'credentials')"
            )

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Return one transaction that changes the records, alone among all replicas; they are read at its start."""
        before = self._records
        try:
            with self._database.transaction():
                self._database.exclude("keys")
                self.refresh()
                yield
        except BaseException:
            self._records = before
            raise

    def _write(self, record: _Record) -> None:
        values = (record.id, record.suite, record.public, record.phase, record.time)
        conflict = "ON CONFLICT (id) DO UPDATE SET phase = excluded.phase, time = excluded.time"
        self._database.run(f"INSERT INTO keys VALUES (?, ?, ?, ?, ?) {conflict}", *values)
        self._records[record.id] = record

    def _forget(self, record: _Record) -> None:
        self._secrets.pop(record.id, None)
        self._credentials.erase(_name(record.id, record.suite))

    def _secret(self, key_id: int) -> tuple[bytes, Private] | None:
        if not self._exists(key_id):
            return None
        if key_id not in self._secrets:
            suite = self._records[key_id].suite
            private = self._derive(key_id, suite)[0]
            self._secrets[key_id] = private, load_private(suite, private)
        return self._secrets[key_id]

    def _derive(self, key_id: int, suite: int) -> tuple[bytes, bytes]:
        secret = self._credentials.read(_name(key_id, suite))
        if secret is None:
            raise StoreFailure(f"the secret of key {key_id} of the {self.role} is missing from the credential folder")
        return generate(suite, entropy=lambda size: derive(secret, f"{self.role} key {key_id} suite {suite}", size))

    def _exists(self, key_id: int) -> bool:
        record = self._records.get(key_id)
        return record is not None and record.exists

    def _sorted(self) -> list[_Record]:
        return [self._records[key_id] for key_id in sorted(self._records)]

    def _live(self, suite: int) -> list[_Record]:
        return [record for record in self._sorted() if record.phase == "live" and record.suite == suite]

    def _pending(self, suite: int) -> list[_Record]:
        return [record for record in self._sorted() if record.phase == "pending" and record.suite == suite]


def _name(key_id: int, suite: int) -> str:
    return f"key-{key_id:05d}-{suite}"


def _key_of(name: str) -> int:
    return int(name.split("-")[1])


def _public(record: _Record, state: State) -> PublicKey:
    return PublicKey(record.id, record.suite, record.public, state)
