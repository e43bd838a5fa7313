"""The schema of a collection: its questions, the columns that are counted, and which records are legal."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

from hubbub.documents import Fields, Json, legal
from hubbub.errors import check_choice, check_items, check_type, check_whole, reject
from hubbub.model.questions import Choice, Column, Question, Questions, Several, Text
from hubbub.model.questions.answers import MAX_LABELS, Rule, check_label_names, check_labels, summarize_labels

__all__ = ["MAX_LABELS", "Schema", "check_label_names", "choose_labels", "summarize_labels"]

_FORMS: dict[Rule, str] = {"any": "bits", "one": "one_hot", "at_most": "at_most", "text": "strings"}
"""The constructor, and the kind of the JSON document, of a schema of one question without a name."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The questions of a collection, the columns that they are counted in, and the labels of a record's bits.

    Created by :meth:`bits` (any bits), :meth:`one_hot` (exactly one), :meth:`at_most` (a limited number) or
    :meth:`strings` (one string that nobody listed), each a single question without a name; or by :meth:`survey`
    (several questions, each with columns of which exactly one category is set).

    >>> Schema.one_hot(["red", "green", "blue"])
    Schema.one_hot(3 labels)
    """

    questions: Questions
    labels: tuple[str, ...] = field(init=False, compare=False)
    """The labels of a record's bits; none for strings."""
    attributes: tuple[Column, ...] = field(init=False, compare=False)
    """Columns of which every record has exactly one category: those of a survey, or the only one if one-hot."""

    def __post_init__(self) -> None:
        columns = check_type("questions", self.questions, Questions).columns
        if self.questions.named:
            check_whole("the number of categories of all attributes", columns[-1].stop, 2, MAX_LABELS)
        object.__setattr__(self, "labels", self.questions.labels)
        object.__setattr__(self, "attributes", tuple(one for one in columns if one.rule == "one"))
        if len(columns) > 1 and len(set(self.labels)) != len(self.labels):
            reject("labels", "be distinct")

    @classmethod
    def bits(cls, labels: Sequence[str] | int) -> Self:
        """Records in which any bits may be set; an integer stands for that many numbered labels."""
        return cls(Questions.single(Several(labels)))

    @classmethod
    def one_hot(cls, labels: Sequence[str] | int) -> Self:
        """Records in which exactly one bit is set: one choice out of several."""
        return cls(Questions.single(Choice.unnamed(labels)))

    @classmethod
    def at_most(cls, max_set: int, labels: Sequence[str] | int) -> Self:
        """Records in which at most ``max_set`` bits are set."""
        listed = check_labels(labels, 1)
        return cls(Questions.single(Several(listed, at_most=check_whole("max_set", max_set, 1, len(listed)))))

    @classmethod
    def survey(cls, questions: Mapping[str, Question], *, derived: Iterable[str] = ()) -> Self:
        """Records of answers to several questions, by name; each question has attributes with a noise of their own.

        The planner chooses the digits of numbers and the levels of scales that leave them open, and which questions
        are ``derived`` from a cross-table alone: encode answers with the schema of the plan.

        >>> from hubbub.model.questions import Choice, Flag
        >>> Schema.survey({"colour": Choice(["red", "blue"]), "dark mode": Flag()})
        Schema.survey(2 questions, 2 attributes, 4 labels)
        """
        must = "be a list of the names of questions"
        named = tuple(check_items("derived", derived, must))
        if not all(isinstance(name, str) for name in named):
            reject("derived", must)
        return cls(Questions.create(questions, named))

    @classmethod
    def strings(cls, max_bytes: int = 64, *, cut: bool = False) -> Self:
        """Records of one string each, of at most ``max_bytes`` bytes in UTF-8, that nobody has to list in advance.

        Longer strings are refused, or cut after the last character that fits. Needs the trust "shuffler-noise".

        >>> Schema.strings(max_bytes=80)
        Schema.strings(80 bytes)
        """
        return cls(Questions.single(Text(max_bytes, cut)))

    @property
    def named(self) -> bool:
        """True if the questions have names, so that a record is given as a mapping from these: a survey."""
        return self.questions.named

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that all questions are counted in.

        >>> Schema.at_most(2, 9).columns
        (Column(question='', start=0, size=9, rule='at_most', max_set=2),)
        >>> [one.size for one in Schema.one_hot(5).attributes], Schema.bits(3).attributes
        ([5], ())
        """
        return self.questions.columns

    @property
    def text(self) -> Text | None:
        """The question whose answers are strings that nobody listed, which is the only one of its schema."""
        return self.questions.only if isinstance(self.questions.only, Text) else None

    @property
    def form(self) -> str:
        """The constructor of the schema, which its JSON document names as its kind."""
        return "survey" if self.named else _FORMS[self.columns[0].rule]

    @property
    def max_set(self) -> int:
        """Largest number of bits set in a legal record."""
        return sum(one.max_set for one in self.columns)

    @property
    def width(self) -> int:
        """Number of bits in a record.

        >>> Schema.bits(40).width
        40
        """
        return len(self.labels)

    @property
    def extent(self) -> int:
        """The number that the size of a payload follows from: bits of a record, or bytes of the longest string."""
        return self.width if self.text is None else self.text.max_bytes

    @property
    def exclusive(self) -> bool:
        """True if every record has exactly one label, so that counts add up to n."""
        return not self.named and self.columns[0].rule == "one"

    @property
    def dense(self) -> bool:
        """True if any bits may be set, so that records are stored packed rather than as lists of set bits."""
        return self.columns[0].rule == "any"

    @property
    def min_set(self) -> int:
        """Smallest number of bits set in a legal record."""
        return len(self.attributes)

    @property
    def distance(self) -> int:
        """Largest Hamming distance between two legal records.

        >>> Schema.bits(5).distance, Schema.one_hot(5).distance, Schema.at_most(2, 9).distance
        (5, 2, 4)
        """
        return 2 if self.text is not None else min(2 * self.max_set, self.width)

    @property
    def size(self) -> int:
        """Number of legal records.

        >>> Schema.bits(5).size, Schema.one_hot(5).size, Schema.at_most(2, 5).size
        (32, 5, 16)
        """
        if self.text is not None:
            reject("the schema", "have labels, to count its legal records")
        return math.prod(one.legal for one in self.columns)

    @property
    def records_with_bit(self) -> int:
        """Number of legal records in which one given bit is set; not for surveys, where it depends on the bit.

        >>> Schema.bits(3).records_with_bit, Schema.one_hot(3).records_with_bit, Schema.at_most(2, 4).records_with_bit
        (4, 1, 4)
        """
        if self.named or self.text is not None:
            reject("the schema", "not be a survey, whose attributes differ, nor one of strings")
        return self.columns[0].legal_with_label

    @property
    def density(self) -> float:
        """Probability that a given bit of a uniform legal record is set: what a fake shows before it is flipped.

        >>> Schema.bits(5).density, Schema.one_hot(5).density, Schema.at_most(1, 4).density
        (0.5, 0.2, 0.2)
        """
        return float(Fraction(self.records_with_bit, self.size))

    @property
    def label_summary(self) -> str:
        """The number of labels and the first few of them, for error messages.

        >>> Schema.one_hot(["red", "green", "blue", "other"]).label_summary
        '4 labels: red, green, …'
        """
        return summarize_labels(self.labels)

    def to_document(self) -> dict[str, Json]:
        """Return the schema as a JSON object; the labels of a survey follow from its questions."""
        if self.named:
            return {"kind": self.form, **self.questions.to_document()}
        if self.text is not None:
            return {"kind": self.form, **self.text.to_document()}
        return {"kind": self.form, "labels": list(self.labels), "max_set": self.max_set}

    @classmethod
    def from_document(cls, value: Json, what: str = "the schema") -> Self:
        """Read a schema from a JSON object, as in ``{"kind": "one_hot", "labels": ["red", "blue"], "max_set": 1}``."""
        if isinstance(value, dict) and value.get("kind") == "survey":
            read = Fields(value, what, "kind", "questions", "derived")
            questions = Questions.from_document(read.items("questions"), read.texts("derived"), what)
            with legal(what):
                return cls(questions)
        if isinstance(value, dict) and value.get("kind") == "strings":
            limits = {key: part for key, part in value.items() if key != "kind"}
            return cls(Questions.single(Text.from_document(limits, what)))
        read = Fields(value, what, "kind", "labels", "max_set")
        kind, labels, max_set = read.text("kind"), read.texts("labels"), read.whole("max_set")
        with legal(what):
            check_choice("kind", kind, ("bits", "one_hot", "at_most"))
            if kind == "at_most":
                return cls.at_most(max_set, labels)
            schema = cls.bits(labels) if kind == "bits" else cls.one_hot(labels)
            if schema.max_set != max_set:
                reject("max_set", f"be {schema.max_set} for this kind of schema", max_set)
        return schema

    def __repr__(self) -> str:
        if self.text is not None:
            return f"Schema.strings({_counted(self.text.max_bytes, 'byte')}{', cut' if self.text.cut else ''})"
        limit = f"{self.max_set}, " if self.columns[0].rule == "at_most" else ""
        if self.named:
            limit = f"{_counted(len(self.questions), 'question')}, {_counted(self.max_set, 'attribute')}, "
        return f"Schema.{self.form}({limit}{self.width} label{'' if self.width == 1 else 's'})"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def choose_labels(labels: Iterable[str], known: Sequence[str], owner: str) -> tuple[str, ...]:
    """Return a selection of distinct labels as a tuple; a single string stands for one label.

    >>> choose_labels(["red", "mauve"], ("red", "green", "blue"), "the schema")
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: labels must be distinct labels of the schema (3 labels: red, green, …)
    """
    each = [labels] if isinstance(labels, str) else labels
    chosen = tuple(check_items("labels", each, f"be a list of labels of {owner}"))
    names = set(known)
    if not all(isinstance(label, str) and label in names for label in chosen) or len(set(chosen)) != len(chosen):
        reject("labels", f"be distinct labels of {owner} ({summarize_labels(known)})")
    return chosen
