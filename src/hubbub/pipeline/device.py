"""The client for a single record, in plain Python, with the distribution of ``hubbub.pipeline.randomize``.

Uses the standard library only. Plans are read by :meth:`hubbub.model.plans.Plan.from_json`, and payloads are encoded by
:mod:`hubbub.wire.messages`.
"""

import os
from collections.abc import Iterable

from hubbub.bits import device
from hubbub.errors import check_type, reject
from hubbub.mechanisms.flip import Source
from hubbub.mechanisms.mechanism import label_mechanisms
from hubbub.model.plans import Plan, check_share
from hubbub.model.releases import PEOPLE
from hubbub.model.schema import Schema

_STEPS = 1 << 48
"""Largest product of the ranges of steps of a permutation that share a random number."""


def encode(value: object, schema: Schema, *, entropy: Source = os.urandom) -> int:
    """Return a record as a number whose bit i is label i, from one label for one-hot schemas, otherwise from a list.

    Schemas of a single bit also accept a boolean. A survey takes a mapping from the names of its questions to answers;
    numbers are rounded at random, which is what ``entropy`` is for. A string that nobody listed is no record of bits.

    >>> encode("blue", Schema.one_hot(["red", "green", "blue"])), encode(["b", "a"], Schema.bits(["a", "b", "c"]))
    (4, 3)
    """
    parts = zip(schema.columns, _parts(value, schema, entropy), strict=True)
    return sum(part << column.start for column, part in parts)


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
    share = _share(plan, fakes)
    if plan.schema.text is not None:
        return [(1).to_bytes(PEOPLE, "little") + plan.schema.text.encode(value)]
    return _sent(_parts(value, plan.schema, entropy), plan, share, entropy)


def record_payloads(record: int, plan: Plan, *, fakes: int | None = None, entropy: Source = os.urandom) -> list[bytes]:
    """Return the payloads for a record that :func:`encode` returned."""
    if plan.schema.text is not None:
        reject("the schema of the plan", "have labels; use hubbub.pipeline.device.payloads for strings")
    share = _share(plan, fakes)
    parts = [record >> one.start & (1 << one.size) - 1 for one in plan.schema.columns]
    for column, part in zip(plan.schema.columns, parts, strict=True):
        if column.rule == "one" and part.bit_count() != 1:
            reject("the record", "have exactly one category of every attribute")
    return _sent(parts, plan, share, entropy)


def _parts(value: object, schema: Schema, entropy: Source) -> list[int]:
    """Return the bits of every column; numbers are rounded by exact coins."""
    found = schema.questions.encode(value, lambda numerator: device.coin(numerator, entropy=entropy))
    return [1 << answer for answer in found] if schema.named else [sum(1 << bit for bit in found)]


def _share(plan: Plan, requested: int | None) -> int:
    """Return how many of a fixed number of fakes one user adds."""
    if requested is not None:
        return check_share(plan, 1, requested)
    fixed = plan.protocol.fixed_fakes
    if fixed % plan.n:
        reject("fakes", f"be given if n = {plan.n:,} does not divide their total {fixed:,}")
    return fixed // plan.n


def _sent(parts: Iterable[int], plan: Plan, share: int, entropy: Source) -> list[bytes]:
    """Return the payloads in random order: it must not tell the answers from the fakes, nor one copy from another."""
    sent: list[int] = []
    for one, part in zip(label_mechanisms(plan.protocol, plan.schema), parts, strict=True):
        sent += one.sample_one(part, share, entropy)
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
