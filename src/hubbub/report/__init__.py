"""HTML reports and matplotlib charts in one style.

- ``style``: the palette, as CSS variables and as settings of matplotlib, which is loaded on demand;
- ``figures``: a chart, in a page or as a file; ``charts``: curves and dots; ``rows``: counts, errors, the frontier;
- ``results``: results, joint tables and comparisons as tables and pages; ``results_charts``: their charts;
- ``sentences``: what differs by mechanism and by question; ``words``: plans and guarantees in words;
- ``explanation``, ``plan_report``: a plan for readers who are not engineers;
- ``report``: a report as data; ``html``: that report, or parts of it, as one self-contained page.
"""

from hubbub.report.charts import Axis, Mark, Series, chart
from hubbub.report.figures import Chart
from hubbub.report.html import bullets, document, figure, footer, render, table, tiles
from hubbub.report.report import Facts, Figure, Report, Section, Steps, Table
from hubbub.report.results import comparison_page, html_table, joint_page, plan_table, result_page
from hubbub.report.results_charts import draw, means_chart, rounds_chart, scales_chart
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
from hubbub.report.style import COLOURS, load_matplotlib
from hubbub.report.words import plan_text

__all__ = [
    "COLOURS", "Axis", "Bar", "Chart", "Facts", "Figure", "Mark", "Rank", "Report", "Section", "Series", "Steps",
    "Table", "bar_chart", "bars_of", "bullets", "chart", "comparison_page", "document", "draw", "error_chart",
    "estimate_chart", "figure", "footer", "frontier_chart", "html_table", "joint_page", "load_matplotlib",
    "means_chart", "plan_table", "plan_text", "plans_chart", "render", "result_page", "rounds_chart",
    "scales_chart", "table", "tiles",
]  # fmt: skip
