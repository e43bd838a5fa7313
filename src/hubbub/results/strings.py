"""``StringEstimate``: how many people hold each string that is shown, with intervals that allow for its being shown."""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant import account
from hubbub.documents import Fields, Json, legal, parse
from hubbub.errors import (
    NON_NEGATIVE,
    OPEN_UNIT,
    WireError,
    check_real,
    check_type,
    check_whole,
    kind_of,
    reject,
)
from hubbub.mechanisms.chances import drawn_by, table
from hubbub.model.fakes import Fakes
from hubbub.model.plans import Plan
from hubbub.model.privacy import Guarantee
from hubbub.numeric.population import check_finite
from hubbub.numeric.shown import conditional_interval, shown
from hubbub.pipeline.reports import MAX_DECLARED, check_plan
from hubbub.pipeline.string_tallies import StringTally
from hubbub.results.frames import Columns, to_arrow, to_lines, to_pandas, to_polars

if TYPE_CHECKING:
    from hubbub.report import Chart

FORMAT = "hubbub strings 1"
LEVEL = 0.95
RARELY = 0.01
"""Probability of being shown below which a number of people counts as rarely shown."""
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StringCount:
    """The estimated number of people who hold one string."""

    string: str
    cut: bool
    """True if only the beginning of the string is kept."""
    value: float
    stderr: float
    low: int
    high: int
    """Ends of the interval at the level of 95 %, given that the string is shown."""
    sure: bool
    """False if the interval reaches down to numbers of people whose string is hardly ever shown."""

    def __post_init__(self) -> None:
        check_type("string", self.string, str)
        check_type("cut", self.cut, bool)
        check_finite("value", self.value)
        check_real("stderr", self.stderr, NON_NEGATIVE)
        check_whole("low", self.low, 1, MAX_DECLARED)
        if check_whole("high", self.high, 1) < self.low:
            reject("high", "be at least low")
        check_type("sure", self.sure, bool)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class StringEstimate:
    """Estimated numbers of people who hold the strings that are shown, most people first.

    ``estimate["text"]`` is one string, rather a whole one than one that was cut; iteration goes through all of them.
    Values are what the shuffler passed on plus the mean of what it subtracted. They are unbiased for strings that are
    surely shown; near the threshold only those that lost little are shown, and values are too high by a few people.
    Intervals allow for that.
    """

    tally: StringTally
    fakes: Fakes
    """The distribution of what the shuffler subtracted."""
    achieved: Guarantee | Callable[[], Guarantee] | None = field(default=None)
    """The guarantee of the people that were counted, or a function that computes it; see :attr:`guarantee`."""

    def __post_init__(self) -> None:
        check_type("tally", self.tally, StringTally)
        if check_type("fakes", self.fakes, Fakes).by != "shuffler":
            reject("fakes", "be a distribution that the shuffler draws from")
        if self.achieved is not None and not callable(self.achieved):
            check_type("achieved", self.achieved, Guarantee)

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the people that were counted, computed on first use."""
        found = self.achieved
        if callable(found):
            found = found()
            object.__setattr__(self, "achieved", found)
        return found

    @property
    def n(self) -> int:
        """People in the batch."""
        return self.tally.n

    @property
    def plan(self) -> str:
        """The id of the plan."""
        return self.tally.plan

    @property
    def strings(self) -> tuple[str, ...]:
        """The strings that are shown."""
        return self.tally.strings

    @property
    def values(self) -> Array:
        """Estimated number of people who hold each string."""
        return np.asarray(self.tally.numbers + self.fakes.mean, np.float64)

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
        each, place = np.unique(self.tally.numbers, return_inverse=True)
        ends = np.array([conditional_interval(chances, int(one), level) for one in each], np.int64).reshape(-1, 2)
        return ends[place, 0], ends[place, 1]

    def __len__(self) -> int:
        return len(self.tally)

    def __contains__(self, string: object) -> bool:
        return string in self.strings

    def __iter__(self) -> Iterator[StringCount]:
        low, high = self.interval()
        return (self._row(place, int(low[place]), int(high[place])) for place in range(len(self)))

    def __getitem__(self, string: str) -> StringCount:
        if not isinstance(string, str) or string not in self.strings:
            reject("string", f"be one of the {len(self):,} strings that are shown")
        # A longer string that was cut may begin with all of a shorter one.
        places = [place for place, one in enumerate(self.strings) if one == string]
        place = min(places, key=self.tally.cut.__getitem__)
        low, high = self.interval()
        return self._row(place, int(low[place]), int(high[place]))

    def _row(self, place: int, low: int, high: int) -> StringCount:
        number = int(self.tally.numbers[place])
        return StringCount(
            string=self.strings[place],
            cut=self.tally.cut[place],
            value=number + self.fakes.mean,
            stderr=self.stderr,
            low=low,
            high=high,
            sure=self._is_sure(low),
        )

    def columns(self, level: float = LEVEL) -> Columns:
        """Return the rows of the estimate as columns."""
        low, high = self.interval(level)
        return {
            "string": list(self.strings),
            "cut": np.array(self.tally.cut, np.bool_),
            "value": self.values,
            "stderr": np.full(len(self), self.stderr),
            "low": low.astype(np.float64),
            "high": high.astype(np.float64),
            "sure": self.sure,
        }

    def to_arrow(self, level: float = LEVEL) -> Any:
        """Return a PyArrow table with a row for each string; needs the extra ``frames``."""
        return to_arrow(self.columns(level))

    def to_pandas(self, level: float = LEVEL) -> Any:
        """Return a pandas data frame with a row for each string; needs the extra ``frames``, and pandas."""
        return to_pandas(self.columns(level))

    def to_polars(self, level: float = LEVEL) -> Any:
        """Return a Polars data frame with a row for each string; needs the extra ``frames``, and Polars."""
        return to_polars(self.columns(level))

    def plot(self, *, level: float = LEVEL, top: int = 20) -> "Chart":
        """Return a chart of the most frequent strings with their intervals; ``.save(path)`` writes SVG, PNG or PDF."""
        from hubbub.report import strings_chart  # noqa: PLC0415 (the upward import: charts are loaded if needed)

        return strings_chart(self, level=level, top=check_whole("top", top, 1))

    def _repr_html_(self) -> str:
        from hubbub.report import strings_table  # noqa: PLC0415

        return strings_table(self)

    def to_document(self, level: float = LEVEL) -> dict[str, Json]:
        """Return the estimate with its intervals and its guarantee as a JSON object."""
        columns = self.columns(level)
        rows = zip(*(one if isinstance(one, list) else one.tolist() for one in columns.values()), strict=True)
        numbers = self.tally.numbers.tolist()
        return {
            "format": FORMAT,
            "plan": self.plan,
            "people": self.n,
            "level": level,
            "fakes": asdict(self.fakes),
            "guarantee": None if self.guarantee is None else self.guarantee.to_document(),
            "other": dict(zip(("low", "high"), self.other(level), strict=True)),
            "counts": [
                {**dict(zip(columns, row, strict=True)), "number": number}
                for row, number in zip(rows, numbers, strict=True)
            ],
        }

    def to_json(self, level: float = LEVEL) -> str:
        """Return the JSON that :meth:`from_json` reads, with intervals of the given level for other readers."""
        return to_lines(self.to_document(level), "counts")

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read an estimate that :meth:`to_json` or ``hubbub estimate -o`` wrote; intervals are computed again."""
        if not isinstance(text, str | bytes):
            reject("text", f"be the JSON of an estimate as str or bytes, not {kind_of(text)}")
        what = "the estimate"
        keys = ("format", "plan", "people", "level", "fakes", "guarantee", "other", "counts")
        read = Fields(parse(text, what), what, *keys)
        if read.text("format") != FORMAT:
            raise WireError(f"the format of the estimate must be {FORMAT!r}")
        names = ("string", "cut", "value", "stderr", "low", "high", "sure", "number")
        rows = [Fields(row, "a count of the estimate", *names) for row in read.items("counts")]
        numbers = np.array([row.whole("number") for row in rows], np.int64)
        numbers.setflags(write=False)
        with legal(what):
            tally = StringTally(
                plan=read.text("plan"),
                n=read.whole("people"),
                strings=tuple(row.text("string") for row in rows),
                cut=tuple(row.truth("cut") for row in rows),
                numbers=numbers,
            )
            achieved = None if read["guarantee"] is None else Guarantee.from_document(read["guarantee"])
            return cls(tally=tally, fakes=Fakes.from_document(read["fakes"], f"the fakes of {what}"), achieved=achieved)

    def __repr__(self) -> str:
        return f"StringEstimate({len(self):,} strings, n={self.n:,}, stderr {self.stderr:.4g})"


