"""Populations of synthetic people, drawn as records or only as true counts.

All populations form one family. A person of class c has the legal record x with probability proportional to the product
of the odds w_cj over the set bits j of x: independent bits, conditioned on a legal record.

- ``uniform``: all odds are 1, so every legal record is equally likely;
- ``zipf:s``: the odds of the j-th label are j^−s; for one-hot records its share is proportional to them;
- ``segments:c:lift``: c equally frequent classes with Zipf odds, multiplied by ``lift`` for the class's own labels
  (every c-th) and divided by it for the others, so labels of one segment are positively correlated.

Sampling uses a table of A_r(j), the sum of the products of odds over all choices of at most r labels from the j-th on:
A_r(j) = A_r(j + 1) + w_j·A_(r−1)(j + 1). Records and column counts follow from it label by label.

This is the only module with a statistical generator, which draws large counts at once instead of a billion coins. Its
numbers describe synthetic people and simulated noise and never protect anyone; it is seeded by the caller's entropy.
"""

import hashlib
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.random import PCG64DXSM, Generator  # noqa: TID251 (simulations only; see above)
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy, draw
from hubbub.bits.records import uniform_categories
from hubbub.errors import Interval, check_memory, check_real, check_whole, reject
from hubbub.model.questions.text import NOTHING
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection, SetBits

Rng = Generator


def generator(entropy: Entropy) -> Rng:
    """Return a statistical generator seeded with 32 bytes of entropy.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> one, two = (generator(SeededStreamNotForPeople(7)) for _ in range(2))
    >>> one.binomial(10**9, 0.25) == two.binomial(10**9, 0.25)
    True
    """
    return Generator(PCG64DXSM(draw(entropy, 4).tolist()))


def draw_from(pmf: NDArray[np.float64], size: tuple[int, ...], rng: Rng) -> NDArray[np.int64]:
    """Draw independent numbers 0, 1, … with the probabilities ``pmf``, by inversion of the cdf.

    >>> draw_from(np.array([0.0, 0.0, 1.0]), (3,), np.random.default_rng(1)).tolist()
    [2, 2, 2]
    """
    edges = pmf.cumsum()
    # Scaling by the last edge keeps the result in range even if rounding moved that edge.
    return np.asarray(np.searchsorted(edges, rng.random(size) * edges[-1], side="right"), np.int64)


Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

