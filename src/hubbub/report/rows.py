"""Charts with a row for every label or protocol: counts, their errors, and the frontier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub import planner
from hubbub.model.plans import Plan
from hubbub.report.charts import REFERENCE, Axis, number, ticks
from hubbub.report.figures import Canvas, Chart
from hubbub.report.style import LIGHT, MARKERS
from hubbub.results.labels import LabelView

LONGEST = {True: 36, False: 44}  # longest label that fits, in letters, on wide and on narrow charts

TRUST = {
    "nobody": ("three", "nobody"),
    "shuffling": ("one", "the shuffler"),
    "shuffler-noise": ("two", "the shuffler, which also draws fakes"),
}
"""Colour of each kind of trust, and the party that must be honest."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A true count, if it is known, its estimate, and the interval around it."""

    label: str
    truth: float | None
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Rank:
    """A protocol on the frontier: its error, the trust it needs (a key of :data:`TRUST`), and messages per person."""

    name: str
    error: float
    trust: str
    messages: float | None
    """None if the services do not offer the protocol."""


def bars_of(
    estimate: LabelView, truth: Sequence[int] | NDArray[np.int64] | None = None, chosen: Sequence[int] | None = None,
    *, level: float = 0.95, simultaneous: bool = False,
) -> list[Bar]:  # fmt: skip
    """Return the counts of an estimate with their intervals and, if known, the true counts."""
    low, high = estimate.interval(level, simultaneous=simultaneous)
    places = range(len(estimate.labels)) if chosen is None else chosen
    known = [None] * len(estimate.labels) if truth is None else [float(count) for count in truth]
    values = estimate.values.tolist(), low.tolist(), high.tolist()
    return [Bar(estimate.labels[i], known[i], *(part[i] for part in values)) for i in places]


def estimate_chart(estimate: LabelView, *, level: float = 0.95, top: int = 20, simultaneous: bool = False) -> Chart:
    """Draw the largest counts of an estimate with their intervals."""
    order = sorted(range(len(estimate.labels)), key=lambda i: -estimate.values[i])[:top]
    bars = bars_of(estimate, None, order, level=level, simultaneous=simultaneous)
    return bar_chart(bars, f"Estimated counts of {estimate.n:,} people", level=level)


def bar_chart(bars: Sequence[Bar], title: str, *, level: float = 0.95) -> Chart:
    """Draw estimated counts as bars with intervals, and a mark at each true count."""

    def draw(canvas: Canvas) -> None:
        axes, places = row_axes(canvas, [bar.label for bar in bars], "people")
        half = 0.3 if canvas.wide else 0.17
        axes.barh(places, [bar.value for bar in bars], 2 * half, color=LIGHT["one"], alpha=0.8, linewidth=0)
        axes.hlines(places, [bar.low for bar in bars], [bar.high for bar in bars], color=LIGHT["ink"], linewidth=1.8)
        known = [(bar.truth, place) for bar, place in zip(bars, places, strict=True) if bar.truth is not None]
        for true, place in known:
            axes.plot([true, true], [place - half - 0.1, place + half + 0.1], color=LIGHT["two"], linewidth=2.6)
        for bar, place in zip(bars, places, strict=True):
            _beside(axes, max(bar.high, bar.value, bar.truth or 0), place, f"{bar.value:z,.0f}")
        ends = [end for bar in bars for end in (bar.low, bar.value, bar.high, bar.truth or 0)]
        high = max(1.0, *ends) * (1.14 if canvas.wide else 1.25)
        ticks(canvas, axes.xaxis, Axis("", min(0.0, *ends), high), 6 if canvas.wide else 4)
        handles = [
            canvas.sample("estimate", color=LIGHT["one"], alpha=0.8, linewidth=9, solid_capstyle="butt"),
            canvas.sample(f"{100 * level:g}% interval", color=LIGHT["ink"], linewidth=1.8),
            canvas.sample("truth", color=LIGHT["two"], linestyle="none", marker="|", markersize=13, mew=2.6),
        ]
        canvas.legend(handles if known else handles[:2])

    return Chart(title, draw)


def error_chart(bars: Sequence[Bar], title: str, *, centre: str = "truth", name: str = "estimate − truth") -> Chart:
    """Draw the error of each estimate with its interval."""
    ends = [(bar.low - (bar.truth or 0), bar.value - (bar.truth or 0), bar.high - (bar.truth or 0)) for bar in bars]

    def draw(canvas: Canvas) -> None:
        axes, places = row_axes(canvas, [bar.label for bar in bars], name)
        axes.axvline(0, color=LIGHT["two"], linewidth=1.8)
        axes.hlines(places, [end[0] for end in ends], [end[2] for end in ends], color=LIGHT["ink"], linewidth=1.8)
        axes.plot([end[1] for end in ends], places, "o", color=LIGHT["one"], markersize=8)
        widest = 1.1 * max((abs(x) for end in ends for x in end), default=0.0) or 1.0
        count = 8 if canvas.wide else 4
        ticks(canvas, axes.xaxis, Axis("", -widest, widest), count, lambda x: number(x, signed=True) if x else centre)

    return Chart(title, draw)


