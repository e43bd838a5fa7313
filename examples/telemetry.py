"""Telemetry: a survey of eight questions, answered by a million people, with the truth beside every estimate."""

import importlib.util
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
import numpy as np
from numpy.typing import NDArray

from examples._command import blocks
from hubbub import planner
from hubbub.bits.entropy import Entropy, SeededStreamNotForPeople, draw, system
from hubbub.cli import screen
from hubbub.io.files import write_text
from hubbub.io.surveys import Survey, read_survey
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports
from hubbub.pipeline.shuffle import shuffle_blocks
from hubbub.pipeline.tally import tally
from hubbub.report import render
from hubbub.report.report import Report, Section, Table
from hubbub.report.results import shown, view_blocks
from hubbub.report.words import described_error, described_questions
from hubbub.results.cross import CrossView
from hubbub.results.estimate import estimate
from hubbub.results.labels import LabelView
from hubbub.results.numbers import NumberView
from hubbub.results.result import Result
from hubbub.results.scales import ScaleView

PEOPLE = 1_000_000
FILE = Path(__file__).with_name("telemetry.toml")
BUDGET = Budget(1.0, 1e-8)
QUANTILES = (0.5, 0.95)
LEVEL = 0.95
Answers = dict[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of the survey: the truth, the estimate and its interval."""

    question: str
    item: str
    truth: float
    value: float
    low: float
    high: float
    unit: str

    @property
    def covered(self) -> bool:
        """True if the interval contains the truth."""
        return self.low <= self.truth <= self.high

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a table."""
        span = f"{shown(self.low)} – {shown(self.high)}"
        return self.question, self.item, shown(self.truth, self.unit), shown(self.value), span


@dataclass(slots=True)
class Truth:
    """The true figures of everybody whose answers were drawn."""

    n: int = 0
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    numbers: dict[str, list[Floats]] = field(default_factory=dict)

    def add(self, answers: Answers) -> None:
        """Count the answers of a block of people."""
        self.n += len(answers["channel"])
        for name in ("channel", "region", "dark mode", "crashed"):
            self._count(name, answers[name])
        both = np.char.add(np.char.add(answers["channel"].astype(str), " × "), _spelled(answers["crashed"]))
        self._count("channel × crashed", both)
        for name in ("load time", "memory", "open tabs"):
            self.numbers.setdefault(name, []).append(answers[name])

    def _count(self, name: str, column: NDArray[Any]) -> None:
        values, counts = np.unique(_spelled(column), return_counts=True)
        found = self.counts.setdefault(name, {})
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            found[value] = found.get(value, 0) + count

    def number(self, name: str) -> Floats:
        """Return all answers to a question about a number."""
        return np.concatenate(self.numbers[name])


def _spelled(column: NDArray[Any]) -> NDArray[Any]:
    """Return answers as the labels of their categories."""
    if column.dtype == bool:
        return np.where(column, "yes", "no")
    return np.where(column == None, "no answer", column).astype(str)  # noqa: E711 (element by element)


def uniform(size: int, entropy: Entropy) -> Floats:
    """Draw numbers between 0 and 1."""
    return np.asarray(((draw(entropy, size) >> np.uint64(11)) + 0.5) * 2.0**-53, np.float64)


def people(size: int, entropy: Entropy) -> Answers:
    """Draw the answers of synthetic people; testers crash more often, and slow pages need more memory."""

    def choose(labels: list[str | None], shares: list[float]) -> NDArray[Any]:
        places = np.searchsorted(np.cumsum(shares), uniform(size, entropy), side="right")
        return np.array(labels, object)[np.minimum(places, len(labels) - 1)]

    channel = choose(["release", "beta", "nightly", "extended support"], [0.86, 0.08, 0.01, 0.05])
    crash = {"release": 0.011, "beta": 0.024, "nightly": 0.09, "extended support": 0.012}
    risk = np.array([crash[name] for name in channel])
    # Box and Muller's normal deviates.
    radius, angle = np.sqrt(-2 * np.log(uniform(size, entropy))), 2 * math.pi * uniform(size, entropy)
    first, second = radius * np.cos(angle), radius * np.sin(angle)
    return {
        "channel": channel,
        "region": choose(["Africa", "Americas", "Asia", "Europe", "Oceania", None], [0.08, 0.27, 0.3, 0.3, 0.02, 0.03]),
        "dark mode": uniform(size, entropy) < 0.37,
        "crashed": uniform(size, entropy) < risk,
        "load time": np.exp(6.6 + 0.75 * first),
        "memory": np.exp(8.9 + 0.2 * first + 0.6 * second),
        "open tabs": np.floor(-7.5 * np.log(uniform(size, entropy))) + 1,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The plan, the estimates and the truth beside them."""

    plan: Plan
    estimate: Result
    lines: tuple[Line, ...]
    messages: int

    @property
    def covered(self) -> float:
        """The share of figures whose interval contains the truth."""
        return sum(line.covered for line in self.lines) / len(self.lines)

    def record(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        return {
            "people": self.estimate.n,
            "epsilon": self.plan.guarantee.epsilon,
            "delta": self.plan.guarantee.delta,
            "messages": self.messages,
            "covered": self.covered,
            "lines": [{name: getattr(line, name) for name in Line.__slots__} for line in self.lines],
        }


def chosen(survey: Survey, n: int) -> Plan:
    """Return the plan: the shuffler draws the fakes, so that the error hardly depends on the number of people."""
    return planner.plan(survey.schema, n, BUDGET, trust="shuffler-noise", weights=survey.weights)


def run(n: int, entropy: Entropy, tell: Callable[[int], None] = lambda _: None) -> Outcome:
    """Plan, draw the people, send every answer through client, shuffler and analyzer, and compare."""
    survey, truth = read_survey(FILE), Truth()
    plan = chosen(survey, n)

    def reports() -> Iterator[Reports]:
        for size in blocks(n):
            answers = people(size, entropy)
            truth.add(answers)
            yield randomize(Collection.from_values(answers, plan.schema, entropy=entropy), plan, entropy=entropy)
            tell(size)

    fast = importlib.util.find_spec("numba") is not None
    scratch = cast(Callable[[], BinaryIO], tempfile.TemporaryFile)
    counted = tally(shuffle_blocks(reports(), plan, scratch, memory=1 << 29, entropy=entropy, fast=fast))
    found = estimate(counted, plan)
    return Outcome(plan=plan, estimate=found, lines=tuple(_lines(found, truth)), messages=counted.messages)


def _lines(found: Result, truth: Truth) -> Iterator[Line]:
    for name, result in found.views:
        if isinstance(result, ScaleView | NumberView):
            yield from _numbers(name, result, truth.number(name))
        else:
            counts = result.cells if isinstance(result, CrossView) else result
            assert isinstance(counts, LabelView)
            yield from _counts(name, counts, truth.counts[name])


def _counts(name: str, counts: LabelView, truth: Mapping[str, int]) -> Iterator[Line]:
    low, high = counts.interval(LEVEL)
    for place, label in enumerate(counts.labels):
        yield Line(
            question=name,
            item=label,
            truth=truth.get(label, 0),
            value=float(counts.values[place]),
            low=float(low[place]),
            high=float(high[place]),
            unit="people",
        )


def _numbers(name: str, result: ScaleView | NumberView, truth: Floats) -> Iterator[Line]:
    if isinstance(result, ScaleView):
        figures = [(result.quantile(p), float(np.quantile(truth, p))) for p in QUANTILES]
    else:
        clipped = np.clip(truth, result.question.low, result.question.high)
        figures = [(result.mean, float(clipped.mean()))]
    for measure, real in figures:
        low, high = measure.interval(LEVEL)
        yield Line(
            question=name, item=measure.name, truth=real, value=measure.value, low=low, high=high, unit=measure.unit
        )


HEAD = ("question", "figure", "truth", "estimate", "95 % interval")


def page(outcome: Outcome) -> str:
    """Return the outcome as one HTML page."""
    plan, estimate = outcome.plan, outcome.estimate
    rows = [(one.name, one.layout, described_error(one.error), one.noise) for one in described_questions(plan)]
    report = Report(
        title="hubbub: telemetry",
        heading="Telemetry",
        lede=f"Eight questions, answered by {estimate.n:,} synthetic people; the truth stands beside the estimates.",
        tiles=[
            (f"{estimate.n:,} people", f"{outcome.messages:,} messages, fakes included"),
            (f"ε = {plan.guarantee.epsilon:.3g}", f"δ = {plan.guarantee.delta:.2g}, proven for every person"),
            (f"{outcome.covered:.1%}", f"of {len(outcome.lines)} intervals contain the truth"),
        ],
        sections=[
            Section("The plan", [Table(("question", "counted as", "standard error", "noise"), rows)]),
            Section("Truth and estimate", [Table(HEAD, [line.cells() for line in outcome.lines])]),
            *(Section(name, view_blocks(name, result, level=LEVEL)) for name, result in estimate.views),
        ],
        note="Every answer went through client, shuffler and analyzer; the people are synthetic.",
        plan=plan.id,
    )
    return render(report)


@click.command(help=__doc__)
@click.option("--people", "n", type=click.IntRange(1000, 10**7), default=PEOPLE, show_default=True, help="People.")
@click.option("--seed", type=click.IntRange(0), help="Make the run reproducible; the people are synthetic.")
@click.option("-o", "--output", metavar="FILE", help="Write an HTML page with charts.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def main(n: int, seed: int | None, output: str | None, as_json: bool) -> None:
    """Run the example."""
    outcome = run(n, system if seed is None else SeededStreamNotForPeople(seed))
    if output is not None:
        write_text(output, page(outcome))
    if as_json:
        screen.print_json(outcome.record())
    elif output != "-":
        view = screen.console()
        table = screen.grid("", HEAD, [line.cells() for line in outcome.lines], left=2)
        view.print(table)
        cost = planner.cost(outcome.plan)
        view.print(f"{outcome.covered:.1%} of {len(outcome.lines)} intervals contain the truth; {cost}.")


if __name__ == "__main__":
    main()
