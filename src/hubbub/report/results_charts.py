"""Charts of results: counts, distributions, means, cross-tables, joint tables, differences, figures over rounds."""

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from hubbub.errors import OPEN_UNIT, check_real, reject
from hubbub.report.charts import Axis, Mark, Series, chart, number, ticks
from hubbub.report.figures import Canvas, Chart
from hubbub.report.rows import Bar, bar_chart, estimate_chart, row_axes
from hubbub.report.style import COLOURS, LIGHT
from hubbub.report.words import printable
from hubbub.results.compare import Comparison, LabelComparison, NumberComparison, ScaleComparison
from hubbub.results.cross import CrossView
from hubbub.results.figures import Figure
from hubbub.results.frames import LEVEL, Table
from hubbub.results.joint import Joint, grid_of
from hubbub.results.labels import LabelView
from hubbub.results.numbers import NumberView
from hubbub.results.result import Result
from hubbub.results.scales import ScaleView
from hubbub.results.strings import StringView

DARKEST = 0.6  # opacity of the largest cell, on which text remains readable
MARKED = (0.5, 0.95)  # quantiles that a distribution shows
LOGARITHMIC = 30.0  # ratio of the widest to the first bucket from which on the axis is logarithmic
DOTS = 60  # rounds up to which each of them has a dot
CELLS = 12, 24  # columns and rows that a heat map shows


def draw(table: Table, *, level: float | None = None, top: int = 20, simultaneous: bool = False) -> Chart:
    """Draw a result, the view of a question, a comparison or a joint table."""
    if isinstance(table, Result | Comparison):
        return draw(table.question, level=level, top=top, simultaneous=simultaneous)
    level = check_real("level", getattr(table, "level", LEVEL) if level is None else level, OPEN_UNIT)
    return _CHARTS[type(table)](table, level, top, simultaneous)


def string_name(string: str, cut: bool) -> str:
    """Return a string for people to read: control characters are replaced, and what was cut ends with an ellipsis.

    >>> string_name("a\\x07b", True), string_name("", False)
    ('a�b…', '(empty)')
    """
    return (printable(string) or "(empty)") + ("…" if cut else "")


def strings_chart(view: StringView, *, level: float = 0.95, top: int = 20) -> Chart:
    """Draw the most frequent strings with their intervals."""
    low, high = view.interval(level)
    bars = [
        Bar(
            string_name(view.strings[i], view.cut[i]), None, float(view.values[i]), float(low[i]),
            float(high[i]),
        )
        for i in range(len(view))[:top]
    ]  # fmt: skip
    return bar_chart(bars, f"Strings of {view.n:,} people", level=level)


def comparison_chart(comparison: LabelComparison, *, top: int = 20) -> Chart:
    """Draw the most significant differences of shares with their intervals, in percentage points."""
    order = np.argsort(comparison.p_value, kind="stable")[:top].tolist()
    low, middle, high = (100 * part[order] for part in (comparison.low, comparison.difference, comparison.high))
    found = comparison.significant[order]
    level = f"{100 * comparison.level:g}%"

    def draw(canvas: Canvas) -> None:
        names = [comparison.labels[i] for i in order]
        axes, places = row_axes(canvas, names, "difference of the shares, B − A, in percentage points")
        axes.axvline(0, color=LIGHT["two"], linewidth=1.8)
        axes.hlines(places, low, high, color=LIGHT["ink"], linewidth=1.8)
        for kind, marker, colour in ((True, "o", "one"), (False, "D", "quiet")):
            chosen = [i for i in range(len(order)) if bool(found[i]) == kind]
            axes.plot(
                [middle[i] for i in chosen], [places[i] for i in chosen], marker, color=LIGHT[colour], markersize=8
            )
        widest = 1.1 * float(np.abs([low, middle, high]).max()) or 1.0
        count = 8 if canvas.wide else 4
        ticks(canvas, axes.xaxis, Axis("", -widest, widest), count, lambda x: number(x, signed=True))
        dots = {"linestyle": "none", "markersize": 8}
        canvas.legend(
            [
                canvas.sample(f"differs at {100 * (1 - comparison.level):g}%", color=LIGHT["one"], marker="o", **dots),
                canvas.sample("no evidence", color=LIGHT["quiet"], marker="D", **dots),
                canvas.sample(f"{level} interval", color=LIGHT["ink"], linewidth=1.8),
            ]
        )

    return Chart(f"Differences between {comparison.a.n:,} and {comparison.b.n:,} people", draw)


