"""One cell of a study: a plan on a population, repeated; and what the repetitions say about its predictions.

Labels of one collection are not independent, repetitions are. Of each repetition the mean y of all squared errors, in
units of their predicted variance, is taken; 2·mean(y)²/var(y) is how many independent squared normal errors vary as
much as y does (Satterthwaite 1946). On that number rest the intervals of the ratio of errors and of the coverage.
"""

import functools
import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, chdtr, chdtrc, chdtri, ndtr

from hubbub import __version__
from hubbub.analyzer import estimate
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.canonical import Json, as_limit, as_text, as_whole, canonical, spell
from hubbub.canonical import fields as read_fields
from hubbub.errors import check_whole, reject
from hubbub.estimates import predicted_stderr
from hubbub.lab.populations import Given, Population, true_counts
from hubbub.lab.simulation import tallies_by_counts, tallies_by_records
from hubbub.numeric.binomial import clopper_pearson
from hubbub.numeric.estimation import category_variance
from hubbub.planner import cost, family_name
from hubbub.plans import Plan
from hubbub.protocol import Fakes
from hubbub.records import Collection
from hubbub.reports import Tally
from hubbub.schema import Schema

Array = NDArray[np.float64]
Level = Literal["records", "counts"]
LEVEL = 0.95
"""Of the intervals that are checked, and of those that are stated about them."""
LEAST = 10
"""Repetitions from which a spread can be spoken of."""
AFFORDABLE = 2 * 10**8
"""Bits of all messages of a cell up to which it goes through the whole street unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """A plan, people, and how often and how they are simulated; the same cell always gives the same figures."""

    plan: Plan
    population: Population | Given
    n: int
    repetitions: int
    level: Level
    seed: int

    def __post_init__(self) -> None:
        check_whole("n", self.n, 1, 10**10)
        check_whole("repetitions", self.repetitions, LEAST)
        check_whole("seed", self.seed)
        if self.level not in ("records", "counts"):
            reject("level", "be 'records' or 'counts'", self.level)

    @property
    def key(self) -> str:
        """A digest of everything that the figures depend on, the version of hubbub included."""
        return digest(
            "cell", self.plan.id, self.population.name, self.n, self.repetitions, self.level, self.seed, __version__
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the repetitions of one cell showed. Errors are in people; p-values are those of the predictions."""

    key: str
    plan: str
    schema: str
    width: int
    n: int
    epsilon: float
    delta: float
    family: str
    release: str
    population: str
    level: str
    repetitions: int
    promised: float
    """The standard error by the plan's formula at this n: the largest over all data."""
    predicted: float
    """Root mean square, over the labels, of the standard errors that theory gives for these people."""
    observed: float
    """Root mean square of all errors."""
    ratio: float
    """Root mean square of the errors, each in units of its own prediction: 1 if the prediction holds."""
    ratio_low: float
    ratio_high: float
    p_error: float
    bias: float
    """Mean of all errors."""
    worst_bias: float
    """The largest mean error of a label, in standard errors of that mean."""
    p_bias: float
    coverage: float
    """The share of all 95 % intervals that held the truth."""
    coverage_low: float
    coverage_high: float
    p_coverage: float
    simultaneous: float
    """The share of the collections in which all simultaneous 95 % intervals held the truth at once."""
    simultaneous_low: float
    simultaneous_high: float
    p_simultaneous: float
    messages: float
    """Expected messages of a user, fillers not included."""
    bytes: float
    """Size of a sealed bundle; infinite if the services do not offer the plan."""
    released: float
    """Messages that the analyzer saw, fakes included, for each person: as observed."""
    seconds: float
    """Of the whole cell, by the clock on the wall; the only figure that another run does not repeat."""

    def record(self) -> dict[str, Json]:
        """The row for JSON."""
        return {name: spell(value) for name, value in asdict(self).items()}

    @classmethod
    def read(cls, record: Json) -> Self:
        """The row that :meth:`record` wrote."""
        kinds = {"str": as_text, "int": as_whole, "float": as_limit}
        names = {field.name: kinds[getattr(field.type, "__name__", "")] for field in fields(cls)}
        return cls(**read_fields(record, "a row of results", names))  # type: ignore[arg-type]


