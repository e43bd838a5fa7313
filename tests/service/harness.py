"""Both services as real processes, killed, stopped and started again under a crowd whose every value is its own.

After all that, every acknowledged value must have been counted once: 0 is a loss, 2 a replay. Shared by the tests and
by ``benchmarks.soak``.
"""

import contextlib
import functools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
from numpy.typing import NDArray
from tests.service.system import clear_plan

from hubbub.service.provision import CONTRACT, SETTINGS, draw_up, provision_all
from hubbub.service.runtime.admin_client import CommandFailure, command
from hubbub.service.runtime.failpoints import POINTS, VARIABLE
from hubbub.service.runtime.process import ADDRESSES
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.identity import Identity

__all__ = ["ANALYZER_POINTS", "KILL", "ROLES", "SHUFFLER_POINTS", "STOP", "Ordeal", "Role", "Town", "counted", "until"]

Role = Literal["shuffler", "analyzer"]
ROLES: tuple[Role, Role] = ("analyzer", "shuffler")
ROOT = Path(__file__).parents[2]

KILL, STOP = "kill", "stop"
"""Ends of a process besides the named points: SIGKILL and SIGTERM, at a random moment."""

_SMALL_FILES = [name for name in POINTS if name.startswith(("rotate-", "vault-")) and name != "vault-before-unlink"]
ANALYZER_POINTS = [
    name for name in POINTS if name.startswith(("chunk-", "manifest-", "batch-", "receipt-"))
] + _SMALL_FILES
SHUFFLER_POINTS = [name for name in POINTS if name not in ANALYZER_POINTS or name in _SMALL_FILES]
"""Which of the points a running service of each role reaches."""

PATIENCE = 180.0
"""Seconds after which what was waited for is given up: far more than anything takes on a busy machine."""


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


