"""Files are there completely or not at all, and wrong ones are refused before anything is believed."""

import importlib
import io
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubbub as hb
from hubbub.io.documents import read_labels, read_schema
from hubbub.io.files import writing
from hubbub.io.reports import inspect_reports, read_reports, write_reports
from hubbub.io.values import read_values
from hubbub.wire.batches import encode

COLOURS = hb.Schema.one_hot(["red", "green", "blue"])


@pytest.fixture
def plan() -> hb.Plan:
    return hb.plan_from(COLOURS, 2, hb.Protocol(0.25), epsilon=3.0)


def reports(plan: hb.Plan, n: int) -> hb.Reports:
    return hb.randomize(hb.Collection.from_values(["red"] * n, COLOURS), plan)


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_text("old")
    with pytest.raises(RuntimeError), writing(str(place)) as file:
        file.write(b"half of the ne")
        raise RuntimeError
    assert place.read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


def test_a_new_file_has_the_rights_of_any(tmp_path: Path) -> None:
    with writing(str(tmp_path / "out")) as file:
        file.write(b"new")
    (tmp_path / "usual").write_text("")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("name", ["batch.hub", "batch.parquet"])
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_batches_come_back(name: str, n: int, plan: hb.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several blocks: the first declares the people, and the file is the one that encode makes in one piece."""
    monkeypatch.setattr("hubbub.io.reports.BLOCK", 300)
    sent = reports(plan, n)
    path = str(tmp_path / name)
    header = write_reports(path, plan, [sent])
    blocks = list(read_reports(path, plan))
    assert (header.messages, header.n) == (n, n)
    assert [block.n for block in blocks] == [n] + [0] * (len(blocks) - 1)
    assert np.array_equal(np.concatenate([block.messages for block in blocks]), sent.messages)
    assert inspect_reports(path, plan) == inspect_reports(path) == header
    if name.endswith("hub"):
        assert Path(path).read_bytes() == encode(sent)


def test_every_damaged_byte_is_found(plan: hb.Plan, tmp_path: Path) -> None:
    good = encode(reports(plan, 5))
    for place in range(len(good)):
        (tmp_path / "bad.hub").write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        with pytest.raises(hb.InvalidInput):
            list(read_reports(str(tmp_path / "bad.hub"), plan))


def test_parquet_of_others(plan: hb.Plan, tmp_path: Path) -> None:
    path = str(tmp_path / "other.parquet")
    good = write_reports(path, plan, [reports(plan, 5)])
    header = pq.ParquetFile(path).schema_arrow.metadata[b"hubbub"]
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
            list(read_reports(path, plan))
    assert good.messages == 5


def test_extras_are_asked_for(plan: hb.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = importlib.import_module

    def without(name: str, package: str | None = None) -> ModuleType:
        if name.startswith(("pyarrow", "matplotlib")):
            raise ImportError
        return usual(name, package)

    found = hb.estimate(hb.tally(reports(plan, 5)), plan)
    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(hb.InvalidInput, match="extra 'arrow'"):
        write_reports(str(tmp_path / "out.parquet"), plan, [reports(plan, 5)])
    with pytest.raises(hb.InvalidInput, match=r"^Plotting needs the extra 'plot': pip install 'hubbub\[plot\]'$"):
        found.plot().save(str(tmp_path / "out.svg"))
    assert "red" in found._repr_html_()  # the table needs no extra
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
def test_illegal_schemas(text: str, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(text)
    with pytest.raises(hb.WireError):
        read_schema(str(tmp_path / "schema.json"))


@pytest.mark.parametrize("kind", ["bits", "one_hot"])
def test_legal_schemas(kind: str, tmp_path: Path) -> None:
    schema: hb.Schema = getattr(hb.Schema, kind)(["a", "é"])
    text = f'{{"kind": "{kind}", "labels": ["a", "é"], "max_set": {schema.max_set}}}'
    (tmp_path / "schema.json").write_text(text)
    assert read_schema(str(tmp_path / "schema.json")) == schema


@pytest.mark.parametrize("content", [b"a\n\nb\n", b"\xff\n"])
def test_illegal_labels(content: bytes, tmp_path: Path) -> None:
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
def test_illegal_values(name: str, content: str, column: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(hb.InvalidInput):
        list(read_values(str(tmp_path / name), COLOURS, column=column))


def test_the_place_is_that_in_the_file(tmp_path: Path) -> None:
    """Not that in the block."""
    (tmp_path / "a.csv").write_text("x\n" + "red\n" * 7 + "mauve\n")
    with pytest.raises(hb.InvalidInput, match=r"^record 8 must be a label of the schema, got 'something else'$"):
        list(read_values(str(tmp_path / "a.csv"), COLOURS, block=3))


def test_standard_input_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    source = io.TextIOWrapper(io.BytesIO(b"x\nred\n"))
    monkeypatch.setattr("sys.stdin", source)
    assert [len(block) for block in read_values("-", COLOURS)] == [1]
    assert not source.buffer.closed
