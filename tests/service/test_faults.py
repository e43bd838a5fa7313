"""Disks that fill up or become read-only, connections that break: acknowledged reports stay, and the services recover.

The short forms share one live system; the repeated ones are marked slow.
"""

import asyncio
import contextlib
import itertools
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from tests.service.admissions import new_ticket
from tests.service.live import HEADERS, LiveSystem, counted, wait_until
from tests.service.load import Clients, fetch_keys, seal_bundles
from tests.service.proxy import FINE, Fault, Proxy

from hubbub.errors import StoreFailure
from hubbub.service.journal import Journal
from hubbub.service.provision import ROLES, Role
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.workers import Workers
from hubbub.service.shuffler.store import ShufflerStore
from hubbub.service.transport import HttpTransport, Response
from hubbub.service.uploader import Uploader

MIN_BATCH_SIZE = 50
LINK_FAULTS = 6


def cycles(count: int) -> pytest.MarkDecorator:
    """Run a test with one cycle always, and with ``count`` cycles when slow tests run."""
    return pytest.mark.parametrize("cycles", [1, pytest.param(count, marks=pytest.mark.slow)])


class Fleet:
    """A live system whose link goes through a proxy, and whose tasks are handed out one by one."""

    def __init__(
        self, folder: Path, *, width: int, tasks: int, entries: Mapping[Role, Mapping[str, object]] | None = None
    ) -> None:
        self.live = LiveSystem(folder, width=width, tasks=tasks, min_batch_size=MIN_BATCH_SIZE, entries=entries)
        self._next = itertools.count()

    @contextlib.contextmanager
    def running(self) -> Iterator["Fleet"]:
        with Proxy("127.0.0.1", int(self.live.entry("analyzer", "link").rpartition(":")[2])).running() as self.proxy:
            self.live.change("shuffler", {"analyzer": f"https://127.0.0.1:{self.proxy.port}"})
            with self.live.running():
                yield self

    def task(self) -> int:
        """Return the number of a task that no other test uses."""
        return next(self._next)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The live system of all tests with one cycle."""
    with Fleet(tmp_path_factory.mktemp("live"), width=201, tasks=3 + LINK_FAULTS).running() as fleet:
        yield fleet


@contextlib.contextmanager
def fleet_for(cycles: int, request: pytest.FixtureRequest, *, width: int, tasks: int = 1) -> Iterator[Fleet]:
    """Use the shared system for one cycle, and a new one for several."""
    if cycles == 1:
        yield request.getfixturevalue("shared")
        return
    folder = request.getfixturevalue("tmp_path") / "live"
    with Fleet(folder, width=width, tasks=tasks).running() as fleet:
        yield fleet


# stores that fail


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of 24 MB; a write-ahead log of SQLite has up to 4."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Uploads:
    """Values sent one by one until the store fails, then again until all are stored."""

    def __init__(self, live: LiveSystem, task: int, reports: int) -> None:
        self.live, self.task, self.reports = live, task, reports
        self.width = live.contracts[task].plan.schema.width
        contract = live.contracts[task]
        values = [*range(reports), *[reports] * MIN_BATCH_SIZE]
        self.waiting = seal_bundles(values, contract, live.keys(contract), Workers(0))
        self._url = live.url + live.path(contract)
        self._client = httpx.Client(headers=HEADERS, verify=False, trust_env=False, timeout=60)

    def send(self, count: int) -> int:
        """Send the next bundles and return the status of the first that is not stored, or 201."""
        for _ in range(count):
            status = self._client.post(self._url, content=self.waiting[0]).status_code
            if status != 201:
                return status
            self.waiting.pop(0)
        return 201

    def finish(self) -> None:
        """Send the rest and check that everything was counted once."""
        assert self.send(len(self.waiting)) == 201
        self._client.close()
        wait_until(lambda: self.live.drained(self.task + 1), "the last batch")
        total = counted(self.live.results(self.live.contracts[self.task]), self.width)
        assert total[: self.reports].tolist() == [1] * self.reports
        counts = self.live.counts(self.task)
        assert (counts["accepted"], counts["error"]) == (self.reports + MIN_BATCH_SIZE, 0)


def survives(fleet: Fleet, breaks: Callable[[], None], heals: Callable[[], None], cycles: int) -> None:
    """Let the shuffler's store fail while it is used, and check the responses and what is stored."""
    live = fleet.live
    uploads = Uploads(live, fleet.task(), 200 * cycles)
    for _ in range(cycles):
        assert uploads.send(40) == 201
        breaks()
        # Uploads that fit into allocated space may still be stored; then they are refused, repeatedly.
        assert uploads.send(100) == 503
        assert uploads.send(1) == 503
        assert not live.ready("shuffler")
        heals()
        wait_until(lambda: uploads.send(1) == 201, "the store to recover")
        assert live.ready("shuffler")
        assert live.processes["shuffler"].poll() is None
    uploads.finish()


