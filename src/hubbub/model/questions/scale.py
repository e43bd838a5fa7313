"""A question about the distribution of a number: counts of buckets, quantiles."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from hubbub.documents import Fields
from hubbub.errors import check_items, check_type, check_whole, reject
from hubbub.model.questions.answers import (
    ANSWER,
    NO_VALUE,
    Coin,
    Document,
    Rule,
    check_bound,
    check_range,
    check_unit,
    is_missing,
    number,
    spell,
    with_missing,
)

MAX_BUCKETS = 2**16


@dataclass(frozen=True, slots=True, init=False)
class Scale:
    """A number, collected as the bucket it falls in: for its distribution, its quantiles, its median.

    Bucket i holds the numbers from edge i to before edge i + 1; numbers outside of all buckets count in the first or
    the last one. Equal buckets from ``low`` to ``high``, with ``log`` each by the same factor wider than the one
    before, or any ``edges``. Each of the ``levels`` is an attribute whose categories are blocks of that many
    neighbouring buckets, from the widest blocks to single buckets; the planner chooses them if they are left out.

    >>> Scale(0, 4096, buckets=256, levels=[16, 1]).sizes, Scale(edges=[0, 1, 10, 100]).attributes
    ((16, 256), (('0 to 1', '1 to 10', '10 to 100'),))
    """

    kind: ClassVar[str] = "scale"
    rule: ClassVar[Rule] = "one"
    edges: tuple[float, ...]
    missing: bool
    unit: str
    levels: tuple[int, ...]
    """Buckets in the blocks of each level; empty if the planner has not chosen them, which counts buckets alone."""

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        buckets: int | None = None,
        log: bool = False,
        edges: Sequence[float] | None = None,
        missing: bool = False,
        unit: str = "",
        levels: Sequence[int] = (),
    ) -> None:
        check_type("log", log, bool)
        if edges is not None:
            if low is not None or high is not None or buckets is not None or log:
                reject("edges", "be given without low, high, buckets and log")
            found = tuple(check_bound("an edge", edge) for edge in check_items("edges", edges, "be a list of numbers"))
            check_whole("the number of edges", len(found), 3, MAX_BUCKETS + 1)
            if any(one >= two for one, two in pairwise(found)):
                reject("edges", "ascend")
        else:
            if low is None or high is None or buckets is None:
                reject("a scale", "be given low, high and buckets, or edges")
            bounds = check_range(low, high)
            count = check_whole("buckets", buckets, 2, MAX_BUCKETS)
            found = _log_edges(*bounds, count) if log else _equal_edges(*bounds, count)
        widths = tuple(
            check_whole("a level", width, 1) for width in check_items("levels", levels, "be a list of widths")
        )
        object.__setattr__(self, "edges", found)
        object.__setattr__(self, "missing", check_type("missing", missing, bool))
        object.__setattr__(self, "unit", check_unit(unit))
        object.__setattr__(self, "levels", _check_levels(widths, len(found) - 1))

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return len(self.edges) - 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Buckets in the blocks of each attribute, descending to 1."""
        return self.levels or (1,)

    @property
    def padded(self) -> int:
        """Number of buckets including those that nobody is in, which fill the last of the widest blocks.

        >>> Scale(0, 10, buckets=10, levels=[4, 1]).padded
        12
        """
        return -(-self.buckets // self.widths[0]) * self.widths[0]

    @property
    def attributes(self) -> tuple[tuple[str, ...], ...]:
        """Labels of the categories of each attribute."""
        names = [spell(edge) for edge in self.edges]
        if len(set(names)) != len(names):
            names = [repr(edge) for edge in self.edges]
        found: list[tuple[str, ...]] = []
        seen: set[str] = set()
        for width in reversed(self.widths):
            labels = [f"{names[i]} to {names[min(i + width, self.buckets)]}" for i in range(0, self.buckets, width)]
            labels += [f"unused {i + 1}" for i in range(self.padded // width - len(labels))]
            level = with_missing(labels, self.missing)
            # The last block may be a single bucket, and missing answers are a category of every level.
            level = tuple(f"{label}, blocks of {width}" if label in seen else label for label in level)
            seen.update(level)
            found.append(level)
        return tuple(reversed(found))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each attribute."""
        return tuple(self.padded // width + self.missing for width in self.widths)

    def bucket(self, value: object, what: str = ANSWER) -> int:
        """Return the bucket of an answer, from 0; the number of (padded) buckets if it is missing.

        >>> scale = Scale(edges=[0, 1, 10, 100])
        >>> scale.bucket(-5), scale.bucket(1), scale.bucket(9.99), scale.bucket(1e9)
        (0, 1, 1, 2)
        """
        if is_missing(value):
            if not self.missing:
                reject(what, NO_VALUE)
            return self.padded
        return min(max(bisect_right(self.edges, number(value, what)) - 1, 0), self.buckets - 1)

    def encode(self, value: object, coin: Coin, what: str = ANSWER) -> tuple[int, ...]:
        """Return the category of an answer in every attribute."""
        bucket = self.bucket(value, what)
        return tuple([bucket // width for width in self.widths])

    def to_document(self) -> Document:
        """Return the question as a JSON object; equal buckets are written by their bounds."""
        rest: Document = {"missing": self.missing, "unit": self.unit, "levels": list(self.levels)}
        if self.edges == _equal_edges(self.edges[0], self.edges[-1], self.buckets):
            bounds: Document = {"low": self.edges[0], "high": self.edges[-1], "buckets": self.buckets}
            return {"kind": self.kind, "edges": [], **bounds, **rest}
        return {"kind": self.kind, "edges": list(self.edges), "low": 0, "high": 0, "buckets": 0, **rest}

    @classmethod
    def from_document(cls, read: Fields) -> "Scale":
        """Read the question from the fields of a JSON object."""
        missing, unit, levels = read.truth("missing"), read.text("unit"), read.wholes("levels")
        if read.items("edges"):
            if (read.real("low"), read.real("high"), read.whole("buckets")) != (0.0, 0.0, 0):
                reject("low, high and buckets", "be 0 if there are edges")
            scale = cls(edges=read.reals("edges"), missing=missing, unit=unit, levels=levels)
            if scale.to_document()["edges"] == []:
                reject("edges", "be left out for equal buckets")
            return scale
        low, high, buckets = read.real("low"), read.real("high"), read.whole("buckets")
        return cls(low, high, buckets=buckets, missing=missing, unit=unit, levels=levels)

    def __repr__(self) -> str:
        ends = f"{spell(self.edges[0])} to {spell(self.edges[-1])}{' ' + self.unit if self.unit else ''}"
        return f"Scale({ends}, {self.buckets} buckets{', missing=True' if self.missing else ''})"


def _equal_edges(low: float, high: float, buckets: int) -> tuple[float, ...]:
    """Return equal buckets; the order of the operations is part of the format, because devices repeat them."""
    edges = (*(low + (high - low) * i / buckets for i in range(buckets)), high)
    if any(one >= two for one, two in pairwise(edges)):
        reject("buckets", f"be wider than the rounding of numbers between {spell(low)} and {spell(high)}", buckets)
    return edges


def _log_edges(low: float, high: float, buckets: int) -> tuple[float, ...]:
    if low <= 0:
        reject("low", "be above 0 for logarithmic buckets", low)
    step = math.log(high / low) / buckets
    edges = (low, *(low * math.exp(step * i) for i in range(1, buckets)), high)
    if any(one >= two for one, two in pairwise(edges)):
        reject("buckets", f"be wider than the rounding of numbers between {spell(low)} and {spell(high)}", buckets)
    return edges


def _check_levels(widths: tuple[int, ...], buckets: int) -> tuple[int, ...]:
    if not widths:
        return widths
    if widths[-1] != 1 or widths[0] >= buckets or any(one <= two or one % two for one, two in pairwise(widths)):
        reject("levels", f"descend from less than {buckets:,} to 1, each a multiple of the next", widths)
    return widths
