"""Kill, stop and restart all processes under load; afterwards every acknowledged value must be counted exactly once.

Every report carries a distinct value: a count of 0 is a loss, a count of 2 a replay. Keys are rotated, the database is
restarted, and the shuffler's store is replaced by a backup, all while clients send. ``tests.service.accounts`` judges
the outcome. Used by the tests and by ``benchmarks.soak``.
"""

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.service.accounts import Books, audit, read_books
from tests.service.live import TIMEOUT, LiveSystem, wait_until
from tests.service.postgres_server import PostgresServer

from hubbub.errors import CommandFailure
from hubbub.service.provision import Role
from hubbub.service.runtime.failpoints import POINTS

ROOT = Path(__file__).parents[2]

KILL, STOP = "kill", "stop"
"""Ways to end a process besides the failpoints: SIGKILL and SIGTERM, at a random moment."""
ROTATE, BACKUP = "rotate", "backup"
"""Commands at a random moment, which end nothing: replace the service's key, and back up the shuffler's store."""
RESTORE = "restore"
"""The end of all processes of the shuffler at once, whose store is then replaced by the last backup."""
DATABASE = "database"
"""The name of the PostgreSQL server among the processes."""
REPLICAS = (2, 2)
"""Processes of the shuffler on PostgreSQL that accept uploads, and that work on batches."""

_FILE_POINTS = [name for name in POINTS if name.startswith(("rotate-", "file-")) and name != "file-before-unlink"]
RESTORE_POINTS = [name for name in POINTS if name.startswith("restore-")]
"""The failpoints that a shuffler reaches when it starts with a restored store."""
EARLIER_POINTS = [name for name in POINTS if name.startswith(("adopt-", "fence-")) and name != "fence-raised"]
"""The failpoints of a bucket that the analyzer knows from an earlier life of the store; see ``test_restored``."""
ANALYZER_POINTS = [
    name for name in POINTS if name.startswith(("chunk-", "manifest-", "batch-", "receipt-", "statement-"))
] + _FILE_POINTS
"""The failpoints that a running analyzer reaches."""
ISSUER_POINTS = [name for name in POINTS if name.startswith("issue-")]
"""The failpoints that a running issuer reaches; ``test_issuer`` does that."""
FAKES_POINTS = [name for name in POINTS if name.startswith("shuffle-fakes") and name != "shuffle-fakes-stored"]
"""The failpoints that only plans with fakes reach; ``test_shuffle_job`` does that."""
ROUND_POINTS = [name for name in POINTS if name.startswith("turn-")]
"""The failpoints that only a series reaches; ``test_series`` does that."""
LAKE_POINTS = [name for name in POINTS if name.startswith(("lake-", "export-"))]
"""The failpoints that only a contract that exports reaches; ``test_lake`` does that."""
STRING_POINTS = [name for name in POINTS if name.startswith(("evaluation", "shuffle-subtracted"))]
"""The failpoints that only strings reach; ``test_string_deaths`` does that."""
_OTHERS = {
    *(*ROUND_POINTS, *RESTORE_POINTS, *EARLIER_POINTS, *ISSUER_POINTS),
    *(*FAKES_POINTS, *LAKE_POINTS, *STRING_POINTS, *ANALYZER_POINTS),
} - {*_FILE_POINTS}
SHUFFLER_POINTS = [name for name in POINTS if name not in _OTHERS]
"""The failpoints that a running shuffler reaches."""
INTAKE_POINTS = [name for name in POINTS if name.startswith(("upload-", "accept-"))]
"""The failpoints that every process reaches that accepts uploads."""


