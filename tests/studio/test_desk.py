"""The answers of the studio: certificates as they come, simulations and attacks of plans that it certified itself."""

import asyncio
import functools
import json
import threading
import time
from typing import Any

import numpy as np
import pytest
from starlette.requests import Request
from tests.studio.conftest import INQUIRY, QUESTIONS, Inline

import hubbub as hb
from hubbub.documents import Json
from hubbub.errors import WireError
from hubbub.model.schema import Schema
from hubbub.planner import FAMILIES, central_margin, margin, outline, question_margins
from hubbub.planner.deadlines import Late, check_time, until
from hubbub.studio.app import answering
from hubbub.studio.curves import EPSILONS, PEOPLE
from hubbub.studio.desk import Desk, Forgotten, Recent
from hubbub.studio.workers import Job

FAST = ["clear-shuffler-fakes", "split", "local-flip"]


def certified(desk: Desk, inquiry: dict[str, Json], families: list[str], tab: str = "a") -> list[dict[str, Any]]:
    listed: list[Json] = list(families)

    async def lines() -> list[dict[str, Any]]:
        body: Json = {"tab": tab, "generation": 7, "inquiry": inquiry, "families": listed, "patient": False}
        return [json.loads(line) async for line in await desk.certify(body)]

    return asyncio.run(lines())


def preliminary(desk: Desk, inquiry: dict[str, Json]) -> dict[str, Any]:
    return asyncio.run(desk.preliminary({"tab": "a", "inquiry": inquiry}))


def test_outlines(desk: Desk) -> None:
    found = asyncio.run(desk.outline(INQUIRY))
    for one in found["families"]:
        assert [x for x, _ in one["by_epsilon"]] == list(EPSILONS)
        assert set(dict(map(tuple, one["by_people"]))) <= set(PEOPLE)
        assert one["trust"] == FAMILIES[one["family"]].trust
    assert {one["family"] for one in found["families"] if not one["allowed"]} == {
        "clear-shuffler-fakes",
        "clear-user-fakes",
    }
    assert found["central"]["here"] == pytest.approx(central_margin(hb.Schema.one_hot(3), hb.Budget(1.0, 1e-6)))
    survey = asyncio.run(desk.outline({**INQUIRY, "kind": "survey", "questions": QUESTIONS}))
    assert survey["central"]["here"] is None
    assert {one["family"] for one in survey["families"]} >= {"split", "local-response", "clear-shuffler-fakes"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"questions": [QUESTIONS[0], QUESTIONS[0]]}, "distinct"),
        ({"questions": [{"name": "a", "kind": "choice", "labels": ["yes"]}]}, "number of labels"),
        ({"n": 1}, "n must"),
        ({"n": None}, "must be a whole number"),
    ],
)
def test_what_nobody_can_ask_is_told_as_an_answer(desk: Desk, change: dict[str, Json], told: str) -> None:
    """A browser logs every refusal, and these are typed by people."""
    asked: dict[str, Json] = {**INQUIRY, "kind": "survey", "questions": QUESTIONS, **change}
    answer = asyncio.run(desk.outline(asked))
    assert list(answer) == ["problem"]
    assert told in answer["problem"]
    assert preliminary(desk, asked) == {}


