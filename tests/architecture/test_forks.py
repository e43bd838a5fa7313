"""Places that decide by the kind of a question or a mechanism do not become more."""

import ast
import typing
from pathlib import Path

import pytest
from tools.forks import CLASSES, forks, questions_asked

from hubbub.model.questions import Question

ROOT = Path(__file__).parents[2]
MOST = 665
"""Forks in ``src/hubbub``; lower it whenever the number falls."""


def test_forks_do_not_become_more() -> None:
    found = sum(counted.total() for counted in forks(ROOT / "src" / "hubbub").values())
    assert found <= MOST, "let the question or the mechanism decide: `python -m tools.forks` lists all places"


def test_every_question_is_counted() -> None:
    assert {kind.__name__ for kind in typing.get_args(Question)} <= {
        name for name in CLASSES if CLASSES[name] == "question"
    }


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("isinstance(one, hb.Scale)", {"question"}),
        ("isinstance(one, Several | Text) and not plan.protocol.noise[0].clear", {"question", "mechanism"}),
        ("type(one) is Flag", {"question"}),
        ("column.rule == 'any'", {"rule"}),
        ("rule in ('one', 'text')", {"rule"}),
        ("schema.named", {"schema"}),
        ("len(schema.labels) > 2", set()),
    ],
)
def test_conditions(code: str, asked: set[str]) -> None:
    assert questions_asked(ast.parse(code)) == asked


def test_branches(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text(
        "match question:\n"
        "    case Choice() | Flag():\n        pass\n"
        "    case Scale(low=0) if protocol.sends_bits:\n        pass\n"
        "    case _:\n        pass\n"
        "assert isinstance(question, Choice)\n"
        "found = [one for one in questions if isinstance(one, Number)]\n"
        "TABLE = {Choice: 1, Flag: 2}\n"
        "while isinstance(record, Packed):\n    size = 1 if distribution == 'laplace' else 2\n"
    )
    assert dict(forks(tmp_path)[Path("some.py")]) == {"question": 3, "release": 1, "record": 1, "mechanism": 1}
