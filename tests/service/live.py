"""Both services as real processes: provision, start, stop, kill, upload, read results, wait.

:class:`LiveSystem` is the one harness of all tests and benchmarks that need processes; ``tests.service.system`` is the
other one, in a single process without sockets.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
from numpy.typing import NDArray
from tests.service.admissions import BY_TICKET, ISSUER, TICKET_KEY
from tests.service.bundles import seal_bundles
from tests.service.postgres_server import PostgresServer
from tests.service.system import clear_plan

from hubbub.errors import CommandFailure
from hubbub.model.plans import Plan
from hubbub.pipeline.reports import message_type
from hubbub.service.provision import (
    CONTRACT,
    ROLES,
    TICKETS,
    Role,
    draft_contract,
    free_port,
    provision_all,
    wait_for_addresses,
)
from hubbub.service.runtime.admin import SETTINGS, command
from hubbub.service.runtime.failpoints import VARIABLE
from hubbub.service.runtime.process import ADDRESSES
from hubbub.service.runtime.workers import Workers, seal_reports
from hubbub.service.task import sealing
from hubbub.service.task.admission import KEY_SUFFIX
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.identity import Identity
from hubbub.service.task.keylist import KeyList, PublicKey
from hubbub.wire.bundles import HEADER_SIZE

TIMEOUT = 180.0
"""Seconds after which a condition counts as failed: far more than anything takes on a busy machine."""
KINDS = ("intake", "worker")
"""The kinds of replicas of the shuffler."""
MEDIA_TYPE = "application/hubbub-bundle"
HEADERS = {"content-type": MEDIA_TYPE}

http = httpx.Client(verify=False, trust_env=False, timeout=TIMEOUT, limits=httpx.Limits(max_keepalive_connections=0))
"""A client for plain HTTP with a new connection per request; it loads no certificate authorities, which takes 50 ms."""


def wait_until(condition: Callable[[], bool], what: str = "a condition", seconds: float = TIMEOUT) -> None:
    """Wait until a condition holds; fail after ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"timed out waiting for {what}"
        time.sleep(0.02)


