"""Synthetic people have the documented distribution, as records and as counts; others are detected."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import InvalidInput
from hubbub.lab.populations import (
    GRID,
    GivenPopulation,
    Population,
    column_counts,
    draw_from,
    generator,
    parse_population,
)

FALSE_POSITIVE_RATE = 1e-5
SCHEMAS = [hb.Schema.bits(4), hb.Schema.one_hot(5), hb.Schema.at_most(2, 5), hb.Schema.at_most(3, 3)]
POPULATIONS = [Population(), Population(exponent=1.3), Population(exponent=1.0, segments=3, lift=4.0)]
PAIRS = list(itertools.product(SCHEMAS, POPULATIONS))
NAMES = [f"{schema.form}{schema.width}-{population.name}" for schema, population in PAIRS]


def legal(schema: hb.Schema) -> NDArray[np.int64]:
    rows = np.array(list(itertools.product([0, 1], repeat=schema.width)))
    ones = rows.sum(axis=1)
    return np.asarray(rows[(ones == 1) if schema.exclusive else (ones <= schema.max_set)])


def distribution(schema: hb.Schema, population: Population) -> NDArray[np.float64]:
    """Return the probability of each legal record by enumeration of the definition."""
    rows, result = legal(schema), np.zeros(len(legal(schema)))
    for odds in population.odds(schema.width):
        weight = np.prod(np.where(rows == 1, odds, 1.0), axis=1)
        result += weight / weight.sum() / population.segments
    return result


def drawn(schema: hb.Schema, population: Population, n: int, seed: int) -> NDArray[np.int64]:
    """Return how often each legal record is drawn."""
    people = population.people(schema, n, entropy=SeededStreamNotForPeople(seed))
    bits = np.unpackbits(people.rows(0, n), axis=1, bitorder="little", count=schema.width)
    place = {tuple(row): i for i, row in enumerate(legal(schema).tolist())}
    return np.bincount([place[tuple(row)] for row in bits.tolist()], minlength=len(place))


@pytest.mark.parametrize(("schema", "population"), PAIRS, ids=NAMES)
def test_records(schema: hb.Schema, population: Population) -> None:
    n = 20_000
    seen = drawn(schema, population, n, 11)
    assert stats.chisquare(seen, n * distribution(schema, population)).pvalue > FALSE_POSITIVE_RATE
    wrong = distribution(schema, Population(exponent=population.exponent + 0.15))
    assert stats.chisquare(seen, n * wrong).pvalue < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(("schema", "population"), PAIRS, ids=NAMES)
def test_counts(schema: hb.Schema, population: Population) -> None:
    """Means and covariances of the column counts of n people are n times those of one person."""
    n, times = 10**9, 1000
    entropy = SeededStreamNotForPeople(12)
    counts = np.array([population.counts(schema, n, entropy=entropy) for _ in range(times)], float)
    rows, chances = legal(schema).astype(float), distribution(schema, population)
    mean = chances @ rows
    cov = (rows - mean).T @ ((rows - mean) * chances[:, None])
    spread = np.sqrt(np.diag(cov))
    # Probabilities are rounded to a grid, which is at most a quarter of a person at 10⁹ people.
    assert (np.abs(counts.mean(axis=0) - n * mean) < 5 * spread * np.sqrt(n / times) + n / GRID).all()
    observed = np.cov(counts, rowvar=False) / n / np.outer(spread, spread)
    assert np.abs(observed - cov / np.outer(spread, spread)).max() < 5 * np.sqrt(2 / times)


def test_counts_with_other_covariance_are_detected() -> None:
    """The control of the test above: independent columns of one-hot records lack their covariance."""
    counts = np.random.default_rng(1).binomial(10**9, 0.2, (3000, 5))
    observed = np.corrcoef(counts, rowvar=False)
    assert np.abs(observed - (1.25 * np.eye(5) - 0.25)).max() > 5 * np.sqrt(2 / 3000)


def test_correlations() -> None:
    population, n, width = Population(exponent=0.7, segments=4, lift=3.0), 200_000, 9
    people = population.people(hb.Schema.bits(width), n, entropy=SeededStreamNotForPeople(13))
    bits = np.unpackbits(people.rows(0, n), axis=1, bitorder="little", count=width)
    observed = np.corrcoef(bits, rowvar=False)
    expected = population.correlations(width)
    assert np.abs(observed - expected).max() < 5 / np.sqrt(n)
    own = np.arange(width) % 4
    together = (own == own[:, None]) & ~np.eye(width, dtype=bool)
    assert (expected[together] > 0.15).all()
    assert (expected[own != own[:, None]] < -0.04).all()
    assert np.abs(observed - Population(exponent=0.7).correlations(width)).max() > 50 / np.sqrt(n)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_uniform_columns(schema: hb.Schema) -> None:
    """In uniform legal records, such as fakes, every bit has the density of the schema."""
    counts = column_counts(np.full(4000, 1000), schema, generator(SeededStreamNotForPeople(14)))
    error = np.sqrt(1000 * schema.density * (1 - schema.density) / 4000)
    assert np.abs(counts.mean(axis=0) - 1000 * schema.density).max() < 5 * error
    if schema.exclusive:
        assert (counts.sum(axis=1) == 1000).all()
    else:
        assert (counts.sum(axis=1) <= 1000 * schema.max_set).all()


def test_many_labels_with_many_set() -> None:
    """Sums of products beyond float64 stay finite as logarithms."""
    schema = hb.Schema.at_most(600, 2000)
    counts = column_counts(np.array([10**6]), schema, generator(SeededStreamNotForPeople(15)))[0]
    assert abs(counts.mean() / 10**6 - schema.density) < 1e-3
    people = Population().people(hb.Schema.at_most(60, 2000), 50, entropy=SeededStreamNotForPeople(16))
    assert abs(people.counts().sum() / 50 - 60) < 1


def test_numbers_follow_their_probabilities() -> None:
    pmf = hb.Fakes.laplace(2.0, 3).pmf
    seen = np.bincount(draw_from(pmf, (20_000,), generator(SeededStreamNotForPeople(17))), minlength=12)
    expected = np.r_[pmf[:11], pmf[11:].sum()] * 20_000
    assert stats.chisquare(np.r_[seen[:11], seen[11:].sum()], expected).pvalue > FALSE_POSITIVE_RATE
    other = np.r_[hb.Fakes.laplace(2.1, 3).pmf[:11], hb.Fakes.laplace(2.1, 3).pmf[11:].sum()] * 20_000
    assert stats.chisquare(np.r_[seen[:11], seen[11:].sum()], other).pvalue < FALSE_POSITIVE_RATE


@pytest.mark.parametrize("schema", SCHEMAS[:3], ids=str)
def test_given_population(schema: hb.Schema) -> None:
    people = Population(exponent=1.0).people(schema, 50, entropy=SeededStreamNotForPeople(18))
    given, entropy = GivenPopulation.of(people), SeededStreamNotForPeople(1)
    bits = np.unpackbits(people.rows(0, 50), axis=1, bitorder="little", count=schema.width)
    assert given.counts(schema, 50, entropy=entropy).tolist() == bits.sum(axis=0).tolist()
    assert given.people(schema, 50, entropy=entropy) is people
    alone = pickle.loads(pickle.dumps(given.without_records()))
    assert alone.truth.tolist() == given.truth.tolist()
    with pytest.raises(InvalidInput, match="in the process that loaded it"):
        alone.people(schema, 50, entropy=entropy)
    with pytest.raises(TypeError, match="no wire form"):
        pickle.dumps(given)
    with pytest.raises(InvalidInput, match="match the given population"):
        given.counts(schema, 49, entropy=entropy)
    other = Population(exponent=1.0).people(schema, 50, entropy=SeededStreamNotForPeople(19))
    assert GivenPopulation.of(other).name != given.name
    assert "50 people" in repr(given)


@pytest.mark.parametrize("text", ["uniform", "zipf:1", "zipf:1.5", "segments:4:4", "segments:3:2:0.5"])
def test_names_round_trip(text: str) -> None:
    assert parse_population(text).name == text


BAD = ["", "normal", "uniform:1", "zipf:x", "zipf:-1", "zipf:1:2", "segments:1", "segments:2.5", "segments:2:0.5"]


@pytest.mark.parametrize("text", [*BAD, "zipf:nan", "zipf:inf", "segments:inf"])
def test_invalid_populations(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_population(text)
