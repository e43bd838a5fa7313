"""Invalid records on the command line: what is told to whom, progress, labels, and memory."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Call

import hubbub as hb
from hubbub.cli import screen
from hubbub.io.reports import read_reports

MEGABYTES_ALLOWED = 300


def damaged(path: Path, n: int, seed: int = 7) -> list[int]:
    """Write a file with one invalid record in a hundred, of five kinds, and return their numbers."""
    rng = np.random.default_rng(seed)
    lines = np.array(["red", "green", "blue"])[rng.integers(0, 3, n)].astype(object)
    wrong = np.sort(rng.choice(n, n // 100, replace=False))
    lines[wrong] = np.resize(np.array(["mauve", "", '"red', "red,blue", "röd"], object), wrong.size)
    path.write_bytes(b"colour\n" + "\n".join(lines).encode("latin-1") + b"\n")
    return [int(place) + 1 for place in wrong]


def test_skipping_says_how_many_and_where_to_look(folder: Path, run: Call) -> None:
    wrong = damaged(folder / "bad.csv", 10_000)
    words = ("randomize", "bad.csv", "--plan", "plan.json", "-o", "out.hub")
    failed = run(*words)
    assert failed.exit_code == 2
    assert failed.stderr.startswith(f"error: bad.csv: record {wrong[0]:,} has a label that is not in the schema")
    assert "; 99 more records are invalid\n" in failed.stderr
    assert not (folder / "out.hub").exists()
    result = run(*words, "--on-error", "skip", "--rejects", "bad.list")
    assert result.exit_code == 0
    first = ", ".join(f"{record:,}" for record in wrong[:5])
    assert result.stdout == "9,900 messages of 9,900 people, not shuffled, in out.hub\n"
    assert result.stderr.splitlines() == [
        f"note: 10,000 records read; 100 invalid records left out (no. {first}, …); bad.list lists them",
        "note: these counts depend on the raw values: do not pass them on with the reports",
    ]
    header, *listed = (folder / "bad.list").read_text().splitlines()
    assert header == "record,action,reason"
    assert [int(line.split(",")[0]) for line in listed] == wrong
    assert not re.search("mauve|röd", (folder / "bad.list").read_text())
    assert (folder / "bad.list").stat().st_mode & 0o777 == 0o600


def test_missing_and_other_keep_the_number_of_people(folder: Path, run: Call) -> None:
    damaged(folder / "bad.csv", 2000)
    options = ("--on-error", "skip", "--missing", "blue", "--other", "green", "--json")
    result = run("randomize", "bad.csv", "--plan", "plan.json", "-o", "out.hub", *options)
    shown = json.loads(result.stdout)
    assert shown["people"] == 2000
    counts = shown["values"]
    assert {key: counts[key] for key in counts if key != "first"} == {
        "rows": 2000, "missing": 4, "other": 4, "bad": 12, "dropped": 0, "clipped": 0,
    }  # fmt: skip
    assert "4 records without a value became 'blue'" in result.stderr
    assert "4 records with labels outside the schema became 'green'" in result.stderr
    assert "12 invalid records became 'blue' (no. " in result.stderr
    plan = hb.load_plan((folder / "plan.json").read_text())
    assert read_reports("out.hub", plan).header.n == 2000


def test_a_file_of_reports_does_not_say_what_was_skipped(folder: Path, run: Call) -> None:
    """Two files of the same number of valid records give files of reports of the same size and header."""
    (folder / "good.csv").write_text("colour\n" + "red\n" * 50)
    (folder / "bad.csv").write_text("colour\n" + "red\n" * 50 + "mauve\n" * 7)
    sizes = []
    for name in ("good", "bad"):
        run("randomize", f"{name}.csv", "--plan", "plan.json", "-o", f"{name}.hub", "--on-error", "skip")
        shown = run("inspect", f"{name}.hub", "--json")
        sizes.append((json.loads(shown.stdout), (folder / f"{name}.hub").stat().st_size))
    assert sizes[0][0] | {"file": ""} == sizes[1][0] | {"file": ""}
    assert sizes[0][1] == sizes[1][1]


def test_rejects_are_listed_even_if_the_command_fails(folder: Path, run: Call) -> None:
    wrong = damaged(folder / "bad.csv", 1000)
    result = run("randomize", "bad.csv", "--plan", "plan.json", "-o", "out.hub", "--rejects", "bad.list")
    assert result.exit_code == 2
    listed = (folder / "bad.list").read_text().splitlines()[1:]
    assert [int(line.split(",")[0]) for line in listed] == wrong
    assert {line.split(",")[1] for line in listed} == {"not accepted"}
    assert not (folder / "out.hub").exists()


def test_a_clean_file_has_no_notes(folder: Path, run: Call) -> None:
    words = ("randomize", "answers.csv", "--plan", "plan.json", "-o", "out.hub")
    assert run(*words, "--on-error", "skip", "--missing", "red").stderr == ""
    assert "values" not in json.loads(run(*words, "--json").stdout)


def limited(folder: Path, n: int) -> tuple[int, str]:
    """Randomize a damaged file in another process, and return its peak memory in bytes and what it says."""
    damaged(folder / "bad.csv", n)
    # Not ru_maxrss: on Linux it includes the memory of the process that started this one.
    script = (
        "import atexit; from pathlib import Path; "
        "atexit.register(lambda: Path('status').write_text(Path('/proc/self/status').read_text())); "
        "from hubbub.cli import main; main({!r}, prog_name='hubbub')"
    )
    words = ["randomize", "bad.csv", "--plan", "plan.json", "-o", "out.hub"]
    words += ["--on-error", "skip", "--rejects", "bad.list"]
    with subprocess.Popen([sys.executable, "-c", script.format(words)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        text = process.stderr.read()
    assert process.returncode == 0, text
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", (folder / "status").read_text())
    return 1024 * int(peak), text


@pytest.mark.parametrize("n", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_invalid_records_in_little_memory(n: int, folder: Path) -> None:
    memory, text = limited(folder, n)
    assert f"{n:,} records read; {n // 100:,} invalid records left out (no. " in text
    assert "bad.list lists them" in text
    assert len((folder / "bad.list").read_text().splitlines()) == n // 100 + 1
    assert memory < MEGABYTES_ALLOWED << 20


def test_the_measure_of_memory_notices_a_large_process() -> None:
    """The control: a process that holds 400 MB is above the limit."""
    script = "import resource, numpy; held = numpy.ones(50 << 20); print(resource.getrusage(resource.RUSAGE_SELF)[2])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(found.stdout) * unit > MEGABYTES_ALLOWED << 20


def terminal(script: str) -> str:
    """Run Python code with a terminal as standard error, and return what it prints there."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", script], stderr=theirs, stdout=subprocess.DEVNULL, env=environment
    )
    os.close(theirs)
    pieces: list[bytes] = []

    def collect() -> None:
        try:
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        except OSError:
            pass  # the terminal is closed

    reader = threading.Thread(target=collect)
    reader.start()
    assert process.wait(600) == 0
    reader.join(600)
    os.close(ours)
    return b"".join(pieces).decode()


