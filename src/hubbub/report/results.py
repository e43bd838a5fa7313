"""Results as tables for notebooks and as self-contained pages: estimates, joint tables, comparisons, plans."""

from collections.abc import Sequence
from html import escape

import numpy as np

from hubbub.model.plans import Plan
from hubbub.model.privacy import Guarantee
from hubbub.report.html import render, table
from hubbub.report.report import Figure, Report, Section, Table
from hubbub.report.results_charts import comparison_chart, joint_chart
from hubbub.report.rows import estimate_chart
from hubbub.report.words import described_guarantee, described_plan
from hubbub.results.comparisons import Comparison
from hubbub.results.counts import Estimate, excess_note
from hubbub.results.joint import Joint, combination_name, grid_of
from hubbub.results.surveys import SurveyEstimate

FOOT = "Intervals of the collection cover the people who answered; those of the population include sampling error."


def percent(share: float) -> str:
    """Format a share with three significant digits.

    >>> percent(0.12345), percent(0.000012345), percent(0.0), percent(-0.0213)
    ('12.3%', '0.00123%', '0%', '−2.13%')
    """
    text = f"{abs(100 * share):.3g}"
    if "e" in text:
        text = f"{abs(100 * share):.12f}".rstrip("0")
    return f"{'−' if share < 0 else ''}{text}%"


def significance(p: float) -> str:
    """Format a p-value.

    >>> significance(0.0312), significance(0.00001), significance(1.0)
    ('0.031', '< 0.001', '1.000')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def private(estimate: Estimate | SurveyEstimate) -> str:
    """Return the guarantee of an estimate in a few words, empty if it is not known."""
    found = estimate.guarantee
    if found is None:
        return ""
    known = f"({found.epsilon:.4g}, {found.delta:.3g})-differentially private"
    return f"{known}; {found.note}" if found.note else known


def excess_sentence(estimate: Estimate | SurveyEstimate) -> str:
    """Return a sentence about counts above the number of people, with a space before it; empty if there are none."""
    note = excess_note(estimate.excess)
    return f" {note[0].upper()}{note[1:]}." if note else ""


def guarantee_tile(found: Guarantee) -> tuple[str, str]:
    """Return the figure of a page that states the guarantee of what was counted."""
    unshuffled = f"; {found.unshuffled:,} people were not shuffled" if found.unshuffled else ""
    return f"ε = {found.epsilon:.4g}", f"guarantee of this batch, δ = {found.delta:.3g}{unshuffled}"


def ranked(values: Sequence[float] | np.ndarray, top: int | None) -> list[int]:
    """Return the places of the largest values, in falling order.

    >>> ranked([1.0, 3.0, 2.0], 2)
    [1, 2]
    """
    return [int(place) for place in np.argsort(-np.asarray(values), kind="stable")[:top]]


def _rest(shown: int, total: int, what: str) -> str:
    return f", the largest {shown:,} of {total:,} {what}" if total > shown else ""


def estimate_rows(
    estimate: Estimate, *, level: float, top: int | None, simultaneous: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table of the largest counts."""
    order = ranked(estimate.values, top)
    low, high = estimate.interval(level, simultaneous=simultaneous)
    first, last = estimate.population(level, simultaneous=simultaneous)
    rows = [
        [
            estimate.labels[i],
            f"{estimate.values[i]:z,.0f}",
            f"{low[i]:z,.0f} – {high[i]:z,.0f}",
            f"{percent(first[i])} – {percent(last[i])}",
        ]
        for i in order
    ]
    return ["label", "people", f"{100 * level:g}% interval", "share of the population"], rows


def estimate_table(estimate: Estimate, *, level: float = 0.95, top: int = 20) -> str:
    """Return the largest counts of an estimate as a table, for notebooks."""
    head, rows = estimate_rows(estimate, level=level, top=top)
    known = f"; {private(estimate)}" if estimate.guarantee else ""
    known += f"; {note}" if (note := excess_note(estimate.excess)) else ""
    rest = _rest(top, len(estimate.labels), "labels")
    return f"<p>{estimate.n:,} people{rest}{escape(known)}; {escape(estimate.remark)}</p>{table(head, rows)}"


def estimate_page(estimate: Estimate, *, level: float = 0.95, top: int = 20, simultaneous: bool = False) -> str:
    """Return an estimate as one self-contained HTML page: figures, chart, all counts, and the guarantee."""
    head, rows = estimate_rows(estimate, level=level, top=None, simultaneous=simultaneous)
    tiles = [(f"{estimate.n:,}", "people"), (f"± {estimate.stderr.max():,.3g}", "people, standard error of a count")]
    sections = [
        Section(
            "Counts",
            [
                Figure(
                    estimate_chart(estimate, level=level, top=top, simultaneous=simultaneous),
                    f"Estimated counts with {100 * level:g}% intervals{_rest(top, len(estimate.labels), 'labels')}.",
                ),
                Table(head, rows, folded=f"All {len(rows):,} labels" if len(rows) > top else ""),
            ],
        )
    ]
    found = estimate.guarantee
    if found is not None:
        tiles.append(guarantee_tile(found))
        sections.append(Section("Guarantee", [Table(("guarantee", "statement"), grouped(described_guarantee(found)))]))
    return render(
        Report(
            title="Estimate",
            heading="Estimated counts",
            lede=f"{estimate.n:,} people answered. The values are {estimate.remark}.{excess_sentence(estimate)}",
            tiles=tiles,
            sections=sections,
            note=FOOT,
            plan=estimate.plan or "",
        )
    )


