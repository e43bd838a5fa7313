"""Combinations of noise: every certified curve lies above the exact values of small collections."""

import itertools
import math
from collections.abc import Iterable

import mpmath
import numpy as np
import pytest

from hubbub.accountant import account
from hubbub.accountant.analysis import MARGIN, Analysis, unknown
from hubbub.accountant.cases import local, positions
from hubbub.accountant.theorems import fakes as fakes_theorem
from hubbub.model.privacy import Basis
from hubbub.model.protocol import GRID, Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial
from hubbub.numeric.divergences import hockey_stick

EPSILONS = (0.05, 0.3, 0.8, 1.5)


def convolved(rows: Iterable[np.ndarray]) -> np.ndarray:
    total = np.ones(1)
    for row in rows:
        total = np.convolve(total, row)
    return total


def coin(chance: float) -> np.ndarray:
    return np.array([1 - chance, chance])


def worst_count(n: int, q: float, noise: np.ndarray, epsilon: float) -> float:
    """Return the largest δ(ε) of the count of n people's flipped bits plus noise, over all collections and orders."""
    found = 0.0
    for ones in range(n):
        others = convolved([coin(1 - q)] * ones + [coin(q)] * (n - 1 - ones) + [noise])
        one, zero = (np.convolve(others, coin(chance)) for chance in (1 - q, q))
        found = max(found, hockey_stick(one, zero, epsilon), hockey_stick(zero, one, epsilon))
    return found


@pytest.mark.parametrize("fakes", [Fakes.laplace(1.5, 4), Fakes.gaussian(2.0, 5), Fakes.laplace(0.5, 0)])
@pytest.mark.parametrize(("n", "q"), [(1, 0.2), (4, 0.1), (6, 0.35)])
def test_flips_among_fakes_of_the_shuffler(fakes: Fakes, n: int, q: float) -> None:
    protocol = Protocol(q, m=fakes, release="bits")
    for epsilon in EPSILONS:
        truth = worst_count(n, protocol.q, fakes.pmf, epsilon)
        given = account(protocol, Schema.bits(1), n, epsilon=epsilon)
        assert truth * (1 - 1e-9) <= given.delta
        assert given.lower_bound <= given.delta


def test_clear_bits_among_fakes_of_the_shuffler_are_exact() -> None:
    fakes = Fakes.gaussian(2.0, 8)
    for epsilon in EPSILONS:
        truth = worst_count(3, 0.0, fakes.pmf, epsilon)
        given = account(Protocol(0, m=fakes, release="bits"), Schema.bits(1), 3, epsilon=epsilon)
        assert truth * (1 - 1e-9) <= given.delta <= truth * 1.001 + 1e-10
        assert given.lower_bound <= truth * (1 + 1e-9)


@pytest.mark.parametrize("fakes", [Fakes.poisson(1.5), Fakes.binomial(3, 0.4)])
@pytest.mark.parametrize(("n", "q"), [(2, 0.2), (5, 0.1)])
def test_flips_among_a_random_number_of_fakes_of_users(fakes: Fakes, n: int, q: float) -> None:
    """The analyzer sees the number of messages; given the number M of fakes, they are M fair coins."""
    protocol = Protocol(q, m=fakes)
    for epsilon in EPSILONS:
        truth = 0.0
        for m in range(60):
            if fakes.distribution == "poisson":
                mean = n * fakes.mean
                chance = math.exp(m * math.log(mean) - mean - math.lgamma(m + 1))
            else:
                chance = math.comb(n * fakes.shift, m) * fakes.scale**m * (1 - fakes.scale) ** (n * fakes.shift - m)
            truth += chance * worst_count(n, protocol.q, binomial(m, 0.5).pmf, epsilon) if chance > 0 else 0.0
        assert truth <= account(protocol, Schema.bits(1), n, epsilon=epsilon).delta


