"""Preliminary plans meet the request, are close to the best plan, and exist only where there is a quick way to one."""

from typing import Any

import pytest

import hubbub as hb
from hubbub.model.privacy import Budget
from hubbub.model.questions import Choice, Flag, Number, Scale
from hubbub.model.schema import Schema
from hubbub.planner.preliminary import likely_log_delta
from hubbub.planner.request import Request
from hubbub.planner.search import certified, preliminary, proposed

SURVEY = Schema.survey(
    {
        "colour": Choice(["red", "green", "blue"]),
        "dark": Flag(),
        "age": Number(0, 100),
        "time": Scale(0, 64, buckets=16),
    }
)


def both(schema: Schema, n: int, epsilon: float, delta: float, **limits: Any) -> tuple[hb.Plan | None, hb.Plan | None]:
    """Return the preliminary and the best plan of split bits."""
    request = Request.of(schema, n, Budget(epsilon, delta), **limits)
    for family, candidate in proposed(request)[0]:
        if family.key == "split":
            early = preliminary(request, family, candidate)
            return early.plan if early else None, certified(request, family, candidate).plan
    raise AssertionError


REQUESTS = [
    (Schema.one_hot(3), 1000, 1.0, 1e-6, {}),
    (Schema.one_hot(3), 1_000_000, 0.01, 1e-2, {}),
    (Schema.one_hot(3), 1_000_000, 0.1, 1e-4, {}),
    pytest.param(Schema.one_hot(12), 100_000, 8.0, 1e-12, {"rounds": 5}, marks=pytest.mark.long),
    pytest.param(Schema.bits(40), 869, 0.01, 0.01, {"rounds": 2}, marks=pytest.mark.long),
    (Schema.at_most(3, 20), 10_000, 1.0, 1e-6, {"honest_fraction": 0.5, "rounds": 12}),
    (SURVEY, 20_000, 1.0, 1e-6, {}),
    pytest.param(SURVEY, 20_000, 0.2, 1e-3, {"rounds": 3, "weights": {"age": 4.0}}, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("schema", "n", "epsilon", "delta", "limits"), REQUESTS, ids=str)
def test_it_meets_the_request_and_is_close_to_the_best_plan(
    schema: Schema, n: int, epsilon: float, delta: float, limits: dict[str, Any]
) -> None:
    early, best = both(schema, n, epsilon, delta, **limits)
    assert early is not None
    assert best is not None
    assert early.total.epsilon <= epsilon
    assert early.total.delta <= delta
    assert early.rounds == limits.get("rounds", 1)
    assert early.stderr <= 1.06 * best.stderr
    assert hb.load_plan(early.to_json()) == early  # which recomputes every claim


@pytest.mark.parametrize(
    ("n", "delta", "limits"),
    [
        (10_000, 1e-30, {}),
        (10_000, 0.0, {}),
        (150, 1e-6, {}),
        (1000, 1e-6, {"honest_fraction": 0.1}),
        (1000, 1e-6, {"min_q": 0.2}),
        (1000, 1e-6, {"max_collusion_epsilon": 1.0}),
    ],
    ids=str,
)
def test_there_is_none_without_a_quick_way(n: int, delta: float, limits: dict[str, Any]) -> None:
    request = Request.of(Schema.one_hot(3), n, Budget(1.0, delta), **limits)
    for family, candidate in proposed(request)[0]:
        assert preliminary(request, family, candidate) is None, family.key


def test_a_loss_beyond_every_bound_ends_the_search() -> None:
    request = Request.of(Schema.at_most(1, 2), 6915, Budget(20.0, 1e-12), rounds=1000)
    for family, candidate in proposed(request)[0]:
        preliminary(request, family, candidate)  # raised an error


def test_nothing_is_likelier_than_certain() -> None:
    assert likely_log_delta([(1000, 0.1, 8, 10**9)], 0.0) <= 0.0
