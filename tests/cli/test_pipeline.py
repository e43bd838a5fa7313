"""From values to estimates through files and pipes: the estimates agree with the values within their error bars."""

import csv
import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Call

import hubbub as hb
from hubbub.io.documents import write_plan
from hubbub.io.values import read_values

HUBBUB = f"{shlex.quote(sys.executable)} -c 'from hubbub.cli import main; main(prog_name=\"hubbub\")'"
LABELS = ["search", "news", "mail", "videos", "maps", "games", "shop", "bank", "weather", "blog", "forum", "other"]


def answers(folder: Path, n: int) -> dict[str, int]:
    """Write a CSV file of n answers, and return the count of each label."""
    choice = np.random.default_rng(6).integers(0, 144, n) // 12 * np.random.default_rng(7).integers(0, 2, n)
    names = np.array(LABELS)[choice]
    (folder / "people.csv").write_text("page\n" + "\n".join(names) + "\n")
    return {label: int((names == label).sum()) for label in LABELS}


def agrees(record: dict[str, object], truth: dict[str, int]) -> bool:
    """Return True if every estimate is within six standard errors of the truth."""
    table = record["table"]
    assert isinstance(table, dict)
    assert set(table["item"]) == set(truth)
    rows = zip(table["item"], table["value"], table["stderr"], strict=True)
    return all(abs(value - truth[item]) <= 6 * stderr + 1 for item, value, stderr in rows)


MEASURED = """
import pathlib, resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
pathlib.Path("memory").write_text(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(done.returncode)
"""
"""Runs a command and writes the largest memory of its processes, in KiB.

A process starts with the memory of the one that creates it, so that a test process, which may be large after other
tests, cannot measure its own children."""


