"""Plans: their figures, their JSON, and the detection of false claims."""

import importlib
import json
import math
from dataclasses import replace
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.points import POINTS, N, collection, plan_of

import hubbub as hb
from hubbub.accountant.accounting import curve
from hubbub.accountant.theorems import attacks
from hubbub.documents import Json, canonical, parse
from hubbub.model.privacy import TRUST_MODELS, TrustModel
from hubbub.planner import load_plan, verify

PLAN = hb.plan_from(hb.Schema.at_most(2, ["a", "b", "c"]), 1000, hb.Protocol(0.1, m=hb.Fakes.poisson(0.5)), epsilon=1.0)


@pytest.mark.parametrize(("kind", "name"), POINTS)
def test_plans_round_trip_and_recompute(kind: str, name: str) -> None:
    plan = plan_of(kind, name)
    again = load_plan(plan.to_json())
    assert again == plan
    assert again.id == plan.id
    assert hb.Plan.from_json(json.dumps(json.loads(plan.to_json()), indent=2).encode()).id == plan.id


@pytest.mark.parametrize(("kind", "name"), POINTS)
def test_messages_and_bytes(kind: str, name: str) -> None:
    """The predicted number of messages is that of people with the most bits set."""
    plan = plan_of(kind, name)
    rows = np.zeros((N, plan.schema.width), np.uint8)
    rows[:, : plan.schema.max_set] = 1
    people = hb.Collection.from_values(rows, plan.schema)
    sent = np.array([len(hb.randomize(people, plan)) for _ in range(20)]) / N
    assert abs(sent.mean() - plan.payload_messages) < 5 * math.sqrt(plan.payload_messages / (20 * N)) + 1e-9
    assert plan.payload_bytes == plan.payload_messages * plan.payload


def test_ids_depend_on_everything() -> None:
    others = [
        replace(PLAN, n=1000, honest_fraction=0.5),
        replace(PLAN, stderr=PLAN.stderr * (1 + 1e-12)),
        replace(PLAN, protocol=PLAN.protocol.changed(q=0.1 + 2**-47)),
        replace(PLAN, protocol=PLAN.protocol.changed(m=hb.Fakes.poisson(0.6))),
        replace(PLAN, protocol=PLAN.protocol.changed(release="bits")),
        replace(PLAN, schema=hb.Schema.at_most(2, ["a", "b", "d"])),
        replace(PLAN, schema=hb.Schema.at_most(1, ["a", "b", "c"])),
        replace(PLAN, guarantee=replace(PLAN.guarantee, epsilon=1.1)),
        replace(PLAN, guarantee=replace(PLAN.guarantee, method="faith")),
    ]
    assert len({PLAN.id, *(plan.id for plan in others)}) == 1 + len(others)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.5},
        {"delta": 1e-30},
        {"basis": hb.Basis.EXACT},
        {"assumptions": replace(PLAN.guarantee.assumptions, honest=1)},
        {"assumptions": replace(PLAN.guarantee.assumptions, collusion_epsilon=0.1)},
        {"assumptions": replace(PLAN.guarantee.assumptions, shuffler=False)},
    ],
)
def test_false_claims_are_found(change: dict[str, Any]) -> None:
    false = replace(PLAN, guarantee=replace(PLAN.guarantee, **change))
    assert hb.Plan.from_json(false.to_json()) == false  # a device cannot detect it
    with pytest.raises(hb.FalseClaim):
        load_plan(false.to_json())


PURE = [
    (hb.Schema.bits(1), hb.Protocol(0.25)),
    (hb.Schema.bits(5), hb.Protocol(0.1, 3)),
    (hb.Schema.at_most(2, 9), hb.Protocol(0.4999999999, release="bits")),
    (hb.Schema.one_hot(3), hb.Protocol(0.2, release="category")),
    (hb.Schema.one_hot(3), hb.Protocol(1 / 3 - 1e-10, release="category")),
]


