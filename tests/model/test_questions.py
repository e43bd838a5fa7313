"""Questions: what may be answered, what answers become, and their JSON."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubbub as hb
from hubbub.checker.document import read
from hubbub.errors import InvalidInput, InvalidRecord, WireError
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Questions, Scale
from hubbub.pipeline import device
from hubbub.report.results import cross_rows

pytestmark = pytest.mark.pipeline


def never(numerator: int) -> bool:
    return False


def always(numerator: int) -> bool:
    return True


SURVEY: dict[str, Question] = {
    "colour": Choice(["red", "green", "blue"]),
    "dark mode": Flag(missing=True),
    "load time": Scale(0, 4096, buckets=256, unit="ms", levels=[16, 1]),
    "memory": Number(0, 65_536, missing=True, variance=True, unit="MB", digits=[4, 4]),
    "colour × dark mode": Cross("colour", "dark mode"),
}
ANSWERS = {"colour": "green", "dark mode": None, "load time": 100.0, "memory": 65_536}


def test_a_record_has_one_category_of_every_attribute() -> None:
    schema = hb.Schema.survey(SURVEY)
    assert [one.size for one in schema.attributes] == [3, 3, 16, 256, 2, 4, 4, 4, 4, 9]
    assert schema.size == math.prod(one.size for one in schema.attributes)
    categories = Questions.create(SURVEY).encode(ANSWERS, never)
    assert categories == (1, 2, 0, 6, 0, 3, 3, 3, 3, 5)
    record = device.encode(ANSWERS, schema)
    assert record.bit_count() == len(schema.attributes)
    chosen = [label for i, label in enumerate(schema.labels) if record >> i & 1]
    assert chosen[:4] == ["colour: green", "dark mode: no answer", "load time: 0 to 256", "load time: 96 to 112"]
    assert chosen[-1] == "colour × dark mode: green × no answer"


def test_derived_questions_have_no_attribute() -> None:
    schema = hb.Schema.survey(SURVEY, derived=["colour"])
    assert schema.attributes[0].question == "dark mode"
    assert len(schema.attributes) == len(hb.Schema.survey(SURVEY).attributes) - 1
    with pytest.raises(InvalidInput, match="Choice or a Flag in a cross-table"):
        hb.Schema.survey({"a": Flag(), "b": Flag()}, derived=["a"])


@pytest.mark.parametrize("derived", [[], ["colour"], ["colour", "dark mode"]])
def test_json_is_read_back(derived: list[str]) -> None:
    schema = hb.Schema.survey(
        {**SURVEY, "log": Scale(1, 1000, buckets=9, log=True), "edges": Scale(edges=[0, 1, 10])}, derived=derived
    )
    assert hb.Schema.from_document(schema.to_document()) == schema


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "poll"},
        {"labels": ["a"]},
        {"labels": "ab"},
        {"missing": 1},
        {"more": 0},
    ],
)
def test_bad_json_is_refused(change: dict[str, object]) -> None:
    document = hb.Schema.survey({"a": Choice(["x", "y"])}).to_document()
    questions = document["questions"]
    assert isinstance(questions, list)
    assert isinstance(questions[0], dict)
    questions[0].update(change)  # type: ignore[arg-type]
    with pytest.raises(WireError):
        hb.Schema.from_document(document)


@pytest.mark.parametrize(
    ("question", "value", "text"),
    [
        (Choice(["x", "y"]), "z", "one of 2 labels"),
        (Choice(["x", "y"]), ["x", "y"], "one label, not of type list"),
        (Choice(["x", "y"]), None, "be given"),
        (Flag(), "yes", "True or False"),
        (Flag(), 1, "True or False"),
        (Flag(), math.nan, "be given"),
        (Scale(0, 9, buckets=3), "4", "a number"),
        (Scale(0, 9, buckets=3), True, "a number"),
        (Scale(0, 9, buckets=3), math.nan, "be given"),
        (Number(0, 9), None, "be given"),
        (Number(0, 9), np.True_, "a number"),
        (Number(0, 9), 1j, "a number"),
    ],
)
def test_bad_answers_are_refused_before_anything_is_sent(question: Question, value: object, text: str) -> None:
    schema = hb.Schema.survey({"asked": question})
    with pytest.raises(InvalidInput, match=f"the answer to 'asked' must .*{text}"):
        device.encode({"asked": value}, schema)
    with pytest.raises((InvalidRecord, InvalidInput)):
        hb.Collection.from_values([{"asked": value}], schema)


def test_unknown_questions_are_refused() -> None:
    schema = hb.Schema.survey({"a": Flag()})
    with pytest.raises(InvalidInput, match="questions of the survey"):
        device.encode({"a": True, "b": False}, schema)
    with pytest.raises(InvalidRecord, match="a question that is not"):
        hb.Collection.from_values([{"a": True, "b": False}], schema)
    with pytest.raises(InvalidInput, match="'b' is not one"):
        hb.Collection.from_values({"a": [True], "b": [True]}, schema)
    with pytest.raises(InvalidInput, match="mapping"):
        device.encode([True], schema)


@pytest.mark.parametrize("value", [-math.inf, -1e300, -(10**400), -1, 0, Fraction(1, 3), 4095, 4096, 10**400, math.inf])
def test_numbers_outside_are_clipped_never_refused(value: float) -> None:
    low, high = Scale(0, 4096, buckets=8), Number(0, 4096, digits=[4, 4])
    bucket = low.bucket(value)
    assert bucket == (0 if value < 512 else 7)
    digits = high.encode(value, never)
    assert digits == ((0, 0) if value < 100 else (3, 3) if value >= 4096 else (2, 3))


@given(st.floats(0, 100), st.sampled_from([(2,) * 6, (4, 4, 4), (3, 5), (10,)]))
def test_rounding_keeps_the_expectation(value: float, digits: tuple[int, ...]) -> None:
    question = Number(0, 100, digits=digits)
    chances: list[int] = []

    def noted(numerator: int) -> bool:
        chances.append(numerator)
        return False

    def level(found: tuple[int, ...]) -> int:
        return sum(digit * math.prod(digits[:place]) for place, digit in enumerate(found))

    below, above = level(question.encode(value, noted)), level(question.encode(value, always))
    chance = Fraction(chances[0], 2**48) if chances else Fraction(0)
    expected = below + (above - below) * chance
    assert above - below in (0, 1)
    assert abs(expected - Fraction(value) / 100 * (question.levels - 1)) <= Fraction(question.levels, 2**46)


def test_logarithmic_buckets_grow_by_the_same_factor() -> None:
    edges = Scale(1, 10_000, buckets=4, log=True).edges
    assert np.allclose(np.diff(np.log10(edges)), 1.0)
    assert (edges[0], edges[-1]) == (1.0, 10_000.0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Choice(["x"]), "at least 2"),
        (lambda: Choice(["x", "x"]), "distinct"),
        (lambda: Choice(["x", "no answer"], missing=True), "no answer"),
        (lambda: Choice("xy"), "list"),
        (lambda: Scale(0, 0, buckets=3), "above low"),
        (lambda: Scale(0, 1), "low, high and buckets, or edges"),
        (lambda: Scale(0, 1, buckets=1), "buckets"),
        (lambda: Scale(0, 1, buckets=3, edges=[0, 1, 2]), "without low"),
        (lambda: Scale(edges=[0, 2, 1]), "ascend"),
        (lambda: Scale(0, 1, buckets=4, log=True), "above 0"),
        (lambda: Scale(0, 1, buckets=8, levels=[3, 2, 1]), "multiple"),
        (lambda: Scale(0, 1, buckets=8, levels=[8, 1]), "less than 8"),
        (lambda: Scale(1e16, 1e16 + 4, buckets=64), "rounding"),
        (lambda: Number(math.nan, 1), "finite"),
        (lambda: Number(0, 1, digits=[1]), "radix"),
        (lambda: Number(0, 1, unit="x" * 21), "unit"),
        (lambda: Cross("a"), "number of questions"),
        (lambda: Cross("a", "a"), "distinct"),
        (lambda: hb.Schema.survey({"a": Flag(), "x": Cross("a", "b")}), "name questions of the survey"),
        (lambda: hb.Schema.survey({"a": Number(0, 1), "b": Flag(), "x": Cross("a", "b")}), "Choice, a Flag or a Scale"),
        (
            lambda: hb.Schema.survey({"a": Flag(), "b": Flag(), "x": Cross("a", "b"), "y": Cross("a", "b")}),
            "the cross-table 'y' must be of other questions than the cross-table 'x'",
        ),
        (
            lambda: hb.Schema.survey({"a": Flag(), "b": Flag(), "x": Cross("a", "b"), "y": Cross("b", "a")}),
            "the cross-table 'y' must be of other questions than the cross-table 'x'",
        ),
        (lambda: hb.Schema.survey({}), "number of questions"),
        (lambda: hb.Schema.survey({"": Flag()}), "printable"),
        (lambda: hb.Schema.survey({"a": "yes"}), "Choice, Flag"),  # type: ignore[dict-item]
        (lambda: hb.Schema.survey([("a", Flag())]), "mapping"),  # type: ignore[arg-type]
    ],
)
def test_bad_questions_are_refused(make: object, text: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput, match=text):
        make()


def test_columns_and_records_give_the_same() -> None:
    """The vectorized encoder is the device's, for answers that are not rounded at random."""
    rng = np.random.default_rng(1)
    n = 200
    columns = {
        "colour": rng.choice(["red", "green", "blue"], n).tolist(),
        "dark mode": [None if u < 0.2 else bool(u < 0.5) for u in rng.random(n)],
        "load time": rng.normal(2000, 2000, n),
        "memory": np.where(rng.random(n) < 0.3, np.nan, 65_536 * rng.integers(-2, 3, n)),
    }
    schema = hb.Schema.survey(SURVEY)
    records = [{name: column[i] for name, column in columns.items()} for i in range(n)]
    expected = np.zeros(schema.width, np.int64)
    for record in records:
        bits = device.encode(record, schema)
        expected += [bits >> i & 1 for i in range(schema.width)]
    for values in (columns, records):
        found = hb.Collection.from_values(values, schema)
        # The square of a number that is neither the middle nor a bound is rounded at random.
        assert (found.counts()[:288] == expected[:288]).all()
        assert found.counts().sum() == n * len(schema.attributes)


