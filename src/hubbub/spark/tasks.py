"""The functions that run on the workers: iterators of record batches in, record batches out.

They are at the top of a module, so that they are sent by name; plan and key are arguments, and the plan is its text.
"""

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits import permutation
from hubbub.bits.counting import bit_counts, index_counts
from hubbub.bits.entropy import KeyedStream
from hubbub.bits.records import uniform_categories
from hubbub.errors import InvalidRecord
from hubbub.io.arrow import collection
from hubbub.io.parquet import MESSAGES
from hubbub.model.plans import Plan
from hubbub.pipeline.encoding.arrays import arrow
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection, Packed, SetBits
from hubbub.pipeline.shuffle import draw_fakes
from hubbub.spark import blocks, coins
from hubbub.spark.columns import unpack
from hubbub.spark.problems import reporting

COUNTS = "slice int, n long, fakes long, messages long, counts binary"
"""Columns of the partial tallies; only the first slice declares people, fakes and messages."""
SLICE = 1 << 13
"""Counts of one row of a partial tally."""
FAKES = 1 << 20
"""Fakes that are created at a time, if their total is fixed."""
_FEW = 1 << 20
"""Messages that are assigned to files at a time."""


@functools.lru_cache(maxsize=8)
def plan_of(text: str) -> Plan:
    """Return the plan with this text."""
    return Plan.from_json(text)