def shell(script: str, folder: Path) -> str:
    command = ["bash", "-c", f'set -e -o pipefail; hubbub() {{ {HUBBUB} "$@"; }}; {script}']
    result = subprocess.run(
        [sys.executable, "-c", MEASURED, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


PLAN = f"hubbub plan --one-hot {','.join(LABELS)} --epsilon 1 --delta 1e-6"
FILES = """
hubbub randomize people.csv --plan plan.json -o reports.hub > /dev/null
hubbub shuffle reports.hub --plan plan.json -o mixed.hub > /dev/null
hubbub estimate mixed.hub --plan plan.json --json
"""
PIPES = """
hubbub randomize - --plan plan.json < people.csv \
  | hubbub shuffle - --plan plan.json | hubbub estimate - --plan plan.json --json
"""


@pytest.mark.parametrize("pipeline", [FILES, PIPES], ids=["files", "pipes"])
@pytest.mark.parametrize("limits", ["", "--trust shuffler-noise"])
def test_whole_pipeline(pipeline: str, limits: str, tmp_path: Path) -> None:
    truth = answers(tmp_path, 100_000)
    record = json.loads(shell(f"{PLAN} -n 100000 {limits} --json > plan.json\n{pipeline}", tmp_path))
    assert record["people"] == 100_000
    assert record["guarantee"]["epsilon"] <= 1
    assert agrees(record, truth)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [FILES, PIPES], ids=["files", "pipes"])
def test_a_million_people(pipeline: str, tmp_path: Path) -> None:
    """Each program stays below 1 GiB of memory."""
    truth = answers(tmp_path, 1_000_000)
    record = json.loads(shell(f"{PLAN} -n 1000000 --json > plan.json\n{pipeline}", tmp_path))
    assert agrees(record, truth)
    assert 0 < int((tmp_path / "memory").read_text()) < 2**20


def test_several_files_are_one_batch(folder: Path, run: Call) -> None:
    assert run("randomize", "answers.csv", "--plan", "plan.json", "-o", "more.hub").exit_code == 0
    assert run("shuffle", "reports.hub", "more.hub", "--plan", "plan.json", "-o", "both.hub").exit_code == 0
    record = json.loads(run("inspect", "both.hub", "--plan", "plan.json", "--json").stdout)
    assert (record["people"], record["messages"], record["shuffled"]) == (2000, 2000, True)
    record = json.loads(run("estimate", "both.hub", "mixed.hub", "--plan", "plan.json", "--json").stdout)
    assert record["people"] == 3000
    assert agrees(record, {"red": 1500, "green": 750, "blue": 750})


FORMS = ["csv of labels", "csv of bits", "jsonl", "jsonl of objects", "parquet of lists", "parquet of bits"]


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_values(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    column: str | None = None
    schema = hb.Schema.at_most(2, ["a", "b", "c"])
    rows = [["a"], ["c", "a"], [], ["b"]]
    bits = [[int(label in row) for label in schema.labels] for row in rows]
    name = f"values.{form.split(maxsplit=1)[0]}"
    match form:
        case "csv of labels":
            Path(name).write_text("x\n" + "\n".join(";".join(row) or '""' for row in rows) + "\n")
        case "csv of bits":
            Path(name).write_text("id,c,a,b\n" + "".join(f"{i},{c},{a},{b}\n" for i, (a, b, c) in enumerate(bits)))
        case "jsonl":
            Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "jsonl of objects":
            Path(name).write_text("".join(json.dumps({"x": row}) + "\n" for row in rows))
            column = "x"
        case "parquet of lists":
            pq.write_table(pa.table({"x": pa.array(rows, pa.list_(pa.string()))}), name)
        case _:
            pq.write_table(pa.table({label: [row[i] for row in bits] for i, label in enumerate(schema.labels)}), name)
    blocks = list(read_values(name, schema, column=column, block=3))
    assert [len(block) for block in blocks] == [3, 1]
    assert [x for block in blocks for x in block.rows(0, 3)[:, 0].tolist()] == [1, 5, 0, 2]


def test_parquet_holds_only_the_messages(folder: Path, run: Call) -> None:
    assert run("randomize", "answers.csv", "--plan", "plan.json", "-o", "reports.parquet").exit_code == 0
    assert run("shuffle", "reports.parquet", "--plan", "plan.json", "-o", "mixed.parquet").exit_code == 0
    for name in ("reports.parquet", "mixed.parquet"):
        column = pq.ParquetFile(folder / name).metadata.row_group(0).column(0)
        assert not column.is_stats_set
        assert column.compression == "UNCOMPRESSED"
        assert "DICTIONARY" not in "".join(column.encodings)
    record = json.loads(run("estimate", "mixed.parquet", "--plan", "plan.json", "--json").stdout)
    assert agrees(record, {"red": 500, "green": 250, "blue": 250})
    assert json.loads(run("inspect", "mixed.parquet", "--plan", "plan.json", "--json").stdout)["people"] == 1000


@pytest.mark.parametrize("rows", [False, True])
def test_directories_all_the_way(rows: bool, folder: Path, run: Call) -> None:
    """Batches in directories give the same result as files, and a failed command leaves none behind."""
    plan = ("--plan", "plan.json")
    option = ("--rows",) if rows else ()
    assert run("randomize", "answers.csv", *plan, "-o", "reports/").exit_code == 0
    assert run("shuffle", "reports/", *plan, "-o", "mixed/", *option).exit_code == 0
    column = "message" if rows else "messages"
    assert pq.read_table(folder / "mixed").schema.names == [column]
    shown = json.loads(run("inspect", "mixed/", *plan, "--json").stdout)
    assert (shown["people"], shown["messages"], shown["shuffled"]) == (1000, 1000, True)
    found = json.loads(run("estimate", "mixed/", *plan, "--json").stdout)
    assert agrees(found, {"red": 500, "green": 250, "blue": 250})
    assert run("shuffle", "mixed/", *plan, "-o", "again/", *option).exit_code == 2  # it is shuffled already
    assert run("shuffle", "reports/", "--plan", "other.json", "-o", "again/").exit_code == 4
    assert not (folder / "again").exists()
    result = run("shuffle", "reports/", "reports", *plan, "-o", "again/")
    assert "must be of different people, but reports/ and reports are the same batch" in result.stderr


def test_fixed_fakes_are_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Call) -> None:
    """The number of fakes does not depend on the number of blocks in which the values are read."""
    monkeypatch.chdir(tmp_path)
    truth = answers(tmp_path, 150_000)
    plan = hb.plan_from(hb.Schema.one_hot(LABELS), 150_000, hb.Protocol(0.01, m=500), delta=1e-6)
    write_plan(plan, "plan.json")
    assert run("randomize", "people.csv", "--plan", "plan.json", "-o", "reports.hub").exit_code == 0
    record = json.loads(run("inspect", "reports.hub", "--plan", "plan.json", "--json").stdout)
    assert (record["fakes"], record["messages"]) == (500, 150_500)
    assert agrees(json.loads(run("estimate", "reports.hub", "--plan", "plan.json", "--json").stdout), truth)


@pytest.mark.parametrize("survey", [False, True])
def test_a_sum_with_unshuffled_files_states_the_local_figure(
    survey: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Call
) -> None:
    """Regression: "1,200 people; this batch is (1, 1.29e-07)-differentially private", and no note."""
    monkeypatch.chdir(tmp_path)
    schema = (
        hb.Schema.survey({"colour": hb.Choice(["red", "green"])}) if survey else hb.Schema.one_hot(["red", "green"])
    )
    protocol = hb.Protocol.survey([hb.Noise(0.05)]) if survey else hb.Protocol(0.05, release="bits")
    write_plan(hb.plan_from(schema, 500, protocol, epsilon=1.0), "plan.json")
    Path("people.csv").write_text("colour\n" + "red\n" * 600)
    plan = ("--plan", "plan.json")
    for name in ("one", "two"):
        assert run("randomize", "people.csv", *plan, "-o", f"{name}.hub").exit_code == 0
    assert run("shuffle", "one.hub", *plan, "-o", "mixed.hub").exit_code == 0
    found = [run("estimate", *files, *plan, "--json") for files in (("two.hub",), ("mixed.hub", "two.hub"))]
    alone, both = (json.loads(one.stdout)["guarantee"] for one in found)
    assert (both["epsilon"], both["delta"]) == (alone["epsilon"], alone["delta"])
    assert both["unshuffled"] == 600
    assert alone["delta"] > 0.5
    shown = run("estimate", "mixed.hub", "two.hub", *plan)
    assert "the reports of 600 people are not shuffled" in shown.stderr
    assert f"1,200 people; this batch is (1, {alone['delta']:.3g})-differentially private; " in shown.stdout
    assert "the reports of 600 people were not shuffled" in " ".join(shown.stdout.split())
    assert run("estimate", "mixed.hub", "two.hub", *plan, "-o", "page.html").exit_code == 0
    assert "600 people were not shuffled" in Path("page.html").read_text()
    assert "not shuffled" not in run("estimate", "mixed.hub", *plan).output


def test_options_of_estimate(folder: Path, run: Call) -> None:
    words = ("estimate", "mixed.hub", "--plan", "plan.json")
    single = json.loads(run(*words, "--json").stdout)["table"]
    joint = json.loads(run(*words, "--simultaneous", "--json").stdout)["table"]
    assert joint["high"][0] - joint["low"][0] > single["high"][0] - single["low"][0]
    record = json.loads(run(*words, "--consistent", "--json", "-o", "out.json", "--plot", "out.svg").stdout)
    assert math.isclose(sum(record["table"]["value"]), 1000)
    assert json.loads((folder / "out.json").read_text()) == record
    chart = (folder / "out.svg").read_text()
    assert "<svg" in chart
    assert all(label in chart for label in ("red", "green", "blue"))
    text = run(*words, "--top", "2").stdout
    assert "and 1 more label (" in text
    assert "█" in text


def test_joint_tables(folder: Path, run: Call) -> None:
    words = ("joint", "mixed.hub", "--plan", "plan.json", "--labels", "red,blue")
    record = json.loads(run(*words, "--json").stdout)
    people = {tuple(row["with"]): row for row in record["people"]}
    assert abs(people["red",]["value"] - 500) < 6 * people["red",]["stderr"]
    assert people["red",]["low"] < people["red",]["value"] < people["red",]["high"]
    assert record["level"] == 0.95
    wide = json.loads(run(*words, "--level", "0.999", "--json").stdout)["people"][1]
    assert wide["low"] < people["red",]["low"]
    record = json.loads(run(*words, "--given", "red=0", "--json").stdout)
    assert math.isclose(sum(row["value"] for row in record["share"]), 1)
    assert all(0 <= row["low"] <= row["high"] <= 1 for row in record["share"])
    text = run(*words).stdout
    assert "red + blue" in text
    assert "95% interval" in text
    assert re.search(r"not red +[-\d,]+ +[-\d,]+ +[-\d,]+", text), "the grid of two labels"
    assert "and 5 more combinations" in run(*words[:-1], "red,green,blue", "--top", "3").stdout


@pytest.mark.parametrize("form", ["csv", "parquet", "json", "html"])
def test_joint_tables_as_files(folder: Path, run: Call, form: str) -> None:
    words = ("joint", "mixed.hub", "--plan", "plan.json", "--labels", "red,green", "-o", f"out.{form}")
    assert run(*words, "--plot", "out.svg").exit_code == 0
    assert "not red" in (folder / "out.svg").read_text()
    names = ["none", "red", "green", "red + green"]
    if form == "csv":
        rows = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
        assert [row["combination"] for row in rows] == names
        assert [row["has_red"] for row in rows] == ["0", "1", "0", "1"]
        assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows)
    elif form == "parquet":
        assert pq.read_table("out.parquet").column("combination").to_pylist() == names
    elif form == "json":
        assert len(json.loads((folder / "out.json").read_text())["people"]) == 4
    else:
        page = (folder / "out.html").read_text()
        assert all(name in page for name in names)
        assert page.startswith("<!doctype html>")
    assert run(*words, "--given", "red=1").exit_code == 0


