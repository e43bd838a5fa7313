"""Values in files: every format gives the same records, and invalid records are repaired, skipped and counted."""

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubbub as hb
from hubbub.io.policy import Policy, Summary
from hubbub.io.values import form_of, read_values

COLOURS = hb.Schema.one_hot(["red", "green", "blue", "none"])
TOOLS = hb.Schema.bits(["hammer", "saw", "unknown"])
FEW = hb.Schema.at_most(1, ["hammer", "saw", "unknown"])
SKIP = Policy("skip")

Outcome = tuple[int, str, str]


def read(
    path: Path, schema: hb.Schema, policy: Policy | None = None, *, column: str | None = None, block: int = 3
) -> tuple[list[list[str]], Summary, list[Outcome]]:
    """Return the labels of every record, the summary, and the outcome of every record that is not used as it is."""
    outcomes: list[Outcome] = []
    summary = Summary(listener=lambda *outcome: outcomes.append(outcome))
    rows: list[list[str]] = []
    for people in read_values(str(path), schema, column=column, block=block, policy=policy, summary=summary):
        flat, sizes = people.ones(0, len(people))
        ends = np.cumsum(sizes)
        rows += [[schema.labels[i] for i in flat[a:b]] for a, b in zip(ends - sizes, ends, strict=True)]
    return rows, summary, outcomes


