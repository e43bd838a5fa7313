"""The notes, judged, as one HTML page: every statement with its status and evidence, and figures of what is true."""

import html
from collections.abc import Iterable, Sequence

from hubbub import __version__
from hubbub.report import document, figure, tiles
from research.notes.figures import Figure
from research.notes.readings import Reading
from research.notes.statements.catalogue import Status
from research.notes.statements.everything import NOTES, Verdict, counts, note_of

MEANING = {
    Status.CONFIRMED: "holds, as far as the remark says",
    Status.WRONG: "refuted by a counterexample, and corrected",
    Status.LOOSE: "misleading, unsound as stated, or unproven",
    Status.EMPTY: "left blank; something stands in its place",
    Status.UNDETERMINED: "not known; the brackets are",
}

_STYLE = """
body { max-width: 60rem; } .tiles { grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); }
nav { margin: 1rem 0; } nav a { color: var(--one); margin-right: 1.1rem; white-space: nowrap; }
.tile.confirmed b, .badge.confirmed { color: var(--three); } .tile.wrong b, .badge.wrong { color: var(--two); }
.tile.loose b, .badge.loose { color: var(--five); } .tile.empty b, .badge.empty { color: var(--four); }
.tile.undetermined b, .badge.undetermined { color: var(--one); }
.badge { font-size: .78rem; font-weight: 600; letter-spacing: .02em; border: 1px solid currentColor;
  border-radius: 1rem; padding: .05rem .55rem; white-space: nowrap; }
.statements { display: grid; gap: .7rem; }
.statement { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .75rem 1rem; }
.statement header { display: flex; justify-content: space-between; gap: 1rem; align-items: baseline; }
.statement code { color: var(--quiet); font-size: .82rem; }
.statement p { margin: .3rem 0 0; } .claim { font-weight: 600; } .remark { font-size: .92rem; }
.evidence { color: var(--quiet); font-size: .86rem; font-variant-numeric: tabular-nums; }
.evidence::before { content: "computed: "; } .disagrees { border-color: var(--two); border-width: 2px; }
td.off { color: var(--two); font-weight: 600; } h3 { font-size: 1rem; margin: 2rem 0 .3rem; }
"""


def page(verdicts: Sequence[Verdict], readings: Iterable[Reading], figures: Iterable[Figure]) -> str:
    """The whole page."""
    present = [name for name in NOTES if any(note_of(one.statement) == name for one in verdicts)]
    links = "".join(f'<a href="#{name}">{html.escape(NOTES[name].split(",")[0])}</a>' for name in present)
    disagree = sum(not one.evidence.agrees for one in verdicts)
    told = f"{disagree} of them disagree with their status" if disagree else "every computation bears its status out"
    parts = [
        "<h1>The notes, recomputed</h1>",
        f'<p class="lead">{len(verdicts)} statements of the research notes on shuffled randomized response, each '
        f"checked by a computation that ran when this page was written; {told}.</p>",
        _tiles(verdicts),
        f'<nav><a href="#figures">Figures</a>{links}</nav>',
        '<h2 id="figures">What is true instead</h2>',
        _readings(readings),
        *(_figure(one) for one in figures),
    ]
    for name in present:
        mine = [one for one in verdicts if note_of(one.statement) == name]
        parts.append(f'<h2 id="{name}">{html.escape(NOTES[name])}</h2><p class="quiet">{_counted(mine)}</p>')
        parts.append('<div class="statements">' + "".join(_statement(one) for one in mine) + "</div>")
    parts.append(
        f"<footer>hubbub {__version__} · q: lie probability, p = 1 − q, λ = e^ε, N people, L bits, δ the hockey stick, "
        "η the tail P[R &gt; λ]; nothing on this page comes from elsewhere.</footer>"
    )
    return document("hubbub: the notes, recomputed", parts, _STYLE)


def _tiles(verdicts: Iterable[Verdict]) -> str:
    found = counts(one.statement for one in verdicts)
    return tiles([(f"{number}", f"{status}: {MEANING[status]}") for status, number in found.items()], found)


def _counted(verdicts: Iterable[Verdict]) -> str:
    found = counts(one.statement for one in verdicts)
    return ", ".join(f"{number} {status}" for status, number in found.items())


def _statement(one: Verdict) -> str:
    stated, evidence = one.statement, one.evidence
    kind = "statement" if evidence.agrees else "statement disagrees"
    shown = evidence.shown if evidence.agrees else f"DISAGREES: {evidence.shown}"
    return (
        f'<article class="{kind}"><header><code>{html.escape(stated.id)}</code>'
        f'<span class="badge {stated.status}">{stated.status}</span></header>'
        f'<p class="claim">{html.escape(stated.claim)}</p><p class="remark">{html.escape(stated.remark)}</p>'
        f'<p class="evidence">{html.escape(shown)}</p></article>'
    )


def _figure(one: Figure) -> str:
    return f"<h3>{html.escape(one.title)}</h3>{figure(one.picture, one.caption)}"


def _readings(rows: Iterable[Reading]) -> str:
    head = (
        "λ",
        "N",
        "q printed",
        "q by its rule",
        "η printed",
        "η true",
        "δ, outlier first",
        "δ, reversed",
        "δ proven",
    )
    body = []
    for row in rows:
        bar = "2" if row.epsilon < 1 else "e²"
        cells = [(bar, False), (f"{row.n:,}", False), (f"{row.printed_q:.4f}", False)]
        cells += [(f"{row.q:.4f}", _off(row.q, row.printed_q)), (f"{row.printed_eta:.4f}", False)]
        cells += [(f"{row.eta:.4f}", _off(row.eta, row.printed_eta)), (f"{row.forward:.1e}", False)]
        cells += [(f"{row.reverse:.1e}", False), (f"{row.proven:.3f}", False)]
        body.append("<tr>" + "".join(f"<td{' class=off' * off}>{text}</td>" for text, off in cells) + "</tr>")
    return (
        "<h3>The readings of [003 §3.3]</h3>"
        '<div class="scroll"><table><thead><tr>' + "".join(f"<th>{name}</th>" for name in head) + "</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
        '<p class="quiet">Records of five bits. Marked: off by more than 5 % from what is printed. The last column is '
        "what is proven at the printed q for all collections and both orders.</p>"
    )


def _off(true: float, printed: float) -> bool:
    return abs(true / printed - 1) > 0.05
