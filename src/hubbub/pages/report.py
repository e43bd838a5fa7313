"""A report as data: a title, key figures, and sections of text, tables, charts and lists."""

from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.pages.figures import Chart


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head; ``marks`` are the kinds of the rows: ``best``, ``alarm`` or none."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    marks: Sequence[str] = ()
    folded: str = ""
    """If given, the line that a reader clicks to see the table."""


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
    """What happened, step by step: names and descriptions."""

    steps: Sequence[tuple[str, str]]


Block = str | Table | Figure | Facts | Steps
"""A part of a section; a string is a paragraph."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    heading: str
    blocks: Sequence[Block]
    id: str = ""
    level: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole report."""

    title: str
    """The title of the document."""
    heading: str
    lede: str
    alerts: Sequence[str] = ()
    tiles: Sequence[tuple[str, str]] = ()
    """Key figures, and what each of them is."""
    sections: Sequence[Section] = ()
    note: str = ""
    """The last words of the page."""
    plan: str = ""
    """The id of the plan that the report is about."""
