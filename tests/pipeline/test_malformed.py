"""Malformed plans, values and arguments raise their documented errors, which never contain data."""

import json
import re
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.pipeline.points import SCHEMAS, N, collection, plan_of

import hubbub as hb
from hubbub import errors
from hubbub.pipeline import device
from hubbub.pipeline.records import Packed, SetBits
from hubbub.pipeline.shuffle import shuffle_blocks
from hubbub.wire.batches import decode_header

PLAN = plan_of("at_most", "flip among Poisson fakes")
SECRET = "ostrich"
NOISE = ("protocol", "noise", 0)


def edited(*path: str | int, to: object) -> str:
    document = json.loads(PLAN.to_json())
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    if to is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return json.dumps(document)


TEXT = PLAN.to_json()
PLANS: list[str | bytes] = [
    "", " ", "null", "[]", "7", '"plan"', "{}", "{", TEXT[:-1], TEXT + "}", TEXT + TEXT, "\ufeff" + TEXT,
    b"\xff\xfe", TEXT.encode("utf-16"), TEXT.replace('"n":', '"n":1,"n":', 1), TEXT.replace("400", "NaN", 1),
    TEXT.replace("400", "Infinity", 1), TEXT.replace("400", "1e999", 1), TEXT.replace("400", "4" * 5000, 1),
    "[" * 100_000,
    edited("id", to="0" * 64), edited("id", to=PLAN.id.upper()), edited("id", to=...), edited("id", to=5),
    edited("extra", to=1), edited("format", to="hubbub plan 1"), edited("format", to=...),
    edited("n", to=401), edited("n", to=0), edited("n", to=-1), edited("n", to=400.0), edited("n", to="400"),
    edited("n", to=True), edited("n", to=None), edited("n", to=10**13),
    edited("stderr", to=0), edited("stderr", to=-1), edited("stderr", to="1"), edited("stderr", to=...),
    edited("stderr", to="inf"),
    edited("honest_fraction", to=0), edited("honest_fraction", to=1.5), edited("honest_fraction", to=False),
    edited("schema", to=[]), edited("schema", "kind", to="any"), edited("schema", "kind", to="one_hot"),
    edited("schema", "kind", to="bits"), edited("schema", "labels", to=[]), edited("schema", "labels", to=["v", "v"]),
    edited("schema", "labels", to=[1, 2, 3]), edited("schema", "labels", to="vwxyz"), edited("schema", "max_set", to=0),
    edited("schema", "max_set", to=6), edited("schema", "max_set", to=2.0), edited("schema", "more", to=1),
    edited("schema", "labels", to=["\ud800", "w", "x", "y", "z"]),
    edited(*NOISE, "flip", to=2**47), edited(*NOISE, "flip", to=-1), edited(*NOISE, "flip", to=0.1),
    edited(*NOISE, "flip", to=0), edited("protocol", "k", to=0), edited("protocol", "k", to=1.0),
    edited("protocol", "release", to="all"), edited("protocol", "release", to="category"),
    edited(*NOISE, "m", to=-1),
    edited(*NOISE, "m", to=1.5), edited(*NOISE, "m", to=True), edited(*NOISE, "m", to=None),
    edited(*NOISE, "m", "distribution", to="cauchy"), edited(*NOISE, "m", "scale", to=0),
    edited(*NOISE, "m", "scale", to=-1),
    edited(*NOISE, "m", "shift", to=-1), edited(*NOISE, "m", "shift", to=0.5),
    edited(*NOISE, "m", "shift", to=...),
    edited(*NOISE, "q", to=0.1), edited("protocol", "q", to=0.1),
    edited("protocol", "noise", to=[]), edited("protocol", "noise", to={}), edited(*NOISE, to=None),
    edited("guarantee", to=None), edited("guarantee", "epsilon", to=-1),
    edited("guarantee", "epsilon", to="infinite"), edited("guarantee", "delta", to=2),
    edited("guarantee", "delta", to="inf"),
    edited("guarantee", "n", to=7), edited("guarantee", "basis", to="faith"), edited("guarantee", "basis", to="notes"),
    edited("guarantee", "solved", to="n"), edited("guarantee", "method", to=7),
    edited("guarantee", "assumptions", to=[]),
    edited("guarantee", "assumptions", "honest", to="all"), edited("guarantee", "assumptions", "shuffler", to=1),
    edited("guarantee", "assumptions", "count", to=None), edited("guarantee", "assumptions", "more", to=0),
]  # fmt: skip


