"""What one device does: the messages for a single record, in plain Python, with the law of ``hubbub.client``.

Needs the standard library only, numpy not even to be imported; reads plans by :meth:`hubbub.plans.Plan.from_json`
and hands payloads to :mod:`hubbub.wire.messages`.
"""

import math
import os
from collections.abc import Callable, Iterable
from fractions import Fraction

from hubbub.bits import device
from hubbub.bits.exact import poisson
from hubbub.errors import check_whole, reject
from hubbub.plans import Plan
from hubbub.protocol import GRID, Fakes
from hubbub.schema import Schema

Source = Callable[[int], bytes]


def encode(value: object, schema: Schema) -> int:
    """A legal record as a number, bit i of label i: from a label for one-hot schemas, otherwise from a list of them.

    For a single bit a truth value will do.

    >>> encode("blue", Schema.one_hot(["red", "green", "blue"])), encode(["b", "a"], Schema.bits(["a", "b", "c"]))
    (4, 3)
    """
    if schema.width == 1 and isinstance(value, bool):
        return int(value)
    if schema.exclusive:
        value = [value]
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        reject("the value", "be a list of labels of the schema", "something else")
    record = 0
    for label in value:
        if label not in schema.labels:
            reject("the value", "consist of labels of the schema", "something else")
        bit = 1 << schema.labels.index(label)
        if record & bit:
            reject("the value", "name each label at most once", "one twice")
        record |= bit
    if record.bit_count() > schema.max_set:
        reject("the value", f"have at most {schema.max_set} bits set", "more")
    return record


def payloads(value: object, plan: Plan, *, fakes: int | None = None, entropy: Source = os.urandom) -> list[bytes]:
    """The payloads of all messages of one user, in random order, each of ``plan.payload`` bytes.

    Of a plan's fixed total of m fakes a device adds m/n, or as many as ``fakes`` says where n does not divide m.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> own = plan_from(Schema.one_hot(["red", "green", "blue"]), 1000, Protocol(0.1), delta=1e-6)
    >>> [len(payload) for payload in payloads("red", own)]
    [1]
    """
    if not isinstance(plan, Plan):
        reject("plan", "be a Plan", type(plan).__name__)
    return record_payloads(encode(value, plan.schema), plan, fakes=fakes, entropy=entropy)


def record_payloads(record: int, plan: Plan, *, fakes: int | None = None, entropy: Source = os.urandom) -> list[bytes]:
    """The same for a legal record that is encoded already."""
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
    # In random order: the place of a message must not tell the record from the fakes, nor one copy from another.
    for last in range(len(flipped) - 1, 0, -1):
        other = device.uniform(last + 1, entropy=entropy)
        flipped[last], flipped[other] = flipped[other], flipped[last]
    return [one.to_bytes(plan.payload, "little") for one in flipped]


def _number_of_fakes(plan: Plan, asked: int | None, entropy: Source) -> int:
    m = plan.protocol.m
    if isinstance(m, Fakes):
        if asked is not None:
            reject("fakes", "be given only where the plan has a number of them in total", asked)
        if m.by == "shuffler":
            return 0
        if m.distribution == "poisson":
            return poisson(m.scale, entropy=entropy)
        chance = math.ceil(Fraction(m.scale) * GRID)
        return m.shift if chance >= GRID else device.coins(m.shift, chance, entropy=entropy).bit_count()
    if asked is None and m % plan.n:
        reject("fakes", "be given where n does not divide their total", asked)
    return m // plan.n if asked is None else check_whole("fakes", asked, 0, m)


def _fake(schema: Schema, entropy: Source) -> int:
    """A uniform legal record: the number of its set bits first, then which, by Floyd's sampling (1987)."""
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
