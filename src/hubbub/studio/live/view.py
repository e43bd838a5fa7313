"""A window of a series as a chart draws it: at most a few hundred points, each of one batch or the mean of several."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Json
from hubbub.errors import check_whole
from hubbub.studio.live.batches import BatchSeries, Figure, Floats

MAX_POINTS, MAX_LINES = 400, 24
NORMAL = 1.959963984540054
"""The quantile of the normal distribution for intervals of 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesView:
    """Points of a few figures: columns by point, and by figure and point."""

    per_point: int
    """Number of consecutive buckets that one point stands for, at most."""
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    batches: NDArray[np.int64]
    people: Floats
    time: NDArray[np.int64]
    """When the last epoch began in which people of the point's last batch answered, in seconds since 1970."""
    figures: tuple[Figure, ...]
    value: Floats
    low: Floats
    high: Floats

    def to_document(self) -> dict[str, Any]:
        """Return the view as a JSON object, rounded to what a chart can show."""
        return {
            "per_point": self.per_point,
            "first": self.first.tolist(),
            "last": self.last.tolist(),
            "batches": self.batches.tolist(),
            "people": [int(one) for one in self.people],
            "time": self.time.tolist(),
            "figures": [
                {
                    **figure.to_document(),
                    "value": _rounded(self.value[:, place]),
                    "low": _rounded(self.low[:, place]),
                    "high": _rounded(self.high[:, place]),
                }
                for place, figure in enumerate(self.figures)
            ],
        }


def _rounded(column: Floats) -> list[Json]:
    return [None if not np.isfinite(one) else float(f"{one:.6g}") for one in column.tolist()]


def view_of(series: BatchSeries, chosen: list[int], *, first: int, last: int, points: int = MAX_POINTS) -> SeriesView:
    """Return the figures at ``chosen`` places for the buckets ``first`` to ``last``.

    If there are more batches than ``points``, a point is the mean over consecutive buckets, weighted by people. The
    interval of a share is that of the normal distribution, as the errors of batches are independent; those of other
    figures, such as quantiles, may be biased alike, so their interval is the mean of the batches' ends, which is wider.
    Points are aligned to the numbers of buckets, so that a window that moves does not change them.
    """
    check_whole("points", points, 1, MAX_POINTS)
    buckets, people, table = series.rows(first, last, chosen)
    per_point, starts = grouped(buckets, points)
    counts = np.diff(np.r_[starts, buckets.size])
    totals = np.add.reduceat(people, starts) if buckets.size else np.empty(0)
    shares = np.array([series.figures[place].is_share for place in chosen], bool)
    value, low, high = _means(table, people, starts, shares)
    single = counts == 1
    for column, mean in ((0, value), (2, low), (3, high)):
        mean[single] = table[starts[single], column]
    ends = starts + counts - 1
    return SeriesView(
        per_point=per_point,
        first=buckets[starts],
        last=buckets[ends],
        batches=counts,
        people=totals,
        time=np.array([series.heads[int(one)].time for one in buckets[ends]], np.int64),
        figures=tuple(series.figures[place] for place in chosen),
        value=value,
        low=low,
        high=high,
    )


def grouped(buckets: NDArray[np.int64], points: int) -> tuple[int, NDArray[np.intp]]:
    """Return how many consecutive numbers a point stands for, and the place at which each point begins.

    There may be one point more than asked for: the first one and the last one are parts if a window is not aligned.

    >>> grouped(np.array([1, 2, 3, 4, 900, 901, 902, 903]), 4)
    (2, array([0, 2, 4, 5, 7]))
    """
    if not buckets.size:
        return 1, np.empty(0, np.intp)
    per_point = -(-buckets.size // points)
    while True:
        keys = (buckets - 1) // per_point
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        if len(starts) <= points + (per_point > 1):
            return int(per_point), starts
        # Where numbers are missing, more of them fit into a point; long gaps need no points.
        per_point = max(per_point + 1, per_point * len(starts) // (points + 1))


def _means(
    table: Floats, people: Floats, starts: NDArray[Any], shares: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """Return means weighted by people, and the ends of their intervals, over the batches that have a figure."""
    if not starts.size:
        empty = np.empty((0, table.shape[2]))
        return empty, empty.copy(), empty.copy()
    known = np.logical_and.reduce(np.isfinite(table), axis=1)
    weights, table = people[:, None] * known, np.where(known[:, None], table, 0.0)
    totals = np.add.reduceat(weights, starts, axis=0)
    totals[totals == 0] = np.nan
    value, low, high = (np.add.reduceat(table[:, one] * weights, starts, axis=0) / totals for one in (0, 2, 3))
    reach = NORMAL * np.sqrt(np.add.reduceat((table[:, 1] * weights) ** 2, starts, axis=0)) / totals
    return value, np.where(shares, value - reach, low), np.where(shares, value + reach, high)
