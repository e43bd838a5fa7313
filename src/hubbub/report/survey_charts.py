"""Charts of the results of surveys: distributions, means, cross-tables, and figures over several rounds."""

import textwrap
from collections.abc import Sequence
from typing import Literal

import numpy as np

from hubbub.errors import reject
from hubbub.report.charts import Axis, Mark, Series, chart, number, ticks
from hubbub.report.figures import Canvas, Chart
from hubbub.report.results_charts import DARKEST
from hubbub.report.rows import row_axes
from hubbub.report.style import COLOURS, LIGHT
from hubbub.results.cross import CrossEstimate
from hubbub.results.measures import Measure
from hubbub.results.numbers import NumberEstimate
from hubbub.results.scales import ScaleEstimate

MARKED = (0.5, 0.95)  # quantiles that a distribution shows
LOGARITHMIC = 30.0  # ratio of the widest to the first bucket from which on the axis is logarithmic
DOTS = 60  # rounds up to which each of them has a dot
CELLS = 12, 24  # columns and rows that a heat map shows


def in_unit(name: str, unit: str) -> str:
    """Return a name with its unit.

    >>> in_unit("load time", "ms"), in_unit("age", "")
    ('load time, ms', 'age')
    """
    return f"{name}, {unit}" if unit else name


def scale_chart(estimate: ScaleEstimate, *, level: float = 0.95) -> Chart:
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


def scales_chart(estimates: Sequence[tuple[str, ScaleEstimate]], *, level: float = 0.95) -> Chart:
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


def _across(estimate: ScaleEstimate) -> Axis:
    """Return the axis of a scale, logarithmic if its buckets grow much."""
    edges = estimate.question.edges
    log = edges[0] > 0 and edges[-1] - edges[-2] > LOGARITHMIC * (edges[1] - edges[0])
    return Axis(in_unit(estimate.name, estimate.question.unit), float(edges[0]), float(edges[-1]), log=log)


def number_chart(estimate: NumberEstimate, *, level: float = 0.95) -> Chart:
    """Draw the mean with the intervals of the collection and of the population."""
    return means_chart([("", estimate)], level=level)


def means_chart(estimates: Sequence[tuple[str, NumberEstimate]], *, level: float = 0.95) -> Chart:
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


def rounds_chart(measures: Sequence[Measure], title: str, *, level: float = 0.95, name: str = "round") -> Chart:
    """Draw a figure over several rounds: a line, with a ribbon for the interval of each round."""
    if not measures:
        reject("measures", "contain at least one figure")
    ends = [one.interval(level) for one in measures]
    places = range(1, len(measures) + 1)
    ribbon = [(float(x), low, high) for x, (low, high) in zip(places, ends, strict=True)]
    line = [(float(x), one.value) for x, one in zip(places, measures, strict=True)]
    series = [
        Series(label=f"{100 * level:g}% intervals of the people who answered", points=ribbon, kind="band", colour="one")
    ]
    first = measures[0]
    if first.sampled:
        outer = [one.interval(level, of="population") for one in measures]
        wide = [(float(x), low, high) for x, (low, high) in zip(places, outer, strict=True)]
        label = f"{100 * level:g}% intervals of the population"
        series.insert(0, Series(label=label, points=wide, kind="band", colour="two"))
    kind: Literal["line", "both"] = "both" if len(measures) <= DOTS else "line"
    series.append(Series(label=first.name, points=line, kind=kind, colour="one", size=5.0))
    # A ribbon around a figure is read by its distance to others, not to zero.
    seen = [end for one in series for point in one.points for end in point[1:]]
    margin = 0.06 * (max(seen) - min(seen)) or 1.0
    up = Axis(in_unit(first.name, first.unit), min(seen) - margin, max(seen) + margin)
    return chart(series, title, across=Axis(name, 0.5, len(measures) + 0.5), up=up)


def cross_chart(estimate: CrossEstimate, *, level: float = 0.95) -> Chart:
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
