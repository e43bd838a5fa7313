"""The client, for many records at a time: ``randomize`` turns a collection into reports.

The distribution is that of ``hubbub.pipeline.device``, which handles one record without numpy. Errors are raised before
the first message is created.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.coins import coins, positions
from hubbub.bits.device import uniform
from hubbub.bits.entropy import Entropy, check_entropy, draw, system
from hubbub.bits.exact import poisson_edges
from hubbub.bits.records import flip, uniform_categories, uniform_records
from hubbub.errors import PlanMismatch, check_memory, check_type
from hubbub.mechanisms.flip import Flip
from hubbub.mechanisms.mechanism import label_mechanisms
from hubbub.mechanisms.response import Response
from hubbub.model.plans import Plan, check_share
from hubbub.model.protocol import GRID, Fakes
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Bodies, Collection, Packed, SetBits
from hubbub.pipeline.reports import Reports, message_type
from hubbub.pipeline.rows import one_person

_CELLS = 1 << 23
"""Bits that are unpacked at a time, one byte each."""
Numbers = NDArray[np.int64]


def randomize(collection: Collection, plan: Plan, *, fakes: int | None = None, entropy: Entropy = system) -> Reports:
    """Return the randomized messages of all records: flipped, copied, split into bits, with the users' fakes.

    If the plan fixes the total number m of fakes, this call adds all of them, or ``fakes`` if a collection is
    randomized in parts; a plan for ``honest_fraction`` < 1 needs at least ⌊m/n⌋ for each user. Random numbers of fakes
    are drawn for each user. Coins are exact; whole records cost n·k·width coins, single bits of one-hot and sparse
    records cost coins only for the bits sent. Strings that nobody listed are padded, and nothing else: the shuffler's
    noise hides them. The result is not shuffled.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> schema = Schema.one_hot(["red", "green", "blue"])
    >>> plan = plan_from(schema, 3, Protocol(0.1), delta=1e-6)
    >>> randomize(Collection.from_values(["red", "blue", "red"], schema), plan)
    Reports(3 messages of 3 people, not shuffled, plan ...)
    """
    check_type("collection", collection, Collection)
    check_type("plan", plan, Plan)
    check_entropy(entropy)
    if collection.schema != plan.schema:
        advice = "; encode with plan.schema, whose layout the planner chose" if plan.schema.named else ""
        raise PlanMismatch(
            f"the collection must have the schema of the plan, {plan.schema}, got {collection.schema}{advice}"
        )
    share = plan.protocol.fixed_fakes if fakes is None else check_share(plan, len(collection), fakes)
    if isinstance(collection.records, Bodies):
        return Reports(plan, one_person(collection.records.rows), len(collection))
    kind = message_type(plan)
    parts = [np.ascontiguousarray(part, kind) for part in _sampled(collection, plan, share, entropy)]
    return Reports(plan, parts[0] if len(parts) == 1 else np.concatenate(parts), len(collection), share)


def _sampled(collection: Collection, plan: Plan, share: int, entropy: Entropy) -> Iterator[NDArray[Any]]:
    """Yield the messages of a collection, column after column."""
    for place, one in enumerate(label_mechanisms(plan.protocol, plan.schema)):
        match one:
            case Response():
                yield one.sample(_answers(collection, place), entropy)
            case Flip():
                drawn = one.noise.user_fakes
                fakes = share if drawn is None else _drawn(drawn, len(collection), entropy)
                if one.column.rule == "one" and not one.whole:
                    yield from _flipped_answers(one, _answers(collection, place), fakes, entropy)
                else:
                    yield from _flipped_records(one, collection, fakes, entropy)
            case _:
                assert_never(one)


def _drawn(drawn: Fakes, n: int, entropy: Entropy) -> int:
    """Draw the number of fakes of n users together."""
    if drawn.distribution == "binomial":
        return _binomial(n * drawn.shift, drawn.scale, entropy)
    return _poisson(n, drawn, entropy)


def _answers(collection: Collection, place: int) -> NDArray[np.uint32]:
    """Return the categories of one column, as indices of labels, where every record has exactly one of each column."""
    assert isinstance(collection.records, SetBits)
    return collection.records.indices.reshape(len(collection), len(collection.schema.attributes))[:, place]


def _flipped_answers(one: Flip, answers: NDArray[Any], fakes: int, entropy: Entropy) -> Iterator[NDArray[Any]]:
    """Yield the set bits of flipped records of one category each; the cost depends on the bits sent only."""
    check_memory(f"{fakes:,} fakes", 24 * fakes)
    sent = [answers] * one.copies
    if fakes:
        sent.append(one.column.start + uniform_categories(fakes, one.column.size, entropy=entropy))
    step = _CELLS // 4
    for block in (part[start : start + step] for part in sent for start in range(0, max(part.size, 1), step)):
        if one.noise.clear:
            yield block
            continue
        cells = positions(block.size * one.column.size, one.noise.flip_numerator, entropy=entropy)
        people, bits = np.divmod(cells, one.column.size)
        bits += one.column.start
        set_before = block[people] == bits
        stays = np.ones(block.size, np.bool_)
        stays[people[set_before]] = False
        yield block[stays]
        yield bits[~set_before]


def _flipped_records(one: Flip, collection: Collection, fakes: int, entropy: Entropy) -> Iterator[NDArray[Any]]:
    """Yield flipped copies of records, and flipped fakes: whole, or their set bits."""
    send, numerator = _records if one.whole else _split, one.noise.flip_numerator
    yield from send(collection, numerator, one.copies, entropy)
    yield from send(fake_collection(fakes, collection.schema, entropy=entropy), numerator, 1, entropy)


def _binomial(trials: int, chance: float, entropy: Entropy) -> int:
    """Draw from Binomial(trials, chance), with the chance rounded up to the grid, which only adds noise."""
    numerator = math.ceil(Fraction(chance) * GRID)
    if numerator >= GRID:
        return trials
    step = 8 * _CELLS
    parts = (coins(min(step, trials - i), numerator, entropy=entropy) for i in range(0, trials, step))
    return sum(int(np.bitwise_count(part).sum(dtype=np.int64)) for part in parts)


def _poisson(n: int, fakes: Fakes, entropy: Entropy) -> int:
    """Draw the sum over all users, which is Poisson too, as :func:`hubbub.bits.exact.poisson` does for one."""
    whole = math.ceil(fakes.scale)
    edges = poisson_edges()
    high = np.array([edge >> 64 for edge in edges], np.uint64)
    total = 0
    for start in range(0, n * whole, _CELLS):
        words = draw(entropy, min(_CELLS, n * whole - start))
        total += int(np.searchsorted(high, words, side="right").sum(dtype=np.int64))
        # A word that equals the first 64 digits of an edge was counted as above it; 64 more digits decide.
        for word in words[np.isin(words, high)]:
            longer = int(word) << 64 | int(draw(entropy, 1)[0])
            total -= sum(edge >> 64 == int(word) and longer < edge for edge in edges)
    return _binomial(total, fakes.scale / whole, entropy)


def fake_collection(count: int, schema: Schema, *, entropy: Entropy = system) -> Collection:
    """Return independent records, each uniform among all legal ones: fakes before they are flipped.

    >>> fake_collection(5, Schema.at_most(2, 9))
    Collection(5 records of Schema.at_most(2, 9 labels))
    """
    if schema.dense:
        return Collection(schema, Packed(uniform_records(count, schema.width, entropy=entropy)))
    if schema.exclusive:
        check_memory(f"{count:,} fakes", 24 * count)
        return Collection(schema, SetBits(uniform_categories(count, schema.width, entropy=entropy).astype(np.uint32)))
    ones = _sizes(count, schema, entropy)
    ends = np.cumsum(ones)
    flat = np.empty(int(ones.sum()), np.uint32)
    for size in range(1, schema.max_set + 1):
        chosen = np.flatnonzero(ones == size)
        cells = ends[chosen, None] - size + np.arange(size)
        flat[cells.reshape(-1)] = _subsets(chosen.size, size, schema.width, entropy).reshape(-1)
    return Collection(schema, SetBits(flat, ends))


def _sizes(count: int, schema: Schema, entropy: Entropy) -> Numbers:
    """Draw the number of set bits of uniform legal records: i with probability C(width, i)/size, exactly."""
    upto = np.cumsum([math.comb(schema.width, i) for i in range(schema.max_set + 1)], dtype=object)
    if schema.size <= 2**62:
        return np.searchsorted(
            upto.astype(np.int64), uniform_categories(count, schema.size, entropy=entropy), side="right"
        )
    values = (uniform(schema.size, entropy=entropy) for _ in range(count))
    return np.fromiter((sum(value >= edge for edge in upto) for value in values), np.int64, count)


def _subsets(count: int, size: int, width: int, entropy: Entropy) -> Numbers:
    """Draw uniform rows of ``size`` distinct ascending numbers below ``width``, redrawing duplicates.

    If ``size`` is more than half of ``width``, the complement is drawn instead.
    """
    if 2 * size > width:
        others = np.ones((count, width), np.bool_)
        np.put_along_axis(others, _subsets(count, width - size, width, entropy), False, axis=1)
        return np.nonzero(others)[1].reshape(count, size)
    rows = np.zeros((count, size), np.int64)
    for column in range(size):
        again = np.arange(count)
        while again.size:
            rows[again, column] = uniform_categories(again.size, width, entropy=entropy)
            again = again[(rows[again, :column] == rows[again, column, None]).any(axis=1)]
    rows.sort(axis=1)
    return rows


def _records(collection: Collection, flip_numerator: int, copies: int, entropy: Entropy) -> list[NDArray[np.uint8]]:
    width, n = collection.schema.width, len(collection)
    size = -(-width // 8)
    check_memory("the reports", copies * n * size)
    messages = np.empty((copies, n, size), np.uint8)
    step = max(1, 4 * _CELLS // size)
    for start in range(0, n, step):
        rows = collection.rows(start, start + step)
        for copy in messages:
            copy[start : start + step] = flip(rows, width, flip_numerator, entropy=entropy)
    return [messages.reshape(-1, size)]


def _split(collection: Collection, flip_numerator: int, copies: int, entropy: Entropy) -> list[NDArray[Any]]:
    """Return the indices of the set bits of flipped copies, user after user."""
    width, parts = collection.schema.width, []
    dense = collection.schema.dense
    step = max(1, _CELLS // width) if dense else _CELLS // 4
    kind = np.uint8 if width <= 2**8 else np.uint16 if width <= 2**16 else np.uint32
    for start in range(0, len(collection), step):
        for _ in range(copies):
            if dense:
                rows = flip(collection.rows(start, start + step), width, flip_numerator, entropy=entropy)
                where = np.nonzero(np.unpackbits(rows, axis=1, bitorder="little", count=width))[1]
            else:
                flat, ones = collection.ones(start, start + step)
                cells = np.repeat(np.arange(ones.size) * width, ones) + flat
                # A cell is set if it either was set or is flipped: the cost depends on the set bits, not on the width.
                flips = positions(ones.size * width, flip_numerator, entropy=entropy)
                where = np.setxor1d(cells, flips, assume_unique=True) % width
            parts.append(where.astype(kind))
    return parts or [np.empty(0, kind)]
