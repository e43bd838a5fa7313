"""Reports: every kind of block, on one self-contained page."""

from dataclasses import replace

import numpy as np
import pytest
from tests.report.structure import check_page

import hubbub as hb
from hubbub.report import Axis, Facts, Figure, Report, Section, Series, Steps, Table, chart, document, render, table
from hubbub.report.report import Block
from hubbub.report.results import label_rows

CURVE = chart([Series(label="a", points=[(1, 1), (2, 2)])], "A curve", across=Axis("x"), up=Axis("y"))


def report(text: str) -> Report:
    rows = Table((text, "n"), [(text, "1,000"), (text, "5")], ["best", "alarm"])
    folded = Table((text, "n"), [(text, "1")], folded=text)
    charts = [Figure(CURVE, text), Figure(CURVE, text)]
    blocks: list[Block] = [text, rows, folded, *charts, Facts([text]), Steps([(text, text)])]
    return Report(
        title=text,
        heading=text,
        lede=text,
        alerts=[text],
        tiles=[(text, text)],
        sections=[Section(text, blocks, id="part"), Section(text, [], level=3)],
        note=text,
        plan="abc",
    )


@pytest.mark.parametrize("text", ["plain", "<b>&\"'</b>", "日本語"])
def test_every_block_is_rendered_and_escaped(text: str) -> None:
    page = render(report(text))
    found = check_page(page, 2)  # the same chart twice has different ids
    assert found.counts["main"] == found.counts["h1"] == found.counts["footer"] == 1
    assert {"part"} <= set(found.ids)
    assert '<b>&"' not in page
    assert found.counts["table"] == 2
    assert found.counts["details"] == 1
    assert page.count('class="alarm"') == 2
    assert page.count('class="best"') == 1
    assert "plan <code>abc</code>" in page


def test_the_content_security_policy_forbids_loading() -> None:
    page = document("t", [])
    assert "default-src 'none'" in page
    assert 'name="viewport"' in page
    assert 'lang="en"' in page


def test_tables_stay_tables_where_rows_become_cards() -> None:
    text = table(("name", "value", "said"), [("a", "1", "more than a few words")])
    for role in ("table", "rowgroup", "row", "columnheader", "rowheader", "cell"):
        assert f'role="{role}"' in text
    assert 'data-label="value">1<' in text
    assert 'data-label="said" class="words long">' in text
    assert "many" not in text
    assert 'class="table many"' in table([str(i) for i in range(9)], [])


def test_no_table_has_a_negative_zero() -> None:
    """Regression: a count of -0.3 people was shown as -0."""
    plan = hb.plan_from(hb.Schema.one_hot(["a", "b"]), 100, hb.Protocol(q=0.1), delta=1e-6)
    counted = hb.estimate(
        hb.tally(hb.shuffle(hb.randomize(hb.Collection.from_values(["a"] * 100, plan.schema), plan))), plan
    ).question
    values = np.array([100.0, -0.3])
    _, rows = label_rows(replace(counted, values=values, unbiased=values), level=0.95, top=None)
    assert [row[1] for row in rows] == ["100", "0"]
