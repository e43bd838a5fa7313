"""Pictures as SVG without any library, in the colours of the page that they stand in, or as files of their own.

- ``paper``: what pictures are made of, their style sheet, and a picture as a file;
- ``axes``: from values to places on the paper, ticks, and how numbers are written;
- ``charts``: curves, dots with intervals, bands and marks over one pair of axes, with one legend;
- ``bars``: counts, and their errors, label by label.
"""

from hubbub.lab.drawing.axes import Axis
from hubbub.lab.drawing.bars import Bar, bar_chart, bars_of, error_chart
from hubbub.lab.drawing.charts import Mark, Series, chart, frontier_chart
from hubbub.lab.drawing.paper import standalone

__all__ = [
    "Axis",
    "Bar",
    "Mark",
    "Series",
    "bar_chart",
    "bars_of",
    "chart",
    "error_chart",
    "frontier_chart",
    "standalone",
]
