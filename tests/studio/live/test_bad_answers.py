"""Answers of a broken analyzer: none of them ends the page, takes its memory, or costs good batches their place."""

import gzip
import json
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.studio.live.services import PEOPLE, TASK, TOKEN, Services, committed, withheld
from tests.studio.live.test_feed import URL, feed_of, run

from hubbub.errors import WireError
from hubbub.studio.live.batches import LARGEST, LONGEST_BATCH, LONGEST_TEXT, BatchHead, BatchSeries
from hubbub.studio.live.client import LiveClient
from hubbub.studio.live.feed import MAX_ALERTS
from hubbub.studio.live.figures import ServiceFigures
from hubbub.studio.live.pooled import RoundPool
from hubbub.studio.live.routes import live_routes
from hubbub.studio.live.task import LiveTask


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "GZIP", "deflate"])
def test_a_compressed_answer_is_refused_before_it_is_read(encoding: str) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        body = gzip.compress(gzip.compress(b'{"tasks": []}'))
        return httpx.Response(200, headers={"content-encoding": encoding}, stream=httpx.ByteStream(body))

    async def work() -> None:
        client = LiveClient(transport=httpx.MockTransport(answer))
        with pytest.raises(WireError, match="must not be compressed"):
            await client.tasks(URL, TOKEN)
        assert asked[0].headers["accept-encoding"] == "identity"
        await client.close()

    run(work)


def test_an_answer_that_says_it_is_not_compressed_is_read() -> None:
    async def work() -> None:
        headers = {"content-encoding": "identity"}
        plain = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=b'{"tasks": ["ab"]}'))
        client = LiveClient(transport=plain)
        assert await client.tasks(URL, TOKEN) == ["ab"]
        await client.close()

    run(work)


@pytest.mark.parametrize(
    ("tag", "kept"), [(b'"7"', '"7"'), ('"é"'.encode(), ""), (b'"\xff"', ""), (b"a" * 300, "")], ids=str
)
def test_a_version_that_no_header_may_repeat_is_not_kept(tag: bytes, kept: str) -> None:
    async def work() -> None:
        body = json.dumps({"batches": [], "gaps": []}).encode()
        answer = httpx.MockTransport(lambda _: httpx.Response(200, headers=[(b"etag", tag)], content=body))
        client = LiveClient(transport=answer)
        found = await client.listing(URL, TOKEN, TASK)
        assert found is not None
        assert found.tag == kept
        assert await client.listing(URL, TOKEN, TASK, tag=found.tag) is not None
        await client.close()

    run(work)


def test_many_gaps_are_settled_fast() -> None:
    """In a time that is not quadratic in their number, which would take a quarter of an hour here."""
    series = BatchSeries()
    assert series.settled([(one, one) for one in range(100_000, 0, -1)]) == 100_000


def test_gaps_are_settled_in_any_order_and_overlap() -> None:
    series = BatchSeries()
    for bucket in (1, 4, 8, 10):
        series.add(withheld(bucket))
    assert series.settled([]) == 1
    assert series.settled([(5, 7), (2, 3)]) == 8
    assert series.settled([(2, 6), (3, 3), (5, 9), (4, 2)]) == 10
    assert series.settled([(2, 2), (5, 9)]) == 2


REFUSED: list[dict[str, Any]] = [
    {"round": 0},
    {"round": -3},
    {"round": LARGEST + 1},
    {"batch": "a" * (LONGEST_BATCH + 1)},
]


@pytest.mark.parametrize("changes", REFUSED, ids=lambda one: str(one)[:40])
def test_heads_that_cannot_be_ordered_or_known_again_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        BatchHead.of(committed(1, **changes))


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, -0.1), ("-0.5", 2), (float("nan"), "inf")])
def test_a_guarantee_that_is_none_is_not_shown(epsilon: Any, delta: Any) -> None:
    stated = {"epsilon": epsilon, "delta": delta}
    head = BatchHead.of(committed(1, guarantee=stated, spent=stated))
    assert (head.epsilon, head.delta, head.spent) == (None, None, None)
    task = LiveTask(TASK)
    task.add([committed(1, spent={"rounds": 1, **stated})])
    assert task.overview()["spent"] == {"rounds": 1, "epsilon": None, "delta": None}


