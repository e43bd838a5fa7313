"""Either service may die at any moment: nothing that was acknowledged is lost, and nothing is counted twice.

The full form, with 300 000 reports and every named point three times, is ``make soak``.
"""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.service.harness import ANALYZER_POINTS, KILL, SHUFFLER_POINTS, STOP, Ordeal, Role, Town, until
from tests.service.load import Line, fetch_keys, seal_bundles

import hubbub.service
from hubbub.service.runtime.failpoints import POINTS
from hubbub.service.runtime.workers import Workers

ENDS: dict[Role, list[str]] = {
    "shuffler": [
        KILL,
        KILL,
        "upload-committed",
        "accept-inserted",
        "release-permuted",
        "deliver-chunk-sent",
        KILL,
        STOP,
        KILL,
    ],
    "analyzer": [KILL, KILL, "chunk-stored", "batch-committed", KILL, KILL],
}


def test_every_point_is_reached_by_the_source_and_by_a_running_service() -> None:
    texts = [path.read_text() for path in Path(hubbub.service.__path__[0]).glob("*.py") if path.stem != "failpoints"]
    assert {name for text in texts for name in re.findall(r'\breach\("([^"]*)"\)', text)} == POINTS.keys()
    assert {*SHUFFLER_POINTS, *ANALYZER_POINTS} == POINTS.keys()
    assert len(POINTS) >= 20


def test_killed_at_random_moments_and_at_named_points(tmp_path: Path) -> None:
    figures = Ordeal(tmp_path / "town", ENDS, reports=5000, min_batch_size=100, rate=200.0, life=0.5).run()
    assert (figures["lost"], figures["doubled"], figures["conservation_error"]) == (0, 0, 0)
    assert figures["kills"] == 8
    assert set(figures["at_points"]) == {end for ends in ENDS.values() for end in ends if end in POINTS}
    assert figures["crowd"]["replayed"] > 0
    assert figures["stop_s"]["max"] <= 5


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("count", [1, 20])
def test_every_acknowledgement_comes_after_a_sync(tmp_path: Path, count: int) -> None:
    """One upload after the other, no tick between them: the log is synced after each came and before it is answered."""
    town = Town(tmp_path / "town", width=1000, epoch=86_400)
    path = f"/v1/tasks/{town.contracts[0].id}/bundles"
    trace = tmp_path / "trace"

    async def send(uploads: int) -> None:
        keys = await fetch_keys(town.url, town.contracts[0])
        bundles = seal_bundles(range(uploads * count), town.contracts[0], keys, Workers(0))
        line = Line(town.url)
        for start in range(0, len(bundles), count):
            assert (await line.ask("POST", path, b"".join(bundles[start : start + count])))[0] == 201
        line.close()

    with town.running():
        watch = ["strace", "-f", "-qq", "-e", "trace=fdatasync,fsync,read,recvfrom,recvmsg,write,writev,sendto,sendmsg"]
        process = town.processes["shuffler"]
        with subprocess.Popen([*watch, "-s", "64", "-o", str(trace), "-p", str(process.pid)]) as tracing:
            until(lambda: trace.exists() and "TracerPid:\t0" not in _status(process.pid), "strace", 30)
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
