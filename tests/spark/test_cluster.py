"""A standalone cluster of two workers whose executors are killed, and whose shuffle files are deleted: nobody is lost.

Killing an executor alone proves nothing, because the others read its files from the disk that they share here.
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from tests.spark.cluster_driver import PARTITIONS, PEOPLE, plan
from tests.spark.conftest import check_installed

from hubbub.io.reports import read_reports

pytestmark = pytest.mark.slow
KEY = bytes(range(32)).hex()
KILLS = 20
"""Executors that are killed while people are randomized, and in each run of the shuffle."""
PATIENCE = 600
GUARDS = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch",
)
"""The settings by which Spark 4.2 and newer notice that attempts of a task differ."""
SECURE = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "only for this test",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
SETTINGS = SECURE | {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.task.maxFailures": "1000",
    "spark.stage.maxConsecutiveAttempts": "1000",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
    # Several tasks of the map stage on each executor.
    "spark.sql.files.maxPartitionBytes": "20000",
    "spark.sql.files.openCostInBytes": "1",
}


def until(what: str, check: Callable[[], Any]) -> Any:
    """Return the first true value of a function, which is called again and again."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := check():
            return found
        time.sleep(0.05)
    raise AssertionError(f"timed out: {what}")


def command_of(process: str) -> str:
    with contextlib.suppress(OSError):
        return Path("/proc", process, "cmdline").read_text().replace("\0", " ")
    return ""


def parent_of(process: str) -> int:
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1])
    return 0


@dataclass
class Cluster:
    """A master and two workers, each with a folder of its own for the files of shuffles."""

    folder: Path
    master: str
    workers: dict[int, Path]
    """Folders of the workers' temporary files, by process."""
    killed: int = 0
    drivers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def executors(self) -> list[tuple[int, int]]:
        """Return the processes of the executors, each with that of its worker."""
        found = [one.name for one in Path("/proc").iterdir() if one.name.isdecimal()]
        return [
            (int(name), parent_of(name))
            for name in found
            if parent_of(name) in self.workers and "CoarseGrainedExecutorBackend" in command_of(name)
        ]

    def kill_executor(self, which: int) -> int:
        """Kill an executor, and delete everything that the executors of its worker have stored; return their files."""
        process, worker = until("an executor", lambda: sorted(self.executors(), key=lambda pair: pair[1])[which:])[0]
        os.kill(process, signal.SIGKILL)
        until("the end of the executor", lambda: process not in [one for one, _ in self.executors()])
        files = 0
        for blocks in self.workers[worker].rglob("blockmgr-*"):
            files += sum(path.name.startswith("shuffle_") for path in blocks.rglob("*"))
            shutil.rmtree(blocks, ignore_errors=True)
        self.killed += 1
        return files

    def start(self, verb: str, gates: Path, out: Path, settings: dict[str, str] | None = None, **job: Any) -> Any:
        """Start a driver, with its gates closed."""
        gates.mkdir()
        (gates / "gate").write_text("0")
        described: dict[str, Any] = {
            "verb": verb,
            "master": self.master,
            "gates": str(gates),
            "out": str(out),
            "key": KEY,
        }
        described |= {"patient": True, "fresh": False, "settings": SETTINGS | (settings or {})} | job
        script = str(Path(__file__).with_name("cluster_driver.py"))
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
        log = (gates / "log").open("wb")
        driver = subprocess.Popen(
            [sys.executable, script, json.dumps(described)], env=environment, stdout=log, stderr=log
        )
        log.close()
        self.drivers.append(driver)
        return driver


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    check_installed()
    import pyspark

    folder, home = tmp_path_factory.mktemp("cluster"), Path(pyspark.__file__).parent
    properties = SECURE | {"spark.deploy.maxExecutorRetries": "-1"}
    (folder / "spark.conf").write_text("".join(f"{name} {value}\n" for name, value in properties.items()))
    port, running = free_port(), []

    def start(name: str, address: str, *arguments: str) -> subprocess.Popen[bytes]:
        local = folder / name
        local.mkdir()
        environment = os.environ | {
            "SPARK_LOCAL_DIRS": str(local),
            "SPARK_LOCAL_IP": address,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(home),
        }
        log = (folder / f"{name}.log").open("wb")
        place = ("--host", address, "--webui-port", "0", "--properties-file", str(folder / "spark.conf"))
        command = [str(home / "bin" / "spark-class"), *arguments, *place]
        running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        log.close()
        return running[-1]

    def listening() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    deploy = "org.apache.spark.deploy"
    start("master", "127.0.0.1", f"{deploy}.master.Master", "--port", str(port))
    until("the master", listening)
    master = f"spark://127.0.0.1:{port}"
    workers = {}
    # Spark makes no speculative attempt on a host where another one runs: the workers are on two.
    for name, address in {"one": "127.0.0.1", "two": "127.0.0.2"}.items():
        options = ("-c", "2", "-m", "1g", "-d", str(folder / f"work-{name}"))
        process = start(name, address, f"{deploy}.worker.Worker", *options, master)
        workers[process.pid] = folder / name
    made = Cluster(folder, master, workers)
    try:
        yield made
    finally:
        for process in [*made.drivers, *running[::-1]]:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
        for executor, _ in made.executors():
            os.kill(executor, signal.SIGKILL)


