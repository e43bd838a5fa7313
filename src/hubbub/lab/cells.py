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
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, chdtr, chdtrc, chdtri, ndtr

from hubbub import __version__
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.documents import Fields, Json, canonical, spell
from hubbub.errors import BatchTooSmall, check_choice, check_whole, reject
from hubbub.lab.answers import LEVEL, decoded, draw_answers, encoded, figures, results, true_figures
from hubbub.lab.mechanisms import ShufflerFakes, columns, fakes_of, kinds_of
from hubbub.lab.populations import GivenPopulation, Population, string_counts
from hubbub.lab.simulation import left_by_records, left_of, tallies_by_counts, tallies_by_records
from hubbub.mechanisms.chances import drawn_by, table
from hubbub.mechanisms.errors import predicted_errors
from hubbub.mechanisms.noise import known_total, predicted_stderr
from hubbub.model.plans import Plan
from hubbub.model.questions import Number
from hubbub.model.schema import Schema
from hubbub.numeric.binomial import clopper_pearson
from hubbub.numeric.estimation import category_variance
from hubbub.numeric.shown import conditional_interval, smallest_shown
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Tally
from hubbub.planner import cost, family_name

Array = NDArray[np.float64]
Level = Literal["records", "counts"]
SURE = 1 - 1e-6  # chance of being shown from which on a string counts as surely shown
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
    if schema.text is not None:
        return "records" if 8 * repetitions * n * plan.payload <= AFFORDABLE else "counts"
    parts = columns(plan)
    sent, each = (protocol.k * n, schema.width) if len(parts) == 1 else (n * plan.payload_messages, SURVEY_WORK)
    drawn = 0.0
    for one in parts:
        source = fakes_of(one.noise)
        drawn += source.expected(n, one.schema, protocol.release)
        if isinstance(source, ShufflerFakes):
            # It draws the number of each category exactly, which costs as much as a thousand bits.
            drawn += 1000 * kinds_of(one.schema, protocol.release)
    return "records" if repetitions * (sent + drawn) * each <= AFFORDABLE else "counts"


@dataclass(slots=True, eq=False)
class Trials:
    """The errors of all figures of one question, added up over all repetitions."""

    sigma: Array
    """The predicted standard error of each figure."""
    exact: bool
    """True if it is that of each figure for this population, otherwise one for all figures, or for all data."""
    at_most: bool = False
    """True if it is the largest over all data."""
    squares: list[float] = field(default_factory=list)
    """By repetition, the mean square of the errors in units of their predictions."""
    sums: Array = field(default_factory=lambda: np.zeros(1))
    second: Array = field(default_factory=lambda: np.zeros(1))
    """The sums of the errors of each figure, and of their squares."""
    hits: float = 0.0
    cases: int = 0
    """Intervals that cover the truth, and all of them."""
    together: int = 0
    """Repetitions in which all simultaneous intervals cover the truth."""

    def add(self, errors: Array, covered: NDArray[Any], together: bool) -> None:
        """Add the figures of one repetition."""
        self.squares.append(float(np.mean((errors / self.sigma) ** 2)))
        self.sums, self.second = self.sums + errors, self.second + errors**2
        self.hits, self.cases = self.hits + float(covered.sum()), self.cases + covered.size
        self.together += together

    @property
    def bias(self) -> Array:
        """The mean error of each figure in standard errors of that mean."""
        times = len(self.squares)
        # If the figures of a question differ, their own spread is the measure of a bias.
        spread = self.sigma if self.exact else np.sqrt(np.maximum(self.second / times, 1e-300))
        return np.asarray(np.abs(self.sums) / (spread * math.sqrt(times)))


@dataclass(slots=True, eq=False)
class Simulated:
    """The repetitions of a plan: by question, and the messages of all."""

    questions: dict[str, Trials]
    released: int = 0


