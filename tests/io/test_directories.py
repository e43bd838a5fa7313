"""Batches in directories of Parquet: the manifest decides what a batch is, and everything else is refused."""

import dataclasses
import gc
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubbub as hb
from hubbub.accountant.overflow import with_overflow
from hubbub.io.directories import MANIFEST, Manifest, Part, read_directory, write_directory
from hubbub.io.reports import inspect_reports, same_batch, write_reports

COLOURS = hb.Schema.one_hot(["red", "green", "blue"])
PLAN = hb.plan_from(COLOURS, 2, hb.Protocol(0.25), epsilon=3.0)
OTHER = hb.plan_from(COLOURS, 3, hb.Protocol(0.25), epsilon=3.0)
SPLIT = hb.plan_from(hb.Schema.one_hot(300), 2, hb.Protocol(0.001, release="bits"), epsilon=30.0)


def reports(n: int = 1000, plan: hb.Plan = PLAN) -> hb.Reports:
    return hb.shuffle(hb.randomize(hb.Collection.from_values(np.arange(n) % plan.schema.width, plan.schema), plan))


def read(path: Path, plan: hb.Plan = PLAN) -> np.ndarray:
    return np.concatenate(list(read_directory(path, plan).blocks))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks and parts small, so that a thousand messages need several."""
    monkeypatch.setattr("hubbub.io.directories.BLOCK", 30)
    monkeypatch.setattr("hubbub.io.directories.PART", 300)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("plan", [PLAN, SPLIT], ids=["records", "bits"])
def test_a_directory_has_parts_and_a_manifest(rows: bool, plan: hb.Plan, tmp_path: Path, small: None) -> None:
    sent = reports(plan=plan)
    folder = tmp_path / "batch"
    manifest = write_directory(folder, plan, sent, rows=rows)
    assert manifest == Manifest.read(folder)
    assert manifest.header == sent.header == read_directory(folder, plan).header
    names = sorted(file.name for file in folder.iterdir())
    assert names == [MANIFEST, *(f"part-{i:05}.parquet" for i in range(len(manifest.parts)))]
    assert len(manifest.parts) > 2
    assert np.array_equal(read(folder, plan), sent.messages)
    for part in manifest.parts:
        file = pq.ParquetFile(folder / part.name)
        assert file.schema_arrow.names == ["message" if rows else "messages"]
        assert file.schema_arrow.field(0).metadata[b"hubbub_plan"] == plan.id.encode()
        assert file.metadata.num_rows == part.rows
        assert (part.rows == part.messages) == rows
        column = file.metadata.row_group(0).column(0)
        assert (column.compression, column.has_dictionary_page, column.statistics) == ("UNCOMPRESSED", False, None)


def test_rows_are_messages_for_sql(tmp_path: Path) -> None:
    sent = reports(10)
    write_directory(tmp_path / "batch", PLAN, sent, rows=True)
    table = pq.read_table(tmp_path / "batch")
    assert table.column("message").to_pylist() == [bytes(row) for row in sent.messages]


def test_parts_of_other_engines_are_read(tmp_path: Path) -> None:
    """Spark names parts differently, knows no digest, adds columns, writes empty parts, and has other metadata."""
    sent, folder = reports(6), tmp_path / "batch"
    folder.mkdir()
    mark = {"fields": [{"name": "messages", "type": "binary", "metadata": {"hubbub_plan": PLAN.id}}]}
    metadata = {"org.apache.spark.sql.parquet.row.metadata": json.dumps(mark)}
    parts = []
    for number, data in enumerate((sent.messages[:4], sent.messages[:0], sent.messages[4:])):
        blocks = [data[i : i + 1].tobytes() for i in range(len(data))]
        table = pa.table({"n": pa.array([1] * len(data)), "messages": pa.array(blocks, pa.binary())})
        name = f"part-{number:05}-d2a3.c000.parquet"
        pq.write_table(table.replace_schema_metadata(metadata), folder / name)
        parts.append(Part(name=name, rows=len(data), messages=len(data)))
    (folder / "_SUCCESS").touch()
    (folder / f".{parts[0].name}.crc").touch()
    Manifest.of(PLAN, parts, n=6, shuffled=True).write(folder)
    assert np.array_equal(read(folder), sent.messages)


def test_no_manifest_no_batch(tmp_path: Path) -> None:
    write_directory(tmp_path / "batch", PLAN, reports())
    (tmp_path / "batch" / MANIFEST).unlink()
    with pytest.raises(hb.WireError, match=r"must have the manifest _hubbub\.json, which is written last"):
        read_directory(tmp_path / "batch", PLAN)
    with pytest.raises(FileNotFoundError):
        read_directory(tmp_path / "none", PLAN)


def test_an_existing_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "batch").mkdir()
    with pytest.raises(FileExistsError):
        write_directory(tmp_path / "batch", PLAN, reports())
    with pytest.raises(FileExistsError):
        write_reports(str(tmp_path / "batch"), PLAN, reports())
    manifest = write_directory(tmp_path / "new", PLAN, reports())
    with pytest.raises(FileExistsError):
        manifest.write(tmp_path / "new")


def test_a_failure_leaves_nothing(tmp_path: Path, small: None) -> None:
    def broken() -> Iterator[hb.Reports]:
        yield hb.randomize(hb.Collection.from_values(["red"] * 1000, COLOURS), PLAN)
        assert (tmp_path / "batch").is_dir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_directory(tmp_path / "batch", PLAN, broken())
    with pytest.raises(hb.InvalidInput, match="must not be shuffled yet"):
        write_directory(tmp_path / "batch", PLAN, [reports(), reports()])
    with pytest.raises(hb.PlanMismatch):
        write_directory(tmp_path / "batch", OTHER, reports())
    short = hb.Batch(reports(5).header, iter([reports(4).messages]))
    with pytest.raises(hb.InvalidInput, match="must have the 5 messages of its header, got 4"):
        write_directory(tmp_path / "batch", PLAN, short)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["batch/", "batch.parquet", "batch.hub"])
def test_a_failure_is_silent(name: str, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: an abandoned writer of Arrow tried to finish its closed file, and complained on standard error."""
    monkeypatch.setattr("hubbub.io.reports.BLOCK", 30)
    complaints: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", complaints.append)

    def broken() -> Iterator[hb.Reports]:
        for _ in range(3):
            yield hb.randomize(hb.Collection.from_values(["red"] * 1000, COLOURS), PLAN)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_reports(f"{tmp_path}/{name}", PLAN, broken())
    gc.collect()
    assert complaints == []
    assert list(tmp_path.iterdir()) == []


