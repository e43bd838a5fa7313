"""Disks that fill up or refuse to be written, links that break: what was acknowledged stays, and all goes on by itself.

The short forms are for every run; the same over and over again is marked slow.
"""

import asyncio
import contextlib
import itertools
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.service.harness import Town, counted, until
from tests.service.load import Crowd, fetch_keys, seal_bundles
from tests.service.proxy import FINE, Fault, Proxy

from hubbub.service.runtime.workers import Workers
from hubbub.service.uploader import Answer, Http, Journal, Sender

MIN_BATCH_SIZE = 50


def again(cycles: int) -> pytest.MarkDecorator:
    """Once in every run, and often in the slow one."""
    return pytest.mark.parametrize("cycles", [1, pytest.param(cycles, marks=pytest.mark.slow)])


# stores that fail


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 24 MB: a log of SQLite has up to 4."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Uploads:
    """Values sent one by one, once each, until the store fails; then again until all are taken."""

    def __init__(self, town: Town, reports: int) -> None:
        self.town, self.reports = town, reports
        contract = town.contracts[0]
        keys = asyncio.run(fetch_keys(town.url, contract))
        values = [*range(reports), *[reports] * MIN_BATCH_SIZE]
        self.waiting = seal_bundles(values, contract, keys, Workers(0))
        self._place = f"{town.url}/v1/tasks/{contract.id}/bundles"
        self._client = httpx.Client(headers={"content-type": "application/hubbub-bundle"}, trust_env=False, timeout=60)

    def send(self, count: int) -> int:
        """Take the next ones; the status of the first that is not taken, or 201."""
        for _ in range(count):
            status = self._client.post(self._place, content=self.waiting[0]).status_code
            if status != 201:
                return status
            self.waiting.pop(0)
        return 201

    def finish(self) -> None:
        """Send the rest, and see whether all was counted once."""
        assert self.send(len(self.waiting)) == 201
        self._client.close()
        until(lambda: self.town.drained(1), "the last batch")
        total = counted(self.town.results(), self.reports + 1)
        assert total[: self.reports].tolist() == [1] * self.reports
        where = self.town.counts()
        assert (where["accepted"], where["error"]) == (self.reports + MIN_BATCH_SIZE, 0)


def survives(town: Town, breaks: Callable[[], None], heals: Callable[[], None], cycles: int) -> None:
    """Let the shuffler's store fail while it is used, and see what is said and kept meanwhile."""
    uploads = Uploads(town, 200 * cycles)
    for _ in range(cycles):
        assert uploads.send(40) == 201
        breaks()
        # What fits into space that was there before may still be taken; then it is refused, and again.
        assert uploads.send(100) == 503
        assert uploads.send(1) == 503
        assert not town.ready("shuffler")
        heals()
        until(lambda: uploads.send(1) == 201, "the store to be used again")
        assert town.ready("shuffler")
        assert town.processes["shuffler"].poll() is None
    uploads.finish()


@again(10)
def test_a_full_disk(tmp_path: Path, cycles: int) -> None:
    with small_disk(tmp_path / "disk") as disk:
        stores = {role: {"store": f"sqlite:{disk / role}.db"} for role in ("shuffler", "analyzer")}
        town = Town(
            tmp_path / "town",
            width=200 * cycles + 1,
            min_batch_size=MIN_BATCH_SIZE,
            entries={"analyzer": stores["analyzer"], "shuffler": {**stores["shuffler"], "free_disk": 0.0}},
        )
        ballast = disk / "ballast"

        def fill() -> None:
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))

        with town.running():
            survives(town, fill, ballast.unlink, cycles)


@again(10)
def test_a_store_that_cannot_be_written(tmp_path: Path, cycles: int) -> None:
    """The system refuses every write of the process, as it does where a disk fails."""
    town = Town(tmp_path / "town", width=200 * cycles + 1, min_batch_size=MIN_BATCH_SIZE)
    with town.running():
        pid = town.processes["shuffler"].pid
        usual = resource.prlimit(pid, resource.RLIMIT_FSIZE)

        def limit(soft: int) -> None:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, usual[1]))

        survives(town, lambda: limit(0), lambda: limit(usual[0]), cycles)


@again(10)
def test_a_store_that_becomes_read_only(tmp_path: Path, cycles: int) -> None:
    """The store and its log. Not the index of the log, which is memory: a process that may not write there dies."""
    town = Town(tmp_path / "town", width=200 * cycles + 1, min_batch_size=MIN_BATCH_SIZE)

    def mark(how: str) -> int:
        files = [town.folder / "shuffler" / name for name in ("shuffler.db", "shuffler.db-wal")]
        return subprocess.run(["chattr", how, *files], capture_output=True, check=False).returncode

    probe = tmp_path / "probe"
    probe.touch()
    if shutil.which("chattr") is None or subprocess.run(["chattr", "+i", probe], check=False).returncode:
        pytest.skip("files cannot be made immutable here")
    subprocess.run(["chattr", "-i", probe], check=True)
    with town.running():
        try:
            survives(town, lambda: assert_done(mark("+i")), lambda: assert_done(mark("-i")), cycles)
        finally:
            mark("-i")


