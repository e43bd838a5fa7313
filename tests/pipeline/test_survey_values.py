"""Values of every kind: what is clipped, missing or refused, on a device and in columns, and that nobody is silent."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubbub as hb
from hubbub.bits.entropy import KeyedStream
from hubbub.errors import InvalidInput, InvalidRecord, PlanMismatch
from hubbub.model.questions import Question
from hubbub.model.questions.answers import is_missing
from hubbub.model.questions.number import GRID
from hubbub.pipeline import device
from hubbub.pipeline.records import SetBits

pytestmark = pytest.mark.pipeline

LOAD = hb.Scale(0, 64, buckets=16, missing=True, levels=[4, 1])
MEMORY = hb.Number(-8, 24, missing=True, variance=True, digits=[4, 4])
SCHEMA = hb.Schema.survey({"load": LOAD, "memory": MEMORY})
J = len(SCHEMA.attributes)


def plan_of(noise: hb.Noise, release: Any = "bits", schema: hb.Schema = SCHEMA) -> hb.Plan:
    protocol = hb.Protocol.survey([noise] * len(schema.attributes), release)
    return hb.plan_from(schema, 100, protocol, epsilon=900.0)


CLEAR = plan_of(hb.Noise(m=hb.Fakes.laplace(0.3, 12)))
RESPONSE = plan_of(hb.Noise(2**-20), "category")

FLOATS = st.floats(allow_nan=True, allow_infinity=True)
NUMBERS = st.one_of(
    FLOATS,
    st.integers(),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.fractions(),
    st.decimals(),
    st.sampled_from([Decimal("sNaN"), Decimal("Infinity"), Decimal("1e9999"), Fraction(10**400), -Fraction(10**400)]),
    st.floats(width=32).map(np.float32),
    st.floats().map(np.longdouble),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.none(),
    st.sampled_from([pd.NA, pd.NaT, -0.0, 0.0, 5e-324, -5e-324, 64.0, math.nextafter(64, 0), 24, -8]),
)


@given(NUMBERS, NUMBERS)
def test_no_value_silences_a_device(load: object, memory: object) -> None:
    """Every number is sent, or its absence is: as many messages as for any other value."""
    answers = {"load": load, "memory": memory}
    for plan in (CLEAR, RESPONSE):
        sent = device.payloads(answers, plan)
        assert len(sent) == J
    categories = SCHEMA.questions.encode(answers, lambda _: True)
    assert all(0 <= category < one.size for category, one in zip(categories, SCHEMA.attributes, strict=True))
    assert categories[2] == int(is_missing(memory))
    assert (categories[1] == LOAD.padded) == is_missing(load)


@given(NUMBERS, st.integers(0, GRID - 1), st.integers(0, GRID - 1))
def test_columns_and_devices_round_alike(value: object, first: int, second: int) -> None:
    """The same 48 random digits give the same digits of a number, whichever code reads them."""
    words = np.array([first << 16, second << 16], np.uint64)

    def column(size: int) -> bytes:
        data = words[:1].tobytes()
        words[:] = words[::-1].copy()
        return data[:size]

    draws = [first, second]
    expected = MEMORY.encode(value, lambda numerator: next_draw(draws, numerator))
    if not is_missing(value) and chances(value)[0] == 0:
        return  # a device draws nothing where nothing is rounded
    schema = hb.Schema.survey({"memory": MEMORY})
    record = hb.Collection.from_values({"memory": [value]}, schema, entropy=column)
    starts = [one.start for one in schema.attributes]
    assert (record.ones(0, 1)[0] - starts).tolist() == list(expected)


def next_draw(draws: list[int], numerator: int) -> bool:
    return draws.pop(0) < numerator


def chances(value: object) -> list[int]:
    """Return the chances of rounding up, of a value and of its square, in units of 2⁻⁴⁸; 0 if it is a level."""
    found: list[int] = []

    def coin(numerator: int) -> bool:
        found.append(numerator)
        return False

    MEMORY.encode(value, coin)
    return found if len(found) == 2 else [0, 0]


ANSWERS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([True, False, None]),
    st.one_of(st.floats(-9, 25), st.sampled_from([None, math.nan, math.inf, -8.0, 24.0])),
    st.one_of(st.floats(-1, 65), st.none()),
)
NEIGHBOURS = hb.Schema.survey(
    {
        "choice": hb.Choice(["a", "b"], missing=True),
        "flag": hb.Flag(missing=True),
        "memory": MEMORY,
        "load": LOAD,
        "again": hb.Number(-8, 24, missing=True, digits=[3, 5]),
    }
)


def encoded(people: list[Any], drawn: list[int]) -> Any:
    """Return the records of a table, one row each, rounded by a keyed stream without content in its name."""
    columns = list(zip(*people, strict=True))
    kinds = [pa.string(), pa.bool_(), pa.float64(), pa.float64(), pa.float64()]
    arrays = [pa.array(column, kind) for column, kind in zip([*columns, columns[2]], kinds, strict=True)]
    stream = KeyedStream(bytes(32), "rounding")

    def entropy(size: int) -> bytes:
        drawn.append(size)
        return stream(size)

    names = [name for name, _ in NEIGHBOURS.questions.asked]
    found = hb.Collection.from_values(pa.table(arrays, names=names), NEIGHBOURS, entropy=entropy)
    assert isinstance(found.records, SetBits)
    return found.records.indices.reshape(len(people), -1)


@given(st.lists(ANSWERS, min_size=2, max_size=6), st.data())
def test_the_answers_of_one_person_move_no_coin_of_another(people: list[Any], data: st.DataObject) -> None:
    """The premise of docs/theory/spark.md: with the same rounding, neighbouring tables have neighbouring records.

    Each number takes one word for each record, missing or not, and nothing is redrawn.
    """
    place = data.draw(st.integers(0, len(people) - 1))
    others = [*people[:place], data.draw(ANSWERS), *people[place + 1 :]]
    drawn: list[list[int]] = [[], []]
    one, two = encoded(people, drawn[0]), encoded(others, drawn[1])
    assert np.delete(one, place, axis=0).tolist() == np.delete(two, place, axis=0).tolist()
    assert drawn[0] == drawn[1] == [8 * len(people)] * 3


@given(st.floats(-1e3, 1e3), st.sampled_from([(2,), (4, 4), (3, 5, 7), (2,) * 12, (1024, 1024)]))
def test_rounding_is_unbiased_in_exact_arithmetic(value: float, digits: tuple[int, ...]) -> None:
    """The expected level over the coin is the clipped number's place among the levels, to rounding errors of floats."""
    question = hb.Number(-300, 500, digits=digits)
    asked: list[int] = []

    def level(up: bool) -> int:
        def coin(numerator: int) -> bool:
            asked.append(numerator)
            return up

        places = np.cumprod([1, *digits[:-1]])
        return int(sum(int(p) * d for p, d in zip(places, question.encode(value, coin), strict=True)))

    low, high = level(False), level(True)
    chance = Fraction(asked[0], GRID) if asked else Fraction(0)
    assert high - low == bool(asked)
    assert 0 <= chance < 1
    exact = (min(max(Fraction(value), Fraction(-300)), Fraction(500)) + 300) / 800 * (question.levels - 1)
    assert abs(low + chance - exact) <= Fraction(1, GRID) + 4 * exact * Fraction(1, 2**53)