def joint_chart(joint: Joint) -> Chart:
    """Draw a joint table of two to six labels as a heat map."""
    if not 2 <= len(joint.labels) <= 6:
        reject("the number of labels", "be from 2 to 6 for a heat map", len(joint.labels))
    rows, columns, cells = grid_of(joint.labels)
    values = joint.values[cells]
    largest = max(float(values.max()), 1.0)

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes(len(rows) * 44 + 70)
        for (r, c), value in np.ndenumerate(values):
            weight = DARKEST * max(float(value), 0.0) / largest
            box = canvas.mpl.patches.Rectangle((c - 0.48, r - 0.46), 0.96, 0.92, linewidth=0)
            box.set(facecolor=LIGHT["one"], alpha=weight)
            axes.add_patch(box)
            axes.annotate(f"{value:z,.0f}", (c, r), ha="center", va="center_baseline", color=LIGHT["ink"])
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
        letters = 20 if canvas.wide else 12
        axes.set_xticks(range(len(columns)), [textwrap.fill(name, letters) for name in columns], color=LIGHT["ink"])
        axes.set_yticks(range(len(rows)), [textwrap.fill(name, letters + 6) for name in rows], color=LIGHT["ink"])
        axes.xaxis.tick_top()

    return Chart(f"Joint table of {joint.n:,} people", draw)


def in_unit(name: str, unit: str) -> str:
    """Return a name with its unit.

    >>> in_unit("load time", "ms"), in_unit("age", "")
    ('load time, ms', 'age')
    """
    return f"{name}, {unit}" if unit else name


