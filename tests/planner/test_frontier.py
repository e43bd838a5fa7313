"""Plans of the frontier meet their budgets and constraints, are ranked by error, and reach the documented errors."""

import math
from typing import Any

import pytest

from hubbub.accountant import Ledger
from hubbub.errors import Infeasible, InvalidInput
from hubbub.model.privacy import TRUST_MODELS, Budget, TrustModel
from hubbub.model.schema import Schema
from hubbub.planner import (
    central_stderr,
    cost,
    family_key,
    frontier,
    plan,
    solve,
    under_attack,
    verify,
)
from hubbub.planner.search import FEWER_HONEST

BUDGET = Budget(1.0, 1e-6)
FIVE = [
    (Schema.one_hot(100), 10**5, 9),
    (Schema.one_hot(50_000), 10**7, 9),
    (Schema.bits(13), 10**7, 8),
    pytest.param(Schema.bits(40), 10**7, 6, marks=pytest.mark.slow),
    (Schema.bits(1), 10**3, 4),
]


@pytest.mark.long
@pytest.mark.parametrize(("schema", "n", "kinds"), FIVE, ids=str)
def test_five_requests(schema: Schema, n: int, kinds: int) -> None:
    plans = frontier(schema, n, BUDGET)
    assert len(plans) == len({family_key(one) for one in plans}) == kinds
    assert all(one.guarantee.meets(BUDGET) for one in plans)
    groups = [(TRUST_MODELS.index(one.guarantee.assumptions.trust), one.protocol.clear) for one in plans]
    assert groups == sorted(groups)
    assert {trust for trust, _ in groups} == {0, 1, 2}
    for group in set(groups):
        errors = [one.stderr for one, other in zip(plans, groups, strict=True) if other == group]
        assert errors == sorted(errors)
    # No plan beats a trusted curator, and every shuffled plan beats the local ones.
    assert min(one.stderr for one in plans) > 0.999 * central_stderr(schema, BUDGET)
    local, shuffled = (
        [one.stderr for one in plans if one.guarantee.assumptions.shuffler is on] for on in (False, True)
    )
    assert max(shuffled) < min(local)
    assert len(local) == 1 + schema.exclusive


def test_near_the_central_error_where_the_shuffler_adds_fakes() -> None:
    chosen = plan(Schema.one_hot(100), 10**5, BUDGET, max_messages=1.1, trust="shuffler-noise")
    assert chosen.stderr <= 2.85
    assert chosen.stderr / central_stderr(chosen.schema, BUDGET) < 1.001
    assert family_key(chosen) == "clear-shuffler-fakes"


def test_the_error_where_only_users_add_noise() -> None:
    chosen = plan(Schema.one_hot(100), 10**5, BUDGET, clear=True)
    assert chosen.stderr <= 6.6
    assert chosen.payload_messages <= 1.1
    assert cost(chosen).messages == 2
    assert chosen.protocol.user_fakes


SMALL = [
    pytest.param(Schema.one_hot(5), 3000, BUDGET, {}, marks=pytest.mark.long),
    (Schema.one_hot(5), 3000, BUDGET, {"trust": "shuffler-noise"}),
    (Schema.one_hot(5), 3000, BUDGET, {"clear": True}),
    pytest.param(Schema.one_hot(5), 3000, BUDGET, {"max_collusion_epsilon": 4.0}, marks=pytest.mark.long),
    (Schema.one_hot(5), 3000, BUDGET, {"trust": "nobody"}),
    (Schema.one_hot(30), 10**4, Budget(0.3, 1e-8), {"max_messages": 1.0}),
    pytest.param(Schema.bits(6), 10**5, Budget(2.0, 1e-5), {"joint": True, "clear": True}, marks=pytest.mark.slow),
    pytest.param(Schema.bits(2), 10**5, Budget(2.0, 1e-5), {"joint": True, "clear": True}, marks=pytest.mark.long),
    pytest.param(Schema.one_hot(4), 10**4, BUDGET, {"min_q": 0.05, "trust": "shuffler-noise"}, marks=pytest.mark.long),
    pytest.param(Schema.bits(6), 10**4, BUDGET, {"min_q": 0.05, "trust": "shuffler-noise"}, marks=pytest.mark.slow),
    pytest.param(Schema.at_most(2, 20), 10**4, BUDGET, {"max_bytes": 300.0}, marks=pytest.mark.long),
    (Schema.one_hot(3), 10, BUDGET, {"honest_fraction": 0.5}),
    (Schema.one_hot(12), 500, Budget(1.0, 0.0), {}),
    pytest.param(Schema.bits(3), 7799, Budget(8.0, 1e-6), {"honest_fraction": 0.7}, marks=pytest.mark.slow),
    (Schema.bits(1), 7799, Budget(8.0, 1e-6), {"honest_fraction": 0.7}),
    (Schema.at_most(1, 1), 29, Budget(8.0, 1e-6), {}),
    pytest.param(Schema.at_most(2, 5), 22, Budget(8.0, 1e-6), {}, marks=pytest.mark.long),
    (Schema.bits(1), 50, Budget(0.0, 1e-2), {}),
]