def test_random_rounding_of_columns_is_unbiased() -> None:
    question = Number(0, 1, digits=[4, 4])
    schema = hb.Schema.survey({"x": question})
    n = 200_000
    counts = hb.Collection.from_values({"x": np.full(n, 0.3)}, schema).counts()
    total = counts[:4] @ np.arange(4) + 4 * counts[4:] @ np.arange(4)
    # 0.3·15 = 4.5: the sum is 4.5·n with a standard deviation of √n/2.
    assert abs(total - 4.5 * n) < 5 * math.sqrt(n) / 2


@pytest.mark.parametrize(
    "scale",
    [
        hb.Scale(0, 16, buckets=16, levels=[4, 1], missing=True),
        hb.Scale(0, 9, buckets=9, levels=[4, 1]),
        hb.Scale(0, 9, buckets=9, levels=[8, 4, 2, 1], missing=True),
    ],
)
def test_levels_of_a_scale_have_distinct_labels(scale: hb.Scale) -> None:
    """Regression: missing answers, or a last block of one bucket, gave two levels the same label: no schema."""
    schema = hb.Schema.survey({"a": scale})
    assert len(set(schema.labels)) == sum(scale.sizes)
    assert schema.labels[-1] == ("a: no answer" if scale.missing else "a: unused 3")