@pytest.mark.parametrize("existing", [False, True], ids=["new", "existing"])
def test_a_start_on_a_full_disk_says_so(tmp_path: Path, existing: bool) -> None:
    """Regression: the log said ``OperationalError``."""
    with small_disk(tmp_path / "disk") as disk:

        def start() -> None:
            ShufflerStore(lambda: open_database(f"sqlite:{disk}/shuffler.db")).shut()

        if existing:
            start()
        with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        with pytest.raises(StoreFailure, match=r"the disk is full; free space"):
            start()
        (disk / "ballast").unlink()
        start()


def test_a_store_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    """The words for what operators meet; a cause without words keeps the name of its class, never a message."""
    store = open_database(f"sqlite:{tmp_path}/full.db")
    store.create(["notes (no BIGINT PRIMARY KEY, body {blob})"])
    store.rows("PRAGMA max_page_count = 2")
    with pytest.raises(StoreFailure, match="the disk is full"):
        store.run("INSERT INTO notes VALUES (1, ?)", bytes(10**6))
    store.close()
    (tmp_path / "text.db").write_text("not a database" * 100)
    for name, words in (("text.db", "not a database of SQLite"), ("missing/store.db", "cannot be opened")):
        with pytest.raises(StoreFailure, match=words):
            open_database(f"sqlite:{tmp_path}/{name}").rows("SELECT 1 FROM notes")
    with pytest.raises(StoreFailure, match=r"^the store failed: OperationalError$"):
        open_database("sqlite::memory:").rows("SELECT secret")


@pytest.mark.long
@cycles(10)
def test_a_full_disk(tmp_path: Path, cycles: int) -> None:
    with small_disk(tmp_path / "disk") as disk:
        entries: dict[Role, dict[str, object]] = {role: {"store": f"sqlite:{disk / role}.db"} for role in ROLES}
        entries["shuffler"]["free_disk"] = 0.0
        ballast = disk / "ballast"

        def fill() -> None:
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))

        with Fleet(tmp_path / "live", width=200 * cycles + 1, tasks=1, entries=entries).running() as fleet:
            survives(fleet, fill, ballast.unlink, cycles)


@pytest.mark.long
@cycles(10)
def test_a_store_that_cannot_be_written(cycles: int, request: pytest.FixtureRequest) -> None:
    """The system refuses every write of the process, as when a disk fails."""
    with fleet_for(cycles, request, width=200 * cycles + 1) as fleet:
        pid = fleet.live.processes["shuffler"].pid
        usual = resource.prlimit(pid, resource.RLIMIT_FSIZE)

        def limit(soft: int) -> None:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, usual[1]))

        survives(fleet, lambda: limit(0), lambda: limit(usual[0]), cycles)


@pytest.mark.long
@cycles(10)
def test_a_store_that_becomes_read_only(tmp_path: Path, cycles: int, request: pytest.FixtureRequest) -> None:
    """The store and its log become immutable; not the log's index, which must stay writable."""
    probe = tmp_path / "probe"
    probe.touch()
    if shutil.which("chattr") is None or subprocess.run(["chattr", "+i", probe], check=False).returncode:
        pytest.skip("files cannot be made immutable here")
    subprocess.run(["chattr", "-i", probe], check=True)
    with fleet_for(cycles, request, width=200 * cycles + 1) as fleet:
        files = [fleet.live.folder / "shuffler" / name for name in ("shuffler.db", "shuffler.db-wal")]

        def mark(how: str) -> None:
            subprocess.run(["chattr", how, *files], capture_output=True, check=True)

        try:
            survives(fleet, lambda: mark("+i"), lambda: mark("-i"), cycles)
        finally:
            mark("-i")


# connections that break


