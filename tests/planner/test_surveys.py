"""Plans of surveys: errors, trust, layouts, constraints, several rounds, and the number of people."""

import json
import math
import time
from typing import Any

import pytest

import hubbub as hb
from hubbub.accountant.device_ledger import DeviceLedger
from hubbub.accountant.theorems import surveys as theorem
from hubbub.model.privacy import TrustModel
from hubbub.model.protocol import Noise
from hubbub.planner import Goal, Search, coverage, family_key, relative_error
from hubbub.planner.columns import plan_error
from hubbub.planner.precision import question_noise
from hubbub.planner.request import Request

BUDGET = hb.Budget(1.0, 1e-6)
N = 100_000
FLAGS = hb.Schema.survey({"a": hb.Flag(), "b": hb.Flag()})
TEN = hb.Schema.survey({f"question {i}": hb.Choice(list("abcde")) for i in range(10)})
FORTY = hb.Schema.survey({f"flag {i}": hb.Flag() for i in range(40)})
MIXED = hb.Schema.survey(
    {
        "colour": hb.Choice(["red", "green", "blue"]),
        "dark mode": hb.Flag(missing=True),
        "load time": hb.Scale(0, 4096, buckets=64, missing=True),
        "memory": hb.Number(0, 65_536, missing=True),
        "colour × dark mode": hb.Cross("colour", "dark mode"),
    }
)


def scale(buckets: int) -> hb.Schema:
    return hb.Schema.survey({"x": hb.Scale(0, buckets, buckets=buckets)})


def number(digits: list[int]) -> hb.Schema:
    return hb.Schema.survey({"x": hb.Number(0, 1, digits=digits)})


def noise_error(plan: hb.Plan) -> float:
    """Return the error of the first question without the rounding of numbers."""
    first = hb.question_errors(plan)[0]
    question = plan.schema.questions[first.question]
    rounding = plan.n / 4 / (question.levels - 1) ** 2 if isinstance(question, hb.Number) else 0.0
    return math.sqrt(first.people**2 - rounding)


@pytest.mark.parametrize(
    ("schema", "messages", "limit"),
    [
        (number([4] * 4), 4, 3.27),
        (scale(64), 2, 8.7),
        (scale(256), 2, 12.8),
        (scale(1024), 3, 18.3),
        (TEN, 10, 16.95),
        (FORTY, 40, 26.8),
    ],
)
def test_errors_with_the_shufflers_noise(schema: hb.Schema, messages: int, limit: float) -> None:
    """Every user sends exactly one message for each attribute."""
    start = time.process_time()
    plan = hb.plan(schema, N, BUDGET, trust="shuffler-noise")
    assert time.process_time() - start < 2.0
    assert noise_error(plan) <= limit
    assert plan.guarantee.meets(BUDGET)
    assert plan.guarantee.basis is hb.Basis.EXACT
    assert family_key(plan) == "clear-shuffler-fakes"
    assert hb.cost(plan).messages == messages == len(plan.schema.attributes)


@pytest.mark.parametrize(("schema", "messages", "limit"), [(number([2] * 8), 8, 4.85), (FORTY, 40, 27.16)])
def test_errors_at_a_fixed_number_of_messages_with_users_noise(schema: hb.Schema, messages: int, limit: float) -> None:
    start = time.process_time()
    plan = hb.plan(schema, N, BUDGET, max_messages=messages)
    assert time.process_time() - start < 6.0  # a second or less on a quiet core
    assert noise_error(plan) <= limit
    assert plan.guarantee.meets(BUDGET)
    assert family_key(plan) == "response"
    assert hb.cost(plan).messages == messages


def test_errors_of_users_fakes_and_split_bits() -> None:
    clear = hb.plan(TEN, N, BUDGET, clear=True)
    assert family_key(clear) == "clear-user-fakes"
    assert noise_error(clear) <= 16.95
    flipped = hb.plan(TEN, N, BUDGET)
    assert family_key(flipped) == "split"
    assert noise_error(flipped) <= 17.31


@pytest.mark.parametrize("n", [1_000, 10_000_000])
def test_errors_with_the_shufflers_noise_do_not_depend_on_n(n: int) -> None:
    assert noise_error(hb.plan(TEN, n, BUDGET, trust="shuffler-noise")) <= 16.95


@pytest.mark.parametrize("n", [1_000, 10_000_000])
def test_errors_with_users_noise_hardly_depend_on_n(n: int) -> None:
    assert noise_error(hb.plan(FORTY, n, BUDGET, max_messages=40)) == pytest.approx(27.14, rel=2e-3)


def test_two_answers_never_crowd_each_other_out() -> None:
    """The lowest digit of a number is flipped with probability 0.39 among a thousand people."""
    plan = hb.plan(number([2] * 8), 1_000, BUDGET, max_messages=8)
    assert family_key(plan) == "response"
    assert max(one.q for one in plan.protocol.noise) > 0.35
    assert noise_error(plan) <= 4.85


