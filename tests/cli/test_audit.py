"""``hubbub audit``: the verdict as text, JSON, report and exit code."""

import json
import re
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.report.structure import check_page

RAW = """
import sys
plan = __import__("json").load(open("plan.json"))
head = b"HBM" + bytes([2]) + bytes.fromhex(plan["id"])[:16]
labels = plan["schema"]["labels"]
for line in sys.stdin.read().split()[1:]:
    sys.stdout.buffer.write(head + bytes([1 << labels.index(line)]))
"""


@pytest.mark.long
def test_library_client_and_shuffler_pass(folder: Path, run: Call) -> None:
    result = run("audit", "--plan", "plan.json", "--runs", "400", "--json", "--confidence", "0.9999", "-o", "a.html")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["verdict"] == "PASS"
    assert {one["part"] for one in found["tests"]} == {"client", "shuffler", "pipeline"}
    assert 0 < found["power"]["all_bits"] < 1
    assert found["power"]["seed_bits"] > 5
    assert found["privacy"] == "PASS"
    assert not found["diagnoses"]
    assert found["limits"]
    page = (folder / "a.html").read_text()
    check_page(page, 3)
    assert "No violation found" in page
    best = found["attacks"][found["headline"]]
    assert f"empirical ε ≥ {best['epsilon']:.4g}, claimed ≤ {best['claimed']:.4g} ({best['pair']})" in found["sentence"]
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page, re.DOTALL)
    numbers = f"{best['hits'][0]:,} of {best['trials'][0]:,} against {best['hits'][1]:,} of {best['trials'][1]:,}"
    assert numbers in captions[1]
    assert best["pair"] in captions[1]


def test_raw_client_exits_with_its_own_code(folder: Path, run: Call) -> None:
    (folder / "raw.py").write_text(RAW)
    options = ("--runs", "300", "--seed-runs", "5", "-o", "a.html")
    result = run("audit", "--plan", "plan.json", *options, "--", sys.executable, "raw.py")
    assert result.exit_code == 6
    assert "FAIL: records are sent unchanged: nothing was flipped in " in " ".join(result.stdout.split())
    assert "VIOLATED" in result.stdout
    page = (folder / "a.html").read_text()
    assert "Violation found" in page
    assert "clear records" in page


UNEVEN = """
import csv, random, sys
plan = __import__("json").load(open("plan.json"))
head, labels = b"HBM" + bytes([2]) + bytes.fromhex(plan["id"])[:16], plan["schema"]["labels"]
q = plan["protocol"]["noise"][0]["flip"] / 2**48
rates = [RATES]
for row in list(csv.reader(sys.stdin))[1:]:
    noise = sum((random.random() < rate) << i for i, rate in enumerate(rates))
    sys.stdout.buffer.write(head + bytes([(1 << labels.index(row[0])) ^ noise]))
"""


@pytest.mark.parametrize(
    ("rates", "privacy", "lines"),
    [
        ("q / 2, q / 3, q", "FAIL", ("FAIL: 2 defects:", "is flipped less often than planned: expected ")),
        ("1.4 * q, 1.3 * q, q", "PASS", ("FAIL: more noise than planned; estimates would be biased, ",)),
    ],
)
def test_too_much_and_too_little_noise_read_differently(
    rates: str, privacy: str, lines: tuple[str, ...], folder: Path, run: Call
) -> None:
    (folder / "uneven.py").write_text(UNEVEN.replace("RATES", rates))
    options = ("--plan", "plan.json", "--runs", "6000", "--seed-runs", "0")
    result = run("audit", *options, "--", sys.executable, "uneven.py")
    assert result.exit_code == 6
    text = " ".join(result.stdout.split())
    assert all(line in text for line in lines), text
    found = json.loads(run("audit", *options, "--json", "--", sys.executable, "uneven.py").stdout)
    assert (found["verdict"], found["privacy"]) == ("FAIL", privacy)
    assert {one["harm"] for one in found["diagnoses"]} == {"privacy" if privacy == "FAIL" else "estimates"}


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
