"""The shuffler: permute messages uniformly, add the shuffler's fakes, and reject batches that are too small.

Privacy rests on the number of contributors, which single bits do not reveal: the shuffler counts the senders, and
declares them as ``n``. Where the number of messages does reveal it, the two must agree.

Strings that nobody listed are counted instead of permuted: only (string, count − drawn number) leaves, where positive.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hubbub.bits import permutation
from hubbub.bits.entropy import Entropy, check_entropy, system
from hubbub.bits.exact import Buffered
from hubbub.bits.records import flip, one_hot
from hubbub.errors import BatchTooSmall, check_memory, check_type, check_whole, reject
from hubbub.mechanisms.draws import draw_number
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.pipeline.reports import Batch, BatchHeader, Reports, Source, check_plan, message_type, parts
from hubbub.pipeline.rows import MAX_COUNT
from hubbub.pipeline.threshold import count_people, released


def shuffle(reports: Reports, plan: Plan | None = None, *, entropy: Entropy = system, fast: bool = False) -> Reports:
    """Return the messages, with the shuffler's fakes if the plan has any, in uniform random order.

    Raises :class:`BatchTooSmall` for fewer people, or fewer fakes, than the plan's guarantee needs. ``plan``, if given,
    must be the plan of the reports. ``fast`` needs the extra of that name. Memory: the messages twice, and 17 bytes
    per message.

    >>> from hubbub.pipeline.records import Collection
    >>> from hubbub.pipeline.randomize import randomize
    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> plan = plan_from(Schema.one_hot(["red", "blue"]), 3, Protocol(0.1), delta=1e-6)
    >>> shuffle(randomize(Collection.from_values(["red", "blue"], plan.schema), plan))
    Traceback (most recent call last):
    hubbub.errors.BatchTooSmall: a batch must have at least 3 people, got 2
    """
    check_type("reports", reports, Reports)
    if plan is not None:
        check_plan(check_type("plan", plan, Plan).id, reports.plan.id, "reports and plan")
    check_entropy(entropy)
    check_type("fast", fast, bool)
    if reports.plan.protocol.sends_strings:
        return reports if reports.shuffled else _counted_strings(reports, entropy)
    if reports.shuffled:
        # The shuffler's fakes are drawn once per batch.
        return replace(reports, messages=permutation.shuffle(reports.messages, entropy=entropy, fast=fast))
    check_batch(reports.plan, reports.header)
    fakes = draw_fakes(reports.plan, entropy=entropy)
    messages = np.concatenate([reports.messages, fakes]) if len(fakes) else reports.messages
    return replace(reports, messages=permutation.shuffle(messages, entropy=entropy, fast=fast), shuffled=True)


def shuffle_blocks(
    source: Source,
    plan: Plan,
    scratch: Callable[[], BinaryIO],
    *,
    memory: int = 1 << 28,
    entropy: Entropy = system,
    fast: bool = False,
) -> Batch:
    """Shuffle like :func:`shuffle`, for a batch in parts that may be larger than memory.

    All parts, each with the contributors that it declares, become one batch. They are read, and the batch is checked,
    before this function returns; the blocks of the result are read from temporary files. ``scratch`` opens such a
    file, as ``tempfile.TemporaryFile`` does; see :func:`hubbub.bits.permutation.shuffle_external`. Strings that nobody
    listed are counted in memory, which grows with the number of different ones.
    """
    read = BatchHeader.of(plan, messages=0, n=0)
    total = read

    def received() -> Iterator[NDArray[Any]]:
        nonlocal read
        for part in parts(source):
            header = part.header
            header.check(plan)
            if header.shuffled:
                reject("the reports", "not be shuffled yet")
            read = replace(read, n=read.n + header.n, fakes=read.fakes + header.fakes)
            for block in part.blocks:
                read = replace(read, messages=read.messages + len(block))
                yield block
        check_batch(plan, read)

    def messages() -> Iterator[NDArray[Any]]:
        nonlocal total
        yield from received()
        fakes = draw_fakes(plan, entropy=entropy)
        total = replace(read, messages=read.messages + len(fakes), shuffled=True)
        yield fakes

    if plan.protocol.sends_strings:
        rows = released(count_people(received()), plan, entropy=entropy)
        return Batch(replace(read, messages=len(rows), shuffled=True), (rows,))
    blocks = permutation.shuffle_external(messages(), scratch, memory=memory, entropy=entropy, fast=fast)
    # The first block comes after everything has been read.
    first = list(itertools.islice(blocks, 1))
    return Batch(total, itertools.chain(first, blocks))


def _counted_strings(reports: Reports, entropy: Entropy) -> Reports:
    """Return the strings whose counts stay positive when a drawn number is subtracted, in the order of their bytes."""
    check_batch(reports.plan, reports.header)
    rows = released(count_people(reports.blocks), reports.plan, entropy=entropy)
    return replace(reports, messages=rows, shuffled=True)


def check_batch(plan: Plan, batch: BatchHeader) -> None:
    """Raise :class:`BatchTooSmall` unless a batch has the people, fakes and messages that the plan needs."""
    protocol, n, fakes = plan.protocol, batch.n, batch.fakes
    if protocol.sends_strings:
        check_whole("the number of people of a batch of strings", n, 0, MAX_COUNT)
    if n < plan.n:
        raise BatchTooSmall(f"a batch must have at least {plan.n:,} people, got {n:,}")
    if fakes < protocol.fixed_fakes:
        raise BatchTooSmall(f"a batch must have at least {protocol.fixed_fakes:,} fakes, got {fakes:,}")
    if protocol.sends_bits:
        return
    expected = protocol.own_messages * n + fakes
    if not protocol.sends_category and protocol.user_fakes:
        if batch.messages < expected:
            raise BatchTooSmall(f"{n:,} people must send at least {expected:,} messages, got {batch.messages:,}")
    elif batch.messages != expected:
        raise BatchTooSmall(
            f"{n:,} people with {fakes:,} fakes must send {expected:,} messages, got {batch.messages:,}"
        )


def draw_fakes(plan: Plan, *, entropy: Entropy = system) -> NDArray[Any]:
    """Return the messages of the shuffler's fakes; an empty array if the plan has none.

    For every legal record, or every bit if bits are released, the number of fakes is drawn by :func:`draw_number`, in a
    survey from the distribution of the bit's attribute. Fake records are flipped like those of people, so that the
    release is a function of clear records among clear fakes.
    """
    protocol, schema, kind = plan.protocol, plan.schema, message_type(plan)
    if protocol.sends_strings:
        # An engine that does not know strings would take no fakes for no noise, and pass on everybody's string.
        reject("the plan", "not be one for strings, whose counts are released instead of fakes being added")
    records = protocol.sends_records
    if not protocol.has_shuffler_fakes:
        return np.empty((0, plan.payload) if records else 0, kind)
    source = Buffered(entropy)
    total = schema.size if records else schema.width
    sizes = [total] if records else [one.size for one in schema.columns]
    parts = []
    for count, noise in zip(sizes, protocol.noise, strict=True):
        drawn = noise.shuffler_fakes
        if drawn is None:
            parts.append(np.zeros(count, np.int64))
            continue
        check_memory(f"the fakes of {count:,} categories", count * (drawn.shift + 1) * plan.payload)
        parts.append(np.array([draw_number(drawn, entropy=source) for _ in range(count)], np.int64))
    numbers = np.concatenate(parts)
    if not records:
        return np.repeat(np.arange(total), numbers).astype(kind)
    fakes = np.repeat(legal_records(schema), numbers, axis=0)
    return flip(fakes, schema.width, protocol.flip_numerator, entropy=entropy)


def legal_records(schema: Schema) -> NDArray[np.uint8]:
    """Return all legal records, packed.

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
