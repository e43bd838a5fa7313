"""Bad input to the Spark engine gives hubbub's errors, without data in them, in a log, in a plan or in an event."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.conftest import check_installed

import hubbub as hb
from hubbub import spark as hs
from hubbub.errors import WorkerFailure
from hubbub.io.directories import write_directory
from hubbub.io.reports import same_batch
from hubbub.spark import coins, problems, sessions, storage

CANARY = "Kanarienvogel-7316"
STRINGS = hb.plan_from(
    hb.Schema.strings(8), 100, hb.Protocol(0, m=hb.Fakes.laplace(2.0, 35), release="strings"), epsilon=1.0
)
COLOURS = hb.Schema.one_hot(["red", "green", "blue"])
PLAN = hb.plan_from(COLOURS, 100, hb.Protocol(0.2), delta=1e-6)
OTHER = hb.plan_from(COLOURS, 101, hb.Protocol(0.2), delta=1e-6)
TOOLS = hb.plan_from(hb.Schema.bits(["hammer", "saw"]), 100, hb.Protocol(0.2), delta=1e-6)
FEW = hb.plan_from(hb.Schema.at_most(1, ["hammer", "saw"]), 100, hb.Protocol(0.2), delta=1e-6)
SURVEY = hb.plan_from(
    hb.Schema.survey({"dark": hb.Flag(), "load": hb.Number(0, 8, digits=[3, 3])}),
    10,
    hb.Protocol.survey([hb.Noise(m=hb.Fakes.laplace(4.0, 60))] * 3),
    delta=1e-6,
)
KEY = bytes(range(32))
RECORD = hb.InvalidRecord
WRONG = f"if(id = 150, '{CANARY}', 'red')"

FRAMES: dict[str, tuple[hb.Plan, tuple[str, ...], str | None, type[Exception], str]] = {
    "unknown label": (PLAN, (f"{WRONG} as colour",), None, RECORD, r"record 51 \(column 'colour'\) has a label"),
    "null": (PLAN, ("if(id = 3, null, 'red') as colour",), None, RECORD, "record 4 .*must have a value"),
    "unknown in a list": (TOOLS, (f"array({WRONG}) as tools",), None, RECORD, "has a label that is not"),
    "null in a list": (TOOLS, ("array(if(id = 0, null, 'saw')) as tools",), None, RECORD, "has an empty item"),
    "twice in a list": (TOOLS, ("array('saw', 'saw') as tools",), None, RECORD, "has a label twice"),
    "too many": (FEW, ("true as hammer", "true as saw"), None, RECORD, "more labels than max_set = 1"),
    "null cell": (TOOLS, ("if(id = 7, null, true) as hammer", "true as saw"), None, RECORD, "record 8 must be 0, 1"),
    "number 2": (TOOLS, ("2 as hammer", "true as saw"), None, RECORD, "record 1 must be 0, 1"),
    "not a number": (SURVEY, ("true as dark", f"'{CANARY}' as load"), None, RECORD, "must be a number"),
    "null answer": (SURVEY, ("true as dark", "cast(null as double) as load"), None, RECORD, "must have a value"),
    "wrong type": (PLAN, ("current_date() as colour",), None, hb.InvalidInput, "'colour' must have labels"),
    "list for one": (PLAN, ("array('red') as colour",), None, hb.InvalidInput, "'colour' must have labels"),
    "one for list": (TOOLS, ("'saw' as tools",), None, hb.InvalidInput, "'tools' must have lists of labels"),
    "wrong cells": (TOOLS, ("current_date() as hammer", "true as saw"), None, hb.InvalidInput, "have truth values"),
    "wrong answers": (SURVEY, ("true as dark", "true as load"), None, hb.InvalidInput, "'load' must have numbers"),
    "missing column": (PLAN, ("'red' as colour", "id"), "color", hb.InvalidInput, "be the name of a column"),
    "several columns": (PLAN, ("'red' as colour", "id"), None, hb.InvalidInput, "choose one by column"),
    "missing question": (SURVEY, ("true as dark",), None, hb.InvalidInput, "'load' has none"),
    "column of a survey": (SURVEY, ("true as dark", "1 as load"), "load", hb.InvalidInput, "be None for a survey"),
    "same names": (PLAN, ("'red' as colour", "'red' as colour"), "colour", hb.InvalidInput, "distinct names"),
    "empty": (PLAN, ("'red' as colour where id < 0",), None, hb.InvalidInput, "at least one person"),
    "cast": (PLAN, (f"cast({WRONG} as int) as colour",), None, WorkerFailure, "Spark failed"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_bad_frames(spark: Any, tmp_path: Path, name: str) -> None:
    plan, columns, column, kind, text = FRAMES[name]
    frame = spark.range(0, 200, 1, 2)
    if name == "empty":
        frame, columns = frame.where("id < 0"), ("'red' as colour",)
    frame = frame.selectExpr(*columns)
    with pytest.raises(kind, match=text) as caught:
        hs.randomize(frame, plan, tmp_path / "reports", column=column)
    assert type(caught.value) is kind
    assert CANARY not in f"{caught.value!r}{caught.value}{getattr(caught.value, '__notes__', '')}"
    assert not (tmp_path / "reports").exists()
    if name != "empty":
        with pytest.raises(kind, match=text):
            hs.simulate(frame, plan, column=column)


def test_a_record_is_named_with_its_partition(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(hb.InvalidRecord) as caught:
        hs.randomize(spark.range(0, 200, 1, 2).selectExpr(f"{WRONG} as colour"), PLAN, tmp_path / "reports")
    assert caught.value.__notes__ == ["partition 2 of the data frame"]
    assert (caught.value.kind, caught.value.column) == ("unknown", "colour")


def colours(spark: Any, n: int = 200) -> Any:
    return spark.range(0, n, 1, 2).selectExpr("id", "'red' as colour")


def test_existing_output_is_kept(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "mine").write_text("kept")
    with pytest.raises(FileExistsError):
        hs.randomize(colours(spark), PLAN, tmp_path / "reports", column="colour")
    hs.randomize(colours(spark), PLAN, tmp_path / "other", column="colour")
    with pytest.raises(FileExistsError):
        hs.shuffle(spark, tmp_path / "other", PLAN, tmp_path / "reports")
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["mine"]


def test_batches_that_are_not_whole(spark: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "reports", tmp_path / "out"
    hs.randomize(colours(spark), PLAN, path, column="colour")

    def both(kind: type[Exception], text: str, plan: hb.Plan = PLAN, place: Path = path) -> None:
        for call in (lambda: hs.shuffle(spark, place, plan, out), lambda: hs.tally(spark, place, plan)):
            with pytest.raises(kind, match=text):
                call()
        assert not out.exists()

    both(hb.PlanMismatch, "same plan", OTHER)
    both(FileNotFoundError, "No such file", place=tmp_path / "nowhere")
    text = (path / "_hubbub.json").read_text()
    (path / "_hubbub.json").unlink()
    both(hb.WireError, "manifest")
    (path / "_hubbub.json").write_text(text[:-9])
    both(hb.WireError, "checksum")
    (path / "._hubbub.json.crc").unlink()
    both(hb.WireError, "manifest")
    document = json.loads(text)
    (path / "_hubbub.json").write_text(text)
    (path / "part-extra.parquet").write_bytes(b"")
    both(hb.WireError, "0 are missing, 1 not in it")
    (path / "part-extra.parquet").unlink()
    document["parts"][0]["messages"] += 1
    document["messages"] += 1
    document["n"] += 1
    (path / "_hubbub.json").write_text(json.dumps(document))
    with pytest.raises(hb.WireError, match="201 messages of its manifest, got 200"):
        hs.tally(spark, path, PLAN)
    with pytest.raises(hb.WireError, match="200 of 201 were written"):
        hs.shuffle(spark, path, PLAN, out)
    assert not (out / "_hubbub.json").exists()


def test_small_batches_are_not_shuffled(spark: Any, tmp_path: Path) -> None:
    hs.randomize(colours(spark, 99), PLAN, tmp_path / "reports", column="colour")
    with pytest.raises(hb.BatchTooSmall, match="at least 100 people, got 99"):
        hs.shuffle(spark, tmp_path / "reports", PLAN, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(hb.BatchTooSmall, match="at least 100 people, got 99"):
        hs.simulate(colours(spark, 99), PLAN, column="colour")


def test_shuffled_batches_are_not_shuffled_again(spark: Any, tmp_path: Path) -> None:
    hs.randomize(colours(spark), PLAN, tmp_path / "reports", column="colour")
    hs.shuffle(spark, tmp_path / "reports", PLAN, tmp_path / "batch")
    with pytest.raises(hb.InvalidInput, match="not be shuffled yet"):
        hs.shuffle(spark, tmp_path / "batch", PLAN, tmp_path / "out")


def test_runs_of_one_key_are_not_joined(spark: Any, tmp_path: Path) -> None:
    """They have the same fixed fakes, and perhaps the same people."""
    for name in ("one", "two"):
        hs.randomize(colours(spark), PLAN, tmp_path / name, column="colour", key=bytes(32))
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    for paths in ([one, two], [one, one], [one, f"{tmp_path}/./one"], [one, f"file:{one}"]):
        with pytest.raises(hb.InvalidInput, match="different runs"):
            hs.shuffle(spark, paths, PLAN, tmp_path / "out")
    assert same_batch(one, two)
    hs.randomize(colours(spark), PLAN, tmp_path / "other", column="colour")
    assert not same_batch(one, str(tmp_path / "other"))
    assert hs.shuffle(spark, [one, str(tmp_path / "other")], PLAN, tmp_path / "out").n == 400


def test_a_batch_of_the_local_engine_is_not_joined_with_itself(spark: Any, tmp_path: Path) -> None:
    people = hb.Collection.from_values(["red"] * 200, COLOURS)
    write_directory(tmp_path / "local", PLAN, hb.randomize(people, PLAN))
    with pytest.raises(hb.InvalidInput, match="different people"):
        hs.shuffle(spark, [str(tmp_path / "local"), f"{tmp_path}/./local"], PLAN, tmp_path / "out")


def test_a_task_outside_spark_has_no_coins() -> None:
    check_installed()
    with pytest.raises(WorkerFailure, match="must run in Spark"):
        coins.partition()


def test_a_person_in_two_rows_is_found(spark: Any, tmp_path: Path) -> None:
    frame = colours(spark)
    assert hs.randomize(frame, PLAN, tmp_path / "reports", column="colour", person="id").n == 200
    double = frame.selectExpr("id div 2 as id", "colour")
    for call in (
        lambda: hs.randomize(double, PLAN, tmp_path / "other", column="colour", person="id"),
        lambda: hs.simulate(double, PLAN, column="colour", person="id"),
    ):
        with pytest.raises(hb.InvalidInput, match="200 rows have 100 people"):
            call()
    with pytest.raises(hb.InvalidInput, match="some rows have none"):
        hs.simulate(frame.selectExpr("nullif(id, 3) as id", "colour"), PLAN, column="colour", person="id")


def test_damaged_messages_are_found(spark: Any, tmp_path: Path) -> None:
    """Messages that no client of the plan sends raise WireError from the tasks."""
    from hubbub.io.directories import Manifest, Part

    path = tmp_path / "reports"
    spark.sql("select cast(200 as long) as count, repeat('x', 200) as text").selectExpr(
        "count", "cast(text as binary) as messages"
    ).write.option("compression", "uncompressed").parquet(str(path))
    (name,) = [one.name for one in path.iterdir() if one.name.startswith("part-")]
    Manifest.of(PLAN, [Part(name=name, rows=1, messages=200)], n=200).write(path)
    for call in (lambda: hs.tally(spark, path, PLAN), lambda: hs.shuffle(spark, path, PLAN, tmp_path / "out")):
        with pytest.raises(hb.WireError, match="payload 1 must have zero padding bits"):
            call()


ARGUMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("randomize", {"frame": [1]}, "frame must be a data frame of Spark, not list"),
    ("randomize", {"plan": 3}, "plan must be of type Plan"),
    ("randomize", {"plan": STRINGS}, "plan must not be one for strings"),
    ("shuffle", {"plan": STRINGS}, "plan must not be one for strings"),
    ("tally", {"plan": STRINGS}, "plan must not be one for strings"),
    ("simulate", {"plan": STRINGS}, "plan must not be one for strings"),
    ("randomize", {"path": 3}, "path must be the path of a directory, not int"),
    ("randomize", {"path": ""}, "path must be the path of a directory"),
    ("randomize", {"path": "a*b"}, "path must have none of the characters"),
    ("randomize", {"column": 3}, "column must be of type str"),
    ("randomize", {"person": 3}, "person must be of type str"),
    ("randomize", {"person": "nobody"}, "person must be the name of a column"),
    ("randomize", {"key": b"short"}, "key must be 32 secret bytes"),
    ("randomize", {"key": "x" * 32}, "key must be 32 secret bytes"),
    ("shuffle", {"spark": None}, "spark must be a session of Spark, not None"),
    ("shuffle", {"path": []}, "path must be the path of a directory, or a list"),
    ("shuffle", {"path": [3]}, "path must be the path of a directory, not int"),
    ("shuffle", {"plan": None}, "plan must be of type Plan"),
    ("shuffle", {"out": 3}, "out must be the path of a directory"),
    ("shuffle", {"files": 0}, r"files must be a whole number in \[1, 65,536\]"),
    ("shuffle", {"files": 2.0}, "files must be a whole number"),
    ("shuffle", {"rows": 1}, "rows must be True or False"),
    ("shuffle", {"key": b""}, "key must be 32 secret bytes"),
    ("tally", {"spark": 3}, "spark must be a session of Spark, not int"),
    ("tally", {"path": None}, "path must be the path of a directory, not None"),
    ("tally", {"plan": "x"}, "plan must be of type Plan"),
    ("simulate", {"frame": None}, "frame must be a data frame of Spark, not None"),
    ("simulate", {"plan": None}, "plan must be of type Plan"),
    ("simulate", {"column": b"x"}, "column must be of type str"),
    ("simulate", {"person": 3}, "person must be of type str"),
    ("session", {"master": ""}, "master must be the address of a Spark master"),
    ("session", {"master": 3}, "master must be the address of a Spark master"),
    ("session", {"settings": ["x"]}, "settings must be a mapping"),
    ("session", {"settings": {"spark.x": 3}}, "the setting spark.x must be of type str"),
]


@pytest.mark.parametrize(("verb", "changed", "text"), ARGUMENTS)
def test_bad_arguments(spark: Any, tmp_path: Path, verb: str, changed: dict[str, Any], text: str) -> None:
    good: dict[str, dict[str, Any]] = {
        "randomize": {"frame": colours(spark), "plan": PLAN, "path": tmp_path / "x", "column": "colour"},
        "shuffle": {"spark": spark, "path": tmp_path / "x", "plan": PLAN, "out": tmp_path / "y"},
        "tally": {"spark": spark, "path": tmp_path / "x", "plan": PLAN},
        "simulate": {"frame": colours(spark), "plan": PLAN, "column": "colour"},
        "session": {},
    }
    with pytest.raises(hb.InvalidInput, match=text):
        getattr(hs, verb)(**good[verb] | changed)
    assert list(tmp_path.iterdir()) == []


def test_a_stream_is_rejected(spark: Any) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("'red' as colour")
    with pytest.raises(hb.InvalidInput, match="not be a stream"):
        hs.simulate(stream, PLAN)


class Settings:
    """A session with settings of a cluster, of which only these are read."""

    def __init__(self, version: str = "4.1.0", **settings: str) -> None:
        self.version, self.conf = version, {name.replace("_", "."): value for name, value in settings.items()}


Settings.__name__, Settings.__module__ = "SparkSession", "pyspark.sql.session"
CLUSTER = {"spark_master": "spark://host:7077"}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"version": "4.0.2"}, "4.1 or newer, got '4.0.2'"),
        (CLUSTER, "spark.network.crypto.enabled"),
        (CLUSTER | {"spark_network_crypto_enabled": "true"}, "spark.io.encryption.enabled"),
        (CLUSTER | {"spark_io_encryption_enabled": "true"}, "spark.network.crypto.enabled"),
    ],
)
def test_clusters_without_encryption_are_rejected(settings: dict[str, str], text: str) -> None:
    with pytest.raises(hb.InvalidInput, match=text):
        sessions.check_session(Settings(**settings))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spark_master": "local[2]", "version": "5.0.0"},
        CLUSTER | {"spark_network_crypto_enabled": "true", "spark_io_encryption_enabled": "true"},
        CLUSTER | {"spark_ssl_rpc_enabled": "true", "spark_io_encryption_enabled": "true"},
        CLUSTER | {"spark_hubbub_encrypted": "elsewhere"},
    ],
)
def test_sessions_that_are_accepted(settings: dict[str, str]) -> None:
    sessions.check_session(Settings(**settings))


def test_paths_of_connect_are_local() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    assert isinstance(storage.file_system(remote, "file:///tmp/x"), storage.Local)
    with pytest.raises(hb.InvalidInput, match="client and server share"):
        storage.file_system(remote, "s3a://bucket/x")


def failing(error: Exception) -> Any:
    @problems.reporting
    def task() -> Any:
        yield 1
        raise error

    return task


@pytest.mark.parametrize(
    "error",
    [
        hb.InvalidRecord(7, "has a label", "colour", "unknown"),
        hb.WireError("payload 3 must be smaller"),
        hb.BatchTooSmall("a batch must have more"),
    ],
)
def test_errors_of_tasks_are_restored(error: hb.HubbubError) -> None:
    error.add_note("partition 3")
    with pytest.raises(problems.TaskFailure) as caught:
        list(failing(error)())
    restored = problems._unwrapped(Exception(f"org.apache.spark…\n {caught.value}\n at java"))
    assert type(restored) is type(error)
    assert (str(restored), restored.__notes__) == (str(error), ["partition 3"])


def test_other_errors_of_tasks_lose_their_text() -> None:
    with pytest.raises(problems.TaskFailure) as caught:
        list(failing(ValueError(CANARY))())
    assert CANARY not in str(caught.value)
    assert "ValueError" in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_worker_without_hubbub_is_explained() -> None:
    found = problems._unwrapped(Exception("… ModuleNotFoundError: No module named 'hubbub' …"))
    assert "PYSPARK_PYTHON" in str(found)


SCRIPT = """
import sys
import hubbub as hb
from hubbub import spark as hs
from hubbub.spark import engine
folder, canary = sys.argv[1:]
key = bytes(range(32))
spark = hs.session("local[2]", {
    "spark.log.level": "INFO", "spark.eventLog.enabled": "true", "spark.eventLog.dir": "file://" + folder + "/events",
    "spark.eventLog.compress": "false",
})
values = spark.read.parquet(folder + "/values")
plan = hb.plan_from(hb.Schema.one_hot(["red", canary]), 100, hb.Protocol(0.2, m=9), delta=1e-6)
other = hb.plan_from(hb.Schema.one_hot(["red", "blue"]), 100, hb.Protocol(0.2, m=9), delta=1e-6)
engine.reports_of(values, plan, None, key).explain("extended")
hs.randomize(values, plan, folder + "/reports", key=key)
hs.shuffle(spark, folder + "/reports", plan, folder + "/batch", key=key)
hs.tally(spark, folder + "/batch", plan)
hs.simulate(values, plan)
for verb in (lambda: hs.randomize(values, other, folder + "/wrong"), lambda: hs.simulate(values, other)):
    try:
        verb()
    except hb.InvalidRecord as error:
        print(error)
spark.stop()
"""


def test_values_and_keys_are_in_no_log_plan_or_event(tmp_path: Path) -> None:
    """A planted value that is also a label, so that the plan holds it, appears in nothing that Spark keeps."""
    check_installed()
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "events").mkdir()
    (tmp_path / "values").mkdir()
    pq.write_table(
        pa.table({"colour": ["red", CANARY] * 100}), tmp_path / "values" / "part-0.parquet", write_statistics=False
    )
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), CANARY]
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ, timeout=300)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    assert b"MapInArrow" in said
    assert said.count(b"has a label that is not in the schema") > 2
    events = b"".join(path.read_bytes() for path in (tmp_path / "events").rglob("*") if path.is_file())
    assert b"SparkListenerJobEnd" in events
    forms = [
        CANARY.encode(),
        KEY,
        KEY.hex().encode(),
        base64.b64encode(KEY),
        str(list(KEY)).encode(),
        repr(KEY).encode(),
    ]
    for kept in (said, events):
        assert not any(form in kept for form in forms)
    # Control: the same search finds a word that is there.
    assert b"colour" in events
