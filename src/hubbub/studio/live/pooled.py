"""The estimates of all batches of one round together, added as :func:`hubbub.pool` adds them.

Batches of one round hold different people. Those of different rounds may hold the same people, and are not pooled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hubbub.canonical import Json
from hubbub.comparisons import pool
from hubbub.errors import HubbubError
from hubbub.estimates import LEVEL, Estimate
from hubbub.service.estimates import estimate_of
from hubbub.studio.live.batches import Figure
from hubbub.surveys.results import SurveyEstimate

AnyEstimate = Estimate | SurveyEstimate


@dataclass(frozen=True, slots=True)
class RoundPool:
    """The sum of the batches of one round."""

    round: int
    batches: int = 0
    estimate: AnyEstimate | None = None
    left_out: int = 0
    """Batches whose results state too little to be pooled."""

    def plus(self, results: Sequence[Mapping[str, Any]]) -> "RoundPool":
        """Return the pool with the results of committed batches of this round, which must be new."""
        parts: list[AnyEstimate] = []
        for result in results:
            try:
                parts.append(estimate_of(result))
            except HubbubError:
                continue
        left_out = self.left_out + len(results) - len(parts)
        if not parts:
            return replace(self, left_out=left_out)
        every = parts if self.estimate is None else [self.estimate, *parts]
        return RoundPool(self.round, self.batches + len(parts), _sum(every), left_out)

    @property
    def people(self) -> int:
        """Number of people in the pooled batches."""
        return 0 if self.estimate is None else self.estimate.n

    def to_document(self, question: str) -> dict[str, Any]:
        """Return the pooled figures of a question, counts as shares, with intervals."""
        rows: list[Json] = []
        if isinstance(self.estimate, Estimate):
            columns = np.column_stack([self.estimate.values, *self.estimate.interval(LEVEL)]).tolist()
            rows = [
                _row(Figure("", label, "people"), value, low, high, self.people)
                for label, (value, low, high) in zip(self.estimate.labels, columns, strict=True)
            ]
        elif isinstance(self.estimate, SurveyEstimate):
            found = self.estimate.columns(LEVEL)
            rows = [
                _row(Figure(name, item, unit), float(value), float(low), float(high), self.people)
                for name, item, unit, value, low, high in zip(
                    *(found[key] for key in ("question", "item", "unit", "value", "low", "high")), strict=True
                )
                if name == question
            ]
        return {
            "round": self.round,
            "batches": self.batches,
            "people": self.people,
            "left_out": self.left_out,
            "rows": rows,
        }


def _row(figure: Figure, value: float, low: float, high: float, people: int) -> dict[str, Any]:
    scale = max(people, 1) if figure.is_share else 1
    ends = {"value": value / scale, "low": low / scale, "high": high / scale}
    return {**figure.to_document(), **{name: one if np.isfinite(one) else None for name, one in ends.items()}}


def _sum(parts: list[AnyEstimate]) -> AnyEstimate:
    """Return the pooled estimate; its guarantee is computed now, so that it does not refer to its parts any more."""
    if len(parts) == 1:
        return parts[0]
    pooled: AnyEstimate
    if isinstance(parts[0], Estimate):
        pooled = pool([part for part in parts if isinstance(part, Estimate)])
    else:
        pooled = pool([part for part in parts if isinstance(part, SurveyEstimate)])
    pooled.guarantee  # noqa: B018 (it replaces the function that refers to all parts)
    return pooled
