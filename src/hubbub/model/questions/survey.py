"""``Questions``: the questions of a schema with their names, and the columns that they are collected as."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

from hubbub.documents import Fields, Json, legal
from hubbub.errors import WireError, check_choice, check_type, check_whole, kind_of, reject
from hubbub.model.questions.answers import Coin, Rule, quoted
from hubbub.model.questions.choice import Choice, Flag, Several
from hubbub.model.questions.cross import Cross, cell_labels, sides
from hubbub.model.questions.number import Number
from hubbub.model.questions.scale import Scale
from hubbub.model.questions.text import Text

MAX_TEXT = 2**26
"""Largest number of characters of the labels of all cross-tables."""
MAX_QUESTIONS = 1000
Question = Choice | Flag | Several | Scale | Number | Cross | Text
Asked = Choice | Flag | Scale | Number
"""Questions of a survey that people answer; cross-tables follow from these."""
_KINDS: dict[str, tuple[type[Asked | Cross], tuple[str, ...]]] = {
    "choice": (Choice, ("labels", "missing")),
    "flag": (Flag, ("missing",)),
    "scale": (Scale, ("edges", "low", "high", "buckets", "missing", "unit", "levels")),
    "number": (Number, ("low", "high", "missing", "variance", "unit", "digits")),
    "cross": (Cross, ("names",)),
}


@dataclass(frozen=True, slots=True)
class Column:
    """Labels that are counted together: every record has exactly one, a limited number, or any; or a string instead."""

    question: str
    """Name of the question that it belongs to."""
    start: int
    """Index of its first label among those of the schema."""
    size: int
    """Number of labels."""
    rule: Rule = "one"
    max_set: int = 1
    """Largest number of labels that a record has."""

    @property
    def stop(self) -> int:
        """Index after its last label."""
        return self.start + self.size

    @property
    def legal(self) -> int:
        """Number of legal combinations of its labels.

        >>> [Column("", 0, 5, rule, most).legal for rule, most in (("one", 1), ("any", 5), ("at_most", 2))]
        [5, 32, 16]
        """
        if self.rule == "one":
            return self.size
        if self.max_set == self.size:
            return 1 << self.size
        return sum(math.comb(self.size, i) for i in range(self.max_set + 1))

    @property
    def legal_with_label(self) -> int:
        """Number of legal combinations with one given label."""
        if self.rule == "one":
            return 1
        if self.max_set == self.size:
            return 1 << (self.size - 1)
        return sum(math.comb(self.size - 1, i - 1) for i in range(1, self.max_set + 1))

    @property
    def density(self) -> float:
        """Probability that a given label is one of a uniform legal combination: of a fake before it is flipped."""
        return float(Fraction(self.legal_with_label, self.legal))


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of a schema in order, each with its name; a single one may have none, which is written "".

    ``derived`` names the questions that have no column of their own because a cross-table gives their answers.

    >>> questions = Questions.create({"colour": Choice(["red", "blue"]), "dark mode": Flag()})
    >>> [column.size for column in questions.columns], questions["dark mode"]
    ([2, 2], Flag(missing=False))
    """

    items: tuple[tuple[str, Question], ...]
    derived: tuple[str, ...] = ()
    asked: tuple[tuple[str, Asked], ...] = field(init=False, compare=False, repr=False)
    """Questions of a survey that people answer, with their names."""
    columns: tuple[Column, ...] = field(init=False, compare=False, repr=False)
    """All columns in order, those of a question next to each other."""
    _named: dict[str, Asked] = field(init=False, compare=False, repr=False)
    _answers: tuple[tuple[str, str, Asked], ...] = field(init=False, compare=False, repr=False)
    """Questions that people answer, with their names and what errors call their answers."""

    def __post_init__(self) -> None:
        if self.named:
            _check_survey(self.items)
        asked = tuple((name, one) for name, one in self.items if isinstance(one, Choice | Flag | Scale | Number))
        object.__setattr__(self, "asked", asked)
        object.__setattr__(self, "_named", dict(asked))
        object.__setattr__(self, "_answers", tuple((name, f"the answer to {name!r}", one) for name, one in asked))
        named = dict(self.items)
        for name in self.derived:
            if not isinstance(named.get(name), Choice | Flag) or not self.crosses(name):
                reject("derived", "name questions of the survey that are a Choice or a Flag in a cross-table", name)
        if len(set(self.derived)) != len(self.derived) or list(self.derived) != sorted(self.derived):
            reject("derived", "be distinct and sorted")
        if self.named and not self.asked:
            reject("a survey", "have at least one question that is not a cross-table")
        object.__setattr__(self, "columns", self._columns())
        self._check_text(named)

    @classmethod
    def single(cls, question: Question) -> Self:
        """Return one question without a name."""
        return cls((("", question),))

    @property
    def named(self) -> bool:
        """True if the questions have names, so that people's answers are mappings from them."""
        return len(self.items) != 1 or self.items[0][0] != ""

    @property
    def only(self) -> Question:
        """The first question, which is the only one if it has no name."""
        return self.items[0][1]

    def _check_text(self, named: Mapping[str, Question]) -> None:
        """Refuse cross-tables whose cells would need long texts, before these are made."""
        size = 0
        for question in named.values():
            if isinstance(question, Cross):
                both = sides(question, named)
                longest = sum(max(map(len, side.attributes[-1])) + 3 for side in both)
                size += longest * math.prod(side.sizes[-1] for side in both)
        if size > MAX_TEXT:
            reject("the cells of all cross-tables", f"need at most {MAX_TEXT:,} characters; shorten the labels", size)

    @classmethod
    def create(cls, questions: Mapping[str, Question], derived: tuple[str, ...] = ()) -> Self:
        """Return the questions of a mapping from names to questions."""
        if not isinstance(questions, Mapping):
            reject("questions", f"be a mapping from names to questions, not {kind_of(questions)}")
        _check_survey(tuple(questions.items()))
        return cls(tuple(questions.items()), tuple(sorted(derived)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all questions."""
        return tuple(name for name, _ in self.items)

    def crosses(self, name: str) -> tuple[str, ...]:
        """Return the names of the cross-tables that a question is in."""
        return tuple(key for key, one in self.items if isinstance(one, Cross) and name in one.names)

    def _columns(self) -> tuple[Column, ...]:
        named, found, start = dict(self.items), [], 0
        for name, question in self.items:
            if isinstance(question, Cross):
                sizes: tuple[int, ...] = (math.prod(side.sizes[-1] for side in sides(question, named)),)
            else:
                sizes = () if name in self.derived else question.sizes
            most = question.max_set if isinstance(question, Several) else 1
            for size in sizes:
                found.append(Column(name, start, size, question.rule, most))
                start += size
        return tuple(found)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all columns, each with the name of its question if it has one; all of them differ."""
        if not isinstance(self.only, Cross) and not self.named:
            return self.only.attributes[0]
        return tuple(f"{name}: {label}" for name, labels in self._groups() for label in labels)

    def _groups(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the labels of every attribute, after the name of its question, which is quoted if it is ambiguous."""
        named = dict(self.items)
        for name, question in self.items:
            shown = quoted(name, ": ")
            if isinstance(question, Cross):
                yield shown, cell_labels([side.attributes[-1] for side in sides(question, named)])
            elif name not in self.derived:
                for group in question.attributes:
                    yield shown, group

    def encode(self, answers: object, coin: Coin) -> tuple[int, ...]:
        """Return the labels of one person, counted within their columns: the category of every column of a survey.

        A question without an entry has no answer. A question without a name is answered as such.

        >>> questions = Questions.create({"a": Flag(), "b": Choice(["x", "y"]), "a × b": Cross("a", "b")})
        >>> questions.encode({"a": True, "b": "x"}, lambda _: False)
        (1, 0, 2)
        """
        if not self.named:
            if isinstance(self.only, Cross | Text):
                reject("the schema", "have labels; use hubbub.pipeline.device.payloads for strings")
            return self.only.encode(answers, coin, "the value")
        if not isinstance(answers, Mapping):
            reject("the answers", f"be a mapping from questions to answers, not {kind_of(answers)}")
        if not answers.keys() <= self._named.keys():
            some = ", ".join(map(repr, list(self._named)[:3]))
            reject("the answers", f"be to the questions of the survey ({some}{', …' * (len(self._named) > 3)})")
        result: list[int] = []
        if len(self.asked) == len(self.items) and not self.derived:
            for name, what, asked in self._answers:
                result += asked.encode(answers.get(name), coin, what)
            return tuple(result)
        found = {name: asked.encode(answers.get(name), coin, what) for name, what, asked in self._answers}
        for name, question in self.items:
            if isinstance(question, Cross):
                cell = 0
                for key in question.names:
                    cell = cell * self._named[key].sizes[-1] + found[key][-1]
                result.append(cell)
            elif name not in self.derived:
                result += found[name]
        return tuple(result)

    def to_document(self) -> dict[str, Json]:
        """Return the questions as a JSON object."""
        listed: list[Json] = [
            {"name": name, **question.to_document()}
            for name, question in self.items
            if not isinstance(question, Several | Text)
        ]
        return {"questions": listed, "derived": list(self.derived)}

    @classmethod
    def from_document(cls, items: list[Json], derived: list[str], what: str) -> Self:
        """Read the questions from JSON values."""
        found: list[tuple[str, Question]] = []
        for place, item in enumerate(items):
            where = f"question {place + 1:,} of {what}"
            kind = item.get("kind") if isinstance(item, dict) else None
            if not isinstance(kind, str) or kind not in _KINDS:
                raise WireError(f"{where} must be an object whose kind is one of {', '.join(_KINDS)}")
            make, keys = _KINDS[kind]
            read = Fields(item, where, "name", "kind", *keys)
            with legal(where):
                found.append((read.text("name"), make.from_document(read)))
        with legal(what):
            _check_survey(tuple(found))
            return cls(tuple(found), tuple(derived))

    def __getitem__(self, name: str) -> Question:
        check_type("name", name, str)
        return dict(self.items)[check_choice("the name of a question", name, self.names)]

    def __len__(self) -> int:
        return len(self.items)


def _check_survey(items: tuple[tuple[str, Question], ...]) -> None:
    """Raise unless questions can stand together in a survey: names, kinds, cross-tables of other questions."""
    check_whole("the number of questions", len(items), 1, MAX_QUESTIONS)
    for name, question in items:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 200:
            reject("the name of a question", "be a printable text of 1 to 200 characters")
        if not isinstance(question, Choice | Flag | Scale | Number | Cross):
            reject(f"the question {name!r}", f"be a Choice, Flag, Scale, Number or Cross, not {kind_of(question)}")
    named = dict(items)
    if len(named) != len(items):
        reject("the names of the questions", "be distinct")
    tables: dict[frozenset[str], str] = {}
    for name, question in items:
        if isinstance(question, Cross):
            sides(question, named)
            # Two tables of the same questions would have every combination counted twice.
            other = tables.setdefault(frozenset(question.names), name)
            if other != name:
                reject(f"the cross-table {name!r}", f"be of other questions than the cross-table {other!r}")
