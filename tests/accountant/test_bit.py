"""Single bits: tight upper bounds for every pair, and certified suprema over all collections."""

import functools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.theorems import pair as windows
from hubbub.accountant.theorems.bit import certified_epsilon, cut_blocks, log_delta, partition, pure_epsilon, supremum
from hubbub.errors import InvalidInput

mpmath.mp.dps = 40
mpf = mpmath.mpf

Row = list[mpmath.mpf]


def with_bits(row: Row, count: int, chance: mpmath.mpf) -> Row:
    """Return the distribution of a number after adding ``count`` bits, each 1 with this chance."""
    for _ in range(count):
        row = [a * (1 - chance) + b * chance for a, b in zip([*row, mpf(0)], [mpf(0), *row], strict=True)]
    return row


@functools.lru_cache(maxsize=512)
def pair(ones: int, zeros: int, q: float, k: int) -> tuple[Row, Row]:
    """Return the distributions of the number of set bits with the own bit 1 and 0, to 40 digits."""
    flip = mpf(q)
    crowd = with_bits(with_bits([mpf(1)], k * ones, 1 - flip), k * zeros, flip)
    return with_bits(crowd, k, 1 - flip), with_bits(crowd, k, flip)


def exact(ones: int, zeros: int, q: float, epsilon: float, k: int = 1) -> mpmath.mpf:
    """Return δ(ε) by its definition."""
    first, second = pair(ones, zeros, q, k)
    ratio = mpmath.exp(mpf(epsilon))
    return mpmath.fsum(max(a - ratio * b, 0) for a, b in zip(first, second, strict=True))


