"""Tallies of the Spark engine are those of the local engine, for all kinds of schemas, releases and fakes."""

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hubbub as hb
from hubbub import spark as hs
from hubbub.io.directories import Manifest, write_directory
from hubbub.io.reports import read_reports, write_reports
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.reports import Batch
from hubbub.spark import coins, engine, tasks

KEY = bytes(range(32))
COLOURS = hb.Schema.one_hot(["red", "green", "blue"])
TOOLS = hb.Schema.bits(["hammer", "saw", "file"])
FEW = hb.Schema.at_most(2, ["hammer", "saw", "file"])
WIDE = hb.Schema.bits(130)
SURVEY = hb.Schema.survey(
    {
        "colour": hb.Choice(["red", "green", "blue"], missing=True),
        "dark": hb.Flag(),
        "load": hb.Number(0, 8, digits=[3, 3]),
        "age": hb.Scale(0, 100, buckets=4, levels=[2, 1]),
    }
)
ANSWERS = len(SURVEY.attributes)
N = 600
COLOUR = "element_at(array('red', 'green', 'blue'), cast(id % 3 + 1 as int)) as colour"
LISTS = "filter(array(if(id % 2 = 0, 'saw', null), if(id % 3 = 0, 'file', null)), x -> x is not null) as tools"
TRUTHS = ("id % 2 = 0 as hammer", "id % 3 = 0 as saw", "cast(id % 5 = 0 as int) as file")
TEXTS = ("if(id % 2 = 0, 'true', '0') as hammer", "id % 3 = 0 as saw", "cast(id % 5 = 0 as double) as file")
MANY = tuple(f"id % {i + 2} = 0 as `{i}`" for i in range(130))
ASKED = (
    "if(id % 7 = 0, null, element_at(array('red', 'green', 'blue'), cast(id % 3 + 1 as int))) as colour",
    "id % 2 = 0 as dark",
    "cast(id % 90 as decimal(6,2)) / 10 as load",
    "id % 120 as age",
)


def made(schema: hb.Schema, protocol: hb.Protocol, n: int = 500, **rest: Any) -> hb.Plan:
    return hb.plan_from(schema, n, protocol, delta=1e-6, **rest)


def later(schema: hb.Schema, protocol: hb.Protocol, **rest: Any) -> Callable[[], hb.Plan]:
    """Return the plan as a function: collecting the tests computes none."""
    return functools.partial(made, schema, protocol, **rest)


CASES: dict[str, tuple[Callable[[], hb.Plan], tuple[str, ...]]] = {
    "one-hot records": (later(COLOURS, hb.Protocol(0.2)), (COLOUR,)),
    "one-hot copies": (later(COLOURS, hb.Protocol(0.3, k=3)), (COLOUR,)),
    "one-hot bits": (later(COLOURS, hb.Protocol(0.2, release="bits")), (COLOUR,)),
    "one-hot category": (later(COLOURS, hb.Protocol(0.2, release="category")), (COLOUR,)),
    "one-hot numbers": (later(hb.Schema.one_hot(4), hb.Protocol(0.2)), ("id % 4 as answer",)),
    "fixed fakes": (later(COLOURS, hb.Protocol(0.2, m=77)), (COLOUR,)),
    "fixed fakes, some dishonest": (later(COLOURS, hb.Protocol(0.2, m=1203), honest_fraction=0.9), (COLOUR,)),
    "users' binomial fakes": (later(COLOURS, hb.Protocol(0.0, m=hb.Fakes.binomial(3, 0.5))), (COLOUR,)),
    "users' Poisson fakes": (later(COLOURS, hb.Protocol(0.0, m=hb.Fakes.poisson(1.5))), (COLOUR,)),
    "shuffler's fakes": (later(COLOURS, hb.Protocol(0.0, m=hb.Fakes.laplace(3.0, 60))), (COLOUR,)),
    "shuffler's fakes of bits": (
        later(TOOLS, hb.Protocol(0.0, m=hb.Fakes.gaussian(5.0, 60), release="bits")),
        (LISTS,),
    ),
    "lists": (later(TOOLS, hb.Protocol(0.2)), (LISTS,)),
    "lists of few": (later(FEW, hb.Protocol(0.2)), (LISTS,)),
    "lists of few as bits": (later(FEW, hb.Protocol(0.2, release="bits")), (LISTS,)),
    "truth values": (later(TOOLS, hb.Protocol(0.2)), TRUTHS),
    "spelled truth values": (later(TOOLS, hb.Protocol(0.2)), TEXTS),
    "many truth values": (later(WIDE, hb.Protocol(0.2, release="bits")), MANY),
    "survey, categories": (
        later(SURVEY, hb.Protocol.survey([hb.Noise(0.1)] * ANSWERS, release="category")),
        ASKED,
    ),
    "survey, bits": (later(SURVEY, hb.Protocol.survey([hb.Noise(0.1)] * ANSWERS)), ASKED),
    "survey, shuffler's fakes": (
        later(SURVEY, hb.Protocol.survey([hb.Noise(m=hb.Fakes.laplace(4.0, 60))] * ANSWERS)),
        ASKED,
    ),
    "survey, users' fakes": (
        later(SURVEY, hb.Protocol.survey([hb.Noise(m=hb.Fakes.binomial(2, 0.5))] * ANSWERS)),
        ASKED,
    ),
}