@reporting
def randomize_people(text: str, column: str | None, packed: bool, key: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the reports of the people in a partition, block by block."""
    plan, place = plan_of(text), coins.partition()
    size = blocks.people_of_block(plan)
    for number, table in enumerate(blocks.gathered(batches, size)):
        try:
            if packed:
                people = unpack(table, plan.schema)
            else:
                source = coins.rounding(key, plan, place, number)
                people = collection(table, plan.schema, column, entropy=source)
        except InvalidRecord as error:
            raise _renumbered(error, number * size, place) from None
        source = coins.noise(key, plan, place, number, people)
        yield blocks.report_rows(randomize(people, plan, fakes=_share(plan, len(people)), entropy=source))


def _renumbered(error: InvalidRecord, before: int, place: int) -> InvalidRecord:
    """Return the problem with the number of the record in its partition instead of its block."""
    found = InvalidRecord(error.record + before, error.problem, error.column, error.kind)
    found.add_note(f"partition {place + 1:,} of the data frame")
    return found


def _share(plan: Plan, people: int) -> int | None:
    """Return the fakes that the people of a block add, if the plan fixes their total.

    A plan for dishonest users counts on an equal share of every user; otherwise all fakes are in blocks of their own.
    """
    total = plan.protocol.fixed_fakes
    if not total:
        return None
    return 0 if plan.honest_fraction == 1 else min(total, people * (total // plan.n))


def other_fakes(plan: Plan) -> int:
    """Return the fakes that no block of people adds, if the plan fixes their total."""
    total = plan.protocol.fixed_fakes
    return total if plan.honest_fraction == 1 else total % plan.n


@reporting
def fixed_fakes(text: str, key: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield blocks of fakes of users, for rows with the numbers of blocks."""
    plan = plan_of(text)
    nobody = _nobody(plan)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            count = min(FAKES, other_fakes(plan) - number * FAKES)
            source = KeyedStream(key, "fixed fakes", plan.id, number)
            yield blocks.report_rows(randomize(nobody, plan, fakes=count, entropy=source))


def _nobody(plan: Plan) -> Collection:
    schema = plan.schema
    if schema.dense:
        return Collection(schema, Packed(np.empty((0, -(-schema.width // 8)), np.uint8)))
    return Collection(schema, SetBits(np.empty(0, np.uint32), None if schema.exclusive else np.empty(0, np.int64)))


def draw_shuffler_fakes(plan: Plan, key: bytes) -> NDArray[Any]:
    """Return the fakes of the shuffler, which are the same whenever they are drawn in this run."""
    return draw_fakes(plan, entropy=KeyedStream(key, "shuffler fakes", plan.id))


@reporting
def shuffler_fakes(text: str, key: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the fakes of the shuffler as blocks of messages, for a single row."""
    plan = plan_of(text)
    for batch in batches:
        for _ in range(batch.num_rows):
            for made in blocks.message_rows(draw_shuffler_fakes(plan, key), plan.payload, rows=False):
                yield made.select([MESSAGES])


@reporting
def spread(text: str, key: bytes, files: int, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the messages of each block by file, a uniform one for each message.

    The file must be a function of the key, the place and the content: Spark repeats single tasks whose output was lost,
    and lets their new output meet what others have already fetched.
    """
    plan, place = plan_of(text), coins.partition()
    # A few messages at least for each row, but blocks that fit into memory.
    size = max(_FEW, min(files << 6, max(_FEW, (1 << 25) // plan.payload)))
    for number, found in enumerate(_regrouped(batches, plan, size)):
        source = coins.files(key, plan, place, number, np.ascontiguousarray(found).reshape(-1).view(np.uint8).data)
        chosen = uniform_categories(len(found), files, entropy=source).astype(np.uint16)
        yield by_file(found, chosen, files, plan.payload)


def _regrouped(batches: Iterable[Any], plan: Plan, size: int) -> Iterator[NDArray[Any]]:
    """Yield messages in groups of exactly ``size``, the last one smaller, however they are divided into batches."""
    waiting: list[NDArray[Any]] = []
    missing = size
    for batch in batches:
        rest = blocks.messages_of(batch.column(0), plan)
        while len(rest):
            waiting.append(rest[:missing])
            rest = rest[missing:]
            missing -= len(waiting[-1])
            if not missing:
                yield blocks.joined(waiting)
                waiting, missing = [], size
    if waiting:
        yield blocks.joined(waiting)


def by_file(messages: NDArray[Any], chosen: NDArray[np.uint16], files: int, payload: int) -> Any:
    """Return messages as a record batch with one row for each file that has any."""
    library = arrow()
    sorted_ = np.take(messages, np.argsort(chosen, kind="stable"), axis=0)
    sizes = np.bincount(chosen, minlength=files)
    some = np.flatnonzero(sizes)
    ends = np.append(0, np.cumsum(sizes[some])) * payload
    return library.RecordBatch.from_arrays(
        [library.array(some.astype(np.int32)), blocks.binary(sorted_, ends)], names=["file", MESSAGES]
    )


@reporting
def mix(text: str, rows: bool, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the messages of a file in uniform random order, drawn afresh by every attempt: only one is committed."""
    plan = plan_of(text)
    parts = [blocks.messages_of(batch.column(1), plan) for batch in batches if batch.num_rows]
    if parts:
        messages = blocks.joined(parts)
        parts.clear()
        yield from blocks.message_rows(permutation.shuffle(messages), plan.payload, rows=rows)


@reporting
def count_messages(text: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the partial tally of the messages of a partition, given as a column of messages or blocks."""
    plan = plan_of(text)
    yield from _partial(plan, ((0, 0, batch.column(0)) for batch in batches))


@reporting
def count_reports(text: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the partial tally of the reports of a partition, given as rows of :data:`hubbub.spark.blocks.REPORTS`."""
    yield from _partial(plan_of(text), map(_declared, batches))


@reporting
def randomize_and_count(
    text: str, column: str | None, packed: bool, key: bytes, batches: Iterable[Any]
) -> Iterator[Any]:
    """Yield the partial tally of the people in a partition, whose reports leave the task in no other form."""
    yield from _partial(plan_of(text), map(_declared, randomize_people(text, column, packed, key, batches)))


def _declared(batch: Any) -> tuple[int, int, Any]:
    """Return the people and fakes that a batch of reports declares, and its messages."""
    n, fakes = (int(batch.column(place).to_numpy().sum()) for place in (0, 1))
    return n, fakes, batch.column(3)


def _partial(plan: Plan, found: Iterable[tuple[int, int, Any]]) -> Iterator[Any]:
    """Yield the sum of people, fakes and messages, unless there are none."""
    sums, counts = np.zeros(3, np.int64), np.zeros(plan.schema.width, np.int64)
    count = index_counts if plan.protocol.payload_format.is_index else bit_counts
    for n, fakes, column in found:
        messages = blocks.messages_of(column, plan)
        counts += count(messages, plan.schema.width)
        sums += (n, fakes, len(messages))
    if not sums.any():
        return
    library = arrow()
    starts = range(0, plan.schema.width, SLICE)
    slices = [counts[start : start + SLICE].tobytes() for start in starts]
    first = np.zeros((3, len(starts)), np.int64)
    first[:, 0] = sums
    arrays = [library.array(range(len(starts)), library.int32()), *map(library.array, first), library.array(slices)]
    yield library.RecordBatch.from_arrays(arrays, names=["slice", "n", "fakes", "messages", "counts"])


def add_slices(table: Any) -> Any:
    """Return the sum of the rows of partial tallies of one slice as one row."""
    library = arrow()
    counts = np.sum([np.frombuffer(one.as_buffer(), np.int64) for one in table.column("counts")], axis=0)
    sums = [library.array([table.column(name).to_numpy().sum()]) for name in ("n", "fakes", "messages")]
    arrays = [table.column("slice").slice(0, 1).combine_chunks(), *sums, library.array([counts.tobytes()])]
    return library.Table.from_arrays(arrays, names=["slice", "n", "fakes", "messages", "counts"])