class LiveSystem:
    """Two services in one folder and the contracts between them.

    By default the plan has practically no noise, so that every report carries a distinct value. Each process has a
    name, which is its role unless there are replicas, and logs to ``<name>.log`` in the folder.

    With a PostgreSQL server, each service has a database there, and ``replicas`` is the number of the shuffler's
    processes that accept uploads, and of those that work on batches. They are named ``intake-1``, ``worker-1`` and so
    on, and share the credential folder, the identity and the certificates in the folder ``shuffler``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        plan: Plan | None = None,
        width: int = 200,
        tasks: int = 1,
        min_batch_size: int = 50,
        epoch: int = 1,
        entries: Mapping[Role, Mapping[str, object]] | None = None,
        server: PostgresServer | None = None,
        replicas: tuple[int, int] = (0, 0),
        **terms: Any,
    ) -> None:
        self.folder, self.server = folder, server
        plan = plan or clear_plan(width, min_batch_size)
        terms = {"epoch": epoch, "min_batch_size": min_batch_size, "days": 3650.0, "admission": BY_TICKET, **terms}
        self.contracts = [provision_all(folder, plan, terms, test=True)]
        install_ticket_key(folder / "shuffler")
        self.paths = [folder / CONTRACT]
        self.identities = {role: Identity.load(folder / role / "identity") for role in ROLES}
        for number in range(1, tasks):
            # They differ in their end, and therefore in everything that is sealed.
            self.sign(plan, **{**terms, "days": terms["days"] + number})
        names = [f"../{path.name}" for path in self.paths]
        for role in ROLES:
            self.change(role, {"contracts": names, **(entries or {}).get(role, {})})
            if server is not None:
                server.create(role)
                self.change(role, {"store": server.url(role)})
        intakes, workers = (
            [f"{kind}-{n + 1}" for n in range(count)] for kind, count in zip(KINDS, replicas, strict=True)
        )
        self.intakes = intakes or ["shuffler"]
        """The processes of the shuffler that accept uploads."""
        self.shufflers = [*intakes, *workers] or ["shuffler"]
        """The processes of the shuffler."""
        self.names = ["analyzer", *self.shufflers]
        """All processes."""
        for name in [*intakes, *workers]:
            self._replicate(name)
        self.restores = 0
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._sessions: list[int] = []
        self._token = ""

    def _replicate(self, name: str) -> None:
        """Make the folder of a replica of the shuffler."""
        (self.folder / name).mkdir()
        shutil.copy(self.folder / "shuffler" / SETTINGS, self.folder / name / SETTINGS)
        shared = ("credentials", "identity", "link_certificate", "link_key", "link_authority", "tickets")
        files = ("credentials", "identity", "link.pem", "link.key", "authority.pem", TICKETS)
        paths = {entry: f"../shuffler/{file}" for entry, file in zip(shared, files, strict=True)}
        self.change(name, {**paths, "role": name.partition("-")[0], "listen": f"127.0.0.1:{free_port()}"})

    def sign(self, plan: Plan, **terms: Any) -> Contract:
        """Draft a further contract, sign it for both operators, and return it; ``paths[-1]`` is its file."""
        analyzer, shuffler = self.identities["analyzer"].public, self.identities["shuffler"].public
        contract = draft_contract(plan, analyzer=analyzer, shuffler=shuffler, **{"admission": BY_TICKET, **terms})
        path = self.folder / f"contract-{len(self.paths)}.json"
        path.write_bytes(SignedContract.sign(contract, *self.identities.values()).to_json())
        self.contracts.append(contract)
        self.paths.append(path)
        return contract

    def agree(self, plan: Plan, **terms: Any) -> Contract:
        """Sign a further contract and add it to both running services."""
        contract = self.sign(plan, **terms)
        for role in ROLES:
            self.command(role, "add", str(self.paths[-1]))
        return contract

    @property
    def contract(self) -> Contract:
        """The first contract."""
        return self.contracts[0]

    # settings

    def change(self, role: str, entries: Mapping[str, object]) -> None:
        """Change entries of a service's settings."""
        path = self.folder / role / SETTINGS
        lines = [line for line in path.read_text().splitlines() if line.split(" ")[0] not in entries]
        lines += [f"{name} = {json.dumps(value)}" for name, value in entries.items()]
        path.write_text("\n".join(lines) + "\n")

    def entry(self, role: str, name: str) -> Any:
        """Return an entry of a service's settings."""
        lines = (self.folder / role / SETTINGS).read_text().splitlines()
        return json.loads(next(line for line in lines if line.startswith(f"{name} = ")).partition(" = ")[2])

    # processes

    def launch(self, name: str, failpoint: str = "") -> "subprocess.Popen[bytes]":
        """Start a process, armed with a failpoint if one is named, without waiting for it."""
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        if failpoint:
            environment[VARIABLE] = failpoint
        self._reap(name)
        (self.folder / name / ADDRESSES).unlink(missing_ok=True)
        role = name if name in ("analyzer", "relay") else "shuffler"
        words = [sys.executable, "-m", "hubbub.service", role, str(self.folder / name / SETTINGS), "--stop-with-parent"]
        with (self.folder / f"{name}.log").open("ab") as log:
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                words, stdin=pipe, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.processes[name] = process
        self._sessions.append(process.pid)
        return process

    def start(self, name: str, failpoint: str = "") -> None:
        """Start a process and wait until it listens."""
        wait_for_addresses(self.folder, name, self.launch(name, failpoint), seconds=TIMEOUT)

    def ready(self, name: str) -> bool:
        """Return True if a process reports that it is ready."""
        try:
            return http.get(self.address(name, "operations") + "/readyz", timeout=5).is_success
        except (OSError, httpx.HTTPError):
            return False

    def kill(self, name: str) -> None:
        """Send SIGKILL and wait."""
        self.processes[name].kill()
        self._reap(name)

    def stop(self, name: str) -> float:
        """Send SIGTERM and return the seconds until a clean exit."""
        begun = time.monotonic()
        self.processes[name].terminate()
        assert self.processes[name].wait(TIMEOUT) == 0, f"the {name} did not exit cleanly"
        self._reap(name)
        return time.monotonic() - begun

    def _reap(self, name: str) -> None:
        process = self.processes.get(name)
        if process is not None:
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        """Run all processes; afterwards none is left."""
        try:
            for name in self.names:
                self.launch(name)
            for name in self.names:
                wait_for_addresses(self.folder, name, self.processes[name], seconds=TIMEOUT)
            for name in self.names:
                wait_until(lambda name=name: self.ready(name), f"the {name} to be ready")  # type: ignore[misc]
            yield self
        finally:
            for name, process in self.processes.items():
                process.kill()
                self._reap(name)

    def orphans(self) -> list[int]:
        """Return the ids of processes that a service started and left behind."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                after = path.read_text().rpartition(")")[2].split()
                if int(after[3]) in self._sessions and after[0] != "Z":
                    found.append(int(path.parent.name))
        return found

    # addresses and commands

    def address(self, name: str, listener: str) -> str:
        """Return the address of a listener of a running process."""
        return str(json.loads((self.folder / name / ADDRESSES).read_text())[listener])

    @property
    def url(self) -> str:
        """The URL for uploads; the port stays the same at every start."""
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """The URLs for uploads of all processes that accept them."""
        return [f"http://{self.entry(name, 'listen')}" for name in self.intakes]

    def path(self, contract: Contract | None = None) -> str:
        """Return the path for uploads of a task."""
        return f"/v1/tasks/{(contract or self.contract).id}/bundles"

    def command(self, role: Role, name: str, *values: str, **options: str) -> dict[str, Any]:
        """Send an admin command to a service: to the first of its replicas that answers."""
        names = self.shufflers if role == "shuffler" else [role]
        # A process that is not running leaves its socket behind.
        names = [one for one in names if (self.folder / one / ADDRESSES).exists()] or names
        for process in names[:-1]:
            with contextlib.suppress(CommandFailure):
                return command(self.folder / process, name, *values, options=options, seconds=TIMEOUT)
        return command(self.folder / names[-1], name, *values, options=options, seconds=TIMEOUT)

    # uploads

    def keys(self, contract: Contract | None = None) -> tuple[PublicKey, PublicKey]:
        """Wait for the keys to seal with, of the analyzer and of the shuffler, and return them."""
        one = contract or self.contract
        url = f"{self.url}/v1/tasks/{one.id}/keys"
        wait_until(lambda: http.get(url).status_code == 200, "the keys of a task")
        document = http.get(url).json()
        inner = KeyList.read(json.dumps(document["analyzer"]), one.analyzer, "analyzer").find(
            document["analyzer_key_id"]
        )
        outer = KeyList.read(json.dumps(document["shuffler"]), one.shuffler, "shuffler").active(one.suite)
        assert inner is not None
        return inner, outer

    def slots(self, values: Sequence[int]) -> NDArray[np.uint8]:
        """Return sealed slots of these values, one per row; for plans with one message per person."""
        return seal_values(values, self.contract, self.keys()[0])

    def wrap(self, slots: NDArray[np.uint8]) -> list[bytes]:
        """Return bundles of these slots."""
        return wrap_slots(slots, self.contract, self.keys()[1])

    def seal(self, values: Sequence[int]) -> list[bytes]:
        """Return one bundle per value."""
        return self.wrap(self.slots(values))

    def post(self, body: bytes, contract: Contract | None = None) -> httpx.Response:
        """Upload bundles in one request."""
        return http.post(self.url + self.path(contract), content=body, headers=HEADERS)

    def pour(self, lots: Sequence[Sequence[bytes]]) -> Counter[int]:
        """Upload the bodies of each lot one after another on one connection, all lots at once; return the statuses."""
        return pour(self.url, self.path(), lots)

    # outcomes

    def counts(self, number: int = 0) -> dict[str, int]:
        """Return the bundles of a task by state, recounted by the shuffler."""
        found: dict[str, int] = self.command("shuffler", "check")["tasks"][self.contracts[number].id]
        return found

    def drained(self, tasks: int = 1) -> bool:
        """Return True if no bundle of these tasks is in transit except too few for a batch."""
        with contextlib.suppress(CommandFailure):
            found = self.command("shuffler", "status")["tasks"]
            return all(
                not found[one.id]["outbox"]
                and not found[one.id]["sealed"]
                and found[one.id]["open"] < one.min_batch_size
                for one in self.contracts[:tasks]
            )
        return False

    @contextlib.contextmanager
    def reader(self) -> Iterator[httpx.Client]:
        """Return a client of the analyzer's API for reading results."""
        if not self._token:
            self._token = self.command("analyzer", "token", "tests", "read:*", expires="3650")["token"]
        headers = {"authorization": f"Bearer {self._token}"}
        base = self.address("analyzer", "results")
        with httpx.Client(base_url=base, headers=headers, verify=False, trust_env=False, timeout=TIMEOUT) as client:
            yield client

    def results(self, contract: Contract | None = None) -> list[dict[str, Any]]:
        """Return all results of a task."""
        with self.reader() as reader:
            batches = reader.get(f"/v1/tasks/{(contract or self.contract).id}/batches").json()["batches"]
            return [reader.get(f"/v1/batches/{one['batch']}").json() for one in batches]

    def counted(self) -> Counter[int]:
        """Return how often each value was counted in all committed batches."""
        found: Counter[int] = Counter()
        for result in self.results():
            if result["state"] == "committed":
                found.update(
                    {value: round(count) for value, count in enumerate(result["table"]["value"]) if count > 0.5}
                )
        return found

    def log(self, name: str) -> str:
        """Return everything a process has logged."""
        return (self.folder / f"{name}.log").read_text()

    # the shuffler's store

    def store_url(self) -> str:
        """Return the URL of the shuffler's store."""
        return self.server.url("shuffler") if self.server else f"sqlite:{self.folder / 'shuffler' / 'shuffler.db'}"

    def back_up(self, path: Path) -> None:
        """Back up the shuffler's store while it is in use."""
        if self.server is None:
            self.command("shuffler", "backup", str(path))
        else:
            self.server.dump("shuffler", path)

    def restore(self, path: Path) -> str:
        """Replace the shuffler's store by a backup, and return the URL of the replaced one; no process may run."""
        self.restores += 1
        if self.server is not None:
            replaced = f"replaced_{self.restores}"
            self.server.rename("shuffler", replaced)
            self.server.create("shuffler")
            self.server.restore("shuffler", path)
            return self.server.url(replaced)
        for ending in ("", "-wal", "-shm"):
            file = self.folder / "shuffler" / f"shuffler.db{ending}"
            if file.exists():
                file.rename(self.folder / f"replaced-{self.restores}.db{ending}")
        shutil.copy(path, self.folder / "shuffler" / "shuffler.db")
        return f"sqlite:{self.folder / f'replaced-{self.restores}.db'}"

    def integrity(self) -> list[str]:
        """Return the findings of SQLite's integrity check of both stores."""
        found: list[str] = []
        if self.server is not None:
            return found
        for role in ROLES:
            with contextlib.closing(sqlite3.connect(self.folder / role / f"{role}.db")) as store:
                found += [text for (text,) in store.execute("PRAGMA integrity_check")]
        return found