@pytest.mark.parametrize(("schema", "protocol"), PURE)
def test_s8_pure_claims_are_verified_exactly(schema: hb.Schema, protocol: hb.Protocol) -> None:
    """A pure plan holds at the exact ε = ln (p/q)^(kh), and nothing below it passes, by however little."""
    plan = hb.plan_from(schema, 100, protocol, delta=0.0)
    claim = plan.guarantee
    power = 1 if protocol.sends_category else protocol.k * schema.distance
    with mp.workdps(60):
        q = mp.mpf(protocol.q)
        truth = 1 - (schema.width - 1) * q if protocol.sends_category else 1 - q
        exact = power * mp.log(truth / q)
        above = float(exact)
        while mp.mpf(above) < exact:
            above = math.nextafter(above, math.inf)
        below = math.nextafter(above, 0.0)
        assert mp.mpf(below) < exact <= mp.mpf(above) <= mp.mpf(claim.epsilon)
    verify(plan)
    verify(replace(plan, guarantee=replace(claim, epsilon=above)))
    for epsilon in (below, above * (1 - 9e-10), 0.999 * above):
        with pytest.raises(hb.FalseClaim):
            verify(replace(plan, guarantee=replace(claim, epsilon=epsilon)))
    for name in ("collusion_epsilon", "count_epsilon"):
        value = getattr(claim.assumptions, name)
        if value > 0:
            forged = replace(claim.assumptions, **{name: value * (1 - 9e-10)})
            with pytest.raises(hb.FalseClaim):
                verify(replace(plan, guarantee=replace(claim, assumptions=forged)))


LONG = {"flip among Poisson fakes", "copies among fakes", "fake and flip"}
"""Points whose whole records of several bits take seconds to certify."""


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=pytest.mark.slow) if name in LONG and kind != "one_hot" else (kind, name)
        for kind, name in POINTS
    ],
)
@pytest.mark.parametrize("solved", ["epsilon", "delta"])
def test_s8_claims_are_verified_without_tolerance(kind: str, name: str, solved: str) -> None:
    """The verifier accepts exactly what its own certificate proves; the margin of an account lies above that."""
    made = plan_of(kind, name)
    delta, epsilon = (1e-6, None) if solved == "epsilon" else (None, 1.0)
    plan = hb.plan_from(made.schema, made.n, made.protocol, epsilon=epsilon, delta=delta)
    claim = plan.guarantee
    if math.isinf(claim.epsilon) or claim.delta in (0.0, 1.0):
        return
    verify(plan)
    verify(replace(plan, guarantee=replace(claim, epsilon=claim.epsilon * 1.5, delta=min(1.0, claim.delta * 2))))
    if solved == "delta":
        analysis = curve(made.protocol, made.schema, made.n)
        if any(one.decide for one in analysis.options):
            return  # branch and bound decides more sharply than its curve, and may prove a little more
        for forged in (claim.delta * (1 - 1e-7), claim.delta * 0.999):
            with pytest.raises(hb.FalseClaim):
                verify(replace(plan, guarantee=replace(claim, delta=forged)))


def test_more_assumptions_than_needed_are_legal_and_fewer_are_not() -> None:
    """A local guarantee may ask for a shuffler; one by shuffling may not do without it, or with fewer users."""
    schema, protocol = hb.Schema.bits(1), hb.Protocol(0.1)
    pure = hb.plan_from(schema, 1000, protocol, delta=0.0)
    more = replace(pure.guarantee.assumptions, honest=700, shuffler=True, fakes=True)
    verify(replace(pure, guarantee=replace(pure.guarantee, assumptions=more)))
    shuffled = hb.plan_from(schema, 1000, protocol, delta=1e-6)
    for change in ({"honest": 999}, {"honest": 1}, {"honest": 1001}, {"shuffler": False}, {"view": "nothing"}):
        fewer = replace(shuffled.guarantee.assumptions, **change)
        with pytest.raises(hb.FalseClaim):
            verify(replace(shuffled, guarantee=replace(shuffled.guarantee, assumptions=fewer)))


