"""Certificates of slot exchange: the stated figures, all crowds enumerated, and every corner."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.accountant.records.exact import Floats, all_flipped, compositions, flipped, supremum

from hubbub.accountant.theorems import bit
from hubbub.accountant.theorems.attacks import background, backgrounds
from hubbub.accountant.theorems.records import blanket, bound, bracket, exchange, local
from hubbub.accountant.theorems.records.exchange import log_lost
from hubbub.accountant.theorems.records.kinds import family
from hubbub.model.schema import Schema

LOG_DELTA = math.log(1e-6)

TABLE = [  # schema, N, q, certified ε at δ = 10⁻⁶ at most, attack
    (Schema.bits(5), 10**3, 0.2446, 1.07, 1.0432),
    (Schema.bits(5), 10**5, 0.1467, 0.697, 0.6927),
    (Schema.bits(3), 2 * 10**4, 0.15, 0.317, 0.3144),
    (Schema.bits(8), 10**7, 0.1493, 0.699, 0.6933),
    (Schema.bits(13), 10**6, 0.2842, 0.4205, 0.4097),
    (Schema.bits(40), 10**7, 0.3835, 0.757, 0.6955),
    (Schema.at_most(3, 40), 10**5, 0.1932, 0.698, 0.6933),
    (Schema.one_hot(40), 10**3, 0.25, 0.3115, 0.3095),
]


def best_attack(schema: Schema, q: float, n: int, epsilon: float) -> float:
    """Return ln δ of the worst crowd in which all others hold one record, from below."""
    return max(bracket(*background(kind, q, epsilon), n).lower for kind in backgrounds(schema))


@pytest.mark.parametrize(("schema", "n", "q", "most", "attack"), TABLE, ids=repr)
def test_certified_epsilon_of_the_table(schema: Schema, n: int, q: float, most: float, attack: float) -> None:
    assert exchange(schema, q, n, most) <= LOG_DELTA
    assert bound(schema, q, n, most, LOG_DELTA) <= LOG_DELTA
    value = exchange(schema, q, n, attack)
    assert value >= best_attack(schema, q, n, attack)
    assert value > LOG_DELTA


def least_flip(deviation: float) -> float:
    """Return the q at which √(q(1−q))/(1−2q), the standard error of a count over √n, has this value."""
    return (1 - 1 / math.sqrt(1 + 4 * deviation**2)) / 2


@pytest.mark.parametrize(("width", "n", "deviation"), [(5, 10**3, 1.005), (13, 10**6, 0.981), (8, 10**5, 0.777)])
def test_calibrated_standard_errors(width: int, n: int, deviation: float) -> None:
    """At (ln 2, 10⁻⁶) a flip probability with this standard error over √n suffices."""
    assert exchange(Schema.bits(width), least_flip(deviation), n, math.log(2)) <= LOG_DELTA


@pytest.mark.parametrize(("schema", "n", "q", "most", "attack"), TABLE[:4], ids=repr)
def test_never_above_the_blanket(schema: Schema, n: int, q: float, most: float, attack: float) -> None:
    for epsilon in (0.0, attack / 3, attack, 2 * most):
        value = bound(schema, q, n, epsilon)
        assert value <= min(blanket(schema, q, n, epsilon), local(schema, q, epsilon))


Histograms = tuple[NDArray[np.int64], Floats]
"""Histograms of messages, as numbers in the base n + 1, and their probabilities."""

EMPTY: Histograms = (np.zeros(1, np.int64), np.ones(1))


def added(crowd: Histograms, message: Floats, base: int) -> Histograms:
    """Return the histograms with one more message."""
    grown = np.add.outer(crowd[0], base ** np.arange(len(message))).ravel()
    found, where = np.unique(grown, return_inverse=True)
    chances = np.bincount(where.ravel(), np.outer(crowd[1], message).ravel())
    return found.astype(np.int64), chances.astype(np.float64)


def sparse_delta(every: Floats, x: int, other: int, crowd: NDArray[np.int64], epsilon: float) -> float:
    """Return δ(ε) of one crowd."""
    histograms = EMPTY
    for record in crowd:
        histograms = added(histograms, every[record], len(crowd) + 2)
    one, two = (added(histograms, every[record], len(crowd) + 2)[1] for record in (x, other))
    return float(np.maximum(one - math.exp(epsilon) * two, 0).sum())


def assert_above(schema: Schema, q: float, n: int, truths: dict[float, float], least: float) -> None:
    """The certificate lies above the truth wherever there is one; at least ``least`` of the cases have one."""
    used = 0
    for epsilon, truth in truths.items():
        if truth > 1e-12:
            assert bound(schema, q, n, epsilon) >= math.log(truth)
            value = exchange(schema, q, n, epsilon)
            assert value >= math.log(truth)
            used += value < 0
    assert used >= least * len(truths)


EPSILONS = (0.0, 0.05, 0.2, 0.5, 0.8, 1.2)


def check_two_bits(n: int, q: float, least: float = 0.5) -> None:
    truths = supremum(all_flipped(2, q), n, EPSILONS, [(0, 1), (0, 2), (0, 3)])
    assert_above(Schema.bits(2), q, n, truths, least)


@pytest.mark.parametrize("q", [pytest.param(0.42, marks=pytest.mark.slow), 0.45])
def test_all_crowds_of_two_bits_and_16_users(q: float) -> None:
    """All 816 crowds; flips of positions map every pair to one of the three."""
    check_two_bits(16, q)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "q"), [(20, 0.4), (24, 0.3), (24, 0.38), (28, 0.35), (28, 0.4), (28, 0.45)])
def test_all_crowds_of_two_bits_up_to_28_users(n: int, q: float) -> None:
    check_two_bits(n, q, 0.0 if q == 0.3 else 0.5)


def all_pairs(count: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(count) for j in range(count) if i != j]


@pytest.mark.parametrize("q", [pytest.param(0.3, marks=pytest.mark.slow), 0.4])
def test_all_crowds_of_at_most_one_of_two_labels(q: float) -> None:
    kinds = np.array([flipped(record, q) for record in ((0, 0), (0, 1), (1, 0))])
    truths = supremum(kinds, 22, (0.0, 0.05, 0.2, 0.4), all_pairs(3))
    assert_above(Schema.at_most(1, 2), q, 22, truths, 0.25)


@pytest.mark.parametrize(("n", "q"), [(11, 0.47), pytest.param(12, 0.45, marks=pytest.mark.slow)])
def test_all_crowds_of_one_of_three_labels(n: int, q: float) -> None:
    """All pairs are alike, so that both orders of one are all."""
    kinds = np.array([flipped(record, q) for record in ((1, 0, 0), (0, 1, 0), (0, 0, 1))])
    truths = dict.fromkeys((0.0, 0.05, 0.1), 0.0)

    @cache
    def crowd(counts: tuple[int, ...]) -> Histograms:
        last = max(i for i, count in enumerate(counts) if count)
        fewer = tuple(count - (i == last) for i, count in enumerate(counts))
        return added(crowd(fewer) if any(fewer) else EMPTY, kinds[last], n + 1)

    for counts in compositions(n - 1, 3).tolist():
        one, two = (added(crowd(tuple(counts)), kinds[i], n + 1)[1] for i in (0, 1))
        for epsilon, first, second in itertools.product(truths, (one, two), (one, two)):
            found = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
            truths[epsilon] = max(truths[epsilon], found)
    assert_above(Schema.one_hot(3), q, n, truths, 0.6)


def test_single_bits_against_the_exact_supremum_over_all_crowds() -> None:
    for n in (60, 1000, 10**6):
        for q in (0.05, 0.25, 0.45):
            for epsilon in (0.01, 0.1, 0.6):
                truth = bit.supremum(n, q, epsilon, tolerance=1e-3).lower
                if truth > -60 and exchange(Schema.bits(1), q, n, epsilon) < math.inf:
                    assert truth < exchange(Schema.bits(1), q, n, epsilon) < truth + 12


def climb_crowds(n: int, q: float, epsilon: float, steps: int, seed: int) -> float:
    """Return ln δ of the worst crowd of three-bit records found by hill climbing, over pairs of all distances."""
    rng = np.random.default_rng(seed)
    every = all_flipped(3, q)
    best = -math.inf
    for other in (1, 3, 7):
        crowd = rng.integers(0, 8, n - 1)
        here = 0.0
        for _ in range(steps):
            moved = crowd.copy()
            moved[rng.integers(n - 1)] = rng.integers(0, 8)
            value = sparse_delta(every, 0, other, moved, epsilon)
            if value >= here:
                here, crowd = value, moved
        best = max(best, math.log(max(here, 1e-300)))
    return best


def check_climbing(n: int, q: float, steps: int, seed: int) -> None:
    for epsilon in (0.05, 0.2):
        value = exchange(Schema.bits(3), q, n, epsilon)
        assert value < 0
        assert value >= climb_crowds(n, q, epsilon, steps, seed)


def test_mixed_crowds_of_three_bits_by_hill_climbing() -> None:
    check_climbing(11, 0.47, 6, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "q", "seed"), [(12, 0.46, 2), (12, 0.47, 3), (13, 0.45, 4)])
def test_mixed_crowds_of_three_bits_by_longer_hill_climbing(n: int, q: float, seed: int) -> None:
    check_climbing(n, q, 40, seed)


def check_attacks(seed: int, cases: int) -> None:
    """Random settings lie above every homogeneous crowd."""
    rng = np.random.default_rng(seed)
    used = 0
    while used < cases:
        width, n = int(rng.integers(1, 9)), int(10 ** rng.uniform(1.5, 9))
        schema = Schema.bits(width) if rng.random() < 0.7 else Schema.at_most(min(width, 3), 40)
        q = float(rng.uniform(0.02, 0.47)) if rng.random() < 0.5 else float(10 ** rng.uniform(-3, -0.4))
        odds = (1 - q) / q
        deviation = math.sqrt((odds + 1 / odds - 1) ** schema.distance / n)
        epsilon = min(deviation * rng.uniform(0.5, 6), 3.0)
        value = exchange(schema, q, n, epsilon)
        attack = best_attack(schema, q, n, epsilon)
        if math.isfinite(value) and attack > -60:
            used += 1
            assert value > attack


def test_random_settings_against_homogeneous_crowds() -> None:
    check_attacks(23, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_random_settings_against_homogeneous_crowds(seed: int) -> None:
    check_attacks(100 + seed, 250)


@pytest.mark.parametrize(
    ("schema", "q", "n", "epsilon"),
    [
        (Schema.bits(40), 1e-9, 10**6, 1.0),  # likelihood ratios overflow
        (Schema.bits(40), 1e-6, 10**6, 1.0),
        (Schema.bits(5), 0.1, 100, 6.0),  # fewer covered users than the theorem needs
        (Schema.bits(1000), 0.4999, 10**6, 0.3),
        (Schema.at_most(20, 10**4), 0.4, 10**6, 0.5),
        (Schema.bits(2), 0.25, 1000, 700.0),  # beyond the pure ε
        (Schema.bits(1), 1e-300, 10**9, 1.0),
    ],
)
def test_nothing_finite_is_no_bound_and_no_exception(schema: Schema, q: float, n: int, epsilon: float) -> None:
    """Point 5: no crash, no NaN; without a finite result there is no bound, and the others remain."""
    assert exchange(schema, q, n, epsilon) == math.inf
    assert bound(schema, q, n, epsilon) <= 0.0


def test_large_scores_and_large_epsilon_do_not_crash() -> None:
    """Point 5: the choice of a limit on the scores is never empty."""
    for epsilon in (5.5, 7.0, 9.0):
        value = exchange(Schema.bits(2), 0.003, 10**6, epsilon)
        assert value < 0.0 or value == math.inf
    assert exchange(Schema.bits(3), 0.001, 10**12, 5.5) < 0.0


def test_guards_for_one_user_certain_cover_and_epsilon_zero() -> None:
    """Point 6: n = 0 others, γ = 1 and ε = 0."""
    schema = Schema.bits(2)
    assert exchange(schema, 0.25, 1, 0.1) == math.inf
    assert exchange(schema, 0.25, 2, 0.1) == math.inf
    assert exchange(schema, 0.5, 1000, 0.0) == math.inf
    assert bound(schema, 0.5, 1000, 0.0) == -math.inf
    assert bound(schema, 0.25, 1, 0.1) == local(schema, 0.25, 0.1)
    assert log_lost(0, 0.5) == 0.0
    zero = exchange(schema, 0.25, 1000, 0.0)
    assert best_attack(schema, 0.25, 1000, 0.0) < zero < 0.0
    assert exchange(schema, 0.25, 1000, 1e-300) == pytest.approx(zero, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 1e-7])
def test_flips_close_to_one_half(epsilon: float) -> None:
    value = exchange(Schema.bits(3), 0.4999999, 100, epsilon)
    assert best_attack(Schema.bits(3), 0.4999999, 100, epsilon) < value < local(Schema.bits(3), 0.4999999, epsilon)


@pytest.mark.parametrize(("q", "epsilon"), [(0.25, 1e-5), (0.01, 3e-5)])
def test_a_trillion_users(q: float, epsilon: float) -> None:
    value = exchange(Schema.bits(1), q, 10**12, epsilon)
    assert best_attack(Schema.bits(1), q, 10**12, epsilon) < value < 0.0


@pytest.mark.parametrize(("schema", "n", "q"), [(Schema.bits(5), 1000, 0.2446), (Schema.at_most(2, 9), 10**5, 0.1)])
def test_certificates_fall_in_epsilon_and_in_the_number_of_users(schema: Schema, n: int, q: float) -> None:
    """The choices differ from one ε to the next, by less than 0.02 in ln δ."""
    scale = 6 * math.sqrt(((1 - q) / q) ** schema.distance / n)
    curve = [exchange(schema, q, n, epsilon) for epsilon in np.linspace(0.02, 1.2, 9) * min(scale, 1.2)]
    assert all(after <= before + 0.02 for before, after in itertools.pairwise(curve))
    crowds = [exchange(schema, q, int(n * factor), 0.6 * min(scale, 1.2)) for factor in (1, 1.1, 1.5, 3, 10)]
    assert all(after <= before + 0.02 for before, after in itertools.pairwise(crowds))


def test_a_target_only_stops_the_evaluation_early() -> None:
    for schema, q, n, epsilon in ((Schema.bits(5), 0.2446, 1000, 1.05), (Schema.bits(8), 0.1493, 10**7, 0.695)):
        value = exchange(schema, q, n, epsilon)
        for target in (value - 0.3, value + 0.3):
            stopped = exchange(schema, q, n, epsilon, target)
            assert stopped >= value - 1e-9
            assert (stopped <= target) == (value <= target)


def test_results_do_not_depend_on_earlier_calls() -> None:
    first = exchange(Schema.bits(4), 0.2, 5000, 0.5)
    for epsilon in (0.1, 0.9, 0.49):
        exchange(Schema.bits(4), 0.2, 5000, epsilon)
    assert exchange(Schema.bits(4), 0.2, 5000, 0.5) == first


def test_the_lost_event_is_rounded_up() -> None:
    for n, gamma in ((10, 0.5), (30, 0.2), (1000, 0.03)):
        exact = (1 - gamma) ** n + n * gamma * (1 - gamma) ** (n - 1)
        assert exact < math.exp(log_lost(n, gamma)) < exact * (1 + 1e-9)
    kinds = family(Schema.bits(3), 0.3)
    assert kinds is not None
    assert log_lost(100, kinds.gamma) >= log_lost(100, 0.6**3)