def install_ticket_key(shuffler: Path) -> None:
    """Give a shuffler the ticket key of the tests."""
    TICKET_KEY.save(shuffler / TICKETS / f"{ISSUER}{KEY_SUFFIX}")


def seal_values(
    values: Sequence[int], contract: Contract, key: PublicKey, workers: Workers | None = None
) -> NDArray[np.uint8]:
    """Seal one message per value to the analyzer's key."""
    payloads = np.array(values, message_type(contract.plan)).view(np.uint8)
    with contextlib.nullcontext(workers) if workers else Workers(0) as crew:
        return seal_reports(payloads.reshape(len(values), -1), contract.layout, key, crew)


def wrap_slots(
    slots: NDArray[np.uint8], contract: Contract, key: PublicKey, workers: Workers | None = None
) -> list[bytes]:
    """Seal slots, one per row, into bundles for the shuffler's key."""
    with contextlib.nullcontext(workers) if workers else Workers(0) as crew:
        return [row.tobytes() for row in seal_bundles(slots, contract.layout, key, crew)]


def key_share(bundle: bytes, contract: Contract) -> bytes:
    """Return the ephemeral key share of a bundle."""
    return bundle[HEADER_SIZE : HEADER_SIZE + sealing.SUITES[contract.suite].enc]


