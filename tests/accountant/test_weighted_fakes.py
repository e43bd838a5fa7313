"""Theorem 1F of slot exchange: as printed, for random mechanisms, and its certificate for bit vectors among fakes."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hubbub.accountant.theorems import bit
from hubbub.accountant.theorems.records.fakes import Companions, bound_with_fakes, pool, weight_of_fakes
from hubbub.accountant.theorems.records.weighted import weighted, weights
from hubbub.model.schema import Schema

Floats = NDArray[np.float64]


def multinomial(count: int, chances: Floats) -> tuple[Floats, Floats]:
    """Return all histograms of ``count`` messages, and their probabilities."""
    rows = [row for row in itertools.product(range(count + 1), repeat=len(chances)) if sum(row) == count]
    ways = [math.factorial(count) / math.prod(math.factorial(c) for c in row) for row in rows]
    probabilities = [
        w * math.prod(p**c for p, c in zip(chances, row, strict=True)) for w, row in zip(ways, rows, strict=True)
    ]
    return np.array(rows, dtype=float), np.array(probabilities)


def truth(first: Floats, second: Floats, senders: list[Floats], epsilon: float) -> float:
    """Return the exact δ of one message among those of the senders."""
    size = len(first)

    def histogram(parts: list[Floats]) -> dict[tuple[int, ...], float]:
        found = {(0,) * size: 1.0}
        for part in parts:
            grown: dict[tuple[int, ...], float] = {}
            for seen, probability in found.items():
                for s in range(size):
                    key = (*seen[:s], seen[s] + 1, *seen[s + 1 :])
                    grown[key] = grown.get(key, 0.0) + probability * float(part[s])
            found = grown
        return found

    one, two = histogram([*senders, first]), histogram([*senders, second])
    return sum(max(p - math.exp(epsilon) * two[seen], 0.0) for seen, p in one.items())


def printed(
    pair: tuple[Floats, Floats], kinds: list[Floats], counts: list[int], m: int, epsilon: float, gamma: float,
    omega: Floats, theta: float,
) -> float:  # fmt: skip
    """Return the right side of (8), with the chances a_k of weight θ, limited to 1/k."""
    difference = pair[0] - math.exp(epsilon) * pair[1]
    scores, fake = [difference / mu for mu in kinds], difference / omega
    left = [np.maximum(mu - gamma * omega, 0.0) / (1 - gamma) for mu in kinds]
    chances = [0.0]
    for k in range(sum(counts) + 1):
        chances.append(min(theta * (1 - (1 - gamma) * k * chances[k]) / (gamma * (k + m + 1)), 1 / (k + 1)))
    total = 0.0
    for covered in itertools.product(*(range(count + 1) for count in counts)):
        k = sum(covered)
        weight = math.prod(
            math.comb(count, c) * gamma**c * (1 - gamma) ** (count - c)
            for count, c in zip(counts, covered, strict=True)
        )
        mean = (1 - k * chances[k]) * fake + gamma * chances[k] * sum(
            (c * score for c, score in zip(covered, scores, strict=True)), np.zeros_like(fake)
        )
        rows, probabilities = multinomial(k + m + 1, omega)
        values = rows @ mean / (k + m + 1)
        for count, c, score, message in zip(counts, covered, scores, left, strict=True):
            named, chance = multinomial(count - c, message)
            values = np.add.outer(values, named @ score * gamma * chances[k + 1]).ravel()
            probabilities = np.multiply.outer(probabilities, chance).ravel()
        total += weight * float(probabilities @ np.maximum(values, 0.0))
    return total


def check_printed(cases: int, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    ratios = []
    for _ in range(cases):
        size = int(rng.choice([2, 2, 3]))
        n, m = (int(rng.integers(low, high)) for low, high in ((0, 6 if size == 2 else 4), (1, 7 if size == 2 else 4)))
        kinds = list(rng.dirichlet(np.full(size, rng.choice([0.5, 1.0, 4.0])), size=2) + 1e-3)
        kinds = [mu / mu.sum() for mu in kinds]
        least = np.minimum(*kinds)
        omega, gamma = least / least.sum(), float(least.sum() * rng.choice([1.0, 0.7])) * (1 - 1e-13)
        counts = [int(c) for c in rng.multinomial(n, [0.5, 0.5])]
        epsilon, theta = float(rng.choice([0.0, 0.1, 0.5, 1.0])), float(rng.choice([0.0, 0.2, 1.0]))
        senders = [mu for mu, count in zip(kinds, counts, strict=True) for _ in range(count)] + [omega] * m
        exact = truth(kinds[0], kinds[1], senders, epsilon)
        bound = printed((kinds[0], kinds[1]), kinds, counts, m, epsilon, gamma, omega, theta)
        assert exact <= bound + 1e-12, (counts, m, epsilon, theta)
        if exact > 1e-9 and theta == 1.0:
            ratios.append(bound / exact)
    return ratios


def test_the_theorem_as_printed() -> None:
    ratios = check_printed(200, 9)
    assert np.median(ratios) < 1.01


@pytest.mark.slow
def test_the_theorem_as_printed_in_many_cases() -> None:
    assert np.median(check_printed(1500, 10)) < 1.01


def test_single_bits_against_the_exact_supremum() -> None:
    rng = np.random.default_rng(3)
    schema, gaps = Schema.bits(1), []
    for _ in range(60):
        n, m = int(10 ** rng.uniform(0.5, 4.5)), int(10 ** rng.uniform(0, 4))
        q = float(rng.uniform(0.02, 0.48))
        epsilon = bit.certified_epsilon(n, q, float(10 ** rng.uniform(-12, -1)), fair=m)[0]
        exact = bit.supremum(n, q, epsilon, fair=m, tolerance=1e-3).lower
        bound = weighted(1, q, n - 1, m, epsilon, weight_of_fakes(schema, q))
        assert exact <= bound
        if math.isfinite(bound):
            gaps.append(bound - exact)
    assert len(gaps) > 30
    assert np.median(gaps) < 0.3


def test_weights_bound_the_recursion() -> None:
    for n, m, gamma, theta in (
        (50, 40, 0.1, 0.2),
        (9, 3, 0.3, 0.4),
        (3000, 10, 0.05, 0.03),
        (10**6, 10**5, 0.04, 0.05),
    ):
        found = weights(n, m, gamma, theta)
        assert found is not None
        assert found.lost < -60
        k, now = 0, 0.0
        for k in range(min(n, 3)):
            pooled = (1 - (1 - gamma) * k * now) / (k + m + 1)
            if n < 10**5:
                assert pooled <= found.most
                assert pooled <= found.factor / (k + found.shift)
            now = theta * pooled / gamma


@pytest.mark.parametrize(("width", "q", "n", "m", "epsilon"), [(5, 0.25, 1000, 100, 0.7), (3, 0.2, 1000, 100, 0.7)])
def test_weights_prove_more_than_the_pool(width: int, q: float, n: int, m: int, epsilon: float) -> None:
    schema = Schema.bits(width)
    bound = weighted(width, q, n - 1, m, epsilon, weight_of_fakes(schema, q))
    assert bound < pool(schema, q, n - 1, epsilon, Companions(fixed=m)) - 1.5
    assert bound_with_fakes(schema, q, n, epsilon, Companions(fixed=m)) <= bound


def test_nothing_is_proven_without_fakes_or_users() -> None:
    assert weighted(2, 0.2, 10, 0, 0.5, 0.1) == math.inf
    assert weighted(2, 0.2, 0, 10, 0.5, 0.1) == math.inf
    assert weighted(40, 0.2, 10, 10, 0.5, 0.1) == math.inf
    assert not math.isnan(weighted(2, 1e-9, 10, 10, 0.5, 1e-18))
