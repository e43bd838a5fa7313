"""What all HTML pages of the lab share: no script, no font, nothing from elsewhere; light or dark as the reader is."""

import html
from collections.abc import Iterable, Sequence

from hubbub import __version__
from hubbub.lab.drawing.paper import INK
from hubbub.lab.drawing.paper import STYLE as PICTURES

STYLE = (
    INK
    + """
:root { color-scheme: light dark; } * { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 52rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; } h2 { font-size: 1.2rem; margin: 2.6rem 0 .5rem; }
.lead, figcaption, footer { color: var(--quiet); } .lead { font-size: 1.08rem; margin-top: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; margin: 1.6rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.55rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--quiet); font-size: .88rem; }
figure { margin: 1rem 0; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; }
figcaption { font-size: .88rem; margin-top: .6rem; }
svg { display: block; width: 100%; height: auto; font-family: inherit; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--quiet); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
tr.best td { font-weight: 600; background: var(--soft); } .alarm { color: var(--two); font-weight: 600; }
.tests td:nth-child(-n+2), .tests th:nth-child(-n+2), .remarks td:last-child, .remarks th:last-child {
  white-space: normal; text-align: left; }
ol.flow { list-style: none; padding: 0; display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr));
  gap: .8rem; counter-reset: step; } ol.flow li { border-left: 3px solid var(--one); padding: .1rem 0 .1rem .8rem; }
ol.flow b { display: block; } code { font-size: .85em; overflow-wrap: anywhere; }
footer { margin-top: 3rem; font-size: .85rem; }
"""
    + PICTURES
)


def document(title: str, body: Iterable[str], style: str = "") -> str:
    """A page that loads nothing: its head forbids it.

    >>> document("hubbub", ["<p>counts</p>"]).count("<style>")
    1
    """
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{html.escape(title)}</title><style>{STYLE}{style}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def tiles(shown: Iterable[tuple[str, str]], kinds: Iterable[str] = ()) -> str:
    """Figures in large letters, each with what it is below; ``kinds`` are their classes.

    >>> tiles([("ε < 1", "proven")])
    '<div class="tiles"><div class="tile"><b>ε &lt; 1</b><span>proven</span></div></div>'
    """
    names = [f"tile {kind}" for kind in kinds] or ["tile"] * len(shown := list(shown))
    cells = (
        f'<div class="{name}"><b>{html.escape(figure)}</b><span>{html.escape(what)}</span></div>'
        for name, (figure, what) in zip(names, shown, strict=True)
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def figure(picture: str, caption: str) -> str:
    """A picture and what it shows."""
    return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, marks: Iterable[str] = (), kind: str = "plain") -> str:
    """A table; ``marks`` are the classes of its rows, such as ``best`` or ``alarm``.

    >>> table(["a"], [["<"]], marks=["best"]).count("<td>&lt;</td>")
    1
    """
    rows = list(rows)
    names = list(marks) or [""] * len(rows)
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        (f'<tr class="{name}">' if name else "<tr>")
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for name, row in zip(names, rows, strict=True)
    )
    inner = f'<table class="{kind}"><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{inner}</div>'


def bullets(lines: Iterable[str]) -> str:
    """Sentences, each by itself."""
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"


def footer(text: str, plan: str = "") -> str:
    """Who wrote the page, of which plan, and what else is to be said."""
    of = f" · plan <code>{html.escape(plan)}</code>" if plan else ""
    return f"<footer>hubbub {__version__}{of} · {html.escape(text)}</footer>"
