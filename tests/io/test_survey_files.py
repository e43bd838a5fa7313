# ruff: noqa: E501
"""Survey files: what they mean, and errors that name the question and the key."""

import inspect
from pathlib import Path

import pytest

import hubbub as hb
from hubbub.errors import InvalidInput
from hubbub.io.surveys import HINT, KINDS, STARTER, read_survey, survey_keys
from hubbub.model.questions.survey import _KINDS

WHOLE = """
[questions.colour]
kind = "choice"
labels = ["red", "blue"]
missing = true

[questions."dark mode"]
kind = "flag"
missing = true
weight = 0.5

[questions."load time"]
kind = "scale"
low = 0
high = 4096
buckets = 256
unit = "ms"
levels = [16, 1]
missing = true
weight = 2

[questions.price]
kind = "scale"
low = 1
high = 1000
buckets = 3
log = true

[questions.age]
kind = "scale"
edges = [0, 18, 65, 120]

[questions.memory]
kind = "number"
low = 0
high = 65536
unit = "MB"
variance = true
missing = true
digits = [4, 4]

[questions."colour × dark mode"]
kind = "cross"
names = ["colour", "dark mode"]
"""


def test_a_file_is_the_survey_that_python_would_make() -> None:
    survey = hb.Survey.from_toml(WHOLE)
    assert survey.schema == hb.Schema.survey(
        {
            "colour": hb.Choice(["red", "blue"], missing=True),
            "dark mode": hb.Flag(missing=True),
            "load time": hb.Scale(0, 4096, buckets=256, unit="ms", levels=[16, 1], missing=True),
            "price": hb.Scale(1, 1000, buckets=3, log=True),
            "age": hb.Scale(edges=[0, 18, 65, 120]),
            "memory": hb.Number(0, 65_536, unit="MB", variance=True, missing=True, digits=[4, 4]),
            "colour × dark mode": hb.Cross("colour", "dark mode"),
        }
    )
    assert survey.weights == {"dark mode": 0.5, "load time": 2.0}
    assert hb.Survey.from_toml(WHOLE.encode()) == survey


def test_read_survey_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "survey.toml"
    path.write_text(WHOLE)
    assert read_survey(path) == read_survey(str(path)) == hb.Survey.from_toml(WHOLE)
    path.write_text("[questions.a]")
    with pytest.raises(InvalidInput) as caught:
        read_survey(path)
    assert caught.value.__notes__ == [str(path), HINT]


def test_the_weights_are_those_of_a_plan() -> None:
    survey = hb.Survey.from_toml('[questions.a]\nkind = "flag"\nweight = 16\n[questions.b]\nkind = "flag"')
    plan = hb.plan(survey.schema, 1000, epsilon=1.0, delta=1e-6, trust="nobody", weights=survey.weights)
    assert plan.schema == survey.schema


def test_the_file_to_begin_with_has_every_kind() -> None:
    schema = hb.Survey.from_toml(STARTER).schema
    assert {question.kind for _, question in schema.questions.items} == set(KINDS)


