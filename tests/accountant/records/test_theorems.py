"""The theorems of slot exchange as printed, enumerated for small crowds: golden values, random mechanisms, climbing."""

import itertools
import math

import numpy as np
import pytest
from tests.accountant.records.exact import Floats, Setting, all_flipped, delta, lost

SLACK = 1e-12  # rounding errors of the enumeration


def bits_setting(width: int, q: float, records: list[int], epsilon: float) -> tuple[Setting, list[Floats], Floats]:
    """Return the setting of x = 0 against x' = all ones with the uniform blanket."""
    every = all_flipped(width, q)
    kinds = [every[record] for record in records]
    omega = np.full(2**width, 0.5**width)
    setting = Setting(every[0], every[-1], kinds, epsilon, (2 * q) ** width * (1 - 1e-13), omega)
    return setting, kinds, every


# width, q, {record: users}, ε, δ, Theorem 1, Theorem 5, Corollary 2
GOLDEN = [
    (1, 0.3, {0: 3, 1: 3}, 0.5, 0.0097520989, 0.0507120989, 0.0507120989, 0.0507120989),
    (1, 0.1, {0: 2, 1: 6}, 1.0, 0.0292777397, 0.5430727040, 0.5442004502, None),
    (1, 0.3, {0: 0, 1: 9}, 0.1, 0.0698804104, 0.0736814984, 0.0736814984, None),
    (2, 0.35, {0: 2, 3: 2, 1: 1}, 0.5, 0.0171338783, 0.2192166809, 0.2200659723, 0.2208377785),
    (2, 0.25, {0: 1, 3: 3}, 1.0, 0.0422436081, 0.7814880814, 0.7823982773, 0.7826717308),
]


@pytest.mark.parametrize(("width", "q", "crowd", "epsilon", "exact", "one", "five", "two"), GOLDEN)
def test_golden_values_of_theorem_1_theorem_5_and_corollary_2(
    width: int,
    q: float,
    crowd: dict[int, int],
    epsilon: float,
    exact: float,
    one: float,
    five: float,
    two: float | None,
) -> None:
    setting, kinds, every = bits_setting(width, q, list(crowd), epsilon)
    counts = list(crowd.values())
    assert delta(every[0], every[-1], kinds, counts, epsilon) == pytest.approx(exact, abs=6e-11)
    assert setting.theorem1(counts) == pytest.approx(one, abs=6e-11)
    assert setting.theorem5(counts, 0, 1) == pytest.approx(five, abs=6e-11)
    if two is not None:
        assert setting.corollary2(counts) == pytest.approx(two, abs=6e-11)


@pytest.mark.parametrize(("width", "q", "n"), [(1, 0.3, 6), (1, 0.1, 8), (2, 0.35, 4)])
def test_theorem_5_is_between_theorem_1_and_corollary_2_for_all_crowds(width: int, q: float, n: int) -> None:
    records = [0, 2**width - 1] + ([1] if width == 2 else [])
    for epsilon in (0.1, 0.5, 1.0):
        setting, kinds, every = bits_setting(width, q, records, epsilon)
        for counts in itertools.product(range(n + 1), repeat=len(records)):
            if sum(counts) == n:
                truth = delta(every[0], every[-1], kinds, counts, epsilon)
                one, five, two = setting.theorem1(counts), setting.theorem5(counts, 0, 1), setting.corollary2(counts)
                assert truth <= one + SLACK <= five + 2 * SLACK <= two + 3 * SLACK


def test_a_homogeneous_crowd_costs_only_the_lost_event() -> None:
    """For one kind the sum of Theorem 1 is the exact value, but for the event that at most one user is covered."""
    for q, n, epsilon in ((0.3, 9, 0.1), (0.2, 12, 0.3), (0.45, 7, 0.05)):
        setting, kinds, every = bits_setting(1, q, [1], epsilon)
        excess = setting.theorem1([n]) - delta(every[0], every[1], kinds, [n], epsilon)
        assert -SLACK <= excess <= lost(n, setting.gamma) + SLACK


def random_case(rng: np.random.Generator) -> tuple[Floats, list[int], float, float]:
    size = int(rng.choice([2, 2, 3]))
    count = int(rng.integers(2, 4)) if size == 2 else 2
    n = int(rng.integers(2, 10 if size == 2 and count == 3 else 16 if size == 2 else 7))
    weights = rng.normal(0, rng.choice([0.3, 1.0, 2.0]), (count, size))
    counts = rng.multinomial(n, rng.dirichlet(np.ones(count))).tolist()
    return weights, counts, float(rng.choice([1.0, 0.9, 0.5])), float(rng.choice([0, 0.05, 0.2, 0.5, 1.0, 2.0]))


def random_ratio(weights: Floats, counts: list[int], share: float, epsilon: float) -> float:
    """Return Theorem 1 over the exact δ(ε) of a random mechanism; ∞ where δ is too small to compare."""
    kinds = np.exp(weights)
    kinds /= kinds.sum(axis=1, keepdims=True)
    least = kinds.min(axis=0)
    if least.sum() > 0.995:
        return math.inf
    truth = delta(kinds[0], kinds[1], list(kinds), counts, epsilon)
    gamma = least.sum() * share * (1 - 1e-13)
    setting = Setting(kinds[0], kinds[1], list(kinds), epsilon, gamma, least / least.sum())
    return setting.theorem1(counts) / truth if truth > 1e-9 else math.inf


def climb(seed: int, cases: int) -> float:
    """Return the smallest ratio found by hill climbing in mechanism, crowd and ε."""
    rng = np.random.default_rng(seed)
    smallest = math.inf
    for _ in range(cases):
        weights, counts, share, epsilon = random_case(rng)
        here = random_ratio(weights, counts, share, epsilon)
        for _ in range(8):
            moved = list(counts)
            i, j = rng.choice(len(counts), 2, replace=False)
            if rng.random() < 0.5 and moved[i] > 0:
                moved[i] -= 1
                moved[j] += 1
            step = weights + rng.normal(0, 0.3, weights.shape)
            nearby = max(0.0, epsilon + rng.normal(0, 0.1))
            ratio = random_ratio(step, moved, share, nearby)
            if ratio < here:
                here, weights, counts, epsilon = ratio, step, moved, nearby
        smallest = min(smallest, here)
    return smallest


def test_random_mechanisms_never_exceed_theorem_1() -> None:
    assert 1 - 1e-9 < climb(1, 60) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_random_mechanisms_never_exceed_theorem_1(seed: int) -> None:
    assert 1 - 1e-9 < climb(seed, 400) < 1.5


def test_theorem_5_and_corollary_2_hold_for_random_mechanisms() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        weights, counts, share, epsilon = random_case(rng)
        kinds = np.exp(weights)
        kinds /= kinds.sum(axis=1, keepdims=True)
        least = kinds.min(axis=0)
        gamma = least.sum() * share * (1 - 1e-13)
        setting = Setting(kinds[0], kinds[1], list(kinds), epsilon, gamma, least / least.sum())
        truth = delta(kinds[0], kinds[1], list(kinds), counts, epsilon)
        assert truth <= setting.theorem1(counts) + SLACK
        assert setting.theorem1(counts) <= setting.theorem5(counts, 0, 1) + SLACK
        assert setting.theorem1(counts) <= setting.corollary2(counts) + SLACK