def waiting(gates: Path) -> set[str]:
    """Return the names of the tasks that wait at the gate."""
    passed = {path.name.partition("-")[2] for path in gates.glob("passed-*")}
    return {path.name.partition("-")[2] for path in gates.glob("waiting-*")} - passed


def finish(driver: Any, gates: Path) -> int:
    """Open all gates, and return the code of the driver."""
    (gates / "gate").write_text("1000000")
    return int(driver.wait(PATIENCE))


def said(gates: Path) -> str:
    return (gates / "log").read_text(errors="replace")[-3000:]


def numbers(path: Path) -> NDArray[np.int64]:
    """Return the numbers of the people whose messages are in a directory, with or without a manifest."""
    own, found = plan(), []
    for part in sorted(path.glob("part-*.parquet")):
        for block in pq.ParquetFile(part).read(columns=["messages"]).column(0).to_pylist():
            found.append(np.frombuffer(block, f"<u{own.payload}").astype(np.int64))
    return np.concatenate(found)


def lost_and_doubled(path: Path) -> tuple[int, int]:
    counts = np.bincount(numbers(path), minlength=PEOPLE)
    return int((counts == 0).sum()), int(np.maximum(counts - 1, 0).sum())


@pytest.fixture(scope="module")
def clean(cluster: Cluster) -> Path:
    """The reports of a run in which nothing is killed."""
    out = cluster.folder / "clean"
    driver = cluster.start("randomize", cluster.folder / "gates-clean", out)
    assert finish(driver, cluster.folder / "gates-clean") == 0, said(cluster.folder / "gates-clean")
    assert lost_and_doubled(out) == (0, 0)
    return out


def another(gates: Path, before: set[str], driver: Any) -> bool:
    """Return True if a task began to wait, or the driver has ended."""
    return bool({path.name for path in gates.glob("waiting-*")} - before) or driver.poll() is not None


def attack(cluster: Cluster, driver: Any, gates: Path, kills: int, done: int = 0) -> int:
    """Kill executors while tasks wait, letting one more partition pass after each; return the deleted files."""
    files = 0
    for number in range(kills):
        until(f"tasks that wait\n{said(gates)}", lambda: waiting(gates) or driver.poll() is not None)
        assert driver.poll() is None, said(gates)
        before = {path.name for path in gates.glob("waiting-*")}
        files += cluster.kill_executor(number % 2)
        (gates / "gate").write_text(str(done + number + 1))
        until("a new attempt", functools.partial(another, gates, before, driver))
        until("two executors", lambda: len(cluster.executors()) == 2 or driver.poll() is not None)
    return files


def test_randomize_survives_its_executors(cluster: Cluster, clean: Path, tmp_path: Path) -> None:
    gates, out, before = tmp_path / "gates", tmp_path / "reports", cluster.killed
    driver = cluster.start("randomize", gates, out)
    attack(cluster, driver, gates, KILLS)
    assert finish(driver, gates) == 0, said(gates)
    assert cluster.killed - before >= KILLS
    assert lost_and_doubled(out) == (0, 0)
    assert np.array_equal(numbers(out), numbers(clean))
    assert read_reports(str(out), plan()).header.n == PEOPLE


@pytest.mark.parametrize("guard", ["false", "true"])
def test_shuffle_survives_its_executors(cluster: Cluster, clean: Path, tmp_path: Path, guard: str) -> None:
    gates, out, before = tmp_path / "gates", tmp_path / "batch", cluster.killed
    driver = cluster.start("shuffle", gates, out, dict.fromkeys(GUARDS, guard), path=str(clean))
    (gates / "gate").write_text("2")
    until("files that are done", lambda: len(list(gates.glob("passed-*"))) >= 2)
    files = attack(cluster, driver, gates, KILLS, done=2)
    assert finish(driver, gates) == 0, said(gates)
    assert cluster.killed - before >= KILLS
    assert files > 0
    assert lost_and_doubled(out) == (0, 0)


