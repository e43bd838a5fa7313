"""What is collected: which bits a record has, and which records are legal."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self

from hubbub.errors import check_whole, reject


@dataclass(frozen=True, slots=True)
class Schema:
    """The labels of the bits of a record, and which records are legal.

    Made by :meth:`bits` (any bits), :meth:`one_hot` (exactly one) or :meth:`at_most` (at most so many).

    >>> Schema.one_hot(["red", "green", "blue"])
    Schema.one_hot(3 labels)
    """

    kind: Literal["bits", "one_hot", "at_most"]
    labels: tuple[str, ...]
    max_set: int
    """Most bits that a legal record has set."""

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.labels):
            reject("labels", "be distinct", f"{len(self.labels)} labels with repetitions")
        least = 2 if self.kind == "one_hot" else 1
        check_whole("the number of labels", len(self.labels), least)
        check_whole("max_set", self.max_set, 1, len(self.labels))

    @classmethod
    def bits(cls, labels: Sequence[str] | int) -> Self:
        """Records in which any bits may be set; a number stands for that many numbered labels."""
        names = _names(labels)
        return cls("bits", names, max(len(names), 1))

    @classmethod
    def one_hot(cls, labels: Sequence[str] | int) -> Self:
        """Records in which exactly one bit is set: one choice of several."""
        return cls("one_hot", _names(labels), 1)

    @classmethod
    def at_most(cls, max_set: int, labels: Sequence[str] | int) -> Self:
        """Records in which at most ``max_set`` bits are set."""
        names = _names(labels)
        return cls("at_most", names, check_whole("max_set", max_set, 1, max(len(names), 1)))

    @property
    def width(self) -> int:
        """Bits of a record.

        >>> Schema.bits(40).width
        40
        """
        return len(self.labels)

    @property
    def distance(self) -> int:
        """Most bits in which two legal records differ.

        >>> Schema.bits(5).distance, Schema.one_hot(5).distance, Schema.at_most(2, 9).distance
        (5, 2, 4)
        """
        return min(2 * self.max_set, self.width)

    @property
    def size(self) -> int:
        """The number of legal records.

        >>> Schema.bits(5).size, Schema.one_hot(5).size, Schema.at_most(2, 5).size
        (32, 5, 16)
        """
        if self.kind == "one_hot":
            return self.width
        return sum(math.comb(self.width, i) for i in range(self.max_set + 1))

    @property
    def density(self) -> float:
        """The probability that one bit of a uniform legal record is set: what a fake shows before it is flipped.

        >>> Schema.bits(5).density, Schema.one_hot(5).density, Schema.at_most(1, 4).density
        (0.5, 0.2, 0.2)
        """
        if self.kind == "bits" or self.max_set == self.width:
            return 0.5
        if self.kind == "one_hot":
            return 1 / self.width
        set_bits = sum(i * math.comb(self.width, i) for i in range(self.max_set + 1))
        return float(Fraction(set_bits, self.size * self.width))

    def __repr__(self) -> str:
        limit = f"{self.max_set}, " if self.kind == "at_most" else ""
        return f"Schema.{self.kind}({limit}{self.width} labels)"


def _names(labels: Sequence[str] | int) -> tuple[str, ...]:
    if isinstance(labels, str):
        reject("labels", "be a list of strings or a number of them", labels)
    if isinstance(labels, int):
        return tuple(str(i) for i in range(check_whole("the number of labels", labels, 1, 10**7)))
    if not isinstance(labels, Iterable):
        reject("labels", "be a list of strings or a number of them", type(labels).__name__)
    names = tuple(labels)
    if not all(isinstance(name, str) for name in names):
        reject("labels", "be a list of strings or a number of them", type(labels).__name__)
    return names
