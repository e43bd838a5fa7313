"""Pages, tables and charts of surveys show every question, in both widths, and escape what people named."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.report.structure import check_page
from tests.results.simulated import estimate, levels, survey_plan
from tests.results.test_survey_estimates import SURVEY, answered

import hubbub as hb
from hubbub.errors import InvalidInput
from hubbub.report import (
    Chart,
    comparison_page,
    result_page,
    rounds_chart,
)
from hubbub.report.results import cross_rows, difference_rows, figure_rows

pytestmark = pytest.mark.report
SVG = "{http://www.w3.org/2000/svg}"


def words(one: Chart, *, wide: bool = True) -> str:
    root = ElementTree.fromstring(one.standalone(wide=wide))
    return " ".join(element.text or "" for element in root.iter(f"{SVG}text"))


@pytest.fixture(scope="module")
def found() -> hb.Result:
    result = answered()
    object.__setattr__(result, "achieved", None)
    return result


def test_a_page_has_a_section_a_chart_and_a_table_for_every_question(found: hb.Result) -> None:
    page = result_page(found)
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert headings == list(SURVEY)
    assert page.count("<figure>") == len(SURVEY)
    assert "combined by least squares" in page
    assert "numbers outside of the bounds count as the nearest bound" in page
    assert "one malicious client moves a number of people below an edge by at most" in page
    check_page(page, len(SURVEY))


@pytest.mark.parametrize("name", SURVEY)
@pytest.mark.parametrize("wide", [True, False])
def test_every_question_has_a_chart(found: hb.Result, name: str, wide: bool) -> None:
    shown = words(found[name].plot(), wide=wide)
    expected = {
        "colour": "red",
        "dark mode": "yes",
        "load time": "load time, ms",
        "memory": "mean of memory, MB",
        "colour × dark mode": "green",
    }
    assert expected[name] in shown


def test_a_chart_of_a_distribution_marks_the_median(found: hb.Result, tmp_path: Path) -> None:
    assert re.search(r"median [\d,.]+", words(found["load time"].plot()))
    found["load time"].plot().save(str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_rounds_are_a_line_with_a_ribbon(found: hb.Result) -> None:
    memory = found["memory"]
    assert isinstance(memory, hb.NumberView)
    shown = words(rounds_chart([memory.mean] * 5, "Weekly", name="week"))
    assert "95% intervals of the population" in shown
    assert "week" in shown
    assert "population" not in words(rounds_chart([memory.sum] * 5, "Weekly"))
    with pytest.raises(InvalidInput, match="at least one figure"):
        rounds_chart([], "Weekly")


def test_tables_have_the_figures_of_the_results(found: hb.Result) -> None:
    memory, table = found["memory"], found["colour × dark mode"]
    assert isinstance(memory, hb.NumberView)
    assert isinstance(table, hb.CrossView)
    head, rows = figure_rows(memory.figures(), level=0.9)
    assert head[2] == "90% interval"
    assert [row[0] for row in rows] == ["mean", "sum", "variance", "answered"]
    assert rows[1][3] == "", "a population has no sum"
    grid = cross_rows(table)[1]
    assert grid[-1][-1] == "1,000"
    for name in found:
        assert "<table" in found[name]._repr_html_()
    assert found._repr_html_().count("<h4>") == len(SURVEY)


@pytest.mark.long
def test_two_surveys_are_compared_on_a_page(found: hb.Result) -> None:
    compared = hb.compare(found, answered(500, seed=7))
    page = comparison_page(compared)
    check_page(page, len(SURVEY))
    assert "500 in B" in page
    memory = compared["memory"]
    assert isinstance(memory, hb.NumberComparison)
    assert difference_rows(memory)[1][0][0] == "mean, MB"
    assert "<table" in compared._repr_html_()


def test_names_are_escaped() -> None:
    question = hb.Scale(1, 1000, buckets=12, log=True, unit="<i>")
    plan = survey_plan({"<b>time</b>": question}, "Laplace fakes")
    result = estimate(plan, levels(np.full(12, 9), question), np.random.default_rng(1))
    object.__setattr__(result, "achieved", None)
    page = result_page(result)
    assert "<b>time" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;time" in page