def test_many_digits_are_refused_before_they_are_multiplied() -> None:
    """The product of a hundred thousand radices takes minutes."""
    with pytest.raises(InvalidInput, match="the number of digits must be"):
        Number(0, 1, digits=[1023] * 100_000)


@pytest.mark.parametrize("label", ["", "a" * 201, "a\x1b[2J", "two\nlines"])
def test_labels_are_short_and_printable(label: str) -> None:
    with pytest.raises(InvalidInput, match="labels must be printable texts of 1 to 200 characters"):
        Choice(["x", label])


def test_cells_with_long_texts_are_refused_before_they_are_made() -> None:
    """A document of 400 kB would otherwise become gigabytes of labels."""
    one, two = (Choice([f"{side}{i:0199}" for i in range(1000)]) for side in "ab")
    with pytest.raises(InvalidInput, match="the cells of all cross-tables must need at most"):
        hb.Schema.survey({"a": one, "b": two, "a × b": Cross("a", "b")})


@pytest.mark.parametrize(
    "questions",
    [
        {"a": Choice(["b: x", "y"]), "a: b": Choice(["x", "z"])},
        {'"a: b"': Choice(["x", "z"]), "a: b": Choice(["x", "z"])},
        {"a:": Choice(["x", " x"]), "a": Choice([": x", " x"])},
        {"a": Choice(["x", "x × y"]), "b": Choice(["y × z", "z"]), "c": Cross("a", "b")},
        {"a": Choice(["x ×", "x"]), "b": Choice(["× y", "y", "× × y"]), "c": Cross("a", "b")},
        {"a": Choice(["×", " "]), "b": Choice([" ", "×", "× ×"]), "d": Choice([" ", "×"]), "c": Cross("a", "b", "d")},
        {"a": Choice(['"x × y"', "x × y"]), "b": Flag(), "c": Cross("a", "b")},
        {"a": Choice([" ", "no"]), "b": Choice(["no", "no × yes"]), "d": Flag(), "c": Cross("a", "b", "d")},
    ],
)
def test_names_and_labels_with_separators_are_a_survey(questions: dict[str, Question]) -> None:
    """Regression: the labels of two categories were equal if names or labels contained the separators."""
    schema = hb.Schema.survey(questions)
    assert len(set(schema.labels)) == schema.width
    plan = hb.plan_from(schema, 100, hb.Protocol.survey([hb.Noise(0.2)] * len(schema.attributes)), delta=1e-3)
    assert hb.Plan.from_json(plan.to_json()) == plan
    assert read(plan.to_json()).id == plan.id


