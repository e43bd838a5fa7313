"""Plans for strings: figures, trust, documents, the second checker, and what does not apply to them."""

import json
from dataclasses import replace
from typing import Any

import pytest

import hubbub as hb
from hubbub import checker
from hubbub.documents import canonical
from hubbub.errors import FalseClaim, Infeasible, InvalidInput
from hubbub.model.plans import Plan
from hubbub.planner import family_key
from hubbub.service.task.admission import Admission
from hubbub.service.task.contract import Contract

SCHEMA = hb.Schema.strings(max_bytes=32)
BUDGET = hb.Budget(1.0, 1e-8)
PLAN = hb.plan(SCHEMA, 10**6, BUDGET, trust="shuffler-noise")
DRAWN = hb.Fakes.laplace(2.0, 35)


def test_the_figures_at_one_and_1e8() -> None:
    assert PLAN.guarantee.meets(BUDGET)
    assert PLAN.guarantee.delta == pytest.approx(6.15e-9, rel=1e-3)
    assert PLAN.guarantee.basis is hb.Basis.EXACT
    assert PLAN.guarantee.lower_bound == pytest.approx(PLAN.guarantee.delta, rel=1e-6)
    assert hb.count_shown(PLAN, 0.5) <= 36
    assert hb.count_shown(PLAN, 0.95) <= 41
    assert PLAN.stderr <= 2.85
    assert PLAN.protocol.m == DRAWN


@pytest.mark.parametrize(
    ("epsilon", "delta", "half", "most"),
    [(1.0, 1e-6, 26, 31), (1.0, 1e-10, 45, 50), (2.0, 1e-8, 19, 21), (0.5, 1e-8, 67, 76)],
)
def test_other_budgets(epsilon: float, delta: float, half: int, most: int) -> None:
    found = hb.plan(SCHEMA, 10**5, epsilon=epsilon, delta=delta, trust="shuffler-noise")
    assert (hb.count_shown(found), hb.count_shown(found, 0.95)) == (half, most)


def test_a_string_of_nobody_is_never_shown_and_that_of_one_person_with_at_most_delta() -> None:
    for delta in (1e-3, 1e-6, 1e-10):
        for epsilon in (0.3, 1.0, 4.0):
            found = hb.plan(SCHEMA, 1000, epsilon=epsilon, delta=delta, trust="shuffler-noise")
            assert hb.chance_shown(found, 0) == 0.0
            assert 0.0 < hb.chance_shown(found, 1) <= found.guarantee.delta <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0.7, 1e-18), (1.5, 1e-20), (3.0, 1e-16), (9.0, 1e-20)])
def test_a_scale_that_is_rounded_down_does_not_bound_delta(epsilon: float, delta: float) -> None:
    """2/ε as a float may be smaller than 2/ε: the largest loss is then above ε, by less than any shift can hide."""
    found = hb.plan(SCHEMA, 1000, epsilon=epsilon, delta=delta, trust="shuffler-noise")
    assert found.guarantee.meets(hb.Budget(epsilon, delta))
    assert found.protocol.shuffler_fakes is not None
    assert found.protocol.shuffler_fakes.scale == pytest.approx(2 / epsilon, rel=1e-12)
    assert checker.verify(found.to_json()).state is checker.State.CONFIRMED


@pytest.mark.parametrize("trust", ["shuffling", "nobody"])
def test_strings_need_a_shuffler_that_draws(trust: Any) -> None:
    with pytest.raises(Infeasible, match="shuffler-noise"):
        hb.plan(SCHEMA, 10**6, BUDGET, trust=trust)
    assert hb.frontier(SCHEMA, 10**6, BUDGET, trust=trust) == []
    held = hb.account(PLAN.protocol, SCHEMA, 10**6, delta=1e-8, trust=trust)
    assert held.epsilon == float("inf")


def test_the_frontier_has_one_plan() -> None:
    (only,) = hb.frontier(SCHEMA, 10**6, BUDGET)
    assert only == PLAN
    assert family_key(only) == "strings"
    assert hb.frontier(hb.Schema.one_hot(3), 1000, BUDGET, trust="shuffler-noise")[0].protocol.release != "strings"


def test_joint_tables_exclude_strings() -> None:
    with pytest.raises(Infeasible, match="joint"):
        hb.plan(SCHEMA, 10**6, BUDGET, trust="shuffler-noise", joint=True)


def test_plans_are_found_backwards() -> None:
    crowd = hb.solve(SCHEMA, epsilon=1.0, delta=1e-8, precision=0.001, trust="shuffler-noise")
    assert crowd.n == pytest.approx(2800, rel=0.02)
    found = hb.solve(SCHEMA, 10**5, delta=1e-8, stderr=5.0, trust="shuffler-noise")
    assert found.stderr <= 5.0
    assert 0.5 < found.guarantee.epsilon < 0.6


def test_a_ledger_charges_strings() -> None:
    assert hb.Ledger().charge(PLAN, rounds=3).epsilon(1e-7) <= 3.0 + 1e-6


def test_policies_that_need_flips_exclude_strings() -> None:
    with pytest.raises(Infeasible):
        hb.plan(SCHEMA, 10**6, BUDGET, trust="shuffler-noise", max_collusion_epsilon=5)