class Town:
    """Two services of one folder, and the contracts between them."""

    def __init__(
        self,
        folder: Path,
        *,
        width: int,
        tasks: int = 1,
        min_batch_size: int = 50,
        epoch: int = 1,
        entries: Mapping[Role, Mapping[str, object]] | None = None,
    ) -> None:
        plan = clear_plan(width, min_batch_size)
        provision_all(folder, plan, {"epoch": epoch, "min_batch_size": min_batch_size, "days": 3650.0}, test=True)
        self.folder = folder
        both = [Identity.load(folder / role / "identity") for role in ROLES]
        self.contracts: list[Contract] = []
        self.paths: list[Path] = []
        for number in range(tasks):
            # They differ by when they end, and so in everything that is sealed.
            drawn = draw_up(
                plan,
                analyzer=both[0].public,
                shuffler=both[1].public,
                epoch=epoch,
                min_batch_size=min_batch_size,
                days=3650.0 + number,
            )
            path = folder / (CONTRACT if not number else f"contract-{number}.json")
            path.write_bytes(SignedContract.sign(drawn, *both).to_json())
            self.contracts.append(drawn)
            self.paths.append(path)
        names = json.dumps([f"../{path.name}" for path in self.paths])
        for role in ROLES:
            own = (entries or {}).get(role, {})
            self.change(role, {"contracts": names, **{name: json.dumps(value) for name, value in own.items()}})
        self.processes: dict[Role, subprocess.Popen[bytes]] = {}
        self._sessions: list[int] = []

    def change(self, role: Role, entries: Mapping[str, str]) -> None:
        """Give entries of the settings other values, written as TOML."""
        path = self.folder / role / SETTINGS
        lines = [line for line in path.read_text().splitlines() if line.split(" ")[0] not in entries]
        path.write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in entries.items())]) + "\n")

    def entry(self, role: Role, name: str) -> Any:
        """An entry of the settings."""
        lines = (self.folder / role / SETTINGS).read_text().splitlines()
        return json.loads(next(line for line in lines if line.startswith(f"{name} = ")).partition(" = ")[2])

    @property
    def url(self) -> str:
        """Where uploads go; the port stays the same at every start."""
        return f"http://{self.entry('shuffler', 'listen')}"

    # processes

    def start(self, role: Role, failpoint: str = "") -> "subprocess.Popen[bytes]":
        """Start a service; armed with a failpoint, if one is named."""
        (self.folder / role / ADDRESSES).unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        if failpoint:
            environment[VARIABLE] = failpoint
        with (self.folder / f"{role}.log").open("ab") as log:
            self.processes[role] = subprocess.Popen(
                [sys.executable, "-m", "hubbub.service", role, str(self.folder / role / SETTINGS)],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._sessions.append(self.processes[role].pid)
        return self.processes[role]

    def ready(self, role: Role) -> bool:
        """Whether a service says that it is."""
        try:
            place = json.loads((self.folder / role / ADDRESSES).read_text())["operations"]
            return httpx.get(place + "/readyz", trust_env=False, timeout=5).status_code == 200
        except (OSError, httpx.HTTPError):
            return False

    def kill(self, role: Role) -> None:
        """SIGKILL."""
        self.processes[role].kill()
        self.processes[role].wait()

    def stop(self, role: Role) -> float:
        """SIGTERM; how long it took to leave in peace."""
        begun = time.monotonic()
        self.processes[role].terminate()
        assert self.processes[role].wait(PATIENCE) == 0, f"the {role} did not leave in peace"
        return time.monotonic() - begun

    def command(self, role: Role, name: str, value: str = "") -> dict[str, Any]:
        """Give a command."""
        return command(self.folder / role / "admin.sock", name, value, seconds=PATIENCE)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Both services, and nothing of them afterwards."""
        try:
            for role in ROLES:
                self.start(role)
            for role in ROLES:
                until(functools.partial(self.ready, role), f"the {role} to be ready")
            yield
        finally:
            for process in self.processes.values():
                if process.poll() is None:
                    process.kill()
                process.wait()

    def orphans(self) -> list[int]:
        """Processes that a service started and left behind."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                after = path.read_text().rpartition(")")[2].split()
                if int(after[3]) in self._sessions and after[0] != "Z":
                    found.append(int(path.parent.name))
        return found

    # what became of it

    def counts(self, number: int = 0) -> dict[str, int]:
        """Where the bundles of a task are, as the shuffler recounts them."""
        found: dict[str, int] = self.command("shuffler", "check")["tasks"][self.contracts[number].id]
        return found

    def drained(self, tasks: int) -> bool:
        """Whether nothing is on its way any more, but what is too little for a batch."""
        with contextlib.suppress(CommandFailure):
            found = self.command("shuffler", "status")["tasks"]
            return all(
                not found[one.id]["outbox"] and found[one.id]["pool"] < one.min_batch_size
                for one in self.contracts[:tasks]
            )
        return False

    def results(self, number: int = 0) -> list[dict[str, Any]]:
        """All results of a task, from the API for readers."""
        token = self.command("analyzer", "token", "read:*")["token"]
        places = json.loads((self.folder / "analyzer" / ADDRESSES).read_text())
        with httpx.Client(
            base_url=places["results"], headers={"authorization": f"Bearer {token}"}, trust_env=False, timeout=PATIENCE
        ) as reader:
            names = reader.get(f"/v1/tasks/{self.contracts[number].id}/batches").json()["batches"]
            return [reader.get(f"/v1/batches/{one['batch']}").json() for one in names]

    def integrity(self) -> list[str]:
        """What SQLite says of both stores."""
        found = []
        for role in ROLES:
            with contextlib.closing(sqlite3.connect(self.folder / role / f"{role}.db")) as store:
                found += [text for (text,) in store.execute("PRAGMA integrity_check")]
        return found