@pytest.mark.parametrize(("schema", "n", "budget", "limits"), SMALL, ids=str)
def test_the_plan_is_the_best_of_the_frontier(schema: Schema, n: int, budget: Budget, limits: dict[str, Any]) -> None:
    """Pruning loses nothing, constraints hold, and every claim recomputes."""
    if budget.epsilon == 0:
        with pytest.raises(Infeasible):
            plan(schema, n, Budget(0.0, 0.0), **limits)
    plans = frontier(schema, n, budget, **{"trust": "shuffling", **limits})
    chosen = plan(schema, n, budget, **limits)
    least = min(one.stderr for one in plans)
    close = [one for one in plans if one.stderr <= FEWER_HONEST * least]
    assert chosen == min(close, key=lambda one: (one.guarantee.assumptions.honest, one.stderr, one.payload_messages))
    for one in plans:
        assert verify(one) is one
        assert one.guarantee.meets(budget)
        if "max_messages" in limits or "max_bytes" in limits:
            assert (cost(one).messages or math.inf) <= limits.get("max_messages", math.inf)
            assert (cost(one).bytes or math.inf) <= limits.get("max_bytes", math.inf)
        assert one.protocol.sends_records or not limits.get("joint")
        flip = one.protocol.q * (schema.width - 1 if one.protocol.sends_category else 1)
        assert flip >= limits.get("min_q", 0.0) * (1 - 1e-9)
        assert one.guarantee.assumptions.collusion_epsilon <= limits.get("max_collusion_epsilon", math.inf)
        assert limits.get("trust") == "shuffler-noise" or not one.protocol.shuffler_fakes


@pytest.mark.long
def test_honest_users_suffice() -> None:
    plans = frontier(Schema.one_hot(10), 20_000, BUDGET, honest_fraction=0.6)
    assert len(plans) >= 6
    for one in plans:
        assert under_attack(one, 0.6).epsilon <= 1 + 1e-4
    worse = [one for one in plans if under_attack(one, 0.3).epsilon > 1.05]
    assert {family_key(one) for one in worse} >= {"flip", "split", "clear-user-fakes"}


def test_a_range_is_planned_for_its_smallest_batch() -> None:
    schema = Schema.one_hot(10)
    assert frontier(schema, (5000, 10**6), BUDGET) == frontier(schema, 5000, BUDGET)
    assert plan(schema, (5000, 5000), BUDGET).n == 5000


SHARED = [
    (Schema.bits(1), "flip"),
    *(pytest.param(schema, "split", marks=pytest.mark.slow) for schema in (Schema.one_hot(20), Schema.bits(3))),
]


@pytest.mark.parametrize(("schema", "family"), SHARED, ids=str)
def test_rounds_share_the_budget(schema: Schema, family: str) -> None:
    n, rounds = 50_000, 6
    plans = frontier(schema, n, BUDGET, rounds=rounds)
    assert len(plans) >= (4 if schema.width == 1 else 6)
    for one in plans:
        trust = one.guarantee.assumptions.trust
        ledger = Ledger().charge_protocol(one.protocol, schema, n, rounds=rounds, trust=trust)
        assert 0.9 < ledger.epsilon(1e-6) <= 1.0
        assert ledger.delta(1.0) <= 1e-6
    # About √6 times the error of one round rather than six times, except for Laplace noise; less for rare flips.
    once = {family_key(one): one.stderr for one in frontier(schema, n, BUDGET)}
    often = {family_key(one): one.stderr for one in plans}
    assert (2.0 if family == "split" else 1.6) < often[family] / once[family] < 3.0


def test_pure_rounds_add_up() -> None:
    chosen = plan(Schema.bits(1), 1000, Budget(1.0, 0.0), rounds=4)
    assert chosen.guarantee.epsilon == 0.25
    assert chosen.guarantee.delta == 0.0


