"""Results of surveys as tables for notebooks, and as one self-contained page."""

from collections.abc import Sequence
from html import escape

from hubbub.estimates import Estimate
from hubbub.pages.html import render, table
from hubbub.pages.report import Block, Figure, Report, Section, Table
from hubbub.pages.results import FOOT, estimate_rows, grouped
from hubbub.pages.rows import estimate_chart
from hubbub.pages.survey_charts import cross_chart, number_chart, scale_chart
from hubbub.pages.words import described_guarantee
from hubbub.surveys import CrossEstimate, Measure, NumberEstimate, ScaleEstimate, SurveyEstimate
from hubbub.surveys.numbers import REMARK

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
    names = [label.rpartition(" × ")[0] for label in estimate.cells.labels[:: len(columns)]]
    rows = [[name, *(f"{x:,.0f}" for x in row), f"{row.sum():,.0f}"] for name, row in zip(names, grid, strict=True)]
    rows.append(["total", *(f"{x:,.0f}" for x in grid.sum(axis=0)), f"{grid.sum():,.0f}"])
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
        tiles.append((f"ε = {found.epsilon:.4g}", f"guarantee of this batch, δ = {found.delta:.3g}"))
        sections.append(Section("Guarantee", [Table(("guarantee", "statement"), grouped(described_guarantee(found)))]))
    return render(
        Report(
            title="Survey",
            heading="Results of the survey",
            lede=f"{estimate.n:,} people answered {len(estimate):,} questions. The values are unbiased.",
            tiles=tiles,
            sections=sections,
            note=FOOT,
            plan=estimate.plan or "",
        )
    )