def counted(results: Sequence[dict[str, Any]], width: int) -> NDArray[np.int64]:
    """How often every value was counted in all batches of a task."""
    total = np.zeros(width, np.int64)
    for result in results:
        assert result["state"] == "committed", result
        assert not result["rejected"], result["rejected"]
        values = np.array(result["values"])
        whole = np.rint(values).astype(np.int64)
        assert np.abs(values - whole).max() < 1e-3
        total += whole
    return total


@dataclass
class Ordeal:
    """A crowd, and two services each of which comes to the given ends, one after the other."""

    folder: Path
    ends: Mapping[Role, Sequence[str]]
    """For each role: ``kill``, ``stop``, or the name of a point."""
    reports: int
    """Values of all tasks together."""
    tasks: int = 1
    min_batch_size: int = 50
    rate: float = 50.0
    """Reports a second that may be sent even if nothing dies."""
    life: float = 1.0
    """Seconds that a service mostly lives before it is killed at random."""
    workers: int = 1
    seed: int = 1
    tell: Callable[[str], None] = lambda _: None
    restarts: list[float] = field(default_factory=list)
    """Seconds from a start until the service was ready."""
    stops: list[float] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    """The ends that came."""

    def __post_init__(self) -> None:
        assert self.reports % self.tasks == 0
        self._each = self.reports // self.tasks
        self._spares = [name for name in self.ends.get("shuffler", ()) if name.startswith("expire-")]
        self._failure: BaseException | None = None
        self._begun: dict[Role, float] = {}
        self._answered = 0

    def run(self) -> dict[str, Any]:
        """Figures of the whole; raises if anything is lost, doubled or damaged."""
        begun = time.monotonic()
        self._town = town = Town(
            self.folder,
            width=self._each + 1,
            tasks=self.tasks + len(self._spares),
            min_batch_size=self.min_batch_size,
            entries={"shuffler": {"key_grace": 1.0, "workers": 1}, "analyzer": {"workers": 1}},
        )
        with town.running(), self._crowd() as crowd:
            said = self._go(crowd)
            until(lambda: town.drained(self.tasks), "the last batches", 10 * PATIENCE)
            for number in range(self.tasks, self.tasks + len(self._spares)):
                town.command("shuffler", "close", town.contracts[number].id)
            figures = self._audit(said)
            self.stops += [town.stop(role) for role in reversed(ROLES)]
        until(lambda: not town.orphans(), "workers to leave with their service", 30)
        assert town.integrity() == ["ok", "ok"]
        return {
            **figures,
            "deaths": len(self.died),
            "kills": self.died.count(KILL),
            "polite_stops": self.died.count(STOP),
            "at_points": {name: self.died.count(name) for name in POINTS if name in self.died},
            "restart_s": _spread(self.restarts),
            "stop_s": _spread(self.stops),
            "seconds": round(time.monotonic() - begun, 1),
        }

    @contextlib.contextmanager
    def _crowd(self) -> Iterator["subprocess.Popen[str]"]:
        settings = {
            "contracts": [str(path) for path in self._town.paths],
            "reports": self._each,
            "pads": self.min_batch_size,
            "spares": len(self._spares),
            "seed": self.seed,
            "workers": self.workers,
        }
        command = [sys.executable, "-m", "tests.service.load", self._town.url, json.dumps(settings)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as crowd:
            try:
                yield crowd
            finally:
                crowd.kill()

    def _go(self, crowd: "subprocess.Popen[str]") -> dict[str, Any]:
        """Let the services die as the crowd goes on, a share of it for every death; what the crowd says in the end."""
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        lines: list[str] = []
        out = crowd.stdout
        reading = threading.Thread(target=lambda: lines.extend(out))
        living = [threading.Thread(target=self._live, args=(role, ends)) for role, ends in self.ends.items()]
        for thread in (reading, *living):
            thread.start()
        begun = time.monotonic()
        while any(thread.is_alive() for thread in living):
            allowed = max(self._share(len(self.died) + 1), int(self.rate * (time.monotonic() - begun)))
            print(allowed, file=crowd.stdin, flush=True)
            self._answered = int(lines[-1]) if lines else 0
            self.tell(f"{len(self.died)} deaths, {self._answered} reports acknowledged")
            time.sleep(0.1)
            assert crowd.poll() is None, "the crowd gave up"
        if self._failure is not None:
            raise self._failure
        print(max(self.reports, int(self.rate * (time.monotonic() - begun))), file=crowd.stdin, flush=True)
        print("end", file=crowd.stdin, flush=True)
        reading.join(20 * PATIENCE)
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def _share(self, deaths: int) -> int:
        """The reports that belong to so many deaths."""
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
                    self._town.kill(role)
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
        self._town.start(role, failpoint)

    def _ready(self, role: Role) -> None:
        until(lambda: self._town.ready(role), f"the {role} to be ready again")
        if role in self._begun:
            self.restarts.append(time.monotonic() - self._begun[role])

    def _end(self, role: Role, end: str, chance: random.Random) -> None:
        # Every fifth kill does not wait until the service is ready: it falls into its start.
        if end == STOP or chance.random() < 0.8:
            self._ready(role)
            # Deaths are spread over the whole crowd, however slow it is.
            until(lambda: self._answered >= self._share(len(self.died) - 1), "the crowd to keep up")
        time.sleep(min(chance.expovariate(1 / self.life), 5 * self.life))
        if end == KILL:
            self._town.kill(role)
        else:
            self.stops.append(self._town.stop(role))

    def _await(self, role: Role, point: str) -> None:
        """Wait for the death at a point, and do what brings it about where uploads alone do not."""
        process, give_up = self._town.processes[role], time.monotonic() + PATIENCE
        while process.poll() is None:
            assert time.monotonic() < give_up, f"{point} was not reached"
            with contextlib.suppress(CommandFailure):
                if point.startswith(("rotate-", "destroy-", "vault-")):
                    self._town.command(role, "rotate")
                elif point.startswith("expire-"):
                    spare = self._town.contracts[self.tasks + sum(one.startswith("expire-") for one in self.died)]
                    if self._town.command(role, "status")["tasks"][spare.id]["accepted"] == 10:
                        self._town.command(role, "close", spare.id)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.5)
        assert process.returncode == -signal.SIGKILL, f"{point}: {process.returncode}"

    def _audit(self, said: Mapping[str, Any]) -> dict[str, Any]:
        town, each = self._town, self._each
        tasks = town.command("shuffler", "check")["tasks"]
        lost = doubled = batches = 0
        padding: list[tuple[int, int]] = []
        accepted: list[tuple[int, int]] = []
        for number in range(self.tasks):
            results = town.results(number)
            total = counted(results, each + 1)
            where, batches = tasks[town.contracts[number].id], batches + len(results)
            lost += int(np.count_nonzero(total[:each] == 0))
            doubled += int(np.count_nonzero(total[:each] > 1))
            padded = said["padded"][number]
            padding.append((int(total[each]) + where["pool"], padded))
            assert where["outbox"] == where["expired"] == 0, where
            accepted.append((where["accepted"], each + padded))
        for number in range(self.tasks, self.tasks + len(self._spares)):
            where = tasks[town.contracts[number].id]
            assert (where["accepted"], where["expired"], where["pool"]) == (10, 10, 0), where
            assert town.results(number) == []
        assert all(one["error"] == 0 for one in tasks.values())
        assert (lost, doubled) == (0, 0)
        assert all(found == sent for found, sent in padding), "padding was lost or doubled"
        assert all(found == sent for found, sent in accepted), "more or less was accepted than was sent"
        return {
            "reports": self.reports,
            "acknowledged": said["answered"],
            "lost": lost,
            "doubled": doubled,
            "conservation_error": 0,
            "batches": batches,
            "crowd": {name: count for name, count in said.items() if name not in ("answered", "padded")},
        }


def _spread(seconds: Sequence[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    return {"p50": round(float(np.median(seconds)), 2), "max": round(max(seconds), 2), "count": len(seconds)}
