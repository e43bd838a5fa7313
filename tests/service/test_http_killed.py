"""The shuffler's HTTP interface killed at its failpoints: a bundle that is sent again is stored once in every case."""

import contextlib
from collections.abc import Iterator

import httpx
import pytest
from tests.service.live import LiveSystem

POINTS = ["upload-read", "upload-opened", "upload-committed", "upload-answered"]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSystem]:
    with LiveSystem(tmp_path_factory.mktemp("live"), epoch=3600).running() as system:
        yield system


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=[pytest.mark.slow] * (p != "upload-committed")) for p in POINTS]
)
def test_a_bundle_sent_again_is_stored_once(live: LiveSystem, point: str) -> None:
    before = live.counts()["accepted"]
    live.kill("shuffler")
    live.start("shuffler", point)
    (body,) = live.seal([1])
    # Only after the commit may there be a response; the system decides whether it still gets out.
    responses = []
    with contextlib.suppress(httpx.HTTPError):
        responses.append(live.post(body))
    assert [response.status_code for response in responses] in ([], [201] * (point == "upload-answered"))
    assert live.processes["shuffler"].wait(600) == -9
    live.start("shuffler")
    stored = live.counts()["accepted"] - before
    assert stored == (point in ("upload-committed", "upload-answered"))
    for _ in range(2):
        assert live.post(body).status_code == 201
    counts = live.counts()
    assert (counts["accepted"] - before, counts["error"]) == (1, 0)
