"""Files are written atomically, batches round-trip through every format, and invalid files are rejected."""

import importlib
import io
import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubbub as hb
from hubbub.errors import MissingExtra
from hubbub.io.documents import read_labels, read_schema
from hubbub.io.files import write_atomic, writing
from hubbub.io.reports import inspect_reports, read_reports, write_reports
from hubbub.io.values import read_values
from hubbub.pipeline.reports import Source
from hubbub.pipeline.shuffle import shuffle_blocks
from hubbub.wire.batches import encode, read_blocks

COLOURS = hb.Schema.one_hot(["red", "green", "blue"])


@pytest.fixture
def plan() -> hb.Plan:
    return hb.plan_from(COLOURS, 2, hb.Protocol(0.25), epsilon=3.0)


def reports(plan: hb.Plan, n: int) -> hb.Reports:
    return hb.randomize(hb.Collection.from_values(["red"] * n, COLOURS), plan)


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_text("old")
    with pytest.raises(RuntimeError), writing(str(place)) as file:
        file.write(b"half of the ne")
        raise RuntimeError
    assert place.read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    with writing(str(tmp_path / "out")) as file:
        file.write(b"new")
    (tmp_path / "usual").write_text("")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("point", ["before write", "write", "sync", "rename"])
def test_atomic_writes_survive_every_interruption(point: str, tmp_path: Path) -> None:
    """Before the rename, only the old file exists; afterwards, only the new one."""
    place = tmp_path / "key"
    place.write_bytes(b"old")
    seen = ["before write"]

    def step(name: str) -> None:
        seen.append(name)
        if name == point:
            raise KeyboardInterrupt

    if point == "before write":
        write_atomic(place, b"new", mode=0o600, step=step)
        assert seen[1:] == ["write", "sync", "rename", "folder-sync"]
        assert place.read_bytes() == b"new"
        assert place.stat().st_mode & 0o777 == 0o600
    else:
        with pytest.raises(KeyboardInterrupt):
            write_atomic(place, b"new", mode=0o600, step=step)
        assert place.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [place]


def test_an_error_names_the_requested_file(tmp_path: Path) -> None:
    place = tmp_path / "missing" / "out"
    with pytest.raises(FileNotFoundError) as caught:
        write_atomic(place, b"new")
    assert caught.value.filename == str(place)


SPLIT = hb.plan_from(hb.Schema.one_hot(300), 2, hb.Protocol(0.001, release="bits"), epsilon=30.0)
"""A plan whose payloads have two bytes."""


def randomized(plan: hb.Plan, n: int) -> hb.Reports:
    labels = [plan.schema.labels[i % plan.schema.width] for i in range(n)]
    return hb.randomize(hb.Collection.from_values(labels, plan.schema), plan)


