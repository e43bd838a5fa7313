"""Loss distributions cover their pair tightly, before and after composition."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant import composition
from hubbub.accountant.composition import Loss
from hubbub.errors import InvalidInput
from hubbub.numeric.rounding import up

mpmath.mp.dps = 40

weights = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=4).filter(
    lambda pairs: any(a for a, _ in pairs) and any(b for _, b in pairs)
)
Distribution = list[Fraction]


def distributions(pairs: list[tuple[int, int]]) -> tuple[Distribution, Distribution]:
    p, q = zip(*pairs, strict=True)
    return [Fraction(a, sum(p)) for a in p], [Fraction(b, sum(q)) for b in q]


def product(one: Distribution, two: Distribution) -> Distribution:
    return [a * b for a, b in itertools.product(one, two)]


def _exact(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def hockey(p: Distribution, q: Distribution, epsilon: float) -> mpmath.mpf:
    """Σ (p − e^ε·q)⁺, to 40 digits."""
    ratio = mpmath.exp(mpmath.mpf(epsilon))
    terms = (_exact(a) - ratio * _exact(b) for a, b in zip(p, q, strict=True))
    return mpmath.fsum(max(t, 0) for t in terms)


def gaussian(mu: float, epsilon: float) -> mpmath.mpf:
    """δ(ε) of the Gaussian mechanism [Balle, Wang 2018]; k releases with mean μ are one with √k·μ."""
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def gaussian_loss(mu: float, points: int) -> Loss:
    step = 12 * mu / points
    return Loss.from_envelope([up(float(gaussian(mu, step * i)), 1e-15) for i in range(points)], step)


def floats(row: Distribution) -> list[float]:
    return [float(x) for x in row]


def loss_of(pairs: list[tuple[int, int]], step: float = 0.02) -> Loss:
    p, q = distributions(pairs)
    return Loss.from_distributions(floats(p), floats(q), step)


@given(weights, st.sampled_from([0.003, 0.05, 1.0]), st.floats(0, 4))
def test_one_pair_is_covered_tightly(pairs: list[tuple[int, int]], step: float, epsilon: float) -> None:
    p, q = distributions(pairs)
    loss, exact = Loss.from_distributions(floats(p), floats(q), step), hockey(p, q, epsilon)
    assert exact <= loss.delta(epsilon) <= exact + step / 4 + 1e-11


@given(weights, weights, st.sampled_from([0.003, 0.05, 1.0]), st.floats(0, 4))
def test_products_are_covered(
    one: list[tuple[int, int]], two: list[tuple[int, int]], step: float, epsilon: float
) -> None:
    (p, q), (r, s) = distributions(one), distributions(two)
    first, second = (
        Loss.from_distributions(floats(p), floats(q), step),
        Loss.from_distributions(floats(r), floats(s), step),
    )
    cubed = first.compose(second).compose(first)
    exact = hockey(product(product(p, r), p), product(product(q, s), q), epsilon)
    assert exact <= cubed.delta(epsilon) <= exact + 3 * step / 4 + 1e-10


@given(weights, weights, st.floats(0, 4))
def test_order_of_composition_does_not_matter(
    one: list[tuple[int, int]], two: list[tuple[int, int]], epsilon: float
) -> None:
    first, second = (loss_of(pairs) for pairs in (one, two))
    assert first.compose(second).delta(epsilon) == pytest.approx(second.compose(first).delta(epsilon), 1e-9, 1e-18)


@given(weights, st.floats(0, 4), st.floats(0, 1))
def test_delta_decreases_and_epsilon_inverts_it(pairs: list[tuple[int, int]], epsilon: float, more: float) -> None:
    loss = loss_of(pairs)
    assert loss.delta(epsilon + more) <= loss.delta(epsilon)
    delta = loss.delta(epsilon)
    if 0 < delta < 1:
        assert loss.epsilon(delta) <= epsilon * (1 + 1e-9)
        assert loss.delta(loss.epsilon(delta)) <= delta


@given(weights, st.integers(1, 5), st.lists(st.floats(0, 0.05), min_size=60, max_size=60), st.floats(0, 5))
def test_bounds_that_are_not_convex_still_cover(
    pairs: list[tuple[int, int]], times: int, slack: list[float], epsilon: float
) -> None:
    """Bounds on a convex curve need not be convex."""
    p, q = distributions(pairs)
    curve = [up(float(hockey(p, q, 0.1 * i - 2))) + w for i, w in enumerate(slack)]
    loss = Loss.from_curve(curve, 0.1, -20)
    assert hockey(p, q, epsilon) <= loss.delta(epsilon)
    for _ in range(times - 1):
        p, q = (product(p, p), product(q, q)) if len(p) < 100 else (p, q)
        loss = loss.compose(loss)
    assert hockey(p, q, epsilon) <= loss.delta(epsilon)


@pytest.mark.parametrize(("mu", "points"), [(0.03, 600), (1.0, 1500)])
@pytest.mark.parametrize("times", [1, 2, 7, 40])
@pytest.mark.parametrize("direct", [0, 2**24])
def test_gaussian_mechanism(mu: float, points: int, times: int, direct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "DIRECT", direct)
    many, mean = gaussian_loss(mu, points).power(times), mu * math.sqrt(times)
    for z in (0.0, 1.0, 3.0, 5.0, 7.0):
        epsilon = mean * z + mean**2 / 2
        exact = gaussian(mean, epsilon)
        assert exact <= many.delta(epsilon) <= exact * 1.003
    epsilon = many.epsilon(1e-6)
    assert gaussian(mean, epsilon) <= 1e-6 < gaussian(mean, epsilon * 0.9995)


@pytest.mark.parametrize("times", [1, 2, 10, 40, 300])
def test_randomized_response_repeated(times: int) -> None:
    """The privacy loss of k answers is (2·Bin(k, p) − k)·ln(p/q)."""
    p = mpmath.mpf("0.55")
    many = Loss.from_distributions([0.55, 0.45], [0.45, 0.55], step=0.0005).power(times)
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        exact = mpmath.mpf(0)
        for hits in range(times + 1):
            one = mpmath.binomial(times, hits) * p**hits * (1 - p) ** (times - hits)
            two = mpmath.binomial(times, hits) * p ** (times - hits) * (1 - p) ** hits
            exact += max(0, one - mpmath.exp(mpmath.mpf(epsilon)) * two)
        assert exact <= many.delta(epsilon) <= exact * 1.001 + 1e-16


@pytest.mark.long
def test_agrees_with_dp_accounting() -> None:
    from dp_accounting.pld import privacy_loss_distribution as peer

    weight = np.random.default_rng(5).dirichlet(np.ones(30), 2) + 1e-3
    p, q = weight / weight.sum(axis=1, keepdims=True)
    one, two = (dict(enumerate(np.log(row).tolist())) for row in (q, p))
    step = 1e-3
    ours = Loss.from_distributions(p, q, step).power(5)
    theirs = [
        peer.from_two_probability_mass_functions(
            one, two, pessimistic_estimate=safe, value_discretization_interval=1e-5, symmetric=True
        ).self_compose(5)
        for safe in (False, True)
    ]
    for epsilon in (0.0, 1.0, 4.0, 8.0):
        low, high = (each.get_delta_for_epsilon(epsilon) for each in theirs)
        assert low * (1 - 1e-9) <= ours.delta(epsilon) <= high * (1 + 1e-3)


@given(st.integers(0, 2**32), st.integers(2, 200), st.integers(2, 200), st.floats(0, 30))
def test_transform_bounds_every_entry(seed: int, one: int, two: int, fall: float) -> None:
    generator = np.random.default_rng(seed)
    a, b = (generator.random(size) * np.exp(-fall * generator.random(size)) for size in (one, two))
    a[generator.random(one) < 0.3] = 0.0
    a[0] = 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "DIRECT", 0)
        bound = composition._convolve(a / a.sum(), b / b.sum())
    exact = np.convolve(a / a.sum(), b / b.sum())
    assert (bound >= exact * (1 - 1e-13)).all()
    assert (bound <= exact * (1 + 1e-11) + 1e-12).all()


@given(weights, st.floats(0.01, 0.5), st.floats(0, 4))
def test_a_coarser_grid_covers(pairs: list[tuple[int, int]], step: float, epsilon: float) -> None:
    p, q = distributions(pairs)
    fine, coarse = (Loss.from_distributions(floats(p), floats(q), h) for h in (0.01, step))
    assert fine.regrid(step).delta(epsilon) >= hockey(p, q, epsilon)
    mixed = fine.compose(coarse)
    assert mixed.step == max(0.01, step)
    assert mixed.delta(epsilon) >= hockey(product(p, p), product(q, q), epsilon)


def test_rare_but_large_losses_on_a_grid_that_coarsens() -> None:
    """A thousand trials of 10⁻⁴ against 10⁻⁶: far from Gaussian, and the grid exceeds its limit."""
    many = Loss.from_distributions([1 - 1e-4, 1e-4], [1 - 1e-6, 1e-6], step=1e-4).power(1000)
    assert many.step > 1e-4
    a, b = mpmath.mpf(1e-4), mpmath.mpf(1e-6)
    hits = [(mpmath.binomial(1000, j), j) for j in range(60)]
    for epsilon in (0.5, 4.0, 9.0, 20.0, 40.0):
        ratio = mpmath.exp(epsilon)
        terms = (w * (a**j * (1 - a) ** (1000 - j) - ratio * b**j * (1 - b) ** (1000 - j)) for w, j in hits)
        exact = mpmath.fsum(max(t, 0) for t in terms)
        assert exact <= many.delta(epsilon) <= exact * 1.001


def test_a_vacuous_curve_stays_vacuous() -> None:
    vacuous = Loss.from_curve(np.ones(5000), 0.01)
    assert vacuous.power(3).delta(1.0) == 1.0
    assert vacuous.epsilon(0.5) == math.inf
    assert repr(vacuous) == "Loss(step=0.01, points=5000, infinite=1)"


def test_missing_mass_is_an_infinite_loss() -> None:
    cut = Loss.from_distributions([0.5, 0.4], [0.4, 0.5], step=0.1)
    assert cut.delta(10.0) == pytest.approx(0.1)
    assert cut.power(2).delta(10.0) == pytest.approx(0.19)
    assert cut.epsilon(0.05) == math.inf
    assert Loss.from_distributions([1.0], [1.0], step=0.1).epsilon(1e-9) < 1e-3
    assert Loss.from_distributions([1.0], [0.0], step=0.1).delta(10.0) == 1.0


@pytest.mark.parametrize(
    "build",
    [
        lambda: Loss(step=0.0, first=0, masses=np.ones(1), infinite=0.0),
        lambda: Loss(step=0.1, first=0, masses=np.ones(0), infinite=0.0),
        lambda: Loss(step=0.1, first=0, masses=-np.ones(1), infinite=0.0),
        lambda: Loss(step=0.1, first=0, masses=np.ones(1), infinite=math.inf),
        lambda: Loss.from_curve([], 0.1),
        lambda: Loss.from_curve([math.nan], 0.1),
        lambda: Loss.from_envelope([], 0.1),
        lambda: Loss.from_distributions([0.5, 0.5], [1.0], 0.1),
        lambda: Loss.from_distributions([1.0, 1e-9], [1e-9, 1.0], 1e-12),
        lambda: Loss.from_distributions([1.0], [1.0], 0.1).power(0),
        lambda: Loss.from_distributions([1.0], [1.0], 0.1).delta(-1.0),
        lambda: Loss.from_distributions([1.0], [1.0], 0.1).epsilon(0.0),
    ],
)
def test_bad_input(build: object) -> None:
    assert callable(build)
    with pytest.raises(InvalidInput):
        build()


def test_sums_of_rounded_terms_are_never_too_small() -> None:
    chance = np.random.default_rng(1)
    for _ in range(50):
        masses, epsilon = chance.random(8) / 8, float(chance.random())
        loss = Loss(step=0.3, first=0, masses=masses, infinite=0.0)
        points = (mpmath.mpf(0.3 * i) for i in range(8))
        exact = sum(
            mass * max(0, -mpmath.expm1(epsilon - at)) for mass, at in zip(masses.tolist(), points, strict=True)
        )
        assert exact <= loss.delta(epsilon) <= exact * (1 + mpmath.mpf(10) ** -11)
