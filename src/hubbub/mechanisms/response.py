"""k-ary randomized response: the category, or another one, each with the same probability; no numpy for devices."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hubbub.bits import device
from hubbub.mechanisms.flip import Source
from hubbub.model.protocol import GRID, Noise
from hubbub.model.questions import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hubbub.bits.entropy import Entropy


@dataclass(frozen=True, slots=True)
class Response:
    """Send one category of a column: every one that is not the answer has probability q."""

    column: Column
    noise: Noise

    @property
    def change(self) -> int:
        """The probability that the category is another one, in units of 1/GRID."""
        return (self.column.size - 1) * self.noise.flip_numerator

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
