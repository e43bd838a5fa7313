"""Answers for an audited program: they have the requested category, and the program reads them as they are meant."""

from pathlib import Path

import numpy as np
import pytest

import hubbub as hb
from hubbub.io.values import read_values
from hubbub.lab.audit.commands import AttributeAnswers, UnreachableCategory
from hubbub.model.questions import Question, Questions

QUESTIONS: dict[str, Question] = {
    'a "colour", or: none': hb.Choice(["red", "a,b", 'say "x"', "1;2"], missing=True),
    "dark mode": hb.Flag(missing=True),
    "age": hb.Scale(0, 100, buckets=10, levels=[4, 2, 1], missing=True),
    "delay": hb.Scale(edges=[-5, 0, 0.1, 2, 100]),
    "income": hb.Number(0.1, 1000.7, digits=[4, 3, 5], variance=True, missing=True),
    "share": hb.Number(-1.5, 2.5),
    "table": hb.Cross("dark mode", "age", 'a "colour", or: none'),
}
SCHEMA = hb.Schema.survey(QUESTIONS, derived=["dark mode"])


@pytest.mark.parametrize("place", range(len(SCHEMA.attributes)))
def test_every_category_that_an_answer_can_have(place: int, tmp_path: Path) -> None:
    attribute, answers = SCHEMA.attributes[place], AttributeAnswers(SCHEMA.questions, place)
    reached: list[int] = []
    for category in range(attribute.size):
        try:
            answers.spell([category])
        except UnreachableCategory:
            continue
        reached.append(category)
    # Ten buckets in blocks of 4 leave one block of 2 and two buckets unused.
    scale = {4: 0, 7: 1, 13: 2}[attribute.size] if attribute.question == "age" else 0
    unused = 3 * 2 * 5 if attribute.question == "table" else scale
    assert len(reached) == attribute.size - unused
    wanted = reached * 3
    path = tmp_path / "answers.csv"
    path.write_bytes(answers.spell(wanted))
    (back,) = read_values(str(path), SCHEMA)
    rows = back.ones(0, len(back))[0].astype(np.int64).reshape(len(back), -1)
    assert (rows[:, place] - attribute.start == np.array(wanted)).all()
    if len(reached) > 4:
        assert len({tuple(row) for row in np.delete(rows, place, axis=1).tolist()}) > 2


def test_a_single_missing_answer_is_not_an_empty_line() -> None:
    answers = AttributeAnswers(Questions.create({"a": hb.Flag(missing=True)}), 0)
    assert answers.spell([2, 1]) == b'a\n""\n1\n'