INVERSE: list[Any] = [
    (Schema.one_hot(8), "shuffler-noise"),
    (Schema.bits(1), "shuffling"),
    (Schema.bits(1), "nobody"),
    pytest.param(Schema.one_hot(8), "shuffling", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("schema", "trust"), INVERSE, ids=str)
def test_smallest_batch_is_minimal(schema: Schema, trust: TrustModel) -> None:
    precision = 0.002
    found = solve(schema, epsilon=1.0, delta=1e-6, precision=precision, trust=trust)
    assert found.guarantee.meets(BUDGET)
    assert found.stderr <= precision * found.n
    fewer = math.floor(found.n / 1.02)
    assert plan(schema, fewer, BUDGET, trust=trust).stderr > precision * fewer


@pytest.mark.parametrize(("schema", "trust"), INVERSE, ids=str)
def test_the_smallest_epsilon_is_minimal(schema: Schema, trust: TrustModel) -> None:
    n, stderr = 30_000, 12.0 if trust != "nobody" else 120.0
    found = solve(schema, n, delta=1e-6, stderr=stderr, trust=trust)
    epsilon = found.guarantee.epsilon
    assert found.stderr <= stderr
    assert plan(schema, n, Budget(epsilon / 1.01, 1e-6), trust=trust).stderr > stderr


def test_infeasible_searches_say_what_is_feasible() -> None:
    told = r"up to 10,000,000,000 people .* at n = 10,000,000,000 it is .* of n: raise precision"
    with pytest.raises(Infeasible, match=told):
        solve(Schema.bits(30), epsilon=0.01, delta=0.0, precision=1e-6)
    with pytest.raises(Infeasible, match=r"no ε up to 30 .* at ε = 30 it is .*: raise stderr"):
        solve(Schema.bits(1), 10, delta=1e-6, stderr=1.0, min_q=0.4)
    with pytest.raises(Infeasible, match=r"max_bytes = 157; the smallest upload .* 158 bytes"):
        solve(Schema.bits(9), epsilon=1.0, delta=0.0, precision=0.01, max_bytes=157)


def test_limits_that_leave_nothing() -> None:
    budget = Budget(1.0, 0.0)
    assert frontier(Schema.bits(9), 1000, budget, max_bytes=157) == []
    told = r"no protocol meets .* smallest upload is that of the family local-flip: 1 message per user, .* 158 bytes"
    with pytest.raises(Infeasible, match=told):
        plan(Schema.bits(9), 1000, budget, max_bytes=157)
    assert plan(Schema.bits(9), 1000, budget, max_bytes=158).n == 1000


def test_a_budget_of_nothing_names_the_most_promising_family() -> None:
    with pytest.raises(
        Infeasible, match=r"no protocol meets .* the most promising family is local-flip: .* the best ε"
    ):
        plan(Schema.bits(3), 1000, Budget(0.0, 0.0))


def test_unknown_constraints_are_named() -> None:
    with pytest.raises(TypeError, match=r"'max_message' is not a constraint; the constraints are .*max_messages"):
        plan(Schema.bits(3), 1000, BUDGET, max_message=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n": 0}, "n must be"),
        ({"n": (10, 5)}, "low ≤ high"),
        ({"n": (1, 2, 3)}, "range"),
        ({"budget": 1.0}, "budget must be of type Budget, not float"),
        ({"schema": 5}, "schema must be of type Schema, not int"),
        ({"max_messages": 0.5}, "max_messages must be at least 1"),
        ({"max_bytes": 3.0}, "max_bytes must be at least 157"),
        ({"min_q": 0.5}, r"min_q must be in \[0, 1/2\)"),
        ({"rounds": 0}, "rounds must be"),
        ({"joint": 1}, "joint must be True or False, got 1"),
        ({"trust": "all"}, "trust must be 'nobody', 'shuffling' or 'shuffler-noise', got 'all'"),
        ({"clear": "no"}, "clear must be True or False, got 'no'"),
        ({"max_collusion_epsilon": 0.0}, "max_collusion_epsilon must be above 0"),
        ({"n": 10**10 + 1}, r"n must be a whole number in \[1, 10,000,000,000\]"),
        ({"honest_fraction": 0.0}, "honest_fraction must be"),
    ],
)
def test_bad_input(change: dict[str, object], told: str) -> None:
    request: dict[str, object] = {"schema": Schema.bits(1), "n": 100, "budget": BUDGET} | change
    for verb in (frontier, plan):
        with pytest.raises(InvalidInput, match=told):
            verb(**request)  # type: ignore[arg-type]
