"""Warnings: one for every weakness of a plan, none for a plan without any."""

import math
import re

import pytest

import hubbub as hb
from hubbub.model.privacy import Assumptions, Budget, success_rate
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import central_stderr, plan, plan_from, remarks


def given(n: int, protocol: Protocol, **solved: float) -> hb.Plan:
    return plan_from(Schema.one_hot(3), n, protocol, **solved)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (given(10_000, Protocol(0.1), delta=1e-6), []),
        (given(1000, Protocol(0.499), delta=1e-6), ["The error exceeds the crowd: one count of 1,000 people"]),
        (given(1000, Protocol(0.48), delta=1e-6), ["The error is about as large as the crowd"]),
        (given(1000, Protocol(0.2), delta=1e-3), ["δ = 0.001 is not below 1/n = 0.001: a protocol that publishes"]),
        (given(10_000, Protocol(0.1), epsilon=6.0), ["ε = 6 protects little: a guess between two answers"]),
        (given(10**6, Protocol(4e-5, release="bits"), delta=1e-7), ["Everything rests on the shuffler"]),
        (given(1000, Protocol(0.0, m=Fakes.laplace(2.0, 25)), delta=1e-6), ["(collusion ε = ∞)"]),
    ],
    ids=lambda one: one[0][:30] if isinstance(one, list) and one else "",
)
def test_remarks(one: hb.Plan, told: list[str]) -> None:
    found = remarks(one)
    assert len(found) == len(told)
    for text, part in zip(found, told, strict=True):
        assert part in text


def test_review_an_error_of_a_hundred_thousand_in_a_crowd_of_a_thousand() -> None:
    chosen = plan(Schema.bits(1), 1000, epsilon=1e-4, delta=1e-9)
    assert chosen.stderr > 1000
    assert "exceeds the crowd" in remarks(chosen)[0]


def test_review_a_delta_of_a_thousandth_among_a_million() -> None:
    found = remarks(plan(Schema.bits(1), 10**6, epsilon=0.5, delta=1e-3))
    assert any(re.search(r"records of 9\d\d of 1,000,000 people", text) for text in found)


def test_the_central_reference_is_for_the_same_rounds() -> None:
    """Review: a year of weekly collections looked 18 times worse than a server that collects once."""
    schema, budget = Schema.one_hot(100), Budget(1.0, 1e-6)
    once, weekly = central_stderr(schema, budget), central_stderr(schema, budget, rounds=52)
    assert weekly > 5 * once
    known = 0.99**0.5  # the counts of 100 labels add up to the number of people
    gaussian = known * 52**0.5 * 2**0.5 * 4.22467888932683528
    assert weekly == pytest.approx(gaussian, rel=1e-6)
    assert central_stderr(schema, Budget(1.0, 0.0), rounds=52) == pytest.approx(known * 2**0.5 * 2 * 52, rel=1e-3)
    with pytest.raises(hb.InvalidInput, match="rounds must be"):
        central_stderr(schema, budget, rounds=0)


def held(**given: object) -> Assumptions:
    usual = {
        "honest": 900, "shuffler": True, "fakes": False, "view": "whole records", "collusion_epsilon": 4.4,
        "count_epsilon": 0.0,
    }  # fmt: skip
    return Assumptions(**{**usual, **given})  # type: ignore[arg-type]


def test_sentences_name_everything_the_figure_rests_on() -> None:
    usual = " ".join(held().sentences())
    for part in (
        "order", "senders", "does not work with the analyzer", "At least 900 users", "follow the protocol",
        "answers once", "secure sources", "98.8 % of all cases (collusion ε = 4.4)",
    ):  # fmt: skip
        assert part in usual
    assert "fakes" not in usual
    drawn = " ".join(held(fakes=True, honest=1).sentences())
    assert "draws its fakes as planned and keeps their number secret" in drawn
    alone = " ".join(held(shuffler=False, honest=1, collusion_epsilon=1.0).sentences())
    assert "nobody else needs to be honest" in alone
    assert "shuffler" not in alone


def test_a_large_collusion_epsilon_is_called_what_it_is() -> None:
    assert "nothing protects the record (collusion ε = ∞)" in held(collusion_epsilon=float("inf")).sentences()[-1]
    assert "too small to protect anybody" in held(collusion_epsilon=57.2).sentences()[-1]
    assert "right in up to 99.989 % of all cases" in held(collusion_epsilon=9.09).sentences()[-1]


def test_odds_are_those_of_the_best_test() -> None:
    guarantee = given(10_000, Protocol(0.1), epsilon=1.0).guarantee
    assert "right in at most 73.2 % of all cases" in guarantee.odds
    # The power of the best test at level α is min(e^ε α + δ, 1 − e^−ε(1 − δ − α)).
    for epsilon, delta in ((0.5, 1e-3), (1.0, 1e-6), (3.0, 0.2)):
        rates = []
        for step in range(10_001):
            level = step / 10_000
            power = min(math.exp(epsilon) * level + delta, 1 - math.exp(-epsilon) * (1 - delta - level))
            rates.append((min(power, 1.0) + 1 - level) / 2)
        assert max(rates) == pytest.approx(success_rate(epsilon, delta), abs=1e-4)
