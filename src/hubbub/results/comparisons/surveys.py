"""``SurveyComparison``: the differences between two batches of a survey, question by question."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Json
from hubbub.errors import OPEN_UNIT, check_items, check_real, check_whole, reject
from hubbub.numeric.vectors import check_vector
from hubbub.results.comparisons.differences import FIGURES
from hubbub.results.comparisons.figures import NumberComparison, ScaleComparison
from hubbub.results.comparisons.labels import Comparison
from hubbub.results.frames import Columns, to_arrow, to_pandas, to_polars

Array = NDArray[np.float64]
FORMAT = "hubbub survey comparison 1"
QuestionComparison = Comparison | ScaleComparison | NumberComparison


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class SurveyComparison:
    """The differences between two batches of a survey: ``comparison["load time"]`` is one question.

    A choice, a flag or a cross-table has a :class:`Comparison` of its labels or cells, a scale a
    :class:`ScaleComparison`, a number a :class:`NumberComparison`. Iteration goes through the names.
    """

    results: tuple[tuple[str, QuestionComparison], ...]
    n_a: int
    n_b: int
    level: float
    p_value: Array
    """p-value of each question: of some difference in a label, at an edge of a distribution, or of the mean; adjusted
    for the labels of the question, then for all questions (Holm 1979 twice)."""

    def __post_init__(self) -> None:
        for each in check_items("results", self.results, "be pairs of questions and their comparisons"):
            if not isinstance(each, tuple) or len(each) != 2 or not isinstance(each[0], str):
                reject("results", "be pairs of questions and their comparisons")
            if not isinstance(each[1], Comparison | ScaleComparison | NumberComparison):
                reject("results", "be the comparisons of questions")
        check_whole("n_a", self.n_a, 1)
        check_whole("n_b", self.n_b, 1)
        check_real("level", self.level, OPEN_UNIT)
        check_vector("p_value", self.p_value, np.float64)
        if len(self.p_value) != len(self.results):
            reject("results and p_value", "have the same length")

    def __len__(self) -> int:
        return len(self.results)

    def __contains__(self, name: object) -> bool:
        return any(name == one for one, _ in self.results)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.results)

    def __getitem__(self, name: str) -> QuestionComparison:
        for one, result in self.results:
            if isinstance(name, str) and one == name:
                return result
        more = ", …" if len(self) > 3 else ""
        return reject("name", f"be the name of a question ({', '.join(map(repr, list(self)[:3]))}{more})")

    @property
    def significant(self) -> tuple[str, ...]:
        """Questions in which the populations differ; if none does, none is named with probability ``level``."""
        return tuple(name for name, p in zip(self, self.p_value, strict=True) if p <= 1 - self.level)

    def columns(self) -> Columns:
        """Return a row for each figure of every question; counts are compared by their shares of the people.

        NaN where there is no interval: counts have intervals of the populations only.
        """
        texts: dict[str, list[str]] = {"question": [], "item": [], "unit": []}
        figures: dict[str, list[float]] = {name: [] for name in FIGURES}

        def add(question: str, item: str, unit: str, row: list[float]) -> None:
            for key, text in zip(texts, (question, item, unit), strict=True):
                texts[key].append(text)
            for key, figure in zip(figures, row, strict=True):
                figures[key].append(figure)

        for name, result in self.results:
            if isinstance(result, Comparison):
                for one in result:
                    shares = [one.share_a, one.share_b, one.difference, one.stderr]
                    add(name, one.label, "share", [*shares, math.nan, math.nan, one.low, one.high, one.p_value])
            else:
                for each in result.differences():
                    shown = each.to_document(self.level).values()
                    row = [float(x) if isinstance(x, int | float) else math.nan for x in shown]
                    add(name, each.name, each.unit, row)
        return {**texts, **{name: np.array(column, np.float64) for name, column in figures.items()}}

    def to_arrow(self) -> Any:
        """Return a PyArrow table with a row for each figure; needs the extra ``frames``."""
        return to_arrow(self.columns())

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a row for each figure; needs the extra ``frames``, and pandas."""
        return to_pandas(self.columns())

    def to_polars(self) -> Any:
        """Return a Polars data frame with a row for each figure; needs the extra ``frames``, and Polars."""
        return to_polars(self.columns())

    def to_document(self) -> dict[str, Json]:
        """Return the comparison as a JSON object."""
        found: list[Json] = []
        for name, one in self.results:
            document = one.to_document()
            found.append({**document, "name": name, "kind": "choice"} if isinstance(one, Comparison) else document)
        return {
            "format": FORMAT,
            "people_a": self.n_a,
            "people_b": self.n_b,
            "level": self.level,
            "significant": list(self.significant),
            "p_values": self.p_value.tolist(),
            "results": found,
        }

    def to_json(self) -> str:
        """Return the comparison as JSON."""
        return json.dumps(self.to_document(), ensure_ascii=False, indent=1)

    def _repr_html_(self) -> str:
        from hubbub.report import survey_comparison_table  # noqa: PLC0415 (an upward import)

        return survey_comparison_table(self)

    def __repr__(self) -> str:
        found = len(self.significant)
        return f"SurveyComparison({len(self)} questions, n={self.n_a:,} and {self.n_b:,}, {found} significant)"