@dataclass
class CrashTest:
    """Clients under whose load each process dies in the given ways, one after the other."""

    folder: Path
    ends: Mapping[str, Sequence[str]]
    """For each process, and for the database: what happens to it, in this order.

    ``kill``, ``stop``, the name of a failpoint, ``rotate`` or ``backup``. Every process of the shuffler has the same
    number of ``restore`` (or of failpoints that a restored store reaches): they wait for each other.
    """
    reports: int
    """Number of values of all tasks together."""
    tasks: int = 1
    min_batch_size: int = 50
    epoch: int = 1
    rate: float = 50.0
    """Reports per second that may be sent even if nothing dies."""
    life: float = 1.0
    """Mean lifetime in seconds of a process that is killed at random."""
    workers: int = 1
    """Processes that seal for the clients."""
    openers: int = 1
    """Processes of a shuffler on SQLite that open bundles."""
    seed: int = 1
    server: PostgresServer | None = None
    """Without a server, the stores are SQLite files, and the shuffler is one process."""
    lease: float = 2.0
    patience: float = TIMEOUT
    """Seconds to wait for a failpoint; a replica that does not reach it in time is killed instead."""
    progress: Callable[[str], None] = lambda _: None
    restarts: list[float] = field(default_factory=list)
    """Seconds from the start of a process until it was ready."""
    stops: list[float] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    """The events so far, in order, without those of the database."""
    database_restarts: int = 0
    books: list[tuple[Books, Books]] = field(default_factory=list)
    """For each restore, the books of the replaced store and of the backup."""

    def __post_init__(self) -> None:
        assert self.reports % self.tasks == 0
        self._each = self.reports // self.tasks
        self._spares = [name for name in self.ends.get("shuffler", ()) if name.startswith("expire-")]
        self._failure: BaseException | None = None
        self._started: dict[str, float] = {}
        self._settled = 0
        self._database = threading.Lock()
        """Held while the database restarts, is backed up or restored."""
        self._backup: Path | None = None
        self._total = sum(len(ends) for name, ends in self.ends.items() if name != DATABASE)

    def run(self) -> dict[str, Any]:
        """Run the test and return its figures; fail if anything is lost, duplicated or damaged."""
        begun = time.monotonic()
        entries: dict[Role, dict[str, object]] = {
            "shuffler": {"key_grace": 1.0, "workers": 0 if self.server else self.openers, "lease": self.lease},
            "analyzer": {"workers": 1, "lease": self.lease},
        }
        self._system = system = LiveSystem(
            self.folder,
            width=self._each + 1,
            tasks=self.tasks + len(self._spares),
            min_batch_size=self.min_batch_size,
            epoch=self.epoch,
            entries=entries,
            server=self.server,
            replicas=REPLICAS if self.server else (0, 0),
        )
        self._barrier = threading.Barrier(len(system.shufflers))
        with system.running(), self._clients() as clients:
            said = self._go(clients)
            wait_until(lambda: system.drained(self.tasks), "the last batches", 10 * TIMEOUT)
            for number in range(self.tasks, self.tasks + len(self._spares)):
                system.command("shuffler", "close", system.contracts[number].id)
            figures = audit(system, said, self._each, self.tasks, len(self._spares), self.books)
            self.stops += [system.stop(name) for name in reversed(system.names)]
        wait_until(lambda: not system.orphans(), "workers to exit with their service", 30)
        assert set(system.integrity()) <= {"ok"}
        events = (ROTATE, BACKUP)
        return {
            "reports": self.reports,
            **figures,
            "deaths": sum(one not in events for one in self.died),
            "kills": self.died.count(KILL),
            "polite_stops": self.died.count(STOP),
            "database_restarts": self.database_restarts,
            "rotations": self.died.count(ROTATE),
            "restores": system.restores,
            **{f"at_{name}": self.died.count(name) for name in POINTS if name in self.died},
            **_spread("restart_s", self.restarts),
            **_spread("stop_s", self.stops),
            "seconds": round(time.monotonic() - begun, 1),
        }

    @contextlib.contextmanager
    def _clients(self) -> Iterator["subprocess.Popen[str]"]:
        settings = {
            "urls": self._system.urls,
            "contracts": [str(path) for path in self._system.paths],
            "reports": self._each,
            "pads": self.min_batch_size,
            "spares": len(self._spares),
            "seed": self.seed,
            "workers": self.workers,
        }
        command = [sys.executable, "-m", "tests.service.load", json.dumps(settings)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as clients:
            self._input, self._telling = clients.stdin, threading.Lock()
            try:
                yield clients
            finally:
                clients.kill()

    def _tell(self, text: object) -> None:
        assert self._input is not None
        with self._telling:
            print(text, file=self._input, flush=True)

    def _go(self, clients: "subprocess.Popen[str]") -> dict[str, Any]:
        """Let the processes die while the clients send, a share of the reports per death; return their figures."""
        assert clients.stdout is not None
        lines: list[str] = []
        out = clients.stdout
        reading = threading.Thread(target=lambda: lines.extend(out))
        living = [threading.Thread(target=self._live, args=(name, ends)) for name, ends in self.ends.items()]
        for thread in (reading, *living):
            thread.start()
        begun = time.monotonic()
        while any(thread.is_alive() for thread in living):
            allowed = max(self._share(len(self.died) + 1), int(self.rate * (time.monotonic() - begun)))
            self._tell(allowed)
            self._settled = int(lines[-1]) if lines else 0
            self._report(time.monotonic() - begun)
            time.sleep(0.1)
            if clients.poll() is not None:
                self._failure = self._failure or AssertionError("the clients gave up")
                self._barrier.abort()
        if self._failure is not None:
            raise self._failure
        self._tell(max(self.reports, int(self.rate * (time.monotonic() - begun))))
        self._tell("end")
        while reading.is_alive():
            reading.join(1)
            last = lines[-1] if lines else "0"
            self._settled = int(last) if last.strip().isdigit() else self._settled
            self._report(time.monotonic() - begun)
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def _report(self, seconds: float) -> None:
        """Show the progress and the time that is left, by the slower of the two."""
        done = min(len(self.died) / max(self._total, 1), self._settled / self.reports)
        left = f"{seconds * (1 / done - 1):.0f} s left" if done > 0.01 else "starting"
        self.progress(
            f"{len(self.died)} of {self._total} deaths, {self._settled:,} of {self.reports:,} reports, "
            f"{self.database_restarts} restarts of the database, {seconds:.0f} s, {left}"
        )

    def _share(self, deaths: int) -> int:
        """Return the number of reports that belong to this many deaths."""
        return self.reports * deaths // max(self._total, 1)

    # what happens to one process

    def _live(self, name: str, ends: Sequence[str]) -> None:
        chance = random.Random(f"{name} {self.seed}")
        try:
            if name == DATABASE:
                self._live_database(ends, chance)
                return
            armed = ""
            for end, following in zip(ends, [*ends[1:], ""], strict=True):
                happened = end
                if end in (ROTATE, BACKUP):
                    self._command(name, end)
                elif end in (RESTORE, *RESTORE_POINTS):
                    self._restore(name, end)
                elif end in POINTS:
                    if armed != end:
                        self._system.kill(name)
                        self._start(name, end)
                    happened = self._await(name, end)
                else:
                    self._end(name, end, chance)
                self.died.append(happened)
                if end not in (ROTATE, BACKUP):
                    armed = following if following in POINTS and following not in RESTORE_POINTS else ""
                    self._start(name, armed)
            self._ready(name)
        except BaseException as failure:
            self._failure = self._failure or failure
            self._barrier.abort()

    def _start(self, name: str, failpoint: str = "") -> None:
        self._started[name] = time.monotonic()
        self._system.launch(name, failpoint)

    def _ready(self, name: str) -> None:
        def good() -> bool:
            assert self._system.processes[name].poll() is None, f"the {name} exited by itself"
            return self._system.ready(name) or self._failure is not None

        wait_until(good, f"the {name} to be ready again")
        if name in self._started:
            self.restarts.append(time.monotonic() - self._started.pop(name))

    def _keep_up(self) -> None:
        """Wait until the clients have sent their share: deaths are spread over all reports."""
        behind = len(self.died) - len(self.ends)
        wait_until(lambda: self._settled >= self._share(behind) or self._failure is not None, "the clients to keep up")

    def _end(self, name: str, end: str, chance: random.Random) -> None:
        # Every fifth kill does not wait until the process is ready and hits its start.
        if end == STOP or chance.random() < 0.8:
            self._ready(name)
            self._keep_up()
        time.sleep(min(chance.expovariate(1 / self.life), 5 * self.life))
        if end == KILL:
            self._system.kill(name)
        else:
            self.stops.append(self._system.stop(name))

    def _await(self, name: str, point: str) -> str:
        """Wait for the death at a failpoint, and send the command that reaches it where uploads do not."""
        process, give_up = self._system.processes[name], time.monotonic() + self.patience
        role: Role = "analyzer" if name == "analyzer" else "shuffler"
        while process.poll() is None:
            assert self._failure is None, "another process failed"
            if time.monotonic() > give_up:
                assert name not in ("shuffler", "analyzer"), f"{point} was not reached"
                self._system.kill(name)
                return KILL
            with contextlib.suppress(CommandFailure):
                if point.startswith(("rotate-", "destroy-", "file-")):
                    self._system.command(role, "rotate")
                elif point.startswith("expire-"):
                    spare = self._system.contracts[self.tasks + sum(one.startswith("expire-") for one in self.died)]
                    if self._system.command(role, "status")["tasks"][spare.id]["accepted"] == 10:
                        self._system.command(role, "close", spare.id)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.5)
        assert process.returncode == -signal.SIGKILL, f"{point}: {process.returncode}"
        return point

    def _command(self, name: str, event: str) -> None:
        """Rotate the keys of a service, or back up the store, as soon as that succeeds."""
        self._ready(name)
        if event == BACKUP:
            path = self.folder / f"backup-{self._system.restores}-{len(self.died)}"
            with self._database:
                self._system.back_up(path)
            self._backup = path
            return
        end = time.monotonic() + TIMEOUT
        while True:
            try:
                self._system.command("analyzer" if name == "analyzer" else "shuffler", "rotate")
                return
            except CommandFailure:
                assert time.monotonic() < end, "the keys could not be rotated"
                time.sleep(0.2)

    def _restore(self, name: str, point: str) -> None:
        """Wait for all processes of the shuffler; one of them kills all, and replaces the store by the last backup."""
        self._ready(name)
        if self._barrier.wait(20 * TIMEOUT) == 0:
            system = self._system
            assert self._backup is not None, "there is no backup"
            for one in system.shufflers:
                system.kill(one)
            self._tell("restored")
            with self._database:
                replaced = system.restore(self._backup)
                self.books.append((read_books(replaced), read_books(system.store_url())))
            if point != RESTORE:
                self._start(name, point)
                self._await(name, point)
        self._barrier.wait(20 * TIMEOUT)

    def _live_database(self, ends: Sequence[str], chance: random.Random) -> None:
        """Restart the database, each time when a share of everything else has happened."""
        assert self.server is not None
        for number, end in enumerate(ends):
            share = self._total * number // len(ends)
            wait_until(
                lambda share=share: len(self.died) >= share or self._failure is not None,  # type: ignore[misc]
                "the next restart of the database",
                100 * TIMEOUT,
            )
            time.sleep(min(chance.expovariate(1 / self.life), 5 * self.life))
            with self._database:
                self.server.kill() if end == KILL else self.server.stop()
                time.sleep(chance.random())
                self.server.start()
            self.database_restarts += 1


def _spread(name: str, seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {
        f"{name}_p50": round(float(np.median(seconds)), 2),
        f"{name}_max": round(max(seconds), 2),
        f"{name}_count": len(seconds),
    }