@pytest.mark.parametrize(
    ("trust", "families"),
    [
        ("nobody", {"local-response"}),
        ("shuffling", {"local-response", "response", "split"}),
        ("shuffler-noise", {"local-response", "response", "split", "clear-user-fakes", "clear-shuffler-fakes"}),
    ],
)
def test_families_of_each_trust(trust: TrustModel, families: set[str]) -> None:
    assert Search.of(Request.of(FLAGS, N, BUDGET, trust=trust)).plans.keys() == families


@pytest.mark.long
def test_mixed_surveys_have_plans_for_every_trust() -> None:
    errors = []
    for trust in ("shuffler-noise", "shuffling", "nobody"):
        plan = hb.plan(MIXED, N, BUDGET, trust=trust)
        assert plan.guarantee.meets(BUDGET)
        assert hb.load_plan(plan.to_json()) == plan
        errors.append(plan.stderr)
    assert errors[0] < errors[1] < errors[2] / 100


def test_loaded_plans_are_recomputed() -> None:
    """A plan that claims less noise than its guarantee needs is refused, whichever attribute has it."""
    plan = hb.plan(FLAGS, N, BUDGET, trust="shuffler-noise")
    document = json.loads(plan.to_json())
    for changed in document["protocol"]["noise"]:
        kept = dict(changed)
        changed["m"] = {**changed["m"], "scale": changed["m"]["scale"] * 0.9}
        with pytest.raises(hb.HubbubError):
            hb.load_plan(json.dumps(document))
        changed.update(kept)
    assert hb.load_plan(json.dumps(document)).n == N


def test_weights_move_the_noise_by_the_closed_forms() -> None:
    """Gaussian: s² ∝ W^(−1/2); Laplace: b ∝ W^(−1/3)."""
    weights = {"flag 0": 16.0}
    plan = hb.plan(FORTY, N, BUDGET, trust="shuffler-noise", weights=weights)
    first, second = (one.shuffler_fakes for one in plan.protocol.noise[:2])
    assert first is not None
    assert second is not None
    assert first.distribution == "gaussian"
    assert second.scale**2 / first.scale**2 == pytest.approx(4.0, rel=1e-3)
    plan = hb.plan(FLAGS, N, BUDGET, trust="shuffler-noise", weights={"a": 8.0})
    one, other = (each.shuffler_fakes for each in plan.protocol.noise)
    assert one is not None
    assert other is not None
    assert one.distribution == "laplace"
    assert other.scale / one.scale == pytest.approx(2.0, rel=1e-3)


def test_families_compare_by_the_weighted_worst_case() -> None:
    """Randomized response among five answers is worst for an answer that everybody gives."""
    request = Request.of(TEN, N, BUDGET, max_messages=10.0)
    plan = Search.of(request).best
    q = plan.protocol.noise[0].q
    worst = math.sqrt(N * 4 * q * (1 - 4 * q)) / (1 - 5 * q)
    assert plan_error(request, plan) == pytest.approx(worst, rel=1e-6)
    one = hb.Schema.survey({"rare": hb.Flag(), "common": hb.Flag()})
    weighted = Request.of(one, N, BUDGET, trust="shuffler-noise", weights={"rare": 100.0})
    best = Search.of(weighted, prune=True).best
    assert plan_error(weighted, best) < 0.6 * best.stderr


def test_max_messages_chooses_layouts_with_fewer_attributes() -> None:
    schema = hb.Schema.survey({"load time": hb.Scale(0, 4096, buckets=256), "memory": hb.Number(0, 65_536)})
    free = hb.plan(schema, N, BUDGET, trust="shuffler-noise")
    few = hb.plan(schema, N, BUDGET, trust="shuffler-noise", max_messages=3)
    assert len(few.schema.attributes) <= 3 < len(free.schema.attributes)
    assert free.stderr < few.stderr


def test_honest_fraction_raises_users_noise_only() -> None:
    half, whole = (hb.plan(FLAGS, N, BUDGET, honest_fraction=share).stderr for share in (0.5, 1.0))
    assert half == pytest.approx(math.sqrt(2) * whole, rel=0.01)
    shuffler = {hb.plan(FLAGS, N, BUDGET, trust="shuffler-noise", honest_fraction=share).stderr for share in (0.5, 1.0)}
    assert len(shuffler) == 1


@pytest.mark.parametrize("limit", [3.0, 6.0])
def test_collusion_is_shared_by_all_attributes(limit: float) -> None:
    """Limits on one category are those of randomized response, not of two split bits."""
    plan = hb.plan(FLAGS, 10_000, BUDGET, max_collusion_epsilon=limit)
    assert 0.99 * limit < plan.guarantee.assumptions.collusion_epsilon <= limit
    assert family_key(plan) == "response"


def test_collusion_limits_may_leave_no_information() -> None:
    plan = hb.plan(MIXED, N, BUDGET, max_collusion_epsilon=20.0)
    assert plan.guarantee.assumptions.collusion_epsilon <= 20.0


def test_flip_probabilities_meet_a_policy() -> None:
    plan = hb.plan(TEN, N, BUDGET, min_q=0.05, max_messages=10)
    assert min(one.q for one in plan.protocol.noise) * 4 >= 0.05