def excess(ones: int, zeros: int, q: float, epsilon: float, k: int = 1) -> float:
    """Return the excess of ln δ over the exact value."""
    return float(
        mpf(float(log_delta([ones], [zeros], q, epsilon, k)[0])) - mpmath.log(exact(ones, zeros, q, epsilon, k))
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("q", [0.01, 0.1, 0.25, 0.4, 0.49])
def test_every_small_pair_is_bounded_tightly(q: float, k: int) -> None:
    """All numbers of ones, and so both orders."""
    pure = k * math.log((1 - q) / q)
    for others in (0, 1, 2, 5, 9):
        for ones in range(others + 1):
            for epsilon in (0.0, 0.03 * pure, 0.2 * pure, 0.55 * pure, 0.9 * pure):
                assert 0 <= excess(ones, others - ones, q, epsilon, k) <= 1e-8


def test_one_call_handles_crowds_of_all_sizes() -> None:
    ones, zeros = np.array([0, 1, 7, 40, 3, 0, 25]), np.array([0, 0, 7, 1, 30, 12, 25])
    together = log_delta(ones, zeros, 0.07, 0.6, 2)
    for a, b, value in zip(ones.tolist(), zeros.tolist(), together.tolist(), strict=True):
        assert 0 <= mpf(value) - mpmath.log(exact(a, b, 0.07, 0.6, 2)) <= 1e-8


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("q", [0.001, 0.1, 0.25, 0.4])
@pytest.mark.parametrize("digits", [1, 3, 6, 9, 12, 14])
def test_next_to_the_pure_epsilon(q: float, k: int, digits: int) -> None:
    """There δ is a difference of nearly equal numbers; it still errs upwards."""
    epsilon = k * math.log((1 - q) / q) * (1 - 10.0**-digits)
    for ones, zeros in [(0, 0), (1, 0), (0, 1), (3, 4), (8, 0), (0, 8)]:
        assert 0 <= excess(ones, zeros, q, epsilon, k) <= 1e-8 + 1e-13 * k * 10.0**digits


@pytest.mark.parametrize(("q", "k"), [(0.1, 1), (0.3424383605797601, 1), (0.01, 3), (0.49, 2)])
def test_the_pure_epsilon_is_one(q: float, k: int) -> None:
    true = k * mpmath.log((1 - mpf(q)) / mpf(q))
    found = pure_epsilon(q, k)
    assert true <= found <= true * (1 + mpf("1e-13"))
    assert log_delta([5], [3], q, found, k)[0] == -math.inf
    assert log_delta([5], [3], q, math.nextafter(float(true), 0.0) * (1 - 1e-15), k)[0] > -math.inf


@pytest.mark.parametrize("q", [0.1, 0.25, 0.4])
def test_a_tilted_zero_that_is_a_fair_coin(q: float) -> None:
    """e^ε = (p² + q²)/(2pq): the characteristic function vanishes at the last node."""
    epsilon = math.log(((1 - q) ** 2 + q**2) / (2 * q * (1 - q)))
    for ones, zeros in [(4, 0), (0, 4), (5, 5), (0, 7)]:
        assert 0 <= excess(ones, zeros, q, epsilon) <= 1e-8


@pytest.mark.parametrize(
    ("ones", "zeros", "q", "epsilon", "k", "digits"),
    [
        (200, 0, 0.25, 0.95, 1, 20),
        (200, 50, 0.1, 2.0, 1, 40),
        (0, 160, 0.1, 2.1, 1, 100),
        (40, 40, 0.3, 2.2, 3, 40),
        (0, 210, 0.2, 1.35, 1, 75),
    ],
)
def test_deep_tails(ones: int, zeros: int, q: float, epsilon: float, k: int, digits: int) -> None:
    assert exact(ones, zeros, q, epsilon, k) < mpf(10) ** -digits
    assert 0 <= excess(ones, zeros, q, epsilon, k) <= 1e-7


def binomial_tail(n: int, chance: mpmath.mpf, s: int) -> mpmath.mpf:
    """Return P[Bin(n, chance) ≥ s] for s on either side, by a series that converges fast there."""
    if s <= n * chance:
        return 1 - binomial_tail(n, 1 - chance, n - s + 1)
    term = mpmath.exp(
        mpmath.loggamma(n + 1)
        - mpmath.loggamma(s + 1)
        - mpmath.loggamma(n - s + 1)
        + s * mpmath.log(chance)
        + (n - s) * mpmath.log(1 - chance)
    )
    total, odds = term, chance / (1 - chance)
    for j in range(s, n):
        term *= odds * (n - j) / (j + 1)
        total += term
        if term < total * mpf("1e-30"):
            break
    return total


def homogeneous(n: int, q: float, epsilon: float) -> mpmath.mpf:
    """Return max_t P[A ≥ t − 1]·p + P[A ≥ t]·q − e^ε(…), A ~ Bin(n − 1, p), if all others hold a 1."""
    flip_probability, ratio = mpf(q), mpmath.exp(mpf(epsilon))
    p, tilt = (
        1 - flip_probability,
        (ratio * (1 - flip_probability) - flip_probability) / (1 - flip_probability - ratio * flip_probability),
    )
    mean = int((n - 1) * p * tilt / (flip_probability + p * tilt))
    best = mpf(0)
    for t in range(mean - 1, mean + 4):
        upper, lower = binomial_tail(n - 1, p, t - 1), binomial_tail(n - 1, p, t)
        best = max(best, p * upper + flip_probability * lower - ratio * (flip_probability * upper + p * lower))
    return best


def test_two_hundred_digits_down() -> None:
    gap = mpf(float(log_delta([1999], [0], 0.25, 1.0)[0])) - mpmath.log(homogeneous(2000, 0.25, 1.0))
    assert homogeneous(2000, 0.25, 1.0) < mpf("1e-180")
    assert 0 <= gap <= 1e-8


def test_the_exponent_bounds_delta_below_the_smallest_float() -> None:
    value, truth = float(log_delta([9999], [0], 0.25, 1.0)[0]), mpmath.log(homogeneous(10**4, 0.25, 1.0))
    assert truth <= value <= -600


@pytest.mark.parametrize(
    ("n", "q", "epsilon"),
    [(10**5, 0.01, 0.119), (10**5, 0.1, 0.0283), (10**5, 0.333, 0.0066), (10**6, 0.25, 0.00319), (10**7, 0.01, 0.0095)],
)
def test_large_homogeneous_crowds_at_forty_digits(n: int, q: float, epsilon: float) -> None:
    gap = mpf(float(log_delta([n - 1], [0], q, epsilon)[0])) - mpmath.log(homogeneous(n, q, epsilon))
    assert 0 <= gap <= 1e-8


def test_a_mixed_crowd_of_hundreds() -> None:
    assert 0 <= excess(200, 150, 0.02, 0.9) <= 1e-9


def test_a_billion_people() -> None:
    assert math.exp(log_delta([10**9 - 1], [0], 0.01, 0.00073)[0]) == pytest.approx(1.00474478944e-6, rel=1e-5)
    assert math.exp(log_delta([10**9 - 1], [0], 0.01, 0.00073)[0]) >= 1.00474478944e-6 * (1 - 1e-11)


@pytest.mark.parametrize(
    ("ones", "zeros", "q", "epsilon", "delta"),
    [
        (999, 0, 0.009, math.log(2), 0.0116880538985233581),
        (0, 999, 0.009, math.log(2), 0.0004161803172965843),
        (99, 0, 0.1, math.log(2), 0.00338156039536887188),
        (0, 99, 0.1, math.log(2), 0.0000361425610634371633),
        (3, 1, 0.25, math.log(1.2), 27 / 160),
        (4, 0, 0.25, math.log(1.2), 729 / 5120),
        (0, 4, 0.25, math.log(1.2), 11 / 80),
    ],
)
def test_known_values(ones: int, zeros: int, q: float, epsilon: float, delta: float) -> None:
    found = math.exp(log_delta([ones], [zeros], q, epsilon)[0])
    assert delta * (1 - 1e-13) <= found <= delta * (1 + 1e-8)


def scan(n: int, q: float, epsilon: float, k: int) -> mpmath.mpf:
    return max(exact(ones, n - 1 - ones, q, epsilon, k) for ones in range(n))


@pytest.mark.parametrize(
    ("n", "q", "k"), [(1, 0.1, 1), (2, 0.25, 1), (7, 0.05, 2), (20, 0.3, 1), (24, 0.1, 1), (60, 0.1, 1), (12, 0.2, 3)]
)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.8])
def test_supremum_over_all_collections(n: int, q: float, k: int, share: float) -> None:
    epsilon = share * k * math.log((1 - q) / q)
    truth = mpmath.log(scan(n, q, epsilon, k))
    for tolerance in (1e-2, 1e-5):
        found = supremum(n, q, epsilon, k, tolerance=tolerance)
        assert found.lower - 1e-8 <= truth <= found.upper
        assert found.upper - found.lower <= math.log1p(tolerance) + 2e-8
        assert mpmath.log(exact(found.ones, n - 1 - found.ones, q, epsilon, k)) >= found.lower - 1e-8


