"""Line charts as SVG without any library: curves, simulated points with intervals, and bands; linear or log scales."""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["STYLE", "Series", "line_chart", "standalone"]

WIDE, HIGH, LEFT, RIGHT, BOTTOM = 720.0, 380.0, 76.0, 16.0, 50.0
LEGEND_ROW = 20.0
LETTER = 6.9
"""About the width of a letter, to break the legend into rows."""
COLOURS = 6

STYLE = """
.chart { --c0: #1f6f8b; --c1: #c8553d; --c2: #5b7f2b; --c3: #8456a8; --c4: #b7791f; --c5: #68707c;
  --chart-ink: var(--ink, #20242b); --chart-quiet: var(--quiet, #68707c); --chart-line: var(--line, #dcd9d0); }
@media (prefers-color-scheme: dark) { .chart { --c0: #5fb3cf; --c1: #f08a6c; --c2: #a3c964; --c3: #c39be6;
  --c4: #e3b565; --c5: #98a1ad; --chart-ink: var(--ink, #e4e6ea); --chart-quiet: var(--quiet, #98a1ad);
  --chart-line: var(--line, #323842); } }
.chart text { fill: var(--chart-ink); font-size: 12.5px; } .chart .quiet { fill: var(--chart-quiet); }
.chart .grid { stroke: var(--chart-line); } .chart .axis { stroke: var(--chart-quiet); }
.chart .curve { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.chart .mark { stroke-width: 1.6; } .chart .band { stroke: none; opacity: .2; }
""" + "".join(
    f".chart .s{i} {{ stroke: var(--c{i}); }} .chart .f{i} {{ fill: var(--c{i}); }}\n" for i in range(COLOURS)
)
"""What a page must hold once for the charts on it; :func:`standalone` puts it into a picture of its own."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points with one name: (x, y) of a line or of dots, (x, y, low, high) of dots with intervals, (x, low, high)
    of a band."""

    label: str
    points: Sequence[tuple[float, ...]]
    kind: Literal["line", "dots", "band"] = "line"


def line_chart(
    series: Sequence[Series], *, title: str, x: str, y: str, log_x: bool = False, log_y: bool = False
) -> str:
    """All series in one picture with a legend; points that a logarithmic scale cannot show are left out.

    >>> curve = Series("exact", [(1, 0.5), (10, 0.1), (100, 0.02)])
    >>> seen = Series("simulated", [(10, 0.11, 0.09, 0.13)], "dots")
    >>> picture = line_chart([curve, seen], title="An attack", x="people", y="advantage", log_x=True)
    >>> picture.startswith("<svg"), picture.count("<path"), picture.count("<circle")
    (True, 1, 2)
    """
    shown = [_visible(one, log_x, log_y) for one in series]
    rows = _legend_rows(series)
    top = 8 + LEGEND_ROW * (max(row for row, _ in rows) + 1) if rows else 8.0
    across = _Scale.over([point[0] for points in shown for point in points], log_x, (LEFT, WIDE - RIGHT), 90)
    up = _Scale.over([v for points in shown for point in points for v in point[1:]], log_y, (HIGH - BOTTOM, top), 42)
    parts = [_frame(across, up, top), _names(x, y, top)]
    for place, (one, points) in enumerate(zip(series, shown, strict=True)):
        parts.append(_draw(one.kind, points, place % COLOURS, across.at, up.at))
    for place, (one, (row, left)) in enumerate(zip(series, rows, strict=True)):
        parts.append(_key(one, place % COLOURS, left, 14 + LEGEND_ROW * row))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDE:g} {HIGH:g}" role="img" aria-label="{html.escape(title)}">'
        f"<title>{html.escape(title)}</title>{''.join(parts)}</svg>"
    )