@pytest.mark.parametrize(
    ("constraints", "reason"),
    [
        ({"max_messages": 1}, "max_messages"),
        ({"max_messages": 39}, "40 messages per user"),
        ({"joint": True}, "joint"),
    ],
)
def test_infeasible_requests_say_why(constraints: dict[str, Any], reason: str) -> None:
    with pytest.raises(hb.Infeasible, match=reason):
        hb.plan(FORTY, N, BUDGET, **constraints)


def test_weekly_rounds_share_the_budget() -> None:
    plan = hb.plan(FLAGS, N, BUDGET, trust="shuffler-noise", rounds=52)
    assert plan.rounds == 52
    assert 0.97 < plan.total.epsilon <= 1.0
    assert plan.total.delta == 1e-6
    ledger = hb.Ledger()
    for week in range(52):
        ledger = ledger.charge(plan, collection=f"week {week}")
    assert ledger.epsilon(1e-6) == pytest.approx(plan.total.epsilon, rel=1e-6)
    assert ledger.remaining(plan, hb.Budget(1.2, 1e-6)) > 0
    assert ledger.remaining(plan, BUDGET) == 0
    assert hb.load_plan(plan.to_json()).total == plan.total


def test_devices_charge_surveys() -> None:
    """A device refuses the round that would exceed its budget, from the points of the plan alone."""
    plan = hb.plan(FLAGS, N, BUDGET, trust="shuffler-noise", rounds=52)
    points = hb.Charge(name="survey", rounds=52, curve=plan.curve)
    total = DeviceLedger(hb.Budget(2.0, 1e-6), (points,)).total(1e-6).epsilon
    assert plan.total.epsilon * 0.999 <= total <= 1.03 * plan.total.epsilon


def test_any_protocol_of_a_survey_has_an_account() -> None:
    """Attributes of one survey may differ in their fakes, but an attribute is either flipped or among fakes."""
    schema = hb.Schema.survey({"a": hb.Flag(), "b": hb.Choice(list("xyz")), "c": hb.Flag()})
    noise = [Noise(m=hb.Fakes.laplace(8.0, 100)), Noise(m=hb.Fakes.binomial(1, 0.05)), Noise(0.01)]
    for protocol in (
        hb.Protocol.survey(noise),
        hb.Protocol.survey([Noise(0.01), Noise(0.02), Noise(0.03)], "category"),
    ):
        found = hb.account(protocol, schema, N, epsilon=1.0)
        assert 0.0 < found.delta < 1e-3
        assert found.basis is hb.Basis.PROVEN


def test_a_coarse_cover_of_a_small_share_stays_a_bound() -> None:
    """The precision of an attribute is reduced with its share of the loss; the result stays above the attack."""
    parts = tuple(theorem.Answers(2, Noise(0.0507 / 2**j)) for j in range(8))
    certified, attacked = theorem.cover(parts, "category", N), theorem.attack(parts, "category", N)
    assert attacked is not None
    for epsilon in (0.3, 1.0, 2.0):
        assert attacked.delta(epsilon) <= certified.delta(epsilon)
    assert certified.epsilon(1e-6) < 1.012 * attacked.epsilon(1e-6)


def test_number_of_people() -> None:
    """The golden values: 1 % within 5 %, and 10 % within 1 %."""
    goal = Goal(0.01, 0.05)
    assert goal.people(2.799178) == pytest.approx(152_909.15, abs=0.01)
    assert goal.sample_size / goal.people(2.799178) == pytest.approx(0.9949, abs=1e-4)
    told = goal.explained(2.799178)
    assert "99.5% of the squared error is sampling, and the noise alone would need 10,973 people" in told
    assert Goal(0.1, 0.01).people(2.799178) == pytest.approx(345_818.33, abs=0.01)


def test_number_of_people_for_a_question() -> None:
    schema = hb.Schema.survey({"colour": hb.Choice(list("abc")), "memory": hb.Number(0, 1)})
    plan = hb.solve(schema, epsilon=1.0, delta=1e-6, share=0.01, within=0.05, trust="shuffler-noise")
    goal = Goal(0.01, 0.05)
    needed = goal.people(question_noise(plan, "colour"))
    assert plan.n == pytest.approx(needed, rel=0.01)
    assert relative_error(plan, 0.01) <= 0.05
    assert coverage(plan, 0.01, within=0.05) >= 0.95
    assert goal.sample_size / needed > 0.9
    with pytest.raises(hb.InvalidInput, match="not a number: colour"):
        question_noise(plan, "memory")
    with pytest.raises(hb.InvalidInput, match="survey"):
        question_noise(hb.plan(hb.Schema.bits(1), 1000, BUDGET), "colour")
    with pytest.raises(hb.InvalidInput, match="other than numbers"):
        relative_error(hb.plan(number([4, 4]), 1000, BUDGET, trust="shuffler-noise"), 0.01)


def test_without_delta_the_noise_is_local() -> None:
    schema = hb.Schema.survey({"a": hb.Flag(), "b": hb.Choice(list("vwxyz"))})
    plan = hb.plan(schema, 1000, hb.Budget(1.0, 0.0), trust="nobody")
    assert plan.guarantee.epsilon <= 1
    assert plan.guarantee.delta == 0