@pytest.mark.parametrize("form", ["csv", "parquet", "json", "html"])
def test_the_extension_chooses_the_format(folder: Path, run: Call, form: str) -> None:
    """Regression: ``estimate -o est.csv`` wrote JSON."""
    words = ("estimate", "mixed.hub", "--plan", "plan.json")
    record = json.loads(run(*words, "--json", "-o", f"out.{form}").stdout)
    names = [
        "question", "item", "people", "share", "unit", "value", "stderr", "low", "high", "population_low",
        "population_high", "note", "n", "plan_id", "released",
    ]  # fmt: skip
    if form == "csv":
        rows = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
        assert list(rows[0]) == names
        assert [float(row["value"]) for row in rows] == record["table"]["value"]
        assert (rows[0]["note"], rows[0]["n"], rows[0]["plan_id"]) == ("", str(record["people"]), record["plan"])
    elif form == "parquet":
        table = pq.read_table("out.parquet")
        assert table.column_names == names
        assert table.column("population_high").to_pylist() == record["table"]["population_high"]
        about = json.loads(table.schema.metadata[b"hubbub"])
        assert about == {name: record[name] for name in ("format", "plan", "people", "released", "guarantee")}
    elif form == "json":
        text = (folder / "out.json").read_text()
        assert json.loads(text) == record
        again = hb.Result.from_json(text)
        assert again.guarantee == hb.Guarantee.from_document(record["guarantee"])
    else:
        page = (folder / "out.html").read_text()
        assert all(f"{word}" in page for word in ("red", "green", "blue", "Guarantee", "share of the population"))
        assert "http" not in page.replace("http-equiv", "")
    assert run(*words, "-o", "-").stdout.startswith("{")