def assert_worded(error: errors.InvalidInput) -> None:
    """Assert that the message contains neither a placeholder nor the secret."""
    text = str(error)
    assert SECRET not in text
    assert not re.search(r"got '?(others?|another|something else|more|none|nothing|one twice)\b", text), text


@pytest.mark.parametrize("text", PLANS, ids=range(len(PLANS)))
def test_plans(text: str | bytes) -> None:
    with pytest.raises(errors.WireError) as caught:
        hb.Plan.from_json(text)
    assert_worded(caught.value)


ONE, MANY, FEW = SCHEMAS["one_hot"], SCHEMAS["bits"], SCHEMAS["at_most"]
VALUES: list[tuple[Any, hb.Schema]] = [
    ([SECRET], ONE), (["red", SECRET], ONE), (["red", None], ONE), (["red", 1], ONE), ([["red"]], ONE), ([b"red"], ONE),
    ("red", ONE), (b"red", ONE), (7, ONE), (None, ONE), ({"red"}, MANY), ([{}, {SECRET: 1}], MANY),
    (np.array([0, 4]), ONE), (np.array([-1]), ONE), (np.array([0.0]), ONE), (np.array([True]), ONE),
    (np.array(["red", SECRET]), ONE), (np.array(["red", None], object), ONE), (np.array([b"red"]), ONE),
    (np.ma.array([0, 1], mask=[False, True]), ONE), (np.array([["red"]]), ONE), ([{"a": 0}], MANY), ({"a": [1]}, MANY),
    (np.zeros((2, 4)), ONE), (np.zeros((2, 4), int), ONE), (np.ones((2, 4), bool), ONE), (np.full((2, 4), 2), ONE),
    (np.zeros((2, 3), int), ONE), (np.zeros((2, 4, 1), int), ONE), (np.zeros(0), ONE), (np.array(None), ONE),
    ([SECRET], MANY), (["a"], MANY), ([["a", "a"]], MANY), ([["a", SECRET]], MANY), ([[1]], MANY), ([7], MANY),
    ([None], MANY), ([iter([SECRET])], MANY),
    (np.array([1, 0]), MANY), (np.zeros((2, 4), bool), MANY), (np.array([["a"]]), MANY), (np.full((1, 3), -1), MANY),
    ([["v", "w", "x"]], FEW), ([["v"], [["w"]]], FEW), (np.ones((1, 5), bool), FEW), ([True], FEW), ([["V"]], FEW),
    ([True, 1], hb.Schema.bits(1)), ([True, None], hb.Schema.bits(1)), (np.array([1, 0]), hb.Schema.bits(1)),
]  # fmt: skip


@pytest.mark.parametrize(("values", "schema"), VALUES, ids=range(len(VALUES)))
def test_values(values: object, schema: hb.Schema) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        hb.Collection.from_values(values, schema)
    assert_worded(caught.value)


@pytest.mark.parametrize(
    ("values", "schema", "wording"),
    [
        (["red", SECRET], ONE, "record 2 has a label that is not in the schema (4 labels: red, green, …)"),
        (["red", None], ONE, "record 2 must have a value, but it is missing"),
        ([["a"], ["a", SECRET]], MANY, "record 2 has a label that is not in the schema (3 labels: a, b, …)"),
        ([["a"], SECRET], MANY, "record 2 must be a list of labels, not str"),
        ([["a"], [], 7], MANY, "record 3 must be a list of labels, not int"),
        ([["a", "a"]], MANY, "record 1 has a label twice"),
        ([[], ["v", "w", "x"]], FEW, "record 2 has more labels than max_set = 2 allows"),
        (np.array([0, 1, 4]), ONE, "record 3 has an index outside [0, 3]"),
        (np.array([[1, 0, 0, 0], [1, 1, 0, 0]]), ONE, "record 2 must have exactly one label"),
        (np.array([[1, 0, 0], [0, 2, 0]]), MANY, "record 2 (column 'b') must be 0, 1, true or false"),
    ],
    ids=range(10),
)
def test_invalid_records_are_numbered_from_1(values: Any, schema: hb.Schema, wording: str) -> None:
    with pytest.raises(errors.InvalidRecord) as caught:
        hb.Collection.from_values(values, schema)
    assert str(caught.value) == wording
    assert caught.value.record == int(wording.split()[1])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (SECRET, "one_hot"), (None, "one_hot"), (["red"], "one_hot"), (0, "one_hot"), (True, "one_hot"), ("a", "bits"),
        ([SECRET], "bits"), (["a", "a"], "bits"), (7, "bits"), (["v", "w", "x"], "at_most"), ([1], "at_most"),
    ],
)  # fmt: skip
def test_values_on_a_device(value: object, kind: str) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^the value must ") as caught:
        device.payloads(value, plan_of(kind, "flip"))
    assert_worded(caught.value)


