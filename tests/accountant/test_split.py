"""Split bits: certified curves lie above every small collection, and attacks below."""

import itertools
import math
import warnings
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.attained import repeated
from hubbub.accountant.theorems import bit, split
from hubbub.accountant.theorems.split import attack, cover, positions
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial

Record = tuple[int, ...]
Counts = dict[tuple[int, ...], float]


def legal(schema: Schema) -> list[Record]:
    every = itertools.product((0, 1), repeat=schema.width)
    return [r for r in every if schema.min_set <= sum(r) <= schema.max_set]


def counts(records: tuple[Record, ...], q: float, k: int) -> Counts:
    """Return the distribution of the number of messages for each position, adding one message at a time."""
    distribution: Counts = {tuple(0 for _ in records[0]): 1.0}
    for record in records * k:
        grown: Counts = defaultdict(float)
        for flips in itertools.product((0, 1), repeat=len(record)):
            chance = math.prod(q if flip else 1 - q for flip in flips)
            for seen, probability in distribution.items():
                grown[tuple(c + (b ^ f) for c, b, f in zip(seen, record, flips, strict=True))] += chance * probability
        distribution = grown
    return distribution


def hockey(one: Counts, two: Counts, epsilon: float) -> float:
    ratio = math.exp(epsilon)
    return math.fsum(max(p - ratio * two.get(seen, 0.0), 0.0) for seen, p in one.items())


def worst(schema: Schema, n: int, q: float, k: int, epsilons: list[float]) -> list[float]:
    """Return the largest δ over all collections and all ordered pairs."""
    records = legal(schema)
    found = [0.0] * len(epsilons)
    for others in itertools.combinations_with_replacement(records, n - 1):
        distributions = {own: counts((*others, own), q, k) for own in records}
        for a, b in itertools.permutations(records, 2):
            found = [
                max(f, hockey(distributions[a], distributions[b], e)) for f, e in zip(found, epsilons, strict=True)
            ]
    return found


@pytest.mark.parametrize("q", [0.05, 0.25, 0.4])
@pytest.mark.parametrize(
    ("schema", "n", "k"),
    [
        (Schema.one_hot(2), 1, 1),
        (Schema.one_hot(2), 4, 1),
        (Schema.one_hot(2), 3, 2),
        (Schema.one_hot(3), 3, 1),
        (Schema.one_hot(3), 2, 2),
        (Schema.bits(2), 1, 2),
        (Schema.bits(2), 3, 1),
        (Schema.bits(2), 2, 2),
    ],
)
def test_all_collections(schema: Schema, n: int, k: int, q: float) -> None:
    """Both schemas have pairs that differ in two positions, and none that differ in more."""
    pure = 2 * k * math.log((1 - q) / q)
    epsilons = [0.0, 0.1 * pure, 0.3 * pure, 0.6 * pure, 0.9 * pure]
    certified, attacked = positions(n, q, k, 2), attack(n, q, k, 2)
    for epsilon, truth in zip(epsilons, worst(schema, n, q, k, epsilons), strict=True):
        assert attacked.delta(epsilon) * (1 - 1e-9) <= truth <= certified.delta(epsilon) * (1 + 1e-13)


@pytest.mark.parametrize(
    ("n", "q", "k", "count"),
    [
        (1, 1e-4, 1, 2),
        (1, 1e-4, 1, 4),
        (2, 1e-4, 1, 3),
        (1, 1e-3, 2, 3),
        (2, 0.01, 1, 5),
        (5, 0.25, 1, 4),
        (1, 0.3, 1, 6),
    ],
)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.97, 1.01, 1.5])
def test_an_attack_does_not_exceed_the_exact_pair(n: int, q: float, k: int, count: int, share: float) -> None:
    """Small crowds have losses far below their mean, which must not wrap around, and none beyond the pure ε."""
    crowd = binomial(k * (n - 1), 1 - q).pmf
    one, two = (np.convolve(crowd, binomial(k, chance).pmf) for chance in (1 - q, q))
    first, second = np.ones(1), np.ones(1)
    for _ in range(count):
        first, second = np.multiply.outer(first, one).ravel(), np.multiply.outer(second, two).ravel()
    epsilon = share * k * count * math.log((1 - q) / q)
    truth = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
    assert 0.9 * truth - 1e-14 <= attack(n, q, k, count).delta(epsilon) <= truth * (1 + 1e-9) + 1e-300
    assert positions(n, q, k, count).delta(epsilon) >= truth * (1 - 1e-12)


