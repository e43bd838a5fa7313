"""What pictures are made of: words, strokes, dots, their colours; and a picture as a file of its own."""

import html
from collections.abc import Iterable

WIDE = 720.0
"""The width of every picture; its page scales it."""
MARGIN = 12.0
"""Around a picture that is a file of its own."""

COLOURS = ("one", "two", "three", "four", "five", "quiet")
"""The classes of curves, dots and bands, in the order in which they are taken."""

INK = """
:root { --paper: #fbfaf7; --card: #ffffff; --ink: #20242b; --quiet: #68707c; --line: #dcd9d0;
  --one: #1f6f8b; --two: #c8553d; --three: #5b7f2b; --four: #8456a8; --five: #b7791f; --soft: #1f6f8b22; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181d; --card: #1c2027; --ink: #e4e6ea; --quiet: #98a1ad;
  --line: #323842; --one: #5fb3cf; --two: #f08a6c; --three: #a3c964; --four: #c39be6; --five: #e3b565;
  --soft: #5fb3cf2b; } }
"""
"""All colours, light and dark."""

STYLE = """
svg { font-size: 12.5px; } svg text { fill: var(--ink); } svg text.quiet { fill: var(--quiet); }
svg .strong { font-weight: 600; } svg .figure { font-variant-numeric: tabular-nums; }
.one { color: var(--one); } .two { color: var(--two); } .three { color: var(--three); } .four { color: var(--four); }
.five { color: var(--five); } .quiet { color: var(--quiet); }
.grid { stroke: var(--line); stroke-width: .7; } .axis { stroke: var(--quiet); }
.curve { fill: none; stroke: currentColor; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
.thin { stroke-width: 1.4; } .dashed { stroke-dasharray: 6 4; } .dotted { stroke-dasharray: 1.5 4; }
.dot { fill: currentColor; } .whisker { stroke: currentColor; stroke-width: 1.6; opacity: .75; }
.band { fill: currentColor; opacity: .2; } .mark { stroke: var(--ink); stroke-dasharray: 3 3; opacity: .7; }
.bar { fill: var(--one); opacity: .85; } .interval { stroke: var(--ink); stroke-width: 2; }
.truth { stroke: var(--two); stroke-width: 2; }
"""
"""What the classes of a picture look like; the colours are those of :data:`INK`."""


def picture(height: float, title: str, parts: Iterable[str]) -> str:
    """The parts of a picture in one, with a title for those who hear it."""
    name = html.escape(title)
    return (
        f'<svg viewBox="0 0 {WIDE:g} {height:g}" role="img" aria-label="{name}"><title>{name}</title>'
        f"{''.join(parts)}</svg>"
    )


def standalone(drawn: str) -> str:
    """A picture as a file of its own, with its style, and a ground to be read on.

    >>> standalone(picture(10, "t", [])).startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 -12 744 34"')
    True
    """
    head, _, rest = drawn.partition("</title>")
    height = float(head.split('viewBox="')[1].split('"')[0].split()[3])
    wide, high = WIDE + 2 * MARGIN, height + 2 * MARGIN
    head = head.replace(f'viewBox="0 0 {WIDE:g} {height:g}"', f'viewBox="{-MARGIN:g} {-MARGIN:g} {wide:g} {high:g}"', 1)
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    style = (
        INK.replace(":root", "svg")
        + STYLE
        + "svg { font-family: system-ui, sans-serif; } .ground { fill: var(--card); }"
    )
    ground = f'<rect x="{-MARGIN:g}" y="{-MARGIN:g}" width="{wide:g}" height="{high:g}" class="ground"/>'
    return f"{head}</title><style>{style}</style>{ground}{rest}\n"


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "", upright: bool = False) -> str:
    """Words at a place; ``upright`` ones are read from below."""
    style = f' class="{kind}"' if kind else ""
    place = f'transform="translate({x:.1f} {y:.1f}) rotate(-90)"' if upright else f'x="{x:.1f}" y="{y:.1f}"'
    return f'<text {place} text-anchor="{anchor}"{style}>{html.escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def dot(x: float, y: float, colour: str, size: float = 3.6) -> str:
    """A filled circle."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" class="dot {colour}"/>'


def path(points: Iterable[tuple[float, float]], kind: str, *, closed: bool = False) -> str:
    """A curve through all points; or what it encloses."""
    places = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{places}{"Z" * closed}" class="{kind}"/>'
