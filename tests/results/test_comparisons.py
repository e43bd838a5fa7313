"""Comparisons: false positives as rare as promised, the predicted power, and intervals that cover the difference."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.pipeline.sampled import SETTINGS, draw, lower_bound, rate_within

import hubbub as hb
from hubbub.numeric.comparison import equality_p_values, holm, score_power
from hubbub.numeric.population import CountNoise

TIMES = 20_000
# Arms of different sizes, and counts from a handful to the whole batch.
ARMS = [((1000, 1000), 1.5), ((1000, 1000), 12.0), ((300, 3000), 5.0), ((1000, 1000), 300.0), ((1000, 1500), 997.0)]


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(("sizes", "people"), ARMS)
def test_false_positives_are_as_rare_as_promised(name: str, sizes: tuple[int, int], people: float) -> None:
    rng, share = np.random.default_rng(51), people / sizes[0]
    (a, _), (b, _) = (draw(name, n, share, TIMES, rng) for n in sizes)
    found = hb.compare(a, b, correction="none")
    rate = float(found.significant.mean())
    if 100 <= people <= 900:
        assert rate_within(found.significant, 0.05, 0.002)
    assert rate <= 0.06
    assert rate >= (0.005 if people < 10 or people > 990 else 0.02), "absurdly conservative"
    for level in (0.9, 0.99):
        at = (found.p_value <= 1 - level).mean()
        assert at <= 1.2 * (1 - level), level
    covered = (found.low <= 0) & (found.high >= 0)
    assert lower_bound(covered) >= 0.94


def test_large_batches_have_five_percent_false_positives() -> None:
    rng = np.random.default_rng(52)
    for name in ("flips", "clear among Laplace fakes", "category", "copies"):
        for share in (0.002, 0.1, 0.6):
            (a, _), (b, _) = (draw(name, n, share, TIMES, rng) for n in (100_000, 60_000))
            assert rate_within(hb.compare(a, b, correction="none").significant, 0.05, 0.002), (name, share)


@pytest.mark.parametrize("forgotten", ["sampling", "noise"])
def test_a_test_that_forgets_an_error_has_too_many_false_positives(forgotten: str) -> None:
    """The control: neither the noise nor the sampling error may be left out."""
    rng, share = np.random.default_rng(53), 0.1
    (a, _), (b, _) = (draw("flips", 2000, share, TIMES, rng) for _ in range(2))
    variance = 2 * (a.noise.variance if forgotten == "sampling" else 2000 * share * (1 - share))
    naive = np.abs(a.unbiased - b.unbiased) > 1.96 * np.sqrt(variance)
    assert naive.mean() > 0.08


@pytest.mark.parametrize(
    ("name", "sizes", "shares"),
    [
        ("flips", (2000, 2000), (0.1, 0.14)),
        ("flips", (20_000, 20_000), (0.02, 0.03)),
        ("clear among Laplace fakes", (2000, 2000), (0.05, 0.08)),
        ("clear among Laplace fakes", (5000, 1000), (0.05, 0.08)),
        ("category", (4000, 4000), (0.5, 0.54)),
        ("copies", (3000, 6000), (0.2, 0.24)),
        ("clear among users' fakes", (2000, 2000), (0.9, 0.93)),
    ],
)
def test_power_is_as_predicted(name: str, sizes: tuple[int, int], shares: tuple[float, float]) -> None:
    rng = np.random.default_rng(54)
    (a, _), (b, _) = (draw(name, n, share, TIMES, rng) for n, share in zip(sizes, shares, strict=True))
    found = hb.compare(a, b, correction="none")
    schema, protocol = SETTINGS[name]
    plan = hb.plan_from(schema, min(sizes), protocol, delta=1e-6)
    predicted = hb.compare_power(plan, *shares, n_a=sizes[0], n_b=sizes[1])
    assert 0.3 < predicted < 0.999
    assert abs(float(found.significant.mean()) - predicted) < 0.02
    covered = (found.low <= shares[1] - shares[0]) & (shares[1] - shares[0] <= found.high)
    assert lower_bound(covered) >= 0.94
    assert abs(found.difference.mean() - (shares[1] - shares[0])) < 4.5 * found.stderr.mean() / np.sqrt(TIMES)
    assert abs(found.difference.std() / found.stderr.mean() - 1) < 0.03


def test_power_of_equal_shares_is_the_significance() -> None:
    plan = hb.plan_from(hb.Schema.bits(2), 1000, hb.Protocol(0.1), delta=1e-6)
    assert abs(hb.compare_power(plan, 0.2, 0.2, significance=0.01) - 0.01) < 1e-9
    assert hb.compare_power(plan, 0.2, 0.3) < hb.compare_power(plan, 0.2, 0.3, n_a=10_000, n_b=10_000)
    noise = draw("flips", 1000, 0.1, 1, np.random.default_rng(0))[0].noise
    assert score_power((0.1, 0.1), (1000, 1000), (noise, noise), 0.05) == pytest.approx(0.05)


def test_holm_bounds_the_probability_of_any_false_positive() -> None:
    rng, families, size = np.random.default_rng(55), 2000, 10
    (a, _), (b, _) = (draw("clear among Laplace fakes", 1000, 0.05, families * size, rng) for _ in range(2))
    p = hb.compare(a, b, correction="none").p_value.reshape(families, size)
    adjusted = np.array([holm(row) for row in p])
    assert (p.min(axis=1) <= 0.05).mean() > 0.25, "the control: without correction"
    assert (adjusted.min(axis=1) <= 0.05).mean() < 0.05 + 4 * np.sqrt(0.05 * 0.95 / families)
    assert np.array_equal(hb.compare(a, b).p_value, holm(p.ravel()))


def test_holm_agrees_with_the_definition() -> None:
    p = np.random.default_rng(56).random(7)
    order = np.argsort(p)
    for level in (0.1, 0.3, 0.6, 0.9):
        steps = 0
        while steps < 7 and p[order[steps]] <= level / (7 - steps):
            steps += 1
        assert set(np.flatnonzero(holm(p) <= level)) == set(order[:steps].tolist())


def test_weighted_holm_agrees_with_the_definition() -> None:
    rng = np.random.default_rng(60)
    p, weights = rng.random(8) ** 3, rng.random(8)
    for level in (0.05, 0.2, 0.6):
        left, rejected = set(range(8)), set()
        while left:
            first = min(left, key=lambda place: p[place] / weights[place])
            if p[first] > level * weights[first] / sum(weights[place] for place in left):
                break
            left.remove(first)
            rejected.add(first)
        assert set(np.flatnonzero(holm(p, weights) <= level)) == rejected


def test_a_rare_label_among_many_is_found() -> None:
    """Regression: the allowance for the common share alone exceeded 5 % after a correction for 10,000 labels."""
    rng = np.random.default_rng(61)
    a, _ = draw("few flips", 1000, 0.0, 20_000, rng)
    b, _ = draw("few flips", 1000, 0.0, 20_000, rng)
    values = b.unbiased.copy()
    values[7] = 60.0
    values.setflags(write=False)
    found = hb.compare(a, replace(b, values=values, unbiased=values))
    assert found.significant.tolist() == [place == 7 for place in range(20_000)]


def test_comparisons_are_antisymmetric() -> None:
    rng = np.random.default_rng(57)
    a, _ = draw("flips", 900, 0.1, 50, rng)
    b, _ = draw("clear among Laplace fakes", 1200, 0.1, 50, rng)
    one, two = hb.compare(a, b, correction="none"), hb.compare(b, a, correction="none")
    assert np.allclose(one.difference, -two.difference)
    assert np.allclose(one.low, -two.high)
    assert np.allclose(one.p_value, two.p_value, rtol=0.05, atol=1e-4)


def test_labels_are_matched_by_name() -> None:
    rng = np.random.default_rng(58)
    a, _ = draw("flips", 900, 0.1, 3, rng)
    b, _ = draw("flips", 900, 0.4, 3, rng)
    turned = hb.LabelView(
        labels=b.labels[::-1],
        values=b.values[::-1],
        stderr=b.stderr[::-1],
        n=b.n,
        one_choice=False,
        unbiased=b.unbiased[::-1],
        noise=b.noise,
    )
    assert np.array_equal(hb.compare(a, b).p_value, hb.compare(a, turned).p_value)
    assert np.array_equal(hb.pool([a, b]).values, hb.pool([a, turned]).values)


def test_many_labels_are_compared_at_once() -> None:
    """Distributions are computed once, not once per label."""
    rng = np.random.default_rng(59)
    (a, _), (b, _) = (draw("clear among Laplace fakes", 100_000, 1e-5, 200_000, rng) for _ in range(2))
    found = hb.compare(a, b)
    assert not found.significant.any()
    assert len(found) == 200_000


def test_frequent_labels_of_batches_of_very_different_sizes_are_rarely_named() -> None:
    """Regression: with 10,000 labels the normal p-values of 210 people named one in 6.8 % of unchanged pairs."""
    d, n = 10_000, 2_100_000
    noise, x = CountNoise(variance=0.0, flip=0.0), np.arange(80.0, 400.0)
    p = equality_p_values(x, np.full(x.size, 21_000.0), (n, 100 * n), (noise, noise), (x / n / 2, x / n * 2))
    named = float(stats.binom.pmf(x, n, 1 / d) @ (p <= 0.05 / d))
    assert 0.005 < d * named <= 0.05
    assert p[-1] < 1e-20
