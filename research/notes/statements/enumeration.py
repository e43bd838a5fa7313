"""Small collections in exact fractions, and how a check counts its cases.

What the notes state about laws and ratios is held against these enumerations, and so is the code that implements it.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.numeric.distributions import Distribution

Counts = tuple[int, ...]
HistogramLaw = dict[Counts, Fraction]

LN2 = math.log(2)
QUARTER = Fraction(1, 4)
"""The lie probability of most examples: p/q = 3."""

FLIPS = (Fraction(1, 10), QUARTER, Fraction(3, 7))
"""Lie probabilities to try: small, middling, and near a fair coin."""


@dataclass(frozen=True, slots=True)
class Score:
    """How many cases held, of how many.

    >>> Score(2, 3), str(Score(2, 3)), Score(2, 3).full, Score(3, 3).full, Score(0, 0).full
    (Score(held=2, total=3), '2 of 3', False, True, False)
    """

    held: int
    total: int

    @property
    def full(self) -> bool:
        """Whether all cases held, and there were some."""
        return 0 < self.total == self.held

    @property
    def failed(self) -> int:
        """How many did not."""
        return self.total - self.held

    def __str__(self) -> str:
        return f"{self.held:,} of {self.total:,}"


def score(cases: Iterable[object]) -> Score:
    """Count the cases that hold.

    >>> score(x > 0 for x in (1, -1, 2))
    Score(held=2, total=3)
    """
    outcomes = [bool(case) for case in cases]
    return Score(sum(outcomes), len(outcomes))


def near(value: float, wanted: float | Fraction, relative: float = 1e-11) -> bool:
    """Whether a computed value is the wanted one but for rounding, in relative terms unless 0 is wanted.

    >>> near(0.1 + 0.2, Fraction(3, 10)), near(0.3001, Fraction(3, 10)), near(1e-30, 2e-30), near(1e-16, 0)
    (True, False, False, True)
    """
    return math.isclose(value, float(wanted), rel_tol=relative, abs_tol=0.0 if wanted else 1e-13)


def product(*factors: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of a product of polynomials, lowest first.

    >>> [int(c) for c in product([Fraction(1), Fraction(1)], [Fraction(1), Fraction(1)])]
    [1, 2, 1]
    """
    result = [Fraction(1)]
    for factor in factors:
        longer = [Fraction(0)] * (len(result) + len(factor) - 1)
        for (i, a), (j, b) in itertools.product(enumerate(result), enumerate(factor)):
            longer[i + j] += a * b
        result = longer
    return result


def dot(weights: Sequence[Fraction], values: Sequence[Fraction]) -> Fraction:
    """Σ weights_i values_i.

    >>> dot([Fraction(1, 2)] * 2, [Fraction(1), Fraction(3)])
    Fraction(2, 1)
    """
    return sum((a * b for a, b in zip(weights, values, strict=True)), start=Fraction(0))


def at(values: Sequence[Fraction], i: int) -> Fraction:
    """values[i], and 0 outside.

    >>> at([Fraction(1)], -1)
    Fraction(0, 1)
    """
    return values[i] if 0 <= i < len(values) else Fraction(0)


@cache
def crowd_distribution(n: int, ones: int, q: Fraction = QUARTER) -> tuple[Fraction, ...]:
    """P[A_n(ones) = s] for s = 0…n: the coefficients of (q + px)^ones (p + qx)^(n − ones). [002 §4.2]

    >>> [int(1024 * c) for c in crowd_distribution(5, 2)]
    [27, 189, 414, 298, 87, 9]
    """
    if n == 0:
        return (Fraction(1),)
    own = (q, 1 - q) if ones == n else (1 - q, q)
    return tuple(product(crowd_distribution(n - 1, min(ones, n - 1), q), own))


def dense(distribution: Distribution, n: int) -> npt.NDArray[np.float64]:
    """The probabilities of 0…n, also where the law is kept on a part only.

    >>> dense(Distribution(1, np.array([0.5, 0.5])), 3).tolist()
    [0.0, 0.5, 0.5, 0.0]
    """
    result = np.zeros(n + 1)
    result[distribution.low : distribution.high + 1] = distribution.pmf
    return result


