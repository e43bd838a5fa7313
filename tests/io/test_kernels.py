"""The Arrow kernels for other engines: record batches in, record batches and tallies out."""

import pickle
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.io import kernels
from hubbub.io.directories import Manifest, Part, read_directory

COLOURS = hb.Schema.one_hot(["red", "green", "blue"])
TOOLS = hb.Schema.bits(["hammer", "saw"])
PLAN = hb.plan_from(COLOURS, 2, hb.Protocol(0.25), epsilon=3.0)
OTHER = hb.plan_from(COLOURS, 3, hb.Protocol(0.25), epsilon=3.0)
FIXED = hb.plan_from(COLOURS, 10, hb.Protocol(0.25, m=7), delta=1e-6)
SPLIT = hb.plan_from(hb.Schema.one_hot(300), 2, hb.Protocol(0.001, release="bits"), epsilon=30.0)
LISTS = hb.plan_from(TOOLS, 2, hb.Protocol(0.25), epsilon=3.0)
SURVEY = hb.plan_from(
    hb.Schema.survey({"dark": hb.Flag(), "load": hb.Number(0, 8, digits=[3, 3])}),
    10,
    hb.Protocol.survey([hb.Noise(m=hb.Fakes.laplace(4.0, 60))] * 3),
    delta=1e-6,
)
TABLES = {
    "records": (PLAN, pa.table({"colour": ["red", "blue"] * 50})),
    "bits": (SPLIT, pa.table({"label": [str(i) for i in range(100)]})),
    "lists": (LISTS, pa.table({"tools": [["saw"], [], ["saw", "hammer"], ["hammer"]] * 25})),
    "columns": (LISTS, pa.table({"saw": [True, False] * 50, "hammer": [1, 0] * 50})),
    "survey": (SURVEY, pa.table({"dark": [True, False] * 50, "load": np.arange(100) / 13})),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["table", "batch"])
def test_reports_are_those_of_randomize(name: str, kind: str) -> None:
    plan, table = TABLES[name]
    given = table if kind == "table" else table.combine_chunks().to_batches()[0]
    found = kernels.reports(given, plan, entropy=SeededStreamNotForPeople(5))
    source = SeededStreamNotForPeople(5)
    wanted = hb.randomize(hb.Collection.from_values(table, plan.schema, entropy=source), plan, entropy=source)
    assert isinstance(found, pa.RecordBatch)
    assert found.schema == kernels.reports_schema(plan)
    assert found.to_pylist() == [{"n": 100, "fakes": 0, "messages": wanted.messages.tobytes()}]
    assert np.array_equal(kernels.decode(found, plan).messages, wanted.messages)
    assert kernels.tally(found, plan).counts.tolist() == hb.tally(wanted).counts.tolist()


def test_default_noise_is_fresh() -> None:
    plan, table = TABLES["records"]
    assert kernels.reports(table, plan) != kernels.reports(table, plan)


def test_a_tally_adds_up_over_rows_chunks_and_layouts() -> None:
    plan, table = TABLES["records"]
    made = [kernels.reports(table.slice(start, 20), plan) for start in range(0, 100, 20)]
    joined = pa.Table.from_batches(made)
    plain = pa.table(
        {
            name: pa.array(joined.column(name).to_pylist(), joined.schema.field(name).type)
            for name in joined.schema.names
        }
    )
    small = joined.cast(pa.schema([("n", pa.int32()), ("fakes", pa.uint8()), ("messages", pa.binary())]))
    wanted = sum((kernels.tally(one, plan) for one in made), start=0)
    for table_ in (joined, plain, small, joined.combine_chunks(), pa.Table.from_batches(made, joined.schema)):
        found = kernels.tally(table_, plan)
        assert found.counts.tolist() == wanted.counts.tolist()  # type: ignore[union-attr]
        assert (found.n, found.messages) == (100, 100)
    part = kernels.tally(joined.slice(1, 3), plan)
    assert (part.n, part.messages) == (60, 60)
    assert kernels.tally(joined.slice(0, 0), plan).n == 0