def test_shrunk_counts(folder: Path, run: Call) -> None:
    words = ("estimate", "mixed.hub", "--plan", "plan.json", "--json")
    record = json.loads(run(*words, "--shrunk").stdout)
    assert "James–Stein" in record["counts"][0]["remark"]
    assert record["counts"][0]["unbiased"] == json.loads(run(*words).stdout)["table"]["value"]


def test_compare(folder: Path, run: Call) -> None:
    for name, colours in (("before", "red\n" * 700 + "green\n" * 400), ("after", "red\n" * 500 + "green\n" * 600)):
        (folder / f"{name}.csv").write_text("colour\n" + colours)
        assert run("randomize", f"{name}.csv", "--plan", "plan.json", "-o", "one.hub").exit_code == 0
        assert run("shuffle", "one.hub", "--plan", "plan.json", "-o", "two.hub").exit_code == 0
        assert run("estimate", "two.hub", "--plan", "plan.json", "-o", f"{name}.json").exit_code == 0
    words = ("compare", "before.json", "after.json")
    record = json.loads(run(*words, "--json", "--holm", "--plot", "out.svg").stdout)
    table = record["table"]
    found = {item: {name: table[name][place] for name in table} for place, item in enumerate(table["item"])}
    assert record["correction"] == "holm"
    assert found["red"]["difference"] < 0 < found["green"]["difference"]
    assert found["red"]["p_value"] <= 0.05
    assert record["questions"][0]["significant"]
    assert found["red"]["population_low"] < -200 / 1100 < found["red"]["population_high"]
    assert "<svg" in (folder / "out.svg").read_text()
    text = run(*words, "--top", "2").stdout
    assert "1,100 people in A and 1,100 in B" in text
    assert "and 1 more label" in text
    for form in ("csv", "parquet", "json", "html"):
        assert run(*words, "-o", f"out.{form}").exit_code == 0
    rows = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
    assert [row["item"] for row in rows] == ["red", "green", "blue"]
    assert pq.read_table("out.parquet").num_rows == 3
    assert "Two batches compared" in (folder / "out.html").read_text()
    assert json.loads((folder / "out.json").read_text())["format"] == "hubbub comparison 2"