def standalone(picture: str) -> str:
    """The same picture as a file of its own, with its style and a ground to be read on.

    >>> standalone(line_chart([Series("a", [(0, 1), (1, 2)])], title="t", x="x", y="y")).count("xmlns")
    1
    """
    ground = (
        f"<style>{STYLE} .ground {{ fill: #fff; }} text {{ font-family: system-ui, sans-serif; }} "
        "@media (prefers-color-scheme: dark) { .ground { fill: #1c2027; } }</style>"
        f'<rect x="-12" y="-12" width="{WIDE + 24:g}" height="{HIGH + 24:g}" class="ground"/>'
    )
    head, _, rest = picture.partition("</title>")
    box = f'viewBox="-12 -12 {WIDE + 24:g} {HIGH + 24:g}"'
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return head.replace(f'viewBox="0 0 {WIDE:g} {HIGH:g}"', box, 1) + "</title>" + ground + rest + "\n"


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to places on the paper, and the ticks between."""

    at: Callable[[float], float]
    ticks: list[float]

    @classmethod
    def over(cls, values: Sequence[float], log: bool, ends: tuple[float, float], apart: float) -> "_Scale":
        low, high = (min(values), max(values)) if values else (1.0, 2.0)
        room = max(2, int(abs(ends[1] - ends[0]) / apart))
        if log:
            a, b = math.log10(low), math.log10(high)
            if b - a < 0.2:
                a, b = a - 0.1, b + 0.1
            margin = 0.02 * (b - a)
            a, b = a - margin, b + margin
            ticks = _decades(a, b, room)
        else:
            if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
                low, high = low - 0.5 * abs(low or 1), high + 0.5 * abs(high or 1)
            margin = 0.03 * (high - low)
            a, b = (low if low == 0 else low - margin), high + margin
            ticks = _evenly(a, b, room)

        def at(value: float) -> float:
            share = ((math.log10(value) if log else value) - a) / (b - a)
            return ends[0] + share * (ends[1] - ends[0])

        return cls(at, ticks)


def _decades(a: float, b: float, room: int) -> list[float]:
    tens = [float(power) for power in range(math.ceil(a), math.floor(b) + 1)]
    if len(tens) >= 3:
        step = -(-len(tens) // room)
        return [10.0**power for power in tens if power % step == 0]
    fine = [digit * 10.0**power for power in range(math.floor(a), math.ceil(b) + 1) for digit in (1, 2, 5)]
    return [value for value in fine if a <= math.log10(value) <= b]


def _evenly(a: float, b: float, room: int) -> list[float]:
    rough = (b - a) / room
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough * (1 - 1e-9))
    return [step * i for i in range(math.ceil(a / step - 1e-9), math.floor(b / step + 1e-9) + 1)]


def _number(value: float) -> str:
    """A tick as people write it.

    >>> [_number(v) for v in (0.0, 0.25, 20_000.0, 1e6, 2e-7)]
    ['0', '0.25', '20,000', '10⁶', '2·10⁻⁷']
    """
    if value == 0 or 1e-4 < abs(value) < 1e5:
        return f"{value:,.10g}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    digits = round(value / 10.0**power, 6)
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digits == 1 else f"{digits:g}·10{raised}"


def _visible(one: Series, log_x: bool, log_y: bool) -> list[tuple[float, ...]]:
    def fits(point: tuple[float, ...]) -> bool:
        finite = all(map(math.isfinite, point))
        middle = min(point[1:]) if one.kind == "band" else point[1]
        return finite and (point[0] > 0 or not log_x) and (middle > 0 or not log_y)

    points = [tuple(map(float, point)) for point in one.points if fits(point)]
    if not log_y or one.kind != "dots":
        return points
    # An interval that reaches 0 is drawn down to a tenth of its point.
    return [(*p[:2], p[2] if p[2] > 0 else p[1] / 10, p[3]) if len(p) == 4 else p for p in points]


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{html.escape(text)}</text>'


def _stroke(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _frame(across: _Scale, up: _Scale, top: float) -> str:
    floor = HIGH - BOTTOM
    parts = []
    for tick in up.ticks:
        parts += [_stroke(LEFT, up.at(tick), WIDE - RIGHT, up.at(tick), "grid")]
        parts += [_text(LEFT - 8, up.at(tick) + 4, _number(tick), "end", "quiet")]
    for tick in across.ticks:
        parts += [_stroke(across.at(tick), floor, across.at(tick), floor + 5, "axis")]
        parts += [_text(across.at(tick), floor + 19, _number(tick), "middle", "quiet")]
    parts += [_stroke(LEFT, floor, WIDE - RIGHT, floor, "axis"), _stroke(LEFT, top, LEFT, floor, "axis")]
    return "".join(parts)


def _names(x: str, y: str, top: float) -> str:
    middle = (top + HIGH - BOTTOM) / 2
    return (
        _text((LEFT + WIDE - RIGHT) / 2, HIGH - 8, x, "middle", "quiet")
        + f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle" class="quiet">'
        + f"{html.escape(y)}</text>"
    )


def _draw(
    kind: str, points: list[tuple[float, ...]], colour: int, at: Callable[[float], float], up: Callable[[float], float]
) -> str:
    if kind == "dots":
        parts = []
        for point in points:
            x = at(point[0])
            if len(point) == 4:
                parts.append(_stroke(x, up(point[2]), x, up(point[3]), f"mark s{colour}"))
            parts.append(f'<circle cx="{x:.1f}" cy="{up(point[1]):.1f}" r="3.6" class="f{colour}"/>')
        return "".join(parts)
    if not points:
        return ""
    if kind == "band":
        path = [(at(p[0]), up(p[2])) for p in points] + [(at(p[0]), up(p[1])) for p in reversed(points)]
        return f'<path d="M{_path(path)}Z" class="band f{colour}"/>'
    return f'<path d="M{_path([(at(p[0]), up(p[1])) for p in points])}" class="curve s{colour}"/>'


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _legend_rows(series: Sequence[Series]) -> list[tuple[int, float]]:
    """(row, left end) of every entry of the legend."""
    places, row, left = [], 0, LEFT
    for one in series:
        width = 34 + LETTER * len(one.label)
        if left > LEFT and left + width > WIDE - RIGHT:
            row, left = row + 1, LEFT
        places.append((row, left))
        left += width + 14
    return places


def _key(one: Series, colour: int, left: float, middle: float) -> str:
    if one.kind == "dots":
        mark = f'<circle cx="{left + 11:.1f}" cy="{middle:.1f}" r="3.6" class="f{colour}"/>'
    elif one.kind == "band":
        mark = f'<rect x="{left:.1f}" y="{middle - 5:.1f}" width="22" height="10" class="band f{colour}"/>'
    else:
        mark = _stroke(left, middle, left + 22, middle, f"curve s{colour}")
    return mark + _text(left + 28, middle + 4, one.label)