def counted(results: Sequence[dict[str, Any]], width: int) -> NDArray[np.int64]:
    """Return how often each value was counted; fail if a batch is withheld or a slot was rejected."""
    total = np.zeros(width, np.int64)
    for result in results:
        assert result["state"] == "committed", result
        assert not result["rejected"], result["rejected"]
        values = np.array(result["table"]["value"])
        whole = np.rint(values).astype(np.int64)
        # The estimator corrects for flips that practically never happen, in proportion to the count.
        assert np.all(np.abs(values - whole) < 1e-3 + 1e-5 * whole)
        total += whole
    return total


# raw connections


def exchange(address: str, *requests: bytes, source: str = "127.0.0.1", answers: int | None = None) -> list[int]:
    """Send bytes on one connection and return the statuses of all responses until the server closes it."""

    async def talk() -> bytes:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
        received = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            for request in requests:
                writer.write(request)
            async with asyncio.timeout(TIMEOUT):
                while part := await reader.read(1 << 16):
                    received += part
                    if (
                        answers is not None
                        and received.count(b"HTTP/1.1 ") >= answers
                        and received.endswith(b"\r\n\r\n")
                    ):
                        break
        writer.close()
        return received

    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", asyncio.run(talk()))]


def pour(address: str, path: str, lots: Sequence[Sequence[bytes]]) -> Counter[int]:
    """Upload the bodies of each lot one after another on one connection, all lots at once; return the statuses."""
    statuses: Counter[int] = Counter()

    async def send(lot: Sequence[bytes]) -> None:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for body in lot:
            head = (
                f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            statuses[int(answer[9:12])] += 1
        writer.close()

    async def all_at_once() -> None:
        async with asyncio.timeout(600):
            await asyncio.gather(*(send(lot) for lot in lots))

    asyncio.run(all_at_once())
    return statuses