@pytest.mark.parametrize("rounds", [True, -1, LARGEST + 1, 10**300, 1.5, "1"], ids=str)
def test_a_spending_without_whole_rounds_is_none(rounds: Any) -> None:
    task = LiveTask(TASK)
    task.add([committed(1, total={"rounds": rounds, "epsilon": 1.0, "delta": 0.1})])
    overview = task.overview()
    assert (overview["total"], overview["rounds"]) == (None, None)


def test_half_a_character_in_a_label_and_a_reason_is_answered() -> None:
    half = "\ud800"
    services = Services([committed(1, labels=[half, *"abcd"]), withheld(2) | {"reason": half}])

    async def work() -> None:
        feed = feed_of(services)
        assert await feed.read()
        app = Starlette(routes=live_routes(feed))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://studio.test") as client:
            for name in ("overview", "view", "batches"):
                answer = await client.get(f"/api/live/{name}")
                assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
                assert half in json.dumps(answer.json(), ensure_ascii=False)
        await feed.close()

    run(work)


def test_texts_of_a_page_are_bounded() -> None:
    task = LiveTask(TASK)
    long = "x" * 10_000
    labels = [f"{one}{long}" for one in range(5)]
    _, refused = task.add([committed(1, labels=labels), withheld(2) | {"state": long}])
    assert refused is None
    task.pool = RoundPool(1).plus([committed(1, labels=labels)])
    view = task.view("")
    assert {len(one["label"]) for one in [*view["series"]["figures"], *view["pooled"]["rows"]]} == {LONGEST_TEXT}
    assert len(task.page()["rows"][0]["state"]) == LONGEST_TEXT
    for change in ({"questions": [long] * 5}, {"units": [long] * 5}):
        with pytest.raises(WireError, match="characters"):
            BatchSeries().add(committed(1, None, **change))


def test_alerts_that_are_left_out_are_counted() -> None:
    async def work() -> None:
        feed = feed_of(Services())
        errors = {f"{one:032x}": 1 for one in range(1000)}
        feed._services = {"analyzer": ServiceFigures("analyzer", True, errors=errors)}
        found = feed.overview()["alerts"]
        assert len(found) == MAX_ALERTS
        assert (found[-1]["text"], found[-1]["severity"]) == ("951 more alerts are not shown.", "page")
        await feed.close()

    run(work)


@pytest.mark.parametrize("new", [(5, 6, 7, 8), (8, 9)], ids=str)
def test_batches_of_an_analyzer_that_was_set_up_anew_are_not_mixed_with_old_ones(new: tuple[int, ...]) -> None:
    services = Services([committed(one) for one in (1, 2, 3, 5, 8)])
    services.gaps = [{"first": 4, "last": 4, "reason": "restored"}]

    async def work() -> None:
        feed = feed_of(services)
        assert await feed.read()
        services.results.clear()
        services.add(*(committed(one, batch=f"{one:031x}f") for one in new))
        services.app.router.routes.insert(0, Route("/v1/tasks/{task}/results", several))
        for _ in range(2):
            services.requests.clear()
            assert not await feed.read()
        assert "lists other batches than before: restart the studio" in feed.overview()["problems"][0]["text"]
        assert not [one for one in services.requests if TASK in one], "nothing more is read"
        assert feed.task(TASK).view("")["pooled"]["people"] == 5 * PEOPLE
        await feed.close()

    async def several(request: Request) -> Response:
        after, last = (int(request.query_params[name]) for name in ("after", "last"))
        found = [one for one in services.results.values() if after < one["bucket"] <= last]
        return Response(json.dumps({"results": found}), media_type="application/json")

    run(work)