def digest(*parts: str | int) -> str:
    """SHA-256 of a list in its canonical form.

    >>> digest("cell", 1) == digest("cell", 1) != digest("cell", 2)
    True
    """
    return hashlib.sha256(canonical(["hubbub study 1", *parts])).hexdigest()


def level_of(plan: Plan, n: int, repetitions: int) -> Level:
    """Records where the whole street takes a second or so, counts beyond.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> own = plan_from(Schema.bits(8), 1000, Protocol(0.1), delta=1e-6)
    >>> level_of(own, 1000, 50), level_of(own, 10**9, 50)
    ('records', 'counts')
    """
    m = plan.protocol.m
    if not isinstance(m, Fakes):
        fakes: float = m
    elif m.by == "users":
        fakes = n * m.mean
    else:
        # A shuffler draws the number of each kind exactly, which costs as much as a thousand bits.
        fakes = (plan.schema.size if plan.protocol.sends_records else plan.schema.width) * (m.mean + 1000)
    work = repetitions * (plan.protocol.k * n + fakes) * plan.schema.width
    return "records" if work <= AFFORDABLE else "counts"


def measure(cell: Cell) -> Row:
    """Run a cell."""
    start = time.perf_counter()
    plan, n = cell.plan, cell.n
    truth, tallies = _simulate(cell)
    sigma = _predicted(plan, n, truth)
    times, width = cell.repetitions, plan.schema.width
    squares, sums = np.empty(times), np.zeros(width)
    raw, covered, together, released = 0.0, 0, 0, 0
    for place, one in enumerate(tallies):
        found = estimate(one, plan)
        error = found.values - truth
        sums += error
        raw += float(error @ error)
        squares[place] = float(np.mean((error / sigma) ** 2))
        low, high = found.interval(LEVEL)
        covered += int(((low <= truth) & (truth <= high)).sum())
        low, high = found.interval(LEVEL, simultaneous=True)
        together += bool(((low <= truth) & (truth <= high)).all())
        released += one.messages
    freedom = _freedom(squares, width, _excess(plan, n))
    ratio, p_error = _compared(float(squares.mean()), freedom)
    z = np.abs(sums) / (sigma * math.sqrt(times))
    trials = min(max(freedom, times), times * width)
    single = _share(covered / (times * width) * trials, trials)
    joint = _share(together, times)
    guarantee = plan.guarantee
    return Row(
        key=cell.key,
        plan=plan.id,
        schema=repr(plan.schema).removeprefix("Schema."),
        width=width,
        n=n,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        family=family_name(plan),
        release=plan.protocol.release,
        population=cell.population.name,
        level=cell.level,
        repetitions=times,
        promised=predicted_stderr(plan.schema, plan.protocol, n),
        predicted=float(np.sqrt(np.mean(sigma**2))),
        observed=math.sqrt(raw / (times * width)),
        ratio=ratio[0],
        ratio_low=ratio[1],
        ratio_high=ratio[2],
        p_error=p_error,
        bias=float(sums.mean()) / times,
        worst_bias=float(z.max()),
        p_bias=min(1.0, 2 * width * float(ndtr(-z.max()))),
        coverage=single[0],
        coverage_low=single[1],
        coverage_high=single[2],
        p_coverage=single[3],
        simultaneous=joint[0],
        simultaneous_low=joint[1],
        simultaneous_high=joint[2],
        p_simultaneous=joint[3],
        messages=plan.payload_messages,
        bytes=cost(plan).bytes or math.inf,
        released=released / times / n,
        seconds=time.perf_counter() - start,
    )


def contradictions(rows: list[Row], level: float = 0.01) -> list[tuple[Row, str]]:
    """The rows, and what about them, that contradict a prediction, if all predictions hold with probability 1 − level.

    Bonferroni over four figures a row. Coverage above its level is no contradiction.
    """
    limit = level / max(4 * len(rows), 1)
    names = {"p_error": "error", "p_bias": "bias", "p_coverage": "coverage", "p_simultaneous": "simultaneous coverage"}
    return [(row, what) for row in rows for name, what in names.items() if getattr(row, name) < limit]


