"""The total of repeated collections is a tight upper bound."""

import functools
import math
import pickle

import numpy as np
import pytest

from hubbub.accountant import Ledger, account, curve, sampling
from hubbub.accountant.analysis import Analysis
from hubbub.accountant.composition import Loss
from hubbub.errors import AlreadyCharged, BudgetExceeded, InvalidInput, WireError
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import gaussian_delta
from hubbub.numeric.inversion import least_real
from hubbub.planner import plan_from

PLAN = plan_from(Schema.bits(1), 10_000, Protocol(0.1), delta=1e-8)
OTHER = plan_from(Schema.one_hot(9), 100, Protocol(0, m=Fakes.gaussian(20.0, 140)), delta=1e-7)


def test_nothing_spent() -> None:
    assert Ledger().delta(0.0) == pytest.approx(0.0, abs=1e-9)
    assert Ledger().basic(1e-6) == (0.0, 0.0)


def test_one_round_is_the_account() -> None:
    ledger = Ledger().charge_protocol(Protocol(0.1), Schema.bits(1), 1000)
    single = account(Protocol(0.1), Schema.bits(1), 1000, delta=1e-6).epsilon
    assert 0.999 * single <= ledger.epsilon(1e-6) <= 1.01 * single


def test_the_total_is_above_the_exact_value_and_below_basic_composition() -> None:
    """Two rounds of 20 people: all pairs of outcomes of the worst homogeneous collection."""
    zero, one = neighbours(20, 19, 0.2)
    p, q = np.outer(one.pmf, one.pmf), np.outer(zero.pmf, zero.pmf)
    ledger = Ledger().charge_protocol(Protocol(0.2), Schema.bits(1), 20, rounds=2)
    for epsilon in (0.1, 0.5, 1.0):
        truth = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
        assert truth <= ledger.delta(epsilon) <= 1.15 * truth
    assert ledger.epsilon(1e-3) < ledger.basic(1e-3)[0]


def test_different_collections_add_up_in_any_order() -> None:
    first = (Protocol(0.2), Schema.one_hot(9), 10_000)
    second = (Protocol(0, m=Fakes.laplace(4.0, 60)), Schema.one_hot(9), 100)
    one = Ledger().charge_protocol(*first).charge_protocol(*second).epsilon(1e-6)
    two = Ledger().charge_protocol(*second).charge_protocol(*first).epsilon(1e-6)
    assert one == pytest.approx(two, rel=1e-6)
    assert one > Ledger().charge_protocol(*first).epsilon(1e-6)


def test_the_total_grows_like_a_square_root() -> None:
    """A hundred rounds are nearly one Gaussian mechanism with ten times the signal."""
    often = Ledger().charge_protocol(Protocol(0.1), Schema.bits(1), 10**6, rounds=100).epsilon(1e-6)
    signal = 10 * 0.8 / math.sqrt(10**6 * 0.09)
    assert gaussian_delta(signal, often) < 1e-6 < gaussian_delta(signal, 0.97 * often)


def test_a_collection_without_privacy_spends_everything() -> None:
    ledger = Ledger().charge_protocol(Protocol(0, m=1), Schema.one_hot(1000), 10)
    assert ledger.epsilon(1e-6) == math.inf


def test_outcomes_that_reveal_a_record_do_not_inflate_the_rest() -> None:
    """A number of fakes may be 0; otherwise six rounds are nearly a Gaussian mechanism."""
    protocol = Protocol(0, m=Fakes.gaussian(20.0, 140))
    often = Ledger().charge_protocol(protocol, Schema.one_hot(9), 100, rounds=6).epsilon(1e-6)
    assert 0.99 < often / (0.97 * _gaussian_epsilon(math.sqrt(12) / 20)) < 1.06


def test_without_a_shuffler_rounds_of_a_bit_are_copies() -> None:
    ledger = Ledger().charge_protocol(Protocol(0.45), Schema.bits(1), 1000, rounds=8, trust="nobody")
    single = account(Protocol(0.45, k=8), Schema.bits(1), 1000, delta=1e-3, trust="nobody").epsilon
    assert 0.999 * single <= ledger.epsilon(1e-3) <= 1.02 * single


def _gaussian_epsilon(signal: float) -> float:
    return least_real(lambda epsilon: gaussian_delta(signal, epsilon) <= 1e-6, 0.0, 10.0)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput):
        Ledger().charge_protocol(Protocol(0.1), Schema.bits(1), 10, rounds=0)
    with pytest.raises(InvalidInput):
        Ledger().epsilon(0.0)


@pytest.mark.parametrize("rounds", [1, 3, 52, 365])
def test_few_points_stay_above_many_and_lose_next_to_nothing(rounds: int) -> None:
    """A total from about forty points is within 1 % of the composition of a curve sampled at 400."""
    sparse = Ledger().charge_protocol(PLAN.protocol, PLAN.schema, PLAN.n, rounds=rounds)
    dense = densely(PLAN).power(rounds)
    for delta in (1e-4, 1e-6, 1e-9):
        assert 1.0 <= sparse.epsilon(delta) / dense.epsilon(delta) < 1.01


