"""A plan states its rounds and what they cost together, and its loader recomputes both."""

import json
from typing import Any

import pytest
from tests.checker.plans import forged

import hubbub as hb
from hubbub.accountant.repeated import repeated_epsilon
from hubbub.checker import State, WireError
from hubbub.checker import verify as check
from hubbub.model.plans import basic_total
from hubbub.service.provision import draft_contract

WEEKLY = hb.plan_from(hb.Schema.bits(1), 10_000, hb.Protocol(0.1), delta=1e-8, rounds=52, total_delta=1e-6)


def test_a_plan_for_several_rounds_says_so_in_its_json() -> None:
    """Neither the text nor the JSON of a plan for 52 rounds once stated their number or their total."""
    plan = hb.plan(hb.Schema.bits(1), 10_000, hb.Budget(1.0, 1e-6), rounds=52)
    document = json.loads(plan.to_json())
    assert document["rounds"] == plan.rounds == 52
    assert document["total"] == {"epsilon": plan.total.epsilon, "delta": 1e-6}
    assert 0.97 < plan.total.epsilon <= 1.0
    assert hb.load_plan(plan.to_json()) == plan
    assert "52 rounds" in repr(plan)


def test_one_round_has_the_guarantee_as_its_total() -> None:
    plan = hb.plan_from(hb.Schema.bits(1), 1000, hb.Protocol(0.1), delta=1e-6)
    assert (plan.rounds, plan.total) == (1, hb.Total(plan.guarantee.epsilon, plan.guarantee.delta))
    assert (plan.guarantee.epsilon, plan.guarantee.delta) in plan.curve.points


def test_rounds_are_part_of_the_id() -> None:
    assert WEEKLY.id != hb.plan_from(hb.Schema.bits(1), 10_000, hb.Protocol(0.1), delta=1e-8).id


def _lower_point(document: dict[str, Any]) -> None:
    document["curve"][9][1] *= 0.99
    for i in range(10, len(document["curve"])):
        document["curve"][i][1] = min(document["curve"][i][1], document["curve"][9][1])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: one["total"].update(epsilon=0.99 * one["total"]["epsilon"]), "total of"),
        (lambda one: one["total"].update(delta=1e-7), "total of"),
        (lambda one: one.update(rounds=53), "total of"),
        (_lower_point, "curve of the plan"),
        (lambda one: one.update(curve=[[0.0, 0.0]]), "curve of the plan"),
    ],
)
def test_false_totals_and_curves_are_refused(change: Any, why: str) -> None:
    with pytest.raises(hb.FalseClaim, match=why):
        hb.load_plan(forged(WEEKLY, change))


def test_larger_claims_are_legal() -> None:
    for change in (
        lambda one: one["total"].update(epsilon=5.0),
        lambda one: one["total"].update(epsilon="inf"),
        lambda one: (
            one["curve"][0].__setitem__(1, 0.5),
            one["total"].update(epsilon=5.0),
            one["odds"].update(round=0.76, total=1.0),
        ),
    ):
        hb.load_plan(forged(WEEKLY, change))


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.pop("rounds"),
        lambda one: one.update(rounds=0),
        lambda one: one.update(rounds=1.5),
        lambda one: one.update(total=[1, 2]),
        lambda one: one["total"].update(delta=2),
        lambda one: one.update(curve=[]),
        lambda one: one.update(curve=[[0.5, 0.1], [0.4, 0.0]]),
        lambda one: one.update(curve=[[0.5, 0.1], [0.6, 0.2]]),
        lambda one: one.update(curve=[[0.5]]),
        lambda one: one.update(curve=[[0.01 * i, 0.5] for i in range(65)]),
    ],
)
def test_malformed_totals_are_rejected_by_both_readers(change: Any) -> None:
    text = forged(WEEKLY, change)
    for read in (hb.Plan.from_json, check):
        with pytest.raises((hb.WireError, WireError)):
            read(text)


def test_the_checker_confirms_what_adds_up_and_says_what_it_cannot() -> None:
    def total(plan: hb.Plan | str) -> State:
        verdict = check(plan if isinstance(plan, str) else plan.to_json())
        return next(part.state for part in verdict.parts if part.name == "total")

    summed = basic_total(WEEKLY.guarantee, 52)
    assert total(WEEKLY) is State.NOT_CONFIRMED
    assert total(forged(WEEKLY, lambda one: one.update(total=summed.to_document()))) is State.CONFIRMED
    once = hb.plan_from(hb.Schema.bits(1), 1000, hb.Protocol(0.1), delta=1e-6)
    assert total(once) is State.CONFIRMED
    assert total(forged(once, lambda one: one["total"].update(epsilon=0.3))) is State.FALSE


def test_a_contract_takes_its_rounds_from_the_plan() -> None:
    """Rounds and total of a planned series once had to be typed again."""
    keys: dict[str, Any] = {"analyzer": bytes(32), "shuffler": bytes([1]) * 32}
    agreed = draft_contract(WEEKLY, **keys)
    assert agreed.series is not None
    assert (agreed.rounds, agreed.series.total.delta) == (52, 1e-6)
    assert 1.0 <= agreed.series.total.epsilon / WEEKLY.total.epsilon < 1.002
    other = draft_contract(WEEKLY, **keys, rounds=4, total_epsilon=5.0, total_delta=1e-5)
    assert other.series is not None
    assert (other.rounds, other.series.total) == (4, hb.Budget(5.0, 1e-5))


def test_totals_never_fall_below_fewer_rounds() -> None:
    totals = [repeated_epsilon(WEEKLY, rounds, 1e-6) for rounds in (1, 2, 5, 52, 365)]
    assert totals == sorted(totals)
    assert totals[3] == pytest.approx(WEEKLY.total.epsilon, rel=1e-8)