@pytest.mark.parametrize(
    ("n", "q", "epsilon", "k"),
    [
        (1344, 0.425, 0.0145, 1),
        (1500, 0.49, 0.001, 1),
        (1000, 0.45, 0.008, 1),
        (260, 0.35, 0.06, 2),
        (190, 0.1, 0.2, 1),
    ],
)
def test_blocks_of_many_collections_are_bounded(n: int, q: float, epsilon: float, k: int) -> None:
    """Crowds that the first cut does not separate, and small ε, at which the worst one is none of those tried first."""
    ones = np.arange(n)
    truth = float(log_delta(ones, n - 1 - ones, q, epsilon, k).max())
    for tolerance in (1e-2, 1e-4):
        found = supremum(n, q, epsilon, k, tolerance=tolerance)
        assert found.lower - 1e-8 <= truth <= found.upper + 1e-9
        assert found.upper <= found.lower + math.log1p(tolerance) + 1e-8
    limits = truth - 1e-6, truth + 1e-6
    assert supremum(n, q, epsilon, k, limit=limits[0]).upper > limits[0]
    assert truth - 1e-9 <= supremum(n, q, epsilon, k, limit=limits[1]).upper <= limits[1]


@pytest.mark.parametrize(("n", "q", "epsilon"), [(40, 0.1, 0.5), (30, 0.25, 0.2), (60, 0.1, 1.0)])
def test_a_limit_is_decided_correctly(n: int, q: float, epsilon: float) -> None:
    truth = float(mpmath.log(scan(n, q, epsilon, 1)))
    assert supremum(n, q, epsilon, limit=truth - 1e-3).upper > truth - 1e-3
    assert truth <= supremum(n, q, epsilon, limit=truth + 1e-3).upper <= truth + 1e-3


@pytest.mark.parametrize(
    ("n", "q", "low", "high"), [(1000, 0.1, 0.377205, 0.377582), (10**7, 0.01, 0.0095338, 0.0095433)]
)
def test_certified_epsilon_of_known_crowds(n: int, q: float, low: float, high: float) -> None:
    attack, certificate = certified_epsilon(n, q, 1e-6)
    assert low - 1e-6 <= attack <= certificate <= high
    assert certificate <= attack * 1.001
    assert supremum(n, q, certificate).upper <= math.log(1e-6) + math.log1p(0.01)


@pytest.mark.parametrize(
    ("n", "q", "k", "delta"), [(9, 0.2, 1, 1e-3), (20, 0.1, 2, 1e-6), (3, 0.3, 1, 0.05), (30, 0.1, 1, 0.3)]
)
def test_certified_epsilon_of_small_crowds(n: int, q: float, k: int, delta: float) -> None:
    attack, certificate = certified_epsilon(n, q, delta, k)
    assert scan(n, q, certificate, k) <= delta
    assert attack <= certificate <= pure_epsilon(q, k)
    if attack > 0:
        assert scan(n, q, attack * (1 - 1e-3), k) > delta
    else:
        assert certificate == 0.0


