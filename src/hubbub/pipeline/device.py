"""The client for a single record, in plain Python, with the distribution of ``hubbub.pipeline.randomize``.

Uses the standard library only. Plans are read by :meth:`hubbub.model.plans.Plan.from_json`, and payloads are encoded by
:mod:`hubbub.wire.messages`.
"""

import functools
import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction

from hubbub.bits import device
from hubbub.bits.exact import poisson
from hubbub.errors import check_type, reject
from hubbub.model.plans import Plan, check_share
from hubbub.model.protocol import GRID, Fakes
from hubbub.model.questions import Column
from hubbub.model.releases import PEOPLE
from hubbub.model.schema import Schema

Source = Callable[[int], bytes]
_STEPS = 1 << 48
"""Largest product of the ranges of steps of a permutation that share a random number."""


def encode(value: object, schema: Schema, *, entropy: Source = os.urandom) -> int:
    """Return a record as a number whose bit i is label i, from one label for one-hot schemas, otherwise from a list.

    Schemas of a single bit also accept a boolean. A survey takes a mapping from the names of its questions to answers;
    numbers are rounded at random, which is what ``entropy`` is for. A string that nobody listed is no record of bits.

    >>> encode("blue", Schema.one_hot(["red", "green", "blue"])), encode(["b", "a"], Schema.bits(["a", "b", "c"]))
    (4, 3)
    """
    bits = schema.questions.encode(value, lambda numerator: device.coin(numerator, entropy=entropy))
    if schema.named:
        return sum(1 << one.start + answer for one, answer in zip(schema.columns, bits, strict=True))
    return sum(1 << bit for bit in bits)


def payloads(value: object, plan: Plan, *, fakes: int | None = None, entropy: Source = os.urandom) -> list[bytes]:
    """Return the payloads of all messages of one user, in random order, each of ``plan.payload`` bytes.

    If the plan fixes the total number m of fakes, a device adds m/n, or ``fakes``; n must divide m unless it is given.
    A plan for ``honest_fraction`` < 1 needs at least ⌊m/n⌋ of every device. For strings that nobody listed, it is one
    payload, of a string or of None, which the shuffler sees: :mod:`hubbub.wire.strings` seals it.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> plan = plan_from(Schema.one_hot(["red", "green", "blue"]), 1000, Protocol(0.1), delta=1e-6)
    >>> [len(payload) for payload in payloads("red", plan)]
    [1]
    """
    check_type("plan", plan, Plan)
    if plan.schema.text is not None:
        _check_no_fakes(plan, fakes)
        return [(1).to_bytes(PEOPLE, "little") + plan.schema.text.encode(value)]
    if plan.schema.named:
        _check_no_fakes(plan, fakes)
        return _answers(_categories(value, plan.schema, entropy), plan, entropy)
    return record_payloads(encode(value, plan.schema, entropy=entropy), plan, fakes=fakes, entropy=entropy)


def record_payloads(record: int, plan: Plan, *, fakes: int | None = None, entropy: Source = os.urandom) -> list[bytes]:
    """Return the payloads for a record that :func:`encode` returned."""
    schema, protocol = plan.schema, plan.protocol
    width = schema.width
    if schema.text is not None:
        reject("the schema of the plan", "have labels; use hubbub.pipeline.device.payloads for strings")
    if schema.named:
        _check_no_fakes(plan, fakes)
        return _answers([_place(record, one) for one in schema.attributes], plan, entropy)
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
    size = plan.payload
    return [one.to_bytes(size, "little") for one in messages]


def _categories(value: object, schema: Schema, entropy: Source) -> Sequence[int]:
    """Return the category of every attribute of a survey; numbers are rounded by exact coins."""
    return schema.questions.encode(value, lambda numerator: device.coin(numerator, entropy=entropy))


def _place(record: int, attribute: Column) -> int:
    """Return the only category of an attribute that is set in a record."""
    bits = record >> attribute.start & (1 << attribute.size) - 1
    if bits.bit_count() != 1:
        reject("the record", "have exactly one category of every attribute")
    return bits.bit_length() - 1


def _check_no_fakes(plan: Plan, fakes: int | None) -> None:
    if fakes is not None:
        check_share(plan, 1, fakes)


def _answers(answers: Sequence[int], plan: Plan, entropy: Source) -> list[bytes]:
    """Return the payloads of a survey: for each attribute its category, its flipped bits, or it among fakes."""
    sent: list[int] = []
    category = plan.protocol.sends_category
    for attribute, noise, true in zip(plan.schema.attributes, plan.protocol.noise, answers, strict=True):
        start, size = attribute.start, attribute.size
        if category:
            sent.append(start + _response(true, size, noise.flip_numerator, entropy))
        elif noise.q == 0:
            sent.append(start + true)
            if noise.user_fakes is not None and (count := _drawn(noise.user_fakes, entropy)):
                sent += [start + device.uniform(size, entropy=entropy) for _ in range(count)]
        else:
            flipped = 1 << true ^ device.coins(size, noise.flip_numerator, entropy=entropy)
            while flipped:
                lowest = flipped & -flipped
                sent.append(start + lowest.bit_length() - 1)
                flipped ^= lowest
    _permute(sent, entropy)
    size = plan.payload
    return [one.to_bytes(size, "little") for one in sent]


def _permute(messages: list[int], entropy: Source) -> None:
    """Put messages into uniform random order, several steps of Fisher and Yates for each random number."""
    last = len(messages) - 1
    while last > 0:
        first, product = last, 1
        while last > 0 and product <= _STEPS // (last + 1):
            product *= last + 1
            last -= 1
        value = device.uniform(product, entropy=entropy)
        for place in range(first, last, -1):
            value, other = divmod(value, place + 1)
            messages[place], messages[other] = messages[other], messages[place]


def _response(true: int, size: int, flip_numerator: int, entropy: Source) -> int:
    """Return the category that randomized response reports among ``size`` ones."""
    if not device.coin((size - 1) * flip_numerator, entropy=entropy):
        return true
    other = device.uniform(size - 1, entropy=entropy)
    return other + (other >= true)


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
    chance = _chance(drawn)
    return drawn.shift if chance >= GRID else device.coins(drawn.shift, chance, entropy=entropy).bit_count()


@functools.lru_cache(maxsize=1024)
def _chance(drawn: Fakes) -> int:
    """Return the probability of a binomial distribution in units of 1/GRID, rounded up: more fakes, never fewer."""
    return math.ceil(Fraction(drawn.scale) * GRID)


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