def _simulate(cell: Cell) -> tuple[NDArray[np.int64], Iterator[Tally]]:
    schema, n, noise = cell.plan.schema, cell.n, SeededStreamNotForPeople(int(cell.key, 16))
    if cell.level == "records":
        people, truth = _people(cell.population, schema, n, cell.seed)
        return truth, tallies_by_records(people, cell.plan, cell.repetitions, entropy=noise)
    source = _source(cell.population, schema, n, cell.seed)
    truth = cell.population.counts(schema, n, entropy=source)
    return truth, tallies_by_counts(truth, n, cell.plan, cell.repetitions, entropy=noise)


def _source(population: Population | Given, schema: Schema, n: int, seed: int) -> SeededStreamNotForPeople:
    """People do not depend on the plan, so that all plans are tried on the same ones."""
    return SeededStreamNotForPeople(
        int(digest("people", population.name, schema.kind, schema.max_set, schema.width, n, seed), 16)
    )


@functools.lru_cache(1)
def _people(population: Population | Given, schema: Schema, n: int, seed: int) -> tuple[Collection, NDArray[np.int64]]:
    people = population.people(schema, n, entropy=_source(population, schema, n, seed))
    return people, true_counts(people)


def _predicted(plan: Plan, n: int, truth: NDArray[np.int64]) -> Array:
    """σ of each count for these people."""
    protocol, width = plan.protocol, plan.schema.width
    if protocol.sends_category:
        return np.sqrt(category_variance(truth, n, protocol.q, width))
    return np.full(width, predicted_stderr(plan.schema, protocol, n))


def _excess(plan: Plan, n: int) -> float:
    """The excess kurtosis of one error: that of a shuffler's few draws, 0 for sums over all people.

    Fourth cumulants add up, and a drawn fake with the bit still shows it with probability p after its flip.
    """
    protocol, schema = plan.protocol, plan.schema
    if not isinstance(protocol.m, Fakes) or protocol.m.by == "users":
        return 0.0
    pmf = protocol.m.pmf
    away = np.arange(pmf.size) - protocol.m.mean
    fourth = float(away**4 @ pmf) - 3 * protocol.m.variance**2
    shown = schema.records_with_bit * (1 - protocol.q) ** 4 if protocol.sends_records else 1.0
    return max(0.0, shown * fourth / (predicted_stderr(schema, protocol, n) * (1 - 2 * protocol.q)) ** 4)


def _freedom(squares: Array, width: int, excess: float) -> float:
    """Degrees of freedom of all repetitions together, at most those of independent labels.

    A squared error of variance 2 + excess counts for less than one of a normal law, of variance 2. That is known before
    and must not be left to the sample: one that happens to lack large errors would seem too sure of itself.
    """
    spread = float(squares.var(ddof=1))
    most = squares.size * width / (1 + excess / 2)
    if spread == 0:
        return most
    return min(2 * squares.size * float(squares.mean()) ** 2 / spread, most)


def _compared(square: float, freedom: float) -> tuple[tuple[float, float, float], float]:
    """√ of a mean square that should be 1, the ends of its interval, and the p-value of that it should."""
    miss = (1 - LEVEL) / 2
    low, high = (freedom * square / float(chdtri(freedom, tail)) for tail in (miss, 1 - miss))
    p = 2 * min(float(chdtr(freedom, freedom * square)), float(chdtrc(freedom, freedom * square)))
    return (math.sqrt(square), math.sqrt(low), math.sqrt(high)), min(p, 1.0)


def _share(hits: float, trials: float) -> tuple[float, float, float, float]:
    """A share, its interval (Clopper and Pearson 1934), and the p-value of that it should be at least the level."""
    low, high = clopper_pearson(hits, trials, (1 - LEVEL) / 2)
    p = float(betainc(trials - hits, hits + 1, 1 - LEVEL)) if hits < trials else 1.0
    return hits / trials, float(low), float(high), p
