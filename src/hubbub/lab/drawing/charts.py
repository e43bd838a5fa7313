"""Charts over one pair of axes: curves, dots with intervals, bands and marks, with one legend."""

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from hubbub.lab.drawing.axes import Axis, Scale
from hubbub.lab.drawing.paper import COLOURS, WIDE, dot, line, path, picture, text

Place = tuple[float, float]
Values = tuple[float, ...]

LEFT, RIGHT, BOTTOM = 76.0, WIDE - 16.0, 48.0
BESIDE = 180.0
"""Room at the right for words beside dots."""
LETTER = 6.5
"""About the width of a letter."""
ROW = 20.0
"""Of the legend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points with one name: (x, y); (x, y, low, high) of dots with intervals; (x, low, high) of a band."""

    label: str = ""
    """What the legend says of it, if anything."""
    points: Sequence[Values]
    kind: Literal["line", "dots", "both", "band"] = "line"
    colour: str = ""
    """One of :data:`COLOURS`; else the next one."""
    stroke: str = ""
    """thin, dashed, dotted, or two of them."""
    names: Sequence[str] = ()
    """Of the points: shown where one points at them."""
    beside: bool = False
    """Whether the names are written beside the points."""
    size: float = 3.6
    """Of dots."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A straight line through the chart: at a value across, with words above it; or at one up, named in the legend."""

    words: str
    value: float
    up: bool = False


def chart(
    series: Sequence[Series], title: str, *, across: Axis, up: Axis, marks: Sequence[Mark] = (), height: float = 350.0
) -> str:
    """All series in one picture; what lies outside of the axes, or what they cannot show, is left out.

    >>> curve = Series(label="exact", points=[(1, 0.5), (10, 0.1), (100, 0.02)])
    >>> seen = Series(label="simulated", points=[(10, 0.11, 0.09, 0.13)], kind="dots")
    >>> drawn = chart([curve, seen], "An attack", across=Axis("people", log=True), up=Axis("advantage"))
    >>> drawn.startswith("<svg"), drawn.count('class="curve'), drawn.count("<circle")
    (True, 2, 2)
    """
    coloured = [(one, one.colour or COLOURS[place % len(COLOURS)]) for place, one in enumerate(series)]
    legend, top = _legend(coloured, marks)
    if any(not mark.up for mark in marks):
        top += 16
    shown = [[_shown(point, one.kind, up.log) for point in one.points] for one in series]
    right = RIGHT - BESIDE if any(one.beside for one in series) else RIGHT
    points = [point for some in shown for point in some if across.log <= (point[0] > 0) and _fits(point[1:], up.log)]
    x = across.over([*(point[0] for point in points), *(mark.value for mark in marks if not mark.up)], LEFT, right, 75)
    y = up.over(
        [*(value for point in points for value in point[1:]), *(mark.value for mark in marks if mark.up)],
        height - BOTTOM,
        top,
        34,
    )
    parts = [*_frame(x, y), *(part for mark in marks for part in _marked(mark, x, y))]
    for (one, colour), some in zip(coloured, shown, strict=True):
        parts += _drawn(one, some, colour, x, y)
    return picture(height, title, [*parts, *_beside(series, x, y, marks), *legend])


def frontier_chart(
    names: Sequence[str], points: Sequence[Place], best: int, title: str, *, up: str, central: float | None = None
) -> str:
    """Error against messages of a user, both logarithmic: every protocol a dot with its name, the best one stressed.

    >>> frontier_chart(["flip", "fakes"], [(1, 10), (5, 4)], 1, "frontier", up="error").count("<circle")
    2
    """
    errors = [*(error for _, error in points), *([central] if central else [])]
    others = [i for i in range(len(points)) if i != best]
    return chart(
        [
            Series(
                points=[points[i] for i in some],
                kind="dots",
                colour=colour,
                names=[names[i] for i in some],
                beside=True,
                size=size,
            )
            for some, colour, size in (([best], "one", 6.0), (others, "quiet", 4.0))
        ],
        title,
        across=Axis("messages of a user", log=True),
        up=Axis(up, min(errors) / 1.6, max(errors) * 1.4, log=True),
        marks=[Mark("central: the server sees everything", central, up=True)] if central else [],
    )


def _fits(values: Values, log: bool) -> bool:
    return all(math.isfinite(value) and (value > 0 or not log) for value in values)


def _shown(point: Values, kind: str, log: bool) -> Values:
    """On a logarithmic scale an interval that reaches 0 is drawn down to a tenth of its point."""
    if log and kind == "dots" and len(point) == 4 and point[2] <= 0:
        return point[0], point[1], point[1] / 10, point[3]
    return point


def _frame(x: Scale, y: Scale) -> list[str]:
    """The axes with their ticks and names, and a grid behind."""
    floor, top = y.start, y.end
    parts = []
    for place, words in x.labels():
        parts += [line(place, top, place, floor, "grid"), text(place, floor + 18, words, anchor="middle", kind="quiet")]
    for place, words in y.labels():
        parts += [line(LEFT, place, RIGHT, place, "grid"), text(LEFT - 8, place + 4, words, anchor="end", kind="quiet")]
    return [
        *parts,
        line(LEFT, floor, RIGHT, floor, "axis"),
        line(LEFT, top, LEFT, floor, "axis"),
        text((LEFT + RIGHT) / 2, floor + BOTTOM - 8, x.axis.name, anchor="middle", kind="quiet"),
        text(15, (top + floor) / 2, y.axis.name, anchor="middle", kind="quiet", upright=True),
    ]


