"""Strings on the command line: plan, randomize, shuffle, estimate, frontier and report, and what is refused."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import hubbub as hb

Run = Callable[..., Result]
PEOPLE = ["a crash"] * 70 + ["another, worse\ncrash"] * 60 + [""] * 10 + [f"rare {i}" for i in range(10)]


@pytest.fixture
def plan(tmp_path: Path, run: Run) -> str:
    """A plan for 150 people in a file."""
    place = str(tmp_path / "plan.json")
    request = ["--strings", "24", "-n", "150", "--epsilon", "2", "--delta", "1e-6", "--trust", "shuffler-noise"]
    assert run("plan", *request, "-o", place).exit_code == 0
    return place


def write(folder: Path, name: str) -> str:
    place = folder / name
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"text": [one or None for one in PEOPLE], "n": range(150)}), place)
    elif "jsonl" in name:
        place.write_text("".join(json.dumps({"text": one or None}) + "\n" for one in PEOPLE))
    else:
        mark = "\t" if "tsv" in name else ","
        text = f"n{mark}text\n" + "".join(f'{i}{mark}"{one}"\n' for i, one in enumerate(PEOPLE))
        place.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(place)


@pytest.mark.parametrize("name", ["v.csv", "v.tsv", "v.csv.gz", "v.jsonl", "v.parquet"])
def test_from_values_to_results(tmp_path: Path, run: Run, plan: str, name: str) -> None:
    values, raw, mixed = write(tmp_path, name), str(tmp_path / "raw.hub"), str(tmp_path / "mixed.hub")
    assert run("randomize", values, "--column", "text", "--plan", plan, "-o", raw).exit_code == 0
    assert run("shuffle", raw, "--plan", plan, "-o", mixed).exit_code == 0
    found = run("estimate", mixed, "--plan", plan, "--json")
    document = json.loads(found.stdout)
    assert document["table"]["item"][:2] in (
        ["a crash", "another, worse\ncrash"],
        ["another, worse\ncrash", "a crash"],
    )
    assert document["people"] == 150
    shown = run("estimate", mixed, "--plan", plan)
    assert "another, worse�crash" in shown.stdout
    assert "rare" not in shown.stdout


def test_directories_and_result_files(tmp_path: Path, run: Run, plan: str) -> None:
    values = write(tmp_path, "v.csv")
    raw, mixed = f"{tmp_path}/raw/", f"{tmp_path}/mixed/"
    assert run("randomize", values, "--column", "text", "--plan", plan, "-o", raw).exit_code == 0
    assert run("shuffle", raw, "--plan", plan, "-o", mixed).exit_code == 0
    for suffix in ("json", "csv", "parquet", "html"):
        assert run("estimate", mixed, "--plan", plan, "-o", f"{tmp_path}/e.{suffix}").exit_code == 0
    assert hb.Result.from_json(Path(tmp_path, "e.json").read_text()).n == 150
    assert Path(tmp_path, "e.csv").read_text().startswith("question,item,people,share,unit,value,stderr,low,high,")
    assert "a crash" in Path(tmp_path, "e.html").read_text()
    page = f"{tmp_path}/report.html"
    assert run("report", plan, f"{tmp_path}/e.json", "-o", page).exit_code == 0
    assert "relay" in Path(page).read_text()
    inspected = run("inspect", mixed, "--plan", plan, "--json")
    assert json.loads(inspected.stdout)["release"] == "strings"


def test_the_rest_is_stated_at_the_level_of_the_intervals(tmp_path: Path, run: Run, plan: str) -> None:
    values, raw, mixed = write(tmp_path, "v.csv"), f"{tmp_path}/raw.hub", f"{tmp_path}/mixed.hub"
    run("randomize", values, "--column", "text", "--plan", plan, "-o", raw)
    run("shuffle", raw, "--plan", plan, "-o", mixed)
    for level in ("0.5", "0.999"):
        other = json.loads(run("estimate", mixed, "--plan", plan, "--level", level, "--json").stdout)["other"]
        shown = run("estimate", mixed, "--plan", plan, "--level", level, "-o", f"{tmp_path}/e.html").stdout
        assert f"{other['low']} to {other['high']} people have another one" in shown
        assert f"{other['low']} to {other['high']} people have another one" in Path(tmp_path, "e.html").read_text()


def test_a_file_of_values_of_another_kind_is_named_as_such(tmp_path: Path, run: Run, plan: str) -> None:
    (tmp_path / "values.json").write_text("[]")
    found = run("randomize", str(tmp_path / "values.json"), "--plan", plan, "-o", str(tmp_path / "raw.hub"))
    assert "the name of the file of values must end in" in found.stderr


def test_plan_frontier_and_explanation(run: Run, plan: str) -> None:
    request = ["--strings", "64", "-n", "1e6", "--epsilon", "1", "--delta", "1e-8"]
    found = run("plan", *request)
    assert found.exit_code != 0
    assert "shuffler-noise" in found.stderr
    table = run("frontier", *request)
    assert "shown 50%" in table.stdout
    row = json.loads(run("frontier", *request, "--json").stdout)["plans"][0]
    assert row["shown"] == {"half": 36, "most": 41}
    assert row["family"] == "strings"
    explained = run("plan", *request, "--trust", "shuffler-noise", "--explain")
    assert "36 people" in explained.stdout
    assert run("verify", plan).exit_code == 0
    account = ["account", "--strings", "64", "-n", "1e6", "--q", "0", "--m", "laplace:2:35", "--release", "strings"]
    assert "6.15e-09" in run(*account, "--epsilon", "1").stdout
    calibrated = ["calibrate", *request, "--q", "0", "--m", "laplace:2:0", "--release", "strings"]
    assert "Laplace(2) + 35" in run(*calibrated).stdout


def test_cut_strings(tmp_path: Path, run: Run) -> None:
    plan, values = str(tmp_path / "plan.json"), tmp_path / "v.jsonl"
    values.write_text('"much too long"\n' * 150)
    request = ["-n", "150", "--epsilon", "2", "--delta", "1e-6", "--trust", "shuffler-noise", "-o", plan]
    assert run("plan", "--strings", "4", "--cut", *request).exit_code == 0
    raw, mixed = str(tmp_path / "raw.hub"), str(tmp_path / "mixed.hub")
    assert run("randomize", str(values), "--plan", plan, "-o", raw).exit_code == 0
    assert run("shuffle", raw, "--plan", plan, "-o", mixed).exit_code == 0
    assert "much…" in run("estimate", mixed, "--plan", plan).stdout


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("text\n" + "x" * 25 + "\n", [], "record 1 must have at most 24 bytes"),
        ("a,b\n1,2\n", [], "choose one by --column"),
        ("a,b\n1,2\n", ["--column", "c"], "--column must be the name of a column of the file"),
        ("a,a\n1,2\n", [], "distinct names"),
        ("", [], "header"),
        ("text\n", [], "at least one record"),
        ("text\nx\n", ["--missing", "none"], "--missing must not be given for strings"),
        ("text\nx\n", ["--other", "none"], "--other must not be given for strings"),
        ("a,b\n1\n", ["--column", "a"], "as many columns"),
    ],
)
def test_bad_values(tmp_path: Path, run: Run, plan: str, text: str, options: list[str], message: str) -> None:
    values = tmp_path / "v.csv"
    values.write_text(text)
    found = run("randomize", str(values), "--plan", plan, *options, "-o", str(tmp_path / "raw.hub"))
    assert found.exit_code != 0
    assert message in found.stderr
    assert "x" * 25 not in found.stderr


def test_invalid_strings_may_be_left_out(tmp_path: Path, run: Run, plan: str) -> None:
    values = tmp_path / "v.jsonl"
    values.write_text('"fine"\n7\n["x"]\n{"a": 1}\nnot json\nnull\n')
    found = run("randomize", str(values), "--plan", plan, "--on-error", "skip", "-o", str(tmp_path / "raw.hub"))
    assert "2 messages of 2 people" in found.stdout
    assert "4 invalid records left out" in found.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--strings", "0", "-n", "10", "--epsilon", "1", "--delta", "1e-6"],
        ["plan", "--strings", "9", "--bits", "3", "-n", "10", "--epsilon", "1", "--delta", "1e-6"],
        ["plan", "--cut", "--bits", "3", "-n", "10", "--epsilon", "1", "--delta", "1e-6"],
        ["plan", "--cut", "--survey", "none.toml", "-n", "10", "--epsilon", "1", "--delta", "1e-6"],
    ],
)
def test_bad_options(run: Run, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_options_that_do_not_apply_to_strings(tmp_path: Path, run: Run, plan: str) -> None:
    values, raw, mixed = write(tmp_path, "v.csv"), str(tmp_path / "raw.hub"), str(tmp_path / "mixed.hub")
    run("randomize", values, "--column", "text", "--plan", plan, "-o", raw)
    run("shuffle", raw, "--plan", plan, "-o", mixed)
    for wrong in (["--simultaneous"], ["--consistent"], ["--shrunk"], ["--question", "x"]):
        assert run("estimate", mixed, "--plan", plan, *wrong).exit_code == 2
    assert run("estimate", mixed, mixed, "--plan", plan).exit_code == 2
    assert run("estimate", raw, "--plan", plan).exit_code != 0
    assert run("joint", mixed, "--plan", plan, "--labels", "a").exit_code != 0
    saved: Any = tmp_path / "e.json"
    assert run("estimate", mixed, "--plan", plan, "-o", str(saved)).exit_code == 0
    other = tmp_path / "f.json"
    other.write_text(saved.read_text())
    assert run("compare", str(saved), str(other)).exit_code == 2


def test_one_message_is_singular(tmp_path: Path, run: Run, plan: str) -> None:
    values, raw, mixed = tmp_path / "v.csv", str(tmp_path / "raw.hub"), str(tmp_path / "mixed.hub")
    values.write_text("text\n" + "a crash\n" * 150)
    assert run("randomize", str(values), "--plan", plan, "-o", raw).stdout.startswith("150 messages of 150 people")
    assert run("shuffle", raw, "--plan", plan, "-o", mixed).stdout.startswith("1 message of 150 people")
