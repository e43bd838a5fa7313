"""Both services as real processes: from a bundle to a result, exclusive folders, and a clean shutdown."""

import asyncio
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.service.live import HEADERS, TIMEOUT, LiveSystem, http, wait_until

from hubbub.errors import CommandFailure, HubbubError, InvalidInput
from hubbub.service.analyzer.app import AnalyzerProgram
from hubbub.service.provision import ROLES, TOKEN, RunningService, reader_token, serve_role, wait_for_addresses
from hubbub.service.runtime.admin import SETTINGS, command
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.process import ADDRESSES, PeriodicTask, ServiceFolder, backoff
from hubbub.service.runtime.settings import AnalyzerConfig, read_config
from hubbub.service.shuffler.store import ShufflerStore


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSystem]:
    with LiveSystem(tmp_path_factory.mktemp("live"), min_batch_size=100).running() as system:
        yield system


def test_from_bundles_to_a_result(live: LiveSystem) -> None:
    bundles = live.seal(range(120))
    responses = [live.post(b"".join(bundles[:100])), *(live.post(one) for one in [*bundles[100:], bundles[0]])]
    assert {(response.status_code, response.content, str(response.headers)) for response in responses} == {
        (201, b"", str(httpx.Headers({"content-length": "0"})))
    }
    wait_until(lambda: live.counts()["committed"] >= 100, "the batch")
    counts = live.counts()
    assert (counts["accepted"], counts["error"]) == (120, 0)
    with live.reader() as reader:
        assert reader.get("/v1/tasks").json() == {"tasks": [live.contract.id]}
        batches = reader.get(f"/v1/tasks/{live.contract.id}/batches").json()["batches"]
        assert [one["state"] for one in batches] == ["committed"]
        results = [reader.get(f"/v1/batches/{batches[0]['batch']}") for _ in range(2)]
        assert results[0].content == results[1].content
        assert results[0].headers["etag"] == results[1].headers["etag"]
        token = live.command("analyzer", "token", "one", f"read:{live.contract.id}")["token"]
        headers = {"authorization": f"Bearer {token}"}
        assert reader.get(f"/v1/tasks/{live.contract.id}/batches", headers=headers).status_code == 200
        live.command("analyzer", "revoke", "one")
        assert reader.get(f"/v1/tasks/{live.contract.id}/batches", headers=headers).status_code == 401
        with pytest.raises(CommandFailure, match="no token with this name, or it is revoked"):
            live.command("analyzer", "revoke", "one")
        states = {one["name"]: one["state"] for one in live.command("analyzer", "tokens")["tokens"]}
        assert (states["one"], states["tests"]) == ("revoked", "valid")


def test_a_token_is_reused_while_it_is_valid(live: LiveSystem) -> None:
    addresses = {name: live.address("analyzer", name) for name in ("results", "admin")}
    analyzer = RunningService(live.processes["analyzer"], addresses)
    first = reader_token(live.folder, analyzer)
    assert stat.S_IMODE((live.folder / TOKEN).stat().st_mode) == 0o600
    assert reader_token(live.folder, analyzer) == first
    command(analyzer.socket, "revoke", "serve-all")
    assert reader_token(live.folder, analyzer) != first


def test_metrics_and_health(live: LiveSystem) -> None:
    for role in ROLES:
        for path in ("/livez", "/readyz"):
            assert http.get(live.address(role, "operations") + path).status_code == 200
    text = http.get(live.address("shuffler", "operations") + "/metrics").text
    assert f'hubbub_conservation_error{{task="{live.contract.id}"}} 0.0' in text


def test_files_of_a_service_are_private(live: LiveSystem) -> None:
    for role in ROLES:
        folder = live.folder / role
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for name in ("admin.sock", f"{role}.db", ADDRESSES):
            assert stat.S_IMODE((folder / name).stat().st_mode) & 0o077 == 0