def _drawn(one: Series, points: Sequence[Values], colour: str, x: Scale, y: Scale) -> Iterator[str]:
    if one.kind == "band":
        some = [p for p in points if math.isfinite(x.place(p[0])) and _fits(p[1:], y.log)]
        edge = [(x.place(p[0]), y.inside(p[2])) for p in some] + [(x.place(p[0]), y.inside(p[1])) for p in some[::-1]]
        if edge:
            yield path(edge, f"band {colour}", closed=True)
        return
    places = [(x.place(p[0]), y.place(p[1])) for p in points]
    if one.kind != "dots":
        for run in _runs(places, y.end, y.start):
            yield path(run, f"curve {colour} {one.stroke}".rstrip())
    if one.kind == "line":
        return
    for i, (point, (a, b)) in enumerate(zip(points, places, strict=True)):
        if math.isfinite(a) and y.end - 1 <= b <= y.start + 1:
            whisker = line(a, y.inside(point[2]), a, y.inside(point[3]), f"whisker {colour}") if point[2:] else ""
            name = f"<title>{html.escape(one.names[i])}</title>" if one.names else ""
            yield f"<g>{name}{whisker}{dot(a, b, colour, one.size)}</g>"


def _runs(places: Sequence[Place], top: float, bottom: float) -> Iterator[list[Place]]:
    """The pieces of a curve between top and bottom, cut where it leaves the chart and where it has no value."""
    run: list[Place] = []
    for one, two in pairwise(places):
        piece = _piece(one, two, top, bottom)
        if piece and run and run[-1] == piece[0]:
            run.append(piece[1])
            continue
        if run:
            yield run
        run = list(piece)
    if run:
        yield run


def _piece(one: Place, two: Place, top: float, bottom: float) -> tuple[Place, ...]:
    """What of the way from one place to another lies between top and bottom; nothing, or its two ends."""
    (x0, y0), (x1, y1) = one, two
    if not all(map(math.isfinite, (*one, *two))):
        return ()
    ends = (
        sorted(((top - y0) / (y1 - y0), (bottom - y0) / (y1 - y0))) if y0 != y1 else [0.0, float(top <= y0 <= bottom)]
    )
    first, last = max(0.0, ends[0]), min(1.0, ends[1])
    if first >= last:
        return ()
    return tuple(
        end if share == whole else (x0 + share * (x1 - x0), y0 + share * (y1 - y0))
        for share, whole, end in ((first, 0.0, one), (last, 1.0, two))
    )


def _marked(mark: Mark, x: Scale, y: Scale) -> list[str]:
    if mark.up:
        height = y.place(mark.value)
        return [line(LEFT, height, RIGHT, height, "mark")]
    place = x.place(mark.value)
    anchor = "end" if place > (LEFT + RIGHT) * 0.7 else "middle" if place > LEFT + 40 else "start"
    return [
        line(place, y.end, place, y.start, "mark"),
        text(place, y.end - 5, mark.words, anchor=anchor, kind="strong"),
    ]


def _legend(series: Sequence[tuple[Series, str]], marks: Sequence[Mark]) -> tuple[list[str], float]:
    """The samples and words above a chart, those of level marks included, and where the chart begins."""
    parts, x, y = [], LEFT, 10.0
    entries = [(one.label, one.kind, f"{colour} {one.stroke}".rstrip()) for one, colour in series if one.label]
    for label, kind, style in [*entries, *((mark.words, "mark", "") for mark in marks if mark.up)]:
        wide = 34 + LETTER * len(label)
        if x > LEFT and x + wide > RIGHT:
            x, y = LEFT, y + ROW
        if kind == "band":
            parts.append(f'<rect x="{x:.1f}" y="{y - 5:.1f}" width="24" height="10" class="band {style}"/>')
        if kind in ("line", "both"):
            parts.append(line(x, y, x + 24, y, f"curve {style}"))
        if kind in ("dots", "both"):
            parts.append(dot(x + 12, y, style))
        if kind == "mark":
            parts.append(line(x, y, x + 24, y, "mark"))
        parts.append(text(x + 30, y + 4, label))
        x += wide + 14
    return parts, y + 12 if parts else 8.0


def _beside(series: Sequence[Series], x: Scale, y: Scale, marks: Sequence[Mark]) -> Iterator[str]:
    """Names at the right of their dots, moved up or down from each other and from lines."""
    taken: list[Place] = []
    lines = [y.place(mark.value) for mark in marks if mark.up]
    for one in series:
        for name, point in zip(one.names if one.beside else (), one.points, strict=False):
            a, b = x.place(point[0]), y.place(point[1])
            if math.isfinite(a + b):
                height = _free(a, b + 4, taken, lines, y.end, y.start)
                taken.append((a, height))
                yield text(a + 10, height, name, kind="" if one.colour == "quiet" else "strong")


def _free(x: float, y: float, taken: Sequence[Place], lines: Sequence[float], top: float, floor: float) -> float:
    """A height for a label at which neither another one nor a line is: as near as possible, above or below."""
    for step in range(40):
        for moved in (y - 4 * step, y + 4 * step):
            apart = all(abs(moved - other) >= 14 or abs(x - at) > BESIDE for at, other in taken)
            if top + 8 < moved < floor - 4 and apart and all(not moved - 12 < line < moved + 4 for line in lines):
                return moved
    return y