def plans_chart(plans: Sequence[Plan], *, central: float | None = None) -> Chart:
    """Rank plans for one request, such as those of :func:`hubbub.frontier`, by error."""
    ranks = [
        Rank(planner.family_name(one), one.stderr, one.guarantee.assumptions.trust, planner.cost(one).messages)
        for one in plans
    ]
    return frontier_chart(ranks, plans_title(plans), central=central)


def plans_title(plans: Sequence[Plan]) -> str:
    """Return a title with an ε and a δ that hold for all plans."""
    epsilon, delta = (_rounded_up(max(getattr(one.guarantee, name) for one in plans)) for name in ("epsilon", "delta"))
    return f"Protocols for {plans[0].n:,} people at ε ≤ {epsilon:g}, δ ≤ {number(delta, powers=True)}"


def _rounded_up(value: float) -> float:
    """Return the number with two digits that is not below the value.

    >>> _rounded_up(9.91e-9), _rounded_up(1.0), _rounded_up(0.0)
    (1e-08, 1.0, 0.0)
    """
    nearest = float(f"{value:.1e}")
    return nearest if nearest >= value else float(f"{value * 1.05:.1e}")


def frontier_chart(
    ranks: Sequence[Rank], title: str, *, name: str = "standard error of a count, people", central: float | None = None
) -> Chart:
    """Rank protocols by error, best first; colour and marker show the trust that each needs.

    ``central`` is the error of a server that sees all records, as a reference.
    """
    ranks = sorted((one for one in ranks if one.error > 0), key=lambda one: one.error)
    errors = [*(one.error for one in ranks), *([central] if central else [])]

    def draw(canvas: Canvas) -> None:
        axes, places = row_axes(canvas, [one.name for one in ranks], f"{name} (logarithmic)", bold=0)
        axes.set_xscale("log")
        low, high = min(errors), max(errors)
        reach = max(high / low, 2.0)
        ends = low / reach**0.06, high * reach ** (0.2 if canvas.wide else 0.3)
        handles = []
        axes.hlines(places, ends[0], [one.error for one in ranks], color=LIGHT["line"], linewidth=1.5)
        for one, place in zip(ranks, places, strict=True):
            colour, _ = TRUST[one.trust]
            axes.plot([one.error], [place], MARKERS[colour], color=LIGHT[colour], markersize=10)
            _beside(axes, one.error, place, number(float(f"{one.error:.3g}")), weight="bold")
            if canvas.wide:
                at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
                cost = (
                    "not offered" if one.messages is None else f"{one.messages:,.3g} message{'s' * (one.messages != 1)}"
                )
                axes.annotate(cost, (1, place), (10, 0), va="center_baseline", color=LIGHT["muted"], **at)
        for key, (colour, words) in TRUST.items():
            if any(one.trust == key for one in ranks):
                look = {"marker": MARKERS[colour], "markersize": 10, "linestyle": "none"}
                handles.append(canvas.sample(words, color=LIGHT[colour], **look))
        if central:
            axes.axvline(central, **REFERENCE)
            handles.append(canvas.sample(f"a server that sees every record: {central:.3g}", **REFERENCE))
        ticks(canvas, axes.xaxis, Axis("", ends[0], ends[1], log=True), 8 if canvas.wide else 4)
        canvas.legend(handles, "Who must be honest:")

    return Chart(title, draw)


def row_axes(canvas: Canvas, labels: Sequence[str], name: str, *, bold: int = -1) -> tuple[Any, list[float]]:
    """Return axes with a labelled row per bar, and the positions of the bars; narrow charts have labels above them."""
    shown = [one if len(one) <= LONGEST[canvas.wide] else one[: LONGEST[canvas.wide] - 1] + "…" for one in labels]
    axes = canvas.axes(len(labels) * (28 if canvas.wide else 44) + 58)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(canvas.fit(name))
    axes.grid(False, axis="y")
    axes.spines.left.set_visible(False)
    weights = ["bold" if i == bold else "normal" for i in range(len(labels))]
    if canvas.wide:
        axes.set_yticks(range(len(labels)), shown, color=LIGHT["ink"])
        for text, weight in zip(axes.get_yticklabels(), weights, strict=True):
            text.set_weight(weight)
        return axes, [float(i) for i in range(len(labels))]
    axes.set_yticks([])
    for i, (text, weight) in enumerate(zip(shown, weights, strict=True)):
        background = {"facecolor": LIGHT["card"], "edgecolor": "none", "pad": 1}  # grid lines stop at the label
        axes.annotate(
            text, (0, i - 0.12), xycoords=("axes fraction", "data"), va="bottom", weight=weight, bbox=background
        )
    return axes, [i + 0.17 for i in range(len(labels))]


def _beside(axes: Any, x: float, y: float, words: str, **style: Any) -> None:
    axes.annotate(words, (x, y), xytext=(9, 0), textcoords="offset points", va="center_baseline", **style)
