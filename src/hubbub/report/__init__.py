"""HTML reports and matplotlib charts in one style.

- ``style``: the palette, as CSS variables and as settings of matplotlib, which is loaded on demand;
- ``figures``: a chart, in a page or as a file; ``charts``: curves and dots; ``rows``: counts, errors, the frontier;
- ``results``: estimates, joint tables and comparisons as tables and pages; ``results_charts``: their charts;
- ``survey_results``, ``survey_charts``: the same for surveys; ``strings``: for strings that nobody listed;
- ``sentences``: what differs by mechanism and by question; ``words``: plans and guarantees in words;
- ``explanation``, ``plan_report``: a plan for readers who are not engineers;
- ``report``: a report as data; ``html``: that report, or parts of it, as one self-contained page.
"""

from hubbub.report.charts import Axis, Mark, Series, chart
from hubbub.report.figures import Chart
from hubbub.report.html import bullets, document, figure, footer, render, table, tiles
from hubbub.report.report import Facts, Figure, Report, Section, Steps, Table
from hubbub.report.results import (
    comparison_page,
    comparison_table,
    estimate_page,
    estimate_table,
    joint_page,
    joint_table,
    plan_table,
)
from hubbub.report.results_charts import comparison_chart, joint_chart
from hubbub.report.rows import (
    Bar,
    Rank,
    bar_chart,
    bars_of,
    error_chart,
    estimate_chart,
    frontier_chart,
    plans_chart,
)
from hubbub.report.strings import strings_chart, strings_page, strings_table
from hubbub.report.style import COLOURS, load_matplotlib
from hubbub.report.survey_charts import (
    cross_chart,
    means_chart,
    number_chart,
    rounds_chart,
    scale_chart,
    scales_chart,
)
from hubbub.report.survey_results import (
    cross_table,
    differences_table,
    number_table,
    scale_table,
    survey_comparison_page,
    survey_comparison_table,
    survey_page,
    survey_table,
)
from hubbub.report.words import plan_text

__all__ = [
    "COLOURS", "Axis", "Bar", "Chart", "Facts", "Figure", "Mark", "Rank", "Report", "Section", "Series", "Steps",
    "Table", "bar_chart", "bars_of", "bullets", "chart", "comparison_chart", "comparison_page", "comparison_table",
    "cross_chart", "cross_table", "differences_table", "document", "error_chart", "estimate_chart", "estimate_page",
    "estimate_table", "figure", "footer", "frontier_chart", "joint_chart", "joint_page", "joint_table",
    "load_matplotlib", "means_chart", "number_chart", "number_table", "plan_table", "plan_text", "plans_chart",
    "render", "rounds_chart", "scale_chart", "scale_table", "scales_chart", "strings_chart",
    "strings_page", "strings_table", "survey_comparison_page",
    "survey_comparison_table", "survey_page", "survey_table", "table", "tiles",
]  # fmt: skip
