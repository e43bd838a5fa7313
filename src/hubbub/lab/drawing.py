"""Small SVG pictures without any library, in the colours of the page that they stand in."""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "Bar",
    "Finding",
    "Point",
    "agreement_chart",
    "band_chart",
    "bar_chart",
    "error_chart",
    "scatter_chart",
    "trade_chart",
]

ROW, LEFT, WIDE = 26, 150, 720


@dataclass(frozen=True, slots=True)
class Bar:
    """A true count, its estimate, and the interval around it."""

    label: str
    truth: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Point:
    """A protocol among others."""

    label: str
    x: float
    y: float
    best: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """What was observed where something else was predicted, with an interval."""

    label: str
    x: float
    value: float
    low: float
    high: float
    kind: str = "dot"
    """How it is drawn: ``dot``, ``other``, or ``alarm`` if it contradicts the prediction."""


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    body = "".join(parts)
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{html.escape(title)}">'
        f"<title>{html.escape(title)}</title>{body}</svg>"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{html.escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def bar_chart(bars: Sequence[Bar], title: str) -> str:
    """Estimated counts as bars with intervals, and a mark at each true count.

    >>> bar_chart([Bar("a", 10, 11, 9, 13)], "counts").startswith("<svg")
    True
    """
    top = max(max(bar.high, bar.truth) for bar in bars)
    scale = (WIDE - LEFT - 90) / max(top, 1)
    parts = []
    for place, bar in enumerate(bars):
        y = place * ROW
        middle = y + ROW / 2
        parts += [
            _text(LEFT - 10, middle + 4, bar.label, anchor="end"),
            f'<rect x="{LEFT}" y="{y + 5}" width="{max(bar.value, 0) * scale:.1f}" height="{ROW - 10}" class="bar"/>',
            _line(LEFT + max(bar.low, 0) * scale, middle, LEFT + max(bar.high, 0) * scale, middle, "interval"),
            _line(LEFT + bar.truth * scale, y + 2, LEFT + bar.truth * scale, y + ROW - 2, "truth"),
            _text(LEFT + max(bar.high, bar.truth, 0) * scale + 8, middle + 4, f"{bar.value:,.0f}", kind="figure"),
        ]
    return _svg(WIDE, len(bars) * ROW + 4, title, parts)


def error_chart(bars: Sequence[Bar], title: str, *, centre_label: str = "truth") -> str:
    """How far each estimate lies from the truth, with its interval: the same bars under a magnifying glass.

    >>> error_chart([Bar("a", 10, 11, 9, 13)], "errors").count("<circle")
    1
    """
    widest = 1.15 * max(max(abs(bar.low - bar.truth), abs(bar.high - bar.truth)) for bar in bars)
    centre = LEFT + (WIDE - LEFT) / 2
    scale = (WIDE - LEFT) / 2 / widest
    height = len(bars) * ROW
    parts = [_line(centre, 0, centre, height, "truth")]
    for place, bar in enumerate(bars):
        middle = place * ROW + ROW / 2
        low, value, high = (centre + (x - bar.truth) * scale for x in (bar.low, bar.value, bar.high))
        parts += [
            _text(LEFT - 10, middle + 4, bar.label, anchor="end"),
            _line(low, middle, high, middle, "interval"),
            f'<circle cx="{value:.1f}" cy="{middle:.1f}" r="4" class="dot"/>',
        ]
    step = _round(widest / 2)
    for tick in (-step, 0.0, step):
        parts.append(_text(centre + tick * scale, height + 16, _tick(tick) or centre_label, anchor="middle"))
    return _svg(WIDE, height + 22, title, parts)


def agreement_chart(findings: Sequence[Finding], title: str, *, across: str, up: str) -> str:
    """Observed against predicted on two equal logarithmic scales, with the line on which they agree.

    >>> agreement_chart([Finding("flip", 10, 11, 9, 13)], "errors", across="predicted", up="observed").count("<circle")
    1
    """
    ends = [math.log10(value) for one in findings for value in (one.x, one.value) if value > 0] or [0.0]
    low, high = min(ends) - 0.15, max(*ends, min(ends) + 0.3) + 0.15
    height, left, bottom = 420.0, 70.0, 46.0

    def at(value: float, size: float) -> float:
        return (math.log10(max(value, 10**low)) - low) / (high - low) * size

    wide, tall = WIDE - left - 30, height - bottom
    parts = [
        _line(left, tall, WIDE, tall, "axis"),
        _line(left, 0, left, tall, "axis"),
        _line(left, tall, left + wide, 0, "reference"),
        _text(left + wide - 60, 24, "as predicted", anchor="end", kind="quiet"),
    ]
    for tick in _ticks(10**low, 10**high):
        parts.append(_text(left + at(tick, wide), tall + 18, f"{tick:,g}", anchor="middle", kind="quiet"))
        parts.append(_text(left - 8, tall - at(tick, tall) + 4, f"{tick:,g}", anchor="end", kind="quiet"))
    for one in findings:
        x = left + at(one.x, wide)
        parts.append(_finding(one, x, *(tall - at(value, tall) for value in (one.low, one.value, one.high))))
    return _svg(WIDE, height, title, [*parts, *_names(left, height, bottom, across, up)])


def band_chart(
    findings: Sequence[Finding], title: str, *, across: str, up: str, ideal: float, percent: bool = False
) -> str:
    """Findings with their intervals along a logarithmic scale, around a line that they should meet.

    >>> band_chart([Finding("flip", 10, 0.94, 0.9, 0.97)], "", across="", up="", ideal=0.95).count("<circle")
    1
    """
    height, left, bottom = 300.0, 70.0, 46.0
    spread = [math.log10(one.x) for one in findings if one.x > 0] or [0.0]
    x0, x1 = min(spread) - 0.1, max(*spread, min(spread) + 0.3) + 0.1
    ends = [ideal, *(value for one in findings for value in (one.low, one.high))]
    y0, y1 = min(ends), max(ends)
    margin = 0.06 * max(y1 - y0, 1e-3)
    y0, y1 = y0 - margin, y1 + margin
    wide, tall = WIDE - left - 30, height - bottom

    def up_at(value: float) -> float:
        return tall - (value - y0) / (y1 - y0) * tall

    parts = [
        _line(left, tall, WIDE, tall, "axis"),
        _line(left, 0, left, tall, "axis"),
        _line(left, up_at(ideal), WIDE, up_at(ideal), "reference"),
    ]
    step = _round((y1 - y0) / 3)
    for place in range(math.ceil(y0 / step), math.floor(y1 / step) + 1):
        text = f"{place * step:.4g}" if not percent else f"{100 * place * step:.4g} %"
        parts.append(_text(left - 8, up_at(place * step) + 4, text, anchor="end", kind="quiet"))
    for tick in _ticks(10**x0, 10**x1):
        x = left + (math.log10(tick) - x0) / (x1 - x0) * wide
        parts.append(_text(x, tall + 18, f"{tick:,g}", anchor="middle", kind="quiet"))
    for one in findings:
        x = left + (math.log10(max(one.x, 10**x0)) - x0) / (x1 - x0) * wide
        parts.append(_finding(one, x, *map(up_at, (one.low, one.value, one.high))))
    return _svg(WIDE, height, title, [*parts, *_names(left, height, bottom, across, up)])


def _finding(one: Finding, x: float, low: float, value: float, high: float) -> str:
    kind = html.escape(one.kind)
    return (
        f"<g><title>{html.escape(one.label)}</title>{_line(x, low, x, high, f'whisker {kind}')}"
        f'<circle cx="{x:.1f}" cy="{value:.1f}" r="{5 if one.kind == "alarm" else 3.5}" class="{kind}"/></g>'
    )


def _names(left: float, height: float, bottom: float, across: str, up: str) -> list[str]:
    """What stands at the two axes."""
    return [
        _text((left + WIDE) / 2, height - 6, across, anchor="middle", kind="quiet"),
        f'<text transform="translate(14 {(height - bottom) / 2:.0f}) rotate(-90)" text-anchor="middle" class="quiet">'
        f"{html.escape(up)}</text>",
    ]


def scatter_chart(
    points: Sequence[Point], title: str, *, across: str, up: str, lines: Sequence[tuple[str, float]] = ()
) -> str:
    """Points on two logarithmic scales, with horizontal lines for references.

    >>> scatter_chart([Point("flip", 1, 10, True)], "frontier", across="messages", up="error").count("<circle")
    1
    """
    height, left, bottom, right = 340.0, 70.0, 46.0, 200.0
    spread_x = [math.log10(point.x) for point in points]
    spread_y = [math.log10(y) for y in [*(point.y for point in points), *(y for _, y in lines)]]
    x0, x1 = min(spread_x), max(*spread_x, min(spread_x) + 0.3)
    y0, y1 = min(spread_y) - 0.15, max(*spread_y, min(spread_y) + 0.3) + 0.15

    def across_at(value: float) -> float:
        return left + 20 + (math.log10(value) - x0) / (x1 - x0) * (WIDE - left - right)

    def up_at(value: float) -> float:
        return (height - bottom) - (math.log10(value) - y0) / (y1 - y0) * (height - bottom - 12)

    parts = [_line(left, height - bottom, WIDE, height - bottom, "axis"), _line(left, 0, left, height - bottom, "axis")]
    for name, value in lines:
        parts += [
            _line(left, up_at(value), WIDE, up_at(value), "reference"),
            _text(WIDE, up_at(value) - 5, name, anchor="end", kind="quiet"),
        ]
    for tick in _ticks(10**x0, 10**x1):
        parts.append(_text(across_at(tick), height - bottom + 18, f"{tick:g}", anchor="middle", kind="quiet"))
    for tick in _ticks(10**y0, 10**y1):
        parts.append(_text(left - 8, up_at(tick) + 4, f"{tick:,g}", anchor="end", kind="quiet"))
    taken: list[tuple[float, float]] = []
    for point in points:
        x, y = across_at(point.x), up_at(point.y)
        kind = "dot" if point.best else "other"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if point.best else 4}" class="{kind}"/>')
        label = _free(x, y + 4, taken, [up_at(value) for _, value in lines])
        taken.append((x, label))
        parts.append(_text(x + 10, label, point.label, kind="strong" if point.best else ""))
    return _svg(WIDE, height, title, [*parts, *_names(left, height, bottom, across, up)])