@given(
    st.integers(0, 40),
    st.integers(0, 8),
    st.integers(0, 12),
    st.floats(0.01, 0.49),
    st.floats(0, 0.99),
    st.integers(1, 3),
)
def test_a_block_covers_its_collections(low: int, width: int, rest: int, q: float, share: float, k: int) -> None:
    """δ(i, others − i) ≤ δ(low, others − high) for i in [low, high]."""
    high, others = low + width, low + width + rest
    epsilon = share * k * math.log((1 - q) / q)
    inside = np.arange(low, high + 1)
    block = float(log_delta([low], [others - high], q, epsilon, k)[0])
    assert (log_delta(inside, others - inside, q, epsilon, k) <= block + 1e-8).all()


@pytest.mark.parametrize(("n", "q", "k"), [(30, 0.1, 1), (45, 0.25, 1), (12, 0.2, 3), (1, 0.3, 1)])
def test_a_partition_bounds_every_collection(n: int, q: float, k: int) -> None:
    """At the ε for which it was made, and at all others."""
    pure = k * math.log((1 - q) / q)
    ones, zeros = partition(n, q, [0.1 * pure, 0.4 * pure], k)
    ones_among_others = np.arange(n)
    for share in (0.0, 0.05, 0.1, 0.25, 0.4, 0.6, 0.9):
        truth = log_delta(ones_among_others, n - 1 - ones_among_others, q, share * pure, k).max()
        covered = log_delta(ones, zeros, q, share * pure, k).max()
        assert covered >= truth - 1e-8
        if share in (0.1, 0.4):
            assert covered <= truth + 0.021


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 50)), min_size=1, max_size=5), st.integers(2, 64))
def test_blocks_are_cut_without_loss(blocks: list[tuple[int, int]], parts: int) -> None:
    low = np.array([start for start, _ in blocks])
    high = low + np.array([width for _, width in blocks])
    start, end = cut_blocks(low, high, parts)
    pieces = [i for a, b in zip(start.tolist(), end.tolist(), strict=True) for i in range(a, b + 1)]
    assert sorted(pieces) == sorted(
        i for a, b in zip(low.tolist(), high.tolist(), strict=True) for i in range(a, b + 1)
    )
    assert len(start) <= parts * len(blocks)


crowds = st.tuples(
    st.integers(0, 10**6), st.integers(0, 10**6), st.floats(1e-4, 0.499), st.floats(0, 1.5), st.integers(1, 4)
)
SLACK = 1e-7  # two values that each err upwards by less


@given(crowds, st.floats(0, 2))
def test_delta_decreases_with_epsilon(crowd: tuple[int, int, float, float, int], more: float) -> None:
    ones, zeros, q, epsilon, k = crowd
    assert log_delta([ones], [zeros], q, epsilon + more, k)[0] <= log_delta([ones], [zeros], q, epsilon, k)[0] + SLACK


@given(crowds, st.integers(0, 1000), st.integers(0, 1000))
def test_delta_decreases_with_the_crowd(crowd: tuple[int, int, float, float, int], a: int, b: int) -> None:
    ones, zeros, q, epsilon, k = crowd
    assert log_delta([ones + a], [zeros + b], q, epsilon, k)[0] <= log_delta([ones], [zeros], q, epsilon, k)[0] + SLACK


@given(crowds, st.floats(0, 1))
def test_delta_decreases_with_q(crowd: tuple[int, int, float, float, int], share: float) -> None:
    ones, zeros, q, epsilon, k = crowd
    noisier = q + share * (0.4999 - q)
    assert log_delta([ones], [zeros], noisier, epsilon, k)[0] <= log_delta([ones], [zeros], q, epsilon, k)[0] + SLACK


@given(st.integers(1, 3000), st.integers(0, 3000), st.floats(0.001, 0.49), st.floats(1e-12, 0.1))
def test_the_certificate_decreases_with_the_crowd(n: int, more: int, q: float, delta: float) -> None:
    assert certified_epsilon(n + more, q, delta)[1] <= certified_epsilon(n, q, delta)[1] * 1.002 + 1e-9


def test_delta_increases_with_copies() -> None:
    for epsilon in (0.1, 0.5, 1.0):
        values = [supremum(200, 0.2, epsilon, k).upper for k in (1, 2, 4, 8)]
        assert values == sorted(values)


