"""``Result``: the figures of all questions of a collection, their table and their JSON."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from hubbub.documents import Fields, Json, legal, parse
from hubbub.errors import OPEN_UNIT, WireError, check_real, check_type, check_whole, kind_of, reject
from hubbub.mechanisms.design import places
from hubbub.model.privacy import Guarantee
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.model.schema import Schema
from hubbub.pipeline.reports import MAX_DECLARED
from hubbub.results.answers import AnswerCounts, sizes_of
from hubbub.results.cross import CrossView, choice_view, cross_view
from hubbub.results.figures import FIGURES, PEOPLE
from hubbub.results.frames import LEVEL, Columns, Table, plain
from hubbub.results.labels import LabelView, excess_note
from hubbub.results.numbers import NumberView
from hubbub.results.scales import ScaleView
from hubbub.results.strings import StringView

FORMAT = "hubbub result 3"
MAX_TIME = 253_402_300_800
"""The year 10000, in seconds since 1970."""
ONLY = ""
"""The name of the question of a schema that has one without a name."""
View = LabelView | ScaleView | NumberView | CrossView | StringView
Counts = AnswerCounts | LabelView | StringView
KEYS = (
    "format", "plan", "people", "released", "level", "simultaneous", "guarantee", "schema", "counts", "table",
    "distributions", "other", "notes",
)  # fmt: skip
BATCH_KEYS = (
    "batch", "task", "bucket", "round", "epoch", "start", "end", "spent", "total", "gaps", "bundles", "rejected",
    "charged", "state", "messages",
)  # fmt: skip
"""Further entries of the result of a service: the place of its batch, and what was counted and rejected."""
TABLE = ("question", "item", "unit", *FIGURES, "note")
"""Columns of the table in a document: those that differ between rows and do not follow from others."""


def time_text(seconds: int) -> str:
    """Return a time in UTC, given in seconds since 1970.

    >>> time_text(1_893_628_800)
    '2030-01-03T00:00:00Z'
    """
    return f"{np.datetime64(seconds, 's')}Z"


def table_of(document: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the table in the document of a result, whoever wrote it; empty if it has none.

    >>> table_of({"table": {"item": ["red"], "value": [3.0]}})["value"]
    [3.0]
    """
    found = document.get("table") or {}
    if not isinstance(found, Mapping) or not all(isinstance(found.get(name, []), list) for name in TABLE):
        raise WireError("the table of a result must be an object of lists")
    size = len(found.get("item", []))
    columns = {name: list(found.get(name) or [None] * size) for name in TABLE}
    if len({len(column) for column in columns.values()}) > 1:
        raise WireError("the columns of the table of a result must have the same length")
    return columns


def counted_as(schema: Schema) -> type[Counts]:
    """Return the kind of the counts of a schema: of labels, of strings, or of the attributes of questions."""
    if schema.text is not None:
        return StringView
    return LabelView if not schema.named else AnswerCounts


def views_of(schema: Schema, counts: Sequence[Counts], n: int) -> tuple[tuple[str, View], ...]:
    """Return the view of every question, by name; labels and strings are their own view."""
    if not schema.named:
        return tuple((ONLY, one) for one in counts if not isinstance(one, AnswerCounts))
    where, given = places(schema), tuple(one for one in counts if isinstance(one, AnswerCounts))
    return tuple(
        (name, _view(name, question, where[name], given, schema, n)) for name, question in schema.questions.items
    )