def test_certificates_are_those_of_the_planner(desk: Desk, workers: Inline) -> None:
    found = {one["family"]: one for one in certified(desk, INQUIRY, [*FAST, "nonesuch"])}
    assert set(found) == set(FAST)
    for family, one in found.items():
        own = hb.plan(hb.Schema.one_hot(3), 2000, epsilon=1.0, delta=1e-6, trust="shuffler-noise", family=family)
        assert (one["state"], one["id"], one["margin"]) == ("certified", own.id, margin(own))
        assert one["curve"] == one["margin"]
        assert hb.Plan.from_json(one["plan"]) == own
    before = len(workers.jobs)
    assert len(certified(desk, INQUIRY, FAST, tab="b")) == 3
    assert len(workers.jobs) == before, "a second tab uses the certificates of the first"


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0, 4.6, 6.0])
def test_counts_are_within_their_margin_95_of_100_times(desk: Desk, epsilon: float) -> None:
    """By the distribution of the shuffler's fakes: 1.96 standard errors would cover 82 to 94 of 100."""
    inquiry: dict[str, Json] = {**INQUIRY, "d": 12, "n": 100_000, "epsilon": epsilon, "trust": "shuffler-noise"}
    for kind, family in (("one", "clear-shuffler-fakes"), ("strings", "strings")):
        (one,) = certified(desk, {**inquiry, "kind": kind}, [family])
        drawn = hb.Plan.from_json(one["plan"]).protocol.shuffler_fakes
        assert drawn is not None
        pmf, error = drawn.pmf, np.arange(drawn.pmf.size) - drawn.mean
        if kind == "one":  # the fakes of a label less the mean of all twelve: 11 of its own less the others, by 12
            others = functools.reduce(np.convolve, [drawn.pmf] * 11)
            own = np.zeros(11 * (pmf.size - 1) + 1)
            own[::11] = pmf
            pmf, error = np.convolve(own, others[::-1]), (np.arange(own.size + others.size - 1) - others.size + 1) / 12
        assert pmf[np.abs(error) <= one["margin"] + 1e-9].sum() >= 0.95


def test_margins_of_questions(desk: Desk) -> None:
    (one,) = certified(desk, {**INQUIRY, "kind": "survey", "questions": QUESTIONS}, ["clear-shuffler-fakes"])
    half = question_margins(hb.Plan.from_json(one["plan"]))
    assert {each["name"]: each["margin"] for each in one["questions"]} == half


def test_quick_curves_pass_near_certified_margins(desk: Desk) -> None:
    for epsilon in (0.3, 1.0, 3.0):
        asked: dict[str, Json] = {**INQUIRY, "epsilon": epsilon, "trust": "shuffler-noise"}
        (one,) = certified(desk, asked, ["clear-shuffler-fakes"])
        found = {each["family"]: each for each in asyncio.run(desk.outline(asked))["families"]}
        assert found["clear-shuffler-fakes"]["about"] == pytest.approx(one["curve"], rel=0.1)


@pytest.mark.parametrize(
    ("kind", "rounds"),
    [
        ("one", 1),
        ("one", 12),
        ("few", 12),
        ("any", 1),
        ("survey", 1),
        pytest.param("survey", 12, marks=pytest.mark.long),
    ],
)
def test_a_preliminary_plan_is_certified_and_close_to_the_last_one(
    desk: Desk, workers: Inline, kind: str, rounds: int
) -> None:
    asked: dict[str, Json] = {**INQUIRY, "kind": kind, "questions": QUESTIONS, "rounds": rounds}
    first = preliminary(desk, asked)
    assert (first["family"], first["state"], first["preliminary"]) == ("split", "certified", True)
    assert [job.urgent for job in workers.jobs] == [True]
    with pytest.raises(Forgotten):  # nothing can be done with a plan that is about to be replaced
        asyncio.run(desk.attack({"tab": "a", "plan": first["id"], "compromised": 0, "dropped": 0}))
    (last,) = certified(desk, asked, ["split"])
    plan = hb.load_plan(first["plan"])  # which recomputes every claim
    assert 1 < plan.stderr / hb.Plan.from_json(last["plan"]).stderr < 1.03
    assert 1 <= first["curve"] / last["curve"] < 1.05  # margins are whole numbers of messages, more or less
    assert plan.id == first["id"] != last["id"]
    assert plan.total.epsilon <= 1.0
    assert plan.total.delta <= 1e-6
    assert preliminary(desk, asked) == last, "the last one is known"


@pytest.mark.parametrize("change", [{"trust": "shuffler-noise"}, {"trust": "nobody"}, {"joint": True}])
def test_nothing_is_preliminary_without_a_quick_way(desk: Desk, change: dict[str, Json]) -> None:
    assert preliminary(desk, {**INQUIRY, **change}) == {}