@pytest.mark.parametrize(
    "call",
    [
        lambda: log_delta([1], [1], 0.0, 1.0),
        lambda: log_delta([1], [1], 0.5, 1.0),
        lambda: log_delta([1], [1], 0.1, -1.0),
        lambda: log_delta([1], [1], 0.1, math.nan),
        lambda: log_delta([1], [1], 0.1, 1.0, 0),
        lambda: log_delta([1, 2], [1], 0.1, 1.0),
        lambda: log_delta([[1]], [[1]], 0.1, 1.0),
        lambda: log_delta([-1], [1], 0.1, 1.0),
        lambda: log_delta([1], [-1], 0.1, 1.0),
        lambda: supremum(0, 0.1, 1.0),
        lambda: supremum(10**13, 0.1, 1.0),
        lambda: partition(0, 0.1, [0.1]),
        lambda: certified_epsilon(10, 0.1, 0.0),
        lambda: certified_epsilon(10, 0.1, 1.0),
        lambda: certified_epsilon(10, 0.7, 1e-6),
    ],
)
def test_bad_input(call: object) -> None:
    with pytest.raises(InvalidInput):
        call()  # type: ignore[operator]


@pytest.mark.parametrize(("q", "epsilon"), [(0.1, 0.05), (0.1, 0.5), (0.25, 0.5), (0.25, 0.9)])
@pytest.mark.parametrize("decay", [1.0, 4.0])
def test_nodes_that_are_dropped_are_allowed_for(
    decay: float, q: float, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among these crowds are some of which the last node alone is dropped."""
    monkeypatch.setattr(windows, "DECAY", decay)
    tilts, _ = windows.tilted(q, 1, np.array([epsilon]), 1)
    for n in range(2, 40):
        for ones, zeros in ((n, 0), (0, n)):
            window = windows.Window(tilts, np.array([0]), np.array([float(ones)]), np.array([float(zeros)]))
            exact = windows.enumerated(ones, zeros, q, epsilon, 1)
            assert exact <= window.bound(1)[0]


def window(ones: int, zeros: int, q: float, epsilon: float, k: int, side: int) -> windows.Window:
    """Return the window of one pair."""
    tilts, _ = windows.tilted(q, k, np.array([epsilon]), side)
    return windows.Window(tilts, np.array([0]), np.array([float(ones)]), np.array([float(zeros)]))


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(("ones", "zeros", "epsilon"), [(3, 1, 0.01), (3, 1, 0.5), (2000, 50, 0.1), (10**6, 10, 0.02)])
@pytest.mark.parametrize("k", [1, 3])
def test_exponents_that_err_by_their_rounding_are_allowed_for(
    ones: int, zeros: int, epsilon: float, k: int, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, found = (window(ones, zeros, 0.2, epsilon, k, side) for _ in range(2))
    truth = exact.bound(side)[0]
    monkeypatch.setattr(windows, "ULPS", 1e-7)  # of the exponents, but not of the nodes
    found.base = found.base - side * 0.99e-7 * (2 * found.tilt.theta * (found.mean + 4.0 * k) + 64.0)
    assert side * (found.bound(side)[0] - truth) >= 0


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(("ones", "zeros"), [(1, 1), (8, 3), (60, 60)])
@pytest.mark.parametrize("k", [1, 4, 30])
def test_nodes_that_err_by_their_rounding_are_allowed_for(
    ones: int, zeros: int, k: int, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A phase errs by units of mean·w, a power by units of variance·w², products and sums by their numbers of terms."""
    truth = window(ones, zeros, 0.3, 0.2, k, side).bound(side)[0]
    with monkeypatch.context() as amplified:
        amplified.setattr(windows, "ULPS", 1e-9)  # of the nodes, but not of the exponents
        found = window(ones, zeros, 0.3, 0.2, k, side)
    sizes = found.weight * np.exp(-found.variance * 2 * np.sin(found.w / 2) ** 2)
    units = 8.0 + (k + len(found.w)) / 8 + found.mean * found.w + found.variance * found.w**2
    error = 0.999e-9 * float((sizes * units).sum()) * k * found.tilt.gap * np.exp(found.tilt.theta / 2)
    sums = found.sums

    def rough(self: windows.Window, start: windows.Floats, count: int) -> tuple[windows.Floats, windows.Floats]:
        h, difference = sums(start, count)
        return h - side * error[:, None], difference

    monkeypatch.setattr(windows.Window, "sums", rough)
    assert side * (found.bound(side)[0] - truth) >= 0
