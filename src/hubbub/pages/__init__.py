"""HTML reports and matplotlib charts in one style.

- ``style``: the palette, as CSS variables and as settings of matplotlib, which is loaded on demand;
- ``figures``: a chart, in a page or as a file; ``charts``: curves and dots; ``rows``: counts, errors, the frontier;
- ``report``: a report as data; ``html``: that report, or parts of it, as one self-contained page.
"""

from hubbub.pages.charts import Axis, Mark, Series, chart
from hubbub.pages.figures import Chart
from hubbub.pages.html import bullets, document, estimate_table, figure, footer, render, table, tiles
from hubbub.pages.report import Facts, Figure, Report, Section, Steps, Table
from hubbub.pages.rows import (
    Bar,
    Rank,
    bar_chart,
    bars_of,
    error_chart,
    estimate_chart,
    frontier_chart,
    plans_chart,
)
from hubbub.pages.style import COLOURS, load_matplotlib

__all__ = [
    "COLOURS", "Axis", "Bar", "Chart", "Facts", "Figure", "Mark", "Rank", "Report", "Section", "Series", "Steps",
    "Table", "bar_chart", "bars_of", "bullets", "chart", "document", "error_chart", "estimate_chart",
    "estimate_table", "figure", "footer", "frontier_chart", "load_matplotlib", "plans_chart",
    "render", "table", "tiles",
]  # fmt: skip
