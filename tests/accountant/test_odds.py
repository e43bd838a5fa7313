"""The odds of a plan are those of the best guess: never below enumeration, and no plan may claim less."""

import itertools
import json
import math
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest

import hubbub as hb
from hubbub.accountant.odds import certified_odds
from hubbub.checker import WireError, verify
from hubbub.checker.verdict import State
from hubbub.errors import FalseClaim
from hubbub.model.curves import PrivacyCurve
from hubbub.model.plans import basic_odds
from hubbub.model.privacy import Odds, guess_rate, success_rate
from hubbub.numeric.binomial import binomial

ODDS = tuple(one.name for one in fields(Odds))
BIT = hb.Schema.bits(1)


def apart(n: int, q: float, held: int, rounds: int = 1) -> float:
    """Return the distance of two collections in which one person's bit differs, and ``held`` of the others have it."""
    size = n + 1
    rows = []
    for own in (q, 1 - q):
        crowd = binomial(held, 1 - q).plus(binomial(n - 1 - held, q)).plus(binomial(1, own))
        row = np.zeros(size)
        row[crowd.low : crowd.high + 1] = crowd.pmf
        rows.append(row)
    one, two = (np.array([math.prod(each) for each in itertools.product(row, repeat=rounds)]) for row in rows)
    return float(np.abs(one - two).sum()) / 2


@pytest.mark.parametrize(("n", "q"), [(5, 0.2), (9, 0.05), (12, 0.4)])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_no_guess_is_better_than_the_odds(n: int, q: float, rounds: int) -> None:
    """The truth by enumeration of all outcomes, for every crowd; one half of the people would give other figures."""
    plan = hb.plan_from(BIT, n, hb.Protocol(q), epsilon=0.3, rounds=rounds)
    q = plan.protocol.q
    worst = max(apart(n, q, held, rounds) for held in range(n))
    claimed = plan.odds.total if rounds > 1 else plan.odds.round
    assert worst <= 2 * claimed - 1 < 1.15 * worst
    assert plan.odds.round == pytest.approx((1 + max(apart(n, q, held) for held in range(n))) / 2, abs=2e-3)


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_colluding_operators_see_one_persons_messages(rounds: int) -> None:
    """One flipped bit per round: the number of 1s decides, by the binomial distribution."""
    plan = hb.plan_from(BIT, 100, hb.Protocol(0.2), delta=1e-3, rounds=rounds)
    q = plan.protocol.q
    one, two = (
        np.array([math.comb(rounds, j) * p**j * (1 - p) ** (rounds - j) for j in range(rounds + 1)]) for p in (q, 1 - q)
    )
    exact = (1 + float(np.abs(one - two).sum()) / 2) / 2
    assert exact <= plan.odds.local_total + 1e-12
    assert plan.odds.local_total == pytest.approx(exact, abs=2e-3)
    assert plan.odds.local == pytest.approx(1 - q, abs=1e-5)


def test_the_honest_fraction_counts() -> None:
    whole, part = (hb.plan_from(BIT, 1000, hb.Protocol(0.1), delta=1e-6, honest_fraction=f) for f in (1.0, 0.25))
    assert part.odds.round - 0.5 > 1.9 * (whole.odds.round - 0.5)
    assert part.odds.local == whole.odds.local


@pytest.mark.parametrize("rounds", [1, 52])
def test_the_plans_own_odds_are_below_those_of_any_plan(rounds: int) -> None:
    plan = hb.plan(hb.Schema.one_hot(4), 20_000, hb.Budget(1.0, 1e-6), rounds=rounds)
    any_plan = success_rate(plan.total.epsilon, plan.total.delta)
    assert 0.53 < plan.odds.total < 0.56
    assert any_plan > 0.73
    assert plan.odds.round <= plan.odds.total
    assert (plan.odds.round == plan.odds.total) == (rounds == 1)


def test_clear_answers_have_no_odds_against_collusion() -> None:
    odds = hb.plan(BIT, 1000, hb.Budget(1.0, 1e-6), trust="shuffler-noise", rounds=3).odds
    assert odds.local == odds.local_total == 1.0
    assert odds.total < 0.8


@pytest.mark.parametrize("rounds", [1, 3, 1000])
@pytest.mark.parametrize("alone", [0.0, 0.1, 2.0, 30.0, 1000.0, math.inf])
def test_a_device_states_no_smaller_odds(rounds: int, alone: float) -> None:
    curve = PrivacyCurve(((0.0, 0.01), (0.5, 1e-4), (1.0, 1e-9)))
    proven, basic = certified_odds(curve, rounds, alone), basic_odds(curve, rounds, alone)
    for name in ODDS:
        assert getattr(proven, name) <= getattr(basic, name) + 1e-6


