"""Known totals of little noise: intervals, flags and population intervals hold by exact sums of probabilities."""

import functools

import numpy as np
import pytest
from tests.results.exact_errors import Floats, errors, noise_of

import hubbub as hb
from hubbub.mechanisms.noise import column_noise, count_noise, fake_noise, pooled_noise
from hubbub.numeric.intervals import count_interval, critical_count
from hubbub.numeric.population import CountNoise, population_interval

LAPLACE = hb.Fakes.laplace(2.0, 20)
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
SETTINGS: dict[str, tuple[int, int, hb.Protocol]] = {
    f"{name}, {labels} labels": (labels, n, protocol)
    for name, numbers, n, protocol in (
        ("one flip in ten", (3, 5, 8, 10), 500, hb.Protocol(0.1 / 500)),
        ("a flip in four", (7,), 500, hb.Protocol(0.25 / 500)),
        ("one flip", (2, 3, 5, 8, 20), 300, hb.Protocol(1 / 300, release="bits")),
        ("copies", (2, 5, 40), 50, hb.Protocol(0.01, 2)),
        ("many flips", (2, 3, 8), 50, hb.Protocol(0.2)),
        ("flips without gaps", (3, 7, 8), 500, hb.Protocol(0.02)),
        ("seven fakes and flips", (2, 6, 9, 16), 100, hb.Protocol(1e-4, m=7)),
        ("ten fakes and flips", (4, 6, 12, 40), 20, hb.Protocol(0.001, m=10)),
        ("fakes as split bits", (3, 9), 60, hb.Protocol(0.05, m=30, release="bits")),
        ("Poisson fakes as split bits", (3, 10), 50, hb.Protocol(0.02, m=hb.Fakes.poisson(0.3), release="bits")),
        ("binomial fakes as split bits", (3,), 50, hb.Protocol(0.02, m=hb.Fakes.binomial(2, 0.2), release="bits")),
        ("wide Laplace fakes", (2,), 200, hb.Protocol(0.01, m=hb.Fakes.laplace(8.0, 100), release="bits")),
        ("Laplace fakes", (4, 16), 200, hb.Protocol(0.01, m=LAPLACE, release="bits")),
        ("Laplace fakes of whole records", (2, 3), 200, hb.Protocol(0.02, m=LAPLACE)),
    )
    for labels in numbers
}