@functools.cache
def densely(plan: Plan, nodes: int = 400) -> Loss:
    """Return the cover of a curve that is sampled far more finely than a plan does."""
    analysis = curve(plan.protocol, plan.schema, plan.n)
    step = sampling._reach(analysis) / nodes
    deltas = [analysis.delta(step * i) for i in range(nodes + 1)]
    return Loss.from_envelope(np.minimum(deltas, 1.0), step)


def test_a_curve_is_evaluated_at_few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A curve that costs 30 ms a point once took four seconds to enter a ledger."""
    evaluated: list[float] = []
    plain = Analysis.delta

    def counted(analysis: Analysis, epsilon: float) -> float:
        evaluated.append(epsilon)
        return plain(analysis, epsilon)

    monkeypatch.setattr(Analysis, "delta", counted)
    Ledger().charge_protocol(Protocol(0.2), Schema.one_hot(4), 2000, rounds=365)
    assert len(evaluated) < 35
    evaluated.clear()
    Ledger().charge_protocol(Protocol(0.2), Schema.one_hot(4), 2000)
    assert len(evaluated) < 45


@pytest.mark.parametrize("rounds", [52, 365])
def test_a_forecast_is_the_direct_composition(rounds: int) -> None:
    direct = densely(PLAN).power(rounds).epsilon(1e-6)
    forecast = Ledger().forecast(PLAN, rounds, delta=1e-6)
    assert 1.0 <= forecast.epsilon / direct < 1.01
    assert forecast == Ledger().charge(PLAN, rounds=rounds).total(1e-6)
    again = Ledger()
    for week in range(rounds):
        again = again.charge(PLAN, collection=f"week {week}")
    assert again.total(1e-6) == forecast


@pytest.mark.long
def test_many_small_collections_beside_a_large_one_stay_small() -> None:
    """Each loss, moved to the grid of the large one, once added far more than its own variance."""
    small = [plan_from(Schema.bits(1), 10**7 + i, Protocol(0.1), delta=1e-8) for i in range(40)]
    large = Ledger().charge(OTHER)
    both = large
    for one in small:
        both = both.charge(one)
    assert both.epsilon(1e-6) < 1.01 * large.charge(small[0], rounds=40).epsilon(1e-6)


def test_ledgers_survive_json_and_pickle() -> None:
    ledger = Ledger(budget=Budget(2.0, 1e-6)).charge(PLAN, collection="week 1").charge(OTHER, rounds=2)
    assert Ledger.from_json(ledger.to_json()) == ledger == pickle.loads(pickle.dumps(ledger))
    assert Ledger.from_json(ledger.to_json()).total() == ledger.total()
    with pytest.raises(WireError, match="format"):
        Ledger.from_json(ledger.to_json().replace("hubbub ledger 2", "hubbub ledger 1"))


def test_a_budget_is_not_exceeded() -> None:
    ledger = Ledger(budget=Budget(0.5, 1e-6))
    allowed = ledger.remaining(PLAN)
    full = ledger.charge(PLAN, rounds=allowed)
    assert full.total().epsilon <= 0.5 < ledger.forecast(PLAN, allowed + 1).epsilon
    assert full.remaining(PLAN) == 0
    with pytest.raises(BudgetExceeded, match="nothing was charged"):
        full.charge(PLAN)


def test_a_named_collection_is_charged_once() -> None:
    ledger = Ledger().charge(PLAN, collection="week 1")
    with pytest.raises(AlreadyCharged, match="week 1"):
        ledger.charge(PLAN, collection="week 1")
    assert len(ledger.charge(OTHER, collection="week 1").charges) == 2


def test_pure_collections_add_up() -> None:
    local = plan_from(Schema.bits(1), 1000, Protocol(0.25), delta=0.0, trust="nobody")
    ledger = Ledger(budget=Budget(3 * math.log(3) + 1e-9, 0.0)).charge(local, rounds=3)
    assert ledger.total().epsilon == pytest.approx(3 * math.log(3))
    assert ledger.delta(3.4) == 0.0
    with pytest.raises(BudgetExceeded):
        ledger.charge(local)


def test_a_far_end_of_a_curve_does_not_take_the_points_from_its_beginning() -> None:
    """Regression: another theorem ended the curve at a hundred times its ε, and the total was five times as large."""
    fakes = Fakes.gaussian(3357.3467322684164, shift=25_249)
    protocol, schema = Protocol(0.05, m=fakes, release="bits"), Schema.bits(40)
    plan = plan_from(schema, 2, protocol, epsilon=0.01, rounds=365, total_delta=4e-8)
    loose = Ledger().charge_protocol(protocol, schema, 2, rounds=365).epsilon(4e-8)
    assert loose == pytest.approx(plan.total.epsilon, rel=0.02)
