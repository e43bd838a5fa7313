"""Both services as real processes: from a bundle to a result, folders of their own, and a polite end."""

import asyncio
import json
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from hubbub.errors import InvalidInput
from hubbub.planner import plan_from
from hubbub.protocol import Protocol
from hubbub.schema import Schema
from hubbub.service.analyzer.app import AnalyzerProgram
from hubbub.service.provision import SETTINGS, Service, provision_all, serve_all, serve_role
from hubbub.service.runtime.admin_client import CommandFailure, command
from hubbub.service.runtime.process import ADDRESSES, Folder, Loop, backoff
from hubbub.service.runtime.settings import AnalyzerConfig, read_config
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.keys import active_key, read_key_list

HEADERS = {"content-type": "application/hubbub-bundle"}


class Street:
    """A system that runs, its contract, and a device that seals for it."""

    def __init__(self, folder: Path, contract: Contract, analyzer: Service, shuffler: Service) -> None:
        self.folder, self.contract, self.analyzer = folder, contract, analyzer
        self.use(shuffler)

    def use(self, shuffler: Service) -> None:
        self.shuffler = shuffler
        self.uploads = f"{shuffler.places['uploads']}/v1/tasks/{self.contract.id}/bundles"

    def seal(self, count: int) -> list[bytes]:
        address = f"{self.shuffler.places['uploads']}/v1/tasks/{self.contract.id}/keys"
        _until(lambda: httpx.get(address, trust_env=False).status_code == 200)
        said = httpx.get(address, trust_env=False).json()
        outer = active_key(read_key_list(json.dumps(said["shuffler"]), self.contract.shuffler, "shuffler"))
        inner = active_key(read_key_list(json.dumps(said["analyzer"]), self.contract.analyzer, "analyzer"))
        layout = self.contract.layout
        to_analyzer, to_shuffler = (sealing.load_public(1, key.public) for key in (inner, outer))
        return [
            sealing.seal_bundle(
                [sealing.seal_slot(b"\1", layout, inner.id, to_analyzer)], layout, outer.id, to_shuffler
            )
            for _ in range(count)
        ]

    def post(self, body: bytes) -> httpx.Response:
        return httpx.post(self.uploads, content=body, headers=HEADERS, trust_env=False)

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = command(self.shuffler.socket, "check")["tasks"][self.contract.id]
        return found


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def found(folder: Path, **terms: int) -> Contract:
    plan = plan_from(Schema.one_hot(["red", "green", "blue"]), 100, Protocol(0.1), delta=1e-6)
    return provision_all(folder, plan, terms)


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    folder = tmp_path_factory.mktemp("street")
    contract = found(folder, epoch=1, min_batch_size=100)
    with serve_all(folder) as (analyzer, shuffler):
        yield Street(folder, contract, analyzer, shuffler)
    assert (analyzer.process.returncode, shuffler.process.returncode) == (0, 0)


def test_from_bundles_to_a_result(street: Street) -> None:
    bundles = street.seal(120)
    answers = [street.post(b"".join(bundles[:100])), *(street.post(one) for one in [*bundles[100:], bundles[0]])]
    assert {(answer.status_code, answer.content, str(answer.headers)) for answer in answers} == {
        (201, b"", str(httpx.Headers({"content-length": "0"})))
    }
    _until(lambda: street.counts()["committed"] >= 100)
    counts = street.counts()
    assert (counts["accepted"], counts["error"]) == (120, 0)
    token = command(street.analyzer.socket, "token", "read:*")["token"]
    with httpx.Client(
        base_url=street.analyzer.places["results"], headers={"authorization": f"Bearer {token}"}, trust_env=False
    ) as reader:
        assert reader.get("/v1/tasks").json() == {"tasks": [street.contract.id]}
        batches = reader.get(f"/v1/tasks/{street.contract.id}/batches").json()["batches"]
        assert [one["state"] for one in batches] == ["committed"]
        results = [reader.get(f"/v1/batches/{batches[0]['batch']}") for _ in range(2)]
        assert results[0].content == results[1].content
        assert results[0].headers["etag"] == results[1].headers["etag"]
        command(street.analyzer.socket, "revoke", token)
        assert reader.get("/v1/tasks").status_code == 401


def test_figures_and_health(street: Street) -> None:
    for service in (street.shuffler, street.analyzer):
        assert httpx.get(service.places["operations"] + "/livez", trust_env=False).status_code == 200
        assert httpx.get(service.places["operations"] + "/readyz", trust_env=False).status_code == 200
    text = httpx.get(street.shuffler.places["operations"] + "/metrics", trust_env=False).text
    assert f'hubbub_conservation_error{{task="{street.contract.id}"}} 0.0' in text


