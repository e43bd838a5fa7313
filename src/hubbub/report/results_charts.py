"""Charts of results: the differences of a comparison, and the heat map of a joint table."""

import textwrap

import numpy as np

from hubbub.errors import reject
from hubbub.report.charts import Axis, number, ticks
from hubbub.report.figures import Canvas, Chart
from hubbub.report.rows import row_axes
from hubbub.report.style import LIGHT
from hubbub.results.comparisons import Comparison
from hubbub.results.joint import Joint, grid_of

DARKEST = 0.6  # opacity of the largest cell, on which text remains readable


def comparison_chart(comparison: Comparison, *, top: int = 20) -> Chart:
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

    return Chart(f"Differences between {comparison.n_a:,} and {comparison.n_b:,} people", draw)


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