def measure(cell: Cell) -> Row:
    """Simulate a cell and test its predictions."""
    start = time.perf_counter()
    plan, n, times = cell.plan, cell.n, cell.repetitions
    simulated = trials(cell)
    one = simulated.questions[cell.question]
    width, squares = one.sums.size, np.array(one.squares)
    free = width - known_total(plan.schema, plan.protocol)  # errors of a known total add up to 0
    freedom = _freedom(squares, free, _excess(plan, n, exact=one.exact))
    ratio, p_error = _compared(float(squares.mean()), freedom)
    if one.at_most:  # the prediction is an upper bound
        p_error = float(chdtrc(freedom, freedom * float(squares.mean())))
    effective = min(max(freedom, times), times * width)
    single = _share(one.hits / one.cases * effective, effective)
    joint, worst = _share(one.together, times), float(one.bias.max())
    predicted = float(np.sqrt(np.mean(one.sigma**2)))
    asked = repr(plan.schema).removeprefix("Schema.") + (f": {cell.question}" if cell.question else "")
    return Row(
        key=cell.key, plan=plan.id, schema=asked, width=width, n=n,
        epsilon=plan.guarantee.epsilon, delta=plan.guarantee.delta, family=family_name(plan),
        release=plan.protocol.release, population=cell.population.name, level=cell.level, repetitions=times,
        promised=predicted_stderr(plan.schema, plan.protocol, n) if one.exact else predicted, predicted=predicted,
        observed=math.sqrt(float(one.second.sum()) / (times * width)),
        ratio=ratio[0], ratio_low=ratio[1], ratio_high=ratio[2], p_error=p_error,
        bias=float(one.sums.mean()) / times, worst_bias=worst, p_bias=min(1.0, 2 * width * float(ndtr(-worst))),
        coverage=single[0], coverage_low=single[1], coverage_high=single[2], p_coverage=single[3],
        simultaneous=joint[0], simultaneous_low=joint[1], simultaneous_high=joint[2], p_simultaneous=joint[3],
        messages=plan.payload_messages, bytes=cost(plan).bytes or math.inf,
        released=simulated.released / times / n, seconds=time.perf_counter() - start,
    )  # fmt: skip


def trials(cell: Cell) -> Simulated:
    """Simulate a cell; the last survey is kept, because all questions of a plan use the same repetitions."""
    if not cell.question:
        return _simulate(cell)
    whole = replace(cell, question="")
    if whole.key not in _LAST:
        _LAST.clear()
        _LAST[whole.key] = _simulate(whole)
    return _LAST[whole.key]


_LAST: dict[str, Simulated] = {}


def _simulate(cell: Cell) -> Simulated:
    """Collect repeatedly, by records or by counts, and compare the estimates with the truth."""
    plan, n = cell.plan, cell.n
    if plan.schema.text is not None:
        return _simulate_strings(cell)
    truth, answered, tallies = _collected(cell)
    predicted = {name: _predicted(plan, n, name, true) for name, true in truth.items()}
    found = {name: Trials(sigma, exact=not name, at_most=_at_most(plan, name)) for name, sigma in predicted.items()}
    simulated = Simulated(found)
    for one in tallies:
        simulated.released += one.messages
        for name, result in results(one, plan).items():
            shown = figures(result, truth[name], answered.get(name, n))
            found[name].add(shown.values - truth[name], shown.covered, shown.together)
    return simulated


def _collected(cell: Cell) -> tuple[dict[str, Array], dict[str, int], Iterator[Tally]]:
    """Return the true figures of every question, how many people answer it, and the tallies of all repetitions.

    Synthetic numbers are rounded afresh every time; those of a given population were rounded when it was read.
    """
    plan, schema, n, times = cell.plan, cell.plan.schema, cell.n, cell.repetitions
    source, noise = _source(cell), SeededStreamNotForPeople(int(cell.key, 16))
    if not schema.named:
        if cell.level == "records":
            people, counts = _people(cell.population, schema, n, cell.seed)
            return {"": counts.astype(np.float64)}, {}, tallies_by_records(people, plan, times, entropy=noise)
        counts = cell.population.counts(schema, n, entropy=source)
        return {"": counts.astype(np.float64)}, {}, tallies_by_counts(counts, n, plan, times, entropy=noise)
    given = None
    if isinstance(cell.population, GivenPopulation):
        given = cell.population.people(schema, n, entropy=source)
        answers = decoded(given)
    else:
        answers = draw_answers(cell.population, schema, n, entropy=source)

    def repeated() -> Iterator[Tally]:
        for _ in range(times):
            people = encoded(answers, schema, entropy=noise) if given is None else given
            if cell.level == "records":
                yield from tallies_by_records(people, plan, 1, entropy=noise)
            else:
                yield from tallies_by_counts(people.counts(), n, plan, 1, entropy=noise)

    present = {name: int((~one.absent).sum()) for name, one in answers.items()}
    return true_figures(answers, schema), present, repeated()


def _at_most(plan: Plan, question: str) -> bool:
    """Return True if the predicted error of a question of a survey is the largest over all data."""
    if not question:
        return False
    many = plan.protocol.sends_category and any(one.size > 2 for one in plan.schema.attributes)
    return many or isinstance(plan.schema.questions[question], Number)


