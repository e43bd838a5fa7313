"""A study as one HTML page: what was predicted, what was observed, and what it cost."""

import html
import itertools
from collections import Counter
from collections.abc import Sequence

from hubbub import __version__
from hubbub.lab.cells import LEVEL, Row, contradictions
from hubbub.lab.drawing import Finding, Point, agreement_chart, band_chart, scatter_chart
from hubbub.lab.report import document

__all__ = ["names", "study_page", "verdict"]

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
        "".join(f'<p class="alarm">{html.escape(line)}</p>' for line in others),
        _tiles(rows),
        "<h2>Errors</h2>",
        _errors(rows, wrong),
        "<h2>Coverage</h2>",
        _coverage(rows, wrong),
        "<h2>Error against cost</h2>",
        _costs(rows, central or {}),
        "<h2>All figures</h2>",
        _tables(rows, wrong),
        f"<footer>hubbub {__version__} · errors in people; <i>by</i> records: through the whole street, by counts: "
        "their law drawn directly; <i>bias</i>: the largest mean error of a label in standard errors of that mean; the "
        "people are simulated, and nothing on this page comes from elsewhere.</footer>",
    ]
    return document("hubbub: a study", "".join(parts))


def _name(row: Row) -> str:
    return f"{row.family}, {row.schema}, n = {row.n:,}, ε = {row.epsilon:.3g}, {row.population}, by {row.level}"


def _kind(row: Row, wrong: set[str]) -> str:
    return "alarm" if row.key in wrong else "dot" if row.level == "records" else "other"


def _tiles(rows: Sequence[Row]) -> str:
    shares = sum(row.coverage for row in rows) / len(rows)
    together = sum(row.simultaneous for row in rows) / len(rows)
    tiles = (
        (f"{len(rows)}", "cells: a protocol on a population"),
        (f"{sum(row.ratio for row in rows) / len(rows):.3f}", "observed error over predicted, on average"),
        (f"{shares:.1%}", f"of the {LEVEL:.0%} intervals held the truth"),
        (f"{together:.1%}", "of the collections had all counts in theirs at once"),
    )
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{a}</b><span>{b}</span></div>' for a, b in tiles)
        + "</div>"
    )


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"


COLOURS = "Coloured: through the whole street; grey: counts drawn directly; red: contradicts the prediction."


def _errors(rows: Sequence[Row], wrong: set[str]) -> str:
    absolute = [
        Finding(
            _name(row),
            row.predicted,
            row.observed,
            row.observed * row.ratio_low / row.ratio,
            row.observed * row.ratio_high / row.ratio,
            _kind(row, wrong),
        )
        for row in rows
    ]
    relative = [
        Finding(_name(row), row.predicted, row.ratio, row.ratio_low, row.ratio_high, _kind(row, wrong)) for row in rows
    ]
    across = "predicted standard error, people"
    first = agreement_chart(absolute, "Observed against predicted error", across=across, up="observed error, people")
    second = band_chart(relative, "Ratio of errors", across=across, up="observed / predicted", ideal=1.0)
    return _figure(first, f"Every cell is a point. {COLOURS}") + _figure(
        second, f"The same as a ratio, with {LEVEL:.0%} intervals: about one in twenty should miss the line."
    )


def _coverage(rows: Sequence[Row], wrong: set[str]) -> str:
    across = "predicted standard error, people"
    single = [
        Finding(_name(row), row.predicted, row.coverage, row.coverage_low, row.coverage_high, _kind(row, wrong))
        for row in rows
    ]
    joint = [
        Finding(
            _name(row),
            row.predicted,
            row.simultaneous,
            row.simultaneous_low,
            row.simultaneous_high,
            _kind(row, wrong),
        )
        for row in rows
    ]
    pictures = [
        band_chart(found, title, across=across, up="held the truth", ideal=LEVEL, percent=True)
        for found, title in ((single, "Coverage of single counts"), (joint, "Coverage of all counts at once"))
    ]
    text = f"with the binomial interval of what was seen; the line is what was promised, {LEVEL:.0%}."
    return _figure(pictures[0], f"How often the interval of one count held the truth, {text}") + _figure(
        pictures[1], f"How often all simultaneous intervals of a collection held at once, {text}"
    )


def _costs(rows: Sequence[Row], central: dict[tuple[str, int, float], float]) -> str:
    figures = []
    questions = itertools.islice(_by_question(rows).items(), FIGURES)
    for (schema, n, epsilon), group in questions:
        people = group[0].population
        shown = [row for row in group if row.population == people]
        best = min(shown, key=lambda row: row.observed)
        reference = central.get((schema, n, epsilon))
        picture = scatter_chart(
            [
                Point(name, row.messages, max(row.observed, 1e-6), row is best)
                for name, row in zip(names(shown), shown, strict=True)
            ],
            f"Error against messages: {schema}, n = {n:,}, ε = {epsilon:.3g}",
            across="messages of a user",
            up="observed error, people",
            lines=[("central: the server sees everything", reference)] if reference else [],
        )
        figures.append(_figure(picture, f"{schema}, n = {n:,}, ε = {epsilon:.3g}, {people}. Lower left is better."))
    return "".join(figures)


def _by_question(rows: Sequence[Row]) -> dict[tuple[str, int, float], list[Row]]:
    """Rows of one schema, n and ε, which are those that can be compared."""
    groups: dict[tuple[str, int, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.schema, row.n, row.epsilon), []).append(row)
    return groups


def _tables(rows: Sequence[Row], wrong: set[str]) -> str:
    parts = []
    head = "".join(f"<th>{name}</th>" for name in HEAD)
    for (schema, n, epsilon), group in _by_question(rows).items():
        body = "".join(_line(row, row.key in wrong) for row in group)
        parts.append(
            f"<h3>{html.escape(schema)}, n = {n:,}, ε = {epsilon:.3g}</h3>"
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )
    return "".join(parts)


def _line(row: Row, wrong: bool) -> str:
    cells = (
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
    kind = ' class="alarm"' if wrong else ""
    return f"<tr{kind}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
