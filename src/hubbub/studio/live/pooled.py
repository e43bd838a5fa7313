"""The estimates of all batches of one round together, added as :func:`hubbub.pool` adds them.

Batches of one round hold different people. Those of different rounds may hold the same people, and are not pooled.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubbub.documents import Json
from hubbub.results.pool import pool
from hubbub.results.result import Result
from hubbub.results.strings import StringView
from hubbub.studio.live.batches import Figure, Floats

SHOWN_SHARES = 40
"""Shares of one question that the page draws."""
LARGEST_FIGURE = 1e60
"""Largest number of a result that is pooled: sums of squares stay finite, and no collection has as many people."""


@dataclass(frozen=True, slots=True)
class RoundPool:
    """The sum of the batches of one round."""

    round: int
    batches: int = 0
    result: Result | None = None
    left_out: int = 0
    """Batches whose results state too little to be pooled."""

    def plus(self, results: Sequence[Mapping[str, Any]]) -> "RoundPool":
        """Return the pool with the results of committed batches of this round, which must be new.

        One that cannot be pooled is left out, and costs none of the others their place.
        """
        parts = [part for part in map(_result, results) if part is not None]
        count, total = len(parts), _sum([self.result, *parts])
        if total is None:
            count, total = 0, self.result
            for part in parts:
                pooled = _sum([total, part])
                count, total = (count, total) if pooled is None else (count + 1, pooled)
        return RoundPool(self.round, self.batches + count, total, self.left_out + len(results) - count)

    @property
    def people(self) -> int:
        """Number of people in the pooled batches."""
        return 0 if self.result is None else self.result.n

    def to_document(self, question: str) -> dict[str, Any]:
        """Return the pooled figures of a question, counts as shares, with intervals; of many shares the largest."""
        rows: list[Json] = []
        if self.result is not None:
            figures, table = _figures(self.result)
            places = [place for place, one in enumerate(figures) if one.question == question]
            shares = sorted((one for one in places if figures[one].is_share), key=lambda one: -table[one, 0])
            dropped = set(shares[SHOWN_SHARES:])
            rows = [_row(figures[one], table[one], self.people) for one in places if one not in dropped]
        return {
            "round": self.round,
            "batches": self.batches,
            "people": self.people,
            "left_out": self.left_out,
            "rows": rows,
        }


def _row(figure: Figure, row: Floats, people: int) -> dict[str, Any]:
    shown = (row / max(people, 1) if figure.is_share else row).tolist()
    ends = zip(("value", "low", "high"), shown, strict=True)
    return {**figure.to_document(), **{name: one if math.isfinite(one) else None for name, one in ends}}


def _result(document: Mapping[str, Any]) -> Result | None:
    """Return the result of a batch; None if its document does not state one."""
    try:
        found = Result.from_document(dict(document)) if _is_small(document) else None
        # Each batch shows other strings, which are not pooled.
        return None if found is None or isinstance(found.views[0][1], StringView) else found
    except Exception:  # whatever a result states, the others are pooled
        return None


def _is_small(value: object) -> bool:
    """Return True if no number of a JSON value is so large that it would hide those of other batches in a sum."""
    if isinstance(value, Mapping):
        return all(map(_is_small, value.values()))
    if isinstance(value, list):
        return all(map(_is_small, value))
    return not (isinstance(value, int | float) and LARGEST_FIGURE < abs(value) < math.inf)


def _figures(result: Result) -> tuple[list[Figure], Floats]:
    """Return the figures of a result, and a row with the value and the ends of the interval of each."""
    found = result.columns()
    names = ([one or "" for one in found[key]] for key in ("question", "item", "unit"))
    figures = [Figure(*map(str, one)) for one in zip(*names, strict=True)]
    return figures, np.column_stack([np.asarray(found[name], np.float64) for name in ("value", "low", "high")])


def _sum(parts: Sequence[Result | None]) -> Result | None:
    """Return the pooled result; None if there is none, or if its shares are no numbers that a page can show.

    Its guarantee is computed now, so that it does not refer to its parts any more.
    """
    given = [part for part in parts if part is not None]
    try:
        pooled: Result = given[0] if len(given) == 1 else pool(given)
        pooled.guarantee  # noqa: B018 (it replaces the function that refers to all parts)
        figures, table = _figures(pooled)
    except Exception:  # whatever one of them states, the others are pooled
        return None
    shares = table[[one.is_share for one in figures]]
    return pooled if bool((np.abs(shares) <= LARGEST_FIGURE).all()) else None
