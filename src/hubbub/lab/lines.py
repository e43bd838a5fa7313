"""Line charts as SVG without any library: linear or logarithmic axes, a legend, marks; light or dark."""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hubbub.lab.drawing import _line, _svg, _text

__all__ = ["INK", "Axis", "Line", "Mark", "alone", "line_chart"]

Place = Callable[[float, float], tuple[float, float]]

WIDE, LEFT, RIGHT, BOTTOM = 720.0, 72.0, 18.0, 46.0
LETTER = 6.4
"""About the width of a letter, in the units of the picture."""
MOST_TICKS = 9

INK = """
:root { --one: #1f6f8b; --two: #c8553d; --three: #6a8f2a; --four: #8a5fa8; --five: #b8860b; }
@media (prefers-color-scheme: dark) { :root { --one: #5fb3cf; --two: #f08a6c; --three: #a9cc6a; --four: #c39bdf;
  --five: #e3bb5c; } }
.grid { stroke: var(--line); stroke-width: .7; } .axis { stroke: var(--quiet); stroke-width: 1; }
.curve { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; } .thin { stroke-width: 1.4; }
.one { stroke: var(--one); } .two { stroke: var(--two); } .three { stroke: var(--three); }
.four { stroke: var(--four); } .five { stroke: var(--five); } .quiet-line { stroke: var(--quiet); }
.dashed { stroke-dasharray: 6 4; } .dotted { stroke-dasharray: 1.5 4; }
circle.one { fill: var(--one); } circle.two { fill: var(--two); } circle.three { fill: var(--three); }
circle.four { fill: var(--four); } circle.five { fill: var(--five); } circle.quiet-line { fill: var(--quiet); }
.mark { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 3 3; opacity: .7; }
"""
"""What the classes of a chart look like; the colours --ink, --quiet and --line come from the page."""

