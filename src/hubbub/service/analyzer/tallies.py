"""Partial tallies: the counts of one chunk, which add up to the tally of a batch in any order.

A batch is counted chunk by chunk, so the memory that counting takes does not depend on the size of the batch. Where
every client sends the same number k of messages, a batch with bad slots has up to k − 1 messages more than the whole
number of clients that remains; the *tail* of a partial tally keeps the last k − 1 reports of its chunk, so that they
can be taken off at the end without opening anything again.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Fields, Json, canonical, parse
from hubbub.model.plans import Plan
from hubbub.pipeline.reports import Reports, decode_payloads
from hubbub.pipeline.tally import tally
from hubbub.service.analyzer.slots import Verdict, messages_per_client

_COUNT = np.dtype("<u4")
"""A chunk has fewer than 2³² slots."""


@dataclass(frozen=True, slots=True, eq=False)
class PartialTally:
    """The counts of the slots of one chunk."""

    counts: NDArray[np.int64]
    messages: int
    fillers: int
    rejected: dict[str, int]
    """The number of rejected slots by reason."""
    tail: NDArray[np.uint8]
    """The payloads of the last reports, one per row."""

    def to_row(self) -> tuple[bytes, int, int, bytes, bytes]:
        """Return the values of the row in the store."""
        rejected: dict[str, Json] = dict(self.rejected)
        counts = self.counts.astype(_COUNT).tobytes()
        return counts, self.messages, self.fillers, canonical(rejected), self.tail.tobytes()

    @classmethod
    def from_row(
        cls, counts: bytes, messages: int, fillers: int, rejected: bytes, tail: bytes, *, plan: Plan
    ) -> "PartialTally":
        """Read a row of the store."""
        found = parse(rejected, "the rejected slots")
        names = tuple(found) if isinstance(found, dict) else ()
        reasons = Fields(found, "the rejected slots", *names)
        return cls(
            np.frombuffer(counts, _COUNT).astype(np.int64),
            messages,
            fillers,
            {reason: reasons.whole(reason) for reason in names},
            np.frombuffer(tail, np.uint8).reshape(-1, plan.payload),
        )


def count_chunk(payloads: NDArray[np.uint8], verdicts: NDArray[np.uint8], plan: Plan) -> PartialTally:
    """Return the partial tally of the opened slots of a chunk."""
    reports = payloads[verdicts == Verdict.report]
    rejected = {
        verdict.name: int(count)
        for verdict in Verdict
        if verdict >= Verdict.cannot_open and (count := np.count_nonzero(verdicts == verdict))
    }
    fillers = int(np.count_nonzero(verdicts == Verdict.filler))
    kept = min((messages_per_client(plan) or 1) - 1, len(reports))
    return PartialTally(_counts(reports, plan), len(reports), fillers, rejected, reports[len(reports) - kept :])


@dataclass(slots=True, eq=False)
class BatchTally:
    """The sum of the partial tallies of a batch, added in the order of the chunks."""

    plan: Plan
    counts: NDArray[np.int64]
    messages: int
    rejected: Counter[str]
    _tail: NDArray[np.uint8]

    @classmethod
    def add_up(cls, parts: Iterable[PartialTally], plan: Plan) -> "BatchTally":
        """Return the sum of the parts, of which only one is in memory at a time."""
        empty = np.zeros((0, plan.payload), np.uint8)
        total = cls(plan, np.zeros(plan.schema.width, np.int64), 0, Counter(), empty)
        longest = (messages_per_client(plan) or 1) - 1
        for part in parts:
            total.counts += part.counts
            total.messages += part.messages
            total.rejected.update(part.rejected)
            joined = np.concatenate([total._tail, part.tail])
            total._tail = joined[len(joined) - min(longest, len(joined)) :]
        return total

    @property
    def bad(self) -> int:
        """The number of rejected slots."""
        return self.rejected.total()

    def drop_last(self, surplus: int) -> None:
        """Take off the last reports; their order is random, so these are a random part of all."""
        cut = len(self._tail) - surplus
        assert cut >= 0, "a batch has fewer surplus messages than a client has messages"
        self.counts -= _counts(self._tail[cut:], self.plan)
        self.messages -= surplus
        self._tail = self._tail[:cut]


def _counts(payloads: NDArray[np.uint8], plan: Plan) -> NDArray[np.int64]:
    return tally(Reports(plan, decode_payloads(payloads, plan), 0)).counts
