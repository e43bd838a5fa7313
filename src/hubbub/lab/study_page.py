"""A study as one HTML page: predicted and observed errors, coverage, and cost."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from hubbub.lab.cells import LEVEL, Row, contradictions
from hubbub.report.charts import Axis, Mark, Series, chart
from hubbub.report.figures import Chart
from hubbub.report.html import render
from hubbub.report.report import Figure, Report, Section, Table
from hubbub.report.rows import Rank, frontier_chart

FIGURES = 6  # the most rankings of protocols on a page; a larger grid shows those of its first questions
HEAD = (
    "protocol", "people", "predicted", "observed", "ratio", "coverage", "all at once", "bias", "messages", "bytes",
    "shows", "by", "s",
)  # fmt: skip


def verdict(rows: Sequence[Row]) -> list[str]:
    """Return the result of a study in a few sentences, one for every row that contradicts a prediction."""
    found = contradictions(list(rows))
    runs = sum(row.repetitions for row in rows)
    text = f"{len(rows)} cells, {runs:,} collections: "
    if not found:
        low, high = min(row.ratio for row in rows), max(row.ratio for row in rows)
        return [
            f"{text}nothing contradicts a prediction. Observed errors are {low:.3f} to {high:.3f} times the predicted "
            f"ones, and intervals of {LEVEL:.0%} held the truth in {min(row.coverage for row in rows):.1%} to "
            f"{max(row.coverage for row in rows):.1%} of all cases."
        ]
    lines = [f"{text}{len(found)} of {4 * len(rows)} predictions are contradicted, with a risk of 1 % in all."]
    return lines + [f"{what}: {_name(row)}, ratio {row.ratio:.3f}, coverage {row.coverage:.1%}" for row, what in found]


def names(rows: Sequence[Row]) -> list[str]:
    """Return the names of the protocols of rows, with their release where the family alone is ambiguous."""
    plans = {(row.family, row.release) for row in rows}
    often = Counter(family for family, _ in plans)
    return [f"{row.family}, {row.release}" if often[row.family] > 1 else row.family for row in rows]


def study_page(rows: Sequence[Row], *, central: dict[tuple[str, int, float], float] | None = None) -> str:
    """Return the whole page; ``central`` is σ of a trusted server for each (schema, n, ε), as a reference."""
    wrong = {row.key for row, _ in contradictions(list(rows))}
    covered = sum(row.coverage for row in rows) / len(rows)
    first, *others = verdict(rows)
    together = sum(row.simultaneous for row in rows) / len(rows)
    return render(
        Report(
            title="hubbub: a study",
            heading="Predicted against observed",
            lede=first,
            alerts=others,
            tiles=[
                (f"{len(rows)}", "cells: a protocol on a population"),
                (f"{sum(row.ratio for row in rows) / len(rows):.3f}", "observed error over predicted, on average"),
                (f"{covered:.1%}", f"of the {LEVEL:.0%} intervals held the truth"),
                (f"{together:.1%}", "of the collections had all counts in theirs at once"),
            ],
            sections=[
                Section("Errors", _errors(rows, wrong)),
                Section("Coverage", _coverage(rows, wrong)),
                Section("Protocols ranked by error", _ranks(rows, central or {})),
                Section("All figures", []),
                *_tables(rows, wrong),
            ],
            note="errors in people; “by” records: through the whole pipeline, by counts: their distribution drawn "
            "directly; “bias”: the largest mean error of a label in standard errors of that mean; the people are "
            "simulated, and this page loads nothing.",
        )
    )


def _name(row: Row) -> str:
    return f"{row.family}, {row.schema}, n = {row.n:,}, ε = {row.epsilon:.3g}, {row.population}, by {row.level}"


def _dots(rows: Sequence[Row], wrong: set[str], point: Callable[[Row], tuple[float, ...]]) -> list[Series]:
    """Return the rows as dots: by the way they were simulated, and those that contradict a prediction apart."""
    kinds = (
        ("through the whole pipeline", "one", [row for row in rows if row.key not in wrong and row.level == "records"]),
        ("counts drawn directly", "quiet", [row for row in rows if row.key not in wrong and row.level == "counts"]),
        ("contradicts the prediction", "two", [row for row in rows if row.key in wrong]),
    )
    return [
        Series(label=label, points=[*map(point, some)], kind="dots", colour=colour, names=[*map(_name, some)])
        for label, colour, some in kinds
        if some
    ]


ACROSS = Axis("predicted standard error, people", log=True)


def _errors(rows: Sequence[Row], wrong: set[str]) -> list[Figure]:
    def observed(row: Row) -> tuple[float, ...]:
        once = row.observed / row.ratio
        return row.predicted, row.observed, row.ratio_low * once, row.ratio_high * once

    ends = [value for row in rows for value in observed(row)[:2] if value > 0] or [1.0]
    low, high = min(ends) / 1.4, max(ends) * 1.4
    agreed = Series(label="as predicted", points=[(low, low), (high, high)], colour="quiet", stroke="thin dashed")
    first = chart(
        [agreed, *_dots(rows, wrong, observed)],
        "Observed against predicted error",
        across=Axis(ACROSS.name, low, high, log=True),
        up=Axis("observed error, people", low, high, log=True),
        height=400,
    )
    second = chart(
        _dots(rows, wrong, lambda row: (row.predicted, row.ratio, row.ratio_low, row.ratio_high)),
        "Ratio of errors",
        across=ACROSS,
        up=Axis("observed / predicted"),
        marks=[Mark("as predicted", 1.0, up=True)],
    )
    return [
        Figure(first, "Every cell is a point."),
        Figure(second, f"The same as a ratio, with {LEVEL:.0%} intervals: about one in twenty should miss the line."),
    ]


def _coverage(rows: Sequence[Row], wrong: set[str]) -> list[Figure]:
    def drawn(title: str, point: Callable[[Row], tuple[float, ...]]) -> Chart:
        up, promised = Axis("share of intervals that held the truth", percent=True), Mark("promised", LEVEL, up=True)
        return chart(_dots(rows, wrong, point), title, across=ACROSS, up=up, marks=[promised])

    single = drawn("Coverage of single counts", lambda r: (r.predicted, r.coverage, r.coverage_low, r.coverage_high))
    title = "Coverage of all counts at once"
    joint = drawn(title, lambda r: (r.predicted, r.simultaneous, r.simultaneous_low, r.simultaneous_high))
    text = "with the binomial interval of what was observed."
    return [
        Figure(single, f"How often the interval of one count held the truth, {text}"),
        Figure(joint, f"How often all simultaneous intervals of a collection held at once, {text}"),
    ]


def _trust(family: str) -> str:
    if family.startswith("local"):
        return "nobody"
    return "shuffler-noise" if "shuffler" in family else "shuffling"


def _ranks(rows: Sequence[Row], central: dict[tuple[str, int, float], float]) -> list[Figure]:
    figures = []
    for (schema, n, epsilon), group in itertools.islice(_by_question(rows).items(), FIGURES):
        people = group[0].population
        shown = [row for row in group if row.population == people]
        question = f"{schema}, n = {n:,}, ε = {epsilon:.3g}"
        drawn = frontier_chart(
            [
                Rank(name, max(row.observed, 1e-6), _trust(row.family), row.messages)
                for row, name in zip(shown, names(shown), strict=True)
            ],
            f"Protocols ranked by observed error: {question}",
            name="observed error, people",
            central=central.get((schema, n, epsilon)),
        )
        figures.append(Figure(drawn, f"{question}, {people}. The most precise protocol first."))
    return figures


def _by_question(rows: Sequence[Row]) -> dict[tuple[str, int, float], list[Row]]:
    """Return the rows by schema, n and ε: those of one group can be compared."""
    groups: dict[tuple[str, int, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.schema, row.n, row.epsilon), []).append(row)
    return groups


def _tables(rows: Sequence[Row], wrong: set[str]) -> list[Section]:
    return [
        Section(
            f"{schema}, n = {n:,}, ε = {epsilon:.3g}",
            [Table(HEAD, [_line(row) for row in group], ["alarm" if row.key in wrong else "" for row in group])],
            level=3,
        )
        for (schema, n, epsilon), group in _by_question(rows).items()
    ]


def _line(row: Row) -> tuple[str, ...]:
    return (
        row.family, row.population, f"{row.predicted:,.4g}", f"{row.observed:,.4g}",
        f"{row.ratio:.3f} ({row.ratio_low:.2f}–{row.ratio_high:.2f})", f"{row.coverage:.1%}",
        f"{row.simultaneous:.0%}", f"{row.worst_bias:.1f}", f"{row.messages:.3g}", f"{row.bytes:,.4g}",
        row.release, row.level, f"{row.seconds:.2g}",
    )  # fmt: skip
