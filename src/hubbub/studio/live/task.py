"""One task of a live page: its batches, gaps, pool and spending, and how a page sees them."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hubbub.documents import Json
from hubbub.errors import WireError, check_choice, check_whole
from hubbub.service.analyzer.core import UNKNOWN
from hubbub.service.reader import describe_gap
from hubbub.service.task.contract import Contract
from hubbub.studio.live.batches import LARGEST, LONGEST_TEXT, BatchHead, BatchSeries, is_whole, real
from hubbub.studio.live.figures import Waiting
from hubbub.studio.live.pooled import RoundPool
from hubbub.studio.live.view import MAX_LINES, MAX_POINTS, grouped, view_of

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
    people: dict[int, int] = field(default_factory=dict)
    """People in the committed batches by round; those of two rounds may be the same, and are not added."""
    withheld: dict[int, BatchHead] = field(default_factory=dict)
    newest: BatchHead | None = None
    spent: Mapping[str, Any] = field(default_factory=dict)
    total: Mapping[str, Any] = field(default_factory=dict)
    waiting: Waiting | None = None
    tag: str = ""
    after: int = 0
    replaced: bool = False
    """True if the analyzer lists other batches under known numbers: it was set up anew, and none may be added."""

    def check(self, listed: Sequence[Mapping[str, Any]] = ()) -> None:
        """Raise if a batch is listed under the number of another one, now or before."""
        known = ((one["batch"], self.series.heads.get(one["bucket"])) for one in listed)
        self.replaced |= any(head is not None and batch != head.batch for batch, head in known)
        if self.replaced:
            raise WireError("the analyzer lists other batches than before: restart the studio")

    def add(self, results: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], WireError | None]:
        """Add new results; return the committed ones of the newest round, which are to be pooled, and a refusal."""
        fresh, refused = list[Mapping[str, Any]](), None
        for result in results:
            if result.get("bucket") in self.series:
                continue
            try:
                head = self.series.add(result)
            except WireError as error:
                # The others must not be lost to the pool: they are never read again.
                refused = error
                continue
            if head.state == "committed":
                self.people[head.round] = self.people.get(head.round, 0) + (head.people or 0)
                fresh.append(result)
            else:
                self.withheld[head.bucket] = head
            if self.newest is None or head.bucket > self.newest.bucket:
                self.newest, self.spent, self.total = head, _stated(result, "spent"), _stated(result, "total")
        newest_round = max((int(one["round"]) for one in fresh), default=0)
        if newest_round > self.pool.round:
            self.pool = RoundPool(newest_round)
        return [one for one in fresh if int(one["round"]) == self.pool.round], refused

    def settle(self) -> None:
        """Note up to which bucket nothing can arrive any more; a bucket that is unknown may still be counted."""
        known = [(one["first"], one["last"]) for one in self.gaps if one.get("reason") != UNKNOWN]
        self.after = self.series.settled([(int(first), int(last)) for first, last in known])

    @property
    def listed_after(self) -> int:
        """The bucket after which batches are listed: before the last settled one, which must still be the same."""
        place = bisect_right(self.series.numbers, self.after)
        return max(self.series.numbers[place - 1] - 1, 0) if place else self.after

    @property
    def questions(self) -> list[str]:
        """The questions in their order; a task without a survey has one without a name."""
        return list(dict.fromkeys(figure.question for figure in self.series.figures))

    @property
    def epoch(self) -> int | None:
        """Seconds between two releases, as far as they are known."""
        if self.contract is not None:
            return self.contract.epoch
        return None if self.newest is None else self.newest.epoch

    def overview(self) -> dict[str, Any]:
        """Return what every tab of the page shows, whatever its window."""
        committed = len(self.series) - len(self.withheld)
        withheld: list[Json] = [self.withheld[one].to_document() for one in sorted(self.withheld)[-SHOWN_WITHHELD:]]
        gaps: list[Json] = [
            {"first": one["first"], "last": one["last"], "text": describe_gap(one)[:LONGEST_TEXT]}
            for one in sorted(self.gaps, key=lambda one: int(one["first"]))[-SHOWN_GAPS:]
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
            "gaps_known": len(self.gaps),
            "people": self.people[max(self.people)] if self.people else 0,
            "responses": sum(self.people.values()),
            "rounds_released": len(self.people),
            "newest": None if self.newest is None else self.newest.to_document(),
            "spent": dict(self.spent) or None,
            "total": dict(self.total) or None,
            "waiting": None if self.waiting is None else self.waiting.to_document(),
            "questions": list[Json](self.questions),
        }

    def view(
        self,
        question: str,
        *,
        size: int = 0,
        last: int = LARGEST,
        before: int = 0,
        after: int = 0,
        points: int = 240,
    ) -> dict[str, Any]:
        """Return a window of ``size`` batches, or of all, of the series of a question, and its pooled estimate."""
        check_whole("size", size, 0, LARGEST)
        check_whole("points", points, 1, MAX_POINTS)
        if self.questions:
            check_choice("question", question, tuple(self.questions))
        chosen = self._chosen(question)
        buckets = self.series.buckets
        begin, end = self._span(size or len(self.series), last=last, before=before, after=after)
        first, final = self._ends(begin, end)
        return {
            "task": self.id,
            "question": question,
            "window": {
                "first": first,
                "last": final,
                # Of batches whose figures are no longer kept, there is nothing to draw.
                "older": begin > 0 and (not buckets.size or self.series.numbers[begin] > int(buckets[0])),
                "newer": end < len(self.series),
            },
            "figures_of_question": sum(one.question == question for one in self.series.figures),
            "series": view_of(self.series, chosen, first=first, last=final, points=points).to_document(),
            "withheld": self._lost(first, final, points),
            "pooled": self.pool.to_document(question),
        }

    def _lost(self, first: int, last: int, points: int) -> dict[str, Any]:
        """Return how many batches of a window were withheld, and when, in no more times than a chart can show."""
        known = sorted(self.withheld)
        buckets = np.array(known[bisect_left(known, first) : bisect_right(known, last)], np.int64)
        _, starts = grouped(buckets, points)
        times: list[Json] = [self.withheld[int(one)].time for one in buckets[starts]]
        return {"batches": len(buckets), "time": times}

    def _chosen(self, question: str) -> list[int]:
        """Return the places of the figures to show: those of the question, the largest shares if there are many."""
        places = [place for place, one in enumerate(self.series.figures) if one.question == question]
        if len(places) <= MAX_LINES or not self.series.buckets.size:
            return places
        last = int(self.series.buckets[-1])
        _, _, table = self.series.rows(max(1, last - 50), last, places)
        # A figure that is missing in a batch counts as none, or it would be sorted before the largest.
        largest = np.nan_to_num(table[:, 0], posinf=0.0, neginf=0.0).mean(axis=0).argsort()[::-1][:MAX_LINES]
        return [places[int(one)] for one in largest]

    def page(self, count: int = 50, *, last: int = LARGEST, before: int = 0, after: int = 0) -> dict[str, Any]:
        """Return the heads of some batches, the newest first, and whether there are older and newer ones."""
        check_whole("count", count, 1, MAX_ROWS)
        begin, end = self._span(count, last=last, before=before, after=after)
        rows: list[Json] = [self.series.heads[one].to_document() for one in self.series.numbers[begin:end][::-1]]
        return {"rows": rows, "older": begin > 0, "newer": end < len(self.series)}

    def _span(self, count: int, *, last: int, before: int, after: int) -> tuple[int, int]:
        for name, value in (("last", last), ("before", before), ("after", after)):
            check_whole(name, value, 0, LARGEST)
        return self.series.span(count, last=last, before=before, after=after)

    def _ends(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first and the last bucket between two places; without a batch, a range that holds none."""
        return (self.series.numbers[begin], self.series.numbers[end - 1]) if begin < end else (1, 0)


def _stated(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a spending that a result states, empty if it is none."""
    found = result.get(name)
    rounds = found.get("rounds") if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not is_whole(rounds):
        return {}
    try:
        return {"rounds": rounds, "epsilon": real(found.get("epsilon")), "delta": real(found.get("delta"), 1.0)}
    except (ValueError, OverflowError):
        return {}
