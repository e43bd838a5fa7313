"""Results as tables for notebooks and as self-contained pages: views, results, joint tables, comparisons, plans."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from hubbub.model.plans import Plan
from hubbub.model.privacy import Guarantee
from hubbub.report.html import render, table
from hubbub.report.report import Block, Figure, Report, Section
from hubbub.report.report import Table as Grid
from hubbub.report.results_charts import draw, in_unit, joint_chart, string_name
from hubbub.report.words import described_guarantee, described_plan
from hubbub.results import figures
from hubbub.results.compare import Comparison, LabelComparison, NumberComparison, QuestionComparison, ScaleComparison
from hubbub.results.cross import CrossView
from hubbub.results.frames import LEVEL, Table
from hubbub.results.joint import Joint, combination_name, grid_of
from hubbub.results.labels import LabelView, excess_note
from hubbub.results.numbers import REMARK, NumberView
from hubbub.results.result import Result, View
from hubbub.results.scales import ScaleView
from hubbub.results.strings import StringView

Rows = tuple[list[str], list[list[str]]]
ROWS = 30  # rows up to which a table is shown unfolded
FOOT = "Intervals of the collection cover the people who answered; those of the population include sampling error."
STRINGS_FOOT = (
    "Intervals cover the people who answered, given that a string is shown. Strings of fewer people are not shown, and "
    "their number is not known."
)
COMPARED = "Both batches are taken as random samples of their populations; sampling error is included."


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


def shown(value: float, unit: str = "") -> str:
    """Format a figure of a question with up to five significant digits.

    >>> shown(1234.5678, "ms"), shown(-0.01234), shown(15_000_000.0)
    ('1,234.6 ms', '−0.01234', '15,000,000')
    """
    digits = f"{abs(value):,.0f}" if abs(value) >= 99_999.5 else f"{abs(value):,.5g}"
    return f"{'−' if value < 0 else ''}{digits}{' ' + unit if unit else ''}"


def private(result: Result) -> str:
    """Return the guarantee of a result in a few words, empty if it is not known."""
    found = result.guarantee
    if found is None:
        return ""
    known = f"({found.epsilon:.4g}, {found.delta:.3g})-differentially private"
    return f"{known}; {found.note}" if found.note else known


def excess_sentence(result: Result) -> str:
    """Return a sentence about counts above the number of people, with a space before it; empty if there are none."""
    note = excess_note(result.excess)
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


def label_rows(view: LabelView, *, level: float, top: int | None, simultaneous: bool = False) -> Rows:
    """Return the head and the rows of a table of the largest counts."""
    order = ranked(view.values, top)
    low, high = view.interval(level, simultaneous=simultaneous)
    first, last = view.population(level, simultaneous=simultaneous)
    rows = [
        [
            view.labels[i],
            f"{view.values[i]:z,.0f}",
            f"{low[i]:z,.0f} – {high[i]:z,.0f}",
            f"{percent(first[i])} – {percent(last[i])}",
        ]
        for i in order
    ]
    return ["label", "people", f"{100 * level:g}% interval", "share of the population"], rows


def figure_rows(found: Sequence[figures.Figure], *, level: float) -> Rows:
    """Return the head and the rows of a table of figures with both intervals."""
    rows = []
    for one in found:
        ends = [one.interval(level)] + ([one.interval(level, of="population")] if "population" in one.covers else [])
        spans = [f"{shown(low)} – {shown(high)}" for low, high in ends]
        rows.append([one.name, shown(one.value, one.unit), *spans, *[""] * (2 - len(spans))])
    return ["figure", "estimate", f"{100 * level:g}% interval", "interval of the population"], rows


def cross_rows(view: CrossView) -> Rows:
    """Return the cells of a cross-table in a grid with totals; rows of several axes are joined."""
    columns = list(view.axes[-1])
    grid = view.values.reshape(-1, len(columns))
    names = view.row_labels
    rows = [[name, *(f"{x:z,.0f}" for x in row), f"{row.sum():z,.0f}"] for name, row in zip(names, grid, strict=True)]
    rows.append(["total", *(f"{x:z,.0f}" for x in grid.sum(axis=0)), f"{grid.sum():z,.0f}"])
    return [" × ".join(view.names), *columns, "total"], rows


def string_rows(view: StringView, *, level: float, top: int | None) -> Rows:
    """Return the head and the rows of a table of the most frequent strings."""
    low, high = view.interval(level)
    values, sure = view.values, view.sure
    rows = [
        [
            string_name(view.strings[i], view.cut[i]),
            f"{values[i]:,.0f}",
            f"{low[i]:,} – {high[i]:,}",
            "" if sure[i] else "uncertain",
        ]
        for i in range(len(view))[:top]
    ]
    return ["string", "people", f"{100 * level:g}% interval", "note"], rows


def strings_summary(view: StringView, *, level: float) -> str:
    """Return the outcome in a sentence."""
    low, high = view.other(level)
    rest = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    number = f"{len(view):,} string{'' if len(view) == 1 else 's'}"
    return f"{number} of {view.n:,} people; {rest} people have another one, or none."


def view_rows(view: View, *, level: float, top: int | None, simultaneous: bool = False) -> Rows:
    """Return the head and the rows of the table of a question: of many labels or strings the first ``top``."""
    match view:
        case LabelView():
            return label_rows(view, level=level, top=top, simultaneous=simultaneous)
        case StringView():
            return string_rows(view, level=level, top=top)
        case CrossView():
            return cross_rows(view)
        case _:
            return figure_rows(view.figures(), level=level)


def described(view: View, level: float = LEVEL) -> str:
    """Return the number of people behind a view, and its remark, in a sentence."""
    if isinstance(view, StringView):
        return strings_summary(view, level=level)
    if isinstance(view, LabelView | CrossView):
        return f"{view.n:,} people; {view.remark}."
    answers = f", of whom about {max(view.answered, 0.0):,.0f} answered" if view.question.missing else ""
    if isinstance(view, NumberView):
        return f"{view.n:,} people{answers}; {REMARK}."
    influence = f"one malicious client moves a number of people below an edge by at most {view.influence:.3g}"
    return f"{view.n:,} people{answers}; intervals of all quantiles hold at once; {influence}."


def html_table(shown: Table, *, level: float | None = None, top: int = 20) -> str:
    """Return a result, a view, a comparison or a joint table as tables, for notebooks."""
    level = LEVEL if level is None else level
    return _TABLES[type(shown)](shown, level, top)


def _result_table(result: Result, level: float, top: int) -> str:
    known = f"; {private(result)}" if result.guarantee else ""
    known += "".join(f"; {note}" for note in result.notes)
    if len(result) > 1:
        known = f", {len(result):,} questions{known}"
    parts = [f"<p>{result.n:,} people{escape(known)}</p>"]
    for name, view in result.views:
        if isinstance(view, CrossView):
            parts.append(_headed(name, html_table(view, level=level, top=top)))
        else:
            rest = f"<p>{escape(described(view, level))}</p>" if len(result) == 1 else ""
            parts.append(_headed(name, rest + table(*view_rows(view, level=level, top=top))))
    return "".join(parts)


def _view_table(view: View, level: float, top: int) -> str:
    rest = _rest(top, len(view), "labels") if isinstance(view, LabelView) else ""
    return _titled(described(view, level) + rest, view_rows(view, level=level, top=top))


def _cross_table(view: CrossView, level: float, top: int) -> str:
    cells = table(*label_rows(view.cells, level=level, top=top))
    return _titled(described(view), cross_rows(view)) + cells


def _comparison_table(comparison: Comparison, level: float, top: int) -> str:
    parts = [_headed(name, table(*difference_rows(one, top=top))) for name, one in comparison.questions]
    return f"<p>{escape(summary(comparison))}</p>{''.join(parts)}"


def _differences_table(comparison: NumberComparison | ScaleComparison, level: float, top: int) -> str:
    words = f"{comparison.a.n:,} people in A and {comparison.b.n:,} in B; differences are B minus A."
    return _titled(words, difference_rows(comparison))


def _headed(name: str, body: str) -> str:
    return f"<h4>{escape(name)}</h4>{body}" if name else body


def _titled(words: str, rows: Rows) -> str:
    return f"<p>{escape(words)}</p>{table(*rows)}"


def view_blocks(
    name: str, view: View, *, level: float = LEVEL, top: int = 20, simultaneous: bool = False
) -> list[Block]:
    """Return the remark, the chart and the tables of one question; ``name`` may be empty."""
    return [described(view, level), *_drawn(name, view, level, top, simultaneous)]


def _drawn(name: str, view: View, level: float, top: int, simultaneous: bool) -> list[Block]:
    words = f"{100 * level:g}%"
    match view:
        case LabelView():
            of = f" of {name}" if name else ""
            caption = f"Estimated counts{of} with {words} intervals{_rest(top, len(view), 'labels')}."
        case StringView():
            caption = f"The most frequent strings with {words} intervals."
        case ScaleView():
            caption = f"Share of the people below each value, {words} bands."
        case NumberView():
            caption = f"Mean with {words} intervals."
        case CrossView():
            caption = "Estimated number of people with each combination."
    tables = _tables(view, level, top, simultaneous)
    if isinstance(view, StringView) and not len(view):
        return [*tables]
    return [Figure(draw(view, level=level, top=top, simultaneous=simultaneous), caption), *tables]


def _tables(view: View, level: float, top: int, simultaneous: bool) -> list[Grid]:
    head, rows = view_rows(view, level=level, top=None, simultaneous=simultaneous)
    if isinstance(view, CrossView):
        grid = Grid(head, rows, folded="The whole table" if len(view.axes[-1]) > 8 else "")
        head, rows = label_rows(view.cells, level=level, top=None)
        return [grid, Grid(head, rows, folded=f"All {len(rows):,} intervals")]
    what = "strings" if isinstance(view, StringView) else "labels"
    return [Grid(head, rows, folded=f"All {len(rows):,} {what}" if len(rows) > min(top, ROWS) else "")]


def result_page(result: Result, *, level: float = LEVEL, top: int = 20, simultaneous: bool = False) -> str:
    """Return a result as one self-contained HTML page: figures, charts, all counts, and the guarantee."""
    title, heading, lede, note = "Survey", "Results of the survey", "", FOOT
    tiles = [(f"{result.n:,}", "people")]
    named = list(result.views)
    if isinstance(only := result.views[0][1], LabelView) and not result.views[0][0]:
        title, heading, named = "Estimate", "Estimated counts", [("Counts", only)]
        lede = f"{result.n:,} people answered. The values are {only.remark}.{excess_sentence(result)}"
        tiles.append((f"± {only.stderr.max():,.3g}", "people, standard error of a count"))
    elif isinstance(only, StringView):
        title, heading, note, named = "Strings", "Strings that many people hold", STRINGS_FOOT, [("Strings", only)]
        lede = strings_summary(only, level=level)
        tiles += [
            (f"{len(only):,}", "strings shown"),
            (f"± {only.stderr:,.3g}", "people, standard error of a count"),
        ]
    else:
        asked = f"{len(result):,} question{'s' * (len(result) != 1)}"
        lede = f"{result.n:,} people answered {asked}. The values are unbiased.{excess_sentence(result)}"
        tiles.append((f"{len(result):,}", "questions"))
    sections = []
    for (name, view), (_, own) in zip(named, result.views, strict=True):
        blocks = _drawn(name if title == "Survey" else "", own, level, top, simultaneous)
        sections.append(Section(name, [described(view), *blocks] if title == "Survey" else blocks))
    found = result.guarantee
    if found is not None:
        tiles.append(guarantee_tile(found))
        statements = grouped(described_guarantee(found, survey=title == "Survey"))
        sections.append(Section("Guarantee", [Grid(("guarantee", "statement"), statements)]))
    plan = result.plan or ""
    return render(Report(title=title, heading=heading, lede=lede, tiles=tiles, sections=sections, note=note, plan=plan))


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
    blocks: list[Figure | Grid] = []
    if (cells := grid_rows(joint)) is not None:
        blocks += [Figure(joint_chart(joint), "Estimated number of people with each combination."), Grid(*cells)]
    blocks.append(Grid(head, rows, folded=f"All {len(rows):,} combinations" if len(rows) > 16 else ""))
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


def difference_rows(comparison: QuestionComparison, *, top: int | None = None) -> Rows:
    """Return the head and the rows of a table of differences: of labels the most significant ones."""
    if isinstance(comparison, LabelComparison):
        return _label_differences(comparison, top)
    rows, level = [], comparison.level
    for one in comparison.differences():
        ends = [one.interval(level, of="people")] + ([one.interval(level)] if "population" in one.covers else [])
        spans = [f"{shown(low)} – {shown(high)}" for low, high in ends]
        values = [shown(value) for value in (one.value_a, one.value_b, one.difference)]
        rows.append([in_unit(one.name, one.unit), *values, *spans, *[""] * (2 - len(spans)), significance(one.p_value)])
    words = f"{100 * level:g}% interval"
    return ["figure", "A", "B", "difference", words, "of the populations", "p"], rows


def _label_differences(comparison: LabelComparison, top: int | None) -> Rows:
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


def summary(comparison: Comparison) -> str:
    """Return the outcome of a comparison in a sentence."""
    only = comparison.questions[0][1]
    if len(comparison) == 1 and isinstance(only, LabelComparison):
        return label_summary(only)
    found = ", ".join(comparison.significant) or "none"
    chance = f"{100 * (1 - comparison.level):g}%"
    return (
        f"{comparison.n_a:,} people in A and {comparison.n_b:,} in B; questions that differ in a label, a mean or a "
        f"whole distribution, with a {chance} probability that any is named by chance: {found}."
    )


def label_summary(comparison: LabelComparison) -> str:
    """Return the outcome of a comparison of labels in a sentence."""
    found = int(comparison.significant.sum())
    chance = f"{100 * (1 - comparison.level):g}%"
    many = len(comparison) > 1
    expected = (
        "all labels together" if comparison.correction == "holm" else "each label on its own" if many else "this label"
    )
    return (
        f"{comparison.a.n:,} people in A and {comparison.b.n:,} in B; {found:,} of {len(comparison):,} "
        f"label{'s' * many} differ{'s' * (found == 1)} at {chance}, the probability of a false positive for {expected}."
    )


def comparison_page(comparison: Comparison, *, top: int = 20) -> str:
    """Return a comparison as one self-contained HTML page."""
    sections = []
    for name, one in comparison.questions:
        caption, marks, what = "Both batches, with the intervals of their populations.", [""], "rows"
        head, rows = difference_rows(one)
        if isinstance(one, LabelComparison):
            caption = f"Differences of the shares, B minus A, with {100 * one.level:g}% intervals."
            found, what = one.significant, "labels"
            marks = ["best" if found[i] else "" for i in ranked(-one.p_value, None)]
        folded = f"All {len(rows):,} {what}" if len(rows) > min(top, ROWS) else ""
        shown = Grid(head, rows, marks if len(marks) == len(rows) else (), folded=folded)
        sections.append(Section(name or "Differences", [Figure(draw(one, top=top), caption), shown]))
    heading = "Two surveys compared" if comparison.questions[0][0] else "Two batches compared"
    lede = summary(comparison)
    return render(Report(title="Comparison", heading=heading, lede=lede, sections=sections, note=COMPARED))


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


_TABLES: dict[type[Table], Callable[[Any, float, int], str]] = {
    Result: _result_table,
    LabelView: _view_table,
    StringView: _view_table,
    ScaleView: _view_table,
    NumberView: _view_table,
    CrossView: _cross_table,
    Comparison: _comparison_table,
    LabelComparison: lambda found, _, top: _titled(label_summary(found), difference_rows(found, top=top)),
    NumberComparison: _differences_table,
    ScaleComparison: _differences_table,
    Joint: lambda joint, level, top: joint_table(joint, level=level, top=top),
}
"""The HTML of each kind of table, given a level and the number of rows."""
