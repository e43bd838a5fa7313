"""One task of a live page: its batches, gaps, pool and spending, and how a page sees them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hubbub.canonical import Json
from hubbub.errors import check_choice, check_whole
from hubbub.service.analyzer.gaps import UNKNOWN
from hubbub.service.reader import describe_gap
from hubbub.service.task.contract import Contract
from hubbub.studio.live.batches import BatchHead, BatchSeries
from hubbub.studio.live.figures import Waiting
from hubbub.studio.live.pooled import RoundPool
from hubbub.studio.live.view import LARGEST, MAX_LINES, MAX_POINTS, view_of

SHOWN_WITHHELD = 20
SHOWN_GAPS = 20
MAX_ROWS = 200


@dataclass(slots=True)
class LiveTask:
    """The state of one task; only the feed changes it."""

    id: str
    contract: Contract | None = None
    series: BatchSeries = field(default_factory=BatchSeries)
    pool: RoundPool = field(default_factory=lambda: RoundPool(0))
    gaps: tuple[dict[str, Any], ...] = ()
    listed: int = 0
    """Number of finished batches that the analyzer lists."""
    people: int = 0
    withheld: dict[int, BatchHead] = field(default_factory=dict)
    newest: BatchHead | None = None
    spent: Mapping[str, Any] = field(default_factory=dict)
    total: Mapping[str, Any] = field(default_factory=dict)
    waiting: Waiting | None = None
    tag: str = ""
    after: int = 0

    def add(self, results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Add new results, and return the committed ones of the newest round, which are to be pooled."""
        fresh = []
        for result in results:
            if result.get("bucket") in self.series:
                continue
            head = self.series.add(result)
            if head.state == "committed":
                self.people += head.people or 0
                fresh.append(result)
            else:
                self.withheld[head.bucket] = head
            if self.newest is None or head.bucket > self.newest.bucket:
                self.newest, self.spent, self.total = head, _stated(result, "spent"), _stated(result, "total")
        newest_round = max((int(one["round"]) for one in fresh), default=0)
        if newest_round > self.pool.round:
            self.pool = RoundPool(newest_round)
        return [one for one in fresh if one["round"] == self.pool.round]

    def settle(self) -> None:
        """Note up to which bucket nothing can arrive any more; a bucket that is unknown may still be counted."""
        known = [(one["first"], one["last"]) for one in self.gaps if one.get("reason") != UNKNOWN]
        self.after = self.series.settled([(int(first), int(last)) for first, last in known])

    @property
    def questions(self) -> list[str]:
        """The questions in their order; a task without a survey has one without a name."""
        return list(dict.fromkeys(figure.question for figure in self.series.figures))

    @property
    def epoch(self) -> int | None:
        """Seconds between two releases, as far as they are known."""
        if self.contract is not None:
            return self.contract.epoch
        return None if self.newest is None else self.newest.end - self.newest.start

    def overview(self) -> dict[str, Any]:
        """Return what every tab of the page shows, whatever its window."""
        committed = len(self.series) - len(self.withheld)
        withheld: list[Json] = [self.withheld[one].to_document() for one in sorted(self.withheld)[-SHOWN_WITHHELD:]]
        gaps: list[Json] = [
            {"first": one.get("first"), "last": one.get("last"), "text": describe_gap(one)}
            for one in self.gaps[-SHOWN_GAPS:]
        ]
        return {
            "task": self.id,
            "plan": None if self.contract is None else self.contract.plan.id,
            "min_batch_size": None if self.contract is None else self.contract.min_batch_size,
            "rounds": self.total.get("rounds"),
            "epoch": self.epoch,
            "listed": self.listed,
            "batches": len(self.series),
            "committed": committed,
            "withheld": len(self.withheld),
            "withheld_batches": withheld[::-1],
            "gaps": gaps[::-1],
            "people": self.people,
            "newest": None if self.newest is None else self.newest.to_document(),
            "spent": _spending(self.spent),
            "total": _spending(self.total),
            "waiting": None if self.waiting is None else self.waiting.to_document(),
            "questions": list[Json](self.questions),
        }

    def view(self, question: str, *, first: int = 1, last: int = LARGEST, points: int = 240) -> dict[str, Any]:
        """Return a window of the series of a question, and its pooled estimate."""
        check_whole("first", first, 0, LARGEST)
        check_whole("last", last, 0, LARGEST)
        check_whole("points", points, 1, MAX_POINTS)
        if self.questions:
            check_choice("question", question, tuple(self.questions))
        chosen = self._chosen(question)
        buckets = self.series.buckets
        extent: list[Json] = [int(buckets[0]), int(buckets[-1])] if buckets.size else []
        return {
            "task": self.id,
            "question": question,
            "extent": extent,
            "figures_of_question": sum(one.question == question for one in self.series.figures),
            "series": view_of(self.series, chosen, first=first, last=last, points=points).to_document(),
            "pooled": self.pool.to_document(question),
        }

    def _chosen(self, question: str) -> list[int]:
        """Return the places of the figures to show: those of the question, the largest shares if there are many."""
        places = [place for place, one in enumerate(self.series.figures) if one.question == question]
        if len(places) <= MAX_LINES or not self.series.buckets.size:
            return places
        last = int(self.series.buckets[-1])
        _, _, table = self.series.rows(max(1, last - 50), last, places)
        largest = table[:, 0].mean(axis=0).argsort()[::-1][:MAX_LINES]
        return [places[int(one)] for one in largest]

    def rows(self, before: int = LARGEST, count: int = 50) -> list[Json]:
        """Return the heads of batches with smaller buckets than ``before``, the newest first."""
        check_whole("before", before, 0, LARGEST)
        check_whole("count", count, 1, MAX_ROWS)
        found = sorted((one for one in self.series.heads if one < before), reverse=True)[:count]
        return [self.series.heads[one].to_document() for one in found]


def _stated(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a spending that a result states, empty if it is none."""
    found = result.get(name)
    rounds = found.get("rounds") if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(rounds, int):
        return {}
    try:
        return {"rounds": rounds, **{key: float(found.get(key, "nan")) for key in ("epsilon", "delta")}}
    except (TypeError, ValueError):
        return {}


def _spending(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a spending as the analyzer states it; None if it states none."""
    if not document:
        return None
    epsilon, delta = (document[name] if math.isfinite(document[name]) else None for name in ("epsilon", "delta"))
    return {"rounds": document["rounds"], "epsilon": epsilon, "delta": delta}