def scale_chart(estimate: ScaleView, *, level: float = 0.95) -> Chart:
    """Draw the share of people below every edge, with the bands of the collection and of the population."""
    edges = [float(edge) for edge in estimate.question.edges]
    share = np.maximum.accumulate(np.clip(estimate.cdf()[1], 0.0, 1.0)).tolist()
    bands = [estimate.band(level, of="population"), estimate.band(level)]
    outer, inner = (
        [(edges[0], 0.0, 0.0), *zip(edges[1:-1], low.tolist(), high.tolist(), strict=True), (edges[-1], 1.0, 1.0)]
        for low, high in bands
    )
    words = f"{100 * level:g}% band of the"
    series = [
        Series(label=f"{words} population", points=outer, kind="band", colour="two"),
        Series(label=f"{words} people who answered", points=inner, kind="band", colour="one"),
        Series(label="share below, estimated", points=list(zip(edges, [0.0, *share, 1.0], strict=True)), colour="one"),
    ]
    marks = [Mark(f"{one.name} {shown_value(one.value)}", one.value) for one in map(estimate.quantile, MARKED)]
    across = _across(estimate)
    # The labels of the quantiles are above the curve.
    up = Axis("share of the people below", 0.0, 1.12, percent=True, at=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    title = f"Distribution of {estimate.name} of {estimate.n:,} people"
    return chart(series, title, across=across, up=up, marks=marks)


def scales_chart(estimates: Sequence[tuple[str, ScaleView]], *, level: float = 0.95) -> Chart:
    """Draw the distributions of several batches, each with its name, with the bands of their populations."""
    if not estimates:
        reject("estimates", "contain at least one estimate")
    series, first = [], estimates[0][1]
    for (name, one), colour in zip(estimates, COLOURS, strict=False):
        edges = [float(edge) for edge in one.question.edges]
        low, high = one.band(level, of="population")
        share = np.maximum.accumulate(np.clip(one.cdf()[1], 0.0, 1.0)).tolist()
        inner = zip(edges[1:-1], low.tolist(), high.tolist(), strict=True)
        band = [(edges[0], 0.0, 0.0), *inner, (edges[-1], 1.0, 1.0)]
        line = list(zip(edges, [0.0, *share, 1.0], strict=True))
        series += [
            Series(label=f"{name}: {100 * level:g}% band of the population", points=band, kind="band", colour=colour),
            Series(label=f"{name}: share below, median {shown_value(one.median.value)}", points=line, colour=colour),
        ]
    across = _across(first)
    up = Axis("share of the people below", 0.0, 1.0, percent=True)
    people = " and ".join(f"{one.n:,}" for _, one in estimates)
    return chart(series, f"Distribution of {first.name} of {people} people", across=across, up=up)


def shown_value(value: float) -> str:
    """Format a value with three significant digits.

    >>> shown_value(1234.5)
    '1,230'
    """
    return number(float(f"{value:.3g}"))


def _across(estimate: ScaleView) -> Axis:
    """Return the axis of a scale, logarithmic if its buckets grow much."""
    edges = estimate.question.edges
    log = edges[0] > 0 and edges[-1] - edges[-2] > LOGARITHMIC * (edges[1] - edges[0])
    return Axis(in_unit(estimate.name, estimate.question.unit), float(edges[0]), float(edges[-1]), log=log)


def means_chart(estimates: Sequence[tuple[str, NumberView]], *, level: float = 0.95) -> Chart:
    """Draw the means of several batches, each with its name, with the intervals of collection and population."""
    means = [(name, one.mean) for name, one in estimates]
    if not means:
        reject("estimates", "contain at least one estimate")
    words = ("people who answered", "population")
    rows = []
    for name, mean in means:
        for group, ends in zip(words, (mean.interval(level), mean.interval(level, of="population")), strict=True):
            rows.append((f"{name}, {group}" if name else group, mean.value, *ends))
    first = estimates[0][1]

    def draw(canvas: Canvas) -> None:
        axes, places = row_axes(canvas, [row[0] for row in rows], in_unit(f"mean of {first.name}", first.question.unit))
        axes.hlines(places, [row[2] for row in rows], [row[3] for row in rows], color=LIGHT["ink"], linewidth=1.8)
        axes.plot([row[1] for row in rows], places, "o", color=LIGHT["one"], markersize=8)
        ends = [end for row in rows for end in row[1:]]
        margin = 0.08 * (max(ends) - min(ends)) or 1.0
        ticks(canvas, axes.xaxis, Axis("", min(ends) - margin, max(ends) + margin), 8 if canvas.wide else 4)
        dots = {"linestyle": "none", "markersize": 8, "marker": "o"}
        canvas.legend(
            [
                canvas.sample("estimate", color=LIGHT["one"], **dots),
                canvas.sample(f"{100 * level:g}% interval", color=LIGHT["ink"], linewidth=1.8),
            ]
        )

    return Chart(f"Mean of {first.name} of {first.n:,} people", draw)


def rounds_chart(figures: Sequence[Figure], title: str, *, level: float = 0.95, name: str = "round") -> Chart:
    """Draw a figure over several rounds: a line, with a ribbon for the interval of each round."""
    if not figures:
        reject("figures", "contain at least one figure")
    ends = [one.interval(level) for one in figures]
    places = range(1, len(figures) + 1)
    ribbon = [(float(x), low, high) for x, (low, high) in zip(places, ends, strict=True)]
    line = [(float(x), one.value) for x, one in zip(places, figures, strict=True)]
    series = [
        Series(label=f"{100 * level:g}% intervals of the people who answered", points=ribbon, kind="band", colour="one")
    ]
    first = figures[0]
    if "population" in first.covers:
        outer = [one.interval(level, of="population") for one in figures]
        wide = [(float(x), low, high) for x, (low, high) in zip(places, outer, strict=True)]
        label = f"{100 * level:g}% intervals of the population"
        series.insert(0, Series(label=label, points=wide, kind="band", colour="two"))
    kind: Literal["line", "both"] = "both" if len(figures) <= DOTS else "line"
    series.append(Series(label=first.name, points=line, kind=kind, colour="one", size=5.0))
    # A ribbon around a figure is read by its distance to others, not to zero.
    seen = [end for one in series for point in one.points for end in point[1:]]
    margin = 0.06 * (max(seen) - min(seen)) or 1.0
    up = Axis(in_unit(first.name, first.unit), min(seen) - margin, max(seen) + margin)
    return chart(series, title, across=Axis(name, 0.5, len(figures) + 0.5), up=up)


def cross_chart(estimate: CrossView, *, level: float = 0.95) -> Chart:
    """Draw a cross-table as a heat map of people with the reach of their intervals; rows of several axes are joined."""
    columns, grid = list(estimate.axes[-1]), estimate.values.reshape(-1, len(estimate.axes[-1]))
    low, high = (end.reshape(grid.shape) for end in estimate.interval(level))
    rows = estimate.row_labels
    shown, kept = rows[: CELLS[1]], columns[: CELLS[0]]
    grid, reach = grid[: CELLS[1], : CELLS[0]], ((high - low) / 2)[: CELLS[1], : CELLS[0]]
    largest = max(float(grid.max()), 1.0)

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes(len(shown) * 52 + 84)
        for (r, c), value in np.ndenumerate(grid):
            box = canvas.mpl.patches.Rectangle((c - 0.48, r - 0.46), 0.96, 0.92, linewidth=0)
            box.set(facecolor=LIGHT["one"], alpha=DARKEST * max(float(value), 0.0) / largest)
            axes.add_patch(box)
            text = f"{value:z,.0f}\n± {reach[r, c]:,.0f}" if canvas.wide and len(kept) <= 8 else f"{value:z,.0f}"
            axes.annotate(text, (c, r), ha="center", va="center", color=LIGHT["ink"])
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set(xlim=(-0.5, len(kept) - 0.5), ylim=(len(shown) - 0.5, -0.5))
        letters = max(4, int((90 if canvas.wide else 40) / max(len(kept), 1)))
        axes.set_xticks(range(len(kept)), [textwrap.fill(name, letters) for name in kept], color=LIGHT["ink"])
        axes.set_yticks(range(len(shown)), [textwrap.fill(name, 26) for name in shown], color=LIGHT["ink"])
        axes.xaxis.tick_top()
        axes.set_xlabel(canvas.fit(f"{' × '.join(estimate.names)}, people, ± half of the {100 * level:g}% interval"))
        axes.xaxis.set_label_position("bottom")

    return Chart(f"{estimate.name}: {estimate.n:,} people", draw)


_CHARTS: dict[type[Table], Callable[[Any, float, int, bool], Chart]] = {
    LabelView: lambda view, level, top, simultaneous: estimate_chart(
        view, level=level, top=top, simultaneous=simultaneous
    ),
    StringView: lambda view, level, top, _: strings_chart(view, level=level, top=top),
    ScaleView: lambda view, level, *_: scale_chart(view, level=level),
    NumberView: lambda view, level, *_: means_chart([("", view)], level=level),
    CrossView: lambda view, level, *_: cross_chart(view, level=level),
    Joint: lambda joint, *_: joint_chart(joint),
    LabelComparison: lambda found, _, top, __: comparison_chart(found, top=top),
    NumberComparison: lambda found, level, *_: means_chart([("A", found.a), ("B", found.b)], level=level),
    ScaleComparison: lambda found, level, *_: scales_chart([("A", found.a), ("B", found.b)], level=level),
}
"""The chart of each kind of table, given a level, the number of rows, and whether intervals hold at once."""
