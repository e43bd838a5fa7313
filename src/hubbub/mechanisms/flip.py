"""Flipped bits among fakes: copies of a record, and uniform legal records beside them, each bit flipped or not at all.

Clear answers among the fakes of users or of the shuffler are the case of no flips. Devices use this module, which needs
no numpy.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.bits import device
from hubbub.bits.exact import poisson
from hubbub.model.fakes import Fakes
from hubbub.model.protocol import GRID, Noise
from hubbub.model.questions import Column

if TYPE_CHECKING:
    from hubbub.numeric.population import CountNoise

Source = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Flip:
    """Send copies of a record and of fakes with every bit flipped with probability q, whole or bit by bit."""

    column: Column
    noise: Noise
    copies: int
    whole: bool
    """True if a message is a whole record, otherwise the index of one set bit."""

    @property
    def gain(self) -> float:
        """Messages with a label that one person with it adds to those of people without it, in the mean."""
        return self.copies * (1 - 2 * self.noise.q)

    def variance(self, n: int, batches: int = 1) -> float:
        """Return s² of the counts of n people, whose covariance is s²·(I − J/size): each has one label of the column.

        >>> Flip(Column("", 0, 5), Noise(m=Fakes.poisson(0.5)), 1, False).variance(1000)
        100.0
        """
        noise = self.noise
        if noise.shuffler_fakes is not None:
            return batches * noise.shuffler_fakes.variance
        if noise.user_fakes is not None:
            return n * noise.user_fakes.mean / self.column.size
        return n * noise.q * (1 - noise.q) / (1 - 2 * noise.q) ** 2

    def observed_variance(self, n: int, messages: float, batches: int) -> tuple[float, float]:
        """Return s² given the number of messages, which tells that of users' fakes, and its growth with the counts."""
        if self.noise.user_fakes is not None:
            return max(0.0, messages - n) / self.column.size, 0.0
        return self.variance(n, batches), 0.0

    def count_noise(self, n: int, variance: float, batches: int) -> "CountNoise":
        """Return the error of one count of a known total, given s²; without its distribution for 0 batches."""
        from hubbub.mechanisms.noise import column_noise  # noqa: PLC0415 (devices run without numpy)

        return column_noise(self.noise, self.column.size, n, variance, self.gain, batches)

    def sample_one(self, bits: int, fakes: int, entropy: Source) -> list[int]:
        """Return the messages of one person, given the record and the number of fakes if that is fixed, in no order.

        >>> Flip(Column("", 4, 3), Noise(m=Fakes.laplace(2.0, 25)), 1, False).sample_one(0b100, 0, bytes)
        [6]
        """
        drawn, size, numerator = self.noise.user_fakes, self.column.size, self.noise.flip_numerator
        count = fakes if drawn is None else draw_one(drawn, entropy)
        sent = [bits] * self.copies + [uniform_record(self.column, entropy) for _ in range(count)]
        if numerator:
            sent = [one ^ device.coins(size, numerator, entropy=entropy) for one in sent]
        return sent if self.whole else [self.column.start + bit for one in sent for bit in _set_bits(one)]


def _set_bits(record: int) -> list[int]:
    found = []
    while record:
        lowest = record & -record
        found.append(lowest.bit_length() - 1)
        record ^= lowest
    return found


def draw_one(drawn: Fakes, entropy: Source) -> int:
    """Draw the number of fakes of one user."""
    if drawn.distribution == "poisson":
        return poisson(drawn.scale, entropy=entropy)
    chance = _chance(drawn)
    return drawn.shift if chance >= GRID else device.coins(drawn.shift, chance, entropy=entropy).bit_count()


@functools.lru_cache(maxsize=1024)
def _chance(drawn: Fakes) -> int:
    """Return the probability of a binomial distribution in units of 1/GRID, rounded up: more fakes, never fewer."""
    return math.ceil(Fraction(drawn.scale) * GRID)


def uniform_record(column: Column, entropy: Source) -> int:
    """Draw a uniform legal record: first the number of set bits, then which ones, by Floyd's algorithm (1987)."""
    width = column.size
    if column.rule == "any":
        return device.uniform(1 << width, entropy=entropy)
    if column.rule == "one":
        return 1 << device.uniform(width, entropy=entropy)
    place, size = device.uniform(column.legal, entropy=entropy), 0
    while place >= (records := math.comb(width, size)):
        place -= records
        size += 1
    record = 0
    for last in range(width - size, width):
        bit = 1 << device.uniform(last + 1, entropy=entropy)
        record |= 1 << last if record & bit else bit
    return record
