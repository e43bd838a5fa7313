"""Every type and layout of Arrow columns gives what a Python list of the same values gives, or is refused by name."""

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hubbub as hb
from hubbub.io import kernels
from hubbub.pipeline.encoding.cells import number_codes

LABELS = ["red", "green", "blue"]
ONE, BITS, FEW = hb.Schema.one_hot(LABELS), hb.Schema.bits(LABELS), hb.Schema.at_most(2, LABELS)
DIGITS = hb.Schema.one_hot(["0", "1", "2", "10"])
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
LISTS = [
    *(make(text) for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view) for text in TEXTS),
    pa.list_(pa.dictionary(pa.int32(), pa.string())),
]
VALUES = [
    ["red", "blue", "green", "red", "blue", "red", "blue", "green", "red"],
    *(["red", None, "blue"], ["red", "mauve", "blue"], [], [None], ["red", ""], [None, None, "red"]),
]
MANY: list[list[Any]] = [
    [["red"], ["red", "blue"], [], ["green"], ["blue", "green"], []],
    *([["red"], None, ["blue"]], [["red"], ["mauve"]], [["red", "red"], []], [[], []], []),
]


def told(call: Any) -> tuple[str, object]:
    """Return the counts of a collection or the error, without the name of the column."""
    try:
        found = call()
    except hb.HubbubError as error:
        return type(error).__name__, str(error).replace(" (column 'c')", "")
    return "counts", found.counts().tolist()


def layouts(array: Any) -> Iterator[Any]:
    """Yield an array as it is, sliced, in chunks and, if possible, as a dictionary in several layouts."""
    yield array
    if len(array) < 2:
        return
    yield pa.concat_arrays([array[1:], array]).slice(len(array) - 1)
    yield pa.chunked_array([array[:1], array[1:1], array[1:]])
    if not pa.types.is_nested(array.type):
        yield array.dictionary_encode()
        yield pa.concat_arrays([array[1:2], array]).dictionary_encode().slice(1)
        yield pa.chunked_array([array[:1].dictionary_encode(), array[1:].dictionary_encode()])


def assert_alike(array: Any, values: list[Any], schema: hb.Schema) -> None:
    expected = told(lambda: hb.Collection.from_values(values, schema))
    for one in layouts(array):
        assert told(lambda one=one: kernels.collection(pa.table({"c": one}), schema, "c")) == expected
        assert told(lambda one=one: hb.Collection.from_values(one, schema)) == expected


@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("values", VALUES, ids=str)
def test_labels(kind: Any, values: list[Any]) -> None:
    assert_alike(pa.array(values, kind), values, ONE)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint8(), pa.uint64()], ids=str)
@pytest.mark.parametrize("values", [[0, 1, 2, 10, 0], [0, None], [3, 0]], ids=str)
def test_whole_numbers_are_labels(kind: Any, values: list[Any]) -> None:
    assert_alike(pa.array(values, kind), [None if value is None else str(value) for value in values], DIGITS)


@pytest.mark.parametrize("kind", LISTS, ids=str)
@pytest.mark.parametrize("values", MANY, ids=str)
def test_lists_of_labels(kind: Any, values: list[Any]) -> None:
    for schema in (BITS, FEW):
        assert_alike(pa.array(values, kind), values, schema)


def test_views_of_lists_in_any_order() -> None:
    """The lists of a view may overlap, and be in another order than their items."""
    items = pa.array(["red", "green", "blue"])
    view = pa.ListViewArray.from_arrays(pa.array([1, 0, 2], pa.int32()), pa.array([2, 2, 0], pa.int32()), items)
    assert_alike(view, [["green", "blue"], ["red", "green"], []], BITS)


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("kind", [pa.null(), pa.string(), pa.float64()], ids=str)
def test_columns_without_any_value(kind: Any, count: int) -> None:
    """As pandas makes them of a partition in which everyone left the question out: a dictionary without entries."""
    empty = pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int8()), pa.array([], kind))
    assert_alike(empty, [None] * count, ONE)
    if kind != pa.float64():
        assert_alike(pa.nulls(count, kind), [None] * count, ONE)


