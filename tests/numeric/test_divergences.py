"""Hockey-stick δ: golden values in both orders, general properties, and the exact smallest flip probability."""

import itertools
import math
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import InvalidInput
from hubbub.numeric.binomial import binomial, log_binomial_pmf
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import gaussian_delta, gaussian_signal, hockey_stick
from hubbub.numeric.inversion import least_real

Array = npt.NDArray[np.float64]
LN2 = math.log(2)


def homogeneous(n: int, q: float, epsilon: float, k: int = 1) -> tuple[float, float]:
    """Return δ of outlier against homogeneous, and of the reverse."""
    zeros, outlier = neighbours(n, 0, q, k)
    return hockey_stick(outlier.pmf, zeros.pmf, epsilon), hockey_stick(zeros.pmf, outlier.pmf, epsilon)


def worst_delta(n: int, q: float, epsilon: float) -> float:
    """Return the largest δ of all collections of n bits; the other order of ``ones`` is n − 1 − ones mirrored."""
    pairs = (neighbours(n, ones, q) for ones in range(n))
    return max(hockey_stick(zero.pmf, one.pmf, epsilon) for zero, one in pairs)


def clear_delta(m: int, width: int, epsilon: float) -> float:
    """Clear one-hot records among m uniform fakes: d/(m+1) E(H − e^ε H')⁺, H + H' ~ Bin(m+1, 2/d), H ~ Bin(·, ½)."""
    pair = binomial(m + 1, 2 / width)
    total = 0.0
    for t, chance in enumerate(pair.pmf, start=pair.low):
        h = np.arange(t + 1)
        gain = np.maximum(h - math.exp(epsilon) * (t - h), 0)
        total += chance * float(np.exp(log_binomial_pmf(h, t, 0.5)) @ gain)
    return width / (m + 1) * total


@pytest.mark.parametrize(
    ("n", "q", "forward", "reverse"),
    [
        (1000, 0.009, 0.0004161803172965843, 0.0116880538985233581),
        (1000, 0.00876406756758793394, 0.000504945981198492059, 0.0124590935145929041),
        (100, 0.1, 0.0000361425610634371633, 0.00338156039536887188),
    ],
)
def test_golden_delta_of_the_homogeneous_pair(n: int, q: float, forward: float, reverse: float) -> None:
    """[002 §4.3] λ = 2: the order that the notes consider, and the reverse."""
    assert homogeneous(n, q, LN2) == pytest.approx((forward, reverse), rel=1e-10)


def test_golden_worst_collection_of_a_hundred() -> None:
    """N = 100, q = 0.1, λ = 2: the worst collection is the homogeneous one in the reverse order."""
    assert worst_delta(100, 0.1, LN2) == pytest.approx(0.00338156039536887188, rel=1e-10)


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "smallest"),
    [
        (1000, 1.0, 1e-6, 0.0307406132),
        (1000, LN2, 1e-6, 0.0475573167),
        (100, 1.0, 1e-3, 0.0917342948),
        (1000, 0.5, 5e-7, 0.07515),
    ],
)
def test_golden_exact_smallest_flip_probability(n: int, epsilon: float, delta: float, smallest: float) -> None:
    """The smallest q over all collections and both orders is correct to half a unit of the last digit."""
    width = 0.6 * 10.0 ** -(len(f"{smallest}") - 2)
    assert worst_delta(n, smallest + width, epsilon) <= delta < worst_delta(n, smallest - width, epsilon)


@pytest.mark.parametrize(
    ("epsilon", "sigma"), [(LN2, 5.94055992268250811), (1.0, 4.22467888932683528), (2.0, 2.2304762711864173)]
)
def test_golden_analytic_gaussian(epsilon: float, sigma: float) -> None:
    """Balle and Wang 2018: the smallest σ = 1/μ at δ = 10⁻⁶, the limit of many copies of one bit."""
    found = least_real(lambda s: gaussian_delta(1 / s, epsilon) <= 1e-6, 0.1, 100.0, relative=1e-14)
    assert found == pytest.approx(sigma, rel=1e-10)
    assert 1 / gaussian_signal(epsilon, 1e-6) == pytest.approx(sigma, rel=1e-10)


