"""Randomized messages, in memory (``Reports``) or read in blocks (``Batch``), and their counts (``Tally``)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import (
    PlanMismatch,
    WireError,
    check_choice,
    check_items,
    check_memory,
    check_type,
    check_whole,
    kind_of,
    reject,
)
from hubbub.model.plans import Plan
from hubbub.model.releases import PAYLOAD_FORMATS, Release
from hubbub.model.schema import MAX_LABELS
from hubbub.numeric.vectors import check_vector
from hubbub.pipeline.rows import legal_rows

MAX_DECLARED = 10**12
"""Largest number of contributors, or of fakes, that a batch may declare."""
MAX_MESSAGES = 10**18


def message_type(plan: Plan) -> np.dtype[Any]:
    """Return the type of an array of messages: bytes of packed records, or little-endian indices."""
    return np.dtype("u1" if plan.protocol.sends_rows else f"<u{plan.payload}")


def legal_payloads(rows: NDArray[np.uint8], plan: Plan) -> NDArray[np.bool_]:
    """Return which rows of payload bytes are legal: :meth:`hubbub.model.releases.PayloadFormat.check` for many at once.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> from hubbub.model.schema import Schema
    >>> plan = plan_from(Schema.one_hot(3), 1000, Protocol(0.1), delta=1e-6)
    >>> legal_payloads(np.array([[5], [8]], np.uint8), plan).tolist()
    [True, False]
    """
    if rows.dtype != np.uint8 or rows.shape[1:] != (plan.payload,):
        reject("rows", f"be a uint8 array of shape (n, {plan.payload})")
    return _legal(_messages(rows, plan), plan)


def decode_payloads(payloads: bytes | memoryview | NDArray[np.uint8], plan: Plan) -> NDArray[Any]:
    """Return the messages of concatenated payloads, without copying contiguous ones; raise WireError on illegal ones.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> from hubbub.model.schema import Schema
    >>> plan = plan_from(Schema.one_hot(3), 1000, Protocol(0.1, release="bits"), delta=1e-6)
    >>> decode_payloads(bytes([2, 0, 3]), plan)
    Traceback (most recent call last):
    hubbub.errors.WireError: payload 3 must be an index below 3
    """
    data = payloads if isinstance(payloads, np.ndarray) else np.frombuffer(payloads, np.uint8)
    if data.size % plan.payload:
        raise WireError(f"the length of the payloads must be a multiple of {plan.payload}, got {data.size}")
    messages = _messages(data.reshape(-1, plan.payload), plan)
    legal = _legal(messages, plan)
    if not legal.all():
        raise WireError(f"payload {int(np.argmin(legal)) + 1:,} must {_legality(plan)}")
    return messages


def _messages(rows: NDArray[np.uint8], plan: Plan) -> NDArray[Any]:
    rows = np.ascontiguousarray(rows)
    return rows if plan.protocol.sends_rows else rows.view(message_type(plan))[:, 0]


def _legal(messages: NDArray[Any], plan: Plan) -> NDArray[np.bool_]:
    width = plan.schema.width
    if plan.schema.text is not None:
        return legal_rows(messages, plan.schema.text)
    if not plan.protocol.sends_records:
        return np.asarray(messages < width)
    if width % 8 == 0:
        return np.broadcast_to(np.True_, len(messages))
    return np.asarray(messages[:, -1] < 1 << width % 8)


def _all_legal(messages: NDArray[Any], plan: Plan) -> bool:
    if plan.protocol.sends_rows:
        return bool(_legal(messages, plan).all())
    # The largest one decides, and needs no memory.
    return not len(messages) or int(messages.max()) < plan.schema.width


def _legality(plan: Plan) -> str:
    if plan.protocol.sends_strings:
        return "be a number of people and a string with zero padding"
    return (
        f"be an index below {plan.schema.width}" if plan.protocol.payload_format.is_index else "have zero padding bits"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """Everything that a batch declares about itself, apart from its messages.

    The number of contributors is declared because neither single bits nor records among a random number of fakes
    reveal it; the shuffler compares it with the minimum batch size.
    """

    plan: str
    """The id of the plan."""
    release: Release
    width: int
    payload: int
    """Bytes of the payload of one message."""
    messages: int
    n: int
    """Contributors."""
    fakes: int = 0
    """Fakes among the messages, if the plan fixes their total number."""
    shuffled: bool = False
    certified: int = 0
    """Contributors at which a service states the guarantee, because it rejected messages of others; 0 means all."""
    slots: int = 0
    """Most messages that a service took from one contributor, if some may have left out more; 0 means any number."""

    def __post_init__(self) -> None:
        _check_id(self.plan)
        check_choice("release", self.release, tuple(PAYLOAD_FORMATS))
        check_whole("width", self.width, 1, MAX_LABELS)
        check_whole("payload", self.payload, 1, MAX_LABELS)
        check_whole("messages", self.messages, 0, MAX_MESSAGES)
        _check_declared(self.n, self.fakes, self.shuffled)
        for name in ("certified", "slots"):
            if check_whole(name, getattr(self, name), 0, MAX_DECLARED) and not self.shuffled:
                reject(name, "be 0 unless the batch is shuffled", getattr(self, name))

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        messages: int,
        n: int,
        fakes: int = 0,
        shuffled: bool = False,
        certified: int = 0,
        slots: int = 0,
    ) -> Self:
        """Return the header of a batch of the plan."""
        check_type("plan", plan, Plan)
        return cls(
            plan=plan.id,
            release=plan.protocol.release,
            width=plan.schema.extent,
            payload=plan.payload,
            messages=messages,
            n=n,
            fakes=fakes,
            shuffled=shuffled,
            certified=certified,
            slots=slots,
        )

    def check(self, plan: Plan) -> None:
        """Raise unless this is the header of a batch of the plan."""
        check_plan(check_type("plan", plan, Plan).id, self.plan, "batch and plan")
        if (self.release, self.width, self.payload) != (plan.protocol.release, plan.schema.extent, plan.payload):
            raise WireError("the release, width and payload size of a batch must be those of its plan")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batch:
    """A batch whose messages are read in blocks, so that it may be larger than memory.

    ``blocks`` are arrays as in :attr:`Reports.messages`. They can usually be iterated over only once, and are to be
    trusted only after the last one: the digest of a file is at its end.
    """

    header: BatchHeader
    blocks: Iterable[NDArray[Any]]

    def __post_init__(self) -> None:
        check_type("header", self.header, BatchHeader)
        if isinstance(self.blocks, str | bytes) or not isinstance(self.blocks, Iterable):
            # Not check_items, which would start an iteration that can happen only once.
            reject("blocks", f"be a list or an iterator of arrays of messages, not {kind_of(self.blocks)}")

    def __len__(self) -> int:
        return self.header.messages

    def __repr__(self) -> str:
        return _describe("Batch", self.header)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reports:
    """Randomized messages of one plan, in memory."""

    plan: Plan
    messages: NDArray[Any]
    """Packed records or strings, one per row, or a vector of the indices of bits or categories."""
    n: int
    """Contributors."""
    fakes: int = 0
    """Fakes among the messages, if the plan fixes their total number."""
    shuffled: bool = False

    def __post_init__(self) -> None:
        check_type("plan", self.plan, Plan)
        _check_declared(self.n, self.fakes, self.shuffled)
        kind, messages = message_type(self.plan), self.messages
        if not isinstance(messages, np.ndarray) or messages.ndim == 0:
            reject("messages", f"be an array of type {kind}, not {kind_of(messages)}")
        shape = (len(messages), self.plan.payload)[: 2 if self.plan.protocol.sends_rows else 1]
        must = f"be a C-contiguous array of type {kind} and shape {shape}"
        if messages.dtype != kind or messages.shape != shape or not messages.flags.c_contiguous:
            reject("messages", f"{must}, not of type {messages.dtype} and shape {messages.shape}")
        if not _all_legal(messages, self.plan):
            reject("messages", f"each {_legality(self.plan)}")

    @property
    def header(self) -> BatchHeader:
        """The header of these reports as a batch."""
        return BatchHeader.of(self.plan, messages=len(self), n=self.n, fakes=self.fakes, shuffled=self.shuffled)

    @property
    def blocks(self) -> Iterable[NDArray[Any]]:
        """All messages as a single block, as in :attr:`Batch.blocks`."""
        return (self.messages,)

    def __add__(self, other: "Reports") -> Self:
        """Return the messages of both, which must be of one plan and not shuffled."""
        if not isinstance(other, Reports):
            return NotImplemented
        check_plan(self.plan.id, other.plan.id, "added reports")
        if self.shuffled or other.shuffled:
            reject("reports", "be added before they are shuffled; add the tallies of shuffled reports instead")
        check_memory("the messages of both", self.messages.nbytes + other.messages.nbytes)
        messages = np.concatenate([self.messages, other.messages])
        return replace(self, messages=messages, n=self.n + other.n, fakes=self.fakes + other.fakes)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return _describe("Reports", self.header)


Source = Reports | Batch | Iterable[Reports | Batch]
"""Messages as the streaming functions accept them; each part declares its own contributors and fakes."""


def parts(source: Source) -> Iterator[Reports | Batch]:
    """Yield the parts of a source, checking their type."""
    if isinstance(source, Reports | Batch):
        yield source
        return
    must = "be Reports, a Batch or several of them"
    for part in check_items("reports", source, must):
        if not isinstance(part, Reports | Batch):
            reject("reports", f"{must}, not {kind_of(part)}")
        yield part


class Joined:
    """The parts of a source as one batch, whose header is complete after the last block."""

    def __init__(self, source: Source, plan: Plan) -> None:
        self._source, self._plan = source, plan
        self.header = BatchHeader.of(plan, messages=0, n=0)

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the messages of all parts."""
        whole = isinstance(self._source, Reports | Batch)
        for part in parts(self._source):
            header = part.header
            check_plan(self._plan.id, header.plan)
            if header.shuffled and not whole:
                # Two shuffled batches, one after the other, are not a shuffled batch of all people.
                reject("the parts of a batch", "not be shuffled yet")
            messages = 0
            for block in part.blocks:
                messages += len(block)
                yield block
            if messages != header.messages:
                reject("the batch", f"have the {header.messages:,} messages of its header", messages)
            self.header = replace(
                self.header,
                messages=self.header.messages + messages,
                n=self.header.n + header.n,
                fakes=self.header.fakes + header.fakes,
                shuffled=header.shuffled,
                certified=header.certified,
                slots=header.slots,
            )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tally:
    """The number of messages with each bit set: all that the analyzer needs. Tallies of one plan can be added.

    Those of strings are not: how many people hold a string that a batch does not show is not known.
    """

    plan: str
    """The id of the plan."""
    n: int
    fakes: int
    messages: int
    batches: int
    """Number of shuffled batches, each of which contains the fakes of the shuffler once."""
    smallest_batch: int
    """Contributors of the smallest shuffled batch, as far as they are certified; 0 if none is shuffled."""
    counts: NDArray[np.int64]
    slots: int = 0
    """Fewest messages at which a service cut off those of one contributor; 0 if none did."""
    unshuffled: int = 0
    """Contributors whose messages nobody shuffled; all of them if there is no shuffled batch."""
    fewest_fakes: int | None = None
    """Fakes of the shuffled batch with the fewest that count; by default those of a single batch, and none of several.
    """
    strings: tuple[bytes, ...] | None = None
    """The bodies of the strings whose people ``counts`` has, less what the shuffler subtracted; None for labels."""

    def __post_init__(self) -> None:
        _check_id(self.plan)
        for name in ("n", "fakes", "messages", "batches", "smallest_batch", "slots"):
            check_whole(name, getattr(self, name), 0, MAX_MESSAGES)
        if check_whole("unshuffled", self.unshuffled, 0, self.n) != self.n and not self.batches:
            object.__setattr__(self, "unshuffled", self.n)
        if self.fewest_fakes is None:
            object.__setattr__(self, "fewest_fakes", self.fakes if self.batches <= 1 else 0)
        check_whole("fewest_fakes", self.fewest_fakes, 0, MAX_MESSAGES)
        if self.batches and not self.smallest_batch:
            reject("smallest_batch", "be at least 1 for shuffled batches", 0)
        check_vector("counts", self.counts, np.int64)
        if self.strings is not None:
            if not isinstance(self.strings, tuple) or not all(isinstance(one, bytes) for one in self.strings):
                reject("strings", "be a tuple of the bodies of strings")
            if len(self.strings) != self.counts.size:
                reject("strings and counts", "have the same length")

    def __add__(self, other: object) -> Self:
        """Return the tally of both; 0 is accepted, so that ``sum`` works."""
        if isinstance(other, int) and other == 0:
            return self
        if not isinstance(other, Tally):
            return NotImplemented
        check_plan(self.plan, other.plan, "added tallies")
        if other is self:
            reject("added tallies", "be of different people, but they are one tally")
        if self.strings is not None:
            reject("added tallies", "be of labels: a string that one of them does not show has no count there")
        batches = [one for one in (self, other) if one.batches]
        counts = self.counts + other.counts
        counts.setflags(write=False)
        return replace(
            self,
            n=self.n + other.n,
            fakes=self.fakes + other.fakes,
            messages=self.messages + other.messages,
            batches=self.batches + other.batches,
            smallest_batch=min((one.smallest_batch for one in batches), default=0),
            counts=counts,
            slots=min(self.slots or other.slots, other.slots or self.slots),
            unshuffled=self.unshuffled + other.unshuffled,
            fewest_fakes=min((one.fewest_fakes or 0 for one in batches), default=None),
        )

    __radd__ = __add__


def check_plan(expected: str, found: str, what: str = "the reports and the plan") -> None:
    """Raise unless both ids are of one plan; ``what`` names the found one first.

    >>> check_plan("ab" * 32, "cd" * 32, "tally and plan")
    Traceback (most recent call last):
    hubbub.errors.PlanMismatch: tally and plan must belong to the same plan, got cdcdcdcd… and abababab…
    """
    if expected != found:
        raise PlanMismatch(f"{what} must belong to the same plan, got {found[:8]}… and {expected[:8]}…")


def _check_id(plan: str) -> None:
    if not isinstance(plan, str) or not re.fullmatch("[0-9a-f]{64}", plan):
        reject("plan", "be the id of a plan, 64 hexadecimal digits")


def _check_declared(n: int, fakes: int, shuffled: bool) -> None:
    check_type("shuffled", shuffled, bool)
    check_whole("n", n, int(shuffled), MAX_DECLARED)
    check_whole("fakes", fakes, 0, MAX_DECLARED)


def _describe(name: str, header: BatchHeader) -> str:
    state = "shuffled" if header.shuffled else "not shuffled"
    return f"{name}({header.messages:,} messages of {header.n:,} people, {state}, plan {header.plan[:8]}…)"