@pytest.mark.parametrize(
    ("value", "bucket"),
    [
        (-math.inf, 0), (-1, 0), (-0.0, 0), (0.0, 0), (0, 0), (math.nextafter(4, 0), 0), (4, 1), (np.float32(4), 1),
        (Fraction(4), 1), (Decimal("3.9999999"), 0), (np.int8(63), 15), (64, 15), (65.5, 15), (10**400, 15),
        (-(10**400), 0), (math.inf, 15), (np.uint64(2**64 - 1), 15), (np.longdouble(8), 2),
    ],
)  # fmt: skip
def test_edges_belong_to_the_bucket_above_and_the_last_one_to_the_last_bucket(value: Any, bucket: int) -> None:
    assert LOAD.bucket(value) == bucket
    schema = hb.Schema.survey({"load": LOAD})
    found = hb.Collection.from_values({"load": [value]}, schema).ones(0, 1)[0].tolist()
    assert found == [bucket // 4, schema.attributes[1].start + bucket]


@given(st.lists(FLOATS, min_size=1, max_size=20))
def test_columns_and_devices_find_the_same_bucket(values: list[float]) -> None:
    scale = hb.Scale(1, 1000, buckets=7, log=True, missing=True)
    schema = hb.Schema.survey({"load": scale})
    expected = [scale.bucket(value) for value in values]
    columns: list[Any] = [values, np.array(values), pa.array(values), pd.Series(values)]
    for column in columns:
        assert hb.Collection.from_values({"load": column}, schema).ones(0, len(values))[0].tolist() == expected


QUESTIONS: dict[str, Question] = {
    "colour": hb.Choice(["red", "blue"]),
    "dark": hb.Flag(),
    "load": hb.Scale(0, 8, buckets=4),
}
SURVEY = hb.Schema.survey(QUESTIONS)
RIGHT: dict[str, list[Any]] = {"colour": ["red", "blue"], "dark": [True, False], "load": [1.5, 7]}


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "lists": dict,
    "records": rows,
    "arrays": lambda columns: {name: np.array(column, object) for name, column in columns.items()},
}
TABLES: dict[str, Callable[[dict[str, Any]], Any]] = {"arrow": pa.table, "pandas": pd.DataFrame}


