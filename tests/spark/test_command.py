"""The commands with ``--engine spark``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.spark.conftest import check_installed

import hubbub as hb
from hubbub.cli import main
from hubbub.io.documents import write_plan
from hubbub.io.reports import read_reports

SPARK = ["--engine", "spark", "--master", "local[2]"]
PLAN = hb.plan_from(hb.Schema.one_hot(["red", "green", "blue"]), 100, hb.Protocol(0.2), delta=1e-6)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    check_installed()
    monkeypatch.chdir(tmp_path)
    write_plan(PLAN, "plan.json")
    Path("answers.csv").write_text("id,colour\n" + "".join(f"{i},{'red' if i % 3 else 'blue'}\n" for i in range(300)))
    Path("wrong.csv").write_text("colour\nred\nmauve\n")
    Path("key").write_bytes(bytes(range(32)))
    Path("short").write_bytes(b"short")
    return tmp_path


def call(*arguments: str) -> tuple[int, str, str]:
    # The session of the other tests would be stopped by a command, so that each has a process of its own.
    import subprocess
    import sys

    command = [sys.executable, "-c", "from hubbub.cli import main; main()", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_pipeline(folder: Path) -> None:
    made = "randomize", "answers.csv", "--plan", "plan.json", "--column", "colour", *SPARK, "--key", "key", "--json"
    for name in ("reports/", "again/"):
        code, out, said = call(*made, "-o", name)
        assert code == 0, said
        assert json.loads(out)["people"] == 300
    one, two = (hb.tally(read_reports(name, PLAN)) for name in ("reports/", "again/"))
    assert one.counts.tolist() == two.counts.tolist()
    code, out, said = call("shuffle", "reports/", "--plan", "plan.json", "-o", "batch/", *SPARK, "--rows")
    assert (code, out) == (0, "300 messages of 300 people, shuffled, in batch/\n"), said
    results = [call("estimate", "batch/", "--plan", "plan.json", "--json", *engine) for engine in ([], SPARK)]
    assert results[0][:2] == results[1][:2]
    assert json.loads(results[1][1])["counts"]


FAILURES = [
    ("randomize wrong.csv -o out/", 2, "record 2 (column 'colour') has a label that is not in the schema"),
    ("randomize wrong.csv -o out/", 2, "hint: correct the record, or leave it out of the file"),
    ("randomize nowhere.csv -o out/", 5, "nowhere.csv: no such file or directory\nhint: check the file name"),
    ("randomize answers.csv --column colour -o key", 5, "key: file exists"),
    ("estimate nowhere/", 5, "nowhere: no such file"),
]


@pytest.mark.parametrize(("command", "code", "text"), FAILURES)
def test_failures(folder: Path, command: str, code: int, text: str) -> None:
    found, out, said = call(*command.split(), "--plan", "plan.json", *SPARK)
    assert (found, out) == (code, ""), said
    assert text in said
    assert "mauve" not in said
    assert not Path("out").exists()


USAGE = [
    ("randomize answers.csv -o out/ --engine spark --key short", "--key must be a file of 32 secret bytes"),
    ("randomize answers.csv -o out/ --engine spark --fakes 3", "--fakes must not be used with --engine spark"),
    ("randomize answers.csv -o out/ --engine spark --on-error skip", "must not be used with --engine spark"),
    ("randomize answers.csv -o out/ --engine spark --format jsonl", "must not be used with --engine spark"),
    ("randomize - -o out/ --engine spark", "standard input must not be used"),
    ("randomize answers.csv --engine spark", "standard output must not be used"),
    ("randomize answers.csv -o out/ --key key", "--key must not be used with --engine local"),
    ("randomize answers.csv -o out/ --master local", "--master and --set must come with --engine spark"),
    ("shuffle - -o out/ --engine spark", "standard input must not be used"),
    ("shuffle out/ --engine spark", "standard output must not be used"),
    ("shuffle reports/ -o out/ --key key", "--key must not be used with --engine local"),
    ("estimate - --engine spark", "standard input must not be used"),
    ("estimate a/ a --engine spark", "a directory is given twice"),
    ("estimate a/ --set spark.x=1", "--master and --set must come with --engine spark"),
    ("estimate a/ --engine spark --set x=1", "--set must be a setting of Spark"),
]


@pytest.mark.parametrize(("command", "text"), USAGE)
def test_usage(folder: Path, command: str, text: str) -> None:
    result = CliRunner().invoke(main, [*command.split(), "--plan", "plan.json"])
    assert result.exit_code == 2
    assert text in result.output
    assert not Path("out").exists()
