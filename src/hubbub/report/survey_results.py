"""Results of surveys as tables for notebooks, and as one self-contained page."""

from collections.abc import Sequence
from html import escape

from hubbub.report.html import render, table
from hubbub.report.report import Block, Figure, Report, Section, Table
from hubbub.report.results import (
    FOOT,
    comparison_rows,
    estimate_rows,
    excess_sentence,
    grouped,
    guarantee_tile,
    significance,
)
from hubbub.report.results_charts import comparison_chart
from hubbub.report.rows import estimate_chart
from hubbub.report.survey_charts import cross_chart, in_unit, number_chart, scale_chart
from hubbub.report.words import described_guarantee
from hubbub.results.comparisons import Comparison, NumberComparison, ScaleComparison, SurveyComparison
from hubbub.results.counts import Estimate
from hubbub.results.cross import CrossEstimate
from hubbub.results.measures import Measure
from hubbub.results.numbers import REMARK, NumberEstimate
from hubbub.results.scales import ScaleEstimate
from hubbub.results.surveys import SurveyEstimate

Rows = tuple[list[str], list[list[str]]]
ROWS = 30  # rows up to which a table is shown unfolded


def shown(value: float, unit: str = "") -> str:
    """Format a figure of a question with up to five significant digits.

    >>> shown(1234.5678, "ms"), shown(-0.01234), shown(15_000_000.0)
    ('1,234.6 ms', '−0.01234', '15,000,000')
    """
    digits = f"{abs(value):,.0f}" if abs(value) >= 99_999.5 else f"{abs(value):,.5g}"
    return f"{'−' if value < 0 else ''}{digits}{' ' + unit if unit else ''}"


def measure_rows(measures: Sequence[Measure], *, level: float) -> Rows:
    """Return the head and the rows of a table of figures with both intervals."""
    rows = []
    for one in measures:
        ends = [one.interval(level)] + ([one.interval(level, of="population")] if one.sampled else [])
        spans = [f"{shown(low)} – {shown(high)}" for low, high in ends]
        rows.append([one.name, shown(one.value, one.unit), *spans, *[""] * (2 - len(spans))])
    return ["figure", "estimate", f"{100 * level:g}% interval", "interval of the population"], rows


def cross_rows(estimate: CrossEstimate) -> Rows:
    """Return the cells of a cross-table in a grid with totals; rows of several axes are joined."""
    columns = list(estimate.axes[-1])
    grid = estimate.values.reshape(-1, len(columns))
    names = estimate.row_labels
    rows = [[name, *(f"{x:z,.0f}" for x in row), f"{row.sum():z,.0f}"] for name, row in zip(names, grid, strict=True)]
    rows.append(["total", *(f"{x:z,.0f}" for x in grid.sum(axis=0)), f"{grid.sum():z,.0f}"])
    return [" × ".join(estimate.names), *columns, "total"], rows


def scale_table(estimate: ScaleEstimate, *, level: float = 0.95) -> str:
    """Return the quantiles of a scale as a table, for notebooks."""
    return _titled(_described(estimate), measure_rows(estimate.measures(), level=level))


def number_table(estimate: NumberEstimate, *, level: float = 0.95) -> str:
    """Return mean, sum and variance of a number as a table, for notebooks."""
    return _titled(_described(estimate), measure_rows(estimate.measures(), level=level))


def cross_table(estimate: CrossEstimate, *, level: float = 0.95, top: int = 20) -> str:
    """Return a cross-table with its largest cells and their intervals, for notebooks."""
    cells = table(*estimate_rows(estimate.cells, level=level, top=top))
    return _titled(_described(estimate), cross_rows(estimate)) + cells


def survey_table(estimate: SurveyEstimate, *, level: float = 0.95, top: int = 20) -> str:
    """Return the results of all questions as tables, for notebooks."""
    parts = [f"<p>{estimate.n:,} people, {len(estimate):,} questions</p>"]
    for name, result in estimate.results:
        parts.append(f"<h4>{escape(name)}</h4>")
        parts += [table(block.head, block.rows) for block in _tables(result, level, top)]
    return "".join(parts)


def difference_rows(comparison: NumberComparison | ScaleComparison) -> Rows:
    """Return the head and the rows of a table of differences with both intervals and p-values."""
    rows, level = [], comparison.level
    for one in comparison.differences():
        ends = [one.interval(level, of="collection")] + ([one.interval(level)] if one.sampled else [])
        spans = [f"{shown(low)} – {shown(high)}" for low, high in ends]
        values = [shown(value) for value in (one.value_a, one.value_b, one.difference)]
        rows.append([in_unit(one.name, one.unit), *values, *spans, *[""] * (2 - len(spans)), significance(one.p_value)])
    words = f"{100 * level:g}% interval"
    return ["figure", "A", "B", "difference", words, "of the populations", "p"], rows


def differences_table(comparison: NumberComparison | ScaleComparison) -> str:
    """Return the differences of a number or a scale as a table, for notebooks."""
    words = f"{comparison.a.n:,} people in A and {comparison.b.n:,} in B; differences are B minus A."
    return _titled(words, difference_rows(comparison))


