"""What the mix does: a uniform order, its own fakes if the plan says so, and never a batch that is too small.

The number of people is what protects, and split bits do not show it: the shuffler counts whom it received from, and
that is the ``n`` of the reports. Where messages do show it, the two must agree.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hubbub.bits import permutation
from hubbub.bits.entropy import Entropy, system
from hubbub.bits.exact import Buffered, gaussian, laplace
from hubbub.bits.records import flip, one_hot
from hubbub.errors import BatchTooSmall, check_memory, reject
from hubbub.plans import Plan
from hubbub.protocol import Fakes
from hubbub.reports import Reports, check_plan, message_type
from hubbub.schema import Schema


def shuffle(reports: Reports, plan: Plan | None = None, *, entropy: Entropy = system, fast: bool = False) -> Reports:
    """The same messages, and the shuffler's fakes, in uniform random order.

    Raises :class:`BatchTooSmall` for fewer people, or fewer of the promised fakes, than the plan's guarantee needs.
    ``plan`` is the one that the caller expects, if not that of the reports; ``fast`` needs the extra of that name.
    Memory: the messages twice and 17 bytes a message.

    >>> from hubbub.records import Collection
    >>> from hubbub.client import randomize
    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> own = plan_from(Schema.one_hot(["red", "blue"]), 3, Protocol(0.1), delta=1e-6)
    >>> shuffle(randomize(Collection.from_values(["red", "blue"], own.schema), own))
    Traceback (most recent call last):
    hubbub.errors.BatchTooSmall: a batch must have at least 3 people, got 2
    """
    if not isinstance(reports, Reports):
        reject("reports", "be Reports", type(reports).__name__)
    if plan is not None:
        check_plan(plan.id, reports.plan.id)
    if reports.batch:
        # Shuffled again, a batch stays what it is; fakes are drawn once.
        return replace(reports, messages=permutation.shuffle(reports.messages, entropy=entropy, fast=fast))
    _check_batch(reports.plan, len(reports), reports.n, reports.fakes)
    own = draw_fakes(reports.plan, entropy=entropy)
    everything = np.concatenate([reports.messages, own]) if len(own) else reports.messages
    mixed = permutation.shuffle(everything, entropy=entropy, fast=fast)
    return replace(reports, messages=mixed, batch=reports.n)


def shuffle_blocks(
    blocks: Iterable[Reports],
    plan: Plan,
    scratch: Callable[[], BinaryIO],
    *,
    memory: int = 1 << 28,
    entropy: Entropy = system,
    fast: bool = False,
) -> Iterator[Reports]:
    """As :func:`shuffle` for a batch that comes in parts and may be larger than memory.

    The first block that is given out declares all people and fakes of the batch, the others none, so that their
    tallies add up. Nothing is given out before everything was read and the batch was found large enough. ``scratch``
    opens empty files, such as ``tempfile.TemporaryFile``; see :func:`hubbub.bits.permutation.shuffle_external`.
    """
    people = given = 0

    def messages() -> Iterator[NDArray[Any]]:
        nonlocal people, given
        count = 0
        for block in blocks:
            check_plan(plan.id, block.plan.id)
            if block.batch:
                reject("blocks", "not be shuffled yet", "shuffled ones")
            people, given, count = people + block.n, given + block.fakes, count + len(block)
            yield block.messages
        _check_batch(plan, count, people, given)
        yield draw_fakes(plan, entropy=entropy)

    mixed = permutation.shuffle_external(messages(), scratch, memory=memory, entropy=entropy, fast=fast)
    for place, block in enumerate(mixed):
        yield Reports(plan, block, 0 if place else people, 0 if place else given, people)


def _check_batch(plan: Plan, messages: int, n: int, fakes: int) -> None:
    if n < plan.n:
        raise BatchTooSmall(f"a batch must have at least {plan.n:,} people, got {n:,}")
    protocol = plan.protocol
    if isinstance(protocol.m, int) and fakes < protocol.m:
        raise BatchTooSmall(f"a batch must have at least {protocol.m:,} fakes, got {fakes:,}")
    if protocol.sends_bits:
        return
    seen = protocol.k * n + fakes
    if isinstance(protocol.m, Fakes) and protocol.m.by == "users":
        if messages < seen:
            raise BatchTooSmall(f"{n:,} people must send at least {seen:,} messages, got {messages:,}")
    elif messages != seen:
        raise BatchTooSmall(f"{n:,} people and {fakes:,} fakes must send {seen:,} messages, got {messages:,}")


def draw_fakes(plan: Plan, *, entropy: Entropy = system) -> NDArray[Any]:
    """The fakes that the plan has the shuffler draw, as messages; none for other plans.

    For every legal record, or bit where bits are released, a number by :func:`draw_number`. Fakes among whole records
    are flipped as people's are, so that what is released is a function of clear records among clear fakes.
    """
    protocol, schema, kind = plan.protocol, plan.schema, message_type(plan)
    records = protocol.sends_records
    if not isinstance(protocol.m, Fakes) or protocol.m.by == "users":
        return np.empty((0, plan.payload) if records else 0, kind)
    source = Buffered(entropy)
    count = schema.size if records else schema.width
    check_memory(f"the fakes of {count} kinds", count * (protocol.m.shift + 1) * plan.payload)
    numbers = np.array([draw_number(protocol.m, entropy=source) for _ in range(count)], np.int64)
    if not records:
        return np.repeat(np.arange(count), numbers).astype(kind)
    fakes = np.repeat(legal_records(schema), numbers, axis=0)
    return flip(fakes, schema.width, protocol.flip_numerator, entropy=entropy)


def draw_number(fakes: Fakes, *, entropy: Entropy = system) -> int:
    """One number of the shuffler's law, conditioned on being at least 0 by rejection; exact for the scale's float.

    >>> draw_number(Fakes.laplace(0.001, shift=25))
    25
    """
    scale = Fraction(fakes.scale)
    sample = laplace if fakes.distribution == "laplace" else gaussian
    while True:
        number = fakes.shift + sample(scale, entropy=entropy)
        if number >= 0:
            return number


def legal_records(schema: Schema) -> NDArray[np.uint8]:
    """All legal records, packed.

    >>> legal_records(Schema.at_most(1, 3)).tolist()
    [[0], [1], [2], [4]]
    """
    size = -(-schema.width // 8)
    check_memory(f"all records of {schema}", schema.size * (size + 64))
    if schema.exclusive:
        return one_hot(np.arange(schema.width), schema.width)
    sets = itertools.chain.from_iterable(
        itertools.combinations(range(schema.width), count) for count in range(schema.max_set + 1)
    )
    data = b"".join(sum(1 << i for i in chosen).to_bytes(size, "little") for chosen in sets)
    return np.frombuffer(data, np.uint8).reshape(-1, size)
