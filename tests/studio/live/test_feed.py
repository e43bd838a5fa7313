"""The feed of the live page: order, pooling, problems, alerts and resumed streams, against services that change."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from ruamel.yaml import YAML
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.service.string_system import StringSystem
from tests.studio.live.services import (
    EPOCH,
    LABELS,
    NO_PEOPLE,
    PEOPLE,
    START,
    TASK,
    TOKEN,
    Services,
    committed,
    drifting,
    head,
    withheld,
)

import hubbub as hb
from hubbub.errors import CommandFailure, InvalidInput
from hubbub.studio.live.batches import BatchHead, BatchSeries
from hubbub.studio.live.client import MAX_TASKS, LiveClient
from hubbub.studio.live.feed import LiveFeed
from hubbub.studio.live.figures import RULES, ServiceFigures, alerts, read_figures, waiting
from hubbub.studio.live.pooled import RoundPool
from hubbub.studio.live.routes import _messages, live_routes
from hubbub.studio.live.source import LiveSource
from hubbub.studio.live.task import LiveTask
from hubbub.studio.live.view import view_of

ROOT = Path(__file__).parents[3]
URL = "https://analyzer.test"


def feed_of(services: Services, token: str = TOKEN, **options: Any) -> LiveFeed:
    source = LiveSource(url=URL, token=token, analyzer_operations="http://a.test", shuffler_operations="http://s.test")
    client = LiveClient(transport=httpx.ASGITransport(services.app))
    return LiveFeed(source, client, now=lambda: float(START + 100_000), **options)


def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(work())


def test_batches_are_in_order_whatever_the_order_of_their_arrival() -> None:
    services = Services([committed(3), committed(1)])

    async def work() -> None:
        feed = feed_of(services)
        assert await feed.read()
        services.add(committed(4), committed(2))
        assert await feed.read()
        task = feed.task(TASK)
        view = task.view("")
        series = view["series"]
        assert isinstance(series, dict)
        assert series["first"] == [1, 2, 3, 4]
        assert series["time"] == [START + EPOCH * one for one in (1, 2, 3, 4)]
        figures = series["figures"]
        assert isinstance(figures, list)
        first = figures[0]
        assert isinstance(first, dict)
        assert first["label"] == LABELS[0]
        np.testing.assert_allclose(first["value"], [drifting(one)[0] for one in (1, 2, 3, 4)], rtol=1e-4)
        assert [row["bucket"] for row in task.page(3)["rows"]] == [4, 3, 2]
        assert [row["bucket"] for row in task.page(last=2)["rows"]] == [2, 1]
        await feed.close()

    run(work)


SPARSE = [*range(1, 8), *range(100, 130), 1000, *range(5000, 5027)]


def test_pages_pass_over_gaps_in_both_directions() -> None:
    task = LiveTask(TASK)
    task.add([committed(one) if one % 3 else withheld(one) for one in SPARSE])

    def page(**place: int) -> tuple[list[int], bool, bool]:
        found = task.page(10, **place)
        return [row["bucket"] for row in found["rows"]], found["older"], found["newer"]

    found, older, newer = page()
    seen = list(found)
    assert (older, newer) == (True, False)
    while older:
        found, older, newer = page(before=found[-1])
        assert len(found) == 10
        assert newer
        seen += [one for one in found if one < seen[-1]]
    assert seen == SPARSE[::-1]
    task.add([committed(6000)])
    while newer:
        above = found[0]
        found, older, newer = page(after=above)
        assert len(found) == 10
        assert older
        assert found[-1] == next(one for one in [*SPARSE, 6000] if one > above) or not newer
    assert found == [6000, *SPARSE[:-10:-1]]
    assert page(last=1000)[0] == [1000, *range(129, 120, -1)]
    assert page(last=50) == ([7, 6, 5, 4, 3, 2, 1], False, True)
    assert LiveTask(TASK).page(10) == {"rows": [], "older": False, "newer": False}


def test_windows_are_of_batches_not_of_numbers() -> None:
    task = LiveTask(TASK)
    task.add([committed(one) for one in SPARSE])

    def window(**place: int) -> tuple[int, list[int]]:
        found = task.view("", size=30, **place)
        assert found["series"]["first"][:1] + found["series"]["last"][-1:] == [
            found["window"]["first"],
            found["window"]["last"],
        ]
        return len(found["series"]["first"]), list(found["window"].values())

    assert window() == (30, [128, 5026, True, False])
    assert window(before=128) == (30, [6, 127, True, True])
    assert window(before=6) == (30, [1, 122, False, True])
    assert window(after=122) == (30, [123, 5021, True, True])
    assert window(after=5021) == (30, [128, 5026, True, False])
    assert window(last=127) == window(before=128)
    assert task.view("", size=0)["window"] == {"first": 1, "last": 5026, "older": False, "newer": False}
    assert task.view("", last=0)["series"]["first"] == []


def test_a_window_has_its_own_withheld_batches() -> None:
    task = LiveTask(TASK)
    task.add([withheld(one) if one % 10 == 5 else committed(one) for one in range(1, 1001)])

    def lost(**place: int) -> list[int]:
        found = task.view("", size=50, **place)["withheld"]
        assert found["batches"] == len(found["time"])
        return [(one - START) // EPOCH for one in found["time"]]

    assert lost() == [955, 965, 975, 985, 995]
    assert lost(last=54) == [5, 15, 25, 35, 45]
    assert lost(last=55) == [15, 25, 35, 45, 55]
    assert lost(last=0) == []
    whole = task.view("", points=20)["withheld"]
    assert whole["batches"] == 100
    assert len(whole["time"]) <= 21, "more lines than points would hide the chart"


def test_a_window_of_withheld_batches_alone_has_them() -> None:
    task = LiveTask(TASK)
    task.add([withheld(one) for one in range(1, 10_001)])
    found = task.view("")
    assert (found["withheld"]["batches"], found["series"]["first"]) == (10_000, [])
    assert len(found["withheld"]["time"]) <= 241


def test_a_gap_does_not_take_the_points_of_the_batches() -> None:
    task = LiveTask(TASK)
    buckets = [*range(1, 301), *range(1_000_001, 1_000_301)]
    task.add([committed(one) for one in buckets])
    series = task.view("", points=100)["series"]
    assert 90 <= len(series["first"]) <= 101
    assert (sum(series["batches"]), series["per_point"]) == (600, 6)


def test_only_new_results_are_read() -> None:
    services = Services([committed(one) for one in range(1, 11)])

    async def work() -> None:
        feed = feed_of(services)
        await feed.read()
        services.requests.clear()
        services.add(committed(11))
        await feed.read()
        assert services.requests == [f"/v1/tasks/{TASK}/batches?after=9", f"/v1/tasks/{TASK}/results?after=10&last=11"]
        await feed.close()

    run(work)


def test_a_late_bucket_is_found_though_later_ones_are_known() -> None:
    services = Services([committed(1), committed(4)])
    services.gaps = [
        {"first": 2, "last": 2, "bundles": 5, "reason": "restored"},
        {"first": 3, "last": 3, "reason": "unknown here"},
    ]

    async def work() -> None:
        feed = feed_of(services)
        await feed.read()
        assert feed.task(TASK).after == 2
        services.add(committed(3))
        services.gaps = services.gaps[:1]
        await feed.read()
        assert feed.task(TASK).after == 4
        overview = feed.overview()
        assert "buckets 2" not in json.dumps(overview)
        assert "bucket 2 is missing or incomplete (5 bundles discarded): restored" in json.dumps(overview)
        await feed.close()

    run(work)


def test_the_pool_is_that_of_the_library() -> None:
    results = [committed(one) for one in range(1, 30)]
    stepwise = RoundPool(1).plus(results[:3]).plus(results[3:4]).plus(results[4:])
    parts = [hb.Result.from_document(one) for one in results]
    whole: hb.LabelView = hb.pool(parts).question
    rows = stepwise.to_document("")["rows"]
    assert isinstance(rows, list)
    low, high = whole.interval(0.95)
    for place, row in enumerate(rows):
        assert isinstance(row, dict)
        assert row["label"] == LABELS[place]
        np.testing.assert_allclose(
            [row["value"], row["low"], row["high"]],
            np.array([whole.values[place], low[place], high[place]]) / whole.n,
            rtol=1e-9,
        )
    assert (stepwise.people, stepwise.batches, stepwise.left_out) == (29 * PEOPLE, 29, 0)


def test_rounds_are_not_pooled_together_and_incomplete_results_are_left_out() -> None:
    old = {name: value for name, value in committed(3).items() if name != "counts"}
    services = Services([committed(1), committed(2, round=2), old | {"round": 2}])

    async def work() -> None:
        feed = feed_of(services)
        await feed.read()
        pooled = feed.task(TASK).view("")["pooled"]
        assert isinstance(pooled, dict)
        assert (pooled["round"], pooled["batches"], pooled["people"], pooled["left_out"]) == (2, 1, PEOPLE, 1)
        await feed.close()

    run(work)


def test_people_of_different_rounds_are_not_added() -> None:
    results = [committed(1), committed(2), committed(3, round=2), committed(4, round=3)]

    async def work() -> None:
        feed = feed_of(Services(results))
        await feed.read()
        task = feed.task(TASK).overview()
        assert (task["people"], task["responses"], task["rounds_released"]) == (PEOPLE, 4 * PEOPLE, 3)
        assert task["people"] == feed.task(TASK).view("")["pooled"]["people"]
        await feed.close()

    run(work)


def test_withheld_batches_have_their_reason_and_raise_an_alert_for_an_hour() -> None:
    services = Services([committed(1), withheld(2)])
    clock = [float(START + 60)]

    async def work() -> None:
        feed = feed_of(services)
        feed._now = lambda: clock[0]
        await feed.read()
        overview = feed.overview()
        (task,) = overview["tasks"]
        assert (task["committed"], task["withheld"], task["people"]) == (1, 1, PEOPLE)
        assert task["withheld_batches"][0]["reason"] == NO_PEOPLE
        assert [one["name"] for one in overview["alerts"]] == ["HubbubBatchWithheld"]
        clock[0] += 3600
        assert feed.overview()["alerts"] == []
        await feed.close()

    run(work)


def test_the_pool_of_waiting_people_is_a_range() -> None:
    figures = read_figures("shuffler", True, f'hubbub_bundles{{task="{TASK}",state="open"}} 300\n')
    found = waiting(figures, TASK, 1000)
    assert found is not None
    assert (found.low, found.high, found.needed) == (300, 399, 1000)
    unknown = waiting(figures, TASK, None)
    assert unknown is not None
    assert unknown.high is None
    assert waiting(figures, "cd" * 16, 1000) is None


def test_a_failing_analyzer_is_shown_and_its_last_state_stays() -> None:
    services = Services([committed(1)])

    async def work() -> None:
        feed = feed_of(services)
        assert await feed.read()
        version = feed.version
        services.down = True
        assert not await feed.read()
        down = feed.overview()
        assert feed.version > version
        text = json.dumps(down["problems"])
        assert "cannot store anything at this time" in text
        assert down["services"] == {"analyzer": False, "shuffler": False}
        assert {one["name"] for one in down["alerts"]} == {"HubbubDown"}
        assert down["tasks"][0]["people"] == PEOPLE
        services.down = False
        services.add(committed(2))
        assert await feed.read()
        good = feed.overview()
        assert (good["problems"], good["alerts"]) == ([], [])
        assert good["tasks"][0]["people"] == 2 * PEOPLE
        await feed.close()

    run(work)


def test_tabs_are_told_when_the_text_of_a_problem_changes() -> None:
    services = Services([committed(1)])

    async def work() -> None:
        feed = feed_of(services)
        services.token = "another"
        assert not await feed.read()
        version = feed.version
        assert not await feed.read()
        assert feed.version == version
        services.app.router.routes.insert(0, Route("/v1/tasks", lambda _: Response("{}", 500)))
        assert not await feed.read()
        assert feed.version > version
        assert feed.overview()["problems"][0]["text"] == "the analyzer refused the request: status 500"
        await feed.close()

    run(work)


def test_figures_that_cannot_be_read_any_more_are_not_shown_as_current() -> None:
    services = Services([committed(1)])

    async def work() -> None:
        feed = feed_of(services)
        await feed.read()
        assert feed.overview()["tasks"][0]["waiting"]["low"] == 300
        services.down = True
        await feed.read()
        assert feed.overview()["tasks"][0]["waiting"] is None
        services.down = False
        await feed.read()
        assert feed.overview()["services"] == {"analyzer": True, "shuffler": True}
        source = feed.source
        feed.source = LiveSource(folder=Path(__file__).parent, token="t")
        assert not await feed.read()
        gone = feed.overview()
        assert "no analyzer runs in the folder" in gone["problems"][0]["text"]
        assert gone["services"] == {}, "a service that nobody can ask is not ready"
        assert gone["tasks"][0]["waiting"] is None
        assert gone["tasks"][0]["people"] == PEOPLE
        feed.source = source
        await feed.close()

    run(work)


def test_an_alert_about_one_of_several_collections_names_it() -> None:
    services = Services([committed(1), withheld(2)])
    services.tasks = [TASK, "cd" * 16]

    async def work() -> None:
        feed = feed_of(services)
        feed._now = lambda: float(START + 60)
        await feed.read()
        assert [one["text"] for one in feed.overview()["alerts"]] == [
            f"A batch of collection {one} was withheld in the last hour; the reason is below if it is chosen."
            for one in ("abababab", "cdcdcdcd")
        ]
        await feed.close()

    run(work)


def test_gaps_that_are_left_out_are_counted_and_texts_are_bounded() -> None:
    services = Services([committed(1)])
    services.gaps = [{"first": one, "last": one, "reason": "x" * 10_000} for one in range(100, 60, -1)]

    async def work() -> None:
        feed = feed_of(services)
        await feed.read()
        (task,) = feed.overview()["tasks"]
        assert task["gaps_known"] == 40
        assert [one["first"] for one in task["gaps"]] == list(range(100, 80, -1))
        assert all(len(one["text"]) <= 400 for one in task["gaps"])
        await feed.close()

    run(work)


def test_a_silent_stream_tells_when_the_services_were_read() -> None:
    services = Services([committed(1)])

    async def work() -> None:
        feed = feed_of(services, heartbeat=0.01)
        await feed.read()
        messages = _messages(feed, feed.event_id)
        assert await anext(messages) == b"retry: 1000\n\n"
        assert await anext(messages) == f"event: alive\ndata: {START + 100_000}\n\n".encode()
        feed._now = lambda: float(START + 100_060)
        await feed.read()
        assert await anext(messages) == f"event: alive\ndata: {START + 100_060}\n\n".encode()
        await feed.close()

    run(work)


def test_an_analyzer_that_repeats_the_token_does_not_bring_it_to_the_page(caplog: pytest.LogCaptureFixture) -> None:
    services = Services()

    async def echo(request: Request) -> Response:
        detail = f"bad header: {request.headers['authorization']}"
        return Response(json.dumps({"detail": detail}), 400, media_type="application/json")

    services.app.router.routes.insert(0, Route("/v1/tasks", echo))

    async def work() -> None:
        feed = feed_of(services)
        assert not await feed.read()
        text = json.dumps(feed.overview())
        assert "bad header: Bearer" in text
        assert TOKEN not in text + caplog.text
        await feed.close()

    run(work)


def test_a_wrong_token_is_a_problem_that_does_not_name_it() -> None:
    async def work() -> None:
        feed = feed_of(Services(), token="wrong-token")
        assert not await feed.read()
        text = json.dumps(feed.overview())
        assert "the token is unknown, revoked or expired" in text
        assert "wrong-token" not in text + repr(feed.source) + repr(feed.source.locate())
        await feed.close()

    run(work)


def test_a_stream_resumes_where_it_ended() -> None:
    services = Services([committed(1)])

    async def work() -> None:
        feed = feed_of(services, heartbeat=0.01)
        await feed.read()
        stream = feed.events()
        first = await anext(stream)
        assert first is not None
        name, content = first
        assert content["id"] == name == feed.event_id
        assert await anext(stream) is None
        await stream.aclose()  # type: ignore[attr-defined]
        resumed = feed.events(name)
        assert await anext(resumed) is None, "what a tab has seen is not sent again"
        services.add(committed(2))
        await feed.read()
        second = await anext(resumed)
        assert second is not None
        assert second[0] != name
        assert second[1]["tasks"][0]["batches"] == 2
        another = feed.events("00000000-7")
        assert await anext(another) == (feed.event_id, feed.overview())
        await feed.close()
        assert [one async for one in resumed] == []

    run(work)


def test_many_tabs_get_the_same_states_and_a_slow_one_skips() -> None:
    services = Services()

    async def work() -> None:
        feed = feed_of(services)
        tabs = [feed.events() for _ in range(5)]
        for tab in tabs:
            assert await anext(tab) is not None
        for bucket in range(1, 6):
            services.add(committed(bucket))
            await feed.read()
        seen = [await anext(tab) for tab in tabs]
        assert {one[0] for one in seen if one is not None} == {feed.event_id}
        assert not feed.full
        await feed.close()

    run(work)


GARBAGE: list[dict[str, Any]] = [
    {"spent": [1]},
    {"spent": {"rounds": None, "epsilon": "much", "delta": {}}},
    {"total": "all"},
    {"guarantee": [3]},
    {"bucket": 2**70},
    {"bucket": True},
    {"round": "first"},
    {"values": ["many"]},
    {"values": {"a": 1}},
    {"labels": None},
    {"people": "all"},
    {"people": 0},
    {"start": 1e300},
    {"noise": []},
]


@pytest.mark.parametrize("changes", GARBAGE, ids=str)
def test_an_analyzer_that_answers_nonsense_does_not_end_the_page(changes: dict[str, Any]) -> None:
    services = Services([committed(1), committed(2, **changes)])

    async def work() -> None:
        feed = feed_of(services)
        await feed.read()
        json.dumps(feed.overview(), allow_nan=False)
        services.results.clear()
        services.add(committed(1), committed(3))
        assert await feed.read()
        json.dumps(feed.overview(), allow_nan=False)
        assert 3 in feed.task("").series
        await feed.close()

    run(work)


@pytest.mark.parametrize("changes", [{"round": "first"}, {"people": 10**400}, {"values": [10**400] * 5}], ids=list)
def test_a_bad_result_costs_neither_the_others_nor_their_pool(changes: dict[str, Any]) -> None:
    bad = committed(100, **changes)
    services = Services([committed(one) for one in range(1, 201)] + [bad])
    other = "cd" * 16
    services.tasks = [TASK, other]

    async def work() -> None:
        feed = feed_of(services)
        assert not await feed.read()
        assert "result must" in feed.overview()["problems"][0]["text"]
        task = feed.task(TASK)
        assert len(task.series) == 199
        assert task.view("")["pooled"]["people"] == 199 * PEOPLE
        assert len(feed.task(other).series) == 199, "a task after it is read, too"
        services.add(committed(100))
        assert await feed.read()
        assert task.view("")["pooled"]["people"] == task.overview()["people"] == 200 * PEOPLE
        assert task.after == 200
        await feed.close()

    run(work)


TIMES: list[dict[str, Any]] = [
    {"start": 1e300},
    {"start": 2**62},
    {"start": -1},
    {"start": 253_402_300_800},
    {"people": None},
    {"people": -5},
    {"people": 10**400},
]


@pytest.mark.parametrize("changes", TIMES, ids=str)
def test_batches_that_no_page_can_show_are_refused(changes: dict[str, Any]) -> None:
    """A browser has no date after the year 9999 in this form, and no number for people who are not stated."""
    services = Services([committed(1), committed(2, schema={"kind": "strings"}) | changes])

    async def work() -> None:
        feed = feed_of(services)
        assert not await feed.read()
        task = feed.task(TASK)
        assert task.series.numbers == [1]
        json.dumps([task.overview(), task.page(), task.view("")], allow_nan=False)
        await feed.close()

    run(work)


def test_an_analyzer_that_answers_the_same_page_again_and_again_is_given_up() -> None:
    services = Services([committed(one) for one in range(1, 4)])

    async def repeated(_: Request) -> Response:
        return Response(json.dumps({"results": [committed(1)]}), media_type="application/json")

    services.app.router.routes.insert(0, Route("/v1/tasks/{task}/results", repeated))

    async def work() -> None:
        feed = feed_of(services)
        assert not await asyncio.wait_for(feed.read(), 20)
        assert "whose results it does not return" in feed.overview()["problems"][0]["text"]
        assert 1 in feed.task("").series
        await feed.close()

    run(work)


def test_only_so_many_tasks_are_followed_and_none_whose_id_is_an_address() -> None:
    services = Services([committed(1)])
    strange: list[Any] = ["../../v1/admin", "a?x=", 7, None, [TASK], "", "a" * 65]
    services.tasks = [*strange, TASK, *(f"{one:032x}" for one in range(1000))]

    async def work() -> None:
        feed = feed_of(services)
        assert await feed.read()
        assert feed.task("").id == TASK
        assert len(feed.tasks) == MAX_TASKS
        await feed.close()

    run(work)


def test_batches_of_strings_are_listed_though_each_shows_others(tmp_path: Path) -> None:
    """One task of strings must not keep the page from reading the others, whatever its batches show."""
    system = StringSystem(tmp_path)
    held = (["köln"] * 40 + ["crash"] * 30, ["köln"] * 70, [f"rare {number}" for number in range(70)])
    for number, values in enumerate(held):
        system.people(values, first=100 * number)
        system.next_epoch()
        system.deliver()
    results = system.results()
    system.shut()
    assert [len(one["table"]["item"]) for one in results] == [2, 1, 0]
    services = Services([{**one, "task": TASK, "batch": f"{one['bucket']:032x}"} for one in results])

    async def work() -> None:
        feed = feed_of(services)
        assert await feed.read()
        task = feed.task(TASK)
        overview = task.overview()
        assert (overview["committed"], overview["people"], overview["questions"]) == (3, 210, [])
        assert len(task.page()["rows"]) == 3
        view = task.view("")
        assert (view["series"]["figures"], view["pooled"]["rows"]) == ([], [])
        await feed.close()

    run(work)


@pytest.mark.parametrize("gap", [{}, {"first": None, "last": 2}, {"first": "a", "last": []}, {"reason": 3}], ids=str)
def test_gaps_without_buckets_are_ignored(gap: dict[str, Any]) -> None:
    services = Services([committed(1)])
    services.gaps = [gap]

    async def work() -> None:
        feed = feed_of(services)
        assert await feed.read()
        assert feed.overview()["tasks"][0]["gaps"] == []
        await feed.close()

    run(work)


def test_figures_that_are_infinite_are_a_problem() -> None:
    services = Services([committed(1)])
    endless: Any = math.inf
    services.open = endless

    async def work() -> None:
        feed = feed_of(services)
        assert await feed.read()
        assert [one["what"] for one in feed.overview()["problems"]] == ["analyzer figures", "shuffler figures"]
        await feed.close()

    run(work)


def test_an_answer_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.studio.live.client.LONGEST", 0.2)

    class Trickle(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0.01)

    async def work() -> None:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=Trickle()))
        client = LiveClient(transport=transport)
        with pytest.raises(CommandFailure, match=r"no answer \(TimeoutError\)"):
            await asyncio.wait_for(client.tasks(URL, TOKEN), 5)
        await client.close()

    run(work)


def test_the_alerts_are_those_of_the_deployment() -> None:
    groups = YAML(typ="safe").load(ROOT / "deploy" / "alerts.yml")["groups"]
    given = {one["alert"]: one for group in groups for one in group["rules"]}
    for rule in RULES:
        alert = given[rule.name]
        assert alert["labels"]["severity"] == rule.severity, rule
        assert f"hubbub_{rule.figure}" in alert["expr"], rule
        limit = f"{rule.limit:g}" if rule.limit < 1e5 else f"{rule.limit:.0f}"
        accepted = {f"> {limit}", f"< {limit}", f">= {limit}"} | ({"== 1"} if rule.name == "HubbubDraining" else set())
        assert any(one in alert["expr"] for one in accepted), rule
    # Those that need a history or labels are found in another way, or not at all.
    others = {
        "HubbubDown",
        "HubbubConservationError",
        "HubbubFenced",
        "HubbubBatchWithheld",
        "HubbubUploadsSlow",
        "HubbubExportStuck",
    }
    assert set(given) - {rule.name for rule in RULES} == others
    book = (ROOT / "docs" / "howto" / "run-book.md").read_text()
    assert all(f"### {rule.name}\n" in book for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name}-{rule.figure}")
def test_every_rule_raises_its_alert_and_only_beyond_its_limit(rule: Any) -> None:
    now = 2e9
    step = 1e-3 * max(rule.limit, 1)
    beyond, within = (rule.limit - step, rule.limit + step) if rule.below else (rule.limit + step, rule.limit - step)
    if rule.kind == "age":
        beyond, within = now - beyond, now - within
    elif rule.kind == "left":
        beyond, within = now + beyond, now + within
    raised = list(alerts(ServiceFigures("shuffler", True, {rule.figure: beyond}), now))
    assert rule.text in {one.text for one in raised} or any(one.severity == "page" for one in raised)
    calm = list(alerts(ServiceFigures("shuffler", True, {rule.figure: within}), now))
    assert rule.text not in {one.text for one in calm}


def test_lost_bundles_and_the_fence_are_alerts() -> None:
    figures = read_figures(
        "shuffler",
        False,
        f'hubbub_bundles{{task="{TASK}",state="fenced"}} 100\nhubbub_conservation_error{{task="{TASK}"}} 3\n',
    )
    assert [one.name for one in alerts(figures, 0.0)] == ["HubbubDown", "HubbubConservationError", "HubbubFenced"]


def test_many_batches_become_few_points_with_the_mean_of_their_batches() -> None:
    series = BatchSeries()
    for bucket in range(1, 1001):
        series.add(committed(bucket))
    view = view_of(series, [0, 3], first=1, last=1000, points=100)
    assert (view.per_point, len(view.value)) == (10, 100)
    shares = np.array([drifting(one)[0] for one in range(1, 1001)]).reshape(100, 10)
    np.testing.assert_allclose(view.value[:, 0], shares.mean(axis=1), rtol=1e-5)
    reach = (view.high - view.low)[0, 0] / 2
    single = committed(1)
    np.testing.assert_allclose(reach, 1.96 * single["table"]["stderr"][0] / PEOPLE / math.sqrt(10), rtol=1e-3)
    moved = view_of(series, [0], first=11, last=1000, points=100)
    np.testing.assert_array_equal(moved.value[:50, 0], view.value[1:51, 0])
    few = view_of(series, [0], first=991, last=1000, points=100)
    np.testing.assert_allclose(
        few.low[:, 0], [one["table"]["low"][0] / PEOPLE for one in map(committed, range(991, 1001))], rtol=1e-5
    )


def test_the_interval_of_a_mean_of_quantiles_is_no_narrower_than_theirs() -> None:
    series = BatchSeries()
    units = ["people"] * 4 + ["s"]
    for bucket in range(1, 101):
        series.add(committed(bucket, questions=["q"] * 5, units=units))
    view = view_of(series, [3, 4], first=1, last=100, points=10)
    batches = [committed(bucket) for bucket in range(1, 11)]
    np.testing.assert_allclose(view.low[0, 1], np.mean([one["table"]["low"][4] for one in batches]), rtol=1e-5)
    np.testing.assert_allclose(view.high[0, 1], np.mean([one["table"]["high"][4] for one in batches]), rtol=1e-5)
    narrower = (view.high - view.low)[0, 0] * PEOPLE / (batches[0]["table"]["high"][3] - batches[0]["table"]["low"][3])
    np.testing.assert_allclose(narrower, 1 / math.sqrt(10), rtol=1e-3)


def test_a_batch_without_a_figure_does_not_take_it_from_its_neighbours() -> None:
    """A figure may be missing in a batch: where nobody answered, there is no median."""
    task = LiveTask(TASK)
    for bucket in range(1, 101):
        result = committed(bucket, [0.2] * 5, questions=["q"] * 5, units=["people"] * 4 + ["s"])
        if bucket in {7, 98} or 41 <= bucket <= 50:
            for name in ("value", "stderr", "low", "high"):
                result["table"][name] = [None, *result["table"][name][1:4], None]
        task.add([result])
    for points in (10, 100):
        found = task.view("q", points=points)["series"]["figures"]
        json.dumps(found, allow_nan=False)
        missing = {10: [4], 100: [6, *range(40, 50), 97]}[points]
        for place in (0, 4):
            absent = [at for at, one in enumerate(found[place]["value"]) if one is None]
            assert absent == [at for at, one in enumerate(found[place]["high"]) if one is None] == missing
            known = [one for one in found[place]["value"] if one is not None]
            np.testing.assert_allclose(known, 0.2 if place == 0 else 0.2 * PEOPLE, rtol=1e-5)
        assert None not in found[1]["value"]


def test_a_figure_that_is_missing_is_none_of_the_largest() -> None:
    task = LiveTask(TASK)
    labels = [f"label {one}" for one in range(30)]
    values = [None, *(float(one) for one in range(29))]
    same: dict[str, Any] = dict.fromkeys(("values", "stderr", "low", "high"), values)
    task.add([committed(1, labels=labels, **same)])
    shown = [one["label"] for one in task.view("")["series"]["figures"]]
    assert shown == labels[:-25:-1]


def test_figures_of_old_batches_are_dropped_before_memory_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.studio.live.batches.MAX_CELLS", 250 * len(LABELS))
    series = BatchSeries()
    for bucket in range(1, 2001):
        series.add(committed(bucket))
    assert len(series) == 2000
    buckets = series.buckets
    assert 200 <= len(buckets) <= 512
    assert buckets.tolist() == list(range(2001 - len(buckets), 2001)), "the newest are kept"


def survey() -> tuple[hb.Plan, hb.Collection]:
    questions: dict[str, Any] = {
        "page": hb.Choice(["search", "news"]),
        "fast": hb.Flag(),
        "wait": hb.Scale(edges=[0, 1, 2, 4, 8]),
    }
    schema = hb.Schema.survey(questions)
    plan = hb.plan(schema, 500, hb.Budget(4.0, 1e-4))
    answers = [{"page": "search", "fast": True, "wait": 1.5}] * 300 + [
        {"page": "news", "fast": False, "wait": 5.0}
    ] * 300
    return plan, hb.Collection.from_values(answers, plan.schema)


def survey_result(bucket: int, plan: hb.Plan, people: hb.Collection) -> dict[str, Any]:
    place = committed(bucket)
    found = hb.estimate(hb.tally(hb.shuffle(hb.randomize(people, plan))), plan)
    found = replace(found, released=place["released"])
    return json.loads(json.dumps({**place, **found.to_document()}))  # type: ignore[no-any-return]


@pytest.mark.long
def test_surveys_have_a_view_and_a_pool_for_each_question() -> None:
    plan, people = survey()
    services = Services([survey_result(bucket, plan, people) for bucket in (1, 2, 3)])

    async def work() -> None:
        feed = feed_of(services)
        await feed.read()
        task = feed.task(TASK)
        assert task.questions == ["page", "fast", "wait"]
        for question in task.questions:
            view = task.view(question)
            assert view["series"]["figures"], question
            assert {one["question"] for one in view["series"]["figures"]} == {question}
            assert view["pooled"]["batches"] == 3
            json.dumps(view, allow_nan=False)
        share = task.view("page")["pooled"]["rows"][0]
        assert abs(share["value"] - 0.5) < 3 * (share["high"] - share["low"])
        with pytest.raises(InvalidInput, match="question"):
            task.view("colour")
        await feed.close()

    run(work)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/live/overview", 200),
        ("/api/live/view", 200),
        (f"/api/live/view?task={TASK}&size=9&last=9&points=5", 200),
        ("/api/live/view?points=401", 422),
        ("/api/live/view?points=x", 422),
        ("/api/live/view?size=-1", 422),
        ("/api/live/view?after=9999999999999999", 422),
        ("/api/live/view?question=colour", 422),
        ("/api/live/view?task=cd", 404),
        ("/api/live/batches?before=3&count=1", 200),
        ("/api/live/batches?after=1&count=1", 200),
        ("/api/live/batches?after=x", 422),
        ("/api/live/batches?count=0", 422),
        ("/api/live/batches?count=201", 422),
    ],
)
def test_requests_of_the_page_are_checked(path: str, status: int) -> None:
    services = Services([committed(one) for one in (1, 2, 3)])

    async def work() -> None:
        feed = feed_of(services)
        await feed.read()
        app = Starlette(routes=live_routes(feed))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://studio.test") as client:
            answer = await client.get(path)
        assert answer.status_code == status, answer.text
        assert TOKEN not in answer.text + str(answer.headers)
        assert answer.headers["cache-control"] == "no-store"
        assert ("error" in answer.json()) == (status != 200)
        await feed.close()

    run(work)


def test_without_a_source_the_page_says_so() -> None:
    async def work() -> None:
        app = Starlette(routes=live_routes(None))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://studio.test") as client:
            assert (await client.get("/api/live/overview")).json() == {"connected": False}
            assert (await client.get("/api/live/events")).status_code == 404

    run(work)


@pytest.mark.parametrize(
    ("round_epochs", "released", "dated"),
    [(1, 11, 10), (1, 14, 10), (7, 11, 10), (7, 13, 12), (7, 17, 16), (7, 30, 16), (7, 10, 10)],
)
def test_a_batch_is_dated_by_the_epoch_in_which_people_answered(round_epochs: int, released: int, dated: int) -> None:
    """Regression: every chart dated a batch by the epoch of its release, a weekly one by the week after it."""
    week = 604_800
    place = {"epoch": released, "start": 10 * week, "end": (10 + round_epochs) * week, "released": released * week}
    found = BatchHead.of(head(3, people=100, **place))
    assert (found.time, found.released, found.epoch) == (dated * week, released * week, week)
