"""Synthetic people: of one kind or of several, with any legal records, one by one or only as true counts.

All of them are one family. A person of class c has the legal record x with probability proportional to the product of
the odds w_cj over the set bits j of x: bits that would be independent, conditioned on a legal record.

- ``uniform``: all odds are 1, so that every legal record is equally likely;
- ``zipf:s``: the odds of the j-th label are j^−s, for one-hot records its share in proportion;
- ``segments:c:lift``: c equally frequent classes with the odds of Zipf's law, times ``lift`` for every c-th label, the
  class's own, and divided by it for the others: people who have one label of a segment tend to have its others.

The odds of a class need a table of sums A_r(j), over all choices of at most r labels from the j-th on, of their
products: A_r(j) = A_r(j + 1) + w_j·A_(r−1)(j + 1). Records follow from it label by label, and so do column counts.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy, draw
from hubbub.bits.records import uniform_categories
from hubbub.errors import Interval, check_memory, check_real, check_whole, reject
from hubbub.lab.sampling import Generator, chance
from hubbub.records import Collection, SetBits
from hubbub.schema import Schema

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

FINE = 2**32
"""Probabilities of independent bits are whole multiples of 1/FINE, so that records and counts have one exact law."""
_CELLS = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """A law of records: odds j^−s of the j-th label, and segments in which labels go together.

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
        """The text that :func:`parse_population` reads.

        >>> Population().name, Population(exponent=1.5).name, Population(exponent=1.0, segments=4, lift=4.0).name
        ('uniform', 'zipf:1.5', 'segments:4:4')
        """
        if self.segments > 1:
            end = f":{self.exponent:.15g}" if self.exponent != 1 else ""
            return f"segments:{self.segments}:{self.lift:.15g}{end}"
        return f"zipf:{self.exponent:.15g}" if self.exponent else "uniform"

    def odds(self, width: int) -> Array:
        """w_cj, a row for each class."""
        base = np.arange(1, width + 1) ** -float(self.exponent)
        own = np.arange(width) % self.segments == np.arange(self.segments)[:, None]
        return np.asarray(base * np.where(own, self.lift, 1 / self.lift))

    def chances(self, width: int) -> Array:
        """P(bit j is set | class c) = w_cj/(1 + w_cj) on the grid, where any bits may be set."""
        odds = self.odds(width)
        return np.asarray(np.rint(odds / (1 + odds) * FINE) / FINE)

    def correlations(self, width: int) -> Array:
        """The correlation of every two bits of records of any bits.

        Given the class bits are independent, so that for i ≠ j cov = mean_c p_ci·p_cj − p_i·p_j, p_i = mean_c p_ci.

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
        """n independent people.

        >>> from hubbub.bits.entropy import system
        >>> Population(exponent=1.0).people(Schema.at_most(2, 9), 5, entropy=system)
        Collection(5 records of Schema.at_most(2, 9 labels))
        """
        check_memory(f"{n} people of {schema}", n * max(24 * schema.max_set, -(-schema.width // 8)))
        classes = uniform_categories(n, self.segments, entropy=entropy)
        if schema.dense:
            return Collection.from_packed(self._rows(schema.width, classes, entropy), schema)
        chosen = np.full((n, schema.max_set), schema.width, np.int64)
        for place, odds in enumerate(self.odds(schema.width)):
            members = np.flatnonzero(classes == place)
            chosen[members] = _choices(_table(odds, schema), members.size, entropy)
        if schema.exclusive:
            return Collection.from_values(chosen[:, 0], schema)
        there = chosen < schema.width
        return Collection(schema, SetBits(chosen[there].astype(np.uint32), np.cumsum(there.sum(axis=1))))

    def counts(self, schema: Schema, n: int, *, entropy: Entropy) -> Numbers:
        """How many of n independent people have each label: the joint law of the column sums of :meth:`people`.

        >>> from hubbub.bits.entropy import system
        >>> int(Population(exponent=1.0).counts(Schema.one_hot(9), 10**9, entropy=system).sum())
        1000000000
        """
        dice = chance(entropy)
        sizes = dice.multinomial(n, np.full(self.segments, 1 / self.segments))
        if schema.dense:
            return np.asarray(dice.binomial(sizes[:, None], self.chances(schema.width)).sum(axis=0), np.int64)
        parts = [
            column_counts(np.array([size]), schema, dice, odds)[0]
            for size, odds in zip(sizes, self.odds(schema.width), strict=True)
        ]
        return np.asarray(sum(parts), np.int64)

    def _rows(self, width: int, classes: Numbers, entropy: Entropy) -> NDArray[np.uint8]:
        bounds = (self.chances(width) * FINE).astype(np.uint64)
        rows = np.empty((classes.size, -(-width // 8)), np.uint8)
        step = max(1, _CELLS // width)
        for start in range(0, classes.size, step):
            part = classes[start : start + step]
            coins = draw(entropy, (part.size, width), np.uint32) < bounds[part]
            rows[start : start + step] = np.packbits(coins, axis=1, bitorder="little")
        return rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Given:
    """People who are given: their true counts, and their records as long as nobody else needs to know them.

    >>> Given.of(Collection.from_values(["red", "blue", "red"], Schema.one_hot(["red", "blue"])))
    Given(3 people)
    """

    schema: Schema
    truth: Numbers
    n: int
    name: str
    """A digest of all records in their order, so that results of other people are not taken for these."""
    records: Collection | None

    @classmethod
    def of(cls, people: Collection) -> "Given":
        """The people of a collection."""
        digest = hashlib.sha256()
        for part in people.blocks(1 << 16):
            for array in part.ones(0, len(part)):
                digest.update(array.tobytes())
        return cls(people.schema, true_counts(people), len(people), f"given:{digest.hexdigest()[:16]}", people)

    def without_records(self) -> "Given":
        """The true counts alone, which is what another process may have: a collection goes nowhere."""
        return Given(self.schema, self.truth, self.n, self.name, None)

    def people(self, schema: Schema, n: int, *, entropy: Entropy) -> Collection:
        """The records themselves."""
        del entropy
        self._check(schema, n)
        if self.records is None:
            reject("given people", "be studied by their records in the process that holds them", "another")
        return self.records

    def counts(self, schema: Schema, n: int, *, entropy: Entropy) -> Numbers:
        """Their true counts."""
        del entropy
        self._check(schema, n)
        return self.truth

    def _check(self, schema: Schema, n: int) -> None:
        if schema != self.schema or n != self.n:
            reject("given people", f"be asked as they are, {self.n:,} with {self.schema}", f"{n:,} with {schema}")

    def __repr__(self) -> str:
        return f"Given({self.n:,} people)"


def parse_population(text: str) -> Population:
    """``uniform``, ``zipf``, ``zipf:s``, ``segments``, ``segments:c``, ``segments:c:lift`` or with Zipf's ``:s``.

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