GRID = 2**32
"""Probabilities of independent bits are multiples of 1/GRID, so records and counts have the same exact distribution."""
_CELLS = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """A distribution of records: odds j^−s of the j-th label, and segments of correlated labels.

    >>> Population(exponent=1.0).odds(3).round(3).tolist()
    [[1.0, 0.5, 0.333]]
    """

    exponent: float = 0.0
    segments: int = 1
    lift: float = 1.0

    def __post_init__(self) -> None:
        check_real("exponent", self.exponent, Interval(0.0, 10.0))
        check_whole("segments", self.segments, 1, 1000)
        check_real("lift", self.lift, Interval(1.0, 1000.0))

    @property
    def name(self) -> str:
        """The text form that :func:`parse_population` reads.

        >>> Population().name, Population(exponent=1.5).name, Population(exponent=1.0, segments=4, lift=4.0).name
        ('uniform', 'zipf:1.5', 'segments:4:4')
        """
        if self.segments > 1:
            end = f":{self.exponent:.15g}" if self.exponent != 1 else ""
            return f"segments:{self.segments}:{self.lift:.15g}{end}"
        return f"zipf:{self.exponent:.15g}" if self.exponent else "uniform"

    def odds(self, width: int) -> Array:
        """Return w_cj, a row per class."""
        base = np.arange(1, width + 1) ** -float(self.exponent)
        own = np.arange(width) % self.segments == np.arange(self.segments)[:, None]
        return np.asarray(base * np.where(own, self.lift, 1 / self.lift))

    def chances(self, width: int) -> Array:
        """Return P(bit j is set | class c) = w_cj/(1 + w_cj) on the grid, for schemas of any bits."""
        odds = self.odds(width)
        return np.asarray(np.rint(odds / (1 + odds) * GRID) / GRID)

    def correlations(self, width: int) -> Array:
        """Return the correlation matrix of the bits, for schemas of any bits.

        Given the class, bits are independent: for i ≠ j cov = mean_c p_ci·p_cj − p_i·p_j, p_i = mean_c p_ci.

        >>> Population(exponent=1.0, segments=2, lift=4.0).correlations(3).round(3).tolist()
        [[1.0, -0.342, 0.317], [-0.342, 1.0, -0.301], [0.317, -0.301, 1.0]]
        """
        given = self.chances(width)
        mean = given.mean(axis=0)
        covariance = given.T @ given / self.segments - np.outer(mean, mean)
        np.fill_diagonal(covariance, mean * (1 - mean))
        deviation = np.sqrt(np.diag(covariance))
        return np.asarray(covariance / np.outer(deviation, deviation))

    def people(self, schema: Schema, n: int, *, entropy: Entropy) -> Collection:
        """Draw the records of n independent people.

        >>> from hubbub.bits.entropy import system
        >>> Population(exponent=1.0).people(Schema.at_most(2, 9), 5, entropy=system)
        Collection(5 records of Schema.at_most(2, 9 labels))
        """
        _check_no_survey(schema)
        check_memory(f"{n} people of {schema}", n * max(24 * schema.max_set, -(-schema.width // 8)))
        classes = uniform_categories(n, self.segments, entropy=entropy)
        if schema.dense:
            return Collection.from_packed(self._rows(schema.width, classes, entropy), schema)
        chosen = np.full((n, schema.max_set), schema.width, np.int64)
        for place, odds in enumerate(self.odds(schema.width)):
            members = np.flatnonzero(classes == place)
            chosen[members] = _choices(_table(odds, schema), members.size, entropy)
        if schema.min_set:
            return Collection.from_values(chosen[:, 0], schema)
        is_set = chosen < schema.width
        return Collection(schema, SetBits(chosen[is_set].astype(np.uint32), np.cumsum(is_set.sum(axis=1))))

    def counts(self, schema: Schema, n: int, *, entropy: Entropy) -> Numbers:
        """Draw how many of n independent people have each label, jointly distributed as the sums of :meth:`people`.

        >>> from hubbub.bits.entropy import system
        >>> int(Population(exponent=1.0).counts(Schema.one_hot(9), 10**9, entropy=system).sum())
        1000000000
        """
        _check_no_survey(schema)
        rng = generator(entropy)
        sizes = rng.multinomial(n, np.full(self.segments, 1 / self.segments))
        if schema.dense:
            return np.asarray(rng.binomial(sizes[:, None], self.chances(schema.width)).sum(axis=0), np.int64)
        parts = [
            column_counts(np.array([size]), schema, rng, odds)[0]
            for size, odds in zip(sizes, self.odds(schema.width), strict=True)
        ]
        return np.asarray(sum(parts), np.int64)

    def without_records(self) -> Self:
        """Return the population itself, which holds no records."""
        return self

    def _rows(self, width: int, classes: Numbers, entropy: Entropy) -> NDArray[np.uint8]:
        bounds = (self.chances(width) * GRID).astype(np.uint64)
        rows = np.empty((classes.size, -(-width // 8)), np.uint8)
        step = max(1, _CELLS // width)
        for start in range(0, classes.size, step):
            part = classes[start : start + step]
            coins = draw(entropy, (part.size, width), np.uint32) < bounds[part]
            rows[start : start + step] = np.packbits(coins, axis=1, bitorder="little")
        return rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GivenPopulation:
    """People from a data set: their true counts, and their records, which stay in this process.

    >>> GivenPopulation.of(Collection.from_values(["red", "blue", "red"], Schema.one_hot(["red", "blue"])))
    GivenPopulation(3 people)
    """

    schema: Schema
    truth: Numbers
    n: int
    name: str  # a digest of all records in order, which tells the results of different data sets apart
    records: Collection | None

    @classmethod
    def of(cls, people: Collection) -> "GivenPopulation":
        """Return the population of a collection; strings have no list of counts."""
        digest = hashlib.sha256()
        if people.schema.text is not None:
            digest.update(people.rows(0, len(people)).tobytes())
            name = f"given:{digest.hexdigest()[:16]}"
            return cls(people.schema, np.empty(0, np.int64), len(people), name, people)
        for part in people.blocks(1 << 16):
            for array in part.ones(0, len(part)):
                digest.update(array.tobytes())
        return cls(people.schema, people.counts(), len(people), f"given:{digest.hexdigest()[:16]}", people)

    def without_records(self) -> "GivenPopulation":
        """Return the population with true counts only, which may be sent to another process."""
        return GivenPopulation(self.schema, self.truth, self.n, self.name, None)

    def people(self, schema: Schema, n: int, *, entropy: Entropy) -> Collection:
        """Return the records."""
        del entropy
        self._check(schema, n)
        if self.records is None:
            reject("a given population", "be studied by records in the process that loaded it")
        return self.records

    def counts(self, schema: Schema, n: int, *, entropy: Entropy) -> Numbers:
        """Return the true counts."""
        del entropy
        self._check(schema, n)
        return self.truth

    def _check(self, schema: Schema, n: int) -> None:
        if schema != self.schema or n != self.n:
            reject("the request", f"match the given population: {self.n:,} people with {self.schema}")

    def __repr__(self) -> str:
        return f"GivenPopulation({self.n:,} people)"


STRINGS = 10_000  # strings of a synthetic population


def string_counts(
    population: Population | GivenPopulation, schema: Schema, n: int, *, entropy: Entropy
) -> dict[bytes, int]:
    """Return how many people hold each string; the frequencies of synthetic ones are those of one-hot labels."""
    strings = schema.text
    assert strings is not None
    if isinstance(population, GivenPopulation):
        people = population.people(schema, n, entropy=entropy)
        counts = Counter(row.tobytes() for row in people.rows(0, len(people)))
        return {body: count for body, count in counts.items() if body[0] != NOTHING}
    size = min(STRINGS, 26**strings.max_bytes)
    found = population.counts(Schema.one_hot(size), n, entropy=entropy)
    return {strings.encode(_string(i, strings.max_bytes)): int(count) for i, count in enumerate(found) if count}


def _string(number: int, longest: int) -> str:
    """Return a short string for a number.

    >>> _string(0, 8), _string(27, 8)
    ('a', 'bb')
    """
    name = chr(97 + number % 26)
    while number >= 26 and len(name) < longest:
        number //= 26
        name = chr(97 + number % 26) + name
    return name


def parse_population(text: str) -> Population:
    """Parse ``uniform``, ``zipf``, ``zipf:s``, ``segments``, ``segments:c``, ``segments:c:lift`` or ``…:lift:s``.

    >>> parse_population("zipf"), parse_population("segments:6")
    (Population(exponent=1.0, segments=1, lift=1.0), Population(exponent=1.0, segments=6, lift=4.0))
    """
    word, *figures = text.split(":")
    must = "be uniform, zipf:EXPONENT or segments:NUMBER:LIFT:EXPONENT"
    defaults = {"uniform": (), "zipf": ("1",), "segments": ("4", "4", "1")}.get(word)
    if defaults is None or len(figures) > len(defaults):
        reject("a population", must, text)
    try:
        given = [float(figure) for figure in (*figures, *defaults[len(figures) :])]
    except ValueError:
        reject("a population", must, text)
    if word == "segments":
        number = check_whole("the number of segments", int(given[0]) if given[0].is_integer() else given[0], 2)
        return Population(exponent=given[2], segments=number, lift=given[1])
    return Population(exponent=given[0] if given else 0.0)


def column_counts(totals: Numbers, schema: Schema, rng: Rng, odds: Array | None = None) -> Numbers:
    """Draw, for each total, how often each bit is set in that many independent legal records; one row per total.

    Records have the distribution of this module with one class, by default uniform over the legal ones. One-hot columns
    are multinomial. Otherwise, label by label, records that may have r more bits are exchangeable: of M_r of them,
    Binomial(M_r, w_j·A_(r−1)(j + 1)/A_r(j)) have the j-th bit set and may have r − 1 more. Exact, in O(width·max_set)
    draws for any totals.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> rng = generator(SeededStreamNotForPeople(1))
    >>> column_counts(np.array([10**9, 5]), Schema.one_hot(4), rng).sum(axis=1).tolist()
    [1000000000, 5]
    """
    width = schema.width
    weights = np.ones(width) if odds is None else odds
    if schema.dense:
        return rng.binomial(totals[:, None], weights / (1 + weights))
    if schema.min_set:
        return rng.multinomial(totals, weights / weights.sum())
    table = _table(weights, schema)
    left = np.zeros((totals.size, schema.max_set), np.int64)
    left[:, -1] = totals
    counts = np.empty((totals.size, width), np.int64)
    for j in range(width):
        # Column r − 1 of ``left`` counts the records that may have r more bits.
        share = np.exp(math.log(weights[j]) + table[:-1, j + 1] - table[1:, j])
        now = rng.binomial(left, np.minimum(share, 1.0))
        counts[:, j] = now.sum(axis=1)
        left -= now
        left[:, :-1] += now[:, 1:]
    return counts


def _check_no_survey(schema: Schema) -> None:
    if schema.named:
        reject("the schema", "not be that of a survey; hubbub.lab.answers draws the answers to its questions")


def _table(odds: Array, schema: Schema) -> Array:
    """Return ln A_r(j) for r = 0 … max_set and j = 0 … width; for one-hot schemas with exactly one label."""
    width = schema.width
    check_memory(f"the distribution of {schema}", 8 * (schema.max_set + 1) * (width + 1))
    table = np.zeros((schema.max_set + 1, width + 1))
    nothing = -math.inf if schema.min_set else 0.0
    logs = np.log(odds)
    for r in range(1, schema.max_set + 1):
        terms = np.concatenate([[nothing], (logs + table[r - 1, 1:])[::-1]])
        table[r] = np.logaddexp.accumulate(terms)[::-1]
    return table


def _choices(table: Array, n: int, entropy: Entropy) -> NDArray[Any]:
    """Draw the set bits of n records in ascending order, padded with ``width``.

    The next set bit of a record that may have r more is beyond j' with probability A_r(j' + 1)/A_r(j).
    """
    most, width = table.shape[0] - 1, table.shape[1] - 1
    chosen = np.full((n, most), width, np.int64)
    active, place = np.arange(n), np.zeros(n, np.int64)
    for step in range(most):
        sums = table[most - step]
        uniform = ((draw(entropy, active.size) >> np.uint64(11)) + 1) * 2.0**-53
        level = np.log(uniform) + sums[place]
        found = np.searchsorted(-sums, -level, side="right") - 1
        # Rounding may select a bit of tiny weight before the current one.
        found = np.maximum(found, place)
        more = found < width
        active, place = active[more], found[more] + 1
        chosen[active, step] = found[more]
    return chosen