def fresh(cluster: Cluster, clean: Path, folder: Path, guard: str) -> tuple[int, str]:
    """Shuffle into fresh files, and lose the output of one executor after the first files are done."""
    gates = folder / "gates"
    driver = cluster.start(
        "shuffle", gates, folder / "batch", dict.fromkeys(GUARDS, guard), path=str(clean), fresh=True
    )
    (gates / "gate").write_text("6")
    until("files that are done", lambda: len(list(gates.glob("passed-*"))) >= 6)
    until("tasks that wait", lambda: waiting(gates))
    time.sleep(1)
    assert cluster.kill_executor(0) > 0
    return finish(driver, gates), said(gates)


def test_control_fresh_files_lose_people(cluster: Cluster, clean: Path, tmp_path: Path) -> None:
    code, text = fresh(cluster, clean, tmp_path, "false")
    assert code == 0, text
    lost, doubled = lost_and_doubled(tmp_path / "batch")
    assert lost > 0
    assert doubled > 0


def test_control_the_guard_notices_fresh_files(cluster: Cluster, clean: Path, tmp_path: Path) -> None:
    code, _ = fresh(cluster, clean, tmp_path, "true")
    assert code != 0
    assert not (tmp_path / "batch" / "_parts.json").exists()


@pytest.mark.parametrize("verb", ["randomize", "shuffle"])
def test_speculative_attempts_count_once(cluster: Cluster, clean: Path, tmp_path: Path, verb: str) -> None:
    gates, out = tmp_path / "gates", tmp_path / "out"
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.efficiency.enabled": "false",
    }
    driver = cluster.start(verb, gates, out, settings, path=str(clean), patient=False)
    # The last two partitions never pass the gate: only their speculative attempts finish.
    (gates / "gate").write_text(str(PARTITIONS - 2))
    assert driver.wait(PATIENCE) == 0, said(gates)
    assert len(list(gates.glob("waiting-*"))) >= PARTITIONS + 2
    assert lost_and_doubled(out) == (0, 0)
    if verb == "randomize":
        assert np.array_equal(numbers(out), numbers(clean))


def test_a_killed_driver_is_resumed_with_its_key(cluster: Cluster, clean: Path, tmp_path: Path) -> None:
    gates, out = tmp_path / "gates", tmp_path / "reports"
    driver = cluster.start("randomize", gates, out)
    (gates / "gate").write_text("9")
    until("tasks that are done", lambda: list(out.rglob("task_*/part-*.parquet")))
    until("tasks that wait", lambda: waiting(gates))
    # Spark may tidy up when its driver has died.
    done = [numbers(path.parent) for path in out.rglob("task_*/part-*.parquet")]
    driver.kill()
    driver.wait(20)
    assert not (out / "_hubbub.json").exists()
    until("no executors", lambda: not cluster.executors())
    again = cluster.start("randomize", tmp_path / "gates again", tmp_path / "again")
    assert finish(again, tmp_path / "gates again") == 0, said(tmp_path / "gates again")
    assert lost_and_doubled(tmp_path / "again") == (0, 0)
    assert np.array_equal(numbers(tmp_path / "again"), numbers(clean))
    # What the killed run had written shows the same reports, and nothing else.
    whole = numbers(clean).tobytes()
    assert done
    assert all(part.tobytes() in whole for part in done)


def test_a_killed_driver_is_resumed_in_the_shuffle(cluster: Cluster, clean: Path, tmp_path: Path) -> None:
    gates = tmp_path / "gates"
    driver = cluster.start("shuffle", gates, tmp_path / "batch", path=str(clean))
    (gates / "gate").write_text("9")
    until("files that are done", lambda: len(list(gates.glob("passed-*"))) >= 9)
    driver.kill()
    driver.wait(20)
    until("no executors", lambda: not cluster.executors())
    again = cluster.start("shuffle", tmp_path / "gates again", tmp_path / "again", path=str(clean))
    assert finish(again, tmp_path / "gates again") == 0, said(tmp_path / "gates again")
    assert lost_and_doubled(tmp_path / "again") == (0, 0)