@given(st.lists(st.integers(0, 9), min_size=3, max_size=3), st.lists(st.integers(1, 9), min_size=3, max_size=3))
def test_repeated_distributions_are_rounded_down(one: list[int], two: list[int]) -> None:
    p, q = np.array([*one, 1]) / (sum(one) + 1), np.array([*two, 0]) / sum(two)
    p2, q2 = np.multiply.outer(p, p).ravel(), np.multiply.outer(q, q).ravel()
    for epsilon in (0.0, 0.4, 1.5, 4.0):
        truth = float(np.maximum(p2 - math.exp(epsilon) * q2, 0.0).sum())
        found = repeated(p, q, 2).delta(epsilon)
        assert truth * 0.97 - 1e-3 <= found <= truth * (1 + 1e-9)


@pytest.mark.parametrize(
    ("count", "n", "q", "epsilon"),
    [
        (1, 5000, 0.1964, 0.07949),
        (2, 5000, 0.1964, 0.1143),
        (5, 1000, 0.2449, 0.3376),
        (5, 5000, 0.1964, 0.1853),
        (40, 10**7, 0.3509, 0.003488),
        (2, 10**4, 0.1, 0.1439),
        (2, 10**6, 0.01, 0.0486),
    ],
)
def test_known_epsilons_at_a_millionth(count: int, n: int, q: float, epsilon: float) -> None:
    """The values of an independent program that connects the dots on a coarser grid."""
    certified, attacked = positions(n, q, 1, count).epsilon(1e-6), attack(n, q, 1, count).epsilon(1e-6)
    assert certified == pytest.approx(epsilon, rel=2e-3)
    assert attacked <= certified <= attacked * 1.004


@pytest.mark.parametrize(("n", "q", "k", "count"), [(500, 0.1, 1, 2), (2000, 0.05, 1, 5), (300, 0.3, 4, 3)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3, 0.6])
def test_the_attack_is_below_the_certificate(n: int, q: float, k: int, count: int, epsilon: float) -> None:
    assert attack(n, q, k, count).delta(epsilon) <= positions(n, q, k, count).delta(epsilon)


