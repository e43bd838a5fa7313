"""The frontier holds what it promises: guarantees, ranks, limits, and the figures of the issue that asked for it."""

import math
import time

import pytest

from hubbub.accountant import Ledger
from hubbub.errors import Infeasible, InvalidInput
from hubbub.planner import best_epsilon, central_stderr, family, frontier, plan, smallest_n, under_attack, verify
from hubbub.privacy import Budget
from hubbub.protocol import Fakes
from hubbub.schema import Schema

BUDGET = Budget(1.0, 1e-6)
FIVE = [
    (Schema.one_hot(100), 10**5, 8),
    (Schema.one_hot(50_000), 10**7, 8),
    (Schema.bits(13), 10**7, 8),
    (Schema.bits(40), 10**7, 6),
    (Schema.bits(1), 10**3, 4),
]


@pytest.mark.parametrize(("schema", "n", "kinds"), FIVE, ids=str)
def test_five_questions(schema: Schema, n: int, kinds: int) -> None:
    start = time.process_time()
    plans = frontier(schema, n, BUDGET)
    assert time.process_time() - start < 10
    assert len(plans) == len({(family(one), one.protocol.release) for one in plans}) == kinds
    assert all(one.guarantee.meets(BUDGET) for one in plans)
    assert plans == sorted(plans, key=lambda one: (one.stderr, one.messages))
    # No plan beats a trusted curator, and every plan beats, or is, the local one.
    assert plans[0].stderr > 0.999 * central_stderr(schema, BUDGET)
    assert [one.guarantee.assumptions.shuffler for one in plans].index(False) == len(plans) - 1


def test_near_the_central_error_where_the_shuffler_adds_fakes() -> None:
    chosen = plan(Schema.one_hot(100), 10**5, BUDGET, max_messages=1.1)
    assert chosen.stderr <= 2.85
    assert chosen.stderr / central_stderr(chosen.schema, BUDGET) < 1.001
    assert family(chosen) == "clear + shuffler's fakes (laplace)"


def test_the_error_where_only_users_add_noise() -> None:
    chosen = plan(Schema.one_hot(100), 10**5, BUDGET, shuffler_fakes=False)
    assert chosen.stderr <= 6.6
    assert chosen.messages <= 1.1
    assert isinstance(chosen.protocol.m, Fakes)
    assert chosen.protocol.m.by == "users"


SMALL = [
    (Schema.one_hot(5), 3000, BUDGET, {}),
    (Schema.one_hot(5), 3000, BUDGET, {"shuffler_fakes": False}),
    (Schema.one_hot(30), 10**4, Budget(0.3, 1e-8), {"max_messages": 1.0}),
    (Schema.bits(6), 10**5, Budget(2.0, 1e-5), {"joint": True, "shuffler_fakes": False}),
    (Schema.bits(6), 10**4, BUDGET, {"min_q": 0.05}),
    (Schema.at_most(2, 20), 10**4, BUDGET, {"max_bytes": 60.0}),
    (Schema.one_hot(3), 10, BUDGET, {"honest_fraction": 0.5}),
    (Schema.one_hot(12), 500, Budget(1.0, 0.0), {}),
    (Schema.bits(3), 7799, Budget(8.0, 1e-6), {"honest_fraction": 0.7}),
    (Schema.at_most(1, 1), 29, Budget(8.0, 1e-6), {}),
    (Schema.at_most(2, 5), 22, Budget(8.0, 1e-6), {}),
    (Schema.bits(1), 50, Budget(0.0, 1e-2), {}),
]


@pytest.mark.parametrize(("schema", "n", "budget", "limits"), SMALL, ids=str)
def test_the_plan_is_the_first_of_the_frontier(
    schema: Schema, n: int, budget: Budget, limits: dict[str, float]
) -> None:
    """Leaving out what cannot win loses nothing, limits are kept, and every claim recomputes."""
    if budget.epsilon == 0:
        with pytest.raises(Infeasible):
            plan(schema, n, Budget(0.0, 0.0), **limits)  # type: ignore[arg-type]
    plans = frontier(schema, n, budget, **limits)  # type: ignore[arg-type]
    chosen = plan(schema, n, budget, **limits)  # type: ignore[arg-type]
    assert chosen == plans[0]
    for one in plans:
        assert verify(one) is one
        assert one.guarantee.meets(budget)
        assert one.messages <= limits.get("max_messages", math.inf)
        assert one.upload <= limits.get("max_bytes", math.inf)
        assert one.protocol.release == "records" or not limits.get("joint")
        flip_probability = one.protocol.q * (schema.width - 1 if one.protocol.release == "category" else 1)
        assert flip_probability >= limits.get("min_q", 0.0) * (1 - 1e-9)
        if not limits.get("shuffler_fakes", True):
            assert not (isinstance(one.protocol.m, Fakes) and one.protocol.m.by == "shuffler")