def test_golden_clear_records_among_fakes() -> None:
    """[004 §5] exact δ."""
    assert clear_delta(50, 5, 1.0) == pytest.approx(0.00546614385708711104, rel=1e-10)
    assert clear_delta(421, 10, 1.0) == pytest.approx(1.00736284249355116e-6, rel=1e-9)
    assert clear_delta(422, 10, 1.0) == pytest.approx(9.82999995324969743e-7, rel=1e-9)
    assert clear_delta(3, 2, 2.0) == pytest.approx(1 / 8, rel=1e-13)
    assert clear_delta(5, 4, 2.0) == pytest.approx(0.75**5, rel=1e-13)


@pytest.mark.parametrize(
    ("width", "epsilon", "delta", "smallest"),
    [(2, 1.0, 1e-6, 80), (10, 0.5, 1e-6, 1357), (10, 2.0, 1e-6, 176), (10, 1.0, 1e-3, 158), (100, LN2, 1e-6, 7704)],
)
def test_exact_smallest_number_of_fakes(width: int, epsilon: float, delta: float, smallest: int) -> None:
    assert clear_delta(smallest, width, epsilon) <= delta < clear_delta(smallest - 1, width, epsilon)


@pytest.mark.parametrize(("m", "width", "epsilon"), [(6, 3, 0.5), (5, 4, 2.0), (3, 2, 1.0)])
def test_clear_delta_by_enumeration(m: int, width: int, epsilon: float) -> None:
    """[004 §5, eq 5.1] the formula above agrees with the distributions of all histograms of m fakes and a record."""
    ways: list[Counter[tuple[int, ...]]] = [Counter(), Counter()]
    for fakes in itertools.product(range(width), repeat=m):
        for own in (0, 1):
            ways[own][tuple(sorted((*fakes, own)))] += 1
    every = sorted({*ways[0], *ways[1]})
    first, second = (np.array([each[h] for h in every]) / width**m for each in ways)
    assert hockey_stick(first, second, epsilon) == pytest.approx(clear_delta(m, width, epsilon), rel=1e-11)


def fake_and_flip(width: int, n: int, m: int, q: float, epsilon: float, *, columns: bool) -> float:
    """Return the largest δ over the n − 1 other records, for flipped one-hot records and uniform one-hot fakes."""
    table = np.array(list(itertools.product((0, 1), repeat=width)))
    distance = (np.eye(width, dtype=int)[:, None] != table).sum(axis=2)
    rows = (1 - q) ** (width - distance) * q**distance
    fake = rows.mean(axis=0)
    keys = [
        tuple(table[list(seen)].sum(axis=0)) if columns else tuple(sorted(seen))
        for seen in itertools.product(range(2**width), repeat=n + m)
    ]
    code = {key: i for i, key in enumerate(sorted(set(keys)))}
    index = np.array([code[key] for key in keys])

    def pmf(own: int, others: tuple[int, ...]) -> Array:
        joint = rows[own]
        for message in [*(rows[o] for o in others), *([fake] * m)]:
            joint = np.multiply.outer(joint, message)
        return np.bincount(index, weights=joint.ravel(), minlength=len(code)).astype(np.float64)

    backgrounds = itertools.combinations_with_replacement(range(width), n - 1)
    return max(hockey_stick(pmf(0, others), pmf(1, others), epsilon) for others in backgrounds)


def test_golden_fake_and_flip() -> None:
    """[004 §6] d = 3, n = 1, m = 2, q = 0.1, ε = 0.5: whole vectors reveal more than column sums."""
    vectors = fake_and_flip(3, 1, 2, 0.1, 0.5, columns=False)
    sums = fake_and_flip(3, 1, 2, 0.1, 0.5, columns=True)
    assert vectors == pytest.approx(0.3779629255085528, rel=1e-11)
    assert sums == pytest.approx(0.3705855752103442, rel=1e-11)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, ...]:
    size = draw(st.integers(2, 12))
    weights = st.lists(st.floats(0, 1), min_size=size, max_size=size).filter(lambda w: sum(w) > 1e-3)
    first, second = np.array(draw(weights)), np.array(draw(weights))
    return first / first.sum(), second / second.sum()


EPSILONS = st.floats(0, 5)


@given(pairs(), EPSILONS, EPSILONS)
def test_delta_decreases_in_epsilon(pair: tuple[Array, ...], a: float, b: float) -> None:
    first, second = pair
    low, high = sorted((a, b))
    assert 0 <= hockey_stick(first, second, high) <= hockey_stick(first, second, low) + 1e-15


