"""The client for a single record, in plain Python, with the distribution of ``hubbub.client``.

Uses the standard library only. Plans are read by :meth:`hubbub.plans.Plan.from_json`, and payloads are encoded by
:mod:`hubbub.wire.messages`.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from hubbub.bits import device
from hubbub.bits.exact import poisson
from hubbub.errors import check_type, reject
from hubbub.plans import Plan, check_share
from hubbub.protocol import GRID
from hubbub.schema import Schema

Source = Callable[[int], bytes]


def encode(value: object, schema: Schema) -> int:
    """Return a record as a number whose bit i is label i, from one label for one-hot schemas, otherwise from a list.

    Schemas of a single bit also accept a boolean.

    >>> encode("blue", Schema.one_hot(["red", "green", "blue"])), encode(["b", "a"], Schema.bits(["a", "b", "c"]))
    (4, 3)
    """
    if schema.width == 1 and isinstance(value, bool):
        return int(value)
    if schema.exclusive:
        value = [value]
    # The keys of a mapping would be taken for labels that are set.
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        reject("the value", f"be a list of labels, not of type {type(value).__name__}")
    record = 0
    for label in value:
        if label not in schema.labels:
            reject("the value", f"contain only labels of the schema ({schema.label_summary})")
        bit = 1 << schema.labels.index(label)
        if record & bit:
            reject("the value", "contain each label at most once")
        record |= bit
    if record.bit_count() > schema.max_set:
        reject("the value", f"contain no more labels than max_set = {schema.max_set:,} allows")
    return record


def payloads(value: object, plan: Plan, *, fakes: int | None = None, entropy: Source = os.urandom) -> list[bytes]:
    """Return the payloads of all messages of one user, in random order, each of ``plan.payload`` bytes.

    If the plan fixes the total number m of fakes, a device adds m/n, or ``fakes``; n must divide m unless it is given.
    A plan for ``honest_fraction`` < 1 needs at least ⌊m/n⌋ of every device.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> plan = plan_from(Schema.one_hot(["red", "green", "blue"]), 1000, Protocol(0.1), delta=1e-6)
    >>> [len(payload) for payload in payloads("red", plan)]
    [1]
    """
    check_type("plan", plan, Plan)
    return record_payloads(encode(value, plan.schema), plan, fakes=fakes, entropy=entropy)


def record_payloads(record: int, plan: Plan, *, fakes: int | None = None, entropy: Source = os.urandom) -> list[bytes]:
    """Return the payloads for a record that :func:`encode` returned."""
    schema, protocol = plan.schema, plan.protocol
    width = schema.width
    flip_numerator = protocol.flip_numerator
    count = _number_of_fakes(plan, fakes, entropy)
    if protocol.sends_category:
        return [_category(record.bit_length() - 1, width, flip_numerator, entropy).to_bytes(plan.payload, "little")]
    sent = [record] * protocol.k + [_fake(schema, entropy) for _ in range(count)]
    flipped = [one ^ device.coins(width, flip_numerator, entropy=entropy) for one in sent]
    if protocol.sends_bits:
        flipped = [i for one in flipped for i in range(width) if one >> i & 1]
    # The position of a message must not distinguish the record from the fakes, nor one copy from another.
    for last in range(len(flipped) - 1, 0, -1):
        other = device.uniform(last + 1, entropy=entropy)
        flipped[last], flipped[other] = flipped[other], flipped[last]
    return [one.to_bytes(plan.payload, "little") for one in flipped]


def _number_of_fakes(plan: Plan, requested: int | None, entropy: Source) -> int:
    protocol = plan.protocol
    drawn = protocol.user_fakes
    if requested is not None:
        return check_share(plan, 1, requested)
    if drawn is None:
        if protocol.fixed_fakes % plan.n:
            reject("fakes", f"be given if n = {plan.n:,} does not divide their total {protocol.fixed_fakes:,}")
        return protocol.fixed_fakes // plan.n
    if drawn.distribution == "poisson":
        return poisson(drawn.scale, entropy=entropy)
    chance = math.ceil(Fraction(drawn.scale) * GRID)
    return drawn.shift if chance >= GRID else device.coins(drawn.shift, chance, entropy=entropy).bit_count()


def _fake(schema: Schema, entropy: Source) -> int:
    """Draw a uniform legal record: first the number of set bits, then which ones, by Floyd's algorithm (1987)."""
    width = schema.width
    if schema.dense:
        return device.uniform(1 << width, entropy=entropy)
    if schema.exclusive:
        return 1 << device.uniform(width, entropy=entropy)
    place, size = device.uniform(schema.size, entropy=entropy), 0
    while place >= (records := math.comb(width, size)):
        place -= records
        size += 1
    record = 0
    for last in range(width - size, width):
        bit = 1 << device.uniform(last + 1, entropy=entropy)
        record |= 1 << last if record & bit else bit
    return record


def _category(true: int, width: int, flip_numerator: int, entropy: Source) -> int:
    if not device.coins(1, (width - 1) * flip_numerator, entropy=entropy):
        return true
    other = device.uniform(width - 1, entropy=entropy)
    return other + (other >= true)
