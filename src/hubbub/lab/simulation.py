"""Collections over and over: by records, through the whole street, or by counts, whose law is drawn directly.

Both give tallies, which is all that the analyzer needs. Given the true counts, the counts that it sees have this law,
jointly for all labels; with it the number of people does not matter:

- the flips of different bits are independent, also of one record, so that S_j = Bin(kT_j + F_j, p) +
  Bin(kN + M − kT_j − F_j, q), independent for all labels given the clear fakes F of M records;
- uniform fakes, M of them in total or as many as users draw: F by :func:`hubbub.lab.populations.column_counts`;
- a shuffler's fakes: a number for each legal record, which gives F and M; or, where bits are released, for each bit,
  which is added to S_j after the flips;
- a category: everybody tells the truth with probability 1 − dq and any of the d categories, the true one included, with
  q each: S = Bin(T_j, 1 − dq) + a uniform multinomial of the others.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hubbub.analyzer import tally
from hubbub.bits.entropy import Entropy
from hubbub.client import randomize
from hubbub.errors import BatchTooSmall, check_memory, check_whole, reject
from hubbub.lab.populations import column_counts
from hubbub.lab.sampling import Generator, chance, numbers_of
from hubbub.plans import Plan
from hubbub.protocol import Fakes
from hubbub.records import Collection
from hubbub.reports import Tally
from hubbub.shuffler import legal_records, shuffle

Numbers = NDArray[np.int64]
_CELLS = 1 << 22
"""Counts that are drawn at a time."""


def tallies_by_records(people: Collection, plan: Plan, repetitions: int, *, entropy: Entropy) -> Iterator[Tally]:
    """Randomize, shuffle and tally the same people so many times.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> from hubbub.schema import Schema
    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> own = plan_from(Schema.one_hot(["red", "blue"]), 3, Protocol(2**-40), epsilon=3.0)
    >>> people = Collection.from_values(["red", "blue", "red"], own.schema)
    >>> [one.counts.tolist() for one in tallies_by_records(people, own, 2, entropy=SeededStreamNotForPeople(1))]
    [[2, 1], [2, 1]]
    """
    for _ in range(check_whole("repetitions", repetitions, 1)):
        yield tally(shuffle(randomize(people, plan, entropy=entropy), entropy=entropy))


def tallies_by_counts(truth: Numbers, n: int, plan: Plan, repetitions: int, *, entropy: Entropy) -> Iterator[Tally]:
    """The same for n people with these true counts: the exact joint law, in a time that does not depend on n.

    >>> from hubbub.bits.entropy import SeededStreamNotForPeople
    >>> from hubbub.schema import Schema
    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> own = plan_from(Schema.one_hot(["red", "blue"]), 10**9, Protocol(2**-40), epsilon=3.0)
    >>> truth = np.array([600_000_000, 400_000_000])
    >>> one = next(tallies_by_counts(truth, 10**9, own, 1, entropy=SeededStreamNotForPeople(1)))
    >>> bool((abs(one.counts - truth) < 10).all()), one.messages
    (True, 1000000000)
    """
    if not isinstance(plan, Plan):
        reject("plan", "be a Plan", type(plan).__name__)
    true, width = np.asarray(truth), plan.schema.width
    if true.shape != (width,) or true.dtype.kind not in "iu" or (true < 0).any() or (true > n).any():
        reject("truth", f"be {width} whole numbers in [0, {n}]", "others")
    if plan.schema.exclusive and int(true.sum()) != n:
        reject("truth", "add up to n, as everybody has one label", "another sum")
    if n < plan.n:
        raise BatchTooSmall(f"a batch must have at least {plan.n:,} people, got {n:,}")
    left, dice = check_whole("repetitions", repetitions, 1), chance(entropy)
    step = max(1, _CELLS // width)
    while left:
        now = min(step, left)
        left -= now
        counts, messages = _draw(true.astype(np.int64), n, plan, now, dice)
        counts.setflags(write=False)
        for row, total in zip(counts, messages.tolist(), strict=True):
            yield Tally(
                plan=plan.id,
                n=n,
                fakes=plan.protocol.fixed_fakes,
                messages=total,
                batches=1,
                smallest_batch=n,
                counts=row,
            )


def _draw(true: Numbers, n: int, plan: Plan, times: int, dice: Generator) -> tuple[Numbers, Numbers]:
    """Counts, a row for each repetition, and the number of all messages."""
    protocol, width = plan.protocol, plan.schema.width
    k, q, m = protocol.k, protocol.q, protocol.m
    if protocol.sends_category:
        kept = dice.binomial(true, max(0.0, 1 - width * q), (times, width))
        lost = n - kept.sum(axis=1)
        return kept + dice.multinomial(lost, np.full(width, 1 / width)), np.full(times, n, np.int64)
    split = protocol.sends_bits
    drawn = isinstance(m, Fakes) and m.by == "shuffler"
    if isinstance(m, Fakes) and drawn and not split:
        clear, fakes = _of_each_record(m, plan, times, dice)
    else:
        fakes = _by_users(m, n, times, dice)
        clear = column_counts(fakes, plan.schema, dice) if fakes.any() else np.zeros((times, width), np.int64)
    records_with_bit, all_ = k * true + clear, (k * n + fakes)[:, None]
    counts = dice.binomial(records_with_bit, 1 - q) + dice.binomial(all_ - records_with_bit, q)
    if isinstance(m, Fakes) and drawn and split:
        counts += numbers_of(m.pmf, (times, width), dice)
    return counts, counts.sum(axis=1) if split else all_[:, 0]


def _by_users(m: int | Fakes, n: int, times: int, dice: Generator) -> Numbers:
    """How many uniform fakes there are."""
    if isinstance(m, int):
        return np.full(times, m, np.int64)
    if m.distribution == "binomial":
        return dice.binomial(n * m.shift, m.scale, times)
    if m.distribution == "poisson":
        return dice.poisson(n * m.scale, times)
    return np.zeros(times, np.int64)


def _of_each_record(m: Fakes, plan: Plan, times: int, dice: Generator) -> tuple[Numbers, Numbers]:
    """How many clear fakes have each bit, and how many there are, if a number is drawn for each legal record."""
    schema = plan.schema
    if schema.exclusive:
        clear = numbers_of(m.pmf, (times, schema.width), dice)
        return clear, clear.sum(axis=1)
    check_memory(f"the fakes of all records of {schema}", 8 * schema.size * (times + 2 * schema.width))
    numbers = numbers_of(m.pmf, (times, schema.size), dice)
    bits = np.unpackbits(legal_records(schema), axis=1, bitorder="little", count=schema.width)
    # Sums of whole numbers far below 2⁵³ are exact in float64, which multiplies matrices much faster.
    clear = np.rint(numbers.astype(np.float64) @ bits.astype(np.float64)).astype(np.int64)
    return clear, numbers.sum(axis=1)
