"""Charts over one pair of axes: lines, dots with intervals, bands and reference lines."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hubbub.report.figures import Canvas, Chart
from hubbub.report.style import COLOURS, LIGHT, MARKERS

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DASHES = {"dashed": (0, (5, 3)), "dotted": (0, (1, 2.5))}
REFERENCE: dict[str, Any] = {"color": LIGHT["ink"], "linewidth": 1.2, "linestyle": DASHES["dashed"]}
"""Style of reference lines."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The name, limits and scale of an axis; limits that are None follow from the values."""

    name: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    at: tuple[float, ...] = ()  # positions of the ticks; by default round values
    percent: bool = False

    def shows(self, value: float) -> bool:
        """Return True if the scale can represent a value."""
        return math.isfinite(value) and (value > 0 or not self.log)

    def holds(self, value: float) -> bool:
        """Return True if a value lies within the limits."""
        low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
        return self.shows(value) and low <= value <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Named points: (x, y); (x, y, low, high) for dots with intervals; (x, low, high) for a band."""

    label: str = ""  # name in the legend, if any
    points: Sequence[tuple[float, ...]]
    kind: Literal["line", "dots", "both", "band"] = "line"
    colour: str = ""  # one of COLOURS; by default the next in order
    stroke: str = ""  # thin, dashed, dotted, or two of them separated by a space
    names: Sequence[str] = ()  # tooltips of the points
    size: float = 6.5  # diameter of dots in pixels

    def line(self) -> dict[str, Any]:
        """Return the line properties for matplotlib."""
        words = self.stroke.split()
        dashes = next((DASHES[word] for word in words if word in DASHES), "-")
        return {"linestyle": dashes, "linewidth": 1.5 if "thin" in words else 2.2}


@dataclass(frozen=True, slots=True)
class Mark:
    """A reference line at a value: vertical and labelled, or horizontal and named in the legend."""

    words: str
    value: float
    up: bool = False


def chart(
    series: Sequence[Series], title: str, *, across: Axis, up: Axis, marks: Sequence[Mark] = (), height: float = 330.0
) -> Chart:
    """Return a chart of all series over one pair of axes, without points that the scales cannot represent."""
    coloured = [(one, one.colour or COLOURS[place % len(COLOURS)]) for place, one in enumerate(series)]

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes(height if canvas.wide else min(height, 300.0))
        scales = {"xscale": "log" if across.log else "linear", "yscale": "log" if up.log else "linear"}
        axes.set(title=canvas.fit(up.name), xlabel=canvas.fit(across.name), **scales)
        for one, colour in coloured:
            _plot(canvas, axes, one, LIGHT[colour], MARKERS[colour], across, up)
        for mark in marks:
            _mark(axes, mark)
        lines = [_sample(canvas, one, colour) for one, colour in coloured if one.label]
        lines += [canvas.sample(mark.words, **REFERENCE) for mark in marks if mark.up]
        ticks(canvas, axes.xaxis, across, 8 if canvas.wide else 4)
        ticks(canvas, axes.yaxis, up, 7)
        canvas.legend(lines)

    return Chart(title, draw)


def _plot(canvas: Canvas, axes: Any, one: Series, colour: str, marker: str, across: Axis, up: Axis) -> None:
    shown = [point for point in one.points if across.shows(point[0])]
    if one.kind == "band":
        shown = [point for point in shown if up.shows(point[1]) and up.shows(point[2])]
        if shown:
            axes.fill_between(*zip(*shown, strict=True), color=colour, alpha=0.2, linewidth=0)
        return
    if one.kind != "dots" and shown:  # NaN interrupts the line
        ys = [point[1] if up.shows(point[1]) else math.nan for point in shown]
        axes.plot([point[0] for point in shown], ys, color=colour, **one.line())
    if one.kind == "line":
        return
    for place, point in enumerate(one.points):
        if not (across.holds(point[0]) and up.holds(point[1])):
            continue
        x, y = point[:2]
        if point[2:]:
            low = y / 10 if up.log and point[2] <= 0 else point[2]
            axes.plot([x, x], [low, point[3]], color=colour, linewidth=1.5, alpha=0.7)
        (dot,) = axes.plot([x], [y], marker, color=colour, markersize=one.size, clip_on=False)
        if one.names:
            canvas.tip(dot, one.names[place])


def _mark(axes: Any, mark: Mark) -> None:
    if mark.up:
        axes.axhline(mark.value, **REFERENCE)
        return
    axes.axvline(mark.value, **REFERENCE)
    background = {"facecolor": LIGHT["card"], "edgecolor": "none", "pad": 1.5}
    at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axes.annotate(mark.words, (mark.value, 0.99), (5, 0), va="top", bbox=background, **at)


def _sample(canvas: Canvas, one: Series, colour: str) -> Any:
    """Return the legend entry of a series."""
    dots = {"marker": MARKERS[colour], "markersize": one.size}
    look: dict[str, Any] = {
        "line": one.line(),
        "both": one.line() | dots,
        "dots": {"linestyle": "none", **dots},
        "band": {"linewidth": 9.0, "alpha": 0.2, "solid_capstyle": "butt"},
    }[one.kind]
    return canvas.sample(one.label, color=LIGHT[colour], **look)


def ticks(canvas: Canvas, axis: Any, shown: Axis, count: int, write: Callable[[float], str] | None = None) -> None:
    """Set the limits of an axis, about ``count`` round ticks, and their number format."""
    ticker = canvas.mpl.ticker
    low, high = axis.get_view_interval()
    if shown.low is None and not shown.log and low < 0 <= axis.get_data_interval()[0]:
        low = 0.0
    low, high = (low if shown.low is None else shown.low), (high if shown.high is None else shown.high)
    (axis.axes.set_xlim if axis.axis_name == "x" else axis.axes.set_ylim)(low, high)
    decades = math.log10(high / low) if shown.log else 0.0
    if shown.at:
        locator = ticker.FixedLocator(shown.at)
    elif decades >= 2.5:
        locator = ticker.LogLocator(numticks=count + 2)
    elif decades >= 0.7:
        locator = ticker.LogLocator(subs=(1, 2, 5) if decades < 0.25 * count else (1, 3), numticks=12)
    else:
        locator = ticker.MaxNLocator(count, steps=(1, 2, 5, 10))
    axis.set_major_locator(locator)
    axis.set_minor_locator(ticker.NullLocator())
    powers = not shown.percent and (max(abs(low), abs(high)) >= 1e5 or (low if shown.log else abs(high)) < 1e-3)

    def default_format(value: float) -> str:
        return f"{number(100 * value)}%" if shown.percent else number(value, powers=powers)

    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: (write or default_format)(float(f"{value:.9g}"))))


def number(value: float, *, powers: bool = False, signed: bool = False) -> str:
    """Format a number for readers; with ``powers``, as a power of ten below 0.1 and from 1,000 on.

    >>> [number(x) for x in (0.0, 0.25, -0.2, 20_000.0)], [number(x, powers=True) for x in (1e6, 2e-7, 100.0, 1000.0)]
    (['0', '0.25', '−0.2', '20,000'], ['10⁶', '2·10⁻⁷', '100', '10³'])
    >>> number(20, signed=True)
    '+20'
    """
    sign = "−" if value < 0 else "+" if signed and value else ""
    value = abs(value)
    if not powers or value == 0 or 0.1 <= value < 1e3:
        return f"{sign}{value:,.10g}"
    power = math.floor(math.log10(value) + 1e-9)
    digits = round(value / 10.0**power, 6)
    return sign + ("" if digits == 1 else f"{digits:g}·") + "10" + str(power).translate(RAISED)
