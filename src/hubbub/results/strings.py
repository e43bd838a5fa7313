"""``StringView``: how many people hold each string that is shown, with intervals that allow for its being shown."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Fields, Json, legal
from hubbub.errors import OPEN_UNIT, WireError, check_real, check_type, check_whole, reject
from hubbub.mechanisms.chances import table
from hubbub.model.fakes import Fakes
from hubbub.model.schema import Schema, check_label_names
from hubbub.numeric.shown import conditional_interval, shown
from hubbub.numeric.vectors import check_vector
from hubbub.pipeline.reports import MAX_DECLARED
from hubbub.results.figures import PEOPLE, Figure, Of
from hubbub.results.frames import LEVEL, Columns, Table

RARELY = 0.01
"""Probability of being shown below which a number of people counts as rarely shown."""
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class StringView(Table):
    """Estimated numbers of people who hold the strings that are shown, most people first.

    ``view["text"]`` is one string, rather a whole one than one that was cut; iteration goes through all of them.
    Values are what the shuffler passed on plus the mean of what it subtracted. They are unbiased for strings that are
    surely shown; near the threshold only those that lost little are shown, and values are too high by a few people.
    Intervals allow for that.
    """

    n: int
    """People in the batch."""
    strings: tuple[str, ...]
    cut: tuple[bool, ...]
    """True for strings of which only the beginning is kept."""
    numbers: NDArray[np.int64]
    """Numbers of people, less what the shuffler subtracted: at least 1."""
    fakes: Fakes
    """The distribution of what the shuffler subtracted."""

    def __post_init__(self) -> None:
        check_whole("n", self.n, 1, MAX_DECLARED)
        check_label_names("strings", self.strings)
        if not isinstance(self.cut, tuple) or [type(one) for one in self.cut] != [bool] * len(self.strings):
            reject("cut", "be a tuple of True or False, one for each string")
        if len(set(zip(self.strings, self.cut, strict=True))) != len(self.strings):
            reject("strings", "be distinct")
        check_vector("numbers", self.numbers, np.int64, len(self.strings))
        if self.numbers.size and (self.numbers.min() < 1 or int(self.numbers.sum()) > self.n):
            reject("numbers", f"be at least 1 each, and at most n = {self.n:,} together")
        if check_type("fakes", self.fakes, Fakes).by != "shuffler":
            reject("fakes", "be a distribution that the shuffler draws from")

    @property
    def values(self) -> Array:
        """Estimated number of people who hold each string."""
        return np.asarray(self.numbers + self.fakes.mean, np.float64)

    @property
    def stderr(self) -> float:
        """Standard error of every value."""
        return math.sqrt(self.fakes.variance)

    @property
    def sure(self) -> NDArray[np.bool_]:
        """True where the interval at 95 % has only numbers of people that are shown in one of a hundred cases or more.

        Where little is left after the subtraction, a string may be one of the many rare ones that lost almost nothing.
        """
        return np.array([self._is_sure(int(low)) for low in self.interval()[0]], np.bool_)

    def _is_sure(self, low: int) -> bool:
        return shown(table(self.fakes), low) >= RARELY

    def other(self, level: float = LEVEL) -> tuple[int, int]:
        """Return the fewest and the most people whose string is not shown, or who have none, if the intervals hold.

        n less the sum of the values would be too low: the strings that are shown are those that lost little.
        """
        low, high = self.interval(level)
        return max(0, self.n - int(high.sum())), max(0, self.n - int(low.sum()))

    def interval(self, level: float = LEVEL) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ends of intervals that cover each true number with probability ``level``, given that it is shown.

        They invert a test given "shown" (:mod:`hubbub.numeric.shown`), at every count, however rarely it is shown.
        """
        level, chances = check_real("level", level, OPEN_UNIT), table(self.fakes)
        each, place = np.unique(self.numbers, return_inverse=True)
        ends = np.array([conditional_interval(chances, int(one), level) for one in each], np.int64).reshape(-1, 2)
        return ends[place, 0], ends[place, 1]

    def __len__(self) -> int:
        return len(self.strings)

    def __contains__(self, string: object) -> bool:
        return string in self.strings

    def __iter__(self) -> Iterator[Figure]:
        sure = self.sure
        return (self._row(place, bool(sure[place])) for place in range(len(self)))

    def __getitem__(self, string: str) -> Figure:
        if not isinstance(string, str) or string not in self.strings:
            reject("string", f"be one of the {len(self):,} strings that are shown")
        # A longer string that was cut may begin with all of a shorter one.
        places = [place for place, one in enumerate(self.strings) if one == string]
        place = min(places, key=self.cut.__getitem__)
        return self._row(place, bool(self.sure[place]))

    def _row(self, place: int, sure: bool) -> Figure:
        number = int(self.numbers[place])

        def ends(level: float, of: Of) -> tuple[float, float]:
            low, high = conditional_interval(table(self.fakes), number, level)
            return float(low), float(high)

        return Figure(
            name=self.strings[place],
            value=number + self.fakes.mean,
            stderr=self.stderr,
            unit=PEOPLE,
            ends=ends,
            covers=("people",),
            n=self.n,
            sure=sure,
            cut=self.cut[place],
        )

    def columns(self, level: float | None = None) -> Columns:
        """Return a row for each string: value, standard error, interval, and whether it is cut and sure."""
        low, high = self.interval(LEVEL if level is None else level)
        return {
            "string": list(self.strings),
            "cut": np.array(self.cut, np.bool_),
            "value": self.values,
            "stderr": np.full(len(self), self.stderr),
            "low": low.astype(np.float64),
            "high": high.astype(np.float64),
            "sure": self.sure,
        }

    def _rows(self, level: float, *, simultaneous: bool = False) -> Columns:
        """Return the rows of the view in the table of a result; each interval holds on its own."""
        del simultaneous
        found, none = self.columns(level), np.full(len(self), np.nan)
        return {
            "item": found["string"],
            "unit": [PEOPLE] * len(self),
            **{name: found[name] for name in ("value", "stderr", "low", "high")},
            "population_low": none,
            "population_high": none,
            "note": [one.note for one in self],
        }

    def to_document(self) -> dict[str, Json]:
        """Return the strings and what the shuffler passed on, from which all figures follow, as a JSON object."""
        return {
            "strings": list(self.strings),
            "cut": [place for place, cut in enumerate(self.cut) if cut],
            "numbers": self.numbers.tolist(),
            "fakes": asdict(self.fakes),
        }

    @classmethod
    def from_document(cls, value: Json, what: str, schema: Schema, n: int) -> Self:
        """Read the strings of n people from a JSON object."""
        del schema
        read = Fields(value, what, "strings", "cut", "numbers", "fakes")
        strings, cut = read.texts("strings"), set(read.wholes("cut"))
        if not cut <= set(range(len(strings))):
            raise WireError(f"'cut' of {what} must be places of its strings")
        try:
            numbers = np.array(read.wholes("numbers"), np.int64)
        except OverflowError:
            raise WireError(f"'numbers' of {what} must be numbers of people") from None
        numbers.setflags(write=False)
        with legal(what):
            return cls(
                n=n,
                strings=tuple(strings),
                cut=tuple(place in cut for place in range(len(strings))),
                numbers=numbers,
                fakes=Fakes.from_document(read["fakes"], f"the fakes of {what}"),
            )

    def __repr__(self) -> str:
        return f"StringView({len(self):,} strings, n={self.n:,}, stderr {self.stderr:.4g})"
