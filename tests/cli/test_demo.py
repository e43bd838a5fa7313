"""The demonstration: readable text, and a self-contained report."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.report.structure import check_page


def test_demo(folder: Path, run: Call) -> None:
    result = run("demo", "--seed", "7")
    assert result.exit_code == 0, result.stderr
    for words in (
        "1. The plan.",
        "2. The messages.",
        "3. True and estimated counts",
        "4. What an attacker could learn.",
    ):
        assert words in result.stdout
    assert "hubbub-demo.html" in result.stdout
    assert result.stdout.count("→ ") == result.stdout.count("→ split bits") == 1, "the arrow marks the chosen protocol"
    assert "e+0" not in result.stdout
    text = (folder / "hubbub-demo.html").read_text()
    check_page(text, 3)


@pytest.mark.long
def test_a_seed_repeats_the_demonstration(folder: Path, run: Call) -> None:
    words = ("demo", "--people", "5000", "--seed", "3", "--json")
    first, second = (json.loads(run(*words).stdout) for _ in range(2))
    assert first == second
    assert first["covered"] >= 9
    assert sum(row["truth"] for row in first["counts"]) == 5000
    assert json.loads(run("demo", "--people", "5000", "--json").stdout)["counts"] != first["counts"]
    assert (folder / "hubbub-demo.html").exists()
