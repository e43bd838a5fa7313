"""The front of the shuffler killed at its own points: a bundle that is sent again is there once, whatever happened."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hubbub.planner import plan_from
from hubbub.protocol import Protocol
from hubbub.schema import Schema
from hubbub.service.provision import Service, provision_all, serve_role
from hubbub.service.runtime.admin_client import command
from hubbub.service.runtime.failpoints import VARIABLE
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.task.keys import active_key, read_key_list

HEADERS = {"content-type": "application/hubbub-bundle"}
POINTS = ["upload-read", "upload-opened", "upload-committed", "upload-answered"]


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Contract]]:
    folder = tmp_path_factory.mktemp("street")
    plan = plan_from(Schema.one_hot(["red", "green", "blue"]), 100, Protocol(0.1), delta=1e-6)
    contract = provision_all(folder, plan, {"epoch": 3600})
    with serve_role(folder, "analyzer"):
        yield folder, contract


def seal(contract: Contract, shuffler: Service) -> bytes:
    transport = httpx.HTTPTransport(retries=3)
    with httpx.Client(transport=transport, base_url=shuffler.places["uploads"], trust_env=False) as client:
        while (answer := client.get(f"/v1/tasks/{contract.id}/keys")).status_code != 200:
            pass
    said = answer.json()
    outer = active_key(read_key_list(json.dumps(said["shuffler"]), contract.shuffler, "shuffler"))
    inner = active_key(read_key_list(json.dumps(said["analyzer"]), contract.analyzer, "analyzer"))
    slot = sealing.seal_slot(b"\1", contract.layout, inner.id, sealing.load_public(1, inner.public))
    return sealing.seal_bundle([slot], contract.layout, outer.id, sealing.load_public(1, outer.public))


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=[pytest.mark.slow] * (p != "upload-committed")) for p in POINTS]
)
def test_a_bundle_sent_again_is_there_once(
    street: tuple[Path, Contract], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, contract = street
    path = f"/v1/tasks/{contract.id}/bundles"
    monkeypatch.setenv(VARIABLE, point)
    with serve_role(folder, "shuffler") as shuffler:
        before = command(shuffler.socket, "check")["tasks"][contract.id]["accepted"]
        body = seal(contract, shuffler)
        # Only after the commit may there be an answer; whether one that was given gets out is up to the system.
        answers = []
        with contextlib.suppress(httpx.HTTPError):
            answers.append(
                httpx.post(shuffler.places["uploads"] + path, content=body, headers=HEADERS, trust_env=False)
            )
        assert [answer.status_code for answer in answers] in ([], [201] * (point == "upload-answered"))
        assert shuffler.process.wait(30) == -9
    monkeypatch.delenv(VARIABLE)
    with serve_role(folder, "shuffler") as shuffler:
        stored = command(shuffler.socket, "check")["tasks"][contract.id]["accepted"] - before
        assert stored == (point in ("upload-committed", "upload-answered"))
        for _ in range(2):
            again = httpx.post(shuffler.places["uploads"] + path, content=body, headers=HEADERS, trust_env=False)
            assert again.status_code == 201
        counts = command(shuffler.socket, "check")["tasks"][contract.id]
        assert (counts["accepted"] - before, counts["error"]) == (1, 0)
