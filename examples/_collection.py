"""Simulated collections: every record through the real pipeline in blocks, or the counts by their distribution."""

import importlib.util
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.coins import positions
from hubbub.bits.entropy import Entropy
from hubbub.errors import reject
from hubbub.model.plans import Plan
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports, Tally
from hubbub.pipeline.shuffle import shuffle_blocks
from hubbub.pipeline.tally import tally
from hubbub.results.estimate import estimate
from hubbub.results.labels import LabelView

FLIPS = 1 << 24
"""Expected number of flips that are drawn at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """The estimate of a simulated collection, and the true counts."""

    estimate: LabelView
    truth: NDArray[np.int64]
    messages: int
    """The number of messages that the analyzer received."""
    how: str
    """A description of the simulation method."""

    @property
    def covered(self) -> float:
        """The share of labels whose true count lies in the 95 % interval."""
        low, high = self.estimate.interval(0.95)
        return float(((low <= self.truth) & (self.truth <= high)).mean())


def _scratch() -> BinaryIO:
    return cast(BinaryIO, tempfile.TemporaryFile())


def simulate_records(
    people: Iterable[tuple[Collection, NDArray[np.int64]]],
    plan: Plan,
    *,
    entropy: Entropy,
    tell: Callable[[int], None] = lambda _: None,
) -> Simulation:
    """Randomize, shuffle and count blocks of people, each with its true counts; ``tell`` gets the size of a block."""
    truth = np.zeros(plan.schema.width, np.int64)

    def reports() -> Iterator[Reports]:
        for block, counts in people:
            nonlocal truth
            truth = truth + counts
            yield randomize(block, plan, entropy=entropy)
            tell(len(block))

    fast = importlib.util.find_spec("numba") is not None
    total = tally(shuffle_blocks(reports(), plan, _scratch, memory=1 << 29, entropy=entropy, fast=fast))
    how = "by sending every record through client, shuffler and analyzer"
    return Simulation(estimate(total, plan).question, truth, total.messages, how)


def simulate_counts(truth: NDArray[np.int64], n: int, plan: Plan, *, entropy: Entropy) -> Simulation:
    """Draw the counts of split flips of one-hot records from their exact distribution, at the cost of the flips alone.

    Label j of n people is n cells, of which the first truth[j] hold a one; every cell is flipped with probability q by
    the coins of the real client. A flip removes a message in those cells and adds one in the others.
    """
    protocol = plan.protocol
    if not protocol.sends_bits or protocol.k != 1 or protocol.m != 0 or protocol.q == 0:
        reject("the plan", "release split bits in one copy without fakes", protocol)
    numerator, width = protocol.flip_numerator, plan.schema.width
    step = max(1, int(FLIPS / max(n * protocol.q, 1e-9)))
    counts = truth.astype(np.int64)
    for start in range(0, width, step):
        labels = min(step, width - start)
        flips = positions(labels * n, numerator, entropy=entropy)
        label, place = start + flips // n, flips % n
        lost = place < truth[label]
        counts += np.bincount(label[~lost], minlength=width) - np.bincount(label[lost], minlength=width)
    messages = int(counts.sum())
    total = Tally(plan=plan.id, n=n, fakes=0, messages=messages, batches=1, smallest_batch=n, counts=counts)
    return Simulation(
        estimate(total, plan).question,
        truth,
        messages,
        "by the exact distribution of the counts, with the client's coins",
    )
