"""The processes under load: both services, further shufflers on one store, PostgreSQL, and what each of them uses."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.service.bundles import seal_bundles
from tests.service.live import LiveSystem, wait_until

from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner import plan_from
from hubbub.service.provision import CONTRACT, free_port
from hubbub.service.runtime.admin import SETTINGS
from hubbub.service.runtime.process import ADDRESSES
from hubbub.service.runtime.settings import settings_file
from hubbub.service.runtime.workers import Workers, seal_reports
from hubbub.service.task.contract import Contract
from hubbub.service.task.keylist import PublicKey

PLAN = plan_from(Schema.one_hot(100), 1000, Protocol(0.1), delta=1e-6)
_SHARED = ("credentials", "identity", "tickets")
_LINK = {"link_certificate": "link.pem", "link_key": "link.key", "link_authority": "authority.pem"}


def say(text: str) -> None:
    """Report progress on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Bench(LiveSystem):
    """Both services, with any number of shuffler processes on one PostgreSQL store; epochs are hours."""

    def __init__(self, folder: Path, workers: Workers, *, plan: Plan = PLAN, store: str = "", **entries: Any) -> None:
        shuffler = {**entries, **({"store": store} if store else {})}
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, plan=plan, min_batch_size=1000, epoch=3600, entries={"shuffler": shuffler})
        self._workers, self._store = workers, store
        self.replicas: list[subprocess.Popen[bytes]] = []
        self._addresses: list[str] = []

    @property
    def url(self) -> str:
        """The URL for uploads."""
        return self._addresses[0] if self._addresses else super().url

    @contextlib.contextmanager
    def more_intakes(self, count: int) -> Iterator[list[str]]:
        """Run processes that only accept uploads, beside the running services, and return their addresses."""
        started: list[subprocess.Popen[bytes]] = []
        folders = [self.folder / f"intake-{number}" for number in range(count)]
        try:
            for folder in folders:
                started.append(self._start_intake(folder))
            for folder, process in zip(folders, started, strict=True):
                wait_until(
                    lambda folder=folder, process=process: (  # type: ignore[misc]
                        (folder / ADDRESSES).exists() or process.poll() is not None
                    ),
                    "an intake process to listen",
                )
            self.replicas += started
            self._addresses = [json.loads((folder / ADDRESSES).read_text())["uploads"] for folder in folders]
            yield self._addresses
        finally:
            for process in started:
                process.kill()
                process.wait()
                assert process.stdin is not None
                process.stdin.close()
            self.replicas, self._addresses = [], []

    def _start_intake(self, folder: Path) -> "subprocess.Popen[bytes]":
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / ADDRESSES).unlink(missing_ok=True)
        entries: dict[str, object] = {name: f"../shuffler/{name}" for name in _SHARED}
        entries |= {name: f"../shuffler/{file}" for name, file in _LINK.items()}
        entries |= {
            "store": self._store,
            "role": "intake",
            "contracts": [f"../{CONTRACT}"],
            "analyzer": self.entry("shuffler", "analyzer"),
            "listen": f"127.0.0.1:{free_port()}",
            "operations": "127.0.0.1:0",
            "unsafe_test": True,
        }
        (folder / SETTINGS).write_text(settings_file("shuffler", entries))
        command = [sys.executable, "-m", "hubbub.service", "shuffler", str(folder / SETTINGS), "--stop-with-parent"]
        with (folder.parent / f"{folder.name}.log").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)

    def sealed(self, count: int) -> NDArray[np.uint8]:
        """Return new bundles of random records, one per row."""
        contract, (inner, outer) = self.contract, self.keys()
        slots = random_slots(count * contract.slots, contract, inner, self._workers)
        return seal_bundles(slots, contract.layout, outer, self._workers)

    def pids(self) -> list[int]:
        """Return the ids of the shuffler's processes."""
        return [self.processes["shuffler"].pid, *(process.pid for process in self.replicas)]


def random_slots(count: int, contract: Contract, key: PublicKey, workers: Workers) -> NDArray[np.uint8]:
    """Return sealed slots of random records."""
    return seal_reports(random_payloads(count, contract.plan), contract.layout, key, workers)


def random_payloads(count: int, plan: Plan) -> NDArray[np.uint8]:
    """Return random payloads, whose unused bits are zero."""
    payloads = np.frombuffer(os.urandom(count * plan.payload), np.uint8).reshape(count, -1).copy()
    payloads[:, -1] &= (1 << (plan.schema.width - 8 * (plan.payload - 1))) - 1
    return payloads


# PostgreSQL


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[tuple[str, int]]:
    """Start a server that syncs every commit to the disk; return its URL and the id of its first process."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    binaries = found[-1] if found else Path(shutil.which("pg_ctl") or "").parent
    folder.mkdir(parents=True)
    if os.getuid() == 0:
        # The server refuses to run as root.
        shutil.chown(folder, "postgres")
        for parent in folder.parents:
            if parent.stat().st_uid == os.getuid() and not parent.stat().st_mode & 1:
                parent.chmod(parent.stat().st_mode | 0o011)
    data = folder / "data"
    _run(str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres")
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c max_wal_size=4GB"
    _run(str(binaries / "pg_ctl"), "-w", "-D", str(data), "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}", int((data / "postmaster.pid").read_text().split()[0])
    finally:
        _run(str(binaries / "pg_ctl"), "-w", "-D", str(data), "-m", "immediate", "stop")


def _run(*words: str) -> None:
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    subprocess.run([*user, *words], check=True, capture_output=True, timeout=120, cwd="/")


def slow_commits(url: str, seconds: float) -> None:
    """Let every transaction that accepts bundles wait before its commit, with its locks held.

    A deferred constraint trigger runs as a part of the commit, in the server, so it delays a commit as a synchronous
    standby at this distance does: the commits of two connections wait at the same time.
    """
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        body = f"BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END"
        connection.execute(f"CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS '{body}'".encode())
        connection.execute(
            b"CREATE CONSTRAINT TRIGGER wait AFTER INSERT OR UPDATE ON counts "
            b"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()"
        )


# what processes use


def tree(*roots: int) -> list[int]:
    """Return these processes and all their descendants."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found, new = [*roots], [*roots]
    while new:
        new = [pid for pid, parent in parents.items() if parent in new]
        found += new
    return found


def cpu_seconds(roots: Sequence[int]) -> float:
    """Return the processor time of processes and their descendants, those that have ended included."""
    ticks = 0
    for pid in tree(*roots):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_memory(roots: Sequence[int]) -> float:
    """Return the largest resident memory, in GiB, that one of the processes or their descendants ever had."""
    peaks = [0]
    for pid in tree(*roots):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            peaks += [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return max(peaks) / 2**20
