"""The released batches of one task: their places in time and their figures, in columns that grow."""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import WireError
from hubbub.results.figures import PEOPLE
from hubbub.results.result import MAX_TIME, table_of

Floats = NDArray[np.float64]
MAX_CELLS = 8_000_000
"""Figures of one task that are kept; of older batches only the head is."""
LARGEST = 2**53
"""Largest number of a bucket that a page may name."""
MIN_KEPT = 200
"""Batches whose figures are kept in any case."""
LONGEST_TEXT = 400
"""Characters of a text that are shown, such as a reason: every tab is told all of them."""
LONGEST_BATCH = 128
"""Characters of the id of a batch, which is kept whole to be known again."""
COLUMNS = ("value", "stderr", "low", "high")
_ALL = np.arange(len(COLUMNS))


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a chart: the share of a label, or a figure of a survey's question in its unit."""

    question: str
    label: str
    unit: str

    @property
    def is_share(self) -> bool:
        """True if the value is a number of people, which is shown as a share."""
        return self.unit == PEOPLE

    def to_document(self) -> dict[str, Any]:
        """Return the figure as a JSON object."""
        return {"question": self.question, "label": self.label[:LONGEST_TEXT], "unit": self.unit}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHead:
    """A batch without its figures: its place in time, state, people, guarantee and spending."""

    batch: str
    bucket: int
    round: int
    start: int
    """When its round begins, in seconds since 1970."""
    end: int
    """When its round ends."""
    released: int
    """When it was released: the beginning of that epoch."""
    epoch: int
    """Seconds between two releases."""
    state: str
    bundles: int
    people: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    spent: float | None = None
    reason: str | None = None

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> "BatchHead":
        """Read the head of a result; raise if it lacks the entries that order it."""
        guarantee, spent = result.get("guarantee") or {}, result.get("spent") or {}
        try:
            head = cls(
                batch=str(result["batch"]),
                bucket=int(result["bucket"]),
                round=int(result["round"]),
                start=int(result["start"]),
                end=int(result["end"]),
                released=int(result["released"]),
                epoch=int(result["released"]) // max(int(result["epoch"]), 1),
                state=str(result["state"])[:LONGEST_TEXT],
                bundles=int(result["bundles"]),
                people=None if result.get("people") is None else int(result["people"]),
                epsilon=real(guarantee.get("epsilon")),
                delta=real(guarantee.get("delta"), 1.0),
                spent=real(spent.get("epsilon")),
                reason=None if result.get("reason") is None else str(result["reason"])[:LONGEST_TEXT],
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise WireError("a result must state its batch, bucket, round, times, state and bundles") from None
        if len(head.batch) > LONGEST_BATCH:
            raise WireError(f"the id of a batch must have at most {LONGEST_BATCH} characters")
        if not 1 <= head.round <= LARGEST:
            raise WireError("the round of a result must be at least 1")
        if not (0 <= head.start <= head.end < MAX_TIME and 0 <= head.released < MAX_TIME):
            raise WireError(
                "a result must state when its round begins and ends, and its release, in seconds since 1970"
            )
        if head.state == "committed" and (head.people is None or not 0 <= head.people <= LARGEST):
            raise WireError("a committed result must state its people")
        return head

    @property
    def time(self) -> int:
        """When the last epoch began in which its people can have answered; a chart dates it by that.

        It is the beginning of its round if that is a single epoch, however late the batch was released.
        """
        return max(self.start, min(self.released, self.end) - self.epoch)

    def to_document(self) -> dict[str, Any]:
        """Return the head as a JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


def real(value: object, most: float = math.inf) -> float | None:
    """Return an ε or a δ; None if it is missing, is none, or is infinite, which JSON has no number for."""
    if not isinstance(value, int | float | str):
        return None
    found = float(value)
    return found if math.isfinite(found) and 0 <= found <= most else None


def is_whole(value: object) -> TypeGuard[int]:
    """Return True if a page can show a number of buckets or rounds."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


class BatchSeries:
    """The batches of one task, in any order of arrival; reading is always in the order of their buckets."""

    def __init__(self) -> None:
        self.figures: tuple[Figure, ...] = ()
        self.heads: dict[int, BatchHead] = {}
        """The heads by bucket."""
        self.numbers: list[int] = []
        """The buckets of the heads, ascending."""
        self._table = np.empty((0, len(COLUMNS), 0), np.float32)
        self._buckets = np.empty(0, np.int64)
        self._people = np.empty(0, np.float64)
        self._count = 0
        self._order: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.heads)

    def __contains__(self, bucket: object) -> bool:
        return bucket in self.heads

    def add(self, result: Mapping[str, Any]) -> BatchHead:
        """Add the result of a batch; of strings that nobody listed only its head, because each batch shows others."""
        head = BatchHead.of(result)
        if head.state == "committed" and not _shows_strings(result):
            self._append(head, *_columns(result))
        if head.bucket not in self.heads:
            insort(self.numbers, head.bucket)
        self.heads[head.bucket] = head
        return head

    def span(self, count: int, *, last: int = LARGEST, before: int = 0, after: int = 0) -> tuple[int, int]:
        """Return the places in ``numbers`` of ``count`` batches: of the first one, and after the last one.

        They end at the bucket ``last``, or they are the next ones before or after a bucket. Buckets may be missing, so
        that batches are counted, not numbers. If too few are left before or after a bucket, others fill the span.
        """
        size = len(self.numbers)
        if after:
            end = min(bisect_right(self.numbers, after) + count, size)
        elif before:
            end = min(max(bisect_left(self.numbers, before), count), size)
        else:
            end = bisect_right(self.numbers, last)
        return max(end - count, 0), end

    def _append(self, head: BatchHead, figures: tuple[Figure, ...], columns: Floats) -> None:
        if not self.figures:
            self.figures = figures
            self._table = np.empty((16, len(COLUMNS), len(figures)), np.float32)
            self._buckets, self._people = np.empty(16, np.int64), np.empty(16, np.float64)
        if figures != self.figures:
            raise WireError("all results of a task must have the same questions and labels")
        if head.bucket in self.heads:
            return
        if self._count == len(self._buckets):
            self._grow()
        self._table[self._count], self._buckets[self._count] = columns, head.bucket
        self._people[self._count] = max(head.people or 0, 1)
        self._count += 1
        self._order = None

    def _grow(self) -> None:
        """Double the capacity, or drop the figures of the oldest quarter if there are too many."""
        kept, size = np.arange(self._count), 2 * self._count
        if self._count >= max(MIN_KEPT, MAX_CELLS // len(self.figures)):
            kept, size = np.sort(np.argsort(self._buckets[: self._count])[self._count // 4 :]), self._count
        for name in ("_table", "_buckets", "_people"):
            old = getattr(self, name)
            new = np.empty((size, *old.shape[1:]), old.dtype)
            new[: len(kept)] = old[kept]
            setattr(self, name, new)
        self._count = len(kept)

    @property
    def order(self) -> NDArray[np.int64]:
        """The rows in the order of their buckets."""
        if self._order is None:
            self._order = np.argsort(self._buckets[: self._count], kind="stable")
        return self._order

    @property
    def buckets(self) -> NDArray[np.int64]:
        """The buckets whose figures are kept, ascending."""
        return self._buckets[self.order]

    def rows(self, first: int, last: int, chosen: list[int]) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return buckets, people and the columns of some figures for the buckets ``first`` to ``last``."""
        buckets = self.buckets
        begin, end = np.searchsorted(buckets, first), np.searchsorted(buckets, last, side="right")
        rows = self.order[begin:end]
        return (
            buckets[begin:end],
            self._people[rows],
            self._table[rows[:, None, None], _ALL[:, None], chosen].astype(np.float64),
        )

    def settled(self, gaps: list[tuple[int, int]]) -> int:
        """Return the largest bucket up to which every bucket has a result or is in one of these gaps."""
        found = 0
        for first, last in [(0, 0), *sorted(gaps)]:
            if first > found + 1:
                break
            found = max(found, last)
            while found + 1 in self.heads:
                found += 1
        return found


def _shows_strings(result: Mapping[str, Any]) -> bool:
    schema = result.get("schema")
    return isinstance(schema, Mapping) and schema.get("kind") == "strings"


def _columns(result: Mapping[str, Any]) -> tuple[tuple[Figure, ...], Floats]:
    """Return the figures of a result and their values, standard errors and intervals; counts as shares of people."""
    columns = table_of(result)
    try:
        names = [[one or "" for one in columns[key]] for key in ("question", "item", "unit")]
        figures = tuple(Figure(*map(str, one)) for one in zip(*names, strict=True))
        table = np.array([columns[key] for key in COLUMNS], np.float64)
        people = float(max(int(result["people"]), 1))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise WireError("a committed result must have figures with values, errors and intervals") from None
    if not figures:
        raise WireError("a committed result must have figures with values, errors and intervals")
    if any(len(one.question) > LONGEST_TEXT or len(one.unit) > LONGEST_TEXT for one in figures):
        raise WireError(f"the questions and units of a result must have at most {LONGEST_TEXT} characters")
    shares = np.array([one.is_share for one in figures])
    return figures, np.where(shares, table / people, table)
