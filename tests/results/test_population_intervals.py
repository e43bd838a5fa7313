"""Population intervals cover the share they promise to, for rare and common labels, and errors without it do not."""

import numpy as np
import pytest
from scipy import stats
from tests.pipeline.sampled import SETTINGS, draw, lower_bound

import hubbub as hb
from hubbub.numeric.population import CountNoise, poisson, population_interval, sampled_count

TIMES = 20_000
COUNTS = (0.0, 0.7, 4.0, 25.0, 95.0, 240.0, 1000.0, 1995.0, 2000.0)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("people", COUNTS)
def test_population_intervals_cover(name: str, people: float) -> None:
    n, rng = 2000, np.random.default_rng(31)
    found, _ = draw(name, n, people / n, TIMES, rng)
    low, high = found.population(0.95)
    assert lower_bound((low <= people / n) & (people / n <= high)) >= 0.94
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()


@pytest.mark.parametrize("name", ["few flips", "clear among Laplace fakes", "clear among many Laplace fakes", "copies"])
@pytest.mark.parametrize("share", [1e-6, 3e-4, 0.2])
def test_population_intervals_of_large_batches_cover(name: str, share: float) -> None:
    found, _ = draw(name, 10**6, share, TIMES, np.random.default_rng(32))
    low, high = found.population(0.95)
    assert lower_bound((low <= share) & (share <= high)) >= 0.94


@pytest.mark.parametrize("name", ["clear among Laplace fakes", "flips", "rarely another category"])
def test_intervals_without_sampling_error_do_not_cover_the_population(name: str) -> None:
    """The control: the interval of the collection, as a share, is not an interval of the population."""
    found, truth = draw(name, 2000, 0.3, TIMES, np.random.default_rng(33))
    low, high = found.interval(0.95)
    assert lower_bound((low <= truth) & (truth <= high)) >= 0.94
    assert lower_bound((low / 2000 <= 0.3) & (high / 2000 >= 0.3)) < 0.9


def test_intervals_without_noise_do_not_cover_the_population() -> None:
    """The control: sampling error alone is not enough."""
    found, _ = draw("flips", 2000, 0.01, TIMES, np.random.default_rng(34))
    low, high = population_interval(found.unbiased, found.n, CountNoise(variance=0.0, flip=0.0), 0.05)
    assert lower_bound((low <= 0.01) & (high >= 0.01)) < 0.8


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99, 0.9999])
@pytest.mark.parametrize("name", ["clear among Laplace fakes", "flips among fakes", "few flips"])
def test_other_levels(name: str, level: float) -> None:
    found, _ = draw(name, 2000, 0.006, TIMES, np.random.default_rng(35))
    low, high = found.population(level)
    assert ((low <= 0.006) & (high >= 0.006)).mean() >= level - 4 * np.sqrt(level * (1 - level) / TIMES)


def test_simultaneous_intervals_hold_together() -> None:
    found, _ = draw("clear among Laplace fakes", 2000, 0.004, 10_000, np.random.default_rng(36))
    low, high = found.population(0.95, simultaneous=True)
    assert ((low <= 0.004) & (high >= 0.004)).all()
    single = found.population(0.95)
    assert (high - low > single[1] - single[0]).all()


def test_population_intervals_are_not_needlessly_wide() -> None:
    """For common labels they are as wide as the normal interval with both kinds of error."""
    for name in SETTINGS:
        found, _ = draw(name, 100_000, 0.25, 10, np.random.default_rng(37))
        low, high = found.population(0.95)
        sigma = np.sqrt(found.noise.sampled_variance(0.25, found.n)) / found.n
        assert np.allclose(high - low, 2 * 1.96 * sigma, rtol=0.02), name


def test_labels_without_noise_have_the_interval_of_clopper_and_pearson() -> None:
    low, high = population_interval(np.array([0.0, 7.0, 100.0]), 100, CountNoise(variance=0.0, flip=0.0), 0.05)
    exact = stats.beta.ppf([0.025, 0.975], [7, 8], [94, 93])
    assert np.allclose(low, [0.0, exact[0], 0.025**0.01], atol=1e-9)
    assert np.allclose(high, [1 - 0.025**0.01, exact[1], 1.0], atol=1e-9)
    # On the lattice, from the sum of distributions instead of the beta function.
    low, high = population_interval(np.array([0.0, 7.0]), 100, CountNoise(variance=0.0, slack=1e-6), 0.05)
    assert np.allclose(low, [0.0, exact[0]], atol=1e-3)
    assert np.allclose(high, [1 - 0.025**0.01, exact[1]], atol=1e-3)
    assert (low <= [0.0, exact[0]]).all()
    assert (high >= [1 - 0.025**0.01, exact[1]]).all()


