"""Reports as HTML: one self-contained page without scripts, for screens of any width and for print."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from hubbub import __version__
from hubbub.report.figures import SCREEN, Chart
from hubbub.report.report import Block, Facts, Figure, Report, Steps, Table
from hubbub.report.style import variables

MANY = 8  # number of columns above which a table may be wider than the text
NARROW = 15  # letters of a name and its value that fit into half a card

_CSS, _CARDS = (
    (resources.files(__name__.rpartition(".")[0]) / name).read_text(encoding="utf-8")
    for name in ("report.css", "cards.css")
)
STYLE = variables() + _CSS + _CARDS + _CARDS.replace("38rem", "60rem").replace(".table", ".table.many") + SCREEN
"""CSS of every page; tables with many columns turn into cards earlier than others."""


def render(report: Report) -> str:
    """Return a report as one HTML page."""
    parts = [f"<h1>{escape(report.heading)}</h1>", f'<p class="lead">{escape(report.lede)}</p>']
    parts += [f'<p class="alarm">{escape(line)}</p>' for line in report.alerts]
    if report.tiles:
        parts.append(tiles(report.tiles))
    count = 0
    for section in report.sections:
        place = f' id="{escape(section.id)}"' if section.id else ""
        parts.append(f"<h{section.level}{place}>{escape(section.heading)}</h{section.level}>")
        for block in section.blocks:
            count += isinstance(block, Figure)
            parts.append(_block(block, f"f{count}"))
    return document(report.title, [*parts, footer(report.note, report.plan)], report.style)


def _block(block: Block, prefix: str = "") -> str:
    match block:
        case str():
            text = f"<p>{escape(block)}</p>"
        case Table():
            text = table(block.head, block.rows, marks=block.marks)
            if block.folded:
                text = f"<details><summary>{escape(block.folded)}</summary>{text}</details>"
        case Figure():
            text = figure(block.chart, block.caption, prefix)
        case Facts():
            text = bullets(block.lines)
        case Steps():
            lines = "".join(f"<li><b>{escape(name)}</b>{escape(text)}</li>" for name, text in block.steps)
            text = f'<ol class="flow">{lines}</ol>'
    return text


def document(title: str, body: Iterable[str], style: str = "") -> str:
    """Return an HTML page whose content security policy forbids loading anything."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def tiles(shown: Iterable[tuple[str, str]], kinds: Iterable[str] = ()) -> str:
    """Return key figures in large type with their descriptions; ``kinds`` are their CSS classes."""
    names = [f"tile {kind}" for kind in kinds] or ["tile"] * len(shown := list(shown))
    cells = (
        f'<div class="{name}"><b>{escape(value)}</b><span>{escape(what)}</span></div>'
        for name, (value, what) in zip(names, shown, strict=True)
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def figure(chart: Chart, caption: str, prefix: str = "") -> str:
    """Return a chart with its caption."""
    return f"<figure>{chart.html(prefix)}<figcaption>{escape(caption)}</figcaption></figure>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, marks: Iterable[str] = ()) -> str:
    """Return a table; ``marks`` are the CSS classes of its rows, such as ``best`` or ``alarm``.

    Text is left-aligned and may wrap, numbers are right-aligned. Where the table does not fit, every row becomes a
    card; ARIA roles keep it a table for screen readers.
    """
    rows = [list(row) for row in rows]
    kinds = ["words" if any(re.search(r"[^\W\d_]{3}", row[i]) for row in rows) else "" for i in range(len(head))]
    kinds[:1] = ["words"]
    wide = [len(name) + max((len(row[i]) for row in rows), default=0) > NARROW for i, name in enumerate(head)]
    kinds = [f"{kind} long".strip() if long else kind for kind, long in zip(kinds, wide, strict=True)]
    top = "".join(
        f'<th scope="col" role="columnheader"{_kind(kind)}>{escape(name)}</th>'
        for name, kind in zip(head, kinds, strict=True)
    )
    body = "".join(
        f'<tr role="row"{_kind(mark)}>{_row(head, row, kinds)}</tr>'
        for mark, row in zip(list(marks) or [""] * len(rows), rows, strict=True)
    )
    return (
        f'<div class="table{" many" if len(head) > MANY else ""}"><div class="card"><table role="table">'
        f'<thead role="rowgroup"><tr role="row">{top}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table></div></div>'
    )


def _row(head: Sequence[str], row: Sequence[str], kinds: Sequence[str]) -> str:
    first = f'<th scope="row" role="rowheader" class="words">{escape(row[0])}</th>'
    return first + "".join(
        f'<td role="cell" data-label="{escape(name)}"{_kind(kind)}>{escape(cell)}</td>'
        for name, cell, kind in zip(head[1:], row[1:], kinds[1:], strict=True)
    )


def _kind(name: str) -> str:
    return f' class="{name}"' if name else ""


def bullets(lines: Iterable[str]) -> str:
    """Return sentences as a bulleted list."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def footer(text: str, plan: str = "") -> str:
    """Return the footer of a page: version, plan and note."""
    origin = f" · plan <code>{escape(plan)}</code>" if plan else ""
    return f"<footer>hubbub {__version__}{origin} · {escape(text)}</footer>"
