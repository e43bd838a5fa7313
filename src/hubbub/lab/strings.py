"""Repeated collections of strings: by records through the whole pipeline, or by counts from their exact distribution.

A synthetic population has ``STRINGS`` strings, whose frequencies are those of the labels of a one-hot question. Errors
are those of the strings that are all but surely shown; the coverage is that of all strings that are shown, at every
number of holders.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy
from hubbub.errors import BatchTooSmall, reject
from hubbub.lab.answers import QuestionTrials, SurveyTrials
from hubbub.lab.populations import GivenPopulation, Population, draw_from, generator
from hubbub.mechanisms.chances import drawn_by, table
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.model.texts import NOTHING, Strings
from hubbub.numeric.shown import conditional_interval, smallest_shown
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Bodies, Collection
from hubbub.pipeline.rows import bodies, people
from hubbub.pipeline.shuffle import shuffle

Numbers = NDArray[np.int64]
STRINGS = 10_000  # strings of a synthetic population
SURE = 1 - 1e-6  # chance of being shown from which on a string counts as surely shown


def simulate_strings(
    population: Population | GivenPopulation,
    plan: Plan,
    n: int,
    repetitions: int,
    *,
    records: bool,
    source: Entropy,
    noise: Entropy,
    level: float,
) -> SurveyTrials:
    """Simulate a plan for strings repeatedly, and return the errors and the coverage."""
    if n < plan.n:
        raise BatchTooSmall(f"a batch must have at least {plan.n:,} people, got {n:,}")
    drawn = drawn_by(plan)
    chances = table(drawn)
    held = _held(population, plan, n, source)
    truth = np.array(list(held.values()), np.int64)
    sure = truth >= smallest_shown(chances, SURE)
    if not sure.any():
        reject("the population", "have a string that is held by enough people to be shown; raise n or epsilon")
    runs = _by_records(held, plan, n, repetitions, noise) if records else left_of(truth, plan, repetitions, noise)
    number = int(sure.sum())
    errors, covered, together = np.empty((repetitions, number)), np.empty((repetitions, 1)), np.empty(repetitions, bool)
    released = 0
    for place, left in enumerate(runs):
        errors[place] = left[sure] + drawn.mean - truth[sure]
        seen = left > 0
        low, high = _ends(left[seen], chances, level)
        covered[place] = np.mean((low <= truth[seen]) & (truth[seen] <= high))
        low, high = _ends(np.maximum(left[sure], 1), chances, level ** (1 / number))
        together[place] = bool(((low <= truth[sure]) & (truth[sure] <= high)).all())
        released += int(seen.sum())
    return SurveyTrials({"": QuestionTrials(errors, covered, together, False)}, released)


def _held(population: Population | GivenPopulation, plan: Plan, n: int, source: Entropy) -> dict[bytes, int]:
    """Return how many people hold each string."""
    strings = plan.schema.texts
    assert strings is not None
    if isinstance(population, GivenPopulation):
        people = population.people(plan.schema, n, entropy=source)
        counts = Counter(row.tobytes() for row in people.rows(0, len(people)))
        return {body: count for body, count in counts.items() if body[0] != NOTHING}
    size = min(STRINGS, 26**strings.max_bytes)
    found = population.counts(Schema.one_hot(size), n, entropy=source)
    return {strings.encode(_name(i, strings)): int(count) for i, count in enumerate(found) if count}


def _name(number: int, strings: Strings) -> str:
    """Return a short string for a number.

    >>> _name(0, Strings(8)), _name(27, Strings(8))
    ('a', 'bb')
    """
    name = chr(97 + number % 26)
    while number >= 26 and len(name) < strings.max_bytes:
        number //= 26
        name = chr(97 + number % 26) + name
    return name


def _by_records(held: dict[bytes, int], plan: Plan, n: int, times: int, noise: Entropy) -> Iterator[Numbers]:
    """Yield what is left of every count after the whole pipeline."""
    strings = plan.schema.texts
    assert strings is not None
    counts = {**held, bytes(strings.size): n - sum(held.values())}
    rows = np.frombuffer(b"".join(body * count for body, count in counts.items()), np.uint8).reshape(-1, strings.size)
    everybody = Collection(plan.schema, Bodies(rows))
    for _ in range(times):
        mixed = shuffle(randomize(everybody, plan, entropy=noise), entropy=noise)
        shown = dict(zip(bodies(mixed.messages), people(mixed.messages).tolist(), strict=True))
        yield np.array([shown.get(body, 0) for body in held], np.int64)


def left_of(truth: Numbers, plan: Plan, times: int, noise: Entropy) -> Iterator[Numbers]:
    """Yield what is left of every count, drawn from its exact distribution."""
    rng, pmf = generator(noise), drawn_by(plan).pmf
    for _ in range(times):
        yield np.maximum(truth - draw_from(pmf, truth.shape, rng), 0)


def _ends(numbers: Numbers, chances: NDArray[np.float64], level: float) -> tuple[Numbers, Numbers]:
    each, place = np.unique(numbers, return_inverse=True)
    ends = np.array([conditional_interval(chances, int(one), level) for one in each], np.int64).reshape(-1, 2)
    return ends[place, 0], ends[place, 1]
