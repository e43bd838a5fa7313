"""The total of repeated collections is a tight upper bound."""

import math

import numpy as np
import pytest

from hubbub.accountant import Ledger, account, ledger
from hubbub.accountant.analysis import Analysis
from hubbub.errors import InvalidInput
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import gaussian_delta
from hubbub.numeric.inversion import least_real
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema


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


@pytest.mark.parametrize("rounds", [3, 30])
def test_sparse_nodes_stay_above_dense_ones_and_lose_next_to_nothing(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several rounds evaluate about half of the points of a curve; the chords between them lie above it."""
    setting = Protocol(0.2), Schema.one_hot(4), 2000
    sparse = Ledger().charge_protocol(*setting, rounds=rounds)
    monkeypatch.setattr(ledger, "_nodes", lambda points, *rest: list(range(points + 1)))
    monkeypatch.setattr(ledger, "SEVERAL", 3 * ledger.SEVERAL)
    dense = Ledger().charge_protocol(*setting, rounds=rounds)
    for delta in (1e-4, 1e-6, 1e-9):
        assert 1.0 <= sparse.epsilon(delta) / dense.epsilon(delta) < 1.002


def test_several_rounds_evaluate_few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A curve that costs 30 ms a point once took four seconds to enter a ledger."""
    evaluated: list[float] = []
    plain = Analysis.delta

    def counted(analysis: Analysis, epsilon: float) -> float:
        evaluated.append(epsilon)
        return plain(analysis, epsilon)

    monkeypatch.setattr(Analysis, "delta", counted)
    Ledger().charge_protocol(Protocol(0.2), Schema.one_hot(4), 2000, rounds=365)
    assert len(evaluated) < 50
    evaluated.clear()
    Ledger().charge_protocol(Protocol(0.2), Schema.one_hot(4), 2000)
    assert len(evaluated) > 100
