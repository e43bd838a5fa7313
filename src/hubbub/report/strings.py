"""Estimates of strings as a chart, as a table for notebooks and as a self-contained page."""

from html import escape

from hubbub.report.figures import Chart
from hubbub.report.html import render, table
from hubbub.report.report import Block, Figure, Report, Section, Table
from hubbub.report.rows import Bar, bar_chart
from hubbub.report.words import described_guarantee, printable
from hubbub.results.strings import StringEstimate

FOOT = (
    "Intervals cover the people who answered, given that a string is shown. Strings of fewer people are not shown, and "
    "their number is not known."
)


def string_name(string: str, cut: bool) -> str:
    """Return a string for people to read: control characters are replaced, and what was cut ends with an ellipsis.

    >>> string_name("a\\x07b", True), string_name("", False)
    ('a�b…', '(empty)')
    """
    return (printable(string) or "(empty)") + ("…" if cut else "")


def strings_rows(estimate: StringEstimate, *, level: float, top: int | None) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table of the most frequent strings."""
    low, high = estimate.interval(level)
    values, sure = estimate.values, estimate.sure
    rows = [
        [
            string_name(estimate.strings[i], estimate.tally.cut[i]),
            f"{values[i]:,.0f}",
            f"{low[i]:,} – {high[i]:,}",
            "" if sure[i] else "uncertain",
        ]
        for i in range(len(estimate))[:top]
    ]
    return ["string", "people", f"{100 * level:g}% interval", "note"], rows


def strings_summary(estimate: StringEstimate, *, level: float) -> str:
    """Return the outcome in a sentence."""
    low, high = estimate.other(level)
    rest = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    number = f"{len(estimate):,} string{'' if len(estimate) == 1 else 's'}"
    return f"{number} of {estimate.n:,} people; {rest} people have another one, or none."


def strings_table(estimate: StringEstimate, *, level: float = 0.95, top: int = 20) -> str:
    """Return the most frequent strings as a table, for notebooks."""
    return (
        f"<p>{escape(strings_summary(estimate, level=level))}</p>{table(*strings_rows(estimate, level=level, top=top))}"
    )


def strings_chart(estimate: StringEstimate, *, level: float = 0.95, top: int = 20) -> Chart:
    """Draw the most frequent strings with their intervals."""
    low, high = estimate.interval(level)
    bars = [
        Bar(
            string_name(estimate.strings[i], estimate.tally.cut[i]), None, float(estimate.values[i]), float(low[i]),
            float(high[i]),
        )
        for i in range(len(estimate))[:top]
    ]  # fmt: skip
    return bar_chart(bars, f"Strings of {estimate.n:,} people", level=level)


def strings_blocks(estimate: StringEstimate, *, level: float, top: int) -> list[Block]:
    """Return the most frequent strings for a report: a sentence, a chart and a table."""
    shown = Table(*strings_rows(estimate, level=level, top=top), folded="As a table")
    return [strings_summary(estimate, level=level), *_drawn(estimate, level, top), shown]


def _drawn(estimate: StringEstimate, level: float, top: int) -> list[Block]:
    if not len(estimate):
        return []
    caption = f"The most frequent strings with {100 * level:g}% intervals."
    return [Figure(strings_chart(estimate, level=level, top=top), caption)]


def strings_page(estimate: StringEstimate, *, level: float = 0.95, top: int = 20) -> str:
    """Return an estimate of strings as one self-contained HTML page: figures, chart, all strings, and the guarantee."""
    head, rows = strings_rows(estimate, level=level, top=None)
    tiles = [
        (f"{estimate.n:,}", "people"),
        (f"{len(estimate):,}", "strings shown"),
        (f"± {estimate.stderr:,.3g}", "people, standard error of a count"),
    ]
    folded = f"All {len(rows):,} strings" if len(rows) > top else ""
    sections = [Section("Strings", [*_drawn(estimate, level, top), Table(head, rows, folded=folded)])]
    found = estimate.guarantee
    if found is not None:
        tiles.append((f"ε = {found.epsilon:.4g}", f"guarantee of this batch, δ = {found.delta:.3g}"))
        statements = [(name or "…", value) for name, value in described_guarantee(found)]
        sections.append(Section("Guarantee", [Table(("guarantee", "statement"), statements)]))
    return render(
        Report(
            title="Strings",
            heading="Strings that many people hold",
            lede=strings_summary(estimate, level=level),
            tiles=tiles,
            sections=sections,
            note=FOOT,
            plan=estimate.plan,
        )
    )