@pytest.mark.parametrize("name", ODDS)
@pytest.mark.parametrize("rounds", [1, 4])
def test_no_plan_claims_smaller_odds(name: str, rounds: int) -> None:
    plan = hb.plan_from(BIT, 200, hb.Protocol(0.3), delta=1e-3, rounds=rounds)
    assert hb.load_plan(plan.to_json()) == plan
    larger = replace(plan, odds=replace(plan.odds, **{name: getattr(plan.odds, name) + 1e-4}))
    assert hb.load_plan(larger.to_json()) == larger
    false = replace(plan, odds=replace(plan.odds, **{name: getattr(plan.odds, name) - 1e-5}))
    with pytest.raises(FalseClaim, match="odds"):
        hb.load_plan(false.to_json())


def odds_part(plan: hb.Plan) -> State:
    return next(part.state for part in verify(plan.to_json()).parts if part.name == "odds")


def test_the_checker_confirms_odds_and_nothing_below() -> None:
    plan = hb.plan_from(BIT, 200, hb.Protocol(0.3), delta=1e-3)
    assert odds_part(plan) is State.CONFIRMED
    for name, state in (("round", State.FALSE), ("local", State.FALSE), ("total", State.NOT_CONFIRMED)):
        lower = replace(plan, odds=replace(plan.odds, **{name: getattr(plan.odds, name) - 1e-4}))
        assert odds_part(lower) is state, name


def test_the_checker_adds_up_rounds() -> None:
    plan = hb.plan_from(BIT, 200, hb.Protocol(0.3), delta=1e-3, rounds=3)
    assert odds_part(plan) is State.NOT_CONFIRMED
    added = 0.5 + 3 * (plan.odds.round - 0.5)
    wide = replace(plan, odds=replace(plan.odds, total=added + 1e-9, local_total=0.928))
    assert odds_part(wide) is State.CONFIRMED  # (0.7/0.3)³ is 12.7, and 0.928 the first rate of such odds
    for odds in (replace(wide.odds, total=added - 1e-6), replace(wide.odds, local_total=0.926)):
        assert odds_part(replace(wide, odds=odds)) is State.NOT_CONFIRMED
    clear = hb.plan(BIT, 1000, hb.Budget(1.0, 1e-6), trust="shuffler-noise")
    assert odds_part(replace(clear, odds=replace(clear.odds, local_total=0.9))) is State.FALSE


@pytest.mark.parametrize("value", [0.4, 1.1, "0.6", None])
def test_odds_outside_of_their_range_are_no_plan(value: object) -> None:
    document = json.loads(hb.plan_from(BIT, 200, hb.Protocol(0.3), delta=1e-3).to_json())
    document["odds"]["round"] = value
    for read in (hb.Plan.from_json, verify):
        with pytest.raises((hb.WireError, WireError)):
            read(json.dumps(document))


@pytest.mark.parametrize("delta", [5e-324, 1e-15, 1e-12, 1.9e-12, 2.1e-12])
def test_no_distance_is_rounded_to_none(delta: float) -> None:
    assert guess_rate(delta) > 0.5


@pytest.mark.parametrize("away", [64, 512])
def test_flips_close_to_a_coin_have_odds_above_it(away: int) -> None:
    """Regression: a guess that is right with probability ½ + 10⁻¹³ was stated as ½, which no reader accepts."""
    plan = hb.plan_from(BIT, 1, hb.Protocol(0.5 - away / 2**48), delta=1e-13)
    truth = Fraction(1, 2) + Fraction(away, 2**48)
    assert min(Fraction(plan.odds.round), Fraction(plan.odds.local)) >= truth
    assert hb.load_plan(plan.to_json()) == plan
    assert verify(plan.to_json()).state is not State.FALSE


def test_basic_odds_are_not_below_the_exact_ones() -> None:
    """Regression: 1 − (1 − δ)^rounds cancelled, and a fifth of all totals was too small, by up to 3·10⁻¹¹."""
    rng = np.random.default_rng(1)
    for exponent, rounds in zip(rng.uniform(-17, -0.01, 400), rng.choice([1, 2, 3, 10, 52, 365], 400), strict=True):
        one, many = 10**exponent, int(rounds)
        exact = (2 - (1 - Fraction(one)) ** many) / 2
        assert Fraction(basic_odds(PrivacyCurve(((0.0, one),)), many, 1.0).total) >= exact
        pure = basic_odds(PrivacyCurve(((0.0, 0.5),)), many, one)  # tanh x > x − x³/3
        for rate, epsilon in ((pure.local, Fraction(one)), (pure.local_total, many * Fraction(one))):
            assert epsilon > 1 or Fraction(rate) >= (1 + epsilon / 2 - (epsilon / 2) ** 3 / 3) / 2