@pytest.mark.parametrize(("n", "k", "m"), [(2, 2, 3), (3, 2, 5), (2, 3, 9)])
def test_copies_among_fakes(n: int, k: int, m: int) -> None:
    """m flipped fair bits among k copies of every record."""
    protocol = Protocol(0.2, k=k, m=m)
    q = protocol.q
    for epsilon in EPSILONS:
        truth = 0.0
        for ones in range(n):
            copies = convolved([coin(1 - q)] * (k * ones) + [coin(q)] * (k * (n - 1 - ones)) + [coin(0.5)] * m)
            one, zero = (np.convolve(copies, convolved([coin(chance)] * k)) for chance in (1 - q, q))
            truth = max(truth, hockey_stick(one, zero, epsilon), hockey_stick(zero, one, epsilon))
        assert truth * (1 - 1e-9) <= account(protocol, Schema.bits(1), n, epsilon=epsilon).delta


def test_fakes_hide_records_as_they_hide_categories() -> None:
    """Two clear bits are four records; uniform fakes hide them as they hide four categories."""
    for epsilon, m in itertools.product(EPSILONS, (3, 40)):
        bits = account(Protocol(0, m=m), Schema.bits(2), 5, epsilon=epsilon)
        categories = account(Protocol(0, m=m), Schema.one_hot(4), 5, epsilon=epsilon)
        assert bits.delta == categories.delta


def test_split_clear_bits_need_fewer_fakes_than_whole_records() -> None:
    split = account(Protocol(0, m=200, release="bits"), Schema.bits(3), 5, epsilon=1.0)
    whole = account(Protocol(0, m=200), Schema.bits(3), 5, epsilon=1.0)
    assert split.delta < whole.delta
    position = convolved([coin(0.5)] * 200)
    one, zero = np.append(0.0, position), np.append(position, 0.0)
    pair = [np.multiply.outer(np.multiply.outer(row, row), row) for row in (one, zero)]
    exact = float(np.maximum(pair[0] - math.e * pair[1], 0.0).sum())
    assert split.lower_bound <= exact <= split.delta <= 1.05 * exact


def test_rounded_logarithms_do_not_lower_delta() -> None:
    for power in range(2, 60):
        exact = 3.0**-power
        curve = Analysis(
            upper=lambda _, exact=exact: math.log(exact),  # type: ignore[misc]
            lower=lambda _: -math.inf,
            basis=Basis.PROVEN,
            method="",
            guess=1.0,
            honest=1,
        )
        assert exact <= curve.delta(1.0) <= exact * (1 + 1e-8)


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-40])
def test_a_machine_that_rounds_differently_confirms_the_epsilon(delta: float) -> None:
    exact = -math.log(delta)

    def other(share: float) -> Analysis:
        return Analysis(
            upper=lambda epsilon: -epsilon * (1 - share),
            lower=unknown,
            basis=Basis.PROVEN,
            method="",
            guess=1.0,
            honest=1,
            solve=lambda _: (exact, exact),
        )

    found = other(0.0).epsilon(delta)[1]
    assert other(MARGIN / 2).certifies(found, delta)
    assert found <= exact * (1 + 2 * MARGIN)


@pytest.mark.parametrize("power", range(2, 600, 23))
def test_rounded_logarithms_do_not_lower_the_delta_of_fakes_alone(power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    delta = 3.0**-power
    monkeypatch.setattr(fakes_theorem, "uniform_delta", lambda *_: delta)
    found = positions.fakes_alone(Schema.one_hot(2), 1, 0.5, 600, 100)
    with mpmath.workdps(40):
        exact = mpmath.log(mpmath.mpf(delta))
        assert exact <= found <= exact + 2e-12


@pytest.mark.parametrize("power", [1, 2, 7, 40])
def test_logarithms_of_odds_are_not_below_the_exact_ones(power: int) -> None:
    with mpmath.workdps(80):
        for wrong in range(1, GRID // 2, GRID // 101):
            exact = power * mpmath.log(mpmath.mpf(GRID - wrong) / wrong)
            found = mpmath.mpf(str(local._scaled_logarithm(GRID - wrong, wrong, power)))
            assert exact <= found <= exact * (1 + mpmath.mpf("1.1e-40"))
