"""All attacks on one HTML page: two sentences, pictures and figures of each."""

import html
from collections.abc import Sequence

from hubbub import __version__
from hubbub.lab.attacks.evidence import LEVEL, Attack
from hubbub.lab.charts import STYLE
from hubbub.lab.report import document

__all__ = ["page"]


def page(attacks: Sequence[Attack]) -> str:
    """The whole page."""
    body = [
        "<h1>What goes wrong, and how much</h1>",
        '<p class="lead">Four attacks on synthetic people. Curves are computed exactly; dots were simulated through '
        f"the real client, with intervals that hold in {LEVEL:.1%} of all cases.</p>",
        *map(_section, attacks),
        f"<footer>hubbub {__version__} · the people are synthetic; nothing on this page comes from elsewhere, and "
        "nothing is sent.</footer>",
    ]
    return document("hubbub: attacks", "".join(body), STYLE)


def _section(shown: Attack) -> str:
    figures = "".join(
        f"<figure>{picture}<figcaption>{html.escape(shown.captions[name])}</figcaption></figure>"
        for name, picture in shown.pictures.items()
    )
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("attack", shown.x, "exact", "simulated", "interval"))
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(cell)}</td>"
            for cell in (r.series, f"{r.x:g}", f"{r.exact:.4f}", f"{r.seen:.4f}", f"{r.low:.4f} – {r.high:.4f}")
        )
        + "</tr>"
        for r in shown.readings
    )
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return (
        f'<h2 id="{shown.name}">{html.escape(shown.title)}</h2>'
        f"<p>{' '.join(map(html.escape, shown.sentences))}</p>{figures}"
        f"<details><summary>{html.escape(shown.y[0].upper() + shown.y[1:])}</summary>{table}</details>"
    )
