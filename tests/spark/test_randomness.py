"""The distribution of coins and of the order on Spark, each with a control that the same test rejects."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import hubbub as hb
from hubbub import spark as hs
from hubbub.bits.entropy import KeyedStream
from hubbub.io.reports import read_reports
from hubbub.pipeline.randomize import randomize
from hubbub.spark import engine

KEY = bytes(range(32))
Q = 0.1778
SCHEMA = hb.Schema.bits(3)
PLAN = hb.plan_from(SCHEMA, 1000, hb.Protocol(Q), delta=1e-6)
TRUTHS = ("id % 2 = 0 as `0`", "id % 3 = 0 as `1`", "id % 5 = 0 as `2`")
UNLIKELY = 1e-6
PEOPLE = 20_000
ORDERED = hb.plan_from(hb.Schema.one_hot(PEOPLE), 1000, hb.Protocol(2**-40, release="bits"), delta=1e-6)
"""A plan that practically keeps every answer, so that a message tells whose it is."""


def evaluated(frame: Any, plan: hb.Plan = PLAN, key: bytes = KEY) -> NDArray[np.uint8]:
    """Return the messages of a lazy data frame of reports."""
    blocks = engine.reports_of(frame, plan, None, key).toArrow().column("messages")
    return np.concatenate([np.frombuffer(block.as_buffer(), np.uint8) for block in blocks])


def packed(frame: Any) -> NDArray[np.uint8]:
    columns = frame.toArrow().columns
    bits: NDArray[np.uint8] = np.sum(
        [np.asarray(column).astype(np.uint8) << i for i, column in enumerate(columns)], axis=0, dtype=np.uint8
    )
    return bits


def flips_p_value(flips: NDArray[np.uint8], q: float) -> float:
    """Test that all bits are flipped independently with probability q: the eight patterns of flips."""
    ones = np.bitwise_count(np.arange(8, dtype=np.uint8))
    expected = len(flips) * q**ones * (1 - q) ** (3 - ones)
    return float(stats.chisquare(np.bincount(flips, minlength=8), expected).pvalue)


def test_coins_have_their_distribution(spark: Any) -> None:
    frame = spark.range(0, 100_000, 1, 4).selectExpr(*TRUTHS)
    flips = packed(frame) ^ evaluated(frame)
    assert flips_p_value(flips, Q) > UNLIKELY
    # Controls: another probability, and flips that are not independent.
    assert flips_p_value(flips, Q + 0.01) < UNLIKELY
    assert flips_p_value(np.where(np.bitwise_count(flips) == 1, 0, flips), Q) < UNLIKELY


def test_two_evaluations_are_identical(spark: Any) -> None:
    frame = spark.range(0, 3000, 1, 4).selectExpr(*TRUTHS)
    assert np.array_equal(evaluated(frame), evaluated(frame))
    assert not np.array_equal(evaluated(frame), evaluated(frame, key=bytes(32)))


def agreement(one: NDArray[np.uint8], two: NDArray[np.uint8]) -> float:
    """Return how many standard deviations more bits of two patterns of flips agree than independent ones would."""
    chance = 1 - 2 * Q * (1 - Q)
    bits = 3 * len(one)
    same = bits - int(np.bitwise_count(one ^ two).sum())
    return float((same - bits * chance) / np.sqrt(bits * chance * (1 - chance)))


def test_rows_in_another_order_have_independent_coins(spark: Any) -> None:
    frame = spark.range(0, 20_000, 1, 1).selectExpr("id", *TRUTHS)
    other = frame.sortWithinPartitions(frame.id.desc())
    one, two = (each.drop("id") for each in (frame, other))
    flips = [packed(each) ^ evaluated(each) for each in (one, two)]
    assert abs(agreement(*flips)) < 5
    # Control: coins from a seed for each partition, without the content, are the same pad for both orders.
    fixed = [
        packed(each)
        ^ randomize(
            hb.Collection.from_values(each.toArrow(), SCHEMA), PLAN, entropy=KeyedStream(KEY, "coins", 0)
        ).messages[:, 0]
        for each in (one, two)
    ]
    assert agreement(*fixed) > 100


def test_equal_blocks_of_different_people_have_independent_coins(spark: Any) -> None:
    frame = spark.range(0, 20_000, 1, 2).selectExpr("true as `0`", "false as `1`", "true as `2`")
    halves = np.split(packed(frame) ^ evaluated(frame), 2)
    assert abs(agreement(*halves)) < 5
    # Control: without the place in the name of the stream, the second partition repeats the first.
    assert agreement(halves[0], halves[0]) > 100


def order_p_value(order: NDArray[Any]) -> float:
    """Test that the place of a message is independent of the person: a table of eighths by eighths."""
    place = np.arange(len(order)) * 8 // len(order)
    table = np.histogram2d(order * 8 // len(order), place, bins=(8, 8))[0]
    return float(stats.chi2_contingency(table).pvalue)


def neighbours(order: NDArray[Any]) -> int:
    """Return how many neighbours stay neighbours: about two in a uniform order."""
    return int((np.abs(np.diff(order)) == 1).sum())


@pytest.fixture(scope="module")
def unmixed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("order") / "reports"
    hs.randomize(spark.range(0, PEOPLE, 1, 4).selectExpr("id as answer"), ORDERED, path)
    return path


def in_order(path: Path) -> NDArray[np.int64]:
    return np.concatenate(list(read_reports(str(path), ORDERED).blocks)).astype(np.int64)


@pytest.mark.parametrize("files", [1, 5])
def test_the_order_is_uniform(spark: Any, unmixed: Path, tmp_path: Path, files: int) -> None:
    hs.shuffle(spark, unmixed, ORDERED, tmp_path / "batch", files=files)
    order = in_order(tmp_path / "batch")
    assert np.array_equal(np.sort(order), np.arange(PEOPLE))
    assert order_p_value(order) > UNLIKELY
    assert neighbours(order) < 20
    sizes = [part["messages"] for part in _parts(tmp_path / "batch")]
    assert len(sizes) == files
    if files > 1:
        assert stats.chisquare(sizes).pvalue > UNLIKELY
    # Controls: the order of the people; uniform files without the order inside; mixed files of consecutive people.
    before = in_order(unmixed)
    generator = np.random.default_rng(7)
    chosen = generator.integers(0, 5, PEOPLE)
    assert order_p_value(before) < UNLIKELY
    assert order_p_value(np.argsort(chosen, kind="stable")) < UNLIKELY
    assert neighbours(np.argsort(chosen, kind="stable")) > 20
    assert order_p_value(np.concatenate([generator.permutation(part) for part in np.split(before, 5)])) < UNLIKELY


def _parts(path: Path) -> list[dict[str, int]]:
    import json

    return list(json.loads((path / "_hubbub.json").read_text())["parts"])


def test_two_shuffles_have_different_orders(spark: Any, unmixed: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        hs.shuffle(spark, unmixed, ORDERED, tmp_path / name, files=2, key=KEY)
    one, two = in_order(tmp_path / "one"), in_order(tmp_path / "two")
    assert [part["messages"] for part in _parts(tmp_path / "one")] == [
        part["messages"] for part in _parts(tmp_path / "two")
    ]
    assert (one == two).sum() < 20
