"""``SurveyEstimate``: the estimates of all questions of a survey, and their JSON."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hubbub.documents import Fields, Json, legal, parse
from hubbub.errors import OPEN_UNIT, WireError, check_real, check_type, check_whole, kind_of, reject
from hubbub.mechanisms.design import places
from hubbub.model.privacy import Guarantee
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.model.schema import Schema
from hubbub.pipeline.reports import MAX_DECLARED
from hubbub.results.answers import AnswerCounts, sizes_of
from hubbub.results.counts import LEVEL, Estimate
from hubbub.results.cross import CrossEstimate
from hubbub.results.frames import Columns, to_arrow, to_pandas, to_polars
from hubbub.results.measures import listed
from hubbub.results.numbers import NumberEstimate
from hubbub.results.scales import ScaleEstimate
from hubbub.results.tables import choice_estimate, cross_estimate

if TYPE_CHECKING:
    from hubbub.report import Chart

FORMAT = "hubbub survey estimate 1"
Result = Estimate | ScaleEstimate | NumberEstimate | CrossEstimate
FIGURES = ("value", "stderr", "low", "high", "population_low", "population_high")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class SurveyEstimate:
    """The estimates of all questions of a survey: ``estimate["load time"]`` is one, iteration goes through the names.

    A choice or a flag has an :class:`Estimate` of its labels, a scale a :class:`ScaleEstimate`, a number a
    :class:`NumberEstimate`, a cross-table a :class:`CrossEstimate`. Created by :func:`hubbub.estimate_survey`.
    """

    schema: Schema
    """The survey with the layout of its plan."""
    n: int
    counts: tuple[AnswerCounts, ...]
    """Unbiased counts of every attribute, from which all results follow."""
    plan: str | None = None
    """Id of the plan, or None for batches of several plans."""
    achieved: Guarantee | Callable[[], Guarantee | None] | None = field(default=None)
    """The guarantee of the people that were counted, or a function that computes it; see :attr:`guarantee`."""
    results: tuple[tuple[str, Result], ...] = field(init=False)
    """The names of the questions with their estimates."""

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema)
        check_whole("n", self.n, 0, MAX_DECLARED)
        if not self.schema.named:
            reject("schema", "be that of a survey")
        if sizes_of(self.counts) != [one.size for one in self.schema.attributes]:
            reject("counts", "be the counts of every attribute of the survey")
        if self.plan is not None:
            check_type("plan", self.plan, str)
        if self.achieved is not None and not callable(self.achieved):
            check_type("achieved", self.achieved, Guarantee)
        where = places(self.schema)
        found = tuple((name, self._result(name, one, where[name])) for name, one in self.schema.questions.items)
        object.__setattr__(self, "results", found)

    def _result(self, name: str, question: Question, where: tuple[int, ...]) -> Result:
        own = tuple(self.counts[place] for place in where)
        if isinstance(question, Scale):
            return ScaleEstimate(name=name, question=question, n=self.n, attributes=own, plan=self.plan)
        if isinstance(question, Number):
            return NumberEstimate(name=name, question=question, n=self.n, attributes=own, plan=self.plan)
        if isinstance(question, Cross):
            return cross_estimate(name, question, self.counts, self.schema, self.n, self.plan)
        assert isinstance(question, Choice | Flag)
        return choice_estimate(name, question, self.counts, self.schema, self.n, self.plan)

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the people that were counted; it is computed on first use, which may take seconds."""
        found = self.achieved
        if callable(found):
            found = found()
            object.__setattr__(self, "achieved", found)
        return found

    @property
    def excess(self) -> tuple[str, ...]:
        """Answers that more people seem to have given than were counted; see :attr:`hubbub.Estimate.excess`."""
        tables = [(name, one.cells if isinstance(one, CrossEstimate) else one) for name, one in self.results]
        return tuple(f"{name}, {label}" for name, one in tables if isinstance(one, Estimate) for label in one.excess)

    def __len__(self) -> int:
        return len(self.results)

    def __contains__(self, name: object) -> bool:
        return any(name == one for one, _ in self.results)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.results)

    def __getitem__(self, name: str) -> Result:
        for one, result in self.results:
            if isinstance(name, str) and one == name:
                return result
        more = ", …" if len(self) > 3 else ""
        return reject("name", f"be the name of a question ({', '.join(map(repr, list(self)[:3]))}{more})")

    def columns(self, level: float = LEVEL) -> Columns:
        """Return a row for each figure of every question.

        Labels and cells with their numbers of people, quantiles of scales, mean, sum and variance of numbers, and the
        number of people who answered where answers may be missing; with the unit, the standard error and both
        intervals. Intervals of the population of counts are numbers of people as well; NaN where there is none.
        """
        texts: dict[str, list[str]] = {"question": [], "item": [], "unit": []}
        figures: dict[str, list[float]] = {name: [] for name in FIGURES}

        def add(question: str, item: str, unit: str, row: tuple[float, ...]) -> None:
            for key, text in zip(texts, (question, item, unit), strict=True):
                texts[key].append(text)
            for key, figure in zip(figures, row, strict=True):
                figures[key].append(figure)

        for name, result in self.results:
            if isinstance(result, ScaleEstimate | NumberEstimate):
                for one in result.measures():
                    shown = one.to_document(level)
                    add(name, one.name, one.unit, tuple(_real(shown[figure]) for figure in FIGURES))
            else:
                counted = result.cells if isinstance(result, CrossEstimate) else result
                ends = (*counted.interval(level), *counted.interval(level, of="population"))
                rows = np.column_stack([counted.values, counted.stderr, *ends]).tolist()
                for label, row in zip(counted.labels, rows, strict=True):
                    add(name, label, "people", tuple(row))
        return {**texts, **{name: np.array(column, np.float64) for name, column in figures.items()}}

    def to_arrow(self, level: float = LEVEL) -> Any:
        """Return a PyArrow table with a row for each figure; needs the extra ``frames``."""
        return to_arrow(self.columns(level))

    def to_pandas(self, level: float = LEVEL) -> Any:
        """Return a pandas data frame with a row for each figure; needs the extra ``frames``, and pandas."""
        return to_pandas(self.columns(level))

    def to_polars(self, level: float = LEVEL) -> Any:
        """Return a Polars data frame with a row for each figure; needs the extra ``frames``, and Polars."""
        return to_polars(self.columns(level))

    def plot(self, name: str, *, level: float = LEVEL) -> "Chart":
        """Return the chart of one question; ``.save(path)`` writes SVG, PNG or PDF."""
        return self[name].plot(level=check_real("level", level, OPEN_UNIT))

    def _repr_html_(self) -> str:
        from hubbub.report import survey_table  # noqa: PLC0415 (an upward import: pages are loaded if needed)

        return survey_table(self)

    def to_document(self, level: float = LEVEL) -> dict[str, Json]:
        """Return the estimates with their intervals and the guarantee as a JSON object."""
        results: list[Json] = []
        for name, result in self.results:
            if isinstance(result, Estimate):
                rows = listed(result.columns(level))
                document: dict[str, Json] = {"people": result.n, "remark": result.remark, "counts": rows}
                results.append({"name": name, "kind": "choice", **document})
            else:
                results.append(result.to_document(level))
        return {
            "format": FORMAT,
            "plan": self.plan,
            "people": self.n,
            "level": level,
            "guarantee": None if self.guarantee is None else self.guarantee.to_document(),
            "schema": self.schema.to_document(),
            "attributes": [one.to_document() for one in self.counts],
            "results": results,
        }

    def to_json(self, level: float = LEVEL) -> str:
        """Return the JSON that :meth:`from_json` reads, with intervals of the given level for other readers."""
        lines = []
        for key, value in self.to_document(level).items():
            text = json.dumps(value, ensure_ascii=False)
            if key in ("attributes", "results") and isinstance(value, list):
                text = "[\n" + ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in value) + "\n ]"
            lines.append(f" {json.dumps(key)}: {text}")
        return "{\n" + ",\n".join(lines) + "\n}"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the estimates that :meth:`to_json` or ``hubbub estimate -o`` wrote; results are computed again."""
        if not isinstance(text, str | bytes):
            reject("text", f"be the JSON of the estimate of a survey as str or bytes, not {kind_of(text)}")
        what = "the estimate of a survey"
        keys = ("format", "plan", "people", "level", "guarantee", "schema", "attributes", "results")
        read = Fields(parse(text, what), what, *keys)
        if read.text("format") != FORMAT:
            raise WireError(f"the format of {what} must be {FORMAT!r}")
        with legal(what):
            return cls(
                schema=Schema.from_document(read["schema"], f"the schema of {what}"),
                n=read.whole("people"),
                counts=tuple(
                    AnswerCounts.from_document(one, f"attribute {place:,} of {what}")
                    for place, one in enumerate(read.items("attributes"), start=1)
                ),
                plan=None if read["plan"] is None else read.text("plan"),
                achieved=None if read["guarantee"] is None else Guarantee.from_document(read["guarantee"]),
            )

    def __repr__(self) -> str:
        return f"SurveyEstimate({len(self.results)} questions, n={self.n:,})"


def _real(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