def estimate_strings(tally: StringTally, plan: Plan) -> StringEstimate:
    """Estimate how many people hold each string that a batch shows: R + E[Z], with the standard error of Z.

    >>> from hubbub import Collection, Fakes, Protocol, Schema, plan_from, randomize, shuffle, tally_strings
    >>> plan = plan_from(Schema.strings(16), 90, Protocol(0, m=Fakes.laplace(0.5, 9), release="strings"), epsilon=4.0)
    >>> people = Collection.from_values(["oops"] * 60 + ["ouch"] * 29 + ["secret"], plan.schema)
    >>> for one in estimate_strings(tally_strings(shuffle(randomize(people, plan)), plan), plan):
    ...     print(one.string, one.low <= {"oops": 60, "ouch": 29}[one.string] <= one.high or "unlucky")
    oops ...
    ouch ...
    """
    check_type("tally", tally, StringTally)
    drawn = drawn_by(plan)
    check_plan(plan.id, tally.plan, "tally and plan")
    return StringEstimate(tally=tally, fakes=drawn, achieved=functools.partial(_achieved, plan, tally.n))


def _achieved(plan: Plan, people: int) -> Guarantee:
    claim = plan.guarantee
    if people == plan.n:
        return claim
    return account(
        plan.protocol,
        plan.schema,
        people,
        epsilon=None if claim.solved == "epsilon" else claim.epsilon,
        delta=claim.delta if claim.solved == "epsilon" else None,
        honest_fraction=plan.honest_fraction,
        trust=claim.assumptions.trust,
    )
