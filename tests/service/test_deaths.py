"""Either service may die at any moment: no acknowledged report is lost, and none is counted twice.

The full form, with a million reports and a thousand kills, is ``make soak``.
"""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.admissions import TICKET_KEY
from tests.service.crash import (
    ANALYZER_POINTS,
    BACKUP,
    DATABASE,
    EARLIER_POINTS,
    FAKES_POINTS,
    ISSUER_POINTS,
    KILL,
    LAKE_POINTS,
    RESTORE,
    RESTORE_POINTS,
    ROTATE,
    ROUND_POINTS,
    SHUFFLER_POINTS,
    STOP,
    STRING_POINTS,
    CrashTest,
)
from tests.service.live import LiveSystem, seal_values, wait_until
from tests.service.load import Line, fetch_keys, seal_bundles
from tests.service.postgres_server import PostgresServer

from hubbub.service.runtime.failpoints import POINTS
from hubbub.service.runtime.workers import Workers
from hubbub.service.task import sealing
from hubbub.service.task.keylist import PublicKey

# A connection to the socket of a process that has died is refused, and httpcore does not close what it opened for it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ENDS = {
    "shuffler": [KILL, BACKUP, "release-sealed", RESTORE, ROTATE],
    "analyzer": [ROTATE, "batch-committed"],
}
REPLICA_ENDS = {
    "intake-1": [KILL],
    "intake-2": ["accept-inserted"],
    "worker-1": [KILL],
    "worker-2": [ROTATE],
    DATABASE: [STOP],
}


def judge(figures: dict[str, Any]) -> None:
    """Fail if anything is lost silently or counted twice."""
    assert (figures["lost"], figures["doubled"], figures["conservation_error"]) == (0, 0, 0)
    assert figures["clients_replayed"] > 0
    if not figures["restores"]:
        assert (figures["in_gaps"], figures["uncertain"]) == (0, 0)


def test_every_failpoint_is_reached_by_a_test() -> None:
    """The points of running services by the next tests, the others where :mod:`tests.service.crash` says."""
    running = {*SHUFFLER_POINTS, *ANALYZER_POINTS, *RESTORE_POINTS}
    elsewhere = {*EARLIER_POINTS, *ISSUER_POINTS, *FAKES_POINTS, *ROUND_POINTS, *LAKE_POINTS, *STRING_POINTS}
    assert running | elsewhere == POINTS.keys()
    assert not running & elsewhere


def test_deaths_at_random_moments_and_at_failpoints(tmp_path: Path) -> None:
    figures = CrashTest(
        tmp_path / "live", ENDS, reports=1500, min_batch_size=100, rate=200.0, life=0.2, openers=0
    ).run()
    judge(figures)
    assert (figures["kills"], figures["rotations"], figures["restores"]) == (1, 2, 1)
    reached = {name.removeprefix("at_") for name in figures if name.startswith("at_")}
    assert reached == {end for ends in ENDS.values() for end in ends if end in POINTS}


def test_deaths_of_replicas_and_of_their_database(tmp_path: Path, postgres_server: PostgresServer) -> None:
    test = CrashTest(
        tmp_path / "live", REPLICA_ENDS, reports=1000, min_batch_size=100, rate=200.0, life=0.2, server=postgres_server
    )
    figures = test.run()
    judge(figures)
    assert (figures["database_restarts"], figures["rotations"], figures["at_accept-inserted"]) == (1, 1, 1)


@pytest.mark.slow
def test_running_services_reach_every_failpoint(tmp_path: Path) -> None:
    ends = {"shuffler": [*SHUFFLER_POINTS], "analyzer": [*ANALYZER_POINTS]}
    for point in RESTORE_POINTS:
        ends["shuffler"] += [BACKUP, KILL, point]
    judge(figures := CrashTest(tmp_path / "live", ends, reports=5000, rate=60.0, life=0.3).run())
    reached = {name.removeprefix("at_") for name in figures if name.startswith("at_")}
    assert reached == {*SHUFFLER_POINTS, *ANALYZER_POINTS, *RESTORE_POINTS}


SPENDING = ["accept-begun", "accept-spent", "accept-inserted", "accept-committed", "upload-committed"]


@pytest.mark.parametrize("points", [SPENDING[1:4:2], pytest.param(SPENDING, marks=pytest.mark.slow)])
def test_a_death_stores_a_bundle_with_its_admission_or_neither(tmp_path: Path, points: list[str]) -> None:
    """The shuffler dies around the transaction; then the bundle, and another bundle of its account, are sent."""
    live = LiveSystem(tmp_path / "live", epoch=86_400)
    with live.running():
        for number, point in enumerate(points):
            inner, outer = live.keys()
            live.kill("shuffler")
            live.start("shuffler", point)
            first, second = (
                _bundle(live, inner, outer, value, f"account {number}".encode())
                for value in (2 * number, 2 * number + 1)
            )
            with pytest.raises(httpx.HTTPError):
                live.post(first)
            live.processes["shuffler"].wait()
            live.start("shuffler")
            durable = point in ("accept-committed", "upload-committed")
            # Sent first, another bundle of the account is refused exactly if the bundle is stored.
            answers = [live.post(second).status_code, live.post(first).status_code]
            assert answers == ([409, 201] if durable else [201, 409]), point
            assert [live.post(second).status_code, live.post(first).status_code] == answers
        counts = live.counts()
        assert (counts["accepted"], counts["error"]) == (len(points), 0)


def _bundle(live: LiveSystem, inner: PublicKey, outer: PublicKey, value: int, account: bytes) -> bytes:
    """Return the bundle of an account."""
    layout = live.contract.layout
    slots = [row.tobytes() for row in seal_values([value], live.contract, inner)]
    ticket = TICKET_KEY.mint(layout.task, account)
    return sealing.seal_bundle(slots, layout, outer.id, sealing.load_public(outer.suite, outer.public), ticket)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("count", [1, 20])
def test_every_acknowledgement_follows_a_sync(tmp_path: Path, count: int) -> None:
    """Uploads one after another, without a tick: the log is synced after each arrival and before its response."""
    live = LiveSystem(tmp_path / "live", width=1000, epoch=86_400)
    path = f"/v1/tasks/{live.contracts[0].id}/bundles"
    trace = tmp_path / "trace"

    async def send(uploads: int) -> None:
        keys = await fetch_keys(live.urls, live.contracts[0])
        bundles = seal_bundles(range(uploads * count), live.contracts[0], keys, Workers(0))
        line = Line(live.url)
        for start in range(0, len(bundles), count):
            assert (await line.ask("POST", path, b"".join(bundles[start : start + count])))[0] == 201
        line.close()

    with live.running():
        watch = ["strace", "-f", "-qq", "-e", "trace=fdatasync,fsync,read,recvfrom,recvmsg,write,writev,sendto,sendmsg"]
        process = live.processes["shuffler"]
        with subprocess.Popen([*watch, "-s", "64", "-o", str(trace), "-p", str(process.pid)]) as tracing:
            wait_until(lambda: trace.exists() and "TracerPid:\t0" not in _status(process.pid), "strace", 30)
            asyncio.run(send(25))
            tracing.terminate()
    synced, acknowledged = True, 0
    for line in trace.read_text().splitlines():
        if '"POST /v1/tasks/' in line:
            synced = False
        elif re.search(r"f(data)?sync.*= 0$", line):
            synced = True
        elif '"HTTP/1.1 201' in line:
            assert synced, "an upload was acknowledged before it was synced"
            acknowledged += 1
    assert acknowledged == 25


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()