@pytest.mark.parametrize("form", [*FORMS, *TABLES])
def test_right_values_in_every_form(form: str) -> None:
    found = hb.Collection.from_values({**FORMS, **TABLES}[form](RIGHT), SURVEY)
    assert found.ones(0, 2)[0].tolist() == [0, 3, 4, 1, 2, 7]


@pytest.mark.parametrize("index", [[7, 3], ["x", "y"], pd.Index([5, 9], name="person")])
def test_the_index_of_a_frame_is_no_answer(index: Any) -> None:
    found = hb.Collection.from_values(pd.DataFrame(RIGHT, index=index), SURVEY)
    assert found.ones(0, 2)[0].tolist() == [0, 3, 4, 1, 2, 7]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("colour", "mauve", "record 2 (column 'colour') has a label that is not in the schema (2 labels: red, blue)"),
        ("colour", 7, "record 2 (column 'colour') must be a label, not int"),
        ("colour", ["red", "blue"], "record 2 (column 'colour') must be a label, not list"),
        ("colour", None, "record 2 (column 'colour') must have a value, but it is missing"),
        ("colour", math.nan, "record 2 (column 'colour') must have a value, but it is missing"),
        ("dark", "yes", "record 2 (column 'dark') must be 0, 1, true or false"),
        ("dark", 2, "record 2 (column 'dark') must be 0, 1, true or false"),
        ("dark", None, "record 2 (column 'dark') must have a value, but it is missing"),
        ("load", "7", "record 2 (column 'load') must be a number, not str"),
        ("load", True, "record 2 (column 'load') must be a number, not bool"),
        ("load", [1, 2], "record 2 (column 'load') must be a number, not list"),
        ("load", math.nan, "record 2 (column 'load') must have a value, but it is missing"),
        ("load", 1j, "record 2 (column 'load') must be a number, not complex"),
    ],
)
def test_wrong_values_are_refused_by_record_and_column(form: str, name: str, value: object, text: str) -> None:
    columns = {**RIGHT, name: [RIGHT[name][0], None]}
    columns[name][1] = value
    if form == "arrays":
        given = {key: np.empty(2, object) for key in columns}
        for key, column in columns.items():
            given[key][:] = column[0], 0
            given[key][1] = column[1]
        with pytest.raises(InvalidRecord) as caught:
            hb.Collection.from_values(given, SURVEY)
    else:
        with pytest.raises(InvalidRecord) as caught:
            hb.Collection.from_values(FORMS[form](columns), SURVEY)
    assert str(caught.value) == text


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize(
    ("name", "column", "text"),
    [
        ("colour", ["red", "mauve"], "record 2 (column 'colour') has a label that is not in the schema"),
        ("colour", ["red", None], "record 2 (column 'colour') must have a value"),
        ("colour", [1.5, 2.5], "colour"),
        ("dark", ["true", "perhaps"], "record 2 (column 'dark') must be 0, 1, true or false"),
        ("dark", [True, None], "record 2 (column 'dark') must have a value"),
        ("load", ["1.5", "seven"], "record 2 (column 'load') must be a number"),
        ("load", ["1.5", "1_000"], "record 2 (column 'load') must be a number"),
        ("load", [1.5, None], "record 2 (column 'load') must have a value"),
        ("load", ["1", " "], "record 2 (column 'load') must have a value"),
        ("load", [True, False], "the column 'load' must have numbers"),
    ],
)
def test_wrong_columns_of_tables_are_refused(form: str, name: str, column: list[Any], text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        hb.Collection.from_values(TABLES[form]({**RIGHT, name: column}), SURVEY)
    assert text in str(caught.value)


@pytest.mark.parametrize("column", [[2**53 + 1, -(2**62)], [2**64 - 1, 1]])
def test_large_integers_are_rounded_and_clipped(column: list[int]) -> None:
    """Arrow refuses to convert integers that are no floats, with a message that quotes them."""
    kind = pa.int64() if min(column) < 0 else pa.uint64()
    for given_column in (pa.array(column, kind), np.array(column), pa.chunked_array([column], kind)):
        found = hb.Collection.from_values({**RIGHT, "load": given_column}, SURVEY)
        assert (found.ones(0, 2)[0].reshape(2, 3)[:, 2] - 4).tolist() == [3, 0]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({**RIGHT, "age": [1, 2]}, "values must have a column for every question, but 'age' is not one"),
        ({"colour": ["red"], "dark": [True]}, "values must have a column for every question, but 'load' has none"),
        (pa.table({"colour": ["red"], "dark": [True]}), "values must have a column for every question"),
        (pa.table({**RIGHT, "age": [1, 2]}), "values must have a column for every question, but 'age' is not one"),
        ({**RIGHT, "load": [1]}, "the columns of values must have the same length"),
        ({**RIGHT, "load": "12"}, "the column 'load' must be a list, an array or a series, not str"),
        ({**RIGHT, "load": {1: 2}}, "the column 'load' must be a list, an array or a series, not dict"),
        ({**RIGHT, "load": 7}, "the column 'load' must be a list, an array or a series, not int"),
        ({**RIGHT, "load": np.array(7.0)}, "the column 'load' must have one dimension, got 0"),
        ({**RIGHT, "load": np.zeros((2, 2))}, "the column 'load' must have one dimension, got 2"),
        ({**RIGHT, "load": np.array([1, 2], "m8[ns]")}, "the column 'load' must have numbers, not values of type"),
        ({**RIGHT, "load": np.array(["a", "b"])}, "the column 'load' must have numbers, not values of type"),
        ({**RIGHT, "load": np.ma.masked_equal([1, 2], 2)}, "the column 'load' must have no masked entries"),
        ({**RIGHT, "load": pd.DataFrame({"a": [1, 2]})}, "the column 'load' must be a single column, not DataFrame"),
        ({**RIGHT, "colour": np.array([0, 1])}, "the column 'colour' must have labels, not values of type int64"),
        (["red"], "record 1 must be a mapping from questions to answers, not str"),
        ([{**rows(RIGHT)[0], "age": 7}], "record 1 has an answer to a question that is not one of 3 in the survey"),
        ([rows(RIGHT)[0], {"colour": "red", "dark": True}], "record 2 (column 'load') must have a value"),
        ("red", "values must be a table, a mapping of columns, or a list of mappings, not str"),
        (np.zeros((2, 3)), "values must be a table, a mapping of columns, or a list of mappings, not ndarray"),
    ],
)  # fmt: skip
def test_wrong_shapes_are_refused(values: Any, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        hb.Collection.from_values(values, SURVEY)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (["red"], "the answers must be a mapping from questions to answers, not list"),
        ({**rows(RIGHT)[0], "age": 7}, "the answers must be to the questions of the survey ('colour', 'dark', 'load')"),
        ({"colour": "red", "dark": True}, "the answer to 'load' must be given; to allow none, create the question"),
        ({**rows(RIGHT)[0], "load": "7"}, "the answer to 'load' must be a number, not of type str"),
        ({**rows(RIGHT)[0], "colour": ["red", "blue"]}, "the answer to 'colour' must be one label, not of type list"),
        ({**rows(RIGHT)[0], "colour": "mauve"}, "the answer to 'colour' must be one of 2 labels: red, blue"),
        ({**rows(RIGHT)[0], "dark": "yes"}, "the answer to 'dark' must be True or False, not of type str"),
    ],
)
def test_devices_refuse_before_anything_is_drawn_or_sent(answers: Any, text: str) -> None:
    def entropy(size: int) -> bytes:
        raise AssertionError("no random number may be drawn for an answer that is refused")

    plan = plan_of(hb.Noise(2**-20), "category", SURVEY)
    with pytest.raises(InvalidInput) as caught:
        device.payloads(answers, plan, entropy=entropy)
    assert str(caught.value).startswith(text)