@cache
def transitions(width: int, q: Fraction = QUARTER) -> tuple[tuple[Fraction, ...], ...]:
    """P[vector i is flipped to vector j] = p^(L−h) q^h by their distance h, vectors enumerated from 1…1 to 0…0.

    >>> [int(16 * c) for c in transitions(2)[0]]
    [9, 3, 3, 1]
    """
    size = 2**width
    weights = [(1 - q) ** (width - h) * q**h for h in range(width + 1)]
    return tuple(tuple(weights[(i ^ j).bit_count()] for j in range(size)) for i in range(size))


@cache
def histograms(n: int, size: int) -> tuple[Counts, ...]:
    """All histograms of n records over ``size`` values.

    >>> histograms(2, 2)
    ((0, 2), (1, 1), (2, 0))
    """
    if size == 1:
        return ((n,),)
    return tuple((first, *rest) for first in range(n + 1) for rest in histograms(n - first, size - 1))


@cache
def histogram_distribution(originals: Counts, q: Fraction = QUARTER) -> HistogramLaw:
    """P[A_L(m) = s] for all s, one record of the histogram m after the other. [000 eq 3.3]

    >>> str(histogram_distribution((2, 0, 0, 1))[1, 1, 0, 1])
    '273/2048'
    """
    if not any(originals):
        return {originals: Fraction(1)}
    last = max(i for i, c in enumerate(originals) if c)
    row = transitions(len(originals).bit_length() - 1, q)[last]
    distribution: HistogramLaw = {}
    for counts, chance in histogram_distribution(step(originals, last, None), q).items():
        for j, weight in enumerate(row):
            after = step(counts, None, j)
            distribution[after] = distribution.get(after, Fraction(0)) + chance * weight
    return distribution


def by_output(records: tuple[int, ...], width: int, q: Fraction) -> HistogramLaw:
    """P[A(x) = s] as Σ p^(nL−d(x,y)) q^d(x,y) over all outputs y in order. [001 eq 2.1]

    >>> by_output((0, 3), 2, QUARTER) == histogram_distribution((1, 0, 0, 1))
    True
    """
    distribution: HistogramLaw = {}
    for output in itertools.product(range(2**width), repeat=len(records)):
        distance = sum((a ^ b).bit_count() for a, b in zip(records, output, strict=True))
        counts = tuple(output.count(value) for value in range(2**width))
        chance = (1 - q) ** (len(records) * width - distance) * q**distance
        distribution[counts] = distribution.get(counts, Fraction(0)) + chance
    return distribution


def largest_event_ratio(first: HistogramLaw, second: HistogramLaw) -> tuple[Fraction, int]:
    """The largest P[S]/P′[S] over all events S of positive P′, and the number of events.

    >>> largest_event_ratio(histogram_distribution((0, 1)), histogram_distribution((1, 0)))
    (Fraction(3, 1), 3)
    """
    outcomes = [(first[s], second[s]) for s in first if second[s]]
    events = [
        (sum(a for a, _ in event), sum(b for _, b in event))
        for size in range(1, len(outcomes) + 1)
        for event in itertools.combinations(outcomes, size)
    ]
    return max(Fraction(a) / b for a, b in events), len(events)


def step(counts: Counts, source: int | None, target: int | None) -> Counts:
    """The histogram with one record less at ``source`` and one more at ``target``: s + e_ij of [000 §5].

    >>> step((2, 0), 0, 1)
    (1, 1)
    """
    return tuple(c - (i == source) + (i == target) for i, c in enumerate(counts))


def draw_fractions(seed: int) -> Iterator[Fraction]:
    """Reproducible fractions between 1/256 and 256.

    >>> all(0 < x <= 256 for x in itertools.islice(draw_fractions(1), 50))
    True
    """
    stream = SeededStreamNotForPeople(seed)
    while True:
        above, below = stream(2)
        yield Fraction(1 + above, 1 + below)
