"""The page may ask for legal values: all others are refused, with a message that does not repeat them."""

from typing import Any

import pytest
from tests.studio.conftest import INQUIRY, QUESTIONS

from hubbub.documents import Json
from hubbub.errors import WireError
from hubbub.model.schema import Schema
from hubbub.studio.inquiry import Inquiry


def test_kinds() -> None:
    read = Inquiry.from_document
    assert read(INQUIRY).schema == Schema.one_hot(3)
    assert read({**INQUIRY, "kind": "any"}).schema == Schema.bits(3)
    assert read({**INQUIRY, "kind": "few", "k": 2}).schema == Schema.at_most(2, 3)
    assert read({**INQUIRY, "kind": "strings", "d": 64}).schema == Schema.strings(64)
    survey = read({**INQUIRY, "kind": "survey", "questions": QUESTIONS}).schema
    assert survey.questions.names == ("colour", "dark mode", "age", "load time")


def test_trust() -> None:
    read = Inquiry.from_document
    assert read(INQUIRY).allows("nobody", clear=False)
    assert not read(INQUIRY).allows("shuffling", clear=True)
    assert read({**INQUIRY, "clear": True}).allows("shuffling", clear=True)
    assert not read({**INQUIRY, "clear": True}).allows("shuffler-noise", clear=True)
    assert read({**INQUIRY, "trust": "shuffler-noise"}).allows("shuffler-noise", clear=True)
    assert read({**INQUIRY, "compromised": 7}).honest_fraction == 0.93


BAD: list[dict[str, Any]] = [
    {"kind": "all"},
    {"d": 1},
    {"d": 2001},
    {"d": "12"},
    {"kind": "few", "k": 4},
    {"kind": "few", "k": 0},
    {"n": 9},
    {"n": 2e3},
    {"epsilon": 0},
    {"epsilon": 21},
    {"delta": 0},
    {"delta": 0.5},
    {"rounds": 0},
    {"rounds": 1001},
    {"trust": "all"},
    {"clear": 1},
    {"compromised": 91},
    {"compromised": 0.5},
    {"joint": None},
    {"kind": "survey"},
    {"kind": "survey", "questions": {}},
    {"kind": "survey", "questions": QUESTIONS * 4},
    {"kind": "survey", "questions": [QUESTIONS[1], QUESTIONS[1]]},
    {"kind": "survey", "questions": [{"name": "", "kind": "flag"}]},
    {"kind": "survey", "questions": [{"name": "x" * 61, "kind": "flag"}]},
    {"kind": "survey", "questions": [{"name": "x", "kind": "cross"}]},
    {"kind": "survey", "questions": [{"name": "x", "kind": "flag", "weight": 2}]},
    {"kind": "survey", "questions": [{"name": "x", "kind": "choice", "labels": ["a"]}]},
    {"kind": "survey", "questions": [{"name": "x", "kind": "choice", "labels": ["a", ""]}]},
    {"kind": "survey", "questions": [{"name": "x", "kind": "choice", "labels": ["a", "a"]}]},
    {"kind": "survey", "questions": [{"name": "x", "kind": "number", "low": 1, "high": 0}]},
    {"kind": "survey", "questions": [{"name": "x", "kind": "scale", "low": 0, "high": 1, "buckets": 2000}]},
    {"kind": "survey", "questions": ["flag"]},
    {"more": 1},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_others_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(WireError) as caught:
        Inquiry.from_document({**INQUIRY, **bad})
    assert "must" in str(caught.value)


@pytest.mark.parametrize("bad", [None, [], "one", 5, {}], ids=str)
def test_other_documents_are_refused(bad: Json) -> None:
    with pytest.raises(WireError, match="must be an object"):
        Inquiry.from_document(bad)
