"""Everyone has exactly one label, so the counts add up to n: what that is worth, and that it is exact."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.results.simulated import survey_plan

import hubbub as hb
from hubbub.lab.cells import Cell, contradictions, measure
from hubbub.lab.populations import Population
from hubbub.mechanisms.noise import count_noise, fake_noise, known_total, predicted_stderr
from hubbub.model.privacy import TrustModel
from hubbub.numeric.intervals import count_interval, critical_count

BUDGET = hb.Budget(1.0, 1e-6)
PROTOCOLS = {
    "split bits": hb.Protocol(0.01, release="bits"),
    "flips": hb.Protocol(0.1),
    "copies": hb.Protocol(0.2, 3),
    "fixed fakes among flips": hb.Protocol(0.05, m=900),
    "users' fakes among flips": hb.Protocol(0.05, m=hb.Fakes.binomial(2, 0.25)),
    "users' fakes as split bits": hb.Protocol(0.02, m=hb.Fakes.poisson(0.5), release="bits"),
    "the shuffler's fakes": hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25)),
    "the shuffler's fakes as split bits": hb.Protocol(0.0, m=hb.Fakes.gaussian(2.0, 20), release="bits"),
    "the shuffler's fakes among flips": hb.Protocol(0.05, m=hb.Fakes.laplace(3.0, 40)),
}


@pytest.mark.parametrize(
    ("labels", "trust", "most"),
    [(2, "shuffler-noise", 1.9795), (2, "shuffling", 5.02), (4, "shuffling", 6.15), (100, "shuffling", 7.06)],
)
def test_the_errors_of_the_default_plans(labels: int, trust: TrustModel, most: float) -> None:
    assert hb.plan(hb.Schema.one_hot(labels), 20_000, BUDGET, trust=trust).stderr <= most


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("labels", [2, 3, 5])
def test_the_variance_is_that_of_all_messages(name: str, labels: int) -> None:
    """By the covariance of the messages of all labels, written out for each kind of noise."""
    schema, protocol, n = hb.Schema.one_hot(labels), PROTOCOLS[name], 1000
    q, k, d = protocol.q, protocol.k, labels
    p, ones = 1 - q, np.ones((d, d))
    covariance = k * n * p * q * np.eye(d)
    users, drawn = protocol.user_fakes, protocol.shuffler_fakes
    if drawn is not None and protocol.sends_records:
        moved = (p - q) * np.eye(d) + q * ones
        covariance += drawn.variance * moved @ moved + d * drawn.mean * p * q * np.eye(d)
    elif drawn is not None:
        covariance += drawn.variance * np.eye(d)
    elif protocol.m:
        mean = n * users.mean if users else protocol.fixed_fakes
        spread = n * users.variance if users and protocol.sends_bits else 0.0
        shows = q + (p - q) / d
        both = q * q + 2 * q * (p - q) / d
        own = both * ones + (shows - both) * np.eye(d)
        covariance += mean * (own - shows**2 * ones) + spread * shows**2 * ones
    centred = np.eye(d) - ones / d
    expected = math.sqrt((centred @ covariance @ centred)[0, 0]) / (k * (p - q))
    assert known_total(schema, protocol)
    assert predicted_stderr(schema, protocol, n) == pytest.approx(expected, rel=1e-12)
    noise = count_noise(schema, protocol, n, fake_noise(schema, protocol, n, protocol.fixed_fakes))
    if noise.distribution is not None:
        place = np.arange(noise.distribution.low, noise.distribution.high + 1) - noise.centre
        found = float(place**2 @ noise.distribution.pmf) / noise.gain**2
        assert expected**2 * (1 - 1e-9) <= found <= expected**2 * 1.002 + 0.1 / noise.gain**2


@pytest.mark.parametrize("labels", [2, 3, 4, 100])
@pytest.mark.parametrize("exponent", [0.0, 3.0])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_intervals_cover_and_errors_are_as_predicted(name: str, labels: int, exponent: float) -> None:
    """Equal labels, and skewed ones of which most are empty."""
    plan = hb.plan_from(hb.Schema.one_hot(labels), 600, PROTOCOLS[name], delta=1e-3)
    cell = Cell(plan=plan, population=Population(exponent=exponent), n=600, repetitions=200, level="counts", seed=1)
    assert contradictions([measure(cell)], 0.01 / 72) == []


@pytest.mark.parametrize("labels", [2, 3, 8, 20])
@pytest.mark.parametrize("fakes", [None, hb.Fakes.laplace(2.0, 25), hb.Fakes.poisson(0.3), hb.Fakes.binomial(1, 0.25)])
def test_a_survey_of_one_choice_says_the_same(labels: int, fakes: hb.Fakes | None) -> None:
    schema = hb.Schema.one_hot(labels)
    noise = hb.Noise(0.01) if fakes is None else hb.Noise(m=fakes)
    survey = survey_plan({"label": hb.Choice(schema.labels)}, [noise])
    plan = replace(survey, schema=schema, protocol=hb.Protocol(noise.q, m=noise.m, release="bits"))
    counts = 300 + np.arange(labels, dtype=np.int64) * 7
    counts.setflags(write=False)
    one, two = (
        hb.Tally(plan=own.id, n=500, fakes=0, messages=int(counts.sum()), batches=1, smallest_batch=500, counts=counts)
        for own in (plan, survey)
    )
    alone, asked = hb.estimate(one, plan).question, hb.estimate(two, survey)["label"]
    assert isinstance(asked, hb.LabelView)
    assert alone.values.sum() == pytest.approx(500)
    for name in ("values", "stderr"):
        np.testing.assert_allclose(getattr(alone, name), getattr(asked, name), rtol=1e-12)
    for level in (0.5, 0.95, 0.999):
        for mine, theirs in zip(alone.interval(level), asked.interval(level), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_nothing_is_gained_where_the_messages_add_up() -> None:
    for protocol in (
        hb.Protocol(0.1, release="category"),
        hb.Protocol(0.0, m=500),
        hb.Protocol(0.0, m=hb.Fakes.poisson(1)),
    ):
        assert not known_total(hb.Schema.one_hot(4), protocol)
    for schema in (hb.Schema.bits(4), hb.Schema.at_most(1, 4)):
        assert not known_total(schema, hb.Protocol(0.1))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize(("labels", "fakes"), [(2, 5), (4, 40), (5, 1), (6, 40), (7, 2), (8, 20), (10, 5)])
def test_clear_bits_among_a_known_number_of_fakes_err_as_a_binomial_number(
    labels: int, fakes: int, level: float
) -> None:
    """Regression: fakes of different labels were taken as independent, and 16 of 100 intervals of 90 % missed."""
    schema, n = hb.Schema.one_hot(labels), 200
    number = np.arange(fakes + 1)
    weights = stats.binom.pmf(number, fakes, 1 / labels)
    for release in ("bits", "records"):
        protocol = hb.Protocol(0.0, m=fakes, release=release)
        noise = count_noise(schema, protocol, n, fake_noise(schema, protocol, n, fakes))
        half = float(count_interval(np.zeros(1), n, noise, 1 - level)[1][0])
        assert weights[np.abs(number - fakes / labels) > half + 1e-9].sum() <= 1 - level
        assert half <= stats.norm.ppf((1 + level) / 2) * math.sqrt(noise.variance) + 1
        limit = critical_count(noise, n, (1 - level) / labels)
        assert weights[number - fakes / labels > limit].sum() <= (1 - level) / labels
