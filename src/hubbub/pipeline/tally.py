"""``tally`` counts the messages of a batch; ``check_tally`` refuses what the people of a plan cannot have sent."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.counting import bit_counts, index_counts
from hubbub.errors import WireError, check_type, kind_of, reject
from hubbub.model.plans import Plan
from hubbub.model.questions.text import NOTHING
from hubbub.model.releases import PAYLOAD_FORMATS
from hubbub.pipeline.reports import Batch, BatchHeader, Reports, Tally, check_plan
from hubbub.pipeline.rows import bodies, people


def tally(reports: Reports | Batch) -> Tally:
    """Count how often each bit, or category, is set. The tallies of several batches of a plan can be added.

    Of strings, return those that a shuffled batch shows; raise :class:`WireError` on rows that no shuffler sends.

    >>> from hubbub.pipeline.records import Collection
    >>> from hubbub.pipeline.randomize import randomize
    >>> from hubbub.model.schema import Schema
    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> plan = plan_from(Schema.one_hot(["red", "blue"]), 2, Protocol(2**-40), delta=1e-6)
    >>> tally(randomize(Collection.from_values(["red", "red"], plan.schema), plan)).counts.tolist()
    [2, 0]
    """
    if not isinstance(reports, Reports | Batch):
        reject("reports", f"be Reports or a Batch, not {kind_of(reports)}")
    if reports.header.release == "strings":
        return _shown_strings(reports)
    return visit_blocks(reports, lambda _: None)


def visit_blocks(reports: Reports | Batch, visit: Callable[[NDArray[Any]], None]) -> Tally:
    """Count the messages; call ``visit`` with every block, as some batches can be read only once."""
    header = reports.header
    counts, messages = np.zeros(header.width, np.int64), 0
    for block in reports.blocks:
        if PAYLOAD_FORMATS[header.release].is_index:
            counts += index_counts(block, header.width)
        else:
            counts += bit_counts(block, header.width)
        messages += len(block)
        visit(block)
    if messages != header.messages:
        reject("the batch", f"have the {header.messages:,} messages of its header", messages)
    return counted_batch(header, messages, counts)


def _shown_strings(reports: Reports | Batch) -> Tally:
    """Return the strings of a shuffled batch, with the numbers of people that the shuffler passed on."""
    header = reports.header
    if not header.shuffled:
        reject("the reports", "be shuffled, because the shuffler hides rare strings")
    found: dict[bytes, int] = {}
    for block in reports.blocks:
        for body, number in zip(bodies(block), people(block).tolist(), strict=True):
            if body in found or body[0] == NOTHING:
                raise WireError("a shuffled batch must show every string at most once, and no empty answer")
            found[body] = number
    return counted_strings(header.plan, header.n, found)


def counted_strings(plan: str, n: int, found: dict[bytes, int]) -> Tally:
    """Return the tally of a shuffled batch of n people that shows these strings, with their numbers of people."""
    counts = np.array(list(found.values()), np.int64)
    counts.setflags(write=False)
    return Tally(
        plan=plan,
        n=n,
        fakes=0,
        messages=len(found),
        batches=1,
        smallest_batch=n,
        counts=counts,
        strings=tuple(found),
    )


def counted_batch(header: BatchHeader, messages: int, counts: NDArray[np.int64]) -> Tally:
    """Return the tally of one batch, shuffled or not, with the counts of its messages."""
    counts.setflags(write=False)
    return Tally(
        plan=header.plan,
        n=header.n,
        fakes=header.fakes,
        messages=messages,
        batches=int(header.shuffled),
        smallest_batch=(header.certified or header.n) if header.shuffled else 0,
        counts=counts,
        slots=header.slots,
        fewest_fakes=header.fakes // header.n * header.certified if header.certified else header.fakes,
    )


def check_tally(tally: Tally, plan: Plan) -> int | None:
    """Return the number of fakes that users drew, if messages reveal it; raise on a tally that the plan cannot give."""
    check_type("tally", tally, Tally)
    check_type("plan", plan, Plan)
    check_plan(plan.id, tally.plan, "tally and plan")
    if (tally.strings is None) == plan.protocol.sends_strings:
        reject("the tally", "count what the plan releases: labels, or strings")
    protocol = plan.protocol
    own = protocol.own_messages * tally.n
    if protocol.has_shuffler_fakes:
        if tally.unshuffled:
            reject("the reports", "be shuffled, because the shuffler adds the fakes of this plan")
        return None
    if protocol.sends_bits:
        revealed = protocol.clear and plan.schema.exclusive and protocol.user_fakes is not None
        return max(0, tally.messages - own) if revealed else None
    if not protocol.sends_category and protocol.user_fakes:
        if tally.messages < own:
            reject("the tally", f"have at least {own:,} messages of {tally.n:,} people", tally.messages)
        return tally.messages - own
    if tally.messages != own + tally.fakes:
        expected = f"{own + tally.fakes:,} messages of {tally.n:,} people and {tally.fakes:,} fakes"
        reject("the tally", f"have {expected}", tally.messages)
    return None
