"""Leases: at most one replica works on a job at a time, and a replica that lost its lease cannot write.

A lease ends at a time of the database's clock, which all replicas share. Safety does not rely on it: each acquisition
draws a higher token, and every transaction of a job confirms the token (:meth:`Leases.confirm`), which also keeps other
replicas from acquiring the lease until the transaction has ended. A replica that was paused, or a clock that jumped,
therefore makes a job fail instead of writing.
"""

import secrets
import time
from dataclasses import dataclass

from hubbub.errors import HubbubError
from hubbub.service.runtime.clock import Clock
from hubbub.service.runtime.database import Database

LEASE_TABLE = (
    "leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, token BIGINT NOT NULL, until DOUBLE PRECISION NOT NULL)"
)
LEASE_SECONDS = 30.0
"""Default duration of a lease."""


LONGEST_REST = 0.02
"""Seconds of the longest pause between two steps of a job."""


def rest(begun: float) -> None:
    """Pause a job for as long as its last step took, since ``begun`` by the monotonic clock, up to 20 ms.

    Uploads share the processor, the disk and, on SQLite, the only writer with the jobs of their process. A job may take
    twice as long; an upload must not wait for several steps of it.
    """
    time.sleep(min(time.monotonic() - begun, LONGEST_REST))


class LostLease(HubbubError):
    """Another replica has taken over the job."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a job until another replica acquires a higher token."""

    name: str
    token: int


class Leases:
    """The leases of one replica."""

    def __init__(self, database: Database, clock: Clock, *, seconds: float = LEASE_SECONDS) -> None:
        self._database, self._clock, self._seconds = database, clock, seconds
        self.holder = secrets.token_hex(8)

    def acquire(self, name: str) -> Lease | None:
        """Return a lease for a job, or None if another replica holds it."""
        database = self._database
        with database.transaction():
            now = self._now()
            database.run("INSERT INTO leases VALUES (?, '', 0, 0) ON CONFLICT (name) DO NOTHING", name)
            query = f"SELECT holder, token, until FROM leases WHERE name = ?{database.for_update}"
            rows = database.rows(query, name)
            if not rows:
                # The holder has just completed the job and deleted the lease.
                return None
            ((holder, token, until),) = rows
            # An end further away than any lease lasts was set by a clock that was ahead.
            if holder not in ("", self.holder) and now < until <= now + 2 * self._seconds:
                return None
            statement = "UPDATE leases SET holder = ?, token = ?, until = ? WHERE name = ?"
            database.run(statement, self.holder, token + 1, now + self._seconds, name)
        return Lease(name, token + 1)

    def _now(self) -> float:
        """Return the time of the database; of a file it is that of the machine, on which its only process runs."""
        return self._clock.now() if self._database.clock is None else self._database.rows(self._database.clock)[0][0]

    def confirm(self, lease: Lease) -> None:
        """Extend a lease, inside the transaction that relies on it; raise :class:`LostLease` if it was lost."""
        until = self._now() + self._seconds
        statement = "UPDATE leases SET until = ? WHERE name = ? AND token = ?"
        if self._database.run(statement, until, lease.name, lease.token) != 1:
            raise LostLease(f"another replica has taken over the job {lease.name!r}")

    def complete(self, lease: Lease) -> None:
        """Delete a lease, inside the transaction that completes its job; raise :class:`LostLease` if it was lost.

        For jobs that cannot be done twice anyway: the tokens of a new lease with the same name begin again at 1.
        """
        statement = "DELETE FROM leases WHERE name = ? AND token = ?"
        if self._database.run(statement, lease.name, lease.token) != 1:
            raise LostLease(f"another replica has taken over the job {lease.name!r}")

    def release(self, lease: Lease) -> None:
        """Give a lease back, so that other replicas need not wait for its end."""
        statement = "UPDATE leases SET holder = '', until = 0 WHERE name = ? AND token = ?"
        self._database.run(statement, lease.name, lease.token)
