"""``hubbub results``: the results of an analyzer in every format, ordered, with gaps and withheld batches named."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from tests.cli.conftest import call
from tests.service.sockets import served
from tests.service.system import System

from hubbub.errors import Problem
from hubbub.service.analyzer.http import results_app
from hubbub.service.reader import COLUMNS
from hubbub.service.runtime.http import App, routed
from hubbub.service.runtime.server import Listener

TASK, OTHER = "aa" * 16, "bb" * 16
FIRST: dict[str, Any] = {
    "batch": "01" * 16,
    "task": TASK,
    "bucket": 1,
    "epoch": 100,
    "start": 1_893_628_800,
    "end": 1_894_233_600,
    "released": 1_894_233_600,
    "state": "committed",
    "people": 1050,
    "table": {
        "item": ["red", "[bold]green"],
        "unit": ["people", "people"],
        "value": [700.25, 350.0],
        "low": [650.0, 300.0],
        "high": [750.0, 400.0],
    },
    "guarantee": {"epsilon": 0.5, "delta": 1e-6},
    "round": 1,
    "spent": {"rounds": 1, "epsilon": 0.5, "delta": 1e-5},
    "total": {"rounds": 52, "epsilon": 2.75, "delta": 1e-5},
}
WITHHELD = {"batch": "02" * 16, "bucket": 4, "epoch": 104, "state": "withheld", "reason": "fewer than 1000 clients"}
LATEST = {**FIRST["table"], "value": [1.0, 2.0], "low": [0.0, 0.0]}
NEWEST = {**FIRST, "batch": "03" * 16, "bucket": 5, "epoch": 105, "table": LATEST}
GAP = {"first": 2, "last": 3, "bundles": 1200, "reason": "restored"}
BATCHES = {str(one["batch"]): one for one in (NEWEST, WITHHELD, FIRST)}


def analyzer(batches: dict[str, Any], gaps: list[Any]) -> App:
    """Return an analyzer that lists its batches in no particular order."""

    async def tasks(request: Request) -> Response:
        if request.headers.get("authorization") != "Bearer secret":
            raise Problem("unauthorized")
        return Response(json.dumps({"tasks": [TASK]}))

    async def listed(request: Request) -> Response:
        if request.path_params["task"] != TASK:
            raise Problem("forbidden")
        return Response(json.dumps({"batches": [{"batch": name} for name in batches], "gaps": gaps}))

    async def batch(request: Request) -> Response:
        return Response(json.dumps(batches[request.path_params["batch"]]))

    async def page(request: Request) -> Response:
        return Response(b"<html>")

    of_tasks = [("GET", "/v1/tasks", tasks), ("GET", "/v1/tasks/{task}/batches", listed)]
    return routed([*of_tasks, ("GET", "/v1/batches/{batch}", batch), ("GET", "/page/v1/tasks", page)])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(Listener("results", analyzer(BATCHES, [GAP]), "127.0.0.1:0")) as address:
        yield address


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text("secret\n")
    return tmp_path


def test_a_table_is_ordered_and_names_gaps(url: str) -> None:
    result = call("results", url, "--token", "token")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    buckets = [line.split()[0] for line in lines if " committed " in line or " withheld " in line]
    assert buckets == ["1", "4", "5"]
    assert f"task {TASK}" in result.stdout
    assert "fewer than 1000 clients" in result.stdout
    assert "gap: buckets 2 to 3 are missing or incomplete (1,200 bundles discarded): restored" in result.stdout
    assert "estimates of bucket 5" in result.stdout
    (first,) = [line.split() for line in lines if line.split()[:1] == ["1"]]
    dates = ["2030-01-03", "00:00", "2030-01-10", "00:00"]
    assert first == ["1", "1/52", *dates, "committed", "1,050", "0.5", "1e-06", "0.5", "2.75"]
    assert result.stdout.index("[bold]green") < result.stdout.rindex("red")
    short = call("results", url, "--token", "token", "--top", "1").stdout
    assert "1 of 2 labels" in short
    assert "red  " not in short


def test_a_task_without_batches_and_a_gap_with_a_result_are_explained() -> None:
    with served(Listener("results", analyzer({}, []), "127.0.0.1:0")) as address:
        assert "No batch yet: " in call("results", address, "--token", "token").stdout
    gap = {**GAP, "first": 1, "last": 1, "counted": 1}
    with served(Listener("results", analyzer(BATCHES, [gap]), "127.0.0.1:0")) as address:
        result = call("results", address, "--token", "token")
    assert "(1,200 bundles discarded): restored; its result stands" in " ".join(result.stdout.split())


def test_csv_has_a_row_per_batch_and_label(url: str, folder: Path) -> None:
    assert call("results", url, "--token", "token", "-o", "out.csv").exit_code == 0
    rows = list(csv.DictReader(io.StringIO((folder / "out.csv").read_text())))
    assert list(rows[0]) == list(COLUMNS)
    assert [(row["bucket"], row["state"], row["item"], row["value"]) for row in rows] == [
        ("1", "committed", "red", "700.25"),
        ("1", "committed", "[bold]green", "350.0"),
        ("2", "gap", "", ""),
        ("4", "withheld", "", ""),
        ("5", "committed", "red", "1.0"),
        ("5", "committed", "[bold]green", "2.0"),
    ]
    assert (rows[0]["task"], rows[0]["epsilon"], rows[0]["low"], rows[0]["epoch"]) == (TASK, "0.5", "650.0", "100")
    assert [row["start"] for row in rows[1:3]] == ["2030-01-03T00:00:00Z", ""]
    assert [row["end"] for row in rows[1:3]] == [row["released"] for row in rows[1:3]] == ["2030-01-10T00:00:00Z", ""]
    spent = [rows[0][name] for name in ("round", "spent_epsilon", "total_epsilon", "total_delta")]
    assert spent == ["1", "0.5", "2.75", "1e-05"]
    assert rows[2]["reason"] == "buckets 2 to 3 are missing or incomplete (1,200 bundles discarded): restored"
    assert call("results", url, "--token", "token", "--format", "csv").stdout == (folder / "out.csv").read_text()


def test_parquet_has_the_rows_of_the_csv(url: str, folder: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert call("results", url, "--token", "token", "--task", TASK, "-o", "out.parquet").exit_code == 0
    table = parquet.read_table(folder / "out.parquet")
    assert table.column_names == list(COLUMNS)
    assert table.column("bucket").to_pylist() == [1, 1, 2, 4, 5, 5]
    assert table.column("round").to_pylist() == [1, 1, None, None, 1, 1]
    assert table.column("total_epsilon").to_pylist() == [2.75, 2.75, None, None, 2.75, 2.75]
    assert table.column("high").to_pylist() == [750.0, 400.0, None, None, 750.0, 400.0]


def test_json_has_everything_that_the_analyzer_states(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_TOKEN", "secret")
    result = call("results", url, "--format", "json")
    (task,) = json.loads(result.stdout)["tasks"]
    assert task == {"task": TASK, "results": [FIRST, WITHHELD, NEWEST], "gaps": [GAP]}
    assert call("results", url, "-o", "out.json").exit_code == 0
    assert (folder / "out.json").read_text() == result.stdout


def test_results_without_the_optional_fields(folder: Path) -> None:
    bare = {"batch": "01" * 16, "state": "committed", "guarantee": {"epsilon": "inf", "delta": 0.0}}
    with served(Listener("results", analyzer({str(bare["batch"]): bare}, []), "127.0.0.1:0")) as address:
        table = call("results", address, "--token", "token")
        assert table.exit_code == 0, table.stderr
        assert "inf" in table.stdout
        text = call("results", address, "--token", "token", "--format", "csv").stdout
    assert text.splitlines()[1] == f"{TASK},,,,,,,{'01' * 16},committed,,,,,,,,,,,,inf,0.0,,,,"


def test_refusals_are_reported(url: str, folder: Path) -> None:
    (folder / "wrong").write_text("wrong")
    refused = call("results", url, "--token", "wrong", "-o", "out.csv")
    assert (refused.exit_code, refused.stdout) == (5, "")
    assert f"error: the analyzer at {url} refused the request: A bearer token is required." in refused.stderr
    assert "wrong" not in refused.stderr
    forbidden = call("results", url, "--token", "token", "--task", OTHER, "-o", "out.csv")
    assert "The token does not allow this." in forbidden.stderr
    missing = call("results", url + "/page", "--token", "token", "-o", "out.csv")
    assert missing.exit_code == 4
    assert "must be a JSON object" in missing.stderr
    assert not (folder / "out.csv").exists()


def test_results_of_an_analyzer(folder: Path) -> None:
    system = System(folder)
    client = system.client
    system.upload(*(client.seal("1") for _ in range(100)))
    system.next_epoch()
    system.deliver()
    (folder / "token").write_text(system.analyzer.store.add_token("all", "read:*", now=0, expires=1e12))
    with served(Listener("results", results_app(system.analyzer), "127.0.0.1:0")) as address:
        text = call("results", address, "--token", "token", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {(row["task"], row["state"], row["n"]) for row in rows} == {(system.contract.id, "committed", "100")}
    assert [row["item"] for row in rows] == [str(one) for one in range(8)]
    assert max(rows, key=lambda row: float(row["value"]))["item"] == "1"
    system.shut()
