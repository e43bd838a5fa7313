"""k-ary randomized response: the category, or another one, each with the same probability; no numpy for devices."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hubbub.bits import device
from hubbub.errors import reject
from hubbub.mechanisms.flip import Source
from hubbub.model.protocol import GRID, Noise
from hubbub.model.questions import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hubbub.bits.entropy import Entropy
    from hubbub.numeric.population import CountNoise


@dataclass(frozen=True, slots=True)
class Response:
    """Send one category of a column: every one that is not the answer has probability q."""

    column: Column
    noise: Noise

    @property
    def change(self) -> int:
        """The probability that the category is another one, in units of 1/GRID."""
        return (self.column.size - 1) * self.noise.flip_numerator

    @property
    def gain(self) -> float:
        """Messages with a label that one person with it adds to those of people without it, in the mean."""
        return 1 - self.column.size * self.noise.q

    def variance(self, n: int, batches: int = 1) -> float:
        """Return s² of the counts of n people, whose covariance is s²·(I − J/size), at the data where it is largest.

        >>> Response(Column("", 0, 2), Noise(0.25)).variance(300)
        450.0
        """
        from hubbub.numeric.estimation import category_variance  # noqa: PLC0415 (devices run without numpy)

        size = self.column.size
        if self.noise.q * size >= 1:
            reject("q", f"be below 1/{size} for an attribute of {size} categories", self.noise.q)
        return float(category_variance([0, n], n, self.noise.q, size).max()) * size / (size - 1)

    def observed_variance(self, n: int, messages: float, batches: int) -> tuple[float, float]:
        """Return s² of empty categories, and its growth with the counts: none for two categories."""
        if self.column.size == 2:
            return self.variance(n), 0.0
        return n * self.noise.q / self.gain**2, self.column.size * self.noise.q / self.gain

    def count_noise(self, n: int, variance: float, batches: int) -> "CountNoise":
        """Return the error of one count, which follows from n alone."""
        from hubbub.numeric.estimation import category_variance  # noqa: PLC0415 (devices run without numpy)
        from hubbub.numeric.population import CountNoise  # noqa: PLC0415

        empty, one = category_variance([0, 1], n, self.noise.q, self.column.size).tolist()
        return CountNoise(variance=empty, gain=self.gain, growth=one - empty, flip=self.noise.q)

    def sample_one(self, bits: int, fakes: int, entropy: Source) -> list[int]:
        """Return the message of one person, given the record of a single category."""
        answer = bits.bit_length() - 1
        if device.coin(self.change, entropy=entropy):
            other = device.uniform(self.column.size - 1, entropy=entropy)
            answer = other + (other >= answer)
        return [self.column.start + answer]

    def sample(self, answers: "NDArray[Any]", entropy: "Entropy") -> "NDArray[Any]":
        """Return the messages of many people, given the indices of their categories among all labels.

        Where changes are rare, the cost grows with the changed answers only.
        """
        import numpy as np  # noqa: PLC0415 (devices run without numpy)

        from hubbub.bits.coins import coins, positions  # noqa: PLC0415
        from hubbub.bits.records import uniform_categories  # noqa: PLC0415

        if 2 * self.change >= GRID:
            changed = np.unpackbits(coins(answers.size, self.change, entropy=entropy), bitorder="little")
            where = np.flatnonzero(changed[: answers.size])
        else:
            where = positions(answers.size, self.change, entropy=entropy)
        others = self.column.start + uniform_categories(where.size, self.column.size - 1, entropy=entropy)
        result = answers.copy()
        result[where] = others + (others >= result[where])
        return result