def true_counts(people: Collection) -> Numbers:
    """How many people of a collection have each label.

    >>> true_counts(Collection.from_values([["a"], [], ["a", "b"]], Schema.bits(["a", "b"]))).tolist()
    [2, 1]
    """
    return people.counts()


def column_counts(totals: Numbers, schema: Schema, dice: Generator, odds: Array | None = None) -> Numbers:
    """For each total, how often each bit is set in that many independent legal records; one row for each total.

    Records are of the law of this module with one class, without ``odds`` uniform among the legal ones. One-hot columns
    are multinomial. Otherwise, label by label, the records that have r more bits allowed are as good as equal: of M_r
    of them Binomial(M_r, w_j·A_(r−1)(j + 1)/A_r(j)) have the j-th bit set, and r − 1 more allowed. Exact, in
    O(width·max_set) draws whatever the totals are.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> dice = chance(SeededStreamNotForPeople(1))
    >>> column_counts(np.array([10**9, 5]), Schema.one_hot(4), dice).sum(axis=1).tolist()
    [1000000000, 5]
    """
    width = schema.width
    weights = np.ones(width) if odds is None else odds
    if schema.dense:
        return dice.binomial(totals[:, None], weights / (1 + weights))
    if schema.exclusive:
        return dice.multinomial(totals, weights / weights.sum())
    table = _table(weights, schema)
    left = np.zeros((totals.size, schema.max_set), np.int64)
    left[:, -1] = totals
    counts = np.empty((totals.size, width), np.int64)
    for j in range(width):
        # Column r − 1 of ``left`` holds those with r more; who has none allowed is out of it.
        share = np.exp(math.log(weights[j]) + table[:-1, j + 1] - table[1:, j])
        now = dice.binomial(left, np.minimum(share, 1.0))
        counts[:, j] = now.sum(axis=1)
        left -= now
        left[:, :-1] += now[:, 1:]
    return counts


def _table(odds: Array, schema: Schema) -> Array:
    """ln A_r(j) for r = 0 … max_set and j = 0 … width; of one-hot schemas for exactly one label instead of at most."""
    width = schema.width
    check_memory(f"the law of {schema}", 8 * (schema.max_set + 1) * (width + 1))
    table = np.zeros((schema.max_set + 1, width + 1))
    nothing = -math.inf if schema.exclusive else 0.0
    logs = np.log(odds)
    for r in range(1, schema.max_set + 1):
        terms = np.concatenate([[nothing], (logs + table[r - 1, 1:])[::-1]])
        table[r] = np.logaddexp.accumulate(terms)[::-1]
    return table


def _choices(table: Array, n: int, entropy: Entropy) -> NDArray[Any]:
    """The set bits of n records in rising order, ``width`` where there are no more.

    The next set bit of a record with r more allowed is beyond j' with probability A_r(j' + 1)/A_r(j): inverted.
    """
    most, width = table.shape[0] - 1, table.shape[1] - 1
    chosen = np.full((n, most), width, np.int64)
    open_, place = np.arange(n), np.zeros(n, np.int64)
    for step in range(most):
        sums = table[most - step]
        uniform = ((draw(entropy, open_.size) >> np.uint64(11)) + 1) * 2.0**-53
        level = np.log(uniform) + sums[place]
        found = np.searchsorted(-sums, -level, side="right") - 1
        # Rounding may put a place with a tiny weight before the one that was reached.
        found = np.maximum(found, place)
        more = found < width
        open_, place = open_[more], found[more] + 1
        chosen[open_, step] = found[more]
    return chosen
