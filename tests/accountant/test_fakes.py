"""The privacy of clear records among fakes agrees with enumeration."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hubbub.accountant import calibrate
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import fakes
from hubbub.accountant.theorems.fakes import (
    change_loss,
    either_loss,
    poisson_bounds,
    poisson_delta,
    swap_bounds,
    swap_delta,
    uniform_bounds,
    uniform_delta,
)
from hubbub.errors import Infeasible, InvalidInput
from hubbub.model.privacy import Budget
from hubbub.model.protocol import Fakes
from hubbub.model.schema import Schema
from hubbub.numeric.inversion import least_real

mpmath.mp.dps = 40
mpf = mpmath.mpf


def within(value: float, exact: mpmath.mpf, relative: float = 2e-10, absolute: float = 1e-26) -> bool:
    """Return True if the value is a tight upper bound."""
    return bool(exact <= value <= exact * (1 + mpf(relative)) + mpf(absolute))


def gain(n: int, epsilon: float) -> mpmath.mpf:
    """Return f(N) by its definition, to 40 digits."""
    ratio = mpmath.exp(mpf(epsilon))
    k = int(mpmath.floor(ratio * (n + 1) / (1 + ratio))) + 1
    tail, ways = 0, math.comb(n, k)
    for j in range(k, n + 1):
        tail, ways = tail + ways, ways * (n - j) // (j + 1)
    return (tail + math.comb(n, k - 1) - ratio * tail) / mpf(2) ** n


def binomial_mean(epsilon: float, m: int, chance: mpmath.mpf) -> mpmath.mpf:
    weights = (mpmath.binomial(m, n) * chance**n * (1 - chance) ** (m - n) for n in range(m + 1))
    return mpmath.fsum(w * gain(n, epsilon) for n, w in enumerate(weights) if w > mpf("1e-38"))


def histograms(records: tuple[int, ...], m: int, categories: int) -> dict[tuple[int, ...], Fraction]:
    ways: Counter[tuple[int, ...]] = Counter()
    for drawn in itertools.product(range(categories), repeat=m):
        count = Counter(records + drawn)
        ways[tuple(count[c] for c in range(categories))] += 1
    return {seen: Fraction(number, categories**m) for seen, number in ways.items()}


@pytest.mark.parametrize(("m", "categories"), [(1, 2), (4, 2), (5, 3), (3, 4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 2.0])
def test_all_collections_and_both_orders(m: int, categories: int, epsilon: float) -> None:
    """Every pair of neighbours among all collections of three records has the same δ."""
    for others in itertools.combinations_with_replacement(range(categories), 2):
        for a, b in itertools.permutations(range(categories), 2):
            p, q = (histograms((*others, own), m, categories) for own in (a, b))
            ratio = mpmath.exp(mpf(epsilon))
            terms = (mpf(p[o].numerator) / p[o].denominator - ratio * mpf(float(q.get(o, 0))) for o in p)
            exact = mpmath.fsum(max(t, 0) for t in terms)
            assert exact * (1 - mpf("1e-14")) <= uniform_delta(epsilon, m, categories) <= exact * (1 + 2e-10) + 1e-15


@pytest.mark.parametrize(
    ("epsilon", "m", "categories", "delta"),
    [
        (1.0, 50, 5, 0.00546614385708711104),
        (1.0, 421, 10, 1.00736284249355116e-6),
        (1.0, 422, 10, 9.82999995324969743e-7),
        (2.0, 3, 2, 0.125),
        (2.0, 5, 4, 0.2373046875),
    ],
)
def test_known_values(epsilon: float, m: int, categories: int, delta: float) -> None:
    assert uniform_delta(epsilon, m, categories) == pytest.approx(delta, rel=2e-10)


@pytest.mark.parametrize(
    ("categories", "epsilon", "delta", "m"),
    [
        (2, 1.0, 1e-6, 80),
        (10, 0.5, 1e-6, 1357),
        (10, 1.0, 1e-6, 422),
        (10, 2.0, 1e-6, 176),
        (10, 1.0, 1e-3, 158),
        (100, 1.0, 1e-6, 4261),
        (100, math.log(2), 1e-6, 7704),
        (1000, 1.0, 1e-6, 42650),
    ],
)
def test_smallest_number_of_fakes(categories: int, epsilon: float, delta: float, m: int) -> None:
    found = calibrate(Schema.one_hot(categories), 1, Budget(epsilon, delta), q=0, m=None)
    assert found.protocol.m == m


@pytest.mark.parametrize(
    ("categories", "m", "epsilon"),
    [(10, 10**3, 0.59413), (10, 10**4, 0.16839), (100, 10**4, 0.59564), (10**5, 10**7, 0.59581)],
)
def test_epsilon_at_a_millionth(categories: int, m: int, epsilon: float) -> None:
    found = least_real(lambda e: uniform_delta(e, m, categories) <= 1e-6, 1e-3, 2.0)
    assert found == pytest.approx(epsilon, abs=6e-6)


@pytest.mark.parametrize(
    ("epsilon", "m", "categories"),
    [(1.0, 600, 3), (0.3, 1200, 4), (3.0, 900, 20), (0.05, 1500, 2), (8.0, 60, 3), (0.9, 3000, 2), (40.0, 9, 5)],
)
def test_forty_digits(epsilon: float, m: int, categories: int) -> None:
    assert within(uniform_delta(epsilon, m, categories), binomial_mean(epsilon, m, mpf(2) / categories))


@pytest.mark.parametrize(("epsilon", "m"), [(0.0021, 10**7), (0.01, 10**6), (0.03, 10**5 + 1)])
def test_many_fakes_against_the_incomplete_beta_function(epsilon: float, m: int) -> None:
    """Two categories: N = m, and δ = b_{k−1} − (e^ε − 1)·Pr(A ≥ k), the tail from its hypergeometric series."""
    ratio = mpmath.exp(mpf(epsilon))
    k = int(mpmath.floor(ratio * (m + 1) / (1 + ratio))) + 1
    term, tail = mpf(1), mpf(0)
    for j in range(k, m + 1):
        term *= mpf(m - j + 1) / j
        tail += term
        if term < tail * mpf("1e-30"):
            break
    point = mpmath.exp(mpmath.loggamma(m + 1) - mpmath.loggamma(k) - mpmath.loggamma(m - k + 2) - m * mpmath.log(2))
    assert within(uniform_delta(epsilon, m, 2), point * (1 - (ratio - 1) * tail), relative=2e-8)


@given(st.floats(0, 12), st.integers(0, 40), st.integers(2, 30), st.floats(0, 1))
def test_random_presence_averages_over_the_number_present(
    epsilon: float, m: int, categories: int, share: float
) -> None:
    s = mpf(share)
    exact = mpmath.fsum(
        mpmath.binomial(m, j) * s**j * (1 - s) ** (m - j) * mpf(uniform_delta(epsilon, j, categories))
        for j in range(m + 1)
    )
    assert uniform_delta(epsilon, m, categories, share=share) == pytest.approx(float(exact), rel=3e-10)


@pytest.mark.parametrize(("epsilon", "mean", "categories"), [(1.0, 12.0, 3), (0.5, 7.5, 2), (2.0, 0.0, 2)])
def test_poisson_averages_over_the_total(epsilon: float, mean: float, categories: int) -> None:
    weights = [mpmath.exp(-mpf(mean)) * mpf(mean) ** j / mpmath.factorial(j) for j in range(80)]
    exact = mpmath.fsum(w * binomial_mean(epsilon, j, mpf(2) / categories) for j, w in enumerate(weights) if w > 1e-25)
    assert within(poisson_delta(epsilon, mean, categories), exact, absolute=1e-24)


@given(st.floats(0, 20), st.floats(0, 3), st.integers(0, 10**7), st.integers(0, 10**4), st.integers(2, 10**5))
def test_delta_decreases(epsilon: float, further: float, m: int, more: int, categories: int) -> None:
    delta = uniform_delta(epsilon, m, categories)
    slack = 1 + 1e-7
    assert 0 < delta <= 1
    assert uniform_delta(epsilon + further, m, categories) <= delta * slack
    assert uniform_delta(epsilon, m + more, categories) <= delta * slack
    assert uniform_delta(epsilon, m, categories + 1) >= delta / slack
    assert uniform_delta(epsilon, m, categories, share=0.5) >= delta / slack


kinds = st.sampled_from(["laplace", "gaussian"])


def exact_pmf(fakes: Fakes) -> list[mpmath.mpf]:
    offsets = range(-fakes.shift, 90 * math.ceil(fakes.scale))
    scale = mpf(fakes.scale)
    if fakes.distribution == "laplace":
        weights = [mpmath.exp(-abs(k) / scale) for k in offsets]
    else:
        weights = [mpmath.exp(-(mpf(k) ** 2) / (2 * scale**2)) for k in offsets]
    total = mpmath.fsum(weights)
    return [w / total for w in weights]


def exact_swap(fakes: Fakes, epsilon: float) -> mpmath.mpf:
    pmf, ratio = [mpf(0), *exact_pmf(fakes)], mpmath.exp(mpf(epsilon))
    pairs = list(itertools.pairwise(pmf))
    return mpmath.fsum(max(a * d - ratio * b * c, 0) for (a, b), (c, d) in itertools.product(pairs, pairs))


@pytest.mark.parametrize(
    ("fakes", "epsilon"),
    [
        (Fakes.laplace(2.0, 10), 1.0),
        (Fakes.laplace(2.0, 10), 0.7),
        (Fakes.laplace(2.5, 4), 0.8),
        (Fakes.laplace(1.0, 0), 0.1),
        (Fakes.gaussian(3.0, 20), 0.5),
        (Fakes.gaussian(3.0, 20), 2.0),
        (Fakes.gaussian(4.0, 7), 1.0),
    ],
)
def test_swap_against_all_pairs_of_counts(fakes: Fakes, epsilon: float) -> None:
    exact = exact_swap(fakes, epsilon)
    assert within(swap_delta(fakes, epsilon), exact, 1e-9, 1e-14)
    assert within(change_loss(fakes, 1, 1).delta(epsilon), exact, 1e-6, 1e-10)


@pytest.mark.parametrize(("falls", "rises"), [(3, 0), (2, 1), (1, 2), (0, 3)])
@pytest.mark.parametrize("fakes", [Fakes.laplace(1.0, 4), Fakes.gaussian(1.2, 4)])
def test_changes_of_three_positions(fakes: Fakes, falls: int, rises: int) -> None:
    loss, both = change_loss(fakes, falls, rises), either_loss(fakes).power(3)
    stay, shifted = np.append(fakes.pmf, 0.0), np.append(0.0, fakes.pmf)
    p = q = np.ones(1)
    for one, two in [(stay, shifted)] * falls + [(shifted, stay)] * rises:
        p, q = np.multiply.outer(p, one).ravel(), np.multiply.outer(q, two).ravel()
    for epsilon in (0.2, 1.0, 2.5):
        exact = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
        assert within(loss.delta(epsilon), mpf(exact) * (1 - mpf("1e-13")), 1e-6, 1e-10)
        assert both.delta(epsilon) >= exact * (1 - 1e-13)


@pytest.mark.parametrize(
    ("epsilon", "delta", "shift", "deviation"),
    [(1.0, 1e-6, 25, 2.80), (1.0, 1e-8, 35, 2.80), (0.5, 1e-6, 47, 5.64), (2.0, 1e-6, 14, 1.357)],
)
def test_central_error(epsilon: float, delta: float, shift: int, deviation: float) -> None:
    """With Laplace fakes of scale 2/ε, a few dozen per category give the error of the central mechanism."""
    fakes = Fakes.laplace(2 / epsilon, shift)
    found = calibrate(Schema.one_hot(9), 1, Budget(epsilon, delta), q=0, m=Fakes.laplace(2 / epsilon, 0))
    assert found.protocol.m == fakes
    assert math.sqrt(fakes.variance) == pytest.approx(deviation, abs=5e-3)
    assert swap_delta(fakes, epsilon) == pytest.approx(float(fakes.pmf[0]), rel=1e-8)


@given(kinds, st.floats(0.3, 30), st.integers(0, 300))
def test_moments_of_the_distribution(kind: str, scale: float, shift: int) -> None:
    fakes = Fakes(distribution=kind, scale=scale, shift=shift)  # type: ignore[arg-type]
    counts, pmf = np.arange(fakes.pmf.size), fakes.pmf
    assert math.fsum(pmf) == pytest.approx(1.0, rel=1e-13)
    assert fakes.mean == pytest.approx(float(counts @ pmf), rel=1e-9)
    assert fakes.variance == pytest.approx(float(counts**2 @ pmf) - float(counts @ pmf) ** 2, rel=1e-6, abs=1e-6)


@given(kinds, st.floats(0.5, 20), st.integers(0, 100), st.floats(0, 3), st.floats(0, 1))
def test_delta_of_shuffler_fakes_decreases(kind: str, scale: float, shift: int, epsilon: float, more: float) -> None:
    fakes = Fakes(distribution=kind, scale=scale, shift=shift)  # type: ignore[arg-type]
    delta = swap_delta(fakes, epsilon)
    assert swap_delta(fakes, epsilon + more) <= delta * (1 + 1e-8) + 1e-14
    assert swap_delta(Fakes(distribution=kind, scale=scale, shift=shift + 1), epsilon) <= delta * (1 + 1e-8) + 1e-14  # type: ignore[arg-type]
    assert either_loss(fakes).power(2).delta(epsilon) >= delta * (1 - 1e-8) - 1e-14


@given(kinds, st.floats(2, 20), st.floats(0.5, 3), st.floats(1e-8, 1e-2))
def test_the_shift_found_is_the_smallest(kind: str, scale: float, epsilon: float, delta: float) -> None:
    unshifted = Fakes(distribution=kind, scale=scale, shift=0)  # type: ignore[arg-type]
    try:
        found = calibrate(Schema.one_hot(9), 1, Budget(epsilon, delta), q=0, m=unshifted).protocol.shuffler_fakes
    except Infeasible:
        assume(False)
        return
    assert found
    assert swap_delta(found, epsilon) <= delta
    if found.shift:
        assert swap_delta(replace(found, shift=found.shift - 1), epsilon) > delta


def test_many_positions_against_the_distribution_of_the_sum() -> None:
    """Forty falls: the loss is (½·40 + S)/σ², where the sum S of forty discrete Gaussians is nearly one."""
    scale, positions = 40.0, 40
    loss = either_loss(Fakes.gaussian(scale, 400)).power(positions)
    offsets = range(-3000, 3001)
    weights = [mpmath.exp(-(mpf(j) ** 2) / (2 * positions * scale**2)) for j in offsets]
    total = mpmath.fsum(weights)
    for epsilon in (0.0, 0.3, 0.65, 1.0):
        gains = (-mpmath.expm1(mpf(epsilon) - (j + positions / mpf(2)) / scale**2) for j in offsets)
        exact = mpmath.fsum(w * max(g, 0) for w, g in zip(weights, gains, strict=True)) / total
        assert within(loss.delta(epsilon), exact, 1e-4)


def test_smallest_shift_for_many_positions() -> None:
    budget = Budget(1.0, 1e-6)
    found = calibrate(
        Schema.bits(40), 1, budget, q=0, m=Fakes.gaussian(40.0, 0), release="bits"
    ).protocol.shuffler_fakes
    assert found
    below, at = (either_loss(replace(found, shift=found.shift - less)).power(40).delta(1.0) for less in (1, 0))
    assert at <= 1e-6 < below


@pytest.mark.parametrize(
    "call",
    [
        lambda: uniform_delta(-1.0, 10, 2),
        lambda: uniform_delta(1.0, -1, 2),
        lambda: uniform_delta(1.0, 10, 1),
        lambda: uniform_delta(1.0, 10, 2, share=1.5),
        lambda: uniform_delta(1.0, 2**53, 3),
        lambda: poisson_delta(1.0, -1.0, 2),
        lambda: Fakes(distribution="uniform", scale=1.0, shift=1),  # type: ignore[arg-type]
        lambda: Fakes.laplace(0.0, 1),
        lambda: Fakes.laplace(1.0, -1),
        lambda: Fakes.laplace(2.0**30, 1).pmf,
        lambda: change_loss(Fakes.laplace(1.0, 1), 0, 0),
    ],
)
def test_bad_input(call: object) -> None:
    assert callable(call)
    with pytest.raises(InvalidInput):
        call()


@pytest.mark.parametrize("depth", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_numbers_of_fakes_outside_of_the_window_are_allowed_for(
    depth: float, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = [uniform_bounds(epsilon, 2000, 5), poisson_bounds(epsilon, 2000.0, 5)]
    monkeypatch.setattr(fakes, "DEPTHS", (depth,))
    again = [uniform_bounds(epsilon, 2000, 5), poisson_bounds(epsilon, 2000.0, 5)]
    for (low, high), found in zip(exact, again, strict=True):
        assert found[0] <= low <= high <= found[1]


@pytest.mark.parametrize("m", [2000, 10**8])
def test_a_central_probability_that_errs_by_what_it_states_is_allowed_for(
    m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    central = fakes._central
    exact = math.sqrt(math.prod(uniform_bounds(1e-4, m, 5)))
    for side in (-1, 1):
        error = mpf("0.9e-11") + mpf("0.8e-15") * mpf(2 * m // 5)
        monkeypatch.setattr(fakes, "_central", lambda n, c, e=float(side * error): central(n, c) * (1 + e))
        low, high = uniform_bounds(1e-4, m, 5)
        assert low <= exact <= high


def test_the_exponents_of_a_swap_are_allowed_for() -> None:
    for i in range(1, 30):
        scale, shift = 3.1 + i / 7, 3 * 10**9 + 12345 * i
        ratio = mpmath.exp(-1 / mpf(scale))
        revealed = mpmath.log((1 - ratio) / (1 + ratio)) - shift / mpf(scale)  # ρ^shift is below every digit
        low, high = swap_bounds(Fakes.laplace(scale, shift), 2.0)
        assert low <= revealed <= high
        assert high - low < 1e-4


def cover(loss: Loss, x: mpmath.mpf) -> mpmath.mpf:
    """Return Σ mass·(1 − x·e^−loss)⁺ of the masses of a loss, to 40 digits."""
    step, total = mpf(loss.step), mpf(loss.infinite)
    for i, mass in enumerate(loss.masses, loss.first):
        total += mpf(float(mass)) * max(mpf(0), 1 - x * mpmath.exp(-i * step))
    return total


@pytest.mark.parametrize("unit", [1 / 3, 0.7, 1 / 49])
def test_losses_below_0_are_covered_although_the_grid_is_raised(unit: float) -> None:
    # The exact unit may exceed the float by some units in the last place, or be less.
    for sign in (-3, 0, 3):
        true = mpf(unit) * (1 + sign * mpf(2) ** -53)
        for node in (-900, -31, -1, 1, 31, 900):
            loss = fakes._on_grid(np.array([node]), np.ones(1), 0.0, unit)
            for epsilon in (node * mpf(loss.step), (node - mpf(1) / 2) * mpf(loss.step), (node - 3) * mpf(loss.step)):
                assert cover(loss, mpmath.exp(epsilon)) >= 1 - mpmath.exp(epsilon - node * true)


def test_the_mass_at_0_of_either_change_is_not_too_small() -> None:
    scale, shift = 2.0, 25
    loss, ratio = either_loss(Fakes.laplace(scale, shift)), mpmath.exp(-1 / mpf(scale))
    row = [ratio ** abs(i - shift) for i in range(shift + 300)]
    row = [one / mpmath.fsum(row) for one in row]
    stay, shifted = [*row, mpf(0)], [mpf(0), *row]
    for share in (mpf(-2), mpf(-1), mpf(-1) / 2, mpf(0), mpf(1) / 2):
        x = mpmath.exp(share * mpf(loss.step))
        for one, two in ((stay, shifted), (shifted, stay)):
            exact = mpmath.fsum(max(mpf(0), a - x * b) for a, b in zip(one, two, strict=True))
            assert exact <= cover(loss, x) <= exact + mpf("1e-6")


@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_the_masses_of_a_change_are_not_too_small(name: str, rising: bool) -> None:
    """A count of K fakes that falls shows K against K + 1, one that rises K + 1 against K."""
    for i in range(1, 16):
        scale, shift = 0.6 + i / 7, i
        loss = fakes._shift(getattr(Fakes, name)(scale, shift), rising=rising, step=None)
        power, unit = (1, mpf(scale)) if name == "laplace" else (2, 2 * mpf(scale) ** 2)
        heights = [abs(k - shift) ** power for k in range(shift + 60 * math.ceil(scale) + 60)]
        whole = mpmath.fsum(mpmath.exp(-height / unit) for height in heights)
        least: Counter[int] = Counter()
        for k, height in enumerate(heights):
            if rising or k:  # a count of no fakes does not arise by a fall
                other = abs(k + 1 - shift) ** power if rising else abs(k - 1 - shift) ** power
                least[other - height] += mpmath.exp(-height / unit) / whole
        for node, mass in least.items():
            if mass > 1e-20:
                assert mass <= mpf(float(loss.masses[node - loss.first])) <= mass * (1 + mpf("1e-11")) + mpf("1e-12")
        assert rising or mpmath.exp(-heights[0] / unit) / whole <= mpf(loss.infinite)