def test_a_collection_takes_the_schema_of_a_plan() -> None:
    plan, table = TABLES["records"]
    for schema in (plan, plan.schema):
        assert kernels.collection(table, schema, "colour").counts().tolist() == [50, 0, 50]


def test_fixed_fakes_are_shared_out() -> None:
    table = pa.table({"colour": ["red"] * 10})
    with pytest.raises(hb.InvalidInput, match="fakes must be given, because the plan fixes 7 fakes in total"):
        kernels.reports(table, FIXED)
    made = [kernels.reports(table.slice(start, 5), FIXED, fakes=share) for start, share in ((0, 7), (5, 0))]
    total = kernels.tally(pa.Table.from_batches(made), FIXED)
    assert (total.n, total.fakes, total.messages) == (10, 7, 17)


def test_reports_of_an_engine_become_a_directory(tmp_path: Any) -> None:
    """Engines that write Parquet themselves need only a manifest."""
    import pyarrow.parquet as pq

    plan, table = TABLES["records"]
    made = kernels.reports(table, plan)
    pq.write_table(pa.Table.from_batches([made]), tmp_path / "part-0.parquet", compression="none")
    Manifest.of(plan, [Part(name="part-0.parquet", rows=1, messages=100)], n=100).write(tmp_path)
    assert hb.tally(read_directory(tmp_path, plan)).counts.tolist() == kernels.tally(made, plan).counts.tolist()


def test_a_plan_travels_to_workers() -> None:
    assert pickle.loads(pickle.dumps(SURVEY)).id == SURVEY.id


GOOD = kernels.reports(TABLES["records"][1], PLAN)
BAD: dict[str, tuple[Any, str]] = {
    "no batch": (b"messages", "batch must be a record batch or a table of Arrow, not bytes"),
    "no columns": (pa.table({"n": [1]}), "batch must have the columns n, fakes and messages"),
    "negative": (
        pa.table({"n": [-1], "fakes": [0], "messages": [b""]}),
        "the column 'n' of reports must have numbers in",
    ),
    "too large": (pa.table({"n": [2**62] * 4, "fakes": [0] * 4, "messages": [b""] * 4}), "must have numbers in"),
    "float": (pa.table({"n": [1.5], "fakes": [0], "messages": [b""]}), "must have whole numbers"),
    "null": (pa.table({"n": [1], "fakes": [0], "messages": pa.array([None], pa.binary())}), "must not be null"),
    "text": (pa.table({"n": [1], "fakes": [0], "messages": ["a"]}), "must be binary values"),
    "illegal": (pa.table({"n": [1], "fakes": [0], "messages": [b"\1\x08"]}), "payload 2 must have zero padding bits"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_reports(name: str) -> None:
    batch, message = BAD[name]
    with pytest.raises(hb.InvalidInput) as caught:
        kernels.tally(batch, PLAN)
    assert message in str(caught.value)


def test_bad_arguments() -> None:
    table, wrong = TABLES["records"][1], cast("Any", "plan")
    for call, message in (
        (lambda: kernels.collection(table, wrong), "schema must be a Schema or a Plan, not str"),
        (lambda: kernels.collection([1], PLAN), "batch must be a record batch or a table"),
        (lambda: kernels.collection(table, PLAN, entropy=wrong), "entropy must be a function"),
        (lambda: kernels.reports(table, wrong), "plan must be of type Plan"),
        (lambda: kernels.reports(table, PLAN, fakes=1), "fakes must be"),
        (lambda: kernels.reports_schema(wrong), "plan must be of type Plan"),
        (lambda: kernels.decode(GOOD, wrong), "plan must be of type Plan"),
        (lambda: kernels.decode(GOOD, OTHER), "must belong to the same plan"),
    ):
        with pytest.raises(hb.InvalidInput, match=message):
            call()
