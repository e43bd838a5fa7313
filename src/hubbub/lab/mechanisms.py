"""The columns of a plan and the fakes among their messages: all that differs by mechanism in the laboratory.

A plan collects columns: the whole record of a schema of bits, otherwise every attribute by itself, each with one noise.
Fakes are a fixed number, or drawn by every user, or drawn by the shuffler for each category.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hubbub.errors import check_memory
from hubbub.lab.audit.statistics import binomial_p, poisson_p
from hubbub.lab.populations import Rng, column_counts, draw_from
from hubbub.model.plans import Plan
from hubbub.model.protocol import GRID, Fakes, Noise
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.population import poisson
from hubbub.pipeline.shuffle import legal_records

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Column:
    """Categories that have one noise, with their place among the labels of the plan."""

    schema: Schema
    """The legal records of this column alone."""
    start: int
    noise: Noise

    @property
    def stop(self) -> int:
        """Index after its last label."""
        return self.start + self.schema.width

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the entries of this column."""
        return counts[..., self.start : self.stop]


def columns(plan: Plan) -> list[Column]:
    """Return the columns of a plan with labels: its attributes, or all bits together.

    >>> from hubbub import Protocol, plan_from
    >>> [one.stop for one in columns(plan_from(Schema.bits(3), 9, Protocol(0.1), delta=1e-6))]
    [3]
    """
    schema, noise = plan.schema, plan.protocol.noise
    if not schema.attributes:
        return [Column(schema, 0, noise[0])]
    each = zip(schema.attributes, noise, strict=True)
    return [Column(Schema.one_hot(schema.labels[a.start : a.stop]), a.start, one) for a, one in each]


