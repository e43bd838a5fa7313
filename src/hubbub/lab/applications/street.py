"""Millions of people through the real street, in blocks; or, for more than fit, by the law of their counts."""

import importlib.util
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from hubbub.analyzer import estimate, tally
from hubbub.bits.coins import positions
from hubbub.bits.entropy import Entropy
from hubbub.client import randomize
from hubbub.errors import reject
from hubbub.estimates import Estimate
from hubbub.plans import Plan
from hubbub.records import Collection
from hubbub.reports import Reports, Tally
from hubbub.shuffler import shuffle_blocks

BLOCK = 1 << 20
FLIPS = 1 << 24
"""Expected flips that are drawn at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """What came out of a simulation, beside the truth that only a simulation knows."""

    estimate: Estimate
    truth: NDArray[np.int64]
    messages: int
    """Received by the analyzer."""
    how: str

    @property
    def covered(self) -> float:
        """The share of the labels whose true count lies in the 95 % interval."""
        low, high = self.estimate.interval(0.95)
        return float(((low <= self.truth) & (self.truth <= high)).mean())


def _scratch() -> BinaryIO:
    return cast(BinaryIO, tempfile.TemporaryFile())


def walk(
    people: Iterable[tuple[Collection, NDArray[np.int64]]],
    plan: Plan,
    *,
    entropy: Entropy,
    tell: Callable[[int], None] = lambda _: None,
) -> Counted:
    """Randomize, shuffle and count everybody: blocks of people, each with its true counts; ``tell`` hears how many."""
    truth = np.zeros(plan.schema.width, np.int64)

    def reports() -> Iterator[Reports]:
        for block, counts in people:
            nonlocal truth
            truth = truth + counts
            yield randomize(block, plan, entropy=entropy)
            tell(len(block))

    fast = importlib.util.find_spec("numba") is not None
    total = tally(shuffle_blocks(reports(), plan, _scratch, memory=1 << 29, entropy=entropy, fast=fast))
    how = "every record through client, shuffler and analyzer"
    return Counted(estimate(total, plan), truth, total.messages, how)


def split_counts(truth: NDArray[np.int64], n: int, plan: Plan, *, entropy: Entropy) -> Counted:
    """Draw the counts of split flips of one-hot records directly: exactly their law, at the cost of the flips alone.

    Label j of n people is n cells, of which the first truth[j] hold a one; every cell is flipped with probability q by
    the coins of the real client, and a flip takes a message away among those and adds one among the others.
    """
    protocol = plan.protocol
    if not protocol.sends_bits or protocol.k != 1 or protocol.m != 0 or protocol.q == 0:
        reject("the plan", "release split bits in one copy without fakes", protocol)
    flip_probability, width = protocol.flip_numerator, plan.schema.width
    step = max(1, int(FLIPS / max(n * protocol.q, 1e-9)))
    counts = truth.astype(np.int64)
    for start in range(0, width, step):
        labels = min(step, width - start)
        flips = positions(labels * n, flip_probability, entropy=entropy)
        label, place = start + flips // n, flips % n
        lost = place < truth[label]
        counts += np.bincount(label[~lost], minlength=width) - np.bincount(label[lost], minlength=width)
    messages = int(counts.sum())
    total = Tally(plan=plan.id, n=n, fakes=0, messages=messages, batches=1, smallest_batch=n, counts=counts)
    return Counted(estimate(total, plan), truth, messages, "by the law of the counts, with the client's own coins")
