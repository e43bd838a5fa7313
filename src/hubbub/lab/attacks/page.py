"""All attacks on one HTML page: two sentences, pictures and figures of each."""

import html
from collections.abc import Sequence

from hubbub.lab.attacks.evidence import LEVEL, Attack
from hubbub.lab.pages import document, figure, footer, table


def page(attacks: Sequence[Attack]) -> str:
    """The whole page."""
    body = [
        "<h1>What goes wrong, and how much</h1>",
        '<p class="lead">Four attacks on synthetic people. Curves are computed exactly; dots were simulated through '
        f"the real client, with intervals that hold in {LEVEL:.1%} of all cases.</p>",
        *map(_section, attacks),
        footer("the people are synthetic; nothing on this page comes from elsewhere, and nothing is sent."),
    ]
    return document("hubbub: attacks", body)


def _section(shown: Attack) -> str:
    figures = "".join(figure(picture, shown.captions[name]) for name, picture in shown.pictures.items())
    readings = table(
        ("attack", shown.x, "exact", "simulated", "interval"),
        [
            (r.series, f"{r.x:g}", f"{r.exact:.4f}", f"{r.seen:.4f}", f"{r.low:.4f} – {r.high:.4f}")
            for r in shown.readings
        ],
    )
    return (
        f'<h2 id="{shown.name}">{html.escape(shown.title)}</h2>'
        f"<p>{' '.join(map(html.escape, shown.sentences))}</p>{figures}"
        f"<details><summary>{html.escape(shown.y[0].upper() + shown.y[1:])}</summary>{readings}</details>"
    )
