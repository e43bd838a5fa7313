"""``hubbub study``: options, output files, and resuming after an interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.report.structure import check_page

SMALL = ("study", "--one-hot", "3", "-n", "1500", "--repetitions", "20", "--jobs", "1")


@pytest.mark.long
def test_text_report_and_results(folder: Path, run: Call) -> None:
    result = run(*SMALL, "--population", "zipf:0.5")
    assert result.exit_code == 0, result.stderr
    for words in (
        "split bits",
        "zipf:0.5",
        "one_hot(3 labels)",
        "nothing contradicts a prediction",
        "hubbub-study.html",
    ):
        assert words in result.stdout
    check_page((folder / "hubbub-study.html").read_text(), 5)
    assert len((folder / "hubbub-study.results.jsonl").read_text().splitlines()) > 5


@pytest.mark.long
def test_json_is_reproducible(folder: Path, run: Call) -> None:
    words = (*SMALL, "--population", "uniform", "--json")
    first = json.loads(run(*words).stdout)
    assert first["contradictions"] == []
    assert {row["population"] for row in first["rows"]} == {"uniform"}
    again, fresh = json.loads(run(*words).stdout), json.loads(run(*words, "--no-resume").stdout)
    assert again == first
    assert [row["observed"] for row in fresh["rows"]] == [row["observed"] for row in first["rows"]]
    assert [row["seconds"] for row in fresh["rows"]] != [row["seconds"] for row in first["rows"]]
    other = json.loads(run(*words, "--seed", "1").stdout)
    assert [row["observed"] for row in other["rows"]] != [row["observed"] for row in first["rows"]]
    assert folder.exists()


@pytest.mark.long
def test_given_plans_and_values(folder: Path, run: Call) -> None:
    plans = ("study", "--plan", "plan.json", "--plan", "other.json", "--repetitions", "20", "--jobs", "1", "--json")
    rows = json.loads(run(*plans, "--values", "answers.csv").stdout)["rows"]
    assert [(row["n"], row["level"]) for row in rows] == [(1000, "records")] * 2
    assert all(row["population"].startswith("given:") for row in rows)
    rows = json.loads(run(*plans, "--population", "segments:2").stdout)["rows"]
    assert [row["n"] for row in rows] == [1000, 900]
    rows = json.loads(run(*plans[:3], *plans[5:], "-n", "1000000000").stdout)["rows"]
    assert [(row["n"], row["level"]) for row in rows] == [(10**9, "counts")] * 2
    text = (folder / "hubbub-study.results.jsonl").read_text() + (folder / "hubbub-study.html").read_text()
    assert "green" not in text


@pytest.mark.long
def test_many_blocks_of_values(folder: Path, run: Call) -> None:
    """More records than one block, with several labels each."""
    lines = ['["a"]', '["a", "b"]', "[]", '["c"]'] * 17_500
    (folder / "many.jsonl").write_text("\n".join(lines) + "\n")
    schema = ("--at-most", "2", "a,b,c")
    assert run("account", *schema, "-n", "9000", "--q", "0.1", "--epsilon", "5", "-o", "few.json").exit_code == 0
    words = ("study", "--plan", "few.json", "--values", "many.jsonl", "--repetitions", "10", "--jobs", "1", "--json")
    rows = json.loads(run(*words, "--level", "records").stdout)["rows"]
    assert [row["n"] for row in rows] == [70_000]
    assert 0.6 < rows[0]["ratio"] < 1.5


def test_report_to_a_pipe(folder: Path, run: Call) -> None:
    result = run(*SMALL, "--population", "zipf", "-o", "-")
    assert result.stdout.startswith("<!doctype html>")
    assert not list(folder.glob("*.results.jsonl"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--plan", "plan.json", "--epsilon", "1"), "give no schema option"),
        (("--plan", "plan.json", "--bits", "2"), "give no schema option"),
        (("--bits", "2", "--one-hot", "3"), "at most one of"),
        (("--values", "answers.csv"), "needs exactly one schema"),
        (("--values", "answers.csv", "--plan", "plan.json", "--plan", "split.json"), "needs exactly one schema"),
        (("--values", "answers.csv", "--plan", "plan.json", "-n", "5"), "give no -n"),
        (("--population", "normal"), "--population must be"),
        (("--bits", "2", "-n", "0"), "n must be"),
        (("--bits", "2", "--epsilon", "-1"), "epsilon must be"),
        (("--plan", "plan.json", "--repetitions", "3"), "repetitions must be"),
        (("-o", "-", "--json"), "cannot both write"),
        (("--results", "-"), "must be a file"),
        (("--plan", "plan.json", "-o", "plan.json"), "overwrite"),
        (("-o", "x.html", "--results", "x.html"), "overwrite"),
        (("--jobs", "0"), "0 is not in the range"),
    ],
)
def test_wrong_options(words: tuple[str, ...], message: str, folder: Path, run: Call) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run("study", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    after.pop("hubbub-study.results.jsonl", None)
    assert after == before


def test_exit_codes_of_failures(folder: Path, run: Call) -> None:
    assert run("study", "--plan", "plan.json", "-n", "999", "--jobs", "1").exit_code == 3
    assert run("study", "--plan", "missing.json").exit_code == 5
    result = run("study", "--plan", "plan.json", "--results", "answers.csv")
    assert result.exit_code == 4
    assert "must begin with" in result.stderr
    assert (folder / "answers.csv").read_text().startswith("colour")


@pytest.mark.long
def test_interruption_keeps_finished_cells(folder: Path, run: Call) -> None:
    """SIGINT to the parent alone ends all processes with one message, exit code 130 and a file to resume from."""
    words = ("study", "--plan", "plan.json", "--level", "records", "--repetitions", "200", "--jobs", "2")
    sizes = [word for n in range(1000, 1400, 10) for word in ("-n", str(n))]
    # A shell without job control starts background jobs with SIGINT ignored, and children inherit that.
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from hubbub.cli import main; main(prog_name='hubbub')"
    )
    place = folder / "hubbub-study.results.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", script, *words, *sizes], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and (not place.exists() or place.read_bytes().count(b"\n") < 3):
            assert process.poll() is None, "the study ended before it was interrupted"
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=600)
    assert process.returncode == 130
    assert message.strip() == "error: interrupted"
    finished = place.read_bytes().count(b"\n") - 1
    assert 2 <= finished < 40
    kept = place.read_bytes()
    assert run(*words[:-1], "1", *sizes[:2]).exit_code == 0
    assert place.read_bytes().startswith(kept)