def test_a_certificate_that_is_known_keeps_its_plan(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that returns to a state may choose what it is shown, however much was certified in between."""
    monkeypatch.setattr(desk, "_plans", Recent(3))
    (one,) = certified(desk, INQUIRY, ["split"])
    for n in (2001, 2002, 2003, 2004):
        certified(desk, {**INQUIRY, "n": n}, ["local-flip"])
    (again,) = certified(desk, INQUIRY, ["split"])
    assert again == one
    answer = asyncio.run(desk.simulate({"tab": "a", "plan": one["id"], "shape": "even", "shares": [], "rows": ""}))
    assert answer["panels"]


def test_reasons(desk: Desk) -> None:
    (one,) = certified(desk, {**INQUIRY, "kind": "any", "d": 300}, ["response"])
    assert (one["state"], one["reason"]) == ("none", "it does not apply to this question")


def test_simulations_of_own_plans_only(desk: Desk) -> None:
    body: dict[str, Json] = {"tab": "a", "plan": "0" * 64, "shape": "few", "shares": [], "rows": ""}
    with pytest.raises(Forgotten):
        asyncio.run(desk.simulate(body))
    (one,) = certified(desk, INQUIRY, ["clear-shuffler-fakes"])
    answer = asyncio.run(desk.simulate({**body, "plan": one["id"], "shares": [1, 0, 3]}))
    (panel,) = answer["panels"]
    assert [row["truth"] for row in panel["rows"]] == [1500, 500, 0]
    assert all(row["low"] <= row["estimate"] <= row["high"] and len(row["others"]) == 24 for row in panel["rows"])


def test_attacks(desk: Desk) -> None:
    (one,) = certified(desk, INQUIRY, ["split"])
    answer = asyncio.run(desk.attack({"tab": "a", "plan": one["id"], "compromised": 20, "dropped": 50}))
    guesses = [step["guess"] for step in answer["steps"]]
    assert [step["compromised"] for step in answer["steps"]] == [0, 10, 20, 50]
    assert guesses == sorted(guesses)
    assert guesses[0] == one["guess"] < answer["dropped"]["guess"] < 1
    assert answer["together"] == one["collusion_guess"]
    assert answer["people"] == 1000


def test_solving_for_epsilon(desk: Desk) -> None:
    body: dict[str, Json] = {"tab": "a", "inquiry": {**INQUIRY, "trust": "shuffler-noise"}, "margin": 20}
    epsilon = asyncio.run(desk.solve(body))["epsilon"]
    enough = hb.plan(hb.Schema.one_hot(3), 2000, epsilon=epsilon, delta=1e-6, trust="shuffler-noise")
    less = hb.plan(hb.Schema.one_hot(3), 2000, epsilon=0.98 * epsilon, delta=1e-6, trust="shuffler-noise")
    assert margin(enough) <= 20.001 < margin(less)
    assert epsilon == float(f"{epsilon:.3g}")
    impossible = asyncio.run(
        desk.solve({**body, "inquiry": {**INQUIRY, "trust": "nobody", "rounds": 100}, "margin": 1e-5})
    )
    assert "raise n" in impossible["error"]


@pytest.mark.long
def test_a_margin_that_the_least_epsilon_reaches_is_found_at_once(desk: Desk) -> None:
    inquiry = {**INQUIRY, "trust": "shuffler-noise", "rounds": 7}
    for wanted in (1e5, 1e9):
        assert asyncio.run(desk.solve({"tab": "a", "inquiry": inquiry, "margin": wanted})) == {"epsilon": 0.01}


def test_reports(desk: Desk) -> None:
    found = certified(desk, INQUIRY, FAST)
    ids: list[Json] = [one["id"] for one in found]
    html = asyncio.run(desk.report({"tab": "a", "plan": ids[0], "others": [*ids, "unknown"]}))["html"]
    assert html.startswith("<!doctype html>")
    assert "Alternatives considered" in html
    assert str(ids[0]) in html


BAD: list[tuple[str, Json]] = [
    ("certify", {"tab": "a", "generation": -1, "inquiry": INQUIRY, "families": [], "patient": False}),
    ("certify", {"tab": "", "generation": 1, "inquiry": INQUIRY, "families": [], "patient": False}),
    ("certify", {"tab": "a", "generation": 1, "inquiry": INQUIRY, "families": "all", "patient": False}),
    ("simulate", {"tab": "a", "plan": 5, "shape": "few", "shares": [], "rows": ""}),
    ("simulate", {"tab": "a", "plan": "0", "shape": "odd", "shares": [], "rows": ""}),
    ("simulate", {"tab": "a", "plan": "0", "shape": "few", "shares": ["1"], "rows": ""}),
    ("attack", {"tab": "a", "plan": "0", "compromised": 100, "dropped": 0}),
    ("attack", {"tab": "a", "plan": "0", "compromised": 0, "dropped": -1}),
    ("solve", {"tab": "a", "inquiry": INQUIRY, "margin": 0}),
    ("solve", {"tab": "a", "inquiry": {}, "margin": 1}),
    ("report", {"tab": "a", "plan": "0", "others": [1]}),
    ("preliminary", None),
    ("preliminary", {"tab": "", "inquiry": INQUIRY}),
]


@pytest.mark.parametrize(("verb", "body"), BAD, ids=str)
def test_bad_requests(verb: str, body: Json, desk: Desk) -> None:
    with pytest.raises((WireError, hb.InvalidInput), match="must"):
        asyncio.run(getattr(desk, verb)(body))


def test_faults_tell_no_data(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = certified(desk, INQUIRY, ["clear-shuffler-fakes"])

    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("hubbub.studio.work.trials", fail)
    body: dict[str, Json] = {"tab": "a", "plan": one["id"], "shape": "few", "shares": [], "rows": ""}
    assert asyncio.run(desk.simulate(body)) == {"error": "internal error: RuntimeError"}


def test_work_for_a_reader_who_hangs_up_is_left(desk: Desk, workers: Inline, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search may take long: those of closed tabs would keep the others waiting."""
    left: list[tuple[int, int]] = []
    begun: list[Job] = []

    async def endless(job: Job) -> dict[str, Any]:
        begun.append(job)
        await asyncio.Event().wait()
        return {}

    monkeypatch.setattr(workers, "run", endless)
    monkeypatch.setattr(workers, "leave", lambda *generation: left.append(generation))
    asked = json.dumps({"tab": "a", "inquiry": INQUIRY, "margin": 20}).encode()
    messages = [{"type": "http.request", "body": asked, "more_body": False}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        while len(messages) == 1 and not begun:
            await asyncio.sleep(0.01)
        return messages.pop(0)

    request = Request({"type": "http", "method": "POST", "path": "/api/solve", "headers": []}, receive)
    asyncio.run(asyncio.wait_for(answering(desk.solve)(request), 30))
    (job,) = begun
    assert left == [(job.slot, job.generation)]


def test_curves_for_a_reader_who_hangs_up_are_left(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(*_: object) -> dict[str, Any]:
        begun.set()
        try:
            while True:
                time.sleep(0.01)
                check_time()
        finally:
            ended.set()

    monkeypatch.setattr("hubbub.studio.curves.Axis.outline", endless)

    async def run() -> None:
        asked = asyncio.ensure_future(desk.outline(INQUIRY))
        assert await asyncio.to_thread(begun.wait, 10)
        asked.cancel()
        assert await asyncio.to_thread(ended.wait, 10)

    asyncio.run(run())


def test_outlines_stop_with_their_time() -> None:
    with until(lambda: True), pytest.raises(Late):
        outline(Schema.one_hot(4), 1000, epsilon=1.0, delta=1e-6, people=[100, 1000])