def test_commands_that_a_service_refuses(live: LiveSystem) -> None:
    with pytest.raises(CommandFailure, match="'token' is a command of the analyzer; this is the shuffler"):
        live.command("shuffler", "token", "name", "read:*")
    with pytest.raises(CommandFailure, match="scope must be"):
        live.command("analyzer", "token", "name", "write:*")
    with pytest.raises(CommandFailure, match="expires must be a number of days"):
        live.command("analyzer", "token", "name", "read:*", expires="0")
    with pytest.raises(CommandFailure, match="the name of a token must have 1 to 64 letters"):
        live.command("analyzer", "token", "two words", "read:*")
    with pytest.raises(CommandFailure, match="'close' is a command of the shuffler"):
        live.command("analyzer", "close", live.contract.id)
    with pytest.raises(CommandFailure, match="There is no such task"):
        live.command("shuffler", "close", "00" * 16)


def test_a_service_is_addressed_by_socket_settings_or_folder(live: LiveSystem) -> None:
    folder = live.folder / "shuffler"
    answers = [command(target, "status") for target in (folder, folder / SETTINGS, folder / "admin.sock")]
    assert answers[0] == answers[1] == answers[2]
    with pytest.raises(CommandFailure, match="no service is listening"):
        command(live.folder, "status")


def test_a_backup_is_a_database(live: LiveSystem, tmp_path: Path) -> None:
    for role in ROLES:
        copy = tmp_path / f"{role}.db"
        live.command(role, "backup", str(copy))
        assert copy.read_bytes().startswith(b"SQLite format 3")


def test_a_folder_serves_one_process_and_one_role(tmp_path: Path) -> None:
    folder = ServiceFolder(tmp_path, "shuffler")
    for role in ROLES:
        with pytest.raises(InvalidInput, match="in use by another process"):
            ServiceFolder(tmp_path, role)
    folder.close()
    with pytest.raises(InvalidInput, match="belongs to the shuffler; give the analyzer a separate folder"):
        ServiceFolder(tmp_path, "analyzer")
    ServiceFolder(tmp_path, "shuffler").close()


@pytest.mark.long
def test_a_service_that_cannot_start_says_why(live: LiveSystem) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "hubbub.service", "shuffler", str(live.folder / "shuffler" / SETTINGS)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 1
    assert "in use by another process" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_service_waits_for_one_that_is_stopping(tmp_path: Path) -> None:
    folder = ServiceFolder(tmp_path, "shuffler")
    threading.Timer(0.3, folder.close).start()
    ServiceFolder(tmp_path, "shuffler", seconds=30).close()


@pytest.mark.postgres
def test_a_service_waits_for_its_database(tmp_path: Path, postgres_url: str) -> None:
    """Regression: a service that started while PostgreSQL was down exited."""
    folder = re.findall(r"host=([^&]*)", postgres_url)[0]
    url = postgres_url.format(role="shuffler").replace(folder, str(tmp_path / "later"))
    live = LiveSystem(tmp_path / "system", entries={"shuffler": {"store": url, "workers": 0}})
    process = live.launch("shuffler")
    try:
        wait_until(lambda: "waiting for the database" in live.log("shuffler"), "the log line")
        assert "WARNING hubbub.service: waiting for the database (1 attempts): StoreUnreachable" in live.log("shuffler")
        assert process.poll() is None
        assert not (live.folder / "shuffler" / ADDRESSES).exists()
        (tmp_path / "later").symlink_to(folder)
        wait_for_addresses(live.folder, "shuffler", process, seconds=TIMEOUT)
        assert live.counts()["accepted"] == 0
    finally:
        live.kill("shuffler")
    assert url not in live.log("shuffler")


@pytest.mark.postgres
def test_a_service_that_waits_for_its_database_stops_with_its_parent(tmp_path: Path) -> None:
    live = LiveSystem(tmp_path, entries={"shuffler": {"store": f"postgresql://x@/x?host={tmp_path}", "workers": 0}})
    script = (
        "import sys, time; from pathlib import Path; from hubbub.service.provision import start_process\n"
        "print(start_process(Path(sys.argv[1]), 'shuffler', stderr=open(sys.argv[2], 'w')).pid, flush=True)\n"
        "time.sleep(300)"
    )
    words = [sys.executable, "-c", script, str(tmp_path), str(tmp_path / "shuffler.log")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_until(lambda: "waiting for the database" in live.log("shuffler"), "the log line")
        os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: _state(child) == "Z", "the service to stop", 30)


