"""Arrays of strings, Arrow data, series and data frames give the records that lists give."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubbub as hb
from hubbub.errors import MissingExtra

COLOURS = hb.Schema.one_hot(["red", "green", "blue", "", "grün"])
TOOLS = hb.Schema.bits(["hammer", "saw"])
FEW = hb.Schema.at_most(1, ["hammer", "saw"])


def frames(name: str) -> Any:
    """Return a library of data frames; the tests that need it are skipped without it."""
    pytest.importorskip("narwhals")
    return pytest.importorskip(name)


def rows(people: hb.Collection) -> list[list[int]]:
    flat, sizes = people.ones(0, len(people))
    ends = np.cumsum(sizes)
    return [flat[a:b].tolist() for a, b in zip(ends - sizes, ends, strict=True)]


ARRAYS: dict[str, Callable[[list[str]], Any]] = {
    "text": np.array,
    "objects": lambda values: np.array(values, object),
    "strings": lambda values: np.array(values, np.dtypes.StringDType()),
    "Arrow": pa.array,
    "large": lambda values: pa.array(values, pa.large_string()),
    "view": lambda values: pa.array(values, pa.string_view()),
    "dictionary": lambda values: pa.array(values).dictionary_encode(),
    "sliced": lambda values: pa.array(["x", *values]).slice(1),
    "sliced dictionary": lambda values: pa.array(["x", *values]).dictionary_encode().slice(1),
    "chunks": lambda values: pa.chunked_array([values[:1], values[1:]], pa.string()),
    "table": lambda values: pa.table({"colour": values}),
    "batch": lambda values: pa.record_batch({"colour": pa.array(values)}),
}
SERIES: dict[str, tuple[str, Callable[[Any, list[str]], Any]]] = {
    "pandas": ("pandas", lambda pd, values: pd.Series(values)),
    "pandas objects": ("pandas", lambda pd, values: pd.Series(values, dtype=object)),
    "pandas categories": ("pandas", lambda pd, values: pd.Series(values, dtype="category", index=values)),
    "pandas index": ("pandas", lambda pd, values: pd.Index(values)),
    "pandas categorical": ("pandas", lambda pd, values: pd.Categorical(values)),
    "pandas frame": ("pandas", lambda pd, values: pd.DataFrame({"colour": values})),
    "polars": ("polars", lambda pl, values: pl.Series(values)),
    "polars categories": ("polars", lambda pl, values: pl.Series(values, dtype=pl.Categorical)),
    "polars enum": ("polars", lambda pl, values: pl.Series(values, dtype=pl.Enum(list(COLOURS.labels)))),
    "polars frame": ("polars", lambda pl, values: pl.DataFrame({"colour": values})),
    "polars lazy": ("polars", lambda pl, values: pl.LazyFrame({"colour": values})),
}


@pytest.mark.parametrize("kind", ARRAYS)
@given(values=st.lists(st.sampled_from(COLOURS.labels), min_size=1, max_size=20))
def test_arrays_of_labels(kind: str, values: list[str]) -> None:
    wanted = [[COLOURS.labels.index(value)] for value in values]
    assert rows(hb.Collection.from_values(ARRAYS[kind](values), COLOURS)) == wanted


@pytest.mark.parametrize("kind", SERIES)
def test_series_and_frames_of_labels(kind: str) -> None:
    library, make = SERIES[kind]
    values = ["red", "grün", "blue", "red", "", "green"]
    people = hb.Collection.from_values(make(frames(library), values), COLOURS)
    assert rows(people) == [[COLOURS.labels.index(value)] for value in values]


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_unknown_label_is_reported_by_its_number(kind: str) -> None:
    with pytest.raises(hb.InvalidRecord) as caught:
        hb.Collection.from_values(ARRAYS[kind](["red", "secret", "secret"]), COLOURS)
    assert str(caught.value) == "record 2 has a label that is not in the schema (5 labels: red, green, …)"


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_frames_with_a_column_for_every_label(library: str) -> None:
    make = pa.table if library == "pyarrow" else frames(library).DataFrame
    for saw in ([0, 1, 1], [False, True, True], [0.0, 1.0, 1.0], ["0", "TRUE", "true"]):
        frame = make({"age": [30, 40, 50], "saw": saw, "hammer": [1, 0, 1]})
        assert rows(hb.Collection.from_values(frame, TOOLS)) == [[0], [1], [0, 1]]
    frame = make({"saw": [0, 1, 7], "hammer": [1, 0, 1]})
    with pytest.raises(hb.InvalidRecord, match=r"^record 3 \(column 'saw'\) must be 0, 1, true or false$"):
        hb.Collection.from_values(frame, TOOLS)
    with pytest.raises(hb.InvalidRecord, match=r"^record 3 has more labels than max_set = 1 allows$"):
        hb.Collection.from_values(make({"saw": [0, 1, 1], "hammer": [1, 0, 1]}), FEW)
    frame = make({"saw": [0, 1, None], "hammer": [1, 0, 1]})
    with pytest.raises(hb.InvalidRecord, match=r"^record 3 \(column 'saw'\) must have a value, but it is missing$"):
        hb.Collection.from_values(frame, TOOLS)
    with pytest.raises(hb.InvalidInput, match=r"must have one column, or a column for every label; select .*, got 2"):
        hb.Collection.from_values(make({"saw": [0], "x": [1]}), TOOLS)


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_series_of_lists_and_of_booleans(library: str) -> None:
    make = pa.array if library == "pyarrow" else frames(library).Series
    assert rows(hb.Collection.from_values(make([["saw", "hammer"], [], ["saw"]]), TOOLS)) == [[0, 1], [], [1]]
    assert rows(hb.Collection.from_values(make([True, False]), hb.Schema.bits(["crashed"]))) == [[0], []]
    for lists, wording in (
        ([["saw"], ["saw", "secret"]], "record 2 has a label that is not in the schema (2 labels: hammer, saw)"),
        ([["saw"], ["saw", "saw"]], "record 2 has a label twice"),
        ([["saw"], None], "record 2 must have a value, but it is missing"),
        ([["saw"], ["saw", None]], "record 2 must be a list of labels, but has an empty item"),
    ):
        with pytest.raises(hb.InvalidRecord) as caught:
            hb.Collection.from_values(make(lists), TOOLS)
        assert str(caught.value) == wording


@given(st.lists(st.one_of(st.none(), st.lists(st.sampled_from(TOOLS.labels), max_size=3)), max_size=12))
def test_arrow_lists_have_the_problems_of_python_lists(values: list[list[str] | None]) -> None:
    found = []
    for given_values in (
        values,
        np.array([*values, None], object)[:-1],
        pa.array(values, pa.list_(pa.string())),
        pa.array([["x"], *values], pa.large_list(pa.string())).slice(1),
    ):
        for schema in (TOOLS, FEW):
            try:
                found.append((schema, repr(rows(hb.Collection.from_values(given_values, schema)))))
            except hb.InvalidRecord as error:
                found.append((schema, str(error)))
    assert len(set(found)) == 2


def test_missing_values_of_all_kinds() -> None:
    for values in (
        pa.array(["red", None]),
        pa.array(["red", None]).dictionary_encode(),
        np.array(["red", None], object),
        np.array(["red", np.nan], object),
        ["red", float("nan")],
    ):
        with pytest.raises(hb.InvalidRecord, match=r"^record 2 must have a value, but it is missing$"):
            hb.Collection.from_values(values, COLOURS)


def test_integers_that_may_be_labels_or_indices_are_refused() -> None:
    """Labels "1", "2", "3" and an array of 1, 2: as indices, every answer would move to the next label."""
    ages = hb.Schema.one_hot(["1", "2", "3"])
    with pytest.raises(hb.InvalidInput, match="must be strings, because the labels are numbers"):
        hb.Collection.from_values(np.array([1, 2]), ages)
    assert rows(hb.Collection.from_values(pa.array([1, 2]), ages)) == [[0], [1]]
    assert rows(hb.Collection.from_values(np.array([1, 2]), hb.Schema.one_hot(3))) == [[1], [2]]


def test_a_label_that_ends_with_zero_bytes_is_not_confused() -> None:
    schema = hb.Schema.one_hot(["a", "a\0"])
    assert rows(hb.Collection.from_values(np.array(["a"]), schema)) == [[0]]
    assert rows(hb.Collection.from_values(["a\0"], schema)) == [[1]]


def test_errors_of_libraries_do_not_show_values() -> None:
    pd = frames("pandas")
    for values in (
        pd.Series(["red", 7, "secret"], dtype=object),
        pd.Series([{"secret": 1}]),
        pd.DataFrame([["secret", "secret"]], columns=["x", "x"]),
        pa.array([{"secret": 1}]),
        pa.array([1.5]),
        pa.scalar("secret"),
    ):
        with pytest.raises(hb.InvalidInput, match=r"^values must ") as caught:
            hb.Collection.from_values(values, COLOURS)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Series:
        """A series of an unknown library."""

        dtype = "str"

    import_module = importlib.import_module

    def without(name: str, package: str | None = None) -> ModuleType:
        if name == "narwhals":
            raise ImportError
        return import_module(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(MissingExtra, match=r"^Reading Arrow data and data frames needs the extra 'frames'"):
        hb.Collection.from_values(Series(), COLOURS)


@pytest.mark.parametrize("kind", ["text", "Arrow", "dictionary"])
def test_labels_are_compared_without_a_step_of_python_for_each(kind: str) -> None:
    values = ARRAYS[kind](["red", "blue"] * 50_000)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        people = hb.Collection.from_values(values, COLOURS)
    finally:
        sys.setprofile(None)
    assert people.counts().tolist() == [50_000, 0, 50_000, 0, 0]
    assert calls < 2000
