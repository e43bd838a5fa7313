# ruff: noqa: E501
"""Files of answers to surveys: columns by name, strict parsing by kind of question, in blocks."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import hubbub as hb
from hubbub.errors import InvalidInput, InvalidRecord
from hubbub.io.policy import Policy, Summary
from hubbub.io.values import read_values

SCHEMA = hb.Schema.survey(
    {
        "colour": hb.Choice(["red", "blue"], missing=True),
        "dark mode": hb.Flag(),
        "load time": hb.Scale(0, 100, buckets=4, unit="ms"),
        "memory": hb.Number(0, 15, missing=True, digits=[4, 4]),
        "both": hb.Cross("colour", "dark mode"),
    }
)
HEAD = "colour,dark mode,load time,memory\n"
GOOD = "red,1,10,3\n,false,99.5,\nblue,TRUE,25,1.5e1\n"
LINES = (
    '{"colour": "red", "dark mode": 1, "load time": 10, "memory": 3}\n'
    '{"dark mode": false, "load time": 99.5, "colour": null}\n'
    '{"colour": "blue", "dark mode": true, "load time": 25.0, "memory": 15}\n'
)
TABLE = pa.table(
    {
        "memory": [3.0, None, 15.0],
        "colour": pa.array(["red", None, "blue"]).dictionary_encode(),
        "dark mode": [True, False, True],
        "load time": [10.0, 99.5, 25.0],
    }
)
EXPECTED = hb.Collection.from_values(
    {
        "colour": ["red", None, "blue"],
        "dark mode": [True, False, True],
        "load time": [10, 99.5, 25],
        "memory": [3, None, 15],
    },
    SCHEMA,
)


def read(path: Path, **options: object) -> hb.Collection:
    return hb.Collection.concatenate(list(read_values(str(path), SCHEMA, **options)))  # type: ignore[arg-type]


def put(folder: Path, text: str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def write(folder: Path, form: str) -> Path:
    """Write the same answers in one of the formats."""
    path = folder / f"a.{form}"
    if form == "parquet":
        parquet.write_table(TABLE, path)
    elif form == "jsonl":
        path.write_text(LINES)
    elif form == "tsv.gz":
        path.write_bytes(gzip.compress((HEAD + GOOD).replace(",", "\t").encode()))
    else:
        path.write_text(HEAD + GOOD)
    return path


@pytest.mark.parametrize("form", ["csv", "tsv.gz", "jsonl", "parquet"])
@pytest.mark.parametrize("block", [2, 1000])
def test_every_format_holds_the_same_answers(form: str, block: int, tmp_path: Path) -> None:
    summary = Summary()
    found = read(write(tmp_path, form), block=block, summary=summary)
    assert np.array_equal(found.counts(), EXPECTED.counts())
    assert np.array_equal(found.ones(0, 3)[0], EXPECTED.ones(0, 3)[0])
    assert summary.clean
    assert summary.rows == 3


def test_the_order_of_the_columns_is_free(tmp_path: Path) -> None:
    rows = [line.split(",") for line in (HEAD + GOOD).splitlines()]
    text = "".join(",".join(reversed(row)) + "\n" for row in rows)
    assert np.array_equal(read(put(tmp_path, text)).counts(), EXPECTED.counts())


def problems(path: Path) -> list[tuple[int, str]]:
    """Return the numbers and reasons of all invalid records of a file."""
    found: list[tuple[int, str]] = []
    summary = Summary(listener=lambda record, _, reason: found.append((record, reason)))
    with pytest.raises(InvalidRecord):
        read(path, summary=summary)
    return found


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("green,1,1,1", "column 'colour' has a label that is not in the schema (2 labels: red, blue)"),
        ("no answer,1,1,1", "column 'colour' has a label that is not in the schema (2 labels: red, blue)"),
        ("red,,1,1", "column 'dark mode' must have a value, but it is missing"),
        ("red,yes,1,1", "column 'dark mode' must be 0, 1, true or false"),
        ("red,2,1,1", "column 'dark mode' must be 0, 1, true or false"),
        ("red,1,,1", "column 'load time' must have a value, but it is missing"),
        ("red,1,nan,1", "column 'load time' must have a value, but it is missing"),
        ("red,1,fast,1", "column 'load time' must be a number"),
        ('red,1,"1,5",1', "column 'load time' must be a number"),
        ("red,1,1_000,1", "column 'load time' must be a number"),
        ("red,1,0x10,1", "column 'load time' must be a number"),
        ("red,1,١,1", "column 'load time' must be a number"),
        ("red,1,1,many", "column 'memory' must be a number"),
        ("red,1,1", "must have as many columns as the header, 4, got 3"),
        ("red,1,1,1,1", "must have as many columns as the header, 4, got 5"),
        ("", "must have as many columns as the header, 4, got 0"),
        ('"red,1,1,1', "must be properly quoted"),
    ],
)
def test_a_wrong_cell_is_an_invalid_record(row: str, reason: str, tmp_path: Path) -> None:
    path = put(tmp_path, f"{HEAD}red,1,1,1\n{row}\nblue,0,1,\n")
    assert problems(path) == [(2, reason)]
    summary = Summary()
    kept = read(path, policy=Policy("skip"), summary=summary)
    assert len(kept) == 2
    assert (summary.rows, summary.bad, summary.dropped, summary.first) == (3, 1, 1, [2])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "must be a line of JSON in UTF-8"),
        ("", "must be an object with an entry for every question"),
        ('["red"]', "must be an object with an entry for every question"),
        ('{"colour": "red", "age": 3}', "must have answers to the questions only ('colour', 'dark mode', 'load time' and 1 more)"),
        ('{"both": 1}', "must have answers to the questions only ('colour', 'dark mode', 'load time' and 1 more)"),
        ('{"colour": "red", "colour": "blue"}', "must not have two answers to 'colour'"),
        ('{"secret": 1, "secret": 2}', "must not have two answers to a question"),
        ('{"dark mode": 2, "load time": 1}', "column 'dark mode' must be 0, 1, true or false"),
        ('{"dark mode": "1", "load time": 1}', "column 'dark mode' must be 0, 1, true or false"),
        ('{"load time": 1}', "column 'dark mode' must have a value, but it is missing"),
        ('{"dark mode": true, "load time": "1"}', "column 'load time' must be a number, not str"),
        ('{"dark mode": true, "load time": true}', "column 'load time' must be a number, not bool"),
        ('{"dark mode": true, "load time": NaN}', "column 'load time' must have a value, but it is missing"),
        ('{"dark mode": true, "load time": [1]}', "column 'load time' must be a number, not list"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_an_invalid_record(line: str, reason: str, tmp_path: Path) -> None:
    path = put(tmp_path, LINES.splitlines()[0] + f"\n{line}\n", "a.jsonl")
    assert problems(path) == [(2, reason)]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("colour,dark mode,load time\n", "the file must have a column for every question, but 'memory' has none"),
        ("colour,dark mode,load time,memory,id\n", "the file must have columns for the questions only, but 'id' is not a question of the survey"),
        ("colour,dark mode,load time,memory,both\n", "the file must have columns for the questions only, but 'both' is a cross-table, which needs no column"),
        ("colour,colour,dark mode,load time,memory\n", "the columns of the file must be distinct, but 'colour' occurs more than once"),
        ("red,1,20,5\n", "the file must have a header with a column for every question ('colour', 'dark mode', 'load time' and 1 more)"),
        ("", "the CSV file must start with a header of column names, but it is empty"),
        (HEAD, "the file of values must contain at least one record"),
    ],
)  # fmt: skip
def test_columns_are_checked_before_anything_is_read(header: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(put(tmp_path, header))
    assert str(caught.value) == message


def test_a_file_without_a_header_does_not_show_the_first_answers(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(put(tmp_path, "secret,0,7,7\n"))
    assert "secret" not in str(caught.value)


def test_columns_of_parquet_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(TABLE.drop_columns(["memory"]), path)
    with pytest.raises(InvalidInput, match="'memory' has none"):
        read(path)
    parquet.write_table(TABLE.append_column("id", pa.array([1, 2, 3])), path)
    with pytest.raises(InvalidInput, match="'id' is not a question of the survey"):
        read(path)
    parquet.write_table(TABLE.set_column(3, "load time", pa.array([[1], [2], [3]])), path)
    with pytest.raises(InvalidInput, match="the column 'load time' must have numbers"):
        read(path)
    parquet.write_table(TABLE.set_column(2, "dark mode", pa.array([True, None, True])), path)
    assert problems(path) == [(2, "column 'dark mode' must have a value, but it is missing")]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_numbers_outside_are_clipped_and_counted(form: str, tmp_path: Path) -> None:
    times, memory = [-5.0, 100.0, 1e300, 0.0], [16.0, None, -1.0, 15.0]
    table = pa.table({"colour": ["red"] * 4, "dark mode": [True] * 4, "load time": times, "memory": memory})
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        parquet.write_table(table, path)
    elif form == "csv":
        rows = zip(times, memory, strict=True)
        path.write_text(HEAD + "".join(f"red,1,{a},{'' if b is None else b}\n" for a, b in rows))
    else:
        path.write_text("".join(f'{{"dark mode":1,"load time":{a}}}\n' for a in (-5, 100, 10**400, 0)))
    summary = Summary()
    counts = read(path, summary=summary).counts()
    labels = dict(zip(SCHEMA.labels, counts.tolist(), strict=True))
    assert (labels["load time: 0 to 25"], labels["load time: 75 to 100"]) == (2, 2)
    assert summary.clipped == (2 if form == "jsonl" else 4)
    assert not summary.clean
    if form != "jsonl":
        assert (labels["memory: digit 1 is 3"], labels["memory: digit 2 is 3"]) == (2, 2)
        assert labels["memory: no answer"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "colour"}, "--column must not be given for a survey"),
        ({"policy": Policy(missing="colour: red")}, "--missing must not be given for a survey"),
        ({"policy": Policy(other="colour: red")}, "--other must not be given for a survey"),
    ],
)
def test_options_of_labels_do_not_apply(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(put(tmp_path, HEAD + GOOD), **options)


def test_one_question_may_have_empty_lines(tmp_path: Path) -> None:
    schema = hb.Schema.survey({"a": hb.Flag(missing=True)})
    path = put(tmp_path, "a\n1\n\n0\n")
    (found,) = read_values(str(path), schema)
    assert found.counts().tolist() == [1, 1, 1]


def test_whole_numbers_of_thousands_of_digits_are_clipped(tmp_path: Path) -> None:
    """Python refuses to read them as whole numbers, and a value must not end the collection."""
    huge = "1" + "0" * 5000
    path = put(tmp_path, "".join(f'{{"dark mode":1,"load time":{a}}}\n' for a in (huge, f"-{huge}", 5)), "a.jsonl")
    summary = Summary()
    labels = dict(zip(SCHEMA.labels, read(path, summary=summary).counts().tolist(), strict=True))
    assert (labels["load time: 0 to 25"], labels["load time: 75 to 100"]) == (2, 1)
    assert summary.clipped == 2
