"""Render the catalogue of the notes as Markdown: every recomputed statement, with its figures."""

import re
from collections.abc import Iterable, Iterator, Sequence

from research.notes.figures import Figure
from research.notes.readings import Reading
from research.notes.statements.catalogue import Status
from research.notes.statements.everything import NOTES, Verdict, counts, note_of

__all__ = ["BESIDE", "READINGS", "errata"]

READINGS = "003-s3.3 readings"
"""The statement that the table of [003 §3.3] makes."""

BESIDE = {
    "densities-2": READINGS,
    "densities-e2": READINGS,
    "precision-noise": "003 sigma=.6 sqrt N, 12-fold",
    "precision-crowd": "003 sigma=.6 sqrt N, 12-fold",
    "copies-bit": "002-s5 claim",
    "copies-records": "002-s5 claim",
    "one-hot-2": "003-s5 (5.1)-(5.10), k set bits == L=2k",
    "one-hot-e2": "003-s5 (5.1)-(5.10), k set bits == L=2k",
    "three-sigma-1": "002-(4.43)-(4.45)",
    "three-sigma-5": "003-(3.12)",
}
"""The statement that each figure illustrates."""


def errata(verdicts: Iterable[Verdict], readings: Sequence[Reading], figures: Iterable[Figure]) -> str:
    """Return the number of statements by status, then every statement by note, with the computed figures."""
    found: dict[str, list[Verdict]] = {}
    for one in verdicts:
        if not one.evidence.agrees:
            raise RuntimeError(
                f"the check of {one.statement.id} does not support its status {one.statement.status}: "
                f"{one.evidence.shown}"
            )
        found.setdefault(note_of(one.statement), []).append(one)
    beside: dict[str, list[Figure]] = {}
    for figure in figures:
        beside.setdefault(BESIDE[figure.name], []).append(figure)
    lines = [*_counts(found)]
    for note, rows in found.items():
        lines += ["", f"(note-{note})=", f"## {NOTES[note]}", "", *_index(rows)]
        for one in rows:
            lines += _entry(one)
            if one.statement.id == READINGS:
                lines += _table(readings)
            lines += [line for figure in beside.get(one.statement.id, ()) for line in _figure(figure)]
    return "\n".join(lines) + "\n"


def _counts(found: dict[str, list[Verdict]]) -> Iterator[str]:
    heads = " | ".join(map(_mark, Status)).replace(">undetermined", ">undeter&shy;mined")  # to fit on a phone
    yield f"| note | all | {heads} |"
    yield "|---|" + "---:|" * (1 + len(Status))
    for note, rows in found.items():
        yield f"| [{note}](#note-{note}) |" + _counted(rows)
    yield "| all |" + _counted([one for rows in found.values() for one in rows])


def _counted(rows: Sequence[Verdict]) -> str:
    tally = counts(one.statement for one in rows)
    return "".join(f" {number} |" for number in (len(rows), *(tally.get(status, 0) for status in Status)))


def _index(rows: Sequence[Verdict]) -> Iterator[str]:
    """Yield links to the statements that are not confirmed."""
    for status in Status:
        links = [f"[{_line(one.statement.id)}](#{_anchor(one)})" for one in rows if one.statement.status is status]
        if links and status is not Status.CONFIRMED:
            yield f"{_mark(status)} " + " · ".join(links) + "\n"


def _entry(one: Verdict) -> Iterator[str]:
    stated = one.statement
    yield f":::{{container}} statement {stated.status}"
    yield f":name: {_anchor(one)}"
    yield f"{_mark(stated.status)} {_line(stated.id)}\n"
    yield f"{_line(stated.claim)}\n"
    yield f"{_line(stated.remark)}\n"
    yield f"Computed: {_line(one.evidence.shown)}"
    yield ":::\n"


def _mark(status: Status) -> str:
    return f"<span class='status {status}'>{status}</span>"


def _anchor(one: Verdict) -> str:
    return "statement-" + re.sub(r"[^a-z0-9]+", "-", one.statement.id.lower()).strip("-")


def _table(readings: Sequence[Reading]) -> Iterator[str]:
    """Yield the printed values beside the true ones, one table for each λ, narrow enough for a phone."""
    for bar, part in (
        ("2", [one for one in readings if one.epsilon < 1]),
        ("e²", [r for r in readings if r.epsilon > 1]),
    ):
        yield f"| λ = {bar}, five bits | " + " | ".join(f"N = {one.n}" for one in part) + " |"
        yield "|---|" + "---:|" * len(part)
        for name, cells in (
            ("q, printed", [f"{one.printed_q:.4f}" for one in part]),
            ("q by its rule", [_off(one.q, one.printed_q) for one in part]),
            ("η, printed", [f"{one.printed_eta:.4f}" for one in part]),
            ("η at that q", [_off(one.eta, one.printed_eta) for one in part]),
            ("δ, outlier first", [f"{one.forward:.1e}" for one in part]),
            ("δ, reversed", [f"{one.reverse:.1e}" for one in part]),
            ("δ, proven for all", [f"{one.proven:.3f}" for one in part]),
        ):
            yield f"| {name} | " + " | ".join(cells) + " |"
        yield ""
    yield "Bold: differs by more than 5 % from the printed value. δ is computed at the printed q.\n"


def _off(true: float, printed: float) -> str:
    return f"**{true:.4f}**" if abs(true / printed - 1) > 0.05 else f"{true:.4f}"


def _figure(figure: Figure) -> Iterator[str]:
    yield f"```{{figure}} _generated/notes-{figure.name}.svg"
    yield f":alt: {figure.title}\n"
    yield f"**{_line(figure.title)}.** {_line(figure.caption)}"
    yield "```\n"


def _line(text: str) -> str:
    """Escape text: nothing in a claim is markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~])", r"\\\1", " ".join(text.split()))
