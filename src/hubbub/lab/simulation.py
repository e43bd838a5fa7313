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
- a survey: the same for each attribute, with its own noise, independently.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy
from hubbub.errors import BatchTooSmall, check_memory, check_type, check_whole, reject
from hubbub.lab.populations import Rng, column_counts, draw_from, generator
from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes, Noise, Protocol
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Tally
from hubbub.pipeline.shuffle import legal_records, shuffle
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
    if true.shape != (width,) or true.dtype.kind not in "iu" or (true < 0).any() or (true > n).any():
        reject("truth", f"be {width} whole numbers in [0, {n}]")
    if plan.schema.exclusive and int(true.sum()) != n:
        reject("truth", f"add up to n = {n:,}, because every record has exactly one label", int(true.sum()))
    if plan.schema.questions is not None and any(
        int(true[a.start : a.stop].sum()) != n for a in plan.schema.attributes
    ):
        reject("truth", f"add up to n = {n:,} for each attribute of the survey")
    if n < plan.n:
        raise BatchTooSmall(f"a batch must have at least {plan.n:,} people, got {n:,}")
    left, rng = check_whole("repetitions", repetitions, 1), generator(entropy)
    step, fakes = max(1, _CELLS // width), plan.protocol.fixed_fakes
    while left:
        now = min(step, left)
        left -= now
        counts, messages = _draw(true.astype(np.int64), n, plan, now, rng)
        counts.setflags(write=False)
        for row, total in zip(counts, messages.tolist(), strict=True):
            yield Tally(plan=plan.id, n=n, fakes=fakes, messages=total, batches=1, smallest_batch=n, counts=row)


def _draw(true: Numbers, n: int, plan: Plan, times: int, rng: Rng) -> tuple[Numbers, Numbers]:
    """Draw a row of counts and the total number of messages for each repetition."""
    protocol, width = plan.protocol, plan.schema.width
    if plan.schema.questions is not None:
        each = zip(plan.schema.attributes, protocol.noise, strict=True)
        parts = [_draw_answers(true[one.start : one.stop], n, noise, protocol, times, rng) for one, noise in each]
        counts = np.concatenate(parts, axis=1)
        return counts, counts.sum(axis=1)
    k, q, drawn = protocol.k, protocol.q, protocol.shuffler_fakes
    if protocol.sends_category:
        return _responses(true, n, q, times, rng), np.full(times, n, np.int64)
    if drawn is not None and protocol.sends_records:
        clear, fakes = _per_record(drawn, plan, times, rng)
    else:
        fakes = _uniform_fakes(protocol.only, n, times, rng)
        clear = column_counts(fakes, plan.schema, rng) if fakes.any() else np.zeros((times, width), np.int64)
    with_bit, everything = k * true + clear, (k * n + fakes)[:, None]
    counts = rng.binomial(with_bit, 1 - q) + rng.binomial(everything - with_bit, q)
    if drawn is not None and protocol.sends_bits:
        counts += draw_from(drawn.pmf, (times, width), rng)
    return counts, counts.sum(axis=1) if protocol.sends_bits else everything[:, 0]


def _draw_answers(true: Numbers, n: int, noise: Noise, protocol: Protocol, times: int, rng: Rng) -> Numbers:
    """Draw the counts of one attribute of a survey, a row for each repetition."""
    size, q = true.size, noise.q
    if protocol.sends_category:
        return _responses(true, n, q, times, rng)
    if noise.shuffler_fakes is not None:
        return true + draw_from(noise.shuffler_fakes.pmf, (times, size), rng)
    if noise.user_fakes is not None:
        return true + rng.multinomial(_uniform_fakes(noise, n, times, rng), np.full(size, 1 / size))
    return rng.binomial(true, 1 - q, (times, size)) + rng.binomial(n - true, q, (times, size))


def _responses(true: Numbers, n: int, q: float, times: int, rng: Rng) -> Numbers:
    """Draw the counts of categories by randomized response."""
    kept = rng.binomial(true, max(0.0, 1 - true.size * q), (times, true.size))
    lost = n - kept.sum(axis=1)
    return kept + rng.multinomial(lost, np.full(true.size, 1 / true.size))


def _uniform_fakes(noise: Noise, n: int, times: int, rng: Rng) -> Numbers:
    """Draw the number of uniform fakes of each repetition."""
    drawn = noise.user_fakes
    if drawn is None:
        return np.full(times, noise.fixed_fakes, np.int64)
    if drawn.distribution == "binomial":
        return rng.binomial(n * drawn.shift, drawn.scale, times)
    return rng.poisson(n * drawn.scale, times)


def _per_record(fakes: Fakes, plan: Plan, times: int, rng: Rng) -> tuple[Numbers, Numbers]:
    """Draw a number of fakes for each legal record; return how many have each bit, and the total."""
    schema = plan.schema
    if schema.exclusive:
        clear = draw_from(fakes.pmf, (times, schema.width), rng)
        return clear, clear.sum(axis=1)
    check_memory(f"the fakes of all records of {schema}", 8 * schema.size * (times + 2 * schema.width))
    numbers = draw_from(fakes.pmf, (times, schema.size), rng)
    bits = np.unpackbits(legal_records(schema), axis=1, bitorder="little", count=schema.width)
    # Sums of integers far below 2⁵³ are exact in float64, which multiplies matrices much faster.
    clear = np.rint(numbers.astype(np.float64) @ bits.astype(np.float64)).astype(np.int64)
    return clear, numbers.sum(axis=1)