def test_symmetry() -> None:
    """The share without a label is one minus the share with it."""
    noise = CountNoise(variance=8.0, distribution=poisson(8.0), centre=8.0, slack=1e-6)
    x = np.arange(0.0, 300.0, 7)
    low, high = population_interval(x, 300, noise, 0.1)
    below, above = population_interval(300 - x, 300, noise.reflected(300), 0.1)
    assert np.allclose(low, 1 - above, atol=0.01)
    assert np.allclose(high, 1 - below, atol=0.01)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("share", [0.0, 0.0004, 0.03, 0.4])
def test_the_sampled_distribution_has_the_observed_moments(name: str, share: float) -> None:
    """The distribution behind p-values agrees with simulation."""
    found, _ = draw(name, 2000, share, TIMES, np.random.default_rng(38))
    points, weights = sampled_count(share, 2000, found.noise)
    assert abs(weights.sum() - 1) < 1e-9
    mean, sigma = 2000 * share, float(np.sqrt(found.noise.sampled_variance(share, 2000)))
    assert abs(weights @ points - mean) < 0.02 * sigma + 0.01
    assert abs(found.values.mean() - mean) < 4.5 * sigma / np.sqrt(TIMES) + 1e-9
    assert abs(np.sqrt(weights @ (points - mean) ** 2) - sigma) < 0.04 * sigma + 0.05
    for quantile in (0.05, 0.5, 0.95):
        at = float(np.quantile(found.values, quantile, method="inverted_cdf"))
        step = max(0.51 / found.noise.gain, 0.51 * (points[1] - points[0]))  # lattices may be shifted by a part of it
        upto = float(weights[points <= at + step].sum())
        below = float(weights[points < at - step].sum())
        assert below - 0.03 <= quantile <= upto + 0.03


def test_nobody_says_nothing() -> None:
    noise = CountNoise(variance=4.0)
    low, high = population_interval(np.array([0.0, 3.0]), 0, noise, 0.05)
    assert low.tolist() == [0.0, 0.0]
    assert high.tolist() == [1.0, 1.0]


def test_population_counts_are_shares_of_the_people() -> None:
    found, _ = draw("flips", 2000, 0.1, 5, np.random.default_rng(39))
    low, high = found.interval(0.9, of="population")
    first, last = found.population(0.9)
    assert np.array_equal(low, 2000 * first)
    assert np.array_equal(high, 2000 * last)
    row = found["3"]
    assert row.interval(0.9, of="population") == (low[3], high[3])


def test_pooled_estimates_cover() -> None:
    """Batches of one plan and of several: both kinds of intervals of the sum."""
    rng = np.random.default_rng(40)
    mixtures = [
        (("clear among Laplace fakes", 500), ("clear among Laplace fakes", 700)),
        (("clear among Laplace fakes", 500), ("flips", 900)),
        (("few flips", 500), ("few flips", 800)),
        (("clear among many Laplace fakes", 1500), ("flips among Laplace fakes", 500), ("copies", 300)),
        (("category", 500), ("rarely another category", 900)),
        (("clear among users' fakes", 500), ("clear among few fakes", 400)),
    ]
    for mixture in mixtures:
        for share in (0.0, 0.003, 0.04, 0.4):
            drawn = [draw(name, n, share, TIMES, rng) for name, n in mixture]
            total = hb.pool([found for found, _ in drawn])
            truth = sum(true for _, true in drawn)
            assert total.n == sum(n for _, n in mixture)
            low, high = total.population(0.95)
            assert lower_bound((low <= share) & (share <= high)) >= 0.94, (mixture, share)
            low, high = total.interval(0.95)
            assert lower_bound((low <= truth) & (truth <= high)) >= 0.94, (mixture, share)


def test_a_pool_that_forgets_a_part_does_not_cover() -> None:
    """The control: the interval of one batch, scaled to both, is too short."""
    rng = np.random.default_rng(41)
    (one, first), (two, second) = (draw("flips", 1000, 0.2, TIMES, rng) for _ in range(2))
    reach = one.interval(0.95)[1] - one.unbiased
    error = np.abs(one.unbiased + two.unbiased - first - second)
    assert lower_bound(error <= reach) < 0.9