def survey_comparison_table(comparison: SurveyComparison, *, top: int = 20) -> str:
    """Return the differences of all questions as tables, for notebooks."""
    parts = [f"<p>{escape(survey_summary(comparison))}</p>"]
    for name, one in comparison.results:
        rows = comparison_rows(one, top=top) if isinstance(one, Comparison) else difference_rows(one)
        parts.append(f"<h4>{escape(name)}</h4>{table(*rows)}")
    return "".join(parts)


def survey_summary(comparison: SurveyComparison) -> str:
    """Return the outcome of the comparison of two surveys in a sentence."""
    found = ", ".join(comparison.significant) or "none"
    chance = f"{100 * (1 - comparison.level):g}%"
    return (
        f"{comparison.n_a:,} people in A and {comparison.n_b:,} in B; questions that differ in a label, a mean or a "
        f"whole distribution, with a {chance} probability that any is named by chance: {found}."
    )


def survey_comparison_page(comparison: SurveyComparison, *, top: int = 20) -> str:
    """Return the comparison of two surveys as one self-contained HTML page."""
    sections = []
    for name, one in comparison.results:
        if isinstance(one, Comparison):
            drawn = Figure(comparison_chart(one, top=top), "Differences of the shares, B minus A.")
            head, rows = comparison_rows(one, top=None)
        else:
            drawn = Figure(one.plot(), "Both batches, with the intervals of their populations.")
            head, rows = difference_rows(one)
        folded = f"All {len(rows):,} rows" if len(rows) > min(top, ROWS) else ""
        sections.append(Section(name, [drawn, Table(head, rows, folded=folded)]))
    return render(
        Report(
            title="Comparison",
            heading="Two surveys compared",
            lede=survey_summary(comparison),
            sections=sections,
            note="Both batches are taken as random samples of their populations; sampling error is included.",
        )
    )


def _titled(words: str, rows: Rows) -> str:
    return f"<p>{escape(words)}</p>{table(*rows)}"


def _described(result: Estimate | ScaleEstimate | NumberEstimate | CrossEstimate) -> str:
    """Return the number of people behind a result, and its remark, in a sentence."""
    if isinstance(result, Estimate | CrossEstimate):
        return f"{result.n:,} people; {result.remark}."
    answers = f", of whom about {max(result.answered, 0.0):,.0f} answered" if result.question.missing else ""
    if isinstance(result, NumberEstimate):
        return f"{result.n:,} people{answers}; {REMARK}."
    influence = f"one malicious client moves a number of people below an edge by at most {result.influence:.3g}"
    return f"{result.n:,} people{answers}; intervals of all quantiles hold at once; {influence}."


def _tables(result: Estimate | ScaleEstimate | NumberEstimate | CrossEstimate, level: float, top: int) -> list[Table]:
    if isinstance(result, ScaleEstimate | NumberEstimate):
        return [Table(*measure_rows(result.measures(), level=level))]
    counted = result.cells if isinstance(result, CrossEstimate) else result
    head, rows = estimate_rows(counted, level=level, top=None)
    listed = Table(head, rows, folded=f"All {len(rows):,} intervals" if len(rows) > min(top, ROWS) else "")
    if not isinstance(result, CrossEstimate):
        return [listed]
    grid = Table(*cross_rows(result), folded="The whole table" if len(result.axes[-1]) > 8 else "")
    return [grid, Table(head, rows, folded=f"All {len(rows):,} intervals")]


def question_blocks(
    name: str, result: Estimate | ScaleEstimate | NumberEstimate | CrossEstimate, level: float, top: int
) -> list[Block]:
    """Return the remark, the chart and the tables of one question."""
    blocks: list[Block] = [_described(result)]
    words = f"{100 * level:g}%"
    if isinstance(result, ScaleEstimate):
        blocks.append(Figure(scale_chart(result, level=level), f"Share of the people below each value, {words} bands."))
    elif isinstance(result, NumberEstimate):
        blocks.append(Figure(number_chart(result, level=level), f"Mean with {words} intervals."))
    elif isinstance(result, CrossEstimate):
        blocks.append(Figure(cross_chart(result, level=level), "Estimated number of people with each combination."))
    else:
        most = f", the largest {top:,} of {len(result):,} labels" if len(result) > top else ""
        drawn = estimate_chart(result, level=level, top=top)
        blocks.append(Figure(drawn, f"Estimated counts of {name} with {words} intervals{most}."))
    return [*blocks, *_tables(result, level, top)]


def survey_page(estimate: SurveyEstimate, *, level: float = 0.95, top: int = 20) -> str:
    """Return the results of a survey as one self-contained HTML page: every question, and the guarantee."""
    tiles = [(f"{estimate.n:,}", "people"), (f"{len(estimate):,}", "questions")]
    sections = [Section(name, question_blocks(name, result, level, top)) for name, result in estimate.results]
    found = estimate.guarantee
    if found is not None:
        tiles.append(guarantee_tile(found))
        rows = grouped(described_guarantee(found, survey=True))
        sections.append(Section("Guarantee", [Table(("guarantee", "statement"), rows)]))
    return render(
        Report(
            title="Survey",
            heading="Results of the survey",
            lede=f"{estimate.n:,} people answered {len(estimate):,} questions. The values are unbiased."
            + excess_sentence(estimate),
            tiles=tiles,
            sections=sections,
            note=FOOT,
            plan=estimate.plan or "",
        )
    )
