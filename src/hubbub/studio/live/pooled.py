"""The estimates of all batches of one round together, added as :func:`hubbub.pool` adds them.

Batches of one round hold different people. Those of different rounds may hold the same people, and are not pooled.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hubbub.documents import Json
from hubbub.results.comparisons import pool
from hubbub.results.counts import LEVEL, Estimate
from hubbub.results.surveys import SurveyEstimate
from hubbub.service.estimates import estimate_of
from hubbub.studio.live.batches import Figure, Floats

AnyEstimate = Estimate | SurveyEstimate
SHOWN_SHARES = 40
"""Shares of one question that the page draws."""
LARGEST_FIGURE = 1e60
"""Largest number of a result that is pooled: sums of squares stay finite, and no collection has as many people."""


@dataclass(frozen=True, slots=True)
class RoundPool:
    """The sum of the batches of one round."""

    round: int
    batches: int = 0
    estimate: AnyEstimate | None = None
    left_out: int = 0
    """Batches whose results state too little to be pooled."""

    def plus(self, results: Sequence[Mapping[str, Any]]) -> "RoundPool":
        """Return the pool with the results of committed batches of this round, which must be new.

        One that cannot be pooled is left out, and costs none of the others their place.
        """
        parts = [part for part in map(_estimate, results) if part is not None]
        count, total = len(parts), _sum([self.estimate, *parts])
        if total is None:
            count, total = 0, self.estimate
            for part in parts:
                pooled = _sum([total, part])
                count, total = (count, total) if pooled is None else (count + 1, pooled)
        return RoundPool(self.round, self.batches + count, total, self.left_out + len(results) - count)

    @property
    def people(self) -> int:
        """Number of people in the pooled batches."""
        return 0 if self.estimate is None else self.estimate.n

    def to_document(self, question: str) -> dict[str, Any]:
        """Return the pooled figures of a question, counts as shares, with intervals; of many shares the largest."""
        rows: list[Json] = []
        if self.estimate is not None:
            figures, table = _figures(self.estimate)
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


def _estimate(result: Mapping[str, Any]) -> AnyEstimate | None:
    """Return the estimate of a batch; None if its result does not state one."""
    try:
        return estimate_of(result) if _is_small(result) else None
    except Exception:  # whatever a result states, the others are pooled
        return None


def _is_small(value: object) -> bool:
    """Return True if no number of a JSON value is so large that it would hide those of other batches in a sum."""
    if isinstance(value, Mapping):
        return all(map(_is_small, value.values()))
    if isinstance(value, list):
        return all(map(_is_small, value))
    return not (isinstance(value, int | float) and LARGEST_FIGURE < abs(value) < math.inf)


def _figures(estimate: AnyEstimate) -> tuple[list[Figure], Floats]:
    """Return the figures of an estimate, and a row with the value and the ends of the interval of each."""
    if isinstance(estimate, Estimate):
        figures = [Figure("", label, "people") for label in estimate.labels]
        return figures, np.column_stack([estimate.values, *estimate.interval(LEVEL)])
    found = estimate.columns(LEVEL)
    figures = [Figure(*map(str, one)) for one in zip(found["question"], found["item"], found["unit"], strict=True)]
    return figures, np.column_stack([np.asarray(found[name], np.float64) for name in ("value", "low", "high")])


def _sum(parts: Sequence[AnyEstimate | None]) -> AnyEstimate | None:
    """Return the pooled estimate; None if there is none, or if its shares are no numbers that a page can show.

    Its guarantee is computed now, so that it does not refer to its parts any more.
    """
    given = [part for part in parts if part is not None]
    try:
        pooled: AnyEstimate = given[0] if len(given) == 1 else pool(cast(list[Estimate], given))
        pooled.guarantee  # noqa: B018 (it replaces the function that refers to all parts)
        figures, table = _figures(pooled)
    except Exception:  # whatever one of them states, the others are pooled
        return None
    shares = table[[one.is_share for one in figures]]
    return pooled if bool((np.abs(shares) <= LARGEST_FIGURE).all()) else None