_ALONE = """
svg { --paper: #ffffff; --ink: #20242b; --quiet: #68707c; --line: #dcd9d0; background: var(--paper);
  font: 12.5px system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
@media (prefers-color-scheme: dark) { svg { --paper: #15181d; --ink: #e4e6ea; --quiet: #98a1ad; --line: #323842; } }
svg text { fill: var(--ink); } svg .quiet { fill: var(--quiet); } svg .strong { font-weight: 600; }
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows, its ends, and whether it is logarithmic."""

    name: str
    low: float
    high: float
    log: bool = False
    at: tuple[float, ...] = ()
    """Where the ticks are, if not at round values."""

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1; beyond the ends outside of that."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        if value <= 0:
            return -math.inf
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        """Round values between the ends.

        >>> Axis("N", 100, 1e6, log=True).ticks()
        [100.0, 1000.0, 10000.0, 100000.0, 1000000.0]
        >>> Axis("q", 0, 0.5).ticks()
        [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
        """
        if self.at:
            return list(self.at)
        if not self.log:
            step = next(
                digit * 10.0**power
                for power in range(-12, 13)
                for digit in (1, 2, 5)
                if (self.high - self.low) / (digit * 10.0**power) <= 7
            )
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [round(i * step, 12) for i in range(first, last + 1)]
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every = max(1, math.ceil(len(powers) / MOST_TICKS))
        tens = [10.0**power for power in powers if power % every == 0]
        inside = [x for x in tens if self.low * 0.999 <= x <= self.high * 1.001]
        if len(inside) >= 3:
            return inside
        finer = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        return [x for x in finer if self.low * 0.999 <= x <= self.high * 1.001]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve: what the legend says of it, if anything, its points, its colour (one … five, quiet-line), its stroke."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: str = "one"
    stroke: str = ""
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A straight line across the chart with words: at a value across, or at one up."""

    words: str
    value: float
    up: bool = False


def line_chart(
    lines: Sequence[Line], title: str, *, across: Axis, up: Axis, marks: Sequence[Mark] = (), height: float = 330.0
) -> str:
    """Curves over one pair of axes, with a legend above them.

    >>> chart = line_chart(
    ...     [Line(label="σ", points=[(1, 1), (10, 100)])],
    ...     "σ",
    ...     across=Axis("k", 1, 10, log=True),
    ...     up=Axis("σ", 1, 100, log=True),
    ... )
    >>> chart.count("<path"), chart.count('class="grid"') > 3
    (2, True)
    """
    legend, top = _legend(lines)
    if any(not mark.up for mark in marks):
        top += 16
    right, bottom = WIDE - RIGHT, height - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + across.place(x) * (right - LEFT), bottom - up.place(y) * (bottom - top)

    parts = []
    for tick in across.ticks():
        x = at(tick, up.low)[0]
        parts += [
            _line(x, top, x, bottom, "grid"),
            _text(x, bottom + 17, _number(tick, across.log), anchor="middle", kind="quiet"),
        ]
    for tick in up.ticks():
        y = at(across.low, tick)[1]
        parts += [
            _line(LEFT, y, right, y, "grid"),
            _text(LEFT - 8, y + 4, _number(tick, up.log), anchor="end", kind="quiet"),
        ]
    parts += [_line(LEFT, bottom, right, bottom, "axis"), _line(LEFT, top, LEFT, bottom, "axis")]
    for mark in marks:
        parts += _marked(mark, at, across, up, top, bottom, right)
    for line in lines:
        parts += _curve(line, [at(x, y) for x, y in line.points], top, bottom)
    parts += legend
    parts.append(_text((LEFT + right) / 2, height - 8, across.name, anchor="middle", kind="quiet"))
    parts.append(
        f'<text transform="translate(15 {(top + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle" class="quiet">'
        f"{html.escape(up.name)}</text>"
    )
    return _svg(WIDE, height, title, parts)


def alone(picture: str) -> str:
    """A picture as a file of its own, with its colours.

    >>> alone('<svg viewBox="0 0 1 1"></svg>').startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox')
    True
    """
    opened = picture.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, rest = opened.split(">", 1)
    return f"{head}><style>{_ALONE}{INK.replace(':root', 'svg')}</style>{rest}\n"


def _legend(lines: Sequence[Line]) -> tuple[list[str], float]:
    """The samples and words above a chart, and how much room they take."""
    parts, x, y = [], LEFT, 14.0
    for line in lines:
        if not line.label:
            continue
        wide = 34 + LETTER * len(line.label) + 16
        if x > LEFT and x + wide > WIDE - RIGHT + 16:
            x, y = LEFT, y + 19
        parts.append(f'<path d="M{x:.1f} {y - 4:.1f}h26" class="curve {line.colour} {line.stroke}"/>')
        if line.dots:
            parts.append(f'<circle cx="{x + 13:.1f}" cy="{y - 4:.1f}" r="3.4" class="{line.colour}"/>')
        parts.append(_text(x + 33, y, line.label))
        x += wide
    return parts, y + 14


def _curve(line: Line, points: Sequence[tuple[float, float]], top: float, bottom: float) -> list[str]:
    """The path of a line, interrupted where it leaves the chart, and its dots."""
    if not points:
        return []
    path, pen = [], "M"
    inside = [(x, y) for x, y in points if math.isfinite(y) and top - 1 <= y <= bottom + 1]
    for before, (x, y) in zip([None, *points[:-1]], points, strict=True):
        if (x, y) in inside:
            if pen == "M" and before is not None and math.isfinite(before[1]):
                path.append("M" + _edge(before, (x, y), top, bottom))
                pen = "L"
            path.append(f"{pen}{x:.1f} {y:.1f}")
            pen = "L"
        elif pen == "L" and before is not None:
            if math.isfinite(y):
                path.append("L" + _edge((x, y), before, top, bottom))
            pen = "M"
    parts = [f'<path d="{"".join(path)}" class="curve {line.colour} {line.stroke}"/>']
    if line.dots:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" class="{line.colour}"/>' for x, y in inside]
    return parts


def _edge(outside: tuple[float, float], inside: tuple[float, float], top: float, bottom: float) -> str:
    """Where the way from inside to outside leaves the chart."""
    limit = top if outside[1] < top else bottom
    share = (limit - inside[1]) / (outside[1] - inside[1])
    return f"{inside[0] + share * (outside[0] - inside[0]):.1f} {limit:.1f}"


def _marked(mark: Mark, at: Place, across: Axis, up: Axis, top: float, bottom: float, right: float) -> list[str]:
    if mark.up:
        y = at(across.low, mark.value)[1]
        return [_line(LEFT, y, right, y, "mark"), _text(right - 4, y + 16, mark.words, anchor="end", kind="strong")]
    x = at(mark.value, up.low)[0]
    anchor = "end" if x > (LEFT + right) * 0.7 else "middle" if x > LEFT + 40 else "start"
    return [_line(x, top, x, bottom, "mark"), _text(x, top - 5, mark.words, anchor=anchor, kind="strong")]


def _number(value: float, log: bool = False) -> str:
    """A tick in few letters.

    >>> [_number(x) for x in (0.0, 0.25, 1000.0, 1e6, 1e-5, 2e-4)], [_number(x, log=True) for x in (1000.0, 0.01)]
    (['0', '0.25', '1,000', '10⁶', '10⁻⁵', '2·10⁻⁴'], ['10³', '10⁻²'])
    """
    if value == 0 or (0.1 if log else 0.01) <= abs(value) < (1e3 if log else 1e5):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    digit = value / 10.0**power
    tens = "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return tens if abs(digit - 1) < 1e-9 else f"{digit:g}·{tens}"