def test_several_rounds_share_the_budget() -> None:
    found = hb.plan(SCHEMA, 10**5, BUDGET, trust="shuffler-noise", rounds=4)
    assert found.total.epsilon <= 1.0
    assert hb.count_shown(found) > hb.count_shown(PLAN)


def test_the_services_offer_strings_behind_a_relay() -> None:
    with pytest.raises(InvalidInput, match="strings must be the terms of strings"):
        Contract(
            plan=PLAN, min_batch_size=PLAN.n, slots=1, epoch=60, task_start=0, task_end=10, suite=1, analyzer=bytes(32),
            shuffler=b"s" * 32, admission=Admission(),
        )  # fmt: skip
    found = hb.cost(PLAN)
    assert (found.messages, found.not_offered) == (1, "")
    assert PLAN.payload_messages == 1.0


def test_the_assumptions_name_the_relay() -> None:
    held = PLAN.guarantee.assumptions
    assert held.relay
    assert held.honest == 1
    assert held.trust == "shuffler-noise"
    text = " ".join(held.sentences())
    assert "relay" in text
    assert "fakes" not in text
    assert hb.Assumptions.from_document(held.to_document()) == held


def test_documents_are_read_as_written_and_confirmed_by_the_second_checker() -> None:
    assert hb.load_plan(PLAN.to_json()) == PLAN
    assert "relay" not in json.dumps(hb.plan_from(hb.Schema.bits(1), 9, hb.Protocol(0.1), epsilon=1.0).to_json())
    for one in (PLAN, hb.plan(hb.Schema.strings(8, cut=True), 50, epsilon=2.0, delta=1e-4, trust="shuffler-noise")):
        verdict = checker.verify(one.to_json())
        assert verdict.state is checker.State.CONFIRMED, verdict


def forged(**changes: Any) -> str:
    document = json.loads(PLAN.to_json())
    del document["id"]
    for path, value in changes.items():
        *above, last = path.split("__")
        part = document
        for key in above:
            part = part[key]
        if value is None:
            del part[last]
        else:
            part[last] = value
    import hashlib

    return json.dumps({**document, "id": hashlib.sha256(canonical(document)).hexdigest()})


@pytest.mark.parametrize(
    "changes",
    [
        {"guarantee__assumptions__relay": None},
        {"guarantee__assumptions__relay": False},
        {"guarantee__assumptions__view": "whole records"},
        {"protocol__release": "bits"},
        {"protocol__release": "records"},
        {"protocol__k": 2},
        {"schema__max_bytes": 0},
        {"schema__max_bytes": 5000},
        {"schema__cut": 1},
        {"schema": {"kind": "one_hot", "labels": ["a", "b"], "max_set": 1}},
        {"protocol__noise": [{"flip": 0, "m": 100}]},
        {"protocol__noise": [{"flip": 2**40, "m": {"distribution": "laplace", "scale": 2, "shift": 35}}]},
        {"protocol__noise": [{"flip": 0, "m": {"distribution": "poisson", "scale": 2, "shift": 0}}]},
    ],
)
def test_other_documents_are_plans_for_no_reader(changes: dict[str, Any]) -> None:
    text = forged(**changes)
    with pytest.raises((InvalidInput, FalseClaim)):
        hb.load_plan(text)
    with pytest.raises(checker.WireError):
        checker.verify(text)


def test_more_privacy_than_holds_is_a_false_claim() -> None:
    text = forged(guarantee__delta=1e-10)
    with pytest.raises(FalseClaim):
        hb.load_plan(text)
    assert checker.verify(text).state is checker.State.FALSE
    with pytest.raises(FalseClaim):
        hb.load_plan(forged(stderr=2.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: hb.Protocol(0.1, release="strings"),
        lambda: hb.Protocol(0.1, m=DRAWN, release="strings"),
        lambda: hb.Protocol(0, m=5, release="strings"),
        lambda: hb.Protocol(0, m=hb.Fakes.poisson(1.0), release="strings"),
        lambda: hb.Protocol.survey([hb.Noise(m=DRAWN)], "strings"),
        lambda: hb.plan_from(hb.Schema.one_hot(3), 9, hb.Protocol(0, m=DRAWN, release="strings"), epsilon=1.0),
        lambda: hb.plan_from(SCHEMA, 9, hb.Protocol(0, m=DRAWN), epsilon=1.0),
        lambda: replace(
            PLAN, guarantee=replace(PLAN.guarantee, assumptions=replace(PLAN.guarantee.assumptions, relay=False))
        ),
        lambda: SCHEMA.size,
        lambda: SCHEMA.density,
        lambda: hb.count_shown(hb.plan_from(hb.Schema.one_hot(3), 9, hb.Protocol(0.1), epsilon=1.0)),
    ],
)
def test_what_does_not_apply_is_refused(make: Any) -> None:
    with pytest.raises(InvalidInput):
        make()


def test_a_plan_prints_what_is_shown() -> None:
    text = str(PLAN)
    assert "36 people" in text
    assert "41" in text
    assert "one string of at most 32 bytes" in text
    assert isinstance(Plan.from_json(PLAN.to_json())._repr_html_(), str)