def assert_done(status: int) -> None:
    assert status == 0


# links that break


def link_faults(chance: random.Random, rate: float) -> list[Fault]:
    """Refused; cut before anything came, in the handshake, in a manifest, in a part; the answer lost; slow."""
    return [
        Fault(name="refused", refuse=True),
        Fault(name="cut before", cut_after=0),
        Fault(name="half a part", cut_after=chance.randrange(3500, 7000)),
        Fault(name="half", cut_after=chance.randrange(1, 3500)),
        Fault(name="answer lost", deaf_after=1),
        Fault(name="slow", rate=rate),
    ]


@again(10)
def test_a_broken_link(tmp_path: Path, cycles: int) -> None:
    chance = random.Random(1)
    faults = [fault for _ in range(cycles) for fault in link_faults(chance, 1000.0 if cycles > 1 else 8000.0)]
    chance.shuffle(faults)
    town = Town(tmp_path / "town", width=101, tasks=len(faults), min_batch_size=MIN_BATCH_SIZE)
    port = int(town.entry("analyzer", "link").rpartition(":")[2])
    with Proxy("127.0.0.1", port).running() as proxy:
        town.change("shuffler", {"analyzer": f'"https://127.0.0.1:{proxy.port}"'})
        with town.running():
            for number, fault in enumerate(faults):
                asyncio.run(fetch_keys(town.url, town.contracts[number]))
                proxy.use(fault)
                before = proxy.met[fault.name]
                crowd = Crowd(
                    town.url, town.contracts[number : number + 1], 100, MIN_BATCH_SIZE, ending=True, seed=number
                )
                asyncio.run(crowd.run())
                until(lambda: town.counts(number)["pool"] < MIN_BATCH_SIZE, "a release")  # noqa: B023
                if fault.rate is None and not fault.refuse:
                    until(lambda: proxy.met[fault.name] >= before + 2, fault.name)  # noqa: B023
                    assert town.counts(number)["outbox"] >= 100
                if fault.rate is None:
                    proxy.use(FINE)
                until(lambda: town.drained(number + 1), f"delivery after: {fault.name}")  # noqa: B023
                proxy.use(FINE)
            for number in range(len(faults)):
                assert counted(town.results(number), 101)[:100].tolist() == [1] * 100
                assert town.counts(number)["error"] == 0
            assert min(proxy.met[fault.name] for fault in faults) >= 1


class Shaky(Http):
    """Every other upload meets the next fault."""

    def __init__(self, proxy: Proxy, faults: list[Fault]) -> None:
        super().__init__(f"http://127.0.0.1:{proxy.port}", timeout=10)
        self._proxy = proxy
        self._faults = itertools.chain.from_iterable((fault, FINE) for fault in itertools.cycle(faults))

    def post(self, task: str, body: bytes) -> Answer:
        self._proxy.use(next(self._faults))
        return super().post(task, body)


@again(20)
def test_senders_behind_a_broken_line(tmp_path: Path, cycles: int) -> None:
    """The sender of a device, while the line to the shuffler goes from one fault to the next."""
    reports = 100 * cycles
    town = Town(tmp_path / "town", width=reports + 1, min_batch_size=MIN_BATCH_SIZE)
    host, port = town.entry("shuffler", "listen").split(":")
    faults = [
        Fault(name="refused", refuse=True),
        Fault(name="cut before", cut_after=0),
        Fault(name="half", cut_after=600),
        Fault(name="answer lost", deaf_after=0),
        Fault(name="slow", rate=8000.0),
    ]
    with town.running(), Proxy(host, int(port)).running() as proxy:
        asyncio.run(fetch_keys(town.url, town.contracts[0]))
        journal = Journal(tmp_path / "journal", town.contracts[0])
        line = Shaky(proxy, faults)
        sender = Sender(town.contracts[0], line, journal, per_request=5, pause=lambda _: None)
        sender.prepare([1 << value for value in range(reports)])
        sent = sender.send()
        line.close()
        journal.close()
        assert (sent.stored, sent.waiting, sent.refused) == (reports, 0, {})
        assert min(proxy.met[fault.name] for fault in faults) >= 2 * cycles
        asyncio.run(Crowd(town.url, town.contracts, 0, MIN_BATCH_SIZE, ending=True).run())
        until(lambda: town.drained(1), "the last batch")
        total = counted(town.results(), reports + 1)
        total[0] -= MIN_BATCH_SIZE - town.counts()["pool"]
        assert total[:reports].tolist() == [1] * reports