FLIP, SPLIT = plan_of("one_hot", "flip"), plan_of("one_hot", "split")
PEOPLE = collection(ONE, N)
ARGUMENTS: list[Callable[[], object]] = [
    lambda: hb.Collection.from_values(["red"], "red"),  # type: ignore[arg-type]
    lambda: hb.Collection.from_packed(np.zeros((2, 2), np.uint8), ONE),
    lambda: hb.Collection.from_packed(np.array([[16]], np.uint8), ONE),
    lambda: hb.Collection.from_packed(np.array([[3]], np.uint8), ONE),
    lambda: hb.Collection(ONE, SetBits(np.array([0, 9], np.uint32))),
    lambda: hb.Collection(ONE, SetBits(np.array([0, 1], np.uint32), np.array([1, 2]))),
    lambda: hb.Collection(ONE, SetBits(np.array([0, 1], np.int64))),
    lambda: hb.Collection(ONE, Packed(np.array([[1]], np.uint8))),
    lambda: hb.Collection(ONE, np.array([0, 1], np.uint32)),  # type: ignore[arg-type]
    lambda: hb.Collection(FEW, SetBits(np.array([1, 1], np.uint32), np.array([2]))),
    lambda: hb.Collection(FEW, SetBits(np.array([0, 1], np.uint32), np.array([2, 1]))),
    lambda: hb.Collection(FEW, SetBits(np.array([0], np.uint32))),
    lambda: hb.Collection(MANY, Packed(np.array([[8]], np.uint8))),
    lambda: hb.Collection(MANY, SetBits(np.array([0], np.uint32), np.array([1]))),
    lambda: hb.Collection.concatenate([]),
    lambda: hb.Collection.concatenate([PEOPLE, collection(MANY, 3)]),
    lambda: hb.randomize(["red"], FLIP),  # type: ignore[arg-type]
    lambda: hb.randomize(PEOPLE, FLIP.id),  # type: ignore[arg-type]
    lambda: hb.randomize(PEOPLE, FLIP, fakes=1),
    lambda: hb.randomize(PEOPLE, plan_of("one_hot", "clear among fakes"), fakes=301),
    lambda: hb.randomize(PEOPLE, plan_of("one_hot", "clear among binomial fakes"), fakes=3),
    lambda: hb.Reports(FLIP.id, np.zeros((1, 1), np.uint8), 1),  # type: ignore[arg-type]
    lambda: hb.Reports(FLIP, np.zeros((1, 2), np.uint8), 1),
    lambda: hb.Reports(FLIP, np.zeros((1, 1), np.int64), 1),
    lambda: hb.Reports(FLIP, np.array([[16]], np.uint8), 1),
    lambda: hb.Reports(FLIP, np.zeros((1, 1), np.uint8), -1),
    lambda: hb.Reports(FLIP, np.zeros((1, 1), np.uint8), 1.0),  # type: ignore[arg-type]
    lambda: hb.Reports(SPLIT, np.array([4], np.uint8), 1),
    lambda: hb.Reports(SPLIT, np.array([1], np.uint16), 1),
    lambda: hb.Reports(SPLIT, np.array([[1]], np.uint8), 1),
    lambda: hb.Reports(SPLIT, [1], 1),  # type: ignore[arg-type]
    lambda: hb.Reports(SPLIT, np.array([1], np.uint8), 1, fakes=-1),
    lambda: hb.Reports(SPLIT, np.arange(4, dtype=np.uint8)[::2], 1),
    lambda: hb.Reports(SPLIT, np.array([1], np.uint8), 1, 0, 1),  # type: ignore[arg-type]
    lambda: hb.Reports(SPLIT, np.array([1], np.uint8), 0, shuffled=True),
    lambda: hb.shuffle(PEOPLE),  # type: ignore[arg-type]
    lambda: shuffle_blocks(PEOPLE, FLIP, tempfile.TemporaryFile),  # type: ignore[arg-type]
    lambda: shuffle_blocks([PEOPLE], FLIP, tempfile.TemporaryFile),  # type: ignore[list-item]
    lambda: shuffle_blocks(hb.shuffle(hb.randomize(PEOPLE, FLIP)), FLIP, tempfile.TemporaryFile),
    lambda: hb.shuffle(hb.randomize(PEOPLE, FLIP)) + hb.randomize(PEOPLE, FLIP),
    lambda: hb.tally(PEOPLE),  # type: ignore[arg-type]
    lambda: hb.estimate(hb.randomize(PEOPLE, FLIP), FLIP).question,  # type: ignore[arg-type]
    lambda: hb.estimate(hb.tally(hb.randomize(PEOPLE, FLIP)), FLIP.id).question,  # type: ignore[arg-type]
    lambda: hb.estimate(hb.tally(hb.Reports(FLIP, np.zeros((3, 1), np.uint8), 4)), FLIP).question,
    lambda: hb.estimate(hb.tally(hb.randomize(PEOPLE, FLIP)), FLIP).question.interval(1.0),
    lambda: hb.estimate(hb.tally(hb.randomize(PEOPLE, FLIP)), FLIP).question.interval(float("nan")),
    lambda: hb.joint(hb.randomize(PEOPLE, FLIP), FLIP, []),
    lambda: hb.joint(hb.randomize(PEOPLE, FLIP), FLIP, ["red", "red"]),
    lambda: hb.joint(hb.randomize(PEOPLE, FLIP), FLIP, [SECRET]),
    lambda: hb.joint([], FLIP, ["red"]),
    lambda: hb.joint(hb.randomize(PEOPLE, SPLIT), SPLIT, ["red"]),
    lambda: hb.joint(hb.randomize(PEOPLE, FLIP), FLIP, ["red", "blue"]).marginal(["green"]),
    lambda: hb.joint(hb.randomize(PEOPLE, FLIP), FLIP, ["red", "blue"]).conditional({}),
    lambda: hb.joint(hb.randomize(PEOPLE, FLIP), FLIP, ["red"]).conditional({"red": True}),
    lambda: hb.plan_from(ONE, 100, hb.Protocol(0.1)),
    lambda: hb.plan_from(MANY, 100, hb.Protocol(0.1, release="category"), epsilon=1.0),
    lambda: hb.plan_from(ONE, 100, hb.Protocol(0.25, release="category"), epsilon=1.0),
    lambda: hb.plan("red", 100, hb.Budget(1, 1e-6)),  # type: ignore[arg-type]
    lambda: hb.plan(ONE, 100, (1, 1e-6)),  # type: ignore[arg-type]
    lambda: hb.plan(ONE, 100, hb.Budget(1, 1e-6), max_messages=0.5),
    lambda: hb.plan(ONE, 0, hb.Budget(1, 1e-6)),
    lambda: decode_header(b"HUBB"),
]  # fmt: skip


@pytest.mark.parametrize("call", ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_arguments(call: Callable[[], object]) -> None:
    with pytest.raises(errors.InvalidInput, match=" must ") as caught:
        call()
    assert_worded(caught.value)


def test_the_corpus_is_large() -> None:
    assert len(PLANS) + len(VALUES) + len(ARGUMENTS) >= 180


@pytest.mark.parametrize("value", [{"a": False}, {}, "a", 7, None])
def test_a_device_accepts_only_lists_of_labels(value: object) -> None:
    """Regression: the keys of a mapping were taken for labels that are set."""
    with pytest.raises(errors.InvalidInput, match="the value must be a list of labels"):
        device.encode(value, MANY)
