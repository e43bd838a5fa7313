"""Blocks: a row of Spark is a block of messages, because the engine has a cost for each row."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.io.parquet import MESSAGE, MESSAGES, payloads
from hubbub.model.plans import Plan
from hubbub.pipeline.encoding.arrays import arrow
from hubbub.pipeline.reports import Reports, decode_payloads

PEOPLE = 1 << 18
"""Largest number of people who are randomized at a time."""
WORK = 1 << 25
"""Approximate bytes of records and messages of the people who are randomized at a time."""
BLOCK = 1 << 20
"""Approximate bytes of the messages in one row."""
REPORTS = "n long, fakes long, count long, messages binary"
"""Columns of blocks that are not shuffled."""
BLOCKS = "count long, messages binary"
"""Columns of shuffled blocks."""
ROWS = "message binary"
"""Columns of shuffled messages, one in each row."""


def people_of_block(plan: Plan) -> int:
    """Return the number of people who are randomized at a time: all blocks of a partition have it but the last.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> from hubbub.model.schema import Schema
    >>> plans = (plan_from(Schema.bits(width), 9, Protocol(0.25), delta=1e-6) for width in (40, 8000))
    >>> [people_of_block(plan) for plan in plans]
    [262144, 16777]
    """
    schema, protocol = plan.schema, plan.protocol
    packed = -(-schema.width // 8)
    held = packed if schema.dense else 8 * schema.max_set
    sent = packed * protocol.k if protocol.sends_records else plan.payload * protocol.own_messages
    if protocol.sends_bits:
        sizes = [one.size for one in schema.columns]
        flipped = sum(one.q * size for one, size in zip(protocol.noise, sizes, strict=True))
        sent += round(8 * flipped * protocol.k)
    return max(1, min(PEOPLE, WORK // (held + sent)))


def gathered(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield tables of exactly ``size`` rows, the last one smaller, whatever the sizes of the record batches are.

    >>> import pyarrow as pa
    >>> batches = pa.table({"x": range(7)}).to_batches(max_chunksize=2)
    >>> [table.num_rows for table in gathered(batches, 3)]
    [3, 3, 1]
    """
    library = arrow()
    waiting: list[Any] = []
    missing = size
    for batch in batches:
        rest = batch
        while rest.num_rows:
            waiting.append(rest.slice(0, missing))
            rest = rest.slice(missing)
            missing -= waiting[-1].num_rows
            if not missing:
                yield library.Table.from_batches(waiting)
                waiting, missing = [], size
    if waiting:
        yield library.Table.from_batches(waiting)


def binary(messages: NDArray[Any], ends: NDArray[np.int64]) -> Any:
    """Return messages as an Arrow array of binary values, without copying; ``ends`` are offsets in bytes, from 0."""
    library = arrow()
    data = library.py_buffer(np.ascontiguousarray(messages).reshape(-1).view(np.uint8))
    return library.Array.from_buffers(
        library.binary(), len(ends) - 1, [None, library.py_buffer(ends.astype(np.int32)), data]
    )


def steps(messages: int, payload: int) -> NDArray[np.int64]:
    """Return the first message of each row of about :data:`BLOCK` bytes, and the number of all messages.

    >>> steps(2_500_000, 1).tolist(), steps(0, 1).tolist()
    ([0, 1048576, 2097152, 2500000], [0, 0])
    """
    step = max(1, BLOCK // payload)
    return np.append(np.arange(0, max(messages, 1), step, dtype=np.int64), messages)


def report_rows(reports: Reports) -> Any:
    """Return reports as a record batch of rows as in :data:`REPORTS`; the first one declares all people and fakes."""
    library, payload = arrow(), reports.plan.payload
    edges = steps(len(reports), payload)
    declared = np.zeros((2, len(edges) - 1), np.int64)
    declared[:, 0] = reports.n, reports.fakes
    arrays = [*map(library.array, declared), library.array(np.diff(edges)), binary(reports.messages, edges * payload)]
    return library.RecordBatch.from_arrays(arrays, names=["n", "fakes", "count", MESSAGES])


def message_rows(messages: NDArray[Any], payload: int, *, rows: bool) -> Iterator[Any]:
    """Yield shuffled messages as record batches, of blocks as in :data:`BLOCKS` or of :data:`ROWS`."""
    library = arrow()
    edges = steps(len(messages), payload) if len(messages) else np.zeros(1, np.int64)
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = messages[start:end]
        if rows:
            cells = binary(part, np.arange(len(part) + 1, dtype=np.int64) * payload)
            yield library.RecordBatch.from_arrays([cells], names=[MESSAGE])
        else:
            blob = binary(part, np.array([0, len(part) * payload]))
            yield library.RecordBatch.from_arrays([library.array([end - start]), blob], names=["count", MESSAGES])


def messages_of(column: Any, plan: Plan) -> NDArray[Any]:
    """Return the messages in a column of messages or of blocks of messages, each one checked."""
    return decode_payloads(payloads(column, plan.payload), plan)


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return all messages of at least one array, without copying a single one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