FLAG = '[questions."a b"]\nkind = "flag"\n'
SCALE = '[questions."a b"]\nkind = "scale"\n'
NUMBER = '[questions."a b"]\nkind = "number"\n'
CHOICE = '[questions."a b"]\nkind = "choice"\n'
CROSS = '[questions."a b"]\nkind = "cross"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'a survey file must consist of tables such as [questions."load time"]'),
        ("title = 3\n" + FLAG, "a survey file must consist of tables such as [questions.\"load time\"], but it has the key 'title'"),
        ("questions = 3", 'a survey file must consist of tables such as [questions."load time"]'),
        ("[questions", "a survey file must be TOML: expected ']' at the end of a table declaration"),
        ("[questions]", "the number of questions must be a whole number in [1, 1,000], got 0"),
        (FLAG + FLAG, "a survey file must be TOML: cannot declare ('questions', 'a b') twice"),
        ("[questions]\n'a b' = 3", "question 'a b': a question must be a table of keys, not int"),
        ('[questions."a b"]', "question 'a b': kind must be given; it is one of choice, flag, scale, number, cross"),
        ('[questions."a b"]\nkind = 3', "question 'a b': kind must be 'choice', 'flag', 'scale', 'number' or 'cross', got 3"),
        (FLAG + "low = 3", "question 'a b': 'low' must be one of the keys of the kind 'flag': kind, missing, weight"),
        (FLAG + "Missing = true", "question 'a b': 'Missing' must be one of the keys of the kind 'flag': kind, missing, weight"),
        (FLAG + "missing = 1", "question 'a b': missing must be True or False, got 1"),
        (FLAG + "weight = 0", "question 'a b': weight must be in [1e-06, 1,000,000], got 0.0"),
        (FLAG + "weight = nan", "question 'a b': weight must be in [1e-06, 1,000,000], got nan"),
        (FLAG + "weight = '2'", "question 'a b': weight must be a number in [1e-06, 1,000,000], got '2'"),
        (FLAG + "[questions.c]\nkind = 'flag'\n[questions.x]\nkind = 'cross'\nnames = ['a b', 'c']\n[questions.y]\nkind = 'cross'\nnames = ['c', 'a b']", "the cross-table 'y' must be of other questions than the cross-table 'x'"),
        (CHOICE, "question 'a b': labels must be given for the kind 'choice'"),
        (CHOICE + "labels = 'red'", "question 'a b': labels must be a list of strings, not str"),
        (CHOICE + "labels = ['red']", "question 'a b': the number of labels must be a whole number"),
        (CHOICE + "labels = ['red', 3]", "question 'a b': labels must be strings, but label 2 is of type int"),
        (SCALE + "low = 0\nhigh = 9", "question 'a b': a scale must be given low, high and buckets, or edges"),
        (SCALE + "low = 0\nhigh = inf\nbuckets = 3", "question 'a b': high must be a finite number of at most 1e150 in size, got inf"),
        (SCALE + "low = '0'\nhigh = 9\nbuckets = 3", "question 'a b': low must be a finite number, got '0'"),
        (SCALE + "low = 0\nhigh = 9\nbuckets = 2.5", "question 'a b': buckets must be a whole number in [2, 65,536], got 2.5"),
        (SCALE + "edges = [3, 2, 1]", "question 'a b': edges must ascend"),
        (SCALE + "edges = [1, 2, 3]\nlow = 1", "question 'a b': edges must be given without low, high, buckets and log"),
        (NUMBER + "high = 9", "question 'a b': low must be given for the kind 'number'"),
        (NUMBER + "low = 9\nhigh = 9", "question 'a b': high must be above low = 9, got 9.0"),
        (NUMBER + "low = 1979-05-27\nhigh = 9", "question 'a b': low must be a finite number"),
        (NUMBER + "low = 0\nhigh = 9\nbuckets = 4", "question 'a b': 'buckets' must be one of the keys of the kind 'number': kind, low,"),
        (CROSS, "question 'a b': names must be given for the kind 'cross'"),
        (CROSS + "names = 'xy'", "question 'a b': names must be a list of the names of questions"),
        (CROSS + "names = ['x', 'y']", "question 'a b': names must be those of choices, flags and scales of the file, but 'x' is none"),
    ],
)  # fmt: skip
def test_errors_name_the_question_and_the_key(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        hb.Survey.from_toml(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a = 1" + "0" * 5000, "numbers of at most a few hundred digits"), ("#" * 2**21, "at most 1,048,576 characters")],
    ids=["digits", "size"],
)
def test_files_that_take_long_to_read_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        hb.Survey.from_toml(text)


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(InvalidInput, match="a survey file must be UTF-8 text"):
        hb.Survey.from_toml(b"\xff")


def test_the_reference_has_every_argument_of_every_question() -> None:
    """The keys are those of the constructors, and the kinds those of plans."""
    assert KINDS.keys() == _KINDS.keys()
    for name, (made, _) in _KINDS.items():
        if name != "cross":
            assert set(inspect.signature(made).parameters) == set(KINDS[name].keys)
            required = {
                key for key, one in inspect.signature(made).parameters.items() if one.default is inspect.Parameter.empty
            }
            assert {key for key, one in KINDS[name].keys.items() if one.required} == required
    text = survey_keys()
    assert [line[4:] for line in text.splitlines() if line.startswith("### ")] == list(KINDS)
    for kind in KINDS.values():
        assert all(f"| `{key}` | {one.type} |" in text for key, one in kind.all_keys.items())