def test_labels_cannot_control_the_terminal(folder: Path, run: Call) -> None:
    schema = hb.Schema.one_hot(["[bold]a[/]", "b\x1b[2J"])
    write_plan(hb.plan_from(schema, 2, hb.Protocol(0.1), delta=1e-6), "odd.json")
    (folder / "odd.jsonl").write_text(f"{json.dumps(schema.labels[0])}\n{json.dumps(schema.labels[1])}\n")
    assert run("randomize", "odd.jsonl", "--plan", "odd.json", "-o", "odd.hub").exit_code == 0
    text = run("estimate", "odd.hub", "--plan", "odd.json").stdout
    assert "[bold]a[/]" in text
    assert "\x1b" not in text


@pytest.mark.long
def test_progress_is_for_terminals(folder: Path) -> None:
    """Progress appears on standard error, and only if that is a terminal."""
    words = "['randomize', 'answers.csv', '--plan', 'plan.json']"
    command = [sys.executable, "-c", f"from hubbub.cli import main; main({words}, prog_name='hubbub')"]
    terminal, end = os.openpty()
    shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, check=True, cwd=folder)
    os.close(end)
    assert b"randomizing" in os.read(terminal, 1 << 16)
    os.close(terminal)
    quiet = subprocess.run(command, capture_output=True, check=True, cwd=folder)
    assert quiet.stderr == b""
    assert len(quiet.stdout) == len(shown.stdout) == (folder / "reports.hub").stat().st_size