def test_cells_are_found_by_labels_with_separators() -> None:
    questions: dict[str, Question] = {
        "a": Choice(["x", "x × y"]),
        "b": Choice(["y × z", "z"]),
        "c": Cross("a", "b"),
    }
    schema = hb.Schema.survey(questions)
    plan = hb.plan_from(schema, 100, hb.Protocol.survey([hb.Noise(m=hb.Fakes.laplace(2.0, 25))] * 3), delta=1e-3)
    counts = np.array([60, 40, 50, 50, 40, 20, 10, 30], np.int64)
    counts.setflags(write=False)
    tally = hb.Tally(plan=plan.id, n=100, fakes=0, messages=300, batches=1, smallest_batch=100, counts=counts)
    found = hb.estimate(tally, plan)["c"]
    assert isinstance(found, hb.CrossView)
    cells = {(a, b): found[a, b].value for a in ("x", "x × y") for b in ("y × z", "z")}
    assert list(cells.values()) == pytest.approx(counts[4:].tolist())
    assert [row[0] for row in cross_rows(found)[1]] == ["x", "x × y", "total"]


def test_fakes_without_any_variance_are_planned_for() -> None:
    """Regression: a scale so small that the number of fakes is fixed in doubles divided by zero."""
    exact, noisy = (hb.Noise(m=hb.Fakes.laplace(*one)) for one in ((2**-10, 5), (2.0, 25)))
    schema = hb.Schema.survey({"a": Flag(), "b": Flag()})
    plan = hb.plan_from(schema, 100, hb.Protocol.survey([exact, noisy]), epsilon=1.0)
    first, second = hb.question_errors(plan)
    assert first.stderr < 1e-5
    alone = hb.plan_from(hb.Schema.survey({"b": Flag()}), 100, hb.Protocol.survey([noisy]), epsilon=1.0)
    assert second == hb.question_errors(alone)[0]
    assert hb.load_plan(plan.to_json()) == plan
