"""``Reports`` and ``Tally``: the randomized messages of a batch, and their counts."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.records import check_records
from hubbub.errors import PlanMismatch, check_memory, check_whole, reject
from hubbub.plans import Plan


def message_type(plan: Plan) -> np.dtype[Any]:
    """How one message of a plan is kept: a byte of a packed record, or a little-endian number of a bit or category."""
    return np.dtype("u1" if plan.protocol.sends_records else f"<u{plan.payload}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reports:
    """Randomized messages of one plan: packed records, or the numbers of bits or categories.

    How many people contributed cannot be read off split bits, nor off whole records among a random number of fakes, so
    that ``n`` is declared by whoever randomized or collected; the shuffler holds it against the smallest batch.
    """

    plan: Plan
    messages: NDArray[Any]
    n: int
    """Contributors."""
    fakes: int = 0
    """Fakes among the messages, where the plan gives their number in total."""
    batch: int = 0
    """Contributors of the shuffled batch that these messages are of; 0 as long as they are not shuffled."""

    def __post_init__(self) -> None:
        if not isinstance(self.plan, Plan):
            reject("plan", "be a Plan", type(self.plan).__name__)
        for name in ("n", "fakes", "batch"):
            check_whole(name, getattr(self, name), 0, 10**12)
        width, kind = self.plan.schema.width, message_type(self.plan)
        if self.plan.protocol.sends_records:
            check_records(self.messages, width)
        else:
            must = f"be a vector of numbers of type {kind}"
            if not isinstance(self.messages, np.ndarray):
                reject("messages", must, type(self.messages).__name__)
            if self.messages.dtype != kind or self.messages.ndim != 1:
                reject("messages", must, f"{self.messages.dtype} of shape {self.messages.shape}")
            if self.messages.size and int(self.messages.max()) >= width:
                reject("messages", f"be below {width}", "others")

    @classmethod
    def from_payloads(cls, payloads: Iterable[bytes], plan: Plan, *, n: int, fakes: int = 0) -> Self:
        """Gather the payloads that n devices sent."""
        data = b"".join(payloads)
        messages = np.frombuffer(data, message_type(plan))
        if plan.protocol.sends_records:
            messages = messages.reshape(-1, plan.payload)
        return cls(plan, messages, n, fakes)

    def __add__(self, other: "Reports") -> Self:
        """All messages of both, which must be of one plan and not shuffled yet."""
        if not isinstance(other, Reports):
            return NotImplemented
        check_plan(self.plan.id, other.plan.id)
        if self.batch or other.batch:
            reject("reports", "be put together before they are shuffled; afterwards add their tallies", "shuffled ones")
        check_memory("the messages of both", self.messages.nbytes + other.messages.nbytes)
        messages = np.concatenate([self.messages, other.messages])
        return replace(self, messages=messages, n=self.n + other.n, fakes=self.fakes + other.fakes)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        state = "shuffled" if self.batch else "not shuffled"
        return f"Reports({len(self):,} messages of {self.n:,} people, {state}, plan {self.plan.id[:8]}…)"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tally:
    """How often each bit was set among the messages of a plan: all that the analyzer needs; tallies add up."""

    plan: str
    """The id of the plan."""
    n: int
    fakes: int
    messages: int
    batches: int
    """Shuffled batches: how often the shuffler has added its own fakes, if the plan says so."""
    smallest_batch: int
    """Contributors of the smallest of them; 0 if none was shuffled."""
    counts: NDArray[np.int64]

    def __add__(self, other: object) -> Self:
        """The tally of both; also with 0, so that ``sum`` works."""
        if isinstance(other, int) and other == 0:
            return self
        if not isinstance(other, Tally):
            return NotImplemented
        check_plan(self.plan, other.plan)
        return replace(
            self,
            n=self.n + other.n,
            fakes=self.fakes + other.fakes,
            messages=self.messages + other.messages,
            batches=self.batches + other.batches,
            smallest_batch=min(
                self.smallest_batch or other.smallest_batch, other.smallest_batch or self.smallest_batch
            ),
            counts=_frozen(self.counts + other.counts),
        )

    __radd__ = __add__


def check_plan(one: str, two: str) -> None:
    """Raise unless both ids are of one plan.

    >>> check_plan("ab" * 32, "cd" * 32)
    Traceback (most recent call last):
    hubbub.errors.PlanMismatch: both must be of one plan, got abababab… and cdcdcdcd…
    """
    if one != two:
        raise PlanMismatch(f"both must be of one plan, got {one[:8]}… and {two[:8]}…")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
