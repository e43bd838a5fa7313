"""Kill, stop and restart both services under load; afterwards every acknowledged value must be counted exactly once.

Every report carries a distinct value: a count of 0 is a loss, a count of 2 a replay. Used by the tests and by
``benchmarks.soak``.
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
from tests.service.live import TIMEOUT, LiveSystem, counted, wait_until

from hubbub.errors import CommandFailure
from hubbub.service.provision import ROLES, Role
from hubbub.service.runtime.failpoints import POINTS

ROOT = Path(__file__).parents[2]

KILL, STOP = "kill", "stop"
"""Ways to end a process besides the failpoints: SIGKILL and SIGTERM, at a random moment."""

_FILE_POINTS = [name for name in POINTS if name.startswith(("rotate-", "file-")) and name != "file-before-unlink"]
ANALYZER_POINTS = [
    name for name in POINTS if name.startswith(("chunk-", "manifest-", "batch-", "receipt-", "statement-"))
] + _FILE_POINTS
"""The failpoints that a running analyzer reaches."""
ISSUER_POINTS = [name for name in POINTS if name.startswith("issue-")]
"""The failpoints that a running issuer reaches."""
SHUFFLER_POINTS = [name for name in POINTS if name not in (*ANALYZER_POINTS, *ISSUER_POINTS) or name in _FILE_POINTS]
"""The failpoints that a running shuffler reaches."""


@dataclass
class CrashTest:
    """Clients under whose load each service dies in the given ways, one after the other."""

    folder: Path
    ends: Mapping[Role, Sequence[str]]
    """For each role: ``kill``, ``stop``, or the name of a failpoint."""
    reports: int
    """Number of values of all tasks together."""
    tasks: int = 1
    min_batch_size: int = 50
    rate: float = 50.0
    """Reports per second that may be sent even if nothing dies."""
    life: float = 1.0
    """Mean lifetime in seconds of a service that is killed at random."""
    workers: int = 1
    seed: int = 1
    progress: Callable[[str], None] = lambda _: None
    restarts: list[float] = field(default_factory=list)
    """Seconds from the start of a process until it was ready."""
    stops: list[float] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    """The ends so far, in order."""

    def __post_init__(self) -> None:
        assert self.reports % self.tasks == 0
        self._each = self.reports // self.tasks
        self._spares = [name for name in self.ends.get("shuffler", ()) if name.startswith("expire-")]
        self._failure: BaseException | None = None
        self._begun: dict[Role, float] = {}
        self._answered = 0

    def run(self) -> dict[str, Any]:
        """Run the test and return its figures; fail if anything is lost, duplicated or damaged."""
        begun = time.monotonic()
        self._system = system = LiveSystem(
            self.folder,
            width=self._each + 1,
            tasks=self.tasks + len(self._spares),
            min_batch_size=self.min_batch_size,
            entries={"shuffler": {"key_grace": 1.0, "workers": 1}, "analyzer": {"workers": 1}},
        )
        with system.running(), self._clients() as clients:
            said = self._go(clients)
            wait_until(lambda: system.drained(self.tasks), "the last batches", 10 * TIMEOUT)
            for number in range(self.tasks, self.tasks + len(self._spares)):
                system.command("shuffler", "close", system.contracts[number].id)
            figures = self._audit(said)
            self.stops += [system.stop(role) for role in reversed(ROLES)]
        wait_until(lambda: not system.orphans(), "workers to exit with their service", 30)
        assert system.integrity() == ["ok", "ok"]
        return {
            **figures,
            "deaths": len(self.died),
            "kills": self.died.count(KILL),
            "polite_stops": self.died.count(STOP),
            **{f"at_{name}": self.died.count(name) for name in POINTS if name in self.died},
            **_spread("restart_s", self.restarts),
            **_spread("stop_s", self.stops),
            "seconds": round(time.monotonic() - begun, 1),
        }

    @contextlib.contextmanager
    def _clients(self) -> Iterator["subprocess.Popen[str]"]:
        settings = {
            "contracts": [str(path) for path in self._system.paths],
            "reports": self._each,
            "pads": self.min_batch_size,
            "spares": len(self._spares),
            "seed": self.seed,
            "workers": self.workers,
        }
        command = [sys.executable, "-m", "tests.service.load", self._system.url, json.dumps(settings)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as clients:
            try:
                yield clients
            finally:
                clients.kill()

    def _go(self, clients: "subprocess.Popen[str]") -> dict[str, Any]:
        """Let the services die while the clients send, a share of the reports per death; return their figures."""
        assert clients.stdin is not None
        assert clients.stdout is not None
        lines: list[str] = []
        out = clients.stdout
        reading = threading.Thread(target=lambda: lines.extend(out))
        living = [threading.Thread(target=self._live, args=(role, ends)) for role, ends in self.ends.items()]
        for thread in (reading, *living):
            thread.start()
        begun = time.monotonic()
        while any(thread.is_alive() for thread in living):
            allowed = max(self._share(len(self.died) + 1), int(self.rate * (time.monotonic() - begun)))
            print(allowed, file=clients.stdin, flush=True)
            self._answered = int(lines[-1]) if lines else 0
            self.progress(f"{len(self.died)} deaths, {self._answered} reports acknowledged")
            time.sleep(0.1)
            assert clients.poll() is None, "the clients gave up"
        if self._failure is not None:
            raise self._failure
        print(max(self.reports, int(self.rate * (time.monotonic() - begun))), file=clients.stdin, flush=True)
        print("end", file=clients.stdin, flush=True)
        reading.join(20 * TIMEOUT)
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def _share(self, deaths: int) -> int:
        """Return the number of reports that belong to this many deaths."""
        return self.reports * deaths // max(sum(map(len, self.ends.values())), 1)

    def _live(self, role: Role, ends: Sequence[str]) -> None:
        chance = random.Random(f"{role} {self.seed}")
        armed = ""
        try:
            for end, following in zip(ends, [*ends[1:], ""], strict=True):
                if end not in POINTS:
                    self._end(role, end, chance)
                elif armed == end:
                    self._await(role, end)
                else:
                    self._system.kill(role)
                    self._start(role, end)
                    self._await(role, end)
                self.died.append(end)
                armed = following if following in POINTS else ""
                self._start(role, armed)
            self._ready(role)
        except BaseException as failure:
            self._failure = failure

    def _start(self, role: Role, failpoint: str = "") -> None:
        self._begun[role] = time.monotonic()
        self._system.launch(role, failpoint)

    def _ready(self, role: Role) -> None:
        wait_until(lambda: self._system.ready(role), f"the {role} to be ready again")
        if role in self._begun:
            self.restarts.append(time.monotonic() - self._begun[role])

    def _end(self, role: Role, end: str, chance: random.Random) -> None:
        # Every fifth kill does not wait until the service is ready and hits its start.
        if end == STOP or chance.random() < 0.8:
            self._ready(role)
            # Deaths are spread over all reports, however slow the clients are.
            wait_until(lambda: self._answered >= self._share(len(self.died) - 1), "the clients to keep up")
        time.sleep(min(chance.expovariate(1 / self.life), 5 * self.life))
        if end == KILL:
            self._system.kill(role)
        else:
            self.stops.append(self._system.stop(role))

    def _await(self, role: Role, point: str) -> None:
        """Wait for the death at a failpoint, and send the command that reaches it where uploads do not."""
        process, give_up = self._system.processes[role], time.monotonic() + TIMEOUT
        while process.poll() is None:
            assert time.monotonic() < give_up, f"{point} was not reached"
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

    def _audit(self, said: Mapping[str, Any]) -> dict[str, Any]:
        system, each = self._system, self._each
        tasks = system.command("shuffler", "check")["tasks"]
        lost = doubled = batches = 0
        padding: list[tuple[int, int]] = []
        accepted: list[tuple[int, int]] = []
        for number in range(self.tasks):
            results = system.results(system.contracts[number])
            total = counted(results, each + 1)
            where, batches = tasks[system.contracts[number].id], batches + len(results)
            lost += int(np.count_nonzero(total[:each] == 0))
            doubled += int(np.count_nonzero(total[:each] > 1))
            padded = said["padded"][number]
            padding.append((int(total[each]) + where["open"], padded))
            assert where["outbox"] == where["sealed"] == where["expired"] == where["fenced"] == 0, where
            accepted.append((where["accepted"], each + padded))
        for number in range(self.tasks, self.tasks + len(self._spares)):
            where = tasks[system.contracts[number].id]
            assert (where["accepted"], where["expired"], where["open"]) == (10, 10, 0), where
            assert system.results(system.contracts[number]) == []
        assert all(one["error"] == 0 for one in tasks.values())
        assert (lost, doubled) == (0, 0)
        assert all(found == sent for found, sent in padding), "padding was lost or duplicated"
        assert all(found == sent for found, sent in accepted), "the shuffler accepted a different number than was sent"
        return {
            "reports": self.reports,
            "acknowledged": said["answered"],
            "lost": lost,
            "doubled": doubled,
            "conservation_error": 0,
            "batches": batches,
            **{f"clients_{name}": count for name, count in said.items() if name not in ("answered", "padded")},
        }


def _spread(name: str, seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {
        f"{name}_p50": round(float(np.median(seconds)), 2),
        f"{name}_max": round(max(seconds), 2),
        f"{name}_count": len(seconds),
    }