def _simulate_strings(cell: Cell) -> Simulated:
    """Collect strings repeatedly.

    Errors are those of the strings that are all but surely shown; the coverage is that of all strings that are shown,
    at every number of holders.
    """
    plan, n, times, noise = cell.plan, cell.n, cell.repetitions, SeededStreamNotForPeople(int(cell.key, 16))
    if n < plan.n:
        raise BatchTooSmall(f"a batch must have at least {plan.n:,} people, got {n:,}")
    drawn = drawn_by(plan)
    chances = table(drawn)
    held = string_counts(cell.population, plan.schema, n, entropy=_source(cell))
    truth = np.array(list(held.values()), np.int64)
    sure = truth >= smallest_shown(chances, SURE)
    if not sure.any():
        reject("the population", "have a string that is held by enough people to be shown; raise n or epsilon")
    by_records = cell.level == "records"
    runs = left_by_records(held, plan, n, times, noise) if by_records else left_of(truth, plan, times, noise)
    found = Trials(np.array([plan.stderr]), exact=False)
    simulated = Simulated({"": found})
    for left in runs:
        seen = left > 0
        low, high = _ends(left[seen], chances, LEVEL)
        covered = np.mean((low <= truth[seen]) & (truth[seen] <= high), keepdims=True)
        low, high = _ends(np.maximum(left[sure], 1), chances, LEVEL ** (1 / int(sure.sum())))
        together = bool(((low <= truth[sure]) & (truth[sure] <= high)).all())
        found.add(np.asarray(left[sure] + drawn.mean - truth[sure], np.float64), covered, together)
        simulated.released += int(seen.sum())
    return simulated


def _ends(numbers: NDArray[np.int64], chances: Array, level: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    each, place = np.unique(numbers, return_inverse=True)
    ends = np.array([conditional_interval(chances, int(one), level) for one in each], np.int64).reshape(-1, 2)
    return ends[place, 0], ends[place, 1]


def contradictions(rows: list[Row], level: float = 0.01) -> list[tuple[Row, str]]:
    """Return the rows that contradict a prediction, with its name.

    If all predictions hold, the list is empty with probability at least 1 − level (Bonferroni over four tests per row).
    Coverage above its level is no contradiction.
    """
    limit = level / max(4 * len(rows), 1)
    names = {"p_error": "error", "p_bias": "bias", "p_coverage": "coverage", "p_simultaneous": "simultaneous coverage"}
    return [(row, what) for row in rows for name, what in names.items() if getattr(row, name) < limit]


def _source(cell: Cell) -> SeededStreamNotForPeople:
    """Return the entropy of the population, which does not depend on the plan: all plans see the same people."""
    return _people_source(cell.population, cell.plan.schema, cell.n, cell.seed)


def _people_source(
    population: Population | GivenPopulation, schema: Schema, n: int, seed: int
) -> SeededStreamNotForPeople:
    what = (population.name, schema.form, schema.max_set, schema.width, n, seed)
    return SeededStreamNotForPeople(int(digest("people", *what), 16))


@functools.lru_cache(1)
def _people(
    population: Population | GivenPopulation, schema: Schema, n: int, seed: int
) -> tuple[Collection, NDArray[np.int64]]:
    people = population.people(schema, n, entropy=_people_source(population, schema, n, seed))
    return people, people.counts()


def _predicted(plan: Plan, n: int, question: str, truth: Array) -> Array:
    """Return the standard error of each count for this population, or one for all figures of a question."""
    protocol, width = plan.protocol, plan.schema.width
    if question:
        each = predicted_errors(plan.schema, protocol, n)
        return np.array([next(one.people for one in each if one.question == question)])
    if protocol.sends_category:
        return np.sqrt(category_variance(truth, n, protocol.q, width))
    return np.full(width, predicted_stderr(plan.schema, protocol, n))


def _excess(plan: Plan, n: int, *, exact: bool) -> float:
    """Return the excess kurtosis of an error: that of the shuffler's draws, or 0 for sums over all people.

    Fourth cumulants add up, and a fake with the bit shows it with probability p after its flip.
    """
    protocol, schema = plan.protocol, plan.schema
    drawn = [source.distribution for source in map(fakes_of, protocol.noise) if isinstance(source, ShufflerFakes)]
    if not drawn or not exact:
        return LAPLACE_EXCESS if drawn else 0.0
    fakes = drawn[0]
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