def edited(**changes: object) -> Callable[[Path], None]:
    """Return a function that changes entries of a manifest."""

    def edit(folder: Path) -> None:
        document = json.loads((folder / MANIFEST).read_text())
        (folder / MANIFEST).write_text(json.dumps(document | changes))

    return edit


def flip(folder: Path, name: str = "part-00001.parquet", place: int = 200) -> None:
    data = bytearray((folder / name).read_bytes())
    data[place] ^= 1
    (folder / name).write_bytes(data)


def truncate(folder: Path) -> None:
    data = (folder / "part-00001.parquet").read_bytes()
    (folder / "part-00001.parquet").write_bytes(data[: len(data) // 2])


def swap(folder: Path) -> None:
    """Exchange two parts with equal numbers of rows."""
    (folder / "part-00000.parquet").rename(folder / "spare")
    (folder / "part-00001.parquet").rename(folder / "part-00000.parquet")
    (folder / "spare").rename(folder / "part-00001.parquet")


def replace_part(table: pa.Table, plan: str | None = PLAN.id) -> Callable[[Path], None]:
    """Return a function that replaces a part by another table."""

    def change(folder: Path) -> None:
        fields = [field.with_metadata({"hubbub_plan": plan} if plan else {}) for field in table.schema]
        pq.write_table(table.cast(pa.schema(fields)), folder / "part-00001.parquet")

    return change


BLOCKS = [b"\1" * 30] * 16
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing part": (lambda folder: (folder / "part-00001.parquet").unlink(), "part-00001.parquet is missing"),
    "extra part": (lambda folder: shutil.copy(folder / "part-00001.parquet", folder / "part-9.parquet"), "not in it"),
    "extra file": (lambda folder: (folder / "answers.csv").touch(), "answers.csv is not in it"),
    "truncated part": (truncate, "damaged or not a Parquet file"),
    "changed byte": (flip, "damaged or not a Parquet file"),
    "swapped parts": (swap, "must have the SHA-256 of the manifest"),
    "other messages": (replace_part(pa.table({"messages": BLOCKS})), "must have the SHA-256"),
    "other rows": (replace_part(pa.table({"messages": BLOCKS[:9]})), "must have the 16 rows of the manifest, got 9"),
    "fewer messages": (replace_part(pa.table({"messages": [b"\1"] * 16})), "the 480 messages of the manifest, got 16"),
    "null block": (replace_part(pa.table({"messages": [*BLOCKS[:15], None]})), "must not be null"),
    "text": (replace_part(pa.table({"messages": ["a"] * 16})), "must be binary values"),
    "other column": (replace_part(pa.table({"x": BLOCKS})), "must have the column 'messages'"),
    "other plan": (replace_part(pa.table({"messages": BLOCKS}), OTHER.id), "must belong to the same plan"),
    "no plan": (replace_part(pa.table({"messages": BLOCKS}), None), "must belong to the same plan"),
    "other format": (edited(format="hubbub-reports-2"), "must be 'hubbub-reports-1'"),
    "other total": (edited(messages=999), "parts must have the 999 messages of the batch, got 1000"),
    "unknown key": (edited(extra=1), "exactly the keys"),
    "no release": (edited(release="clear"), "a release and a width"),
    "other width": (edited(width=300), "release, width and payload size"),
    "wrong n": (edited(n=-1), "n must be"),
    "rows of blocks": (edited(rows=True), "as many rows as messages"),
    "path of a part": (edited(parts=[{"name": "../x.parquet", "rows": 0, "messages": 0, "digest": None}]), "name of a"),
    "half a manifest": (lambda folder: (folder / MANIFEST).write_text('{"format"'), "JSON"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_directories_are_refused(name: str, tmp_path: Path, small: None) -> None:
    folder, (damage, message) = tmp_path / "batch", DAMAGE[name]
    write_directory(folder, PLAN, reports())
    assert len(read(folder)) == 1000
    damage(folder)
    with pytest.raises(hb.InvalidInput, match=message):
        read(folder)
    if name != "other width":
        with pytest.raises(hb.InvalidInput, match=message):
            inspect_reports(str(folder))


def test_messages_of_a_directory_are_checked(tmp_path: Path) -> None:
    """Without a digest, an illegal message is still found."""
    (tmp_path / "batch").mkdir()
    replace_part(pa.table({"messages": [b"\1\2\x08"]}))(tmp_path / "batch")
    Manifest.of(PLAN, [Part(name="part-00001.parquet", rows=1, messages=3)], n=3).write(tmp_path / "batch")
    with pytest.raises(hb.WireError, match="payload 3 must have zero padding bits"):
        read(tmp_path / "batch")


def test_a_batch_of_another_plan_is_refused(tmp_path: Path) -> None:
    write_directory(tmp_path / "batch", PLAN, reports())
    with pytest.raises(hb.PlanMismatch):
        read_directory(tmp_path / "batch", OTHER)


def test_copies_of_a_directory_are_the_same_batch(tmp_path: Path) -> None:
    for name in ("one", "two", "few", "none"):
        write_directory(tmp_path / name, PLAN, reports(4 if name in ("few", "none") else 1000))
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    shutil.copytree(tmp_path / "few", tmp_path / "twin")
    names = {name: str(tmp_path / name) for name in ("one", "two", "few", "copy", "twin")}
    assert same_batch(names["one"], names["one"] + "/")
    assert same_batch(names["one"], names["copy"])
    assert not same_batch(names["one"], names["two"])
    assert not same_batch(names["few"], names["twin"])  # four messages may be equal by chance


def test_only_directories_have_rows(tmp_path: Path) -> None:
    with pytest.raises(hb.InvalidInput, match="rows must be False unless the reports are written to a directory"):
        write_reports(str(tmp_path / "batch.hub"), PLAN, reports(), rows=True)


def checked(plan: hb.Plan, n: int, *, certified: int = 0, slots: int = 0) -> hb.Batch:
    """Return a batch as a service exports it."""
    sent = reports(n, plan)
    return hb.Batch(dataclasses.replace(sent.header, certified=certified, slots=slots), [sent.messages])


def test_a_batch_of_a_service_says_at_which_size_its_guarantee_is_stated(tmp_path: Path) -> None:
    plan = hb.plan_from(COLOURS, 500, hb.Protocol(0.25), delta=1e-6)
    write_directory(tmp_path / "batch", plan, checked(plan, 1000, certified=900))
    found = hb.tally(read_directory(tmp_path / "batch", plan))
    assert (found.n, found.smallest_batch) == (1000, 900)
    stated = hb.achieved_guarantee(found, plan)
    assert stated == hb.achieved_guarantee(hb.tally(reports(900, plan)), plan)
    assert stated.epsilon > hb.achieved_guarantee(hb.tally(reports(1000, plan)), plan).epsilon
    assert (found + hb.tally(reports(950, plan))).smallest_batch == 900


def test_a_batch_of_a_service_pays_for_messages_that_did_not_fit(tmp_path: Path) -> None:
    plan = hb.plan_from(hb.Schema.one_hot(100), 10_000, hb.Protocol(0.02, release="bits"), delta=1e-6)
    whole = hb.achieved_guarantee(hb.tally(reports(10_000, plan)), plan)
    prices = []
    for slots in (21, 18):
        write_directory(tmp_path / str(slots), plan, checked(plan, 10_000, slots=slots))
        found = hb.tally(read_directory(tmp_path / str(slots), plan))
        stated = hb.achieved_guarantee(found, plan)
        assert stated == with_overflow(whole, plan, slots)
        assert stated == hb.estimate(found, plan).guarantee
        prices.append(stated.delta - whole.delta)
        assert (found + hb.tally(reports(10_000, plan))).slots == slots
    assert 0 < prices[0] < prices[1]


def test_fakes_count_for_certified_people_only() -> None:
    plan = hb.plan_from(COLOURS, 100, hb.Protocol(0.1, m=500), delta=1e-6)
    half = hb.randomize(hb.Collection.from_values(["red"] * 100, COLOURS), plan)
    sent = hb.shuffle(half + half)
    found = hb.tally(hb.Batch(dataclasses.replace(sent.header, certified=150), sent.blocks))
    assert hb.achieved_guarantee(found, plan) == hb.account(
        hb.Protocol(0.1, m=750), COLOURS, 150, delta=plan.guarantee.delta
    )


@pytest.mark.parametrize("name", ["certified", "slots"])
def test_what_a_service_adds_is_checked_and_stays_in_directories(tmp_path: Path, name: str) -> None:
    batch = checked(PLAN, 1000, **{name: 900})
    write_directory(tmp_path / "batch", PLAN, batch)
    text = (tmp_path / "batch" / MANIFEST).read_text()
    assert getattr(Manifest.from_json(text).header, name) == 900
    for bad in ("0", "-1", "true", "null", '"900"', "1e3", str(10**12 + 1)):
        with pytest.raises(hb.WireError):
            Manifest.from_json(text.replace(f'"{name}": 900', f'"{name}": {bad}'))
    with pytest.raises(hb.WireError, match="be 0 unless the batch is shuffled"):
        Manifest.from_json(text.replace('"shuffled": true', '"shuffled": false'))
    for file in ("batch.hub", "batch.parquet"):
        with pytest.raises(hb.InvalidInput, match="must be kept in a directory, whose manifest says so"):
            write_reports(str(tmp_path / file), PLAN, batch)
        assert not (tmp_path / file).exists()


def in_time(call: Callable[[], object], seconds: float = 20.0) -> BaseException | None:
    """Call in another thread and return what it raised; fail if it does not end."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
            raised.append(None)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert raised, "it waits for ever"
    return raised[0]


@pytest.mark.parametrize("kind", ["pipe", "directory", "device", "dangling link"])
@pytest.mark.parametrize("name", ["part-00000.parquet", MANIFEST])
def test_only_regular_files_are_read(tmp_path: Path, name: str, kind: str) -> None:
    """A pipe would keep the reader waiting, a device has no end."""
    write_directory(tmp_path / "batch", PLAN, reports())
    place = tmp_path / "batch" / name
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero" if kind == "device" else "nowhere")
    error = in_time(lambda: read(tmp_path / "batch"))
    assert isinstance(error, hb.WireError), error
    assert "regular file" in str(error) or kind == "dangling link"


def test_a_part_may_be_a_link(tmp_path: Path) -> None:
    """As in stores that keep files by their content; the digest of the manifest still counts."""
    write_directory(tmp_path / "batch", PLAN, reports())
    part = tmp_path / "batch" / "part-00000.parquet"
    expected = read(tmp_path / "batch")
    part.rename(tmp_path / "stored")
    part.symlink_to(tmp_path / "stored")
    assert np.array_equal(read(tmp_path / "batch"), expected)


def test_a_huge_manifest_is_not_read(tmp_path: Path) -> None:
    write_directory(tmp_path / "batch", PLAN, reports())
    with (tmp_path / "batch" / MANIFEST).open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(hb.WireError, match="the manifest of a batch must have at most 67,108,864 bytes"):
        read(tmp_path / "batch")


BOMB = """
import resource, sys
import hubbub as hb
from hubbub.io.directories import read_directory
plan = hb.Plan.from_json(open(sys.argv[1]).read())
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10
before = peak()
try:
    for _ in read_directory(sys.argv[2], plan).blocks:
        pass
    print("read", peak() - before)
except hb.WireError as error:
    print(error, peak() - before)
"""


@pytest.mark.long
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize(("size", "count", "dictionary"), [(400 << 20, 1, False), (48 << 20, 30, True)])
def test_a_small_file_does_not_take_much_memory(
    tmp_path: Path, size: int, count: int, dictionary: bool, rows: bool
) -> None:
    """Kilobytes of Parquet that stand for hundreds of megabytes: by compression, or by one value that is repeated."""
    folder, name = tmp_path / "batch", "message" if rows else "messages"
    folder.mkdir()
    values = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([bytes(size)], pa.binary()))
    table = pa.table([values if dictionary else values.cast(pa.binary())], names=[name])
    mark = {"fields": [{"name": name, "type": "binary", "metadata": {"hubbub_plan": PLAN.id}}]}
    options = {"compression": "zstd", "use_dictionary": dictionary, "store_schema": False}
    with pq.ParquetWriter(folder / "part-0.parquet", table.schema, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"org.apache.spark.sql.parquet.row.metadata": json.dumps(mark)})
    assert (folder / "part-0.parquet").stat().st_size < 1 << 16
    messages = count if rows else size * count
    Manifest.of(
        PLAN, [Part(name="part-0.parquet", rows=count, messages=messages)], n=10, shuffled=True, rows=rows
    ).write(folder)
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    words = [sys.executable, "-c", BOMB, str(tmp_path / "plan.json"), str(folder)]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert int(told[-1]) < 600, " ".join(told)


def test_every_row_has_one_message_if_the_manifest_says_so(tmp_path: Path) -> None:
    """Two messages in one row and none in the next are as many as there are rows, but not for SQL."""
    tmp_path.joinpath("batch").mkdir()
    field = pa.field("message", pa.binary(), metadata={b"hubbub_plan": PLAN.id.encode()})
    table = pa.table([pa.array([b"\x01\x02", b""], pa.binary())], schema=pa.schema([field]))
    pq.write_table(table, tmp_path / "batch" / "part-0.parquet")
    part = Part(name="part-0.parquet", rows=2, messages=2)
    Manifest.of(PLAN, [part], n=2, shuffled=True, rows=True).write(tmp_path / "batch")
    with pytest.raises(hb.WireError, match="binary values of length 1"):
        read(tmp_path / "batch")


def test_a_damaged_part_gives_an_error_or_the_same_messages(tmp_path: Path) -> None:
    """Every byte in turn, names that are not UTF-8 among them, and every second length."""
    write_directory(tmp_path / "batch", PLAN, reports(50))
    expected = read(tmp_path / "batch")
    part = tmp_path / "batch" / "part-00000.parquet"
    raw = part.read_bytes()
    damaged = [raw[:place] + bytes([raw[place] ^ 0xFF]) + raw[place + 1 :] for place in range(len(raw))]
    failed = 0
    for data in [*damaged, *(raw[:size] for size in range(0, len(raw), 2))]:
        part.write_bytes(data)
        try:
            assert np.array_equal(read(tmp_path / "batch"), expected)
        except (hb.WireError, hb.PlanMismatch):
            failed += 1
    assert failed > len(raw)


def test_of_two_writers_of_a_manifest_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both drivers of one job find no manifest; the second must not replace that of the first."""
    write_directory(tmp_path / "batch", PLAN, reports())
    place = tmp_path / "batch" / MANIFEST
    before, manifest = place.read_bytes(), Manifest.read(tmp_path / "batch")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", lambda *_, **__: False)
        with pytest.raises(FileExistsError):
            dataclasses.replace(manifest, header=dataclasses.replace(manifest.header, n=5)).write(tmp_path / "batch")
    assert place.read_bytes() == before
    assert sorted(file.name for file in place.parent.iterdir()) == [MANIFEST, "part-00000.parquet"]


def test_a_file_system_without_links_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    write_directory(tmp_path / "batch", PLAN, reports())
    assert sorted(file.name for file in (tmp_path / "batch").iterdir()) == [MANIFEST, "part-00000.parquet"]
    assert len(read(tmp_path / "batch")) == 1000
