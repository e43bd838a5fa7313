"""``python -m research.notes``: tables, JSON, a page that loads nothing from elsewhere, and an exit code."""

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from research.notes import command, figures
from research.notes.statements.catalogue import Evidence, Statement, Status
from research.notes.statements.everything import NOTES, STATEMENTS
from tests.report.structure import check_page


def run(*words: str) -> Result:
    return CliRunner().invoke(command.main, list(words), prog_name="python -m research.notes")


def test_json() -> None:
    result = run("--note", "003", "--status", "loose", "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [row["id"] for row in rows] == ["003-(1.6),(1.7)", '003 "1% of population with 10% error"']
    assert all(list(row) == ["id", "note", "claim", "status", "remark", "evidence", "agrees"] for row in rows)
    assert {(row["note"], row["status"], row["agrees"]) for row in rows} == {("003", "loose", True)}


def test_everything_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """All statements make it into JSON; their checks, which other tests run, are replaced by quick ones."""
    quick = [dataclasses.replace(one, check=lambda: Evidence(True, "1")) for one in STATEMENTS]
    monkeypatch.setattr(command, "STATEMENTS", quick)
    rows = json.loads(run("--json").stdout)
    assert [row["id"] for row in rows] == [one.id for one in quick]
    assert {row["note"] for row in rows} == set(NOTES)


def test_table() -> None:
    text = run("--note", "004", "--status", "loose").stdout
    assert "Note 004" in text
    assert "004-s2.1" in text
    assert "3 statements: 3 loose" in text
    assert "Note 003" not in text


def test_readings() -> None:
    rows = json.loads(run("--readings", "--json").stdout)
    assert [row["n"] for row in rows] == [1000, 3000, 5000] * 2
    text = run("--readings").stdout
    assert "recomputed" in text
    assert "0.1963" in text


@pytest.mark.long
def test_page_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = (figures.copies_of_a_bit, figures.three_sigma_bits)
    monkeypatch.setattr(figures, "DRAWN", cheap)
    monkeypatch.chdir(tmp_path)
    result = run("--note", "003", "--status", "loose", "-o", "notes.html", "--figures", "pictures")
    assert result.exit_code == 0, result.stderr
    assert "notes.html" in result.stdout
    text = (tmp_path / "notes.html").read_text()
    check_page(text, charts=2)
    for name in ("copies-bit", "three-sigma-1"):
        root = ElementTree.parse(tmp_path / "pictures" / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_a_disagreement_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    false = Statement("003-x", "2 + 2 = 5", Status.CONFIRMED, "It is 4.", lambda: Evidence(False, "4"))
    monkeypatch.setattr(command, "STATEMENTS", (false,))
    result = run()
    assert result.exit_code == 1
    assert "1 disagree with their status: 003-x" in result.stdout
    told = run("--json")
    assert told.exit_code == 1
    assert json.loads(told.stdout)[0]["agrees"] is False


def test_help_and_wrong_options() -> None:
    text = run("--help").stdout
    for option in ("--note", "--status", "--readings", "-o, --output", "--figures", "--json"):
        assert option in text
    assert run("--note", "005").exit_code == 2
    assert run("004").exit_code == 2
    assert run("--readings", "--json", "-o", "/nowhere/notes.html").exit_code == 2


def test_a_page_that_cannot_be_written_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "DRAWN", (figures.copies_of_a_bit,))
    result = run("--note", "003", "--status", "loose", "-o", "/nowhere/notes.html")
    assert result.exit_code == 5
    assert result.stderr.startswith("error: ")
