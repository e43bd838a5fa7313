"""Schemas as sets of questions: columns, documents, and what distinguishes a question with a name from one without."""

import itertools
from typing import Any

import pytest

import hubbub as hb
from hubbub.model.questions import Column

SCHEMAS: dict[str, tuple[hb.Schema, Column, dict[str, Any]]] = {
    "one_hot": (
        hb.Schema.one_hot(["a", "b", "c"]),
        Column("", 0, 3),
        {"kind": "one_hot", "labels": ["a", "b", "c"], "max_set": 1},
    ),
    "bits": (
        hb.Schema.bits(["a", "b"]),
        Column("", 0, 2, "any", 2),
        {"kind": "bits", "labels": ["a", "b"], "max_set": 2},
    ),
    "at_most": (
        hb.Schema.at_most(2, 4),
        Column("", 0, 4, "at_most", 2),
        {"kind": "at_most", "labels": ["0", "1", "2", "3"], "max_set": 2},
    ),
    "strings": (
        hb.Schema.strings(8, cut=True),
        Column("", 0, 0, "text"),
        {"kind": "strings", "max_bytes": 8, "cut": True},
    ),
    "survey": (
        hb.Schema.survey({"x": hb.Flag()}),
        Column("x", 0, 2),
        {"kind": "survey", "questions": [{"name": "x", "kind": "flag", "missing": False}], "derived": []},
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_has_questions_columns_and_a_document(name: str) -> None:
    schema, column, document = SCHEMAS[name]
    assert schema.columns == (column,)
    assert schema.form == name
    assert schema.named == (name == "survey")
    assert (schema.text is not None) == (name == "strings")
    assert schema.to_document() == document
    assert hb.Schema.from_document(document) == schema


def test_only_the_name_distinguishes_a_survey_of_one_choice() -> None:
    alone, asked = hb.Schema.one_hot(["a", "b"]), hb.Schema.survey({"q": hb.Choice(["a", "b"])})
    assert alone.questions.only == asked.questions.only
    assert alone != asked
    assert alone.labels == ("a", "b")
    assert asked.labels == ("q: a", "q: b")


def test_labels_without_a_name_may_be_any_text() -> None:
    labels = ["", "\n", "x" * 300]
    assert hb.Schema.one_hot(labels).labels == tuple(labels)
    with pytest.raises(hb.InvalidInput, match="printable"):
        hb.Choice(labels)


@pytest.mark.parametrize("question", [hb.Several(["a", "b"]), hb.Text(8)])
def test_a_survey_refuses_questions_that_stand_alone(question: Any) -> None:
    with pytest.raises(hb.InvalidInput, match="must be a Choice, Flag, Scale, Number or Cross, not"):
        hb.Schema.survey({"q": question})


@pytest.mark.parametrize("name", ["", " "])
def test_a_survey_refuses_questions_without_a_name(name: str) -> None:
    with pytest.raises(hb.InvalidInput, match="the name of a question must be"):
        hb.Schema.survey({name: hb.Flag()})
    document = {"kind": "survey", "questions": [{"name": name, "kind": "flag", "missing": False}], "derived": []}
    with pytest.raises(hb.WireError, match="the name of a question must be"):
        hb.Schema.from_document(document)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_legal_combinations_of_a_column_are_those_of_an_enumeration(size: int) -> None:
    every = list(itertools.product((0, 1), repeat=size))
    columns = [Column("", 0, size, "any", size), *(Column("", 0, size, "at_most", most) for most in range(1, size + 1))]
    for column in [Column("", 0, size), *columns]:
        legal = [one for one in every if sum(one) <= column.max_set and (column.rule != "one" or sum(one) == 1)]
        assert column.legal == len(legal)
        assert column.legal_with_label == sum(one[0] for one in legal)
        assert column.density == pytest.approx(sum(one[0] for one in legal) / len(legal))
