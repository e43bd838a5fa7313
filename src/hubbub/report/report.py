"""A report as data: a title, key figures, and sections of text, tables, charts and lists."""

from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.report.figures import Chart


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head; ``marks`` are CSS classes of the rows: ``best``, ``alarm`` or empty."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    marks: Sequence[str] = ()
    folded: str = ""  # if given, the table is folded under this summary


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption."""

    chart: Chart
    caption: str


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of sentences."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Steps:
    """Numbered steps: names and descriptions."""

    steps: Sequence[tuple[str, str]]


Block = str | Table | Figure | Facts | Steps  # a part of a section; a string is a paragraph


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its content."""

    heading: str
    blocks: Sequence[Block]
    id: str = ""
    level: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report that :func:`hubbub.report.html.render` turns into a page."""

    title: str  # title of the HTML document
    heading: str
    lede: str
    alerts: Sequence[str] = ()
    tiles: Sequence[tuple[str, str]] = ()  # key figures and their descriptions
    sections: Sequence[Section] = ()
    note: str = ""  # text of the footer
    plan: str = ""  # id of the plan that the report describes
    style: str = ""  # CSS of this report only