def link_faults(chance: random.Random, rate: float) -> list[Fault]:
    """Refused; cut before any byte, in the handshake, in a manifest, in a part; response lost; slow."""
    return [
        Fault(name="refused", refuse=True),
        Fault(name="cut before", cut_after=0),
        Fault(name="half a part", cut_after=chance.randrange(3500, 7000)),
        Fault(name="half", cut_after=chance.randrange(1, 3500)),
        Fault(name="response lost", deaf_after=1),
        Fault(name="slow", rate=rate),
    ]


@cycles(10)
def test_a_broken_link(cycles: int, request: pytest.FixtureRequest) -> None:
    chance = random.Random(1)
    faults = [fault for _ in range(cycles) for fault in link_faults(chance, 1000.0 if cycles > 1 else 8000.0)]
    chance.shuffle(faults)
    with fleet_for(cycles, request, width=101, tasks=len(faults)) as fleet:
        live, proxy, tasks = fleet.live, fleet.proxy, [fleet.task() for _ in faults]
        for task, fault in zip(tasks, faults, strict=True):
            contract = live.contracts[task]
            asyncio.run(fetch_keys(live.urls, contract))
            proxy.use(fault)
            before = proxy.met[fault.name]
            asyncio.run(Clients(live.urls, [contract], 100, MIN_BATCH_SIZE, ending=True, seed=task).run())
            wait_until(lambda: live.counts(task)["open"] < MIN_BATCH_SIZE, "a release")  # noqa: B023
            if fault.rate is None and not fault.refuse:
                wait_until(lambda: proxy.met[fault.name] >= before + 2, fault.name)  # noqa: B023
                wait_until(lambda: live.counts(task)["outbox"] >= 100, "a full outbox")  # noqa: B023
            if fault.rate is None:
                proxy.use(FINE)
            wait_until(lambda: live.drained(task + 1), f"delivery after: {fault.name}")  # noqa: B023
            proxy.use(FINE)
        for task in tasks:
            contract = live.contracts[task]
            assert counted(live.results(contract), contract.plan.schema.width)[:100].tolist() == [1] * 100
            assert live.counts(task)["error"] == 0
        assert min(proxy.met[fault.name] for fault in faults) >= 1


class UnreliableTransport(HttpTransport):
    """A transport that meets the next fault at every other upload."""

    def __init__(self, proxy: Proxy, faults: list[Fault]) -> None:
        super().__init__(f"http://127.0.0.1:{proxy.port}", timeout=10)
        self._proxy = proxy
        self._faults = itertools.chain.from_iterable((fault, FINE) for fault in itertools.cycle(faults))

    def post(self, task: str, body: bytes) -> Response:
        self._proxy.use(next(self._faults))
        return super().post(task, body)


@pytest.mark.long
@cycles(20)
def test_an_uploader_behind_an_unreliable_connection(
    tmp_path: Path, cycles: int, request: pytest.FixtureRequest
) -> None:
    """A device's uploader, while the connection to the shuffler goes from one fault to the next."""
    reports = 100 * cycles
    faults = [
        Fault(name="refused", refuse=True),
        Fault(name="cut before", cut_after=0),
        Fault(name="half", cut_after=600),
        Fault(name="response lost", deaf_after=0),
        Fault(name="slow", rate=8000.0),
    ]
    with fleet_for(cycles, request, width=max(201, reports + 1)) as fleet:
        live, task = fleet.live, fleet.task()
        contract = live.contracts[task]
        host, port = live.entry("shuffler", "listen").split(":")
        asyncio.run(fetch_keys(live.urls, contract))
        with Proxy(host, int(port)).running() as proxy:
            journal = Journal(tmp_path / "journal", contract)
            transport = UnreliableTransport(proxy, faults)
            uploader = Uploader(contract, transport, journal, per_request=5, pause=lambda _: None)
            uploader.prepare([1 << value for value in range(reports)], lambda: new_ticket(contract.task))
            sent = uploader.send()
            transport.close()
            journal.close()
        assert (sent.stored, sent.waiting, sent.refused) == (reports, 0, {})
        assert min(proxy.met[fault.name] for fault in faults) >= 2 * cycles
        asyncio.run(Clients(live.urls, [contract], 0, MIN_BATCH_SIZE, ending=True).run())
        wait_until(lambda: live.drained(task + 1), "the last batch")
        total = counted(live.results(contract), contract.plan.schema.width)
        total[0] -= MIN_BATCH_SIZE - live.counts(task)["open"]
        assert total[:reports].tolist() == [1] * reports
