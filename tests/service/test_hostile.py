"""Invalid requests: each gets exactly its status, never a 5xx, and none leaks memory."""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.service.asgi import one
from tests.service.hostile import BATCH, Case, World, app_cases, raw_cases
from tests.service.live import LiveSystem, exchange, http
from tests.service.system import Client, System

from hubbub.service.analyzer.http import delivery_app, results_app
from hubbub.service.runtime.http import App
from hubbub.service.shuffler.http import UploadApp, Writer, documents_app
from hubbub.service.task.contract import SignedContract
from hubbub.service.task.identity import Identity

CASES = app_cases()


@dataclass
class Place:
    world: World
    apps: dict[str, App]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    system = System(tmp_path_factory.mktemp("system"))
    contract = system.contract
    later = dataclasses.replace(contract, task_start=contract.task_start + 5)
    signed = SignedContract.sign(later, *system.identities.values()).to_json()
    system.shuffler.tasks.add_contract(signed)
    system.analyzer.add_contract(signed)
    system.shuffler.fetch_keys(system.link)
    writer = Writer(system.shuffler.uploads.accept_all)
    world = World(
        contract,
        later,
        {**system.identities, "stranger": Identity.generate()},
        system.client,
        {
            "all": system.analyzer.store.add_token("all", "read:*", now=0, expires=1e12),
            "other": system.analyzer.store.add_token("other", f"read:{later.id}", now=0, expires=1e12),
        },
    )
    yield Place(
        world,
        {
            "uploads": UploadApp(system.shuffler, writer, system.workers, documents_app(system.shuffler.tasks)),
            "delivery": delivery_app(system.analyzer, lambda: None),
            "results": results_app(system.analyzer),
        },
    )
    writer.close()
    system.shut()


def test_there_are_enough() -> None:
    assert len(CASES) >= 200
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_status(case: Case, place: Place) -> None:
    world = place.world
    body = case.body(world)
    contract = world.contract
    path = case.path.replace("{task}", contract.id).replace("{upper}", contract.id.upper())
    path = path.replace("{later}", world.later.id).replace(BATCH.upper(), world.batch.upper())
    path = path.replace(BATCH, world.batch)
    answer = one(place.apps[case.app], case.method, path, body, case.fields(world, body))
    assert answer.status == case.status
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        problem = json.loads(answer.body)
        assert problem["status"] == answer.status
        assert problem["type"].startswith("urn:hubbub:problem:")
    if answer.status == 405:
        assert case.method not in answer.headers["allow"]


def rss(process: int) -> int:
    """Return the resident memory of a process in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) << 10


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSystem]:
    with LiveSystem(tmp_path_factory.mktemp("live"), min_batch_size=1000, epoch=10).running() as live:
        yield live


def world_of(live: LiveSystem) -> World:
    live.keys()
    keys = http.get(f"{live.url}/v1/tasks/{live.contract.id}/keys").content
    return World(live.contract, live.contract, {}, Client(live.contract, keys), {})


def rounds(live: LiveSystem, count: int) -> None:
    """Send all bytes repeatedly: statuses stay the same, and memory grows by at most 20 MB after the first round."""
    process = live.processes["shuffler"].pid
    world = world_of(live)
    before = 0
    for turn in range(count):
        found = {name: exchange(live.url, data) for name, (data, _) in raw_cases(world).items()}
        assert found == {name: statuses for name, (_, statuses) in raw_cases(world).items()}
        if turn == 0:
            before = rss(process)
    assert rss(process) - before < 20 << 20
    assert live.counts()["error"] == 0
    # The analyzer uses the same listeners; its applications are tested with the table above.
    places = live.address("analyzer", "results")
    for data, statuses in raw_cases(world).values():
        if statuses in ([400], [431]) and data[:4] != b"POST":
            assert exchange(places, data) == statuses
    log = live.log("shuffler")
    assert "Traceback" not in log
    assert "ERROR" not in log


@pytest.mark.long
def test_bytes_that_are_not_http(live: LiveSystem) -> None:
    rounds(live, 2)


@pytest.mark.slow
def test_bytes_that_are_not_http_at_length(live: LiveSystem) -> None:
    rounds(live, 50)
