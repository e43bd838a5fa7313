"""One cell of a study: a plan simulated repeatedly on a population, and tests of its predictions.

Repetitions are independent, the labels of one collection are not. Let y be the mean of all squared errors of a
repetition, in units of their predicted variance; 2·mean(y)²/var(y) is the number of independent squared normal errors
that vary as much as y does (Satterthwaite 1946). The intervals of the error ratio and of the coverage use that number.
"""

import functools
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, chdtr, chdtrc, chdtri, ndtr

from hubbub import __version__
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.documents import Fields, Json, canonical, spell
from hubbub.errors import check_choice, check_whole
from hubbub.lab.answers import SurveyTrials, simulate
from hubbub.lab.populations import GivenPopulation, Population
from hubbub.lab.simulation import tallies_by_counts, tallies_by_records
from hubbub.lab.strings import simulate_strings
from hubbub.mechanisms.errors import predicted_errors
from hubbub.mechanisms.noise import known_total, predicted_stderr
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import clopper_pearson
from hubbub.numeric.estimation import category_variance
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Tally
from hubbub.planner import cost, family_name
from hubbub.results.estimate import estimate

Array = NDArray[np.float64]
Level = Literal["records", "counts"]
LEVEL = 0.95  # confidence level of the tested intervals and of the intervals of the results
MIN_REPETITIONS = 10  # smallest number of repetitions that gives a usable variance
LAPLACE_EXCESS = 3.0  # excess kurtosis of a Laplace distribution
SURVEY_WORK = 32  # a message of a survey costs as much as this many bits
AFFORDABLE = 2 * 10**8  # largest number of message bits in a cell that is simulated by records by default


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """A plan, a population, and how they are simulated; equal cells give equal results."""

    plan: Plan
    population: Population | GivenPopulation
    n: int
    repetitions: int
    level: Level
    seed: int
    question: str = ""
    """The question of a survey whose figures are tested."""

    def __post_init__(self) -> None:
        check_whole("n", self.n, 1, 10**10)
        check_whole("repetitions", self.repetitions, MIN_REPETITIONS)
        check_whole("seed", self.seed)
        check_choice("level", self.level, ("records", "counts"))

    @property
    def key(self) -> str:
        """A digest of everything that the results depend on, including the version of hubbub."""
        asked = [self.question] if self.question else []
        people = (self.population.name, self.n, self.repetitions)
        return digest("cell", self.plan.id, *people, self.level, self.seed, __version__, *asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of one cell; p-values test the predictions.

    Errors are numbers of people, or ranges for the sum of a number, of which a person adds at most one. For a scale,
    the counts are those below each edge.
    """

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
    promised: float  # the standard error of the plan's formula at this n, the largest over all data
    predicted: float  # root mean square, over all labels, of the standard errors predicted for this population
    observed: float  # root mean square of all errors
    ratio: float  # root mean square of the errors in units of their predictions: 1 if the predictions hold
    ratio_low: float
    ratio_high: float
    p_error: float
    bias: float  # mean of all errors
    worst_bias: float  # largest mean error of a label, in standard errors of that mean
    p_bias: float
    coverage: float  # fraction of all 95 % intervals that contain the truth
    coverage_low: float
    coverage_high: float
    p_coverage: float
    simultaneous: float  # fraction of the collections in which all simultaneous 95 % intervals contain the truth
    simultaneous_low: float
    simultaneous_high: float
    p_simultaneous: float
    messages: float  # expected messages per user, without fillers
    bytes: float  # size of a sealed bundle; infinite if the services do not offer the plan
    released: float  # observed messages per person at the analyzer, including fakes
    seconds: float  # wall-clock time of the cell, the only value that differs between runs

    def record(self) -> dict[str, Json]:
        """Return the row as a JSON object."""
        return {name: spell(value) for name, value in asdict(self).items()}

    @classmethod
    def read(cls, record: Json) -> Self:
        """Read a row from the JSON object that :meth:`record` returns."""
        columns = fields(cls)
        read = Fields(record, "a row of results", *(column.name for column in columns))
        kinds: dict[object, Callable[[str], Any]] = {str: read.text, int: read.whole, float: read.limit}
        return cls(**{column.name: kinds[column.type](column.name) for column in columns})


def digest(*parts: str | int) -> str:
    """Return the SHA-256 of a list in canonical JSON.

    >>> digest("cell", 1) == digest("cell", 1) != digest("cell", 2)
    True
    """
    return hashlib.sha256(canonical(["hubbub study 1", *parts])).hexdigest()


def level_of(plan: Plan, n: int, repetitions: int) -> Level:
    """Return ``"records"`` if the whole pipeline takes about a second, otherwise ``"counts"``.

    >>> from hubbub import Protocol, plan_from
    >>> plan = plan_from(Schema.bits(8), 1000, Protocol(0.1), delta=1e-6)
    >>> level_of(plan, 1000, 50), level_of(plan, 10**9, 50)
    ('records', 'counts')
    """
    protocol, schema = plan.protocol, plan.schema
    if schema.questions is not None:
        drawn = [(one.size, noise.shuffler_fakes) for one, noise in zip(schema.attributes, protocol.noise, strict=True)]
        fakes = sum(size * (one.mean + 1000) for size, one in drawn if one is not None)
        work = repetitions * (n * plan.payload_messages + fakes) * SURVEY_WORK
        return "records" if work <= AFFORDABLE else "counts"
    if schema.texts is not None:
        return "records" if 8 * repetitions * n * plan.payload <= AFFORDABLE else "counts"
    messages: float = protocol.k * n + protocol.fixed_fakes
    if protocol.user_fakes is not None:
        messages += n * protocol.user_fakes.mean
    if protocol.shuffler_fakes is not None:
        # The shuffler draws the number of each category exactly, which costs as much as a thousand bits.
        messages += (schema.size if protocol.sends_records else schema.width) * (protocol.shuffler_fakes.mean + 1000)
    work = repetitions * messages * schema.width
    return "records" if work <= AFFORDABLE else "counts"


def measure(cell: Cell) -> Row:
    """Simulate a cell and test its predictions."""
    start = time.perf_counter()
    plan, n = cell.plan, cell.n
    if plan.schema.questions is not None or plan.schema.texts is not None:
        return _question_row(cell, start)
    truth, tallies = _simulate(cell)
    sigma = _predicted(plan, n, truth)
    times, width = cell.repetitions, plan.schema.width
    squares, sums = np.empty(times), np.zeros(width)
    raw, covered, together, released = 0.0, 0, 0, 0
    for place, one in enumerate(tallies):
        found = estimate(one, plan).question
        error = found.values - truth
        sums += error
        raw += float(error @ error)
        squares[place] = float(np.mean((error / sigma) ** 2))
        low, high = found.interval(LEVEL)
        covered += int(((low <= truth) & (truth <= high)).sum())
        low, high = found.interval(LEVEL, simultaneous=True)
        together += bool(((low <= truth) & (truth <= high)).all())
        released += one.messages
    free = width - known_total(plan.schema, plan.protocol)  # errors of a known total add up to 0
    freedom = _freedom(squares, free, _excess(plan, n))
    ratio, p_error = _compared(float(squares.mean()), freedom)
    z = np.abs(sums) / (sigma * math.sqrt(times))
    trials = min(max(freedom, times), times * width)
    single = _share(covered / (times * width) * trials, trials)
    joint = _share(together, times)
    return Row(
        key=cell.key, plan=plan.id, schema=repr(plan.schema).removeprefix("Schema."), width=width, n=n,
        epsilon=plan.guarantee.epsilon, delta=plan.guarantee.delta, family=family_name(plan),
        release=plan.protocol.release, population=cell.population.name, level=cell.level, repetitions=times,
        promised=predicted_stderr(plan.schema, plan.protocol, n),
        predicted=float(np.sqrt(np.mean(sigma**2))),
        observed=math.sqrt(raw / (times * width)),
        ratio=ratio[0], ratio_low=ratio[1], ratio_high=ratio[2], p_error=p_error,
        bias=float(sums.mean()) / times, worst_bias=float(z.max()), p_bias=min(1.0, 2 * width * float(ndtr(-z.max()))),
        coverage=single[0], coverage_low=single[1], coverage_high=single[2], p_coverage=single[3],
        simultaneous=joint[0], simultaneous_low=joint[1], simultaneous_high=joint[2], p_simultaneous=joint[3],
        messages=plan.payload_messages, bytes=cost(plan).bytes or math.inf,
        released=released / times / n, seconds=time.perf_counter() - start,
    )  # fmt: skip


def _question_row(cell: Cell, start: float) -> Row:
    """Return the results of one question of a survey."""
    plan, n, times = cell.plan, cell.n, cell.repetitions
    simulated = trials(replace(cell, question=""))
    one = simulated.questions[cell.question]
    if plan.schema.texts is not None:
        predicted = plan.stderr
    else:
        each = predicted_errors(plan.schema, plan.protocol, n)
        predicted = next(e.people for e in each if e.question == cell.question)
    errors, width = one.errors, one.errors.shape[1]
    squares = np.asarray((errors**2).mean(axis=1) / predicted**2)
    laplace = any(noise.shuffler_fakes is not None for noise in plan.protocol.noise)
    freedom = _freedom(squares, width, LAPLACE_EXCESS if laplace else 0.0)
    ratio, p_error = _compared(float(squares.mean()), freedom)
    if one.at_most:  # the prediction is an upper bound
        p_error = float(chdtrc(freedom, freedom * float(squares.mean())))
    # Errors of one question differ by figure, so that their own spread is the measure of a bias.
    spread = np.sqrt(np.maximum((errors**2).mean(axis=0), 1e-300))
    z = np.abs(errors.sum(axis=0)) / (spread * math.sqrt(times))
    effective = min(max(freedom, times), times * width)
    single = _share(float(one.covered.mean()) * effective, effective)
    joint = _share(float(one.together.sum()), times)
    asked = repr(plan.schema).removeprefix("Schema.") + (f": {cell.question}" if cell.question else "")
    return Row(
        key=cell.key, plan=plan.id, schema=asked,
        width=width, n=n, epsilon=plan.guarantee.epsilon, delta=plan.guarantee.delta, family=family_name(plan),
        release=plan.protocol.release, population=cell.population.name, level=cell.level, repetitions=times,
        promised=predicted, predicted=predicted, observed=math.sqrt(float((errors**2).mean())),
        ratio=ratio[0], ratio_low=ratio[1], ratio_high=ratio[2], p_error=p_error,
        bias=float(errors.mean()), worst_bias=float(z.max()), p_bias=min(1.0, 2 * width * float(ndtr(-z.max()))),
        coverage=single[0], coverage_low=single[1], coverage_high=single[2], p_coverage=single[3],
        simultaneous=joint[0], simultaneous_low=joint[1], simultaneous_high=joint[2], p_simultaneous=joint[3],
        messages=plan.payload_messages, bytes=cost(plan).bytes or math.inf,
        released=simulated.released / times / n, seconds=time.perf_counter() - start,
    )  # fmt: skip


def trials(cell: Cell) -> SurveyTrials:
    """Simulate a survey; the last one is kept, because all questions of a plan use the same repetitions."""
    if cell.key not in _LAST:
        _LAST.clear()
        _LAST[cell.key] = _survey_trials(cell)
    return _LAST[cell.key]


_LAST: dict[str, SurveyTrials] = {}


def _survey_trials(cell: Cell) -> SurveyTrials:
    noise = SeededStreamNotForPeople(int(cell.key, 16))
    source = _source(cell.population, cell.plan.schema, cell.n, cell.seed)
    records = cell.level == "records"
    people = cell.population, cell.plan, cell.n, cell.repetitions
    if cell.plan.schema.texts is not None:
        return simulate_strings(*people, records=records, source=source, noise=noise, level=LEVEL)
    return simulate(*people, records=records, source=source, noise=noise)


def contradictions(rows: list[Row], level: float = 0.01) -> list[tuple[Row, str]]:
    """Return the rows that contradict a prediction, with its name.

    If all predictions hold, the list is empty with probability at least 1 − level (Bonferroni over four tests per row).
    Coverage above its level is no contradiction.
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


def _source(population: Population | GivenPopulation, schema: Schema, n: int, seed: int) -> SeededStreamNotForPeople:
    """Return the entropy of the population, which does not depend on the plan: all plans see the same people."""
    return SeededStreamNotForPeople(
        int(digest("people", population.name, schema.kind, schema.max_set, schema.width, n, seed), 16)
    )


@functools.lru_cache(1)
def _people(
    population: Population | GivenPopulation, schema: Schema, n: int, seed: int
) -> tuple[Collection, NDArray[np.int64]]:
    people = population.people(schema, n, entropy=_source(population, schema, n, seed))
    return people, people.counts()


def _predicted(plan: Plan, n: int, truth: NDArray[np.int64]) -> Array:
    """Return the standard error of each count for this population."""
    protocol, width = plan.protocol, plan.schema.width
    if protocol.sends_category:
        return np.sqrt(category_variance(truth, n, protocol.q, width))
    return np.full(width, predicted_stderr(plan.schema, protocol, n))


def _excess(plan: Plan, n: int) -> float:
    """Return the excess kurtosis of an error: that of the shuffler's draws, or 0 for sums over all people.

    Fourth cumulants add up, and a fake with the bit shows it with probability p after its flip.
    """
    protocol, schema = plan.protocol, plan.schema
    fakes = protocol.shuffler_fakes
    if fakes is None:
        return 0.0
    away = np.arange(fakes.pmf.size) - fakes.mean
    fourth = float(away**4 @ fakes.pmf) - 3 * fakes.variance**2
    shown = schema.records_with_bit * (1 - protocol.q) ** 4 if protocol.sends_records else 1.0
    spread = predicted_stderr(schema, protocol, n) * (1 - 2 * protocol.q)
    if known_total(schema, protocol):  # the label's own fakes less the mean of those of the others
        shown, spread = shown * (1 + (schema.width - 1.0) ** -3), spread * schema.width / (schema.width - 1)
    return max(0.0, shown * fourth / spread**4)


def _freedom(squares: Array, width: int, excess: float) -> float:
    """Return the degrees of freedom of all repetitions, at most those of independent labels.

    A squared error of variance 2 + excess counts less than that of a normal error, whose variance is 2. The excess is
    known in advance; estimated from a sample that happens to lack large errors, it would make intervals too short.
    """
    spread = float(squares.var(ddof=1))
    most = squares.size * width / (1 + excess / 2)
    if spread == 0:
        return most
    return min(2 * squares.size * float(squares.mean()) ** 2 / spread, most)


def _compared(square: float, freedom: float) -> tuple[tuple[float, float, float], float]:
    """Return the root of a mean square, its confidence interval, and the p-value of a mean square of 1."""
    miss = (1 - LEVEL) / 2
    low, high = (freedom * square / float(chdtri(freedom, tail)) for tail in (miss, 1 - miss))
    p = 2 * min(float(chdtr(freedom, freedom * square)), float(chdtrc(freedom, freedom * square)))
    return (math.sqrt(square), math.sqrt(low), math.sqrt(high)), min(p, 1.0)


def _share(hits: float, trials: float) -> tuple[float, float, float, float]:
    """Return a fraction, its interval (Clopper and Pearson 1934), and the p-value of at least the level."""
    low, high = clopper_pearson(hits, trials, (1 - LEVEL) / 2)
    p = float(betainc(trials - hits, hits + 1, 1 - LEVEL)) if hits < trials else 1.0
    return hits / trials, float(low), float(high), p