@pytest.mark.parametrize(("n", "q", "count"), [(5000, 0.1964, 2), (1000, 0.2449, 5)])
def test_another_accountant(n: int, q: float, count: int) -> None:
    """dp-accounting, applied to the homogeneous pair with losses rounded up, lies just above the attack."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dp_accounting.pld import privacy_loss_distribution

    crowd = binomial(n - 1, 1 - q)
    first, second = (np.convolve(crowd.pmf, binomial(1, chance).pmf) for chance in (1 - q, q))
    keep = (first > 1e-25) & (second > 1e-25)
    logs = [dict(enumerate(np.log(row[keep]).tolist())) for row in (first, second)]
    theirs = privacy_loss_distribution.from_two_probability_mass_functions(
        logs[1], logs[0], pessimistic_estimate=True, value_discretization_interval=1e-5, symmetric=False
    ).self_compose(count)
    for epsilon in (0.05, 0.1, 0.2):
        found = theirs.get_delta_for_epsilon(epsilon)
        assert attack(n, q, 1, count).delta(epsilon) <= found * (1 + 1e-6)
        assert found == pytest.approx(attack(n, q, 1, count).delta(epsilon), rel=2e-2)
        assert found <= positions(n, q, 1, count).delta(epsilon)


@pytest.mark.long
@settings(max_examples=12)
@given(st.integers(2, 400), st.integers(1, 400), st.floats(0.02, 0.45), st.floats(0.0, 2.0))
def test_delta_decreases_with_people_and_noise(n: int, more: int, q: float, epsilon: float) -> None:
    """Up to the tolerance of the covers."""
    base = positions(n, q, 1, 2).delta(epsilon)
    assert positions(n + more, q, 1, 2).delta(epsilon) <= base * 1.02 + 1e-15
    assert positions(n, (q + 0.49) / 2, 1, 2).delta(epsilon) <= base * 1.02 + 1e-15


def test_disjoint_distributions_are_distinguished() -> None:
    assert repeated(np.array([0.0, 1.0]), np.array([1.0, 0.0]), 3).delta(5.0) == pytest.approx(1.0)


def test_one_position_is_the_single_bit() -> None:
    assert positions(50, 0.2, 1, 1).delta(0.3) == cover(50, 0.2).delta(0.3)


def test_skipped_grid_points_stay_above_the_curve() -> None:
    """Rare bits: most points of the grid are chords, at or above the curve and less than two percent above it."""
    n, q, step, size = 1000, 0.01, 0.02, 200
    calls: list[int] = []

    def log_delta(i: int) -> float:
        calls.append(i)
        return float(bit.log_delta([n - 1.0], [0.0], q, step * i)[0])

    curve = split.sampled(log_delta, size, step)
    assert len(curve) == size + 1
    assert len(calls) < size
    exact = [math.exp(log_delta(i)) for i in range(size + 1)]
    assert all(a * (1 - 1e-9) <= b <= 1.02 * a for a, b in zip(exact, curve, strict=True))


def test_the_largest_delta_of_crowds_is_that_of_all() -> None:
    """Many ε in one call, from 0 to beyond the pure one, give what each of them gives alone."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        n, q, k = int(10 ** rng.uniform(1, 5)), float(10 ** rng.uniform(-4, -0.4)), int(rng.integers(1, 4))
        ones = np.unique(np.floor((n - 1) * np.linspace(0, 1, 20)))
        epsilons = bit.pure_epsilon(q, k) * np.concatenate([[0.0, 1.0, 1.5], rng.uniform(size=12) ** 3])
        found = bit.largest_log_delta(ones, n - 1 - ones, q, epsilons, k)
        every = np.array([bit.log_delta(ones, n - 1 - ones, q, float(x), k).max() for x in epsilons])
        assert (found[[1, 2]] == -np.inf).all()
        seen = every > -600.0
        assert found[seen] == pytest.approx(every[seen], abs=1e-4)


@pytest.mark.parametrize(
    ("n", "q", "count", "delta"), [(10**7, 1.4e-4, 40, 1e-6), (10**6, 1e-3, 200, 1e-8), (12, 0.3, 10, 1e-3)]
)
def test_chords_cost_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch, n: int, q: float, count: int, delta: float
) -> None:
    """Chords over a fall of 20 % in δ cost up to 0.05 % of ε over many positions."""
    split.cover.cache_clear()
    sampled = split.cover(n, q).power(count).epsilon(delta)
    monkeypatch.setattr(split, "BEND", 0.0)
    split.cover.cache_clear()
    full = split.cover(n, q).power(count).epsilon(delta)
    split.cover.cache_clear()
    assert full * (1 - 1e-12) <= sampled <= full * (1 + 1e-4)


def test_skipped_nodes_are_bounded_by_chords() -> None:
    """Of an almost straight curve few nodes are evaluated, and of a bent one nearly all."""
    for slope, most in ((1e-3, 30), (40.0, 200)):
        calls: list[int] = []

        def curve(i: int, slope: float = slope, calls: list[int] = calls) -> float:
            calls.append(i)
            return -slope * 0.01 * i

        nodes = np.array(split.sampled(curve, 200, 0.01))
        exact = np.exp(-slope * 0.01 * np.arange(201))
        assert (nodes >= exact).all()
        assert (nodes <= exact * (1 + 4 * split.BEND)).all()
        assert len(calls) == len(set(calls)) <= most + 1


def test_rounded_logarithms_do_not_lower_a_sampled_curve() -> None:
    exact = [3.0**-30 * math.exp(-i / 50) for i in range(101)]
    bounds = split.sampled(lambda i: math.log(exact[i]), 100, 0.02)
    assert all(bound >= value for bound, value in zip(bounds, exact, strict=True))