def _tick(value: float) -> str:
    return "" if not value else f"{value:+,.0f}" if abs(value) >= 1 else f"{value:+.1g}"


def trade_chart(
    curves: Sequence[tuple[str, Sequence[tuple[float, float]]]], epsilon: float, delta: float, title: str
) -> str:
    """True against false alarms of attacks, below the line that (ε,δ)-differential privacy allows.

    With false alarms at rate α, no attack is right more often than min(e^ε α + δ, 1 − e^−ε(1 − δ − α)), Wasserman and
    Zhou 2010.

    >>> trade_chart([("a", [(0, 0), (1, 1)])], 1.0, 0.0, "trade-off").count("<polyline")
    2
    """
    height, left, size = 340.0, 60.0, 290.0

    def place(points: Iterable[tuple[float, float]], kind: str) -> str:
        text = " ".join(f"{left + size * x:.1f},{10 + size * (1 - y):.1f}" for x, y in points)
        return f'<polyline points="{text}" class="{kind}"/>'

    grow, shrink = math.exp(min(epsilon, 700.0)), math.exp(-epsilon)
    steps = sorted({i / 200 for i in range(201)} | {10 ** (-i / 10) for i in range(61)})
    limit = [(x, max(0.0, min(1.0, grow * x + delta, 1 - shrink * (1 - delta - x)))) for x in steps]
    parts = [
        _line(left, 10 + size, left + size, 10 + size, "axis"),
        _line(left, 10, left, 10 + size, "axis"),
        _line(left, 10 + size, left + size, 10, "reference"),
        place(limit, "limit"),
        *(place(points, "curve") for _, points in curves),
        _text(left + size / 2, height - 8, "false alarms", anchor="middle", kind="quiet"),
        f'<text transform="translate(16 {10 + size / 2:.0f}) rotate(-90)" text-anchor="middle" class="quiet">'
        "true alarms</text>",
    ]
    for tick in (0.0, 0.5, 1.0):
        parts.append(_text(left + size * tick, size + 26, f"{tick:g}", anchor="middle", kind="quiet"))
        parts.append(_text(left - 8, 14 + size * (1 - tick), f"{tick:g}", anchor="end", kind="quiet"))
    notes = [f"red: the limit of ε = {epsilon:.3g}, δ = {delta:.2g}", "dashed: guessing", *(name for name, _ in curves)]
    parts += [_text(left + size + 24, 30 + 20 * i, text, kind="quiet") for i, text in enumerate(notes)]
    return _svg(WIDE, height, title, parts)


def _free(x: float, y: float, taken: list[tuple[float, float]], lines: list[float]) -> float:
    """A height for a label at which neither another one nor a line is: as near as possible, above or below."""
    for step in range(40):
        for moved in (y - 4 * step, y + 4 * step):
            apart = all(abs(moved - other) >= 14 or abs(x - at) > 190 for at, other in taken)
            if moved > 10 and apart and all(not moved - 12 < line < moved + 4 for line in lines):
                return moved
    return y


def _ticks(low: float, high: float) -> list[float]:
    values = [digit * 10.0**power for power in range(-6, 9) for digit in (1, 2, 5)]
    inside = [value for value in values if low * 0.999 <= value <= high * 1.001]
    tens = [value for value in inside if math.log10(value).is_integer()]
    return tens if len(tens) >= 3 else inside


def _round(value: float) -> float:
    power = 10 ** math.floor(math.log10(max(value, 1e-9)))
    return float(max(digit * power for digit in (1, 2, 5) if digit * power <= max(value, 1e-9)))
