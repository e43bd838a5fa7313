"""Preliminary certificates are certificates, and crowds with the same bits are close to them."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from hubbub.accountant import curve
from hubbub.accountant.accounting import prove
from hubbub.accountant.theorems import split, surveys
from hubbub.model.protocol import Noise, Protocol
from hubbub.model.questions import Choice, Flag, Scale
from hubbub.model.schema import Schema
from hubbub.planner.preliminary import likely_log_delta, split_positions

SURVEY = Schema.survey({"colour": Choice(["red", "green", "blue"]), "dark": Flag(), "age": Scale(0, 100, buckets=8)})
FLIPS = [0.004, 0.006, 0.003]
CASES = {
    "one of 9": (Protocol(0.01, release="bits"), Schema.one_hot(9), 20_000),
    "few": (Protocol(0.02, release="bits"), Schema.at_most(3, 20), 5_000),
    "any": (Protocol(0.05, release="bits"), Schema.bits(6), 2_000),
    "many flips": (Protocol(0.3, release="bits"), Schema.bits(40), 1_000_000),
    "few people": (Protocol(0.1, release="bits"), Schema.one_hot(3), 40),
    "survey": (Protocol.survey([Noise(q) for q in FLIPS], "bits"), SURVEY, 50_000),
}


@pytest.mark.parametrize("name", CASES)
def test_a_preliminary_certificate_is_close_to_the_fine_one_and_above_the_attack(name: str) -> None:
    """Not always above the fine one: the blocks of crowds of one are not those of the other."""
    protocol, schema, n = CASES[name]
    fine, early = (curve(protocol, schema, n, preliminary=flag) for flag in (False, True))
    middle = fine.certified_epsilon(1e-6)
    for share in (0.0, 0.2, 0.6, 1.0, 1.3):
        assert early.delta(share * middle) >= fine.attacked_delta(share * middle)
    assert 0.99 * middle <= early.certified_epsilon(1e-6) <= 1.03 * middle


@pytest.mark.parametrize("q", [0.01, 0.2, 0.45])
@pytest.mark.parametrize("n", [2, 5, 9])
def test_a_preliminary_cover_is_above_every_collection(n: int, q: float) -> None:
    """By the definition of δ, in fractions: two positions, every pair of crowds, and both orders by their symmetry."""
    exact = Fraction(q)
    pairs = [_position(ones, n - 1 - ones, exact) for ones in range(n)]
    loss = split.positions(n, q, 1, 2, split.PRELIMINARY)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0):
        worst = max(_product_delta(a, b, math.exp(epsilon)) for a in pairs for b in pairs)
        assert loss.delta(epsilon) >= worst * (1 - 1e-9)


@pytest.mark.parametrize("flips", [(0.05, 0.2), (0.3, 0.01)], ids=str)
def test_a_preliminary_cover_of_a_survey_is_above_every_collection(flips: tuple[float, float], n: int = 3) -> None:
    """The same for two attributes, in each of which two positions change, for all crowds of all four."""
    parts = surveys.grouped([2, 3], [Noise(q) for q in flips])
    loss = surveys.cover(parts, "bits", n, preliminary=True)
    crowds = [[_position(ones, n - 1 - ones, Fraction(q)) for ones in range(n)] for q in flips for _ in range(2)]
    products = [_outcomes(chosen) for chosen in itertools.product(*crowds)]
    for epsilon in (0.0, 0.3, 1.0, 4.0):
        worst = max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) for a, b in products)
        assert loss.delta(epsilon) >= worst * (1 - 1e-9)


def _outcomes(positions: Sequence[list[tuple[float, float]]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = np.ones(1), np.ones(1)
    for one in positions:
        own, other = np.array(one).T
        first, second = np.outer(first, own).ravel(), np.outer(second, other).ravel()
    return first, second


def _position(ones: int, zeros: int, q: Fraction) -> list[tuple[float, float]]:
    """Return the probabilities of every count of set bits if the own bit is 1, and if it is 0."""
    crowd = [Fraction(1)]
    for chance in [1 - q] * ones + [q] * zeros:
        crowd = _sum(crowd, chance)
    return [(float(a), float(b)) for a, b in zip(_sum(crowd, 1 - q), _sum(crowd, q), strict=True)]


def _sum(pmf: list[Fraction], chance: Fraction) -> list[Fraction]:
    return [a * (1 - chance) + b * chance for a, b in zip([*pmf, Fraction(0)], [Fraction(0), *pmf], strict=True)]


def _product_delta(a: list[tuple[float, float]], b: list[tuple[float, float]], ratio: float) -> float:
    return math.fsum(max(0.0, p * r - ratio * q * s) for p, q in a for r, s in b)


@pytest.mark.parametrize("name", CASES)
def test_homogeneous_crowds_are_close_to_the_certificate(name: str) -> None:
    protocol, schema, n = CASES[name]
    fine = curve(protocol, schema, n, trust="shuffling")
    epsilon = fine.certified_epsilon(1e-6)
    found = likely_log_delta(split_positions(protocol, schema, n), epsilon)
    assert math.log(1e-6) - 0.5 < found < math.log(1e-6) + 0.3


@pytest.mark.parametrize(("n", "q", "k", "count"), [(1000, 0.1, 1, 2), (500, 0.2, 3, 2), (100_000, 1e-4, 1, 12)])
def test_homogeneous_crowds_have_the_delta_of_the_attack(n: int, q: float, k: int, count: int) -> None:
    """The attack is the same crowd, computed with bounds on every rounding."""
    known = split.attack(n, q, k, count)
    for delta in (1e-2, 1e-6, 1e-10):
        epsilon = known.epsilon(delta)
        assert likely_log_delta([(n, q, k, count)], epsilon) == pytest.approx(math.log(delta), abs=0.1)


def test_nothing_is_resolved_far_beyond() -> None:
    assert likely_log_delta([(1000, 0.1, 1, 2)], 4.0) < math.log(1e-12)


def test_a_preliminary_guarantee_says_what_the_fine_one_says() -> None:
    protocol, schema, n = CASES["one of 9"]
    fine, early = (prove(protocol, schema, n, epsilon=1.0, preliminary=flag) for flag in (False, True))
    assert fine.delta < early.delta < 3 * fine.delta  # about one percent in ε, so far in the tail
    assert (early.basis, early.method, early.assumptions) == (
        fine.basis,
        fine.method,
        fine.assumptions,
    )
