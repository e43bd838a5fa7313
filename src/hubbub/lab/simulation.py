"""Repeated collections: by records through the whole pipeline, or by counts drawn from their exact distribution.

Both give tallies, which are all that the analyzer needs. Given the true counts T of N people, the observed counts S
have this joint distribution, which takes the same time to sample for any N:

- flips of different bits are independent, so S_j = Bin(kT_j + F_j, p) + Bin(kN + M − kT_j − F_j, q), independently
  for all labels, given that F_j of M fakes have bit j before their flips;
- uniform fakes, a fixed number or drawn by users: F by :func:`hubbub.lab.populations.column_counts`;
- the shuffler's fakes: a number per legal record, which gives F and M; or, if bits are released, a number per bit,
  which is added to S_j after the flips;
- a category: with probability 1 − dq the true one, otherwise one of all d uniformly: S = Bin(T_j, 1 − dq) + a uniform
  multinomial of the rest;
- several columns: each with its own noise, independently;
- strings: max(T − Z, 0) with one draw Z for each.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy
from hubbub.errors import BatchTooSmall, check_type, check_whole, reject
from hubbub.lab.mechanisms import Column, ShufflerFakes, columns, fakes_of
from hubbub.lab.populations import Rng, draw_from, generator
from hubbub.mechanisms.chances import drawn_by
from hubbub.model.plans import Plan
from hubbub.model.releases import PEOPLE
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Bodies, Collection
from hubbub.pipeline.reports import Tally
from hubbub.pipeline.rows import bodies, people
from hubbub.pipeline.shuffle import shuffle
from hubbub.pipeline.tally import tally

Numbers = NDArray[np.int64]
_CELLS = 1 << 22  # largest number of counts drawn at a time


def tallies_by_records(people: Collection, plan: Plan, repetitions: int, *, entropy: Entropy) -> Iterator[Tally]:
    """Randomize, shuffle and tally the same people repeatedly.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> from hubbub import Protocol, Schema, plan_from
    >>> plan = plan_from(Schema.one_hot(["red", "blue"]), 3, Protocol(2**-40), epsilon=3.0)
    >>> people = Collection.from_values(["red", "blue", "red"], plan.schema)
    >>> [one.counts.tolist() for one in tallies_by_records(people, plan, 2, entropy=SeededStreamNotForPeople(1))]
    [[2, 1], [2, 1]]
    """
    for _ in range(check_whole("repetitions", repetitions, 1)):
        yield tally(shuffle(randomize(people, plan, entropy=entropy), entropy=entropy))


def tallies_by_counts(truth: Numbers, n: int, plan: Plan, repetitions: int, *, entropy: Entropy) -> Iterator[Tally]:
    """Draw the tallies of n people with these true counts from their exact joint distribution.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> from hubbub import Protocol, Schema, plan_from
    >>> plan = plan_from(Schema.one_hot(["red", "blue"]), 10**9, Protocol(2**-40), epsilon=3.0)
    >>> truth = np.array([600_000_000, 400_000_000])
    >>> one = next(tallies_by_counts(truth, 10**9, plan, 1, entropy=SeededStreamNotForPeople(1)))
    >>> bool((abs(one.counts - truth) < 10).all()), one.messages
    (True, 1000000000)
    """
    check_type("plan", plan, Plan)
    true, width = np.asarray(truth), plan.schema.width
    if true.shape != (width,) or not np.issubdtype(true.dtype, np.integer) or (true < 0).any() or (true > n).any():
        reject("truth", f"be {width} whole numbers in [0, {n}]")
    for attribute in plan.schema.attributes:
        total = int(true[attribute.start : attribute.stop].sum())
        if total != n:
            reject("truth", f"add up to n = {n:,}, because every record has exactly one label of each attribute", total)
    if n < plan.n:
        raise BatchTooSmall(f"a batch must have at least {plan.n:,} people, got {n:,}")
    left, rng = check_whole("repetitions", repetitions, 1), generator(entropy)
    step, fakes, parts = max(1, _CELLS // width), plan.protocol.fixed_fakes, columns(plan)
    while left:
        now = min(step, left)
        left -= now
        counts, messages = _draw(true.astype(np.int64), n, plan, parts, now, rng)
        counts.setflags(write=False)
        for row, total in zip(counts, messages.tolist(), strict=True):
            yield Tally(plan=plan.id, n=n, fakes=fakes, messages=total, batches=1, smallest_batch=n, counts=row)


def _draw(true: Numbers, n: int, plan: Plan, parts: list[Column], times: int, rng: Rng) -> tuple[Numbers, Numbers]:
    """Draw a row of counts and the total number of messages for each repetition."""
    draw, k = _RELEASED[plan.protocol.release], plan.protocol.k
    drawn = [draw(one.of(true), n, one, k, times, rng) for one in parts]
    counts, messages = (list(part) for part in zip(*drawn, strict=True))
    return np.concatenate(counts, axis=1), np.asarray(sum(messages), np.int64)


def _records(true: Numbers, n: int, column: Column, k: int, times: int, rng: Rng) -> tuple[Numbers, Numbers]:
    """Draw the counts of whole records, and the number of messages."""
    clear, fakes = fakes_of(column.noise).draw(n, column.schema, times, rng)
    return _flipped(k * true + clear, k * n + fakes, column.noise.q, rng), k * n + fakes


def _bits(true: Numbers, n: int, column: Column, k: int, times: int, rng: Rng) -> tuple[Numbers, Numbers]:
    """Draw the counts of split bits, each of which is a message."""
    source, shape = fakes_of(column.noise), (times, true.size)
    if isinstance(source, ShufflerFakes):
        own = np.broadcast_to(k * true, shape)
        counts = _flipped(own, np.full(times, k * n), column.noise.q, rng) + source.add(shape, rng)
        return counts, counts.sum(axis=1)
    counts, _ = _records(true, n, column, k, times, rng)
    return counts, counts.sum(axis=1)


def _responses(true: Numbers, n: int, column: Column, k: int, times: int, rng: Rng) -> tuple[Numbers, Numbers]:
    """Draw the counts of categories by randomized response."""
    size = true.size
    kept = rng.binomial(true, max(0.0, 1 - size * column.noise.q), (times, size))
    lost = n - kept.sum(axis=1)
    return kept + rng.multinomial(lost, np.full(size, 1 / size)), np.full(times, n, np.int64)


_RELEASED = {"records": _records, "bits": _bits, "category": _responses}
"""The distribution of the counts of one column, by what is released."""


def _flipped(with_bit: Numbers, everything: Numbers, q: float, rng: Rng) -> Numbers:
    return rng.binomial(with_bit, 1 - q) + rng.binomial(everything[:, None] - with_bit, q)


def left_of(truth: Numbers, plan: Plan, times: int, noise: Entropy) -> Iterator[Numbers]:
    """Yield what a threshold leaves of the count of every string, drawn from its exact distribution."""
    rng, pmf = generator(noise), drawn_by(plan).pmf
    for _ in range(times):
        yield np.maximum(truth - draw_from(pmf, truth.shape, rng), 0)


def left_by_records(held: dict[bytes, int], plan: Plan, n: int, times: int, noise: Entropy) -> Iterator[Numbers]:
    """Yield what is left of the count of every string after the whole pipeline."""
    size = plan.payload - PEOPLE
    counts = {**held, bytes(size): n - sum(held.values())}
    rows = np.frombuffer(b"".join(body * count for body, count in counts.items()), np.uint8).reshape(-1, size)
    everybody = Collection(plan.schema, Bodies(rows))
    for _ in range(times):
        mixed = shuffle(randomize(everybody, plan, entropy=noise), entropy=noise)
        shown = dict(zip(bodies(mixed.messages), people(mixed.messages).tolist(), strict=True))
        yield np.array([shown.get(body, 0) for body in held], np.int64)
