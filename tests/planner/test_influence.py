"""The votes of one device: the formula is what a malicious client attains in the pipeline, and a limit holds."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hubbub as hb
from hubbub.errors import FalseClaim, Infeasible
from hubbub.model.questions import Question
from hubbub.pipeline.reports import message_type
from hubbub.planner import Request, Search, client_weight, cost, influence, question_weights
from hubbub.planner.influence import client_messages
from hubbub.planner.search import protecting
from hubbub.report import plan_text
from hubbub.report.plan_report import plan_report

N, BUDGET = 200, hb.Budget(1.0, 1e-6)
ONE = hb.Schema.one_hot(4)
MANY = hb.Schema.bits(5)
SURVEY = hb.Schema.survey({"colour": hb.Choice(list("abcd")), "dark": hb.Flag()})
LAPLACE = hb.Fakes.laplace(2.0, 25)
PLANS: dict[str, tuple[hb.Schema, hb.Protocol]] = {
    "flipped records": (ONE, hb.Protocol(0.2)),
    "copies": (ONE, hb.Protocol(0.2, k=3)),
    "split bits": (ONE, hb.Protocol(0.2, release="bits")),
    "split bits of sets": (MANY, hb.Protocol(0.2, release="bits")),
    "split bits in copies": (MANY, hb.Protocol(0.2, 2, release="bits")),
    "randomized response": (ONE, hb.Protocol(0.1, release="category")),
    "fixed fakes": (ONE, hb.Protocol(0.1, m=2 * N)),
    "users' fakes, records": (ONE, hb.Protocol(0.1, m=hb.Fakes.binomial(6, 0.5))),
    "users' fakes, bits": (ONE, hb.Protocol(0.1, m=hb.Fakes.binomial(3, 0.5), release="bits")),
    "shuffler's fakes": (ONE, hb.Protocol(0.0, m=LAPLACE, release="bits")),
    "shuffler's fakes, records": (MANY, hb.Protocol(0.0, m=LAPLACE)),
    "flips and shuffler's fakes": (ONE, hb.Protocol(0.1, m=LAPLACE)),
    "survey, fakes": (SURVEY, hb.Protocol.survey([hb.Noise(m=LAPLACE)] * 2)),
    "survey, flips": (SURVEY, hb.Protocol.survey([hb.Noise(0.2), hb.Noise(0.1)])),
    "survey, response": (SURVEY, hb.Protocol.survey([hb.Noise(0.1), hb.Noise(0.2)], "category")),
    "survey, users' fakes": (SURVEY, hb.Protocol.survey([hb.Noise(m=hb.Fakes.binomial(4, 0.5))] * 2)),
}


def made(name: str) -> hb.Plan:
    schema, protocol = PLANS[name]
    return hb.plan_from(schema, N, protocol, delta=1e-6)


def by_users(plan: hb.Plan) -> bool:
    return any(noise.user_fakes for noise in plan.protocol.noise)


def malicious(plan: hb.Plan, label: int, count: int) -> Any:
    """Return messages that all show one label."""
    if plan.protocol.sends_records:
        rows = np.zeros((count, plan.payload), np.uint8)
        rows[:, label // 8] = 1 << label % 8
        return rows
    return np.full(count, label, message_type(plan))


def values(tally: hb.Tally, plan: hb.Plan) -> Any:
    if not plan.schema.named:
        return hb.estimate(tally, plan).question.values
    return np.concatenate([one.values for one in hb.estimate(tally, plan).counts])


def attained(plan: hb.Plan, label: int, sent: int) -> float:
    """Return by how much the expected estimate grows with one client that sends these messages.

    Estimates are linear in the messages, so that one collection tells: the counts of the others cancel.
    """
    crowd = np.random.default_rng(1).integers(0, 3, plan.schema.width) + 60
    n, extra = N + 50, malicious(plan, label, sent)
    fixed = plan.protocol.fixed_fakes // plan.n
    own = plan.protocol.own_messages + fixed
    before = {"fakes": n * fixed, "messages": 12 * n if by_users(plan) else own * n}
    shown = np.zeros(plan.schema.width, np.int64)
    shown[label] = len(extra)

    def tally(people: int, counts: Any, messages: int, fakes: int) -> hb.Tally:
        about: dict[str, Any] = {"plan": plan.id, "n": people, "batches": 1, "smallest_batch": people}
        return hb.Tally(**about, messages=messages, fakes=fakes, counts=counts.astype(np.int64))

    one = values(tally(n, crowd, before["messages"], before["fakes"]), plan)
    two = values(tally(n + 1, crowd + shown, before["messages"] + sent, before["fakes"] + fixed), plan)
    return float(two[label] - one[label])


@pytest.mark.parametrize("name", PLANS)
def test_the_weight_is_what_a_malicious_client_attains(name: str) -> None:
    plan = made(name)
    most = client_messages(plan)
    assert math.isfinite(most)
    fixed = plan.protocol.sends_category or (plan.protocol.sends_records and not by_users(plan))
    numbers = (
        [int(most)] if fixed else [number for number in range(int(most) + 1) if number >= plan.protocol.own_messages]
    )
    found = {label: max(attained(plan, label, number) for number in numbers) for label in range(plan.schema.width)}
    if not plan.schema.named:
        assert max(found.values()) == pytest.approx(client_weight(plan), rel=1e-9)
        return
    weights = question_weights(plan)
    for attribute in plan.schema.attributes:
        best = max(found[label] for label in range(attribute.start, attribute.stop))
        assert best == pytest.approx(weights[attribute.question], rel=1e-9)
    assert client_weight(plan) == max(weights.values())


@pytest.mark.parametrize("name", ["split bits", "randomized response", "shuffler's fakes", "copies"])
def test_a_simulated_client_has_this_weight(name: str) -> None:
    """The whole pipeline: with 40 malicious clients the estimate moves by 40 times the weight."""
    plan, malicious_clients = made(name), 40
    people = hb.randomize(hb.Collection.from_values(["0"] * N, ONE), plan)
    sent = malicious(plan, 1, malicious_clients * int(client_messages(plan)))
    batch = hb.Reports(plan, np.concatenate([people.messages, sent]), N + malicious_clients)
    found = hb.estimate(hb.tally(hb.shuffle(batch)), plan).question
    assert found.values[1] == pytest.approx(malicious_clients * client_weight(plan), abs=6 * found.stderr[1] + 1e-9)


def test_an_honest_device_counts_for_one() -> None:
    for name in ("flipped records", "split bits", "randomized response"):
        plan = made(name)
        q, d = plan.protocol.q, plan.schema.width
        category = plan.protocol.sends_category
        shown = 1 - (d - 1) * q if category else 1 - q
        # The (d − 1)q messages that flips give an honest device with other labels are in the mean of a known total.
        others = 0 if category else (d - 1) * q / (1 - 2 * q) / d
        assert hb.planner.influence.votes(plan.protocol, plan.schema, shown) - others == pytest.approx(1.0)


def test_the_default_plan_of_a_hundred_labels_gives_a_device_many_votes() -> None:
    plan = hb.plan(hb.Schema.one_hot(100), 1000, epsilon=1.0, delta=1e-6)
    sent, q = hb.cost(plan).messages, plan.protocol.q
    assert sent is not None
    assert client_weight(plan) == pytest.approx(0.99 * sent / (1 - 2 * q) + 0.01)
    assert client_weight(plan) > 20
    assert f"sends up to {sent} messages and counts for up to {client_weight(plan):.3g} people" in plan_text(plan)
    assert "counts for up to" in str(plan_report(plan))


def test_the_planner_keeps_a_limit() -> None:
    schema = hb.Schema.one_hot(100)
    free = hb.plan(schema, 10_000, BUDGET)
    assert client_weight(free) > 10
    limited = hb.plan(schema, 10_000, BUDGET, max_client_weight=1.5)
    assert client_weight(limited) <= 1.5
    assert limited.stderr > free.stderr
    drawn = hb.plan(schema, 10_000, BUDGET, trust="shuffler-noise", max_client_weight=1)
    assert client_weight(drawn) == 1
    with pytest.raises(Infeasible, match="relax max_client_weight"):
        hb.plan(schema, 10_000, BUDGET, max_client_weight=1)
    found = Search.of(Request.of(schema, 10_000, BUDGET, max_client_weight=2.0))
    assert "raise max_client_weight to that" in found.failures["split"]
    with pytest.raises(FalseClaim, match="one device counts for"):
        protecting(Request.of(schema, 10_000, BUDGET, max_client_weight=2.0), free)


def test_a_question_has_the_weight_of_its_cross_tables() -> None:
    """Its counts are combined with those of the tables, in which one message moves more."""
    questions: dict[str, Question] = {
        "a": hb.Choice(list("xyz")),
        "b": hb.Flag(),
        "c": hb.Cross("a", "b"),
        "d": hb.Flag(),
    }
    noise = hb.Protocol.survey([hb.Noise(m=LAPLACE)] * 4)
    weights = question_weights(hb.plan_from(hb.Schema.survey(questions), N, noise, delta=1e-6))
    assert weights["a"] == weights["b"] == weights["c"] > weights["d"]


def test_a_client_that_nothing_limits_counts_for_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = hb.plan_from(ONE, N, hb.Protocol(0.1, m=hb.Fakes.poisson(2.0)), delta=1e-6)
    monkeypatch.setattr(influence, "cost", lambda one: replace(cost(one), messages=None, bytes=None))
    assert client_messages(plan) == client_weight(plan) == math.inf


def test_a_user_with_one_fake_more_than_others_counts() -> None:
    assert client_messages(hb.plan_from(ONE, 200, hb.Protocol(0.1, m=250), delta=1e-6)) == 3
