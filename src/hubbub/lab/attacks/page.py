"""All attacks on one HTML page: two sentences, charts and figures of each."""

from collections.abc import Sequence

from hubbub.lab.attacks.evidence import LEVEL, Attack
from hubbub.report import Figure, Report, Section, Table, render


def page(attacks: Sequence[Attack]) -> str:
    """Return the whole page."""
    return render(
        Report(
            title="hubbub: attacks",
            heading="What goes wrong, and how much",
            lede="Four attacks on synthetic people. Curves are computed exactly; dots were simulated through the real "
            f"client, with intervals that hold in {LEVEL:.1%} of all cases.",
            sections=[*map(_section, attacks)],
            note="the people are synthetic; this page loads and sends nothing.",
        )
    )


def _section(shown: Attack) -> Section:
    readings = Table(
        ("attack", shown.x, "exact", "simulated", "interval"),
        [
            (r.series, f"{r.x:g}", f"{r.exact:.4f}", f"{r.seen:.4f}", f"{r.low:.4f} – {r.high:.4f}")
            for r in shown.readings
        ],
        folded=f"The figures: {shown.y}",
    )
    figures = [Figure(picture, shown.captions[name]) for name, picture in shown.pictures.items()]
    return Section(shown.title, [" ".join(shown.sentences), *figures, readings], id=shown.name)
