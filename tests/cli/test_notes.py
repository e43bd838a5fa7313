"""``hubbub notes``: a table, JSON, a page that needs nothing from elsewhere, and an exit code that tells."""

import dataclasses
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.conftest import Call
from tests.cli.test_demo import Tags

from hubbub.cli import noting
from hubbub.lab import note_figures
from hubbub.lab.statements.catalogue import Evidence, Statement, Status
from hubbub.lab.statements.everything import NOTES, STATEMENTS


def test_json(run: Call) -> None:
    result = run("notes", "--note", "003", "--status", "loose", "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [row["id"] for row in rows] == ["003-(1.6),(1.7)", '003 "1% of population with 10% error"']
    assert all(list(row) == ["id", "note", "claim", "status", "remark", "evidence", "agrees"] for row in rows)
    assert {(row["note"], row["status"], row["agrees"]) for row in rows} == {("003", "loose", True)}


def test_everything_agrees(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """All statements make it into JSON; their checks, which other tests run, are replaced by quick ones."""
    quick = [dataclasses.replace(one, check=lambda: Evidence(True, "1")) for one in STATEMENTS]
    monkeypatch.setattr(noting, "STATEMENTS", quick)
    rows = json.loads(run("notes", "--json").stdout)
    assert [row["id"] for row in rows] == [one.id for one in quick]
    assert {row["note"] for row in rows} == set(NOTES)


def test_table(run: Call) -> None:
    text = run("notes", "--note", "004", "--status", "loose").stdout
    assert "Note 004" in text
    assert "004-s2.1" in text
    assert "3 statements: 3 loose" in text
    assert "Note 003" not in text


def test_readings(run: Call) -> None:
    rows = json.loads(run("notes", "--readings", "--json").stdout)
    assert [row["n"] for row in rows] == [1000, 3000, 5000] * 2
    text = run("notes", "--readings").stdout
    assert "recomputed" in text
    assert "0.1963" in text
    assert run("demo", "--notes").exit_code == 2


def test_page_and_figures(folder: Path, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = (note_figures.copies_of_a_bit, note_figures.three_sigma_bits)
    monkeypatch.setattr(note_figures, "DRAWN", cheap)
    result = run("notes", "--note", "003", "--status", "loose", "-o", "notes.html", "--figures", "pictures")
    assert result.exit_code == 0, result.stderr
    assert "notes.html" in result.stdout
    text = (folder / "notes.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert all(link.startswith("#") for link in tags.links)
    assert not re.search(r"<script|url\(|@import|https?://", text)
    assert text.count("<svg") == 2
    for name in ("copies-bit", "three-sigma-1"):
        root = ElementTree.parse(folder / "pictures" / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_a_disagreement_is_told(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    false = Statement("003-x", "2 + 2 = 5", Status.CONFIRMED, "It is 4.", lambda: Evidence(False, "4"))
    monkeypatch.setattr(noting, "STATEMENTS", (false,))
    result = run("notes")
    assert result.exit_code == 1
    assert "1 disagree with their status: 003-x" in result.stdout
    told = run("notes", "--json")
    assert told.exit_code == 1
    assert json.loads(told.stdout)[0]["agrees"] is False