@dataclass(frozen=True, slots=True)
class FixedFakes:
    """A fixed number of uniform fakes in a batch, of which every device adds its share."""

    fixed: int

    @property
    def among(self) -> bool:
        """True if users' fakes are among the messages of a client."""
        return self.fixed > 0

    def expected(self, n: int, schema: Schema, release: str) -> float:
        """Return the expected number in a batch of n people."""
        return float(self.fixed)

    def with_bit(self, n: int, chance: float) -> Distribution:
        """Return the distribution of the number that shows one bit, by this probability each."""
        return binomial(self.fixed, chance)

    def legal(self, sent: int, own: int, n: int, people: int) -> tuple[bool, str]:
        """Return True if n people can send this many messages, ``own`` of them for records, and what is legal."""
        m, share = self.fixed, self.fixed * n // people
        return sent - own in {m, share, -(-m * n // people)}, f"{own} and {share} or {m} fake" if m else f"{own}"

    def draw(self, n: int, schema: Schema, times: int, rng: Rng) -> tuple[Numbers, Numbers]:
        """Draw how many fakes have each bit before flips, and how many there are, by repetition."""
        return _uniform(np.full(times, self.fixed, np.int64), schema, rng)


@dataclass(frozen=True, slots=True)
class UserFakes:
    """Uniform fakes, of which every user draws a number; the methods are those of :class:`FixedFakes`."""

    distribution: Fakes
    fixed: ClassVar[int] = 0
    among: ClassVar[bool] = True

    def expected(self, n: int, schema: Schema, release: str) -> float:
        """Return the expected number in a batch of n people."""
        return self.distribution.mean * n

    def with_bit(self, n: int, chance: float) -> Distribution:
        """Return the distribution of the number that shows one bit."""
        drawn = self.distribution
        if drawn.distribution == "binomial":
            return binomial(n * drawn.shift, drawn.scale * chance)
        return poisson(n * drawn.scale * chance)

    def p(self, totals: ArrayLike, users: ArrayLike) -> NDArray[np.float64]:
        """Return the p-values of the numbers that so many users drew together."""
        drawn, people = self.distribution, np.asarray(users)
        if drawn.distribution == "binomial":
            return binomial_p(totals, people * drawn.shift, math.ceil(Fraction(drawn.scale) * GRID) / GRID)
        return poisson_p(totals, people * drawn.mean)

    def legal(self, sent: int, own: int, n: int, people: int) -> tuple[bool, str]:
        """Return True if n people can send this many messages, and what is legal."""
        if self.distribution.distribution != "binomial":
            return sent >= own, f"at least {own}"
        most = own + n * self.distribution.shift
        return own <= sent <= most, f"{own} to {most}"

    def draw(self, n: int, schema: Schema, times: int, rng: Rng) -> tuple[Numbers, Numbers]:
        """Draw how many fakes have each bit before flips, and how many there are."""
        drawn = self.distribution
        if drawn.distribution == "binomial":
            return _uniform(rng.binomial(n * drawn.shift, drawn.scale, times), schema, rng)
        return _uniform(rng.poisson(n * drawn.scale, times), schema, rng)


@dataclass(frozen=True, slots=True)
class ShufflerFakes:
    """Fakes of which the shuffler draws a number for each category; the methods are those of :class:`FixedFakes`."""

    distribution: Fakes
    fixed: ClassVar[int] = 0
    among: ClassVar[bool] = False

    def expected(self, n: int, schema: Schema, release: str) -> float:
        """Return the expected number in a batch."""
        return self.distribution.mean * kinds_of(schema, release)

    def with_bit(self, n: int, chance: float) -> Distribution:
        """Return the distribution of the number that the shuffler adds to one bit."""
        return Distribution(0, self.distribution.pmf)

    def legal(self, sent: int, own: int, n: int, people: int) -> tuple[bool, str]:
        """Return True if n people can send this many messages, and what is legal."""
        return sent == own, f"{own}"

    def draw(self, n: int, schema: Schema, times: int, rng: Rng) -> tuple[Numbers, Numbers]:
        """Draw a number for each legal record; return how many have each bit, and the total."""
        if schema.attributes:
            clear = self.add((times, schema.width), rng)
            return clear, clear.sum(axis=1)
        check_memory(f"the fakes of all records of {schema}", 8 * schema.size * (times + 2 * schema.width))
        numbers = self.add((times, schema.size), rng)
        bits = np.unpackbits(legal_records(schema), axis=1, bitorder="little", count=schema.width)
        # Sums of integers far below 2⁵³ are exact in float64, which multiplies matrices much faster.
        clear = np.rint(numbers.astype(np.float64) @ bits.astype(np.float64)).astype(np.int64)
        return clear, numbers.sum(axis=1)

    def add(self, shape: tuple[int, ...], rng: Rng) -> Numbers:
        """Draw a number for each of so many categories."""
        return draw_from(self.distribution.pmf, shape, rng)


def kinds_of(schema: Schema, release: str) -> int:
    """Return the number of categories that the shuffler draws a number of fakes for: records, or bits.

    >>> kinds_of(Schema.bits(3), "records"), kinds_of(Schema.bits(3), "bits")
    (8, 3)
    """
    return schema.size if release == "records" else schema.width


AnyFakes = FixedFakes | UserFakes | ShufflerFakes
_DRAWN: dict[str, type[UserFakes] | type[ShufflerFakes]] = {"users": UserFakes, "shuffler": ShufflerFakes}


def fakes_of(noise: Noise) -> AnyFakes:
    """Return what is known of the fakes of a noise.

    >>> fakes_of(Noise(0.1)), fakes_of(Noise(0.1, Fakes.laplace(2.0, 25))).among
    (FixedFakes(fixed=0), False)
    """
    return FixedFakes(noise.m) if isinstance(noise.m, int) else _DRAWN[noise.m.by](noise.m)


def _uniform(numbers: Numbers, schema: Schema, rng: Rng) -> tuple[Numbers, Numbers]:
    """Draw how many of so many uniform legal records have each bit."""
    shown = column_counts(numbers, schema, rng) if numbers.any() else np.zeros((numbers.size, schema.width), np.int64)
    return shown, numbers
