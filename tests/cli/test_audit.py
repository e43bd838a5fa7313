"""``hubbub audit``: the verdict as text, JSON, report and exit code."""

import json
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.pages.structure import check_page

RAW = """
import sys
plan = __import__("json").load(open("plan.json"))
head = b"HBM" + bytes([2]) + bytes.fromhex(plan["id"])[:16]
labels = plan["schema"]["labels"]
for line in sys.stdin.read().split()[1:]:
    sys.stdout.buffer.write(head + bytes([1 << labels.index(line)]))
"""


def test_library_client_and_shuffler_pass(folder: Path, run: Call) -> None:
    result = run("audit", "--plan", "plan.json", "--runs", "400", "--json", "--confidence", "0.9999", "-o", "a.html")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["verdict"] == "PASS"
    assert {one["part"] for one in found["tests"]} == {"client", "shuffler", "pipeline"}
    assert 0 < found["power"]["all_bits"] < 1
    assert found["limits"]
    page = (folder / "a.html").read_text()
    check_page(page, 3)
    assert "No violation found" in page


def test_raw_client_exits_with_its_own_code(folder: Path, run: Call) -> None:
    (folder / "raw.py").write_text(RAW)
    result = run("audit", "--plan", "plan.json", "--runs", "300", "-o", "a.html", "--", sys.executable, "raw.py")
    assert result.exit_code == 6
    assert "FAIL: flips of unset bits: all bits; flips of set bits: all bits; flips per bit: bit" in result.stdout
    assert "VIOLATED" in result.stdout
    assert "Violation found" in (folder / "a.html").read_text()


def test_shuffler_without_client(folder: Path, run: Call) -> None:
    (folder / "same.py").write_text("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())")
    result = run("audit", "--plan", "plan.json", "--shuffler", f"{sys.executable} same.py", "--json")
    assert result.exit_code == 6
    found = json.loads(result.stdout)
    assert {one["part"] for one in found["tests"]} == {"shuffler"}
    assert any("by blocks of arrivals only" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--", "false"), 5, "the client exited with code 1"),
        (("--", "/nowhere/program"), 5, "could not be started"),
        (("--", "echo", "hello"), 5, "must be a .hub batch or consecutive messages"),
        (("--shuffler", "false"), 5, "the shuffler exited with code 1"),
        (("--confidence", "1"), 2, "confidence must be in [1/2, 1), got 1.0"),
        (("--runs", "3"), 2, "is not in the range"),
    ],
)
def test_errors(words: tuple[str, ...], code: int, text: str, folder: Path, run: Call) -> None:
    result = run("audit", "--plan", "plan.json", *words)
    assert result.exit_code == code
    assert text in result.stderr
    assert result.stderr.startswith("error: ")
    assert folder.exists()
