"""A question about the sum and the mean of a number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from hubbub.documents import Fields
from hubbub.errors import check_items, check_type, check_whole, reject
from hubbub.model.questions.answers import (
    ANSWER,
    NO_VALUE,
    Coin,
    Document,
    Rule,
    check_range,
    check_unit,
    is_missing,
    number,
    spell,
)

GRID = 2**48
"""Chances of rounding up are multiples of 1/GRID."""
MAX_LEVELS = 2**40
MAX_RADIX = 2**10
MAX_DIGITS = 40
"""A product of more radices is certainly above MAX_LEVELS; it is not computed."""
STANDARD = (4, 4, 4, 4)
"""Radices of a number of which the planner has not chosen the digits."""


@dataclass(frozen=True, slots=True, init=False)
class Number:
    """A number, collected as the digits of a level between ``low`` and ``high``: for its sum and its mean.

    Numbers outside are clipped to the bounds, which are part of the plan. The clipped number is rounded to one of the
    two nearest levels at random, so that its expectation stays: levels are equally spaced, and their number is the
    product of the ``digits``, the radices of the digits from the lowest one. Each digit is an attribute. The planner
    chooses the digits if they are left out. With ``variance``, the squared distance from the middle is collected as
    well; with ``missing``, an attribute tells whether there is an answer.

    >>> Number(0, 65_536, digits=[4, 4, 4]).sizes, Number(0, 1, digits=[2, 2], variance=True, missing=True).sizes
    ((4, 4, 4), (2, 2, 2, 2, 2))
    """

    kind: ClassVar[str] = "number"
    rule: ClassVar[Rule] = "one"
    low: float
    high: float
    missing: bool
    variance: bool
    unit: str
    digits: tuple[int, ...]
    """Radices of the digits, lowest first; empty if the planner has not chosen them."""
    levels: int = field(compare=False, repr=False)
    """Number of levels to which numbers are rounded."""

    def __init__(
        self,
        low: float,
        high: float,
        *,
        missing: bool = False,
        variance: bool = False,
        unit: str = "",
        digits: Sequence[int] = (),
    ) -> None:
        first, last = check_range(low, high)
        radices = list(check_items("digits", digits, "be a list of radices"))
        check_whole("the number of digits", len(radices), 0, MAX_DIGITS)
        object.__setattr__(self, "low", first)
        object.__setattr__(self, "high", last)
        object.__setattr__(self, "missing", check_type("missing", missing, bool))
        object.__setattr__(self, "variance", check_type("variance", variance, bool))
        object.__setattr__(self, "unit", check_unit(unit))
        object.__setattr__(self, "digits", tuple(check_whole("a radix", radix, 2, MAX_RADIX) for radix in radices))
        levels = check_whole("the product of the digits", math.prod(self.radices), 2, MAX_LEVELS)
        object.__setattr__(self, "levels", levels)

    @property
    def radices(self) -> tuple[int, ...]:
        """Radices of the digits, lowest first."""
        return self.digits or STANDARD

    @property
    def attributes(self) -> tuple[tuple[str, ...], ...]:
        """Labels of the categories of each attribute."""
        names = [("digit", self.radices)] + ([("square, digit", self.radices)] if self.variance else [])
        digits = tuple(
            tuple(f"{name} {place + 1} is {digit}" for digit in range(radix))
            for name, radices in names
            for place, radix in enumerate(radices)
        )
        return ((("answered", "no answer"),) if self.missing else ()) + digits

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each attribute."""
        return ((2,) if self.missing else ()) + self.radices * (2 if self.variance else 1)

    def share(self, value: object, what: str = ANSWER) -> float:
        """Return a clipped answer as its share of the range, in [0, 1].

        >>> Number(0, 200).share(50), Number(0, 200).share(1e9)
        (0.25, 1.0)
        """
        clipped = min(max(number(value, what), self.low), self.high)
        return (clipped - self.low) / (self.high - self.low)

    def encode(self, value: object, coin: Coin, what: str = ANSWER) -> tuple[int, ...]:
        """Return the category of an answer in every attribute: whether there is one, digits, digits of the square."""
        radices = self.radices
        if is_missing(value):
            if not self.missing:
                reject(what, NO_VALUE)
            return (1,) + (0,) * (len(self.sizes) - 1)
        share = self.share(value, what)
        shares = (share, (2 * share - 1) * (2 * share - 1)) if self.variance else (share,)
        digits = [digit for one in shares for digit in split(_rounded(one, self.levels, coin), radices)]
        return ((0,) if self.missing else ()) + tuple(digits)

    def to_document(self) -> Document:
        """Return the question as a JSON object."""
        return {
            "kind": self.kind,
            "low": self.low,
            "high": self.high,
            "missing": self.missing,
            "variance": self.variance,
            "unit": self.unit,
            "digits": list(self.digits),
        }

    @classmethod
    def from_document(cls, read: Fields) -> "Number":
        """Read the question from the fields of a JSON object."""
        return cls(
            read.real("low"),
            read.real("high"),
            missing=read.truth("missing"),
            variance=read.truth("variance"),
            unit=read.text("unit"),
            digits=read.wholes("digits"),
        )

    def __repr__(self) -> str:
        rest = "".join(f", {name}=True" for name in ("missing", "variance") if getattr(self, name))
        return f"Number({spell(self.low)} to {spell(self.high)}{' ' + self.unit if self.unit else ''}{rest})"


def _rounded(share: float, levels: int, coin: Coin) -> int:
    """Return one of the two nearest levels, the higher one with the chance that keeps the expectation, to 2⁻⁴⁸."""
    place = share * (levels - 1)
    lower = min(int(place), levels - 1)
    chance = int((place - lower) * GRID)
    return lower + (chance > 0 and coin(chance))


def split(level: int, radices: tuple[int, ...]) -> list[int]:
    """Return the digits of a level, lowest first.

    >>> split(27, (4, 4, 4))
    [3, 2, 1]
    """
    digits = []
    for radix in radices:
        level, digit = divmod(level, radix)
        digits.append(digit)
    return digits