@pytest.mark.parametrize("name", ["batch.hub", "batch.parquet", "batch/", "-"])
@pytest.mark.parametrize("kind", ["reports", "batch", "parts"])
@pytest.mark.parametrize("n", [0, 1, 1000])
@pytest.mark.parametrize("split", [False, True])
def test_batches_round_trip(
    name: str, kind: str, n: int, split: bool, plan: hb.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through files and pipes, in one block or several; ``.hub`` files have the bytes of ``encode``."""
    monkeypatch.setattr("hubbub.io.reports.BLOCK", 300)
    monkeypatch.setattr("hubbub.io.directories.BLOCK", 30)
    if split:
        plan = SPLIT
    sent = randomized(plan, n)
    if n > 1 and kind != "parts":
        sent = hb.shuffle(sent)
    half = len(sent) // 2
    source: Source = sent
    if kind == "batch":
        source = hb.Batch(sent.header, iter([sent.messages[:half], sent.messages[half:]]))
    elif kind == "parts":
        source = [replace(sent, messages=sent.messages[:half], n=0), replace(sent, messages=sent.messages[half:])]
    path = name if name == "-" else f"{tmp_path}/{name}"
    output = io.TextIOWrapper(io.BytesIO())
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", output)
        header = write_reports(path, plan, source)
    written = output.buffer.getvalue() if name == "-" else Path(path).read_bytes() if path[-1] != "/" else b""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written)))
    batch = read_reports(path, plan)
    blocks = list(batch.blocks)
    assert batch.header == header == sent.header
    assert (header.n, header.shuffled) == (n, sent.shuffled)
    assert len(blocks) > 1 or n < 1000
    assert np.array_equal(np.concatenate([sent.messages[:0], *blocks]), sent.messages)
    if name != "-":
        assert inspect_reports(path, plan) == inspect_reports(path) == header
        assert hb.tally(read_reports(path, plan)).counts.tolist() == hb.tally(sent).counts.tolist()
    if name in ("batch.hub", "-"):
        assert written == encode(sent)


def test_shuffled_batches_do_not_make_one_larger_batch(plan: hb.Plan, tmp_path: Path) -> None:
    mixed = hb.shuffle(reports(plan, 5))
    with pytest.raises(hb.InvalidInput, match=r"^the parts of a batch must not be shuffled yet$"):
        write_reports(str(tmp_path / "out.hub"), plan, [mixed, mixed])
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_may_deliver_pieces(plan: hb.Plan) -> None:
    data = encode(reports(plan, 3))
    pieces = iter([bytes([one]) for one in data])
    start, *payloads = read_blocks(lambda _: next(pieces, b""))
    assert start + b"".join(payloads) == data[:-32]


def test_a_batch_is_streamed_from_file_to_file(plan: hb.Plan, tmp_path: Path) -> None:
    """Unshuffled files become one shuffled batch, whose contributors are declared once."""
    paths = [str(tmp_path / f"{i}.hub") for i in range(3)]
    for path in paths:
        write_reports(path, plan, reports(plan, 200))
    mixed = shuffle_blocks((read_reports(path, plan) for path in paths), plan, tempfile.TemporaryFile)
    header = write_reports(paths[0], plan, mixed)
    assert (header.n, header.messages, header.shuffled) == (600, 600, True)
    total = hb.tally(read_reports(paths[0], plan))
    assert (total.n, total.batches, total.smallest_batch) == (600, 1, 600)
    both = total + hb.tally(hb.shuffle(reports(plan, 50)))
    assert (both.n, both.batches, both.smallest_batch) == (650, 2, 50)
    table = hb.joint([read_reports(paths[0], plan), read_reports(paths[1], plan)], plan, ["red"])
    assert table.n == 800


def test_every_damaged_byte_is_detected(plan: hb.Plan, tmp_path: Path) -> None:
    good = encode(reports(plan, 5))
    for place in range(len(good)):
        (tmp_path / "bad.hub").write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        with pytest.raises(hb.InvalidInput):
            list(read_reports(str(tmp_path / "bad.hub"), plan).blocks)


def test_invalid_parquet_files(plan: hb.Plan, tmp_path: Path) -> None:
    path = str(tmp_path / "other.parquet")
    good = write_reports(path, plan, [reports(plan, 5)])
    header = pq.ParquetFile(path).metadata.metadata[b"hubbub"]
    one = pa.array([b"\1"] * 4, pa.binary(1))
    two = pa.array([b"\1\1"] * 5, pa.binary(2))
    for column, values, mark in (
        ("message", one, None),
        ("message", one, {"hubbub": "zz"}),
        ("message", one, {"hubbub": header}),
        ("message", two, {"hubbub": header}),
        ("other", one, {"hubbub": header}),
    ):
        pq.write_table(pa.table({column: values}).replace_schema_metadata(mark), path)
        with pytest.raises(hb.WireError):
            list(read_reports(path, plan).blocks)
    assert good.messages == 5


def test_missing_extras_are_named(plan: hb.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_module = importlib.import_module

    def without(name: str, package: str | None = None) -> ModuleType:
        if name.startswith(("pyarrow", "matplotlib")):
            raise ImportError
        return import_module(name, package)

    estimate = hb.estimate(hb.tally(reports(plan, 5)), plan).question
    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(MissingExtra, match=r"^Parquet needs the extra 'frames'"):
        write_reports(str(tmp_path / "out.parquet"), plan, [reports(plan, 5)])
    with pytest.raises(MissingExtra, match=r"^Plotting needs the extra 'plot': pip install 'hubbub\[plot\]'$"):
        estimate.plot().save(str(tmp_path / "out.svg"))
    assert "red" in estimate._repr_html_()  # the table needs no extra
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"kind": "bits", "labels": "ab", "max_set": 2}',
        '{"kind": "bits", "labels": ["a"], "max_set": 2}',
        '{"kind": "some", "labels": ["a", "b"], "max_set": 2}',
        '{"kind": "at_most", "labels": ["a", "b"], "max_set": 3}',
    ],
)
def test_invalid_schemas(text: str, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(text)
    with pytest.raises(hb.WireError):
        read_schema(str(tmp_path / "schema.json"))


@pytest.mark.parametrize("kind", ["bits", "one_hot"])
def test_valid_schemas(kind: str, tmp_path: Path) -> None:
    schema: hb.Schema = getattr(hb.Schema, kind)(["a", "é"])
    text = f'{{"kind": "{kind}", "labels": ["a", "é"], "max_set": {schema.max_set}}}'
    (tmp_path / "schema.json").write_text(text)
    assert read_schema(str(tmp_path / "schema.json")) == schema


@pytest.mark.parametrize("content", [b"a\n\nb\n", b"\xff\n"])
def test_invalid_labels(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "labels").write_bytes(content)
    with pytest.raises(hb.InvalidInput):
        read_labels(str(tmp_path / "labels"))
    with pytest.raises(hb.InvalidInput):
        read_labels("-")


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("a.csv", "x,x\nred,red\n", None),
        ("a.csv", "x,y\nred,red\n", None),
        ("a.csv", "red,green,blue\n1,0,2\n", None),
        ("a.csv", "red,green,blue\n1,1,0\n", None),
        ("a.csv", 'x\n"red\n', None),
        ("a.jsonl", '{"y": "red"}\n', "x"),
        ("a.jsonl", '["red"]\n', "x"),
        ("a.jsonl", "7\n", None),
        ("a.jsonl", "[" * 100_000 + "\n", None),
    ],
)
def test_invalid_values(name: str, content: str, column: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(hb.InvalidInput):
        list(read_values(str(tmp_path / name), COLOURS, column=column))


@pytest.mark.parametrize(
    ("name", "good", "bad", "wording"),
    [
        ("a.csv", "red", "mauve", "has a label that is not in the schema (3 labels: red, green, …)"),
        ("a.csv", "red", "red,red", "must have as many columns as the header, 1, got 2"),
        ("a.jsonl", '"red"', '"mauve"', "has a label that is not in the schema (3 labels: red, green, …)"),
        ("a.jsonl", '"red"', "7", "must be a label, not int"),
        ("a.jsonl", '"red"', "{", "must be a line of JSON in UTF-8"),
    ],
)
def test_records_are_numbered_within_the_file(name: str, good: str, bad: str, wording: str, tmp_path: Path) -> None:
    """Errors number records within the file, not within a block."""
    header = "x\n" if name.endswith("csv") else ""
    (tmp_path / name).write_text(header + f"{good}\n" * 7 + bad + "\n")
    with pytest.raises(hb.InvalidRecord) as caught:
        list(read_values(str(tmp_path / name), COLOURS, block=3))
    assert caught.value.record == 8
    assert str(caught.value) == f"record 8 {wording}"


def test_cells_of_labels_are_numbered_within_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("red,green,blue\n" + "1,0,0\n" * 7 + "1,0,x\n")
    with pytest.raises(hb.InvalidRecord, match=r"^record 8 \(column 'blue'\) must be 0, 1, true or false"):
        list(read_values(str(tmp_path / "a.csv"), COLOURS, block=3))


def test_standard_input_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    source = io.TextIOWrapper(io.BytesIO(b"x\nred\n"))
    monkeypatch.setattr("sys.stdin", source)
    assert [len(block) for block in read_values("-", COLOURS)] == [1]
    assert not source.buffer.closed