@given(pairs(), EPSILONS)
def test_delta_is_the_largest_gap_over_all_events(pair: tuple[Array, ...], epsilon: float) -> None:
    first, second = pair
    gaps = [
        sum(first[i] - math.exp(epsilon) * second[i] for i in event)
        for size in range(min(len(first), 6) + 1)
        for event in itertools.combinations(range(len(first)), size)
    ]
    if len(first) <= 6:
        assert hockey_stick(first, second, epsilon) == pytest.approx(max(gaps), abs=1e-13)
    else:
        assert max(gaps) <= hockey_stick(first, second, epsilon) + 1e-13


@given(pairs(), EPSILONS)
def test_delta_does_not_grow_by_merging_outcomes(pair: tuple[Array, ...], epsilon: float) -> None:
    first, second = pair
    merged = [np.append(pmf[2:], pmf[:2].sum()) for pmf in (first, second)]
    assert hockey_stick(merged[0], merged[1], epsilon) <= hockey_stick(first, second, epsilon) + 1e-14


@given(st.integers(1, 25), st.floats(0.02, 0.45), st.floats(0, 2))
def test_delta_does_not_grow_with_the_crowd(n: int, q: float, epsilon: float) -> None:
    """[004 Lemma 4.4]."""
    assert worst_delta(n + 1, q, epsilon) <= worst_delta(n, q, epsilon) * (1 + 1e-12) + 1e-15


@given(st.integers(1, 25), st.floats(0.02, 0.45), st.floats(0.02, 0.45), st.floats(0, 2))
def test_delta_does_not_grow_with_the_flip_probability(n: int, a: float, b: float, epsilon: float) -> None:
    low, high = sorted((a, b))
    assert worst_delta(n, high, epsilon) <= worst_delta(n, low, epsilon) * (1 + 1e-12) + 1e-15


@given(st.integers(1, 30), st.data(), st.floats(0.02, 0.45), st.floats(0, 2))
def test_exchanging_zeros_and_ones_swaps_the_orders(n: int, data: st.DataObject, q: float, epsilon: float) -> None:
    ones = data.draw(st.integers(0, n - 1))
    zero, one = neighbours(n, ones, q)
    mirror_zero, mirror_one = neighbours(n, n - 1 - ones, q)
    there = hockey_stick(zero.pmf, one.pmf, epsilon)
    assert there == pytest.approx(hockey_stick(mirror_one.pmf, mirror_zero.pmf, epsilon), rel=1e-11, abs=1e-16)


def test_small_deltas_keep_their_digits() -> None:
    """δ = 7·10⁻²⁴ of [004 eq 4.6] at n = 1000 is far below what an FFT could resolve."""
    zero, one = neighbours(1001, 0, 0.114374598035916361)
    delta = hockey_stick(zero.pmf, one.pmf, 1.0)
    assert 1e-26 < delta < 1e-22


@given(st.floats(0.01, 20), st.floats(0, 20))
def test_gaussian_delta_is_a_probability_and_grows_with_mu(mu: float, epsilon: float) -> None:
    assert 0 <= gaussian_delta(mu, epsilon) <= gaussian_delta(1.1 * mu, epsilon) * (1 + 1e-12) <= 1 + 1e-12


def test_large_crowds_approach_the_gaussian() -> None:
    n, q = 10**6, 0.3
    zero, one = neighbours(n, n // 2, q)
    mu = (1 - 2 * q) / math.sqrt(n * q * (1 - q))
    assert hockey_stick(zero.pmf, one.pmf, mu) == pytest.approx(gaussian_delta(mu, mu), rel=1e-2)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^first and second must have the same shape"):
        hockey_stick([0.5, 0.5], [1.0], 1.0)
    with pytest.raises(InvalidInput, match=r"^second must consist of probabilities"):
        hockey_stick([0.5, 0.5], [-0.5, 1.5], 1.0)
    with pytest.raises(InvalidInput, match=r"^first must consist of probabilities"):
        hockey_stick([math.nan, 0.5], [0.5, 0.5], 1.0)
    for epsilon in (-1.0, math.inf, math.nan, 1e4):
        with pytest.raises(InvalidInput, match=r"^epsilon must be in \[0, 709\]"):
            hockey_stick([1.0], [1.0], epsilon)
    with pytest.raises(InvalidInput, match=r"^mu must be finite and above 0"):
        gaussian_delta(0.0, 1.0)
