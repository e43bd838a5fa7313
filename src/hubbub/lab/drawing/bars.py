"""Counts as bars, and their errors under a magnifying glass."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.estimates import Estimate
from hubbub.lab.drawing.axes import Axis, number
from hubbub.lab.drawing.paper import WIDE, dot, line, picture, text

ROW, LEFT = 26.0, 150.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A true count, its estimate, and the interval around it."""

    label: str
    truth: float
    value: float
    low: float
    high: float


def bars_of(
    estimate: Estimate, truth: Sequence[int] | NDArray[np.int64], chosen: Sequence[int] | None = None
) -> list[Bar]:
    """The counts of an estimate beside the truth, with 95 % intervals: all labels, or the chosen ones."""
    low, high = estimate.interval(0.95)
    return [
        Bar(estimate.labels[i], float(truth[i]), float(estimate.values[i]), float(low[i]), float(high[i]))
        for i in (range(len(estimate.labels)) if chosen is None else chosen)
    ]


def bar_chart(bars: Sequence[Bar], title: str) -> str:
    """Estimated counts as bars with intervals, and a mark at each true count.

    >>> bar_chart([Bar("a", 10, 11, 9, 13)], "counts").startswith("<svg")
    True
    """
    top = max(1.0, *(max(bar.high, bar.truth) for bar in bars))
    scale = Axis("people", 0.0, top).over([], LEFT, WIDE - 90, 90)
    parts = []
    for place, bar in enumerate(bars):
        y = place * ROW
        middle, truth, wide = y + ROW / 2, scale.place(bar.truth), scale.inside(bar.value) - LEFT
        parts += [
            text(LEFT - 10, middle + 4, bar.label, anchor="end"),
            f'<rect x="{LEFT}" y="{y + 5}" width="{wide:.1f}" height="{ROW - 10}" class="bar"/>',
            line(scale.inside(bar.low), middle, scale.inside(bar.high), middle, "interval"),
            line(truth, y + 2, truth, y + ROW - 2, "truth"),
            text(max(scale.inside(bar.high), truth) + 8, middle + 4, f"{bar.value:,.0f}", kind="figure"),
        ]
    return picture(len(bars) * ROW + 4, title, parts)


def error_chart(bars: Sequence[Bar], title: str, *, centre: str = "truth") -> str:
    """How far each estimate lies from the truth, with its interval: the same bars under a magnifying glass.

    >>> error_chart([Bar("a", 10, 11, 9, 13)], "errors").count("<circle")
    1
    """
    widest = 1.15 * max(max(abs(bar.low - bar.truth), abs(bar.high - bar.truth)) for bar in bars)
    scale = Axis("error", -widest, widest).over([], LEFT + 10, WIDE - 24, 120)
    height = len(bars) * ROW
    parts = [line(scale.place(0), 0, scale.place(0), height, "truth")]
    for place, bar in enumerate(bars):
        middle = place * ROW + ROW / 2
        low, value, high = (scale.place(x - bar.truth) for x in (bar.low, bar.value, bar.high))
        parts += [
            text(LEFT - 10, middle + 4, bar.label, anchor="end"),
            line(low, middle, high, middle, "interval"),
            dot(value, middle, "one", 4),
        ]
    for tick in scale.ticks():
        words = number(tick, signed=True) if tick else centre
        parts.append(text(scale.place(tick), height + 16, words, anchor="middle", kind="quiet"))
    return picture(height + 22, title, parts)
