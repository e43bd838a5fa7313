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
from hubbub.protocol import GRID, Fakes
from hubbub.schema import Schema

Source = Callable[[int], bytes]


def encode(value: object, schema: Schema, *, entropy: Source = os.urandom) -> int:
    """Return a record as a number whose bit i is label i, from one label for one-hot schemas, otherwise from a list.

    Schemas of a single bit also accept a boolean. A survey takes a mapping from the names of its questions to answers;
    numbers are rounded at random, which is what ``entropy`` is for.

    >>> encode("blue", Schema.one_hot(["red", "green", "blue"])), encode(["b", "a"], Schema.bits(["a", "b", "c"]))
    (4, 3)
    """
    if schema.questions is not None:
        answers = schema.questions.encode(value, lambda numerator: device.coins(1, numerator, entropy=entropy) == 1)
        return sum(1 << one.start + answer for one, answer in zip(schema.attributes, answers, strict=True))
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
    return record_payloads(encode(value, plan.schema, entropy=entropy), plan, fakes=fakes, entropy=entropy)


def record_payloads(record: int, plan: Plan, *, fakes: int | None = None, entropy: Source = os.urandom) -> list[bytes]:
    """Return the payloads for a record that :func:`encode` returned."""
    schema, protocol = plan.schema, plan.protocol
    width = schema.width
    if schema.questions is not None:
        if fakes is not None:
            check_share(plan, 1, fakes)
        return _mixed(_answers(record, plan, entropy), plan, entropy)
    flip_numerator = protocol.flip_numerator
    count = _number_of_fakes(plan, fakes, entropy)
    if protocol.sends_category:
        return [_category(record.bit_length() - 1, width, flip_numerator, entropy).to_bytes(plan.payload, "little")]
    sent = [record] * protocol.k + [_fake(schema, entropy) for _ in range(count)]
    flipped = [one ^ device.coins(width, flip_numerator, entropy=entropy) for one in sent]
    if protocol.sends_bits:
        flipped = [i for one in flipped for i in range(width) if one >> i & 1]
    return _mixed(flipped, plan, entropy)


def _mixed(messages: list[int], plan: Plan, entropy: Source) -> list[bytes]:
    """Return the payloads in random order: it must not tell the record from the fakes, nor one copy from another."""
    for last in range(len(messages) - 1, 0, -1):
        other = device.uniform(last + 1, entropy=entropy)
        messages[last], messages[other] = messages[other], messages[last]
    return [one.to_bytes(plan.payload, "little") for one in messages]


def _answers(record: int, plan: Plan, entropy: Source) -> list[int]:
    """Return the messages of a survey: for each attribute its category, its flipped bits, or it among fakes."""
    sent = []
    category = plan.protocol.sends_category
    for attribute, noise in zip(plan.schema.attributes, plan.protocol.noise, strict=True):
        start, size = attribute.start, attribute.size
        bits = record >> start & (1 << size) - 1
        true = bits.bit_length() - 1
        if category:
            sent.append(start + _category(true, size, noise.flip_numerator, entropy))
        elif noise.clear:
            sent.append(start + true)
            if noise.user_fakes:
                count = _drawn(noise.user_fakes, entropy)
                sent += [start + device.uniform(size, entropy=entropy) for _ in range(count)]
        else:
            flipped = bits ^ device.coins(size, noise.flip_numerator, entropy=entropy)
            sent += [start + i for i in range(size) if flipped >> i & 1]
    return sent


def _number_of_fakes(plan: Plan, requested: int | None, entropy: Source) -> int:
    protocol = plan.protocol
    drawn = protocol.user_fakes
    if requested is not None:
        return check_share(plan, 1, requested)
    if drawn is None:
        if protocol.fixed_fakes % plan.n:
            reject("fakes", f"be given if n = {plan.n:,} does not divide their total {protocol.fixed_fakes:,}")
        return protocol.fixed_fakes // plan.n
    return _drawn(drawn, entropy)


def _drawn(drawn: Fakes, entropy: Source) -> int:
    """Draw the number of fakes of one user."""
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