def test_two_categories_of_one_attribute_are_refused() -> None:
    """Packed records and lists of set bits could hold two answers to one question, and none to another."""
    twice = np.array([[0b0000_0111]], np.uint8)  # red and blue, and no answer about the load
    with pytest.raises(InvalidRecord, match="record 1 must have exactly one category of every attribute"):
        hb.Collection.from_packed(twice, SURVEY)
    ends = np.array([3], np.int64)
    for indices in ([0, 1, 4], [0, 2, 3], [2, 3, 4]):
        with pytest.raises(InvalidRecord):
            hb.Collection(SURVEY, SetBits(np.array(indices, np.uint32), ends))
    with pytest.raises(InvalidInput, match="one category of each of 3 attributes"):
        hb.Collection(SURVEY, SetBits(np.array([0, 2], np.uint32), np.array([2], np.int64)))
    with pytest.raises(InvalidInput, match="exactly one category of every attribute"):
        device.record_payloads(0b111, plan_of(hb.Noise(2**-20), "category", SURVEY))


@pytest.mark.parametrize("buckets", range(2, 40))
def test_scales_have_distinct_labels_at_all_levels(buckets: int) -> None:
    """A block that ends with the scale, an unused one and missing answers would have one label at several levels."""
    for levels in ([], [2, 1], [8, 1], [8, 4, 1], [16, 8, 4, 2, 1]):
        if not levels or levels[0] < buckets:
            question = hb.Scale(0, buckets, buckets=buckets, missing=True, levels=levels)
            schema = hb.Schema.survey({"load": question})
            assert schema.width == sum(question.sizes)


def test_collections_of_another_layout_do_not_fit() -> None:
    other = hb.Schema.survey({**QUESTIONS, "load": hb.Scale(0, 8, buckets=4, levels=[2, 1])})
    plan = plan_of(hb.Noise(2**-20), "category", SURVEY)
    with pytest.raises(PlanMismatch):
        hb.randomize(hb.Collection.from_values(RIGHT, other), plan)


@pytest.mark.parametrize("fakes", [0, 5])
def test_surveys_have_no_fixed_number_of_fakes(fakes: int) -> None:
    clear = plan_of(hb.Noise(m=hb.Fakes.laplace(0.3, 12)), schema=SURVEY)
    with pytest.raises(InvalidInput, match="fakes must be omitted"):
        device.payloads(rows(RIGHT)[0], clear, fakes=fakes)
    with pytest.raises(InvalidInput, match="fakes must be omitted"):
        hb.randomize(hb.Collection.from_values(RIGHT, SURVEY), clear, fakes=fakes)