@pytest.mark.long
def test_s7_a_contract_is_verified_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification evaluates the certificate once at each claimed point, and searches for no ε and no attack."""
    plan = hb.plan_from(hb.Schema.bits(3), 1000, hb.Protocol(0.2), delta=1e-6)
    calls: list[float] = []
    module = importlib.import_module(
        "hubbub.accountant.theorems.records.exchange"
    )  # the package has a function so named
    blanket = module.blanket

    def counted(schema: hb.Schema, q: float, n: int, epsilon: float) -> float:
        calls.append(epsilon)
        return float(blanket(schema, q, n, epsilon))

    monkeypatch.setattr(module, "blanket", counted)
    monkeypatch.setattr(attacks, "attack", None)
    verify(plan)
    claimed = {plan.guarantee.epsilon} | {epsilon for epsilon, _ in plan.curve.points}
    assert len(calls) == len(set(calls))
    assert set(calls) <= claimed
    assert plan.guarantee.epsilon in calls


@pytest.mark.long
def test_false_precision_is_found() -> None:
    with pytest.raises(hb.FalseClaim, match="standard error"):
        verify(replace(PLAN, stderr=PLAN.stderr * 0.99))


@pytest.mark.long
def test_modest_claims_are_accepted() -> None:
    modest = replace(PLAN, guarantee=replace(PLAN.guarantee, delta=min(1.0, PLAN.guarantee.delta * 2)))
    assert verify(modest) == modest


@pytest.mark.parametrize("trust", TRUST_MODELS)
@pytest.mark.parametrize(
    "schema", [hb.Schema.one_hot(10), hb.Schema.bits(1), hb.Schema.bits(6), hb.Schema.at_most(2, 8)]
)
def test_the_chosen_plan_meets_the_budget(schema: hb.Schema, trust: TrustModel) -> None:
    budget = hb.Budget(1.0, 1e-6)
    chosen = hb.plan(schema, 5000, budget, trust=trust)
    assert verify(chosen).guarantee.meets(budget)
    assert chosen.guarantee.assumptions.trust == trust
    flip = hb.calibrate(schema, 5000, budget, trust=trust).protocol
    assert chosen.stderr <= hb.plan_from(schema, 5000, flip, epsilon=1.0).stderr
    single = hb.plan(schema, 5000, budget, joint=True, max_messages=1, trust=trust)
    assert single.payload_messages == 1
    assert single.protocol.sends_records


@pytest.mark.long
def test_the_shufflers_fakes_reach_the_central_error() -> None:
    schema, budget = hb.Schema.one_hot(100), hb.Budget(1.0, 1e-6)
    assert hb.plan(schema, 100_000, budget, trust="shuffler-noise").stderr < 2.85
    users = hb.plan(schema, 100_000, budget, clear=True)
    assert users.stderr < 6.6
    assert users.payload_messages < 1.1
    assert hb.plan(schema, 100_000, budget).stderr < 7.2


def test_infeasible_budgets_say_why() -> None:
    with pytest.raises(hb.Infeasible, match=r"^no protocol meets Budget"):
        hb.plan(hb.Schema.bits(3), 2, hb.Budget(0.0, 0.0))


def test_copies_do_not_hide_among_the_shufflers_fakes() -> None:
    with pytest.raises(hb.InvalidInput, match="k must be 1 if the shuffler draws the fakes"):
        hb.plan_from(hb.Schema.one_hot(3), 10, hb.Protocol(0.1, 2, hb.Fakes.laplace(2.0, 25)), epsilon=1.0)


VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(-(2.0**53), 2.0**53)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcxyz", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_canonical_json_round_trips(value: Json) -> None:
    text = canonical(value)
    assert parse(text, "a value") == value
    assert canonical(parse(text, "a value")) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e21, "1e+21"), (1e20, "100000000000000000000"), (1e-6, "0.000001"), (1e-7, "1e-7"), (0.1, "0.1"),
        (-0.0, "0"), (5e-324, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"), (123.456, "123.456"),
        (333333333.33333329, "333333333.3333333"), (4.5, "4.5"), (2e-3, "0.002"), (-1.5e300, "-1.5e+300"),
    ],
)  # fmt: skip
def test_numbers_as_in_rfc_8785(value: float, text: str) -> None:
    assert canonical(value).decode() == text


def test_consistent_counts_have_less_error() -> None:
    schema = hb.Schema.one_hot(40)
    plan = hb.plan_from(schema, 500, hb.Protocol(0.2), epsilon=5.0)
    people = hb.Collection.from_values(np.arange(500) % 4, schema)
    truth = np.r_[np.full(4, 125), np.zeros(36)]
    raw = fair = 0.0
    for _ in range(50):
        found = hb.estimate(hb.tally(hb.randomize(people, plan)), plan).question
        raw += float(((found.values - truth) ** 2).sum())
        fair += float(((found.consistent().values - truth) ** 2).sum())
    assert fair < raw / 3
    assert "biases" in found.consistent().remark


def test_detection() -> None:
    """Absent labels are flagged in 5 % of collections at most, and one at the limit in 95 %."""
    schema = hb.Schema.one_hot(20)
    plan = hb.plan_from(schema, 2000, hb.Protocol(0.05), epsilon=5.0)
    limit = (
        int(hb.estimate(hb.tally(hb.randomize(collection(schema, 2000), plan)), plan).question.detection_limit[0]) + 1
    )
    people = hb.Collection.from_values(np.r_[np.full(limit, 7), np.zeros(2000 - limit, np.int64)], schema)
    flags = np.array([hb.estimate(hb.tally(hb.randomize(people, plan)), plan).question.detectable for _ in range(400)])
    assert flags[:, 7].mean() > 0.9
    absent = np.delete(flags, [0, 7], axis=1)
    assert absent.any(axis=1).mean() < 0.1


@pytest.mark.parametrize("depth", [900, 990, 100_000])
def test_deep_nesting_is_rejected(depth: int) -> None:
    """JSON that can just be read may be too deep to be written again."""
    with pytest.raises(hb.WireError):
        canonical(parse("[" * depth + "]" * depth, "a value"))
