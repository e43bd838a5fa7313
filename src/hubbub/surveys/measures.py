"""``Measure``: one estimated figure of a question, such as a mean or a median, with its intervals."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from hubbub.errors import NON_NEGATIVE, OPEN_UNIT, check_choice, check_real, check_type
from hubbub.numeric.population import check_finite

LEVEL = 0.95
Of = Literal["collection", "population"]
Interval = Callable[[float, Of], tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measure:
    """An estimated figure with its standard error, from the noise and the rounding of answers, and its intervals."""

    name: str
    value: float
    stderr: float
    unit: str
    ends: Interval = field(repr=False)
    """(level, of) ↦ the ends of an interval."""

    def __post_init__(self) -> None:
        check_type("name", self.name, str)
        check_finite("value", self.value)
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_type("unit", self.unit, str)

    def interval(self, level: float = LEVEL, *, of: Of = "collection") -> tuple[float, float]:
        """Return the ends of an interval that covers the figure with probability ``level``.

        Of the people in the ``"collection"``, or of the ``"population"`` that they are a simple random sample of.
        """
        check_choice("of", of, ("collection", "population"))
        return self.ends(check_real("level", level, OPEN_UNIT), of)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name} {self.value:,.6g} ± {self.stderr:.3g}{unit}"