@pytest.mark.parametrize("offset", range(17))
def test_bitmaps_with_an_offset(offset: int) -> None:
    drawn = np.random.default_rng(offset)
    truth = {label: drawn.integers(0, 2, 64).astype(bool) for label in LABELS}
    batch = pa.record_batch({label: pa.array(cells) for label, cells in truth.items()}).slice(offset, 40)
    expected = [int(truth[label][offset : offset + 40].sum()) for label in LABELS]
    assert kernels.collection(batch, BITS).counts().tolist() == expected
    masked = {label: pa.array(cells, mask=np.arange(64) == offset + 7) for label, cells in truth.items()}
    with pytest.raises(hb.InvalidRecord, match=r"record 8 .* must have a value"):
        kernels.collection(pa.record_batch(masked).slice(offset, 40), BITS)


@pytest.mark.parametrize(
    "array",
    [
        *(pa.array([b"red"], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
        *(pa.array([0.0], kind) for kind in (pa.float32(), pa.float64())),
        pa.array([decimal.Decimal(0)]),
        pa.array([True]),
        *(pa.array([one]) for one in (datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.time(1))),
        pa.array([{"red": 1}]),
        pa.array([[("red", 1)]], pa.map_(pa.string(), pa.int8())),
        pa.array([bytes(16)], pa.uuid()),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["red"])),
    ],
    ids=lambda array: str(array.type),
)
def test_other_types_are_refused_without_their_values(array: Any) -> None:
    for schema in (ONE, BITS):
        with pytest.raises(hb.InvalidInput, match="not of the Arrow type") as caught:
            kernels.collection(pa.table({"c": array}), schema, "c")
        assert "red" not in str(caught.value).partition("Arrow type")[2]


@pytest.mark.parametrize("columns", [{}, {"a": ["red"], "b": ["red"]}])
def test_the_column_must_be_unambiguous(columns: dict[str, Any]) -> None:
    with pytest.raises(hb.InvalidInput, match=r"have one column, or a column for every label; .* got [02]"):
        kernels.collection(pa.table(columns), ONE)


@pytest.mark.parametrize(("precision", "scale"), [(15, 2), (18, 6), (38, 10), (38, 20), (30, 29), (38, 0)])
def test_decimals_are_rounded_as_in_python(precision: int, scale: int) -> None:
    """Arrow's own conversion is off by one unit in the last place for every fifth of them, or more."""
    drawn = np.random.default_rng(precision + scale)
    values = [decimal.Decimal(int(one)).scaleb(-scale) for one in drawn.integers(-(10**14), 10**14, 400)]
    for kind in (pa.decimal128(precision, scale), pa.decimal256(60, scale)):
        numbers, absent, wrong = number_codes(pa.array([*values, None], kind))
        assert numbers.tolist() == [*map(float, values), 0.0]
        assert absent.tolist() == [False] * 400 + [True]
        assert not wrong.any()


def test_a_decimal_at_an_edge_is_in_the_bucket_of_python() -> None:
    schema = hb.Schema.survey({"load": hb.Scale(0, 100, buckets=1000)})
    values = [decimal.Decimal(i).scaleb(-1) for i in range(1000)]
    table = pa.table({"load": pa.array(values, pa.decimal128(38, 20))})
    expected = hb.Collection.from_values([{"load": float(value)} for value in values], schema).counts()
    assert kernels.collection(table, schema).counts().tolist() == expected.tolist()


def test_the_error_of_a_flag_names_its_column() -> None:
    schema = hb.Schema.survey({"dark mode": hb.Flag(), "colour": hb.Choice(LABELS)})
    table = pa.table({"dark mode": [datetime.date(2020, 1, 1)], "colour": ["red"]})
    with pytest.raises(hb.InvalidInput, match=r"the column 'dark mode' must have .* not of the Arrow type date32"):
        kernels.collection(table, schema)


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())]
)
def test_reports_come_back_in_any_type_of_bytes(kind: Any) -> None:
    """Polars returns views, if asked for its newest types."""
    plan = hb.plan_from(ONE, 2, hb.Protocol(0.25), epsilon=3.0)
    made = pa.Table.from_batches([kernels.reports(pa.table({"c": ["red", "blue"]}), plan) for _ in range(3)])
    column = made.column("messages").combine_chunks().cast(pa.binary())
    other = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    for table in (made.set_column(2, "messages", other), made.set_column(2, "messages", other).slice(1, 2)):
        expected = kernels.decode(made.slice(3 - len(table), len(table)), plan)
        found = kernels.decode(table, plan)
        assert (found.n, found.messages.tolist()) == (expected.n, expected.messages.tolist())
