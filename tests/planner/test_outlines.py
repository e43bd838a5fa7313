"""Outlines are close to certified errors, cover the same families, and can never be taken for plans."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubbub as hb
from hubbub.errors import InvalidInput
from hubbub.planner import (
    FAMILIES,
    Search,
    family_key,
    frontier,
    frontier_by_family,
    outline,
    plan,
)
from hubbub.planner.deadlines import Late, check_time, until
from hubbub.planner.request import Request
from hubbub.planner.search import LATE

BUDGET = hb.Budget(1.0, 1e-6)
SURVEY = hb.Schema.survey(
    {"colour": hb.Choice(["red", "green", "blue"]), "dark mode": hb.Flag(), "age": hb.Number(0, 100)}
)
FLIPPED = hb.plan_from(hb.Schema.one_hot(3), 1000, hb.Protocol(0.1), delta=1e-6)
CASES: list[tuple[hb.Schema, int, dict[str, Any]]] = [
    (hb.Schema.one_hot(4), 20_000, {}),
    (hb.Schema.bits(2), 50_000, {}),
    (hb.Schema.at_most(2, 6), 100_000, {"honest_fraction": 0.9}),
    (SURVEY, 100_000, {}),
]


@pytest.mark.parametrize(("schema", "n", "limits"), CASES, ids=str)
@pytest.mark.long
def test_outlines_are_close_to_certified_errors(schema: hb.Schema, n: int, limits: dict[str, Any]) -> None:
    about = {one.key: one for one in outline(schema, n, BUDGET, **limits)}
    plans = frontier(schema, n, BUDGET, **limits)
    assert len(plans) >= 4
    for one in plans:
        expected = about[family_key(one)].error
        assert expected is not None
        assert 0.5 < one.stderr / expected < 2.0, family_key(one)
        assert about[family_key(one)].trust == FAMILIES[family_key(one)].trust


def test_curves_agree_with_single_points() -> None:
    epsilons, people = [0.25, 1.0, 4.0], [1000, 20_000]
    for one in outline(hb.Schema.one_hot(4), 20_000, BUDGET, epsilons=epsilons, people=people):
        assert [x for x, _ in one.by_epsilon] == epsilons
        assert dict(one.by_epsilon)[1.0] == dict(one.by_people)[20_000] == one.error
        errors = [error for _, error in one.by_epsilon]
        assert errors == sorted(errors, reverse=True)


def test_outlines_respect_constraints() -> None:
    assert {one.trust for one in outline(hb.Schema.one_hot(4), 1000, BUDGET, trust="nobody")} == {"nobody"}
    keys = {one.key for one in outline(hb.Schema.bits(3), 1000, BUDGET, joint=True, trust="shuffling")}
    assert "split" not in keys
    assert "flip" in keys


@given(
    st.sampled_from([hb.Schema.one_hot(5), hb.Schema.bits(9), hb.Schema.at_most(3, 40), SURVEY]),
    st.integers(1, 10**9),
    st.floats(0.01, 30),
    st.sampled_from([0.0, 1e-12, 1e-6, 1e-2]),
    st.sampled_from([1, 7, 1000]),
)
def test_outlines_are_finite(schema: hb.Schema, n: int, epsilon: float, delta: float, rounds: int) -> None:
    found = outline(schema, n, epsilon=epsilon, delta=delta, rounds=rounds, epsilons=[epsilon / 2], people=[n])
    for one in found:
        assert all(math.isfinite(error) and error >= 0 for _, error in one.by_epsilon + one.by_people)


PEOPLE = hb.Collection.from_values(["0", "1", "2"] * 400, FLIPPED.schema)
SENT = hb.randomize(PEOPLE, FLIPPED)
MIXED = hb.shuffle(SENT, FLIPPED)
TAKES_PLANS: dict[str, dict[str, Any]] = {
    "achieved_guarantee": {"tally": hb.tally(MIXED)},
    "cost": {},
    "estimate": {"tally": hb.tally(MIXED)},
    "joint": {"reports": MIXED, "labels": ["0"]},
    "question_errors": {},
    "randomize": {"collection": PEOPLE},
    "shuffle": {"reports": SENT},
}


@pytest.mark.parametrize("name", TAKES_PLANS)
def test_no_function_takes_an_outline_for_a_plan(name: str) -> None:
    (one, *_) = outline(FLIPPED.schema, 1000, BUDGET)
    assert not isinstance(one, hb.Plan)
    assert not hasattr(one, "to_json")
    with pytest.raises(InvalidInput, match="plan must be of type Plan, not Outline"):
        getattr(hb, name)(plan=one, **TAKES_PLANS[name])


def test_every_family_one_by_one() -> None:
    """The plans are those of the frontier, the most promising first, and the plan of one family is the same."""
    schema, n = hb.Schema.bits(1), 20_000
    found = list(frontier_by_family(schema, n, BUDGET))
    assert {one.plan.id for one in found if one.plan} == {one.id for one in frontier(schema, n, BUDGET)}
    assert next(one.key for one in found if one.plan) == "clear-shuffler-fakes"
    for one in found:
        assert one.plan is not None
        assert plan(schema, n, BUDGET, family=one.key, trust="shuffler-noise").id == one.plan.id
        assert family_key(one.plan) == one.key


def test_reasons() -> None:
    schema = hb.Schema.one_hot(50)
    found = {one.key: one for one in frontier_by_family(schema, 100, epsilon=0.1, delta=1e-6, max_messages=2.0)}
    assert (found["split"].plan, found["split"].late) == (None, False)
    assert found["split"].reason == "it sends 46 messages per user; raise max_messages to that to allow it"
    assert found["flip"].plan
    assert not found["flip"].reason


def test_deadlines() -> None:
    schema, n = hb.Schema.one_hot(4), 20_000
    late = list(frontier_by_family(schema, n, BUDGET, deadline=1e-9))
    assert len(late) == 9
    assert all(one.late and one.plan is None and one.reason == LATE for one in late)
    assert frontier(schema, n, BUDGET, deadline=1e-9) == []
    with pytest.raises(hb.Infeasible, match="raise the deadline"):
        _ = Search.of(Request.of(schema, n, BUDGET), stop=lambda: True).best


def test_a_search_within_another_one_stops_with_it() -> None:
    """A search for ε compares families, each of which has a deadline of its own or none."""
    with until(lambda: True), pytest.raises(Late):
        hb.solve(hb.Schema.bits(1), 1000, delta=1e-6, margin=20.0)
    with until(lambda: False), until(lambda: True), pytest.raises(Late):
        check_time()
    with until(lambda: True), until(lambda: False), pytest.raises(Late):
        check_time()
    with until(None):
        check_time()


def test_a_search_stops_at_its_next_certificate() -> None:
    """The control: without a limit it asks more than once, and one that stops at the third has the first plan."""
    schema, asked = hb.Schema.bits(1), 0

    def stop(limit: float) -> bool:
        nonlocal asked
        asked += 1
        return asked > limit

    whole = Search.of(Request.of(schema, 20_000, BUDGET), stop=lambda: stop(math.inf))
    total, asked = asked, 0
    part = Search.of(Request.of(schema, 20_000, BUDGET), stop=lambda: stop(total - 1))
    assert total > 3
    assert not whole.late
    assert len(part.late) == 1
    assert set(part.plans) | set(part.late) == set(whole.plans)