@functools.cache
def case(name: str) -> tuple[hb.Plan, tuple[str, ...]]:
    plan, columns = CASES[name]
    return plan(), columns


def people(spark: Any, columns: tuple[str, ...], n: int = N) -> Any:
    return spark.range(0, n, 1, 3).selectExpr(*columns)


def same(one: hb.Tally, two: hb.Tally) -> None:
    names = ("plan", "n", "fakes", "messages", "batches", "smallest_batch", "unshuffled", "fewest_fakes")
    assert {name: getattr(one, name) for name in names} == {name: getattr(two, name) for name in names}
    assert one.counts.tolist() == two.counts.tolist()


def listed(path: Path, plan: hb.Plan) -> list[bytes]:
    """Return the payloads of a batch, read by the local engine, in their order."""
    found = np.concatenate([block.reshape(-1).view(np.uint8) for block in read_reports(str(path), plan).blocks])
    return [row.tobytes() for row in found.reshape(-1, plan.payload)]


@pytest.mark.parametrize("name", CASES)
def test_both_engines_count_alike(spark: Any, tmp_path: Path, name: str) -> None:
    plan, columns = case(name)
    frame, reports, batch = people(spark, columns), tmp_path / "reports", tmp_path / "batch"
    header = hs.randomize(frame, plan, reports)
    assert (header.n, header.shuffled, header.plan) == (N, False, plan.id)
    assert header == Manifest.read(reports).header
    if plan.protocol.fixed_fakes:
        extra = 0 if plan.honest_fraction == 1 else (N - plan.n) * (plan.protocol.fixed_fakes // plan.n)
        assert header.fakes == plan.protocol.fixed_fakes + extra
    local = hb.tally(read_reports(str(reports), plan))
    same(hs.tally(spark, reports, plan), local)
    assert hs.shuffle(spark, reports, plan, batch, files=3).n == N
    mixed = hb.tally(read_reports(str(batch), plan))
    same(hs.tally(spark, batch, plan), mixed)
    before, after = Counter(listed(reports, plan)), Counter(listed(batch, plan))
    assert before <= after
    assert bool(after - before) == plan.protocol.has_shuffler_fakes
    assert mixed.smallest_batch == N


@pytest.mark.parametrize("name", CASES)
def test_one_pass_is_a_shuffled_batch(spark: Any, name: str) -> None:
    plan, columns = case(name)
    found = hs.simulate(people(spark, columns), plan)
    assert (found.n, found.batches, found.smallest_batch, found.unshuffled) == (N, 1, N, 0)
    if plan.schema.named:
        hb.estimate(found, plan)
    else:
        answers = hb.estimate(found, plan).question
        truth = hb.Collection.from_values(people(spark, columns).toArrow(), plan.schema).counts()
        assert (np.abs(answers.values - truth) < 6 * answers.stderr + 1e-9).all()


@pytest.mark.parametrize(
    "name", ["one-hot copies", "fixed fakes", "truth values", "users' Poisson fakes", "survey, bits"]
)
def test_reports_are_those_of_the_local_engine_with_the_same_coins(spark: Any, tmp_path: Path, name: str) -> None:
    plan, columns = case(name)
    frame = people(spark, columns)
    hs.randomize(frame, plan, tmp_path / "reports", key=KEY)
    wanted: list[bytes] = []
    table = frame.toArrow()
    for place in range(3):
        part = table.slice(place * N // 3, N // 3)
        source = coins.rounding(KEY, plan, place, 0)
        encoded = hb.Collection.from_values(part, plan.schema, entropy=source)
        share = 0 if plan.protocol.fixed_fakes else None
        found = randomize(encoded, plan, fakes=share, entropy=coins.noise(KEY, plan, place, 0, encoded))
        wanted += [row.tobytes() for row in found.messages.reshape(-1).view(np.uint8).reshape(-1, plan.payload)]
    assert listed(tmp_path / "reports", plan)[: len(wanted)] == wanted


def test_batches_of_the_local_engine_are_read(spark: Any, tmp_path: Path) -> None:
    plan, _ = case("lists")
    values = [["saw"], ["file", "hammer"], []] * 200
    reports = hb.randomize(hb.Collection.from_values(values, plan.schema), plan)
    write_reports(f"{tmp_path}/reports/", plan, reports)
    write_reports(f"{tmp_path}/rows/", plan, hb.shuffle(reports), rows=True)
    same(hs.tally(spark, tmp_path / "reports", plan), hb.tally(reports))
    same(hs.tally(spark, tmp_path / "rows", plan), hb.tally(hb.shuffle(reports)))
    both = hs.tally(spark, tmp_path / "reports", plan) + hs.tally(spark, tmp_path / "rows", plan)
    assert (both.batches, both.unshuffled) == (1, N)
    hs.shuffle(spark, tmp_path / "reports", plan, tmp_path / "batch", rows=True)
    assert Counter(listed(tmp_path / "batch", plan)) == Counter(listed(tmp_path / "reports", plan))
    assert Manifest.read(tmp_path / "batch").rows


def test_batches_of_a_lake_are_read(spark: Any, tmp_path: Path) -> None:
    """The service that exported them says how many people are certified, and at how many messages it cut off."""
    plan, _ = case("lists")
    mixed = hb.shuffle(hb.randomize(hb.Collection.from_values([["saw"], []] * 300, plan.schema), plan))
    header = replace(mixed.header, certified=plan.n, slots=3)
    write_directory(tmp_path / "lake", plan, Batch(header, (mixed.messages,)))
    found, local = hs.tally(spark, tmp_path / "lake", plan), hb.tally(read_reports(f"{tmp_path}/lake", plan))
    same(found, local)
    assert (found.slots, found.smallest_batch) == (local.slots, local.smallest_batch) == (3, plan.n)
    assert found.fewest_fakes == local.fewest_fakes
    assert hb.estimate(found, plan).guarantee == hb.estimate(local, plan).guarantee


def test_several_directories_become_one_batch(spark: Any, tmp_path: Path) -> None:
    plan, columns = case("shuffler's fakes")
    paths = [str(tmp_path / name) for name in ("one", "two")]
    for path in paths:
        hs.randomize(people(spark, columns, 300), plan, path)
    header = hs.shuffle(spark, paths, plan, tmp_path / "batch")
    assert header.n == 600
    before = Counter(listed(tmp_path / "one", plan)) + Counter(listed(tmp_path / "two", plan))
    assert before <= Counter(listed(tmp_path / "batch", plan))


def test_wide_tallies_are_added_on_the_workers(spark: Any, tmp_path: Path) -> None:
    width = 3 * tasks.SLICE + 5
    plan = made(hb.Schema.one_hot(width), hb.Protocol(2**-40, release="bits"), n=500)
    hs.randomize(spark.range(0, N, 1, 3).selectExpr("id * 41 as answer"), plan, tmp_path / "reports")
    found = hs.tally(spark, tmp_path / "reports", plan)
    assert np.flatnonzero(found.counts).tolist() == [41 * i for i in range(N)]
    same(found, hb.tally(read_reports(str(tmp_path / "reports"), plan)))


def test_blocks_do_not_depend_on_the_batches_of_arrow(spark: Any) -> None:
    plan, columns = case("truth values")
    name, found = "spark.sql.execution.arrow.maxRecordsPerBatch", []
    before = spark.conf.get(name)
    try:
        for size in ("7", "1000"):
            spark.conf.set(name, size)
            found.append(engine.reports_of(people(spark, columns), plan, None, KEY).toArrow())
    finally:
        spark.conf.set(name, before)
    assert found[0] == found[1]


def test_groups_do_not_depend_on_the_batches_of_arrow() -> None:
    import pyarrow as pa

    plan, _ = case("one-hot bits")
    messages = bytes(i % 3 for i in range(1000))
    for size in (1, 7, 999, 1000, 1001):
        for step in (1, 3, 500, 1000):
            cut = [messages[i : i + step] for i in range(0, 1000, step)]
            batches = [pa.record_batch({"messages": pa.array([one], pa.binary())}) for one in cut]
            found = [group.tobytes() for group in tasks._regrouped(batches, plan, size)]
            assert found == [messages[i : i + size] for i in range(0, 1000, size)]


def test_resumed_runs_make_the_same_reports(spark: Any, tmp_path: Path) -> None:
    plan, columns = case("shuffler's fakes")
    for name in ("one", "two"):
        hs.randomize(people(spark, columns), plan, tmp_path / name, key=KEY)
        hs.shuffle(spark, tmp_path / "one", plan, tmp_path / f"batch {name}", key=KEY)
    assert listed(tmp_path / "one", plan) == listed(tmp_path / "two", plan)
    batches = [listed(tmp_path / f"batch {name}", plan) for name in ("one", "two")]
    assert Counter(batches[0]) == Counter(batches[1])
    assert batches[0] != batches[1]
    # The same reports in another directory are other input: if they were other reports, equal fakes would cancel.
    hs.shuffle(spark, tmp_path / "two", plan, tmp_path / "batch of two", key=KEY)
    assert Counter(listed(tmp_path / "batch of two", plan)) != Counter(batches[0])
    hs.randomize(people(spark, columns), plan, tmp_path / "fresh")
    hs.shuffle(spark, tmp_path / "fresh", plan, tmp_path / "batch fresh")
    assert Counter(listed(tmp_path / "batch fresh", plan)) != Counter(batches[0])