def joint_table(joint: Joint, *, level: float = 0.95, top: int = 20) -> str:
    """Return a joint table with its largest cells and their intervals, for notebooks."""
    head, rows = joint_rows(joint, level=level, top=top)
    rest = _rest(top, joint.values.size, "combinations")
    cells = grid_rows(joint)
    shown = table(*cells) if cells is not None else ""
    return f"<p>{joint.n:,} people{rest}</p>{shown}{table(head, rows)}"


def joint_rows(joint: Joint, *, level: float, top: int | None) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table of combinations: all of them in their order, or the largest."""
    values, (low, high) = joint.values, joint.interval(level)
    order = ranked(values, top) if top is not None and values.size > top else range(values.size)
    rows = [
        [combination_name(joint.labels, i), f"{values[i]:z,.0f}", f"{low[i]:z,.0f} – {high[i]:z,.0f}"] for i in order
    ]
    return ["combination", "people", f"{100 * level:g}% interval"], rows


def grid_rows(joint: Joint) -> tuple[list[str], list[list[str]]] | None:
    """Return the values of two to six labels in a grid with totals, None for other numbers of labels."""
    if not 2 <= len(joint.labels) <= 6:
        return None
    names, columns, cells = grid_of(joint.labels)
    values = joint.values[cells]
    body = np.column_stack([values, values.sum(axis=1)])
    body = np.vstack([body, body.sum(axis=0)])
    rows = [
        [name, *(f"{one:z,.0f}" for one in row)] for name, row in zip([*names, "total"], body.tolist(), strict=True)
    ]
    return ["people", *columns, "total"], rows


def joint_page(joint: Joint, *, level: float = 0.95, plan: str = "") -> str:
    """Return a joint table as one self-contained HTML page."""
    head, rows = joint_rows(joint, level=level, top=None)
    blocks: list[Figure | Table] = []
    if (cells := grid_rows(joint)) is not None:
        blocks += [Figure(joint_chart(joint), "Estimated number of people with each combination."), Table(*cells)]
    blocks.append(Table(head, rows, folded=f"All {len(rows):,} combinations" if len(rows) > 16 else ""))
    return render(
        Report(
            title="Joint table",
            heading=" × ".join(joint.labels),
            lede=f"Estimated number of {joint.n:,} people with each combination of labels.",
            sections=[Section("Combinations", blocks)],
            note="Intervals cover the people who answered.",
            plan=plan,
        )
    )


def comparison_rows(comparison: Comparison, *, top: int | None) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table of the most significant differences."""
    order = ranked(-comparison.p_value, top)
    difference = comparison.difference
    rows = [
        [
            comparison.labels[i],
            percent(comparison.share_a[i]),
            percent(comparison.share_b[i]),
            ("+" if difference[i] > 0 else "") + percent(difference[i]),
            f"{percent(comparison.low[i])} – {percent(comparison.high[i])}",
            significance(comparison.p_value[i]),
        ]
        for i in order
    ]
    p = "p" if comparison.correction == "none" else "p (Holm)"
    return ["label", "share in A", "share in B", "difference", f"{100 * comparison.level:g}% interval", p], rows


def comparison_summary(comparison: Comparison) -> str:
    """Return the outcome of a comparison in a sentence."""
    found = int(comparison.significant.sum())
    chance = f"{100 * (1 - comparison.level):g}%"
    many = len(comparison) > 1
    expected = (
        "all labels together" if comparison.correction == "holm" else "each label on its own" if many else "this label"
    )
    return (
        f"{comparison.n_a:,} people in A and {comparison.n_b:,} in B; {found:,} of {len(comparison):,} "
        f"label{'s' * many} differ{'s' * (found == 1)} at {chance}, the probability of a false positive for {expected}."
    )


def comparison_table(comparison: Comparison, *, top: int = 20) -> str:
    """Return the most significant differences as a table, for notebooks."""
    head, rows = comparison_rows(comparison, top=top)
    return f"<p>{escape(comparison_summary(comparison))}</p>{table(head, rows)}"


def comparison_page(comparison: Comparison, *, top: int = 20) -> str:
    """Return a comparison as one self-contained HTML page."""
    head, rows = comparison_rows(comparison, top=None)
    drawn = Figure(
        comparison_chart(comparison, top=top),
        f"Differences of the shares, B minus A, with {100 * comparison.level:g}% intervals.",
    )
    found = comparison.significant
    marks = ["best" if found[i] else "" for i in ranked(-comparison.p_value, None)]
    counts = Table(head, rows, marks, folded=f"All {len(rows):,} labels" if len(rows) > top else "")
    return render(
        Report(
            title="Comparison",
            heading="Two batches compared",
            lede=comparison_summary(comparison),
            sections=[Section("Differences", [drawn, counts])],
            note="Both batches are taken as random samples of their populations; sampling error is included.",
        )
    )


def plan_table(plan: Plan) -> str:
    """Return the description of a plan as a table, for notebooks."""
    return table(("plan", plan.id[:8] + "…"), [row for row in grouped(described_plan(plan)) if row[0] != "plan"])


def grouped(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return names and values in which lines without a name are joined to the line before them.

    >>> grouped([("method", "exact"), ("", "by enumeration"), ("people", "3")])
    [('method', 'exact; by enumeration'), ('people', '3')]
    """
    joined: list[tuple[str, str]] = []
    for name, value in rows:
        if name or not joined:
            joined.append((name, value))
        else:
            mark = " " if joined[-1][1].endswith(".") else "; "
            joined[-1] = joined[-1][0], f"{joined[-1][1]}{mark}{value}"
    return joined