def _view(
    name: str,
    question: Question,
    where: tuple[int, ...],
    counts: tuple[AnswerCounts, ...],
    schema: Schema,
    n: int,
) -> View:
    if isinstance(question, Scale):
        return ScaleView(name=name, question=question, n=n, attributes=tuple(counts[place] for place in where))
    if isinstance(question, Number):
        return NumberView(name=name, question=question, n=n, attributes=tuple(counts[place] for place in where))
    if isinstance(question, Cross):
        return cross_view(name, question, counts, schema, n)
    assert isinstance(question, Choice | Flag), "a question of a survey"
    return choice_view(name, question, counts, schema, n)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Result(Table):
    """The figures of all questions of a collection: ``result["load time"]`` is the view of one.

    A choice, a flag, and labels have a :class:`LabelView`, a scale a :class:`ScaleView`, a number a
    :class:`NumberView`, a cross-table a :class:`CrossView`, strings that nobody listed a :class:`StringView`. Where
    there is only one question it can be left out: ``result["red"]`` is the figure of a label, ``result.question`` the
    view. Iteration goes through the names of the questions. Created by :func:`hubbub.estimate`.
    """

    schema: Schema
    """The questions, with the layout of their plan."""
    n: int
    """People in the collection."""
    counts: tuple[Counts, ...]
    """Unbiased counts of labels, of strings, or of every attribute, from which all figures follow."""
    plan: str | None = None
    """Id of the plan, or None for batches of several plans."""
    released: int | None = None
    """Time at which a service released the batch, in seconds since 1970; None if it is not known."""
    achieved: Guarantee | Callable[[], Guarantee | None] | None = field(default=None)
    """The guarantee of the people that were counted, or a function that computes it; see :attr:`guarantee`."""
    views: tuple[tuple[str, View], ...] = field(init=False)
    """The names of the questions with their views."""

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema)
        check_whole("n", self.n, 0, MAX_DECLARED)
        self._check_counts()
        if self.plan is not None:
            check_type("plan", self.plan, str)
        if self.released is not None:
            check_whole("released", self.released, 0, MAX_TIME - 1)
        if self.achieved is not None and not callable(self.achieved):
            check_type("achieved", self.achieved, Guarantee)
        object.__setattr__(self, "views", views_of(self.schema, self.counts, self.n))

    def _check_counts(self) -> None:
        kind, schema = counted_as(self.schema), self.schema
        if not isinstance(self.counts, tuple) or not all(isinstance(one, kind) for one in self.counts):
            reject("counts", "be a tuple of the counts of the schema")
        if kind is AnswerCounts:
            if sizes_of(self.counts) != [one.size for one in schema.attributes]:
                reject("counts", "be the counts of every attribute of the survey")
            return
        if len(self.counts) != 1 or any(one.n != self.n for one in self.counts if not isinstance(one, AnswerCounts)):
            reject("counts", "be those of one question and of n people")
        if any(isinstance(one, LabelView) and one.labels != schema.labels for one in self.counts):
            reject("counts", "have the labels of the schema")

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the people that were counted; it is computed on first use, which may take seconds."""
        found = self.achieved
        if callable(found):
            found = found()
            object.__setattr__(self, "achieved", found)
        return found

    @property
    def question(self) -> Any:
        """The view of the only question."""
        if len(self.views) != 1:
            reject("the result", f"have a single question; choose one of {len(self.views):,} with result[name]")
        return self.views[0][1]

    @property
    def excess(self) -> tuple[str, ...]:
        """Answers that more people seem to have given than were counted; see :attr:`hubbub.LabelView.excess`."""
        tables = [(name, one.cells if isinstance(one, CrossView) else one) for name, one in self.views]
        return tuple(
            f"{name}, {label}" if name else label
            for name, one in tables
            if isinstance(one, LabelView)
            for label in one.excess
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for readers of the result; none in most cases."""
        note = excess_note(self.excess)
        return (note,) if note else ()

    def __len__(self) -> int:
        return len(self.views)

    def __contains__(self, name: object) -> bool:
        only = self.views[0][1] if len(self.views) == 1 else None
        inside = isinstance(only, LabelView | StringView) and name in only
        return inside or any(name == one for one, _ in self.views)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.views)

    def __getitem__(self, name: Any) -> Any:
        for one, view in self.views:
            if isinstance(name, str) and one == name:
                return view
        only = self.views[0][1] if len(self.views) == 1 else None
        if isinstance(only, LabelView | CrossView | StringView):
            return only[name]
        more = ", …" if len(self) > 3 else ""
        return reject("name", f"be the name of a question ({', '.join(map(repr, list(self)[:3]))}{more})")

    def consistent(self) -> Self:
        """Return the result with the nearest possible counts of its labels; see :meth:`hubbub.LabelView.consistent`."""
        return replace(self, counts=(self._labels().consistent(),))

    def shrunk(self) -> Self:
        """Return the result with counts moved towards their mean; see :meth:`hubbub.LabelView.shrunk`."""
        return replace(self, counts=(self._labels().shrunk(),))

    def _labels(self) -> LabelView:
        if not isinstance(self.counts[0], LabelView):
            reject("the result", "be that of labels; the view of a choice can be adjusted by itself")
        return self.counts[0]

    def columns(self, level: float | None = None, *, simultaneous: bool = False) -> Columns:
        """Return a row for each figure of every question, whatever was asked.

        ``item`` is a label, a cell, a string or the name of a figure such as the mean, and ``value`` the estimate in
        its ``unit``, as are the standard error and the ends of intervals; for counts, ``people`` and ``share``
        repeat it. Entries that do not apply are null. ``simultaneous`` makes the intervals of the labels of a question
        hold for all of them at once.
        """
        level = check_real("level", LEVEL if level is None else level, OPEN_UNIT)
        found = self._rows(level, simultaneous)
        value, size = np.asarray(found["value"], np.float64), len(found["item"])
        people = np.where([unit == PEOPLE for unit in found["unit"]], value, math.nan)
        return {
            "question": found["question"],
            "item": found["item"],
            "people": people,
            "share": people / max(self.n, 1),
            "unit": found["unit"],
            **{name: found[name] for name in FIGURES},
            "note": found["note"],
            "n": np.full(size, self.n, np.int64),
            "plan_id": [self.plan] * size,
            "released": [None if self.released is None else time_text(self.released)] * size,
        }

    def _rows(self, level: float, simultaneous: bool) -> Columns:
        """Return the columns of the table in a document."""
        check_type("simultaneous", simultaneous, bool)
        parts = [(name, view._rows(level, simultaneous=simultaneous)) for name, view in self.views]
        texts = {key: [one for _, part in parts for one in part[key]] for key in ("item", "unit", "note")}
        return {
            "question": [name or None for name, part in parts for _ in part["item"]],
            **texts,
            **{key: np.concatenate([np.asarray(part[key], np.float64) for _, part in parts]) for key in FIGURES},
        }

    def about(self) -> dict[str, Json]:
        """Return what holds for all rows of the table."""
        return {
            "format": FORMAT,
            "plan": self.plan,
            "people": self.n,
            "released": self.released,
            "guarantee": None if self.guarantee is None else self.guarantee.to_document(),
        }

    def to_document(self, level: float = LEVEL, *, simultaneous: bool = False) -> dict[str, Json]:
        """Return the result as a JSON object: the counts that :meth:`from_document` reads, and a table for others.

        For scales, ``distributions`` has the share of people below every edge; for strings, ``other`` how many people
        hold one that is not shown, or none.
        """
        level = check_real("level", level, OPEN_UNIT)
        found, only = self._rows(level, simultaneous), self.views[0][1]
        return {
            **self.about(),
            "level": level,
            "simultaneous": simultaneous,
            "schema": self.schema.to_document(),
            "counts": [one.to_document() for one in self.counts],
            "table": {name: plain(found[name]) for name in TABLE},
            "distributions": {
                name: {key: plain(column) for key, column in view.columns(level).items()}
                for name, view in self.views
                if isinstance(view, ScaleView)
            },
            "other": dict(zip(("low", "high"), only.other(level), strict=True))
            if isinstance(only, StringView)
            else None,
            "notes": list(self.notes),
        }

    def to_json(self, level: float = LEVEL, *, simultaneous: bool = False) -> str:
        """Return the JSON that :meth:`from_json` reads, with intervals of the given level for other readers."""
        lines = []
        for key, value in self.to_document(level, simultaneous=simultaneous).items():
            text = json.dumps(value, ensure_ascii=False)
            if key == "table" and isinstance(value, dict):
                rows = (f"  {json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in value.items())
                text = "{\n" + ",\n".join(rows) + "\n }"
            lines.append(f" {json.dumps(key)}: {text}")
        return "{\n" + ",\n".join(lines) + "\n}"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a result that :meth:`to_json`, ``hubbub estimate -o`` or a service wrote; figures are computed again."""
        if not isinstance(text, str | bytes):
            reject("text", f"be the JSON of a result as str or bytes, not {kind_of(text)}")
        return cls.from_document(parse(text, "the result"))

    @classmethod
    def from_document(cls, value: Json) -> Self:
        """Read a result from a JSON object, which may be that of a service's batch; figures are computed again."""
        what = "the result"
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise WireError(f"the format of {what} must be {FORMAT!r}")
        if value.get("state") == "withheld":
            raise WireError(f"{what} must be committed to have figures, but it was withheld")
        read = Fields({key: one for key, one in value.items() if key not in BATCH_KEYS}, what, *KEYS)
        schema, n = Schema.from_document(read["schema"], f"the schema of {what}"), read.whole("people")
        kind = counted_as(schema)
        with legal(what):
            return cls(
                schema=schema,
                n=n,
                counts=tuple(
                    kind.from_document(one, f"the counts of attribute {place:,} of {what}", schema, n)
                    for place, one in enumerate(read.items("counts"), start=1)
                ),
                plan=None if read["plan"] is None else read.text("plan"),
                released=None if read["released"] is None else read.whole("released"),
                achieved=None if read["guarantee"] is None else Guarantee.from_document(read["guarantee"]),
            )

    def __repr__(self) -> str:
        if len(self.views) != 1:
            return f"Result({len(self.views)} questions, n={self.n:,})"
        return f"Result({self.views[0][1]!r})"
