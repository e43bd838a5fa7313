"""Arrow columns of every layout give the records, and the problems, that Python lists of the same values give."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.io.arrow import collection
from hubbub.io.parquet import read_columns
from hubbub.io.values import read_values
from hubbub.model.questions.answers import is_missing, number
from hubbub.pipeline.encoding.cells import number_codes
from hubbub.pipeline.encoding.codes import label_codes, pack_lists
from hubbub.pipeline.encoding.columns import encode_column, encode_table
from hubbub.pipeline.encoding.encoded import Encoded, from_cells
from hubbub.pipeline.encoding.sequences import encode_sequence
from hubbub.pipeline.records import stored

LABELS = ["red", "green", "blue", "7", "-3", "007", "grün"]
ONE = hb.Schema.one_hot(LABELS)
MANY = hb.Schema.bits(LABELS)
FEW = hb.Schema.at_most(2, LABELS)
WIDE = hb.Schema.bits(150)
"""A record of three words."""
WIDEST = hb.Schema.bits(300)
"""A record of more words than lists are packed into."""
Value = list[str | None] | None


def described(encoded: Encoded, schema: hb.Schema) -> tuple[Any, ...]:
    """Return everything that callers see, with lists of labels and packed rows made alike."""
    problems = [str(one) for one in encoded.problems]
    good = stored(encoded.repaired(None), schema)
    people = hb.Collection(schema, good)
    flat, sizes = people.ones(0, len(people))
    return encoded.n, problems, encoded.renamed.tolist(), flat.tolist(), sizes.tolist()


def arrays(values: list[str | None]) -> dict[str, pa.Array]:
    """Return the same strings in every layout of Arrow."""
    text = pa.array(values, pa.string())
    dictionary = pa.array(["unused", *LABELS, None, "unused too", "", "mauve"])
    places = [None if value is None else dictionary.to_pylist().index(value) for value in values]
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    found = {
        "string": text,
        "large": text.cast(pa.large_string()),
        "view": text.cast(pa.string_view()),
        "sliced": pa.array(["x", *values, None], pa.string()).slice(1, len(values)),
        "chunked": pa.chunked_array([text[:1], text[1:1], text[1:]], pa.string()),
        "two dictionaries": pa.chunked_array([text[:2].dictionary_encode(), text[2:].dictionary_encode()]),
        "large dictionary": text.cast(pa.large_string()).dictionary_encode(),
        "null in the dictionary": pa.DictionaryArray.from_arrays(
            pa.array([8 if value is None else dictionary.to_pylist().index(value) for value in values], pa.int32()),
            dictionary,
        ),
    }
    for kind in kinds:
        found[f"index {kind}"] = pa.DictionaryArray.from_arrays(pa.array(places, kind), dictionary)
        found[f"sliced {kind}"] = pa.DictionaryArray.from_arrays(pa.array([None, 0, *places], kind), dictionary)[2:]
    return found


labels = st.sampled_from([*LABELS, *LABELS, *LABELS, None, "", "mauve"])


@settings(max_examples=40, deadline=None)
@given(values=st.lists(labels, max_size=12), other=st.sampled_from([None, 2]))
def test_labels_of_every_layout(values: list[str | None], other: int | None) -> None:
    wanted = described(encode_sequence(values, ONE, other=other, column="c"), ONE)
    for name, array in arrays(values).items():
        found = described(encode_column(array, ONE, other=other, name="c"), ONE)
        assert found == wanted, name


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_are_labels_in_decimal(kind: str) -> None:
    """Only the label that is the number itself: not "007", and not a number outside of the type."""
    schema = hb.Schema.one_hot(["7", "007", "-3", "300", "18446744073709551615", "x", "+7", "٧"])
    numbers = [one for one in (7, -3, 300, 2**64 - 1, 8, None) if one is None or fits(one, kind)]
    array = pa.array(numbers, kind)
    wanted = encode_sequence([None if one is None else str(one) for one in numbers], schema)
    for given_array in (array, array.dictionary_encode(), pa.array([1, *numbers], kind)[1:]):
        assert described(encode_column(given_array, schema), schema) == described(wanted, schema)


def fits(number: int, kind: str) -> bool:
    limits = np.iinfo(kind)
    return bool(limits.min <= number <= limits.max)


def lists(values: list[Value]) -> dict[str, pa.Array]:
    """Return the same lists of strings in every layout of Arrow."""
    indices = pa.dictionary(pa.int16(), pa.string())
    found = {
        "list": pa.array(values, pa.list_(pa.string())),
        "large list": pa.array(values, pa.large_list(pa.large_string())),
        "dictionary": pa.array(values, pa.list_(indices)),
        "sliced": pa.array([["red"], *values, ["x"]], pa.list_(pa.string())).slice(1, len(values)),
        "sliced dictionary": pa.array([["x"], None, *values], pa.large_list(indices)).slice(2),
    }
    found["chunked"] = pa.chunked_array([found["dictionary"][:1], found["dictionary"][1:]])
    # A null list may have values behind it, which are no one's.
    sizes = [2 if value is None else len(value) for value in values]
    flat = [label for value in values for label in (["red", "x"] if value is None else value)]
    ends = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    mask = pa.array([value is None for value in values], pa.bool_())
    found["values behind nulls"] = pa.ListArray.from_arrays(ends, pa.array(flat, pa.string()), mask=mask)
    return found


items = st.sampled_from([*LABELS, *LABELS, *LABELS, *LABELS, "mauve", None])
answers = st.lists(st.one_of(st.lists(st.sampled_from(LABELS), max_size=4), st.lists(items, max_size=4), st.none()))


def python_lists(values: list[Value], schema: hb.Schema, other: int | None) -> tuple[Any, ...]:
    """Return what Python lists give; an item that is null has another text there, and is never replaced."""
    encoded = encode_sequence(values, schema, other=other, column="c")
    n, problems, *rest = described(encoded, schema)
    return n, [one.replace("an item of type None", "an empty item") for one in problems], *rest


@settings(max_examples=60, deadline=None)
@given(values=answers, schema=st.sampled_from([MANY, FEW]), other=st.sampled_from([None, 2]))
def test_lists_of_every_layout(values: list[Value], schema: hb.Schema, other: int | None) -> None:
    wanted = python_lists(values, schema, other)
    for name, array in lists(values).items():
        found = described(encode_column(array, schema, other=other, name="c"), schema)
        assert found == wanted, name


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.one_of(st.none(), st.lists(items, min_size=3, max_size=3)), max_size=8))
def test_lists_of_equal_sizes(values: list[Value]) -> None:
    wanted = python_lists(values, MANY, None)
    text = pa.array([["x"] * 3, *values], pa.list_(pa.string(), 3))
    indices = pa.array([["x"] * 3, *values], pa.list_(pa.dictionary(pa.uint8(), pa.string()), 3))
    for array in (text[1:], indices[1:], pa.chunked_array([text[1:2], text[2:]])):
        assert described(encode_column(array, MANY, name="c"), MANY) == wanted


@settings(max_examples=60, deadline=None)
@given(data=st.data(), schema=st.sampled_from([WIDE, WIDEST, hb.Schema.bits(64), hb.Schema.bits(65)]))
def test_wide_records(data: st.DataObject, schema: hb.Schema) -> None:
    """All words of a record are filled, with bits at their edges, and repeated labels are found in each."""
    edges = [i for i in (0, 1, 62, 63, 64, 65, 127, 128, 149, 191, 192, 299) if i < schema.width]
    values = data.draw(st.lists(st.lists(st.sampled_from(edges), max_size=6), max_size=8))
    text = [[str(i) for i in value] for value in values]
    found = encode_column(pa.array(text, pa.list_(pa.string())), schema)
    assert described(found, schema) == described(encode_sequence(text, schema), schema)


@given(st.lists(st.integers(0, 63), max_size=70))
def test_a_sum_of_bits_shows_repetitions(codes: list[int]) -> None:
    """Even sums beyond 64 bits: only distinct labels have as many ones as labels."""
    rows = pack_lists(np.array(codes, np.int32), np.array([len(codes)]), 64)
    assert (rows is not None) == (len(set(codes)) == len(codes))
    if rows is not None:
        assert int.from_bytes(rows.tobytes(), "little") == sum(1 << code for code in codes)


COLUMNS: dict[str, Callable[[list[int]], pa.Array]] = {
    "booleans": lambda bits: pa.array([bool(one) for one in bits]),
    "sliced booleans": lambda bits: pa.array([True] * 11 + [bool(one) for one in bits] + [False] * 3)[11:-3],
    "bytes": lambda bits: pa.array(bits, pa.int8()),
    "large numbers": lambda bits: pa.array(bits, pa.uint64()),
    "floats": lambda bits: pa.array(bits, pa.float32()),
    "words": lambda bits: pa.array([("False", "tRue")[one] for one in bits]),
    "dictionary": lambda bits: pa.array([("0", "1")[one] for one in bits]).dictionary_encode(),
    "chunks": lambda bits: pa.chunked_array(
        [[bool(one) for one in bits[:3]], [bool(one) for one in bits[3:]]], pa.bool_()
    ),
}
WRONG: dict[str, Callable[[list[int], int], pa.Array]] = {
    "null boolean": lambda bits, i: pa.array([None if j == i else bool(one) for j, one in enumerate(bits)]),
    "null number": lambda bits, i: pa.array([None if j == i else one for j, one in enumerate(bits)], pa.int32()),
    "NaN": lambda bits, i: pa.array([float("nan") if j == i else float(one) for j, one in enumerate(bits)]),
    "two": lambda bits, i: pa.array([2 if j == i else one for j, one in enumerate(bits)], pa.int16()),
    "half": lambda bits, i: pa.array([0.5 if j == i else float(one) for j, one in enumerate(bits)]),
    "yes": lambda bits, i: pa.array(["yes" if j == i else str(one) for j, one in enumerate(bits)]),
    "empty": lambda bits, i: pa.array(["" if j == i else str(one) for j, one in enumerate(bits)]),
    "nothing": lambda bits, _: pa.nulls(len(bits)),
}
MISSING = ("null boolean", "null number", "NaN", "empty", "nothing")


@settings(max_examples=80, deadline=None)
@given(data=st.data(), width=st.sampled_from([1, 7, 8, 9, 17]), n=st.integers(1, 20))
def test_a_column_for_every_label(data: st.DataObject, width: int, n: int) -> None:
    bits = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n * width, max_size=n * width))).reshape(n, width)
    cells = bits.astype(np.uint8)
    columns = []
    for label in range(width):
        own = bits[:, label].tolist()
        if data.draw(st.integers(0, 9)):
            columns.append(COLUMNS[data.draw(st.sampled_from(list(COLUMNS)))](own))
            continue
        defect, place = data.draw(st.sampled_from(list(WRONG))), data.draw(st.integers(0, n - 1))
        columns.append(WRONG[defect](own, place))
        cells[slice(None) if defect == "nothing" else place, label] = 3 if defect in MISSING else 2
    for schema in (hb.Schema.bits(width), hb.Schema.at_most(1, width + 1)):
        if schema.width == width:
            found = encode_table(columns, schema)
            assert described(found, schema) == described(from_cells(cells, schema), schema)
        else:
            found = encode_table([*columns, pa.array([False] * n)], schema)
            more = np.concatenate([cells, np.zeros((n, 1), np.uint8)], axis=1)
            assert described(found, schema) == described(from_cells(more, schema), schema)


texts = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**30), 10**30).map(str),
    st.text("0123456789.eE+-_ naif", max_size=8),
    st.sampled_from(
        ["", "  ", " 1 ", "1_0", "٣", "1e400", "-1e400", "inf", "nan", "NaN", "+1", "1.", ".5", "0x1", "nan(1)"]
    ),
    st.none(),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, max_size=10))
def test_spelled_numbers_are_those_of_python(values: list[str | None]) -> None:
    wanted = []
    for text in values:
        try:
            found = 0.0 if text is None or not text.strip() or "_" in text else float(text)
            absent = text is None or not text.strip() or math.isnan(found)
            wanted.append((0.0 if absent else found, absent, text is not None and "_" in text and not absent))
        except ValueError:
            wanted.append((0.0, False, True))
    for array in (
        pa.array(values, pa.string()),
        pa.array(["x", *values], pa.large_string())[1:],
        pa.array(values, pa.string()).dictionary_encode(),
    ):
        floats, absents, wrongs = number_codes(array)
        assert list(zip(floats.tolist(), absents.tolist(), wrongs.tolist(), strict=True)) == wanted


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats()), min_size=1, max_size=8))
def test_numbers_are_those_of_devices(values: list[float | None]) -> None:
    """A column of numbers is read as one device reads its answer."""
    for value in values:
        kind = pa.float64() if isinstance(value, float) else pa.int64()
        floats, absent, wrong = number_codes(pa.array([value], kind))
        assert not wrong[0]
        assert absent[0] == is_missing(value)
        assert floats[0] == (0.0 if absent[0] else number(value))


def test_a_survey_is_read_column_by_column() -> None:
    schema = hb.Schema.survey(
        {
            "colour": hb.Choice(["red", "blue"], missing=True),
            "dark": hb.Flag(),
            "load": hb.Scale(0, 64, buckets=8),
            "memory": hb.Number(0, 100, digits=[4, 4], missing=True),
        }
    )
    columns = {
        "colour": pa.array(["red", None, "blue", "red"]).dictionary_encode(),
        "dark": pa.array([True, False, True, True]),
        "load": pa.array(["1.5", "63", " 7", "8e0"]).dictionary_encode(),
        "memory": pa.array([100, None, 0, 100], pa.int16()),
    }
    plain = {name: column.to_pylist() for name, column in columns.items()}
    plain["load"] = [1.5, 63, 7, 8]
    wanted = hb.Collection.from_values(plain, schema, entropy=SeededStreamNotForPeople(1))
    for batch in (pa.record_batch(columns), pa.table(columns), pa.table(columns).slice(0, 4)):
        found = collection(batch, schema, entropy=SeededStreamNotForPeople(1))
        assert [part.tolist() for part in found.ones(0, 4)] == [part.tolist() for part in wanted.ones(0, 4)]
    with pytest.raises(hb.InvalidRecord, match=r"^record 3 \(column 'load'\) must be a number$"):
        collection(pa.table(columns | {"load": pa.array(["1", "2", "secret", "x"])}), schema)


def test_a_batch_is_a_collection() -> None:
    batch = pa.record_batch({"colour": ["red", "blue"], "tools": [["7"], []], **{name: [1, 0] for name in LABELS}})
    assert collection(batch, ONE, "colour").counts().tolist() == [1, 0, 1, 0, 0, 0, 0]
    assert collection(batch, MANY, "tools").counts().tolist() == [0, 0, 0, 1, 0, 0, 0]
    assert collection(batch, MANY).counts().tolist() == [1] * 7
    assert collection(pa.table({"any": ["red"]}), ONE).counts().tolist() == [1, 0, 0, 0, 0, 0, 0]


BAD: dict[str, tuple[Any, hb.Schema, str | None, str]] = {
    "unknown label": (pa.table({"c": ["red", "secret"]}), ONE, "c", "record 2 (column 'c') has a label that is not in"),
    "null": (pa.table({"c": [None, "red"]}), ONE, "c", "record 1 (column 'c') must have a value, but it is missing"),
    "repeated": (pa.table({"c": [["7"], ["7", "7"]]}), MANY, "c", "record 2 (column 'c') has a label twice"),
    "too many": (pa.table({"c": [["7", "red", "blue"]]}), FEW, "c", "more labels than max_set = 2 allows"),
    "wrong type": (pa.table({"c": [1.5]}), ONE, "c", "values must be labels, not of the Arrow type double"),
    "no lists": (pa.table({"c": ["red"]}), MANY, "c", "must be lists of labels"),
    "cell": (
        pa.table({"a": [1, 7], "b": [0, 0]}),
        hb.Schema.bits(["a", "b"]),
        None,
        "record 2 (column 'a') must be 0, 1",
    ),
    "no column": (pa.table({"c": ["red"]}), ONE, "d", "column must be the name of a column of the batch, got 'd'"),
    "several columns": (pa.table({"c": ["red"], "d": ["red"]}), ONE, None, "choose one by column, got 2"),
    "no batch": (["red"], ONE, None, "batch must be a record batch or a table of Arrow, not list"),
    "two of a name": (pa.Table.from_arrays([pa.array(["red"])] * 2, ["c", "c"]), ONE, "c", "have distinct names"),
    "column of a survey": (pa.table({"a": [True]}), hb.Schema.survey({"a": hb.Flag()}), "a", "be None for a survey"),
    "column that is no name": (pa.table({"c": ["red"]}), ONE, 0, "column must be of type str"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", BAD)
def test_bad_batches(name: str) -> None:
    batch, schema, column, message = BAD[name]
    with pytest.raises(hb.InvalidInput) as caught:
        collection(batch, schema, column)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_dictionaries_that_end_within_a_row_group(tmp_path: Path) -> None:
    """Arrow reads such lists only as text; flat columns have several dictionaries."""
    values = [[str(i), str(i + 1)] for i in range(3000)]
    table = pa.table({"lists": pa.array(values, pa.list_(pa.string())), "flat": [value[0] for value in values]})
    options = {"dictionary_pagesize_limit": 1000, "row_group_size": 2000, "data_page_size": 1000}
    pq.write_table(table, tmp_path / "values.parquet", write_batch_size=100, **options)
    schema = hb.Schema.bits(3001)
    parts = list(read_columns(str(tmp_path / "values.parquet"), lambda _: ["lists"], 300))
    kinds = {pa.types.is_dictionary(columns[0].type.value_type) for _, columns in parts}
    assert kinds == {False, True}  # some blocks were read as indices before that became impossible
    assert [value for _, columns in parts for value in columns[0].to_pylist()] == values
    path = str(tmp_path / "values.parquet")
    found = hb.Collection.concatenate(list(read_values(path, schema, column="lists", block=300)))
    assert found.counts().tolist() == [1, *[2] * 2999, 1]
    one = hb.Schema.one_hot(3000)
    found = hb.Collection.concatenate(list(read_values(path, one, column="flat", block=300)))
    assert found.ones(0, 3000)[0].tolist() == list(range(3000))


def test_records_of_a_file_are_counted_over_all_blocks(tmp_path: Path) -> None:
    values = ["red"] * 1000
    values[777] = "secret"
    pq.write_table(pa.table({"c": values}), tmp_path / "values.parquet", row_group_size=300)
    with pytest.raises(hb.InvalidRecord, match=r"^record 778 has a label that is not in the schema \(7 labels"):
        list(read_values(str(tmp_path / "values.parquet"), ONE, block=100))


def test_labels_are_compared_once_for_each_entry_of_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step for each row: a long array with a short dictionary compares the dictionary only."""
    import pyarrow.compute as pc

    seen, index_in = [], pc.index_in

    def counted(array: pa.Array, **rest: Any) -> pa.Array:
        seen.append(len(array))
        return index_in(array, **rest)

    monkeypatch.setattr(pc, "index_in", counted)
    array = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000, np.int32)), pa.array(["blue", "red"]))
    assert label_codes(array, ONE.labels).tolist() == [2] * 10_000
    assert seen == [2]