def test_nothing_of_a_service_is_readable_by_others(street: Street) -> None:
    for role in ("shuffler", "analyzer"):
        folder = street.folder / role
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "admin.sock").stat().st_mode) == 0o600
        assert stat.S_IMODE((folder / f"{role}.db").stat().st_mode) & 0o077 == 0


def test_commands_that_a_service_refuses(street: Street) -> None:
    with pytest.raises(CommandFailure, match="asked of the analyzer"):
        command(street.shuffler.socket, "token", "read:*")
    with pytest.raises(CommandFailure, match="a scope must be"):
        command(street.analyzer.socket, "token", "write:*")
    with pytest.raises(CommandFailure, match="closed at the shuffler"):
        command(street.analyzer.socket, "close", street.contract.id)
    with pytest.raises(CommandFailure, match="There is no such task"):
        command(street.shuffler.socket, "close", "00" * 16)


def test_a_backup_is_whole(street: Street, tmp_path: Path) -> None:
    for place in (street.shuffler.socket, street.analyzer.socket):
        copy = tmp_path / f"{place.parent.name}.db"
        command(place, "backup", str(copy))
        assert copy.read_bytes().startswith(b"SQLite format 3")


def test_a_folder_is_of_one_process_and_one_role(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "shuffler")
    for role in ("shuffler", "analyzer"):
        with pytest.raises(InvalidInput, match="must be of one process"):
            Folder(tmp_path, role)
    folder.close()
    with pytest.raises(InvalidInput, match="must be of the analyzer alone, got 'that of the shuffler'"):
        Folder(tmp_path, "analyzer")
    Folder(tmp_path, "shuffler").close()


def test_a_service_that_cannot_start_says_why(street: Street) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "hubbub.service", "shuffler", str(street.folder / "shuffler" / SETTINGS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode != 0
    assert "must be of one process" in result.stderr


def test_an_identity_that_others_may_read_is_refused(tmp_path: Path) -> None:
    found(tmp_path)
    (tmp_path / "analyzer" / "identity").chmod(0o644)
    with pytest.raises(InvalidInput, match="readable by its owner only"):
        AnalyzerProgram(read_config(tmp_path / "analyzer" / SETTINGS, AnalyzerConfig))


def test_loops_wait_longer_and_longer_and_can_be_woken() -> None:
    assert max(backoff(1) for _ in range(100)) <= 0.5
    assert 30 <= backoff(1000) <= 60
    turns: list[int] = []

    async def work() -> float:
        turns.append(1)
        if len(turns) == 1:
            raise OSError("somewhere")
        return 1000.0

    async def scenario() -> Loop:
        loop = Loop("delivery", work)
        task = asyncio.create_task(loop.run())
        while len(turns) < 4:
            await asyncio.sleep(0.001)
            loop.wake()
        task.cancel()
        return loop

    loop = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert loop.results["failed"] == 1
    assert loop.results["done"] >= 2


def test_sigterm_in_the_middle_of_uploads(street: Street) -> None:
    """Half a body is left behind, whole ones are answered or not; what was answered is there after the next start."""
    before = street.counts()["accepted"]
    bundles = street.seal(400)
    taken: list[bytes] = []

    def send() -> None:
        with httpx.Client(headers=HEADERS, trust_env=False) as client:
            for body in bundles:
                try:
                    answer = client.post(street.uploads, content=body)
                except httpx.HTTPError:
                    return
                if answer.status_code != 201:
                    assert answer.status_code == 503
                    return
                taken.append(body)

    host, port = street.shuffler.places["uploads"].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as half:
        head = f"POST /v1/tasks/{street.contract.id}/bundles HTTP/1.1\r\nHost: x\r\n"
        head += f"Content-Type: {HEADERS['content-type']}\r\nContent-Length: {len(bundles[0])}\r\n\r\n"
        half.sendall(head.encode() + b"HB")
        sender = threading.Thread(target=send)
        sender.start()
        _until(lambda: len(taken) >= 50)
        street.shuffler.process.terminate()
        assert street.shuffler.process.wait(5) == 0
    sender.join()
    assert not (street.folder / "shuffler" / ADDRESSES).exists()
    with serve_role(street.folder, "shuffler") as again:
        street.use(again)
        accepted = street.counts()["accepted"] - before
        assert len(taken) <= accepted <= len(taken) + 1
        assert {street.post(body).status_code for body in taken[:20]} == {201}
        assert street.counts()["accepted"] - before == accepted
        assert street.counts()["error"] == 0
        command(again.socket, "drain")
        assert street.post(bundles[-1]).status_code == 503
        assert httpx.get(again.places["operations"] + "/readyz", trust_env=False).status_code == 503
