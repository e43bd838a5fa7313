"""The claims of the pages on privacy and counting, and what supports each of them: ``claims.toml``, read and shown.

A page is cut into sentences and rows of tables. Each of them is quoted by a claim, which names tests, theorems or
assumptions, or by an aside, which claims nothing. Whoever changes a sentence has to look at its support again.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hubbub as hb
from hubbub.report import explanation

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TABLE = DOCS / "claims.toml"
REPORT = "report"
"""The rows of "who learns what" in the report on a plan, with # for every figure."""
PAGES = ("threats.md", "guarantees.md", "services.md", REPORT)

_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\*\*)|(?<=[.!?][*)]))\s+(?=[A-Z`*$“\[({])")
_RULE = re.compile(r"\|[\s|:-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Sentences of one page with their support; an aside has none, and says why it needs none."""

    name: str
    page: str
    says: tuple[str, ...]
    tests: tuple[str, ...] = ()
    theorems: tuple[str, ...] = ()
    assumes: str = ""
    """The conditions outside of the code under which they hold."""
    uncovered: str = ""
    """The reason for which neither a test nor a theorem shows them."""
    pending: tuple[str, ...] = ()
    """Files of tests that are about to be written; forbidden as soon as they exist."""
    aside: str = ""
    """The reason for which the sentences claim nothing."""

    @property
    def supported(self) -> bool:
        """True if anything is named that supports the sentences, or if they are an aside."""
        return bool(self.tests or self.theorems or self.assumes or self.uncovered or self.pending or self.aside)


def claims(text: str | None = None) -> list[Claim]:
    """Read the table of claims and asides."""
    document = tomllib.loads(TABLE.read_text("utf-8") if text is None else text)
    found = []
    for one in document["claim"]:
        given = {**one, "says": _lines(one["says"])}
        fields: dict[str, Any] = {key: one if isinstance(one, str) else tuple(one) for key, one in given.items()}
        found.append(Claim(**fields))
    return found


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.strip().splitlines() if line.strip())


def sentences(page: str) -> list[str]:
    """Return the sentences and the rows of tables of a page, each on one line."""
    if page == REPORT:
        return report_rows()
    return list(cut((DOCS / page).read_text("utf-8")))


def cut(text: str) -> Iterator[str]:
    """Yield the sentences and table rows of a text in Markdown, without headings, heads of tables, code and formulas.

    >>> list(cut("# Title\\n\\nOne\\nsentence. Another one:\\n\\n| a | b |\\n|---|---|\\n| c | d |\\n"))
    ['One sentence.', 'Another one:', 'c | d']
    """
    text = re.sub(r"^```.*?^```$|^\$\$$.*?^\$\$$", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=- |\d+\. |#)", text):
        if block.lstrip().startswith("#") or not block.strip():
            continue
        if block.lstrip().startswith("|"):
            rows = block.strip().splitlines()
            yield from (_joined(row.strip(" |")) for row in rows[2 if _RULE.fullmatch(rows[1]) else 0 :])
            continue
        yield from (_joined(one) for one in _END.split(_joined(block).removeprefix("- ")))


def _joined(text: str) -> str:
    return " ".join(text.split())


@cache
def report_rows() -> list[str]:
    """Return who learns what in reports on a plan of every kind of trust, with # for every figure."""
    one_hot, budget = hb.Schema.one_hot(3), hb.Budget(1.0, 1e-6)
    flags = hb.Schema.survey({"dark mode": hb.Flag(), "colour": hb.Choice(["red", "green"])})
    laplace = hb.Fakes.laplace(2.0, shift=25)
    plans = [
        *(hb.plan(one_hot, 1000, budget, trust=trust) for trust in ("nobody", "shuffling", "shuffler-noise")),
        hb.plan(flags, 1000, budget, trust="shuffler-noise"),
        hb.plan_from(hb.Schema.bits(3), 1000, hb.Protocol(0.05, m=laplace, release="bits"), delta=1e-6),
        hb.plan(one_hot, 1000, budget, max_collusion_epsilon=2.0),
        hb.plan(hb.Schema.strings(), 2000, hb.Budget(1.0, 1e-8), trust="shuffler-noise"),
    ]
    rows = [" | ".join(row) for plan in plans for row in explanation.learns(plan)]
    return list(dict.fromkeys(re.sub(r"\d[\d.,]*(e-?\d+)?", "#", row.replace("\u00a0", " ")) for row in rows))


def missing_tests(names: Iterable[str]) -> list[str]:
    """Return the tests, as ``file::name``, that do not exist."""
    return [name for name in names if name.partition("::")[2] not in _tests(name.partition("::")[0])]


@cache
def _tests(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    found = ast.walk(ast.parse(path.read_text("utf-8")))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(one.name for one in found if isinstance(one, kinds) and one.name.startswith("test_"))


def missing_anchors(places: Iterable[str]) -> list[str]:
    """Return the sections, as ``page#section`` below ``docs``, that do not exist."""
    return [place for place in places if place.partition("#")[2] not in _anchors(place.partition("#")[0])]


@cache
def _anchors(page: str) -> frozenset[str]:
    path = DOCS / page
    headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE) if path.is_file() else []
    return frozenset(slug(heading) for heading in headings)


def slug(heading: str) -> str:
    """Return the anchor of a heading as the book has it.

    >>> slug("The shuffler's fakes, and (ε, δ)")
    'the-shufflers-fakes-and-ε-δ'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(found: Iterable[Claim]) -> str:
    """Return the claims as tables in Markdown, one for each page; asides are left out."""
    by_page: dict[str, list[Claim]] = {}
    for one in found:
        if not one.aside:
            by_page.setdefault(one.page, []).append(one)
    lines = []
    for page, listed in by_page.items():
        title = "The report: who learns what" if page == REPORT else f"[{page}]({page})"
        lines += [f"## {title}", "", "| claim | supported by |", "|---|---|"]
        lines += [f"| {_cell(' '.join(one.says))} | {_support(one)} |" for one in listed]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Return a quotation that fits into a cell: without links, whose targets may be sections of the page it is from."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace(" | ", " · ").replace("|", "\\|")


def _support(one: Claim) -> str:
    parts = [f"[{place.removesuffix('.md')}]({place})" for place in one.theorems]
    parts += [f"`{name.removeprefix('tests/')}`" for name in (*one.tests, *one.pending)]
    parts += [f"assumed: {one.assumes}"] * bool(one.assumes) + [f"not covered: {one.uncovered}"] * bool(one.uncovered)
    return "; ".join(parts)
