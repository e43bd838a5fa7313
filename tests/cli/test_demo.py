"""The demonstration: a readable result in seconds, and a report that needs nothing from elsewhere."""

import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.cli.conftest import Call

from hubbub.lab.drawing import Bar, bar_chart, error_chart, frontier_chart


class Tags(HTMLParser):
    """Opens and closes, and what is asked from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [str(value) for name, value in attrs if name in ("href", "src", "xlink:href", "action")]
        if tag not in ("meta", "rect", "line", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line", "circle"):
            assert self.open.pop() == tag


def test_demo(folder: Path, run: Call) -> None:
    start = time.monotonic()
    result = run("demo", "--seed", "7")
    assert time.monotonic() - start < 20
    assert result.exit_code == 0, result.stderr
    for words in ("1. The plan.", "2. The flow.", "3. Truth against estimate", "4. What an attacker could learn."):
        assert words in result.stdout
    assert "hubbub-demo.html" in result.stdout
    text = (folder / "hubbub-demo.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.links == []
    assert not re.search(r"<script|url\(|@import|https?://", text)
    assert text.count("<svg") == 3


def test_a_seed_repeats_the_demonstration(folder: Path, run: Call) -> None:
    words = ("demo", "--people", "5000", "--seed", "3", "--json")
    first, second = (json.loads(run(*words).stdout) for _ in range(2))
    assert first == second
    assert first["covered"] >= 9
    assert sum(row["truth"] for row in first["counts"]) == 5000
    assert json.loads(run("demo", "--people", "5000", "--json").stdout)["counts"] != first["counts"]
    assert (folder / "hubbub-demo.html").exists()


@pytest.mark.parametrize("label", ["<b>&\"'", "日本語"])
def test_labels_are_escaped(label: str) -> None:
    for picture in (
        bar_chart([Bar(label, 1, 1, 0, 2)], label),
        error_chart([Bar(label, 1, 1, 0, 2)], label),
        frontier_chart([label], [(1, 1)], 0, label, up=label, central=2.0),
    ):
        assert "<b>" not in picture
        tags = Tags()
        tags.feed(picture)
        assert tags.open == []