def test_a_service_that_exits_at_its_start_is_reported(tmp_path: Path) -> None:
    live = LiveSystem(tmp_path)
    live.change("analyzer", {"suite": 3})
    with pytest.raises(HubbubError, match=r"the analyzer exited \(1\)"), serve_role(tmp_path, "analyzer"):
        pass


def test_an_unsupported_store_stops_the_start(tmp_path: Path) -> None:
    live = LiveSystem(tmp_path)
    pool = ShufflerStore(lambda: open_database(f"sqlite:{tmp_path / 'shuffler' / 'shuffler.db'}"))
    pool._writer.run("UPDATE schema_version SET version = 9")
    pool.shut()
    with pytest.raises(HubbubError, match=r"the shuffler exited \(1\)"):
        live.start("shuffler")
    live.kill("shuffler")
    assert "error: the shuffler cannot run: the shuffler's store has schema version 9" in live.log("shuffler")


def test_an_identity_that_others_can_read_is_rejected(tmp_path: Path) -> None:
    LiveSystem(tmp_path)
    (tmp_path / "analyzer" / "identity").chmod(0o644)
    with pytest.raises(InvalidInput, match="readable by its owner only"):
        AnalyzerProgram(read_config(tmp_path / "analyzer" / SETTINGS, AnalyzerConfig))


def test_periodic_tasks_back_off_and_can_be_woken() -> None:
    assert max(backoff(1) for _ in range(100)) <= 0.5
    assert 30 <= backoff(1000) <= 60
    runs: list[int] = []

    async def work() -> float:
        runs.append(1)
        if len(runs) == 1:
            raise OSError("disk")
        return 1000.0

    async def scenario() -> PeriodicTask:
        periodic = PeriodicTask("delivery", work)
        task = asyncio.create_task(periodic.run())
        while len(runs) < 4:
            await asyncio.sleep(0.001)
            periodic.wake()
        task.cancel()
        return periodic

    periodic = asyncio.run(asyncio.wait_for(scenario(), 600))
    assert periodic.results["failed"] == 1
    assert periodic.results["done"] >= 2


def test_services_stop_when_their_parent_is_killed(tmp_path: Path) -> None:
    LiveSystem(tmp_path)
    script = (
        "import sys, time; from pathlib import Path; from hubbub.service.provision import serve_role\n"
        "with serve_role(Path(sys.argv[1]), 'shuffler') as one: print(one.process.pid, flush=True); time.sleep(300)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{child}").exists() or _state(child) == "Z", "the service to stop")
    assert not (tmp_path / "shuffler" / ADDRESSES).exists()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.long
def test_sigterm_in_the_middle_of_uploads(live: LiveSystem) -> None:
    """Half a body is dropped; every upload that was acknowledged is stored after the next start."""
    before = live.counts()["accepted"]
    bundles = live.seal([1] * 400)
    taken: list[bytes] = []
    url = live.url + live.path()

    def send() -> None:
        with httpx.Client(headers=HEADERS, verify=False, trust_env=False, timeout=TIMEOUT) as client:
            for body in bundles:
                try:
                    response = client.post(url, content=body)
                except httpx.HTTPError:
                    return
                if response.status_code != 201:
                    assert response.status_code == 503
                    return
                taken.append(body)

    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as half:
        head = f"POST {live.path()} HTTP/1.1\r\nHost: x\r\nContent-Type: {HEADERS['content-type']}\r\n"
        half.sendall(f"{head}Content-Length: {len(bundles[0])}\r\n\r\n".encode() + b"HB")
        sender = threading.Thread(target=send)
        sender.start()
        wait_until(lambda: len(taken) >= 50, "fifty uploads")
        live.stop("shuffler")
    sender.join(TIMEOUT)
    assert not (live.folder / "shuffler" / ADDRESSES).exists()
    live.start("shuffler")
    accepted = live.counts()["accepted"] - before
    assert len(taken) <= accepted <= len(taken) + 1
    assert {live.post(body).status_code for body in taken[:20]} == {201}
    assert live.counts()["accepted"] - before == accepted
    assert live.counts()["error"] == 0
    live.command("shuffler", "drain")
    assert live.post(bundles[-1]).status_code == 503
    assert not live.ready("shuffler")