def test_progress_has_percentage_rate_and_time_left() -> None:
    script = """
import functools, time
from rich.progress import Progress
from hubbub.cli import screen
Progress.update = functools.partialmethod(Progress.update, refresh=True)  # it is drawn at each step, not by a clock
for _ in screen.counted(([0] * 250 for _ in range(4)), "reading", total=1000):
    time.sleep(0.15)
with screen.progressing() as progress:
    for done in range(4):
        progress("cells", done, 4)
        time.sleep(0.15)
"""
    text = terminal(script)
    assert re.search(r"reading .* 50 % 500 [\d,]+/s \d:\d\d:\d\d", text)
    assert re.search(r"cells .* 75 % 3 [\d,]+/s \d:\d\d:\d\d", text)


def test_progress_of_a_file_is_known_from_its_size(folder: Path) -> None:
    (folder / "long.csv").write_text("colour\n" + "red\n" * 400_000)
    script = """
from hubbub.cli import main
main("randomize long.csv --plan plan.json -o out.hub".split(), prog_name="hubbub")
"""
    text = terminal(script)
    percentages = {int(found) for found in re.findall(r"randomizing .*? (\d+) %", text)}
    assert percentages & set(range(1, 100))


def test_progress_is_silent_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(screen.counted([[1], [2]], "reading", total=2)) == [[1], [2]]
    with screen.progressing() as progress:
        progress("cells", 1, 2)
    assert capfd.readouterr() == ("", "")


ACCOUNT = "account -n 100 --q 0.25 --delta 1e-6 --json"


def labels_of(run: Call, *words: str) -> tuple[list[str], str]:
    result = run(*ACCOUNT.split(), *words, "-o", "made.json")
    assert result.exit_code == 0, result.stderr
    return json.loads(Path("made.json").read_text())["schema"]["labels"], result.stderr


def test_a_single_word_is_a_label(folder: Path, run: Call) -> None:
    """Regression: ``--bits crashed`` was an error, because there is no file of this name."""
    labels, notes = labels_of(run, "--bits", "crashed")
    assert labels == ["crashed"]
    assert notes == "note: --bits 'crashed' is one label; there is no file of this name\n"
    (folder / "crashed").write_text("app\nsystem\n")
    labels, notes = labels_of(run, "--bits", "crashed")
    assert labels == ["app", "system"]
    assert notes == "note: --bits 'crashed' is a file of labels in this folder\n"


def test_long_labels_are_not_file_names(folder: Path, run: Call) -> None:
    """Regression: labels of more than 255 bytes between commas raised "file name too long"."""
    labels, notes = labels_of(run, "--one-hot", f"{'a' * 300},{'b' * 300}")
    assert labels == ["a" * 300, "b" * 300]
    assert notes == ""
    assert labels_of(run, "--bits", "c" * 300)[0] == ["c" * 300]


@pytest.mark.parametrize("text", ["crashed,", ",crashed", "a,,b", ","])
def test_empty_labels_are_rejected(text: str, folder: Path, run: Call) -> None:
    """Regression: a comma at the end silently made a second, empty label."""
    result = run(*ACCOUNT.split(), "--bits", text, "-o", "made.json")
    assert result.exit_code == 2
    assert "--bits: labels must not be empty; remove the comma at the end, or between two commas" in result.stderr
