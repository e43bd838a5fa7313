"""A study as one HTML page: what was predicted, what was observed, and what it cost."""

import html
import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from hubbub.lab.cells import LEVEL, Row, contradictions
from hubbub.lab.drawing import Axis, Mark, Series, chart, frontier_chart
from hubbub.lab.pages import document, figure, footer, table, tiles

FIGURES = 6
"""Pictures of error against cost; a larger grid has them for its first questions only."""
HEAD = (
    "protocol",
    "people",
    "predicted",
    "observed",
    "ratio",
    "coverage",
    "all at once",
    "bias",
    "messages",
    "bytes",
    "shows",
    "by",
    "s",
)


def verdict(rows: Sequence[Row]) -> list[str]:
    """What a study comes to, in a sentence or a few.

    Names every row that contradicts a prediction.
    """
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
    """The protocols of rows that stand together, with what they show the analyzer where the family alone is not enough.

    A family on several populations is one protocol.
    """
    plans = {(row.family, row.release) for row in rows}
    often = Counter(family for family, _ in plans)
    return [f"{row.family}, {row.release}" if often[row.family] > 1 else row.family for row in rows]


def study_page(rows: Sequence[Row], *, central: dict[tuple[str, int, float], float] | None = None) -> str:
    """The whole page; ``central`` is σ of a trusted server for each (schema, n, ε), as a reference."""
    wrong = {row.key for row, _ in contradictions(list(rows))}
    first, *others = verdict(rows)
    parts = [
        "<h1>Predicted against observed</h1>",
        f'<p class="lead">{html.escape(first)}</p>',
        *(f'<p class="alarm">{html.escape(line)}</p>' for line in others),
        _tiles(rows),
        "<h2>Errors</h2>",
        _errors(rows, wrong),
        "<h2>Coverage</h2>",
        _coverage(rows, wrong),
        "<h2>Error against cost</h2>",
        _costs(rows, central or {}),
        "<h2>All figures</h2>",
        _tables(rows, wrong),
        footer(
            "errors in people; “by” records: through the whole street, by counts: their law drawn directly; “bias”: "
            "the largest mean error of a label in standard errors of that mean; the people are simulated, and nothing "
            "on this page comes from elsewhere."
        ),
    ]
    return document("hubbub: a study", parts)


def _name(row: Row) -> str:
    return f"{row.family}, {row.schema}, n = {row.n:,}, ε = {row.epsilon:.3g}, {row.population}, by {row.level}"


def _tiles(rows: Sequence[Row]) -> str:
    shares = sum(row.coverage for row in rows) / len(rows)
    together = sum(row.simultaneous for row in rows) / len(rows)
    return tiles(
        [
            (f"{len(rows)}", "cells: a protocol on a population"),
            (f"{sum(row.ratio for row in rows) / len(rows):.3f}", "observed error over predicted, on average"),
            (f"{shares:.1%}", f"of the {LEVEL:.0%} intervals held the truth"),
            (f"{together:.1%}", "of the collections had all counts in theirs at once"),
        ]
    )


def _dots(rows: Sequence[Row], wrong: set[str], point: Callable[[Row], tuple[float, ...]]) -> list[Series]:
    """The rows as dots, by how they were simulated, and those that contradict a prediction by themselves."""
    kinds = (
        ("through the whole street", "one", [row for row in rows if row.key not in wrong and row.level == "records"]),
        ("counts drawn directly", "quiet", [row for row in rows if row.key not in wrong and row.level == "counts"]),
        ("contradicts the prediction", "two", [row for row in rows if row.key in wrong]),
    )
    return [
        Series(label=label, points=[*map(point, some)], kind="dots", colour=colour, names=[*map(_name, some)])
        for label, colour, some in kinds
        if some
    ]


ACROSS = Axis("predicted standard error, people", log=True)


def _errors(rows: Sequence[Row], wrong: set[str]) -> str:
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
        height=420,
    )
    second = chart(
        _dots(rows, wrong, lambda row: (row.predicted, row.ratio, row.ratio_low, row.ratio_high)),
        "Ratio of errors",
        across=ACROSS,
        up=Axis("observed / predicted"),
        marks=[Mark("as predicted", 1.0, up=True)],
    )
    return figure(first, "Every cell is a point.") + figure(
        second, f"The same as a ratio, with {LEVEL:.0%} intervals: about one in twenty should miss the line."
    )


def _coverage(rows: Sequence[Row], wrong: set[str]) -> str:
    single, joint = (
        chart(
            _dots(rows, wrong, point),
            title,
            across=ACROSS,
            up=Axis("held the truth", percent=True),
            marks=[Mark("promised", LEVEL, up=True)],
        )
        for title, point in (
            ("Coverage of single counts", lambda r: (r.predicted, r.coverage, r.coverage_low, r.coverage_high)),
            (
                "Coverage of all counts at once",
                lambda r: (r.predicted, r.simultaneous, r.simultaneous_low, r.simultaneous_high),
            ),
        )
    )
    text = "with the binomial interval of what was seen."
    return figure(single, f"How often the interval of one count held the truth, {text}") + figure(
        joint, f"How often all simultaneous intervals of a collection held at once, {text}"
    )


def _costs(rows: Sequence[Row], central: dict[tuple[str, int, float], float]) -> str:
    figures = []
    questions = itertools.islice(_by_question(rows).items(), FIGURES)
    for (schema, n, epsilon), group in questions:
        people = group[0].population
        shown = [row for row in group if row.population == people]
        best = min(shown, key=lambda row: row.observed)
        drawn = frontier_chart(
            names(shown),
            [(row.messages, max(row.observed, 1e-6)) for row in shown],
            shown.index(best),
            f"Error against messages: {schema}, n = {n:,}, ε = {epsilon:.3g}",
            up="observed error, people",
            central=central.get((schema, n, epsilon)),
        )
        figures.append(figure(drawn, f"{schema}, n = {n:,}, ε = {epsilon:.3g}, {people}. Lower left is better."))
    return "".join(figures)


def _by_question(rows: Sequence[Row]) -> dict[tuple[str, int, float], list[Row]]:
    """Rows of one schema, n and ε, which are those that can be compared."""
    groups: dict[tuple[str, int, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.schema, row.n, row.epsilon), []).append(row)
    return groups


def _tables(rows: Sequence[Row], wrong: set[str]) -> str:
    return "".join(
        f"<h3>{html.escape(schema)}, n = {n:,}, ε = {epsilon:.3g}</h3>"
        + table(HEAD, map(_line, group), marks=["alarm" if row.key in wrong else "" for row in group])
        for (schema, n, epsilon), group in _by_question(rows).items()
    )


def _line(row: Row) -> tuple[str, ...]:
    return (
        row.family,
        row.population,
        f"{row.predicted:,.4g}",
        f"{row.observed:,.4g}",
        f"{row.ratio:.3f} ({row.ratio_low:.2f}–{row.ratio_high:.2f})",
        f"{row.coverage:.1%}",
        f"{row.simultaneous:.0%}",
        f"{row.worst_bias:.1f}",
        f"{row.messages:.3g}",
        f"{row.bytes:,.4g}",
        row.release,
        row.level,
        f"{row.seconds:.2g}",
    )