def write(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "x\nred\nblue\n"),
        ("a.CSV.GZ", "x\nred\nblue\n"),
        ("a.tsv", "x\nred\nblue\n"),
        ("a.tsv.gz", "red\tgreen\tblue\tnone\n1\t0\t0\t0\n0\t0\t1\t0\n"),
        ("a.csv", "red,green,blue,none\ntrue,FALSE,false,0\nFalse,0,True,false\n"),
        ("a.csv", "none,extra,red,blue,green\n0,x,1,0,0\n0,,0,1,0\n"),
        ("a.jsonl", '"red"\n"blue"\n'),
        ("a.jsonl.gz", '"red"\n"blue"\n'),
        ("a.ndjson", '{"red": 1, "green": 0, "blue": 0, "none": 0}\n'
         '{"red": "False", "green": false, "blue": true, "none": "0"}\n'),
    ],
)  # fmt: skip
def test_all_formats_agree(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    rows, summary, outcomes = read(path, COLOURS)
    assert rows == [["red"], ["blue"]]
    assert (summary.rows, summary.clean, summary.fraction, outcomes) == (2, True, 1.0, [])


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["red", "blue"]),
        pa.array(["red", "blue"]).dictionary_encode(),
        pa.array(["red", "blue"], pa.large_string()),
    ],
)
def test_parquet_columns_of_labels(column: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": column, "y": [1, 2]}), tmp_path / "a.parquet")
    rows, summary, _ = read(tmp_path / "a.parquet", COLOURS, column="x")
    assert rows == [["red"], ["blue"]]
    assert summary.fraction == 1.0


def test_parquet_columns_of_lists_and_of_text_with_separators(tmp_path: Path) -> None:
    wanted = [["hammer", "saw"], [], ["saw"]]
    for column in (["saw;hammer", "", "saw"], [["saw", "hammer"], [], ["saw"]]):
        pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet")
        assert read(tmp_path / "a.parquet", TOOLS)[0] == wanted


def test_numbers_in_parquet_are_labels_in_decimal_as_in_csv(tmp_path: Path) -> None:
    schema = hb.Schema.one_hot(["18", "19", "20"])
    pq.write_table(pa.table({"age": [18, 20]}), tmp_path / "a.parquet")
    write(tmp_path / "a.csv", "age\n18\n20\n")
    assert read(tmp_path / "a.parquet", schema)[0] == read(tmp_path / "a.csv", schema)[0] == [["18"], ["20"]]


def test_gzip_is_recognized_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(b"x\nred\n")
    (tmp_path / "a.csv").write_bytes(data)
    assert read(tmp_path / "a.csv", COLOURS)[0] == [["red"]]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert [len(block) for block in read_values("-", COLOURS)] == [1]


@pytest.mark.parametrize("cut", [5, 20, -9, -1])
def test_a_damaged_gzip_file_is_reported(cut: int, tmp_path: Path) -> None:
    data = gzip.compress(b"x\n" + b"red\n" * 100)
    (tmp_path / "a.csv.gz").write_bytes(data[:cut])
    with pytest.raises(hb.WireError, match="damaged or cut off"):
        read(tmp_path / "a.csv.gz", COLOURS)


@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.parquet.gz", "a.csv.zip", "a"])
def test_unknown_suffixes_are_rejected(name: str) -> None:
    with pytest.raises(hb.InvalidInput, match=r"must end in \.csv, \.tsv, \.jsonl or \.ndjson"):
        form_of(name)


BAD = 'x\nred\nmauve\n\n"red\nblue\nred,blue\ngreen\n"red"x\nr\udcf6d\n'.encode(errors="surrogateescape")
"""Nine records, of which 1, 5 and 7 are valid; record 4 has an unbalanced quotation mark."""


def test_a_failure_counts_all_invalid_records(tmp_path: Path) -> None:
    with pytest.raises(hb.InvalidRecord) as caught:
        read(write(tmp_path / "a.csv", BAD), COLOURS)
    error = caught.value
    wording = "has a label that is not in the schema (4 labels: red, green, …)"
    assert str(error) == f"record 2 {wording}; 5 more records are invalid"
    assert (error.record, error.kind) == (2, "unknown")


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_skipping_recovers_at_the_next_line(block: int, tmp_path: Path) -> None:
    rows, summary, outcomes = read(write(tmp_path / "a.csv", BAD), COLOURS, SKIP, block=block)
    assert rows == [["red"], ["blue"], ["green"]]
    assert summary.to_document() == {
        "rows": 9, "missing": 0, "other": 0, "bad": 6, "dropped": 6, "clipped": 0, "first": [2, 3, 4, 6, 8],
    }  # fmt: skip
    assert [(record, what) for record, what, _ in outcomes] == [(i, "skipped") for i in (2, 3, 4, 6, 8, 9)]
    assert [reason.split(" (")[0] for _, _, reason in outcomes] == [
        "has a label that is not in the schema",
        "must have a value, but it is missing",
        "must be properly quoted",
        "must have as many columns as the header, 1, got 2",
        "must be properly quoted",
        "must be UTF-8 text",
    ]


def test_skipped_records_become_the_missing_label_so_that_n_stays(tmp_path: Path) -> None:
    policy = Policy("skip", missing="none", other="blue")
    rows, summary, outcomes = read(write(tmp_path / "a.csv", BAD), COLOURS, policy)
    assert [row[0] for row in rows] == ["red", "blue", "none", "none", "blue", "none", "green", "none", "none"]
    assert (summary.missing, summary.other, summary.bad, summary.dropped) == (1, 1, 4, 0)
    assert [what for _, what, _ in outcomes] == ["other", "missing", "skipped", "skipped", "skipped", "skipped"]
    assert [record for record, _, _ in outcomes] == [2, 3, 4, 6, 8, 9]


def test_labels_alone_do_not_accept_other_invalid_records(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", BAD)
    with pytest.raises(hb.InvalidRecord, match=r"^record 4 must be properly quoted; 3 more records are invalid"):
        read(path, COLOURS, Policy(missing="none", other="blue"))
    path = write(tmp_path / "a.jsonl", 'null\n"mauve"\n"red"\n\n""\n')
    rows, summary, _ = read(path, COLOURS, Policy(missing="none", other="blue"))
    assert [row[0] for row in rows] == ["none", "blue", "red", "none", "none"]
    assert (summary.missing, summary.other, summary.bad) == (3, 1, 0)


@pytest.mark.parametrize("schema", [TOOLS, FEW])
def test_lists_of_labels(schema: hb.Schema, tmp_path: Path) -> None:
    """Unknown labels of a list become one label; a record without a value has the missing label only."""
    lines = [["hammer"], None, ["drill", "chisel"], [], "saw", ["hammer", 7], ["saw", "saw"]]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    policy = Policy("skip", missing="unknown", other="unknown")
    rows, summary, _ = read(path, schema, policy)
    assert rows == [["hammer"], ["unknown"], ["unknown"], [], ["unknown"], ["unknown"], ["unknown"]]
    assert (summary.missing, summary.other, summary.bad, summary.first) == (1, 1, 3, [5, 6, 7])
    rows, summary, _ = read(path, schema, SKIP)
    assert rows == [["hammer"], []]
    assert summary.dropped == 5


def test_an_empty_cell_of_a_list_is_a_record_without_labels(tmp_path: Path) -> None:
    rows, summary, _ = read(write(tmp_path / "a.csv", 'x\n""\nsaw\n'), TOOLS, Policy(missing="unknown"))
    assert (rows, summary.clean) == ([[], ["saw"]], True)


def test_a_column_for_every_label(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "hammer,saw,unknown\n1,0,0\n1,,0\n1,2,0\n0,0\n0,0,0\n")
    with pytest.raises(hb.InvalidRecord, match=r"^record 2 \(column 'saw'\) must have a value, but it is missing"):
        read(path, TOOLS)
    rows, summary, outcomes = read(path, TOOLS, Policy("skip", missing="unknown"))
    assert rows == [["hammer"], ["unknown"], ["unknown"], ["unknown"], []]
    assert (summary.missing, summary.bad) == (1, 2)
    assert outcomes[1] == (3, "skipped", "column 'saw' must be 0, 1, true or false")
    assert read(path, TOOLS, SKIP)[0] == [["hammer"], []]
    with pytest.raises(hb.InvalidInput, match="--other must not be given for a file with a column for every label"):
        read(path, TOOLS, Policy(other="unknown"))
    path = write(tmp_path / "one.csv", "red,green,blue,none\n1,1,0,0\n0,0,0,0\n0,0,1,0\n")
    assert read(path, COLOURS, Policy("skip", missing="none"))[0] == [["none"], ["none"], ["blue"]]


def test_parquet_with_nulls(tmp_path: Path) -> None:
    policy = Policy("skip", missing="unknown", other="unknown")
    table = pa.table({"x": pa.array([["saw"], None, ["drill"], ["saw", None]])})
    pq.write_table(table, tmp_path / "lists.parquet")
    rows, summary, _ = read(tmp_path / "lists.parquet", TOOLS, policy)
    assert rows == [["saw"], ["unknown"], ["unknown"], ["unknown"]]
    assert (summary.missing, summary.other, summary.bad) == (1, 1, 1)
    columns = {"hammer": [True, None, False], "saw": [0, 1, 5], "unknown": ["False", "0", "1"]}
    pq.write_table(pa.table(columns), tmp_path / "bits.parquet")
    assert read(tmp_path / "bits.parquet", TOOLS, Policy("skip"))[0] == [["hammer"]]
    pq.write_table(pa.table({"x": ["red", None, "mauve"]}), tmp_path / "labels.parquet")
    rows, _, _ = read(tmp_path / "labels.parquet", COLOURS, Policy(missing="none", other="blue"))
    assert rows == [["red"], ["none"], ["blue"]]


def test_keys_of_json_objects_are_not_labels_that_are_set(tmp_path: Path) -> None:
    """Regression: ``{"saw": false}`` was read as a record with the label saw."""
    path = write(tmp_path / "a.jsonl", '{"saw": false, "hammer": true, "unknown": 0}\n{"saw": false}\n{"x": 1}\n')
    rows, summary, outcomes = read(path, TOOLS, SKIP)
    assert (rows, summary.bad) == ([["hammer"]], 2)
    assert outcomes[0][2] == "column 'hammer' must have a value, but it is missing"
    with pytest.raises(hb.InvalidRecord, match="must be a list of labels, not dict"):
        hb.Collection.from_values([{"saw": False}], TOOLS)


def test_a_column_name_that_may_be_an_answer_is_not_shown(tmp_path: Path) -> None:
    """A file without a header gives its first answer as the name of the column."""
    path = write(tmp_path / "a.csv", "secret\nred\nmauve\n")
    with pytest.raises(hb.InvalidRecord) as caught:
        read(path, COLOURS)
    assert "secret" not in str(caught.value)
    path = write(tmp_path / "b.csv", "colour,age\nred,1\nmauve,2\n")
    with pytest.raises(hb.InvalidRecord, match=r"^record 2 \(column 'colour'\) has a label that is not in the schema"):
        read(path, COLOURS, column="colour")


def test_other_columns_may_span_lines_and_have_any_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b'colour,remark\nred,"two\nlines"\nblue,\xff\n')
    assert read(path, COLOURS, column="colour")[0] == [["red"], ["blue"]]


def test_a_label_may_span_lines(tmp_path: Path) -> None:
    schema = hb.Schema.one_hot(["two\nlines", "one"])
    assert read(write(tmp_path / "a.csv", 'x\n"two\nlines"\none\n'), schema)[0] == [["two\nlines"], ["one"]]


def test_a_quotation_mark_that_is_closed_later_takes_no_other_record(tmp_path: Path) -> None:
    """Regression: lines up to the next quotation mark became one record, so that people disappeared."""
    path = write(tmp_path / "a.csv", 'x\n"red\nblue\ngreen\nnone"\nred\n')
    rows, summary, _ = read(path, COLOURS, SKIP)
    assert (summary.rows, summary.first) == (5, [1, 4])
    assert rows == [["blue"], ["green"], ["red"]]


def test_unbalanced_quotation_marks_longer_than_a_field_are_recovered(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'x\n"red\n' + "blue\n" * 40_000)
    rows, summary, _ = read(path, COLOURS, SKIP, block=1 << 16)
    assert (len(rows), summary.rows, summary.first) == (40_000, 40_001, [1])


@pytest.mark.parametrize(("name", "policy"), [("missing", Policy(missing="mauve")), ("other", Policy(other="mauve"))])
def test_labels_of_a_policy_must_be_in_the_schema(name: str, policy: Policy, tmp_path: Path) -> None:
    with pytest.raises(hb.InvalidInput, match=rf"^{name} must be a label of the schema .*, got 'mauve'; plan again"):
        read(write(tmp_path / "a.csv", "x\nred\n"), COLOURS, policy)


def test_a_file_without_a_valid_record_fails(tmp_path: Path) -> None:
    with pytest.raises(hb.InvalidInput, match="at least one valid record, but all 2 are invalid"):
        read(write(tmp_path / "a.csv", "x\nmauve\nmauve\n"), COLOURS, SKIP)


CELLS = st.sampled_from(
    ["red", "green", "blue", "none", "", "mauve", '"red', 'gr"een', "red,blue", '""', '"blue"', '"']
)


@given(st.lists(CELLS, min_size=1, max_size=30), st.integers(1, 7))
def test_every_line_is_one_record(tmp_path_factory: pytest.TempPathFactory, cells: list[str], block: int) -> None:
    """For any mixture of valid and damaged lines, n stays, and valid lines are read as they are."""
    path = write(tmp_path_factory.mktemp("lines") / "a.csv", "".join(f"{cell}\n" for cell in ["x", *cells, "red"]))
    rows, summary, outcomes = read(path, COLOURS, Policy("skip", missing="none"), block=block)
    assert summary.rows == len(rows) == len(cells) + 1
    assert len(outcomes) == summary.missing + summary.bad
    wrong = {record for record, _, _ in outcomes}
    for number, (cell, row) in enumerate(zip([*cells, "red"], rows, strict=True), 1):
        if cell.isalpha() and cell != "mauve":
            assert row == [cell]
            assert number not in wrong
        elif cell != '"blue"':
            assert row == ["none"]
            assert number in wrong


@given(
    st.lists(st.sampled_from(["red", "green", "mauve", None]), min_size=1, max_size=20), st.booleans(), st.booleans()
)
def test_formats_agree_on_invalid_records(
    tmp_path_factory: pytest.TempPathFactory, values: list[str | None], with_missing: bool, with_other: bool
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    text = io.StringIO()
    csv.writer(text).writerows([["x", "y"], *([value or "", "1"] for value in values)])
    write(folder / "a.csv", text.getvalue())
    write(folder / "a.jsonl.gz", "".join(json.dumps({"x": value}) + "\n" for value in values))
    pq.write_table(pa.table({"x": pa.array(values, pa.string()), "y": [1] * len(values)}), folder / "a.parquet")
    policy = Policy("skip", "none" if with_missing else None, "blue" if with_other else None)
    found = []
    for path in sorted(folder.iterdir()):
        try:
            rows, summary, outcomes = read(path, COLOURS, policy, column="x")
        except hb.InvalidInput as error:
            found.append(str(error))
        else:
            found.append(repr((rows, summary.to_document(), outcomes)))
    assert len(set(found)) == 1, found