@functools.lru_cache(128)
def drawn_errors(name: str, held: int) -> tuple[Floats, Floats]:
    found, weights = errors(*SETTINGS[name][:1], SETTINGS[name][2], SETTINGS[name][1], held)
    kept = weights > 1e-13
    return found[kept], weights[kept]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_oracle_has_the_stated_variance(name: str) -> None:
    labels, n, protocol = SETTINGS[name]
    for held in (0, n // 3, n):
        found, weights = drawn_errors(name, held)
        assert abs(weights @ found) < 1e-6
        assert weights @ found**2 == pytest.approx(noise_of(labels, protocol, n).variance, rel=1e-5)


@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_hold_for_every_count(name: str) -> None:
    """Regression: half a message of slack was a d-th of one, and 2.4 times as many intervals of 99 % missed."""
    labels, n, protocol = SETTINGS[name]
    noise = noise_of(labels, protocol, n)
    for held in sorted({0, 1, n // 10, n // 4, n // 3, n // 2, 3 * n // 4, n - 1, n}):
        found, weights = drawn_errors(name, held)
        for level in (*LEVELS, 1 - 0.05 / labels):
            half = float(count_interval(np.zeros(1), n, noise, 1 - level)[1][0])
            assert weights[np.abs(found) > half + 1e-9].sum() <= (1 - level) * 1.0005, (held, level)


@pytest.mark.parametrize("name", SETTINGS)
def test_empty_labels_are_rarely_flagged(name: str) -> None:
    """Regression: other labels were taken as normal, however few, and twice as many empty labels were flagged."""
    labels, n, protocol = SETTINGS[name]
    noise = noise_of(labels, protocol, n)
    found, weights = drawn_errors(name, 0)
    for miss in (0.05, 0.01):
        flagged = float(weights[found > critical_count(noise, n, miss / labels)].sum())
        assert (labels - 1) * flagged <= miss


def missed(noise: CountNoise, n: int, held: int, one: tuple[Floats, Floats], level: float) -> float:
    """Return the probability that the population interval of a label of nobody or of all misses the share."""
    low, high = population_interval(held + one[0], n, noise, 1 - level)
    return float(one[1][(low > held / n + 1e-12) | (high < held / n - 1e-12)].sum())


@pytest.mark.parametrize("name", SETTINGS)
def test_population_intervals_of_empty_and_full_labels_hold(name: str) -> None:
    """Regression: the error of a full label was that of an empty one, mirrored, and 5 of 100 intervals of 99 % missed.

    Flips of those who have the label are skewed the other way. Only one end can miss, with half the probability.
    """
    labels, n, protocol = SETTINGS[name]
    noise = noise_of(labels, protocol, n)
    for held in (0, n):
        for level in LEVELS[2:]:
            assert missed(noise, n, held, drawn_errors(name, held), level) <= (1 - level) / 2 * 1.0005, (held, level)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name.startswith("one flip,")])
def test_answers_to_surveys_have_the_same_error(name: str) -> None:
    labels, n, protocol = SETTINGS[name]
    gain = 1 - 2 * protocol.q
    variance = n * protocol.q * (1 - protocol.q) / gain**2
    noise = column_noise(protocol.noise[0], labels, n, variance, gain, 1)
    for held in (0, n):
        for level in LEVELS[2:]:
            assert missed(noise, n, held, drawn_errors(name, held), level) <= (1 - level) / 2


@pytest.mark.parametrize("schema", [hb.Schema.bits(3), hb.Schema.one_hot(3)], ids=["any labels", "one label"])
@pytest.mark.parametrize(
    "protocol", [hb.Protocol(0.005, 2), hb.Protocol(0.01, m=30), hb.Protocol(0.01, m=hb.Fakes.laplace(1.0, 9))]
)
def test_the_errors_of_full_labels_are_drawn_as_people_send(schema: hb.Schema, protocol: hb.Protocol) -> None:
    """By the third moment of 200,000 drawn collections, and that of two pooled ones: flips lower a full count."""
    n, times, rng = 100, 200_000, np.random.default_rng(3)
    noise = count_noise(schema, protocol, n, fake_noise(schema, protocol, n, protocol.fixed_fakes))
    q, k = protocol.q, protocol.k
    legal = [[1, 0, 0], [0, 1, 0], [0, 0, 1]] if schema.exclusive else np.indices((2, 2, 2)).reshape(3, -1).T
    records, drawn = np.array(legal), protocol.shuffler_fakes
    weights = np.ones(len(records)) / len(records)
    if drawn is None:
        kinds = rng.multinomial(protocol.fixed_fakes, weights, times)
    else:
        kinds = rng.choice(drawn.pmf.size, (times, len(records)), p=drawn.pmf)
    own = records[1] if not schema.exclusive else records[0]
    column = int(np.flatnonzero(own)[0])
    set_bits = kinds @ records + k * n * own
    all_messages = (kinds.sum(axis=1) + k * n)[:, None]
    sent = rng.binomial(set_bits, 1 - q) + rng.binomial(all_messages - set_bits, q)
    shown = sent[:, column] - sent.mean(axis=1) if schema.exclusive else sent[:, column]
    error = (shown - shown.mean()) / (k * (1 - 2 * q))
    for one, factor in ((noise, 1), (pooled_noise([(n, noise), (n, noise)]), 2)):
        assert one.full is not None
        place = (np.arange(one.full.low, one.full.high + 1) - one.full.mean) / one.gain
        for power in (2, 3):
            sample = error**power
            assert factor * sample.mean() == pytest.approx(
                float(place**power @ one.full.pmf), abs=6 * factor * sample.std() / np.sqrt(times) + 0.02 * factor
            )
