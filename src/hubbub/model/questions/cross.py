"""A question about combinations: the cross-table of other questions."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hubbub.documents import Fields
from hubbub.errors import check_whole, kind_of, reject
from hubbub.model.questions.answers import Document, Rule, quoted
from hubbub.model.questions.choice import Choice, Flag
from hubbub.model.questions.number import Number
from hubbub.model.questions.scale import Scale

MAX_CELLS = 10**6
BETWEEN = " × "
Counted = Choice | Flag | Scale
"""Questions whose answers are one of several categories."""


@dataclass(frozen=True, slots=True, init=False)
class Cross:
    """The cross-table of two or more other questions, which are named: how many people gave which combination.

    >>> Cross("colour", "dark mode")
    Cross('colour', 'dark mode')
    """

    kind: ClassVar[str] = "cross"
    rule: ClassVar[Rule] = "one"
    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        for name in names:
            if not isinstance(name, str):
                reject("the names of a cross-table", f"be strings, not {kind_of(name)}")
        check_whole("the number of questions of a cross-table", len(names), 2, 8)
        if len(set(names)) != len(names):
            reject("the names of a cross-table", "be distinct")
        object.__setattr__(self, "names", names)

    @property
    def unit(self) -> str:
        """The unit of its results."""
        return "people"

    def to_document(self) -> Document:
        """Return the question as a JSON object."""
        return {"kind": self.kind, "names": list(self.names)}

    @classmethod
    def from_document(cls, read: Fields) -> "Cross":
        """Read the question from the fields of a JSON object."""
        return cls(*read.texts("names"))

    def __repr__(self) -> str:
        return f"Cross({', '.join(map(repr, self.names))})"


def cell_label(labels: Sequence[str]) -> str:
    """Return the label of a cell from the labels of its questions; those that contain the separator are quoted.

    >>> cell_label(["red", "yes"]), cell_label(["2 × 3", "yes"])
    ('red × yes', '"2 × 3" × yes')
    """
    return BETWEEN.join(quoted(label, BETWEEN) for label in labels)


def cell_labels(axes: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the labels of all cells, the last axis fastest.

    >>> cell_labels((("a", "b"), ("x", "y")))
    ('a × x', 'a × y', 'b × x', 'b × y')
    """
    return tuple(map(BETWEEN.join, itertools.product(*([quoted(label, BETWEEN) for label in axis] for axis in axes))))


def sides(cross: Cross, questions: Mapping[str, object]) -> tuple[Counted, ...]:
    """Return the questions of a cross-table; raises unless they are counted, and not too many together.

    >>> sides(Cross("a", "b"), {"a": Flag(), "b": Flag(missing=True)})
    (Flag(missing=False), Flag(missing=True))
    """
    found: list[Counted] = []
    for name in cross.names:
        question = questions.get(name)
        if not isinstance(question, Choice | Flag | Scale):
            reason = ": a Number cannot be in a cross-table" if isinstance(question, Number) else ""
            must = f"name questions of the survey that are a Choice, a Flag or a Scale{reason}"
            reject(f"the cross-table of {name!r}", must)
        found.append(question)
    cells = 1
    for question in found:
        cells *= question.sizes[-1]
    check_whole("the number of cells of a cross-table", cells, 4, MAX_CELLS)
    return tuple(found)