def test_honest_users_suffice() -> None:
    plans = frontier(Schema.one_hot(10), 20_000, BUDGET, honest_fraction=0.6)
    assert len(plans) >= 6
    for one in plans:
        assert under_attack(one, 0.6).epsilon <= 1 + 1e-4
    worse = [one for one in plans if under_attack(one, 0.3).epsilon > 1.05]
    assert {family(one) for one in worse} >= {"flip", "split bits", "clear + users' fakes (binomial)"}


def test_a_range_is_planned_for_its_smallest_crowd() -> None:
    schema = Schema.one_hot(10)
    assert frontier(schema, (5000, 10**6), BUDGET) == frontier(schema, 5000, BUDGET)
    assert plan(schema, (5000, 5000), BUDGET).n == 5000


@pytest.mark.parametrize("schema", [Schema.one_hot(20), Schema.bits(3)], ids=str)
def test_rounds_share_the_budget(schema: Schema) -> None:
    n, rounds = 50_000, 6
    plans = frontier(schema, n, BUDGET, rounds=rounds)
    assert len(plans) >= 6
    for one in plans:
        shuffler = one.guarantee.assumptions.shuffler
        ledger = Ledger().charge(one.protocol, schema, n, rounds=rounds, shuffler=shuffler)
        assert 0.9 < ledger.epsilon(1e-6) <= 1.0
        assert ledger.delta(1.0) <= 1e-6
    # √6 times the error of one round, and not six times, but for Laplace noise.
    once = {family(one): one.stderr for one in frontier(schema, n, BUDGET)}
    often = {family(one): one.stderr for one in plans}
    assert 2.0 < often["split bits"] / once["split bits"] < 3.0


def test_pure_rounds_add_up() -> None:
    chosen = plan(Schema.bits(1), 1000, Budget(1.0, 0.0), rounds=4)
    assert chosen.guarantee.epsilon == 0.25
    assert chosen.guarantee.delta == 0.0


@pytest.mark.parametrize("fakes", [True, False])
def test_least_crowd_is_least(fakes: bool) -> None:
    schema, precision = Schema.one_hot(8), 0.002
    found = smallest_n(schema, BUDGET, precision, shuffler_fakes=fakes)
    assert found.guarantee.meets(BUDGET)
    assert found.stderr <= precision * found.n
    fewer = math.floor(found.n / 1.02)
    assert plan(schema, fewer, BUDGET, shuffler_fakes=fakes).stderr > precision * fewer


@pytest.mark.parametrize("fakes", [True, False])
def test_best_epsilon_is_best(fakes: bool) -> None:
    schema, n, stderr = Schema.one_hot(8), 30_000, 12.0
    found = best_epsilon(schema, n, 1e-6, stderr, shuffler_fakes=fakes)
    epsilon = found.guarantee.epsilon
    assert found.stderr <= stderr
    assert plan(schema, n, Budget(epsilon / 1.01, 1e-6), shuffler_fakes=fakes).stderr > stderr


def test_backwards_says_what_is_impossible() -> None:
    with pytest.raises(Infeasible, match="no crowd"):
        smallest_n(Schema.bits(1), BUDGET, 0.01, max_bytes=20.0)
    with pytest.raises(Infeasible, match="no ε"):
        best_epsilon(Schema.bits(1), 10, 1e-6, 1.0, max_bytes=20.0)


def test_limits_that_leave_nothing() -> None:
    assert frontier(Schema.bits(3), 1000, BUDGET, max_bytes=20.0) == []
    with pytest.raises(Infeasible, match=r"no protocol meets .* bytes per user"):
        plan(Schema.bits(3), 1000, BUDGET, max_bytes=20.0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n": 0}, "n must be"),
        ({"n": (10, 5)}, "low ≤ high"),
        ({"n": (1, 2, 3)}, "range"),
        ({"budget": 1.0}, "budget must be a Budget"),
        ({"schema": 5}, "schema must be a Schema"),
        ({"max_messages": 0.5}, "max_messages must be at least 1"),
        ({"max_bytes": 3.0}, "max_bytes must be at least 20"),
        ({"min_q": 0.5}, r"q must be in \[0, 1/2\)"),
        ({"rounds": 0}, "rounds must be"),
        ({"honest_fraction": 0.0}, "honest_fraction must be"),
    ],
)
def test_bad_input(change: dict[str, object], told: str) -> None:
    question: dict[str, object] = {"schema": Schema.bits(1), "n": 100, "budget": BUDGET} | change
    for verb in (frontier, plan):
        with pytest.raises(InvalidInput, match=told):
            verb(**question)  # type: ignore[arg-type]
