"""Batches whose messages carry the position of their arrival, for testing shufflers.

Each message has a number of its own if the plan has enough different messages; otherwise one tag marks a block of
neighbouring arrivals.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.counting import bit_counts, histogram
from hubbub.bits.records import one_hot
from hubbub.planner import plan_from
from hubbub.plans import Plan
from hubbub.protocol import Protocol
from hubbub.reports import Reports, message_type
from hubbub.schema import Schema

BLOCKS = 8
"""Number of blocks of arrivals and of departures."""
Numbers = NDArray[np.int64]


def numbered_plan(n: int = 4000) -> Plan:
    """Return a plan whose messages can carry the number of their arrival, for shufflers that accept any plan.

    >>> numbered_plan(100).schema.width
    16
    """
    return plan_from(Schema.bits(16), n, Protocol(0.25), delta=1e-6, shuffler=False)


def batch_size(plan: Plan) -> int:
    """Return the number of messages that reach the shuffler in a batch of whole records or categories."""
    return plan.protocol.k * plan.n + plan.protocol.fixed_fakes


def distinct(plan: Plan) -> int:
    """Return the number of different messages, at most 2^40.

    >>> distinct(numbered_plan())
    65536
    """
    width = plan.schema.width
    return 1 << min(width, 40) if plan.protocol.sends_records and not plan.protocol.clear else width


def arrivals(plan: Plan) -> tuple[Reports, Numbers]:
    """Return a batch of the planned size with tags that rise with the position of arrival."""
    count = batch_size(plan)
    tags = np.arange(count) if distinct(plan) >= count else np.arange(count) * min(distinct(plan), BLOCKS) // count
    return Reports(plan, _messages(tags, plan), plan.n, plan.protocol.fixed_fakes), tags


def _messages(tags: Numbers, plan: Plan) -> NDArray[Any]:
    """Encode tags as numbers, or as records with one bit if records are clear, which every schema allows."""
    if not plan.protocol.sends_records:
        return tags.astype(message_type(plan))
    if plan.protocol.clear:
        return one_hot(tags, plan.schema.width)
    rows = np.zeros((tags.size, max(plan.payload, 8)), np.uint8)
    rows[:, :8] = tags.astype("<u8")[:, None].view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(rows[:, : plan.payload])


def read_tags(messages: NDArray[Any], plan: Plan) -> Numbers:
    """Decode the tags; a message without a tag, such as a fake, gets a number that is no tag."""
    if not plan.protocol.sends_records:
        return messages.astype(np.int64)
    if plan.protocol.clear:
        bits = np.unpackbits(messages, axis=1, bitorder="little", count=plan.schema.width)
        return np.where(bits.sum(axis=1) == 1, bits.argmax(axis=1), plan.schema.width)
    rows = np.zeros((len(messages), 8), np.uint8)
    size = min(7, messages.shape[1])
    rows[:, :size] = messages[:, :size]
    beyond = messages[:, size:].any(axis=1)
    return np.where(beyond, 1 << 41, np.minimum(rows.view("<i8")[:, 0], 1 << 41))


def category_counts(messages: NDArray[Any], plan: Plan) -> Numbers:
    """Return the messages of each category that the shuffler draws fakes for, or their total if flips hide them."""
    protocol, schema = plan.protocol, plan.schema
    if protocol.sends_bits:
        return np.bincount(messages, minlength=schema.width)
    if protocol.clear and schema.exclusive:
        return bit_counts(messages, schema.width)
    if not protocol.clear or schema.width > 12:
        return np.array([len(messages)])
    counts = histogram(messages, schema.width)
    return counts[np.bitwise_count(np.arange(counts.size)) <= schema.max_set]
